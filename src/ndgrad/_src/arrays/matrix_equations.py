"""Sylvester's, Stein's and Riccati's equations, square roots and logarithms of matrices, on stacks of raw matrices.

The constraint: LAPACK's Schur form, behind all of these, takes one matrix at a time, and NumPy does not have it at all.
One matrix, and large ones, go to SciPy. Stacks of small ones, and everything where SciPy is absent, are solved as
ordinary linear systems in the entries of the unknown, for the whole stack at once.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy

from ndgrad._src.arrays.host_fallback import on_host
from ndgrad._src.arrays.precision import is_inexact

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload

#: Up to this many unknowns, the system that Kronecker's product makes of a matrix equation is solved as it stands.
_SMALL = 100


def _scipy(what: str) -> Any:
    try:
        return importlib.import_module("scipy.linalg")
    except ImportError as error:
        raise ImportError(
            f'{what} comes from SciPy, which could not be imported ({error}). Install it: pip install "ndgrad[scipy]". '
            "[nd-install]"
        ) from None


def _has_scipy() -> bool:
    try:
        return importlib.import_module("scipy.linalg") is not None
    except ImportError:
        return False


def _one_by_one(function: Callable[..., Any], *stacks: Any, like: Any) -> Any:
    """A function of single matrices on matrices or stacks of them, computed in double precision; the
    result is shaped like `like`.

    All arguments get one dtype: given a real and a complex matrix, SciPy's Sylvester solver takes blocks of a real
    Schur form for entries of a complex one.
    """
    dtype = numpy.result_type(*stacks)
    wide = numpy.result_type(dtype, numpy.float64)
    lead = like.shape[:-2]
    flat = [s.reshape((math.prod(lead), *s.shape[-2:])).astype(wide, copy=False) for s in stacks]
    made = [numpy.asarray(function(*matrices)) for matrices in zip(*flat, strict=True)]
    out = numpy.stack(made).reshape(like.shape) if made else numpy.empty(like.shape, wide)
    if dtype == wide or not is_inexact(dtype):
        return out
    return out.astype(dtype if out.dtype.kind == dtype.kind else numpy.result_type(dtype, numpy.complex64))


def _by_unknowns(np: Library, matrix: Any, q: Payload) -> Payload:
    """The unknown, its entries row by row, from the matrix of the linear system for them."""
    return np.linalg.solve(matrix, q.reshape((*q.shape[:-2], q.shape[-2] * q.shape[-1], 1))).reshape(q.shape)


def _kronecker(np: Library, a: Payload, b: Payload) -> Payload:
    made = a[..., :, None, :, None] * b[..., None, :, None, :]
    m, n = a.shape[-1], b.shape[-1]
    return made.reshape((*made.shape[:-4], m * n, m * n))


def sylvester(np: Library, a: Payload, b: Payload, q: Payload) -> Payload:
    """The x with a x + x b = q."""
    small = q.shape[-1] * q.shape[-2] <= _SMALL
    if (not small or (np is numpy and math.prod(q.shape[:-2]) == 1)) and _has_scipy():
        return on_host(np, _large_sylvester)(a, b, q)
    m, n = q.shape[-2:]
    rows, columns = np.eye(m, dtype=a.dtype), np.eye(n, dtype=b.dtype)
    return _by_unknowns(np, _kronecker(np, a, columns) + _kronecker(np, rows, b.swapaxes(-1, -2)), q)


def _large_sylvester(a: Any, b: Any, q: Any) -> Any:
    return _one_by_one(_scipy("sylvester").solve_sylvester, a, b, q, like=q)


def stein(np: Library, a: Payload, q: Payload) -> Payload:
    """The x with x - a x a^H = q."""
    n = q.shape[-1]
    if n * n > _SMALL and _has_scipy():
        return on_host(np, _large_stein)(a, q)
    return _by_unknowns(np, np.eye(n * n, dtype=a.dtype) - _kronecker(np, a, a.conj()), q)


def _large_stein(a: Any, q: Any) -> Any:
    return _one_by_one(_scipy("stein").solve_discrete_lyapunov, a, q, like=q)


def continuous_riccati(a: Any, b: Any, q: Any, r: Any) -> Any:
    return _one_by_one(_scipy("solve_continuous_are").solve_continuous_are, a, b, q, r, like=q)


def discrete_riccati(a: Any, b: Any, q: Any, r: Any) -> Any:
    return _one_by_one(_scipy("solve_discrete_are").solve_discrete_are, a, b, q, r, like=q)


def square_root(a: Any) -> Any:
    return _one_by_one(_scipy("matrix_sqrt").sqrtm, a, like=a)


def logarithm(a: Any) -> Any:
    return _one_by_one(_scipy("matrix_log").logm, a, like=a)


__all__ = ["continuous_riccati", "discrete_riccati", "logarithm", "square_root", "stein", "sylvester"]
