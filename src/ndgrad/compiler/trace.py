"""The tracer: an observer that writes down ops instead of running them.

It stands below autograd, transforms, hooks and modes: these do with traced tensors what they do with others, so that gradients, batches and
tangents are part of the program like everything else. What an op gives in shape and dtype is asked of the op itself, on arrays without
data, once for each combination.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import ndgrad
from ndgrad.arrays.meta import MetaArray
from ndgrad.autograd.op_observers import Factory, InPlaceForm
from ndgrad.autograd.record import run_forward
from ndgrad.autograd.variable import Variable, wrap
from ndgrad.compiler.graph_break import GraphBreak
from ndgrad.compiler.payload import Memory, Step, TracedArray
from ndgrad.compiler.program import Argument, Instruction, Program, Value
from ndgrad.ops.table import RANDOM
from ndgrad.ops.vocabulary import find

_PACKAGE = str(Path(ndgrad.__file__).parent)

#: (op, arguments in shape and dtype, settings) -> (several results?, their shapes and dtypes)
_inferred: dict[Any, tuple[bool, tuple[tuple[tuple[int, ...], np.dtype[Any]], ...]]] = {}


class Captured(NamedTuple):
    """A tensor or array that is none of the arguments: itself, its array when it was met, and what stands for it."""

    source: Any
    array: Any
    payload: TracedArray


class Tracer:
    """Ops become instructions of `program`; tensors and arrays from outside become inputs, in `captured`."""

    #: it wants the tensors of a call, not only their arrays
    wants_tensors = True

    def __init__(self, name: str = "program") -> None:
        self.program = Program([], [], name=name)
        #: tensors and arrays that the function took from elsewhere, or made from numbers
        self.captured: list[Captured] = []
        #: by the address of the array, since autograd makes other tensors over it; `captured` keeps it alive
        self._traced_of: dict[int, TracedArray] = {}

    # ----- values --------------------------------------------------------------------------------------------------------

    def input(self, array: Any, source: Any = None) -> TracedArray:
        """A traced array in the place of an array from outside: another input of the program."""
        value = Value(tuple(array.shape), array.dtype)
        self.program.inputs.append(value)
        return TracedArray(value, Memory(self, value, source), strides=tuple(array.strides))

    def array(self, value: Value) -> TracedArray:
        """A traced array for a value, in memory of its own."""
        return TracedArray(value, Memory(self, value))

    def stands_for(self, array: Any, payload: TracedArray) -> None:
        """Let a traced array be used wherever the function uses an array that it was given."""
        self._traced_of[id(array)] = payload

    def memory_of(self, array: Any) -> Memory | None:
        """The memory of an array from outside, as far as the trace has met it."""
        payload = self._traced_of.get(id(array))
        return None if payload is None else payload.memory

    def _capture(self, given: Any) -> TracedArray:
        """A tensor or array that the function took from elsewhere, or made from numbers: an input from now on."""
        array = given._array if isinstance(given, Variable) else given
        payload = self._traced_of.get(id(array))
        if payload is None:
            if not isinstance(array, (np.ndarray, np.generic)):
                raise GraphBreak(f"an array of class {type(array).__name__} takes part")
            payload = self.input(array, given)
            self.captured.append(Captured(given, array, payload))
            self.stands_for(array, payload)
        return payload

    def bake(self, first: int) -> None:
        """Make constants of the arrays that the trace met from number `first` on: rules of gradients have made them."""
        for _, array, payload in self.captured[first:]:
            value = payload.memory.value
            self.program.inputs.remove(value)
            self.program.constants[value] = np.array(array)
        del self.captured[first:]

    def value_of(self, payload: TracedArray) -> Value:
        """What a traced array holds now: if its memory was written since, it is taken from there again."""
        memory = payload.memory
        if payload.version != memory.version:
            value = memory.value
            for step in payload.path:
                value = self.emit(step.op, (value,), step.settings)[step.number]
            payload._value, payload.version = value, memory.version
        return payload._value

    def _argument(self, given: Any, array: Any) -> Argument:
        if isinstance(array, TracedArray):
            return self.value_of(array)
        if isinstance(array, np.ndarray) or (isinstance(array, np.generic) and isinstance(given, Variable)):
            return self.value_of(self._capture(given))
        if isinstance(array, Variable):
            raise GraphBreak("a tensor of a transform that has ended takes part")
        return array

    # ----- instructions --------------------------------------------------------------------------------------------------

    def emit(self, op: Any, arguments: Sequence[Argument], settings: dict[str, Any]) -> tuple[Value, ...]:
        """Write down an op on values; its results."""
        _, types = infer(op, arguments, settings)
        results = tuple([Value(shape, dtype) for shape, dtype in types])
        self.program.instructions.append(Instruction(op, tuple(arguments), settings, results, _where()))
        return results

    def __call__(self, op: Any, tensors: Sequence[Any], arrays: Sequence[Any], settings: dict[str, Any], run: Callable[[], Any]) -> Any:
        """What the observer answers to an op: traced arrays for its results."""
        if isinstance(op, InPlaceForm):
            return self._write(op.op, tensors, arrays, settings)
        if isinstance(op, Factory):
            return self._made(op)
        if op.batch is RANDOM:
            raise GraphBreak(f"{op.name} draws random numbers")
        if op.needs_values:
            raise GraphBreak(f"the shape of what {op.name} gives depends on values")
        arguments = [self._argument(t, a) for t, a in zip(tensors, arrays, strict=True)]
        results = self.emit(op, arguments, settings)
        if op.view or op.shares_storage:
            source = arrays[0] if isinstance(arrays[0], TracedArray) else self._capture(tensors[0])
            out = tuple([self._shown(source, op, settings, i, value) for i, value in enumerate(results)])
        else:
            out = tuple([self.array(value) for value in results])
        return out[0] if op.outputs == 1 else out

    def _shown(self, source: TracedArray, op: Any, settings: dict[str, Any], number: int, value: Value) -> TracedArray:
        """The result of a view op: a part of its argument's memory, or of its own where NumPy copies."""
        strides = view_strides(source, op, settings, number)
        if strides is None:
            return self.array(value)
        step = Step(op, settings, number, value.shape, value.dtype)
        shown = TracedArray(value, source.memory, (*source.path, step), strides)
        shown.version = source.memory.version
        return shown

    def _made(self, factory: Factory) -> TracedArray:
        """A new tensor of zeros, ones or another number is a constant of the program."""
        value = Value(tuple(factory.array.shape), factory.array.dtype)
        self.program.constants[value] = factory.array.copy()
        return self.array(value)

    # ----- writes --------------------------------------------------------------------------------------------------------

    def _write(self, op: Any, tensors: Sequence[Any], arrays: Sequence[Any], settings: dict[str, Any]) -> TracedArray:
        """`target` becomes op(target, ...): its memory gets another value."""
        if op.batch is RANDOM:
            raise GraphBreak(f"{op.name}_ draws random numbers")
        payload = arrays[0] if isinstance(arrays[0], TracedArray) else self._capture(tensors[0])
        target = self.value_of(payload)
        arguments = [target, *[self._argument(t, a) for t, a in zip(tensors[1:], arrays[1:], strict=True)]]
        (value,) = self.emit(op, arguments, settings)
        self.assign(payload, value)
        return payload

    def assign(self, payload: TracedArray, value: Value) -> None:
        """Let a traced array, and all that share its memory, hold another value, cast and broadcast to what it is."""
        if value.dtype != payload.dtype:
            (value,) = self.emit(find("cast"), (value,), {"dtype": payload.dtype})
        if value.shape != payload.shape:
            (value,) = self.emit(find("expand"), (value,), {"shape": payload.shape})
        memory = payload.memory
        whole = value
        if payload.path:
            parents = [memory.value]
            for step in payload.path[:-1]:
                parents.append(self.emit(step.op, (parents[-1],), step.settings)[step.number])
            for step, parent in zip(reversed(payload.path), reversed(parents), strict=True):
                whole = self._replaced(parent, step, whole)
        memory.value, memory.written = whole, True
        memory.version += 1
        payload._value, payload.version = value, memory.version

    def _replaced(self, parent: Value, step: Step, part: Value) -> Value:
        """`parent` with what a view op shows of it replaced."""
        op, settings = step.op, step.settings
        emit = self.emit
        match op.name:
            case "alias" | "detach" | "reshape" | "squeeze" | "squeeze_dim" | "squeeze_dims" | "unsqueeze":
                return emit(find("reshape"), (part,), {"shape": parent.shape})[0]
            case "permute":
                back = tuple(int(i) for i in np.argsort(settings["dims"]))
                return emit(op, (part,), {"dims": back})[0]
            case "transpose" | "t":
                return emit(op, (part,), settings)[0]
            case "getitem":
                return emit(find("slice_scatter"), (parent, part), {"index": settings["index"]})[0]
            case "select":
                index = (slice(None),) * settings["dim"] + (settings["index"],)
                return emit(find("slice_scatter"), (parent, part), {"index": index})[0]
            case "slice":
                cut = slice(settings["start"], settings["stop"], settings["step"])
                return emit(find("slice_scatter"), (parent, part), {"index": (slice(None),) * settings["dim"] + (cut,)})[0]
            case "real":
                return emit(find("complex"), (part, emit(find("imag"), (parent,), {})[0]), {})[0]
            case "imag":
                return emit(find("complex"), (emit(find("real"), (parent,), {})[0], part), {})[0]
            case "view_as_real":
                return emit(find("view_as_complex"), (part,), {})[0]
            case "view_as_complex":
                return emit(find("view_as_real"), (part,), {})[0]
            case "view_dtype":
                raise GraphBreak("a tensor is written through a view as another dtype")
        return self._scattered(parent, step, part)

    def _scattered(self, parent: Value, step: Step, part: Value) -> Value:
        """The same for any view op: the places that it shows are found by showing their numbers."""
        places = np.arange(parent.size).reshape(parent.shape)
        shown = step.op.forward_for(np)(places, **step.settings)
        shown = (shown if step.op.outputs == 1 else shown[step.number]).reshape(-1)
        if len(np.unique(shown)) != len(shown):
            raise GraphBreak("a tensor is written of which several elements are one place in memory")
        index = Value(shown.shape, shown.dtype)
        self.program.constants[index] = shown
        reshape = find("reshape")
        (flat,) = self.emit(reshape, (parent,), {"shape": (parent.size,)})
        (row,) = self.emit(reshape, (part,), {"shape": (part.size,)})
        (out,) = self.emit(find("scatter"), (flat, index, row), {"dim": 0})
        return self.emit(reshape, (out,), {"shape": parent.shape})[0]


# ----- shapes --------------------------------------------------------------------------------------------------------------


def infer(op: Any, arguments: Sequence[Argument], settings: dict[str, Any]) -> tuple[bool, tuple[tuple[tuple[int, ...], np.dtype[Any]], ...]]:
    """Whether an op has several results on these arguments, and their shapes and dtypes."""
    key: Any = (
        op,
        tuple([(a.shape, a.dtype) if a.__class__ is Value else (a.__class__, a) for a in arguments]),
        tuple(settings.items()),
    )
    try:
        found = _inferred.get(key)
    except TypeError:  # a setting that has no hash
        key = found = None
    if found is None:
        arrays = [MetaArray(a.shape, a.dtype) if a.__class__ is Value else a for a in arguments]
        with np.errstate(all="ignore"):
            out = run_forward(op, np, tuple(arrays), arrays, settings)
        several = op.outputs != 1
        found = (several, tuple([(tuple(o.shape), o.dtype) for o in (out if several else (out,))]))
        if key is not None:
            if len(_inferred) > 20_000:
                _inferred.clear()
            _inferred[key] = found
    return found


def view_strides(source: TracedArray, op: Any, settings: dict[str, Any], number: int) -> tuple[int, ...] | None:
    """The strides of what a view op shows of an array, None where NumPy would copy. No memory is touched."""
    if op.name in ("as_strided", "view_dtype"):
        raise GraphBreak(f"{op.name} shows memory in another way than a program can")
    if op.shares_storage:
        return source.strides
    if not source.size:
        return None
    stand_in = np.lib.stride_tricks.as_strided(np.zeros(1, source.dtype), source.shape, source.strides)
    if op.name == "reshape":
        try:
            stand_in.shape = settings["shape"]
        except (AttributeError, ValueError):
            return None
        return stand_in.strides
    shown = op.forward_for(np)(stand_in, **settings)
    shown = shown if op.outputs == 1 else shown[number]
    return tuple(shown.strides) if np.may_share_memory(shown, stand_in) else None


def _where() -> str | None:
    """The line outside ndgrad that asked for the op."""
    frame = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back  # type: ignore[assignment]
    if frame is None or frame.f_code.co_filename.startswith("<"):
        return None
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"


def traced_tensor(face: type[Any], payload: TracedArray, requires_grad: bool) -> Any:
    """A leaf over a traced array."""
    t = wrap(face, payload)
    if requires_grad:
        t.requires_grad_(True)
    return t
