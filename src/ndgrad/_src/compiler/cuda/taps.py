"""Weighted sums and maxima over tables of taps on a device (ndgrad._src.arrays.taps).

A thread computes an output, or a warp if it reads many inputs. Sizes and tables are arguments, so one kernel serves all
windows of a dtype. Tables are copied to a device once. Halves are computed in single precision, and rounded when they
are stored. No two threads write to one place, so a result is the same in every run.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

import numpy as np

from ndgrad._src.arrays import library
from ndgrad._src.arrays.taps import Taps, TapTables, tables_of
from ndgrad._src.compiler.cuda import launch
from ndgrad._src.compiler.cuda.values import COMPUTED, PRELUDE, STORED

#: Threads of a block.
_THREADS = 256
#: Number of inputs of an output from which a warp computes it.
_MANY = 64
#: Maximum number of threads and of elements of a plane: positions have 32 bits.
_LARGEST = 1 << 31

_SOURCE = """
struct Arguments {
    long long count; long long rows; long long plane; long long wide; long long taps; long long pitch;
    const long long* first; const long long* offset; const T* weight; const T* divisor;
    const int* index; const T* share; const T* parts; const S* x; S* out; long long* places;
};
extern "C" __global__ void kernel(const Arguments a) {
    const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x, i = thread / LANES, lane = thread % LANES;
    if (i >= a.count) return;
    const unsigned j = i % (unsigned)a.wide, r = i / (unsigned)a.wide, row = r % (unsigned)a.rows;
    const S* x = a.x + (long long)(r / (unsigned)a.rows) * a.plane;
    const long long begin = a.first[row];
    const unsigned taps = a.taps, count = (unsigned)(a.first[row + 1] - begin) * taps;
"""
_SUM = """
    T total = 0;
    for (unsigned n = lane; n < count; n += LANES) {
        const unsigned k = begin + n / taps, t = n % taps;
        const int at = a.index[t * a.pitch + j];
        if (at >= 0) total += a.weight[k] * a.share[t * a.pitch + j] * wide(x[a.offset[k] + at]);
    }
    for (unsigned d = LANES / 2; d; d >>= 1) total += __shfl_xor_sync(0xffffffff, total, d);
    if (lane == 0) put(a.out[i], total / (a.divisor[row] * a.parts[j]));
}
"""
_MAX = """
    T best = 0;
    int place = -1;
    for (unsigned n = lane; n < count; n += LANES) {
        const unsigned k = begin + n / taps, t = n % taps;
        const int at = a.index[t * a.pitch + j];
        if (at < 0) continue;
        const T value = wide(x[a.offset[k] + at]);
        if (place < 0 || value > best || value != value) { best = value; place = a.offset[k] + at; }
    }
    // The first of equal values wins, but the last NaN.
    for (unsigned d = LANES / 2; d; d >>= 1) {
        const T value = __shfl_xor_sync(0xffffffff, best, d);
        const int at = __shfl_xor_sync(0xffffffff, place, d);
        const bool is_nan = value != value, was_nan = best != best;
        const bool wins = is_nan ? !was_nan || at > place : value > best || (value == best && at < place);
        if (at >= 0 && (place < 0 || wins)) { best = value; place = at; }
    }
    if (lane == 0) { put(a.out[i], best); a.places[i] = place; }
}
"""


@functools.lru_cache(maxsize=64)
def _kernel(is_max: bool, char: str, lanes: int, device: int) -> launch.Kernel:
    types = f"typedef {COMPUTED[char]} T; typedef {STORED[char]} S;\n#define LANES {lanes}\n"
    return launch.Kernel(PRELUDE + types + _SOURCE + (_MAX if is_max else _SUM), "16q")


@functools.lru_cache(maxsize=256)
def _lists(shape: tuple[int, ...], dim: tuple[int, ...], taps: tuple[Taps, ...], char: str, device: int) -> Any:
    """Return the tables, the lists on a device, the number of taps of the last dimension, and the inputs per output."""
    tables = tables_of(shape, dim, taps)
    last, dtype = tables.last, np.dtype(np.float64 if char == "d" else np.float32)
    # Without taps of the last dimension, each element of a row reads its own place.
    last = Taps(np.arange(tables.wide), None, tables.wide) if last is None else last
    index: Any = last.index
    share: Any = np.ones(index.shape) if last.weight is None else last.weight
    parts: Any = np.ones(tables.wide) if last.divisor is None else last.divisor
    divisor = np.ones(tables.rows) if tables.divisor is None else tables.divisor
    weights = [list.astype(dtype) for list in (tables.weight, divisor)]
    made = (tables.first, tables.offset, *weights, index.astype(np.int32), share.astype(dtype), parts.astype(dtype))
    reads = len(index) * int(np.diff(tables.first).max(initial=0))
    return tables, [library.device_library.asarray(list) for list in made], len(index), reads


def taps_for(x: Any) -> Any:
    """Return this module if its kernels take an array on a device."""
    return sys.modules[__name__] if x.dtype.char in COMPUTED and x.size < _LARGEST else None


def _run(x: Any, dim: tuple[int, ...], taps: tuple[Taps, ...], is_max: bool) -> Any:
    char, device = x.dtype.char, x.data.device_id
    found: tuple[TapTables, list[Any], int, int] = _lists(x.shape, dim, taps, char, device)
    tables, lists, count, reads = found
    total = tables.planes * tables.rows * tables.wide
    out = launch.new(tables.shape, x.dtype)
    places = launch.new(tables.shape, np.dtype(np.int64)) if is_max else None
    if not total:
        return out, places
    lanes = 32 if reads >= _MANY and total * 32 < _LARGEST else 1
    kernel = _kernel(is_max, char, lanes, device)
    kernel(
        -(-total * lanes // _THREADS), _THREADS,
        total, tables.rows, tables.plane, tables.wide, count, tables.wide, *[list.data.ptr for list in lists],
        x.data.ptr, out.data.ptr, 0 if places is None else places.data.ptr,
    )  # fmt: skip
    return out, places


def weighted_sum(x: Any, dim: tuple[int, ...], taps: tuple[Taps, ...]) -> Any:
    """Return the weighted sums over the taps of adjacent dimensions of a dense array."""
    return _run(x, dim, taps, False)[0]


def maxima(x: Any, dim: tuple[int, ...], taps: tuple[Taps, ...]) -> tuple[Any, Any]:
    """Return the maxima over the taps of the last dimensions of a dense array, and their positions."""
    values, places = _run(x, dim, taps, True)
    return values, places
