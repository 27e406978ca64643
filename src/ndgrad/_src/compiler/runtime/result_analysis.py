"""Analysis of the results of a traced function: the origin of each leaf (ndgrad._src.compiler.runtime.results)."""

from __future__ import annotations

import sys
import types
from collections.abc import Container, Sequence
from typing import Any

import numpy as np

from ndgrad._src.arrays.dtypes import dtype
from ndgrad._src.arrays.placement import CPU
from ndgrad._src.compiler.capture.captured_state import NUMBERS
from ndgrad._src.compiler.capture.captured_tensors import payload_of
from ndgrad._src.compiler.capture.graph_break import GraphBreak
from ndgrad._src.compiler.capture.memory_order import MOST_OF_RESULT, order_of, settle_array
from ndgrad._src.compiler.capture.number_placeholders import NumberPlaceholder
from ndgrad._src.compiler.capture.traced_arrays import Memory, Step, TracedArray
from ndgrad._src.compiler.capture.tracer import Tracer
from ndgrad._src.compiler.program.program import Value
from ndgrad._src.compiler.runtime.results import INPUT, NEW, NUMBER, PLAIN, SAME, LateResults, Leaf, New, Results
from ndgrad._src.core.variable import BareTensor, Variable, requires_grad
from ndgrad._src.core.view import DEFAULT
from ndgrad._src.foundations.devices import device
from ndgrad._src.ops.vocabulary import find
from ndgrad._src.tensor.tensor_class import Tensor

#: Classes of immutable objects.
_STAYING = (*NUMBERS, types.ModuleType, dtype, device)


def _stays(value: Any) -> bool:
    """True if a returned object is the same at each call and cannot hold results of the call: a number, or a function
    or class that is found in its module. The function may have made other objects around tensors.
    """
    if isinstance(value, _STAYING):
        return True
    if isinstance(value, slice):
        return all(isinstance(part, NUMBERS) for part in (value.start, value.stop, value.step))
    if not isinstance(value, (types.FunctionType, types.BuiltinFunctionType, type)):
        return False
    found: Any = sys.modules.get(value.__module__ or "")
    for name in value.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is value


def analyse_results(
    tracer: Tracer,
    returned: Sequence[Any],
    inputs: Sequence[Any],
    memories: Sequence[Memory],
    known: Container[int],
    lies_as_eager: bool,
) -> tuple[Results, list[Any]]:
    """Return the origins of the returned leaves, and the tensors of the trace with a history among the new memory.
    `prepare_numbers` must have run.

        inputs          the captured tensors that are the program's inputs
        memories        their memory in the trace
        known           identities of objects that existed before the trace
        lies_as_eager   see Note [Order of results]
    """
    found = _Analysis(tracer, returned, inputs, memories, known, lies_as_eager)
    for t in returned:
        found.leaves.append(found.leaf_of(t))
    late = found.make_late()
    is_made = found.leaves == [Leaf(NEW, i) for i in range(len(found.new))]
    roots = [t for t, new in zip(found.tensors, found.new, strict=True) if new.differentiable]
    return Results(found.leaves, found.new, found.values, late, is_made), roots


class _Analysis:
    """Leaves and new memory found so far."""

    def __init__(
        self,
        tracer: Tracer,
        returned: Sequence[Any],
        inputs: Sequence[Any],
        memories: Sequence[Memory],
        known: Container[int],
        lies_as_eager: bool,
    ) -> None:
        self._tracer = tracer
        self._known = known
        self._lies_as_eager = lies_as_eager
        self.leaves: list[Leaf] = []
        self.new: list[New] = []
        #: Values of new memory, and the tensors of the trace over it. Those with a history are differentiated.
        self.values: list[Value] = []
        self.tensors: list[Any] = []
        #: Numbers of inputs by the identity of the tensor, and by that of its memory.
        self._inputs = {id(t): i for i, t in enumerate(inputs)}
        self._input_memories = {id(memory): i for i, memory in enumerate(memories)}
        #: Returned tensors by the identity of their memory, and the number of that memory if it is new.
        self._sharing = _group_by_memory(returned)
        self._new_memories: dict[int, int] = {}
        #: Position of the first leaf with a tensor, and places on the tape of the returned numbers.
        self._first: dict[int, int] = {}
        self._computed: list[int] = []

    def leaf_of(self, t: Any) -> Leaf:
        """Return the origin of the next leaf."""
        if isinstance(t, Variable):
            first = self._first.setdefault(id(t), len(self.leaves))
            return self._leaf_of_tensor(t) if first == len(self.leaves) else Leaf(SAME, first)
        if type(t) is NumberPlaceholder:
            self._computed.append(t.place)
            return Leaf(NUMBER, len(self._computed) - 1, value=t.kind)
        if id(t) not in self._known and not _stays(t):
            raise GraphBreak(f"an object of class {type(t).__name__} is returned, which is another one at each call")
        return Leaf(PLAIN, value=t)

    def _leaf_of_tensor(self, t: Any) -> Leaf:
        own = self._inputs.get(id(t))
        if own is not None:
            return Leaf(INPUT, own)
        _check_metadata(t)
        payload = t._array
        if not isinstance(payload, TracedArray):
            raise GraphBreak("a tensor is returned that no op has made")
        of_input = self._input_memories.get(id(payload.memory))
        if of_input is not None:
            return Leaf(INPUT, of_input, _path(t, payload), creation=_creation(t))
        sharing = self._sharing[id(payload.memory)]
        is_apart = len({id(other) for other in sharing}) == 1 and self._is_apart(t, payload)
        number = self._new_memories.setdefault(id(payload.memory), len(self.new))
        if number == len(self.new) and is_apart:
            self._add(t.tensor_type, self._tracer.value_of(payload), t, requires_grad(t), payload.stands_on)
            self._arrange(payload, t)
        elif number == len(self.new):
            self._add_whole(payload.memory, sharing)
        return Leaf(NEW, number) if is_apart else Leaf(NEW, number, _path(t, payload), creation=_creation(t))

    def _is_apart(self, t: Any, payload: TracedArray) -> bool:
        """True if the program may return a result alone, although it may be a part of larger memory. It must be dense,
        and a view that may be written like any tensor.
        """
        if not self._lies_as_eager or payload.stands_on is not CPU or not payload.path:
            return True
        if payload.is_of_rule and not payload.ndim:  # a number has no order, and eager rules make no views
            return True
        return _creation(t) in (None, DEFAULT) and order_of(payload) is not None

    def _arrange(self, payload: TracedArray, t: Any) -> None:
        """Give the last added memory the order and version of an eager result."""
        new = self.new[-1]
        if t is not None and t._storage is not None:
            new.writes, new.writer = t._storage.version.number, t._storage.version.writer
        if not self._lies_as_eager or payload.stands_on is not CPU:
            return
        order = order_of(payload) if payload.ndim else ()
        if order is None:
            raise GraphBreak("a result lies in memory as no program gives it")
        if order:
            (self.values[-1],) = self._tracer.emit(find("permute"), (self.values[-1],), {"dims": order})
            new.dims = tuple([order.index(d) for d in range(len(order))])

    def make_late(self) -> LateResults | None:
        """Let Python compute the returned numbers after the program, if there are any. The numbers that it reads become
        new memory.
        """
        if not self._computed:
            return None
        function = self._tracer.numbers.make_late_function(self._computed)
        inputs = [self._inputs[id(self._tracer.numbers.tensor(place))] for place in function.early]
        first = len(self.new)
        for value in function.reads:
            self._add(Tensor, value, None, False, CPU)
        return LateResults(function, inputs, [*range(first, len(self.new))])

    def _add_whole(self, memory: Memory, parts: Sequence[Any]) -> None:
        """Add new memory of which several results show parts."""
        whole = next((t for t in parts if not t._array.path), None)
        if whole is None:
            views = [t._meta.view for t in parts if t._meta is not None and t._meta.view is not None]
            whole = next((view.base for view in views if not view.base._array.path), None)
        if whole is not None:
            self._add(whole.tensor_type, memory.value, whole, requires_grad(whole), memory.place or CPU)
            self._arrange(whole._array, whole)
        elif any(requires_grad(t) for t in parts):
            raise GraphBreak("views of one tensor are returned, and it is not known which")
        else:
            self._add(parts[0].tensor_type, memory.value, None, False, memory.place or CPU)
            if self._lies_as_eager and any(not _lies_in_ordered(t._array) for t in parts):
                raise GraphBreak("views of one tensor are returned, and it is not known in which order that lies")
            storage = parts[0]._storage
            if storage is not None:
                self.new[-1].writes, self.new[-1].writer = storage.version.number, storage.version.writer

    def _add(self, tensor_type: Any, value: Value, tensor: Any, differentiable: bool, place: device) -> None:
        self.new.append(New(tensor_type, differentiable, place))
        self.values.append(value)
        self.tensors.append(tensor)


def _group_by_memory(returned: Sequence[Any]) -> dict[int, list[Any]]:
    """Return the returned tensors of the trace by the identity of their memory."""
    sharing: dict[int, list[Any]] = {}
    for t in returned:
        if isinstance(t, Variable) and t._meta is not None and t._meta.names is not None:
            raise GraphBreak("a tensor is returned whose dimensions have names")
        if isinstance(t, Variable) and isinstance(t._array, TracedArray):
            sharing.setdefault(id(t._array.memory), []).append(t)
    return sharing


def prepare_numbers(tracer: Tracer, returned: Sequence[Any]) -> None:
    """Make early numbers that results depend on inputs of the program. If gradients are possible, do the same with the
    numbers in slots, because derivatives are traced later.
    """
    computed = [t.place for t in returned if type(t) is NumberPlaceholder]
    places = tracer.numbers.make_late_function(computed).early if computed else []
    if any(isinstance(t, Variable) and requires_grad(t) for t in returned):
        places = [*places, *[place for place in tracer.numbers.slot_places() if tracer.numbers.has_tensor(place)]]
    for place in places:
        t = tracer.numbers.tensor(place)
        tracer.capture(t, payload_of(t))


def _path(t: Any, payload: TracedArray) -> tuple[Step, ...]:
    """Return the views that lead to a result."""
    if payload.is_of_rule:
        settle_array(payload)
    if (
        t._meta is not None
        and t._meta.view is None
        and any(not step.op.shares_storage for step in payload.path)
        and requires_grad(t)
    ):
        raise GraphBreak("a view with a history of its own is returned")
    return payload.path


def _creation(t: Any) -> str | None:
    """Return the creation mode of a view; None for other tensors."""
    return None if t._meta is None or t._meta.view is None else t._meta.view.creation


def _check_metadata(t: Any) -> None:
    """Raise if a tensor that the function has made has metadata that a program cannot give to a result."""
    if BareTensor.__dict__["__dict__"].__get__(t):
        raise GraphBreak("a tensor is returned that has attributes of the user's")
    if t.__class__ is not t.tensor_type:
        raise GraphBreak(f"a tensor of class {t.__class__.__name__} is made and returned")
    meta = t._meta
    if meta is None:
        return
    if meta.requires_grad and t._node is None:
        raise GraphBreak("a leaf that requires grad is made and returned")
    if meta.hooks or meta.post_accumulate_hooks or meta.retains_grad:
        raise GraphBreak("a tensor is returned that has hooks or retains its gradient")
    if meta.grad is not None or meta.grad_dtype is not None:
        raise GraphBreak("a tensor is returned that has a gradient")


def _lies_in_ordered(payload: TracedArray) -> bool:
    """True if an array has the strides of its views on whole memory in C order."""
    whole = TracedArray(payload.memory.value, payload.memory)
    settle_array(payload, MOST_OF_RESULT)
    shown: Any = whole.stand_in()
    for step in payload.path:
        shown = step.op.forward_for(np)(shown, **step.settings)
        shown = shown if step.op.outputs == 1 else shown[step.number]
    return all(n == 1 or a == b for n, a, b in zip(payload.shape, payload.strides, shown.strides, strict=True))
