"""The matrix exponential, by Padé approximants with scaling and squaring (Higham 2005), for stacks of matrices."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy

from ndgrad._src.arrays.precision import finfo, is_inexact
from ndgrad._src.ops.matrix import adjoint
from ndgrad._src.ops.table import op

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload, Vocabulary

# The largest 1-norm for which the approximant of each degree is exact to rounding (Higham 2005, tables 2.3 and 2.4).
_DOUBLE = (
    (3, 1.495585217958292e-2),
    (5, 2.539398330063230e-1),
    (7, 9.504178996162932e-1),
    (9, 2.097847961257068),
    (13, 5.371920351148152),
)
_SINGLE = ((3, 4.258730016922831e-1), (5, 1.880152677804762), (7, 3.925724783138660))


def _coefficients(degree: int) -> list[float]:
    """Return the coefficients of the numerator of the [q/q] approximant of exp, scaled so that the last one is 1."""
    q = degree
    first = math.factorial(2 * q) // math.factorial(q)
    return [float(first * math.comb(q, j) * math.factorial(2 * q - j) // math.factorial(2 * q)) for j in range(q + 1)]


def _pade(np: Library, a: Payload, degree: int) -> Payload:
    """Return r(a) = (v - u)^-1 (v + u), with u the odd and v the even part of the numerator."""
    b = _coefficients(degree)
    identity = np.eye(a.shape[-1], dtype=a.dtype)
    square = a @ a
    powers = [identity, square]
    if degree < 13:
        while 2 * len(powers) <= degree:
            powers.append(powers[-1] @ square)
        odd = sum(b[2 * i + 1] * p for i, p in enumerate(powers))
        even = sum(b[2 * i] * p for i, p in enumerate(powers))
    else:
        # The high half is multiplied by the sixth power once, which saves three products.
        fourth = square @ square
        powers += [fourth, fourth @ square]
        sixth = powers[3]
        odd = sixth @ sum(b[7 + 2 * i] * powers[i] for i in range(1, 4)) + sum(
            b[2 * i + 1] * p for i, p in enumerate(powers)
        )
        even = sixth @ sum(b[6 + 2 * i] * powers[i] for i in range(1, 4)) + sum(
            b[2 * i] * p for i, p in enumerate(powers)
        )
    u = a @ odd
    return np.linalg.solve(even - u, even + u)


def _matrix_exp(np: Library, x: Payload) -> Payload:
    if not is_inexact(x.dtype):
        x = x.astype(np.float64)
    if x.size == 0:
        return x.copy()
    table = _SINGLE if finfo(x.dtype).eps > 1e-10 else _DOUBLE
    norm = np.abs(x).sum(axis=-2).max(axis=-1)
    bad = ~np.isfinite(norm)
    if bad.any():
        out = _matrix_exp(np, np.where(bad[..., None, None], np.zeros((), x.dtype), x))
        return np.where(bad[..., None, None], np.full((), np.nan, x.dtype), out)
    largest = float(norm.max())
    for degree, bound in table:
        if largest <= bound:
            return _pade(np, x, degree)
    degree, bound = table[-1]
    # Each matrix has its own number of halvings, and stops squaring when they are undone.
    halvings = np.maximum(np.ceil(np.log2(np.maximum(norm, bound) / bound)), 0).astype(np.int64)[..., None, None]
    out = _pade(np, x * np.exp2(-halvings.astype(x.real.dtype)), degree)
    with numpy.errstate(over="ignore", invalid="ignore"):
        for done in range(int(halvings.max())):
            out = np.where(done < halvings, out @ out, out)
    return out


# Note [Derivative of the matrix exponential]
# The upper right corner of exp of the block matrix [[A, E], [0, A]] is the derivative of exp at A along E (Najfeld and
# Havel 1995). The transpose of that derivative at A is the derivative at A^H. The derivative is computed by exp itself,
# so it can be differentiated again.


def derivative_by_blocks(function: Callable[[Any], Any], x: Payload, along: Any, ops: Vocabulary) -> Payload:
    """Return the derivative of a matrix function at x along another matrix, from its value at the block matrix of the
    note.
    """
    n = x.shape[-1]
    shape = (*x.shape[:-2], 2 * n, 2 * n)
    low, high = slice(0, n), slice(n, 2 * n)
    block = ops.embed(x, shape=shape, index=(Ellipsis, low, low)) + ops.embed(
        x, shape=shape, index=(Ellipsis, high, high)
    )
    block = block + ops.embed(along, shape=shape, index=(Ellipsis, low, high))
    return ops.getitem(function(block), index=(Ellipsis, low, high))


matrix_exp = op(
    "matrix_exp", "x",
    _matrix_exp,
    vjp={"x": lambda g, x, ops: derivative_by_blocks(ops.matrix_exp, adjoint(x, ops), g, ops)},
    jvp={"x": lambda t, x, ops: derivative_by_blocks(ops.matrix_exp, x, t, ops)},
    batch="leading",
    backward_name="LinalgMatrixExpBackward0", core_dims=[2],
)  # fmt: skip
