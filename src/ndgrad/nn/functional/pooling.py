"""Pooling over one, two and three axes: maxima, means, p-norms, and the way back from maxima."""

from __future__ import annotations

import math
from typing import Any

from ndgrad.autograd.variable import np_dtype
from ndgrad.nn.functional.classification import values
from ndgrad.nn.functional.spatial import Shape, by_axes, per_axis, with_batch, without_batch
from ndgrad.ops import pooling as pooling_ops
from ndgrad.ops.vocabulary import tensor_ops as ops

__all__ = [
    "max_pool1d", "max_pool2d", "max_pool3d", "max_pool1d_with_indices", "max_pool2d_with_indices", "max_pool3d_with_indices",
    "avg_pool1d", "avg_pool2d", "avg_pool3d", "lp_pool1d", "lp_pool2d", "lp_pool3d",
    "adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d", "adaptive_avg_pool1d", "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d_with_indices", "adaptive_max_pool2d_with_indices", "adaptive_max_pool3d_with_indices",
    "max_unpool1d", "max_unpool2d", "max_unpool3d",
]  # fmt: skip


def _empty(name: str, shape: Shape) -> str:
    return f"{name}: only the batch may be empty, and the input has shape {shape}."


def _window(name: str, axes: int, x: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> dict[str, Any]:
    """The settings of a pooling, checked against the input (N, C, *spatial)."""
    kernel = per_axis(name, "kernel_size", kernel_size, axes)
    default = stride is None or (isinstance(stride, (tuple, list)) and not stride)
    steps = kernel if default else per_axis(name, "stride", stride, axes)
    pads, spread = per_axis(name, "padding", padding, axes), per_axis(name, "dilation", dilation, axes)
    if min(*steps, *kernel, *spread) < 1:
        raise RuntimeError(f"{name}: kernel_size, stride and dilation must be positive, and are {kernel}, {steps} and {spread}.")
    for pad, taps, step in zip(pads, kernel, spread, strict=True):
        if not 0 <= 2 * pad <= step * (taps - 1) + 1:
            raise RuntimeError(f"{name}: padding {pad} is negative or more than half a kernel of size {taps} and dilation {step}.")
    shape = tuple(x.shape)
    if 0 in shape[1:]:
        raise RuntimeError(_empty(name, shape))
    sizes = pooling_ops.positions(shape[2:], kernel, steps, pads, spread, ceil_mode)
    if min(sizes) < 1:
        raise RuntimeError(f"{name}: no window of size {kernel} fits into {shape[2:]}. Use a smaller kernel or more padding.")
    return {"kernel": kernel, "stride": steps, "padding": pads, "dilation": spread, "ceil_mode": bool(ceil_mode)}


# ----- maxima --------------------------------------------------------------------------------------------------------


def max_pool(
    axes: int,
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest element of each window of {shape}; with `return_indices`, also where it stands.

    >>> max_pool1d(ndgrad.tensor([[1.0, 5.0, 2.0, 3.0]]), 2)
    tensor([[5., 3.]])
    """
    name = f"max_pool{axes}d"
    x, batched = with_batch(name, input, axes)
    out, indices = pooling_ops.max_pool(x, **_window(name, axes, x, kernel_size, stride, padding, dilation, ceil_mode))
    out = without_batch(out, batched)
    return (out, without_batch(indices, batched)) if return_indices else out


def max_pool_with_indices(
    axes: int,
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest element of each window of {shape}, and where it stands."""
    return max_pool(axes, input, kernel_size, stride, padding, dilation, ceil_mode, True)


max_pool1d, max_pool2d, max_pool3d = by_axes("max_pool{}d", max_pool)
max_pool1d_with_indices, max_pool2d_with_indices, max_pool3d_with_indices = by_axes("max_pool{}d_with_indices", max_pool_with_indices)


# ----- back from maxima ----------------------------------------------------------------------------------------------


def max_unpool(axes: int, input: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None) -> Any:
    """Zeros with the maxima of a pooling, {shape}, put back in their places."""
    name = f"max_unpool{axes}d"
    if np_dtype(indices).kind not in "iu":
        raise RuntimeError(f"{name}: indices must be integers, and are {np_dtype(indices)}.")
    if tuple(indices.shape) != tuple(input.shape):
        raise RuntimeError(f"{name}: input and indices have different shapes: {tuple(input.shape)} and {tuple(indices.shape)}.")
    x, batched = with_batch(name, input, axes)
    where, _ = with_batch(name, indices, axes)
    kernel = per_axis(name, "kernel_size", kernel_size, axes)
    steps = per_axis(name, "stride", stride, axes) if stride is not None else kernel
    pads = per_axis(name, "padding", padding, axes)
    sizes: Shape = tuple((n - 1) * s - 2 * p + k for n, s, p, k in zip(tuple(x.shape)[2:], steps, pads, kernel, strict=True))
    if output_size is not None:
        wanted = tuple(int(n) for n in output_size)[-axes:]
        if len(output_size) not in (axes, axes + 2):
            raise ValueError(f"{name}: output_size must have {axes} or {axes + 2} numbers, and is {tuple(output_size)}.")
        for axis, (n, default, step) in enumerate(zip(wanted, sizes, steps, strict=True)):
            if not default - step < n < default + step:
                raise ValueError(f"{name}: {wanted} cannot be pooled to this: dim {axis} must lie within {step - 1} of {default}.")
        sizes = wanted
    places = values(where)
    if places is not None and places.size and (places.min() < 0 or places.max() >= math.prod(sizes)):
        raise RuntimeError(
            f"{name}: indices up to {int(places.max())} do not fit into an output of size {sizes}. Give the output_size that was pooled."
        )
    return without_batch(pooling_ops.max_unpool.eager(x, where, sizes=sizes, distinct=True), batched)


max_unpool1d, max_unpool2d, max_unpool3d = by_axes("max_unpool{}d", max_unpool)


# ----- means ---------------------------------------------------------------------------------------------------------


def avg_pool(
    axes: int,
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    """The mean of each window of {shape}."""
    name = f"avg_pool{axes}d"
    x, batched = with_batch(name, input, axes)
    if divisor_override == 0:
        raise RuntimeError(f"{name}: divisor_override is 0. Leave it out to divide by the size of the window.")
    how = _window(name, axes, x, kernel_size, stride, padding, 1, ceil_mode)
    del how["dilation"]
    out = pooling_ops.avg_pool.eager(x, **how, count_include_pad=bool(count_include_pad), divisor_override=divisor_override)
    return without_batch(out, batched)


def avg_pool1d(
    input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False, count_include_pad: bool = True
) -> Any:
    """The mean of each window of (N, C, L) or (C, L)."""
    return avg_pool(1, input, kernel_size, stride, padding, ceil_mode, count_include_pad)


_, avg_pool2d, avg_pool3d = by_axes("avg_pool{}d", avg_pool)


def lp_pool(axes: int, input: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Any:
    """The p-norm of each window of {shape}, p being `norm_type`."""
    name = f"lp_pool{axes}d"
    kernel = per_axis(name, "kernel_size", kernel_size, axes)
    if math.isinf(norm_type):
        sign = math.copysign(1.0, norm_type)  # the limits are the largest and the smallest absolute value
        return max_pool(axes, ops.abs(input) * sign, kernel, stride, ceil_mode=ceil_mode) * sign
    # (sum of x^p)^(1/p), the sum being the mean times the size of a whole window
    mean = avg_pool(axes, input**norm_type, kernel, stride, ceil_mode=ceil_mode)
    return (ops.sign(mean) * ops.relu(ops.abs(mean)) * float(math.prod(kernel))) ** (1.0 / norm_type)


lp_pool1d, lp_pool2d, lp_pool3d = by_axes("lp_pool{}d", lp_pool)


# ----- as many windows as wanted -------------------------------------------------------------------------------------


def _sizes(name: str, axes: int, x: Any, output_size: Any) -> Shape:
    if output_size is None:
        raise TypeError(f"{name}: output_size is None. Give a number, or a tuple in which None keeps an axis.")
    shape = tuple(x.shape)
    if 0 in shape[1:]:
        raise RuntimeError(_empty(name, shape))
    given = tuple(output_size) if isinstance(output_size, (tuple, list)) else (output_size,) * axes
    if len(given) != axes:
        raise RuntimeError(f"{name}: output_size must be {axes} numbers, and is {output_size}.")
    sizes = tuple(n if wanted is None else int(wanted) for n, wanted in zip(shape[2:], given, strict=True))
    if min(sizes) < 0:
        raise RuntimeError(f"{name}: output_size is negative: {sizes}.")
    return sizes


def adaptive_max_pool(axes: int, input: Any, output_size: Any, return_indices: bool = False) -> Any:
    """The largest elements of as many windows of {shape} as `output_size` says, for each axis; None keeps an axis."""
    name = f"adaptive_max_pool{axes}d"
    x, batched = with_batch(name, input, axes)
    out, indices = pooling_ops.adaptive_max_pool(x, sizes=_sizes(name, axes, x, output_size))
    out = without_batch(out, batched)
    return (out, without_batch(indices, batched)) if return_indices else out


def adaptive_max_pool_with_indices(axes: int, input: Any, output_size: Any, return_indices: bool = False) -> Any:
    """The largest elements of as many windows of {shape} as `output_size` says, for each axis, and where they stand."""
    return adaptive_max_pool(axes, input, output_size, True)


def adaptive_avg_pool(axes: int, input: Any, output_size: Any) -> Any:
    """The means of as many windows of {shape} as `output_size` says, for each axis; None keeps an axis."""
    name = f"adaptive_avg_pool{axes}d"
    x, batched = with_batch(name, input, axes)
    sizes = _sizes(name, axes, x, output_size)
    if sizes == (1,) * axes:  # one window over everything is a mean
        return without_batch(ops.mean(x, dim=tuple(range(2, axes + 2)), keepdim=True), batched)
    return without_batch(pooling_ops.adaptive_avg_pool.eager(x, sizes=sizes), batched)


adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d = by_axes("adaptive_max_pool{}d", adaptive_max_pool)
adaptive_max_pool1d_with_indices, adaptive_max_pool2d_with_indices, adaptive_max_pool3d_with_indices = by_axes(
    "adaptive_max_pool{}d_with_indices", adaptive_max_pool_with_indices
)
adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d = by_axes("adaptive_avg_pool{}d", adaptive_avg_pool)
