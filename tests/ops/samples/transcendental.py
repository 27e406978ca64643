"""Samples of special functions that torch lacks, compared with integrals, series and the functions of Python's math
module.
"""

from __future__ import annotations

import math

import numpy as np

from ndgrad.testing.op_checks import Sample
from tests.ops.samples.arithmetic import EMPTY, unary
from tests.ops.samples.special import FIXED_FIRST, INSIDE, NODES, POSITIVE, SIGNED, WEIGHTS, each, scipy_special

UNIT = (NODES + 1) / 2
#: Points around zero and around the border between the series and the recurrence.
AROUND = np.array([[0.0, -0.24, 0.26, 1e-7], [2.4, -0.7, -0.26, 5.0], [0.3, 0.1, -0.5, 1.2]])
MODULI = np.array([[0.2, 0.3, 0.86, 0.9], [1.0, 1.1, 1.2, 3.0], [0.15, 0.5, 2.0, 25.0]])
POLES = np.array([0.0, -1.0, -3.0, 0.4, 0.6])


def integral(values) -> float:
    """Integrate over the unit interval."""
    return float(np.sum(WEIGHTS / 2 * values))


def rgamma(x):
    return 0.0 if x <= 0 and x == round(x) else 1 / math.gamma(x)


def boxcox(x, lmbda):
    return math.log(x) if lmbda == 0 else (x**lmbda - 1) / lmbda


def exprel(x, order=0):
    return integral(UNIT**order * np.exp(UNIT * x))


def log1prel(x, order=0):
    return integral((-1) ** order * math.factorial(order) * UNIT**order / (1 + UNIT * x) ** (order + 1))


def spence(x):
    """Substitute t = 1 + (x - 1) s, which gives the integrand -log(1 + (x - 1) s) / s."""
    return -integral(np.log1p((x - 1) * UNIT) / UNIT)


def expi(x):
    return 0.5772156649015329 + math.log(abs(x)) + sum(x**k / (k * math.factorial(k)) for k in range(1, 120))


def expn(n, x):
    """Start from E_0 and E_1 and use n E_(n+1) = exp(-x) - x E_n, in the other direction below 0."""
    if n <= 0:
        return math.exp(-x) / x if n == 0 else (math.exp(-x) - n * expn(n + 1, x)) / x
    return -expi(-x) if n == 1 else (math.exp(-x) - x * expn(n - 1, x)) / (n - 1)


ANGLES = (np.arange(4000) + 0.5) * (math.pi / 8000)


def ellipkm1(p, order=0):
    """Integrate the derivative of 1 / sqrt(cos^2 + p sin^2) over a quarter turn; the midpoint rule is exact for it."""
    factor = math.prod(-(2 * j + 1) / 2 for j in range(order))
    square = np.sin(ANGLES) ** 2
    return float(np.mean(factor * square**order * (1 - square + p * square) ** (-0.5 - order))) * math.pi / 2


def hyp1f1(a, b, x):
    total = term = 1.0
    for k in range(300):
        term *= (a + k) / (b + k) * x / (k + 1)
        total += term
    return total


def lpmv(m, v, x):
    polynomial = np.polynomial.Legendre.basis(int(v))
    return (-1) ** int(m) * (1 - x * x) ** (m / 2) * float((polynomial.deriv(int(m)) if m else polynomial)(x))


ORDERS = np.array([[0, 1, 2, 0], [1, 2, 0, 1], [2, 0, 1, 1]])
SMALL = np.minimum(POSITIVE, 6.0)


def make_reference():
    pairs = ((SMALL, SMALL[::-1] / 2), (SMALL[0], SMALL), (2.5, SMALL), (EMPTY, EMPTY))
    return {
        "gamma_function": [*unary(each(math.gamma), SMALL), *unary(each(math.gamma), SIGNED)],
        "rgamma": [*unary(each(rgamma), POSITIVE), *unary(each(rgamma), SIGNED), Sample((POLES,), reference=each(rgamma))],
        "poch": [Sample(args, reference=each(lambda x, m: math.gamma(x + m) / math.gamma(x))) for args in pairs],
        "binom": [Sample(args, reference=each(lambda x, k: math.gamma(x + 1) * rgamma(k + 1) * rgamma(x - k + 1))) for args in pairs],
        "powm1": [Sample(args, reference=each(lambda x, y: x**y - 1)) for args in pairs],
        "boxcox": [Sample(args, reference=each(boxcox)) for args in (*pairs, (SMALL, 0.0), (SMALL, -1.3))],
        "boxcox1p": [Sample(args, reference=each(lambda x, v: boxcox(1 + x, v))) for args in (*pairs, (SMALL, 0.0))],
        "exprel": [s for n in (0, 1, 2) for s in unary(each(exprel), AROUND, order=n)],
        "log1prel": [s for n in (0, 1, 2) for s in unary(each(log1prel), AROUND, order=n)],
        "cosm1": unary(each(lambda x: -2 * math.sin(x / 2) ** 2), SIGNED),
        "spence": [*unary(each(spence), POSITIVE), Sample((1.0 + AROUND,), reference=each(spence))],
        "sindg": unary(each(lambda x: math.sin(math.radians(x))), SIGNED * 90),
        "cosdg": unary(each(lambda x: math.cos(math.radians(x))), SIGNED * 90),
        "tandg": unary(each(lambda x: math.tan(math.radians(x))), SIGNED * 30),
        "cotdg": unary(each(lambda x: 1 / math.tan(math.radians(x))), POSITIVE * 20 + 15),
        "expi": [*unary(each(expi), POSITIVE), *unary(each(expi), SIGNED)],
        "exp1": unary(each(lambda x: -expi(-x)), SMALL),
        "expn": [Sample(args, reference=each(expn)) for args in ((ORDERS, SMALL), (1, SMALL), (ORDERS[0] - 2, SMALL), (3, EMPTY))],
        "ellipkm1": [s for n in (0, 1, 2) for s in unary(each(ellipkm1), MODULI, order=n)],
        "ellipk": [*unary(each(lambda m: ellipkm1(1 - m)), INSIDE), *unary(each(lambda m: ellipkm1(1 - m)), -POSITIVE)],
        "hyp1f1": [
            Sample(args, reference=each(hyp1f1)) for args in ((ORDERS + 1, ORDERS + 2, SIGNED), (1, 3, SIGNED), (ORDERS[1], 2, SIGNED))
        ],
        "lpmv": [Sample(args, reference=each(lpmv)) for args in ((ORDERS, ORDERS + 2, INSIDE), (1, 3, -INSIDE))],
        "yn": [Sample(args, reference=scipy_special.yv) for args in (*FIXED_FIRST[:4], (ORDERS, POSITIVE))],
    }


SAMPLES = make_reference() if scipy_special is not None else {}
