"""Sylvester, Stein and Riccati equations, matrix square roots and logarithms, on stacks of raw matrices.

The constraint: all of these need LAPACK's Schur form, which takes one matrix at a time and is missing in NumPy. Single
and large matrices use SciPy. Stacks of small ones, and everything without SciPy, are solved as ordinary linear systems
in the entries of the unknown, for the whole stack at once.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy

from ndgrad._src.arrays.host_fallback import wrap_for_host
from ndgrad._src.arrays.precision import is_inexact

if TYPE_CHECKING:
    from types import ModuleType

    from ndgrad._typing import Library, Payload

#: Up to this many unknowns, the Kronecker system of a matrix equation is solved directly.
_SMALL = 100


def _scipy(what: str) -> ModuleType:
    try:
        return importlib.import_module("scipy.linalg")
    except ImportError as error:
        raise ImportError(
            f'{what} comes from SciPy, which could not be imported ({error}). Install it: pip install scipy. '
            "[nd-install]"
        ) from None


def _has_scipy() -> bool:
    try:
        return importlib.import_module("scipy.linalg") is not None
    except ImportError:
        return False


def _apply_one_by_one(function: Callable[..., Any], *stacks: Any, like: Payload) -> Payload:
    """Apply a function of single matrices to matrices or stacks, in double precision. The result has the shape of
    `like`.

    All arguments get one dtype: given a real and a complex matrix, SciPy's Sylvester solver mistakes blocks of a real
    Schur form for entries of a complex one.
    """
    dtype = numpy.result_type(*stacks)
    wide = numpy.result_type(dtype, numpy.float64)
    lead = like.shape[:-2]
    flat = [s.reshape((math.prod(lead), *s.shape[-2:])).astype(wide, copy=False) for s in stacks]
    made = [numpy.asarray(function(*matrices)) for matrices in zip(*flat, strict=True)]
    out = numpy.ascontiguousarray(numpy.stack(made)).reshape(like.shape) if made else numpy.empty(like.shape, wide)
    if dtype == wide or not is_inexact(dtype):
        return out
    return out.astype(dtype if out.dtype.kind == dtype.kind else numpy.result_type(dtype, numpy.complex64))


def _solve_unknowns(np: Library, matrix: Payload, q: Payload) -> Payload:
    """Solve the linear system for the entries of the unknown, row by row."""
    return np.linalg.solve(matrix, q.reshape((*q.shape[:-2], q.shape[-2] * q.shape[-1], 1))).reshape(q.shape)


def _kronecker(np: Library, a: Payload, b: Payload) -> Payload:
    made = a[..., :, None, :, None] * b[..., None, :, None, :]
    m, n = a.shape[-1], b.shape[-1]
    return made.reshape((*made.shape[:-4], m * n, m * n))


def sylvester(np: Library, a: Payload, b: Payload, q: Payload) -> Payload:
    """Return the solution x of a x + x b = q."""
    small = q.shape[-1] * q.shape[-2] <= _SMALL
    if (not small or (np is numpy and math.prod(q.shape[:-2]) == 1)) and _has_scipy():
        return wrap_for_host(np, _large_sylvester, "solve_sylvester")(a, b, q)
    m, n = q.shape[-2:]
    rows, columns = np.eye(m, dtype=a.dtype), np.eye(n, dtype=b.dtype)
    return _solve_unknowns(np, _kronecker(np, a, columns) + _kronecker(np, rows, b.swapaxes(-1, -2)), q)


def _large_sylvester(a: Payload, b: Payload, q: Payload) -> Payload:
    return _apply_one_by_one(_scipy("sylvester").solve_sylvester, a, b, q, like=q)


def stein(np: Library, a: Payload, q: Payload) -> Payload:
    """Return the solution x of x - a x a^H = q."""
    n = q.shape[-1]
    if n * n > _SMALL and _has_scipy():
        return wrap_for_host(np, _large_stein, "solve_discrete_lyapunov")(a, q)
    return _solve_unknowns(np, np.eye(n * n, dtype=a.dtype) - _kronecker(np, a, a.conj()), q)


def _large_stein(a: Payload, q: Payload) -> Payload:
    return _apply_one_by_one(_scipy("stein").solve_discrete_lyapunov, a, q, like=q)


def continuous_riccati(a: Payload, b: Payload, q: Payload, r: Payload) -> Payload:
    return _apply_one_by_one(_scipy("solve_continuous_are").solve_continuous_are, a, b, q, r, like=q)


def discrete_riccati(a: Payload, b: Payload, q: Payload, r: Payload) -> Payload:
    return _apply_one_by_one(_scipy("solve_discrete_are").solve_discrete_are, a, b, q, r, like=q)


def square_root(a: Payload) -> Payload:
    return _apply_one_by_one(_scipy("matrix_sqrt").sqrtm, a, like=a)


def logarithm(a: Payload) -> Payload:
    return _apply_one_by_one(_scipy("matrix_log").logm, a, like=a)


__all__ = ["continuous_riccati", "discrete_riccati", "logarithm", "square_root", "stein", "sylvester"]
