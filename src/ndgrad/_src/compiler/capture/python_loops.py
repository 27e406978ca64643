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
import math
import operator
import threading
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

import numpy as np

from ndgrad._src.compiler.capture.captured_tensors import find_tracer
from ndgrad._src.compiler.capture.control_flow import run_scan
from ndgrad._src.compiler.capture.graph_break import GraphBreak, current_tracer
from ndgrad._src.compiler.capture.loop_numbers import LoopNumber, Sequences
from ndgrad._src.compiler.capture.loop_source import (
    UNBOUND,
    LoopLog,
    LoopNote,
    RewrittenCode,
    may_have_loops,
    rewrite_code,
)
from ndgrad._src.compiler.capture.reachable_objects import ReachableObjects
from ndgrad._src.compiler.capture.replaced_code import code_of, original_code
from ndgrad._src.compiler.capture.subprograms import BodyTracer
from ndgrad._src.compiler.capture.traced_arrays import TracedArray
from ndgrad._src.control_flow.loops import is_traced
from ndgrad._src.core.captures import Watch
from ndgrad._src.core.op_observers import InPlaceForm, observing
from ndgrad._src.core.variable import Variable, np_dtype, wrap
from ndgrad._src.ops.vocabulary import tensor_ops

#: Least number of rounds. Shorter loops are traced round by round, and found by `passes/reroll`.
LEAST = 100
#: Most probes of one part of a loop, parts of a loop, rounds over which a row is carried, and rows of a window.
_PROBES, _PARTS, _FARTHEST, _WINDOW = 24, 12, 32, 64
#: Longest period of a condition on the index.
_LONGEST_PERIOD = 12
#: Most loops that a function may refuse before all others are traced round by round.
_REFUSALS = 6


def rewrite_loops(reached: ReachableObjects) -> list[RewrittenCode]:
    """Return the code of reached functions that have loops, with its form for traces. Source files are read, so this
    comes before a trace.
    """
    caches = [code_of(c.__wrapped__) for c in reached.caches if isinstance(c.__wrapped__, types.FunctionType)]
    found = []
    for number, code in [*reached.codes.items()]:
        if original_code(code) is not code:  # rewritten for an earlier trace
            continue
        if number in reached.opaque.refused or any(code is c for c in caches) or not may_have_loops(code):
            continue
        made = rewrite_code(code, Loops)
        if made is not None:
            found.append(made)
    return found


class Loops:
    """The functions that rewritten code calls. It belongs to the code of one function."""

    unbound = UNBOUND
    name_error = NameError
    slice = builtins.slice

    def __init__(self, notes: list[LoopNote]) -> None:
        self._notes = notes

    def note(self, items: Any, number: int) -> Any:
        """Return the items of a loop whose source cannot be a body. Its reason is kept if the loop is long."""
        note = self._notes[number]
        log = _find_log()
        if log is not None and note.reason is not None and _length(items) >= LEAST:
            log.refused.setdefault(note.where, note.reason)
        return items

    def roll(self, items: Any, number: int) -> Loop | None:
        """Return a plan for a loop; None if it runs as written."""
        log = _find_log()
        if log is None or _length(items) < LEAST:
            return None
        note = self._notes[number]
        if note.where in log.refused or not is_traced() or not any(made.loops is self for made in log.codes):
            return None  # the trace of another thread may have rewritten a function that this one leaves as it is
        off = log.is_off or ("too many other loops of the function are not rolled up" if len(log.refused) >= _REFUSALS else None)
        if off is not None:
            log.refused.setdefault(note.where, off)
            return None
        log.begun.append(note.where)
        return Loop(log, note, items)

    def items(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the items of zip, enumerate or reversed, with the arguments if a trace may need them."""
        if function in (zip, enumerate, reversed) and _find_log() is not None:
            return Items(function, args, kwargs)
        return function(*args, **kwargs)


class Items:
    """The items of a call of zip, enumerate or reversed."""

    def __init__(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.function = function
        self.args = args
        self.kwargs = kwargs
        # A call with wrong arguments raises now, as the original does.
        self._made = function(*[iter(a) if isinstance(a, Items) else a for a in args], **kwargs)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._made)

    def count(self) -> int:
        """Return the number of items; 0 if it is not known."""
        if self.function is enumerate:
            return _length(self.args[0]) if len(self.args) == 1 else 0
        if self.function is zip:
            lengths = {_length(a) for a in self.args}
            return 0 if len(lengths) > 1 and self.kwargs.get("strict") else min(lengths, default=0)
        return 0 if isinstance(self.args[0], Items) else _length(self.args[0])


def _find_log() -> LoopLog | None:
    """Return the log of the current trace; None without a trace."""
    tracer = current_tracer.get()
    return None if tracer is None else getattr(tracer, "loops", None)


def _length(items: Any) -> int:
    """Return the number of items if their kind is known, else 0."""
    if isinstance(items, Items):
        return items.count()
    if type(items) in (range, list, tuple):
        return len(items)
    if isinstance(items, np.ndarray) or (isinstance(items, Variable) and items.__class__ is items.tensor_type):
        return items.shape[0] if len(items.shape) else 0
    return 0


class _Restart(BaseException):
    """Ends a probe, because it has found the role of a variable. No body can catch it by `except Exception`."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        loop.has_restarted = True


class LoopRefused(GraphBreak):
    """A loop is not regular. Another trace runs it round by round, so users never see this."""

    is_cured = True


class _ProbeTracer(BodyTracer):
    """The tracer of a probe. It notes the arrays from outside that a body reads."""

    def __init__(self, around: Any) -> None:
        super().__init__(around)
        self.touched: list[Any] = []

    def __call__(self, op: Any, tensors: Sequence[Any], arrays: Sequence[Any], settings: Any, run: Any) -> Any:
        self._note(arrays)
        if isinstance(op, InPlaceForm) and isinstance(arrays[0], np.ndarray):
            raise GraphBreak("the body of a loop writes an array from outside")
        return super().__call__(op, tensors, arrays, settings, run)

    def traced(self, op: Any, arrays: Sequence[Any], settings: Any) -> Any:
        self._note(arrays)
        return super().traced(op, arrays, settings)

    def _note(self, arrays: Sequence[Any]) -> None:
        for a in arrays:
            if isinstance(a, np.ndarray) or (isinstance(a, TracedArray) and a.memory.tracer is not self):
                self.touched.append(a)


def _payload(t: Any) -> Any:
    """Return the innermost payload of a tensor."""
    while isinstance(t, Variable):
        t = t._array
    return t


def _shares(a: Any, b: Any) -> bool:
    """True if two payloads may share memory."""
    if isinstance(a, TracedArray) and isinstance(b, TracedArray):
        return a.memory is b.memory
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return bool(np.may_share_memory(a, b))
    return not isinstance(a, (TracedArray, np.ndarray)) or not isinstance(b, (TracedArray, np.ndarray))


class _Read:
    """Rows of an array that rounds read, one in each."""

    def __init__(self, array: Any, index: tuple[Any, ...], position: int, numbers: list[LoopNumber]) -> None:
        self.array = array
        #: Index with None at the positions of loop numbers, and the first such position.
        self.index = index
        self.position = position
        self.numbers = numbers
        #: Rows of all rounds, and the shape of one.
        self.rows: Any = None
        self.shape: tuple[int, ...] = ()
        #: Write whose values it reads, and the number of rounds between them.
        self.write: _Write | None = None
        self.distance = 0
        self.first: list[Any] = []


class _Write:
    """Rows of an array that rounds write, one in each."""

    def __init__(self, array: Any, position: int, number: LoopNumber) -> None:
        self.array = array
        self.position = position
        self.number = number
        #: Rows that rounds write, as positions in the array.
        self.places: Any = None
        #: True if rounds change a row in parts. The row is then a copy that the body owns.
        self.is_opened = False


class Loop:
    """A loop that is being rolled up: rounds start ... stop of it."""

    def __init__(self, log: LoopLog, note: LoopNote, items: Any) -> None:
        self.log = log
        self.note_ = note
        self.items = items
        self.count = _length(items)
        self.start, self.stop = 0, self.count
        #: Number of rounds that form one round of the scan, if a condition on the index repeats with that period.
        self.period = 1
        self.sequences = Sequences([])
        self._stacks: dict[int, Any] = {}
        self._frame: _Frame | None = None
        self._plain: list[Any] | None = None
        #: True if a probe has ended early, also if the body has caught the exception.
        self.has_restarted = False

    # ----- calls of the body ------------------------------------------------------------------------------------------

    def get(self, base: Any, index: Any) -> Any:
        """Return base[index]."""
        loop = _outermost(index)
        if loop is None or not isinstance(base, Variable):
            if loop is not None and type(base) in (list, tuple) and isinstance(index, LoopNumber):
                return loop.item_of(base, index)
            return base[index]
        return loop.read_row(self, base, index)

    def set(self, value: Any, base: Any, index: Any) -> None:
        """Set base[index] = value."""
        loop = _outermost(index)
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
        if _outermost(index) is None:
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
        for frame in _frames:
            frame.loop.check_in_place(frame, value)

    def check_in_place(self, frame: _Frame, value: Any) -> None:
        names = [n for n, v in frame.given.items() if v is value and n not in frame.roles.carried]
        if len(names) > 1:
            self.refuse(f"{' and '.join(names)} are the same array, which it changes")
        if names:
            frame.roles.carried[names[0]] = None
            frame.roles.in_place[names[0]] = None
            raise _Restart(self)

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

    # ----- numbers ----------------------------------------------------------------------------------------------------

    def refuse(self, reason: str) -> NoReturn:
        """End the attempt to roll up the loop."""
        if self.note_.where not in self.log.refused:
            self.log.refused[self.note_.where] = reason
        refused = LoopRefused(f"the loop at {self.note_.where} is not rolled up: {reason}", self.note_.where)
        raise refused

    @property
    def rounds(self) -> int:
        """Number of rounds of the scan."""
        return (self.stop - self.start) // self.period

    def values(self, number: LoopNumber) -> list[Any]:
        """Return the values of a number in all rounds of the scan."""
        if number.has_carry:
            self.refuse("an index or a condition depends on a number that rounds change")
        return self.sequences.index_values(number.source, self.rounds)

    def decide(self, number: LoopNumber) -> bool:
        """Return the truth value of a number. See Note [Rounds that differ]."""
        found = np.array(self.values(number), bool)
        changes = np.flatnonzero(found != found[0])
        if len(changes):
            first = int(changes[0])
            if first * self.period < LEAST:
                for p in range(2, _LONGEST_PERIOD // self.period + 1):
                    if len(found) > p and (found[p:] == found[:-p]).all():
                        self.period *= p
                        raise _Restart(self)
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

    def item_of(self, base: Sequence[Any], index: LoopNumber) -> Any:
        """Return an item of a list of numbers or of tensors."""
        if all(type(v) in (int, float, bool) for v in base):
            self.sequences.tables.append(base)
            return LoopNumber(self, f"table{len(self.sequences.tables) - 1}[{index.source}]", index.has_carry)
        self.refuse("it reads an item of a list at a place that differs from round to round")

    # ----- rows -------------------------------------------------------------------------------------------------------

    def read_row(self, inner: Loop, base: Any, index: Any) -> Any:
        """Return base[index] for an index with numbers of this loop. Numbers of `inner`, a loop inside, come after."""
        frame = self._frame
        if frame is None:
            raise RuntimeError("an index of a loop is used after the loop [nd-bug]")
        items = _full_index(self, index, len(base.shape))
        for p, item in enumerate(items):
            if isinstance(item, slice) and _has_number(item):
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
        items = _full_index(self, index, len(base.shape))
        own = [p for p, item in enumerate(items) if isinstance(item, LoopNumber) and item.loop is self]
        if len(own) != 1 or any(isinstance(item, slice) and _has_number(item) for item in items):
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
            made = self._run(_bind_variables(body), start)
        except GraphBreak:
            raise  # `LoopLog.blame` finds the loop that was running
        except Exception as error:  # a trace without this loop decides whether the function raises
            self.refuse(f"{type(error).__name__} while it was rolled up: {str(error)[:200]}")
        self.log.running.pop()
        return made

    def _run(self, body: Callable[..., Any], start: tuple[Any, ...]) -> tuple[Any, ...]:
        values = dict(zip(self.note_.names, start, strict=True))
        parts = 0
        while self.start < self.count:
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

    def _find_roles(self, body: Callable[..., Any], values: dict[str, Any]) -> _Roles | None:
        """Return the roles of all variables; None if the first round has to run by itself."""
        roles = _Roles(1)
        for _ in range(_PROBES):
            if self.period != roles.period:  # keys of rows depend on it
                roles = _Roles(self.period)
            frame = _Frame(self, roles, values)
            before = roles.state()
            self.has_restarted = False
            try:
                made = frame.probe(body)
            except _Restart as restart:
                if restart.loop is not self:
                    self.log.running.remove(self.note_.where)
                    raise
                continue
            if self.has_restarted:
                continue
            if not frame.note_results(made):
                return None
            if roles.state() == before:
                frame.check_aliases()
                return roles
        self.refuse("the roles of its variables are not found")

    def _scan(self, body: Callable[..., Any], values: dict[str, Any], roles: _Roles) -> None:
        """Run rounds start ... stop, and update the values."""
        plan = _ScanPlan(self, roles, values)

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


class _Frames:
    """Frames of the rounds that run now, the outermost first. Traces of other threads have frames of their own."""

    def __init__(self) -> None:
        self._local = threading.local()

    def _list(self) -> list[_Frame]:
        found: list[_Frame] | None = getattr(self._local, "frames", None)
        if found is None:
            found = self._local.frames = []
        return found

    def __iter__(self) -> Iterator[_Frame]:
        return iter([*self._list()])

    def push(self, frame: _Frame) -> None:
        self._list().append(frame)

    def pop(self) -> None:
        self._list().pop()


_frames = _Frames()


class _Roles:
    """Roles of the variables and arrays of a loop, which probes find."""

    def __init__(self, period: int) -> None:
        self.period = period
        #: Variables that rounds pass on, and those of them that are changed in place.
        self.carried: dict[str, None] = {}
        self.in_place: dict[str, None] = {}
        #: Variables that are numbers, passed on; and the variables that only the code after the loop reads.
        self.numbers: dict[str, str] = {}
        self.last: dict[str, tuple[Any, tuple[int, ...], Any]] = {}
        #: Expressions of the carried numbers of the next round, and initial values.
        self.recurrences: tuple[list[str], list[Any]] | None = None
        self.reads: dict[Any, _Read] = {}
        self.writes: dict[Any, _Write] = {}
        self.number_rows: dict[tuple[str, Any, str], LoopNumber] = {}
        self.lists: list[list[Any]] = []
        #: Permutation of the objects of in-place variables after one round.
        self.moves: dict[str, str] = {}
        self.final: dict[str, Any] = {}

    def state(self) -> Any:
        """Return everything that another probe may change."""
        return (
            [*self.carried], [*self.in_place], dict(self.numbers), [*self.last], self.recurrences, [*self.reads],
            [(k, w.is_opened) for k, w in self.writes.items()], [*self.number_rows], [*map(id, self.lists)],
            dict(self.moves),
        )  # fmt: skip


class _Frame:
    """One run of a loop's body."""

    def __init__(self, loop: Loop, roles: _Roles, values: dict[str, Any]) -> None:
        self.loop = loop
        self.roles = roles
        self.values = values
        #: Values that the body got.
        self.given: dict[str, Any] = {}
        self.tracer: Any = None
        #: Rows by key, written rows by key, appended values in order.
        self.rows: dict[Any, Any] = {}
        self.written: dict[Any, Any] = {}
        self.appended: list[tuple[Any, Any]] = []
        self.made_lists: list[Any] = []
        self.numbers: dict[Any, Any] = {}

    # ----- running ----------------------------------------------------------------------------------------------------

    def run(self, body: Callable[..., Any]) -> dict[str, Any]:
        """Run a round, and return the variables after it."""
        loop = self.loop
        outer, loop._frame = loop._frame, self
        _frames.push(self)
        made = tuple(self.given.values())
        try:
            for k in range(loop.period):
                t = LoopNumber(loop, f"(t * {loop.period} + {loop.start + k})", False)
                made = body(self.item(loop.items, t), *made)
        finally:
            _frames.pop()
            loop._frame = outer
        return dict(zip(self.given, made, strict=True))

    def item(self, items: Any, t: Any) -> Any:
        """Return the item of round `t`."""
        loop = self.loop
        if type(items) is range:
            return t * items.step + items.start
        if isinstance(items, Items):
            if items.function is enumerate:
                start = items.kwargs.get("start", 0)
                if type(start) is not int:
                    loop.refuse("enumerate starts with another number")
                return t + start, self.item(items.args[0], t)
            if items.function is zip:
                return tuple([self.item(a, t) for a in items.args])
            return self.item(items.args[0], _length(items.args[0]) - 1 - t)
        if isinstance(items, Variable):
            return loop.read_row(loop, items, t)
        if isinstance(items, (list, tuple)):
            if all(type(v) in (int, float) for v in items):
                return loop.item_of(items, t)
            if all(isinstance(v, Variable) for v in items):
                kinds = {(tuple(v.shape), np_dtype(v), v.tensor_type) for v in items}
                if len(kinds) == 1 and id(items) in loop._stacks:
                    return loop.read_row(loop, loop._stacks[id(items)], t)
        loop.refuse("its items are neither rows of an array nor numbers")

    def probe(self, body: Callable[..., Any]) -> dict[str, Any]:
        """Run a round on tensors without values."""
        roles, loop = self.roles, self.loop
        self.tracer = tracer = _ProbeTracer(find_tracer())
        count = -1
        with observing(tracer):
            watch = Watch(tracer.make_input)
            for name, value in self.values.items():
                if name in roles.carried and isinstance(value, Variable):
                    value = tracer.make_input(value)
                    if name in roles.in_place:
                        value = tensor_ops.clone(value)
                elif name in roles.numbers:
                    count += 1
                    value = LoopNumber(loop, f"c{count}", True)
                elif name in roles.last:
                    value = UNBOUND
                self.given[name] = value
            with watch.run(own=[v for v in self.given.values() if isinstance(v, Variable)]):
                try:
                    made = self.run(body)
                except (_Restart, GraphBreak):
                    raise
                except Exception as error:
                    loop.refuse(f"{type(error).__name__} in a round that stands for all: {str(error)[:200]}")
                for _, value in self.appended:
                    self.as_tensor(value, None)
            watch.settle()
            self._check_written()
        return made

    def _check_written(self) -> None:
        """Carry variables in place that the body has written; refuse writes to rows that it reads."""
        for row in self.rows.values():
            payload = _payload(row)
            if isinstance(payload, TracedArray) and payload.memory.written and not any(row is w for w in self.written.values()):
                self.loop.refuse("it writes to a row, which is a view of an array")
        for name, value in self.given.items():
            payload = _payload(value)
            if name not in self.roles.carried or not isinstance(payload, TracedArray):
                continue
            if payload.memory.written:
                self.roles.in_place[name] = None
            else:  # an augmented assignment may give a new array
                self.roles.in_place.pop(name, None)

    # ----- results of a probe -----------------------------------------------------------------------------------------

    def note_results(self, made: dict[str, Any]) -> bool:
        """Note the roles of variables by their values after a round; False if a variable changes its kind."""
        roles, loop = self.roles, self.loop
        following: dict[str, str] = {}
        objects = {id(v): n for n, v in self.given.items() if isinstance(v, Variable)}
        roles.moves = {}
        roles.final = {}
        for name, value in made.items():
            given, before = self.given[name], self.values[name]
            if value is given:
                if name in roles.in_place:
                    roles.moves[name] = name
                if name in roles.numbers:
                    following[name] = given.source
                continue
            if isinstance(value, Variable):
                if before is UNBOUND or (name in roles.last):
                    if name in loop.note_.live:
                        roles.last[name] = (value.tensor_type, tuple(value.shape), np_dtype(value))
                    continue
                if not isinstance(before, Variable):
                    if name in loop.note_.live or type(before) in (int, float, bool):
                        return False
                    continue
                if (tuple(before.shape), np_dtype(before), before.tensor_type) != (
                    tuple(value.shape), np_dtype(value), value.tensor_type,
                ):  # fmt: skip
                    return False
                roles.carried[name] = None
                if id(value) in objects:
                    roles.moves[name] = objects[id(value)]
            elif isinstance(value, LoopNumber) and value.loop is loop:
                if before is UNBOUND or name in roles.last:
                    roles.final[name] = value
                elif type(before) in (int, float, bool):
                    roles.numbers.setdefault(name, "")
                    following[name] = value.source
                else:
                    return False
            elif type(value) in (int, float, bool) and type(before) in (int, float, bool) and math.isfinite(value):
                roles.numbers.setdefault(name, "")
                following[name] = f"({value!r})"
            elif type(value) in (int, float, bool, str, type(None)) or value is UNBOUND:
                if before is not UNBOUND and (type(value) is not type(before) or value != before):
                    return False
                roles.final[name] = value
            elif before is UNBOUND:
                if name in loop.note_.live:
                    loop.refuse(f"{name} is a {type(value).__name__}, which the code after the loop reads")
            else:
                loop.refuse(f"{name} becomes another {type(value).__name__} in each round")
        if any(n not in following for n in roles.numbers):
            roles.numbers = dict.fromkeys(following, "")
        roles.recurrences = (
            [following[n] for n in roles.numbers], [self.values[n] for n in roles.numbers]
        ) if roles.numbers else None  # fmt: skip
        roles.lists = [items for items, _ in self.appended]
        self._check_moves(made)
        return True

    def _check_moves(self, made: dict[str, Any]) -> None:
        """Check that arrays changed in place stay bound to variables, each to one."""
        roles = self.roles
        if not roles.in_place:
            roles.moves = {}
            return
        cycle = set(roles.in_place)
        while True:
            more = {roles.moves[n] for n in cycle if n in roles.moves} | {n for n, m in roles.moves.items() if m in cycle}
            if more <= cycle:
                break
            cycle |= more
        moves = {n: roles.moves[n] for n in cycle if n in roles.moves}
        if moves.keys() != cycle or {*moves.values()} != cycle:
            self.loop.refuse("it changes an array in place and assigns another one to its variable")
        roles.moves = moves
        for n in cycle:
            roles.carried[n] = None
        payloads = [_payload(self.values[n]) for n in cycle]
        if any(_shares(a, b) for i, a in enumerate(payloads) for b in payloads[:i]):
            self.loop.refuse("two variables share memory that it changes")

    def check_aliases(self) -> None:
        """Refuse a body that reads memory which it writes under another name."""
        roles = self.roles
        written = [_payload(self.values[n]) for n in roles.moves] + [_payload(w.array) for w in roles.writes.values()]
        if not written:
            return
        others = [*self.tracer.touched]
        others += [_payload(v) for n, v in self.values.items() if n in roles.carried and n not in roles.moves and isinstance(v, Variable)]
        arrays = {id(w.array): w.array for w in roles.writes.values()}
        others += [_payload(r.array) for r in roles.reads.values() if id(r.array) not in arrays]
        payloads = [*[_payload(self.values[n]) for n in roles.moves], *[_payload(a) for a in arrays.values()]]
        if any(_shares(a, b) for i, a in enumerate(payloads) for b in payloads[:i]):
            self.loop.refuse("two arrays that it writes share memory")
        for a in written:
            if any(_shares(a, b) for b in others):
                self.loop.refuse("it reads an array that it writes, at places other than single rows")

    # ----- rows -------------------------------------------------------------------------------------------------------

    def as_tensor(self, value: Any, like: Any) -> Any:
        """Return a value of a round as a tensor."""
        if isinstance(value, Variable):
            return value
        if isinstance(value, LoopNumber):
            if like is None:
                self.loop.refuse("it appends a number to a list")
            return self.loop.number_row(value, like)
        if like is None:
            self.loop.refuse("it appends a number to a list")
        return wrap(like.tensor_type, np.asarray(value, np_dtype(like)))

    def _key(self, base: Any, items: Sequence[Any]) -> Any:
        found: list[Any] = [id(base)]
        for item in items:
            if isinstance(item, LoopNumber):
                found.append(("number", self.loop.key_of(item)))
            elif isinstance(item, slice):
                found.append(("slice", item.start, item.stop, item.step))
            else:
                found.append(item)
        return tuple(found)

    def find_row(self, base: Any, items: tuple[Any, ...], own: list[int]) -> Any:
        """Return the row of a round."""
        key = self._key(base, items)
        opened = self._written_at(base, items, own)
        if opened is not None:
            return opened
        if key in self.rows:
            return self.rows[key]
        if self.tracer is None:
            self.loop.refuse("rounds differ")
        read = self.roles.reads.get(key)
        if read is None:
            index = tuple([None if p in own else item for p, item in enumerate(items)])
            read = _Read(base, index, own[0], [items[p] for p in own])
            read.shape = _row_shape(base, index)
            self.roles.reads[key] = read
        row = self.rows[key] = self.tracer.make_input(base, read.shape)
        return row

    def _written_at(self, base: Any, items: tuple[Any, ...], own: list[int]) -> Any:
        """Return the row that this round has written at an index, or a row that it changes in parts."""
        if len(own) != 1:
            if any(w.array is base for w in self.roles.writes.values()):
                self.loop.refuse("it reads an array that it writes with two indices that differ from round to round")
            return None
        position = own[0]
        key = (id(base), position, self.loop.key_of(items[position]))
        write = self.roles.writes.get(key)
        if write is not None and write.is_opened and key not in self.written:
            self.open_row(base, position, items[position])
        row = self.written.get(key)
        if row is None:
            return None
        rest = tuple([item for p, item in enumerate(items) if p != position])
        return row if all(item == slice(None) for item in rest) else row[rest]

    def write(self, base: Any, position: int, number: LoopNumber, value: Any) -> None:
        """Write a row."""
        key = self._note_write(base, position, number)
        shape = tuple(n for p, n in enumerate(base.shape) if p != position)
        if self.roles.writes[key].is_opened:
            row = self.open_row(base, position, number)
            row[...] = self.as_tensor(value, base)
            return
        made = self.as_tensor(value, base)
        if tuple(made.shape) != shape or np_dtype(made) != np_dtype(base) or made.tensor_type is not base.tensor_type:
            row = tensor_ops.clone(tensor_ops.expand(wrap(base.tensor_type, np.zeros((), np_dtype(base))), shape=shape))
            row[...] = made
            made = row
        else:
            made = tensor_ops.clone(made)  # the body may change the value later
        self.written[key] = made

    def open_row(self, base: Any, position: int, number: LoopNumber) -> Any:
        """Return a row that the body changes in parts."""
        key = self._note_write(base, position, number)
        write = self.roles.writes[key]
        if key in self.written:
            if not write.is_opened:
                write.is_opened = True
                raise _Restart(self.loop)
            return self.written[key]
        if not write.is_opened:
            write.is_opened = True
            raise _Restart(self.loop)
        items = tuple([number if p == position else slice(None) for p in range(len(base.shape))])
        source = self._key(base, items)
        if source not in self.rows:
            if self.tracer is None:
                self.loop.refuse("rounds differ")
            if source not in self.roles.reads:
                read = _Read(base, tuple([None if p == position else slice(None) for p in range(len(base.shape))]), position, [number])
                read.shape = _row_shape(base, read.index)
                self.roles.reads[source] = read
            self.rows[source] = self.tracer.make_input(base, self.roles.reads[source].shape)
        row = self.written[key] = tensor_ops.clone(self.rows[source])
        return row

    def _note_write(self, base: Any, position: int, number: LoopNumber) -> Any:
        for frame in _frames:  # an inner loop writes an array of an outer round through the outer loop
            if frame is not self and any(v is base for v in frame.given.values()) and frame.loop is not self.loop:
                outer = [n for n, v in frame.given.items() if v is base and n not in frame.roles.carried]
                if outer:
                    frame.loop.check_in_place(frame, base)
        key = (id(base), position, self.loop.key_of(number))
        if key not in self.roles.writes:
            if self.tracer is None:
                self.loop.refuse("rounds differ")
            self.roles.writes[key] = _Write(base, position, number)
        return key

    def number_row(self, number: LoopNumber, tensor_type: Any, dtype: Any) -> Any:
        """Return the number of a round as a tensor without dimensions."""
        key = (number.source, tensor_type, dtype.char)
        if key not in self.numbers:
            if self.tracer is None:
                self.loop.refuse("rounds differ")
            self.roles.number_rows.setdefault(key, number)
            self.numbers[key] = self.tracer.make_input(wrap(tensor_type, np.zeros((), dtype)))
        return self.numbers[key]


class _ScanPlan:
    """The scan of a part of a loop whose roles are known."""

    def __init__(self, loop: Loop, roles: _Roles, values: dict[str, Any]) -> None:
        self.loop = loop
        self.roles = roles
        #: Variables at the start. Derivatives run the body again after the loop has changed them.
        self.values = dict(values)
        self.part = loop.start, loop.stop, loop.period
        self.carry: list[Any] = []
        self.rows: list[Any] = []
        count = loop.rounds
        self._evaluate()
        # Variables, then values that only the code after the loop reads.
        # Copies of arrays that are written after the loop: its derivatives read the first values.
        self.carry += [tensor_ops.clone(values[n]) if n in roles.moves else values[n] for n in roles.carried]
        self.carry += [
            tensor_ops.clone(tensor_ops.expand(wrap(cls, np.zeros((), dtype)), shape=shape))
            for cls, shape, dtype in roles.last.values()
        ]
        self.sources: dict[Any, _Read] = {}
        self.chains: dict[Any, _Read] = {}
        for write in roles.writes.values():
            write.places = self._places(write.array, write.position, write.number)
            if len(np.unique(write.places)) != count:
                loop.refuse("rounds write the same row of an array again")
        by_array: dict[int, list[tuple[Any, _Write]]] = {}
        for key, write in roles.writes.items():
            by_array.setdefault(id(write.array), []).append((key, write))
        for writes in by_array.values():
            places = np.concatenate([w.places for _, w in writes])
            if len({w.position for _, w in writes}) > 1 or len(np.unique(places)) != len(places):
                loop.refuse("two statements write the same row of an array")
        for key, read in roles.reads.items():
            self._resolve(key, read, by_array.get(id(read.array), []))
        for key, array in self._number_rows.items():
            self.rows.append(wrap(key[1], array))

    def _evaluate(self) -> None:
        """Compute the values of all numbers."""
        loop, roles = self.loop, self.roles
        keys = [*roles.number_rows]
        final = [n for n in roles.final if isinstance(roles.final[n], LoopNumber)]
        sources = [*[roles.number_rows[k].source for k in keys], *[roles.final[n].source for n in final]]
        following, first = roles.recurrences or ([], [])
        lists, last = loop.sequences.carried_values(sources, following, first, loop.rounds)
        self._number_rows = {}
        for key, found in zip(keys, lists, strict=False):
            with np.errstate(over="ignore"):
                self._number_rows[key] = np.array(found, dtype=np.float64).astype(key[2])
        self.after: dict[str, Any] = dict(zip(roles.numbers, last, strict=True))
        self.after.update({n: found[-1] for n, found in zip(final, lists[len(keys) :], strict=True)})
        self.after.update({n: v for n, v in roles.final.items() if not isinstance(v, LoopNumber)})

    def _places(self, array: Any, position: int, number: LoopNumber) -> Any:
        """Return the rows that a number stands for, counted from the beginning of the array."""
        loop = self.loop
        if number.has_carry:
            following, first = self.roles.recurrences or ([], [])
            found = loop.sequences.carried_values([number.source], following, first, loop.rounds)[0][0]
        else:
            found = loop.values(number)
        if not all(type(v) is int for v in found):
            loop.refuse("an index is not an integer")
        places = np.array(found)
        size = array.shape[position]
        if places.min() < -size or places.max() >= size:
            loop.refuse("an index is out of range")
        return np.where(places < 0, places + size, places)

    def _resolve(self, key: Any, read: _Read, writes: list[tuple[Any, _Write]]) -> None:
        """Decide where the rows of a read come from: the array before the loop, or an earlier round."""
        loop = self.loop
        places = [self._places(read.array, read.position + k, number) for k, number in enumerate(read.numbers)]
        for written, write in writes:
            if write.position != read.position or len(places) != 1:
                loop.refuse("it reads an array that it writes along another dimension")
            rounds = np.full(read.array.shape[read.position], -1)
            rounds[write.places] = np.arange(len(write.places))
            source = rounds[places[0]]
            own = np.arange(len(source))
            if (source == own).any() and written[2] != loop.key_of(read.numbers[0]):
                loop.refuse("a round reads a row that it writes at an index which is equal in some rounds only")
            source = np.where(source < own, source, -1)  # rows that are written later have their first values
            distance = np.unique((own - source)[source >= 0])
            if not len(distance):
                continue
            d = int(distance[0])
            if len(distance) > 1 or (source[d:] < 0).any() or d > _FARTHEST:
                loop.refuse("rounds read rows that other rounds have written, at varying distances")
            rest = tuple([item for p, item in enumerate(read.index) if p != read.position])
            read.write, read.distance = self.roles.writes[written], d
            self.chains[key] = read
            first = [read.array[_row_index(read, int(p))] for p in places[0][:d]]
            read.first = first
            self.carry += [tensor_ops.clone(_as_class_of(first[d - 1 - k], read.array)) for k in range(d)]
            read.index = tuple(rest)
            read.rows = written
            return
        self.sources[key] = read
        rows = _gather(read, places)
        self.rows.append(tensor_ops.clone(rows) if writes else rows)

    def step(self, body: Callable[..., Any], carry: Sequence[Any], rows: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Run one round on the tensors of the scan."""
        roles, loop = self.roles, self.loop
        frame = _Frame(loop, roles, self.values)
        given = iter(carry)
        count = -1
        tensors = {n: next(given) for n in roles.carried}
        for n, value in self.values.items():
            if n in tensors:
                value = tensor_ops.clone(tensors[n]) if n in roles.in_place else tensors[n]
            elif n in roles.numbers:
                count += 1
                value = LoopNumber(loop, f"c{count}", True)
            elif n in roles.last:
                value = UNBOUND
            frame.given[n] = value
        for _ in roles.last:
            next(given)
        chains: dict[Any, list[Any]] = {}
        for key, read in self.chains.items():
            chains[key] = [next(given) for _ in range(read.distance)]
            frame.rows[key] = chains[key][-1]
        left = iter(rows)
        for key in self.sources:
            frame.rows[key] = next(left)
        for key in self._number_rows:
            frame.numbers[key] = next(left)
        outer = loop.start, loop.stop, loop.period
        loop.start, loop.stop, loop.period = self.part
        try:
            made = frame.run(body)
        finally:
            loop.start, loop.stop, loop.period = outer
        if {*frame.written} != {*roles.writes}:
            loop.refuse("rounds differ in the rows that they write")
        if [*map(id, [items for items, _ in frame.appended])] != [*map(id, roles.lists)]:
            loop.refuse("rounds differ in the lists that they append to")
        following = [made[n] for n in roles.carried] + [made[n] for n in roles.last]
        for key, read in self.chains.items():
            row = frame.written[read.rows]
            if read.index and any(item != slice(None) for item in read.index):
                row = row[read.index]
            following += [row, *chains[key][:-1]]
        if not all(isinstance(v, Variable) for v in following):
            loop.refuse("a variable changes its kind")
        ys = [frame.written[key] for key in roles.writes]
        ys += [frame.as_tensor(value, None) for _, value in frame.appended]
        return following, ys

    def finish(self, values: dict[str, Any], carry: Sequence[Any], stacks: Sequence[Any]) -> None:
        """Write the results to the arrays, lists and variables of the loop."""
        roles, loop = self.roles, self.loop
        count = loop.rounds
        for (_, write), stack in zip(roles.writes.items(), stacks, strict=False):
            loop.own_in_place(write.array)
            _scatter(write, stack)
        rows = [tensor_ops.unbind(stack, dim=0) for stack in stacks[len(roles.writes) :]]
        for t in range(count if roles.lists else 0):
            for items, column in zip(roles.lists, rows, strict=True):
                items.append(column[t])
        last = dict(zip(roles.carried, carry, strict=False))
        objects = {n: values[n] for n in roles.moves}
        for n in roles.carried:
            if n not in roles.moves:
                values[n] = last[n]
        final: dict[str, str] = {}
        for n in roles.moves:
            place = n
            for _ in range(count % _order(roles.moves)):
                place = roles.moves[place]
            final[n] = place
        for n, place in final.items():
            loop.own_in_place(objects[place])
            objects[place][...] = last[n]
            values[n] = objects[place]
        for n, value in zip(roles.last, carry[len(roles.carried) :], strict=False):
            values[n] = value
        values.update(self.after)


def _bind_variables(body: Callable[..., Any]) -> Callable[..., Any]:
    """Return the body with the present values of the variables that it only reads. Derivatives run it again, after the
    code behind the loop has assigned other values.
    """
    assert isinstance(body, types.FunctionType)
    cells = []
    for cell in body.__closure__ or ():
        try:
            cells.append(types.CellType(cell.cell_contents))
        except ValueError:  # no value yet
            cells.append(types.CellType())
    return types.FunctionType(body.__code__, body.__globals__, body.__name__, body.__defaults__, tuple(cells))


def _order(moves: dict[str, str]) -> int:
    """Return the number of rounds after which a permutation of variables repeats."""
    order, now = 1, dict(moves)
    while any(n != m for n, m in now.items()):
        now = {n: moves[m] for n, m in now.items()}
        order += 1
    return order


def _as_class_of(t: Any, like: Any) -> Any:
    return t if isinstance(t, Variable) else wrap(like.tensor_type, np.asarray(t))


_AUGMENTED: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]] = {
    "Add": (operator.add, operator.iadd), "Sub": (operator.sub, operator.isub), "Mult": (operator.mul, operator.imul),
    "Div": (operator.truediv, operator.itruediv), "FloorDiv": (operator.floordiv, operator.ifloordiv),
    "Mod": (operator.mod, operator.imod), "Pow": (operator.pow, operator.ipow), "MatMult": (operator.matmul, operator.imatmul),
    "BitAnd": (operator.and_, operator.iand), "BitOr": (operator.or_, operator.ior), "BitXor": (operator.xor, operator.ixor),
    "LShift": (operator.lshift, operator.ilshift), "RShift": (operator.rshift, operator.irshift),
}  # fmt: skip


def _has_number(item: Any) -> bool:
    parts = (item.start, item.stop, item.step) if isinstance(item, slice) else (item,)
    return any(isinstance(p, LoopNumber) for p in parts)


def _outermost(index: Any) -> Loop | None:
    """Return the outermost loop whose numbers an index has; None if it has none."""
    if not isinstance(index, (LoopNumber, tuple, slice)):
        return None
    loops: list[Any] = []
    for item in index if isinstance(index, tuple) else (index,):
        parts = (item.start, item.stop, item.step) if isinstance(item, slice) else (item,)
        loops += [p.loop for p in parts if isinstance(p, LoopNumber)]
    if not loops:
        return None
    for frame in _frames:
        if any(frame.loop is found for found in loops):
            return frame.loop
    raise RuntimeError("an index of a loop is used after the loop [nd-bug]")


def _full_index(loop: Loop, index: Any, ndim: int) -> tuple[Any, ...]:
    """Return an index with an item for each dimension."""
    items = index if isinstance(index, tuple) else (index,)
    if any(item is None or not isinstance(item, (int, slice, LoopNumber, type(...))) or isinstance(item, bool) for item in items):
        loop.refuse("an index that differs from round to round is combined with an array or a new dimension")
    if any(item is ... for item in items):
        at = [i for i, item in enumerate(items) if item is ...]
        if len(at) > 1:
            loop.refuse("an index has two ellipses")
        items = (*items[: at[0]], *(slice(None),) * (ndim - len(items) + 1), *items[at[0] + 1 :])
    if len(items) > ndim:
        loop.refuse("an index has too many items")
    return (*items, *(slice(None),) * (ndim - len(items)))


def _row_shape(array: Any, index: tuple[Any, ...]) -> tuple[int, ...]:
    """Return the shape of a row. None stands for an index of the loop."""
    shape: list[int] = []
    for n, item in zip(array.shape, index, strict=True):
        if isinstance(item, slice):
            shape.append(len(range(*item.indices(n))))
    return tuple(shape)


def _row_index(read: _Read, place: int) -> tuple[Any, ...]:
    return tuple([place if item is None else item for item in read.index])


def _arithmetic(places: Any) -> tuple[int, int] | None:
    """Return the first number and the step of an arithmetic sequence."""
    first = int(places[0])
    step = int(places[1]) - first if len(places) > 1 else 1
    return (first, step) if step and (places == first + step * np.arange(len(places))).all() else None


def _gather(read: _Read, places: list[Any]) -> Any:
    """Return the rows of all rounds, the first dimension counting rounds."""
    found = _arithmetic(places[0]) if len(places) == 1 else None
    array = read.array
    rounds = len(places[0])
    before = sum(isinstance(item, slice) for item in read.index[: read.position])
    if found is not None:
        first, step = found
        low, high = (first, first + step * (rounds - 1)) if step > 0 else (first + step * (rounds - 1), first)
        rows = array[tuple([slice(low, high + 1, abs(step)) if item is None else item for item in read.index])]
        if step < 0:
            rows = tensor_ops.flip(rows, dims=(before,))
    else:
        whole = array[tuple([slice(None) if item is None else item for item in read.index])]
        here = iter(places)
        index = tuple([next(here) if before <= d < before + len(places) else slice(None) for d in range(len(whole.shape))])
        rows = whole[index]
    if before:
        rows = tensor_ops.permute(rows, dims=(before, *[d for d in range(len(rows.shape)) if d != before]))
    return rows


def _scatter(write: _Write, stack: Any) -> None:
    """Write the rows of all rounds to an array."""
    array, p = write.array, write.position
    found = _arithmetic(write.places)
    if p:
        dims = [*range(1, p + 1), 0, *range(p + 1, len(stack.shape))]
        stack = tensor_ops.permute(stack, dims=tuple(dims))
    head = (slice(None),) * p
    if found is None:
        array[(*head, write.places)] = stack
        return
    first, step = found
    rounds = len(write.places)
    if step < 0:
        stack = tensor_ops.flip(stack, dims=(p,))
        first, step = first + step * (rounds - 1), -step
    array[(*head, slice(first, first + step * (rounds - 1) + 1, step))] = stack
