"""Fused kernels on the processor: their CUDA C++ compiled by the C++ compiler, the threads of a block one after another.

A thread is a context of its own that runs to its next barrier, then the next one does; blocks run one after another.
Shuffles are exchanges through memory between two barriers of a warp. Asynchronous copies are made when a thread waits for
them, so that what reads too early reads what was there before. So what is tested is the text that a device would
compile, with its indices, packs, stages and joined parts; not its speed, nor the conversions that are a device's
instructions.
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

#: Declarations in front of every kernel. Templates of the standard library stay out of it: they took most of the time of a compilation.
_HEADER = r"""
#include <cmath>
#include <cstdint>
#include <cstring>
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
static long long __double_as_longlong(double x) { long long y; memcpy(&y, &x, 8); return y; }
template <typename T> T rsqrt(T x) { return T(1) / std::sqrt(x); }
template <typename T> T normcdf(T x) { return T(0.5) * std::erfc(-x * T(0.70710678118654752440)); }
struct alignas(16) uint4 { unsigned int x, y, z, w; };
static uint4 make_uint4(unsigned int x, unsigned int y, unsigned int z, unsigned int w) { return {x, y, z, w}; }
struct Index { unsigned int x; };
namespace emulator {
extern Index thread, block, threads_of_a_block, blocks_of_the_grid;
extern uint64_t slots[1024];
void wait_for_block();
void wait_for_warp();
void copy(void* to, const void* from, int bytes, bool inside);
void end_of_copies();
void wait_for_copies(unsigned int later);
void run(void (*f)(const void*), unsigned int blocks, unsigned int count, const void* a);
}
#define threadIdx emulator::thread
#define blockIdx emulator::block
#define blockDim emulator::threads_of_a_block
#define gridDim emulator::blocks_of_the_grid
static void __syncthreads() { emulator::wait_for_block(); }
static void __syncwarp() { emulator::wait_for_warp(); }
template <typename T> T __shfl_xor_sync(unsigned int, T x, int d) {
    uint64_t* const slots = emulator::slots;
    slots[threadIdx.x] = 0; memcpy(&slots[threadIdx.x], &x, sizeof(T));
    __syncwarp();
    T y; memcpy(&y, &slots[threadIdx.x ^ d], sizeof(T));
    __syncwarp();
    return y;
}
static void __threadfence() {}
static void __threadfence_system() {}
template <typename T> T atomicAdd(T* at, T x) { const T before = *at; *at += x; return before; }
template <typename T> T atomicCAS(T* at, T seen, T x) { const T before = *at; if (before == seen) *at = x; return before; }
template <typename T> T atomicMin(T* at, T x) { const T before = *at; if (x < before) *at = x; return before; }
template <typename T> T atomicMax(T* at, T x) { const T before = *at; if (x > before) *at = x; return before; }
template <typename T> T atomicExch(T* at, T x) { const T before = *at; *at = x; return before; }
"""

#: Threads, barriers and asynchronous copies, compiled once into a library that every kernel is linked to.
_RUNTIME = r"""
#include <csetjmp>
#include <cstdint>
#include <cstring>
#include <ucontext.h>
#include <vector>
struct Index { unsigned int x; };
namespace emulator {
Index thread, block, threads_of_a_block, blocks_of_the_grid;
uint64_t slots[1024];
/* The stack of a thread belongs to a context. Later switches are jumps, which need no system call. */
struct Place { jmp_buf at; };
static Place scheduler;
static std::vector<ucontext_t> threads;
static std::vector<Place> places;
static std::vector<bool> done, begun;
static unsigned int running;
static void pause_here() { if (!_setjmp(places[running].at)) _longjmp(scheduler.at, 1); }
/* Number of threads that have arrived. Threads that have ended are not expected. */
struct Barrier {
    unsigned int expected, come, turn;
    void pass_if_all() { if (come == expected) { come = 0; ++turn; } }
    void wait() {
        const unsigned int before = turn;
        ++come;
        pass_if_all();
        while (turn == before) pause_here();
    }
    void leave() { --expected; if (expected) pass_if_all(); }
};
static Barrier of_block, of_warps[32];
void wait_for_block() { of_block.wait(); }
void wait_for_warp() { of_warps[thread.x / 32].wait(); }
struct Copied { void* to; const void* from; int bytes; bool inside; };
static std::vector<std::vector<Copied>> copies[1024];  // the last group is not closed
void copy(void* to, const void* from, int bytes, bool inside) {
    auto& own = copies[thread.x];
    if (own.empty()) own.emplace_back();
    own.back().push_back({to, from, bytes, inside});
}
void end_of_copies() {
    if (copies[thread.x].empty()) copies[thread.x].emplace_back();
    copies[thread.x].emplace_back();
}
void wait_for_copies(unsigned int later) {
    auto& own = copies[thread.x];
    while (own.size() > later + 1) {
        for (const Copied& c : own.front())
            if (c.inside) memcpy(c.to, c.from, c.bytes); else memset(c.to, 0, c.bytes);
        own.erase(own.begin());
    }
}
static void (*body)(const void*);
static const void* argument;
static void enter() {
    body(argument);
    done[running] = true; of_block.leave(); of_warps[running / 32].leave();
    _longjmp(scheduler.at, 1);
}
void run(void (*f)(const void*), unsigned int blocks, unsigned int count, const void* a) {
    body = f; argument = a; threads_of_a_block.x = count; blocks_of_the_grid.x = blocks;
    for (auto& own : copies) own.clear();
    static std::vector<std::vector<char>> stacks;
    if (stacks.size() < count) stacks.resize(count, std::vector<char>(1 << 16));
    for (unsigned int b = 0; b < blocks; ++b) {
        block.x = b;
        threads.assign(count, ucontext_t()); places.resize(count); done.assign(count, false); begun.assign(count, false);
        of_block = {count, 0, 0};
        for (unsigned int w = 0; w * 32 < count; ++w) of_warps[w] = {count - w * 32 < 32 ? count - w * 32 : 32, 0, 0};
        for (unsigned int t = 0; t < count; ++t) {
            getcontext(&threads[t]);
            threads[t].uc_stack.ss_sp = stacks[t].data(); threads[t].uc_stack.ss_size = stacks[t].size();
            makecontext(&threads[t], enter, 0);
        }
        static bool left;  // static, like everything that lives over a jump: a register would be restored
        static unsigned int t;
        for (left = true; left;) {
            left = false;
            for (t = 0; t < count; ++t) {
                if (done[t]) continue;
                thread.x = running = t;
                if (!_setjmp(scheduler.at)) {
                    if (begun[t]) _longjmp(places[t].at, 1);
                    begun[t] = true;
                    setcontext(&threads[t]);
                }
                left = left || !done[t];
            }
        }
    }
}
}
"""


#: Replacements for the functions of ndgrad._src.compiler.cuda.tile_products that are instructions of a device.
_TENSOR_CORES = r"""
inline unsigned int pair(float x, float y) {
    S low, high;
    put(low, x);
    put(high, y);
    return low.bits | (unsigned int)high.bits << 16;
}
inline float power_of_two(float x) { return std::exp2(x); }
template <int BYTES> void copy(void* to, const void* from, bool inside) { emulator::copy(to, from, BYTES, inside); }
inline void end_of_copies() { emulator::end_of_copies(); }
template <int LATER> void wait_for_copies() { emulator::wait_for_copies(LATER); }
static float number(unsigned int both, int k) { S s; s.bits = both >> (k % 2 * 16); return wide(s); }
static unsigned int operands[1024][6];
"""
_OF_WARPS = r"""
static const S* addresses[1024];
inline void mma(float* c, const unsigned int* a, unsigned int b0, unsigned int b1) {
    const unsigned int own[6] = {a[0], a[1], a[2], a[3], b0, b1};
    memcpy(operands[threadIdx.x], own, sizeof own);
    __syncwarp();
    const int warp = threadIdx.x / 32 * 32, lane = threadIdx.x % 32;
    for (int e = 0; e < 4; ++e) {
        const int row = lane / 4 + e / 2 * 8, column = lane % 4 * 2 + e % 2;
        for (int k = 0; k < 16; ++k)
            c[e] += number(operands[warp + row % 8 * 4 + k % 8 / 2][row / 8 + k / 8 * 2], k)
                  * number(operands[warp + column * 4 + k % 8 / 2][4 + k / 8], k);
    }
    __syncwarp();
}
inline void as_they_lie(unsigned int* b, const S* at) {
    addresses[threadIdx.x] = at;
    __syncwarp();
    const int warp = threadIdx.x / 32 * 32, lane = threadIdx.x % 32;
    for (int i = 0; i < 4; ++i) memcpy(&b[i], addresses[warp + i * 8 + lane / 4] + lane % 4 * 2, 4);
    __syncwarp();
}
inline void transposed(unsigned int* b, const S* at) {
    addresses[threadIdx.x] = at;
    __syncwarp();
    const int warp = threadIdx.x / 32 * 32, lane = threadIdx.x % 32;
    for (int i = 0; i < 4; ++i) {
        const int first = warp + i * 8 + lane % 4 * 2;
        b[i] = addresses[first][lane / 4].bits | (unsigned int)addresses[first + 1][lane / 4].bits << 16;
    }
    __syncwarp();
}
"""
_OF_GROUPS = r"""
typedef unsigned long long Tile;
inline Tile tile_at(const S* at) { return (Tile)at; }
/* Element j of row i of a tile: units of 1024 bytes begin at multiples of that, and 16 bytes are exchanged in them. */
static float element(Tile tile, int i, int j) {
    const Tile at = tile + i * 128 + j * 2;
    return wide(*(const S*)(at ^ (at >> 7 & 7) << 4));
}
inline void begin_products(float (*c)[4]) { __syncwarp(); }
inline void given(unsigned int* a) {}
inline void end_products() {}
template <int LATER> void wait_for_products(float (*c)[4]) { __syncwarp(); }
inline void show_copies() {}
inline void from_memory(float (*c)[4], Tile a, Tile b, int adds) {
    const int lane = threadIdx.x % 32, first = threadIdx.x / 32 % 4 * 16 + lane / 4;
    for (int i = 0; i < 32; ++i) {
        const int row = first + i % 4 / 2 * 8, column = i / 4 * 8 + lane % 4 * 2 + i % 2;
        if (!adds) c[i / 4][i % 4] = 0;
        for (int k = 0; k < 16; ++k) c[i / 4][i % 4] += element(a, row, k) * element(b, column, k);
    }
}
inline void from_registers(float (*c)[4], const unsigned int* a, Tile b) {
    memcpy(operands[threadIdx.x], a, 16);
    __syncwarp();
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 * 32;
    for (int i = 0; i < 32; ++i) {
        const int upper = i % 4 / 2, column = i / 4 * 8 + lane % 4 * 2 + i % 2;
        for (int k = 0; k < 16; ++k)
            c[i / 4][i % 4] += number(operands[warp + lane / 4 * 4 + k % 8 / 2][upper + k / 8 * 2], k) * element(b, k, column);
    }
    __syncwarp();
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
        elif "float power_of_two(float x)" in line:
            line = _TENSOR_CORES
        elif "mma.sync.aligned.m16n8k8" in line:
            line = _TENSOR_CORES_OF_SINGLES
        elif 'asm("mma.sync' in line:
            line = _OF_WARPS
        elif "inline void from_memory(" in line:
            line = _OF_GROUPS
        elif 'asm volatile("' in line or 'asm("' in line or "Tile tile_at(" in line:
            line = ""
        elif "extern __shared__" in line:
            line = re.sub(r"extern __shared__ (.*)\[\];", r"static \1[1 << 17];", line)
        elif line.startswith('extern "C" __global__'):
            name, kind = re.search(r" (\w+)\(const (.*) a\) \{", line).groups()
            line = (
                f"static void {name}_body(const {kind}& a);\n"
                f'extern "C" void {name}(unsigned int blocks, unsigned int count, const void* a) {{\n'
                f"    emulator::run([](const void* p) {{ {name}_body(*(const {kind}*)p); }}, blocks, count, a);\n}}\n"
                f"static void {name}_body(const {kind}& a) {{"
            )
        lines.append(line)
    return "\n".join(lines)


#: Some distributions check jumps by default (_FORTIFY_SOURCE) and abort if one leads to another stack. Shared memory is static
#: variables of inline functions, which a process would share among kernels with functions of one name (-fno-gnu-unique).
_COMPILE = ["g++", "-std=c++17", "-w", "-fpermissive", "-ffp-contract=off", "-fPIC", "-fno-gnu-unique", "-U_FORTIFY_SOURCE"]


def _prepare() -> Path:
    """Folder of compiled kernels, with the precompiled header and the runtime library; its name is a hash of both."""
    wanted = hashlib.sha256("".join((_HEADER, _RUNTIME, *_COMPILE)).encode()).hexdigest()[:16]
    place = Path(tempfile.gettempdir()) / f"ndgrad-emulated-{wanted}"
    if not place.exists():
        work = Path(tempfile.mkdtemp(dir=place.parent))
        (work / "header.h").write_text(_HEADER)
        (work / "runtime.cpp").write_text(_RUNTIME)
        subprocess.run([*_COMPILE, "-O0", "-x", "c++-header", work / "header.h", "-o", work / "header.h.gch"], check=True)
        subprocess.run([*_COMPILE, "-O1", "-shared", work / "runtime.cpp", "-o", work / "libruntime.so"], check=True)
        try:
            work.rename(place)
        except OSError:  # another process was quicker
            shutil.rmtree(work)
    return place


def _compile(text: str) -> Path:
    """Library with the functions of `text`, from an earlier run if possible."""
    folder = _prepare()
    path = folder / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.so"
    if not path.exists():
        with tempfile.TemporaryDirectory(dir=folder) as work:
            source, made = Path(work) / "kernels.cpp", Path(work) / "kernels.so"
            source.write_text(text)
            command = [*_COMPILE, "-O0", "-shared", "-nostartfiles", "-include", folder / "header.h", source, "-o", made]
            done = subprocess.run([*command, folder / "libruntime.so"], capture_output=True, text=True)
            assert not done.returncode, done.stderr[:4000] + text
            made.rename(path)
    return path


class Functions:
    """In the place of ndgrad._src.compiler.cuda.launch.Functions."""

    def __init__(self, code: str) -> None:
        self._library = ctypes.CDLL(str(_compile(_on_processor(code))))

    def start(self, name: str, blocks: int, threads: int, addresses: list[int]) -> None:
        self.run(name, blocks, threads, struct.pack(f"{len(addresses)}q", *addresses))

    def run(self, name: str, blocks: int, threads: int, argument: bytes) -> None:
        """Run a function with a structure for its argument."""
        getattr(self._library, name)(ctypes.c_uint(blocks), ctypes.c_uint(threads), argument + bytes(16))


class Kernel:
    """In the place of ndgrad._src.compiler.cuda.launch.Kernel."""

    def __init__(self, code: str, layout: str, grain: int = 1, name: str = "kernel", shared: int = 0, exactly: str = "") -> None:
        self._functions, self._layout, self._name = Functions(code), layout, name

    def __call__(self, blocks: int, threads: int, *words: object) -> None:
        self._functions.run(self._name, blocks, threads, struct.pack(self._layout, *words))


def install() -> None:
    """Let programs on the stand-in's device run fused kernels here."""
    from ndgrad._src.compiler.cuda import launch

    launch.Functions = Functions  # type: ignore[misc]
    launch.can_be_made = lambda: True
