"""The `linalg` extension: functions of `ndgrad.numpy.linalg` with the standard's signatures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from ndgrad.array_api.manipulation import matmul, matrix_transpose, tensordot, vecdot
from ndgrad.array_api.naming import like, make_binary, make_unary
from ndgrad.numpy import linalg as ours

if TYPE_CHECKING:
    from ndgrad._typing import Array, ArrayLike, Dtype

__all__ = [
    "cholesky", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "matmul", "matrix_norm", "matrix_power",
    "matrix_rank", "matrix_transpose", "outer", "pinv", "qr", "slogdet", "solve", "svd", "svdvals", "tensordot",
    "trace", "vecdot", "vector_norm",
]  # fmt: skip

_HERE = "ndgrad.array_api.linalg"
det, inv, svdvals, eigvalsh = (make_unary(f, _HERE) for f in (ours.det, ours.inv, ours.svdvals, ours.eigvalsh))
eigh, slogdet = make_unary(ours.eigh, _HERE), make_unary(ours.slogdet, _HERE)
outer, solve = make_binary(ours.outer, _HERE), make_binary(ours.solve, _HERE)

# ----- parts and products ---------------------------------------------------------------------------------------------


@like(ours.cross)
def cross(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1) -> Array:
    return ours.cross(x1, x2, axis=axis)


@like(ours.diagonal)
def diagonal(x: ArrayLike, /, *, offset: int = 0) -> Array:
    return ours.diagonal(x, offset=offset)


@like(ours.trace)
def trace(x: ArrayLike, /, *, offset: int = 0, dtype: Dtype = None) -> Array:
    return ours.trace(x, offset=offset, dtype=dtype)


@like(ours.matrix_power)
def matrix_power(x: ArrayLike, n: int, /) -> Array:
    return ours.matrix_power(x, n)


# ----- determinants, inverses, systems --------------------------------------------------------------------------------


@like(
    ours.pinv,
    "The pseudoinverses of matrices; singular values below `rtol` times the largest count as zero.",
    rtol="relative limit of singular values. None means the larger of m and n times the machine precision.",
)
def pinv(x: ArrayLike, /, *, rtol: float | None = None) -> Array:
    return ours.pinv(x, rtol=rtol)


# ----- decompositions -------------------------------------------------------------------------------------------------


@like(ours.cholesky)
def cholesky(x: ArrayLike, /, *, upper: bool = False) -> Array:
    return ours.cholesky(x, upper=upper)


@like(
    ours.qr,
    "Orthonormal columns Q and upper triangles R whose product is the matrix.",
    mode='`"reduced"` for Q of shape (m, k) with k the smaller of m and n, `"complete"` for a square Q.',
)
def qr(x: ArrayLike, /, *, mode: Literal["reduced", "complete"] = "reduced") -> ours.QRResult:
    return ours.qr(x, mode)


def svd(x: ArrayLike, /, *, full_matrices: bool = True) -> ours.SVDResult:
    """The singular value decomposition U, S, Vh.

    Args:
        x: matrices of shape (..., m, n).
        full_matrices: whether U and Vh are square. False gives only the columns of U and rows of Vh that the smaller of
            m and n allows.

    >>> import ndgrad.array_api as xp
    >>> xp.linalg.svd(xp.asarray([[0.0, 2.0], [1.0, 0.0]])).S
    array([2., 1.])
    """
    return ours.svd(x, full_matrices)


# ----- norms and rank -------------------------------------------------------------------------------------------------


@like(ours.vector_norm)
def vector_norm(
    x: ArrayLike, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False, ord: float = 2
) -> Array:
    return ours.vector_norm(x, axis=axis, keepdims=keepdims, ord=ord)


@like(ours.matrix_norm)
def matrix_norm(x: ArrayLike, /, *, keepdims: bool = False, ord: float | str = "fro") -> Array:
    return ours.matrix_norm(x, keepdims=keepdims, ord=ord)


@like(ours.matrix_rank)
def matrix_rank(x: ArrayLike, /, *, rtol: float | None = None) -> Array:
    return ours.matrix_rank(x, rtol=rtol)
