"""Exponential, gamma and beta distributions, chi-square, F and Student's t among them, in their standard form."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy

import ndgrad.numpy as np
from ndgrad._src.ops import distribution as ops
from ndgrad._src.ops import gamma as gamma_ops
from ndgrad.array_api.special import fdtr, fdtrc
from ndgrad.scipy.stats.distribution import (
    EULER,
    EVERYWHERE,
    LOG_ROOT_TWO_PI,
    Continuous,
    S,
    nan,
    one_less_exp,
    only,
    xlog1py,
    xlogy,
)

if TYPE_CHECKING:
    from ndgrad._typing import Array

# ----- exponential and gamma ------------------------------------------------------------------------------------------


class Exponential(Continuous):
    logpdf_at = staticmethod(lambda x: -x)
    cdf_at = staticmethod(lambda x: one_less_exp(x))
    sf_at = staticmethod(lambda x: np.exp(-x))
    logsf_at = staticmethod(lambda x: -x)
    ppf_at = staticmethod(lambda q: -np.log1p(-q))
    isf_at = staticmethod(lambda q: -np.log(q))
    entropy_at = staticmethod(lambda: 1.0)
    moments = staticmethod(lambda: (1.0, 1.0))


class Gamma(Continuous):
    shapes = ("a",)
    logpdf_at = staticmethod(lambda x, a: xlogy(a - 1.0, x) - x - S.lgamma(a))
    cdf_at = staticmethod(lambda x, a: gamma_ops.igamma(a, x))
    sf_at = staticmethod(lambda x, a: gamma_ops.igammac(a, x))
    ppf_at = staticmethod(lambda q, a: ops.igamma_inverse(a, q))
    isf_at = staticmethod(lambda q, a: ops.igammac_inverse(a, q))
    entropy_at = staticmethod(lambda a: S.digamma(a) * (1.0 - a) + a + S.lgamma(a))
    moments = staticmethod(lambda a: (a, a))


class Chi2(Continuous):
    shapes = ("df",)
    logpdf_at = staticmethod(
        lambda x, df: xlogy(df / 2.0 - 1.0, x) - x / 2.0 - S.lgamma(df / 2.0) - math.log(2) / 2 * df
    )
    cdf_at = staticmethod(lambda x, df: gamma_ops.igamma(df / 2.0, x / 2.0))
    sf_at = staticmethod(lambda x, df: gamma_ops.igammac(df / 2.0, x / 2.0))
    ppf_at = staticmethod(lambda q, df: 2.0 * ops.igamma_inverse(df / 2.0, q))
    isf_at = staticmethod(lambda q, df: 2.0 * ops.igammac_inverse(df / 2.0, q))
    entropy_at = staticmethod(
        lambda df: df / 2.0 + math.log(2) + S.lgamma(df / 2.0) + (1.0 - df / 2.0) * S.digamma(df / 2.0)
    )
    moments = staticmethod(lambda df: (df, 2.0 * df))


class Chi(Continuous):
    shapes = ("df",)
    logpdf_at = staticmethod(
        lambda x, df: math.log(2) - 0.5 * math.log(2) * df - S.lgamma(0.5 * df) + xlogy(df - 1.0, x) - 0.5 * x * x
    )
    cdf_at = staticmethod(lambda x, df: gamma_ops.igamma(0.5 * df, 0.5 * x * x))
    sf_at = staticmethod(lambda x, df: gamma_ops.igammac(0.5 * df, 0.5 * x * x))
    ppf_at = staticmethod(lambda q, df: np.sqrt(2.0 * ops.igamma_inverse(0.5 * df, q)))
    isf_at = staticmethod(lambda q, df: np.sqrt(2.0 * ops.igammac_inverse(0.5 * df, q)))

    def moments(self, df: Array) -> tuple[Array, Array]:
        mean = math.sqrt(2) * S.poch(df / 2.0, 0.5)
        return mean, df - mean * mean

    entropy_at = staticmethod(
        lambda df: S.lgamma(df / 2.0) + 0.5 * (df - math.log(2) - (df - 1.0) * S.digamma(df / 2.0))
    )


class Maxwell(Continuous):
    logpdf_at = staticmethod(lambda x: 0.5 * math.log(2 / math.pi) + 2.0 * np.log(x) - 0.5 * x * x)
    cdf_at = staticmethod(lambda x: gamma_ops.igamma(1.5 + 0.0 * x, 0.5 * x * x))
    sf_at = staticmethod(lambda x: gamma_ops.igammac(1.5 + 0.0 * x, 0.5 * x * x))
    ppf_at = staticmethod(lambda q: np.sqrt(2.0 * ops.igamma_inverse(1.5 + 0.0 * q, q)))
    isf_at = staticmethod(lambda q: np.sqrt(2.0 * ops.igammac_inverse(1.5 + 0.0 * q, q)))
    entropy_at = staticmethod(lambda: EULER + 0.5 * math.log(2 * math.pi) - 0.5)
    moments = staticmethod(lambda: (2 * math.sqrt(2 / math.pi), 3 - 8 / math.pi))


class InverseGamma(Continuous):
    vanishes = True
    shapes = ("a",)
    logpdf_at = staticmethod(lambda x, a: -(a + 1.0) * np.log(x) - S.lgamma(a) - 1.0 / x)
    cdf_at = staticmethod(lambda x, a: gamma_ops.igammac(a, 1.0 / x))
    sf_at = staticmethod(lambda x, a: gamma_ops.igamma(a, 1.0 / x))
    ppf_at = staticmethod(lambda q, a: 1.0 / ops.igammac_inverse(a, q))
    isf_at = staticmethod(lambda q, a: 1.0 / ops.igamma_inverse(a, q))
    entropy_at = staticmethod(lambda a: a - (a + 1.0) * S.digamma(a) + S.lgamma(a))

    def moments(self, a: Array) -> tuple[Array, Array]:
        once, twice = np.where(a > 1, a, 2.0), np.where(a > 2, a, 3.0)
        return only(a > 1, 1.0 / (once - 1.0), numpy.inf), only(
            a > 2, 1.0 / (twice - 1.0) ** 2 / (twice - 2.0), numpy.inf
        )


class LogGamma(Continuous):
    shapes = ("c",)
    support_at = staticmethod(lambda c: EVERYWHERE)
    logpdf_at = staticmethod(lambda x, c: c * x - np.exp(x) - S.lgamma(c))
    cdf_at = staticmethod(lambda x, c: gamma_ops.igamma(c, np.exp(x)))
    sf_at = staticmethod(lambda x, c: gamma_ops.igammac(c, np.exp(x)))
    ppf_at = staticmethod(lambda q, c: np.log(ops.igamma_inverse(c, q)))
    isf_at = staticmethod(lambda q, c: np.log(ops.igammac_inverse(c, q)))
    entropy_at = staticmethod(lambda c: S.lgamma(c) - c * S.digamma(c) + c)
    moments = staticmethod(lambda c: (S.digamma(c), S.polygamma(c, order=1)))


class Nakagami(Continuous):
    shapes = ("nu",)
    logpdf_at = staticmethod(
        lambda x, nu: math.log(2) + nu * np.log(nu) - S.lgamma(nu) + xlogy(2.0 * nu - 1.0, x) - nu * x * x
    )
    cdf_at = staticmethod(lambda x, nu: gamma_ops.igamma(nu, nu * x * x))
    sf_at = staticmethod(lambda x, nu: gamma_ops.igammac(nu, nu * x * x))
    ppf_at = staticmethod(lambda q, nu: np.sqrt(ops.igamma_inverse(nu, q) / nu))
    isf_at = staticmethod(lambda q, nu: np.sqrt(ops.igammac_inverse(nu, q) / nu))

    def moments(self, nu: Array) -> tuple[Array, Array]:
        mean = S.poch(nu, 0.5) / np.sqrt(nu)
        return mean, 1.0 - mean * mean


class GeneralizedNormal(Continuous):
    """The generalised normal distribution. The power of |x| is a separate op, which has all its derivatives at 0."""

    shapes = ("beta",)
    support_at = staticmethod(lambda beta: EVERYWHERE)
    logpdf_at = staticmethod(lambda x, beta: np.log(0.5 * beta) - S.lgamma(1.0 / beta) - ops.distance_power(x, beta))

    @staticmethod
    def _near(x: Array, beta: Array) -> Array:
        """Return cdf - 1/2 up to |x| = 1, with a = 1 / beta and y = |x|^beta: x/2 exp(-y) / gamma(a + 1) sum over k of
        y^k / ((a+1) ... (a+k)).
        """
        a, y = 1.0 / beta, ops.distance_power(x, beta)
        series: Any = 1.0
        for k in range(20, 0, -1):
            series = series * y / (a + float(k)) + 1.0
        return 0.5 * x * np.exp(-y) * S.rgamma(a + 1.0) * series

    def cdf_at(self, x: Array, beta: Array) -> Array:
        near, above = abs(x) < 1.0, x > 0
        far = np.where(near, 1.0, np.where(above, x, -x))
        tail = 0.5 * gamma_ops.igammac(1.0 / beta, far**beta)
        return np.where(near, 0.5 + self._near(np.where(near, x, 0.0), beta), np.where(above, 1.0 - tail, tail))

    def sf_at(self, x: Array, beta: Array) -> Array:
        return self.cdf_at(-x, beta)

    entropy_at = staticmethod(lambda beta: 1.0 / beta - np.log(0.5 * beta) + S.lgamma(1.0 / beta))
    moments = staticmethod(lambda beta: (0.0, np.exp(S.lgamma(3.0 / beta) - S.lgamma(1.0 / beta))))

    def ppf_at(self, q: Array, beta: Array) -> Array:
        """Return the quantile: from the tail if the tail is short, near the middle from the mass in between. In the
        middle itself a Newton step, and for a density that is smooth there a second one, make the quantile exact up to
        terms of second and of fourth order.
        """
        middle, inner, above = q == 0.5, (q > 0.25) & (q < 0.75), q > 0.5
        tail = 2.0 * np.where(inner, 0.2, np.where(above, 1.0 - q, q))
        half = np.where(inner & ~middle, np.where(above, 2.0 * q - 1.0, 1.0 - 2.0 * q), 0.5)
        a = 1.0 / beta
        size = np.where(inner, ops.igamma_inverse(a, half), ops.igammac_inverse(a, tail)) ** a
        first = np.where(middle, q - 0.5, 0.0) / (0.5 * beta * S.rgamma(a))
        smooth = middle & (beta >= 2.0)
        start, power = np.where(smooth, first, 0.5), np.where(smooth, beta, 2.0)
        second = start - (self._near(start, power) - np.where(smooth, q - 0.5, 0.0)) / self.pdf_at(start, power)
        return np.where(smooth, second, np.where(middle, first, np.where(above, size, -size)))

    def isf_at(self, q: Array, beta: Array) -> Array:
        return -self.ppf_at(q, beta)


# ----- beta, F, t -----------------------------------------------------------------------------------------------------


class Beta(Continuous):
    shapes = ("a", "b")
    support_at = staticmethod(lambda a, b: (0.0, 1.0))
    logpdf_at = staticmethod(lambda x, a, b: xlog1py(b - 1.0, -x) + xlogy(a - 1.0, x) - S.betaln(a, b))
    cdf_at = staticmethod(lambda x, a, b: ops.betainc(a, b, x))
    sf_at = staticmethod(lambda x, a, b: ops.betaincc(a, b, x))
    ppf_at = staticmethod(lambda q, a, b: ops.betainc_inverse(a, b, q))
    isf_at = staticmethod(lambda q, a, b: ops.betaincc_inverse(a, b, q))
    moments = staticmethod(lambda a, b: (a / (a + b), a * b / ((a + b) ** 2 * (a + b + 1.0))))

    @staticmethod
    def entropy_at(a: Array, b: Array) -> Array:
        return S.betaln(a, b) - (a - 1.0) * S.digamma(a) - (b - 1.0) * S.digamma(b) + (a + b - 2.0) * S.digamma(a + b)


class BetaPrime(Continuous):
    shapes = ("a", "b")
    logpdf_at = staticmethod(lambda x, a, b: xlogy(a - 1.0, x) - xlog1py(a + b, x) - S.betaln(a, b))
    cdf_at = staticmethod(lambda x, a, b: fdtr(2.0 * a, 2.0 * b, x * b / a))
    sf_at = staticmethod(lambda x, a, b: fdtrc(2.0 * a, 2.0 * b, x * b / a))

    @staticmethod
    def ppf_at(q: Array, a: Array, b: Array) -> Array:
        # Compute 1 - r from the other end if r is near 1.
        return ops.betainc_inverse(a, b, q) / ops.betaincc_inverse(b, a, q)

    @staticmethod
    def isf_at(q: Array, a: Array, b: Array) -> Array:
        return ops.betaincc_inverse(a, b, q) / ops.betainc_inverse(b, a, q)

    def moments(self, a: Array, b: Array) -> tuple[Array, Array]:
        once, twice = np.where(b > 1, b, 2.0), np.where(b > 2, b, 3.0)
        var = a * (a + twice - 1.0) / ((twice - 2.0) * (twice - 1.0) ** 2)
        return only(b > 1, a / (once - 1.0), numpy.inf), only(b > 2, var, numpy.inf)


class F(Continuous):
    shapes = ("dfn", "dfd")

    @staticmethod
    def logpdf_at(x: Array, dfn: Array, dfd: Array) -> Array:
        n, m = dfn / 2.0, dfd / 2.0
        ratio = dfn / dfd
        return n * np.log(ratio) + xlogy(n - 1.0, x) - (n + m) * np.log1p(ratio * x) - S.betaln(n, m)

    cdf_at = staticmethod(lambda x, dfn, dfd: fdtr(dfn, dfd, x))
    sf_at = staticmethod(lambda x, dfn, dfd: fdtrc(dfn, dfd, x))

    @staticmethod
    def ppf_at(q: Array, dfn: Array, dfd: Array) -> Array:
        n, m = dfn / 2.0, dfd / 2.0
        return ops.betainc_inverse(n, m, q) / ops.betaincc_inverse(m, n, q) * dfd / dfn

    @staticmethod
    def isf_at(q: Array, dfn: Array, dfd: Array) -> Array:
        n, m = dfn / 2.0, dfd / 2.0
        return ops.betaincc_inverse(n, m, q) / ops.betainc_inverse(m, n, q) * dfd / dfn

    def moments(self, dfn: Array, dfd: Array) -> tuple[Array, Array]:
        once, twice = np.where(dfd > 2, dfd, 3.0), np.where(dfd > 4, dfd, 5.0)
        var = 2.0 * twice**2 * (dfn + twice - 2.0) / (dfn * (twice - 2.0) ** 2 * (twice - 4.0))
        return only(dfd > 2, once / (once - 2.0), numpy.inf), only(dfd > 4, var, numpy.inf)

    @staticmethod
    def entropy_at(dfn: Array, dfd: Array) -> Array:
        n, m = dfn / 2.0, dfd / 2.0
        rest = (1.0 - n) * S.digamma(n) - (1.0 + m) * S.digamma(m) + (n + m) * S.digamma(n + m)
        return np.log(dfd) - np.log(dfn) + S.betaln(n, m) + rest


class StudentT(Continuous):
    """Student's t. With infinitely many degrees of freedom it is the normal distribution."""

    shapes = ("df",)
    support_at = staticmethod(lambda df: EVERYWHERE)

    @staticmethod
    def logpdf_at(x: Array, df: Array) -> Array:
        endless = df == numpy.inf
        half = np.where(endless, 1.0, df) / 2.0
        scale = np.log(S.poch(half, 0.5)) - 0.5 * np.log(half * (2 * math.pi))
        return np.where(endless, -0.5 * x * x - LOG_ROOT_TWO_PI, scale - (half + 0.5) * np.log1p(x * x / (2.0 * half)))

    cdf_at = staticmethod(lambda x, df: ops.stdtr(df, x))
    sf_at = staticmethod(lambda x, df: ops.stdtr(df, -x))
    ppf_at = staticmethod(lambda q, df: ops.stdtr_inverse(df, q))
    isf_at = staticmethod(lambda q, df: -ops.stdtr_inverse(df, q))

    def moments(self, df: Array) -> tuple[Array, Array]:
        wide = np.where(df > 2, df, 3.0)
        return only(df > 1, 0.0, numpy.inf), np.where(df > 2, wide / (wide - 2.0), np.where(df > 1, numpy.inf, nan))

    @staticmethod
    def entropy_at(df: Array) -> Array:
        half = df / 2.0
        return (half + 0.5) * gamma_ops.digamma_rise(half, 0.5, S) + 0.5 * np.log(df) + S.betaln(half, 0.5 + 0.0 * half)
