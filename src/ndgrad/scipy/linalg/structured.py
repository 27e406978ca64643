"""Matrices built from vectors: Toeplitz, Hankel, companion and others, block diagonals, Kronecker and Khatri-Rao
products.

Each is one indexing of a vector, with indices that depend only on shapes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy

import ndgrad.numpy as np
from ndgrad.numpy.coercion import as_array, operands
from ndgrad.scipy._without_rules import floating

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ndgrad._typing import Array, ArrayLike

__all__ = [
    "block_diag", "circulant", "companion", "convolution_matrix", "diagsvd", "fiedler", "fiedler_companion", "hankel",
    "khatri_rao", "kron", "leslie", "toeplitz",
]  # fmt: skip


def _take_last(values: Array, index: NDArray[Any]) -> Array:
    """Return elements of the last axis at an array of indices."""
    return np.take(values, index, axis=-1)


def toeplitz(c: ArrayLike, r: ArrayLike | None = None) -> Array:
    """Return the matrix with constant diagonals that has a given first column and row.

    Args:
        c: first column, of shape (..., m).
        r: first row, of shape (..., n), whose first element is not read. The default is the conjugate of `c`.

    >>> from ndgrad.scipy import linalg
    >>> linalg.toeplitz([1, 2, 3], [1, 4, 5])
    array([[1, 4, 5],
           [2, 1, 4],
           [3, 2, 1]])
    """
    column = as_array(c)
    if r is None:
        row = column.conj()
    else:
        column, row = operands(column, r)
    m, n = column.shape[-1], row.shape[-1]
    lead = numpy.broadcast_shapes(column.shape[:-1], row.shape[:-1])
    column, row = np.broadcast_to(column, (*lead, m)), np.broadcast_to(row, (*lead, n))
    line = np.concatenate([row[..., :0:-1], column], axis=-1)
    return _take_last(line, numpy.arange(m)[:, None] - numpy.arange(n) + max(n - 1, 0))


def hankel(c: ArrayLike, r: ArrayLike | None = None) -> Array:
    """Return the matrix with constant antidiagonals that has a given first column and last row.

    Args:
        c: first column, of shape (..., m).
        r: last row, of shape (..., n), whose first element is not read. The default is zero.

    >>> from ndgrad.scipy import linalg
    >>> linalg.hankel([1, 2, 3])
    array([[1, 2, 3],
           [2, 3, 0],
           [3, 0, 0]])
    """
    column = as_array(c)
    column, row = operands(column, np.zeros_like(column) if r is None else r)
    line = np.concatenate([column, row[..., 1:]], axis=-1)
    return _take_last(line, numpy.add.outer(numpy.arange(column.shape[-1]), numpy.arange(row.shape[-1])))


def circulant(c: ArrayLike) -> Array:
    """Return the matrix in which each column is the previous one, shifted cyclically by one.

    Args:
        c: first column, of shape (..., n).

    >>> from ndgrad.scipy import linalg
    >>> linalg.circulant([1, 2, 3])
    array([[1, 3, 2],
           [2, 1, 3],
           [3, 2, 1]])
    """
    column = as_array(c)
    n = column.shape[-1]
    return _take_last(column, (numpy.arange(n)[:, None] - numpy.arange(n)) % max(n, 1))


def companion(a: ArrayLike) -> Array:
    """Return the matrix whose characteristic polynomial has the given coefficients.

    Args:
        a: coefficients, the highest power first, of shape (..., n).

    Returns:
        An array of shape (..., n - 1, n - 1).

    >>> from ndgrad.scipy import linalg
    >>> linalg.companion([1.0, -3.0, 2.0])
    array([[ 3., -2.],
           [ 1.,  0.]])
    """
    p = floating(a)
    n = p.shape[-1]
    if n < 2:
        raise ValueError(
            f"The length of `a` along the last axis must be at least 2, and the shape is {p.shape}. [nd-too-few]"
        )
    row = -p[..., 1:] / p[..., :1]
    below = np.broadcast_to(np.eye(n - 2, n - 1), (*p.shape[:-1], n - 2, n - 1))
    return np.concatenate([row[..., None, :], below], axis=-2)


def leslie(f: ArrayLike, s: ArrayLike) -> Array:
    """Return the matrix of a population model: fecundities in the first row, survival below the diagonal.

    Args:
        f: fecundities, of shape (..., n).
        s: rates of survival, of shape (..., n - 1).

    >>> from ndgrad.scipy import linalg
    >>> linalg.leslie([0.1, 2.0], [0.5])
    array([[0.1, 2. ],
           [0.5, 0. ]])
    """
    rates, survival = operands(floating(f), floating(s))
    n = rates.shape[-1]
    if survival.shape[-1] != n - 1:
        raise ValueError(f"s has length {survival.shape[-1]}, and must be one shorter than f, which has {n} [nd-shape]")
    below = survival[..., :, None] * np.eye(n - 1, n)
    return np.concatenate([rates[..., None, :], below], axis=-2)


def fiedler(a: ArrayLike) -> Array:
    """Return the symmetric matrix of distances |a[i] - a[j]|.

    Args:
        a: numbers, of shape (..., n).

    >>> from ndgrad.scipy import linalg
    >>> linalg.fiedler([1.0, 4.0])
    array([[0., 3.],
           [3., 0.]])
    """
    v = as_array(a)
    return abs(v[..., :, None] - v[..., None, :])


def fiedler_companion(a: ArrayLike) -> Array:
    """Return a companion matrix of five diagonals.

    Args:
        a: coefficients of a polynomial, the highest power first, of shape (n,).

    >>> from ndgrad.scipy import linalg
    >>> linalg.fiedler_companion([1.0, -3.0, 2.0])
    array([[ 3., -2.],
           [ 1.,  0.]])
    """
    p = floating(a)
    if p.ndim != 1:
        raise ValueError("fiedler_companion: one polynomial, of one dimension, was expected. [nd-ndim]")
    n = p.shape[0]
    if n <= 2:
        return np.zeros((0, 0)) if n < 2 else np.atleast_2d(-(p / p[0])[1:])
    q = p / p[0]
    m = n - 1
    c = np.zeros((m, m), dtype=q.dtype)
    c[numpy.arange(3, m, 2), numpy.arange(1, m - 2, 2)] = 1.0
    c[numpy.arange(2, m, 2), numpy.arange(1, m - 1, 2)] = -q[3::2]
    c[numpy.arange(0, m - 2, 2), numpy.arange(2, m, 2)] = 1.0
    c[numpy.arange(0, m - 1, 2), numpy.arange(1, m, 2)] = -q[2::2]
    c[0, 0] = -q[1]
    c[1, 0] = 1.0
    return c


def convolution_matrix(a: ArrayLike, n: int, mode: str = "full") -> Array:
    """Return the matrix C with C @ v == convolve(a, v, mode) for vectors v of length n.

    Args:
        a: numbers to convolve with, of shape (..., m).
        n: length of the vectors.
        mode: `"full"`, `"same"` or `"valid"`: part of the convolution.

    >>> from ndgrad.scipy import linalg
    >>> linalg.convolution_matrix([1.0, 2.0], 2)
    array([[1., 0.],
           [2., 1.],
           [0., 2.]])
    """
    v = as_array(a)
    if n <= 0 or v.shape[-1] == 0:
        raise ValueError("n must be a positive integer, and len(a) at least 1. [nd-range]")
    if mode not in ("full", "valid", "same"):
        raise ValueError(f"'mode' argument must be one of ('full', 'valid', 'same'), but is {mode!r}. [nd-option]")
    m = v.shape[-1]
    place = numpy.arange(m + n - 1)[:, None] - numpy.arange(n)
    inside = (place >= 0) & (place < m)
    whole = np.where(inside, _take_last(v, numpy.clip(place, 0, m - 1)), 0)
    if mode == "valid":
        low = min(m, n) - 1
        return whole[..., low : low + max(m, n) - min(m, n) + 1, :]
    if mode == "same":
        low = (min(m, n) - 1) // 2
        return whole[..., low : low + max(m, n), :]
    return whole


def diagsvd(s: ArrayLike, M: int, N: int) -> Array:
    """Return the M x N matrix with singular values on its diagonal.

    Args:
        s: singular values, as many as M or N.
        M: number of rows.
        N: number of columns.

    >>> from ndgrad.scipy import linalg
    >>> linalg.diagsvd([3.0, 2.0], 2, 3)
    array([[3., 0., 0.],
           [0., 2., 0.]])
    """
    values = as_array(s)
    k = values.shape[-1]
    if k not in (M, N):
        raise ValueError("Length of s must be M or N. [nd-shape]")
    made = values[..., :, None] * np.eye(k, dtype=values.dtype)
    pad = [(0, 0)] * (made.ndim - 2) + [(0, M - k), (0, N - k)]
    return np.pad(made, pad)


def block_diag(*arrs: Any) -> Array:
    """Return the matrix with the given blocks along the diagonal, and zeros elsewhere.

    Args:
        *arrs: blocks, of shape (..., m, n). Fewer dimensions mean one row.

    >>> from ndgrad.scipy import linalg
    >>> linalg.block_diag([[1.0]], [[2.0, 3.0]])
    array([[1., 0., 0.],
           [0., 2., 3.]])
    """
    blocks = operands(*(np.atleast_2d(as_array(a)) for a in (arrs or ([],))))
    lead = numpy.broadcast_shapes(*(b.shape[:-2] for b in blocks))
    width = sum(b.shape[-1] for b in blocks)
    rows, before = [], 0
    for b in blocks:
        whole = np.broadcast_to(b, (*lead, *b.shape[-2:]))
        pad = [(0, 0)] * (len(lead) + 1) + [(before, width - before - b.shape[-1])]
        rows.append(np.pad(whole, pad))
        before += b.shape[-1]
    return np.concatenate(rows, axis=-2)


def kron(a: ArrayLike, b: ArrayLike) -> Array:
    """Return Kronecker's product. (SciPy now leaves it to NumPy.)

    Args:
        a: first factor.
        b: second factor.

    >>> from ndgrad.scipy import linalg
    >>> linalg.kron([[1.0, 2.0]], [[1.0], [3.0]])
    array([[1., 2.],
           [3., 6.]])
    """
    return np.kron(a, b)


def khatri_rao(a: ArrayLike, b: ArrayLike) -> Array:
    """Return Kronecker's product of the columns.

    Args:
        a: matrix, of shape (..., m, k).
        b: matrix, of shape (..., n, k).

    Returns:
        An array of shape (..., m n, k).

    >>> from ndgrad.scipy import linalg
    >>> linalg.khatri_rao([[1.0, 2.0]], [[1.0, 1.0], [3.0, 4.0]])
    array([[1., 2.],
           [3., 8.]])
    """
    x, y = operands(as_array(a), as_array(b))
    if x.ndim < 2 or y.ndim < 2 or x.shape[-1] != y.shape[-1]:
        raise ValueError(
            f"The number of columns for both arrays should be equal, and the shapes are {x.shape} and {y.shape}. "
            "[nd-shape]"
        )
    made = x[..., :, None, :] * y[..., None, :, :]
    return made.reshape((*made.shape[:-3], made.shape[-3] * made.shape[-2], made.shape[-1]))
