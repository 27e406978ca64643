"""`torch._higher_order_ops`: ops that take functions, under torch's names and conventions."""

from __future__ import annotations

from ndgrad._higher_order_ops.associative_scan import associative_scan
from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad.control_flow import cond, while_loop

__all__ = ["associative_scan", "cond", "while_loop"]

_refuse_absent(__name__)
