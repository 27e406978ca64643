"""Functions inside a traced function that become programs of their own: the body of a loop, a branch.

    LiftedFunction         a function of tensors with its captured tensors as further arguments, so that derivatives reach these
    BodyTracer     the tracer of such a function, inside another one's
    Region         its program, with the values that it takes from the surrounding program

A body runs on tensors without values. Existing tensors with a graph, a tangent or a transform's level are arguments of
a `LiftedFunction` function. All other tensors that a body uses have no derivative. If they belong to the surrounding program,
they are inputs of the body's program that stay the same from round to round.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ndgrad._src.compiler.capture.captured_tensors import CapturedTensor, find_tracer
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
    """The tracer of a function inside the one that `around` traces. If `around` is None, there is no surrounding trace,
    and the program is not used.
    """

    def __init__(self, around: Tracer | None, name: str = "body") -> None:
        super().__init__(name)
        self.around = around
        #: Values of the surrounding program, with the arrays that stand for them here.
        self.captured: dict[Value, TracedArray] = {}
        self._given: list[TracedArray] = []

    def read_number(self, payload: TracedArray) -> None:
        """Return None: each round or branch has its own number, so there is no placeholder."""

    def make_input(self, like: Any, shape: tuple[int, ...] | None = None) -> Any:
        """Return a plain tensor without values like another one."""
        value = Value(tuple(like.shape) if shape is None else shape, np_dtype(like))
        self.program.inputs.append(value)
        payload = self.array(value)
        self._given.append(payload)
        return wrap(like.tensor_type, payload)

    def capture(self, t: Any, array: Any) -> CapturedTensor:
        if self.around is None:
            raise GraphBreak("a tensor from outside takes part")
        return self.around.capture(t, array)

    def local(self, array: TracedArray) -> TracedArray:
        """Return an array of the surrounding program as this program sees it."""
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
            if value in around.trace_constants:
                self.trace_constants.register(inner, lambda: around.trace_constants.array(value))
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

    def add_draw(self, draw: Draw) -> Value:
        raise GraphBreak("the body of a loop, or a branch, draws random numbers")

    def decide(self, value: Value) -> bool:
        raise GraphBreak("the values of a tensor decide what the body of a loop, or a branch, does")

    def outputs(self, tensors: Tensors) -> list[Value]:
        """Return the values of a function's results."""
        for payload in (*self._given, *self.captured.values()):
            if payload.memory.written:
                raise GraphBreak("the body of a loop, or a branch, writes what it is given, or a tensor from outside")
        self.check_lent()
        return [self.argument(t._array) for t in tensors]


def _check_unread(tracer: BodyTracer, made: Tensors) -> None:
    """Raise if a function does not use the result of an op that may raise. Its program would drop the op, and with it
    the error.
    """
    payloads = [t._array for t in made]
    while any(isinstance(p, Variable) for p in payloads):
        payloads = [p._array if isinstance(p, Variable) else p for p in payloads]
    outputs = [p._value for p in payloads if isinstance(p, TracedArray)]
    defined = tracer.program.definitions()
    for value in unread_checks(tracer.program, outputs, defined.keys()):
        unread = defined[value]
        raise GraphBreak(f"a loop or a branch does not use what {unread.op.name} gives, which may raise", unread.where)


class LiftedFunction:
    """A function of tensors together with its captured tensors, which it takes as further arguments.

    It runs once on tensors without values, to find the captured tensors and the shapes and dtypes of its results.
    """

    def __init__(self, f: Flat, tensors: Tensors) -> None:
        tracer = BodyTracer(find_tracer())
        self._f = f
        self._count = len(tensors)
        with observing(tracer):
            given = [tracer.make_input(t) for t in tensors]
            watch = Watch(tracer.make_input)
            with watch.run(own=given):
                made = f(given)
            watch.settle()
            #: Captured tensors, as the surrounding code sees them.
            self.captured = watch.captured()
            self._replace = watch.replacing()
            self._types = [(t.tensor_type, tuple(t.shape), np_dtype(t)) for t in made]
            if tracer.around is not None:
                _check_unread(tracer, made)
            inputs = [*tracer.program.inputs, *[a.memory.value for a in tracer.captured.values()]]
            outputs = tracer.outputs(made)
            self._program = replace(tracer.program, inputs=inputs, outputs=outputs, name="body")
            del made
            #: Tensors from outside that the function used.
            self._outside = [t for t in watch.list_outside() if not _belongs_to(t, tracer)]

    def __call__(self, tensors: Tensors) -> list[Any]:
        own, captured = tensors[: self._count], tensors[self._count :]
        found: list[Any] = self._replace(self._f, captured, own)
        return found

    def is_same(self, other: LiftedFunction) -> bool:
        """True if two runs gave the same program, with the same captured tensors."""
        mine, theirs = self._outside, other._outside
        if len(mine) != len(theirs) or not all(map(operator.is_, mine, theirs)):
            return False
        if _text(self._program) != _text(other._program):
            return False
        constants = self._program.constants.values(), other._program.constants.values()
        return all(map(_is_same_array, *constants))

    def zeros(self, tensors: Tensors) -> list[Any]:
        """Return zeros with the shapes and dtypes of the results."""
        return [tensor_ops.expand(wrap(tensor_type, np.zeros((), dtype)), shape=shape) for tensor_type, shape, dtype in self._types]


def _belongs_to(t: Any, tracer: Tracer) -> bool:
    """True if a tensor was made in a run that `tracer` traces."""
    return isinstance(t._array, TracedArray) and t._array.memory.tracer is tracer


def _text(program: Program) -> str:
    """Return the text of a program without the lines of the user, which depend on where it was run."""
    return re.sub(r" *# .*$", "", str(program), flags=re.MULTILINE)


def _is_same_array(a: Any, b: Any) -> bool:
    a, b = np.asarray(a), np.asarray(b)
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


class Region:
    """The program of a function of plain tensors, after all transforms."""

    def __init__(self, tracer: Tracer, f: Flat, own: Tensors, rest: Tensors, name: str = "body") -> None:
        """Trace the function on new tensors like `own` (tensors, with other shapes if given), followed by `rest`."""
        inner = BodyTracer(tracer, name)
        with observing(inner):
            given = [inner.make_input(t, shape) for t, shape in own]
            made = f([*given, *rest])
            #: Tensor classes of the results.
            self.tensor_types = [getattr(t, "tensor_type", Tensor) for t in made]
            outputs = inner.outputs(made)
            del made, given
        own_inputs = inner.program.inputs
        #: Values of the surrounding program that the body takes, with the values that stand for them in it.
        self.taken = {around: payload.memory.value for around, payload in inner.captured.items()}
        program = Program(
            [*own_inputs, *self.taken.values()], outputs, inner.program.instructions, inner.program.constants, name
        )
        self.program = simplify_program(program)
        self.own = own_inputs

    def hoist(self, tracer: Tracer) -> None:
        """Move computations that do not depend on the body's own inputs to the surrounding program."""
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
                [self._find_outer(tracer, a, outer) if a.__class__ is Value else a for a in instruction.arguments]
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

    def _find_outer(self, tracer: Tracer, value: Value, outer: dict[Value, Value]) -> Value:
        """Return the value of the surrounding program that equals a constant value of the body."""
        found = outer.get(value)
        if found is None:
            found = outer[value] = Value(value.shape, value.dtype)
            tracer.program.constants[found] = self.program.constants[value]
        return found
