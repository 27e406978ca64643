"""Ops that reorder or repeat elements: flip, roll, rotate, repeat.

NumPy could return views for some of these. They are copies here, as in torch, so that writing into a flipped array does
not change the original.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy

from ndgrad._src.arrays.copies import copy_in_order, copy_into, is_large_in_order
from ndgrad._src.arrays.integers import as_places
from ndgrad._src.ops.shape import pad_rank
from ndgrad._src.ops.table import op

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload, Vocabulary

# ----- another order --------------------------------------------------------------------------------------------------

flip = op(
    "flip", "x",
    lambda np, x, *, dims: copy_in_order(np.flip(x, dims)) if np is numpy else np.flip(x, dims).copy(),
    settings={"dims": ()},
    vjp={"x": lambda g, dims, ops: ops.flip(g, dims=dims)},
    jvp="linear",
    batch="dims",
    halves=True,
    moves_values=True, movement="rearrange",
)  # fmt: skip

rot90 = op(
    "rot90", "x",
    lambda np, x, *, k, dims: copy_in_order(np.rot90(x, k, dims)) if np is numpy else np.rot90(x, k, dims).copy(),
    settings={"k": 1, "dims": (0, 1)},
    vjp={"x": lambda g, k, dims, ops: ops.rot90(g, k=-k, dims=dims)},
    jvp="linear",
    batch="dims",
    halves=True,
    moves_values=True, moves_dims=True, movement="rearrange",
)  # fmt: skip


def _roll_batch(x: Payload, shifts: tuple[int, ...], dims: tuple[int, ...] | None, ops: Vocabulary) -> Payload:
    if dims is not None:
        return ops.roll(x, shifts=shifts, dims=tuple(d + 1 for d in dims))
    rows = ops.reshape(x, shape=(x.shape[0], math.prod(x.shape[1:])))
    return ops.reshape(ops.roll(rows, shifts=shifts, dims=(1,)), shape=tuple(x.shape))


def _roll(np: Library, x: Payload, *, shifts: tuple[int, ...], dims: tuple[int, ...] | None) -> Payload:
    """Copy two ranges along the last of the dimensions, after the others."""
    if not is_large_in_order(x) or dims is None or len(dims) != 1:
        return np.roll(x, shifts, dims)
    (dim,), shift = dims, shifts[0] % x.shape[dims[0]]
    out, lead = numpy.empty(x.shape, x.dtype), (slice(None),) * dim
    for to, at in ((slice(shift, None), slice(0, x.shape[dim] - shift)), (slice(0, shift), slice(-shift, None))):
        if shift or to.stop is None:
            copy_into(out[(*lead, to)], x[(*lead, at)])
    return out


roll = op(
    "roll", "x",
    _roll,
    settings={"shifts": (), "dims": None},  # if dims is None, one shift of the flattened array
    vjp={"x": lambda g, shifts, dims, ops: ops.roll(g, shifts=tuple(-s for s in shifts), dims=dims)},
    jvp="linear",
    batch=_roll_batch,
    halves=True,
    moves_values=True, memory_order="C", movement="rearrange",
)  # fmt: skip

# ----- another number -------------------------------------------------------------------------------------------------


def _repeat_vjp(g: Payload, x_shape: tuple[int, ...], repeats: tuple[int, ...], ops: Vocabulary) -> Payload:
    """Split each dimension of g, which holds `repeats` copies end to end, and sum over the copies."""
    sizes = (1,) * (len(repeats) - len(x_shape)) + tuple(x_shape)
    apart = tuple(n for pair in zip(repeats, sizes, strict=True) for n in pair)
    total = ops.sum(ops.reshape(g, shape=apart), dim=tuple(range(0, len(apart), 2)), keepdim=False)
    return ops.reshape(total, shape=x_shape)


def _repeat(np: Library, x: Payload, *, repeats: tuple[int, ...]) -> Payload:
    if not is_large_in_order(x) or len(repeats) < x.ndim:
        return np.tile(x, repeats)
    sizes = (1,) * (len(repeats) - x.ndim) + x.shape
    apart = tuple([n for pair in zip(repeats, sizes, strict=True) for n in pair])
    once = tuple([n for size in sizes for n in (1, size)])
    out = copy_in_order(numpy.broadcast_to(x.reshape(once), apart))
    return out.reshape([n * size for n, size in zip(repeats, sizes, strict=True)])


repeat = op(
    "repeat", "x",
    _repeat,
    settings={"repeats": ()},  # at least one per dimension
    vjp={"x": _repeat_vjp},
    jvp="linear",
    batch=lambda x, repeats, ops: ops.repeat(pad_rank(x, len(repeats) + 1, ops), repeats=(1, *repeats)),
    halves=True,
    moves_values=True, movement="rearrange",
)  # fmt: skip

# Every slice along `dim`, repeated by its number in `repeats`.
repeat_interleave = op(
    "repeat_interleave", "x",
    lambda np, x, *, repeats, dim: np.repeat(x, repeats, axis=dim),
    settings={"repeats": (), "dim": 0},
    vjp={"x": lambda g, repeats, dim, ops: ops.sum_interleaved(g, repeats=repeats, dim=dim)},
    jvp="linear",
    batch="dims",
    backward_name="IndexSelectBackward0",
    halves=True,
    moves_values=True, movement="rearrange",
)  # fmt: skip


def _sum_interleaved(np: Library, x: Payload, *, repeats: tuple[int, ...], dim: int) -> Payload:
    """Sum the copies of each slice. reduceat sums from each start to the next, so slices with zero repeats get no
    start.
    """
    if repeats and min(repeats) == max(repeats) > 0:
        apart = x.reshape((*x.shape[:dim], len(repeats), repeats[0], *x.shape[dim + 1 :]))
        return apart.sum(axis=dim + 1, dtype=x.dtype)
    counts = np.asarray(repeats, dtype=np.int64)
    present = counts > 0
    out = np.zeros((*x.shape[:dim], len(repeats), *x.shape[dim + 1 :]), x.dtype)
    starts = (np.cumsum(counts) - counts)[present]
    if len(starts):
        out[(*(slice(None),) * dim, present)] = np.add.reduceat(x, as_places(starts), axis=dim)
    return out


sum_interleaved = op(
    "sum_interleaved", "x",
    _sum_interleaved,
    settings={"repeats": (), "dim": 0},
    vjp={"x": lambda g, repeats, dim, ops: ops.repeat_interleave(g, repeats=repeats, dim=dim)},
    jvp="linear",
    batch="dims", adds_values=True,
)  # fmt: skip
