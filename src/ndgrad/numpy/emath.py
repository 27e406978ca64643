"""`numpy.emath` on Arrays: functions that go on into the complex plane where real numbers end.

Whether they do depends on the values, as in NumPy: one negative number makes the whole result of `sqrt` complex.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ndgrad.autograd.variable import np_dtype
from ndgrad.numpy.coercion import as_array, inexact, values_of, with_dtype
from ndgrad.numpy.ufuncs import call

__all__ = ["arccos", "arcsin", "arctanh", "log", "log10", "log2", "logn", "power", "sqrt"]


def _complex_if(t: Any, leaves: Callable[[Any], Any]) -> Any:
    t = inexact(t)
    if np_dtype(t).kind == "c" or not leaves(values_of(t)).any():
        return t
    return with_dtype(t, np.complex64 if np_dtype(t).itemsize <= 4 else np.complex128)


def _negative(values: Any) -> Any:
    return values < 0


def _beyond_one(values: Any) -> Any:
    return np.abs(values) > 1


def sqrt(x: Any) -> Any:
    return call(np.sqrt, _complex_if(as_array(x), _negative))


def log(x: Any) -> Any:
    return call(np.log, _complex_if(as_array(x), _negative))


def log10(x: Any) -> Any:
    return call(np.log10, _complex_if(as_array(x), _negative))


def log2(x: Any) -> Any:
    return call(np.log2, _complex_if(as_array(x), _negative))


def logn(n: Any, x: Any) -> Any:
    return log(x) / log(n)


def power(x: Any, p: Any) -> Any:
    exponent = as_array(p)
    # integers to negative powers are fractions here, not errors
    exponent = with_dtype(exponent, np.float64) if np_dtype(exponent).kind in "iu" and (values_of(exponent) < 0).any() else exponent
    base = as_array(x)
    return call(np.power, _complex_if(base, _negative) if (values_of(inexact(base)) < 0).any() else base, exponent)


def arccos(x: Any) -> Any:
    return call(np.arccos, _complex_if(as_array(x), _beyond_one))


def arcsin(x: Any) -> Any:
    return call(np.arcsin, _complex_if(as_array(x), _beyond_one))


def arctanh(x: Any) -> Any:
    return call(np.arctanh, _complex_if(as_array(x), _beyond_one))
