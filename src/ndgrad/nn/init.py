"""Initial values for parameters: each function fills a tensor in place, outside the graph, and returns it."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.core.grad_mode import no_grad
from ndgrad._src.tensor.functions.creation import empty_like, eye
from ndgrad._src.tensor.functions.elementwise import where

if TYPE_CHECKING:
    from ndgrad._typing import Generator, Tensor

__all__ = [
    "calculate_gain", "constant_", "dirac_", "eye_", "kaiming_normal_", "kaiming_uniform_", "normal_", "ones_",
    "orthogonal_", "sparse_", "trunc_normal_", "uniform_", "xavier_normal_", "xavier_uniform_", "zeros_",
]  # fmt: skip

_GAINS = {
    **dict.fromkeys(
        ("linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "sigmoid"),
        1,
    ),
    "tanh": 5.0 / 3,
    "relu": math.sqrt(2.0),
    "selu": 3.0 / 4,
}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """Return the factor on weights with which a nonlinearity keeps the variance of its input.

    Args:
        nonlinearity: name of a layer or activation: `"linear"`, `"conv2d"`, `"sigmoid"`, `"tanh"`, `"relu"`,
            `"leaky_relu"`, `"selu"` and so on.
        param: negative slope of `"leaky_relu"`. The default is 0.01.

    Raises:
        ValueError: if the name is unknown.

    >>> import ndgrad
    >>> round(ndgrad.nn.init.calculate_gain("relu"), 4)
    1.4142
    """
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        if isinstance(slope, bool) or not isinstance(slope, (int, float)):
            raise ValueError(f"negative_slope {slope!r} not a valid number. Give an int or a float. [nd-type]")
        return math.sqrt(2.0 / (1 + slope**2))
    if nonlinearity not in _GAINS:
        raise ValueError(
            f"Unsupported nonlinearity {nonlinearity!r}. Known are leaky_relu, {', '.join(_GAINS)}. [nd-option]"
        )
    return _GAINS[nonlinearity]


# ----- distributions --------------------------------------------------------------------------------------------------


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill a tensor with uniform numbers from [a, b).

    Args:
        tensor: tensor to fill.
        a: lower bound.
        b: upper bound.
        generator: source of random numbers. The default is the global generator.

    >>> import ndgrad
    >>> bool((ndgrad.nn.init.uniform_(ndgrad.empty(100), 2.0, 3.0) >= 2.0).all())
    True
    """
    with no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill a tensor with numbers from a normal distribution.

    Args:
        tensor: tensor to fill.
        mean: mean.
        std: standard deviation.
        generator: source of random numbers. The default is the global generator.

    >>> import ndgrad
    >>> ndgrad.nn.init.normal_(ndgrad.empty(2, 3), std=0.02).shape
    ndgrad.Size([2, 3])
    """
    with no_grad():
        return tensor.normal_(mean, std, generator=generator)


def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Generator | None = None,
) -> Tensor:
    """Fill a tensor with normal numbers, truncated to [a, b].

    Args:
        tensor: tensor to fill.
        mean: mean before truncation.
        std: standard deviation before truncation.
        a: lower bound.
        b: upper bound.
        generator: source of random numbers. The default is the global generator.

    >>> import ndgrad
    >>> bool((ndgrad.nn.init.trunc_normal_(ndgrad.empty(100)).abs() <= 2.0).all())
    True
    """
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            (
                "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. "
                "The distribution of values may be incorrect."
            ),
            stacklevel=2,
        )

    def cdf(x: float) -> float:
        return (1.0 + math.erf((x - mean) / std / math.sqrt(2.0))) / 2.0

    with no_grad():
        if tensor.is_meta:
            return tensor
        if cdf(b) - cdf(a) > 0.3:
            _truncate_normal(tensor, mean, std, a, b, generator)
        else:
            _reject_uniform(tensor, mean, std, a, b, generator)
        return tensor


def _truncate_normal(tensor: Tensor, mean: float, std: float, a: float, b: float, generator: Generator | None) -> None:
    """Replace normal numbers outside of [a, b] by others, until none is left. A round draws for all elements."""
    low, high = tensor.new_tensor(a).item(), tensor.new_tensor(b).item()
    tensor.normal_(mean, std, generator=generator)
    while bool((outside := (tensor < low) | (tensor > high)).any()):
        tensor.copy_(where(outside, empty_like(tensor).normal_(mean, std, generator=generator), tensor))


def _reject_uniform(tensor: Tensor, mean: float, std: float, a: float, b: float, generator: Generator | None) -> None:
    """Accept uniform numbers of [a, b] with the ratio of their density to the largest one: for ranges in a tail."""
    log_peak = -0.5 * ((max(a, min(mean, b)) - mean) / std) ** 2
    rejected = None
    while rejected is None or bool(rejected.any()):
        candidates = empty_like(tensor).uniform_(a, b, generator=generator)
        tensor.copy_(candidates if rejected is None else where(rejected, candidates, tensor))
        log_ratio = candidates.sub_(mean).div_(std).pow_(2).mul_(-0.5).sub_(log_peak)
        now = empty_like(tensor).uniform_(generator=generator).log_() > log_ratio
        rejected = now if rejected is None else rejected & now


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill a tensor with a number.

    Args:
        tensor: tensor to fill.
        val: value of all elements.

    >>> import ndgrad
    >>> ndgrad.nn.init.constant_(ndgrad.empty(2), 0.5)
    tensor([0.5000, 0.5000])
    """
    with no_grad():
        return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    """Fill a tensor with ones.

    Args:
        tensor: tensor to fill.

    >>> import ndgrad
    >>> ndgrad.nn.init.ones_(ndgrad.empty(2))
    tensor([1., 1.])
    """
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Fill a tensor with zeros.

    Args:
        tensor: tensor to fill.

    >>> import ndgrad
    >>> ndgrad.nn.init.zeros_(ndgrad.empty(2))
    tensor([0., 0.])
    """
    return constant_(tensor, 0.0)


# ----- scaled by the number of inputs and outputs ---------------------------------------------------------------------


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    """Return the number of inputs per output of the layer with this weight, and of outputs per input."""
    if tensor.dim() < 2:
        raise ValueError(
            "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions (shape "
            f"{tuple(tensor.shape)}). Fill a vector with uniform_ or constant_. [nd-ndim]"
        )
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    chosen = mode.lower()
    if chosen not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode!r} not supported, please use one of ['fan_in', 'fan_out']. [nd-option]")
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    return fan_in if chosen == "fan_in" else fan_out


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill a tensor with uniform numbers whose variance is gain^2 * 2 / (fan_in + fan_out) (Glorot and Bengio, 2010).

    Args:
        tensor: weight of shape (outputs, inputs, ...) to fill.
        gain: factor of the standard deviation. See `calculate_gain`.
        generator: source of random numbers. The default is the global generator.

    >>> import ndgrad
    >>> bool((ndgrad.nn.init.xavier_uniform_(ndgrad.empty(3, 3)).abs() <= 1.0).all())
    True
    """
    bound = math.sqrt(3.0) * (gain * math.sqrt(2.0 / sum(_calculate_fan_in_and_fan_out(tensor))))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill a tensor with normal numbers whose variance is gain^2 * 2 / (fan_in + fan_out) (Glorot and Bengio, 2010).

    Args:
        tensor: weight of shape (outputs, inputs, ...) to fill.
        gain: factor of the standard deviation. See `calculate_gain`.
        generator: source of random numbers. The default is the global generator.

    >>> import ndgrad
    >>> ndgrad.nn.init.xavier_normal_(ndgrad.empty(2, 3)).shape
    ndgrad.Size([2, 3])
    """
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / sum(_calculate_fan_in_and_fan_out(tensor))), generator)


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float | None:
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=3)
        return None
    return calculate_gain(nonlinearity, a) / math.sqrt(_calculate_correct_fan(tensor, mode))


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Fill a tensor with uniform numbers whose variance is gain^2 / fan (He et al., 2015).

    Args:
        tensor: weight of shape (outputs, inputs, ...) to fill.
        a: negative slope, if `nonlinearity` is `"leaky_relu"`.
        mode: `"fan_in"` keeps the variance in the forward pass, `"fan_out"` in the backward pass.
        nonlinearity: activation after the layer, which decides the gain. See `calculate_gain`.
        generator: source of random numbers. The default is the global generator.

    >>> import ndgrad
    >>> weight = ndgrad.nn.init.kaiming_uniform_(ndgrad.empty(2, 6), nonlinearity="relu")
    >>> bool((weight.abs() <= 1.0).all())
    True
    """
    std = _kaiming_std(tensor, a, mode, nonlinearity)
    if std is None:
        return tensor
    return uniform_(tensor, -math.sqrt(3.0) * std, math.sqrt(3.0) * std, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Fill a tensor with normal numbers whose variance is gain^2 / fan (He et al., 2015).

    Args:
        tensor: weight of shape (outputs, inputs, ...) to fill.
        a: negative slope, if `nonlinearity` is `"leaky_relu"`.
        mode: `"fan_in"` keeps the variance in the forward pass, `"fan_out"` in the backward pass.
        nonlinearity: activation after the layer, which decides the gain. See `calculate_gain`.
        generator: source of random numbers. The default is the global generator.

    >>> import ndgrad
    >>> ndgrad.nn.init.kaiming_normal_(ndgrad.empty(2, 3), nonlinearity="relu").shape
    ndgrad.Size([2, 3])
    """
    std = _kaiming_std(tensor, a, mode, nonlinearity)
    return tensor if std is None else normal_(tensor, 0.0, std, generator)


# ----- matrices -------------------------------------------------------------------------------------------------------


def _needs(tensor: Tensor, dims: tuple[int, ...], text: str) -> None:
    if tensor.dim() not in dims:
        raise ValueError(
            f"Only tensors with {text} dimensions are supported, and this one has shape {tuple(tensor.shape)}. "
            "[nd-ndim]"
        )


def eye_(tensor: Tensor) -> Tensor:
    """Fill a matrix with the identity: a linear layer then preserves as many inputs as possible.

    Args:
        tensor: matrix to fill.

    >>> import ndgrad
    >>> ndgrad.nn.init.eye_(ndgrad.empty(2, 3))
    tensor([[1., 0., 0.],
            [0., 1., 0.]])
    """
    _needs(tensor, (2,), "2")
    with no_grad():
        return eye(*tensor.shape, dtype=tensor.dtype, device=tensor.device, out=tensor)


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Fill a convolution's weight so that it preserves as many channels as possible, group by group.

    Args:
        tensor: weight of shape (M, C, ...) with 3 to 5 dimensions to fill.
        groups: number of groups of the convolution, a divisor of M.

    >>> import ndgrad
    >>> weight = ndgrad.nn.init.dirac_(ndgrad.empty(1, 1, 3))
    >>> ndgrad.nn.functional.conv1d(ndgrad.tensor([[1.0, 2.0, 3.0]]), weight, padding=1)
    tensor([[1., 2., 3.]])
    """
    _needs(tensor, (3, 4, 5), "3, 4, or 5")
    if tensor.shape[0] % groups:
        raise ValueError(f"dim 0 must be divisible by groups, and {tensor.shape[0]} is not by {groups}. [nd-divisible]")
    per_group = tensor.shape[0] // groups
    middle = tuple(n // 2 for n in tensor.shape[2:])
    with no_grad():
        tensor.zero_()
        for g in range(groups):
            for d in range(min(per_group, tensor.shape[1])):
                tensor[(g * per_group + d, d, *middle)] = 1.0
        return tensor


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Generator | None = None) -> Tensor:
    """Fill a matrix with orthonormal rows or columns, times a gain (Saxe et al., 2013).

    Args:
        tensor: tensor of at least two dimensions to fill. Dimensions after the first count as one.
        gain: factor of the matrix.
        generator: source of random numbers. The default is the global generator.

    >>> import ndgrad
    >>> q = ndgrad.nn.init.orthogonal_(ndgrad.empty(2, 3))
    >>> ndgrad.allclose(q @ q.T, ndgrad.eye(2), atol=1e-5)
    True
    """
    from ndgrad.linalg import qr  # importing ndgrad.nn need not load linear algebra

    if tensor.dim() < 2:
        raise ValueError(
            f"Only tensors with 2 or more dimensions are supported, and this one has shape {tuple(tensor.shape)}. "
            "[nd-ndim]"
        )
    if tensor.numel() == 0:
        return tensor
    rows = tensor.shape[0]
    columns = tensor.numel() // rows
    with no_grad():
        flat = normal_(tensor.new_empty((rows, columns)), 0.0, 1.0, generator)
        q, r = qr(flat.T if rows < columns else flat)
        # The sign of r's diagonal makes the result unique, and with it the distribution uniform.
        q = q * r.diagonal(0).sign()
        return tensor.copy_((q.T if rows < columns else q).reshape(tensor.shape)).mul_(gain)


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Generator | None = None) -> Tensor:
    """Fill a matrix with normal numbers and zeros (Martens, 2010).

    Args:
        tensor: matrix to fill.
        sparsity: fraction of zeros in each column.
        std: standard deviation of the other elements.
        generator: source of the normal numbers. The global generator chooses the positions of zeros.

    >>> import ndgrad
    >>> (ndgrad.nn.init.sparse_(ndgrad.empty(4, 3), sparsity=0.5) == 0).sum(0)
    tensor([2, 2, 2])
    """
    from ndgrad._src.tensor.functions.random import randperm  # importing ndgrad.nn need not load it

    _needs(tensor, (2,), "2")
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    with no_grad():
        tensor.normal_(0, std, generator=generator)
        for column in range(columns):
            places = randperm(rows)[:zeros]  # by the default generator, as in torch
            tensor[np.asarray(places), column] = 0
        return tensor


# ----- old names ------------------------------------------------------------------------------------------------------


if not TYPE_CHECKING:  # type checkers report a misspelt name as an error

    def __getattr__(name: str) -> Callable[..., Tensor]:
        """Return the functions with torch's deprecated names without the underscore."""
        found = globals().get(name + "_") if name + "_" in __all__ else None
        if found is None:
            raise AttributeError(f"module 'ndgrad.nn.init' has no attribute {name!r}")

        def old(*args: Any, **kwargs: Any) -> Tensor:
            warnings.warn(
                f"`nn.init.{name}` is now deprecated in favor of `nn.init.{name}_`.", FutureWarning, stacklevel=2
            )
            return found(*args, **kwargs)

        old.__name__ = name
        return old
