"""Reads of a few rows or elements of a large dense tensor whose gradients are sparse: an entry per element read.

Inside function transforms and forward mode these are the ordinary ops, and gradients dense: a sparse one would have to
be carried through levels, whose payloads are arrays. On other devices than the CPU, where there are no sparse tensors,
likewise.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ndgrad._src.arrays.sparse import Coo
from ndgrad._src.core.modes import process, thread
from ndgrad._src.custom_functions.function import Function
from ndgrad._src.ops.vocabulary import tensor_ops as ops
from ndgrad.sparse.tensor import applied, build, constant


class EmbeddingSparse(Function):
    """Rows of a table."""

    @staticmethod
    def forward(ctx: Any, weight: Any, index: Any, padding_idx: int | None) -> Any:
        numbers = np.asarray(index._array).reshape(-1)
        ctx.shape, ctx.numbers = tuple(weight.shape), numbers.astype(np.int64)
        ctx.kept = None if padding_idx is None else np.flatnonzero(numbers != padding_idx)
        return ops.embedding(weight, index)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        rows, numbers = ops.reshape(g, shape=(ctx.numbers.size, *ctx.shape[1:])), ctx.numbers
        if ctx.kept is not None:
            rows, numbers = ops.index_select(rows, constant(ctx.kept), dim=0), numbers[ctx.kept]
        return build(rows, Coo(numbers[None], ctx.shape)), None, None


class GatherSparse(Function):
    """Elements along a dimension."""

    @staticmethod
    def forward(ctx: Any, x: Any, index: Any, dim: int) -> Any:
        numbers = np.asarray(index._array)
        places = np.indices(numbers.shape).reshape(numbers.ndim, -1)
        places[dim] = numbers.reshape(-1)
        ctx.structure = Coo(places.astype(np.int64), tuple(x.shape))
        return ops.gather(x, index, dim=dim)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return build(g, ctx.structure), None, None


def _is_dense_there(t: Any) -> bool:
    """Whether the gradient of a lookup is dense though a sparse one was asked for."""
    return bool(thread.levels or process.open) or t.device.type != "cpu"


def embedding(weight: Any, index: Any, padding_idx: int | None) -> Any:
    """Rows of a table, whose gradient has an entry per row that was read, but for the padding."""
    if _is_dense_there(weight):
        return ops.embedding(weight, index, padding_idx=padding_idx)
    return applied(EmbeddingSparse, weight, index, padding_idx)


def gather(x: Any, index: Any, dim: int) -> Any:
    """Elements along a dimension, whose gradient has an entry per element that was read."""
    if _is_dense_there(x):
        return ops.gather(x, index, dim=dim)
    return applied(GatherSparse, x, index, dim)
