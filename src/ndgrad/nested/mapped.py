"""vmap over nested tensors: apply a function of one component to all of them.

Components of one length form a batch, and run at once by the ops' batching rules. So a function runs once per length.
Its results become components again, numbers a dense tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.arrays.jagged import Layout, RaggedSize, ragged_size
from ndgrad._src.core.variable import Variable
from ndgrad._src.foundations.pytree import tree_flatten, tree_unflatten
from ndgrad._src.ops.vocabulary import tensor_ops as ops
from ndgrad.nested.tensor import build, described, group_of_rows, groups_of, in_order, is_nested, rows_first, take_rows

if TYPE_CHECKING:
    from ndgrad._typing import Tensor


def map_components(
    run: Callable[[list[Any], int], Any], flat: list[Any], dims: list[int | None], out_dims: int
) -> Tensor | tuple[Tensor, ...]:
    """Return the results of `run(arguments, count)`, which computes for a batch of `count` samples, for all
    components.
    """
    if out_dims != 0:
        raise NotImplementedError(
            f"vmap: out_dims is {out_dims!r}, and over nested tensors the batch goes in front, as in them: out_dims=0. "
            "[nd-nested]"
        )
    operands: list[Any] = [
        rows_first(t) if is_nested(t) and d is not None else None for t, d in zip(flat, dims, strict=True)
    ]
    sizes: list[RaggedSize] = []
    for t, d, operand in zip(flat, dims, operands, strict=True):
        if operand is None:
            continue
        if d != 0:
            raise ValueError(
                f"vmap: in_dims is {d} for {described(t)}, whose components lie along dimension 0. [nd-nested]"
            )
        if operand[0].size not in sizes:
            sizes.append(operand[0].size)
    numbers, results = [], []
    for which, rows, lengths in groups_of(sizes):
        piece = []
        for t, d, operand in zip(flat, dims, operands, strict=True):
            if operand is not None:
                at = sizes.index(operand[0].size)
                piece.append(group_of_rows(operand, rows[at], lengths[at], which.size))
            else:
                piece.append(t if d is None else take_rows(t, which, d))
        numbers.append(which)
        results.append(tree_flatten(run(piece, which.size)))
    if not results:
        raise RuntimeError(
            "vmap: a nested tensor without components was given, and a function without samples has no result. "
            "[nd-nested]"
        )
    leaves = zip(*(found for found, _ in results), strict=True)
    return tree_unflatten([_together(list(parts), numbers) for parts in leaves], results[0][1])


def _together(parts: list[Any], numbers: list[Any]) -> Tensor:
    if not all(isinstance(p, Variable) for p in parts) or any(map(is_nested, parts)):
        raise ValueError("vmap: a function over nested tensors must only return dense tensors. [nd-nested]")
    if len(parts[0].shape) == 1:
        return in_order(parts, numbers)
    if len({tuple(p.shape[2:]) for p in parts}) > 1 or len({len(p.shape) for p in parts}) > 1:
        shapes = ", ".join(str(tuple(p.shape[1:])) for p in parts)
        raise RuntimeError(
            f"vmap: the results for components of different lengths have shapes {shapes}, which differ in more than "
            "the first size. A nested tensor has one ragged dimension, the first of its components. [nd-nested]"
        )
    lengths = np.empty(sum(w.size for w in numbers), np.int64)
    for part, which in zip(parts, numbers, strict=True):
        lengths[which] = part.shape[1]
    size = ragged_size(lengths)
    flat, rows = [], []
    for part, which in zip(parts, numbers, strict=True):
        shape = tuple(part.shape)
        flat.append(ops.reshape(part, shape=(shape[0] * shape[1], *shape[2:])))
        rows.append((size.offsets[which][:, None] + np.arange(shape[1])).reshape(-1))
    return build(in_order(flat, rows), Layout(size))
