"""One run of a Python loop's body: a probe, which finds the roles of its variables, or the round of a scan.

See ndgrad._src.compiler.capture.python_loops.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from ndgrad._src.compiler.capture.captured_tensors import find_tracer
from ndgrad._src.compiler.capture.graph_break import GraphBreak
from ndgrad._src.compiler.capture.loop_items import Items, count_items
from ndgrad._src.compiler.capture.loop_numbers import LoopNumber
from ndgrad._src.compiler.capture.loop_rows import RowRead, RowWrite, innermost_payload, may_share, row_shape
from ndgrad._src.compiler.capture.loop_source import UNBOUND
from ndgrad._src.compiler.capture.subprograms import BodyTracer
from ndgrad._src.compiler.capture.traced_arrays import TracedArray
from ndgrad._src.core.captures import Watch
from ndgrad._src.core.op_observers import InPlaceForm, observing
from ndgrad._src.core.variable import Variable, np_dtype, wrap
from ndgrad._src.ops.vocabulary import tensor_ops

if TYPE_CHECKING:
    from ndgrad._src.compiler.capture.python_loops import Loop

#: Classes of numbers that rounds may change.
_NUMBERS = (int, float, bool)


class Restart(BaseException):
    """Ends a probe, because it has found the role of a variable. No body can catch it by `except Exception`."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        loop.has_restarted = True


class LoopRefused(GraphBreak):
    """A loop is not regular. Another trace runs it round by round, so users never see this."""

    is_cured = True


class Mixed:
    """Value of a variable that is of another kind on each side of a branch. Only code that assigns it again may follow."""

    __slots__ = ("loop", "name")

    def __init__(self, loop: Loop, name: str) -> None:
        self.loop = loop
        self.name = name

    def refuse(self, *_: Any, **__: Any) -> NoReturn:
        self.loop.refuse(f"the values of a tensor decide whether {self.name} is a number, a tensor or another object, or which")

    __bool__ = __index__ = __int__ = __float__ = __hash__ = __iter__ = __len__ = __array__ = __call__ = refuse
    __getitem__ = __setitem__ = __contains__ = __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __pow__ = __rpow__ = refuse
    __neg__ = __pos__ = __abs__ = __matmul__ = __rmatmul__ = __mod__ = __rmod__ = __floordiv__ = __rfloordiv__ = refuse
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __invert__ = __str__ = __format__ = refuse

    def __getattr__(self, name: str) -> Any:
        self.refuse()


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

    def argument(self, array: Any) -> Any:
        self._note([array])  # a program inside, such as a branch, reads it
        return super().argument(array)

    def _note(self, arrays: Sequence[Any]) -> None:
        for a in arrays:
            if isinstance(a, np.ndarray) or (isinstance(a, TracedArray) and a.memory.tracer is not self):
                self.touched.append(a)


class RunningRounds:
    """Frames of the rounds that run now, the outermost first. Traces of other threads have frames of their own."""

    def __init__(self) -> None:
        self._local = threading.local()

    def _list(self) -> list[LoopRound]:
        found: list[LoopRound] | None = getattr(self._local, "frames", None)
        if found is None:
            found = self._local.frames = []
        return found

    def __iter__(self) -> Iterator[LoopRound]:
        return iter([*self._list()])

    def push(self, frame: LoopRound) -> None:
        self._list().append(frame)

    def pop(self) -> None:
        self._list().pop()

    def replace(self, frames: list[LoopRound]) -> list[LoopRound]:
        """Let other rounds run, and return those that ran before."""
        before = self._list()
        self._local.frames = frames
        return before


running_rounds = RunningRounds()


class RoundContext:
    """The rounds that run now. A derivative runs parts of them again after they have ended."""

    def __init__(self) -> None:
        self._frames = [(f, f.loop.start, f.loop.stop, f.loop.period) for f in running_rounds]

    @contextmanager
    def resumed(self) -> Iterator[None]:
        """Context in which these rounds run."""
        frames = self._frames
        before = [(f.loop._frame, f.loop.start, f.loop.stop, f.loop.period) for f, *_ in frames]
        outer = running_rounds.replace([f for f, *_ in frames])
        for f, start, stop, period in frames:
            f.loop._frame, f.loop.start, f.loop.stop, f.loop.period = f, start, stop, period
        try:
            yield
        finally:
            running_rounds.replace(outer)
            for (f, *then), (frame, *now) in zip(frames, before, strict=True):
                loop = f.loop
                loop._frame = frame
                found = [loop.start, loop.stop, loop.period]
                if found == then:
                    loop.start, loop.stop, loop.period = now
                elif then != now:  # a condition on the index has divided the loop, after it has ended
                    loop.has_restarted = True


class Roles:
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
        self.reads: dict[Any, RowRead] = {}
        self.writes: dict[Any, RowWrite] = {}
        self.number_rows: dict[tuple[str, Any, str], LoopNumber] = {}
        self.lists: list[list[Any]] = []
        #: Permutation of the objects of in-place variables after one round.
        self.moves: dict[str, str] = {}
        self.final: dict[str, Any] = {}
        #: Rows that one side of a branch writes, by key.
        self.conditional: dict[Any, None] = {}

    def state(self) -> Any:
        """Return everything that another probe may change."""
        return (
            [*self.carried], [*self.in_place], dict(self.numbers), [*self.last], self.recurrences, [*self.reads],
            [(k, w.is_opened) for k, w in self.writes.items()], [*self.number_rows], [*map(id, self.lists)],
            dict(self.moves), [*self.conditional],
        )  # fmt: skip


class LoopRound:
    """One run of a loop's body."""

    def __init__(self, loop: Loop, roles: Roles, values: dict[str, Any]) -> None:
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
        #: Numbers that rounds of an unbounded loop change, as tensors.
        self.scalars: list[Any] = []

    @property
    def first_numbers(self) -> list[Any]:
        """Return the first values of the numbers that rounds change."""
        return [self.values[n] for n in self.roles.numbers]

    # ----- running ----------------------------------------------------------------------------------------------------

    def run(self, body: Callable[..., Any]) -> dict[str, Any]:
        """Run a round, and return the variables after it."""
        loop = self.loop
        outer, loop._frame = loop._frame, self
        running_rounds.push(self)
        made = tuple(self.given.values())
        try:
            for k in range(loop.period):
                t = LoopNumber(loop, f"(t * {loop.period} + {loop.start + k})", False)
                made = body(self.item(loop.items, t), *made)
        finally:
            running_rounds.pop()
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
            return self.item(items.args[0], count_items(items.args[0]) - 1 - t)
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
        carried = {name: LoopNumber(loop, f"c{k}", True) for k, name in enumerate(roles.numbers)}
        with observing(tracer):
            watch = Watch(tracer.make_input)
            for name, value in self.values.items():
                if name in roles.carried and isinstance(value, Variable):
                    value = tracer.make_input(value)
                    if name in roles.in_place:
                        value = tensor_ops.clone(value)
                elif name in roles.numbers:
                    value = carried[name]
                elif name in roles.last:
                    value = UNBOUND
                self.given[name] = value
            with watch.run(own=[v for v in self.given.values() if isinstance(v, Variable)]):
                try:
                    made = self.run(body)
                except (Restart, GraphBreak):
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
            payload = innermost_payload(row)
            if (
                isinstance(payload, TracedArray)
                and payload.memory.written
                and not any(row is w for w in self.written.values())
            ):
                self.loop.refuse("it writes to a row, which is a view of an array")
        for name, value in self.given.items():
            payload = innermost_payload(value)
            if name not in self.roles.carried or not isinstance(payload, TracedArray):
                continue
            if payload.memory.written:
                self.roles.in_place[name] = None
            else:  # an augmented assignment may give a new array
                self.roles.in_place.pop(name, None)

    # ----- results of a probe -----------------------------------------------------------------------------------------

    def note_results(self, made: dict[str, Any]) -> bool:
        """Note the roles of variables by their values after a round; False if a variable changes its kind."""
        roles = self.roles
        following: dict[str, str] = {}
        names = {id(v): n for n, v in self.given.items() if isinstance(v, Variable)}
        roles.moves = {}
        roles.final = {}
        for name, value in made.items():
            given = self.given[name]
            if value is given:
                if name in roles.in_place:
                    roles.moves[name] = name
                if name in roles.numbers:
                    following[name] = given.source
            elif isinstance(value, Variable):
                if not self._note_tensor(name, value, names):
                    return False
            elif isinstance(value, LoopNumber) and value.loop is self.loop:
                if not self._note_loop_number(name, value, following):
                    return False
            elif type(value) is Mixed:
                self._note_mixed(name, value)
            elif type(value) in _NUMBERS and type(self.values[name]) in _NUMBERS and math.isfinite(value):
                roles.numbers.setdefault(name, "")
                following[name] = f"({value!r})"
            elif not self._note_object(name, value):
                return False
        if any(n not in following for n in roles.numbers):
            roles.numbers = dict.fromkeys(following, "")
        roles.recurrences = (
            [following[n] for n in roles.numbers], [self.values[n] for n in roles.numbers]
        ) if roles.numbers else None  # fmt: skip
        roles.lists = [items for items, _ in self.appended]
        self._check_moves(made)
        return True

    def _note_tensor(self, name: str, value: Variable, names: dict[int, str]) -> bool:
        """Note the role of a variable that a round binds to a tensor. `names` are the variables of the tensors given to
        the round, by their ids.
        """
        roles, live, before = self.roles, self.loop.note_.live, self.values[name]
        if before is UNBOUND or name in roles.last:
            if name in live:
                roles.last[name] = (value.tensor_type, tuple(value.shape), np_dtype(value))
            return True
        if not isinstance(before, Variable):
            return name not in live and type(before) not in _NUMBERS
        if (tuple(before.shape), np_dtype(before), before.tensor_type) != (
            tuple(value.shape), np_dtype(value), value.tensor_type,
        ):  # fmt: skip
            return False
        roles.carried[name] = None
        if id(value) in names:
            roles.moves[name] = names[id(value)]
        return True

    def _note_loop_number(self, name: str, value: LoopNumber, following: dict[str, str]) -> bool:
        """Note the role of a variable that a round binds to a number that differs between rounds."""
        before = self.values[name]
        if before is UNBOUND or name in self.roles.last:
            self.roles.final[name] = value
            return True
        if type(before) not in _NUMBERS:
            return False
        self.roles.numbers.setdefault(name, "")
        following[name] = value.source
        return True

    def _note_mixed(self, name: str, value: Mixed) -> None:
        """Note a variable that a branch binds to different kinds of objects: no code may read it."""
        note = self.loop.note_
        if name in note.live or not (name in note.temporary or self.values[name] is UNBOUND):
            value.refuse()

    def _note_object(self, name: str, value: Any) -> bool:
        """Note the role of a variable that a round binds to any other object."""
        before = self.values[name]
        if type(value) in (*_NUMBERS, str, type(None)) or value is UNBOUND:
            if before is not UNBOUND and (type(value) is not type(before) or value != before):
                return False
            self.roles.final[name] = value
        elif before is not UNBOUND:
            self.loop.refuse(f"{name} becomes another {type(value).__name__} in each round")
        elif name in self.loop.note_.live:
            self.loop.refuse(f"{name} is a {type(value).__name__}, which the code after the loop reads")
        return True

    def _check_moves(self, made: dict[str, Any]) -> None:
        """Check that arrays changed in place stay bound to variables, each to one."""
        roles = self.roles
        if not roles.in_place:
            roles.moves = {}
            return
        cycle = set(roles.in_place)
        while True:
            more = {roles.moves[n] for n in cycle if n in roles.moves} | {
                n for n, m in roles.moves.items() if m in cycle
            }
            if more <= cycle:
                break
            cycle |= more
        moves = {n: roles.moves[n] for n in cycle if n in roles.moves}
        if moves.keys() != cycle or {*moves.values()} != cycle:
            self.loop.refuse("it changes an array in place and assigns another one to its variable")
        roles.moves = moves
        for n in cycle:
            roles.carried[n] = None
        payloads = [innermost_payload(self.values[n]) for n in cycle]
        if any(may_share(a, b) for i, a in enumerate(payloads) for b in payloads[:i]):
            self.loop.refuse("two variables share memory that it changes")

    def check_aliases(self) -> None:
        """Refuse a body that reads memory which it writes under another name."""
        roles = self.roles
        written = [innermost_payload(self.values[n]) for n in roles.moves] + [
            innermost_payload(w.array) for w in roles.writes.values()
        ]
        if not written:
            return
        others = [*self.tracer.touched]
        others += [
            innermost_payload(v)
            for n, v in self.values.items()
            if n in roles.carried and n not in roles.moves and isinstance(v, Variable)
        ]
        arrays = {id(w.array): w.array for w in roles.writes.values()}
        others += [innermost_payload(r.array) for r in roles.reads.values() if id(r.array) not in arrays]
        payloads = [
            *[innermost_payload(self.values[n]) for n in roles.moves],
            *[innermost_payload(a) for a in arrays.values()],
        ]
        if any(may_share(a, b) for i, a in enumerate(payloads) for b in payloads[:i]):
            self.loop.refuse("two arrays that it writes share memory")
        for a in written:
            if any(may_share(a, b) for b in others):
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
            read = RowRead(base, index, own[0], [items[p] for p in own])
            read.shape = row_shape(base, index)
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
                raise Restart(self.loop)
            return self.written[key]
        if not write.is_opened:
            write.is_opened = True
            raise Restart(self.loop)
        items = tuple([number if p == position else slice(None) for p in range(len(base.shape))])
        source = self._key(base, items)
        if source not in self.rows:
            if self.tracer is None:
                self.loop.refuse("rounds differ")
            if source not in self.roles.reads:
                read = RowRead(
                    base,
                    tuple([None if p == position else slice(None) for p in range(len(base.shape))]),
                    position,
                    [number],
                )
                read.shape = row_shape(base, read.index)
                self.roles.reads[source] = read
            self.rows[source] = self.tracer.make_input(base, self.roles.reads[source].shape)
        row = self.written[key] = tensor_ops.clone(self.rows[source])
        return row

    def _note_write(self, base: Any, position: int, number: LoopNumber) -> Any:
        for frame in running_rounds:  # an inner loop writes an array of an outer round through the outer loop
            if frame is not self and any(v is base for v in frame.given.values()) and frame.loop is not self.loop:
                outer = [n for n, v in frame.given.items() if v is base and n not in frame.roles.carried]
                if outer:
                    frame.loop.check_in_place(frame, base)
        key = (id(base), position, self.loop.key_of(number))
        if key not in self.roles.writes:
            if self.tracer is None:
                self.loop.refuse("rounds differ")
            self.roles.writes[key] = RowWrite(base, position, number)
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


def outermost_loop(index: Any) -> Loop | None:
    """Return the outermost loop whose numbers an index has; None if it has none."""
    if not isinstance(index, (LoopNumber, tuple, slice)):
        return None
    loops: list[Any] = []
    for item in index if isinstance(index, tuple) else (index,):
        parts = (item.start, item.stop, item.step) if isinstance(item, slice) else (item,)
        loops += [p.loop for p in parts if isinstance(p, LoopNumber)]
    if not loops:
        return None
    for frame in running_rounds:
        if any(frame.loop is found for found in loops):
            return frame.loop
    raise RuntimeError("an index of a loop is used after the loop [nd-bug]")
