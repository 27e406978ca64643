"""Loops that a trace has unrolled, rolled up again.

    a1 = mul(a0, w); b1 = sin(a1); a2 = mul(b1, w); b2 = sin(a2); ...   ->   loop(a0, w) of a body { sin(mul(a, w)) }, a thousand times

A block of instructions that comes again and again (`periods`) is a loop if each operand of it follows a rule from
round to round. With the operand of round t being

    made in the same round, at the same place of the block    it is local to the body;
    made d rounds before, at the same place                   it is carried from round to round; the first d are what the loop starts with;
    the same value in every round                             invariant;
    row a + b t of something                                  a row of an array that the loop reads. The array is an invariant of which
                                                              `getitem` takes a running index, or what an earlier loop has made: a backward
                                                              loop reads what the forward loop has left, from the last round to the first.
    a number, another in each round                           a row of a constant.

Rounds at either end that do not follow the rules stay as they are. What the rest of the program reads of a round's
values comes out of the loop: the last round's as it is, those of all rounds as an array with a row for each.

Exact: every instruction is run on the same values as before, in the same order. Loops inside loops are found by doing
it again: a loop is an instruction of the block around it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ndgrad.compiler.ops import loop, op_named
from ndgrad.compiler.passes.basic_index import Place, written
from ndgrad.compiler.passes.cse import frozen
from ndgrad.compiler.passes.order import with_views_in_place
from ndgrad.compiler.passes.periods import periods, runs
from ndgrad.compiler.passes.views import stated
from ndgrad.compiler.program import Instruction, Program, Value
from ndgrad.compiler.trace import infer

#: A loop has at least so many rounds, and so many instructions in all of them: what is shorter costs more as a loop. But one whose values
#: another loop reads may be shorter.
LEAST_ROUNDS = 6
LEAST_INSTRUCTIONS = 32
#: Over how many rounds a value is carried at most.
_FARTHEST = 3
#: An instruction with more operands than this is no part of a loop.
_OPERANDS = 8
#: Values are numbered so: instruction * _RESULTS + result. Inputs and constants have negative numbers.
_RESULTS = 64
_NONE = np.iinfo(np.int64).min


def rolled(program: Program) -> Program:
    """The program with its repeated blocks as loops."""
    program = with_views_in_place(program)
    while True:
        found = _Roller(program).rolled()
        if found is None:
            return program
        program = found


@dataclass(eq=False, slots=True)
class _Loop:
    """A loop: instructions start ... start + period * count, and what is known of its operands."""

    start: int
    period: int
    count: int
    #: (place in the block, operand) -> its role: ("local", k), ("carried", slot), ("invariant", number), ("row", reading)
    roles: dict[tuple[int, int], tuple[str, Any]] = field(default_factory=dict)
    #: places of `getitem`s with a running index -> reading
    running: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    #: carried values: (place * _RESULTS + result, numbers of the values to start with, the farthest first) in the order of first use
    carried: dict[tuple[int, tuple[int, ...]], None] = field(default_factory=dict)
    invariants: dict[int, None] = field(default_factory=dict)
    #: rows that are read: ("stack", loop, place, first, step), ("kept", loop, slot, first, step), or of what a `getitem` reads:
    #: ("index", the number of that, the place of the `getitem` in the program, dimension, first, step), or of a constant:
    #: ("numbers", the place in the block)
    rows: dict[tuple[Any, ...], None] = field(default_factory=dict)
    #: what comes out: places whose last value is read, and places (or slots) of which every round's is
    last: dict[int, Value] = field(default_factory=dict)
    stacks: dict[tuple[str, Any], Value] = field(default_factory=dict)

    @property
    def end(self) -> int:
        return self.start + self.period * self.count

    def contains(self, number: int) -> bool:
        return self.start * _RESULTS <= number < self.end * _RESULTS


class _Roller:
    """One search through a program."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.instructions = program.instructions
        self.number: dict[Value, int] = {}
        for k, value in enumerate((*program.inputs, *program.constants)):
            self.number[value] = -1 - k
        for i, instruction in enumerate(self.instructions):
            for r, value in enumerate(instruction.results):
                self.number[value] = i * _RESULTS + r
        self.value = {number: value for value, number in self.number.items()}
        self.loops: list[_Loop] = []
        #: values that a loop would have to read as rows, and that no loop makes
        self.missed: set[int] = set()

    # ----- finding -------------------------------------------------------------------------------------------------------

    def rolled(self) -> Program | None:
        if len(self.instructions) < LEAST_INSTRUCTIONS:
            return None
        self._look()
        self.taken = np.zeros(len(self.instructions), bool)
        found = periods(self.ids, LEAST_ROUNDS)
        candidates: list[tuple[int, int, int]] = []
        for times in range(1, 5):  # a round may be two or more blocks that are alike in kind
            candidates += [(p * times, s, c) for p in found for s, c in runs(self.ids, p * times, LEAST_ROUNDS)]
            while self._sweep(candidates):  # a backward loop needs the forward loop, which may have a longer period, or be a short one
                pass
        return self._built() if self.loops else None

    def _sweep(self, candidates: list[tuple[int, int, int]]) -> bool:
        """Make a loop of the first candidate that is one; whether another sweep may make more. The first ones come first again each time:
        what they lacked may be there now."""
        missed = len(self.missed)
        for period, start, count in candidates:
            end = start + period * count
            if self.taken[start:end].any():
                continue
            if count * period < LEAST_INSTRUCTIONS and not any(start * _RESULTS <= n < end * _RESULTS for n in self.missed):
                continue
            made = self._checked(start, period, count)
            if made is not None:
                self.taken[made.start : made.end] = True
                self.loops.append(made)
                self.loops.sort(key=lambda found: found.start)
                return True
        return len(self.missed) > missed

    def _look(self) -> None:
        """Number the kinds of instructions, and put operands and running indices into arrays."""
        n = len(self.instructions)
        known: dict[Any, int] = {}
        self.ids = np.empty(n, np.int64)
        self.operands = np.full((n, _OPERANDS), _NONE, np.int64)
        depth = max((len(i.settings["index"]) for i in self.instructions if i.op.name == "getitem"), default=1) or 1
        self.index = np.full((n, depth), _NONE, np.int64)
        self.numbers = np.full(n, np.nan)
        number = self.number
        for i, instruction in enumerate(self.instructions):
            key = self._kind(i, instruction)
            self.ids[i] = known.setdefault(key, len(known))
            if len(instruction.arguments) <= _OPERANDS:
                for q, a in enumerate(instruction.arguments):
                    if a.__class__ is Value:
                        self.operands[i, q] = number[a]

    def _kind(self, i: int, instruction: Instruction) -> Any:
        """What the instructions at one place of a block have in common."""
        op, settings = instruction.op, instruction.settings
        if len(instruction.arguments) > _OPERANDS or len(instruction.results) > _RESULTS:
            return i
        plain = _plain_number(instruction)
        if plain is not None:
            self.numbers[i] = plain
        arguments = tuple(
            [
                (a.shape, a.dtype) if a.__class__ is Value else (None, None if plain is not None else frozen(a))
                for a in instruction.arguments
            ]
        )
        if op.name == "getitem":
            index = settings["index"]
            for d, item in enumerate(index):
                if item.__class__ is int:
                    self.index[i, d] = item
            return op, arguments, tuple([None if item.__class__ is int else frozen(item) for item in index])
        if not settings:
            return op, arguments
        try:
            return op, arguments, tuple([(k, str(s) if isinstance(s, Program) else frozen(s)) for k, s in settings.items()])
        except Exception:
            return i

    # ----- checking ------------------------------------------------------------------------------------------------------

    def _checked(self, start: int, period: int, count: int) -> _Loop | None:
        """The longest part of a run whose operands follow the rules."""
        if count < LEAST_ROUNDS or all(self.instructions[start + j].op.name == "getitem" for j in range(period)):
            return None
        middle = count // 2
        block = self.operands[start : start + period * count].reshape(count, period, _OPERANDS)
        step = block[middle + 1] - block[middle] if middle + 1 < count else block[middle] - block[middle - 1]
        base = (start + np.arange(count) * period)[:, None, None] * _RESULTS
        relative = block - base
        known = block[middle] != _NONE
        size = period * _RESULTS
        moving = known & (step == size) & (relative[middle] >= -_FARTHEST * size) & (relative[middle] < size) & (block[middle] >= 0)
        fixed = known & (step == 0)
        other = known & ~moving & ~fixed
        same = relative == relative[middle]
        local = moving & (relative[middle] >= 0)
        distance = np.where(moving & ~local, -(relative[middle] // size), 0)
        good = (same | ~local[None]).all((1, 2)) & ((block == block[middle]) | ~fixed[None]).all((1, 2))
        readings: dict[tuple[int, int], tuple[str, Any, Any]] = {}
        for j, q in zip(*np.nonzero(other), strict=True):
            reading = self._reading(block[:, j, q], middle)
            if reading is None:
                return None
            readings[int(j), int(q)] = reading
            good &= reading[2]
        running = self._running(start, period, count, middle, fixed)
        if running is None:
            return None
        for _, _, _, follows in running.values():
            good &= follows
        if not good[middle]:
            return None
        low = int(np.flatnonzero(~good[:middle])[-1]) + 1 if not good[:middle].all() else 0
        high = middle + int(np.flatnonzero(~good[middle:])[0]) if not good[middle:].all() else count
        for d in range(1, _FARTHEST + 1):
            bad = (~same & (distance == d)[None]).any((1, 2))
            if bad[middle:high].any():
                high = middle + int(np.flatnonzero(bad[middle:high])[0])
            if bad[:middle].any():
                low = max(low, int(np.flatnonzero(bad[:middle])[-1]) + 1 - d)
        invariants = block[middle][fixed]
        inside = invariants[invariants >= (start + low * period) * _RESULTS]
        if len(inside):  # made in a round before: the loop begins after it
            low = max(low, (int(inside.max()) // _RESULTS - start) // period + 1)
        while high - low >= LEAST_ROUNDS:
            made = self._loop(start, period, low, high, block, local, distance, fixed, readings, running)
            if made is not None:
                return made
            low += 1
        return None

    def _reading(self, numbers: Any, middle: int) -> tuple[str, Any, Any] | None:
        """How an operand that is another value in each round is a row of what an earlier loop has made: what, which, in which rounds."""
        here = next((made for made in self.loops if made.contains(int(numbers[middle]))), None)
        if here is None:
            self.missed.add(int(numbers[middle]))
            return None
        size = here.period * _RESULTS
        place = (int(numbers[middle]) - here.start * _RESULTS) % size
        rows, rest = np.divmod(numbers - here.start * _RESULTS - place, size)
        inside = (rest == 0) & (rows >= 0) & (rows < here.count)
        step = int(rows[middle + 1] - rows[middle]) if middle + 1 < len(rows) else int(rows[middle] - rows[middle - 1])
        expected = rows[middle] + step * (np.arange(len(rows)) - middle)
        follows = inside & (rows == expected)
        if place // _RESULTS in here.running:
            _, number, position, dim, first, by = here.running[place // _RESULTS]
            return "index", ((number, position, dim), None, first + by * expected, by * step), follows
        best: tuple[str, Any, Any] = ("stack", (here, place, expected, step), follows)
        for slot in here.carried:
            if slot[0] != place or len(slot[1]) != 1:
                continue
            # what is carried into round k is what round k - 1 has made, and in the first round the start
            before = expected + 1
            kept = ((inside & (rows == expected)) | ((numbers == slot[1][0]) & (before == 0))) & (before < here.count)
            if kept.sum() > best[2].sum():
                best = ("kept", (here, slot, before, step), kept)
        return best

    def _running(self, start: int, period: int, count: int, middle: int, fixed: Any) -> dict[int, tuple[int, int, int, Any]] | None:
        """The `getitem`s of a block whose index runs: place -> (dimension, index in the middle round, step, rounds in which it follows)."""
        found: dict[int, tuple[int, int, int, Any]] = {}
        index = self.index[start : start + period * count].reshape(count, period, -1)
        changing = (index != index[middle]).any(0)
        for j in np.flatnonzero(changing.any(1)):
            dims = np.flatnonzero(changing[j])
            if len(dims) != 1 or not fixed[j, 0]:
                return None
            (d,) = dims
            numbers = index[:, j, d]
            step = int(numbers[middle + 1] - numbers[middle]) if middle + 1 < count else int(numbers[middle] - numbers[middle - 1])
            follows = numbers == numbers[middle] + step * (np.arange(count) - middle)
            found[int(j)] = int(d), int(numbers[middle]) - step * middle, step, follows
        return found

    def _loop(
        self, start: int, period: int, low: int, high: int, block: Any, local: Any, distance: Any, fixed: Any, readings: Any, running: Any
    ) -> _Loop | None:
        """The loop of rounds low ... high; None if what it would start with does not fit."""
        made = _Loop(start + low * period, period, high - low)
        begin = made.start * _RESULTS
        for j in range(period):
            if j in running:
                d, first, step, _ = running[j]
                reading = ("index", int(block[low, j, 0]), made.start + j, d, first + step * low, step)
                made.running[j] = reading
                made.rows[reading] = None
                continue
            numbers = self.numbers[made.start + j : made.end : period]
            if (numbers[1:] != numbers[:-1]).any() and not np.isnan(numbers).all():
                made.rows["numbers", j] = None
            for q in range(_OPERANDS):
                number = int(block[low, j, q])
                if number == _NONE:
                    continue
                if local[j, q]:
                    made.roles[j, q] = "local", number - begin
                elif distance[j, q]:
                    d = int(distance[j, q])
                    first = tuple([int(n) for n in block[low : low + d, j, q]])
                    place = int(block[low + d, j, q]) - begin
                    value = self.value[begin + place]
                    if any(n >= begin or self.value[n].shape != value.shape or self.value[n].dtype != value.dtype for n in first):
                        return None
                    made.carried[place, first] = None
                    made.roles[j, q] = "carried", (place, first)
                elif fixed[j, q]:
                    made.invariants[number] = None
                    made.roles[j, q] = "invariant", number
                else:
                    kind, (here, which, rows, step), _ = readings[j, q]
                    reading = (kind, *(here if which is None else (here, which)), int(rows[low]), step)
                    made.rows[reading] = None
                    made.roles[j, q] = "row", reading
        return made

    # ----- building ------------------------------------------------------------------------------------------------------

    def _built(self) -> Program:
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
            arguments = tuple([self._outside(self.number[a]) if a.__class__ is Value else a for a in instruction.arguments])
            self.out.append(Instruction(instruction.op, arguments, instruction.settings, instruction.results, instruction.where))
            i += 1
        outputs = [self._outside(self.number[v]) for v in program.outputs]
        return Program(program.inputs, outputs, self.out, self.constants, program.name)

    def _home(self, number: int) -> _Loop | None:
        """The loop that makes a value."""
        return next((made for made in self.loops if made.contains(number)), None)

    def _demand(self) -> None:
        """Find out what must come out of each loop."""
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
        ) in self.loops:  # in one order, so that like loops are alike; where there are rows of all rounds, the last row is the last round's
            made.stacks = {key: made.stacks[key] for key in sorted(made.stacks, key=str)}
            made.last = {place: made.last[place] for place in sorted(made.last) if ("stack", place) not in made.stacks}

    def _want(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            here = self._home(number)
            if here is None:
                continue
            place, round_ = self._split(here, number)
            if place // _RESULTS in here.running:
                self._want([here.running[place // _RESULTS][1]])
            elif round_ == here.count - 1:
                value = self.value[number]
                here.last.setdefault(place, Value(value.shape, value.dtype))
            else:
                self._want_stack(here, "stack", place)

    def _split(self, here: _Loop, number: int) -> tuple[int, int]:
        """Place in the block and round of a value."""
        round_, place = divmod(number - here.start * _RESULTS, here.period * _RESULTS)
        return place, round_

    def _want_stack(self, here: _Loop, kind: str, which: Any) -> None:
        if (kind, which) not in here.stacks:
            place = which if kind == "stack" else which[0]
            value = self.value[here.start * _RESULTS + place]
            here.stacks[kind, which] = Value((here.count, *value.shape), value.dtype)

    def _outside(self, number: int) -> Value:
        """A value as the program around loops has it."""
        here = self._home(number)
        if here is None:
            return self.value[number]
        place, round_ = self._split(here, number)
        if place // _RESULTS in here.running:
            if number not in self.parts:
                source = self._outside(here.running[place // _RESULTS][1])
                self.parts[number] = self._emit("getitem", source, **self.instructions[number // _RESULTS].settings)
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

    def _emit_loop(self, made: _Loop) -> None:
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
        stacked = [inner["place", which] if kind == "stack" else inner["carried", which][-1] for kind, which in made.stacks]
        body.outputs = [*following, *[inner["place", place] for place in wanted_last], *stacked]
        results: list[Value] = []
        for place, starting in slots:
            final = made.last.get(place)
            results.append(Value(*_type(starts[len(results)])) if final is None or final in results else final)
            results += [Value(*_type(v)) for v in starts[len(results) : len(results) + len(starting) - 1]]
        results += [*[made.last[place] for place in wanted_last], *made.stacks.values()]
        counts = {"count": made.count, "carried": len(starts), "invariant": len(fixed), "reads": tuple(reads), "last": len(wanted_last)}
        settings = {"body": body, **counts}
        where = self.instructions[made.start].where
        self.out.append(Instruction(loop, (*starts, *fixed, *sequences), settings, tuple(results), where))

    def _numbers(self, made: _Loop, j: int) -> tuple[Value, int, int]:
        """The numbers of all rounds as a constant."""
        array = self.numbers[made.start + j : made.end : made.period].astype(self.instructions[made.start + j].result.dtype)
        value = Value(array.shape, array.dtype)
        self.constants[value] = array
        return value, 0, 1

    def _sequence(self, reading: tuple[Any, ...]) -> tuple[Value, int, int]:
        """The array of which a loop reads rows, the first of them, and the step."""
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
        self, made: _Loop, starts: list[Value], fixed: list[Value], sequences: list[Value]
    ) -> tuple[Program, dict[tuple[str, Any], Any]]:
        """The program of one round, and what stands in it for each operand."""
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
                inner["place", j * _RESULTS] = inner["row", made.running[j]]
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
            inner.update({("place", j * _RESULTS + r): v for r, v in enumerate(results)})
            body.instructions.append(Instruction(instruction.op, tuple(arguments), instruction.settings, results, instruction.where))
        return body, inner


def _type(value: Value) -> tuple[tuple[int, ...], np.dtype[Any]]:
    return value.shape, value.dtype


def _plain_number(instruction: Instruction) -> float | None:
    """The number in an addition or product with a floating-point value, whose dtype it takes on; None if there is none."""
    if instruction.op.name not in ("add", "sub", "mul", "div"):
        return None
    x, y = instruction.arguments
    number, value = (x, y) if y.__class__ is Value else (y, x)
    if number.__class__ not in (int, float) or value.__class__ is not Value or value.dtype.char not in "fd":
        return None
    return float(number) if value.dtype == instruction.result.dtype and number == number and abs(number) <= 2**53 else None
