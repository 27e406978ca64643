"""Python's operators as ops of the table, for values that record the ops that are applied to them.

Bodies and rules are written with operators. Symbols of a formula (ndgrad._src.ops.formulas) and terms of a program
(ndgrad._src.compiler.passes.terms) share these, so a rule means the same on both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self


def _binary(op: str, swapped: bool = False) -> Callable[[Recorded, Any], Any]:
    if swapped:
        return lambda self, other: self._record(op, other, self)
    return lambda self, other: self._record(op, self, other)


def _unary(op: str) -> Callable[[Recorded], Any]:
    return lambda self: self._record(op, self)


class Recorded:
    """Base of values that record ops. Comparisons are elementwise, as for arrays."""

    __slots__ = ()

    def _record(self, op: str, *operands: Any) -> Self:
        """Record an op, and return the value of its result."""
        raise NotImplementedError

    __add__, __radd__ = _binary("add"), _binary("add", True)
    __sub__, __rsub__ = _binary("sub"), _binary("sub", True)
    __mul__, __rmul__ = _binary("mul"), _binary("mul", True)
    __truediv__, __rtruediv__ = _binary("div"), _binary("div", True)
    __pow__, __neg__, __abs__ = _binary("pow"), _unary("neg"), _unary("abs")
    __lt__, __le__, __gt__, __ge__ = _binary("lt"), _binary("le"), _binary("gt"), _binary("ge")
    __eq__, __ne__ = _binary("eq"), _binary("ne")
    __and__, __or__, __xor__ = _binary("logical_and"), _binary("logical_or"), _binary("logical_xor")
    __invert__ = _unary("logical_not")
    __hash__ = None  # type: ignore[assignment]
