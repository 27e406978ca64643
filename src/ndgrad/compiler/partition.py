"""From the program of a function and its gradients to two programs, and what the first keeps for the second.

Everything up to the function's results is the forward program; what only gradients need is the backward program. Of the values that cross,
those that are free to make again (views, conjugates of real numbers) are made again in the backward program, so that what is kept is memory
of its own and never a view of the caller's.
"""

from __future__ import annotations

from typing import NamedTuple

from ndgrad.compiler.program import Instruction, Program, Value


class Halves(NamedTuple):
    """Forward: inputs -> results, then kept values. Backward: kept values, then cotangents -> gradients."""

    forward: Program
    backward: Program
    #: the values that backward takes from forward, among them inputs of the function
    kept: list[Value]


def is_free(instruction: Instruction) -> bool:
    """Whether an instruction costs nothing on NumPy: it gives another view of its argument."""
    op = instruction.op
    return op.view or op.shares_storage or (op.name == "conj" and instruction.result.dtype.kind != "c")


def split(program: Program, results: list[Value], cotangents: list[Value], gradients: list[Value]) -> Halves:
    """Split a program whose outputs are `results`, and `gradients` for the inputs `cotangents` that stand for the results' gradients."""
    defined = program.definitions()
    forward = _needed(defined, results)
    known = {*program.inputs, *program.constants} - {*cotangents}
    backward: list[Instruction] = []
    kept: dict[Value, None] = {}
    done: set[Instruction] = set()
    after_cotangents = _reached(program, set(cotangents))

    def visit(start: Value) -> None:
        stack: list[tuple[Value, bool]] = [(start, False)]
        while stack:
            value, ready = stack.pop()
            instruction = defined.get(value)
            if ready:
                assert instruction is not None
                if instruction not in done:
                    done.add(instruction)
                    backward.append(instruction)
            elif instruction is None:
                if value in known and value not in program.constants:
                    kept[value] = None
            elif instruction in done:
                continue
            elif instruction in forward and not is_free(instruction):
                kept[value] = None
            elif instruction not in after_cotangents and not is_free(instruction):
                forward.add(instruction)  # the backward pass alone needs it, and it depends on the inputs alone: computed with them
                forward.update(_needed(defined, [value]))
                kept[value] = None
            else:
                stack.append((value, True))
                stack += [(v, False) for v in instruction.values()]

    for value in gradients:
        visit(value)
    order = {instruction: i for i, instruction in enumerate(program.instructions)}
    backward.sort(key=order.__getitem__)
    keep = list(kept)
    first = Program(
        [v for v in program.inputs if v not in set(cotangents)],
        [*results, *keep],
        [i for i in program.instructions if i in forward],
        program.constants,
        f"{program.name}_forward",
    )
    second = Program([*keep, *cotangents], gradients, backward, program.constants, f"{program.name}_backward")
    return Halves(_with_own_constants(first), _with_own_constants(second), keep)


def _needed(defined: dict[Value, Instruction], outputs: list[Value]) -> set[Instruction]:
    """The instructions that values depend on."""
    found: set[Instruction] = set()
    stack = [defined[v] for v in outputs if v in defined]
    while stack:
        instruction = stack.pop()
        if instruction not in found:
            found.add(instruction)
            stack += [defined[v] for v in instruction.values() if v in defined]
    return found


def _reached(program: Program, start: set[Value]) -> set[Instruction]:
    """The instructions that depend on values."""
    values, found = set(start), set()
    for instruction in program.instructions:
        if any(v in values for v in instruction.values()):
            found.add(instruction)
            values.update(instruction.results)
    return found


def _with_own_constants(program: Program) -> Program:
    used = {v for i in program.instructions for v in i.values()} | set(program.outputs)
    program.constants = {value: array for value, array in program.constants.items() if value in used}
    return program
