"""Samples of activation functions, away from their corners (those are compared with torch)."""

from __future__ import annotations

import math

import numpy as np

from ndgrad.testing.op_checks import Sample
from tests.ops.samples.arithmetic import EMPTY, Z, unary

X = np.array([[0.3, -1.2, 2.4, -0.4], [1.7, -2.1, 0.8, -0.15], [5.5, -4.4, 3.6, -6.3]])
INSIDE = np.array([[0.1, 0.5, 0.9, 0.3], [0.02, 0.98, 0.45, 0.6], [0.25, 0.75, 0.55, 0.7]])
HALF = 0.3 * Z


def each(f):
    return lambda x, **settings: np.vectorize(lambda v: f(v, **settings), otypes=[float])(x)


def sigmoid(v):
    return 1 / (1 + np.exp(-v))


def logit(v, eps=None):
    v = v if eps is None else min(max(v, eps), 1 - eps)
    return math.log(v) - math.log(1 - v)


def softplus(v, beta=1.0, threshold=20.0):
    return v if v * beta > threshold else math.log1p(math.exp(v * beta)) / beta


def elu(v, alpha=1.0, scale=1.0, input_scale=1.0):
    return scale * (v if v > 0 else alpha * math.expm1(input_scale * v))


def normal(v):
    return math.erfc(-v / math.sqrt(2)) / 2


def gelu(v, approximate="none"):
    if approximate == "none":
        return v * normal(v)
    return v / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v**3)))


def slope(f):
    """Return the derivative of a function of floats, by central differences of sixth order."""
    h = 1e-2

    def df(v, **settings):
        d = [f(v + k * h, **settings) - f(v - k * h, **settings) for k in (1, 2, 3, 4, 5)]
        return (d[0] * 2100 - d[1] * 600 + d[2] * 150 - d[3] * 25 + d[4] * 2) / (2520 * h)

    return df


SAMPLES = {
    "sigmoid": [*unary(sigmoid, X, HALF), Sample((np.array([-700.0, -40.0, 40.0, 700.0]),), reference=sigmoid)],
    "logit": [*unary(each(logit), INSIDE), *unary(each(logit), INSIDE, eps=0.2)],
    "log_sigmoid": [
        *unary(lambda v: -np.log(1 + np.exp(-v)), X),
        Sample((np.array([-800.0, 800.0]),), reference=lambda x: np.minimum(x, 0)),
    ],
    "softplus": [
        *unary(each(softplus), X),
        *unary(each(softplus), X, beta=2.0, threshold=6.0),
        Sample((np.array([-900.0, 900.0]),), reference=lambda x: np.maximum(x, 0)),
    ],
    "softplus_slope": [
        *unary(lambda v: sigmoid(v), X),
        *unary(each(lambda v, beta, threshold: sigmoid(v * beta) if v * beta <= threshold else 1.0), X, beta=2.0, threshold=6.0),
    ],
    "relu": [*unary(each(lambda v: v if v > 0 else 0), X), Sample((np.array([3, -3]),), reference=lambda x: np.array([3, 0]))],
    "slopes": [
        Sample((X,), {"low": low}, each(lambda v, low: 1 if v > 0 else low)) for low in (0.0, 0.3, -0.5, 1.5)
    ],
    "leaky_relu": [
        Sample((x,), {"negative_slope": s}, each(lambda v, negative_slope: v if v > 0 else v * negative_slope))
        for x in (X, X[1, 1], EMPTY) for s in (0.01, 0.5, -1.0, 2.0)
    ],
    "prelu": [
        Sample((x, w), {}, lambda x, w: np.maximum(x, 0) + w * np.minimum(x, 0))
        for x, w in (
            (X, np.array(0.3)), (X, X[0] * 0.4), (X, X[::-1]), (X[:, :, None], X[0][:, None]), (X[1, 1], X[0, 0]), (EMPTY, np.array(2.0)),
        )
    ],
    "glu": [
        Sample((x,), {"dim": dim}, lambda x, dim: np.split(x, 2, dim)[0] * sigmoid(np.split(x, 2, dim)[1]))
        for x, dim in ((X, 1), (X[:2], 0), (np.stack([X, X[::-1]]), 2), (np.stack([X, X[::-1]]), 0), (X[0], 0), (X[:0], 1), (HALF.T[:2], 0))
    ],
    "hardtanh": [
        *unary(each(lambda v: min(max(v, -1), 1)), X),
        *unary(each(lambda v, min_val, max_val: min(max(v, min_val), max_val)), X, min_val=0.0, max_val=6.0),
    ],
    "hardsigmoid": unary(each(lambda v: min(max(v / 6 + 0.5, 0), 1)), X),
    "hardswish": unary(each(lambda v: v * min(max(v + 3, 0), 6) / 6), X),
    "threshold": [
        *unary(each(lambda v: v if v > 0 else 0), X),
        *unary(each(lambda v, threshold, value: v if v > threshold else value), X, threshold=1.0, value=-3.0),
    ],
    "softshrink": [
        Sample((x,), {"lambd": w}, each(lambda v, lambd: math.copysign(max(abs(v) - lambd, 0), v)))
        for x in (X, X[1, 1], EMPTY) for w in (0.5, 1.0)
    ],
    "hardshrink": [
        Sample((x,), {"lambd": w}, each(lambda v, lambd: v if abs(v) > lambd else 0)) for x in (X, X[1, 1], EMPTY) for w in (0.5, 1.0)
    ],
    "elu": [
        *unary(each(elu), X),
        *unary(each(elu), X, alpha=1.7, scale=1.05, input_scale=0.5),
        Sample((X,), {"alpha": 2.0, "scale": 1.5, "input_scale": 0.5}, each(elu)),
        Sample((np.array([-800.0, 800.0]),), reference=lambda x: np.maximum(x, -1)),
    ],
    "silu": unary(lambda v: v * sigmoid(v), X, HALF),
    "silu_slope": unary(each(slope(lambda v: v * sigmoid(v))), X),
    "mish": [
        *unary(each(lambda v: v * math.tanh(softplus(v))), X),
        Sample((np.array([-40.0, -9.0, 25.0, 800.0]),), reference=each(lambda v: v * math.tanh(softplus(v)))),
    ],
    "mish_slope": unary(each(slope(lambda v: v * math.tanh(softplus(v)))), X),
    "gelu": [*unary(each(gelu), X), *unary(each(gelu), X, approximate="tanh")],
    "gelu_slope": [*unary(each(slope(gelu)), X), *unary(each(slope(gelu)), X, approximate="tanh")],
    "softsign": unary(each(lambda v: v / (1 + abs(v))), X),
    "tanhshrink": unary(each(lambda v: v - math.tanh(v)), X),
}  # fmt: skip
