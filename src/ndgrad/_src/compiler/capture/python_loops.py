"""Python loops of a traced function, rolled up while they are traced.

`loop_source` gives a loop's body as a function of one round. Here that function is traced once, with a `LoopNumber` as
the index, and becomes a `scan` (ndgrad._src.compiler.capture.control_flow), which has all derivatives. A *probe* runs the
body on tensors without values first and records its behaviour; it is repeated until the roles of all variables are known:

    variable that a round assigns       carried, if rounds read the value of the round before; the scan returns the last
    number that a round assigns         computed in Python for all rounds (`loop_numbers`)
    array changed in place              carried as a copy, and written back after the loop
    x[i + 1], x[k:k + 3]                rows of an array that the scan reads
    u[i] = v                            a result of all rounds, written to u after the loop
    u[i - 1] of such an array           the row that an earlier round has written, hence carried; before the first
                                        such round, a row of u as it was before the loop

Note [Rounds that differ]
A condition on the index may hold in some rounds only. The loop is then divided: rounds up to the first change are one
scan, the rest follows. If the condition repeats with a short period, that many rounds are one round of the scan. A round that changes the kind of a variable, from a number to a tensor for instance, runs by
itself, as written. Few rounds also run as written.

Note [A loop that is not proved regular]
Everything else ends the attempt: conditions on values, shapes that change, writes to other arrays, aliases of a written
array, an index that the rules above do not cover. The reason is noted for `explain`, and the function is traced again
with this loop traced round by round. The second trace starts from a restored environment, so a body that had effects
before it was refused has none in the end.
"""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NoReturn

import numpy as np

from ndgrad._src.compiler.capture.captured_tensors import find_tracer
from ndgrad._src.compiler.capture.control_flow import run_scan
from ndgrad._src.compiler.capture.graph_break import GraphBreak, current_tracer
from ndgrad._src.compiler.capture.loop_branches import LoopBranch, Side, kind_of, unknown_condition
from ndgrad._src.compiler.capture.loop_items import count_items
from ndgrad._src.compiler.capture.loop_numbers import LoopNumber, Sequences
from ndgrad._src.compiler.capture.loop_rounds import (
    LoopRefused,
    LoopRound,
    Restart,
    Roles,
    outermost_loop,
    running_rounds,
)
from ndgrad._src.compiler.capture.loop_rows import full_index, has_loop_number
from ndgrad._src.compiler.capture.loop_scans import LoopScan, bind_variables
from ndgrad._src.compiler.capture.loop_source import LoopLog, LoopNote
from ndgrad._src.compiler.capture.traced_arrays import TracedArray
from ndgrad._src.core.variable import Variable, np_dtype, wrap
from ndgrad._src.ops.vocabulary import tensor_ops
from ndgrad._src.tensor.tensor_class import Tensor

#: Least number of rounds. Shorter loops are traced round by round, and found by `passes/reroll`.
LEAST = 100
#: Most probes of one part of a loop, parts of a loop, and rows of a window.
_PROBES, _PARTS, _WINDOW = 24, 12, 64
#: Longest period of a condition on the index.
_LONGEST_PERIOD = 12


class Loop:
    """A loop that is being rolled up: rounds start ... stop of it."""

    def __init__(self, log: LoopLog, note: LoopNote, items: Any) -> None:
        self.log = log
        self.note_ = note
        self.items = items
        self.count = count_items(items)
        self.start, self.stop = 0, self.count
        #: Number of rounds that form one round of the scan, if a condition on the index repeats with that period.
        self.period = 1
        self.sequences = Sequences([])
        self._stacks: dict[int, Any] = {}
        self._frame: LoopRound | None = None
        self._plain: list[Any] | None = None
        #: True while the condition of a `while` loop is computed; and while a body is traced whose loop values of
        #: tensors end. Its numbers are then tensors of the program.
        self.asks = self.is_unbounded = False
        #: True if the first round has to run by itself, because it may leave a variable without a value.
        self.has_own_start = False
        #: True if a probe has ended early, also if the body has caught the exception.
        self.has_restarted = False

    # ----- calls of the body ------------------------------------------------------------------------------------------

    def get(self, base: Any, index: Any) -> Any:
        """Return base[index]."""
        loop = outermost_loop(index)
        if loop is None or not isinstance(base, Variable):
            if loop is not None and type(base) in (list, tuple) and isinstance(index, LoopNumber):
                return loop.item_of(base, index)
            return base[index]
        return loop.read_row(self, base, index)

    def set(self, value: Any, base: Any, index: Any) -> None:
        """Set base[index] = value."""
        loop = outermost_loop(index)
        if loop is None:
            if isinstance(base, Variable):
                self.own_in_place(base)
            elif self._frame is not None:
                self.refuse(f"it sets an item of a {type(base).__name__}")
            base[index] = value
            return
        if not isinstance(base, Variable):
            loop.refuse(f"it sets an item of a {type(base).__name__} at a place that differs from round to round")
        loop.write(self, value, base, index)

    def change(self, name: str, base: Any, index: Any, value: Any) -> None:
        """Apply an augmented assignment to base[index]."""
        apply = _AUGMENTED[name]
        if outermost_loop(index) is None:
            if isinstance(base, Variable):
                self.own_in_place(base)
            elif self._frame is not None:
                self.refuse(f"it sets an item of a {type(base).__name__}")
            base[index] = apply[1](base[index], value)
            return
        made = apply[0](self.get(base, index), value)
        if isinstance(made, Variable) and np_dtype(made) != np_dtype(base):
            self.refuse("an augmented assignment changes the dtype")
        self.set(made, base, index)

    def own(self, value: Any) -> Any:
        """Return a variable before an augmented assignment changes it in place."""
        if isinstance(value, Variable):
            self.own_in_place(value)
        elif self._frame is not None and type(value) in (list, dict, set, bytearray):
            self.refuse(f"it changes a {type(value).__name__} in place")
        return value

    def own_in_place(self, value: Any) -> None:
        """Carry an array of the loop that its body changes in place."""
        for frame in running_rounds:
            frame.loop.check_in_place(frame, value)

    def check_in_place(self, frame: LoopRound, value: Any) -> None:
        names = [n for n, v in frame.given.items() if v is value and n not in frame.roles.carried]
        if len(names) > 1:
            self.refuse(f"{' and '.join(names)} are the same array, which it changes")
        if names:
            frame.roles.carried[names[0]] = None
            frame.roles.in_place[names[0]] = None
            raise Restart(self)

    def append(self, items: Any, value: Any) -> None:
        """Append a value to a list."""
        frame = self._frame
        if frame is None or type(items) is not list:
            if frame is not None and hasattr(items, "append"):
                self.refuse(f"it appends to a {type(items).__name__}")
            items.append(value)
            return
        if any(items is made for made in frame.made_lists):
            items.append(value)
            return
        if not isinstance(value, (Variable, LoopNumber, int, float)):
            self.refuse(f"it appends a {type(value).__name__} to a list")
        frame.appended.append((items, value))

    # ----- conditions -------------------------------------------------------------------------------------------------

    def choose(self, test: Any, when_true: Side, when_false: Side, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the values of variables after an `if` of which both sides are functions of them."""
        frame, condition = self._frame, self.condition_of(test)
        if frame is None or condition is None:
            return (when_true if test else when_false)(*values)
        is_end = when_true.__name__.startswith("_nd_go")
        branch = LoopBranch(self, frame, condition, is_end)
        return branch.run(bind_variables(when_true), bind_variables(when_false), values)

    def select(self, test: Any, when_true: Callable[[], Any], when_false: Callable[[], Any]) -> Any:
        """Return the value of a conditional expression."""
        frame, condition = self._frame, self.condition_of(test)
        if frame is None or condition is None:
            return when_true() if test else when_false()
        first, second = bind_variables(when_true), bind_variables(when_false)
        (made,) = LoopBranch(self, frame, condition).run(lambda: (first(),), lambda: (second(),), ())
        return made

    def condition_of(self, test: Any) -> Any:
        """Return a condition that Python cannot decide as a tensor; None if Python decides."""
        if isinstance(test, LoopNumber) and self.is_unbounded and test.loop is self:
            return self.scalar(test)
        return unknown_condition(test) if self._frame is not None or self.asks else None

    def both(self, a: Any, other: Callable[[], Any]) -> Any:
        """Return `a and other()` as a condition."""
        first = self.condition_of(a)
        if first is None:
            return other() if a else a
        b = other()
        second = self.condition_of(b)
        if second is None:
            return first if b else False
        return tensor_ops.logical_and(first, second)

    def either(self, a: Any, other: Callable[[], Any]) -> Any:
        """Return `a or other()` as a condition."""
        first = self.condition_of(a)
        if first is None:
            return a if a else other()
        b = other()
        second = self.condition_of(b)
        if second is None:
            return True if b else first
        return tensor_ops.logical_or(first, second)

    def negate(self, a: Any) -> Any:
        """Return `not a` as a condition."""
        condition = self.condition_of(a)
        return not a if condition is None else tensor_ops.logical_not(condition)

    def compare(self, symbols: str, first: Callable[[], Any], *others: Callable[[], Any]) -> Any:
        """Return a chain of comparisons as a condition."""
        left, result = first(), True
        for symbol, part in zip(symbols.split("|"), others, strict=True):
            right = part()
            outcome = _COMPARISONS[symbol](left, right)
            result = self.both(result, partial(_identity, outcome))
            if self.condition_of(result) is None and not result:
                return result
            left = right
        return result

    def extreme(self, function: Any, *args: Any) -> Any:
        """Return Python's min or max of several arguments."""
        is_less = function is builtins.min
        if self._frame is None or not (is_less or function is builtins.max) or not any(isinstance(a, Variable) for a in args):
            return function(*args)
        found, *others = args
        for x in others:
            test = x < found if is_less else x > found
            condition = self.condition_of(test)
            if condition is None:
                found = x if test else found
                continue
            if not (isinstance(x, Variable) and isinstance(found, Variable)) or kind_of(x) != kind_of(found):
                self.refuse(f"the values of a tensor decide which kind of object {function.__name__} returns")
            found = tensor_ops.where(condition, x, found)
        return found

    # ----- numbers ----------------------------------------------------------------------------------------------------

    def refuse(self, reason: str) -> NoReturn:
        """End the attempt to roll up the loop."""
        if self.note_.where not in self.log.refused:
            self.log.refused[self.note_.where] = reason
        refused = LoopRefused(f"the loop at {self.note_.where} is not rolled up: {reason}", self.note_.where)
        raise refused

    def run_first_round_alone(self) -> None:
        """Let the first round run as written, if it has not."""
        if self.start == 0 and not self.has_own_start:
            self.has_own_start = True
            raise Restart(self)

    @property
    def rounds(self) -> int:
        """Number of rounds of the scan."""
        return (self.stop - self.start) // self.period

    def values(self, number: LoopNumber) -> list[Any]:
        """Return the values of a number in all rounds of the scan."""
        if self.is_unbounded:
            self.refuse("the values of tensors decide when the loop ends, and it reads or writes single rows of an array")
        if number.has_carry:
            frame = self._frame
            if frame is None:
                raise RuntimeError("a number of a loop is used after the loop [nd-bug]")
            if frame.roles.recurrences is None:  # a later probe knows how the numbers change
                first = frame.first_numbers
                return self.sequences.carried_values([number.source], ["()"] * len(first), first, 1)[0][0] * self.rounds
            return self.sequences.carried_values([number.source], *frame.roles.recurrences, self.rounds)[0][0]
        return self.sequences.index_values(number.source, self.rounds)

    def decide(self, number: LoopNumber) -> bool:
        """Return the truth value of a number. See Note [Rounds that differ]."""
        found = np.array(self.values(number), bool)
        changes = np.flatnonzero(found != found[0])
        if len(changes):
            first = int(changes[0])
            if first * self.period < LEAST and not number.has_carry:
                for p in range(2, _LONGEST_PERIOD // self.period + 1):
                    if len(found) > p and (found[p:] == found[:-p]).all():
                        self.period *= p
                        raise Restart(self)
            self.stop = self.start + first * self.period
        return bool(found[0])

    def key_of(self, number: LoopNumber) -> Any:
        """Return a key of a number that is the same for expressions with the same values."""
        return number.source if number.has_carry else self.sequences.index_key(number.source, self.rounds)

    def number_row(self, number: LoopNumber, like: Any) -> Any:
        """Return a number as a tensor of the dtype that a Python number adopts beside another tensor."""
        frame = self._frame
        if frame is None:
            raise RuntimeError("a number of a loop is used after the loop [nd-bug]")
        if self.is_unbounded:
            return self.scalar_like(number, like)
        dtype = np_dtype(like)
        if dtype.char not in "fd":
            self.refuse(f"a number that differs from round to round meets a tensor of {dtype}")
        return frame.number_row(number, like.tensor_type, dtype)

    def array_of(self, number: LoopNumber, tensor_type: type[Any]) -> Any:
        """Return a number as a 0-d Array, of the class `tensor_type`, for a function of NumPy; only floats, of which the dtype is known."""
        frame = self._frame
        if frame is None or not all(type(v) is float for v in self.values(number)):
            self.refuse("a function of NumPy takes an integer that differs from round to round")
        return frame.number_row(number, tensor_type, np.dtype(np.float64))

    def as_number(self, t: Any) -> Any:
        """Return a tensor of one element as a Python number that the trace does not know."""
        tracer, payload = current_tracer.get(), t._array
        if tracer is not find_tracer() or not isinstance(payload, TracedArray):
            self.refuse("a number depends on values of tensors, inside another loop, branch or batch")
        found = tracer.read_number(payload)
        if found is None:
            self.refuse("a number depends on values of tensors, and the function may ask for its type")
        return found

    def item_of(self, base: Sequence[Any], index: LoopNumber) -> Any:
        """Return an item of a list of numbers or of tensors."""
        if all(type(v) in (int, float, bool) for v in base):
            self.sequences.tables.append(base)
            return LoopNumber(self, f"table{len(self.sequences.tables) - 1}[{index.source}]", index.has_carry)
        self.refuse("it reads an item of a list at a place that differs from round to round")

    def scalar(self, number: LoopNumber) -> Any:
        """Return a number of an unbounded loop as a tensor without dimensions."""
        self.refuse("its numbers depend on values of tensors")

    def scalar_like(self, number: LoopNumber, like: Any) -> Any:
        """Return such a number as a tensor of the dtype that a Python number adopts beside another tensor."""
        self.refuse("its numbers depend on values of tensors")

    # ----- rows -------------------------------------------------------------------------------------------------------

    def read_row(self, inner: Loop, base: Any, index: Any) -> Any:
        """Return base[index] for an index with numbers of this loop. Numbers of `inner`, a loop inside, come after."""
        frame = self._frame
        if frame is None:
            raise RuntimeError("an index of a loop is used after the loop [nd-bug]")
        items = full_index(self, index, len(base.shape))
        for p, item in enumerate(items):
            if isinstance(item, slice) and has_loop_number(item):
                return self._read_window(inner, base, items, p)
        own = [p for p, item in enumerate(items) if isinstance(item, LoopNumber) and item.loop is self]
        if own != list(range(own[0], own[0] + len(own))):
            self.refuse("two indices of one array differ from round to round, with others between them")
        later = any(isinstance(item, LoopNumber) and item.loop is not self for item in items)
        if not later:
            return frame.find_row(base, items, own)
        whole = tuple([item if p in own else slice(None) for p, item in enumerate(items)])
        row = frame.find_row(base, whole, own)
        rest = tuple([item for p, item in enumerate(items) if p not in own])
        return inner.get(row, rest)

    def _read_window(self, inner: Loop, base: Any, items: tuple[Any, ...], position: int) -> Any:
        """Return a slice of constant length as rows next to one another."""
        item = items[position]
        if item.step not in (None, 1):
            self.refuse("a slice whose ends differ from round to round has a step")
        begin: Any = item.start
        end: Any = item.stop
        if begin is None or end is None:
            self.refuse("the length of a slice differs from round to round")
        low = self.values(begin) if isinstance(begin, LoopNumber) else [begin] * self.rounds
        high = self.values(end) if isinstance(end, LoopNumber) else [end] * self.rounds
        size = base.shape[position]
        lengths = {b - a for a, b in zip(low, high, strict=True)}
        if not low or len(lengths) != 1 or min(low) < 0 or max(high) > size or not isinstance(begin, LoopNumber):
            self.refuse("the length of a slice differs from round to round")
        (length,) = lengths
        if not 0 < length <= _WINDOW:
            self.refuse(f"a slice of {length} rows moves from round to round")
        first: Any = begin  # its operators are set after the class is made, so mypy does not know them
        rows = [
            self.get(base, tuple([first + k if p == position else item for p, item in enumerate(items)]))
            for k in range(length)
        ]
        dim = sum(not isinstance(item, (int, LoopNumber)) for item in items[:position])
        return tensor_ops.stack(*rows, dim=dim)

    def write(self, inner: Loop, value: Any, base: Any, index: Any) -> None:
        """Set base[index] = value for an index with numbers of this loop."""
        frame = self._frame
        if frame is None:
            raise RuntimeError("an index of a loop is used after the loop [nd-bug]")
        items = full_index(self, index, len(base.shape))
        own = [p for p, item in enumerate(items) if isinstance(item, LoopNumber) and item.loop is self]
        if len(own) != 1 or any(isinstance(item, slice) and has_loop_number(item) for item in items):
            self.refuse("it sets a slice, or elements with two indices, that differ from round to round")
        (position,) = own
        rest = tuple([item for p, item in enumerate(items) if p != position])
        is_row = all(isinstance(item, slice) and item == slice(None) for item in rest)
        if is_row:
            frame.write(base, position, items[position], value)
            return
        row = frame.open_row(base, position, items[position])
        inner.set(value, row, rest)

    # ----- running ----------------------------------------------------------------------------------------------------

    def run(self, body: Callable[..., Any], start: tuple[Any, ...]) -> tuple[Any, ...]:
        """Run all rounds from these values of the loop's variables. Return the last values."""
        self.log.running.append(self.note_.where)
        try:
            made = self._run(bind_variables(body), start)
        except GraphBreak:
            raise  # `LoopLog.blame` finds the loop that was running
        except Exception as error:  # a trace without this loop decides whether the function raises
            self.refuse(f"{type(error).__name__} while it was rolled up: {str(error)[:200]}")
        self.log.running.pop()
        return made

    def _run(self, body: Callable[..., Any], start: tuple[Any, ...]) -> tuple[Any, ...]:
        values = dict(zip(self.note_.names, start, strict=True))
        parts = 0
        stop = self.note_.stop
        while self.start < self.count and (stop is None or values[stop] is not True):
            self.stop, self.period = self.count, 1
            rounds = self.count - self.start
            if rounds >= LEAST:
                roles = self._find_roles(body, values)
                rounds = 1 if roles is None else self.stop - self.start  # see Note [Rounds that differ]
                if roles is not None and rounds >= LEAST:
                    self._scan(body, values, roles)
                    self.start += self.rounds * self.period
                    continue
            parts += 1
            if parts > _PARTS:
                self.refuse("a condition on the index changes many times, or variables change kind")
            for t in range(self.start, self.start + rounds):
                made = body(self._plain_item(t), *values.values())
                values = dict(zip(values, made, strict=True))
                if stop is not None and values[stop] is True:
                    break
            self.start += rounds
        self.log.rolled[self.note_.where] = self.count
        return tuple(values.values())

    def _plain_item(self, t: int) -> Any:
        """Return the item of a round, as the loop as written gets it."""
        if type(self.items) in (range, list, tuple):
            return self.items[t]
        if self._plain is None:
            self._plain = [*self.items] if self.count <= 1_000_000 else []
        return self._plain[t]

    def _find_roles(self, body: Callable[..., Any], values: dict[str, Any]) -> Roles | None:
        """Return the roles of all variables; None if the first round has to run by itself."""
        roles = self._first_roles(values)
        for _ in range(_PROBES):
            if self.period != roles.period:  # keys of rows depend on it
                roles = self._first_roles(values)
            frame = LoopRound(self, roles, values)
            before = roles.state()
            self.has_restarted = False
            try:
                made = frame.probe(body)
            except Restart as restart:
                if restart.loop is not self:
                    self.log.running.remove(self.note_.where)
                    raise
                if self.has_own_start and self.start == 0:
                    return None
                continue
            if self.has_restarted:
                continue
            stop = self.note_.stop
            if stop is not None and values[stop] is False:
                if made[stop] is True:  # the first round breaks
                    return None
                if isinstance(made[stop], Variable):  # the values of a tensor decide
                    if not frame.note_results({**made, stop: False}):
                        return None
                    values[stop] = wrap(Tensor, np.zeros((), bool))
                    roles = self._first_roles(values)
                    continue
            if not frame.note_results(made):
                return None
            if roles.state() == before:
                frame.check_aliases()
                return roles
        self.refuse("the roles of its variables are not found")

    def _first_roles(self, values: dict[str, Any]) -> Roles:
        """Return the roles that variables have before the first probe: rounds may change numbers."""
        roles = Roles(self.period)
        note = self.note_
        for name, value in values.items():
            if type(value) in (int, float, bool) and name != note.stop and name not in note.temporary and name in note.assigned:
                roles.numbers[name] = ""
        return roles

    def _scan(self, body: Callable[..., Any], values: dict[str, Any], roles: Roles) -> None:
        """Run rounds start ... stop, and update the values."""
        plan = LoopScan(self, roles, values)

        def step(carry: Sequence[Any], rows: Sequence[Any]) -> tuple[list[Any], list[Any]]:
            self.has_restarted = False
            try:
                return plan.step(body, carry, rows)
            finally:
                if self.has_restarted:
                    self.refuse("rounds differ")

        def note_change() -> None:
            self.refuse("it reads objects that the code after it changes")

        carry, stacks = run_scan(step, plan.carry, plan.rows, self.rounds, False, note_change)
        plan.finish(values, carry, stacks)


def _identity(value: Any) -> Any:
    return value


_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "Lt": operator.lt, "LtE": operator.le, "Gt": operator.gt, "GtE": operator.ge, "Eq": operator.eq, "NotEq": operator.ne,
}  # fmt: skip
_AUGMENTED: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]] = {
    "Add": (operator.add, operator.iadd), "Sub": (operator.sub, operator.isub), "Mult": (operator.mul, operator.imul),
    "Div": (operator.truediv, operator.itruediv), "FloorDiv": (operator.floordiv, operator.ifloordiv),
    "Mod": (operator.mod, operator.imod), "Pow": (operator.pow, operator.ipow), "MatMult": (operator.matmul, operator.imatmul),
    "BitAnd": (operator.and_, operator.iand), "BitOr": (operator.or_, operator.ior), "BitXor": (operator.xor, operator.ixor),
    "LShift": (operator.lshift, operator.ilshift), "RShift": (operator.rshift, operator.irshift),
}  # fmt: skip
