"""Losses of class numbers on a device: one kernel forward and one backward, including class weights, ignored numbers,
smoothed labels and the reduction. Forms: cross entropy of scores, of logarithms of probabilities, and margins.

    loss = (1 - s) w[t] (logsumexp(x) - x[t]) + s / C sum(w (logsumexp(x) - x))        of a row of scores x, with target t
    mean = sum(loss) / sum(w[t])                                                        over the rows that count

The other forms are -w[t] x[t], and w[t] / C sum(max(0, margin - x[t] + x)^p) over the other classes, whose mean counts
rows.

A warp processes a row, or a block does if rows are long. A block adds the results of its rows, and the last block to
end adds those of the blocks, in order. A result is therefore the same in every run. The kernel notes a target that is
no class.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from ndgrad._src.arrays import graph_recording, library
from ndgrad._src.compiler.cuda import launch
from ndgrad._src.compiler.cuda.fused_head import HEAD
from ndgrad._src.compiler.cuda.index_faults import INTEGERS, NOTE, notes
from ndgrad._src.compiler.cuda.values import COMPUTED, STORED

_THREADS = 256
#: Maximum length of a row for a warp, and maximum number of blocks, which does not depend on the device.
_SHORT, _MOST_BLOCKS = 1024, 1024
_FORMS = {"softmax": 0, "log": 1, "margin": 2, "square margin": 3}
_REDUCTIONS = {"none": 0, "sum": 1, "mean": 2}

_SOURCE = """
enum { THREADS = 256, GROUPS = THREADS / GROUP };
struct Arguments { long long rows; long long length; long long ignored; long long reduction; const S* x; const I* target;
                   const S* weight; const S* g; S* out; T* total; T* parts; unsigned int* ended; Note note; double smoothing; };
#define EACH(i) for (long long i = threadIdx.x % GROUP; i < a.length; i += GROUP)
#define WEIGHT(i) (a.weight ? wide(a.weight[i]) : T(1))

__device__ inline T all_sum(T x) { return joined<GROUP>(x, [](T a, T b) { return a + b; }); }
/* The logarithm of the sum of exponentials of a row. */
__device__ inline void normalizer(const S* x, long long length, T& top, T& total) {
    top = Ends<T>::lowest();
    total = 0;
    for (long long i = threadIdx.x % GROUP; i < length; i += GROUP) { const T v = wide(x[i]); top = v != v || v > top ? v : top; }
    top = joined<GROUP>(top, [](T a, T b) { return a != a || a > b ? a : b; });
    for (long long i = threadIdx.x % GROUP; i < length; i += GROUP) total += exp(wide(x[i]) - top);
    total = all_sum(total);
}

extern "C" __global__ void __launch_bounds__(256) forward(const Arguments a) {
    T sum = 0, shares = 0;  // of the rows of the group, known to its first thread
    for (long long row = (long long)blockIdx.x * GROUPS + threadIdx.x / GROUP; row < a.rows; row += gridDim.x * GROUPS) {
        const long long there = (long long)a.target[row];
        const bool counts = there != a.ignored, inside = there >= 0 && there < a.length, first = threadIdx.x % GROUP == 0;
        T loss = 0, share = 0;
        if (counts) {
            const S* const x = a.x + row * a.length;
            share = inside ? WEIGHT(there) : T(0);
#if FORM == 1
            loss = inside ? share * -wide(x[there]) : T(nan(""));
#elif FORM >= 2
            const T own = inside ? T(a.smoothing) - wide(x[there]) : T(nan(""));
            T over = 0;
            EACH(i) {
                const T v = own + wide(x[i]);
                if (i != there) over += v < 0 ? T(0) : FORM == 3 ? v * v : v;
            }
            loss = share * all_sum(over) / T(a.length);
            share = 1;
#else
            T top, total;
            normalizer(x, a.length, top, total);
            const T log_total = log(total) + top;
            loss = inside ? share * (log_total - wide(x[there])) : T(nan(""));
            if (a.smoothing) {
                T spread = 0;
                EACH(i) spread += WEIGHT(i) * (log_total - wide(x[i]));
                loss = T(1 - a.smoothing) * loss + T(a.smoothing / a.length) * all_sum(spread);
            }
#endif
        }
        if (!first) continue;
        if (counts && !inside) leave(a.note, there);
        if (a.reduction == 0) put(a.out[row], loss);
        sum += loss;
        shares += share;
    }
    __shared__ bool last;
    sum = joined<THREADS>(sum, [](T a, T b) { return a + b; });
    shares = joined<THREADS>(shares, [](T a, T b) { return a + b; });
    const unsigned int blocks = gridDim.x;
    if (threadIdx.x == 0) {
        a.parts[blockIdx.x] = sum;
        a.parts[blocks + blockIdx.x] = shares;
        __threadfence();
        last = atomicAdd(a.ended, 1u) == blocks - 1;
    }
    __syncthreads();
    if (!last) return;
    __threadfence();
    sum = shares = 0;
    const volatile T* const parts = a.parts;
    for (unsigned int i = threadIdx.x; i < blocks; i += THREADS) sum += parts[i], shares += parts[blocks + i];
    sum = joined<THREADS>(sum, [](T a, T b) { return a + b; });
    shares = joined<THREADS>(shares, [](T a, T b) { return a + b; });
    if (threadIdx.x) return;
    if (a.reduction) put(a.out[0], a.reduction == 2 ? sum / shares : sum);
    *a.total = shares;
    *a.ended = 0;
}

extern "C" __global__ void __launch_bounds__(256) backward(const Arguments a) {
    const long long row = (long long)blockIdx.x * GROUPS + threadIdx.x / GROUP, at = row * a.length;
    if (row >= a.rows) return;
    const long long there = (long long)a.target[row];
    if (there == a.ignored) {
        EACH(i) put(a.out[at + i], T(0));
        return;
    }
    const bool inside = there >= 0 && there < a.length;
    const T g = a.reduction == 0 ? wide(a.g[row]) : a.reduction == 2 ? wide(a.g[0]) / *a.total : wide(a.g[0]);
#if FORM == 1
    const T one = inside ? -g * WEIGHT(there) : T(0);
    EACH(i) put(a.out[at + i], i == there ? one : T(0));
#elif FORM >= 2
    const T scale = inside ? g * WEIGHT(there) / T(a.length) : T(0);
    const T own = inside ? T(a.smoothing) - wide(a.x[at + there]) : T(0);
    T sum = 0;
    EACH(i) {
        const T v = own + wide(a.x[at + i]);
        const T slope = i == there ? T(0) : v > 0 ? (FORM == 3 ? 2 * v * scale : scale) : v != v ? v : T(0);
        sum += slope;
        if (i != there) put(a.out[at + i], slope);
    }
    sum = all_sum(sum);
    if (inside && threadIdx.x % GROUP == 0) put(a.out[at + there], -sum);
#else
    T top, total, every = T(a.length);
    normalizer(a.x + at, a.length, top, total);
    if (a.smoothing && a.weight) {
        every = 0;
        EACH(i) every += wide(a.weight[i]);
        every = all_sum(every);
    }
    const T one = inside ? g * WEIGHT(there) * T(1 - a.smoothing) : T(0);
    const T each = g * T(a.smoothing / a.length), scale = (one + each * every) / total;
    EACH(i) put(a.out[at + i], exp(wide(a.x[at + i]) - top) * scale - (i == there ? one : T(0)) - each * WEIGHT(i));
#endif
}
"""
_LAYOUT = "4q8q3qd"


def class_loss_for(x: Any, target: Any, weight: Any) -> Any:
    """Return this module if it supports these arrays: scores (rows, classes), a class number for each row, and class
    weights or None.
    """
    if x.ndim != 2 or x.dtype.char not in COMPUTED or not x.size or not x._c_contiguous:
        return None
    if target.__class__ is not x.__class__ or target.dtype.char not in INTEGERS or not target._c_contiguous:
        return None
    if weight is not None and (weight.__class__ is not x.__class__ or weight.dtype != x.dtype or not weight._c_contiguous):
        return None
    return sys.modules[__name__]


def source(char: str, index: str, group: int, form: str = "softmax") -> str:
    """Return the text of both kernels for dtypes of scores and targets, the number of threads per row, and a form."""
    types = f"typedef {COMPUTED[char]} T; typedef {STORED[char]} S; typedef {INTEGERS[index]} I; enum {{ GROUP = {group} }};"
    return f"{HEAD}{types}{NOTE}\n#define FORM {_FORMS[form]}\n{_SOURCE}"


@functools.lru_cache(maxsize=64)
def _kernel(name: str, char: str, index: str, group: int, form: str, device: int) -> launch.Kernel:
    return launch.Kernel(source(char, index, group, form), _LAYOUT, name=name)


@functools.lru_cache(maxsize=64)
def _ended(device: int, stream: int) -> Any:
    """Return the counter of finished blocks, shared by the kernels of a stream, which run one after another. It is zero
    between them.
    """
    return library.device_library.zeros(1, np.uint32)


def _group(length: int) -> int:
    return 32 if length <= _SHORT else _THREADS


def class_loss(
    x: Any, target: Any, weight: Any, ignored: int, smoothing: float, reduction: str, error: Callable[[int], Exception],
    form: str = "softmax",
) -> tuple[Any, Any]:  # fmt: skip
    """Return the loss, and the sum of the weights of the rows that count; `error` makes the exception for a target that
    is no class. For margins, `smoothing` is the margin.
    """
    (rows, length), computed = x.shape, launch.summed_in(x.dtype)
    group, device = _group(length), x.data.device_id
    blocks = min(_MOST_BLOCKS, -(-rows * group // _THREADS))
    out = launch.new((rows,) if reduction == "none" else (), x.dtype)
    total, parts = launch.new((), computed), launch.new((2 * blocks,), computed)
    if graph_recording.active is None:
        ended = _ended(device, library.device_library.cuda.get_current_stream().ptr)
    else:  # a graph may run concurrently with others recorded on the same stream
        ended = library.device_library.zeros(1, np.uint32)
    places = [0 if a is None else a.data.ptr for a in (x, target, weight, None, out, total, parts, ended)]
    kernel = _kernel("forward", x.dtype.char, target.dtype.char, group, form, device)
    kernel(blocks, _THREADS, rows, length, ignored, _REDUCTIONS[reduction], *places, *notes(device).words(error), smoothing)
    return out, total


def class_loss_gradient(
    g: Any, x: Any, target: Any, weight: Any, total: Any, ignored: int, smoothing: float, reduction: str,
    form: str = "softmax",
) -> Any:  # fmt: skip
    """Return the gradient in x."""
    (rows, length), group = x.shape, _group(x.shape[1])
    out = launch.new(x.shape, x.dtype)
    places = [0 if a is None else a.data.ptr for a in (x, target, weight, g, out, total, None, None)]
    kernel = _kernel("backward", x.dtype.char, target.dtype.char, group, form, x.data.device_id)
    blocks = -(-rows * group // _THREADS)
    kernel(blocks, _THREADS, rows, length, ignored, _REDUCTIONS[reduction], *places, 0, 0, 0, smoothing)
    return out
