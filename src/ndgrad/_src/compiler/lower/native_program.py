"""A program as native code: segments of kernels, with calls of NumPy's functions between them for ops without a kernel.

A segment is one native function. It takes a table of addresses, one for each value in memory: the inputs and outputs of
the call, constants, and places in an arena that is kept from call to call. Two simultaneous calls, from two threads,
have an arena each.
"""

from __future__ import annotations

import ctypes
import functools
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ndgrad._src.arrays.retained_memory import retain_by_default
from ndgrad._src.compiler.lower.accounting import program_flops
from ndgrad._src.compiler.lower.chains import form_chains
from ndgrad._src.compiler.lower.epilogues import attach_epilogues
from ndgrad._src.compiler.lower.float_errors import FloatFlags, reported
from ndgrad._src.compiler.lower.grouping import group_instructions
from ndgrad._src.compiler.lower.in_place import InPlace, Writes, find_in_place
from ndgrad._src.compiler.lower.loops import Loop, Pieces
from ndgrad._src.compiler.lower.memory_places import Place
from ndgrad._src.compiler.lower.memory_plan import plan_memory
from ndgrad._src.compiler.lower.module_assembly import Assembly, threads_of
from ndgrad._src.compiler.lower.parallel_steps import form_waves
from ndgrad._src.compiler.lower.pointwise import cost_alone
from ndgrad._src.compiler.lower.steps import Call, Groups, Step
from ndgrad._src.compiler.lower.templates import Sizes, code_for
from ndgrad._src.compiler.native import c_interface, float_status
from ndgrad._src.compiler.native.calls import Input, Output, Scratch, make_call
from ndgrad._src.compiler.native.ir import Function, Vector, element_of
from ndgrad._src.compiler.native.target import host
from ndgrad._src.compiler.passes import simplify_program
from ndgrad._src.compiler.passes.complex_parts import split_complex_values
from ndgrad._src.compiler.passes.decompose import decompose
from ndgrad._src.compiler.passes.neighbour_slices import recompute_neighbours
from ndgrad._src.compiler.passes.regions import split_into_regions
from ndgrad._src.compiler.passes.transposed_products import transpose_products
from ndgrad._src.compiler.program.compiler_ops import as_complex, as_pairs
from ndgrad._src.compiler.program.program import Program, Value
from ndgrad._src.compiler.program.replay import Replay, forward_of

#: Minimum floating-point operations, or elements, for which the call releases the GIL.
_LONG = 100_000

#: Minimum number of steps of a long program, which takes seconds to compile, and longer to run than address lookups.
_LONG_PROGRAM = 12
#: Maximum number of steps of a segment, because LLVM is slow on long blocks.
_LONGEST_SEGMENT = 32

#: Minimum bytes of results for which fresh pages from the C library take longer than the computation.
_RETAINED = 1 << 20

#: Maximum number of steps on small arrays. Each takes LLVM some five milliseconds, and NumPy only ten microseconds.
MOST_SMALL_STEPS = 1000
#: Maximum number of elements of a small array.
_SMALL = 4096

_SEGMENT = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class TooLong(Exception):
    """Raised if a program should run on NumPy, because compiling it would take longer than many calls save."""


def _is_small(step: Step) -> bool:
    return all(v.size <= _SMALL for v in step.touched())


class NativeProgram:
    """A compiled program, which maps the arrays of its inputs to those of its outputs."""

    #: true if every step is a segment of its own, for profilers (see ndgrad._src.compiler.runtime.observed_program)
    apart = False

    def __init__(
        self,
        program: Program,
        threads: int | None = None,
        sizes: Sizes | None = None,
        writes: Writes | None = None,
    ) -> None:
        """Compile a program.

        `sizes` vary between programs that share their code (see ndgrad._src.compiler.lower.templates). `writes`: the
        outputs that may be computed in the memory of inputs.
        """
        #: the original program, which runs if a check fails, and then raises the op's own error
        self.original = program
        simple, checks = decompose(split_complex_values(program))
        self.checks = len(checks)
        # Common parts of the forward and backward formulas of a composite op are computed once.
        simple = simplify_program(
            Program(simple.inputs, [*simple.outputs, *checks], simple.instructions, simple.constants, simple.name)
        )
        self.program = split_into_regions(recompute_neighbours(transpose_products(simple), cost_alone))
        groups = self.groups = group_instructions(self.program)
        for step in groups.steps:
            if isinstance(step, Loop):
                self.program.constants.update(step.body.constants)
        groups.steps = form_chains(groups.steps, host())
        self.in_place = InPlace() if writes is None else find_in_place(self.program, groups, writes, self.checks)
        # Writes in place come after everything that can fail, and keep their order.
        before = len(groups.steps) if self.in_place.first < 0 else self.in_place.first
        count = len(groups.steps)
        groups.steps = attach_epilogues(groups.steps, before)
        self.in_place.first -= (count - len(groups.steps)) if self.in_place.first >= 0 else 0
        small = [s for s in groups.steps if not isinstance(s, (Call, Loop)) and _is_small(s)]
        if len(small) > MOST_SMALL_STEPS and not self.apart:
            raise TooLong(f"it has {len(small)} steps on small arrays, and {MOST_SMALL_STEPS} is the most")
        #: the steps, grouped if they run at once
        self.waves: list[list[Step]] = [[step] for step in groups.steps]
        if not self.apart and threads_of(threads) > 1:
            self.waves = form_waves(groups.steps, self.in_place.inputs, self.in_place.first)
        self._slots(groups)
        self._compile(groups, threads, sizes)
        self._frames: list[_Frame] = []
        #: the floating-point status bits to check, and those set by calls that wrote inputs
        self.bits = self.found_bits = 0
        #: the first call avoids builtins: it may be the only one, and they take 0.2 s to compile
        self._was_called = False
        #: the program's constants in permanent memory
        self.constants = {v: np.array(array, v.dtype, order="C") for v, array in self.program.constants.items()}

    # ----- compiling --------------------------------------------------------------------------------------------------

    def _slots(self, groups: Groups) -> None:
        """Number the values in memory, and find those in the arena with their lifetimes."""
        program = self.program
        self.outputs = [groups.places[v] for v in program.outputs]
        given = {*program.inputs, *program.constants, *self.in_place.inputs}
        fresh = {p.root for p in self.outputs} - given
        spans: dict[Value, tuple[int, int]] = {}
        called = [v for step in groups.steps if isinstance(step, Call) for v in step.instruction.results]
        for number, wave in enumerate(self.waves):
            for value in dict.fromkeys(v for step in wave for v in step.touched()):
                spans[value] = (spans.get(value, (number, number))[0], number)
        #: new memory of every call, allocated here or by NumPy
        ordered = dict.fromkeys([*(p.root for p in self.outputs), *spans])
        self.fresh = [v for v in ordered if v in fresh and v not in called]
        self.called = called
        if sum(v.nbytes for v in self.fresh) >= _RETAINED:
            retain_by_default()
        #: values whose addresses a native call takes; they come first in the table, in this order
        self.given = [*program.inputs, *self.fresh, *program.constants]
        self.slots = {v: n for n, v in enumerate(dict.fromkeys([*self.given, *spans]))}
        self.offsets, self.arena = plan_memory(
            {v: s for v, s in spans.items() if v not in fresh and v not in given and v not in called}
        )

    def _compile(self, groups: Groups, threads: int | None, sizes: Sizes | None) -> None:
        """Write the segments and the functions that they call, and compile them."""
        is_long = len(groups.steps) > _LONG_PROGRAM and not self.apart
        assembly = self.assembly = Assembly(host(), threads, sizes or frozenset(), is_long)
        self.steps: list[Any] = []
        #: each step, or the first of a wave, with the names of its functions
        self.written: list[tuple[Step, list[str]]] = []
        segment: Function | None = None
        inside = 0
        waiting = set(groups.cleared)
        #: the segment before which gates are checked
        self._gate = -1
        first = groups.steps[self.in_place.first] if self.in_place.first >= 0 else None
        for wave in self.waves:
            step = wave[0]
            if isinstance(step, Call):
                if segment is not None:
                    segment.returns()
                segment = None
                self.steps.append(_Callback(step, threads))
                self.written.append((step, []))
                continue
            is_gate = step is first
            if segment is not None and (self.apart or is_gate or inside >= _LONGEST_SEGMENT):
                segment.returns()
                segment = None
            if is_gate:
                self._gate = len(self.steps)
            if segment is None:
                segment = assembly.function(f"segment{len(self.steps)}")
                self.steps.append(segment.name)
                inside = 0
            inside += len(wave)
            before = len(assembly.functions)
            assembly.wave(segment, wave, self.slots, waiting)
            self.written.append((step, [f.name for f in assembly.functions[before:] if isinstance(f, Function)]))
        if segment is not None:
            segment.returns()
        #: true if a call is a single native call
        self.is_native = not self.apart and bool(self.steps) and all(isinstance(step, str) for step in self.steps)
        if self.is_native:
            assembly.functions.append(self._entering())
        assembly.outside.update(float_status.symbols())
        self.text = assembly.text({"enter", *[step for step in self.steps if isinstance(step, str)]})
        numbers: list[int] = []
        if assembly.functions:
            self.code, numbers = code_for(self.text, assembly.target, assembly.outside, sizes)
            self.steps = [s if isinstance(s, _Callback) else _SEGMENT(self.code.address(s)) for s in self.steps]

        #: the numbers that the code reads from memory
        self.parameters = np.array([*numbers, 0], np.int64)
        self.scratch_offsets = np.array(self._scratch_offsets(), np.int64)

    def _entering(self) -> Function:
        """Write i64 enter(pointers), which runs all segments.

        The pointers are those of the given values, of parameters, of the offsets in scratch memory of all other values,
        and of scratch memory. The code uses loops, because LLVM is slow on long blocks.
        """
        f = Function("enter", "ptr %pointers", "i64")
        given = len(self.given)
        before = f.set(f"alloca ptr, i64 {len(self.slots) + 3}")
        status = f.set("alloca i64")
        last = [f.address("ptr", "%pointers", str(given + i)) for i in range(3)]
        f.do(f"%parameters = load ptr, ptr {last[0]}")
        f.do(f"store ptr %parameters, ptr {before}")
        offsets, scratch = (f.set(f"load ptr, ptr {pointer}") for pointer in last[1:])
        table = f.address("ptr", before, "1")
        f.call_void("llvm.memcpy.p0.p0.i64", f"ptr {table}", "ptr %pointers", f"i64 {8 * given}", "i1 false")
        rest = f.address("ptr", table, str(given))
        with f.loop(str(len(self.slots) - given + 2)) as i:
            offset = f.set(f"load i64, ptr {f.address('i64', offsets, i)}")
            address = f.ahead(scratch, offset)
            if self.in_place.inputs:  # a value in the memory of an input has the offset -1 - its slot
                slot = f.most(f.sub("-1", offset), 0)
                own = f.set(f"load ptr, ptr {f.address('ptr', table, slot)}")
                address = f.choose(f.compare("slt", offset, 0), own, address, "ptr")
            f.do(f"store ptr {address}, ptr {f.address('ptr', rest, i)}")
        f.call_outside("ndgrad_clear_status")
        for number, name in enumerate(self.steps):
            if number == self._gate:
                self._write_gates(f, table)
            f.call_void(name, f"ptr {table}")
        # After the offsets come the mask of the bits to check, and those that were found.
        mask = f.set(f"load i64, ptr {f.address('i64', offsets, str(len(self.slots) - given + 2))}")
        f.call_outside("ndgrad_status", f"ptr {status}")
        bits = f.set(f"and i64 {f.set(f'load i64, ptr {status}')}, {mask}")
        if self.in_place.inputs:  # writes cannot be undone
            f.do(f"store i64 {bits}, ptr {f.address('i64', offsets, str(len(self.slots) - given + 3))}")
            f.returns("i64 0")
            return f
        is_clear = f.set(f"icmp eq i64 {bits}, 0")
        f.returns(f"i64 {f.set(f'select i1 {is_clear}, i64 0, i64 {float_status.FLAGGED}')}")
        return f

    def _write_gates(self, f: Function, table: str) -> None:
        """Write code that returns unless all gates are open."""
        for gate in self.in_place.gates:
            kind = Vector(element_of(gate.value.dtype))
            pointer = f.set(f"load ptr, ptr {f.address('ptr', table, str(self.slots[gate.value]))}")
            differ, equal = ("fcmp une", "fcmp oeq") if gate.value.dtype.kind == "f" else ("icmp ne", "icmp eq")
            compare = differ if gate.is_zero else equal
            is_shut = f.set(f"{compare} {kind} {f.load(kind, pointer)}, {kind.constant(0)}")
            shut, is_open = f.fresh("shut"), f.fresh("open")
            f.branch(is_shut, shut, is_open)
            f.label(shut)
            f.returns("i64 0")
            f.label(is_open)

    def _scratch_offsets(self) -> list[int]:
        """Return the offsets in scratch memory of the table's entries after the given values."""
        if not self.is_native:
            return []
        own = {v: -1 - self.slots[target] for v, target in self.in_place.inputs.items()}
        places = [own[v] if v in own else self.offsets[v] for v in list(self.slots)[len(self.given) :]]
        return [*places, self.arena, self.arena + self.assembly.buffer, 0, 0]

    @functools.cached_property
    def _are_complex(self) -> list[bool]:
        """Return, for each output, True if it is returned as complex numbers instead of pairs."""
        return [v.dtype.kind == "c" for v in self.original.outputs] + [False] * self.checks

    @functools.cached_property
    def _complex_memory(self) -> set[Value]:
        """Return the fresh memory that is allocated as complex numbers, because it is one whole output and nothing
        else.
        """
        roots = Counter(p.root for p in self.outputs)
        return {
            p.root
            for p, is_complex in zip(self.outputs, self._are_complex, strict=True)
            if is_complex and p.is_whole and roots[p.root] == 1 and p.shape[-1] == 2
        }

    @functools.cached_property
    def scratch(self) -> Scratch:
        """Allocate the scratch memory of a call."""
        return Scratch(self.arena + self.assembly.buffer + self.assembly.sums + 64)

    def fresh_shapes(self) -> list[tuple[int, ...]]:
        """Return the shapes of fresh memory: those of the outputs that fill it."""
        shapes: dict[Value, tuple[int, ...]] = {}
        for place in self.outputs:
            if place.is_whole:
                shapes.setdefault(place.root, place.shape)
        return [shapes.get(v, v.shape) for v in self.fresh]

    def _fresh(self) -> list[Output]:
        """Return the kinds of fresh memory."""
        found = []
        for v, shape in zip(self.fresh, self.fresh_shapes(), strict=True):
            is_complex = v in self._complex_memory
            dtype = np.result_type(v.dtype, np.complex64) if is_complex else v.dtype
            found.append(Output(dtype, shape[:-1] if is_complex else shape))
        return found

    def make_call(self, inputs: Sequence[Input], are_apart: bool = False) -> Callable[..., tuple[Any, ...] | None]:
        """Return a builtin that takes such inputs and returns the fresh memory, or None if an input does not fit."""
        fixed = [*self.constants.values(), self.parameters, self.scratch_offsets]
        work = program_flops(self.program) + sum(v.size for i in self.program.instructions for v in i.results)
        return make_call(
            self.program.name,
            inputs,
            self._fresh(),
            self.code.address("enter"),
            [a.__array_interface__["data"][0] for a in fixed],
            self.scratch,
            release=work > _LONG,
            are_apart=are_apart,
            keeps=(self.code, *fixed),
        )

    @functools.cached_property
    def _builtin(self) -> Callable[..., tuple[Any, ...] | None] | None:
        """Return a builtin that calls it with arrays in C order; None if there is no C interface for it."""
        if c_interface.problem() is not None:
            return None
        return self.make_call([Input(v.dtype, v.shape) for v in self.original.inputs])

    @functools.cached_property
    def gives_fresh(self) -> bool:
        """True if the outputs are the fresh memory, in order, and nothing has to be checked."""
        return (
            not self.checks
            and [p.root for p in self.outputs] == self.fresh
            and all(
                p.is_whole and is_complex == (p.root in self._complex_memory)
                for p, is_complex in zip(self.outputs, self._are_complex, strict=True)
            )
        )

    @functools.cached_property
    def _collecting(self) -> list[tuple[int, Place | None, bool]]:
        """Return for each output: the number of its memory among the given values, its place unless it is the whole,
        and True if it may keep that memory.

        An output may keep memory that is not shared, or that of the input to which it is written.
        """
        numbers = {v: n for n, v in enumerate(self.given)}
        numbers.update({v: numbers[target] for v, target in self.in_place.inputs.items()})
        shapes = {**dict(zip(self.fresh, self.fresh_shapes(), strict=True)), **{v: v.shape for v in self.program.inputs}}
        own, found = {*self.fresh, *self.in_place.inputs}, []
        for place in self.outputs:
            memory = self.given[numbers[place.root]]
            is_plain = place.is_whole and shapes.get(memory) == place.shape
            found.append((numbers[place.root], None if is_plain else place, place.root in own and place.is_whole))
            own.discard(place.root)
        return found

    @functools.cached_property
    def _collecting_whole(self) -> list[int] | None:
        """Return the memory of each output, if each is the whole of memory that it may keep, and nothing has to be
        checked.
        """
        if self.checks or any(self._are_complex) or any(v.dtype.kind == "c" for v in self.original.inputs):
            return None
        if any(place is not None or not is_own for _, place, is_own in self._collecting):
            return None
        return [number for number, _, _ in self._collecting]

    def collected(self, inputs: Sequence[Any], fresh: Sequence[Any]) -> list[Any]:
        """Return the outputs of a native call, from the arrays of its inputs and of its fresh memory, each in memory of
        its own.
        """
        if self._collecting_whole is not None:  # common for a step that updates hundreds of arrays in place
            arrays = [*inputs, *fresh, *self.constants.values()]
            return [arrays[number] for number in self._collecting_whole]
        inputs = [np.asarray(a) for a in inputs]
        arrays = [*[_real(a) for a in (*inputs, *fresh)], *self.constants.values()]
        found = []
        for (number, place, is_own), is_complex in zip(self._collecting, self._are_complex, strict=True):
            array = arrays[number] if place is None else _view_place(arrays[number], place)
            array = array if is_own else array.copy()
            found.append(as_complex(array) if is_complex else array)
        return self.strip_checks(inputs, found)

    # ----- running ----------------------------------------------------------------------------------------------------

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        """Return the outputs for these arrays."""
        if self.is_native and self._was_called and self._builtin is not None:
            fresh = self._builtin(*inputs)
            if fresh is not None:
                return list(fresh) if self.gives_fresh else self.collected(inputs, fresh)
        try:
            frame = self._frames.pop()
        except IndexError:
            frame = _Frame(self)
        try:
            found = frame.run(inputs)
        finally:
            if self._was_called or not self.is_native:
                self._frames.append(frame)
            self._was_called = True
        return self.strip_checks(inputs, found)

    def strip_checks(self, inputs: Sequence[Any], found: list[Any]) -> list[Any]:
        """Return the outputs without the results of checks. If a check has failed, the op runs on NumPy and raises its
        error.
        """
        if not self.checks:
            return found
        if any(check != 0 for check in found[-self.checks :]):
            return Replay(self.original)(inputs)
        return found[: -self.checks]

    def look_for(self, bits: int) -> None:
        """Let later calls of the program raise `FloatFlags` if one of these bits of the floating-point status is set,
        unless the program writes its inputs (see ndgrad._src.compiler.lower.float_errors).
        """
        if bits != self.bits:
            self.bits = bits
            if self.is_native:
                self.scratch_offsets[-2] = bits

    def take_bits(self) -> int:
        """Return and clear the bits set by calls of a program that writes its inputs."""
        if self.is_native:
            self.found_bits |= int(self.scratch_offsets[-1])
            self.scratch_offsets[-1] = 0
        found, self.found_bits = self.found_bits, 0
        return found

    def execute(self, frame: _Frame) -> None:
        """Run the steps on the memory of a call."""
        take, found = float_status.take() if self.bits else None, 0
        for number, step in enumerate(self.steps):
            if number == self._gate and not all(g.holds(frame.arrays[g.value]) for g in self.in_place.gates):
                return
            if step.__class__ is _Callback:
                if take is None:
                    step.run(frame)
                else:
                    with reported() as flags:
                        step.run(frame)
                    found |= flags[0]
                continue
            if take is not None:
                take()
            step(frame.address)
            if take is not None:
                found |= take()
        if self.in_place.inputs:
            self.found_bits |= found & self.bits
        elif found & self.bits:
            raise FloatFlags(found & self.bits)


class _Callback:
    """An op that runs between segments, on NumPy."""

    def __init__(self, step: Call, threads: int | None) -> None:
        self.instruction = step.instruction
        self.reads = step.reads
        self.forward = forward_of(step.instruction.op)
        self.settings = step.instruction.settings
        if getattr(step.instruction.op, "programs", ()):
            from ndgrad._src.compiler.runtime.backend import Runner  # avoids an import cycle

            if step.instruction.op.name == "while" and "most" not in self.settings:
                self.forward = Pieces(step.instruction, lambda program: Runner(program, threads=threads))
            else:
                self.settings = {
                    k: Runner(s, threads=threads) if isinstance(s, Program) else s for k, s in self.settings.items()
                }

    def run(self, frame: _Frame) -> None:
        arguments = [
            a if place is None else frame.array(place)
            for a, place in zip(self.instruction.arguments, self.reads, strict=True)
        ]
        out = self.forward(*arguments, **self.settings)
        results = self.instruction.results
        for value, array in zip(results, (out,) if self.instruction.op.outputs == 1 else out, strict=True):
            array = np.asarray(array)
            # A view of an argument would be memory that is reused.
            own = array.base is None and array.flags.c_contiguous and not any(array is a for a in arguments)
            frame.set_array(value, array if own else array.copy())


class _Frame:
    """The memory of one call at a time."""

    def __init__(self, program: NativeProgram) -> None:
        self.program = program
        self.slots = program.slots
        self.table = np.zeros(1 + len(program.slots) + 2, np.uintp)
        self.table[0] = program.parameters.ctypes.data
        self.address = self.table.ctypes.data + self.table.itemsize
        self.arrays: dict[Value, Any] = {}
        buffer, sums = program.assembly.buffer, program.assembly.sums
        self.arena = np.empty(program.arena + buffer + sums + 192, np.uint8)
        start = -self.arena.ctypes.data % 64
        self.table[-2] = self.arena.ctypes.data + start + program.arena
        self.table[-1] = self.table[-2] + -(-buffer // 64) * 64
        for value, offset in program.offsets.items():
            self.set_array(value, np.ndarray(value.shape, value.dtype, self.arena, start + offset))
        for value, array in program.constants.items():
            self.set_array(value, array)

    def set_array(self, value: Value, array: Any) -> None:
        self.arrays[value] = array
        self.table[1 + self.slots[value]] = array.__array_interface__["data"][0]

    def array(self, place: Place) -> Any:
        """Return an array that shows a place."""
        return _view_place(self.arrays[place.root], place)

    def _outputs(self) -> list[Any]:
        """Return the outputs, each in memory of its own: never that of an input, of a constant or of another output."""
        own, found = {*self.program.fresh, *self.program.called, *self.program.in_place.inputs}, []
        for place, is_complex in zip(self.program.outputs, self.program._are_complex, strict=True):
            array = self.array(place)
            array = array if place.root in own else array.copy()
            found.append(as_complex(array) if is_complex else array)
            own.discard(place.root)
        return found

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        program = self.program
        for value, array in zip(program.program.inputs, inputs, strict=True):
            array = _real(np.asarray(array))  # a NumPy scalar has no permanent memory
            self.set_array(value, array if array.flags.c_contiguous else array.copy())
        for value, target in program.in_place.inputs.items():
            self.set_array(value, self.arrays[target])
        for value in program.fresh:
            self.set_array(value, np.empty(value.shape, value.dtype))
        try:
            program.execute(self)
            return self._outputs()
        finally:
            # Only the arena and constants are kept.
            for value in (*program.program.inputs, *program.in_place.inputs, *program.fresh, *program.called):
                self.arrays.pop(value, None)


def _real(array: Any) -> Any:
    """Return an array in the form of programs, with complex numbers as pairs."""
    return as_pairs(array) if array.dtype.kind == "c" else array


def _view_place(root: Any, place: Place) -> Any:
    """Return an array that shows a place in its root."""
    if place.is_whole:
        return root if root.shape == place.shape else root.reshape(place.shape)
    size = root.itemsize
    return np.ndarray(place.shape, root.dtype, root, place.offset * size, tuple(s * size for s in place.strides))
