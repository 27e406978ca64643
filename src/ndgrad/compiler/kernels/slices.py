"""Slices that an index names: reading them, and adding to them.

Arrays are (outer, length, inner), an index (count,) of i64 along the middle dimension:

    Y[o, j, :] = X[o, I[j], :]                 void {prefix}_take(ptr table, ptr X, ptr I, ptr Y, i64 begin, i64 end)
    Y[o, I[j], :] += G[o, j, :], from zeros    void {prefix}_add(ptr table, ptr G, ptr I, ptr Y, i64 begin, i64 end)

An index that lies outside is brought to the nearest end, so that no other memory is touched; whether there is one is
for others to look at. A chunk of `take` is a block of j. One of `add` is a block of the result, which belongs to it
alone: it goes through all of I and takes what falls into its block. So each element is added to in the order of I,
whatever the number of threads, and nothing is locked.
"""

from __future__ import annotations

from math import prod

import numpy as np
from numpy.typing import NDArray

from ndgrad.compiler.kernels.fields import Fields
from ndgrad.compiler.kernels.work import work_function
from ndgrad.compiler.native.ir import SIZES, Function, Vector
from ndgrad.compiler.native.target import Target

PARAMETERS = {
    "take": "ptr %table, ptr %X, ptr %I, ptr %Y, i64 %begin, i64 %end",
    "add": "ptr %table, ptr %G, ptr %I, ptr %Y, i64 %begin, i64 %end",
}
#: `inner` is the bytes of a slice, `block` the slices of a chunk.
TABLE = ["outer", "length", "count", "inner", "block"]

#: Bytes that are worth handing to another thread, and the pieces beyond which nothing is gained.
_PIECE, _PIECES = 2**16, 32


def slices_table(shape: tuple[int, ...], dim: int, count: int, size: int, adds: bool) -> tuple[NDArray[np.int64], int]:
    """The table for an array of elements of `size` bytes that is read or added to along `dim`,
    and the number of chunks."""
    outer, length, inner = prod(shape[:dim]), shape[dim], prod(shape[dim + 1 :]) * size
    rows = length if adds else count
    moved = outer * inner * (rows + (count if adds else 0))
    pieces = max(1, min(_PIECES, moved // _PIECE, rows))
    block = -(-rows // pieces)
    return np.array([outer, length, count, inner, block], np.int64), -(-rows // block)


def library(prefix: str, element: str, target: Target) -> list[Function | str]:
    """All functions of this file, for `ir.module`."""
    type = Vector(element, target.lanes(element))
    return [
        _take(prefix),
        _add(prefix, type),
        *(work_function(f"{prefix}_{name}", text) for name, text in PARAMETERS.items()),
    ]


def _place(f: Function, t: Fields, j: str) -> str:
    """The number at a place of the index, within the array."""
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


def _add(prefix: str, type: Vector) -> Function:
    f = Function(f"{prefix}_add", PARAMETERS["add"], attributes="nounwind")
    t = Fields(f, "%table", TABLE)
    size, lanes = SIZES[type.element], type.lanes
    first, last = f.mul("%begin", t["block"]), f.least(f.mul("%end", t["block"]), t["length"])
    elements = f.div(t["inner"], size)
    whole = f.mul(f.div(elements, lanes), lanes)
    rest = f.sub(elements, whole)
    some, mask = f.compare("sgt", rest, 0), f.first_lanes(type, rest)
    with f.loop(t["outer"]) as o:
        source = f.ahead("%G", f.mul(f.mul(o, t["count"]), t["inner"]))
        target = f.ahead("%Y", f.mul(f.mul(o, t["length"]), t["inner"]))
        cleared = f.mul(f.sub(last, first), t["inner"])
        f.call_void(
            "llvm.memset.p0.i64",
            f"ptr {f.ahead(target, f.mul(first, t['inner']))}",
            "i8 0",
            f"i64 {cleared}",
            "i1 false",
        )
        with f.loop(t["count"]) as j:
            k = _place(f, t, j)
            with f.when(f.both(f.compare("sge", k, first), f.compare("slt", k, last))):
                a, b = f.ahead(source, f.mul(j, t["inner"])), f.ahead(target, f.mul(k, t["inner"]))
                with f.loop(whole, step=str(lanes)) as i:
                    offset = f.mul(i, size)
                    value, place = f.load(type, f.ahead(a, offset)), f.ahead(b, offset)
                    f.store(type, f.set(f"fadd {type} {f.load(type, place)}, {value}"), place)
                with f.when(some):
                    offset = f.mul(whole, size)
                    value, place = f.load_masked(type, f.ahead(a, offset), mask), f.ahead(b, offset)
                    f.store_masked(type, f.set(f"fadd {type} {f.load_masked(type, place, mask)}, {value}"), place, mask)
    f.returns()
    return f
