"""Whole slices along one dimension, selected by a 1-d index (index_select, index_add, embedding) or by a basic index.

A slice is contiguous if the dimension comes first, so these ops are much faster than the elementwise ops of `gather`.
All of them move the dimension to the front and back. Under vmap with an index per sample, the batch becomes one more
indexed dimension (`index` and `index_put`), which keeps slices whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy

from ndgrad._src.arrays import small_moves
from ndgrad._src.arrays.device_kernels import rows_later
from ndgrad._src.arrays.meta import MetaArray, zeros_on_same_device
from ndgrad._src.arrays.scatter import (
    add_slices,
    check_range,
    keep_last_values,
    move_slices,
    no_such_index,
    read_slices,
    take_slices,
    wrap_negative,
    zeros_and_add,
)
from ndgrad._src.ops.index import copy_of, make_range, mask_overwritten
from ndgrad._src.ops.table import NOT_DIFFERENTIABLE, op

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload, Vocabulary


def _move_to_front(x: Payload, dim: int, ops: Vocabulary) -> Payload:
    """Move dimension `dim` of x, which has the batch first, directly behind the batch."""
    return x if dim == 1 else ops.permute(x, dims=(0, dim, *(d for d in range(1, len(x.shape)) if d != dim)))


def _move_from_front(x: Payload, dim: int, ops: Vocabulary) -> Payload:
    """Invert `_move_to_front`."""
    order = [0, *range(2, len(x.shape))]
    order.insert(dim, 1)
    return x if dim == 1 else ops.permute(x, dims=tuple(order))


# ----- index_select, and its transpose --------------------------------------------------------------------------------


def _index_select(np: Library, x: Payload, index: Payload, *, dim: int) -> Payload:
    if np is not numpy:
        found = read_slices(np, x, index, dim, no_such_index("index_select", x.shape[dim], dim))
        if found is not None:
            return found
    elif (small := small_moves.read_slices(x, index, dim)) is not None:
        return small
    check_range(np, "index_select", index, x.shape[dim], dim, later=True)
    return take_slices(np, x, index, dim)


def _index_select_batch(
    x: Payload, index: Payload, dim: int, batched: tuple[bool, ...], ops: Vocabulary, size: int
) -> Payload:
    if not batched[1]:
        return ops.index_select(x, index, dim=dim + 1)
    if not batched[0]:
        out = ops.index_select(x, ops.reshape(index, shape=(size * index.shape[1],)), dim=dim)
        out = ops.reshape(out, shape=(*x.shape[:dim], size, index.shape[1], *x.shape[dim + 1 :]))
        return ops.permute(out, dims=(dim, *range(dim), *range(dim + 1, len(out.shape)))) if dim else out
    return _move_from_front(ops.index(_move_to_front(x, dim + 1, ops), make_range(x, size, 2), index), dim + 1, ops)


index_select = op(
    "index_select", "x index",
    _index_select,
    settings={"dim": 0},
    vjp={"x": lambda g, x_shape, index, dim, ops: ops.index_select_backward(g, index, dim=dim, length=x_shape[dim])},
    jvp={"x": lambda t, index, dim, ops: ops.index_select(t, index, dim=dim)},
    batch=_index_select_batch,
    adjoint_write=lambda g, index, dim: ("index_add", (index, g), {"dim": dim}),
    may_raise=True,
    moves_values=True, movement="gather", linear_in=["x"],
)  # fmt: skip


def _index_select_backward(np: Library, x: Payload, index: Payload, *, dim: int, length: int) -> Payload:
    shape = (*x.shape[:dim], length, *x.shape[dim + 1 :])
    if (small := small_moves.put("add", "zeros", shape, index, x, dim)) is not None:
        return small
    if dim == 0:
        return zeros_and_add(np, shape, (index,), x)
    return add_slices(np, zeros_on_same_device(np, x, shape, x.dtype), index, x, dim)


def _index_select_backward_batch(
    x: Payload, index: Payload, dim: int, length: int, batched: tuple[bool, ...], ops: Vocabulary, size: int
) -> Payload:
    if not batched[1]:
        return ops.index_select_backward(x, index, dim=dim + 1, length=length)
    if not batched[0]:
        x = ops.expand(x, shape=(size, *x.shape))
    rows = _move_to_front(x, dim + 1, ops)
    out = ops.index_add_zeros(rows, make_range(x, size, 2), index, shape=(size, length, *rows.shape[2:]))
    return _move_from_front(out, dim + 1, ops)


# Zeros to which the slices of x are added.
index_select_backward = op(
    "index_select_backward", "x index",
    _index_select_backward,
    settings={"dim": 0, "length": 0},
    vjp={"x": lambda g, index, dim, ops: ops.index_select(g, index, dim=dim)},
    jvp={"x": lambda t, index, dim, length, ops: ops.index_select_backward(t, index, dim=dim, length=length)},
    batch=_index_select_backward_batch,
    may_raise=True, movement="scatter",
)  # fmt: skip


# ----- writing slices -------------------------------------------------------------------------------------------------


def _put_slices_batch(
    x: Payload,
    index: Payload,
    y: Payload,
    dim: int,
    accumulate: bool,
    batched: tuple[bool, ...],
    ops: Vocabulary,
    size: int,
) -> Payload:
    """Batch index_add and index_copy with an index per sample: the samples are one more indexed dimension."""
    if not batched[0]:
        x = ops.expand(x, shape=(size, *x.shape))
    if not batched[2]:
        y = ops.expand(y, shape=(size, *y.shape))
    if not batched[1]:
        return (ops.index_add if accumulate else ops.index_copy)(x, index, y, dim=dim + 1)
    rows, values = _move_to_front(x, dim + 1, ops), _move_to_front(y, dim + 1, ops)
    return _move_from_front(
        ops.index_put(rows, values, make_range(x, size, 2), index, accumulate=accumulate), dim + 1, ops
    )


def _index_add(np: Library, x: Payload, index: Payload, y: Payload, *, dim: int) -> Payload:
    small = small_moves.put("add", "base", x, index, y, dim)
    return _index_add_kernel(np, copy_of(np, x), index, y, dim=dim) if small is None else small


def _index_add_kernel(np: Library, target: Payload, index: Payload, y: Payload, *, dim: int) -> Payload:
    if move_slices("add", target, index, y, dim, no_such_index("index_add", target.shape[dim], dim)):
        return target
    check_range(np, "index_add", index, target.shape[dim], dim)
    return add_slices(np, target, index, y, dim)


index_add = op(
    "index_add", "x index y",
    _index_add,
    settings={"dim": 0},
    vjp={"x": lambda g: g, "y": lambda g, index, dim, ops: ops.index_select(g, index, dim=dim)},
    jvp={
        "x": lambda t: t,
        "y": lambda t, x_shape, index, dim, ops: ops.index_select_backward(t, index, dim=dim, length=x_shape[dim]),
    },
    batch=lambda x, index, y, dim, batched, ops, size: _put_slices_batch(x, index, y, dim, True, batched, ops, size),
    write_kernel=_index_add_kernel,
    consumes=True,
    saved_names={"y": "source"},
    may_be_discrete=True,
    may_raise=True, memory_order="C", movement="scatter",
)  # fmt: skip


def _index_copy_kernel(np: Library, target: Payload, index: Payload, y: Payload, *, dim: int) -> Payload:
    if move_slices("write", target, index, y, dim, no_such_index("index_copy", target.shape[dim], dim)):
        return target
    check_range(np, "index_copy", index, target.shape[dim], dim)
    if np is not numpy and index.ndim:
        y = np.moveaxis(
            keep_last_values(
                np, (index,), (target.shape[dim], *y.shape[:dim], *y.shape[dim + 1 :]), np.moveaxis(y, dim, 0)
            ),
            0,
            dim,
        )
    target[(slice(None),) * dim + (index,)] = y
    return target


def _index_copy_y(g: Payload, x_shape: tuple[int, ...], index: Payload, dim: int, ops: Vocabulary) -> Payload:
    lost = ops.overwritten(index, shape=(x_shape[dim],))
    lost = ops.reshape(lost, shape=(*(1,) * dim, *lost.shape, *(1,) * (len(x_shape) - dim - 1)))
    return mask_overwritten(ops.index_select(g, index, dim=dim), lost, ops)


# If several slices have one position, the last one is kept, and only it gets a gradient.
index_copy = op(
    "index_copy", "x index y",
    lambda np, x, index, y, *, dim: _index_copy_kernel(np, copy_of(np, x), index, y, dim=dim),
    settings={"dim": 0},
    vjp={
        "x": lambda g, index, dim, ops: ops.index_fill_(g, index, 0.0, dim=dim),
        "y": _index_copy_y,
    },
    jvp={
        "x": lambda t, index, dim, ops: ops.index_fill(t, index, 0.0, dim=dim),
        "y": lambda t, x, index, dim, ops: ops.index_copy(ops.zeros_like(x), index, t, dim=dim),
    },
    batch=lambda x, index, y, dim, batched, ops, size: _put_slices_batch(x, index, y, dim, False, batched, ops, size),
    write_kernel=_index_copy_kernel,
    consumes=True,
    saved_names={"y": "source"}, kind="join", piecewise_linear=True,
    may_be_discrete=True,
    may_raise=True,
    moves_values=True, movement="scatter",
)  # fmt: skip


def _index_mask(np: Library, x: Payload, *, dim: int, ndim: int, length: int) -> Payload:
    lead = x.shape[:-1]
    out = zeros_on_same_device(np, x, (*lead, length), bool)
    np.put_along_axis(out, wrap_negative(np, x, length, dim), True, axis=-1)
    return out.reshape((*lead, *(1,) * dim, length, *(1,) * (ndim - dim - 1)))


# True for the slices along `dim` of a tensor of rank `ndim` that an index (its last dimension) selects.
index_mask = op(
    "index_mask", "x",
    _index_mask,
    settings={"dim": 0, "ndim": 1, "length": 0},
    vjp=NOT_DIFFERENTIABLE,
    batch="leading",
    may_raise=True, returns_bool=True,
)  # fmt: skip


def _index_fill_kernel(np: Library, target: Payload, index: Payload, y: Payload, *, dim: int) -> Payload:
    target[(slice(None),) * dim + (wrap_negative(np, index, target.shape[dim], dim),)] = y
    return target


def _select_filled(g: Payload, shape: tuple[int, ...], index: Payload, dim: int, ops: Vocabulary) -> Payload:
    """Return g at the filled slices. A slice that is selected twice is filled once."""
    return ops.where(ops.index_mask(index, dim=dim, ndim=len(shape), length=shape[dim]), g, 0.0)


def _index_fill_batch(
    x: Payload, index: Payload, y: Payload, dim: int, batched: tuple[bool, ...], ops: Vocabulary, size: int
) -> Payload:
    if not batched[0]:
        x = ops.expand(x, shape=(size, *x.shape))
    ndim = len(x.shape) - 1
    if batched[2]:
        y = ops.reshape(y, shape=(size, *(1,) * ndim))
    return ops.masked_fill(x, ops.index_mask(index, dim=dim, ndim=ndim, length=x.shape[dim + 1]), y)


# x with y (0-d, or a number) in the indexed slices.
index_fill = op(
    "index_fill", "x index y",
    lambda np, x, index, y, *, dim: _index_fill_kernel(np, np.array(x), index, y, dim=dim),
    settings={"dim": 0},
    vjp={
        "x": lambda g, index, dim, ops: ops.index_fill(g, index, 0.0, dim=dim),
        "y": lambda g, x_shape, index, dim, ops: _select_filled(g, x_shape, index, dim, ops),
    },
    jvp={
        "x": lambda t, index, dim, ops: ops.index_fill(t, index, 0.0, dim=dim),
        "y": lambda t, x_shape, index, dim, ops: _select_filled(t, x_shape, index, dim, ops),
    },
    batch=_index_fill_batch,
    write_kernel=_index_fill_kernel,
    may_raise=True,
    moves_values=True,
)  # fmt: skip


# ----- a part selected by a basic index -------------------------------------------------------------------------------


def _slice_scatter(np: Library, x: Payload, y: Payload, *, index: tuple[Any, ...]) -> Payload:
    if isinstance(x, MetaArray):  # A trace must not copy a buffer of n elements in each of n steps.
        return x.with_part(index, y)
    out = np.array(x)
    out[index] = y
    return out


# x with y (of the part's shape, or a number) in place of x[index], for a basic index.
slice_scatter = op(
    "slice_scatter", "x y",
    _slice_scatter,
    settings={"index": ()},
    vjp={
        "x": lambda g, index, ops: ops.slice_scatter(g, 0.0, index=index),
        "y": lambda g, index, ops: ops.getitem(g, index=index),
    },
    jvp={
        "x": lambda t, index, ops: ops.slice_scatter(t, 0.0, index=index),
        "y": lambda t, x_shape, index, ops: ops.embed(t, shape=x_shape, index=index),
    },
    batch=lambda x, y, index, ops: ops.slice_scatter(x, y, index=(slice(None), *index)),
    kind="join",
    may_be_discrete=True,
    moves_values=True, movement="overwrite", memory_order="C",
)  # fmt: skip


# ----- embedding ------------------------------------------------------------------------------------------------------


def _embedding(
    np: Library, x: Payload, index: Payload, *, padding_idx: int | None, scale_grad_by_freq: bool
) -> Payload:
    if np is not numpy:
        found = rows_later(x, index, no_such_index("embedding", x.shape[0], 0))
        if found is not None:
            return found
    check_range(np, "embedding", index, x.shape[0], 0, later=True)
    return x.take(index, axis=0)


def _embedding_vjp(
    g: Payload,
    x_shape: Any,
    x_dtype: Any,
    index: Payload,
    padding_idx: int | None,
    scale_grad_by_freq: bool,
    ops: Vocabulary,
) -> Payload:
    out = ops.index_add_zeros(g, index, shape=x_shape)
    if scale_grad_by_freq:
        count = ops.cast(ops.index_counts(index, length=x_shape[0]), dtype=x_dtype)
        out = out / ops.reshape(count, shape=(x_shape[0], *(1,) * (len(x_shape) - 1)))
    return out if padding_idx is None else ops.slice_scatter(out, 0.0, index=(padding_idx,))


def _embedding_batch(
    x: Payload,
    index: Payload,
    padding_idx: int | None,
    scale_grad_by_freq: bool,
    batched: tuple[bool, ...],
    ops: Vocabulary,
    size: int,
) -> Payload:
    options = {"padding_idx": padding_idx, "scale_grad_by_freq": scale_grad_by_freq}
    if not batched[1]:
        rows = ops.permute(x, dims=(1, 0, *range(2, len(x.shape))))
        out = ops.embedding(rows, index, **options)
        lead = len(index.shape)
        return ops.permute(out, dims=(lead, *range(lead), *range(lead + 1, len(out.shape))))
    if not batched[0] and not scale_grad_by_freq:
        return ops.embedding(x, index, **options)
    # Each sample has its own rows and counts. Scaling the gradients of the rows' uses is equivalent to scaling those of
    # the rows. So the value comes from a constant, and the gradient flows through the difference, which is zero.
    if not batched[0]:
        x = ops.expand(x, shape=(size, *x.shape))
    out = ops.index(x, make_range(x, size, len(index.shape)), index)
    scale = None
    if scale_grad_by_freq:
        rank = len(index.shape)
        counts = ops.index(ops.index_counts(index, length=x.shape[1], leading=1), make_range(x, size, rank), index)
        scale = 1.0 / ops.reshape(counts, shape=(*counts.shape, *(1,) * (len(out.shape) - rank)))
    constant = ops.detach(out)
    if scale is not None:
        out = constant + (out - constant) * scale
    if padding_idx is not None:
        padded = ops.reshape(index == padding_idx, shape=(*index.shape, *(1,) * (len(out.shape) - len(index.shape))))
        out = ops.where(padded, constant, out)
    return out


# Rows of x. The row `padding_idx` gets no gradient; with `scale_grad_by_freq` a row's gradient is the mean over its
# uses.
embedding = op(
    "embedding", "x index",
    _embedding,
    settings={"padding_idx": None, "scale_grad_by_freq": False},
    vjp={"x": _embedding_vjp},
    jvp={"x": lambda t, index, ops: ops.embedding(t, index)},
    batch=_embedding_batch,
    saved_names={"index": "indices"},
    halves=True,
    may_raise=True,
    moves_values=True, movement="gather", linear_in=["x"],
)  # fmt: skip


def _index_counts(np: Library, x: Payload, *, length: int, leading: int) -> Payload:
    lead = x.shape[:leading]
    out = zeros_on_same_device(np, x, (*lead, length), np.int64)
    flat = x.reshape(*lead, -1)
    places = [np.arange(n).reshape((n, *(1,) * (leading - d))) for d, n in enumerate(lead)]
    np.add.at(out, (*places, flat), 1)
    return np.maximum(out, 1)


# The number of occurrences of each number below `length`, at least 1, because it is a divisor.
index_counts = op(
    "index_counts", "x",
    _index_counts,
    settings={"length": 0, "leading": 0},
    vjp=NOT_DIFFERENTIABLE,
    batch=lambda x, length, leading, ops: ops.index_counts(x, length=length, leading=leading + 1),
    may_raise=True,
)  # fmt: skip
