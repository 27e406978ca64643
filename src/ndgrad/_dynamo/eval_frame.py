"""`torch._dynamo.eval_frame`: the class of compiled modules."""

from __future__ import annotations

from ndgrad._dynamo import OptimizedModule, disable, explain, optimize, reset
from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent

__all__ = ["OptimizedModule", "disable", "explain", "optimize", "reset"]

_refuse_absent(__name__)
