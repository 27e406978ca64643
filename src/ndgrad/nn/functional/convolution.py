"""Convolutions and transposed convolutions over one, two and three axes, and the patches they are made of."""

from __future__ import annotations

import math
from typing import Any

from ndgrad.nn.functional.spatial import Shape, per_axis, with_batch, without_batch
from ndgrad.ops import convolution as convolution_ops
from ndgrad.ops import patches
from ndgrad.ops.vocabulary import tensor_ops as ops

__all__ = [
    "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "conv_tbc", "unfold", "fold",
]  # fmt: skip


def _refuse(name: str, problem: str) -> None:
    raise RuntimeError(f"{name}: {problem}")


def _check(name: str, weight: Any, bias: Any, axes: int, outputs: int, groups: int, stride: Shape, padding: Shape, dilation: Shape) -> None:
    shape = tuple(weight.shape)
    if min(padding) < 0:
        _refuse(name, f"negative padding is not supported, and padding is {padding}. Slice the input instead.")
    if min(stride) <= 0:
        _refuse(name, f"non-positive stride is not supported, and stride is {stride}. Use 1 for an ordinary convolution.")
    if min(dilation) <= 0:
        _refuse(name, f"dilation should be greater than zero, and is {dilation}. Use 1 for an ordinary convolution.")
    if groups <= 0:
        _refuse(name, f"non-positive groups is not supported, and groups is {groups}. Use 1 for an ordinary convolution.")
    if shape[0] % groups:
        _refuse(
            name,
            f"Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, but got weight of size "
            f"{list(shape)} instead.",
        )
    if bias is not None and tuple(bias.shape) != (outputs,):
        _refuse(
            name,
            f"Given weight of size {list(shape)}, expected bias to be 1-dimensional with {outputs} elements, but got bias of size "
            f"{list(bias.shape)} instead.",
        )


def _check_weight(name: str, weight: Any, axes: int) -> None:
    if len(weight.shape) != axes + 2:
        _refuse(
            name,
            f"Expected {axes + 2}-dimensional weight, but got weight of size {list(weight.shape)}: the kernel has one size per axis.",
        )
    if 0 in tuple(weight.shape)[2:]:
        _refuse(name, f"the kernel of a weight of size {list(weight.shape)} is empty. Give every axis at least one tap.")


def _conv(name: str, axes: int, input: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
    _check_weight(name, weight, axes)
    stride, dilation = per_axis(name, "stride", stride, axes), per_axis(name, "dilation", dilation, axes)
    kernel = tuple(weight.shape)[2:]
    x, batched = with_batch(name, input, axes)
    if isinstance(padding, str):
        x, padding = _named_padding(name, padding, x, kernel, stride, dilation)
    else:
        padding = per_axis(name, "padding", padding, axes)
    _check(name, weight, bias, axes, weight.shape[0], groups, stride, padding, dilation)
    channels = weight.shape[1] * groups
    if x.shape[1] != channels:
        _refuse(
            name,
            f"Given groups={groups}, weight of size {list(weight.shape)}, expected input{list(x.shape)} to have {channels} channels, "
            f"but got {x.shape[1]} channels instead.",
        )
    padded = [n + 2 * p for n, p in zip(tuple(x.shape)[2:], padding, strict=True)]
    reach = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    if any(n < r for n, r in zip(padded, reach, strict=True)):
        sizes, spans = " x ".join(map(str, padded)), " x ".join(map(str, reach))
        _refuse(
            name,
            f"Calculated padded input size per channel: ({sizes}). Kernel size: ({spans}). Kernel size can't be greater than actual input "
            "size. Use more padding or a smaller kernel.",
        )
    out = convolution_ops.convolution.eager(x, weight, bias, stride=stride, padding=padding, dilation=dilation, groups=groups)
    return without_batch(out, batched)


def _named_padding(name: str, padding: str, x: Any, kernel: Shape, stride: Shape, dilation: Shape) -> tuple[Any, Shape]:
    """'valid', or 'same': an odd total is one longer behind, and the kernels pad alike on both sides, so that one is added first."""
    if padding == "valid":
        return x, (0,) * len(kernel)
    if padding != "same":
        _refuse(name, f"Invalid padding string: {padding!r}. Use 'same', 'valid' or numbers.")
    if max(stride) != 1:
        _refuse(name, f"padding='same' is not supported for strided convolutions, and stride is {stride}. Give the padding in numbers.")
    totals = [d * (k - 1) for k, d in zip(kernel, dilation, strict=True)]
    if any(t % 2 for t in totals):
        x = ops.constant_pad_nd(x, pads=((0, 0), (0, 0), *((0, t % 2) for t in totals)), value=0.0)
    return x, tuple(t // 2 for t in totals)


def conv1d(input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1) -> Any:
    """Cross-correlation of (N, C, L) or (C, L) with a weight (M, C / groups, K).

    >>> conv1d(ndgrad.tensor([[1.0, 2.0, 3.0]]), ndgrad.tensor([[[1.0, 10.0]]]))
    tensor([[21., 32.]])
    """
    return _conv("conv1d", 1, input, weight, bias, stride, padding, dilation, groups)


def conv2d(input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1) -> Any:
    """Cross-correlation of (N, C, H, W) or (C, H, W) with a weight (M, C / groups, *K)."""
    return _conv("conv2d", 2, input, weight, bias, stride, padding, dilation, groups)


def conv3d(input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1) -> Any:
    """Cross-correlation of (N, C, D, H, W) or (C, D, H, W) with a weight (M, C / groups, *K)."""
    return _conv("conv3d", 3, input, weight, bias, stride, padding, dilation, groups)


# ----- transposed ----------------------------------------------------------------------------------------------------


def _conv_transpose(
    name: str, axes: int, input: Any, weight: Any, bias: Any, stride: Any, padding: Any, output_padding: Any, groups: int, dilation: Any
) -> Any:
    """The adjoint in the input of the convolution with this weight, whose outputs are our inputs."""
    _check_weight(name, weight, axes)
    stride, dilation = per_axis(name, "stride", stride, axes), per_axis(name, "dilation", dilation, axes)
    padding, extra = per_axis(name, "padding", padding, axes), per_axis(name, "output_padding", output_padding, axes)
    outputs = weight.shape[1] * groups
    _check(name, weight, bias, axes, outputs, groups, stride, padding, dilation)
    x, batched = with_batch(name, input, axes)
    if x.shape[1] != weight.shape[0]:
        _refuse(
            name,
            f"Given transposed=1, weight of size {list(weight.shape)}, expected input{list(x.shape)} to have {weight.shape[0]} channels, "
            f"but got {x.shape[1]} channels instead.",
        )
    if min(extra) < 0 or any(e >= s and e >= d for e, s, d in zip(extra, stride, dilation, strict=True)):
        _refuse(
            name,
            f"output padding must be smaller than either stride or dilation, but got output_padding {extra}, stride {stride}, "
            f"dilation {dilation}.",
        )
    kernel, sizes = tuple(weight.shape)[2:], tuple(x.shape)[2:]
    reach = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    out_sizes = tuple((n - 1) * s - 2 * p + r + e for n, s, p, r, e in zip(sizes, stride, padding, reach, extra, strict=True))
    if min(out_sizes) < 1 or min(sizes) < 1:
        per_channel, calculated = " x ".join(map(str, sizes)), " x ".join(map(str, out_sizes))
        _refuse(
            name,
            f"Given input size per channel: ({per_channel}). Calculated output size per channel: ({calculated}). Output size is "
            "too small. Use less padding.",
        )
    # An output padding of a stride or more reaches positions that further inputs would have filled: those are zeros.
    missing = [(n + 2 * p - r) // s + 1 - m for n, p, r, s, m in zip(out_sizes, padding, reach, stride, sizes, strict=True)]
    if any(missing):
        x = ops.constant_pad_nd(x, pads=((0, 0), (0, 0), *((0, m) for m in missing)), value=0.0)
    shape = (x.shape[0], outputs, *out_sizes)
    out = convolution_ops.convolution_input.eager(
        x, weight, x_shape=shape, stride=stride, padding=padding, dilation=dilation, groups=groups
    )
    if bias is not None:
        out = out + ops.reshape(bias, shape=(outputs, *(1,) * axes))
    return without_batch(out, batched)


def conv_transpose1d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Any:
    """Transposed convolution of (N, C, L) or (C, L) with a weight (C, M / groups, K)."""
    return _conv_transpose("conv_transpose1d", 1, input, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose2d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Any:
    """Transposed convolution of (N, C, H, W) or (C, H, W) with a weight (C, M / groups, *K)."""
    return _conv_transpose("conv_transpose2d", 2, input, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose3d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Any:
    """Transposed convolution of (N, C, D, H, W) or (C, D, H, W) with a weight (C, M / groups, *K)."""
    return _conv_transpose("conv_transpose3d", 3, input, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_tbc(input: Any, weight: Any, bias: Any, pad: int = 0) -> Any:
    """conv1d of an input (T, N, C) with a weight (K, C, M), giving (T', N, M)."""
    if len(input.shape) != 3 or len(weight.shape) != 3:
        _refuse(
            "conv_tbc",
            "Input must have 3 dims: time, batch, in_channel, and the weight kernel, in_channel, out_channel; got "
            f"{list(input.shape)} and {list(weight.shape)}.",
        )
    out = conv1d(ops.permute(input, dims=(1, 2, 0)), ops.permute(weight, dims=(2, 1, 0)), bias, padding=pad)
    return ops.permute(out, dims=(2, 0, 1))


# ----- patches -------------------------------------------------------------------------------------------------------


def _patch_settings(name: str, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> dict[str, Shape]:
    settings = {
        "kernel": per_axis(name, "kernel_size", kernel_size, 2),
        "dilation": per_axis(name, "dilation", dilation, 2),
        "padding": per_axis(name, "padding", padding, 2),
        "stride": per_axis(name, "stride", stride, 2),
    }
    for what, value in settings.items():
        if min(value) < (what != "padding"):
            _refuse(name, f"{what} should be greater than zero, but got {value}.")
    return settings


def unfold(input: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Any:
    """The patches of images (N, C, H, W) as columns (N, C * taps, positions)."""
    settings = _patch_settings("unfold", kernel_size, dilation, padding, stride)
    x, batched = with_batch("unfold", input, 2)
    if min(patches.positions(tuple(x.shape)[2:], **settings)) < 1:
        _refuse(
            "unfold",
            f"Given input with spatial size {tuple(x.shape)[2:]}, {settings}: no patch fits. Use a larger image, more padding or "
            "a smaller kernel.",
        )
    return without_batch(patches.im2col.eager(x, **settings), batched)


def fold(input: Any, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Any:
    """Columns (N, C * taps, positions) added up into images (N, C, *output_size): the transpose of `unfold`."""
    settings = _patch_settings("fold", kernel_size, dilation, padding, stride)
    sizes = per_axis("fold", "output_size", output_size, 2)
    x, batched = with_batch("fold", input, 1)
    taps, expected = math.prod(settings["kernel"]), patches.positions(sizes, **settings)
    if x.shape[1] % taps:
        _refuse(
            "fold",
            "Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got "
            f"input.size(1)={x.shape[1]} and kernel_size={settings['kernel']}.",
        )
    if min(expected) < 1 or x.shape[2] != math.prod(expected):
        _refuse(
            "fold",
            f"Given output_size={sizes} and {settings}, expected size of input's dimension 2 to match the calculated number of "
            "sliding blocks "
            f"{' * '.join(map(str, expected))} = {math.prod(expected)}, but got input.size(2)={x.shape[2]}.",
        )
    return without_batch(patches.col2im.eager(x, sizes=sizes, **settings), batched)
