"""Items of a Python loop whose number is known before its first round."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import numpy as np

from ndgrad._src.compiler.capture.loop_numbers import LoopNumber
from ndgrad._src.core.variable import Variable


class Items:
    """The items of a call of zip, enumerate or reversed."""

    def __init__(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.function = function
        self.args = args
        self.kwargs = kwargs
        # A call with wrong arguments raises now, as the original does.
        self._made = function(*[iter(a) if isinstance(a, Items) else a for a in args], **kwargs)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._made)

    def count(self) -> int:
        """Return the number of items; 0 if it is not known."""
        if self.function is enumerate:
            return count_items(self.args[0]) if len(self.args) == 1 else 0
        if self.function is zip:
            lengths = {count_items(a) for a in self.args}
            return 0 if len(lengths) > 1 and self.kwargs.get("strict") else min(lengths, default=0)
        return 0 if isinstance(self.args[0], Items) else count_items(self.args[0])


class MovingRange:
    """A range whose ends differ from round to round of a loop around. The loop runs all rounds that any of these ranges
    has, and does nothing in those outside of its own.
    """

    def __init__(self, start: Any, stop: Any, step: int) -> None:
        #: Integers, or numbers of a loop.
        self.start = start
        self.stop = stop
        self.step = step
        begins, ends = _values(start), _values(stop)
        self.whole = range(min(begins), max(ends)) if step > 0 else range(max(begins), min(ends), -1)

    def __iter__(self) -> Iterator[Any]:
        if self.whole:
            loop = (self.start if isinstance(self.start, LoopNumber) else self.stop).loop
            loop.refuse("the ends of a range inside differ from round to round, and that loop is traced round by round")
        return iter(())


def _values(number: Any) -> list[Any]:
    values: list[Any] = number.loop.values(number) if isinstance(number, LoopNumber) else [number]
    return [operator.index(value) for value in values]


def make_range(function: Any, *args: Any) -> Any:
    """Return `function(*args)`, for a range whose ends may be numbers of a loop."""
    if function is not range or not any(isinstance(a, LoopNumber) for a in args) or len(args) > 3:
        return function(*args)
    start, stop = (0, args[0]) if len(args) == 1 else args[:2]
    step = args[2] if len(args) == 3 else 1
    if type(step) is not int or abs(step) != 1:
        return function(*args)
    loops = {id(a.loop) for a in (start, stop) if isinstance(a, LoopNumber)}
    return MovingRange(start, stop, step) if len(loops) == 1 else function(*args)


def count_items(items: Any) -> int:
    """Return the number of items if their kind is known, else 0."""
    if isinstance(items, Items):
        return items.count()
    if type(items) in (range, list, tuple):
        return len(items)
    if isinstance(items, MovingRange):
        return len(items.whole)
    if isinstance(items, np.ndarray) or (isinstance(items, Variable) and items.__class__ is items.tensor_type):
        return items.shape[0] if len(items.shape) else 0
    return 0
