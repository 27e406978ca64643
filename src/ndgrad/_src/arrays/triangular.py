"""Triangular solves and LU factors of stacks of matrices.

The constraint: NumPy exposes neither LAPACK's triangular solve nor its LU factors. Both are written here in blocks, the
solve by halving the matrix and LU panel by panel, so that nearly all the arithmetic is in matmul. The rest, in the
small blocks, runs for all matrices of the stack at once. If SciPy is installed and the matrices are large, its BLAS and
LAPACK are called instead, matrix by matrix.

Only the triangle that a call names is ever read. So the packed factors of an LU decomposition can be passed directly,
and the other triangle has no effect, even if it holds NaN.

Singular matrices raise nothing. As in LAPACK and torch, a zero on the diagonal gives infinities or NaN in a solve, and
an LU decomposition continues past a zero pivot and leaves it in U.
"""

from __future__ import annotations

import importlib
import math
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from ndgrad._src.arrays import small_matrices
from ndgrad._src.arrays.precision import computing_dtype, result_dtype

__all__ = ["lu_factor", "lu_solve", "lu_unpack", "solve_triangular"]

Array: TypeAlias = np.ndarray[Any, Any]

# Stacks of at least this many matrices are solved row by row across the stack, in leaves of 8 rows; smaller ones by
# LAPACK, in leaves of 64. Measured for 1 to 10,000 matrices: at the border both cost about the same.
_MANY = 1024
_LEAF_OF_MANY, _LEAF_OF_FEW = 8, 64
_PANEL = 32
# From these sizes on SciPy's routines, called one matrix at a time, are about as fast for stacks of up to 1,000
# matrices and several times as fast for one.
_LARGE_SOLVE, _LARGE_LU = 64, 16


# ----- shapes and types -----


def _matrices(where: str, **arrays: Array) -> tuple[Array, ...]:
    """Return the arguments in one dtype that BLAS supports: float32 for float16, float64 for integers."""
    for name, array in arrays.items():
        if array.ndim < 2:
            raise ValueError(
                f"{where} got {name} of shape {array.shape}: it works on matrices, in the last two dimensions. "
                f"Add the missing dimension, {name}[..., None] for one column. [nd-matrix]"
            )
    dtype = result_dtype(*arrays.values())
    if dtype.kind in "biu":
        dtype = np.dtype(np.float64)
    dtype = computing_dtype(dtype)
    return tuple(array.astype(dtype, copy=False) for array in arrays.values())


def _cast_result(result: Array, *arguments: Array) -> Array:
    """Return the result in the dtype of NumPy's promotion, which for float16 is narrower than the working dtype."""
    dtype = result_dtype(*arguments)
    return result if dtype.kind in "biu" else result.astype(dtype, copy=False)


@lru_cache(maxsize=1)
def _scipy_linalg() -> Any:
    """Return scipy.linalg, or None. It is imported for the first large matrix, not with this module."""
    try:
        return importlib.import_module("scipy.linalg")
    except ImportError:
        return None


# ----- triangular solve -----


def solve_triangular(a: Array, b: Array, *, upper: bool, unitriangular: bool = False, transpose: bool = False) -> Array:
    """Return the solution x of a @ x = b, or a.T @ x = b (no conjugate) if `transpose`, for triangular a.

    a is (..., n, n), b is (..., n, k), and their leading dimensions broadcast. `upper` selects the triangle of a that
    is read, whether or not `transpose` is set. With `unitriangular` its diagonal counts as ones and is not read either.

    >>> a = np.array([[2.0, 0.0], [1.0, 4.0]])
    >>> solve_triangular(a, np.array([[2.0], [9.0]]), upper=False)
    array([[1.],
           [2.]])
    """
    matrix, right = _matrices("solve_triangular", a=a, b=b)
    n = a.shape[-1]
    if a.shape[-2] != n or b.shape[-2] != n:
        raise ValueError(
            f"solve_triangular got a of shape {a.shape} and b of shape {b.shape}: a must be square in its last "
            f"two dimensions, and b must have as many rows. Check which of them is transposed. [nd-shape]"
        )
    if transpose:
        matrix, upper = matrix.swapaxes(-1, -2), not upper
    found = small_matrices.solve_triangular(matrix, right, upper, unitriangular)
    if found is not None:
        return _cast_result(found, a, b)
    stack = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    x = np.empty(stack + b.shape[-2:], matrix.dtype)
    x[...] = right
    if x.size == 0:
        pass
    elif n >= _LARGE_SOLVE and _scipy_linalg() is not None:
        _solve_by_blas(matrix, x, upper, unitriangular)
    else:
        many = math.prod(stack) >= _MANY
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            _solve_in_halves(matrix, x, upper, unitriangular, many)
    return _cast_result(x, a, b)


def _solve_in_halves(a: Array, x: Array, upper: bool, unit: bool, many: bool) -> None:
    """Overwrite x, which holds the right-hand side, with the solution.

    One half of the unknowns depends only on itself: the first if a is lower, the last if it is upper.
    """
    n = a.shape[-1]
    leaf = _LEAF_OF_MANY if many else _LEAF_OF_FEW
    if n <= leaf:
        if many or not _solve_by_lapack(a, x, upper, unit):
            _substitute(a, x, upper, unit)
        return
    middle = leaf * ((n // leaf + 1) // 2)
    first, second = slice(0, middle), slice(middle, n)
    if upper:
        first, second = second, first
    _solve_in_halves(a[..., first, first], x[..., first, :], upper, unit, many)
    x[..., second, :] -= a[..., second, first] @ x[..., first, :]
    _solve_in_halves(a[..., second, second], x[..., second, :], upper, unit, many)


def _substitute(a: Array, x: Array, upper: bool, unit: bool) -> None:
    n = a.shape[-1]
    for i in reversed(range(n)) if upper else range(n):
        if not unit:
            x[..., i, :] /= a[..., i, i, None]
        rest = slice(0, i) if upper else slice(i + 1, n)
        x[..., rest, :] -= a[..., rest, i, None] * x[..., i, None, :]


def _solve_by_lapack(a: Array, x: Array, upper: bool, unit: bool) -> bool:
    """Solve with numpy.linalg.solve, which for an upper triangle is back substitution only.

    Elimination finds zeros below each diagonal entry, so it neither exchanges rows nor changes an entry. A lower
    triangle becomes an upper one if rows and columns are counted from the end. This needs finite numbers (0 * inf would
    affect rows that do not depend on it) and no zero on the diagonal. Returns False if nothing was done.
    """
    n = a.shape[-1]
    triangle = np.triu(a) if upper else np.tril(a)[..., ::-1, ::-1]
    diagonal = triangle[..., np.arange(n), np.arange(n)]
    if unit:
        triangle[..., np.arange(n), np.arange(n)] = 1
    elif not diagonal.all():
        return False
    if not (np.isfinite(triangle).all() and np.isfinite(x).all()):
        return False
    if upper:
        x[...] = np.linalg.solve(triangle, x)
    else:
        x[..., ::-1, :] = np.linalg.solve(triangle, x[..., ::-1, :])
    return True


def _solve_by_blas(a: Array, x: Array, upper: bool, unit: bool) -> None:
    """Run trsm on each matrix. BLAS stores by columns, so it gets a.T and x.T and solves x.T @ a.T = b.T."""
    (trsm,) = _scipy_linalg().get_blas_funcs(("trsm",), (x,))
    a = np.broadcast_to(a, x.shape[:-2] + a.shape[-2:])
    for index in np.ndindex(x.shape[:-2]):
        one = a[index]
        # Whichever of a and a.T is stored by columns is passed without a copy.
        columns = one if one.flags.f_contiguous else one.T
        transposed = columns is one
        lower = upper != transposed
        x[index] = trsm(1, columns, x[index].T, side=1, lower=lower, trans_a=transposed, diag=unit).T


# ----- LU -----


def lu_factor(a: Array) -> tuple[Array, np.ndarray[Any, np.dtype[np.int32]]]:
    """Return L and U of a = P @ L @ U, packed in one array, and the row exchanges, with partial pivoting.

    a is (..., m, n). The unit diagonal of L is not stored. The exchanges are LAPACK's and torch's: (..., min(m, n))
    int32, counted from 1, where entry i is the row exchanged with row i + 1 at that step.

    >>> packed, pivots = lu_factor(np.array([[1.0, 2.0], [4.0, 4.0]]))
    >>> packed
    array([[4.  , 4.  ],
           [0.25, 1.  ]])
    >>> pivots
    array([2, 2], dtype=int32)
    """
    matrix = _matrices("lu_factor", a=a)[0]
    m, n = a.shape[-2:]
    rank = min(m, n)
    stack = a.shape[:-2]
    packed = np.array(matrix).reshape((math.prod(stack), m, n))
    pivots = np.empty((packed.shape[0], rank), np.int32)
    if rank >= _LARGE_LU and _scipy_linalg() is not None:
        (getrf,) = _scipy_linalg().get_lapack_funcs(("getrf",), (packed,))
        for index in range(packed.shape[0]):
            packed[index], pivots[index], _ = getrf(packed[index])
        pivots += 1
    elif rank:
        with np.errstate(over="ignore", invalid="ignore"):
            for start in range(0, rank, _PANEL):
                _factor_from(packed, pivots, start, min(start + _PANEL, rank))
    return _cast_result(packed.reshape(a.shape), a), pivots.reshape((*stack, rank))


def _factor_from(a: Array, pivots: Array, start: int, stop: int) -> None:
    """Run one step of the right-looking algorithm on (count, m, n): a panel of columns, then all columns to its
    right.
    """
    every = np.arange(a.shape[0])
    for j in range(start, stop):
        column = a[:, j:, j]
        # LAPACK measures complex numbers by |re| + |im|, and its choice of pivots is part of the result.
        size = np.abs(column.real) + np.abs(column.imag) if a.dtype.kind == "c" else np.abs(column)
        pivot = j + np.argmax(size, axis=1)
        pivots[:, j] = pivot + 1
        row = a[every, pivot]
        a[every, pivot] = a[:, j]
        a[:, j] = row
        # The column below a zero pivot is zero and stays so.
        divisor = a[:, j, j, None]
        a[:, j + 1 :, j] /= np.where(divisor == 0, 1, divisor)
        a[:, j + 1 :, j + 1 : stop] -= a[:, j + 1 :, j, None] * a[:, j, None, j + 1 : stop]
    right = a[:, start:stop, stop:]
    if right.size:
        _solve_in_halves(a[:, start:stop, start:stop], right, False, True, a.shape[0] >= _MANY)
        a[:, stop:, stop:] -= a[:, stop:, start:stop] @ right


def _permutation(pivots: Array, rows: int) -> np.ndarray[Any, np.dtype[np.intp]]:
    """Return the order of rows after the exchanges: (P.T @ b)[i] is b[permutation[i]]."""
    stack = pivots.shape[:-1]
    flat = pivots.reshape((math.prod(stack), pivots.shape[-1]))
    order = np.tile(np.arange(rows), (flat.shape[0], 1))
    every = np.arange(flat.shape[0])
    for i in range(flat.shape[1]):
        other = flat[:, i] - 1
        moved = order[every, other]
        order[every, other] = order[:, i]
        order[:, i] = moved
    return order.reshape((*stack, rows))


def lu_unpack(lu: Array, pivots: Array) -> tuple[Array, Array, Array]:
    """Return P (..., m, m), L (..., m, r), U (..., r, n), r = min(m, n), from lu_factor's two arrays of a; P @ L @ U =
    a.

    >>> P, L, U = lu_unpack(*lu_factor(np.array([[1.0, 2.0], [4.0, 4.0]])))
    >>> P @ L @ U
    array([[1., 2.],
           [4., 4.]])
    """
    m, n = lu.shape[-2:]
    rank = min(m, n)
    lower = np.tril(lu[..., :rank], -1)
    lower[..., np.arange(rank), np.arange(rank)] = 1
    # Column i of P is the unit vector of the row that came to i.
    places = _permutation(pivots, m)[..., None, :] == np.arange(m)[:, None]
    return places.astype(lu.dtype), lower, np.triu(lu[..., :rank, :])


def lu_solve(lu: Array, pivots: Array, b: Array, *, adjoint: bool = False) -> Array:
    """Return the solution x of a @ x = b from lu_factor's two arrays; with `adjoint`, of a^H @ x = b.

    >>> a = np.array([[1.0, 2.0], [4.0, 4.0]])
    >>> lu_solve(*lu_factor(a), a @ np.array([[3.0], [5.0]]))
    array([[3.],
           [5.]])
    """
    n = lu.shape[-1]
    if lu.ndim < 2 or b.ndim < 2 or lu.shape[-2] != n or b.shape[-2] != n:
        raise ValueError(
            f"lu_solve got factors of shape {lu.shape} and b of shape {b.shape}: it needs the factors of square "
            f"matrices, and matrices b with as many rows. Write b[..., None] for one column. [nd-shape]"
        )
    stack = np.broadcast_shapes(lu.shape[:-2], b.shape[:-2])
    right = np.broadcast_to(b, stack + b.shape[-2:])
    order = np.broadcast_to(_permutation(pivots, n), (*stack, n))[..., None]
    if not adjoint:
        y = np.take_along_axis(right, order, axis=-2)
        y = solve_triangular(lu, y, upper=False, unitriangular=True)
        return solve_triangular(lu, y, upper=True)
    factors = lu.conj() if lu.dtype.kind == "c" else lu
    y = solve_triangular(factors, right, upper=True, transpose=True)
    y = solve_triangular(factors, y, upper=False, unitriangular=True, transpose=True)
    x = np.empty_like(y)
    np.put_along_axis(x, order, y, axis=-2)
    return x
