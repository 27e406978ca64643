"""Half-precision attention on tensor cores, one tile of queries and keys at a time: the weights are never in memory.

A block has some rows, queries or keys, and iterates over tiles of the others. The next tile is copied into shared
memory while products with the current one are computed (tile_products.py). Blocks with the most work begin first.
Causal attention skips hidden tiles, and masks only those on the diagonal. Weights are computed relative to the largest
score so far, and earlier sums are rescaled whenever a larger one comes (Milakov and Gimelshein, "Online normalizer
calculation for softmax", 2018; Dao et al., "FlashAttention", 2022). The forward pass stores the logarithm of each
query's sum, from which reverse mode recovers the weights:

    D = sum(g o)          s = q k' scale - logarithm      p = 2^s      h = p (g v' - D)
    gv = p' g             gk = scale h' q                 (a block takes a tile of keys through all queries)
    gq = scale h k                                        (a block takes a tile of queries through all keys; stores D)

So every sum is added in a fixed order. Logarithms and exponentials are to base two. Sums are in single precision.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from ndgrad._src.arrays import library
from ndgrad._src.compiler.cuda import launch
from ndgrad._src.compiler.cuda.attention_operands import LAYOUT, are_taken, as_heads, words_of
from ndgrad._src.compiler.cuda.copies import in_order
from ndgrad._src.compiler.cuda.tile_products import products
from ndgrad._src.compiler.cuda.values import PRELUDE, STORED

#: The largest heads, and the pairs of tiles in a block's memory: the current and the next.
_LARGEST, _STAGES = 128, 2

_COMMON = """
struct Operand { const S* at; long long batch; long long head; long long row; };
struct Arguments { Operand q; Operand k; Operand v; Operand g; S* out; float* logs; float* sums; S* gq; S* gk; S* gv;
                   long long heads; long long queries; long long keys; long long causal; long long lead; double scale; };
/* Where a head's rows begin. */
__device__ inline const S* head_of(Operand o, unsigned int number, unsigned int heads) {
    return o.at + number / heads * o.batch + number % heads * o.head;
}
/* Begin to copy rows into shared memory, zeros behind the last and behind the last column. */
template <int COUNT> __device__ inline void load(S* to, const S* from, long long stride, int first, int end) {
    #pragma unroll
    for (int i = threadIdx.x; i < COUNT * BLOCKS; i += THREADS) {
        const int row = i / BLOCKS, column = i % BLOCKS * 8;
        const bool inside = first + row < end && column < DIM;
        copy<16>(to + place<COUNT>(row, column), inside ? from + (first + row) * stride + column : from, inside);
    }
}
/* The same for the two tiles that belong together. */
enum { BOTH = 2 * TILE * SPAN };
__device__ inline void load_both(S* to, const S* x, long long x_stride, const S* y, long long y_stride, int first, int end) {
    load<TILE>(to, x, x_stride, first, end);
    load<TILE>(to + TILE * SPAN, y, y_stride, first, end);
}
__device__ inline void load_numbers(float* to, const float* from, int first, int end) {
    const int i = threadIdx.x;
    if (i < TILE) copy<4>(to + i, first + i < end ? from + first + i : from, first + i < end);
}
/* Put another number where a query does not see a key, or one of both is not there. `row` and `column` are the first ones of a
   lane; rows are queries, or keys. */
template <bool OF_KEYS>
__device__ inline void hide(float (*c)[PART / 8][4], int row, int column, int end, bool causal, float number) {
    #pragma unroll
    for (int r = 0; r < ROUNDS; ++r)
        #pragma unroll
        for (int n = 0; n < PART / 8; ++n)
            #pragma unroll
            for (int e = 0; e < 4; ++e) {
                const int i = row + r * 16 + e / 2 * 8, j = column + n * 8 + e % 2;
                if (j >= end || (causal && (OF_KEYS ? i > j : j > i))) c[r][n][e] = number;
            }
}
/* Write a warp's rows times a number for each, through shared memory that is the warp's own: 16 bytes at a time. */
__device__ inline void store(S* to, S* own, int first, int end, const Sums* sums, const float (*by)[2]) {
    const int lane = threadIdx.x % 32;
    #pragma unroll
    for (int r = 0; r < ROUNDS; ++r)
        #pragma unroll
        for (int n = 0; n < BLOCKS; ++n)
            #pragma unroll
            for (int h = 0; h < 2; ++h)
                *(unsigned int*)(own + (r * 16 + h * 8 + lane / 4) * STAGE + n * 8 + lane % 4 * 2)
                    = pair(sums[r][n][2 * h] * by[r][h], sums[r][n][2 * h + 1] * by[r][h]);
    __syncwarp();
    #pragma unroll
    for (int i = lane; i < OWN * (DIM / 8); i += 32) {
        const int row = i / (DIM / 8), column = i % (DIM / 8) * 8;
        if (first + row < end) *(uint4*)(to + (first + row) * (long long)DIM + column) = *(const uint4*)(own + row * STAGE + column);
    }
    __syncwarp();
}
__device__ inline void clear(Sums* sums) {
    #pragma unroll
    for (int r = 0; r < ROUNDS; ++r) for (int n = 0; n < BLOCKS; ++n) for (int e = 0; e < 4; ++e) sums[r][n][e] = 0;
}
"""

_FORWARD = """
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) forward(const Arguments a) {
    extern __shared__ __align__(1024) S memory[];
    const int queries = (int)a.queries, keys = (int)a.keys, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const unsigned int heads = (unsigned int)a.heads, lead = (unsigned int)a.lead, number = blockIdx.x % lead;
    const int turn = (int)(blockIdx.x / lead);
    const int first = ((queries + ROWS - 1) / ROWS - 1 - turn) * ROWS, own = first + warp * OWN, group = own - warp * OWN % TOGETHER;
    const S* const k = head_of(a.k, number, heads), * const v = head_of(a.v, number, heads);
    S* const tiles = memory + ROWS * SPAN;
    const float scale = (float)(a.scale * 1.4426950408889634);
    const int end = a.causal && first + ROWS < keys ? first + ROWS : keys;
    load<ROWS>(memory, head_of(a.q, number, heads), a.q.row, first, queries);
    #pragma unroll
    for (int i = 0; i < STAGES - 1; ++i) {
        if (i * TILE < end) load_both(tiles + i * BOTH, k, a.k.row, v, a.v.row, i * TILE, keys);
        end_of_copies();
    }
    wait_for_copies<STAGES - 2>();
    show_copies();
    __syncthreads();
    const Rows q(memory);
    Sums out[ROUNDS];
    float top[ROUNDS][2], total[ROUNDS][2];
    clear(out);
    for (int r = 0; r < ROUNDS; ++r) for (int h = 0; h < 2; ++h) top[r][h] = __int_as_float(0xff800000), total[r][h] = 0;
    for (int key = 0, stage = 0; key < end; key += TILE, stage = (stage + 1) % STAGES) {
        const S* const tile = tiles + stage * BOTH;
        const int later = key + (STAGES - 1) * TILE;
        wait_for_copies<STAGES - 2>();
        show_copies();
        __syncthreads();
        if (later < end) load_both(tiles + (stage + STAGES - 1) % STAGES * BOTH, k, a.k.row, v, a.v.row, later, keys);
        end_of_copies();
        if (a.causal && key >= group + TOGETHER) continue;
        float s[ROUNDS][PART / 8][4];
        start_with_rows(s, q, tile);
        wait_for_rows<0>(s);
        if (key + TILE > keys || (a.causal && key + TILE > own))
            hide<false>(s, own + lane / 4, key + lane % 4 * 2, keys, a.causal, __int_as_float(0xff800000));
        #pragma unroll
        for (int r = 0; r < ROUNDS; ++r)
            #pragma unroll
            for (int h = 0; h < 2; ++h) {
                float most = top[r][h];
                #pragma unroll
                for (int n = 0; n < PART / 8; ++n) most = fmaxf(most, fmaxf(s[r][n][2 * h], s[r][n][2 * h + 1]));
                most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, 1));
                most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, 2));
                const float by = power_of_two((top[r][h] - most) * scale), shift = most * scale;
                top[r][h] = most;
                total[r][h] *= by;
                #pragma unroll
                for (int n = 0; n < BLOCKS; ++n) out[r][n][2 * h] *= by, out[r][n][2 * h + 1] *= by;
                #pragma unroll
                for (int n = 0; n < PART / 8; ++n)
                    #pragma unroll
                    for (int e = 2 * h; e < 2 * h + 2; ++e) {
                        s[r][n][e] = power_of_two(s[r][n][e] * scale - shift);
                        total[r][h] += s[r][n][e];
                    }
            }
        start_with_columns(out, s, tile + TILE * SPAN);
        wait_for_columns<0>(out);
    }
    __syncthreads();
    float by[ROUNDS][2];
    for (int r = 0; r < ROUNDS; ++r)
        for (int h = 0; h < 2; ++h) {
            float sum = total[r][h];
            sum += __shfl_xor_sync(0xffffffff, sum, 1);
            sum += __shfl_xor_sync(0xffffffff, sum, 2);
            const int row = own + r * 16 + h * 8 + lane / 4;
            if (lane % 4 == 0 && row < queries) a.logs[(long long)number * queries + row] = top[r][h] * scale + log2f(sum);
            by[r][h] = 1 / sum;
        }
    store(a.out + (long long)number * queries * DIM, memory + warp * OWN * STAGE, own, queries, out, by);
}
"""

_OF_QUERIES = """
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) of_queries(const Arguments a) {
    extern __shared__ __align__(1024) S memory[];
    const int queries = (int)a.queries, keys = (int)a.keys, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const unsigned int heads = (unsigned int)a.heads, lead = (unsigned int)a.lead, number = blockIdx.x % lead;
    const int turn = (int)(blockIdx.x / lead);
    const int first = ((queries + ROWS - 1) / ROWS - 1 - turn) * ROWS, own = first + warp * OWN, group = own - warp * OWN % TOGETHER;
    const S* const k = head_of(a.k, number, heads), * const v = head_of(a.v, number, heads);
    const S* const from_g = head_of(a.g, number, heads), * const from_out = a.out + (long long)number * queries * DIM;
    S* const tiles = memory + 2 * ROWS * SPAN;
    float* const of_rows = (float*)(tiles + STAGES * BOTH);
    const float scale = (float)(a.scale * 1.4426950408889634);
    const int end = a.causal && first + ROWS < keys ? first + ROWS : keys;
    load<ROWS>(memory, head_of(a.q, number, heads), a.q.row, first, queries);
    load<ROWS>(memory + ROWS * SPAN, from_g, a.g.row, first, queries);
    #pragma unroll
    for (int i = 0; i < STAGES - 1; ++i) {
        if (i * TILE < end) load_both(tiles + i * BOTH, k, a.k.row, v, a.v.row, i * TILE, keys);
        end_of_copies();
    }
    /* D: some lanes add up a row */
    #pragma unroll
    for (int i = threadIdx.x; i < ROWS * LANES; i += THREADS) {
        const int row = first + i / LANES, column = i % LANES * 8;
        float sum = 0;
        if (row < queries && column < DIM) {
            const Pack<S, 8> x = *(const Pack<S, 8>*)(from_g + row * a.g.row + column);
            const Pack<S, 8> y = *(const Pack<S, 8>*)(from_out + row * (long long)DIM + column);
            for (int e = 0; e < 8; ++e) sum += wide(x.at[e]) * wide(y.at[e]);
        }
        for (int d = LANES / 2; d; d >>= 1) sum += __shfl_xor_sync(0xffffffff, sum, d);
        if (i % LANES == 0) {
            of_rows[i / LANES] = sum;
            if (row < queries) a.sums[(long long)number * queries + row] = sum;
        }
    }
    wait_for_copies<STAGES - 2>();
    show_copies();
    __syncthreads();
    const Rows q(memory), g(memory + ROWS * SPAN);
    Sums gq[ROUNDS];
    float logs[ROUNDS][2], sums[ROUNDS][2];
    clear(gq);
    for (int r = 0; r < ROUNDS; ++r)
        for (int h = 0; h < 2; ++h) {
            const int row = own + r * 16 + h * 8 + lane / 4;
            logs[r][h] = row < queries ? a.logs[(long long)number * queries + row] : 0.0f;
            sums[r][h] = of_rows[row - first];
        }
    for (int begin = 0, stage = 0; begin < end; begin += TILE, stage = (stage + 1) % STAGES) {
        const int later = begin + (STAGES - 1) * TILE;
        wait_for_copies<STAGES - 2>();
        show_copies();
        __syncthreads();
        if (later < end) load_both(tiles + (stage + STAGES - 1) % STAGES * BOTH, k, a.k.row, v, a.v.row, later, keys);
        end_of_copies();
        #pragma unroll 1
        for (int part = 0; part < TILE; part += PART) {
            const int key = begin + part;
            if (key >= keys || (a.causal && key >= group + TOGETHER)) break;
            const S* const tile = tiles + stage * BOTH + part * SPAN;
            float s[ROUNDS][PART / 8][4], h[ROUNDS][PART / 8][4];
            start_with_rows(s, q, tile);
            start_with_rows(h, g, tile + TILE * SPAN);
            wait_for_rows<1>(s);
            #pragma unroll
            for (int r = 0; r < ROUNDS; ++r)
                #pragma unroll
                for (int n = 0; n < PART / 8; ++n)
                    #pragma unroll
                    for (int e = 0; e < 4; ++e) s[r][n][e] = power_of_two(s[r][n][e] * scale - logs[r][e / 2]);
            wait_for_rows<0>(h);
            #pragma unroll
            for (int r = 0; r < ROUNDS; ++r)
                #pragma unroll
                for (int n = 0; n < PART / 8; ++n)
                    #pragma unroll
                    for (int e = 0; e < 4; ++e) h[r][n][e] = s[r][n][e] * (h[r][n][e] - sums[r][e / 2]);
            if (key + PART > keys || (a.causal && key + PART > own))
                hide<false>(h, own + lane / 4, key + lane % 4 * 2, keys, a.causal, 0);
            start_with_columns(gq, h, tile);
            wait_for_columns<0>(gq);
        }
    }
    __syncthreads();
    float by[ROUNDS][2];
    for (int r = 0; r < ROUNDS; ++r) by[r][0] = by[r][1] = (float)a.scale;
    store(a.gq + (long long)number * queries * DIM, memory + warp * OWN * STAGE, own, queries, gq, by);
}
"""

_OF_KEYS = """
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) of_keys(const Arguments a) {
    extern __shared__ __align__(1024) S memory[];
    const int queries = (int)a.queries, keys = (int)a.keys, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const unsigned int heads = (unsigned int)a.heads, lead = (unsigned int)a.lead, number = blockIdx.x % lead;
    const int turn = (int)(blockIdx.x / lead);
    const int first = turn * ROWS, own = first + warp * OWN, group = own - warp * OWN % TOGETHER;
    const S* const q = head_of(a.q, number, heads), * const g = head_of(a.g, number, heads);
    S* const tiles = memory + 2 * ROWS * SPAN;
    float* const numbers = (float*)(tiles + STAGES * BOTH);
    const float* const from_logs = a.logs + (long long)number * queries, * const from_sums = a.sums + (long long)number * queries;
    const float scale = (float)(a.scale * 1.4426950408889634);
    const int begin = a.causal ? first : 0;
    load<ROWS>(memory, head_of(a.k, number, heads), a.k.row, first, keys);
    load<ROWS>(memory + ROWS * SPAN, head_of(a.v, number, heads), a.v.row, first, keys);
    #pragma unroll
    for (int i = 0; i < STAGES - 1; ++i) {
        const int query = begin + i * TILE;
        if (query < queries) {
            load_both(tiles + i * BOTH, q, a.q.row, g, a.g.row, query, queries);
            load_numbers(numbers + i * 2 * TILE, from_logs, query, queries);
            load_numbers(numbers + i * 2 * TILE + TILE, from_sums, query, queries);
        }
        end_of_copies();
    }
    wait_for_copies<STAGES - 2>();
    show_copies();
    __syncthreads();
    const Rows k(memory), v(memory + ROWS * SPAN);
    Sums gk[ROUNDS], gv[ROUNDS];
    clear(gk);
    clear(gv);
    for (int at = begin, stage = 0; at < queries; at += TILE, stage = (stage + 1) % STAGES) {
        const int later = at + (STAGES - 1) * TILE, there = (stage + STAGES - 1) % STAGES;
        wait_for_copies<STAGES - 2>();
        show_copies();
        __syncthreads();
        if (later < queries) {
            load_both(tiles + there * BOTH, q, a.q.row, g, a.g.row, later, queries);
            load_numbers(numbers + there * 2 * TILE, from_logs, later, queries);
            load_numbers(numbers + there * 2 * TILE + TILE, from_sums, later, queries);
        }
        end_of_copies();
        #pragma unroll 1
        for (int part = 0; part < TILE; part += PART) {
            const int query = at + part;
            if (query >= queries) break;
            if (a.causal && query + PART <= group) continue;
            const S* const tile = tiles + stage * BOTH + part * SPAN;
            const float* const logs = numbers + stage * 2 * TILE + part + lane % 4 * 2, * const sums = logs + TILE;
            const bool hides = query + PART > queries || (a.causal && query < own + OWN);
            float s[ROUNDS][PART / 8][4], h[ROUNDS][PART / 8][4];
            start_with_rows(s, k, tile);
            start_with_rows(h, v, tile + TILE * SPAN);
            wait_for_rows<1>(s);
            #pragma unroll
            for (int n = 0; n < PART / 8; ++n)
                #pragma unroll
                for (int r = 0; r < ROUNDS; ++r)
                    #pragma unroll
                    for (int e = 0; e < 4; ++e) s[r][n][e] = power_of_two(s[r][n][e] * scale - logs[n * 8 + e % 2]);
            if (hides) hide<true>(s, own + lane / 4, query + lane % 4 * 2, queries, a.causal, 0);
            start_with_columns(gv, s, tile + TILE * SPAN);
            wait_for_rows<1>(h);
            #pragma unroll
            for (int n = 0; n < PART / 8; ++n)
                #pragma unroll
                for (int r = 0; r < ROUNDS; ++r)
                    #pragma unroll
                    for (int e = 0; e < 4; ++e) h[r][n][e] = s[r][n][e] * (h[r][n][e] - sums[n * 8 + e % 2]);
            if (hides) hide<true>(h, own + lane / 4, query + lane % 4 * 2, queries, a.causal, 0);
            start_with_columns(gk, h, tile);
            wait_for_columns<1>(gv);
            wait_for_columns<0>(gk);
        }
    }
    __syncthreads();
    float by[ROUNDS][2];
    for (int r = 0; r < ROUNDS; ++r) by[r][0] = by[r][1] = 1;
    store(a.gv + (long long)number * keys * DIM, memory + warp * OWN * STAGE, own, keys, gv, by);
    for (int r = 0; r < ROUNDS; ++r) by[r][0] = by[r][1] = (float)a.scale;
    store(a.gk + (long long)number * keys * DIM, memory + warp * OWN * STAGE, own, keys, gk, by);
}
"""
_KERNELS = {"forward": _FORWARD, "of_queries": _OF_QUERIES, "of_keys": _OF_KEYS}


class Form(NamedTuple):
    """Shape of a kernel: the threads of a block, 16-row rounds of a warp, rows of a tile, tiles per iteration, the
    location of the block's rows, and blocks per multiprocessor.
    """

    by_groups: bool
    threads: int
    rounds: int
    tile: int
    part: int
    left: str
    resident: int

    @property
    def rows(self) -> int:
        """Return the rows of a block."""
        return self.threads // 32 * 16 * self.rounds


#: For heads of at most 64, and for larger ones.
_BY_WARPS = {
    "forward": (Form(False, 128, 2, 64, 64, "InRegisters", 2), Form(False, 128, 1, 32, 32, "InRegisters", 2)),
    "of_queries": (Form(False, 128, 2, 64, 32, "InMemory", 3), Form(False, 128, 1, 32, 32, "InMemory", 2)),
    "of_keys": (Form(False, 128, 2, 64, 32, "InMemory", 2), Form(False, 128, 1, 32, 32, "InMemory", 2)),
}
#: For heads of 64, and of 128.
_BY_GROUPS = {
    "forward": (Form(True, 256, 1, 64, 64, "InMemory", 2), Form(True, 128, 1, 64, 64, "InMemory", 2)),
    "of_queries": (Form(True, 256, 1, 64, 64, "InMemory", 2), Form(True, 128, 1, 64, 64, "InMemory", 2)),
    "of_keys": (Form(True, 128, 1, 64, 64, "InMemory", 3), Form(True, 128, 1, 64, 64, "InMemory", 2)),
}


def form(name: str, size: int, has_groups: bool) -> Form:
    """Return the shape of a kernel for a size of heads."""
    forms = _BY_GROUPS if has_groups and size in (64, 128) else _BY_WARPS
    return forms[name][size > 64]


def source(name: str, char: str, size: int, cut: Form) -> str:
    """Return the text of a kernel for a dtype and a size of heads."""
    lanes = 2 if size <= 16 else 4 if size <= 32 else 8 if size <= 64 else 16
    sizes = f"""
typedef {STORED[char]} S;
#define LEFT {cut.left}
enum {{ DIM = {size}, WIDTH = {-(-size // 16) * 16}, STEPS = WIDTH / 16, BLOCKS = WIDTH / 8, STAGE = WIDTH + 8, THREADS = {cut.threads},
       ROUNDS = {cut.rounds}, OWN = 16 * ROUNDS, ROWS = {cut.rows}, TILE = {cut.tile}, PART = {cut.part}, LANES = {lanes},
       RESIDENT = {cut.resident}, STAGES = {_STAGES} }};
"""
    return PRELUDE + sizes + products(char, cut.by_groups) + _COMMON + _KERNELS[name]


def _shared(name: str, size: int, cut: Form) -> int:
    """Return the bytes of shared memory of a block: its rows, pairs of tiles, and numbers of rows."""
    row = 2 * (-(-size // 16) * 16 + (0 if cut.by_groups else 8))
    rows = cut.rows * (1 if name == "forward" else 2)
    numbers = {"forward": 0, "of_queries": cut.rows, "of_keys": 2 * _STAGES * cut.tile}[name]
    return (rows + 2 * _STAGES * cut.tile) * row + 4 * numbers


@functools.lru_cache(maxsize=32)
def _kernel(name: str, char: str, size: int, device: int) -> tuple[launch.Kernel, Form]:
    cut = form(name, size, launch.capability(device) == 90)
    made = launch.Kernel(
        source(name, char, size, cut), LAYOUT, name=name, shared=_shared(name, size, cut), exactly="90a" if cut.by_groups else ""
    )
    return made, cut


def _new(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    return library.device_library.empty(shape, dtype)


def takes(q: Any, k: Any, v: Any, scale: float) -> bool:
    """True if there are kernels for such arrays, of half precision."""
    return q.dtype.char in "eE" and are_taken(q, k, v, scale, _LARGEST)


def attention(q: Any, k: Any, v: Any, is_causal: bool, scale: float) -> tuple[Any, Any]:
    """Return softmax(q k' scale) v, and the logarithm of each query's sum."""
    q, k, v = as_heads(q), as_heads(k), as_heads(v)
    out = _new(q.shape, q.dtype)
    logs = _new(q.shape[:-1], launch.SINGLE)
    _start("forward", q.shape[2], q, k, v, None, (out, logs), is_causal, scale)
    return out, logs


def attention_gradients(
    g: Any, q: Any, k: Any, v: Any, is_causal: bool, scale: float, out: Any, logs: Any
) -> tuple[Any, Any, Any]:
    """Return the gradients in q, k and v, from the forward results."""
    g, q, k, v = as_heads(g), as_heads(q), as_heads(k), as_heads(v)
    out = out if out.flags.c_contiguous else in_order(out)
    sums = _new(q.shape[:-1], launch.SINGLE)
    made = [_new(a.shape, a.dtype) for a in (q, k, v)]
    buffers = (out, logs, sums, *made)
    _start("of_queries", q.shape[2], q, k, v, g, buffers, is_causal, scale)  # stores the sums for the other kernel
    _start("of_keys", k.shape[2], q, k, v, g, buffers, is_causal, scale)
    return made[0], made[1], made[2]


def _start(
    name: str, rows: int, q: Any, k: Any, v: Any, g: Any, buffers: tuple[Any, ...], is_causal: bool, scale: float
) -> None:
    words = words_of(q, k, v, q if g is None else g, buffers, is_causal, scale)
    kernel, cut = _kernel(name, q.dtype.char, q.shape[3], q.device.id)
    kernel(q.shape[0] * q.shape[1] * -(-rows // cut.rows), cut.threads, *words)
