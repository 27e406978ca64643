"""Triangles and diagonals of matrices under torch's names."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from ndgrad import dtypes
from ndgrad.api.arguments import as_dim
from ndgrad.api.shape import flatten
from ndgrad.arrays.placement import moved
from ndgrad.autograd.inplace import write, write_out
from ndgrad.ops import cast
from ndgrad.ops import triangle as ops

__all__ = ["tril", "triu", "tril_indices", "triu_indices", "diagonal", "diag", "diag_embed", "diagflat"]
METHODS = ("tril", "triu", "tril_", "triu_", "diagonal", "diag", "diag_embed", "diagflat")

# ----- triangles -------------------------------------------------------------------------------------------------------


def _check_matrix(name: str, t: Any) -> None:
    if t.ndim < 2:
        raise RuntimeError(
            f"{name}: input tensor must have at least 2 dimensions, and has {t.ndim}. Use diag() to make a matrix of a vector."
        )


def tril(input: Any, diagonal: int = 0, *, out: Any = None) -> Any:
    """A copy with zeros above the given diagonal of the last two dimensions."""
    _check_matrix("tril", input)
    settings = {"diagonal": operator.index(diagonal)}
    return ops.tril(input, **settings) if out is None else write_out(ops.tril, (input,), settings, out)


def triu(input: Any, diagonal: int = 0, *, out: Any = None) -> Any:
    """A copy with zeros below the given diagonal of the last two dimensions."""
    _check_matrix("triu", input)
    settings = {"diagonal": operator.index(diagonal)}
    return ops.triu(input, **settings) if out is None else write_out(ops.triu, (input,), settings, out)


def tril_(self: Any, diagonal: int = 0) -> Any:
    """tril() in place."""
    _check_matrix("tril_", self)
    return write(ops.tril, self, (), {"diagonal": operator.index(diagonal)})


def triu_(self: Any, diagonal: int = 0) -> Any:
    """triu() in place."""
    _check_matrix("triu_", self)
    return write(ops.triu, self, (), {"diagonal": operator.index(diagonal)})


def _indices(mask: Any, dtype: Any, device: Any) -> Any:
    from ndgrad.api.data import fresh, place

    return fresh(moved(np.stack(np.nonzero(mask)).astype(dtypes.as_numpy_dtype(dtype)), place(device)))


def _check_sizes(name: str, row: int, col: int) -> None:
    for what, n in (("row", row), ("col", col)):
        if n < 0:
            raise RuntimeError(f"{name}: {what} must be non-negative, got {n}. Give the sizes of a matrix.")


def tril_indices(row: int, col: int, offset: int = 0, *, dtype: Any = dtypes.int64, device: Any = None, layout: Any = None) -> Any:
    """Rows and columns of the elements on and below a diagonal of a row x col matrix."""
    _check_sizes("tril_indices", row, col)
    return _indices(np.tri(row, col, offset, dtype=bool), dtype, device)


def triu_indices(row: int, col: int, offset: int = 0, *, dtype: Any = dtypes.int64, device: Any = None, layout: Any = None) -> Any:
    """Rows and columns of the elements on and above a diagonal of a row x col matrix."""
    _check_sizes("triu_indices", row, col)
    return _indices(~np.tri(row, col, offset - 1, dtype=bool), dtype, device)


# ----- diagonals -------------------------------------------------------------------------------------------------------


def _two_dims(name: str, first: int, second: int, ndim: int) -> tuple[int, int]:
    dim0, dim1 = as_dim(first, ndim, "dim1"), as_dim(second, ndim, "dim2")
    if dim0 == dim1:
        raise RuntimeError(f"{name}: diagonal dimensions cannot be identical {first}, {second}. Name two dimensions.")
    return dim0, dim1


def diagonal(input: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """A view of a diagonal of two dimensions, as the last dimension."""
    first, second = _two_dims("diagonal", dim1, dim2, input.ndim)
    return ops.diagonal(input, offset=operator.index(offset), dim0=first, dim1=second)


def diag_embed(input: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """Matrices, in two new dimensions, with the last dimension of `input` on the given diagonal."""
    if not input.ndim:
        raise IndexError("diag_embed: a 0-d tensor has no dimension to lay on a diagonal. Use reshape(1) first.")
    first, second = _two_dims("diag_embed", dim1, dim2, input.ndim + 1)
    return ops.diag_embed(input, offset=operator.index(offset), dim0=first, dim1=second)


def diag(input: Any, diagonal: int = 0) -> Any:
    """The matrix with a vector on its diagonal, or a copy of the diagonal of a matrix.

    >>> import ndgrad
    >>> ndgrad.diag(ndgrad.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([1., 4.])
    """
    offset = operator.index(diagonal)
    if input.ndim == 1:
        return ops.diag_embed(input, offset=offset, dim0=0, dim1=1)
    if input.ndim == 2:
        return cast.clone(ops.diagonal(input, offset=offset, dim0=0, dim1=1))
    raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {input.ndim}D. Use diagonal() or diag_embed().")


def diagflat(input: Any, offset: int = 0) -> Any:
    """The matrix with all elements of `input` on its diagonal."""
    return diag(flatten(input), offset)
