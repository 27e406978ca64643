"""Kernels over rows on a device: softmax, cross entropy and normalisation, with the names and the meaning of those in
ndgrad._src.compiler.kernels.eager.

A block processes a row. Its threads read the row two or three times, after the first time from caches. `all_sum` and
`all_max` combine the sums and maxima of threads over the block. Halves are summed in single precision. Sums over rows,
for the gradients of weights, are taken by pieces of rows. Their number depends only on the sizes, so a result is the
same in every run.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

from ndgrad._src.compiler.cuda import launch
from ndgrad._src.compiler.cuda.columns import ALL_SUMS, column_sum, column_sums
from ndgrad._src.compiler.cuda.values import COMPUTED, PRELUDE, STORED

__all__ = ["column_sum"]

#: Maximum number of threads of a block.
_MOST_THREADS = 512

_EACH = "#define EACH(i) for (long long i = threadIdx.x; i < a.length; i += blockDim.x)"
#: Kernel -> the fields of its argument besides the number of rows and their length, and its lines. `row` is the number
#: of the row, `at` its first element.
_SOURCES = {
    "softmax": (
        "S* out; const S* x;",
        """
        T top = -infinity, total = 0;
        EACH(i) { const T v = wide(a.x[at + i]); top = v != v || v > top ? v : top; }
        top = all_max(top);
        EACH(i) total += exp(wide(a.x[at + i]) - top);
        const T scale = T(1) / all_sum(total);
        EACH(i) put(a.out[at + i], exp(wide(a.x[at + i]) - top) * scale);
        """,
    ),
    "softmax_slope": (
        "S* out; const S* t; const S* y; double scale;",
        """
        T total = 0;
        EACH(i) total += wide(a.t[at + i]) * wide(a.y[at + i]);
        total = all_sum(total);
        EACH(i) put(a.out[at + i], (wide(a.t[at + i]) - total) * wide(a.y[at + i]) * T(a.scale));
        """,
    ),
    "exponentials": (
        "S* x; S* total; double masked;",
        """
        T top = -infinity, total = 0;
        EACH(i) { const T v = wide(a.x[at + i]); top = v != v || v > top ? v : top; }
        top = all_max(top);
        const bool nothing = a.masked && top == -infinity;
        EACH(i) {
            const T e = nothing ? T(0) : exp(wide(a.x[at + i]) - top);
            put(a.x[at + i], e);
            total += e;
        }
        total = all_sum(total);
        if (threadIdx.x == 0) put(a.total[row], nothing ? T(1) : total);
        """,
    ),
    "attention_weights": (
        "S* out; const T* x; double scale; double queries;",
        """
        const long long seen = a.queries ? row % (long long)a.queries + 1 : a.length;
        const long long keys = seen < a.length ? seen : a.length;
        T top = -infinity, total = 0;
        for (long long i = threadIdx.x; i < keys; i += blockDim.x) {
            const T v = a.x[at + i] * T(a.scale);
            top = v != v || v > top ? v : top;
        }
        top = all_max(top);
        for (long long i = threadIdx.x; i < keys; i += blockDim.x) total += exp(a.x[at + i] * T(a.scale) - top);
        const T share = T(1) / all_sum(total);
        EACH(i) put(a.out[at + i], i < keys ? exp(a.x[at + i] * T(a.scale) - top) * share : T(0));
        """,
    ),
    "attention_slope": (
        "S* out; const T* t; const S* y; double scale;",
        """
        T total = 0;
        EACH(i) total += a.t[at + i] * wide(a.y[at + i]);
        total = all_sum(total);
        EACH(i) put(a.out[at + i], (a.t[at + i] - total) * wide(a.y[at + i]) * T(a.scale));
        """,
    ),
    "cross_entropy": (
        "S* out; const S* x; const long long* target;",
        """
        T top = -infinity, total = 0;
        EACH(i) { const T v = wide(a.x[at + i]); top = v != v || v > top ? v : top; }
        top = all_max(top);
        EACH(i) total += exp(wide(a.x[at + i]) - top);
        total = all_sum(total);
        const long long there = a.target[row];
        const T chosen = there >= 0 && there < a.length ? wide(a.x[at + there]) : nan("");
        if (threadIdx.x == 0) put(a.out[row], log(total) + top - chosen);
        """,
    ),
    "cross_entropy_gradient": (
        "S* out; const S* x; const long long* target; const S* g;",
        """
        T top = -infinity, total = 0;
        EACH(i) { const T v = wide(a.x[at + i]); top = v != v || v > top ? v : top; }
        top = all_max(top);
        EACH(i) total += exp(wide(a.x[at + i]) - top);
        const T g = wide(a.g[row]), scale = g / all_sum(total);
        const long long there = a.target[row];
        EACH(i) put(a.out[at + i], exp(wide(a.x[at + i]) - top) * scale - (i == there ? g : T(0)));
        """,
    ),
    "layer_norm_gradient": (
        "S* out; const S* g; const S* x; const S* w; T* means; T* scales; double eps;",
        """
        T total = 0, squares = 0, along = 0, sum = 0;
        EACH(i) total += wide(a.x[at + i]);
        const T mean = all_sum(total) / a.length;
        EACH(i) { const T d = wide(a.x[at + i]) - mean; squares += d * d; }
        const T scale = rsqrt(all_sum(squares) / a.length + T(a.eps));
        EACH(i) {
            const T d = wide(a.g[at + i]) * wide(a.w[i]);
            along += d * (wide(a.x[at + i]) - mean) * scale;
            sum += d;
        }
        along = all_sum(along) / a.length;
        sum = all_sum(sum) / a.length;
        EACH(i) {
            const T d = wide(a.g[at + i]) * wide(a.w[i]);
            put(a.out[at + i], (d - sum - (wide(a.x[at + i]) - mean) * scale * along) * scale);
        }
        if (threadIdx.x == 0) { a.means[row] = mean; a.scales[row] = scale; }
        """,
    ),
    "rms_norm_gradient": (
        "S* out; const S* g; const S* x; const S* w; T* means; T* scales; double eps;",
        """
        T squares = 0, along = 0;
        EACH(i) { const T v = wide(a.x[at + i]); squares += v * v; }
        const T scale = rsqrt(all_sum(squares) / a.length + T(a.eps));
        EACH(i) along += wide(a.g[at + i]) * wide(a.w[i]) * wide(a.x[at + i]) * scale;
        along = all_sum(along) / a.length;
        EACH(i) {
            const T d = wide(a.g[at + i]) * wide(a.w[i]);
            put(a.out[at + i], (d - wide(a.x[at + i]) * scale * along) * scale);
        }
        if (threadIdx.x == 0) { a.means[row] = 0; a.scales[row] = scale; }
        """,
    ),
}

#: Sums over the rows of a piece, for the gradients of weights and shifts: a thread processes a column. The numbers per
#: row are null if only g itself is summed.


def rows_for(x: Any, *others: Any) -> Any:
    """Return this module if its kernels support these arrays: of one floating dtype, without gaps."""
    if x.dtype.char not in COMPUTED or not x._c_contiguous or not x.size:
        return None
    for y in others:
        if y.__class__ is not x.__class__ or y.dtype != x.dtype or not y._c_contiguous:
            return None
    return sys.modules[__name__]


@functools.lru_cache(maxsize=256)
def _kernel(name: str, char: str, device: int) -> launch.Kernel:
    fields, lines = _SOURCES[name]
    types = f"typedef {COMPUTED[char]} T; typedef {STORED[char]} S;"
    code = f"""{PRELUDE}{types}{ALL_SUMS}{_EACH}
struct Arguments {{ long long rows; long long length; {fields} }};
extern "C" __global__ void kernel(const Arguments a) {{
    const T infinity = __int_as_float(0x7f800000);
    const long long row = blockIdx.x, at = row * a.length;
{lines}
}}
"""
    pointers = fields.count("*")
    return launch.Kernel(code, f"{2 + pointers}q{fields.count('double')}d")


def _run(name: str, x: Any, length: int, *words: Any) -> None:
    """Start a kernel over the rows of x."""
    threads = min(_MOST_THREADS, max(32, 32 * (-(-length // 128))))
    _kernel(name, x.dtype.char, x.data.device_id)(x.size // length, threads, x.size // length, length, *words)


def run_rows(name: str, x: Any, length: int, *words: Any) -> None:
    """Start a kernel over rows, with arrays among the words of the argument."""
    _run(name, x, length, *[w if w.__class__ is float else _address(w) for w in words])


def _like(x: Any) -> Any:
    return launch.new(x.shape, x.dtype)


def _address(x: Any) -> int:
    """Return the address of an array, 0 for none."""
    return 0 if x is None else int(x.data.ptr)


# ----- softmax --------------------------------------------------------------------------------------------------------


def softmax(x: Any) -> Any:
    """Return softmax along the last dimension."""
    out = _like(x)
    _run("softmax", x, x.shape[-1], _address(out), _address(x))
    return out


def softmax_slope(t: Any, y: Any, scale: float = 1.0, out: Any = None) -> Any:
    """Return (t - sum(t y)) y scale along the last dimension, in new memory or in that of t."""
    out = _like(t) if out is None else out
    _run("softmax_slope", t, t.shape[-1], _address(out), _address(t), _address(y), scale)
    return out


def exponentials(x: Any, masked: bool) -> Any:
    """Replace x by e^(x - top) along the last dimension, and return the sums.

    `masked`: a row of nothing but -inf becomes zeros, with the sum 1.
    """
    shape = (*x.shape[:-1], 1)
    total = launch.new(shape, x.dtype)
    _run("exponentials", x, x.shape[-1], _address(x), _address(total), float(masked))
    return total


def cross_entropy(x: Any, target: Any) -> Any:
    """Return logsumexp(x) - x[target] of each row."""
    out = launch.new((len(x),), x.dtype)
    _run("cross_entropy", x, x.shape[1], _address(out), _address(x), _address(target))
    return out


def cross_entropy_gradient(x: Any, target: Any, g: Any) -> Any:
    """Return (softmax(x) - one hot) g of each row."""
    out = _like(x)
    _run("cross_entropy_gradient", x, x.shape[1], _address(out), _address(x), _address(target), _address(g))
    return out


# ----- normalisation --------------------------------------------------------------------------------------------------


def layer_norm_gradient(g: Any, x: Any, w: Any, eps: float) -> tuple[Any, Any, Any]:
    """Return the gradients in x, w and b, for w with the last sizes of x."""
    out, numbers, step = _norm_gradient("layer_norm_gradient", g, x, w, eps)
    grad_w, grad_b = column_sums(g, x, numbers.ptr, numbers.ptr + step, w.size)
    return out, _shaped(grad_w, w.shape), _shaped(grad_b, w.shape)


def rms_norm_gradient(g: Any, x: Any, w: Any, eps: float) -> tuple[Any, Any]:
    """Return the gradients in x and w."""
    out, numbers, step = _norm_gradient("rms_norm_gradient", g, x, w, eps)
    return out, _shaped(column_sums(g, x, numbers.ptr, numbers.ptr + step, w.size)[0], w.shape)


def _shaped(a: Any, shape: tuple[int, ...]) -> Any:
    """Return the array itself if possible, so that the engine can keep it as a gradient without a copy."""
    return a if a.shape == shape else a.reshape(shape)


def _norm_gradient(name: str, g: Any, x: Any, w: Any, eps: float) -> tuple[Any, Any, int]:
    """Return the gradient in x, and memory with the mean of each row, followed at an offset in bytes by the scales."""
    step = x.size // w.size * launch.summed_in(x.dtype).itemsize
    numbers, out = launch.allocate(2 * step), _like(x)
    _run(name, x, w.size, _address(out), _address(g), _address(x), _address(w), numbers.ptr, numbers.ptr + step, eps)
    return out, numbers, step
