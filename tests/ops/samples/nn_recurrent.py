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


def lstm_layer(a, h, cell, w, reverse=False):
    states, cells = np.empty((2, *a.shape[:-1], a.shape[-1] // 4), a.dtype)
    for t in range(a.shape[-3])[:: -1 if reverse else 1]:
        h, cell = lstm(a[..., t, :, :], h @ w.swapaxes(-1, -2), cell)
        states[..., t, :, :], cells[..., t, :, :] = h, cell
    return states, cells


def gru_layer(a, h, w, b, reverse=False):
    states = np.empty((*a.shape[:-1], a.shape[-1] // 3), a.dtype)
    for t in range(a.shape[-3])[:: -1 if reverse else 1]:
        h = gru(a[..., t, :, :], h @ w.swapaxes(-1, -2) + b[..., None, :], h)
        states[..., t, :, :] = h
    return states


# A layer of three steps, two rows and a state of two numbers, and a batch of two of them.
LA, LH, LC, LW = (r.standard_normal(shape) for shape in [(3, 2, 8), (2, 2), (2, 2), (8, 2)])
GA, GH, GW, GB = (r.standard_normal(shape) for shape in [(2, 3, 2, 6), (2, 2, 2), (2, 6, 2), (2, 6)])

SAMPLES = {
    "lstm_layer": [
        Sample((LA, LH, LC, LW), {}, reference=lstm_layer),
        Sample((LA, LH, LC, LW), {"reverse": True}, reference=lstm_layer),
        Sample((LA[:1], LH[::-1], LC.T, np.asfortranarray(LW)), {}, reference=lstm_layer),
        Sample((LA[:, :0], LH[:0], LC[:0], LW), {}, reference=lstm_layer),
    ],
    "gru_layer": [
        Sample((GA, GH, GW, GB), {}, reference=gru_layer),
        Sample((GA[0], GH[0], GW[0], GB[0]), {"reverse": True}, reference=gru_layer),
        Sample((GA[0, :1, ::-1], GH[0], GW[0], GB[0, ::-1]), {}, reference=gru_layer),
    ],
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
