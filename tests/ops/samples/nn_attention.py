"""Samples of attention, against the formula."""

from __future__ import annotations

import numpy as np

from ndgrad.testing.op_checks import Sample

r = np.random.default_rng(17)
Q, K, V = r.standard_normal((2, 4, 3)), r.standard_normal((2, 5, 3)), r.standard_normal((2, 5, 2))
FLOAT, BOOL = r.standard_normal((4, 5)), r.uniform(size=(2, 4, 5)) < 0.6
NOTHING = np.array([[True] * 5, [False] * 5, [True, False, True, False, True], [False] * 5])
HIDDEN = np.where(NOTHING, FLOAT, -np.inf)


def weights(q, k, mask, is_causal, scale):
    z = scale * q @ np.swapaxes(k, -1, -2)
    if mask is not None:
        z = np.where(mask, z, -np.inf) if mask.dtype == bool else z + mask
    if is_causal:
        z = np.where(np.tri(*z.shape[-2:], dtype=bool), z, -np.inf)
    e = np.exp(z)
    total = e.sum(-1, keepdims=True)
    return np.where(total > 0, e / np.where(total > 0, total, 1), 0)


def attention(q, k, v, mask, is_causal, scale):
    return weights(q, k, mask, is_causal, scale) @ v


def with_logs(q, k, v, is_causal, scale):
    z = scale * q @ np.swapaxes(k, -1, -2)
    e = np.where(np.tri(*z.shape[-2:], dtype=bool), np.exp(z), 0) if is_causal else np.exp(z)
    with np.errstate(divide="ignore"):
        logs = np.log2(e.sum(-1))
    out = attention(q, k, v, None, is_causal, scale)
    return out, np.broadcast_to(logs, out.shape[:-1])


def how(is_causal=False, scale=0.5):
    return {"is_causal": is_causal, "scale": scale}


SINGLE = {"smooth": False, "skip": dict.fromkeys(("jvp", "vjp", "vmap"), "of dtype and values only")}
EVEN = np.zeros((2, 4), np.float32)  # equal scores give weights of exactly 1/2
# -inf in a differentiated mask makes finite differences NaN, so such masks are boolean here.
ARGS = [
    (Q, K, V, None, how()),
    (Q, K, V, FLOAT, how()),
    (Q, K, V, BOOL, how(scale=1.0)),
    (Q, K, V, NOTHING, how()),
    (Q, K, V, None, how(is_causal=True)),
    (Q, K[:, :3], V[:, :3], None, how(is_causal=True)),
    (Q[0], K[0], V[0], FLOAT, how()),
    (Q[:, None], K[0], V[:, None], BOOL[:1, None], how()),
    (Q[:, :0], K, V, None, how()),
    (Q, K[:, :0], V[:, :0], None, how()),
]

SAMPLES = {
    "attention": [Sample((q, k, v, mask), settings, reference=attention) for q, k, v, mask, settings in ARGS]
    + [Sample((EVEN, EVEN, EVEN + 1, None), how(), reference=attention, **SINGLE)],
    "attention_with_logs": [
        Sample((q, k, v), settings, reference=with_logs) for q, k, v, mask, settings in ARGS if mask is None
    ],
    "attention_weights": [Sample((q, k, mask), settings, reference=weights) for q, k, _, mask, settings in ARGS]
    + [
        Sample((EVEN, EVEN, None), how(), reference=weights, **SINGLE),
        Sample(
            (Q[0], K[0], HIDDEN),
            how(),
            reference=weights,
            skip=dict.fromkeys(("jvp", "vjp", "vmap"), "differences of infinities"),
            smooth=False,
        ),
    ],
}
