"""Distributions with heavy tails, of extreme values and of logistic kind, in their standard form."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy

import ndgrad.numpy as np
from ndgrad.array_api.special import expit
from ndgrad.scipy.special import log_expit
from ndgrad.scipy.stats.distribution import (
    EULER,
    EVERYWHERE,
    LOG_ROOT_TWO_PI,
    Continuous,
    NoRule,
    S,
    nan,
    one_less_exp,
    only,
    xlogy,
)

if TYPE_CHECKING:
    from ndgrad._typing import Array

# ----- heavy tails ----------------------------------------------------------------------------------------------------


def _cotangent(q: Array, sign: float) -> Array:
    """Return sign / tan(pi q) for q between 0 and 1, by the smaller angle."""
    low, high = q < 0.25, q > 0.75
    ends = sign / np.tan(math.pi * np.where(low, q, 0.25)), -sign / np.tan(math.pi * (1.0 - np.where(high, q, 0.75)))
    return np.where(
        low, ends[0], np.where(high, ends[1], sign * np.tan(math.pi * (0.5 - np.where(low | high, 0.5, q))))
    )


def _half_tangent(q: Array) -> Array:
    """Return tan(pi q / 2) for q between 0 and 1."""
    high = q > 0.5
    return np.where(
        high, 1.0 / np.tan(math.pi / 2 * (1.0 - np.where(high, q, 0.5))), np.tan(math.pi / 2 * np.where(high, 0.5, q))
    )


class Cauchy(Continuous):
    support_at = staticmethod(lambda: EVERYWHERE)
    logpdf_at = staticmethod(lambda x: -math.log(math.pi) - np.log1p(x * x))
    cdf_at = staticmethod(lambda x: np.arctan2(np.ones_like(x), -x) / math.pi)
    sf_at = staticmethod(lambda x: np.arctan2(np.ones_like(x), x) / math.pi)
    ppf_at = staticmethod(lambda q: _cotangent(q, -1.0))
    isf_at = staticmethod(lambda q: _cotangent(q, 1.0))
    entropy_at = staticmethod(lambda: math.log(4 * math.pi))
    moments = staticmethod(lambda: (nan, nan))


class HalfCauchy(Continuous):
    logpdf_at = staticmethod(lambda x: math.log(2 / math.pi) - np.log1p(x * x))
    cdf_at = staticmethod(lambda x: 2.0 / math.pi * np.arctan(x))
    sf_at = staticmethod(lambda x: 2.0 / math.pi * np.arctan2(np.ones_like(x), x))
    ppf_at = staticmethod(lambda q: _half_tangent(q))
    isf_at = staticmethod(lambda q: 1.0 / _half_tangent(q))
    entropy_at = staticmethod(lambda: math.log(2 * math.pi))
    moments = staticmethod(lambda: (numpy.inf, numpy.inf))


class Levy(Continuous):
    vanishes = True
    logpdf_at = staticmethod(lambda x: -LOG_ROOT_TWO_PI - 1.5 * np.log(x) - 0.5 / x)
    cdf_at = staticmethod(lambda x: S.erfc(np.sqrt(0.5 / x)))
    sf_at = staticmethod(lambda x: S.erf(np.sqrt(0.5 / x)))
    ppf_at = staticmethod(lambda q: 1.0 / S.ndtri(q / 2.0) ** 2)
    isf_at = staticmethod(lambda q: 0.5 / S.erfinv(q) ** 2)
    entropy_at = staticmethod(lambda: 0.5 * (1 + 3 * EULER + math.log(16 * math.pi)))
    moments = staticmethod(lambda: (numpy.inf, numpy.inf))


def _log(x: Array) -> Array:
    """Return log(x), near 1 as log1p(x - 1), where the difference is exact."""
    near = abs(x - 1.0) < 0.5
    return np.where(near, np.log1p(np.where(near, x - 1.0, 0.0)), np.log(np.where(near, 2.0, x)))


class Pareto(Continuous):
    shapes = ("b",)
    support_at = staticmethod(lambda b: (1.0, numpy.inf))
    logpdf_at = staticmethod(lambda x, b: np.log(b) - (b + 1.0) * np.log(x))
    cdf_at = staticmethod(lambda x, b: one_less_exp(b * _log(x)))
    sf_at = staticmethod(lambda x, b: x**-b)
    logsf_at = staticmethod(lambda x, b: -b * _log(x))
    ppf_at = staticmethod(lambda q, b: np.exp(-np.log1p(-q) / b))
    isf_at = staticmethod(lambda q, b: q ** (-1.0 / b))
    entropy_at = staticmethod(lambda b: 1.0 + 1.0 / b - np.log(b))

    def moments(self, b: Array) -> tuple[Array, Array]:
        once, twice = np.where(b > 1, b, 2.0), np.where(b > 2, b, 3.0)
        return only(b > 1, once / (once - 1.0), numpy.inf), only(
            b > 2, twice / (twice - 2.0) / (twice - 1.0) ** 2, numpy.inf
        )


class Lomax(Continuous):
    shapes = ("c",)
    logpdf_at = staticmethod(lambda x, c: np.log(c) - (c + 1.0) * np.log1p(x))
    cdf_at = staticmethod(lambda x, c: one_less_exp(c * np.log1p(x)))
    sf_at = staticmethod(lambda x, c: np.exp(-c * np.log1p(x)))
    logsf_at = staticmethod(lambda x, c: -c * np.log1p(x))
    ppf_at = staticmethod(lambda q, c: np.expm1(-np.log1p(-q) / c))
    isf_at = staticmethod(lambda q, c: np.expm1(-np.log(q) / c))
    entropy_at = staticmethod(lambda c: 1.0 + 1.0 / c - np.log(c))

    def moments(self, c: Array) -> tuple[Array, Array]:
        mean, var = Pareto.moments(self, c)  # type: ignore[arg-type]  # another distribution's formula, borrowed
        return mean - 1.0, var


class GeneralizedPareto(Continuous):
    shapes = ("c",)
    valid = staticmethod(lambda c: c == c)

    def support_at(self, c: Array) -> tuple[Array | float, Array | float]:
        return 0.0, np.where(c < 0, -1.0 / np.where(c < 0, c, -1.0), numpy.inf)

    @staticmethod
    def _log(x: Array, c: Array) -> Array:
        """Return log(1 + c x) / c, which is x for c = 0."""
        return x * S.log1prel(c * x)

    def logpdf_at(self, x: Array, c: Array) -> Array:
        return -(c + 1.0) * self._log(x, c)

    def cdf_at(self, x: Array, c: Array) -> Array:
        return one_less_exp(self._log(x, c))

    def sf_at(self, x: Array, c: Array) -> Array:
        return np.exp(-self._log(x, c))

    def logsf_at(self, x: Array, c: Array) -> Array:
        return -self._log(x, c)

    @staticmethod
    def _quantile_of(log: Array, c: Array) -> Array:
        return log * S.exprel(c * log)

    def isf_at(self, q: Array, c: Array) -> Array:
        return self._quantile_of(-np.log(q), c)

    def ppf_at(self, q: Array, c: Array) -> Array:
        return self._quantile_of(-np.log1p(-q), c)

    entropy_at = staticmethod(lambda c: 1.0 + c)

    def moments(self, c: Array) -> tuple[Array, Array]:
        once, twice = np.where(c < 1, c, 0.0), np.where(c < 0.5, c, 0.0)
        var = 1.0 / ((1.0 - twice) ** 2 * (1.0 - 2.0 * twice))
        return only(c < 1, 1.0 / (1.0 - once), numpy.inf), only(c < 0.5, var, numpy.inf)


# ----- extreme values, logistic, Laplace ------------------------------------------------------------------------------


class GumbelRight(Continuous):
    support_at = staticmethod(lambda: EVERYWHERE)
    logpdf_at = staticmethod(lambda x: -x - np.exp(-x))
    cdf_at = staticmethod(lambda x: np.exp(-np.exp(-x)))
    logcdf_at = staticmethod(lambda x: -np.exp(-x))
    sf_at = staticmethod(lambda x: one_less_exp(np.exp(-x)))
    ppf_at = staticmethod(lambda q: -np.log(-np.log(q)))
    isf_at = staticmethod(lambda q: -np.log(-np.log1p(-q)))
    entropy_at = staticmethod(lambda: EULER + 1)
    moments = staticmethod(lambda: (EULER, math.pi**2 / 6))


class GumbelLeft(Continuous):
    support_at = staticmethod(lambda: EVERYWHERE)
    logpdf_at = staticmethod(lambda x: x - np.exp(x))
    cdf_at = staticmethod(lambda x: one_less_exp(np.exp(x)))
    sf_at = staticmethod(lambda x: np.exp(-np.exp(x)))
    logsf_at = staticmethod(lambda x: -np.exp(x))
    ppf_at = staticmethod(lambda q: np.log(-np.log1p(-q)))
    isf_at = staticmethod(lambda q: np.log(-np.log(q)))
    entropy_at = staticmethod(lambda: EULER + 1)
    moments = staticmethod(lambda: (-EULER, math.pi**2 / 6))


class WeibullMin(Continuous):
    shapes = ("c",)
    logpdf_at = staticmethod(lambda x, c: np.log(c) + xlogy(c - 1.0, x) - x**c)
    cdf_at = staticmethod(lambda x, c: one_less_exp(x**c))
    sf_at = staticmethod(lambda x, c: np.exp(-(x**c)))
    logsf_at = staticmethod(lambda x, c: -(x**c))
    ppf_at = staticmethod(lambda q, c: (-np.log1p(-q)) ** (1.0 / c))
    isf_at = staticmethod(lambda q, c: (-np.log(q)) ** (1.0 / c))
    entropy_at = staticmethod(lambda c: -EULER / c - np.log(c) + EULER + 1.0)

    def moments(self, c: Array) -> tuple[Array, Array]:
        mean = np.exp(S.lgamma(1.0 + 1.0 / c))
        return mean, np.exp(S.lgamma(1.0 + 2.0 / c)) - mean * mean


class WeibullMax(Continuous):
    shapes = ("c",)
    support_at = staticmethod(lambda c: (-numpy.inf, 0.0))
    logpdf_at = staticmethod(lambda x, c: np.log(c) + xlogy(c - 1.0, -x) - (-x) ** c)
    cdf_at = staticmethod(lambda x, c: np.exp(-((-x) ** c)))
    logcdf_at = staticmethod(lambda x, c: -((-x) ** c))
    sf_at = staticmethod(lambda x, c: one_less_exp((-x) ** c))
    ppf_at = staticmethod(lambda q, c: -((-np.log(q)) ** (1.0 / c)))
    isf_at = staticmethod(lambda q, c: -((-np.log1p(-q)) ** (1.0 / c)))
    entropy_at = staticmethod(lambda c: -EULER / c - np.log(c) + EULER + 1.0)

    def moments(self, c: Array) -> tuple[Array, Array]:
        mean, var = WeibullMin.moments(self, c)  # type: ignore[arg-type]  # another distribution's formula, borrowed
        return -mean, var


class GeneralizedExtreme(Continuous):
    vanishes = True
    shapes = ("c",)
    valid = staticmethod(lambda c: c == c)

    def support_at(self, c: Array) -> tuple[Array | float, Array | float]:
        end = 1.0 / np.where(c == 0, 1.0, c)
        return np.where(c < 0, end, -numpy.inf), np.where(c > 0, end, numpy.inf)

    @staticmethod
    def _log(x: Array, c: Array) -> Array:
        """Return log(1 - c x) / c, which is -x for c = 0."""
        return -x * S.log1prel(-c * x)

    def logpdf_at(self, x: Array, c: Array) -> Array:
        log = self._log(x, c)
        return log - np.exp(log) - c * log

    def logcdf_at(self, x: Array, c: Array) -> Array:
        return -np.exp(self._log(x, c))

    def cdf_at(self, x: Array, c: Array) -> Array:
        return np.exp(self.logcdf_at(x, c))

    def sf_at(self, x: Array, c: Array) -> Array:
        return one_less_exp(-self.logcdf_at(x, c))

    @staticmethod
    def _quantile_of(log: Array, c: Array) -> Array:
        """Return -expm1(-c x) / c for x = -log(-log q)."""
        return log * S.exprel(-c * log)

    def ppf_at(self, q: Array, c: Array) -> Array:
        return self._quantile_of(-np.log(-np.log(q)), c)

    def isf_at(self, q: Array, c: Array) -> Array:
        return self._quantile_of(-np.log(-np.log1p(-q)), c)

    entropy_at = staticmethod(lambda c: EULER * (1.0 - c) + 1.0)


class Logistic(Continuous):
    support_at = staticmethod(lambda: EVERYWHERE)
    logpdf_at = staticmethod(lambda x: log_expit(x) + log_expit(-x))
    cdf_at = staticmethod(lambda x: expit(x))
    sf_at = staticmethod(lambda x: expit(-x))
    logcdf_at = staticmethod(lambda x: log_expit(x))
    logsf_at = staticmethod(lambda x: log_expit(-x))
    ppf_at = staticmethod(lambda q: np.log(q) - np.log1p(-q))
    isf_at = staticmethod(lambda q: np.log1p(-q) - np.log(q))
    entropy_at = staticmethod(lambda: 2.0)
    moments = staticmethod(lambda: (0.0, math.pi**2 / 3))


class HalfLogistic(Continuous):
    logpdf_at = staticmethod(lambda x: math.log(2) - x - 2.0 * np.log1p(np.exp(-x)))
    sf_at = staticmethod(lambda x: 2.0 * S.sigmoid(-x))
    ppf_at = staticmethod(lambda q: 2.0 * np.arctanh(q))
    isf_at = staticmethod(lambda q: np.log(2.0 - q) - np.log(q))
    entropy_at = staticmethod(lambda: 2 - math.log(2))
    moments = staticmethod(lambda: (2 * math.log(2), math.pi**2 / 3 - 4 * math.log(2) ** 2))

    @staticmethod
    def cdf_at(x: Array) -> Array:
        near = x < 1.0
        return np.where(near, np.tanh(np.where(near, x, 0.0) / 2.0), 1.0 - 2.0 * S.sigmoid(-np.where(near, 1.0, x)))


class Laplace(Continuous):
    """The Laplace distribution. The density has a corner at 0, which counts as level; the distribution function has
    none.
    """

    support_at = staticmethod(lambda: EVERYWHERE)
    logpdf_at = staticmethod(lambda x: -math.log(2) - abs(x))
    sf_at = staticmethod(lambda x: Laplace.cdf_at(-x))
    isf_at = staticmethod(lambda q: -Laplace.ppf_at(q))
    entropy_at = staticmethod(lambda: math.log(2) + 1)
    moments = staticmethod(lambda: (0.0, 2.0))

    @staticmethod
    def cdf_at(x: Array) -> Array:
        above = x > 0
        tail = 0.5 * np.exp(np.where(above, -x, x))
        return np.where(above, 1.0 - tail, tail)

    @staticmethod
    def ppf_at(q: Array) -> Array:
        above = q > 0.5
        log = np.log(2.0 * np.where(above, 1.0 - q, q))
        return np.where(above, -log, log)


class HyperbolicSecant(Continuous):
    support_at = staticmethod(lambda: EVERYWHERE)
    logpdf_at = staticmethod(lambda x: math.log(2 / math.pi) - x + log_expit(2.0 * x))
    cdf_at = staticmethod(lambda x: 2.0 / math.pi * np.arctan(np.exp(x)))
    sf_at = staticmethod(lambda x: 2.0 / math.pi * np.arctan(np.exp(-x)))
    ppf_at = staticmethod(lambda q: np.log(_half_tangent(q)))
    isf_at = staticmethod(lambda q: -np.log(_half_tangent(q)))
    entropy_at = staticmethod(lambda: math.log(2 * math.pi))
    moments = staticmethod(lambda: (0.0, math.pi**2 / 4))


class Rayleigh(Continuous):
    logpdf_at = staticmethod(lambda x: np.log(x) - 0.5 * x * x)
    cdf_at = staticmethod(lambda x: one_less_exp(0.5 * x * x))
    sf_at = staticmethod(lambda x: np.exp(-0.5 * x * x))
    logsf_at = staticmethod(lambda x: -0.5 * x * x)
    ppf_at = staticmethod(lambda q: np.sqrt(-2.0 * np.log1p(-q)))
    isf_at = staticmethod(lambda q: np.sqrt(-2.0 * np.log(q)))
    entropy_at = staticmethod(lambda: EULER / 2 + 1 - 0.5 * math.log(2))
    moments = staticmethod(lambda: (math.sqrt(math.pi / 2), 2 - math.pi / 2))


class Gompertz(Continuous):
    shapes = ("c",)
    logpdf_at = staticmethod(lambda x, c: np.log(c) + x - c * np.expm1(x))
    cdf_at = staticmethod(lambda x, c: one_less_exp(c * np.expm1(x)))
    sf_at = staticmethod(lambda x, c: np.exp(-c * np.expm1(x)))
    logsf_at = staticmethod(lambda x, c: -c * np.expm1(x))
    ppf_at = staticmethod(lambda q, c: np.log1p(-np.log1p(-q) / c))
    isf_at = staticmethod(lambda q, c: np.log1p(-np.log(q) / c))


class Fisk(Continuous):
    shapes = ("c",)
    logpdf_at = staticmethod(lambda x, c: np.log(c) + xlogy(c - 1.0, x) - 2.0 * np.log1p(x**c))
    cdf_at = staticmethod(lambda x, c: 1.0 / (1.0 + x**-c))
    sf_at = staticmethod(lambda x, c: 1.0 / (1.0 + x**c))
    ppf_at = staticmethod(lambda q, c: (q / (1.0 - q)) ** (1.0 / c))
    isf_at = staticmethod(lambda q, c: ((1.0 - q) / q) ** (1.0 / c))
    entropy_at = staticmethod(lambda c: 2.0 - np.log(c))


class JohnsonSU(Continuous):
    shapes = ("a", "b")
    valid = staticmethod(lambda a, b: (b > 0) & (a == a))
    support_at = staticmethod(lambda a, b: EVERYWHERE)

    @staticmethod
    def logpdf_at(x: Array, a: Array, b: Array) -> Array:
        z = a + b * np.arcsinh(x)
        return np.log(b) - 0.5 * np.log1p(x * x) - 0.5 * z * z - LOG_ROOT_TWO_PI

    cdf_at = staticmethod(lambda x, a, b: S.ndtr(a + b * np.arcsinh(x)))
    sf_at = staticmethod(lambda x, a, b: S.ndtr(-(a + b * np.arcsinh(x))))
    ppf_at = staticmethod(lambda q, a, b: np.sinh((S.ndtri(q) - a) / b))
    isf_at = staticmethod(lambda q, a, b: np.sinh((-S.ndtri(q) - a) / b))


class VonMises(Continuous):
    """The von Mises distribution, without a distribution function, which has no closed form."""

    shapes = ("kappa",)
    support_at = staticmethod(lambda kappa: EVERYWHERE)
    logpdf_at = staticmethod(lambda x, kappa: kappa * (np.cos(x) - 1.0) - math.log(2 * math.pi) - np.log(S.i0e(kappa)))
    moments = staticmethod(lambda kappa: (nan, nan))

    @staticmethod
    def entropy_at(kappa: Array) -> Array:
        return -kappa * S.i1e(kappa) / S.i0e(kappa) + math.log(2 * math.pi) + np.log(S.i0e(kappa)) + kappa

    def _moments(self, args: tuple[Any, ...], kwds: dict[str, Any]) -> tuple[Array, Array]:
        raise NoRule("the ratio of Bessel functions i1e / i0e, for moments on the circle")
