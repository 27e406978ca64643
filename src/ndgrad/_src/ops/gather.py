"""Reading and writing single elements through an index: gather, scatter, take, put, and selection by a mask.

Two conventions of torch meet here. An index of `gather` and `scatter` has the rank of the tensor and replaces the
position along one dimension. An index of `take` and `put` counts through the whole tensor. Each convention has a pair
of ops that are transposes of each other, from which the other rules follow. All index arrays are constants for
differentiation.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy

from ndgrad._src.arrays import small_moves
from ndgrad._src.arrays.device_kernels import copy_array
from ndgrad._src.arrays.integers import as_int64
from ndgrad._src.arrays.meta import MetaArray, zeros_on_same_device
from ndgrad._src.arrays.scatter import (
    add_arrays,
    check_range,
    combine_along,
    find_overwritten_along,
    keep_last_values,
    move_along,
    move_at,
    no_such_index,
    put_along,
    read_along,
    read_at,
    read_kept_along,
    take_along,
    wrap_negative,
)
from ndgrad._src.ops.index import make_range, mask_overwritten
from ndgrad._src.ops.reduce import divides_back
from ndgrad._src.ops.table import NOT_DIFFERENTIABLE, op

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload, Vocabulary

def _copy_contiguous(np: Library, x: Payload) -> Payload:
    return np.array(x, order="C") if np is numpy or isinstance(x, MetaArray) else copy_array(np, x)



def _put_into_copy(how: str, kernel: Any, np: Library, x: Payload, index: Payload, y: Payload, dim: int) -> Payload:
    """Return a copy of x with values written or added by a builtin for small arrays, or by a kernel in place."""
    small = small_moves.put(how, "base", x, index, y, dim)
    return kernel(np, _copy_contiguous(np, x), index, y, dim=dim) if small is None else small


#: A number is expanded to so many elements for a builtin.
_FEW = 1 << 12

# ----- gather, and its transpose --------------------------------------------------------------------------------------


def _gather(np: Library, x: Payload, index: Payload, *, dim: int) -> Payload:
    if (small := small_moves.read_along(x, index, dim)) is not None:
        return small
    if not isinstance(x, MetaArray):
        x = np.asarray(x)
    error = no_such_index("gather", x.shape[dim], dim, RuntimeError)
    # It checks the range itself.
    found = read_along(x, index, dim, error) if index.ndim and (np is not numpy or 0 not in index.strides) else None
    if found is not None:
        return found
    check_range(np, "gather", index, x.shape[dim], dim, RuntimeError, later=True)
    return take_along(np, x, index, dim)


gather = op(
    "gather", "x index",
    _gather,
    settings={"dim": 0},
    vjp={"x": lambda g, x_shape, index, dim, ops: ops.gather_backward(g, index, dim=dim, shape=x_shape)},
    jvp={"x": lambda t, index, dim, ops: ops.gather(t, index, dim=dim)},
    batch="dims",
    adjoint_write=lambda g, index, dim: ("scatter_add", (index, g), {"dim": dim}),
    may_raise=True,
    moves_values=True, movement="gather", linear_in=["x"],
)  # fmt: skip


def _gather_backward(
    np: Library, x: Payload, index: Payload, *, dim: int, shape: tuple[int, ...], distinct: bool
) -> Payload:
    if (small := small_moves.put("write" if distinct else "add", "zeros", shape, index, x, dim)) is not None:
        return small
    out = zeros_on_same_device(np, x, shape, x.dtype)
    if distinct:
        return put_along(np, out, index, x, dim, distinct=True)
    return combine_along(np, "add", out, index, x, dim)


# Zeros to which x is added at the indexed positions. With `distinct`, no position occurs twice, so assignment suffices.
gather_backward = op(
    "gather_backward", "x index",
    _gather_backward,
    settings={"dim": 0, "shape": (), "distinct": False},
    vjp={"x": lambda g, index, dim, ops: ops.gather(g, index, dim=dim)},
    jvp={"x": lambda t, index, dim, shape, distinct, ops: ops.gather_backward(t, index, dim=dim, shape=shape,
            distinct=distinct)},
    batch=lambda x, index, dim, shape, distinct, ops: ops.gather_backward(
        x, index, dim=dim + 1, shape=(x.shape[0], *shape), distinct=distinct
    ),
    may_raise=True, movement="scatter",
)  # fmt: skip


# An index along a dimension of size `length`, with negative numbers, which count from the end, made non-negative.
wrap_index = op(
    "wrap_index", "x",
    lambda np, x, *, length: as_int64(wrap_negative(np, np.asarray(x), length, later=True)),
    settings={"length": 0},
    vjp=NOT_DIFFERENTIABLE,
    batch="leading",
    may_raise=True,
    moves_values=True, core_dims=[0],
)  # fmt: skip


# ----- scatter --------------------------------------------------------------------------------------------------------


def _scatter_kernel(np: Library, target: Payload, index: Payload, y: Payload, *, dim: int) -> Payload:
    if y.__class__ is float and index.__class__ is numpy.ndarray and index.size < _FEW:
        y = numpy.full(index.shape, y, target.dtype)
    if (small := small_moves.put("write", "place", target, index, y, dim)) is not None:
        return small
    if move_along("write", target, index, y, dim, no_such_index("scatter", target.shape[dim], dim, RuntimeError)):
        return target
    check_range(np, "scatter", index, target.shape[dim], dim, RuntimeError)
    return put_along(np, target, index, y, dim)


# A mask of the elements of an index along `dim` whose position occurs again later.
overwritten_along = op(
    "overwritten_along", "x",
    lambda np, x, *, dim, shape: find_overwritten_along(np, x, shape, dim),
    settings={"dim": 0, "shape": ()},
    vjp=NOT_DIFFERENTIABLE,
    batch=lambda x, dim, shape, ops: ops.overwritten_along(x, dim=dim + 1, shape=(x.shape[0], *shape)),
    may_raise=True,
    moves_values=True, returns_bool=True,
)  # fmt: skip

def _scatter_y(g: Payload, x_shape: tuple[int, ...], index: Payload, dim: int, ops: Vocabulary) -> Payload:
    kept = None
    if ops.raw and (kept := small_moves.read_along(g, index, dim, kept=True)) is None:
        kept = read_kept_along(ops.np, g, index, dim)
    if kept is not None:
        return kept
    lost = ops.overwritten_along(index, dim=dim, shape=x_shape)
    return mask_overwritten(ops.gather(g, index, dim=dim), lost, ops)


# x with y (of the index's shape, or a number) written at the indexed positions. If several y have one position, the
# last one is kept, and only it gets a gradient.
scatter = op(
    "scatter", "x index y",
    lambda np, x, index, y, *, dim: _put_into_copy("write", _scatter_kernel, np, x, index, y, dim),
    settings={"dim": 0},
    vjp={
        "x": lambda g, index, dim, ops: ops.scatter_(g, index, 0.0, dim=dim),
        "y": _scatter_y,
    },
    jvp={
        "x": lambda t, index, dim, ops: ops.scatter(t, index, 0.0, dim=dim),
        "y": lambda t, x, index, dim, ops: ops.scatter(ops.zeros_like(x), index, t, dim=dim),
    },
    batch="dims",
    write_kernel=_scatter_kernel,
    consumes=True,
    kind="join",
    may_be_discrete=True,
    may_raise=True,
    moves_values=True, movement="scatter",
)  # fmt: skip


def _scatter_add_kernel(np: Library, target: Payload, index: Payload, y: Payload, *, dim: int) -> Payload:
    if (small := small_moves.put("add", "place", target, index, y, dim)) is not None:
        return small
    if move_along("add", target, index, y, dim, no_such_index("scatter_add", target.shape[dim], dim, RuntimeError)):
        return target
    check_range(np, "scatter_add", index, target.shape[dim], dim, RuntimeError)
    return combine_along(np, "add", target, index, y, dim)


scatter_add = op(
    "scatter_add", "x index y",
    lambda np, x, index, y, *, dim: _put_into_copy("add", _scatter_add_kernel, np, x, index, y, dim),
    settings={"dim": 0},
    vjp={"x": lambda g: g, "y": lambda g, index, dim, ops: ops.gather(g, index, dim=dim)},
    jvp={
        "x": lambda t: t,
        "y": lambda t, x_shape, index, dim, ops: ops.gather_backward(t, index, dim=dim, shape=x_shape),
    },
    batch="dims",
    write_kernel=_scatter_add_kernel,
    consumes=True,
    may_be_discrete=True,
    may_raise=True, memory_order="C", movement="scatter",
)  # fmt: skip


# ----- scatter with a product -----------------------------------------------------------------------------------------


def _scatter_prod(np: Library, x: Payload, index: Payload, *, dim: int, shape: tuple[int, ...]) -> Payload:
    check_range(np, "scatter_reduce", index, shape[dim], dim, RuntimeError)
    ones = zeros_on_same_device(np, x, shape, x.dtype)
    ones[...] = 1
    return combine_along(np, "multiply", ones, index, x, dim)


def _product_of_others(x: Payload, index: Payload, dim: int, ops: Vocabulary) -> Payload:
    """Return, for each element of x, the product of all other elements with the same index.

    Dividing the whole product by the element fails at zeros, and so do the quotient's derivatives. Instead, sorting
    brings equal indices together. Products of all elements to the left and to the right within a run are built by
    doubling: after step s, entry i holds the product of the s nearest neighbours on its side that belong to its run.
    Only products and selections by constant masks occur, so derivatives of every order are exact, also at zeros.
    """
    order = ops.argsort(index, dim=dim)
    values, keys = ops.gather(x, order, dim=dim), ops.gather(index, order, dim=dim)
    left = _run_product(values, keys, dim, 1, ops)
    right = _run_product(values, keys, dim, -1, ops)
    return ops.gather_backward(left * right, order, dim=dim, shape=tuple(x.shape), distinct=True)


def _run_product(values: Payload, keys: Any, dim: int, direction: int, ops: Vocabulary) -> Payload:
    out = _neighbour(values, keys, dim, direction, ops)
    step = 1
    while step < values.shape[dim] - 1:
        out = out * _neighbour(out, keys, dim, direction * step, ops)
        step *= 2
    return out


def _neighbour(values: Payload, keys: Any, dim: int, distance: int, ops: Vocabulary) -> Payload:
    """Return the value `distance` positions before if it belongs to the same run, else 1."""
    shape = tuple(values.shape)
    ahead, behind = (
        slice(max(distance, 0), shape[dim] + min(distance, 0)),
        slice(max(-distance, 0), shape[dim] - max(distance, 0)),
    )
    here, there = (*(slice(None),) * dim, ahead), (*(slice(None),) * dim, behind)
    same = ops.getitem(keys, index=here) == ops.getitem(keys, index=there)
    shifted = ops.embed(ops.getitem(values, index=there), shape=shape, index=here)
    return ops.where(ops.embed(same, shape=shape, index=here), shifted, 1.0)


def _scatter_prod_vjp(g: Payload, x: Payload, index: Payload, out: Payload, dim: int, ops: Vocabulary) -> Payload:
    scaled = g * ops.conj(out) if ops.raw else None
    if divides_back(out, scaled, ops):
        return ops.gather(scaled, index, dim=dim) / ops.conj(x)
    return ops.gather(g, index, dim=dim) * ops.conj(_product_of_others(x, index, dim, ops))


# Ones, multiplied by x at the indexed positions.
scatter_prod = op(
    "scatter_prod", "x index",
    _scatter_prod,
    settings={"dim": 0, "shape": ()},
    vjp={"x": _scatter_prod_vjp},
    jvp={
        "x": lambda t, x, index, dim, shape, ops: ops.gather_backward(
            t * _product_of_others(x, index, dim, ops), index, dim=dim, shape=shape)
    },
    batch=lambda x, index, dim, shape, ops: ops.scatter_prod(x, index, dim=dim + 1, shape=(x.shape[0], *shape)),
    backward_name="ScatterReduceBackward0",
    may_raise=True,
)  # fmt: skip


# ----- scatter with the largest or smallest ---------------------------------------------------------------------------


def _scatter_extreme_kernel(
    np: Library, target: Payload, index: Payload, y: Payload, *, dim: int, largest: bool, include_self: bool
) -> Payload:
    check_range(np, "scatter_reduce", index, target.shape[dim], dim, RuntimeError)
    if not include_self:
        # The last y of each position is written first; including it once more changes nothing.
        put_along(np, target, index, y, dim)
    return combine_along(np, "maximum" if largest else "minimum", target, index, y, dim)


def _winners(
    x: Payload, index: Payload, y: Payload, out: Payload, dim: int, include_self: bool, dtype: Any, ops: Vocabulary
) -> tuple[Any, Any, Any]:
    """Return ones and zeros that mark the extreme values in x and y, and their number at each position.

    All extreme values share the gradient equally.
    """
    of_x = ops.cast(x == out, dtype=dtype)
    if not include_self:
        of_x = ops.scatter(of_x, index, 0.0, dim=dim)
    of_y = ops.cast(y == ops.gather(out, index, dim=dim), dtype=dtype)
    return of_x, of_y, ops.scatter_add(of_x, index, of_y, dim=dim)


def _scatter_extreme_vjp(
    g: Payload,
    x: Payload,
    x_dtype: Any,
    index: Payload,
    y: Payload,
    out: Payload,
    dim: int,
    include_self: bool,
    needs: tuple[bool, ...],
    ops: Vocabulary,
) -> tuple[Any, ...]:
    of_x, of_y, count = _winners(x, index, y, out, dim, include_self, x_dtype, ops)
    share = g / count
    return of_x * share if needs[0] else None, of_y * ops.gather(share, index, dim=dim) if needs[1] else None


def _scatter_extreme_jvp(
    x: Payload,
    x_dtype: Any,
    index: Payload,
    y: Payload,
    out: Payload,
    x_t: Payload,
    y_t: Payload,
    dim: int,
    include_self: bool,
    ops: Vocabulary,
) -> Payload:
    of_x, of_y, count = _winners(x, index, y, out, dim, include_self, x_dtype, ops)
    if y_t is None:
        return of_x * x_t / count
    if x_t is None:
        return ops.gather_backward(of_y * y_t, index, dim=dim, shape=tuple(x.shape)) / count
    return ops.scatter_add(of_x * x_t, index, of_y * y_t, dim=dim) / count


scatter_extreme = op(
    "scatter_extreme", "x index y",
    lambda np, x, index, y, *, dim, largest, include_self: _scatter_extreme_kernel(
        np, _copy_contiguous(np, x), index, y, dim=dim, largest=largest, include_self=include_self
    ),
    settings={"dim": 0, "largest": True, "include_self": True},
    vjp=_scatter_extreme_vjp,
    jvp=_scatter_extreme_jvp,
    batch="dims",
    constant="index",
    write_kernel=_scatter_extreme_kernel,
    backward_name="ScatterReduceBackward0",
    piecewise_linear=True,
    may_be_discrete=True,
    may_raise=True,
)  # fmt: skip


# ----- positions in the whole tensor ----------------------------------------------------------------------------------


def _take_batch(x: Payload, index: Payload, batched: tuple[bool, ...], ops: Vocabulary, size: int) -> Payload:
    if not batched[0]:
        return ops.take(x, index)
    rows = ops.reshape(x, shape=(size, math.prod(x.shape[1:])))
    if not batched[1]:
        inner = tuple(index.shape)
        out = ops.permute(ops.index(ops.permute(rows, dims=(1, 0)), index), dims=(len(inner), *range(len(inner))))
        return out
    return ops.index(rows, make_range(x, size, len(index.shape)), index)


def _take(np: Library, x: Payload, index: Payload) -> Payload:
    if np is numpy:
        return np.take(np.asarray(x), index)
    found = read_at(np, x.reshape(-1), (index,)) if x.size else None
    return np.take(x, wrap_negative(np, index, x.size, later=True)) if found is None else found


take = op(
    "take", "x index",
    _take,
    vjp={
        "x": lambda g, x_shape, index, ops: ops.reshape(
            ops.index_add_zeros(g, index, shape=(math.prod(x_shape),)), shape=x_shape
        )
    },
    jvp={"x": lambda t, index, ops: ops.take(t, index)},
    batch=_take_batch,
    adjoint_write=lambda g, index: ("put", (index, g), {"accumulate": True}),
    may_raise=True,
    moves_values=True, movement="gather", linear_in=["x"],
)  # fmt: skip


def _put_kernel(np: Library, target: Payload, index: Payload, y: Payload, *, accumulate: bool) -> Payload:
    if np is not numpy and target.flags.c_contiguous:
        part = y.reshape(index.shape) if getattr(y, "ndim", 0) else y
        if move_at("add" if accumulate else "write", target.reshape(-1), (index,), part, checks=True):
            return target
    whole = target if target.ndim else target.reshape(1)
    places = np.unravel_index(wrap_negative(np, index, target.size).reshape(-1), whole.shape)
    y = np.asarray(y).reshape(-1)
    if accumulate:
        add_arrays(np, whole, places, y)
    else:
        whole[places] = y if np is numpy else keep_last_values(np, places, whole.shape, y)
    return target


def _put_batch(x: Payload, index: Payload, y: Payload, accumulate: bool, ops: Vocabulary, size: int) -> Payload:
    rows = ops.reshape(x, shape=(size, math.prod(x.shape[1:])))
    out = ops.index_put(rows, y, make_range(x, size, len(index.shape)), index, accumulate=accumulate)
    return ops.reshape(out, shape=tuple(x.shape))


def _put_y(g: Payload, x_shape: tuple[int, ...], index: Payload, accumulate: bool, ops: Vocabulary) -> Payload:
    out = ops.take(g, index)
    return out if accumulate else mask_overwritten(out, ops.overwritten(index, shape=(math.prod(x_shape),)), ops)


# x with y (of the index's shape, or a number) written or added at positions that count through the whole tensor.
put = op(
    "put", "x index y",
    lambda np, x, index, y, *, accumulate: _put_kernel(np, np.array(x), index, y, accumulate=accumulate),
    settings={"accumulate": False},
    vjp={
        "x": lambda g, index, accumulate, ops: g if accumulate else ops.put_(g, index, 0.0),
        "y": _put_y,
    },
    jvp={
        "x": lambda t, index, accumulate, ops: t if accumulate else ops.put(t, index, 0.0),
        "y": lambda t, x, index, accumulate, ops: ops.put(ops.zeros_like(x), index, t, accumulate=accumulate),
    },
    batch=_put_batch,
    write_kernel=_put_kernel,
    consumes=True,
    saved_names={"y": "source"},
    may_be_discrete=True,
    may_raise=True,
    moves_values=True, movement="scatter",
)  # fmt: skip


# ----- masks ----------------------------------------------------------------------------------------------------------


def _require_unbatched_mask(name: str, mask_is_batched: bool) -> None:
    if mask_is_batched:
        raise RuntimeError(
            f"vmap: {name} with a mask that differs from sample to sample would give each a result of its own length. "
            "Use where() or masked_fill(), which keep the shape, or call it outside vmap. [nd-vmap-value]"
        )


def _mask_index(x: Any, mask: Any) -> Any:
    """Return the index for a mask of the last dimensions. NumPy is twice as fast without the Ellipsis."""
    return mask if x.ndim == mask.ndim else (Ellipsis, mask)


def _masked_select_batch(x: Payload, mask: Payload, batched: tuple[bool, ...], ops: Vocabulary) -> Payload:
    _require_unbatched_mask("masked_select", batched[1])
    return ops.masked_select(x, mask)


# The elements of x at which the mask, which has the shape of x's last dimensions, is true.
masked_select = op(
    "masked_select", "x mask",
    lambda np, x, mask: np.asarray(x)[_mask_index(x, mask)],
    vjp={"x": lambda g, mask, ops: ops.masked_select_backward(g, mask)},
    jvp={"x": lambda t, mask, ops: ops.masked_select(t, mask)},
    batch=_masked_select_batch,
    needs_values=True,
    moves_values=True, linear_in=["x"], movement="gather",
)  # fmt: skip


def _masked_select_backward(np: Library, x: Payload, mask: Payload) -> Payload:
    out = np.zeros((*x.shape[:-1], *mask.shape), x.dtype)
    out[_mask_index(out, mask)] = x
    return out


def _masked_select_backward_batch(x: Payload, mask: Payload, batched: tuple[bool, ...], ops: Vocabulary) -> Payload:
    _require_unbatched_mask("masked_select_backward", batched[1])
    return ops.masked_select_backward(x, mask)


# Zeros with x at the positions where the mask is true: the transpose of masked_select.
masked_select_backward = op(
    "masked_select_backward", "x mask",
    _masked_select_backward,
    vjp={"x": lambda g, mask, ops: ops.masked_select(g, mask)},
    jvp={"x": lambda t, mask, ops: ops.masked_select_backward(t, mask)},
    batch=_masked_select_backward_batch,
    may_raise=True,
)  # fmt: skip


def _mask_positions(np: Library, x: Payload, *, leading: int) -> Payload:
    x = np.asarray(x)
    flat = x.reshape(*x.shape[:leading], -1)
    return np.maximum(np.cumsum(flat, axis=-1, dtype=np.int64) - 1, 0).reshape(x.shape)


# The number of every true element of a mask among the true elements, counted separately for each index of the `leading`
# dimensions.
mask_positions = op(
    "mask_positions", "x",
    _mask_positions,
    settings={"leading": 0},
    vjp=NOT_DIFFERENTIABLE,
    batch=lambda x, leading, ops: ops.mask_positions(x, leading=leading + 1),
)  # fmt: skip
