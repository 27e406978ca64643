"""Integers of 64 bits on every platform.

Note [Platform integers]
NumPy counts and adds in the platform's integer, `np.intp`. It has 32 bits on i386 and in WebAssembly, so positions,
counts and sums of integers would be int32 there, and would overflow. Tensors use int64 everywhere, as in torch. Some
NumPy functions that take positions, such as `bincount` and `reduceat`, refuse int64 on these platforms, so positions
are converted to `np.intp` before such a call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.arrays.precision import FLOATING, refuse_float8

if TYPE_CHECKING:
    from ndgrad._typing import Payload

INT64 = np.dtype(np.int64)
_UINT64 = np.dtype(np.uint64)
#: True if NumPy's platform integer is narrower than int64.
IS_NARROW = np.dtype(np.intp).itemsize < INT64.itemsize


def as_int64(places: Payload) -> Payload:
    """Return positions or counts that NumPy computed, as int64."""
    return places if places.dtype == INT64 else places.astype(INT64)


def as_places(numbers: Payload) -> Payload:
    """Convert positions or counts for NumPy functions that take only the platform's integer."""
    return numbers.astype(np.intp, copy=False)


def count_places(places: Payload, count: int) -> Payload:
    """The number of times that each of `count` places is named, as int64."""
    return as_int64(np.bincount(as_places(places), minlength=count))


def choose_sum_dtype(dtype: np.dtype[Any]) -> np.dtype[Any] | None:
    """Return the dtype for sums and products of a dtype, or None if NumPy's choice is right.

    On 64-bit platforms NumPy uses int64 or uint64 for all integers. This function does so on every platform.
    """
    if dtype.itemsize == 1 and dtype.kind in FLOATING:
        refuse_float8(dtype)
    if not IS_NARROW or dtype.kind not in "biu":
        return None
    return _UINT64 if dtype.kind == "u" else INT64
