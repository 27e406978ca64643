"""Dead code: instructions whose results nobody reads."""

from __future__ import annotations

from ndgrad.compiler.program import Program, Value


def without_dead(program: Program) -> Program:
    """The program without what its outputs do not depend on. Inputs stay, read or not."""
    needed = set(program.outputs)
    kept = []
    for instruction in reversed(program.instructions):
        for value in instruction.results:
            if value in needed:
                kept.append(instruction)
                needed.update([a for a in instruction.arguments if a.__class__ is Value])
                break
    constants = {v: a for v, a in program.constants.items() if v in needed}
    return Program(program.inputs, program.outputs, kept[::-1], constants, program.name)
