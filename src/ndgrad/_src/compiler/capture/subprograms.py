"""Functions inside a traced function that are programs of their own: the body of a loop, a branch.

    Closed         a function of tensors with what it captures as further arguments, so that derivatives reach these
    BodyTracer     the tracer of such a function, inside another one's
    Region         its program, with what it takes from outside

A body is run on tensors without values. What carries a graph, a tangent or a transform's level and was there before is
an argument of a `Closed` function. All else that a body touches has no derivative; whatever of it belongs to the
program around is an input of the body's program, which stays the same from round to round.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ndgrad._src.compiler.capture.captured_tensors import Outside, tracer_at_work
from ndgrad._src.compiler.capture.graph_break import GraphBreak
from ndgrad._src.compiler.capture.random_draws import Draw
from ndgrad._src.compiler.capture.traced_arrays import Memory, TracedArray
from ndgrad._src.compiler.capture.tracer import Tracer
from ndgrad._src.compiler.lower.float_errors import unread_checks
from ndgrad._src.compiler.passes import simplify_program
from ndgrad._src.compiler.program.program import Argument, Instruction, Program, Value
from ndgrad._src.core.captures import Watch
from ndgrad._src.core.op_observers import InPlaceForm, observing
from ndgrad._src.core.variable import Variable, np_dtype, wrap
from ndgrad._src.ops.vocabulary import tensor_ops
from ndgrad._src.tensor.tensor_class import Tensor

Tensors = Sequence[Any]
Flat = Callable[[Tensors], list[Any]]


class BodyTracer(Tracer):
    """The tracer of a function inside the one that `around` traces (None: nothing is traced there, and the program is
    of no interest)."""

    def __init__(self, around: Tracer | None, name: str = "body") -> None:
        super().__init__(name)
        self.around = around
        #: values of the program around -> what stands for them here
        self.captured: dict[Value, TracedArray] = {}
        self._given: list[TracedArray] = []

    def read(self, payload: TracedArray) -> None:
        """There is nothing for numbers of which each round, or branch, has its own."""

    def given(self, like: Any, shape: tuple[int, ...] | None = None) -> Any:
        """A plain tensor without values, in the place of another."""
        value = Value(tuple(like.shape) if shape is None else shape, np_dtype(like))
        self.program.inputs.append(value)
        payload = self.array(value)
        self._given.append(payload)
        return wrap(like.face, payload)

    def outside_of(self, t: Any, array: Any) -> Outside:
        if self.around is None:
            raise GraphBreak("a tensor from outside takes part")
        return self.around.outside_of(t, array)

    def local(self, array: TracedArray) -> TracedArray:
        """An array of the program around, as this program sees it."""
        if array.memory.tracer is self:
            return array
        if self.around is None:
            raise GraphBreak("a tensor of another trace takes part")
        value = self.around.argument(array)
        found = self.captured.get(value)
        if found is None:
            inner = Value(value.shape, value.dtype)
            found = self.captured[value] = TracedArray(inner, Memory(self, inner), strides=array.strides)
            around = self.around
            if value in around.fixed:
                self.fixed.know(inner, lambda: around.fixed.array(value))
        return found

    def argument(self, array: Any) -> Argument:
        return super().argument(self.local(array) if isinstance(array, TracedArray) else array)

    def __call__(
        self,
        op: Any,
        tensors: Sequence[Any],
        arrays: Sequence[Any],
        settings: dict[str, Any],
        run: Callable[[], Any],
    ) -> Any:
        if isinstance(op, InPlaceForm) and isinstance(arrays[0], TracedArray) and arrays[0].memory.tracer is not self:
            raise GraphBreak("the body of a loop, or a branch, writes a tensor from outside")
        arrays = [self.local(a) if isinstance(a, TracedArray) else a for a in arrays]
        return super().__call__(op, tensors, arrays, settings, run)

    def traced(self, op: Any, arrays: Sequence[Any], settings: dict[str, Any]) -> Any:
        return super().traced(op, [self.local(a) if isinstance(a, TracedArray) else a for a in arrays], settings)

    def drawn(self, draw: Draw) -> Value:
        raise GraphBreak("the body of a loop, or a branch, draws random numbers")

    def decide(self, value: Value) -> bool:
        raise GraphBreak("the values of a tensor decide what the body of a loop, or a branch, does")

    def outputs(self, tensors: Tensors) -> list[Value]:
        """The values of what a function has returned."""
        for payload in (*self._given, *self.captured.values()):
            if payload.memory.written:
                raise GraphBreak("the body of a loop, or a branch, writes what it is given, or a tensor from outside")
        self.check_lent()
        return [self.argument(t._array) for t in tensors]


def _check_unread(tracer: BodyTracer, made: Tensors) -> None:
    """Raise if a function does not return, or use, the result of an op that may raise: its program would leave out the op,
    and the error with it."""
    payloads = [t._array for t in made]
    while any(isinstance(p, Variable) for p in payloads):
        payloads = [p._array if isinstance(p, Variable) else p for p in payloads]
    outputs = [p._value for p in payloads if isinstance(p, TracedArray)]
    defined = tracer.program.definitions()
    for value in unread_checks(tracer.program, outputs, defined.keys()):
        unread = defined[value]
        raise GraphBreak(f"a loop or a branch does not use what {unread.op.name} gives, which may raise", unread.where)


class Closed:
    """A function of tensors, and the tensors that it captures: called with these, or others, behind its own.

    It is run once, on tensors without values, to find them, and what it returns in shape and dtype."""

    def __init__(self, f: Flat, tensors: Tensors) -> None:
        tracer = BodyTracer(tracer_at_work())
        self._f = f
        self._count = len(tensors)
        with observing(tracer):
            given = [tracer.given(t) for t in tensors]
            watch = Watch(tracer.given)
            with watch.run(own=given):
                made = f(given)
            watch.settle()
            #: as the surroundings see them
            self.captured = watch.captured()
            self._replace = watch.replacing()
            self._types = [(t.face, tuple(t.shape), np_dtype(t)) for t in made]
            if tracer.around is not None:
                _check_unread(tracer, made)
            del made

    def __call__(self, tensors: Tensors) -> list[Any]:
        own, captured = tensors[: self._count], tensors[self._count :]
        found: list[Any] = self._replace(self._f, captured, own)
        return found

    def zeros(self, tensors: Tensors) -> list[Any]:
        """Zeros in the place of what it returns."""
        return [tensor_ops.expand(wrap(face, np.zeros((), dtype)), shape=shape) for face, shape, dtype in self._types]


class Region:
    """The program of a function of tensors that are plain: all transforms are dealt with."""

    def __init__(self, tracer: Tracer, f: Flat, own: Tensors, rest: Tensors, name: str = "body") -> None:
        """The function is given anew each time what is like `own` (tensors, and their shapes where these are others),
        and then `rest`."""
        inner = BodyTracer(tracer, name)
        with observing(inner):
            given = [inner.given(t, shape) for t, shape in own]
            made = f([*given, *rest])
            #: the classes of what it returns
            self.faces = [getattr(t, "face", Tensor) for t in made]
            outputs = inner.outputs(made)
            del made, given
        own_inputs = inner.program.inputs
        #: values of the program around that the body takes, and what stands for them in it
        self.taken = {around: payload.memory.value for around, payload in inner.captured.items()}
        program = Program(
            [*own_inputs, *self.taken.values()], outputs, inner.program.instructions, inner.program.constants, name
        )
        self.program = simplify_program(program)
        self.own = own_inputs

    def hoist(self, tracer: Tracer) -> None:
        """Let the program around do once what does not depend on what the body is given."""
        outer = {inner: around for around, inner in self.taken.items()}
        stays: list[Instruction] = []
        constants = self.program.constants
        for instruction in self.program.instructions:
            values = list(instruction.values())
            if (
                not values
                or not all(v in outer or v in constants for v in values)
                or all(v in constants for v in values)
            ):
                stays.append(instruction)
                continue
            arguments = tuple(
                [self._around(tracer, a, outer) if a.__class__ is Value else a for a in instruction.arguments]
            )
            results = tuple([Value(v.shape, v.dtype) for v in instruction.results])
            tracer.program.instructions.append(
                Instruction(instruction.op, arguments, instruction.settings, results, instruction.where)
            )
            outer.update(zip(instruction.results, results, strict=True))
        used = {v for i in stays for v in i.values()} | set(self.program.outputs)
        kept = {v: a for v, a in constants.items() if v in used}
        self.taken = {around: inner for inner, around in outer.items() if inner in used and inner not in kept}
        self.program = Program([*self.own, *self.taken.values()], self.program.outputs, stays, kept, self.program.name)

    def _around(self, tracer: Tracer, value: Value, outer: dict[Value, Value]) -> Value:
        """What stands around for a value of the body that does not change."""
        found = outer.get(value)
        if found is None:
            found = outer[value] = Value(value.shape, value.dtype)
            tracer.program.constants[found] = self.program.constants[value]
        return found
