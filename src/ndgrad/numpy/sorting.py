"""Sorting, searching and sets. Sorted, unique or common values are elements picked from the input, so they carry its gradient;
the places at which they stand do not.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ndgrad.api import order as order_api
from ndgrad.arrays.precision import is_inexact
from ndgrad.autograd.variable import np_dtype
from ndgrad.numpy.coercion import (
    arranged_like,
    as_array,
    as_arrays,
    constant,
    flat,
    one_axis,
    operands,
    plain,
    swept,
    taken,
    values_of,
    with_dtype,
)
from ndgrad.numpy.indexing import take_along_axis
from ndgrad.ops import arithmetic, join
from ndgrad.ops import order as ops

__all__ = [
    "argpartition", "argsort", "digitize", "in1d", "intersect1d", "isin", "lexsort", "partition", "searchsorted", "setdiff1d",
    "setxor1d", "sort", "sort_complex", "union1d", "unique", "unique_all", "unique_counts", "unique_inverse", "unique_values",
]  # fmt: skip

# ----- order -------------------------------------------------------------------------------------------------------------


def _no_fields(name: str, order: Any) -> None:
    if order is not None:
        raise ValueError(f"{name}(): order= names fields of structured arrays, and this one has none. Leave it out.")


def sort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: bool | None = None, descending: bool = False) -> Any:
    """A sorted copy; gradients go back to where the elements stood."""
    _no_fields("sort", order)
    t, axis = swept(as_array(a), axis)
    made = _along(t, values_of(_falling(t, axis)), axis) if descending else ops.sort(t, dim=axis, descending=False)[0]
    return arranged_like(made, t)


def argsort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: bool | None = None, descending: bool = False) -> Any:
    _no_fields("argsort", order)
    t = as_array(a)
    t, axis = swept(t, None if t.ndim == 0 else axis)
    return _falling(t, axis) if descending else ops.argsort(t, dim=axis, descending=False)


def _falling(t: Any, axis: int) -> Any:
    """The order from the largest to the smallest, in which NaN stands last all the same."""
    if is_inexact(np_dtype(t)):
        return ops.argsort(arithmetic.neg(t), dim=axis, descending=False)
    return ops.argsort(t, dim=axis, descending=True)


def sort_complex(a: Any) -> Any:
    t = sort(a, -1)
    kind, size = np_dtype(t).kind, np_dtype(t).itemsize
    return t if kind == "c" else with_dtype(t, np.complex64 if size <= 2 or (kind == "f" and size == 4) else np.complex128)


def partition(a: Any, kth: Any, axis: Any = -1, kind: str = "introselect", order: Any = None) -> Any:
    """A copy in which the kth elements stand where sorting would put them, the smaller before and the larger behind."""
    _no_fields("partition", order)
    t, axis = swept(as_array(a), axis)
    places = np.argpartition(values_of(t), plain(kth), axis)
    return arranged_like(_along(t, places, axis), t)


def argpartition(a: Any, kth: Any, axis: Any = -1, kind: str = "introselect", order: Any = None) -> Any:
    _no_fields("argpartition", order)
    t, axis = swept(as_array(a), axis)
    return constant(np.argpartition(values_of(t), plain(kth), axis))


def _along(t: Any, places: Any, axis: int) -> Any:
    return take_along_axis(t, constant(places), axis)


def lexsort(keys: Any, axis: int = -1) -> Any:
    return constant(np.lexsort(plain(keys), axis))


def searchsorted(a: Any, v: Any, side: Any = "left", sorter: Any = None) -> Any:
    """Where values would have to be put in to keep a sorted line sorted."""
    line, values = operands(a, v)
    if line.ndim != 1:
        raise ValueError(f"object of too small depth for desired array: searchsorted() takes a line, and got shape {line.shape}")
    return order_api.searchsorted(line, values, side=side, sorter=None if sorter is None else as_array(sorter))


def digitize(x: Any, bins: Any, right: bool = False) -> Any:
    return constant(np.asarray(np.digitize(plain(x), plain(bins), right)))


# ----- unique values -------------------------------------------------------------------------------------------------------


def unique(
    ar: Any, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False, axis: int | None = None, *,
    equal_nan: bool = True, sorted: bool = True,
) -> Any:  # fmt: skip
    """The unique elements (or slices along an axis); each carries the gradient of its first occurrence."""
    t = as_array(ar)
    found = np.unique(values_of(t), True, return_inverse, return_counts, axis, equal_nan=equal_nan)  # type: ignore[call-overload]  # NumPy's stubs list no call with flags that are not literal
    values = flat(t)[found[1]] if axis is None else taken(t, one_axis(axis, t.ndim), found[1])
    extras = [constant(f) for wanted, f in zip((return_index, *(True,) * (len(found) - 2)), found[1:], strict=True) if wanted]
    return (values, *extras) if extras else values


def _named(name: str, x: Any) -> Any:
    """NumPy's named result with the values taken from the differentiable input."""
    t = as_array(x)
    found = getattr(np, name)(values_of(t))
    values = _picked(t, found if isinstance(found, np.ndarray) else found.values)
    return values if isinstance(found, np.ndarray) else type(found)(values, *as_arrays(tuple(found[1:])))


def _picked(t: Any, wanted: Any) -> Any:
    """The elements with these values, in their order, which NumPy does not promise to be rising."""
    _, first = np.unique(values_of(t), return_index=True, equal_nan=False)
    places = np.empty(len(wanted), np.intp)
    places[np.argsort(wanted, kind="stable")] = first
    return flat(t)[places]


def unique_all(x: Any) -> Any:
    return _named("unique_all", x)


def unique_counts(x: Any) -> Any:
    return _named("unique_counts", x)


def unique_inverse(x: Any) -> Any:
    return _named("unique_inverse", x)


def unique_values(x: Any) -> Any:
    return _named("unique_values", x)


# ----- sets ------------------------------------------------------------------------------------------------------------------


def isin(element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False, *, kind: Any = None) -> Any:
    return constant(np.asarray(np.isin(plain(element), plain(test_elements), assume_unique, invert, kind=kind)))


def in1d(ar1: Any, ar2: Any, assume_unique: bool = False, invert: bool = False, *, kind: Any = None) -> Any:
    """isin() of the flattened array, as it was before NumPy 2."""
    return isin(flat(as_array(ar1)), ar2, assume_unique, invert, kind=kind)


def intersect1d(ar1: Any, ar2: Any, assume_unique: bool = False, return_indices: bool = False) -> Any:
    """The values that both have; the gradient goes to the first of the two."""
    t = as_array(ar1)
    _, first, second = np.intersect1d(values_of(t), values_of(ar2), assume_unique, return_indices=True)
    values = flat(t)[first]
    return (values, constant(first), constant(second)) if return_indices else values


def setdiff1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
    t = flat(as_array(ar1)) if assume_unique else unique(ar1)
    return t[np.flatnonzero(np.isin(values_of(t), values_of(ar2), assume_unique=True, invert=True))]


def setxor1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
    """The values that only one of the two has."""
    pieces = [as_array(a) if assume_unique else unique(a) for a in (ar1, ar2)]
    t = join.cat(*operands(*(flat(p) for p in pieces)), dim=0)
    order = np.argsort(values_of(t), kind="stable")
    ranked = values_of(t)[order]
    changes = np.concatenate(([True], ranked[1:] != ranked[:-1], [True])) if len(ranked) else np.zeros(1, bool)
    return t[order[changes[1:] & changes[:-1]]]


def union1d(ar1: Any, ar2: Any) -> Any:
    return unique(join.cat(*operands(*(flat(as_array(a)) for a in (ar1, ar2))), dim=0))
