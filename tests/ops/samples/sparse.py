"""Samples of products and solves with sparse matrices, compared with full matrices."""

from __future__ import annotations

import numpy as np

from ndgrad._src.arrays.sparse_pattern import Pattern
from ndgrad.testing.op_checks import Sample
from tests.ops.samples.linalg import complex_, real

try:
    import scipy.sparse as scipy_sparse
except ImportError:
    scipy_sparse = None

WIDE = Pattern([0, 2, 1, 0, 2], [1, 3, 0, 1, 2], (3, 4))  # one position twice
SQUARE = Pattern([0, 0, 1, 2, 3, 3, 2], [0, 2, 1, 2, 3, 1, 0], (4, 4))
STRONG = np.array([4.0, 0, 4.0, 4.0, 4.0, 0, 0])


def full(data, pattern):
    made = np.zeros((*data.shape[:-1], *pattern.shape), data.dtype)
    for e, (i, j) in enumerate(zip(pattern.rows, pattern.columns, strict=True)):
        made[..., i, j] += data[..., e]
    return made


def product(data, x, pattern):
    return full(data, pattern) @ x


def sample(x, y, pattern):
    return (x @ y.swapaxes(-1, -2))[..., pattern.rows, pattern.columns]


def solve(data, b, pattern, adjoint=False):
    a = full(data, pattern)
    return np.linalg.solve(a.swapaxes(-1, -2).conj() if adjoint else a, b)


SAMPLES = {
    "sparse_product": [
        Sample((make(*lead, 5), make(*other, 4, 2)), {"pattern": WIDE}, product)
        for make in (real, complex_)
        for lead, other in (((), ()), ((), (3,)), ((3,), ()), ((3,), (3,)))
    ],
    "sparse_sample": [
        Sample((make(*lead, 3, 2), make(*other, 4, 2)), {"pattern": WIDE}, sample)
        for make in (real, complex_)
        for lead, other in (((), ()), ((2,), ()), ((2,), (2,)))
    ],
    "sparse_solve": [
        Sample((make(*lead, 7) + STRONG, make(*other, 4, 2)), {"pattern": SQUARE, "adjoint": adjoint}, solve)
        for make in (real, complex_)
        for adjoint in (False, True)
        for lead, other in (((), ()), ((), (3,)), ((3,), (3,)))
    ] + [Sample((real(7) + STRONG, complex_(4, 2)), {"pattern": SQUARE}, solve)] if scipy_sparse else [],
}  # fmt: skip
