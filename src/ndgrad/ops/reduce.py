"""Reductions. `dim` is a tuple of non-negative ints."""

from __future__ import annotations

import math
from typing import Any

from ndgrad.ops.table import op


def spread(g: Any, x_shape: tuple[int, ...], dim: tuple[int, ...], keepdim: bool, ops: Any) -> Any:
    """Put a reduction's gradient back along the reduced dimensions, without copying."""
    if not keepdim:
        g = ops.reshape(g, shape=tuple(1 if i in dim else n for i, n in enumerate(x_shape)))
    return ops.expand(g, shape=x_shape)


sum = op(
    "sum", "x",
    lambda np, x, *, dim, keepdim: x.sum(axis=dim, keepdims=keepdim),
    settings={"dim": (), "keepdim": False},
    vjp={"x": lambda g, x_shape, dim, keepdim, ops: spread(g, x_shape, dim, keepdim, ops)},
    jvp="linear",
    batch="dims",
)  # fmt: skip


def _size(shape: tuple[int, ...], dim: tuple[int, ...]) -> int:
    return math.prod(shape[d] for d in dim)


mean = op(
    "mean", "x",
    lambda np, x, *, dim, keepdim: x.mean(axis=dim, keepdims=keepdim),
    settings={"dim": (), "keepdim": False},
    vjp={"x": lambda g, x_shape, dim, keepdim, ops: spread(g / _size(x_shape, dim), x_shape, dim, keepdim, ops)},
    jvp="linear",
    batch="dims",
)  # fmt: skip
