"""torch's `distributed.optim`: optimizers with state or parameters on several ranks."""

from __future__ import annotations

from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad.distributed.optim.optimizer import DistributedOptimizer
from ndgrad.distributed.optim.zero_redundancy import ZeroRedundancyOptimizer

__all__ = ["DistributedOptimizer", "ZeroRedundancyOptimizer"]

_refuse_absent(__name__)
