"""Numbers in the form that NumPy handles fastest.

Combined with a small array, a Python float costs a ufunc some 200 ns, two thirds of the whole call, to become an array
of the right dtype. A 0-d array made beforehand costs nothing, but must have the dtype of the other operand, or it would
widen the result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy

from ndgrad._src.arrays.precision import result_dtype

if TYPE_CHECKING:
    from ndgrad._typing import Library


def as_operands(np: Library, *arguments: Any) -> tuple[Any, ...]:
    """Return Python numbers as 0-d arrays of the dtype that promotion with the other arguments gives; those stay
    unchanged.

    A ufunc of a number alone returns float64. This is no longer a weakly typed number, so it would widen all other
    operands.

    >>> as_operands(numpy, numpy.ones(2, numpy.float32), 0.5)[1].dtype
    dtype('float32')
    """
    for a in arguments:
        if not hasattr(a, "dtype"):
            dtype = result_dtype(*(getattr(a, "dtype", a) for a in arguments))
            return tuple([a if hasattr(a, "dtype") else np.asarray(a, dtype) for a in arguments])
    return arguments


class Constants:
    """Numbers as 0-d arrays of the dtype of the array with which they are combined.

    >>> Constants(1.0, 0.5)(numpy.zeros(3, numpy.float32))[1].dtype
    dtype('float32')
    """

    __slots__ = ("numbers", "typed")

    def __init__(self, *numbers: float) -> None:
        self.numbers = numbers
        self.typed = {char: tuple(numpy.array(n, char) for n in numbers) for char in "df"}

    def __call__(self, x: Any) -> tuple[Any, ...]:
        # Python floats are faster for NumPy's scalars, and fast enough for other libraries and dtypes.
        return self.typed.get(x.dtype.char, self.numbers) if x.__class__ is numpy.ndarray else self.numbers

