"""`numpy.linalg` on Arrays: NumPy's names, results and errors over the ops of linear algebra.

If NumPy and torch differ, NumPy's conventions apply: real eigenvalues stay real, `solve` takes a vector only if it has
one dimension, tolerances and shapes of residuals are NumPy's, and bad shapes raise `LinAlgError`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

import numpy as np
from numpy.linalg import LinAlgError

from ndgrad._src.arrays.precision import finfo
from ndgrad._src.core.variable import np_dtype
from ndgrad._src.ops import comparison, determinant, reduce
from ndgrad._src.ops import complex as complex_ops
from ndgrad._src.ops import shape as shape_ops
from ndgrad._src.tensor.arguments import torch_names
from ndgrad._src.tensor.functions import decomposition as _decomposition
from ndgrad._src.tensor.functions import linalg as _linalg
from ndgrad._src.tensor.functions import norm as _norm
from ndgrad._src.tensor.functions import solve as _solve
from ndgrad._src.tensor.storage import values_to_check
from ndgrad.numpy import products, shapes
from ndgrad.numpy.coercion import (
    arrange_like,
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

if TYPE_CHECKING:
    from ndgrad._typing import ArrayLike, Axes, Dtype, Out
    from ndgrad.numpy._array import Array

#: torch's functions. They return Arrays for Arrays, which their declarations cannot express.
decomposition: Any = _decomposition
linalg_api: Any = _linalg
norm_api: Any = _norm
solve_api: Any = _solve

__all__ = [
    "LinAlgError", "cholesky", "cond", "cross", "det", "diagonal", "eig", "eigh", "eigvals", "eigvalsh", "inv", "lstsq",
    "matmul", "matrix_norm", "matrix_power", "matrix_rank", "matrix_transpose", "multi_dot", "norm", "outer", "pinv",
    "qr", "slogdet", "solve", "svd", "svdvals", "tensordot", "tensorinv", "tensorsolve", "trace", "vecdot",
    "vector_norm",
]  # fmt: skip



class EigResult(NamedTuple):
    """Eigenvalues, and eigenvectors as columns."""

    eigenvalues: Array
    eigenvectors: Array


class EighResult(NamedTuple):
    """Eigenvalues in increasing order, and orthonormal eigenvectors as columns."""

    eigenvalues: Array
    eigenvectors: Array


class QRResult(NamedTuple):
    """Orthonormal columns and an upper triangle, whose product is the matrix."""

    Q: Array
    R: Array


class SlogdetResult(NamedTuple):
    """The sign of a determinant, and the logarithm of its absolute value."""

    sign: Array
    logabsdet: Array


class SVDResult(NamedTuple):
    """Singular vectors, and singular values in decreasing order: the matrix is `U * S @ Vh`."""

    U: Array
    S: Array
    Vh: Array


# ----- accepted arguments ---------------------------------------------------------------------------------------------


def _matrices(a: ArrayLike, *, square: bool = False) -> Array:
    t = as_array(a)
    if t.ndim < 2:
        raise LinAlgError(f"{t.ndim}-dimensional array given. Array must be at least two-dimensional [nd-matrix]")
    if square and t.shape[-1] != t.shape[-2]:
        raise LinAlgError(f"Last 2 dimensions of the array must be square, and the shape is {t.shape} [nd-matrix]")
    if np_dtype(t).name == "float16":
        raise TypeError(
            "array type float16 is unsupported in linalg. Convert it with .astype(numpy.float32). [nd-dtype]"
        )
    return inexact(t)


def _systems(a: ArrayLike, b: ArrayLike) -> list[Array]:
    x, y = operands(_matrices(a, square=True), b)
    return [inexact(x), inexact(y)]


# ----- products and parts ---------------------------------------------------------------------------------------------


def matmul(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The matrix product.

    Args:
        x1, x2: matrices of shapes (..., m, k) and (..., k, n), or lines.

    >>> import ndgrad.numpy as np
    >>> np.linalg.matmul(np.eye(2), np.array([1.0, 2.0]))
    array([1., 2.])
    """
    return call(np.matmul, x1, x2)


def outer(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The products of all pairs of elements of two lines.

    Args:
        x1, x2: lines.

    >>> import ndgrad.numpy as np
    >>> np.linalg.outer(np.array([1.0, 2.0]), np.array([3.0, 4.0]))
    array([[3., 4.],
           [6., 8.]])
    """
    x, y = as_array(x1), as_array(x2)
    if x.ndim != 1 or y.ndim != 1:
        raise ValueError(
            f"Input arrays must be one-dimensional, but they are x1.ndim={x.ndim} and x2.ndim={y.ndim}. [nd-ndim]"
        )
    return products.outer(x, y)


@torch_names
def tensordot(x1: ArrayLike, x2: ArrayLike, /, *, axes: int | Sequence[Any] = 2) -> Array:
    """The sums of products over axes of both arrays: the last and the first ones, or the given ones.

    Args:
        x1, x2: arrays.
        axes: number of axes to sum over, the last ones of `x1` and the first ones of `x2`, or a pair of lists with the
            axes of each.

    >>> import ndgrad.numpy as np
    >>> np.linalg.tensordot(np.ones((2, 3)), np.ones((3, 4)), axes=1).shape
    (2, 4)
    """
    return products.tensordot(x1, x2, axes)


@torch_names
def vecdot(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1) -> Array:
    """The inner products along an axis, the first array conjugated.

    Args:
        x1: first array, which is conjugated.
        x2: second array, which broadcasts with the first.
        axis: axis of the vectors.

    >>> import ndgrad.numpy as np
    >>> np.linalg.vecdot(np.array([1.0, 2.0]), np.array([3.0, 4.0]))
    array(11.)
    """
    return call(np.vecdot, x1, x2, axis=axis)


@torch_names
def cross(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1) -> Array:
    """The cross products of vectors of length 3 along an axis.

    Args:
        x1, x2: arrays of vectors.
        axis: axis of the vectors.

    Raises:
        ValueError: if the vectors do not have length 3.

    >>> import ndgrad.numpy as np
    >>> np.linalg.cross(np.array([1.0, 0.0, 0.0]), np.array([0.0, 1.0, 0.0]))
    array([0., 0., 1.])
    """
    x, y = as_array(x1), as_array(x2)
    if x.shape[one_axis(axis, x.ndim)] != 3 or y.shape[one_axis(axis, y.ndim)] != 3:
        raise ValueError(
            "Both input arrays must be (arrays of) 3-dimensional vectors, but their shapes are "
            f"{x.shape} and {y.shape}. [nd-shape]"
        )
    return products.cross(x, y, axis=axis)


def multi_dot(arrays: Sequence[ArrayLike], *, out: Out = None) -> Array:
    """The product of several matrices, in the order that needs the fewest multiplications.

    Args:
        arrays: matrices. The first and the last one may be lines.
        out: array that receives the result.

    >>> import ndgrad.numpy as np
    >>> np.linalg.multi_dot([np.ones((2, 3)), np.ones((3, 4)), np.ones((4, 1))]).shape
    (2, 1)
    """
    chain = operands(*arrays)
    if len(chain) < 2:
        raise ValueError("Expecting at least two arrays. [nd-too-few]")
    for place, t in enumerate(chain):
        if t.ndim != 2 and not (t.ndim == 1 and place in (0, len(chain) - 1)):
            raise LinAlgError(f"{t.ndim}-dimensional array given. Array must be two-dimensional [nd-matrix]")
    return deliver("multi_dot", linalg_api.multi_dot(chain), out)


def matrix_power(a: ArrayLike, n: int) -> Array:
    """An integer power of square matrices; a negative one is a power of the inverse.

    Args:
        a: square matrices of shape (..., n, n).
        n: exponent.

    Raises:
        LinAlgError: if the matrices are not square.

    >>> import ndgrad.numpy as np
    >>> np.linalg.matrix_power(np.array([[1.0, 1.0], [0.0, 1.0]]), 3)
    array([[1., 3.],
           [0., 1.]])
    """
    t = as_array(a)
    if t.ndim < 2 or t.shape[-1] != t.shape[-2]:
        raise LinAlgError(f"Last 2 dimensions of the array must be square, and the shape is {t.shape} [nd-matrix]")
    try:
        power = operator.index(n)
    except TypeError as error:
        raise TypeError("exponent must be an integer [nd-type]") from error
    if not power:
        return arrange_like(with_dtype(linalg_api.matrix_power(t, 0), np_dtype(t)), t)
    return (
        with_dtype(linalg_api.matrix_power(t, power), np_dtype(t))
        if power > 0
        else linalg_api.matrix_power(inexact(t), power)
    )


def matrix_transpose(x: ArrayLike, /) -> Array:
    """A view with the last two axes swapped.

    Args:
        x: matrices of shape (..., m, n).

    >>> import ndgrad.numpy as np
    >>> np.linalg.matrix_transpose(np.zeros((4, 2, 3))).shape
    (4, 3, 2)
    """
    return shapes.matrix_transpose(x)


def diagonal(x: ArrayLike, /, *, offset: int = 0) -> Array:
    """A view of the diagonals of matrices, which are the last two axes.

    Args:
        x: matrices of shape (..., m, n).
        offset: number of the diagonal: 0 for the main one, positive above it, negative below it.

    >>> import ndgrad.numpy as np
    >>> np.linalg.diagonal(np.array([[1, 2], [3, 4]]))
    array([1, 4])
    """
    return shapes.diagonal(x, offset, -2, -1)


def trace(x: ArrayLike, /, *, offset: int = 0, dtype: Dtype = None) -> Array:
    """The sums of the diagonals of matrices, which are the last two axes.

    Args:
        x: matrices of shape (..., m, n).
        offset: number of the diagonal: 0 for the main one, positive above it, negative below it.
        dtype: dtype of the result. None means that of the sum.

    >>> import ndgrad.numpy as np
    >>> np.linalg.trace(np.array([[1.0, 2.0], [3.0, 4.0]]))
    array(5.)
    """
    return shapes.trace(x, offset, -2, -1, dtype)


# ----- determinants and inverses --------------------------------------------------------------------------------------


def det(a: ArrayLike) -> Array:
    """The determinants of square matrices; singular ones have the right gradient.

    Args:
        a: square matrices of shape (..., n, n).

    Raises:
        LinAlgError: if the matrices are not square.

    >>> import ndgrad.numpy as np
    >>> x = np.array([[1.0, 2.0], [3.0, 4.0]]).requires_grad_()
    >>> np.linalg.det(x).backward()
    >>> x.grad.round(6)
    array([[ 4., -3.],
           [-2.,  1.]])
    """
    return determinant.det(_matrices(a, square=True))


def slogdet(a: ArrayLike) -> SlogdetResult:
    """The sign of determinants and the logarithm of their absolute values.

    Args:
        a: square matrices of shape (..., n, n).

    Raises:
        LinAlgError: if the matrices are not square.

    >>> import ndgrad.numpy as np
    >>> np.linalg.slogdet(np.array([[0.0, 1.0], [1.0, 0.0]])).sign
    array(-1.)
    """
    return SlogdetResult(*linalg_api.slogdet(_matrices(a, square=True)))


def inv(a: ArrayLike) -> Array:
    """The inverses of square matrices.

    Args:
        a: square matrices of shape (..., n, n).

    Raises:
        LinAlgError: if a matrix is not square or is singular.

    >>> import ndgrad.numpy as np
    >>> np.linalg.inv(np.array([[2.0, 0.0], [0.0, 4.0]]))
    array([[0.5 , 0.  ],
           [0.  , 0.25]])
    """
    return solve_api.inv(_matrices(a, square=True))


def solve(a: ArrayLike, b: ArrayLike) -> Array:
    """The solutions x of a x = b; `b` is a vector only if it has one dimension.

    Args:
        a: square matrices of shape (..., n, n).
        b: right-hand sides: a vector of length n, or matrices of shape (..., n, k).

    Raises:
        LinAlgError: if a matrix is not square or is singular.

    >>> import ndgrad.numpy as np
    >>> np.linalg.solve(np.array([[2.0, 0.0], [0.0, 4.0]]), np.array([1.0, 1.0]))
    array([0.5 , 0.25])
    """
    x, y = _systems(a, b)
    n = x.shape[-1]
    if y.ndim == 1:
        if y.shape[0] != n:
            raise ValueError(
                f"solve: mismatch in core dimension: a has shape {x.shape} and b has shape {y.shape} [nd-shape]"
            )
        made = solve_api.solve(x, shape_ops.reshape(y, shape=(n, 1)))
        return shape_ops.reshape(made, shape=made.shape[:-1])
    if y.ndim == 0 or y.shape[-2] != n:
        raise ValueError(
            f"solve: mismatch in core dimension: a has shape {x.shape} and b has shape {y.shape} [nd-shape]"
        )
    lead = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    return solve_api.solve(shape_ops.expand(x, shape=(*lead, n, n)), shape_ops.expand(y, shape=(*lead, *y.shape[-2:])))


def pinv(
    a: ArrayLike, rcond: ArrayLike | None = None, hermitian: bool = False, *, rtol: ArrayLike | None = NO_VALUE
) -> Array:
    """The pseudoinverses of matrices; singular values below `rcond` times the largest count as zero.

    Args:
        a: matrices of shape (..., m, n).
        rcond: singular values below `rcond` times the largest count as zero. None means 1e-15.
        hermitian: whether the matrices are Hermitian, which allows a faster algorithm.
        rtol: another name of `rcond`. None means the larger of m and n times the machine precision.

    Raises:
        ValueError: if both `rcond` and `rtol` are given.

    >>> import ndgrad.numpy as np
    >>> np.linalg.pinv(np.array([[2.0], [0.0]]))
    array([[0.5, 0. ]])
    """
    t = _matrices(a)
    if rcond is None:
        limit = 1e-15 if rtol is NO_VALUE else max(t.shape[-2:]) * finfo(np_dtype(t)).eps if rtol is None else rtol
    elif rtol is not NO_VALUE:
        raise ValueError("`rtol` and `rcond` can't be both set. [nd-exclusive]")
    else:
        limit = rcond
    limit = constant(np.asarray(plain(limit), float)) if np.ndim(limit) else float(plain(limit))
    return solve_api.pinv(t, rtol=limit, hermitian=hermitian)


def lstsq(a: ArrayLike, b: ArrayLike, rcond: float | None = None) -> tuple[Array, Array, np.int32, Array]:
    """Least-squares solutions, residuals, the rank and the singular values; all but the rank are differentiable.

    Args:
        a: matrix of shape (m, n).
        b: right-hand sides of shape (m,) or (m, k).
        rcond: singular values below `rcond` times the largest count as zero. None means the larger of m and n times the
            machine precision, -1 means 0.

    Returns:
        Solutions, sums of squared residuals (empty unless m > n and the rank is n), rank, and singular values.

    >>> import ndgrad.numpy as np
    >>> np.linalg.lstsq(np.array([[1.0], [1.0]]), np.array([1.0, 3.0]))[0]
    array([2.])
    """
    x, y = (inexact(t) for t in operands(a, b))
    if x.ndim != 2 or y.ndim not in (1, 2):
        raise LinAlgError(
            f"{x.ndim if x.ndim != 2 else y.ndim}-dimensional array given. Array must be two-dimensional [nd-matrix]"
        )
    m, n = x.shape
    if y.shape[0] != m:
        raise LinAlgError(f"Incompatible dimensions: a has shape {x.shape} and b has shape {y.shape} [nd-shape]")
    values = decomposition.svdvals(x)
    limit = max(m, n) * finfo(np_dtype(x)).eps if rcond is None else 0.0 if rcond == -1 else float(rcond)
    rank = min(m, n)
    if rank:  # a traced function only needs to know whether it is full
        counted = comparison.gt(values, limit * values[:1])
        if not values_to_check(counted).all():
            rank = int(values_of(counted).sum())
    made = products.dot(solve_api.pinv(x, rtol=float(limit)), y)
    residuals = constant(np.empty(0, np_dtype(values)))
    if rank == n and m > n:
        rest = y - products.dot(x, made)
        squares = reduce.sum(
            (rest * complex_ops.conj(rest)).real if np_dtype(rest).kind == "c" else rest * rest, dim=(0,)
        )
        residuals = shape_ops.reshape(squares, shape=(1,) if y.ndim == 1 else squares.shape)
    return made, residuals, np.int32(rank), values


def tensorinv(a: ArrayLike, ind: int = 2) -> Array:
    """The inverse of an array as a linear map.

    Args:
        a: array of shape (*s, *t), where s and t have equally many elements.
        ind: number of axes in s.

    Returns:
        An Array of shape (*t, *s).

    >>> import ndgrad.numpy as np
    >>> np.linalg.tensorinv(np.eye(6).reshape(2, 3, 3, 2)).shape
    (3, 2, 2, 3)
    """
    t = inexact(as_array(a))
    if ind <= 0:
        raise ValueError("Invalid ind argument. [nd-range]")
    if math.prod(t.shape[:ind]) != math.prod(t.shape[ind:]):
        raise LinAlgError(
            f"Last 2 dimensions of the array must be square: shape {t.shape} split at {ind} is not. [nd-matrix]"
        )
    return solve_api.tensorinv(t, ind)


@torch_names
def tensorsolve(a: ArrayLike, b: ArrayLike, axes: Sequence[int] | None = None) -> Array:
    """The solution x of tensordot(a, x, x.ndim) = b.

    Args:
        a: array of shape (*b.shape, *x.shape).
        b: right-hand side.
        axes: axes of `a` to move to the end first. None moves none.

    >>> import ndgrad.numpy as np
    >>> np.linalg.tensorsolve(2.0 * np.eye(4).reshape(2, 2, 4), np.ones((2, 2)))
    array([0.5, 0.5, 0.5, 0.5])
    """
    x, y = (inexact(t) for t in operands(a, b))
    if axes is not None:
        kept = [d for d in range(x.ndim) if d not in many_axes(tuple(axes), x.ndim)]
        x = shape_ops.permute(x, dims=(*kept, *many_axes(tuple(axes), x.ndim)))
    if math.prod(x.shape[y.ndim :]) != math.prod(x.shape[: y.ndim]):
        raise LinAlgError(
            "Input arrays must satisfy the requirement prod(a.shape[b.ndim:]) == prod(a.shape[:b.ndim]) [nd-shape]"
        )
    return solve_api.tensorsolve(x, y)


# ----- decompositions -------------------------------------------------------------------------------------------------


def cholesky(a: ArrayLike, /, *, upper: bool = False) -> Array:
    """The triangular factors of positive definite matrices: L with L L^H = a, or U with U^H U = a.

    Args:
        a: square matrices of shape (..., n, n).
        upper: whether the result is the upper factor U. False gives L.

    Raises:
        LinAlgError: if a matrix is not positive definite.

    >>> import ndgrad.numpy as np
    >>> np.linalg.cholesky(np.array([[4.0, 2.0], [2.0, 2.0]]))
    array([[2., 0.],
           [1., 1.]])
    """
    return decomposition.cholesky(_matrices(a, square=True), upper=upper)


@overload
def qr(a: ArrayLike, mode: Literal["reduced", "complete"] = "reduced") -> QRResult: ...
@overload
def qr(a: ArrayLike, mode: Literal["r"]) -> Array: ...
def qr(a: ArrayLike, mode: str = "reduced") -> Any:
    """Orthonormal columns Q and upper triangles R whose product is the matrix; R alone with mode="r".

    Args:
        a: matrices of shape (..., m, n).
        mode: `"reduced"` for Q of shape (m, k) with k the smaller of m and n, `"complete"` for a square Q, `"r"` for R
            alone. NumPy's `"raw"` is an error.

    >>> import ndgrad.numpy as np
    >>> np.linalg.qr(np.array([[3.0], [4.0]])).R.round(6)
    array([[-5.]])
    """
    t = _matrices(a)
    if mode == "raw":
        raise ValueError(
            "qr(mode='raw') gives LAPACK's reflectors, which have no rule here. Use mode='reduced', 'complete' or 'r'. "
            "[nd-no-derivative]"
        )
    if mode not in ("reduced", "complete", "r"):
        raise ValueError(f"Unrecognized mode {mode!r}. Choose 'reduced', 'complete' or 'r'. [nd-option]")
    found = decomposition.qr(t, mode)
    return found[1] if mode == "r" else QRResult(*found)


@overload
def svd(
    a: ArrayLike, full_matrices: bool = True, compute_uv: Literal[True] = True, hermitian: bool = False
) -> SVDResult: ...
@overload
def svd(a: ArrayLike, full_matrices: bool = True, *, compute_uv: Literal[False], hermitian: bool = False) -> Array: ...
def svd(a: ArrayLike, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    """The singular value decomposition U, S, Vh; the singular values alone with compute_uv=False.

    Args:
        a: matrices of shape (..., m, n).
        full_matrices: whether U and Vh are square. False gives only the columns of U and rows of Vh that the smaller of
            m and n allows.
        compute_uv: whether the singular vectors are computed.
        hermitian: accepted as in NumPy. It has no effect: the algorithm for general matrices is used.

    >>> import ndgrad.numpy as np
    >>> np.linalg.svd(np.diag(np.array([1.0, 2.0])), compute_uv=False)
    array([2., 1.])
    """
    t = _matrices(a)
    return SVDResult(*decomposition.svd(t, full_matrices)) if compute_uv else decomposition.svdvals(t)


def svdvals(x: ArrayLike, /) -> Array:
    """The singular values in decreasing order.

    Args:
        x: matrices of shape (..., m, n).

    >>> import ndgrad.numpy as np
    >>> np.linalg.svdvals(np.array([[0.0, 2.0], [1.0, 0.0]]))
    array([2., 1.])
    """
    return decomposition.svdvals(_matrices(x))


#: Since NumPy 2.5, eigenvalues of general matrices are always complex.
_ALWAYS_COMPLEX = np.linalg.eigvals(np.eye(1)).dtype.kind == "c"


def _real_if_all_are(t: Array, w: Array) -> bool:
    return np_dtype(t).kind != "c" and bool((values_of(w).imag == 0).all())


def eig(a: ArrayLike) -> EigResult:
    """Eigenvalues and eigenvectors; real if the matrix and all eigenvalues are real.

    Args:
        a: square matrices of shape (..., n, n).

    Raises:
        LinAlgError: if a matrix is not square or has elements that are not finite.

    >>> import ndgrad.numpy as np
    >>> np.linalg.eig(np.diag(np.array([1.0, 2.0]))).eigenvectors.real
    array([[1., 0.],
           [0., 1.]])
    """
    t = _finite(_matrices(a, square=True))
    w, v = decomposition.eig(t)
    return EigResult(w.real, v.real) if not _ALWAYS_COMPLEX and _real_if_all_are(t, w) else EigResult(w, v)


def eigvals(a: ArrayLike) -> Array:
    """The eigenvalues of square matrices.

    Args:
        a: square matrices of shape (..., n, n).

    Raises:
        LinAlgError: if a matrix is not square or has elements that are not finite.

    >>> import ndgrad.numpy as np
    >>> np.linalg.eigvals(np.diag(np.array([1.0, 2.0]))).real
    array([1., 2.])
    """
    t = _finite(_matrices(a, square=True))
    return decomposition.eigvals(t) if _ALWAYS_COMPLEX else real_if_possible(t, decomposition.eigvals(t))


def real_if_possible(t: Array, w: Array) -> Array:
    """Return eigenvalues of a real matrix as real numbers, if all are."""
    return w.real if _real_if_all_are(t, w) else w


def _finite(t: Array) -> Array:
    if not np.isfinite(values_of(t)).all():
        raise LinAlgError("Array must not contain infs or NaNs [nd-values]")
    return t


def _triangle(UPLO: str) -> str:
    if UPLO.upper() not in ("L", "U"):
        raise ValueError("UPLO argument must be 'L' or 'U' [nd-option]")
    return UPLO.upper()


def eigh(a: ArrayLike, UPLO: str = "L") -> EighResult:
    """Eigenvalues in increasing order, and eigenvectors, of symmetric or Hermitian matrices; only one triangle is read.

    Args:
        a: square matrices of shape (..., n, n).
        UPLO: triangle that is read: `"L"` for the lower one, `"U"` for the upper one.

    Raises:
        LinAlgError: if the matrices are not square.

    >>> import ndgrad.numpy as np
    >>> np.linalg.eigh(np.array([[2.0, 1.0], [1.0, 2.0]])).eigenvalues
    array([1., 3.])
    """
    return EighResult(*decomposition.eigh(_matrices(a, square=True), _triangle(UPLO)))


def eigvalsh(a: ArrayLike, UPLO: str = "L") -> Array:
    """The eigenvalues of symmetric or Hermitian matrices, in increasing order.

    Args:
        a: square matrices of shape (..., n, n).
        UPLO: triangle that is read: `"L"` for the lower one, `"U"` for the upper one.

    Raises:
        LinAlgError: if the matrices are not square.

    >>> import ndgrad.numpy as np
    >>> np.linalg.eigvalsh(np.array([[2.0, 1.0], [1.0, 2.0]]))
    array([1., 3.])
    """
    return decomposition.eigvalsh(_matrices(a, square=True), _triangle(UPLO))


# ----- numbers that describe a matrix ---------------------------------------------------------------------------------


@torch_names
def norm(x: ArrayLike, ord: float | str | None = None, axis: Axes = None, keepdims: bool = False) -> Array:
    """A norm of vectors or matrices along axes; without `ord` and `axis`, of all elements.

    Args:
        x: array of numbers.
        ord: order of the norm. Vectors take any number, also infinities. Matrices take 1, -1, 2, -2, infinities,
            `"fro"` and `"nuc"`. None means the 2-norm of vectors and the Frobenius norm of matrices.
        axis: one axis for vectors, two for matrices. None means all axes.
        keepdims: whether reduced axes stay, with size 1.

    >>> import ndgrad.numpy as np
    >>> x = np.array([3.0, 4.0]).requires_grad_()
    >>> np.linalg.norm(x).backward()
    >>> x.grad
    array([0.6, 0.8])
    """
    t = inexact(as_array(x))
    if axis is None and (ord is None or (ord in ("f", "fro") and t.ndim == 2) or (ord == 2 and t.ndim == 1)):
        return norm_api.vector_norm(t, 2, tuple(range(t.ndim)), keepdims)
    dims = (
        tuple(range(t.ndim))
        if axis is None
        else tuple(one_axis(d, t.ndim) for d in (axis if isinstance(axis, tuple) else (axis,)))
    )
    if len(dims) == 1:
        if isinstance(ord, str):
            raise ValueError(f"Invalid norm order '{ord}' for vectors [nd-option]")
        return norm_api.vector_norm(t, 2 if ord is None else ord, dims, keepdims)
    if len(dims) != 2:
        raise ValueError("Improper number of dimensions to norm. [nd-ndim]")
    if dims[0] == dims[1]:
        raise ValueError("Duplicate axes given. [nd-dim]")
    order = "fro" if ord in (None, "f") else ord
    if order not in ("fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf):
        raise ValueError(f"Invalid norm order {ord!r} for matrices. [nd-option]")
    return norm_api.matrix_norm(t, order, dims, keepdims)


@torch_names
def vector_norm(x: ArrayLike, /, *, axis: Axes = None, keepdims: bool = False, ord: float = 2) -> Array:
    """A norm of vectors along axes, or of all elements.

    Args:
        x: array of numbers.
        axis: axis or axes of the vectors. None means all.
        keepdims: whether reduced axes stay, with size 1.
        ord: order of the norm: any number, also infinities.

    >>> import ndgrad.numpy as np
    >>> np.linalg.vector_norm(np.array([3.0, -4.0]), ord=1)
    array(7.)
    """
    t = inexact(as_array(x))
    return norm_api.vector_norm(t, ord, many_axes(axis, t.ndim), keepdims)


@torch_names
def matrix_norm(x: ArrayLike, /, *, keepdims: bool = False, ord: float | str = "fro") -> Array:
    """A norm of matrices, which are the last two axes.

    Args:
        x: matrices of shape (..., m, n).
        keepdims: whether reduced axes stay, with size 1.
        ord: order of the norm: 1, -1, 2, -2, infinities, `"fro"` or `"nuc"`.

    >>> import ndgrad.numpy as np
    >>> np.linalg.matrix_norm(np.eye(4))
    array(2.)
    """
    return norm(_matrices(x), ord, (-2, -1), keepdims)


def cond(x: ArrayLike, p: float | str | None = None) -> Array:
    """The condition numbers of matrices: the norm times the norm of the inverse.

    Args:
        x: matrices of shape (..., m, n). Norms other than 2, -2 and None need square ones.
        p: order of the norm, as for `norm`. None means 2.

    >>> import ndgrad.numpy as np
    >>> np.linalg.cond(np.diag(np.array([1.0, 2.0])))
    array(2.)
    """
    t = _matrices(x)
    if 0 in t.shape[-2:]:
        raise LinAlgError("cond is not defined on empty arrays [nd-too-few]")
    return linalg_api.cond(t, p)


def matrix_rank(A: ArrayLike, tol: float | None = None, hermitian: bool = False, *, rtol: float | None = None) -> Array:
    """The number of singular values larger than a tolerance.

    Args:
        A: matrices of shape (..., m, n).
        tol: smallest singular value that counts. None derives it from `rtol`.
        hermitian: whether the matrices are Hermitian, which allows a faster algorithm.
        rtol: smallest ratio to the largest singular value that counts. None means the larger of m and n times the
            machine precision.

    >>> import ndgrad.numpy as np
    >>> np.linalg.matrix_rank(np.ones((2, 2)))
    array(1)
    """
    return constant(
        np.asarray(
            np.linalg.matrix_rank(
                values_of(A), plain(tol), hermitian, **({} if rtol is None else {"rtol": plain(rtol)})
            )
        )
    )
