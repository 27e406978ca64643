"""Running sums, products, extrema, logarithms of sums and linear recurrences on a device, as one kernel each.

An array is a number of lines, each along the dimension. A line is cut into tiles of R segments. A thread combines the
elements of a segment, the threads of a line then combine their segments in log2(R) steps, and each thread runs through
its segment again, from the value before it. Singles are accumulated in double precision, as on the CPU.

The values of a range may overflow although those of the sequence do not (0 * 1e200 * 1e200). If a value between two
segments is not finite, the block repeats its tile one element after another, so the result is that of the sequence.
No two threads write to one place, so a result is the same in every run.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from ndgrad._src.compiler.cuda import launch
from ndgrad._src.compiler.cuda.copies import in_order
from ndgrad._src.compiler.cuda.values import PRELUDE, STORED

_THREADS = 256
#: Length from which a few lines of sums or products are left to CuPy, whose kernel uses the whole device for a line.
_LONG, _FEW = 1 << 15, 32
#: Maximum number of elements: lines are counted in 32 bits.
_LARGEST = 1 << 31

#: Types in which elements are accumulated, and compared.
_ACCUMULATED = {"f": "double", "d": "double", "e": "float", "E": "float"}
_COMPARED = {"f": "float", "d": "double", "e": "float", "E": "float"}

_OPERATORS = {
    "sum": """
struct State { T value; };
__device__ inline State none() { return {T(0)}; }
__device__ inline State load(const Arguments& a, long long i) { return {T(wide(a.x[i]))}; }
__device__ inline State join(State p, State q) { return {p.value + q.value}; }
__device__ inline bool fits(State p) { return p.value - p.value == 0; }
__device__ inline void store(const Arguments& a, long long i, State p) { put(a.out[i], (C)p.value); }
""",
    "product": """
struct State { T value; };
__device__ inline State none() { return {T(1)}; }
__device__ inline State load(const Arguments& a, long long i) { return {T(wide(a.x[i]))}; }
__device__ inline State join(State p, State q) { return {p.value * q.value}; }
__device__ inline bool fits(State p) { return p.value - p.value == 0; }
__device__ inline void store(const Arguments& a, long long i, State p) { put(a.out[i], (C)p.value); }
""",
    # The map h -> factor h + value. A line starts at 0, so its first factor is not used.
    "linear": """
struct State { T factor, value; };
__device__ inline State none() { return {T(1), T(0)}; }
__device__ inline State load(const Arguments& a, long long i) {
    const bool is_first = i / a.inner % a.length == (a.reverse ? a.length - 1 : 0);
    return {is_first ? T(0) : T(wide(a.y[i])), T(wide(a.x[i]))};
}
__device__ inline State join(State p, State q) { return {p.factor * q.factor, q.factor * p.value + q.value}; }
__device__ inline bool fits(State p) { return p.factor - p.factor == 0 && p.value - p.value == 0; }
__device__ inline void store(const Arguments& a, long long i, State p) { put(a.out[i], (C)p.value); }
""",
    # top + log(total), in which the total is scaled by e^-top.
    "log_sum": """
struct State { T top, total; };
__device__ inline State none() { return {-T(__int_as_float(0x7f800000)), T(0)}; }
__device__ inline State load(const Arguments& a, long long i) { return {T(wide(a.x[i])), T(1)}; }
__device__ inline State join(State p, State q) {
    if (p.total == 0 || q.top != q.top) return q;
    if (q.total == 0 || p.top != p.top) return p;
    if (p.top == q.top) return {p.top, p.total + q.total};
    return p.top > q.top ? State{p.top, p.total + q.total * exp(q.top - p.top)} : State{q.top, q.total + p.total * exp(p.top - q.top)};
}
__device__ inline bool fits(State p) { return true; }
__device__ inline void store(const Arguments& a, long long i, State p) { put(a.out[i], (C)(p.top + log(p.total))); }
""",
    # The scan returns the last one of equal extrema. From the first NaN on it returns the last NaN.
    "extremum": """
struct State { T value; long long place; };
__device__ inline State none() { return {T(0), -1}; }
__device__ inline State load(const Arguments& a, long long i) { return {wide(a.x[i]), i / a.inner % a.length}; }
__device__ inline State join(State p, State q) {
    if (p.place < 0 || q.value != q.value) return q.place < 0 ? p : q;
    if (q.place < 0 || p.value != p.value) return p;
    return (LARGEST ? q.value >= p.value : q.value <= p.value) ? q : p;
}
__device__ inline bool fits(State p) { return true; }
__device__ inline void store(const Arguments& a, long long i, State p) { put(a.out[i], p.value); a.places[i] = p.place; }
""",
}

_ARGUMENTS = """
struct Arguments { long long lines; long long length; long long inner; long long reverse;
                   const S* x; const S* y; S* out; long long* places; };
"""
_SOURCE = """
enum { THREADS = 256, LINES = THREADS / R };
extern "C" __global__ void __launch_bounds__(256) kernel(const Arguments a) {
    __shared__ State states[2][THREADS];
    __shared__ State carries[LINES];
    __shared__ int overflows;
    // Adjacent threads read adjacent elements: of one line if the dimension is the last one, else of several lines.
    const unsigned own = ACROSS ? threadIdx.x % LINES : threadIdx.x / R, r = ACROSS ? threadIdx.x / LINES : threadIdx.x % R;
    const unsigned before = ACROSS ? LINES : 1;  // the distance to the thread of the previous segment
    const long long line = (long long)blockIdx.x * LINES + own;
    const bool inside = line < a.lines;
    const long long first = inside ? line / a.inner * a.length * a.inner + line % a.inner : 0;
    State carry = none();
    for (long long tile = 0; tile < a.length; tile += R * K) {
        const long long begin = tile + (long long)r * K;
        State parts[K];
        State whole = none();
        for (int k = 0; k < K; ++k) {
            const long long at = begin + k;
            const bool is_there = inside && at < a.length;
            parts[k] = is_there ? load(a, first + (a.reverse ? a.length - 1 - at : at) * a.inner) : none();
            if (is_there) whole = join(whole, parts[k]);
        }
        if (threadIdx.x == 0) overflows = 0;
        int now = 0;
        states[0][threadIdx.x] = whole;
        __syncthreads();
        for (unsigned d = 1; d < R; d *= 2) {
            const State found = states[now][threadIdx.x];
            states[1 - now][threadIdx.x] = r >= d ? join(states[now][threadIdx.x - d * before], found) : found;
            now = 1 - now;
            __syncthreads();
        }
        State from = r ? join(carry, states[now][threadIdx.x - before]) : carry;
        if (!fits(from) || !fits(states[now][threadIdx.x])) overflows = 1;
        __syncthreads();
        const bool repeats = overflows;
        if (!repeats) {
            for (int k = 0; k < K; ++k) {
                const long long at = begin + k;
                if (!inside || at >= a.length) break;
                from = join(from, parts[k]);
                store(a, first + (a.reverse ? a.length - 1 - at : at) * a.inner, from);
            }
            if (r == R - 1) carries[own] = from;
            __syncthreads();
        } else {
            if (r == 0) carries[own] = carry;
            __syncthreads();
            for (unsigned turn = 0; turn < R; ++turn) {
                if (turn == r) {
                    from = carries[own];
                    for (int k = 0; k < K; ++k) {
                        const long long at = begin + k;
                        if (!inside || at >= a.length) break;
                        from = join(from, parts[k]);
                        store(a, first + (a.reverse ? a.length - 1 - at : at) * a.inner, from);
                    }
                    carries[own] = from;
                }
                __syncthreads();
            }
        }
        carry = carries[own];
        __syncthreads();
    }
}
"""
_LAYOUT = "8q"


@functools.lru_cache(maxsize=128)
def _kernel(operator: str, largest: bool, char: str, threads: int, across: bool, device: int) -> launch.Kernel:
    kind = (_COMPARED if operator == "extremum" else _ACCUMULATED)[char]
    types = (
        f"typedef {kind} T; typedef {_COMPARED[char]} C; typedef {STORED[char]} S;\n#define LARGEST {int(largest)}\n"
        f"enum {{ R = {threads}, K = 4, ACROSS = {int(across)} }};\n"
    )
    return launch.Kernel(PRELUDE + types + _ARGUMENTS + _OPERATORS[operator] + _SOURCE, _LAYOUT)


def _takes(x: Any, dim: int) -> bool:
    return x.dtype.char in _ACCUMULATED and x.ndim > dim and 0 < x.size < _LARGEST


def scan(operator: str, x: Any, y: Any, dim: int, reverse: bool, largest: bool = False) -> Any:
    """Return the running combination of an array along a dimension, and the places of extrema or None."""
    x, y = in_order(x), None if y is None else in_order(y)
    shape, length = x.shape, x.shape[dim]
    inner = math.prod(shape[dim + 1 :])
    lines = x.size // length
    across = inner > 1
    threads = 32 if across or length <= 512 else _THREADS
    if across:
        threads = 8 if lines >= 1 << 12 else 32
    out = launch.new(shape, x.dtype)
    places = launch.new(shape, np.dtype(np.int64)) if operator == "extremum" else None
    kernel = _kernel(operator, largest, x.dtype.char, threads, across, x.data.device_id)
    kernel(
        -(-lines * threads // _THREADS), _THREADS, lines, length, inner, int(reverse),
        x.data.ptr, 0 if y is None else y.data.ptr, out.data.ptr, 0 if places is None else places.data.ptr,
    )  # fmt: skip
    return out, places


def _accumulate(operator: str, operands: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    (x,), dim, dtype = operands, settings["dim"], settings.get("dtype")
    if not _takes(x, dim) or (dtype is not None and np.dtype(dtype) != x.dtype):
        return None
    if x.shape[dim] >= _LONG and x.size // x.shape[dim] < _FEW:
        return None
    return scan(operator, x, None, dim, settings.get("reverse", False))[0]


def cumsum(operands: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Return running sums; None if they are left to CuPy."""
    return _accumulate("sum", operands, settings)


def cumprod(operands: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Return running products; None if they are left to CuPy."""
    return _accumulate("product", operands, settings)


def linear_recurrence(operands: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Return h[k] = a[k] h[k-1] + b[k]; None if it is left to CuPy."""
    a, b = operands
    if a.__class__ is not b.__class__ or a.dtype != b.dtype or a.shape != b.shape:
        return None
    if not _takes(b, settings["dim"]):
        return None
    return scan("linear", b, a, settings["dim"], settings.get("reverse", False))[0]


def logcumsumexp(operands: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Return logarithms of running sums of exponentials; None if they are left to CuPy."""
    (x,) = operands
    return scan("log_sum", x, None, settings["dim"], False)[0] if _takes(x, settings["dim"]) else None


def cummax(operands: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Return running maxima and their places; None if they are left to CuPy."""
    (x,) = operands
    return scan("extremum", x, None, settings["dim"], False, True) if _takes(x, settings["dim"]) else None


def cummin(operands: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Return running minima and their places; None if they are left to CuPy."""
    (x,) = operands
    return scan("extremum", x, None, settings["dim"], False) if _takes(x, settings["dim"]) else None
