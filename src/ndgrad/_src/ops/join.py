"""Joining arrays: end to end, along a new dimension, or along the diagonal.

The number of arrays varies, so these ops take all of them as one argument. One rule computes all gradients and skips
the arrays that need none. The parts of the gradient are views of it.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy

from ndgrad._src.arrays.copies import concatenate
from ndgrad._src.ops.table import op

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload, Vocabulary


def _cat_vjp(
    g: Payload, xs_shape: tuple[tuple[int, ...], ...], dim: int, needs: tuple[bool, ...], ops: Vocabulary
) -> tuple[Any, ...]:
    stops = list(accumulate(shape[dim] for shape in xs_shape))
    return tuple(
        ops.slice(g, dim=dim, start=stop - shape[dim], stop=stop, step=1) if need else None
        for shape, stop, need in zip(xs_shape, stops, needs, strict=True)
    )


cat = op(
    "cat", "xs",
    lambda np, *xs, dim: concatenate(xs, dim) if np is numpy else np.concatenate(xs, axis=dim),
    settings={"dim": 0},
    vjp=_cat_vjp,
    jvp="linear",
    batch="dims",
    variadic=True,
    kind="join", promotes="xs",
    moves_values=True, movement="join", memory_order="C",
)  # fmt: skip



def _stack(np: Library, *xs: Any, dim: int) -> Payload:
    shape = xs[0].shape
    slice_of_one = (*shape[:dim], 1, *shape[dim:])
    parts = [x.reshape(slice_of_one) for x in xs]
    return concatenate(parts, dim) if np is numpy else np.concatenate(parts, axis=dim)


stack = op(
    "stack", "xs",
    _stack,
    settings={"dim": 0},
    vjp=lambda g, dim, needs, ops: tuple(
        ops.select(g, dim=dim, index=i) if need else None for i, need in enumerate(needs)
    ),
    jvp="linear",
    batch="dims",
    variadic=True,
    kind="join", promotes="xs",
    moves_values=True, movement="join", memory_order="C",
)  # fmt: skip


def _corners(shapes: Any) -> list[tuple[int, int]]:
    """Return the first row and column of each block of a block-diagonal matrix."""
    corners, row, column = [], 0, 0
    for shape in shapes:
        corners.append((row, column))
        row, column = row + shape[-2], column + shape[-1]
    return corners


def _block_diag(np: Library, *xs: Any) -> Payload:
    """Join blocks along the diagonal. They have two dimensions after equal batch dimensions."""
    rows, columns = sum(x.shape[-2] for x in xs), sum(x.shape[-1] for x in xs)
    out = np.zeros((*xs[0].shape[:-2], rows, columns), np.result_type(*xs))
    for x, (row, column) in zip(xs, _corners(x.shape for x in xs), strict=True):
        out[..., row : row + x.shape[-2], column : column + x.shape[-1]] = x
    return out


def _block_diag_vjp(
    g: Payload, xs_shape: tuple[tuple[int, ...], ...], needs: tuple[bool, ...], ops: Vocabulary
) -> tuple[Any, ...]:
    grads = []
    for shape, (row, column), need in zip(xs_shape, _corners(xs_shape), needs, strict=True):
        part = None
        if need:
            rows = ops.slice(g, dim=len(shape) - 2, start=row, stop=row + shape[-2], step=1)
            part = ops.slice(rows, dim=len(shape) - 1, start=column, stop=column + shape[-1], step=1)
        grads.append(part)
    return tuple(grads)


block_diag = op(
    "block_diag", "xs",
    _block_diag,
    vjp=_block_diag_vjp,
    jvp="linear",
    batch="leading",
    variadic=True,
    moves_values=True, core_dims=[2], movement="rearrange",
)  # fmt: skip
