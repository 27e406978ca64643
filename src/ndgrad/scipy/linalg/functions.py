"""Functions of matrices: exponential, logarithm, roots, powers, trigonometric and hyperbolic functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy

from ndgrad._src.core.detach_checks import at_stake
from ndgrad._src.core.variable import np_dtype
from ndgrad._src.ops import matrix_root
from ndgrad._src.ops.matrix_function import derivative_by_blocks
from ndgrad._src.ops.vocabulary import tensor_ops
from ndgrad._src.tensor.storage import batch_dims
from ndgrad.numpy.coercion import constant, operands, values_of
from ndgrad.scipy.linalg.systems import of_arrays, square

if TYPE_CHECKING:
    from ndgrad._typing import Array, ArrayLike

__all__ = [
    "coshm", "cosm", "expm", "expm_frechet", "fractional_matrix_power", "funm", "logm", "signm", "sinhm", "sinm",
    "sqrtm", "tanhm", "tanm",
]  # fmt: skip


def expm(A: ArrayLike) -> Array:
    """Return the matrix exponential, the sum of A^k / k!.

    Args:
        A: square matrix, of shape (..., n, n).

    >>> from ndgrad.scipy import linalg
    >>> linalg.expm([[0.0, 1.0], [0.0, 0.0]])
    array([[1., 1.],
           [0., 1.]])
    """
    return tensor_ops.matrix_exp(square("expm", A, False))


@overload
def expm_frechet(
    A: ArrayLike, E: ArrayLike, method: str | None = None, compute_expm: Literal[True] = True, check_finite: bool = True
) -> tuple[Array, Array]: ...
@overload
def expm_frechet(
    A: ArrayLike, E: ArrayLike, method: str | None = None, *, compute_expm: Literal[False], check_finite: bool = True
) -> Array: ...
def expm_frechet(
    A: ArrayLike, E: ArrayLike, method: str | None = None, compute_expm: bool = True, check_finite: bool = True
) -> Any:
    """Return the matrix exponential, and its derivative along E.

    Args:
        A: square matrix, of shape (..., n, n).
        E: direction, of the shape of `A`.
        method: accepted as in SciPy; has no effect, because one method serves all sizes.
        compute_expm: whether the exponential is returned too, before the derivative.
        check_finite: whether infinities and NaN raise ValueError.

    >>> from ndgrad.scipy import linalg
    >>> value, slope = linalg.expm_frechet([[0.0]], [[1.0]])
    >>> value, slope
    (array([[1.]]), array([[1.]]))
    """
    a, e = operands(square("expm_frechet", A, check_finite), square("expm_frechet", E, check_finite))
    if a.shape != e.shape:
        raise ValueError("expected A and E to be the same shape [nd-shape]")
    moved = derivative_by_blocks(tensor_ops.matrix_exp, a, e, tensor_ops)
    return (tensor_ops.matrix_exp(a), moved) if compute_expm else moved


def _refuse_estimate(name: str, disp: bool | None) -> None:
    if disp is False:
        raise NotImplementedError(
            f"{name}(): disp=False returns an estimate of the error too, which is not computed here. Leave it out. "
            "[nd-unsupported]"
        )


def sqrtm(A: ArrayLike, disp: bool | None = None, blocksize: int | None = None) -> Array:
    """Return the principal square root; complex for a real matrix with a negative eigenvalue.

    Args:
        A: square matrix, of shape (..., n, n).
        disp: False raises NotImplementedError, because the error of the result is not estimated. Other values have no
            effect.
        blocksize: accepted as in SciPy; has no effect.

    >>> from ndgrad.scipy import linalg
    >>> linalg.sqrtm([[4.0, 0.0], [0.0, 9.0]])
    array([[2., 0.],
           [0., 3.]])
    """
    _refuse_estimate("sqrtm", disp)
    return matrix_root.matrix_sqrt(square("sqrtm", A, False))


def logm(A: ArrayLike, disp: bool | None = None) -> Array:
    """Return the principal logarithm; complex for a real matrix with a negative eigenvalue.

    Args:
        A: square matrix, of shape (..., n, n).
        disp: False raises NotImplementedError, because the error of the result is not estimated. Other values have no
            effect.

    >>> from ndgrad.scipy import linalg
    >>> linalg.logm([[1.0, 1.0], [0.0, 1.0]]).round(6)
    array([[0., 1.],
           [0., 0.]])
    """
    _refuse_estimate("logm", disp)
    return matrix_root.matrix_log(square("logm", A, False))


def fractional_matrix_power(A: ArrayLike, t: ArrayLike) -> Array:
    """Return a power of a matrix: by products for whole numbers, else exp(t log(A)).

    Args:
        A: square matrix, of shape (..., n, n).
        t: exponent, which may carry a derivative.

    >>> from ndgrad.scipy import linalg
    >>> linalg.fractional_matrix_power([[4.0, 0.0], [0.0, 9.0]], 0.5).round(6)
    array([[2., 0.],
           [0., 3.]])
    """
    a = square("fractional_matrix_power", A, False)
    if isinstance(t, (int, numpy.integer)) or (isinstance(t, float) and t.is_integer()):
        return of_arrays.matrix_power(a, int(t))
    made = expm(t * logm(a))
    # The logarithm is complex if an eigenvalue is negative, and then a change of t alone makes the power complex.
    return made if at_stake(made) else _real_like(a, made)


def _real_like(a: Array, made: Array) -> Array:
    """Return the real part, if the matrix is real and the result is real up to rounding; inside vmap, where values
    cannot decide, the result stays complex.
    """
    if np_dtype(a).kind == "c" or np_dtype(made).kind != "c" or batch_dims(made):
        return made
    values = values_of(made.detach())
    return (
        made.real
        if numpy.allclose(values.imag, 0.0, atol=1e-13 * max(1.0, float(numpy.abs(values).max(initial=0.0))))
        else made
    )


def _exp_i(a: Array) -> Array:
    return expm(1j * a)


def cosm(A: ArrayLike) -> Array:
    """Return the matrix cosine.

    Args:
        A: square matrix, of shape (..., n, n).

    >>> from ndgrad.scipy import linalg
    >>> linalg.cosm([[0.0, 1.0], [0.0, 0.0]])
    array([[1., 0.],
           [0., 1.]])
    """
    a = square("cosm", A, False)
    return (_exp_i(a) + _exp_i(-a)) / 2.0 if np_dtype(a).kind == "c" else _exp_i(a).real


def sinm(A: ArrayLike) -> Array:
    """Return the matrix sine.

    Args:
        A: square matrix, of shape (..., n, n).

    >>> from ndgrad.scipy import linalg
    >>> linalg.sinm([[0.0, 1.0], [0.0, 0.0]])
    array([[0., 1.],
           [0., 0.]])
    """
    a = square("sinm", A, False)
    return (_exp_i(a) - _exp_i(-a)) / 2j if np_dtype(a).kind == "c" else _exp_i(a).imag


def tanm(A: ArrayLike) -> Array:
    """Return the matrix tangent, cosm(A)^-1 sinm(A).

    Args:
        A: square matrix, of shape (..., n, n).

    >>> from ndgrad.scipy import linalg
    >>> linalg.tanm([[0.0, 1.0], [0.0, 0.0]])
    array([[0., 1.],
           [0., 0.]])
    """
    return tensor_ops.solve(cosm(A), sinm(A))


def coshm(A: ArrayLike) -> Array:
    """Return the hyperbolic matrix cosine.

    Args:
        A: square matrix, of shape (..., n, n).

    >>> from ndgrad.scipy import linalg
    >>> linalg.coshm([[0.0, 1.0], [0.0, 0.0]])
    array([[1., 0.],
           [0., 1.]])
    """
    a = square("coshm", A, False)
    return (expm(a) + expm(-a)) / 2.0


def sinhm(A: ArrayLike) -> Array:
    """Return the hyperbolic matrix sine.

    Args:
        A: square matrix, of shape (..., n, n).

    >>> from ndgrad.scipy import linalg
    >>> linalg.sinhm([[0.0, 1.0], [0.0, 0.0]])
    array([[0., 1.],
           [0., 0.]])
    """
    a = square("sinhm", A, False)
    return (expm(a) - expm(-a)) / 2.0


def tanhm(A: ArrayLike) -> Array:
    """Return the hyperbolic matrix tangent, coshm(A)^-1 sinhm(A).

    Args:
        A: square matrix, of shape (..., n, n).

    >>> from ndgrad.scipy import linalg
    >>> linalg.tanhm([[0.0, 1.0], [0.0, 0.0]])
    array([[0., 1.],
           [0., 0.]])
    """
    return tensor_ops.solve(coshm(A), sinhm(A))


def signm(A: ArrayLike, disp: bool | None = None) -> Array:
    """Return the matrix sign function: 1 on eigenvalues with positive real part, -1 on the others, by A (A A)^(-1/2).

    Args:
        A: square matrix, of shape (..., n, n).
        disp: False raises NotImplementedError, because the error of the result is not estimated. Other values have no
            effect.

    >>> from ndgrad.scipy import linalg
    >>> linalg.signm([[3.0, 0.0], [0.0, -2.0]]).round(6) + 0.0
    array([[ 1.,  0.],
           [ 0., -1.]])
    """
    _refuse_estimate("signm", disp)
    a = square("signm", A, False)
    return tensor_ops.solve(sqrtm(a @ a), a)


def funm(A: ArrayLike, func: Callable[[Any], Any], disp: bool = True) -> Array:
    """Return a function of a diagonalisable matrix, by its eigenvectors.

    Eigenvalues must be distinct for a derivative; expm, logm, sqrtm and the other functions do not require this.

    Args:
        A: square matrix, of shape (..., n, n).
        func: function of the eigenvalues, which it gets as a complex Array.
        disp: False raises NotImplementedError, because the error of the result is not estimated. Other values have no
            effect.

    >>> from ndgrad.scipy import linalg
    >>> linalg.funm([[4.0, 0.0], [0.0, 9.0]], lambda w: w**2)
    array([[16.,  0.],
           [ 0., 81.]])
    """
    _refuse_estimate("funm", disp)
    a = square("funm", A, False)
    w, v = of_arrays.eig(a)
    made = (v * func(w)[..., None, :]) @ tensor_ops.inv(v)
    return _real_like(a, made) if not at_stake(made) or _keeps_conjugates(func, w) else made


def _keeps_conjugates(func: Callable[[Any], Any], w: Array) -> bool:
    """True if func(conj(z)) = conj(func(z)) around eigenvalues: only then does a change of a real matrix leave a real
    result real.
    """
    if batch_dims(w):
        return False
    beside = values_of(w.detach()) * (1 + 1e-3j) + 1e-3j
    one, other = (values_of(func(constant(z)).detach()) for z in (beside, beside.conj()))
    return numpy.allclose(one.conj(), other, rtol=1e-10, atol=1e-12)
