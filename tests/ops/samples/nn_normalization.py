"""Samples of the normalisations. The references are the formulas, written out."""

from __future__ import annotations

import numpy as np

from ndgrad.testing.op_checks import Sample

r = np.random.default_rng(15)
X = r.standard_normal((4, 3, 5)) * 2 + 1
W, B = r.standard_normal(5), r.standard_normal(5)
C, D = r.standard_normal((3, 1)), r.standard_normal((3, 1))
P, Q = r.standard_normal((3, 5)), r.standard_normal((3, 5))


def standardised(x, dim, eps):
    return (x - x.mean(dim, keepdims=True)) / np.sqrt(x.var(dim, keepdims=True) + eps)


def affine(y, w, b):
    return y * (1 if w is None else w) + (0 if b is None else b)


def layer(x, w, b, dim, eps):
    return affine(standardised(x, dim, eps), w, b)


def batch(x, w, b, dim, eps):
    return affine(standardised(x, dim, eps), w, b), x.mean(dim, keepdims=True), x.var(dim, keepdims=True)


def rms(x, w, dim, eps):
    return x / np.sqrt((x**2).mean(dim, keepdims=True) + eps) * (1 if w is None else w)


def how(*dim, eps=1e-5):
    return {"dim": dim, "eps": eps}


# Single precision: mean 0 and variance 1 are exact, so that the rounding of the reference does not matter.
SIGNS = np.array([[1, -1, 1, -1], [-1, 1, 1, -1]], np.float32)
SINGLE = {"smooth": False, "skip": dict.fromkeys(("jvp", "vjp", "vmap"), "of dtype and values only")}

V = r.uniform(0.5, 2.0, (3, 1))


SAMPLES = {
    "blend": [
        Sample((P, Q, old, new, factor), reference=lambda x, y, old, new, factor: old * x + new * factor * y)
        for old, new, factor in ((np.array(0.9), np.array(0.1), np.array(1.5)), (Q, P, P + Q))
    ],
    "native_layer_norm": [
        Sample((X, W, B), how(2), reference=layer),
        Sample((X, None, None), how(2, eps=0.1), reference=layer),
        Sample((X, P, Q), how(1, 2), reference=layer),
        Sample((X, W, None), how(2), reference=layer),
        Sample((X, None, B), how(2), reference=layer),
        Sample((X, C, D), how(2), reference=layer),
        Sample((X, C, D), how(0, 2), reference=layer),
        Sample((X, W, B), how(0, 1), reference=layer),
        Sample((X[0, 0], W, B), how(0), reference=layer),
        Sample((X[:0], W, B), how(2), reference=layer),
        Sample((X.transpose(2, 1, 0), None, None), how(0, 1), reference=layer),
        Sample((SIGNS, None, SIGNS[0]), how(1, eps=0.0), reference=layer, **SINGLE),
    ],
    "native_batch_norm": [
        Sample((X, C, D), how(0, 2), reference=batch),
        Sample((X, None, None), how(0, 2), reference=batch),
        Sample((X[:, :, 0], W[:3], B[:3]), how(0), reference=batch),
        Sample((X, C, None), how(2), reference=batch),
        Sample((SIGNS, None, SIGNS[0]), how(1, eps=0.0), reference=batch, **SINGLE),
    ],
    "fixed_norm": [
        Sample((x, m, v, w, b), {"eps": eps}, reference=lambda x, m, v, w, b, eps: (x - m) / np.sqrt(v + eps) * w + b)
        for x, m, v, w, b, eps in (
            (X, C, D**2, C - D, D, 1e-5),
            (X, W, B**2, W + B, B, 0.1),
            (X, C, D**2, np.array(1.0), np.array(0.0), 1e-5),
            (X, P, Q**2 + 0.1, W, D, 1e-5),
            (X[:0], C, D**2, C, D, 1e-5),
        )
    ],
    "rms_norm": [
        Sample((X, W), how(2), reference=rms),
        Sample((X, None), how(1, 2), reference=rms),
        Sample((X, P), how(1, 2, eps=0.1), reference=rms),
        Sample((X[:0], W), how(2), reference=rms),
        Sample((SIGNS, SIGNS[0]), how(1, eps=0.0), reference=rms, **SINGLE),
    ],
}
