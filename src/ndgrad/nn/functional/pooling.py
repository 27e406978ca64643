"""Pooling over one, two and three axes: maxima, means, p-norms, and the way back from maxima."""

from __future__ import annotations

from typing import Any

from ndgrad.autograd.variable import np_dtype
from ndgrad.nn.functional.classification import values
from ndgrad.nn.functional.spatial import Shape, per_axis, with_batch, without_batch
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


def _window(name: str, axes: int, x: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> dict[str, Any]:
    """The settings of a pooling, checked against the input (N, C, *spatial)."""
    kernel = per_axis(name, "kernel_size", kernel_size, axes)
    given = stride is not None and not (isinstance(stride, (tuple, list)) and not stride)
    steps = per_axis(name, "stride", stride, axes) if given else kernel
    pads, spread = per_axis(name, "padding", padding, axes), per_axis(name, "dilation", dilation, axes)
    if min(steps) < 1 or min(kernel) < 1 or min(spread) < 1:
        raise RuntimeError(f"{name}: stride should not be zero, nor kernel size and dilation: they are {steps}, {kernel} and {spread}.")
    for pad, taps, step in zip(pads, kernel, spread, strict=True):
        if not 0 <= 2 * pad <= step * (taps - 1) + 1:
            raise RuntimeError(
                f"{name}: pad should be at most half of effective kernel size, but got pad={pad}, kernel_size={taps} and dilation={step}."
            )
    shape = tuple(x.shape)
    if 0 in shape[1:]:
        raise RuntimeError(f"{name}: expected an input without empty dimensions other than the batch, but got: {list(shape)}.")
    sizes = pooling_ops.positions(shape[2:], kernel, steps, pads, spread, ceil_mode)
    if min(sizes) < 1:
        inside, outside = "x".join(map(str, shape[1:])), "x".join(map(str, (shape[1], *sizes)))
        raise RuntimeError(
            f"{name}: Given input size: ({inside}). Calculated output size: ({outside}). Output size is too small. Use a smaller kernel."
        )
    return {"kernel": kernel, "stride": steps, "padding": pads, "dilation": spread, "ceil_mode": bool(ceil_mode)}


# ----- maxima --------------------------------------------------------------------------------------------------------


def _max_pool(
    axes: int, input: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool, return_indices: bool
) -> Any:
    name = f"max_pool{axes}d"
    x, batched = with_batch(name, input, axes)
    out, indices = pooling_ops.max_pool(x, **_window(name, axes, x, kernel_size, stride, padding, dilation, ceil_mode))
    out = without_batch(out, batched)
    return (out, without_batch(indices, batched)) if return_indices else out


def max_pool1d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest element of each window of (N, C, L) or (C, L); with `return_indices`, also where it stands.

    >>> max_pool1d(ndgrad.tensor([[1.0, 5.0, 2.0, 3.0]]), 2)
    tensor([[5., 3.]])
    """
    return _max_pool(1, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool2d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest element of each window of (N, C, H, W) or (C, H, W)."""
    return _max_pool(2, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool3d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest element of each window of (N, C, D, H, W) or (C, D, H, W)."""
    return _max_pool(3, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool1d_with_indices(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """max_pool1d with the places of the maxima."""
    return _max_pool(1, input, kernel_size, stride, padding, dilation, ceil_mode, True)


def max_pool2d_with_indices(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """max_pool2d with the places of the maxima."""
    return _max_pool(2, input, kernel_size, stride, padding, dilation, ceil_mode, True)


def max_pool3d_with_indices(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """max_pool3d with the places of the maxima."""
    return _max_pool(3, input, kernel_size, stride, padding, dilation, ceil_mode, True)


# ----- back from maxima ----------------------------------------------------------------------------------------------


def _max_unpool(axes: int, input: Any, indices: Any, kernel_size: Any, stride: Any, padding: Any, output_size: Any) -> Any:
    name = f"max_unpool{axes}d"
    if np_dtype(indices).kind not in "iu":
        raise RuntimeError(f"{name}: elements in indices should be type int64 but got: {np_dtype(indices)}.")
    if tuple(indices.shape) != tuple(input.shape):
        raise RuntimeError(
            f"{name}: Expected shape of indices to be same as that of the input tensor ({list(input.shape)}) but got indices tensor "
            f"with shape: {list(indices.shape)}."
        )
    x, batched = with_batch(name, input, axes)
    where, _ = with_batch(name, indices, axes)
    kernel = per_axis(name, "kernel_size", kernel_size, axes)
    steps = per_axis(name, "stride", stride, axes) if stride is not None else kernel
    pads = per_axis(name, "padding", padding, axes)
    sizes: Shape = tuple((n - 1) * s - 2 * p + k for n, s, p, k in zip(tuple(x.shape)[2:], steps, pads, kernel, strict=True))
    if output_size is not None:
        wanted = tuple(int(n) for n in output_size)[-axes:]
        if len(output_size) not in (axes, axes + 2):
            raise ValueError(
                f"{name}: output_size should be a sequence containing {axes} or {axes + 2} elements, but it has a length of "
                f"'{len(output_size)}'."
            )
        for axis, (n, default, step) in enumerate(zip(wanted, sizes, steps, strict=True)):
            if not default - step < n < default + step:
                raise ValueError(
                    f'{name}: invalid output_size "{wanted}" (dim {axis} must be between {default - step} and {default + step}).'
                )
        sizes = wanted
    volume = 1
    for n in sizes:
        volume *= n
    places = values(where)
    if places is not None and places.size and (places.min() < 0 or places.max() >= volume):
        raise RuntimeError(
            f"{name}: Found an invalid max index: {int(places.max())} (output volumes are of size {'x'.join(map(str, sizes))}). "
            "Give the output_size that was pooled."
        )
    return without_batch(pooling_ops.max_unpool.eager(x, where, sizes=sizes, distinct=True), batched)


def max_unpool1d(input: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None) -> Any:
    """Zeros with the maxima of max_pool1d put back in their places."""
    return _max_unpool(1, input, indices, kernel_size, stride, padding, output_size)


def max_unpool2d(input: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None) -> Any:
    """Zeros with the maxima of max_pool2d put back in their places."""
    return _max_unpool(2, input, indices, kernel_size, stride, padding, output_size)


def max_unpool3d(input: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None) -> Any:
    """Zeros with the maxima of max_pool3d put back in their places."""
    return _max_unpool(3, input, indices, kernel_size, stride, padding, output_size)


# ----- means ---------------------------------------------------------------------------------------------------------


def _avg_pool(
    axes: int,
    input: Any,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
    name: str | None = None,
) -> Any:
    name = name or f"avg_pool{axes}d"
    x, batched = with_batch(name, input, axes)
    if divisor_override == 0:
        raise RuntimeError(f"{name}: divisor must be not zero. Leave divisor_override out to divide by the size of the window.")
    how = _window(name, axes, x, kernel_size, stride, padding, 1, ceil_mode)
    del how["dilation"]
    out = pooling_ops.avg_pool.eager(x, **how, count_include_pad=bool(count_include_pad), divisor_override=divisor_override)
    return without_batch(out, batched)


def avg_pool1d(
    input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False, count_include_pad: bool = True
) -> Any:
    """The mean of each window of (N, C, L) or (C, L)."""
    return _avg_pool(1, input, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


def avg_pool2d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    """The mean of each window of (N, C, H, W) or (C, H, W)."""
    return _avg_pool(2, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def avg_pool3d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    """The mean of each window of (N, C, D, H, W) or (C, D, H, W)."""
    return _avg_pool(3, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def _lp_pool(axes: int, input: Any, norm_type: float, kernel_size: Any, stride: Any, ceil_mode: bool) -> Any:
    """(sum of x^p)^(1/p), the sum being the mean times the size of a whole window."""
    kernel = per_axis(f"lp_pool{axes}d", "kernel_size", kernel_size, axes)
    size = 1
    for n in kernel:
        size *= n
    mean = _avg_pool(axes, input**norm_type, kernel, stride, 0, ceil_mode, True, None, f"lp_pool{axes}d")
    return (ops.sign(mean) * ops.relu(ops.abs(mean)) * float(size)) ** (1.0 / norm_type)


def lp_pool1d(input: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Any:
    """The p-norm of each window, p being `norm_type`."""
    return _lp_pool(1, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(input: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Any:
    """The p-norm of each window, p being `norm_type`."""
    return _lp_pool(2, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool3d(input: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Any:
    """The p-norm of each window, p being `norm_type`."""
    return _lp_pool(3, input, norm_type, kernel_size, stride, ceil_mode)


# ----- as many windows as wanted -------------------------------------------------------------------------------------


def _sizes(name: str, axes: int, x: Any, output_size: Any) -> Shape:
    shape = tuple(x.shape)
    if 0 in shape[1:]:
        raise RuntimeError(f"{name}(): Expected input to have non-zero size for non-batch dimensions, but input has sizes {list(shape)}.")
    given = tuple(output_size) if isinstance(output_size, (tuple, list)) else (output_size,) * axes
    if len(given) != axes:
        raise RuntimeError(f"{name}: output_size must be {axes} numbers, and is {output_size}. None stands for the size of the input.")
    sizes = tuple(n if wanted is None else int(wanted) for n, wanted in zip(shape[2:], given, strict=True))
    if min(sizes) < 0:
        raise RuntimeError(f"{name}: elements of output_size must be greater than or equal to 0 but received {sizes}.")
    return sizes


def _adaptive_max(axes: int, input: Any, output_size: Any, return_indices: bool) -> Any:
    name = f"adaptive_max_pool{axes}d"
    x, batched = with_batch(name, input, axes)
    out, indices = pooling_ops.adaptive_max_pool(x, sizes=_sizes(name, axes, x, output_size))
    out = without_batch(out, batched)
    return (out, without_batch(indices, batched)) if return_indices else out


def _adaptive_avg(axes: int, input: Any, output_size: Any) -> Any:
    name = f"adaptive_avg_pool{axes}d"
    x, batched = with_batch(name, input, axes)
    sizes = _sizes(name, axes, x, output_size)
    if all(n == 1 for n in sizes):  # one window over everything is a mean
        return without_batch(ops.mean(x, dim=tuple(range(2, axes + 2)), keepdim=True), batched)
    return without_batch(pooling_ops.adaptive_avg_pool.eager(x, sizes=sizes), batched)


def adaptive_max_pool1d(input: Any, output_size: Any, return_indices: bool = False) -> Any:
    """The largest elements of `output_size` windows that cover the axis."""
    return _adaptive_max(1, input, output_size, return_indices)


def adaptive_max_pool2d(input: Any, output_size: Any, return_indices: bool = False) -> Any:
    """The largest elements of as many windows as `output_size` says, for each axis."""
    return _adaptive_max(2, input, output_size, return_indices)


def adaptive_max_pool3d(input: Any, output_size: Any, return_indices: bool = False) -> Any:
    """The largest elements of as many windows as `output_size` says, for each axis."""
    return _adaptive_max(3, input, output_size, return_indices)


def adaptive_max_pool1d_with_indices(input: Any, output_size: Any, return_indices: bool = False) -> Any:
    """adaptive_max_pool1d with the places of the maxima."""
    return _adaptive_max(1, input, output_size, True)


def adaptive_max_pool2d_with_indices(input: Any, output_size: Any, return_indices: bool = False) -> Any:
    """adaptive_max_pool2d with the places of the maxima."""
    return _adaptive_max(2, input, output_size, True)


def adaptive_max_pool3d_with_indices(input: Any, output_size: Any, return_indices: bool = False) -> Any:
    """adaptive_max_pool3d with the places of the maxima."""
    return _adaptive_max(3, input, output_size, True)


def adaptive_avg_pool1d(input: Any, output_size: Any) -> Any:
    """The means of `output_size` windows that cover the axis."""
    return _adaptive_avg(1, input, output_size)


def adaptive_avg_pool2d(input: Any, output_size: Any) -> Any:
    """The means of as many windows as `output_size` says, for each axis; None keeps an axis."""
    return _adaptive_avg(2, input, output_size)


def adaptive_avg_pool3d(input: Any, output_size: Any) -> Any:
    """The means of as many windows as `output_size` says, for each axis; None keeps an axis."""
    return _adaptive_avg(3, input, output_size)
