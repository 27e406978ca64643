"""Arithmetic: the ops behind Python's operators, and related functions.

The constraint: these are the most common ops of all. So forwards are Python's own operators if they exist, because
these are faster than ufuncs on NumPy scalars. Rules avoid Python numbers, which cost more to convert than a small array
costs to multiply.
"""

from __future__ import annotations

import cmath
import math
import operator
from typing import TYPE_CHECKING, Any

import numpy

from ndgrad._src.arrays import native_kernels
from ndgrad._src.arrays.precision import FLOATING, INEXACT, finfo
from ndgrad._src.ops.composite import composite_elementwise
from ndgrad._src.ops.table import elementwise

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload, Vocabulary

_NUMBERS = (int, float, complex)

# ----- the four operations -------------------------------------------------------------------------------------------

add = elementwise(
    "add", operator.add, args="x y", x=lambda t: t, y=lambda t: t, commutes=True, rounds_once=True, cost=1,
    linear_in=["x y"], takes_numbers=True, rises_in="x y",
)

sub = elementwise(
    "sub",
    operator.sub,
    args="x y",
    x=lambda t: t,
    y=lambda t: -t,
    refuses_bool=(
        "Subtraction, the `-` operator, with a bool tensor is not supported. "
        "Use the `^` or `logical_xor()` operator instead."
    ),
    rounds_once=True, cost=1,
    linear_in=["x y"], takes_numbers=True, rises_in="x", falls_in="y",
)

mul = elementwise(
    "mul", operator.mul, args="x y",
    x=lambda t, y: t * y,
    y=lambda t, x: t * x,
    kind="product", commutes=True, rounds_once=True, cost=1, linear_in=["x", "y"], takes_numbers=True,
)  # fmt: skip

# t / y could be shared, but then the second rule would be infinite, or NaN at x = 0, if the first one overflows.
div = elementwise(
    "div", operator.truediv, args="x y",
    x=lambda t, y: t / y,
    y=lambda t, x, y: -t * (x / y / y),
    kind="product", rounds_once=True, cost=4, linear_in=["x"], takes_numbers=True,
)  # fmt: skip


def may_vanish(x: Payload, ops: Vocabulary) -> bool:
    """True if some element is 0, or if the values cannot be inspected.

    A tensor may be traced, and inspecting a GPU array would wait for the device.
    """
    return not ops.raw or ops.np is not numpy or numpy.count_nonzero(x) != x.size


neg = elementwise(
    "neg",
    operator.neg,
    x=lambda t: -t,
    refuses_bool=(
        "Negation, the `-` operator, on a bool tensor is not supported. "
        "Use the `~` or `logical_not()` operator instead."
    ),
    moves_values=True,
    rounds_once=True, cost=1,
    linear_in=["x"], falls_in="x",
)


def _reciprocal(np: Library, x: Payload) -> Payload:
    """Return 1 / x. For integers numpy.reciprocal would round the result to an integer."""
    return np.reciprocal(x) if x.dtype.kind in INEXACT else 1.0 / x


reciprocal = elementwise("reciprocal", _reciprocal, x=lambda t, out: -t * out * out)


# ----- division with remainder ---------------------------------------------------------------------------------------

# x = quotient * y + remainder. The quotient is constant between its jumps, so the remainder's derivative is 1 with
# respect to x and minus the quotient with respect to y.

floor_divide = elementwise(
    "floor_divide", operator.floordiv, args="x y", takes_numbers=True,
    x=lambda t, ops: ops.zeros_like(t),
    y=lambda t, ops: ops.zeros_like(t),
    kind="step", piecewise_linear=True,
)  # fmt: skip


def _trunc_divide(np: Library, x: Payload, y: Payload) -> Payload:
    if np.result_type(x, y).kind in "iu":
        return (x - np.fmod(x, y)) // y  # exact for large integers, unlike a quotient of floats
    return np.trunc(x / y)


trunc_divide = elementwise(
    "trunc_divide", _trunc_divide, args="x y", takes_numbers=True,
    x=lambda t, ops: ops.zeros_like(t),
    y=lambda t, ops: ops.zeros_like(t),
    backward_name="DivBackward3",
    kind="step", piecewise_linear=True, aten_name="div",
)  # fmt: skip

remainder = elementwise("remainder", operator.mod, args="x y", x=lambda t: t, y=lambda t, x, y: t * -(x // y),
    piecewise_linear=True)

fmod = elementwise(
    "fmod", native_kernels.with_kernel("fmod")(lambda np, x, y: np.fmod(x, y)), args="x y",
    x=lambda t: t,
    y=lambda t, x, y, ops: t * -ops.trunc(x / y),
    piecewise_linear=True,
)  # fmt: skip


# ----- powers ---------------------------------------------------------------------------------------------------------


def _pow_x(t: Payload, x: Payload, exponent: Any, ops: Vocabulary) -> Payload:
    """Return y x^(y-1). If the exponent y is 0 the derivative is 0, even if the formula gives 0 * inf or 0 * NaN."""
    if isinstance(exponent, _NUMBERS):
        if exponent == 2:
            return t * (x + x)
        if exponent == 0:
            return ops.zeros_like(t)
        return t if exponent == 1 else t * (ops.pow(x, exponent - 1) * (exponent + 0.0))
    if not may_vanish(exponent, ops):
        return t * (exponent * x ** (exponent - 1.0))
    constant = (exponent == 0) & (_has_no_reciprocal(x) | (x != x))
    return ops.keep(t * (exponent * x ** ops.where(constant, 1.0, exponent - 1)), ~constant)


def _has_no_reciprocal(x: Any) -> Any:
    """True for elements with infinite 1 / x: at 0, and so close to it that the quotient overflows."""
    if isinstance(x, _NUMBERS):
        return x == 0
    return abs(x) < float(finfo(getattr(x.dtype, "numpy", x.dtype)).tiny) / 4


def _pow_exponent(t: Payload, x: Payload, exponent: Any, out: Payload, ops: Vocabulary) -> Payload:
    """Return x^y log x. At x = 0 with y >= 0 the limit is 0."""
    if isinstance(x, _NUMBERS):
        if x == 0:
            size = ops.real(exponent) if is_complex(exponent) else exponent
            return t * ops.where(size >= 0, 0.0, size - math.inf)
        return t * (out * _log(x, is_complex(exponent)))
    if not may_vanish(x, ops):
        return t * (out * ops.log(x))
    size = ops.real(exponent) if is_complex(exponent) else exponent
    constant = (x == 0) & (size >= 0)
    return ops.keep(t * (out * ops.log(ops.where(constant, 1.0, x))), ~constant)


def is_complex(value: Any) -> bool:
    """True if a number, an array or a tensor is complex."""
    dtype = getattr(value, "dtype", None)
    if dtype is None:
        return isinstance(value, complex)
    return dtype.kind == "c" if hasattr(dtype, "kind") else bool(dtype.is_complex)


def _log(x: complex, may_be_complex: bool) -> complex:
    """Return the logarithm of a nonzero number: NaN for a negative number, unless the result may be complex."""
    if isinstance(x, complex) or (x < 0 and may_be_complex):
        return cmath.log(x)
    return math.log(x) if x > 0 else math.nan


def _pow(x: Any, exponent: Any) -> Any:
    """Return x ** exponent.

    NumPy has fast paths for the exponents -1, 0.5, 1 and 2. Products make a few more a hundred times faster.
    """
    if exponent.__class__ in (int, float):
        if exponent == 3:
            return x * x * x
        if exponent == 4:
            return operator.pow(x * x, 2)
        if exponent == -0.5 and x.dtype.kind in FLOATING:
            return 1.0 / x**0.5
        if exponent == -2 and x.dtype.kind in FLOATING:
            return 1.0 / (x * x)
        if exponent in (-1, 0.5, 1, 2):
            return x**exponent
    return _power(numpy, x, exponent)


@native_kernels.with_kernel("pow")
def _power(np: Library, x: Any, exponent: Any) -> Any:
    return x**exponent


pow = elementwise("pow", _pow, args="x exponent", x=_pow_x, exponent=_pow_exponent, may_raise="iu")

square = elementwise("square", "square", x=lambda t, x: t * (x + x), backward_name="PowBackward0", cost=1)

sqrt = elementwise("sqrt", "sqrt", x=lambda t, out: t / (out + out), rounds_once=True)

rsqrt = elementwise(
    "rsqrt", lambda np, x: np.reciprocal(np.sqrt(x)),
    x=lambda t, out: t * (out * out * out * -0.5),
)  # fmt: skip

cbrt = elementwise("cbrt", "cbrt", x=lambda t, out: t / (out * out * 3.0))


def _ldexp(np: Library, x: Payload, y: Payload) -> Payload:
    """Return x 2^y, in the dtype of x if y is an integer."""
    if isinstance(y, float):
        return x * 2.0**y
    if isinstance(y, int) or y.dtype.kind in "iu":
        return np.ldexp(x, y)
    return x * np.exp2(y)


ldexp = elementwise(
    "ldexp", _ldexp, args="x y",
    x=lambda t, y, ops: ops.ldexp(t, y),
    y=lambda t, out: t * (out * math.log(2)),
    promotes="",
)  # fmt: skip


# ----- three operands ------------------------------------------------------------------------------------------------


def _scale(x: Any, value: Any) -> Any:
    return x if value == 1 else x * value


addcmul = elementwise(
    "addcmul", lambda x, tensor1, tensor2, *, value: x + _scale(tensor1, value) * tensor2,
    args="x tensor1 tensor2", settings={"value": 1},
    x=lambda t: t,
    tensor1=lambda t, tensor2, value: _scale(t * tensor2, value),
    tensor2=lambda t, tensor1, value: _scale(t * tensor1, value),
)  # fmt: skip

addcdiv = elementwise(
    "addcdiv", lambda x, tensor1, tensor2, *, value: x + _scale(tensor1, value) / tensor2,
    args="x tensor1 tensor2", settings={"value": 1},
    x=lambda t: t,
    tensor1=lambda t, tensor2, value: _scale(t / tensor2, value),
    tensor2=lambda t, tensor1, tensor2, value: -_scale(t * (tensor1 / tensor2) / tensor2, value),
)  # fmt: skip


def _lerp(x: Payload, end: Any, weight: Payload, ops: Vocabulary) -> Payload:
    """Interpolate from the nearer end, so that weight 1 gives `end` exactly and rounding never leaves the interval."""
    distance = end - x
    return ops.where(ops.abs(weight) < 0.5, x + distance * weight, end - distance * (1.0 - weight))


lerp = composite_elementwise(
    "lerp", _lerp, args="x end weight",
    x=lambda t, weight: t - t * weight,
    end=lambda t, weight: t * weight,
    weight=lambda t, x, end: t * (end - x),
)  # fmt: skip
