"""Values of a trace that no input has a part in: they are known while it is traced, and computed if somebody asks.

A traced function may ask a constant for its values: a mask of `arange(n) < k`, the quantile 30 / 100, the places of
ones in a triangle. That decides nothing that another call could decide otherwise. Ops on constants are written down
as all others are; here is kept which of their results depend on constants alone, and what is asked for is computed by
the ops themselves, once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ndgrad._src.compiler.program.program import Instruction, Program, Value
from ndgrad._src.compiler.program.replay import forward_of


class FixedValues:
    """Of the values of a program, those that depend on its constants alone."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._made_by: dict[Value, Instruction] = {}
        #: what was computed, and what another trace knows
        self._known: dict[Value, Any] = {}
        self._elsewhere: dict[Value, Callable[[], Any]] = {}

    def __contains__(self, value: Value) -> bool:
        return value in self._program.constants or value in self._made_by or value in self._elsewhere

    def note(self, instruction: Instruction) -> None:
        """An op was written down."""
        for a in instruction.arguments:
            if a.__class__ is Value and a not in self:
                return
        self._made_by.update(dict.fromkeys(instruction.results, instruction))

    def know(self, value: Value, find: Callable[[], Any]) -> None:
        """A value stands for one of another trace, which knows it."""
        self._elsewhere[value] = find

    def array(self, value: Value) -> Any:
        """The array of a value that is among these. It is not to be written."""
        waiting = [value]
        while waiting:
            at = waiting[-1]
            instruction = self._made_by.get(at)
            if instruction is None or at in self._known:
                waiting.pop()
                continue
            missing = [v for v in instruction.values() if v in self._made_by and v not in self._known]
            if missing:
                waiting += missing
            else:
                self._run(instruction)
        return self._leaf(value)

    def _leaf(self, value: Value) -> Any:
        if value in self._elsewhere and value not in self._known:
            self._known[value] = self._elsewhere[value]()
        return self._known[value] if value in self._known else self._program.constants[value]

    def _run(self, instruction: Instruction) -> None:
        arguments = [self._leaf(a) if a.__class__ is Value else a for a in instruction.arguments]
        with np.errstate(all="ignore"):
            out = forward_of(instruction.op)(*arguments, **instruction.settings)
        found = (out,) if instruction.op.outputs == 1 else out
        self._known.update(zip(instruction.results, map(np.asarray, found), strict=True))
