"""Samples of matrix equations, matrix roots and banded systems. Values from SciPy are inserted into the equations."""

from __future__ import annotations

import numpy as np

from ndgrad.testing.op_checks import Sample
from tests.ops.samples.linalg import adjoint, complex_, positive, real, well_conditioned

try:
    import scipy.linalg as scipy_linalg
except ImportError:
    scipy_linalg = None

ONE_BY_ONE = {"no loop": "LAPACK's Schur form takes one matrix at a time"}


def sylvester_reference(a, b, q):
    """Solve with eigenvectors: (v^-1 x w)[i, j] = (v^-1 q w)[i, j] / (lambda_i + mu_j)."""
    lam, v = np.linalg.eig(a)
    mu, w = np.linalg.eig(b)
    inside = np.linalg.solve(v, q @ w) / (lam[..., :, None] + mu[..., None, :])
    x = v @ inside @ np.linalg.inv(w)
    return x if np.result_type(a, b, q).kind == "c" else x.real


def stein_reference(a, q):
    """Return the sum of a^k q a^-k."""
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


def positive_bands(w, *shape, make=real):
    """Return the lower bands of a positive definite matrix, or of a factor, which needs only a nonzero diagonal."""
    ab = make(*shape[:-1], w + 1, shape[-1])
    ab[..., 0, :] += 6
    return ab


def lower_triangle_of(ab):
    count, n = ab.shape[-2:]
    full = np.zeros((*ab.shape[:-2], n, n), ab.dtype)
    for j in range(n):
        for i in range(j, min(n, j + count)):
            full[..., i, j] = ab[..., 0, j].real if i == j else ab[..., i - j, j]
    return full


def hermitian_of(ab):
    lower = lower_triangle_of(ab)
    return lower + np.tril(lower, -1).swapaxes(-1, -2).conj()


def lower_bands(full, count):
    n = full.shape[-1]
    ab = np.zeros((*full.shape[:-2], count, n), full.dtype)
    for j in range(n):
        for i in range(j, min(n, j + count)):
            ab[..., i - j, j] = full[..., i, j]
    return ab


def banded_factor(ab):
    return lower_bands(np.linalg.cholesky(hermitian_of(ab)), ab.shape[-2])


def half_lower(full):
    return np.tril(full) - 0.5 * full * np.eye(full.shape[-1])


def changed_factor(factor, q):
    """Differentiate a dense factor. The result has no more bands than the factor only if q has few bands too, as
    here.
    """
    lower = lower_triangle_of(factor)
    inverse = np.linalg.inv(lower)
    return lower_bands(lower @ half_lower(inverse @ hermitian_of(q) @ adjoint(inverse)), factor.shape[-2])


def pulled_factor(factor, g):
    """Apply the reverse rule of a dense factor, summed onto one triangle."""
    lower = lower_triangle_of(factor)
    inverse = np.linalg.inv(lower)
    full = adjoint(inverse) @ half_lower(adjoint(lower) @ lower_triangle_of(g)) @ inverse
    full = full + adjoint(full)
    return lower_bands(full - 0.5 * full * np.eye(full.shape[-1]), factor.shape[-2])


#: Bands below the diagonal, order, leading dimensions. The last case has too many bands for the system of all entries.
CHANGES = ((1, 4, ()), (2, 5, (2,)), (0, 3, ()), (4, 6, ()))


def toeplitz_matrix(line, columns):
    rows = line.shape[-1] - columns + 1
    return line[..., np.arange(rows)[:, None] - np.arange(columns) + columns - 1]


def toeplitz_solved(line, b):
    return np.linalg.solve(toeplitz_matrix(line, b.shape[-2]), b)


def diagonal_sums(w, y):
    outer = w @ y.swapaxes(-1, -2)
    m, n = outer.shape[-2:]
    return np.stack([np.trace(outer, -d, axis1=-2, axis2=-1) for d in range(1 - n, m)], axis=-1)


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
    "solve_toeplitz": [
        Sample((make(*lead, 2 * n - 1) + 6 * np.eye(2 * n - 1)[n - 1], make(*lead, n, 2)), reference=toeplitz_solved)
        for n, lead in ((4, ()), (1, ()), (3, (2,)))
        for make in (real, complex_)
    ] if scipy_linalg else [],
    "cholesky_banded": [
        Sample((positive_bands(w, *lead, n, make=make),), reference=banded_factor)
        for w, n, lead in ((1, 4, ()), (2, 5, (2,)), (0, 3, ()), (3, 4, ()))
        for make in (real, complex_)
    ] if scipy_linalg else [],
    "cholesky_change": [
        Sample((positive_bands(w, *lead, n, make=make), make(*lead, w + 1, n)), reference=changed_factor)
        for w, n, lead in CHANGES
        for make in (real, complex_)
    ] if scipy_linalg else [],
    "cholesky_pull": [
        Sample((positive_bands(w, *lead, n, make=make), make(*lead, w + 1, n)), reference=pulled_factor)
        for w, n, lead in CHANGES
        for make in (real, complex_)
    ] if scipy_linalg else [],
    "toeplitz_times": [
        Sample((make(*lead, m + n - 1), make(*lead, n, k)), reference=lambda line, x: toeplitz_matrix(line, x.shape[-2]) @ x)
        for m, n, k, lead in ((4, 4, 2, ()), (2, 5, 1, ()), (5, 2, 3, (2,)), (1, 1, 1, ()), (3, 0, 2, ()))
        for make in (real, complex_)
    ] + [Sample((real(119), real(70, 1)), reference=lambda line, x: toeplitz_matrix(line, 70) @ x, skip={"vmap of jvp": "slow"})],
    "toeplitz_sums": [
        Sample((make(*lead, m, k), make(*lead, n, k)), reference=diagonal_sums)
        for m, n, k, lead in ((4, 4, 2, ()), (2, 5, 1, ()), (5, 2, 3, (2,)), (1, 1, 1, ()))
        for make in (real, complex_)
    ] + [Sample((real(70, 1), real(60, 1)), reference=diagonal_sums, skip={"vmap of jvp": "slow"})],
}  # fmt: skip
