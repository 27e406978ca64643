"""Images: resizing, sampling at given positions, and rearranging pixels and channels."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.arrays.dtypes import float32, uint8
from ndgrad._src.arrays.precision import is_floating
from ndgrad._src.arrays.taps import Taps
from ndgrad._src.core.variable import np_dtype, wrap_like
from ndgrad._src.ops import resample as resample_ops
from ndgrad._src.ops import sampling
from ndgrad._src.ops.vocabulary import tensor_ops as ops

if TYPE_CHECKING:
    from ndgrad._typing import Shape, Sizes, Tensor

__all__ = [
    "affine_grid",
    "channel_shuffle",
    "grid_sample",
    "interpolate",
    "native_channel_shuffle",
    "pixel_shuffle",
    "pixel_unshuffle",
    "upsample",
    "upsample_bilinear",
    "upsample_nearest",
]  # fmt: skip

# ----- interpolate ---------------------------------------------------------------------------------------------------

#: Mode -> number of spatial axes.
_AXES = {
    "nearest": (1, 2, 3), "nearest-exact": (1, 2, 3), "area": (1, 2, 3),
    "linear": (1,), "bilinear": (2,), "bicubic": (2,), "trilinear": (3,),
}  # fmt: skip
_ALIGNABLE = ("linear", "bilinear", "bicubic", "trilinear")


def interpolate(
    input: Tensor,
    size: Shape | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """Resize images to a size or by a factor.

    Args:
        input: tensor of shape (N, C, L), (N, C, H, W) or (N, C, D, H, W).
        size: new size of the spatial dimensions, one number or one per axis.
        scale_factor: factor of the sizes, one number or one per axis, if there is no `size`.
        mode: `"nearest"`, `"nearest-exact"`, `"area"`, `"linear"` (one axis), `"bilinear"` or `"bicubic"` (two axes) or
            `"trilinear"` (three axes).
        align_corners: whether the outermost pixels keep their positions. Otherwise pixels are areas and the edges of
            the image keep their positions. Only the linear and cubic modes take it.
        recompute_scale_factor: whether positions are computed from the rounded sizes instead of `scale_factor`.
        antialias: whether the filter of bilinear and bicubic is widened when an image shrinks.

    >>> import ndgrad
    >>> ndgrad.nn.functional.interpolate(ndgrad.tensor([[[1.0, 3.0]]]), size=4, mode="linear", align_corners=False)
    tensor([[[1.0000, 1.5000, 2.5000, 3.0000]]])
    """
    shape = tuple(input.shape)
    axes = len(shape) - 2
    if mode not in _AXES or axes not in _AXES[mode]:
        raise NotImplementedError(
            f"interpolate: an input of {len(shape)} dimensions (shape {shape}) with mode {mode!r} is not supported. "
            "nearest, nearest-exact and area take 3 to 5 dimensions, linear 3, bilinear and bicubic 4, trilinear 5. "
            "[nd-ndim]"
        )
    if mode not in _ALIGNABLE and align_corners is not None:
        raise ValueError(f"interpolate: mode {mode!r} takes no align_corners. Leave it out. [nd-arguments]")
    if antialias and mode not in ("bilinear", "bicubic"):
        raise ValueError(f"interpolate: mode {mode!r} takes no antialias; bilinear and bicubic do. [nd-arguments]")
    sizes, ratios = _sizes(shape[2:], size, scale_factor, recompute_scale_factor)
    if min(sizes, default=1) < 1 or min(shape[2:], default=1) < 1:
        raise RuntimeError(f"interpolate: cannot resize {shape[2:]} to {sizes}: sizes must be positive. [nd-range]")
    # These modes skip an axis that keeps its size, even if its scale factor, lost to rounding, was not 1.
    is_lazy = antialias or mode.endswith("linear") or (mode == "nearest" and axes == 2)
    if mode == "area":
        return ops.adaptive_avg_pool(input, sizes=sizes)
    dims, taps = [], []
    for axis, (before, after, ratio) in enumerate(zip(shape[2:], sizes, ratios, strict=True)):
        if before != after or (ratio != 1.0 and not is_lazy):
            dims.append(2 + axis)
            taps.append(_taps(mode, before, after, ratio, bool(align_corners), antialias))
    if not dims:
        return ops.clone(input)
    if np_dtype(input) == np.uint8 and not mode.startswith("nearest"):
        return _resample_bytes(input, dims, taps)
    return resample_ops.resample.eager(input, dim=tuple(dims), taps=tuple(taps))


def _resample_bytes(image: Tensor, dims: Sequence[int], taps: Sequence[Taps]) -> Tensor:
    """Resample an image of bytes, one dimension after another from the last one on. Each result is rounded to bytes,
    as in torch and in libraries of images.
    """
    for dim, tap in zip(reversed(dims), reversed(taps), strict=True):
        exact = resample_ops.resample.eager(image.to(float32), dim=(dim,), taps=(tap,))
        image = (exact + 0.5).floor().clamp(0, 255).to(uint8)
    return image


def _taps(mode: str, before: int, after: int, ratio: float, align_corners: bool, antialias: bool) -> Taps:
    if mode.startswith("nearest"):
        return resample_ops.nearest_taps(before, after, ratio, mode == "nearest-exact")
    if antialias:
        if align_corners:
            ratio = (before - 1) / (after - 1) if after > 1 else 0.0
        return resample_ops.filtered_taps(before, after, ratio, mode == "bicubic")
    if mode == "bicubic":
        return resample_ops.cubic_taps(before, after, ratio, align_corners)
    return resample_ops.linear_taps(before, after, ratio, align_corners)


def _sizes(
    before: Sizes, size: Shape | None, scale_factor: float | Sequence[float] | None, recompute: bool | None
) -> tuple[Sizes, tuple[float, ...]]:
    """Return output sizes, and the number of inputs per output step: by default from the scale factor, not from the
    sizes.
    """
    axes = len(before)
    if (size is None) == (scale_factor is None):
        raise ValueError("interpolate: give either size or scale_factor. [nd-exclusive]")
    given: Any = size if size is not None else scale_factor
    listed = tuple(given) if isinstance(given, (tuple, list)) or hasattr(given, "__len__") else (given,) * axes
    if len(listed) != axes:
        raise ValueError(
            "interpolate: Input and output must have the same number of spatial dimensions, but got input with spatial "
            f"dimensions of {list(before)} and {'output size' if size is not None else 'scale_factor'} of {given}. "
            "Give one number, or one per axis, in the order of the axes. [nd-shape]"
        )
    if size is not None:
        if recompute:
            raise ValueError(
                "interpolate: recompute_scale_factor has no meaning with a size. Leave it out. [nd-exclusive]"
            )
        sizes = tuple(int(s) for s in listed)
    else:
        sizes = tuple(math.floor(b * float(s)) for b, s in zip(before, listed, strict=True))
        if not recompute:
            return sizes, tuple(1.0 / float(s) if s > 0 else 0.0 for s in listed)
    return sizes, tuple(b / s if s else 0.0 for b, s in zip(before, sizes, strict=True))


def upsample(
    input: Tensor,
    size: Shape | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """Deprecated name of `interpolate`.

    Args:
        input: tensor of shape (N, C, L), (N, C, H, W) or (N, C, D, H, W).
        size: new size of the spatial dimensions, one number or one per axis.
        scale_factor: factor of the sizes, one number or one per axis, if there is no `size`.
        mode: `"nearest"`, `"nearest-exact"`, `"area"`, `"linear"` (one axis), `"bilinear"` or `"bicubic"` (two axes) or
            `"trilinear"` (three axes).
        align_corners: whether the outermost pixels keep their positions. Otherwise pixels are areas and the edges of
            the image keep their positions. Only the linear and cubic modes take it.

    >>> import ndgrad
    >>> ndgrad.nn.functional.upsample(ndgrad.tensor([[[1.0, 3.0]]]), scale_factor=2)
    tensor([[[1., 1., 3., 3.]]])
    """
    warnings.warn("`nn.functional.upsample` is deprecated. Use `nn.functional.interpolate` instead.", stacklevel=2)
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(
    input: Tensor, size: Shape | None = None, scale_factor: float | Sequence[float] | None = None
) -> Tensor:
    """Deprecated name of `interpolate` with mode nearest.

    Args:
        input: tensor of shape (N, C, L), (N, C, H, W) or (N, C, D, H, W).
        size: new size of the spatial dimensions, one number or one per axis.
        scale_factor: factor of the sizes, one number or one per axis, if there is no `size`.

    >>> import ndgrad
    >>> ndgrad.nn.functional.upsample_nearest(ndgrad.tensor([[[1.0, 3.0]]]), 4)
    tensor([[[1., 1., 3., 3.]]])
    """
    warnings.warn(
        "`nn.functional.upsample_nearest` is deprecated. Use `nn.functional.interpolate` instead.", stacklevel=2
    )
    return interpolate(input, size, scale_factor, "nearest")


def upsample_bilinear(
    input: Tensor, size: Shape | None = None, scale_factor: float | Sequence[float] | None = None
) -> Tensor:
    """Deprecated name of `interpolate` with mode bilinear and aligned corners.

    Args:
        input: tensor of shape (N, C, H, W).
        size: new size of the spatial dimensions, one number or one per axis.
        scale_factor: factor of the sizes, one number or one per axis, if there is no `size`.

    >>> import ndgrad
    >>> ndgrad.nn.functional.upsample_bilinear(ndgrad.tensor([[[[1.0, 3.0]]]]), (1, 3))
    tensor([[[[1., 2., 3.]]]])
    """
    warnings.warn(
        "`nn.functional.upsample_bilinear` is deprecated. Use `nn.functional.interpolate` instead.", stacklevel=2
    )
    return interpolate(input, size, scale_factor, "bilinear", align_corners=True)


# ----- sampling at given places --------------------------------------------------------------------------------------


def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """Return positions for `grid_sample`: a regular grid mapped by affine maps.

    Args:
        theta: matrices of shape (N, 2, 3) for images, or (N, 3, 4) for volumes.
        size: size (N, C, H, W) or (N, C, D, H, W) of the result of `grid_sample`.
        align_corners: whether -1 and 1 are the centres of the outermost pixels. Otherwise they are the edges of the
            image. Without it a warning is given.

    Returns:
        A tensor of shape (N, H, W, 2) or (N, D, H, W, 3).

    >>> import ndgrad
    >>> identity = ndgrad.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
    >>> ndgrad.nn.functional.affine_grid(identity, (1, 1, 1, 2), align_corners=True)
    tensor([[[[-1.,  0.],
              [ 1.,  0.]]]])
    """
    if align_corners is None:
        warnings.warn(
            "affine_grid: align_corners is taken to be False, since it is not given. Give it to silence this.",
            stacklevel=2,
        )
        align_corners = False
    if not is_floating(np_dtype(theta)):
        raise ValueError(f"affine_grid: theta must be floating point, but is {np_dtype(theta)}. [nd-dtype]")
    sizes = tuple(int(s) for s in size)
    axes = len(sizes) - 2
    if axes not in (2, 3) or len(theta.shape) != 3 or tuple(theta.shape[1:]) != (axes, axes + 1):
        raise ValueError(
            f"affine_grid: size {sizes} and theta of shape {tuple(theta.shape)} do not fit. "
            "They are (N, C, H, W) and (N, 2, 3), or (N, C, D, H, W) and (N, 3, 4). [nd-shape]"
        )
    if min(sizes) <= 0:
        raise ValueError(f"affine_grid: size must be positive, but is {sizes}. [nd-range]")
    lines = [np.linspace(-1, 1, n) if n > 1 else np.zeros(1) for n in sizes[2:]]
    if not align_corners:
        lines = [line * ((n - 1) / n) for line, n in zip(lines, sizes[2:], strict=True)]
    # Coordinates are (x, y, z): the last axis of the image comes first.
    mesh = np.meshgrid(*lines, indexing="ij")[::-1]
    base = np.stack([*(m.ravel() for m in mesh), np.ones(math.prod(sizes[2:]))], axis=1).astype(np_dtype(theta))
    grid = ops.matmul(wrap_like(theta, base), ops.permute(theta, dims=(0, 2, 1)))
    return ops.reshape(grid, shape=(sizes[0], *sizes[2:], axes))


def grid_sample(
    input: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool | None = None
) -> Tensor:
    """Return values of images at given positions.

    Args:
        input: images of shape (N, C, H, W), or volumes (N, C, D, H, W).
        grid: positions of shape (N, H_out, W_out, 2) or (N, D_out, H_out, W_out, 3), from -1 to 1 over the image, x
            first.
        mode: `"bilinear"`, `"nearest"` or, for images, `"bicubic"`.
        padding_mode: value of positions outside: `"zeros"`, `"border"` or `"reflection"`.
        align_corners: whether -1 and 1 are the centres of the outermost pixels. Otherwise they are the edges of the
            image. Without it a warning is given.

    Returns:
        A tensor of shape (N, C, H_out, W_out) or (N, C, D_out, H_out, W_out).

    >>> import ndgrad
    >>> image, place = ndgrad.tensor([[[[1.0, 3.0]]]]), ndgrad.tensor([[[[0.5, 0.0]]]])
    >>> ndgrad.nn.functional.grid_sample(image, place, align_corners=True)
    tensor([[[[2.5000]]]])
    """
    if align_corners is None:
        warnings.warn(
            "grid_sample: align_corners is taken to be False, since it is not given. Give it to silence this.",
            stacklevel=2,
        )
        align_corners = False
    shape, places = tuple(input.shape), tuple(grid.shape)
    axes = len(shape) - 2
    if mode not in ("bilinear", "nearest", "bicubic"):
        raise ValueError(f"grid_sample: mode is {mode!r}. Choose bilinear, nearest or bicubic. [nd-option]")
    if padding_mode not in ("zeros", "border", "reflection"):
        raise ValueError(
            f"grid_sample: padding_mode is {padding_mode!r}. Choose zeros, border or reflection. [nd-option]"
        )
    if axes not in (2, 3) or len(places) != len(shape) or places[0] != shape[0] or places[-1] != axes:
        raise RuntimeError(
            f"grid_sample: an input of shape {shape} and a grid of shape {places} do not fit. "
            "They are (N, C, H, W) and (N, h, w, 2), or (N, C, D, H, W) and (N, d, h, w, 3). [nd-shape]"
        )
    if mode == "bicubic" and axes != 2:
        raise RuntimeError("grid_sample: bicubic is for inputs (N, C, H, W). Use bilinear. [nd-ndim]")
    if not math.prod(shape[1:]):
        raise RuntimeError(f"grid_sample: only the batch may be empty, and the input has shape {shape}. [nd-too-few]")
    how = {"mode": mode, "padding_mode": padding_mode, "align_corners": bool(align_corners)}
    return sampling.grid_sample.eager(input, grid, **how)


# ----- pixels and channels -------------------------------------------------------------------------------------------


def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """Turn channels into blocks of pixels.

    Args:
        input: tensor of shape (..., C * r * r, H, W).
        upscale_factor: size r of a block.

    Returns:
        A tensor of shape (..., C, H * r, W * r).

    >>> import ndgrad
    >>> ndgrad.nn.functional.pixel_shuffle(ndgrad.arange(4.0).reshape(4, 1, 1), 2)
    tensor([[[0., 1.],
             [2., 3.]]])
    """
    shape, r = tuple(input.shape), upscale_factor
    if len(shape) < 3:
        raise RuntimeError(
            f"pixel_shuffle: the input must have 3 dimensions or more, but its shape is {shape}. [nd-ndim]"
        )
    if r <= 0 or shape[-3] % (r * r):
        raise RuntimeError(
            f"pixel_shuffle: {shape[-3]} channels cannot be divided into blocks of {r} x {r}. [nd-divisible]"
        )
    *lead, channels, height, width = shape
    c, k = channels // (r * r), len(lead)
    split = ops.reshape(input, shape=(*lead, c, r, r, height, width))
    mixed = ops.permute(split, dims=(*range(k), k, k + 3, k + 1, k + 4, k + 2))
    return ops.reshape(mixed, shape=(*lead, c, height * r, width * r))


def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """Turn blocks of pixels into channels: the inverse of `pixel_shuffle`.

    Args:
        input: tensor of shape (..., C, H * r, W * r).
        downscale_factor: size r of a block.

    Returns:
        A tensor of shape (..., C * r * r, H, W).

    >>> import ndgrad
    >>> ndgrad.nn.functional.pixel_unshuffle(ndgrad.arange(4.0).reshape(1, 2, 2), 2).shape
    ndgrad.Size([4, 1, 1])
    """
    shape, r = tuple(input.shape), downscale_factor
    if len(shape) < 3:
        raise RuntimeError(
            f"pixel_unshuffle: the input must have 3 dimensions or more, but its shape is {shape}. [nd-ndim]"
        )
    if r <= 0 or shape[-2] % r or shape[-1] % r:
        raise RuntimeError(
            f"pixel_unshuffle: height and width {shape[-2:]} cannot be divided into blocks of {r} x {r}. [nd-divisible]"
        )
    *lead, channels, height, width = shape
    k = len(lead)
    split = ops.reshape(input, shape=(*lead, channels, height // r, r, width // r, r))
    mixed = ops.permute(split, dims=(*range(k), k, k + 2, k + 4, k + 1, k + 3))
    return ops.reshape(mixed, shape=(*lead, channels * r * r, height // r, width // r))


def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Interleave channels: the first of every group, then the second of every group, and so on.

    Args:
        input: tensor of shape (N, C, ...) with at least three dimensions.
        groups: number of groups, a divisor of C.

    >>> import ndgrad
    >>> ndgrad.nn.functional.channel_shuffle(ndgrad.arange(4).reshape(1, 4, 1), 2).flatten()
    tensor([0, 2, 1, 3])
    """
    shape = tuple(input.shape)
    if len(shape) < 3:
        raise RuntimeError(
            f"channel_shuffle: the input must have 3 dimensions or more, but its shape is {shape}. [nd-ndim]"
        )
    n, channels, *rest = shape
    if groups <= 0 or channels % groups:
        raise RuntimeError(
            f"channel_shuffle: {channels} channels cannot be divided into {groups} groups. [nd-divisible]"
        )
    split = ops.reshape(input, shape=(n, groups, channels // groups, *rest))
    return ops.reshape(ops.permute(split, dims=(0, 2, 1, *range(3, len(shape) + 1))), shape=shape)


def native_channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Interleave channels: another name of `channel_shuffle`.

    Args:
        input: tensor of shape (N, C, ...) with at least three dimensions.
        groups: number of groups, a divisor of C.

    >>> import ndgrad
    >>> ndgrad.nn.functional.native_channel_shuffle(ndgrad.arange(4).reshape(1, 4, 1), 2).flatten()
    tensor([0, 2, 1, 3])
    """
    return channel_shuffle(input, groups)
