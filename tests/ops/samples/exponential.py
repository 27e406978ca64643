"""Samples of exponentials and logarithms."""

from __future__ import annotations

import math

import numpy as np

from ndgrad.testing.op_checks import Sample
from tests.ops.samples.arithmetic import EMPTY, INTEGERS, POSITIVE, Z, r, unary

X, Y = r.standard_normal((3, 4)), r.standard_normal((3, 4))
HALF = 0.3 * Z
LARGE = np.array([[-1e3, 1e3, 2e3, -1e3]])


def logaddexp(x, y):
    return np.log(np.exp(x) + np.exp(y))


def xlogy(x, y):
    return x * np.log(y)


SAMPLES = {
    "exp": unary(lambda x: math.e**x, X, HALF),
    "exp2": unary(lambda x: 2.0**x, X, HALF),
    "expm1": [*unary(lambda x: np.exp(x) - 1, X, HALF), Sample((X * 1e-12,), reference=np.expm1)],
    "log": [*unary(np.log, POSITIVE, Z), Sample((np.abs(INTEGERS),), reference=np.log)],
    "log2": unary(lambda x: np.log(x) / math.log(2), POSITIVE, Z),
    "log10": unary(lambda x: np.log(x) / math.log(10), POSITIVE, Z),
    "log1p": [*unary(lambda x: np.log(1 + x), POSITIVE, Z), Sample((X * 1e-12,), reference=np.log1p)],
    "logaddexp": [
        Sample((X, Y), reference=logaddexp),
        Sample((X, Y[0]), reference=logaddexp),
        Sample((X, 0.5), reference=logaddexp),
        Sample((HALF, HALF[::-1]), reference=logaddexp),
        Sample((X, HALF), reference=logaddexp),
        Sample((X, LARGE), reference=np.maximum, smooth=False, skip={"jvp": "one of the terms vanishes in rounding"}),
        Sample((EMPTY, EMPTY), reference=logaddexp),
    ],
    "logaddexp2": [
        Sample((X, Y), reference=lambda x, y: np.log2(2**x + 2**y)),
        Sample((X[0], Y), reference=lambda x, y: np.log2(2**x + 2**y)),
        Sample((X, 0.5), reference=lambda x, y: np.log2(2**x + 2**y)),
    ],
    "xlogy": [
        Sample((X, POSITIVE), reference=xlogy),
        Sample((X[0], POSITIVE), reference=xlogy),
        Sample((X, 2.5), reference=xlogy),
        Sample((1.5, POSITIVE), reference=xlogy),
        Sample((np.float64(0.7), POSITIVE[0, 0]), reference=xlogy),
        Sample((EMPTY, EMPTY), reference=xlogy),
    ],
    "xlog1py": [
        Sample((X, POSITIVE), reference=lambda x, y: x * np.log1p(y)),
        Sample((X, POSITIVE[0]), reference=lambda x, y: x * np.log1p(y)),
        Sample((X, 2.5), reference=lambda x, y: x * np.log1p(y)),
        Sample((1.5, POSITIVE), reference=lambda x, y: x * np.log1p(y)),
    ],
}  # fmt: skip
