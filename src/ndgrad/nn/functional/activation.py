"""Activation functions, with torch's `inplace` flags, and the softmax family."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from ndgrad._src.arrays.dtypes import as_numpy_dtype
from ndgrad._src.core.inplace import write
from ndgrad._src.core.variable import np_dtype
from ndgrad._src.ops import activation, trigonometric
from ndgrad._src.ops import random as random_ops
from ndgrad._src.ops import softmax as softmax_ops
from ndgrad._src.ops.arithmetic import mul
from ndgrad._src.ops.vocabulary import tensor_ops as ops
from ndgrad._src.tensor.arguments import as_dim, both_worlds
from ndgrad._src.tensor.functions.reduce import deliver
from ndgrad.nn.functional.noise import exponential_like

if TYPE_CHECKING:
    from ndgrad._src.ops.table import Op
    from ndgrad._typing import Dtype, Tensor

__all__ = [
    "relu", "relu6", "elu", "selu", "celu", "leaky_relu", "prelu", "rrelu", "threshold", "hardtanh", "hardsigmoid",
    "hardswish", "hardshrink", "softshrink", "tanhshrink", "sigmoid", "logsigmoid", "tanh", "softplus", "softsign",
    "silu", "mish", "gelu", "glu", "relu_", "elu_", "selu_", "celu_", "leaky_relu_", "rrelu_", "threshold_",
    "hardtanh_", "softmax", "log_softmax", "softmin", "gumbel_softmax",
]  # fmt: skip


def _apply(op: Op, input: Tensor, inplace: bool, **settings: Any) -> Tensor:
    return write(op, input, (), {**op.settings, **settings}) if inplace else op.eager(input, **settings)


# ----- made of straight lines ----------------------------------------------------------------------------------------


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """Return max(x, 0) for each element x. The gradient at 0 is 0.

    Args:
        input: tensor of any shape.
        inplace: whether the result replaces the input.

    >>> import ndgrad
    >>> ndgrad.nn.functional.relu(ndgrad.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    return _apply(activation.relu, input, inplace)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """Clamp elements to [0, 6].

    Args:
        input: tensor of any shape.
        inplace: whether the result replaces the input.

    >>> import ndgrad
    >>> ndgrad.nn.functional.relu6(ndgrad.tensor([-1.0, 2.0, 8.0]))
    tensor([0., 2., 6.])
    """
    return hardtanh(input, 0.0, 6.0, inplace)


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """Clamp elements to [`min_val`, `max_val`]. Clamped elements get no gradient.

    Args:
        input: tensor of any shape.
        min_val: lower bound.
        max_val: upper bound.
        inplace: whether the result replaces the input.

    >>> import ndgrad
    >>> ndgrad.nn.functional.hardtanh(ndgrad.tensor([-3.0, 0.5, 3.0]))
    tensor([-1.0000,  0.5000,  1.0000])
    """
    if min_val > max_val:
        raise ValueError(
            f"hardtanh: min_val {min_val} is larger than max_val {max_val}. Give the lower bound first. [nd-range]"
        )
    if np_dtype(input).kind in "iu" and not input.is_numpy_type:  # integers stay integers, and the bounds are truncated
        min_val, max_val = int(min_val), int(max_val)
    return _apply(activation.hardtanh, input, inplace, min_val=min_val, max_val=max_val)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """Return x for x > 0, and `negative_slope * x` below.

    Args:
        input: tensor of any shape.
        negative_slope: factor of negative elements.
        inplace: whether the result replaces the input. It then needs a slope of at least 0.

    >>> import ndgrad
    >>> ndgrad.nn.functional.leaky_relu(ndgrad.tensor([-1.0, 2.0]), 0.1)
    tensor([-0.1000,  2.0000])
    """
    if inplace and negative_slope < 0:
        raise RuntimeError(
            f"leaky_relu: in place with negative_slope {negative_slope}, the sign of the input is lost, "
            "and with it the gradient. Use inplace=False. [nd-range]"
        )
    return _apply(activation.leaky_relu, input, inplace, negative_slope=negative_slope)


def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """Return x for x > 0, and `weight * x` below, with a learned weight.

    Args:
        input: tensor of shape (N, C, ...), or any shape if there is one weight.
        weight: one factor for all negative elements, or C factors, one per channel (dimension 1).

    >>> import ndgrad
    >>> ndgrad.nn.functional.prelu(ndgrad.tensor([[-1.0, -1.0]]), ndgrad.tensor([0.25, 0.5]))
    tensor([[-0.2500, -0.5000]])
    """
    shape = tuple(weight.shape)
    if len(shape) > 1:
        raise RuntimeError(
            f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {len(shape)}. Flatten it. [nd-ndim]"
        )
    count = shape[0] if shape else 1
    if count != 1:
        ndim = len(input.shape)
        channels = input.shape[1] if ndim > 1 else 1
        if ndim == 0 or channels != count:
            raise RuntimeError(
                f"prelu: Mismatch of parameter numbers and input channel size. Found parameter numbers = {count} and "
                f"channel size = {channels} (input of shape {tuple(input.shape)}). "
                "Give one weight, or one per channel. [nd-shape]"
            )
        weight = ops.reshape(weight, shape=(count, *(1,) * (ndim - 2)))
    elif shape:
        weight = ops.reshape(weight, shape=())
    return activation.prelu.eager(input, weight)


def rrelu(
    input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False, inplace: bool = False
) -> Tensor:
    """Apply leaky_relu with a random slope for each element in training, and with the mean slope otherwise.

    Args:
        input: tensor of any shape.
        lower, upper: bounds of the uniform distribution of slopes.
        training: whether slopes are random. Otherwise all are (lower + upper) / 2.
        inplace: whether the result replaces the input.

    >>> import ndgrad
    >>> ndgrad.nn.functional.rrelu(ndgrad.tensor([-1.0, 2.0]), lower=0.1, upper=0.3)
    tensor([-0.2000,  2.0000])
    """
    if lower > upper:
        raise RuntimeError(
            f"rrelu: Lower bound should be less than or equal to the upper bound, but they are {lower} and "
            f"{upper}. Exchange them. [nd-range]"
        )
    if not training:
        return leaky_relu(input, (lower + upper) / 2, inplace)
    slopes = random_ops.rrelu_slopes(ops.detach(input), lower=lower, upper=upper)
    return write(mul, input, (slopes,), {}) if inplace else input * slopes


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """Return x above the threshold, and `value` elsewhere.

    Args:
        input: tensor of any shape.
        threshold: bound above which elements are kept.
        value: replacement of other elements.
        inplace: whether the result replaces the input.

    >>> import ndgrad
    >>> ndgrad.nn.functional.threshold(ndgrad.tensor([0.5, 2.0]), 1.0, -7.0)
    tensor([-7.,  2.])
    """
    return _apply(activation.threshold, input, inplace, threshold=threshold, value=value)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """Return `x / 6 + 1/2`, clamped to [0, 1].

    Args:
        input: tensor of any shape.
        inplace: whether the result replaces the input.

    >>> import ndgrad
    >>> ndgrad.nn.functional.hardsigmoid(ndgrad.tensor([-4.0, 0.0, 1.5]))
    tensor([0.0000, 0.5000, 0.7500])
    """
    return _apply(activation.hardsigmoid, input, inplace)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """Return `x * hardsigmoid(x)`.

    Args:
        input: tensor of any shape.
        inplace: whether the result replaces the input.

    >>> import ndgrad
    >>> ndgrad.nn.functional.hardswish(ndgrad.tensor([0.0, 1.5, 4.0]))
    tensor([0.0000, 1.1250, 4.0000])
    """
    return _apply(activation.hardswish, input, inplace)


def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """Return x if |x| > lambd, and 0 otherwise.

    Args:
        input: tensor of any shape.
        lambd: half the width of the interval that becomes 0.

    >>> import ndgrad
    >>> ndgrad.nn.functional.hardshrink(ndgrad.tensor([-1.0, 0.25]))
    tensor([-1.,  0.])
    """
    return activation.hardshrink.eager(input, lambd=lambd)


def softshrink(input: Tensor, lambd: float = 0.5, *, out: Tensor | None = None) -> Tensor:
    """Move elements towards 0 by `lambd`. Elements with |x| < lambd become 0.

    Args:
        input: tensor of any shape.
        lambd: size of the shift, at least 0.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.nn.functional.softshrink(ndgrad.tensor([-1.0, 0.25, 2.0]))
    tensor([-0.5000,  0.0000,  1.5000])
    """
    if lambd < 0:
        raise RuntimeError(
            f"softshrink: lambda must be greater or equal to 0, but found to be {lambd}. Give its size. [nd-range]"
        )
    result = activation.softshrink.eager(input, lambd=lambd)
    return result if out is None else deliver("softshrink", result, out, input)


# ----- smooth --------------------------------------------------------------------------------------------------------


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Return x for x > 0, and `alpha * (exp(x) - 1)` below.

    Args:
        input: tensor of any shape.
        alpha: minus the limit for large negative elements.
        inplace: whether the result replaces the input.

    >>> import ndgrad
    >>> ndgrad.nn.functional.elu(ndgrad.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """
    return _apply(activation.elu, input, inplace, alpha=alpha)


# The fixed point at which activations keep mean 0 and variance 1 (Klambauer et al. 2017).
_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """Apply elu, scaled so that activations normalise themselves (Klambauer et al. 2017).

    Args:
        input: tensor of any shape.
        inplace: whether the result replaces the input.

    >>> import ndgrad
    >>> ndgrad.nn.functional.selu(ndgrad.tensor([-1.0, 1.0]))
    tensor([-1.1113,  1.0507])
    """
    return _apply(activation.elu, input, inplace, alpha=_SELU_ALPHA, scale=_SELU_SCALE)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Return x for x > 0, and `alpha * (exp(x / alpha) - 1)` below: smooth at 0 for every alpha.

    Args:
        input: tensor of any shape.
        alpha: minus the limit for large negative elements, not 0.
        inplace: whether the result replaces the input.

    >>> import ndgrad
    >>> ndgrad.nn.functional.celu(ndgrad.tensor([-1.0, 2.0]), alpha=2.0)
    tensor([-0.7869,  2.0000])
    """
    if alpha == 0:
        raise RuntimeError(
            "celu: ZeroDivisionError: alpha cannot be 0, which the input is divided by. Use relu. [nd-range]"
        )
    return _apply(activation.elu, input, inplace, alpha=alpha, input_scale=1.0 / alpha)


def sigmoid(input: Tensor) -> Tensor:
    """Return the logistic function 1 / (1 + exp(-x)), without overflow.

    Args:
        input: tensor of any shape.

    >>> import ndgrad
    >>> ndgrad.nn.functional.sigmoid(ndgrad.tensor([0.0, 2.0]))
    tensor([0.5000, 0.8808])
    """
    return activation.sigmoid.eager(input)


def logsigmoid(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return log(sigmoid(x)), without overflow.

    Args:
        input: tensor of any shape.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.nn.functional.logsigmoid(ndgrad.tensor([0.0, -1000.0]))
    tensor([-6.9315e-01, -1.0000e+03])
    """
    result = activation.log_sigmoid.eager(input)
    return result if out is None else deliver("logsigmoid", result, out, input)


def tanh(input: Tensor) -> Tensor:
    """Return the hyperbolic tangent.

    Args:
        input: tensor of any shape.

    >>> import ndgrad
    >>> ndgrad.nn.functional.tanh(ndgrad.tensor([0.0, 1.0]))
    tensor([0.0000, 0.7616])
    """
    return trigonometric.tanh.eager(input)


def tanhshrink(input: Tensor) -> Tensor:
    """Return x - tanh(x).

    Args:
        input: tensor of any shape.

    >>> import ndgrad
    >>> ndgrad.nn.functional.tanhshrink(ndgrad.tensor([0.0, 1.0]))
    tensor([0.0000, 0.2384])
    """
    return activation.tanhshrink.eager(input)


def softplus(
    input: Tensor, beta: float = 1.0, threshold: float = 20.0, *, out: Tensor | None = None
) -> Tensor:
    """Return `log(1 + exp(beta * x)) / beta`, a smooth form of relu.

    Args:
        input: tensor of any shape.
        beta: sharpness of the bend at 0.
        threshold: bound of `beta * x` above which the result is x itself.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.nn.functional.softplus(ndgrad.tensor([0.0, 50.0]))
    tensor([ 0.6931, 50.0000])
    """
    result = activation.softplus.eager(input, beta=beta, threshold=threshold)
    return result if out is None else deliver("softplus", result, out, input)


def softsign(input: Tensor) -> Tensor:
    """Return x / (1 + |x|).

    Args:
        input: tensor of any shape.

    >>> import ndgrad
    >>> ndgrad.nn.functional.softsign(ndgrad.tensor([-1.0, 3.0]))
    tensor([-0.5000,  0.7500])
    """
    if np_dtype(input).kind == "c":  # depends on absolute values, so it is not holomorphic
        return input / (input.abs() + 1.0)
    return activation.softsign.eager(input)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """Return `x * sigmoid(x)`, also called swish.

    Args:
        input: tensor of any shape.
        inplace: whether the result replaces the input.

    >>> import ndgrad
    >>> ndgrad.nn.functional.silu(ndgrad.tensor([-1.0, 1.0]))
    tensor([-0.2689,  0.7311])
    """
    return _apply(activation.silu, input, inplace)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """Return `x * tanh(softplus(x))`.

    Args:
        input: tensor of any shape.
        inplace: whether the result replaces the input.

    >>> import ndgrad
    >>> ndgrad.nn.functional.mish(ndgrad.tensor([-1.0, 1.0]))
    tensor([-0.3034,  0.8651])
    """
    return _apply(activation.mish, input, inplace)


def gelu(input: Tensor, approximate: str = "none", *, out: Tensor | None = None) -> Tensor:
    """Return x times the normal distribution function at x.

    Args:
        input: tensor of any shape.
        approximate: `"none"` for the exact function, `"tanh"` for an approximation with tanh.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.nn.functional.gelu(ndgrad.tensor([-1.0, 1.0]))
    tensor([-0.1587,  0.8413])
    """
    if approximate not in ("none", "tanh"):
        raise RuntimeError(
            f"gelu: approximate argument must be either none or tanh, but is {approximate!r}. [nd-option]"
        )
    result = activation.gelu.eager(input, approximate=approximate)
    return result if out is None else deliver("gelu", result, out, input)


@both_worlds
def glu(input: Tensor, dim: int = -1) -> Tensor:
    """Return the first half of the input along `dim`, times the sigmoid of the second half.

    Args:
        input: tensor whose size along `dim` is even.
        dim: dimension that is halved.

    Returns:
        A tensor with half the size along `dim`.

    >>> import ndgrad
    >>> ndgrad.nn.functional.glu(ndgrad.tensor([4.0, 6.0, 0.0, 0.0]))
    tensor([2., 3.])
    """
    shape = tuple(input.shape)
    if not shape:
        raise RuntimeError(
            "glu does not support scalars because halving size must be even. Give a tensor of at least one dimension. "
            "[nd-ndim]"
        )
    dim = as_dim(dim, len(shape))
    if shape[dim] % 2:
        raise RuntimeError(
            f"glu: Halving dimension must be even, but dimension {dim} is size {shape[dim]} (shape {shape}). "
            "Choose another dim. [nd-divisible]"
        )
    return activation.glu.eager(input, dim=dim)


# ----- in-place names ------------------------------------------------------------------------------------------------


def relu_(input: Tensor) -> Tensor:
    """Apply `relu` in place.

    Args:
        input: tensor of any shape.

    >>> import ndgrad
    >>> ndgrad.nn.functional.relu_(ndgrad.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    return relu(input, inplace=True)


def elu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """Apply `elu` in place.

    Args:
        input: tensor of any shape.
        alpha: minus the limit for large negative elements.

    >>> import ndgrad
    >>> ndgrad.nn.functional.elu_(ndgrad.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """
    return elu(input, alpha, inplace=True)


def selu_(input: Tensor) -> Tensor:
    """Apply `selu` in place.

    Args:
        input: tensor of any shape.

    >>> import ndgrad
    >>> ndgrad.nn.functional.selu_(ndgrad.tensor([-1.0, 1.0]))
    tensor([-1.1113,  1.0507])
    """
    return selu(input, inplace=True)


def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """Apply `celu` in place.

    Args:
        input: tensor of any shape.
        alpha: minus the limit for large negative elements, not 0.

    >>> import ndgrad
    >>> ndgrad.nn.functional.celu_(ndgrad.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """
    return celu(input, alpha, inplace=True)


def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """Apply `leaky_relu` in place.

    Args:
        input: tensor of any shape.
        negative_slope: factor of negative elements, at least 0.

    >>> import ndgrad
    >>> ndgrad.nn.functional.leaky_relu_(ndgrad.tensor([-1.0, 2.0]))
    tensor([-0.0100,  2.0000])
    """
    return leaky_relu(input, negative_slope, inplace=True)


def rrelu_(input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False) -> Tensor:
    """Apply `rrelu` in place.

    Args:
        input: tensor of any shape.
        lower, upper: bounds of the uniform distribution of slopes.
        training: whether slopes are random. Otherwise all are (lower + upper) / 2.

    >>> import ndgrad
    >>> ndgrad.nn.functional.rrelu_(ndgrad.tensor([-1.0, 2.0]), lower=0.5, upper=0.5)
    tensor([-0.5000,  2.0000])
    """
    return rrelu(input, lower, upper, training, inplace=True)


def threshold_(input: Tensor, threshold: float, value: float) -> Tensor:
    """Apply `threshold` in place.

    Args:
        input: tensor of any shape.
        threshold: bound above which elements are kept.
        value: replacement of other elements.

    >>> import ndgrad
    >>> ndgrad.nn.functional.threshold_(ndgrad.tensor([0.5, 2.0]), 1.0, 0.0)
    tensor([0., 2.])
    """
    return _apply(activation.threshold, input, True, threshold=threshold, value=value)


def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """Apply `hardtanh` in place.

    Args:
        input: tensor of any shape.
        min_val: lower bound.
        max_val: upper bound.

    >>> import ndgrad
    >>> ndgrad.nn.functional.hardtanh_(ndgrad.tensor([-3.0, 0.5]))
    tensor([-1.0000,  0.5000])
    """
    return hardtanh(input, min_val, max_val, inplace=True)


# ----- softmax -------------------------------------------------------------------------------------------------------


def _normalize_along(op: Op, name: str, input: Tensor, dim: int | None, dtype: Dtype, stacklevel: int) -> Tensor:
    ndim = len(input.shape)
    if dim is None:
        warnings.warn(
            (
                f"Implicit dimension choice for {name} has been deprecated. "
                "Change the call to include dim=X as an argument."
            ),
            stacklevel=stacklevel + 1,
        )
        dim = 0 if ndim in (0, 1, 3) else 1
    dim = as_dim(dim, ndim)
    if dtype is not None:
        input = ops.cast(input, dtype=as_numpy_dtype(dtype))
    if not ndim:
        return ops.reshape(op.eager(ops.reshape(input, shape=(1,)), dim=0), shape=())
    return op.eager(input, dim=dim)


@both_worlds
def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Dtype = None) -> Tensor:
    """Return exp(x), normalised to sum to one along a dimension.

    Args:
        input: tensor of any shape.
        dim: dimension along which the result sums to one. Without it a warning is given and 0 or 1 is chosen by the
            number of dimensions.
        dtype: dtype to which the input is converted first.

    >>> import ndgrad
    >>> ndgrad.nn.functional.softmax(ndgrad.tensor([0.0, 1.0]), dim=0)
    tensor([0.2689, 0.7311])
    """
    return _normalize_along(softmax_ops.softmax, "softmax", input, dim, dtype, _stacklevel)


@both_worlds
def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Dtype = None) -> Tensor:
    """Return the logarithm of `softmax`, without overflow.

    Args:
        input: tensor of any shape.
        dim: dimension along which the softmax sums to one. Without it a warning is given and 0 or 1 is chosen by the
            number of dimensions.
        dtype: dtype to which the input is converted first.

    >>> import ndgrad
    >>> ndgrad.nn.functional.log_softmax(ndgrad.tensor([0.0, 1000.0]), dim=0)
    tensor([-1000.,     0.])
    """
    return _normalize_along(softmax_ops.log_softmax, "log_softmax", input, dim, dtype, _stacklevel)


@both_worlds
def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Dtype = None) -> Tensor:
    """Return softmax(-x): the smallest element gets the largest share.

    Args:
        input: tensor of any shape.
        dim: dimension along which the result sums to one. Without it a warning is given and 0 or 1 is chosen by the
            number of dimensions.
        dtype: dtype to which the input is converted first.

    >>> import ndgrad
    >>> ndgrad.nn.functional.softmin(ndgrad.tensor([0.0, 1.0]), dim=0)
    tensor([0.7311, 0.2689])
    """
    return _normalize_along(softmax_ops.softmax, "softmin", -input, dim, dtype, _stacklevel)


@both_worlds
def gumbel_softmax(logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    """Sample from the Gumbel-softmax distribution, a differentiable form of drawing one class.

    Args:
        logits: unnormalised log-probabilities.
        tau: temperature. Small values give samples near one-hot vectors.
        hard: whether samples are one-hot vectors, with the gradient of the soft samples.
        eps: accepted as in torch; has no effect.
        dim: dimension of the classes.

    >>> import ndgrad
    >>> logits = ndgrad.tensor([[0.0, 2.0, 1.0]], requires_grad=True)
    >>> ndgrad.nn.functional.gumbel_softmax(logits, tau=0.5, hard=True).detach().amax()
    tensor(1.)
    """
    dim = as_dim(dim, len(logits.shape))
    noise = -ops.log(exponential_like(logits))
    soft = softmax((logits + noise) / tau, dim=dim)
    if not hard:
        return soft
    chosen = ops.argmax(ops.detach(soft), dim=dim, keepdim=True)
    one_hot = ops.scatter(ops.zeros_like(ops.detach(soft)), chosen, 1.0, dim=dim)
    return one_hot - ops.detach(soft) + soft
