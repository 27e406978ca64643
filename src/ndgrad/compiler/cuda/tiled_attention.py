"""Attention of halves on tensor cores, a tile of 64 queries and 64 keys at a time: the weights are never in memory.

A block of four warps takes a tile; a warp has 16 of its rows in registers, and the other operand of each product comes
through shared memory. Weights are computed with the largest score so far taken out, and what was added up before is
scaled whenever a larger one comes (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018; Dao et al.,
"FlashAttention", 2022). Forward leaves the logarithm of each query's sum, from which reverse mode has the weights again:

    D = sum(g o)          s = q k' scale - logarithm      p = 2^s      h = p (g v' - D)
    gv = p' g             gk = scale h' q                 (a block takes a tile of keys through all queries)
    gq = scale h k                                        (a block takes a tile of queries through all keys)

So every sum is added in a fixed order. Logarithms and exponentials are to base two. Sums are in single precision.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ndgrad.arrays import library
from ndgrad.compiler.cuda import launch
from ndgrad.compiler.cuda.copies import in_order
from ndgrad.compiler.cuda.values import PRELUDE, STORED

_TILE, _THREADS = 64, 128
_LARGEST = 128

_SOURCE = """
enum { TILE = 64, PAD = DIM + 8, STEPS = DIM / 16, BLOCKS = DIM / 8, LANES = DIM <= 16 ? 2 : DIM <= 32 ? 4 : DIM <= 64 ? 8 : 16 };
struct Operand { const S* at; long long batch; long long head; long long row; };
struct Arguments { Operand q; Operand k; Operand v; Operand g; S* out; float* logs; float* sums; S* gq; S* gk; S* gv;
                   long long heads; long long queries; long long keys; long long causal; long long lead; double scale; };

__device__ inline void mma(float* c, const unsigned int* a, unsigned int b0, unsigned int b1) { MMA }
__device__ inline void transposed(unsigned int* b, const S* at) { TRANSPOSED }
__device__ inline void as_they_lie(unsigned int* b, const S* at) { LDMATRIX }
__device__ inline unsigned int pair(float x, float y) { PAIR }
__device__ inline float power_of_two(float x) { POWER }
/* Rows of an operand into shared memory, zeros behind the last. */
__device__ inline void load(S* to, Operand from, long long number, long long heads, long long first, long long end) {
    const S* at = from.at + number / heads * from.batch + number % heads * from.head;
    for (int i = threadIdx.x; i < TILE * (DIM / 8); i += 128) {
        const int row = i / (DIM / 8), column = i % (DIM / 8) * 8;
        uint4 some = make_uint4(0, 0, 0, 0);
        if (first + row < end) some = *(const uint4*)(at + (first + row) * from.row + column);
        *(uint4*)(to + row * PAD + column) = some;
    }
}
/* The 16 rows of a warp, as the left operand of products. */
__device__ inline void left(unsigned int (*f)[4], const S* from) {
    const int lane = threadIdx.x % 32, row = threadIdx.x / 32 * 16 + lane / 4;
    for (int k = 0; k < STEPS; ++k) {
        const S* at = from + row * PAD + k * 16 + lane % 4 * 2;
        f[k][0] = *(const unsigned int*)at;
        f[k][1] = *(const unsigned int*)(at + 8 * PAD);
        f[k][2] = *(const unsigned int*)(at + 8);
        f[k][3] = *(const unsigned int*)(at + 8 * PAD + 8);
    }
}
/* Products of a warp's rows with all rows of a tile. */
__device__ inline void with_rows(float (*c)[4], const unsigned int (*f)[4], const S* tile) {
    const int lane = threadIdx.x % 32;
    #pragma unroll
    for (int n = 0; n < 8; n += 2) {
        for (int e = 0; e < 4; ++e) c[n][e] = c[n + 1][e] = 0;
        #pragma unroll
        for (int k = 0; k < STEPS; ++k) {
            unsigned int b[4];
            as_they_lie(b, tile + (n * 8 + lane % 8 + lane / 16 * 8) * PAD + k * 16 + lane / 8 % 2 * 8);
            mma(c[n], f[k], b[0], b[1]);
            mma(c[n + 1], f[k], b[2], b[3]);
        }
    }
}
/* Add to sums the product of weights with a tile, whose rows the weights' columns are. */
__device__ inline void with_columns(float (*sums)[4], const float (*w)[4], const S* tile) {
    const int lane = threadIdx.x % 32;
    #pragma unroll
    for (int k = 0; k < 4; ++k) {
        const unsigned int a[4] = {pair(w[2 * k][0], w[2 * k][1]), pair(w[2 * k][2], w[2 * k][3]),
                                   pair(w[2 * k + 1][0], w[2 * k + 1][1]), pair(w[2 * k + 1][2], w[2 * k + 1][3])};
        #pragma unroll
        for (int n = 0; n < BLOCKS; n += 2) {
            unsigned int b[4];
            transposed(b, tile + (k * 16 + lane % 16) * PAD + n * 8 + lane / 16 * 8);
            mma(sums[n], a, b[0], b[1]);
            mma(sums[n + 1], a, b[2], b[3]);
        }
    }
}
/* Put another number where a query does not see a key: rows are queries, or columns are. */
__device__ inline void hide(float (*c)[4], int first, int row, int keys, bool causal, float number) {
    const int lane = threadIdx.x % 32;
    #pragma unroll
    for (int n = 0; n < 8; ++n)
        #pragma unroll
        for (int e = 0; e < 4; ++e) {
            const int key = first + n * 8 + lane % 4 * 2 + e % 2;
            if (key >= keys || (causal && key > row + e / 2 * 8)) c[n][e] = number;
        }
}
__device__ inline void hide_columns(float (*c)[4], int first, int row, int queries, int keys, bool causal) {
    const int lane = threadIdx.x % 32;
    #pragma unroll
    for (int n = 0; n < 8; ++n)
        #pragma unroll
        for (int e = 0; e < 4; ++e) {
            const int query = first + n * 8 + lane % 4 * 2 + e % 2, key = row + e / 2 * 8;
            if (query >= queries || key >= keys || (causal && key > query)) c[n][e] = 0;
        }
}
/* Write a warp's rows. */
__device__ inline void store(S* to, long long number, long long first, long long end, const float (*sums)[4],
                             float upper, float lower) {
    const int lane = threadIdx.x % 32;
    const long long row = first + threadIdx.x / 32 * 16 + lane / 4;
    #pragma unroll
    for (int n = 0; n < BLOCKS; ++n) {
        S* at = to + (number * end + row) * DIM + n * 8 + lane % 4 * 2;
        if (row < end) *(unsigned int*)at = pair(sums[n][0] * upper, sums[n][1] * upper);
        if (row + 8 < end) *(unsigned int*)(at + 8 * DIM) = pair(sums[n][2] * lower, sums[n][3] * lower);
    }
}

extern "C" __global__ void __launch_bounds__(128, DIM <= 64 ? 4 : 1) forward(const Arguments a) {
    __shared__ __align__(16) S tiles[2][TILE * PAD];
    const long long count = (a.queries + TILE - 1) / TILE, number = blockIdx.x / count;
    const long long first = (count - 1 - blockIdx.x % count) * TILE;
    const int lane = threadIdx.x % 32, row = (int)first + threadIdx.x / 32 * 16 + lane / 4;
    const float scale = (float)(a.scale * 1.4426950408889634);
    unsigned int q[STEPS][4];
    load(tiles[0], a.q, number, a.heads, first, a.queries);
    __syncthreads();
    left(q, tiles[0]);
    float out[BLOCKS][4], top[2] = {-1e30f, -1e30f}, total[2] = {0, 0};
    for (int n = 0; n < BLOCKS; ++n) out[n][0] = out[n][1] = out[n][2] = out[n][3] = 0;
    const long long end = a.causal && first + TILE < a.keys ? first + TILE : a.keys;
    for (long long key = 0; key < end; key += TILE) {
        __syncthreads();
        load(tiles[0], a.k, number, a.heads, key, a.keys);
        load(tiles[1], a.v, number, a.heads, key, a.keys);
        __syncthreads();
        float s[8][4];
        with_rows(s, q, tiles[0]);
        float most[2] = {top[0], top[1]};
        if (key + TILE > a.keys || (a.causal && key + TILE > first)) hide(s, (int)key, row, (int)a.keys, a.causal, -1e30f);
        #pragma unroll
        for (int n = 0; n < 8; ++n)
            #pragma unroll
            for (int e = 0; e < 4; ++e) most[e / 2] = s[n][e] > most[e / 2] || s[n][e] != s[n][e] ? s[n][e] : most[e / 2];
        #pragma unroll
        for (int h = 0; h < 2; ++h) {
            for (int d = 1; d < 4; d *= 2) {
                const float other = __shfl_xor_sync(0xffffffff, most[h], d);
                most[h] = other > most[h] || other != other ? other : most[h];
            }
            const float by = power_of_two((top[h] - most[h]) * scale);
            top[h] = most[h];
            total[h] *= by;
            for (int n = 0; n < BLOCKS; ++n) {
                out[n][2 * h] *= by;
                out[n][2 * h + 1] *= by;
            }
        }
        #pragma unroll
        for (int n = 0; n < 8; ++n)
            #pragma unroll
            for (int e = 0; e < 4; ++e) {
                s[n][e] = power_of_two((s[n][e] - top[e / 2]) * scale);
                total[e / 2] += s[n][e];
            }
        with_columns(out, s, tiles[1]);
    }
    for (int h = 0; h < 2; ++h) {
        for (int d = 1; d < 4; d *= 2) total[h] += __shfl_xor_sync(0xffffffff, total[h], d);
        if (lane % 4 == 0 && row + h * 8 < a.queries) a.logs[number * a.queries + row + h * 8] = top[h] * scale + log2f(total[h]);
    }
    store(a.out, number, first, a.queries, out, 1 / total[0], 1 / total[1]);
}

/* D: some lanes add up a row. */
extern "C" __global__ void __launch_bounds__(128) products(const Arguments a) {
    const long long row = ((long long)blockIdx.x * 128 + threadIdx.x) / LANES, number = row / a.queries, query = row % a.queries;
    const int lane = threadIdx.x % LANES;
    float sum = 0;
    if (number < a.lead && lane * 8 < DIM) {
        const S* g = a.g.at + number / a.heads * a.g.batch + number % a.heads * a.g.head + query * a.g.row + lane * 8;
        const Pack<S, 8> x = *(const Pack<S, 8>*)g, y = *(const Pack<S, 8>*)(a.out + row * DIM + lane * 8);
        for (int i = 0; i < 8; ++i) sum += wide(x.at[i]) * wide(y.at[i]);
    }
    for (int d = LANES / 2; d; d >>= 1) sum += __shfl_xor_sync(0xffffffff, sum, d);
    if (lane == 0 && number < a.lead) a.sums[row] = sum;
}

extern "C" __global__ void __launch_bounds__(128) of_keys(const Arguments a) {
    __shared__ __align__(16) S tiles[2][TILE * PAD];
    __shared__ float logs[TILE], sums[TILE];
    const long long count = (a.keys + TILE - 1) / TILE, number = blockIdx.x / count, first = blockIdx.x % count * TILE;
    const int lane = threadIdx.x % 32, row = (int)first + threadIdx.x / 32 * 16 + lane / 4;
    const float scale = (float)(a.scale * 1.4426950408889634);
    unsigned int k[STEPS][4], v[STEPS][4];
    load(tiles[0], a.k, number, a.heads, first, a.keys);
    load(tiles[1], a.v, number, a.heads, first, a.keys);
    __syncthreads();
    left(k, tiles[0]);
    left(v, tiles[1]);
    float gk[BLOCKS][4], gv[BLOCKS][4];
    for (int n = 0; n < BLOCKS; ++n) for (int e = 0; e < 4; ++e) gk[n][e] = gv[n][e] = 0;
    for (long long query = a.causal ? first : 0; query < a.queries; query += TILE) {
        __syncthreads();
        load(tiles[0], a.q, number, a.heads, query, a.queries);
        load(tiles[1], a.g, number, a.heads, query, a.queries);
        if (threadIdx.x < TILE) {
            const bool inside = query + threadIdx.x < a.queries;
            logs[threadIdx.x] = inside ? a.logs[number * a.queries + query + threadIdx.x] : 0.0f;
            sums[threadIdx.x] = inside ? a.sums[number * a.queries + query + threadIdx.x] : 0.0f;
        }
        __syncthreads();
        float s[8][4], h[8][4];
        with_rows(s, k, tiles[0]);
        with_rows(h, v, tiles[1]);
        #pragma unroll
        for (int n = 0; n < 8; ++n)
            #pragma unroll
            for (int e = 0; e < 4; ++e) {
                const int column = n * 8 + lane % 4 * 2 + e % 2;
                s[n][e] = power_of_two(s[n][e] * scale - logs[column]);
                h[n][e] = s[n][e] * (h[n][e] - sums[column]);
            }
        if (query + TILE > a.queries || first + TILE > a.keys || (a.causal && query < first + TILE)) {
            hide_columns(s, (int)query, row, (int)a.queries, (int)a.keys, a.causal);
            hide_columns(h, (int)query, row, (int)a.queries, (int)a.keys, a.causal);
        }
        with_columns(gv, s, tiles[1]);
        with_columns(gk, h, tiles[0]);
    }
    store(a.gv, number, first, a.keys, gv, 1, 1);
    store(a.gk, number, first, a.keys, gk, (float)a.scale, (float)a.scale);
}

extern "C" __global__ void __launch_bounds__(128, DIM <= 64 ? 4 : 1) of_queries(const Arguments a) {
    __shared__ __align__(16) S tiles[2][TILE * PAD];
    const long long count = (a.queries + TILE - 1) / TILE, number = blockIdx.x / count;
    const long long first = (count - 1 - blockIdx.x % count) * TILE;
    const int lane = threadIdx.x % 32, row = (int)first + threadIdx.x / 32 * 16 + lane / 4;
    const float scale = (float)(a.scale * 1.4426950408889634);
    unsigned int q[STEPS][4], g[STEPS][4];
    load(tiles[0], a.q, number, a.heads, first, a.queries);
    load(tiles[1], a.g, number, a.heads, first, a.queries);
    __syncthreads();
    left(q, tiles[0]);
    left(g, tiles[1]);
    float logs[2], sums[2], gq[BLOCKS][4];
    for (int h = 0; h < 2; ++h) {
        const bool inside = row + h * 8 < a.queries;
        logs[h] = inside ? a.logs[number * a.queries + row + h * 8] : 0.0f;
        sums[h] = inside ? a.sums[number * a.queries + row + h * 8] : 0.0f;
    }
    for (int n = 0; n < BLOCKS; ++n) gq[n][0] = gq[n][1] = gq[n][2] = gq[n][3] = 0;
    const long long end = a.causal && first + TILE < a.keys ? first + TILE : a.keys;
    for (long long key = 0; key < end; key += TILE) {
        __syncthreads();
        load(tiles[0], a.k, number, a.heads, key, a.keys);
        load(tiles[1], a.v, number, a.heads, key, a.keys);
        __syncthreads();
        float s[8][4], h[8][4];
        with_rows(s, q, tiles[0]);
        with_rows(h, g, tiles[1]);
        #pragma unroll
        for (int n = 0; n < 8; ++n)
            #pragma unroll
            for (int e = 0; e < 4; ++e) h[n][e] = power_of_two(s[n][e] * scale - logs[e / 2]) * (h[n][e] - sums[e / 2]);
        if (key + TILE > a.keys || (a.causal && key + TILE > first)) hide(h, (int)key, row, (int)a.keys, a.causal, 0.0f);
        with_columns(gq, h, tiles[0]);
    }
    store(a.gq, number, first, a.queries, gq, (float)a.scale, (float)a.scale);
}
"""

_MMA = (
    'asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.KIND.KIND.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, '
    '{%0, %1, %2, %3};" : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), '
    '"r"(b0), "r"(b1));'
)
_LDMATRIX = (
    'asm volatile("ldmatrix.sync.aligned.m8n8.x4KIND.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(b[0]), "=r"(b[1]), '
    '"=r"(b[2]), "=r"(b[3]) : "r"((unsigned int)__cvta_generic_to_shared(at)) : "memory");'
)
_PAIR = 'unsigned int both; asm("cvt.rn.KINDx2.f32 %0, %1, %2;" : "=r"(both) : "f"(y), "f"(x)); return both;'
_POWER = 'float y; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y;'
#: The words of the structure: four operands of an address and three strides, six addresses, six numbers, the scale.
_LAYOUT = "16q6q5qd"


def source(char: str, size: int) -> str:
    """The text of the kernels for a dtype and a size of heads."""
    types = f"typedef {STORED[char]} S; enum {{ DIM = {size} }};"
    kind, body = "bf16" if char == "E" else "f16", _SOURCE
    instructions = {
        "{ MMA }": _MMA.replace("KIND", kind),
        "{ TRANSPOSED }": _LDMATRIX.replace("KIND", ".trans"),
        "{ LDMATRIX }": _LDMATRIX.replace("KIND", ""),
        "{ PAIR }": _PAIR.replace("KIND", kind),
        "{ POWER }": _POWER,
    }
    for name, text in instructions.items():
        body = body.replace(name, f"{{ {text} }}", 1)
    return PRELUDE + types + body


@functools.lru_cache(maxsize=32)
def _kernel(name: str, char: str, size: int, device: int) -> launch.Kernel:
    return launch.Kernel(source(char, size), _LAYOUT, name=name)


@functools.lru_cache(maxsize=16)
def _has_tensor_cores(device: int) -> bool:
    """Whether a device has the instructions that this is written in."""
    return int(library.device_library.cuda.Device(device).compute_capability) >= 80


def _new(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    return library.device_library.empty(shape, dtype)


def takes(q: Any, k: Any, v: Any, scale: float) -> bool:
    """Whether there are kernels for such arrays: of halves, all of one size of heads; the largest score is the largest
    product, so the scale is positive."""
    size = q.shape[-1]
    return (
        q.dtype.char in "eE"
        and scale > 0
        and size == k.shape[-1] == v.shape[-1]
        and size % 16 == 0
        and size <= _LARGEST
        and max(q.shape[-2], k.shape[-2]) < 1 << 30
        and _has_tensor_cores(q.device.id)
    )


def attention(q: Any, k: Any, v: Any, is_causal: bool, scale: float) -> tuple[Any, Any]:
    """softmax(q k' scale) v, and the logarithm of each query's sum."""
    q, k, v = _four(q), _four(k), _four(v)
    out = _new(q.shape, q.dtype)
    logs = _new(q.shape[:-1], launch.SINGLE)
    blocks = q.shape[0] * q.shape[1] * -(-q.shape[2] // _TILE)
    _start("forward", blocks, q, k, v, None, (out, logs), is_causal, scale)
    return out, logs


def attention_gradients(
    g: Any, q: Any, k: Any, v: Any, is_causal: bool, scale: float, out: Any, logs: Any
) -> tuple[Any, Any, Any]:
    """The gradients in q, k and v, from the result and what forward has left besides."""
    g, q, k, v = _four(g), _four(q), _four(k), _four(v)
    out = out if out.flags.c_contiguous else in_order(out)
    sums = _new(q.shape[:-1], launch.SINGLE)
    made = [_new(a.shape, a.dtype) for a in (q, k, v)]
    heads = q.shape[0] * q.shape[1]
    buffers = (out, logs, sums, *made)
    size = q.shape[3]
    lanes = 2 if size <= 16 else 4 if size <= 32 else 8 if size <= 64 else 16
    _start("products", -(-heads * q.shape[2] * lanes // _THREADS), q, k, v, g, buffers, is_causal, scale)
    _start("of_keys", heads * -(-k.shape[2] // _TILE), q, k, v, g, buffers, is_causal, scale)
    _start("of_queries", heads * -(-q.shape[2] // _TILE), q, k, v, g, buffers, is_causal, scale)
    return made[0], made[1], made[2]


def _start(
    name: str, blocks: int, q: Any, k: Any, v: Any, g: Any, buffers: tuple[Any, ...], is_causal: bool, scale: float
) -> None:
    words = [w for a in (q, k, v, q if g is None else g) for w in (a.data.ptr, *[s // a.dtype.itemsize for s in a.strides[:3]])]
    words += [b.data.ptr for b in buffers] + [0] * (6 - len(buffers))
    words += [q.shape[1], q.shape[2], k.shape[2], int(is_causal), q.shape[0] * q.shape[1]]
    _kernel(name, q.dtype.char, q.shape[3], q.device.id)(blocks, _THREADS, *words, scale)


def _four(a: Any) -> Any:
    """An array as (batch, heads, rows, columns), whose rows lie where 16 bytes can be taken at a time."""
    lead = a.shape[:-2]
    if len(lead) != 2:
        a = a.reshape(1 if not lead else int(np.prod(lead)), 1, *a.shape[-2:])
    item = a.dtype.itemsize
    steps = [s for n, s in zip(a.shape[:3], a.strides[:3], strict=True) if n > 1]
    if a.strides[3] != item or a.data.ptr % 16 or any(s % 16 or s <= 0 for s in steps):
        return in_order(a) if not a.flags.c_contiguous else a.copy()
    return a
