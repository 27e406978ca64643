"""Functions on boxes: `isbox` and `getval`, and the decorators of `extend` under their other path."""

from __future__ import annotations

from ndgrad.compat.autograd.boxes import is_box as isbox
from ndgrad.compat.autograd.boxes import value_of as getval
from ndgrad.compat.autograd.extend import notrace_primitive, primitive, register_notrace
from ndgrad.numpy._array import Array as Box

__all__ = ["Box", "getval", "isbox", "notrace_primitive", "primitive", "register_notrace"]
