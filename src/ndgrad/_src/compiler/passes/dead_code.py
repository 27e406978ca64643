"""Remove dead code: instructions and loop results that are never read. Exact."""

from __future__ import annotations

from ndgrad._src.compiler.passes.loop_parts import LoopParts
from ndgrad._src.compiler.program.program import Instruction, Program, Value


def without_dead(program: Program) -> Program:
    """Return the program without instructions that its outputs do not depend on. All inputs stay."""
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
    """Return a loop with only its needed results, or the loop itself if all are needed. Carried values may exist only
    for the others.
    """
    if all(v in needed for v in instruction.results):
        return instruction
    parts = LoopParts(instruction)
    parts.without(needed)
    made = parts.rebuilt()
    if len(made.results) == len(instruction.results):
        return instruction
    made.settings["body"] = without_dead(made.settings["body"])
    return made
