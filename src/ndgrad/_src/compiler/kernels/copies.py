"""Copies between arrays of any steps, and choices by a mask, on the threads of the pool.

NumPy copies on one thread, and element by element if an array is reversed or transposed. Here both arrays have the same
shape, and the elements of the result's last dimension are adjacent. The last dimension and one other, that of the
smallest step in the source, form a matrix; a chunk is a block of its rows. Rows are moved whole, filled with one
element, reversed, or transposed in tiles of one cache line each way. Elements are bits of 1, 2, 4 or 8 bytes.

The words of a copy are the blocks of a matrix, the rows of a block, rows, columns, the steps of the source (from row to
row and column to column) and of the result (from row to row), the number of further dimensions with their sizes and
steps in both arrays, last one first, and the addresses of result and source. All steps are in elements.

The words of a choice are the elements, those of a chunk, and the addresses of result, mask, and both operands, each an
array or one element. The result may be one of the operands.
"""

from __future__ import annotations

import functools
import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndgrad._src.arrays import threads as allowed
from ndgrad._src.compiler.kernels.elementwise import data, loop_function, word
from ndgrad._src.compiler.native import pool, target
from ndgrad._src.compiler.native.calls import address_reader
from ndgrad._src.compiler.native.ir import Function, Vector, module

Array = NDArray[Any]

#: Elements of a chunk.
_CHUNK = 1 << 15
#: Maximum number of dimensions beside the matrix.
_MOST = 4
#: Rows and columns of a tile.
_TILE = 16


def _copy_function(element: str, how: str) -> Function:
    """Return the copy of matrices whose rows are "whole", "same" (one element), "reversed" or "scattered"."""
    f = Function("copy", "ptr %argument, i64 %chunk, i64 %worker", attributes="nounwind")
    one = Vector(element)
    type = Vector(element, max(2, target.host().lanes("float") * 4 // one.bytes))
    blocks, grain, rows, columns, down, along, out_down = (word(f, n) for n in range(7))
    sizes = [(word(f, 7 + 3 * d), word(f, 8 + 3 * d), word(f, 9 + 3 * d)) for d in range(_MOST)]
    out, source = data(f, 7 + 3 * _MOST), data(f, 8 + 3 * _MOST)
    matrix = f.div("%chunk", blocks)
    first = f.mul(f.sub("%chunk", f.mul(matrix, blocks)), grain)
    last = f.least(f.add(first, grain), rows)
    to: str = "0"
    at: str = "0"
    for size, step, out_step in sizes:
        rest = f.div(matrix, size)
        place = f.sub(matrix, f.mul(rest, size))
        at, to, matrix = f.add(at, f.mul(place, step)), f.add(to, f.mul(place, out_step)), rest
    source, out = f.address(element, source, at), f.address(element, out, to)

    def move(from_: str, to: str) -> None:
        f.store(one, f.load(one, from_), to)

    if how == "scattered":
        with f.loop(last, first, str(_TILE)) as r, f.loop(columns, "0", str(_TILE)) as c:
            r_end, c_end = f.least(f.add(r, _TILE), last), f.least(f.add(c, _TILE), columns)
            with f.loop(r_end, r) as i:
                line, here = f.mul(i, out_down), f.mul(i, down)
                with f.loop(c_end, c) as j:
                    move(
                        f.address(element, source, f.add(here, f.mul(j, along))),
                        f.address(element, out, f.add(line, j)),
                    )
        f.returns()
        return f
    if how == "whole":
        with f.loop(last, first) as i:
            line, here = f.address(element, out, f.mul(i, out_down)), f.address(element, source, f.mul(i, down))
            size = f.mul(columns, one.bytes)
            f.call_void("llvm.memcpy.p0.p0.i64", f"ptr {line}", f"ptr {here}", f"i64 {size}", "i1 false")
        f.returns()
        return f
    whole = f.sub(columns, f.set(f"urem i64 {columns}, {type.lanes}"))
    with f.loop(last, first) as i:
        line, here = f.address(element, out, f.mul(i, out_down)), f.address(element, source, f.mul(i, down))
        value = f.splat(f.load(one, here), type) if how == "same" else ""
        with f.loop(whole, "0", str(type.lanes)) as j:
            if how == "reversed":
                end = f.address(element, here, f.sub(1 - type.lanes, j))
                order = ", ".join(f"i32 {type.lanes - 1 - n}" for n in range(type.lanes))
                loaded = f.load(type, end)
                value = f.set(f"shufflevector {type} {loaded}, {type} poison, <{type.lanes} x i32> <{order}>")
            f.store(type, value, f.address(element, line, j))
        with f.loop(columns, whole) as j:
            move(here if how == "same" else f.address(element, here, f.sub(0, j)), f.address(element, line, j))
    f.returns()
    return f


@functools.cache
def _copy_code(element: str, how: str) -> tuple[target.Code, int]:
    code = target.Code(module([_copy_function(element, how)]))
    return code, code.address("copy")


def _merge(shape: tuple[int, ...], steps: list[int], to: list[int]) -> list[tuple[int, int, int]]:
    """Return the dimensions with their steps in both arrays, without those of one element, and with neighbours joined
    where both arrays continue.
    """
    found: list[tuple[int, int, int]] = []
    for n, a, b in zip(shape, steps, to, strict=True):
        if n == 1:
            continue
        if found and found[-1][1] == a * n and found[-1][2] == b * n:
            found[-1] = (found[-1][0] * n, a, b)
        else:
            found.append((n, a, b))
    return found


@functools.lru_cache(maxsize=4096)
def _plan(
    shape: tuple[int, ...], strides: tuple[int, ...], to: tuple[int, ...], size: int
) -> tuple[str, bytes, int, int] | None:
    """Return the form of a copy, its words without the addresses, its chunks, and the number of last elements that are
    left; None if there is none.
    """
    if any(s % size for s in (*strides, *to)):
        return None
    dims = _merge(shape, [s // size for s in strides], [s // size for s in to])
    if not dims or dims[-1][2] != 1 or any(step < 1 for _, _, step in dims):
        return None
    columns, along, _ = dims.pop()
    how = {1: "whole", 0: "same", -1: "reversed"}.get(along, "scattered")
    rest = 0
    if not dims:  # one row, without the elements that make no whole chunk
        if how == "scattered" or columns < _CHUNK:
            return None
        pieces, rest = divmod(columns, _CHUNK)
        dims, columns = [(pieces, along * _CHUNK, _CHUNK)], _CHUNK
    nearest = min(range(len(dims)), key=lambda d: (dims[d][1] == 0, abs(dims[d][1]), -d))
    rows, down, out_down = dims.pop(nearest if how == "scattered" else -1)
    if len(dims) > _MOST:
        return None
    grain = max(1, min(rows, _CHUNK // columns))
    if how == "scattered":
        grain = -(-grain // _TILE) * _TILE
    blocks = -(-rows // grain)
    further = [w for dim in reversed(dims) for w in dim] + [1, 0, 0] * (_MOST - len(dims))
    words = struct.pack(f"{7 + 3 * _MOST}q", blocks, grain, rows, columns, down, along, out_down, *further)
    matrices = 1
    for n, _, _ in dims:
        matrices *= n
    return how, words, blocks * matrices, rest


def copy(out: Array, x: Array) -> bool:
    """Copy an array to another one of its shape and dtype that shares no memory with it. Return False if nothing was
    done.
    """
    plan = _plan(x.shape, x.strides, out.strides, x.itemsize)
    if plan is None:
        return False
    how, words, chunks, rest = plan
    address = _copy_code(f"i{8 * x.itemsize}", how)[1]
    pool.pool()._run(address, words + struct.pack("2q", *address_reader()(out, x)), chunks, allowed.max_threads)
    if rest:
        out.reshape(-1)[-rest:] = x.reshape(-1)[-rest:]
    return True


@functools.cache
def _choice(element: str, ones: tuple[bool, bool]) -> tuple[target.Code, int]:
    type = Vector(element, max(2, target.host().lanes("float") * 4 // Vector(element).bytes))

    def write(f: Function, lanes: int, values: Any, constants: Any) -> list[str]:
        mask = f.set(f"icmp ne <{lanes} x i8> {values[0]}, zeroinitializer")
        return [f.set(f"select <{lanes} x i1> {mask}, {type} {values[1]}, {type} {values[2]}")]

    function = loop_function("choose", type, [element], [("i8", False), *((element, one) for one in ones)], 0, write)
    code = target.Code(module([function]))
    return code, code.address("choose")


def choose(mask: NDArray[np.bool_], x: Array, y: Array, out: Array) -> None:
    """Write x where a mask is true, else y. Operands are dense, of one element or of the mask's size."""
    address = _choice(f"i{8 * out.itemsize}", (x.size == 1, y.size == 1))[1]
    words = struct.pack("6q", out.size, _CHUNK, *address_reader()(out, mask, x, y))
    pool.pool()._run(address, words, -(-out.size // _CHUNK), allowed.max_threads)
