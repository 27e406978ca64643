"""Construction of sparse arrays: diagonals, identities, blocks, Kronecker products."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy

import ndgrad.numpy as np
from ndgrad._src.arrays.sparse_pattern import Pattern
from ndgrad.numpy.coercion import operands
from ndgrad.scipy._without_rules import floating
from ndgrad.scipy.sparse.arrays import SparseArray, as_sparse, coo_array, csc_array, csr_array, is_scipys

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ndgrad._typing import Array, Dtype
    from ndgrad.scipy.sparse.arrays import SparseLike

__all__ = [
    "block_array",
    "block_diag",
    "bmat",
    "diags",
    "diags_array",
    "eye",
    "eye_array",
    "hstack",
    "identity",
    "issparse",
    "kron",
    "vstack",
]

_FORMATS = {"csr": csr_array, "csc": csc_array, "coo": coo_array, None: coo_array, "dia": coo_array, "bsr": csr_array}


def _make(
    data: Array, rows: NDArray[Any], columns: NDArray[Any], shape: tuple[int, int], format: str | None,
    dtype: Dtype = None,
) -> SparseArray:  # fmt: skip
    if format not in _FORMATS:
        raise NotImplementedError(f"format={format!r} has no rule here. Use 'csr', 'csc' or 'coo'. [nd-no-derivative]")
    made = object.__new__(_FORMATS[format])
    made._set(data if dtype is None else data.astype(dtype), Pattern(rows, columns, shape))
    return made


def issparse(x: object) -> bool:
    """True if x is a sparse array, ours or SciPy's.

    Args:
        x: any object.

    >>> from ndgrad.scipy import sparse
    >>> sparse.issparse(sparse.eye_array(2)), sparse.issparse([[1.0]])
    (True, False)
    """
    return isinstance(x, SparseArray) or is_scipys(x)


def diags_array(
    diagonals: Sequence[Any], /, *, offsets: int | Sequence[int] = 0, shape: Sequence[int] | None = None,
    format: str | None = None, dtype: Dtype = None,
) -> SparseArray:  # fmt: skip
    """A matrix of given diagonals, which may carry derivatives; a diagonal of one number is constant.

    Args:
        diagonals: diagonals, each as long as it is in the matrix, or of one number.
        offsets: numbers of the diagonals, positive above the main one.
        shape: shape of the result. The default is the smallest square that holds the first diagonal.
        format: `"csr"`, `"csc"` or `"coo"`: format of the result.
        dtype: dtype of the result.

    >>> from ndgrad.scipy import sparse
    >>> sparse.diags_array([[1.0, 2.0], [3.0]], offsets=[0, 1]).toarray()
    array([[1., 3.],
           [0., 2.]])
    """
    single = numpy.ndim(offsets) == 0
    lines = [
        floating(d)
        for d in ([diagonals] if single and numpy.ndim(diagonals[0] if len(diagonals) else 0.0) == 0 else diagonals)
    ]
    places = [int(k) for k in numpy.atleast_1d(offsets)]
    if len(lines) != len(places):
        raise ValueError("Different number of diagonals and offsets. [nd-shape]")
    if shape is None:
        n = lines[0].shape[0] + abs(places[0])
        shape = (n, n)
    m, n = (int(v) for v in shape)
    data, rows, columns = [], [], []
    for line, k in zip(lines, places, strict=True):
        length = min(m + min(k, 0), n - max(k, 0))
        if line.shape[0] not in (1, length):
            raise ValueError(
                f"Diagonal length (index {places.index(k)}: {line.shape[0]} at offset {k}) does not agree with "
                f"array size ({m}, {n}). [nd-shape]"
            )
        data.append(np.broadcast_to(line, (length,)))
        rows.append(numpy.arange(length) - min(k, 0))
        columns.append(numpy.arange(length) + max(k, 0))
    return _make(
        np.concatenate(operands(*data)), numpy.concatenate(rows), numpy.concatenate(columns), (m, n), format, dtype
    )


def diags(
    diagonals: Sequence[Any], offsets: int | Sequence[int] = 0, shape: Sequence[int] | None = None,
    format: str | None = None, dtype: Dtype = None,
) -> SparseArray:  # fmt: skip
    """A matrix of given diagonals: `diags_array` with its older parameters.

    Args:
        diagonals: diagonals, each as long as it is in the matrix, or of one number.
        offsets: numbers of the diagonals, positive above the main one.
        shape: shape of the result. The default is the smallest square that holds the first diagonal.
        format: `"csr"`, `"csc"` or `"coo"`: format of the result.
        dtype: dtype of the result.

    >>> from ndgrad.scipy import sparse
    >>> sparse.diags([[1.0, 2.0], [3.0]], [0, 1]).toarray()
    array([[1., 3.],
           [0., 2.]])
    """
    return diags_array(diagonals, offsets=offsets, shape=shape, format=format, dtype=dtype)


def eye_array(
    m: int, n: int | None = None, *, k: int = 0, dtype: Dtype = float, format: str | None = None,
) -> SparseArray:  # fmt: skip
    """Ones on the k-th diagonal, zeros elsewhere.

    Args:
        m: number of rows.
        n: number of columns. The default is `m`.
        k: number of the diagonal, positive above the main one.
        dtype: dtype of the result.
        format: `"csr"`, `"csc"` or `"coo"`: format of the result.

    >>> from ndgrad.scipy import sparse
    >>> sparse.eye_array(2, 3, k=1).toarray()
    array([[0., 1., 0.],
           [0., 0., 1.]])
    """
    size = (int(m), int(m if n is None else n))
    length = max(0, min(size[0] + min(k, 0), size[1] - max(k, 0)))
    return _make(
        np.ones(length, dtype=dtype), numpy.arange(length) - min(k, 0), numpy.arange(length) + max(k, 0), size, format
    )


def eye(m: int, n: int | None = None, k: int = 0, dtype: Dtype = float, format: str | None = None) -> SparseArray:
    """Ones on the k-th diagonal: `eye_array` with its older parameters.

    Args:
        m: number of rows.
        n: number of columns. The default is `m`.
        k: number of the diagonal, positive above the main one.
        dtype: dtype of the result.
        format: `"csr"`, `"csc"` or `"coo"`: format of the result.

    >>> from ndgrad.scipy import sparse
    >>> sparse.eye(2).toarray()
    array([[1., 0.],
           [0., 1.]])
    """
    return eye_array(m, n, k=k, dtype=dtype, format=format)


def identity(n: int, dtype: Dtype = float, format: str | None = None) -> SparseArray:
    """The identity matrix of n rows.

    Args:
        n: number of rows and columns.
        dtype: dtype of the result.
        format: `"csr"`, `"csc"` or `"coo"`: format of the result.

    >>> from ndgrad.scipy import sparse
    >>> sparse.identity(2).toarray()
    array([[1., 0.],
           [0., 1.]])
    """
    return eye_array(n, dtype=dtype, format=format)


def block_array(blocks: Sequence[Sequence[Any]], *, format: str | None = None, dtype: Dtype = None) -> SparseArray:
    """A matrix of blocks; None is a block of zeros.

    Args:
        blocks: rows of blocks, sparse or dense matrices or None.
        format: `"csr"`, `"csc"` or `"coo"`: format of the result.
        dtype: dtype of the result.

    >>> from ndgrad.scipy import sparse
    >>> sparse.block_array([[[[1.0]], None], [None, [[2.0]]]]).toarray()
    array([[1., 0.],
           [0., 2.]])
    """
    grid = [[None if b is None else as_sparse(b) for b in line] for line in blocks]
    heights = [next((b.shape[0] for b in line if b is not None), 0) for line in grid]
    widths = [next((b.shape[1] for b in column if b is not None), 0) for column in zip(*grid, strict=True)]
    data, rows, columns = [np.zeros(0)], [numpy.zeros(0, int)], [numpy.zeros(0, int)]
    for i, line in enumerate(grid):
        for j, block in enumerate(line):
            if block is None:
                continue
            if block.shape != (heights[i], widths[j]):
                raise ValueError(
                    f"blocks[{i},{j}] has incompatible shape {block.shape}, expected {(heights[i], widths[j])}. "
                    "[nd-shape]"
                )
            data.append(block.data)
            rows.append(block.pattern.rows + sum(heights[:i]))
            columns.append(block.pattern.columns + sum(widths[:j]))
    return _make(
        np.concatenate(operands(*data)),
        numpy.concatenate(rows),
        numpy.concatenate(columns),
        (sum(heights), sum(widths)),
        format,
        dtype,
    )


def bmat(blocks: Sequence[Sequence[Any]], format: str | None = None, dtype: Dtype = None) -> SparseArray:
    """A matrix of blocks: `block_array` with its older parameters.

    Args:
        blocks: rows of blocks, sparse or dense matrices or None.
        format: `"csr"`, `"csc"` or `"coo"`: format of the result.
        dtype: dtype of the result.

    >>> from ndgrad.scipy import sparse
    >>> sparse.bmat([[[[1.0]], [[2.0]]]]).toarray()
    array([[1., 2.]])
    """
    return block_array(blocks, format=format, dtype=dtype)


def hstack(blocks: Sequence[Any], format: str | None = None, dtype: Dtype = None) -> SparseArray:
    """Matrices side by side.

    Args:
        blocks: matrices with the same number of rows.
        format: `"csr"`, `"csc"` or `"coo"`: format of the result.
        dtype: dtype of the result.

    >>> from ndgrad.scipy import sparse
    >>> sparse.hstack([sparse.eye_array(2), sparse.eye_array(2)]).toarray()
    array([[1., 0., 1., 0.],
           [0., 1., 0., 1.]])
    """
    return block_array([list(blocks)], format=format, dtype=dtype)


def vstack(blocks: Sequence[Any], format: str | None = None, dtype: Dtype = None) -> SparseArray:
    """Matrices one below the other.

    Args:
        blocks: matrices with the same number of columns.
        format: `"csr"`, `"csc"` or `"coo"`: format of the result.
        dtype: dtype of the result.

    >>> from ndgrad.scipy import sparse
    >>> sparse.vstack([sparse.eye_array(1), sparse.eye_array(1)]).toarray()
    array([[1.],
           [1.]])
    """
    return block_array([[b] for b in blocks], format=format, dtype=dtype)


def block_diag(mats: Sequence[Any], format: str | None = None, dtype: Dtype = None) -> SparseArray:
    """The matrix with the given blocks along the diagonal, zeros elsewhere.

    Args:
        mats: blocks, sparse or dense matrices.
        format: `"csr"`, `"csc"` or `"coo"`: format of the result.
        dtype: dtype of the result.

    >>> from ndgrad.scipy import sparse
    >>> sparse.block_diag([[[1.0]], [[2.0, 3.0]]]).toarray()
    array([[1., 0., 0.],
           [0., 2., 3.]])
    """
    parts = [
        as_sparse(
            m
            if not (isinstance(m, (list, tuple)) or hasattr(m, "ndim")) or getattr(m, "ndim", 2) == 2
            else np.atleast_2d(m)
        )
        for m in mats
    ]
    rows, columns, down, across = [numpy.zeros(0, int)], [numpy.zeros(0, int)], 0, 0
    for p in parts:
        rows.append(p.pattern.rows + down)
        columns.append(p.pattern.columns + across)
        down, across = down + p.shape[0], across + p.shape[1]
    data = np.concatenate(operands(*(p.data for p in parts)))
    return _make(data, numpy.concatenate(rows), numpy.concatenate(columns), (down, across), format, dtype)


def kron(A: SparseLike, B: SparseLike, format: str | None = None) -> SparseArray:
    """Kronecker's product, differentiable in the entries of both.

    Args:
        A: first matrix.
        B: second matrix.
        format: `"csr"`, `"csc"` or `"coo"`: format of the result.

    >>> from ndgrad.scipy import sparse
    >>> sparse.kron(sparse.eye_array(2), [[5.0]]).toarray()
    array([[5., 0.],
           [0., 5.]])
    """
    a, b = as_sparse(A), as_sparse(B)
    x, y = operands(a.data, b.data)
    rows = numpy.add.outer(a.pattern.rows * b.shape[0], b.pattern.rows).ravel()
    columns = numpy.add.outer(a.pattern.columns * b.shape[1], b.pattern.columns).ravel()
    return _make(
        (x[:, None] * y).reshape((-1,)), rows, columns, (a.shape[0] * b.shape[0], a.shape[1] * b.shape[1]), format
    )
