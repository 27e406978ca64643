"""Native kernels of `grid_sample`: its values, and its gradients in images and positions.

    void name(ptr argument, i64 chunk, i64 worker)

A vector of points is processed at a time. The formula of ndgrad._src.ops.sampling gives indices and weights of the taps
in registers, once for all channels. Words of the argument: samples, channels, points, points of a chunk, then the size of
each axis, then the addresses of the arrays. The gradient adds to images point by point, so a chunk is a sample.
"""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ndgrad._src.arrays import threads as allowed
from ndgrad._src.compiler.kernels import maths
from ndgrad._src.compiler.kernels.elementwise import data, word
from ndgrad._src.compiler.kernels.maths.values import Mask, Real, Writer
from ndgrad._src.compiler.kernels.operations import KernelOps
from ndgrad._src.compiler.kernels.taps import read_at
from ndgrad._src.compiler.native import pool, target
from ndgrad._src.compiler.native.calls import address_reader
from ndgrad._src.compiler.native.ir import Function, Vector, element_of, module
from ndgrad._src.ops.sampling import axis_taps, gradient_poison, poison_of, to_pixels

Array = NDArray[Any]

#: Points of a chunk, and minimum number of values for a second thread.
_GRAIN, _SHARED = 1024, 32768


class _Combined(NamedTuple):
    """A tap of all axes: its index as i32, the mask of points inside, its weight, and its slope for each axis."""

    place: str
    inside: Mask
    weight: Real
    slopes: list[Real]


class _Kernel:
    """A kernel under construction."""

    def __init__(self, element: str, axes: int, arrays: int) -> None:
        self.f = f = Function("sample", "ptr %argument, i64 %chunk, i64 %worker", attributes="nounwind")
        self.type = Vector(element, target.host().lanes(element))
        self.places = Vector("i32", self.type.lanes)
        self.w = Writer(f, self.type, target.host().fma)
        self.axes = axes
        self.samples, self.channels, self.points, self.grain = (word(f, n) for n in range(4))
        self.sizes = [word(f, 4 + n) for n in range(axes)]
        self.arrays = [data(f, 4 + axes + n) for n in range(arrays)]
        self.plane = self.sizes[0]
        for size in self.sizes[1:]:
            self.plane = f.mul(self.plane, size)

    def lanes(self, first: str, step: int) -> str:
        """Return the numbers first, first + step, ... as i32."""
        f, places = self.f, self.places
        start = f.splat(f.set(f"trunc i64 {first} to i32"), places)
        steps = ", ".join(f"i32 {n * step}" for n in range(places.lanes))
        return f.set(f"add {places} {start}, <{steps}>")

    def taps(self, grid: str, p: str, mask: str, how: tuple[str, str, bool]) -> tuple[list[_Combined], list[Real]]:
        """Return the taps of points from p on, and the poison of each axis."""
        f, w, type = self.f, self.w, self.type
        ops = KernelOps(w)
        along, poison = [], []
        sizes = [
            w.real(f.splat(f.set(f"sitofp i64 {size} to {type.element}"), type)) for size in self.sizes
        ]
        for a, size in enumerate(sizes):
            index = self.lanes(f.add(f.mul(p, self.axes), self.axes - 1 - a), self.axes)
            position = w.real(read_at(f, type, grid, index, mask))
            taps = axis_taps(to_pixels(position, size, how[2]), size, *how, ops)
            poison.append(w.real(poison_of(taps, self.axes)))
            along.append(taps)
        found = []
        for some in product(*along):
            taps = list(some)
            inside = flat = None
            for tap, size, count in zip(taps, sizes, self.sizes, strict=True):
                here = (tap.index >= 0.0) & (tap.index <= size - 1.0)
                inside = here if inside is None else inside & here
                safe = here.choose(tap.index, w.real(0.0))
                at = f.set(f"fptosi {type} {safe} to {self.places}")
                if flat is not None:
                    wide = f.splat(f.set(f"trunc i64 {count} to i32"), self.places)
                    at = f.set(f"add {self.places} {f.set(f'mul {self.places} {flat}, {wide}')}, {at}")
                flat = at
            assert inside is not None
            assert flat is not None
            slopes = [
                math.prod([t.slope if a == b else t.weight for b, t in enumerate(taps[1:], 1)],
                          start=taps[0].slope if a == 0 else taps[0].weight)
                for a in range(self.axes)
            ]  # fmt: skip
            weight = math.prod([t.weight for t in taps[1:]], start=taps[0].weight)
            zero = w.real(0.0)
            found.append(_Combined(flat, inside, inside.choose(weight, zero), [inside.choose(s, zero) for s in slopes]))
        return found, poison

    def code(self) -> target.Code:
        self.f.returns()
        return target.Code(module([self.f, *maths.library(self.f.needed, target.host())]))


def _write_values(element: str, axes: int, how: tuple[str, str, bool]) -> target.Code:
    k = _Kernel(element, axes, 3)
    f, w, type = k.f, k.w, k.type
    out, x, grid = k.arrays
    chunks = f.div(f.sub(f.add(k.points, k.grain), 1), k.grain)
    n, part = f.div("%chunk", chunks), f.set(f"urem i64 %chunk, {chunks}")
    begin = f.mul(part, k.grain)
    place = f.address(element, grid, f.mul(f.mul(n, k.points), axes))
    with f.loop(f.least(f.add(begin, k.grain), k.points), begin, str(type.lanes)) as p:
        mask = f.first_lanes(type, f.least(f.sub(k.points, p), type.lanes))
        taps, poison = k.taps(place, p, mask, how)
        with f.loop(k.channels) as c:
            line = f.add(f.mul(n, k.channels), c)
            image = f.address(element, x, f.mul(line, k.plane))
            total = poison[0] + poison[1]
            for tap in taps:
                value = tap.inside.choose(w.real(read_at(f, type, image, tap.place)), w.real(0.0))
                total = total + value * tap.weight
            f.store_masked(type, total.name, f.address(element, out, f.add(f.mul(line, k.points), p)), mask)
    return k.code()


def _write_gradient(element: str, axes: int, how: tuple[str, str, bool]) -> target.Code:
    k = _Kernel(element, axes, 5)
    f, w, type = k.f, k.w, k.type
    grad_x, grad_grid, x, grid, g = k.arrays
    start = f.mul(f.mul("%chunk", k.points), axes)
    place, to = f.address(element, grid, start), f.address(element, grad_grid, start)
    with f.loop(k.points, "0", str(type.lanes)) as p:
        mask = f.first_lanes(type, f.least(f.sub(k.points, p), type.lanes))
        taps, poison = k.taps(place, p, mask, how)
        sums = [f.carry(type, type.constant(0.0)) for _ in taps]
        with f.loop(k.channels, carried=sums) as c:
            line = f.add(f.mul("%chunk", k.channels), c)
            image, back = (f.address(element, a, f.mul(line, k.plane)) for a in (x, grad_x))
            given = w.real(f.load_masked(type, f.address(element, g, f.add(f.mul(line, k.points), p)), mask))
            for tap, total in zip(taps, sums, strict=True):
                value = tap.inside.choose(given * w.real(read_at(f, type, image, tap.place)), w.real(0.0))
                total.next = (w.real(total.name) + value).name
                _add_lanes(k, tap.inside.choose(given * tap.weight, w.real(0.0)), tap.place, back)
        for a in range(axes):
            moved = gradient_poison(poison, a, how[0])
            for tap, total in zip(taps, sums, strict=True):
                moved = moved + w.real(total.name) * tap.slopes[a]
            size = f.set(f"sitofp i64 {k.sizes[a]} to {element}")
            count = w.real(f.splat(size, type))
            moved = moved * ((count - 1.0) * 0.5 if how[2] else count * 0.5)
            places = k.lanes(f.add(f.mul(p, axes), axes - 1 - a), axes)
            pointers = f.set(f"getelementptr {element}, ptr {to}, {k.places} {places}")
            f.call_void(
                f"llvm.masked.scatter.{type.suffix}.v{type.lanes}p0",
                f"{type} {moved}", f"<{type.lanes} x ptr> {pointers}", f"i32 {Vector(element).bytes}", f"{type.mask} {mask}",
            )  # fmt: skip
    return k.code()


def _add_lanes(k: _Kernel, values: Real, index: str, image: str) -> None:
    """Add values at positions that may be equal, one after another."""
    f, element = k.f, Vector(k.type.element)
    for lane in range(k.type.lanes):
        at = f.set(f"sext i32 {f.set(f'extractelement {k.places} {index}, i64 {lane}')} to i64")
        value = f.set(f"extractelement {k.type} {values}, i64 {lane}")
        pointer = f.address(element.element, image, at)
        f.store(element, f.set(f"fadd {element} {f.load(element, pointer)}, {value}"), pointer)


@functools.cache
def _kernel(what: str, dtype: np.dtype[Any], axes: int, how: tuple[str, str, bool]) -> tuple[target.Code, int]:
    write = _write_values if what == "values" else _write_gradient
    code = write(element_of(dtype), axes, how)
    return code, code.address("sample")


def run_sampling(what: str, arrays: Sequence[Array], how: tuple[str, str, bool]) -> tuple[Array, ...]:
    """Return the values of images x at positions, or the gradients in both, for dense arrays of one dtype."""
    x, grid = arrays[:2]
    (samples, channels), sizes = x.shape[:2], x.shape[2:]
    points = math.prod(grid.shape[1:-1])
    _, address = _kernel(what, x.dtype, len(sizes), how)
    if what == "values":
        out: tuple[Array, ...] = (np.empty((samples, channels, *grid.shape[1:-1]), x.dtype),)
        chunks = samples * -(-points // _GRAIN)
    else:
        out = (np.zeros(x.shape, x.dtype), np.empty(grid.shape, x.dtype))
        chunks = samples
    pointers = address_reader()(*out, *arrays)
    words = struct.pack(f"{4 + len(sizes) + len(pointers)}q", samples, channels, points, _GRAIN, *sizes, *pointers)
    threads = 1 if samples * channels * points < _SHARED else allowed.max_threads
    pool.pool()._run(address, words, chunks, threads)
    return out
