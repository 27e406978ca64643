"""Convolutions and transposed convolutions over one, two and three axes, and the patches they are made of."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ndgrad.nn.functional.spatial import Shape, by_axes, per_axis, with_batch, without_batch
from ndgrad.ops import convolution as convolution_ops
from ndgrad.ops import patches
from ndgrad.ops.vocabulary import tensor_ops as ops

__all__ = [
    "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "conv_tbc", "unfold", "fold",
]  # fmt: skip


def _refuse(name: str, problem: str) -> None:
    raise RuntimeError(f"{name}: {problem}")


def _check(name: str, shape: Shape, bias: Any, outputs: int, groups: int, stride: Shape, padding: Shape, dilation: Shape) -> None:
    """Refuse settings that no convolution with a weight of this shape has."""
    if min(padding) < 0:
        _refuse(name, f"padding {padding} is negative. Slice the input instead.")
    if min(stride) <= 0:
        _refuse(name, f"stride {stride} is not positive. Use 1 for an ordinary convolution.")
    if min(dilation) <= 0:
        _refuse(name, f"dilation {dilation} is not positive. Use 1 for an ordinary convolution.")
    if groups <= 0:
        _refuse(name, f"groups {groups} is not positive. Use 1 for an ordinary convolution.")
    if shape[0] % groups:
        _refuse(name, f"the first dimension of a weight of shape {shape} cannot be divided into {groups} groups.")
    if bias is not None and tuple(bias.shape) != (outputs,):
        _refuse(name, f"a weight of shape {shape} wants a bias of shape {(outputs,)}, and this one has {tuple(bias.shape)}.")


def _weight_shape(name: str, weight: Any, axes: int) -> Shape:
    shape = tuple(weight.shape)
    if len(shape) != axes + 2:
        _refuse(name, f"a weight of shape {shape} is not {axes + 2}-dimensional: its kernel has one size per axis.")
    if 0 in shape[2:]:
        _refuse(name, f"the kernel of a weight of shape {shape} is empty. Give every axis at least one tap.")
    return shape


def conv(
    axes: int, input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Any:
    """Cross-correlation of {shape} with a weight (M, C / groups, *K).

    >>> conv1d(ndgrad.tensor([[1.0, 2.0, 3.0]]), ndgrad.tensor([[[1.0, 10.0]]]))
    tensor([[21., 32.]])
    """
    name = f"conv{axes}d"
    outputs, depth, *kernel = shape = _weight_shape(name, weight, axes)
    stride, dilation = per_axis(name, "stride", stride, axes), per_axis(name, "dilation", dilation, axes)
    x, batched = with_batch(name, input, axes)
    if isinstance(padding, str):
        x, padding = _named_padding(name, padding, x, kernel, stride, dilation)
    else:
        padding = per_axis(name, "padding", padding, axes)
    _check(name, shape, bias, outputs, groups, stride, padding, dilation)
    _, channels, *sizes = tuple(x.shape)
    if channels != depth * groups:
        _refuse(
            name, f"an input of shape {tuple(x.shape)} has {channels} channels; weight {shape} in {groups} groups takes {depth * groups}."
        )
    spans = [(n + 2 * p, d * (k - 1) + 1) for n, p, d, k in zip(sizes, padding, dilation, kernel, strict=True)]
    if any(size < reach for size, reach in spans):
        padded, reaches = zip(*spans, strict=True)
        _refuse(name, f"a kernel that reaches over {reaches} does not fit into a padded input of {padded}. Use more padding.")
    out = convolution_ops.convolution.eager(x, weight, bias, stride=stride, padding=padding, dilation=dilation, groups=groups)
    return without_batch(out, batched)


def _named_padding(name: str, padding: str, x: Any, kernel: Sequence[int], stride: Shape, dilation: Shape) -> tuple[Any, Shape]:
    """'valid', or 'same': an odd total is one longer behind, and the kernels pad alike on both sides, so that one is added first."""
    if padding == "valid":
        return x, (0,) * len(kernel)
    if padding != "same":
        _refuse(name, f"padding is {padding!r}. Use 'same', 'valid' or numbers.")
    if max(stride) != 1:
        _refuse(name, f"padding='same' needs a stride of 1, and stride is {stride}. Give the padding in numbers.")
    totals = [d * (k - 1) for k, d in zip(kernel, dilation, strict=True)]
    if any(t % 2 for t in totals):
        x = ops.constant_pad_nd(x, pads=((0, 0), (0, 0), *((0, t % 2) for t in totals)), value=0.0)
    return x, tuple(t // 2 for t in totals)


conv1d, conv2d, conv3d = by_axes("conv{}d", conv)


# ----- transposed ----------------------------------------------------------------------------------------------------


def conv_transpose(
    axes: int,
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Any:
    """Transposed convolution of {shape} with a weight (C, M / groups, *K): the adjoint of `conv` in its input."""
    name = f"conv_transpose{axes}d"
    inputs, depth, *kernel = shape = _weight_shape(name, weight, axes)
    stride, dilation = per_axis(name, "stride", stride, axes), per_axis(name, "dilation", dilation, axes)
    padding, extra = per_axis(name, "padding", padding, axes), per_axis(name, "output_padding", output_padding, axes)
    outputs = depth * groups
    _check(name, shape, bias, outputs, groups, stride, padding, dilation)
    x, batched = with_batch(name, input, axes)
    batch, channels, *sizes = tuple(x.shape)
    if channels != inputs:
        _refuse(name, f"an input of shape {tuple(x.shape)} has {channels} channels; weight {shape} takes {inputs}.")
    if min(extra) < 0 or any(e >= s and e >= d for e, s, d in zip(extra, stride, dilation, strict=True)):
        _refuse(name, f"output_padding {extra} must be smaller than the stride {stride} or the dilation {dilation}.")
    reach = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    out_sizes = tuple((n - 1) * s - 2 * p + r + e for n, s, p, r, e in zip(sizes, stride, padding, reach, extra, strict=True))
    if min(out_sizes) < 1 or min(sizes) < 1:
        _refuse(name, f"an input of size {tuple(sizes)} would give an output of size {out_sizes}. Use less padding.")
    # An output padding of a stride or more reaches positions that further inputs would have filled: those are zeros.
    missing = [(n + 2 * p - r) // s + 1 - m for n, p, r, s, m in zip(out_sizes, padding, reach, stride, sizes, strict=True)]
    if any(missing):
        x = ops.constant_pad_nd(x, pads=((0, 0), (0, 0), *((0, m) for m in missing)), value=0.0)
    out = convolution_ops.convolution_input.eager(
        x, weight, x_shape=(batch, outputs, *out_sizes), stride=stride, padding=padding, dilation=dilation, groups=groups
    )
    if bias is not None:
        out = out + ops.reshape(bias, shape=(outputs, *(1,) * axes))
    return without_batch(out, batched)


conv_transpose1d, conv_transpose2d, conv_transpose3d = by_axes("conv_transpose{}d", conv_transpose)


def conv_tbc(input: Any, weight: Any, bias: Any, pad: int = 0) -> Any:
    """conv1d of an input (T, N, C) with a weight (K, C, M), giving (T', N, M)."""
    if len(input.shape) != 3 or len(weight.shape) != 3:
        _refuse(
            "conv_tbc",
            "the input is (time, batch, channels), the weight (kernel, channels, output channels); they have shapes "
            f"{tuple(input.shape)} and {tuple(weight.shape)}.",
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
            _refuse(name, f"{what} {value} is too small.")
    return settings


def unfold(input: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Any:
    """The patches of images (N, C, H, W) as columns (N, C * taps, positions)."""
    settings = _patch_settings("unfold", kernel_size, dilation, padding, stride)
    x, batched = with_batch("unfold", input, 2)
    if min(patches.positions(tuple(x.shape)[2:], **settings)) < 1:
        _refuse("unfold", f"no patch of {settings} fits into {tuple(x.shape)[2:]}. Use a smaller kernel or more padding.")
    return without_batch(patches.im2col.eager(x, **settings), batched)


def fold(input: Any, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Any:
    """Columns (N, C * taps, positions) added up into images (N, C, *output_size): the transpose of `unfold`."""
    settings = _patch_settings("fold", kernel_size, dilation, padding, stride)
    sizes = per_axis("fold", "output_size", output_size, 2)
    x, batched = with_batch("fold", input, 1)
    taps, expected = math.prod(settings["kernel"]), patches.positions(sizes, **settings)
    if x.shape[1] % taps:
        _refuse("fold", f"columns of length {x.shape[1]} do not consist of patches of size {settings['kernel']}.")
    if min(expected) < 1 or x.shape[2] != math.prod(expected):
        _refuse("fold", f"{settings} makes {expected} patches of an image of size {sizes}, and the input has {x.shape[2]} columns.")
    return without_batch(patches.col2im.eager(x, sizes=sizes, **settings), batched)
