"""A program as native code: segments of kernels, with calls of NumPy's functions between them where an op has no kernel.

A segment is one native function. It gets a table of addresses, one for each value that has memory: the inputs and
outputs of the call, constants, and places in an arena that is kept from call to call. Two calls at a time, from two
threads, have an arena each.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from ndgrad.compiler.lower.assembly import Assembly
from ndgrad.compiler.lower.group import Call, Groups, Step, grouped
from ndgrad.compiler.lower.kernel_calls import kernel_call
from ndgrad.compiler.lower.loops import Loop
from ndgrad.compiler.lower.places import Place
from ndgrad.compiler.lower.plan import planned
from ndgrad.compiler.native.ir import Function
from ndgrad.compiler.native.target import Code, host
from ndgrad.compiler.passes import simplified
from ndgrad.compiler.passes.decompose import decompose
from ndgrad.compiler.program import Program, Value
from ndgrad.compiler.replay import Replay, forward_of

_SEGMENT = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class NativeProgram:
    """A compiled program: called with the arrays of its inputs, it gives those of its outputs."""

    #: whether every step is a segment of its own, as those want it who look at steps (see ndgrad.compiler.watched)
    apart = False

    def __init__(self, program: Program, threads: int | None = None) -> None:
        #: the program as it was, which runs where a check fails: what it then says is the op's own error
        self.original = program
        simple, checks = decompose(program)
        self.checks = len(checks)
        # what forward and backward of a composite op have in common is computed once
        self.program = simplified(Program(simple.inputs, [*simple.outputs, *checks], simple.instructions, simple.constants, simple.name))
        groups = self.groups = grouped(self.program)
        for step in groups.steps:
            if isinstance(step, Loop):
                self.program.constants.update(step.body.constants)
        self._slots(groups)
        self._compile(groups, threads)
        self._frames: list[_Frame] = []

    # ----- compiling -----------------------------------------------------------------------------------------------------

    def _slots(self, groups: Groups) -> None:
        """Number the values that have memory, and find out which the arena holds and how long."""
        program = self.program
        self.slots: dict[Value, int] = {}
        for value in (*program.inputs, *program.constants):
            self.slots[value] = len(self.slots)
        self.outputs = [groups.places[v] for v in program.outputs]
        given = {*program.inputs, *program.constants}
        fresh = {p.root for p in self.outputs} - given
        spans: dict[Value, tuple[int, int]] = {}
        called = [v for step in groups.steps if isinstance(step, Call) for v in step.instruction.results]
        for number, step in enumerate(groups.steps):
            for value in step.touched():
                self.slots.setdefault(value, len(self.slots))
                spans[value] = (spans.get(value, (number, number))[0], number)
        #: what is new in every call, by whom it is made: by us, or by NumPy
        self.fresh = [v for v in self.slots if v in fresh and v not in called]
        self.called = called
        self.offsets, self.arena = planned({v: s for v, s in spans.items() if v not in fresh and v not in given and v not in called})

    def _compile(self, groups: Groups, threads: int | None) -> None:
        """Write the segments and what they call, and compile all that."""
        assembly = self.assembly = Assembly(host(), threads)
        self.steps: list[Any] = []
        #: each step with the names of the functions that were written for it
        self.written: list[tuple[Step, list[str]]] = []
        segment: Function | None = None
        waiting = set(groups.cleared)
        for step in groups.steps:
            if isinstance(step, Call):
                if segment is not None:
                    segment.returns()
                segment = None
                self.steps.append(_Callback(step))
                self.written.append((step, []))
                continue
            if segment is not None and self.apart:
                segment.returns()
                segment = None
            if segment is None:
                segment = assembly.function(f"segment{len(self.steps)}")
                self.steps.append(segment.name)
            before = len(assembly.functions)
            assembly.step(segment, step, self.slots, waiting)
            self.written.append((step, [f.name for f in assembly.functions[before:] if isinstance(f, Function)]))
        if segment is not None:
            segment.returns()
        self.text = assembly.text()
        if assembly.functions:
            self.code = Code(self.text, assembly.target, symbols=assembly.outside)
            self.steps = [s if isinstance(s, _Callback) else _SEGMENT(self.code.address(s)) for s in self.steps]

    # ----- running -------------------------------------------------------------------------------------------------------

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        """The outputs for these arrays."""
        try:
            frame = self._frames.pop()
        except IndexError:
            frame = _Frame(self)
        try:
            found = frame.run(inputs)
        finally:
            self._frames.append(frame)
        if not self.checks:
            return found
        if any(check != 0 for check in found[-self.checks :]):
            return Replay(self.original)(inputs)
        return found[: -self.checks]


    def execute(self, frame: _Frame) -> None:
        """Run the steps on the memory of a call."""
        for step in self.steps:
            if step.__class__ is _Callback:
                step.run(frame)
            else:
                step(frame.address)


class _Callback:
    """An op that runs between segments: on NumPy, or by a kernel that takes arrays."""

    def __init__(self, step: Call) -> None:
        self.instruction = step.instruction
        self.reads = step.reads
        self.forward = kernel_call(step.instruction) or forward_of(step.instruction.op)

    def run(self, frame: _Frame) -> None:
        arguments = [
            a if place is None else frame.array(place) for a, place in zip(self.instruction.arguments, self.reads, strict=True)
        ]
        out = self.forward(*arguments, **self.instruction.settings)
        results = self.instruction.results
        for value, array in zip(results, (out,) if self.instruction.op.outputs == 1 else out, strict=True):
            array = np.asarray(array)
            # a view of an argument would be memory that is used again
            own = array.base is None and array.flags.c_contiguous and not any(array is a for a in arguments)
            frame.put(value, array if own else array.copy())


class _Frame:
    """The memory of one call at a time."""

    def __init__(self, program: NativeProgram) -> None:
        self.program = program
        self.slots = program.slots
        self.table = np.zeros(len(program.slots) + 2, np.uintp)
        self.address = self.table.ctypes.data
        self.arrays: dict[Value, Any] = {}
        buffer, sums = program.assembly.buffer, program.assembly.sums
        self.arena = np.empty(program.arena + buffer + sums + 128, np.uint8)
        start = -self.arena.ctypes.data % 64
        self.table[-2] = self.arena.ctypes.data + start + program.arena
        self.table[-1] = self.table[-2] + buffer
        for value, offset in program.offsets.items():
            self.put(value, np.ndarray(value.shape, value.dtype, self.arena, start + offset))
        for value, array in program.program.constants.items():
            self.put(value, np.array(array, value.dtype, order="C"))

    def put(self, value: Value, array: Any) -> None:
        self.arrays[value] = array
        self.table[self.slots[value]] = array.__array_interface__["data"][0]

    def array(self, place: Place) -> Any:
        """An array that shows a place."""
        root = self.arrays[place.root]
        if place.is_whole:
            return root if root.shape == place.shape else root.reshape(place.shape)
        size = root.itemsize
        return np.ndarray(place.shape, root.dtype, root, place.offset * size, tuple(s * size for s in place.strides))

    def _outputs(self) -> list[Any]:
        """The outputs, each in memory of its own: never that of an input, of a constant or of another output."""
        own, found = {*self.program.fresh, *self.program.called}, []
        for place in self.program.outputs:
            array = self.array(place)
            found.append(array if place.root in own else array.copy())
            own.discard(place.root)
        return found

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        program = self.program
        for value, array in zip(program.program.inputs, inputs, strict=True):
            array = np.asarray(array)  # of a NumPy scalar, which has no memory that stays
            self.put(value, array if array.flags.c_contiguous else array.copy())
        for value in program.fresh:
            self.put(value, np.empty(value.shape, value.dtype))
        try:
            program.execute(self)
            return self._outputs()
        finally:
            for value in (*program.program.inputs, *program.fresh, *program.called):  # only the arena and constants are kept
                self.arrays.pop(value, None)
