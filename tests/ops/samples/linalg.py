"""Samples of solves, decompositions, determinants and the matrix exponential."""

from __future__ import annotations

import numpy as np

from ndgrad._src.ops.vocabulary import tensor_ops as ops
from ndgrad.testing.op_checks import Sample

try:
    from scipy.linalg import lapack
except ImportError:
    lapack = None

r = np.random.default_rng(11)


def real(*shape):
    return r.standard_normal(shape)


def complex_(*shape):
    return real(*shape) + 1j * real(*shape)


def adjoint(x):
    """Return the adjoint of an array or a tensor."""
    if isinstance(x, np.ndarray):
        return x.swapaxes(-1, -2).conj()
    n = len(x.shape)
    return ops.conj(ops.permute(x, dims=(*range(n - 2), n - 1, n - 2)))


def hermitian(x):
    return (x + adjoint(x)) * 0.5


def positive(x):
    """Return a positive definite matrix; every such matrix is the square of some x."""
    product = x @ adjoint(x) if isinstance(x, np.ndarray) else ops.matmul(x, adjoint(x))
    return product + np.eye(x.shape[-1])


def separated(*shape, make=real):
    """Return a matrix with well separated eigenvalues."""
    return make(*shape) + np.diag(3.0 * np.arange(shape[-1]))


def well_conditioned(*shape, make=real):
    return make(*shape) + 3 * np.eye(*shape[-2:])


def singular(n, rank):
    return real(n, rank) @ real(rank, n)


def hollow(n, make=real):
    """Return a matrix with zeros on the diagonal, which needs blocks of two."""
    return make(n, n) * (1 - np.eye(n))


def ldl_reference(x, hermitian=False):
    """Return LAPACK's own factors of each matrix, without the triangle that it does not write."""
    packed, pivots = np.empty_like(x), np.empty(x.shape[:-1], np.int32)
    for i in np.ndindex(x.shape[:-2]):
        routine = {(False, False): lapack.dsytrf, (True, False): lapack.zsytrf, (True, True): lapack.zhetrf}.get(
            (x.dtype.kind == "c", hermitian), lapack.dsytrf
        )
        factors, pivots[i], info = routine(x[i], lower=1)
        assert info == 0
        packed[i] = np.tril(factors)
    return packed, pivots, np.zeros(x.shape[:-2], np.int32)


# ----- functions that do not depend on the choice of signs, phases and orders -----


def eigh_invariant(w, v):
    """Return the eigenvalues, and V f(w) V^H."""
    n = len(w.shape)
    scaled = ops.mul(v, ops.reshape(ops.exp(w * 0.3), shape=(*w.shape[:-1], 1, w.shape[-1])))
    assert n >= 1
    return w, ops.matmul(scaled, adjoint(v))


def svd_invariant(u, s, vh):
    scaled = ops.mul(u, ops.reshape(s * s, shape=(*s.shape[:-1], 1, s.shape[-1])))
    return s, ops.matmul(scaled, vh), ops.real(u * ops.conj(u))


def full_svd_invariant(u, s, vh):
    k = s.shape[-1]
    return svd_invariant(
        ops.getitem(u, index=(Ellipsis, slice(0, k))), s, ops.getitem(vh, index=(Ellipsis, slice(0, k), slice(None)))
    )


def eig_invariant(w, v):
    """Return symmetric functions of the eigenvalues, V w^2 V^-1, and a sum of |V| weighted by w."""
    total = [ops.sum(w**k, dim=(len(w.shape) - 1,), keepdim=False) for k in (1, 2, 3)]
    row = ops.reshape(w, shape=(*w.shape[:-1], 1, w.shape[-1]))
    scaled = v * row * row
    rebuilt = adjoint(ops.solve(adjoint(v), adjoint(scaled)))
    size = ops.sum(v * ops.conj(v) * row, dim=(len(v.shape) - 1,), keepdim=False)
    return (*total, rebuilt, size)


# ----- references -----


def upper_or_lower(a, upper, unitriangular):
    a = np.triu(a) if upper else np.tril(a)
    if unitriangular:
        i = np.arange(a.shape[-1])
        a = a.copy()
        a[..., i, i] = 1
    return a


def solve_triangular_reference(a, b, upper=False, unitriangular=False):
    return np.linalg.solve(upper_or_lower(a, upper, unitriangular), b)


def triangular(a, b, **settings):
    return Sample((a, b), settings, solve_triangular_reference)


def lu_reference(x):
    """Factor by elimination, one step after the other."""
    x = np.array(x)
    flat = x.reshape((-1, *x.shape[-2:]))
    rank = min(x.shape[-2:])
    pivots = np.zeros((flat.shape[0], rank), np.int32)
    for one, order in zip(flat, pivots, strict=True):
        for j in range(rank):
            size = np.abs(one[j:, j].real) + np.abs(one[j:, j].imag)
            p = j + int(size.argmax())
            order[j] = p + 1
            one[[j, p]] = one[[p, j]]
            one[j + 1 :, j] /= one[j, j]
            one[j + 1 :, j + 1 :] -= np.outer(one[j + 1 :, j], one[j, j + 1 :])
    return flat.reshape(x.shape), pivots.reshape((*x.shape[:-2], rank))


def exchange_reference(x, pivots, back=False):
    out = np.array(np.broadcast_to(x, np.broadcast_shapes(x.shape[:-2], pivots.shape[:-1]) + x.shape[-2:]))
    pivots = np.broadcast_to(pivots, (*out.shape[:-2], pivots.shape[-1]))
    for index in np.ndindex(out.shape[:-2]):
        steps = list(enumerate(pivots[index] - 1))
        for i, p in reversed(steps) if back else steps:
            out[index][[i, p]] = out[index][[p, i]]
    return out


def cofactor_reference(x):
    """Return determinants of minors."""
    n = x.shape[-1]
    out = np.empty_like(x)
    for i in range(n):
        for j in range(n):
            minor = np.delete(np.delete(x, i, -2), j, -1)
            out[..., i, j] = (-1) ** (i + j) * np.linalg.det(minor)
    return out


def cofactor_push_reference(x, along, step=1e-5):
    """Return central differences, exact for matrices of order 3, whose cofactors are of second degree, and good for
    others.
    """
    return (cofactor_reference(x + step * along) - cofactor_reference(x - step * along)) / (2 * step)


def expm_reference(x):
    """Return a long Taylor series of a small multiple of x, squared repeatedly."""
    halvings = max(0, int(np.ceil(np.log2(np.abs(x).sum(-1).max() + 1e-300))) + 3)
    small = x / 2.0**halvings
    out = np.broadcast_to(np.eye(x.shape[-1], dtype=x.dtype), x.shape).copy()
    term = out
    for k in range(1, 30):
        term = term @ small / k
        out = out + term
    for _ in range(halvings):
        out = out @ out
    return out


def pinv_reference(x, atol, rtol, hermitian=False):
    return np.linalg.pinv(x, rtol=np.maximum(rtol, 0))


def gaps_reference(x, squared=False):
    y = x * x if squared else x
    return y[..., None, :] - y[..., :, None] + np.eye(x.shape[-1])


def hermitian_samples(reference, invariant=None, **settings):
    def check(x, **given):
        return reference(hermitian(x), **given)

    arrays = (separated(3, 3), separated(4, 4, make=complex_), separated(2, 3, 3), separated(1, 1), separated(2, 2, 3, 3, make=complex_))
    return [Sample((x,), settings, check, prepare=hermitian, invariant=invariant) for x in arrays]


SAMPLES = {
    # ----- shared -----
    "scale_diagonal": [
        Sample((x,), {"factor": f}, lambda x, factor: np.where(np.eye(*x.shape[-2:], dtype=bool), x * factor, x))
        for x in (real(3, 3), complex_(2, 3, 4))
        for f in (0.0, 0.5)
    ],
    "trace": [
        Sample((x,), reference=lambda x: np.trace(x, axis1=-2, axis2=-1))
        for x in (real(3, 3), real(3, 5), complex_(4, 2), real(0, 0))
    ],
    "spectral_gaps": [
        Sample((x,), {"squared": s}, gaps_reference)
        for x in (np.array([1.0, 2.5, 4.0]), real(2, 3), complex_(3))
        for s in (False, True)
    ],
    "resolved_quotient": [
        Sample((real(3, 4), real(3, 4) + 4), {"problem": "zero"}, lambda x, y, problem: x / y),
        Sample((complex_(3, 4), real(4) + 4), {"problem": "zero", "floor": True}, lambda x, y, problem, floor: x / y),
    ],
    "refuse_phase": [Sample((complex_(3), np.float64(1e9)), {"problem": "phase"}, lambda x, y, problem: np.abs(x.imag))],
    # ----- solves -----
    "inv": [
        Sample((x,), reference=np.linalg.inv)
        for x in (well_conditioned(3, 3), well_conditioned(4, 4, make=complex_), well_conditioned(2, 3, 3), real(0, 0))
    ],
    "solve": [
        Sample(p, reference=np.linalg.solve)
        for p in (
            (well_conditioned(3, 3), real(3, 2)),
            (well_conditioned(3, 3, make=complex_), complex_(3, 1)),
            (well_conditioned(2, 3, 3), real(3, 2)),
            (well_conditioned(3, 3), real(2, 3, 2)),
            (well_conditioned(2, 1, 3, 3), complex_(4, 3, 2)),
        )
    ],
    "solve_triangular": [
        triangular(well_conditioned(3, 3), real(3, 2)),
        triangular(well_conditioned(3, 3), real(3, 2), upper=True),
        triangular(well_conditioned(3, 3), real(3, 2), upper=True, unitriangular=True),
        triangular(well_conditioned(4, 4, make=complex_), complex_(4, 2), unitriangular=True),
        triangular(well_conditioned(2, 3, 3), real(3, 2)),
        triangular(well_conditioned(3, 3), real(2, 3, 2), upper=True),
    ],
    "exchange_rows": [
        Sample((real(4, 2), np.array([3, 3, 4, 4], np.int32)), {"back": b}, exchange_reference) for b in (False, True)
    ]
    + [Sample((real(3, 4, 2), np.array([[3, 3, 3, 4], [2, 2, 4, 4], [1, 2, 3, 4]], np.int32)), reference=exchange_reference)]
    + [Sample((complex_(4, 2), np.array([[3, 3], [2, 2]], np.int32)), reference=exchange_reference)],
    "lu_factor": [
        Sample((x,), reference=lu_reference)
        for x in (real(3, 3), complex_(4, 4), real(2, 3, 3), real(3, 5), complex_(5, 3), real(2, 4, 2))
    ],
    "ldl_factor": [
        Sample((x,), {"hermitian": h}, ldl_reference)
        for h, x in (
            (False, real(4, 4)), (False, real(2, 3, 3)), (False, hollow(5)), (False, complex_(4, 4)), (True, complex_(4, 4)), (True,
            real(3, 3)), (True, hollow(5, complex_)), (False, real(1, 1)),
        )
    ] if lapack else [],
    "ldl_blocks": [
        Sample((np.array([[1, -3, -3, 4], [-2, -2, -4, -4]], np.int32),), reference=lambda p: np.array([[0, 1, 2, 0], [1, 2, 1, 2]])),
    ],
    "ldl_rows": [
        # Rows 1 and 3 are exchanged first, then 2 and 3. The second exchange does not affect the first column.
        Sample((np.array([3, 3, 3], np.int32),), reference=lambda p: np.array([[0, 0, 0, 2], [2, 1, 1, 0], [1, 2, 2, 1]])),
        Sample((np.array([3, 3, 3], np.int32),), {"back": True}, lambda p, back: np.array([[0, 0, 0, 1], [2, 1, 1, 2], [1, 2, 2, 0]])),
        # A block of two, whose second row is exchanged with the last.
        Sample((np.array([[-3, -3, 3]], np.int32),), reference=lambda p: np.array([[[0, 0, 0, 0], [1, 1, 1, 2], [2, 2, 2, 1]]])),
    ],
    "cholesky": [
        Sample((x,), reference=lambda x: np.linalg.cholesky(positive(x)), prepare=positive)
        for x in (real(3, 3), complex_(4, 4), real(2, 3, 3), real(1, 1))
    ]
    + [
        Sample((positive(x),), reference=lambda x: np.linalg.cholesky(hermitian(x)), prepare=hermitian)
        for x in (real(3, 3), complex_(3, 3))
    ],
    "pinv": [
        Sample((x, 0.0, 1e-12), reference=pinv_reference)
        for x in (well_conditioned(3, 3), real(4, 2), real(2, 4), complex_(4, 2), complex_(2, 2, 4))
    ]
    + [
        Sample(
            (separated(3, 3), 0.0, 1e-12),
            {"hermitian": True},
            lambda x, *a, hermitian: np.linalg.inv((x + x.T) / 2),
            prepare=lambda x, *a: (hermitian(x), *a),
        )
    ],
    # ----- decompositions -----
    "qr": [
        Sample((x,), {"mode": mode}, lambda x, mode: tuple(np.linalg.qr(x, mode)))
        for mode, x in (
            ("reduced", real(3, 3)),
            ("reduced", real(5, 3)),
            ("reduced", real(3, 5)),
            ("reduced", complex_(4, 3)),
            ("reduced", complex_(3, 4)),
            ("reduced", real(2, 4, 3)),
            ("complete", complex_(3, 3)),
            ("complete", real(2, 3, 4)),
        )
    ],
    "svd": [
        Sample(
            (x,),
            {"full_matrices": False},
            lambda x, full_matrices: tuple(np.linalg.svd(x, full_matrices)),
            invariant=svd_invariant,
        )
        for x in (separated(3, 3), real(5, 3), real(3, 5), complex_(4, 3), complex_(3, 4), complex_(3, 3), real(2, 4, 3))
    ]
    + [
        Sample(
            (x,),
            {"full_matrices": True},
            lambda x, full_matrices: tuple(np.linalg.svd(x, full_matrices)),
            invariant=full_svd_invariant,
        )
        for x in (complex_(3, 3),)
    ],
    "svdvals": [
        Sample((x,), reference=lambda x: np.linalg.svd(x, compute_uv=False))
        for x in (separated(3, 3), real(5, 3), complex_(3, 4), real(2, 4, 3))
    ],
    "eigh": hermitian_samples(lambda x, UPLO: tuple(np.linalg.eigh(x)), eigh_invariant, UPLO="L")
    + hermitian_samples(lambda x, UPLO: tuple(np.linalg.eigh(x)), eigh_invariant, UPLO="U")[:2],
    "eigvalsh": hermitian_samples(lambda x, UPLO: np.linalg.eigvalsh(x), UPLO="L")
    + hermitian_samples(lambda x, UPLO: np.linalg.eigvalsh(x), UPLO="U")[:2],
    "eig": [
        Sample(
            (x,),
            reference=lambda x: tuple(a.astype(complex) for a in np.linalg.eig(x)),
            invariant=eig_invariant,
            tolerance=1e-5,
        )
        for x in (separated(3, 3), real(4, 4), separated(3, 3, make=complex_), separated(2, 3, 3), real(1, 1))
    ],
    # ----- determinants -----
    "det": [
        Sample((x,), reference=np.linalg.det)
        for x in (
            real(3, 3),
            complex_(4, 4),
            real(2, 3, 3),
            singular(3, 2),
            singular(3, 1),
            np.diag([1.0, 2.0, 0.0]),
            np.zeros((2, 2)),
            real(1, 1),
            real(0, 0),
        )
    ],
    "cofactor": [
        Sample((x,), reference=cofactor_reference, smooth=s)
        for x, s in (
            (real(3, 3), True),
            (complex_(3, 3), True),
            (real(2, 4, 4), True),
            (np.diag([1.0, 2.0, 0.0]), False),
            (np.diag([1.0, 0.0, 0.0]), False),
            (np.array([[1.0, 2.0j], [2.0, 4.0j]]), False),
            (real(1, 1), True),
        )
    ],
    "cofactor_push": [
        Sample((x, along), reference=cofactor_push_reference)
        for x, along in ((real(3, 3), real(3, 3)), (complex_(3, 3), complex_(3, 3)), (real(2, 3, 3), real(2, 3, 3)))
    ],
    "slogdet": [
        Sample((x,), reference=lambda x: tuple(np.linalg.slogdet(x)))
        for x in (well_conditioned(3, 3), -well_conditioned(3, 3), complex_(4, 4), real(2, 3, 3), real(1, 1))
    ],
    # ----- functions -----
    "matrix_exp": [
        Sample((x,), reference=expm_reference)
        for x in (
            real(3, 3),
            0.1 * real(3, 3),
            1e-4 * real(2, 2),
            complex_(4, 4),
            4 * real(2, 3, 3),
            np.zeros((2, 2)),
            np.triu(real(3, 3), 1),
        )
    ],
}
