"""Samples of distribution functions with shapes: integrals by Gauss-Legendre quadrature, their differences, and
SciPy.
"""

from __future__ import annotations

import math

import numpy as np

from ndgrad.testing.op_checks import Sample
from tests.ops.samples.arithmetic import EMPTY
from tests.ops.samples.special import INSIDE, ITERATED, NODES, SIGNED, WEIGHTS, each, igamma, scipy_special

SHAPES = np.array([[0.6, 1.2, 2.4, 3.45], [1.7, 3.1, 0.8, 5.15], [0.9, 4.0, 1.1, 2.6]])
POINTS = np.array([[0.3, 1.2, 1.4, 2.45], [1.7, 2.1, 0.8, 5.15], [0.5, 3.0, 2.1, 1.6]])


def shape_difference(f, a, order, step=0.02):
    """Return derivatives of f at a by repeated first differences of eighth order."""
    if order == 0:
        return f(a)
    g = lambda s: shape_difference(f, s, order - 1, step)
    c = (4 / 5, -1 / 5, 4 / 105, -1 / 280)
    return sum(c[k - 1] * (g(a + k * step) - g(a - k * step)) for k in range(1, 5)) / step


def betainc(a, b, x):
    """Integrate with t = x s^k, which removes the singularity at 0."""
    k = 8
    s = (NODES + 1) / 2
    values = (x * s**k) ** (a - 1) * (1 - x * s**k) ** (b - 1) * x * k * s ** (k - 1)
    return float(np.sum(WEIGHTS / 2 * values)) * math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b))


def stdtr(df, t):
    u = math.asinh(t / math.sqrt(df)) * (NODES + 1) / 2
    c = math.exp(math.lgamma((df + 1) / 2) - math.lgamma(df / 2)) / math.sqrt(math.pi)
    return 0.5 + float(np.sum(WEIGHTS / 2 * np.cosh(u) ** -df)) * c * math.asinh(t / math.sqrt(df))


def owens_t(h, a):
    x = a * (NODES + 1) / 2
    return float(np.sum(WEIGHTS * np.exp(-h * h * (1 + x * x) / 2) / (1 + x * x))) * a / 2 / (2 * math.pi)


def pairs(reference, *settings, first=SHAPES, second=POINTS, tolerance=1e-6):
    found = [(first, second), (first[0], second), (first[:, :1], second[1]), (2.5, second), (EMPTY, EMPTY)]
    return [Sample(args, s, each(reference), tolerance=tolerance) for s in settings for args in found]


def with_scipy(made):
    return made() if scipy_special is not None else []


def beta_samples(name):
    function = getattr(scipy_special, name)
    return [Sample(args, reference=function) for args in ((SHAPES, SHAPES[::-1], INSIDE), (SHAPES[0], 1.5, INSIDE), (EMPTY, EMPTY, EMPTY))]


SAMPLES = {
    "igamma": [Sample((SHAPES, POINTS), reference=each(igamma), skip=ITERATED)],
    "igammac": [Sample((SHAPES, POINTS), reference=each(lambda a, x: 1 - igamma(a, x)), skip=ITERATED)],
    "igamma_shape": [
        s for n in (1, 2) for s in pairs(lambda a, x, order: shape_difference(lambda v: igamma(v, x), a, order), {"order": n})
    ],
    "betainc_shape": [
        Sample((SHAPES + 0.5, SHAPES[::-1] + 0.5, INSIDE), {"orders": o}, each(beta_reference))
        for o in ((1, 0), (0, 1), (1, 1))
        for beta_reference in [
            lambda a, b, x, orders: shape_difference(
                lambda v: shape_difference(lambda w: betainc(v, w, x), b, orders[1]), a, orders[0]
            )
        ]
    ],
    "gamma_shape_ratio": [
        s for n in (1, 2) for s in pairs(
            lambda a, x, order: shape_difference(lambda v: igamma(v, x), a, order) / (x**a * math.exp(-x - math.lgamma(a))), {"order": n})
    ],
    "beta_shape_ratio": [
        Sample((SHAPES + 0.5, SHAPES[::-1] + 0.5, INSIDE), {"orders": o}, each(ratio_reference), tolerance=1e-6)
        for o in ((1, 0), (0, 1))
        for ratio_reference in [
            lambda a, b, x, orders: shape_difference(
                lambda v: shape_difference(lambda w: betainc(v, w, x), b, orders[1]), a, orders[0]
            ) / (x**a * (1 - x) ** b * math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)))
        ]
    ],
    "student_shape": [
        Sample(args, {"order": n}, each(lambda df, t, order: shape_difference(lambda v: stdtr(v, t), df, order)))
        for n in (1, 2)
        for args in ((SHAPES, SIGNED), (SHAPES[0], np.array([0.0, 1e-3, 20.0, -5.0])), (EMPTY, EMPTY))
    ],
    "stdtr": [
        Sample(args, reference=each(stdtr))
        for args in ((SHAPES, SIGNED), (SHAPES[0], np.array([0.0, 1e-3, 4.0, -5.0])), (2.5, SIGNED), (EMPTY, EMPTY))
    ] if scipy_special else [],
    "owens_t": [Sample((SIGNED, POINTS), reference=each(owens_t)), Sample((0.4, SIGNED), reference=each(owens_t))] if scipy_special else [],
    "distance_power": [
        *(Sample(args, reference=each(lambda x, b: abs(x) ** b)) for args in ((SIGNED, SHAPES + 1.0), (SIGNED, 1.7), (EMPTY, EMPTY))),
        Sample((np.array([0.0, 0.0, -0.5, 2.0]), np.array([4.0, 6.0, 4.0, 2.5])), reference=each(lambda x, b: abs(x) ** b)),
        Sample((SIGNED, SHAPES + 1.0), {"order": 2, "logs": 1}, each(lambda x, b, order, logs: (
            abs(x) ** (b - 2) * (b * (b - 1) * math.log(abs(x)) + 2 * b - 1)))),
    ],
    "igamma_inverse": with_scipy(lambda: [Sample((SHAPES, INSIDE), reference=scipy_special.gammaincinv)]),
    "igammac_inverse": with_scipy(lambda: [Sample((SHAPES, INSIDE), reference=scipy_special.gammainccinv)]),
    "stdtr_inverse": with_scipy(lambda: [Sample((SHAPES, INSIDE), reference=scipy_special.stdtrit)]),
    **{
        op: with_scipy(lambda name=name: beta_samples(name))
        for op, name in {
            "betainc": "betainc", "betaincc": "betaincc", "betainc_inverse": "betaincinv", "betaincc_inverse": "betainccinv",
        }.items()
    },
}  # fmt: skip
