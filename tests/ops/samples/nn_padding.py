"""Samples of padding with a constant."""

from __future__ import annotations

import numpy as np

from ndgrad.testing.op_checks import Sample

r = np.random.default_rng(18)
A = r.standard_normal((3, 4))
Z = A + 1j * r.standard_normal((3, 4))


def pad(x, pads, value):
    if not pads:
        return np.asarray(x)
    grown = np.pad(x, [(max(b, 0), max(a, 0)) for b, a in pads], constant_values=value)
    return grown[tuple(slice(max(-b, 0), n - max(-a, 0)) for n, (b, a) in zip(grown.shape, pads))]


SAMPLES = {
    "constant_pad_nd": [
        Sample((x,), {"pads": pads, "value": value}, reference=pad)
        for x, pads, value in [
            (A, ((1, 2), (0, 3)), 0.0),
            (A, ((-1, 0), (2, -1)), 1.5),
            (Z, ((0, 0), (-2, 1)), 2.0),
            (A, ((-1, -1), (0, 0)), 0.0),
            (A[0, 0], (), 1.0),
            (A[:0], ((1, 1), (0, 0)), 3.0),
            (np.arange(4), ((2, 1),), 7),
        ]
    ]
    + [
        Sample(
            (np.ones(3, np.float32),),
            {"pads": ((2, 1),), "value": 0.5},
            reference=pad,
            smooth=False,
            skip=dict.fromkeys(("jvp", "vjp", "vmap"), "of dtype and values only"),
        )
    ],
}
