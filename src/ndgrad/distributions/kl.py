"""Kullback-Leibler divergences, by the classes of both distributions.

Within one family there are formulas. Between two, KL(p, q) = -H(p) - E_p[log q], and log q consists of few functions of
x (x, x^2, log x, exp(-t x)), so only their means under p are needed: see `_CROSS` below. If p has samples outside of
q's support, the divergence is infinite.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import ndgrad
from ndgrad.distributions.bernoulli import Bernoulli
from ndgrad.distributions.beta import Beta
from ndgrad.distributions.binomial import Binomial
from ndgrad.distributions.categorical import Categorical
from ndgrad.distributions.cauchy import Cauchy
from ndgrad.distributions.continuous_bernoulli import ContinuousBernoulli
from ndgrad.distributions.dirichlet import Dirichlet
from ndgrad.distributions.distribution import Distribution
from ndgrad.distributions.exp_family import ExponentialFamily
from ndgrad.distributions.exponential import Exponential
from ndgrad.distributions.gamma import Gamma
from ndgrad.distributions.geometric import Geometric
from ndgrad.distributions.gumbel import Gumbel
from ndgrad.distributions.half_normal import HalfNormal
from ndgrad.distributions.independent import Independent
from ndgrad.distributions.laplace import Laplace
from ndgrad.distributions.lowrank_multivariate_normal import (
    LowRankMultivariateNormal,
    _batch_lowrank_logdet,
    _batch_lowrank_mahalanobis,
)
from ndgrad.distributions.multivariate_normal import MultivariateNormal, _batch_mahalanobis
from ndgrad.distributions.normal import Normal
from ndgrad.distributions.one_hot_categorical import OneHotCategorical
from ndgrad.distributions.pareto import Pareto
from ndgrad.distributions.poisson import Poisson
from ndgrad.distributions.transformed_distribution import TransformedDistribution
from ndgrad.distributions.uniform import Uniform
from ndgrad.distributions.utils import _sum_rightmost, are_all, euler_constant
from ndgrad.nn import functional as F

if TYPE_CHECKING:
    from ndgrad._typing import Tensor

__all__ = ["register_kl", "kl_divergence"]

Formula = Callable[[Any, Any], "Tensor"]
F_ = TypeVar("F_", bound=Formula)

_KL_REGISTRY: dict[tuple[type, type], Formula] = {}
#: Cache of the formula for two classes, cleared by new registrations.
_KL_MEMOIZE: dict[tuple[type, type], Formula | None] = {}


# ----- finding a formula ----------------------------------------------------------------------------------------------


def register_kl(type_p: type[Any], type_q: type[Any]) -> Callable[[F_], F_]:
    """Return a decorator that registers the divergence between two classes of distributions.

    It also applies to subclasses without a more specific function. Any class is accepted, such as the common base class
    of a library's own distributions.

    Args:
        type_p: class of the first distribution.
        type_q: class of the second distribution.

    >>> from ndgrad.distributions import Normal, kl_divergence, register_kl
    >>> class Mine(Normal): pass
    >>> @register_kl(Mine, Mine)
    ... def _(p, q):
    ...     return ndgrad.zeros(())
    >>> kl_divergence(Mine(0.0, 1.0), Mine(1.0, 1.0))
    tensor(0.)
    """
    for cls in (type_p, type_q):
        if not isinstance(cls, type):
            raise TypeError(
                f"Expected type_p and type_q to be classes of distributions, but got {cls!r}. A divergence is "
                "registered for two of those. [nd-type]"
            )

    def decorator(function: F_) -> F_:
        _KL_REGISTRY[type_p, type_q] = function
        _KL_MEMOIZE.clear()
        return function

    return decorator


def _distance_from(cls: type) -> Callable[[type], int]:
    """Return the function from a base class of `cls` to its distance in the method resolution order."""
    order = cls.__mro__
    return lambda base: order.index(base) if base in order else len(order)


def _find(type_p: type, type_q: type) -> Formula | None:
    """Return the formula of the most specific pair of base classes."""
    matches = [pair for pair in _KL_REGISTRY if issubclass(type_p, pair[0]) and issubclass(type_q, pair[1])]
    if not matches:
        return None
    # Distance of a pair: the fewer classes lie between, the more specific. Virtual base classes are the least specific.
    far_p, far_q = (_distance_from(cls) for cls in (type_p, type_q))
    by_p = min(matches, key=lambda pair: (far_p(pair[0]), far_q(pair[1])))
    by_q = min(matches, key=lambda pair: (far_q(pair[1]), far_p(pair[0])))
    if _KL_REGISTRY[by_p] is not _KL_REGISTRY[by_q]:
        p, q = by_p[0].__name__, by_q[1].__name__
        warnings.warn(
            f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}). Please register_kl({p}, {q})",
            RuntimeWarning,
            stacklevel=3,
        )
    return _KL_REGISTRY[by_p]


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """Return the Kullback-Leibler divergence of p from q, the mean of log p(x) - log q(x) over samples x of p.

    Args:
        p: distribution of the samples.
        q: distribution that is compared with it.

    Returns:
        A tensor of the shape of the batch.

    Raises:
        NotImplementedError: if no formula is known for the two classes.

    >>> from ndgrad.distributions import Normal, kl_divergence
    >>> kl_divergence(Normal(0.0, 1.0), Normal(1.0, 1.0))
    tensor(0.5000)
    """
    pair = type(p), type(q)
    if pair not in _KL_MEMOIZE:
        _KL_MEMOIZE[pair] = _find(*pair)
    formula = _KL_MEMOIZE[pair]
    if formula is None:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {pair[0].__name__} and q type {pair[1].__name__}. Register one "
            "with register_kl, or estimate it: (p.log_prob(x) - q.log_prob(x)).mean(0) for x = p.sample((n,)). "
            "[nd-distribution]"
        )
    return formula(p, q)


# ----- within one family ----------------------------------------------------------------------------------------------


@register_kl(ExponentialFamily, ExponentialFamily)
def _kl_expfamily_expfamily(p: Any, q: Any) -> Tensor:
    """Return the Bregman divergence of the log normalizer A: A(q) - A(p) - <A'(p), q - p>."""
    if type(p) is not type(q):
        raise NotImplementedError(
            "The cross KL-divergence between different exponential families cannot be computed using Bregman "
            f"divergences, and these are {type(p).__name__} and {type(q).__name__}. Register a formula. "
            "[nd-distribution]"
        )
    ours, theirs = p._natural_params, q._natural_params
    result = q._log_normalizer(*theirs) - p._log_normalizer(*ours)
    for a, b, mean in zip(ours, theirs, p._mean_statistics(ours), strict=True):
        term = (b - a) * mean
        result = result - _sum_rightmost(term, term.ndim - result.ndim)
    return result


@register_kl(Bernoulli, Bernoulli)
def _kl_bernoulli_bernoulli(p: Bernoulli, q: Bernoulli) -> Tensor:
    # -log P(1) is softplus(-logits), -log P(0) is softplus(logits).
    ones = p.probs * (F.softplus(-q.logits) - F.softplus(-p.logits))
    zeros = (1 - p.probs) * (F.softplus(q.logits) - F.softplus(p.logits))
    return _term(ones, p.probs == 0, q.probs == 0) + _term(zeros, p.probs == 1, q.probs == 1)


def _term(value: Tensor, never: Tensor, impossible: Tensor) -> Tensor:
    """Return a summand of a divergence: zero if p never has the outcome, infinite if only q never has it."""
    return ndgrad.where(never, 0.0, ndgrad.where(impossible, math.inf, value))


@register_kl(Binomial, Binomial)
def _kl_binomial_binomial(p: Binomial, q: Binomial) -> Tensor:
    if not are_all(p.total_count >= q.total_count):
        raise NotImplementedError(
            "KL between Binomials where q.total_count > p.total_count is not implemented: it has no closed form. "
            "Sum over p.enumerate_support(). [nd-distribution]"
        )
    kl = p.total_count * (p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p())
    return ndgrad.where(p.total_count > q.total_count, math.inf, kl)


@register_kl(Categorical, Categorical)
def _kl_categorical_categorical(p: Categorical, q: Categorical) -> Tensor:
    return _term(p.probs * (p.logits - q.logits), p.probs == 0, q.probs == 0).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _kl_onehotcategorical_onehotcategorical(p: OneHotCategorical, q: OneHotCategorical) -> Tensor:
    return _kl_categorical_categorical(p._categorical, q._categorical)


@register_kl(Geometric, Geometric)
def _kl_geometric_geometric(p: Geometric, q: Geometric) -> Tensor:
    return -p.entropy() - ndgrad.log1p(-q.probs) / p.probs - q.logits


@register_kl(Poisson, Poisson)
def _kl_poisson_poisson(p: Poisson, q: Poisson) -> Tensor:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Beta, Beta)
def _kl_beta_beta(p: Beta, q: Beta) -> Tensor:
    return _kl_dirichlet_dirichlet(p._dirichlet, q._dirichlet)


@register_kl(Dirichlet, Dirichlet)
def _kl_dirichlet_dirichlet(p: Dirichlet, q: Dirichlet) -> Tensor:
    a, b = p.concentration, q.concentration
    total = a.sum(-1)
    normalizers = ndgrad.lgamma(total) - ndgrad.lgamma(b.sum(-1)) + (ndgrad.lgamma(b) - ndgrad.lgamma(a)).sum(-1)
    return normalizers + ((a - b) * (ndgrad.digamma(a) - ndgrad.digamma(total).unsqueeze(-1))).sum(-1)


@register_kl(Exponential, Exponential)
def _kl_exponential_exponential(p: Exponential, q: Exponential) -> Tensor:
    ratio = q.rate / p.rate
    return ratio - ratio.log() - 1


@register_kl(Gamma, Gamma)
def _kl_gamma_gamma(p: Gamma, q: Gamma) -> Tensor:
    a, b = p.concentration, q.concentration
    return (
        b * (p.rate / q.rate).log()
        + ndgrad.lgamma(b) - ndgrad.lgamma(a)
        + (a - b) * ndgrad.digamma(a)
        + (q.rate - p.rate) * (a / p.rate)
    )  # fmt: skip


@register_kl(Gumbel, Gumbel)
def _kl_gumbel_gumbel(p: Gumbel, q: Gumbel) -> Tensor:
    ratio, shift = p.scale / q.scale, (p.loc - q.loc) / q.scale
    # E[exp(-(x - loc_q) / scale_q)] is a moment of exp(-x), which is exponential.
    moment = (ndgrad.lgamma(1 + ratio) - shift).exp()
    return -ratio.log() + shift + ratio * euler_constant + moment - (1 + euler_constant)


@register_kl(Laplace, Laplace)
def _kl_laplace_laplace(p: Laplace, q: Laplace) -> Tensor:
    ratio, distance = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + distance / q.scale + ratio * (-distance / p.scale).exp() - 1


@register_kl(Normal, Normal)
def _kl_normal_normal(p: Normal, q: Normal) -> Tensor:
    ratio = (p.scale / q.scale).pow(2)
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).pow(2) - 1 - ratio.log())


@register_kl(HalfNormal, HalfNormal)
def _kl_halfnormal_halfnormal(p: HalfNormal, q: HalfNormal) -> Tensor:
    return _kl_normal_normal(p.base_dist, q.base_dist)


@register_kl(Cauchy, Cauchy)
def _kl_cauchy_cauchy(p: Cauchy, q: Cauchy) -> Tensor:
    squares = (p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)
    return squares.log() - (4 * p.scale * q.scale).log()


@register_kl(Pareto, Pareto)
def _kl_pareto_pareto(p: Pareto, q: Pareto) -> Tensor:
    ratio = q.alpha / p.alpha
    kl = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return ndgrad.where(p.scale < q.scale, math.inf, kl)


@register_kl(Uniform, Uniform)
def _kl_uniform_uniform(p: Uniform, q: Uniform) -> Tensor:
    kl = ((q.high - q.low) / (p.high - p.low)).log()
    return ndgrad.where((q.low > p.low) | (q.high < p.high), math.inf, kl)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _kl_continuous_bernoulli_continuous_bernoulli(p: ContinuousBernoulli, q: ContinuousBernoulli) -> Tensor:
    ours = p.mean * p.logits + ndgrad.log1p(-p.probs) + p._cont_bern_log_norm()
    return ours - _continuous_bernoulli_mean_log(p, q)


# ----- several dimensions ---------------------------------------------------------------------------------------------


def _check_events(p: Distribution, q: Distribution, name: str) -> None:
    if p.event_shape != q.event_shape:
        raise ValueError(
            f"KL-divergence between two {name} with different event shapes cannot be computed: {tuple(p.event_shape)} "
            f"and {tuple(q.event_shape)}. [nd-shape]"
        )


def _normal_kl(n: int, log_dets: Tensor, trace: Tensor, distance: Tensor) -> Tensor:
    """Return (log det S_q - log det S_p + tr(S_q^-1 S_p) + the Mahalanobis distance of the means - n) / 2."""
    return 0.5 * (log_dets + trace + distance - n)


def _squared_norm(matrix: Tensor) -> Tensor:
    """Return tr(X X^T)."""
    return matrix.pow(2).flatten(-2).sum(-1)


def _solved_norm(factor: Tensor, matrix: Tensor) -> Tensor:
    """Return tr(X^T (L L^T)^-1 X)."""
    return _squared_norm(ndgrad.linalg.solve_triangular(factor, matrix, upper=False))


def _lowrank_trace(q: LowRankMultivariateNormal, matrix: Tensor) -> Tensor:
    """Return tr(X^T (W W^T + D)^-1 X), by Woodbury's formula."""
    W, D = q._unbroadcasted_cov_factor, q._unbroadcasted_cov_diag
    projected = (W.mT / D.unsqueeze(-2)) @ matrix
    return _squared_norm(matrix / D.sqrt().unsqueeze(-1)) - _solved_norm(q._capacitance_tril, projected)


def _lowrank_log_det(d: LowRankMultivariateNormal) -> Tensor:
    return _batch_lowrank_logdet(d._unbroadcasted_cov_factor, d._unbroadcasted_cov_diag, d._capacitance_tril)


def _lowrank_distance(q: LowRankMultivariateNormal, x: Tensor) -> Tensor:
    return _batch_lowrank_mahalanobis(q._unbroadcasted_cov_factor, q._unbroadcasted_cov_diag, x, q._capacitance_tril)


@register_kl(MultivariateNormal, MultivariateNormal)
def _kl_multivariatenormal_multivariatenormal(p: MultivariateNormal, q: MultivariateNormal) -> Tensor:
    _check_events(p, q, "Multivariate Normals")
    factor = q._unbroadcasted_scale_tril
    ours = p._unbroadcasted_scale_tril
    batch = ndgrad.broadcast_shapes(ours.shape[:-2], factor.shape[:-2])
    trace = _solved_norm(factor.expand((*batch, *factor.shape[-2:])), ours.expand((*batch, *ours.shape[-2:])))
    distance = _batch_mahalanobis(factor, q.loc - p.loc)
    return _normal_kl(p.event_shape[0], 2 * (q._half_log_det() - p._half_log_det()), trace, distance)


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _kl_lowrankmultivariatenormal_lowrankmultivariatenormal(
    p: LowRankMultivariateNormal, q: LowRankMultivariateNormal
) -> Tensor:
    _check_events(p, q, "Low Rank Multivariate Normals")
    trace = _lowrank_trace(q, p._unbroadcasted_cov_factor)
    trace = trace + _lowrank_trace(q, ndgrad.diag_embed(p._unbroadcasted_cov_diag.sqrt()))
    distance = _lowrank_distance(q, q.loc - p.loc)
    return _normal_kl(p.event_shape[0], _lowrank_log_det(q) - _lowrank_log_det(p), trace, distance)


@register_kl(MultivariateNormal, LowRankMultivariateNormal)
def _kl_multivariatenormal_lowrankmultivariatenormal(p: MultivariateNormal, q: LowRankMultivariateNormal) -> Tensor:
    _check_events(p, q, "(Low Rank) Multivariate Normals")
    trace = _lowrank_trace(q, p._unbroadcasted_scale_tril)
    distance = _lowrank_distance(q, q.loc - p.loc)
    return _normal_kl(p.event_shape[0], _lowrank_log_det(q) - 2 * p._half_log_det(), trace, distance)


@register_kl(LowRankMultivariateNormal, MultivariateNormal)
def _kl_lowrankmultivariatenormal_multivariatenormal(p: LowRankMultivariateNormal, q: MultivariateNormal) -> Tensor:
    _check_events(p, q, "(Low Rank) Multivariate Normals")
    factor, n = q._unbroadcasted_scale_tril, p.event_shape[0]
    parts = (p._unbroadcasted_cov_factor, ndgrad.diag_embed(p._unbroadcasted_cov_diag.sqrt()))
    trace: Any = 0.0
    for part in parts:
        batch = ndgrad.broadcast_shapes(part.shape[:-2], factor.shape[:-2])
        trace = trace + _solved_norm(factor.expand((*batch, n, n)), part.expand((*batch, *part.shape[-2:])))
    distance = _batch_mahalanobis(factor, q.loc - p.loc)
    return _normal_kl(n, 2 * q._half_log_det() - _lowrank_log_det(p), trace, distance)


# ----- distributions of distributions ---------------------------------------------------------------------------------


@register_kl(TransformedDistribution, TransformedDistribution)
def _kl_transformed_transformed(p: TransformedDistribution, q: TransformedDistribution) -> Tensor:
    """Return the divergence of the base distributions: a shared bijection changes nothing."""
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError(
            f"the KL-divergence of two transformed distributions is implemented for equal transforms, and these have "
            f"{p.transforms} and {q.transforms}. Register a formula with register_kl. [nd-distribution]"
        )
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Independent, Independent)
def _kl_independent_independent(p: Independent, q: Independent) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError(
            f"the KL-divergence of two Independent distributions is implemented for as many dimensions of the event in "
            f"both, and these have {p.reinterpreted_batch_ndims} and {q.reinterpreted_batch_ndims}. [nd-distribution]"
        )
    return _sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


# ----- between two families: entropy and moments of p -----------------------------------------------------------------


def _x_log_x(x: Tensor) -> Tensor:
    return ndgrad.xlogy(x, x)


def _mean_log(p: Any) -> Tensor:
    """Return E[log x]."""
    if isinstance(p, Beta):
        return ndgrad.digamma(p.concentration1) - ndgrad.digamma(p.concentration1 + p.concentration0)
    if isinstance(p, Gamma):
        return ndgrad.digamma(p.concentration) - p.rate.log()
    if isinstance(p, Exponential):
        return -p.rate.log() - euler_constant
    if isinstance(p, Pareto):
        return p.scale.log() + 1 / p.alpha
    assert isinstance(p, Uniform)
    return (_x_log_x(p.high) - _x_log_x(p.low)) / (p.high - p.low) - 1


def _mean_log_rest(p: Any) -> Tensor:
    """Return E[log(1 - x)]."""
    if isinstance(p, Beta):
        return ndgrad.digamma(p.concentration0) - ndgrad.digamma(p.concentration1 + p.concentration0)
    assert isinstance(p, Uniform)
    return (_x_log_x(1 - p.low) - _x_log_x(1 - p.high)) / (p.high - p.low) - 1


def _mean_decay(p: Any, loc: Tensor, scale: Tensor) -> Tensor:
    """Return E[exp(-(x - loc) / scale)]."""
    t, shift = 1 / scale, loc / scale
    if isinstance(p, Exponential):
        return shift.exp() * (p.rate / (p.rate + t))
    if isinstance(p, Gamma):
        return shift.exp() * (1 + t / p.rate).pow(-p.concentration)
    if isinstance(p, Normal):
        return (shift - t * p.loc + 0.5 * (t * p.scale).pow(2)).exp()
    assert isinstance(p, Uniform)
    return ((shift - t * p.low).exp() - (shift - t * p.high).exp()) / (t * (p.high - p.low))


def _mean_distance(p: Any, loc: Tensor) -> Tensor:
    """Return E|x - loc|, for a normal distribution."""
    assert isinstance(p, Normal)
    z = (p.loc - loc) / p.scale
    peak = math.sqrt(2 / math.pi) * (-0.5 * z.pow(2)).exp()
    return p.scale * (peak + z * ndgrad.erf(z * math.sqrt(0.5)))


# ----- and E_p[log q] -------------------------------------------------------------------------------------------------


def _exponential_mean_log(p: Any, q: Exponential) -> Tensor:
    return q.rate.log() - q.rate * p.mean


def _gamma_mean_log(p: Any, q: Gamma) -> Tensor:
    c = q.concentration
    return c * q.rate.log() - ndgrad.lgamma(c) + (c - 1) * _mean_log(p) - q.rate * p.mean


def _normal_mean_log(p: Any, q: Normal) -> Tensor:
    square = p.variance + (p.mean - q.loc).pow(2)
    return -0.5 * (math.log(2 * math.pi) + square / q.scale.pow(2)) - q.scale.log()


def _gumbel_mean_log(p: Any, q: Gumbel) -> Tensor:
    return -q.scale.log() - (p.mean - q.loc) / q.scale - _mean_decay(p, q.loc, q.scale)


def _laplace_mean_log(p: Any, q: Laplace) -> Tensor:
    return -(2 * q.scale).log() - _mean_distance(p, q.loc) / q.scale


def _beta_mean_log(p: Any, q: Beta) -> Tensor:
    a, b = q.concentration1, q.concentration0
    log_beta = ndgrad.lgamma(a) + ndgrad.lgamma(b) - ndgrad.lgamma(a + b)
    return (a - 1) * _mean_log(p) + (b - 1) * _mean_log_rest(p) - log_beta


def _continuous_bernoulli_mean_log(p: Any, q: ContinuousBernoulli) -> Tensor:
    return p.mean * q.logits + ndgrad.log1p(-q.probs) + q._cont_bern_log_norm()


def _uniform_mean_log(p: Any, q: Uniform) -> Tensor:
    return -(q.high - q.low).log()


def _pareto_mean_log(p: Any, q: Pareto) -> Tensor:
    return q.alpha.log() + q.alpha * q.scale.log() - (q.alpha + 1) * _mean_log(p)


def _poisson_mean_log(p: Any, q: Poisson) -> Tensor:
    return p.probs * q.rate.log() - q.rate  # for 0 and 1, whose factorials are 1


#: E_p[log q], by the class of q.
_MEAN_LOG: dict[type, Callable[[Any, Any], Tensor]] = {
    Exponential: _exponential_mean_log, Gamma: _gamma_mean_log, Normal: _normal_mean_log, Gumbel: _gumbel_mean_log,
    Laplace: _laplace_mean_log, Beta: _beta_mean_log, ContinuousBernoulli: _continuous_bernoulli_mean_log,
    Uniform: _uniform_mean_log, Pareto: _pareto_mean_log, Poisson: _poisson_mean_log,
}  # fmt: skip

#: p -> the q from which p has a finite divergence.
_CROSS: dict[type, tuple[type, ...]] = {
    Bernoulli: (Poisson,),
    Beta: (ContinuousBernoulli, Exponential, Gamma, Normal, Uniform),
    ContinuousBernoulli: (Exponential, Normal, Uniform),
    Exponential: (Gamma, Gumbel, Normal),
    Gamma: (Exponential, Gumbel, Normal),
    Gumbel: (Normal,),
    Laplace: (Normal,),
    Normal: (Gumbel, Laplace),
    Pareto: (Exponential, Gamma, Normal),
    Uniform: (Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Normal, Pareto),
}

#: p -> the q whose support is always too small for p.
_OUTSIDE: dict[type, tuple[type, ...]] = {
    Beta: (Pareto,),
    ContinuousBernoulli: (Pareto,),
    Exponential: (Beta, ContinuousBernoulli, Pareto, Uniform),
    Gamma: (Beta, ContinuousBernoulli, Pareto, Uniform),
    Gumbel: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Laplace: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Normal: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Pareto: (Beta, ContinuousBernoulli, Uniform),
    Poisson: (Bernoulli, Binomial),
}


def _bounds(d: Any) -> tuple[Any, Any]:
    """Return the ends of the support; None if there are none."""
    if isinstance(d, (Beta, ContinuousBernoulli)):
        return 0.0, 1.0
    if isinstance(d, Uniform):
        return d.low, d.high
    if isinstance(d, Pareto):
        return d.scale, None
    return (0.0, None) if isinstance(d, (Exponential, Gamma)) else (None, None)


def _cross(p: Any, q: Any) -> Tensor:
    """Return -H(p) - E_p[log q], infinite if p's support reaches beyond q's."""
    kl = -p.entropy() - next(_MEAN_LOG[cls] for cls in type(q).__mro__ if cls in _MEAN_LOG)(p, q)
    (low, high), (least, most) = _bounds(p), _bounds(q)
    for beyond in (
        None if low is None or least is None else low < least,
        None if high is None or most is None else high > most,
    ):
        if beyond is not None and beyond is not False:
            kl = ndgrad.where(ndgrad.as_tensor(beyond), math.inf, kl)
    return kl


def _infinite(p: Distribution, q: Distribution) -> Tensor:
    like = next(v for v in vars(p).values() if isinstance(v, ndgrad.Tensor)) if not isinstance(p, Beta) else p.mean
    shape = ndgrad.broadcast_shapes(p.batch_shape, q.batch_shape)
    return ndgrad.full(shape, math.inf, dtype=like.dtype, device=like.device)


for _table, _formula in ((_CROSS, _cross), (_OUTSIDE, _infinite)):
    for _p, _others in _table.items():
        for _q in _others:
            register_kl(_p, _q)(_formula)
