"""The largest or smallest elements along a dimension of an array on a device, and their positions, by one kernel.

Of equal elements the first one counts, and the first NaN before all others, as on the CPU. Along the last dimension a
warp or a block reads a line. Along others a block reads 32 neighbouring lines in 8 parts.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from ndgrad._src.compiler.cuda import launch
from ndgrad._src.compiler.cuda.copies import in_order
from ndgrad._src.compiler.cuda.sorting import _INTEGERS
from ndgrad._src.compiler.cuda.values import COMPUTED, PRELUDE, STORED

_THREADS, _ACROSS, _LARGEST = 256, 32, 1 << 31
#: A few lines longer than this are left to CuPy, which uses the whole device for a line.
_LONG, _FEW = 1 << 14, 64

_SOURCE = """
struct Arguments { long long lines, length, inner; const S* x; S* values; long long* places; };
struct Best { C value; unsigned int place; };
__device__ inline bool wins(Best a, Best b) {
    if (a.place == ~0u || b.place == ~0u) return b.place == ~0u && a.place != ~0u;
    const bool a_nan = a.value != a.value, b_nan = b.value != b.value;
    if (a_nan || b_nan) return a_nan && (!b_nan || a.place < b.place);
    return a.value == b.value ? a.place < b.place : COMPARED;
}
extern "C" __global__ void __launch_bounds__(256) kernel(const Arguments a) {
    __shared__ C values[256];
    __shared__ unsigned int places[256];
    // Threads of a line are STEP apart, and there are PARTS of them.
    const unsigned int own = STEP == 1 ? threadIdx.x / PARTS : threadIdx.x % STEP;
    const unsigned int part = STEP == 1 ? threadIdx.x % PARTS : threadIdx.x / STEP;
    const long long line = (long long)blockIdx.x * (256 / PARTS) + own;
    const bool inside = line < a.lines;
    Best best = {C(0), ~0u};
    if (inside) {
        const long long begin = line / a.inner * a.length * a.inner + line % a.inner;
        for (long long i = part; i < a.length; i += PARTS) {
            const Best found = {(C)wide_value(a.x[begin + i * a.inner]), (unsigned int)i};
            if (wins(found, best)) best = found;
        }
    }
    values[threadIdx.x] = best.value;
    places[threadIdx.x] = best.place;
    __syncthreads();
    for (unsigned int half = PARTS / 2; half; half /= 2) {
        if (part < half) {
            const unsigned int other = threadIdx.x + half * STEP;
            const Best mine = {values[threadIdx.x], places[threadIdx.x]}, theirs = {values[other], places[other]};
            if (wins(theirs, mine)) { values[threadIdx.x] = theirs.value; places[threadIdx.x] = theirs.place; }
        }
        __syncthreads();
    }
    if (!inside || part) return;
    const unsigned int place = places[threadIdx.x];
    if (a.places) a.places[line] = place;
    if (a.values) a.values[line] = a.x[line / a.inner * a.length * a.inner + line % a.inner + place * a.inner];
}
"""


def source(char: str, largest: bool, parts: int, step: int) -> str:
    """Return the text of the kernel: so many threads per line, so far apart."""
    stored, computed = (STORED[char], COMPUTED[char]) if char in COMPUTED else (_INTEGERS[char],) * 2
    read = "wide(x)" if char in COMPUTED else "x"
    types = (
        f"typedef {stored} S; typedef {computed} C;\n"
        f"__device__ inline C wide_value(S x) {{ return {read}; }}\n"
        f"#define COMPARED a.value {'>' if largest else '<'} b.value\n"
        f"enum {{ PARTS = {parts}, STEP = {step} }};\n"
    )
    return PRELUDE + types + _SOURCE


@functools.lru_cache(maxsize=256)
def _kernel(char: str, largest: bool, parts: int, step: int, device: int) -> launch.Kernel:
    return launch.Kernel(source(char, largest, parts, step), "6q")


def extremes(x: Any, dim: int, keepdim: bool, largest: bool, values: bool, places: bool) -> Any:
    """Return extreme values and their positions along a dimension, each if asked for; None if it is left to CuPy."""
    char = x.dtype.char
    if (char not in COMPUTED and char not in _INTEGERS) or not x.ndim or not 0 < x.size < _LARGEST:
        return None
    length, inner = x.shape[dim], math.prod(x.shape[dim + 1 :])
    lines = x.size // length
    if lines < _FEW and length > _LONG:
        return None
    x = in_order(x)
    parts, step = (8, _ACROSS) if inner > 1 else (32 if length <= 1024 else _THREADS, 1)
    shape = (*x.shape[:dim], *((1,) if keepdim else ()), *x.shape[dim + 1 :])
    found = launch.new(shape, x.dtype) if values else None
    at = launch.new(shape, np.dtype(np.int64)) if places else None
    blocks = -(-lines * parts // _THREADS)
    addresses = [0 if a is None else a.data.ptr for a in (x, found, at)]
    _kernel(char, largest, parts, step, x.data.device_id)(blocks, _THREADS, lines, length, inner, *addresses)
    return found, at


# ----- ops ------------------------------------------------------------------------------------------------------------


def _pair(largest: bool, operands: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    return extremes(operands[0], settings["dim"], settings.get("keepdim", False), largest, True, True)


def _place(largest: bool, operands: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    found = extremes(operands[0], settings["dim"], settings.get("keepdim", False), largest, False, True)
    return None if found is None else found[1]


def _value(largest: bool, operands: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    dim = settings["dim"]
    if isinstance(dim, tuple):
        if len(dim) != 1:
            return None
        (dim,) = dim
    found = extremes(operands[0], dim, settings.get("keepdim", False), largest, True, False)
    return None if found is None else found[0]


#: Ops of the table, as functions of operands and settings.
OPS = {
    "max": functools.partial(_pair, True), "min": functools.partial(_pair, False),
    "argmax": functools.partial(_place, True), "argmin": functools.partial(_place, False),
    "amax": functools.partial(_value, True), "amin": functools.partial(_value, False),
    "max_at": functools.partial(_value, True), "min_at": functools.partial(_value, False),
}  # fmt: skip
