"""Eigenvalues and singular values, standard and generalised, of dense, banded and tridiagonal matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, overload

import numpy

import ndgrad.numpy as np
from ndgrad._src.core.variable import np_dtype
from ndgrad._src.ops.vocabulary import tensor_ops
from ndgrad.numpy import linalg as numpy_linalg
from ndgrad.numpy.coercion import operands, values_of
from ndgrad.scipy._without_rules import finite
from ndgrad.scipy.linalg.factors import _dense
from ndgrad.scipy.linalg.systems import adjoint, all_bands, of_arrays, square

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ndgrad._typing import Array, ArrayLike

__all__ = [
    "eig", "eig_banded", "eigh", "eigh_tridiagonal", "eigvals", "eigvals_banded", "eigvalsh", "eigvalsh_tridiagonal",
    "subspace_angles", "svd", "svdvals",
]  # fmt: skip

# ----- any matrix -----------------------------------------------------------------------------------------------------


def _quotient(a: ArrayLike, b: ArrayLike | None, check_finite: bool) -> Array:
    """Return the matrix whose eigenvalues are those of the pair (a, b); b must be invertible."""
    x = square("eig", a, check_finite)
    if b is None:
        return x
    x, y = operands(x, square("eig", b, check_finite))
    return tensor_ops.solve(y, x)


@overload
def eig(
    a: ArrayLike, b: ArrayLike | None = None, left: bool = False, right: Literal[True] = True,
    overwrite_a: bool = False, overwrite_b: bool = False, check_finite: bool = True, homogeneous_eigvals: bool = False,
) -> tuple[Array, Array]: ...  # fmt: skip
@overload
def eig(
    a: ArrayLike, b: ArrayLike | None = None, left: bool = False, *, right: Literal[False], overwrite_a: bool = False,
    overwrite_b: bool = False, check_finite: bool = True, homogeneous_eigvals: bool = False,
) -> Array: ...  # fmt: skip
def eig(
    a: ArrayLike, b: ArrayLike | None = None, left: bool = False, right: bool = True, overwrite_a: bool = False,
    overwrite_b: bool = False, check_finite: bool = True, homogeneous_eigvals: bool = False,
) -> Any:  # fmt: skip
    """Return the eigenvalues and right (and left) eigenvectors of norm one of a square matrix or of a pair of matrices.

    Args:
        a: square matrix, of shape (..., n, n).
        b: second matrix of a @ v = w b @ v. It must be invertible.
        left: whether left eigenvectors are returned, before the right ones.
        right: whether right eigenvectors are returned.
        overwrite_a: accepted as in SciPy; has no effect, because inputs are never overwritten.
        overwrite_b: accepted as in SciPy; has no effect, because inputs are never overwritten.
        check_finite: whether infinities and NaN raise ValueError.
        homogeneous_eigvals: must be False: pairs that stand for quotients have no rule.

    >>> from ndgrad.scipy import linalg
    >>> w, v = linalg.eig([[2.0, 0.0], [0.0, 3.0]])
    >>> w
    array([2.+0.j, 3.+0.j])
    """
    if homogeneous_eigvals:
        raise NotImplementedError(
            "eig(homogeneous_eigvals=True) has no rule here: call it with False and an invertible b. [nd-no-derivative]"
        )
    t = _quotient(a, b, check_finite)
    w, v = of_arrays.eig(t)
    if not left:
        return (w, v if _is_complex(t, w) else v.real) if right else w
    # The rows of v^-1 are left eigenvectors of the quotient; those of the pair are multiplied by b^-1.
    other = adjoint(tensor_ops.inv(v))
    if b is not None:
        other = tensor_ops.solve(adjoint(finite(b)).astype(np_dtype(other)), other)
    other = other / np.linalg.norm(other, axis=-2, keepdims=True)
    parts = [other, v] if right else [other]
    return (w, *(p if _is_complex(t, w) else p.real for p in parts))


def _is_complex(t: Array, w: Array) -> bool:
    return np_dtype(t).kind == "c" or bool((values_of(w.detach()).imag != 0).any())


def eigvals(
    a: ArrayLike, b: ArrayLike | None = None, overwrite_a: bool = False, check_finite: bool = True,
    homogeneous_eigvals: bool = False,
) -> Array:  # fmt: skip
    """Return the eigenvalues of a square matrix, or of a pair (a, b), complex and in no order.

    Args:
        a: square matrix, of shape (..., n, n).
        b: second matrix of a @ v = w b @ v. It must be invertible.
        overwrite_a: accepted as in SciPy; has no effect, because inputs are never overwritten.
        check_finite: whether infinities and NaN raise ValueError.
        homogeneous_eigvals: must be False: pairs that stand for quotients have no rule.

    >>> from ndgrad.scipy import linalg
    >>> linalg.eigvals([[0.0, 1.0], [-1.0, 0.0]])
    array([0.+1.j, 0.-1.j])
    """
    return eig(a, b, right=False, check_finite=check_finite, homogeneous_eigvals=homogeneous_eigvals)


# ----- Hermitian matrices ---------------------------------------------------------------------------------------------


def _choose_eigenvalues(
    w: Array, v: Array | None, by_index: Sequence[int] | None, by_value: Sequence[float] | None
) -> tuple[Array, Any]:
    """Return some of the eigenvalues, and their vectors."""
    if by_index is not None and by_value is not None:
        raise ValueError("Either index or value subset can be requested. [nd-exclusive]")
    if by_index is not None:
        part = slice(int(by_index[0]), int(by_index[1]) + 1)
        return w[..., part], None if v is None else v[..., :, part]
    if by_value is not None:
        low, high = by_value
        places = numpy.flatnonzero((values_of(w.detach()) > low) & (values_of(w.detach()) <= high))
        return w[..., places], None if v is None else v[..., :, places]
    return w, v


@overload
def eigh(
    a: ArrayLike, b: ArrayLike | None = None, *, lower: bool = True, eigvals_only: Literal[False] = False,
    overwrite_a: bool = False, overwrite_b: bool = False, type: int = 1, check_finite: bool = True,
    subset_by_index: Sequence[int] | None = None, subset_by_value: Sequence[float] | None = None,
    driver: str | None = None,
) -> tuple[Array, Array]: ...  # fmt: skip
@overload
def eigh(
    a: ArrayLike, b: ArrayLike | None = None, *, lower: bool = True, eigvals_only: Literal[True],
    overwrite_a: bool = False, overwrite_b: bool = False, type: int = 1, check_finite: bool = True,
    subset_by_index: Sequence[int] | None = None, subset_by_value: Sequence[float] | None = None,
    driver: str | None = None,
) -> Array: ...  # fmt: skip
def eigh(
    a: ArrayLike, b: ArrayLike | None = None, *, lower: bool = True, eigvals_only: bool = False,
    overwrite_a: bool = False, overwrite_b: bool = False, type: int = 1, check_finite: bool = True,
    subset_by_index: Sequence[int] | None = None, subset_by_value: Sequence[float] | None = None,
    driver: str | None = None,
) -> Any:  # fmt: skip
    """Return the eigenvalues and eigenvectors of a Hermitian matrix, or of a @ v = w b @ v with positive definite b.

    Args:
        a: Hermitian matrix, of shape (..., n, n).
        b: Hermitian positive definite matrix. The default is the identity.
        lower: whether the lower triangles are read, instead of the upper ones.
        eigvals_only: whether eigenvectors are left out.
        overwrite_a: accepted as in SciPy; has no effect, because inputs are never overwritten.
        overwrite_b: accepted as in SciPy; has no effect, because inputs are never overwritten.
        type: equation of a pair: 1 for a @ v = w b @ v, 2 for a @ b @ v = w v, 3 for b @ a @ v = w v.
        check_finite: whether infinities and NaN raise ValueError.
        subset_by_index: first and last index of the wanted eigenvalues, counted from the smallest.
        subset_by_value: interval (low, high] of the wanted eigenvalues.
        driver: accepted as in SciPy; has no effect, because NumPy chooses the routine.

    >>> from ndgrad.scipy import linalg
    >>> w, v = linalg.eigh([[2.0, 1.0], [1.0, 2.0]])
    >>> w
    array([1., 3.])
    """
    x = square("eigh", a, check_finite)
    triangle = "L" if lower else "U"
    if b is None:
        if eigvals_only:
            return _choose_eigenvalues(of_arrays.eigvalsh(x, triangle), None, subset_by_index, subset_by_value)[0]
        w, v = of_arrays.eigh(x, triangle)
        return _choose_eigenvalues(w, v, subset_by_index, subset_by_value)
    if type not in (1, 2, 3):
        raise ValueError(f'"type" keyword only accepts 1, 2, and 3, but is {type!r}. [nd-option]')
    x, y = operands(x, square("eigh", b, check_finite))
    x = _whole(x, lower)
    factor = tensor_ops.cholesky(y if lower else adjoint(y))
    if type == 1:
        half = tensor_ops.solve_triangular(factor, x, upper=False)
        core = tensor_ops.solve_triangular(factor, adjoint(half), upper=False)
    else:
        core = adjoint(factor) @ x @ factor
    core = (core + adjoint(core)) / 2.0
    if eigvals_only:
        return _choose_eigenvalues(of_arrays.eigvalsh(core, "L"), None, subset_by_index, subset_by_value)[0]
    w, z = of_arrays.eigh(core, "L")
    v = factor @ z if type == 3 else tensor_ops.solve_triangular(adjoint(factor), z, upper=True)
    return _choose_eigenvalues(w, v, subset_by_index, subset_by_value)


def _whole(x: Array, lower: bool) -> Array:
    """Return the Hermitian part of the matrix that one triangle represents; for a Hermitian matrix, itself."""
    half = np.tril(x, -1) if lower else np.triu(x, 1)
    diagonal = np.tril(np.triu(x))
    return half + adjoint(half) + (diagonal.real if np_dtype(x).kind == "c" else diagonal)


def eigvalsh(
    a: ArrayLike, b: ArrayLike | None = None, *, lower: bool = True, overwrite_a: bool = False,
    overwrite_b: bool = False, type: int = 1, check_finite: bool = True, subset_by_index: Sequence[int] | None = None,
    subset_by_value: Sequence[float] | None = None, driver: str | None = None,
) -> Array:  # fmt: skip
    """Return the eigenvalues of a Hermitian matrix, in increasing order.

    Args:
        a: Hermitian matrix, of shape (..., n, n).
        b: Hermitian positive definite matrix. The default is the identity.
        lower: whether the lower triangles are read, instead of the upper ones.
        overwrite_a: accepted as in SciPy; has no effect, because inputs are never overwritten.
        overwrite_b: accepted as in SciPy; has no effect, because inputs are never overwritten.
        type: equation of a pair: 1 for a @ v = w b @ v, 2 for a @ b @ v = w v, 3 for b @ a @ v = w v.
        check_finite: whether infinities and NaN raise ValueError.
        subset_by_index: first and last index of the wanted eigenvalues, counted from the smallest.
        subset_by_value: interval (low, high] of the wanted eigenvalues.
        driver: accepted as in SciPy; has no effect, because NumPy chooses the routine.

    >>> from ndgrad.scipy import linalg
    >>> linalg.eigvalsh([[2.0, 1.0], [1.0, 2.0]])
    array([1., 3.])
    """
    return eigh(
        a, b, lower=lower, eigvals_only=True, type=type, check_finite=check_finite, subset_by_index=subset_by_index,
        subset_by_value=subset_by_value,
    )  # fmt: skip


def _read_selection(
    select: str | int, select_range: Sequence[Any] | None,
) -> tuple[Sequence[int] | None, Sequence[float] | None]:  # fmt: skip
    if select in ("a", "all", 0):
        return None, None
    if select in ("i", "index", 2):
        return select_range, None
    if select in ("v", "value", 1):
        return None, select_range
    raise ValueError(f"invalid argument for select: {select!r} [nd-option]")


@overload
def eig_banded(
    a_band: ArrayLike, lower: bool = False, eigvals_only: Literal[False] = False, overwrite_a_band: bool = False,
    select: str | int = "a", select_range: Sequence[float] | None = None, max_ev: int = 0, check_finite: bool = True,
) -> tuple[Array, Array]: ...  # fmt: skip
@overload
def eig_banded(
    a_band: ArrayLike, lower: bool = False, *, eigvals_only: Literal[True], overwrite_a_band: bool = False,
    select: str | int = "a", select_range: Sequence[float] | None = None, max_ev: int = 0, check_finite: bool = True,
) -> Array: ...  # fmt: skip
def eig_banded(
    a_band: ArrayLike, lower: bool = False, eigvals_only: bool = False, overwrite_a_band: bool = False,
    select: str | int = "a", select_range: Sequence[float] | None = None, max_ev: int = 0, check_finite: bool = True,
) -> Any:  # fmt: skip
    """Return the eigenvalues and eigenvectors of a Hermitian band matrix, computed from the full matrix.

    Args:
        a_band: diagonals of one triangle as rows, of shape (u + 1, n).
        lower: whether the diagonals are those of the lower triangle.
        eigvals_only: whether eigenvectors are left out.
        overwrite_a_band: accepted as in SciPy; has no effect, because inputs are never overwritten.
        select: `"a"` for all eigenvalues, `"v"` for those of an interval, `"i"` for those with certain indices.
        select_range: ends of the interval (low, high], or first and last index.
        max_ev: accepted as in SciPy; has no effect.
        check_finite: whether infinities and NaN raise ValueError.

    >>> from ndgrad.scipy import linalg
    >>> w, v = linalg.eig_banded([[2.0, 2.0], [1.0, 0.0]], lower=True)
    >>> w
    array([1., 3.])
    """
    whole, count = all_bands(finite(a_band, check_finite), lower)
    by_index, by_value = _read_selection(select, select_range)
    found = _dense(whole, count, count)
    return eigh(found, eigvals_only=eigvals_only, subset_by_index=by_index, subset_by_value=by_value)  # type: ignore[call-overload]


def eigvals_banded(
    a_band: ArrayLike, lower: bool = False, overwrite_a_band: bool = False, select: str | int = "a",
    select_range: Sequence[float] | None = None, check_finite: bool = True,
) -> Array:  # fmt: skip
    """Return the eigenvalues of a Hermitian band matrix, in increasing order.

    Args:
        a_band: diagonals of one triangle as rows, of shape (u + 1, n).
        lower: whether the diagonals are those of the lower triangle.
        overwrite_a_band: accepted as in SciPy; has no effect, because inputs are never overwritten.
        select: `"a"` for all eigenvalues, `"v"` for those of an interval, `"i"` for those with certain indices.
        select_range: ends of the interval (low, high], or first and last index.
        check_finite: whether infinities and NaN raise ValueError.

    >>> from ndgrad.scipy import linalg
    >>> linalg.eigvals_banded([[2.0, 2.0], [1.0, 0.0]], lower=True)
    array([1., 3.])
    """
    return eig_banded(
        a_band, lower, eigvals_only=True, select=select, select_range=select_range, check_finite=check_finite
    )


@overload
def eigh_tridiagonal(
    d: ArrayLike, e: ArrayLike, eigvals_only: Literal[False] = False, select: str | int = "a",
    select_range: Sequence[float] | None = None, check_finite: bool = True, tol: float = 0.0,
    lapack_driver: str = "auto",
) -> tuple[Array, Array]: ...  # fmt: skip
@overload
def eigh_tridiagonal(
    d: ArrayLike, e: ArrayLike, *, eigvals_only: Literal[True], select: str | int = "a",
    select_range: Sequence[float] | None = None, check_finite: bool = True, tol: float = 0.0,
    lapack_driver: str = "auto",
) -> Array: ...  # fmt: skip
def eigh_tridiagonal(
    d: ArrayLike, e: ArrayLike, eigvals_only: bool = False, select: str | int = "a",
    select_range: Sequence[float] | None = None, check_finite: bool = True, tol: float = 0.0,
    lapack_driver: str = "auto",
) -> Any:  # fmt: skip
    """Return the eigenvalues and eigenvectors of a symmetric tridiagonal matrix, computed from the full matrix.

    Args:
        d: diagonal, of shape (n,).
        e: first off-diagonal, of shape (n - 1,).
        eigvals_only: whether eigenvectors are left out.
        select: `"a"` for all eigenvalues, `"v"` for those of an interval, `"i"` for those with certain indices.
        select_range: ends of the interval (low, high], or first and last index.
        check_finite: whether infinities and NaN raise ValueError.
        tol: accepted as in SciPy; has no effect.
        lapack_driver: accepted as in SciPy; has no effect, because NumPy chooses the routine.

    >>> from ndgrad.scipy import linalg
    >>> w, v = linalg.eigh_tridiagonal([2.0, 2.0], [1.0])
    >>> w
    array([1., 3.])
    """
    diagonal, off = operands(finite(d, check_finite), finite(e, check_finite))
    bands = np.stack([diagonal, np.pad(off, [(0, 0)] * (off.ndim - 1) + [(0, 1)])], axis=-2)
    return eig_banded(bands, True, eigvals_only, select=select, select_range=select_range)  # type: ignore[call-overload]


def eigvalsh_tridiagonal(
    d: ArrayLike, e: ArrayLike, select: str | int = "a", select_range: Sequence[float] | None = None,
    check_finite: bool = True, tol: float = 0.0, lapack_driver: str = "auto",
) -> Array:  # fmt: skip
    """Return the eigenvalues of a symmetric tridiagonal matrix, in increasing order.

    Args:
        d: diagonal, of shape (n,).
        e: first off-diagonal, of shape (n - 1,).
        select: `"a"` for all eigenvalues, `"v"` for those of an interval, `"i"` for those with certain indices.
        select_range: ends of the interval (low, high], or first and last index.
        check_finite: whether infinities and NaN raise ValueError.
        tol: accepted as in SciPy; has no effect.
        lapack_driver: accepted as in SciPy; has no effect, because NumPy chooses the routine.

    >>> from ndgrad.scipy import linalg
    >>> linalg.eigvalsh_tridiagonal([2.0, 2.0], [1.0])
    array([1., 3.])
    """
    return eigh_tridiagonal(
        d, e, eigvals_only=True, select=select, select_range=select_range, check_finite=check_finite
    )


# ----- singular values ------------------------------------------------------------------------------------------------


@overload
def svd(
    a: ArrayLike, full_matrices: bool = True, compute_uv: Literal[True] = True, overwrite_a: bool = False,
    check_finite: bool = True, lapack_driver: str = "gesdd",
) -> tuple[Array, Array, Array]: ...  # fmt: skip
@overload
def svd(
    a: ArrayLike, full_matrices: bool = True, *, compute_uv: Literal[False], overwrite_a: bool = False,
    check_finite: bool = True, lapack_driver: str = "gesdd",
) -> Array: ...  # fmt: skip
def svd(
    a: ArrayLike, full_matrices: bool = True, compute_uv: bool = True, overwrite_a: bool = False,
    check_finite: bool = True, lapack_driver: str = "gesdd",
) -> Any:  # fmt: skip
    """Return the singular value decomposition u, s, vh with a = u * s @ vh.

    Args:
        a: matrix, of shape (..., m, n).
        full_matrices: whether u and vh are square.
        compute_uv: whether u and vh are returned. The result is s alone otherwise.
        overwrite_a: accepted as in SciPy; has no effect, because inputs are never overwritten.
        check_finite: whether infinities and NaN raise ValueError.
        lapack_driver: accepted as in SciPy; has no effect, because NumPy chooses the routine.

    >>> from ndgrad.scipy import linalg
    >>> u, s, vh = linalg.svd([[3.0, 0.0], [0.0, 4.0]])
    >>> s
    array([4., 3.])
    """
    t = finite(a, check_finite)
    return tuple(of_arrays.svd(t, full_matrices)) if compute_uv else of_arrays.svdvals(t)


def svdvals(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """Return the singular values in decreasing order.

    Args:
        a: matrix, of shape (..., m, n).
        overwrite_a: accepted as in SciPy; has no effect, because inputs are never overwritten.
        check_finite: whether infinities and NaN raise ValueError.

    >>> from ndgrad.scipy import linalg
    >>> linalg.svdvals([[3.0, 0.0], [0.0, 4.0]])
    array([4., 3.])
    """
    return of_arrays.svdvals(finite(a, check_finite))


def subspace_angles(A: ArrayLike, B: ArrayLike) -> Array:
    """Return the angles between the column spaces of two matrices in radians, the largest first.

    Args:
        A: matrix of full column rank, of shape (n, p).
        B: matrix of full column rank, of shape (n, q).

    >>> from ndgrad.scipy import linalg
    >>> linalg.subspace_angles([[1.0], [0.0]], [[1.0], [1.0]])
    array([0.78539816])
    """
    qa, qb = (numpy_linalg.qr(finite(m))[0] for m in (A, B))
    product = adjoint(qa) @ qb
    cosines = of_arrays.svdvals(product)
    if qa.shape[-1] >= qb.shape[-1]:
        rest = qb - qa @ product
    else:
        rest = qa - qb @ adjoint(product)
    sines = np.clip(of_arrays.svdvals(rest), -1.0, 1.0)
    # Small angles lose digits in the cosine, large ones in the sine.
    by_sine = cosines[..., ::-1] ** 2 >= 0.5
    return np.where(
        by_sine, np.arcsin(np.where(by_sine, sines, 0.5)), np.arccos(np.where(by_sine, 0.5, cosines[..., ::-1]))
    )
