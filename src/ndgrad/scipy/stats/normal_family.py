"""The normal distribution and its relatives, and distributions on an interval, in their standard form."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy

import ndgrad.numpy as np
from ndgrad._src.arrays.special.shape_derivatives import TAIL_NODES as tail_nodes
from ndgrad._src.arrays.special.shape_derivatives import TAIL_WEIGHTS as tail_weights
from ndgrad.scipy.stats.distribution import EULER, EVERYWHERE, LOG_ROOT_TWO_PI, Continuous, S, one_less_exp, xlogy

if TYPE_CHECKING:
    from ndgrad._typing import Array

# ----- normal and its kin ---------------------------------------------------------------------------------------------


class Normal(Continuous):
    support_at = staticmethod(lambda: EVERYWHERE)
    logpdf_at = staticmethod(lambda x: -0.5 * x * x - LOG_ROOT_TWO_PI)
    cdf_at = staticmethod(lambda x: S.ndtr(x))
    sf_at = staticmethod(lambda x: S.ndtr(-x))
    logcdf_at = staticmethod(lambda x: S.log_ndtr(x))
    logsf_at = staticmethod(lambda x: S.log_ndtr(-x))
    ppf_at = staticmethod(lambda q: S.ndtri(q))
    isf_at = staticmethod(lambda q: -S.ndtri(q))
    entropy_at = staticmethod(lambda: LOG_ROOT_TWO_PI + 0.5)
    moments = staticmethod(lambda: (0.0, 1.0))


class HalfNormal(Continuous):
    logpdf_at = staticmethod(lambda x: 0.5 * math.log(2 / math.pi) - 0.5 * x * x)
    cdf_at = staticmethod(lambda x: S.erf(x * math.sqrt(0.5)))
    sf_at = staticmethod(lambda x: 2.0 * S.ndtr(-x))
    isf_at = staticmethod(lambda q: -S.ndtri(q / 2.0))
    entropy_at = staticmethod(lambda: 0.5 * math.log(math.pi / 2) + 0.5)

    @staticmethod
    def ppf_at(q: Array) -> Array:
        above = q > 0.5
        tail = -S.ndtri(np.where(above, 1.0 - q, 0.5) / 2.0)
        return np.where(above, tail, math.sqrt(2) * S.erfinv(np.where(above, 0.5, q)))

    moments = staticmethod(lambda: (math.sqrt(2 / math.pi), 1 - 2 / math.pi))


class LogNormal(Continuous):
    vanishes = True
    shapes = ("s",)
    logpdf_at = staticmethod(lambda x, s: -((np.log(x) / s) ** 2) / 2.0 - np.log(s * x) - LOG_ROOT_TWO_PI)
    cdf_at = staticmethod(lambda x, s: S.ndtr(np.log(x) / s))
    sf_at = staticmethod(lambda x, s: S.ndtr(-np.log(x) / s))
    logcdf_at = staticmethod(lambda x, s: S.log_ndtr(np.log(x) / s))
    logsf_at = staticmethod(lambda x, s: S.log_ndtr(-np.log(x) / s))
    ppf_at = staticmethod(lambda q, s: np.exp(s * S.ndtri(q)))
    isf_at = staticmethod(lambda q, s: np.exp(-s * S.ndtri(q)))
    entropy_at = staticmethod(lambda s: 0.5 + LOG_ROOT_TWO_PI + np.log(s))
    moments = staticmethod(lambda s: (np.exp(s * s / 2.0), np.exp(s * s) * np.expm1(s * s)))


class TruncatedNormal(Continuous):
    shapes = ("a", "b")

    def valid(self, a: Array, b: Array) -> Array:
        return a < b

    def fallback(self, place: int) -> float:
        return float(place)

    def support_at(self, a: Array, b: Array) -> tuple[Array | float, Array | float]:
        return a, b

    @staticmethod
    def _log_mass(a: Array, b: Array) -> Array:
        """Return log(Phi(b) - Phi(a)): in the left tail directly, in the right tail mirrored."""
        right = a > 0
        low, high = np.where(right, -b, a), np.where(right, -a, b)
        far = low == -numpy.inf
        # For a narrow interval the difference cancels. There the density's series around the middle, in Hermite
        # polynomials, is integrated.
        width, middle = np.where(far, 1.0, high - low), np.where(far, 0.0, 0.5 * (high + low))
        narrow = ~far & (width * (1.0 + abs(middle)) < 0.05)
        w, m = np.where(narrow, width, 0.01) ** 2, np.where(narrow, middle, 0.0) ** 2
        series = w * (
            (m - 1.0) / 24.0
            + w * (((m - 6.0) * m + 3.0) / 1920.0 + w * (((m - 15.0) * m + 45.0) * m - 15.0) / 322560.0)
        )
        little = -0.5 * m - LOG_ROOT_TWO_PI + 0.5 * np.log(w) + np.log1p(series)
        upper = S.log_ndtr(high)
        lower = S.log_ndtr(np.where(far | narrow, high - 1.0, low))
        return np.where(narrow, little, np.where(far, upper, upper + np.log1p(-np.exp(lower - upper))))

    def logpdf_at(self, x: Array, a: Array, b: Array) -> Array:
        return -0.5 * x * x - LOG_ROOT_TWO_PI - self._log_mass(a, b)

    def logcdf_at(self, x: Array, a: Array, b: Array) -> Array:
        return self._log_mass(a, x) - self._log_mass(a, b)

    def logsf_at(self, x: Array, a: Array, b: Array) -> Array:
        return self._log_mass(x, b) - self._log_mass(a, b)

    def cdf_at(self, x: Array, a: Array, b: Array) -> Array:
        return np.exp(self.logcdf_at(x, a, b))

    def sf_at(self, x: Array, a: Array, b: Array) -> Array:
        return np.exp(self.logsf_at(x, a, b))

    def ppf_at(self, q: Array, a: Array, b: Array) -> Array:
        right = a > 0
        q = np.where(right, 1.0 - q, q)
        low, high = np.where(right, -b, a), np.where(right, -a, b)
        found = S.ndtri(S.ndtr(low) * (1.0 - q) + S.ndtr(high) * q)
        return np.where(right, -found, found)

    def isf_at(self, q: Array, a: Array, b: Array) -> Array:
        return -self.ppf_at(q, -b, -a)

    def _ends(self, a: Array, b: Array) -> tuple[Any, Any, Any, Any]:
        """Return densities at the ends, and these times the ends, 0 at infinity."""
        log = self._log_mass(a, b)
        found = []
        for e in (a, b):
            finite = abs(e) < numpy.inf
            inner = np.where(finite, e, 0.0)
            p = np.where(finite, np.exp(-0.5 * inner * inner - LOG_ROOT_TWO_PI - log), 0.0)
            found += [p, p * inner]
        return found[0], found[1], found[2], found[3]

    def entropy_at(self, a: Array, b: Array) -> Array:
        _, at_a, _, at_b = self._ends(a, b)
        return LOG_ROOT_TWO_PI + 0.5 + self._log_mass(a, b) + (at_a - at_b) / 2.0

    def moments(self, a: Array, b: Array) -> tuple[Array, Array]:
        p, at_a, q, at_b = self._ends(a, b)
        mean = p - q
        return mean, 1.0 + at_a - at_b - mean * mean


class SkewNormal(Continuous):
    shapes = ("a",)
    valid = staticmethod(lambda a: a == a)
    support_at = staticmethod(lambda a: EVERYWHERE)
    logpdf_at = staticmethod(lambda x, a: math.log(2) - 0.5 * x * x - LOG_ROOT_TWO_PI + S.log_ndtr(a * x))
    sf_at = staticmethod(lambda x, a: SkewNormal.cdf_at(-x, -a))

    @staticmethod
    def cdf_at(x: Array, a: Array) -> Array:
        """Return Phi(x) - 2 T(x, a), or in the short tail, where these cancel, the integral of 2 phi(t) Phi(a t) from
        -x on,

            (2 pi)^(-1/2) exp(-c x^2/2) times the integral over s > 0 of exp(-c s (h + s/2)) erfcx(a (h + s) / sqrt 2)

        with h = -x and c = 1 + a^2, by the double exponential rule of arrays.special.shape_derivatives, which is nearly
        exact for a fixed number of nodes.
        """
        tail = (a * x < -1.0) & (x < 0)
        h, skew = np.where(tail, -x, 1.0)[..., None], np.where(tail, a, 1.0)[..., None]
        c = 1.0 + skew * skew
        s = tail_nodes / (c * h + np.sqrt(c)).detach()
        inner = (np.exp(-c * s * (h + 0.5 * s)) * S.erfcx(skew * (h + s) * math.sqrt(0.5)) * tail_weights).sum(axis=-1)
        scale = np.exp(-0.5 * c * h * h - LOG_ROOT_TWO_PI) / (c * h + np.sqrt(c)).detach()
        x, a = np.where(tail, 0.0, x), np.where(tail, 0.0, a)
        return np.where(tail, inner * scale[..., 0], S.ndtr(x) - 2.0 * S.owens_t(x, a))

    def moments(self, a: Array) -> tuple[Array, Array]:
        mean = math.sqrt(2 / math.pi) * a / np.sqrt(1.0 + a * a)
        return mean, 1.0 - mean * mean


class ExponentiallyModifiedNormal(Continuous):
    shapes = ("K",)
    support_at = staticmethod(lambda K: EVERYWHERE)
    logpdf_at = staticmethod(lambda x, K: 0.5 / (K * K) - x / K - np.log(K) + S.log_ndtr(x - 1.0 / K))
    cdf_at = staticmethod(lambda x, K: S.ndtr(x) - np.exp(0.5 / (K * K) - x / K + S.log_ndtr(x - 1.0 / K)))
    sf_at = staticmethod(lambda x, K: S.ndtr(-x) + np.exp(0.5 / (K * K) - x / K + S.log_ndtr(x - 1.0 / K)))
    moments = staticmethod(lambda K: (K, 1.0 + K * K))


class InverseGaussian(Continuous):
    vanishes = True
    shapes = ("mu",)
    logpdf_at = staticmethod(lambda x, mu: -1.5 * np.log(x) - LOG_ROOT_TWO_PI - ((x - mu) / mu) ** 2 / (2.0 * x))

    @staticmethod
    def logcdf_at(x: Array, mu: Array) -> Array:
        r = 1.0 / np.sqrt(x)
        return np.logaddexp(S.log_ndtr(r * (x / mu - 1.0)), 2.0 / mu + S.log_ndtr(-r * (x / mu + 1.0)))

    @staticmethod
    def logsf_at(x: Array, mu: Array) -> Array:
        r = 1.0 / np.sqrt(x)
        first = S.log_ndtr(-r * (x / mu - 1.0))
        return first + np.log1p(-np.exp(2.0 / mu + S.log_ndtr(-r * (x / mu + 1.0)) - first))

    def cdf_at(self, x: Array, mu: Array) -> Array:
        return np.exp(self.logcdf_at(x, mu))

    def sf_at(self, x: Array, mu: Array) -> Array:
        return np.exp(self.logsf_at(x, mu))

    moments = staticmethod(lambda mu: (mu, mu**3))


class Moyal(Continuous):
    support_at = staticmethod(lambda: EVERYWHERE)
    logpdf_at = staticmethod(lambda x: -(x + np.exp(-x)) / 2.0 - LOG_ROOT_TWO_PI)
    cdf_at = staticmethod(lambda x: S.erfc(np.exp(-0.5 * x) / math.sqrt(2)))
    sf_at = staticmethod(lambda x: S.erf(np.exp(-0.5 * x) / math.sqrt(2)))
    ppf_at = staticmethod(lambda q: -2.0 * np.log(-S.ndtri(q / 2.0)))
    isf_at = staticmethod(lambda q: -2.0 * np.log(math.sqrt(2) * S.erfinv(q)))
    moments = staticmethod(lambda: (math.log(2) + EULER, math.pi**2 / 2))


# ----- uniform and polynomial densities -------------------------------------------------------------------------------


class Uniform(Continuous):
    support_at = staticmethod(lambda: (0.0, 1.0))
    logpdf_at = staticmethod(lambda x: 0.0 * x)
    cdf_at = staticmethod(lambda x: x)
    sf_at = staticmethod(lambda x: 1.0 - x)
    ppf_at = staticmethod(lambda q: q)
    isf_at = staticmethod(lambda q: 1.0 - q)
    entropy_at = staticmethod(lambda: 0.0)
    moments = staticmethod(lambda: (0.5, 1 / 12))


def _log_ratio(x: Array, a: Array) -> Array:
    """Return log(x / a), with its digits for x near a."""
    near = abs(x - a) < 0.5 * a
    return np.where(near, np.log1p(np.where(near, x - a, 0.0) / a), np.log(np.where(near, a, x)) - np.log(a))


class LogUniform(Continuous):
    shapes = ("a", "b")
    valid = staticmethod(lambda a, b: (a > 0) & (b > a))
    support_at = staticmethod(lambda a, b: (a, b))
    logpdf_at = staticmethod(lambda x, a, b: -np.log(x) - np.log(_log_ratio(b, a)))
    cdf_at = staticmethod(lambda x, a, b: _log_ratio(x, a) / _log_ratio(b, a))
    sf_at = staticmethod(lambda x, a, b: _log_ratio(b, x) / _log_ratio(b, a))
    ppf_at = staticmethod(lambda q, a, b: a * np.exp(q * _log_ratio(b, a)))
    isf_at = staticmethod(lambda q, a, b: b * np.exp(-q * _log_ratio(b, a)))
    entropy_at = staticmethod(lambda a, b: 0.5 * (np.log(a) + np.log(b)) + np.log(_log_ratio(b, a)))

    def fallback(self, place: int) -> float:
        return 1.0 + place

    def moments(self, a: Array, b: Array) -> tuple[Array, Array]:
        width = _log_ratio(b, a)
        mean = (b - a) / width
        return mean, (b * b - a * a) / (2.0 * width) - mean * mean


class Triangular(Continuous):
    shapes = ("c",)
    valid = staticmethod(lambda c: (c >= 0) & (c <= 1))
    support_at = staticmethod(lambda c: (0.0, 1.0))

    @staticmethod
    def pdf_at(x: Array, c: Array) -> Array:
        up = np.where(c == 0, 0.0, x / np.where(c == 0, 1.0, c))
        down = np.where(c == 1, 0.0, (1.0 - x) / np.where(c == 1, 1.0, 1.0 - c))
        return 2.0 * np.where((x < c) | (c == 1), up, down)

    def logpdf_at(self, x: Array, c: Array) -> Array:
        return np.log(self.pdf_at(x, c))

    @staticmethod
    def cdf_at(x: Array, c: Array) -> Array:
        up = np.where(c == 0, 0.0, x * x / np.where(c == 0, 1.0, c))
        down = 1.0 - np.where(c == 1, 0.0, (1.0 - x) ** 2 / np.where(c == 1, 1.0, 1.0 - c))
        return np.where((x < c) | (c == 1), up, down)

    @staticmethod
    def sf_at(x: Array, c: Array) -> Array:
        return Triangular.cdf_at(1.0 - x, 1.0 - c)

    @staticmethod
    def ppf_at(q: Array, c: Array) -> Array:
        low = q < c
        return np.where(
            low, np.sqrt(np.where(low, c * q, 0.25)), 1.0 - np.sqrt(np.where(low, 0.25, (1.0 - c) * (1.0 - q)))
        )

    isf_at = staticmethod(lambda q, c: 1.0 - Triangular.ppf_at(q, 1.0 - c))
    entropy_at = staticmethod(lambda c: 0.5 - math.log(2) + 0.0 * c)
    moments = staticmethod(lambda c: ((c + 1.0) / 3.0, (1.0 - c + c * c) / 18.0))


class PowerLaw(Continuous):
    shapes = ("a",)
    support_at = staticmethod(lambda a: (0.0, 1.0))
    logpdf_at = staticmethod(lambda x, a: np.log(a) + xlogy(a - 1.0, x))
    cdf_at = staticmethod(lambda x, a: x**a)
    logcdf_at = staticmethod(lambda x, a: a * np.log(x))
    sf_at = staticmethod(lambda x, a: one_less_exp(-a * np.log(x)))
    ppf_at = staticmethod(lambda q, a: q ** (1.0 / a))
    isf_at = staticmethod(lambda q, a: np.exp(np.log1p(-q) / a))
    entropy_at = staticmethod(lambda a: 1.0 - 1.0 / a - np.log(a))
    moments = staticmethod(lambda a: (a / (a + 1.0), a / (a + 2.0) / (a + 1.0) ** 2))


class Arcsine(Continuous):
    support_at = staticmethod(lambda: (0.0, 1.0))
    logpdf_at = staticmethod(lambda x: -math.log(math.pi) - 0.5 * np.log(x * (1.0 - x)))

    @staticmethod
    def sf_at(x: Array) -> Array:
        # Not cdf(1 - x), which has lost the digits of a small x.
        above = x > 0.5
        half = 2.0 / math.pi * np.arcsin(np.sqrt(np.where(above, 1.0 - x, x)))
        return np.where(above, half, 1.0 - half)

    ppf_at = staticmethod(lambda q: np.sin(math.pi / 2 * q) ** 2)
    isf_at = staticmethod(lambda q: np.cos(math.pi / 2 * q) ** 2)
    entropy_at = staticmethod(lambda: -0.24156447527049044468)
    moments = staticmethod(lambda: (0.5, 0.125))

    @staticmethod
    def cdf_at(x: Array) -> Array:
        above = x > 0.5
        half = 2.0 / math.pi * np.arcsin(np.sqrt(np.where(above, 1.0 - x, x)))
        return np.where(above, 1.0 - half, half)
