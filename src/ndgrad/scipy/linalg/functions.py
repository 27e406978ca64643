"""Functions of matrices: exponential, logarithm, roots, powers, trigonometric and hyperbolic functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from ndgrad.api import decomposition
from ndgrad.api import linalg as linalg_api
from ndgrad.autograd.stake import at_stake
from ndgrad.autograd.variable import np_dtype
from ndgrad.numpy.coercion import constant, operands, values_of
from ndgrad.ops import matrix_root
from ndgrad.ops.matrix_function import derivative_by_blocks
from ndgrad.ops.vocabulary import tensor_ops
from ndgrad.scipy.linalg.systems import square
from ndgrad.storage import batch_dims

__all__ = [
    "coshm", "cosm", "expm", "expm_frechet", "fractional_matrix_power", "funm", "logm", "signm", "sinhm", "sinm", "sqrtm", "tanhm", "tanm",
]  # fmt: skip


def expm(A: Any) -> Any:
    return tensor_ops.matrix_exp(square("expm", A, False))


def expm_frechet(A: Any, E: Any, method: str | None = None, compute_expm: bool = True, check_finite: bool = True) -> Any:
    """The exponential, and its derivative along E."""
    a, e = operands(square("expm_frechet", A, check_finite), square("expm_frechet", E, check_finite))
    if a.shape != e.shape:
        raise ValueError("expected A and E to be the same shape")
    moved = derivative_by_blocks(tensor_ops.matrix_exp, a, e, tensor_ops)
    return (tensor_ops.matrix_exp(a), moved) if compute_expm else moved


def sqrtm(A: Any, disp: Any = None, blocksize: Any = None) -> Any:
    """The principal square root; complex for a real matrix with a negative eigenvalue."""
    return matrix_root.matrix_sqrt(square("sqrtm", A, False))


def logm(A: Any, disp: Any = None) -> Any:
    """The principal logarithm; complex for a real matrix with a negative eigenvalue."""
    return matrix_root.matrix_log(square("logm", A, False))


def fractional_matrix_power(A: Any, t: Any) -> Any:
    """A to a power: by products for whole numbers, else exp(t log(A)), differentiable in t too."""
    a = square("fractional_matrix_power", A, False)
    if isinstance(t, (int, numpy.integer)) or (isinstance(t, float) and t.is_integer()):
        return linalg_api.matrix_power(a, int(t))
    made = expm(t * logm(a))
    # the logarithm is complex if an eigenvalue is negative, and then a change of t alone makes the power complex
    return made if at_stake(made) else _real_like(a, made)


def _real_like(a: Any, made: Any) -> Any:
    """The real part, if the matrix is real and the result is but for rounding; inside vmap, where values cannot decide, complex."""
    if np_dtype(a).kind == "c" or np_dtype(made).kind != "c" or batch_dims(made):
        return made
    values = values_of(made.detach())
    return made.real if numpy.allclose(values.imag, 0.0, atol=1e-13 * max(1.0, float(numpy.abs(values).max(initial=0.0)))) else made


def _exp_i(a: Any) -> Any:
    return expm(1j * a)


def cosm(A: Any) -> Any:
    a = square("cosm", A, False)
    return (_exp_i(a) + _exp_i(-a)) / 2.0 if np_dtype(a).kind == "c" else _exp_i(a).real


def sinm(A: Any) -> Any:
    a = square("sinm", A, False)
    return (_exp_i(a) - _exp_i(-a)) / 2j if np_dtype(a).kind == "c" else _exp_i(a).imag


def tanm(A: Any) -> Any:
    return tensor_ops.solve(cosm(A), sinm(A))


def coshm(A: Any) -> Any:
    a = square("coshm", A, False)
    return (expm(a) + expm(-a)) / 2.0


def sinhm(A: Any) -> Any:
    a = square("sinhm", A, False)
    return (expm(a) - expm(-a)) / 2.0


def tanhm(A: Any) -> Any:
    return tensor_ops.solve(coshm(A), sinhm(A))


def signm(A: Any, disp: Any = None) -> Any:
    """The sign function: 1 on eigenvalues with positive real part, -1 on the others, by A (A A)^(-1/2)."""
    a = square("signm", A, False)
    return tensor_ops.solve(sqrtm(a @ a), a)


def funm(A: Any, func: Callable[[Any], Any], disp: bool = True) -> Any:
    """A function of a diagonalisable matrix, by eigenvectors; `func` takes the eigenvalues as a complex Array.

    Eigenvalues must be distinct for a derivative; expm, logm, sqrtm and the others of this module need not that.
    """
    a = square("funm", A, False)
    w, v = decomposition.eig(a)
    made = (v * func(w)[..., None, :]) @ tensor_ops.inv(v)
    return _real_like(a, made) if not at_stake(made) or _keeps_conjugates(func, w) else made


def _keeps_conjugates(func: Callable[[Any], Any], w: Any) -> bool:
    """Whether func(conj(z)) = conj(func(z)) around eigenvalues: only then does a change of a real matrix leave a real result real."""
    if batch_dims(w):
        return False
    beside = values_of(w.detach()) * (1 + 1e-3j) + 1e-3j
    one, other = (values_of(func(constant(z)).detach()) for z in (beside, beside.conj()))
    return numpy.allclose(one.conj(), other, rtol=1e-10, atol=1e-12)
