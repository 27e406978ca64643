"""Factorisations for solving systems: LU, Cholesky (dense and banded), QR; and the polar decomposition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy

import ndgrad.numpy as np
from ndgrad._src.ops import banded, banded_cholesky, matrix_root
from ndgrad._src.ops.vocabulary import tensor_ops
from ndgrad.numpy.coercion import as_array, constant, operands, values_of
from ndgrad.scipy._without_rules import finite
from ndgrad.scipy.linalg.systems import adjoint, of_arrays, square, times_columns

if TYPE_CHECKING:
    from ndgrad._typing import Array, ArrayLike

__all__ = [
    "cho_factor", "cho_solve", "cho_solve_banded", "cholesky", "cholesky_banded", "lu", "lu_factor", "lu_solve",
    "orthogonal_procrustes", "polar", "qr", "qr_multiply",
]  # fmt: skip

# ----- LU -------------------------------------------------------------------------------------------------------------


def lu_factor(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Array, Array]:
    """Return L and U packed in one matrix, and the row exchanges, counted from 0.

    Args:
        a: matrix, of shape (..., n, n).
        overwrite_a: accepted as in SciPy; has no effect, because inputs are never overwritten.
        check_finite: whether infinities and NaN raise ValueError.

    >>> from ndgrad.scipy import linalg
    >>> packed, pivots = linalg.lu_factor([[4.0, 3.0], [2.0, 5.0]])
    >>> packed
    array([[4. , 3. ],
           [0.5, 3.5]])
    >>> pivots
    array([0, 1], dtype=int32)
    """
    packed, pivots = tensor_ops.lu_factor(finite(a, check_finite))
    return packed, pivots - 1


def lu_solve(
    lu_and_piv: tuple[Any, Any], b: ArrayLike, trans: int = 0, overwrite_b: bool = False, check_finite: bool = True,
) -> Array:  # fmt: skip
    """Solve a system by the results of `lu_factor`.

    Args:
        lu_and_piv: results of `lu_factor`.
        b: right side, of shape (n,) or (..., n, k).
        trans: 0 for a @ x = b, 1 for the transpose of a, 2 for the conjugate transpose.
        overwrite_b: accepted as in SciPy; has no effect, because inputs are never overwritten.
        check_finite: whether infinities and NaN raise ValueError.

    >>> from ndgrad.scipy import linalg
    >>> linalg.lu_solve(linalg.lu_factor([[2.0, 0.0], [0.0, 4.0]]), [2.0, 4.0])
    array([1., 1.])
    """
    packed, right = operands(as_array(lu_and_piv[0]), finite(b, check_finite))
    pivots = as_array(lu_and_piv[1]) + 1
    if trans not in (0, 1, 2):
        raise ValueError(f"lu_solve: trans must be 0, 1 or 2, but is {trans!r}. [nd-option]")
    if trans == 0:
        return times_columns(lambda p, q: of_arrays.lu_solve(p, pivots, q), packed, right)
    right = right.conj() if trans == 1 else right
    made = times_columns(lambda p, q: of_arrays.lu_solve(p, pivots, q, adjoint=True), packed, right)
    return made.conj() if trans == 1 else made


def lu(
    a: ArrayLike, permute_l: bool = False, overwrite_a: bool = False, check_finite: bool = True,
    p_indices: bool = False,
) -> tuple[Array, ...]:  # fmt: skip
    """Return P, L and U with a = P @ L @ U. P has no derivative.

    Args:
        a: matrix, of shape (..., m, n).
        permute_l: whether to return P @ L and U only.
        overwrite_a: accepted as in SciPy; has no effect, because inputs are never overwritten.
        check_finite: whether infinities and NaN raise ValueError.
        p_indices: whether to return P as an array of row indices.

    >>> from ndgrad.scipy import linalg
    >>> p, l, u = linalg.lu([[4.0, 3.0], [2.0, 5.0]])
    >>> l
    array([[1. , 0. ],
           [0.5, 1. ]])
    >>> u
    array([[4. , 3. ],
           [0. , 3.5]])
    """
    p, l, u = of_arrays.lu(finite(a, check_finite))
    if permute_l:
        return p @ l, u
    if p_indices:
        return np.argmax(p, axis=-1), l, u
    return p, l, u


# ----- Cholesky -------------------------------------------------------------------------------------------------------


def _reads(a: Array, lower: bool) -> Array:
    """Return the Hermitian matrix that LAPACK reads from one triangle. As for NumPy's function, the gradient is that of
    a Hermitian matrix.
    """
    return a if lower else adjoint(a)


def cholesky(a: ArrayLike, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """Return the triangular factor of a positive definite matrix: upper, a = u^H u, or with `lower` a = l l^H.

    Args:
        a: Hermitian positive definite matrix, of shape (..., n, n). One triangle is read.
        lower: whether the lower triangle is read and returned, instead of the upper one.
        overwrite_a: accepted as in SciPy; has no effect, because inputs are never overwritten.
        check_finite: whether infinities and NaN raise ValueError.

    >>> from ndgrad.scipy import linalg
    >>> linalg.cholesky([[4.0, 2.0], [2.0, 5.0]])
    array([[2., 1.],
           [0., 2.]])
    """
    made = tensor_ops.cholesky(_reads(square("cholesky", a, check_finite), lower))
    return made if lower else adjoint(made)


def cho_factor(
    a: ArrayLike, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True,
) -> tuple[Any, bool]:  # fmt: skip
    """Return the Cholesky factor and its triangle, for `cho_solve`. The other triangle is zero (SciPy leaves the old
    values).

    Args:
        a: Hermitian positive definite matrix, of shape (..., n, n). One triangle is read.
        lower: whether the lower triangle is read and returned, instead of the upper one.
        overwrite_a: accepted as in SciPy; has no effect, because inputs are never overwritten.
        check_finite: whether infinities and NaN raise ValueError.

    >>> from ndgrad.scipy import linalg
    >>> linalg.cho_solve(linalg.cho_factor([[4.0, 2.0], [2.0, 5.0]]), [6.0, 7.0])
    array([1., 1.])
    """
    return cholesky(a, lower, check_finite=check_finite), lower


def cho_solve(
    c_and_lower: tuple[Any, bool], b: ArrayLike, overwrite_b: bool = False, check_finite: bool = True,
) -> Array:  # fmt: skip
    """Solve a system by the results of `cho_factor`.

    Args:
        c_and_lower: results of `cho_factor`.
        b: right side, of shape (n,) or (..., n, k).
        overwrite_b: accepted as in SciPy; has no effect, because inputs are never overwritten.
        check_finite: whether infinities and NaN raise ValueError.

    >>> from ndgrad.scipy import linalg
    >>> linalg.cho_solve(linalg.cho_factor([[4.0, 2.0], [2.0, 5.0]]), [4.0, 2.0])
    array([1., 0.])
    """
    factor, right = operands(finite(c_and_lower[0], check_finite), finite(b, check_finite))
    lower = bool(c_and_lower[1])

    def solver(c: Array, q: Array) -> Array:
        first, second = (c, adjoint(c)) if lower else (adjoint(c), c)
        return tensor_ops.solve_triangular(second, tensor_ops.solve_triangular(first, q, upper=False), upper=True)

    return times_columns(solver, factor, right)


def _dense(ab: Array, l: int, u: int) -> Array:
    """Return the matrix with the given diagonals."""
    n = ab.shape[-1]
    rows = numpy.arange(n)[:, None] - numpy.arange(n)
    inside = (rows <= l) & (rows >= -u)
    return np.where(inside, ab[..., numpy.clip(rows + u, 0, l + u), numpy.arange(n)], 0.0)


def cholesky_banded(ab: ArrayLike, overwrite_ab: bool = False, lower: bool = False, check_finite: bool = True) -> Array:
    """Return the diagonals of the Cholesky factor of a Hermitian positive definite band matrix. Gradients are banded
    too.

    Args:
        ab: diagonals of one triangle as rows, of shape (..., u + 1, n).
        overwrite_ab: accepted as in SciPy; has no effect, because inputs are never overwritten.
        lower: whether the diagonals are those of the lower triangle.
        check_finite: whether infinities and NaN raise ValueError.

    >>> from ndgrad.scipy import linalg
    >>> linalg.cholesky_banded([[4.0, 5.0], [2.0, 0.0]], lower=True)
    array([[2., 2.],
           [1., 0.]])
    """
    bands = finite(ab, check_finite)
    if bands.ndim < 2:
        raise ValueError(
            f"cholesky_banded: expected the diagonals of a matrix as rows, and the shape is {bands.shape}. [nd-ndim]"
        )
    count = bands.shape[-2] - 1
    if lower:
        return banded_cholesky.cholesky_banded(bands)
    factor = banded_cholesky.cholesky_banded(banded.adjoint_bands(bands, 0, count, tensor_ops))
    return banded.adjoint_bands(factor, count, 0, tensor_ops)


def cho_solve_banded(
    cb_and_lower: tuple[Any, bool], b: ArrayLike, overwrite_b: bool = False, check_finite: bool = True,
) -> Array:  # fmt: skip
    """Solve a system by the factor of `cholesky_banded`.

    Args:
        cb_and_lower: result of `cholesky_banded`, and its `lower`.
        b: right side, of shape (n,) or (..., n, k).
        overwrite_b: accepted as in SciPy; has no effect, because inputs are never overwritten.
        check_finite: whether infinities and NaN raise ValueError.

    >>> from ndgrad.scipy import linalg
    >>> factor = linalg.cholesky_banded([[4.0, 5.0], [2.0, 0.0]], lower=True)
    >>> linalg.cho_solve_banded((factor, True), [6.0, 7.0])
    array([1., 1.])
    """
    factor, right = operands(finite(cb_and_lower[0], check_finite), finite(b, check_finite))
    lower = bool(cb_and_lower[1])
    count = factor.shape[-2] - 1

    def solver(c: Array, q: Array) -> Array:
        l, u = (count, 0) if lower else (0, count)
        other = banded.adjoint_bands(c, l, u, tensor_ops)
        first, second = (c, other) if lower else (other, c)
        return banded.solve_banded(second, banded.solve_banded(first, q, lower=count, upper=0), lower=0, upper=count)

    return times_columns(solver, factor, right)


# ----- QR -------------------------------------------------------------------------------------------------------------


def qr(
    a: ArrayLike, overwrite_a: bool = False, lwork: int | None = None, mode: str = "full", pivoting: bool = False,
    check_finite: bool = True,
) -> tuple[Array, ...]:  # fmt: skip
    """Return Q and R with a = Q @ R, and with `pivoting` the order of columns, which has no derivative.

    For more rows than columns mode="full" completes Q by an arbitrary basis: a loss must not depend on these columns.

    Args:
        a: matrix, of shape (..., m, n).
        overwrite_a: accepted as in SciPy; has no effect, because inputs are never overwritten.
        lwork: accepted as in SciPy; has no effect.
        mode: `"full"`, `"economic"`, or `"r"` for R alone. `"raw"` raises NotImplementedError.
        pivoting: whether columns are exchanged so that the diagonal of R decreases.
        check_finite: whether infinities and NaN raise ValueError.

    >>> from ndgrad.scipy import linalg
    >>> q, r = linalg.qr([[3.0, 1.0], [4.0, 2.0]])
    >>> abs(r)
    array([[5. , 2.2],
           [0. , 0.4]])
    """
    t = finite(a, check_finite)
    if mode not in ("full", "qr", "r", "economic", "raw"):
        raise ValueError(
            f"Mode argument should be one of ['full', 'r', 'economic', 'raw'], but is {mode!r} [nd-option]"
        )
    if mode == "raw":
        raise NotImplementedError(
            "qr(mode='raw') gives LAPACK's reflectors, which have no rule here. Use mode='economic' or 'r'. "
            "[nd-no-derivative]"
        )
    order = None
    if pivoting:
        import scipy.linalg

        order = scipy.linalg.qr(values_of(t.detach()), mode="r", pivoting=True)[-1]
        t = np.take_along_axis(t, constant(order)[..., None, :], axis=-1)
    m = t.shape[-2]
    if mode in ("full", "qr"):
        found: tuple[Any, ...] = tuple(of_arrays.qr(t, "complete"))
    else:
        q, r = of_arrays.qr(t, "reduced")
        if mode == "r":
            r = np.pad(r, [(0, 0)] * (t.ndim - 2) + [(0, m - r.shape[-2]), (0, 0)])
        found = (r,) if mode == "r" else (q, r)
    return (*found, order) if order is not None else found


def qr_multiply(
    a: ArrayLike, c: ArrayLike, mode: str = "right", pivoting: bool = False, conjugate: bool = False,
    overwrite_a: bool = False, overwrite_c: bool = False,
) -> tuple[Array, ...]:  # fmt: skip
    """Return c @ Q (mode "right") or Q @ c (mode "left"), and R, for a QR factorisation of a.

    Args:
        a: matrix, of shape (m, n).
        c: factor of the product.
        mode: `"left"` or `"right"`: the side of Q in the product.
        pivoting: whether columns are exchanged; their order is then returned too.
        conjugate: whether Q is conjugated.
        overwrite_a: accepted as in SciPy; has no effect, because inputs are never overwritten.
        overwrite_c: accepted as in SciPy; has no effect, because inputs are never overwritten.

    >>> from ndgrad.scipy import linalg
    >>> product, r = linalg.qr_multiply([[3.0, 1.0], [4.0, 2.0]], [[1.0, 0.0]])
    >>> abs(product)
    array([[0.6, 0.8]])
    """
    q, r, *order = qr(a, mode="economic", pivoting=pivoting)
    if conjugate:
        q = q.conj()
    given = as_array(c)
    made = q @ given if mode == "left" else given @ q
    return made, r, *order


# ----- polar decomposition --------------------------------------------------------------------------------------------


def polar(a: ArrayLike, side: str = "right") -> tuple[Array, Array]:
    """Return u and p with a = u @ p or a = p @ u: u unitary, p positive semidefinite.

    Args:
        a: matrix, of shape (..., m, n).
        side: `"right"` for a = u @ p, `"left"` for a = p @ u.

    >>> from ndgrad.scipy import linalg
    >>> u, p = linalg.polar([[0.0, -2.0], [3.0, 0.0]])
    >>> u.round(6) + 0.0
    array([[ 0., -1.],
           [ 1.,  0.]])
    >>> p.round(6) + 0.0
    array([[3., 0.],
           [0., 2.]])
    """
    if side not in ("right", "left"):
        raise ValueError("`side` must be either 'right' or 'left' [nd-option]")
    t = finite(a)
    u = matrix_root.polar_unitary(t)
    p = adjoint(u) @ t if side == "right" else t @ adjoint(u)
    return u, (p + adjoint(p)) / 2.0


def orthogonal_procrustes(A: ArrayLike, B: ArrayLike, check_finite: bool = True) -> tuple[Array, Array]:
    """Return the orthogonal matrix that maps A closest to B, and the sum of the singular values of A^H B.

    Args:
        A: matrix, of shape (m, n).
        B: matrix, of shape (m, n).
        check_finite: whether infinities and NaN raise ValueError.

    >>> from ndgrad.scipy import linalg
    >>> turn, scale = linalg.orthogonal_procrustes([[1.0, 0.0], [0.0, 1.0]], [[0.0, 2.0], [-1.0, 0.0]])
    >>> turn.round(6) + 0.0
    array([[ 0.,  1.],
           [-1.,  0.]])
    >>> scale.item()
    3.0
    """
    x, y = operands(finite(A, check_finite), finite(B, check_finite))
    if x.ndim != 2 or x.shape != y.shape:
        raise ValueError(f"the shapes of A and B differ ({x.shape} vs {y.shape}) [nd-shape]")
    product = adjoint(x) @ y
    turn = matrix_root.polar_unitary(product)
    return turn, (turn.conj() * product).sum().real
