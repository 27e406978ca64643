"""torch's name for the module of `parallelize_module`."""

from __future__ import annotations

from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad.distributed.tensor.parallel.parallelize import parallelize_module

__all__ = ["parallelize_module"]

_refuse_absent(__name__)
