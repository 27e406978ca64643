"""Kernels over columns whose number and length are known at run time, for reductions over dimensions before the last.

A kernel is written as for rows (ndgrad._src.compiler.kernels.rows), with a `Column` instead of a `Row`. The lanes
of a vector hold adjacent columns, so that each lane has numbers of its own, and a pass goes down the columns. Sums
keep their errors as those of rows do. An operand that is the same in all columns of a block has the kind "same element"
or "same number", and is read once for all lanes.

The function is `void name(ptr argument, i64 chunk, i64 worker)`. A chunk is a range of columns of one block of the
outer dimensions. The words of its argument are

    columns of a block, columns of a chunk, chunks of a block, elements of a column,
    for each operand: its address, and its steps from block to block, down a column, and from column to
    column (0 or 1),
    the parameters: numbers in double precision
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ndgrad._src.compiler.kernels.elementwise import data, parameter, word
from ndgrad._src.compiler.kernels.maths.values import Real, Writer
from ndgrad._src.compiler.kernels.rows import Kinds, combine, compensate
from ndgrad._src.compiler.native.ir import Function, Vector
from ndgrad._src.compiler.native.target import Target

#: Number of vectors that are added before their sum joins the total.
_BLOCK = 64
#: Words before those of the operands, and words of an operand.
HEAD, EACH = 4, 4


def column_function(
    name: str, element: str, target: Target, operands: Kinds, parameters: Sequence[str], write: Callable[[Column], None]
) -> Function:
    """Return the kernel of the function `write`, for elements of an LLVM type."""
    f = Function(name, "ptr %argument, i64 %chunk, i64 %worker", attributes="nounwind")
    w = Writer(f, Vector(element, 2 * target.lanes(element)), target.fma)
    inner, grain, pieces, length = (word(f, n) for n in range(HEAD))
    numbers = {
        name_of: w.real(parameter(f, n, w.type))
        for n, name_of in enumerate(parameters, HEAD + EACH * len(operands))
    }
    block = f.set(f"udiv i64 %chunk, {pieces}")
    begin = f.mul(f.set(f"urem i64 %chunk, {pieces}"), grain)
    end = f.least(f.add(begin, grain), inner)
    bases, downs, acrosses = {}, {}, {}
    for n, operand in enumerate(operands):
        first = HEAD + EACH * n
        bases[operand] = f.address(element, data(f, first), f.mul(block, word(f, first + 1)))
        downs[operand], acrosses[operand] = word(f, first + 2), word(f, first + 3)
    rest = f.set(f"urem i64 {f.sub(end, begin)}, {w.type.lanes}")
    whole = f.sub(end, rest)

    def write_at(c: str, mask: str | None) -> None:
        column = Column(f, w, operands, length, mask)
        column.numbers.update(numbers)
        for operand in operands:
            column.bases[operand] = f.address(element, bases[operand], f.mul(c, acrosses[operand]))
            column.downs[operand] = downs[operand]
        write(column)

    with f.loop(whole, begin, str(w.type.lanes)) as c:
        write_at(c, None)
    with f.loop(end, whole, str(w.type.lanes)) as c:  # at most once
        write_at(c, f.first_lanes(w.type, rest))
    f.returns()
    return f


class Column:
    """The current columns of a kernel under construction: one for each lane."""

    def __init__(self, f: Function, w: Writer, kinds: Kinds, length: str, mask: str | None) -> None:
        self.f = f
        self.w = w
        self.kinds = kinds
        self.length = length
        self.mask = mask
        self.bases: dict[str, str] = {}
        self.downs: dict[str, str] = {}
        self.numbers: dict[str, Real] = {}

    def __getitem__(self, name: str) -> Real:
        """Return a parameter, or a number of each column."""
        if name not in self.numbers:
            self.numbers[name] = self.load(name, self.bases[name])
        return self.numbers[name]

    def first_element(self, name: str) -> Real:
        """Return the first element of an operand in each column."""
        return self.load(name, self.bases[name])

    def load(self, name: str, pointer: str) -> Real:
        """Read an operand for all lanes: adjacent elements, or one element for all."""
        f, type = self.f, self.w.type
        if self.kinds[name].startswith("same"):
            return self.w.real(f.splat(f.load(Vector(type.element), pointer), type))
        return self.w.real(f.load(type, pointer) if self.mask is None else f.load_masked(type, pointer, self.mask))

    def store(self, value: Real, name: str) -> None:
        """Write a number of each column."""
        self.write(name, value, self.bases[name])

    def write(self, name: str, value: Real, pointer: str) -> None:
        """Write an element or number of each column."""
        if self.mask is None:
            self.f.store(self.w.type, value.name, pointer)
        else:
            self.f.store_masked(self.w.type, value.name, pointer, self.mask)

    def each(self, body: Callable[[Place], object]) -> None:
        """Write a pass down the columns."""
        with self.f.loop(self.length) as r:
            body(Place(self, r))

    def reduce(self, how: str, terms: Callable[[Place], Sequence[Real]], count: int = 1) -> list[Real]:
        """Write a pass that reduces `count` terms, each to a number of each column: "sum" or "max"."""
        f, w = self.f, self.w
        none = w.real(0.0 if how == "sum" else float("-inf"))
        totals = [f.carry(w.type, none.name) for _ in range(count)]
        errors = [f.carry(w.type, none.name) for _ in range(count if how == "sum" else 0)]
        with f.loop(self.length, step=str(_BLOCK), carried=[*totals, *errors]) as start:
            partial = [f.carry(w.type, none.name) for _ in range(count)]
            with f.loop(f.least(f.add(start, _BLOCK), self.length), start, "1", partial) as r:
                for c, term in zip(partial, terms(Place(self, r)), strict=True):
                    c.next = combine(how, w.real(c.name), term).name
            for n, (total, c) in enumerate(zip(totals, partial, strict=True)):
                before, term = w.real(total.name), w.real(c.name)
                new = combine(how, before, term)
                total.next = new.name
                if how == "sum":
                    errors[n].next = compensate(w.real(errors[n].name), before, term, new).name
        if how != "sum":
            return [w.real(total.name) for total in totals]
        return [w.real(total.name) + w.real(error.name) for total, error in zip(totals, errors, strict=True)]


class Place:
    """A position in all columns of a vector."""

    def __init__(self, column: Column, index: str) -> None:
        self._column = column
        self._index = index
        self._known: dict[str, Real] = {}

    def __getitem__(self, name: str) -> Real:
        """Return the elements of an operand here, or its numbers."""
        column = self._column
        if column.kinds.get(name) not in ("element", "same element"):
            return column[name]
        if name not in self._known:
            self._known[name] = column.load(name, self._pointer(name))
        return self._known[name]

    def write(self, name: str, value: Real) -> Real:
        """Write elements, and return them."""
        self._column.write(name, value, self._pointer(name))
        return value

    def _pointer(self, name: str) -> str:
        f, column = self._column.f, self._column
        return f.address(column.w.type.element, column.bases[name], f.mul(self._index, column.downs[name]))
