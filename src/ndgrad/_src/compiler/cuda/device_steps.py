"""Steps of a device program: kernels, calls and checks, with the memory that each needs.

`make_steps` turns the groups of a program into steps. Elementwise kernels of the same text are started together. A step
contains no arrays: it runs with the arrays of a call and with the `Launcher` of its program.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from ndgrad._src.arrays import device_kernels, library
from ndgrad._src.arrays.addresses import bounds
from ndgrad._src.arrays.library import is_on_device
from ndgrad._src.compiler.cuda import launch
from ndgrad._src.compiler.cuda.fused import fused
from ndgrad._src.compiler.cuda.fused_flat import Line, as_line, entries_of
from ndgrad._src.compiler.cuda.fused_form import FLAG, THREADS, Affine, Fused
from ndgrad._src.compiler.lower.memory_places import Place
from ndgrad._src.compiler.lower.steps import Call, Groups, Kernel
from ndgrad._src.compiler.program.program import Value

#: Alignment of packs.
_ALIGNMENT = 16

Arrays = dict[Value, Any]
#: Exceptions by the value that must be zero.
Notes = Mapping[Value, Callable[[int], Exception]]


class Launcher:
    """The kernels of a program on a device, compiled on first use, and the flag that kernels set on a fault."""

    def __init__(self, code: str, device: int) -> None:
        self._code = code
        self._device = device

    @functools.cached_property
    def _functions(self) -> launch.Functions:
        return launch.Functions(self._code)

    @functools.cached_property
    def _fault(self) -> Any:
        """Return the flag that the device sets when it has noted a fault; a constant zero if it notes none."""
        found = device_kernels.kernels()
        return library.device_library.zeros(1, np.uint64) if found is None else found.notes(self._device).flag

    @property
    def flag(self) -> int:
        """Address of the flag."""
        return int(self._fault.data.ptr)

    def start(self, name: str, blocks: int, threads: int, words: list[int]) -> None:
        """Start a kernel."""
        self._functions.start(name, blocks, threads, words)

    def address(self, value: Value | int, arrays: Arrays, buffers: Sequence[Any]) -> int:
        """Return the address of a value, of a buffer or of the flag."""
        if isinstance(value, Value):
            return int(arrays[value].data.ptr)
        return self.flag if value == FLAG else int(buffers[value].data.ptr)


@dataclass(eq=False)
class Step:
    """One step of the program: its function, and the memory that begins before it and ends after it."""

    group: Kernel | Call | None
    run: Callable[[Launcher, Arrays], None]
    #: Memory to allocate before it, and the part of it that begins as zeros.
    new: list[Value] = field(default_factory=list)
    cleared: list[Value] = field(default_factory=list)
    dead: list[Value] = field(default_factory=list)
    #: Names of its functions.
    functions: list[str] = field(default_factory=list)
    #: Kernels with the same text that it starts together.
    lines: list[Line] = field(default_factory=list)
    members: list[Step] = field(default_factory=list)

    def written_values(self) -> list[Value]:
        """Return the values that it stores, if it is a kernel."""
        return [v for s in (self, *self.members) if isinstance(s.group, Kernel) for v in s.group.stores]

    def execute(self, launcher: Launcher, arrays: Arrays) -> None:
        """Run it, with the memory that begins and ends at it."""
        allocate(self.new, arrays)
        for value in self.cleared:
            arrays[value].fill(0)
        self.run(launcher, arrays)
        for value in self.dead:
            arrays.pop(value, None)


# ----- making ---------------------------------------------------------------------------------------------------------


def make_steps(
    groups: Groups, affine: Affine, in_place: Mapping[Value, Value], given: set[Value], kept: set[Value], notes: Notes
) -> tuple[list[Step], dict[str, str]]:
    """Return the steps of a program, and the names of its kernels by their text.

        in_place    results in the memory of inputs
        given       values that have memory before the first step
        kept        values whose memory stays after the last step
        notes       values that the device checks
    """
    return _StepMaker(groups, affine, in_place).make(given, kept, notes)


class _StepMaker:
    """Maker of the steps of one program."""

    def __init__(self, groups: Groups, affine: Affine, in_place: Mapping[Value, Value]) -> None:
        self._groups = groups
        self._affine = affine
        self._in_place = in_place
        self._texts: dict[str, str] = {}

    def make(self, given: set[Value], kept: set[Value], notes: Notes) -> tuple[list[Step], dict[str, str]]:
        groups = self._groups
        made: set[Value] = set(given)
        last = {value: n for n, step in enumerate(groups.steps) for value in step.touched()}
        checks = self._checks_after(given, notes)
        steps = [*checks.get(-1, [])]
        for number, group in enumerate(groups.steps):
            if isinstance(group, Call):
                step = Step(group, partial(_call, group))
                made.update(group.instruction.results)
            else:
                assert isinstance(group, Kernel)
                step = self._kernel(group)
                step.new = [v for v in dict.fromkeys(_written_values(group)) if v not in made]
                step.cleared = [v for v in step.new if v in groups.cleared]
                made.update(step.new)
            step.dead = [v for v in group.touched() if last[v] == number and v not in kept]
            steps += [step, *checks.get(number, [])]
        steps = self._join_alike(steps)
        known = {name for step in steps for name in step.functions}
        return steps, {text: name for text, name in self._texts.items() if name in known}

    def _checks_after(self, given: set[Value], notes: Notes) -> dict[int, list[Step]]:
        """Return the checks of values, by the number of the step that computes them; -1 for inputs."""
        found: dict[int, list[Step]] = {}
        for value, error in notes.items():
            place = self._groups.places[value]
            makers = (n for n, step in enumerate(self._groups.steps) if place.root in step.touched())
            number = -1 if place.root in given else next(makers)
            found.setdefault(number, []).append(Step(None, partial(_check, place, error)))
        return found

    def _kernel(self, kernel: Kernel) -> Step:
        made = fused(kernel, self._affine, self._is_guarded(kernel))
        names = [self._texts.setdefault(one.text, f"kernel{len(self._texts)}") for one in made.launches]
        return Step(kernel, partial(_start, made, names), functions=names)

    def _is_guarded(self, kernel: Kernel) -> bool:
        """True if a kernel writes inputs, which it must not after a fault."""
        return any(v in self._in_place for v in kernel.stores)

    def _join_alike(self, steps: Sequence[Step]) -> list[Step]:
        """Start elementwise kernels of the same text together, such as the updates of parameters, if no step between
        them depends on them.
        """
        joined: list[Step] = []
        for step in steps:
            group = step.group
            line = as_line(group, self._affine, self._is_guarded(group)) if isinstance(group, Kernel) else None
            host = None if line is None else _find_alike(line, step, joined)
            if line is None or host is None:
                step.lines = [] if line is None else [line]
                joined.append(step)
            else:
                host.lines.append(line)
                host.members.append(step)
        for step in joined:
            if step.members:
                self._start_together(step)
        return joined

    def _start_together(self, step: Step) -> None:
        lines = step.lines
        name = self._texts.setdefault(lines[0].text, f"kernel{len(self._texts)}")
        count = entries_of(len(lines[0].pointers))
        parts = [lines[n : n + count] for n in range(0, len(lines), count)]
        step.run, step.functions = partial(_start_lines, name, count, parts), [name] * len(parts)
        for other in step.members:
            step.new, step.dead = [*step.new, *other.new], [*step.dead, *other.dead]
            step.cleared = [*step.cleared, *other.cleared]


def _find_alike(line: Line, step: Step, joined: list[Step]) -> Step | None:
    """Return the step with which a step of the same text can be started."""
    for before in reversed(joined):
        if not isinstance(before.group, Kernel) or _meet(before, step):
            return None
        if before.lines and before.lines[0].text == line.text:
            return before
    return None


def _meet(before: Step, after: Step) -> bool:
    """True if a step must come after another one: one writes memory that the other reads or writes."""
    a, b = before.group, after.group
    if not isinstance(a, Kernel) or not isinstance(b, Kernel):
        return True
    steps = [before, *before.members]
    written = {v for s in steps for v in _written_values(s.group)}
    touched = {v for s in steps for v in s.group.touched()}  # type: ignore[union-attr]  # they are kernels
    return bool(written & b.touched()) or bool({*_written_values(b)} & touched)


def _written_values(group: Any) -> list[Value]:
    return [*group.stores, *group.targets, *[place.root for _, place in group.puts]]


# ----- running --------------------------------------------------------------------------------------------------------


def _start(made: Fused, names: list[str], launcher: Launcher, arrays: Arrays) -> None:
    buffers = [library.device_library.empty(size, np.uint8) for size in made.buffers]
    for one, name in zip(made.launches, names, strict=True):
        addresses = [launcher.address(value, arrays, buffers) for value in one.pointers]
        launcher.start(name, one.blocks, one.threads, addresses)


def _start_lines(name: str, count: int, parts: list[list[Line]], launcher: Launcher, arrays: Arrays) -> None:
    for lines in parts:
        firsts, blocks = [], 0
        for line in lines:
            firsts.append(blocks)
            blocks += -(-line.packs // THREADS)
        gap = [0] * (count - len(lines))
        words = [len(lines), *firsts, *gap, *[line.packs for line in lines], *gap]
        words += [launcher.address(v, arrays, ()) for line in lines for v in line.pointers]
        words += gap * len(lines[0].pointers)
        launcher.start(name, blocks, THREADS, words)


def _check(place: Place, error: Callable[[int], Exception], launcher: Launcher, arrays: Arrays) -> None:
    """Note a fault if a value is not zero."""
    array = view_place(arrays, place)
    found = device_kernels.kernels()
    if found is not None:
        found.refuse_later(array, error)
    elif bool((array != 0).any()):
        raise error(int(array[array != 0].reshape(-1)[0]) >> 1)


def _call(step: Call, launcher: Launcher, arrays: Arrays) -> None:
    instruction = step.instruction
    given = [
        a if place is None else view_place(arrays, place)
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
        arrays[value] = make_ready(array)


def allocate(values: Sequence[Value], arrays: Arrays) -> None:
    """Allocate memory for values that have none yet."""
    new = library.device_library.empty
    for value in values:
        if value not in arrays:
            arrays[value] = new(value.shape, value.dtype)


def make_ready(array: Any) -> Any:
    """Return an array as kernels require it: in C order, at an aligned address."""
    if array.flags.c_contiguous and array.data.ptr % _ALIGNMENT == 0:
        return array
    return array.copy(order="C")


def _overlaps(a: Any, b: Any) -> bool:
    (first, end), (other, other_end) = bounds(a), bounds(b)
    return first < other_end and other < end


def view_place(arrays: Arrays, place: Place) -> Any:
    """Return an array that shows a place in its root."""
    root = arrays[place.root]
    if place.is_whole:
        return root if root.shape == place.shape else root.reshape(place.shape)
    size = root.dtype.itemsize
    strides = tuple(s * size for s in place.strides)
    return library.device_library.ndarray(place.shape, root.dtype, root.data + place.offset * size, strides)
