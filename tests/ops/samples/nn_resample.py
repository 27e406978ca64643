"""Samples of resampling. The reference is the product with the matrix of all weights."""

from __future__ import annotations

import numpy as np

from ndgrad._src.arrays.pooling import adaptive_taps
from ndgrad._src.arrays.taps import Taps
from ndgrad._src.ops.resample import border_taps, cubic_taps, linear_taps, nearest_taps
from ndgrad.testing.op_checks import Sample

r = np.random.default_rng(13)
X = r.standard_normal((2, 3, 5))
Z = X + 1j * r.standard_normal(X.shape)


def matrix(taps):
    out = np.zeros((taps.outputs, taps.inputs))
    for tap in range(len(taps.index)):
        for o in range(taps.outputs):
            if taps.index[tap, o] >= 0:
                weight = 1.0 if taps.weight is None else taps.weight[tap, o]
                out[o, taps.index[tap, o]] += weight / (1.0 if taps.divisor is None else taps.divisor[o])
    return out


def product(x, dim, taps):
    for d, t in zip(dim, taps):
        x = np.moveaxis(np.tensordot(matrix(t).astype(x.dtype), x, (1, d)), 0, d)
    return x


MAPS = [
    nearest_taps(5, 8, 5 / 8, False),
    nearest_taps(5, 3, 5 / 3, True),
    linear_taps(5, 7, 5 / 7, False),
    linear_taps(5, 9, 5 / 9, True),
    cubic_taps(5, 8, 5 / 8, False),
    *adaptive_taps((1, 1, 5), (3,)),
    border_taps(5, 2, 3, "reflect"),
    border_taps(5, 1, 4, "replicate"),
    border_taps(5, 4, -1, "circular"),
    nearest_taps(5, 2, 2.5, False).transpose,  # leaves most inputs of the original unread
    adaptive_taps((1, 1, 2), (5,))[0].transpose,
]

SAMPLES = {
    "resample": [
        *(Sample((X,), {"dim": (2,), "taps": (taps,)}, reference=product) for taps in MAPS[:9]),
        Sample((X[:, :2],), {"dim": (1,), "taps": (MAPS[9],)}, reference=product),
        Sample((X,), {"dim": (2,), "taps": (MAPS[10],)}, reference=product),
        Sample((Z,), {"dim": (2,), "taps": (MAPS[2],)}, reference=product),
        Sample((X[:, :0],), {"dim": (2,), "taps": (MAPS[2],)}, reference=product),
        Sample((X[0, 0],), {"dim": (0,), "taps": (Taps([[0, 4]], None, 5),)}, reference=product),
        # Several dimensions: the last ones, inner ones, and dimensions with a gap between them.
        Sample((X,), {"dim": (1, 2), "taps": (linear_taps(3, 4, 3 / 4, False), MAPS[5])}, reference=product),
        Sample((X,), {"dim": (0, 1), "taps": (border_taps(2, 1, 0, "reflect"), *adaptive_taps((1, 1, 3), (2,)))}, reference=product),
        Sample((X,), {"dim": (0, 2), "taps": (linear_taps(2, 3, 2 / 3, True), MAPS[6])}, reference=product),
        Sample(
            (np.arange(10, dtype=np.float32).reshape(2, 5),),
            {"dim": (1,), "taps": (Taps([[0, 1], [2, -1]], [[0.5, 0.25], [1.0, 2.0]], 5),)},
            reference=product, smooth=False, skip=dict.fromkeys(("jvp", "vjp", "vmap"), "of dtype and values only"),
        ),
    ],
}  # fmt: skip
