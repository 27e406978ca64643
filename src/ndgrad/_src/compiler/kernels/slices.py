"""Read indexed slices, add to them, or overwrite them.

Arrays are (outer, length, inner), an index (count,) of i64 along the middle dimension:

    Y[o, j, :] = X[o, I[j], :]                 void {prefix}_take(ptr table, ptr X, ptr I, ptr Y, i64 begin, i64 end)
    Y = X, or zeros where X is null            void {prefix}_begin(ptr table, ptr X, ptr Y, i64 begin, i64 end)
    Y[o, I[j], :] += G[o, j, :], or = G[...]   void {prefix}_put(ptr table, ptr G, ptr I, ptr Y, i64 begin, i64 end)

An index out of range is clamped, so that no other memory is touched. The caller checks for such indices. A chunk of
`take` is a block of j, one of `begin` a piece of Y. A chunk of `put` is a block of o and a part of the slices, in whole
cache lines, for all of I. So each element is added to, or written, in the order of I, for any number of threads and
without locks. (Chunks by the numbers in I would need a branch for each of them, which the processor cannot predict.)
"""

from __future__ import annotations

from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ndgrad._src.compiler.kernels.pool_work import work_function
from ndgrad._src.compiler.kernels.table_fields import Fields
from ndgrad._src.compiler.native.ir import SIZES, Function, Vector
from ndgrad._src.compiler.native.target import Target

PARAMETERS = {
    "take": "ptr %table, ptr %X, ptr %I, ptr %Y, i64 %begin, i64 %end",
    "begin": "ptr %table, ptr %X, ptr %Y, i64 %begin, i64 %end",
    "put": "ptr %table, ptr %G, ptr %I, ptr %Y, i64 %begin, i64 %end",
}
#: `inner` is the bytes of a slice, `block` the slices of a chunk of `take`, `piece` the bytes of one of `begin`. For
#: `put`, `lines` is the numbers o of a chunk, `part` the bytes of one of the `parts` of a slice. `adds` is 1 if slices
#: are added, 0 if they are written.
TABLE = ["outer", "length", "count", "inner", "block", "piece", "lines", "part", "parts", "adds"]

#: Minimum bytes for another thread, and maximum number of useful pieces.
_PIECE, _PIECES = 2**16, 32
#: Minimum bytes of a part of a slice: a pair of cache lines, which processors fetch together.
_LINES = 128


class Slices(NamedTuple):
    """A table, and the chunks of each function."""

    table: NDArray[np.int64]
    take: int
    begin: int
    put: int


def slices_table(shape: tuple[int, ...], dim: int, count: int, size: int, adds: bool = True) -> Slices:
    """Return the table for an array of elements of `size` bytes and an index of `count` numbers along `dim`."""
    outer, length, inner = prod(shape[:dim]), shape[dim], prod(shape[dim + 1 :]) * size
    moved, total = outer * inner * count, outer * inner * length
    block = -(-count // _pieces(moved, count))
    piece = -(-total // (_pieces(total, total) * _LINES)) * _LINES
    wanted = _pieces(moved, max(1, outer * inner // _LINES))
    lines = -(-outer // min(outer, wanted))
    groups = -(-outer // lines)
    part = -(-inner // (-(-wanted // groups) * _LINES)) * _LINES
    parts = -(-inner // part)
    words = np.array([outer, length, count, inner, block, piece, lines, part, parts, adds], np.int64)
    return Slices(words, -(-count // block), -(-total // piece), groups * parts)


def _pieces(moved: int, most: int) -> int:
    return max(1, min(_PIECES, moved // _PIECE, most))


def library(prefix: str, element: str, target: Target) -> list[Function | str]:
    """Return all functions of this file, for `ir.module`."""
    type = Vector(element, target.lanes(element))
    return [
        _take(prefix),
        _begin(prefix),
        _put(prefix, type),
        *(work_function(f"{prefix}_{name}", text) for name, text in PARAMETERS.items()),
    ]


def _place(f: Function, t: Fields, j: str) -> str:
    """Return the number at a place of the index, clamped to the array."""
    found = f.set(f"load i64, ptr {f.ahead('%I', f.mul(j, 8))}")
    return f.most(f.least(found, f.sub(t["length"], 1)), 0)


def _take(prefix: str) -> Function:
    f = Function(f"{prefix}_take", PARAMETERS["take"], attributes="nounwind")
    t = Fields(f, "%table", TABLE)
    first, last = f.mul("%begin", t["block"]), f.least(f.mul("%end", t["block"]), t["count"])
    numbers = [(size, f.compare("eq", t["inner"], size)) for size in (4, 8)]
    longer = f.negated(f.either(numbers[0][1], numbers[1][1]))
    with f.loop(t["outer"]) as o:
        source = f.ahead("%X", f.mul(f.mul(o, t["length"]), t["inner"]))
        target = f.ahead("%Y", f.mul(f.mul(o, t["count"]), t["inner"]))
        for size, holds in numbers:
            kind = Vector({4: "i32", 8: "i64"}[size])
            with f.when(holds), f.loop(last, start=first) as j:
                value = f.set(f"load {kind}, ptr {f.ahead(source, f.mul(_place(f, t, j), size))}, align 1")
                f.do(f"store {kind} {value}, ptr {f.ahead(target, f.mul(j, size))}, align 1")
        with f.when(longer), f.loop(last, start=first) as j:
            a, b = f.ahead(source, f.mul(_place(f, t, j), t["inner"])), f.ahead(target, f.mul(j, t["inner"]))
            f.call_void("llvm.memcpy.p0.p0.i64", f"ptr {b}", f"ptr {a}", f"i64 {t['inner']}", "i1 false")
    f.returns()
    return f


def _begin(prefix: str) -> Function:
    f = Function(f"{prefix}_begin", PARAMETERS["begin"], attributes="nounwind")
    t = Fields(f, "%table", TABLE)
    total = f.mul(f.mul(t["outer"], t["length"]), t["inner"])
    first = f.mul("%begin", t["piece"])
    count = f.most(f.sub(f.least(f.mul("%end", t["piece"]), total), first), 0)
    target, source = f.ahead("%Y", first), f.ahead("%X", first)
    from_zeros = f.set("icmp eq ptr %X, null")
    with f.when(from_zeros):
        f.call_void("llvm.memset.p0.i64", f"ptr {target}", "i8 0", f"i64 {count}", "i1 false")
    with f.when(f.negated(from_zeros)):
        f.call_void("llvm.memcpy.p0.p0.i64", f"ptr {target}", f"ptr {source}", f"i64 {count}", "i1 false")
    f.returns()
    return f


def _put(prefix: str, type: Vector) -> Function:
    f = Function(f"{prefix}_put", PARAMETERS["put"], attributes="nounwind")
    t = Fields(f, "%table", TABLE)
    one, size, lanes = Vector(type.element), SIZES[type.element], type.lanes
    adds = f.compare("ne", t["adds"], 0)
    with f.loop("%end", start="%begin") as chunk:
        group = f.div(chunk, t["parts"])
        start = f.mul(f.sub(chunk, f.mul(group, t["parts"])), t["part"])
        wide = f.least(t["part"], f.sub(t["inner"], start))
        lines = f.mul(group, t["lines"])
        with f.loop(f.least(f.add(lines, t["lines"]), t["outer"]), start=lines) as o:
            source = f.ahead("%G", f.add(f.mul(f.mul(o, t["count"]), t["inner"]), start))
            target = f.ahead("%Y", f.add(f.mul(f.mul(o, t["length"]), t["inner"]), start))

            def places(j: str) -> tuple[str, str]:
                return f.ahead(source, f.mul(j, t["inner"])), f.ahead(target, f.mul(_place(f, t, j), t["inner"]))

            single = f.compare("eq", wide, size)
            with f.when(f.both(adds, single)), f.loop(t["count"]) as j:
                a, b = places(j)
                f.store(one, f.set(f"fadd {one} {f.load(one, b)}, {f.load(one, a)}"), b)
            with f.when(f.both(adds, f.negated(single))):
                elements = f.div(wide, size)
                whole = f.mul(f.div(elements, lanes), lanes)
                rest = f.sub(elements, whole)
                some, mask = f.compare("sgt", rest, 0), f.first_lanes(type, rest)
                with f.loop(t["count"]) as j:
                    a, b = places(j)
                    with f.loop(whole, step=str(lanes)) as i:
                        offset = f.mul(i, size)
                        value, place = f.load(type, f.ahead(a, offset)), f.ahead(b, offset)
                        f.store(type, f.set(f"fadd {type} {f.load(type, place)}, {value}"), place)
                    with f.when(some):
                        offset = f.mul(whole, size)
                        value, place = f.load_masked(type, f.ahead(a, offset), mask), f.ahead(b, offset)
                        total = f.set(f"fadd {type} {f.load_masked(type, place, mask)}, {value}")
                        f.store_masked(type, total, place, mask)
            writes = f.negated(adds)
            numbers = [(n, f.compare("eq", wide, n)) for n in (4, 8)]
            for n, holds in numbers:
                kind = Vector({4: "i32", 8: "i64"}[n])
                with f.when(f.both(writes, holds)), f.loop(t["count"]) as j:
                    a, b = places(j)
                    f.do(f"store {kind} {f.set(f'load {kind}, ptr {a}, align 1')}, ptr {b}, align 1")
            longer = f.negated(f.either(numbers[0][1], numbers[1][1]))
            with f.when(f.both(writes, longer)), f.loop(t["count"]) as j:
                a, b = places(j)
                f.call_void("llvm.memcpy.p0.p0.i64", f"ptr {b}", f"ptr {a}", f"i64 {wide}", "i1 false")
    f.returns()
    return f
