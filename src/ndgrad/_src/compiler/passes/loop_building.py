"""Build the loops that `reroll` has found: their bodies, inputs and outputs."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ndgrad._src.compiler.passes.basic_index import Place, written
from ndgrad._src.compiler.passes.views import stated
from ndgrad._src.compiler.program.compiler_ops import loop, op_named
from ndgrad._src.compiler.program.inference import infer
from ndgrad._src.compiler.program.program import Instruction, Program, Value

#: A value has the number instruction * RESULTS + result. Inputs and constants have negative numbers.
RESULTS = 64


@dataclass(eq=False, slots=True)
class FoundLoop:
    """A loop over instructions start ... start + period * count, with the roles of its operands."""

    start: int
    period: int
    count: int
    #: (place in the block, operand) -> its role: ("local", k), ("carried", slot), ("invariant",
    #: number), ("row", reading)
    roles: dict[tuple[int, int], tuple[str, Any]] = field(default_factory=dict)
    #: places of `getitem`s with a running index -> reading
    running: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    #: carried values in the order of first use: (place * RESULTS + result, numbers of the initial values, the farthest
    #: first)
    carried: dict[tuple[int, tuple[int, ...]], None] = field(default_factory=dict)
    invariants: dict[int, None] = field(default_factory=dict)
    #: rows that are read: ("stack", loop, place, first, step), ("kept", loop, slot, first, step), ("numbers", the place
    #: in the block) for a constant, or ("index", the number of the array, the place of the `getitem` in the program,
    #: dimension, first, step)
    rows: dict[tuple[Any, ...], None] = field(default_factory=dict)
    #: outputs: places whose last value is read, and places (or slots) of which every round's value is read
    last: dict[int, Value] = field(default_factory=dict)
    stacks: dict[tuple[str, Any], Value] = field(default_factory=dict)

    @property
    def end(self) -> int:
        return self.start + self.period * self.count

    def contains(self, number: int) -> bool:
        return self.start * RESULTS <= number < self.end * RESULTS


def home_of(number: int, loops: list[FoundLoop]) -> FoundLoop | None:
    """Return the loop that computes a value, among loops in their order."""
    at = bisect_right(loops, number // RESULTS, key=lambda made: made.start)
    return loops[at - 1] if at and loops[at - 1].contains(number) else None


class Building:
    """A program in which loops replace their instructions."""

    def __init__(
        self, program: Program, loops: list[FoundLoop], number: dict[Value, int], value: dict[int, Value], numbers: Any
    ) -> None:
        """Take the numbering of values (`number`, `value`) and the Python number of each instruction that has one
        (`numbers`).
        """
        self.program = program
        self.instructions = program.instructions
        self.loops = loops
        self.number = number
        self.value = value
        self.numbers = numbers

    def program_with_loops(self) -> Program:
        """Return the program with its loops."""
        self._demand()
        program = self.program
        self.out: list[Instruction] = []
        self.constants = dict(program.constants)
        self.parts: dict[int, Value] = {}
        at = {made.start: made for made in self.loops}
        i = 0
        while i < len(self.instructions):
            if i in at:
                self._emit_loop(at[i])
                i = at[i].end
                continue
            instruction = self.instructions[i]
            arguments = tuple(
                [self._outside(self.number[a]) if a.__class__ is Value else a for a in instruction.arguments]
            )
            self.out.append(
                Instruction(instruction.op, arguments, instruction.settings, instruction.results, instruction.where)
            )
            i += 1
        outputs = [self._outside(self.number[v]) for v in program.outputs]
        return Program(program.inputs, outputs, self.out, self.constants, program.name)

    def _home(self, number: int) -> FoundLoop | None:
        """Return the loop that computes a value."""
        return home_of(number, self.loops)

    def _demand(self) -> None:
        """Determine the outputs of each loop."""
        inside = np.zeros(len(self.instructions), bool)
        for made in self.loops:
            inside[made.start : made.end] = True
        for i in np.flatnonzero(~inside):
            self._want(self.number[v] for v in self.instructions[i].values())
        self._want(self.number[v] for v in self.program.outputs)
        for made in self.loops:
            self._want(made.invariants)
            self._want(n for _, first in made.carried for n in first)
            for reading in made.rows:
                if reading[0] == "index":
                    self._want([reading[1]])
                elif reading[0] != "numbers":
                    _, here, which, _, _ = reading
                    self._want_stack(here, reading[0], which)
        for (
            made
            # The order is fixed, so that equal loops stay equal. If the rows of all rounds are an output, the last row
            # serves as the last round's value.
        ) in self.loops:
            made.stacks = {key: made.stacks[key] for key in sorted(made.stacks, key=str)}
            made.last = {place: made.last[place] for place in sorted(made.last) if ("stack", place) not in made.stacks}

    def _want(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            here = self._home(number)
            if here is None:
                continue
            place, round_ = self._split(here, number)
            if place // RESULTS in here.running:
                self._want([here.running[place // RESULTS][1]])
            elif round_ == here.count - 1:
                value = self.value[number]
                here.last.setdefault(place, Value(value.shape, value.dtype))
            else:
                self._want_stack(here, "stack", place)

    def _split(self, here: FoundLoop, number: int) -> tuple[int, int]:
        """Return the place in the block and the round of a value."""
        round_, place = divmod(number - here.start * RESULTS, here.period * RESULTS)
        return place, round_

    def _want_stack(self, here: FoundLoop, kind: str, which: Any) -> None:
        if (kind, which) not in here.stacks:
            place = which if kind == "stack" else which[0]
            value = self.value[here.start * RESULTS + place]
            here.stacks[kind, which] = Value((here.count, *value.shape), value.dtype)

    def _outside(self, number: int) -> Value:
        """Return a value as seen by the program around the loops."""
        here = self._home(number)
        if here is None:
            return self.value[number]
        place, round_ = self._split(here, number)
        if place // RESULTS in here.running:
            if number not in self.parts:
                source = self._outside(here.running[place // RESULTS][1])
                self.parts[number] = self._emit("getitem", source, **self.instructions[number // RESULTS].settings)
            return self.parts[number]
        if place in here.last:
            return here.last[place]
        if number not in self.parts:
            stack = here.stacks["stack", place]
            index: tuple[Place, ...] = (round_, *[(0, n, 1) for n in stack.shape[1:]])
            self.parts[number] = self._emit("getitem", stack, index=written(index))
        return self.parts[number]

    def _emit(self, name: str, *arguments: Value, **settings: Any) -> Value:
        op = op_named(name)
        _, ((shape, dtype),) = infer(op, arguments, settings)
        value = Value(shape, dtype)
        self.out.append(Instruction(op, arguments, settings, (value,)))
        return value

    def _emit_loop(self, made: FoundLoop) -> None:
        slots = list(made.carried)
        starts = [self._outside(n) for _, first in slots for n in reversed(first)]
        fixed = [self._outside(n) for n in made.invariants]
        sequences, reads = [], []
        for reading in made.rows:
            array, first, step = self._numbers(made, reading[1]) if reading[0] == "numbers" else self._sequence(reading)
            sequences.append(array)
            reads.append((first, step))
        body, inner = self._body(made, starts, fixed, sequences)
        following: list[Value] = []
        for place, starting in slots:
            chain = inner["carried", (place, starting)]
            following += [inner["place", place], *chain[:-1]]
        wanted_last = [place for place in made.last if not any(place == p for p, _ in slots)]
        stacked = [
            inner["place", which] if kind == "stack" else inner["carried", which][-1] for kind, which in made.stacks
        ]
        body.outputs = [*following, *[inner["place", place] for place in wanted_last], *stacked]
        results: list[Value] = []
        for place, starting in slots:
            final = made.last.get(place)
            results.append(Value(*_type(starts[len(results)])) if final is None or final in results else final)
            results += [Value(*_type(v)) for v in starts[len(results) : len(results) + len(starting) - 1]]
        results += [*[made.last[place] for place in wanted_last], *made.stacks.values()]
        counts = {
            "count": made.count,
            "carried": len(starts),
            "invariant": len(fixed),
            "reads": tuple(reads),
            "last": len(wanted_last),
        }
        settings = {"body": body, **counts}
        where = self.instructions[made.start].where
        self.out.append(Instruction(loop, (*starts, *fixed, *sequences), settings, tuple(results), where))

    def _numbers(self, made: FoundLoop, j: int) -> tuple[Value, int, int]:
        """Return the numbers of all rounds as a constant."""
        array = self.numbers[made.start + j : made.end : made.period].astype(
            self.instructions[made.start + j].result.dtype
        )
        value = Value(array.shape, array.dtype)
        self.constants[value] = array
        return value, 0, 1

    def _sequence(self, reading: tuple[Any, ...]) -> tuple[Value, int, int]:
        """Return the array whose rows a loop reads, the first row, and the step."""
        if reading[0] != "index":
            kind, here, which, first, step = reading
            return here.stacks[kind, which], first, step
        _, number, position, dim, first, step = reading
        source = self._outside(number)
        index = list(stated(self.instructions[position].settings["index"], source.shape))
        index[dim] = (0, source.shape[dim], 1)
        if any(item != (0, n, 1) for item, n in zip(index, source.shape, strict=True)):
            source = self._emit("getitem", source, index=written(tuple(index)))
        front = sum(not isinstance(item, int) for item in index[:dim])
        if front:
            source = self._emit("permute", source, dims=(front, *[d for d in range(source.ndim) if d != front]))
        return source, first, step

    def _body(
        self, made: FoundLoop, starts: list[Value], fixed: list[Value], sequences: list[Value]
    ) -> tuple[Program, dict[tuple[str, Any], Any]]:
        """Return the program of one round, and its value for each operand."""
        carried = [Value(*_type(v)) for v in starts]
        invariants = [Value(*_type(v)) for v in fixed]
        rows = [Value(v.shape[1:], v.dtype) for v in sequences]
        inner: dict[tuple[str, Any], Any] = {}
        at = 0
        for place, first in made.carried:
            inner["carried", (place, first)] = carried[at : at + len(first)]
            at += len(first)
        inner.update(zip([("invariant", n) for n in made.invariants], invariants, strict=True))
        inner.update(zip([("row", r) for r in made.rows], rows, strict=True))
        body = Program([*carried, *invariants, *rows], [], name="body")
        for j in range(made.period):
            instruction = self.instructions[made.start + j]
            if j in made.running:
                inner["place", j * RESULTS] = inner["row", made.running[j]]
                continue
            arguments = []
            for q, a in enumerate(instruction.arguments):
                if a.__class__ is Value:
                    kind, which = made.roles[j, q]
                    a = inner["place", which] if kind == "local" else inner[kind, which]
                    a = a[-1] if kind == "carried" else a
                elif ("numbers", j) in made.rows:
                    a = inner["row", ("numbers", j)]
                arguments.append(a)
            results = tuple([Value(v.shape, v.dtype) for v in instruction.results])
            inner.update({("place", j * RESULTS + r): v for r, v in enumerate(results)})
            body.instructions.append(
                Instruction(instruction.op, tuple(arguments), instruction.settings, results, instruction.where)
            )
        return body, inner


def _type(value: Value) -> tuple[tuple[int, ...], np.dtype[Any]]:
    return value.shape, value.dtype
