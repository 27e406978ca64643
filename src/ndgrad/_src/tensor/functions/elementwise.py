"""Elementwise functions under torch's names.

Most elementwise functions are exactly ops of the table; they are in `pointwise`. This file has functions with further
arguments (`alpha=`, `rounding_mode=`, optional bounds) and functions made of several ops. Functions with boolean
results are in ndgrad._src.tensor.functions.comparison.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

import numpy as np

from ndgrad._src.arrays import dtypes
from ndgrad._src.arrays.precision import is_floating, result_dtype
from ndgrad._src.core.inplace import write
from ndgrad._src.core.out_argument import write_out
from ndgrad._src.core.variable import Variable, np_dtype, requires_grad, wrap
from ndgrad._src.ops import (  # noqa: F401  # some only to fill the op table
    activation,
    arithmetic,
    bitwise,
    cast,
    error_function,
    exponential,
    fill,
    rounding,
    selection,
    trigonometric,
)
from ndgrad._src.ops import complex as complex_ops
from ndgrad._src.tensor.storage import conjugate_view

if TYPE_CHECKING:
    from ndgrad._src.ops.table import Op
    from ndgrad._typing import Number, Tensor, TensorLike

__all__ = [
    "add", "sub", "rsub", "div", "positive", "float_power", "logit", "sinc", "sgn", "sign", "nan_to_num",
    "clamp", "where", "threshold", "hardshrink", "selu", "celu",
    "complex", "polar", "real", "imag", "conj", "conj_physical",
    "fake_quantize_per_channel_affine", "fake_quantize_per_tensor_affine",
    "abs_", "clamp_", "celu_", "conj_physical_", "logit_", "nan_to_num_", "selu_", "sinc_", "threshold_",
]  # fmt: skip

METHODS = (
    "add", "sub", "div", "positive", "float_power", "logit", "sgn", "sinc", "sign", "nan_to_num", "clamp", "hardshrink",
    "conj", "conj_physical",
    "abs_", "add_", "sub_", "div_", "float_power_", "logit_", "sgn_", "sinc_", "sign_", "nan_to_num_", "clamp_",
    "conj_physical_",
)  # fmt: skip

#: The method `x.where(condition, other)` has another argument order than the function.
RENAMED_METHODS = {"where": "where_method"}

ALIASES = {
    "subtract": "sub", "divide": "div", "true_divide": "div", "clip": "clamp", "absolute_": "abs_",
    "subtract_": "sub_", "divide_": "div_", "true_divide_": "div_", "clip_": "clamp_",
}  # fmt: skip


def _run(op: Op, args: tuple[TensorLike, ...], out: Tensor | None = None, **settings: Any) -> Tensor:
    """Run an op on its array arguments, and write into `out` if that is given."""
    if out is None:
        return op.eager(*args, **settings)
    return write_out(op, args, {**op.settings, **settings}, out)


def _dtype(function: str, t: object) -> np.dtype[Any]:
    if not isinstance(t, Variable):
        raise TypeError(
            f"{function}() takes a tensor, but got {type(t).__name__}. Wrap it with ndgrad.as_tensor(...). [nd-type]"
        )
    return np_dtype(t)


# ----- arithmetic -----------------------------------------------------------------------------------------------------


def add(input: TensorLike, other: TensorLike, *, alpha: Number = 1, out: Tensor | None = None) -> Tensor:
    """Add two tensors: `input + alpha * other`.

    Args:
        input: first term.
        other: second term, a tensor or number that broadcasts with `input`.
        alpha: factor of `other`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.add(ndgrad.tensor([1.0, 2.0]), ndgrad.tensor([10.0, 20.0]), alpha=0.5)
    tensor([ 6., 12.])
    """
    if alpha != 1:
        other = _scale("add", input, other, alpha)
    return _run(arithmetic.add, (input, other), out)


def sub(input: TensorLike, other: TensorLike, *, alpha: Number = 1, out: Tensor | None = None) -> Tensor:
    """Subtract two tensors: `input - alpha * other`.

    Args:
        input: tensor or number.
        other: tensor or number to subtract, which broadcasts with `input`.
        alpha: factor of `other`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.sub(ndgrad.tensor([1.0, 2.0]), 10.0, alpha=0.5)
    tensor([-4., -3.])
    """
    if alpha != 1:
        other = _scale("sub", input, other, alpha)
    return _run(arithmetic.sub, (input, other), out)


def rsub(input: TensorLike, other: TensorLike, *, alpha: Number = 1) -> Tensor:
    """Subtract in reverse order: `other - alpha * input`.

    Args:
        input: tensor or number to subtract.
        other: tensor or number, which broadcasts with `input`.
        alpha: factor of `input`.

    >>> import ndgrad
    >>> ndgrad.rsub(ndgrad.tensor([1.0, 2.0]), 10.0)
    tensor([9., 8.])
    """
    return sub(other, input, alpha=alpha)


def add_(self: Tensor, other: TensorLike, *, alpha: Number = 1) -> Tensor:
    """In-place version of `add`.

    Args:
        self: tensor to change.
        other: second term, a tensor or number that broadcasts to `self`.
        alpha: factor of `other`.

    >>> import ndgrad
    >>> ndgrad.tensor([1.0, 2.0]).add_(1.0, alpha=10)
    tensor([11., 12.])
    """
    return write(arithmetic.add, self, (other if alpha == 1 else _scale("add_", self, other, alpha),), {})


def sub_(self: Tensor, other: TensorLike, *, alpha: Number = 1) -> Tensor:
    """In-place version of `sub`.

    Args:
        self: tensor to change.
        other: tensor or number to subtract, which broadcasts to `self`.
        alpha: factor of `other`.

    >>> import ndgrad
    >>> ndgrad.tensor([1.0, 2.0]).sub_(1.0)
    tensor([0., 1.])
    """
    return write(arithmetic.sub, self, (other if alpha == 1 else _scale("sub_", self, other, alpha),), {})


def _scale(function: str, input: TensorLike, other: Any, alpha: Number) -> TensorLike:
    if isinstance(alpha, float) and _kind(input) in "biu" and _kind(other) in "biu":
        raise RuntimeError(
            f"{function}(): for integral input tensors, argument alpha must not be a floating point number, "
            f"but is {alpha}. Convert a tensor to a floating-point dtype first, or give an integer. [nd-dtype]"
        )
    return arithmetic.mul.eager(other, alpha) if isinstance(other, Variable) else other * alpha


_DIVISIONS = {None: arithmetic.div, "floor": arithmetic.floor_divide, "trunc": arithmetic.trunc_divide}


def _division(rounding_mode: str | None) -> Op:
    op = _DIVISIONS.get(rounding_mode)
    if op is None:
        raise RuntimeError(
            f"div expected rounding_mode to be one of None, 'trunc', or 'floor' but found {rounding_mode!r}. "
            "Give one of these. [nd-option]"
        )
    return op


def div(input: TensorLike, other: TensorLike, *, rounding_mode: str | None = None, out: Tensor | None = None) -> Tensor:
    """Divide two tensors: `input / other`.

    Args:
        input: dividend.
        other: divisor, a tensor or number that broadcasts with `input`.
        rounding_mode: None for no rounding, `"floor"` to round the quotient down, `"trunc"` to round it towards zero.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.div(ndgrad.tensor([7, -7]), 2, rounding_mode="trunc")
    tensor([ 3, -3])
    """
    return _run(arithmetic.div if rounding_mode is None else _division(rounding_mode), (input, other), out)


def div_(self: Tensor, other: TensorLike, *, rounding_mode: str | None = None) -> Tensor:
    """In-place version of `div`.

    Args:
        self: tensor to change.
        other: divisor, a tensor or number that broadcasts to `self`.
        rounding_mode: None for no rounding, `"floor"` to round the quotient down, `"trunc"` to round it towards zero.

    >>> import ndgrad
    >>> ndgrad.tensor([7, -7]).div_(2, rounding_mode="floor")
    tensor([ 3, -4])
    """
    return write(_division(rounding_mode), self, (other,), {})


def positive(input: Tensor) -> Tensor:
    """Return the tensor itself; raise for booleans, which have no sign.

    Args:
        input: tensor that is not bool.

    >>> import ndgrad
    >>> +ndgrad.tensor([1.0, -2.0])
    tensor([ 1., -2.])
    """
    if _dtype("positive", input).kind == "b":
        raise RuntimeError(
            "positive(): the `+` operator on a bool tensor is not supported. Convert it to an integer dtype first. "
            "[nd-dtype]"
        )
    return input


def float_power(input: TensorLike, exponent: TensorLike, *, out: Tensor | None = None) -> Tensor:
    """Return input to the power of exponent, computed in double precision for all dtypes.

    Args:
        input: bases, a tensor or number.
        exponent: exponents, a tensor or number that broadcasts with `input`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.float_power(ndgrad.tensor([2, 3]), -1)
    tensor([0.5000, 0.3333], dtype=ndgrad.float64)
    """
    dtype = _double(input, exponent)
    return _run(arithmetic.pow, (_as_dtype(input, dtype), _as_dtype(exponent, dtype)), out)


def float_power_(self: Tensor, exponent: TensorLike) -> Tensor:
    """In-place version of `float_power`, for double precision tensors.

    Args:
        self: tensor to change, of dtype float64 or complex128.
        exponent: exponents, a tensor or number that broadcasts to `self`.

    >>> import ndgrad
    >>> ndgrad.tensor([2.0, 3.0], dtype=ndgrad.float64).float_power_(2)
    tensor([4., 9.], dtype=ndgrad.float64)
    """
    dtype = _double(self, exponent)
    if np_dtype(self) != dtype:
        raise RuntimeError(
            f"float_power_: the base has dtype {np_dtype(self)} but the result requires {dtype}. "
            "Use float_power(), which makes a new tensor. [nd-write-fit]"
        )
    return write(arithmetic.pow, self, (_as_dtype(exponent, dtype),), {})


def _double(*values: TensorLike) -> np.dtype[Any]:
    return np.dtype(np.complex128 if "c" in map(_kind, values) else np.float64)


def _kind(value: TensorLike) -> str:
    return np_dtype(value).kind if isinstance(value, Variable) else result_dtype(value).kind


def _as_dtype(value: TensorLike, dtype: np.dtype[Any]) -> TensorLike:
    return cast.cast(value, dtype=dtype) if isinstance(value, Variable) and np_dtype(value) != dtype else value


# ----- functions with further arguments -------------------------------------------------------------------------------


def logit(input: Tensor, eps: float | None = None, *, out: Tensor | None = None) -> Tensor:
    """Return the log-odds log(input / (1 - input)).

    Args:
        input: probabilities.
        eps: distance from 0 and 1 to which the input is clamped first. None does not clamp.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.logit(ndgrad.tensor([0.5, 1.0]), eps=0.01)
    tensor([0.0000, 4.5951])
    """
    return _run(activation.logit, (input,), out, eps=eps)


def logit_(self: Tensor, eps: float | None = None) -> Tensor:
    """In-place version of `logit`.

    Args:
        self: tensor to change.
        eps: distance from 0 and 1 to which the elements are clamped first. None does not clamp.

    >>> import ndgrad
    >>> ndgrad.tensor([0.5]).logit_()
    tensor([0.])
    """
    return write(activation.logit, self, (), {"eps": eps})


def sinc(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The normalised sinc function: sin(pi x) / (pi x), and 1 at 0.

    Args:
        input: input tensor.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.sinc(ndgrad.tensor([0.0, 0.5]))
    tensor([1.0000, 0.6366])
    """
    return _run(trigonometric.sinc, (input,), out)


def sinc_(self: Tensor) -> Tensor:
    """In-place version of `sinc`.

    Args:
        self: tensor to change.

    >>> import ndgrad
    >>> ndgrad.tensor([0.0, 1.0]).sinc_().round()
    tensor([1., -0.])
    """
    return write(trigonometric.sinc, self, (), {"order": 0})


def sign(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The sign: -1, 0 or 1 for a negative, zero or positive input. Its gradient is zero everywhere.

    Args:
        input: real tensor.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.sign(ndgrad.tensor([-3.0, 0.0, 2.0]))
    tensor([-1.,  0.,  1.])
    """
    if _dtype("sign", input).kind == "c":
        raise _no_sign("sign")
    if np_dtype(input).kind == "b":  # NumPy's sign does not accept bool
        return _run(cast.clone, (input,), out)
    return _run(rounding.sign, (input,), out)


def sgn(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The sign: -1, 0 or 1; for a complex number z, z / |z|.

    Args:
        input: real or complex tensor.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.sgn(ndgrad.tensor([-3.0, 0.0, 5.0]))
    tensor([-1.,  0.,  1.])
    """
    is_bool = _dtype("sgn", input).kind == "b"  # NumPy's sign does not accept bool
    return _run(cast.clone if is_bool else complex_ops.sgn, (input,), out)


def sgn_(self: Tensor) -> Tensor:
    """In-place version of `sgn`.

    Args:
        self: tensor to change.

    >>> import ndgrad
    >>> ndgrad.tensor([-3.0, 2.0]).sgn_()
    tensor([-1.,  1.])
    """
    is_bool = np_dtype(self).kind == "b"
    return write(cast.clone if is_bool else complex_ops.sgn, self, (), {})


def sign_(self: Tensor) -> Tensor:
    """In-place version of `sign`.

    Args:
        self: tensor to change, not complex.

    >>> import ndgrad
    >>> ndgrad.tensor([-3.0, 2.0]).sign_()
    tensor([-1.,  1.])
    """
    if np_dtype(self).kind == "c":
        raise _no_sign("sign_")
    return write(rounding.sign, self, (), {})


def _no_sign(function: str) -> NotImplementedError:
    return NotImplementedError(
        f"{function}(): complex numbers have no sign. Use sgn(), which gives z / |z|. [nd-complex]"
    )


def nan_to_num(
    input: Tensor,
    nan: float | None = 0.0,
    posinf: float | None = None,
    neginf: float | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Replace NaN and infinities by finite numbers.

    Args:
        input: input tensor.
        nan: replacement of NaN. None means 0.
        posinf: replacement of positive infinity. The default is the largest finite number of the dtype.
        neginf: replacement of negative infinity. The default is the lowest finite number of the dtype.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.nan_to_num(ndgrad.tensor([float("nan"), float("inf"), 2.0]), posinf=9.0)
    tensor([0., 9., 2.])
    """
    return _run(rounding.nan_to_num, (input,), out, nan=0.0 if nan is None else nan, posinf=posinf, neginf=neginf)


def nan_to_num_(
    self: Tensor, nan: float | None = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    """In-place version of `nan_to_num`.

    Args:
        self: tensor to change.
        nan: replacement of NaN. None means 0.
        posinf: replacement of positive infinity. The default is the largest finite number of the dtype.
        neginf: replacement of negative infinity. The default is the lowest finite number of the dtype.

    >>> import ndgrad
    >>> ndgrad.tensor([float("nan"), 2.0]).nan_to_num_()
    tensor([0., 2.])
    """
    return write(
        rounding.nan_to_num, self, (), {"nan": 0.0 if nan is None else nan, "posinf": posinf, "neginf": neginf}
    )


def fake_quantize_per_tensor_affine(
    input: Tensor, scale: float | Tensor, zero_point: int | Tensor, quant_min: int, quant_max: int
) -> Tensor:
    """Round the input to (integer - zero_point) scale, with integers from `quant_min` to `quant_max`.

    The gradient passes unchanged inside the range of these numbers, and is zero outside.

    Args:
        input: floating-point tensor.
        scale: distance of neighbouring numbers.
        zero_point: integer that stands for 0, between `quant_min` and `quant_max`.
        quant_min: smallest integer.
        quant_max: largest integer.

    >>> import ndgrad
    >>> ndgrad.fake_quantize_per_tensor_affine(ndgrad.tensor([-1.0, 0.3, 0.6, 2.0]), 0.25, 0, 0, 4)
    tensor([0.0000, 0.2500, 0.5000, 1.0000])
    """
    _check_levels("fake_quantize_per_tensor_affine", input, int(zero_point), int(zero_point), quant_min, quant_max)
    step = np.float32(float(scale))  # torch's scales are in single precision
    with np.errstate(divide="ignore"):
        inverse = float(np.float32(1) / step)
    how = {"scale": float(step), "inverse": inverse, "zero_point": int(zero_point)}
    return rounding.fake_quantize_per_tensor_affine.eager(input, **how, quant_min=quant_min, quant_max=quant_max)


def fake_quantize_per_channel_affine(
    input: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int
) -> Tensor:
    """Round each channel of the input to (integer - zero_point) scale, with integers from `quant_min` to `quant_max`.

    The gradient passes unchanged inside the range of these numbers, and is zero outside.

    Args:
        input: floating-point tensor.
        scale: distance of neighbouring numbers in each channel; float32 or bfloat16.
        zero_point: number that stands for 0 in each channel: an int32 between `quant_min` and `quant_max`, which is
            added after rounding, or a float32 or float16, which is added before.
        axis: dimension of the channels.
        quant_min: smallest integer.
        quant_max: largest integer.

    >>> import ndgrad
    >>> x = ndgrad.tensor([[0.3, 0.6], [0.3, 0.6]])
    >>> zeros = ndgrad.zeros(2, dtype=ndgrad.int32)
    >>> ndgrad.fake_quantize_per_channel_affine(x, ndgrad.tensor([0.25, 1.0]), zeros, 0, 0, 4)
    tensor([[0.2500, 0.5000],
            [0.0000, 1.0000]])
    """
    name = "fake_quantize_per_channel_affine"
    if not 0 <= axis < max(input.ndim, 1):
        raise RuntimeError(
            f"{name}: `axis` must be between 0 and the number of dimensions of the input, {input.ndim}, but is {axis}. "
            "[nd-dim]"
        )
    channels = tuple(input.shape[axis : axis + 1])
    for argument, t, accepted in (
        ("scale", scale, ("float32", "bfloat16")),
        ("zero_point", zero_point, ("int32", "float32", "float16")),
    ):
        if np_dtype(t).name not in accepted:
            raise RuntimeError(
                f"{name}: `{argument}` must be {' or '.join(accepted)}, but is {np_dtype(t)}. [nd-dtype]"
            )
        if tuple(t.shape) != (channels or (1,)):
            raise RuntimeError(
                f"{name}: `{argument}` must have the shape {channels or (1,)}, one number for each channel, but has "
                f"{tuple(t.shape)}. [nd-shape]"
            )
        if requires_grad(t):
            raise RuntimeError(
                f"{name} is not differentiable with respect to `{argument}`. Pass {argument}.detach(). "
                "[nd-no-derivative]"
            )
    is_integer = np_dtype(zero_point).kind == "i"
    has_bounds = is_integer and channels != (0,)  # torch does not check other zero points
    smallest, largest = (zero_point.min().item(), zero_point.max().item()) if has_bounds else (quant_min, quant_min)
    _check_levels(name, input, smallest, largest, quant_min, quant_max)
    along = (-1,) + (1,) * (input.ndim - axis - 1) if channels else ()
    scale, offset = scale.float().reshape(along), zero_point.float().reshape(along)
    result = rounding.fake_quantize_per_channel_affine.eager(
        input, scale, scale.reciprocal(), offset, quant_min=quant_min, quant_max=quant_max,
        adds="after rounding" if is_integer else "before rounding",
    )  # fmt: skip
    return result.to(input.dtype)


def _check_levels(
    function: str, input: Tensor, smallest: float, largest: float, quant_min: int, quant_max: int
) -> None:
    """Raise unless the input is real and floating-point and the zero points lie among the integers."""
    if not is_floating(np_dtype(input)):
        raise RuntimeError(f"{function}: the input must be floating point, but is {np_dtype(input)}. [nd-dtype]")
    if not quant_min <= smallest <= largest <= quant_max:
        raise RuntimeError(
            f"{function}: `zero_point` must be between `quant_min` and `quant_max`, but is "
            f"{largest if largest > quant_max else smallest}, and they are {quant_min} and {quant_max}. [nd-range]"
        )


# ----- choices --------------------------------------------------------------------------------------------------------


def clamp(
    input: Tensor, min: TensorLike | None = None, max: TensorLike | None = None, *, out: Tensor | None = None
) -> Tensor:
    """Clamp the input to [min, max].

    The gradient passes if the input lies inside, bounds included.

    Args:
        input: input tensor.
        min: lower bound, a number or a tensor that broadcasts with `input`. None means no bound.
        max: upper bound, a number or a tensor that broadcasts with `input`. None means no bound, but one of both is
            needed.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.clamp(ndgrad.tensor([-1.0, 0.5, 3.0]), min=0.0, max=1.0)
    tensor([0.0000, 0.5000, 1.0000])
    """
    op, bounds = _choose_clamp(min, max)
    return _run(op, (input, *bounds), out)


def clamp_(self: Tensor, min: TensorLike | None = None, max: TensorLike | None = None) -> Tensor:
    """In-place version of `clamp`.

    Args:
        self: tensor to change.
        min: lower bound, a number or a tensor that broadcasts to `self`. None means no bound.
        max: upper bound, a number or a tensor that broadcasts to `self`. None means no bound, but one of both is
            needed.

    >>> import ndgrad
    >>> ndgrad.tensor([-1.0, 3.0]).clamp_(min=0.0)
    tensor([0., 3.])
    """
    op, bounds = _choose_clamp(min, max)
    return write(op, self, bounds, {})


def _choose_clamp(min: TensorLike | None, max: TensorLike | None) -> tuple[Op, tuple[TensorLike, ...]]:
    if max is None:
        if min is None:
            raise RuntimeError("clamp: At least one of 'min' or 'max' must not be None. Give a bound. [nd-exclusive]")
        return selection.clamp_min, (min,)
    return (selection.clamp_max, (max,)) if min is None else (selection.clamp, (min, max))


@overload
def where(condition: Tensor) -> tuple[Tensor, ...]: ...
@overload
def where(condition: Tensor, input: TensorLike, other: TensorLike, *, out: Tensor | None = None) -> Tensor: ...
def where(
    condition: Tensor, input: TensorLike | None = None, other: TensorLike | None = None, *, out: Tensor | None = None
) -> Tensor | tuple[Tensor, ...]:
    """Choose elements by a condition. With the condition alone, return the indices of its true elements.

    Args:
        condition: bool tensor.
        input: tensor or number for true elements, which broadcasts with `condition`.
        other: tensor or number for false elements, which broadcasts with `condition`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> x = ndgrad.tensor([-1.0, 2.0])
    >>> ndgrad.where(x > 0, x, 0.0), ndgrad.where(x > 0)
    (tensor([0., 2.]), (tensor([1]),))
    """
    if input is None and other is None:
        from ndgrad._src.tensor.functions.nonzero import nonzero  # keeps the import of ndgrad fast

        return nonzero(condition, as_tuple=True)
    if input is None or other is None:
        raise TypeError(
            "where() takes a condition, or a condition and two values, but got one value. Give `input` and `other`. "
            "[nd-arguments]"
        )
    if _dtype("where", condition).kind != "b":
        raise RuntimeError(
            f"where expected condition to be a boolean tensor, but got a tensor with dtype {np_dtype(condition)}. "
            "Compare it with something (condition != 0). [nd-dtype]"
        )
    if not isinstance(input, Variable) and not isinstance(other, Variable):
        input, other = (_constant(condition, v) for v in (input, other))
    return _run(selection.where, (condition, input, other), out)


def where_method(self: Tensor, condition: Tensor, other: TensorLike) -> Tensor:
    """Keep the elements of this tensor for which a condition is true, and take the others from `other`.

    Args:
        self: tensor for true elements.
        condition: bool tensor, which broadcasts with `self`.
        other: tensor or number for false elements, which broadcasts with `self`.

    >>> import ndgrad
    >>> x = ndgrad.tensor([-1.0, 2.0])
    >>> x.where(x > 0, 0.0)
    tensor([0., 2.])
    """
    return where(condition, self, other)


def _constant(like: Tensor, value: TensorLike) -> Tensor:
    """Return a number as a tensor; floats take the default dtype."""
    array = np.asarray(value)
    return wrap(
        like.tensor_type,
        array.astype(dtypes.as_numpy_dtype(dtypes.get_default_dtype())) if isinstance(value, float) else array,
    )


# ----- activations ----------------------------------------------------------------------------------------------------

# With these constants a network's activations keep mean 0 and variance 1.
_SELU = {"alpha": 1.6732632423543772, "scale": 1.0507009873554805, "input_scale": 1.0}


def selu(input: Tensor) -> Tensor:
    """The activation `elu`, scaled so that activations keep zero mean and unit variance.

    Args:
        input: input tensor.

    >>> import ndgrad
    >>> ndgrad.selu(ndgrad.tensor([-1.0, 1.0]))
    tensor([-1.1113,  1.0507])
    """
    return activation.elu(input, **_SELU)


def selu_(self: Tensor) -> Tensor:
    """In-place version of `selu`.

    Args:
        self: tensor to change.

    >>> import ndgrad
    >>> ndgrad.selu_(ndgrad.tensor([0.0, 1.0]))
    tensor([0.0000, 1.0507])
    """
    return write(activation.elu, self, (), _SELU)


def celu(input: Tensor, alpha: float = 1.0) -> Tensor:
    """The activation max(0, x) + min(0, alpha (exp(x / alpha) - 1)), which has a continuous derivative.

    Args:
        input: input tensor.
        alpha: limit of the negative values, not 0.

    >>> import ndgrad
    >>> ndgrad.celu(ndgrad.tensor([-1.0, 1.0]))
    tensor([-0.6321,  1.0000])
    """
    return activation.elu(input, alpha=alpha, scale=1.0, input_scale=_inverse(alpha))


def celu_(self: Tensor, alpha: float = 1.0) -> Tensor:
    """In-place version of `celu`.

    Args:
        self: tensor to change.
        alpha: limit of the negative values, not 0.

    >>> import ndgrad
    >>> ndgrad.celu_(ndgrad.tensor([-1.0, 1.0]), alpha=2.0)
    tensor([-0.7869,  1.0000])
    """
    return write(activation.elu, self, (), {"alpha": alpha, "scale": 1.0, "input_scale": _inverse(alpha)})


def _inverse(alpha: float) -> float:
    if alpha == 0:
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for celu. Give a positive number. [nd-range]")
    return 1.0 / alpha


def threshold(input: Tensor, threshold: float, value: float, *, out: Tensor | None = None) -> Tensor:
    """Replace elements that do not exceed a threshold.

    Args:
        input: input tensor.
        threshold: number that remaining elements exceed.
        value: replacement of the others.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.threshold(ndgrad.tensor([0.5, 2.0]), 1.0, -1.0)
    tensor([-1.,  2.])
    """
    return _run(activation.threshold, (input,), out, threshold=threshold, value=value)


def threshold_(self: Tensor, threshold: float, value: float) -> Tensor:
    """In-place version of `threshold`.

    Args:
        self: tensor to change.
        threshold: number that remaining elements exceed.
        value: replacement of the others.

    >>> import ndgrad
    >>> ndgrad.threshold_(ndgrad.tensor([0.5, 2.0]), 1.0, 0.0)
    tensor([0., 2.])
    """
    return write(activation.threshold, self, (), {"threshold": threshold, "value": value})


def hardshrink(input: Tensor, lambd: float = 0.5, *, out: Tensor | None = None) -> Tensor:
    """Replace elements of small absolute value by 0.

    Args:
        input: input tensor.
        lambd: number that the absolute values of remaining elements exceed.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.hardshrink(ndgrad.tensor([-1.0, 0.3, 2.0]))
    tensor([-1.,  0.,  2.])
    """
    return _run(activation.hardshrink, (input,), out, lambd=lambd)


# ----- complex numbers ------------------------------------------------------------------------------------------------


def abs_(self: Tensor) -> Tensor:
    """In-place version of `abs`; a complex tensor cannot hold the real result.

    Args:
        self: tensor to change, not complex.

    >>> import ndgrad
    >>> ndgrad.tensor([-1.0, 2.0]).abs_()
    tensor([1., 2.])
    """
    if np_dtype(self).kind == "c":
        raise RuntimeError(
            "abs_: In-place abs is not supported for complex tensors, since the result is real. Use abs(). "
            "[nd-write-fit]"
        )
    return write(complex_ops.abs, self, (), {})


def complex(real: Tensor, imag: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the complex tensor real + i imag.

    Args:
        real: real parts, a floating-point tensor.
        imag: imaginary parts of the same dtype, which broadcast with `real`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.complex(ndgrad.tensor([1.0]), ndgrad.tensor([2.0]))
    tensor([1.+2.j])
    """
    _check_parts("complex", real, imag)
    return _run(complex_ops.complex, (real, imag), out)


def polar(abs: Tensor, angle: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return complex numbers from polar coordinates: abs * exp(i angle).

    Args:
        abs: magnitudes, a floating-point tensor.
        angle: angles in radians, of the same dtype, which broadcast with `abs`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.polar(ndgrad.tensor([2.0]), ndgrad.tensor([0.0]))
    tensor([2.+0.j])
    """
    _check_parts("polar", abs, angle)
    return _run(complex_ops.polar, (abs, angle), out)


def _check_parts(function: str, first: Tensor, second: Tensor) -> None:
    a, b = _dtype(function, first), _dtype(function, second)
    if not is_floating(a) or not is_floating(b):
        raise RuntimeError(
            f"{function}(): Expected both inputs to be Half, Float or Double tensors but got {a} and {b}. "
            "Convert them with .to(). [nd-dtype]"
        )
    if a != b:
        raise RuntimeError(
            f"{function}(): Expected object of scalar type {a} but got scalar type {b} for second argument. "
            "Convert one with .to(). [nd-dtype-mismatch]"
        )


def real(input: Tensor) -> Tensor:
    """The real part: a view for a complex tensor, the tensor itself for a real one.

    Args:
        input: real or complex tensor.

    >>> import ndgrad
    >>> z = ndgrad.tensor([1.0 + 2.0j])
    >>> ndgrad.real(z).mul_(10.0), z
    (tensor([10.]), tensor([10.+2.j]))
    """
    return complex_ops.real(input) if _dtype("real", input).kind == "c" else input


def imag(input: Tensor) -> Tensor:
    """The imaginary part of a complex tensor, as a view.

    Args:
        input: complex tensor.

    >>> import ndgrad
    >>> ndgrad.imag(ndgrad.tensor([1.0 + 2.0j]))
    tensor([2.])
    """
    dtype = _dtype("imag", input)
    if dtype.kind != "c":
        raise RuntimeError(
            f"imag is not implemented for tensors with non-complex dtypes, but this one is {dtype}. "
            "Convert it with .to(), or use zeros_like(). [nd-complex]"
        )
    return complex_ops.imag(input)


def conj(input: Tensor) -> Tensor:
    """The complex conjugate, which is read-only (see `mark_lazy`); for a real tensor, the tensor itself.

    Args:
        input: real or complex tensor.

    >>> import ndgrad
    >>> ndgrad.conj(ndgrad.tensor([1.0 + 2.0j]))
    tensor([1.-2.j])
    """
    return conjugate_view(input) if _dtype("conj", input).kind == "c" else input


def conj_physical(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The complex conjugate in new memory; for a real tensor, the tensor itself.

    Args:
        input: real or complex tensor.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.conj_physical(ndgrad.tensor([1.0 + 2.0j])).mul_(2)
    tensor([2.-4.j])
    """
    if out is None:
        return complex_ops.conj(input) if _dtype("conj_physical", input).kind == "c" else input
    return _run(complex_ops.conj, (input,), out)


def conj_physical_(self: Tensor) -> Tensor:
    """In-place version of `conj_physical`.

    Args:
        self: tensor to change.

    >>> import ndgrad
    >>> ndgrad.tensor([1.0 + 2.0j]).conj_physical_()
    tensor([1.-2.j])
    """
    return write(complex_ops.conj, self, (), {}) if np_dtype(self).kind == "c" else self
