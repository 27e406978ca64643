"""Trace-time constants: values that depend on no input. They are computed on demand.

A traced function may read the values of a constant: a mask of `arange(n) < k`, the quantile 30 / 100, the places of
ones in a triangle. The values are the same in every call. Ops on constants are traced like all others. This module
records which results depend on constants alone, and computes requested ones by the ops themselves, once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ndgrad._src.compiler.program.program import Instruction, Program, Value
from ndgrad._src.compiler.program.replay import forward_of


class TraceConstants:
    """The values of a program that depend on its constants alone."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._made_by: dict[Value, Instruction] = {}
        #: Computed arrays, and functions that get the array from another trace.
        self._known: dict[Value, Any] = {}
        self._elsewhere: dict[Value, Callable[[], Any]] = {}

    def __contains__(self, value: Value) -> bool:
        return value in self._program.constants or value in self._made_by or value in self._elsewhere

    def note(self, instruction: Instruction) -> None:
        """Record a traced instruction."""
        for a in instruction.arguments:
            if a.__class__ is Value and a not in self:
                return
        self._made_by.update(dict.fromkeys(instruction.results, instruction))

    def register(self, value: Value, find: Callable[[], Any]) -> None:
        """Register a value that equals a constant of another trace."""
        self._elsewhere[value] = find

    def array(self, value: Value) -> Any:
        """Return the array of a constant value. The caller must not write it."""
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
