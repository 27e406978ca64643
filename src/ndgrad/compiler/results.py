"""What a compiled call returns, put together as eager code would have.

Each leaf of the result is a new tensor, an argument itself, a view of an argument, a view of memory that several
results share, or a plain value. New memory comes out of the program; views are taken by their ops, eagerly, so that
later writes and gradients go through them.
"""

from __future__ import annotations

import types
from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Any

from ndgrad._tensor import Tensor
from ndgrad.arrays.placement import CPU
from ndgrad.autograd.variable import Variable, meta_of, requires_grad, wrap
from ndgrad.compiler.graph_break import GraphBreak
from ndgrad.compiler.holding import NUMBERS
from ndgrad.compiler.number_tape import LateNumbers
from ndgrad.compiler.outside import payload_of
from ndgrad.compiler.payload import Memory, Step, TracedArray
from ndgrad.compiler.program import Value
from ndgrad.compiler.read_numbers import ReadNumber
from ndgrad.compiler.trace import Tracer
from ndgrad.devices import device
from ndgrad.dtypes import dtype


@dataclass(slots=True)
class New:
    """Memory that a call makes: the class of the tensor over it, and whether it has a history."""

    face: Any
    differentiable: bool
    #: the device that it is on
    place: device = CPU


@dataclass(slots=True)
class Leaf:
    """Where one leaf of the result comes from."""

    #: NEW (new memory `number`), INPUT (the program's input `number`), PLAIN (`value` itself) or NUMBER (number
    #: `number` of those that Python computes, of class `value`)
    kind: int
    number: int = 0
    #: the views that lead from there to the leaf
    path: tuple[Step, ...] = ()
    value: Any = None


NEW, INPUT, PLAIN, NUMBER = range(4)

#: Objects that nobody can change.
_STAYING = (*NUMBERS, types.FunctionType, types.BuiltinFunctionType, type, types.ModuleType, slice, dtype, device)


class Results:
    """How the leaves of what a function returned come about, from a trace of it."""

    def __init__(
        self,
        tracer: Tracer,
        returned: Sequence[Any],
        inputs: Sequence[Any],
        memories: Sequence[Memory],
        known: Container[int],
    ) -> None:
        """`inputs`: the tensors from outside that are the program's inputs, `memories` what they have of it, and
        `known` the identities of objects that were there before. `prepare_numbers` comes first."""
        self.leaves: list[Leaf] = []
        self.new: list[New] = []
        #: the values of new memory, and the tensors of the trace over it, of which those with a
        #: history are differentiated
        self.values: list[Value] = []
        self.tensors: list[Any] = []
        own = {id(t): i for i, t in enumerate(inputs)}
        sharing: dict[int, list[Any]] = {}
        for t in returned:
            if isinstance(t, Variable) and t._meta is not None and t._meta.names is not None:
                raise GraphBreak("a tensor is returned whose dimensions have names")
            if isinstance(t, Variable) and isinstance(t._array, TracedArray):
                sharing.setdefault(id(t._array.memory), []).append(t)
        numbers: dict[int, int] = {}
        places = {id(memory): i for i, memory in enumerate(memories)}
        computed: list[int] = []
        for t in returned:
            if type(t) is ReadNumber:
                self.leaves.append(Leaf(NUMBER, len(computed), value=t.kind))
                computed.append(t.place)
                continue
            if not isinstance(t, Variable):
                if not isinstance(t, _STAYING) and id(t) not in known:
                    raise GraphBreak(
                        f"an object of class {type(t).__name__} is returned, which is another one at each call"
                    )
                self.leaves.append(Leaf(PLAIN, value=t))
                continue
            payload = t._array
            if not isinstance(payload, TracedArray):
                if id(t) not in own:
                    raise GraphBreak("a tensor is returned that no op has made")
                self.leaves.append(Leaf(INPUT, own[id(t)]))
            elif id(t) in own:
                self.leaves.append(Leaf(INPUT, own[id(t)]))
            elif id(payload.memory) in places:
                self.leaves.append(Leaf(INPUT, places[id(payload.memory)], _path(t, payload)))
            elif len({id(other) for other in sharing[id(payload.memory)]}) == 1:
                number = numbers.setdefault(id(payload.memory), len(self.new))
                if number == len(self.new):
                    self._add(t.face, tracer.value_of(payload), t, requires_grad(t), payload.stands_on)
                self.leaves.append(Leaf(NEW, number))
            else:
                number = numbers.setdefault(id(payload.memory), len(self.new))
                if number == len(self.new):
                    self._add_whole(payload.memory, sharing[id(payload.memory)])
                self.leaves.append(Leaf(NEW, number, _path(t, payload)))

        #: Python's part after the program, if there is one, and where the numbers that it takes are: inputs and new memory
        self.late: LateNumbers | None = None
        self.late_inputs: list[int] = []
        self.late_new: list[int] = []
        if computed:
            self._compute(tracer, computed, own)

        #: whether the leaves are just what was made, in order
        self.is_made = self.leaves == [Leaf(NEW, i) for i in range(len(self.new))]

    def _compute(self, tracer: Tracer, places: Sequence[int], own: dict[int, int]) -> None:
        """Let Python compute the numbers at some places of the tape after the program."""
        self.late = tracer.numbers.late_function(places)
        self.late_inputs = [own[id(tracer.numbers.tensor(place))] for place in self.late.early]
        for value in self.late.reads:
            self.late_new.append(len(self.new))
            self._add(Tensor, value, None, False, CPU)

    def _add_whole(self, memory: Memory, parts: Sequence[Any]) -> None:
        """New memory of which several results show parts."""
        whole = next((t for t in parts if not t._array.path), None)
        if whole is None:
            views = [t._meta.view for t in parts if t._meta is not None and t._meta.view is not None]
            whole = next((view.base for view in views if not view.base._array.path), None)
        if whole is not None:
            self._add(whole.face, memory.value, whole, requires_grad(whole), memory.place or CPU)
        elif any(requires_grad(t) for t in parts):
            raise GraphBreak("views of one tensor are returned, and it is not known which")
        else:
            self._add(parts[0].face, memory.value, None, False, memory.place or CPU)

    def _add(self, face: Any, value: Value, tensor: Any, differentiable: bool, place: device) -> None:
        self.new.append(New(face, differentiable, place))
        self.values.append(value)
        self.tensors.append(tensor)

    def forget_trace(self) -> None:
        """Keep nothing of the trace, whose graph holds all of its tensors."""
        self.tensors.clear()

    @property
    def roots(self) -> list[Any]:
        """The tensors of the trace that have a history."""
        return [t for t, new in zip(self.tensors, self.new, strict=True) if new.differentiable]

    def wrapped(self, arrays: Sequence[Any], node: Any) -> list[Any]:
        """The tensors over the new memory of a call, whose arrays come first; `node` is the history of what has one."""
        made, number = [], 0
        for new, array in zip(self.new, arrays):
            t = wrap(new.face, array)
            if node is not None and new.differentiable:
                t._node = node
                if node.outputs != 1:
                    meta_of(t).output_nr = number
                number += 1
            made.append(t)
        return made

    def kinds(self) -> list[tuple[Any, Any]]:
        """The class of each leaf, and the dtype of a new tensor; None for what is an input, or a part of something."""
        return [
            (leaf.value.__class__, getattr(leaf.value, "dtype", None))
            if leaf.kind == PLAIN
            else (leaf.value, None)
            if leaf.kind == NUMBER
            else (self.new[leaf.number].face, self.values[leaf.number].dtype)
            if leaf.kind == NEW and not leaf.path
            else (None, None)
            for leaf in self.leaves
        ]

    def numbers(self, inputs: Sequence[Any], arrays: Sequence[Any]) -> Sequence[Any]:
        """The numbers that Python computes after the program, from its inputs and its new memory."""
        if self.late is None:
            return ()
        return self.late.compute(
            [inputs[i]._array.item() for i in self.late_inputs], [arrays[i].item() for i in self.late_new]
        )

    def assembled(self, inputs: Sequence[Any], made: Sequence[Any], numbers: Sequence[Any]) -> list[Any]:
        """The leaves of a call: `inputs` are its tensors, `made` those over new memory, `numbers` what Python has
        computed."""
        return [
            leaf.value
            if leaf.kind == PLAIN
            else numbers[leaf.number]
            if leaf.kind == NUMBER
            else _seen((made if leaf.kind == NEW else inputs)[leaf.number], leaf.path)
            for leaf in self.leaves
        ]


def prepare_numbers(tracer: Tracer, returned: Sequence[Any]) -> None:
    """Let early numbers that results depend on be inputs of the program; and if gradients may be asked for, the numbers in
    slots, of which derivatives are traced later."""
    computed = [t.place for t in returned if type(t) is ReadNumber]
    places = tracer.numbers.late_function(computed).early if computed else []
    if any(isinstance(t, Variable) and requires_grad(t) for t in returned):
        places = [*places, *[place for place in tracer.numbers.slot_places() if tracer.numbers.has_tensor(place)]]
    for place in places:
        t = tracer.numbers.tensor(place)
        tracer.outside_of(t, payload_of(t))


def _path(t: Any, payload: TracedArray) -> tuple[Step, ...]:
    """The views that lead to a result."""
    if (
        t._meta is not None
        and t._meta.view is None
        and any(not step.op.shares_storage for step in payload.path)
        and requires_grad(t)
    ):
        raise GraphBreak("a view with a history of its own is returned")
    return payload.path


def _seen(t: Any, path: tuple[Step, ...]) -> Any:
    for step in path:
        shown = step.op(t, **step.settings)
        t = shown if step.op.outputs == 1 else shown[step.number]
    return t
