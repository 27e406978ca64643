"""Copies of large arrays with any steps, and choices by a mask, on all threads where there are native kernels.

Each function does what its NumPy counterpart does, to the bit. Arrays are large if a second thread pays off; smaller
ones, and arrays that are not NumPy's, take the counterpart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from ndgrad._src.arrays import native_kernels
from ndgrad._src.foundations import registry

#: Minimum number of elements of a copy, and of a choice.
_LARGE, _MANY = 1 << 16, 1 << 14
_SIZES = (1, 2, 4, 8)


def _can_move(out: Any, x: Any) -> bool:
    if x.__class__ is not numpy.ndarray or out.__class__ is not numpy.ndarray or x.shape != out.shape:
        return False
    dtype = x.dtype
    if dtype is not out.dtype or dtype.itemsize not in _SIZES or dtype.hasobject or not x.flags.aligned:
        return False
    return native_kernels.kernels() is not None


def is_large_in_order(x: Any) -> bool:
    """True if an array is NumPy's, in C order, and large enough for a second thread."""
    return x.__class__ is numpy.ndarray and x.size >= _LARGE and x.flags.c_contiguous


def copy_into(out: Any, x: Any) -> None:
    """Copy an array to fresh memory of its shape and dtype."""
    if x.size < _LARGE or not _can_move(out, x) or not registry.eager_kernels.copies().copy(out, x):
        out[...] = x


def copy_in_order(x: Any) -> Any:
    """Return a copy of a NumPy array in C order."""
    if x.size >= _LARGE and x.__class__ is numpy.ndarray:
        out = numpy.empty(x.shape, x.dtype)
        if _can_move(out, x) and registry.eager_kernels.copies().copy(out, x):
            return out
    return numpy.array(x, order="C")


def concatenate(arrays: Sequence[Any], axis: int) -> Any:
    """Return arrays joined along a dimension."""
    first = arrays[0]
    if first.size < _LARGE or not all(_joins(x, first, axis) for x in arrays):
        return numpy.concatenate(arrays, axis=axis)
    sizes = [x.shape[axis] for x in arrays]
    out = numpy.empty((*first.shape[:axis], sum(sizes), *first.shape[axis + 1 :]), first.dtype)
    lead, start = (slice(None),) * axis, 0
    for x, size in zip(arrays, sizes, strict=True):
        copy_into(out[(*lead, slice(start, start + size))], x)
        start += size
    return out


def _joins(x: Any, first: Any, axis: int) -> bool:
    """True if an array in C order fits beside the first one."""
    if x.__class__ is not numpy.ndarray or x.dtype is not first.dtype or x.ndim != first.ndim or not 0 <= axis < x.ndim:
        return False
    same = x.shape[:axis] == first.shape[:axis] and x.shape[axis + 1 :] == first.shape[axis + 1 :]
    return same and x.flags.c_contiguous


def choose(mask: Any, x: Any, y: Any, out: Any = None) -> Any:
    """Return x where a mask is true, else y, for operands of one dtype; None if there is no kernel for these arrays.

    An operand has the mask's shape or one element. `out` may be one of the operands.
    """
    if mask.__class__ is not numpy.ndarray or mask.size < _MANY or mask.dtype.char != "?":
        return None
    dtype = x.dtype
    if y.dtype is not dtype or dtype.itemsize not in _SIZES or dtype.hasobject or not native_kernels.is_dense(mask):
        return None
    for a in (x, y) if out is None else (x, y, out):
        if a.__class__ is not numpy.ndarray or not native_kernels.is_dense(a):
            return None
        if a.shape != mask.shape and (a.size != 1 or a.ndim > mask.ndim or a is out):
            return None
    if native_kernels.kernels() is None:
        return None
    out = numpy.empty(mask.shape, dtype) if out is None else out
    registry.eager_kernels.copies().choose(mask, x, y, out)
    return out
