"""Branches in the body of a rolled Python loop whose condition is a value of a tensor.

`loop_source` gives both sides of an `if` as functions of the variables that they assign. If Python knows the condition,
one of them runs. Otherwise both are traced, and a branch of the program (ndgrad._src.compiler.capture.control_flow) gives
the values of the variables, and the rows that either side writes. Its derivative is a branch as well, so a side that is
not taken has no part in gradients.

A round after a `break` is a branch whose second side does nothing. Numbers keep changing there as if there was no end,
because no code uses them; the number of rounds before the end selects their last values (`LoopScan`).

A variable must be a tensor of one kind on both sides, or the same object. Otherwise it becomes a `Mixed`, which ends the
attempt if code reads it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.compiler.capture.control_flow import Branches, Cond
from ndgrad._src.compiler.capture.loop_numbers import LoopNumber
from ndgrad._src.compiler.capture.loop_rounds import LoopRound, Mixed, Restart, RoundContext
from ndgrad._src.compiler.capture.loop_rows import innermost_payload
from ndgrad._src.compiler.capture.loop_source import UNBOUND
from ndgrad._src.compiler.capture.subprograms import LiftedFunction
from ndgrad._src.compiler.capture.traced_arrays import TracedArray
from ndgrad._src.core.variable import Variable, np_dtype, wrap
from ndgrad._src.interpreters.batching import take_apart
from ndgrad._src.ops.vocabulary import tensor_ops
from ndgrad._src.tensor.tensor_class import Tensor

if TYPE_CHECKING:
    from ndgrad._src.compiler.capture.python_loops import Loop

Values = tuple[Any, ...]
Side = Callable[..., Values]


def unknown_condition(test: Any) -> Any:
    """Return a condition that Python cannot decide as a bool tensor without dimensions; None if Python decides."""
    if not isinstance(test, Variable) or math.prod(test.shape) != 1:
        return None
    array, levels = take_apart(test)
    if levels or not isinstance(array, TracedArray) or array.constant_array is not None:
        return None
    if test.shape:
        test = tensor_ops.reshape(test, shape=())
    return test if np_dtype(test).kind == "b" else tensor_ops.ne(test, 0)


def kind_of(t: Any) -> tuple[Any, ...]:
    """Return the class, shape and dtype of a tensor."""
    return t.tensor_type, tuple(t.shape), np_dtype(t)


class _Made:
    """Results of one side: the values of the variables, tensors among them by position, and changed objects."""

    def __init__(self) -> None:
        self.values: Values = ()
        #: Tensors that the function returns: (kind, key), where the kind is "variable", "object" or "row".
        self.keys: list[tuple[str, Any]] = []
        self.kinds: list[tuple[Any, ...]] = []
        self.changed: set[tuple[str, Any]] = set()
        #: Tensors that it returns although the side does not change them.
        self.wanted: set[tuple[str, Any]] = set()

    def find_kind(self, key: tuple[str, Any]) -> Any:
        return self.kinds[self.keys.index(key)] if key in self.keys else None


class LoopBranch:
    """A branch of a round whose condition is a value of a tensor."""

    def __init__(self, loop: Loop, frame: LoopRound, condition: Any, is_end: bool = False) -> None:
        """`is_end`: whether the second side is a round after the end of the loop."""
        self.loop = loop
        self.frame = frame
        self.condition = condition
        self.is_end = is_end
        self.context = RoundContext()

    def run(self, when_true: Side, when_false: Side, values: Values) -> Values:
        """Return the values of variables after the branch."""
        frame, roles = self.frame, self.frame.roles
        names = when_true.__code__.co_varnames[: when_true.__code__.co_argcount]
        for key in roles.conditional:
            write = roles.writes[key]
            frame.open_row(write.array, write.position, write.number)
        rows = dict(frame.written)
        own = [k for k, n in enumerate(names) if n in roles.in_place and isinstance(values[k], Variable)]
        objects = [values[k] for k in own]
        given = [*objects, *rows.values()]
        found = [_Made(), _Made()]
        sides = [
            self._side(f, values, own, [*rows], made) for f, made in zip((when_true, when_false), found, strict=True)
        ]
        lifted = [LiftedFunction(side, given) for side in sides]
        changed = {*found[0].keys, *found[1].keys}
        for j, made in enumerate(found):
            if not changed <= {*made.keys}:  # it must return variables that only the other side changes
                made.wanted = changed
                lifted[j] = LiftedFunction(sides[j], given)
        merged = self._merge(names, values, *found)
        wanted = [key for key, is_taken in merged.items() if is_taken]
        wanted += [("object", j) for j in range(len(own)) if any(("object", j) in made.changed for made in found)]
        wanted += [("row", key) for key in rows if any(("row", key) in made.changed for made in found)]
        places = [[made.keys.index(key) for key in wanted] for made in found]
        n, m = len(given), len(given) + len(lifted[0].captured)
        out: list[Any] = []
        if wanted:
            is_traced = False

            def run_side(j: int, tensors: list[Any]) -> list[Any]:
                if is_traced and not lifted[j].is_same(LiftedFunction(sides[j], given)):
                    self.loop.refuse("a branch reads objects that the code after it changes")
                made = lifted[j](tensors)
                return [made[k] for k in places[j]]

            plan = Branches(lambda t: run_side(0, [*t[:m]]), lambda t: run_side(1, [*t[:n], *t[m:]]))
            captured = [*lifted[0].captured, *lifted[1].captured]
            out = list(Cond.apply(plan, self.condition, *given, *captured))
            is_traced = True
        by_key = dict(zip(wanted, out, strict=True))
        for j, value in enumerate(objects):
            if ("object", j) in by_key:
                value[...] = by_key["object", j]
        for key, row in rows.items():
            if ("row", key) in by_key:
                row[...] = by_key["row", key]
        return self._results(names, values, own, merged, by_key, *found)

    def _side(self, f: Side, values: Values, own: list[int], keys: list[Any], noted: _Made) -> Callable[[Sequence[Any]], list[Any]]:
        """Return one side as a function of tensors: objects that are changed in place, and rows that are written."""
        frame, loop = self.frame, self.loop

        def run(tensors: Sequence[Any]) -> list[Any]:
            with self.context.resumed():
                copies = [tensor_ops.clone(t) for t in tensors]
                given = list(values)
                for k, t in zip(own, copies, strict=False):
                    given[k] = t
                rows = dict(zip(keys, copies[len(own) :], strict=True))
                before, appended = frame.written, len(frame.appended)
                frame.written = dict(rows)
                try:
                    made = f(*given)
                    after = frame.written
                finally:
                    frame.written = before
                if len(frame.appended) != appended:
                    loop.refuse("the values of a tensor decide whether it appends to a list")
                new = [key for key in after if key not in rows]
                if new:  # such a row has its old value on the other side
                    for key in new:
                        frame.roles.conditional[key] = None
                        frame.roles.writes[key].is_opened = True
                    raise Restart(loop)
                return self._note(noted, values, tuple(made), given, own, rows, after)

        return run

    def _note(
        self, noted: _Made, values: Values, made: Values, given: list[Any], own: list[int], rows: dict[Any, Any], after: dict[Any, Any]
    ) -> list[Any]:
        """Note the results of a side, and return its tensors."""
        noted.keys, noted.kinds, noted.changed = [], [], set()  # a derivative runs the side again
        back = {id(given[k]): values[k] for k in own}
        noted.values = tuple([back.get(id(v), v) for v in made])
        found: list[Any] = []

        def add(key: tuple[str, Any], t: Any) -> None:
            noted.keys.append(key)
            noted.kinds.append(kind_of(t))
            found.append(t)

        for k, v in enumerate(made):
            if id(v) in back or (k < len(values) and v is values[k] and ("variable", k) not in noted.wanted):
                continue
            if isinstance(v, Variable):
                add(("variable", k), tensor_ops.clone(v))
            elif type(v) is bool:
                add(("variable", k), wrap(Tensor, np.asarray(v)))
        for j, k in enumerate(own):
            add(("object", j), given[k])
            if _is_written(given[k]):
                noted.changed.add(("object", j))
        for key, copy in rows.items():
            add(("row", key), after[key])
            if after[key] is not copy or _is_written(copy):
                noted.changed.add(("row", key))
        return found

    def _merge(self, names: Sequence[str], values: Values, first: _Made, second: _Made) -> dict[tuple[str, Any], bool]:
        """Return the variables by position, with True for those that become results of the branch."""
        found: dict[tuple[str, Any], bool] = {}
        for k, (a, b) in enumerate(zip(first.values, second.values, strict=True)):
            key = "variable", k
            if _is_same(a, b):
                found[key] = False
                continue
            is_flag = k < len(names) and names[k] == self.loop.note_.stop
            kinds = first.find_kind(key), second.find_kind(key)
            found[key] = kinds[0] is not None and kinds[0] == kinds[1] and (
                is_flag or (isinstance(a, Variable) and isinstance(b, Variable))
            )
        return found

    def _results(
        self, names: Sequence[str], values: Values, own: list[int], merged: dict[tuple[str, Any], bool],
        by_key: dict[tuple[str, Any], Any], first: _Made, second: _Made,
    ) -> Values:  # fmt: skip
        made: list[Any] = []
        for k, (a, b) in enumerate(zip(first.values, second.values, strict=True)):
            if merged["variable", k]:
                made.append(by_key["variable", k])
            elif _is_same(a, b) or (self.is_end and _is_number(a) and (_is_number(b) or b is UNBOUND)):
                made.append(a)
            else:
                is_live = k < len(names) and names[k] in self.loop.note_.live
                if is_live and not self.is_end and (a is UNBOUND or b is UNBOUND):
                    self.loop.run_first_round_alone()
                if is_live and self.is_end and b is UNBOUND and isinstance(a, Variable):
                    zero = wrap(a.tensor_type, np.zeros((), np_dtype(a)))  # the first round assigns it
                    self.frame.values[names[k]] = tensor_ops.clone(tensor_ops.expand(zero, shape=tuple(a.shape)))
                    raise Restart(self.loop)
                made.append(Mixed(self.loop, names[k] if k < len(names) else "an expression"))
        return tuple(made)


def _is_number(value: Any) -> bool:
    return type(value) in (LoopNumber, int, float, bool)


def _is_written(t: Any) -> bool:
    payload = innermost_payload(t)
    return not isinstance(payload, TracedArray) or payload.memory.written


def _is_same(a: Any, b: Any) -> bool:
    """True if two sides give the same object, or equal numbers."""
    if a is b:
        return True
    if isinstance(a, Variable) or isinstance(b, Variable):
        return False
    if type(a) is LoopNumber and type(b) is LoopNumber:
        return a.loop is b.loop and a.source == b.source
    return type(a) is type(b) and type(a) in (int, float, bool, str, type(None)) and repr(a) == repr(b)
