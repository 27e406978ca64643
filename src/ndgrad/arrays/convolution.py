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
from functools import lru_cache
from itertools import product
from math import gcd, prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from . import threads

Array = NDArray[Any]
Index = tuple[int | slice, ...]

_SMALL_PRODUCT = 2**19  # multiplications; see the head of this file
_SMALL_OUTER_PRODUCT = 2**10  # entries of the result when both operands are contiguous along the contracted axis
_SCRATCH_BYTES = 2**20  # patches of one block: about a core's second-level cache
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


Axes = tuple[Axis, ...]

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
    if all(axis.stride >= (axis.taps - 1) * axis.dilation + 1 for axis in axes) and prod(axis.taps for axis in axes) > 1:
        _scatter_patches(g_grouped, w_transposed, axes, grad_grouped)
        return grad.astype(dtype, copy=False)
    for classes in product(*(list(_residue_classes(axis)) for axis in axes)):
        _correlate(
            g_grouped,
            w_transposed[(..., *(taps for taps, _, _ in classes))],
            tuple(inner for _, inner, _ in classes),
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
) -> Axes:
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
    return tuple(axes)


def _require_gradient_shape(g: Array, x_shape: Sequence[int], w_shape: Sequence[int], axes: Axes) -> None:
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


def _matmul_deep(a: Array, b: Array, out: Array) -> None:
    """out = a @ b where the contracted axis is the rows of b; where it is long, the sum of a few shorter products."""
    depth = a.shape[-1]
    pieces = -(-depth // 1024)  # 1024 leaves room for tiles of 64 columns and 8 rows
    rows, columns = _tile_of_product(out.shape[-2], -(-depth // pieces), out.shape[-1])
    _matmul(a[..., : depth // pieces], b[..., : depth // pieces, :], out, rows=rows, columns=columns)
    for piece in range(1, pieces):
        part = slice(piece * depth // pieces, (piece + 1) * depth // pieces)
        more = np.empty_like(out)
        _matmul(a[..., part], b[..., part, :], more, rows=rows, columns=columns)
        out += more


def _tiles(size: int, tile: int) -> Iterator[tuple[slice, int]]:
    whole = size // tile * tile
    if whole:
        yield slice(0, whole), tile
    if whole < size:
        yield slice(whole, size), size - whole


def _tile_of_product(m: int, k: int, n: int) -> tuple[int, int]:
    """Rows and columns of a tile of (m, k) @ (k, n): wide ones keep the vector unit full, 8 rows reuse what is loaded."""
    columns = min(n, 64)
    return min(m, max(8, _SMALL_PRODUCT // (k * columns) // 8 * 8)), columns


def _tile_of_outer_product(m: int, k: int, n: int) -> tuple[int, int]:
    """The same where b is stored transposed: BLAS then goes without repacking only for a small result."""
    rows = min(m, 32)
    return rows, min(n, max(1, min(_SMALL_OUTER_PRODUCT, _SMALL_PRODUCT // k) // rows))


# ----- blocks and patches -----


class Block(NamedTuple):
    """A part of a correlation: some samples, and some outputs along the axis that is cut where one sample is too much."""

    samples: slice
    outputs: slice
    axes: Axes


def _blocks(axes: Axes, batch: int, samples: int, cut: int, length: int) -> list[Block]:
    blocks = []
    for n in range(0, batch, samples):
        for start in range(0, axes[cut].out, length):
            stop = min(start + length, axes[cut].out)
            part = (*axes[:cut], axes[cut].part(start, stop), *axes[cut + 1 :])
            blocks.append(Block(slice(n, min(n + samples, batch)), slice(start, stop), part))
    return blocks


@lru_cache(maxsize=512)
def _copies(axes: Axes, span: int) -> list[tuple[Index, Index]]:
    """For each combination of taps of all axes but the first: where in the patches it goes, and what it reads."""
    first, others = axes[0], axes[1:]
    everything = slice(None)
    # Along the first axis positions are kept as they come: one tap, stride 1.
    here, there = first._replace(taps=1, stride=1, dilation=1, out=span).reads(0)
    copies = []
    for taps in product(*(range(axis.taps) for axis in others)):
        outputs, inputs = zip(*(axis.reads(tap) for axis, tap in zip(others, taps, strict=True)), strict=True)
        target = (everything, everything, here, *taps, everything, *outputs)
        copies.append((target, (everything, everything, there, everything, *inputs)))
    return copies


def _samples_per_block(batch: int, fitting: int, together: int, work: int) -> int:
    """As many samples as fit into the scratch memory, in multiples of `together`, but two blocks or more for each thread."""
    helpers = min(threads.max_threads, work // _WORK_PER_THREAD)
    if helpers > 1:
        fitting = min(fitting, -(-batch // (2 * helpers)))
    return min(batch, max(1, fitting // together) * together)


class _Patches:
    """Scratch memory for the patches of blocks that look alike.

    `values` has the axes N (sample), G (group), P (position along the first spatial axis), T (taps of the others), C (channel) and
    O (outputs of the others). `order` says how they lie in memory. What lies in the padding is zero from the start and is
    never written.
    """

    def __init__(self, axes: Axes, samples: int, groups: int, channels: int, dtype: np.dtype[Any], order: str) -> None:
        first, others = axes[0], axes[1:]
        span = (first.out - 1) * first.stride + (first.taps - 1) * first.dilation + 1
        sizes = {
            "N": [samples],
            "G": [groups],
            "P": [span],
            "T": [axis.taps for axis in others],
            "C": [channels],
            "O": [axis.out for axis in others],
        }
        places = {}
        count = 0
        for name in order:
            places[name] = range(count, count + len(sizes[name]))
            count += len(sizes[name])
        self.memory = np.zeros([size for name in order for size in sizes[name]], dtype)
        self.values = self.memory.transpose([place for name in "NGPTCO" for place in places[name]])
        self.axes = axes
        self.samples = samples
        self.copies = _copies(axes, span)

    def fit(self, block: Block) -> bool:
        return self.axes == block.axes and self.samples == block.samples.stop - block.samples.start

    def fill(self, x: Array) -> None:
        """Copy the values of x (N, G, C, *S)."""
        source = np.moveaxis(x, 2, 3)
        for target, inputs in self.copies:
            self.values[target] = source[inputs]

    def view(self, shape: tuple[int, ...], axes: str, steps: tuple[int, ...]) -> Array:
        """A view on the memory whose axes advance by whole steps along the named ones."""
        strides = self.values.strides
        first = {"N": 0, "G": 1, "P": 2, "C": len(strides) - len(self.axes), "O": len(strides) - 1}
        step_bytes = tuple(step * strides[first[name]] for name, step in zip(axes, steps, strict=True))
        return np.ndarray(shape, self.memory.dtype, self.memory, 0, step_bytes)


# ----- the correlation -----


def _correlate(x: Array, w: Array, axes: Axes, out: Array) -> None:
    """out (N, G, M, *O) = correlation of x (N, G, C, *S) with w (G, M, C, *K); out may have any strides.

    This is where the algorithm is chosen.
    """
    if out.size == 0:
        return
    if x.size == 0:
        out[...] = 0
        return
    if all(axis == Axis(axis.size, 1, 1, axis.dilation, 0, axis.size) for axis in axes) and out.flags.c_contiguous:
        _correlate_pointwise(x, w, out)
        return
    if w.shape[2] == 1 and w.shape[1] < 4:
        _correlate_depthwise(x, w, axes, out)
        return
    per_position = prod(axis.out for axis in axes[1:])
    if len(axes) == 1 or (axes[0].dilation > 1 and axes[0].taps > 1) or per_position * len(x) < 16:
        axes = (_UNIT, *axes)
        x, w, out = x[:, :, :, None], w[:, :, :, None], out[:, :, :, None]
    _correlate_by_windows(x, w, axes, out)


def _correlate_pointwise(x: Array, w: Array, out: Array) -> None:
    """A kernel of one tap mixes channels only: the input itself is the matrix of patches."""
    batch, groups, channels = x.shape[:3]
    outputs = w.shape[1]
    positions = prod(x.shape[3:])
    patches = x.reshape(batch, groups, channels, positions)
    weight = np.ascontiguousarray(w.reshape(groups, outputs, channels))
    flat = out.reshape(batch, groups, outputs, positions)

    def worker(blocks: Iterator[slice]) -> None:
        for block in blocks:
            _matmul_deep(weight, patches[block], flat[block])

    work = flat.size * channels
    samples = _samples_per_block(batch, batch, 1, work)
    blocks = [slice(start, start + samples) for start in range(0, batch, samples)]
    threads.share(blocks, worker, threads=work // _WORK_PER_THREAD)


def _correlate_by_windows(x: Array, w: Array, axes: Axes, out: Array) -> None:
    """See Note [Windows along the first axis]; the first of `axes` is the one that is windowed.

    The columns of the product are the outputs at one position of that axis. Where they do not fill BLAS's vector registers
    (or `out` has strides that BLAS cannot take) several samples lie side by side in the columns, and the
    result is copied to its place; otherwise BLAS writes there directly.
    """
    batch, groups, channels = x.shape[:3]
    outputs = w.shape[1]
    depth = prod(axis.taps for axis in axes) * channels
    # (G, M, C, *K) -> (G, 1, M, (*K, C)), the order of the rows of the patches.
    weight = np.ascontiguousarray(np.moveaxis(w, 2, -1).reshape(groups, 1, outputs, depth))
    positions = prod(axis.out for axis in axes[1:])
    direct = out.flags.c_contiguous and (positions >= 96 or (positions >= 32 and positions % 16 == 0) or depth < 100)

    def worker(blocks: Iterator[Block]) -> None:
        patches = None
        for block in blocks:
            first = block.axes[0]
            samples = block.samples.stop - block.samples.start
            columns = prod(axis.out for axis in block.axes[1:]) * (1 if direct else samples)
            if patches is None or not patches.fit(block):
                order = "NGPTCO" if direct else "GPTCNO"
                patches = _Patches(block.axes, samples, groups, channels, out.dtype, order)
                shape = (samples if direct else 1, groups, first.out, depth, columns)
                windows = patches.view(shape, "NGPCO", (1, 1, first.stride, 1, 1))
            patches.fill(x[block.samples])
            place = out[(block.samples, slice(None), slice(None), *[slice(None)] * cut, block.outputs)]
            if direct:
                flat = place.reshape(samples, groups, outputs, first.out, columns)
                _matmul_deep(weight, windows, flat.swapaxes(2, 3))
            else:
                result = np.empty((groups, first.out, outputs, columns), out.dtype)
                _matmul_deep(weight, windows[0], result)
                result = result.reshape(groups, first.out, outputs, samples, *place.shape[4:])
                place[...] = result.transpose(3, 0, 2, 1, *range(4, result.ndim))

    sample_bytes = groups * channels * out.itemsize * prod(axis.taps for axis in axes[1:]) * positions
    sample_bytes *= (axes[0].out - 1) * axes[0].stride + axes[0].taps
    together = 1
    if not direct:  # columns for four vector registers, without a remainder
        together = 16 // gcd(positions, 16)
        together *= -(-64 // (positions * together))
    work = out.size * depth
    samples = _samples_per_block(batch, _SCRATCH_BYTES // sample_bytes, together, work)
    cut = 1 if axes[0].out == 1 else 0
    length = max(1, min(axes[cut].out, axes[cut].out * _SCRATCH_BYTES // (samples * sample_bytes)))
    threads.share(_blocks(axes, batch, samples, cut, length), worker, threads=work // _WORK_PER_THREAD)


# ----- one input channel for each group -----


class _Planes:
    """The patches of a depthwise correlation, by long copies.

    With one channel in each group the product has a single row or few, and copying the patches is most of the work. Tap k reads the
    input at o * s + k * d - p = s * (o + k * d // s) + (k * d % s) - p: with the input split into planes by residues
    modulo s, it reads plane k * d % s, shifted by k * d // s. The rows of a plane have the pitch of the rows
    of patches (what lies beyond the end of an output row is computed and thrown away), so a shift along all axes
    is one offset, and a tap is one copy of contiguous memory.
    """

    def __init__(self, axes: Axes, samples: int, groups: int, dtype: np.dtype[Any]) -> None:
        self.shape = (samples, groups)
        self.pitches, self.taps, self.copies = _plane_geometry(axes)
        self.length = _offset([axis.out - 1 for axis in axes], self.pitches) + 1
        self.inside: Index = tuple(slice(axis.out) for axis in axes)
        strides = [axis.stride for axis in axes]
        self.planes = np.zeros((samples, groups, *strides, *self.pitches), dtype)
        self.flat = self.planes.reshape(samples, groups, prod(strides), prod(self.pitches))
        self.patches = np.empty((samples, groups, len(self.taps), self.length), dtype)

    def fill(self, x: Array) -> None:
        """Copy the values of x (N, G, 1, *S) into patches (N, G, taps, length)."""
        for target, source in self.copies:
            self.planes[target] = x[source]
        for tap, (plane, start) in enumerate(self.taps):
            self.patches[:, :, tap] = self.flat[:, :, plane, start : start + self.length]

    def outputs(self, channels: int) -> tuple[Array, Array]:
        """Zeros for outputs with the pitch of the planes: as (N, G, M, *O) and as (N, G, M, length)."""
        padded = np.zeros((*self.shape, channels, *self.pitches), self.planes.dtype)
        return padded[(..., *self.inside)], padded.reshape(*self.shape, channels, -1)[..., : self.length]


@lru_cache(maxsize=128)
def _plane_geometry(axes: Axes) -> tuple[tuple[int, ...], list[tuple[int, int]], list[tuple[Index, Index]]]:
    """The sizes of a plane; for each tap its plane and offset; for each plane where it lies and what it reads."""
    strides = [axis.stride for axis in axes]
    pitches = tuple(axis.out + (axis.taps - 1) * axis.dilation // axis.stride for axis in axes)
    offsets = []
    copies: dict[int, tuple[Index, Index]] = {}
    for taps in product(*(range(axis.taps) for axis in axes)):
        steps = [divmod(tap * axis.dilation, axis.stride) for axis, tap in zip(axes, taps, strict=True)]
        residues = [residue for _, residue in steps]
        plane = _offset(residues, strides)
        offsets.append((plane, _offset([shift for shift, _ in steps], pitches)))
        if plane not in copies:
            reads = [
                axis._replace(before=axis.before - residue, out=pitch).reads(0)
                for axis, residue, pitch in zip(axes, residues, pitches, strict=True)
            ]
            target = (slice(None), slice(None), *residues, *(here for here, _ in reads))
            copies[plane] = (target, (slice(None), slice(None), 0, *(there for _, there in reads)))
    return pitches, offsets, list(copies.values())


def _offset(index: Sequence[int], shape: Sequence[int]) -> int:
    offset = 0
    for place, size in zip(index, shape, strict=True):
        offset = offset * size + place
    return offset


def _depthwise_blocks(axes: Axes, x: Array) -> list[tuple[slice, slice]]:
    """Slices of samples and of groups."""
    batch, groups = x.shape[:2]
    group_bytes = x.itemsize * prod(axis.taps * (axis.out + axis.taps * axis.dilation // axis.stride) for axis in axes)
    groups_here = -(-groups // min(groups, -(-groups * group_bytes // _SCRATCH_BYTES)))
    samples = max(1, min(batch, _SCRATCH_BYTES // (group_bytes * groups)))
    return [
        (slice(n, min(n + samples, batch)), slice(start, min(start + groups_here, groups)))
        for n in range(0, batch, samples)
        for start in range(0, groups, groups_here)
    ]


def _correlate_depthwise(x: Array, w: Array, axes: Axes, out: Array) -> None:
    """`_correlate` for one channel in each group; see _Planes."""
    weight = np.ascontiguousarray(w.reshape(*w.shape[:2], -1))  # flipped weights reshape into views BLAS cannot take

    def worker(blocks: Iterator[tuple[slice, slice]]) -> None:
        planes = None
        for block in blocks:
            x_part = x[block]
            if planes is None or planes.shape != x_part.shape[:2]:
                planes = _Planes(axes, *x_part.shape[:2], out.dtype)
                result, flat = planes.outputs(w.shape[1])
            planes.fill(x_part)
            np.matmul(weight[block[1]], planes.patches, out=flat)
            out[block] = result

    work = 8 * out.size * weight.shape[-1]  # a multiplication here takes as long as several of those in a larger product
    threads.share(_depthwise_blocks(axes, x), worker, threads=work // _WORK_PER_THREAD)


def _correlate_weight_depthwise(g: Array, x: Array, axes: Axes) -> Array:
    """`_correlate_weight` for one channel in each group."""
    groups, outputs = g.shape[1:3]
    taps = [axis.taps for axis in axes]
    blocks = _depthwise_blocks(axes, x)
    # One part of the sum for each slice of samples: threads then never add to the same place, whatever their order.
    starts = sorted({samples.start for samples, _ in blocks})
    totals = np.zeros((len(starts), groups, outputs, prod(taps)), g.dtype)

    def worker(blocks_here: Iterator[tuple[slice, slice]]) -> None:
        planes = None
        for block in blocks_here:
            x_part = x[block]
            if planes is None or planes.shape != x_part.shape[:2]:
                planes = _Planes(axes, *x_part.shape[:2], g.dtype)
                g_part, flat = planes.outputs(outputs)
            planes.fill(x_part)
            g_part[...] = g[block]
            totals[starts.index(block[0].start), block[1]] = np.matmul(flat, planes.patches.swapaxes(2, 3)).sum(0)

    threads.share(blocks, worker, threads=8 * g.size * prod(taps) // _WORK_PER_THREAD)
    return totals.sum(0).reshape(groups, outputs, 1, *taps)


# ----- the adjoint in the input where patches do not overlap -----


def _scatter_patches(g: Array, w: Array, axes: Axes, grad: Array) -> None:
    """grad (N, G, C, *S) from g (N, G, M, *O) and w (G, C, M, *K): all patches by one product, each tap then put in its place.

    Only for strides so large that no two patches share an input; grad is zero where no patch lies.
    """
    batch, groups, outputs = g.shape[:3]
    channels = w.shape[1]
    taps = [axis.taps for axis in axes]
    positions = [axis.out for axis in axes]
    # (G, C, M, *K) -> (G, (*K, C), M)
    weight = np.moveaxis(w, (1, 2), (-2, -1)).reshape(groups, -1, outputs)
    weight = np.ascontiguousarray(weight)
    flat = g.reshape(batch, groups, outputs, prod(positions))
    places = [
        (taps_here, *zip(*(axis.reads(tap) for axis, tap in zip(axes, taps_here, strict=True)), strict=True))
        for taps_here in product(*(range(count) for count in taps))
    ]

    def worker(blocks: Iterator[slice]) -> None:
        for block in blocks:
            g_part = flat[block]
            patches = np.empty((len(g_part), groups, weight.shape[1], prod(positions)), grad.dtype)
            _matmul_deep(weight, g_part, patches)
            patches = patches.reshape(len(g_part), groups, *taps, channels, *positions)
            target = grad[block]
            for taps_here, outputs_here, inputs_here in places:
                one = patches[(slice(None), slice(None), *taps_here)]
                target[(..., *inputs_here)] = one[(..., *outputs_here)]

    samples = max(1, _SCRATCH_BYTES // (weight.shape[1] * groups * prod(positions) * g.itemsize))
    blocks = [slice(start, start + samples) for start in range(0, batch, samples)]
    threads.share(blocks, worker, threads=g.size * weight.shape[1] // _WORK_PER_THREAD)


# ----- the adjoint in the weight -----


def _correlate_weight(g: Array, x: Array, axes: Axes) -> Array:
    """sum over samples and outputs of g (N, G, M, *O) times patches of x (N, G, C, *S), giving (G, M, C, *K).

    The contracted axis is the long one here, and both operands are contiguous along it. The patches are again windowed along
    the first axis, now with positions inside: tap k of that axis reads the matrix that starts k positions later.
    That needs stride 1; otherwise all taps are copied. Where one sample is too short a sum, several
    lie side by side within each position.

    Blocks fall into lanes that do not depend on the number of threads, each summed in order, so neither does the result.
    """
    batch, groups, outputs = g.shape[:3]
    channels = x.shape[2]
    taps = [axis.taps for axis in axes]
    if g.size == 0 or x.size == 0:
        return np.zeros((groups, outputs, channels, *taps), g.dtype)
    if channels == 1 and outputs < 4:
        return _correlate_weight_depthwise(g, x, axes)
    positions = prod(axis.out for axis in axes)
    side_by_side = batch > 1 and positions < 192
    if len(axes) == 1 or axes[0].stride > 1:
        axes = (_UNIT, *axes)
        x, g = x[:, :, :, None], g[:, :, :, None]
    g = np.ascontiguousarray(g)
    depth = prod(axis.taps for axis in axes[1:]) * channels
    cut = 1 if axes[0].out == 1 else 0
    length = max(1, min(axes[cut].out, 1024 * axes[cut].out // positions))
    work = g.size * prod(taps) * channels
    fitting = -(-512 // positions) if side_by_side else _SCRATCH_BYTES // (positions * depth * g.itemsize)
    blocks = _blocks(axes, batch, max(1, min(fitting, -(-batch // 16))), cut, length)
    lanes = min(len(blocks), 16, max(4, 2**21 // (prod(taps) * channels * groups * outputs)))
    totals = np.zeros((lanes, axes[0].taps, groups, outputs, depth), g.dtype)

    def worker(lanes_here: Iterator[int]) -> None:
        patches = None
        for lane in lanes_here:
            for block in blocks[lane * len(blocks) // lanes : (lane + 1) * len(blocks) // lanes]:
                first = block.axes[0]
                count = block.samples.stop - block.samples.start
                summed = prod(axis.out for axis in block.axes) * (count if side_by_side else 1)
                g_part = g[(block.samples, slice(None), slice(None), *[slice(None)] * cut, block.outputs)]
                if side_by_side:
                    g_part = np.ascontiguousarray(np.moveaxis(g_part, 0, 3))
                g_part = g_part.reshape(-1, 1, groups, outputs, summed)
                if patches is None or not patches.fit(block):
                    order = "GTCPNO" if side_by_side else "NGTCPO"
                    patches = _Patches(block.axes, count, groups, channels, g.dtype, order)
                    shape = (len(g_part), first.taps, groups, depth, summed)
                    windows = patches.view(shape, "NPGCO", (1, first.dilation, 1, 1, 1)).swapaxes(3, 4)
                    result = np.empty((len(g_part), *totals.shape[1:]), g.dtype)
                    rows, columns = _tile_of_outer_product(outputs, summed, depth)
                patches.fill(x[block.samples])
                _matmul(g_part, windows, result, rows=rows, columns=columns)
                totals[lane] += result.sum(0)

    threads.share(range(lanes), worker, threads=work // _WORK_PER_THREAD)
    grad = totals.sum(0).reshape(axes[0].taps, groups, outputs, *(axis.taps for axis in axes[1:]), channels)
    return np.moveaxis(grad, (1, 2, -1), (0, 1, 2)).reshape(groups, outputs, channels, *taps)
