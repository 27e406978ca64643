"""Largest and smallest elements.

For ties, this file follows torch's two conventions. Ops that return only a value (`amax`, `max()` over everything)
share the gradient equally among the ties. Ops that also return an index give all of it to the indexed element.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy

from ndgrad._src.arrays.integers import as_int64
from ndgrad._src.arrays.library import is_on_device
from ndgrad._src.arrays.meta import zeros_on_same_device
from ndgrad._src.arrays.precision import INEXACT
from ndgrad._src.arrays.scatter import combine_along, move_along, read_along
from ndgrad._src.arrays.short_rows import is_lines, line_extremum
from ndgrad._src.ops.composite import fused_rule
from ndgrad._src.ops.reduce import keep, unbatched_dims
from ndgrad._src.ops.table import NOT_DIFFERENTIABLE, op

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload, Vocabulary

#: Number of elements from which the alternative algorithms below pay off.
_LARGE = 4096

# ----- one element of each row: pick_along and its transpose ----------------------------------------------------------


def _pick_along(np: Library, x: Payload, index: Payload, *, dim: int) -> Payload:
    found = read_along(x, index, dim)
    return np.take_along_axis(x, index, dim) if found is None else found


def _place_along(np: Library, x: Payload, index: Payload, *, dim: int, size: int) -> Payload:
    shape = x.shape
    if np is not numpy and shape[dim] == 1:
        out = zeros_on_same_device(np, x, (*shape[:dim], size, *shape[dim + 1 :]), x.dtype)
        if move_along("write", out, index, x, dim, distinct=True):
            return out
    before, taken, after = _volume(shape[:dim]), shape[dim], _volume(shape[dim + 1 :])
    if taken > 1:
        found = zeros_on_same_device(np, x, (*shape[:dim], size, *shape[dim + 1 :]), x.dtype)
        return combine_along(np, "add", found, index, x, dim)
    flat = index
    if after > 1:
        flat = flat.reshape((before, taken, after)) * after + np.arange(after)
    if before > 1:
        flat = flat.reshape((before, taken * after)) + (np.arange(before) * (size * after))[:, None]
    out = zeros_on_same_device(np, x, (before * size * after,), x.dtype)
    out[flat.reshape(-1)] = x.reshape(-1)
    return out.reshape((*shape[:dim], size, *shape[dim + 1 :]))


def _volume(shape: tuple[int, ...]) -> int:
    n = 1
    for s in shape:
        n *= s
    return n


# The elements of x at `index` along `dim`. The shapes agree in the other dimensions.
pick_along = op(
    "pick_along", "x index",
    _pick_along,
    settings={"dim": 0},
    vjp={"x": lambda g, index, x_shape, dim, ops: ops.place_along(g, index, dim=dim, size=x_shape[dim])},
    jvp={"x": lambda t, index, dim, ops: ops.pick_along(t, index, dim=dim)},
    batch="dims",
    backward_name="GatherBackward0",
    aten_name="gather",
    may_raise=True,
    moves_values=True, linear_in=["x"], movement="gather",
)  # fmt: skip

# Zeros with `size` elements along `dim`, to which x is added at `index`: the transpose of pick_along.
place_along = op(
    "place_along", "x index",
    _place_along,
    settings={"dim": 0, "size": 0},
    vjp={"x": lambda g, index, dim, ops: ops.pick_along(g, index, dim=dim)},
    jvp={"x": lambda t, index, dim, size, ops: ops.place_along(t, index, dim=dim, size=size)},
    batch="dims",
    backward_name="ScatterAddBackward0",
    aten_name="scatter_add",
    may_raise=True,
    moves_values=True, moves_dims=True, movement="scatter",
)  # fmt: skip


# ----- amax and amin, max and min over everything: ties share the gradient --------------------------------------------


def largest(np: Library, x: Payload, dim: tuple[int, ...] | None, keepdim: bool = False) -> Payload:
    if np is not numpy:
        return np.max(x, axis=dim, keepdims=keepdim)
    if dim is not None and is_lines(np, x, dim):
        return line_extremum(np, np.maximum, x, keepdim)
    return np.maximum.reduce(x, axis=dim, keepdims=keepdim)


def smallest(np: Library, x: Payload, dim: tuple[int, ...] | None, keepdim: bool = False) -> Payload:
    if np is not numpy:
        return np.min(x, axis=dim, keepdims=keepdim)
    if dim is not None and is_lines(np, x, dim):
        return line_extremum(np, np.minimum, x, keepdim)
    return np.minimum.reduce(x, axis=dim, keepdims=keepdim)


def equal_or_nan(x: Payload, out: Payload, ops: Vocabulary) -> Payload:
    """Return a mask of the elements equal to the extremum. NaN counts as equal to NaN."""
    if ops.raw and ops.np is numpy and (out == out).all():  # on a device this would wait
        return x == out
    return ops.where(x == x, x == out, out != out)


def _share(
    g: Payload, x: Payload, out: Payload, dim: tuple[int, ...], keepdim: bool, x_dtype: Any, ops: Vocabulary
) -> Payload:
    """Share the gradient equally among the ties. NaN equals nothing here, and 0/0 propagates it, as in torch."""
    shape = tuple(x.shape)
    g, out = keep(g, shape, dim, keepdim, ops), keep(out, shape, dim, keepdim, ops)
    if ops.raw and is_on_device(x) and x.dtype.char in "fd":
        return _share_among_ties(g, x, out, dim, ops)
    ties = x == out
    return ties * (g / ops.sum(ties, dim=dim, keepdim=True, dtype=x_dtype))


@fused_rule("g x out", only_on_device=True)
def _share_among_ties(g: Payload, x: Payload, out: Payload, dim: tuple[int, ...], ops: Vocabulary) -> Payload:
    ties = ops.where(x == out, 1.0, 0.0)
    return ties * (g / ops.sum(ties, dim=dim, keepdim=True))


def _share_t(
    t: Payload, x: Payload, out: Payload, dim: tuple[int, ...], keepdim: bool, x_dtype: Any, ops: Vocabulary
) -> Payload:
    ties = x == keep(out, tuple(x.shape), dim, keepdim, ops)
    return ops.sum(ties * t, dim=dim, keepdim=keepdim) / ops.sum(ties, dim=dim, keepdim=keepdim, dtype=x_dtype)


def share_all(g: Payload, x: Payload, out: Payload, x_dtype: Any, ops: Vocabulary) -> Payload:
    """Share the gradient as `_share` does, over all dimensions. The gradient of a NaN goes to the NaNs."""
    ties = equal_or_nan(x, out, ops)
    return ties * (g / ops.sum_all(ties, dtype=x_dtype))


def share_all_t(t: Payload, x: Payload, out: Payload, x_dtype: Any, ops: Vocabulary) -> Payload:
    ties = equal_or_nan(x, out, ops)
    return ops.sum_all(ties * t) / ops.sum_all(ties, dtype=x_dtype)


amax = op(
    "amax", "x",
    lambda np, x, *, dim, keepdim=False: largest(np, x, dim, keepdim),
    settings={"dim": (), "keepdim": False},
    vjp={"x": _share},
    jvp={"x": _share_t},
    batch="dims",
    may_be_discrete=True,
    kind="extreme", piecewise_linear=True,
    moves_values=True, reduces="max", joins_pieces_by="max", memory_order="C",
)  # fmt: skip

amin = op(
    "amin", "x",
    lambda np, x, *, dim, keepdim=False: smallest(np, x, dim, keepdim),
    settings={"dim": (), "keepdim": False},
    vjp={"x": _share},
    jvp={"x": _share_t},
    batch="dims",
    may_be_discrete=True,
    kind="extreme", piecewise_linear=True,
    moves_values=True, reduces="min", joins_pieces_by="min", memory_order="C",
)  # fmt: skip

max_all = op(
    "max_all", "x",
    lambda np, x: largest(np, x, None),
    vjp={"x": share_all},
    jvp={"x": share_all_t},
    batch=lambda x, ops: ops.amax(x, dim=unbatched_dims(x)),
    backward_name="MaxBackward1",
    may_be_discrete=True,
    kind="extreme", piecewise_linear=True,
    moves_values=True, reduces="max", joins_pieces_by="max",
)  # fmt: skip

min_all = op(
    "min_all", "x",
    lambda np, x: smallest(np, x, None),
    vjp={"x": share_all},
    jvp={"x": share_all_t},
    batch=lambda x, ops: ops.amin(x, dim=unbatched_dims(x)),
    backward_name="MinBackward1",
    may_be_discrete=True,
    kind="extreme", piecewise_linear=True,
    moves_values=True, reduces="min", joins_pieces_by="min",
)  # fmt: skip


# ----- indices --------------------------------------------------------------------------------------------------------


def first_index(np: Library, x: Payload, dim: int, keepdim: bool, name: str) -> Payload:
    """Return the first index of the extremum along `dim`."""
    if np is numpy and dim != len(x.shape) - 1 and x.size > _LARGE:
        # NumPy's argmax transposes a copy; searching for the value is three times faster. This does not find NaN.
        n = x.shape[dim]
        extremum = (largest if name == "argmax" else smallest)(np, x, (dim,), True)
        places = np.arange(n, dtype=np.int32).reshape((n, *(1,) * (len(x.shape) - dim - 1)))
        found = np.minimum.reduce(np.where(x == extremum, places, np.int32(n)), axis=dim, keepdims=keepdim)
        if not (found == n).any():
            return found.astype(np.int64)
    found = as_int64(getattr(x, name)(axis=dim, keepdims=keepdim))
    if np is numpy or x.dtype.kind not in INEXACT:
        return found
    nan = x != x  # CuPy finds any of several NaNs, not the first
    return np.where(nan.any(axis=dim, keepdims=keepdim), nan.argmax(axis=dim, keepdims=keepdim), found)


# These work along one dimension; the public functions flatten the tensor first if no dimension is given.
argmax = op(
    "argmax", "x",
    lambda np, x, *, dim, keepdim=False: first_index(np, x, dim, keepdim, "argmax"),
    settings={"dim": 0, "keepdim": False},
    vjp=NOT_DIFFERENTIABLE,
    batch="dims",
    moves_values=True,
)  # fmt: skip

argmin = op(
    "argmin", "x",
    lambda np, x, *, dim, keepdim=False: first_index(np, x, dim, keepdim, "argmin"),
    settings={"dim": 0, "keepdim": False},
    vjp=NOT_DIFFERENTIABLE,
    batch="dims",
    moves_values=True,
)  # fmt: skip


# ----- max and min along a dimension ----------------------------------------------------------------------------------

# `index` is the position of the extremum from argmax or argmin, and gets the gradient. With a single output the op can
# use the fast path for recording. `max` and `min` below find the position themselves and return both.


def _scatter_to_index(
    g: Payload, index: Payload, x_shape: tuple[int, ...], dim: int, keepdim: bool, ops: Vocabulary
) -> Payload:
    g, index = keep(g, x_shape, (dim,), keepdim, ops), keep(index, x_shape, (dim,), keepdim, ops)
    return ops.place_along(g, index, dim=dim, size=x_shape[dim])


def _gather_from_index(
    t: Payload, index: Payload, x_shape: tuple[int, ...], dim: int, keepdim: bool, ops: Vocabulary
) -> Payload:
    picked = ops.pick_along(t, keep(index, x_shape, (dim,), keepdim, ops), dim=dim)
    return ops.reshape(picked, shape=tuple(index.shape))


max_at = op(
    "max_at", "x index",
    lambda np, x, index, *, dim, keepdim=False: largest(np, x, (dim,), keepdim),
    settings={"dim": 0, "keepdim": False},
    vjp={"x": _scatter_to_index},
    jvp={"x": _gather_from_index},
    batch="dims",
    may_be_discrete=True,
    backward_name="MaxBackward0",
    saved_names={"index": "indices"}, kind="extreme",
    moves_values=True,
)  # fmt: skip

min_at = op(
    "min_at", "x index",
    lambda np, x, index, *, dim, keepdim=False: smallest(np, x, (dim,), keepdim),
    settings={"dim": 0, "keepdim": False},
    vjp={"x": _scatter_to_index},
    jvp={"x": _gather_from_index},
    batch="dims",
    may_be_discrete=True,
    backward_name="MinBackward0",
    saved_names={"index": "indices"}, kind="extreme",
    moves_values=True,
)  # fmt: skip


# ----- values selected along a dimension, for ops that also return the indices ----------------------------------------


def place_back(
    g0: Payload, out1: Payload, x_shape: tuple[int, ...], dim: int, keepdim: bool, ops: Vocabulary
) -> tuple[Any]:
    """Return the gradient of values selected along `dim` at the indices out1, put back to their positions."""
    return (_scatter_to_index(g0, out1, x_shape, dim, keepdim, ops),)


def pick_tangent(
    x_t: Payload, out1: Payload, x_shape: tuple[int, ...], dim: int, keepdim: bool, ops: Vocabulary
) -> tuple[Any, None]:
    return (_gather_from_index(x_t, out1, x_shape, dim, keepdim, ops), None)


max = op(
    "max", "x",
    lambda np, x, *, dim, keepdim=False: (largest(np, x, (dim,), keepdim), first_index(np, x, dim, keepdim, "argmax")),
    settings={"dim": 0, "keepdim": False},
    vjp=place_back,
    jvp=pick_tangent,
    batch="dims",
    outputs=2,
    discrete_outputs=(1,),
    saved_names={"out1": "indices"}, kind="extreme",
    moves_values=True,
)  # fmt: skip


min = op(
    "min", "x",
    lambda np, x, *, dim, keepdim=False: (smallest(np, x, (dim,), keepdim), first_index(np, x, dim, keepdim, "argmin")),
    settings={"dim": 0, "keepdim": False},
    vjp=place_back,
    jvp=pick_tangent,
    batch="dims",
    outputs=2,
    discrete_outputs=(1,),
    saved_names={"out1": "indices"}, kind="extreme",
    moves_values=True,
)  # fmt: skip
