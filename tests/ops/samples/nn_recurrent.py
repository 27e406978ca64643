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


SIZES = (3, 3, 1)
X4, X3, X1 = (r.standard_normal((7, n * 2)) for n in (4, 3, 1))
S, K = r.standard_normal((3, 2)), r.standard_normal((3, 2))
W4, W3, W1 = (r.standard_normal((n * 2, 2)) for n in (4, 3, 1))
B4, B3, B1 = (r.standard_normal(n * 2) for n in (4, 3, 1))
KEPT_ONLY = {"values": "the reference has no kept values"}


def layer(x, first, cell, w, b, mode, sizes, reverse):
    """The states of all steps and the last ones, sequence by sequence."""
    starts = np.cumsum([0, *sizes])
    rows = np.zeros((len(x), first.shape[1]))
    last, cells = first.copy(), None if cell is None else cell.copy()
    for k in range(len(first)):
        steps = [t for t, size in enumerate(sizes) if k < size]
        for t in reversed(steps) if reverse else steps:
            gates, hidden = x[starts[t] + k], w @ last[k] + (0 if b is None else b)
            if mode == "LSTM":
                last[k], cells[k] = lstm(gates, hidden, cells[k])
            elif mode == "GRU":
                last[k] = gru(gates, hidden, last[k])
            else:
                last[k] = np.tanh(gates + hidden) if mode == "RNN_TANH" else np.maximum(gates + hidden, 0)
            rows[starts[t] + k] = last[k]
    return rows, last, np.zeros(0) if cells is None else cells


def take_results(*outputs):
    return outputs[:3]


def how(mode, reverse=False):
    return {"mode": mode, "sizes": SIZES, "reverse": reverse}


LAYERS = [
    ((X4, S, K, W4, B4), how("LSTM")),
    ((X4, S, K, W4, None), how("LSTM", True)),
    ((X3, S, None, W3, B3), how("GRU")),
    ((X3, S, None, W3, None), how("GRU", True)),
    ((X1, S, None, W1, B1), how("RNN_TANH")),
    ((X1, S, None, W1, B1), how("RNN_RELU", True)),
]


def layer_gradients(args, settings):
    """Arguments of the gradients' op: gradients of the results, and the values that the layer keeps."""
    from ndgrad._src.ops import recurrent_layer

    x, first, cell, w, b = args
    rows, last, cells, kept, before, olds = recurrent_layer._layer(np, x, first, cell, w, b, **settings)
    return (*(r.standard_normal(a.shape) for a in (rows, last, cells)), rows, kept, before, olds, w, x, b)


def gradients(*args, mode, sizes, reverse):
    """The gradients through the layer's differences: of the gates, and of the first states."""
    from ndgrad._src.ops import recurrent_layer

    return recurrent_layer._gradients(np, *args, mode=mode, sizes=sizes, reverse=reverse)


SAMPLES = {
    "recurrent_layer": [Sample(args, settings, reference=layer, invariant=take_results) for args, settings in LAYERS],
    "recurrent_layer_gradients": [
        Sample(layer_gradients(args, settings), settings, reference=gradients) for args, settings in LAYERS
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
