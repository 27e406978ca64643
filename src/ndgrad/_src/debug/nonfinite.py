"""Which values of a result or a gradient are not finite, and where the first of them lies."""

from __future__ import annotations

from typing import Any

import numpy as np

from ndgrad._src.arrays.precision import is_inexact
from ndgrad._src.core.sparse_gradients import is_structured
from ndgrad._src.core.variable import Variable


def raw_values(value: Any) -> Any:
    """The NumPy array under a gradient or a result of any lane, of a sparse or nested one the values; None if there
    is none."""
    while isinstance(value, Variable) or is_structured(value):
        value = value._array if isinstance(value, Variable) else value.values
    if value is None or not hasattr(value, "dtype") or not is_inexact(value.dtype):
        return None
    if not isinstance(value, (np.ndarray, np.generic)):
        value = value.get() if hasattr(value, "get") else None
    return value


#: From here on the sum is quicker.
_MANY = 10_000


def is_finite(array: Any) -> bool:
    """Whether all values are finite. Of many, the sum tells, in one pass without a temporary, unless it overflows."""
    if array.size < _MANY:
        return bool(np.isfinite(array).all())
    with np.errstate(all="ignore"):
        return bool(np.isfinite(array.sum())) or bool(np.isfinite(array).all())


def first_index(bad: Any) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(bad)), bad.shape))


def first_nonfinite(payloads: Any) -> tuple[int, tuple[int, ...], Any] | None:
    """Where the first value among several results lies that is not finite: (result, index, value)."""
    for number, payload in enumerate(payloads):
        array = raw_values(payload)
        if array is not None and array.size and not is_finite(array):
            index = first_index(~np.isfinite(array))
            return number, index, array[index]
    return None
