"""Normalisation layers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ndgrad._src.arrays.device_kernels import blend_into
from ndgrad._src.arrays.library import is_on_device
from ndgrad._src.arrays.precision import finfo, is_floating, is_half
from ndgrad._src.core.generate import TENSOR_TYPES
from ndgrad._src.core.grad_mode import no_grad
from ndgrad._src.core.inplace import write
from ndgrad._src.core.modes import modes, process
from ndgrad._src.core.variable import np_dtype, requires_grad, wrap
from ndgrad._src.core.versions import Storage, storage_of
from ndgrad._src.ops import normalization, padding, pooling  # noqa: F401
from ndgrad._src.ops.fill import copy
from ndgrad._src.ops.vocabulary import tensor_ops as ops

if TYPE_CHECKING:
    from ndgrad._typing import Shape, Sizes, Tensor

__all__ = ["layer_norm", "rms_norm", "batch_norm", "group_norm", "instance_norm", "local_response_norm"]


def _check_real(name: str, input: Tensor) -> None:
    if not is_floating(np_dtype(input)):
        raise RuntimeError(
            f"{name}: the input has dtype {np_dtype(input)}, and a mean and a variance need real floating "
            "point. Convert it first. [nd-dtype]"
        )


# ----- over the last dimensions --------------------------------------------------------------------------------------


def _last_dims(
    name: str, input: Tensor, normalized_shape: Shape, *, real: bool = True, **parameters: Tensor | None
) -> Sizes:
    given = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(int(n) for n in normalized_shape)
    shape = tuple(input.shape)
    if not given:
        raise RuntimeError(
            f"{name}: Expected normalized_shape to be at least 1-dimensional, but got (). "
            "Give the sizes of the last dimensions. [nd-ndim]"
        )
    for parameter, value in parameters.items():
        if value is not None and tuple(value.shape) != given:
            raise RuntimeError(
                f"{name}: Expected {parameter} to be of same shape as normalized_shape, but got {parameter} of shape "
                f"{list(value.shape)} and normalized_shape = {list(given)}. [nd-shape]"
            )
    if len(shape) < len(given) or shape[len(shape) - len(given) :] != given:
        raise RuntimeError(
            f"{name}: Given normalized_shape={list(given)}, expected input with shape [*, "
            f"{', '.join(map(str, given))}], but got input of size{list(shape)}. "
            "normalized_shape is the shape of the last dimensions. [nd-shape]"
        )
    if real:
        _check_real(name, input)
    return tuple(range(len(shape) - len(given), len(shape)))


def layer_norm(
    input: Tensor, normalized_shape: Shape, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """Normalise the last dimensions to mean 0 and variance 1, then apply a weight and a bias.

    The result is `(x - mean) / sqrt(var + eps) * weight + bias`.

    Args:
        input: tensor of shape (..., *normalized_shape).
        normalized_shape: sizes of the dimensions that are normalised together.
        weight: factors after normalisation, of shape `normalized_shape`.
        bias: numbers added after it, of shape `normalized_shape`.
        eps: number added to the variance.

    >>> import ndgrad
    >>> ndgrad.nn.functional.layer_norm(ndgrad.tensor([[1.0, 3.0]]), (2,), eps=0.0)
    tensor([[-1.,  1.]])
    """
    dim = _last_dims("layer_norm", input, normalized_shape, weight=weight, bias=bias)
    return normalization.native_layer_norm.eager(input, weight, bias, dim=dim, eps=eps)


def rms_norm(input: Tensor, normalized_shape: Shape, weight: Tensor | None = None, eps: float | None = None) -> Tensor:
    """Normalise the last dimensions to mean square 1, then multiply by a weight.

    The result is `x / sqrt(mean(x * x) + eps) * weight`.

    Args:
        input: tensor of shape (..., *normalized_shape).
        normalized_shape: sizes of the dimensions that are normalised together.
        weight: factors after normalisation, of shape `normalized_shape`.
        eps: number added to the mean square. The default is the machine epsilon of the dtype.

    >>> import ndgrad
    >>> ndgrad.nn.functional.rms_norm(ndgrad.tensor([[1.0, 7.0]]), (2,))
    tensor([[0.2000, 1.4000]])
    """
    is_complex = np_dtype(input).kind == "c"
    dim = _last_dims("rms_norm", input, normalized_shape, weight=weight, real=not is_complex)
    eps = float(finfo(np_dtype(input)).eps) if eps is None else eps
    if is_complex:  # the mean of the complex squares, as in torch
        scaled = input * ops.rsqrt(ops.mean(input * input, dim=dim, keepdim=True) + eps)
        return scaled if weight is None else scaled * weight
    return normalization.rms_norm.eager(input, weight, dim=dim, eps=eps)


# ----- over everything but the channels ------------------------------------------------------------------------------


def _per_channel(value: Any, ndim: int) -> Any:
    """Reshape (C,) to (C, 1, ...), to broadcast against (N, C, ...)."""
    return value if value is None or ndim == 2 else ops.reshape(value, shape=(value.shape[0], *(1,) * (ndim - 2)))


def _check_channels(name: str, channels: int, **given: Tensor | None) -> None:
    for what, value in given.items():
        if value is not None and tuple(value.shape) != (channels,):
            raise RuntimeError(
                f"{name}: {what} should contain {channels} elements not {math.prod(value.shape)} (shape "
                f"{tuple(value.shape)}). Give one per channel. [nd-shape]"
            )


def _update(running: Tensor | None, value: Tensor, momentum: float, factor: float = 1.0) -> None:
    """Move a running statistic towards factor * value."""
    if running is None:
        return
    value = ops.reshape(value, shape=tuple(running.shape))
    dtype = np_dtype(running)
    if not running.is_cuda and (is_half(dtype) or np_dtype(value) != dtype):  # each step rounds
        value = ops.cast(value if factor == 1.0 else value * factor, dtype=dtype)
        write(copy, running, (running * (1.0 - momentum) + value * momentum,), {})
        return
    if np_dtype(value) != dtype:
        value = ops.cast(value, dtype=dtype)
    write(normalization.blend, running, (value, 1.0 - momentum, momentum, factor), {})


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise each channel (dimension 1) over the batch, or by running statistics.

    Args:
        input: tensor of shape (N, C, ...).
        running_mean, running_var: statistics of shape (C,). In training, if given, they move towards those of the
            batch, in place; otherwise they are used.
        weight: factors after normalisation, of shape (C,).
        bias: numbers added after it, of shape (C,).
        training: whether the statistics are those of the batch.
        momentum: weight of the batch in the running statistics.
        eps: number added to the variance.

    Raises:
        ValueError: if there is only one value per channel in training.

    >>> import ndgrad
    >>> mean, var = ndgrad.zeros(1), ndgrad.ones(1)
    >>> out = ndgrad.nn.functional.batch_norm(ndgrad.tensor([[1.0], [3.0]]), mean, var, training=True, eps=0.0)
    >>> out.flatten(), mean
    (tensor([-1.,  1.]), tensor([0.2000]))
    """
    shape = tuple(input.shape)
    if shape == (0,):  # nothing to normalise, and no channel dimension
        return input * 1.0
    if len(shape) < 2:
        raise RuntimeError(
            f"batch_norm: expected an input (N, C, ...), but got shape {shape}. Add a batch dimension. [nd-ndim]"
        )
    channels, count = shape[1], math.prod(shape) // max(shape[1], 1)
    _check_channels(
        "batch_norm", channels, running_mean=running_mean, running_var=running_var, weight=weight, bias=bias
    )
    _check_real("batch_norm", input)
    w, b = _per_channel(weight, len(shape)), _per_channel(bias, len(shape))
    if not training:
        if running_mean is None or running_var is None:
            raise RuntimeError(
                "batch_norm: Expected running_mean and running_var to be defined when training=False. "
                "Give them, or train. [nd-arguments]"
            )
        mean, variance = (_per_channel(t, len(shape)) for t in (running_mean, running_var))
        out = normalization.fixed_norm.eager(
            input, mean, variance, 1.0 if w is None else w, 0.0 if b is None else b, eps=eps
        )
        return out if np_dtype(out) == np_dtype(input) else ops.cast(out, dtype=np_dtype(input))
    if count == 1:
        raise ValueError(
            f"batch_norm: Expected more than 1 value per channel when training, got input size {shape}. "
            "One value has no variance. [nd-too-few]"
        )
    dim = (0, *range(2, len(shape)))
    out, mean, variance = normalization.native_batch_norm(input, w, b, dim=dim, eps=eps)
    if count and (running_mean is not None or running_var is not None):
        given = [t for t in (running_mean, running_var) if t is not None]
        is_plain = mean.__class__ in TENSOR_TYPES
        if is_plain and _blend_on_device(running_mean, running_var, mean, variance, momentum, count):
            return out
        if is_plain and not process.busy and not any(map(requires_grad, given)):
            # Nothing would be recorded, so no mode is entered.
            mean, variance = (wrap(t.__class__, t._array) for t in (mean, variance))
            _move_statistics(running_mean, running_var, mean, variance, momentum, count)
        else:
            with no_grad():
                _move_statistics(running_mean, running_var, mean, variance, momentum, count)
    return out


def _blend_on_device(
    running_mean: Any, running_var: Any, mean: Tensor, variance: Tensor, momentum: float, count: int
) -> bool:
    """Move running statistics on a device by one kernel. Return False for tensors with more than plain memory, and in
    modes other than autocast.
    """
    if process.busy and (process.open or process.dispatching or not modes().is_alone_with_autocast()):
        return False
    arrays: list[Any] = []
    storages: list[Any] = []
    for t in (running_mean, running_var):
        if t is None:
            arrays.append(None)
            continue
        if t.__class__ not in TENSOR_TYPES or t._meta is not None or t._node is not None or not is_on_device(t._array):
            return False
        storage = t._storage or storage_of(t)
        if storage.__class__ is not Storage or storage.keeps:
            return False
        arrays.append(t._array)
        storages.append(storage)
    if not blend_into(arrays, (mean._array, variance._array), (1.0, count / (count - 1)), momentum):
        return False
    for storage in storages:
        storage.bump("batch_norm")
    return True


def _move_statistics(
    running_mean: Tensor | None, running_var: Tensor | None, mean: Tensor, variance: Tensor, momentum: float, count: int
) -> None:
    """Move running statistics towards those of a batch of `count` values per channel."""
    _update(running_mean, mean, momentum)
    _update(running_var, variance, momentum, count / (count - 1))


def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """Normalise groups of channels, sample by sample.

    Args:
        input: tensor of shape (N, C, ...).
        num_groups: number of groups, a divisor of C.
        weight: factors after normalisation, of shape (C,).
        bias: numbers added after it, of shape (C,).
        eps: number added to the variance.

    >>> import ndgrad
    >>> ndgrad.nn.functional.group_norm(ndgrad.tensor([[1.0, 3.0, 10.0, 30.0]]), 2, eps=0.0)
    tensor([[-1.,  1., -1.,  1.]])
    """
    shape = tuple(input.shape)
    if len(shape) < 2:
        raise RuntimeError(
            f"group_norm: Expected at least 2 dimensions for input tensor but received {len(shape)} (shape {shape}). "
            "[nd-ndim]"
        )
    n, channels, *rest = shape
    if num_groups <= 0 or channels % num_groups:
        raise RuntimeError(
            "group_norm: Expected number of channels in input to be divisible by num_groups, but got input of shape "
            f"{list(shape)} and num_groups={num_groups}. [nd-divisible]"
        )
    _check_channels("group_norm", channels, weight=weight, bias=bias)
    _check_real("group_norm", input)
    if math.prod(shape[2:]) * (channels // num_groups) * n <= 1 and n * math.prod(shape[1:]) > 0:
        raise ValueError(
            f"group_norm: Expected more than 1 value per channel when training, got input size {shape}. "
            "One value has no variance. [nd-too-few]"
        )
    each = channels // num_groups
    grouped = ops.reshape(input, shape=(n, num_groups, each, math.prod(rest)))
    w = None if weight is None else ops.reshape(weight, shape=(num_groups, each, 1))
    b = None if bias is None else ops.reshape(bias, shape=(num_groups, each, 1))
    return ops.reshape(normalization.native_layer_norm.eager(grouped, w, b, dim=(2, 3), eps=eps), shape=shape)


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise each channel of each sample, or by running statistics.

    Args:
        input: tensor of shape (N, C, ...).
        running_mean, running_var: statistics of shape (C,). With `use_input_stats`, if given, they move towards the
            means over the batch, in place; otherwise they are used.
        weight: factors after normalisation, of shape (C,).
        bias: numbers added after it, of shape (C,).
        use_input_stats: whether the statistics are those of the input.
        momentum: weight of the input in the running statistics.
        eps: number added to the variance.

    >>> import ndgrad
    >>> ndgrad.nn.functional.instance_norm(ndgrad.tensor([[[1.0, 3.0], [10.0, 30.0]]]), eps=0.0)
    tensor([[[-1.,  1.],
             [-1.,  1.]]])
    """
    shape = tuple(input.shape)
    if len(shape) < 2:
        raise RuntimeError(
            f"instance_norm: expected an input (N, C, ...), but got shape {shape}. Add a batch dimension. [nd-ndim]"
        )
    if not use_input_stats:
        if running_mean is None or running_var is None:
            raise RuntimeError(
                "instance_norm: Expected running_mean and running_var to be defined when use_input_stats=False. "
                "Give them. [nd-arguments]"
            )
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    count = math.prod(shape[2:])
    if count == 1:
        raise ValueError(
            f"instance_norm: Expected more than 1 spatial element when training, got input size {shape}. "
            "One value has no variance. [nd-too-few]"
        )
    _check_channels(
        "instance_norm", shape[1], running_mean=running_mean, running_var=running_var, weight=weight, bias=bias
    )
    _check_real("instance_norm", input)
    w, b, dim = _per_channel(weight, len(shape)), _per_channel(bias, len(shape)), tuple(range(2, len(shape)))
    if running_mean is None and running_var is None:
        return normalization.native_layer_norm.eager(input, w, b, dim=dim, eps=eps)
    out, mean, variance = normalization.native_batch_norm(input, w, b, dim=dim, eps=eps)
    with no_grad():
        over_batch = (0, *dim)
        _update(running_mean, ops.mean(mean, dim=over_batch, keepdim=False), momentum)
        _update(running_var, ops.mean(variance, dim=over_batch, keepdim=False) * (count / (count - 1)), momentum)
    return out


def local_response_norm(input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """Divide elements by a power of the mean of squares over neighbouring channels.

    The result is `x / (k + alpha * mean(x ** 2)) ** beta`, with zeros beyond the first and the last channel.

    Args:
        input: tensor of shape (N, C, L, ...).
        size: number of channels in a mean.
        alpha: factor of the mean.
        beta: exponent.
        k: number added to the mean.

    >>> import ndgrad
    >>> ndgrad.nn.functional.local_response_norm(ndgrad.tensor([[[1.0], [2.0]]]), 2, alpha=1.0)
    tensor([[[0.7378],
             [0.7816]]])
    """
    shape = tuple(input.shape)
    if len(shape) < 3:
        raise ValueError(
            f"local_response_norm: Expected 3D or higher dimensionality input (got {len(shape)} dimensions: "
            f"shape {shape}). [nd-ndim]"
        )
    if not math.prod(shape):
        return input
    padded = ops.constant_pad_nd(
        ops.square(input), pads=((0, 0), (size // 2, (size - 1) // 2), *((0, 0),) * (len(shape) - 2)), value=0.0
    )
    # The channels are an axis of one plane, over which a window of `size` slides.
    planes = ops.reshape(padded, shape=(shape[0], 1, padded.shape[1], math.prod(shape[2:])))
    mean = ops.avg_pool(
        planes,
        kernel=(size, 1),
        stride=(1, 1),
        padding=(0, 0),
        ceil_mode=False,
        count_include_pad=True,
        divisor_override=None,
    )
    return input / (ops.reshape(mean, shape=shape) * alpha + k) ** beta
