"""Sorting and searching: sort, topk, kthvalue, unique values, searchsorted, isin.

The differentiable ops (sort, topk, kthvalue) select elements, and their reverse rule puts gradients back to the
positions of the selected elements. NaN counts as the largest number, as in NumPy and torch. Sorting is stable unless
NumPy's namespace passes another `kind`, so equal elements get their gradients in a defined order. Results are
contiguous, as in torch.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy

from ndgrad._src.arrays.integers import as_int64
from ndgrad._src.arrays.precision import finfo
from ndgrad._src.ops.extremum import first_index, pick_tangent, place_back
from ndgrad._src.ops.table import DATA_DEPENDENT, NOT_DIFFERENTIABLE, op

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload, Vocabulary

# ----- sort -----------------------------------------------------------------------------------------------------------

#: From this length on, an unstable argsort and a search for equal neighbours are faster than a stable argsort (4 times
#: at 100).
_LONG = 32


def _take_along(np: Library, x: Payload, places: Any, dim: int) -> Payload:
    """Return the elements at `places` along `dim`."""
    return x[places] if x.ndim == 1 else np.take_along_axis(x, places, axis=dim)


def _fits_keys(x: Payload, dim: int) -> bool:
    """True if an element and its position fit into an integer of 64 bits."""
    if x.__class__ is not numpy.ndarray or x.dtype.itemsize != 4 or x.dtype.kind not in "fiu":
        return False
    return x.dtype.isnative and x.shape[dim] < 1 << 31 and bool(x.size)


def _order_by_keys(x: Any, dim: int) -> Any:
    """Return the stable order along `dim` of elements of 32 bits.

    The upper half of a key orders as the element does, the lower half is the position. So keys are distinct, and any
    sort of them is stable. NumPy sorts integers in vectors, many times as fast as it finds the stable order of floats.
    The bits of floats order as integers do, if all bits but the sign are inverted for negative numbers. Both zeros are
    equal, and so are all NaN, which come last.
    """
    lines = numpy.ascontiguousarray(numpy.moveaxis(x, dim, -1))
    bits = lines.view(numpy.int32)
    if x.dtype.kind == "f":
        keys = (bits ^ ((bits >> 31) & 0x7FFFFFFF)).astype(numpy.int64)
        keys[bits == -(1 << 31)] = 0
        keys[lines != lines] = 0x7FFFFFFF
    else:
        keys = lines.astype(numpy.int64)
    if x.dtype.kind == "u":
        keys -= 1 << 31
    keys <<= 32
    keys |= numpy.arange(x.shape[dim])
    keys.sort(axis=-1)
    keys &= 0xFFFFFFFF
    return numpy.ascontiguousarray(numpy.moveaxis(keys, -1, dim))


def _order(np: Library, x: Payload, dim: int, descending: bool, kind: str | None = "stable") -> Payload:
    """Return the indices that sort `x` along `dim`, as int64. `kind` is NumPy's; None is NumPy's default."""
    if descending:
        # The ascending order of the reversed array, read backwards, is descending and still stable.
        backwards = (*(slice(None),) * dim, slice(None, None, -1))
        mirrored = _order(np, x[backwards], dim, False)
        return x.shape[dim] - 1 - mirrored[backwards]
    if kind != "stable":
        return as_int64(np.argsort(x, axis=dim, kind=kind))
    if x.shape[dim] >= _LONG and _fits_keys(x, dim):
        return _order_by_keys(x, dim)
    if x.shape[dim] >= _LONG and x.dtype.itemsize > 2:
        order = np.argsort(x, axis=dim)
        values = np.moveaxis(_take_along(np, x, order, dim), dim, -1)
        if (values[..., 1:] > values[..., :-1]).all():
            return as_int64(order)
    return as_int64(np.argsort(x, axis=dim, kind="stable"))


def _sort(
    np: Library, x: Payload, *, dim: int, descending: bool, kind: str | None = "stable"
) -> tuple[Any, Any]:
    order = _order(np, x, dim, descending, kind)
    return _take_along(np, x, order, dim), order


_PICK_VJP = {
    "x": lambda g0, x_shape, out1, dim, ops: ops.gather_backward(g0, out1, dim=dim, shape=x_shape, distinct=True)
}
_PICK_JVP = {"x": lambda t, out1, dim, ops: (ops.gather(t, out1, dim=dim), None)}

sort = op(
    "sort", "x",
    _sort,
    settings={"dim": 0, "descending": False, "kind": "stable"},
    vjp=_PICK_VJP,
    jvp=_PICK_JVP,
    batch="dims",
    outputs=2,
    discrete_outputs=(1,),
    saved_names={"out1": "indices"},
    moves_values=True,
)  # fmt: skip

argsort = op(
    "argsort", "x",
    lambda np, x, *, dim, descending, kind="stable": _order(np, x, dim, descending, kind),
    settings={"dim": 0, "descending": False, "kind": "stable"},
    vjp=NOT_DIFFERENTIABLE,
    batch="dims",
    moves_values=True,
)  # fmt: skip


# ----- the largest or smallest k --------------------------------------------------------------------------------------


def _topk(np: Library, x: Payload, *, k: int, dim: int, largest: bool) -> tuple[Any, Any]:
    if x.shape[dim] < _LONG:
        found = np.ascontiguousarray(_order(np, x, dim, largest)[(*(slice(None),) * dim, slice(k))])
        return _take_along(np, x, found, dim), found
    rows = np.moveaxis(x, dim, -1)
    found = _topk_by_rounds(np, rows, k, largest) if 0 < k <= 16 and 4 * k <= rows.shape[-1] and x.size else None
    if found is None:
        found = _topk_by_partition(np, rows, k, largest)
    values = np.take_along_axis(rows, found, axis=-1)
    return np.ascontiguousarray(np.moveaxis(values, -1, dim)), np.ascontiguousarray(np.moveaxis(found, -1, dim))


def _topk_by_rounds(np: Library, rows: Payload, k: int, largest: bool) -> Payload:
    """Run k rounds of argmax, about 30 times faster than partitioning. Return None if equal extremes or NaN prevent
    it.
    """
    kind = rows.dtype.kind
    if kind not in "fiu":
        return None
    limits = finfo(rows.dtype) if kind == "f" else np.iinfo(rows.dtype)
    taken = (-np.inf if largest else np.inf) if kind == "f" else (limits.min if largest else limits.max)
    left = np.array(rows).reshape(-1, rows.shape[-1])
    lines = np.arange(len(left))
    found = np.empty((len(left), k), np.int64)
    for i in range(k):
        best = first_index(np, left, 1, False, "argmax" if largest else "argmin")
        values = left[lines, best]
        if (values == taken).any() or (not largest and (values != values).any()):
            return None
        found[:, i] = best
        left[lines, best] = taken
    return found.reshape(*rows.shape[:-1], k)


def _topk_by_partition(np: Library, rows: Payload, k: int, largest: bool) -> Payload:
    count = rows.shape[-1]
    if not 0 < k < count:
        return _order(np, rows, rows.ndim - 1, largest)[..., :k]
    kept = np.argpartition(rows, count - k if largest else k - 1, axis=-1)
    kept = np.sort(kept[..., count - k :] if largest else kept[..., :k], axis=-1)
    order = _order(np, np.take_along_axis(rows, kept, axis=-1), rows.ndim - 1, largest)
    return as_int64(np.take_along_axis(kept, order, axis=-1))


topk = op(
    "topk", "x",
    _topk,
    settings={"k": 1, "dim": 0, "largest": True},
    vjp=_PICK_VJP,
    jvp=_PICK_JVP,
    batch="dims",
    outputs=2,
    discrete_outputs=(1,),
    saved_names={"out1": "indices"},
    moves_values=True,
)  # fmt: skip


def _kthvalue(np: Library, x: Payload, *, k: int, dim: int, keepdim: bool) -> tuple[Any, Any]:
    order = np.argpartition(x, k - 1, axis=dim)
    place = as_int64(np.take(order, [k - 1], axis=dim))
    value = np.take_along_axis(x, place, axis=dim)
    return (value, place) if keepdim else (value.squeeze(dim), place.squeeze(dim))


# The k-th smallest element along `dim`.
kthvalue = op(
    "kthvalue", "x",
    _kthvalue,
    settings={"k": 1, "dim": 0, "keepdim": False},
    vjp=place_back,
    jvp=pick_tangent,
    batch="dims",
    outputs=2,
    discrete_outputs=(1,),
    saved_names={"out1": "indices"},
    moves_values=True,
)  # fmt: skip


# ----- unique values --------------------------------------------------------------------------------------------------


def _runs(np: Library, rows: Payload, order: Any) -> tuple[Any, Any, Any]:
    """Find runs of equal rows in `order`. Return the first index of each run, the run number of each row, and the run
    lengths.
    """
    count = len(rows)
    ordered = rows[order]
    starts = np.ones(count, bool)
    if count:
        starts[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    first = np.flatnonzero(starts)
    inverse = np.empty(count, np.int64)
    inverse[order] = np.cumsum(starts) - 1
    return as_int64(order[first]), inverse, as_int64(np.diff(np.append(first, count)))


def _unique(np: Library, x: Payload, *, dim: int | None, consecutive: bool) -> tuple[Any, Any, Any]:
    x = np.asarray(x)
    moved = x.reshape(-1, 1) if dim is None else np.moveaxis(x, dim, 0)
    rows = moved.reshape(len(moved), math.prod(moved.shape[1:]))
    if consecutive:
        order = np.arange(len(rows))
    elif rows.shape[1] == 1:
        order = np.argsort(rows[:, 0], kind="stable")
    else:
        order = np.lexsort(rows.T[::-1]) if rows.shape[1] else np.arange(len(rows))
    first, inverse, counts = _runs(np, rows, order)
    return first, inverse.reshape(x.shape) if dim is None else inverse, counts


# For distinct elements (or slices along `dim`), sorted or in runs: the first index of each, from which it is taken; the
# number of the value of each element; and the count of each value.
unique = op(
    "unique", "x",
    _unique,
    settings={"dim": None, "consecutive": False},
    vjp=NOT_DIFFERENTIABLE,
    batch=DATA_DEPENDENT,
    outputs=3,
    discrete_outputs=(0, 1, 2),
    moves_values=True,
)  # fmt: skip


# The distinct elements alone, in order. NaNs count as different.
unique_values = op(
    "unique_values", "x",
    lambda np, x: np.unique(x, equal_nan=False),
    vjp=NOT_DIFFERENTIABLE,
    batch=DATA_DEPENDENT,
    moves_values=True,
)  # fmt: skip


# ----- searching ------------------------------------------------------------------------------------------------------


def _searchsorted(np: Library, x: Payload, y: Payload, *, right: bool) -> Payload:
    y = np.asarray(y)
    if x.ndim == 1:
        return np.asarray(np.searchsorted(x, y, side="right" if right else "left"), dtype=np.int64)
    # Bisection of all rows at once. Elements before `low` come before y, and elements from `high` on do not.
    count = x.shape[-1]
    low, high = np.zeros(y.shape, np.int64), np.full(y.shape, count, np.int64)
    for _ in range(count.bit_length()):
        open_ = low < high
        middle = (low + high) // 2
        seen = np.take_along_axis(x, np.minimum(middle, count - 1), axis=-1)
        nan = seen != seen
        behind = (seen > y) | (nan & (y == y)) if right else (seen >= y) | nan
        before = open_ & ~behind
        low = np.where(before, middle + 1, low)
        high = np.where(open_ & ~before, middle, high)
    return low


def _searchsorted_batch(
    x: Payload, y: Payload, right: bool, batched: tuple[bool, ...], ops: Vocabulary, size: int
) -> Payload:
    if not batched[0] and len(x.shape) == 1:
        return ops.searchsorted(x, y, right=right)
    if not batched[0]:
        x = ops.expand(x, shape=(size, *x.shape))
    if not batched[1]:
        y = ops.expand(y, shape=(size, *y.shape))
    if len(x.shape) == 2:
        flat = ops.searchsorted(x, ops.reshape(y, shape=(size, math.prod(y.shape[1:]))), right=right)
        return ops.reshape(flat, shape=tuple(y.shape))
    return ops.searchsorted(x, y, right=right)


# The positions at which y would be inserted in x, which is sorted along its last dimension. x has one dimension, or the
# leading dimensions of y.
searchsorted = op(
    "searchsorted", "x y",
    _searchsorted,
    settings={"right": False},
    vjp=NOT_DIFFERENTIABLE,
    batch=_searchsorted_batch,
    moves_values=True,
)  # fmt: skip


def _isin_batch(x: Payload, y: Payload, batched: tuple[bool, ...], ops: Vocabulary, size: int) -> Payload:
    if not batched[1]:
        return ops.isin(x, y)
    if not batched[0]:
        x = ops.expand(x, shape=(size, *x.shape))
    count, shape = math.prod(y.shape[1:]), tuple(x.shape)
    if not count:
        return ops.isin(x, ops.reshape(y, shape=(0,)))
    among, _ = ops.sort(ops.reshape(y, shape=(size, count)), dim=1)
    wanted = ops.reshape(x, shape=(size, math.prod(shape[1:])))
    # The first element that is not smaller decides, or the last element if all are smaller.
    place = ops.searchsorted(ops.getitem(among, index=(slice(None), slice(0, count - 1))), wanted)
    return ops.reshape(ops.gather(among, place, dim=1) == wanted, shape=shape)


isin = op(
    "isin", "x y",
    lambda np, x, y: np.isin(x, y),
    vjp=NOT_DIFFERENTIABLE,
    batch=_isin_batch,
    moves_values=True, returns_bool=True,
)  # fmt: skip
