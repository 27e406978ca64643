"""Exponentials and logarithms."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy

from ndgrad._src.arrays import native_kernels
from ndgrad._src.ops.table import elementwise

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload, Vocabulary

LN2, LN10 = math.log(2), math.log(10)

# ----- exponentials ---------------------------------------------------------------------------------------------------

exp = elementwise("exp", "exp", x=lambda t, out: t * out, kind="saturating")


def _exp2(np: Library, x: Payload) -> Payload:
    return np.exp(x * LN2) if x.dtype.kind == "c" else np.exp2(x)


exp2 = elementwise("exp2", _exp2, x=lambda t, out: t * (out * LN2))

expm1 = elementwise("expm1", "expm1", x=lambda t, out: t * out + t)

# ----- logarithms -----------------------------------------------------------------------------------------------------

log = elementwise("log", "log", x=lambda t, x: t / x)

log2 = elementwise("log2", "log2", x=lambda t, x: t / x * (1 / LN2))

log10 = elementwise("log10", "log10", x=lambda t, x: t / x * (1 / LN10))

log1p = elementwise("log1p", "log1p", x=lambda t, x: t / (x + 1.0), backward_name="Log1PBackward0")

# ----- log(exp(x) + exp(y)) -------------------------------------------------------------------------------------------

# The derivative with respect to x is exp(x) / (exp(x) + exp(y)), the sigmoid of x - y.

# exp(x) overflows for x above these bounds, and the sigmoid is 1 there.
_HIGHEST = {numpy.dtype(c): numpy.array(n, c) for c, n in {"d": 709.0, "f": 88.0}.items()}


def _odds(x: Payload, y: Payload, ops: Vocabulary) -> Any:
    """Return e = exp(x - y) and 1 + e on raw arrays, from which both derivatives follow.

    On tensors the derivatives are sigmoids, which are smooth to any order.
    """
    if not ops.raw or ops.np is not numpy:
        return None
    difference = x - y
    highest = _HIGHEST.get(difference.dtype)
    if highest is None:
        return None
    e = numpy.exp(numpy.minimum(difference, highest))
    return e, e + 1.0


@native_kernels.with_kernel("logaddexp")
def _logaddexp(np: Library, x: Payload, y: Payload) -> Payload:
    if np.result_type(x, y).kind != "c":
        return np.logaddexp(x, y)
    first = np.real(x) >= np.real(y)
    return np.where(first, x, y) + np.log1p(np.exp(np.where(first, y - x, x - y)))


logaddexp = elementwise(
    "logaddexp", _logaddexp, args="x y",
    shared=_odds,
    x=lambda t, x, y, shared, ops: t * ops.sigmoid(x - y) if shared is None else t * (shared[0] / shared[1]),
    y=lambda t, x, y, shared, ops: t * ops.sigmoid(y - x) if shared is None else t / shared[1],
)  # fmt: skip

logaddexp2 = elementwise(
    "logaddexp2", "logaddexp2", args="x y",
    x=lambda t, x, y, ops: t * ops.sigmoid((x - y) * LN2),
    y=lambda t, x, y, ops: t * ops.sigmoid((y - x) * LN2),
)  # fmt: skip

# ----- x log(y), which is 0 at x = 0 for every y ----------------------------------------------------------------------


def _multiply_log(np: Library, log: Any, x: Payload, y: Payload, one: float) -> Payload:
    """Return x log(y). If x is 0 and y is a number, y is replaced by `one`, where the logarithm is 0."""
    if isinstance(y, (int, float)):
        y = np.asarray(y, np.result_type(x, y))
    return x * log(np.where((x == 0) & (y == y), one, y))


def _times_log_x(t: Payload, x: Payload, y: Payload, log: Any, one: float, ops: Vocabulary) -> Payload:
    """Return log(y), or 0 if x is 0 and the logarithm is not finite: the function is constant there."""
    least = one - 1
    if isinstance(y, (int, float)):
        if y > least:
            return t * math.log(y + 1 - one)
        return t * ops.where(x == 0, 0.0, -math.inf if y == least else math.nan)
    constant = (x == 0) & (y <= least)
    return ops.keep(t * log(ops.where(constant, one, y)), ~constant)


xlogy = elementwise(
    "xlogy", lambda np, x, y: _multiply_log(np, np.log, x, y, 1.0), args="x y",
    x=lambda t, x, y, ops: _times_log_x(t, x, y, ops.log, 1.0, ops),
    y=lambda t, x, y: t * (x / y),
)  # fmt: skip

xlog1py = elementwise(
    "xlog1py", lambda np, x, y: _multiply_log(np, np.log1p, x, y, 0.0), args="x y",
    x=lambda t, x, y, ops: _times_log_x(t, x, y, ops.log1p, 0.0, ops),
    y=lambda t, x, y: t * (x / (y + 1.0)),
    backward_name="SpecialXlog1PyBackward0",
)  # fmt: skip
