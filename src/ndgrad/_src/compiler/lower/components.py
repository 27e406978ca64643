"""Group the elementwise ops of a program into connected components.

Kernels take all elementwise ops of one shape that they can. Without a limit, the updates of a hundred parameters of one
shape would be one kernel over four hundred arrays. These are more streams than a processor can follow. The kernel would
also take long to compile, while a kernel that occurs a hundred times is compiled once. So ops that have no array in
common, not even indirectly, share a kernel only while it reads few arrays.
"""

from __future__ import annotations

from collections.abc import Callable

from ndgrad._src.compiler.program.program import Instruction, Program, Value

#: Maximum number of arrays that unrelated ops of one kernel read.
STREAMS = 12


class Components:
    """The connected components of a program's elementwise ops, linked by values of one size other than constants."""

    def __init__(self, program: Program, is_pointwise: Callable[[Instruction], bool]) -> None:
        self._above: dict[Value, Value] = {}
        made: set[Value] = set()
        for instruction in program.instructions:
            if _is_view(instruction) or is_pointwise(instruction):
                made.update(instruction.results)
                for value in instruction.values():
                    if value.size == instruction.results[0].size and value not in program.constants:
                        self._join(instruction.results[0], value)
        #: representative of a component -> number of arrays that it reads
        self.streams: dict[Value, int] = {}
        for value in list(self._above):
            if value not in made:
                part = self.of(value)
                self.streams[part] = self.streams.get(part, 0) + 1

    def of(self, value: Value) -> Value:
        """Return the representative of the component that a value belongs to."""
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
    """True if an op returns a view of its argument."""
    op = instruction.op
    return bool(op.view or op.shares_storage or op.name in ("conj", "unsafe_view", "reshape"))
