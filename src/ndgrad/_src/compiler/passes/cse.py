"""Common subexpressions: an op on the same values with the same settings is computed once.

Exact: ops of a program have no effects and draw no random numbers, so equal instructions have equal results. `add` and
`mul` give the same bits with their arguments exchanged, so their arguments are sorted. Constants with the same elements
are merged.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from ndgrad._src.compiler.program.program import Instruction, Program, Unhashable, Value, frozen, with_values

#: Constants of up to this many bytes are compared by value, larger ones by identity.
SMALL_CONSTANT = 4096


def merge_repeated(program: Program) -> Program:
    """Return the program in which each expression is computed once."""
    replaced: dict[Value, Value] = {}
    constants: dict[Value, Any] = {}
    known: dict[Hashable, Any] = {}
    for value, array in program.constants.items():
        array = np.asarray(array)
        key: Hashable = (
            (array.shape, array.dtype, array.tobytes())
            if array.nbytes <= SMALL_CONSTANT and not array.dtype.hasobject
            else ("the array", id(array))
        )
        first = known.setdefault(key, value)
        if first is value:
            constants[value] = array
        else:
            replaced[value] = first
    instructions: list[Instruction] = []
    for instruction in program.instructions:
        if replaced:
            instruction = with_values(instruction, replaced)
        try:
            key = key_of(instruction)
        except Unhashable:
            key = instruction
        first = known.setdefault(key, instruction)
        if first is instruction:
            instructions.append(instruction)
        else:
            replaced.update(zip(instruction.results, first.results, strict=True))
    return Program(program.inputs, [replaced.get(v, v) for v in program.outputs], instructions, constants, program.name)


def key_of(instruction: Instruction) -> Hashable:
    """Return a key that is equal for instructions that compute the same."""
    op, settings = instruction.op, instruction.settings
    arguments = [a if a.__class__ is Value else frozen(a) for a in instruction.arguments]
    if op.commutes and len(arguments) == 2:
        a, b = arguments
        if a.__class__ is Value is b.__class__ and id(b) < id(a):
            arguments = [b, a]
    return (op, *arguments, *[(k, frozen(settings[k])) for k in sorted(settings)]) if settings else (op, *arguments)
