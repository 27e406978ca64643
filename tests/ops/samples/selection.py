"""Samples of choices between values, away from ties (those are compared with torch)."""

from __future__ import annotations

import numpy as np

from ndgrad.testing.op_checks import Sample
from tests.ops.samples.arithmetic import EMPTY, ROW, A, B, W, Z, r

CONDITION = np.array([[True, False, True, False]] * 3)
# More elements than the threshold from which bits are masked.
LONG, LONGER = r.standard_normal(2500), r.standard_normal(2500)


def where(condition, x, y):
    x, y, condition = np.broadcast_arrays(x, y, condition)
    out = np.array(y, dtype=np.result_type(x, y))
    out[condition] = x[condition]
    return out


def keep(x, mask):
    return x * (np.asarray(mask) != 0)


def larger(x, y):
    return (x + y + np.abs(x - y)) / 2


def smaller(x, y):
    return (x + y - np.abs(x - y)) / 2


def clamp(x, low, high):
    return smaller(larger(x, low), high)


def pairs(reference):
    return [
        Sample((A, B), reference=reference),
        Sample((A, ROW), reference=reference),
        Sample((ROW, B), reference=reference),
        Sample((A, 3.0), reference=reference),
        Sample((A[0, 0], B[0, 0]), reference=reference),
        Sample((EMPTY, EMPTY), reference=reference),
    ]


SAMPLES = {
    "keep": [
        Sample((A, CONDITION), reference=keep),
        Sample((A, CONDITION * 2.5), reference=keep),
        Sample((A, CONDITION[0]), reference=keep),
        Sample((Z, CONDITION), reference=keep),
        Sample((A[0, 0], CONDITION[0, 1]), reference=keep),
        Sample((LONG, LONGER > 0), reference=keep),
        Sample((EMPTY, EMPTY > 0), reference=keep),
    ],
    "where": [
        Sample((CONDITION, A, B), reference=where),
        Sample((CONDITION[0], A, ROW), reference=where),
        Sample((CONDITION, ROW, B), reference=where),
        Sample((CONDITION, A, 0.5), reference=where),
        Sample((CONDITION, 0.5, A), reference=where),
        Sample((CONDITION, A, W), reference=where),
        Sample((CONDITION[0, 0], A[0, 0], B[0, 0]), reference=lambda condition, x, y: x),
        Sample((LONG > 0, LONG, LONGER), reference=where),
        Sample((LONG > 0, LONG, 1.5), reference=where),
        Sample((EMPTY > 0, EMPTY, EMPTY), reference=where),
        Sample((CONDITION, np.arange(4), np.arange(12).reshape(3, 4)), reference=where),
    ],
    "maximum": pairs(larger),
    "minimum": pairs(smaller),
    "fmax": pairs(larger),
    "fmin": pairs(smaller),
    "clamp": [
        Sample((A, 2.5, 3.5), reference=clamp),
        Sample((A, 2, 4), reference=clamp),
        Sample((A, 3.5, 2.5), reference=lambda x, low, high: np.full(x.shape, high)),
        Sample((A, B - 1.1, B + 0.7), reference=clamp),
        Sample((A, ROW - 0.5, 4.5), reference=clamp),
        Sample((A[0, 0], np.float64(4.0), 5.0), reference=clamp),
        Sample((EMPTY, 0.0, 1.0), reference=clamp),
    ],
    "clamp_min": pairs(larger),
    "clamp_max": pairs(smaller),
}  # fmt: skip
