"""Samples of recursive filters, compared with powers of the filter's matrix."""

from __future__ import annotations

import numpy as np

from ndgrad.testing.op_checks import Sample

r = np.random.default_rng(4)


def matrix_reference(x, a):
    """Return (1 + a[0] S + a[1] S^2 + ...)^-1 x with the shift S."""
    n = x.shape[-1]
    lead = np.broadcast_shapes(x.shape[:-1], a.shape[:-1])
    matrix = np.broadcast_to(np.eye(n), (*lead, n, n)).astype(np.result_type(x, a))
    for k in range(a.shape[-1]):
        matrix = matrix + a[..., k, None, None] * np.eye(n, k=-k - 1)
    return np.linalg.solve(matrix, np.broadcast_to(x, (*lead, n))[..., None])[..., 0]


def real(*shape):
    return 0.5 * r.standard_normal(shape)


def complex_(*shape):
    return real(*shape) + 1j * real(*shape)


SAMPLES = {
    "recursive_filter": [
        Sample((make(*lead, 6), make(order)), reference=matrix_reference)
        for make in (real, complex_)
        for lead, order in (((), 2), ((2, 3), 1), ((2,), 8), ((3,), 0))
    ]
    + [Sample((real(2, 6), complex_(2, 2)), reference=matrix_reference), Sample((real(6), real(2, 2)), reference=matrix_reference)],
}
