"""Open sizes of an exported model.

A function is traced once with the given sizes, and once more for each open size, with another number there. A number
that differs is written as `a + b n + ...` of the open sizes, and two more traces, with all of them changed, must agree.
So the model's reshapes and slices follow the sizes of its inputs, or the export raises an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from ndgrad._src.arrays.taps import Taps


@dataclass(frozen=True)
class OpenSize:
    """An open size of an input: its name, its source, its number, and all dimensions that have it."""

    name: str
    input: int
    axis: int
    traced: int
    places: list[tuple[int, int]]


#: Change of a size in the traces that find its influence, and the further changes, applied to all sizes. Neither may
#: turn a size into 1 or into another of the function's numbers in all traces.
_STEP = 2
_CHECKS = (3, 7)


class Varying(int):
    """A number that depends on open sizes: its value in the first trace, and `constant + sum(factor * size)`."""

    constant: int
    factors: tuple[int, ...]

    def __new__(cls, value: int, constant: int, factors: tuple[int, ...]) -> Self:
        made = super().__new__(cls, value)
        made.constant, made.factors = constant, factors
        return made


class Disagreement(Exception):
    """Traces with different sizes differ in more than their sizes."""


class Merging:
    """Merges several traces into one."""

    def __init__(self, sizes: Sequence[OpenSize]) -> None:
        self.sizes = sizes
        #: Change of each size in each trace: none in the first, then one by one, then all, as a check.
        self.changes: list[list[int]] = [[0] * len(sizes)] if sizes else []
        self.changes += [[_STEP if i == j else 0 for j in range(len(sizes))] for i in range(len(sizes))]
        self.changes += [[base + i for i in range(len(sizes))] for base in _CHECKS] if sizes else []

    def number(self, values: Sequence[int]) -> int:
        first, *others = values
        if all(v == first for v in others):
            return first
        factors = []
        for value in others[: len(self.sizes)]:
            factor, rest = divmod(value - first, _STEP)
            if rest:
                raise Disagreement(f"the number {first} is no sum of multiples of the open sizes")
            factors.append(factor)
        for change, value in zip(self.changes, values, strict=True):
            if first + sum(f * c for f, c in zip(factors, change, strict=True)) != value:
                raise Disagreement(f"the number {first} is no sum of multiples of the open sizes")
        constant = first - sum(f * s.traced for f, s in zip(factors, self.sizes, strict=True))
        return Varying(first, constant, tuple(factors))

    def setting(self, values: Sequence[Any]) -> Any:
        first = values[0]
        if any(type(v) is not type(first) for v in values):
            raise Disagreement(f"{first!r:.60} is something else for other sizes")
        if type(first) is int:
            return self.number(values)
        if isinstance(first, (tuple, list)):
            if any(len(v) != len(first) for v in values):
                raise Disagreement(f"{first!r:.60} has another length for other sizes")
            return type(first)([self.setting(each) for each in zip(*values, strict=True)])
        if isinstance(first, slice):
            return slice(*(self.setting([getattr(v, k) for v in values]) for k in ("start", "stop", "step")))
        if not _same(values):
            raise Disagreement(f"{first!r:.60} is another for other sizes")
        return first

    def shape(self, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
        if any(len(s) != len(shapes[0]) for s in shapes):
            raise Disagreement(f"an array of shape {shapes[0]} has another number of dimensions for other sizes")
        return tuple(self.number(each) for each in zip(*shapes, strict=True))


def _same(values: Sequence[Any]) -> bool:
    first = values[0]
    if isinstance(first, np.ndarray):
        return all(np.array_equal(first, v) for v in values)
    if isinstance(first, Taps):
        return all(_same(each) for each in zip(*((v.index, v.weight, v.divisor) for v in values), strict=True))
    return all(v is first or v == first or (v != v and first != first) for v in values)
