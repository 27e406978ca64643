"""Elementwise functions that are exactly ops of the table: their names, signatures and docstrings, under torch's
names.

Functions with further arguments, and functions made of several ops, are in `elementwise` and `comparison`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ndgrad._src.ops import (
    activation,
    arithmetic,
    bitwise,
    comparison,
    error_function,
    exponential,
    rounding,
    selection,
    trigonometric,
)
from ndgrad._src.ops import complex as complex_ops
from ndgrad._src.tensor.public import in_place, pointwise

if TYPE_CHECKING:
    from ndgrad._typing import Number, Tensor, TensorLike

__all__ = [
    "mul", "neg", "reciprocal", "floor_divide", "remainder", "fmod", "pow", "square", "sqrt", "rsqrt", "cbrt",
    "ldexp", "addcmul", "addcdiv", "lerp", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "logaddexp",
    "logaddexp2", "xlogy", "erf", "erfc", "erfinv", "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "hypot",
    "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "deg2rad", "rad2deg", "abs", "angle", "floor", "ceil",
    "trunc", "round", "frac", "copysign", "heaviside", "nextafter", "maximum", "minimum", "fmax", "fmin",
    "clamp_min", "clamp_max", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "bitwise_left_shift",
    "bitwise_right_shift", "sigmoid", "relu", "eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or",
    "logical_xor", "logical_not", "isnan", "isinf", "isfinite", "isreal", "signbit",
]  # fmt: skip


@pointwise(arithmetic.mul)
def mul(input: Tensor, other: TensorLike, *, out: Tensor | None = None) -> Tensor:
    """Multiply two tensors, element by element.

    Args:
        input: first factor.
        other: second factor, a tensor or number that broadcasts with `input`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.mul(ndgrad.tensor([1.0, 2.0, 3.0]), ndgrad.tensor([4.0, 5.0, 6.0]))
    tensor([ 4., 10., 18.])
    """


@pointwise(arithmetic.neg)
def neg(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the negative of each element.

    Args:
        input: input tensor, not bool.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.neg(ndgrad.tensor([1.0, -2.0]))
    tensor([-1.,  2.])
    """


@pointwise(arithmetic.reciprocal)
def reciprocal(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return `1 / input`, element by element.

    Args:
        input: input tensor.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.reciprocal(ndgrad.tensor([1.0, 2.0, 4.0]))
    tensor([1.0000, 0.5000, 0.2500])
    """


@pointwise(arithmetic.floor_divide)
def floor_divide(input: Tensor, other: TensorLike, *, out: Tensor | None = None) -> Tensor:
    """The quotient `input / other`, rounded down. Its derivative is zero.

    Args:
        input: dividend.
        other: divisor, a tensor or number that broadcasts with `input`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.floor_divide(ndgrad.tensor([7.0, -7.0]), 2.0)
    tensor([ 3., -4.])
    """


@pointwise(arithmetic.remainder)
def remainder(input: Tensor, other: TensorLike, *, out: Tensor | None = None) -> Tensor:
    """The remainder of `floor_divide`: it has the sign of `other`, like Python's `%`.

    Args:
        input: dividend.
        other: divisor, a tensor or number that broadcasts with `input`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.remainder(ndgrad.tensor([7.0, -7.0]), 3.0)
    tensor([1., 2.])
    """


@pointwise(arithmetic.fmod)
def fmod(input: Tensor, other: TensorLike, *, out: Tensor | None = None) -> Tensor:
    """The remainder of the quotient rounded towards zero: it has the sign of `input`, like C's `fmod`.

    Args:
        input: dividend.
        other: divisor, a tensor or number that broadcasts with `input`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.fmod(ndgrad.tensor([7.0, -7.0]), 3.0)
    tensor([ 1., -1.])
    """


@pointwise(arithmetic.pow)
def pow(input: Tensor, exponent: TensorLike, *, out: Tensor | None = None) -> Tensor:
    """Raise each element to a power: `input ** exponent`. The derivative with respect to the exponent is 0 if the base
    is 0.

    Args:
        input: bases.
        exponent: exponents, a tensor or number that broadcasts with `input`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.pow(ndgrad.tensor([2.0, 3.0]), 2.0)
    tensor([4., 9.])
    """


@pointwise(arithmetic.square)
def square(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the square of each element.

    Args:
        input: input tensor.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.square(ndgrad.tensor([2.0, -3.0]))
    tensor([4., 9.])
    """


@pointwise(arithmetic.sqrt)
def sqrt(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The square root: NaN below zero, and an infinite derivative at zero.

    Args:
        input: input tensor.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.sqrt(ndgrad.tensor([4.0, 9.0]))
    tensor([2., 3.])
    """


@pointwise(arithmetic.rsqrt)
def rsqrt(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return `1 / sqrt(input)`, element by element.

    Args:
        input: tensor of positive elements.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.rsqrt(ndgrad.tensor([4.0, 16.0]))
    tensor([0.5000, 0.2500])
    """


@pointwise(arithmetic.cbrt)
def cbrt(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The cube root, real for negative numbers too.

    Args:
        input: input tensor.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.cbrt(ndgrad.tensor([2.0, -5.0]))
    tensor([ 1.2599, -1.7100])
    """


@pointwise(arithmetic.ldexp)
def ldexp(input: Tensor, other: TensorLike, *, out: Tensor | None = None) -> Tensor:
    """Return `input * 2 ** other`, element by element.

    Args:
        input: factors.
        other: exponents, which broadcast with `input`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.ldexp(ndgrad.tensor([1.0, 3.0]), ndgrad.tensor([2, 4]))
    tensor([ 4., 48.])
    """


@pointwise(arithmetic.addcmul)
def addcmul(
    input: Tensor, tensor1: TensorLike, tensor2: TensorLike, *, value: Number = 1, out: Tensor | None = None
) -> Tensor:
    """Add a scaled product: `input + value * tensor1 * tensor2`.

    Args:
        input: tensor to which the product is added.
        tensor1: first factor, which broadcasts with the others.
        tensor2: second factor, which broadcasts with the others.
        value: scale of the product.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.addcmul(ndgrad.tensor([1.0, 1.0]), ndgrad.tensor([2.0, 3.0]), ndgrad.tensor([4.0, 5.0]))
    tensor([ 9., 16.])
    """


@pointwise(arithmetic.addcdiv)
def addcdiv(
    input: Tensor, tensor1: TensorLike, tensor2: TensorLike, *, value: Number = 1, out: Tensor | None = None
) -> Tensor:
    """Add a scaled quotient: `input + value * tensor1 / tensor2`.

    Args:
        input: tensor to which the quotient is added.
        tensor1: dividend, which broadcasts with the others.
        tensor2: divisor, which broadcasts with the others.
        value: scale of the quotient.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.addcdiv(ndgrad.tensor([1.0, 1.0]), ndgrad.tensor([6.0, 9.0]), ndgrad.tensor([2.0, 3.0]))
    tensor([4., 4.])
    """


@pointwise(arithmetic.lerp)
def lerp(input: Tensor, end: TensorLike, weight: TensorLike, *, out: Tensor | None = None) -> Tensor:
    """The point at `weight` on the line from `input` (weight 0) to `end` (weight 1).

    Args:
        input: points at weight 0.
        end: points at weight 1, which broadcast with `input`.
        weight: weight of `end`, a tensor or number that broadcasts with `input`. It may be outside of 0 to 1.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.lerp(ndgrad.tensor([0.0, 10.0]), ndgrad.tensor([10.0, 20.0]), 0.25)
    tensor([ 2.5000, 12.5000])
    """


@pointwise(exponential.exp)
def exp(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """e to the power of each element.

    Args:
        input: input tensor.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.exp(ndgrad.tensor([0.0, 1.0]))
    tensor([1.0000, 2.7183])
    """


@pointwise(exponential.exp2)
def exp2(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """2 to the power of each element.

    Args:
        input: input tensor.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.exp2(ndgrad.tensor([0.0, 0.5]))
    tensor([1.0000, 1.4142])
    """


@pointwise(exponential.expm1)
def expm1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return `exp(input) - 1`, exact for small numbers.

    Args:
        input: input tensor.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.expm1(ndgrad.tensor([0.0, 1e-8]))
    tensor([0.0000e+00, 1.0000e-08])
    """


@pointwise(exponential.log)
def log(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The natural logarithm: NaN below zero, minus infinity at zero.

    Args:
        input: input tensor.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.log(ndgrad.tensor([1.0, 10.0]))
    tensor([0.0000, 2.3026])
    """


@pointwise(exponential.log2)
def log2(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The logarithm to base 2.

    Args:
        input: input tensor.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.log2(ndgrad.tensor([1.0, 10.0]))
    tensor([0.0000, 3.3219])
    """


@pointwise(exponential.log10)
def log10(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The logarithm to base 10.

    Args:
        input: input tensor.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.log10(ndgrad.tensor([1.0, 50.0]))
    tensor([0.0000, 1.6990])
    """


@pointwise(exponential.log1p)
def log1p(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return `log(1 + input)`, exact for small numbers.

    Args:
        input: tensor of elements from -1 on.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.log1p(ndgrad.tensor([0.0, 1e-8]))
    tensor([0.0000e+00, 1.0000e-08])
    """


@pointwise(exponential.logaddexp)
def logaddexp(input: Tensor, other: TensorLike, *, out: Tensor | None = None) -> Tensor:
    """Return `log(exp(input) + exp(other))`, which overflows only if the result does.

    Args:
        input: first term.
        other: second term, which broadcasts with `input`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.logaddexp(ndgrad.tensor([1000.0, 0.0]), ndgrad.tensor([1000.0, 0.0]))
    tensor([1.0007e+03, 6.9315e-01])
    """


@pointwise(exponential.logaddexp2)
def logaddexp2(input: Tensor, other: TensorLike, *, out: Tensor | None = None) -> Tensor:
    """Return `log2(2 ** input + 2 ** other)`, which overflows only if the result does.

    Args:
        input: first term.
        other: second term, which broadcasts with `input`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.logaddexp2(ndgrad.tensor([3.0, 0.0]), ndgrad.tensor([3.0, 0.0]))
    tensor([4., 1.])
    """


@pointwise(exponential.xlogy)
def xlogy(input: Tensor, other: TensorLike, *, out: Tensor | None = None) -> Tensor:
    """Return `input * log(other)`, which is 0 if `input` is 0, unless `other` is NaN.

    Args:
        input: factors.
        other: arguments of the logarithm, a tensor or number that broadcasts with `input`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.xlogy(ndgrad.tensor([0.0, 2.0]), ndgrad.tensor([0.0, 3.0]))
    tensor([0.0000, 2.1972])
    """


@pointwise(error_function.erf)
def erf(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The error function: 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to the element.

    Args:
        input: input tensor.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.erf(ndgrad.tensor([0.0, 1.0]))
    tensor([0.0000, 0.8427])
    """


@pointwise(error_function.erfc)
def erfc(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the complementary error function `1 - erf(input)`, exact for tiny results.

    Args:
        input: input tensor.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.erfc(ndgrad.tensor([0.0, 5.0]))
    tensor([1.0000e+00, 1.5375e-12])
    """


@pointwise(error_function.erfinv)
def erfinv(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The inverse of `erf`, between -1 and 1.

    Args:
        input: tensor of elements from -1 to 1.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.erfinv(ndgrad.tensor([0.0, 0.5]))
    tensor([0.0000, 0.4769])
    """


@pointwise(trigonometric.sin)
def sin(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The sine of angles in radians.

    Args:
        input: angles in radians.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.sin(ndgrad.tensor([0.0, 1.0]))
    tensor([0.0000, 0.8415])
    """


@pointwise(trigonometric.cos)
def cos(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The cosine of angles in radians.

    Args:
        input: angles in radians.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.cos(ndgrad.tensor([0.0, 1.0]))
    tensor([1.0000, 0.5403])
    """


@pointwise(trigonometric.tan)
def tan(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The tangent of angles in radians.

    Args:
        input: angles in radians.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.tan(ndgrad.tensor([0.0, 1.0]))
    tensor([0.0000, 1.5574])
    """


@pointwise(trigonometric.asin)
def asin(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The angle in radians, from -pi/2 to pi/2, that has this sine.

    Args:
        input: sines, from -1 to 1.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.asin(ndgrad.tensor([0.0, 1.0]))
    tensor([0.0000, 1.5708])
    """


@pointwise(trigonometric.acos)
def acos(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The angle in radians, from 0 to pi, that has this cosine.

    Args:
        input: cosines, from -1 to 1.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.acos(ndgrad.tensor([0.0, 1.0]))
    tensor([1.5708, 0.0000])
    """


@pointwise(trigonometric.atan)
def atan(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The angle in radians, from -pi/2 to pi/2, that has this tangent.

    Args:
        input: tangents.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.atan(ndgrad.tensor([0.0, 1.0]))
    tensor([0.0000, 0.7854])
    """


@pointwise(trigonometric.atan2)
def atan2(input: Tensor, other: TensorLike, *, out: Tensor | None = None) -> Tensor:
    """The angle in radians of the point (other, input), in all four quadrants.

    Args:
        input: y coordinates.
        other: x coordinates, which broadcast with `input`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.atan2(ndgrad.tensor([1.0, -1.0]), ndgrad.tensor([1.0, -1.0]))
    tensor([ 0.7854, -2.3562])
    """


@pointwise(trigonometric.hypot)
def hypot(input: Tensor, other: TensorLike, *, out: Tensor | None = None) -> Tensor:
    """The length of the hypotenuse, `sqrt(input**2 + other**2)`, which overflows only if the result does.

    Args:
        input: first side.
        other: second side, which broadcasts with `input`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.hypot(ndgrad.tensor([3.0, 5.0]), ndgrad.tensor([4.0, 12.0]))
    tensor([ 5., 13.])
    """


@pointwise(trigonometric.sinh)
def sinh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The hyperbolic sine.

    Args:
        input: input tensor.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.sinh(ndgrad.tensor([0.0, 1.0]))
    tensor([0.0000, 1.1752])
    """


@pointwise(trigonometric.cosh)
def cosh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The hyperbolic cosine.

    Args:
        input: input tensor.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.cosh(ndgrad.tensor([0.0, 1.0]))
    tensor([1.0000, 1.5431])
    """


@pointwise(trigonometric.tanh)
def tanh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The hyperbolic tangent.

    Args:
        input: input tensor.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.tanh(ndgrad.tensor([0.0, 1.0]))
    tensor([0.0000, 0.7616])
    """


@pointwise(trigonometric.asinh)
def asinh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The inverse hyperbolic sine.

    Args:
        input: input tensor.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.asinh(ndgrad.tensor([0.0, 1.0]))
    tensor([0.0000, 0.8814])
    """


@pointwise(trigonometric.acosh)
def acosh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The inverse hyperbolic cosine, for numbers from 1 on.

    Args:
        input: tensor of elements from 1 on.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.acosh(ndgrad.tensor([1.0, 2.0]))
    tensor([0.0000, 1.3170])
    """


@pointwise(trigonometric.atanh)
def atanh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The inverse hyperbolic tangent, between -1 and 1.

    Args:
        input: tensor of elements from -1 to 1.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.atanh(ndgrad.tensor([0.0, 0.5]))
    tensor([0.0000, 0.5493])
    """


@pointwise(trigonometric.deg2rad)
def deg2rad(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Convert degrees to radians.

    Args:
        input: angles in degrees.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.deg2rad(ndgrad.tensor([180.0, 90.0]))
    tensor([3.1416, 1.5708])
    """


@pointwise(trigonometric.rad2deg)
def rad2deg(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Convert radians to degrees.

    Args:
        input: angles in radians.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.rad2deg(ndgrad.tensor([3.14159265, 1.57079633]))
    tensor([180.,  90.])
    """


@pointwise(complex_ops.abs)
def abs(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The absolute value; for complex numbers, the magnitude. The derivative at 0 is 0.

    Args:
        input: input tensor.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.abs(ndgrad.tensor([-1.0, 2.0]))
    tensor([1., 2.])
    """


@pointwise(complex_ops.angle)
def angle(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The angle of complex numbers in radians; for real numbers 0, or pi if negative.

    Args:
        input: real or complex tensor.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.angle(ndgrad.tensor([1.0, -1.0]))
    tensor([0.0000, 3.1416])
    """


@pointwise(rounding.floor)
def floor(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The largest integer not above the element. Its derivative is zero.

    Args:
        input: input tensor.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.floor(ndgrad.tensor([1.5, -1.5]))
    tensor([ 1., -2.])
    """


@pointwise(rounding.ceil)
def ceil(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The smallest integer not below the element. Its derivative is zero.

    Args:
        input: input tensor.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.ceil(ndgrad.tensor([1.5, -1.5]))
    tensor([ 2., -1.])
    """


@pointwise(rounding.trunc)
def trunc(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The integer part, rounded towards zero. Its derivative is zero.

    Args:
        input: input tensor.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.trunc(ndgrad.tensor([1.5, -1.5]))
    tensor([ 1., -1.])
    """


@pointwise(rounding.round)
def round(input: Tensor, *, decimals: int = 0, out: Tensor | None = None) -> Tensor:
    """Round to `decimals` decimals, halves to even. Its derivative is zero.

    Args:
        input: input tensor.
        decimals: number of decimals. Negative numbers round to tens, hundreds and so on.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.round(ndgrad.tensor([0.5, 1.5, 2.25]))
    tensor([0., 2., 2.])
    """


@pointwise(rounding.frac)
def frac(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The fractional part: the element minus `trunc` of it.

    Args:
        input: input tensor.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.frac(ndgrad.tensor([1.5, -1.5]))
    tensor([ 0.5000, -0.5000])
    """


@pointwise(rounding.copysign)
def copysign(input: Tensor, other: TensorLike, *, out: Tensor | None = None) -> Tensor:
    """The magnitude of `input` with the sign of `other`.

    Args:
        input: magnitudes.
        other: signs, a tensor or number that broadcasts with `input`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.copysign(ndgrad.tensor([1.0, 2.0]), ndgrad.tensor([-1.0, 1.0]))
    tensor([-1.,  2.])
    """


@pointwise(rounding.heaviside)
def heaviside(input: Tensor, values: TensorLike, *, out: Tensor | None = None) -> Tensor:
    """The step function: 0 for negative numbers, 1 for positive ones, `values` at zero.

    Args:
        input: real tensor.
        values: results at zero, which broadcast with `input`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.heaviside(ndgrad.tensor([-1.0, 0.0, 2.0]), ndgrad.tensor([0.5, 0.5, 0.5]))
    tensor([0.0000, 0.5000, 1.0000])
    """


@pointwise(rounding.nextafter)
def nextafter(input: Tensor, other: TensorLike, *, out: Tensor | None = None) -> Tensor:
    """The next floating-point number from `input` towards `other`.

    Args:
        input: starting points.
        other: targets, which broadcast with `input`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.nextafter(ndgrad.tensor([1.0]), ndgrad.tensor([2.0]))
    tensor([1.0000])
    """


@pointwise(selection.maximum)
def maximum(input: Tensor, other: TensorLike, *, out: Tensor | None = None) -> Tensor:
    """The larger of two elements; NaN if either is NaN. Equal elements share the gradient.

    Args:
        input: first candidates.
        other: second candidates, which broadcast with `input`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.maximum(ndgrad.tensor([1.0, 5.0]), ndgrad.tensor([3.0, 2.0]))
    tensor([3., 5.])
    """


@pointwise(selection.minimum)
def minimum(input: Tensor, other: TensorLike, *, out: Tensor | None = None) -> Tensor:
    """The smaller of two elements; NaN if either is NaN. Equal elements share the gradient.

    Args:
        input: first candidates.
        other: second candidates, which broadcast with `input`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.minimum(ndgrad.tensor([1.0, 5.0]), ndgrad.tensor([3.0, 2.0]))
    tensor([1., 2.])
    """


@pointwise(selection.fmax)
def fmax(input: Tensor, other: TensorLike, *, out: Tensor | None = None) -> Tensor:
    """The larger of two elements; a NaN is ignored.

    Args:
        input: first candidates.
        other: second candidates, which broadcast with `input`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.fmax(ndgrad.tensor([1.0, float('nan')]), ndgrad.tensor([3.0, 2.0]))
    tensor([3., 2.])
    """


@pointwise(selection.fmin)
def fmin(input: Tensor, other: TensorLike, *, out: Tensor | None = None) -> Tensor:
    """The smaller of two elements; a NaN is ignored.

    Args:
        input: first candidates.
        other: second candidates, which broadcast with `input`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.fmin(ndgrad.tensor([1.0, float('nan')]), ndgrad.tensor([3.0, 2.0]))
    tensor([1., 2.])
    """


@pointwise(selection.clamp_min)
def clamp_min(input: Tensor, min: TensorLike, *, out: Tensor | None = None) -> Tensor:
    """Replace elements below `min` by it.

    Args:
        input: input tensor.
        min: lower bound, a tensor or number that broadcasts with `input`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.clamp_min(ndgrad.tensor([-1.0, 2.0]), 0.0)
    tensor([0., 2.])
    """


@pointwise(selection.clamp_max)
def clamp_max(input: Tensor, max: TensorLike, *, out: Tensor | None = None) -> Tensor:
    """Replace elements above `max` by it.

    Args:
        input: input tensor.
        max: upper bound, a tensor or number that broadcasts with `input`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.clamp_max(ndgrad.tensor([-1.0, 2.0]), 0.0)
    tensor([-1.,  0.])
    """


@pointwise(bitwise.bitwise_and)
def bitwise_and(input: Tensor, other: TensorLike, *, out: Tensor | None = None) -> Tensor:
    """Bitwise and; for booleans, logical and.

    Args:
        input: tensor of integers or bools.
        other: integers or bools, which broadcast with `input`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.bitwise_and(ndgrad.tensor([5, 6]), ndgrad.tensor([3, 3]))
    tensor([1, 2])
    """


@pointwise(bitwise.bitwise_or)
def bitwise_or(input: Tensor, other: TensorLike, *, out: Tensor | None = None) -> Tensor:
    """Bitwise or; for booleans, logical or.

    Args:
        input: tensor of integers or bools.
        other: integers or bools, which broadcast with `input`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.bitwise_or(ndgrad.tensor([5, 6]), ndgrad.tensor([3, 3]))
    tensor([7, 7])
    """


@pointwise(bitwise.bitwise_xor)
def bitwise_xor(input: Tensor, other: TensorLike, *, out: Tensor | None = None) -> Tensor:
    """Bitwise exclusive or; for booleans, logical exclusive or.

    Args:
        input: tensor of integers or bools.
        other: integers or bools, which broadcast with `input`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.bitwise_xor(ndgrad.tensor([5, 6]), ndgrad.tensor([3, 3]))
    tensor([6, 5])
    """


@pointwise(bitwise.bitwise_not)
def bitwise_not(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Bitwise not; for booleans, logical not.

    Args:
        input: tensor of integers or bools.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.bitwise_not(ndgrad.tensor([0, 5]))
    tensor([-1, -6])
    """


@pointwise(bitwise.bitwise_left_shift)
def bitwise_left_shift(input: Tensor, other: TensorLike, *, out: Tensor | None = None) -> Tensor:
    """Shift the bits to the left: `input * 2 ** other`.

    Args:
        input: tensor of integers.
        other: number of bits, which broadcasts with `input`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.bitwise_left_shift(ndgrad.tensor([1, 3]), ndgrad.tensor([2, 1]))
    tensor([4, 6])
    """


@pointwise(bitwise.bitwise_right_shift)
def bitwise_right_shift(input: Tensor, other: TensorLike, *, out: Tensor | None = None) -> Tensor:
    """Shift the bits to the right: `input / 2 ** other`, rounded down.

    Args:
        input: tensor of integers.
        other: number of bits, which broadcasts with `input`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.bitwise_right_shift(ndgrad.tensor([8, 7]), ndgrad.tensor([2, 1]))
    tensor([2, 3])
    """


@pointwise(activation.sigmoid)
def sigmoid(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The logistic function `1 / (1 + exp(-input))`, without overflow.

    Args:
        input: input tensor.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.sigmoid(ndgrad.tensor([0.0, 2.0]))
    tensor([0.5000, 0.8808])
    """


@pointwise(activation.relu)
def relu(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The element, or 0 if it is negative. The derivative at 0 is 0.

    Args:
        input: input tensor.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.relu(ndgrad.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """


@pointwise(comparison.eq)
def eq(input: Tensor, other: TensorLike, *, out: Tensor | None = None) -> Tensor:
    """True where two elements are equal.

    Args:
        input: tensor to compare.
        other: tensor or number, which broadcasts with `input`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.eq(ndgrad.tensor([1.0, 2.0]), ndgrad.tensor([1.0, 3.0]))
    tensor([ True, False])
    """


@pointwise(comparison.ne)
def ne(input: Tensor, other: TensorLike, *, out: Tensor | None = None) -> Tensor:
    """True where two elements differ.

    Args:
        input: tensor to compare.
        other: tensor or number, which broadcasts with `input`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.ne(ndgrad.tensor([1.0, 2.0]), ndgrad.tensor([1.0, 3.0]))
    tensor([False,  True])
    """


@pointwise(comparison.lt)
def lt(input: Tensor, other: TensorLike, *, out: Tensor | None = None) -> Tensor:
    """True where `input < other`.

    Args:
        input: tensor to compare.
        other: tensor or number, which broadcasts with `input`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.lt(ndgrad.tensor([1.0, 3.0]), 2.0)
    tensor([ True, False])
    """


@pointwise(comparison.le)
def le(input: Tensor, other: TensorLike, *, out: Tensor | None = None) -> Tensor:
    """True where `input <= other`.

    Args:
        input: tensor to compare.
        other: tensor or number, which broadcasts with `input`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.le(ndgrad.tensor([1.0, 2.0]), 2.0)
    tensor([True, True])
    """


@pointwise(comparison.gt)
def gt(input: Tensor, other: TensorLike, *, out: Tensor | None = None) -> Tensor:
    """True where `input > other`.

    Args:
        input: tensor to compare.
        other: tensor or number, which broadcasts with `input`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.gt(ndgrad.tensor([1.0, 3.0]), 2.0)
    tensor([False,  True])
    """


@pointwise(comparison.ge)
def ge(input: Tensor, other: TensorLike, *, out: Tensor | None = None) -> Tensor:
    """True where `input >= other`.

    Args:
        input: tensor to compare.
        other: tensor or number, which broadcasts with `input`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.ge(ndgrad.tensor([1.0, 2.0]), 2.0)
    tensor([False,  True])
    """


@pointwise(comparison.logical_and)
def logical_and(input: Tensor, other: TensorLike, *, out: Tensor | None = None) -> Tensor:
    """True where both elements are true (not zero).

    Args:
        input: tensor of any dtype.
        other: tensor of any dtype, which broadcasts with `input`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.logical_and(ndgrad.tensor([1.0, 0.0]), ndgrad.tensor([2.0, 2.0]))
    tensor([ True, False])
    """


@pointwise(comparison.logical_or)
def logical_or(input: Tensor, other: TensorLike, *, out: Tensor | None = None) -> Tensor:
    """True where either element is true (not zero).

    Args:
        input: tensor of any dtype.
        other: tensor of any dtype, which broadcasts with `input`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.logical_or(ndgrad.tensor([1.0, 0.0]), ndgrad.tensor([0.0, 0.0]))
    tensor([ True, False])
    """


@pointwise(comparison.logical_xor)
def logical_xor(input: Tensor, other: TensorLike, *, out: Tensor | None = None) -> Tensor:
    """True where exactly one of two elements is true (not zero).

    Args:
        input: tensor of any dtype.
        other: tensor of any dtype, which broadcasts with `input`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.logical_xor(ndgrad.tensor([1.0, 1.0]), ndgrad.tensor([0.0, 2.0]))
    tensor([ True, False])
    """


@pointwise(comparison.logical_not)
def logical_not(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """True where the element is false (zero).

    Args:
        input: input tensor.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.logical_not(ndgrad.tensor([1.0, 0.0]))
    tensor([False,  True])
    """


@pointwise(comparison.isnan)
def isnan(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """True where the element is not a number.

    Args:
        input: input tensor.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.isnan(ndgrad.tensor([1.0, float('nan')]))
    tensor([False,  True])
    """


@pointwise(comparison.isinf)
def isinf(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """True where the element is infinite, in either direction.

    Args:
        input: input tensor.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.isinf(ndgrad.tensor([1.0, float('-inf')]))
    tensor([False,  True])
    """


@pointwise(comparison.isfinite)
def isfinite(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """True where the element is neither infinite nor NaN.

    Args:
        input: input tensor.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.isfinite(ndgrad.tensor([1.0, float('inf')]))
    tensor([ True, False])
    """


@pointwise(comparison.isreal)
def isreal(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """True where the imaginary part is zero.

    Args:
        input: real or complex tensor.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.isreal(ndgrad.tensor([1.0, 2.0]))
    tensor([True, True])
    """


@pointwise(comparison.signbit)
def signbit(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """True where the sign is negative, including minus zero.

    Args:
        input: real tensor.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.signbit(ndgrad.tensor([1.0, -0.0]))
    tensor([False,  True])
    """


# ----- in place -------------------------------------------------------------------------------------------------------

_IN_PLACE = [name for name in __all__ if globals()[name].op.inplace and name != "abs"]  # complex has no abs_
for _name in _IN_PLACE:
    globals()[_name + "_"] = in_place(globals()[_name])

METHODS = (*__all__, *(name + "_" for name in _IN_PLACE))

#: In-place forms that are functions too, as in torch: `ndgrad.exp_(x)`.
__all__ += [
    "acos_", "acosh_", "asin_", "asinh_", "atan_", "atanh_", "ceil_", "clamp_max_", "clamp_min_", "cos_", "cosh_",
    "deg2rad_", "erf_", "erfc_", "exp_", "exp2_", "expm1_", "floor_", "frac_", "ldexp_", "log_", "log10_", "log1p_",
    "log2_", "neg_", "rad2deg_", "reciprocal_", "relu_", "round_", "rsqrt_", "sigmoid_", "sin_", "sinh_", "sqrt_",
    "square_", "tan_", "tanh_", "trunc_", "xlogy_",
]  # fmt: skip

_OTHER_NAMES = {
    "absolute": "abs", "negative": "neg", "arcsin": "asin", "arccos": "acos", "arctan": "atan",
    "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh", "fix": "trunc",
}  # fmt: skip
ALIASES = {
    **_OTHER_NAMES, **{other + "_": name + "_" for other, name in _OTHER_NAMES.items() if name != "abs"},
    "multiply": "mul", "multiply_": "mul_", "arctan2": "atan2", "arctan2_": "atan2_",
    "not_equal": "ne", "less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge",
}  # fmt: skip
