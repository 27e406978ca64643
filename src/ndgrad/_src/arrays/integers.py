"""Integers of 64 bits on every platform.

Note [Platform integers]
NumPy counts and adds in the integer of the platform, `np.intp`. It has 32 bits on i386 and in WebAssembly: places,
counts and sums of integers would be int32 there, and would overflow. Tensors have int64 everywhere, as in torch.
Some functions of NumPy that take places, such as `bincount` and `reduceat`, refuse int64 on these platforms, so places
become `np.intp` again before such a call.
"""

from __future__ import annotations

from typing import Any

import numpy as np

INT64 = np.dtype(np.int64)
_UINT64 = np.dtype(np.uint64)
#: True if NumPy's integer of the platform is narrower than int64.
IS_NARROW = np.dtype(np.intp).itemsize < INT64.itemsize


def as_int64(places: Any) -> Any:
    """Places or counts that NumPy computed, as int64."""
    return places if places.dtype == INT64 else places.astype(INT64)


def as_places(numbers: Any) -> Any:
    """Places or counts for functions of NumPy that take the integer of the platform alone."""
    return numbers.astype(np.intp, copy=False)


def count_places(places: Any, count: int) -> Any:
    """The number of times that each of `count` places is named, as int64."""
    return as_int64(np.bincount(as_places(places), minlength=count))


def choose_sum_dtype(dtype: np.dtype[Any]) -> np.dtype[Any] | None:
    """The dtype in which elements of a dtype are added up or multiplied, if it is not NumPy's choice.

    On platforms of 64 bits that is int64 or uint64 for all integers, and so it is here everywhere.
    """
    if not IS_NARROW or dtype.kind not in "biu":
        return None
    return _UINT64 if dtype.kind == "u" else INT64
