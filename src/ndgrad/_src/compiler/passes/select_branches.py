"""Replace short branches by selections: compute both sides, and select one.

    branch(p, x) of { sin(x) } and { mul(x, x) }    ->    where(p, sin(where(p, x, 1)), mul(x, x))

A branch is a call between native segments, and a loop that contains one runs round by round. If both sides are a few
elementwise ops on small arrays, computing both costs less, and the loop stays native.

Exact: the values of the other side are never selected. Derivatives were taken of the branch, so nothing is multiplied
by them. An op that may report a floating-point error, such as a logarithm, gets a number that is safe for it where its side
is not taken; the report would make the call run eagerly. Sums, products and comparisons do not, because overflow is rare.
Integers are only added, multiplied and compared, because a division by zero would be more than a warning.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ndgrad._src.compiler.program.compiler_ops import branch
from ndgrad._src.compiler.program.partition import is_view
from ndgrad._src.compiler.program.program import Argument, Instruction, Program, Value
from ndgrad._src.compiler.program.replay import forward_of
from ndgrad._src.ops.vocabulary import find

#: Maximum number of instructions of both sides together, and of elements of each.
MOST_INSTRUCTIONS = 48
MOST_ELEMENTS = 4096


def select_short_branches(program: Program) -> Program:
    """Return the program with its short branches as selections, including those in the bodies of loops."""
    if not any(getattr(i.op, "programs", ()) for i in program.instructions):
        return program
    constants = dict(program.constants)
    out: list[Instruction] = []
    for instruction in program.instructions:
        instruction = _rewrite_inside(instruction)
        if instruction.op is branch and _is_short(instruction):
            out += _selection(instruction, constants)
        else:
            out.append(instruction)
    return Program(program.inputs, program.outputs, out, constants, program.name)


def _rewrite_inside(instruction: Instruction) -> Instruction:
    """Return an instruction with its inner programs rewritten."""
    names = getattr(instruction.op, "programs", ())
    if not names:
        return instruction
    settings = {k: select_short_branches(s) if k in names else s for k, s in instruction.settings.items()}
    return Instruction(instruction.op, instruction.arguments, settings, instruction.results, instruction.where)


def _is_short(instruction: Instruction) -> bool:
    programs = [instruction.settings[name] for name in branch.programs]
    if sum(len(p.instructions) for p in programs) > MOST_INSTRUCTIONS:
        return False
    return all(_is_harmless(i) for p in programs for i in p.instructions) and all(
        v.size <= MOST_ELEMENTS for v in instruction.results
    )


def _is_harmless(instruction: Instruction) -> bool:
    """True if an instruction may run without need."""
    op = instruction.op
    if any(v.size > MOST_ELEMENTS for v in instruction.results):
        return False
    if is_view(instruction) or op.movement in ("copy", "fill"):
        return True
    # An op of one instruction does not divide, so it is defined for all integers.
    return bool(op.elementwise) and (
        op.cost == 1 or all(v.dtype.kind in "fcb" for v in (*instruction.values(), *instruction.results))
    )


def _selection(instruction: Instruction, constants: dict[Value, object]) -> list[Instruction]:
    condition, *arguments = instruction.arguments
    out: list[Instruction] = []
    sides = []
    for name in branch.programs:
        side: Program = instruction.settings[name]
        here: dict[Value, Value] = dict(zip(side.inputs, arguments, strict=True))
        for v, array in side.constants.items():
            here[v] = Value(v.shape, v.dtype)
            constants[here[v]] = array
        for i in side.instructions:
            results = tuple([Value(v.shape, v.dtype) for v in i.results])
            given = tuple([here[a] if a.__class__ is Value else a for a in i.arguments])
            number = _safe_number(i, side)
            if number is not None:
                given = tuple(
                    [
                        _select_safe(out, condition, a, number, name) if _varies(inner, side) else a
                        for inner, a in zip(i.arguments, given, strict=True)
                    ]
                )
            out.append(Instruction(i.op, given, i.settings, results, i.where))
            here.update(zip(i.results, results, strict=True))
        sides.append([here[v] for v in side.outputs])
    where = find("where")
    for result, a, b in zip(instruction.results, *sides, strict=True):
        out.append(Instruction(where, (condition, a, b), {}, (result,), instruction.where))
    return out


def _varies(argument: Argument, side: Program) -> bool:
    """True for a floating argument that is not a constant."""
    return argument.__class__ is Value and argument not in side.constants and argument.dtype.kind in "fc"


def _safe_number(instruction: Instruction, side: Program) -> float | None:
    """Return a number for which an op reports no floating-point error; None if the op needs none, or none is known."""
    op = instruction.op
    if not op.elementwise or op.cost == 1 or not any(_varies(a, side) for a in instruction.arguments):
        return None
    for number in (1.0, 0.5):
        arguments: list[Any] = []
        for a in instruction.arguments:
            if a.__class__ is not Value:
                arguments.append(a)
            elif a in side.constants:
                arguments.append(side.constants[a])
            else:
                arguments.append(np.full((), number if a.dtype.kind in "fc" else 1, a.dtype))
        try:
            with np.errstate(all="raise"):
                forward_of(op)(*arguments, **instruction.settings)
        except (FloatingPointError, TypeError, ValueError):
            continue
        return number
    return None


def _select_safe(out: list[Instruction], condition: Argument, value: Argument, number: float, name: str) -> Value:
    """Append a selection of a value if its side is taken, else of a number. Return its result."""
    assert isinstance(value, Value)
    made = Value(value.shape, value.dtype)
    pair = (value, number) if name == "on_true" else (number, value)
    out.append(Instruction(find("where"), (condition, *pair), {}, (made,), None))
    return made
