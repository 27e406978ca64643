"""Elements of small arrays at an index along a dimension: one builtin checks the index, makes the result and fills it.

The same steps in NumPy are five to ten calls, which cost ten times as much as the work. A builtin belongs to one
combination of shapes. It is made when that combination comes again, since making it costs as much as some calls. Both
ways give the same bits.

Every function returns None if there is no builtin for its arrays, and if an index is out of range. The caller then
takes the general way, which raises the error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from ndgrad._src.arrays import native_kernels
from ndgrad._src.foundations import registry
from ndgrad._src.foundations.bounded_tables import make_room

#: Maximum number of bytes of an array.
_SMALL = 1 << 15
#: Maximum number of builtins.
_MOST = 4096
_INDEX = numpy.dtype(numpy.int64)

#: By the key of a call: its builtin, False after the first call, or None if there is none.
_calls: dict[Any, Any] = {}


def _find(key: Any, how: str, onto: str, whole: tuple[int, ...], part: tuple[int, ...], index: Any, dim: int) -> Any:
    """Return the builtin of a call, made at the second call of its kind."""
    make_room(_calls, _MOST)
    if key not in _calls:
        _calls[key] = False
        return None
    _calls[key] = made = _make(how, onto, key[2], whole, part, index, dim)
    return made


def _make(
    how: str, onto: str, dtype: Any, whole: tuple[int, ...], part: tuple[int, ...], index: tuple[int, ...], dim: int
) -> Callable[..., Any] | None:
    if dtype.hasobject or dtype.itemsize not in (1, 2, 4, 8):
        return None
    if how == "add" and not native_kernels.has_kernels(dtype):
        return None
    sizes = [1, 1]
    for number, shape in enumerate((whole, part)):
        for n in shape:
            sizes[number] *= n
    if not all(sizes) or max(sizes) * dtype.itemsize > _SMALL or whole[:dim] != part[:dim]:
        return None
    is_full = index == part and len(part) == len(whole) and whole[dim + 1 :] == part[dim + 1 :]
    if not is_full and part != (*whole[:dim], *index, *whole[dim + 1 :]):
        return None
    if native_kernels.kernels() is None:
        return None
    found: Callable[..., Any] = registry.eager_kernels.make_indexed(how, onto, dtype, whole, part, index, dim)
    return found


def _run(call: Any, *arrays: Any) -> Any:
    try:
        return call(*arrays)
    except RuntimeError:  # an index out of range
        return None


def read_along(x: Any, index: Any, dim: int, kept: bool = False) -> Any:
    """Return the elements of x at an index of its rank along a dimension.

    With `kept`, positions that occur again later along the dimension give 0.
    """
    if x.__class__ is not numpy.ndarray or index.__class__ is not numpy.ndarray or x.itemsize > 8:
        return None
    if x.nbytes > _SMALL or native_kernels.are_off():
        return None
    how = "kept" if kept else "read"
    key = (how, "", x.dtype, x.shape, index.shape, dim)
    call = _calls.get(key, False)
    if not call:
        is_fit = index.ndim == x.ndim and index.dtype == _INDEX
        call = _find(key, how, "", x.shape, index.shape, index.shape, dim) if call is False and is_fit else None
        if call is None:
            return None
    out = _run(call, x, index)
    return out if out is None else out[0]


def read_slices(x: Any, index: Any, dim: int, kept: bool = False) -> Any:
    """Return the slices of x along a dimension at an index of one dimension; `kept` as above."""
    if x.__class__ is not numpy.ndarray or index.__class__ is not numpy.ndarray or x.itemsize > 8:
        return None
    if x.nbytes > _SMALL or native_kernels.are_off():
        return None
    key = ("kept slices" if kept else "slices", "", x.dtype, x.shape, index.shape, dim)
    call = _calls.get(key, False)
    if not call:
        is_fit = index.ndim == 1 and x.ndim and index.dtype == _INDEX
        part = (*x.shape[:dim], *index.shape, *x.shape[dim + 1 :])
        how = "kept" if kept else "read"
        call = _find(key, how, "", x.shape, part, index.shape, dim) if call is False and is_fit else None
        if call is None:
            return None
    out = _run(call, x, index)
    return out if out is None else out[0]


def put(how: str, onto: str, target: Any, index: Any, part: Any, dim: int) -> Any:
    """Return an array with a part written or added ("write", "add") at an index along a dimension.

    `onto`: "base", a copy of the target; "zeros", of which `target` is the shape; "place", the target itself. The index
    has the part's shape, or takes the place of the dimension in it.
    """
    if part.__class__ is not numpy.ndarray or index.__class__ is not numpy.ndarray or part.itemsize > 8:
        return None
    if part.nbytes > _SMALL or native_kernels.are_off():
        return None
    whole = target if onto == "zeros" else target.shape
    key = (how, onto, part.dtype, whole, part.shape, index.shape, dim)
    call = _calls.get(key, False)
    if not call:
        is_fit = index.dtype == _INDEX and index.ndim and dim < len(whole)
        call = _find(key, how, onto, whole, part.shape, index.shape, dim) if call is False and is_fit else None
        if call is None:
            return None
    if onto == "zeros":
        out = _run(call, index, part)
    else:
        if target.__class__ is not numpy.ndarray:
            return None
        out = _run(call, target, index, part)
    if out is None:
        return None
    return target if onto == "place" else out[0]
