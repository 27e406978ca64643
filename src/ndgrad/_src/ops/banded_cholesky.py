r"""The Cholesky factor of a banded matrix, L L^H = A, both stored by lower diagonals: ab[..., i - j, j] is entry (i,
j).

The constraint: L has as many bands as A, and so have all derivatives. The usual formula, dL = L tril(L^-1 dA L^-H),
needs full intermediate matrices. The underlying equation needs none: for each entry of dA, dL L^H + L dL^H = dA relates
the entries of dL in the columns up to its own. Column after column this is a triangular system for the entries of dL,
which is itself banded and solved as such. Its solution and its adjoint are the two ops of which all derivatives
consist. The corners of `ab`, which belong to no entry, and the imaginary parts of the diagonal count as zeros.
"""

from __future__ import annotations

import importlib
import math
from typing import TYPE_CHECKING, Any

import numpy

from ndgrad._src.arrays.host_fallback import wrap_for_host
from ndgrad._src.ops.banded import _row, _shift, _stack
from ndgrad._src.ops.matrix import LinAlgError
from ndgrad._src.ops.table import op

if TYPE_CHECKING:
    from ndgrad._typing import Payload, Vocabulary

#: A system of all entries with at most this many rows is small, even if it is larger than the matrix.
_SMALL = 64


def _scipy(what: str) -> Any:
    try:
        return importlib.import_module(what)
    except ImportError as error:
        raise ImportError(
            f"cholesky_banded comes from SciPy, which could not be imported ({error}). "
            'Install it: pip install scipy. [nd-install]'
        ) from None


def _join_stack(ab: Payload) -> Payload:
    """Join a stack of matrices to one longer matrix. The zeros in the corners separate the blocks."""
    count, n = ab.shape[-2:]
    inside = numpy.add.outer(numpy.arange(count), numpy.arange(n)) < n
    flat = numpy.where(inside, ab, numpy.zeros((), ab.dtype)).reshape((-1, count, n))
    return numpy.moveaxis(flat, 0, 1).reshape((count, len(flat) * n))


def _split_stack(bands: Payload, shape: tuple[int, ...]) -> Payload:
    count, n = shape[-2:]
    return numpy.moveaxis(bands.reshape((count, -1, n)), 0, 1).reshape(shape)


# ----- the equation X L^H + L X^H = Q ---------------------------------------------------------------------------------

# Unknown e of column c is X[c + e, c], and equation k of column j is that of Q[j + k, j]. The unknown occurs twice,
#     as X[i, c] conj(L[j, c]) with j = c + s, s <= e, k = e - s: s w equations further on (w is the number of bands
#     below the diagonal),
#     as L[i, c] conj(X[j, c]) with j = c + e, k <= w - e: e w + k equations further on.
# So the matrix is lower triangular with w^2 bands below its diagonal. A complex number is two unknowns and two
# equations. On the diagonal, where numbers are real, the imaginary equation states exactly that.


def _system(factor: Payload) -> Payload:
    """Return the bands of the system's matrix, of shape (bands, unknowns)."""
    w, n = factor.shape[0] - 1, factor.shape[1]
    if factor.dtype.kind != "c":
        out = numpy.zeros((w * w + 1, n, w + 1), factor.dtype)
        for e in range(w + 1):
            for s in range(e + 1):
                out[s * w, :, e] += factor[s]
            for k in range(w - e + 1):
                out[e * w + k, :, e] += factor[e + k]
        return out.reshape((w * w + 1, -1))
    real, imaginary = factor.real, factor.imag
    out = numpy.zeros((2 * w * w + 2, n, w + 1, 2), real.dtype)
    for e in range(w + 1):
        for far, which, sign in [
            *((s * w, s, 1) for s in range(e + 1)),
            *((e * w + k, e + k, -1) for k in range(w - e + 1)),
        ]:
            out[2 * far, :, e, 0] += real[which]
            out[2 * far + 1, :, e, 0] -= sign * imaginary[which]
            if far:
                out[2 * far - 1, :, e, 1] += imaginary[which]
            if far or sign > 0:
                out[2 * far, :, e, 1] += sign * real[which]
    return out.reshape((2 * w * w + 2, -1))


def _unknowns(bands: Payload) -> Payload:
    return numpy.ascontiguousarray(bands.T).view(bands.real.dtype).reshape((-1, 1))


def _from_unknowns(found: Any, count: int, dtype: Any) -> Any:
    return numpy.ascontiguousarray(found.reshape(-1)).view(dtype).reshape((-1, count)).T


def _solve_bands(factor: Payload, right: Payload, transposed: bool) -> Payload:
    bands = _system(factor)
    solve = _scipy("scipy.linalg.lapack").dtbtrs
    found, column = solve(bands, _unknowns(right), uplo="L", trans="T" if transposed else "N")
    if column:
        raise LinAlgError(
            f"cholesky_banded: a factor of shape {factor.shape} has a zero on its diagonal. "
            "Give that of a positive matrix. [nd-singular]"
        )
    return _from_unknowns(found, len(factor), factor.dtype)


def _dense(bands: Payload) -> Payload:
    count, n = bands.shape[-2:]
    below = numpy.arange(n)[:, None] - numpy.arange(n)
    return numpy.where(
        (below >= 0) & (below < count), bands[..., numpy.clip(below, 0, count - 1), numpy.arange(n)], 0.0
    )


def _extract_bands(matrix: Payload, count: int) -> Payload:
    n = matrix.shape[-1]
    rows = numpy.arange(count)[:, None] + numpy.arange(n)
    return numpy.where(rows < n, matrix[..., numpy.minimum(rows, n - 1), numpy.arange(n)], 0.0)


def _lower_half(matrix: Payload) -> Payload:
    return numpy.tril(matrix) - 0.5 * matrix * numpy.eye(matrix.shape[-1])


def _solve_dense(factor: Payload, right: Payload, transposed: bool) -> Payload:
    """Apply the usual formula to stacks whose bands are so many that full matrices are smaller than the system of all
    entries.
    """
    lower, given = _dense(factor), _dense(right)
    inverse = numpy.linalg.inv(lower)
    adjoint_inverse = inverse.conj().swapaxes(-1, -2)
    if transposed:
        half = adjoint_inverse @ _lower_half(lower.conj().swapaxes(-1, -2) @ given) @ inverse
        made = _lower_half(half + half.conj().swapaxes(-1, -2))
    else:
        whole = given + numpy.tril(given, -1).conj().swapaxes(-1, -2)
        made = lower @ _lower_half(inverse @ whole @ adjoint_inverse)
    return _extract_bands(made, factor.shape[-2])


def _cholesky_change(factor: Payload, right: Payload, *, transposed: bool) -> Payload:
    shape = numpy.broadcast_shapes(factor.shape, right.shape)
    dtype = numpy.result_type(factor, right)
    if not math.prod(shape):
        return numpy.zeros(shape, dtype)
    wide = numpy.dtype("complex128" if dtype.kind == "c" else "float64")  # precision used by LAPACK
    lower, given = (numpy.broadcast_to(a, shape).astype(wide) for a in (factor, right))
    for a in (lower, given):
        a[..., 0, :] = a[..., 0, :].real
    w, n = shape[-2] - 1, shape[-1]
    if (w + 1) * (w * w + 1) * (4 if wide.kind == "c" else 1) <= max(n, _SMALL):
        made = _split_stack(_solve_bands(_join_stack(lower), _join_stack(given), transposed), shape)
    else:
        made = _solve_dense(lower, given, transposed)
    made = made.astype(dtype)
    made[..., 0, :] = made[..., 0, :].real
    return made


def _sides(factor: Payload, x: Payload, ops: Vocabulary) -> Payload:
    """Return the lower bands of X L^H + L X^H."""
    count, last = factor.shape[-2], len(factor.shape) - 2
    rows = []
    for k in range(count):
        total: Any = None
        for m in range(count - k):
            part = _row(x, k + m, ops) * ops.conj(_row(factor, m, ops)) + _row(factor, k + m, ops) * ops.conj(
                _row(x, m, ops)
            )
            part = _shift(part, -m, last, ops)
            total = part if total is None else total + part
        rows.append(total)
    return _stack(rows, ops)


def _pull(y: Payload, factor: Payload, ops: Vocabulary) -> Payload:
    """Return the lower bands of (Y + Y^H) L, where y are the bands of the lower triangle Y: the adjoint of `_sides` in
    X.
    """
    count, last = factor.shape[-2], len(factor.shape) - 2
    rows = []
    for e in range(count):
        total: Any = None
        for m in range(e + 1):
            part = _shift(_row(y, e - m, ops), m, last, ops) * _row(factor, m, ops)
            total = part if total is None else total + part
        for k in range(count - e):
            total = total + ops.conj(_shift(_row(y, k, ops), e, last, ops)) * _row(factor, e + k, ops)
        rows.append(total)
    return _stack(rows, ops)


def _make_diagonal_real(bands: Payload, dtype: Any, ops: Vocabulary) -> Payload:
    """Return the bands with a real diagonal."""
    if dtype.kind != "c":
        return bands
    first, *rest = [_row(bands, k, ops) for k in range(bands.shape[-2])]
    return _stack([(first + ops.conj(first)) * 0.5, *rest], ops)


def _change_vjp(
    g: Payload, factor: Payload, factor_dtype: Any, out: Payload, needs: tuple[bool, ...], ops: Vocabulary
) -> tuple[Any, ...]:
    w = ops.cholesky_pull(factor, g)
    return -_make_diagonal_real(_pull(w, out, ops), factor_dtype, ops) if needs[0] else None, w


def _pull_vjp(
    g: Payload, factor: Payload, factor_dtype: Any, out: Payload, needs: tuple[bool, ...], ops: Vocabulary
) -> tuple[Any, ...]:
    v = ops.cholesky_change(factor, g)
    return -_make_diagonal_real(_pull(out, v, ops), factor_dtype, ops) if needs[0] else None, v


def _change_factor(t: Payload, factor: Payload, factor_dtype: Any, out: Payload, ops: Vocabulary) -> Payload:
    return -ops.cholesky_change(factor, _sides(_make_diagonal_real(t, factor_dtype, ops), out, ops))


def _pull_factor(t: Payload, factor: Payload, factor_dtype: Any, out: Payload, ops: Vocabulary) -> Payload:
    return -ops.cholesky_pull(factor, _pull(out, _make_diagonal_real(t, factor_dtype, ops), ops))


# The bands of X with X L^H + L X^H = Q, from the bands of L and of the Hermitian Q.
cholesky_change = op(
    "cholesky_change", "factor q",
    lambda np, factor, q: wrap_for_host(np, _cholesky_change, "cholesky_banded")(factor, q, transposed=False),
    vjp=_change_vjp,
    jvp={"factor": _change_factor, "q": lambda t, factor, ops: ops.cholesky_change(factor, t)},
    batch="leading",
    may_raise=True, core_dims=[2],
)  # fmt: skip

# The adjoint of cholesky_change in Q: the bands y for which the lower bands of (Y + Y^H) L are those of G.
cholesky_pull = op(
    "cholesky_pull", "factor q",
    lambda np, factor, q: wrap_for_host(np, _cholesky_change, "cholesky_banded")(factor, q, transposed=True),
    vjp=_pull_vjp,
    jvp={"factor": _pull_factor, "q": lambda t, factor, ops: ops.cholesky_pull(factor, t)},
    batch="leading",
    may_raise=True, core_dims=[2],
)  # fmt: skip


# ----- the factor -----------------------------------------------------------------------------------------------------


def _cholesky(ab: Payload) -> Payload:
    linalg = _scipy("scipy.linalg")
    if not ab.size:
        return numpy.zeros_like(ab)
    try:
        found = linalg.cholesky_banded(_join_stack(ab), lower=True, check_finite=False)
    except numpy.linalg.LinAlgError as error:
        remedy = "Add a small multiple of the identity."
        raise LinAlgError(
            f"cholesky_banded: a matrix is not positive definite (bands of shape {ab.shape}; {error}). "
            f"{remedy} [nd-singular]"
        ) from None
    return _split_stack(found, ab.shape).astype(ab.dtype, copy=False)


cholesky_banded = op(
    "cholesky_banded", "ab",
    lambda np, ab: wrap_for_host(np, _cholesky, "cholesky_banded")(ab),
    vjp={"ab": lambda g, out, ops: ops.cholesky_pull(out, g)},
    jvp={"ab": lambda t, out, ops: ops.cholesky_change(out, t)},
    batch="leading",
    may_raise=True, core_dims=[2],
)  # fmt: skip
