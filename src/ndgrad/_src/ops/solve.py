"""Inverses and solutions: inv, solve, triangular solve, LU, Cholesky, pseudoinverse.

Rules are written with these ops themselves (the gradient of a solve is a solve). So every order of derivative exists,
and no unnecessary inverse is computed. Matrices are in the last two dimensions; all dimensions before form a stack.
"""

from __future__ import annotations

import functools
import importlib
import math
from typing import TYPE_CHECKING, Any

import numpy

from ndgrad._src.arrays import device_kernels, small_matrices, triangular
from ndgrad._src.arrays.host_fallback import wrap_for_host
from ndgrad._src.arrays.library import is_on_device
from ndgrad._src.arrays.precision import is_inexact
from ndgrad._src.ops.matrix import (
    LinAlgError,
    adjoint,
    align,
    call_linalg,
    decompose_singular,
    hermitian,
    largest,
    negated,
)
from ndgrad._src.ops.table import op

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload, Vocabulary

# ----- inv, solve -----------------------------------------------------------------------------------------------------

_SINGULAR = "Use pinv or lstsq for a solution in the least squares sense, or add a small multiple of the identity."


def _inv(np: Library, x: Payload) -> Payload:
    found = small_matrices.inverse(x)
    if found is not None:
        return found
    return call_linalg(np.linalg.inv, "inv: a matrix is singular", _SINGULAR, x)


# d(A^-1) = -A^-1 dA A^-1, from d(A A^-1) = 0.
inv = op(
    "inv", "x",
    _inv,
    vjp={"x": lambda g, out, ops: negated(ops.matmul(ops.matmul(adjoint(out, ops), g), adjoint(out, ops)), ops)},
    jvp={"x": lambda t, out, ops: -ops.matmul(ops.matmul(out, t), out)},
    batch="leading",
    backward_name="LinalgInvExBackward0",
    saved_names={"out": "inverse"},
    may_raise=True, core_dims=[2],
)  # fmt: skip


def _stacks(np: Library, *matrices: Any) -> list[Any]:
    """Broadcast the leading dimensions of matrices, for functions that do not broadcast."""
    first = matrices[0].shape[:-2]
    if all(m.shape[:-2] == first for m in matrices):
        return [*matrices]
    lead = numpy.broadcast_shapes(*(m.shape[:-2] for m in matrices))
    return [np.broadcast_to(m, lead + m.shape[-2:]) for m in matrices]


def _solve(np: Library, a: Payload, b: Payload) -> Payload:
    if np is not numpy:
        a, b = _stacks(np, a, b)
        if not b.size:
            return np.empty(b.shape, np.result_type(a, b))
    found = small_matrices.solve(a, b)
    if found is not None:
        return found
    return call_linalg(np.linalg.solve, "solve: a matrix is singular", _SINGULAR, a, b)


def _solve_vjp(g: Payload, a: Payload, out: Payload, needs: tuple[bool, bool], ops: Vocabulary) -> tuple[Any, Any]:
    """Use w = A^-H g, which is the gradient of b: <g, A^-1 db> = <w, db> and <g, -A^-1 dA x> = <-w x^H, dA>."""
    w = ops.solve(adjoint(a, ops), g)
    return negated(ops.matmul(w, adjoint(out, ops)), ops) if needs[0] else None, w


def _batch_of_solves(a: Payload, b: Payload, batched: tuple[bool, bool], ops: Vocabulary, solve: Any) -> Payload:
    """Put a batch of right-hand sides for one matrix next to each other, so that the matrix is factored once."""
    if not batched[0] and len(a.shape) == 2 and len(b.shape) > 2:
        n = len(b.shape)
        rows, columns = b.shape[-2:]
        lead = tuple(b.shape[:-2])
        joined = ops.reshape(
            ops.permute(b, dims=(n - 2, *range(n - 2), n - 1)), shape=(rows, math.prod(lead) * columns)
        )
        out = ops.reshape(solve(a, joined), shape=(rows, *lead, columns))
        return ops.permute(out, dims=(*range(1, n - 1), 0, n - 1))
    rank = max(len(a.shape) - batched[0], len(b.shape) - batched[1])
    return solve(align(a, batched[0], rank, ops), align(b, batched[1], rank, ops))


# The solution x of a @ x = b, for matrices b.
solve = op(
    "solve", "a b",
    _solve,
    vjp=_solve_vjp,
    jvp={
        "a": lambda t, a, out, ops: -ops.solve(a, ops.matmul(t, out)),
        "b": lambda t, a, ops: ops.solve(a, t),
    },
    batch=lambda a, b, batched, ops: _batch_of_solves(a, b, batched, ops, ops.solve),
    backward_name="LinalgSolveExBackward0",
    saved_names={"a": "A"},
    one_dtype="a b",
    may_raise=True,
)  # fmt: skip


def _solve_triangular(np: Library, a: Payload, b: Payload, *, upper: bool, unitriangular: bool) -> Payload:
    if np is numpy:
        return triangular.solve_triangular(a, b, upper=upper, unitriangular=unitriangular)
    dtype = np.result_type(a, b)
    wide = np.result_type(dtype, np.float32 if is_inexact(dtype) else np.float64)
    a, b = (m if m.dtype == wide else m.astype(wide) for m in _stacks(np, a, b))
    if b.size:
        b = importlib.import_module("cupyx.scipy.linalg").solve_triangular(
            a, b, lower=not upper, unit_diagonal=unitriangular
        )
    return b.astype(dtype) if is_inexact(dtype) and b.dtype != dtype else b


def _triangular_vjp(
    g: Payload, a: Payload, out: Payload, upper: bool, unitriangular: bool, needs: tuple[bool, bool], ops: Vocabulary
) -> tuple[Any, Any]:
    """Apply the rule of solve. Only the triangle that is read has a gradient."""
    w = ops.solve_triangular(adjoint(a, ops), g, upper=not upper, unitriangular=unitriangular)
    if not needs[0]:
        return None, w
    return negated(_mask_triangle(ops.matmul(w, adjoint(out, ops)), upper, unitriangular, ops), ops), w


def _mask_triangle(x: Payload, upper: bool, unitriangular: bool, ops: Vocabulary) -> Payload:
    return ops.triu(x, diagonal=int(unitriangular)) if upper else ops.tril(x, diagonal=-int(unitriangular))


def _triangular_jvp_a(
    t: Payload, a: Payload, out: Payload, upper: bool, unitriangular: bool, ops: Vocabulary
) -> Payload:
    moved = ops.matmul(_mask_triangle(t, upper, unitriangular, ops), out)
    return -ops.solve_triangular(a, moved, upper=upper, unitriangular=unitriangular)


# The solution for a triangular matrix, whose other triangle is never read.
solve_triangular = op(
    "solve_triangular", "a b",
    _solve_triangular,
    settings={"upper": False, "unitriangular": False},
    vjp=_triangular_vjp,
    jvp={
        "a": _triangular_jvp_a,
        "b": lambda t, a, upper, unitriangular, ops: ops.solve_triangular(a, t, upper=upper,
            unitriangular=unitriangular),
    },
    batch=lambda a, b, upper, unitriangular, batched, ops: _batch_of_solves(
        a, b, batched, ops, lambda p, q: ops.solve_triangular(p, q, upper=upper, unitriangular=unitriangular)
    ),
    backward_name="LinalgSolveTriangularBackward0",
    saved_names={"a": "self"},
    one_dtype="a b",
)  # fmt: skip


# ----- LU -------------------------------------------------------------------------------------------------------------


def _row_order(np: Library, pivots: Payload, rows: int) -> Payload:
    """Convert LAPACK's exchanges (counted from 1) to an order: row i of P^T b is row order[i] of b."""
    stack = pivots.shape[:-1]
    if math.prod(stack) == 1:
        moved = list(range(rows))
        for i, p in enumerate(pivots.reshape(-1).tolist()):
            moved[i], moved[p - 1] = moved[p - 1], moved[i]
        return np.asarray(moved, np.int64).reshape((*stack, rows))
    flat = pivots.reshape((math.prod(stack), pivots.shape[-1])).astype(np.int64) - 1
    order = np.broadcast_to(np.arange(rows), (flat.shape[0], rows)).copy()
    every = np.arange(flat.shape[0])
    for i in range(flat.shape[1]):
        other = flat[:, i]
        exchanged = order[every, other]
        order[every, other] = order[:, i]
        order[:, i] = exchanged
    return order.reshape((*stack, rows))


def _exchange_rows(np: Library, x: Payload, pivots: Payload, *, back: bool) -> Payload:
    order = _row_order(np, pivots, x.shape[-2])
    if back:
        order = np.argsort(order, axis=-1)
    stack = numpy.broadcast_shapes(x.shape[:-2], order.shape[:-1])
    x = np.broadcast_to(x, stack + x.shape[-2:])
    return np.take_along_axis(x, np.broadcast_to(order, (*stack, order.shape[-1]))[..., None], axis=-2)


def _exchange_rows_batch(
    x: Payload, pivots: Payload, back: bool, batched: tuple[bool, bool], ops: Vocabulary
) -> Payload:
    rank = max(len(x.shape) - batched[0] - 1, len(pivots.shape) - batched[1])
    return ops.exchange_rows(align(x, batched[0], rank + 1, ops), align(pivots, batched[1], rank, ops), back=back)


# P^T x for the P of an LU factorisation, or P x with `back`.
exchange_rows = op(
    "exchange_rows", "x pivots",
    _exchange_rows,
    settings={"back": False},
    vjp={"x": lambda g, pivots, back, ops: ops.exchange_rows(g, pivots, back=not back)},
    jvp={"x": lambda t, pivots, back, ops: ops.exchange_rows(t, pivots, back=back)},
    batch=_exchange_rows_batch,
    may_raise=True, movement="rearrange",
)  # fmt: skip


def _split(lu: Payload, ops: Vocabulary) -> tuple[Any, Any, Any]:
    """Return the square part, the rows below it and the columns to its right (None if there are none)."""
    m, n = lu.shape[-2:]
    k = min(m, n)
    square = lu if m == n else ops.getitem(lu, index=(Ellipsis, slice(0, k), slice(0, k)))
    below = ops.getitem(lu, index=(Ellipsis, slice(k, m), slice(0, k))) if m > k else None
    right = ops.getitem(lu, index=(Ellipsis, slice(0, k), slice(k, n))) if n > k else None
    return square, below, right


def _unit_lower(x: Payload, ops: Vocabulary) -> Payload:
    """Return L of packed factors without its ones. The caller adds the term of the ones."""
    return ops.tril(x, diagonal=-1)


def _multiply_lower_adjoint(lu: Payload, x: Payload, ops: Vocabulary) -> Payload:
    """Return L^H x for the unit lower L of packed factors."""
    return x + ops.matmul(adjoint(_unit_lower(lu, ops), ops), x)


# Note [LU]
# For a square A = P L U, let M = L^-1 P^T dA U^-1 = L^-1 dL + dU U^-1. The first term is strictly lower, the second
# upper triangular, so dL = L tril(M, -1) and dU = triu(M) U; the packed form holds the sum of both. Transposed, the
# gradient of M is tril(L^H gL, -1) + triu(gU U^H), and gA = P L^-H (that) U^-H. A wide A = [A1 A2] has in addition U2 =
# L^-1 P^T A2, a tall one L2 = (P^T A)2 U^-1. Differentiating these two directly adds to the gradient of M the terms
# -tril(gU2 U2^H, -1) and -triu(L2^H gL2).


def _lu_vjp(g0: Payload, out0: Payload, out1: Payload, ops: Vocabulary) -> Any:
    lu, below, right = _split(out0, ops)
    g, g_below, g_right = _split(g0, ops)
    m, n = out0.shape[-2:]
    k = min(m, n)
    strict = _multiply_lower_adjoint(lu, ops.tril(g, diagonal=-1), ops)
    upper = ops.matmul(ops.triu(g, diagonal=0), adjoint(ops.triu(lu, diagonal=0), ops))
    if right is not None:
        strict = strict - ops.matmul(g_right, adjoint(right, ops))
    if below is not None:
        upper = upper - ops.matmul(adjoint(below, ops), g_below)
    core = ops.tril(strict, diagonal=-1) + ops.triu(upper, diagonal=0)

    def divide_upper(x: Any) -> Any:
        """Return x U^-H, as the adjoint of U^-1 x^H."""
        return adjoint(ops.solve_triangular(lu, adjoint(x, ops), upper=True, unitriangular=False), ops)

    def solve_lower(x: Any) -> Any:
        """Return L^-H x."""
        return ops.solve_triangular(adjoint(lu, ops), x, upper=True, unitriangular=True)

    whole = solve_lower(divide_upper(core))
    shape = tuple(out0.shape)
    if right is not None:
        whole = ops.embed(whole, shape=shape, index=(Ellipsis, slice(0, k), slice(0, k)))
        whole = whole + ops.embed(solve_lower(g_right), shape=shape, index=(Ellipsis, slice(0, k), slice(k, n)))
    if below is not None:
        whole = ops.embed(whole, shape=shape, index=(Ellipsis, slice(0, k), slice(0, k)))
        whole = whole + ops.embed(divide_upper(g_below), shape=shape, index=(Ellipsis, slice(k, m), slice(0, k)))
    return ops.exchange_rows(whole, out1, back=True)


def _lu_jvp(t: Payload, out0: Payload, out1: Payload, ops: Vocabulary) -> Any:
    """Return d(packed) = dL + dU. Outside the square, dU2 = L^-1 dA2 - tril(M, -1) U2 and dL2 = dA2 U^-1 - L2
    triu(M).
    """
    lu, below, right = _split(out0, ops)
    square, t_below, t_right = _split(ops.exchange_rows(t, out1, back=False), ops)
    m, n = out0.shape[-2:]
    k = min(m, n)
    shape = tuple(out0.shape)

    def solve_lower(x: Any) -> Any:
        return ops.solve_triangular(lu, x, upper=False, unitriangular=True)

    def divide_upper(x: Any) -> Any:
        return adjoint(ops.solve_triangular(adjoint(lu, ops), adjoint(x, ops), upper=False, unitriangular=False), ops)

    core = divide_upper(solve_lower(square))
    strict, upper = ops.tril(core, diagonal=-1), ops.triu(core, diagonal=0)
    moved = strict + ops.matmul(_unit_lower(lu, ops), strict) + ops.matmul(upper, ops.triu(lu, diagonal=0))
    if right is not None:
        moved = ops.embed(moved, shape=shape, index=(Ellipsis, slice(0, k), slice(0, k)))
        part = solve_lower(t_right) - ops.matmul(strict, right)
        moved = moved + ops.embed(part, shape=shape, index=(Ellipsis, slice(0, k), slice(k, n)))
    if below is not None:
        moved = ops.embed(moved, shape=shape, index=(Ellipsis, slice(0, k), slice(0, k)))
        part = divide_upper(t_below) - ops.matmul(below, upper)
        moved = moved + ops.embed(part, shape=shape, index=(Ellipsis, slice(k, m), slice(0, k)))
    return moved, None


#: From this order on, matrices are factored on a GPU, one by one; smaller ones on the host.
_LARGE = 256


def _lu_factor(np: Library, x: Payload) -> Any:
    if np is numpy or min(x.shape[-2:]) < _LARGE or not x.size or x.dtype.char not in "fdFD":
        return wrap_for_host(np, triangular.lu_factor)(x)
    factor = importlib.import_module("cupyx.scipy.linalg").lu_factor
    made = [factor(m, check_finite=False) for m in x.reshape((-1, *x.shape[-2:]))]
    packed, pivots = (np.stack(parts) for parts in zip(*made, strict=True))
    return packed.reshape(x.shape), (pivots + 1).astype(np.int32).reshape((*x.shape[:-2], -1))


# Packed L and U, and the row exchanges as LAPACK counts them.
lu_factor = op(
    "lu_factor", "x",
    _lu_factor,
    vjp={"x": _lu_vjp},
    jvp={"x": _lu_jvp},
    batch="leading",
    outputs=2,
    discrete_outputs=(1,),
    backward_name="LinalgLuFactorExBackward0",
    saved_names={"out0": "LU", "out1": "pivots"}, core_dims=[2],
)  # fmt: skip


# ----- Cholesky -------------------------------------------------------------------------------------------------------


def _cholesky(np: Library, x: Payload) -> Payload:
    found = small_matrices.cholesky(x)
    if found is not None:
        return found
    remedy = "Check that it is symmetric (Hermitian), or add a small multiple of the identity."
    out = call_linalg(np.linalg.cholesky, "cholesky: a matrix is not positive definite", remedy, x)
    if np is numpy and out.__class__ is numpy.ndarray:
        diagonal = numpy.diagonal(out, axis1=-2, axis2=-1)
        if (diagonal != diagonal).any():  # most LAPACK implementations report NaN as a failure, but not all
            raise LinAlgError(
                f"cholesky: a matrix is not positive definite (shape {x.shape}; it holds NaN). {remedy} [nd-singular]"
            )
    return out


def factor_as_far_as_possible(np: Library, x: Payload) -> tuple[Payload, Payload]:
    """Return Cholesky factors of matrices, and the order of the first leading minor that is not positive (else 0).

    LAPACK works column by column and stops at that minor. The diagonal element then holds the remainder, and the
    columns from there on are those of the matrix.
    """
    out = np.tril(x)
    info = np.zeros(x.shape[:-2], np.int32)
    n = x.shape[-1]
    for index in numpy.ndindex(x.shape[:-2]):
        low = out[index]  # a view
        for j in range(n):
            row = low[j, :j]
            left = (low[j, j] - np.vdot(row, row)).real
            if not left > 0:
                low[j, j] = left
                info[index] = j + 1
                break
            low[j, j] = np.sqrt(left)
            low[j + 1 :, j] = (low[j + 1 :, j] - low[j + 1 :, :j] @ row.conj()) / low[j, j]
    return out, info


# A = L L^H, so L^-1 dA L^-H = L^-1 dL + (L^-1 dL)^H, a lower triangular matrix plus its adjoint: dL = L phi(L^-1 dA
# L^-H) where phi takes the lower triangle and half the diagonal. phi is its own transpose, hence the reverse rule below
# (Giles 2008; Murray 2016 for the blocked form). Only the Hermitian part of dA counts, and the gradient is Hermitian.
# LAPACK reads only one triangle, but A stands for a Hermitian matrix.


def _cholesky_vjp(g: Payload, out: Payload, ops: Vocabulary) -> Payload:
    kernels = device_kernels.kernels() if ops.raw and is_on_device(out) else None
    found = None if kernels is None else kernels.cholesky_gradient(out, g)
    if found is not None:
        return found
    upper = adjoint(out, ops)
    core = ops.scale_diagonal(ops.tril(ops.matmul(upper, g), diagonal=0), factor=0.5)
    half = ops.solve_triangular(upper, core, upper=True, unitriangular=False)
    return hermitian(ops.solve_triangular(upper, adjoint(half, ops), upper=True, unitriangular=False), ops)


def _cholesky_jvp(t: Payload, out: Payload, ops: Vocabulary) -> Payload:
    half = ops.solve_triangular(out, hermitian(t, ops), upper=False, unitriangular=False)
    core = ops.solve_triangular(out, adjoint(half, ops), upper=False, unitriangular=False)
    return ops.matmul(out, ops.scale_diagonal(ops.tril(core, diagonal=0), factor=0.5))


cholesky = op(
    "cholesky", "x",
    _cholesky,
    vjp={"x": _cholesky_vjp},
    jvp={"x": _cholesky_jvp},
    batch="leading",
    backward_name="LinalgCholeskyExBackward0",
    saved_names={"out": "L"},
    may_raise=True, core_dims=[2],
)  # fmt: skip


# ----- pseudoinverse --------------------------------------------------------------------------------------------------


def _pinv(np: Library, x: Payload, atol: Any, rtol: Any, *, hermitian: bool) -> Payload:
    if hermitian:
        s, v = call_linalg(
            np.linalg.eigh, "pinv: the eigenvalues did not converge", "Check the matrix for NaN and infinities.", x
        )
        left, right, size = v, v, np.abs(s)
    else:
        u, s, vh = call_linalg(
            functools.partial(decompose_singular, np),
            "pinv: the singular values did not converge",
            "Check the matrix for NaN and infinities.",
            x,
            full_matrices=False,
        )
        left, right, size = u, vh.swapaxes(-1, -2).conj(), s
    cutoff = np.maximum(atol, rtol * largest(np, size)[..., 0])[..., None]
    kept = size > cutoff
    inverse = np.where(kept, 1 / np.where(kept, s, 1), 0).astype(s.dtype)
    return (right * inverse[..., None, :]) @ left.swapaxes(-1, -2).conj()


def _pinv_batch(
    x: Payload, atol: Any, rtol: Any, hermitian: bool, batched: tuple[bool, ...], ops: Vocabulary
) -> Payload:
    rank = len(x.shape) - batched[0] - 2
    atol, rtol = (
        align(c, b, rank, ops) if hasattr(c, "shape") else c for c, b in ((atol, batched[1]), (rtol, batched[2]))
    )
    return ops.pinv(x, atol, rtol, hermitian=hermitian)


# Golub and Pereyra (1973): with P = A^+ and constant rank,
#     dP = -P dA P + P P^H dA^H (I - A P) + (I - P A) dA^H P^H P.
# The transpose is  gA = -P^H g P^H + (I - A P) g^H P P^H + P^H P g^H (I - P A).


def _pinv_vjp(g: Payload, x: Payload, out: Payload, ops: Vocabulary) -> Payload:
    p, ph, gh = out, adjoint(out, ops), adjoint(g, ops)
    left, right = ops.matmul(gh, p), ops.matmul(p, gh)
    left = left - ops.matmul(x, ops.matmul(p, left))
    right = right - ops.matmul(ops.matmul(right, p), x)
    return ops.matmul(left, ph) + ops.matmul(ph, right) - ops.matmul(ph, ops.matmul(g, ph))


def _pinv_jvp(t: Payload, x: Payload, out: Payload, ops: Vocabulary) -> Payload:
    p, ph, th = out, adjoint(out, ops), adjoint(t, ops)
    left, right = ops.matmul(th, ph), ops.matmul(ph, th)
    left = left - ops.matmul(p, ops.matmul(x, left))
    right = right - ops.matmul(ops.matmul(right, x), p)
    return ops.matmul(left, p) + ops.matmul(p, right) - ops.matmul(p, ops.matmul(t, p))


# Singular values (eigenvalues, if `hermitian`) up to max(atol, rtol * the largest) count as zero.
pinv = op(
    "pinv", "x atol rtol",
    _pinv,
    settings={"hermitian": False},
    vjp={"x": _pinv_vjp},
    jvp={"x": _pinv_jvp},
    batch=_pinv_batch,
    backward_name="LinalgPinvBackward0",
    may_raise=True, core_dims=[2, 0, 0],
)  # fmt: skip
