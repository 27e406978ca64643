"""Samples: of the right distribution, by Kolmogorov and Smirnov's test or by moments; differentiable where they say so; from seeds;
under vmap."""

from __future__ import annotations

import numpy as np
import pytest

import ndgrad
from ndgrad import distributions as D
from ndgrad.func import grad, jvp, vmap

stats = pytest.importorskip("scipy.stats")
from tests.distributions.test_against_scipy import CONTINUOUS, EVERY, tensors  # noqa: E402

COUNT = 20000


@pytest.mark.parametrize("name", EVERY)
def test_samples_follow_their_distribution(name):
    make, reference, params, _ = EVERY[name]
    ndgrad.manual_seed(1)
    samples = make(*tensors(params)).sample((COUNT,)).numpy()
    assert samples.shape == (COUNT, 3)
    for i in range(3):
        r = reference(*(p[i] for p in params))
        if name in CONTINUOUS:
            x = samples[:, i]
            if name == "VonMises":  # SciPy's probabilities begin half a turn before the mean
                x = (x - params[0][i] + np.pi) % (2 * np.pi) - np.pi + params[0][i]
            statistic = stats.kstest(x, r.cdf).statistic
            assert statistic < 1.95 / COUNT**0.5, (i, statistic)  # one in a thousand
        else:
            k = np.arange(30)
            seen, expected = (samples[:, i, None] == k).mean(0), r.pmf(k)
            assert np.all(np.abs(seen - expected) < 4.5 * np.sqrt(expected * (1 - expected) / COUNT) + 1e-4), i


VECTORS = {
    "Dirichlet": lambda: D.Dirichlet(ndgrad.tensor([0.4, 1.0, 3.7])),
    "Categorical one hot": lambda: D.OneHotCategorical(ndgrad.tensor([0.2, 0.5, 0.3])),
    "Multinomial": lambda: D.Multinomial(7, ndgrad.tensor([0.2, 0.5, 0.3])),
    "MultivariateNormal": lambda: D.MultivariateNormal(ndgrad.tensor([0.5, -1.0]), ndgrad.tensor([[2.0, 0.3], [0.3, 0.7]])),
    "LowRank": lambda: D.LowRankMultivariateNormal(ndgrad.tensor([0.5, -1.0]), ndgrad.tensor([[1.0], [0.5]]), ndgrad.tensor([0.2, 0.5])),
    "Wishart": lambda: D.Wishart(ndgrad.tensor(5.5), ndgrad.tensor([[2.0, 0.3], [0.3, 0.7]])),
    "ContinuousBernoulli": lambda: D.ContinuousBernoulli(ndgrad.tensor([0.1, 0.5, 0.8])),
    "Kumaraswamy": lambda: D.Kumaraswamy(ndgrad.tensor([0.4, 3.0]), ndgrad.tensor([1.5, 0.7])),
    "mixture": lambda: D.MixtureSameFamily(D.Categorical(ndgrad.tensor([0.2, 0.8])),
    D.Normal(ndgrad.tensor([-2.0, 1.0]), ndgrad.tensor([0.5, 1.0]))),
    "mixture of vectors": lambda: D.MixtureSameFamily(
        D.Categorical(ndgrad.tensor([0.2, 0.8])), D.Independent(D.Gamma(ndgrad.tensor([[2.0, 1.0], [5.0, 0.7]]), 1.0), 1)),
    "mixture of a batch by one": lambda: D.MixtureSameFamily(
        D.Categorical(ndgrad.tensor([0.2, 0.8])), D.Normal(ndgrad.tensor([[-2.0, 1.0], [0.0, 3.0], [1.0, 1.0]]), 1.0)),
}  # fmt: skip


@pytest.mark.parametrize("name", VECTORS)
def test_moments_of_samples(name):
    d = VECTORS[name]()
    ndgrad.manual_seed(2)
    samples = d.sample((40000,)).numpy()
    error = d.stddev.numpy() / 200
    np.testing.assert_array_less(np.abs(samples.mean(0) - d.mean.numpy()), 4.5 * error + 1e-12)
    np.testing.assert_allclose(samples.var(0), d.variance.numpy(), rtol=0.08)


def test_correlations_of_lkj_samples():
    """Each correlation is 2 b - 1 with b of Beta(c, c), c = concentration + (dim - 2) / 2."""
    ndgrad.manual_seed(3)
    factor = D.LKJCholesky(4, ndgrad.tensor([0.5, 2.0])).sample((8000,))
    assert bool(D.constraints.corr_cholesky.check(factor).all())
    correlation = (factor @ factor.mT).numpy()
    for k, concentration in enumerate((0.5, 2.0)):
        for i, j in ((1, 0), (2, 0), (3, 1), (3, 2)):
            c = concentration + 1
            assert stats.kstest((correlation[:, k, i, j] + 1) / 2, stats.beta(c, c).cdf).statistic < 1.95 / 8000**0.5


def test_relaxed_samples_tend_to_classes():
    ndgrad.manual_seed(4)
    p = ndgrad.tensor([0.2, 0.5, 0.3])
    cold = D.RelaxedOneHotCategorical(ndgrad.tensor(0.01), p).rsample((20000,))
    np.testing.assert_allclose(cold.mean(0).numpy(), p.numpy(), atol=0.015)
    bits = D.RelaxedBernoulli(ndgrad.tensor(0.01), p).rsample((20000,))
    np.testing.assert_allclose(bits.mean(0).numpy(), p.numpy(), atol=0.015)
    warm = D.RelaxedBernoulli(ndgrad.tensor(0.7), ndgrad.tensor(0.3))
    t = ndgrad.linspace(-30.0, 30.0, 20001)
    x = t.sigmoid()
    assert float(ndgrad.trapezoid(warm.log_prob(x).exp() * x * (1 - x), t)) == pytest.approx(1.0, abs=1e-6)


# ----- derivatives of samples ---------------------------------------------------------------------------------------------------

#: The parameters of which E[x] and E[x^2] have derivatives, each in closed form through `mean` and `variance`.
SMOOTH = (
    "Normal",
    "Laplace",
    "Gumbel",
    "LogNormal",
    "HalfNormal",
    "Exponential",
    "Gamma",
    "Chi2",
    "Beta",
    "Uniform",
    "Weibull",
    "StudentT",
)


@pytest.mark.parametrize("name", SMOOTH)
def test_gradients_of_means_of_samples(name):
    make, _, params, _ = CONTINUOUS[name]
    params = [np.array([1.5, 2.0]) for p in params] if name not in ("Uniform", "StudentT") else [p[:2] for p in params]
    if name == "LogNormal":
        params = [np.array([0.2, 0.5]), np.array([0.3, 0.5])]
    if name == "StudentT":
        params[0] = np.array([9.0, 12.0])
    leaves = [ndgrad.tensor(p, requires_grad=True) for p in params]
    ndgrad.manual_seed(5)
    d = make(*leaves)
    assert d.has_rsample
    x = d.rsample((40000,))
    truth = ndgrad.autograd.grad((d.mean + d.variance + d.mean**2).sum(), leaves, retain_graph=True)
    found = ndgrad.autograd.grad((x + x**2).mean(0).sum(), leaves, allow_unused=True)
    for t, f in zip(truth, found, strict=True):
        np.testing.assert_allclose(f.numpy(), t.numpy(), rtol=0.08, atol=0.05)
    assert not d.sample().requires_grad


def test_gradients_of_other_samples_are_there_and_finite():
    for d, leaf in (
        (lambda p: D.Dirichlet(p), [0.4, 1.0]), (lambda p: D.FisherSnedecor(p, 3.0), [1.0, 2.0]),
        (lambda p: D.InverseGamma(p, 1.0), [2.0, 3.0]),
        (lambda p: D.Kumaraswamy(p, 2.0), [0.5, 2.0]), (lambda p: D.Pareto(p, 2.0), [0.5, 2.0]), (lambda p: D.Cauchy(p, 1.0), [0.5, 2.0]),
        (lambda p: D.HalfCauchy(p), [0.5, 2.0]), (lambda p: D.ContinuousBernoulli(p), [0.2, 0.5]),
        (lambda p: D.LogisticNormal(p, 1.0), [0.2, 0.5]),
        (lambda p: D.MultivariateNormal(p, ndgrad.eye(2)), [0.2, 0.5]), (lambda p: D.Wishart(p[0] + 3, ndgrad.eye(2)), [0.2, 0.5]),
        (lambda p: D.RelaxedBernoulli(ndgrad.tensor(0.5), p), [0.2, 0.5]), (lambda p: D.OneHotCategoricalStraightThrough(p), [0.2, 0.5]),
        (lambda p: D.RelaxedOneHotCategorical(ndgrad.tensor(0.5), p), [0.2, 0.8]), (lambda p: D.Independent(D.Gamma(p, p), 1), [0.2, 0.8]),
        (lambda p: D.GeneralizedPareto(0.0, 1.0, p), [0.2, 0.8]),
        (lambda p: D.TransformedDistribution(D.Beta(p, 1.0), D.SigmoidTransform()), [0.2, 0.8]),
    ):  # fmt: skip
        p = ndgrad.tensor(leaf, requires_grad=True)
        made = d(p)
        assert made.has_rsample
        x = made.rsample((3,))
        (g,) = ndgrad.autograd.grad((x * ndgrad.arange(x.numel()).reshape(x.shape)).sum(), p)
        assert bool(g.isfinite().all()), made
        assert bool((g != 0).any()), made


def test_beta_samples_move_as_their_quantiles():
    """In float32 too, and to second order."""
    a, b = ndgrad.tensor([0.4, 2.0, 30.0], requires_grad=True), ndgrad.tensor([1.5, 0.3, 50.0], requires_grad=True)
    x = D.Beta(a, b).rsample((4,))
    p = stats.beta(a.detach().numpy(), b.detach().numpy()).cdf(x.detach().numpy())
    step = 1e-4
    quantile = lambda da, db: stats.beta(a.detach().numpy() + da, b.detach().numpy() + db).ppf(p)
    of_a, of_b = (quantile(step, 0) - quantile(-step, 0)) / (2 * step), (quantile(0, step) - quantile(0, -step)) / (2 * step)
    g = ndgrad.autograd.grad(x.sum(), (a, b), create_graph=True)
    np.testing.assert_allclose(g[0].detach().numpy(), of_a.sum(0), rtol=1e-5)
    np.testing.assert_allclose(g[1].detach().numpy(), of_b.sum(0), rtol=1e-5)
    (mixed,) = ndgrad.autograd.grad(g[0].sum(), b)
    both = (quantile(step, step) - quantile(step, -step) - quantile(-step, step) + quantile(-step, -step)) / (4 * step**2)
    np.testing.assert_allclose(mixed.numpy(), both.sum(0), rtol=1e-2, atol=1e-6)
    single = ndgrad.tensor([0.4, 2.0, 30.0], dtype=ndgrad.float32, requires_grad=True)
    D.Beta(single, single).rsample((4,)).sum().backward()
    assert single.grad.dtype is ndgrad.float32
    assert bool(single.grad.isfinite().all())


# ----- seeds, transforms, modes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EVERY)
def test_a_seed_gives_the_same_samples(name):
    make, _, params, _ = EVERY[name]
    d = make(*tensors(params))
    drawn = []
    for _ in range(2):
        ndgrad.manual_seed(11)
        drawn.append(d.sample((5,)).numpy())
    np.testing.assert_array_equal(*drawn)


@pytest.mark.parametrize("name", EVERY)
def test_vmap_over_parameters(name):
    """With checks of parameters and values, which look at all samples; drawing asks for vmap's `randomness`."""
    make, _, params, values = EVERY[name]
    params, x = tensors(params), ndgrad.tensor(values[:, 0])
    found = vmap(lambda *p: make(*p).log_prob(x))(*params)
    np.testing.assert_allclose(found.numpy(), make(*params).log_prob(x.unsqueeze(-1)).numpy().T, rtol=1e-12)
    drawn = vmap(lambda *p: make(*p).sample((4,)), randomness="different")(*params)
    assert drawn.shape == (3, 4)
    with pytest.raises(RuntimeError, match="randomness error mode"):
        vmap(lambda *p: make(*p).sample((4,)))(*params)


WITH_EVENTS = {
    "Categorical": lambda p: D.Categorical(p),
    "OneHotCategorical": lambda p: D.OneHotCategorical(logits=p),
    "Multinomial": lambda p: D.Multinomial(5, p),
    "Dirichlet": lambda p: D.Dirichlet(p),
    "MultivariateNormal": lambda p: D.MultivariateNormal(p, precision_matrix=p.diag()),
    "LowRank": lambda p: D.LowRankMultivariateNormal(p, p.unsqueeze(-1), p),
    "Wishart": lambda p: D.Wishart(5.0, p.diag()),
    "mixture": lambda p: D.MixtureSameFamily(D.Categorical(p), D.Normal(p, 1.0)),
    "LKJCholesky": lambda p: D.LKJCholesky(3, p),
    "LogisticNormal": lambda p: D.LogisticNormal(p, 1.0),
    "RelaxedOneHotCategorical": lambda p: D.RelaxedOneHotCategorical(ndgrad.tensor(0.5), p),
    "Kumaraswamy": lambda p: D.Kumaraswamy(p, p),
    "Independent": lambda p: D.Independent(D.Gamma(p, p), 1),
}


@pytest.mark.parametrize("name", WITH_EVENTS)
def test_vmap_is_the_loop(name):
    """Densities of fixed values, their gradients and divergences; drawing runs."""
    make = WITH_EVENTS[name]
    p = ndgrad.tensor(np.random.default_rng(0).uniform(0.3, 1.5, (3, 4)))
    ndgrad.manual_seed(7)
    x = ndgrad.stack([make(row).sample((2,)) for row in p])
    functions = [lambda p, x: make(p).log_prob(x), grad(lambda p, x: make(p).log_prob(x).sum())]
    if name not in ("mixture", "LKJCholesky", "Wishart", "Multinomial", "LogisticNormal", "RelaxedOneHotCategorical"):
        functions.append(lambda p, x: D.kl_divergence(make(p), make(p.detach().clone())))
    for f in functions:
        loop = ndgrad.stack([f(*row) for row in zip(p, x, strict=True)])
        np.testing.assert_allclose(vmap(f)(p, x).numpy(), loop.numpy(), rtol=1e-9, atol=1e-12)
    assert vmap(lambda p: make(p).sample((2,)), randomness="different")(p).shape == x.shape


def test_bad_parameters_are_refused_inside_of_vmap():
    with pytest.raises(ValueError, match="Expected parameter scale"):
        vmap(lambda s: D.Normal(0.0, s).log_prob(ndgrad.tensor(0.0)))(ndgrad.tensor([1.0, -1.0]))


def test_grad_and_jvp_through_samples():
    def mean(a):
        ndgrad.manual_seed(6)
        return D.Gamma(a, 2.0).rsample((50,)).mean()

    a = ndgrad.tensor(1.5)
    leaf = ndgrad.tensor(1.5, requires_grad=True)
    mean(leaf).backward()
    assert float(grad(mean)(a)) == pytest.approx(float(leaf.grad), rel=1e-12)
    assert float(jvp(mean, (a,), (ndgrad.tensor(1.0),))[1]) == pytest.approx(float(leaf.grad), rel=1e-12)
    many = vmap(grad(mean), randomness="different")(ndgrad.tensor([1.0, 2.0]))
    assert bool(many.isfinite().all())


def test_a_compiled_function_draws_and_differentiates_as_eager():
    def loss(loc, raw):
        d = D.Normal(loc, ndgrad.nn.functional.softplus(raw))
        z = d.rsample((5,))
        return (d.log_prob(z) - D.Normal(0.0, 1.0).log_prob(z)).mean() + D.kl_divergence(d, D.Normal(0.0, 1.0)).sum()

    compiled = ndgrad.compile(loss)
    for seed in range(3):
        results = []
        for f in (loss, compiled):
            loc, raw = ndgrad.tensor([0.1, -0.4], requires_grad=True), ndgrad.tensor([0.3, 0.5], requires_grad=True)
            ndgrad.manual_seed(seed)
            y = f(loc, raw)
            y.backward()
            results.append([y.item(), *loc.grad.tolist(), *raw.grad.tolist()])
        np.testing.assert_allclose(results[1], results[0], rtol=1e-10)


@pytest.mark.parametrize(
    "make", [lambda a: D.Gamma(a, 1.0), lambda a: D.Beta(a, 2.0), lambda a: D.Dirichlet(a), lambda a: D.StudentT(a), lambda a: D.Poisson(a)]
)
def test_a_compiled_function_with_samples_of_other_kinds(make):
    def f(a):
        d = make(a)
        return (d.rsample() if d.has_rsample else d.sample()) * a + d.mean.nan_to_num()

    compiled = ndgrad.compile(f)
    for seed in range(2):
        results = []
        for g in (f, compiled):
            a = ndgrad.tensor([2.0, 3.0], requires_grad=True)
            ndgrad.manual_seed(seed)
            y = g(a)
            y.sum().backward()
            results.append([*y.tolist(), *a.grad.tolist()])
        np.testing.assert_allclose(results[1], results[0], rtol=1e-10)


def test_a_lazy_parameter_is_not_kept_from_inside_a_transform():
    d = D.Bernoulli(ndgrad.tensor([0.2, 0.7]))
    slope = grad(lambda t: (d.logits * t).sum())(ndgrad.tensor(2.0))
    assert float(slope) == pytest.approx(float(d.logits.sum()))
    c = D.Categorical(ndgrad.tensor([0.2, 0.8]))
    compiled = ndgrad.compile(lambda x: (c.logits * x).sum())
    assert float(compiled(ndgrad.tensor([1.0, 1.0]))) == pytest.approx(np.log(0.2) + np.log(0.8))
    assert c.logits.tolist() == pytest.approx([np.log(0.2), np.log(0.8)])


def test_float32_is_kept_and_half_precision_samples_are_finite():
    for dtype in (ndgrad.float32, ndgrad.float16):
        one = ndgrad.ones(3, dtype=dtype)
        for d in (
            D.Normal(one, one),
            D.Gamma(one * 0.1, one),
            D.Beta(one * 0.1, one),
            D.Uniform(one * 0, one),
            D.Exponential(one),
            D.Dirichlet(one),
        ):
            x = d.sample((7,))
            assert x.dtype is dtype
            assert bool(x.isfinite().all())
