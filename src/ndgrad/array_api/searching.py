"""Elements and where they stand: sorting, searching, sets, indexing. Values that are picked carry gradients, places do not."""

from __future__ import annotations

from typing import Any

from ndgrad.numpy import indexing, reductions, sorting
from ndgrad.numpy.coercion import as_array

__all__ = [
    "argmax", "argmin", "argsort", "nonzero", "searchsorted", "sort", "take", "take_along_axis", "unique_all", "unique_counts",
    "unique_inverse", "unique_values", "where",
]  # fmt: skip

# ----- order -----------------------------------------------------------------------------------------------------------------


def sort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
    """A sorted copy; gradients go back to where the elements stood."""
    return sorting.sort(x, axis, descending=descending)


def argsort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
    return sorting.argsort(x, axis, descending=descending)


# ----- searching ---------------------------------------------------------------------------------------------------------------


def argmax(x: Any, /, *, axis: int | None = None, keepdims: bool = False) -> Any:
    return reductions.argmax(x, axis, keepdims=keepdims)


def argmin(x: Any, /, *, axis: int | None = None, keepdims: bool = False) -> Any:
    return reductions.argmin(x, axis, keepdims=keepdims)


def nonzero(x: Any, /) -> tuple[Any, ...]:
    t = as_array(x)
    if t.ndim == 0:
        raise ValueError("nonzero() of a 0-d array: it has no places. Reshape it to (1,) first.")
    return tuple(indexing.nonzero(t))


def searchsorted(x1: Any, x2: Any, /, *, side: str = "left", sorter: Any = None) -> Any:
    """Where the elements of `x2` would have to be put in to keep `x1` sorted."""
    return sorting.searchsorted(x1, x2, side, sorter)


def where(condition: Any, x1: Any, x2: Any, /) -> Any:
    return indexing.where(condition, x1, x2)


# ----- sets ----------------------------------------------------------------------------------------------------------------------


def unique_all(x: Any, /) -> Any:
    return sorting.unique_all(x)


def unique_counts(x: Any, /) -> Any:
    return sorting.unique_counts(x)


def unique_inverse(x: Any, /) -> Any:
    return sorting.unique_inverse(x)


def unique_values(x: Any, /) -> Any:
    return sorting.unique_values(x)


# ----- indexing ------------------------------------------------------------------------------------------------------------------


def take(x: Any, indices: Any, /, *, axis: int | None = None) -> Any:
    """The elements at the given places along an axis, which only a line may leave out."""
    t = as_array(x)
    if axis is None and t.ndim != 1:
        raise ValueError(f"take(): the array has {t.ndim} dimensions (shape {t.shape}), so axis= must say along which to take.")
    return indexing.take(t, indices, 0 if axis is None else axis)


def take_along_axis(x: Any, indices: Any, /, *, axis: int = -1) -> Any:
    return indexing.take_along_axis(x, indices, axis)
