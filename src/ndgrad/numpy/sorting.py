"""Sorting, searching and sets. Sorted, unique or common values are elements of the input, so they carry its gradient;
their indices do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

import numpy as np

from ndgrad._src.arrays.precision import is_inexact
from ndgrad._src.core.variable import np_dtype
from ndgrad._src.ops import arithmetic, join
from ndgrad._src.ops import order as ops
from ndgrad._src.tensor.functions import order as _order
from ndgrad._src.tensor.storage import is_open
from ndgrad.numpy.coercion import (
    arrange_like,
    as_array,
    constant,
    flat,
    one_axis,
    operands,
    plain,
    swept,
    take_copy,
    values_of,
    with_dtype,
)
from ndgrad.numpy.indexing import take_along_axis

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ndgrad._typing import ArrayLike, Axis
    from ndgrad.numpy._array import Array

#: torch's functions. They return Arrays for Arrays, which their declarations cannot express.
order_api: Any = _order

__all__ = [
    "argpartition", "argsort", "digitize", "in1d", "intersect1d", "isin", "lexsort", "partition", "searchsorted",
    "setdiff1d", "setxor1d", "sort", "sort_complex", "union1d", "unique", "unique_all", "unique_counts",
    "unique_inverse", "unique_values",
]  # fmt: skip

_NOTHING: Any = np.empty(0)

# ----- order ----------------------------------------------------------------------------------------------------------


def _no_fields(name: str, order: object) -> None:
    if order is not None:
        raise ValueError(
            f"{name}(): order= names fields of structured arrays, and this one has none. Leave it out. [nd-arguments]"
        )


def sort(
    a: ArrayLike, axis: Axis = -1, kind: str | None = None, order: None = None, *, stable: bool | None = None,
    descending: bool = False,
) -> Array:  # fmt: skip
    """A sorted copy; gradients go to the original elements. NaN comes last.

    Args:
        a: array to sort.
        axis: axis along which to sort. None flattens the array.
        kind: algorithm, as in NumPy: `"quicksort"`, `"mergesort"`, `"heapsort"` or `"stable"`. None means quicksort.
        order: accepted only as None, because Arrays have no fields.
        stable: whether equal elements keep their order. It excludes `kind`.
        descending: whether the largest elements come first. NumPy's function has no such option.

    >>> import ndgrad.numpy as np
    >>> np.sort(np.array([3.0, 1.0, 2.0]))
    array([1., 2., 3.])
    """
    _no_fields("sort", order)
    kind = _choose_kind("sort", kind, stable)
    t, axis = swept(as_array(a), axis)
    if descending:
        return arrange_like(_take_along(t, values_of(_falling(t, axis)), axis), t)
    return arrange_like(ops.sort(t, dim=axis, descending=False, kind=kind)[0], t)


def argsort(
    a: ArrayLike, axis: Axis = -1, kind: str | None = None, order: None = None, *, stable: bool | None = None,
    descending: bool = False,
) -> Array:  # fmt: skip
    """The indices that sort an array along an axis.

    Args:
        a: array to sort.
        axis: axis along which to sort. None flattens the array.
        kind: algorithm, as in NumPy: `"quicksort"`, `"mergesort"`, `"heapsort"` or `"stable"`. None means quicksort.
        order: accepted only as None, because Arrays have no fields.
        stable: whether equal elements keep their order. It excludes `kind`.
        descending: whether the largest elements come first. NumPy's function has no such option.

    >>> import ndgrad.numpy as np
    >>> np.argsort(np.array([3.0, 1.0, 2.0]))
    array([1, 2, 0])
    """
    _no_fields("argsort", order)
    kind = _choose_kind("argsort", kind, stable)
    t = as_array(a)
    t, axis = swept(t, None if t.ndim == 0 else axis)
    return _falling(t, axis) if descending else ops.argsort(t, dim=axis, descending=False, kind=kind)


def _choose_kind(name: str, kind: str | None, stable: bool | None) -> str | None:
    """Return the sorting algorithm, as in NumPy: its default kind does not keep the order of equal elements."""
    if stable is not None:
        if kind is not None:
            raise ValueError(
                f"{name}(): kind={kind!r} and stable={stable!r} exclude each other. Give one of them. [nd-arguments]"
            )
        return "stable" if stable else None
    np.argsort(_NOTHING, kind=kind)  # type: ignore[arg-type]  # Raises NumPy's error if the kind does not exist.
    return kind


def _falling(t: Array, axis: int) -> Array:
    """Return the order from the largest to the smallest, with NaN still last."""
    if is_inexact(np_dtype(t)):
        return ops.argsort(arithmetic.neg(t), dim=axis, descending=False)
    return ops.argsort(t, dim=axis, descending=True)


def sort_complex(a: ArrayLike) -> Array:
    """A sorted copy in a complex dtype, by real parts and then by imaginary ones.

    Args:
        a: array, which is sorted along its last axis.

    >>> import ndgrad.numpy as np
    >>> np.sort_complex(np.array([2.0, 1.0]))
    array([1.+0.j, 2.+0.j])
    """
    t = sort(a, -1)
    kind, size = np_dtype(t).kind, np_dtype(t).itemsize
    return (
        t if kind == "c" else with_dtype(t, np.complex64 if size <= 2 or (kind == "f" and size == 4) else np.complex128)
    )


def partition(
    a: ArrayLike, kth: ArrayLike, axis: Axis = -1, kind: str = "introselect", order: None = None
) -> Array:
    """A copy with the kth elements in their sorted positions, smaller elements before and larger ones after.

    Args:
        a: array to partition.
        kth: index or indices whose elements get their sorted positions.
        axis: axis along which to partition. None flattens the array.
        kind: accepted as in NumPy, which has one algorithm. It has no effect.
        order: accepted only as None, because Arrays have no fields.

    >>> import ndgrad.numpy as np
    >>> np.partition(np.array([3.0, 1.0, 2.0]), 1)[1]
    array(2.)
    """
    _no_fields("partition", order)
    t, axis = swept(as_array(a), axis)
    places = np.argpartition(values_of(t), plain(kth), axis)
    return arrange_like(_take_along(t, places, axis), t)


def argpartition(
    a: ArrayLike, kth: ArrayLike, axis: Axis = -1, kind: str = "introselect", order: None = None
) -> Array:
    """The indices that partition an array.

    Args:
        a: array to partition.
        kth: index or indices whose elements get their sorted positions.
        axis: axis along which to partition. None flattens the array.
        kind: accepted as in NumPy, which has one algorithm. It has no effect.
        order: accepted only as None, because Arrays have no fields.

    >>> import ndgrad.numpy as np
    >>> np.argpartition(np.array([3.0, 1.0, 2.0]), 1)[1]
    array(2)
    """
    _no_fields("argpartition", order)
    t, axis = swept(as_array(a), axis)
    return constant(np.argpartition(values_of(t), plain(kth), axis))


def _take_along(t: Array, places: Any, axis: int) -> Array:
    return take_along_axis(t, constant(places), axis)


def lexsort(keys: Sequence[ArrayLike], axis: int = -1) -> Array:
    """The indices that sort by several keys; the last key is the primary one.

    Args:
        keys: arrays of one shape, the primary key last.
        axis: axis along which to sort.

    >>> import ndgrad.numpy as np
    >>> np.lexsort((np.array([3, 1, 2]), np.array([0, 1, 0])))
    array([2, 0, 1])
    """
    return constant(np.lexsort(plain(keys), axis))


def searchsorted(a: ArrayLike, v: ArrayLike, side: str = "left", sorter: ArrayLike | None = None) -> Array:
    """The indices at which to insert values so that a sorted line stays sorted.

    Args:
        a: line in increasing order, or any line with `sorter`.
        v: values to insert.
        side: index among equal elements: `"left"` for the first one, `"right"` for the one behind the last.
        sorter: indices that sort `a`.

    >>> import ndgrad.numpy as np
    >>> np.searchsorted(np.array([1.0, 2.0, 3.0]), [1.5, 2.0])
    array([1, 1])
    """
    line, values = operands(a, v)
    if line.ndim != 1:
        raise ValueError(
            "object of too small depth for desired array: "
            f"searchsorted() takes a line, but got shape {line.shape} [nd-ndim]"
        )
    return order_api.searchsorted(line, values, side=side, sorter=None if sorter is None else as_array(sorter))


def digitize(x: ArrayLike, bins: ArrayLike, right: bool = False) -> Array:
    """The number of the bin of each value; bins contain their left edge unless `right` is set.

    Args:
        x: array of values.
        bins: line of edges, increasing or decreasing.
        right: whether bins contain their right edge in place of the left one.

    Returns:
        An Array of integers: 0 before the first edge, the number of edges behind the last.

    >>> import ndgrad.numpy as np
    >>> np.digitize(np.array([0.5, 1.0, 2.5]), [1.0, 2.0])
    array([0, 1, 2])
    """
    if is_open(x) and not is_open(bins):
        edges = values_of(bins)
        if edges.ndim == 1 and np_dtype(as_array(x)).kind in "biuf":
            steps = np.diff(edges)
            if (steps >= 0).all():
                return searchsorted(edges, x, side="left" if right else "right")
            if (steps <= 0).all():
                return len(edges) - searchsorted(edges[::-1], x, side="right" if right else "left")
    return constant(np.asarray(np.digitize(plain(x), plain(bins), right)))


# ----- unique values --------------------------------------------------------------------------------------------------


@overload
def unique(
    ar: ArrayLike, return_index: Literal[False] = False, return_inverse: Literal[False] = False,
    return_counts: Literal[False] = False, axis: int | None = None, *, equal_nan: bool = True, sorted: bool = True,
) -> Array: ...  # fmt: skip
@overload
def unique(
    ar: ArrayLike, return_index: Literal[True], return_inverse: bool = False, return_counts: bool = False,
    axis: int | None = None, *, equal_nan: bool = True, sorted: bool = True,
) -> tuple[Array, ...]: ...  # fmt: skip
@overload
def unique(
    ar: ArrayLike, return_index: bool = False, *, return_inverse: Literal[True], return_counts: bool = False,
    axis: int | None = None, equal_nan: bool = True, sorted: bool = True,
) -> tuple[Array, ...]: ...  # fmt: skip
@overload
def unique(
    ar: ArrayLike, return_index: bool = False, return_inverse: bool = False, *, return_counts: Literal[True],
    axis: int | None = None, equal_nan: bool = True, sorted: bool = True,
) -> tuple[Array, ...]: ...  # fmt: skip
def unique(
    ar: ArrayLike, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False,
    axis: int | None = None, *, equal_nan: bool = True, sorted: bool = True,
) -> Any:  # fmt: skip
    """The unique elements (or slices along an axis), sorted; each carries the gradient of its first occurrence.

    Args:
        ar: array, which is flattened if `axis` is None.
        return_index: whether the indices of the first occurrences are returned, too.
        return_inverse: whether the indices that rebuild the array are returned, too.
        return_counts: whether the counts are returned, too.
        axis: axis whose slices are compared. None compares elements.
        equal_nan: whether all NaN are one element.
        sorted: accepted as in NumPy. It has no effect: the elements are always sorted.

    >>> import ndgrad.numpy as np
    >>> np.unique(np.array([2.0, 1.0, 2.0]), return_counts=True)
    (array([1., 2.]), array([1, 2]))
    """
    t = as_array(ar)
    # NumPy's stubs have no overload for flags that are not literals.
    found = list(np.unique(values_of(t), True, return_inverse, return_counts, axis, equal_nan=equal_nan))  # type: ignore[call-overload]
    if return_inverse and axis is not None:
        found[2] = found[2].reshape(-1)  # NumPy 2.0.0 keeps the other axes, with length 1
    values = flat(t)[found[1]] if axis is None else take_copy(t, one_axis(axis, t.ndim), found[1])
    extras = [
        constant(f) for wanted, f in zip((return_index, *(True,) * (len(found) - 2)), found[1:], strict=True) if wanted
    ]
    return (values, *extras) if extras else values


class UniqueAllResult(NamedTuple):
    """Unique values, the indices of their first occurrences, for each element the index of its value, and counts."""

    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class UniqueCountsResult(NamedTuple):
    """Unique values and their counts."""

    values: Array
    counts: Array


class UniqueInverseResult(NamedTuple):
    """Unique values, and for each element the index of its value."""

    values: Array
    inverse_indices: Array


def _unique(name: str, x: ArrayLike) -> tuple[Array, ...]:
    """Return the result of NumPy's function, with the values taken from the differentiable input."""
    t = as_array(x)
    found = getattr(np, name)(values_of(t))
    values, *others = (found,) if isinstance(found, np.ndarray) else found
    return (_pick_unique(t, values), *map(constant, others))


def _pick_unique(t: Array, wanted: NDArray[Any]) -> Array:
    """Return the elements with these values, in their order, which NumPy does not promise to be increasing."""
    _, first = np.unique(values_of(t), return_index=True, equal_nan=False)
    places = np.empty(len(wanted), np.intp)
    places[np.argsort(wanted, kind="stable")] = first
    return flat(t)[places]


def unique_all(x: ArrayLike) -> UniqueAllResult:
    """Unique values, indices of their first occurrences, inverse indices and counts.

    Args:
        x: array, which is flattened.

    >>> import ndgrad.numpy as np
    >>> np.unique_all(np.array([2.0, 1.0, 2.0])).counts
    array([1, 2])
    """
    return UniqueAllResult(*_unique("unique_all", x))


def unique_counts(x: ArrayLike) -> UniqueCountsResult:
    """Unique values and their counts.

    Args:
        x: array, which is flattened.

    >>> import ndgrad.numpy as np
    >>> np.unique_counts(np.array([2.0, 1.0, 2.0])).values
    array([1., 2.])
    """
    return UniqueCountsResult(*_unique("unique_counts", x))


def unique_inverse(x: ArrayLike) -> UniqueInverseResult:
    """Unique values and the indices that rebuild the array from them.

    Args:
        x: array, which is flattened.

    >>> import ndgrad.numpy as np
    >>> np.unique_inverse(np.array([2.0, 1.0, 2.0])).inverse_indices
    array([1, 0, 1])
    """
    return UniqueInverseResult(*_unique("unique_inverse", x))


def unique_values(x: ArrayLike) -> Array:
    """Unique values.

    Args:
        x: array, which is flattened.

    >>> import ndgrad.numpy as np
    >>> np.unique_values(np.array([2.0, 1.0, 2.0]))
    array([1., 2.])
    """
    return _unique("unique_values", x)[0]


# ----- sets -----------------------------------------------------------------------------------------------------------


def isin(
    element: ArrayLike, test_elements: ArrayLike, assume_unique: bool = False, invert: bool = False, *,
    kind: Literal["sort", "table"] | None = None,
) -> Array:  # fmt: skip
    """A mask of elements that are among the test elements.

    Args:
        element: array to test.
        test_elements: values to look for.
        assume_unique: whether NumPy may assume that both arrays have no repeated elements, which is faster.
        invert: whether the mask marks elements that are not among the test elements.
        kind: algorithm: `"sort"` or `"table"`, which is fast for integers in a small range. None lets NumPy choose.

    >>> import ndgrad.numpy as np
    >>> np.isin(np.array([1, 2, 3]), [2, 4])
    array([False,  True, False])
    """
    return constant(np.asarray(np.isin(plain(element), plain(test_elements), assume_unique, invert, kind=kind)))


def in1d(
    ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False, invert: bool = False, *,
    kind: Literal["sort", "table"] | None = None,
) -> Array:  # fmt: skip
    """Apply isin() to the flattened array; the form before NumPy 2.

    >>> import ndgrad.numpy as np
    >>> np.isin(np.array([1, 2, 3]), [2, 4])
    array([False,  True, False])
    """
    return isin(flat(as_array(ar1)), ar2, assume_unique, invert, kind=kind)


@overload
def intersect1d(
    ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False, return_indices: Literal[False] = False
) -> Array: ...
@overload
def intersect1d(
    ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False, *, return_indices: Literal[True]
) -> tuple[Array, Array, Array]: ...
def intersect1d(ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False, return_indices: bool = False) -> Any:
    """The values that both arrays have, sorted; the gradient goes to the first of the two.

    Args:
        ar1, ar2: arrays, which are flattened.
        assume_unique: whether NumPy may assume that each array has no repeated elements, which is faster.
        return_indices: whether the indices of the values in both arrays are returned, too.

    >>> import ndgrad.numpy as np
    >>> np.intersect1d(np.array([3, 1, 2]), [2, 3])
    array([2, 3])
    """
    t = as_array(ar1)
    _, first, second = np.intersect1d(values_of(t), values_of(ar2), assume_unique, return_indices=True)
    values = flat(t)[first]
    return (values, constant(first), constant(second)) if return_indices else values


def setdiff1d(ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False) -> Array:
    """The values of the first array that the second does not have, sorted.

    Args:
        ar1: array whose values are kept.
        ar2: array whose values are left out.
        assume_unique: whether both arrays have no repeated elements, which is faster. The result then keeps the order
            of `ar1`.

    >>> import ndgrad.numpy as np
    >>> np.setdiff1d(np.array([3, 1, 2]), [2])
    array([1, 3])
    """
    t = flat(as_array(ar1)) if assume_unique else unique(ar1)
    return t[np.flatnonzero(np.isin(values_of(t), values_of(ar2), assume_unique=True, invert=True))]


def setxor1d(ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False) -> Array:
    """The values that only one of the two has, sorted.

    Args:
        ar1, ar2: arrays, which are flattened.
        assume_unique: whether each array has no repeated elements, which is faster.

    >>> import ndgrad.numpy as np
    >>> np.setxor1d(np.array([1, 2]), [2, 3])
    array([1, 3])
    """
    pieces = [as_array(a) if assume_unique else unique(a) for a in (ar1, ar2)]
    t = join.cat(*operands(*(flat(p) for p in pieces)), dim=0)
    order = np.argsort(values_of(t), kind="stable")
    ranked = values_of(t)[order]
    changes = np.concatenate(([True], ranked[1:] != ranked[:-1], [True])) if len(ranked) else np.zeros(1, bool)
    return t[order[changes[1:] & changes[:-1]]]


def union1d(ar1: ArrayLike, ar2: ArrayLike) -> Array:
    """The values of both arrays together, sorted.

    Args:
        ar1, ar2: arrays, which are flattened.

    >>> import ndgrad.numpy as np
    >>> np.union1d(np.array([1, 2]), [2, 3])
    array([1, 2, 3])
    """
    return unique(join.cat(*operands(*(flat(as_array(a)) for a in (ar1, ar2))), dim=0))
