"""Single-precision attention on tensor cores, one tile of queries and keys at a time: the weights are never in memory.

Tensor cores take numbers of eleven bits. So each number is a sum of two such, x = b + s, and a product is b b' + b s' +
s b' (Markidis et al., "NVIDIA Tensor Core Programmability, Performance & Precision", 2018). Its accuracy is that of a
product in single precision, at a third of the tensor cores' speed, which is still more than the other cores have. The
computation and its order are as in ndgrad._src.compiler.cuda.half_attention.

A warp has 16 rows of one operand in registers, and a tile of the other is in shared memory. Rows there are padded by
four numbers, so that the 32 that a warp reads at once lie in different banks, for rows as well as columns of a tile.
"""

from __future__ import annotations

import functools
from typing import Any

from ndgrad._src.compiler.cuda import launch
from ndgrad._src.compiler.cuda.attention_operands import LAYOUT, are_taken, as_heads, words_of
from ndgrad._src.compiler.cuda.copies import in_order
from ndgrad._src.compiler.cuda.values import PRELUDE

#: Rows of a block, its threads, and the largest size of heads: registers hold two operands and two sums of it.
_TILE, _THREADS, _LARGEST = 64, 128, 64

_SOURCE = """
enum { TILE = 64, PART = 32, PAD = DIM + 4, STEPS = DIM / 8, LANES = DIM <= 8 ? 2 : DIM <= 16 ? 4 : DIM <= 32 ? 8 : 16 };
struct Operand { const float* at; long long batch; long long head; long long row; };
struct Arguments { Operand q; Operand k; Operand v; Operand g; float* out; float* logs; float* sums; float* gq; float* gk; float* gv;
                   long long heads; long long queries; long long keys; long long causal; long long lead; double scale; };
typedef float Rows[STEPS][4];

__device__ inline void mma(float* c, const float* a, const float* b) { MMA }
__device__ inline float two_to_the(float x) { POWER }
__device__ inline void afresh(float& x) { AFRESH }
__device__ inline float eleven_bits(float x) { return __uint_as_float((__float_as_uint(x) + 0x1000u) & 0xffffe000u); }

/* Numbers as sums of two. Tensor cores do not look at what the second has beyond eleven bits. */
template <int N> struct Two {
    float large[N], small[N];
    __device__ inline void set(int i, float x) { large[i] = eleven_bits(x); small[i] = x - large[i]; }
};
__device__ inline void multiply(float* c, const Two<4>& a, const Two<2>& b) {
    mma(c, a.small, b.large);
    mma(c, a.large, b.small);
    mma(c, a.large, b.large);
}
/* Rows of an operand into shared memory, zeros behind the last. */
template <int COUNT> __device__ inline void load(float* to, Operand from, long long number, long long heads, long long first, long long end) {
    const float* at = from.at + number / heads * from.batch + number % heads * from.head;
    for (int i = threadIdx.x; i < COUNT * (DIM / 4); i += 128) {
        const int row = i / (DIM / 4), column = i % (DIM / 4) * 4;
        uint4 some = make_uint4(0, 0, 0, 0);
        if (first + row < end) some = *(const uint4*)(at + (first + row) * from.row + column);
        *(uint4*)(to + row * PAD + column) = some;
    }
}
/* The 16 rows of a warp, as the left operand of products. */
__device__ inline void left(Rows f, const float* from) {
    const int lane = threadIdx.x % 32, row = threadIdx.x / 32 * 16 + lane / 4;
    #pragma unroll
    for (int k = 0; k < STEPS; ++k) {
        const float* at = from + row * PAD + k * 8 + lane % 4;
        f[k][0] = at[0];
        f[k][1] = at[8 * PAD];
        f[k][2] = at[4];
        f[k][3] = at[8 * PAD + 4];
    }
}
/* Products of a warp's rows with N rows of a tile. */
template <int N> __device__ inline void with_rows(float (*c)[4], const Rows f, const float* tile) {
    const int lane = threadIdx.x % 32;
    #pragma unroll
    for (int n = 0; n < N / 8; ++n) for (int e = 0; e < 4; ++e) c[n][e] = 0;
    #pragma unroll
    for (int k = 0; k < STEPS; ++k) {
        Two<4> a;
        #pragma unroll
        for (int e = 0; e < 4; ++e) {
            float x = f[k][e];
            afresh(x);
            a.set(e, x);
        }
        #pragma unroll
        for (int n = 0; n < N / 8; ++n) {
            const float* at = tile + (n * 8 + lane / 4) * PAD + k * 8 + lane % 4;
            Two<2> b;
            b.set(0, at[0]);
            b.set(1, at[4]);
            multiply(c[n], a, b);
        }
    }
}
/* Add to sums the product of weights with a tile, whose rows the weights' columns are. A thread has two columns side by side,
   and so takes two rows side by side, in whichever order the tensor cores would have them. */
template <int N> __device__ inline void with_columns(float (*sums)[4], const float (*w)[4], const float* tile) {
    const int lane = threadIdx.x % 32;
    #pragma unroll
    for (int k = 0; k < N / 8; ++k) {
        Two<4> a;
        #pragma unroll
        for (int e = 0; e < 4; ++e) a.set(e, w[k][e % 2 * 2 + e / 2]);
        #pragma unroll
        for (int n = 0; n < STEPS; ++n) {
            const float* at = tile + (k * 8 + lane % 4 * 2) * PAD + n * 8 + lane / 4;
            Two<2> b;
            b.set(0, at[0]);
            b.set(1, at[PAD]);
            multiply(sums[n], a, b);
        }
    }
}
/* Put another number where a query does not see a key: rows are queries, or columns are. */
template <int N> __device__ inline void hide(float (*c)[4], int first, int row, int keys, bool causal, float number) {
    const int lane = threadIdx.x % 32;
    #pragma unroll
    for (int n = 0; n < N / 8; ++n)
        #pragma unroll
        for (int e = 0; e < 4; ++e) {
            const int key = first + n * 8 + lane % 4 * 2 + e % 2;
            if (key >= keys || (causal && key > row + e / 2 * 8)) c[n][e] = number;
        }
}
template <int N> __device__ inline void hide_columns(float (*c)[4], int first, int row, int queries, int keys, bool causal) {
    const int lane = threadIdx.x % 32;
    #pragma unroll
    for (int n = 0; n < N / 8; ++n)
        #pragma unroll
        for (int e = 0; e < 4; ++e) {
            const int query = first + n * 8 + lane % 4 * 2 + e % 2, key = row + e / 2 * 8;
            if (query >= queries || key >= keys || (causal && key > query)) c[n][e] = 0;
        }
}
/* Write a warp's rows. */
__device__ inline void store(float* to, long long number, long long first, long long end, const Rows sums, float upper, float lower) {
    const int lane = threadIdx.x % 32;
    const long long row = first + threadIdx.x / 32 * 16 + lane / 4;
    #pragma unroll
    for (int n = 0; n < STEPS; ++n) {
        float* at = to + (number * end + row) * DIM + n * 8 + lane % 4 * 2;
        Pack<float, 2> two;
        two.at[0] = sums[n][0] * upper;
        two.at[1] = sums[n][1] * upper;
        if (row < end) *(Pack<float, 2>*)at = two;
        two.at[0] = sums[n][2] * lower;
        two.at[1] = sums[n][3] * lower;
        if (row + 8 < end) *(Pack<float, 2>*)(at + 8 * DIM) = two;
    }
}
__device__ inline void clear(Rows sums) {
    #pragma unroll
    for (int n = 0; n < STEPS; ++n) for (int e = 0; e < 4; ++e) sums[n][e] = 0;
}

extern "C" __global__ void __launch_bounds__(128, 3) forward(const Arguments a) {
    __shared__ __align__(16) float tiles[2][TILE * PAD];
    const long long count = (a.queries + TILE - 1) / TILE, number = blockIdx.x / count;
    const long long first = (count - 1 - blockIdx.x % count) * TILE;
    const int lane = threadIdx.x % 32, row = (int)first + threadIdx.x / 32 * 16 + lane / 4;
    const float scale = (float)(a.scale * 1.4426950408889634), lowest = -3.402823466e38f;
    Rows q, out;
    load<TILE>(tiles[0], a.q, number, a.heads, first, a.queries);
    __syncthreads();
    left(q, tiles[0]);
    float top[2] = {lowest, lowest}, total[2] = {0, 0};
    clear(out);
    const long long end = a.causal && first + TILE < a.keys ? first + TILE : a.keys;
    for (long long key = 0; key < end; key += TILE) {
        __syncthreads();
        load<TILE>(tiles[0], a.k, number, a.heads, key, a.keys);
        load<TILE>(tiles[1], a.v, number, a.heads, key, a.keys);
        __syncthreads();
        float s[8][4];
        with_rows<TILE>(s, q, tiles[0]);
        float most[2] = {top[0], top[1]};
        if (key + TILE > a.keys || (a.causal && key + TILE > first)) hide<TILE>(s, (int)key, row, (int)a.keys, a.causal, lowest);
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
            const float by = two_to_the((top[h] - most[h]) * scale);
            top[h] = most[h];
            total[h] *= by;
            #pragma unroll
            for (int n = 0; n < STEPS; ++n) {
                out[n][2 * h] *= by;
                out[n][2 * h + 1] *= by;
            }
        }
        #pragma unroll
        for (int n = 0; n < 8; ++n)
            #pragma unroll
            for (int e = 0; e < 4; ++e) {
                s[n][e] = two_to_the((s[n][e] - top[e / 2]) * scale);
                total[e / 2] += s[n][e];
            }
        with_columns<TILE>(out, s, tiles[1]);
    }
    #pragma unroll
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
    if (number < a.lead && lane * 4 < DIM) {
        const float* g = a.g.at + number / a.heads * a.g.batch + number % a.heads * a.g.head + query * a.g.row + lane * 4;
        const Pack<float, 4> x = *(const Pack<float, 4>*)g, y = *(const Pack<float, 4>*)(a.out + row * DIM + lane * 4);
        for (int i = 0; i < 4; ++i) sum += x.at[i] * y.at[i];
    }
    for (int d = LANES / 2; d; d >>= 1) sum += __shfl_xor_sync(0xffffffff, sum, d);
    if (lane == 0 && number < a.lead) a.sums[row] = sum;
}

extern "C" __global__ void __launch_bounds__(128, 2) of_keys(const Arguments a) {
    __shared__ __align__(16) float tiles[2][TILE * PAD];
    __shared__ float logs[PART], sums[PART];
    const long long count = (a.keys + TILE - 1) / TILE, number = blockIdx.x / count, first = blockIdx.x % count * TILE;
    const int lane = threadIdx.x % 32, row = (int)first + threadIdx.x / 32 * 16 + lane / 4;
    const float scale = (float)(a.scale * 1.4426950408889634);
    Rows k, v, gk, gv;
    load<TILE>(tiles[0], a.k, number, a.heads, first, a.keys);
    load<TILE>(tiles[1], a.v, number, a.heads, first, a.keys);
    __syncthreads();
    left(k, tiles[0]);
    left(v, tiles[1]);
    clear(gk);
    clear(gv);
    for (long long query = a.causal ? first : 0; query < a.queries; query += PART) {
        __syncthreads();
        load<PART>(tiles[0], a.q, number, a.heads, query, a.queries);
        load<PART>(tiles[1], a.g, number, a.heads, query, a.queries);
        if (threadIdx.x < PART) {
            const bool inside = query + threadIdx.x < a.queries;
            logs[threadIdx.x] = inside ? a.logs[number * a.queries + query + threadIdx.x] : 0.0f;
            sums[threadIdx.x] = inside ? a.sums[number * a.queries + query + threadIdx.x] : 0.0f;
        }
        __syncthreads();
        float s[PART / 8][4], h[PART / 8][4];
        with_rows<PART>(s, k, tiles[0]);
        with_rows<PART>(h, v, tiles[1]);
        #pragma unroll
        for (int n = 0; n < PART / 8; ++n)
            #pragma unroll
            for (int e = 0; e < 4; ++e) {
                const int column = n * 8 + lane % 4 * 2 + e % 2;
                s[n][e] = two_to_the(s[n][e] * scale - logs[column]);
                h[n][e] = s[n][e] * (h[n][e] - sums[column]);
            }
        if (query + PART > a.queries || first + TILE > a.keys || (a.causal && query < first + TILE)) {
            hide_columns<PART>(s, (int)query, row, (int)a.queries, (int)a.keys, a.causal);
            hide_columns<PART>(h, (int)query, row, (int)a.queries, (int)a.keys, a.causal);
        }
        with_columns<PART>(gv, s, tiles[1]);
        with_columns<PART>(gk, h, tiles[0]);
    }
    store(a.gv, number, first, a.keys, gv, 1, 1);
    store(a.gk, number, first, a.keys, gk, (float)a.scale, (float)a.scale);
}

extern "C" __global__ void __launch_bounds__(128, 3) of_queries(const Arguments a) {
    __shared__ __align__(16) float tiles[2][TILE * PAD];
    const long long count = (a.queries + TILE - 1) / TILE, number = blockIdx.x / count;
    const long long first = (count - 1 - blockIdx.x % count) * TILE;
    const int lane = threadIdx.x % 32, row = (int)first + threadIdx.x / 32 * 16 + lane / 4;
    const float scale = (float)(a.scale * 1.4426950408889634);
    Rows q, g, gq;
    load<TILE>(tiles[0], a.q, number, a.heads, first, a.queries);
    load<TILE>(tiles[1], a.g, number, a.heads, first, a.queries);
    __syncthreads();
    left(q, tiles[0]);
    left(g, tiles[1]);
    clear(gq);
    float logs[2], sums[2];
    #pragma unroll
    for (int h = 0; h < 2; ++h) {
        const bool inside = row + h * 8 < a.queries;
        logs[h] = inside ? a.logs[number * a.queries + row + h * 8] : 0.0f;
        sums[h] = inside ? a.sums[number * a.queries + row + h * 8] : 0.0f;
    }
    const long long end = a.causal && first + TILE < a.keys ? first + TILE : a.keys;
    for (long long key = 0; key < end; key += PART) {
        __syncthreads();
        load<PART>(tiles[0], a.k, number, a.heads, key, a.keys);
        load<PART>(tiles[1], a.v, number, a.heads, key, a.keys);
        __syncthreads();
        float s[PART / 8][4], h[PART / 8][4];
        with_rows<PART>(s, q, tiles[0]);
        with_rows<PART>(h, g, tiles[1]);
        #pragma unroll
        for (int n = 0; n < PART / 8; ++n)
            #pragma unroll
            for (int e = 0; e < 4; ++e) h[n][e] = two_to_the(s[n][e] * scale - logs[e / 2]) * (h[n][e] - sums[e / 2]);
        if (key + PART > a.keys || (a.causal && key + PART > first)) hide<PART>(h, (int)key, row, (int)a.keys, a.causal, 0.0f);
        with_columns<PART>(gq, h, tiles[0]);
    }
    store(a.gq, number, first, a.queries, gq, (float)a.scale, (float)a.scale);
}
"""

#: Instructions of a device.
_INSTRUCTIONS = {
    "MMA": (
        'asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, '
        '{%0, %1, %2, %3};" : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(__float_as_uint(a[0])), '
        '"r"(__float_as_uint(a[1])), "r"(__float_as_uint(a[2])), "r"(__float_as_uint(a[3])), "r"(__float_as_uint(b[0])), '
        '"r"(__float_as_uint(b[1])));'
    ),
    # An operand that can be split again at any time should not occupy registers.
    "AFRESH": 'asm volatile("" : "+f"(x));',
    "POWER": 'float y; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y;',
}


def source(size: int) -> str:
    """Return the text of the kernels for a size of heads."""
    body = _SOURCE
    for name, text in _INSTRUCTIONS.items():
        body = body.replace(f"{{ {name} }}", f"{{ {text} }}", 1)
    return f"{PRELUDE}enum {{ DIM = {size} }};{body}"


@functools.lru_cache(maxsize=32)
def _kernel(name: str, size: int, device: int) -> launch.Kernel:
    return launch.Kernel(source(size), LAYOUT, name=name)


def takes(q: Any, k: Any, v: Any, scale: float) -> bool:
    """True if there are kernels for such arrays, of single precision."""
    return q.dtype.char == "f" and are_taken(q, k, v, scale, _LARGEST)


def attention(q: Any, k: Any, v: Any, is_causal: bool, scale: float) -> tuple[Any, Any]:
    """Return softmax(q k' scale) v, and the logarithm of each query's sum."""
    q, k, v = as_heads(q), as_heads(k), as_heads(v)
    out, logs = launch.new(q.shape, q.dtype), launch.new(q.shape[:-1], launch.SINGLE)
    _start("forward", _tiles(q), q, k, v, q, (out, logs), is_causal, scale)
    return out, logs


def attention_gradients(
    g: Any, q: Any, k: Any, v: Any, is_causal: bool, scale: float, out: Any, logs: Any
) -> tuple[Any, Any, Any]:
    """Return the gradients in q, k and v, from the forward results."""
    g, q, k, v = as_heads(g), as_heads(q), as_heads(k), as_heads(v)
    out = out if out.flags.c_contiguous else in_order(out)
    sums = launch.new(q.shape[:-1], launch.SINGLE)
    made = [launch.new(a.shape, a.dtype) for a in (q, k, v)]
    buffers = (out, logs, sums, *made)
    size = q.shape[3]
    lanes = 2 if size <= 8 else 4 if size <= 16 else 8 if size <= 32 else 16
    rows = q.shape[0] * q.shape[1] * q.shape[2]
    _start("products", -(-rows * lanes // _THREADS), q, k, v, g, buffers, is_causal, scale)
    _start("of_keys", _tiles(k), q, k, v, g, buffers, is_causal, scale)
    _start("of_queries", _tiles(q), q, k, v, g, buffers, is_causal, scale)
    return made[0], made[1], made[2]


def _tiles(a: Any) -> int:
    """Return the number of tiles of all heads."""
    blocks: int = a.shape[0] * a.shape[1] * -(-a.shape[2] // _TILE)
    return blocks


def _start(
    name: str, blocks: int, q: Any, k: Any, v: Any, g: Any, buffers: tuple[Any, ...], is_causal: bool, scale: float
) -> None:
    words = words_of(q, k, v, g, buffers, is_causal, scale)
    _kernel(name, q.shape[3], q.device.id)(blocks, _THREADS, *words)
