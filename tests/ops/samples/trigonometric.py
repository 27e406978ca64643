"""Samples of trigonometric and hyperbolic functions."""

from __future__ import annotations

import math

import numpy as np

from ndgrad.testing.op_checks import Sample
from tests.ops.samples.arithmetic import EMPTY, POSITIVE, ROW, A, B, Z, unary

INSIDE = np.linspace(-0.9, 0.9, 12).reshape(3, 4)
HALF = 0.3 * Z


def exponentials(f):
    """Return a reference made of exponentials: f(e^x, e^-x), or f(e^ix, e^-ix)."""
    return lambda x: f(np.exp(x), np.exp(-x))


def circular(f):
    def reference(x):
        value = f(np.exp(1j * x), np.exp(-1j * x))
        return value if np.iscomplexobj(x) else value.real

    return reference


def sinc(x, order=0):
    """Return the integral of (pi u)^n cos(pi x u + n pi / 2) over u from 0 to 1, by Gauss quadrature."""
    nodes, weights = np.polynomial.legendre.leggauss(60)
    u = (nodes + 1) / 2
    integrand = (math.pi * u) ** order * np.cos(math.pi * np.multiply.outer(x, u) + order * math.pi / 2)
    return np.sum(integrand * weights / 2, axis=-1)


NEAR_AND_FAR = np.array([0.0, 1e-9, -1e-4, 0.01, 0.2, -0.3, 0.5, 1.0, -2.5, 4.3])

SAMPLES = {
    "sin": unary(circular(lambda p, m: (p - m) / 2j), INSIDE, HALF),
    "cos": unary(circular(lambda p, m: (p + m) / 2), INSIDE, HALF),
    "tan": unary(lambda x: np.sin(x) / np.cos(x), INSIDE, HALF),
    "asin": [*unary(lambda x: np.arctan2(x, np.sqrt(1 - x * x)), INSIDE), Sample((HALF,), reference=np.arcsin)],
    "acos": [*unary(lambda x: np.arctan2(np.sqrt(1 - x * x), x), INSIDE), Sample((HALF,), reference=np.arccos)],
    "atan": [*unary(lambda x: np.arcsin(x / np.sqrt(1 + x * x)), INSIDE), Sample((HALF,), reference=np.arctan)],
    "atan2": [
        Sample((A, B), reference=lambda x, y: np.angle(y + 1j * x)),
        Sample((-A, ROW), reference=lambda x, y: np.angle(y + 1j * x)),
        Sample((A, -B), reference=lambda x, y: np.angle(y + 1j * x)),
        Sample((ROW, 2.0), reference=lambda x, y: np.angle(y + 1j * x)),
        Sample((2.0, ROW), reference=lambda x, y: np.angle(y + 1j * x)),
        Sample((EMPTY, EMPTY), reference=np.arctan2),
    ],
    "hypot": [
        Sample((A, B), reference=lambda x, y: np.sqrt(x * x + y * y)),
        Sample((A, -ROW), reference=lambda x, y: np.sqrt(x * x + y * y)),
        Sample((A, 2.0), reference=lambda x, y: np.sqrt(x * x + y * y)),
        Sample((EMPTY, EMPTY), reference=np.hypot),
    ],
    "deg2rad": unary(lambda x: x * math.pi / 180),
    "rad2deg": unary(lambda x: x / math.pi * 180),
    "sinh": unary(exponentials(lambda p, m: (p - m) / 2), INSIDE, HALF),
    "cosh": unary(exponentials(lambda p, m: (p + m) / 2), INSIDE, HALF),
    "tanh": unary(exponentials(lambda p, m: (p - m) / (p + m)), INSIDE, HALF),
    "asinh": unary(lambda x: np.log(x + np.sqrt(x * x + 1)), INSIDE, HALF),
    "acosh": [
        *unary(lambda x: np.log(x + np.sqrt(x - 1) * np.sqrt(x + 1)), POSITIVE + 1, HALF),
        Sample((-Z,), reference=np.arccosh),
    ],
    "atanh": unary(lambda x: np.log((1 + x) / (1 - x)) / 2, INSIDE, HALF),
    "sinc": [
        Sample((NEAR_AND_FAR,), {}, sinc),
        Sample((np.float64(0.0),), {}, sinc),
        Sample((EMPTY,), {}, sinc),
        Sample((HALF,), {}, sinc),
        *(Sample((NEAR_AND_FAR,), {"order": order}, sinc) for order in (1, 2, 3, 6)),
    ],
}  # fmt: skip
