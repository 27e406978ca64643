"""`numpy.emath` on Arrays: functions with complex results outside their real domain.

The result's dtype depends on the values, as in NumPy: one negative number makes the whole result of `sqrt` complex.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.core.variable import np_dtype
from ndgrad.numpy.coercion import as_array, inexact, values_of, with_dtype
from ndgrad.numpy.ufuncs import call

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ndgrad._typing import ArrayLike
    from ndgrad.numpy._array import Array

__all__ = ["arccos", "arcsin", "arctanh", "log", "log10", "log2", "logn", "power", "sqrt"]


def _complex_if(t: Array, leaves: Callable[[Any], Any]) -> Array:
    t = inexact(t)
    if np_dtype(t).kind == "c" or not leaves(values_of(t)).any():
        return t
    return with_dtype(t, np.complex64 if np_dtype(t).itemsize <= 4 else np.complex128)


def _negative(values: NDArray[Any]) -> NDArray[Any]:
    return values < 0


def _exceeds_one(values: NDArray[Any]) -> NDArray[Any]:
    return np.abs(values) > 1


def sqrt(x: ArrayLike) -> Array:
    """The square root; complex if an element is negative.

    Args:
        x: array of real or complex numbers.

    >>> import ndgrad.numpy as np
    >>> np.emath.sqrt(np.array([-4.0, 4.0]))
    array([0.+2.j, 2.+0.j])
    """
    return call(np.sqrt, _complex_if(as_array(x), _negative))


def log(x: ArrayLike) -> Array:
    """The natural logarithm; complex if an element is negative.

    Args:
        x: array of real or complex numbers.

    >>> import ndgrad.numpy as np
    >>> np.emath.log(-1.0).imag
    array(3.14159265)
    """
    return call(np.log, _complex_if(as_array(x), _negative))


def log10(x: ArrayLike) -> Array:
    """The logarithm to base 10; complex if an element is negative.

    Args:
        x: array of real or complex numbers.

    >>> import ndgrad.numpy as np
    >>> np.emath.log10(np.array([10.0, 100.0]))
    array([1., 2.])
    """
    return call(np.log10, _complex_if(as_array(x), _negative))


def log2(x: ArrayLike) -> Array:
    """The logarithm to base 2; complex if an element is negative.

    Args:
        x: array of real or complex numbers.

    >>> import ndgrad.numpy as np
    >>> np.emath.log2(np.array([2.0, 8.0]))
    array([1., 3.])
    """
    return call(np.log2, _complex_if(as_array(x), _negative))


def logn(n: ArrayLike, x: ArrayLike) -> Array:
    """The logarithm to base n; complex if an element is negative.

    Args:
        n: base of the logarithm.
        x: array of real or complex numbers.

    >>> import ndgrad.numpy as np
    >>> np.emath.logn(3.0, 9.0)
    array(2.)
    """
    return log(x) / log(n)


def power(x: ArrayLike, p: ArrayLike) -> Array:
    """Powers; complex if a base is negative, floating point if an exponent is.

    Args:
        x: bases.
        p: exponents. Negative ones of an integer base give fractions, not an error.

    >>> import ndgrad.numpy as np
    >>> np.emath.power(2, -1)
    array(0.5)
    """
    exponent = as_array(p)
    # Integers to negative powers are fractions here, not errors.
    exponent = (
        with_dtype(exponent, np.float64)
        if np_dtype(exponent).kind in "iu" and (values_of(exponent) < 0).any()
        else exponent
    )
    base = as_array(x)
    return call(np.power, _complex_if(base, _negative) if (values_of(inexact(base)) < 0).any() else base, exponent)


def arccos(x: ArrayLike) -> Array:
    """The inverse cosine; complex if an element lies outside [-1, 1].

    Args:
        x: array of real or complex numbers.

    >>> import ndgrad.numpy as np
    >>> np.emath.arccos(np.array([1.0, 0.0]))
    array([0.        , 1.57079633])
    """
    return call(np.arccos, _complex_if(as_array(x), _exceeds_one))


def arcsin(x: ArrayLike) -> Array:
    """The inverse sine; complex if an element lies outside [-1, 1].

    Args:
        x: array of real or complex numbers.

    >>> import ndgrad.numpy as np
    >>> np.emath.arcsin(np.array([1.0, 0.0]))
    array([1.57079633, 0.        ])
    """
    return call(np.arcsin, _complex_if(as_array(x), _exceeds_one))


def arctanh(x: ArrayLike) -> Array:
    """The inverse hyperbolic tangent; complex if an element lies outside [-1, 1].

    Args:
        x: array of real or complex numbers.

    >>> import ndgrad.numpy as np
    >>> np.emath.arctanh(np.array([0.0]))
    array([0.])
    """
    return call(np.arctanh, _complex_if(as_array(x), _exceeds_one))
