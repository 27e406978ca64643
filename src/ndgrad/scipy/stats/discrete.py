"""The discrete distributions: probabilities of whole numbers, differentiable in the parameters.

Points and quantiles are integers, which have no derivative. Draws have no history. They raise an error if a parameter
carries a derivative, because an integer draw is not a smooth function of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy

import ndgrad.numpy as np
from ndgrad._src.ops import distribution as ops
from ndgrad._src.ops import gamma as gamma_ops
from ndgrad.numpy.coercion import constant, values_of
from ndgrad.scipy._without_rules import refuse_active
from ndgrad.scipy.stats.distribution import (
    Distribution,
    NoRule,
    S,
    bare,
    log_of_smaller,
    one_less_exp,
    or_scipys,
    real,
    scipys,
    xlog1py,
    xlogy,
)

if TYPE_CHECKING:
    from ndgrad._typing import Array, ArrayLike, RandomState, Shape

_DRAWS = "a continuous relaxation, or the log-probability of the draw (the score function): logpmf(draw, ...)"


class Discrete(Distribution):
    """Base class: subclasses give formulas at integers inside the support, for loc=0."""

    has_scale = False

    def support_at(self, *shapes: Any) -> tuple[Array | float, Array | float]:
        return 0.0, numpy.inf

    def logpmf_at(self, k: Array, *shapes: Any) -> Array:
        raise NotImplementedError

    def pmf_at(self, k: Array, *shapes: Any) -> Array:
        return np.exp(self.logpmf_at(k, *shapes))

    def cdf_at(self, k: Array, *shapes: Any) -> Array:
        raise NoRule("sum pmf(arange(k + 1), ...)")

    def sf_at(self, k: Array, *shapes: Any) -> Array:
        return 1.0 - self.cdf_at(k, *shapes)

    def entropy_at(self, *shapes: Any) -> Array:
        raise NoRule("sum -pmf * logpmf over the support")

    def _evaluate_mass(
        self, k: ArrayLike, args: tuple[Any, ...], kwds: dict[str, Any], formula: Callable[..., Any], below: float,
        above: float, exact: bool,
    ) -> Array:  # fmt: skip
        shapes, loc, scale = self.parameters(args, kwds)
        given = real(k)
        good, shapes, _ = self.safe(shapes, scale)
        low, high = self.support_at(*shapes)
        x = given - loc
        point = np.floor(x).detach()
        inside = (point >= low) & ((point <= high) if exact else (point < high)) & good
        if exact:
            inside = inside & (x == point)
        value = formula(*self._inner(inside, point, shapes, low))
        value = np.where(inside, value, np.where(point < low, below, above))
        return np.where(good & ~np.isnan(given), value, numpy.nan)

    def _inner(self, inside: Array, point: Array, shapes: list[Any], low: ArrayLike) -> list[Array]:
        """Return numbers and shapes. A number outside is replaced by the first number of another distribution, as for
        continuous ones.
        """
        if numpy.all(bare(inside)):
            return [point, *shapes]
        others = [np.where(inside, s, self.fallback(i)) for i, s in enumerate(shapes)]
        return [np.where(inside, point, self.support_at(*others)[0]), *others]

    def fallback(self, place: int) -> float:
        return 0.5 if self.shapes[place] == "p" else 1.0

    @or_scipys
    def pmf(self, k: ArrayLike, *args: Any, **kwds: Any) -> Array:
        return self._evaluate_mass(k, args, kwds, self.pmf_at, 0.0, 0.0, True)

    @or_scipys
    def logpmf(self, k: ArrayLike, *args: Any, **kwds: Any) -> Array:
        return self._evaluate_mass(k, args, kwds, self.logpmf_at, -numpy.inf, -numpy.inf, True)

    @or_scipys
    def cdf(self, k: ArrayLike, *args: Any, **kwds: Any) -> Array:
        return self._evaluate_mass(k, args, kwds, self.cdf_at, 0.0, 1.0, False)

    @or_scipys
    def sf(self, k: ArrayLike, *args: Any, **kwds: Any) -> Array:
        return self._evaluate_mass(k, args, kwds, self.sf_at, 1.0, 0.0, False)

    @or_scipys
    def logcdf(self, k: ArrayLike, *args: Any, **kwds: Any) -> Array:
        return self._evaluate_mass(
            k, args, kwds, lambda *v: log_of_smaller(self.cdf_at(*v), lambda: self.sf_at(*v)), -numpy.inf, 0.0, False
        )

    @or_scipys
    def logsf(self, k: ArrayLike, *args: Any, **kwds: Any) -> Array:
        return self._evaluate_mass(
            k, args, kwds, lambda *v: log_of_smaller(self.sf_at(*v), lambda: self.cdf_at(*v)), 0.0, -numpy.inf, False
        )

    def _whole(self, method: str, q: ArrayLike, args: tuple[Any, ...], kwds: dict[str, Any]) -> Array:
        shapes, loc, _ = self.parameters(args, kwds)
        given = [values_of(v.detach()) for v in (real(q), *shapes, loc)]
        return constant(numpy.asarray(getattr(scipys(self.name), method)(*given)))

    def ppf(self, q: ArrayLike, *args: Any, **kwds: Any) -> Array:
        """Return the quantile: an integer, without a derivative."""
        return self._whole("ppf", q, args, kwds)

    def isf(self, q: ArrayLike, *args: Any, **kwds: Any) -> Array:
        return self._whole("isf", q, args, kwds)

    def support(self, *args: Any, **kwds: Any) -> tuple[Array, Array]:
        shapes, loc, _ = self.parameters(args, kwds)
        low, high = self.support_at(*shapes)
        return loc + low, loc + high

    @or_scipys
    def entropy(self, *args: Any, **kwds: Any) -> Array:
        shapes, _, scale = self.parameters(args, kwds)
        good, shapes, _ = self.safe(shapes, scale)
        return np.where(good, self.entropy_at(*shapes), numpy.nan)

    def rvs(self, *args: Any, size: Shape | None = None, random_state: RandomState = None, **kwds: Any) -> Array:
        refuse_active(f"{self.name}.rvs", (args, kwds), _DRAWS)
        drawn = constant(numpy.asarray(self._draw(args, kwds, size, random_state)))
        return drawn[0] if size is None and drawn.size == 1 else drawn


def _log_choose(n: Array, k: Array) -> Array:
    return S.lgamma(n + 1.0) - S.lgamma(k + 1.0) - S.lgamma(n - k + 1.0)


def _combine_powers(
    edge: Array, inner: Callable[[Any], Any], p: Array, log_scale: Array, powers: Callable[[Any], Any],
) -> Array:  # fmt: skip
    """Return a probability as the exponential of its logarithm. At an edge of the parameter, where that is infinite, it
    is a product of powers.
    """
    scale = np.exp(np.minimum(log_scale, 700.0))  # its factor is 0, 1 or the derivative of a low power
    return np.where(edge, scale * powers(np.where(edge, p, 0.5)), inner(np.where(edge, 0.5, p)))


def _probability(p: Array) -> Array:
    return (p >= 0) & (p <= 1)


class Bernoulli(Discrete):
    shapes = ("p",)
    valid = staticmethod(_probability)
    support_at = staticmethod(lambda p: (0.0, 1.0))
    logpmf_at = staticmethod(lambda k, p: xlogy(k, p) + xlog1py(1.0 - k, -p))
    pmf_at = staticmethod(lambda k, p: np.where(k == 1, p, 1.0 - p))
    cdf_at = staticmethod(lambda k, p: 1.0 - p + 0.0 * k)
    sf_at = staticmethod(lambda k, p: p + 0.0 * k)
    entropy_at = staticmethod(lambda p: S.entr(p) + S.entr(1.0 - p))
    moments = staticmethod(lambda p: (p, p * (1.0 - p)))


class Binomial(Discrete):
    shapes = ("n", "p")
    valid = staticmethod(lambda n, p: (n >= 0) & (n == np.floor(n).detach()) & _probability(p))
    support_at = staticmethod(lambda n, p: (0.0, n.detach()))
    logpmf_at = staticmethod(lambda k, n, p: _log_choose(n, k) + xlogy(k, p) + xlog1py(n - k, -p))
    cdf_at = staticmethod(lambda k, n, p: ops.betaincc(k + 1.0, n - k, p))
    sf_at = staticmethod(lambda k, n, p: ops.betainc(k + 1.0, n - k, p))
    moments = staticmethod(lambda n, p: (n * p, n * p * (1.0 - p)))

    def pmf_at(self, k: Array, n: Array, p: Array) -> Array:
        inner, powers = lambda q: np.exp(self.logpmf_at(k, n, q)), lambda q: q**k * (1.0 - q) ** (n - k)
        return _combine_powers((p == 0) | (p == 1), inner, p, _log_choose(n, k), powers)


class Poisson(Discrete):
    shapes = ("mu",)
    valid = staticmethod(lambda mu: mu >= 0)
    logpmf_at = staticmethod(lambda k, mu: xlogy(k, mu) - S.lgamma(k + 1.0) - mu)
    cdf_at = staticmethod(lambda k, mu: gamma_ops.igammac(k + 1.0, mu))
    sf_at = staticmethod(lambda k, mu: gamma_ops.igamma(k + 1.0, mu))
    moments = staticmethod(lambda mu: (mu, mu))

    def pmf_at(self, k: Array, mu: Array) -> Array:
        inner, powers = lambda m: np.exp(self.logpmf_at(k, m)), lambda m: m**k * np.exp(-m)
        return _combine_powers(mu == 0, inner, mu, -S.lgamma(k + 1.0), powers)


class Geometric(Discrete):
    shapes = ("p",)
    valid = staticmethod(lambda p: (p > 0) & (p <= 1))
    support_at = staticmethod(lambda p: (1.0, numpy.inf))
    logpmf_at = staticmethod(lambda k, p: xlog1py(k - 1.0, -p) + np.log(p))
    sf_at = staticmethod(
        lambda k, p: _combine_powers(p == 1, lambda q: np.exp(k * np.log1p(-q)), p, 0.0 * p, lambda q: (1.0 - q) ** k)
    )
    cdf_at = staticmethod(
        lambda k, p: _combine_powers(
            p == 1, lambda q: one_less_exp(-k * np.log1p(-q)), p, 0.0 * p, lambda q: 1.0 - (1.0 - q) ** k
        )
    )
    entropy_at = staticmethod(lambda p: -np.log(p) - np.log1p(-p) * (1.0 - p) / p)

    def pmf_at(self, k: Array, p: Array) -> Array:
        inner, powers = lambda q: np.exp(self.logpmf_at(k, q)), lambda q: (1.0 - q) ** (k - 1.0) * q
        return _combine_powers(p == 1, inner, p, 0.0 * p, powers)

    moments = staticmethod(lambda p: (1.0 / p, (1.0 - p) / p / p))


class NegativeBinomial(Discrete):
    shapes = ("n", "p")
    valid = staticmethod(lambda n, p: (n > 0) & (p > 0) & (p <= 1))
    logpmf_at = staticmethod(
        lambda k, n, p: S.lgamma(n + k) - S.lgamma(k + 1.0) - S.lgamma(n) + n * np.log(p) + xlog1py(k, -p)
    )
    cdf_at = staticmethod(lambda k, n, p: ops.betainc(n, k + 1.0, p))
    sf_at = staticmethod(lambda k, n, p: ops.betaincc(n, k + 1.0, p))
    moments = staticmethod(lambda n, p: (n * (1.0 - p) / p, n * (1.0 - p) / p / p))

    def pmf_at(self, k: Array, n: Array, p: Array) -> Array:
        inner, powers = lambda q: np.exp(self.logpmf_at(k, n, q)), lambda q: q**n * (1.0 - q) ** k
        return _combine_powers(p == 1, inner, p, S.lgamma(n + k) - S.lgamma(k + 1.0) - S.lgamma(n), powers)


class BetaBinomial(Discrete):
    shapes = ("n", "a", "b")
    valid = staticmethod(lambda n, a, b: (n >= 0) & (a > 0) & (b > 0))
    support_at = staticmethod(lambda n, a, b: (0.0, n.detach()))

    @staticmethod
    def logpmf_at(k: Array, n: Array, a: Array, b: Array) -> Array:
        return -np.log(n + 1.0) - S.betaln(n - k + 1.0, k + 1.0) + S.betaln(k + a, n - k + b) - S.betaln(a, b)

    @staticmethod
    def moments(n: Array, a: Array, b: Array) -> tuple[Array, Array]:
        p = a / (a + b)
        return n * p, n * (a + b + n) * p * (1.0 - p) / (a + b + 1.0)


class DiscreteUniform(Discrete):
    """The discrete uniform distribution. Its ends are integers, so it has no derivative."""

    shapes = ("low", "high")
    valid = staticmethod(lambda low, high: high > low)
    support_at = staticmethod(lambda low, high: (low.detach(), high.detach() - 1.0))
    pmf_at = staticmethod(lambda k, low, high: 1.0 / (high - low).detach() + 0.0 * k)
    logpmf_at = staticmethod(lambda k, low, high: -np.log((high - low).detach()) + 0.0 * k)
    cdf_at = staticmethod(lambda k, low, high: (k - low.detach() + 1.0) / (high - low).detach())
    moments = staticmethod(
        lambda low, high: ((high + low).detach() / 2.0 - 0.5, ((high - low).detach() ** 2 - 1.0) / 12.0)
    )
    entropy_at = staticmethod(lambda low, high: np.log((high - low).detach()))

    def fallback(self, place: int) -> float:
        return float(place)


bernoulli = Bernoulli("bernoulli", "One trial with probability p.", "pmf(1, 0.25) -> array(0.25)")
binom = Binomial("binom", "Successes among n trials.", "pmf(1, 2, 0.5) -> array(0.5)")
poisson = Poisson("poisson", "Poisson's distribution of counts.", "pmf(0, 1.0) -> array(0.36787944)")
geom = Geometric("geom", "Trials up to the first success.", "pmf(2, 0.5) -> array(0.25)")
nbinom = NegativeBinomial("nbinom", "Failures before the n-th success.", "pmf(1, 2.0, 0.5) -> array(0.25)")
betabinom = BetaBinomial(
    "betabinom", "Successes among n trials whose probability is a beta variable.",
    "pmf(1, 2, 1.0, 1.0) -> array(0.33333333)",
)  # fmt: skip
randint = DiscreteUniform(
    "randint", "The whole numbers from low to high - 1, all alike.",
    "pmf(1, 0, 4) -> array(0.25)",
)  # fmt: skip

__all__ = [
    "bernoulli", "binom", "poisson", "geom", "nbinom", "betabinom", "randint",
]  # fmt: skip
