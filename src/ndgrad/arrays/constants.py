"""Numbers in the form in which NumPy takes them quickest.

Beside a small array, a Python float costs a ufunc some 200 ns, two thirds of the whole call, to become an array of the right
dtype. A 0-d array made beforehand costs nothing, but must have the dtype of the other operand, or it would widen the result.
For minimum and maximum even that is slow: their loops over an array and one number take three times as long as over two arrays.
"""

from __future__ import annotations

from typing import Any

import numpy


def beside_arrays(np: Any, *arguments: Any) -> tuple[Any, ...]:
    """Python's numbers as 0-d arrays of the dtype that promotion gives them beside the others, which stay as they are.

    A ufunc of a number alone answers in float64, which is no longer a number of any width: it would widen all that meets it.

    >>> beside_arrays(numpy, numpy.ones(2, numpy.float32), 0.5)[1].dtype
    dtype('float32')
    """
    for a in arguments:
        if not hasattr(a, "dtype"):
            dtype = numpy.result_type(*(getattr(a, "dtype", a) for a in arguments))
            return tuple([a if hasattr(a, "dtype") else np.asarray(a, dtype) for a in arguments])
    return arguments


class Constants:
    """Some numbers, as 0-d arrays of the dtype of the array they are to meet.

    >>> Constants(1.0, 0.5)(numpy.zeros(3, numpy.float32))[1].dtype
    dtype('float32')
    """

    __slots__ = ("numbers", "typed")

    def __init__(self, *numbers: float) -> None:
        self.numbers = numbers
        self.typed = {char: tuple(numpy.array(n, char) for n in numbers) for char in "df"}

    def __call__(self, x: Any) -> tuple[Any, ...]:
        # NumPy's scalars do better with Python's floats, and other libraries and dtypes do well enough.
        return self.typed.get(x.dtype.char, self.numbers) if x.__class__ is numpy.ndarray else self.numbers


class Bound:
    """A number, for minimum and maximum, as an array that meets another one element by element.

    >>> Bound(d=0.0)(numpy.ones((2, 3))).shape
    (2, 3)
    """

    __slots__ = ("lines", "numbers")
    LENGTH = 16384
    SHORTEST = 64

    def __init__(self, **numbers: float) -> None:
        """By dtype character, since what may be the limit of one dtype is none of another."""
        self.numbers = numbers
        self.lines: dict[str, Any] = {}

    def __call__(self, x: Any) -> Any:
        """For a NumPy array of a dtype that has a number."""
        char = x.dtype.char
        line = self.lines.get(char)
        if line is None:
            line = self.lines[char] = numpy.full(self.LENGTH, self.numbers[char], char)
        size = x.size
        if size <= self.LENGTH:
            return line[:size].reshape(x.shape)
        last = x.shape[-1]
        return line[:last] if self.SHORTEST <= last <= self.LENGTH else line[0]
