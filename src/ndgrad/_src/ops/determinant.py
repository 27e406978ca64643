"""Determinants. A determinant is a polynomial, so its derivatives exist at singular matrices too, unlike the inverse.

The derivative of det is the matrix of cofactors, which is an op of its own. The derivative of the cofactors is another
op. So det has derivatives up to second order at every matrix.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy

from ndgrad._src.arrays import small_matrices
from ndgrad._src.ops.matrix import adjoint, call_linalg, times, transpose
from ndgrad._src.ops.table import op

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload, Vocabulary

_SINGULAR = "Its logarithm is -inf there and has no derivative. Use det, or add a small multiple of the identity."


def _scalar(x: Payload, ops: Vocabulary) -> Payload:
    """Reshape (...) to (..., 1, 1)."""
    return ops.reshape(x, shape=(*x.shape, 1, 1))


def _dot(x: Payload, y: Payload, ops: Vocabulary) -> Payload:
    """Return the sum of products over a matrix, without conjugate, as (..., 1, 1)."""
    n = len(x.shape)
    return ops.sum(x * y, dim=(n - 2, n - 1), keepdim=True)


# ----- det ------------------------------------------------------------------------------------------------------------


def _det(np: Library, x: Payload) -> Payload:
    pivots = small_matrices.pivots(x)
    if pivots is not None:
        # A product may overflow or vanish on the way to a number that exists.
        with numpy.errstate(over="ignore", under="ignore"):
            found = pivots.prod(axis=-1)
        if numpy.isfinite(found).all() and found.all():
            return found
    return call_linalg(np.linalg.det, "det: the factorisation failed", "Check the matrix.", x)


# Derivative: d det(A) = sum of cof(A) * dA.
det = op(
    "det", "x",
    _det,
    vjp={"x": lambda g, x, ops: times(_scalar(g, ops), ops.conj(ops.cofactor(x)), ops)},
    jvp={"x": lambda t, x, ops: ops.sum(ops.cofactor(x) * t, dim=(len(x.shape) - 2, len(x.shape) - 1), keepdim=False)},
    batch="leading",
    backward_name="LinalgDetBackward0",
    saved_names={"x": "A"}, core_dims=[2],
)  # fmt: skip


def _products_of_others(np: Library, s: Payload) -> Payload:
    """Return, for each entry along the last dimension, the product of the other entries."""
    n = s.shape[-1]
    grid = np.broadcast_to(s[..., None, :], (*s.shape, n)).copy()
    i = np.arange(n)
    grid[..., i, i] = 1
    return grid.prod(axis=-1)


def _products_of_pairs_of_others(np: Library, s: Payload) -> Payload:
    """Return, for each pair i != j, the product of all other entries; 0 on the diagonal."""
    n = s.shape[-1]
    grid = np.broadcast_to(s[..., None, None, :], (*s.shape, n, n)).copy()
    i = np.arange(n)
    grid[..., i, :, i] = 1
    grid[..., :, i, i] = 1
    out = grid.prod(axis=-1)
    out[..., i, i] = 0
    return out


def _singular_basis(np: Library, x: Payload) -> Any:
    """Return U, s, V^H and the phase det(U) det(V^H), so that det(A + E) = phase * det(S + U^H E V)."""
    u, s, vh = np.linalg.svd(x)
    return u, s, vh, (np.linalg.det(u) * np.linalg.det(vh))[..., None, None]


def _cofactor(np: Library, x: Payload) -> Payload:
    d = _det(np, x)
    singular = (d == 0)[..., None, None]
    if not singular.any():
        inverse = small_matrices.inverse(x)
        return (np.linalg.inv(x) if inverse is None else inverse).swapaxes(-1, -2) * d[..., None, None]
    # In the singular basis the cofactors are diagonal: the products of the other singular values.
    u, s, vh, phase = _singular_basis(np, x)
    at_singular = phase * ((u * _products_of_others(np, s)[..., None, :]) @ vh).conj()
    regular = np.where(singular, np.eye(x.shape[-1], dtype=x.dtype), x)
    return np.where(singular, at_singular, np.linalg.inv(regular).swapaxes(-1, -2) * d[..., None, None]).astype(
        at_singular.dtype
    )


# Note [Derivatives of det]
# With C = cof(A) = det(A) A^-T, dC = (<C, dA> C - C dA^T C) / det(A), where <C, dA> is the sum of products. At a
# singular A the same polynomial follows from the singular basis: the terms of det(S + E) of second order in E are, over
# pairs i < j, (E_ii E_jj - E_ij E_ji) times the product of the other singular values. All derivatives of det are
# symmetric forms, so each reverse rule is the forward rule applied to the gradient (with conjugates).


def _cofactor_push(np: Library, x: Payload, along: Any) -> Payload:
    t = along
    d = np.linalg.det(x)[..., None, None]
    regular = np.where(d == 0, np.eye(x.shape[-1], dtype=x.dtype), x)
    inverse = np.linalg.inv(regular).swapaxes(-1, -2)
    # The two terms of the quotient cancel, which loses about log10(condition number) digits.
    doubtful = (d == 0) | (_norm(np, regular) * _norm(np, inverse) > 1e4)
    out = d * ((inverse * t).sum(axis=(-2, -1), keepdims=True) * inverse - inverse @ t.swapaxes(-1, -2) @ inverse)
    if not doubtful.any():
        return out
    u, s, vh, phase = _singular_basis(np, x)
    e = u.swapaxes(-1, -2).conj() @ t @ vh.swapaxes(-1, -2).conj()
    pairs = _products_of_pairs_of_others(np, s)
    i = np.arange(s.shape[-1])
    moved = -pairs * e.swapaxes(-1, -2)
    moved[..., i, i] = (pairs * e[..., i, i][..., None, :]).sum(axis=-1)
    return np.where(doubtful, phase * (u.conj() @ moved @ vh.conj()), out)


def _norm(np: Library, x: Payload) -> Payload:
    return np.sqrt((x.conj() * x).real.sum(axis=(-2, -1), keepdims=True))


# The transposed matrix of cofactors is the adjugate.
cofactor = op(
    "cofactor", "x",
    _cofactor,
    vjp={"x": lambda g, x, ops: ops.cofactor_push(ops.conj(x), g)},
    jvp={"x": lambda t, x, ops: ops.cofactor_push(x, t)},
    batch="leading",
    may_raise=True, core_dims=[2],
)  # fmt: skip


def _third(x: Payload, t: Payload, s: Payload, ops: Vocabulary) -> Payload:
    """Return the derivative of cofactor_push(x, t) along a change s of x, by the quotient rule; NaN (0 / 0) at a
    singular x.
    """
    c, d = ops.cofactor(x), _scalar(ops.det(x), ops)
    along_s, along_t = ops.cofactor_push(x, s), ops.cofactor_push(x, t)
    tt = transpose(t, ops)
    moved = _dot(along_s, t, ops) * c + _dot(c, t, ops) * along_s
    moved = moved - ops.matmul(ops.matmul(along_s, tt), c) - ops.matmul(ops.matmul(c, tt), along_s)
    return (moved - along_t * _dot(c, s, ops)) / d


# The derivative of the cofactors of x, linear in `along`.
cofactor_push = op(
    "cofactor_push", "x along",
    _cofactor_push,
    vjp={
        "x": lambda g, x, along, ops: _third(ops.conj(x), ops.conj(along), g, ops),
        "along": lambda g, x, ops: ops.cofactor_push(ops.conj(x), g),
    },
    jvp={
        "x": lambda t, x, along, ops: _third(x, along, t, ops),
        "along": lambda t, x, ops: ops.cofactor_push(x, t),
    },
    batch="leading", core_dims=[2],
)  # fmt: skip


# ----- slogdet --------------------------------------------------------------------------------------------------------


def _slogdet(np: Library, x: Payload) -> Any:
    pivots = small_matrices.pivots(x)
    if pivots is not None and pivots.all():
        return numpy.sign(pivots).prod(axis=-1), numpy.log(numpy.abs(pivots)).sum(axis=-1)
    return tuple(call_linalg(np.linalg.slogdet, "slogdet: the factorisation failed", "Check the matrix.", x))


# With tau = tr(A^-1 dA): d log|det| = Re tau and d sign = i Im(tau) sign, which is zero for real matrices. Transposed,
# gA = (g_log + i Im(conj(sign) g_sign)) A^-H.


def _slogdet_vjp(g0: Payload, g1: Payload, x: Payload, out0: Payload, x_dtype: Any, ops: Vocabulary) -> Payload:
    weight = g1
    if x_dtype.kind == "c":
        turn = ops.conj(out0) * g0
        weight = g1 + (turn - ops.conj(turn)) * 0.5
    return _scalar(weight, ops) * adjoint(ops.inv(x), ops)


def _slogdet_jvp(t: Payload, x: Payload, out0: Payload, x_dtype: Any, ops: Vocabulary) -> Any:
    tau = ops.trace(ops.solve(x, t))
    if x_dtype.kind != "c":
        return tau * 0.0, tau
    return (tau - ops.conj(tau)) * 0.5 * out0, ops.real(tau)


slogdet = op(
    "slogdet", "x",
    _slogdet,
    vjp={"x": _slogdet_vjp},
    jvp={"x": _slogdet_jvp},
    batch="leading",
    outputs=2,
    backward_name="LinalgSlogdetBackward0",
    saved_names={"x": "A", "out0": "sign"}, core_dims=[2],
)  # fmt: skip
