"""Dead code: instructions whose results nobody reads, and of loops the results that nobody reads, with what is computed
for them. Exact: nothing else changes."""

from __future__ import annotations

from ndgrad._src.compiler.passes.loop_parts import LoopParts
from ndgrad._src.compiler.program.program import Instruction, Program, Value


def without_dead(program: Program) -> Program:
    """The program without what its outputs do not depend on. Inputs stay, read or not."""
    needed = set(program.outputs)
    kept = []
    for instruction in reversed(program.instructions):
        for value in instruction.results:
            if value in needed:
                if instruction.op.name == "loop":
                    instruction = _with_needed(instruction, needed)
                kept.append(instruction)
                for a in instruction.arguments:
                    if a.__class__ is Value:
                        needed.add(a)
                break
    constants = {v: a for v, a in program.constants.items() if v in needed}
    return Program(program.inputs, program.outputs, kept[::-1], constants, program.name)


def _with_needed(instruction: Instruction, needed: set[Value]) -> Instruction:
    """A loop with those of its results that are read; itself if all are. What is carried may be so for the others."""
    if all(v in needed for v in instruction.results):
        return instruction
    parts = LoopParts(instruction)
    parts.without(needed)
    made = parts.rebuilt()
    if len(made.results) == len(instruction.results):
        return instruction
    made.settings["body"] = without_dead(made.settings["body"])
    return made
