"""Indefinite symmetric (Hermitian) matrices as L D L^T (L D L^H), packed as in LAPACK, with Bunch-Kaufman pivoting.

D has blocks of one and of two rows. The packed form holds D on the diagonal, the element below it in blocks of two, and
L below that; the diagonal blocks of L are identities. Row exchanges count from 1. They are negative for both rows of a
block of two, and then concern its second row. LAPACK does not apply an exchange to the earlier columns of L, so L is
unpacked with a separate permutation for each column (`ldl_rows`).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy

from ndgrad._src.arrays.host_fallback import wrap_for_host
from ndgrad._src.arrays.integers import as_int64
from ndgrad._src.ops.matrix import adjoint, make_diagonal, take_diagonal, transpose
from ndgrad._src.ops.table import NOT_DIFFERENTIABLE, op

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ndgrad._typing import Payload, Vocabulary

#: A diagonal element is a pivot if its ratio to the largest element below it is at least this. The value minimises the
#: growth of elements.
_ALPHA = (1 + 17**0.5) / 8


def _exchange(a: NDArray[Any], k: int, here: NDArray[Any], other: NDArray[Any]) -> None:
    """Exchange two rows and columns of each matrix, from row and column k on."""
    every = numpy.arange(len(a))
    a[every, here, k:], a[every, other, k:] = a[every, other, k:], a[every, here, k:]
    a[every, k:, here], a[every, k:, other] = a[every, k:, other], a[every, k:, here]


def _eliminate(a: NDArray[Any], k: int, step: int, hermitian: bool) -> NDArray[Any]:
    """Return the columns of L for a block of `step` rows at k, after eliminating them from the rest of the matrices."""
    block, rest = a[:, k : k + step, k : k + step], a[:, k + step :, k : k + step]
    turned = rest.swapaxes(1, 2)
    factors = rest / block if step == 1 else numpy.linalg.solve(block.swapaxes(1, 2), turned).swapaxes(1, 2)
    a[:, k + step :, k + step :] -= factors @ (turned.conj() if hermitian else turned)
    return factors


def _ldl_factor(x: Payload, *, hermitian: bool) -> Any:
    """Return packed factors, exchanges, and the first zero pivot (counted from 1) or 0.

    All matrices are processed together, row by row. A matrix that has just used a block of two rows skips the next row.
    """
    n, stack = x.shape[-1], x.shape[:-2]
    count = math.prod(stack)
    below = numpy.tril(x, -1).reshape((count, n, n))
    a = below + (below.conj() if hermitian else below).swapaxes(1, 2)
    diagonal = numpy.diagonal(x, axis1=-2, axis2=-1).reshape((count, n))
    a[:, numpy.arange(n), numpy.arange(n)] = diagonal.real if hermitian else diagonal
    size = (lambda v: numpy.abs(v.real) + numpy.abs(v.imag)) if a.dtype.kind == "c" else numpy.abs
    packed, info = numpy.zeros_like(a), numpy.zeros(len(a), numpy.int32)
    pivots = numpy.tile(numpy.arange(1, n + 1, dtype=numpy.int32), (len(a), 1))
    taken = numpy.zeros(len(a), bool)
    for k in range(n):
        which = numpy.flatnonzero(~taken)
        taken[:] = False
        work = a[which]
        every = numpy.arange(len(which))
        column = size(work[:, k + 1 :, k])
        largest = k + 1 + column.argmax(1) if k + 1 < n else numpy.full(len(which), k)
        most, own = column.max(1, initial=0.0), size(work[:, k, k])
        row_sizes = size(work[every, largest, k:])
        opposite = row_sizes[every, largest - k].copy()
        row_sizes[every, largest - k] = 0.0
        row = row_sizes.max(1, initial=0.0)
        zero = ~(numpy.maximum(own, most) > 0)  # nothing to eliminate, or NaN
        pivoting = ~zero & (own < _ALPHA * most) & (own * row < _ALPHA * most * most)
        two = pivoting & (opposite < _ALPHA * row)
        other = numpy.where(pivoting, largest, k)
        _exchange(work, k, numpy.where(two, k + 1, k), other)
        for step, part in ((1, numpy.flatnonzero(~two & ~zero)), (2, numpy.flatnonzero(two))):
            if part.size:
                some = work[part]
                packed[which[part], k + step :, k : k + step] = _eliminate(some, k, step, hermitian)
                work[part] = some
        a[which] = work
        packed[which, k, k] = work[:, k, k]
        second = which[two]
        if second.size:
            packed[second, k + 1, k], packed[second, k + 1, k + 1] = work[two, k + 1, k], work[two, k + 1, k + 1]
        pivots[which, k] = numpy.where(two, -(other + 1), other + 1)
        pivots[second, k + 1 : k + 2] = pivots[second, k : k + 1]
        info[which] = numpy.where(zero & (info[which] == 0), k + 1, info[which])
        taken[second] = True
    return packed.reshape(x.shape), pivots.reshape((*stack, n)), info.reshape(stack)


# ----- meaning of the exchanges ---------------------------------------------------------------------------------------


def _blocks(pivots: Payload) -> Any:
    """Return, for each row, 0 in a block of one, and 1 or 2 in the first or second row of a block of two."""
    kinds = numpy.zeros(pivots.shape, numpy.int64)
    before = numpy.zeros(pivots.shape[:-1], numpy.int64)
    for k in range(pivots.shape[-1]):
        before = kinds[..., k] = numpy.where(before == 1, 2, numpy.where(pivots[..., k] < 0, 1, 0))
    return kinds


def _rows(pivots: Payload, *, back: bool) -> Any:
    """Return, for each column of L, the rows to which its packed rows belong, or the inverse with `back`.

    One more column has the rows of the matrix itself.
    """
    n, stack = pivots.shape[-1], pivots.shape[:-1]
    flat = pivots.reshape((math.prod(stack), n))
    kinds = _blocks(flat)
    every, columns = numpy.arange(len(flat)), numpy.arange(n + 1)
    order = numpy.tile(numpy.arange(n)[:, None], (len(flat), 1, n + 1))
    for k in range(n):
        # A block of two has the exchange of its second row. It applies to the columns before the block and to the
        # matrix itself.
        kind = kinds[:, k]
        other = numpy.where(kind == 1, k, abs(flat[:, k].astype(numpy.int64)) - 1)
        moved = (columns < (k - (kind == 2))[:, None]) | (columns == n)
        one, two = order[:, k].copy(), order[every, other]
        order[:, k] = numpy.where(moved, two, one)
        order[every, other] = numpy.where(moved, one, two)
    found = numpy.argsort(order, axis=1) if back else order
    return as_int64(found).reshape((*stack, n, n + 1))


ldl_blocks = op(
    "ldl_blocks", "pivots",
    lambda np, pivots: wrap_for_host(np, _blocks, "linalg.ldl")(pivots),
    vjp=NOT_DIFFERENTIABLE,
    batch="leading", core_dims=[1],
)  # fmt: skip

ldl_rows = op(
    "ldl_rows", "pivots",
    lambda np, pivots, *, back: wrap_for_host(np, _rows, "linalg.ldl")(pivots, back=back),
    settings={"back": False},
    vjp=NOT_DIFFERENTIABLE,
    batch="leading",
    may_raise=True, core_dims=[1],
)  # fmt: skip


def _transpose(x: Payload, hermitian: bool, ops: Vocabulary) -> Payload:
    return adjoint(x, ops) if hermitian else transpose(x, ops)


def _diagonal(x: Payload, ops: Vocabulary) -> Payload:
    """Return a square matrix with these numbers on the diagonal."""
    return make_diagonal(x, x.shape[-1], x.shape[-1], ops)


def masks(pivots: Payload, ops: Vocabulary) -> tuple[Any, Any]:
    """Return masks of the elements below the diagonal: in blocks of two, and in L."""
    kinds = ops.ldl_blocks(pivots)
    n = kinds.shape[-1]
    second = ops.unsqueeze(kinds == 2, dim=len(kinds.shape))
    inside = ops.tril(ops.expand(second, shape=(*kinds.shape, n)), diagonal=-1)
    inside = ops.triu(inside, diagonal=-1)
    strict = ops.tril(ops.expand(second == second, shape=(*kinds.shape, n)), diagonal=-1)
    return inside, ops.logical_xor(strict, inside)


def unpack(packed: Payload, pivots: Payload, hermitian: bool, ops: Vocabulary) -> tuple[Any, Any]:
    """Return L without its ones, with all row exchanges applied, and D."""
    n = packed.shape[-1]
    inside, strict = masks(pivots, ops)
    rows = ops.getitem(ops.ldl_rows(pivots, back=False), index=(Ellipsis, slice(0, n)))
    lower = ops.gather(ops.where(strict, packed, 0.0), rows, dim=len(packed.shape) - 2)
    off_diagonal = ops.where(inside, packed, 0.0)
    middle = _diagonal(take_diagonal(packed, ops), ops)
    return lower, middle + off_diagonal + _transpose(off_diagonal, hermitian, ops)


# Note [LDL]
# Let P A P^T = L D L^T, with the exchanges P of all steps, L unit lower in blocks and D block diagonal. With S = L^-1 P
# dA P^T L^-T,
#     S = Phi D + dD + D Phi^T,     Phi = L^-1 dL strictly lower in blocks,
# so dD is S in the blocks, Phi = strict(S) D^-1, and dL = L Phi. The packed form holds dL, with its row exchanges
# undone, and dD. Only the lower triangle of A is read, so dA is the symmetric matrix of that triangle. Transposed, with
# g the gradient of the packed form:
#     gPhi = strict(L^H gL),     gS = strict(gPhi D^-H) + (gD in the lower triangle),     gA' = P^T L^-H gS conj(L)^-1
# P, and gA = tril(gA') + tril(gA'^T, -1). For Hermitian matrices T is H, conj(L) is L, and the diagonal of gA is real.


def _solve_lower(lower: Payload, x: Payload, ops: Vocabulary) -> Payload:
    """Return L^-1 x for an L without its ones."""
    return ops.solve_triangular(lower, x, upper=False, unitriangular=True)


def _order(pivots: Payload, back: bool, ops: Vocabulary) -> Payload:
    n = pivots.shape[-1]
    return ops.getitem(ops.ldl_rows(pivots, back=back), index=(Ellipsis, slice(n, n + 1)))


def exchange_rows(x: Payload, pivots: Payload, back: bool, ops: Vocabulary) -> Payload:
    """Return P x, or P^T x with `back`."""
    order = _order(pivots, back, ops)
    return ops.gather(x, ops.expand(order, shape=(*order.shape[:-1], x.shape[-1])), dim=len(x.shape) - 2)


def _exchange_both(x: Payload, pivots: Payload, back: bool, ops: Vocabulary) -> Payload:
    """Return P x P^T, or P^T x P with `back`."""
    once = exchange_rows(x, pivots, back, ops)
    return transpose(exchange_rows(transpose(once, ops), pivots, back, ops), ops)


def _repack(strict_part: Payload, pivots: Payload, ops: Vocabulary) -> Payload:
    """Return the elements of L at their positions in the packed form."""
    n = strict_part.shape[-1]
    rows = ops.getitem(ops.ldl_rows(pivots, back=True), index=(Ellipsis, slice(0, n)))
    return ops.gather(strict_part, rows, dim=len(strict_part.shape) - 2)


def _ldl_jvp(t: Payload, out0: Payload, out1: Payload, hermitian: bool, ops: Vocabulary) -> Any:
    lower, middle = unpack(out0, out1, hermitian, ops)
    inside, strict = masks(out1, ops)
    below = ops.tril(t, diagonal=-1)
    diagonal = take_diagonal(t, ops)
    moved = below + _transpose(below, hermitian, ops) + _diagonal(ops.real(diagonal) if hermitian else diagonal, ops)
    s = _solve_lower(lower, _exchange_both(moved, out1, False, ops), ops)
    s = _transpose(_solve_lower(lower, _transpose(s, hermitian, ops), ops), hermitian, ops)
    # strict(S) D^-1 = (D^-T strict(S)^T)^T.
    turned = _transpose(ops.where(strict, s, 0.0), hermitian, ops)
    phi = _transpose(ops.solve(_transpose(middle, hermitian, ops), turned), hermitian, ops)
    moved_lower = ops.where(strict, phi + ops.matmul(lower, phi), 0.0)
    blocks = _diagonal(take_diagonal(s, ops), ops) + ops.where(inside, s, 0.0)
    return _repack(moved_lower, out1, ops) + blocks, None, None


def _ldl_vjp(g0: Payload, out0: Payload, out1: Payload, hermitian: bool, ops: Vocabulary) -> Payload:
    lower, middle = unpack(out0, out1, hermitian, ops)
    inside, strict = masks(out1, ops)
    n = g0.shape[-1]
    rows = ops.getitem(ops.ldl_rows(out1, back=False), index=(Ellipsis, slice(0, n)))
    g_lower = ops.gather(ops.where(strict, g0, 0.0), rows, dim=len(g0.shape) - 2)
    g_phi = ops.where(strict, g_lower + ops.matmul(adjoint(lower, ops), g_lower), 0.0)
    # gPhi D^-H = (D^-1 gPhi^H)^H.
    g_s = ops.where(strict, adjoint(ops.solve(middle, adjoint(g_phi, ops)), ops), 0.0)
    diagonal = take_diagonal(g0, ops)
    g_s = g_s + ops.where(inside, g0, 0.0) + _diagonal(ops.real(diagonal) if hermitian else diagonal, ops)
    above = adjoint(lower, ops)
    left = ops.solve_triangular(above, g_s, upper=True, unitriangular=True)  # L^-H gS
    # X conj(L)^-1 = (L^-H X^T)^T, and for Hermitian matrices X L^-1 = (L^-H X^H)^H
    right = ops.solve_triangular(above, _transpose(left, hermitian, ops), upper=True, unitriangular=True)
    whole = _exchange_both(_transpose(right, hermitian, ops), out1, True, ops)
    below = ops.tril(whole, diagonal=-1) + ops.tril(_transpose(whole, hermitian, ops), diagonal=-1)
    diagonal = take_diagonal(whole, ops)
    return below + _diagonal(ops.real(diagonal) if hermitian else diagonal, ops)


ldl_factor = op(
    "ldl_factor", "x",
    lambda np, x, *, hermitian: wrap_for_host(np, _ldl_factor, "linalg.ldl_factor")(x, hermitian=hermitian),
    settings={"hermitian": False},
    vjp={"x": _ldl_vjp},
    jvp={"x": _ldl_jvp},
    batch="leading",
    outputs=3,
    discrete_outputs=(1, 2),
    backward_name="LinalgLdlFactorExBackward0", core_dims=[2],
)  # fmt: skip
