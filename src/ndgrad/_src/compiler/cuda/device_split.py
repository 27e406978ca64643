"""Split a program into parts for the host and for a device.

Inputs lie on either side: the step count of an optimizer and the host's random numbers are on the host. An instruction
runs on the device if one of its arguments is there, and on the host if all of them are there. So the host never waits
for the device. Host values that the device reads are copied before it begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ndgrad._src.compiler.passes.dead_code import without_dead
from ndgrad._src.compiler.program.program import Program, Value


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


def parted(program: Program, inputs_on_host: Sequence[bool]) -> Parting:
    """Split a program; it is known for each input if it is on the host."""
    on_host = {v for v, there in zip(program.inputs, inputs_on_host, strict=True) if there}
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
    read = {v for i in second for v in i.values() if v in on_host}
    crossing = [v for v in (*program.inputs, *[r for i in first for r in i.results]) if v in read]
    made = {r for i in first for r in i.results}
    wanted = list(dict.fromkeys(v for v in (*crossing, *program.outputs) if v in made))
    host = Program([v for v in program.inputs if v in on_host], wanted, first, dict(program.constants), program.name)
    device = Program(
        [v for v in program.inputs if v not in on_host] + crossing,
        [v for v in program.outputs if v not in on_host],
        second,
        dict(program.constants),
        program.name,
    )
    return Parting(without_dead(host) if wanted else None, without_dead(device), crossing, on_host)
