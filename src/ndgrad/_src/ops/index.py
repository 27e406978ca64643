"""Indexing.

Every kind of index is expressed by two ops and their transposes: `getitem` (ints, slices, None, Ellipsis: a view) and
`index` (arrays that index the leading dimensions). `element` is a single element in NumPy's style. The public functions
are in ndgrad._src.tensor.functions.index.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy

from ndgrad._src.arrays import copies
from ndgrad._src.arrays.device_kernels import copy_array
from ndgrad._src.arrays.integers import as_int64
from ndgrad._src.arrays.library import library_of
from ndgrad._src.arrays.meta import MetaArray, zeros_on_same_device
from ndgrad._src.arrays.scatter import (
    add_arrays,
    find_overwritten_at,
    keep_last_values,
    move_at,
    read_at,
    read_kept_at,
    wrap_negative,
    zeros_and_add,
)
from ndgrad._src.foundations import registry
from ndgrad._src.ops.table import DATA_DEPENDENT, NOT_DIFFERENTIABLE, op

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload, Vocabulary

#: Masks of fewer elements are left to NumPy.
_LARGE = 1 << 14

# ----- basic indexing: a view -----------------------------------------------------------------------------------------


def _add_ellipsis(index: tuple[Any, ...]) -> tuple[Any, ...]:
    """Add an Ellipsis, with which NumPy returns a view even if every dimension has an int."""
    return index if Ellipsis in index else (*index, Ellipsis)


getitem = op(
    "getitem", "x",
    lambda np, x, *, index: x[_add_ellipsis(index)],
    settings={"index": ()},
    vjp={"x": lambda g, x_shape, index, ops: ops.embed(g, shape=x_shape, index=index)},
    jvp="linear",
    batch=lambda x, index, ops: ops.getitem(x, index=(slice(None), *index)),
    view=True,
    partial_view=True,
    backward_name="SliceBackward0",
    known_as="indexing", aten_name="slice", movement="rearrange",
)  # fmt: skip

# One element in NumPy's style: a separate number, unaffected by later writes to the array. `index` has an int per
# dimension.
element = op(
    "element", "x",
    lambda np, x, *, index: x[index] if np is numpy else x[index].copy(),
    settings={"index": ()},
    vjp={"x": lambda g, x_shape, index, ops: ops.embed(g, shape=x_shape, index=index)},
    jvp="linear",
    batch=lambda x, index, ops: ops.clone(ops.getitem(x, index=(slice(None), *index))),
    copies_part=getitem,
    backward_name="SelectBackward0",
    moves_values=True, movement="rearrange",
)  # fmt: skip


def _embed(np: Library, x: Payload, *, shape: tuple[int, ...], index: tuple[Any, ...]) -> Payload:
    out = zeros_on_same_device(np, x, shape, x.dtype)
    out[_add_ellipsis(index)] = x
    return out


# Zeros with x at the position of a basic index: the transpose of getitem.
embed = op(
    "embed", "x",
    _embed,
    settings={"shape": (), "index": ()},
    vjp={"x": lambda g, index, ops: ops.getitem(g, index=index)},
    jvp="linear",
    batch=lambda x, shape, index, ops: ops.embed(x, shape=(x.shape[0], *shape), index=(slice(None), *index)),
    backward_name="SliceBackwardBackward0",
    moves_values=True, movement="place", memory_order="C",
)  # fmt: skip


# ----- arrays of indices into the leading dimensions -----------------------------------------------------------------


def _index_batch(
    x: Payload, indices: tuple[Payload, ...], batched: tuple[bool, ...], ops: Vocabulary, size: int
) -> Payload:
    if not batched[0]:
        return ops.index(x, *_align_indices(indices, batched[1:], ops))
    if not any(batched[1:]):
        # The batch moves behind the indexed dimensions, and afterwards back to the front.
        k = len(indices)
        n = len(x.shape)
        out = ops.index(ops.permute(x, dims=(*range(1, k + 1), 0, *range(k + 1, n))), *indices)
        lead = max(len(i.shape) for i in indices)
        out = ops.permute(out, dims=(lead, *range(lead), *range(lead + 1, len(out.shape))))
        # A sample of the result also has NumPy's memory layout, so that its reshape is a view whenever NumPy's is.
        array = registry.recorder.innermost_array(out) if hasattr(out, "_array") else out
        strides = array.strides[array.ndim - len(out.shape) :]  # dimensions of an outer vmap come first
        return ops.clone_ordered(out, order=(0, *sorted(range(1, len(out.shape)), key=lambda d: -abs(strides[d]))))
    aligned = _align_indices(indices, batched[1:], ops)
    rank = max(len(i.shape) for i in aligned)
    return ops.index(x, make_range(x, size, rank), *aligned)


def make_range(like: Any, size: int, ndim: int) -> Any:
    """Return the numbers 0 ... size-1 along the first of `ndim` dimensions, as a constant on the device of `like`."""
    numbers = library_of(registry.recorder.innermost_array(like)).arange(size)
    return registry.recorder.lift(numbers.reshape((size, *(1,) * (ndim - 1))))


def _align_indices(indices: tuple[Payload, ...], batched: tuple[bool, ...], ops: Vocabulary) -> list[Any]:
    """Align index arrays behind the batch dimension, with the broadcasting of a single sample."""
    rank = max(len(i.shape) - b for i, b in zip(indices, batched, strict=True))
    out = []
    for i, b in zip(indices, batched, strict=True):
        missing = rank + 1 - len(i.shape)
        if b and missing > 0:
            i = ops.reshape(i, shape=(i.shape[0], *(1,) * missing, *i.shape[1:]))
        out.append(i)
    return out


def _check_bounds(np: Library, x: Payload, indices: tuple[Any, ...], later: bool) -> tuple[Any, ...]:
    """Return the index arrays after a bounds check, which libraries other than NumPy omit."""
    if np is numpy:
        return indices
    return tuple(wrap_negative(np, np.asarray(i), x.shape[d], d, later) for d, i in enumerate(indices))


def _index(np: Library, x: Payload, *indices: Any) -> Payload:
    found = None if np is numpy else read_at(np, x, indices)
    return np.asarray(x)[_check_bounds(np, x, indices, True)] if found is None else found


index = op(
    "index", "x indices",
    _index,
    vjp={"x": lambda g, x_shape, indices, ops: ops.index_add_zeros(g, *indices, shape=x_shape)},
    jvp={"x": lambda t, indices, ops: ops.index(t, *indices)},
    batch=_index_batch,
    variadic=True,
    adjoint_write=lambda g, indices: ("index_put", (g, *indices), {"accumulate": True}),
    known_as="indexing",
    may_raise=True,
    moves_values=True, movement="gather", linear_in=["x"],
)  # fmt: skip


def _rows_on_device(np: Library, x: Payload, index: Payload) -> Payload:
    found = read_at(np, x, (index,))
    return x.take(wrap_negative(np, index, x.shape[0], later=True), axis=0) if found is None else found


# One index array into the first dimension. This is the most common case of `index`, and faster because it is not
# variadic.
rows = op(
    "rows", "x index",
    lambda np, x, index: x.take(index, axis=0) if np is numpy else _rows_on_device(np, x, index),
    vjp={"x": lambda g, x_shape, index, ops: ops.index_add_zeros(g, index, shape=x_shape)},
    jvp={"x": lambda t, index, ops: ops.rows(t, index)},
    batch=lambda x, index, batched, ops, size: _index_batch(x, (index,), batched, ops, size),
    adjoint_write=lambda g, index: ("index_put", (g, index), {"accumulate": True}),
    backward_name="IndexBackward0",
    saved_names={"index": "indices"}, known_as="indexing", aten_name="index",
    may_raise=True,
    moves_values=True, movement="gather", linear_in=["x"],
)  # fmt: skip


def _index_add_zeros(np: Library, x: Payload, *indices: Any, shape: tuple[int, ...]) -> Payload:
    return zeros_and_add(np, shape, indices, x)


def _index_add_zeros_batch(
    x: Payload,
    indices: tuple[Payload, ...],
    shape: tuple[int, ...],
    batched: tuple[bool, ...],
    ops: Vocabulary,
    size: int,
) -> Payload:
    g = x
    if not batched[0]:
        g = ops.expand(g, shape=(size, *g.shape))
    if not any(batched[1:]):
        # Zeros of shape (indexed..., batch, rest) are filled, and the batch moves to the front.
        lead = max(len(i.shape) for i in indices)
        k = len(indices)
        inner = ops.permute(g, dims=(*range(1, lead + 1), 0, *range(lead + 1, len(g.shape))))
        out = ops.index_add_zeros(inner, *indices, shape=(*shape[:k], size, *shape[k:]))
        return ops.permute(out, dims=(k, *range(k), *range(k + 1, len(shape) + 1)))
    aligned = _align_indices(indices, batched[1:], ops)
    rank = max(len(i.shape) for i in aligned)
    return ops.index_add_zeros(g, make_range(g, size, rank), *aligned, shape=(size, *shape))


# Zeros to which x is added at the indexed positions, once per occurrence: the transpose of `index`.
index_add_zeros = op(
    "index_add_zeros", "x indices",
    _index_add_zeros,
    settings={"shape": ()},
    vjp={"x": lambda g, indices, ops: ops.index(g, *indices)},
    jvp={"x": lambda t, indices, shape, ops: ops.index_add_zeros(t, *indices, shape=shape)},
    batch=_index_add_zeros_batch,
    variadic=True,
    backward_name="IndexBackwardBackward0",
    may_raise=True, movement="scatter",
)  # fmt: skip


# ----- writing --------------------------------------------------------------------------------------------------------


def _copies_overlaps() -> bool:
    """True if NumPy copies values before it writes them into the array that contains them. NumPy 2.0 does not."""
    line = numpy.arange(3)
    line[[2, 0, 1]] = line
    return line.tolist() == [1, 2, 0]


_NUMPY_COPIES_OVERLAPS = _copies_overlaps()


def copy_of(np: Library, x: Payload) -> Payload:
    """Return a copy of an array, contiguous on a device."""
    if x.__class__ is numpy.ndarray and x.flags.c_contiguous:
        return copies.copy_in_order(x)
    return np.array(x) if np is numpy or isinstance(x, MetaArray) else copy_array(np, x)


def _index_put(np: Library, x: Payload, y: Payload, *indices: Any, accumulate: bool) -> Payload:
    out = copy_of(np, x)
    return _index_put_kernel(np, out, y, *indices, accumulate=accumulate)


def _index_put_kernel(np: Library, target: Payload, y: Payload, *indices: Any, accumulate: bool) -> Payload:
    if np is not numpy and move_at("add" if accumulate else "write", target, indices, y, checks=True):
        return target
    indices = _check_bounds(np, target, indices, False)
    if accumulate:
        return add_arrays(np, target, indices, y)
    if max(np.ndim(i) for i in indices) > 1:
        # Flattened, so that values are written in the order of the index and not of its memory.
        lead = np.broadcast_shapes(*(i.shape for i in indices))
        if np.ndim(y) > target.ndim - len(indices):
            rest = target.shape[len(indices) :]
            y = np.broadcast_to(y, (*lead, *rest)).reshape(math.prod(lead), *rest)
        indices = tuple(np.broadcast_to(i, lead).reshape(-1) for i in indices)
    if np is not numpy:
        y = keep_last_values(np, indices, target.shape, y)
    elif not _NUMPY_COPIES_OVERLAPS and numpy.may_share_memory(target, y):
        y = numpy.array(y)
    target[indices] = y
    return target


def _index_put_batch(
    x: Payload,
    y: Payload,
    indices: tuple[Payload, ...],
    accumulate: bool,
    ops: Vocabulary,
    size: int,
    batched: tuple[bool, ...],
) -> Payload:
    if not batched[0]:
        x = ops.expand(x, shape=(size, *x.shape))
    aligned = _align_indices(indices, batched[2:], ops)
    rank = max(len(i.shape) - b for i, b in zip(indices, batched[2:], strict=True))
    if batched[1]:
        missing = rank + len(x.shape) - len(indices) - len(y.shape)
        y = ops.reshape(y, shape=(size, *(1,) * missing, *y.shape[1:])) if missing > 0 else y
    return ops.index_put(x, y, make_range(x, size, rank + 1), *aligned, accumulate=accumulate)


def _overwritten(np: Library, *indices: Any, shape: tuple[int, ...]) -> Payload:
    return find_overwritten_at(np, indices, shape)


def _overwritten_batch(
    indices: tuple[Payload, ...], shape: tuple[int, ...], batched: tuple[bool, ...], ops: Vocabulary, size: int
) -> Payload:
    aligned = _align_indices(indices, batched, ops)
    rank = max(len(i.shape) - b for i, b in zip(indices, batched, strict=True))
    return ops.overwritten(make_range(aligned[0], size, rank + 1), *aligned, shape=(size, *shape))


# A mask of the elements of index arrays, into dimensions of sizes `shape`, whose position occurs again later.
overwritten_op = op(
    "overwritten", "indices",
    _overwritten,
    settings={"shape": ()},
    vjp=NOT_DIFFERENTIABLE,
    batch=_overwritten_batch,
    variadic=True,
    may_raise=True,
    moves_values=True, returns_bool=True,
)  # fmt: skip


def mask_overwritten(g: Payload, lost: Any, ops: Vocabulary) -> Payload:
    """Return the gradients of written values, with zeros for values that the same op overwrote."""
    if ops.raw and ops.np is numpy and not lost.any():  # on a device this would wait
        return g
    return ops.where(ops.reshape(lost, shape=(*lost.shape, *(1,) * (len(g.shape) - len(lost.shape)))), 0.0, g)


def _index_put_y(
    g: Payload, x_shape: tuple[int, ...], indices: tuple[Payload, ...], accumulate: bool, ops: Vocabulary
) -> Payload:
    kept = read_kept_at(ops.np, g, indices) if ops.raw and not accumulate else None
    if kept is not None:
        return kept
    out = ops.index(g, *indices)
    return out if accumulate else mask_overwritten(out, ops.overwritten(*indices, shape=x_shape[: len(indices)]), ops)


# x with y written (or added) at the indexed positions. If several y have one position, the last one is kept, and only
# it gets a gradient.
index_put = op(
    "index_put", "x y indices",
    _index_put,
    settings={"accumulate": False},
    vjp={
        "x": lambda g, indices, accumulate, ops: g if accumulate else ops.index_put_(g, 0.0, *indices),
        "y": _index_put_y,
    },
    jvp=lambda x, y, x_t, y_t, indices, accumulate, ops: ops.index_put(
        ops.zeros_like(x) if x_t is None else x_t, 0.0 if y_t is None else y_t, *indices, accumulate=accumulate
    ),
    batch=_index_put_batch,
    variadic=True,
    write_kernel=_index_put_kernel,
    consumes=True,
    kind="join", piecewise_linear=True,
    may_be_discrete=True,
    may_raise=True,
    moves_values=True, memory_order="C", movement="scatter",
)  # fmt: skip


def _masked_fill(np: Library, x: Payload, mask: Payload, y: Payload) -> Payload:
    value = np.asarray(y).astype(x.dtype)
    if np is numpy and mask.size == x.size >= _LARGE:
        found = copies.choose(mask, value, x)
        if found is not None:
            return found
    return np.where(mask, value, x)


def _masked_fill_kernel(np: Library, target: Payload, mask: Payload, y: Payload) -> Payload:
    if np is numpy and target.size >= _LARGE and mask.shape == target.shape and target.flags.writeable:
        value = numpy.asarray(y)
        if numpy.can_cast(value.dtype, target.dtype, "same_kind"):
            value = value.astype(target.dtype)
            if value.size == 1 and copies.choose(mask, value, target, target) is not None:
                return target
    np.copyto(target, y, where=np.broadcast_to(mask, target.shape), casting="same_kind")
    return target


# x where the mask is false, y (0-d) where it is true.
masked_fill = op(
    "masked_fill", "x mask y",
    _masked_fill,
    vjp={
        "x": lambda g, mask, ops: ops.masked_fill(g, mask, 0.0),
        "y": lambda g, mask, ops: ops.where(mask, g, 0.0),
    },
    jvp={
        "x": lambda t, mask, ops: ops.masked_fill(t, mask, 0.0),
        "y": lambda t, mask, ops: ops.where(mask, t, 0.0),
    },
    batch="elementwise",
    elementwise=True,
    write_kernel=_masked_fill_kernel,
    kind="choice", promotes="",
    may_be_discrete=True,
    moves_values=True, cost=1,
)  # fmt: skip

# The positions of the nonzero elements, one row each.
nonzero = op(
    "nonzero", "x",
    lambda np, x: as_int64(np.argwhere(x)),
    vjp=NOT_DIFFERENTIABLE,
    batch=DATA_DEPENDENT,
    moves_values=True,
)  # fmt: skip
