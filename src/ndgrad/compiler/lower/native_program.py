"""A program as native code: segments of kernels, with calls of NumPy's functions between them where an op has no kernel.

A segment is one native function. It gets a table of addresses, one for each value that has memory: the inputs and outputs of the call,
constants, and places in an arena that is kept from call to call. Two calls at a time, from two threads, have an arena each.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from ndgrad.arrays import threads as allowed
from ndgrad.compiler.kernels import maths
from ndgrad.compiler.lower import pointwise
from ndgrad.compiler.lower.group import Call, Groups, Step, grouped
from ndgrad.compiler.lower.nests import Nest
from ndgrad.compiler.lower.places import Place
from ndgrad.compiler.lower.plan import planned
from ndgrad.compiler.lower.products import Product, symbols
from ndgrad.compiler.native import pool
from ndgrad.compiler.native.ir import Function, Vector, element_of, module
from ndgrad.compiler.native.target import Code, host
from ndgrad.compiler.passes import simplified
from ndgrad.compiler.passes.decompose import decompose
from ndgrad.compiler.program import Program, Value
from ndgrad.compiler.replay import Replay, forward_of

#: The threads that a program may use, and the floating-point operations of a matrix product from which on it uses them.
_THREADS = allowed.max_threads
_SHARED_FLOPS = 500_000
#: So many exponentials and the like are written where they are used; from more, compiling would take long.
_INLINED = 40

_SEGMENT = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class NativeProgram:
    """A compiled program: called with the arrays of its inputs, it gives those of its outputs."""

    def __init__(self, program: Program) -> None:
        #: the program as it was, which runs where a check fails: what it then says is the op's own error
        self.original = program
        simple, checks = decompose(program)
        self.checks = len(checks)
        # what forward and backward of a composite op have in common is computed once
        self.program = simplified(Program(simple.inputs, [*simple.outputs, *checks], simple.instructions, simple.constants, simple.name))
        groups = self.groups = grouped(self.program)
        self._slots(groups)
        self._compile(groups)
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
        called: set[Value] = set()
        for number, step in enumerate(groups.steps):
            for value in _touched(step):
                if value not in self.slots:
                    self.slots[value] = len(self.slots)
                first, _ = spans.get(value, (number, number))
                spans[value] = (first, number)
            if isinstance(step, Call):
                called.update(step.instruction.results)
                for value in step.instruction.results:
                    self.slots.setdefault(value, len(self.slots))
        self.fresh = [v for v in self.slots if v in fresh and v not in called]
        self.offsets, self.arena = planned({v: s for v, s in spans.items() if v not in fresh and v not in given and v not in called})

    def _compile(self, groups: Groups) -> None:
        """Write the segments and what they call, and compile all that."""
        target = host()
        self.functions: list[Function | str] = []
        self.steps: list[Any] = []
        self.kernels: list[Nest] = []
        self.products: list[Product] = []
        self.outside: dict[str, int] = {}
        #: bytes for matrix products to pack into, and for the sums of pieces of a row
        self.buffer = self.sums = 0
        segment: Function | None = None
        waiting = set(groups.cleared)
        for step in groups.steps:
            if isinstance(step, Call):
                if segment is not None:
                    segment.returns()
                segment = None
                self.steps.append(_Callback(step))
                continue
            if segment is None:
                segment = Function(f"segment{len(self.steps)}", "ptr %table")
                self.functions.append(segment)
                self.steps.append(segment.name)
            for value in sorted(_touched(step) & waiting, key=self.slots.__getitem__):
                waiting.remove(value)
                self._clear(segment, value)
            if isinstance(step, Product):
                self._product(segment, step)
            else:
                self._kernel(segment, Nest(step, f"kernel{len(self.kernels)}", target, self.slots))
        if segment is not None:
            segment.returns()
        needed = {pair for f in self.functions if isinstance(f, Function) for pair in f.needed}
        costly = sum(pointwise.cost(i.instruction) > 4 for nest in self.kernels for i in nest.kernel.items)
        self.text = module([*self.functions, *maths.library(needed, target, inline=costly <= _INLINED)])
        if self.functions:
            self.code = Code(self.text, target, symbols=self.outside)
            self.steps = [s if isinstance(s, _Callback) else _SEGMENT(self.code.address(s)) for s in self.steps]

    def _kernel(self, segment: Function, nest: Nest) -> None:
        """Let a segment run a kernel: at once, or in pieces by the workers."""
        self.kernels.append(nest)
        self.functions.append(nest.function())
        for value in nest.kernel.targets:
            self._clear(segment, value)
        pieces = -(-nest.extent // nest.grain)
        stride = 8 * len(nest.sums) if nest.splits_row else 0
        self.sums = max(self.sums, stride * pieces)
        sums = self._pointer(segment, len(self.slots) + 1) if nest.splits_row else "null"
        if pieces == 1:
            segment.call_void(nest.name, "ptr %table", "i64 0", f"i64 {nest.extent}", f"ptr {sums}")
        else:
            work = Function(f"{nest.name}.piece", "ptr %table, i64 %chunk, i64 %worker")
            begin = work.mul("%chunk", nest.grain)
            end = work.least(work.add(begin, nest.grain), nest.extent)
            place = work.ahead(self._pointer(work, len(self.slots) + 1), work.mul("%chunk", stride)) if stride else "null"
            work.call_void(nest.name, "ptr %table", f"i64 {begin}", f"i64 {end}", f"ptr {place}")
            work.returns()
            self.functions.append(work)
            self._share(segment, work.name, pieces)
        if nest.splits_row:
            self.functions.append(nest.last_function())
            segment.call_void(f"{nest.name}.last", "ptr %table", f"ptr {sums}", f"i64 {pieces}")

    def _product(self, segment: Function, step: Product) -> None:
        """Let a segment compute a matrix product."""
        name = f"product{len(self.products)}"
        self.products.append(step)
        self.outside.update(symbols(step.element))
        alone = step.chunks == 1 or step.flops < _SHARED_FLOPS
        self.functions += step.functions(name, self.slots, alone)
        self.buffer = max(self.buffer, step.buffer_bytes * _THREADS)
        if alone:
            segment.call_void(name, "ptr %table", "i64 0", "i64 0")
        else:
            self._share(segment, name, step.chunks)

    def _share(self, segment: Function, work: str, pieces: int) -> None:
        """Let the workers do pieces of work."""
        self.outside.update(pool.symbols())
        segment.call_outside("ndgrad_run", f"ptr @{work}", "ptr %table", f"i64 {pieces}", f"i64 {_THREADS}")

    def _clear(self, segment: Function, value: Value) -> None:
        """Let memory begin as zeros."""
        pointer = self._pointer(segment, self.slots[value])
        if value.size == 1:
            kind = Vector(element_of(value.dtype))
            segment.store(kind, kind.constant(0), pointer)
        else:
            segment.call_void("llvm.memset.p0.i64", f"ptr {pointer}", "i8 0", f"i64 {value.nbytes}", "i1 false")

    def _pointer(self, f: Function, slot: int) -> str:
        """An address in the table: of a value, or behind those of the values, of the buffer for products and of that for sums."""
        return f.set(f"load ptr, ptr {f.address('ptr', '%table', str(slot))}")

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


class _Callback:
    """An op that NumPy runs between segments."""

    def __init__(self, step: Call) -> None:
        self.instruction = step.instruction
        self.reads = step.reads
        self.forward = forward_of(step.instruction.op)

    def run(self, frame: _Frame) -> None:
        arguments = [
            a if place is None else frame.array(place) for a, place in zip(self.instruction.arguments, self.reads, strict=True)
        ]
        out = self.forward(*arguments, **self.instruction.settings)
        results = self.instruction.results
        for value, array in zip(results, (out,) if self.instruction.op.outputs == 1 else out, strict=True):
            array = np.asarray(array)
            frame.put(value, array if array.flags.c_contiguous else array.copy())


class _Frame:
    """The memory of one call at a time."""

    def __init__(self, program: NativeProgram) -> None:
        self.program = program
        self.slots = program.slots
        self.table = np.zeros(len(program.slots) + 2, np.uintp)
        self.address = self.table.ctypes.data
        self.arrays: dict[Value, Any] = {}
        self.arena = np.empty(program.arena + program.buffer + program.sums + 128, np.uint8)
        start = -self.arena.ctypes.data % 64
        self.table[-2] = self.arena.ctypes.data + start + program.arena
        self.table[-1] = self.table[-2] + program.buffer
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

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        program = self.program
        for value, array in zip(program.program.inputs, inputs, strict=True):
            if value in self.slots:
                self.put(value, array if array.flags.c_contiguous else array.copy())
        for value in program.fresh:
            self.put(value, np.empty(value.shape, value.dtype))
        try:
            for step in program.steps:
                if step.__class__ is _Callback:
                    step.run(self)
                else:
                    step(self.address)
            return [self.array(place) for place in program.outputs]
        finally:
            for value in program.program.inputs:  # what is the caller's is not held
                self.arrays.pop(value, None)
            for value in program.fresh:
                self.arrays.pop(value, None)


def _touched(step: Step) -> set[Value]:
    """The values whose memory a step reads or writes."""
    if isinstance(step, Product):
        return {step.a.root, step.b.root, step.result}
    if isinstance(step, Call):
        return {p.root for p in step.reads if p is not None} | set(step.instruction.results)
    read = {p.root for item in step.items for p in item.reads if p is not None and p.root not in step.computed}
    return read | set(step.stores) | set(step.targets) | {place.root for _, place in step.puts}
