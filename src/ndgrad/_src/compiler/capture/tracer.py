"""The tracer: an op observer that records ops instead of running them.

It sits below autograd, transforms, hooks and modes. These treat traced tensors like any others, so gradients, batches
and tangents become part of the program. The shape and dtype of a result come from the op itself, run on arrays without
data once for each combination.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ndgrad._src.arrays.library import is_on_device, is_raw_array
from ndgrad._src.arrays.placement import CPU, device_of
from ndgrad._src.arrays.precision import is_float8
from ndgrad._src.compiler.capture.branch_conditions import MOST as MOST_CONDITIONS
from ndgrad._src.compiler.capture.captured_state import same_bits
from ndgrad._src.compiler.capture.captured_tensors import CapturedTensor, payload_of, refuse_tensor
from ndgrad._src.compiler.capture.graph_break import GraphBreak
from ndgrad._src.compiler.capture.loop_source import LoopLog
from ndgrad._src.compiler.capture.memory_order import OF_RULE, Origin, arrange, is_orderly, settle, settle_array
from ndgrad._src.compiler.capture.number_placeholders import NumberPlaceholder, make_placeholder
from ndgrad._src.compiler.capture.number_tape import NumberTape
from ndgrad._src.compiler.capture.random_draws import Draw, TracedDraws, trace_draw
from ndgrad._src.compiler.capture.trace_constants import TraceConstants
from ndgrad._src.compiler.capture.traced_arrays import Memory, Step, TracedArray
from ndgrad._src.compiler.capture.traced_calls import CHECKS, run_traced
from ndgrad._src.compiler.capture.user_lines import is_in_rule, where
from ndgrad._src.compiler.kernels.precompile import note_op
from ndgrad._src.compiler.lower.memory_places import is_view_of, reshaped_view
from ndgrad._src.compiler.passes.cse import SMALL_CONSTANT
from ndgrad._src.compiler.passes.dead_code import remove_dead_code
from ndgrad._src.compiler.program.inference import infer
from ndgrad._src.compiler.program.program import Argument, Instruction, Program, Value, settings_key
from ndgrad._src.compiler.program.replay import Replay
from ndgrad._src.core.inplace import check_fits
from ndgrad._src.core.modes import modes, restore, running, scope
from ndgrad._src.core.op_observers import Factory, InPlaceForm
from ndgrad._src.core.record import run_forward
from ndgrad._src.core.variable import Variable, wrap
from ndgrad._src.core.view_path import merge, take_raw
from ndgrad._src.foundations.bounded_tables import make_room
from ndgrad._src.foundations.devices import device
from ndgrad._src.ops.table import RANDOM
from ndgrad._src.ops.vocabulary import find
from ndgrad._src.tensor.tensor_class import Tensor

#: Limit on the number of instructions: a longer trace costs more memory and time than its program saves.
MOST_INSTRUCTIONS = 500_000
#: Number of steps after which the path of a view is shortened.
_LONG_PATH = 4


class Tracer:
    """Records ops as instructions of `program`. Captured tensors become its inputs, listed in `inputs`; arrays become
    constants.
    """

    #: The observer receives the tensors of a call, not only their arrays.
    wants_tensors = True
    is_tracer = True

    def __init__(
        self,
        name: str = "program",
        admits: Callable[[Any], str | None] | None = None,
        state_of: Callable[[Any], bytes | None] | None = None,
    ) -> None:
        """Create a tracer. `admits` returns the reason why a captured tensor cannot be an input; None if it can.
        `state_of` returns the state of a captured generator of random numbers.
        """
        self.program = Program([], [], name=name)
        #: Values of the program that depend on no input.
        self.trace_constants = TraceConstants(self.program)
        #: Captured tensors that ops have used, in the order of the program's inputs.
        self.inputs: list[CapturedTensor] = []
        self._captured_tensors: dict[int, CapturedTensor] = {}
        #: Lookup of a captured tensor by its identity; None before its first use.
        self.find_captured = self._captured_tensors.get
        self._admits = admits
        #: Copies of large arrays that are constants, by identity: the array and its copy.
        self._copies: dict[int, tuple[Any, Any]] = {}
        #: Arrays from which tensors were made, by identity: the array and its payload.
        self._over: dict[int, tuple[Any, TracedArray]] = {}
        #: Payloads whose memory is shared with a NumPy array.
        self._lent: list[TracedArray] = []
        #: Branch conditions that the trace follows, with their outcomes; and outcomes to follow, if they are given.
        self.conditions: list[tuple[Value, bool]] = []
        self.outcomes: list[bool] | None = None
        #: True if placeholders may stand for numbers read from tensors. False if the function may inspect their type.
        self.reads_numbers = True
        #: Calls to make after the program (see ndgrad._src.compiler.capture.deferred_calls).
        self.deferred: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        #: Adds a guard: a description, and a function that reads the value to compare before a call.
        self.watch: Callable[[str, Callable[[], Any]], None] = _watch_nothing
        #: Python loops that are rolled up; None if loops run as written.
        self.loops: LoopLog | None = None
        #: Python arithmetic on numbers that the trace does not know.
        self.numbers = NumberTape()
        #: Conditions that the function itself tested: source line and outcome.
        self.decided: list[tuple[str | None, bool]] = []
        #: Checks that a device runs asynchronously: values that must be False, and the exception to raise later
        #: otherwise.
        self.later: list[tuple[Value, Callable[[int], Exception]]] = []
        #: First results of ops inside backward passes of the function. These report no floating-point errors.
        self.of_passes: set[Value] = set()
        #: Random draws of the function, and the input tensors of these draws by identity.
        self.draws = TracedDraws(state_of)
        self.drawn_tensors: dict[int, Any] = {}
        self._draw_payloads: list[TracedArray] = []
        #: Source line of the op being traced, if known; otherwise it is looked up.
        self.place: str | None = None
        #: True if no backward pass has run in the function and no saved-tensor hook was active.
        self.is_plain = True
        #: Monitor of the calls that the function makes.
        self.calls: Any = None
        #: First graph break, kept because the function may have caught it.
        self.broken: GraphBreak | None = None

    def end(self) -> None:
        """Drop the trace. Its objects refer to the tracer, so without this only a garbage collection would free them."""
        self.program, self._admits = Program([], []), None
        self.inputs, self.conditions, self.later = [], [], []
        for table in (self._captured_tensors, self._over, self.drawn_tensors, self._lent, self._draw_payloads):
            table.clear()

    # ----- captured tensors -------------------------------------------------------------------------------------------

    def capture(self, t: Any, array: Any) -> CapturedTensor:
        """Return the proxy of a captured tensor; on first use the tensor becomes an input of the program."""
        found = self._captured_tensors.get(id(t))
        return self._admit(t, array) if found is None else found

    def _admit(self, t: Any, array: Any) -> CapturedTensor:
        here = scope()
        try:
            restore(here.with_changes(observers=()))
            reason = refuse_tensor(t) or (None if self._admits is None else self._admits(t))
            if reason is not None:
                raise GraphBreak(reason)
            found = CapturedTensor(t, self.input(array, t))
        finally:
            restore(here)
            del here
        self._captured_tensors[id(t)] = found
        self.inputs.append(found)
        return found

    def guard(self, what: str, read: Callable[[], Any]) -> None:
        """Add a guard if the trace serves later calls. A trace of one call (fx, ONNX) needs none."""
        if self.watch is not _watch_nothing:
            self.watch(what, read)

    def note_attribute(self, t: Any, name: str) -> None:
        """Note that the function looks up an attribute which a captured tensor does not have, or which no guard
        compares. `trace_function` replaces this if a guard is possible.
        """
        raise GraphBreak(f"the function asks for the attribute {name!r} of a tensor from outside")

    def input(self, array: Any, source: Any = None) -> TracedArray:
        """Return a traced array for a captured array: a new input of the program."""
        if is_float8(array.dtype):
            raise GraphBreak(f"a tensor of {array.dtype} takes part")
        value = Value(tuple(array.shape), array.dtype)
        self.program.inputs.append(value)
        return TracedArray(value, Memory(self, value, source, place=device_of(array)), strides=tuple(array.strides))

    def array(self, value: Value, place: device | None = None) -> TracedArray:
        """Return a traced array for a value, in memory of its own."""
        return TracedArray(value, Memory(self, value, place=place))

    def constant(self, array: Any) -> TracedArray:
        """Return a traced array for the current contents of an array without a tensor: a constant."""
        if not is_raw_array(array) or array.dtype.hasobject:
            raise GraphBreak(f"an array of class {type(array).__name__} takes part")
        copy = self._copy_constant(array)
        value = Value(tuple(copy.shape), copy.dtype)
        self.program.constants[value] = copy
        memory = Memory(self, value, constant=copy, place=device_of(array) if is_on_device(array) else None)
        return TracedArray(value, memory, strides=tuple(array.strides))

    def _copy_constant(self, array: Any) -> Any:
        """Return a copy of an array, shared by all uses with the same contents."""
        if is_on_device(array) or array.nbytes <= SMALL_CONSTANT:
            return np.array(array.get() if is_on_device(array) else array)
        known, copy = self._copies.get(id(array), (None, None))
        if known is not array or copy.shape != array.shape or copy.dtype != array.dtype or not same_bits(array, copy):
            copy = array.copy(order="K")
            self._copies[id(array)] = array, copy
        return copy

    def capture_array(self, array: Any) -> TracedArray:
        """Return the payload of a tensor that the function makes over an array."""
        known = self._over.get(id(array))
        if known is not None and _equal(known[0], known[1].memory.constant):
            return known[1]
        payload = self.constant(array)
        self._over[id(array)] = array, payload
        return payload

    def note_shared(self, payload: TracedArray) -> None:
        """Note that an array of the user shares the memory of a tensor that the function makes."""
        self._lent.append(payload)

    def check_lent(self) -> None:
        """Raise if memory shared with a NumPy array was written on either side, because a program cannot do that."""
        lent = {id(p.memory) for p in self._lent}
        for array, payload in self._over.values():
            if id(payload.memory) in lent and (payload.memory.written or not _equal(array, payload.memory.constant)):
                raise GraphBreak("memory that an array and a tensor share is written")

    @staticmethod
    def line() -> str | None:
        """Return the current source line of the user."""
        return where()

    def memory_of(self, array: Any) -> Memory | None:
        """Return the memory of an array if a tensor was made from it."""
        known = self._over.get(id(array))
        return None if known is None else known[1].memory

    def decide(self, value: Value) -> bool:
        """Return the outcome of a condition in the traced call (see ndgrad._src.compiler.capture.branch_conditions)."""
        number = len(self.conditions)
        if number >= MOST_CONDITIONS:
            raise GraphBreak(f"more than {MOST_CONDITIONS} conditions on values decide what the function does")
        if self.outcomes is not None and number < len(self.outcomes):
            outcome = self.outcomes[number]
        else:
            program = self.program
            so_far = remove_dead_code(Program(program.inputs, [value], program.instructions, program.constants))
            with np.errstate(all="ignore"):  # the call itself reports floating-point errors
                outcome = bool(Replay(so_far)([np.asarray(on_host(payload_of(o.source))) for o in self.inputs])[0])
        self.conditions.append((value, outcome))
        return outcome

    def truth_of(self, payload: TracedArray) -> bool:
        """Return the truth of a traced array of one element, as an outcome that the trace follows."""
        value = self.value_of(payload)
        if value.dtype.kind != "b":
            (value,) = self.emit(find("ne"), (value, 0), {})
        outcome = self.decide(value)
        self.decided.append((self.line(), outcome))
        return outcome

    def read_number(self, payload: TracedArray) -> Any:
        """Return a placeholder for the number in a traced array (see ndgrad._src.compiler.capture.number_placeholders);
        None if there is none.
        """
        return make_placeholder(self, self.value_of(payload)) if self.reads_numbers else None

    def add_draw(self, draw: Draw) -> Value:
        """Return the input value for a random draw (see Note [Random numbers as inputs])."""
        number, array = self.draws.add(draw)
        if array is not None:
            given = self.draws.given
            if given and number >= len(given):
                raise GraphBreak("the function draws more random numbers than in the call whose derivative is taken")
            t = given[number] if given else wrap(Tensor, array)
            self.drawn_tensors[id(t)] = t
            self._draw_payloads.append(self.capture(t, payload_of(t))._array)
        return self.value_of(self._draw_payloads[number])

    # ----- values -----------------------------------------------------------------------------------------------------

    def value_of(self, payload: TracedArray) -> Value:
        """Return the current value of a traced array. If its memory was written since, the view is taken again."""
        memory = payload.memory
        if memory.picked is not None and memory.picked[0].version != memory.picked[1]:
            raise GraphBreak("a part of an array, of which the index is computed, is used after the array was written")
        if payload.version != memory.version:
            value = memory.value
            for step in payload.path:
                value = self.emit(step.op, (value,), step.settings)[step.number]
            payload._value, payload.version = value, memory.version
        return payload._value

    def argument(self, array: Any) -> Argument:
        """Return an argument of an op as it appears in the program."""
        if array.__class__ is TracedArray:
            memory = array.memory
            if memory.tracer is not self:
                raise GraphBreak(
                    "a tensor that belongs to one round of a loop, or to one branch, is used outside of it"
                )
            is_plain = array.version == memory.version and memory.picked is None
            return array._value if is_plain else self.value_of(array)
        if isinstance(array, np.ndarray) or is_on_device(array):
            return self.value_of(self.constant(array))
        if isinstance(array, Variable):
            raise GraphBreak("a tensor of a transform that has ended takes part")
        return array

    def _arguments(self, op: Any, arrays: Sequence[Any]) -> tuple[list[Argument], device | None]:
        """Return the arguments of an op as they appear in the program, and the device of its result."""
        found: list[Argument] = []
        place, is_plain = None, True
        for a in arrays:
            if a.__class__ is TracedArray:
                memory = a.memory
                is_current = a.version == memory.version and memory.tracer is self and memory.picked is None
                found.append(a._value if is_current else self.argument(a))
                if memory.place is not place:
                    is_plain = is_plain and (place is None or memory.place is None)
                    place = memory.place or place
            elif type(a) is float or type(a) is int:
                found.append(a)
            elif type(a) is NumberPlaceholder:
                found.append(a.as_argument(op, arrays, self))
            else:
                is_plain = False
                found.append(self.argument(a))
        return found, place if is_plain else _find_device(arrays)

    # ----- instructions -----------------------------------------------------------------------------------------------

    def emit(self, op: Any, arguments: Sequence[Argument], settings: dict[str, Any]) -> tuple[Value, ...]:
        """Append an instruction for an op on values and return its results."""
        for given in (*arguments, *settings.values()):
            if (
                type(given) is NumberPlaceholder
            ):  # a program must be valid for any number, and this one would be a constant
                given.refuse(f"a number that is read of a tensor is an argument or a setting of {op.name}")
        _, types = infer(op, arguments, settings)
        if types and is_float8(types[0][1]):
            raise GraphBreak(f"{op.name} gives {types[0][1]}")
        note_op(op, types[0][1] if types else None)
        results = tuple([Value(shape, dtype) for shape, dtype in types])
        instruction = Instruction(op, tuple(arguments), settings, results, self.place or where())
        instructions = self.program.instructions
        instructions.append(instruction)
        if len(instructions) > MOST_INSTRUCTIONS:
            raise GraphBreak(
                f"the trace has more than {MOST_INSTRUCTIONS} ops; write the loop as ndgrad.func.scan, or compile its body"
            )
        if running() is not None and results:
            self.of_passes.add(results[0])
        self.trace_constants.note(instruction)
        return results

    def find_constant(self, payload: TracedArray) -> Any:
        """Return the contents of a traced array if it is a trace-time constant; else None. The caller must not write
        it.
        """
        value = self.value_of(payload)
        return self.trace_constants.array(value) if value in self.trace_constants else None

    def run(self, op: Any, args: tuple[Any, ...], settings: dict[str, Any], records: bool) -> Any:
        """Run an op on tensors if only this trace is active: by the code of eager calls, with `traced` in place of the
        op's function.
        """
        return run_traced(self, op, args, settings, records)

    def __call__(
        self,
        op: Any,
        tensors: Sequence[Any],
        arrays: Sequence[Any],
        settings: dict[str, Any],
        run: Callable[[], Any],
    ) -> Any:
        """Observe an op: return traced arrays for its results."""
        if modes().saved_hooks:
            self.is_plain = False
        if isinstance(op, InPlaceForm):
            return self._write(op.op, tensors, arrays, settings)
        if isinstance(op, Factory):
            return self._fill(op)
        if op.batch is RANDOM:
            return self.array(trace_draw(self, op, arrays, settings), _find_device(arrays))
        if op.name in CHECKS:
            raise GraphBreak(
                f"{op.name} is there for the error that it raises, and a program computes only what is read"
            )
        if op.needs_values:
            return self._run_on_constants(op, arrays, settings)
        return self.traced(op, arrays, settings)

    def _run_on_constants(self, op: Any, arrays: Sequence[Any], settings: dict[str, Any]) -> Any:
        """Return the results of an op that needs values. They are constants if the values are."""
        values = [a.constant_array if isinstance(a, TracedArray) else a for a in arrays]
        if any(isinstance(a, TracedArray) and v is None for a, v in zip(arrays, values, strict=True)):
            if "group" in settings:
                raise GraphBreak(f"{op.name} sends messages between processes")
            raise GraphBreak(f"the shape of what {op.name} gives depends on values")
        with np.errstate(all="ignore"):  # the call itself reports floating-point errors
            made = run_forward(op, np, tuple(values), values, settings)
        out = tuple([self.constant(np.asarray(m)) for m in (made if op.outputs != 1 else (made,))])
        return out[0] if op.outputs == 1 else out

    def traced(self, op: Any, arrays: Sequence[Any], settings: dict[str, Any]) -> Any:
        """Return traced arrays for the results of an op whose shapes follow from the shapes of its arguments."""
        task = running()
        if task is not None:
            self.is_plain = False
        #: Eager rules under create_graph are made of the same ops.
        of_rule = task is not None and not task.create_graph
        arguments, place = self._arguments(op, arrays)
        if place is not None and place is not CPU:
            _check_devices(op, arrays, place)
        results = self.emit(op, arguments, settings)
        if op.view or op.shares_storage:
            source = arrays[0] if isinstance(arrays[0], TracedArray) else self.constant(arrays[0])
            strides = view_strides(source, op, settings, len(results))
            out = tuple(
                [self._make_view(source, op, settings, i, value, strides[i], of_rule) for i, value in enumerate(results)]
            )
        elif op.outputs == 1 and len(results[0].shape) < 2:
            return TracedArray(results[0], Memory(self, results[0], place=place))
        else:
            out = tuple([self.array(value, place) for value in results])
            if of_rule:
                for made in out:
                    made.memory.assumed = OF_RULE
            elif any(made.ndim > 1 for made in out) and not is_orderly(op, arrays, settings, place):
                arrange(op, arrays, settings, out)
        return out[0] if op.outputs == 1 else out

    def _make_view(
        self, source: TracedArray, op: Any, settings: dict[str, Any], number: int, value: Value, strides: Strides, of_rule: bool
    ) -> TracedArray:
        """Return the result of a view op: a part of the argument's memory, or memory of its own if NumPy copies."""
        is_decided = op.name == "reshape" and [n for n in source.shape if n != 1] != [n for n in value.shape if n != 1]
        if is_decided:
            source.memory.asked = True
        if strides is None:
            copied = self.array(value, source.memory.place)
            if of_rule:
                copied.memory.assumed = OF_RULE
            elif source.is_assumed:
                copied.memory.assumed, copied.memory.asked = Origin(op, (source,), settings, 0, copied.strides), is_decided
            return copied
        step = Step(op, settings, number, value.shape, value.dtype, of_rule)
        path = _shorten(source.memory.value, (*source.path, step))
        shown = TracedArray(value, source.memory, path, strides)
        shown.version = source.memory.version
        return shown

    def _fill(self, factory: Factory) -> TracedArray:
        """Return a new tensor of zeros, ones or another number as a constant of the program."""
        array: Any = factory.array
        value = Value(tuple(array.shape), array.dtype)
        self.program.constants[value] = array.get() if is_on_device(array) else array.copy()
        memory = Memory(self, value, place=device_of(array) if is_on_device(array) else None)
        return TracedArray(value, memory, strides=tuple(array.strides))

    # ----- writes -----------------------------------------------------------------------------------------------------

    def _write(self, op: Any, tensors: Sequence[Any], arrays: Sequence[Any], settings: dict[str, Any]) -> TracedArray:
        """Set the target to op(target, ...): its memory gets a new value. An eager write that would raise ends the
        trace.
        """
        payload = arrays[0]
        if not isinstance(payload, TracedArray):
            raise GraphBreak("an array is written that no tensor was made of")
        if op.batch is RANDOM:
            value = trace_draw(self, op, arrays, settings)
        else:
            (value,) = self.emit(op, self._arguments(op, arrays)[0], settings)
            check_write(op, payload, value, arrays, settings)
        captured = self._captured_tensors.get(id(tensors[0]))
        storage = tensors[0]._storage if captured is None else captured._storage
        if storage is not None:
            payload.memory.values_at[storage.version] = payload.memory.value
        self.assign(payload, value)
        return payload

    def add_into(self, payload: TracedArray, other: Any) -> None:
        """Record `payload += other` for code that does not call an op."""
        (value,) = self.emit(find("add"), (self.value_of(payload), self.argument(other)), {})
        self.assign(payload, value)

    def assign(self, payload: TracedArray, value: Value) -> None:
        """Set a traced array, and all arrays that share its memory, to a value, after a cast and broadcast to its type
        and shape.
        """
        if value.dtype != payload.dtype:
            (value,) = self.emit(find("cast"), (value,), {"dtype": payload.dtype})
        if value.shape != payload.shape:
            (value,) = self.emit(find("expand"), (value,), {"shape": payload.shape})
        memory = payload.memory
        # The results of rules do not depend on the order, and their writes are consistent with any.
        if memory.assumed is not None and memory.asked and not (memory.assumed is OF_RULE and is_in_rule()):
            settle(memory)
        if payload.is_of_rule and running() is None:
            settle_array(payload)
        whole = value
        if payload.path:
            parents = [memory.value]
            for step in payload.path[:-1]:
                parents.append(self.emit(step.op, (parents[-1],), step.settings)[step.number])
            for step, parent in zip(reversed(payload.path), reversed(parents), strict=True):
                whole = self._replace_part(parent, step, whole)
        memory.value, memory.written = whole, True
        memory.version += 1
        payload._value, payload.version = value, memory.version

    def _replace_part(self, parent: Value, step: Step, part: Value) -> Value:
        """Return `parent` with `part` in place of the elements that a view op shows."""
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
                return emit(
                    find("slice_scatter"), (parent, part), {"index": (slice(None),) * settings["dim"] + (cut,)}
                )[0]
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
        return self._scatter_part(parent, step, part)

    def _scatter_part(self, parent: Value, step: Step, part: Value) -> Value:
        """Return the same for any view op: apply the view to element numbers to find the elements that it shows."""
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


def _shorten(whole: Value, path: tuple[Step, ...]) -> tuple[Step, ...]:
    """Return a path, or an equal one with fewer steps (see Note [Short paths]). Each write is an instruction per step."""
    if len(path) % _LONG_PATH:
        return path
    array: Any = np.empty(whole.shape, whole.dtype)
    way = tuple([(None, step.op, step.settings, step.number) for step in path])
    for kept in (0, len(way) - _LONG_PATH):
        short = merge(array, way[:kept], way[kept:])
        if short is not None:
            array = take_raw(array, way[:kept], np)
            found = list(path[:kept])
            of_rule = any(step.of_rule for step in path[kept:])
            for _, op, settings, number in short:
                array = take_raw(array, ((None, op, settings, number),), np)
                found.append(Step(op, settings, number, array.shape, array.dtype, of_rule))
            return tuple(found)
    return path


def _watch_nothing(what: str, read: Callable[[], Any]) -> None:
    raise GraphBreak(f"a loop or branch depends on {what}")


# ----- devices --------------------------------------------------------------------------------------------------------


def _find_device(arrays: Sequence[Any]) -> device | None:
    """Return the device of the result of an op on these arrays: the first device other than the CPU, if any."""
    found = None
    for a in arrays:
        if a.__class__ is TracedArray and a.memory.place is not None:
            found = a.memory.place
        elif is_on_device(a):
            found = device_of(a)
        if found is not None and found is not CPU:
            return found
    return found


def _check_devices(op: Any, arrays: Sequence[Any], place: device) -> None:
    """Check that CPU tensors next to GPU tensors have no dimensions or are indices; eager code raises otherwise."""
    if op.name == "to_device":
        raise GraphBreak("a tensor is brought from one device to another")
    if getattr(op, "programs", ()):
        raise GraphBreak(f"{op.name} on a GPU")
    for a in arrays:
        if a.__class__ is not TracedArray or a.memory.place in (None, place) or not a.shape:
            continue
        if a.memory.place is not CPU or a.dtype.kind not in "iub":
            raise GraphBreak(f"tensors on {place} and on {a.memory.place} take part in {op.name}")


def on_host(array: Any) -> Any:
    """Return the values of an array on the host."""
    return array.get() if is_on_device(array) else array


# ----- shapes ---------------------------------------------------------------------------------------------------------


#: Writes that the kernels of their ops accept: (op, shapes and dtypes of the arguments, settings).
_accepted: set[Any] = set()


def check_write(op: Any, payload: TracedArray, value: Value, arrays: Sequence[Any], settings: dict[str, Any]) -> None:
    """Raise the error of the eager in-place form of an op for these arguments and their result `value`.

    An op without a kernel for writes computes its result first, which must fit. A kernel has checks of its own, for
    example of casts, so it runs once on stand-ins for each kind of arguments. It writes in the target's dtype, while
    the op's function may promote. A program cannot reproduce the rounding of such a kernel, so these writes end the
    trace.
    """
    if op.write_kernel is None:
        check_fits(op.name, payload, value)
        return
    known = settings_key(settings) if settings else ()
    key: Any = op, tuple([(a.shape, a.dtype) if hasattr(a, "dtype") else (type(a), a) for a in arrays]), known
    try:
        is_known = known is not None and key in _accepted
    except TypeError:  # unhashable argument
        is_known, known = False, None
    if not is_known:
        stand_ins = [np.zeros(a.shape, a.dtype) if isinstance(a, TracedArray) else a for a in arrays]
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            op.write_kernel(np, *stand_ins, **settings)
        if known is not None:
            if len(_accepted) > 20_000:
                _accepted.clear()
            _accepted.add(key)
    if value.dtype != payload.dtype or value.shape != payload.shape:
        raise GraphBreak(f"{op.name}_ writes {value.dtype} into a tensor of {payload.dtype}")


#: Strides of a view; None if NumPy would copy.
Strides = tuple[int, ...] | None
#: Strides of the results of view ops, by op, settings, number of results, and shape, strides and dtype of the source.
_strides: dict[Any, list[Strides]] = {}


def view_strides(source: TracedArray, op: Any, settings: dict[str, Any], count: int) -> list[Strides]:
    """Return the strides of all results of a view op."""
    known = settings_key(settings)
    key = None if known is None else (op, known, count, source.shape, source.strides, source.dtype)
    try:
        return _strides[key]
    except TypeError:  # unhashable setting
        return _view_strides(source, op, settings, count)
    except KeyError:
        found = _view_strides(source, op, settings, count)
        if key is not None and count <= 64:
            make_room(_strides, 20_000)
            _strides[key] = found
        return found


def _view_strides(source: TracedArray, op: Any, settings: dict[str, Any], count: int) -> list[Strides]:
    """Compute `view_strides` without a cache. No memory is touched."""
    if op.name in ("as_strided", "view_dtype"):
        raise GraphBreak(f"{op.name} shows memory in another way than a program can")
    if op.shares_storage:
        return [source.strides] * count
    if not source.size:
        return [None] * count
    stand_in = source.stand_in()
    if op.name == "reshape":
        shown = reshaped_view(stand_in, settings["shape"])
        return [None if shown is None else tuple(shown.strides)]
    shown = op.forward_for(np)(stand_in, **settings)
    return [tuple(v.strides) if is_view_of(v, stand_in) else None for v in ((shown,) if op.outputs == 1 else shown)]


def _equal(a: Any, b: Any) -> bool:
    return a.shape == b.shape and same_bits(a, b)
