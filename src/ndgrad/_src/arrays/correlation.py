"""Correlation of NumPy arrays by matrix products, the basis of convolution and its adjoints.

A correlation is a matrix product of the weight with the patches of the input. This file is shaped by the cost of such a
product in NumPy. Copying the patches takes a tenth of the time while they stay in the cache; the rest depends on
calling BLAS with the right sizes. OpenBLAS computes a product of fewer than 2**19 multiplications on the calling thread
and (on recent x86) without repacking its operands, at 110 of some 115 possible Gflop/s a core. It repacks larger
products and spreads them over its own threads, which gave 45 to 95 a core for matrices as narrow as these. So products
are cut into tiles below that size, one `np.matmul` call computes hundreds of them, and blocks of the batch are
distributed over ndgrad's own threads.

Note [Windows along the first axis]. Patches repeat each input value once for every tap of the kernel. Along the first
spatial axis the repetition is not needed: with the layout

    (position along axis 0, taps of the other axes, channel, output positions of the other axes)

the rows of output position o (all taps, all channels) are the consecutive rows that start at position o * stride. They
form a matrix with one row stride, which BLAS accepts directly, while neighbouring outputs share memory: a 5x5 kernel
copies its input 5 times, not 25. If this is impossible (only one spatial axis, or a dilated first axis), an axis of
length one is added in front and takes this role; then all patches are copied.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from math import gcd, prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ndgrad._src.arrays import threads

Array = NDArray[Any]
Index = tuple[Any, ...]

SCRATCH_BYTES = 2**20
"""The bytes of one block's patches: about a core's second-level cache."""
WORK_PER_THREAD = 2**22
"""The number of multiplications from which another thread pays off."""
_SMALL_PRODUCT = 2**19
_SMALL_OUTER_PRODUCT = 2**10

# ----- geometry -----


class Axis(NamedTuple):
    """One spatial axis: output o and tap k read the input at o * stride + k * dilation - before."""

    size: int
    taps: int
    stride: int
    dilation: int
    before: int
    out: int

    def reads(self, tap: int) -> tuple[slice, slice]:
        """Return the outputs for which a tap is inside the input, and the inputs that they read."""
        offset = tap * self.dilation - self.before
        first = max(0, -(offset // self.stride))
        last = max(first, min(self.out, (self.size - 1 - offset) // self.stride + 1))
        start = first * self.stride + offset
        return slice(first, last), slice(start, start + (last - first) * self.stride, self.stride)

    def part(self, start: int, stop: int) -> Axis:
        """Return the axis restricted to outputs start to stop."""
        return self._replace(before=self.before - start * self.stride, out=stop - start)

    @property
    def reach(self) -> int:
        """The number of inputs in the window of one output."""
        return (self.taps - 1) * self.dilation + 1

    @property
    def span(self) -> int:
        """The number of inputs in the windows of all outputs."""
        return (self.out - 1) * self.stride + self.reach


Axes = tuple[Axis, ...]

_UNIT = Axis(size=1, taps=1, stride=1, dilation=1, before=0, out=1)


# ----- products below BLAS's thresholds ---------------


def _matmul(a: Array, b: Array, out: Array, rows: int, columns: int) -> None:
    """Write out = a @ b in tiles: whole tiles are batch entries of one np.matmul call, remainders get separate
    calls.
    """
    m, n = out.shape[-2:]
    for i, tile_rows in _tiles(m, rows):
        a_tiles = a[..., i, :].reshape(*a.shape[:-2], -1, 1, tile_rows, a.shape[-1])
        for j, tile_columns in _tiles(n, columns):
            b_part, out_part = b[..., j], out[..., i, j]
            b_tiles = b_part.reshape(*b_part.shape[:-1], -1, tile_columns).swapaxes(-3, -2)[..., None, :, :, :]
            shape = (*out.shape[:-2], a_tiles.shape[-4], tile_rows, b_tiles.shape[-3], tile_columns)
            np.matmul(a_tiles, b_tiles, out=out_part.reshape(shape).swapaxes(-3, -2))


def _tiles(size: int, tile: int) -> Iterator[tuple[slice, int]]:
    whole = size // tile * tile
    if whole:
        yield slice(0, whole), tile
    if whole < size:
        yield slice(whole, size), size - whole


def _product(a: Array, b: Array, out: Array) -> None:
    """Write out = a @ b for contiguous rows of b.

    Tiles of 64 columns keep the vector unit full, and 8 rows reuse loaded values. A contraction that is too long for
    this is the sum of a few shorter ones.
    """
    (m, k), n = a.shape[-2:], out.shape[-1]
    pieces = -(-k // 1024)
    columns = min(n, 64)
    rows = min(m, max(8, _SMALL_PRODUCT // (-(-k // pieces) * columns) // 8 * 8))
    _matmul(a[..., : k // pieces], b[..., : k // pieces, :], out, rows, columns)
    for piece in range(1, pieces):
        part = slice(piece * k // pieces, (piece + 1) * k // pieces)
        more = np.empty_like(out)
        _matmul(a[..., part], b[..., part, :], more, rows, columns)
        out += more


def _outer_product(a: Array, b: Array, out: Array) -> None:
    """Write out = a @ b for contiguous columns of b. BLAS then avoids repacking only if a tile has few entries."""
    (m, k), n = a.shape[-2:], out.shape[-1]
    rows = min(m, 32)
    columns = min(n, max(1, min(_SMALL_OUTER_PRODUCT, _SMALL_PRODUCT // k) // rows))
    _matmul(a, b, out, rows, columns)


# ----- blocks and patches -----


class _Block(NamedTuple):
    """A part of a correlation: some samples, and some outputs along the split axis."""

    samples: slice
    outputs: slice
    axes: Axes

    @property
    def batch(self) -> int:
        return int(self.samples.stop - self.samples.start)

    def take_part(self, array: Array, cut: int) -> Array:
        """Return this block's part of an array (N, G, M, *O)."""
        return array[(self.samples, slice(None), slice(None), *[slice(None)] * cut, self.outputs)]


def _blocks(axes: Axes, batch: int, samples: int, cut: int, length: int) -> list[_Block]:
    blocks = []
    for n in range(0, batch, samples):
        for start in range(0, axes[cut].out, length):
            stop = min(start + length, axes[cut].out)
            part = (*axes[:cut], axes[cut].part(start, stop), *axes[cut + 1 :])
            blocks.append(_Block(slice(n, min(n + samples, batch)), slice(start, stop), part))
    return blocks


def samples_per_block(batch: int, fitting: int, together: int, work: int) -> int:
    """Return the number of samples that fit into the scratch memory, in multiples of `together`, with a block per
    thread.

    Every NumPy call passes the interpreter lock between threads, so small work uses as few calls as possible. Large
    work uses two or more blocks per thread, so that a late thread does not delay the others.
    """
    sharing = min(threads.max_threads, work // WORK_PER_THREAD)
    if sharing > 1:
        blocks = sharing if work < 8 * sharing * WORK_PER_THREAD else 2 * sharing
        fitting = min(fitting, -(-batch // blocks))
    return min(batch, max(1, fitting // together) * together)


class _Patches:
    """Scratch memory for the patches of equally shaped blocks.

    `values` has the axes N (sample), G (group), P (position along the first spatial axis), T (taps of the others), C
    (channel) and O (outputs of the others); `order` is their order in memory. Padding is zero from the start and never
    written.
    """

    def __init__(self, axes: Axes, samples: int, groups: int, channels: int, dtype: np.dtype[Any], order: str) -> None:
        sizes = {
            "N": [samples],
            "G": [groups],
            "P": [axes[0].span],
            "T": [axis.taps for axis in axes[1:]],
            "C": [channels],
            "O": [axis.out for axis in axes[1:]],
        }
        places = {}
        count = 0
        for name in order:
            places[name] = range(count, count + len(sizes[name]))
            count += len(sizes[name])
        self.axes = axes
        self.samples = samples
        self.memory = np.zeros([size for name in order for size in sizes[name]], dtype)
        self.values = self.memory.transpose([place for name in "NGPTCO" for place in places[name]])
        self.copies = _copies(axes)

    def fit(self, block: _Block) -> bool:
        return self.axes == block.axes and self.samples == block.batch

    def fill(self, x: Array) -> None:
        """Copy the values of x (N, G, C, *S)."""
        source = x.swapaxes(2, 3)
        for target, inputs in self.copies:
            self.values[target] = source[inputs]

    def view(self, shape: tuple[int, ...], axes: str, steps: tuple[int, ...]) -> Array:
        """Return the memory as an array whose axes advance by whole steps along the named axes."""
        strides = self.values.strides
        number = {"N": 0, "G": 1, "P": 2, "C": len(strides) - len(self.axes), "O": len(strides) - 1}
        in_bytes = tuple(step * strides[number[name]] for name, step in zip(axes, steps, strict=True))
        return np.ndarray(shape, self.memory.dtype, self.memory, 0, in_bytes)


@lru_cache(maxsize=512)
def _copies(axes: Axes) -> list[tuple[Index, Index]]:
    """Return, for each combination of taps of all axes but the first, its index in the patches and the index it
    reads.
    """
    first, others = axes[0], axes[1:]
    every = slice(None)
    # Positions along the first axis are kept as they are: one tap, stride 1.
    here, there = Axis(first.size, 1, 1, 1, first.before, first.span).reads(0)
    copies = []
    for taps in product(*(range(axis.taps) for axis in others)):
        reads = [axis.reads(tap) for axis, tap in zip(others, taps, strict=True)]
        target = (every, every, here, *taps, every, *(outputs for outputs, _ in reads))
        copies.append((target, (every, every, there, every, *(inputs for _, inputs in reads))))
    return copies


def _flat_weight(w: Array) -> Array:
    """Reshape (G, M, C, *K) to contiguous (G, M, (*K, C)). Flipped weights would become views that BLAS cannot use."""
    return np.ascontiguousarray(w.transpose(0, 1, *range(3, w.ndim), 2).reshape(*w.shape[:2], -1))


# ----- the correlation -----


def correlate_pointwise(x: Array, w: Array, out: Array) -> None:
    """Run `correlate_by_windows` for a kernel of one tap: the input itself is the matrix of patches. out is
    contiguous.
    """
    batch = len(x)
    patches = x.reshape(*x.shape[:3], -1)
    weight = _flat_weight(w)
    flat = out.reshape(*out.shape[:3], -1)

    def worker(blocks: Iterator[slice]) -> None:
        for block in blocks:
            _product(weight, patches[block], flat[block])

    work = flat.size * weight.shape[-1]
    samples = samples_per_block(batch, batch, 1, work)
    blocks = [slice(start, start + samples) for start in range(0, batch, samples)]
    threads.share(blocks, worker, threads=work // WORK_PER_THREAD)


def correlate_by_windows(x: Array, w: Array, axes: Axes, out: Array) -> None:
    """Write the correlation of x (N, G, C, *S) with w (G, M, C, *K) to out (N, G, M, *O); see the Note above.

    The columns of a product are the outputs at one position of the first axis. If they do not fill BLAS's vector
    registers, or `out` has strides that BLAS cannot use, the columns hold several samples and the result is copied.
    Otherwise BLAS writes to `out` directly.
    """
    batch, groups, channels = x.shape[:3]
    outputs = w.shape[1]
    if len(axes) == 1 or (axes[0].dilation > 1 and axes[0].taps > 1) or batch * out[0, 0, 0, 0].size < 16:
        axes = (_UNIT, *axes)
        x, out = x[:, :, :, None], out[:, :, :, None]
    weight = _flat_weight(w)[:, None]
    depth = weight.shape[-1]
    positions = prod(axis.out for axis in axes[1:])
    full_registers = positions >= 96 or (positions >= 32 and positions % 16 == 0)
    direct = out.flags.c_contiguous and (full_registers or (positions >= 16 and depth < 100))
    cut = 1 if axes[0].out == 1 else 0

    def worker(blocks: Iterator[_Block]) -> None:
        patches = None
        for block in blocks:
            samples, length = block.batch, block.axes[0].out
            if patches is None or not patches.fit(block):
                order = "NGPTCO" if direct else "GPTCNO"
                patches = _Patches(block.axes, samples, groups, channels, out.dtype, order)
                columns = prod(axis.out for axis in block.axes[1:]) * (1 if direct else samples)
                shape = (samples if direct else 1, groups, length, depth, columns)
                windows = patches.view(shape, "NGPCO", (1, 1, axes[0].stride, 1, 1))
            patches.fill(x[block.samples])
            place = block.take_part(out, cut)
            if direct:
                flat = place.reshape(samples, groups, outputs, length, columns)
                _product(weight, windows, flat.swapaxes(2, 3))
            else:
                result = np.empty((groups, length, outputs, columns), out.dtype)
                _product(weight, windows[0], result)
                result = result.reshape(groups, length, outputs, samples, *place.shape[4:])
                place[...] = result.transpose(3, 0, 2, 1, *range(4, result.ndim))

    together = 1
    if not direct:  # columns for four vector registers, without a remainder
        together = 16 // gcd(positions, 16)
        together *= -(-64 // (positions * together))
    sample_bytes = groups * depth // axes[0].taps * axes[0].span * positions * out.itemsize
    work = out.size * depth
    samples = samples_per_block(batch, SCRATCH_BYTES // sample_bytes, together, work)
    length = max(1, min(axes[cut].out, axes[cut].out * SCRATCH_BYTES // (samples * sample_bytes)))
    threads.share(_blocks(axes, batch, samples, cut, length), worker, threads=work // WORK_PER_THREAD)


# ----- the adjoint in the input, for patches without overlap -----


def scatter_patches(g: Array, w: Array, axes: Axes, grad: Array) -> None:
    """Write w^T g to the positions of the patches: g (N, G, M, *O) and w (G, C, M, *K) into grad (N, G, C, *S).

    One product computes all patches, and each tap is then assigned to its position. This is correct only if no two
    patches share an input. Elsewhere grad keeps its zeros.
    """
    batch, groups, outputs = g.shape[:3]
    channels = w.shape[1]
    taps, positions = [axis.taps for axis in axes], [axis.out for axis in axes]
    weight = np.ascontiguousarray(np.moveaxis(w, (1, 2), (-2, -1)).reshape(groups, -1, outputs))  # (G, (*K, C), M)
    flat = g.reshape(batch, groups, outputs, prod(positions))
    places: list[tuple[Index, Index]] = []
    for tap in product(*(range(count) for count in taps)):
        reads = [axis.reads(one) for axis, one in zip(axes, tap, strict=True)]
        source = (slice(None), slice(None), *tap, slice(None), *(outputs_read for outputs_read, _ in reads))
        places.append(((..., *(inputs for _, inputs in reads)), source))

    def worker(blocks: Iterator[slice]) -> None:
        for block in blocks:
            g_part, target = flat[block], grad[block]
            patches = np.empty((len(g_part), groups, weight.shape[1], prod(positions)), grad.dtype)
            _product(weight, g_part, patches)
            patches = patches.reshape(len(g_part), groups, *taps, channels, *positions)
            for place, source in places:
                target[place] = patches[source]

    work = g.size * weight.shape[1]
    fitting = SCRATCH_BYTES // (weight.shape[1] * groups * prod(positions) * g.itemsize)
    samples = samples_per_block(batch, fitting, 1, work)
    blocks = [slice(start, start + samples) for start in range(0, batch, samples)]
    threads.share(blocks, worker, threads=work // WORK_PER_THREAD)


# ----- the adjoint in the weight -----


def correlate_weight(g: Array, x: Array, axes: Axes) -> Array:
    """Return the sum over samples and outputs of g (N, G, M, *O) times the patches of x (N, G, C, *S): (G, M, C, *K).

    Here the contracted axis is the long one, and both operands are contiguous along it. The patches are again windowed
    along the first axis, now with positions inside: tap k of that axis reads the matrix that starts k positions later.
    This needs stride 1; otherwise all taps are copied. If one sample gives too short a sum, each position holds several
    samples next to each other.

    Blocks are assigned to lanes that do not depend on the number of threads, and each lane is summed in order. So the
    result does not depend on the number of threads either.
    """
    batch, groups, outputs = g.shape[:3]
    channels = x.shape[2]
    taps = [axis.taps for axis in axes]
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
    lanes = min(
        batch, 16, -(-work // (2 * WORK_PER_THREAD)), max(4, 2**21 // (prod(taps) * channels * groups * outputs))
    )
    fitting = -(-512 // positions) if side_by_side else SCRATCH_BYTES // (positions * depth * groups * g.itemsize)
    blocks = _blocks(axes, batch, max(1, min(fitting, -(-batch // lanes))), cut, length)
    lanes = min(lanes, len(blocks))
    totals = np.zeros((lanes, axes[0].taps, groups, outputs, depth), g.dtype)

    def worker(lanes_here: Iterator[int]) -> None:
        patches = None
        for lane in lanes_here:
            for block in blocks[lane * len(blocks) // lanes : (lane + 1) * len(blocks) // lanes]:
                g_part = block.take_part(g, cut)
                summed = prod(axis.out for axis in block.axes)
                if side_by_side:
                    g_part = np.ascontiguousarray(np.moveaxis(g_part, 0, 3))
                    summed *= block.batch
                g_part = g_part.reshape(-1, 1, groups, outputs, summed)
                if patches is None or not patches.fit(block):
                    order = "GTCPNO" if side_by_side else "NGTCPO"
                    patches = _Patches(block.axes, block.batch, groups, channels, g.dtype, order)
                    shape = (len(g_part), axes[0].taps, groups, depth, summed)
                    windows = patches.view(shape, "NPGCO", (1, axes[0].dilation, 1, 1, 1)).swapaxes(3, 4)
                    result = np.empty((len(g_part), *totals.shape[1:]), g.dtype)
                patches.fill(x[block.samples])
                _outer_product(g_part, windows, result)
                totals[lane] += result.sum(0)

    threads.share(range(lanes), worker, threads=work // WORK_PER_THREAD)
    grad = np.asarray(totals.sum(0)).reshape(axes[0].taps, groups, outputs, *(axis.taps for axis in axes[1:]), channels)
    return np.moveaxis(grad, (1, 2, -1), (0, 1, 2)).reshape(groups, outputs, channels, *taps)
