"""A function traced for one kind of arguments: its programs, and how a call uses them.

    inputs      the tensors among the arguments, then the tensors that the function took from elsewhere (read anew at each call)
    forward     inputs -> the new memory of the results, what was written into inputs, and what backward needs
    backward    what was kept, and the gradients of the results -> the gradients of the inputs
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ndgrad.autograd.backward_api import grad
from ndgrad.autograd.inplace import write
from ndgrad.autograd.modes import restore, scope, thread
from ndgrad.autograd.node import make_node
from ndgrad.autograd.op_observers import observing
from ndgrad.autograd.variable import Variable, edge, requires_grad, wrap
from ndgrad.compiler.backend import runner
from ndgrad.compiler.graph_break import GraphBreak
from ndgrad.compiler.node import CompiledFunctionBackward
from ndgrad.compiler.partition import split
from ndgrad.compiler.passes import simplified
from ndgrad.compiler.program import Program, Value
from ndgrad.compiler.results import Results
from ndgrad.compiler.trace import Tracer, traced_tensor
from ndgrad.compiler.whole import Whole
from ndgrad.ops.fill import copy
from ndgrad.pytree import TreeSpec, tree_flatten, tree_unflatten


class Specialisation:
    """One traced function, ready to be called with arguments like those it was traced with."""

    def __init__(self, function: Callable[..., Any], flat: Sequence[Any], spec: TreeSpec, name: str) -> None:
        self.function = function
        self.spec = spec
        tensor_places = [i for i, leaf in enumerate(flat) if isinstance(leaf, Variable)]
        first = {id(flat[place]): place for place in reversed(tensor_places)}
        #: where the tensors are among the leaves of the arguments: each once, and each place with the number of its tensor
        self.places = sorted(first.values())
        self.numbers = {place: self.places.index(first[id(flat[place])]) for place in tensor_places}
        self._trace(flat, name)

    # ----- tracing -------------------------------------------------------------------------------------------------------

    def _trace(self, flat: Sequence[Any], name: str) -> None:
        tracer = Tracer(name)
        arguments = [flat[place] for place in self.places]
        stand_ins = []
        for t in arguments:
            payload = tracer.input(np.asarray(t._array), t)
            stand_ins.append(traced_tensor(t.__class__, payload, thread.grad_enabled and requires_grad(t)))
        payloads = [t._array for t in stand_ins]
        outside = scope()
        try:
            with observing(tracer):
                returned, self.result_spec = tree_flatten(self._called(flat, stand_ins))
                for t, payload in zip(stand_ins, payloads, strict=True):
                    _check_argument(t, payload)
                #: what the function took from elsewhere
                self.captured = [c.source for c in tracer.captured]
                inputs = [*stand_ins, *self.captured]
                memories = [*[p.memory for p in payloads], *[c.payload.memory for c in tracer.captured]]
                self.results = Results(tracer, returned, inputs, memories)
                wanted = [i for i, t in enumerate(inputs) if isinstance(t, Variable) and requires_grad(t)]
                cotangents, gradients = _gradients(tracer, self.results.roots, [inputs[i] for i in wanted])
                tracer.bake(len(self.captured))
        finally:
            restore(outside)
            del outside
        self.count = len(inputs)
        #: the inputs that the function writes
        self.writes = [i for i, memory in enumerate(memories) if memory.written]
        self._check_writes([*arguments, *self.captured])
        values = [*self.results.values, *[memories[i].value for i in self.writes]]
        #: the inputs that get a gradient
        self.gradients_of = [i for i, g in zip(wanted, gradients, strict=False) if g is not None]
        grads = [tracer.value_of(g._array) for g in gradients if g is not None]
        self._split(tracer.program, values, cotangents, grads)

    def _called(self, flat: Sequence[Any], tensors: Sequence[Any]) -> Any:
        """The function on the arguments, with these tensors in the place of its own."""
        args, kwargs = tree_unflatten([tensors[self.numbers[i]] if i in self.numbers else leaf for i, leaf in enumerate(flat)], self.spec)
        return self.function(*args, **kwargs)

    def _check_writes(self, inputs: Sequence[Any]) -> None:
        """A write to memory that another input shares would be one to that, too."""
        if self.writes and _share([t._array if isinstance(t, Variable) else t for t in inputs], self.writes):
            raise GraphBreak("an input is written that shares memory with another")

    def _split(self, program: Program, values: list[Value], cotangents: list[Value], gradients: list[Value]) -> None:
        program.outputs = [*values, *gradients]
        program.check()
        #: forward and backward in one
        self.program = simplified(program)
        values, gradients = self.program.outputs[: len(values)], self.program.outputs[len(values) :]
        halves = split(self.program, values, cotangents, gradients)
        position = {v: i for i, v in enumerate(self.program.inputs)}
        made = [v for v in halves.kept if v not in position]
        #: for each value that backward takes: (True, the number of an input) or (False, its place among what forward made for it)
        self.kept_from = [(True, position[v]) if v in position else (False, made.index(v)) for v in halves.kept]
        halves.forward.outputs = [*values, *made]
        self.forward, self.backward = halves.forward, halves.backward
        self.run_forward = runner(self.forward)
        self.run_backward = runner(self.backward)
        scalar = len(cotangents) == 1 and not cotangents[0].shape and cotangents[0].dtype.kind == "f" and bool(gradients)
        #: the whole in one program, for a function of one scalar (see ndgrad.compiler.whole)
        self.whole = Whole(self.program, cotangents[0], self.backward) if scalar else None

    # ----- calling -------------------------------------------------------------------------------------------------------

    def __call__(self, flat: Sequence[Any]) -> Any:
        inputs = [flat[place] for place in self.places] + self.captured
        arrays = [np.asarray(t._array) if isinstance(t, Variable) else t for t in inputs]
        if self.writes and _share(arrays, self.writes):
            return self._called(flat, inputs)
        recording = self.results.roots and thread.grad_enabled
        at_once = recording and self.whole is not None and self.whole.pays()
        found = self.whole.run(arrays) if at_once else self.run_forward(arrays)
        new = len(self.results.values)
        made = [_owned(array, arrays) for array in found[:new]]
        node = self._node(flat, inputs, made, found[new + len(self.writes) :]) if recording else None
        if at_once:
            node.has_gradients = True
        for i, value in zip(self.writes, found[new:], strict=False):
            write(copy, inputs[i], (wrap(inputs[i].face, value),), {})
        return tree_unflatten(self.results.assembled(inputs, made, node), self.result_spec)

    def _node(self, flat: Sequence[Any], inputs: list[Any], made: Sequence[Any], kept: list[Any]) -> Any:
        """The node of a call."""
        edges = tuple([edge(t) if isinstance(t, Variable) else None for t in inputs])
        outputs = [(tuple(a.shape), a.dtype) for a, new in zip(made, self.results.new, strict=True) if new.differentiable]
        node = make_node(CompiledFunctionBackward, edges, *outputs[0])
        node.outputs, node.metadata_of_outputs = len(outputs), list(outputs)
        node.specialisation = self
        node.arguments = [None if i in self.numbers else leaf for i, leaf in enumerate(flat)]
        node.save(inputs)
        node.made = kept
        return node

    def again(self, arguments: Sequence[Any], inputs: Sequence[Any]) -> list[Any]:
        """The results of an eager call that have a history."""
        returned, _ = tree_flatten(self._called(arguments, inputs))
        places = [
            next(i for i, leaf in enumerate(self.results.leaves) if leaf.kind == 0 and leaf.number == number and not leaf.path)
            for number, new in enumerate(self.results.new)
            if new.differentiable
        ]
        return [returned[place] for place in places]


def _gradients(tracer: Tracer, roots: Sequence[Any], wanted: Sequence[Any]) -> tuple[list[Value], list[Any]]:
    """The inputs of the program that stand for the gradients of the results, and the gradients of `wanted`; none if none are asked for."""
    if not roots or not wanted:
        return [], []
    given = [traced_tensor(t.face, tracer.input(t._array), False) for t in roots]
    return [t._array.memory.value for t in given], list(grad(roots, wanted, given, allow_unused=True))


def _check_argument(t: Any, payload: Any) -> None:
    if t._array is not payload:
        raise GraphBreak("an argument is given another shape or other memory in place")
    if payload.memory.written and t._node is not None:
        raise GraphBreak("an argument is written and gets a history")


def _share(arrays: Sequence[Any], written: Sequence[int]) -> bool:
    return any(i != j and np.may_share_memory(arrays[i], other) for i in written for j, other in enumerate(arrays))


def _owned(array: Any, inputs: Sequence[Any]) -> Any:
    """A result in memory of its own: what a program gives may be an input, or a view."""
    if array.__class__ is not np.ndarray:
        return array
    return array.copy() if array.base is not None or any(array is a for a in inputs) else array
