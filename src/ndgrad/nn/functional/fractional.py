"""Fractional max pooling: windows with random steps, so that sizes can shrink by less than a half."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

from ndgrad._src.core.variable import np_dtype, shape_of
from ndgrad._src.ops import pooling as pooling_ops
from ndgrad._src.ops.vocabulary import tensor_ops as ops
from ndgrad.nn.functional.noise import uniform_like
from ndgrad.nn.functional.spatial import per_axis, with_batch, without_batch

if TYPE_CHECKING:
    from ndgrad._typing import Shape, Tensor

__all__ = [
    "fractional_max_pool2d", "fractional_max_pool2d_with_indices", "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices",
]  # fmt: skip


def _pool(
    axes: int,
    input: Tensor,
    kernel_size: Shape,
    output_size: Shape | None,
    output_ratio: float | Sequence[float] | None,
    samples: Tensor | None,
) -> tuple[Tensor, Tensor]:
    name = f"fractional_max_pool{axes}d"
    if output_size is None and output_ratio is None:
        raise ValueError(f"{name} requires specifying either an output_size or an output_ratio [nd-exclusive]")
    x, batched = with_batch(name, input, axes)
    shape = shape_of(x)
    if 0 in shape[1:]:
        raise RuntimeError(
            f"{name}(): Expected input to have non-zero size for non-batch dimensions, but got {list(shape)}. "
            "[nd-too-few]"
        )
    if np_dtype(x).kind not in "fV":
        raise NotImplementedError(
            f'"{name}" not implemented for {x.dtype}: convert the input to a floating dtype. [nd-dtype]'
        )
    if output_size is None:
        ratios: Any = output_ratio if isinstance(output_ratio, Sequence) else (output_ratio,) * axes
        if len(ratios) != axes:
            raise ValueError(
                f"{name} requires output_ratio to be one number or {axes}, but it is {output_ratio}. [nd-shape]"
            )
        output_size = tuple(int(n * ratio) for n, ratio in zip(shape[2:], ratios, strict=True))
    sizes = per_axis(name, "output_size", output_size, axes)
    kernel = per_axis(name, "kernel_size", kernel_size, axes)
    for side, n, k, m in zip(("depth", "height", "width")[3 - axes :], shape[2:], kernel, sizes, strict=True):
        if k < 1 or m < 0:
            raise RuntimeError(
                f"{name}(): kernel_size {kernel} must be positive, and output_size {sizes} not negative. [nd-window]"
            )
        if m + k - 1 > n:
            raise RuntimeError(
                f"{name}(): pool {side} {k} too large relative to input {side} {n}, for {m} windows. [nd-window]"
            )
    if samples is None:
        corner = x[(slice(None), slice(None), *(slice(1) for _ in range(axes)))]
        samples = uniform_like(ops.expand(corner.reshape(*shape[:2], 1), shape=(*shape[:2], axes)))
    else:
        samples = _check_samples(name, samples, x, axes)
    if axes == 2:  # in torch's order the first number is that of the width
        samples = ops.flip(samples, dims=(2,))
    out, indices = pooling_ops.fractional_max_pool(x, samples, kernel=kernel, sizes=sizes)
    return without_batch(out, batched), without_batch(indices, batched)


def _check_samples(name: str, samples: Tensor, x: Tensor, axes: int) -> Tensor:
    if samples.dtype != x.dtype:
        raise RuntimeError(
            f"{name}: Expect _random_samples to have the same dtype as input: {samples.dtype} and {x.dtype}. "
            "[nd-dtype-mismatch]"
        )
    shape, wanted = shape_of(samples), (*shape_of(x)[:2], axes)
    if len(shape) != 3 or shape[0] < wanted[0] or shape[1:] != wanted[1:]:
        raise RuntimeError(
            f"{name}: Expect _random_samples of shape {wanted}, one number per plane and axis; got {shape}. [nd-shape]"
        )
    return samples[: wanted[0]]


def fractional_max_pool2d_with_indices(
    input: Tensor,
    kernel_size: Shape,
    output_size: Shape | None = None,
    output_ratio: float | Sequence[float] | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the maxima of windows with random steps, and their indices.

    Args:
        input: tensor of shape (N, C, H, W), or (C, H, W) for one sample.
        kernel_size: size of a window, one number or one per axis.
        output_size: number of windows, one number or one per axis.
        output_ratio: quotient of output and input size, one number or one per axis, if there is no `output_size`.
        return_indices: accepted as in torch; has no effect, because indices are always returned.

    Returns:
        A pair of maxima and indices.

    >>> import ndgrad
    >>> out, places = ndgrad.nn.functional.fractional_max_pool2d_with_indices(ndgrad.ones(1, 6, 6), 2, output_size=4)
    >>> places.shape
    ndgrad.Size([1, 4, 4])
    """
    return _pool(2, input, kernel_size, output_size, output_ratio, _random_samples)


def fractional_max_pool3d_with_indices(
    input: Tensor,
    kernel_size: Shape,
    output_size: Shape | None = None,
    output_ratio: float | Sequence[float] | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the maxima of windows with random steps, and their indices.

    Args:
        input: tensor of shape (N, C, D, H, W), or (C, D, H, W) for one sample.
        kernel_size: size of a window, one number or one per axis.
        output_size: number of windows, one number or one per axis.
        output_ratio: quotient of output and input size, one number or one per axis, if there is no `output_size`.
        return_indices: accepted as in torch; has no effect, because indices are always returned.

    Returns:
        A pair of maxima and indices.

    >>> import ndgrad
    >>> out, places = ndgrad.nn.functional.fractional_max_pool3d_with_indices(ndgrad.ones(1, 6, 6, 6), 2, output_size=4)
    >>> places.shape
    ndgrad.Size([1, 4, 4, 4])
    """
    return _pool(3, input, kernel_size, output_size, output_ratio, _random_samples)


@overload
def fractional_max_pool2d(
    input: Tensor, kernel_size: Shape, output_size: Shape | None = ...,
    output_ratio: float | Sequence[float] | None = ..., return_indices: Literal[False] = ...,
    _random_samples: Tensor | None = ...,
) -> Tensor: ...  # fmt: skip
@overload
def fractional_max_pool2d(
    input: Tensor, kernel_size: Shape, output_size: Shape | None = ...,
    output_ratio: float | Sequence[float] | None = ..., *, return_indices: Literal[True],
    _random_samples: Tensor | None = ...,
) -> tuple[Tensor, Tensor]: ...  # fmt: skip
def fractional_max_pool2d(
    input: Tensor,
    kernel_size: Shape,
    output_size: Shape | None = None,
    output_ratio: float | Sequence[float] | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Tensor | tuple[Tensor, Tensor]:
    """Return the maxima of windows with random steps, so that sizes shrink by any factor.

    Args:
        input: tensor of shape (N, C, H, W), or (C, H, W) for one sample.
        kernel_size: size of a window, one number or one per axis.
        output_size: number of windows, one number or one per axis.
        output_ratio: quotient of output and input size, one number or one per axis, if there is no `output_size`.
        return_indices: whether the indices of the maxima are returned too. They count in the flattened spatial
            dimensions of one channel.

    Returns:
        A tensor of the maxima, or a pair of maxima and indices.

    >>> import ndgrad
    >>> ndgrad.nn.functional.fractional_max_pool2d(ndgrad.ones(1, 6, 6), 2, output_ratio=0.7).shape
    ndgrad.Size([1, 4, 4])
    """
    found = _pool(2, input, kernel_size, output_size, output_ratio, _random_samples)
    return found if return_indices else found[0]


@overload
def fractional_max_pool3d(
    input: Tensor, kernel_size: Shape, output_size: Shape | None = ...,
    output_ratio: float | Sequence[float] | None = ..., return_indices: Literal[False] = ...,
    _random_samples: Tensor | None = ...,
) -> Tensor: ...  # fmt: skip
@overload
def fractional_max_pool3d(
    input: Tensor, kernel_size: Shape, output_size: Shape | None = ...,
    output_ratio: float | Sequence[float] | None = ..., *, return_indices: Literal[True],
    _random_samples: Tensor | None = ...,
) -> tuple[Tensor, Tensor]: ...  # fmt: skip
def fractional_max_pool3d(
    input: Tensor,
    kernel_size: Shape,
    output_size: Shape | None = None,
    output_ratio: float | Sequence[float] | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Tensor | tuple[Tensor, Tensor]:
    """Return the maxima of windows with random steps, so that sizes shrink by any factor.

    Args:
        input: tensor of shape (N, C, D, H, W), or (C, D, H, W) for one sample.
        kernel_size: size of a window, one number or one per axis.
        output_size: number of windows, one number or one per axis.
        output_ratio: quotient of output and input size, one number or one per axis, if there is no `output_size`.
        return_indices: whether the indices of the maxima are returned too. They count in the flattened spatial
            dimensions of one channel.

    Returns:
        A tensor of the maxima, or a pair of maxima and indices.

    >>> import ndgrad
    >>> ndgrad.nn.functional.fractional_max_pool3d(ndgrad.ones(1, 6, 6, 6), 2, output_ratio=0.7).shape
    ndgrad.Size([1, 4, 4, 4])
    """
    found = _pool(3, input, kernel_size, output_size, output_ratio, _random_samples)
    return found if return_indices else found[0]
