"""Linear algebra under the names torch keeps outside of torch.linalg; several have older argument forms and results."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ndgrad.api import decomposition, linalg, solve
from ndgrad.api.decomposition import QR, LUFactor, lu_unpack
from ndgrad.api.matrix_arguments import adjoint, identity, require_matrices, require_square, require_system, transposed
from ndgrad.api.product import takes_out
from ndgrad.autograd.variable import beside, np_dtype
from ndgrad.ops import solve as solve_ops

__all__ = [
    "cholesky", "cholesky_inverse", "cholesky_solve", "det", "inverse", "logdet", "lu", "lu_solve", "lu_unpack",
    "matrix_exp", "matrix_power", "orgqr",
    "pinverse", "qr", "slogdet", "svd", "triangular_solve", "vander",
]  # fmt: skip
METHODS = (
    "cholesky", "cholesky_inverse", "cholesky_solve", "det", "inverse", "logdet", "lu", "lu_solve", "matrix_exp",
    "matrix_power", "orgqr",
    "pinverse", "qr", "slogdet", "svd", "triangular_solve",
)  # fmt: skip

det, slogdet, logdet = linalg.det, linalg.slogdet, linalg.logdet
matrix_exp, matrix_power = linalg.matrix_exp, linalg.matrix_power
orgqr = decomposition.householder_product


class SVD(NamedTuple):
    """Factors U diag(S) V^H: the third is V itself."""

    U: Any
    S: Any
    V: Any


class TriangularSolve(NamedTuple):
    """A solution, and the matrix it belongs to."""

    solution: Any
    cloned_coefficient: Any


@takes_out
def inverse(input: Any) -> Any:
    """The inverse of square matrices: linalg.inv."""
    return solve.inv(input)


def pinverse(input: Any, rcond: float = 1e-15) -> Any:
    """The pseudoinverse: linalg.pinv."""
    return solve.pinv(input, rcond)


@takes_out
def cholesky(input: Any, upper: bool = False) -> Any:
    """The Cholesky factor: linalg.cholesky."""
    return decomposition.cholesky(input, upper=upper)


@takes_out
def cholesky_solve(input: Any, L: Any, upper: bool = False) -> Any:
    """The X with A X = input, from the Cholesky factor of A."""
    require_matrices("cholesky_solve", input, "B")
    require_square("cholesky_solve", L, "L")
    require_system("cholesky_solve", L, input, True)
    lower = adjoint(L) if upper else L
    y = solve_ops.solve_triangular(lower, input, upper=False, unitriangular=False)
    return solve_ops.solve_triangular(adjoint(lower), y, upper=True, unitriangular=False)


@takes_out
def cholesky_inverse(L: Any, upper: bool = False) -> Any:
    """The inverse of A, from its Cholesky factor."""
    require_square("cholesky_inverse", L, "L")
    return cholesky_solve(identity(L, L.shape[-1]), L, upper)


def lu(A: Any, pivot: bool = True, get_infos: bool = False) -> Any:
    """Packed factors and row exchanges (and zeros for the infos): linalg.lu_factor."""
    factors = decomposition.lu_factor(A, pivot=pivot)
    if not get_infos:
        return LUFactor(*factors)
    return (*factors, beside(A, np.zeros(tuple(A.shape[:-2]), np.int32)))


@takes_out
def lu_solve(b: Any, LU_data: Any, LU_pivots: Any) -> Any:
    """The X with A X = b, from the packed factors of A."""
    return decomposition.lu_solve(LU_data, LU_pivots, b)


def triangular_solve(
    b: Any, A: Any, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> TriangularSolve:
    """The X with A X = b (A^T X = b with `transpose`) for triangular A, and A: linalg.solve_triangular."""
    matrix = A
    if transpose:
        matrix, upper = transposed(A), not upper
    return TriangularSolve(solve.solve_triangular(matrix, b, upper=upper, unitriangular=unitriangular), A.clone())


@takes_out
def qr(input: Any, some: bool = True) -> QR:
    """The reduced QR factors, or the complete ones: linalg.qr."""
    return QR(*decomposition.qr(input, "reduced" if some else "complete"))


@takes_out
def svd(input: Any, some: bool = True, compute_uv: bool = True) -> SVD:
    """U, S and V (not its adjoint): linalg.svd. Without `compute_uv`, U and V are zeros."""
    if not compute_uv:
        values = decomposition.svdvals(input)
        m, n = input.shape[-2:]
        batch = tuple(input.shape[:-2])
        u, v = (beside(input, np.zeros((*batch, k, k), np_dtype(input))) for k in (m, n))
        return SVD(u, values, v)
    u, s, vh = decomposition.svd(input, full_matrices=not some)
    return SVD(u, s, adjoint(vh))


def vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:
    """The matrix of powers of the entries of a vector, the highest first unless `increasing`."""
    if x.ndim != 1:
        raise RuntimeError(
            f"vander: x must be a one-dimensional tensor, and has shape {tuple(x.shape)}. linalg.vander takes batches."
        )
    return linalg.powers("vander", x, N, increasing=increasing)
