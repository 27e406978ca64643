"""Samples of the op for solver results: the real root of x^3 + x = a b, with the rule of the implicit function
theorem.
"""

from __future__ import annotations

import numpy as np

from ndgrad.implicit.rules import Rule
from ndgrad.testing.op_checks import Sample


def cubic_root(x, a, b):
    """Return Cardano's formula. `x`, the solver's result, only gives the shape."""
    half = a * b / 2
    root = np.sqrt(half**2 + 1 / 27)
    return np.cbrt(half + root) + np.cbrt(half - root) + 0 * x


class Cubic(Rule):
    def value(self, x, a, b):
        return cubic_root(x, a, b)

    def pull(self, out, params, g, needs):
        a, b = params
        w = g / (3.0 * out * out + 1.0)
        return (w * b if needs[0] else None, w * a if needs[1] else None)

    def push(self, out, params, tangents):
        (a, b), (da, db) = params, tangents
        terms = ([] if da is None else [da * b]) + ([] if db is None else [a * db])
        return sum(terms[1:], terms[0]) / (3.0 * out * out + 1.0)


def solved(x, a, b, *, rule):
    return cubic_root(x, a, b)


A, B = np.array([0.5, -1.5, 2.0]), np.array([1.5, 0.4, -0.7])
SAMPLES = {
    "implicit": [
        Sample((np.zeros(3), A, B), {"rule": Cubic()}, solved),
        Sample((np.zeros((2, 1)), A.reshape(3)[:2].reshape(2, 1), B[:2].reshape(2, 1)), {"rule": Cubic()}, solved),
        Sample((np.float64(0.0), np.float64(2.0), np.float64(0.7)), {"rule": Cubic()}, solved),
        Sample((np.zeros(0), np.zeros(0), np.zeros(0)), {"rule": Cubic()}, solved),
    ]
}
