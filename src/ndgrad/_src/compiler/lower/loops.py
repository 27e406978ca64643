"""Lower a loop of a program to a native loop.

The body is a program of its own, lowered like any other, with its own table of addresses. A round of the loop sets the
addresses that change from round to round, and runs the steps of the body:

    carried     values of the previous round; two pieces of memory alternate, so that the last round writes the loop's result
    rows        of arrays that the loop reads: start + step * t
    stacks      of values that are needed for every round: row t
    others      constant

The number of rounds of a `while` is unknown: before each round, it checks the last carried value. It is native if it
has a maximum number of rounds. An unbounded loop is a call that runs such pieces (`Pieces`), and handles Ctrl-C between
them.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

import numpy as np

from ndgrad._src.compiler.lower.memory_places import Place, is_contiguous
from ndgrad._src.compiler.lower.memory_plan import planned
from ndgrad._src.compiler.lower.routines import Routine
from ndgrad._src.compiler.native.ir import Function
from ndgrad._src.compiler.passes.decompose import decompose
from ndgrad._src.compiler.passes.regions import in_regions
from ndgrad._src.compiler.program.program import Instruction, Program, Value
from ndgrad._src.ops.vocabulary import find

_ALIGNED = 64


@dataclass(eq=False, slots=True)
class Loop:
    """A loop, its lowered body, and the places of its arguments."""

    instruction: Instruction
    reads: list[Place]
    body: Program
    groups: Any
    slots: dict[Value, int]
    offsets: dict[Value, int]
    #: memory for the body, and for carried values
    workspace: Value

    def touched(self) -> AbstractSet[Value]:
        """Return the values whose memory it reads or writes."""
        return dict.fromkeys(
            [*[p.root for p in self.reads], *self.instruction.results, self.workspace, *self.body.constants]
        ).keys()

    def write(self, f: Function, body: str, slots: dict[Value, int]) -> None:
        """Write the loop: void name(ptr table)."""
        settings = self.instruction.settings
        carried, invariant = settings["carried"], settings["invariant"]
        last, count = settings.get("last", 0), settings.get("count")
        results, program = self.instruction.results, self.body
        before = f.set(f"alloca [{len(self.slots) + 3} x ptr], align 16")
        table = f.address("ptr", before, "1")
        parameters = f.set(f"load ptr, ptr {f.address('ptr', '%table', '-1')}")
        f.do(f"store ptr {parameters}, ptr {before}")

        def slot(value: Value) -> str:
            return f.address("ptr", table, str(self.slots[value]))

        def outer(value: Value) -> str:
            return f.set(f"load ptr, ptr {f.address('ptr', '%table', str(slots[value]))}")

        for i in range(2):  # the buffers of products and of sums
            shared = f.set(f"load ptr, ptr {f.address('ptr', '%table', str(len(slots) + i))}")
            f.do(f"store ptr {shared}, ptr {f.address('ptr', table, str(len(self.slots) + i))}")
        memory = outer(self.workspace)
        for value, offset in self.offsets.items():
            f.do(f"store ptr {f.ahead(memory, offset)}, ptr {slot(value)}")
        for value in program.constants:
            if value in self.slots:
                f.do(f"store ptr {outer(value)}, ptr {slot(value)}")
        places = [f.ahead(outer(p.root), p.offset * p.root.dtype.itemsize) for p in self.reads]
        for value, place in zip(program.inputs[carried : carried + invariant], places[carried:], strict=False):
            if value in self.slots:
                f.do(f"store ptr {place}, ptr {slot(value)}")
        for value, result in zip(program.outputs[carried : carried + last], results[carried:], strict=False):
            f.do(f"store ptr {outer(result)}, ptr {slot(value)}")
        here, there = [], []  # carried memory that a round reads and writes
        spare = self.spare_offset
        for k in range(carried):
            final, other = outer(results[k]), f.ahead(memory, spare[k])
            first, second = (final, other) if count is None or count % 2 else (other, final)
            here.append(f.carried("ptr", places[k]))
            there.append((f.carried("ptr", first), f.carried("ptr", second)))
        stacks = [outer(result) for result in results[carried + last :]]
        moving = [c for k in range(carried) for c in (here[k], *there[k])]
        if count is not None:
            rounds = f.loop(str(count), carried=moving)
        else:
            rounds = f.loop_while(lambda t: _goes_on(f, here[-1].name, t, settings["most"]), moving)
        with rounds as t:
            for k in range(carried):
                now, following = there[k]
                if program.inputs[k] in self.slots:
                    f.do(f"store ptr {here[k]}, ptr {slot(program.inputs[k])}")
                f.do(f"store ptr {now}, ptr {slot(program.outputs[k])}")
                here[k].next, now.next, following.next = now.name, following.name, now.name
            for k, (start, step) in enumerate(settings.get("reads", ()), start=carried + invariant):
                value, read, base = program.inputs[k], self.reads[k], places[k]
                if value in self.slots:
                    row = f.mul(f.add(f.mul(t, step), start), read.strides[0] * read.root.dtype.itemsize)
                    f.do(f"store ptr {f.ahead(base, row)}, ptr {slot(value)}")
            for value, base in zip(program.outputs[carried + last :], stacks, strict=True):
                f.do(f"store ptr {f.ahead(base, f.mul(t, value.nbytes))}, ptr {slot(value)}")
            f.call_void(body, f"ptr {table}")
        if count is None:  # the last round may have written to the other memory, or there was none
            for k in range(carried):
                size = f"i64 {results[k].nbytes}"
                f.call_void("llvm.memmove.p0.p0.i64", f"ptr {outer(results[k])}", f"ptr {here[k]}", size, "i1 false")
        f.returns()

    @property
    def spare_offset(self) -> list[int]:
        """Return the offset in the workspace of the second memory for carried values, after that of the body."""
        out, start = [], _arena(self.offsets)
        for value in self.body.inputs[: self.instruction.settings["carried"]]:
            out.append(start)
            start += _rounded(value.nbytes)
        return out


def _goes_on(f: Function, address: str, t: str, most: int) -> str:
    """Write the test for another round: the condition is True, and the maximum number of rounds is not reached."""
    holds = f.set(f"icmp ne i8 {f.set(f'load i8, ptr {address}')}, 0")
    few = f.set(f"icmp slt i64 {t}, {most}")
    return f.set(f"and i1 {holds}, {few}")


class Pieces:
    """A `while` as calls of programs that run some of its rounds."""

    #: maximum number of rounds of a call
    MOST = 1 << 16

    def __init__(self, instruction: Instruction, runner: Callable[[Program], Callable[[list[Any]], list[Any]]]) -> None:
        self.carried: int = instruction.settings["carried"]
        inputs = [Value(v.shape, v.dtype) for v in instruction.arguments]
        results = tuple([Value(v.shape, v.dtype) for v in instruction.results])
        piece = Instruction(
            instruction.op, tuple(inputs), {**instruction.settings, "most": self.MOST}, results, instruction.where
        )
        self.run = runner(Program(inputs, list(results), [piece], name="rounds"))

    def __call__(self, *arrays: Any, **settings: Any) -> tuple[Any, ...]:
        state, fixed = list(arrays[: self.carried]), list(arrays[self.carried :])
        while True:
            state = self.run([*state, *fixed])
            if not state[-1]:
                return tuple(state)


def can_read(place: Place, is_row: bool) -> bool:
    """True if a body can read a place directly: contiguous, or contiguous rows."""
    shape, strides = (place.shape[1:], place.strides[1:]) if is_row else (place.shape, place.strides)
    return is_contiguous(shape, strides)


def lowered_loop(instruction: Instruction, reads: list[Place], grouped: Any) -> Loop | None:
    """Return the loop of an instruction, with its body lowered by `group_instructions`; None if the body is not
    entirely native.
    """
    body, checks = decompose(instruction.settings["body"])
    if checks:
        return None
    body = with_results_of_its_own(in_regions(body))
    groups = grouped(body)
    for step in groups.steps:
        if isinstance(step, Loop):  # the outer loop provides the inputs of its body
            body.constants.update(step.body.constants)
    if any(hasattr(step, "instruction") and not isinstance(step, (Loop, Routine)) for step in groups.steps):
        return None  # a call of NumPy
    slots: dict[Value, int] = {}
    spans: dict[Value, tuple[int, int]] = {}
    for number, step in enumerate(groups.steps):
        for value in step.touched():
            slots.setdefault(value, len(slots))
            spans[value] = (spans.get(value, (number, number))[0], number)
    for value in body.outputs:
        if groups.places[value].root is not value or value not in slots:
            return None
    given = {*body.inputs, *body.constants, *body.outputs}
    offsets, _ = planned({v: s for v, s in spans.items() if v not in given})
    spare = sum(_rounded(v.nbytes) for v in body.inputs[: instruction.settings["carried"]])
    workspace = Value((_arena(offsets) + spare + _ALIGNED,), np.dtype(np.uint8))
    return Loop(instruction, reads, body, groups, slots, offsets, workspace)


def with_results_of_its_own(body: Program) -> Program:
    """Return the body with every output computed as a separate value."""
    views = {
        i.result for i in body.instructions if i.op.view or i.op.shares_storage or i.op.name in ("conj", "unsafe_view")
    }
    defined = {v for i in body.instructions for v in i.results} - views
    seen: set[Value] = set()
    instructions, outputs = list(body.instructions), []
    for value in body.outputs:
        if value in seen or value not in defined or value.dtype == bool:
            own = Value(value.shape, value.dtype)
            instructions.append(Instruction(find("clone"), (value,), {}, (own,)))
            value = own
        seen.add(value)
        outputs.append(value)
    return Program(body.inputs, outputs, instructions, dict(body.constants), body.name)


def _rounded(size: int) -> int:
    return -(-max(size, 1) // _ALIGNED) * _ALIGNED


def _arena(offsets: dict[Value, int]) -> int:
    return max((_rounded(o + v.nbytes) for v, o in offsets.items()), default=0)
