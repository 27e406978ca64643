"""Arrays that are put together of parts, made at once.

    add(add(embed(a, i), embed(b, j)), embed(c, k))                            ->  pieces(a, b, c, index=(i, j, k))
    add(x, embed(a, i))                                                        ->  pieces(x, a, index=(everything, i))
    slice_scatter(slice_scatter(x, a, i), b, j)                                ->  overlaid(x, a, b, index=(i, j))
    either of rows, or of ranges, one behind the other along one dimension     ->  stack or cat, which are plain arrays

Reading n parts of an array gives a gradient of n arrays full of zeros, each added to the next: n times the work of
the parts. Here the array is made once.

Exact: at each place the same numbers are added in the same order. Zeros in between change nothing but a -0., which
they make 0.; so a place that not all parts cover starts at 0., and one that all of them cover at -0., which changes
nothing at all (see `pieces`). A sum in which no two parts meet is the parts themselves plus 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from ndgrad.compiler.ops import op_named
from ndgrad.compiler.passes.basic_index import Place, common, is_written, places, shape_of, written
from ndgrad.compiler.passes.rewrite import Rules, Walk
from ndgrad.compiler.passes.views import stated
from ndgrad.compiler.program import Instruction, Program, Value


def put_together(program: Program) -> Program:
    """The program with its chains of embedded parts, and of overwritten parts, each in one instruction."""
    if not any(i.op.name in ("embed", "slice_scatter") for i in program.instructions):
        return program
    return _Chains(program).run()


class _Chains(Walk):
    """A walk that leaves out the links of chains and makes one instruction at their ends."""

    def __init__(self, program: Program) -> None:
        super().__init__(program, Rules())
        self._by_result = program.definitions()
        users = program.users()
        wanted = set(program.outputs)
        #: of each link that only the next link reads, nothing is left
        self._inner: set[Instruction] = set()
        self._chains: dict[Instruction, tuple[str, list[tuple[Any, tuple[Place, ...]]]]] = {}
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
                self._inner.update(links)
                self._chains[instruction] = kind, parts

    def _sum(self, end: Instruction, is_link: Any) -> Any:
        """The parts of a chain of additions, in their order; None if there are none."""
        shape, dtype = end.result.shape, end.result.dtype
        if dtype.kind not in "fiu":
            return None
        links: list[Instruction] = []
        parts: list[tuple[Any, tuple[Place, ...]]] = []
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
        """Whether an addition is none of a part."""
        x, y = link.arguments
        if self._part(x, shape) is None and self._part(y, shape) is None:
            return True
        return any(a.__class__ is not Value or a.shape != shape or a.dtype != dtype for a in (x, y))

    def _part(self, value: Any, shape: tuple[int, ...]) -> tuple[Any, tuple[Place, ...]] | None:
        made = self._by_result.get(value) if value.__class__ is Value else None
        if (
            made is None
            or made.op.name != "embed"
            or value.shape != shape
            or not is_written(made.settings["index"], shape)
        ):
            return None
        return made.arguments[0], stated(made.settings["index"], shape)

    def _overlaid(self, end: Instruction, is_link: Any) -> Any:
        """What is written one after another, in its order, behind what it is written over."""
        shape, dtype = end.result.shape, end.result.dtype
        links: list[Instruction] = []
        parts: list[tuple[Any, tuple[Place, ...]]] = []
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

    # ----- what becomes of them ---------------------------------------------------------------------------------------

    def _add(self, instruction: Instruction) -> tuple[Value, ...]:
        if instruction.op.name in ("add", "slice_scatter"):
            original = self._by_result.get(instruction.result)
            if original in self._inner:
                return instruction.results
            if original in self._chains:
                kind, parts = self._chains[original]
                current = [(self._replaced.get(v, v), index) for v, index in parts]
                return (
                    self._sum_of(current, instruction) if kind == "pieces" else self._overlay_of(current, instruction),
                )
        return super()._add(instruction)

    def _sum_of(self, parts: list[tuple[Value, tuple[Place, ...]]], end: Instruction) -> Value:
        shape = end.result.shape
        line = None if len(parts) < 2 else in_line([index for _, index in parts], shape)
        if line is not None:
            joined = self._joined([v for v, _ in parts], line, shape)
            return self.emit("add", joined, 0 if end.result.dtype.kind in "iu" else 0.0)
        index = tuple([written(index) for _, index in parts])
        meet = common([index for _, index in parts])
        settings = {"shape": shape, "index": index, "common": None if meet is None else written(meet)}
        return self._made("pieces", [v for v, _ in parts], settings, end)

    def _overlay_of(self, parts: list[tuple[Value, tuple[Place, ...]]], end: Instruction) -> Value:
        shape = end.result.shape
        line = in_line([index for _, index in parts[1:]], shape)
        if line is not None and line.covers:
            return self._joined([v for v, _ in parts[1:]], line, shape)
        index = tuple([written(index) for _, index in parts[1:]])
        return self._made("overlaid", [v for v, _ in parts], {"index": index}, end)

    def _made(self, name: str, values: list[Value], settings: dict[str, Any], end: Instruction) -> Value:
        self.instructions.append(Instruction(op_named(name), tuple(values), settings, end.results, end.where))
        return end.result

    def _joined(self, values: list[Value], line: Line, shape: tuple[int, ...]) -> Value:
        """Parts one behind the other, in zeros if they do not cover everything."""
        ordered = [values[k] for k in line.order]
        whole = self.emit("stack" if line.is_rows else "cat", *ordered, dim=line.dim)
        if line.covers:
            return whole
        index: list[Place] = [(0, n, 1) for n in shape]
        index[line.dim] = (line.start, whole.shape[line.dim], 1)
        return self.emit("embed", whole, shape=shape, index=written(tuple(index)))


class Line:
    """Parts that lie one behind the other along one dimension."""

    def __init__(self, dim: int, order: list[int], start: int, is_rows: bool, covers: bool) -> None:
        self.dim = dim
        self.order = order
        self.start = start
        self.is_rows = is_rows
        self.covers = covers


def in_line(indices: Sequence[tuple[Place, ...]], shape: tuple[int, ...]) -> Line | None:
    """How parts lie one behind the other without gaps, each whole in the other dimensions; None if they do not."""
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
    return Line(dim, order, starts[order[0]], bool(rows), starts[order[0]] == 0 and ends[order[-1]] == shape[dim])
