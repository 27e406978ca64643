"""torch's `distributed.optim`: optimizers whose state is divided among ranks."""

from __future__ import annotations

from ndgrad.absent import refuse_absent as _refuse_absent
from ndgrad.distributed.optim.zero_redundancy import ZeroRedundancyOptimizer

__all__ = ["ZeroRedundancyOptimizer"]

_refuse_absent(__name__)
