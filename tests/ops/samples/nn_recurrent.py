"""Samples of the steps of recurrent networks. The references are the formulas, written out."""

from __future__ import annotations

import numpy as np

from ndgrad.testing.op_checks import Sample

r = np.random.default_rng(31)
A, B, C = r.standard_normal((3, 8)), r.standard_normal((3, 8)), r.standard_normal((3, 2))
D, E, H = r.standard_normal((2, 3, 9)), r.standard_normal((2, 3, 9)), r.standard_normal((2, 3, 3))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm(a, b, cell):
    i, f, n, o = np.split(a + b, 4, -1)
    new = sigmoid(f) * cell + sigmoid(i) * np.tanh(n)
    return sigmoid(o) * np.tanh(new), new


def gru(a, b, h):
    (a_r, a_z, a_n), (b_r, b_z, b_n) = np.split(a, 3, -1), np.split(b, 3, -1)
    n, z = np.tanh(a_n + sigmoid(a_r + b_r) * b_n), sigmoid(a_z + b_z)
    return (1 - z) * n + z * h


SAMPLES = {
    "lstm_cell": [
        Sample((A, B, C), {}, reference=lstm),
        Sample((A[0], B[0], C[0]), {}, reference=lstm),
        Sample((A[:0], B[:0], C[:0]), {}, reference=lstm),
        Sample((A[:, ::-1], B, C[::-1]), {}, reference=lstm),
    ],
    "gru_cell": [
        Sample((D, E, H), {}, reference=gru),
        Sample((D[0, 0], E[0, 0], H[0, 0]), {}, reference=gru),
        Sample((D[:0], E[:0], H[:0]), {}, reference=gru),
        Sample((D[..., ::-1], E, H[:, ::-1]), {}, reference=gru),
    ],
}
