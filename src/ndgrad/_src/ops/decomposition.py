"""Decompositions: QR, singular values, eigenvalues.

The factors of a decomposition are not unique (signs, phases, bases of equal eigenvalues). Derivatives exist only for
functions that do not depend on the choice. A dependence raises an error if it can be detected; see Note [Equal
eigenvalues] in _src.ops.matrix. The derivations follow Giles (2008), Walter and Lehmann (2012) for QR, Seeger et al.
(2017) for QR and eigh, and Wan and Zhang (2019) for the phases of complex singular vectors.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from ndgrad._src.ops.matrix import (
    adjoint,
    call_linalg,
    column,
    decompose_singular,
    hermitian,
    make_diagonal,
    row,
    take_diagonal,
)  # fmt: skip
from ndgrad._src.ops.table import op

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload, Vocabulary

_NOT_FINITE = "Check the matrix for NaN and infinities."


def _square_norm(x: Payload, ops: Vocabulary) -> Payload:
    """Return the squared Frobenius norm of each matrix."""
    n = len(x.shape)
    return ops.sum(ops.real(ops.conj(x) * x), dim=(n - 2, n - 1), keepdim=False)


# ----- QR -------------------------------------------------------------------------------------------------------------


def _qr(np: Library, x: Payload, *, mode: str) -> Any:
    return tuple(call_linalg(np.linalg.qr, "qr: the factorisation failed", _NOT_FINITE, x, mode=mode))


def _require_unique(shape: tuple[int, ...], mode: str) -> None:
    rows, columns = shape[-2:]
    if mode == "complete" and rows > columns:
        raise RuntimeError(
            "qr: the derivative of mode='complete' does not exist for a matrix with more rows than columns (shape "
            f"{tuple(shape)}): "
            "the last columns of Q are any basis of the orthogonal complement. Use mode='reduced'. [nd-no-derivative]"
        )


# Note [QR]
# A = Q R with Q^H Q = I, m rows and n columns. For m >= n, let M = Q^H dA R^-1 = Q^H dQ + dR R^-1: a skew-Hermitian
# matrix plus an upper triangular one with real diagonal (LAPACK keeps that of R real). So the strict lower triangle of
# M determines Omega = Q^H dQ,
#     Omega = tril(M, -1) - tril(M, -1)^H + i Im diag(M),     dR = Q^H dA - Omega R,     dQ = (dA - Q dR) R^-1.
# For m < n, A = [A1 A2] and R = [R1 R2]: the same with A1 and R1 in M, and dQ = Q Omega.
#
# Transposed (Walter and Lehmann): the gradient of Omega is X = Q^H gQ - gR R^H, that of M is, since M -> Omega is
# linear, gM = tril(X, -1) - triu(X, 1)^H + i Im diag(X), and
#     gA = Q gR + ((I - Q Q^H) gQ + Q gM) R^-H,
# where for m < n the second term belongs to A1 and R1 and has no part outside Q.


def _skew(m: Payload, ops: Vocabulary) -> Payload:
    """Return Omega from M."""
    strict = ops.tril(m, diagonal=-1)
    return strict - adjoint(strict, ops) + _imaginary_diagonal(m, ops)


def _skew_transposed(x: Payload, ops: Vocabulary) -> Payload:
    """Return the gradient of M from that of Omega: <X, Omega(M)> = <this, M>."""
    strict = ops.tril(x, diagonal=-1)
    above = ops.triu(x, diagonal=1)
    return strict - adjoint(above, ops) + _imaginary_diagonal(x, ops)


def _imaginary_diagonal(x: Payload, ops: Vocabulary) -> Payload:
    d = take_diagonal(x, ops)
    n = x.shape[-1]
    return make_diagonal((d - ops.conj(d)) * 0.5, n, n, ops)


def _divide_upper(x: Payload, r: Payload, ops: Vocabulary) -> Payload:
    """Return x R^-1."""
    return adjoint(ops.solve_triangular(adjoint(r, ops), adjoint(x, ops), upper=False, unitriangular=False), ops)


def _divide_upper_adjoint(x: Payload, r: Payload, ops: Vocabulary) -> Payload:
    """Return x R^-H."""
    return adjoint(ops.solve_triangular(r, adjoint(x, ops), upper=True, unitriangular=False), ops)


def _left_square(x: Payload, ops: Vocabulary) -> Payload:
    m = x.shape[-2]
    return ops.getitem(x, index=(Ellipsis, slice(None), slice(0, m)))


def _qr_vjp(
    g0: Payload, g1: Payload, out0: Payload, out1: Payload, mode: str, x_shape: tuple[int, ...], ops: Vocabulary
) -> Payload:
    _require_unique(x_shape, mode)
    q, r = out0, out1
    gr = ops.triu(g1, diagonal=0)
    inside = ops.matmul(adjoint(q, ops), g0)
    g_omega = inside - ops.matmul(gr, adjoint(r, ops))
    if x_shape[-2] < x_shape[-1]:
        core = ops.matmul(q, _skew_transposed(g_omega, ops))
        square = _divide_upper_adjoint(core, _left_square(r, ops), ops)
        return ops.matmul(q, gr) + ops.embed(
            square, shape=x_shape, index=(Ellipsis, slice(None), slice(0, x_shape[-2]))
        )
    outside = g0 - ops.matmul(q, inside)
    core = outside + ops.matmul(q, _skew_transposed(g_omega, ops))
    return ops.matmul(q, gr) + _divide_upper_adjoint(core, r, ops)


def _qr_jvp(t: Payload, out0: Payload, out1: Payload, mode: str, x_shape: tuple[int, ...], ops: Vocabulary) -> Any:
    _require_unique(x_shape, mode)
    q, r = out0, out1
    inside = ops.matmul(adjoint(q, ops), t)
    if x_shape[-2] < x_shape[-1]:
        omega = _skew(_divide_upper(_left_square(inside, ops), _left_square(r, ops), ops), ops)
        return ops.matmul(q, omega), ops.triu(inside - ops.matmul(omega, r), diagonal=0)
    omega = _skew(_divide_upper(inside, r, ops), ops)
    dr = ops.triu(inside - ops.matmul(omega, r), diagonal=0)
    return _divide_upper(t - ops.matmul(q, dr), r, ops), dr


qr = op(
    "qr", "x",
    _qr,
    settings={"mode": "reduced"},
    vjp={"x": _qr_vjp},
    jvp={"x": _qr_jvp},
    batch="leading",
    outputs=2,
    backward_name="LinalgQrBackward0",
    saved_names={"out0": "Q", "out1": "R"}, core_dims=[2],
)  # fmt: skip


# ----- singular values ------------------------------------------------------------------------------------------------

_SVD_EQUAL = (
    "svd: the derivative of the singular vectors does not exist where two singular values are equal (to "
    "working precision): the vectors are then any basis of their space. Use svdvals if only the values matter, "
    "or a matrix function (pinv, solve, matrix_norm) that has a derivative of its own; or perturb the matrix. "
    "[nd-degenerate]"
)
_SVD_ZERO = (
    "svd: the derivative of a singular vector does not exist where its singular value is zero and "
    "the matrix is not square: any vector of the null space would do. Drop those columns before they enter "
    "the loss, or perturb the matrix. [nd-degenerate]"
)
_SVD_FULL = (
    "svd: the loss depends on the columns that full_matrices=True adds; they are any basis of the complement, "
    "so there is no derivative. Use full_matrices=False, or leave those columns out of the loss. [nd-degenerate]"
)
_SVD_PHASE = (
    "svd: the loss depends on the phases of complex singular vectors, which are arbitrary, so there is no derivative. "
    "Use functions that do not change when u and v are multiplied by the same e^(i phi), "
    "such as U f(S) Vh or |U|. [nd-degenerate]"
)


def _svd(np: Library, x: Payload, *, full_matrices: bool) -> Any:
    return tuple(
        call_linalg(
            functools.partial(decompose_singular, np),
            "svd: the singular values did not converge",
            _NOT_FINITE,
            x,
            full_matrices=full_matrices,
        )
    )


# Note [SVD]
# A = U S V^H with k singular values. Write dP = U^H dA V, dU = U Omega + (I - U U^H) dA V S^-1, dV = V Psi + (I - V
# V^H) dA^H U S^-1 with Omega and Psi skew-Hermitian. Then dP = Omega S + dS - S Psi. With its adjoint, for i != j and
# E_ij = s_j^2 - s_i^2,
#     Omega = (dP S + S dP^H) / E,     Psi = (S dP + dP^H S) / E,     dS = Re diag(dP).
# The imaginary part of diag(dP) is s (Omega - Psi) on the diagonal. Only this difference is determined (a common phase
# is free), so each of the two gets half. Transposed, with X = U^H gU, Y = V^H gV and "off" for the part off the
# diagonal,
#     gA = U [ off((X - X^H) / E) S + S off((Y - Y^H) / E) + diag(gS) + i Im diag(X - Y) / (2 S) ] V^H
#          + (gU - U X) S^-1 V^H + U S^-1 (gV - V Y)^H.
# A loss that does not depend on the common phase has Im diag(X + Y) = 0, which is checked.


def _narrow(g: Payload, dim: int, k: int, ops: Vocabulary) -> Payload:
    """Return the first k columns (dim -1) or rows (dim -2) of the gradient of a full factor. The rest must be zero."""
    if g.shape[dim] == k:
        return g
    tail = (slice(None),) if dim == -2 else ()
    ops.resolved_quotient(ops.getitem(g, index=(Ellipsis, slice(k, None), *tail)), 0.0, floor=False, problem=_SVD_FULL)
    return ops.getitem(g, index=(Ellipsis, slice(0, k), *tail))


def _svd_vjp(
    g0: Payload,
    g1: Payload,
    g2: Payload,
    out0: Payload,
    out1: Payload,
    out2: Payload,
    x_shape: tuple[int, ...],
    x_dtype: Any,
    full_matrices: bool,
    ops: Vocabulary,
) -> Any:
    m, n = x_shape[-2:]
    k = min(m, n)
    u, s, vh = out0, out1, out2
    if full_matrices and m != n:
        g0, g2 = _narrow(g0, -1, k, ops), _narrow(g2, -2, k, ops)
        u = u if u.shape[-1] == k else ops.getitem(u, index=(Ellipsis, slice(0, k)))
        vh = vh if vh.shape[-2] == k else ops.getitem(vh, index=(Ellipsis, slice(0, k), slice(None)))
    if ops.raw and not g0.any() and not g2.any():
        return ops.matmul(u * row(g1, ops), vh)
    s_row, s_column = row(s, ops), column(s, ops)
    x, y = ops.matmul(adjoint(u, ops), g0), ops.matmul(vh, adjoint(g2, ops))
    gaps = ops.spectral_gaps(s, squared=True)

    def divide_by_gaps(z: Any) -> Any:
        """Return (z - z^H) / E. E is antisymmetric, so this is z / E plus its adjoint."""
        part = ops.resolved_quotient(ops.scale_diagonal(z, factor=0.0), gaps, floor=False, problem=_SVD_EQUAL)
        return part + adjoint(part, ops)

    core = divide_by_gaps(x) * s_row + s_column * divide_by_gaps(y)
    diagonal = g1
    if x_dtype.kind == "c":
        dx, dy = take_diagonal(x, ops), take_diagonal(y, ops)
        ops.refuse_phase(dx + dy, _square_norm(x, ops) + _square_norm(y, ops), problem=_SVD_PHASE)
        turn = dx - dy
        diagonal = g1 + ops.resolved_quotient((turn - ops.conj(turn)) * 0.25, s, floor=True, problem=_SVD_ZERO)
    left = ops.matmul(u, core) + u * row(diagonal, ops)
    if m > k:
        left = left + ops.resolved_quotient(g0 - ops.matmul(u, x), s_row, floor=True, problem=_SVD_ZERO)
    out = ops.matmul(left, vh)
    if n > k:
        right = adjoint(g2, ops) - ops.matmul(adjoint(vh, ops), y)
        scaled = ops.resolved_quotient(right, s_row, floor=True, problem=_SVD_ZERO)
        out = out + ops.matmul(u, adjoint(scaled, ops))
    return out


def _svd_jvp(
    t: Payload,
    out0: Payload,
    out1: Payload,
    out2: Payload,
    x_shape: tuple[int, ...],
    x_dtype: Any,
    full_matrices: bool,
    ops: Vocabulary,
) -> Any:
    m, n = x_shape[-2:]
    k = min(m, n)
    s = out1
    u = _columns(out0, 0, k, ops) if full_matrices and m > k else out0
    vh = adjoint(_columns(adjoint(out2, ops), 0, k, ops), ops) if full_matrices and n > k else out2
    s_row, s_column = row(s, ops), column(s, ops)
    uh, v = adjoint(u, ops), adjoint(vh, ops)
    tv, th = ops.matmul(t, v), adjoint(t, ops)
    p = ops.matmul(uh, tv)
    ph = adjoint(p, ops)
    gaps = ops.spectral_gaps(s, squared=True)

    def divide_by_gaps(z: Any) -> Any:
        return ops.resolved_quotient(ops.scale_diagonal(z, factor=0.0), gaps, floor=False, problem="")

    omega, psi = divide_by_gaps(p * s_row + s_column * ph), divide_by_gaps(s_column * p + ph * s_row)
    d = take_diagonal(p, ops)
    if x_dtype.kind == "c":
        turn = ops.resolved_quotient((d - ops.conj(d)) * 0.25, s, floor=True, problem="")
        turn = make_diagonal(turn, k, k, ops)
        omega, psi = omega + turn, psi - turn
    du, dv = ops.matmul(u, omega), ops.matmul(v, psi)
    if m > k:
        du = du + ops.resolved_quotient(tv - ops.matmul(u, p), s_row, floor=True, problem="")
    if n > k:
        dv = dv + ops.resolved_quotient(ops.matmul(th, u) - ops.matmul(v, ph), s_row, floor=True, problem="")
    if full_matrices and m > k:
        du = _complete_tangents(u, du, _columns(out0, k, m, ops), ops)
    if full_matrices and n > k:
        dv = _complete_tangents(v, dv, _columns(adjoint(out2, ops), k, n, ops), ops)
    return du, ops.real(d), adjoint(dv, ops)


def _columns(x: Payload, start: int, stop: int, ops: Vocabulary) -> Payload:
    return ops.getitem(x, index=(Ellipsis, slice(None), slice(start, stop)))


def _complete_tangents(u: Payload, du: Payload, rest: Payload, ops: Vocabulary) -> Payload:
    """Return tangents of all columns of a unitary matrix.

    The added columns W are an arbitrary basis of the orthogonal complement. Among the smoothly moving bases, this one
    does not rotate within itself: W^H dW = 0 and U^H dW = -dU^H W, so dW = -U dU^H W.
    """
    added = -ops.matmul(u, ops.matmul(adjoint(du, ops), rest))
    return ops.cat(du, added, dim=len(du.shape) - 1)


svd = op(
    "svd", "x",
    _svd,
    settings={"full_matrices": False},
    vjp={"x": _svd_vjp},
    jvp={"x": _svd_jvp},
    batch="leading",
    outputs=3,
    backward_name="LinalgSvdBackward0",
    saved_names={"out0": "U", "out1": "S", "out2": "Vh"},
    may_raise=True, core_dims=[2],
)  # fmt: skip


def _svdvals(np: Library, x: Payload) -> Payload:
    svd = functools.partial(decompose_singular, np)
    return call_linalg(svd, "svdvals: the singular values did not converge", _NOT_FINITE, x, compute_uv=False)


def _svdvals_vjp(g: Payload, x: Payload, ops: Vocabulary) -> Payload:
    u, _, vh = ops.svd(x, full_matrices=False)
    return ops.matmul(u * row(g, ops), vh)


def _svdvals_jvp(t: Payload, x: Payload, ops: Vocabulary) -> Payload:
    """Return Re diag(U^H dA V)."""
    u, _, vh = ops.svd(x, full_matrices=False)
    moved = ops.conj(u) * ops.matmul(t, adjoint(vh, ops))
    return ops.real(ops.sum(moved, dim=(len(x.shape) - 2,), keepdim=False))


# Singular values alone, several times faster than with the vectors. Only derivatives compute the vectors.
svdvals = op(
    "svdvals", "x",
    _svdvals,
    vjp={"x": _svdvals_vjp},
    jvp={"x": _svdvals_jvp},
    batch="leading",
    backward_name="LinalgSvdBackward0",
    may_raise=True, core_dims=[2],
)  # fmt: skip


# ----- eigenvalues of Hermitian matrices ------------------------------------------------------------------------------

_EIGH_EQUAL = (
    "eigh: the derivative of the eigenvectors does not exist where two eigenvalues are equal (to working precision): "
    "the vectors are then any basis of their space. Use eigvalsh if only the eigenvalues matter, "
    "or a matrix function (matrix_exp, inv, cholesky) that has a derivative of its own; or perturb the matrix. "
    "[nd-degenerate]"
)
_EIGH_PHASE = (
    "eigh: the loss depends on the phases of complex eigenvectors, which are arbitrary, so there is no derivative. "
    "Use functions that do not change when an eigenvector is multiplied by e^(i phi), such as V f(w) V^H or |V|. "
    "[nd-degenerate]"
)


def _eigh(np: Library, x: Payload, *, UPLO: str) -> Any:
    return tuple(call_linalg(np.linalg.eigh, "eigh: the eigenvalues did not converge", _NOT_FINITE, x, UPLO=UPLO))


# A V = V W with V^H V = I. With P = V^H dA V: dw = diag(P), and off the diagonal dV = V (P / E), E_ij = w_j - w_i.
# Transposed, with M = V^H gV: gA = V (diag(gw) + (M - M^H) / (2 E)) V^H. As for cholesky, dA stands for its Hermitian
# part.


def _eigh_vjp(g0: Payload, g1: Payload, out0: Payload, out1: Payload, x_dtype: Any, ops: Vocabulary) -> Payload:
    w, v = out0, out1
    vh = adjoint(v, ops)
    if ops.raw and not g1.any():
        return ops.matmul(v * row(g0, ops), vh)
    m = ops.matmul(vh, g1)
    if x_dtype.kind == "c":
        ops.refuse_phase(take_diagonal(m, ops), _square_norm(m, ops), problem=_EIGH_PHASE)
    off = ops.scale_diagonal(m, factor=0.0)
    part = ops.resolved_quotient(off, ops.spectral_gaps(w, squared=False), floor=False, problem=_EIGH_EQUAL)
    return ops.matmul(ops.matmul(v, hermitian(part, ops)) + v * row(g0, ops), vh)


def _eigh_jvp(t: Payload, out0: Payload, out1: Payload, ops: Vocabulary) -> Any:
    w, v = out0, out1
    p = hermitian(ops.matmul(adjoint(v, ops), ops.matmul(t, v)), ops)
    off = ops.scale_diagonal(p, factor=0.0)
    omega = ops.resolved_quotient(off, ops.spectral_gaps(w, squared=False), floor=False, problem="")
    return ops.real(take_diagonal(p, ops)), ops.matmul(v, omega)


eigh = op(
    "eigh", "x",
    _eigh,
    settings={"UPLO": "L"},
    vjp={"x": _eigh_vjp},
    jvp={"x": _eigh_jvp},
    batch="leading",
    outputs=2,
    backward_name="LinalgEighBackward0",
    saved_names={"out0": "eigenvalues", "out1": "eigenvectors"},
    may_raise=True, core_dims=[2],
)  # fmt: skip


def _eigvalsh(np: Library, x: Payload, *, UPLO: str) -> Payload:
    return call_linalg(np.linalg.eigvalsh, "eigvalsh: the eigenvalues did not converge", _NOT_FINITE, x, UPLO=UPLO)


def _eigvalsh_vjp(g: Payload, x: Payload, UPLO: str, ops: Vocabulary) -> Payload:
    _, v = ops.eigh(x, UPLO=UPLO)
    return ops.matmul(v * row(g, ops), adjoint(v, ops))


def _eigvalsh_jvp(t: Payload, x: Payload, UPLO: str, ops: Vocabulary) -> Payload:
    _, v = ops.eigh(x, UPLO=UPLO)
    moved = ops.conj(v) * ops.matmul(hermitian(t, ops), v)
    return ops.real(ops.sum(moved, dim=(len(x.shape) - 2,), keepdim=False))


eigvalsh = op(
    "eigvalsh", "x",
    _eigvalsh,
    settings={"UPLO": "L"},
    vjp={"x": _eigvalsh_vjp},
    jvp={"x": _eigvalsh_jvp},
    batch="leading",
    backward_name="LinalgEighBackward0",
    may_raise=True, core_dims=[2],
)  # fmt: skip


# ----- eigenvalues of any matrix --------------------------------------------------------------------------------------

_EIG_EQUAL = (
    "eig: the derivative of the eigenvectors does not exist where two eigenvalues are equal (to working precision): "
    "the vectors are then any basis of their space, or too few. Use eigvals if only the eigenvalues "
    "matter; or perturb the matrix. [nd-degenerate]"
)
_EIG_PHASE = (
    "eig: the loss depends on the phases of the eigenvectors, which are arbitrary, so there is no derivative. "
    "Use functions that do not change when an eigenvector is multiplied by e^(i phi), such as V f(w) V^-1 or |V|. "
    "[nd-degenerate]"
)


def _complex_dtype(np: Library, dtype: Any) -> Payload:
    return np.result_type(dtype, np.complex64)


def _eig(np: Library, x: Payload) -> Any:
    w, v = call_linalg(np.linalg.eig, "eig: the eigenvalues did not converge", _NOT_FINITE, x)
    dtype = _complex_dtype(np, v.dtype)
    return w.astype(dtype, copy=False), v.astype(dtype, copy=False)


# A V = V W, with columns of V of norm one. With P = V^-1 dA V: dw = diag(P), and dV = V Omega with Omega = P / E off
# the diagonal. The norm stays one if each column moves at a right angle to itself, so V diag(Re diag(V^H V Omega)) is
# subtracted from dV. The phase is free; LAPACK makes the largest entry real, and a loss must not depend on it (Im
# diag(V^H gV) = 0, checked). Transposed, with M = V^H gV: M' = M - V^H V diag(Re diag(M)), and gA = V^-H (diag(gw) + M'
# / conj(E)) V^H.


def _eig_vjp(g0: Payload, g1: Payload, out0: Payload, out1: Payload, ops: Vocabulary) -> Payload:
    w, v = out0, out1
    vh = adjoint(v, ops)
    m = ops.matmul(vh, g1)
    d = take_diagonal(m, ops)
    ops.refuse_phase(d, _square_norm(m, ops), problem=_EIG_PHASE)
    m = m - ops.matmul(vh, v) * row((d + ops.conj(d)) * 0.5, ops)
    off = ops.scale_diagonal(m, factor=0.0)
    core = ops.resolved_quotient(off, ops.conj(ops.spectral_gaps(w, squared=False)), floor=False, problem=_EIG_EQUAL)
    return ops.solve(vh, ops.matmul(core, vh) + column(g0, ops) * vh)


def _eig_jvp(t: Payload, out0: Payload, out1: Payload, ops: Vocabulary) -> Any:
    w, v = out0, out1
    p = ops.solve(v, ops.matmul(t, v))
    off = ops.scale_diagonal(p, factor=0.0)
    omega = ops.resolved_quotient(off, ops.spectral_gaps(w, squared=False), floor=False, problem="")
    moved = ops.matmul(v, omega)
    along = ops.sum(ops.conj(v) * moved, dim=(len(v.shape) - 2,), keepdim=True)
    return take_diagonal(p, ops), moved - v * ((along + ops.conj(along)) * 0.5)


eig = op(
    "eig", "x",
    _eig,
    vjp={"x": _eig_vjp},
    jvp={"x": _eig_jvp},
    batch="leading",
    outputs=2,
    backward_name="LinalgEigBackward0",
    saved_names={"out0": "eigenvalues", "out1": "eigenvectors"},
    may_raise=True, core_dims=[2],
)  # fmt: skip
