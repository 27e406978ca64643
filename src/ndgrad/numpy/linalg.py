"""`numpy.linalg` on Arrays: NumPy's names, results and errors over the ops of linear algebra.

Where the two worlds differ it is NumPy's way that counts: real eigenvalues stay real, `solve` takes a vector only if it has one
dimension, tolerances and shapes of residuals are NumPy's, and bad shapes raise `LinAlgError`.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError

from ndgrad.api import decomposition
from ndgrad.api import linalg as linalg_api
from ndgrad.api import norm as norm_api
from ndgrad.api import solve as solve_api
from ndgrad.api.arguments import torch_names
from ndgrad.arrays.precision import finfo
from ndgrad.autograd.variable import np_dtype
from ndgrad.numpy import products, shapes
from ndgrad.numpy.coercion import (
    arranged_like,
    as_array,
    constant,
    deliver,
    inexact,
    many_axes,
    one_axis,
    operands,
    plain,
    values_of,
    with_dtype,
)
from ndgrad.numpy.ufunc_methods import NO_VALUE
from ndgrad.numpy.ufuncs import call
from ndgrad.ops import complex as complex_ops
from ndgrad.ops import determinant, reduce
from ndgrad.ops import shape as shape_ops

__all__ = [
    "LinAlgError", "cholesky", "cond", "cross", "det", "diagonal", "eig", "eigh", "eigvals", "eigvalsh", "inv", "lstsq", "matmul",
    "matrix_norm", "matrix_power", "matrix_rank", "matrix_transpose", "multi_dot", "norm", "outer", "pinv", "qr", "slogdet",
    "solve", "svd", "svdvals", "tensordot", "tensorinv", "tensorsolve", "trace", "vecdot", "vector_norm",
]  # fmt: skip

_EigResult: Any = type(np.linalg.eig(np.eye(1)))
_EighResult: Any = type(np.linalg.eigh(np.eye(1)))
_QRResult: Any = type(np.linalg.qr(np.eye(1)))
_SlogdetResult: Any = type(np.linalg.slogdet(np.eye(1)))
_SVDResult: Any = type(np.linalg.svd(np.eye(1)))

# ----- what is taken -----------------------------------------------------------------------------------------------------


def _matrices(a: Any, *, square: bool = False) -> Any:
    t = as_array(a)
    if t.ndim < 2:
        raise LinAlgError(f"{t.ndim}-dimensional array given. Array must be at least two-dimensional")
    if square and t.shape[-1] != t.shape[-2]:
        raise LinAlgError(f"Last 2 dimensions of the array must be square, and the shape is {t.shape}")
    if np_dtype(t).name == "float16":
        raise TypeError("array type float16 is unsupported in linalg. Convert it with .astype(numpy.float32).")
    return inexact(t)


def _systems(a: Any, b: Any) -> list[Any]:
    x, y = operands(_matrices(a, square=True), b)
    return [inexact(x), inexact(y)]


# ----- products and parts ---------------------------------------------------------------------------------------------------


def matmul(x1: Any, x2: Any, /) -> Any:
    return call(np.matmul, x1, x2)


def outer(x1: Any, x2: Any, /) -> Any:
    x, y = as_array(x1), as_array(x2)
    if x.ndim != 1 or y.ndim != 1:
        raise ValueError(f"Input arrays must be one-dimensional, but they are x1.ndim={x.ndim} and x2.ndim={y.ndim}.")
    return products.outer(x, y)


@torch_names
def tensordot(x1: Any, x2: Any, /, *, axes: Any = 2) -> Any:
    return products.tensordot(x1, x2, axes)


@torch_names
def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    return call(np.vecdot, x1, x2, axis=axis)


@torch_names
def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    x, y = as_array(x1), as_array(x2)
    if x.shape[one_axis(axis, x.ndim)] != 3 or y.shape[one_axis(axis, y.ndim)] != 3:
        raise ValueError(f"Both input arrays must be (arrays of) 3-dimensional vectors, but their shapes are {x.shape} and {y.shape}.")
    return products.cross(x, y, axis=axis)


def multi_dot(arrays: Any, *, out: Any = None) -> Any:
    chain = operands(*arrays)
    if len(chain) < 2:
        raise ValueError("Expecting at least two arrays.")
    for place, t in enumerate(chain):
        if t.ndim != 2 and not (t.ndim == 1 and place in (0, len(chain) - 1)):
            raise LinAlgError(f"{t.ndim}-dimensional array given. Array must be two-dimensional")
    return deliver("multi_dot", linalg_api.multi_dot(chain), out)


def matrix_power(a: Any, n: int) -> Any:
    t = as_array(a)
    if t.ndim < 2 or t.shape[-1] != t.shape[-2]:
        raise LinAlgError(f"Last 2 dimensions of the array must be square, and the shape is {t.shape}")
    try:
        power = operator.index(n)
    except TypeError as error:
        raise TypeError("exponent must be an integer") from error
    if not power:
        return arranged_like(with_dtype(linalg_api.matrix_power(t, 0), np_dtype(t)), t)
    return with_dtype(linalg_api.matrix_power(t, power), np_dtype(t)) if power > 0 else linalg_api.matrix_power(inexact(t), power)


def matrix_transpose(x: Any, /) -> Any:
    return shapes.matrix_transpose(x)


def diagonal(x: Any, /, *, offset: int = 0) -> Any:
    return shapes.diagonal(x, offset, -2, -1)


def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    return shapes.trace(x, offset, -2, -1, dtype)


# ----- determinants and inverses ----------------------------------------------------------------------------------------------


def det(a: Any) -> Any:
    return determinant.det(_matrices(a, square=True))


def slogdet(a: Any) -> Any:
    return _SlogdetResult(*linalg_api.slogdet(_matrices(a, square=True)))


def inv(a: Any) -> Any:
    return solve_api.inv(_matrices(a, square=True))


def solve(a: Any, b: Any) -> Any:
    """The x with a x = b; `b` is a vector if it has one dimension, else matrices."""
    x, y = _systems(a, b)
    n = x.shape[-1]
    if y.ndim == 1:
        if y.shape[0] != n:
            raise ValueError(f"solve: mismatch in core dimension: a has shape {x.shape} and b has shape {y.shape}")
        made = solve_api.solve(x, shape_ops.reshape(y, shape=(n, 1)))
        return shape_ops.reshape(made, shape=made.shape[:-1])
    if y.ndim == 0 or y.shape[-2] != n:
        raise ValueError(f"solve: mismatch in core dimension: a has shape {x.shape} and b has shape {y.shape}")
    lead = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    return solve_api.solve(shape_ops.expand(x, shape=(*lead, n, n)), shape_ops.expand(y, shape=(*lead, *y.shape[-2:])))


def pinv(a: Any, rcond: Any = None, hermitian: bool = False, *, rtol: Any = NO_VALUE) -> Any:
    t = _matrices(a)
    if rcond is None:
        limit = 1e-15 if rtol is NO_VALUE else max(t.shape[-2:]) * finfo(np_dtype(t)).eps if rtol is None else rtol
    elif rtol is not NO_VALUE:
        raise ValueError("`rtol` and `rcond` can't be both set.")
    else:
        limit = rcond
    limit = constant(np.asarray(plain(limit), float)) if np.ndim(limit) else float(plain(limit))
    return solve_api.pinv(t, rtol=limit, hermitian=hermitian)


def lstsq(a: Any, b: Any, rcond: Any = None) -> tuple[Any, Any, Any, Any]:
    """Least-squares solutions, residuals, the rank and the singular values, as NumPy returns them; all but the rank differentiable."""
    x, y = (inexact(t) for t in operands(a, b))
    if x.ndim != 2 or y.ndim not in (1, 2):
        raise LinAlgError(f"{x.ndim if x.ndim != 2 else y.ndim}-dimensional array given. Array must be two-dimensional")
    m, n = x.shape
    if y.shape[0] != m:
        raise LinAlgError(f"Incompatible dimensions: a has shape {x.shape} and b has shape {y.shape}")
    values = decomposition.svdvals(x)
    limit = max(m, n) * finfo(np_dtype(x)).eps if rcond is None else 0.0 if rcond == -1 else float(rcond)
    plain_values = values_of(values)
    rank = int((plain_values > limit * (plain_values[0] if len(plain_values) else 0.0)).sum())
    made = products.dot(solve_api.pinv(x, rtol=float(limit)), y)
    residuals = constant(np.empty(0, plain_values.dtype))
    if rank == n and m > n:
        rest = y - products.dot(x, made)
        squares = reduce.sum((rest * complex_ops.conj(rest)).real if np_dtype(rest).kind == "c" else rest * rest, dim=(0,))
        residuals = shape_ops.reshape(squares, shape=(1,) if y.ndim == 1 else squares.shape)
    return made, residuals, np.int32(rank), values


def tensorinv(a: Any, ind: int = 2) -> Any:
    t = inexact(as_array(a))
    if ind <= 0:
        raise ValueError("Invalid ind argument.")
    if math.prod(t.shape[:ind]) != math.prod(t.shape[ind:]):
        raise LinAlgError(f"Last 2 dimensions of the array must be square: shape {t.shape} split at {ind} is not.")
    return solve_api.tensorinv(t, ind)


@torch_names
def tensorsolve(a: Any, b: Any, axes: Any = None) -> Any:
    x, y = (inexact(t) for t in operands(a, b))
    if axes is not None:
        kept = [d for d in range(x.ndim) if d not in many_axes(tuple(axes), x.ndim)]
        x = shape_ops.permute(x, dims=(*kept, *many_axes(tuple(axes), x.ndim)))
    if math.prod(x.shape[y.ndim :]) != math.prod(x.shape[: y.ndim]):
        raise LinAlgError("Input arrays must satisfy the requirement prod(a.shape[b.ndim:]) == prod(a.shape[:b.ndim])")
    return solve_api.tensorsolve(x, y)


# ----- decompositions -------------------------------------------------------------------------------------------------------------


def cholesky(a: Any, /, *, upper: bool = False) -> Any:
    return decomposition.cholesky(_matrices(a, square=True), upper=upper)


def qr(a: Any, mode: str = "reduced") -> Any:
    t = _matrices(a)
    if mode == "raw":
        raise ValueError("qr(mode='raw') gives LAPACK's reflectors, which have no rule here. Use mode='reduced', 'complete' or 'r'.")
    if mode not in ("reduced", "complete", "r"):
        raise ValueError(f"Unrecognized mode {mode!r}. Choose 'reduced', 'complete' or 'r'.")
    found = decomposition.qr(t, mode)
    return found[1] if mode == "r" else _QRResult(*found)


def svd(a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    t = _matrices(a)
    return _SVDResult(*decomposition.svd(t, full_matrices)) if compute_uv else decomposition.svdvals(t)


def svdvals(x: Any, /) -> Any:
    return decomposition.svdvals(_matrices(x))


#: From NumPy 2.5 on eigenvalues of general matrices are complex whatever they are.
_ALWAYS_COMPLEX = np.linalg.eigvals(np.eye(1)).dtype.kind == "c"


def _real_if_all_are(t: Any, w: Any) -> bool:
    return np_dtype(t).kind != "c" and bool((values_of(w).imag == 0).all())


def eig(a: Any) -> Any:
    """Eigenvalues and eigenvectors; real where the matrix is real and all eigenvalues are."""
    t = _finite(_matrices(a, square=True))
    w, v = decomposition.eig(t)
    return _EigResult(w.real, v.real) if not _ALWAYS_COMPLEX and _real_if_all_are(t, w) else _EigResult(w, v)


def eigvals(a: Any) -> Any:
    t = _finite(_matrices(a, square=True))
    return decomposition.eigvals(t) if _ALWAYS_COMPLEX else real_if_possible(t, decomposition.eigvals(t))


def real_if_possible(t: Any, w: Any) -> Any:
    """Eigenvalues of a real matrix as real numbers, if all are."""
    return w.real if _real_if_all_are(t, w) else w


def _finite(t: Any) -> Any:
    if not np.isfinite(values_of(t)).all():
        raise LinAlgError("Array must not contain infs or NaNs")
    return t


def _triangle(UPLO: str) -> str:
    if UPLO.upper() not in ("L", "U"):
        raise ValueError("UPLO argument must be 'L' or 'U'")
    return UPLO.upper()


def eigh(a: Any, UPLO: str = "L") -> Any:
    return _EighResult(*decomposition.eigh(_matrices(a, square=True), _triangle(UPLO)))


def eigvalsh(a: Any, UPLO: str = "L") -> Any:
    return decomposition.eigvalsh(_matrices(a, square=True), _triangle(UPLO))


# ----- numbers that describe a matrix ---------------------------------------------------------------------------------------------


@torch_names
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """A norm of vectors or matrices along axes; without `ord` and `axis`, of all elements."""
    t = inexact(as_array(x))
    if axis is None and (ord is None or (ord in ("f", "fro") and t.ndim == 2) or (ord == 2 and t.ndim == 1)):
        return norm_api.vector_norm(t, 2, tuple(range(t.ndim)), keepdims)
    dims = tuple(range(t.ndim)) if axis is None else tuple(one_axis(d, t.ndim) for d in (axis if isinstance(axis, tuple) else (axis,)))
    if len(dims) == 1:
        if isinstance(ord, str):
            raise ValueError(f"Invalid norm order '{ord}' for vectors")
        return norm_api.vector_norm(t, 2 if ord is None else ord, dims, keepdims)
    if len(dims) != 2:
        raise ValueError("Improper number of dimensions to norm.")
    if dims[0] == dims[1]:
        raise ValueError("Duplicate axes given.")
    order = "fro" if ord in (None, "f") else ord
    if order not in ("fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf):
        raise ValueError(f"Invalid norm order {ord!r} for matrices.")
    return norm_api.matrix_norm(t, order, dims, keepdims)


@torch_names
def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    t = inexact(as_array(x))
    return norm_api.vector_norm(t, ord, many_axes(axis, t.ndim), keepdims)


@torch_names
def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    return norm(_matrices(x), ord, (-2, -1), keepdims)


def cond(x: Any, p: Any = None) -> Any:
    t = _matrices(x)
    if 0 in t.shape[-2:]:
        raise LinAlgError("cond is not defined on empty arrays")
    return linalg_api.cond(t, p)


def matrix_rank(A: Any, tol: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Any:
    """How many singular values are larger than a tolerance."""
    return constant(
        np.asarray(np.linalg.matrix_rank(values_of(A), plain(tol), hermitian, **({} if rtol is None else {"rtol": plain(rtol)})))
    )
