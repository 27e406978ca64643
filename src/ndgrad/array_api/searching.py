"""Sorting, searching, sets, indexing. Selected values carry gradients, indices do not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ndgrad.array_api.naming import like, make_unary
from ndgrad.numpy import indexing, reductions, sorting
from ndgrad.numpy.coercion import as_array

if TYPE_CHECKING:
    from ndgrad._typing import Array, ArrayLike

__all__ = [
    "argmax", "argmin", "argsort", "nonzero", "searchsorted", "sort", "take", "take_along_axis", "unique_all",
    "unique_counts", "unique_inverse", "unique_values", "where",
]  # fmt: skip

# ----- order ----------------------------------------------------------------------------------------------------------


@like(sorting.sort)
def sort(x: ArrayLike, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Array:
    return sorting.sort(x, axis, descending=descending, stable=bool(stable))


@like(sorting.argsort)
def argsort(x: ArrayLike, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Array:
    return sorting.argsort(x, axis, descending=descending, stable=bool(stable))


# ----- searching ------------------------------------------------------------------------------------------------------


@like(reductions.argmax)
def argmax(x: ArrayLike, /, *, axis: int | None = None, keepdims: bool = False) -> Array:
    return reductions.argmax(x, axis, keepdims=keepdims)


@like(reductions.argmin)
def argmin(x: ArrayLike, /, *, axis: int | None = None, keepdims: bool = False) -> Array:
    return reductions.argmin(x, axis, keepdims=keepdims)


@like(indexing.nonzero)
def nonzero(x: ArrayLike, /) -> tuple[Array, ...]:
    t = as_array(x)
    if t.ndim == 0:
        raise ValueError("nonzero() of a 0-d array: it has no places. Reshape it to (1,) first. [nd-ndim]")
    return tuple(indexing.nonzero(t))


@like(sorting.searchsorted)
def searchsorted(x1: ArrayLike, x2: ArrayLike, /, *, side: str = "left", sorter: ArrayLike | None = None) -> Array:
    return sorting.searchsorted(x1, x2, side, sorter)


@like(
    indexing.where,
    "Elements of one array if the condition is true, else of the other.",
    x1="values of elements for which the condition is true.",
    x2="values of the other elements.",
)
def where(condition: ArrayLike, x1: ArrayLike, x2: ArrayLike, /) -> Array:
    return indexing.where(condition, x1, x2)


# ----- sets -----------------------------------------------------------------------------------------------------------

unique_all, unique_counts = make_unary(sorting.unique_all), make_unary(sorting.unique_counts)
unique_inverse, unique_values = make_unary(sorting.unique_inverse), make_unary(sorting.unique_values)


# ----- indexing -------------------------------------------------------------------------------------------------------


def take(x: ArrayLike, indices: ArrayLike, /, *, axis: int | None = None) -> Array:
    """The elements at the given indices along an axis, which is optional for one dimension.

    Args:
        x: array to read.
        indices: integers. Their shape replaces the axis.
        axis: axis along which to take. It may be None for a line only.

    >>> import ndgrad.array_api as xp
    >>> xp.take(xp.asarray([10, 20, 30]), xp.asarray([2, 0]))
    array([30, 10])
    """
    t = as_array(x)
    if axis is None and t.ndim != 1:
        raise ValueError(
            f"take(): the array has {t.ndim} dimensions (shape {t.shape}), so axis= must say along which to take. "
            "[nd-dim]"
        )
    return indexing.take(t, indices, 0 if axis is None else axis)


@like(indexing.take_along_axis)
def take_along_axis(x: ArrayLike, indices: ArrayLike, /, *, axis: int = -1) -> Array:
    return indexing.take_along_axis(x, indices, axis)
