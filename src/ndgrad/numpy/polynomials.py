"""Polynomials as lines of coefficients, the highest power first, as in NumPy's older functions of these names."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from ndgrad._src.arrays.precision import finfo
from ndgrad._src.core.variable import np_dtype
from ndgrad._src.ops import arithmetic, join, padding
from ndgrad._src.ops import complex as complex_ops
from ndgrad._src.ops import reduce as reduce_ops
from ndgrad._src.ops import shape as shape_ops
from ndgrad.numpy import calculus, linalg, products
from ndgrad.numpy.coercion import arrange_like, as_array, constant, flat, inexact, operands, values_of

if TYPE_CHECKING:
    from ndgrad._typing import ArrayLike
    from ndgrad.numpy._array import Array

__all__ = [
    "poly", "polyadd", "polyder", "polydiv", "polyfit", "polyint", "polymul", "polysub", "polyval", "roots", "vander",
]  # fmt: skip


def _coefficients(p: ArrayLike) -> Array:
    if isinstance(p, np.poly1d):
        p = p.coeffs
    t = as_array(p)
    return shape_ops.reshape(t, shape=(1,)) if t.ndim == 0 else t


# ----- arithmetic -----------------------------------------------------------------------------------------------------


def _together(a1: ArrayLike, a2: ArrayLike) -> list[Array]:
    x, y = operands(_coefficients(a1), _coefficients(a2))
    length = max(x.shape[0], y.shape[0])
    return [padding.constant_pad_nd(t, pads=((length - t.shape[0], 0),), value=0) for t in (x, y)]


def polyadd(a1: ArrayLike, a2: ArrayLike) -> Array:
    """The sum of two polynomials.

    Args:
        a1, a2: coefficients, highest power first.

    >>> import ndgrad.numpy as np
    >>> np.polyadd(np.array([1, 2]), [3])
    array([1, 5])
    """
    x, y = _together(a1, a2)
    return x + y


def polysub(a1: ArrayLike, a2: ArrayLike) -> Array:
    """The difference of two polynomials.

    Args:
        a1, a2: coefficients, highest power first.

    >>> import ndgrad.numpy as np
    >>> np.polysub(np.array([1, 2]), [3])
    array([ 1, -1])
    """
    x, y = _together(a1, a2)
    return x - y


def polymul(a1: ArrayLike, a2: ArrayLike) -> Array:
    """The product of two polynomials.

    Args:
        a1, a2: coefficients, highest power first.

    >>> import ndgrad.numpy as np
    >>> np.polymul(np.array([1, 2]), [1, -2])
    array([ 1,  0, -4])
    """
    return calculus.convolve(_coefficients(a1), _coefficients(a2))


def polydiv(u: ArrayLike, v: ArrayLike) -> tuple[Array, Array]:
    """The quotient and the remainder of two polynomials.

    Args:
        u: coefficients of the dividend, highest power first.
        v: coefficients of the divisor, highest power first.

    >>> import ndgrad.numpy as np
    >>> np.polydiv(np.array([1.0, 0.0, -4.0]), [1.0, -2.0])
    (array([1., 2.]), array([0.]))
    """
    x, y = (inexact(t) for t in operands(_coefficients(u), _coefficients(v)))
    m, n = x.shape[0] - 1, y.shape[0] - 1
    steps = max(m - n + 1, 1)
    scale = 1.0 / y[0]
    rest = x
    quotient = []
    for k in range(m - n + 1):
        digit = scale * rest[k]
        quotient.append(digit)
        rest = rest - padding.constant_pad_nd(digit * y, pads=((k, m - n - k),), value=0.0)
    made = join.stack(*quotient, dim=0) if quotient else constant(np.zeros(steps, np_dtype(x)))
    rounded = values_of(rest)
    while rest.shape[0] > 1 and np.isclose(rounded[0], 0, rtol=1e-14):
        rest, rounded = rest[1:], rounded[1:]
    return made, rest


def polyval(p: ArrayLike, x: ArrayLike) -> Array:
    """The polynomial at x, by Horner's scheme; differentiable in the coefficients and in x.

    Args:
        p: coefficients, highest power first.
        x: array of arguments.

    >>> import ndgrad.numpy as np
    >>> np.polyval(np.array([1.0, 0.0, 2.0]), 3.0)
    array(11.)
    """
    c = _coefficients(p)
    if isinstance(x, np.poly1d):
        raise TypeError(
            "polyval() of a poly1d is their composition, which is a poly1d again. "
            "Use numpy.polyval on plain coefficients. [nd-unsupported]"
        )
    at = as_array(x)
    made: Any = arrange_like(at * 0, at)  # like NumPy's zeros_like(x), whose memory order the result has
    for k in range(c.shape[0]):
        made = made * at + c[k]
    return made


# ----- calculus -------------------------------------------------------------------------------------------------------


def polyder(p: ArrayLike, m: int = 1) -> Array:
    """The coefficients of the m-th derivative.

    Args:
        p: coefficients, highest power first.
        m: order of the derivative.

    >>> import ndgrad.numpy as np
    >>> np.polyder(np.array([1.0, 0.0, 2.0]))
    array([2., 0.])
    """
    c = _coefficients(p)
    if m < 0:
        raise ValueError("Order of derivative must be positive (see polyint) [nd-range]")
    for _ in range(m):
        n = c.shape[0] - 1
        c = c[:-1] * constant(np.arange(n, 0, -1))
    return c


def polyint(p: ArrayLike, m: int = 1, k: ArrayLike | None = None) -> Array:
    """The coefficients of the m-th integral, with constants k.

    Args:
        p: coefficients, highest power first.
        m: number of integrations.
        k: constant of each integration, or one number for all. None means zeros.

    >>> import ndgrad.numpy as np
    >>> np.polyint(np.array([2.0, 1.0]))
    array([1., 1., 0.])
    """
    c = _coefficients(p)
    if m < 0:
        raise ValueError("Order of integral must be positive (see polyder) [nd-range]")
    ends = constant(np.zeros(m)) if k is None else flat(as_array(k))
    if ends.shape[0] == 1 and m > 1:
        ends = shape_ops.expand(ends, shape=(m,))
    if ends.shape[0] < m:
        raise ValueError("k must be a scalar or a rank-1 array of length 1 or >m. [nd-shape]")
    for step in range(m):
        c = join.cat(*operands(c / constant(np.arange(c.shape[0], 0, -1)), ends[step : step + 1]), dim=0)
    return c


# ----- roots and fits -------------------------------------------------------------------------------------------------


def poly(seq_of_zeros: ArrayLike) -> Array:
    """The coefficients of the polynomial with these roots, or of the characteristic polynomial of a matrix.

    Args:
        seq_of_zeros: line of roots, or a square matrix.

    Returns:
        The coefficients, highest power first. They are real if complex roots come in conjugate pairs, as in NumPy. The
        derivative is then that of the real parts, which is exact if pairs stay pairs.

    >>> import ndgrad.numpy as np
    >>> np.poly(np.array([1.0, -2.0]))
    array([ 1.,  1., -2.])
    """
    zeros = _coefficients(seq_of_zeros)
    if zeros.ndim == 2 and zeros.shape[0] == zeros.shape[1] != 0:
        zeros = linalg.real_if_possible(zeros, linalg.eigvals(zeros))
    elif zeros.ndim != 1:
        raise ValueError("input must be 1d or non-empty square 2d array. [nd-matrix]")
    made = constant(np.ones(1, np_dtype(zeros)))
    for k in range(zeros.shape[0]):
        made = calculus.convolve(made, join.cat(*operands(constant(np.ones(1)), -zeros[k : k + 1]), dim=0))
    if np_dtype(made).kind == "c":
        found = values_of(zeros)
        if np.array_equal(np.sort(found), np.sort(found.conjugate())):
            made = complex_ops.real(made).copy()
    return made


def roots(p: ArrayLike) -> Array:
    """The roots, as eigenvalues of the companion matrix; differentiable if they are simple.

    Args:
        p: coefficients, highest power first.

    >>> import ndgrad.numpy as np
    >>> np.roots(np.array([1.0, 1.0, -2.0]))
    array([-2.,  1.])
    """
    c = _coefficients(p)
    if c.ndim != 1:
        raise ValueError("Input must be a rank-1 array. [nd-ndim]")
    nonzero = np.flatnonzero(values_of(c))
    if not len(nonzero):
        return constant(np.empty(0))
    zeros_at_origin = c.shape[0] - nonzero[-1] - 1
    c = inexact(c[int(nonzero[0]) : int(nonzero[-1]) + 1])
    n = c.shape[0] - 1
    if n == 0:
        return constant(np.zeros(zeros_at_origin))
    companion = join.cat(
        shape_ops.reshape(-c[1:] / c[0], shape=(1, n)), constant(np.eye(n - 1, n, dtype=np_dtype(c))), dim=0
    )
    found = linalg.real_if_possible(companion, linalg.eigvals(companion))
    return join.cat(found, constant(np.zeros(zeros_at_origin, np_dtype(found))), dim=0)


def vander(x: ArrayLike, N: int | None = None, increasing: bool = False) -> Array:
    """The matrix whose columns are powers of x.

    Args:
        x: line of numbers.
        N: number of columns. None means the length of `x`.
        increasing: whether powers increase from left to right.

    >>> import ndgrad.numpy as np
    >>> np.vander(np.array([2, 3]), 3)
    array([[4, 2, 1],
           [9, 3, 1]])
    """
    t = as_array(x)
    if t.ndim != 1:
        raise ValueError("x must be a one-dimensional array or sequence. [nd-ndim]")
    count = t.shape[0] if N is None else N
    columns = [constant(np.ones(t.shape, np.promote_types(np_dtype(t), int)))]
    for _ in range(1, count):
        columns.append(columns[-1] * t)
    columns = operands(*columns[: max(count, 1)])
    return join.stack(*(columns if increasing else columns[::-1]), dim=1)[:, :count]


@overload
def polyfit(
    x: ArrayLike, y: ArrayLike, deg: int, rcond: float | None = None, full: Literal[False] = False,
    w: ArrayLike | None = None, cov: Literal[False] = False,
) -> Array: ...  # fmt: skip
@overload
def polyfit(
    x: ArrayLike, y: ArrayLike, deg: int, rcond: float | None = None, full: Literal[False] = False,
    w: ArrayLike | None = None, *, cov: Literal[True, "unscaled"],
) -> tuple[Array, Array]: ...  # fmt: skip
@overload
def polyfit(
    x: ArrayLike, y: ArrayLike, deg: int, rcond: float | None = None, *, full: Literal[True],
    w: ArrayLike | None = None, cov: bool | str = False,
) -> tuple[Array, Array, np.int32, Array, float]: ...  # fmt: skip
def polyfit(
    x: ArrayLike, y: ArrayLike, deg: int, rcond: float | None = None, full: bool = False, w: ArrayLike | None = None,
    cov: bool | str = False,
) -> Any:  # fmt: skip
    """The polynomial of least squares; differentiable in the points, the values and the weights.

    Args:
        x: line of coordinates.
        y: values at the coordinates: a line, or a matrix with a data set in each column.
        deg: degree of the polynomial.
        rcond: singular values below `rcond` times the largest count as zero. None means the number of points times the
            machine precision.
        full: whether residuals, rank, singular values and `rcond` are returned, too.
        w: weights, by which the residuals are multiplied before they are squared.
        cov: whether the covariance of the coefficients is returned, too. `"unscaled"` does not scale it by the variance
            of the residuals.

    Returns:
        The coefficients, highest power first, in a tuple if `full` or `cov` asks for more.

    >>> import ndgrad.numpy as np
    >>> np.polyfit(np.array([0.0, 1.0, 2.0]), [1.0, 3.0, 5.0], 1).round(6)
    array([2., 1.])
    """
    at, values = inexact(as_array(x)), inexact(as_array(y))
    order = int(deg) + 1
    if order < 1:
        raise ValueError("expected deg >= 0 [nd-range]")
    if at.ndim != 1 or at.shape[0] == 0:
        raise TypeError("expected 1D vector for x, with an element at least [nd-ndim]")
    if values.ndim not in (1, 2) or values.shape[0] != at.shape[0]:
        raise TypeError(
            "expected x and y to have same length, and y 1D or 2D: "
            f"their shapes are {at.shape} and {values.shape} [nd-shape]"
        )
    rcond = len(at) * finfo(np_dtype(at)).eps if rcond is None else rcond
    matrix, right = vander(at, order), values
    if w is not None:
        weights = inexact(as_array(w))
        if weights.ndim != 1 or weights.shape[0] != values.shape[0]:
            raise TypeError("expected w and y to have the same length, and w to be a 1-d array [nd-shape]")
        matrix = matrix * weights[:, None]
        right = right * (weights[:, None] if right.ndim == 2 else weights)
    scale = arithmetic.sqrt(reduce_ops.sum(matrix * matrix, dim=(0,)))
    found, residuals, rank, singular = linalg.lstsq(matrix / scale, right, rcond)
    coefficients = found / (scale[:, None] if values.ndim == 2 else scale)
    if rank != order and not full:
        warnings.warn("Polyfit may be poorly conditioned", np.exceptions.RankWarning, stacklevel=2)
    if full:
        return coefficients, residuals, rank, singular, rcond
    if not cov:
        return coefficients
    base = linalg.inv(products.dot(matrix.T / scale[:, None], matrix / scale))
    base = base / (scale[:, None] * scale[None, :])
    if cov == "unscaled":
        return coefficients, base if values.ndim == 1 else base[:, :, None]
    if len(at) <= order:
        raise ValueError("the number of data points must exceed order to scale the covariance matrix [nd-too-few]")
    factor = residuals / (len(at) - order)
    return (coefficients, base * factor[0]) if values.ndim == 1 else (coefficients, base[:, :, None] * factor)
