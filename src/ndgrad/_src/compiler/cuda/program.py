"""A program on a device: fused kernels, and the device's functions for ops without a kernel.

    device_split    parts for the host and for the device
    expand          composite ops decomposed
    grouping        that of native code, with the features of a device's kernels     (lower/grouping.py, fusion.py)
    fused           each group as CUDA C++; groups of the same text share a function
    run             step by step, in memory from CuPy's pool, which is released after its last use
    graph_capture   the whole as a CUDA graph, once it has run a few times on memory that stays
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from ndgrad._src.arrays import device_kernels, graph_recording, library
from ndgrad._src.arrays.addresses import bounds
from ndgrad._src.arrays.library import is_on_device
from ndgrad._src.compiler.cuda import launch
from ndgrad._src.compiler.cuda.device_split import parted
from ndgrad._src.compiler.cuda.expand import expanded
from ndgrad._src.compiler.cuda.fused import fused
from ndgrad._src.compiler.cuda.fused_flat import Line, as_line, entries_of
from ndgrad._src.compiler.cuda.fused_form import FLAG, HEAD, THREADS, Affine, Fused
from ndgrad._src.compiler.cuda.fusion import DEVICE
from ndgrad._src.compiler.cuda.graph_capture import Capturing
from ndgrad._src.compiler.lower.capabilities import Abilities
from ndgrad._src.compiler.lower.grouping import grouped
from ndgrad._src.compiler.lower.in_place import Writes, written_in_place
from ndgrad._src.compiler.lower.memory_places import Place
from ndgrad._src.compiler.lower.steps import Call, Kernel
from ndgrad._src.compiler.program.program import Program, Value

#: Features without kernels: every op is a call.
_NO_KERNELS = Abilities(
    is_type=lambda dtype: False, is_pointwise=lambda i: False, is_reduction=lambda i: False, has_routines=False
)
#: Alignment of packs.
_ALIGNMENT = 16

Arrays = dict[Value, Any]


@dataclass(eq=False)
class Step:
    """One step of the program: its function, and the memory that begins before it and ends after it."""

    group: Kernel | Call | None
    run: Callable[[Arrays], None]
    #: memory to allocate before it, and the part of it that begins as zeros
    new: list[Value] = field(default_factory=list)
    cleared: list[Value] = field(default_factory=list)
    dead: list[Value] = field(default_factory=list)
    #: the names of its functions
    functions: list[str] = field(default_factory=list)
    #: kernels with the same text that it starts together
    lines: list[Line] = field(default_factory=list)
    members: list[Step] = field(default_factory=list)

    def written(self) -> list[Value]:
        """Return the values that it stores, if it is a kernel."""
        return [v for s in (self, *self.members) if isinstance(s.group, Kernel) for v in s.group.stores]


class DeviceProgram:
    """A program whose inputs are on a device, except for some on the host. It maps arrays of inputs to arrays of
    outputs, each in memory of its own.
    """

    def __init__(
        self,
        program: Program,
        inputs: Sequence[Any],
        writes: Writes | None = None,
        later: Mapping[int, Callable[[int], Exception]] | None = None,
        strict: bool = False,
    ) -> None:
        """Compile a program.

        `inputs`: arrays like those of its calls; `writes`: the outputs that may be computed in the memory of inputs;
        `later`: the outputs that must be zero, and the exception that is raised once the device reports otherwise;
        `strict`: op by op, as eager mode computes.
        """
        self.original = program
        self.later = dict(later or {})
        self.on_host = tuple(not is_on_device(a) for a in inputs)
        self.device = next(a.device.id for a in inputs if is_on_device(a))
        parts = parted(program, self.on_host)
        self.parts = parts
        self.is_fused = not strict and not os.environ.get("NDGRAD_COMPILE_REPLAY") and launch.can_be_made()
        checks: list[Value] = []
        self.program = parts.device
        if self.is_fused:
            self.program, checks = expanded(parts.device)
        #: the value of each output that the device computes
        shown = iter(self.program.outputs)
        self._outputs = [None if v in parts.on_host else next(shown) for v in program.outputs]
        self._notes = {self._outputs[n]: error for n, error in self.later.items()}
        self._notes.update(dict.fromkeys(checks, partial(_out_of_range, program.name)))
        kept = [v for n, v in enumerate(self._outputs) if v is not None and n not in self.later]
        everything = Program(
            self.program.inputs,
            [*kept, *[v for v in self._notes if v is not None]],
            self.program.instructions,
            self.program.constants,
            program.name,
        )
        self.groups = grouped(everything, DEVICE if self.is_fused else _NO_KERNELS)
        self.program.constants.update(everything.constants)
        self.in_place = self._written_in_place(everything, writes)
        self._runner: Any = None
        if parts.host is not None:
            from ndgrad._src.compiler.runtime.backend import Runner  # avoids an import cycle

            self._runner = Runner(parts.host)
        self._lay_out(everything)
        #: the roots that are new in each call
        self._made = {v for step in self.steps for v in step.new}
        self._made |= {v for s in self.steps if isinstance(s.group, Call) for v in s.group.instruction.results}
        self._functions: Any = None
        self._constants: Arrays | None = None
        self.capturing = Capturing(self)

    def takes(self, inputs: Sequence[Any]) -> bool:
        """True if it can be called with these arrays."""
        here = all(is_on_device(a) is not there for a, there in zip(inputs, self.on_host, strict=True))
        return here and all(a.device.id == self.device for a, there in zip(inputs, self.on_host) if not there)

    # ----- making -----------------------------------------------------------------------------------------------------

    def _written_in_place(self, everything: Program, writes: Writes | None) -> dict[Value, Value]:
        """Return the inputs whose memory holds results, by result."""
        if writes is None or writes.conditions or not self.is_fused:
            return {}
        position = {v: n for n, v in enumerate(everything.inputs)}
        numbers = {v: n for n, v in enumerate(everything.outputs)}
        targets = {
            numbers[self._outputs[n]]: position[self.original.inputs[i]]  # type: ignore[index]  # none is None
            for n, i in writes.targets.items()
            if self._outputs[n] is not None and self.original.inputs[i] in position
        }
        noted = {self.groups.places[v].root for v in self._notes if v is not None}
        return written_in_place(everything, self.groups, Writes(targets), 0, True, noted).inputs

    def _lay_out(self, everything: Program) -> None:
        """Return the steps, with the memory that each needs."""
        groups, affine = self.groups, Affine(self.program.constants)
        self.texts: dict[str, str] = {}
        self.steps: list[Step] = []
        given = {*everything.inputs, *everything.constants, *self.in_place}
        self._roots = {v: groups.places[v] for v in everything.outputs}
        made: set[Value] = set(given)
        last = {value: n for n, step in enumerate(groups.steps) for value in step.touched()}
        notes = self._notes_after(given)
        self.steps += notes.get(-1, [])
        kept = {place.root for place in self._roots.values()} | given
        for number, group in enumerate(groups.steps):
            if isinstance(group, Call):
                step = Step(group, partial(self._call, group))
                made.update(group.instruction.results)
            else:
                assert isinstance(group, Kernel)
                step = self._kernel(group, affine)
                step.new = [v for v in dict.fromkeys(_written(group)) if v not in made]
                step.cleared = [v for v in step.new if v in groups.cleared]
                made.update(step.new)
            step.dead = [v for v in group.touched() if last[v] == number and v not in kept]
            self.steps += [step, *notes.get(number, [])]
        self._join_alike(affine)
        self._needed_constants = self._constants_read(affine)

    def _notes_after(self, given: set[Value]) -> dict[int, list[Step]]:
        """Return the values that the device checks, by the number of the step that computes them; -1 for inputs."""
        found: dict[int, list[Step]] = {}
        for value, error in self._notes.items():
            if value is None:
                continue
            root = self.groups.places[value].root
            makers = (n for n, step in enumerate(self.groups.steps) if root in step.touched())
            found.setdefault(-1 if root in given else next(makers), []).append(self._note(value, error))
        return found

    def _constants_read(self, affine: Affine) -> list[Value]:
        """Return the constants that must be in memory."""
        groups, shown = self.groups, {place.root for place in self._roots.values()}
        used = {v for step in groups.steps for v in step.touched()} | shown
        by_calls = {p.root for s in groups.steps if isinstance(s, Call) for p in s.reads if p is not None} | shown
        return [v for v in self.program.constants if v in (by_calls if v in affine.known else used)]

    def _kernel(self, kernel: Kernel, affine: Affine) -> Step:
        guarded = any(v in self.in_place for v in kernel.stores)
        made = fused(kernel, affine, guarded)
        names = [self.texts.setdefault(one.text, f"kernel{len(self.texts)}") for one in made.launches]
        return Step(kernel, partial(self._start, made, names), functions=names)

    def _join_alike(self, affine: Affine) -> None:
        """Start elementwise kernels of the same text together, such as the updates of parameters, if no step between
        them depends on them.
        """
        joined: list[Step] = []
        for step in self.steps:
            line = self._line(step, affine)
            host = None if line is None else self._alike(line, step, joined)
            if line is None or host is None:
                step.lines = [] if line is None else [line]
                joined.append(step)
            else:
                host.lines.append(line)
                host.members.append(step)
        for step in joined:
            if step.members:
                self._start_together(step)
        self.steps = joined
        known = {name for step in self.steps for name in step.functions}
        self.texts = {text: name for text, name in self.texts.items() if name in known}

    @staticmethod
    def _alike(line: Line, step: Step, joined: list[Step]) -> Step | None:
        """Return the step with which a step of the same text can be started."""
        for before in reversed(joined):
            if not isinstance(before.group, Kernel) or _meet(before, step):
                return None
            if before.lines and before.lines[0].text == line.text:
                return before
        return None

    def _line(self, step: Step, affine: Affine) -> Line | None:
        if not isinstance(step.group, Kernel):
            return None
        return as_line(step.group, affine, any(v in self.in_place for v in step.group.stores))

    def _start_together(self, step: Step) -> None:
        lines = step.lines
        name = self.texts.setdefault(lines[0].text, f"kernel{len(self.texts)}")
        count = entries_of(len(lines[0].pointers))
        parts = [lines[n : n + count] for n in range(0, len(lines), count)]
        step.run, step.functions = partial(self._start_lines, name, count, parts), [name] * len(parts)
        for other in step.members:
            step.new, step.dead = [*step.new, *other.new], [*step.dead, *other.dead]
            step.cleared = [*step.cleared, *other.cleared]

    def _start_lines(self, name: str, count: int, parts: list[list[Line]], arrays: Arrays) -> None:
        for lines in parts:
            firsts, blocks = [], 0
            for line in lines:
                firsts.append(blocks)
                blocks += -(-line.packs // THREADS)
            gap = [0] * (count - len(lines))
            words = [len(lines), *firsts, *gap, *[line.packs for line in lines], *gap]
            words += [self._address(v, arrays, ()) for line in lines for v in line.pointers]
            words += gap * len(lines[0].pointers)
            self._module().start(name, blocks, THREADS, words)

    def _note(self, value: Value, error: Callable[[int], Exception]) -> Step:
        return Step(None, lambda arrays: self._noted(_shown(arrays, self._roots[value]), error))

    def _noted(self, array: Any, error: Callable[[int], Exception]) -> None:
        found = device_kernels.kernels()
        if found is not None:
            found.refuse_later(array, error)
        elif bool((array != 0).any()):
            place = int(array[array != 0].reshape(-1)[0]) >> 1
            raise error(place)

    @property
    def code(self) -> str:
        """Return the source of all kernels."""
        functions = [text.replace("NAME", name, 1) for text, name in self.texts.items()]
        return "\n".join([HEAD, *functions])

    # ----- running ----------------------------------------------------------------------------------------------------

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        """Return the outputs for these arrays; None for outputs that the device checks itself."""
        with library.device_library.cuda.Device(self.device):
            found = self.capturing(inputs)
            if found is not None:
                return found
            host = self.on_the_host(inputs)
            arrays = self.given(inputs, host)
            given = dict(arrays)
            self.execute(arrays)
            return self.collected(arrays, inputs, host, given)

    def on_the_host(self, inputs: Sequence[Any]) -> Arrays:
        """Return the inputs and results on the host."""
        host = {v: np.asarray(a) for v, a, there in zip(self.original.inputs, inputs, self.on_host) if there}
        if self._runner is not None:
            program = self._runner.program
            host.update(zip(program.outputs, self._runner([host[v] for v in program.inputs]), strict=True))
        return host

    def given(self, inputs: Sequence[Any], host: Arrays) -> Arrays:
        """Return the arrays of the device's inputs."""
        found = library.device_library
        if self.parts.crossing:
            graph_recording.refuse(
                f"a call of the compiled {self.original.name}, for which the host computes or draws numbers,",
                "such a call is recorded by itself; call it without recording it.",
            )
        arrays = {v: ready(a) for v, a, there in zip(self.original.inputs, inputs, self.on_host) if not there}
        for value in self.parts.crossing:
            arrays[value] = found.asarray(np.ascontiguousarray(host[value]).reshape(value.shape))
        return arrays

    def prepare(self) -> None:
        """Create permanent objects, which cannot be created while a graph is recorded."""
        self.constants()
        self._flag()

    def execute(self, arrays: Arrays) -> None:
        """Run the steps on the device."""
        for run in self.running(arrays):
            run()

    def running(self, arrays: Arrays) -> list[Callable[[], None]]:
        """Return the steps as functions that run them on some arrays, in order."""
        arrays.update(self.constants())
        for value, target in self.in_place.items():
            arrays[value] = arrays[target]
        # Nothing may fail once inputs are written, so all memory is allocated before.
        written = (n for n, step in enumerate(self.steps) if any(v in self.in_place for v in step.written()))
        first = next(written, len(self.steps))
        runs: list[Callable[[], None]] = [partial(_run, step, arrays) for step in self.steps]
        rest = [v for step in self.steps[first:] for v in step.new]
        return [*runs[:first], partial(_make, rest, arrays), *runs[first:]] if rest else runs

    def results(self) -> list[Place]:
        """Return the places of the outputs that are new in each call."""
        shown = [self._roots[v] for n, v in enumerate(self._outputs) if v is not None and n not in self.later]
        return [place for place in shown if place.root not in self.in_place]

    @functools.cached_property
    def _collecting(self) -> list[tuple[Place | None, int, bool]]:
        """Return for each output: its place, None for host values; the number of the input that it is written to, or
        -1; and True if it may keep its memory.

        An output may keep memory that is not shared, and that it fills.
        """
        numbers, own = {v: n for n, v in enumerate(self.original.inputs)}, set(self._made)
        found: list[tuple[Place | None, int, bool]] = []
        for value in self._outputs:
            place = None if value is None else self._roots[value]
            target = None if place is None else self.in_place.get(place.root)
            found.append(
                (
                    place,
                    -1 if target is None else numbers[target],
                    place is not None and place.root in own and place.is_whole,
                )
            )
            if place is not None:
                own.discard(place.root)
        return found

    def prepared(self, inputs: Sequence[Any], host: Arrays, given: Arrays) -> tuple[list[Any], list[tuple[Any, Place]]]:
        """Return the outputs before a graph runs, as known values or new memory, and the copies to make after the run.

        Everything that can fail is done by then. `given` are the arrays of inputs that the graph uses.
        """
        found: list[Any] = []
        copies: list[tuple[Any, Place]] = []
        for n in range(len(self._collecting)):
            array, place = self._known(n, inputs, host, given)
            if place is not None:
                array = library.device_library.empty(place.shape, place.root.dtype)
                copies.append((array, place))
            found.append(array)
        return found, copies

    def collected(self, arrays: Arrays, inputs: Sequence[Any], host: Arrays, given: Arrays) -> list[Any]:
        """Return the outputs of a run, each in memory of its own, or in that of an input that the program writes.

        `given` are the arrays of inputs that the program has used.
        """
        found: list[Any] = []
        for n, (_, _, is_own) in enumerate(self._collecting):
            array, place = self._known(n, inputs, host, given)
            if place is not None:
                array = _shown(arrays, place)
                array = array if is_own else array.copy()
            found.append(array)
        return found

    def _known(self, n: int, inputs: Sequence[Any], host: Arrays, given: Arrays) -> tuple[Any, Place | None]:
        """Return an output that has no memory of its own on the device: one made later, a host value, or a written
        input. For the others, return its place.
        """
        place, target, _ = self._collecting[n]
        if n in self.later:
            return None, None
        if place is None:
            return np.array(host[self.original.outputs[n]]), None
        if target >= 0 and given.get(self.original.inputs[target]) is inputs[target]:
            return inputs[target], None
        return None, place

    @staticmethod
    def shown(arrays: Arrays, place: Place) -> Any:
        """Return an array that shows a place in its root."""
        return _shown(arrays, place)

    def constants(self) -> Arrays:
        """Return the program's constants on the device."""
        if self._constants is None:
            bring = library.device_library.asarray
            self._constants = {
                v: bring(np.ascontiguousarray(self.program.constants[v]).reshape(v.shape)) for v in self._needed_constants
            }
        return self._constants

    def _start(self, made: Fused, names: list[str], arrays: Arrays) -> None:
        buffers = [library.device_library.empty(size, np.uint8) for size in made.buffers]
        for one, name in zip(made.launches, names, strict=True):
            addresses = [self._address(value, arrays, buffers) for value in one.pointers]
            self._module().start(name, one.blocks, one.threads, addresses)

    def _address(self, value: Value | int, arrays: Arrays, buffers: Sequence[Any]) -> int:
        if isinstance(value, Value):
            return int(arrays[value].data.ptr)
        return self._flag() if value == FLAG else int(buffers[value].data.ptr)

    def _module(self) -> Any:
        if self._functions is None:
            self._functions = launch.Functions(self.code)
        return self._functions

    def _flag(self) -> int:
        return int(self._fault.data.ptr)

    @functools.cached_property
    def _fault(self) -> Any:
        """Return the flag that the device sets when it has noted a fault; a constant zero if it notes none."""
        found = device_kernels.kernels()
        return library.device_library.zeros(1, np.uint64) if found is None else found.notes(self.device).flag

    def _call(self, step: Call, arrays: Arrays) -> None:
        instruction = step.instruction
        given = [
            a if place is None else _shown(arrays, place)
            for a, place in zip(instruction.arguments, step.reads, strict=True)
        ]
        out = instruction.op.forward_for(library.device_library)(*given, **instruction.settings)
        results = instruction.results
        for value, array in zip(results, (out,) if instruction.op.outputs == 1 else out, strict=True):
            if not is_on_device(array):  # a number
                array = library.device_library.asarray(array)
            if not array.flags.c_contiguous or any(_overlaps(array, g) for g in given if is_on_device(g)):
                array = array.copy()
            if array.shape != value.shape or array.dtype != value.dtype:
                array = array.reshape(value.shape).astype(value.dtype, copy=False)
            arrays[value] = ready(array)


def _make(values: Sequence[Value], arrays: Arrays) -> None:
    """Allocate memory for values that have none yet."""
    new = library.device_library.empty
    for value in values:
        if value not in arrays:
            arrays[value] = new(value.shape, value.dtype)


def _run(step: Step, arrays: Arrays) -> None:
    """Run one step, with the memory that begins and ends at it."""
    _make(step.new, arrays)
    for value in step.cleared:
        arrays[value].fill(0)
    step.run(arrays)
    for value in step.dead:
        arrays.pop(value, None)


def _meet(before: Step, after: Step) -> bool:
    """True if a step must come after another one: one writes memory that the other reads or writes."""
    a, b = before.group, after.group
    if not isinstance(a, Kernel) or not isinstance(b, Kernel):
        return True
    steps = [before, *before.members]
    written = {v for s in steps for v in _written(s.group)}
    touched = {v for s in steps for v in s.group.touched()}  # type: ignore[union-attr]  # they are kernels
    return bool(written & b.touched()) or bool({*_written(b)} & touched)


def _written(group: Any) -> list[Value]:
    return [*group.stores, *group.targets, *[place.root for _, place in group.puts]]


def ready(array: Any) -> Any:
    """Return an array as kernels require it: in C order, at an aligned address."""
    if array.flags.c_contiguous and array.data.ptr % _ALIGNMENT == 0:
        return array
    return array.copy(order="C")


def _overlaps(a: Any, b: Any) -> bool:
    (first, end), (other, other_end) = bounds(a), bounds(b)
    return first < other_end and other < end


def _shown(arrays: Arrays, place: Place) -> Any:
    """Return an array that shows a place in its root."""
    root = arrays[place.root]
    if place.is_whole:
        return root if root.shape == place.shape else root.reshape(place.shape)
    size = root.dtype.itemsize
    strides = tuple(s * size for s in place.strides)
    return library.device_library.ndarray(place.shape, root.dtype, root.data + place.offset * size, strides)


def _out_of_range(name: str, index: int) -> Exception:
    return IndexError(
        f"{name}: an index is out of range. Call the function itself instead of the compiled one to see which. "
        "[nd-index]"
    )
