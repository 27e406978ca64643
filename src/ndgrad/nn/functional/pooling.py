"""Pooling over one, two and three axes: maxima, means, p-norms, and the inverse of max pooling."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

from ndgrad._src.core.variable import np_dtype
from ndgrad._src.ops import gather as gather_ops
from ndgrad._src.ops import pooling as pooling_ops
from ndgrad._src.ops.vocabulary import tensor_ops as ops
from ndgrad._src.tensor.functions.reduce import deliver
from ndgrad._src.tensor.storage import values_to_check
from ndgrad.nn.functional.spatial import per_axis, sizes_of, with_batch, without_batch

if TYPE_CHECKING:
    from ndgrad._typing import Shape, Sizes, Tensor

    #: The number of windows along every axis; None keeps an axis.
    OutputSize: TypeAlias = int | Sequence[int | None]

__all__ = [
    "max_pool1d", "max_pool2d", "max_pool3d", "max_pool1d_with_indices", "max_pool2d_with_indices",
    "max_pool3d_with_indices", "avg_pool1d", "avg_pool2d", "avg_pool3d", "lp_pool1d", "lp_pool2d", "lp_pool3d",
    "adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d", "adaptive_avg_pool1d", "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d_with_indices", "adaptive_max_pool2d_with_indices", "adaptive_max_pool3d_with_indices",
    "max_unpool1d", "max_unpool2d", "max_unpool3d",
]  # fmt: skip


def _empty(name: str, shape: Sizes) -> str:
    return f"{name}: only the batch may be empty, and the input has shape {shape}. [nd-too-few]"


def _window(
    name: str,
    axes: int,
    x: Tensor,
    kernel_size: Shape,
    stride: Shape | None,
    padding: Shape,
    dilation: Shape,
    ceil_mode: bool,
) -> dict[str, Any]:
    """Return the settings of a pooling, checked against the input (N, C, *spatial)."""
    kernel = per_axis(name, "kernel_size", kernel_size, axes)
    if stride is None or (isinstance(stride, (tuple, list)) and not stride):
        stride = kernel
    steps = per_axis(name, "stride", stride, axes)
    pads, spread = per_axis(name, "padding", padding, axes), per_axis(name, "dilation", dilation, axes)
    _require_windows(name, sizes_of(x), kernel, steps, pads, spread, bool(ceil_mode))
    return {"kernel": kernel, "stride": steps, "padding": pads, "dilation": spread, "ceil_mode": bool(ceil_mode)}


@functools.lru_cache(maxsize=1024)  # a model repeats the same call at every step
def _require_windows(
    name: str, shape: Sizes, kernel: Sizes, steps: Sizes, pads: Sizes, spread: Sizes, ceil_mode: bool
) -> None:
    """Refuse shapes and settings that make no pooling."""
    if min(*steps, *kernel, *spread) < 1:
        raise RuntimeError(
            f"{name}: kernel_size, stride and dilation must be positive, but are {kernel}, {steps} and {spread}. "
            "[nd-window]"
        )
    for pad, taps, step in zip(pads, kernel, spread, strict=True):
        if not 0 <= 2 * pad <= step * (taps - 1) + 1:
            raise RuntimeError(
                f"{name}: padding {pad} is negative or more than half a kernel of size {taps} and dilation {step}. "
                "[nd-window]"
            )
    if 0 in shape[1:]:
        raise RuntimeError(_empty(name, shape))
    sizes = pooling_ops.positions(shape[2:], kernel, steps, pads, spread, ceil_mode)
    if min(sizes) < 1:
        raise RuntimeError(
            f"{name}: no window of size {kernel} fits into {shape[2:]}. Use a smaller kernel or more padding. "
            "[nd-window]"
        )


# ----- maxima --------------------------------------------------------------------------------------------------------


def _max_pool(
    axes: int, input: Tensor, kernel_size: Shape, stride: Shape | None, padding: Shape, dilation: Shape, ceil_mode: bool
) -> tuple[Tensor, Tensor]:
    """Return the largest element of each window, and its index in the input."""
    name = f"max_pool{axes}d"
    x, batched = with_batch(name, input, axes)
    how = _window(name, axes, x, kernel_size, stride, padding, dilation, ceil_mode)
    out, indices = pooling_ops.max_pool.eager(x, **how)
    return without_batch(out, batched), without_batch(indices, batched)


@overload
def max_pool1d(
    input: Tensor, kernel_size: Shape, stride: Shape | None = ..., padding: Shape = ..., dilation: Shape = ...,
    ceil_mode: bool = ...,
    return_indices: Literal[False] = ...,
) -> Tensor: ...  # fmt: skip
@overload
def max_pool1d(
    input: Tensor, kernel_size: Shape, stride: Shape | None = ..., padding: Shape = ..., dilation: Shape = ...,
    ceil_mode: bool = ...,
    *, return_indices: Literal[True],
) -> tuple[Tensor, Tensor]: ...  # fmt: skip
def max_pool1d(
    input: Tensor,
    kernel_size: Shape,
    stride: Shape | None = None,
    padding: Shape = 0,
    dilation: Shape = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Return the largest element of each window. The first of equal elements gets the gradient.

    Args:
        input: tensor of shape (N, C, L), or (C, L) for one sample.
        kernel_size: size of a window.
        stride: step between windows. The default is `kernel_size`.
        padding: number of elements -inf at both ends, at most half a window.
        dilation: distance of the elements of a window.
        ceil_mode: whether windows that start inside and end outside count.
        return_indices: whether the indices of the maxima are returned too. They count in the flattened spatial
            dimensions of one channel.

    Returns:
        A tensor of the maxima, or a pair of maxima and indices.

    >>> import ndgrad
    >>> ndgrad.nn.functional.max_pool1d(ndgrad.tensor([[1.0, 5.0, 2.0, 3.0]]), 2)
    tensor([[5., 3.]])
    """
    found = _max_pool(1, input, kernel_size, stride, padding, dilation, ceil_mode)
    return found if return_indices else found[0]


@overload
def max_pool2d(
    input: Tensor, kernel_size: Shape, stride: Shape | None = ..., padding: Shape = ..., dilation: Shape = ...,
    ceil_mode: bool = ...,
    return_indices: Literal[False] = ...,
) -> Tensor: ...  # fmt: skip
@overload
def max_pool2d(
    input: Tensor, kernel_size: Shape, stride: Shape | None = ..., padding: Shape = ..., dilation: Shape = ...,
    ceil_mode: bool = ...,
    *, return_indices: Literal[True],
) -> tuple[Tensor, Tensor]: ...  # fmt: skip
def max_pool2d(
    input: Tensor,
    kernel_size: Shape,
    stride: Shape | None = None,
    padding: Shape = 0,
    dilation: Shape = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Return the largest element of each window. The first of equal elements gets the gradient.

    Args:
        input: tensor of shape (N, C, H, W), or (C, H, W) for one sample.
        kernel_size: size of a window, one number or one per axis.
        stride: step between windows, one number or one per axis. The default is `kernel_size`.
        padding: number of elements -inf at both ends, one number or one per axis, at most half a window.
        dilation: distance of the elements of a window, one number or one per axis.
        ceil_mode: whether windows that start inside and end outside count.
        return_indices: whether the indices of the maxima are returned too. They count in the flattened spatial
            dimensions of one channel.

    Returns:
        A tensor of the maxima, or a pair of maxima and indices.

    >>> import ndgrad
    >>> ndgrad.nn.functional.max_pool2d(ndgrad.arange(16.0).reshape(1, 4, 4), 2)
    tensor([[[ 5.,  7.],
             [13., 15.]]])
    """
    found = _max_pool(2, input, kernel_size, stride, padding, dilation, ceil_mode)
    return found if return_indices else found[0]


@overload
def max_pool3d(
    input: Tensor, kernel_size: Shape, stride: Shape | None = ..., padding: Shape = ..., dilation: Shape = ...,
    ceil_mode: bool = ...,
    return_indices: Literal[False] = ...,
) -> Tensor: ...  # fmt: skip
@overload
def max_pool3d(
    input: Tensor, kernel_size: Shape, stride: Shape | None = ..., padding: Shape = ..., dilation: Shape = ...,
    ceil_mode: bool = ...,
    *, return_indices: Literal[True],
) -> tuple[Tensor, Tensor]: ...  # fmt: skip
def max_pool3d(
    input: Tensor,
    kernel_size: Shape,
    stride: Shape | None = None,
    padding: Shape = 0,
    dilation: Shape = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Return the largest element of each window. The first of equal elements gets the gradient.

    Args:
        input: tensor of shape (N, C, D, H, W), or (C, D, H, W) for one sample.
        kernel_size: size of a window, one number or one per axis.
        stride: step between windows, one number or one per axis. The default is `kernel_size`.
        padding: number of elements -inf at both ends, one number or one per axis, at most half a window.
        dilation: distance of the elements of a window, one number or one per axis.
        ceil_mode: whether windows that start inside and end outside count.
        return_indices: whether the indices of the maxima are returned too. They count in the flattened spatial
            dimensions of one channel.

    Returns:
        A tensor of the maxima, or a pair of maxima and indices.

    >>> import ndgrad
    >>> ndgrad.nn.functional.max_pool3d(ndgrad.arange(16.0).reshape(1, 2, 2, 4), 2)
    tensor([[[[13., 15.]]]])
    """
    found = _max_pool(3, input, kernel_size, stride, padding, dilation, ceil_mode)
    return found if return_indices else found[0]


def max_pool1d_with_indices(
    input: Tensor,
    kernel_size: Shape,
    stride: Shape | None = None,
    padding: Shape = 0,
    dilation: Shape = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return the largest element of each window, and its index.

    Args:
        input: tensor of shape (N, C, L), or (C, L) for one sample.
        kernel_size: size of a window.
        stride: step between windows. The default is `kernel_size`.
        padding: number of elements -inf at both ends, at most half a window.
        dilation: distance of the elements of a window.
        ceil_mode: whether windows that start inside and end outside count.
        return_indices: accepted as in torch; has no effect, because indices are always returned.

    Returns:
        A pair of maxima and indices, which count in the flattened spatial dimensions of one channel.

    >>> import ndgrad
    >>> ndgrad.nn.functional.max_pool1d_with_indices(ndgrad.tensor([[1.0, 5.0, 2.0, 3.0]]), 2)
    (tensor([[5., 3.]]), tensor([[1, 3]]))
    """
    return _max_pool(1, input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool2d_with_indices(
    input: Tensor,
    kernel_size: Shape,
    stride: Shape | None = None,
    padding: Shape = 0,
    dilation: Shape = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return the largest element of each window, and its index.

    Args:
        input: tensor of shape (N, C, H, W), or (C, H, W) for one sample.
        kernel_size: size of a window, one number or one per axis.
        stride: step between windows, one number or one per axis. The default is `kernel_size`.
        padding: number of elements -inf at both ends, one number or one per axis, at most half a window.
        dilation: distance of the elements of a window, one number or one per axis.
        ceil_mode: whether windows that start inside and end outside count.
        return_indices: accepted as in torch; has no effect, because indices are always returned.

    Returns:
        A pair of maxima and indices, which count in the flattened spatial dimensions of one channel.

    >>> import ndgrad
    >>> ndgrad.nn.functional.max_pool2d_with_indices(ndgrad.arange(16.0).reshape(1, 4, 4), 2)
    (tensor([[[ 5.,  7.],
             [13., 15.]]]), tensor([[[ 5,  7],
             [13, 15]]]))
    """
    return _max_pool(2, input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool3d_with_indices(
    input: Tensor,
    kernel_size: Shape,
    stride: Shape | None = None,
    padding: Shape = 0,
    dilation: Shape = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return the largest element of each window, and its index.

    Args:
        input: tensor of shape (N, C, D, H, W), or (C, D, H, W) for one sample.
        kernel_size: size of a window, one number or one per axis.
        stride: step between windows, one number or one per axis. The default is `kernel_size`.
        padding: number of elements -inf at both ends, one number or one per axis, at most half a window.
        dilation: distance of the elements of a window, one number or one per axis.
        ceil_mode: whether windows that start inside and end outside count.
        return_indices: accepted as in torch; has no effect, because indices are always returned.

    Returns:
        A pair of maxima and indices, which count in the flattened spatial dimensions of one channel.

    >>> import ndgrad
    >>> ndgrad.nn.functional.max_pool3d_with_indices(ndgrad.arange(16.0).reshape(1, 2, 2, 4), 2)
    (tensor([[[[13., 15.]]]]), tensor([[[[13, 15]]]]))
    """
    return _max_pool(3, input, kernel_size, stride, padding, dilation, ceil_mode)


# ----- back from maxima ----------------------------------------------------------------------------------------------


def _max_unpool(
    axes: int,
    input: Tensor,
    indices: Tensor,
    kernel_size: Shape,
    stride: Shape | None,
    padding: Shape,
    output_size: Sequence[int] | None,
) -> Tensor:
    """Return zeros with the maxima of a pooling at their indices."""
    name = f"max_unpool{axes}d"
    if np_dtype(indices).kind not in "iu":
        raise RuntimeError(f"{name}: indices must be integers, but are {np_dtype(indices)}. [nd-dtype]")
    if tuple(indices.shape) != tuple(input.shape):
        raise RuntimeError(
            f"{name}: input and indices have different shapes: {tuple(input.shape)} and {tuple(indices.shape)}. "
            "[nd-shape]"
        )
    x, batched = with_batch(name, input, axes)
    where, _ = with_batch(name, indices, axes)
    kernel = per_axis(name, "kernel_size", kernel_size, axes)
    steps = per_axis(name, "stride", stride, axes) if stride is not None else kernel
    pads = per_axis(name, "padding", padding, axes)
    sizes: Sizes = tuple(
        (n - 1) * s - 2 * p + k for n, s, p, k in zip(tuple(x.shape)[2:], steps, pads, kernel, strict=True)
    )
    if output_size is not None:
        wanted = tuple(int(n) for n in output_size)[-axes:]
        if len(output_size) not in (axes, axes + 2):
            raise ValueError(
                f"{name}: output_size must have {axes} or {axes + 2} numbers, but is {tuple(output_size)}. [nd-window]"
            )
        for axis, (n, default, step) in enumerate(zip(wanted, sizes, steps, strict=True)):
            if not default - step < n < default + step:
                raise ValueError(
                    f"{name}: {wanted} cannot be pooled to this: dim {axis} must lie within {step - 1} of {default}. "
                    "[nd-window]"
                )
        sizes = wanted
    places = values_to_check(where)
    if places is not None and places.size and (places.min() < 0 or places.max() >= math.prod(sizes)):
        raise RuntimeError(
            f"{name}: indices up to {int(places.max())} do not fit into an output of size {sizes}. "
            "Give the output_size that was pooled. [nd-window]"
        )
    # If several values have the same index, the last one stays, and only it gets a gradient.
    lines = (*tuple(x.shape)[:2], math.prod(tuple(x.shape)[2:]))
    lost = gather_ops.overwritten_along(
        ops.reshape(where, shape=lines), dim=2, shape=(*tuple(x.shape)[:2], math.prod(sizes))
    )
    x = ops.where(ops.reshape(lost, shape=tuple(x.shape)), 0.0, x)
    return without_batch(pooling_ops.max_unpool.eager(x, where, sizes=sizes, distinct=False), batched)


def max_unpool1d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Shape,
    stride: Shape | None = None,
    padding: Shape = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Return zeros with the maxima of a pooling at their indices.

    Args:
        input: maxima of shape (N, C, L), or (C, L) for one sample.
        indices: indices of the maxima, of the same shape, from `max_pool1d` with `return_indices`.
        kernel_size: size of a window of the pooling.
        stride: step between windows of the pooling. The default is `kernel_size`.
        padding: padding of the pooling.
        output_size: size before the pooling, which several sizes may fit. The default is the size without leftover
            elements.

    >>> import ndgrad
    >>> top, places = ndgrad.nn.functional.max_pool1d(ndgrad.tensor([[1.0, 5.0, 2.0, 3.0]]), 2, return_indices=True)
    >>> ndgrad.nn.functional.max_unpool1d(top, places, 2)
    tensor([[0., 5., 0., 3.]])
    """
    return _max_unpool(1, input, indices, kernel_size, stride, padding, output_size)


def max_unpool2d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Shape,
    stride: Shape | None = None,
    padding: Shape = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Return zeros with the maxima of a pooling at their indices.

    Args:
        input: maxima of shape (N, C, H, W), or (C, H, W) for one sample.
        indices: indices of the maxima, of the same shape, from `max_pool2d` with `return_indices`.
        kernel_size: size of a window of the pooling, one number or one per axis.
        stride: step between windows of the pooling, one number or one per axis. The default is `kernel_size`.
        padding: padding of the pooling, one number or one per axis.
        output_size: size before the pooling, which several sizes may fit. The default is the size without leftover
            elements.

    >>> import ndgrad
    >>> top, places = ndgrad.nn.functional.max_pool2d(ndgrad.arange(16.0).reshape(1, 4, 4), 2, return_indices=True)
    >>> ndgrad.nn.functional.max_unpool2d(top, places, 2)
    tensor([[[ 0.,  0.,  0.,  0.],
             [ 0.,  5.,  0.,  7.],
             [ 0.,  0.,  0.,  0.],
             [ 0., 13.,  0., 15.]]])
    """
    return _max_unpool(2, input, indices, kernel_size, stride, padding, output_size)


def max_unpool3d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Shape,
    stride: Shape | None = None,
    padding: Shape = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Return zeros with the maxima of a pooling at their indices.

    Args:
        input: maxima of shape (N, C, D, H, W), or (C, D, H, W) for one sample.
        indices: indices of the maxima, of the same shape, from `max_pool3d` with `return_indices`.
        kernel_size: size of a window of the pooling, one number or one per axis.
        stride: step between windows of the pooling, one number or one per axis. The default is `kernel_size`.
        padding: padding of the pooling, one number or one per axis.
        output_size: size before the pooling, which several sizes may fit. The default is the size without leftover
            elements.

    >>> import ndgrad
    >>> top, places = ndgrad.nn.functional.max_pool3d(ndgrad.arange(16.0).reshape(1, 2, 2, 4), 2, return_indices=True)
    >>> ndgrad.nn.functional.max_unpool3d(top, places, 2).shape
    ndgrad.Size([1, 2, 2, 4])
    """
    return _max_unpool(3, input, indices, kernel_size, stride, padding, output_size)


# ----- means ---------------------------------------------------------------------------------------------------------


def _avg_pool(
    axes: int,
    input: Tensor,
    kernel_size: Shape,
    stride: Shape | None,
    padding: Shape = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """Return the mean of each window."""
    name = f"avg_pool{axes}d"
    x, batched = with_batch(name, input, axes)
    if divisor_override == 0:
        raise RuntimeError(
            f"{name}: divisor_override is 0. Leave it out to divide by the size of the window. [nd-window]"
        )
    how = _window(name, axes, x, kernel_size, stride, padding, 1, ceil_mode)
    del how["dilation"]
    out = pooling_ops.avg_pool.eager(
        x, **how, count_include_pad=bool(count_include_pad), divisor_override=divisor_override
    )
    return without_batch(out, batched)


def avg_pool1d(
    input: Tensor,
    kernel_size: Shape,
    stride: Shape | None = None,
    padding: Shape = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """Return the mean of each window.

    Args:
        input: tensor of shape (N, C, L), or (C, L) for one sample.
        kernel_size: size of a window.
        stride: step between windows. The default is `kernel_size`.
        padding: number of zeros at both ends, at most half a window.
        ceil_mode: whether windows that start inside and end outside count.
        count_include_pad: whether padding counts in the number of elements.

    >>> import ndgrad
    >>> ndgrad.nn.functional.avg_pool1d(ndgrad.tensor([[1.0, 5.0, 2.0, 3.0]]), 2)
    tensor([[3.0000, 2.5000]])
    """
    return _avg_pool(1, input, kernel_size, stride, padding, ceil_mode, count_include_pad)


def avg_pool2d(
    input: Tensor,
    kernel_size: Shape,
    stride: Shape | None = None,
    padding: Shape = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Return the mean of each window.

    Args:
        input: tensor of shape (N, C, H, W), or (C, H, W) for one sample.
        kernel_size: size of a window, one number or one per axis.
        stride: step between windows, one number or one per axis. The default is `kernel_size`.
        padding: number of zeros at both ends, one number or one per axis, at most half a window.
        ceil_mode: whether windows that start inside and end outside count.
        count_include_pad: whether padding counts in the number of elements.
        divisor_override: number by which sums are divided. The default is the number of elements.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.nn.functional.avg_pool2d(ndgrad.arange(16.0).reshape(1, 4, 4), 2)
    tensor([[[ 2.5000,  4.5000],
             [10.5000, 12.5000]]])
    """
    result = _avg_pool(2, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
    return deliver("avg_pool2d", result, out, input)


def avg_pool3d(
    input: Tensor,
    kernel_size: Shape,
    stride: Shape | None = None,
    padding: Shape = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Return the mean of each window.

    Args:
        input: tensor of shape (N, C, D, H, W), or (C, D, H, W) for one sample.
        kernel_size: size of a window, one number or one per axis.
        stride: step between windows, one number or one per axis. The default is `kernel_size`.
        padding: number of zeros at both ends, one number or one per axis, at most half a window.
        ceil_mode: whether windows that start inside and end outside count.
        count_include_pad: whether padding counts in the number of elements.
        divisor_override: number by which sums are divided. The default is the number of elements.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.nn.functional.avg_pool3d(ndgrad.arange(16.0).reshape(1, 2, 2, 4), 2)
    tensor([[[[6.5000, 8.5000]]]])
    """
    result = _avg_pool(3, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
    return deliver("avg_pool3d", result, out, input)


def _lp_pool(
    axes: int, input: Tensor, norm_type: float, kernel_size: Shape, stride: Shape | None, ceil_mode: bool
) -> Tensor:
    """Return the p-norm of each window."""
    name = f"lp_pool{axes}d"
    kernel = per_axis(name, "kernel_size", kernel_size, axes)
    if math.isinf(norm_type):
        sign = math.copysign(1.0, norm_type)  # the limits are the largest and the smallest absolute value
        return _max_pool(axes, ops.abs(input) * sign, kernel, stride, 0, 1, ceil_mode)[0] * sign
    # The result is (sum of x^p)^(1/p), with the sum as the mean times the size of a whole window.
    mean = _avg_pool(axes, input**norm_type, kernel, stride, ceil_mode=ceil_mode)
    return (ops.sign(mean) * ops.relu(ops.abs(mean)) * float(math.prod(kernel))) ** (1.0 / norm_type)


def lp_pool1d(
    input: Tensor, norm_type: float, kernel_size: Shape, stride: Shape | None = None, ceil_mode: bool = False
) -> Tensor:
    """Return the p-norm of each window, `sum(x ** p) ** (1 / p)`.

    Args:
        input: tensor of shape (N, C, L), or (C, L) for one sample.
        norm_type: order p of the norm.
        kernel_size: size of a window.
        stride: step between windows. The default is `kernel_size`.
        ceil_mode: whether windows that start inside and end outside count.

    >>> import ndgrad
    >>> ndgrad.nn.functional.lp_pool1d(ndgrad.tensor([[3.0, 4.0, 6.0, 8.0]]), 2.0, 2)
    tensor([[ 5., 10.]])
    """
    return _lp_pool(1, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(
    input: Tensor, norm_type: float, kernel_size: Shape, stride: Shape | None = None, ceil_mode: bool = False
) -> Tensor:
    """Return the p-norm of each window, `sum(x ** p) ** (1 / p)`.

    Args:
        input: tensor of shape (N, C, H, W), or (C, H, W) for one sample.
        norm_type: order p of the norm.
        kernel_size: size of a window, one number or one per axis.
        stride: step between windows, one number or one per axis. The default is `kernel_size`.
        ceil_mode: whether windows that start inside and end outside count.

    >>> import ndgrad
    >>> ndgrad.nn.functional.lp_pool2d(ndgrad.arange(16.0).reshape(1, 4, 4), 2.0, 2)
    tensor([[[ 6.4807,  9.8995],
             [21.4009, 25.3377]]])
    """
    return _lp_pool(2, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool3d(
    input: Tensor, norm_type: float, kernel_size: Shape, stride: Shape | None = None, ceil_mode: bool = False
) -> Tensor:
    """Return the p-norm of each window, `sum(x ** p) ** (1 / p)`.

    Args:
        input: tensor of shape (N, C, D, H, W), or (C, D, H, W) for one sample.
        norm_type: order p of the norm.
        kernel_size: size of a window, one number or one per axis.
        stride: step between windows, one number or one per axis. The default is `kernel_size`.
        ceil_mode: whether windows that start inside and end outside count.

    >>> import ndgrad
    >>> ndgrad.nn.functional.lp_pool3d(ndgrad.arange(16.0).reshape(1, 2, 2, 4), 2.0, 2)
    tensor([[[[22.3607, 27.2029]]]])
    """
    return _lp_pool(3, input, norm_type, kernel_size, stride, ceil_mode)


# ----- as many windows as wanted -------------------------------------------------------------------------------------


def _sizes(name: str, axes: int, x: Tensor, output_size: OutputSize) -> Sizes:
    if output_size is None:
        raise TypeError(
            f"{name}: output_size is None. Give a number, or a tuple in which None keeps an axis. [nd-window]"
        )
    shape = tuple(x.shape)
    if 0 in shape[1:]:
        raise RuntimeError(_empty(name, shape))
    given: Sequence[Any] = tuple(output_size) if isinstance(output_size, (tuple, list)) else (output_size,) * axes
    if len(given) != axes:
        raise RuntimeError(f"{name}: output_size must be {axes} numbers, but is {output_size}. [nd-window]")
    sizes = tuple(n if wanted is None else int(wanted) for n, wanted in zip(shape[2:], given, strict=True))
    if min(sizes) < 0:
        raise RuntimeError(f"{name}: output_size is negative: {sizes}. [nd-window]")
    return sizes


def _adaptive_max_pool(axes: int, input: Tensor, output_size: OutputSize) -> tuple[Tensor, Tensor]:
    name = f"adaptive_max_pool{axes}d"
    x, batched = with_batch(name, input, axes)
    out, indices = pooling_ops.adaptive_max_pool(x, sizes=_sizes(name, axes, x, output_size))
    return without_batch(out, batched), without_batch(indices, batched)


def _adaptive_avg_pool(axes: int, input: Tensor, output_size: OutputSize) -> Tensor:
    name = f"adaptive_avg_pool{axes}d"
    x, batched = with_batch(name, input, axes)
    sizes = _sizes(name, axes, x, output_size)
    if sizes == (1,) * axes:  # one window over everything is a mean
        return without_batch(ops.mean(x, dim=tuple(range(2, axes + 2)), keepdim=True), batched)
    return without_batch(pooling_ops.adaptive_avg_pool.eager(x, sizes=sizes), batched)


@overload
def adaptive_max_pool1d(input: Tensor, output_size: OutputSize, return_indices: Literal[False] = ...) -> Tensor: ...
@overload
def adaptive_max_pool1d(
    input: Tensor, output_size: OutputSize, return_indices: Literal[True]
) -> tuple[Tensor, Tensor]: ...
def adaptive_max_pool1d(
    input: Tensor, output_size: OutputSize, return_indices: bool = False
) -> Tensor | tuple[Tensor, Tensor]:
    """Return the maxima of a given number of windows along the axis.

    Args:
        input: tensor of shape (N, C, L), or (C, L) for one sample.
        output_size: number of windows.
        return_indices: whether the indices of the maxima are returned too. They count in the flattened spatial
            dimensions of one channel.

    Returns:
        A tensor of the maxima, or a pair of maxima and indices.

    >>> import ndgrad
    >>> ndgrad.nn.functional.adaptive_max_pool1d(ndgrad.tensor([[1.0, 5.0, 2.0, 3.0]]), 2)
    tensor([[5., 3.]])
    """
    found = _adaptive_max_pool(1, input, output_size)
    return found if return_indices else found[0]


@overload
def adaptive_max_pool2d(input: Tensor, output_size: OutputSize, return_indices: Literal[False] = ...) -> Tensor: ...
@overload
def adaptive_max_pool2d(
    input: Tensor, output_size: OutputSize, return_indices: Literal[True]
) -> tuple[Tensor, Tensor]: ...
def adaptive_max_pool2d(
    input: Tensor, output_size: OutputSize, return_indices: bool = False
) -> Tensor | tuple[Tensor, Tensor]:
    """Return the maxima of a given number of windows along each axis.

    Args:
        input: tensor of shape (N, C, H, W), or (C, H, W) for one sample.
        output_size: number of windows, one number or one per axis. None keeps the size of an axis.
        return_indices: whether the indices of the maxima are returned too. They count in the flattened spatial
            dimensions of one channel.

    Returns:
        A tensor of the maxima, or a pair of maxima and indices.

    >>> import ndgrad
    >>> ndgrad.nn.functional.adaptive_max_pool2d(ndgrad.arange(16.0).reshape(1, 4, 4), (1, 2))
    tensor([[[13., 15.]]])
    """
    found = _adaptive_max_pool(2, input, output_size)
    return found if return_indices else found[0]


@overload
def adaptive_max_pool3d(input: Tensor, output_size: OutputSize, return_indices: Literal[False] = ...) -> Tensor: ...
@overload
def adaptive_max_pool3d(
    input: Tensor, output_size: OutputSize, return_indices: Literal[True]
) -> tuple[Tensor, Tensor]: ...
def adaptive_max_pool3d(
    input: Tensor, output_size: OutputSize, return_indices: bool = False
) -> Tensor | tuple[Tensor, Tensor]:
    """Return the maxima of a given number of windows along each axis.

    Args:
        input: tensor of shape (N, C, D, H, W), or (C, D, H, W) for one sample.
        output_size: number of windows, one number or one per axis. None keeps the size of an axis.
        return_indices: whether the indices of the maxima are returned too. They count in the flattened spatial
            dimensions of one channel.

    Returns:
        A tensor of the maxima, or a pair of maxima and indices.

    >>> import ndgrad
    >>> ndgrad.nn.functional.adaptive_max_pool3d(ndgrad.arange(16.0).reshape(1, 2, 2, 4), (1, 1, 2))
    tensor([[[[13., 15.]]]])
    """
    found = _adaptive_max_pool(3, input, output_size)
    return found if return_indices else found[0]


def adaptive_max_pool1d_with_indices(
    input: Tensor, output_size: OutputSize, return_indices: bool = False
) -> tuple[Tensor, Tensor]:
    """Return the maxima of a given number of windows along the axis, and their indices.

    Args:
        input: tensor of shape (N, C, L), or (C, L) for one sample.
        output_size: number of windows.
        return_indices: accepted as in torch; has no effect, because indices are always returned.

    Returns:
        A pair of maxima and indices.

    >>> import ndgrad
    >>> ndgrad.nn.functional.adaptive_max_pool1d_with_indices(ndgrad.tensor([[1.0, 5.0, 2.0, 3.0]]), 2)
    (tensor([[5., 3.]]), tensor([[1, 3]]))
    """
    return _adaptive_max_pool(1, input, output_size)


def adaptive_max_pool2d_with_indices(
    input: Tensor, output_size: OutputSize, return_indices: bool = False
) -> tuple[Tensor, Tensor]:
    """Return the maxima of a given number of windows along each axis, and their indices.

    Args:
        input: tensor of shape (N, C, H, W), or (C, H, W) for one sample.
        output_size: number of windows, one number or one per axis. None keeps the size of an axis.
        return_indices: accepted as in torch; has no effect, because indices are always returned.

    Returns:
        A pair of maxima and indices.

    >>> import ndgrad
    >>> ndgrad.nn.functional.adaptive_max_pool2d_with_indices(ndgrad.arange(16.0).reshape(1, 4, 4), (1, 2))
    (tensor([[[13., 15.]]]), tensor([[[13, 15]]]))
    """
    return _adaptive_max_pool(2, input, output_size)


def adaptive_max_pool3d_with_indices(
    input: Tensor, output_size: OutputSize, return_indices: bool = False
) -> tuple[Tensor, Tensor]:
    """Return the maxima of a given number of windows along each axis, and their indices.

    Args:
        input: tensor of shape (N, C, D, H, W), or (C, D, H, W) for one sample.
        output_size: number of windows, one number or one per axis. None keeps the size of an axis.
        return_indices: accepted as in torch; has no effect, because indices are always returned.

    Returns:
        A pair of maxima and indices.

    >>> import ndgrad
    >>> ndgrad.nn.functional.adaptive_max_pool3d_with_indices(ndgrad.arange(16.0).reshape(1, 2, 2, 4), (1, 1, 2))
    (tensor([[[[13., 15.]]]]), tensor([[[[13, 15]]]]))
    """
    return _adaptive_max_pool(3, input, output_size)


def adaptive_avg_pool1d(input: Tensor, output_size: OutputSize) -> Tensor:
    """Return the means of a given number of windows along the axis.

    Args:
        input: tensor of shape (N, C, L), or (C, L) for one sample.
        output_size: number of windows.

    >>> import ndgrad
    >>> ndgrad.nn.functional.adaptive_avg_pool1d(ndgrad.tensor([[1.0, 5.0, 2.0, 3.0]]), 2)
    tensor([[3.0000, 2.5000]])
    """
    return _adaptive_avg_pool(1, input, output_size)


def adaptive_avg_pool2d(input: Tensor, output_size: OutputSize) -> Tensor:
    """Return the means of a given number of windows along each axis.

    Args:
        input: tensor of shape (N, C, H, W), or (C, H, W) for one sample.
        output_size: number of windows, one number or one per axis. None keeps the size of an axis.

    >>> import ndgrad
    >>> ndgrad.nn.functional.adaptive_avg_pool2d(ndgrad.arange(16.0).reshape(1, 4, 4), (1, 2))
    tensor([[[6.5000, 8.5000]]])
    """
    return _adaptive_avg_pool(2, input, output_size)


def adaptive_avg_pool3d(input: Tensor, output_size: OutputSize) -> Tensor:
    """Return the means of a given number of windows along each axis.

    Args:
        input: tensor of shape (N, C, D, H, W), or (C, D, H, W) for one sample.
        output_size: number of windows, one number or one per axis. None keeps the size of an axis.

    >>> import ndgrad
    >>> ndgrad.nn.functional.adaptive_avg_pool3d(ndgrad.arange(16.0).reshape(1, 2, 2, 4), (1, 1, 2))
    tensor([[[[6.5000, 8.5000]]]])
    """
    return _adaptive_avg_pool(3, input, output_size)
