"""Kernels over rows whose number and length are known at run time: a few passes over each row while it is in the cache.

A kernel is written as a function of a `Row`: passes over its elements, and their reductions. Softmax:

    def softmax(row: Row) -> None:
        (top,) = row.reduce("max", lambda at: [at["x"]])
        (total,) = row.reduce("sum", lambda at: [at.write("out", exp(at["x"] - top))])
        row.each(lambda at: at.write("out", at["out"] / total))

Numbers of a row (`top`, `total`) are vectors with equal lanes, so formulas of numbers and of elements look alike. An
incomplete vector at the end of a row uses masked loads and stores. Sums keep their errors: 64 vectors are added lane by
lane, and their sum is added to the total with the error of the addition (Neumaier).

Note [Operands of rows]
A row consists of segments of the same length, each contiguous; often there is one. (The pixels of one channel in all
images of a batch are a row, and those in one image a segment.) Each operand has a kind:

    element    one per element
    number     one number per row
    result     the same, written by `row.store`
    segment number, segment result      one number per segment
    place      one integer per row: the number of an element
    columns    sums over the rows, one per element of a row: each chunk of rows has its own, and the caller adds them

Each operand also has its own steps from row to row and from segment to segment, which may be 0: the weights of a layer
norm are the same in every row.

The function is `void name(ptr argument, i64 chunk, i64 worker)`, and the words of its argument are

    rows, rows of a chunk, segments, elements of a segment,
    for each operand: its address, and the elements from row to row (for columns: from chunk to chunk), from segment to segment,
    the parameters: numbers in double precision
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from ndgrad._src.compiler.kernels.elementwise import data, parameter, word
from ndgrad._src.compiler.kernels.maths import rounding
from ndgrad._src.compiler.kernels.maths.values import Mask, Real, Writer
from ndgrad._src.compiler.native.ir import Carried, Function, Vector
from ndgrad._src.compiler.native.target import Target

#: Number of vectors that are added before their sum joins the total.
_BLOCK = 64
#: Words before those of the operands, and words of an operand.
HEAD, EACH = 4, 3

Kinds = dict[str, str]


def row_function(
    name: str, element: str, target: Target, operands: Kinds, parameters: Sequence[str], write: Callable[[Row], None]
) -> Function:
    """Return the kernel of the function `write`, for elements of an LLVM type."""
    f = Function(name, "ptr %argument, i64 %chunk, i64 %worker", attributes="nounwind")
    row = Row(f, Writer(f, Vector(element, 2 * target.lanes(element)), target.fma), operands)
    rows, grain, row.segments, row.length = (word(f, n) for n in range(HEAD))
    bases, steps = {}, {}
    for n, operand in enumerate(operands):
        first = HEAD + EACH * n
        bases[operand], steps[operand], row.steps[operand] = data(f, first), word(f, first + 1), word(f, first + 2)
    for n, name_of in enumerate(parameters, HEAD + EACH * len(operands)):
        row.numbers[name_of] = row.w.real(parameter(f, n, row.w.type))
    row.plan()
    begin = f.mul("%chunk", grain)
    with f.loop(f.least(f.add(begin, grain), rows), begin) as r:
        for operand, kind in operands.items():
            number = "%chunk" if kind == "columns" else r
            row.bases[operand] = f.address(row.element_of(operand), bases[operand], f.mul(number, steps[operand]))
            if kind == "number":
                row.load(operand)
        write(row)
    f.returns()
    return f


class Row:
    """The current row of a kernel under construction."""

    def __init__(self, f: Function, w: Writer, kinds: Kinds) -> None:
        self.f = f
        self.w = w
        self.kinds = kinds
        #: the addresses of operands in this row or segment, and their steps from segment to segment
        self.bases: dict[str, str] = {}
        self.steps: dict[str, str] = {}
        self.numbers: dict[str, Real] = {}
        self.segments = self.length = ""

    def plan(self) -> None:
        """Write the values common to all rows: the elements of a segment in whole vectors, and the mask of the rest."""
        f, lanes = self.f, self.w.type.lanes
        rest = f.set(f"urem i64 {self.length}, {lanes}")
        self.whole, self.rest = f.sub(self.length, rest), f.first_lanes(self.w.type, rest)

    def element_of(self, name: str) -> str:
        return "i64" if self.kinds[name] == "place" else self.w.type.element

    def broadcast(self, number: str) -> Real:
        """Return a scalar as a number of a row."""
        return self.w.real(self.f.splat(number, self.w.type))

    def load(self, name: str) -> None:
        """Read a number."""
        self.numbers[name] = self.broadcast(self.f.load(Vector(self.w.type.element), self.bases[name]))

    def __getitem__(self, name: str) -> Real:
        """Return a parameter, or a number of the row."""
        return self.numbers[name]

    def select_element(self, name: str, place: str) -> tuple[Real, str]:
        """Return the element whose place in the row an operand gives, and its address."""
        f, element = self.f, self.w.type.element
        pointer = f.address(element, self.bases[name], f.load(Vector("i64"), self.bases[place]))
        return self.broadcast(f.load(Vector(element), pointer)), pointer

    def first_element(self, name: str) -> Real:
        """Return the first element of an operand in this row."""
        return self.broadcast(self.f.load(Vector(self.w.type.element), self.bases[name]))

    def store(self, value: Real, name: str = "", pointer: str = "") -> None:
        """Write a number, as a result of the row or to an address."""
        one = self.f.set(f"extractelement {self.w.type} {value}, i64 0")
        self.f.store(Vector(self.w.type.element), one, pointer or self.bases[name])

    def each(self, body: Callable[[At], object]) -> None:
        """Write a pass over the elements."""
        with self._over_segments([]):
            with self.f.loop(self.whole, step=str(self.w.type.lanes)) as i:
                body(At(self, i, None))
            with self.f.loop(self.length, self.whole, str(self.w.type.lanes)) as i:  # at most once
                body(At(self, i, self.rest))

    def reduce(self, how: str, terms: Callable[[At], Sequence[Real]], count: int = 1) -> list[Real]:
        """Write a pass that reduces `count` terms, each to a number of the row: "sum" or "max"."""
        f, w = self.f, self.w
        lanes, none = w.type.lanes, w.real(0.0 if how == "sum" else float("-inf"))
        states = [_State(self, how, [none.name] * (2 if how == "sum" else 1)) for _ in range(count)]
        with self._over_segments(_flat(states)):
            blocks = [s.inside() for s in states]
            with f.loop(self.whole, step=str(lanes * _BLOCK), carried=_flat(blocks)) as i:
                partial = [f.carry(w.type, none.name) for _ in range(count)]
                with f.loop(f.least(f.add(i, lanes * _BLOCK), self.whole), i, str(lanes), partial) as j:
                    for c, term in zip(partial, terms(At(self, j, None)), strict=True):
                        c.next = combine(how, w.real(c.name), term).name
                for state, c in zip(blocks, partial, strict=True):
                    state.join(w.real(c.name))
            ends = [s.inside() for s in blocks]
            with f.loop(self.length, self.whole, str(lanes), _flat(ends)) as i:  # at most once
                for state, term in zip(ends, terms(At(self, i, self.rest)), strict=True):
                    state.join(Mask(w, self.rest).choose(term, none))
            for state, end in zip(states, ends, strict=True):
                for c, last in zip(state.carried, end.carried, strict=True):
                    c.next = last.name
        return [self.broadcast(s.number()) for s in states]

    def reduce_segments(self, terms: Callable[[At], Sequence[Real]], names: Sequence[str]) -> None:
        """Write a pass that sums terms over each segment, and writes the sums as results of the segment."""
        f, w = self.f, self.w
        lanes, none = w.type.lanes, w.real(0.0)
        with self._over_segments([]):
            states = [_State(self, "sum", [none.name] * 2) for _ in names]
            with f.loop(self.whole, step=str(lanes), carried=_flat(states)) as i:
                for state, term in zip(states, terms(At(self, i, None)), strict=True):
                    state.join(term)
            ends = [s.inside() for s in states]
            with f.loop(self.length, self.whole, str(lanes), _flat(ends)) as i:  # at most once
                for state, term in zip(ends, terms(At(self, i, self.rest)), strict=True):
                    state.join(Mask(w, self.rest).choose(term, none))
            for name, end in zip(names, ends, strict=True):
                f.store(Vector(w.type.element), end.number(), self.bases[name])

    @contextmanager
    def _over_segments(self, carried: list[Carried]) -> Iterator[None]:
        with self.f.loop(self.segments, carried=carried) as m:
            outside = self.bases
            self.bases = {
                name: self.f.address(self.element_of(name), base, self.f.mul(m, self.steps[name]))
                for name, base in outside.items()
            }
            for name, kind in self.kinds.items():
                if kind == "segment number":
                    self.load(name)
            yield
            self.bases = outside


class At:
    """A position in a row: a vector of elements, or its first lanes, given by a mask."""

    def __init__(self, row: Row, index: str, mask: str | None) -> None:
        self._row = row
        self._index = index
        self._mask = mask
        self._known: dict[str, Real] = {}

    def __getitem__(self, name: str) -> Real:
        """Return the elements of an operand here, or its number."""
        if self._row.kinds.get(name) != "element":
            return self._row[name]
        if name not in self._known:
            self._known[name] = self._load(name)
        return self._known[name]

    def is_at(self, place: str) -> Mask:
        """Return the mask of the element with this number in its segment."""
        f, lanes = self._row.f, self._row.w.type.lanes
        lane = f.sub(place, self._index)
        lane = f.choose(f.compare("ult", lane, lanes), lane, lanes)
        wanted = f.splat(f.set(f"trunc i64 {lane} to i32"), Vector("i32", lanes))
        numbers = ", ".join(f"i32 {i}" for i in range(lanes))
        return Mask(self._row.w, f.set(f"icmp eq <{lanes} x i32> {wanted}, <{numbers}>"))

    def write(self, name: str, value: Real) -> Real:
        """Write elements, and return them."""
        f, type, pointer = self._row.f, self._row.w.type, self._pointer(name)
        if self._mask is None:
            f.store(type, value.name, pointer)
        else:
            f.store_masked(type, value.name, pointer, self._mask)
        self._known[name] = value
        return value

    def add(self, name: str, value: Real) -> None:
        """Add to the sums over the rows."""
        self.write(name, self._load(name) + value)

    def _load(self, name: str) -> Real:
        f, type, pointer = self._row.f, self._row.w.type, self._pointer(name)
        return self._row.w.real(
            f.load(type, pointer) if self._mask is None else f.load_masked(type, pointer, self._mask)
        )

    def _pointer(self, name: str) -> str:
        return self._row.f.address(self._row.w.type.element, self._row.bases[name], self._index)


class _State:
    """The state of a reduction in each lane: a maximum, or a total and the errors of its additions."""

    def __init__(self, row: Row, how: str, first: Sequence[str]) -> None:
        self.row = row
        self.how = how
        self.carried = [row.f.carry(row.w.type, name) for name in first]

    def inside(self) -> _State:
        """Return the state of an inner loop, which begins as this one."""
        return _State(self.row, self.how, [c.name for c in self.carried])

    def join(self, term: Real) -> None:
        """Add another term to the state."""
        total = self.row.w.real(self.carried[0].name)
        new = combine(self.how, total, term)
        self.carried[0].next = new.name
        if self.how == "sum":
            self.carried[1].next = compensate(self.row.w.real(self.carried[1].name), total, term, new).name

    def number(self) -> str:
        """Combine the lanes in a tree."""
        parts = [self._across(c.name) for c in self.carried]
        return parts[0] if len(parts) == 1 else self.row.f.set(f"fadd {self.row.w.type.element} {parts[0]}, {parts[1]}")

    def _across(self, vector: str) -> str:
        f, type = self.row.f, self.row.w.type
        while type.lanes > 1:
            half = Vector(type.element, type.lanes // 2)
            low, high = (
                Writer(f, half, self.row.w.fma).real(_part(f, vector, type, start, half.lanes))
                for start in (0, half.lanes)
            )
            vector, type = combine(self.how, low, high).name, half
        return vector


def compensate(error: Real, total: Real, term: Real, new: Real) -> Real:
    """Add the error of new = total + term to the errors so far. The error of an infinite sum is undefined."""
    part = new - total
    lost = (total - (new - part)) + (term - part)
    return (new - new).equals(0.0).choose(error + lost, 0.0)


def combine(how: str, a: Real, b: Real) -> Real:
    return a + b if how == "sum" else rounding.maximum(a, b)


def _part(f: Function, vector: str, whole: Vector, start: int, count: int) -> str:
    if count == 1:
        return f.set(f"extractelement {whole} {vector}, i64 {start}")
    order = ", ".join(f"i32 {start + i}" for i in range(count))
    return f.set(f"shufflevector {whole} {vector}, {whole} poison, <{count} x i32> <{order}>")


def _flat(states: Sequence[_State]) -> list[Carried]:
    return [c for state in states for c in state.carried]
