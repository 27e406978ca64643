"""Linear algebra under torch's names outside of torch.linalg; several have older arguments and results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, overload

import numpy as np

from ndgrad._src.core.variable import np_dtype, wrap_like
from ndgrad._src.ops import shape
from ndgrad._src.ops import solve as solve_ops
from ndgrad._src.ops.matrix import LinAlgError
from ndgrad._src.tensor import return_types
from ndgrad._src.tensor.functions import decomposition, linalg, solve, triangle
from ndgrad._src.tensor.functions.decomposition import lu_unpack
from ndgrad._src.tensor.functions.product import takes_out
from ndgrad._src.tensor.matrix_arguments import (
    adjoint,
    identity,
    require_matrices,
    require_square,
    require_system,
    transpose_matrices,
)
from ndgrad._src.tensor.storage import values_to_check

if TYPE_CHECKING:
    from ndgrad._typing import Tensor

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


@takes_out
def inverse(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The inverse of square matrices: `linalg.inv`.

    Args:
        input: square matrices of shape (..., n, n).
        out: tensor that receives the result.

    Raises:
        LinAlgError: if a matrix is singular.

    >>> import ndgrad
    >>> ndgrad.inverse(ndgrad.tensor([[2.0, 0.0], [0.0, 4.0]])).diagonal()
    tensor([0.5000, 0.2500])
    """
    return solve.inv(input)


def pinverse(input: Tensor, rcond: float = 1e-15) -> Tensor:
    """The pseudoinverse. Singular values up to rcond times the largest count as zero: `linalg.pinv`.

    Args:
        input: matrices of shape (..., m, n).
        rcond: tolerance relative to the largest singular value.

    Returns:
        A tensor of shape (..., n, m).

    >>> import ndgrad
    >>> ndgrad.pinverse(ndgrad.tensor([[2.0], [0.0]]))
    tensor([[0.5000, 0.0000]])
    """
    return solve.pinv(input, rcond)


@takes_out
def cholesky(input: Tensor, upper: bool = False, *, out: Tensor | None = None) -> Tensor:
    """The Cholesky factor of positive definite matrices: `linalg.cholesky`.

    Args:
        input: Hermitian positive definite matrices of shape (..., n, n).
        upper: whether the upper triangular factor is returned.
        out: tensor that receives the result.

    Raises:
        LinAlgError: if a matrix is not positive definite.

    >>> import ndgrad
    >>> ndgrad.cholesky(ndgrad.tensor([[4.0, 2.0], [2.0, 10.0]]))
    tensor([[2., 0.],
            [1., 3.]])
    """
    return decomposition.cholesky(input, upper=upper)


@takes_out
def cholesky_solve(input: Tensor, L: Tensor, upper: bool = False, *, out: Tensor | None = None) -> Tensor:
    """Solve A X = B, given the Cholesky factor of A.

    Args:
        input: right-hand sides B of shape (..., n, k).
        L: Cholesky factors of A, of shape (..., n, n).
        upper: whether `L` is upper triangular.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.cholesky_solve(ndgrad.tensor([[8.0]]), ndgrad.tensor([[2.0]]))
    tensor([[2.]])
    """
    require_matrices("cholesky_solve", input, "B")
    require_square("cholesky_solve", L, "L")
    require_system("cholesky_solve", L, input, True)
    lower = adjoint(L) if upper else L
    y = solve_ops.solve_triangular(lower, input, upper=False, unitriangular=False)
    return solve_ops.solve_triangular(adjoint(lower), y, upper=True, unitriangular=False)


@takes_out
def cholesky_inverse(L: Tensor, upper: bool = False, *, out: Tensor | None = None) -> Tensor:
    """The inverse of A, given its Cholesky factor.

    Args:
        L: Cholesky factors of shape (..., n, n).
        upper: whether `L` is upper triangular.
        out: tensor that receives the result.

    Raises:
        LinAlgError: if the diagonal of a factor has a zero.

    >>> import ndgrad
    >>> ndgrad.cholesky_inverse(ndgrad.tensor([[2.0]]))
    tensor([[0.2500]])
    """
    require_square("cholesky_inverse", L, "L")
    diagonal = values_to_check(shape.detach(triangle.diagonal(L, dim1=-2, dim2=-1)))
    if diagonal is not None and (diagonal == 0).any():
        raise LinAlgError(
            f"cholesky_inverse: a factor has a zero on its diagonal (shape {tuple(L.shape)}): a singular matrix. "
            "Check that it is a Cholesky factor. [nd-singular]"
        )
    return cholesky_solve(identity(L, L.shape[-1]), L, upper)


@overload
def lu(
    A: Tensor, pivot: bool = True, get_infos: Literal[False] = False, *, out: tuple[Tensor, ...] | None = None
) -> return_types.linalg_lu_factor: ...


@overload
def lu(
    A: Tensor, pivot: bool = True, *, get_infos: Literal[True], out: tuple[Tensor, ...] | None = None
) -> tuple[Tensor, Tensor, Tensor]: ...


@overload
def lu(
    A: Tensor, pivot: bool, get_infos: Literal[True], *, out: tuple[Tensor, ...] | None = None
) -> tuple[Tensor, Tensor, Tensor]: ...


@takes_out
def lu(
    A: Tensor, pivot: bool = True, get_infos: bool = False, *, out: tuple[Tensor, ...] | None = None
) -> return_types.linalg_lu_factor | tuple[Tensor, Tensor, Tensor]:
    """Packed factors and row exchanges; with `get_infos`, also the first zero pivots: `linalg.lu_factor_ex`.

    Args:
        A: matrices of shape (..., m, n).
        pivot: whether rows are exchanged. It must be True, because factors without exchanges are not stable.
        get_infos: whether the index of the first zero pivot, counted from 1, is returned too.
        out: tuple of tensors that receive the results.

    >>> import ndgrad
    >>> ndgrad.tensor([[1.0, 2.0], [2.0, 2.0]]).lu().LU
    tensor([[2.0000, 2.0000],
            [0.5000, 1.0000]])
    """
    packed, pivots, info = decomposition.lu_factor_ex(A, pivot=pivot)
    return (packed, pivots, info) if get_infos else return_types.linalg_lu_factor(packed, pivots)


@takes_out
def lu_solve(b: Tensor, LU_data: Tensor, LU_pivots: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Solve A X = b, given the packed factors of A.

    Args:
        b: right-hand sides of shape (..., n, k).
        LU_data: packed factors of shape (..., n, n), as `lu` returns them.
        LU_pivots: row exchanges of shape (..., n), as `lu` returns them.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> A = ndgrad.tensor([[0.0, 2.0], [4.0, 0.0]])
    >>> ndgrad.lu_solve(ndgrad.tensor([[2.0], [4.0]]), *A.lu())
    tensor([[1.],
            [1.]])
    """
    return decomposition.lu_solve(LU_data, LU_pivots, b)


@takes_out
def triangular_solve(
    b: Tensor,
    A: Tensor,
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
    *,
    out: tuple[Tensor, Tensor] | None = None,
) -> return_types.triangular_solve:
    """Solve A X = b (A^T X = b with `transpose`) for triangular A; return X and A: `linalg.solve_triangular`.

    Args:
        b: right-hand sides of shape (..., n, k).
        A: triangular matrices of shape (..., n, n). The other triangle is ignored.
        upper: whether A is upper triangular.
        transpose: whether A is transposed.
        unitriangular: whether the diagonal of A counts as ones and is not read.
        out: tuple of tensors that receive the results.

    >>> import ndgrad
    >>> ndgrad.triangular_solve(ndgrad.tensor([[3.0], [2.0]]), ndgrad.tensor([[1.0, 1.0], [0.0, 2.0]])).solution
    tensor([[2.],
            [1.]])
    """
    matrix = A
    if transpose:
        matrix, upper = transpose_matrices(A), not upper
    return return_types.triangular_solve(
        solve.solve_triangular(matrix, b, upper=upper, unitriangular=unitriangular), A.clone()
    )


@takes_out
def qr(input: Tensor, some: bool = True, *, out: tuple[Tensor, Tensor] | None = None) -> return_types.qr:
    """The reduced QR factors, or with some=False the complete ones: `linalg.qr`.

    Args:
        input: matrices of shape (..., m, n).
        some: whether Q has min(m, n) columns instead of m.
        out: tuple of tensors that receive the results.

    >>> import ndgrad
    >>> ndgrad.qr(ndgrad.tensor([[3.0], [4.0]])).R.abs()
    tensor([[5.]])
    """
    return return_types.qr(*decomposition.qr(input, "reduced" if some else "complete"))


@takes_out
def svd(
    input: Tensor, some: bool = True, compute_uv: bool = True, *, out: tuple[Tensor, Tensor, Tensor] | None = None
) -> return_types.svd:
    """U, S and V (`linalg.svd` returns the adjoint of V). Without `compute_uv`, U and V are zeros.

    Args:
        input: matrices of shape (..., m, n).
        some: whether U and V have min(m, n) columns instead of m and n.
        compute_uv: whether U and V are computed.
        out: tuple of tensors that receive the results.

    >>> import ndgrad
    >>> ndgrad.svd(ndgrad.tensor([[3.0, 0.0], [0.0, 4.0]])).S
    tensor([4., 3.])
    """
    if not compute_uv:
        values = decomposition.svdvals(input)
        m, n = input.shape[-2:]
        batch = tuple(input.shape[:-2])
        u, v = (wrap_like(input, np.zeros((*batch, k, k), np_dtype(input))) for k in (m, n))
        return return_types.svd(u, values, v)
    u, s, vh = decomposition.svd(input, full_matrices=not some)
    return return_types.svd(u, s, adjoint(vh))


def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """The matrix of powers of a vector's entries, highest first unless `increasing`.

    Args:
        x: vector of n entries.
        N: number of powers. The default is n.
        increasing: whether the powers start at 0 and increase.

    Returns:
        A tensor of shape (n, N).

    >>> import ndgrad
    >>> ndgrad.vander(ndgrad.tensor([2.0, 3.0]), 3)
    tensor([[4., 2., 1.],
            [9., 3., 1.]])
    """
    if x.ndim != 1:
        raise RuntimeError(
            f"vander: x must be a one-dimensional tensor, but has shape {tuple(x.shape)}. linalg.vander takes batches. "
            "[nd-ndim]"
        )
    return linalg.powers("vander", x, N, increasing=increasing)
