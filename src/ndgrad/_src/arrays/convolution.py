"""Convolution of NumPy arrays and its two adjoints, in any number of spatial dimensions.

Convolution is linear in the input and in the weight, so three functions are closed under differentiation: `conv`, and
its adjoint in either argument. Native kernels compute all three if available. Otherwise all three reduce to a few
independent NumPy kernels (`correlation`, `depthwise`). This file checks shapes, rewrites the adjoint in the input as
correlations, and chooses a kernel. No function conjugates: a rule for complex arrays conjugates its arguments.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from itertools import product
from math import gcd
from typing import Any

import numpy as np

from ndgrad._src.arrays import native_kernels
from ndgrad._src.arrays.correlation import (
    Array,
    Axes,
    Axis,
    correlate_by_windows,
    correlate_pointwise,
    correlate_weight,
    scatter_patches,
)
from ndgrad._src.arrays.depthwise import correlate_depthwise, correlate_weight_depthwise
from ndgrad._src.arrays.precision import computing_dtype

# ----- the three functions -----


def conv(
    x: Array,
    w: Array,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int = 1,
) -> Array:
    """Cross-correlate x (N, C, *S) with w (M, C / groups, *K), giving (N, M, *O).

    >>> conv(np.arange(5.0).reshape(1, 1, 5), np.ones((1, 1, 3)), (1,), (0,), (1,))
    array([[[3., 6., 9.]]])
    """
    axes = axes_of(x.shape, w.shape, stride, padding, dilation, groups)
    kernels = _native(x, w)
    if kernels is not None:
        return kernels.conv(native_kernels.dense(x), native_kernels.dense(w), stride, padding, dilation, groups)
    dtype = np.result_type(x, w)
    out = np.empty((x.shape[0], w.shape[0], *(axis.out for axis in axes)), computing_dtype(dtype))
    _correlate(_group(x, 1, groups, out.dtype), _group(w, 0, groups, out.dtype), axes, _split(out, 1, groups))
    return out.astype(dtype, copy=False)


def conv_input_grad(
    g: Array,
    w: Array,
    x_shape: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int = 1,
) -> Array:
    """Return the adjoint of `conv` in x: g (N, M, *O) and w (M, C / groups, *K) give (N, C, *S).

    With all strides 1 this is the correlation of g with the flipped weight. Otherwise the inputs form residue classes
    modulo the strides. Output o reads input q through tap k if o * s + k * d - p = q, so the taps of class r are those
    with k * d = r + p (mod s). Within a class q and o are related as in a correlation with stride 1. Each class is one
    correlation with its own taps, without multiplications by zero and without sums of overlapping results.

    >>> conv_input_grad(np.ones((1, 1, 3)), np.array([[[1.0, 10.0, 100.0]]]), (1, 1, 5), (1,), (0,), (1,))
    array([[[  1.,  11., 111., 110., 100.]]])
    """
    axes = axes_of(x_shape, w.shape, stride, padding, dilation, groups)
    require_output_shape(g, x_shape, w.shape, axes)
    kernels = _native(g, w)
    if kernels is not None:
        return kernels.conv_input_grad(
            native_kernels.dense(g), native_kernels.dense(w), x_shape, stride, padding, dilation, groups
        )
    dtype = np.result_type(g, w)
    grad = np.zeros(tuple(x_shape), computing_dtype(dtype))
    g_grouped = _group(g, 1, groups, grad.dtype)
    grad_grouped = _split(grad, 1, groups)
    # (G, M / G, C / G, *K) -> (G, C / G, M / G, *K): inputs and outputs are exchanged.
    transposed = _group(w, 0, groups, grad.dtype).swapaxes(1, 2)
    apart = all(axis.stride >= axis.reach for axis in axes) and any(axis.taps > 1 for axis in axes)
    if apart and g.size and grad.size:
        scatter_patches(g_grouped, transposed, axes, grad_grouped)
        return grad.astype(dtype, copy=False)
    for classes in product(*(list(_residue_classes(axis)) for axis in axes)):
        taps: tuple[Any, ...] = (..., *(taps for taps, _, _ in classes))
        where: tuple[Any, ...] = (..., *(where for _, _, where in classes))
        _correlate(g_grouped, transposed[taps], tuple(inner for _, inner, _ in classes), grad_grouped[where])
    return grad.astype(dtype, copy=False)


def conv_weight_grad(
    g: Array,
    x: Array,
    w_shape: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int = 1,
) -> Array:
    """Return the adjoint of `conv` in w: g (N, M, *O) and x (N, C, *S) give (M, C / groups, *K).

    >>> conv_weight_grad(np.ones((1, 1, 3)), np.arange(5.0).reshape(1, 1, 5), (1, 1, 3), (1,), (0,), (1,))
    array([[[3., 6., 9.]]])
    """
    axes = axes_of(x.shape, w_shape, stride, padding, dilation, groups)
    require_output_shape(g, x.shape, w_shape, axes)
    kernels = _native(g, x)
    if kernels is not None:
        return kernels.conv_weight_grad(
            native_kernels.dense(g), native_kernels.dense(x), w_shape, stride, padding, dilation, groups
        )
    dtype = np.result_type(g, x)
    computing = computing_dtype(dtype)
    if g.size == 0 or x.size == 0:
        return np.zeros(tuple(w_shape), dtype)
    g_grouped, x_grouped = _group(g, 1, groups, computing), _group(x, 1, groups, computing)
    kernel = correlate_weight_depthwise if _is_depthwise(w_shape, groups) else correlate_weight
    return kernel(g_grouped, x_grouped, axes).reshape(tuple(w_shape)).astype(dtype, copy=False)


# ----- choice of the kernel -----


def _native(x: Array, y: Array) -> Any:
    """Return the native kernels for a convolution of these arrays, of any size, or None."""
    if x.dtype != y.dtype or not native_kernels.has_kernels(x.dtype) or x.ndim > 5 or not (x.size and y.size):
        return None
    kernels = native_kernels.kernels()
    return kernels.convolutions(x.dtype) if kernels is not None else None


def _correlate(x: Array, w: Array, axes: Axes, out: Array) -> None:
    """Write the correlation of x (N, G, C, *S) with w (G, M, C, *K) to out (N, G, M, *O), which may have any
    strides.
    """
    if out.size == 0:
        return
    if x.size == 0:
        out[...] = 0
    elif out.flags.c_contiguous and all(axis[1:] == (1, 1, axis.dilation, 0, axis.size) for axis in axes):
        correlate_pointwise(x, w, out)
    elif w.shape[2] == 1 and w.shape[1] < _MANY_OUTPUTS:
        correlate_depthwise(x, w, axes, out)
    else:
        correlate_by_windows(x, w, axes, out)


_MANY_OUTPUTS = 4  # outputs per input channel from which a product has enough rows for tiles


def _is_depthwise(w_shape: Sequence[int], groups: int) -> bool:
    return w_shape[1] == 1 and w_shape[0] // groups < _MANY_OUTPUTS


def _residue_classes(axis: Axis) -> Iterator[tuple[slice, Axis, slice]]:
    """Yield, for each class r of inputs r, r + s, ...: its taps in reverse, its correlation over g, its positions.

    The taps of class r are first + m * step for m = 0 .. count - 1, where step = s / gcd(s, d). Input q = r + s * t is
    reached through tap m from output o = t + shift - m * d', with d' = d / gcd(s, d) and shift = (r + p - first * d) /
    s. Counting the taps backwards, m = count - 1 - j, gives o = t + j * d' - ((count - 1) * d' - shift): an Axis with
    stride 1, dilation d' and before = (count - 1) * d' - shift.
    """
    common = gcd(axis.stride, axis.dilation)
    step, spread = axis.stride // common, axis.dilation // common
    for residue in range(min(axis.stride, axis.size)):
        offset = residue + axis.before
        reached = [k for k in range(min(step, axis.taps)) if (offset - k * axis.dilation) % axis.stride == 0]
        if not reached:
            continue  # no output reads these inputs, so their gradient stays zero
        first = reached[0]
        count = len(range(first, axis.taps, step))
        before = (count - 1) * spread - (offset - first * axis.dilation) // axis.stride
        positions = len(range(residue, axis.size, axis.stride))
        # From the last tap down to `first`, which is below `step`. The stop is None, because -1 would mean the end.
        taps = slice(first + (count - 1) * step, None, -step)
        yield taps, Axis(axis.out, count, 1, spread, before, positions), slice(residue, None, axis.stride)


# ----- shapes -----


def axes_of(
    x_shape: Sequence[int],
    w_shape: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Axes:
    """Return the spatial axes of a convolution, after checking them."""
    return _axes_of(*map(tuple, (x_shape, w_shape, stride, padding, dilation)), groups)


@functools.lru_cache(maxsize=1024)
def _axes_of(
    x_shape: tuple[int, ...],
    w_shape: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
) -> Axes:
    ndim = len(w_shape) - 2
    if ndim < 1 or len(x_shape) != ndim + 2 or not len(stride) == len(padding) == len(dilation) == ndim:
        raise ValueError(
            f"{_title(x_shape, w_shape)}, stride {tuple(stride)}, padding {tuple(padding)} and dilation "
            f"{tuple(dilation)}: the numbers of dimensions do not fit. Give an input (N, C, *spatial), a weight (M, "
            "C / groups, *kernel) and one setting for each spatial axis. [nd-window]"
        )
    if groups < 1 or w_shape[0] % groups or x_shape[1] != w_shape[1] * groups:
        raise ValueError(
            f"{_title(x_shape, w_shape)} in {groups} groups: the weight expects {w_shape[1] * groups} channels, "
            f"and its {w_shape[0]} outputs have to fall into equal groups. Change the weight's first two sizes "
            "or the number of groups. [nd-window]"
        )
    if min(*stride, *dilation) < 1:
        raise ValueError(
            f"{_title(x_shape, w_shape)}: stride {tuple(stride)} and dilation {tuple(dilation)} have to be at least 1. "
            "Use 1 for an ordinary convolution. [nd-window]"
        )
    axes = []
    settings = zip(x_shape[2:], w_shape[2:], stride, padding, dilation, strict=True)
    for size, taps, step, pad, spread in settings:
        axis = Axis(size, taps, step, spread, pad, 0)
        slack = size + 2 * pad - axis.reach
        if taps < 1 or slack < 0:
            raise ValueError(
                f"{_title(x_shape, w_shape)}: a kernel of {taps} taps spans {axis.reach} positions, "
                f"but the padded input has {size + 2 * pad}. Use a larger input, more padding or a smaller kernel. "
                "[nd-window]"
            )
        axes.append(axis._replace(out=slack // step + 1))
    return tuple(axes)


def _title(x_shape: Sequence[int], w_shape: Sequence[int]) -> str:
    return f"convolution of an input of shape {tuple(x_shape)} with a weight of shape {tuple(w_shape)}"


def require_output_shape(g: Array, x_shape: Sequence[int], w_shape: Sequence[int], axes: Axes) -> None:
    expected = (x_shape[0], w_shape[0], *(axis.out for axis in axes))
    if g.shape != expected:
        raise ValueError(
            f"adjoint of a convolution of an input of shape {tuple(x_shape)} with a weight of shape {tuple(w_shape)}: "
            f"the cotangent has shape {g.shape}, the output {expected}. Pass a cotangent of the output's shape. "
            "[nd-grad-mismatch]"
        )


def _split(array: Array, axis: int, groups: int) -> Array:
    shape = array.shape
    return array.reshape(*shape[:axis], groups, shape[axis] // groups, *shape[axis + 1 :])


def _group(array: Array, axis: int, groups: int, dtype: np.dtype[Any]) -> Array:
    """Make the groups a separate axis: (N, C, *S) as (N, G, C / G, *S), (M, C, *K) as (G, M / G, C, *K)."""
    return _split(array.astype(dtype, copy=False), axis, groups)
