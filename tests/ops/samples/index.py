"""Samples of indexing ops."""

from __future__ import annotations

import numpy as np

from ndgrad.testing.op_checks import Sample

r = np.random.default_rng(2)
A = r.standard_normal((3, 4, 5))
Z = A + 1j * r.standard_normal((3, 4, 5))
I, J = np.array([0, 2, 2, 1]), np.array([[1], [3]])


def embed(x, shape, index):
    out = np.zeros(shape, x.dtype)
    out[index] = x
    return out


def add_at(x, *indices, shape):
    out = np.zeros(shape, x.dtype)
    np.add.at(out, indices, x)
    return out


def take(x, *indices):
    return x[indices]


INDICES = [(1,), (slice(None, None, 2), 2), (Ellipsis, -1), (None, slice(1, 3), None, slice(None, None, -1)), (1, 2, 3), ()]

SAMPLES = {
    "getitem": [Sample((x,), {"index": i}, reference=lambda x, index: np.asarray(x[index])) for i in INDICES for x in (A, Z)]
    + [Sample((A[:0],), {"index": (slice(None), 1)}, reference=lambda x, index: x[index])],
    "element": [
        Sample((x,), {"index": (1, 2, -1)[: x.ndim]}, reference=lambda x, index: np.asarray(x[index])) for x in (A, Z, A[0], Z[0, 0])
    ]
    + [Sample((np.asarray(2.0),), {"index": ()}, reference=lambda x, index: x)],
    "embed": [Sample((np.asarray(A[i]),), {"shape": A.shape, "index": i}, reference=embed) for i in INDICES],
    "index": [
        Sample((A, I), reference=take),
        Sample((A, I, J), reference=take),
        Sample((Z, I), reference=take),
        Sample((A, np.array([], dtype=int)), reference=take),
    ],
    "index_add_zeros": [
        Sample((A[I], I), {"shape": A.shape}, reference=add_at),
        Sample((A[I, J], I, J), {"shape": A.shape}, reference=add_at),
    ],
}
