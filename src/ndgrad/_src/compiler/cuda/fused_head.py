"""Types and functions of CUDA C++ that all fused kernels use, before their own code."""

from __future__ import annotations

from ndgrad._src.compiler.cuda.values import PRELUDE

HEAD = (
    PRELUDE.replace("sizeof(T) * N) Pack", "sizeof(T) * N > 16 ? 16 : sizeof(T) * N) Pack")
    + """
template <typename T> __device__ inline T wide(T x) { return x; }
template <typename S, typename T> __device__ inline void put(S& to, T x) { to = (S)x; }
template <typename S> __device__ inline float rounded(float x) { S s; put(s, x); return wide(s); }
template <typename T> struct Ends {
    static __device__ inline T lowest() { return (T)1 << (sizeof(T) * 8 - 1); }
    static __device__ inline T highest() { return ~((T)1 << (sizeof(T) * 8 - 1)); }
};
template <> struct Ends<float> {
    static __device__ inline float lowest() { return __int_as_float(0xff800000); }
    static __device__ inline float highest() { return __int_as_float(0x7f800000); }
};
template <> struct Ends<double> {
    static __device__ inline double lowest() { return __int_as_float(0xff800000); }
    static __device__ inline double highest() { return __int_as_float(0x7f800000); }
};
/* The terms of G threads that take a row together, joined: all of them get the result. */
template <int G, typename T, typename F> __device__ inline T joined(T x, F join) {
    #pragma unroll
    for (int d = (G < 32 ? G : 32) / 2; d; d >>= 1) x = join(x, (T)__shfl_xor_sync(0xffffffff, x, d));
    if (G > 32) {
        __shared__ T kept[32];
        __syncthreads();
        if (threadIdx.x % 32 == 0) kept[threadIdx.x / 32] = x;
        __syncthreads();
        const int first = threadIdx.x / G * (G / 32);
        x = kept[first];
        for (int i = 1; i < G / 32; ++i) x = join(x, kept[first + i]);
    }
    return x;
}
template <int N> struct Pointers { void* at[N]; };
/* Those of several kernels that are alike: from which block on each begins, and its packs. */
template <int K, int N> struct Many { long long count; long long first[K]; long long packs[K]; void* at[K][N]; };
"""
)
