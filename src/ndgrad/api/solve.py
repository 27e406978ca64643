"""Inverses and solutions of linear systems, as in torch.linalg.

Matrices stand in the last two dimensions; everything before is a batch. What can be said with other functions is
(lstsq, tensorsolve): compositions need no rules and have every derivative.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ndgrad.api.arguments import as_dim
from ndgrad.api.matrix_arguments import (
    adjoint,
    count_above,
    is_vector,
    payload,
    precision,
    require_matrices,
    require_precision,
    require_square,
    require_system,
    tolerances,
    transposed,
    with_column,
    without_column,
)
from ndgrad.api.product import conjugate, takes_out
from ndgrad.arrays.library import library_of
from ndgrad.arrays.precision import real_dtype
from ndgrad.autograd.saved import lift
from ndgrad.autograd.variable import np_dtype
from ndgrad.ops import arithmetic, cast, decomposition, product, reduce, selection, shape
from ndgrad.ops import complex as complex_ops
from ndgrad.ops import index as index_ops
from ndgrad.ops import solve as ops
from ndgrad.ops.matrix import LinAlgError


class LeastSquares(NamedTuple):
    """What lstsq finds."""

    solution: Any
    residuals: Any
    rank: Any
    singular_values: Any


class InverseInfo(NamedTuple):
    """An inverse, and which matrices have none."""

    inverse: Any
    info: Any


class SolveInfo(NamedTuple):
    """A solution, and which systems have none."""

    result: Any
    info: Any


# ----- inverses and solutions -----------------------------------------------------------------------------------------


@takes_out
def inv(A: Any) -> Any:
    """The inverse of square matrices.

    >>> import ndgrad
    >>> ndgrad.linalg.inv(ndgrad.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])
    """
    require_square("inv", A)
    require_precision("inv", A)
    return ops.inv(A)


@takes_out
def solve(A: Any, B: Any, *, left: bool = True) -> Any:
    """The X with A X = B (X A = B unless `left`), for one right-hand side or several."""
    require_square("solve", A)
    require_precision("solve", A)
    if B.ndim == 0:
        raise RuntimeError(f"linalg.solve: The input tensor B must have at least 1 dimension, and has shape {tuple(B.shape)}.")
    vector = is_vector(A, B)
    if vector:
        B = with_column(B)
    require_system("solve", A, B, left)
    X = ops.solve(A, B) if left else transposed(ops.solve(transposed(A), transposed(B)))
    return without_column(X) if vector else X


@takes_out
def solve_triangular(A: Any, B: Any, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Any:
    """The X with A X = B (X A = B unless `left`) for triangular A, of which the other triangle is not looked at."""
    require_square("solve_triangular", A)
    require_matrices("solve_triangular", B, "B")
    require_system("solve_triangular", A, B, left)
    if left:
        return ops.solve_triangular(A, B, upper=upper, unitriangular=unitriangular)
    return transposed(ops.solve_triangular(transposed(A), transposed(B), upper=not upper, unitriangular=unitriangular))


@takes_out
def pinv(A: Any, rcond: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None) -> Any:
    """The pseudoinverse. Singular values up to max(atol, rtol * the largest) count as zero.

    By default rtol is the larger size times the precision of the dtype, and 0 where atol is given.
    """
    require_matrices("pinv", A)
    require_precision("pinv", A)
    if rcond is not None:
        if rtol is not None:
            raise TypeError("linalg.pinv: got both rcond and rtol, which mean the same. Give rtol.")
        rtol = rcond
    atol, rtol = tolerances(A, atol, rtol)
    return ops.pinv(A, atol, rtol, hermitian=hermitian)


def lstsq(A: Any, B: Any, rcond: float | None = None, *, driver: str | None = None) -> LeastSquares:
    """A solution of min |A X - B|, the one of least norm where there are several.

    The results are torch's: residuals where there are more equations than unknowns and the rank is full (drivers gels,
    gelsd, gelss), the rank (all drivers but gels), the singular values (gelsd, gelss).
    """
    require_matrices("lstsq", A)
    require_precision("lstsq", A)
    if driver not in (None, "gels", "gelsy", "gelsd", "gelss"):
        raise RuntimeError(f"linalg.lstsq: parameter `driver` should be one of (gels, gelsy, gelsd, gelss), and is {driver!r}.")
    vector = is_vector(A, B)
    if vector:
        B = with_column(B)
    m, n = A.shape[-2:]
    if B.shape[-2] != m:
        raise RuntimeError(
            f"linalg.lstsq: A.size(-2) must match B.size(-2), and the shapes are {tuple(A.shape)} and {tuple(B.shape)}. "
            "They must have as many rows."
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
        # singular values fall
        rank = count_above(found, tolerance * index_ops.getitem(found, index=(Ellipsis, slice(0, 1))))
        values = found if driver in ("gelsd", "gelss") else empty
        full = bool((payload(rank) == n).all())
    if m > n and full and driver not in (None, "gelsy"):
        rest = arithmetic.sub(product.matmul(A, X), B)
        square = arithmetic.mul(conjugate(rest), rest)
        residuals = reduce.sum(complex_ops.real(square), dim=(square.ndim - 2,), keepdim=False)
    return LeastSquares(without_column(X) if vector else X, residuals, rank, values)


@takes_out
def tensorinv(A: Any, ind: int = 2) -> Any:
    """The inverse of A as a map from its last dimensions to its first `ind`."""
    if ind <= 0:
        raise RuntimeError(f"linalg.tensorinv: expected a strictly positive integer for 'ind', and got {ind}.")
    first, last = tuple(A.shape[:ind]), tuple(A.shape[ind:])
    if math.prod(first) != math.prod(last):
        raise RuntimeError(
            f"linalg.tensorinv: expected prod(A.shape[:ind]) == prod(A.shape[ind:]), and the shape is {tuple(A.shape)} "
            f"with ind={ind} "
            f"({math.prod(first)} and {math.prod(last)}). Choose an ind that splits A into equal parts."
        )
    matrix = shape.reshape(A, shape=(math.prod(first), math.prod(last)))
    return shape.reshape(inv(matrix), shape=(*last, *first))


@takes_out
def tensorsolve(A: Any, B: Any, dims: Any = None) -> Any:
    """The X with tensordot(A, X, X.ndim) = B. The dimensions of A in `dims` go to its end first."""
    if dims is not None:
        moved = [as_dim(d, A.ndim) for d in dims]
        A = shape.permute(A, dims=(*(i for i in range(A.ndim) if i not in moved), *moved))
    unknown = tuple(A.shape[B.ndim :])
    if math.prod(unknown) != math.prod(B.shape) or math.prod(B.shape) != math.prod(A.shape[: B.ndim]):
        raise RuntimeError(
            "linalg.tensorsolve: expected A to satisfy prod(A.shape[B.ndim:]) == B.numel(), and the shapes are "
            f"{tuple(A.shape)} and {tuple(B.shape)}. "
            "Use dims to bring A into that form."
        )
    size = math.prod(unknown)
    X = ops.solve(shape.reshape(A, shape=(size, size)), shape.reshape(B, shape=(size, 1)))
    return shape.reshape(X, shape=unknown)


# ----- forms that report instead of raising ---------------------------------------------------------------------------


def reporting(function: Any, A: Any, check_errors: bool) -> tuple[Any, Any]:
    """The result and, for each matrix, 0 or the order of the first leading minor that fails. Failed results are NaN, "
    "without a graph."""
    library = library_of(payload(A))
    try:
        return function(A), lift(library.zeros(tuple(A.shape[:-2]), library.int32))
    except LinAlgError:
        if check_errors:
            raise
    array = payload(A)
    info = library.zeros(array.shape[:-2], library.int32)
    good = array.copy()
    for index in np.ndindex(array.shape[:-2]):
        for order in range(1, array.shape[-1] + 1):
            try:
                function(lift(array[index][:order, :order]))
            except LinAlgError:
                info[index] = order
                good[index] = library.eye(array.shape[-1])
                break
    return selection.where(lift((info == 0)[..., None, None]), function(lift(good)), math.nan), lift(info)


def inv_ex(A: Any, *, check_errors: bool = False) -> InverseInfo:
    """The inverse, and in `info` which matrices have none (not 0 there; their inverses are NaN)."""
    require_square("inv_ex", A)
    return InverseInfo(*reporting(inv, A, check_errors))


def solve_ex(A: Any, B: Any, *, left: bool = True, check_errors: bool = False) -> SolveInfo:
    """The solution, and in `info` which matrices are singular (not 0 there; their solutions are NaN)."""
    require_square("solve_ex", A)
    inverse, info = reporting(inv, A, check_errors)
    if not (payload(info) != 0).any():
        return SolveInfo(solve(A, B, left=left), info)
    vector = is_vector(A, B)
    right = with_column(B) if vector else B
    X = product.matmul(inverse, right) if left else product.matmul(right, inverse)
    return SolveInfo(without_column(X) if vector else X, info)
