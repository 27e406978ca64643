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

_THREADS = 128
_LARGEST = 128

_SOURCE = """
enum { WIDTH = (DIM + 15) / 16 * 16, PAD = WIDTH + 8, STEPS = WIDTH / 16, BLOCKS = WIDTH / 8, THREADS = 128,
       ROUNDS = DIM <= 64 ? 2 : 1, OWN = 16 * ROUNDS, ROWS = 4 * OWN, TILE = DIM <= 64 ? 64 : 32, PART = 32,
       LANES = DIM <= 16 ? 2 : DIM <= 32 ? 4 : DIM <= 64 ? 8 : 16 };
struct Operand { const S* at; long long batch; long long head; long long row; };
struct Arguments { Operand q; Operand k; Operand v; Operand g; S* out; float* logs; float* sums; S* gq; S* gk; S* gv;
                   long long heads; long long queries; long long keys; long long causal; long long lead; double scale; };
typedef unsigned int Left[STEPS][ROUNDS][4];

__device__ inline void mma(float* c, const unsigned int* a, unsigned int b0, unsigned int b1) { MMA }
__device__ inline void transposed(unsigned int* b, const S* at) { TRANSPOSED }
__device__ inline void as_they_lie(unsigned int* b, const S* at) { LDMATRIX }
__device__ inline unsigned int pair(float x, float y) { PAIR }
__device__ inline float power_of_two(float x) { POWER }
template <int BYTES> __device__ inline void copy(void* to, const void* from, bool inside) { COPY }
__device__ inline void end_of_copies() { COMMIT }
template <int LATER> __device__ inline void wait_for_copies() { WAIT }

/* Where a head's rows begin. */
__device__ inline const S* head_of(Operand o, long long number, long long heads) {
    return o.at + number / heads * o.batch + number % heads * o.head;
}
/* Begin to copy rows into shared memory, zeros behind the last and behind the last column. */
template <int COUNT> __device__ inline void load(S* to, const S* from, long long stride, int first, int end) {
    #pragma unroll
    for (int i = threadIdx.x; i < COUNT * BLOCKS; i += THREADS) {
        const int row = i / BLOCKS, column = i % BLOCKS * 8;
        const bool inside = first + row < end && column < DIM;
        copy<16>(to + row * PAD + column, inside ? from + (first + row) * stride + column : from, inside);
    }
}
__device__ inline void load_numbers(float* to, const float* from, int first, int end) {
    const int i = threadIdx.x;
    if (i < TILE) copy<4>(to + i, first + i < end ? from + first + i : from, first + i < end);
}
/* Step k of a warp's rows as the left operand of a product. */
__device__ inline void left(unsigned int (*f)[4], const S* rows, int k) {
    const int lane = threadIdx.x % 32;
    #pragma unroll
    for (int r = 0; r < ROUNDS; ++r) as_they_lie(f[r], rows + (r * 16 + lane % 16) * PAD + k * 16 + lane / 16 * 8);
}
struct Held {
    Left all;
    __device__ inline Held(const S* rows) {
        #pragma unroll
        for (int k = 0; k < STEPS; ++k) left(all[k], rows, k);
    }
    __device__ inline void get(unsigned int (*f)[4], int k) const {
        #pragma unroll
        for (int r = 0; r < ROUNDS; ++r) for (int e = 0; e < 4; ++e) f[r][e] = all[k][r][e];
    }
};
struct Shared {
    const S* rows;
    __device__ inline Shared(const S* rows) : rows(rows) {}
    __device__ inline void get(unsigned int (*f)[4], int k) const { left(f, rows, k); }
};
/* Products of a warp's rows with N rows of a tile. */
template <int N, typename Rows> __device__ inline void with_rows(float (*c)[N / 8][4], const Rows& rows, const S* tile) {
    const int lane = threadIdx.x % 32;
    #pragma unroll
    for (int r = 0; r < ROUNDS; ++r) for (int n = 0; n < N / 8; ++n) for (int e = 0; e < 4; ++e) c[r][n][e] = 0;
    #pragma unroll
    for (int k = 0; k < STEPS; ++k) {
        unsigned int a[ROUNDS][4];
        rows.get(a, k);
        #pragma unroll
        for (int n = 0; n < N / 8; n += 2) {
            unsigned int b[4];
            as_they_lie(b, tile + (n * 8 + lane % 8 + lane / 16 * 8) * PAD + k * 16 + lane / 8 % 2 * 8);
            #pragma unroll
            for (int r = 0; r < ROUNDS; ++r) {
                mma(c[r][n], a[r], b[0], b[1]);
                mma(c[r][n + 1], a[r], b[2], b[3]);
            }
        }
    }
}
/* Add to sums the product of weights with N rows of a tile, which the weights' columns are. */
template <int N> __device__ inline void with_columns(float (*sums)[BLOCKS][4], const float (*w)[N / 8][4], const S* tile) {
    const int lane = threadIdx.x % 32;
    #pragma unroll
    for (int k = 0; k < N / 16; ++k) {
        unsigned int a[ROUNDS][4];
        #pragma unroll
        for (int r = 0; r < ROUNDS; ++r)
            for (int e = 0; e < 4; ++e) a[r][e] = pair(w[r][2 * k + e / 2][e % 2 * 2], w[r][2 * k + e / 2][e % 2 * 2 + 1]);
        #pragma unroll
        for (int n = 0; n < BLOCKS; n += 2) {
            unsigned int b[4];
            transposed(b, tile + (k * 16 + lane % 16) * PAD + n * 8 + lane / 16 * 8);
            #pragma unroll
            for (int r = 0; r < ROUNDS; ++r) {
                mma(sums[r][n], a[r], b[0], b[1]);
                mma(sums[r][n + 1], a[r], b[2], b[3]);
            }
        }
    }
}
/* Put another number where a query does not see a key, or one of both is not there. `row` and `column` are the first ones of a
   lane; rows are queries, or keys. */
template <int N, bool OF_KEYS> __device__ inline void hide(float (*c)[N / 8][4], int row, int column, int end, bool causal, float number) {
    #pragma unroll
    for (int r = 0; r < ROUNDS; ++r)
        #pragma unroll
        for (int n = 0; n < N / 8; ++n)
            #pragma unroll
            for (int e = 0; e < 4; ++e) {
                const int i = row + r * 16 + e / 2 * 8, j = column + n * 8 + e % 2;
                if (j >= end || (causal && (OF_KEYS ? i > j : j > i))) c[r][n][e] = number;
            }
}
/* Write a warp's rows times a number for each, through shared memory that is the warp's own: 16 bytes at a time. */
__device__ inline void store(S* to, S* own, int first, int end, const float (*sums)[BLOCKS][4], const float (*by)[2]) {
    const int lane = threadIdx.x % 32;
    #pragma unroll
    for (int r = 0; r < ROUNDS; ++r)
        #pragma unroll
        for (int n = 0; n < BLOCKS; ++n)
            #pragma unroll
            for (int h = 0; h < 2; ++h)
                *(unsigned int*)(own + (r * 16 + h * 8 + lane / 4) * PAD + n * 8 + lane % 4 * 2)
                    = pair(sums[r][n][2 * h] * by[r][h], sums[r][n][2 * h + 1] * by[r][h]);
    __syncwarp();
    #pragma unroll
    for (int i = lane; i < OWN * (DIM / 8); i += 32) {
        const int row = i / (DIM / 8), column = i % (DIM / 8) * 8;
        if (first + row < end) *(uint4*)(to + (first + row) * (long long)DIM + column) = *(const uint4*)(own + row * PAD + column);
    }
    __syncwarp();
}
__device__ inline void clear(float (*sums)[BLOCKS][4]) {
    #pragma unroll
    for (int r = 0; r < ROUNDS; ++r) for (int n = 0; n < BLOCKS; ++n) for (int e = 0; e < 4; ++e) sums[r][n][e] = 0;
}

extern "C" __global__ void __launch_bounds__(128, FORWARD_BLOCKS) forward(const Arguments a) {
    extern __shared__ __align__(16) S memory[];
    const int queries = (int)a.queries, keys = (int)a.keys, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const long long number = blockIdx.x % a.lead;
    const int first = ((queries + ROWS - 1) / ROWS - 1 - (int)(blockIdx.x / a.lead)) * ROWS, own = first + warp * OWN;
    const S* const k = head_of(a.k, number, a.heads), * const v = head_of(a.v, number, a.heads);
    S* const tiles = memory + ROWS * PAD;
    const float scale = (float)(a.scale * 1.4426950408889634);
    load<ROWS>(memory, head_of(a.q, number, a.heads), a.q.row, first, queries);
    load<TILE>(tiles, k, a.k.row, 0, keys);
    load<TILE>(tiles + TILE * PAD, v, a.v.row, 0, keys);
    end_of_copies();
    wait_for_copies<0>();
    __syncthreads();
    const FORWARD_LEFT q(memory + warp * OWN * PAD);
    float out[ROUNDS][BLOCKS][4], top[ROUNDS][2], total[ROUNDS][2];
    clear(out);
    for (int r = 0; r < ROUNDS; ++r) for (int h = 0; h < 2; ++h) top[r][h] = __int_as_float(0xff800000), total[r][h] = 0;
    const int end = a.causal && first + ROWS < keys ? first + ROWS : keys;
    for (int key = 0, turn = 0; key < end; key += TILE, turn ^= 1) {
        const S* const tile = tiles + turn * 2 * TILE * PAD;
        wait_for_copies<0>();
        __syncthreads();
        if (key + TILE < end) {
            S* const next = tiles + (turn ^ 1) * 2 * TILE * PAD;
            load<TILE>(next, k, a.k.row, key + TILE, keys);
            load<TILE>(next + TILE * PAD, v, a.v.row, key + TILE, keys);
            end_of_copies();
        }
        if (a.causal && key >= own + OWN) continue;
        float s[ROUNDS][TILE / 8][4];
        with_rows<TILE>(s, q, tile);
        if (key + TILE > keys || (a.causal && key + TILE > own))
            hide<TILE, false>(s, own + lane / 4, key + lane % 4 * 2, keys, a.causal, __int_as_float(0xff800000));
        #pragma unroll
        for (int r = 0; r < ROUNDS; ++r)
            #pragma unroll
            for (int h = 0; h < 2; ++h) {
                float most = top[r][h];
                #pragma unroll
                for (int n = 0; n < TILE / 8; ++n) most = fmaxf(most, fmaxf(s[r][n][2 * h], s[r][n][2 * h + 1]));
                most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, 1));
                most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, 2));
                const float by = power_of_two((top[r][h] - most) * scale), shift = most * scale;
                top[r][h] = most;
                total[r][h] *= by;
                #pragma unroll
                for (int n = 0; n < BLOCKS; ++n) out[r][n][2 * h] *= by, out[r][n][2 * h + 1] *= by;
                #pragma unroll
                for (int n = 0; n < TILE / 8; ++n)
                    #pragma unroll
                    for (int e = 2 * h; e < 2 * h + 2; ++e) {
                        s[r][n][e] = power_of_two(s[r][n][e] * scale - shift);
                        total[r][h] += s[r][n][e];
                    }
            }
        with_columns<TILE>(out, s, tile + TILE * PAD);
    }
    float by[ROUNDS][2];
    for (int r = 0; r < ROUNDS; ++r)
        for (int h = 0; h < 2; ++h) {
            float sum = total[r][h];
            sum += __shfl_xor_sync(0xffffffff, sum, 1);
            sum += __shfl_xor_sync(0xffffffff, sum, 2);
            const int row = own + r * 16 + h * 8 + lane / 4;
            if (lane % 4 == 0 && row < queries) a.logs[number * queries + row] = top[r][h] * scale + log2f(sum);
            by[r][h] = 1 / sum;
        }
    store(a.out + number * queries * DIM, memory + warp * OWN * PAD, own, queries, out, by);
}

extern "C" __global__ void __launch_bounds__(128, QUERIES_BLOCKS) of_queries(const Arguments a) {
    extern __shared__ __align__(16) S memory[];
    const int queries = (int)a.queries, keys = (int)a.keys, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const long long number = blockIdx.x % a.lead;
    const int first = ((queries + ROWS - 1) / ROWS - 1 - (int)(blockIdx.x / a.lead)) * ROWS, own = first + warp * OWN;
    const S* const k = head_of(a.k, number, a.heads), * const v = head_of(a.v, number, a.heads);
    const S* const from_g = head_of(a.g, number, a.heads), * const from_out = a.out + number * queries * DIM;
    S* const tiles = memory + 2 * ROWS * PAD;
    float* const of_rows = (float*)(tiles + 4 * TILE * PAD);
    const float scale = (float)(a.scale * 1.4426950408889634);
    load<ROWS>(memory, head_of(a.q, number, a.heads), a.q.row, first, queries);
    load<ROWS>(memory + ROWS * PAD, from_g, a.g.row, first, queries);
    load<TILE>(tiles, k, a.k.row, 0, keys);
    load<TILE>(tiles + TILE * PAD, v, a.v.row, 0, keys);
    end_of_copies();
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
            if (row < queries) a.sums[number * queries + row] = sum;
        }
    }
    wait_for_copies<0>();
    __syncthreads();
    const QUERIES_LEFT q(memory + warp * OWN * PAD), g(memory + (ROWS + warp * OWN) * PAD);
    float gq[ROUNDS][BLOCKS][4], logs[ROUNDS][2], sums[ROUNDS][2];
    clear(gq);
    for (int r = 0; r < ROUNDS; ++r)
        for (int h = 0; h < 2; ++h) {
            const int row = own + r * 16 + h * 8 + lane / 4;
            logs[r][h] = row < queries ? a.logs[number * queries + row] : 0.0f;
            sums[r][h] = of_rows[row - first];
        }
    const int end = a.causal && first + ROWS < keys ? first + ROWS : keys;
    for (int begin = 0, turn = 0; begin < end; begin += TILE, turn ^= 1) {
        wait_for_copies<0>();
        __syncthreads();
        if (begin + TILE < end) {
            S* const next = tiles + (turn ^ 1) * 2 * TILE * PAD;
            load<TILE>(next, k, a.k.row, begin + TILE, keys);
            load<TILE>(next + TILE * PAD, v, a.v.row, begin + TILE, keys);
            end_of_copies();
        }
        #pragma unroll 1
        for (int part = 0; part < TILE; part += QUERIES_PART) {
            const int key = begin + part;
            if (key >= keys || (a.causal && key >= own + OWN)) break;
            const S* const tile = tiles + (turn * 2 * TILE + part) * PAD;
            float s[ROUNDS][QUERIES_PART / 8][4], h[ROUNDS][QUERIES_PART / 8][4];
            with_rows<QUERIES_PART>(s, q, tile);
            with_rows<QUERIES_PART>(h, g, tile + TILE * PAD);
            #pragma unroll
            for (int r = 0; r < ROUNDS; ++r)
                #pragma unroll
                for (int n = 0; n < QUERIES_PART / 8; ++n)
                    #pragma unroll
                    for (int e = 0; e < 4; ++e)
                        h[r][n][e] = power_of_two(s[r][n][e] * scale - logs[r][e / 2]) * (h[r][n][e] - sums[r][e / 2]);
            if (key + QUERIES_PART > keys || (a.causal && key + QUERIES_PART > own))
                hide<QUERIES_PART, false>(h, own + lane / 4, key + lane % 4 * 2, keys, a.causal, 0);
            with_columns<QUERIES_PART>(gq, h, tile);
        }
    }
    float by[ROUNDS][2];
    for (int r = 0; r < ROUNDS; ++r) by[r][0] = by[r][1] = (float)a.scale;
    store(a.gq + number * queries * DIM, memory + warp * OWN * PAD, own, queries, gq, by);
}

extern "C" __global__ void __launch_bounds__(128, KEYS_BLOCKS) of_keys(const Arguments a) {
    extern __shared__ __align__(16) S memory[];
    const int queries = (int)a.queries, keys = (int)a.keys, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const long long number = blockIdx.x % a.lead;
    const int first = (int)(blockIdx.x / a.lead) * ROWS, own = first + warp * OWN;
    const S* const q = head_of(a.q, number, a.heads), * const g = head_of(a.g, number, a.heads);
    S* const tiles = memory + 2 * ROWS * PAD;
    float* const numbers = (float*)(tiles + 4 * TILE * PAD);
    const float* const from_logs = a.logs + number * queries, * const from_sums = a.sums + number * queries;
    const float scale = (float)(a.scale * 1.4426950408889634);
    const int begin = a.causal ? first : 0;
    load<ROWS>(memory, head_of(a.k, number, a.heads), a.k.row, first, keys);
    load<ROWS>(memory + ROWS * PAD, head_of(a.v, number, a.heads), a.v.row, first, keys);
    load<TILE>(tiles, q, a.q.row, begin, queries);
    load<TILE>(tiles + TILE * PAD, g, a.g.row, begin, queries);
    load_numbers(numbers, from_logs, begin, queries);
    load_numbers(numbers + TILE, from_sums, begin, queries);
    end_of_copies();
    wait_for_copies<0>();
    __syncthreads();
    const KEYS_LEFT k(memory + warp * OWN * PAD), v(memory + (ROWS + warp * OWN) * PAD);
    float gk[ROUNDS][BLOCKS][4], gv[ROUNDS][BLOCKS][4];
    clear(gk);
    clear(gv);
    for (int at = begin, turn = 0; at < queries; at += TILE, turn ^= 1) {
        wait_for_copies<0>();
        __syncthreads();
        if (at + TILE < queries) {
            const int later = turn ^ 1;
            S* const next = tiles + later * 2 * TILE * PAD;
            load<TILE>(next, q, a.q.row, at + TILE, queries);
            load<TILE>(next + TILE * PAD, g, a.g.row, at + TILE, queries);
            load_numbers(numbers + later * 2 * TILE, from_logs, at + TILE, queries);
            load_numbers(numbers + later * 2 * TILE + TILE, from_sums, at + TILE, queries);
            end_of_copies();
        }
        #pragma unroll 1
        for (int part = 0; part < TILE; part += KEYS_PART) {
            const int query = at + part;
            if (query >= queries) break;
            if (a.causal && query + KEYS_PART <= own) continue;
            const S* const tile = tiles + (turn * 2 * TILE + part) * PAD;
            const float* const logs = numbers + turn * 2 * TILE + part + lane % 4 * 2, * const sums = logs + TILE;
            const bool hides = query + KEYS_PART > queries || (a.causal && query < own + OWN);
            float s[ROUNDS][KEYS_PART / 8][4], h[ROUNDS][KEYS_PART / 8][4];
            with_rows<KEYS_PART>(s, k, tile);
            #pragma unroll
            for (int n = 0; n < KEYS_PART / 8; ++n)
                #pragma unroll
                for (int r = 0; r < ROUNDS; ++r)
                    #pragma unroll
                    for (int e = 0; e < 4; ++e) s[r][n][e] = power_of_two(s[r][n][e] * scale - logs[n * 8 + e % 2]);
            if (hides) hide<KEYS_PART, true>(s, own + lane / 4, query + lane % 4 * 2, queries, a.causal, 0);
            with_columns<KEYS_PART>(gv, s, tile + TILE * PAD);
            with_rows<KEYS_PART>(h, v, tile + TILE * PAD);
            #pragma unroll
            for (int n = 0; n < KEYS_PART / 8; ++n)
                #pragma unroll
                for (int r = 0; r < ROUNDS; ++r)
                    #pragma unroll
                    for (int e = 0; e < 4; ++e) h[r][n][e] = s[r][n][e] * (h[r][n][e] - sums[n * 8 + e % 2]);
            if (hides) hide<KEYS_PART, true>(h, own + lane / 4, query + lane % 4 * 2, queries, a.causal, 0);
            with_columns<KEYS_PART>(gk, h, tile);
        }
    }
    float by[ROUNDS][2];
    for (int r = 0; r < ROUNDS; ++r) by[r][0] = by[r][1] = 1;
    store(a.gv + number * keys * DIM, memory + warp * OWN * PAD, own, keys, gv, by);
    for (int r = 0; r < ROUNDS; ++r) by[r][0] = by[r][1] = (float)a.scale;
    store(a.gk + number * keys * DIM, memory + warp * OWN * PAD, own, keys, gk, by);
}
"""

_MMA = (
    'asm("mma.sync.aligned.m16n8k16.row.col.f32.KIND.KIND.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, '
    '{%0, %1, %2, %3};" : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), '
    '"r"(b0), "r"(b1));'
)
_LDMATRIX = (
    'asm volatile("ldmatrix.sync.aligned.m8n8.x4KIND.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(b[0]), "=r"(b[1]), '
    '"=r"(b[2]), "=r"(b[3]) : "r"((unsigned int)__cvta_generic_to_shared(at)) : "memory");'
)
_PAIR = 'unsigned int both; asm("cvt.rn.KINDx2.f32 %0, %1, %2;" : "=r"(both) : "f"(y), "f"(x)); return both;'
_COPY = (
    'asm volatile("cp.async.KIND.shared.global [%0], [%1], %2, %3;" :: "r"((unsigned int)__cvta_generic_to_shared(to)), '
    '"l"(from), "n"(BYTES), "r"(inside ? BYTES : 0) : "memory");'
)
_COMMIT = 'asm volatile("cp.async.commit_group;" ::: "memory");'
_WAIT = 'asm volatile("cp.async.wait_group %0;" :: "n"(LATER) : "memory");'
_POWER = 'float y; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y;'
#: The words of the structure: four operands of an address and three strides, six addresses, six numbers, the scale.
_LAYOUT = "16q6q5qd"


#: What a warp holds of its rows in registers, how many columns it takes at a time, and blocks of a processor, by kernel.
CHOICES = {"FORWARD_LEFT": "Held", "FORWARD_BLOCKS": 2, "QUERIES_LEFT": "Shared", "QUERIES_BLOCKS": 3, "QUERIES_PART": 32,
           "KEYS_LEFT": "Shared", "KEYS_BLOCKS": 2, "KEYS_PART": 32}


def source(char: str, size: int) -> str:
    """The text of the kernels for a dtype and a size of heads."""
    types = f"typedef {STORED[char]} S; enum {{ DIM = {size} }};\n"
    types += "".join(f"#define {k} {v}\n" for k, v in CHOICES.items())
    kind, body = "bf16" if char == "E" else "f16", _SOURCE
    instructions = {
        "{ MMA }": _MMA.replace("KIND", kind),
        "{ TRANSPOSED }": _LDMATRIX.replace("KIND", ".trans"),
        "{ LDMATRIX }": _LDMATRIX.replace("KIND", ""),
        "{ PAIR }": _PAIR.replace("KIND", kind),
        "{ POWER }": _POWER,
        "{ COPY }": f'if constexpr (BYTES == 16) {_COPY.replace("KIND", "cg")} else {_COPY.replace("KIND", "ca")}',
        "{ COMMIT }": _COMMIT,
        "{ WAIT }": _WAIT,
    }
    for name, text in instructions.items():
        body = body.replace(name, f"{{ {text} }}", 1)
    return PRELUDE + types + body


def _rows(size: int) -> int:
    """The rows of a block."""
    return 128 if size <= 64 else 64


def _shared(name: str, size: int) -> int:
    """The bytes of shared memory that a block has: its rows, two pairs of tiles, and numbers of rows."""
    tile, row = 64 if size <= 64 else 32, 2 * (-(-size // 16) * 16 + 8)
    rows = _rows(size) * (1 if name == "forward" else 2)
    return (rows + 4 * tile) * row + (0 if name == "forward" else 4 * max(_rows(size), 4 * tile))


@functools.lru_cache(maxsize=32)
def _kernel(name: str, char: str, size: int, device: int) -> launch.Kernel:
    return launch.Kernel(source(char, size), _LAYOUT, name=name, shared=_shared(name, size))


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
        and size % 8 == 0
        and size <= _LARGEST
        and max(q.shape[-2], k.shape[-2]) < 1 << 30
        and _has_tensor_cores(q.device.id)
    )


def attention(q: Any, k: Any, v: Any, is_causal: bool, scale: float) -> tuple[Any, Any]:
    """softmax(q k' scale) v, and the logarithm of each query's sum."""
    q, k, v = _four(q), _four(k), _four(v)
    out = _new(q.shape, q.dtype)
    logs = _new(q.shape[:-1], launch.SINGLE)
    _start("forward", q.shape[2], q, k, v, None, (out, logs), is_causal, scale)
    return out, logs


def attention_gradients(
    g: Any, q: Any, k: Any, v: Any, is_causal: bool, scale: float, out: Any, logs: Any
) -> tuple[Any, Any, Any]:
    """The gradients in q, k and v, from the result and what forward has left besides."""
    g, q, k, v = _four(g), _four(q), _four(k), _four(v)
    out = out if out.flags.c_contiguous else in_order(out)
    sums = _new(q.shape[:-1], launch.SINGLE)
    made = [_new(a.shape, a.dtype) for a in (q, k, v)]
    buffers = (out, logs, sums, *made)
    _start("of_queries", q.shape[2], q, k, v, g, buffers, is_causal, scale)  # which leaves the sums for the other one
    _start("of_keys", k.shape[2], q, k, v, g, buffers, is_causal, scale)
    return made[0], made[1], made[2]


def _start(
    name: str, rows: int, q: Any, k: Any, v: Any, g: Any, buffers: tuple[Any, ...], is_causal: bool, scale: float
) -> None:
    words = [w for a in (q, k, v, q if g is None else g) for w in (a.data.ptr, *[s // a.dtype.itemsize for s in a.strides[:3]])]
    words += [b.data.ptr for b in buffers] + [0] * (6 - len(buffers))
    words += [q.shape[1], q.shape[2], k.shape[2], int(is_causal), q.shape[0] * q.shape[1]]
    blocks = q.shape[0] * q.shape[1] * -(-rows // _rows(q.shape[3]))
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
