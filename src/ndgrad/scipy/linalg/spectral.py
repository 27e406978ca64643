"""Eigenvalues and singular values, plain and generalised, of dense, banded and tridiagonal matrices."""

from __future__ import annotations

from typing import Any

import numpy

import ndgrad.numpy as np
from ndgrad.api import decomposition
from ndgrad.autograd.variable import np_dtype
from ndgrad.numpy import linalg as numpy_linalg
from ndgrad.numpy.coercion import operands, values_of
from ndgrad.ops.vocabulary import tensor_ops
from ndgrad.scipy._without_rules import finite
from ndgrad.scipy.linalg.factors import _dense
from ndgrad.scipy.linalg.systems import adjoint, all_bands, square

__all__ = [
    "eig", "eig_banded", "eigh", "eigh_tridiagonal", "eigvals", "eigvals_banded", "eigvalsh", "eigvalsh_tridiagonal", "subspace_angles",
    "svd", "svdvals",
]  # fmt: skip

# ----- any matrix -----------------------------------------------------------------------------------------------------------


def _quotient(a: Any, b: Any, check_finite: bool) -> Any:
    """The matrix whose eigenvalues are those of the pair (a, b); b must be invertible."""
    x = square("eig", a, check_finite)
    if b is None:
        return x
    x, y = operands(x, square("eig", b, check_finite))
    return tensor_ops.solve(y, x)


def eig(
    a: Any, b: Any = None, left: bool = False, right: bool = True, overwrite_a: bool = False, overwrite_b: bool = False,
    check_finite: bool = True, homogeneous_eigvals: bool = False,
) -> Any:  # fmt: skip
    """Eigenvalues and right (and left) eigenvectors of norm one. For a pair of matrices, b must be invertible."""
    if homogeneous_eigvals:
        raise NotImplementedError("eig(homogeneous_eigvals=True) has no rule here: call it with False and an invertible b.")
    t = _quotient(a, b, check_finite)
    w, v = decomposition.eig(t)
    if not left:
        return (w, v if _is_complex(t, w) else v.real) if right else w
    # the rows of v^-1 are left eigenvectors of the quotient; those of the pair are multiplied by b^-1
    other = adjoint(tensor_ops.inv(v))
    if b is not None:
        other = tensor_ops.solve(adjoint(finite(b)).astype(np_dtype(other)), other)
    other = other / np.linalg.norm(other, axis=-2, keepdims=True)
    parts = [other, v] if right else [other]
    return (w, *(p if _is_complex(t, w) else p.real for p in parts))


def _is_complex(t: Any, w: Any) -> bool:
    return np_dtype(t).kind == "c" or bool((values_of(w.detach()).imag != 0).any())


def eigvals(a: Any, b: Any = None, overwrite_a: bool = False, check_finite: bool = True, homogeneous_eigvals: bool = False) -> Any:
    return eig(a, b, False, False, check_finite=check_finite, homogeneous_eigvals=homogeneous_eigvals)


# ----- Hermitian matrices -----------------------------------------------------------------------------------------------------


def _chosen(w: Any, v: Any, by_index: Any, by_value: Any) -> tuple[Any, Any]:
    """Some of the eigenvalues, and their vectors."""
    if by_index is not None and by_value is not None:
        raise ValueError("Either index or value subset can be requested.")
    if by_index is not None:
        part = slice(int(by_index[0]), int(by_index[1]) + 1)
        return w[..., part], None if v is None else v[..., :, part]
    if by_value is not None:
        low, high = by_value
        places = numpy.flatnonzero((values_of(w.detach()) > low) & (values_of(w.detach()) <= high))
        return w[..., places], None if v is None else v[..., :, places]
    return w, v


def eigh(
    a: Any, b: Any = None, *, lower: bool = True, eigvals_only: bool = False, overwrite_a: bool = False, overwrite_b: bool = False,
    type: int = 1, check_finite: bool = True, subset_by_index: Any = None, subset_by_value: Any = None, driver: Any = None,
) -> Any:  # fmt: skip
    """Eigenvalues and eigenvectors of a Hermitian matrix, or of a @ v = w b @ v with positive definite b.

    type=2 means a @ b @ v = w v, and type=3 b @ a @ v = w v.
    """
    x = square("eigh", a, check_finite)
    triangle = "L" if lower else "U"
    if b is None:
        if eigvals_only:
            return _chosen(decomposition.eigvalsh(x, triangle), None, subset_by_index, subset_by_value)[0]
        w, v = decomposition.eigh(x, triangle)
        return _chosen(w, v, subset_by_index, subset_by_value)
    if type not in (1, 2, 3):
        raise ValueError(f'"type" keyword only accepts 1, 2, and 3, and is {type!r}.')
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
        return _chosen(decomposition.eigvalsh(core, "L"), None, subset_by_index, subset_by_value)[0]
    w, z = decomposition.eigh(core, "L")
    v = factor @ z if type == 3 else tensor_ops.solve_triangular(adjoint(factor), z, upper=True)
    return _chosen(w, v, subset_by_index, subset_by_value)


def _whole(x: Any, lower: bool) -> Any:
    """The Hermitian part of the matrix that one triangle stands for; for a Hermitian matrix, itself."""
    half = np.tril(x, -1) if lower else np.triu(x, 1)
    diagonal = np.tril(np.triu(x))
    return half + adjoint(half) + (diagonal.real if np_dtype(x).kind == "c" else diagonal)


def eigvalsh(
    a: Any, b: Any = None, *, lower: bool = True, overwrite_a: bool = False, overwrite_b: bool = False, type: int = 1,
    check_finite: bool = True, subset_by_index: Any = None, subset_by_value: Any = None, driver: Any = None,
) -> Any:  # fmt: skip
    return eigh(
        a, b, lower=lower, eigvals_only=True, type=type, check_finite=check_finite, subset_by_index=subset_by_index,
        subset_by_value=subset_by_value,
    )  # fmt: skip


def _selected(select: Any, select_range: Any) -> tuple[Any, Any]:
    if select in ("a", "all", 0):
        return None, None
    if select in ("i", "index", 2):
        return select_range, None
    if select in ("v", "value", 1):
        return None, select_range
    raise ValueError(f"invalid argument for select: {select!r}")


def eig_banded(
    a_band: Any, lower: bool = False, eigvals_only: bool = False, overwrite_a_band: bool = False, select: Any = "a",
    select_range: Any = None, max_ev: int = 0, check_finite: bool = True,
) -> Any:  # fmt: skip
    """Eigenvalues and eigenvectors of a Hermitian band matrix, found as those of the full matrix."""
    whole, count = all_bands(finite(a_band, check_finite), lower)
    by_index, by_value = _selected(select, select_range)
    return eigh(_dense(whole, count, count), eigvals_only=eigvals_only, subset_by_index=by_index, subset_by_value=by_value)


def eigvals_banded(
    a_band: Any, lower: bool = False, overwrite_a_band: bool = False, select: Any = "a", select_range: Any = None, check_finite: bool = True
) -> Any:
    return eig_banded(a_band, lower, True, select=select, select_range=select_range, check_finite=check_finite)


def eigh_tridiagonal(
    d: Any, e: Any, eigvals_only: bool = False, select: Any = "a", select_range: Any = None, check_finite: bool = True, tol: float = 0.0,
    lapack_driver: str = "auto",
) -> Any:  # fmt: skip
    """Eigenvalues and eigenvectors of the symmetric matrix with diagonals d and e, found as those of the full matrix."""
    diagonal, off = operands(finite(d, check_finite), finite(e, check_finite))
    bands = np.stack([diagonal, np.pad(off, [(0, 0)] * (off.ndim - 1) + [(0, 1)])], axis=-2)
    return eig_banded(bands, True, eigvals_only, select=select, select_range=select_range)


def eigvalsh_tridiagonal(
    d: Any, e: Any, select: Any = "a", select_range: Any = None, check_finite: bool = True, tol: float = 0.0, lapack_driver: str = "auto"
) -> Any:
    return eigh_tridiagonal(d, e, True, select, select_range, check_finite)


# ----- singular values ----------------------------------------------------------------------------------------------------------


def svd(
    a: Any, full_matrices: bool = True, compute_uv: bool = True, overwrite_a: bool = False, check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Any:  # fmt: skip
    t = finite(a, check_finite)
    return tuple(decomposition.svd(t, full_matrices)) if compute_uv else decomposition.svdvals(t)


def svdvals(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    return decomposition.svdvals(finite(a, check_finite))


def subspace_angles(A: Any, B: Any) -> Any:
    """The angles between the spaces of two matrices' columns, the largest first; both must have full column rank."""
    qa, qb = (numpy_linalg.qr(finite(m))[0] for m in (A, B))
    product = adjoint(qa) @ qb
    cosines = decomposition.svdvals(product)
    if qa.shape[-1] >= qb.shape[-1]:
        rest = qb - qa @ product
    else:
        rest = qa - qb @ adjoint(product)
    sines = np.clip(decomposition.svdvals(rest), -1.0, 1.0)
    # small angles lose their digits in the cosine, large ones in the sine
    by_sine = cosines[..., ::-1] ** 2 >= 0.5
    return np.where(by_sine, np.arcsin(np.where(by_sine, sines, 0.5)), np.arccos(np.where(by_sine, 0.5, cosines[..., ::-1])))
