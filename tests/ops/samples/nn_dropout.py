"""Samples of dropout with a given mask."""

from __future__ import annotations

import numpy as np

from ndgrad.testing.op_checks import Sample

r = np.random.default_rng(19)
X = r.standard_normal((3, 4))
MASK = r.uniform(size=(3, 4)) < 0.5
SINGLE = {"smooth": False, "skip": dict.fromkeys(("jvp", "vjp", "vmap"), "of dtype and values only")}


def dropped(x, mask, scale):
    return np.where(mask, x * scale, np.zeros((), x.dtype))


SAMPLES = {
    "native_dropout": [
        Sample((X, MASK), {"scale": 2.0}, reference=dropped),
        Sample((X, MASK[:, :1]), {"scale": 1.25}, reference=dropped),
        Sample((X + 1j * X, MASK), {"scale": 2.0}, reference=dropped),
        Sample((X[:0], MASK[:0]), {"scale": 2.0}, reference=dropped),
        Sample((X.astype(np.float32), MASK), {"scale": 2.0}, reference=dropped, **SINGLE),
    ],
}
