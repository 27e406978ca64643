"""Split a program into parts for the host and for a device.

Inputs lie on either side: the step count of an optimizer and the host's random numbers are on the host. An instruction
runs on the device if one of its arguments is there, and on the host if all of them are there. So the host never waits
for the device. Host values that the device reads are copied before it begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ndgrad._src.compiler.passes.dead_code import remove_dead_code
from ndgrad._src.compiler.program.program import Instruction, Program, Value


@dataclass(eq=False)
class Parting:
    """A program in two parts. The host's part, computed from its own inputs, comes first."""

    #: None if there is nothing to compute on the host
    host: Program | None
    device: Program
    #: the values that are copied: inputs or results of the host's part, inputs of the device's
    crossing: list[Value]
    #: the values on the host
    on_host: set[Value]


def split_by_device(program: Program, inputs_on_host: Sequence[bool]) -> Parting:
    """Split a program. `inputs_on_host` has for each input whether it is on the host."""
    on_host = {v for v, there in zip(program.inputs, inputs_on_host, strict=True) if there}
    first, second = _split_instructions(program, on_host)
    made = list(dict.fromkeys(r for i in first for r in i.results))
    read = {v for i in second for v in i.values()}
    crossing = [v for v in (*program.inputs, *made) if v in read and v in on_host]
    return Parting(
        _host_part(program, first, on_host, {*crossing, *program.outputs}.intersection(made)),
        _device_part(program, second, on_host, crossing),
        crossing,
        on_host,
    )


def _split_instructions(program: Program, on_host: set[Value]) -> tuple[list[Instruction], list[Instruction]]:
    """Return the instructions of the host and of the device. The results of the host's join `on_host`."""
    first, second = [], []
    for instruction in program.instructions:
        values = [v for v in instruction.values() if v not in program.constants]
        # The reader on the device performs a cast to halves, which has no native code on the host.
        is_half = instruction.op.name == "cast" and instruction.result.dtype.char in "eE"
        if values and all(v in on_host for v in values) and not is_half:
            first.append(instruction)
            on_host.update(instruction.results)
        else:
            second.append(instruction)
    return first, second


def _host_part(
    program: Program, instructions: list[Instruction], on_host: set[Value], wanted: set[Value]
) -> Program | None:
    if not wanted:
        return None
    outputs = [r for i in instructions for r in i.results if r in wanted]
    inputs = [v for v in program.inputs if v in on_host]
    return remove_dead_code(Program(inputs, outputs, instructions, dict(program.constants), program.name))


def _device_part(
    program: Program, instructions: list[Instruction], on_host: set[Value], crossing: list[Value]
) -> Program:
    inputs = [v for v in program.inputs if v not in on_host]
    outputs = [v for v in program.outputs if v not in on_host]
    constants = dict(program.constants)
    return remove_dead_code(Program([*inputs, *crossing], outputs, instructions, constants, program.name))
