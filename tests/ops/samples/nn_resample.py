"""Samples of resampling. The reference is the product with the matrix of all weights."""

from __future__ import annotations

import numpy as np

from ndgrad._src.ops.resample import Taps, average_taps, border_taps, cubic_taps, linear_taps, nearest_taps
from ndgrad.testing.op_checks import Sample

r = np.random.default_rng(13)
X = r.standard_normal((2, 3, 5))
Z = X + 1j * r.standard_normal(X.shape)


def matrix(taps):
    out = np.zeros((taps.outputs, taps.inputs))
    for tap in range(len(taps.index)):
        for o in range(taps.outputs):
            if taps.empty is None or o not in taps.empty:
                out[o, taps.index[tap, o]] += 1.0 if taps.weight is None else taps.weight[tap, o]
    return out


def product(x, dim, taps):
    return np.moveaxis(np.tensordot(matrix(taps).astype(x.dtype), x, (1, dim)), 0, dim)


MAPS = [
    nearest_taps(5, 8, 5 / 8, False),
    nearest_taps(5, 3, 5 / 3, True),
    linear_taps(5, 7, 5 / 7, False),
    linear_taps(5, 9, 5 / 9, True),
    cubic_taps(5, 8, 5 / 8, False),
    average_taps(5, 3),
    border_taps(5, 2, 3, "reflect"),
    border_taps(5, 1, 4, "replicate"),
    border_taps(5, 4, -1, "circular"),
    nearest_taps(5, 2, 2.5, False).transpose,  # leaves most inputs of the original unread
    average_taps(2, 5).transpose,
]

SAMPLES = {
    "resample": [
        *(Sample((X,), {"dim": 2, "taps": taps}, reference=product) for taps in MAPS[:9]),
        Sample((X[:, :2],), {"dim": 1, "taps": MAPS[9]}, reference=product),
        Sample((X,), {"dim": 2, "taps": MAPS[10]}, reference=product),
        Sample((Z,), {"dim": 2, "taps": MAPS[2]}, reference=product),
        Sample((X[:, :0],), {"dim": 2, "taps": MAPS[2]}, reference=product),
        Sample((X[0, 0],), {"dim": 0, "taps": Taps([[0, 4]], None, 5)}, reference=product),
        Sample(
            (np.arange(10, dtype=np.float32).reshape(2, 5),), {"dim": 1, "taps": Taps([[0, 1], [2, 4]], [[0.5, 0.25], [1.0, 2.0]], 5)},
            reference=product, smooth=False, skip=dict.fromkeys(("jvp", "vjp", "vmap"), "of dtype and values only"),
        ),
    ],
}  # fmt: skip
