"""Convolution and pooling on a device, with the names and the meaning of those in ndgrad._src.compiler.kernels.arrays.

cuDNN computes convolutions for which it has a plan. Otherwise a convolution is a product of matrices: a kernel lays out
the inputs of each output as columns, and cuBLAS multiplies. The adjoint in the input adds columns. Each input gathers
its contributions, so no two threads write to one place, and a result is the same in every run. Samples are processed in
groups, so that columns have bounded size. All kernels have three spatial dimensions; missing ones have the size one.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ndgrad._src.arrays import library
from ndgrad._src.arrays.convolution import axes_of, require_output_shape
from ndgrad._src.arrays.correlation import Axis
from ndgrad._src.compiler.cuda import cudnn, launch
from ndgrad._src.compiler.cuda.copies import in_order
from ndgrad._src.compiler.cuda.products import multiply
from ndgrad._src.compiler.cuda.values import COMPUTED, PRELUDE, STORED
from ndgrad._src.foundations.bounded_tables import make_room

#: Maximum bytes of the columns at a time, and threads of a block.
_WORKSPACE = 1 << 29
_THREADS = 256
_PLACES = np.dtype(np.int64)

#: For each axis: its size, taps, stride, dilation, padding and outputs.
_GEOMETRY = """
struct Axis { int size, taps, stride, dilation, padding, out; };
struct Place { int d, h, w; };
__device__ inline Place place(long long i, int heights, int widths) {
    return { (int)(i / widths / heights), (int)(i / widths % heights), (int)(i % widths) };
}
__device__ inline int read(Axis a, int o, int tap) { return o * a.stride + tap * a.dilation - a.padding; }
// the output that reads an input through a tap, -1 if none does
__device__ inline int reader(Axis a, int at, int tap) {
    const int o = at + a.padding - tap * a.dilation;
    return o < 0 || o % a.stride || o / a.stride >= a.out ? -1 : o / a.stride;
}
#define TAPS for (int d = 0; d < a.d.taps; ++d) for (int h = 0; h < a.h.taps; ++h) for (int w = 0; w < a.w.taps; ++w)
"""

#: Kernel -> the pointers of its argument, the element of a thread (an output or an input), and its lines: `plane` and
#: `p` are its position, `i` its number.
_SOURCES = {
    "columns": ("S* cols; const S* x;", "out", """
        const S* x = a.x + plane * size;
        S* to = a.cols + plane * taps * outs + i % outs;
        TAPS {
            const int y = read(a.d, p.d, d), u = read(a.h, p.h, h), v = read(a.w, p.w, w);
            const bool inside = y >= 0 && y < a.d.size && u >= 0 && u < a.h.size && v >= 0 && v < a.w.size;
            S value = {};
            if (inside) value = x[((long long)y * a.h.size + u) * a.w.size + v];
            *to = value;
            to += outs;
        }
    """),
    "gathered": ("S* x; const S* cols;", "in", """
        T total = 0;
        const S* from = a.cols + plane * taps * outs;
        TAPS {
            const int y = reader(a.d, p.d, d), u = reader(a.h, p.h, h), v = reader(a.w, p.w, w);
            if (y >= 0 && u >= 0 && v >= 0) total += wide(from[((long long)y * a.h.out + u) * a.w.out + v]);
            from += outs;
        }
        put(a.x[i], total);
    """),
    "max_pool": ("S* out; long long* places; const S* x;", "out", """
        const S* x = a.x + plane * size;
        T best = -__int_as_float(0x7f800000);
        long long at = -1;
        TAPS {
            const int y = read(a.d, p.d, d), u = read(a.h, p.h, h), v = read(a.w, p.w, w);
            if (y < 0 || y >= a.d.size || u < 0 || u >= a.h.size || v < 0 || v >= a.w.size) continue;
            const long long here = ((long long)y * a.h.size + u) * a.w.size + v;
            const T value = wide(x[here]);
            if (at < 0 || value > best || value != value) { best = value; at = here; }
        }
        put(a.out[i], best);
        a.places[i] = at;
    """),
    "max_pool_grad": ("T* out; const S* g; const long long* places;", "out", """
        const long long at = a.places[i];
        if (at >= 0 && at < size) atomicAdd(a.out + plane * size + at, wide(a.g[i]));
    """),
    "avg_pool": ("S* out; const S* x; const long long* counts;", "out", """
        const S* x = a.x + plane * size;
        T total = 0;
        TAPS {
            const int y = read(a.d, p.d, d), u = read(a.h, p.h, h), v = read(a.w, p.w, w);
            if (y < 0 || y >= a.d.size || u < 0 || u >= a.h.size || v < 0 || v >= a.w.size) continue;
            total += wide(x[((long long)y * a.h.size + u) * a.w.size + v]);
        }
        put(a.out[i], total / T(a.counts[i % outs]));
    """),
    "avg_pool_grad": ("S* x; const S* g; const long long* counts;", "in", """
        T total = 0;
        const S* g = a.g + plane * outs;
        TAPS {
            const int y = reader(a.d, p.d, d), u = reader(a.h, p.h, h), v = reader(a.w, p.w, w);
            if (y < 0 || u < 0 || v < 0) continue;
            const long long o = ((long long)y * a.h.out + u) * a.w.out + v;
            total += wide(g[o]) / T(a.counts[o]);
        }
        put(a.x[i], total);
    """),
}  # fmt: skip


@functools.lru_cache(maxsize=128)
def _kernel(name: str, char: str, device: int) -> launch.Kernel:
    pointers, over, lines = _SOURCES[name]
    height, width, whole = ("a.h.out", "a.w.out", "outs") if over == "out" else ("a.h.size", "a.w.size", "size")
    code = f"""{PRELUDE}typedef {COMPUTED[char]} T; typedef {STORED[char]} S;{_GEOMETRY}
struct Arguments {{ long long count; {pointers} Axis d, h, w; }};
extern "C" __global__ void __launch_bounds__({_THREADS}) kernel(const Arguments a) {{
    const long long i = (long long)blockIdx.x * {_THREADS} + threadIdx.x;
    if (i >= a.count) return;
    const long long outs = (long long)a.d.out * a.h.out * a.w.out, size = (long long)a.d.size * a.h.size * a.w.size;
    const long long taps = (long long)a.d.taps * a.h.taps * a.w.taps;
    const long long plane = i / {whole};
    const Place p = place(i % {whole}, {height}, {width});
{lines}
}}
"""
    return launch.Kernel(code, f"{1 + pointers.count('*')}q18i0q")


def _run(name: str, like: Any, count: int, axes: Sequence[Axis], *arrays: Any) -> None:
    """Start a kernel with a thread for each of `count` elements."""
    kernel = _kernel(name, like.dtype.char, like.data.device_id)
    kernel(-(-count // _THREADS), _THREADS, count, *[a.data.ptr for a in arrays], *_words(tuple(axes)))


@functools.lru_cache(maxsize=1024)
def _words(axes: tuple[Axis, ...]) -> tuple[int, ...]:
    """Return the words that describe axes to kernels: three, of which the first may be of size one."""
    three = (*[Axis(1, 1, 1, 1, 0, 1)] * (3 - len(axes)), *axes)
    return tuple([n for a in three for n in (a.size, a.taps, a.stride, a.dilation, a.before, a.out)])


def windows_for(x: Any, *others: Any) -> Any:
    """Return this module if its kernels support these arrays: of one floating dtype, in up to three spatial dimensions.
    """
    if x.dtype.char not in COMPUTED or not 3 <= x.ndim <= 5 or not 0 < x.size < 1 << 31:
        return None
    return None if any(y.dtype != x.dtype or not y.size for y in others) else sys.modules[__name__]


# ----- convolution ----------------------------------------------------------------------------------------------------

#: Maximum number of kinds of convolutions that are remembered.
_MOST = 512


class _Asked(NamedTuple):
    """The parameters of a kind of convolution."""

    #: shapes of the result, and of the result of `conv`
    shape: tuple[int, ...]
    output: tuple[int, ...]
    bytes: int
    axes: tuple[Axis, ...]
    #: cuDNN's plan; None if it has none
    plan: Any


_asked: dict[Any, _Asked] = {}


def _ask(
    kind: str, like: Any, x: tuple[int, ...], w: tuple[int, ...], stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], groups: int,
) -> _Asked:  # fmt: skip
    """Return the parameters of a convolution ("forward"), or one of its adjoints (in "input" or "weight"), of such
    shapes.
    """
    key = (
        kind, x, w, stride, padding, dilation, groups, like.dtype.char, like.data.device_id, cudnn.convolution_switches()
    )  # fmt: skip
    try:
        found = _asked.get(key)
    except TypeError:  # settings in lists
        return _ask(kind, like, x, w, tuple(stride), tuple(padding), tuple(dilation), groups)
    if found is None:
        make_room(_asked, _MOST)
        axes = axes_of(x, w, stride, padding, dilation, groups)
        y = (x[0], w[0], *[a.out for a in axes])
        shape = {"forward": y, "input": x, "weight": w}[kind]
        plan = cudnn.convolution(kind, like, x, w, y, axes)
        found = _asked[key] = _Asked(shape, y, prod(shape) * like.dtype.itemsize, axes, plan)
    return found


def conv(x: Any, w: Any, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int], groups: int) -> Any:
    """Cross-correlate x (N, C, *S) with w (M, C / groups, *K), giving (N, M, *O)."""
    x, w = in_order(x), in_order(w)
    asked = _ask("forward", x, x.shape, w.shape, stride, padding, dilation, groups)
    out = launch.array(asked.shape, x.dtype, launch.allocate(asked.bytes))
    if asked.plan is not None:
        asked.plan(_aligned(x), _aligned(w), out)
        return out
    axes, m = asked.axes, len(w)
    weights, outs = w.reshape(groups, m // groups, -1), prod(asked.shape[2:])
    for part, columns in _in_parts(x, axes, groups):
        _multiply(weights, columns, out[part].reshape(-1, groups, m // groups, outs))
    return out


def conv_input_grad(
    g: Any, w: Any, x_shape: Sequence[int], stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int],
    groups: int,
) -> Any:  # fmt: skip
    """Return the adjoint of `conv` in x: g (N, M, *O) and w (M, C / groups, *K) give (N, C, *S)."""
    g, w = in_order(g), in_order(w)
    asked = _ask("input", g, tuple(x_shape), w.shape, stride, padding, dilation, groups)
    if g.shape != asked.output:
        require_output_shape(g, x_shape, w.shape, asked.axes)
    out = launch.array(asked.shape, g.dtype, launch.allocate(asked.bytes))
    if asked.plan is not None:
        asked.plan(out, _aligned(w), _aligned(g))
        return out
    n, m, axes = len(g), len(w), asked.axes
    outs = prod(a.out for a in axes)
    weights = w.reshape(groups, m // groups, -1).swapaxes(1, 2)
    for part in _parts(n, x_shape[1], axes, g.dtype.itemsize):
        grads = g[part].reshape(-1, groups, m // groups, outs)
        columns = launch.new((len(grads), groups, weights.shape[1], outs), g.dtype)
        _multiply(weights, grads, columns)
        _run("gathered", g, prod(out[part].shape), axes, out[part], columns)
    return out


def conv_weight_grad(
    g: Any, x: Any, w_shape: Sequence[int], stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int],
    groups: int,
) -> Any:  # fmt: skip
    """Return the adjoint of `conv` in w: g (N, M, *O) and x (N, C, *S) give (M, C / groups, *K)."""
    g, x = in_order(g), in_order(x)
    asked = _ask("weight", g, x.shape, tuple(w_shape), stride, padding, dilation, groups)
    if g.shape != asked.output:
        require_output_shape(g, x.shape, w_shape, asked.axes)
    if asked.plan is not None:
        out = launch.array(asked.shape, g.dtype, launch.allocate(asked.bytes))
        asked.plan(_aligned(x), out, _aligned(g))
        return out
    axes, m = asked.axes, w_shape[0]
    outs, computed = prod(a.out for a in axes), launch.summed_in(g.dtype)
    total = launch.shaped(launch.zeros(m * prod(w_shape[1:]), computed), (groups, m // groups, prod(w_shape[1:])))
    for part, columns in _in_parts(x, axes, groups):
        grads = g[part].reshape(-1, groups, m // groups, outs)
        made = launch.new((len(grads), *total.shape), computed)
        _multiply(grads, columns.swapaxes(-1, -2), made)
        total += made.sum(axis=0)
    return total.reshape(tuple(w_shape)).astype(g.dtype, copy=False)


def _aligned(a: Any) -> Any:
    """Return an array with the alignment that cuDNN's engines require: itself, or a copy."""
    return a if not a.data.ptr % 16 else a.copy()


def _in_parts(x: Any, axes: Sequence[Axis], groups: int) -> Any:
    """Yield groups of samples with the columns of their inputs, (N, groups, C / groups * taps, outputs)."""
    outs, taps = prod(a.out for a in axes), prod(a.taps for a in axes)
    for part in _parts(len(x), x.shape[1], axes, x.dtype.itemsize):
        inputs = x[part]
        columns = launch.new((len(inputs), groups, x.shape[1] // groups * taps, outs), x.dtype)
        _run("columns", x, len(inputs) * x.shape[1] * outs, axes, columns, inputs)
        yield part, columns


def _parts(samples: int, channels: int, axes: Sequence[Axis], itemsize: int) -> list[slice]:
    each = max(1, channels * prod(a.taps * a.out for a in axes) * itemsize)
    step = max(1, _WORKSPACE // each)
    return [slice(i, min(i + step, samples)) for i in range(0, samples, step)]


def _multiply(a: Any, b: Any, out: Any) -> None:
    """Compute the products of matrices (samples, groups, rows, columns), of which the first may be the same for all
    samples.
    """
    samples, groups = out.shape[:2]
    a = library.device_library.broadcast_to(a, (samples, *a.shape[-3:]))
    if samples < groups:
        for i in range(samples):
            multiply(a[i], b[i], out[i])
    else:
        for i in range(groups):
            multiply(a[:, i], b[:, i], out[:, i])


# ----- pooling --------------------------------------------------------------------------------------------------------


def max_pool(x: Any, axes: Sequence[Axis]) -> tuple[Any, Any]:
    """Return the maxima of x (N, C, *S) over windows, and their places in the planes."""
    shape = (*x.shape[:2], *[a.out for a in axes])
    out, places = launch.new(shape, x.dtype), launch.new(shape, _PLACES)
    _run("max_pool", x, out.size, axes, out, places, x)
    return out, places


def max_pool_grad(g: Any, places: Any, axes: Sequence[Axis]) -> Any:
    """Add each g (N, C, *O) at its place, giving (N, C, *S)."""
    computed = launch.summed_in(g.dtype)
    out = launch.new((*g.shape[:2], *[a.size for a in axes]), computed)
    out.data.memset_async(0, out.nbytes)
    _run("max_pool_grad", g, g.size, axes, out, g, places)
    return out if computed is g.dtype or computed == g.dtype else out.astype(g.dtype)


def avg_pool(x: Any, axes: Sequence[Axis], counts: Any) -> Any:
    """Return the means of x (N, C, *S) over windows, with the divisors of `pooling_counts`."""
    out = launch.new((*x.shape[:2], *(a.out for a in axes)), x.dtype)
    _run("avg_pool", x, out.size, axes, out, x, counts)
    return out


def avg_pool_grad(g: Any, axes: Sequence[Axis], counts: Any) -> Any:
    """Return the adjoint of `avg_pool`: g (N, C, *O) gives (N, C, *S)."""
    out = launch.new((*g.shape[:2], *(a.size for a in axes)), g.dtype)
    _run("avg_pool_grad", g, out.size, axes, out, g, counts)
    return out


def pooling_counts(counts: Sequence[Any], override: int | None = None) -> Any:
    """Return the divisors of averages, from the counts of each axis for each of its outputs, or a given number for all.
    """
    return _counts(tuple([tuple(c.tolist()) for c in counts]), override)


@functools.lru_cache(maxsize=64)
def _counts(counts: tuple[tuple[int, ...], ...], override: int | None) -> Any:
    outer: Callable[..., Any] = np.multiply.outer
    found = functools.reduce(outer, [np.array(c, np.int64) for c in counts])
    return library.device_library.asarray(found if override is None else np.full(found.shape, override, np.int64))
