"""Roll up loops that a trace has unrolled.

    a1 = mul(a0, w); b1 = sin(a1); a2 = mul(b1, w); b2 = sin(a2); ...   ->   loop(a0, w) of a body { sin(mul(a, w)) }, a thousand times

A repeated block of instructions (`periods`) is a loop if each of its operands follows a rule from round to round. The
operand of round t may be

    made in the same round, at the same place of the block    local to the body;
    made d rounds before, at the same place                   carried from round to round; the loop starts with the first d;
    the same value in every round                             invariant;
    row a + b t of an array                                   a row of an array that the loop reads. The array is an invariant that
                                                              `getitem` reads with a running index, or the result of an earlier loop:
                                                              a backward loop reads the results of the forward loop, last round first.
    a number, another in each round                           a row of a constant.

Rounds at either end that do not follow the rules stay unrolled. Values that the rest of the program reads are outputs
of the loop: the value of the last round, or the values of all rounds as an array with a row for each.

Exact: every instruction is run on the same values as before, in the same order. Nested loops are found by repeating the
search, because a loop is an instruction of the block around it.

Note [Chains in one pass]
A loop writes the values that it carries to memory, and a forward loop keeps one row per round for its gradient. Rounds of
elementwise ops on one large shape are better left unrolled. They become one kernel, which takes a few vectors through all
rounds, with the values between the rounds in registers or on the stack. Backward computes these values again in the same
pass, so nothing is kept. This holds while the kernel is short enough to compile quickly. For small arrays the loop is
better, because its values stay in the cache, and independent elements hide the latency of each op.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import Any

import numpy as np

from ndgrad._src.compiler.passes.loop_building import RESULTS, Building, FoundLoop, home_of
from ndgrad._src.compiler.passes.periods import periods, runs
from ndgrad._src.compiler.passes.schedule import move_views
from ndgrad._src.compiler.program.program import Instruction, Program, Value, frozen

#: Minimum numbers of rounds and of instructions in all rounds. Shorter loops cost more than they save, except those
#: whose values another loop reads.
LEAST_ROUNDS = 6
LEAST_INSTRUCTIONS = 32
#: Maximum number of instructions of a chain that runs in one pass, and minimum bytes of its values in all rounds.
_LONGEST_CHAIN = 300
_LARGE_CHAIN = 1 << 20
#: Maximum number of rounds over which a value is carried.
_FARTHEST = 3
#: Maximum number of operands of an instruction in a loop.
_OPERANDS = 8
_NONE = np.iinfo(np.int64).min


def find_loops(program: Program) -> Program:
    """Return the program with its repeated blocks as loops."""
    program = move_views(program)
    while True:
        found = _Roller(program).rolled()
        if found is None:
            return program
        program = found


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
                self.number[value] = i * RESULTS + r
        self.value = {number: value for value, number in self.number.items()}
        self.loops: list[FoundLoop] = []
        #: values that a loop would have to read as rows, but that no loop makes, in their order
        self.missed: list[int] = []
        #: rejected candidates -> a value that they lack, or None if they can never be loops
        self._failed: dict[tuple[int, int, int], int | None] = {}
        self._lacking: int | None = None

    # ----- finding ----------------------------------------------------------------------------------------------------

    def rolled(self) -> Program | None:
        if len(self.instructions) < LEAST_INSTRUCTIONS:
            return None
        self._look()
        self.taken = np.zeros(len(self.instructions), bool)
        found = periods(self.ids, LEAST_ROUNDS)
        candidates: list[tuple[int, int, int]] = []
        for times in range(1, 5):  # a round may be two or more blocks of the same kind
            candidates += [(p * times, s, c) for p in found for s, c in runs(self.ids, p * times, LEAST_ROUNDS)]
            # A backward loop needs the forward loop, which may have a longer period, or be a short one.
            while self._sweep(candidates):
                pass
        if not self.loops:
            return None
        return Building(self.program, self.loops, self.number, self.value, self.numbers).program_with_loops()

    def _sweep(self, candidates: list[tuple[int, int, int]]) -> bool:
        """Make a loop of the first candidate that is one. Return True if another sweep may make more.

        Each sweep starts again with the first candidates, because the values that they lacked may be available now.
        """
        missed = len(self.missed)
        for period, start, count in candidates:
            end = start + period * count
            if self._has_failed((period, start, count)) or self.taken[start:end].any():
                continue
            if count * period < LEAST_INSTRUCTIONS and not self._is_missed(start * RESULTS, end * RESULTS):
                continue
            self._lacking = None
            made = self._check_run(start, period, count)
            if made is None:
                self._failed[period, start, count] = self._lacking
            else:
                self.taken[made.start : made.end] = True
                self.loops.append(made)
                self.loops.sort(key=lambda found: found.start)
                return True
        return len(self.missed) > missed

    def _is_missed(self, begin: int, end: int) -> bool:
        """True if a loop lacks a value with one of these numbers."""
        at = bisect_left(self.missed, begin)
        return at < len(self.missed) and self.missed[at] < end

    def _has_failed(self, candidate: tuple[int, int, int]) -> bool:
        """True if a candidate was rejected, and the value that it lacks is in no loop found since."""
        if candidate not in self._failed:
            return False
        lacking = self._failed[candidate]
        return lacking is None or home_of(lacking, self.loops) is None

    def _look(self) -> None:
        """Number the kinds of instructions, and put operands and running indices into arrays."""
        n = len(self.instructions)
        known: dict[Any, int] = {}
        ids: list[int] = []
        self.operands = np.full((n, _OPERANDS), _NONE, np.int64)
        depth = max((len(i.settings["index"]) for i in self.instructions if i.op.name == "getitem"), default=1) or 1
        self.index = np.full((n, depth), _NONE, np.int64)
        self.numbers = np.full(n, np.nan)
        number = self.number
        rows: list[int] = []  # positions and numbers of operands
        columns: list[int] = []
        read: list[int] = []
        for i, instruction in enumerate(self.instructions):
            key = self._kind(i, instruction)
            ids.append(known.setdefault(key, len(known)))
            if len(instruction.arguments) <= _OPERANDS:
                for q, a in enumerate(instruction.arguments):
                    if a.__class__ is Value:
                        rows.append(i)
                        columns.append(q)
                        read.append(number[a])
        self.ids = np.array(ids, np.int64)
        self.operands[rows, columns] = read

    def _kind(self, i: int, instruction: Instruction) -> Any:
        """Return the properties that the instructions at one place of a block have in common."""
        op, settings = instruction.op, instruction.settings
        given = instruction.arguments
        if len(given) > _OPERANDS or len(instruction.results) > RESULTS:
            return i
        if not settings and len(given) == 2:  # the usual case
            x, y = given
            if x.__class__ is Value is y.__class__:
                return op, x.shape, x.dtype, y.shape, y.dtype
            plain = _plain_number(instruction)
            if plain is not None:
                self.numbers[i] = plain
                return (op, x.shape, x.dtype, None) if x.__class__ is Value else (op, None, y.shape, y.dtype)
        arguments = tuple([(a.shape, a.dtype) if a.__class__ is Value else (None, frozen(a)) for a in given])
        if op.name == "getitem":
            index = settings["index"]
            for d, item in enumerate(index):
                if item.__class__ is int:
                    self.index[i, d] = item
            return op, arguments, tuple([None if item.__class__ is int else frozen(item) for item in index])
        if not settings:
            return op, arguments
        try:
            return (
                op,
                arguments,
                tuple([(k, str(s) if isinstance(s, Program) else frozen(s)) for k, s in settings.items()]),
            )
        except Exception:
            return i

    # ----- checking ---------------------------------------------------------------------------------------------------

    def _check_run(self, start: int, period: int, count: int) -> FoundLoop | None:
        """Return the longest part of a run whose operands follow the rules."""
        if count < LEAST_ROUNDS or all(self.instructions[start + j].op.name == "getitem" for j in range(period)):
            return None
        middle = count // 2
        block = self.operands[start : start + period * count].reshape(count, period, _OPERANDS)
        step = block[middle + 1] - block[middle] if middle + 1 < count else block[middle] - block[middle - 1]
        base = (start + np.arange(count) * period)[:, None, None] * RESULTS
        relative = block - base
        known = block[middle] != _NONE
        size = period * RESULTS
        moving = (
            known
            & (step == size)
            & (relative[middle] >= -_FARTHEST * size)
            & (relative[middle] < size)
            & (block[middle] >= 0)
        )
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
        inside = invariants[invariants >= (start + low * period) * RESULTS]
        if len(inside):  # made in an earlier round, so the loop begins after it
            low = max(low, (int(inside.max()) // RESULTS - start) // period + 1)
        if self._is_chain(start + low * period, period, high - low):
            return None
        while high - low >= LEAST_ROUNDS:
            made = self._loop(start, period, low, high, block, local, distance, fixed, readings, running)
            if made is not None:
                return made
            low += 1
        return None

    def _is_chain(self, start: int, period: int, count: int) -> bool:
        """True if rounds are left to one kernel; see Note [Chains in one pass]."""
        if count * period > _LONGEST_CHAIN:
            return False
        block = self.instructions[start : start + period]
        largest = max((i.result for i in block if len(i.results) == 1), key=lambda v: v.nbytes, default=None)
        return (
            largest is not None
            and largest.nbytes * count >= _LARGE_CHAIN
            and all(
                len(i.results) == 1 and i.op.elementwise and i.result.shape in (largest.shape, ()) and not i.settings
                for i in block
            )
        )

    def _reading(self, numbers: Any, middle: int) -> tuple[str, Any, Any] | None:
        """Return the array, row and rounds in which a varying operand is a row of an earlier loop's result."""
        here = home_of(int(numbers[middle]), self.loops)
        if here is None:
            self._lacking = int(numbers[middle])
            if not self._is_missed(self._lacking, self._lacking + 1):
                insort(self.missed, self._lacking)
            return None
        size = here.period * RESULTS
        place = (int(numbers[middle]) - here.start * RESULTS) % size
        rows, rest = np.divmod(numbers - here.start * RESULTS - place, size)
        inside = (rest == 0) & (rows >= 0) & (rows < here.count)
        step = int(rows[middle + 1] - rows[middle]) if middle + 1 < len(rows) else int(rows[middle] - rows[middle - 1])
        expected = rows[middle] + step * (np.arange(len(rows)) - middle)
        follows = inside & (rows == expected)
        if place // RESULTS in here.running:
            _, number, position, dim, first, by = here.running[place // RESULTS]
            return "index", ((number, position, dim), None, first + by * expected, by * step), follows
        best: tuple[str, Any, Any] = ("stack", (here, place, expected, step), follows)
        for slot in here.carried:
            if slot[0] != place or len(slot[1]) != 1:
                continue
            # The value carried into round k is the result of round k - 1, and in the first round the initial value.
            before = expected + 1
            kept = ((inside & (rows == expected)) | ((numbers == slot[1][0]) & (before == 0))) & (before < here.count)
            if kept.sum() > best[2].sum():
                best = ("kept", (here, slot, before, step), kept)
        return best

    def _running(
        self, start: int, period: int, count: int, middle: int, fixed: Any
    ) -> dict[int, tuple[int, int, int, Any]] | None:
        """Return the `getitem`s of a block with a running index: place -> (dimension, index in the middle round, step,
        rounds in which it follows).
        """
        found: dict[int, tuple[int, int, int, Any]] = {}
        index = self.index[start : start + period * count].reshape(count, period, -1)
        changing = (index != index[middle]).any(0)
        for j in np.flatnonzero(changing.any(1)):
            dims = np.flatnonzero(changing[j])
            if len(dims) != 1 or not fixed[j, 0]:
                return None
            (d,) = dims
            numbers = index[:, j, d]
            step = (
                int(numbers[middle + 1] - numbers[middle])
                if middle + 1 < count
                else int(numbers[middle] - numbers[middle - 1])
            )
            follows = numbers == numbers[middle] + step * (np.arange(count) - middle)
            found[int(j)] = int(d), int(numbers[middle]) - step * middle, step, follows
        return found

    def _loop(
        self,
        start: int,
        period: int,
        low: int,
        high: int,
        block: Any,
        local: Any,
        distance: Any,
        fixed: Any,
        readings: Any,
        running: Any,
    ) -> FoundLoop | None:
        """Return the loop of rounds low ... high; None if its initial values do not fit."""
        made = FoundLoop(start + low * period, period, high - low)
        begin = made.start * RESULTS
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
                    if any(
                        n >= begin or self.value[n].shape != value.shape or self.value[n].dtype != value.dtype
                        for n in first
                    ):
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


def _plain_number(instruction: Instruction) -> float | None:
    """Return the number in an addition or product with a floating-point value, whose dtype it adopts; None if there is
    none.
    """
    if instruction.op.name not in ("add", "sub", "mul", "div"):
        return None
    x, y = instruction.arguments
    number, value = (x, y) if y.__class__ is Value else (y, x)
    if number.__class__ not in (int, float) or value.__class__ is not Value or value.dtype.char not in "fd":
        return None
    return (
        float(number) if value.dtype == instruction.result.dtype and number == number and abs(number) <= 2**53 else None
    )
