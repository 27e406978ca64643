"""Python's `while` loops of a traced function, rolled up while they are traced.

The condition is a function of the loop's variables, like the body (ndgrad._src.compiler.capture.loop_source). Before each
round there are three cases:

    a value of a tensor decides     the loop is a `while` of the program (ndgrad._src.compiler.capture.while_loops)
    numbers decide                  after a few rounds as written, Python computes the number of the rounds that follow from
                                    the recurrences of the numbers; these rounds are a scan, like those of a `for` loop
    otherwise                       the round runs as written

In a `while` of the program the number of rounds is not known, so numbers that rounds change are tensors that it carries:
int64 numbers to which rounds add constants, and float64 numbers. They are Python numbers again after the loop.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ndgrad._src.compiler.capture import python_loops
from ndgrad._src.compiler.capture.graph_break import GraphBreak
from ndgrad._src.compiler.capture.loop_numbers import LoopNumber
from ndgrad._src.compiler.capture.loop_rounds import LoopRound, Roles, RoundContext
from ndgrad._src.compiler.capture.loop_scans import bind_variables
from ndgrad._src.compiler.capture.loop_source import LoopLog, LoopNote
from ndgrad._src.compiler.capture.python_loops import Loop
from ndgrad._src.compiler.capture.while_loops import run_while_loop
from ndgrad._src.core.variable import Variable, np_dtype, wrap
from ndgrad._src.ops.vocabulary import tensor_ops
from ndgrad._src.tensor.tensor_class import Tensor

Values = dict[str, Any]

#: Rounds that run as written before numbers decide about a scan, and the largest number of rounds that Python counts.
_PLAIN, _MOST = 8, 20_000_000
#: Rounds that run as written although values of tensors decide: a variable changes its kind, or has no value yet.
_GUARDED = 2
#: Largest constant that a round adds to an integer of a `while` of the program.
_STEP = 1 << 20


class WhileLoop(Loop):
    """A `while` loop that is being rolled up."""

    def __init__(self, log: LoopLog, note: LoopNote) -> None:
        super().__init__(log, note, range(python_loops.LEAST))
        #: Number of rounds that have run.
        self.done = 0

    def run_while(
        self, body: Callable[..., Any], holds: Callable[..., Any], start: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """Run the loop from these values of its variables. Return the last values."""
        self.log.running.append(self.note_.where)
        try:
            values = self._run_rounds(bind_variables(body), bind_variables(holds), dict(zip(self.note_.names, start, strict=True)))
        except GraphBreak:
            raise
        except Exception as error:  # a trace without this loop decides whether the function raises
            if not self.log.begun or self.log.begun[-1] != self.note_.where:
                raise
            self.refuse(f"{type(error).__name__} while it was rolled up: {str(error)[:200]}")
        self.log.running.pop()
        return tuple(values.values())

    def _run_rounds(self, body: Callable[..., Any], holds: Callable[..., Any], values: Values) -> Values:
        guarded = 0
        counts = _PLAIN
        stop = self.note_.stop

        def run_body(_: Any, *given: Any) -> Any:
            return body(*given)

        if stop is not None:
            self._look_for_break(run_body, values)
        while True:
            self.asks = True
            try:
                going = holds(*values.values())
            finally:
                self.asks = False
            condition = self.condition_of_value(going)
            flag = stop if stop is not None and isinstance(values[stop], Variable) else None
            if condition is None and not (going and flag is not None):
                if not going:
                    return values
                if self.done == counts:
                    rounds = self._run_counted(run_body, holds, values)
                    self.done += rounds
                    counts = self.done + _PLAIN * (1 if rounds else 1 << 20)
                    if rounds:
                        continue
            else:
                roles = self._find_unbounded(run_body, values)
                if roles is not None and not any(n in self.note_.live for n in roles.last):
                    self._run_unbounded(run_body, holds, values, roles)
                    self.log.rolled[self.note_.where] = -1
                    return values
                guarded += 1
                if guarded > _GUARDED:
                    self.refuse("a variable changes its kind, or has no value at its start")
                if not going:  # a condition that the trace follows
                    return values
            values.update(zip(values, body(*values.values()), strict=True))
            self.done += 1
            if flag is not None and values[flag] is False:
                values[flag] = wrap(Tensor, np.zeros((), bool))

    def condition_of_value(self, going: Any) -> Any:
        """Return the condition of a round as a tensor; None if Python decides."""
        self.asks = True
        try:
            return self.condition_of(going)
        finally:
            self.asks = False

    def _begin(self) -> None:
        if self.note_.where not in self.log.begun:
            self.log.begun.append(self.note_.where)

    def _look_for_break(self, body: Callable[..., Any], values: Values) -> None:
        """Let the condition of a `break` be a tensor if values of tensors decide."""
        self._begin()
        self.start, self.stop, self.count, self.period = 0, python_loops.LEAST, python_loops.LEAST, 1
        self.is_unbounded = True
        try:
            self._find_roles(body, values)
        finally:
            self.is_unbounded = False

    # ----- numbers decide ---------------------------------------------------------------------------------------------

    def _run_counted(self, body: Callable[..., Any], holds: Callable[..., Any], values: Values) -> int:
        """Run the rounds whose number follows from the numbers that they change. Return their number; 0 if there are few."""
        self._begin()
        least = python_loops.LEAST
        count = least
        for _ in range(3):
            self.start, self.stop, self.count, self.period = 0, count, count, 1
            self.items = range(count)
            roles = self._find_roles(body, values)
            if roles is None or roles.recurrences is None:
                return 0
            expected = self._count_rounds(holds, values, roles)
            if expected < least:
                return 0
            if expected == count:
                rounds = self.stop
                if rounds >= least and self.period == 1:
                    self._scan(body, values, roles)
                    self.log.rolled[self.note_.where] = self.log.rolled.get(self.note_.where, 0) + rounds
                    return rounds
                return 0
            count = expected
        return 0

    def _count_rounds(self, holds: Callable[..., Any], values: Values, roles: Roles) -> int:
        """Return the number of rounds for which a condition on numbers holds; 0 if others decide."""
        frame = LoopRound(self, roles, values)
        given = self._numbered(values, roles)
        self._frame = frame
        try:
            test = holds(*given.values())
        finally:
            self._frame = None
        if not isinstance(test, LoopNumber):
            return 0
        following, first = roles.recurrences or ([], [])
        return self.sequences.count_while(test.source, following, first, _MOST)

    def _numbered(self, values: Values, roles: Roles) -> Values:
        """Return the variables with the numbers that rounds change as numbers of the loop."""
        given = dict(values)
        for k, name in enumerate(roles.numbers):
            given[name] = LoopNumber(self, f"c{k}", True)
        return given

    # ----- values of tensors decide -----------------------------------------------------------------------------------

    def _find_unbounded(self, body: Callable[..., Any], values: Values) -> Roles | None:
        self._begin()
        self.start, self.stop, self.count, self.period = 0, python_loops.LEAST, python_loops.LEAST, 1
        self.is_unbounded = True
        try:
            roles = self._find_roles(body, values)
        finally:
            self.is_unbounded = False
        if roles is None:
            return None
        if roles.reads or roles.writes:
            self.refuse("the values of tensors decide when the loop ends, and it reads or writes single rows of an array")
        if roles.lists:
            self.refuse("the values of tensors decide when the loop ends, and it appends to a list")
        if any(n != m for n, m in roles.moves.items()):
            self.refuse("the values of tensors decide when the loop ends, and arrays that it changes in place change places")
        return roles

    def _run_unbounded(self, body: Callable[..., Any], holds: Callable[..., Any], values: Values, roles: Roles) -> None:
        """Run rounds while a condition on values of tensors holds, and update the values."""
        around = RoundContext()
        fixed = dict(values)
        following, first = roles.recurrences or ([], [])
        kinds = [self._check_recurrence(k, source, v) for k, (source, v) in enumerate(zip(following, first, strict=True))]
        start = [tensor_ops.clone(values[n]) if n in roles.moves else values[n] for n in roles.carried]
        start += [wrap(Tensor, np.asarray(v, kind)) for v, kind in zip(first, kinds, strict=True)]
        n = len(roles.carried)

        def begin(tensors: Sequence[Any], owns: bool) -> LoopRound:
            frame = LoopRound(self, roles, fixed)
            given = dict(zip(roles.carried, tensors, strict=False))
            frame.given = self._numbered(fixed, roles)
            for name, t in given.items():
                frame.given[name] = tensor_ops.clone(t) if owns and name in roles.in_place else t
            frame.scalars = [*tensors[n:]]
            return frame

        def step(tensors: Sequence[Any]) -> list[Any]:
            frame = begin(tensors, True)
            with around.resumed():
                outer, self.is_unbounded, self.has_restarted = self.is_unbounded, True, False
                try:
                    made = frame.run(body)
                    made_numbers = [self.scalar_of(frame, made[name]) for name in roles.numbers]
                finally:
                    self.is_unbounded = outer
                    if self.has_restarted:
                        self.refuse("rounds differ")
            found = [made[name] for name in roles.carried]
            if not all(isinstance(v, Variable) for v in found):
                self.refuse("a variable changes its kind")
            return [*found, *made_numbers]

        def test(tensors: Sequence[Any]) -> Any:
            frame = begin(tensors, False)
            with around.resumed():
                before = self._frame, self.is_unbounded
                self._frame, self.is_unbounded = frame, True
                try:
                    going = holds(*frame.given.values())
                    condition = self.condition_of(going)
                finally:
                    self._frame, self.is_unbounded = before
            return bool(going) if condition is None else condition

        def note_change() -> None:
            self.refuse("it reads objects that the code after it changes")

        out = run_while_loop(test, step, start, note_change)
        for name, t in zip(roles.carried, out, strict=False):
            if name in roles.moves:
                self.own_in_place(values[name])
                values[name][...] = t
            else:
                values[name] = t
        for name, t in zip(roles.numbers, out[n:], strict=True):
            if name in self.note_.live:
                values[name] = self.as_number(t)
        values.update({n: v for n, v in roles.final.items() if not isinstance(v, LoopNumber)})

    def _check_recurrence(self, k: int, source: str, first: Any) -> Any:
        """Return the dtype of a number that rounds change. Integers of a program have 64 bits, so a round may only add a
        constant.
        """
        if type(first) is float:
            return np.float64
        tree = ast.parse(source, mode="eval").body
        if type(first) is int and (_is_name(tree, f"c{k}") or _is_step(tree, f"c{k}")):
            return np.int64
        self.refuse("the values of tensors decide when the loop ends, and a number changes in other ways than by a constant step")

    def scalar(self, number: LoopNumber) -> Any:
        """Return a number of an unbounded loop as a tensor without dimensions."""
        frame = self._frame
        if frame is None:
            raise RuntimeError("a number of a loop is used after the loop [nd-bug]")
        return self.scalar_of(frame, number)

    def scalar_of(self, frame: LoopRound, number: Any) -> Any:
        """Return a number of a round as a tensor without dimensions."""
        if frame.tracer is not None:  # a probe needs only the kinds
            frame.scalars = [
                frame.tracer.make_input(wrap(Tensor, np.zeros((), np.int64 if type(v) is int else np.float64)))
                for v in frame.first_numbers
            ]
        if not isinstance(number, LoopNumber):
            return wrap(Tensor, np.asarray(number))
        return self._compute(ast.parse(number.source, mode="eval").body, frame.scalars)

    def scalar_like(self, number: LoopNumber, like: Any) -> Any:
        """Return a number as a tensor of the dtype that a Python number adopts beside another tensor."""
        dtype = np_dtype(like)
        if dtype.char not in "fd":
            self.refuse(f"a number that differs from round to round meets a tensor of {dtype}")
        made = self.scalar(number)
        return wrap(like.tensor_type, tensor_ops.cast(made, dtype=dtype)._array)

    def _compute(self, e: ast.expr, scalars: list[Any]) -> Any:
        """Return the value of an expression of numbers."""
        if isinstance(e, ast.Constant) and type(e.value) in (int, float):
            return wrap(Tensor, np.asarray(e.value, np.int64 if type(e.value) is int else np.float64))
        if isinstance(e, ast.Name) and e.id[0] == "c":
            return scalars[int(e.id[1:])]
        if isinstance(e, ast.UnaryOp) and isinstance(e.op, (ast.USub, ast.UAdd)):
            made = self._compute(e.operand, scalars)
            return tensor_ops.neg(made) if isinstance(e.op, ast.USub) else made
        pair = None
        if isinstance(e, ast.BinOp):
            pair, name = (e.left, e.right), _OPS.get(type(e.op))
        elif isinstance(e, ast.Compare) and len(e.ops) == 1:
            pair, name = (e.left, e.comparators[0]), _OPS.get(type(e.ops[0]))
        if pair is None or name is None:
            self.refuse("the values of tensors decide when the loop ends, and it computes with numbers in other ways than + - * and comparisons")
        a, b = (self._compute(x, scalars) for x in pair)
        floats = [np_dtype(t).kind == "f" for t in (a, b)]
        if name == "mul" and not any(floats) and not any(map(_is_small, pair)):
            self.refuse("the values of tensors decide when the loop ends, and it multiplies integers")
        if any(floats) and not all(floats):
            a, b = (t if is_float else tensor_ops.cast(t, dtype=np.dtype(np.float64)) for t, is_float in zip((a, b), floats, strict=True))
        return getattr(tensor_ops, name)(a, b)


_OPS: dict[type[ast.AST], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq",
    ast.NotEq: "ne",
}  # fmt: skip


def _is_small(e: ast.expr) -> bool:
    return isinstance(e, ast.Constant) and type(e.value) is int and abs(e.value) <= _STEP


def _is_name(e: ast.expr, name: str) -> bool:
    return isinstance(e, ast.Name) and e.id == name


def _is_step(e: ast.expr, name: str) -> bool:
    """True for the sum of a name and a small constant."""
    if not isinstance(e, ast.BinOp) or not isinstance(e.op, (ast.Add, ast.Sub)):
        return False
    pairs = [(e.left, e.right)] + ([(e.right, e.left)] if isinstance(e.op, ast.Add) else [])
    return any(_is_name(a, name) and _is_small(b) for a, b in pairs)
