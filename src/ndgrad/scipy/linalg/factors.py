"""Factorisations for solving systems: LU, Cholesky (dense and banded), QR; and the polar decomposition."""

from __future__ import annotations

from typing import Any

import numpy

import ndgrad.numpy as np
from ndgrad.api import decomposition
from ndgrad.numpy.coercion import as_array, constant, operands, values_of
from ndgrad.ops import banded, banded_cholesky, matrix_root
from ndgrad.ops.vocabulary import tensor_ops
from ndgrad.scipy._without_rules import finite
from ndgrad.scipy.linalg.systems import adjoint, square, times_columns

__all__ = [
    "cho_factor", "cho_solve", "cho_solve_banded", "cholesky", "cholesky_banded", "lu", "lu_factor", "lu_solve", "orthogonal_procrustes",
    "polar", "qr", "qr_multiply",
]  # fmt: skip

# ----- LU ----------------------------------------------------------------------------------------------------------------


def lu_factor(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Any, Any]:
    """L and U packed in one matrix, and the row exchanges, counted from 0."""
    packed, pivots = tensor_ops.lu_factor(finite(a, check_finite))
    return packed, pivots - 1


def lu_solve(lu_and_piv: tuple[Any, Any], b: Any, trans: int = 0, overwrite_b: bool = False, check_finite: bool = True) -> Any:
    """The x with a @ x = b (a.T @ x = b for trans=1, the conjugate transpose for 2) from lu_factor's results."""
    packed, right = operands(as_array(lu_and_piv[0]), finite(b, check_finite))
    pivots = as_array(lu_and_piv[1]) + 1
    if trans not in (0, 1, 2):
        raise ValueError(f"lu_solve: trans must be 0, 1 or 2, and is {trans!r}.")
    if trans == 0:
        return times_columns(lambda p, q: decomposition.lu_solve(p, pivots, q), packed, right)
    right = right.conj() if trans == 1 else right
    made = times_columns(lambda p, q: decomposition.lu_solve(p, pivots, q, adjoint=True), packed, right)
    return made.conj() if trans == 1 else made


def lu(a: Any, permute_l: bool = False, overwrite_a: bool = False, check_finite: bool = True, p_indices: bool = False) -> tuple[Any, ...]:
    """P, L and U with a = P @ L @ U; P has no derivative."""
    p, l, u = decomposition.lu(finite(a, check_finite))
    if permute_l:
        return p @ l, u
    if p_indices:
        return np.argmax(p, axis=-1), l, u
    return p, l, u


# ----- Cholesky -----------------------------------------------------------------------------------------------------------


def _reads(a: Any, lower: bool) -> Any:
    """The Hermitian matrix that LAPACK takes from one triangle. As for NumPy's function, the gradient is that of a Hermitian matrix."""
    return a if lower else adjoint(a)


def cholesky(a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """The triangular factor: upper, a = u^H u, or with `lower` a = l l^H."""
    made = tensor_ops.cholesky(_reads(square("cholesky", a, check_finite), lower))
    return made if lower else adjoint(made)


def cho_factor(a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Any, bool]:
    """The factor and which triangle it is in, for `cho_solve`. The other triangle is zero (SciPy leaves what was there)."""
    return cholesky(a, lower, check_finite=check_finite), lower


def cho_solve(c_and_lower: tuple[Any, bool], b: Any, overwrite_b: bool = False, check_finite: bool = True) -> Any:
    """The x with a @ x = b from cho_factor's results."""
    factor, right = operands(finite(c_and_lower[0], check_finite), finite(b, check_finite))
    lower = bool(c_and_lower[1])

    def solver(c: Any, q: Any) -> Any:
        first, second = (c, adjoint(c)) if lower else (adjoint(c), c)
        return tensor_ops.solve_triangular(second, tensor_ops.solve_triangular(first, q, upper=False), upper=True)

    return times_columns(solver, factor, right)


def _dense(ab: Any, l: int, u: int) -> Any:
    """The matrix of given diagonals."""
    n = ab.shape[-1]
    rows = numpy.arange(n)[:, None] - numpy.arange(n)
    inside = (rows <= l) & (rows >= -u)
    return np.where(inside, ab[..., numpy.clip(rows + u, 0, l + u), numpy.arange(n)], 0.0)


def cholesky_banded(ab: Any, overwrite_ab: bool = False, lower: bool = False, check_finite: bool = True) -> Any:
    """The factor's diagonals from those of a Hermitian positive definite matrix; gradients are banded too."""
    bands = finite(ab, check_finite)
    if bands.ndim < 2:
        raise ValueError(f"cholesky_banded: expected the diagonals of a matrix as rows, and the shape is {bands.shape}.")
    count = bands.shape[-2] - 1
    if lower:
        return banded_cholesky.cholesky_banded(bands)
    factor = banded_cholesky.cholesky_banded(banded.adjoint_bands(bands, 0, count, tensor_ops))
    return banded.adjoint_bands(factor, count, 0, tensor_ops)


def cho_solve_banded(cb_and_lower: tuple[Any, bool], b: Any, overwrite_b: bool = False, check_finite: bool = True) -> Any:
    """The x with a @ x = b from cholesky_banded's factor."""
    factor, right = operands(finite(cb_and_lower[0], check_finite), finite(b, check_finite))
    lower = bool(cb_and_lower[1])
    count = factor.shape[-2] - 1

    def solver(c: Any, q: Any) -> Any:
        l, u = (count, 0) if lower else (0, count)
        other = banded.adjoint_bands(c, l, u, tensor_ops)
        first, second = (c, other) if lower else (other, c)
        return banded.solve_banded(second, banded.solve_banded(first, q, lower=count, upper=0), lower=0, upper=count)

    return times_columns(solver, factor, right)


# ----- QR -------------------------------------------------------------------------------------------------------------------


def qr(a: Any, overwrite_a: bool = False, lwork: Any = None, mode: str = "full", pivoting: bool = False, check_finite: bool = True) -> Any:
    """Q and R, and with `pivoting` the order of columns, which has no derivative.

    For more rows than columns mode="full" adds columns to Q that are any basis of the rest: a loss must not depend on them.
    """
    t = finite(a, check_finite)
    if mode not in ("full", "qr", "r", "economic", "raw"):
        raise ValueError(f"Mode argument should be one of ['full', 'r', 'economic', 'raw'], and is {mode!r}")
    if mode == "raw":
        raise NotImplementedError("qr(mode='raw') gives LAPACK's reflectors, which have no rule here. Use mode='economic' or 'r'.")
    order = None
    if pivoting:
        import scipy.linalg

        order = scipy.linalg.qr(values_of(t.detach()), mode="r", pivoting=True)[-1]
        t = np.take_along_axis(t, constant(order)[..., None, :], axis=-1)
    m = t.shape[-2]
    if mode in ("full", "qr"):
        found: tuple[Any, ...] = tuple(decomposition.qr(t, "complete"))
    else:
        q, r = decomposition.qr(t, "reduced")
        if mode == "r":
            r = np.pad(r, [(0, 0)] * (t.ndim - 2) + [(0, m - r.shape[-2]), (0, 0)])
        found = (r,) if mode == "r" else (q, r)
    return (*found, order) if order is not None else found


def qr_multiply(
    a: Any, c: Any, mode: str = "right", pivoting: bool = False, conjugate: bool = False, overwrite_a: bool = False,
    overwrite_c: bool = False,
) -> tuple[Any, ...]:  # fmt: skip
    """c @ q (mode "right") or q @ c (mode "left") and R, for the q of a QR factorisation."""
    q, r, *order = qr(a, mode="economic", pivoting=pivoting)
    if conjugate:
        q = q.conj()
    given = as_array(c)
    made = q @ given if mode == "left" else given @ q
    return made, r, *order


# ----- polar decomposition ------------------------------------------------------------------------------------------------------


def polar(a: Any, side: str = "right") -> tuple[Any, Any]:
    """u and p with a = u @ p (side "right") or a = p @ u ("left"): u unitary, p positive semidefinite."""
    if side not in ("right", "left"):
        raise ValueError("`side` must be either 'right' or 'left'")
    t = finite(a)
    u = matrix_root.polar_unitary(t)
    p = adjoint(u) @ t if side == "right" else t @ adjoint(u)
    return u, (p + adjoint(p)) / 2.0


def orthogonal_procrustes(A: Any, B: Any, check_finite: bool = True) -> tuple[Any, Any]:
    """The orthogonal matrix that turns A nearest to B, and the sum of the singular values of A^H B."""
    x, y = operands(finite(A, check_finite), finite(B, check_finite))
    if x.ndim != 2 or x.shape != y.shape:
        raise ValueError(f"the shapes of A and B differ ({x.shape} vs {y.shape})")
    product = adjoint(x) @ y
    turn = matrix_root.polar_unitary(product)
    return turn, (turn.conj() * product).sum().real
