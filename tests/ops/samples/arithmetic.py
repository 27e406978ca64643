"""Samples of arithmetic ops."""

from __future__ import annotations

import operator

import numpy as np

from ndgrad.testing.check_op import Sample

r = np.random.default_rng(1)
A, B, ROW = r.standard_normal((3, 4)) + 3, r.standard_normal((3, 4)) + 3, r.standard_normal(4) + 3
Z, W = A + 1j * B, B - 2j * A
SCALAR, EMPTY = np.float64(1.5), np.empty((0, 3))


def binary(reference):
    return [
        Sample((A, B), reference=reference),
        Sample((A, ROW), reference=reference),
        Sample((ROW, B), reference=reference),
        Sample((A, 2.5), reference=reference),
        Sample((A, SCALAR), reference=reference),
        Sample((EMPTY, EMPTY), reference=reference),
        Sample((Z, W), reference=reference),
        Sample((A, W), reference=reference),
    ]


SAMPLES = {
    "add": binary(operator.add),
    "sub": binary(operator.sub),
    "mul": binary(operator.mul),
    "div": binary(operator.truediv),
    "pow": binary(operator.pow),
    "neg": [Sample((A,), reference=operator.neg), Sample((Z,), reference=operator.neg)],
}
