"""Decompositions, as in torch.linalg: Cholesky, LU, QR, singular values, eigenvalues."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ndgrad._src.arrays.library import library_of
from ndgrad._src.core.detach_checks import at_stake
from ndgrad._src.core.saved import lift
from ndgrad._src.ops import arithmetic, comparison, extremum, product, selection, shape
from ndgrad._src.ops import decomposition as ops
from ndgrad._src.ops import index as index_ops
from ndgrad._src.ops import solve as solve_ops
from ndgrad._src.ops import triangle as triangle_ops
from ndgrad._src.ops.matrix import LinAlgError
from ndgrad._src.tensor import return_types
from ndgrad._src.tensor.functions import triangle
from ndgrad._src.tensor.functions.product import takes_out
from ndgrad._src.tensor.functions.solve import keep_successes
from ndgrad._src.tensor.matrix_arguments import (
    add_column,
    identity,
    payload,
    require_matrices,
    require_precision,
    require_square,
    require_system,
)
from ndgrad._src.tensor.matrix_arguments import adjoint as adjoint_of
from ndgrad._src.tensor.storage import values_to_check

if TYPE_CHECKING:
    from ndgrad._typing import Tensor


# ----- Cholesky, LU, QR -----------------------------------------------------------------------------------------------


@takes_out
def cholesky(A: Tensor, *, upper: bool = False, out: Tensor | None = None) -> Tensor:
    """Return the lower triangular L with L L^H = A (its adjoint with `upper`) for positive definite A. Only the lower
    triangle of A is read, or the upper one with `upper`.

    The gradient is Hermitian, because A is treated as an element of the Hermitian matrices.

    Args:
        A: Hermitian positive definite matrices of shape (..., n, n).
        upper: whether the upper triangular factor is returned.
        out: tensor that receives the result.

    Raises:
        LinAlgError: if a matrix is not positive definite.

    >>> import ndgrad
    >>> ndgrad.linalg.cholesky(ndgrad.tensor([[4.0, 2.0], [2.0, 10.0]]))
    tensor([[2., 0.],
            [1., 3.]])
    """
    require_square("cholesky", A)
    require_precision("cholesky", A)
    return adjoint_of(solve_ops.cholesky(adjoint_of(A))) if upper else solve_ops.cholesky(A)


def _require_pivoting(name: str, pivot: bool) -> None:
    if not pivot:
        raise RuntimeError(
            f"linalg.{name}: LU without pivoting is not implemented on the CPU: it is not stable. Leave pivot=True. "
            "[nd-unsupported]"
        )


@takes_out
def lu_factor(
    A: Tensor, *, pivot: bool = True, out: tuple[Tensor, Tensor] | None = None
) -> return_types.linalg_lu_factor:
    """Return L and U packed in one matrix, and the row exchanges counted from 1. A zero on the diagonal of U raises.

    Args:
        A: matrices of shape (..., m, n).
        pivot: whether rows are exchanged. It must be True, because factors without exchanges are not stable.
        out: tuple of tensors that receive the results.

    Raises:
        LinAlgError: if U has a zero on its diagonal.

    >>> import ndgrad
    >>> ndgrad.linalg.lu_factor(ndgrad.tensor([[1.0, 2.0], [2.0, 2.0]])).LU
    tensor([[2.0000, 2.0000],
            [0.5000, 1.0000]])
    """
    require_matrices("lu_factor", A)
    require_precision("lu_factor", A)
    _require_pivoting("lu_factor", pivot)
    packed, pivots = solve_ops.lu_factor(A)
    _require_pivots("lu_factor", packed)
    return return_types.linalg_lu_factor(packed, pivots)


def _require_pivots(name: str, packed: Tensor) -> None:
    """Raise if U has a zero on its diagonal, which would be a divisor."""
    diagonal = values_to_check(triangle.diagonal(shape.detach(packed), dim1=-2, dim2=-1))
    if diagonal is not None and (diagonal == 0).any():
        raise LinAlgError(
            f"linalg.{name}: U has a zero on its diagonal, and using it on lu_solve would result in a division by zero "
            f"(shape {tuple(packed.shape)}). Use lu_factor_ex() without check_errors to get the factors anyway. "
            "[nd-singular]"
        )


@takes_out
def lu_factor_ex(
    A: Tensor, *, pivot: bool = True, check_errors: bool = False, out: tuple[Tensor, Tensor, Tensor] | None = None
) -> return_types.linalg_lu_factor_ex:
    """`lu_factor`, with the index of the first zero on the diagonal of U in `info`, counted from 1, or 0.

    Args:
        A: matrices of shape (..., m, n).
        pivot: whether rows are exchanged. It must be True, because factors without exchanges are not stable.
        check_errors: whether a zero on the diagonal of U raises LinAlgError.
        out: tuple of tensors that receive the results.

    >>> import ndgrad
    >>> ndgrad.linalg.lu_factor_ex(ndgrad.tensor([[1.0, 2.0], [2.0, 4.0]])).info
    tensor(2, dtype=ndgrad.int32)
    """
    require_matrices("lu_factor_ex", A)
    require_precision("lu_factor_ex", A)
    _require_pivoting("lu_factor_ex", pivot)
    packed, pivots = solve_ops.lu_factor(A)
    zero = comparison.eq(triangle.diagonal(shape.detach(packed), dim1=-2, dim2=-1), 0)
    count = zero.shape[-1]
    numbers = lift(library_of(payload(A)).arange(1, count + 1, dtype="int32"))
    first = extremum.amin(selection.where(zero, numbers, count + 1), dim=(A.ndim - 2,)) if count else None
    if first is None:
        info = lift(library_of(payload(A)).zeros(tuple(A.shape[:-2]), "int32"))
    else:
        info = selection.where(comparison.gt(first, count), 0, first)
    if check_errors:
        _require_pivots("lu_factor_ex", packed)
    return return_types.linalg_lu_factor_ex(packed, pivots, info)


@takes_out
def lu(A: Tensor, *, pivot: bool = True, out: tuple[Tensor, Tensor, Tensor] | None = None) -> return_types.linalg_lu:
    """The factors of A = P L U.

    Args:
        A: matrices of shape (..., m, n).
        pivot: whether rows are exchanged. It must be True, because factors without exchanges are not stable.
        out: tuple of tensors that receive the results.

    Returns:
        P of shape (..., m, m), L of shape (..., m, k) and U of shape (..., k, n), with k = min(m, n).

    >>> import ndgrad
    >>> P, L, U = ndgrad.linalg.lu(ndgrad.tensor([[1.0, 2.0], [2.0, 2.0]]))
    >>> P @ L @ U
    tensor([[1., 2.],
            [2., 2.]])
    """
    require_matrices("lu", A)
    require_precision("lu", A)
    _require_pivoting("lu", pivot)
    return return_types.linalg_lu(*lu_unpack(*solve_ops.lu_factor(A)))


@takes_out
def lu_unpack(
    LU_data: Tensor,
    LU_pivots: Tensor,
    unpack_data: bool = True,
    unpack_pivots: bool = True,
    *,
    out: tuple[Tensor, Tensor, Tensor] | None = None,
) -> return_types.lu_unpack:
    """Return P, L and U from packed factors and row exchanges; parts not unpacked are empty.

    Args:
        LU_data: packed factors of shape (..., m, n), as `linalg.lu_factor` returns them.
        LU_pivots: row exchanges of shape (..., min(m, n)), as `linalg.lu_factor` returns them.
        unpack_data: whether L and U are returned.
        unpack_pivots: whether P is returned.
        out: tuple of tensors that receive the results.

    >>> import ndgrad
    >>> A = ndgrad.tensor([[1.0, 2.0], [2.0, 2.0]])
    >>> ndgrad.lu_unpack(*ndgrad.linalg.lu_factor(A)).U
    tensor([[2., 2.],
            [0., 1.]])
    """
    m, n = LU_data.shape[-2:]
    k = min(m, n)
    empty = lift(library_of(payload(LU_data)).empty((0,), dtype=payload(LU_data).dtype))
    P = L = U = empty
    if unpack_pivots:
        P = solve_ops.exchange_rows(identity(LU_data, m, tuple(LU_data.shape[:-2])), LU_pivots, back=True)
    if unpack_data:
        left = LU_data if n == k else index_ops.getitem(LU_data, index=(Ellipsis, slice(None), slice(0, k)))
        upper = LU_data if m == k else index_ops.getitem(LU_data, index=(Ellipsis, slice(0, k), slice(None)))
        ones = identity(LU_data, m)
        ones = ones if m == k else index_ops.getitem(ones, index=(slice(None), slice(0, k)))
        L = arithmetic.add(triangle_ops.tril(left, diagonal=-1), ones)
        U = triangle_ops.triu(upper, diagonal=0)
    return return_types.lu_unpack(P, L, U)


@takes_out
def lu_solve(
    LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False, out: Tensor | None = None
) -> Tensor:
    """Solve A X = B (X A = B unless `left`; A^H instead of A with `adjoint`), given lu_factor(A).

    Args:
        LU: packed factors of shape (..., n, n), as `lu_factor` returns them.
        pivots: row exchanges of shape (..., n), as `lu_factor` returns them.
        B: right-hand sides of shape (..., n, k), or (..., k, n) if `left` is False.
        left: whether A is on the left of X.
        adjoint: whether A is replaced by its adjoint.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> LU, pivots = ndgrad.linalg.lu_factor(ndgrad.tensor([[0.0, 2.0], [4.0, 0.0]]))
    >>> ndgrad.linalg.lu_solve(LU, pivots, ndgrad.tensor([[2.0], [8.0]]))
    tensor([[2.],
            [1.]])
    """
    require_square("lu_solve", LU, "LU")
    require_matrices("lu_solve", B, "B")
    require_system("lu_solve", LU, B, left)
    if not left:
        # X A = B is A^H X^H = B^H
        return adjoint_of(lu_solve(LU, pivots, adjoint_of(B), adjoint=not adjoint))
    if adjoint:
        y = solve_ops.solve_triangular(adjoint_of(LU), B, upper=False, unitriangular=False)
        y = solve_ops.solve_triangular(adjoint_of(LU), y, upper=True, unitriangular=True)
        return solve_ops.exchange_rows(y, pivots, back=True)
    y = solve_ops.exchange_rows(B, pivots, back=False)
    y = solve_ops.solve_triangular(LU, y, upper=False, unitriangular=True)
    return solve_ops.solve_triangular(LU, y, upper=True, unitriangular=False)


@takes_out
def qr(A: Tensor, mode: str = "reduced", *, out: tuple[Tensor, Tensor] | None = None) -> return_types.linalg_qr:
    """Return Q with orthonormal columns and upper triangular R, A = Q R.

    Modes: "reduced"; "complete" (a square Q, which has no derivative if A has more rows than columns); "r" (an empty
    Q). The first min(m, n) columns of A must be independent for a derivative to exist.

    Args:
        A: matrices of shape (..., m, n).
        mode: one of the above.
        out: tuple of tensors that receive the results.

    >>> import ndgrad
    >>> Q, R = ndgrad.linalg.qr(ndgrad.tensor([[3.0], [4.0]]))
    >>> (Q @ R).round(decimals=4)
    tensor([[3.],
            [4.]])
    """
    require_matrices("qr", A)
    require_precision("qr", A)
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(
            f"qr received unrecognized mode {mode!r} but expected one of 'reduced' (default), 'r', or 'complete'. "
            "[nd-option]"
        )
    if mode == "r":
        R = ops.qr(A, mode="reduced")[1]
        return return_types.linalg_qr(lift(library_of(payload(A)).empty((0,), dtype=payload(R).dtype)), R)
    return return_types.linalg_qr(*ops.qr(A, mode=mode))


@takes_out
def householder_product(A: Tensor, tau: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the first columns of the product of the reflections I - tau_i v_i v_i^H, with v_i below the
    diagonal of column i of A.

    Args:
        A: tensor of shape (..., m, n) whose columns hold the vectors. m must be at least n.
        tau: factors of shape (..., k), with k <= n.
        out: tensor that receives the result.

    Returns:
        A tensor of shape (..., m, n).

    >>> import ndgrad
    >>> ndgrad.linalg.householder_product(ndgrad.tensor([[1.0], [0.0]]), ndgrad.tensor([2.0]))
    tensor([[-1.],
            [ 0.]])
    """
    require_matrices("householder_product", A)
    m, n = A.shape[-2:]
    k = tau.shape[-1]
    if m < n or k > n:
        raise RuntimeError(
            "linalg.householder_product: A must have at least as many rows as columns, and tau at most as many entries "
            f"as A columns; the shapes are {tuple(A.shape)} and {tuple(tau.shape)}. [nd-shape]"
        )
    ones = identity(A, m)
    out = shape.expand(index_ops.getitem(ones, index=(slice(None), slice(0, n))), shape=tuple(A.shape))
    below = triangle_ops.tril(A, diagonal=-1)
    for i in reversed(range(k)):
        column = (Ellipsis, slice(None), slice(i, i + 1))
        v = arithmetic.add(
            index_ops.getitem(below, index=column), index_ops.getitem(ones, index=(slice(None), slice(i, i + 1)))
        )
        factor = add_column(index_ops.getitem(tau, index=(Ellipsis, slice(i, i + 1))))
        out = arithmetic.sub(out, arithmetic.mul(factor, product.matmul(v, product.matmul(adjoint_of(v), out))))
    return out


@takes_out
def cholesky_ex(
    A: Tensor, *, upper: bool = False, check_errors: bool = False, out: tuple[Tensor, Tensor] | None = None
) -> return_types.linalg_cholesky_ex:
    """Return the Cholesky factor, and in `info` the order of the first non-positive leading minor, or 0.

    The factor of a matrix that is not positive definite is unfinished, as LAPACK leaves it.

    Args:
        A: Hermitian matrices of shape (..., n, n).
        upper: whether the upper triangular factor is returned.
        check_errors: whether a matrix that is not positive definite raises LinAlgError.
        out: tuple of tensors that receive the results.

    >>> import ndgrad
    >>> ndgrad.linalg.cholesky_ex(ndgrad.tensor([[[4.0]], [[-1.0]]])).info
    tensor([0, 1], dtype=ndgrad.int32)
    """
    require_square("cholesky_ex", A)
    require_precision("cholesky_ex", A)
    try:
        return return_types.linalg_cholesky_ex(cholesky(A, upper=upper), _zero_info(A))
    except LinAlgError:
        if check_errors:
            raise
    array = payload(A)
    matrices = array.conj().swapaxes(-1, -2) if upper else array
    unfinished, info = solve_ops.factor_as_far_as_possible(library_of(array), matrices)
    unfinished = lift(unfinished.conj().swapaxes(-1, -2) if upper else unfinished)
    return return_types.linalg_cholesky_ex(
        keep_successes(lambda a: cholesky(a, upper=upper), A, info, unfinished), lift(info)
    )


def _zero_info(A: Tensor) -> Tensor:
    library = library_of(payload(A))
    return lift(library.zeros(tuple(A.shape[:-2]), library.int32))


# ----- singular values and eigenvalues --------------------------------------------------------------------------------


@takes_out
def svd(
    A: Tensor,
    full_matrices: bool = True,
    *,
    driver: str | None = None,
    out: tuple[Tensor, Tensor, Tensor] | None = None,
) -> return_types.linalg_svd:
    """Return U, S and Vh with A = U diag(S) Vh, singular values in descending order.

    The signs (phases) of singular vectors are arbitrary, and a loss must not depend on them. If two singular values are
    equal, or one is zero in a non-square matrix, the vectors have no derivative, and a loss that uses them raises.

    Args:
        A: matrices of shape (..., m, n).
        full_matrices: whether U and Vh are square. If False, they have k = min(m, n) columns and rows.
        driver: must be None. There is no choice of routines.
        out: tuple of tensors that receive the results.

    Returns:
        U of shape (..., m, m) or (..., m, k), S of shape (..., k), and Vh of shape (..., n, n) or (..., k, n).

    >>> import ndgrad
    >>> U, S, Vh = ndgrad.linalg.svd(ndgrad.tensor([[3.0, 0.0], [0.0, 4.0]]))
    >>> S, (U * S) @ Vh
    (tensor([4., 3.]), tensor([[3., 0.],
            [0., 4.]]))
    """
    require_matrices("svd", A)
    require_precision("svd", A)
    _check_driver("svd", driver)
    return return_types.linalg_svd(*ops.svd(A, full_matrices=full_matrices))


def _check_driver(name: str, driver: str | None) -> None:
    if driver is not None:
        raise RuntimeError(
            f"linalg.{name}: keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER backend. "
            "Leave it out. [nd-option]"
        )


@takes_out
def svdvals(A: Tensor, *, driver: str | None = None, out: Tensor | None = None) -> Tensor:
    """Return singular values in descending order. They have derivatives even if some are equal.

    Args:
        A: matrices of shape (..., m, n).
        driver: must be None. There is no choice of routines.
        out: tensor that receives the result.

    Returns:
        A tensor of shape (..., min(m, n)).

    >>> import ndgrad
    >>> ndgrad.linalg.svdvals(ndgrad.tensor([[3.0, 0.0], [0.0, -4.0]]))
    tensor([4., 3.])
    """
    require_matrices("svdvals", A)
    require_precision("svdvals", A)
    _check_driver("svdvals", driver)
    # A gradient needs the vectors, so they are computed at once.
    return ops.svd(A, full_matrices=False)[1] if at_stake(A) else ops.svdvals(A)


def _parse_triangle(UPLO: str) -> str:
    if str(UPLO).upper() not in ("L", "U"):
        raise RuntimeError(
            f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}. It names the triangle that is read. [nd-option]"
        )
    return str(UPLO).upper()


@takes_out
def eigh(A: Tensor, UPLO: str = "L", *, out: tuple[Tensor, Tensor] | None = None) -> return_types.linalg_eigh:
    """Return eigenvalues, ascending, and eigenvectors of Hermitian matrices. Only the triangle UPLO is read.

    The signs (phases) of eigenvectors are arbitrary, and a loss must not depend on them. If two eigenvalues are equal,
    eigenvectors have no derivative, and a loss that uses them raises. The gradient is Hermitian.

    Args:
        A: Hermitian matrices of shape (..., n, n).
        UPLO: triangle that is read, `"L"` for the lower and `"U"` for the upper one.
        out: tuple of tensors that receive the results.

    Returns:
        Real eigenvalues of shape (..., n), and eigenvectors in the columns of a tensor of shape (..., n, n).

    >>> import ndgrad
    >>> ndgrad.linalg.eigh(ndgrad.tensor([[2.0, 0.0], [0.0, 1.0]])).eigenvalues
    tensor([1., 2.])
    """
    require_square("eigh", A)
    require_precision("eigh", A)
    return return_types.linalg_eigh(*ops.eigh(A, UPLO=_parse_triangle(UPLO)))


@takes_out
def eigvalsh(A: Tensor, UPLO: str = "L", *, out: Tensor | None = None) -> Tensor:
    """Return eigenvalues of Hermitian matrices, ascending. They have derivatives even if some are equal.

    Args:
        A: Hermitian matrices of shape (..., n, n).
        UPLO: triangle that is read, `"L"` for the lower and `"U"` for the upper one.
        out: tensor that receives the result.

    Returns:
        A real tensor of shape (..., n).

    >>> import ndgrad
    >>> ndgrad.linalg.eigvalsh(ndgrad.tensor([[2.0, 0.0], [0.0, 1.0]]))
    tensor([1., 2.])
    """
    require_square("eigvalsh", A)
    require_precision("eigvalsh", A)
    triangle = _parse_triangle(UPLO)
    # A gradient needs the vectors, so they are computed at once.
    return ops.eigh(A, UPLO=triangle)[0] if at_stake(A) else ops.eigvalsh(A, UPLO=triangle)


@takes_out
def eig(A: Tensor, *, out: tuple[Tensor, Tensor] | None = None) -> return_types.linalg_eig:
    """Return eigenvalues and eigenvectors (of norm one) of square matrices, always complex.

    Args:
        A: square matrices of shape (..., n, n).
        out: tuple of tensors that receive the results.

    Returns:
        Eigenvalues of shape (..., n) in no particular order, and eigenvectors in the columns of a tensor of shape (...,
        n, n).

    >>> import ndgrad
    >>> ndgrad.linalg.eig(ndgrad.tensor([[2.0, 0.0], [0.0, 3.0]])).eigenvalues
    tensor([2.+0.j, 3.+0.j])
    """
    require_square("eig", A)
    require_precision("eig", A)
    return return_types.linalg_eig(*ops.eig(A))


@takes_out
def eigvals(A: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return eigenvalues of square matrices, always complex.

    Args:
        A: square matrices of shape (..., n, n).
        out: tensor that receives the result.

    Returns:
        A complex tensor of shape (..., n), in no particular order.

    >>> import ndgrad
    >>> ndgrad.linalg.eigvals(ndgrad.tensor([[0.0, -1.0], [1.0, 0.0]])).imag.abs()
    tensor([1., 1.])
    """
    require_square("eigvals", A)
    require_precision("eigvals", A)
    # Compute eigenvectors too: LAPACK may order eigenvalues alone differently, and derivatives need both.
    return ops.eig(A)[0]
