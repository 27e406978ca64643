"""Plan of a program on a device: its parts for host and device, its steps, and the places of its outputs."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from ndgrad._src.compiler.cuda import launch
from ndgrad._src.compiler.cuda.device_split import Parting, split_by_device
from ndgrad._src.compiler.cuda.device_steps import Notes, Step, make_steps
from ndgrad._src.compiler.cuda.expand import expand_program
from ndgrad._src.compiler.cuda.fused_form import Affine
from ndgrad._src.compiler.cuda.fused_head import HEAD
from ndgrad._src.compiler.cuda.fusion import DEVICE
from ndgrad._src.compiler.lower.capabilities import Abilities
from ndgrad._src.compiler.lower.grouping import group_instructions
from ndgrad._src.compiler.lower.in_place import Writes, find_in_place
from ndgrad._src.compiler.lower.memory_places import Place
from ndgrad._src.compiler.lower.steps import Call, Groups
from ndgrad._src.compiler.program.program import Program, Value

#: Features without kernels: every op is a call.
_NO_KERNELS = Abilities(
    is_type=lambda dtype: False, is_pointwise=lambda i: False, is_reduction=lambda i: False, has_routines=False
)


@dataclass(frozen=True)
class Output:
    """Origin of one output of a program."""

    #: Its place on the device; None for a host value.
    place: Place | None
    #: Number of the input that it is written to, or -1.
    target: int
    #: True if it may keep its memory: no other output shares it, and the output fills it.
    is_own: bool


@dataclass(frozen=True, eq=False)
class DevicePlan:
    """A program for a device, ready to run."""

    original: Program
    parts: Parting
    #: True if kernels are fused; else each op is a call.
    is_fused: bool
    #: The device's part, with composite ops decomposed, and its groups.
    program: Program
    groups: Groups
    steps: list[Step]
    #: Names of kernels by their text.
    texts: dict[str, str]
    #: Inputs whose memory holds results, by result.
    in_place: dict[Value, Value]
    #: Constants that must be in memory.
    constants: list[Value]
    outputs: list[Output]
    #: Numbers of the outputs that must be zero. The device checks them itself.
    later: frozenset[int]

    @property
    def code(self) -> str:
        """Return the source of all kernels."""
        functions = [text.replace("NAME", name, 1) for text, name in self.texts.items()]
        return "\n".join([HEAD, *functions])

    def new_outputs(self) -> list[Place]:
        """Return the places of the outputs that are new in each call."""
        shown = [output.place for n, output in enumerate(self.outputs) if n not in self.later]
        return [place for place in shown if place is not None and place.root not in self.in_place]


def make_device_plan(
    program: Program,
    on_host: Sequence[bool],
    writes: Writes | None,
    later: Mapping[int, Callable[[int], Exception]],
    strict: bool,
) -> DevicePlan:
    """Return the plan of a program.

        on_host     True for each input on the host
        writes      outputs that may be computed in the memory of inputs
        later       outputs that must be zero, and the exception that is raised once the device reports otherwise
        strict      op by op, as eager mode computes
    """
    parts = split_by_device(program, on_host)
    is_fused = not strict and not os.environ.get("NDGRAD_COMPILE_REPLAY") and launch.can_be_made()
    device, checks = expand_program(parts.device) if is_fused else (parts.device, [])
    shown = iter(device.outputs)
    #: Value of each output that the device computes.
    values = [None if v in parts.on_host else next(shown) for v in program.outputs]
    notes = {v: error for n, error in later.items() if (v := values[n]) is not None}
    notes.update(dict.fromkeys(checks, partial(_out_of_range, program.name)))
    kept = [v for n, v in enumerate(values) if v is not None and n not in later]
    everything = Program(device.inputs, [*kept, *notes], device.instructions, device.constants, program.name)
    groups = group_instructions(everything, DEVICE if is_fused else _NO_KERNELS)
    device.constants.update(everything.constants)
    in_place: dict[Value, Value] = {}
    if is_fused and writes is not None and not writes.conditions:
        in_place = _find_in_place(program, everything, values, groups, writes, notes)
    affine = Affine(device.constants)
    given = {*everything.inputs, *everything.constants, *in_place}
    roots = {groups.places[v].root for v in everything.outputs}
    steps, texts = make_steps(groups, affine, in_place, given, roots | given, notes)
    return DevicePlan(
        original=program,
        parts=parts,
        is_fused=is_fused,
        program=device,
        groups=groups,
        steps=steps,
        texts=texts,
        in_place=in_place,
        constants=_constants_read(device, groups, roots, affine),
        outputs=_find_outputs(program, values, groups, steps, in_place),
        later=frozenset(later),
    )


def _find_in_place(
    program: Program, everything: Program, values: Sequence[Value | None], groups: Groups, writes: Writes, notes: Notes
) -> dict[Value, Value]:
    """Return the inputs whose memory holds results, by result."""
    position = {v: n for n, v in enumerate(everything.inputs)}
    numbers = {v: n for n, v in enumerate(everything.outputs)}
    targets = {
        numbers[value]: position[program.inputs[i]]
        for n, i in writes.targets.items()
        if (value := values[n]) is not None and program.inputs[i] in position
    }
    noted = {groups.places[v].root for v in notes}
    return find_in_place(everything, groups, Writes(targets), 0, True, noted).inputs


def _constants_read(program: Program, groups: Groups, shown: set[Value], affine: Affine) -> list[Value]:
    """Return the constants that must be in memory. Kernels compute affine ones."""
    used = {v for step in groups.steps for v in step.touched()} | shown
    by_calls = {p.root for s in groups.steps if isinstance(s, Call) for p in s.reads if p is not None} | shown
    return [v for v in program.constants if v in (by_calls if v in affine.known else used)]


def _find_outputs(
    program: Program,
    values: Sequence[Value | None],
    groups: Groups,
    steps: Sequence[Step],
    in_place: Mapping[Value, Value],
) -> list[Output]:
    """Return the origins of the outputs."""
    numbers = {v: n for n, v in enumerate(program.inputs)}
    own = {v for step in steps for v in step.new}
    own |= {v for s in steps if isinstance(s.group, Call) for v in s.group.instruction.results}
    found: list[Output] = []
    for value in values:
        if value is None:
            found.append(Output(None, -1, False))
            continue
        place = groups.places[value]
        target = in_place.get(place.root)
        found.append(Output(place, -1 if target is None else numbers[target], place.root in own and place.is_whole))
        own.discard(place.root)
    return found


def _out_of_range(name: str, index: int) -> Exception:
    return IndexError(
        f"{name}: an index is out of range. Call the function itself instead of the compiled one to see which. "
        "[nd-index]"
    )
