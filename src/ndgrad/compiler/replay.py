"""Running a program on NumPy, op by op.

This is what a compiled function does where there is no llvmlite, and for ops that have no kernel; the meaning is the
op table's own. What is left of eager's cost is NumPy's: no dispatch, no nodes, no wrappers. A value is dropped after
its last use.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ndgrad.arrays.precision import FLOAT32, half_of, rounded
from ndgrad.autograd.op_failures import after_failure
from ndgrad.compiler.program import Program, Value


class Replay:
    """A program as a list of calls on a list of slots."""

    def __init__(self, program: Program) -> None:
        slots: dict[Value, int] = {}
        for value in (*program.inputs, *program.constants):
            slots[value] = len(slots)
        self._constants = list(program.constants.values())
        last = program.last_uses()
        self._calls: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any], Any, tuple[int, ...]]] = []
        for i, instruction in enumerate(program.instructions):
            arguments = tuple([(slots[a],) if a.__class__ is Value else a for a in instruction.arguments])
            for value in instruction.results:
                slots[value] = len(slots)
            results: Any = tuple([slots[v] for v in instruction.results])
            dead = tuple([slots[v] for v in {*instruction.values(), *instruction.results} if last[v] == i])
            self._calls.append(
                (
                    forward_of(instruction.op),
                    arguments,
                    instruction.settings,
                    results if instruction.op.outputs != 1 else results[0],
                    dead,
                )
            )
        self._outputs = [slots[v] for v in program.outputs]
        self._count = len(slots)

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        """The outputs for these arrays."""
        values: list[Any] = [*inputs, *self._constants]
        values += [None] * (self._count - len(values))
        for forward, arguments, settings, results, dead in self._calls:
            out = forward(*[values[a[0]] if a.__class__ is tuple and len(a) == 1 else a for a in arguments], **settings)
            if results.__class__ is int:
                values[results] = out
            else:
                for slot, part in zip(results, out, strict=True):
                    values[slot] = part
            for slot in dead:
                values[slot] = None
        return [values[slot] for slot in self._outputs]


def forward_of(op: Any) -> Callable[..., Any]:
    """An op's function of arrays, with what eager does when NumPy refuses or widens."""
    forward = op.forward_for(np)

    def run(*arrays: Any, **settings: Any) -> Any:
        try:
            out = forward(*arrays, **settings)
        except (NotImplementedError, TypeError, ValueError) as error:
            return after_failure(op, arrays, settings, error)
        if op.rounds_numbers and out.dtype is FLOAT32:
            out = rounded(out, half_of(list(arrays), True))
        return out

    return run
