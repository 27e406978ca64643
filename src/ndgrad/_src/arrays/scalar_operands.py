"""Numbers in the form in which NumPy takes them quickest.

Beside a small array, a Python float costs a ufunc some 200 ns, two thirds of the whole call, to become an array
of the right dtype. A 0-d array made beforehand costs nothing, but must have the dtype of the other operand, or
it would widen the result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy

from ndgrad._src.arrays.precision import result_dtype

if TYPE_CHECKING:
    from ndgrad._typing import Library


def beside_arrays(np: Library, *arguments: Any) -> tuple[Any, ...]:
    """Python's numbers as 0-d arrays of the dtype that promotion gives them beside the others, which stay as they are.

    A ufunc of a number alone answers in float64, which is no longer a number of any width: it
    would widen all that meets it.

    >>> beside_arrays(numpy, numpy.ones(2, numpy.float32), 0.5)[1].dtype
    dtype('float32')
    """
    for a in arguments:
        if not hasattr(a, "dtype"):
            dtype = result_dtype(*(getattr(a, "dtype", a) for a in arguments))
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

