"""Joining several tensors, under torch's names: cat, stack and variants, meshgrid, block_diag."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.arrays.dtypes import get_default_dtype
from ndgrad._src.arrays.library import is_raw_array
from ndgrad._src.core.out_argument import write_out
from ndgrad._src.core.variable import Variable, np_dtype, shape_of, wrap, wrap_like
from ndgrad._src.ops import index as index_ops
from ndgrad._src.ops import join as ops
from ndgrad._src.ops import shape as shape_ops
from ndgrad._src.tensor.arguments import as_dim, both_worlds, warn_user
from ndgrad._src.tensor.functions.shape import _tensors, atleast_1d, atleast_2d, atleast_3d, reshape
from ndgrad._src.tensor.tensor_class import Tensor

if TYPE_CHECKING:
    from ndgrad._src.ops.table import Op
    from ndgrad._typing import Tensor, Tensors

__all__ = [
    "block_diag",
    "cartesian_prod",
    "cat",
    "column_stack",
    "combinations",
    "dstack",
    "hstack",
    "meshgrid",
    "stack",
    "vstack",
]  # fmt: skip
ALIASES = {"concat": "cat", "concatenate": "cat", "row_stack": "vstack"}


def _check_tensors(name: str, tensors: Tensors, error: type[Exception] = RuntimeError) -> tuple[Tensor, ...]:
    """Check the tensors to join and return them as a tuple."""
    if isinstance(tensors, Variable) or not isinstance(tensors, Sequence):
        raise TypeError(
            f"{name}(): argument 'tensors' (position 1) must be tuple of Tensors, not {type(tensors).__name__}. "
            "Put them in a list; unbind() makes one of one tensor. [nd-type]"
        )
    if not tensors:
        raise error(
            f"{name}(): expected a non-empty list of Tensors, but got none. "
            "There is no shape or dtype to give the result. [nd-too-few]"
        )
    for position, x in enumerate(tensors):
        if x.__class__ is not Tensor and not isinstance(x, Variable) and not is_raw_array(x):
            raise TypeError(
                f"{name}(): expected Tensor as element {position} in argument 0, but got {type(x).__name__}. "
                "Wrap it in ndgrad.tensor(...). [nd-type]"
            )
    return tuple(tensors)


def _shape(x: Tensor) -> tuple[int, ...]:
    return shape_of(x) if isinstance(x, Variable) else tuple(x.shape)


def _run(op: Op, tensors: tuple[Tensor, ...], settings: dict[str, Any], out: Tensor | None) -> Tensor:
    return op.eager(*tensors, **settings) if out is None else write_out(op, tensors, settings, out)


@both_worlds
def cat(tensors: Tensors, dim: int = 0, *, out: Tensor | None = None) -> Tensor:
    """Concatenate tensors along `dim`; their other sizes must agree.

    Args:
        tensors: sequence of tensors. Vectors without elements are left out.
        dim: dimension along which they are joined.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.cat([ndgrad.tensor([1.0]), ndgrad.tensor([2.0, 3.0])])
    tensor([1., 2., 3.])
    """
    parts = _check_tensors("cat", tensors, ValueError)
    shapes = [_shape(x) for x in parts]
    if shapes.count(shapes[0]) != len(shapes):
        # torch accepts empty vectors among tensors of any shape.
        parts = tuple(x for x, shape in zip(parts, shapes, strict=True) if shape != (0,))
        shapes = [shape for shape in shapes if shape != (0,)]
    first = shapes[0]
    number = as_dim(dim, len(first))
    for position, shape in enumerate(shapes):
        if shape != first or not shape:
            _check_end_to_end(position, shape, first, number)
    return _run(ops.cat, parts, {"dim": number}, out)


def _check_end_to_end(position: int, shape: tuple[int, ...], first: tuple[int, ...], dim: int) -> None:
    if not shape or not first:
        raise RuntimeError(
            f"cat: zero-dimensional tensor (at position {position}) cannot be concatenated. Use stack(). [nd-ndim]"
        )
    if len(shape) != len(first):
        raise RuntimeError(
            f"cat: Tensors must have same number of dimensions: got {len(first)} and {len(shape)} (shapes {first} and "
            f"{shape}). Use unsqueeze() or reshape() first. [nd-ndim]"
        )
    other = next((d for d, (m, n) in enumerate(zip(first, shape, strict=True)) if m != n and d != dim), None)
    if other is not None:
        raise RuntimeError(
            f"Sizes of tensors must match except in dimension {dim}. Expected size {first[other]} but got size "
            f"{shape[other]} for tensor number {position} in the list: cat of {list(first)} and {list(shape)}. Bring "
            "them to one size first. [nd-shape]"
        )


@both_worlds
def stack(tensors: Tensors, dim: int = 0, *, out: Tensor | None = None) -> Tensor:
    """Join tensors of one shape along a new dimension.

    Args:
        tensors: sequence of tensors of one shape.
        dim: position of the new dimension in the result.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.stack([ndgrad.tensor([1, 2]), ndgrad.tensor([3, 4])], dim=1)
    tensor([[1, 3],
            [2, 4]])
    """
    parts = _check_tensors("stack", tensors)
    first = _shape(parts[0])
    for position, x in enumerate(parts):
        if _shape(x) != first:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(first)} at entry 0 and {list(x.shape)} at "
                f"entry {position}. Broadcast or pad them first. [nd-shape]"
            )
    return _run(ops.stack, parts, {"dim": as_dim(dim, len(first) + 1)}, out)


def hstack(tensors: Tensors, *, out: Tensor | None = None) -> Tensor:
    """Join tensors along the columns, or end to end for vectors, as `cat` does.

    Args:
        tensors: sequence of tensors.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.hstack([ndgrad.tensor([1, 2]), ndgrad.tensor([3])])
    tensor([1, 2, 3])
    """
    parts = atleast_1d(_check_tensors("hstack", tensors))
    return cat(parts, 0 if parts[0].ndim == 1 else 1, out=out)


def vstack(tensors: Tensors, *, out: Tensor | None = None) -> Tensor:
    """Join tensors along the rows, as `cat` does. A vector is one row.

    Args:
        tensors: sequence of tensors.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.vstack([ndgrad.tensor([1, 2]), ndgrad.tensor([3, 4])])
    tensor([[1, 2],
            [3, 4]])
    """
    return cat(atleast_2d(_check_tensors("vstack", tensors)), 0, out=out)


def dstack(tensors: Tensors, *, out: Tensor | None = None) -> Tensor:
    """Join tensors along the third dimension, as `cat` does.

    Args:
        tensors: sequence of tensors. Missing dimensions are added as in `atleast_3d`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.dstack([ndgrad.tensor([1, 2]), ndgrad.tensor([3, 4])]).shape
    ndgrad.Size([1, 2, 2])
    """
    return cat(atleast_3d(_check_tensors("dstack", tensors)), 2, out=out)


def column_stack(tensors: Tensors, *, out: Tensor | None = None) -> Tensor:
    """Join tensors along the columns, as `hstack` does. A vector is one column.

    Args:
        tensors: sequence of tensors.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.column_stack([ndgrad.tensor([1, 2]), ndgrad.tensor([3, 4])])
    tensor([[1, 3],
            [2, 4]])
    """
    parts = _check_tensors("column_stack", tensors)
    return hstack(
        [shape_ops.reshape(x, shape=(int(np.prod(tuple(x.shape))), 1)) if x.ndim <= 1 else x for x in parts], out=out
    )


def block_diag(*tensors: Tensor) -> Tensor:
    """Return a matrix with the tensors as blocks down its diagonal; vectors are rows.

    Args:
        *tensors: tensors of at most two dimensions.

    >>> import ndgrad
    >>> ndgrad.block_diag(ndgrad.tensor([1, 2]), ndgrad.tensor(3))
    tensor([[1, 2, 0],
            [0, 0, 3]])
    """
    if not tensors:
        return wrap(Tensor, np.zeros((1, 0), get_default_dtype().numpy))
    for position, x in enumerate(tensors):
        if len(x.shape) > 2:
            raise RuntimeError(
                f"block_diag: Input tensors must have 2 or fewer dimensions. Input {position} has {len(x.shape)} "
                "dimensions. Reshape it to a matrix. [nd-ndim]"
            )
    return ops.block_diag(*(atleast_2d(x) for x in tensors))


# ----- grids ----------------------------------------------------------------------------------------------------------


def meshgrid(*tensors: Tensor | Tensors, indexing: str | None = None) -> tuple[Tensor, ...]:
    """Return each vector as a coordinate on the grid that they span: views, expanded along the other dimensions.

    Args:
        *tensors: vectors of one dtype, one by one or in one sequence.
        indexing: `"ij"` if the first vector runs along the rows, `"xy"` if it runs along the columns. The default is
            `"ij"`, with a warning.

    Returns:
        A tuple with a tensor for each vector.

    >>> import ndgrad
    >>> x, y = ndgrad.meshgrid(ndgrad.tensor([1.0, 2.0]), ndgrad.tensor([3.0, 4.0]), indexing="ij")
    >>> y
    tensor([[3., 4.],
            [3., 4.]])
    """
    vectors = _tensors(tensors)
    if not vectors:
        raise RuntimeError("meshgrid expects a non-empty TensorList. Give at least one vector. [nd-too-few]")
    if indexing is None:
        warn_user("meshgrid: indexing was not given and is 'ij', as in torch; NumPy's is 'xy'. Say which.")
        indexing = "ij"
    if indexing not in ("ij", "xy"):
        raise RuntimeError(f'meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}. [nd-option]')
    for x in vectors:
        if x.ndim > 1:
            raise RuntimeError(
                f"meshgrid: Expected 0D or 1D tensor in the tensor list but got shape {tuple(x.shape)}. "
                "Flatten it first. [nd-ndim]"
            )
        if np_dtype(x) != np_dtype(vectors[0]):
            raise RuntimeError(
                f"meshgrid expects all tensors to have the same dtype, but got {np_dtype(vectors[0])} and "
                f"{np_dtype(x)}. Convert one. [nd-dtype-mismatch]"
            )
    order = list(range(len(vectors)))
    if indexing == "xy" and len(vectors) > 1:
        order[:2] = [1, 0]
    lengths = [int(np.prod(tuple(x.shape))) for x in vectors]
    shape = tuple(lengths[i] for i in order)
    return tuple(
        shape_ops.expand(shape_ops.reshape(x, shape=tuple(lengths[i] if j == i else 1 for j in order)), shape=shape)
        for i, x in enumerate(vectors)
    )


def cartesian_prod(*tensors: Tensor | Tensors) -> Tensor:
    """Return all tuples with one element of each vector, one per row.

    Args:
        *tensors: vectors, one by one or in one sequence.

    >>> import ndgrad
    >>> ndgrad.cartesian_prod(ndgrad.tensor([1, 2]), ndgrad.tensor([3, 4]))
    tensor([[1, 3],
            [1, 4],
            [2, 3],
            [2, 4]])
    """
    vectors = _tensors(tensors)
    for x in vectors:
        if x.ndim != 1:
            raise RuntimeError(
                f"cartesian_prod: Expect a 1D vector, but got shape {tuple(x.shape)}. Flatten it first. [nd-ndim]"
            )
    if len(vectors) == 1:
        return vectors[0]
    return stack([reshape(x, -1) for x in meshgrid(*vectors, indexing="ij")], 1)


def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """Return all choices of r elements of a vector, in order, one per row; with replacement, elements may repeat.

    Args:
        input: vector.
        r: number of elements of a choice.
        with_replacement: whether an element may be chosen several times.

    >>> import ndgrad
    >>> ndgrad.combinations(ndgrad.tensor([1, 2, 3]))
    tensor([[1, 2],
            [1, 3],
            [2, 3]])
    """
    if input.ndim != 1:
        raise RuntimeError(
            f"combinations: Expect a 1D vector, but got shape {list(input.shape)}. Flatten it first. [nd-ndim]"
        )
    if r < 0:
        raise RuntimeError(
            f"combinations: Expect a non-negative number, but got {r}. Give the number of elements to choose. "
            "[nd-range]"
        )
    if r == 0:
        return index_ops.getitem(input, index=(slice(0, 0),))
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    places = np.array(list(choose(range(input.shape[0]), r)), np.int64).reshape(-1, r)
    return index_ops.index(input, wrap_like(input, places))
