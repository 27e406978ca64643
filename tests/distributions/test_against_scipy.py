"""Densities, distribution functions, quantiles, moments and entropies, beside scipy.stats; and gradients, beside differences."""

from __future__ import annotations

import numpy as np
import pytest

import ndgrad
from ndgrad import distributions as D
from ndgrad.autograd import gradcheck, gradgradcheck

stats = pytest.importorskip("scipy.stats")

LOC, SCALE, SHAPE, OTHER = (np.array(v) for v in ([-1.0, 0.5, 2.0], [0.3, 1.0, 2.5], [0.4, 1.0, 3.7], [1.6, 2.0, 0.7]))
PROBS = np.array([0.1, 0.5, 0.8])
REAL, POSITIVE, UNIT = np.array([[-2.0], [0.3], [4.0]]), np.array([[0.05], [0.7], [6.0]]), np.array([[0.05], [0.5], [0.93]])
COUNTS = np.array([[0.0], [1.0], [3.0]])

#: name -> (ours, SciPy's, parameters, values)
CONTINUOUS = {
    "Normal": (D.Normal, lambda m, s: stats.norm(m, s), (LOC, SCALE), REAL),
    "Cauchy": (D.Cauchy, lambda m, s: stats.cauchy(m, s), (LOC, SCALE), REAL),
    "Laplace": (D.Laplace, lambda m, s: stats.laplace(m, s), (LOC, SCALE), REAL),
    "Gumbel": (D.Gumbel, lambda m, s: stats.gumbel_r(m, s), (LOC, SCALE), REAL),
    "LogNormal": (D.LogNormal, lambda m, s: stats.lognorm(s, scale=np.exp(m)), (LOC, SCALE), POSITIVE),
    "HalfNormal": (D.HalfNormal, lambda s: stats.halfnorm(scale=s), (SCALE,), POSITIVE),
    "HalfCauchy": (D.HalfCauchy, lambda s: stats.halfcauchy(scale=s), (SCALE,), POSITIVE),
    "Exponential": (D.Exponential, lambda r: stats.expon(scale=1 / r), (SCALE,), POSITIVE),
    "Gamma": (D.Gamma, lambda a, r: stats.gamma(a, scale=1 / r), (SHAPE, SCALE), POSITIVE),
    "Chi2": (D.Chi2, lambda k: stats.chi2(k), (SHAPE,), POSITIVE),
    "InverseGamma": (D.InverseGamma, lambda a, r: stats.invgamma(a, scale=r), (SHAPE + 2.1, SCALE), POSITIVE),
    "StudentT": (D.StudentT, lambda k, m, s: stats.t(k, m, s), (SHAPE + 2.1, LOC, SCALE), REAL),
    "FisherSnedecor": (D.FisherSnedecor, lambda a, b: stats.f(a, b), (SHAPE, OTHER + 4.1), POSITIVE),
    "Beta": (D.Beta, lambda a, b: stats.beta(a, b), (SHAPE, OTHER), UNIT),
    "Pareto": (D.Pareto, lambda s, a: stats.pareto(a, scale=s), (SCALE, SHAPE + 2.1), POSITIVE + 2.5),
    "Weibull": (D.Weibull, lambda s, k: stats.weibull_min(k, scale=s), (SCALE, SHAPE + 0.5), POSITIVE),
    "GeneralizedPareto": (D.GeneralizedPareto, lambda m, s, c: stats.genpareto(c, m, s), (LOC, SCALE, np.array([0.3, -0.1, 0.0])),
    REAL[2:] - 1),
    "Uniform": (D.Uniform, lambda a, b: stats.uniform(a, b - a), (LOC - 2, LOC + 3), REAL[1:2]),
    "VonMises": (D.VonMises, lambda m, k: stats.vonmises(k, m), (LOC, SCALE), REAL),
}  # fmt: skip
DISCRETE = {
    "Bernoulli": (D.Bernoulli, lambda p: stats.bernoulli(p), (PROBS,), COUNTS[:2]),
    "Geometric": (D.Geometric, lambda p: stats.geom(p, loc=-1), (PROBS,), COUNTS),
    "Binomial": (lambda p: D.Binomial(5, p), lambda p: stats.binom(5, p), (PROBS,), COUNTS),
    "NegativeBinomial": (D.NegativeBinomial, lambda n, p: stats.nbinom(n, 1 - p), (OTHER, PROBS), COUNTS),
    "Poisson": (D.Poisson, lambda r: stats.poisson(r), (SCALE,), COUNTS),
}
EVERY = {**CONTINUOUS, **DISCRETE}


def tensors(arrays):
    return [ndgrad.tensor(a) for a in arrays]


@pytest.mark.parametrize("name", EVERY)
def test_densities_and_moments(name):
    make, reference, params, values = EVERY[name]
    d, r = make(*tensors(params)), reference(*params)
    log = r.logpmf if name in DISCRETE else r.logpdf
    np.testing.assert_allclose(d.log_prob(ndgrad.tensor(values)).numpy(), log(values), rtol=1e-10, atol=1e-12)
    if name not in ("Cauchy", "HalfCauchy", "VonMises"):  # without moments; on a circle
        np.testing.assert_allclose(d.mean.numpy(), r.mean(), rtol=1e-9)
        np.testing.assert_allclose(d.variance.numpy(), r.var(), rtol=1e-9)
        np.testing.assert_allclose(d.stddev.numpy(), r.std(), rtol=1e-9)


@pytest.mark.parametrize("name", EVERY)
def test_entropies_distribution_functions_and_quantiles(name):
    make, reference, params, values = EVERY[name]
    d, r = make(*tensors(params)), reference(*params)
    shown = 0
    for ours, theirs, argument in ((d.cdf, r.cdf, values), (d.icdf, r.ppf, UNIT), (lambda _: d.entropy(), lambda _: r.entropy(), UNIT)):
        try:
            found = ours(ndgrad.tensor(argument))
        except NotImplementedError:
            continue
        np.testing.assert_allclose(found.numpy(), theirs(argument), rtol=1e-7, atol=1e-10)
        shown += 1
    assert shown or name in ("NegativeBinomial", "Poisson", "VonMises", "FisherSnedecor")


@pytest.mark.parametrize("name", EVERY)
def test_gradients_of_densities_and_entropies(name):
    make, _, params, values = EVERY[name]
    params = [p[:2] for p in params]
    leaves = [ndgrad.tensor(p, requires_grad=True) for p in params]
    x = ndgrad.tensor(values, requires_grad=name in CONTINUOUS)

    def log_prob(x, *params):
        return make(*params).log_prob(x)

    assert gradcheck(log_prob, (x, *leaves))
    assert gradgradcheck(log_prob, (x, *leaves))
    try:
        make(*leaves).entropy()
    except NotImplementedError:
        return
    if name != "GeneralizedPareto":  # its location is no part of it
        assert gradcheck(lambda *params: make(*params).entropy() + 0 * sum(params), leaves)


def test_multivariate_normal_in_its_three_forms():
    covariance = np.array([[2.0, 0.3, 0.1], [0.3, 0.7, -0.2], [0.1, -0.2, 1.5]])
    mean, x = np.array([0.5, -1.0, 0.2]), np.array([[0.1, -0.4, 0.3], [1.0, 2.0, 3.0]])
    r = stats.multivariate_normal(mean, covariance)
    for given in (
        {"covariance_matrix": covariance},
        {"precision_matrix": np.linalg.inv(covariance)},
        {"scale_tril": np.linalg.cholesky(covariance)},
    ):
        d = D.MultivariateNormal(ndgrad.tensor(mean), **{k: ndgrad.tensor(v) for k, v in given.items()})
        np.testing.assert_allclose(d.log_prob(ndgrad.tensor(x)).numpy(), r.logpdf(x), rtol=1e-12)
        np.testing.assert_allclose(d.entropy().numpy(), r.entropy(), rtol=1e-12)
        np.testing.assert_allclose(d.covariance_matrix.numpy(), covariance, rtol=1e-12)
        np.testing.assert_allclose(d.precision_matrix.numpy(), np.linalg.inv(covariance), rtol=1e-12)
        np.testing.assert_allclose(d.scale_tril.numpy(), np.linalg.cholesky(covariance), rtol=1e-12)


def test_a_covariance_of_low_rank_is_the_whole_one():
    W, diagonal, mean = np.array([[1.0, 0.2], [0.5, -0.3], [-0.3, 0.9]]), np.array([0.2, 0.5, 1.5]), np.array([0.5, -1.0, 0.2])
    low = D.LowRankMultivariateNormal(*tensors((mean, W, diagonal)))
    whole = D.MultivariateNormal(ndgrad.tensor(mean), ndgrad.tensor(W @ W.T + np.diag(diagonal)))
    x = ndgrad.tensor([[0.1, -0.4, 0.3], [1.0, 2.0, 3.0]])
    for f in (lambda d: d.log_prob(x), lambda d: d.entropy(), lambda d: d.scale_tril, lambda d: d.precision_matrix, lambda d: d.variance):
        np.testing.assert_allclose(f(low).numpy(), f(whole).numpy(), rtol=1e-11)
    other = D.MultivariateNormal(ndgrad.zeros(3), ndgrad.eye(3) * 2)
    np.testing.assert_allclose(D.kl_divergence(low, other).numpy(), D.kl_divergence(whole, other).numpy(), rtol=1e-11)
    np.testing.assert_allclose(D.kl_divergence(other, low).numpy(), D.kl_divergence(other, whole).numpy(), rtol=1e-11)
    assert abs(float(D.kl_divergence(low, low))) < 1e-12


def test_dirichlet_multinomial_and_wishart():
    a, x = np.array([0.4, 1.0, 3.7]), np.array([0.2, 0.5, 0.3])
    d, r = D.Dirichlet(ndgrad.tensor(a)), stats.dirichlet(a)
    np.testing.assert_allclose(d.log_prob(ndgrad.tensor(x)).numpy(), r.logpdf(x), rtol=1e-12)
    for ours, theirs in ((d.entropy(), r.entropy()), (d.mean, r.mean()), (d.variance, r.var())):
        np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-12)
    m, r = D.Multinomial(4, ndgrad.tensor(x)), stats.multinomial(4, x)
    np.testing.assert_allclose(m.log_prob(ndgrad.tensor([1.0, 3.0, 0.0])).numpy(), r.logpmf([1, 3, 0]), rtol=1e-12)
    np.testing.assert_allclose(m.entropy().numpy(), r.entropy(), rtol=1e-10)
    V, X = np.array([[2.0, 0.3], [0.3, 0.7]]), np.array([[1.0, 0.2], [0.2, 0.5]])
    w, r = D.Wishart(ndgrad.tensor(3.5), ndgrad.tensor(V)), stats.wishart(3.5, V)
    np.testing.assert_allclose(w.log_prob(ndgrad.tensor(X)).numpy(), r.logpdf(X), rtol=1e-12)
    np.testing.assert_allclose(w.entropy().numpy(), r.entropy(), rtol=1e-10)
    np.testing.assert_allclose(w.mean.numpy(), r.mean(), rtol=1e-12)
    np.testing.assert_allclose(w.variance.numpy(), r.var(), rtol=1e-12)


def test_von_mises_far_from_small_concentrations():
    k = np.array([1e-3, 1.0, 30.0, 800.0])
    d = D.VonMises(ndgrad.tensor(0.3), ndgrad.tensor(k))
    np.testing.assert_allclose(d.log_prob(ndgrad.tensor(0.35)).numpy(), stats.vonmises(k, 0.3).logpdf(0.35), rtol=1e-10)


def test_kumaraswamy_at_the_ends():
    a, b = ndgrad.tensor([0.5, 1.0, 2.0]), ndgrad.tensor([0.5, 1.0, 3.0])
    found = D.Kumaraswamy(a, b).log_prob(ndgrad.tensor([[0.0], [0.3], [1.0]])).exp()
    middle = a * b * 0.3 ** (a - 1) * (1 - 0.3**a) ** (b - 1)
    np.testing.assert_allclose(found.numpy(), [[np.inf, 1.0, 0.0], middle.numpy(), [np.inf, 1.0, 0.0]], rtol=1e-12)


def test_the_mode_of_kumaraswamy_is_where_the_density_is_largest():
    d = D.Kumaraswamy(*tensors((np.array([1.5, 3.7]), np.array([2.0, 1.5]))))
    grid = ndgrad.linspace(0.001, 0.999, 4001).unsqueeze(-1)
    np.testing.assert_allclose(d.mode.numpy(), grid[d.log_prob(grid).argmax(0), 0].numpy(), atol=3e-4)
    assert bool(D.Kumaraswamy(0.5, 2.0).mode.isnan())


# ----- divergences ------------------------------------------------------------------------------------------------------------

INSIDE_UNIT = {
    "Beta": lambda: D.Beta(ndgrad.tensor(2.0), ndgrad.tensor(3.0)),
    "ContinuousBernoulli": lambda: D.ContinuousBernoulli(ndgrad.tensor(0.3)),
    "Uniform": lambda: D.Uniform(ndgrad.tensor(0.0), ndgrad.tensor(1.0)),
}  # fmt: skip
ON_HALF = {
    "Exponential": lambda: D.Exponential(ndgrad.tensor(1.3)), "Gamma": lambda: D.Gamma(ndgrad.tensor(2.5), ndgrad.tensor(1.5)),
    "Pareto": lambda: D.Pareto(ndgrad.tensor(0.5), ndgrad.tensor(9.0)),
}  # fmt: skip
ON_LINE = {
    "Normal": lambda: D.Normal(ndgrad.tensor(0.4), ndgrad.tensor(1.2)), "Gumbel": lambda: D.Gumbel(ndgrad.tensor(-0.2), ndgrad.tensor(1.7)),
    "Laplace": lambda: D.Laplace(ndgrad.tensor(0.1), ndgrad.tensor(0.9)),
}  # fmt: skip
LINE = {**INSIDE_UNIT, **ON_HALF, **ON_LINE}


def legendre(low, high, panels=100):
    """Nodes and weights of Gauss and Legendre's rule on many pieces of an interval."""
    nodes, weights = np.polynomial.legendre.leggauss(40)
    edges = np.linspace(low, high, panels + 1)[:-1, None]
    width = (high - low) / panels
    return (edges + (nodes + 1) / 2 * width).ravel(), np.tile(weights * width / 2, panels)


@pytest.mark.parametrize("first", LINE)
def test_divergences_between_families_are_the_integrals(first):
    p = LINE[first]()
    low, high = {**dict.fromkeys(INSIDE_UNIT, (0.0, 1.0)), **dict.fromkeys(ON_HALF, (0.0, 60.0)), **dict.fromkeys(ON_LINE, (-40.0, 60.0))}[
        first
    ]
    low = 0.5 if first == "Pareto" else low
    x, weights = (ndgrad.tensor(v) for v in legendre(low, high))
    density = p.log_prob(x)
    shown = 0
    for second, make in LINE.items():
        q = make()
        q._validate_args = False
        try:
            found = float(D.kl_divergence(p, q))
        except NotImplementedError:
            continue
        contained = second in ON_LINE or (first in INSIDE_UNIT and second in {*INSIDE_UNIT, "Exponential", "Gamma"})
        contained = contained or first == second or (first in ON_HALF and second in ("Exponential", "Gamma"))
        if not contained:
            assert found == np.inf, second
            continue
        integrand = ndgrad.where(density > -600, density.exp() * (density - q.log_prob(x)), 0.0)
        truth = float((integrand * weights).sum())
        assert found == pytest.approx(truth, rel=2e-3, abs=1e-6), second
        shown += 1
    assert shown
