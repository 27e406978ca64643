"""Linear algebra of small matrices and stacks of them by native kernels, where there are kernels.

Each function returns None if LAPACK should do the work: without kernels, for one or large matrices, for dtypes other
than float32 and float64, and if a matrix is singular (Cholesky: not positive definite) or a result is not finite. So
LAPACK decides about errors.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy

from ndgrad._src.arrays import native_kernels
from ndgrad._src.foundations import registry

if TYPE_CHECKING:
    from ndgrad._typing import Payload

#: The largest order of a matrix, and number of columns of a right-hand side.
_LARGEST, _COLUMNS = 32, 64


def _is_small(*arrays: Any, alone: bool = False) -> bool:
    """True if the kernels take these matrices, the first of which is square.

    One matrix is left to LAPACK, which is as fast, unless `alone`: NumPy does not solve triangular systems.
    """
    a = arrays[0]
    if a.__class__ is not numpy.ndarray or not native_kernels.has_kernels(a.dtype) or a.ndim < 2:
        return False
    if a.shape[-1] != a.shape[-2] or not 0 < a.shape[-1] <= _LARGEST:
        return False
    for x in arrays:
        if x.__class__ is not numpy.ndarray or x.dtype != a.dtype or x.ndim < 2 or not x.size or not x.flags.aligned:
            return False
    if not alone and all(x.ndim == 2 for x in arrays):
        return False
    return native_kernels.kernels() is not None


def _stack(x: Payload, lead: tuple[int, ...]) -> Payload:
    """Return matrices as one stack. Strides are whole numbers of elements, or the stack is a copy."""
    shape = (math.prod(lead), *x.shape[-2:])
    if x.shape[:-2] != lead:
        x = numpy.broadcast_to(x, (*lead, *x.shape[-2:]))
    x = x.reshape(shape)
    return x if not any(s % x.itemsize for s in x.strides) else numpy.ascontiguousarray(x)


def inverse(x: Payload) -> Payload:
    """Return the inverses of matrices, or None."""
    if not _is_small(x):
        return None
    return registry.eager_kernels.run_matrices("inverse", x.shape, _stack(x, x.shape[:-2]))


def solve(a: Payload, b: Payload) -> Payload:
    """Return the solutions of a @ x = b, or None."""
    if not _is_small(a, b) or b.shape[-2] != a.shape[-1] or b.shape[-1] > _COLUMNS:
        return None
    lead = numpy.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    shape = (*lead, *b.shape[-2:])
    return registry.eager_kernels.run_matrices("solve", shape, _stack(a, lead), _stack(b, lead))


def solve_triangular(a: Payload, b: Payload, upper: bool, unit: bool) -> Payload:
    """Return the solutions for triangular matrices, or None. The other triangle is not read."""
    if not _is_small(a, b, alone=True) or b.shape[-2] != a.shape[-1] or b.shape[-1] > _COLUMNS:
        return None
    lead = numpy.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    shape = (*lead, *b.shape[-2:])
    return registry.eager_kernels.run_matrices("triangular", shape, _stack(a, lead), _stack(b, lead), upper, unit)


def pivots(x: Payload) -> Payload:
    """Return numbers (..., n) whose product is the determinant, or None."""
    if not _is_small(x):
        return None
    return registry.eager_kernels.run_matrices("pivots", x.shape[:-1], _stack(x, x.shape[:-2]))


def cholesky(x: Payload) -> Payload:
    """Return the lower Cholesky factors of matrices, or None."""
    if not _is_small(x):
        return None
    return registry.eager_kernels.run_matrices("cholesky", x.shape, _stack(x, x.shape[:-2]))
