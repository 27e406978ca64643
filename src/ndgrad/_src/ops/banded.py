"""Systems with banded matrices, stored by diagonals: ab[..., upper + i - j, j] is the entry (i, j).

Every rule costs as much as the solve, the number of bands times the order: no full matrix is ever formed. A stack of
systems is solved as one longer system. The corners of `ab` belong to no entry and count as zeros, so they separate the
blocks.
"""

from __future__ import annotations

import importlib
import math
from typing import TYPE_CHECKING, Any

import numpy

from ndgrad._src.arrays.host_fallback import wrap_for_host
from ndgrad._src.ops.matrix import LinAlgError
from ndgrad._src.ops.table import op

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload, Vocabulary


def _entries(np: Library, ab: Payload, lower: int, upper: int) -> Payload:
    """Return a mask of the elements of `ab` that are matrix entries."""
    n = ab.shape[-1]
    rows, columns = np.arange(-upper, lower + 1)[:, None], np.arange(n)
    return (rows + columns >= 0) & (rows + columns < n)


def _solve_banded(np: Library, ab: Payload, b: Payload, *, lower: int, upper: int) -> Payload:
    try:
        linalg = importlib.import_module("scipy.linalg")
    except ImportError as error:
        raise ImportError(
            f"solve_banded comes from SciPy, which could not be imported ({error}). "
            'Install it: pip install scipy. [nd-install]'
        ) from None
    n, columns = b.shape[-2:]
    lead = numpy.broadcast_shapes(ab.shape[:-2], b.shape[:-2])
    count = math.prod(lead)
    ab = np.where(_entries(np, ab, lower, upper), ab, np.zeros((), ab.dtype))
    dtype = np.result_type(ab, b)
    if not count * n * columns:
        return np.zeros((*lead, n, columns), dtype)
    if count != 1:
        ab = np.moveaxis(np.broadcast_to(ab, (*lead, *ab.shape[-2:])).reshape((count, lower + upper + 1, n)), 0, 1)
        b = np.broadcast_to(b, (*lead, n, columns))
    bands, right = ab.reshape((lower + upper + 1, count * n)), b.reshape((count * n, columns))
    try:
        found = wrap_for_host(np, linalg.solve_banded)((lower, upper), bands, right, check_finite=False)
        return found.reshape((*lead, n, columns)).astype(dtype, copy=False)
    except numpy.linalg.LinAlgError as error:
        remedy = "Add a small multiple of the identity, or solve in the least squares sense."
        raise LinAlgError(
            f"solve_banded: a matrix is singular (shape {tuple(ab.shape)}; {error}). {remedy} [nd-singular]"
        ) from None


def _shift(x: Payload, by: int, dim: int, ops: Vocabulary) -> Payload:
    """Shift along `dim`: position j gets element j + by, with zeros beyond the ends."""
    n = x.shape[dim]
    if by == 0:
        return x
    if abs(by) >= n:
        return ops.zeros_like(x)
    before = (slice(None),) * dim
    taken = ops.getitem(x, index=(*before, slice(by, None) if by > 0 else slice(0, n + by)))
    return ops.embed(taken, shape=tuple(x.shape), index=(*before, slice(0, n - by) if by > 0 else slice(-by, n)))


def _row(ab: Payload, r: int, ops: Vocabulary) -> Payload:
    return ops.getitem(ab, index=(Ellipsis, r, slice(None)))


def _stack(rows: list[Any], ops: Vocabulary) -> Payload:
    return ops.stack(*rows, dim=len(rows[0].shape) - 1)


def adjoint_bands(ab: Payload, lower: int, upper: int, ops: Vocabulary) -> Payload:
    """Return the bands of the conjugate transpose, with `upper` bands below the diagonal and `lower` above."""
    last = len(ab.shape) - 2
    # Row lower - k of the adjoint is its diagonal k, which is the diagonal -k of the matrix: row upper + k, moved by k
    # columns.
    return ops.conj(
        _stack([_shift(_row(ab, upper + k, ops), -k, last, ops) for k in range(lower, -upper - 1, -1)], ops)
    )


def multiply_bands(ab: Payload, x: Payload, lower: int, upper: int, ops: Vocabulary) -> Payload:
    """Return the product of the banded matrix with a matrix of columns."""
    dim = len(x.shape) - 2
    total: Any = None
    for r in range(lower + upper + 1):
        row = _row(ab, r, ops)
        part = _shift(ops.reshape(row, shape=(*row.shape, 1)) * x, upper - r, dim, ops)
        total = part if total is None else total + part
    return total


def _outer_bands(w: Payload, x: Payload, lower: int, upper: int, ops: Vocabulary) -> Payload:
    """Return the bands of w x^H."""
    dim = len(w.shape) - 2
    xc = ops.conj(x)
    return _stack(
        [
            ops.sum(_shift(w, r - upper, dim, ops) * xc, dim=(dim + 1,), keepdim=False)
            for r in range(lower + upper + 1)
        ],
        ops,
    )


def _vjp(
    g: Payload, ab: Payload, out: Payload, lower: int, upper: int, needs: tuple[bool, ...], ops: Vocabulary
) -> tuple[Any, ...]:
    w = ops.solve_banded(adjoint_bands(ab, lower, upper, ops), g, lower=upper, upper=lower)
    return -_outer_bands(w, out, lower, upper, ops) if needs[0] else None, w


# The solution x of A x = b, where the rows of ab are the `lower` lower and `upper` upper diagonals of A. b has columns.
solve_banded = op(
    "solve_banded", "ab b",
    _solve_banded,
    settings={"lower": 0, "upper": 0},
    vjp=_vjp,
    jvp={
        "ab": lambda t, ab, out, lower, upper, ops: -ops.solve_banded(ab, multiply_bands(t, out, lower, upper, ops),
            lower=lower, upper=upper),
        "b": lambda t, ab, lower, upper, ops: ops.solve_banded(ab, t, lower=lower, upper=upper),
    },
    batch="leading",
    may_raise=True, core_dims=[2],
)  # fmt: skip
