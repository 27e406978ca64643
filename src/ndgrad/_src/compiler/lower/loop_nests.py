"""A kernel as a nest of loops.

    kernel(table, begin, end):
        for i in begin ... end:                the outermost dimension, in chunks for the workers
            ...
                for each stage of the row:
                    for j in 0 ... n, by vectors:   loads, the instructions of the stage, stores; then the rest of n one by one
                    numbers per row that the stage computes

A kernel without rows has one stage. Dimensions that all reads and writes step through alike are merged (`_collapse`),
so a kernel over contiguous arrays is a single loop. Along the innermost dimension an argument is read as a vector
(stride 1), once and in all lanes (stride 0), as every other lane of two vectors (stride 2: a part of complex numbers),
or lane by lane. Both parts of complex numbers are written as one vector (interleaved_complex.py).

A sum over a row is taken in a register, block by block. Sixteen vectors are added lane by lane, and the lanes are added
in a tree. The sums of the blocks are added with the error of each addition kept (Neumaier). A term meets at most 16 +
log2(lanes) roundings, for any length of the row. In NumPy's pairwise sum of n terms it meets 19 + log2(n / 128) of
them. A sum over leading dimensions is taken row by row: few terms in memory, many in blocks on the stack (Note [Sums of
columns]), and long sums in pieces, each with sums of its own (Note [Sums of pieces]). Maxima, minima and reductions of
integers work the same way, but without blocks.

Note [Sums of pieces] If the outermost loop is summed over, workers cannot add to the same memory. The loop is cut into
pieces, whose number does not depend on the number of workers. Each piece adds to memory of its own, and at the end
these sums are added in order. So the result is the same on any number of threads.

Note [Sums of columns] A sum over the rows of a matrix has one total per column. Adding row after row, a term would meet
as many roundings as there are rows. So a block of rows is added first, on the stack, or in registers if rows are short.
The sum of a block joins the totals, and these keep the errors of their additions (Neumaier). A term meets at most as
many roundings as a block has rows, for any number of rows. The blocked loop is a reduced one directly around the row.
Of several such loops, it is the outermost that leaves few rows to the inner ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ndgrad._src.compiler.lower import pointwise
from ndgrad._src.compiler.lower.interleaved_complex import every_other, interleave
from ndgrad._src.compiler.lower.memory_places import Place, whole
from ndgrad._src.compiler.lower.steps import Item, Kernel
from ndgrad._src.compiler.lower.templates import Sizes, varies
from ndgrad._src.compiler.native.ir import Carried, Function, Vector, element_of
from ndgrad._src.compiler.native.target import Target
from ndgrad._src.compiler.program.program import Value

#: Number of vectors that are added before their sum is added to the others'.
_BLOCK = 16
#: Number of vectors that fit into registers in addition to constants and addresses, and on the stack within the
#: first-level cache. A kernel whose values do not fit into registers anyway may keep more of them on the stack.
_REGISTERS = 12
_STACK = 700

#: Minimum work of a piece for a worker, and minimum work of a single row that is cut, in instructions on single
#: elements (a third of a nanosecond each).
_PIECE = 40_000
_LONG = 200_000
#: Maximum number of pieces of a kernel, and minimum number of elements of a piece if there are several. The processor
#: prefetches memory behind the end of a piece, which another core may be writing.
_PIECES = 64
_ELEMENTS = 4096
#: Maximum number of pieces with sums of their own, and minimum turns of the outermost loop in each.
_PARTS = 16
_TURNS = 8
#: Number of rows in a block of column sums, minimum number of rows, and maximum bytes of such a row.
_ROWS = 64
_MANY_ROWS = 128
_LONGEST_ROW = 16_384


@dataclass(eq=False, slots=True)
class Access:
    """A place in a kernel's loops, with its stride along each of them."""

    root: Value
    offset: int
    strides: list[int]


@dataclass(eq=False, slots=True)
class _Columns:
    """Sums of columns that are taken in blocks of rows (see Note [Sums of columns])."""

    #: outermost of the reduced loops around the row
    first: int
    #: loop of which `rows` turns make a block
    blocked: int
    rows: int
    values: list[Value]
    #: true if a row is one vector, whose sums stay in registers while a block is added
    in_registers: bool
    #: stack addresses of the sums of a block, the totals and their errors
    partial: dict[Value, str] = field(default_factory=dict)
    totals: dict[Value, str] = field(default_factory=dict)
    errors: dict[Value, str] = field(default_factory=dict)


class Nest:
    """The loops of one kernel, and their text."""

    #: true if it runs on a part of its innermost loop
    cuts_rows = False

    def __init__(
        self, kernel: Kernel, name: str, target: Target, slots: dict[Value, int], sizes: Sizes = frozenset()
    ) -> None:
        """Build the loops; `sizes` vary between programs that share the code (see
        ndgrad._src.compiler.lower.templates).
        """
        self.kernel = kernel
        self.name = name
        self.slots = slots
        #: the numbers per row that are known so far
        self.row: dict[Value, str] = {}
        self.loads: dict[tuple[Value, int, tuple[int, ...]], Access] = {}
        self.stores: dict[Value, Access] = {}
        self.targets = {value: _access(place) for value, place in kernel.targets.items()}
        self.puts: dict[Value, list[Access]] = {}
        for value, place in kernel.puts:
            self.puts.setdefault(value, []).append(_access(place))
        self._collect()
        puts = [access for accesses in self.puts.values() for access in accesses]
        self.every = [*self.loads.values(), *self.stores.values(), *self.targets.values(), *puts]
        self.shape = self._collapsed()
        #: true if the innermost loop, or the outermost, may have any length
        self.any_row = self.cuts_rows or (bool(self.shape) and varies(self.shape[-1], sizes))
        self.any_extent = bool(self.shape) and varies(self.shape[0], sizes)
        self.lanes = self._lanes(target)
        #: number of vectors that pass through the body side by side, so that the processor need not wait for one to end
        self.abreast = self._abreast()
        #: true if the only row of a kernel is cut into pieces, each with a sum of its own
        self.splits_row = (
            kernel.rows == 0
            and kernel.stages == 1
            and len(self.shape) == 1
            and self.shape[0] * len(kernel.items) > _LONG
        )
        chunked = len(self.shape) > 1 or (self.shape and kernel.rows is None) or self.splits_row
        #: number of indices of the outermost loop that can be shared between workers
        self.extent = self.shape[0] if chunked else 1

        #: sums to which all turns of the outermost loop add
        self.shared = [value for value, a in self.targets.items() if self.extent > 1 and a.strides[0] == 0]
        self.grain = self._grain()
        #: offset of its memory for sums of pieces, since other kernels may run at the same time
        self.sums_at = 0
        #: true if each piece has sums of its own
        self.splits_sums = bool(self.shared) and self.grain < self.extent
        self.columns = self._columns()
        #: the sums that the loop around the row carries in registers
        self.held: dict[Value, Carried] = {}

    def _columns(self) -> _Columns | None:
        """Return the sums of columns that are taken in blocks; None if rows have any length, or are too long or too
        few.
        """
        last = len(self.shape) - 1
        values = [
            value
            for value, access in self.targets.items()
            if last > 0
            and access.strides[last - 1] == 0
            and access.strides[last] in (0, 1)
            and self.kernel.computed[value].instruction.op.name in ("sum", "sum_all")
            and value.dtype.kind == "f"
        ]
        if not values or self.any_row or self.shape[last] * values[0].dtype.itemsize > _LONGEST_ROW:
            return None
        first = last - 1
        while first > 0 and all(self.targets[value].strides[first - 1] == 0 for value in values):
            first -= 1
        if math.prod(self.shape[first:last]) < _MANY_ROWS:
            return None
        blocked = last - 1
        while blocked > first and math.prod(self.shape[blocked:last]) <= _ROWS:
            blocked -= 1
        rows = max(1, _ROWS // math.prod(self.shape[blocked + 1 : last]))
        return _Columns(first, blocked, rows, values, in_registers=self.shape[last] == self.lanes)

    def _grain(self) -> int:
        """Return the number of indices of the outermost loop per piece of work: all, if cutting is impossible or does
        not pay.
        """
        if self.extent == 1:
            return self.extent
        grain = -(-_PIECE * self.extent // max(self.kernel.cost, 1))
        if self.shared:
            grain = self._whole(max(grain, -(-self.extent // _PARTS), _TURNS))
            return grain if 2 * grain <= self.extent else self.extent
        few = min(-(-self.extent // 8), _ELEMENTS * self.extent // max(self.kernel.size, 1))
        return self._whole(max(grain, few, -(-self.extent // _PIECES)))

    def _whole(self, grain: int) -> int:
        """Round a number of indices of the outermost loop up.

        Pieces of a row are whole vectors, except for the last, and whole blocks of vectors unless the row is summed.
        """
        if len(self.shape) == 1:
            step = self.lanes * self.abreast * (1 if self.shared else _BLOCK)
            grain = -(-grain // step) * step
        return min(grain, self.extent)

    @property
    def pieces(self) -> int:
        return -(-self.extent // self.grain)

    def cut_into_pieces(self, count: int) -> None:
        """Cut the kernel into so many equal pieces, none with sums of its own."""
        self.grain, left = divmod(self.extent, count)
        assert not left
        assert not self.piece_bytes
        if len(self.shape) == 1 and self.grain % (self.lanes * self.abreast):
            self.any_row = True  # a piece need not be whole vectors

    def limit_pieces(self, count: int) -> None:
        """Limit the number of pieces if that changes no result. Sums of pieces stay as they are."""
        if not self.piece_bytes and self.pieces > count:
            self.grain = self._whole(-(-self.extent // count))

    def share_pieces(self, threads: int) -> None:
        """Give each thread the same number of pieces if that changes no result.

        A thread then has the same part of the memory in all kernels of this shape.
        """
        if not self.piece_bytes and self.pieces > 1 and self.pieces % threads:
            self.grain = self._whole(-(-self.extent // (-(-self.pieces // threads) * threads)))

    @property
    def piece_bytes(self) -> int:
        """Return the bytes of a piece's own sums."""
        if self.splits_row:
            return 8 * len(self.sums)
        return sum(_aligned(value.nbytes) for value in self.shared) if self.splits_sums else 0

    @property
    def sums(self) -> list[Value]:
        """Return the sums over a row, in the order in which pieces of a row store theirs."""
        return [
            i.instruction.result
            for i in self.kernel.items
            if i.instruction.result in self.kernel.row_values and not i.per_row
        ]

    def _collect(self) -> None:
        kernel = self.kernel
        for item in kernel.items:
            for place in item.reads:
                if place is not None and place.root not in kernel.computed:
                    self.loads.setdefault((place.root, place.offset, place.strides), _access(place))
        for value in kernel.stores:
            if value in kernel.row_values:
                found = whole(value).reshaped(kernel.row_shape)
                assert found is not None
                found = Place(value, 0, kernel.shape, (*found.strides, 0))
            else:
                found = whole(value).reshaped(kernel.shape)
            assert found is not None
            self.stores[value] = _access(found)

    def _collapsed(self) -> list[int]:
        """Return the lengths of the loops after merging dimensions that all accesses step through alike. A row stays
        one loop.
        """
        shape = list(self.kernel.shape)
        row = len(shape) - 1 if self.kernel.rows is not None else None
        keep = [n != 1 or d == row for d, n in enumerate(shape)]
        for a in self.every:
            a.strides = [s for s, k in zip(a.strides, keep, strict=True) if k]
        shape = [n for n, k in zip(shape, keep, strict=True) if k]
        d = len(shape) - (2 if row is None else 3)
        while d >= 0:
            if all(a.strides[d] == a.strides[d + 1] * shape[d + 1] for a in self.every):
                shape[d : d + 2] = [shape[d] * shape[d + 1]]
                for a in self.every:
                    del a.strides[d]
            d -= 1
        return shape

    def _lanes(self, target: Target) -> int:
        """Return the number of lanes of a vector: a full register of the widest numbers, or a whole short row."""
        kinds = [element_of(v.dtype) for v in self.kernel.computed] + [
            element_of(a.root.dtype) for a in self.loads.values()
        ]
        floats = [k for k in kinds if k in ("float", "double")]
        full = min(target.lanes(k) for k in floats or kinds or ["double"])
        inner = self.shape[-1] if self.shape else 1
        return inner if inner <= 2 * full and not self.any_row else full

    def _abreast(self) -> int:
        """Return the number of vectors side by side, as registers and the number of elements allow."""
        if not self.shape or len(self.kernel.items) > 1000:
            return 1
        alive = _most_alive(self.kernel)
        for count in (4, 2):
            # At least two: a few values on the stack cost less than waiting for one vector's chain of instructions.
            fits = alive * count <= (_REGISTERS if count > 2 else _STACK) or _REGISTERS < alive <= _STACK // count
            if fits and (self.any_row or self.shape[-1] >= 2 * count * self.lanes):
                return count
        return 1

    # ----- the outer loops --------------------------------------------------------------------------------------------

    def function(self) -> Function:
        """Write the kernel: void name(ptr table, i64 begin, i64 end, ptr sums), the last for the sums of a piece of a
        row.
        """
        f = self.f = Function(self.name, "ptr %table, i64 %begin, i64 %end, ptr %sums")
        bases = self._bases()
        if self.splits_sums:
            offset = 0
            for value in self.shared:
                access, own = self.targets[value], f.ahead("%sums", offset)
                self.begin(f, own, value)
                bases[access] = self._advance(own, access, access.offset)
                offset += _aligned(value.nbytes)
        self._loops(0, bases)
        f.returns()
        return f

    def last_function(self) -> Function:
        """Write void name.last(ptr table, ptr sums, i64 pieces), which adds the sums of pieces and completes the row.
        """
        f = self.f = Function(f"{self.name}.last", "ptr %table, ptr %sums, i64 %pieces")
        if self.splits_sums:
            self._add_pieces(f)
            f.returns()
            return f
        bases = self._bases()
        self.row = {}
        for position, value in enumerate(self.sums):
            a = pointwise.Accumulator(f, value, self.kernel.computed[value].instruction)
            carried = [f.carry(a.kind, s) for s in a.start()]
            with f.loop("%pieces", carried=carried) as i:
                pointer = f.address("double", "%sums", f.add(f.mul(i, len(self.sums)), position))
                for state, new in zip(
                    carried, a.added([c.name for c in carried], f.load(Vector(a.kind), pointer)), strict=True
                ):
                    state.next = new
            self.row[value] = a.finished([c.name for c in carried])
        self._row_numbers(0, bases)
        self._store_row(bases)
        f.returns()
        return f

    def reduction(self, f: Function, value: Value) -> pointwise.Accumulator:
        """Return the reduction that combines the terms of a value."""
        return pointwise.Accumulator(f, value, self.kernel.computed[value].instruction)

    def begin(self, f: Function, start: str, value: Value) -> None:
        """Initialise the memory of a reduction with its neutral element."""
        reduction, element = self.reduction(f, value), element_of(value.dtype)
        if value.size > 1 and reduction.name in ("sum", "any"):
            f.call_void("llvm.memset.p0.i64", f"ptr {start}", "i8 0", f"i64 {value.nbytes}", "i1 false")
            return
        done = 0
        for width in dict.fromkeys([self.lanes, 1]):
            kind, end = Vector(element, width), value.size // width * width
            if end > done:
                with f.loop(str(end), str(done), str(width)) as i:
                    f.store(kind, reduction.identity(width), f.address(element, start, i))
            done = end

    def _add_pieces(self, f: Function) -> None:
        """Add the sums of all pieces, in their order."""
        offset = 0
        for value in self.shared:
            element, reduction = element_of(value.dtype), self.reduction(f, value)
            target = f.set(f"load ptr, ptr {f.address('ptr', '%table', str(self.slots[value]))}")
            first = f.ahead("%sums", offset)
            offset += _aligned(value.nbytes)
            start = 0
            for width in dict.fromkeys([self.lanes, 1]):
                kind, end = Vector(element, width), value.size // width * width
                if end > start:
                    with f.loop(str(end), str(start), str(width)) as i:
                        place, state = f.address(element, first, i), [f.carry(kind, s) for s in reduction.start(width)]
                        with f.loop("%pieces", carried=state) as piece:
                            term = f.load(kind, f.ahead(place, f.mul(piece, self.piece_bytes)))
                            for carried, new in zip(
                                state, reduction.added([c.name for c in state], term, width), strict=True
                            ):
                                carried.next = new
                        total = reduction.finished([c.name for c in state], width)
                        f.store(kind, total, f.address(element, target, i))
                start = end

    def _bases(self) -> dict[Access, str]:
        """Return the addresses of all accesses at the first index."""
        f = self.f
        pointers: dict[Value, str] = {}
        for root in sorted({a.root for a in self.every}, key=self.slots.__getitem__):
            slot = f.set(f"getelementptr ptr, ptr %table, i64 {self.slots[root]}")
            pointers[root] = f.set(f"load ptr, ptr {slot}")
        row = self.shape[-1] if self.shape else 1
        self.scratch = {
            v: f.set(f"alloca [{row} x {element_of(v.dtype)}], align 64")
            for v in self.kernel.computed
            if v in self.kernel.scratch
        }
        if self.columns is not None:
            columns = self.columns
            for value in columns.values:
                memory = f"alloca [{self._length(value)} x {element_of(value.dtype)}], align 64"
                for held in (columns.partial, columns.totals, columns.errors):
                    held[value] = f.set(memory)
        return {a: self._advance(pointers[a.root], a, a.offset) for a in self.every}

    def _advance(self, base: str, access: Access, elements: int | str) -> str:
        return base if elements == 0 else self.f.address(element_of(access.root.dtype), base, str(elements))

    def _loops(self, depth: int, bases: dict[Access, str]) -> None:
        """Write the loops from `depth` inwards; `bases` are the addresses at the current indices of the outer loops."""
        f, shape = self.f, self.shape
        if depth >= len(shape) - 1:
            self._row(bases)
            return
        start, stop = ("%begin", "%end") if depth == 0 else ("0", str(shape[depth]))
        columns = self.columns
        if columns is not None and depth == columns.first:
            for value in columns.values:
                self._begin_columns(value, columns.totals[value], columns.errors[value])
        if columns is None or depth != columns.blocked:
            self._turns_holding(depth, bases, start, stop)
        else:
            with f.loop(stop, start, str(columns.rows)) as block:
                limit = f.call("i64", "llvm.smin.i64", f"i64 {f.add(block, columns.rows)}", f"i64 {stop}")
                if columns.in_registers:
                    self._block_in_registers(depth, bases, block, limit, columns)
                else:
                    self._block_on_stack(depth, bases, block, limit, columns)
        if columns is not None and depth == columns.first:
            for value in columns.values:
                self._end_columns(value, columns, bases[self.targets[value]])

    def _turns(
        self, depth: int, bases: dict[Access, str], start: str, stop: str, carried: Sequence[Carried] = ()
    ) -> None:
        """Write a loop, and those inside it."""
        f = self.f
        with f.loop(stop, start, carried=carried) as i:
            moved = {a: self._advance(bases[a], a, _times(f, i, a.strides[depth])) for a in self.every}
            self._loops(depth + 1, moved)

    def _turns_holding(self, depth: int, bases: dict[Access, str], start: str, stop: str) -> None:
        """Write a loop and those inside it. If an outer loop carries sums in registers, they pass through this loop as
        well.
        """
        outer = self.held
        self.held = {
            value: self.f.carry(Vector(element_of(value.dtype), self.lanes), c.name) for value, c in outer.items()
        }
        self._turns(depth, bases, start, stop, list(self.held.values()))
        for value, inner in self.held.items():
            outer[value].next = inner.name
        self.held = outer

    # ----- sums of columns --------------------------------------------------------------------------------------------

    def _length(self, value: Value) -> int:
        """Return the number of sums of a row: one per column, or one in total."""
        return self.shape[-1] if self.targets[value].strides[-1] else 1

    def _loop_along_row(self, value: Value) -> Iterator[tuple[str, int]]:
        """Write a pass over the sums of a row: the index of each vector, and its lanes. The body is written once per
        width.
        """
        f, row, start = self.f, self._length(value), 0
        for width in dict.fromkeys([self.lanes, 1]):
            end = row // width * width
            if end - start == width:
                yield str(start), width
            elif end > start:
                with f.loop(str(end), str(start), str(width)) as i:
                    yield i, width
            start = end

    def _block_on_stack(self, depth: int, bases: dict[Access, str], start: str, stop: str, columns: _Columns) -> None:
        """Add a block of rows of several vectors."""
        f, inside = self.f, {**bases, **{self.targets[value]: columns.partial[value] for value in columns.values}}
        for value in columns.values:
            self._begin_columns(value, columns.partial[value])
        self._turns(depth, inside, start, stop)
        for value in columns.values:
            element = element_of(value.dtype)
            for index, width in self._loop_along_row(value):
                place = f.address(element, columns.partial[value], index)
                self._add_block(value, columns, index, width, f.load(Vector(element, width), place))

    def _block_in_registers(
        self, depth: int, bases: dict[Access, str], start: str, stop: str, columns: _Columns
    ) -> None:
        """Add a block of rows of one vector each."""
        carried = {}
        for value in columns.values:
            identity = self.reduction(self.f, value).identity(self.lanes)
            carried[value] = self.f.carry(Vector(element_of(value.dtype), self.lanes), identity)
        self.held = carried
        self._turns(depth, bases, start, stop, list(carried.values()))
        self.held = {}
        for value, state in carried.items():
            length = self._length(value)
            term = state.name if length > 1 else self.reduction(self.f, value).across(state.name, self.lanes)
            self._add_block(value, columns, "0", length, term)

    def _begin_columns(self, value: Value, *places: str) -> None:
        """Initialise memory on the stack with zeros."""
        element, reduction = element_of(value.dtype), self.reduction(self.f, value)
        for index, width in self._loop_along_row(value):
            for place in places:
                self.f.store(Vector(element, width), reduction.identity(width), self.f.address(element, place, index))

    def _add_block(self, value: Value, columns: _Columns, index: str, width: int, term: str) -> None:
        """Add a vector of the sums of a block to the totals, and keep the errors."""
        f, element = self.f, element_of(value.dtype)
        kind, places = Vector(element, width), [
            f.address(element, held[value], index) for held in (columns.totals, columns.errors)
        ]
        state = self.reduction(f, value).added([f.load(kind, place) for place in places], term, width)
        for place, new in zip(places, state, strict=True):
            f.store(kind, new, place)

    def _end_columns(self, value: Value, columns: _Columns, target: str) -> None:
        """Add the totals to the memory of the reduction."""
        f, element, reduction = self.f, element_of(value.dtype), self.reduction(self.f, value)
        for index, width in self._loop_along_row(value):
            kind, place = Vector(element, width), f.address(element, target, index)
            state = [f.load(kind, f.address(element, held[value], index)) for held in (columns.totals, columns.errors)]
            f.store(kind, reduction.combine(f.load(kind, place), reduction.finished(state, width), width), place)

    # ----- a row ------------------------------------------------------------------------------------------------------

    def _row(self, bases: dict[Access, str]) -> None:
        """Write the stages of a row, or the one loop of a kernel without rows."""
        kernel = self.kernel
        start, stop = self._ends_of_row()
        self.row = {}
        for stage in range(kernel.stages):
            turn = _Turn(self, bases, [i for i in kernel.items if i.stage == stage and not i.per_row])
            sums = [i.instruction.result for i in turn.items if i.instruction.result in kernel.row_values]
            if not self.shape:
                found = turn.write("0", 1)
                self.row.update({v: found[v] for v in sums})
            elif turn.items:
                self._pass(turn, start, stop, sums)
            if self.splits_row:
                for position, value in enumerate(self.sums):
                    self.f.store(
                        Vector(element_of(value.dtype)),
                        self.row[value],
                        self.f.address("double", "%sums", str(position)),
                    )
                return
            self._row_numbers(stage, bases)
        self._store_row(bases)

    def _ends_of_row(self) -> tuple[str, str]:
        """Return the bounds of the innermost loop."""
        if len(self.shape) == 1 and (self.kernel.rows is None or self.splits_row):
            return "%begin", "%end"
        return "0", str(self.shape[-1] if self.shape else 1)

    def _row_numbers(self, stage: int, bases: dict[Access, str]) -> None:
        """Write the numbers per row that a stage computes."""
        for item in self.kernel.items:
            if item.stage == stage and item.per_row:
                self.row[item.instruction.result] = self._row_number(item, bases)

    def _store_row(self, bases: dict[Access, str]) -> None:
        for value, access in self.stores.items():
            if value in self.kernel.row_values:
                self.f.store(Vector(element_of(value.dtype)), self.row[value], bases[access])

    def _row_number(self, item: Item, bases: dict[Access, str]) -> str:
        arguments: list[Any] = []
        for argument, place in zip(item.instruction.arguments, item.reads, strict=True):
            if place is None:
                arguments.append(argument)
            elif place.root in self.row:
                arguments.append((place.root.dtype, self.row[place.root]))
            else:
                access = self.loads[place.root, place.offset, place.strides]
                arguments.append((place.root.dtype, self.f.load(Vector(element_of(place.root.dtype)), bases[access])))
        return pointwise.emit(self.f, item.instruction, arguments, 1)

    def _pass(self, turn: _Turn, start: str, stop: str, sums: Sequence[Value]) -> None:
        """Write one pass over a row."""
        at_once = start == "0" and stop == str(self.lanes) and not self.any_row  # a short row is one vector
        if sums:
            items = {i.instruction.result: i.instruction for i in turn.items}
            accumulators = [pointwise.Accumulator(self.f, v, items[v]) for v in sums]
            if at_once:
                found = turn.write("0", self.lanes)
                for a in accumulators:
                    self.row[a.value] = a.finished(a.added(a.start(), a.across(found[a.value], self.lanes)))
            else:
                self._summing_pass(turn, start, stop, accumulators)
        elif at_once:
            turn.write("0", self.lanes)
        else:
            self._plain_pass(turn, start, stop)

    def _plain_pass(self, turn: _Turn, start: str, stop: str) -> None:
        """Write a loop over several vectors side by side, one over the remaining vectors, and one over the remaining
        elements.
        """
        f, rest = self.f, self.shape[-1]
        for width in dict.fromkeys([self.lanes * self.abreast, self.lanes, 1]):
            if rest >= width or self.any_row:  # pieces of a row are whole vectors, except for the last
                rest %= width
                end = _whole_vectors(f, start, stop, width) if rest or self.any_row else stop
                with f.loop(end, start, str(width)) as i:
                    turn.write(i, width)
                start = end

    def _summing_pass(self, turn: _Turn, start: str, stop: str, accumulators: list[pointwise.Accumulator]) -> None:
        """Write a loop over blocks of vectors, and one over the remaining elements. The states of the sums pass from
        one to the other.
        """
        f, lanes = self.f, self.lanes * self.abreast
        states = {a: a.start() for a in accumulators}
        vectors = start
        if lanes > 1:
            vectors = _whole_vectors(f, start, stop, lanes) if self.shape[-1] % lanes or self.any_row else stop
            carried = self._carry(states)
            with f.loop(vectors, start, str(lanes * _BLOCK), _flat(carried.values())) as i:
                limit = f.call("i64", "llvm.smin.i64", f"i64 {f.add(i, lanes * _BLOCK)}", f"i64 {vectors}")
                partial = {a: f.carry(Vector(a.kind, lanes), a.identity(lanes)) for a in accumulators}
                with f.loop(limit, i, str(lanes), list(partial.values())) as j:
                    found = turn.write(j, lanes)
                    for a, c in partial.items():
                        c.next = a.combine(c.name, found[a.value], lanes)
                self._add_to(carried, {a: a.across(c.name, lanes) for a, c in partial.items()})
            states = {a: [s.name for s in carried[a]] for a in accumulators}
        if vectors != stop:
            carried = self._carry(states)
            with f.loop(stop, vectors, "1", _flat(carried.values())) as i:
                found = turn.write(i, 1)
                self._add_to(carried, {a: found[a.value] for a in accumulators})
            states = {a: [s.name for s in carried[a]] for a in accumulators}
        for a in accumulators:
            self.row[a.value] = a.finished(states[a])

    def _carry(self, states: dict[pointwise.Accumulator, list[str]]) -> dict[pointwise.Accumulator, list[Carried]]:
        return {a: [self.f.carry(a.kind, s) for s in state] for a, state in states.items()}

    def _add_to(
        self, carried: dict[pointwise.Accumulator, list[Carried]], terms: dict[pointwise.Accumulator, str]
    ) -> None:
        """Add further terms to the states that a loop carries."""
        for a, states in carried.items():
            for state, new in zip(states, a.added([s.name for s in states], terms[a]), strict=True):
                state.next = new


class Blocks(Nest):
    """The loops of a kernel over rows and columns, run block by block: void name(ptr table, i64 begin, i64 end, i64
    first, i64 past, ptr sums) for rows from `begin` to `end` and columns from `first` to `past`.

    Its sums are sums of columns. Blocks of the same rows are one piece (Note [Sums of pieces]). They write different
    parts of its sums.
    """

    cuts_rows = True

    def __init__(
        self,
        kernel: Kernel,
        name: str,
        target: Target,
        slots: dict[Value, int],
        sizes: Sizes,
        row_pieces: int,
    ) -> None:
        """Build the loops; `row_pieces` is the number of pieces into which the callers cut the rows."""
        super().__init__(kernel, name, target, slots, sizes)
        self.row_pieces = row_pieces
        self.splits_sums = bool(self.shared) and row_pieces > 1

    @property
    def pieces(self) -> int:
        return self.row_pieces

    def _collapsed(self) -> list[int]:
        return list(self.kernel.shape)

    def _ends_of_row(self) -> tuple[str, str]:
        return "%first", "%past"

    def function(self) -> Function:
        f = self.f = Function(self.name, "ptr %table, i64 %begin, i64 %end, i64 %first, i64 %past, ptr %sums")
        bases = self._bases()
        if self.splits_sums:
            offset = 0
            for value in self.shared:
                access, own = self.targets[value], f.ahead("%sums", offset)
                reduction, element, start = self.reduction(f, value), element_of(value.dtype), "%first"
                for width in dict.fromkeys([self.lanes, 1]):
                    end = _whole_vectors(f, start, "%past", width)
                    with f.loop(end, start, str(width)) as i:
                        f.store(Vector(element, width), reduction.identity(width), f.address(element, own, i))
                    start = end
                bases[access] = own
                offset += _aligned(value.nbytes)
        self._loops(0, bases)
        f.returns()
        return f


class _Turn:
    """One turn of an innermost loop: loads, the instructions of a stage, stores."""

    def __init__(self, nest: Nest, bases: dict[Access, str], items: list[Item]) -> None:
        self.nest = nest
        self.f = nest.f
        self.bases = bases
        self.items = items

    def write(self, index: str, lanes: int) -> dict[Value, str]:
        """Write the turn for the elements from `index` on. Return the terms to add to the sums over the row."""
        nest, kernel = self.nest, self.nest.kernel
        self.registers: dict[Value, str] = {}
        self.loaded: dict[Any, str] = {}
        self.index, self.lanes = index, lanes
        parts: list[tuple[Access, str]] = []
        found: dict[Value, str] = {}
        for item in self.items:
            instruction = item.instruction
            arguments = [
                a if p is None else (p.root.dtype, self._read_place(p))
                for a, p in zip(instruction.arguments, item.reads, strict=True)
            ]
            result = instruction.result
            if result in kernel.row_values or result in kernel.targets:
                dtype, value = arguments[0]
                term = pointwise.convert(self.f, value, dtype, result.dtype, lanes)
                if result in kernel.row_values:
                    found[result] = term
                else:
                    self._add_in_memory(nest.targets[result], result, term)
                continue
            self.registers[result] = pointwise.emit(self.f, instruction, arguments, lanes)
            if result in nest.scratch:
                pointer = self.f.address(element_of(result.dtype), nest.scratch[result], index)
                self.f.store(Vector(element_of(result.dtype), lanes), self.registers[result], pointer)
            if result in nest.stores:
                self._store(nest.stores[result], self.registers[result])
            for access in nest.puts.get(result, ()):
                if access.strides and access.strides[-1] == 2 and lanes > 1:
                    parts.append((access, self.registers[result]))
                else:
                    self._store(access, self.registers[result])
        self._store_parts(parts)
        return found

    def _store_parts(self, parts: list[tuple[Access, str]]) -> None:
        """Write every other element of an array, together with the elements in between if this kernel has them, too."""
        beside = {(a.root, a.offset, tuple(a.strides)): (a, register) for a, register in parts}
        for (root, offset, strides), (access, register) in sorted(beside.items(), key=lambda part: part[0][1]):
            other = beside.get((root, offset + 1, strides))
            if (root, offset - 1, strides) in beside and (offset - 1) % 2 == 0:
                continue  # already written with its partner
            if other is None or offset % 2:
                self._store(access, register)
                continue
            element = element_of(root.dtype)
            start = self.f.address(element, self.bases[access], str(_times(self.f, self.index, 2)))
            interleave(self.f, Vector(element, self.lanes), register, other[1], start)

    def _read_place(self, place: Place) -> str:
        root, nest = place.root, self.nest
        kind = Vector(element_of(root.dtype), self.lanes)
        if root in self.registers:
            return self.registers[root]
        if root in nest.kernel.row_values:
            self.registers[root] = self.f.splat(nest.row[root], kind)
        elif root in nest.kernel.computed:
            self.registers[root] = self.f.load(kind, self.f.address(kind.element, nest.scratch[root], self.index))
        else:
            key = (root, place.offset, place.strides)
            if key not in self.loaded:
                self.loaded[key] = self._load(nest.loads[key])
            return self.loaded[key]
        return self.registers[root]

    def _add_in_memory(self, access: Access, value: Value, term: str) -> None:
        """Add to the current value of a reduction over leading dimensions."""
        f, reduction = self.f, self.nest.reduction(self.f, value)
        if value in self.nest.held:
            held = self.nest.held[value]
            held.next = reduction.combine(held.name, term, self.lanes)
            return
        step = access.strides[-1] if access.strides else 0
        if step == 0 and self.lanes > 1:
            kind, base = Vector(element_of(value.dtype)), self.bases[access]
            f.store(kind, reduction.combine(f.load(kind, base), reduction.across(term, self.lanes), 1), base)
            return
        self._store(access, reduction.combine(self._load(access), term, self.lanes))

    def _load(self, access: Access) -> str:
        f, base, lanes = self.f, self.bases[access], self.lanes
        element = element_of(access.root.dtype)
        step = access.strides[-1] if access.strides else 0
        if step == 0:
            return f.splat(f.load(Vector(element), base), Vector(element, lanes))
        start = f.address(element, base, str(_times(f, self.index, step)))
        if step == 1 or lanes == 1:
            return f.load(Vector(element, lanes), start)
        if step == 2:
            return every_other(f, Vector(element, lanes), start)
        gathered = "poison"
        for k in range(lanes):
            one = f.load(Vector(element), f.address(element, start, str(k * step)))
            gathered = f.set(f"insertelement {Vector(element, lanes)} {gathered}, {element} {one}, i64 {k}")
        return gathered

    def _store(self, access: Access, register: str) -> None:
        f, base, lanes = self.f, self.bases[access], self.lanes
        element = element_of(access.root.dtype)
        step = access.strides[-1] if access.strides else 0
        start = f.address(element, base, str(_times(f, self.index, step))) if step else base
        if step == 1 or lanes == 1:
            f.store(Vector(element, lanes), register, start)
            return
        for k in range(lanes):
            one = f.set(f"extractelement {Vector(element, lanes)} {register}, i64 {k}")
            f.store(Vector(element), one, f.address(element, start, str(k * step)))


def _aligned(count: int) -> int:
    return -(-count // 64) * 64


def _times(f: Function, index: str, step: int) -> str | int:
    """Return index * step, simplified for constants."""
    if step in (0, 1):
        return index if step else 0
    return f.set(f"mul i64 {index}, {step}")


def _whole_vectors(f: Function, start: str, stop: str, lanes: int) -> str:
    """Return the end of the last whole vector from `start` on."""
    if lanes == 1:
        return stop
    return f.sub(stop, f.set(f"urem i64 {f.sub(stop, start)}, {lanes}"))


def _flat(groups: Iterable[Iterable[Carried]]) -> list[Carried]:
    return [c for group in groups for c in group]


def _most_alive(kernel: Kernel) -> int:
    """Return the maximum number of values of a kernel that are in registers at once."""
    order = sorted(kernel.items, key=lambda item: item.stage)
    last = {
        p.root: n for n, item in enumerate(order) for p in item.reads if p is not None and p.root in kernel.computed
    }
    alive: set[Value] = set()
    most = 0
    for n, item in enumerate(order):
        alive = {v for v in alive if last[v] >= n}
        most = max(most, len(alive) + 1)
        if item.instruction.result in last:
            alive.add(item.instruction.result)
    return most


def _access(place: Place) -> Access:
    return Access(place.root, place.offset, list(place.strides))
