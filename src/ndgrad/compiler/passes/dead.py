"""Dead code: instructions whose results nobody reads."""

from __future__ import annotations

from ndgrad.compiler.program import Program


def without_dead(program: Program) -> Program:
    """The program without what its outputs do not depend on. Inputs stay, read or not."""
    needed = set(program.outputs)
    kept = []
    for instruction in reversed(program.instructions):
        if any(v in needed for v in instruction.results):
            kept.append(instruction)
            needed.update(instruction.values())
    constants = {v: a for v, a in program.constants.items() if v in needed}
    return Program(program.inputs, program.outputs, kept[::-1], constants, program.name)
