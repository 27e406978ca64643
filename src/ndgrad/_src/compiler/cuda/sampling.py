"""`grid_sample` on a device: a thread computes a point for all channels (see ndgrad._src.compiler.kernels.sampling).

The gradient in images adds by atomic operations, in any order. With deterministic algorithms the formula runs instead.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from ndgrad._src.arrays import determinism
from ndgrad._src.compiler.cuda import launch
from ndgrad._src.compiler.cuda.values import COMPUTED, PRELUDE, STORED, CudaWriter
from ndgrad._src.compiler.kernels.maths.values import Real
from ndgrad._src.compiler.kernels.operations import KernelOps
from ndgrad._src.ops.sampling import axis_taps, gradient_poison, poison_of, to_pixels

_THREADS = 256

_VALUES = """
    for (long long c = 0; c < a.channels; ++c) {
        const S* x = a.x + (n * a.channels + c) * plane;
        T total = poison[0] + poison[1];
        for (int k = 0; k < COUNT; ++k) if (inside[k]) total += wide(x[index[k]]) * weight[k];
        put(a.out[(n * a.channels + c) * a.points + p], total);
    }
"""
_GRADIENT = """
    T sums[COUNT];
    for (int k = 0; k < COUNT; ++k) sums[k] = 0;
    for (long long c = 0; c < a.channels; ++c) {
        const S* x = a.x + (n * a.channels + c) * plane;
        S* back = a.out + (n * a.channels + c) * plane;
        const T g = wide(a.g[(n * a.channels + c) * a.points + p]);
        for (int k = 0; k < COUNT; ++k) if (inside[k]) {
            sums[k] += g * wide(x[index[k]]);
            atomicAdd(back + index[k], g * weight[k]);
        }
    }
    for (int d = 0; d < AXES; ++d) {
        T moved = spoiled[d];
        for (int k = 0; k < COUNT; ++k) if (inside[k]) moved += sums[k] * slope[d][k];
        a.moved[i * AXES + AXES - 1 - d] = moved * factor[d];
    }
"""


def source(what: str, char: str, axes: int, how: tuple[str, str, bool]) -> str:
    """Return the CUDA code of values or gradients, for arrays of a dtype."""
    w = CudaWriter(COMPUTED[char])
    ops = KernelOps(w)
    sizes = [Real(w, w.set(f"T(a.size{a})")) for a in range(axes)]
    along = []
    for a, size in enumerate(sizes):
        position = Real(w, w.set(f"wide(a.grid[i * {axes} + {axes - 1 - a}])"))
        along.append(axis_taps(to_pixels(position, size, how[2]), size, *how, ops))
    poison = [Real(w, str(poison_of(taps, axes))) for taps in along]
    spoiled = [gradient_poison(poison, a, how[0]) for a in range(axes)]
    found = [*product(*along)]
    lines = [_list("poison", poison), _list("spoiled", spoiled), f"const T factor[] = {{{', '.join(_factors(sizes, how[2]))}}};"]
    lines.append(f"bool inside[{len(found)}]; int index[{len(found)}]; T weight[{len(found)}], slope[{axes}][{len(found)}];")
    for k, taps in enumerate(found):
        here = " && ".join(f"{t.index} >= 0 && {t.index} <= {size} - 1" for t, size in zip(taps, sizes, strict=True))
        flat = "0"
        for a, tap in enumerate(taps):
            flat = f"({flat} * (int)a.size{a} + (int){tap.index})"
        lines.append(f"inside[{k}] = {here}; index[{k}] = inside[{k}] ? {flat} : 0;")
        lines.append(f"weight[{k}] = {' * '.join(str(t.weight) for t in taps)};")
        for a in range(axes):
            factors = [str(t.slope if a == b else t.weight) for b, t in enumerate(taps)]
            lines.append(f"slope[{a}][{k}] = {' * '.join(factors)};")
    body = "\n    ".join([*w.lines, *lines]) + (_VALUES if what == "values" else _GRADIENT)
    fields = " ".join(f"long long size{a};" for a in range(axes))
    plane = " * ".join(f"a.size{a}" for a in range(axes))
    return f"""{PRELUDE}typedef {COMPUTED[char]} T; typedef {STORED[char]} S;
#define COUNT {len(found)}
#define AXES {axes}
struct Arguments {{ long long samples; long long channels; long long points; {fields}
                   S* out; S* moved; const S* x; const S* grid; const S* g; }};
extern "C" __global__ void kernel(const Arguments a) {{
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x, n = i / a.points, p = i % a.points;
    if (i >= a.samples * a.points) return;
    const long long plane = {plane};
    {body}
}}
"""


def _list(name: str, values: Sequence[Any]) -> str:
    return f"const T {name}[] = {{{', '.join(map(str, values))}}};"


def _factors(sizes: Sequence[Real], align_corners: bool) -> list[str]:
    return [f"({size} - 1) / 2" if align_corners else f"{size} / 2" for size in sizes]


@functools.lru_cache(maxsize=64)
def _kernel(what: str, char: str, axes: int, how: tuple[str, str, bool], device: int) -> launch.Kernel:
    return launch.Kernel(source(what, char, axes, how), f"{8 + axes}q")


def run_sampling(what: str, arrays: Sequence[Any], how: tuple[str, str, bool]) -> tuple[Any, ...] | None:
    """Return the values of images at positions, or the gradients in both; None if the formula should run."""
    x, grid = arrays[:2]
    (samples, channels), sizes = x.shape[:2], x.shape[2:]
    if what == "gradient" and determinism.demand != "no":
        return None
    points = math.prod(grid.shape[1:-1])
    kernel = _kernel(what, x.dtype.char, len(sizes), how, x.data.device_id)
    if what == "values":
        out: tuple[Any, ...] = (launch.new((samples, channels, *grid.shape[1:-1]), x.dtype),)
    else:
        out = (launch.new(x.shape, x.dtype), launch.new(grid.shape, np.dtype(x.dtype)))
        out[0].fill(0)
    pointers = [a.data.ptr for a in (*out, *arrays)]
    if what == "values":
        pointers = [pointers[0], 0, *pointers[1:], 0]
    kernel(-(-samples * points // _THREADS), _THREADS, samples, channels, points, *sizes, *pointers)
    return out
