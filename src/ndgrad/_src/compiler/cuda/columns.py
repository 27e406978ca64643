"""Sums over rows on a device, for the gradients of biases and of normalisation's weights, and in-place additions to
each row.

Rows are added by pieces, and the pieces by a second kernel. Their number depends only on the sizes, so a result is the
same in every run. Halves are added in single precision.
"""

from __future__ import annotations

import functools
from math import prod
from typing import Any

from ndgrad._src.compiler.cuda import launch
from ndgrad._src.compiler.cuda.elementwise import BYTES, LARGEST, THREADS
from ndgrad._src.compiler.cuda.values import COMPUTED, PRELUDE, STORED

#: Minimum rows of a piece, and maximum number of pieces.
_PIECE, _MOST_PIECES = 32, 512
#: Columns of a block that adds pieces, and the threads of each.
_WIDE, _DEEP = 32, 16
#: Maximum number of rows that are added without pieces and a second kernel.
_FEW = 1024

#: Reductions over the threads of a block: `all_sum` and `all_max`.
ALL_SUMS = """
template <typename F> __device__ inline T joined(T x, F join) {
    __shared__ T kept[32];
    __syncthreads();
    for (int d = 16; d; d >>= 1) x = join(x, __shfl_xor_sync(0xffffffff, x, d));
    if (threadIdx.x % 32 == 0) kept[threadIdx.x / 32] = x;
    __syncthreads();
    x = kept[0];
    for (int i = 1; i < blockDim.x / 32; ++i) x = join(x, kept[i]);
    return x;
}
__device__ inline T all_sum(T x) { return joined(x, [](T a, T b) { return a + b; }); }
__device__ inline T all_max(T x) { return joined(x, [](T a, T b) { return a != a || a > b ? a : b; }); }
"""

_PIECES = """
struct Arguments { long long rows; long long length; long long piece;
                   const S* g; const S* x; const T* means; const T* scales; T* weights; T* shifts; };
extern "C" __global__ void __launch_bounds__(256) kernel(const Arguments a) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x, column = i % a.length, number = i / a.length;
    const long long first = number * a.piece, last = first + a.piece < a.rows ? first + a.piece : a.rows;
    if (first >= a.rows) return;
    T w = 0, b = 0;
    #pragma unroll 4
    for (long long row = first; row < last; ++row) {
        const T g = wide(a.g[row * a.length + column]);
        if (a.weights) w += g * (wide(a.x[row * a.length + column]) - a.means[row]) * a.scales[row];
        b += g;
    }
    if (a.weights) a.weights[i] = w;
    a.shifts[i] = b;
}
"""

_JOINED = f"""
struct Arguments {{ long long pieces; long long length; const T* parts[2]; S* out[2]; }};
extern "C" __global__ void __launch_bounds__({_WIDE * _DEEP}) kernel(const Arguments a) {{
    __shared__ T kept[{_DEEP}][{_WIDE}];
    const int x = threadIdx.x % {_WIDE}, y = threadIdx.x / {_WIDE};
    const long long column = (long long)blockIdx.x * {_WIDE} + x;
    for (int k = 0; k < 2; ++k) {{
        if (!a.out[k]) continue;
        T total = 0;
        if (column < a.length)
            for (long long p = y; p < a.pieces; p += {_DEEP}) total += a.parts[k][p * a.length + column];
        __syncthreads();
        kept[y][x] = total;
        __syncthreads();
        if (y == 0 && column < a.length) {{
            for (int j = 1; j < {_DEEP}; ++j) total += kept[j][x];
            put(a.out[k][column], total);
        }}
    }}
}}
"""

_WHOLE = f"""
struct Arguments {{ long long rows; long long length; const S* g; const S* x; const T* means; const T* scales; S* out[2]; }};
extern "C" __global__ void __launch_bounds__({_WIDE * _DEEP}) kernel(const Arguments a) {{
    __shared__ T kept[2][{_DEEP}][{_WIDE}];
    const int i = threadIdx.x % {_WIDE}, y = threadIdx.x / {_WIDE};
    const long long column = (long long)blockIdx.x * {_WIDE} + i;
    T w = 0, b = 0;
    if (column < a.length) {{
        #pragma unroll 4
        for (long long row = y; row < a.rows; row += {_DEEP}) {{
            const T g = wide(a.g[row * a.length + column]);
            if (a.out[0]) w += g * (wide(a.x[row * a.length + column]) - a.means[row]) * a.scales[row];
            b += g;
        }}
    }}
    kept[0][y][i] = w;
    kept[1][y][i] = b;
    __syncthreads();
    if (y > 1 || column >= a.length || !a.out[y]) return;
    T total = 0;
    for (int j = 0; j < {_DEEP}; ++j) total += kept[y][j][i];
    put(a.out[y][column], total);
}}
"""

_CHANNELS = ALL_SUMS + """
struct Arguments { long long samples; long long channels; long long inner; long long piece; const S* g; T* parts; };
extern "C" __global__ void __launch_bounds__(256) kernel(const Arguments a) {
    const long long channel = blockIdx.x % a.channels, first = blockIdx.x / a.channels * a.piece;
    const long long last = first + a.piece < a.samples ? first + a.piece : a.samples;
    T total = 0;
    for (long long n = first; n < last; ++n) {
        const S* g = a.g + (n * a.channels + channel) * a.inner;
        for (long long i = threadIdx.x; i < a.inner; i += 256) total += wide(g[i]);
    }
    total = all_sum(total);
    if (threadIdx.x == 0) a.parts[blockIdx.x] = total;
}
"""

_ADDED = """
struct Arguments { long long n; S* x; const S* b; unsigned int length; unsigned int inner; };
extern "C" __global__ void __launch_bounds__(256) kernel(const Arguments a) {
    const long long i = ((long long)blockIdx.x * 256 + threadIdx.x) * WIDTH;
    if (i >= a.n) return;
    typedef Pack<S, WIDTH> Some;
    Some x = *(const Some*)(a.x + i);
    const unsigned int at = (unsigned int)i / a.inner %% a.length;
    %s
    *(Some*)(a.x + i) = x;
}
"""
#: Either a pack of the vector for a pack of elements, if it lies along the last dimension, or one element for all of
#: them.
_SIDE_BY_SIDE = """const Some b = *(const Some*)(a.b + at);
    for (int k = 0; k < WIDTH; ++k) put(x.at[k], wide(x.at[k]) + wide(b.at[k]));"""
_ONE = """const T b = wide(a.b[at]);
    for (int k = 0; k < WIDTH; ++k) put(x.at[k], wide(x.at[k]) + b);"""

#: Lines shorter than _SHORT of which there are more than _MANY are left to CuPy.
_SHORT, _MANY = 64, 1 << 15

_SOURCES = {
    "whole": (_WHOLE, "8q"), "pieces": (_PIECES, "9q"), "joined": (_JOINED, "6q"), "channels": (_CHANNELS, "6q"), "added": (_ADDED % _SIDE_BY_SIDE, "3q2I"),
    "added_one": (_ADDED % _ONE, "3q2I"),
}  # fmt: skip


@functools.lru_cache(maxsize=32)
def _kernel(name: str, char: str, device: int, width: int = 1) -> launch.Kernel:
    body, layout = _SOURCES[name]
    types = f"typedef {COMPUTED[char]} T; typedef {STORED[char]} S; enum {{ WIDTH = {width} }};"
    return launch.Kernel(PRELUDE + types + body, layout)


def column_sums(g: Any, x: Any, means: int, scales: int, length: int) -> tuple[Any, Any]:
    """Return the sums over rows of g and of g times x.

    x is centred and scaled by numbers at these addresses. Without x, the second sum is None.
    """
    rows, char, device = g.size // length, g.dtype.char, g.data.device_id
    if rows <= _FEW:
        made = None if x is None else launch.new((length,), g.dtype), launch.new((length,), g.dtype)
        places = [0 if a is None else a.data.ptr for a in (x, *made)]
        words = g.data.ptr, places[0], means, scales, *places[1:]
        _kernel("whole", char, device)(-(-length // _WIDE), _WIDE * _DEEP, rows, length, *words)
        return made
    piece = max(_PIECE, -(-rows // _MOST_PIECES))
    pieces = -(-rows // piece)
    each = pieces * length * launch.summed_in(g.dtype).itemsize
    parts = launch.allocate(each if x is None else 2 * each)  # memory for shifts, followed by weights
    shifts, weights = parts.ptr, 0 if x is None else parts.ptr + each
    out = None if x is None else launch.new((length,), g.dtype), launch.new((length,), g.dtype)
    given = g.data.ptr, 0 if x is None else x.data.ptr, means, scales
    _kernel("pieces", char, device)(
        -(-pieces * length // THREADS), THREADS, rows, length, piece, *given, weights, shifts
    )
    places = [0 if a is None else a.data.ptr for a in out]
    _kernel("joined", char, device)(-(-length // _WIDE), _WIDE * _DEEP, pieces, length, weights, shifts, *places)
    return out


def column_sum(g: Any) -> Any:
    """Return the sum over all dimensions except the last."""
    return column_sums(g, None, 0, 0, g.shape[-1])[1]


def channel_sum(g: Any) -> Any:
    """Return the sum of g (N, C, inner) over its first and last dimension."""
    samples, channels, inner = g.shape
    piece = -(-samples // max(1, min(samples, _MOST_PIECES // channels)))
    pieces = -(-samples // piece)
    char, device = g.dtype.char, g.data.device_id
    out = launch.new((channels,), g.dtype)
    if pieces == 1 and char in "fd":
        _kernel("channels", char, device)(channels, THREADS, samples, channels, inner, piece, g.data.ptr, out.data.ptr)
        return out
    parts = launch.allocate(pieces * channels * launch.summed_in(g.dtype).itemsize)
    words = samples, channels, inner, piece, g.data.ptr, parts.ptr
    _kernel("channels", char, device)(pieces * channels, THREADS, *words)
    places = 0, parts.ptr, 0, out.data.ptr
    _kernel("joined", char, device)(-(-channels // _WIDE), _WIDE * _DEEP, pieces, channels, *places)
    return out


def add_along(x: Any, b: Any, dim: int) -> bool:
    """Add the elements of a vector to x along one of its dimensions, in place. Return False if it is not supported
    here.
    """
    if x.dtype.char not in COMPUTED or b.dtype != x.dtype or not x._c_contiguous or not b._c_contiguous:
        return False
    if not 0 < x.size < LARGEST:
        return False
    inner = x.strides[dim] // x.dtype.itemsize
    count, length, width = x.size, b.size, BYTES // x.dtype.itemsize
    aligned = not (x.data.ptr | b.data.ptr) % BYTES
    if inner == 1 and aligned and length % width == 0:
        kernel = _kernel("added", x.dtype.char, x.data.device_id, width)
    else:
        width = width if aligned and inner % width == 0 else 1
        kernel = _kernel("added_one", x.dtype.char, x.data.device_id, width)
    kernel(-(-count // (256 * width)), 256, count, x.data.ptr, b.data.ptr, length, inner)
    return True


# ----- an op ----------------------------------------------------------------------------------------------------------


def sum_over(operands: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Return the sum over first and last dimensions; None if it is over others, or left to CuPy."""
    x, dims = operands[0], settings["dim"]
    if x.dtype.char not in COMPUTED or settings.get("dtype") is not None or not x.size:
        return None
    given = x.shape
    kept = [d for d in range(x.ndim) if d not in dims]
    wanted = tuple([1 if d in dims else n for d, n in enumerate(given)] if settings.get("keepdim") else [given[d] for d in kept])
    if not x._c_contiguous:  # the order of dimensions that are summed over does not matter
        order = sorted(range(x.ndim), key=lambda d: -x.strides[d])
        x = x.transpose(order)
        in_memory = [d for d in order if d in kept]
        if not x._c_contiguous or in_memory != kept:
            return None
        kept = [order.index(d) for d in kept]
    if not kept or len(kept) == x.ndim or kept[-1] - kept[0] != len(kept) - 1:
        return None
    shape = x.shape
    first, last = kept[0], kept[-1] + 1
    lead, middle, inner = prod(shape[:first]), prod(shape[first:last]), prod(shape[last:])
    if inner == 1:
        out = column_sums(x, None, 0, 0, middle)[1]
    elif inner < _SHORT and middle > _MANY:
        return None  # a block for a few elements
    else:
        out = channel_sum(launch.shaped(x, (lead, middle, inner)))
    return out if wanted == (middle,) else launch.shaped(out, wanted)
