"""Elementwise functions: NumPy's ufuncs with the standard's signatures.

A function of one array takes an array, a function of two takes arrays or Python numbers, which leave
the data type to the array.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ndgrad._src.core.variable import Variable, np_dtype
from ndgrad._src.ops import cast as cast_ops
from ndgrad.array_api.naming import BINARY, UNARY, like, make_unary, rename_function
from ndgrad.numpy import elementwise as ours
from ndgrad.numpy._array import Array
from ndgrad.numpy.coercion import as_array, with_dtype
from ndgrad.numpy.ufunc_objects import FUNCTIONS

if TYPE_CHECKING:
    from ndgrad._typing import ArrayLike

__all__ = [
    "abs", "acos", "acosh", "add", "asin", "asinh", "atan", "atan2", "atanh", "bitwise_and", "bitwise_invert",
    "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "ceil", "clip", "conj", "copysign", "cos",
    "cosh", "divide", "equal", "exp", "expm1", "floor", "floor_divide", "greater", "greater_equal", "hypot", "imag",
    "isfinite", "isinf", "isnan", "less", "less_equal", "log", "log10", "log1p", "log2", "logaddexp", "logical_and",
    "logical_not", "logical_or", "logical_xor", "maximum", "minimum", "multiply", "negative", "nextafter", "not_equal",
    "positive", "pow", "real", "reciprocal", "remainder", "round", "sign", "signbit", "sin", "sinh", "sqrt", "square",
    "subtract", "tan", "tanh", "trunc",
]  # fmt: skip


def _unary(name: str) -> Callable[[ArrayLike], Array]:
    ufunc = FUNCTIONS[name]

    def function(x: ArrayLike, /) -> Array:
        return ufunc(x if x.__class__ is Array else as_array(x))

    return rename_function(function, "ndgrad.array_api", name, ufunc, **UNARY)


def _binary(name: str) -> Callable[[ArrayLike, ArrayLike], Array]:
    ufunc = FUNCTIONS[name]

    def function(x1: ArrayLike, x2: ArrayLike, /) -> Array:
        if x1.__class__ is not Array and not isinstance(x2, Variable):
            x1 = as_array(x1)
        return ufunc(x1, x2)

    return rename_function(function, "ndgrad.array_api", name, ufunc, **BINARY)


# ----- arithmetic -----------------------------------------------------------------------------------------------------

add, subtract, multiply, divide = _binary("add"), _binary("subtract"), _binary("multiply"), _binary("divide")
floor_divide, remainder, pow = _binary("floor_divide"), _binary("remainder"), _binary("pow")
negative, positive, abs, sign = _unary("negative"), _unary("positive"), _unary("abs"), _unary("sign")
square, sqrt, reciprocal = _unary("square"), _unary("sqrt"), _unary("reciprocal")
copysign, hypot, nextafter = _binary("copysign"), _binary("hypot"), _binary("nextafter")
maximum, minimum = _binary("maximum"), _binary("minimum")

# ----- exponentials and angles ----------------------------------------------------------------------------------------

exp, expm1, log, log1p = _unary("exp"), _unary("expm1"), _unary("log"), _unary("log1p")
log2, log10, logaddexp = _unary("log2"), _unary("log10"), _binary("logaddexp")
sin, cos, tan = _unary("sin"), _unary("cos"), _unary("tan")
asin, acos, atan, atan2 = _unary("asin"), _unary("acos"), _unary("atan"), _binary("atan2")
sinh, cosh, tanh = _unary("sinh"), _unary("cosh"), _unary("tanh")
asinh, acosh, atanh = _unary("asinh"), _unary("acosh"), _unary("atanh")

# ----- comparisons and logic ------------------------------------------------------------------------------------------

equal, not_equal, less, less_equal = _binary("equal"), _binary("not_equal"), _binary("less"), _binary("less_equal")
greater, greater_equal = _binary("greater"), _binary("greater_equal")
isfinite, isinf, isnan, signbit = _unary("isfinite"), _unary("isinf"), _unary("isnan"), _unary("signbit")
logical_and, logical_or, logical_xor = _binary("logical_and"), _binary("logical_or"), _binary("logical_xor")
logical_not, bitwise_invert = _unary("logical_not"), _unary("bitwise_invert")
bitwise_and, bitwise_or, bitwise_xor = _binary("bitwise_and"), _binary("bitwise_or"), _binary("bitwise_xor")
bitwise_left_shift, bitwise_right_shift = _binary("bitwise_left_shift"), _binary("bitwise_right_shift")

# ----- rounding and bounds --------------------------------------------------------------------------------------------

floor, ceil, trunc = _unary("floor"), _unary("ceil"), _unary("trunc")


@like(
    ours.clip,
    min="lower bound, which broadcasts with the array. None means no bound.",
    max="upper bound, which broadcasts with the array. None means no bound.",
)
def clip(x: ArrayLike, /, min: ArrayLike | None = None, max: ArrayLike | None = None) -> Array:
    t = as_array(x)
    if min is None and max is None:
        return cast_ops.clone(t)
    return with_dtype(ours.clip(t, min, max), np_dtype(t))


# ----- complex numbers ------------------------------------------------------------------------------------------------

real, imag, round, conj = make_unary(ours.real), make_unary(ours.imag), make_unary(ours.round), _unary("conj")
