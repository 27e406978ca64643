"""Indefinite symmetric (Hermitian) matrices as L D L^T (L D L^H), packed and pivoted as LAPACK does it, by Bunch and Kaufman's pivots.

D has blocks of one and of two rows. The packed form holds D on the diagonal, the element below it in blocks of two, and L, whose blocks on
the diagonal are identities, below that. Row exchanges are counted from 1, and negative for both rows of a block of two, where they concern
its second row. LAPACK does not apply an exchange to the columns of L before it, so L is unpacked with a permutation of its own for each
column (`ldl_rows`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy

from ndgrad.arrays.host_fallback import on_host
from ndgrad.ops.matrix import adjoint, diagonal_of, on_diagonal, transpose
from ndgrad.ops.table import NOT_DIFFERENTIABLE, op

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ndgrad._typing import Payload, Vocabulary

#: Of a diagonal element beside the largest one below it, from when on it is a pivot: this bounds the growth of elements best.
_ALPHA = (1 + 17**0.5) / 8


def _factor(a: NDArray[Any], hermitian: bool) -> tuple[NDArray[Any], NDArray[Any], int]:
    """One matrix, of which the lower triangle is read: packed factors, exchanges, and the first zero pivot (counted from 1) or 0."""
    n = a.shape[0]
    lower = numpy.tril(a, -1)
    diagonal = numpy.diag(numpy.diagonal(a).real if hermitian else numpy.diagonal(a))
    a = lower + diagonal + (lower.conj().T if hermitian else lower.T)
    size = (lambda x: numpy.abs(x.real) + numpy.abs(x.imag)) if a.dtype.kind == "c" else numpy.abs
    packed, pivots, info, k = numpy.zeros_like(a), numpy.arange(1, n + 1, dtype=numpy.int32), 0, 0
    while k < n:
        below = size(a[k + 1 :, k])
        largest = int(below.argmax()) + k + 1 if k + 1 < n else k
        column, own, step, other = below.max(initial=0.0), size(a[k, k]), 1, k
        if not max(own, column) > 0:  # nothing to eliminate, or NaN
            info = info or k + 1
        else:
            if own < _ALPHA * column:
                row = max(size(a[largest, k:largest]).max(initial=0.0), size(a[largest + 1 :, largest]).max(initial=0.0))
                if own < _ALPHA * column * (column / row):
                    other = largest
                    step = 1 if size(a[largest, largest]) >= _ALPHA * row else 2
            here = k + step - 1
            if other != here:
                a[[here, other], k:] = a[[other, here], k:]
                a[k:, [here, other]] = a[k:, [other, here]]
            block, rest = a[k : k + step, k : k + step], a[k + step :, k : k + step]
            factors = rest / block if step == 1 else numpy.linalg.solve(block.T, rest.T).T
            a[k + step :, k + step :] -= factors @ (rest.conj().T if hermitian else rest.T)
            packed[k + step :, k : k + step] = factors
        packed[k : k + step, k : k + step] = numpy.tril(a[k : k + step, k : k + step])
        pivots[k : k + step] = other + 1 if step == 1 else -(other + 1)
        k += step
    return packed, pivots, info


def _ldl_factor(x: Payload, *, hermitian: bool) -> Any:
    n = x.shape[-1]
    stack = x.shape[:-2]
    packed, pivots = numpy.empty_like(x), numpy.empty((*stack, n), numpy.int32)
    info = numpy.zeros(stack, numpy.int32)
    for i in numpy.ndindex(stack):
        packed[i], pivots[i], info[i] = _factor(x[i], hermitian)
    return packed, pivots, info


# ----- what exchanges say ---------------------------------------------------------------------------------------------


def _blocks(pivots: Payload) -> Any:
    """For each row: 0 in a block of one, 1 in the first and 2 in the second row of a block of two."""
    kinds = numpy.zeros(pivots.shape, numpy.int64)
    for i in numpy.ndindex(pivots.shape[:-1]):
        k = 0
        while k < pivots.shape[-1]:
            if pivots[i][k] < 0:
                kinds[i][k : k + 2] = (1, 2)
                k += 1
            k += 1
    return kinds


def _rows(pivots: Payload, *, back: bool) -> Any:
    """For each column of L the rows that its packed rows belong to (or, with `back`, the other way round); in the last
    column but one more, those of the matrix itself."""
    n = pivots.shape[-1]
    kinds = _blocks(pivots)
    found = numpy.empty((*pivots.shape[:-1], n, n + 1), numpy.int64)
    for i in numpy.ndindex(pivots.shape[:-1]):
        order = numpy.tile(numpy.arange(n)[:, None], (1, n + 1))
        for k in range(n):
            if kinds[i][k] != 1:  # the exchange of a block of two is that of its second row
                other = abs(int(pivots[i][k])) - 1
                first = k - (kinds[i][k] == 2)
                moved = [*range(first), n]  # columns before the block, and the matrix itself
                order[numpy.ix_([k, other], moved)] = order[numpy.ix_([other, k], moved)]
        found[i] = numpy.argsort(order, axis=0) if back else order
    return found


ldl_blocks = op(
    "ldl_blocks", "pivots",
    lambda np, pivots: on_host(np, _blocks)(pivots),
    vjp=NOT_DIFFERENTIABLE,
    batch="leading",
)  # fmt: skip

ldl_rows = op(
    "ldl_rows", "pivots",
    lambda np, pivots, *, back: on_host(np, _rows)(pivots, back=back),
    settings={"back": False},
    vjp=NOT_DIFFERENTIABLE,
    batch="leading",
)  # fmt: skip


def _transposed(x: Payload, hermitian: bool, ops: Vocabulary) -> Payload:
    return adjoint(x, ops) if hermitian else transpose(x, ops)


def _diagonal(x: Payload, ops: Vocabulary) -> Payload:
    """Numbers on the diagonal of a square matrix."""
    return on_diagonal(x, x.shape[-1], x.shape[-1], ops)


def masks(pivots: Payload, ops: Vocabulary) -> tuple[Any, Any]:
    """Which elements below the diagonal belong to blocks of two, and which to L."""
    kinds = ops.ldl_blocks(pivots)
    n = kinds.shape[-1]
    second = ops.unsqueeze(kinds == 2, dim=len(kinds.shape))
    inside = ops.tril(ops.expand(second, shape=(*kinds.shape, n)), diagonal=-1)
    inside = ops.triu(inside, diagonal=-1)
    strict = ops.tril(ops.expand(second == second, shape=(*kinds.shape, n)), diagonal=-1)
    return inside, ops.logical_xor(strict, inside)


def unpacked(packed: Payload, pivots: Payload, hermitian: bool, ops: Vocabulary) -> tuple[Any, Any]:
    """L without its ones, its rows exchanged to the end, and D."""
    n = packed.shape[-1]
    inside, strict = masks(pivots, ops)
    rows = ops.getitem(ops.ldl_rows(pivots, back=False), index=(Ellipsis, slice(0, n)))
    lower = ops.gather(ops.where(strict, packed, 0.0), rows, dim=len(packed.shape) - 2)
    beside = ops.where(inside, packed, 0.0)
    middle = _diagonal(diagonal_of(packed, ops), ops)
    return lower, middle + beside + _transposed(beside, hermitian, ops)


# Note [LDL]
# Let P A P^T = L D L^T, with the exchanges P of all steps, L unit lower in blocks and D block diagonal. With S = L^-1 P dA P^T L^-T,
#     S = Phi D + dD + D Phi^T,     Phi = L^-1 dL strictly lower in blocks,
# so dD is S in the blocks, Phi = strict(S) D^-1, and dL = L Phi; the packed form holds dL, its rows exchanged back, and dD. Only the lower
# triangle of A is read, so dA is the symmetric matrix of that triangle. Transposed, with g the gradient of the packed form:
#     gPhi = strict(L^H gL),     gS = strict(gPhi D^-H) + (gD in the lower triangle),     gA' = P^T L^-H gS conj(L)^-1 P,
# and gA = tril(gA') + tril(gA'^T, -1). For Hermitian matrices T is H, conj(L) is L, and the diagonal of gA is real.


def _under(lower: Payload, x: Payload, ops: Vocabulary) -> Payload:
    """L^-1 x for an L without its ones."""
    return ops.solve_triangular(lower, x, upper=False, unitriangular=True)


def _order(pivots: Payload, back: bool, ops: Vocabulary) -> Payload:
    n = pivots.shape[-1]
    return ops.getitem(ops.ldl_rows(pivots, back=back), index=(Ellipsis, slice(n, n + 1)))


def exchanged(x: Payload, pivots: Payload, back: bool, ops: Vocabulary) -> Payload:
    """P x, or P^T x with `back`."""
    order = _order(pivots, back, ops)
    return ops.gather(x, ops.expand(order, shape=(*order.shape[:-1], x.shape[-1])), dim=len(x.shape) - 2)


def _both_sides(x: Payload, pivots: Payload, back: bool, ops: Vocabulary) -> Payload:
    """P x P^T, or P^T x P with `back`."""
    once = exchanged(x, pivots, back, ops)
    return transpose(exchanged(transpose(once, ops), pivots, back, ops), ops)


def _repacked(strict_part: Payload, pivots: Payload, ops: Vocabulary) -> Payload:
    """L's elements where the packed form has them."""
    n = strict_part.shape[-1]
    rows = ops.getitem(ops.ldl_rows(pivots, back=True), index=(Ellipsis, slice(0, n)))
    return ops.gather(strict_part, rows, dim=len(strict_part.shape) - 2)


def _ldl_jvp(t: Payload, out0: Payload, out1: Payload, hermitian: bool, ops: Vocabulary) -> Any:
    lower, middle = unpacked(out0, out1, hermitian, ops)
    inside, strict = masks(out1, ops)
    below = ops.tril(t, diagonal=-1)
    diagonal = diagonal_of(t, ops)
    moved = below + _transposed(below, hermitian, ops) + _diagonal(ops.real(diagonal) if hermitian else diagonal, ops)
    s = _under(lower, _both_sides(moved, out1, False, ops), ops)
    s = _transposed(_under(lower, _transposed(s, hermitian, ops), ops), hermitian, ops)
    # strict(S) D^-1 = (D^-T strict(S)^T)^T
    turned = _transposed(ops.where(strict, s, 0.0), hermitian, ops)
    phi = _transposed(ops.solve(_transposed(middle, hermitian, ops), turned), hermitian, ops)
    moved_lower = ops.where(strict, phi + ops.matmul(lower, phi), 0.0)
    blocks = _diagonal(diagonal_of(s, ops), ops) + ops.where(inside, s, 0.0)
    return _repacked(moved_lower, out1, ops) + blocks, None, None


def _ldl_vjp(g0: Payload, out0: Payload, out1: Payload, hermitian: bool, ops: Vocabulary) -> Payload:
    lower, middle = unpacked(out0, out1, hermitian, ops)
    inside, strict = masks(out1, ops)
    n = g0.shape[-1]
    rows = ops.getitem(ops.ldl_rows(out1, back=False), index=(Ellipsis, slice(0, n)))
    g_lower = ops.gather(ops.where(strict, g0, 0.0), rows, dim=len(g0.shape) - 2)
    g_phi = ops.where(strict, g_lower + ops.matmul(adjoint(lower, ops), g_lower), 0.0)
    # gPhi D^-H = (D^-1 gPhi^H)^H
    g_s = ops.where(strict, adjoint(ops.solve(middle, adjoint(g_phi, ops)), ops), 0.0)
    diagonal = diagonal_of(g0, ops)
    g_s = g_s + ops.where(inside, g0, 0.0) + _diagonal(ops.real(diagonal) if hermitian else diagonal, ops)
    above = adjoint(lower, ops)
    left = ops.solve_triangular(above, g_s, upper=True, unitriangular=True)  # L^-H gS
    # X conj(L)^-1 = (L^-H X^T)^T, and for Hermitian matrices X L^-1 = (L^-H X^H)^H
    right = ops.solve_triangular(above, _transposed(left, hermitian, ops), upper=True, unitriangular=True)
    whole = _both_sides(_transposed(right, hermitian, ops), out1, True, ops)
    below = ops.tril(whole, diagonal=-1) + ops.tril(_transposed(whole, hermitian, ops), diagonal=-1)
    diagonal = diagonal_of(whole, ops)
    return below + _diagonal(ops.real(diagonal) if hermitian else diagonal, ops)


ldl_factor = op(
    "ldl_factor", "x",
    lambda np, x, *, hermitian: on_host(np, _ldl_factor)(x, hermitian=hermitian),
    settings={"hermitian": False},
    vjp={"x": _ldl_vjp},
    jvp={"x": _ldl_jvp},
    batch="leading",
    outputs=3,
    discrete_outputs=(1, 2),
    backward_name="LinalgLdlFactorExBackward0",
)  # fmt: skip
