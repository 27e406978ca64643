"""Search for values of results and gradients that are not finite."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.arrays.precision import is_inexact
from ndgrad._src.core.sparse_gradients import is_structured
from ndgrad._src.core.variable import Variable

if TYPE_CHECKING:
    from ndgrad._typing import Payload


def raw_values(value: Payload) -> Any:
    """Return the NumPy array under a gradient or a result of any kind; for a sparse or nested one, its values. None if
    there is none."""
    while isinstance(value, Variable) or is_structured(value):
        value = value._array if isinstance(value, Variable) else value.values
    if value is None or not hasattr(value, "dtype") or not is_inexact(value.dtype):
        return None
    if not isinstance(value, (np.ndarray, np.generic)):
        value = value.get() if hasattr(value, "get") else None
    return value


#: Above this size the sum is faster.
_MANY = 10_000


def is_finite(array: Payload) -> bool:
    """True if all values are finite. For many values, the sum decides in one pass without a temporary, unless it
    overflows."""
    if array.size < _MANY:
        return bool(np.isfinite(array).all())
    with np.errstate(all="ignore"):
        return bool(np.isfinite(array.sum())) or bool(np.isfinite(array).all())


def first_index(bad: Payload) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(bad)), bad.shape))


def first_nonfinite(payloads: Payload) -> tuple[int, tuple[int, ...], Any] | None:
    """Return the first value among several results that is not finite: (result, index, value)."""
    for number, payload in enumerate(payloads):
        array = raw_values(payload)
        if array is not None and array.size and not is_finite(array):
            index = first_index(~np.isfinite(array))
            return number, index, array[index]
    return None
