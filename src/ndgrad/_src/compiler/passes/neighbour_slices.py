"""Recompute neighbours at their readers: slices of a large value become slices of its operands.

    %2 = mul(%0, %1)                                     %3, %4 = %0[1:], %0[:-1]
    %3, %4 = %2[1:], %2[:-1]                     ->      %5, %6 = %1[1:], %1[:-1]
    %5 = sub(%3, %4)                                     %9 = sub(mul(%3, %5), mul(%4, %6))

A kernel has the element that it computes at an index, but not the next one. Differences of neighbours would therefore
need the value in memory, written by one kernel and read by another. If the value takes an instruction or two,
recomputing it for each neighbour is quicker. The pass applies to values that are read only as overlapping slices and
are too large for the cache. A chain of such values stays cheap, since each link of a chain of differences reads only
one more neighbour.

Exact: each element is computed by the same ops, some of them more than once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import combinations

from ndgrad._src.compiler.passes.basic_index import Place, after, disjoint, is_whole, places, shape_of, written
from ndgrad._src.compiler.program.compiler_ops import op_named
from ndgrad._src.compiler.program.program import Instruction, Program, Value, with_values

#: Minimum bytes of a value to recompute.
_LARGE = 1 << 18
#: Maximum number of instructions per element that are recomputed.
_MOST = 8

Index = tuple[Place, ...]


def neighbours_in_place(program: Program, cost: Callable[[Instruction], int | None]) -> Program:
    """Return the program in which no value is stored only for its neighbours.

    `cost` returns the number of machine instructions per element, and None for ops that are not elementwise.
    """
    if not any(_is_slice(i) and next(i.values()).nbytes >= _LARGE for i in program.instructions):
        return program
    return _Sweep(program, cost).done()


def _is_slice(instruction: Instruction) -> bool:
    """True if an instruction reads slices in all dimensions, forwards."""
    return instruction.op.name == "getitem" and all(
        isinstance(item, slice) and (item.step or 1) > 0 for item in instruction.settings["index"]
    )


class _Sweep:
    """A sweep from the last instruction to the first, so that all readers of a value are known before its definition.
    """

    def __init__(self, program: Program, cost: Callable[[Instruction], int | None]) -> None:
        self.program = program
        self.cost = cost
        #: the new instructions, the last first
        self.backwards: list[Instruction] = []
        #: values read by something else than a slice
        self.read = set(program.outputs)
        #: the slices of each value that are read, and their names
        self.slices: dict[Value, dict[Index, Value]] = {}
        self.replaced: dict[Value, Value] = {}
        self.changed = False

    def done(self) -> Program:
        program = self.program
        for instruction in reversed(program.instructions):
            if _is_slice(instruction):
                self._slice(instruction)
            elif self._is_pushed(instruction):
                self._push(instruction)
            else:
                for value in instruction.results:
                    self._show(value)
                self._emit(instruction)
        if not self.changed:
            return program
        for value in (*program.inputs, *program.constants):
            self._show(value)
        instructions = [with_values(i, self.replaced) for i in reversed(self.backwards)]
        outputs = [self.replaced.get(v, v) for v in program.outputs]
        return Program(program.inputs, outputs, self._small_first(instructions), program.constants, program.name)

    def _small_first(self, instructions: list[Instruction]) -> list[Instruction]:
        """Order instructions so that a kernel of large values does not end for small ones that it reads."""
        known = {*self.program.inputs, *self.program.constants}
        first, rest = [], []
        for instruction in instructions:
            if known.issuperset(instruction.values()) and all(
                v.nbytes < _LARGE for v in (*instruction.values(), *instruction.results)
            ):
                known.update(instruction.results)
                first.append(instruction)
            else:
                rest.append(instruction)
        return [*first, *rest]

    def _emit(self, instruction: Instruction) -> None:
        self.backwards.append(instruction)
        self.read.update(instruction.values())

    def _slice(self, instruction: Instruction) -> None:
        """Record a slice until its source is defined, and slices of it as slices of that source."""
        (source,) = instruction.values()
        index = places(instruction.settings["index"], source.shape)
        assert index is not None
        result = instruction.result
        for inner, value in self.slices.pop(result, {}).items():
            self._note(source, after(index, inner), value)
        if result in self.read:
            self._note(source, index, result)

    def _note(self, source: Value, index: Index, value: Value) -> None:
        first = self.slices.setdefault(source, {}).setdefault(index, value)
        if first is not value:
            self.replaced[value] = first

    def _show(self, source: Value) -> None:
        """Emit the slices of a value in memory."""
        for index, value in self.slices.pop(source, {}).items():
            self._emit(Instruction(op_named("getitem"), (source,), {"index": written(index)}, (value,)))

    def _is_pushed(self, instruction: Instruction) -> bool:
        """True if the result of an instruction is read only as overlapping slices, and is cheap enough to recompute for
        each.
        """
        if len(instruction.results) != 1:
            return False
        value = instruction.result
        indices = self.slices.get(value, {})
        if len(indices) < 2 or value in self.read or value.nbytes < _LARGE:
            return False
        cost = self.cost(instruction)
        again = sum(_size(index) for index in indices) / value.size - 1
        return cost is not None and cost * again <= _MOST and _overlap(indices)

    def _push(self, instruction: Instruction) -> None:
        """Compute each slice of a value separately."""
        self.changed = True
        value = instruction.result
        for index, result in self.slices.pop(value).items():
            arguments = [
                self._part(a, index, value.ndim) if a.__class__ is Value else a for a in instruction.arguments
            ]
            self._emit(
                Instruction(instruction.op, tuple(arguments), instruction.settings, (result,), instruction.where)
            )

    def _part(self, argument: Value, index: Index, ndim: int) -> Value:
        """Return the slice of an argument that belongs to a slice of the result. A broadcast argument is used whole."""
        own = index[ndim - argument.ndim :]
        own = tuple([(0, 1, 1) if n == 1 else item for item, n in zip(own, argument.shape, strict=True)])
        if is_whole(own, argument.shape):
            return argument
        known = self.slices.setdefault(argument, {})
        if own not in known:
            known[own] = Value(shape_of(own), argument.dtype)
        return known[own]


def _size(index: Index) -> int:
    size = 1
    for n in shape_of(index):
        size *= n
    return size


def _overlap(indices: Iterable[Index]) -> bool:
    return any(not disjoint(a, b) for a, b in combinations(indices, 2))
