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
from ndgrad._src.core.variable import Variable, np_dtype, wrap
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
    "complex", "polar", "real", "imag", "conj", "conj_physical", "fake_quantize_per_tensor_affine",
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
    """Return input + alpha * other.

    >>> import ndgrad
    >>> ndgrad.add(ndgrad.tensor([1.0, 2.0]), ndgrad.tensor([10.0, 20.0]), alpha=0.5)
    tensor([ 6., 12.])
    """
    if alpha != 1:
        other = _scale("add", input, other, alpha)
    return _run(arithmetic.add, (input, other), out)


def sub(input: TensorLike, other: TensorLike, *, alpha: Number = 1, out: Tensor | None = None) -> Tensor:
    """Return input - alpha * other.

    >>> import ndgrad
    >>> ndgrad.sub(ndgrad.tensor([1.0, 2.0]), 10.0, alpha=0.5)
    tensor([-4., -3.])
    """
    if alpha != 1:
        other = _scale("sub", input, other, alpha)
    return _run(arithmetic.sub, (input, other), out)


def rsub(input: TensorLike, other: TensorLike, *, alpha: Number = 1) -> Tensor:
    """Return other - alpha * input.

    >>> import ndgrad
    >>> ndgrad.rsub(ndgrad.tensor([1.0, 2.0]), 10.0)
    tensor([9., 8.])
    """
    return sub(other, input, alpha=alpha)


def add_(self: Tensor, other: TensorLike, *, alpha: Number = 1) -> Tensor:
    """In-place version of `add`.

    >>> import ndgrad
    >>> ndgrad.tensor([1.0, 2.0]).add_(1.0, alpha=10)
    tensor([11., 12.])
    """
    return write(arithmetic.add, self, (other if alpha == 1 else _scale("add_", self, other, alpha),), {})


def sub_(self: Tensor, other: TensorLike, *, alpha: Number = 1) -> Tensor:
    """In-place version of `sub`.

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
    """Return input / other; with rounding_mode "floor" or "trunc" the quotient is rounded.

    >>> import ndgrad
    >>> ndgrad.div(ndgrad.tensor([7, -7]), 2, rounding_mode="trunc")
    tensor([ 3, -3])
    """
    return _run(arithmetic.div if rounding_mode is None else _division(rounding_mode), (input, other), out)


def div_(self: Tensor, other: TensorLike, *, rounding_mode: str | None = None) -> Tensor:
    """In-place version of `div`.

    >>> import ndgrad
    >>> ndgrad.tensor([7, -7]).div_(2, rounding_mode="floor")
    tensor([ 3, -4])
    """
    return write(_division(rounding_mode), self, (other,), {})


def positive(input: Tensor) -> Tensor:
    """Return the tensor itself; raise for booleans, which have no sign.

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

    >>> import ndgrad
    >>> ndgrad.float_power(ndgrad.tensor([2, 3]), -1)
    tensor([0.5000, 0.3333], dtype=ndgrad.float64)
    """
    dtype = _double(input, exponent)
    return _run(arithmetic.pow, (_as_dtype(input, dtype), _as_dtype(exponent, dtype)), out)


def float_power_(self: Tensor, exponent: TensorLike) -> Tensor:
    """In-place version of `float_power`, for double precision tensors.

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
    """log(input / (1 - input)). With eps, the input is first clamped to [eps, 1 - eps].

    >>> import ndgrad
    >>> ndgrad.logit(ndgrad.tensor([0.5, 1.0]), eps=0.01)
    tensor([0.0000, 4.5951])
    """
    return _run(activation.logit, (input,), out, eps=eps)


def logit_(self: Tensor, eps: float | None = None) -> Tensor:
    """In-place version of `logit`.

    >>> import ndgrad
    >>> ndgrad.tensor([0.5]).logit_()
    tensor([0.])
    """
    return write(activation.logit, self, (), {"eps": eps})


def sinc(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """sin(pi x) / (pi x), and 1 at 0.

    >>> import ndgrad
    >>> ndgrad.sinc(ndgrad.tensor([0.0, 0.5]))
    tensor([1.0000, 0.6366])
    """
    return _run(trigonometric.sinc, (input,), out)


def sinc_(self: Tensor) -> Tensor:
    """In-place version of `sinc`.

    >>> import ndgrad
    >>> ndgrad.tensor([0.0, 1.0]).sinc_().round()
    tensor([1., -0.])
    """
    return write(trigonometric.sinc, self, (), {"order": 0})


def sign(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """-1, 0 or 1 for a negative, zero or positive input. Its gradient is zero everywhere.

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

    >>> import ndgrad
    >>> ndgrad.sgn(ndgrad.tensor([-3.0, 0.0, 5.0]))
    tensor([-1.,  0.,  1.])
    """
    is_bool = _dtype("sgn", input).kind == "b"  # NumPy's sign does not accept bool
    return _run(cast.clone if is_bool else complex_ops.sgn, (input,), out)


def sgn_(self: Tensor) -> Tensor:
    """In-place version of `sgn`.

    >>> import ndgrad
    >>> ndgrad.tensor([-3.0, 2.0]).sgn_()
    tensor([-1.,  1.])
    """
    is_bool = np_dtype(self).kind == "b"
    return write(cast.clone if is_bool else complex_ops.sgn, self, (), {})


def sign_(self: Tensor) -> Tensor:
    """In-place version of `sign`.

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
    """Replace NaN by `nan`, infinities by `posinf` and `neginf` (by default the largest finite numbers).

    >>> import ndgrad
    >>> ndgrad.nan_to_num(ndgrad.tensor([float("nan"), float("inf"), 2.0]), posinf=9.0)
    tensor([0., 9., 2.])
    """
    return _run(rounding.nan_to_num, (input,), out, nan=0.0 if nan is None else nan, posinf=posinf, neginf=neginf)


def nan_to_num_(
    self: Tensor, nan: float | None = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    """In-place version of `nan_to_num`.

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

    >>> import ndgrad
    >>> ndgrad.fake_quantize_per_tensor_affine(ndgrad.tensor([-1.0, 0.3, 0.6, 2.0]), 0.25, 0, 0, 4)
    tensor([0.0000, 0.2500, 0.5000, 1.0000])
    """
    if not is_floating(np_dtype(input)):
        raise RuntimeError(
            f"fake_quantize_per_tensor_affine: the input must be floating point, but is {np_dtype(input)}. [nd-dtype]"
        )
    if not quant_min <= int(zero_point) <= quant_max:
        raise RuntimeError(
            f"fake_quantize_per_tensor_affine: `zero_point` must be between `quant_min` and `quant_max`, but is "
            f"{int(zero_point)}, and they are {quant_min} and {quant_max}. [nd-range]"
        )
    step = np.float32(float(scale))  # torch's scales are in single precision
    with np.errstate(divide="ignore"):
        inverse = float(np.float32(1) / step)
    how = {"scale": float(step), "inverse": inverse, "zero_point": int(zero_point)}
    return rounding.fake_quantize_per_tensor_affine.eager(input, **how, quant_min=quant_min, quant_max=quant_max)


# ----- choices --------------------------------------------------------------------------------------------------------


def clamp(
    input: Tensor, min: TensorLike | None = None, max: TensorLike | None = None, *, out: Tensor | None = None
) -> Tensor:
    """Clamp the input to [min, max]; bounds are numbers or tensors, and one of them may be absent.

    The gradient passes if the input lies inside, bounds included.

    >>> import ndgrad
    >>> ndgrad.clamp(ndgrad.tensor([-1.0, 0.5, 3.0]), min=0.0, max=1.0)
    tensor([0.0000, 0.5000, 1.0000])
    """
    op, bounds = _choose_clamp(min, max)
    return _run(op, (input, *bounds), out)


def clamp_(self: Tensor, min: TensorLike | None = None, max: TensorLike | None = None) -> Tensor:
    """In-place version of `clamp`.

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
    """`input` where the condition is true, else `other`. With the condition alone: the indices of its true elements.

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
    """`self` where the condition is true, else `other`.

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
    """elu, scaled so that activations keep zero mean and unit variance.

    >>> import ndgrad
    >>> ndgrad.selu(ndgrad.tensor([-1.0, 1.0]))
    tensor([-1.1113,  1.0507])
    """
    return activation.elu(input, **_SELU)


def selu_(self: Tensor) -> Tensor:
    """In-place version of `selu`.

    >>> import ndgrad
    >>> ndgrad.selu_(ndgrad.tensor([0.0, 1.0]))
    tensor([0.0000, 1.0507])
    """
    return write(activation.elu, self, (), _SELU)


def celu(input: Tensor, alpha: float = 1.0) -> Tensor:
    """max(0, x) + min(0, alpha (exp(x / alpha) - 1)).

    >>> import ndgrad
    >>> ndgrad.celu(ndgrad.tensor([-1.0, 1.0]))
    tensor([-0.6321,  1.0000])
    """
    return activation.elu(input, alpha=alpha, scale=1.0, input_scale=_inverse(alpha))


def celu_(self: Tensor, alpha: float = 1.0) -> Tensor:
    """In-place version of `celu`.

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
    """The input where it exceeds `threshold`, else `value`.

    >>> import ndgrad
    >>> ndgrad.threshold(ndgrad.tensor([0.5, 2.0]), 1.0, -1.0)
    tensor([-1.,  2.])
    """
    return _run(activation.threshold, (input,), out, threshold=threshold, value=value)


def threshold_(self: Tensor, threshold: float, value: float) -> Tensor:
    """In-place version of `threshold`.

    >>> import ndgrad
    >>> ndgrad.threshold_(ndgrad.tensor([0.5, 2.0]), 1.0, 0.0)
    tensor([0., 2.])
    """
    return write(activation.threshold, self, (), {"threshold": threshold, "value": value})


def hardshrink(input: Tensor, lambd: float = 0.5, *, out: Tensor | None = None) -> Tensor:
    """The input where its absolute value exceeds `lambd`, else 0.

    >>> import ndgrad
    >>> ndgrad.hardshrink(ndgrad.tensor([-1.0, 0.3, 2.0]))
    tensor([-1.,  0.,  2.])
    """
    return _run(activation.hardshrink, (input,), out, lambd=lambd)


# ----- complex numbers ------------------------------------------------------------------------------------------------


def abs_(self: Tensor) -> Tensor:
    """In-place version of `abs`; a complex tensor cannot hold the real result.

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
    """real + i imag.

    >>> import ndgrad
    >>> ndgrad.complex(ndgrad.tensor([1.0]), ndgrad.tensor([2.0]))
    tensor([1.+2.j])
    """
    _check_parts("complex", real, imag)
    return _run(complex_ops.complex, (real, imag), out)


def polar(abs: Tensor, angle: Tensor, *, out: Tensor | None = None) -> Tensor:
    """abs * exp(i angle).

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

    >>> import ndgrad
    >>> z = ndgrad.tensor([1.0 + 2.0j])
    >>> ndgrad.real(z).mul_(10.0), z
    (tensor([10.]), tensor([10.+2.j]))
    """
    return complex_ops.real(input) if _dtype("real", input).kind == "c" else input


def imag(input: Tensor) -> Tensor:
    """The imaginary part of a complex tensor, as a view.

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

    >>> import ndgrad
    >>> ndgrad.conj(ndgrad.tensor([1.0 + 2.0j]))
    tensor([1.-2.j])
    """
    return conjugate_view(input) if _dtype("conj", input).kind == "c" else input


def conj_physical(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The complex conjugate in new memory; for a real tensor, the tensor itself.

    >>> import ndgrad
    >>> ndgrad.conj_physical(ndgrad.tensor([1.0 + 2.0j])).mul_(2)
    tensor([2.-4.j])
    """
    if out is None:
        return complex_ops.conj(input) if _dtype("conj_physical", input).kind == "c" else input
    return _run(complex_ops.conj, (input,), out)


def conj_physical_(self: Tensor) -> Tensor:
    """In-place version of `conj_physical`.

    >>> import ndgrad
    >>> ndgrad.tensor([1.0 + 2.0j]).conj_physical_()
    tensor([1.-2.j])
    """
    return write(complex_ops.conj, self, (), {}) if np_dtype(self).kind == "c" else self
