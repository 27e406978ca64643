"""The walk shared by the rules for composite ops, which records run-time checks.

Native code would not notice an index outside its array. A program therefore returns an additional result for it, a
*check*: a number that must be zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ndgrad._src.compiler.passes.rewrite import Rules, Walk
from ndgrad._src.compiler.program.program import Program, Value


class Expansion(Walk):
    """A walk that records run-time checks."""

    #: longest row in which an index is compared with every position
    longest_row = 4096

    def __init__(self, program: Program, rules: Rules) -> None:
        super().__init__(program, rules)
        self.checks: list[Value] = []

    def check_range(self, index: Value, low: int, high: int) -> None:
        """Add a check that all numbers of an index lie in [low, high)."""
        outside = self.emit("logical_or", self.emit("lt", index, low), self.emit("ge", index, high))
        self.checks.append(self.emit("sum_all", self.emit("cast", outside, dtype=np.dtype(np.float64)), dtype=None))


def is_plain(value: Any) -> bool:
    """True if a value is of single or double precision, and has elements."""
    return value is None or (value.__class__ is Value and value.dtype.char in "fd" and value.size > 0)
