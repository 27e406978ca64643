"""Convolutions and transposed convolutions over one, two and three axes, and their patches."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from ndgrad._src.ops import convolution as convolution_ops
from ndgrad._src.ops import patches
from ndgrad._src.ops.vocabulary import tensor_ops as ops
from ndgrad.nn.functional.spatial import per_axis, sizes_of, with_batch, without_batch

if TYPE_CHECKING:
    from ndgrad._typing import Shape, Sizes, Tensor

__all__ = [
    "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "conv_tbc", "unfold",
    "fold",
]  # fmt: skip


_NAMES = ("", "conv1d", "conv2d", "conv3d")


def _refuse(name: str, problem: str) -> NoReturn:
    raise RuntimeError(f"{name}: {problem} [nd-window]")


def _check(
    name: str,
    shape: Sizes,
    bias: Sizes | None,
    outputs: int,
    groups: int,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
) -> None:
    """Refuse settings that are invalid for a convolution with a weight of this shape."""
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
    if bias is not None and bias != (outputs,):
        _refuse(name, f"a weight of shape {shape} wants a bias of shape {(outputs,)}, and this one has {bias}.")


def _weight_shape(name: str, shape: Sizes, axes: int) -> Sizes:
    if len(shape) != axes + 2:
        _refuse(name, f"a weight of shape {shape} is not {axes + 2}-dimensional: its kernel has one size per axis.")
    if 0 in shape[2:]:
        _refuse(name, f"the kernel of a weight of shape {shape} is empty. Give every axis at least one tap.")
    return shape


def _conv(
    axes: int,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Shape,
    padding: Shape | str,
    dilation: Shape,
    groups: int,
) -> Tensor:
    """Compute the cross-correlation of (N, C, *spatial) or (C, *spatial) with a weight (M, C / groups, *K)."""
    name = _NAMES[axes]
    steps, spread = per_axis(name, "stride", stride, axes), per_axis(name, "dilation", dilation, axes)
    x, batched = with_batch(name, input, axes)
    if isinstance(padding, str):
        kernel = _weight_shape(name, sizes_of(weight), axes)[2:]
        x, pads = _named_padding(name, padding, x, kernel, steps, spread)
    else:
        pads = per_axis(name, "padding", padding, axes)
    of_bias = None if bias is None else sizes_of(bias)
    _require_fit(name, axes, sizes_of(x), sizes_of(weight), of_bias, steps, pads, spread, groups)
    out = convolution_ops.convolution.strict(
        x, weight, bias, stride=steps, padding=pads, dilation=spread, groups=groups
    )
    return without_batch(out, batched)


@functools.lru_cache(maxsize=1024)  # a model repeats the same call at every step
def _require_fit(
    name: str, axes: int, x: Sizes, weight: Sizes, bias: Sizes | None, stride: Sizes, padding: Sizes, dilation: Sizes,
    groups: int,
) -> None:  # fmt: skip
    """Refuse shapes and settings that make no convolution."""
    outputs, depth, *kernel = _weight_shape(name, weight, axes)
    _check(name, weight, bias, outputs, groups, stride, padding, dilation)
    _, channels, *sizes = x
    if channels != depth * groups:
        _refuse(
            name,
            (
                f"an input of shape {x} has {channels} channels; weight {weight} in {groups} groups "
                f"takes {depth * groups}."
            ),
        )
    spans = [(n + 2 * p, d * (k - 1) + 1) for n, p, d, k in zip(sizes, padding, dilation, kernel, strict=True)]
    if any(size < reach for size, reach in spans):
        padded, reaches = zip(*spans, strict=True)
        _refuse(
            name,
            f"a kernel that reaches over {reaches} does not fit into a padded input of {padded}. Use more padding.",
        )


def _named_padding(
    name: str, padding: str, x: Tensor, kernel: Sequence[int], stride: Sizes, dilation: Sizes
) -> tuple[Tensor, Sizes]:
    """Apply the padding 'valid' or 'same'. The kernels pad both sides alike, so an odd total gets its extra element
    behind first.
    """
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


def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Shape = 1,
    padding: Shape | str = 0,
    dilation: Shape = 1,
    groups: int = 1,
) -> Tensor:
    """Return the cross-correlation of a tensor with kernels over one axis.

    Args:
        input: tensor of shape (N, C, L), or (C, L) for one sample.
        weight: kernels of shape (M, C / groups, K).
        bias: vector of shape (M,).
        stride: step of the kernel.
        padding: number of zeros at both ends; or `"valid"` for none, or `"same"` to keep the size, which needs a stride
            of 1.
        dilation: distance of the taps of a kernel.
        groups: number of groups of channels that are convolved separately.

    Returns:
        A tensor of shape (N, M, ...). Each size n becomes (n + 2 * padding - dilation * (k - 1) - 1) // stride + 1.

    >>> import ndgrad
    >>> ndgrad.nn.functional.conv1d(ndgrad.tensor([[1.0, 2.0, 3.0]]), ndgrad.tensor([[[1.0, 10.0]]]))
    tensor([[21., 32.]])
    """
    return _conv(1, input, weight, bias, stride, padding, dilation, groups)


def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Shape = 1,
    padding: Shape | str = 0,
    dilation: Shape = 1,
    groups: int = 1,
) -> Tensor:
    """Return the cross-correlation of a tensor with kernels over two axes.

    Args:
        input: tensor of shape (N, C, H, W), or (C, H, W) for one sample.
        weight: kernels of shape (M, C / groups, K_H, K_W).
        bias: vector of shape (M,).
        stride: step of the kernel, one number or one per axis.
        padding: number of zeros at both ends, one number or one per axis; or `"valid"` for none, or `"same"` to keep
            the size, which needs a stride of 1.
        dilation: distance of the taps of a kernel, one number or one per axis.
        groups: number of groups of channels that are convolved separately.

    Returns:
        A tensor of shape (N, M, ...). Each size n becomes (n + 2 * padding - dilation * (k - 1) - 1) // stride + 1.

    >>> import ndgrad
    >>> image, weight = ndgrad.arange(9.0).reshape(1, 3, 3), ndgrad.tensor([[[[1.0, 0.0], [0.0, -1.0]]]])
    >>> ndgrad.nn.functional.conv2d(image, weight)
    tensor([[[-4., -4.],
             [-4., -4.]]])
    """
    return _conv(2, input, weight, bias, stride, padding, dilation, groups)


def conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Shape = 1,
    padding: Shape | str = 0,
    dilation: Shape = 1,
    groups: int = 1,
) -> Tensor:
    """Return the cross-correlation of a tensor with kernels over three axes.

    Args:
        input: tensor of shape (N, C, D, H, W), or (C, D, H, W) for one sample.
        weight: kernels of shape (M, C / groups, K_D, K_H, K_W).
        bias: vector of shape (M,).
        stride: step of the kernel, one number or one per axis.
        padding: number of zeros at both ends, one number or one per axis; or `"valid"` for none, or `"same"` to keep
            the size, which needs a stride of 1.
        dilation: distance of the taps of a kernel, one number or one per axis.
        groups: number of groups of channels that are convolved separately.

    Returns:
        A tensor of shape (N, M, ...). Each size n becomes (n + 2 * padding - dilation * (k - 1) - 1) // stride + 1.

    >>> import ndgrad
    >>> ndgrad.nn.functional.conv3d(ndgrad.ones(1, 3, 4, 4, 4), ndgrad.ones(8, 3, 2, 2, 2), stride=2).shape
    ndgrad.Size([1, 8, 2, 2, 2])
    """
    return _conv(3, input, weight, bias, stride, padding, dilation, groups)


# ----- transposed ----------------------------------------------------------------------------------------------------


def _conv_transpose(
    axes: int,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Shape,
    padding: Shape,
    output_padding: Shape,
    groups: int,
    dilation: Shape,
) -> Tensor:
    """Compute the transposed convolution of (N, C, *spatial) or (C, *spatial) with a weight (C, M / groups, *K)."""
    name = f"conv_transpose{axes}d"
    inputs, depth, *kernel = shape = _weight_shape(name, sizes_of(weight), axes)
    steps, spread = per_axis(name, "stride", stride, axes), per_axis(name, "dilation", dilation, axes)
    pads, extra = per_axis(name, "padding", padding, axes), per_axis(name, "output_padding", output_padding, axes)
    outputs = depth * groups
    _check(name, shape, None if bias is None else sizes_of(bias), outputs, groups, steps, pads, spread)
    x, batched = with_batch(name, input, axes)
    batch, channels, *sizes = tuple(x.shape)
    if channels != inputs:
        _refuse(name, f"an input of shape {tuple(x.shape)} has {channels} channels; weight {shape} takes {inputs}.")
    if min(extra) < 0 or any(e >= s and e >= d for e, s, d in zip(extra, steps, spread, strict=True)):
        _refuse(name, f"output_padding {extra} must be smaller than the stride {steps} or the dilation {spread}.")
    reach = [d * (k - 1) + 1 for k, d in zip(kernel, spread, strict=True)]
    out_sizes = tuple(
        (n - 1) * s - 2 * p + r + e for n, s, p, r, e in zip(sizes, steps, pads, reach, extra, strict=True)
    )
    if min(out_sizes) < 1 or min(sizes) < 1:
        _refuse(name, f"an input of size {tuple(sizes)} would give an output of size {out_sizes}. Use less padding.")
    # An output padding of a stride or more reaches positions of inputs that do not exist: these are zeros.
    missing = [(n + 2 * p - r) // s + 1 - m for n, p, r, s, m in zip(out_sizes, pads, reach, steps, sizes, strict=True)]
    if any(missing):
        x = ops.constant_pad_nd(x, pads=((0, 0), (0, 0), *((0, m) for m in missing)), value=0.0)
    out = convolution_ops.convolution_input.eager(
        x, weight, x_shape=(batch, outputs, *out_sizes), stride=steps, padding=pads, dilation=spread, groups=groups
    )
    if bias is not None:
        out = out + ops.reshape(bias, shape=(outputs, *(1,) * axes))
    return without_batch(out, batched)


def conv_transpose1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Shape = 1,
    padding: Shape = 0,
    output_padding: Shape = 0,
    groups: int = 1,
    dilation: Shape = 1,
) -> Tensor:
    """Return the transposed convolution of a tensor over one axis.

    The adjoint of `conv1d` in its input: it spreads every element over the outputs that would have read it.

    Args:
        input: tensor of shape (N, C, L), or (C, L) for one sample.
        weight: kernels of shape (C, M / groups, K).
        bias: vector of shape (M,).
        stride: distance of the outputs of neighbouring elements.
        padding: number of outputs that are cut off at both ends.
        output_padding: size that is added at the end, below the stride or the dilation.
        groups: number of groups of channels that are convolved separately.
        dilation: distance of the taps of a kernel.

    Returns:
        A tensor of shape (N, M, ...). Each size n becomes (n - 1) * stride - 2 * padding + dilation * (k - 1) +
        output_padding + 1.

    >>> import ndgrad
    >>> ndgrad.nn.functional.conv_transpose1d(ndgrad.tensor([[1.0, 2.0]]), ndgrad.tensor([[[1.0, 10.0]]]))
    tensor([[ 1., 12., 20.]])
    """
    return _conv_transpose(1, input, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Shape = 1,
    padding: Shape = 0,
    output_padding: Shape = 0,
    groups: int = 1,
    dilation: Shape = 1,
) -> Tensor:
    """Return the transposed convolution of a tensor over two axes.

    The adjoint of `conv2d` in its input: it spreads every element over the outputs that would have read it.

    Args:
        input: tensor of shape (N, C, H, W), or (C, H, W) for one sample.
        weight: kernels of shape (C, M / groups, K_H, K_W).
        bias: vector of shape (M,).
        stride: distance of the outputs of neighbouring elements, one number or one per axis.
        padding: number of outputs that are cut off at both ends, one number or one per axis.
        output_padding: size that is added at the end, one number or one per axis, below the stride or the dilation.
        groups: number of groups of channels that are convolved separately.
        dilation: distance of the taps of a kernel, one number or one per axis.

    Returns:
        A tensor of shape (N, M, ...). Each size n becomes (n - 1) * stride - 2 * padding + dilation * (k - 1) +
        output_padding + 1.

    >>> import ndgrad
    >>> ndgrad.nn.functional.conv_transpose2d(ndgrad.ones(1, 8, 4, 4), ndgrad.ones(8, 3, 2, 2), stride=2).shape
    ndgrad.Size([1, 3, 8, 8])
    """
    return _conv_transpose(2, input, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Shape = 1,
    padding: Shape = 0,
    output_padding: Shape = 0,
    groups: int = 1,
    dilation: Shape = 1,
) -> Tensor:
    """Return the transposed convolution of a tensor over three axes.

    The adjoint of `conv3d` in its input: it spreads every element over the outputs that would have read it.

    Args:
        input: tensor of shape (N, C, D, H, W), or (C, D, H, W) for one sample.
        weight: kernels of shape (C, M / groups, K_D, K_H, K_W).
        bias: vector of shape (M,).
        stride: distance of the outputs of neighbouring elements, one number or one per axis.
        padding: number of outputs that are cut off at both ends, one number or one per axis.
        output_padding: size that is added at the end, one number or one per axis, below the stride or the dilation.
        groups: number of groups of channels that are convolved separately.
        dilation: distance of the taps of a kernel, one number or one per axis.

    Returns:
        A tensor of shape (N, M, ...). Each size n becomes (n - 1) * stride - 2 * padding + dilation * (k - 1) +
        output_padding + 1.

    >>> import ndgrad
    >>> ndgrad.nn.functional.conv_transpose3d(ndgrad.ones(8, 2, 2, 2), ndgrad.ones(8, 3, 2, 2, 2), stride=2).shape
    ndgrad.Size([3, 4, 4, 4])
    """
    return _conv_transpose(3, input, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """Apply a convolution to a tensor whose first dimension is time.

    Args:
        input: tensor of shape (T, N, C).
        weight: kernels of shape (K, C, M).
        bias: vector of shape (M,).
        pad: number of zeros at both ends.

    Returns:
        A tensor of shape (T + 2 * pad - K + 1, N, M).

    >>> import ndgrad
    >>> ndgrad.nn.functional.conv_tbc(ndgrad.ones(5, 2, 3), ndgrad.ones(3, 3, 4), ndgrad.zeros(4)).shape
    ndgrad.Size([3, 2, 4])
    """
    if len(input.shape) != 3 or len(weight.shape) != 3:
        _refuse(
            "conv_tbc",
            "the input is (time, batch, channels), the weight (kernel, channels, output channels); they have shapes "
            f"{tuple(input.shape)} and {tuple(weight.shape)}.",
        )
    out = conv1d(ops.permute(input, dims=(1, 2, 0)), ops.permute(weight, dims=(2, 1, 0)), bias, padding=pad)
    return ops.permute(out, dims=(2, 0, 1))


# ----- patches -------------------------------------------------------------------------------------------------------


def _patch_settings(name: str, kernel_size: Shape, dilation: Shape, padding: Shape, stride: Shape) -> dict[str, Sizes]:
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


def unfold(input: Tensor, kernel_size: Shape, dilation: Shape = 1, padding: Shape = 0, stride: Shape = 1) -> Tensor:
    """Return the patches of images as columns.

    Args:
        input: images of shape (N, C, H, W), or (C, H, W) for one sample.
        kernel_size: size of a patch, one number or one per axis.
        dilation: distance of the elements of a patch, one number or one per axis.
        padding: number of zeros around the image, one number or one per axis.
        stride: step between patches, one number or one per axis.

    Returns:
        A tensor of shape (N, C * elements of a patch, patches).

    >>> import ndgrad
    >>> ndgrad.nn.functional.unfold(ndgrad.arange(6.0).reshape(1, 2, 3), (2, 2))
    tensor([[0., 1.],
            [1., 2.],
            [3., 4.],
            [4., 5.]])
    """
    settings = _patch_settings("unfold", kernel_size, dilation, padding, stride)
    x, batched = with_batch("unfold", input, 2)
    if min(patches.positions(tuple(x.shape)[2:], **settings)) < 1:
        _refuse(
            "unfold", f"no patch of {settings} fits into {tuple(x.shape)[2:]}. Use a smaller kernel or more padding."
        )
    return without_batch(patches.im2col.eager(x, **settings), batched)


def fold(
    input: Tensor, output_size: Shape, kernel_size: Shape, dilation: Shape = 1, padding: Shape = 0, stride: Shape = 1
) -> Tensor:
    """Add patches up into images: the transpose of `unfold`.

    Args:
        input: columns of shape (N, C * elements of a patch, patches), or without N for one sample.
        output_size: size (H, W) of the images.
        kernel_size: size of a patch, one number or one per axis.
        dilation: distance of the elements of a patch, one number or one per axis.
        padding: number of zeros around the image, one number or one per axis.
        stride: step between patches, one number or one per axis.

    Returns:
        A tensor of shape (N, C, H, W).

    >>> import ndgrad
    >>> ndgrad.nn.functional.fold(ndgrad.ones(4, 2), (2, 3), (2, 2))
    tensor([[[1., 2., 1.],
             [1., 2., 1.]]])
    """
    settings = _patch_settings("fold", kernel_size, dilation, padding, stride)
    sizes = per_axis("fold", "output_size", output_size, 2)
    x, batched = with_batch("fold", input, 1)
    taps, expected = math.prod(settings["kernel"]), patches.positions(sizes, **settings)
    if x.shape[1] % taps:
        _refuse("fold", f"columns of length {x.shape[1]} do not consist of patches of size {settings['kernel']}.")
    if min(expected) < 1 or x.shape[2] != math.prod(expected):
        _refuse(
            "fold",
            f"{settings} makes {expected} patches of an image of size {sizes}, and the input has {x.shape[2]} columns.",
        )
    return without_batch(patches.col2im.eager(x, sizes=sizes, **settings), batched)
