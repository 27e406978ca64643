"""The continuous distributions of ndgrad.scipy.stats in mpmath: log-density and both tails of the standard form, with shapes from tiny to
large."""

from __future__ import annotations

import mpmath as mp

inf = mp.inf
half = mp.mpf(1) / 2
log, exp, sqrt, pi, gamma, loggamma = mp.log, mp.exp, mp.sqrt, mp.pi, mp.gamma, mp.loggamma


def P(a, x):
    return mp.gammainc(a, 0, x, regularized=True)


def Q(a, x):
    return mp.gammainc(a, x, inf, regularized=True)


def B(a, b, x):
    return mp.betainc(a, b, 0, x, regularized=True)


def log_beta(a, b):
    return loggamma(a) + loggamma(b) - loggamma(a + b)


def phi(x):
    return -x * x / 2 - log(2 * pi) / 2


def N(x):
    return mp.erfc(-x / sqrt(2)) / 2


def one(x, a):
    """log(1 + a x) / a."""
    return x if a == 0 else mp.log1p(a * x) / a


def symmetric(tail):
    """Both tails of a symmetric distribution from the left one."""
    return lambda x, *s: tail(x, *s) if x <= 0 else 1 - tail(-x, *s), lambda x, *s: tail(-x, *s) if x >= 0 else 1 - tail(x, *s)


def from_logs(logcdf, logsf):
    return lambda *v: exp(logcdf(*v)), lambda *v: exp(logsf(*v))


def student(sign):
    def tail(x, v):
        x = sign * x
        series = x * gamma((v + 1) / 2) / (sqrt(pi * v) * gamma(v / 2)) * mp.hyp2f1(half, (v + 1) / 2, 3 * half, -x * x / v)
        return half + series

    return tail


def general_normal(sign):
    def tail(x, b):
        x = sign * x
        size = abs(x)
        part = Q(1 / b, size**b) / 2
        return part if x <= 0 else 1 - part

    return tail


def triangular_pdf(x, c):
    return log(2 * x / c if x < c else 2 * (1 - x) / (1 - c))


def owens_t(h, a):
    return mp.quad(lambda x: exp(-h * h * (1 + x * x) / 2) / (1 + x * x), [0, a]) / (2 * pi)


def skew_normal(sign):
    """Phi(x) - 2 T(x, a), T being an integral over a short interval; its cancellation costs mpmath nothing."""
    return lambda x, a: N(x) - 2 * owens_t(x, a) if sign > 0 else N(-x) + 2 * owens_t(x, a)


def inverse_gauss(x, mu):
    return N((x / mu - 1) / sqrt(x)) + exp(2 / mu) * N(-(x / mu + 1) / sqrt(x))


def inverse_gauss_sf(x, mu):
    return N(-(x / mu - 1) / sqrt(x)) - exp(2 / mu) * N(-(x / mu + 1) / sqrt(x))


def expmod(x, K):
    return N(x) - exp(1 / (2 * K * K) - x / K) * N(x - 1 / K)


def expmod_sf(x, K):
    return N(-x) + exp(1 / (2 * K * K) - x / K) * N(x - 1 / K)


def extreme(x, c):
    return x if c == 0 else -mp.log1p(-c * x) / c


S1 = ((0.05,), (0.7,), (1.0,), (2.0,), (3.5,), (80.0,))
MID = ((0.7,), (1.0,), (2.0,), (3.5,))
#: name -> (shapes, log-density, distribution function, its complement)
TABLE = {
    "norm": (((),), phi, N, lambda x: N(-x)),
    "halfnorm": (((),), lambda x: log(2) + phi(x), lambda x: mp.erf(x / sqrt(2)), lambda x: mp.erfc(x / sqrt(2))),
    "lognorm": (
        ((0.05,), (0.7,), (3.0,)), lambda x, s: phi(log(x) / s) - log(s * x), lambda x, s: N(log(x) / s),
        lambda x, s: N(-log(x) / s),
    ),
    "truncnorm": (
        ((-0.8, 2.1), (-2.0, 30.0), (3.0, 5.0), (8.0, 9.0), (-9.0, -8.0)),
        lambda x, a, b: phi(x) - log(N(b) - N(a)), lambda x, a, b: (N(x) - N(a)) / (N(b) - N(a)),
        lambda x, a, b: (N(b) - N(x)) / (N(b) - N(a)),
    ),
    "skewnorm": (((-2.0,), (0.0,), (1.5,), (6.0,)), lambda x, a: log(2) + phi(x) + log(N(a * x)), skew_normal(1), skew_normal(-1)),
    "exponnorm": (((0.05,), (0.4,), (1.3,), (9.0,)), lambda x, K: 1 / (2 * K * K) - x / K - log(K) + log(N(x - 1 / K)), expmod, expmod_sf),
    "invgauss": (
        ((0.02,), (0.9,), (7.0,)),
        lambda x, m: -3 * log(x) / 2 - log(2 * pi) / 2 - ((x - m) / m) ** 2 / (2 * x), inverse_gauss, inverse_gauss_sf,
    ),
    "moyal": (
        ((),), lambda x: -(x + exp(-x)) / 2 - log(2 * pi) / 2, lambda x: mp.erfc(exp(-x / 2) / sqrt(2)),
        lambda x: mp.erf(exp(-x / 2) / sqrt(2)),
    ),
    "uniform": (((),), lambda x: 0 * x, lambda x: x, lambda x: 1 - x),
    "loguniform": (
        ((0.5, 3.0), (1e-6, 1.0), (1.0, 1.0 + 1e-7)), lambda x, a, b: -log(x) - log(log(b / a)), lambda x, a, b: log(x / a) / log(b / a),
        lambda x, a, b: log(b / x) / log(b / a),
    ),
    "triang": (
        ((0.4,), (0.05,), (0.9,)), triangular_pdf, lambda x, c: x * x / c if x < c else 1 - (1 - x) ** 2 / (1 - c),
        lambda x, c: 1 - x * x / c if x < c else (1 - x) ** 2 / (1 - c),
    ),
    "powerlaw": (S1, lambda x, a: log(a) + (a - 1) * log(x), lambda x, a: x**a, lambda x, a: 1 - x**a),
    "arcsine": (
        ((),), lambda x: -log(pi) - log(x * (1 - x)) / 2, lambda x: 2 / pi * mp.asin(sqrt(x)), lambda x: 2 / pi * mp.asin(sqrt(1 - x)),
    ),
    "expon": (((),), lambda x: -x, lambda x: -mp.expm1(-x), lambda x: exp(-x)),
    "gamma": (S1, lambda x, a: (a - 1) * log(x) - x - loggamma(a), lambda x, a: P(a, x), lambda x, a: Q(a, x)),
    "chi2": (
        ((0.1,), (1.0,), (2.0,), (3.4,), (90.0,)), lambda x, v: (v / 2 - 1) * log(x) - x / 2 - loggamma(v / 2) - v / 2 * log(2),
        lambda x, v: P(v / 2, x / 2), lambda x, v: Q(v / 2, x / 2),
    ),
    "chi": (
        ((0.1,), (1.0,), (2.7,), (90.0,)), lambda x, v: log(2) - v / 2 * log(2) - loggamma(v / 2) + (v - 1) * log(x) - x * x / 2,
        lambda x, v: P(v / 2, x * x / 2), lambda x, v: Q(v / 2, x * x / 2),
    ),
    "maxwell": (
        ((),), lambda x: log(2 / pi) / 2 + 2 * log(x) - x * x / 2, lambda x: P(3 * half, x * x / 2),
        lambda x: Q(3 * half, x * x / 2),
    ),
    "invgamma": (S1, lambda x, a: -(a + 1) * log(x) - loggamma(a) - 1 / x, lambda x, a: Q(a, 1 / x), lambda x, a: P(a, 1 / x)),
    "loggamma": (S1, lambda x, c: c * x - exp(x) - loggamma(c), lambda x, c: P(c, exp(x)), lambda x, c: Q(c, exp(x))),
    "nakagami": (
        ((0.3,), (0.5,), (1.8,), (50.0,)), lambda x, n: log(2) + n * log(n) - loggamma(n) + (2 * n - 1) * log(x) - n * x * x,
        lambda x, n: P(n, n * x * x), lambda x, n: Q(n, n * x * x),
    ),
    "gennorm": (
        ((0.4,), (1.0,), (1.3,), (2.0,), (8.0,)),
        lambda x, b: log(b / 2) - loggamma(1 / b) - abs(x) ** b, general_normal(1), general_normal(-1),
    ),
    "beta": (
        ((0.1, 0.2), (1.0, 1.0), (1.6, 2.7), (40.0, 3.0), (1.0, 3.0)),
        lambda x, a, b: (a - 1) * log(x) + (b - 1) * mp.log1p(-x) - log_beta(a, b), lambda x, a, b: B(a, b, x),
        lambda x, a, b: B(b, a, 1 - x),
    ),
    "betaprime": (
        ((0.3, 0.6), (2.1, 3.5), (1.0, 2.0), (30.0, 8.0)), lambda x, a, b: (a - 1) * log(x) - (a + b) * mp.log1p(x) - log_beta(a, b),
        lambda x, a, b: B(a, b, x / (1 + x)), lambda x, a, b: B(b, a, 1 / (1 + x)),
    ),
    "f": (
        ((0.5, 1.5), (2.0, 4.0), (3.2, 6.1), (60.0, 7.0)),
        lambda x, n, m: m / 2 * log(m) + n / 2 * log(n) + (n / 2 - 1) * log(x) - (n + m) / 2 * log(m + n * x) - log_beta(n / 2, m / 2),
        lambda x, n, m: B(n / 2, m / 2, n * x / (m + n * x)), lambda x, n, m: B(m / 2, n / 2, m / (m + n * x)),
    ),
    "t": (
        ((0.3,), (1.0,), (4.5,), (300.0,), (1e7,)),
        lambda x, v: loggamma((v + 1) / 2) - loggamma(v / 2) - log(pi * v) / 2 - (v + 1) / 2 * mp.log1p(x * x / v), student(1), student(-1),
    ),
    "cauchy": (((),), lambda x: -log(pi) - mp.log1p(x * x), lambda x: mp.atan2(1, -x) / pi, lambda x: mp.atan2(1, x) / pi),
    "halfcauchy": (((),), lambda x: log(2 / pi) - mp.log1p(x * x), lambda x: 2 / pi * mp.atan(x), lambda x: 2 / pi * mp.atan2(1, x)),
    "levy": (
        ((),), lambda x: -log(2 * pi) / 2 - 3 * log(x) / 2 - 1 / (2 * x), lambda x: mp.erfc(sqrt(1 / (2 * x))),
        lambda x: mp.erf(sqrt(1 / (2 * x))),
    ),
    "pareto": (S1, lambda x, b: log(b) - (b + 1) * log(x), lambda x, b: 1 - x**-b, lambda x, b: x**-b),
    "lomax": (S1, lambda x, c: log(c) - (c + 1) * mp.log1p(x), lambda x, c: 1 - (1 + x) ** -c, lambda x, c: (1 + x) ** -c),
    "genpareto": (
        ((-0.6,), (-1e-9,), (0.0,), (1e-9,), (1e-4,), (0.2,), (3.0,)), lambda x, c: -(c + 1) * one(x, c),
        *from_logs(lambda x, c: log(-mp.expm1(-one(x, c))), lambda x, c: -one(x, c)),
    ),
    "gumbel_r": (((),), lambda x: -x - exp(-x), lambda x: exp(-exp(-x)), lambda x: -mp.expm1(-exp(-x))),
    "gumbel_l": (((),), lambda x: x - exp(x), lambda x: -mp.expm1(-exp(x)), lambda x: exp(-exp(x))),
    "weibull_min": (
        ((0.3,), *MID, (30.0,)), lambda x, c: log(c) + (c - 1) * log(x) - x**c, lambda x, c: -mp.expm1(-(x**c)), lambda x, c: exp(-(x**c)),
    ),
    "weibull_max": (
        ((0.3,), *MID, (30.0,)), lambda x, c: log(c) + (c - 1) * log(-x) - (-x) ** c, lambda x, c: exp(-((-x) ** c)),
        lambda x, c: -mp.expm1(-((-x) ** c)),
    ),
    "genextreme": (
        ((-0.6,), (-1e-9,), (0.0,), (1e-9,), (1e-4,), (0.2,), (3.0,)),
        lambda x, c: -(1 - c) * extreme(x, c) - exp(-extreme(x, c)),
        *from_logs(lambda x, c: -exp(-extreme(x, c)), lambda x, c: log(-mp.expm1(-exp(-extreme(x, c))))),
    ),
    "logistic": (((),), lambda x: -x - 2 * mp.log1p(exp(-x)), lambda x: 1 / (1 + exp(-x)), lambda x: 1 / (1 + exp(x))),
    "halflogistic": (((),), lambda x: log(2) - x - 2 * mp.log1p(exp(-x)), lambda x: mp.tanh(x / 2), lambda x: 2 / (1 + exp(x))),
    "laplace": (((),), lambda x: -log(2) - abs(x), *symmetric(lambda x: exp(x) / 2)),
    "hypsecant": (((),), lambda x: -log(pi) - log(mp.cosh(x)), lambda x: 2 / pi * mp.atan(exp(x)), lambda x: 2 / pi * mp.atan(exp(-x))),
    "rayleigh": (((),), lambda x: log(x) - x * x / 2, lambda x: -mp.expm1(-x * x / 2), lambda x: exp(-x * x / 2)),
    "gompertz": (
        ((1e-6,), (0.9,), (40.0,)), lambda x, c: log(c) + x - c * mp.expm1(x), lambda x, c: -mp.expm1(-c * mp.expm1(x)),
        lambda x, c: exp(-c * mp.expm1(x)),
    ),
    "fisk": (
        ((0.4,), *MID, (30.0,)), lambda x, c: log(c) + (c - 1) * log(x) - 2 * mp.log1p(x**c), lambda x, c: 1 / (1 + x**-c),
        lambda x, c: 1 / (1 + x**c),
    ),
    "johnsonsu": (
        ((0.3, 1.6), (-4.0, 0.5), (0.0, 30.0)), lambda x, a, b: log(b) - mp.log1p(x * x) / 2 + phi(a + b * mp.asinh(x)),
        lambda x, a, b: N(a + b * mp.asinh(x)), lambda x, a, b: N(-(a + b * mp.asinh(x))),
    ),
    "vonmises": (((1e-4,), (1.7,), (200.0,)), lambda x, k: k * mp.cos(x) - log(2 * pi * mp.besseli(0, k)), None, None),
}  # fmt: skip
TABLE["erlang"], TABLE["reciprocal"] = TABLE["gamma"], TABLE["loguniform"]
#: Points at which a density (or its derivative in x) has a corner, besides the ends of the support.
CORNERS = {"laplace": lambda *s: [0.0], "gennorm": lambda b: [] if b in (2.0, 8.0) else [0.0], "triang": lambda c: [c]}


def functions(name):
    """Method -> mpmath's function of (x, *shapes)."""
    _, logpdf, cdf, sf = TABLE[name]
    found = {"logpdf": logpdf, "pdf": lambda *v: exp(logpdf(*v))}
    if cdf is not None:
        found |= {"cdf": cdf, "sf": sf, "logcdf": lambda *v: log(cdf(*v)), "logsf": lambda *v: log(sf(*v))}
    return found
