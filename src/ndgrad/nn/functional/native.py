"""Neural network functions in torch's top-level namespace, named after its kernels: `native_layer_norm`,
`grid_sampler`, `convolution`.

They take positional arguments in another order than those of nn.functional, which they call. Statistics returned with a
result (means, inverse deviations) have no graph if torch's have none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ndgrad._src.core.detach_checks import as_number
from ndgrad._src.core.grad_mode import no_grad
from ndgrad._src.core.inplace import write
from ndgrad._src.core.variable import np_dtype, wrap_like
from ndgrad._src.ops.fill import copy
from ndgrad._src.ops.vocabulary import tensor_ops as ops
from ndgrad._src.tensor.functions.reduce import deliver
from ndgrad._src.tensor.public import public
from ndgrad.nn.functional import convolution as convolutions
from ndgrad.nn.functional import norm, padding, regularization, vision

if TYPE_CHECKING:
    from ndgrad._typing import Number, Shape, Tensor

__all__ = [
    "affine_grid_generator", "alpha_dropout_", "constant_pad_nd", "convolution", "dropout_", "embedding_renorm_",
    "feature_alpha_dropout_", "feature_dropout", "feature_dropout_", "grid_sampler", "grid_sampler_2d",
    "grid_sampler_3d", "native_batch_norm", "native_channel_shuffle", "native_dropout", "native_group_norm",
    "native_layer_norm",
]  # fmt: skip


def constant_pad_nd(input: Tensor, pad: Sequence[int], value: Number = 0) -> Tensor:
    """Pad the input with a constant border: `nn.functional.pad`.

    Args:
        input: input tensor.
        pad: numbers of elements before and after each dimension, the last dimension first. Negative numbers remove
            elements.
        value: value of the added elements.

    >>> import ndgrad
    >>> ndgrad.constant_pad_nd(ndgrad.tensor([1.0, 2.0]), (1, 0), 5.0)
    tensor([5., 1., 2.])
    """
    return padding.pad(input, pad, "constant", value)


# ----- normalisation --------------------------------------------------------------------------------------------------


def _statistics(x: Tensor, dim: tuple[int, ...], eps: float, keepdim: bool) -> tuple[Tensor, Tensor]:
    """Return the mean and the inverse of the standard deviation."""
    variance, mean = ops.var_mean(x, dim=dim, keepdim=keepdim, correction=0)
    return mean, ops.rsqrt(variance + eps)


def native_layer_norm(
    input: Tensor, normalized_shape: Shape, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Same as `nn.functional.layer_norm`; also return the means and inverse standard deviations.

    Args:
        input: input tensor.
        normalized_shape: sizes of the last dimensions, which are normalised together.
        weight, bias: factor and summand of these sizes, or None.
        eps: number added to the variance.

    >>> import ndgrad
    >>> out, mean, rstd = ndgrad.native_layer_norm(ndgrad.tensor([[1.0, 3.0]]), (2,), None, None, 0.0)
    >>> out, mean, rstd
    (tensor([[-1.,  1.]]), tensor([[2.]]), tensor([[1.]]))
    """
    made = norm.layer_norm(input, normalized_shape, weight, bias, eps)
    last = 1 if isinstance(normalized_shape, int) else len(tuple(normalized_shape))
    return made, *_statistics(ops.detach(input), tuple(range(input.ndim - last, input.ndim)), eps, True)


def native_group_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, N: int, C: int, HxW: int, group: int, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Same as `nn.functional.group_norm`; also return the means and inverse standard deviations of each group.

    Args:
        input: tensor with N * C * HxW elements.
        weight, bias: factor and summand of each channel, of shape (C,), or None.
        N: size of the batch.
        C: number of channels.
        HxW: number of elements of a channel.
        group: number of groups of channels.
        eps: number added to the variance.

    >>> import ndgrad
    >>> ndgrad.native_group_norm(ndgrad.tensor([[1.0, 3.0]]), None, None, 1, 2, 1, 1, 0.0)[1]
    tensor([[2.]])
    """
    if math.prod(input.shape) != N * C * HxW:
        raise RuntimeError(
            f"native_group_norm: N={N}, C={C} and HxW={HxW} do not make up the {math.prod(input.shape)} elements of an "
            "input of shape "
            f"{tuple(input.shape)}. [nd-shape]"
        )
    made = norm.group_norm(input, group, weight, bias, eps)
    return made, *_statistics(ops.reshape(input, shape=(N, group, (C // group) * HxW)), (2,), eps, False)


def native_batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    *,
    out: tuple[Tensor, Tensor, Tensor] | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Same as `nn.functional.batch_norm`; also return the batch's means and inverse standard deviations (empty if not
    training).

    Args:
        input: tensor of shape (N, C, ...).
        weight, bias: factor and summand of each channel, of shape (C,), or None.
        running_mean, running_var: running statistics of shape (C,), or None. They are updated in training.
        training: whether the statistics of the batch are used.
        momentum: share of the new statistics in an update.
        eps: number added to the variance.
        out: tuple of tensors that receive the results.

    >>> import ndgrad
    >>> ndgrad.native_batch_norm(ndgrad.tensor([[1.0], [3.0]]), None, None, None, None, True, 0.1, 0.0)[1]
    tensor([2.])
    """
    made = norm.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)
    if not training:
        none = wrap_like(input, np.empty(0, np_dtype(input)))
        result = made, none, none.clone()
    else:
        result = (made, *_statistics(ops.detach(input), (0, *range(2, input.ndim)), eps, False))
    return deliver("native_batch_norm", result, out, input, weight, bias)


# ----- dropout --------------------------------------------------------------------------------------------------------


def native_dropout(input: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    """Same as `nn.functional.dropout`; also return the mask of kept elements.

    Args:
        input: input tensor.
        p: probability of an element to become zero.
        train: whether elements are dropped. Otherwise the result is the input.

    >>> import ndgrad
    >>> ndgrad.native_dropout(ndgrad.tensor([1.0, 2.0]), 0.0, True)
    (tensor([1., 2.]), tensor([True, True]))
    """
    ones = wrap_like(input, np.ones(tuple(input.shape), np.float32))
    if train is False or p == 0:
        return input.clone(), ops.cast(ones, dtype=np.dtype(bool))
    mask = ops.ne(regularization.dropout(ones, p, True), 0.0)
    return ops.where(mask, input, 0.0) * (1.0 / (1.0 - p) if p < 1 else 0.0), mask


def dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """`nn.functional.dropout` in place.

    Args:
        input: input tensor.
        p: probability of an element to become zero.
        train: whether elements are dropped. Otherwise the result is the input.

    >>> import ndgrad
    >>> ndgrad.dropout_(ndgrad.ones(2), 0.5, False)
    tensor([1., 1.])
    """
    return regularization.dropout(input, p, train, inplace=True)


def alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """`nn.functional.alpha_dropout` in place.

    Args:
        input: input tensor.
        p: probability of an element to become zero.
        train: whether elements are dropped. Otherwise the result is the input.

    >>> import ndgrad
    >>> ndgrad.alpha_dropout_(ndgrad.ones(2), 0.5, False)
    tensor([1., 1.])
    """
    return regularization.alpha_dropout(input, p, train, inplace=True)


def feature_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Drop whole channels (dimension 1).

    Args:
        input: input tensor.
        p: probability of a channel to become zero.
        train: whether channels are dropped. Otherwise the result is the input.

    >>> import ndgrad
    >>> ndgrad.feature_dropout(ndgrad.ones(1, 2), 0.5, False)
    tensor([[1., 1.]])
    """
    return _features("feature_dropout", input, p, train, False)


def feature_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """`feature_dropout` in place.

    Args:
        input: input tensor.
        p: probability of a channel to become zero.
        train: whether channels are dropped. Otherwise the result is the input.

    >>> import ndgrad
    >>> ndgrad.feature_dropout_(ndgrad.ones(1, 2), 0.5, False)
    tensor([[1., 1.]])
    """
    return _features("feature_dropout_", input, p, train, True)


def _features(name: str, input: Tensor, p: float, train: bool, in_place: bool) -> Tensor:
    if not train or p == 0:
        return input
    if input.ndim < 2:
        raise RuntimeError(
            f"{name}: Feature dropout requires at least 2 dimensions in the input, which has shape "
            f"{tuple(input.shape)}. [nd-ndim]"
        )
    kept = regularization.dropout(
        wrap_like(input, np.ones((*tuple(input.shape[:2]), *(1,) * (input.ndim - 2)), np_dtype(input))), p, True
    )
    made = input * kept
    return write(copy, input, (made,), {}) if in_place else made


def feature_alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """`nn.functional.feature_alpha_dropout` in place.

    Args:
        input: input tensor.
        p: probability of a channel to become zero.
        train: whether channels are dropped. Otherwise the result is the input.

    >>> import ndgrad
    >>> ndgrad.feature_alpha_dropout_(ndgrad.ones(1, 2), 0.5, False)
    tensor([[1., 1.]])
    """
    return regularization.feature_alpha_dropout(input, p, train, inplace=True)


# ----- images ---------------------------------------------------------------------------------------------------------


def native_channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """`nn.functional.channel_shuffle`.

    Args:
        input: tensor of shape (N, C, ...).
        groups: number of groups, which divides C.

    >>> import ndgrad
    >>> ndgrad.native_channel_shuffle(ndgrad.arange(4.0).reshape(1, 4, 1, 1), 2).flatten()
    tensor([0., 2., 1., 3.])
    """
    return vision.channel_shuffle(input, groups)


def grid_sampler(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """Same as `nn.functional.grid_sample`, with modes as numbers: 0 bilinear, 1 nearest, 2 bicubic; 0 zeros, 1 border,
    2 reflection.

    Args:
        input: tensor of shape (N, C, *sizes).
        grid: positions of shape (N, *output sizes, number of sizes), from -1 to 1.
        interpolation_mode: 0 for bilinear, 1 for nearest, 2 for bicubic.
        padding_mode: 0 for zeros, 1 for the border, 2 for reflection outside of the input.
        align_corners: whether -1 and 1 are the centres of the corner elements, not their edges.

    >>> import ndgrad
    >>> image, place = ndgrad.tensor([[[[1.0, 3.0]]]]), ndgrad.tensor([[[[0.5, 0.0]]]])
    >>> ndgrad.grid_sampler(image, place, 0, 0, True)
    tensor([[[[2.5000]]]])
    """
    modes, paddings = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")
    if not (0 <= interpolation_mode < 3 and 0 <= padding_mode < 3):
        raise RuntimeError(
            f"grid_sampler: modes are 0, 1 or 2, but got interpolation_mode={interpolation_mode}, "
            f"padding_mode={padding_mode}. [nd-option]"
        )
    return vision.grid_sample(input, grid, modes[interpolation_mode], paddings[padding_mode], align_corners)


def grid_sampler_2d(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """Same as `grid_sampler`, for images.

    Args:
        input: tensor of shape (N, C, *sizes).
        grid: positions of shape (N, *output sizes, number of sizes), from -1 to 1.
        interpolation_mode: 0 for bilinear, 1 for nearest, 2 for bicubic.
        padding_mode: 0 for zeros, 1 for the border, 2 for reflection outside of the input.
        align_corners: whether -1 and 1 are the centres of the corner elements, not their edges.

    >>> import ndgrad
    >>> ndgrad.grid_sampler_2d(ndgrad.ones(1, 1, 2, 2), ndgrad.zeros(1, 1, 1, 2), 0, 0, True)
    tensor([[[[1.]]]])
    """
    return grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners)


def grid_sampler_3d(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """Same as `grid_sampler`, for volumes.

    Args:
        input: tensor of shape (N, C, *sizes).
        grid: positions of shape (N, *output sizes, number of sizes), from -1 to 1.
        interpolation_mode: 0 for bilinear, 1 for nearest, 2 for bicubic.
        padding_mode: 0 for zeros, 1 for the border, 2 for reflection outside of the input.
        align_corners: whether -1 and 1 are the centres of the corner elements, not their edges.

    >>> import ndgrad
    >>> ndgrad.grid_sampler_3d(ndgrad.ones(1, 1, 2, 2, 2), ndgrad.zeros(1, 1, 1, 1, 3), 0, 0, True).shape
    ndgrad.Size([1, 1, 1, 1, 1])
    """
    return grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners)


def affine_grid_generator(theta: Tensor, size: Sequence[int], align_corners: bool) -> Tensor:
    """`nn.functional.affine_grid`.

    Args:
        theta: affine matrices of shape (N, 2, 3) or (N, 3, 4).
        size: shape of the result of sampling, (N, C, H, W) or (N, C, D, H, W).
        align_corners: whether -1 and 1 are the centres of the corner elements, not their edges.

    >>> import ndgrad
    >>> ndgrad.affine_grid_generator(ndgrad.zeros(1, 2, 3), (1, 1, 2, 2), True).shape
    ndgrad.Size([1, 2, 2, 2])
    """
    return vision.affine_grid(theta, size, align_corners)


# ----- convolution and embedding --------------------------------------------------------------------------------------


def convolution(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Tensor:
    """Call `nn.functional.conv1d`, `conv2d` or `conv3d`, or with `transposed` their transposes, depending on the
    weight's dimensions.

    Args:
        input: tensor of shape (N, C, *sizes).
        weight: kernels of shape (outputs, C / groups, *sizes), or (C, outputs / groups, *sizes) if transposed.
        bias: tensor of shape (outputs,), or None.
        stride: step of the kernel in each dimension.
        padding: zeros added on both sides in each dimension.
        dilation: distance of the elements of the kernel in each dimension.
        transposed: whether the transposed convolution is computed.
        output_padding: elements added on one side of the result of a transposed convolution.
        groups: number of groups of channels that are convolved apart.

    >>> import ndgrad
    >>> x, w = ndgrad.ones(1, 1, 3), ndgrad.ones(1, 1, 2)
    >>> ndgrad.convolution(x, w, None, [1], [0], [1], False, [0], 1)
    tensor([[[2., 2.]]])
    """
    axes = weight.ndim - 2
    if axes not in (1, 2, 3):
        raise RuntimeError(
            f"convolution: a weight of 3, 4 or 5 dimensions is expected, and it has shape {tuple(weight.shape)}. "
            "[nd-ndim]"
        )
    settings = [tuple(s) for s in (stride, padding, dilation)]
    if transposed:
        transpose = (convolutions.conv_transpose1d, convolutions.conv_transpose2d, convolutions.conv_transpose3d)[
            axes - 1
        ]
        return transpose(input, weight, bias, settings[0], settings[1], tuple(output_padding), groups, settings[2])
    plain = (convolutions.conv1d, convolutions.conv2d, convolutions.conv3d)[axes - 1]
    return plain(input, weight, bias, settings[0], settings[1], settings[2], groups)


def embedding_renorm_(self: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    """Scale the rows at the indices down to a norm of at most `max_norm`, in place.

    Args:
        self: table of rows, which is changed.
        indices: numbers of the rows.
        max_norm: largest norm of a row afterwards.
        norm_type: order of the norm.

    >>> import ndgrad
    >>> ndgrad.embedding_renorm_(ndgrad.tensor([[3.0, 4.0], [3.0, 4.0]]), ndgrad.tensor([1]), 1.0, 2.0)
    tensor([[3.0000, 4.0000],
            [0.6000, 0.8000]])
    """
    name = "embedding_renorm_"
    max_norm, norm_type = as_number(name, "max_norm", max_norm), as_number(name, "norm_type", norm_type)
    with no_grad():
        rows = indices.unique()
        part = self.index_select(0, rows)
        size = part.norm(norm_type, dim=1, keepdim=True)
        factor = ops.where(ops.gt(size, max_norm), max_norm / (size + 1e-7), 1.0)
        return self.index_copy_(0, rows, part * factor)


for _name in __all__:
    globals()[_name] = public(globals()[_name], "ndgrad", _name)
