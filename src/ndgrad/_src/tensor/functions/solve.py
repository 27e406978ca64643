"""Inverses and solutions of linear systems, as in torch.linalg.

Matrices are the last two dimensions; all earlier ones are a batch. Functions are composed of others if possible
(lstsq, tensorsolve): compositions need no rules and have every derivative.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.arrays.library import library_of
from ndgrad._src.arrays.precision import real_dtype
from ndgrad._src.core.saved import lift
from ndgrad._src.core.variable import np_dtype
from ndgrad._src.ops import arithmetic, cast, decomposition, product, reduce, selection, shape
from ndgrad._src.ops import complex as complex_ops
from ndgrad._src.ops import index as index_ops
from ndgrad._src.ops import solve as ops
from ndgrad._src.ops.matrix import LinAlgError
from ndgrad._src.tensor import return_types
from ndgrad._src.tensor.arguments import as_dim
from ndgrad._src.tensor.functions.product import conjugate, takes_out
from ndgrad._src.tensor.matrix_arguments import (
    add_column,
    adjoint,
    count_above,
    drop_column,
    identity,
    is_vector,
    payload,
    precision,
    require_matrices,
    require_precision,
    require_square,
    require_system,
    tolerances,
    transpose_matrices,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ndgrad._typing import Tensor


# ----- inverses and solutions -----------------------------------------------------------------------------------------


@takes_out
def inv(A: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The inverse of square matrices.

    Args:
        A: square matrices of shape (..., n, n).
        out: tensor that receives the result.

    Raises:
        LinAlgError: if a matrix is singular.

    >>> import ndgrad
    >>> ndgrad.linalg.inv(ndgrad.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])
    """
    require_square("inv", A)
    require_precision("inv", A)
    return ops.inv(A)


@takes_out
def solve(A: Tensor, B: Tensor, *, left: bool = True, out: Tensor | None = None) -> Tensor:
    """Solve A X = B (X A = B unless `left`), for one or several right-hand sides.

    Args:
        A: square matrices of shape (..., n, n).
        B: right-hand sides of shape (..., n, k), or vectors of shape (n,) or (..., n).
        left: whether A is on the left of X.
        out: tensor that receives the result.

    Raises:
        LinAlgError: if a matrix is singular.

    >>> import ndgrad
    >>> ndgrad.linalg.solve(ndgrad.tensor([[2.0, 0.0], [0.0, 4.0]]), ndgrad.tensor([2.0, 2.0]))
    tensor([1.0000, 0.5000])
    """
    require_square("solve", A)
    require_precision("solve", A)
    if B.ndim == 0:
        raise RuntimeError(
            f"linalg.solve: The input tensor B must have at least 1 dimension, but has shape {tuple(B.shape)}. "
            "[nd-ndim]"
        )
    vector = is_vector(A, B)
    if vector:
        B = add_column(B)
    require_system("solve", A, B, left)
    X = (
        ops.solve.strict(A, B)
        if left
        else transpose_matrices(ops.solve.strict(transpose_matrices(A), transpose_matrices(B)))
    )
    return drop_column(X) if vector else X


@takes_out
def solve_triangular(
    A: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False, out: Tensor | None = None
) -> Tensor:
    """Solve A X = B (X A = B unless `left`) for triangular A; the other triangle is ignored.

    Args:
        A: triangular matrices of shape (..., n, n).
        B: right-hand sides of shape (..., n, k), or (..., k, n) if `left` is False.
        upper: whether A is upper triangular.
        left: whether A is on the left of X.
        unitriangular: whether the diagonal of A counts as ones and is not read.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> A = ndgrad.tensor([[1.0, 1.0], [0.0, 2.0]])
    >>> ndgrad.linalg.solve_triangular(A, ndgrad.tensor([[3.0], [2.0]]), upper=True)
    tensor([[2.],
            [1.]])
    """
    require_square("solve_triangular", A)
    require_matrices("solve_triangular", B, "B")
    require_system("solve_triangular", A, B, left)
    if left:
        return ops.solve_triangular.strict(A, B, upper=upper, unitriangular=unitriangular)
    return transpose_matrices(
        ops.solve_triangular.strict(
            transpose_matrices(A), transpose_matrices(B), upper=not upper, unitriangular=unitriangular
        )
    )


@takes_out
def pinv(
    A: Tensor,
    rcond: float | Tensor | None = None,
    hermitian: bool = False,
    *,
    atol: float | Tensor | None = None,
    rtol: float | Tensor | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """The pseudoinverse. Singular values up to max(atol, rtol * the largest) count as zero.

    By default rtol is the larger size times the precision of the dtype, or 0 if atol is given.

    Args:
        A: matrices of shape (..., m, n).
        rcond: old name of `rtol`.
        hermitian: whether the matrices are Hermitian. Their eigenvalues are computed then, which is faster.
        atol: absolute tolerance, a number or one for each matrix. The default is 0.
        rtol: tolerance relative to the largest singular value, a number or one for each matrix.
        out: tensor that receives the result.

    Returns:
        A tensor of shape (..., n, m).

    >>> import ndgrad
    >>> ndgrad.linalg.pinv(ndgrad.tensor([[2.0, 0.0], [0.0, 0.0]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.0000]])
    """
    require_matrices("pinv", A)
    require_precision("pinv", A)
    if rcond is not None:
        if rtol is not None:
            raise TypeError("linalg.pinv: got both rcond and rtol, which mean the same. Give rtol. [nd-exclusive]")
        rtol = rcond
    atol, rtol = tolerances(A, atol, rtol)
    return ops.pinv(A, atol, rtol, hermitian=hermitian)


@takes_out
def lstsq(
    A: Tensor,
    B: Tensor,
    rcond: float | None = None,
    *,
    driver: str | None = None,
    out: tuple[Tensor, Tensor, Tensor, Tensor] | None = None,
) -> return_types.linalg_lstsq:
    """Solve min |A X - B|; of several solutions, return the one of least norm.

    The results are torch's: residuals if there are more equations than unknowns and the rank is full (drivers gels,
    gelsd, gelss), the rank (all drivers but gels), the singular values (gelsd, gelss).

    Args:
        A: matrices of shape (..., m, n).
        B: right-hand sides of shape (..., m, k), or vectors of shape (m,) or (..., m).
        rcond: tolerance relative to the largest singular value, below which a singular value counts as zero. The
            default is max(m, n) times the precision of the dtype.
        driver: name of the LAPACK routine whose results are returned: `"gels"`, `"gelsy"`, `"gelsd"` or `"gelss"`.
            `"gels"` assumes full rank and ignores `rcond` if m >= n. The default returns what `"gelsy"` does.
        out: tuple of tensors that receive the results.

    >>> import ndgrad
    >>> A = ndgrad.tensor([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]])
    >>> ndgrad.linalg.lstsq(A, ndgrad.tensor([[1.0], [3.0], [5.0]])).solution.round(decimals=4)
    tensor([[1.],
            [2.]])
    """
    require_matrices("lstsq", A)
    require_precision("lstsq", A)
    if driver not in (None, "gels", "gelsy", "gelsd", "gelss"):
        raise RuntimeError(
            f"linalg.lstsq: parameter `driver` should be one of (gels, gelsy, gelsd, gelss), but is {driver!r}. "
            "[nd-option]"
        )
    vector = is_vector(A, B)
    if vector:
        B = add_column(B)
    m, n = A.shape[-2:]
    if B.shape[-2] != m:
        raise RuntimeError(
            f"linalg.lstsq: A.size(-2) must match B.size(-2), but the shapes are {tuple(A.shape)} and "
            f"{tuple(B.shape)}. They need the same number of rows. [nd-shape]"
        )
    tolerance = max(m, n) * precision(np_dtype(A)) if rcond is None else float(rcond)
    if driver == "gels" and m >= n:
        Q, R = decomposition.qr(A, mode="reduced")
        X = ops.solve_triangular(R, product.matmul(adjoint(Q), B), upper=True, unitriangular=False)
    else:
        X = product.matmul(ops.pinv(A, 0.0, tolerance, hermitian=False), B)
    empty = lift(library_of(payload(A)).empty((0,), dtype=real_dtype(payload(A).dtype)))
    values, rank = empty, cast.cast(empty, dtype=np.dtype(np.int64))
    residuals = empty
    full = driver == "gels"
    if not full:
        found = decomposition.svdvals(A.detach())
        # Singular values are in descending order.
        rank = count_above(found, tolerance * index_ops.getitem(found, index=(Ellipsis, slice(0, 1))))
        values = found if driver in ("gelsd", "gelss") else empty
        full = bool((payload(rank) == n).all())
    if m > n and full and driver not in (None, "gelsy"):
        rest = arithmetic.sub(product.matmul(A, X), B)
        square = arithmetic.mul(conjugate(rest), rest)
        residuals = reduce.sum(complex_ops.real(square), dim=(square.ndim - 2,), keepdim=False)
    return return_types.linalg_lstsq(drop_column(X) if vector else X, residuals, rank, values)


@takes_out
def tensorinv(A: Tensor, ind: int = 2, *, out: Tensor | None = None) -> Tensor:
    """The inverse of A as a map from its last dimensions to its first `ind`.

    Args:
        A: tensor whose first `ind` sizes have the same product as the other sizes.
        ind: number of dimensions that form the rows.
        out: tensor that receives the result.

    Returns:
        A tensor of shape `A.shape[ind:] + A.shape[:ind]`.

    Raises:
        LinAlgError: if the map is singular.

    >>> import ndgrad
    >>> ndgrad.linalg.tensorinv(2 * ndgrad.eye(6).reshape(2, 3, 6)).shape
    ndgrad.Size([6, 2, 3])
    """
    if ind <= 0:
        raise RuntimeError(
            f"linalg.tensorinv: expected a strictly positive integer for 'ind', but got {ind}. [nd-range]"
        )
    first, last = tuple(A.shape[:ind]), tuple(A.shape[ind:])
    if math.prod(first) != math.prod(last):
        raise RuntimeError(
            f"linalg.tensorinv: expected prod(A.shape[:ind]) == prod(A.shape[ind:]), but the shape is {tuple(A.shape)} "
            f"with ind={ind} ({math.prod(first)} and {math.prod(last)}). Choose an ind that splits A into equal parts. "
            "[nd-shape]"
        )
    matrix = shape.reshape(A, shape=(math.prod(first), math.prod(last)))
    return shape.reshape(inv(matrix), shape=(*last, *first))


@takes_out
def tensorsolve(A: Tensor, B: Tensor, dims: Sequence[int] | None = None, *, out: Tensor | None = None) -> Tensor:
    """Solve tensordot(A, X, X.ndim) = B. The dimensions `dims` of A are first moved to its end.

    Args:
        A: tensor of shape `B.shape + X.shape`, after `dims` are moved.
        B: right-hand side.
        dims: dimensions of A that are moved to its end. The default is none.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.linalg.tensorsolve(2 * ndgrad.eye(4).reshape(2, 2, 4), ndgrad.ones(2, 2))
    tensor([0.5000, 0.5000, 0.5000, 0.5000])
    """
    if dims is not None:
        moved = [as_dim(d, A.ndim) for d in dims]
        A = shape.permute(A, dims=(*(i for i in range(A.ndim) if i not in moved), *moved))
    unknown = tuple(A.shape[B.ndim :])
    if math.prod(unknown) != math.prod(B.shape) or math.prod(B.shape) != math.prod(A.shape[: B.ndim]):
        raise RuntimeError(
            "linalg.tensorsolve: expected A to satisfy prod(A.shape[B.ndim:]) == B.numel(), but the shapes are "
            f"{tuple(A.shape)} and {tuple(B.shape)}. Use dims to bring A into that form. [nd-shape]"
        )
    size = math.prod(unknown)
    X = ops.solve(shape.reshape(A, shape=(size, size)), shape.reshape(B, shape=(size, 1)))
    return shape.reshape(X, shape=unknown)


# ----- variants that report errors instead of raising -----------------------------------------------------------------


def _solve_by_factors(A: Tensor, solve_good: Callable[[Tensor], Tensor], B: Tensor) -> tuple[Tensor, Tensor]:
    """Solve A X = B if some matrices are singular; return X and the first zero pivot of each matrix, counted from 1.

    Solutions with singular matrices contain infinities and NaN, as LAPACK's triangular solves leave them.
    """
    packed, pivots = ops.lu_factor(lift(payload(A)))
    y = ops.exchange_rows(lift(payload(B)), pivots, back=False)
    with np.errstate(all="ignore"):
        y = ops.solve_triangular(packed, y, upper=False, unitriangular=True)
        unusable = ops.solve_triangular(packed, y, upper=True, unitriangular=False)
    library = library_of(payload(A))
    is_zero = library.diagonal(payload(packed), axis1=-2, axis2=-1) == 0
    info = library.where(is_zero.any(axis=-1), is_zero.argmax(axis=-1) + 1, 0).astype(library.int32)
    return keep_successes(solve_good, A, info, unusable), lift(info)


def keep_successes(function: Callable[[Tensor], Tensor], A: Tensor, info: Any, failed: Tensor) -> Tensor:
    """Return results of a function of matrices, with their graph, where `info` is 0, and `failed` elsewhere."""
    is_good = lift((info == 0)[..., None, None])
    try:
        made = function(selection.where(is_good, A, identity(A, A.shape[-1])))
    except LinAlgError:  # The library that computed `info` rounds differently.
        return failed
    return selection.where(is_good, made, failed)


def _zero_info(A: Tensor) -> Tensor:
    library = library_of(payload(A))
    return lift(library.zeros(tuple(A.shape[:-2]), library.int32))


@takes_out
def inv_ex(
    A: Tensor, *, check_errors: bool = False, out: tuple[Tensor, Tensor] | None = None
) -> return_types.linalg_inv_ex:
    """The inverse, and in `info` the first zero pivot of each matrix, counted from 1, or 0.

    If `info` is not 0, there is no inverse, and the result contains infinities and NaN.

    Args:
        A: square matrices of shape (..., n, n).
        check_errors: whether a singular matrix raises LinAlgError.
        out: tuple of tensors that receive the results.

    >>> import ndgrad
    >>> ndgrad.linalg.inv_ex(ndgrad.tensor([[[2.0]], [[0.0]]])).info
    tensor([0, 1], dtype=ndgrad.int32)
    """
    require_square("inv_ex", A)
    try:
        return return_types.linalg_inv_ex(inv(A), _zero_info(A))
    except LinAlgError:
        if check_errors:
            raise
    return return_types.linalg_inv_ex(*_solve_by_factors(A, inv, identity(A, A.shape[-1], tuple(A.shape[:-2]))))


@takes_out
def solve_ex(
    A: Tensor,
    B: Tensor,
    *,
    left: bool = True,
    check_errors: bool = False,
    out: tuple[Tensor, Tensor] | None = None,
) -> return_types.linalg_solve_ex:
    """The solution, and in `info` the first zero pivot of each matrix, counted from 1, or 0.

    If `info` is not 0, the matrix is singular, and the result contains infinities and NaN.

    Args:
        A: square matrices of shape (..., n, n).
        B: right-hand sides of shape (..., n, k), or vectors of shape (n,) or (..., n).
        left: whether A is on the left of X.
        check_errors: whether a singular matrix raises LinAlgError.
        out: tuple of tensors that receive the results.

    >>> import ndgrad
    >>> ndgrad.linalg.solve_ex(ndgrad.tensor([[2.0]]), ndgrad.tensor([6.0])).result
    tensor([3.])
    """
    require_square("solve_ex", A)
    try:
        return return_types.linalg_solve_ex(solve(A, B, left=left), _zero_info(A))
    except LinAlgError:
        if check_errors:
            raise
    vector = is_vector(A, B)
    right = add_column(B) if vector else B
    if not left:  # X A = B is A^T X^T = B^T.
        X, info = _solve_by_factors(
            transpose_matrices(A), lambda a: solve(a, transpose_matrices(right)), transpose_matrices(right)
        )
        X = transpose_matrices(X)
    else:
        X, info = _solve_by_factors(A, lambda a: solve(a, right), right)
    return return_types.linalg_solve_ex(drop_column(X) if vector else X, info)
