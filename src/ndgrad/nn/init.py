"""Initial values for parameters: each function fills a tensor in place, outside the graph, and returns it.

The distributions are torch's; the random numbers are not, since the generators differ.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from ndgrad.api.creation import eye
from ndgrad.autograd.grad_mode import no_grad

__all__ = [
    "calculate_gain", "constant_", "dirac_", "eye_", "kaiming_normal_", "kaiming_uniform_", "normal_", "ones_", "orthogonal_",
    "sparse_", "trunc_normal_", "uniform_", "xavier_normal_", "xavier_uniform_", "zeros_",
]  # fmt: skip

_GAINS = {
    **dict.fromkeys(("linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "sigmoid"), 1),
    "tanh": 5.0 / 3,
    "relu": math.sqrt(2.0),
    "selu": 3.0 / 4,
}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """By how much weights are scaled up so that a nonlinearity keeps the variance of what goes through it."""
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        if isinstance(slope, bool) or not isinstance(slope, (int, float)):
            raise ValueError(f"negative_slope {slope!r} not a valid number. Give an int or a float.")
        return math.sqrt(2.0 / (1 + slope**2))
    if nonlinearity not in _GAINS:
        raise ValueError(f"Unsupported nonlinearity {nonlinearity!r}. Known are leaky_relu, {', '.join(_GAINS)}.")
    return _GAINS[nonlinearity]


# ----- distributions -----------------------------------------------------------------------------------------------------


def uniform_(tensor: Any, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Any:
    """Fill with uniform numbers from [a, b)."""
    with no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(tensor: Any, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Any:
    """Fill with normal numbers."""
    with no_grad():
        return tensor.normal_(mean, std, generator=generator)


def trunc_normal_(tensor: Any, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0, generator: Any = None) -> Any:
    """Fill with normal numbers of which those outside [a, b] are drawn again."""
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. The distribution of values may be incorrect.",
            stacklevel=2,
        )

    def cdf(x: float) -> float:
        return (1.0 + math.erf((x - mean) / std / math.sqrt(2.0))) / 2.0

    # A uniform number between the values of the distribution function at a and b, through its inverse.
    low, high = cdf(a), cdf(b)
    with no_grad():
        tensor.uniform_(2 * low - 1, 2 * high - 1, generator=generator) if high > low else tensor.fill_(2 * low - 1)
        return tensor.erfinv_().mul_(std * math.sqrt(2.0)).add_(mean).clamp_(min=a, max=b)


def constant_(tensor: Any, val: float) -> Any:
    """Fill with a number."""
    with no_grad():
        return tensor.fill_(val)


def ones_(tensor: Any) -> Any:
    """Fill with ones."""
    return constant_(tensor, 1.0)


def zeros_(tensor: Any) -> Any:
    """Fill with zeros."""
    return constant_(tensor, 0.0)


# ----- scaled by the number of inputs and outputs ----------------------------------------------------------------------


def _calculate_fan_in_and_fan_out(tensor: Any) -> tuple[int, int]:
    """How many inputs one output of the layer with this weight has, and the reverse."""
    if tensor.dim() < 2:
        raise ValueError(
            f"Fan in and fan out can not be computed for tensor with fewer than 2 dimensions (shape {tuple(tensor.shape)}). "
            "Fill a vector with uniform_ or constant_."
        )
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


def _fan(tensor: Any, mode: str) -> int:
    chosen = mode.lower()
    if chosen not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode!r} not supported, please use one of ['fan_in', 'fan_out'].")
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    return fan_in if chosen == "fan_in" else fan_out


def xavier_uniform_(tensor: Any, gain: float = 1.0, generator: Any = None) -> Any:
    """Uniform numbers whose variance is gain^2 * 2 / (fan_in + fan_out) (Glorot and Bengio, 2010)."""
    bound = math.sqrt(3.0) * gain * math.sqrt(2.0 / sum(_calculate_fan_in_and_fan_out(tensor)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Any, gain: float = 1.0, generator: Any = None) -> Any:
    """Normal numbers whose variance is gain^2 * 2 / (fan_in + fan_out) (Glorot and Bengio, 2010)."""
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / sum(_calculate_fan_in_and_fan_out(tensor))), generator)


def _kaiming_std(tensor: Any, a: float, mode: str, nonlinearity: str) -> float | None:
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=3)
        return None
    return calculate_gain(nonlinearity, a) / math.sqrt(_fan(tensor, mode))


def kaiming_uniform_(tensor: Any, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Any = None) -> Any:
    """Uniform numbers whose variance is gain^2 / fan (He et al., 2015)."""
    std = _kaiming_std(tensor, a, mode, nonlinearity)
    if std is None:
        return tensor
    return uniform_(tensor, -math.sqrt(3.0) * std, math.sqrt(3.0) * std, generator)


def kaiming_normal_(tensor: Any, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Any = None) -> Any:
    """Normal numbers whose variance is gain^2 / fan (He et al., 2015)."""
    std = _kaiming_std(tensor, a, mode, nonlinearity)
    return tensor if std is None else normal_(tensor, 0.0, std, generator)


# ----- matrices ----------------------------------------------------------------------------------------------------------


def _needs(tensor: Any, dims: tuple[int, ...], text: str) -> None:
    if tensor.dim() not in dims:
        raise ValueError(f"Only tensors with {text} dimensions are supported, and this one has shape {tuple(tensor.shape)}.")


def eye_(tensor: Any) -> Any:
    """Fill a matrix with the identity: a linear layer then passes on as many inputs as it can."""
    _needs(tensor, (2,), "2")
    with no_grad():
        return tensor.copy_(eye(*tensor.shape, dtype=tensor.dtype, device=tensor.device))


def dirac_(tensor: Any, groups: int = 1) -> Any:
    """Fill a convolution's weight so that it passes on as many channels as it can, group by group."""
    _needs(tensor, (3, 4, 5), "3, 4, or 5")
    if tensor.shape[0] % groups:
        raise ValueError(f"dim 0 must be divisible by groups, and {tensor.shape[0]} is not by {groups}.")
    per_group = tensor.shape[0] // groups
    middle = tuple(n // 2 for n in tensor.shape[2:])
    with no_grad():
        tensor.zero_()
        for g in range(groups):
            for d in range(min(per_group, tensor.shape[1])):
                tensor[(g * per_group + d, d, *middle)] = 1.0
        return tensor


def orthogonal_(tensor: Any, gain: float = 1, generator: Any = None) -> Any:
    """Fill a matrix (later dimensions count as one) with orthonormal rows or columns, times the gain (Saxe et al., 2013)."""
    from ndgrad.linalg import qr  # importing ndgrad.nn need not load linear algebra

    if tensor.dim() < 2:
        raise ValueError(f"Only tensors with 2 or more dimensions are supported, and this one has shape {tuple(tensor.shape)}.")
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


def sparse_(tensor: Any, sparsity: float, std: float = 0.01, generator: Any = None) -> Any:
    """Fill a matrix with normal numbers of which, in each column, the given fraction is zero (Martens, 2010)."""
    from ndgrad.api.random import randperm  # importing ndgrad.nn need not load it

    _needs(tensor, (2,), "2")
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    with no_grad():
        tensor.normal_(0, std, generator=generator)
        for column in range(columns):
            places = randperm(rows, generator=generator)[:zeros]
            tensor[np.asarray(places), column] = 0
        return tensor


# ----- old names ---------------------------------------------------------------------------------------------------------


def __getattr__(name: str) -> Any:
    """torch's old names without the underscore, which warn."""
    found = globals().get(name + "_") if name + "_" in __all__ else None
    if found is None:
        raise AttributeError(f"module 'ndgrad.nn.init' has no attribute {name!r}")

    def old(*args: Any, **kwargs: Any) -> Any:
        warnings.warn(f"`nn.init.{name}` is now deprecated in favor of `nn.init.{name}_`.", FutureWarning, stacklevel=2)
        return found(*args, **kwargs)

    old.__name__ = name
    return old
