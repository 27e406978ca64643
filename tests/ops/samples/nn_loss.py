"""Samples of the ops that losses consist of."""

from __future__ import annotations

from itertools import product

import numpy as np

from ndgrad.testing.op_checks import Sample

r = np.random.default_rng(16)
X2, X3, X1 = r.standard_normal((4, 5)), r.standard_normal((2, 5, 3)), r.standard_normal(5)
T2, T3, T1 = r.integers(0, 5, 4), r.integers(0, 5, (2, 3)), np.array(3)
P, Q = r.uniform(0.1, 0.9, (3, 4)), r.uniform(0, 1, (3, 4))
SINGLE = {"smooth": False, "skip": dict.fromkeys(("jvp", "vjp", "vmap"), "of dtype and values only")}


def pick(x, target, dim):
    return np.take_along_axis(x, np.expand_dims(target, dim), dim).squeeze(dim)


def cross_entropy(x, target, dim):
    return np.log(np.exp(x).sum(dim)) - pick(x, target, dim)


def bce(x, y):
    return -y * np.log(x) - (1 - y) * np.log(1 - x)


def smooth_l1(x, y, beta):
    d = np.abs(x - y)
    return np.where(d < beta, d**2 / beta / 2, d - beta / 2)


def class_loss(x, target, weight, ignore_index=-100, label_smoothing=0.0, reduction="mean"):
    """Compute, row by row, the cross entropy with a one-hot or smoothed distribution."""
    weight = np.ones(x.shape[1]) if weight is None else weight
    log_p = x - np.log(np.exp(x).sum(1, keepdims=True))
    rows, shares = np.zeros(len(x)), np.zeros(len(x))
    for i, t in enumerate(target):
        if t != ignore_index:
            wanted = np.full(x.shape[1], label_smoothing / x.shape[1])
            wanted[t] += 1 - label_smoothing
            rows[i], shares[i] = -(wanted * weight * log_p[i]).sum(), weight[t]
    return {"none": rows, "sum": rows.sum(), "mean": rows.sum() / shares.sum()}[reduction], shares.sum()


W = r.uniform(0.5, 2.0, 5)
LOSSES = [
    {},
    {"reduction": "sum", "ignore_index": 2},
    {"reduction": "none", "label_smoothing": 0.2},
    {"label_smoothing": 0.1, "ignore_index": int(T2[0])},
]

LINES = [(X2, T2, 1), (X3, T3, 1), (X1, T1, 0), (X2[:0], T2[:0], 1), (X2.T.copy(), T2, 0)]

SAMPLES = {
    "class_loss": [
        Sample((X2, T2, w), settings, reference=class_loss) for w, settings in product((None, W), LOSSES)
    ],
    "softmax_cross_entropy": [Sample((x, t), {"dim": dim}, reference=cross_entropy) for x, t, dim in LINES]
    + [
        Sample((X2 + 1000, T2), {"dim": 1}, reference=lambda x, t, dim: cross_entropy(x - 1000, t, dim)),
        Sample((np.zeros((2, 1), np.float32), np.zeros(2, int)), {"dim": 1}, reference=cross_entropy, **SINGLE),
    ],
    "binary_cross_entropy": [
        Sample((P, Q), reference=bce),
        Sample((P, Q[0]), reference=bce),
        Sample((P[:0], Q[:0]), reference=bce),
        Sample((np.full(2, 0.5, np.float32), np.zeros(2, np.float32)), reference=bce, **SINGLE),
    ],
    "binary_cross_entropy_with_logits": [
        Sample((X2, Q[:, 0].repeat(2)[:5]), reference=lambda x, y: bce(1 / (1 + np.exp(-x)), y)),
        Sample((np.array([0.0, 800.0, -800.0]), np.array([0.5, 0.0, 1.0])), reference=lambda x, y: np.array([np.log(2), 800, 800])),
        Sample((np.zeros(2, np.float32), np.ones(2, np.float32)), reference=lambda x, y: np.log1p(np.exp(x)), **SINGLE),
    ],
    "smooth_l1": [
        Sample((X2, X2[::-1].copy()), {"beta": 1.0}, reference=smooth_l1),
        Sample((X2 * 3, X1), {"beta": 0.5}, reference=smooth_l1),
        Sample((np.arange(4, dtype=np.float32), np.ones(4, np.float32)), {"beta": 2.0}, reference=smooth_l1, **SINGLE),
    ],
}


# ----- alignments ----------------------------------------------------------------------------------------------------


def lattice(targets, blank=0):
    """Convert targets to the states of CTC: their classes, masks of the states entered over a blank, and of the
    ends.
    """
    longest = max(map(len, targets))
    states = np.full((len(targets), 2 * longest + 1), blank)
    skips, ends = np.zeros(states.shape, bool), np.zeros(states.shape, bool)
    for row, target in enumerate(targets):
        states[row, 1 : 2 * len(target) : 2] = target
        for place in range(1, len(target)):
            skips[row, 2 * place + 1] = target[place] != target[place - 1]
        ends[row, max(2 * len(target) - 1, 0) : 2 * len(target) + 1] = True
    return states, skips, ends


def by_alignments(x, states, skips, ends, steps, zero_infinity):
    """Return minus the logarithm of the sum over all class sequences that give the target without blanks and
    repetitions.
    """
    losses = []
    for row, count in enumerate(steps):
        target = [int(c) for c in states[row, 1 : 2 * (int(np.flatnonzero(ends[row])[-1]) // 2) : 2]]
        total = 0.0
        for path in product(range(x.shape[2]), repeat=int(count)):
            read = [c for i, c in enumerate(path) if c != 0 and (i == 0 or path[i - 1] != c)]
            total += np.exp(sum(x[t, row, c] for t, c in enumerate(path))) if read == target else 0.0
        losses.append(-np.log(total) if total else 0.0 if zero_infinity else np.inf)
    return np.array(losses)


SCORES = r.standard_normal((4, 3, 3))
SAMPLES["ctc_loss"] = [
    Sample((SCORES, *lattice([[1, 2], [1, 1], []]), np.array([4, 4, 3])), {"zero_infinity": False}, reference=by_alignments),
    Sample((SCORES, *lattice([[2, 1, 2], [1, 1, 1], [2]]), np.array([3, 4, 0])), {"zero_infinity": True}, reference=by_alignments),
]
