"""Samples of vector norms of every order."""

from __future__ import annotations

import math

import numpy as np

from ndgrad.testing.op_checks import Sample
from tests.ops.samples.reduce import CUBE, EMPTY, HALF, SINGLE, A, V, Z, narrow

ORDERS = (1.0, 2.0, 3.0, 2.5, 1.5, 0.5, -1.0, -2.0, math.inf, -math.inf)


def vector_norm(x, *, ord=2.0, dim=(), keepdim=False):
    size = np.abs(x)
    if ord == math.inf:
        return size.max(dim, keepdims=keepdim)
    if ord == -math.inf:
        return size.min(dim, keepdims=keepdim)
    return np.sum(size**ord, axis=dim, keepdims=keepdim) ** (1 / ord)


def renorm(x, *, p, dim, maxnorm):
    size = vector_norm(x, ord=p, dim=tuple(i for i in range(x.ndim) if i != dim), keepdim=True)
    return np.where(size > maxnorm, x * (maxnorm / (size + 1e-7)), x)


SAMPLES = {
    "vector_norm": [
        *(Sample((A,), {"ord": p, "dim": (1,)}, vector_norm) for p in ORDERS),
        *(Sample((Z,), {"ord": p, "dim": (0,), "keepdim": True}, vector_norm) for p in ORDERS),
        *(Sample((CUBE,), {"ord": p, "dim": (0, 2)}, vector_norm) for p in (2.0, 3.0)),
        *(Sample((a,), {"dim": tuple(range(np.ndim(a)))}, vector_norm) for a in (A, V, Z, np.float64(-1.5))),
        Sample((EMPTY,), {"dim": (1,)}, vector_norm),
        Sample((EMPTY,), {"dim": (0,)}, vector_norm, smooth=False),
        # Zeros: one element of a row (the derivative is that of the others), and a whole row (the derivative is 0).
        *(Sample((np.array([[0.0, 1.0, -2.0]]),), {"ord": p, "dim": (1,)}, vector_norm) for p in (2.0, 3.0, 4.0)),
        *(narrow(x, vector_norm, ord=p, dim=(1,)) for x in (SINGLE, HALF, Z.astype(np.complex64)) for p in (1.0, 2.0, 3.0, math.inf)),
    ],
    "renorm": [
        Sample((A,), {"p": 2.0, "dim": 0, "maxnorm": 1.0}, renorm),
        Sample((A,), {"p": 1.0, "dim": 1, "maxnorm": 2.0}, renorm),
        Sample((CUBE,), {"p": 3.0, "dim": 1, "maxnorm": 2.5}, renorm),
        Sample((Z,), {"p": 2.0, "dim": 0, "maxnorm": 1.0}, renorm),
        Sample((A,), {"p": 2.0, "dim": 0, "maxnorm": 100.0}, renorm),
    ],
}  # fmt: skip
