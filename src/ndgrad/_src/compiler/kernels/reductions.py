"""Reductions of the lanes of a vector, and of a stream of vectors.

A stream is processed in blocks. Within a block vectors are combined lane by lane, several side by side, then the lanes
in a tree,

    (a0 a1 a2 a3) -> (a0 + a2, a1 + a3) -> a0 + a2 + a1 + a3,

and the result of the block is added to the state of the reduction. The state of a sum of floats is the total and the
error of its additions so far (Neumaier). For any length of the stream, the error bound is that of a block. NumPy's
pairwise sum of blocks of 128 has that bound too, plus that of the pairs. A NaN anywhere makes a sum, a product, a
maximum and a minimum NaN. Integers wrap around.

    total = Reduction(f, "sum", "float64")
    f.store(Vector("double"), stream(f, total, "%x", "%n", 4), "%out")

`Place` finds the position of the largest or smallest element: the first one, or the first NaN.
"""

from __future__ import annotations

import math

from ndgrad._src.compiler.kernels import operations
from ndgrad._src.compiler.native.ir import TYPES, Carried, Function, Vector

#: name -> the op that combines two, and the initial value, for floats and for booleans
REDUCTIONS = {
    "sum": "add",
    "prod": "mul",
    "max": "maximum",
    "min": "minimum",
    "any": "logical_or",
    "all": "logical_and",
}
#: Number of vectors that are combined before their lanes are.
BLOCK = 16


def _least(dtype: str) -> float:
    if dtype.startswith("float"):
        return -math.inf
    return 0 if dtype[0] in "bu" else -(2 ** (int(dtype.removeprefix("int")) - 1))


def _most(dtype: str) -> float:
    if dtype.startswith("float"):
        return math.inf
    return 1 if dtype == "bool" else 2 ** int(dtype.removeprefix("uint")) - 1 if dtype[0] == "u" else -_least(dtype) - 1


class Reduction:
    """A reduction in registers, of elements of a dtype: sum, prod, max, min; any and all of booleans."""

    def __init__(self, f: Function, name: str, dtype: str) -> None:
        if name not in REDUCTIONS or (name in ("any", "all")) != (dtype == "bool"):
            names = ", ".join(REDUCTIONS)
            raise NotImplementedError(
                f"there is no reduction {name!r} of {dtype}. There are {names}, the last two of bool alone. "
                "[nd-compiler]"
            )
        self.f = f
        self.name = name
        self.dtype = dtype
        self.kind = TYPES[dtype]
        self.keeps_errors = name == "sum" and dtype.startswith("float")

    def identity(self, lanes: int) -> str:
        """Return the neutral element."""
        starts = {"sum": 0, "prod": 1, "max": _least(self.dtype), "min": _most(self.dtype), "any": 0, "all": 1}
        number = starts[self.name]
        width = 8 * Vector(self.kind).bytes
        if not self.dtype.startswith("float") and number >= 2 ** (width - 1):
            number -= 2**width  # LLVM's constants are signed
        return Vector(self.kind, lanes).constant(number)

    def combine(self, a: str, b: str, lanes: int) -> str:
        """Combine two vectors, lane by lane."""
        return operations.emit(self.f, REDUCTIONS[self.name], self.dtype, lanes, a, b)

    def across(self, vector: str, lanes: int) -> str:
        """Combine the lanes of a vector, in a tree; an odd lane waits for the next level."""
        f, rest = self.f, []
        while lanes > 1:
            whole = Vector(self.kind, lanes)
            if lanes % 2:
                rest.append(f.set(f"extractelement {whole} {vector}, i64 {lanes - 1}"))
            half = lanes // 2
            low, high = (self._part(vector, whole, start, half) for start in (0, half))
            vector, lanes = self.combine(low, high, half), half
        for odd in reversed(rest):
            vector = self.combine(vector, odd, 1)
        return vector

    def _part(self, vector: str, whole: Vector, start: int, count: int) -> str:
        if count == 1:
            return self.f.set(f"extractelement {whole} {vector}, i64 {start}")
        order = ", ".join(f"i32 {start + i}" for i in range(count))
        return self.f.set(f"shufflevector {whole} {vector}, {whole} poison, <{count} x i32> <{order}>")

    # ----- the state of a stream --------------------------------------------------------------------------------------

    def start(self, lanes: int = 1) -> list[str]:
        return [self.identity(lanes)] * (2 if self.keeps_errors else 1)

    def added(self, state: list[str], term: str, lanes: int = 1) -> list[str]:
        """Return the state with another term. A sum keeps the error of the addition; an infinite sum has none."""
        if not self.keeps_errors:
            return [self.combine(state[0], term, lanes)]
        f, kind = self.f, Vector(self.kind, lanes)
        total, error = state
        new = f.set(f"fadd {kind} {total}, {term}")
        part = f.set(f"fsub {kind} {new}, {total}")
        left = f.set(f"fsub {kind} {total}, {f.set(f'fsub {kind} {new}, {part}')}")
        lost = f.set(f"fadd {kind} {left}, {f.set(f'fsub {kind} {term}, {part}')}")
        summed = f.set(f"fadd {kind} {error}, {lost}")
        zero, truth = self.identity(lanes), Vector("i1", lanes)
        finite = f.set(f"fcmp ord {kind} {f.set(f'fsub {kind} {new}, {new}')}, {zero}")
        return [new, f.set(f"select {truth} {finite}, {kind} {summed}, {kind} {zero}")]

    def finished(self, state: list[str], lanes: int = 1) -> str:
        kind = Vector(self.kind, lanes)
        return self.f.set(f"fadd {kind} {state[0]}, {state[1]}") if self.keeps_errors else state[0]


def stream(f: Function, reduction: Reduction, pointer: str, count: str, lanes: int) -> str:
    """Write the reduction of `count` contiguous elements, by vectors of so many lanes, and return the name of the
    result.
    """
    kind, type = reduction.kind, Vector(reduction.kind, lanes)
    states = reduction.start()
    start = "0"
    if lanes > 1:
        start = f.mul(f.div(count, lanes), lanes)
        carried = [f.carry(kind, s) for s in states]
        with f.loop(start, step=str(lanes * BLOCK), carried=carried) as i:
            partial = f.carry(type, reduction.identity(lanes))
            with f.loop(f.least(f.add(i, lanes * BLOCK), start), i, str(lanes), [partial]) as j:
                partial.next = reduction.combine(partial.name, f.load(type, f.address(kind, pointer, j)), lanes)
            _hand_on(carried, reduction.added([c.name for c in carried], reduction.across(partial.name, lanes)))
        states = [c.name for c in carried]
    carried = [f.carry(kind, s) for s in states]
    with f.loop(count, start, carried=carried) as i:
        _hand_on(carried, reduction.added([c.name for c in carried], f.load(Vector(kind), f.address(kind, pointer, i))))
    return reduction.finished([c.name for c in carried])


def _hand_on(carried: list[Carried], values: list[str]) -> None:
    for c, value in zip(carried, values, strict=True):
        c.next = value


# ----- positions ------------------------------------------------------------------------------------------------------


class Place:
    """The position of the largest element of a stream, or the smallest: the state is a value and an index in each lane.
    """

    def __init__(self, f: Function, name: str, dtype: str) -> None:
        if name not in ("argmax", "argmin"):
            raise NotImplementedError(
                f"there is no place {name!r} of a reduction. There are argmax and argmin. [nd-compiler]"
            )
        self.f = f
        self.dtype = dtype
        self.kind = TYPES[dtype]
        self.better = "gt" if name == "argmax" else "lt"
        self.floats = dtype.startswith("float")

    def _mask(self, op: str, lanes: int, a: str, b: str) -> str:
        answer = operations.emit(self.f, op, self.dtype, lanes, a, b)
        return self.f.set(f"trunc {Vector('i8', lanes)} {answer} to {Vector('i1', lanes)}")

    def _both(self, op: str, lanes: int, a: str, b: str) -> str:
        return self.f.set(f"{op} {Vector('i1', lanes)} {a}, {b}")

    def later(self, state: tuple[str, str], value: str, index: str, lanes: int) -> tuple[str, str]:
        """Return the state after elements with greater indices: they win if they are better, or the first NaN."""
        wins = self._mask(self.better, lanes, value, state[0])
        if self.floats:
            nan, before = self._mask("ne", lanes, value, value), self._mask("eq", lanes, state[0], state[0])
            wins = self._both("or", lanes, wins, self._both("and", lanes, nan, before))
        return self._picked(wins, (value, index), state, lanes)

    def _picked(self, mask: str, yes: tuple[str, str], no: tuple[str, str], lanes: int) -> tuple[str, str]:
        types = Vector("i1", lanes), Vector(self.kind, lanes), Vector("i64", lanes)
        value, index = (
            self.f.set(f"select {types[0]} {mask}, {t} {a}, {t} {b}") for t, a, b in zip(types[1:], yes, no)
        )
        return value, index

    def across(self, state: tuple[str, str], lanes: int) -> tuple[str, str]:
        """Combine the lanes, in which equal elements may be in any order, to the one with the least index."""
        f = self.f
        if lanes == 1:
            return state
        values, indices = Vector(self.kind, lanes), Vector("i64", lanes)

        def lane(k: int) -> tuple[str, str]:
            return f.set(f"extractelement {values} {state[0]}, i64 {k}"), f.set(
                f"extractelement {indices} {state[1]}, i64 {k}"
            )

        best = lane(0)
        for k in range(1, lanes):
            value, index = lane(k)
            wins = self._mask(self.better, 1, value, best[0])
            same = self._mask("eq", 1, value, best[0])
            if self.floats:
                nan, other = self._mask("ne", 1, value, value), self._mask("ne", 1, best[0], best[0])
                wins = self._both("or", 1, wins, self._both("and", 1, nan, self._both("xor", 1, other, "true")))
                same = self._both("or", 1, same, self._both("and", 1, nan, other))
            earlier = f.set(f"icmp slt i64 {index}, {best[1]}")
            wins = self._both("or", 1, wins, self._both("and", 1, same, earlier))
            best = self._picked(wins, (value, index), best, 1)
        return best
