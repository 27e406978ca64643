"""Assemble arrays from parts in one step.

    add(add(embed(a, i), embed(b, j)), embed(c, k))        ->  pieces(a, b, c, index=(i, j, k))
    add(x, embed(a, i))                                    ->  pieces(x, a, index=(everything, i))
    slice_scatter(slice_scatter(x, a, i), b, j)            ->  overlaid(x, a, b, index=(i, j))
    many consecutive rows written over an array            ->  slice_scatter of their stack
    pieces or overlaid, if the parts cover one dimension without gaps
                                                           ->  stack or cat, which are plain arrays
    parts that come again at the same places, as each round of a loop adds to the gradients of its inputs
                                                           ->  sums of the parts, assembled at the end

Reading n parts of an array gives a gradient of n arrays full of zeros, each added to the next: n times the work of the
parts. Here the array is made once.

Exact: at each place the same numbers are added in the same order. Zeros in between only turn -0.0 into 0.0. So a
place that not all parts cover starts at 0.0, and one that all of them cover at -0.0, which changes nothing (see
`pieces`).
A sum of disjoint parts is the parts themselves plus 0. Parts at one place are added at their position in the chain and
in its order. The work of one round then stays together, and rounds can be rolled up.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, pairwise
from typing import Any

from ndgrad._src.compiler.passes.basic_index import (
    Place,
    are_disjoint,
    intersect,
    is_setting,
    places,
    shape_of,
    to_setting,
)
from ndgrad._src.compiler.passes.rewrite import Rules, Walk
from ndgrad._src.compiler.passes.views import to_places
from ndgrad._src.compiler.program.compiler_ops import op_named
from ndgrad._src.compiler.program.program import Instruction, Program, Value


def assemble_parts(program: Program) -> Program:
    """Return the program with each chain of embedded parts, and of overwritten parts, as one instruction."""
    if not any(i.op.name in ("embed", "slice_scatter") for i in program.instructions):
        return program
    return _Chains(program).run()


#: Maximum number of places that are compared in pairs.
_FEW = 64
#: Minimum number of consecutive parts that are joined before they are written, because the rows of a loop are one
#: array.
_MANY = 8

Part = tuple[Any, tuple[Place, ...]]


class _Sum:
    """A chain of additions of parts that come again, at disjoint or at overlapping places.

    Each of several disjoint places has a sum of its own. Otherwise the parts so far are assembled whenever the place of
    the last part occurs.
    """

    def __init__(self, parts: list[Part], are_apart: bool) -> None:
        self.parts = parts
        self.are_apart = are_apart
        self.taken = 0
        self.so_far: list[Part] = []
        self._numbers: dict[tuple[Place, ...], int] = {}

    def take(self, chains: _Chains, end: Instruction) -> bool:
        """Take the next part, and at first the one before it. Return True if all have been taken."""
        for value, index in self.parts[self.taken : max(self.taken + 1, 2)]:
            self.taken += 1
            value = chains.current(value)
            known = self._numbers.get(index) if self.are_apart else None
            if known is not None:
                self.so_far[known] = chains.emit("add", self.so_far[known][0], value), index
                continue
            self._numbers[index] = len(self.so_far)
            self.so_far.append((value, index))
        done = self.taken == len(self.parts)
        if not done and not self.are_apart and self.parts[self.taken - 1][1] == self.parts[-1][1]:
            whole = tuple([(0, n, 1) for n in end.result.shape])
            self.so_far = [(chains.assemble(self.so_far, Value(end.result.shape, end.result.dtype), end), whole)]
        return done


def _repeated(parts: list[Part], shape: tuple[int, ...]) -> _Sum | None:
    """Return the plan for summing parts that come again; None if every part has its own place."""
    indices = list(dict.fromkeys(index for _, index in parts))
    if 2 * len(indices) > len(parts) + 1:
        return None
    if find_line(indices, shape) is not None:
        return _Sum(parts, True)
    if len(indices) > _FEW:
        return None
    return _Sum(parts, all(are_disjoint(a, b) for a, b in combinations(indices, 2)))


class _Chains(Walk):
    """A walk that omits the inner links of chains and emits one instruction at their ends."""

    def __init__(self, program: Program) -> None:
        super().__init__(program, Rules())
        self._by_result = program.definitions()
        users = program.users()
        wanted = set(program.outputs)
        #: links that are read only by the next link, and so disappear
        self._inner: set[Instruction] = set()
        self._chains: dict[Instruction, tuple[str, list[Part]]] = {}
        #: links of chains with repeated places, including the last link
        self._sums: dict[Instruction, _Sum] = {}
        for instruction in reversed(program.instructions):
            if instruction.op.name not in ("add", "slice_scatter") or instruction in self._inner:
                continue

            def is_link(value: Any, name: str = instruction.op.name) -> Instruction | None:
                made = self._by_result.get(value) if value.__class__ is Value else None
                single = (
                    made is not None and made.op.name == name and len(users.get(value, ())) == 1 and value not in wanted
                )
                return made if single else None

            found = (
                self._sum(instruction, is_link)
                if instruction.op.name == "add"
                else self._overlaid(instruction, is_link)
            )
            if found is not None:
                links, kind, parts = found
                repeated = _repeated(parts, instruction.result.shape) if kind == "pieces" else None
                if repeated is not None:
                    self._sums.update(dict.fromkeys([*links, instruction], repeated))
                self._inner.update(links)
                self._chains[instruction] = kind, parts

    def _sum(self, end: Instruction, is_link: Any) -> Any:
        """Return the parts of a chain of additions, in their order; None if there are none."""
        shape, dtype = end.result.shape, end.result.dtype
        if dtype.kind not in "fiu" and dtype.char not in "eE":
            return None
        links: list[Instruction] = []
        parts: list[Part] = []
        instruction = end
        while True:
            x, y = instruction.arguments
            if self._part(y, shape) is None:
                x, y = y, x
            part = self._part(y, shape)
            if part is None or x.__class__ is not Value or x.shape != shape or x.dtype != dtype:
                return None
            parts.append(part)
            first = self._part(x, shape)
            if first is not None:
                parts.append(first)
                break
            link = is_link(x)
            if link is None or self._sum_ends(link, shape, dtype):
                parts.append((x, tuple([(0, n, 1) for n in shape])))
                break
            links.append(link)
            instruction = link
        return links, "pieces", parts[::-1]

    def _sum_ends(self, link: Instruction, shape: tuple[int, ...], dtype: Any) -> bool:
        """True if neither operand of an addition is a part."""
        x, y = link.arguments
        if self._part(x, shape) is None and self._part(y, shape) is None:
            return True
        return any(a.__class__ is not Value or a.shape != shape or a.dtype != dtype for a in (x, y))

    def _part(self, value: Any, shape: tuple[int, ...]) -> Part | None:
        made = self._by_result.get(value) if value.__class__ is Value else None
        if (
            made is None
            or made.op.name != "embed"
            or value.shape != shape
            or not is_setting(made.settings["index"], shape)
        ):
            return None
        return made.arguments[0], to_places(made.settings["index"], shape)

    def _overlaid(self, end: Instruction, is_link: Any) -> Any:
        """Return the overwritten array and the parts written over it, in their order."""
        shape, dtype = end.result.shape, end.result.dtype
        links: list[Instruction] = []
        parts: list[Part] = []
        instruction: Instruction | None = end
        x: Any = end.result
        while instruction is not None:
            base, y = instruction.arguments
            index = places(instruction.settings["index"], shape)
            fits = y.__class__ is Value and y.dtype == dtype and index is not None and y.shape == shape_of(index)
            if not fits or base.dtype != dtype:
                break
            assert index is not None
            parts.append((y, index))
            if instruction is not end:
                links.append(instruction)
            x = base
            instruction = is_link(base)
        if len(parts) < 2:
            return None
        parts.append((x, tuple([(0, n, 1) for n in shape])))
        return links, "overlaid", parts[::-1]

    # ----- replacement ------------------------------------------------------------------------------------------------

    def _add(self, instruction: Instruction) -> tuple[Value, ...]:
        if instruction.op.name in ("add", "slice_scatter"):
            original = self._by_result.get(instruction.result)
            repeated = self._sums.get(original) if original is not None else None
            if repeated is not None:
                done = repeated.take(self, instruction)
                return (self._sum_of(repeated.so_far, instruction),) if done else instruction.results
            if original in self._inner:
                return instruction.results
            if original in self._chains:
                kind, parts = self._chains[original]
                current = [(self.current(v), index) for v, index in parts]
                return (
                    self._sum_of(current, instruction) if kind == "pieces" else self._overlay_of(current, instruction),
                )
        return super()._add(instruction)

    def current(self, value: Value) -> Value:
        """Return the current replacement of a value of the program."""
        return self._replaced.get(value, value)

    def _sum_of(self, parts: list[Part], end: Instruction) -> Value:
        shape = end.result.shape
        if len(parts) == 1:
            return self.emit("embed", parts[0][0], shape=shape, index=to_setting(parts[0][1]))
        line = find_line([index for _, index in parts], shape)
        if line is not None:
            joined = self._join([v for v, _ in parts], line, shape)
            return self.emit("add", joined, 0 if end.result.dtype.kind in "iu" else 0.0)
        return self.assemble(parts, end.result, end)

    def assemble(self, parts: list[Part], result: Value, end: Instruction) -> Value:
        """Assemble parts in one instruction, which defines `result`."""
        index = tuple([to_setting(index) for _, index in parts])
        meet = intersect([index for _, index in parts])
        settings = {"shape": result.shape, "index": index, "common": None if meet is None else to_setting(meet)}
        return self._define("pieces", [v for v, _ in parts], settings, result, end.where)

    def _overlay_of(self, parts: list[Part], end: Instruction) -> Value:
        shape = end.result.shape
        line = find_line([index for _, index in parts[1:]], shape)
        if line is not None and line.covers:
            return self._join([v for v, _ in parts[1:]], line, shape)
        if line is not None and len(parts) > _MANY:
            whole = self._concatenate([v for v, _ in parts[1:]], line)
            return self.emit("slice_scatter", parts[0][0], whole, index=to_setting(line.place(shape)))
        index = tuple([to_setting(index) for _, index in parts[1:]])
        return self._define("overlaid", [v for v, _ in parts], {"index": index}, end.result, end.where)

    def _define(
        self, name: str, values: list[Value], settings: dict[str, Any], result: Value, where: str | None
    ) -> Value:
        self.instructions.append(Instruction(op_named(name), tuple(values), settings, (result,), where))
        return result

    def _join(self, values: list[Value], line: Line, shape: tuple[int, ...]) -> Value:
        """Return consecutive parts as one array, with zeros around them if they do not cover everything."""
        whole = self._concatenate(values, line)
        return whole if line.covers else self.emit("embed", whole, shape=shape, index=to_setting(line.place(shape)))

    def _concatenate(self, values: list[Value], line: Line) -> Value:
        """Return consecutive parts as one array."""
        return self.emit("stack" if line.is_rows else "cat", *[values[k] for k in line.order], dim=line.dim)


class Line:
    """Consecutive parts along one dimension."""

    def __init__(self, dim: int, order: list[int], start: int, end: int, is_rows: bool, covers: bool) -> None:
        self.dim = dim
        self.order = order
        self.start = start
        self.end = end
        self.is_rows = is_rows
        self.covers = covers

    def place(self, shape: tuple[int, ...]) -> tuple[Place, ...]:
        """Return the index of all parts together."""
        whole: list[Place] = [(0, n, 1) for n in shape]
        whole[self.dim] = (self.start, self.end - self.start, 1)
        return tuple(whole)


def find_line(indices: Sequence[tuple[Place, ...]], shape: tuple[int, ...]) -> Line | None:
    """Return the line in which parts follow each other without gaps, each whole in the other dimensions; None if there
    is none.
    """
    if not indices:
        return None
    cut = {d for index in indices for d, item in enumerate(index) if item != (0, shape[d], 1)}
    if len(cut) != 1:
        return None
    (dim,) = cut
    items = [index[dim] for index in indices]
    rows = [item for item in items if isinstance(item, int)]
    ranges = [item for item in items if not isinstance(item, int)]
    if rows and ranges:
        return None
    if rows:
        starts, ends = rows, [row + 1 for row in rows]
    else:
        if any(step != 1 or not count for _, count, step in ranges):
            return None
        starts, ends = [start for start, _, _ in ranges], [start + count for start, count, _ in ranges]
    order = sorted(range(len(items)), key=starts.__getitem__)
    if any(ends[a] != starts[b] for a, b in pairwise(order)):
        return None
    start, end = starts[order[0]], ends[order[-1]]
    return Line(dim, order, start, end, bool(rows), start == 0 and end == shape[dim])
