"""Samples of the affine map."""

from __future__ import annotations

import numpy as np

from ndgrad.testing.op_checks import Sample

r = np.random.default_rng(11)
X, W, B = r.standard_normal((4, 3)), r.standard_normal((5, 3)), r.standard_normal(5)
Z = r.standard_normal((4, 3)) + 1j * X
V = W + 1j * r.standard_normal((5, 3))


SINGLE = {"smooth": False, "skip": dict.fromkeys(("jvp", "vjp", "vmap"), "of dtype and values only")}


def affine(x, w, b):
    out = np.einsum("...i,oi->...o", x, w)
    return out if b is None else out + b


SAMPLES = {
    "linear": [
        Sample((X, W, B), reference=affine),
        Sample((X, W, None), reference=affine),
        Sample((X[0], W, B), reference=affine),
        Sample((r.standard_normal((2, 4, 3)), W, B), reference=affine),
        Sample((r.standard_normal((2, 1, 4, 3)), W, None), reference=affine),
        Sample((X[:0], W, B), reference=affine),
        Sample((X[:, :0], W[:, :0], B), reference=affine),
        Sample((Z, V, B + 1j * B), reference=affine),
        Sample((X, V, B), reference=affine),
        # Integers, so that single precision is exact.
        Sample(tuple((4 * a).round().astype(np.float32) for a in (X, W, B)), reference=affine, **SINGLE),
    ],
}
