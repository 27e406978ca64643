"""Elementwise ops that have something to do with one another.

Kernels take all elementwise ops of one shape that they may have. Without a limit, the updates of a hundred parameters of
one shape are one kernel that goes through four hundred arrays at once, more streams than a processor can follow, and a
long one to compile, where the same kernel a hundred times is compiled once. So ops that have no array in common, not
even by others, share a kernel only while that reads few.
"""

from __future__ import annotations

from collections.abc import Callable

from ndgrad._src.compiler.program.program import Instruction, Program, Value

#: The arrays that unrelated ops of one kernel read, at most.
STREAMS = 12


class Components:
    """The connected parts of a program's elementwise ops: by values of one size, constants aside."""

    def __init__(self, program: Program, is_pointwise: Callable[[Instruction], bool]) -> None:
        self._above: dict[Value, Value] = {}
        made: set[Value] = set()
        for instruction in program.instructions:
            if _is_view(instruction) or is_pointwise(instruction):
                made.update(instruction.results)
                for value in instruction.values():
                    if value.size == instruction.results[0].size and value not in program.constants:
                        self._join(instruction.results[0], value)
        #: how many arrays a part reads, by the value that stands for it
        self.streams: dict[Value, int] = {}
        for value in list(self._above):
            if value not in made:
                part = self.of(value)
                self.streams[part] = self.streams.get(part, 0) + 1

    def of(self, value: Value) -> Value:
        """What stands for the part that a value belongs to."""
        above = self._above
        while (parent := above.get(value, value)) is not value:
            above[value] = above.get(parent, parent)
            value = parent
        return value

    def _join(self, a: Value, b: Value) -> None:
        for value in (a, b):
            self._above.setdefault(value, value)
        a, b = self.of(a), self.of(b)
        self._above[b] = a


def _is_view(instruction: Instruction) -> bool:
    """Whether an op gives another way to see what it is given."""
    op = instruction.op
    return bool(op.view or op.shares_storage or op.name in ("conj", "unsafe_view", "reshape"))
