"""Reorder a program so that each round of an unrolled loop has its views next to it.

Exact: instructions only change places. A part that is read (`getitem`) moves down to the first instruction that needs
it. Other views of inputs and constants move to the top, since every round shares them.
"""

from __future__ import annotations

from ndgrad._src.compiler.program.program import Instruction, Program, Value


def with_views_in_place(program: Program) -> Program:
    """Return the program with its views next to their first use."""
    early: list[Instruction] = []
    at_top = {*program.inputs, *program.constants}
    waiting: dict[Value, Instruction] = {}
    rest: list[Instruction] = []

    def place(instruction: Instruction) -> None:
        if waiting and any(value in waiting for value in instruction.values()):
            rest.extend(_before(instruction, waiting))
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


def _before(instruction: Instruction, waiting: dict[Value, Instruction]) -> list[Instruction]:
    """Return the waiting instructions that an instruction needs, in a valid order, and remove them from the queue."""
    found: list[Instruction] = []
    for value in instruction.values():
        chain: list[Instruction] = []
        made = waiting.pop(value, None)
        while made is not None:
            chain.append(made)
            made = waiting.pop(made.arguments[0], None)
        found += reversed(chain)
    return found
