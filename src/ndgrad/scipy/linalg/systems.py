"""Solving linear systems: dense, triangular, banded, Toeplitz and circulant ones, inverses, least squares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, overload

import numpy

import ndgrad.linalg
import ndgrad.numpy as np
from ndgrad._src.core.variable import np_dtype
from ndgrad._src.ops import banded, toeplitz
from ndgrad._src.ops.vocabulary import tensor_ops
from ndgrad._src.tensor.storage import batch_dims
from ndgrad.numpy import linalg
from ndgrad.numpy.coercion import operands, plain, values_of
from ndgrad.scipy._without_rules import finite, floating

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from ndgrad._typing import Array, ArrayLike, Axes

__all__ = [
    "det", "inv", "lstsq", "matmul_toeplitz", "norm", "pinv", "pinvh", "solve", "solve_banded", "solve_circulant",
    "solve_toeplitz", "solve_triangular", "solveh_banded",
]  # fmt: skip

#: torch's functions. They return Arrays for Arrays; their own types say Tensor.
of_arrays: Any = ndgrad.linalg

_TRIANGULAR = ("upper triangular", "lower triangular")
_SYMMETRIC = {
    "sym": False, "symmetric": False, "her": True, "hermitian": True, "pos": True, "positive definite": True,
}  # fmt: skip


def square(name: str, a: ArrayLike, check_finite: bool = True) -> Array:
    t = finite(a, check_finite)
    if t.ndim < 2 or t.shape[-1] != t.shape[-2]:
        raise ValueError(f"{name}: expected square matrices, and the shape is {t.shape}. [nd-matrix]")
    return t


def adjoint(x: ArrayLike) -> Array:
    return np.swapaxes(x, -1, -2).conj()


def _mirror_triangle(a: Array, lower: bool, conjugate: bool) -> Array:
    """Return the symmetric (Hermitian) matrix of which one triangle is read."""
    half = np.tril(a, -1) if lower else np.triu(a, 1)
    other = np.swapaxes(half, -1, -2)
    diagonal = np.tril(np.triu(a))
    return (
        half
        + (other.conj() if conjugate else other)
        + (diagonal.real if conjugate and np_dtype(a).kind == "c" else diagonal)
    )


def _apply_structure(a: Array, assume_a: str | None, lower: bool) -> Array:
    """Return the matrix that a solver with an assumed structure reads."""
    if assume_a in _SYMMETRIC:
        return _mirror_triangle(a, lower, _SYMMETRIC[assume_a])
    if assume_a == "tridiagonal":
        return np.tril(np.triu(a, -1), 1)
    if assume_a == "diagonal":
        return np.tril(np.triu(a))
    if assume_a in _TRIANGULAR:
        return np.triu(a) if assume_a.startswith("upper") else np.tril(a)
    if assume_a not in (None, "gen", "general", "banded"):
        raise ValueError(f"{assume_a} is not a recognized matrix structure [nd-option]")
    return a


def times_columns(solver: Callable[[Array, Array], Any], a: Array, b: Array) -> Array:
    """Call a solver of matrices with a right side that is a vector if it has one dimension; stacks are broadcast."""
    vector = b.ndim == 1
    right = b[:, None] if vector else b
    if right.ndim < 2 or right.shape[-2] != a.shape[-1]:
        raise ValueError(
            f"the shapes of a {a.shape} and b {b.shape} are incompatible: b needs {a.shape[-1]} rows [nd-shape]"
        )
    lead = numpy.broadcast_shapes(a.shape[:-2], right.shape[:-2])
    made = solver(np.broadcast_to(a, (*lead, *a.shape[-2:])), np.broadcast_to(right, (*lead, *right.shape[-2:])))
    return made[..., 0] if vector else made


def _pair(a: ArrayLike, b: ArrayLike, check_finite: bool) -> list[Array]:
    return operands(finite(a, check_finite), finite(b, check_finite))


def solve(
    a: ArrayLike, b: ArrayLike, lower: bool = False, overwrite_a: bool = False, overwrite_b: bool = False,
    check_finite: bool = True, assume_a: str | None = None, transposed: bool = False,
) -> Array:  # fmt: skip
    """Solve a system of linear equations a @ x = b.

    Args:
        a: square matrix, of shape (..., n, n).
        b: right side, of shape (n,) or (..., n, k).
        lower: whether a symmetric or Hermitian matrix is read from its lower triangle.
        overwrite_a: accepted as in SciPy; has no effect, because inputs are never overwritten.
        overwrite_b: accepted as in SciPy; has no effect, because inputs are never overwritten.
        check_finite: whether infinities and NaN raise ValueError.
        assume_a: structure of the matrix: `"general"`, `"symmetric"`, `"hermitian"`, `"positive definite"`,
            `"diagonal"`, `"tridiagonal"`, `"banded"`, `"upper triangular"` or `"lower triangular"`. Only entries that
            such a matrix determines are read and have a gradient.
        transposed: whether to solve a.T @ x = b instead.

    Raises:
        LinAlgError: if the matrix is singular.

    >>> from ndgrad.scipy import linalg
    >>> linalg.solve([[2.0, 0.0], [9.0, 4.0]], [2.0, 4.0], assume_a="pos")
    array([1., 1.])
    """
    x, y = _pair(a, b, check_finite)
    x = _apply_structure(square("solve", x, False), assume_a, lower)
    if transposed:
        x = np.swapaxes(x, -1, -2)
        assume_a = {_TRIANGULAR[0]: _TRIANGULAR[1], _TRIANGULAR[1]: _TRIANGULAR[0]}.get(str(assume_a), assume_a)
    if assume_a in _TRIANGULAR:
        return times_columns(lambda p, q: tensor_ops.solve_triangular(p, q, upper=assume_a == _TRIANGULAR[0]), x, y)
    return times_columns(tensor_ops.solve, x, y)


def solve_triangular(
    a: ArrayLike, b: ArrayLike, trans: int | str = 0, lower: bool = False, unit_diagonal: bool = False,
    overwrite_b: bool = False, check_finite: bool = True,
) -> Array:  # fmt: skip
    """Solve a triangular system a @ x = b. The other triangle is never read.

    Args:
        a: square matrix, of shape (..., n, n).
        b: right side, of shape (n,) or (..., n, k).
        trans: 0 or `"N"` for a, 1 or `"T"` for its transpose, 2 or `"C"` for the conjugate transpose.
        lower: whether the matrix is lower triangular.
        unit_diagonal: whether the diagonal counts as ones.
        overwrite_b: accepted as in SciPy; has no effect, because inputs are never overwritten.
        check_finite: whether infinities and NaN raise ValueError.

    Raises:
        LinAlgError: if an element of the diagonal is zero.

    >>> from ndgrad.scipy import linalg
    >>> linalg.solve_triangular([[2.0, 1.0], [0.0, 4.0]], [4.0, 8.0])
    array([1., 2.])
    """
    x, y = _pair(a, b, check_finite)
    square("solve_triangular", x, False)
    turned = {0: 0, "N": 0, 1: 1, "T": 1, 2: 2, "C": 2}[trans]
    if turned:
        x = np.swapaxes(x, -1, -2) if turned == 1 else adjoint(x)
    diagonal = (
        values_of(np.diagonal(x, axis1=-2, axis2=-1).detach()) if not unit_diagonal and not _is_batched(x) else None
    )
    if diagonal is not None and not diagonal.all():
        place = int(numpy.argmin(numpy.abs(diagonal).reshape(-1, diagonal.shape[-1]).min(axis=0)))
        raise numpy.linalg.LinAlgError(f"singular matrix: resolution failed at diagonal {place} [nd-singular]")
    return times_columns(
        lambda p, q: tensor_ops.solve_triangular(p, q, upper=lower == bool(turned), unitriangular=unit_diagonal), x, y
    )


def _is_batched(t: Array) -> bool:
    return batch_dims(t) > 0


def inv(
    a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True, *, assume_a: str | None = None,
    lower: bool = False,
) -> Array:  # fmt: skip
    """Return the inverse of a square matrix.

    Args:
        a: square matrix, of shape (..., n, n).
        overwrite_a: accepted as in SciPy; has no effect, because inputs are never overwritten.
        check_finite: whether infinities and NaN raise ValueError.
        assume_a: structure of the matrix: `"general"`, `"symmetric"`, `"hermitian"`, `"positive definite"`,
            `"diagonal"`, `"tridiagonal"`, `"banded"`, `"upper triangular"` or `"lower triangular"`. Only entries that
            such a matrix determines are read and have a gradient.
        lower: whether a symmetric or Hermitian matrix is read from its lower triangle.

    >>> from ndgrad.scipy import linalg
    >>> linalg.inv([[2.0, 0.0], [0.0, 4.0]])
    array([[0.5 , 0.  ],
           [0.  , 0.25]])
    """
    return tensor_ops.inv(_apply_structure(square("inv", a, check_finite), assume_a, lower))


def det(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """Return the determinant of a square matrix.

    Args:
        a: square matrix, of shape (..., n, n).
        overwrite_a: accepted as in SciPy; has no effect, because inputs are never overwritten.
        check_finite: whether infinities and NaN raise ValueError.

    >>> from ndgrad.scipy import linalg
    >>> linalg.det([[2.0, 1.0], [0.0, 3.0]])
    array(6.)
    """
    return tensor_ops.det(square("det", a, check_finite))


def norm(
    a: ArrayLike, ord: float | str | None = None, axis: Axes = None, keepdims: bool = False, check_finite: bool = True,
) -> Array:  # fmt: skip
    """Return the norm of a vector or matrix. The default is that of its elements as one vector.

    Args:
        a: array of any shape.
        ord: order of the norm, as in `ndgrad.numpy.linalg.norm`.
        axis: axis of vectors, or two axes of matrices. The default is all axes.
        keepdims: whether reduced axes stay, with size 1.
        check_finite: whether infinities and NaN raise ValueError.

    >>> from ndgrad.scipy import linalg
    >>> linalg.norm([3.0, 4.0]).item()
    5.0
    """
    return linalg.norm(finite(a, check_finite), ord, axis, keepdims)


# ----- least squares --------------------------------------------------------------------------------------------------


def _tolerance(t: Array, rtol: float | None) -> float:
    return float(max(t.shape[-2:]) * numpy.finfo(np_dtype(t)).eps) if rtol is None else float(rtol)


@overload
def pinv(
    a: ArrayLike, *, atol: float | None = None, rtol: float | None = None, return_rank: Literal[False] = False,
    check_finite: bool = True,
) -> Array: ...  # fmt: skip
@overload
def pinv(
    a: ArrayLike, *, atol: float | None = None, rtol: float | None = None, return_rank: Literal[True],
    check_finite: bool = True,
) -> tuple[Array, NDArray[Any]]: ...  # fmt: skip
def pinv(
    a: ArrayLike, *, atol: float | None = None, rtol: float | None = None, return_rank: bool = False,
    check_finite: bool = True,
) -> Any:  # fmt: skip
    """Return the pseudoinverse of a matrix.

    Args:
        a: matrix, of shape (..., m, n).
        atol: absolute bound of singular values that count as zero. The default is 0.
        rtol: bound, relative to the largest, of singular values that count as zero. The default is the larger side
            times the machine epsilon.
        return_rank: whether the rank is returned too. It has no derivative.
        check_finite: whether infinities and NaN raise ValueError.

    >>> from ndgrad.scipy import linalg
    >>> linalg.pinv([[2.0, 0.0], [0.0, 0.0]])
    array([[0.5, 0. ],
           [0. , 0. ]])
    """
    return _pinv(finite(a, check_finite), atol, rtol, return_rank, hermitian=False)


def pinvh(
    a: ArrayLike, atol: float | None = None, rtol: float | None = None, lower: bool = True, return_rank: bool = False,
    check_finite: bool = True,
) -> Any:  # fmt: skip
    """Return the pseudoinverse of a Hermitian matrix, of which one triangle is read.

    Args:
        a: square matrix, of shape (..., n, n).
        atol: absolute bound of singular values that count as zero. The default is 0.
        rtol: bound, relative to the largest, of singular values that count as zero. The default is the larger side
            times the machine epsilon.
        lower: whether the lower triangle is read.
        return_rank: whether the rank is returned too. It has no derivative.
        check_finite: whether infinities and NaN raise ValueError.

    >>> from ndgrad.scipy import linalg
    >>> linalg.pinvh([[2.0, 0.0], [0.0, 0.0]])
    array([[0.5, 0. ],
           [0. , 0. ]])
    """
    return _pinv(
        _mirror_triangle(square("pinvh", a, check_finite), lower, True), atol, rtol, return_rank, hermitian=True
    )


def _pinv(t: Array, atol: float | None, rtol: float | None, return_rank: bool, *, hermitian: bool) -> Any:
    least = 0.0 if atol is None else float(atol)
    most = _tolerance(t, rtol)
    made = of_arrays.pinv(t, atol=least, rtol=most, hermitian=hermitian)
    if not return_rank:
        return made
    sizes = numpy.linalg.svd(values_of(t.detach()), compute_uv=False)
    return made, (sizes > least + most * sizes.max(axis=-1, initial=0.0, keepdims=True)).sum(axis=-1)


def lstsq(
    a: ArrayLike, b: ArrayLike, cond: float | None = None, overwrite_a: bool = False, overwrite_b: bool = False,
    check_finite: bool = True, lapack_driver: str | None = None,
) -> tuple[Array, Array, int, Array | None]:  # fmt: skip
    """Solve a system of linear equations in the least squares sense.

    Args:
        a: matrix, of shape (m, n).
        b: right side, of shape (m,) or (m, k).
        cond: singular values below `cond` times the largest count as zero. The default is the machine epsilon.
        overwrite_a: accepted as in SciPy; has no effect, because inputs are never overwritten.
        overwrite_b: accepted as in SciPy; has no effect, because inputs are never overwritten.
        check_finite: whether infinities and NaN raise ValueError.
        lapack_driver: `"gelsy"` leaves out the singular values. Others have no effect.

    Returns:
        Solutions, residues, the rank and the singular values. All but the rank are differentiable.

    >>> from ndgrad.scipy import linalg
    >>> x, residues, rank, s = linalg.lstsq([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]], [1.0, 3.0, 5.0])
    >>> x.round(6)
    array([1., 2.])
    """
    x, y = _pair(a, b, check_finite)
    limit = numpy.finfo(np_dtype(x)).eps if cond is None else plain(cond)
    made, residues, rank, values = linalg.lstsq(x, y, float(limit))
    if y.ndim == 1 and residues.shape == (1,):
        residues = residues[0]
    return made, residues, int(rank), None if lapack_driver == "gelsy" else values


# ----- banded systems -------------------------------------------------------------------------------------------------


def solve_banded(
    l_and_u: tuple[int, int], ab: ArrayLike, b: ArrayLike, overwrite_ab: bool = False, overwrite_b: bool = False,
    check_finite: bool = True,
) -> Array:  # fmt: skip
    """Solve a system with a band matrix, given by its diagonals: ab[u + i - j, j] == a[i, j]. Gradients are banded too.

    Args:
        l_and_u: numbers of diagonals below and above the main one.
        ab: diagonals as rows, of shape (..., l + u + 1, n).
        b: right side, of shape (n,) or (..., n, k).
        overwrite_ab: accepted as in SciPy; has no effect, because inputs are never overwritten.
        overwrite_b: accepted as in SciPy; has no effect, because inputs are never overwritten.
        check_finite: whether infinities and NaN raise ValueError.

    >>> from ndgrad.scipy import linalg
    >>> linalg.solve_banded((0, 1), [[0.0, 1.0], [2.0, 4.0]], [4.0, 8.0])
    array([1., 2.])
    """
    l, u = (int(n) for n in l_and_u)
    bands, right = _pair(ab, b, check_finite)
    if bands.ndim < 2 or bands.shape[-2] != l + u + 1:
        raise ValueError(
            f"invalid values for the number of lower and upper diagonals: l+u+1 ({l + u + 1}) "
            f"does not equal ab.shape[-2] ({bands.shape[-2]}) [nd-shape]"
        )
    return times_columns(lambda p, q: banded.solve_banded(p, q, lower=l, upper=u), bands, right)


def all_bands(ab: Array, lower: bool) -> tuple[Array, int]:
    """Return the bands of a Hermitian matrix given by those of one triangle, and their number on each side."""
    count = ab.shape[-2] - 1
    n = ab.shape[-1]
    rows = []
    for k in range(count, 0, -1):  # upper diagonals, the outermost first; the entry (j - k, j) is in column j
        row = ab[..., k, :].conj() if lower else ab[..., count - k, :]
        rows.append(np.roll(row, k, -1) if lower else row)
    main = ab[..., 0, :] if lower else ab[..., count, :]
    below = [ab[..., k, :] if lower else np.roll(ab[..., count - k, :].conj(), -k, -1) for k in range(1, count + 1)]
    made = np.stack([*rows, main, *below], axis=-2)
    inside = numpy.add.outer(numpy.arange(-count, count + 1), numpy.arange(n))
    return np.where((inside >= 0) & (inside < n), made, 0.0), count


def solveh_banded(
    ab: ArrayLike, b: ArrayLike, overwrite_ab: bool = False, overwrite_b: bool = False, lower: bool = False,
    check_finite: bool = True,
) -> Array:  # fmt: skip
    """Solve a system with a Hermitian positive definite band matrix, given by the diagonals of one triangle.

    Args:
        ab: diagonals as rows, of shape (..., u + 1, n).
        b: right side, of shape (n,) or (..., n, k).
        overwrite_ab: accepted as in SciPy; has no effect, because inputs are never overwritten.
        overwrite_b: accepted as in SciPy; has no effect, because inputs are never overwritten.
        lower: whether the diagonals are those of the lower triangle.
        check_finite: whether infinities and NaN raise ValueError.

    >>> from ndgrad.scipy import linalg
    >>> linalg.solveh_banded([[4.0, 5.0], [2.0, 0.0]], [6.0, 7.0], lower=True)
    array([1., 1.])
    """
    bands, right = _pair(ab, b, check_finite)
    require_positive(bands, lower)
    whole, count = all_bands(bands, lower)
    return times_columns(lambda p, q: banded.solve_banded(p, q, lower=count, upper=count), whole, right)


def require_positive(bands: Array, lower: bool) -> None:
    """Raise for matrices on which SciPy's factorisation fails and ours would continue; inside vmap, where values cannot
    decide, nothing is checked.
    """
    if not _is_batched(bands):
        import scipy.linalg

        scipy.linalg.cholesky_banded(values_of(bands.detach()), lower=lower, check_finite=False)


# ----- Toeplitz and circulant systems ---------------------------------------------------------------------------------


def _column_and_row(c_or_cr: ArrayLike | tuple[ArrayLike, ArrayLike]) -> tuple[Array, Array]:
    if isinstance(c_or_cr, tuple):
        c, r = operands(*(floating(v) for v in c_or_cr))
        return c, r
    c = floating(c_or_cr)
    return c, c.conj()


def solve_toeplitz(c_or_cr: ArrayLike | tuple[ArrayLike, ArrayLike], b: ArrayLike, check_finite: bool = True) -> Array:
    """Solve a system with the Toeplitz matrix of a first column and row.

    Neither the matrix nor its gradient is formed: memory is that of c, r and b, and backward takes the time of a solve.

    Args:
        c_or_cr: first column, of shape (n,), or a pair of first column and row. The first element of the row is not
            read.
        b: right side, of shape (n,) or (..., n, k).
        check_finite: whether infinities and NaN raise ValueError.

    >>> from ndgrad.scipy import linalg
    >>> linalg.solve_toeplitz([2.0, 1.0], [3.0, 3.0])
    array([1., 1.])
    """
    c, r = _column_and_row(c_or_cr)
    line, right = operands(_line(finite(c, check_finite), finite(r, check_finite)), finite(b, check_finite))
    n = c.shape[-1]
    if r.shape[-1] != n or right.ndim == 0 or right.shape[-2 if right.ndim > 1 else 0] != n:
        raise ValueError(
            f"Incompatible dimensions: a Toeplitz matrix of shape {(n, r.shape[-1])} and b of shape {right.shape}. "
            "[nd-shape]"
        )
    columns = right[:, None] if right.ndim == 1 else right
    if line.ndim == 1:  # one matrix: all right sides are its columns
        sides = np.moveaxis(columns, -2, 0)
        made = np.moveaxis(toeplitz.solve_toeplitz(line, sides.reshape(n, -1)).reshape(sides.shape), 0, -2)
    else:
        lead = numpy.broadcast_shapes(line.shape[:-1], columns.shape[:-2])
        stack = [np.broadcast_to(line, (*lead, line.shape[-1])), np.broadcast_to(columns, (*lead, *columns.shape[-2:]))]
        made = toeplitz.solve_toeplitz(*stack)
    return made[..., 0] if right.ndim == 1 else made


def _line(c: Array, r: Array) -> Array:
    """Return the diagonals of a Toeplitz matrix, from the last of its first row to the last of its first column."""
    lead = numpy.broadcast_shapes(c.shape[:-1], r.shape[:-1])
    return np.concatenate([np.broadcast_to(v, (*lead, v.shape[-1])) for v in (r[..., :0:-1], c)], axis=-1)


def matmul_toeplitz(
    c_or_cr: ArrayLike | tuple[ArrayLike, ArrayLike], x: ArrayLike, check_finite: bool = False,
    workers: int | None = None,
) -> Array:  # fmt: skip
    """Return the product of a Toeplitz matrix and x, by Fourier transforms (a small one directly).

    Args:
        c_or_cr: first column, or a pair of first column and row. The first element of the row is not read.
        x: vector or matrix to multiply, of shape (n,) or (n, k).
        check_finite: whether infinities and NaN raise ValueError.
        workers: accepted as in SciPy; has no effect.

    >>> from ndgrad.scipy import linalg
    >>> linalg.matmul_toeplitz([2.0, 1.0], [1.0, 0.0])
    array([2., 1.])
    """
    c, r = _column_and_row(c_or_cr)
    line, v = operands(_line(c, r), finite(x, check_finite))
    m, n = c.shape[-1], r.shape[-1]
    if v.ndim == 0 or v.shape[0] != n:
        raise ValueError(f"matmul_toeplitz: a matrix of shape {(m, n)} and x of shape {v.shape} do not fit [nd-matmul]")
    return toeplitz.toeplitz_times(line, v.reshape(n, -1)).reshape((m, *v.shape[1:]))


def solve_circulant(
    c: ArrayLike, b: ArrayLike, singular: str = "raise", tol: float | None = None, caxis: int = -1, baxis: int = 0,
    outaxis: int = 0,
) -> Array:  # fmt: skip
    """Solve a system with the circulant matrix of a first column, by Fourier transforms.

    Args:
        c: first column.
        b: right side.
        singular: `"raise"`, or `"lstsq"` to leave out frequencies with (almost) zero spectrum.
        tol: bound of the spectrum that counts as zero. The default is the size times the machine epsilon times the
            largest.
        caxis: axis of `c` along which the column lies.
        baxis: axis of `b` along which the right side lies.
        outaxis: axis of the result along which the solution lies.

    >>> from ndgrad.scipy import linalg
    >>> linalg.solve_circulant([2.0, 1.0], [3.0, 3.0])
    array([1., 1.])
    """
    column, right = floating(c), floating(b)
    spectrum = np.fft.fft(np.moveaxis(column, caxis, -1))
    size = values_of(abs(spectrum.detach())) if not _is_batched(spectrum) else None
    mask: Any = False
    if size is not None:
        limit = size.max(axis=-1, keepdims=True) * size.shape[-1] * numpy.finfo(float).eps if tol is None else tol
        mask = size <= limit
        if numpy.any(mask) and singular != "lstsq":
            raise numpy.linalg.LinAlgError(
                "near singular matrix. Use singular='lstsq' for a solution in the least squares sense. [nd-singular]"
            )
    image = np.fft.fft(np.moveaxis(right, baxis, -1))
    quotient = np.where(mask, 0.0, image / np.where(mask, 1.0, spectrum))
    made = np.fft.ifft(quotient)
    if all(np_dtype(t).kind != "c" for t in (column, right)):
        made = made.real
    return np.moveaxis(made, -1, outaxis)
