"""Convolution of NumPy arrays and its two adjoints, in any number of spatial dimensions.

A convolution is a matrix product of the weight with the patches of the input. What shaped this file is where such a
product spends its time in NumPy: copying the patches out takes a tenth of it when they stay in the cache, and the
rest depends on BLAS being called with the right sizes. OpenBLAS computes a product of fewer than 2**19
multiplications on the calling thread, and (on recent x86) without first repacking its operands, at 110 of some 115
possible Gflop/s a core; larger ones are repacked and shared over its own threads, which reaches 60 to 90 for
matrices as slender as ours. So everything here is cut into products below that size, one `np.matmul` call does hundreds
of them, and the batch is shared over our own threads.

Note [Windows along the first axis]. Patches repeat each input value once per tap of the kernel. Along the first spatial axis
the repetition is not needed: lay the patches out as

    (position along axis 0, taps of the other axes, channel, output positions of the other axes)

and the rows that belong to output position o (all taps, all channels) are the consecutive ones that start at
position o * stride. They form a matrix with one row stride, which BLAS takes as it is, and neighbouring outputs share
memory. A 5x5 kernel then copies its input 5 times, not 25. Where this cannot be had (one spatial axis only, a dilated
first axis) an axis of length one is put in front and takes this part, and all patches are copied.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import gcd, prod
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from . import threads

Array = NDArray[Any]

_SMALL_PRODUCT = 2**19  # multiplications; see the head of this file
_SMALL_OUTER_PRODUCT = 2**10  # entries of the result when both operands are contiguous along the contracted axis
_SCRATCH_BYTES = 2**18  # patches of one block; well inside a core's second-level cache
_WORK_PER_THREAD = 2**22  # multiplications worth waking a thread for


class Axis(NamedTuple):
    """One spatial axis: output position o and tap k read the input at o * stride + k * dilation - before."""

    size: int
    taps: int
    stride: int
    dilation: int
    before: int
    out: int

    def part(self, start: int, stop: int) -> Axis:
        """The same axis, producing only outputs start to stop."""
        return self._replace(before=self.before - start * self.stride, out=stop - start)

    def reads(self, tap: int) -> tuple[slice, slice]:
        """The outputs for which a tap falls inside the input, and the inputs that they read."""
        offset = tap * self.dilation - self.before
        first = max(0, -(offset // self.stride))
        last = max(first, min(self.out, (self.size - 1 - offset) // self.stride + 1))
        start = first * self.stride + offset
        return slice(first, last), slice(start, start + (last - first) * self.stride, self.stride)


_UNIT = Axis(size=1, taps=1, stride=1, dilation=1, before=0, out=1)


# ----- the three functions -----


def conv(
    x: Array, w: Array, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int], groups: int = 1
) -> Array:
    """Cross-correlate x (N, C, *S) with w (M, C / groups, *K), giving (N, M, *O).

    >>> conv(np.arange(5.0).reshape(1, 1, 5), np.ones((1, 1, 3)), (1,), (0,), (1,))
    array([[[3., 6., 9.]]])
    """
    axes = _axes(x.shape, w.shape, stride, padding, dilation, groups)
    dtype = np.result_type(x, w)
    out = np.empty((x.shape[0], w.shape[0], *(axis.out for axis in axes)), _computing_dtype(dtype))
    _correlate(_grouped(x, groups, out.dtype), _grouped_weight(w, groups, out.dtype), axes, _split(out, 1, groups))
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
    """The adjoint of `conv` in x: g (N, M, *O) and w (M, C / groups, *K) give (N, C, *S).

    With all strides 1 this is the correlation of g with the flipped weight. Otherwise the inputs fall into
    residue classes modulo the strides: output o reads input q through tap k where o * s + k * d - p = q, so the
    taps that touch the class r are those with k * d = r + p (mod s), and within one class the relation between q
    and o is again that of a correlation with stride 1. Each class is one correlation with the taps that belong to
    it; nothing is multiplied by zero and nothing is scattered.

    >>> conv_input_grad(np.ones((1, 1, 3)), np.array([[[1.0, 10.0, 100.0]]]), (1, 1, 5), (1,), (0,), (1,))
    array([[[  1.,  11., 111., 110., 100.]]])
    """
    axes = _axes(x_shape, w.shape, stride, padding, dilation, groups)
    _require_gradient_shape(g, x_shape, w.shape, axes)
    dtype = np.result_type(g, w)
    grad = np.zeros(tuple(x_shape), _computing_dtype(dtype))
    g_grouped = _grouped(g, groups, grad.dtype)
    # (G, M / G, C / G, *K) -> (G, C / G, M / G, *K): inputs and outputs change places.
    w_transposed = _grouped_weight(w, groups, grad.dtype).swapaxes(1, 2)
    grad_grouped = _split(grad, 1, groups)
    if all(axis.stride > 1 and axis.stride >= axis.taps for axis in axes) and max(axis.taps for axis in axes) > 1:
        _scatter(g_grouped, w_transposed, axes, grad_grouped)
        return grad.astype(dtype, copy=False)
    for classes in product(*(list(_residue_classes(axis)) for axis in axes)):
        _correlate(
            g_grouped,
            w_transposed[(..., *(taps for taps, _, _ in classes))],
            [inner for _, inner, _ in classes],
            grad_grouped[(..., *(where for _, _, where in classes))],
        )
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
    """The adjoint of `conv` in w: g (N, M, *O) and x (N, C, *S) give (M, C / groups, *K).

    >>> conv_weight_grad(np.ones((1, 1, 3)), np.arange(5.0).reshape(1, 1, 5), (1, 1, 3), (1,), (0,), (1,))
    array([[[3., 6., 9.]]])
    """
    axes = _axes(x.shape, w_shape, stride, padding, dilation, groups)
    _require_gradient_shape(g, x.shape, w_shape, axes)
    dtype = np.result_type(g, x)
    computing = _computing_dtype(dtype)
    grad = _correlate_weight(_grouped(g, groups, computing), _grouped(x, groups, computing), axes)
    return grad.reshape(tuple(w_shape)).astype(dtype, copy=False)


# ----- shapes -----


def _axes(
    x_shape: Sequence[int],
    w_shape: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> list[Axis]:
    ndim = len(w_shape) - 2
    if ndim < 1 or len(x_shape) != ndim + 2 or not len(stride) == len(padding) == len(dilation) == ndim:
        raise ValueError(
            f"convolution of an input of shape {tuple(x_shape)} with a weight of shape {tuple(w_shape)}, stride "
            f"{tuple(stride)}, padding {tuple(padding)} and dilation {tuple(dilation)}: the numbers of dimensions do not "
            "fit. Give an input (N, C, *spatial), a weight (M, C / groups, *kernel) and one setting per spatial axis."
        )
    if groups < 1 or w_shape[0] % groups or x_shape[1] != w_shape[1] * groups:
        raise ValueError(
            f"convolution of an input of shape {tuple(x_shape)} with a weight of shape {tuple(w_shape)} in {groups} "
            f"groups: the weight expects {w_shape[1] * groups} channels and its {w_shape[0]} outputs have to fall "
            "into equal groups. Change the weight's first two sizes or the number of groups."
        )
    if min(*stride, *dilation) < 1:
        raise ValueError(
            f"convolution with stride {tuple(stride)} and dilation {tuple(dilation)}: both have to be at least 1. "
            "Use 1 for an ordinary convolution."
        )
    axes = []
    for size, taps, step, pad, spread in zip(x_shape[2:], w_shape[2:], stride, padding, dilation, strict=True):
        reach = spread * (taps - 1) + 1
        if taps < 1 or size + 2 * pad < reach:
            raise ValueError(
                f"convolution of an input of shape {tuple(x_shape)} with a weight of shape {tuple(w_shape)}: a kernel "
                f"of {taps} taps spans {reach} positions, but the padded input has {size + 2 * pad}. "
                "Use a larger input, more padding or a smaller kernel."
            )
        axes.append(Axis(size, taps, step, spread, pad, (size + 2 * pad - reach) // step + 1))
    return axes


def _require_gradient_shape(g: Array, x_shape: Sequence[int], w_shape: Sequence[int], axes: list[Axis]) -> None:
    expected = (x_shape[0], w_shape[0], *(axis.out for axis in axes))
    if g.shape != expected:
        raise ValueError(
            f"adjoint of a convolution of an input of shape {tuple(x_shape)} with a weight of shape {tuple(w_shape)}: the "
            f"cotangent has shape {g.shape}, the output {expected}. Pass a cotangent of the output's shape."
        )


def _computing_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Sixteen-bit floats are summed in float32: BLAS has no products for them, and they would lose most digits."""
    return np.dtype(np.float32) if dtype.itemsize == 2 and dtype.kind not in "iu" else dtype


def _split(array: Array, axis: int, groups: int) -> Array:
    shape = array.shape
    return array.reshape(*shape[:axis], groups, shape[axis] // groups, *shape[axis + 1 :])


def _grouped(x: Array, groups: int, dtype: np.dtype[Any]) -> Array:
    """(N, C, *S) as (N, G, C / G, *S)."""
    return _split(x.astype(dtype, copy=False), 1, groups)


def _grouped_weight(w: Array, groups: int, dtype: np.dtype[Any]) -> Array:
    """(M, C / G, *K) as (G, M / G, C / G, *K)."""
    return _split(w.astype(dtype, copy=False), 0, groups)


def _residue_classes(axis: Axis) -> Iterator[tuple[slice, Axis, slice]]:
    """For each class r of input positions r, r + s, ...: its taps in reverse, its correlation over g, its positions.

    The taps of class r are first + m * step for m = 0 .. count - 1 where step = s / gcd(s, d). Input q = r + s * t is reached
    through tap m from output o = t + shift - m * d', with d' = d / gcd(s, d) and shift = (r + p - first * d) / s.
    Counting the taps backwards, m = count - 1 - j, gives o = t + j * d' - ((count - 1) * d' - shift), which is an
    Axis with stride 1, dilation d' and before = (count - 1) * d' - shift.
    """
    common = gcd(axis.stride, axis.dilation)
    step, spread = axis.stride // common, axis.dilation // common
    for residue in range(min(axis.stride, axis.size)):
        reached = [k for k in range(min(step, axis.taps)) if (residue + axis.before - k * axis.dilation) % axis.stride == 0]
        if not reached:
            continue  # no output reads these inputs: their gradient stays zero
        first = reached[0]
        count = len(range(first, axis.taps, step))
        shift = (residue + axis.before - first * axis.dilation) // axis.stride
        positions = len(range(residue, axis.size, axis.stride))
        last = first + (count - 1) * step
        taps = slice(last, first - step if first >= step else None, -step)
        inner = Axis(axis.out, count, 1, spread, (count - 1) * spread - shift, positions)
        yield taps, inner, slice(residue, None, axis.stride)


# ----- products that stay below BLAS's thresholds -----


def _matmul(a: Array, b: Array, out: Array, *, rows: int, columns: int) -> None:
    """out = a @ b in tiles of the given size; a tile is a batch entry of one np.matmul call, remainders are calls of their own."""
    m, n = out.shape[-2:]
    for i, rows_here in _tiles(m, rows):
        a_tiles = a[..., i, :].reshape(*a.shape[:-2], -1, 1, rows_here, a.shape[-1])
        for j, columns_here in _tiles(n, columns):
            b_part, out_part = b[..., j], out[..., i, j]
            b_tiles = b_part.reshape(*b_part.shape[:-1], -1, columns_here).swapaxes(-3, -2)[..., None, :, :, :]
            out_tiles = out_part.reshape(*out.shape[:-2], a_tiles.shape[-4], rows_here, b_tiles.shape[-3], columns_here)
            np.matmul(a_tiles, b_tiles, out=out_tiles.swapaxes(-3, -2))


def _tiles(size: int, tile: int) -> Iterator[tuple[slice, int]]:
    whole = size // tile * tile
    if whole:
        yield slice(0, whole), tile
    if whole < size:
        yield slice(whole, size), size - whole


def _tile_of_product(m: int, k: int, n: int) -> tuple[int, int]:
    """Rows and columns of a tile of (m, k) @ (k, n): wide ones keep the vector unit full, 8 rows reuse what is loaded."""
    columns = min(n, 64)
    while columns > 16 and 8 * k * columns > _SMALL_PRODUCT:
        columns = max(16, columns // 2)
    rows = min(m, max(8, _SMALL_PRODUCT // (k * columns) // 8 * 8))
    return rows, columns


def _tile_of_outer_product(m: int, k: int, n: int) -> tuple[int, int]:
    """The same where b is stored transposed: BLAS then goes without repacking only for a small result."""
    area = max(1, min(_SMALL_OUTER_PRODUCT, _SMALL_PRODUCT // k))
    rows = min(m, max(16, area // max(16, n)))
    return rows, min(n, max(1, area // rows))


# ----- the correlation -----


def _correlate(x: Array, w: Array, axes: list[Axis], out: Array) -> None:
    """out (N, G, M, *O) = correlation of x (N, G, C, *S) with w (G, M, C, *K); out may have any strides."""
    if out.size == 0:
        return
    if x.size == 0:
        out[...] = 0
        return
    pointwise = all(axis == Axis(axis.size, 1, 1, axis.dilation, 0, axis.size) for axis in axes)
    if pointwise and out.flags.c_contiguous:
        _correlate_pointwise(x, w, out)
        return
    per_position = prod(axis.out for axis in axes[1:])
    if len(axes) == 1 or (axes[0].dilation > 1 and axes[0].taps > 1) or per_position * len(x) < 16:
        axes = [_UNIT, *axes]
        x, w, out = x[:, :, :, None], w[:, :, :, None], out[:, :, :, None]
    _correlate_by_windows(x, w, axes, out)


def _correlate_pointwise(x: Array, w: Array, out: Array) -> None:
    """A kernel of one tap mixes channels only: the input itself is the matrix of patches."""
    batch, groups, channels = x.shape[:3]
    outputs = w.shape[1]
    positions = prod(x.shape[3:])
    patches = x.reshape(batch, groups, channels, positions)
    weight = w.reshape(groups, outputs, channels)
    flat = out.reshape(batch, groups, outputs, positions)
    rows, columns = _tile_of_product(outputs, channels, positions)

    def worker(blocks: Iterator[slice]) -> None:
        for block in blocks:
            _matmul(weight, patches[block], flat[block], rows=rows, columns=columns)

    work = flat.size * channels
    per_block = max(1, batch * _WORK_PER_THREAD // (4 * work))
    blocks = [slice(start, start + per_block) for start in range(0, batch, per_block)]
    threads.share(blocks, worker, threads=work // _WORK_PER_THREAD)


def _correlate_by_windows(x: Array, w: Array, axes: list[Axis], out: Array) -> None:
    """See Note [Windows along the first axis]; the first of `axes` is the one that is windowed.

    When a position of that axis holds few outputs (or `out` cannot be handed to BLAS), several samples lie side by
    side in the columns and the result is copied to its place; otherwise BLAS writes there directly.
    """
    batch, groups, channels = x.shape[:3]
    outputs = w.shape[1]
    itemsize = out.itemsize
    other_taps = [axis.taps for axis in axes[1:]]
    depth = axes[0].taps * prod(other_taps) * channels
    # (G, M, C, *K) -> (G, 1, M, (*K, C)), the order of the rows of the patches.
    weight = np.moveaxis(w, 2, -1).reshape(groups, 1, outputs, depth)
    side_by_side = prod(axis.out for axis in axes[1:]) < 14 or not out.flags.c_contiguous

    def worker(blocks: Iterator[tuple[list[Axis], int | None, Array, Array]]) -> None:
        patches = np.empty(0, out.dtype)
        for part, cut, x_part, out_part in blocks:
            samples = len(x_part)
            first = part[0]
            span = (first.out - 1) * first.stride + first.taps
            other_out = [axis.out for axis in part[1:]]
            columns = prod(other_out)
            shape: tuple[int, ...]
            if side_by_side:
                shape = (groups, span, *other_taps, channels, samples, *other_out)
                columns *= samples
            else:
                shape = (samples, groups, span, *other_taps, channels, *other_out)
            if patches.shape != shape:
                patches = np.zeros(shape, out.dtype)
            by_sample = np.moveaxis(patches, -1 - len(other_out), 0) if side_by_side else patches
            _fill(by_sample, x_part, part, cut)
            row = columns * itemsize
            position = prod(other_taps) * channels * row
            windows = as_strided(
                patches,
                (*shape[: 1 if side_by_side else 2], first.out, depth, columns),
                (*patches.strides[: 1 if side_by_side else 2], first.stride * position, row, itemsize),
            )
            tile_rows, tile_columns = _tile_of_product(outputs, depth, columns)
            if side_by_side:
                result = np.empty((groups, first.out, outputs, columns), out.dtype)
                _matmul(weight, windows, result, rows=tile_rows, columns=tile_columns)
                result = result.reshape(groups, first.out, outputs, samples, *other_out)
                out_part[...] = result.transpose(3, 0, 2, 1, *range(4, result.ndim))
            else:
                place = out_part.reshape(samples, groups, outputs, first.out, columns).swapaxes(2, 3)
                _matmul(weight, windows, place, rows=tile_rows, columns=tile_columns)

    bytes_per_sample = groups * channels * itemsize * prod(other_taps) * prod(axis.out for axis in axes[1:])
    bytes_per_sample *= (axes[0].out - 1) * axes[0].stride + axes[0].taps
    work = out.size * depth
    blocks = list(_blocks(axes, x, out, bytes_per_sample))
    threads.share(blocks, worker, threads=work // _WORK_PER_THREAD)


def _blocks(
    axes: list[Axis], x: Array, out: Array, bytes_per_sample: int
) -> Iterator[tuple[list[Axis], int | None, Array, Array]]:
    """Cut a correlation into blocks of samples, and of positions where one sample is too much for the cache.

    Each block comes as its axes, the axis along which they were cut, its inputs and its outputs.
    """
    along = 1 if axes[0].out == 1 and len(axes) > 1 else 0
    length = axes[along].out
    samples = max(1, _SCRATCH_BYTES // bytes_per_sample)
    positions = length if samples > 1 else max(1, length * _SCRATCH_BYTES // bytes_per_sample)
    positions = -(-length // -(-length // positions))
    cut = along if positions < length else None
    for n in range(0, len(x), samples):
        batch = slice(n, n + samples)
        for start in range(0, length, positions):
            stop = min(start + positions, length)
            part = [*axes[:along], axes[along].part(start, stop), *axes[along + 1 :]]
            yield part, cut, x[batch], out[(batch, *[slice(None)] * (2 + along), slice(start, stop))]


def _fill(patches: Array, x: Array, axes: list[Axis], cut: int | None) -> None:
    """Copy x (N, G, C, *S) into patches (N, G, positions along axis 0, *other taps, C, *other outputs).

    The patches were zero when they were made, and where the padding lies stays zero from block to block, except along
    the axis that was cut into blocks.
    """
    first, others = axes[0], axes[1:]
    span = patches.shape[2]
    # Along the first axis the patches hold input positions as they come: one tap, stride 1.
    here, there = first._replace(taps=1, stride=1, dilation=1, out=span).reads(0)
    if cut == 0:
        _clear_outside(patches, 2, here)
    source = np.moveaxis(x, 2, 3)[:, :, there]
    target = patches[:, :, here]
    for taps in product(*(range(axis.taps) for axis in others)):
        outputs, inputs = zip(*(axis.reads(tap) for axis, tap in zip(others, taps, strict=True)), strict=True)
        one_tap = target[(slice(None), slice(None), slice(None), *taps)]
        if cut == 1:
            _clear_outside(one_tap, 4, outputs[0])
        one_tap[(..., *outputs)] = source[(..., *inputs)]


def _clear_outside(array: Array, axis: int, kept: slice) -> None:
    """Zero what lies in the padding."""
    for outside in (slice(0, kept.start), slice(kept.stop, array.shape[axis])):
        if outside.start < outside.stop:
            array[(*[slice(None)] * axis, outside)] = 0


# ----- the adjoint in the input where patches do not overlap -----


def _scatter(g: Array, w: Array, axes: list[Axis], grad: Array) -> None:
    """grad = patches w^T g put back in place, one assignment per tap: with stride >= taps no two patches overlap."""
    raise NotImplementedError


# ----- the adjoint in the weight -----


def _correlate_weight(g: Array, x: Array, axes: list[Axis]) -> Array:
    raise NotImplementedError
