"""Lookups of a few rows or elements of a large dense tensor, with sparse gradients: an entry per element read.

Inside function transforms and forward mode these are the ordinary ops, and gradients are dense: levels carry only
arrays. The same holds on devices other than the CPU, which have no sparse tensors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ndgrad._src.arrays.sparse import Coo
from ndgrad._src.core.modes import process, thread
from ndgrad._src.custom_functions.function import Function
from ndgrad._src.ops.vocabulary import tensor_ops as ops
from ndgrad._src.tensor.structured import constant, run_conversion
from ndgrad.sparse.tensor import build

if TYPE_CHECKING:
    from ndgrad._src.custom_functions.function_context import FunctionCtx
    from ndgrad._typing import Tensor
    from ndgrad.sparse.tensor import SparseTensor


class EmbeddingSparse(Function):
    """Lookup of rows of a table."""

    @staticmethod
    def forward(ctx: FunctionCtx, weight: Tensor, index: Tensor, padding_idx: int | None) -> Tensor:
        numbers = np.asarray(index._array).reshape(-1)
        ctx.shape, ctx.numbers = tuple(weight.shape), numbers.astype(np.int64)
        ctx.kept = None if padding_idx is None else np.flatnonzero(numbers != padding_idx)
        return ops.embedding(weight, index)

    @staticmethod
    def backward(ctx: FunctionCtx, g: Tensor) -> tuple[SparseTensor, None, None]:
        rows, numbers = ops.reshape(g, shape=(ctx.numbers.size, *ctx.shape[1:])), ctx.numbers
        if ctx.kept is not None:
            rows, numbers = ops.index_select(rows, constant(ctx.kept), dim=0), numbers[ctx.kept]
        return build(rows, Coo(numbers[None], ctx.shape)), None, None


class GatherSparse(Function):
    """Lookup of elements along a dimension."""

    @staticmethod
    def forward(ctx: FunctionCtx, x: Tensor, index: Tensor, dim: int) -> Tensor:
        numbers = np.asarray(index._array)
        places = np.indices(numbers.shape).reshape(numbers.ndim, -1)
        places[dim] = numbers.reshape(-1)
        ctx.structure = Coo(places.astype(np.int64), tuple(x.shape))
        return ops.gather(x, index, dim=dim)

    @staticmethod
    def backward(ctx: FunctionCtx, g: Tensor) -> tuple[SparseTensor, None, None]:
        return build(g, ctx.structure), None, None


def _is_dense_there(t: Tensor) -> bool:
    """True if the gradient of a lookup is dense although a sparse one was requested."""
    return bool(thread.levels or process.open) or t.device.type != "cpu"


def embedding(weight: Tensor, index: Tensor, padding_idx: int | None) -> Tensor:
    """Return rows of a table, whose gradient has an entry per row read, except for the padding."""
    if _is_dense_there(weight):
        return ops.embedding(weight, index, padding_idx=padding_idx)
    return run_conversion(EmbeddingSparse, weight, index, padding_idx)


def gather(x: Tensor, index: Tensor, dim: int) -> Tensor:
    """Return elements along a dimension, whose gradient has an entry per element read."""
    if _is_dense_there(x):
        return ops.gather(x, index, dim=dim)
    return run_conversion(GatherSparse, x, index, dim)
