"""Triangles and diagonals of matrices under torch's names."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.core.inplace import write
from ndgrad._src.core.out_argument import write_out
from ndgrad._src.ops import cast
from ndgrad._src.ops import triangle as ops
from ndgrad._src.tensor.arguments import as_dim
from ndgrad._src.tensor.functions.creation import Options
from ndgrad._src.tensor.functions.reduce import deliver
from ndgrad._src.tensor.functions.shape import flatten

if TYPE_CHECKING:

    from ndgrad._typing import Device, Dtype, Layout, Tensor

__all__ = ["tril", "triu", "tril_indices", "triu_indices", "diagonal", "diag", "diag_embed", "diagflat"]
METHODS = ("tril", "triu", "tril_", "triu_", "diagonal", "diag", "diag_embed", "diagflat")

# ----- triangles ------------------------------------------------------------------------------------------------------


def _check_matrix(name: str, t: Tensor) -> None:
    if t.ndim < 2:
        raise RuntimeError(
            f"{name}: input tensor must have at least 2 dimensions, but has {t.ndim}. "
            "Use diag() to make a matrix of a vector. [nd-ndim]"
        )


def tril(input: Tensor, diagonal: int = 0, *, out: Tensor | None = None) -> Tensor:
    """A copy with zeros above the given diagonal of the last two dimensions.

    Args:
        input: matrices of shape (..., m, n).
        diagonal: number of the last diagonal that is kept: 0 for the main one, positive above it, negative below it.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.tril(ndgrad.ones(2, 3))
    tensor([[1., 0., 0.],
            [1., 1., 0.]])
    """
    _check_matrix("tril", input)
    settings = {"diagonal": operator.index(diagonal)}
    return ops.tril(input, **settings) if out is None else write_out(ops.tril, (input,), settings, out)


def triu(input: Tensor, diagonal: int = 0, *, out: Tensor | None = None) -> Tensor:
    """A copy with zeros below the given diagonal of the last two dimensions.

    Args:
        input: matrices of shape (..., m, n).
        diagonal: number of the first diagonal that is kept: 0 for the main one, positive above it, negative below it.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.triu(ndgrad.ones(2, 3), diagonal=1)
    tensor([[0., 1., 1.],
            [0., 0., 1.]])
    """
    _check_matrix("triu", input)
    settings = {"diagonal": operator.index(diagonal)}
    return ops.triu(input, **settings) if out is None else write_out(ops.triu, (input,), settings, out)


def tril_(self: Tensor, diagonal: int = 0) -> Tensor:
    """In-place version of `tril`.

    Args:
        self: tensor to change, of shape (..., m, n).
        diagonal: number of the last diagonal that is kept: 0 for the main one, positive above it, negative below it.

    >>> import ndgrad
    >>> ndgrad.ones(2, 2).tril_()
    tensor([[1., 0.],
            [1., 1.]])
    """
    _check_matrix("tril_", self)
    return write(ops.tril, self, (), {"diagonal": operator.index(diagonal)})


def triu_(self: Tensor, diagonal: int = 0) -> Tensor:
    """In-place version of `triu`.

    Args:
        self: tensor to change, of shape (..., m, n).
        diagonal: number of the first diagonal that is kept: 0 for the main one, positive above it, negative below it.

    >>> import ndgrad
    >>> ndgrad.ones(2, 2).triu_()
    tensor([[1., 1.],
            [0., 1.]])
    """
    _check_matrix("triu_", self)
    return write(ops.triu, self, (), {"diagonal": operator.index(diagonal)})


def _triangle(name: str, row: int, col: int, offset: int, options: dict[str, Any]) -> Tensor:
    """Return the indices of one triangle of a row x col matrix."""
    for what, n in (("row", row), ("col", col)):
        if n < 0:
            raise RuntimeError(f"{name}: {what} must be non-negative, got {n}. Give the sizes of a matrix. [nd-range]")
    given = Options(name, options)
    inside = (
        np.tri(row, col, offset, dtype=bool) if name == "tril_indices" else ~np.tri(row, col, offset - 1, dtype=bool)
    )
    return given.tensor(name, np.stack(np.nonzero(inside)).astype(given.dtype or np.int64))


def tril_indices(
    row: int, col: int, offset: int = 0, *, dtype: Dtype = None, device: Device = None, layout: Layout = None
) -> Tensor:
    """Rows and columns of the elements on and below a diagonal of a row x col matrix, row after row.

    Args:
        row: number of rows.
        col: number of columns.
        offset: number of the diagonal: 0 for the main one, positive above it, negative below it.
        dtype: dtype of the result. The default is int64.
        device: device of the result.
        layout: None or `ndgrad.strided`.

    Returns:
        A tensor of shape (2, number of elements).

    >>> import ndgrad
    >>> ndgrad.tril_indices(2, 2)
    tensor([[0, 1, 1],
            [0, 0, 1]])
    """
    return _triangle("tril_indices", row, col, offset, {"dtype": dtype, "device": device, "layout": layout})


def triu_indices(
    row: int, col: int, offset: int = 0, *, dtype: Dtype = None, device: Device = None, layout: Layout = None
) -> Tensor:
    """Rows and columns of the elements on and above a diagonal of a row x col matrix, row after row.

    Args:
        row: number of rows.
        col: number of columns.
        offset: number of the diagonal: 0 for the main one, positive above it, negative below it.
        dtype: dtype of the result. The default is int64.
        device: device of the result.
        layout: None or `ndgrad.strided`.

    Returns:
        A tensor of shape (2, number of elements).

    >>> import ndgrad
    >>> ndgrad.triu_indices(2, 2)
    tensor([[0, 0, 1],
            [0, 1, 1]])
    """
    return _triangle("triu_indices", row, col, offset, {"dtype": dtype, "device": device, "layout": layout})


# ----- diagonals ------------------------------------------------------------------------------------------------------


def _check_dims(name: str, first: int, second: int, ndim: int) -> tuple[int, int]:
    dim0, dim1 = as_dim(first, ndim, "dim1"), as_dim(second, ndim, "dim2")
    if dim0 == dim1:
        raise RuntimeError(
            f"{name}: diagonal dimensions cannot be identical {first}, {second}. Name two dimensions. [nd-dim]"
        )
    return dim0, dim1


def diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """A view of a diagonal of two dimensions, which becomes the last dimension.

    Args:
        input: tensor of at least two dimensions.
        offset: number of the diagonal: 0 for the main one, positive above it, negative below it.
        dim1: dimension of the rows.
        dim2: dimension of the columns.

    >>> import ndgrad
    >>> ndgrad.diagonal(ndgrad.tensor([[1.0, 2.0], [3.0, 4.0]]), offset=1)
    tensor([2.])
    """
    first, second = _check_dims("diagonal", dim1, dim2, input.ndim)
    return ops.diagonal(input, offset=operator.index(offset), dim0=first, dim1=second)


def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Matrices, in two new dimensions, with the last dimension of `input` on the given diagonal.

    Args:
        input: tensor of at least one dimension.
        offset: number of the diagonal: 0 for the main one, positive above it, negative below it.
        dim1: dimension of the rows in the result.
        dim2: dimension of the columns in the result.

    >>> import ndgrad
    >>> ndgrad.diag_embed(ndgrad.tensor([1.0, 2.0]))
    tensor([[1., 0.],
            [0., 2.]])
    """
    if not input.ndim:
        raise IndexError(
            "diag_embed: a 0-d tensor has no dimension to lay on a diagonal. Use reshape(1) first. [nd-dim]"
        )
    first, second = _check_dims("diag_embed", dim1, dim2, input.ndim + 1)
    return ops.diag_embed(input, offset=operator.index(offset), dim0=first, dim1=second)


def diag(input: Tensor, diagonal: int = 0, *, out: Tensor | None = None) -> Tensor:
    """The matrix with a vector on its diagonal, or a copy of the diagonal of a matrix.

    Args:
        input: vector or matrix.
        diagonal: number of the diagonal: 0 for the main one, positive above it, negative below it.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.diag(ndgrad.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([1., 4.])
    """
    offset = operator.index(diagonal)
    if input.ndim == 1:
        return deliver("diag", ops.diag_embed(input, offset=offset, dim0=0, dim1=1), out, input)
    if input.ndim == 2:
        return deliver("diag", cast.clone(ops.diagonal(input, offset=offset, dim0=0, dim1=1)), out, input)
    raise RuntimeError(
        f"diag(): Supports 1D or 2D tensors. Got {input.ndim}D. Use diagonal() or diag_embed(). [nd-ndim]"
    )


def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """The matrix with all elements of `input` on its diagonal.

    Args:
        input: tensor of any shape.
        offset: number of the diagonal: 0 for the main one, positive above it, negative below it.

    >>> import ndgrad
    >>> ndgrad.diagflat(ndgrad.tensor([[1.0], [2.0]]))
    tensor([[1., 0.],
            [0., 2.]])
    """
    return diag(flatten(input), offset)
