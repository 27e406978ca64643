"""Samples of matrix equations, matrix roots and banded systems; where SciPy finds the values, they are put back into the equations."""

from __future__ import annotations

import numpy as np

from ndgrad.testing.check_op import Sample
from tests.ops.samples.linalg import adjoint, complex_, positive, real, well_conditioned

try:
    import scipy.linalg as scipy_linalg
except ImportError:
    scipy_linalg = None

ONE_BY_ONE = {"no loop": "LAPACK's Schur form takes one matrix at a time"}


def sylvester_reference(a, b, q):
    """From eigenvectors: (v^-1 x w)[i, j] = (v^-1 q w)[i, j] / (lambda_i + mu_j)."""
    lam, v = np.linalg.eig(a)
    mu, w = np.linalg.eig(b)
    inside = np.linalg.solve(v, q @ w) / (lam[..., :, None] + mu[..., None, :])
    x = v @ inside @ np.linalg.inv(w)
    return x if np.result_type(a, b, q).kind == "c" else x.real


def stein_reference(a, q):
    """The sum of a^k q a^-k."""
    x, term = np.zeros(np.broadcast_shapes(a.shape, q.shape), np.result_type(a, q)), q
    for _ in range(2000):
        x, term = x + term, a @ term @ adjoint(a)
    return x


def care(a, b, q, r):
    return a, b, positive(q), positive(r)


def riccati(name):
    def reference(a, b, q, r):
        solve = getattr(scipy_linalg, f"solve_{name}_are")
        if a.ndim == 2:
            return solve(*care(a, b, q, r))
        return np.stack([solve(*care(*one)) for one in zip(a, b, q, r, strict=True)])

    shapes = [((3, 3), (3, 2), (3, 3), (2, 2)), ((2, 2, 2), (2, 2, 1), (2, 2, 2), (2, 1, 1))]
    return [
        Sample(tuple(make(*s) for s in found), reference=reference, prepare=care, skip=ONE_BY_ONE, tolerance=1e-5)
        for found in shapes
        for make in (real, complex_)
    ]


def band(ab, b, lower=0, upper=0):
    n = ab.shape[-1]
    full = np.zeros((*ab.shape[:-2], n, n), ab.dtype)
    for j in range(n):
        for i in range(max(0, j - upper), min(n, j + lower + 1)):
            full[..., i, j] = ab[..., upper + i - j, j]
    return np.linalg.solve(full, b)


def dominant(l, u, *shape, make=real):
    ab = make(*shape[:-1], l + u + 1, shape[-1])
    ab[..., u, :] += 5
    return ab


def polar_reference(x):
    u, _, vh = np.linalg.svd(x, full_matrices=False)
    return u @ vh


SAMPLES = {
    "sylvester": [
        Sample((well_conditioned(3, 3), well_conditioned(2, 2), real(3, 2)), reference=sylvester_reference),
        Sample((well_conditioned(3, 3, make=complex_), well_conditioned(2, 2), real(3, 2)), reference=sylvester_reference),
        Sample((well_conditioned(2, 3, 3), well_conditioned(2, 2, 2), complex_(2, 3, 2)), reference=sylvester_reference),
    ],
    "stein": [
        Sample((real(3, 3) * 0.3, real(3, 3)), reference=stein_reference),
        Sample((complex_(2, 2, 2) * 0.3, real(2, 2, 2)), reference=stein_reference),
    ],
    "continuous_riccati": riccati("continuous") if scipy_linalg else [],
    "discrete_riccati": riccati("discrete") if scipy_linalg else [],
    "matrix_sqrt": [
        Sample((x,), reference=scipy_linalg.sqrtm, skip=ONE_BY_ONE)
        for x in (well_conditioned(3, 3), well_conditioned(2, 2, make=complex_), np.diag([1.0, 1.0, 4.0]))
    ] if scipy_linalg else [],
    "matrix_log": [
        Sample((x,), reference=scipy_linalg.logm, skip=ONE_BY_ONE)
        for x in (well_conditioned(3, 3), well_conditioned(2, 2, make=complex_), np.diag([1.0, 1.0, 4.0]))
    ] if scipy_linalg else [],
    "polar_unitary": [
        Sample((x,), reference=polar_reference)
        for x in (real(3, 3), real(4, 2), real(2, 3), complex_(3, 3), complex_(2, 4, 2), complex_(2, 3), 2 * np.eye(3))
    ],
    "solve_banded": [
        Sample((dominant(l, u, *lead, 5, make=make), make(*lead, 5, 2)), {"lower": l, "upper": u}, band)
        for l, u, lead in ((1, 2, ()), (0, 1, ()), (2, 0, (2,)), (0, 0, ()))
        for make in (real, complex_)
    ] if scipy_linalg else [],
}  # fmt: skip
