"""Arithmetic: the ops behind Python's operators, and their close kin."""

from __future__ import annotations

import operator
from typing import Any

from ndgrad.ops.table import elementwise, op

# ----- the four operations -------------------------------------------------------------------------------------------

add = elementwise("add", operator.add, args="x y", x=lambda t: t, y=lambda t: t)

sub = elementwise("sub", operator.sub, args="x y", x=lambda t: t, y=lambda t: -t)

mul = elementwise("mul", operator.mul, args="x y", x=lambda t, y: t * y, y=lambda t, x: t * x)

div = elementwise(
    "div", operator.truediv, args="x y",
    x=lambda t, y: t / y,
    y=lambda t, x, y: -t * (x / y) / y,
)  # fmt: skip

neg = elementwise("neg", operator.neg, x=lambda t: -t)


# ----- powers ----------------------------------------------------------------------------------------------------------


def _pow_x(t: Any, x: Any, y: Any, ops: Any) -> Any:
    """y x^(y-1); where the exponent is 0 the derivative is 0, also at x = 0, where the formula would give 0 * inf."""
    if isinstance(y, (int, float)):
        return t * 0 if y == 0 else t * y if y == 1 else t * (2 * x) if y == 2 else t * (y * x ** (y - 1))
    return ops.where(y == 0, 0.0, t * y * x ** ops.where(y == 0, 1.0, y - 1))


def _pow_y(t: Any, x: Any, y: Any, out: Any, ops: Any) -> Any:
    """x^y log x; at x = 0 with y >= 0 the limit is 0."""
    if isinstance(x, (int, float)):
        return t * (out * 0) if x == 0 else t * out * ops.log(x + 0.0 * y)
    return ops.where((x == 0) & (ops.real(y) >= 0), 0.0, t * out * ops.log(ops.where(x == 0, 1.0, x)))


pow = elementwise("pow", operator.pow, args="x y", x=_pow_x, y=_pow_y)
