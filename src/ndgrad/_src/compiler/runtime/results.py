"""Results of a compiled call, assembled as eager code would return them.

Each leaf of the result is a new tensor, an argument itself, a view of an argument, a view of memory that several
results share, or a plain value. New memory comes from the program. Views are taken eagerly by their ops, so that later
writes and gradients go through them.

Note [Order of results]
A result has the memory order of the eager one, because a later reshape is a view or a copy depending on its strides. A
program returns arrays in C order. So a dense result in another order leaves the program with its dimensions permuted,
and is permuted back. A view that is not dense, such as `x[:, 0]` or `x.expand(...)`, is taken from the whole memory,
which the program then returns. Gradients that a backward pass inside returns have the order of the inputs. A trace does
not see the order of other results of derivative rules, such as a gradient that a hook keeps, so a function that returns
one runs eagerly.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ndgrad._src.arrays.dtypes import dtype
from ndgrad._src.arrays.placement import CPU
from ndgrad._src.compiler.capture.captured_state import NUMBERS
from ndgrad._src.compiler.capture.captured_tensors import payload_of
from ndgrad._src.compiler.capture.graph_break import GraphBreak
from ndgrad._src.compiler.capture.memory_order import MOST_OF_RESULT, order_of, settle_array
from ndgrad._src.compiler.capture.number_placeholders import NumberPlaceholder
from ndgrad._src.compiler.capture.number_tape import LateNumbers
from ndgrad._src.compiler.capture.traced_arrays import Memory, Step, TracedArray
from ndgrad._src.compiler.capture.tracer import Tracer
from ndgrad._src.compiler.program.program import Value
from ndgrad._src.core.variable import BareTensor, Variable, meta_of, requires_grad, wrap
from ndgrad._src.core.versions import storage_of
from ndgrad._src.core.view import DEFAULT
from ndgrad._src.foundations.devices import device
from ndgrad._src.ops.vocabulary import find, tensor_ops
from ndgrad._src.tensor.tensor_class import Tensor


@dataclass(slots=True)
class New:
    """Memory that a call makes: the class of its tensor, and whether it has a history."""

    face: Any
    differentiable: bool
    #: Device of the memory.
    place: device = CPU
    #: Permutation of the dimensions of the program's array; None if there is none.
    dims: tuple[int, ...] | None = None
    #: Number of writes by eager code, and the op of the last one.
    writes: int = 0
    writer: str | None = None


@dataclass(slots=True)
class Leaf:
    """Origin of one leaf of the result."""

    #: NEW (new memory `number`), INPUT (the program's input `number`), PLAIN (`value` itself), NUMBER (number `number`
    #: computed by Python, of class `value`) or SAME (leaf `number` once more).
    kind: int
    number: int = 0
    #: Views that lead from there to the leaf.
    path: tuple[Step, ...] = ()
    value: Any = None
    #: Creation mode of a view (see ndgrad._src.core.view); None for other tensors.
    creation: str | None = None


NEW, INPUT, PLAIN, NUMBER, SAME = range(5)

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


class Results:
    """Origins of the leaves of a function's result, found from its trace."""

    def __init__(
        self,
        tracer: Tracer,
        returned: Sequence[Any],
        inputs: Sequence[Any],
        memories: Sequence[Memory],
        known: Container[int],
        lies_as_eager: bool = False,
    ) -> None:
        """Analyse the returned leaves; `prepare_numbers` must have run.

            inputs          the captured tensors that are the program's inputs
            memories        their memory in the trace
            known           identities of objects that existed before the trace
            lies_as_eager   see Note [Order of results]
        """
        self._tracer = tracer
        self._lies_as_eager = lies_as_eager
        self.leaves: list[Leaf] = []
        self.new: list[New] = []
        #: Values of new memory, and the tensors of the trace over it. Those with a history are differentiated.
        self.values: list[Value] = []
        self.tensors: list[Any] = []
        own = {id(t): i for i, t in enumerate(inputs)}
        sharing = _by_memory(returned)
        numbers: dict[int, int] = {}
        places = {id(memory): i for i, memory in enumerate(memories)}
        computed: list[int] = []
        first: dict[int, int] = {}
        for t in returned:
            if isinstance(t, Variable) and first.setdefault(id(t), len(self.leaves)) != len(self.leaves):
                self.leaves.append(Leaf(SAME, first[id(t)]))
                continue
            if type(t) is NumberPlaceholder:
                self.leaves.append(Leaf(NUMBER, len(computed), value=t.kind))
                computed.append(t.place)
                continue
            if not isinstance(t, Variable):
                if id(t) not in known and not _stays(t):
                    raise GraphBreak(
                        f"an object of class {type(t).__name__} is returned, which is another one at each call"
                    )
                self.leaves.append(Leaf(PLAIN, value=t))
                continue
            payload = t._array
            if id(t) not in own:
                _check_metadata(t)
            if not isinstance(payload, TracedArray):
                if id(t) not in own:
                    raise GraphBreak("a tensor is returned that no op has made")
                self.leaves.append(Leaf(INPUT, own[id(t)]))
            elif id(t) in own:
                self.leaves.append(Leaf(INPUT, own[id(t)]))
            elif id(payload.memory) in places:
                self.leaves.append(Leaf(INPUT, places[id(payload.memory)], _path(t, payload), creation=_creation(t)))
            elif len({id(other) for other in sharing[id(payload.memory)]}) == 1 and self._is_apart(t, payload):
                number = numbers.setdefault(id(payload.memory), len(self.new))
                if number == len(self.new):
                    self._add(t.face, tracer.value_of(payload), t, requires_grad(t), payload.stands_on)
                    self._arrange(payload, t)
                self.leaves.append(Leaf(NEW, number))
            else:
                number = numbers.setdefault(id(payload.memory), len(self.new))
                if number == len(self.new):
                    self._add_whole(payload.memory, sharing[id(payload.memory)])
                self.leaves.append(Leaf(NEW, number, _path(t, payload), creation=_creation(t)))

        #: Python's part after the program, if there is one, and the positions of its numbers among inputs and new
        #: memory.
        self.late: LateNumbers | None = None
        self.late_inputs: list[int] = []
        self.late_new: list[int] = []
        if computed:
            self._compute(tracer, computed, own)

        #: True if the leaves are exactly the new tensors, in order.
        self.is_made = self.leaves == [Leaf(NEW, i) for i in range(len(self.new))]

    def _is_apart(self, t: Any, payload: TracedArray) -> bool:
        """True if the program may return a result alone, although it may be a part of larger memory. It must be dense,
        and a view that may be written like any tensor.
        """
        if not self._lies_as_eager or payload.stands_on is not CPU or not payload.path:
            return True
        return _creation(t) in (None, DEFAULT) and order_of(payload) is not None

    def _arrange(self, payload: TracedArray, t: Any) -> None:
        """Give the last added memory the order and version of an eager result."""
        new = self.new[-1]
        if t is not None and t._storage is not None:
            new.writes, new.writer = t._storage.version.number, t._storage.version.writer
        if not self._lies_as_eager or payload.stands_on is not CPU:
            return
        order = order_of(payload)
        if order is None:
            raise GraphBreak("a result lies in memory as no program gives it")
        if order:
            (self.values[-1],) = self._tracer.emit(find("permute"), (self.values[-1],), {"dims": order})
            new.dims = tuple([order.index(d) for d in range(len(order))])

    def _compute(self, tracer: Tracer, places: Sequence[int], own: dict[int, int]) -> None:
        """Let Python compute the numbers at some places of the tape after the program."""
        self.late = tracer.numbers.make_late_function(places)
        self.late_inputs = [own[id(tracer.numbers.tensor(place))] for place in self.late.early]
        for value in self.late.reads:
            self.late_new.append(len(self.new))
            self._add(Tensor, value, None, False, CPU)

    def _add_whole(self, memory: Memory, parts: Sequence[Any]) -> None:
        """Add new memory of which several results show parts."""
        whole = next((t for t in parts if not t._array.path), None)
        if whole is None:
            views = [t._meta.view for t in parts if t._meta is not None and t._meta.view is not None]
            whole = next((view.base for view in views if not view.base._array.path), None)
        if whole is not None:
            self._add(whole.face, memory.value, whole, requires_grad(whole), memory.place or CPU)
            self._arrange(whole._array, whole)
        elif any(requires_grad(t) for t in parts):
            raise GraphBreak("views of one tensor are returned, and it is not known which")
        else:
            self._add(parts[0].face, memory.value, None, False, memory.place or CPU)
            if self._lies_as_eager and any(not _lies_in_ordered(t._array) for t in parts):
                raise GraphBreak("views of one tensor are returned, and it is not known in which order that lies")
            storage = parts[0]._storage
            if storage is not None:
                self.new[-1].writes, self.new[-1].writer = storage.version.number, storage.version.writer

    def _add(self, face: Any, value: Value, tensor: Any, differentiable: bool, place: device) -> None:
        self.new.append(New(face, differentiable, place))
        self.values.append(value)
        self.tensors.append(tensor)

    def forget_trace(self) -> None:
        """Drop the trace, whose graph holds all of its tensors."""
        self.tensors.clear()
        del self._tracer

    @property
    def roots(self) -> list[Any]:
        """Tensors of the trace with a history."""
        return [t for t, new in zip(self.tensors, self.new, strict=True) if new.differentiable]

    def wrap_arrays(self, arrays: Sequence[Any], node: Any) -> list[Any]:
        """Return the tensors over the new memory of a call. `arrays` starts with their arrays, and `node` is their
        history.
        """
        made, number = [], 0
        for new, array in zip(self.new, arrays):
            t = wrap(new.face, array if new.dims is None else array.transpose(new.dims))
            if new.writes:
                note_writes(t, new.writes, new.writer)
            if node is not None and new.differentiable:
                t._node = node
                if node.outputs != 1:
                    meta_of(t).output_nr = number
                number += 1
            made.append(t)
        return made

    def permute_back(self, made: Sequence[Any]) -> list[Any]:
        """Return tensors over new memory, made by ops as in the program, with the dimensions of the results."""
        return [
            t if new.dims is None else tensor_ops.permute(t, dims=new.dims)
            for new, t in zip(self.new, made, strict=True)
        ]

    def kinds(self) -> list[tuple[Any, Any]]:
        """Return the class of each leaf, and the dtype of a new tensor; None for inputs and views."""
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
        """Return the numbers that Python computes after the program, from its inputs and its new memory."""
        if self.late is None:
            return ()
        return self.late.compute(
            [inputs[i]._array.item() for i in self.late_inputs], [arrays[i].item() for i in self.late_new]
        )

    def assemble(self, inputs: Sequence[Any], made: Sequence[Any], numbers: Sequence[Any]) -> list[Any]:
        """Return the leaves of a call. `inputs` are its tensors, `made` those over new memory, `numbers` those computed
        by Python.
        """
        found: list[Any] = []
        for leaf in self.leaves:
            if leaf.kind == NEW or leaf.kind == INPUT:
                t = (made if leaf.kind == NEW else inputs)[leaf.number]
                found.append(_apply_views(t, leaf.path, leaf.creation) if leaf.path or leaf.creation is not None else t)
            elif leaf.kind == SAME:
                found.append(found[leaf.number])
            else:
                found.append(leaf.value if leaf.kind == PLAIN else numbers[leaf.number])
        return found


def _by_memory(returned: Sequence[Any]) -> dict[int, list[Any]]:
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
    if t.__class__ is not t.face:
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


def note_writes(t: Any, count: int, writer: str | None) -> None:
    """Set the version of a new tensor's memory to that after so many writes."""
    version = storage_of(t).version
    version.number = version.values = count
    version.writer = writer


def _apply_views(t: Any, path: tuple[Step, ...], creation: str | None) -> Any:
    for step in path:
        shown = step.op(t, **step.settings)
        t = shown if step.op.outputs == 1 else shown[step.number]
    if creation is not None and t._meta is not None and t._meta.view is not None:
        t._meta.view.creation = creation  # the function may have made the view in another mode
    return t
