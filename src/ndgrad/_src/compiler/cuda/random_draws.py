"""Draw random numbers on a device: the kernels of ndgrad._src.arrays.philox, which has the same as array functions.

A thread computes one block of four words, and two or four numbers from it. A kernel that is recorded in a graph reads
the number of its draw from the device's memory, which is updated before each replay.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ndgrad._src.arrays import graph_recording
from ndgrad._src.arrays.philox import DIGITS, MULTIPLIERS, ROUNDS, STEPS
from ndgrad._src.compiler.cuda import launch
from ndgrad._src.compiler.cuda.in_place import Table
from ndgrad._src.compiler.cuda.values import COMPUTED, PRELUDE, STORED

_THREADS = 256
_NAMES = {"f": "float32", "d": "float64", "e": "float16", "E": "bfloat16"}

_PHILOX = f"""
struct Words {{ unsigned int at[4]; }};
__device__ inline Words philox(unsigned long long seed, unsigned long long number, unsigned long long block) {{
    Words c = {{ {{ (unsigned int)block, (unsigned int)(block >> 32), (unsigned int)number, (unsigned int)(number >> 32) }} }};
    unsigned int low = (unsigned int)seed, high = (unsigned int)(seed >> 32);
    #pragma unroll
    for (int i = 0; i < {ROUNDS}; ++i) {{
        const unsigned int p = c.at[0] * {MULTIPLIERS[0]}u, q = c.at[2] * {MULTIPLIERS[1]}u;
        c = {{ {{ __umulhi(c.at[2], {MULTIPLIERS[1]}u) ^ c.at[1] ^ low, q, __umulhi(c.at[0], {MULTIPLIERS[0]}u) ^ c.at[3] ^ high, p }} }};
        low += {STEPS[0]}u; high += {STEPS[1]}u;
    }}
    return c;
}}
__device__ inline unsigned long long joined(unsigned int high, unsigned int low) {{ return (unsigned long long)high << 32 | low; }}
"""
#: Kind -> the numbers per block, and the lines that compute them from its words `c`.
_BETWEEN = "put(made.at[k], p + (q - p) * u); if (!(wide(made.at[k]) < q) && p < q) put(made.at[k], p);"
_KINDS = {
    "uniform": (4, "for (int k = 0; k < 4; ++k) { const T u = T(c.at[k] >> SHIFT) * SCALE; " + _BETWEEN + " }"),
    "uniform of doubles": (
        2,
        "for (int k = 0; k < 2; ++k) { const T u = T(joined(c.at[2 * k], c.at[2 * k + 1]) >> 11) * 0x1p-53; " + _BETWEEN + " }",
    ),
    "normal": (4, """
        for (int k = 0; k < 4; k += 2) {
            const float u = float(c.at[k]) * 0x1p-32f + 0x1p-33f, v = float(c.at[k + 1]) * 0x1p-32f;
            const float radius = sqrtf(-2.0f * logf(u));
            float s, t;
            sincosf(v * 6.2831855f, &s, &t);
            put(made.at[k], p + q * (radius * t));
            put(made.at[k + 1], p + q * (radius * s));
        }"""),
    "normal of doubles": (2, """
        const double u = (double(joined(c.at[0], c.at[1]) >> 12) + 0.5) * 0x1p-52;
        const double v = double(joined(c.at[2], c.at[3]) >> 11) * 0x1p-53, radius = sqrt(-2.0 * log(u));
        double s, t;
        sincos(v * 6.283185307179586, &s, &t);
        put(made.at[0], p + q * (radius * t));
        put(made.at[1], p + q * (radius * s));"""),
    "below": (4, "for (int k = 0; k < 4; ++k) put(made.at[k], CHOSEN(double(c.at[k]) * 0x1p-32 < a.p));"),
    "inside": (
        2,
        "for (int k = 0; k < 2; ++k) made.at[k] = (double(joined(c.at[2 * k], c.at[2 * k + 1]) >> 12) + 0.5) * 0x1p-52;",
    ),
    "whole": (2, "for (int k = 0; k < 2; ++k) made.at[k] = joined(c.at[2 * k], c.at[2 * k + 1]);"),
}  # fmt: skip


def source(kind: str, char: str) -> str:
    """Return the text of the kernel that draws numbers of a kind, of a dtype ("Q": words of 64 bits)."""
    each, lines = _KINDS[kind]
    digits = DIGITS.get(_NAMES.get(char, ""), 24)
    stored = "unsigned long long" if char == "Q" else STORED[char]
    return f"""{PRELUDE}{_PHILOX}typedef {COMPUTED.get(char, "float")} T; typedef {stored} S;
#define SHIFT {32 - digits}
#define SCALE T({2.0**-digits!r})
#define CHOSEN(x) {"(x)" if char == "?" else "((x) ? T(1) : T(0))"}
struct Arguments {{ long long n; S* out; unsigned long long seed; unsigned long long number; const unsigned long long* later;
                   double p; double q; }};
extern "C" __global__ void __launch_bounds__({_THREADS}) kernel(const Arguments a) {{
    const long long block = (long long)blockIdx.x * {_THREADS} + threadIdx.x, first = block * {each};
    if (first >= a.n) return;
    const unsigned long long seed = a.later ? a.later[0] : a.seed, number = a.later ? a.later[1] : a.number;
    const T p = T(a.p), q = T(a.q);
    const Words c = philox(seed, number, (unsigned long long)block);
    Pack<S, {each}> made;
    {lines}
    if (first + {each} <= a.n) {{ *(Pack<S, {each}>*)(a.out + first) = made; return; }}
    for (int k = 0; first + k < a.n; ++k) a.out[first + k] = made.at[k];
}}
"""


@functools.lru_cache(maxsize=64)
def _kernel(kind: str, char: str, device: int) -> launch.Kernel:
    return launch.Kernel(source(kind, char), "2q2Qq2d")


def drawn(kind: str, generator: Any, shape: tuple[int, ...], dtype: np.dtype[Any], p: float = 0.0, q: float = 1.0) -> Any:
    """Return numbers of a kind in new memory; None if there is no kernel for the dtype."""
    char = "Q" if kind == "whole" else dtype.char
    if kind in ("uniform", "normal"):
        if char not in COMPUTED:
            return None
        kind = f"{kind} of doubles" if char == "d" else kind
    elif kind == "below" and char not in STORED:
        return None
    out = launch.new(shape, dtype)
    if not out.size:
        return out
    seed = number = later = 0
    if graph_recording.active is None:
        seed, number = generator.next()
    else:
        later = _later(generator)
    blocks = -(-out.size // _KINDS[kind][0])
    kernel = _kernel(kind, char, out.data.device_id)
    kernel(-(-blocks // _THREADS), _THREADS, out.size, out.data.ptr, seed, number, later, p, q)
    return out


def _later(generator: Any) -> int:
    """Return the address of the draw number of a replay."""
    assert graph_recording.active is not None
    words = np.zeros(2, np.uint64)

    def refill() -> None:
        words[0], words[1] = generator.next()

    graph_recording.active.before_replay.append(refill)
    return int(Table(words).device.data.ptr)  # sent before each replay, and as long-lived
