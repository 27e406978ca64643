"""Triangles and diagonals of matrices, in any two dimensions of an array."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy

from ndgrad._src.arrays.meta import zeros_on_same_device
from ndgrad._src.ops.table import op

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload

#: Minimum number of elements of matrices that are copied in blocks of so many rows.
_LARGE, _ROWS = 1 << 15, 64


def _triangle(np: Library, x: Payload, diagonal: int, upper: bool) -> Payload:
    """Return a triangle of matrices: the part of each block of rows that all of them keep, and the mixed columns."""
    whole = np.triu if upper else np.tril
    if x.__class__ is not numpy.ndarray or x.ndim < 2 or x.size < _LARGE or min(x.shape[-2:]) <= _ROWS:
        return whole(x, diagonal).astype(x.dtype, copy=False)  # CuPy promotes bfloat16 to float32
    out = numpy.zeros(x.shape, x.dtype)
    rows, columns = x.shape[-2:]
    for begin in range(0, rows, _ROWS):
        end = min(begin + _ROWS, rows)
        # Row r keeps the columns up to r + diagonal, or from there on.
        first, last = begin + diagonal + (not upper), end - upper + diagonal
        left, right = min(max(first, 0), columns), min(max(last, 0), columns)
        block = (Ellipsis, slice(begin, end), slice(right, None) if upper else slice(0, left))
        out[block] = x[block]
        mixed = (Ellipsis, slice(begin, end), slice(left, right))
        out[mixed] = whole(x[mixed], begin + diagonal - left)
    return out


tril = op(
    "tril", "x",
    lambda np, x, *, diagonal: _triangle(np, x, diagonal, False),
    settings={"diagonal": 0},
    vjp={"x": lambda g, diagonal, ops: ops.tril(g, diagonal=diagonal)},
    jvp="linear",
    batch="leading",
    halves=True,
    moves_values=True, core_dims=[2], memory_order="C", movement="rearrange",
)  # fmt: skip

triu = op(
    "triu", "x",
    lambda np, x, *, diagonal: _triangle(np, x, diagonal, True),
    settings={"diagonal": 0},
    vjp={"x": lambda g, diagonal, ops: ops.triu(g, diagonal=diagonal)},
    jvp="linear",
    batch="leading",
    halves=True,
    moves_values=True, core_dims=[2], memory_order="C", movement="rearrange",
)  # fmt: skip

# ----- diagonals ------------------------------------------------------------------------------------------------------


def _diagonal(np: Library, x: Payload, *, offset: int, dim0: int, dim1: int) -> Payload:
    """Return a diagonal that is writable if its source is. NumPy's is read-only, although its elements are distinct."""
    out = x.diagonal(offset, dim0, dim1)
    if not getattr(out.flags, "writeable", True) and x.flags.writeable:
        out.flags.writeable = True
    return out


diagonal = op(
    "diagonal", "x",
    _diagonal,
    settings={"offset": 0, "dim0": 0, "dim1": 1},
    vjp={
        "x": lambda g, x_shape, offset, dim0, dim1, ops: ops.diagonal_backward(
            g, shape=x_shape, offset=offset, dim0=dim0, dim1=dim1
        )
    },
    jvp="linear",
    batch="dims",
    view=True,
    partial_view=True,
    saved_names={"dim0": "dim1", "dim1": "dim2"}, moves_dims=True, movement="rearrange",
)  # fmt: skip


def _embed_diagonal(np: Library, x: Payload, *, shape: tuple[int, ...], offset: int, dim0: int, dim1: int) -> Payload:
    out = zeros_on_same_device(np, x, shape, x.dtype)
    _diagonal(np, out, offset=offset, dim0=dim0, dim1=dim1)[...] = x
    return out


diagonal_backward = op(
    "diagonal_backward", "x",
    _embed_diagonal,
    settings={"shape": (), "offset": 0, "dim0": 0, "dim1": 1},
    vjp={"x": lambda g, offset, dim0, dim1, ops: ops.diagonal(g, offset=offset, dim0=dim0, dim1=dim1)},
    jvp="linear",
    batch=lambda x, shape, offset, dim0, dim1, ops: ops.diagonal_backward(
        x, shape=(x.shape[0], *shape), offset=offset, dim0=dim0 + 1, dim1=dim1 + 1
    ),
    halves=True, movement="rearrange",
)  # fmt: skip


def _diag_embed(np: Library, x: Payload, *, offset: int, dim0: int, dim1: int) -> Payload:
    """Return the smallest square matrices with the last dimension of x on the given diagonal, in dims dim0 and dim1."""
    shape = list(x.shape[:-1])
    for dim in sorted((dim0, dim1)):
        shape.insert(dim, x.shape[-1] + abs(offset))
    return _embed_diagonal(np, x, shape=tuple(shape), offset=offset, dim0=dim0, dim1=dim1)


diag_embed = op(
    "diag_embed", "x",
    _diag_embed,
    settings={"offset": 0, "dim0": 0, "dim1": 1},  # dims of the result
    vjp={"x": lambda g, offset, dim0, dim1, ops: ops.diagonal(g, offset=offset, dim0=dim0, dim1=dim1)},
    jvp="linear",
    batch="dims",
    saved_names={"dim0": "dim1", "dim1": "dim2"},
    halves=True,
    moves_values=True, moves_dims=True, movement="rearrange",
)  # fmt: skip
