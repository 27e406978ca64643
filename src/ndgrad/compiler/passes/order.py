"""Views where they are used: the order of a program, so that each round of a loop that was
unrolled has its views beside it.

Exact: instructions only change places. A part that is read (`getitem`) moves down to the first instruction that needs
it; other views of inputs and constants move to the top, since every round shares them.
"""

from __future__ import annotations

from ndgrad.compiler.program import Instruction, Program, Value


def with_views_in_place(program: Program) -> Program:
    """The program with its views in these places."""
    early: list[Instruction] = []
    at_top = {*program.inputs, *program.constants}
    waiting: dict[Value, Instruction] = {}
    rest: list[Instruction] = []

    def place(instruction: Instruction) -> None:
        if waiting:
            for value in instruction.arguments:
                if value.__class__ is Value and value in waiting:
                    place(waiting.pop(value))
        rest.append(instruction)

    for instruction in program.instructions:
        op = instruction.op
        if op.name == "getitem":
            waiting[instruction.result] = instruction
        elif op.view and all(v in at_top for v in instruction.values()):
            early.append(instruction)
            at_top.update(instruction.results)
        else:
            place(instruction)
    for value in program.outputs:
        if value in waiting:
            place(waiting.pop(value))
    return Program(program.inputs, program.outputs, [*early, *rest], program.constants, program.name)
