"""Native kernels over tables of taps (ndgrad._src.arrays.taps): weighted sums, maxima, and sums at positions.

    void name(ptr argument, i64 chunk, i64 worker)

The argument holds addresses: the table, the result, the array, and scratch memory or positions. The table holds sizes
and the addresses of the lists (`_TABLE`), so one function serves all sizes and windows of a dtype.

A chunk is a range of output rows. A row is first combined from input rows into scratch memory, by vectors. Then the
taps of the last dimension read it at the positions of the table. A single input row with weight 1 is read in place.
"""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ndgrad._src.arrays import threads as allowed
from ndgrad._src.arrays.taps import Taps, TapTables, tables_of
from ndgrad._src.compiler.native import pool, target
from ndgrad._src.compiler.native.calls import address_reader
from ndgrad._src.compiler.native.ir import Function, Vector, element_of, module
from ndgrad._src.foundations.bounded_tables import make_room

Array = NDArray[Any]

#: Words of the table: sizes, then addresses of lists.
_TABLE = (
    "total", "grain", "rows", "plane", "width", "wide", "taps", "pitch", "run_first", "run_end", "run_from",
    "first", "offset", "weight", "divisor", "index", "share", "parts",
)  # fmt: skip
#: Minimum number of elements for a second thread, and elements of a chunk.
_SHARED, _CHUNK = 32768, 16384


class _Words:
    """The words of the table, as values of a function."""

    def __init__(self, f: Function) -> None:
        self.f = f
        table = _word(f, "%argument", 0, "ptr")
        for n, name in enumerate(_TABLE):
            setattr(self, name, _word(f, table, n, "ptr" if n >= _TABLE.index("first") else "i64"))

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> str: ...


def _word(f: Function, pointer: str, number: int, type: str) -> str:
    return f.set(f"load {type}, ptr {f.ahead(pointer, 8 * number)}")


def _scalar(f: Function, element: str, pointer: str, index: str) -> str:
    return f.load(Vector(element), f.address(element, pointer, index))


def _vectors(f: Function, count: str, type: Vector, write: Callable[[str, str | None], None]) -> None:
    """Call `write(start, mask)` for all vectors of a row; only the last one has a mask."""
    lanes = type.lanes
    whole = f.mul(f.div(count, lanes), lanes)
    with f.loop(whole, "0", str(lanes)) as j:
        write(j, None)
    with f.when(f.compare("slt", whole, count)):
        write(whole, f.first_lanes(type, f.sub(count, whole)))


def _load(f: Function, type: Vector, pointer: str, mask: str | None) -> str:
    return f.load(type, pointer) if mask is None else f.load_masked(type, pointer, mask)


def _store(f: Function, type: Vector, value: str, pointer: str, mask: str | None) -> None:
    if mask is None:
        f.store(type, value, pointer)
    else:
        f.store_masked(type, value, pointer, mask)


def read_at(f: Function, type: Vector, pointer: str, index: str, mask: str = "splat (i1 true)") -> str:
    """Load elements at the positions of a vector of i32. Lanes that a mask leaves out are zero."""
    places = f.set(f"getelementptr {type.element}, ptr {pointer}, <{type.lanes} x i32> {index}")
    return f.call(
        type,
        f"llvm.masked.gather.{type.suffix}.v{type.lanes}p0",
        f"<{type.lanes} x ptr> {places}",
        f"i32 {4 if type.element in ('float', 'i32') else 8}",
        f"{type.mask} {mask}",
        f"{type} zeroinitializer",
    )


def _rows_of_chunk(f: Function, t: _Words) -> tuple[str, str]:
    begin = f.mul("%chunk", t.grain)
    return begin, f.least(f.add(begin, t.grain), t.total)


class _Row:
    """Writes the weighted sum of one output row."""

    def __init__(self, f: Function, type: Vector, t: _Words) -> None:
        self.f, self.type, self.t = f, type, t
        self.places = Vector("i32", type.lanes)

    def combine(self, source: str, row: str, made: str, is_copied: bool) -> str:
        """Combine input rows into the memory `made`, and return the address of the result.

        A single row with weight 1 is copied with `is_copied`, and read in place otherwise.
        """
        f, t, element = self.f, self.t, self.type.element
        first, last = _scalar(f, "i64", t.first, row), _scalar(f, "i64", t.first, f.add(row, 1))
        one, direct, combine, after = (f.fresh(s) for s in ("one", "direct", "combine", "after"))
        f.branch(f.compare("eq", f.sub(last, first), 1), one, combine)
        f.label(one)
        weight = _scalar(f, element, t.weight, first)
        f.branch(f.set(f"fcmp oeq {element} {weight}, {Vector(element).constant(1.0)}"), direct, combine)
        f.label(direct)
        same = f.address(element, source, _scalar(f, "i64", t.offset, first))
        if is_copied:
            self.copy(made, same, t.width)
        f.jump(after)
        f.label(combine)

        def write(j: str, mask: str | None) -> None:
            def term(k: str) -> tuple[str, str]:
                place = f.add(_scalar(f, "i64", t.offset, k), j)
                value = _load(f, self.type, f.address(element, source, place), mask)
                return f.splat(_scalar(f, element, t.weight, k), self.type), value

            _store(f, self.type, self.sum(last, first, term), f.address(element, made, j), mask)

        _vectors(f, t.width, self.type, write)
        combined = f.block
        f.jump(after)
        f.label(after)
        return f.set(f"phi ptr [{made if is_copied else same}, %{direct}], [{made}, %{combined}]")

    def sum(self, stop: str, start: str, term: Callable[[str], tuple[str, str]]) -> str:
        """Return the sum of products over a range."""
        f, type = self.f, self.type
        total = f.carry(type, type.constant(0.0))
        with f.loop(stop, start, carried=[total]) as k:
            a, b = term(k)
            total.next = f.call(type, f"llvm.fmuladd.{type.suffix}", f"{type} {a}", f"{type} {b}", f"{type} {total}")
        return str(total)

    def copy(self, to: str, source: str, count: str) -> None:
        f = self.f
        size = f.mul(count, Vector(self.type.element).bytes)
        f.call_void("llvm.memcpy.p0.p0.i64", f"ptr {to}", f"ptr {source}", f"i64 {size}", "i1 false")

    def read_tap(self, line: str, tap: str, j: str) -> str:
        """Return the elements of a row that a tap reads for outputs from j on."""
        f, type, places = self.f, self.type, self.places
        index = f.load(places, f.address("i32", self.t.index, f.add(f.mul(tap, self.t.pitch), j)))
        is_read, safe = _read_places(f, places, index)
        value = read_at(f, type, line, safe)
        return f.set(f"select {type.mask} {is_read}, {type} {value}, {type} zeroinitializer")

    def sum_taps(self, line: str, row: str, result: str, is_mean: bool) -> None:
        """Write the sums over the taps of the last dimension, divided if they are means."""
        f, t, type, element = self.f, self.t, self.type, self.type.element
        whole = f.splat(_scalar(f, element, t.divisor, row), type) if is_mean else ""

        def write(j: str, mask: str | None) -> None:
            def term(tap: str) -> tuple[str, str]:
                share = f.load(self.type, f.address(element, t.share, f.add(f.mul(tap, t.pitch), j)))
                return share, self.read_tap(line, tap, j)

            total = self.sum(t.taps, "0", term)
            if is_mean:
                part = f.load(type, f.address(element, t.parts, j))
                total = f.set(f"fdiv {type} {total}, {f.set(f'fmul {type} {whole}, {part}')}")
            _store(f, type, total, f.address(element, result, j), mask)

        _vectors(f, t.wide, self.type, write)

    def pick(self, line: str, result: str) -> None:
        """Write the elements that a single tap reads. A run of neighbours is copied."""
        f, t, element = self.f, self.t, self.type.element
        to = f.address(element, result, t.run_first)
        self.copy(to, f.address(element, line, t.run_from), f.sub(t.run_end, t.run_first))
        for start, stop in (("0", t.run_first), (t.run_end, t.wide)):
            with f.loop(stop, start, str(self.type.lanes)) as j:
                mask = f.first_lanes(self.type, f.sub(stop, j))
                f.store_masked(self.type, self.read_tap(line, "0", j), f.address(element, result, j), mask)


def _read_places(f: Function, places: Vector, index: str) -> tuple[str, str]:
    """Return the mask of taps that read an element, and their positions, with 0 for the others."""
    is_read = f.set(f"icmp sge {places} {index}, zeroinitializer")
    return is_read, f.set(f"select {places.mask} {is_read}, {places} {index}, {places} zeroinitializer")


def _write_sum(element: str, kind: str) -> Function:
    """Write the weighted sum. `kind` is "rows" without taps of the last dimension, "pick" for one tap with weight 1,
    "mean" for sums with divisors, or "sum".
    """
    f = Function("taps", "ptr %argument, i64 %chunk, i64 %worker", attributes="nounwind")
    t = _Words(f)
    out, x, scratch = (_word(f, "%argument", n, "ptr") for n in (1, 2, 3))
    writer = _Row(f, Vector(element, target.host().lanes(element)), t)
    buffer = f.address(element, scratch, f.mul("%worker", t.width))
    begin, end = _rows_of_chunk(f, t)
    with f.loop(end, begin) as r:
        plane, row = f.div(r, t.rows), f.set(f"urem i64 {r}, {t.rows}")
        source, result = f.address(element, x, f.mul(plane, t.plane)), f.address(element, out, f.mul(r, t.wide))
        if kind == "rows":
            writer.combine(source, row, result, True)
        else:
            line = writer.combine(source, row, buffer, False)
            if kind == "pick":
                writer.pick(line, result)
            else:
                writer.sum_taps(line, row, result, kind == "mean")
    f.returns()
    return f


def _write_max(element: str) -> Function:
    """Write the maximum and its position. Ties and NaN: see `ndgrad._src.arrays.taps.maxima`."""
    type = Vector(element, target.host().lanes(element))
    places, wide = Vector("i32", type.lanes), Vector("i64", type.lanes)
    f = Function("taps", "ptr %argument, i64 %chunk, i64 %worker", attributes="nounwind")
    t = _Words(f)
    out, x, scratch, positions = (_word(f, "%argument", n, "ptr") for n in (1, 2, 3, 4))
    # The scratch memory of a worker holds a row of values, and a row of offsets.
    begin_of = f.ahead(scratch, f.mul("%worker", f.mul(t.width, Vector(element).bytes + 4)))
    values, rows = begin_of, f.address(element, begin_of, t.width)
    begin, end = _rows_of_chunk(f, t)
    with f.loop(end, begin) as r:
        plane, row = f.div(r, t.rows), f.set(f"urem i64 {r}, {t.rows}")
        source = f.address(element, x, f.mul(plane, t.plane))
        first, last = _scalar(f, "i64", t.first, row), _scalar(f, "i64", t.first, f.add(row, 1))

        def combine_at(j: str, mask: str | None) -> None:
            def offset_at(k: str) -> tuple[str, str]:
                offset = _scalar(f, "i64", t.offset, k)
                v = _load(f, type, f.address(element, source, f.add(offset, j)), mask)
                return v, f.splat(f.set(f"trunc i64 {offset} to i32"), places)

            v, at = offset_at(first)
            best, place = f.carry(type, v), f.carry(places, at)
            with f.loop(last, f.add(first, 1), carried=[best, place]) as k:
                v, at = offset_at(k)
                wins = f.set(f"fcmp ogt {type} {v}, {best}")
                is_nan = f.set(f"fcmp uno {type} {v}, {v}")
                wins = f.set(f"or {type.mask} {wins}, {is_nan}")
                best.next = f.set(f"select {type.mask} {wins}, {type} {v}, {type} {best}")
                place.next = f.set(f"select {type.mask} {wins}, {places} {at}, {places} {place}")
            _store(f, type, str(best), f.address(element, values, j), mask)
            _store(f, places, str(place), f.address("i32", rows, j), mask)

        _vectors(f, t.width, type, combine_at)

        def largest_at(j: str, mask: str | None) -> None:
            best, place = f.carry(type, type.constant(float("-inf"))), f.carry(places, places.constant(2**31 - 1))
            with f.loop(t.taps, carried=[best, place]) as tap:
                index = f.load(places, f.address("i32", t.index, f.add(f.mul(tap, t.pitch), j)))
                is_read, safe = _read_places(f, places, index)
                v = read_at(f, type, values, safe)
                at = f.set(f"add {places} {read_at(f, places, rows, safe)}, {safe}")
                is_earlier = f.set(f"icmp slt {places} {at}, {place}")
                is_equal = f.set(f"fcmp oeq {type} {v}, {best}")
                wins = f.set(f"fcmp ogt {type} {v}, {best}")
                wins = f.set(f"or {type.mask} {wins}, {f.set(f'and {type.mask} {is_equal}, {is_earlier}')}")
                is_nan = f.set(f"fcmp uno {type} {v}, {v}")
                was_nan = f.set(f"fcmp uno {type} {best}, {best}")
                loses = f.set(f"and {type.mask} {was_nan}, {is_earlier}")
                wins = f.set(f"select {type.mask} {is_nan}, {type.mask} {_negated(f, type, loses)}, {type.mask} {wins}")
                wins = f.set(f"and {type.mask} {wins}, {is_read}")
                best.next = f.set(f"select {type.mask} {wins}, {type} {v}, {type} {best}")
                place.next = f.set(f"select {type.mask} {wins}, {places} {at}, {places} {place}")
            at = f.add(f.mul(r, t.wide), j)
            _store(f, type, str(best), f.address(element, out, at), mask)
            _store(f, wide, f.set(f"sext {places} {place} to {wide}"), f.address("i64", positions, at), mask)

        _vectors(f, t.wide, type, largest_at)
    f.returns()
    return f


def _negated(f: Function, type: Vector, mask: str) -> str:
    return f.set(f"xor {type.mask} {mask}, splat (i1 true)")


def _write_add_at(element: str) -> Function:
    """Write the sums at positions of planes. Words: planes, elements of a plane, positions of a plane, and a flag that
    is set if a position is outside.
    """
    type = Vector(element, target.host().lanes(element))
    f = Function("taps", "ptr %argument, i64 %chunk, i64 %worker", attributes="nounwind")
    planes, grain, size, count = (_word(f, "%argument", n, "i64") for n in (0, 1, 2, 3))
    out, x, index, flag = (_word(f, "%argument", n, "ptr") for n in (4, 5, 6, 7))
    begin = f.mul("%chunk", grain)
    end = f.least(f.add(begin, grain), planes)
    with f.loop(end, begin) as plane:
        to = f.address(element, out, f.mul(plane, size))
        bytes = f.mul(size, type.bytes // type.lanes)
        f.call_void("llvm.memset.p0.i64", f"ptr {to}", "i8 0", f"i64 {bytes}", "i1 false")
        base = f.mul(plane, count)
        with f.loop(count) as i:
            at = f.add(base, i)
            place = _scalar(f, "i64", index, at)
            with f.when(f.compare("uge", place, size)):
                f.do(f"store i64 1, ptr {flag}")
            with f.when(f.compare("ult", place, size)):
                where = f.address(element, to, place)
                total = f.set(f"fadd {element} {f.load(Vector(element), where)}, {_scalar(f, element, x, at)}")
                f.store(Vector(element), total, where)
    f.returns()
    return f


@functools.cache
def _function(kind: str, dtype: np.dtype[Any]) -> tuple[target.Code, int]:
    element = element_of(dtype)
    if kind == "max":
        f = _write_max(element)
    elif kind == "add_at":
        f = _write_add_at(element)
    else:
        f = _write_sum(element, kind)
    code = target.Code(module([f]))
    return code, code.address("taps")


# ----- calls ----------------------------------------------------------------------------------------------------------


class _Plan(NamedTuple):
    """A table in memory, and its function."""

    table: int
    function: int
    shape: tuple[int, ...]
    chunks: int
    #: True if the work is shared among threads.
    is_shared: bool
    #: Bytes of scratch memory of a thread.
    scratch: int
    #: Owners of the code and of the lists.
    keeps: tuple[Any, ...]


_plans: dict[Any, _Plan] = {}
#: Maximum number of tables that are remembered.
_MOST = 256
_run: Any = None
_addresses: Any = None
_FOUR, _FIVE = struct.Struct("4q").pack, struct.Struct("5q").pack


def _plan(x: Array, dim: tuple[int, ...], taps: tuple[Taps, ...], is_max: bool) -> _Plan:
    global _run, _addresses
    key = (x.shape, x.dtype.char, dim, taps, is_max)
    found = _plans.get(key)
    if found is None:
        _run, _addresses = pool.pool()._run, address_reader()
        make_room(_plans, _MOST)
        found = _plans[key] = _make_plan(tables_of(x.shape, dim, taps), x.dtype, is_max)
    return found


def _make_plan(tables: TapTables, dtype: np.dtype[Any], is_max: bool) -> _Plan:
    last, lanes = tables.last, target.host().lanes(element_of(dtype))
    pitch = -(-tables.wide // lanes) * lanes + lanes
    if last is None and is_max:
        raise AssertionError("maxima go over the last dimensions [nd-bug]")
    kind = "max" if is_max else "rows" if last is None else "mean" if tables.divisor is not None else "sum"
    if kind == "sum" and last is not None and last.weight is None and len(last.index) == 1:
        kind = "pick"
    index = np.zeros((1 if last is None else len(last.index), pitch), np.int32)
    share, parts = np.zeros(index.shape, dtype), np.ones(pitch, dtype)
    if last is not None:
        parts[: tables.wide] = 1 if last.divisor is None else last.divisor
        index[:, : tables.wide] = last.index
        share[:, : tables.wide] = 1 if last.weight is None else last.weight
    run = (0, 0, 0) if last is None else last.run
    divisor = np.ones(1, dtype) if tables.divisor is None else tables.divisor.astype(dtype)
    lists = (tables.first, tables.offset, tables.weight.astype(dtype), divisor, index, share, parts)
    total = tables.planes * tables.rows
    # The elements that a row reads and writes.
    each = tables.wide + tables.width * max(1, len(tables.offset) // max(1, tables.rows))
    grain = max(1, min(total, _CHUNK // each + 1))
    sizes = (total, grain, tables.rows, tables.plane, tables.width, tables.wide, len(index), pitch, *run)
    table = np.array([*sizes, *address_reader()(*lists)], np.int64)
    code, function = _function(kind, dtype)
    is_direct = not is_max and bool((np.diff(tables.first) == 1).all() and (tables.weight == 1).all())
    scratch = 0 if kind == "rows" or is_direct else tables.width * (dtype.itemsize + 4 * is_max)
    return _Plan(
        address_reader()(table)[0], function, tables.shape, -(-total // grain), total * each >= _SHARED, scratch,
        (code, table, lists),
    )  # fmt: skip


def weighted_sum(x: Array, dim: tuple[int, ...], taps: tuple[Taps, ...]) -> Array:
    """Return the weighted sums over the taps of adjacent dimensions of a dense array."""
    plan = _plan(x, dim, taps, False)
    out = np.empty(plan.shape, x.dtype)
    threads = allowed.max_threads if plan.is_shared else 1
    scratch = out if not plan.scratch else np.empty(plan.scratch * threads + 64, np.uint8)
    words = _FOUR(plan.table, *_addresses(out, x, scratch))
    _run(plan.function, words, plan.chunks, threads)
    return out


def maxima(x: Array, dim: tuple[int, ...], taps: tuple[Taps, ...]) -> tuple[Array, NDArray[np.int64]]:
    """Return the maxima over the taps of the last dimensions of a dense array, and their positions."""
    plan = _plan(x, dim, taps, True)
    out, places = np.empty(plan.shape, x.dtype), np.empty(plan.shape, np.int64)
    threads = allowed.max_threads if plan.is_shared else 1
    scratch = np.empty(plan.scratch * threads + 64, np.uint8)
    words = _FIVE(plan.table, *_addresses(out, x, scratch, places))
    _run(plan.function, words, plan.chunks, threads)
    return out, places


_EIGHT = struct.Struct("8q").pack


def add_at(x: Array, index: NDArray[np.int64], shape: tuple[int, ...]) -> Array | None:
    """Return planes of zeros (the dimensions after the second) with x added at the positions `index` of each plane.

    Both arrays are dense. Returns None if a position is outside.
    """
    planes, size = shape[0] * shape[1], math.prod(shape[2:])
    count = x.size // planes
    out, flag = np.empty(shape, x.dtype), np.zeros(1, np.int64)
    grain = max(1, min(planes, _CHUNK // (size + count) + 1))
    _, function = _function("add_at", x.dtype)
    words = _EIGHT(planes, grain, size, count, *address_reader()(out, x, index, flag))
    threads = 1 if planes * (size + count) < _SHARED else allowed.max_threads
    pool.pool()._run(function, words, -(-planes // grain), threads)
    return None if flag[0] else out
