"""Fused kernels on the processor: their CUDA C++ compiled by the C++ compiler, the threads of a block one after another.

A thread is a context of its own that runs to its next barrier, then the next one does; blocks run one after another.
Shuffles are exchanges through memory between two barriers. So what is tested is the text that a device would compile,
with its indices, packs, stages and joined parts; not its speed, nor the conversions that are a device's instructions.
"""

from __future__ import annotations

import ctypes
import hashlib
import re
import shutil
import struct
import subprocess
import tempfile
from pathlib import Path

_SHIM = r"""
#include <cmath>
#include <cstdint>
#include <cstring>
#include <ucontext.h>
#include <vector>
#define __device__
#define __global__
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __shared__ static
#define __restrict__
#define __grid_constant__
using std::copysign; using std::fabs; using std::floor; using std::exp; using std::log; using std::sqrt; using std::tanh;
static float __int_as_float(unsigned int x) { float y; memcpy(&y, &x, 4); return y; }
static float __uint_as_float(unsigned int x) { float y; memcpy(&y, &x, 4); return y; }
static unsigned int __float_as_uint(float x) { unsigned int y; memcpy(&y, &x, 4); return y; }
template <typename T> T rsqrt(T x) { return T(1) / std::sqrt(x); }
template <typename T> T normcdf(T x) { return T(0.5) * std::erfc(-x * T(0.70710678118654752440)); }
struct alignas(16) uint4 { unsigned int x, y, z, w; };
static uint4 make_uint4(unsigned int x, unsigned int y, unsigned int z, unsigned int w) { return {x, y, z, w}; }
struct Index { unsigned int x; };
static Index threadIdx, blockIdx, blockDim;
static ucontext_t scheduler;
static std::vector<ucontext_t> threads;
static std::vector<bool> done;
static unsigned int running;
static void __syncthreads() { swapcontext(&threads[running], &scheduler); }
static uint64_t slots[1024];
template <typename T> T __shfl_xor_sync(unsigned int, T x, int d) {
    slots[threadIdx.x] = 0; memcpy(&slots[threadIdx.x], &x, sizeof(T));
    __syncthreads();
    T y; memcpy(&y, &slots[threadIdx.x ^ d], sizeof(T));
    __syncthreads();
    return y;
}
static void (*body)(const void*);
static const void* argument;
static void enter() { body(argument); done[running] = true; }
static void run(void (*f)(const void*), unsigned int blocks, unsigned int count, const void* a) {
    body = f; argument = a; blockDim.x = count;
    static std::vector<std::vector<char>> stacks;
    if (stacks.size() < count) stacks.resize(count, std::vector<char>(1 << 16));
    for (unsigned int b = 0; b < blocks; ++b) {
        blockIdx.x = b;
        threads.assign(count, ucontext_t()); done.assign(count, false);
        for (unsigned int t = 0; t < count; ++t) {
            getcontext(&threads[t]);
            threads[t].uc_stack.ss_sp = stacks[t].data(); threads[t].uc_stack.ss_size = stacks[t].size();
            threads[t].uc_link = &scheduler;
            makecontext(&threads[t], enter, 0);
        }
        for (bool left = true; left;) {
            left = false;
            for (unsigned int t = 0; t < count; ++t) {
                if (done[t]) continue;
                threadIdx.x = running = t;
                swapcontext(&scheduler, &threads[t]);
                left = left || !done[t];
            }
        }
    }
}
"""


_TENSOR_CORES = r"""
static unsigned int operands[1024][6];
static const S* addresses[1024];
static float number(unsigned int both, int k) { S s; s.bits = both >> (k % 2 * 16); return wide(s); }
inline void mma(float* c, const unsigned int* a, unsigned int b0, unsigned int b1) {
    const unsigned int own[6] = {a[0], a[1], a[2], a[3], b0, b1};
    memcpy(operands[threadIdx.x], own, sizeof own);
    __syncthreads();
    const int warp = threadIdx.x / 32 * 32, lane = threadIdx.x % 32;
    for (int e = 0; e < 4; ++e) {
        const int row = lane / 4 + e / 2 * 8, column = lane % 4 * 2 + e % 2;
        for (int k = 0; k < 16; ++k)
            c[e] += number(operands[warp + row % 8 * 4 + k % 8 / 2][row / 8 + k / 8 * 2], k)
                  * number(operands[warp + column * 4 + k % 8 / 2][4 + k / 8], k);
    }
    __syncthreads();
}
inline void as_they_lie(unsigned int* b, const S* at) {
    addresses[threadIdx.x] = at;
    __syncthreads();
    const int warp = threadIdx.x / 32 * 32, lane = threadIdx.x % 32;
    for (int i = 0; i < 4; ++i) memcpy(&b[i], addresses[warp + i * 8 + lane / 4] + lane % 4 * 2, 4);
    __syncthreads();
}
inline unsigned int pair(float x, float y) {
    S low, high;
    put(low, x);
    put(high, y);
    return low.bits | (unsigned int)high.bits << 16;
}
inline float power_of_two(float x) { return std::exp2(x); }
inline void transposed(unsigned int* b, const S* at) {
    addresses[threadIdx.x] = at;
    __syncthreads();
    const int warp = threadIdx.x / 32 * 32, lane = threadIdx.x % 32;
    for (int i = 0; i < 4; ++i) {
        const int first = warp + i * 8 + lane % 4 * 2;
        b[i] = addresses[first][lane / 4].bits | (unsigned int)addresses[first + 1][lane / 4].bits << 16;
    }
    __syncthreads();
}
"""

_TENSOR_CORES_OF_SINGLES = r"""
static float operands[1024][6];
inline float two_to_the(float x) { return std::exp2(x); }
inline void afresh(float& x) {}
inline float cut(float x) { return __uint_as_float(__float_as_uint(x) & ~0x1fffu); }
inline void mma(float* c, const float* a, const float* b) {
    for (int i = 0; i < 4; ++i) operands[threadIdx.x][i] = cut(a[i]);
    for (int i = 0; i < 2; ++i) operands[threadIdx.x][4 + i] = cut(b[i]);
    __syncthreads();
    const int warp = threadIdx.x / 32 * 32, lane = threadIdx.x % 32;
    for (int e = 0; e < 4; ++e) {
        const int row = lane / 4 + e / 2 * 8, column = lane % 4 * 2 + e % 2;
        for (int k = 0; k < 8; ++k)
            c[e] += operands[warp + row % 8 * 4 + k % 4][row / 8 + k / 4 * 2] * operands[warp + column * 4 + k % 4][4 + k / 4];
    }
    __syncthreads();
}
"""


def _on_processor(code: str) -> str:
    """The source with what a processor has in the place of a device's instructions."""
    lines = []
    for line in code.splitlines():
        if 'asm("cvt.f32.f16' in line:
            line = "inline float wide(Half x) { _Float16 h; memcpy(&h, &x.bits, 2); return (float)h; }"
        elif 'asm("cvt.rn.f16.f32' in line:
            line = "inline void put(Half& to, float x) { _Float16 h = (_Float16)x; memcpy(&to.bits, &h, 2); }"
        elif "mma.sync.aligned.m16n8k8" in line:
            line = _TENSOR_CORES_OF_SINGLES
        elif 'asm volatile("' in line or 'asm("' in line:
            line = _TENSOR_CORES if "mma.sync" in line else ""
        elif line.startswith('extern "C" __global__'):
            name, kind = re.search(r" (\w+)\(const (.*) a\) \{", line).groups()
            line = (
                f"static void {name}_body(const {kind}& a);\n"
                f'extern "C" void {name}(unsigned int blocks, unsigned int count, const void* a) {{\n'
                f"    run([](const void* p) {{ {name}_body(*(const {kind}*)p); }}, blocks, count, a);\n}}\n"
                f"static void {name}_body(const {kind}& a) {{"
            )
        lines.append(line)
    return "\n".join(lines)


_COMPILE = ["g++", "-std=c++17", "-O0", "-w", "-fpermissive", "-ffp-contract=off", "-fPIC"]


def _header(folder: Path) -> Path:
    """The shim, compiled once: reading the standard library's headers takes longer than all the rest."""
    place = folder / f"shim-{hashlib.sha256(_SHIM.encode()).hexdigest()[:16]}"
    if not place.exists():
        work = Path(tempfile.mkdtemp(dir=folder))
        (work / "shim.h").write_text(_SHIM)
        subprocess.run([*_COMPILE, "-x", "c++-header", work / "shim.h", "-o", work / "shim.h.gch"], check=True)
        try:
            work.rename(place)
        except OSError:  # another process was quicker
            shutil.rmtree(work)
    return place / "shim.h"


class Functions:
    """In the place of ndgrad.compiler.cuda.launch.Functions."""

    def __init__(self, code: str) -> None:
        text = _on_processor(code)
        folder = Path(tempfile.gettempdir()) / "ndgrad-emulated"
        folder.mkdir(exist_ok=True)
        path = folder / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.so"
        if not path.exists():
            with tempfile.TemporaryDirectory() as work:
                source, made = Path(work) / "kernels.cpp", Path(work) / "kernels.so"
                source.write_text(text)
                command = [*_COMPILE, "-shared", "-include", _header(folder), source, "-o", made]
                done = subprocess.run(command, capture_output=True, text=True)
                assert not done.returncode, done.stderr[:4000] + text
                shutil.move(made, path)
        self._library = ctypes.CDLL(str(path))

    def start(self, name: str, blocks: int, threads: int, addresses: list[int]) -> None:
        self.run(name, blocks, threads, struct.pack(f"{len(addresses)}q", *addresses))

    def run(self, name: str, blocks: int, threads: int, argument: bytes) -> None:
        """Run a function with a structure for its argument."""
        getattr(self._library, name)(ctypes.c_uint(blocks), ctypes.c_uint(threads), argument + bytes(16))


class Kernel:
    """In the place of ndgrad.compiler.cuda.launch.Kernel."""

    def __init__(self, code: str, layout: str, grain: int = 1, name: str = "kernel") -> None:
        self._functions, self._layout, self._name = Functions(code), layout, name

    def __call__(self, blocks: int, threads: int, *words: object) -> None:
        self._functions.run(self._name, blocks, threads, struct.pack(self._layout, *words))


def install() -> None:
    """Let programs on the stand-in's device run fused kernels here."""
    from ndgrad.compiler.cuda import launch

    launch.Functions = Functions  # type: ignore[misc]
    launch.can_be_made = lambda: True
