"""Activation functions, with torch's `inplace` flags, and the softmax family."""

from __future__ import annotations

import warnings
from typing import Any

from ndgrad.api.arguments import as_dim, both_worlds
from ndgrad.autograd.inplace import write
from ndgrad.dtypes import as_numpy_dtype
from ndgrad.nn.functional.noise import exponential_like, uniform_like
from ndgrad.ops import activation, trigonometric
from ndgrad.ops import softmax as softmax_ops
from ndgrad.ops.arithmetic import mul
from ndgrad.ops.vocabulary import tensor_ops as ops

__all__ = [
    "relu", "relu6", "elu", "selu", "celu", "leaky_relu", "prelu", "rrelu", "threshold", "hardtanh", "hardsigmoid", "hardswish",
    "hardshrink", "softshrink", "tanhshrink", "sigmoid", "logsigmoid", "tanh", "softplus", "softsign", "silu", "mish", "gelu", "glu",
    "relu_", "elu_", "selu_", "celu_", "leaky_relu_", "rrelu_", "threshold_", "hardtanh_",
    "softmax", "log_softmax", "softmin", "gumbel_softmax",
]  # fmt: skip


def _apply(op: Any, input: Any, inplace: bool, **settings: Any) -> Any:
    return write(op, input, (), {**op.settings, **settings}) if inplace else op.eager(input, **settings)


# ----- made of straight lines ----------------------------------------------------------------------------------------


def relu(input: Any, inplace: bool = False) -> Any:
    """max(x, 0).

    >>> relu(ndgrad.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    return _apply(activation.relu, input, inplace)


def relu6(input: Any, inplace: bool = False) -> Any:
    """x, kept between 0 and 6."""
    return _apply(activation.hardtanh, input, inplace, min_val=0.0, max_val=6.0)


def hardtanh(input: Any, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Any:
    """x, kept between `min_val` and `max_val`."""
    if min_val > max_val:
        raise ValueError(f"hardtanh: min_val {min_val} is larger than max_val {max_val}. Give the lower bound first.")
    return _apply(activation.hardtanh, input, inplace, min_val=min_val, max_val=max_val)


def leaky_relu(input: Any, negative_slope: float = 0.01, inplace: bool = False) -> Any:
    """x above 0, `negative_slope` x below."""
    if inplace and negative_slope < 0:
        raise RuntimeError(
            f"leaky_relu: in place with negative_slope {negative_slope}, the sign of the input is lost, and with it the gradient. "
            "Use inplace=False."
        )
    return _apply(activation.leaky_relu, input, inplace, negative_slope=negative_slope)


def prelu(input: Any, weight: Any) -> Any:
    """x above 0, `weight` x below, with one weight for all or one per channel (dimension 1)."""
    shape = tuple(weight.shape)
    if len(shape) > 1:
        raise RuntimeError(f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {len(shape)}. Flatten it.")
    count = shape[0] if shape else 1
    if count != 1:
        ndim = len(input.shape)
        channels = input.shape[1] if ndim > 1 else 1
        if ndim == 0 or channels != count:
            raise RuntimeError(
                f"prelu: Mismatch of parameter numbers and input channel size. Found parameter numbers = {count} and channel size = "
                f"{channels} (input of shape {tuple(input.shape)}). Give one weight, or one per channel."
            )
        weight = ops.reshape(weight, shape=(count, *(1,) * (ndim - 2)))
    elif shape:
        weight = ops.reshape(weight, shape=())
    return ops.where(input > 0, input, weight * input)


def rrelu(input: Any, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False, inplace: bool = False) -> Any:
    """leaky_relu with a slope drawn for each element in training, and the mean slope otherwise."""
    if lower > upper:
        raise RuntimeError(
            f"rrelu: Lower bound should be less than or equal to the upper bound, and they are {lower} and {upper}. Exchange them."
        )
    if not training:
        return leaky_relu(input, (lower + upper) / 2, inplace)
    slopes = ops.where(input > 0, 1.0, uniform_like(input) * (upper - lower) + lower)
    return write(mul, input, (slopes,), {}) if inplace else input * slopes


def threshold(input: Any, threshold: float, value: float, inplace: bool = False) -> Any:
    """x above the threshold, `value` elsewhere."""
    return _apply(activation.threshold, input, inplace, threshold=threshold, value=value)


def hardsigmoid(input: Any, inplace: bool = False) -> Any:
    """x / 6 + 1/2, kept between 0 and 1."""
    return _apply(activation.hardsigmoid, input, inplace)


def hardswish(input: Any, inplace: bool = False) -> Any:
    """x hardsigmoid(x)."""
    return _apply(activation.hardswish, input, inplace)


def hardshrink(input: Any, lambd: float = 0.5) -> Any:
    """x where |x| > lambd, 0 elsewhere."""
    return activation.hardshrink.eager(input, lambd=lambd)


def softshrink(input: Any, lambd: float = 0.5) -> Any:
    """x moved towards 0 by `lambd`."""
    if lambd < 0:
        raise RuntimeError(f"softshrink: lambda must be greater or equal to 0, but found to be {lambd}. Give its size.")
    return activation.softshrink.eager(input, lambd=lambd)


# ----- smooth --------------------------------------------------------------------------------------------------------


def elu(input: Any, alpha: float = 1.0, inplace: bool = False) -> Any:
    """x above 0, alpha (exp(x) - 1) below."""
    return _apply(activation.elu, input, inplace, alpha=alpha)


# The fixed point at which activations keep mean 0 and variance 1 (Klambauer et al. 2017).
_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946


def selu(input: Any, inplace: bool = False) -> Any:
    """elu scaled so that activations normalise themselves."""
    return _apply(activation.elu, input, inplace, alpha=_SELU_ALPHA, scale=_SELU_SCALE)


def celu(input: Any, alpha: float = 1.0, inplace: bool = False) -> Any:
    """x above 0, alpha (exp(x / alpha) - 1) below."""
    if alpha == 0:
        raise RuntimeError("celu: ZeroDivisionError: alpha cannot be 0, which the input is divided by. Use relu.")
    return _apply(activation.elu, input, inplace, alpha=alpha, input_scale=1.0 / alpha)


def sigmoid(input: Any) -> Any:
    """1 / (1 + exp(-x))."""
    return activation.sigmoid.eager(input)


def logsigmoid(input: Any) -> Any:
    """log(sigmoid(x)), without overflow."""
    return activation.log_sigmoid.eager(input)


def tanh(input: Any) -> Any:
    """The hyperbolic tangent."""
    return trigonometric.tanh.eager(input)


def tanhshrink(input: Any) -> Any:
    """x - tanh(x)."""
    return activation.tanhshrink.eager(input)


def softplus(input: Any, beta: float = 1.0, threshold: float = 20.0) -> Any:
    """log(1 + exp(beta x)) / beta, and x itself where beta x exceeds the threshold."""
    return activation.softplus.eager(input, beta=beta, threshold=threshold)


def softsign(input: Any) -> Any:
    """x / (1 + |x|)."""
    return activation.softsign.eager(input)


def silu(input: Any, inplace: bool = False) -> Any:
    """x sigmoid(x)."""
    return _apply(activation.silu, input, inplace)


def mish(input: Any, inplace: bool = False) -> Any:
    """x tanh(softplus(x))."""
    return _apply(activation.mish, input, inplace)


def gelu(input: Any, approximate: str = "none") -> Any:
    """x times the normal distribution function of x, exact ("none") or by a formula with tanh ("tanh")."""
    if approximate not in ("none", "tanh"):
        raise RuntimeError(f"gelu: approximate argument must be either none or tanh, and is {approximate!r}.")
    return activation.gelu.eager(input, approximate=approximate)


@both_worlds
def glu(input: Any, dim: int = -1) -> Any:
    """The first half of the input along `dim`, gated by the sigmoid of the second."""
    shape = tuple(input.shape)
    if not shape:
        raise RuntimeError("glu does not support scalars because halving size must be even. Give a tensor of at least one dimension.")
    dim = as_dim(dim, len(shape))
    if shape[dim] % 2:
        raise RuntimeError(
            f"glu: Halving dimension must be even, but dimension {dim} is size {shape[dim]} (shape {shape}). Choose another dim."
        )
    half = shape[dim] // 2
    first = ops.slice(input, dim=dim, start=0, stop=half, step=1)
    second = ops.slice(input, dim=dim, start=half, stop=2 * half, step=1)
    return first * activation.sigmoid.eager(second)


# ----- in-place names ------------------------------------------------------------------------------------------------


def relu_(input: Any) -> Any:
    """In-place relu."""
    return relu(input, inplace=True)


def elu_(input: Any, alpha: float = 1.0) -> Any:
    """In-place elu."""
    return elu(input, alpha, inplace=True)


def selu_(input: Any) -> Any:
    """In-place selu."""
    return selu(input, inplace=True)


def celu_(input: Any, alpha: float = 1.0) -> Any:
    """In-place celu."""
    return celu(input, alpha, inplace=True)


def leaky_relu_(input: Any, negative_slope: float = 0.01) -> Any:
    """In-place leaky_relu."""
    return leaky_relu(input, negative_slope, inplace=True)


def rrelu_(input: Any, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False) -> Any:
    """In-place rrelu."""
    return rrelu(input, lower, upper, training, inplace=True)


def threshold_(input: Any, threshold: float, value: float) -> Any:
    """In-place threshold."""
    return _apply(activation.threshold, input, True, threshold=threshold, value=value)


def hardtanh_(input: Any, min_val: float = -1.0, max_val: float = 1.0) -> Any:
    """In-place hardtanh."""
    return hardtanh(input, min_val, max_val, inplace=True)


# ----- softmax -------------------------------------------------------------------------------------------------------


def _along(op: Any, name: str, input: Any, dim: int | None, dtype: Any, stacklevel: int) -> Any:
    ndim = len(input.shape)
    if dim is None:
        warnings.warn(
            f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument.",
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
def softmax(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    """exp(x), scaled to sum to one along `dim`.

    >>> softmax(ndgrad.tensor([1.0, 1.0]), dim=0)
    tensor([0.5000, 0.5000])
    """
    return _along(softmax_ops.softmax, "softmax", input, dim, dtype, _stacklevel)


@both_worlds
def log_softmax(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    """log(softmax(x)), without overflow."""
    return _along(softmax_ops.log_softmax, "log_softmax", input, dim, dtype, _stacklevel)


@both_worlds
def softmin(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    """softmax(-x)."""
    return _along(softmax_ops.softmax, "softmin", -input, dim, dtype, _stacklevel)


@both_worlds
def gumbel_softmax(logits: Any, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Any:
    """A sample from the Gumbel-softmax distribution; with `hard`, a one-hot one whose gradient is that of the soft one."""
    dim = as_dim(dim, len(logits.shape))
    noise = -ops.log(exponential_like(logits))
    soft = softmax((logits + noise) / tau, dim=dim)
    if not hard:
        return soft
    chosen = ops.argmax(ops.detach(soft), dim=dim, keepdim=True)
    one_hot = ops.scatter(ops.zeros_like(ops.detach(soft)), chosen, 1.0, dim=dim)
    return one_hot - ops.detach(soft) + soft
