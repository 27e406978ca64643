"""Samples of special functions, compared with series, integrals and the functions of Python's math module.

Bessel functions of the first and second kind exist only with SciPy. Their references are its functions of general
order, which use other algorithms.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from ndgrad.testing.op_checks import Sample
from tests.ops.samples.arithmetic import EMPTY, real_binary, unary

try:
    import scipy.special as scipy_special
except ImportError:
    scipy_special = None

POSITIVE = np.array([[0.3, 1.2, 2.4, 0.45], [1.7, 3.1, 0.8, 7.15], [0.07, 25.0, 1.1, 2.6]])
SIGNED = np.array([[0.3, -1.2, 2.4, -0.45], [1.7, -3.6, 0.8, -2.35], [0.07, -2.7, 1.1, 2.6]])
AROUND = np.array([[0.3, -1.2, 2.4, -0.45], [9.7, -13.6, 6.8, -2.35], [0.07, -2.7, 1.1, 2.6]])
ORIGIN = np.array([0.0, 1e-6, -0.3])
INSIDE = np.array([[0.1, 0.5, 0.9, 0.3], [0.02, 0.98, 0.45, 0.6], [0.25, 0.75, 0.55, 0.7]])
ORDERS = np.array([[2, 3, 4, 2], [5, 2, 3, 6], [2, 4, 2, 3]])


def each(f):
    """Apply a function of floats to arrays, and pass settings on."""
    return lambda *args, **settings: np.vectorize(lambda *v: f(*map(float, v), **settings), otypes=[float])(*args)


# ----- gamma -----------------------------------------------------------------------------------------------------------


def digamma(x):
    """Use the recurrence up to beyond 20, and the asymptotic series there."""
    below = 0.0
    while x < 20:
        below -= 1 / x
        x += 1
    return below + math.log(x) - 1 / (2 * x) - 1 / (12 * x**2) + 1 / (120 * x**4) - 1 / (252 * x**6) + 1 / (240 * x**8)


def zeta(s, q):
    """Sum terms until beyond 20, and use the Euler-Maclaurin formula for the rest."""
    s, total = int(s), 0.0
    while q < 20:
        total += q**-s
        q += 1
    rest = q ** (1 - s) / (s - 1) + q**-s / 2 + s * q ** (-s - 1) / 12
    rest -= s * (s + 1) * (s + 2) * q ** (-s - 3) / 720
    return total + rest + s * (s + 1) * (s + 2) * (s + 3) * (s + 4) * q ** (-s - 5) / 30240


def polygamma(x, order=0):
    return digamma(x) if order == 0 else (-1) ** (order + 1) * math.factorial(order) * zeta(order + 1, x)


def mvlgamma(x, p=1):
    return p * (p - 1) / 4 * math.log(math.pi) + sum(math.lgamma(x - j / 2) for j in range(p))


def betaln(a, b):
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def gamma_density(a, x):
    return math.exp((a - 1) * math.log(x) - x - math.lgamma(a))


def igamma(a, x):
    return sum(math.exp((a + k) * math.log(x) - x - math.lgamma(a + k + 1)) for k in range(200))


# ----- Bessel functions as integrals over a period, for which the trapezoidal rule is exact ----------------------------

ANGLES = (np.arange(200) + 0.5) * (math.pi / 200)


def bessel_i(k, x):
    return float(np.mean(np.exp(x * np.cos(ANGLES)) * np.cos(k * ANGLES)))


def bessel_j(k, x):
    return float(np.mean(np.cos(k * ANGLES - x * np.sin(ANGLES))))


def bessel_ratio(x, kind="i", order=1):
    """Integrate, and near 0 use the first terms of the series."""
    sign = -1 if kind == "j" else 1
    scale = math.exp(-abs(x)) if kind == "ie" else 1.0
    if abs(x) < 0.5:
        terms = [(sign * x * x / 4) ** j / (math.factorial(j) * math.factorial(j + order)) for j in range(12)]
        return sum(terms) * 0.5**order * scale
    return (bessel_j if kind == "j" else bessel_i)(order, x) / x**order * scale


def bessel(f, x=AROUND, *, smooth_at_0=True):
    return [*unary(each(f), x), *([Sample((ORIGIN,), reference=each(f))] if smooth_at_0 else [])]


def from_scipy(function, order, x=POSITIVE):
    """Return samples of a function that needs SciPy; none without it."""
    if scipy_special is None:
        return []
    general = getattr(scipy_special, function)
    return unary(lambda v: general(order, v), x)


# ----- probability -----------------------------------------------------------------------------------------------------

NODES, WEIGHTS = np.polynomial.legendre.leggauss(300)


def erfcx(x, order=0):
    """Return 2/sqrt(pi) times the integral of (-2t)^order exp(-t^2 - 2xt) over t > 0."""
    end = min(9 + max(0, -x), 40 / max(x, 1e-9))
    t = (NODES + 1) * end / 2
    return float(np.sum(WEIGHTS * end / 2 * (-2 * t) ** order * np.exp(-t * t - 2 * x * t))) * 2 / math.sqrt(math.pi)


def ndtr(x):
    return math.erfc(-x / math.sqrt(2)) / 2


def entr(x):
    return -x * math.log(x)


# The order of zeta and the shape of the incomplete gamma functions have no derivative. Integers are excluded from the
# checks.
FIXED_FIRST = [
    (ORDERS, POSITIVE), (ORDERS[0], POSITIVE), (ORDERS, POSITIVE[1]), (3, POSITIVE), (2, EMPTY), (ORDERS[0, 0], POSITIVE[0, 0])
]  # fmt: skip

# Without SciPy a continued fraction runs until it has converged everywhere, so the number of calls depends on the
# values.
ITERATED = {} if scipy_special else {"vmap": "calls are counted, and their number depends on the values"}

#: Not integers, so that finite differences can move them; the ops truncate them.
DEGREES = np.array([[0.5, 1.5, 2.4, 3.3], [4.5, 5.2, 7.5, -1.5], [2.5, 1.3, 6.6, 0.4]])
POLYNOMIALS = "chebyshev_t chebyshev_u chebyshev_v chebyshev_w hermite_h hermite_he laguerre_l legendre_p".split()


def polynomial(x, n, family="chebyshev_t", derivatives=0):
    """Use NumPy's series, or angles for the Chebyshev kinds that NumPy lacks."""
    degree = int(n)
    if degree < 0:
        return 0.0
    classes = {"chebyshev_t": "Chebyshev", "hermite_h": "Hermite", "hermite_he": "HermiteE"}
    classes |= {"laguerre_l": "Laguerre", "legendre_p": "Legendre"}
    if family in classes:
        return float(getattr(np.polynomial, classes[family]).basis(degree).deriv(derivatives)(x))
    angle = np.arccos(x + 0j)
    quotients = {
        "chebyshev_u": (np.sin((degree + 1) * angle), np.sin(angle)), "chebyshev_v": (np.cos((degree + 0.5) * angle), np.cos(angle / 2)),
        "chebyshev_w": (np.sin((degree + 0.5) * angle), np.sin(angle / 2)),
    }  # fmt: skip
    above, below = quotients[family]
    return float((above / below).real)


SAMPLES = {
    "lgamma": [*unary(each(math.lgamma), POSITIVE), *unary(each(math.lgamma), SIGNED)],
    "digamma": [*unary(each(digamma), POSITIVE), *unary(each(digamma), SIGNED)],
    "polygamma": [s for n in (0, 1, 2, 3) for x in (POSITIVE, SIGNED) for s in unary(each(polygamma), x, order=n)],
    "mvlgamma": [s for p in (1, 2, 5) for s in unary(each(mvlgamma), POSITIVE + 2.1, p=p)],
    "zeta": [Sample(args, reference=each(zeta)) for args in FIXED_FIRST],
    "betaln": [Sample((abs(a), abs(b)), reference=each(betaln)) for a, b in (s.args for s in real_binary(None))],
    "gamma_density": [
        Sample(args, reference=each(gamma_density))
        for args in [(POSITIVE, POSITIVE[::-1]), (POSITIVE[0], POSITIVE), (2.5, POSITIVE), (EMPTY, EMPTY), *FIXED_FIRST]
    ],
    "igamma": [Sample(args, reference=each(igamma), skip=ITERATED) for args in FIXED_FIRST],
    "igammac": [Sample(args, reference=each(lambda a, x: 1 - igamma(a, x)), skip=ITERATED) for args in FIXED_FIRST],
    "i0": bessel(lambda x: bessel_i(0, x)),
    "i1": bessel(lambda x: bessel_i(1, x)),
    "i0e": bessel(lambda x: bessel_i(0, x) * math.exp(-abs(x)), smooth_at_0=False),
    "i1e": bessel(lambda x: bessel_i(1, x) * math.exp(-abs(x)), smooth_at_0=False),
    "orthogonal_polynomial": [
        *(Sample((x, DEGREES), {"family": family}, each(polynomial)) for family in POLYNOMIALS for x in (INSIDE, AROUND[0] / 3)),
        Sample((INSIDE, DEGREES), {"family": "legendre_p", "derivatives": 2}, each(polynomial)),
        Sample((INSIDE, DEGREES), {"family": "laguerre_l", "derivatives": 1}, each(polynomial)),
        Sample((INSIDE, ORDERS), {"family": "hermite_h"}, each(polynomial)),
        Sample((np.float64(0.3), np.float64(5.5)), {"family": "chebyshev_t"}, each(polynomial)),
        Sample((EMPTY, EMPTY), {"family": "chebyshev_t"}, each(polynomial)),
    ],
    "bessel_ratio": [
        Sample((x,), {"kind": kind, "order": order}, each(bessel_ratio))
        for kind in ("i", "ie", *(["j"] if scipy_special else []))
        for order in (1, 2, 3)
        for x in (AROUND, AROUND[1, 1], EMPTY, *([] if kind == "ie" else [ORIGIN]))
    ],
    "bessel_j0": bessel(lambda x: bessel_j(0, x)) if scipy_special else [],
    "bessel_j1": bessel(lambda x: bessel_j(1, x)) if scipy_special else [],
    "bessel_y0": from_scipy("yv", 0),
    "bessel_y1": from_scipy("yv", 1),
    "modified_bessel_k0": from_scipy("kv", 0),
    "modified_bessel_k1": from_scipy("kv", 1),
    "scaled_modified_bessel_k0": from_scipy("kve", 0),
    "scaled_modified_bessel_k1": from_scipy("kve", 1),
    "erfcx": [s for order in (0, 1, 2) for s in unary(each(erfcx), AROUND[:, :1] + SIGNED / 4 + 1, order=order)],
    "ndtr": unary(each(ndtr), SIGNED),
    "log_ndtr": [*unary(each(lambda x: math.log(ndtr(x))), SIGNED), *unary(each(lambda x: math.log(ndtr(x))), SIGNED * 4 - 12)],
    "ndtri": unary(each(NormalDist().inv_cdf), INSIDE),
    "entr": unary(each(entr), POSITIVE),
}  # fmt: skip

# Enough elements for the fast path.
MANY = np.linspace(0.2, 9.1, 2500)
SAMPLES["polygamma"].append(Sample((MANY,), {"order": 1}, each(polygamma), skip={"vmap": "large arrays run by blocks"}))
