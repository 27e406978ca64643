"""Taps: the inputs that each output of a window op reads along one dimension, and their weights.

Pooling, interpolation, adaptive pooling and padding read a few inputs for each output, at positions that depend on the
output's index alone. So the positions are data: one table per dimension, made once for a combination of sizes and
settings. Two loops over tables are enough for all of these ops: the weighted sum and the maximum. The transpose of a
weighted sum is a weighted sum with the transposed tables.

Both loops run as one native or CUDA kernel (ndgrad._src.compiler.kernels.taps, ndgrad._src.compiler.cuda.taps), with
sizes and tables as arguments. Without a kernel, the functions here make a few passes over whole arrays per dimension.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy
from numpy.typing import NDArray

from ndgrad._src.arrays import device_kernels, native_kernels
from ndgrad._src.arrays.device_kernels import cast_array
from ndgrad._src.arrays.library import is_on_device
from ndgrad._src.arrays.precision import has_half, is_inexact, widen
from ndgrad._src.foundations import registry

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload

Selection = slice | NDArray[numpy.intp]


class Taps:
    """The inputs that each output reads (`index`, of shape (taps, outputs)) and their weights (None: all ones).

    An index of -1 reads nothing. `divisor`, a number for each output, divides the sum, so that a mean is exact if the
    sum is.
    """

    def __init__(self, index: Payload, weight: Payload, inputs: int, divisor: Payload = None) -> None:
        self.index = numpy.atleast_2d(numpy.asarray(index, dtype=numpy.intp))
        self.weight = None if weight is None else numpy.asarray(weight, dtype=numpy.float64).reshape(self.index.shape)
        self.inputs = inputs
        self.divisor = None if divisor is None else numpy.asarray(divisor, dtype=numpy.float64)

    @property
    def outputs(self) -> int:
        return int(self.index.shape[1])

    @functools.cached_property
    def all_weights(self) -> NDArray[numpy.float64] | None:
        """The weights, divided; None if all are ones."""
        if self.divisor is None:
            return self.weight
        return (numpy.ones(self.index.shape) if self.weight is None else self.weight) / self.divisor

    @functools.cached_property
    def transpose(self) -> Taps:
        """Return the transposed map: for each input, the outputs that read it with a weight other than zero."""
        kept, weights = self.index >= 0, self.all_weights
        if weights is not None:
            kept &= weights != 0
        _, reader = numpy.nonzero(kept)
        read = self.index[kept]
        order = numpy.argsort(read, kind="stable")
        read, reader = read[order], reader[order]
        counts = numpy.bincount(read, minlength=self.inputs)
        place = numpy.arange(read.size) - numpy.repeat(numpy.cumsum(counts) - counts, counts)
        shape = (max(1, int(counts.max(initial=0))), self.inputs)
        index, weight = numpy.full(shape, -1, numpy.intp), None
        index[place, read] = reader
        if weights is not None:
            weight = numpy.zeros(shape)
            weight[place, read] = weights[kept][order]
        transposed = Taps(index, weight, self.outputs)
        transposed.__dict__["transpose"] = self
        return transposed

    @functools.cached_property
    def reads(self) -> list[tuple[Selection, Selection]]:
        """For each tap, the outputs that have it and the inputs that it reads: slices if they are evenly spaced."""
        found: list[tuple[Selection, Selection]] = []
        for row in self.index:
            outputs = numpy.flatnonzero(row >= 0)
            found.append((_as_slice(outputs), _as_slice(row[outputs])))
        return found

    @functools.cached_property
    def run(self) -> tuple[int, int, int]:
        """The longest range of outputs (first, end) of a single tap that copies neighbours, and its first input."""
        row = self.index[0]
        if len(self.index) > 1 or self.all_weights is not None or not row.size:
            return 0, 0, 0
        breaks = numpy.flatnonzero((numpy.diff(row) != 1) | (row[1:] < 0) | (row[:-1] < 0)) + 1
        edges = numpy.concatenate([[0], breaks, [row.size]])
        longest = int(numpy.argmax(numpy.diff(edges)))
        first, end = int(edges[longest]), int(edges[longest + 1])
        return (first, end, int(row[first])) if row[first] >= 0 else (0, 0, 0)

    @functools.cached_property
    def matrix(self) -> NDArray[numpy.float64]:
        """The map as a matrix of shape (inputs, outputs)."""
        made = numpy.zeros((self.inputs, self.outputs))
        taps, outputs = numpy.nonzero(self.index >= 0)
        weight = 1.0 if self.all_weights is None else self.all_weights[taps, outputs]
        numpy.add.at(made, (self.index[taps, outputs], outputs), weight)
        return made


@functools.lru_cache(maxsize=1024)
def transposed(taps: tuple[Taps, ...]) -> tuple[Taps, ...]:
    """Return the transposed maps."""
    return tuple([t.transpose for t in taps])


def _as_slice(places: NDArray[numpy.intp]) -> Selection:
    if not places.size:
        return slice(0, 0)
    step = int(places[1] - places[0]) if places.size > 1 else 1
    if step < 1 or (places.size > 2 and (numpy.diff(places) != step).any()):
        return places
    return slice(int(places[0]), int(places[-1]) + 1, step)


class TapTables(NamedTuple):
    """The tables of a kernel: rows of the array, and elements of a row.

    The dimensions with taps, except a last one, are flattened: output row r is the weighted sum of the input rows that
    begin at `offset[first[r]:first[r + 1]]`. Then the taps of the last dimension, if there are any, act on this row.
    """

    #: Number of independent arrays, elements of one, and output rows of one.
    planes: int
    plane: int
    rows: int
    #: Elements of an input row and of an output row.
    width: int
    wide: int
    first: NDArray[numpy.int64]
    offset: NDArray[numpy.int64]
    weight: NDArray[numpy.float64]
    #: A divisor for each output row; None if neither rows nor elements are divided.
    divisor: NDArray[numpy.float64] | None
    last: Taps | None
    shape: tuple[int, ...]


@functools.lru_cache(maxsize=1024)
def tables_of(shape: tuple[int, ...], dim: tuple[int, ...], taps: tuple[Taps, ...]) -> TapTables:
    """Return the tables for arrays of a shape and adjacent dimensions."""
    behind = shape[dim[-1] + 1 :]
    inner = int(numpy.prod(behind, dtype=numpy.int64))
    last = taps[-1] if inner == 1 else None
    index, weight, divisor = numpy.zeros((1, 1), numpy.int64), numpy.ones((1, 1)), numpy.ones(1)
    for t in taps if last is None else taps[:-1]:
        here = numpy.asarray(t.index, numpy.int64)[None, :, None, :]
        weights = t.all_weights if last is None else t.weight
        share = numpy.ones(here.shape) if weights is None else weights[None, :, None, :]
        divisor = numpy.multiply.outer(divisor, numpy.ones(t.outputs) if t.divisor is None else t.divisor).ravel()
        there = index[:, None, :, None]
        joined = numpy.where((here < 0) | (there < 0), -1, there * t.inputs + here)
        size = (joined.shape[0] * joined.shape[1], joined.shape[2] * joined.shape[3])
        index = joined.reshape(size)
        weight = (weight[:, None, :, None] * share).reshape(size)
    width = inner if last is None else last.inputs
    is_divided = last is not None and any(t.divisor is not None for t in taps)
    kept = index.T >= 0
    first = numpy.concatenate([[0], numpy.cumsum(kept.sum(axis=1))]).astype(numpy.int64)
    sizes = tuple([t.outputs for t in taps])
    return TapTables(
        int(numpy.prod(shape[: dim[0]], dtype=numpy.int64)),
        int(numpy.prod([t.inputs for t in taps], dtype=numpy.int64)) * inner,
        int(index.shape[1]), width, inner if last is None else last.outputs,
        first, index.T[kept] * width, weight.T[kept], divisor if is_divided else None, last,
        (*shape[: dim[0]], *sizes, *behind),
    )  # fmt: skip


def _kernels_for(x: Payload, dim: Sequence[int]) -> Any:
    """Return the kernels over tables if they take this array: dense, of float32 or float64, of any size."""
    if dim[-1] - dim[0] != len(dim) - 1 or not x.size:
        return None
    if is_on_device(x):
        return None if device_kernels.kernels() is None else registry.eager_kernels.device_taps(x)
    if x.__class__ is not numpy.ndarray or not native_kernels.has_kernels(x.dtype) or native_kernels.kernels() is None:
        return None
    return registry.eager_kernels.native_taps()


def takes(x: Payload) -> bool:
    """True if the native kernels over tables take this array of the CPU."""
    return x.__class__ is numpy.ndarray and _kernels_for(x, (0,)) is not None


def _check_sizes(x: Payload, dim: Sequence[int], taps: tuple[Taps, ...]) -> None:
    """Kernels read at the positions of the taps without further checks."""
    for d, t in zip(dim, taps, strict=True):
        if d >= x.ndim or x.shape[d] != t.inputs:
            raise ValueError(
                f"the taps of dimension {d} read {t.inputs} elements, but the array has shape {tuple(x.shape)}. "
                "[nd-shape]"
            )


def weighted_sum(np: Library, x: Payload, dim: tuple[int, ...], taps: tuple[Taps, ...]) -> Payload:
    """Return the weighted sums over the taps of ascending dimensions."""
    _check_sizes(x, dim, taps)
    kernels = _kernels_for(x, dim)
    if kernels is not None:
        return kernels.weighted_sum(native_kernels.dense(x), dim, taps)
    if has_half((x,)):
        return cast_array(weighted_sum(np, widen(x), dim, taps), x.dtype)
    for d, t in zip(dim, taps, strict=True):
        x = _sum_along(np, x, d, t)
    return x


def _sum_along(np: Library, x: Payload, dim: int, taps: Taps) -> Payload:
    is_exact = taps.weight is None and taps.divisor is None
    dtype = x.dtype if is_inexact(x.dtype) or is_exact else np.result_type(x.dtype, np.float64)
    shape = (*x.shape[:dim], taps.outputs, *x.shape[dim + 1 :])
    if getattr(x, "is_meta", False):
        return type(x)(shape, dtype)
    if not x.size:
        return np.zeros(shape, dtype)
    front, behind = (slice(None),) * dim, (1,) * (x.ndim - dim - 1)
    total = None
    for tap, (outputs, inputs) in enumerate(taps.reads):
        part = x[(*front, inputs)] if isinstance(inputs, slice) else x.take(np.asarray(inputs), axis=dim)
        if taps.weight is not None:
            weight = np.asarray(taps.weight[tap, outputs].astype(dtype.type(0).real.dtype)).reshape(-1, *behind)
            part = part * weight
        if total is None and part.shape == shape:
            total = np.array(part, dtype) if taps.weight is None else part.astype(dtype, copy=False)
            continue
        if total is None:
            total = np.zeros(shape, dtype)
        total[(*front, outputs if isinstance(outputs, slice) else np.asarray(outputs))] += part
    if total is None:
        return np.zeros(shape, dtype)
    if taps.divisor is not None:
        total /= np.asarray(taps.divisor.astype(dtype.type(0).real.dtype)).reshape(-1, *behind)
    return total


def maxima(np: Library, x: Payload, taps: tuple[Taps, ...]) -> tuple[Any, Any]:
    """Return the maxima over the taps of the last dimensions, and their positions within these dimensions.

    Positions are in row-major order. The first of equal maxima is taken, but the last NaN, as in torch.
    """
    dim = tuple(range(x.ndim - len(taps), x.ndim))
    _check_sizes(x, dim, taps)
    kernels = _kernels_for(x, dim)
    if kernels is not None:
        found: tuple[Any, Any] = kernels.maxima(native_kernels.dense(x), dim, taps)
        return found
    # The last dimension comes first. So the first maximum along each dimension is the first one in row-major order.
    values, places, pitch = x, None, 1
    for d, t in zip(reversed(dim), reversed(taps), strict=True):
        values, places = _max_along(np, values, places, d, t, pitch)
        pitch *= t.inputs
    return values, places


def _max_along(np: Payload, x: Payload, places: Payload, dim: int, taps: Taps, pitch: int) -> tuple[Any, Any]:
    shape = (*x.shape[:dim], taps.outputs, *x.shape[dim + 1 :])
    front, behind = (slice(None),) * dim, (1,) * (x.ndim - dim - 1)
    best, place = np.zeros(shape, x.dtype), np.full(shape, -1, np.int64)
    for tap, (outputs, inputs) in enumerate(taps.reads):
        to = (*front, outputs if isinstance(outputs, slice) else np.asarray(outputs))
        at = (*front, inputs if isinstance(inputs, slice) else np.asarray(inputs))
        offset = np.asarray(taps.index[tap, outputs].astype(np.int64) * pitch).reshape(-1, *behind)
        part, here, now = x[at], best[to], place[to]
        wins = (part > here) | (part != part) | (now < 0)
        best[to] = np.where(wins, part, here)
        place[to] = np.where(wins, offset if places is None else places[at] + offset, now)
    return best, place


def add_at_positions(x: Payload, index: Payload, shape: tuple[int, ...]) -> Payload:
    """Return zeros of a shape with x (N, C, ...) added at positions of its planes by a native kernel.

    Returns None if there is no kernel for these arrays, and if a position is outside.
    """
    if x.__class__ is not numpy.ndarray or index.__class__ is not numpy.ndarray or index.dtype != numpy.int64:
        return None
    kernels = _kernels_for(x, (0,))
    return None if kernels is None else kernels.add_at(native_kernels.dense(x), native_kernels.dense(index), shape)
