"""The `linalg` extension: what `ndgrad.numpy.linalg` computes, with the standard's signatures."""

from __future__ import annotations

from typing import Any

from ndgrad.array_api.manipulation import matmul, matrix_transpose, tensordot, vecdot
from ndgrad.numpy import linalg as ours

__all__ = [
    "cholesky", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "matmul", "matrix_norm", "matrix_power", "matrix_rank",
    "matrix_transpose", "outer", "pinv", "qr", "slogdet", "solve", "svd", "svdvals", "tensordot", "trace", "vecdot", "vector_norm",
]  # fmt: skip

# ----- parts and products --------------------------------------------------------------------------------------------------


def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    return ours.cross(x1, x2, axis=axis)


def outer(x1: Any, x2: Any, /) -> Any:
    return ours.outer(x1, x2)


def diagonal(x: Any, /, *, offset: int = 0) -> Any:
    return ours.diagonal(x, offset=offset)


def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    return ours.trace(x, offset=offset, dtype=dtype)


def matrix_power(x: Any, n: int, /) -> Any:
    return ours.matrix_power(x, n)


# ----- determinants, inverses, systems ---------------------------------------------------------------------------------------


def det(x: Any, /) -> Any:
    return ours.det(x)


def slogdet(x: Any, /) -> Any:
    """The sign and the logarithm of the absolute value of determinants."""
    return ours.slogdet(x)


def inv(x: Any, /) -> Any:
    return ours.inv(x)


def solve(x1: Any, x2: Any, /) -> Any:
    """The x with x1 x = x2; `x2` is a vector if it has one dimension, else matrices."""
    return ours.solve(x1, x2)


def pinv(x: Any, /, *, rtol: Any = None) -> Any:
    """The pseudo-inverse; singular values up to `rtol` times the largest count as zero, by default the larger size times epsilon."""
    return ours.pinv(x, rtol=rtol)


# ----- decompositions ----------------------------------------------------------------------------------------------------------


def cholesky(x: Any, /, *, upper: bool = False) -> Any:
    return ours.cholesky(x, upper=upper)


def qr(x: Any, /, *, mode: str = "reduced") -> Any:
    return ours.qr(x, mode)


def svd(x: Any, /, *, full_matrices: bool = True) -> Any:
    return ours.svd(x, full_matrices)


def svdvals(x: Any, /) -> Any:
    return ours.svdvals(x)


def eigh(x: Any, /) -> Any:
    return ours.eigh(x)


def eigvalsh(x: Any, /) -> Any:
    return ours.eigvalsh(x)


# ----- norms and rank ------------------------------------------------------------------------------------------------------------


def vector_norm(x: Any, /, *, axis: int | tuple[int, ...] | None = None, keepdims: bool = False, ord: Any = 2) -> Any:
    return ours.vector_norm(x, axis=axis, keepdims=keepdims, ord=ord)


def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    return ours.matrix_norm(x, keepdims=keepdims, ord=ord)


def matrix_rank(x: Any, /, *, rtol: Any = None) -> Any:
    """How many singular values are larger than `rtol` times the largest."""
    return ours.matrix_rank(x, rtol=rtol)
