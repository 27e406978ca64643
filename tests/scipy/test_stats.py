"""`ndgrad.scipy.stats` beside `scipy.stats`: values, and derivatives in points, loc, scale and shapes."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import ndgrad
import ndgrad.numpy as dnp

scipys = pytest.importorskip("scipy.stats")
from tests.scipy.checking import check, plain  # noqa: E402

from ndgrad.scipy import stats  # noqa: E402
from ndgrad.scipy.stats import continuous, discrete, multivariate  # noqa: E402

R = np.random.default_rng(3)
SHAPES = {
    "lognorm": (0.7,), "truncnorm": (-0.8, 2.1), "skewnorm": (1.5,), "exponnorm": (1.3,), "invgauss": (0.9,), "loguniform": (0.5, 3.0),
    "reciprocal": (0.5, 3.0), "triang": (0.4,), "powerlaw": (1.7,), "gamma": (2.3,), "erlang": (3.0,), "chi2": (3.4,), "chi": (2.7,),
    "invgamma": (3.2,), "loggamma": (1.4,), "nakagami": (1.8,), "gennorm": (1.3,), "beta": (1.6, 2.7), "betaprime": (2.1, 3.5),
    "f": (3.2, 6.1), "t": (4.5,), "pareto": (3.1,), "lomax": (3.3,), "genpareto": (0.2,), "weibull_min": (1.8,), "weibull_max": (1.8,),
    "genextreme": (0.2,), "gompertz": (0.9,), "fisk": (3.2,), "johnsonsu": (0.3, 1.6), "vonmises": (1.7,),
}  # fmt: skip
PROBABILITIES = np.array([0.12, 0.3, 0.62, 0.83])
POINT_METHODS = ("pdf", "logpdf", "cdf", "logcdf", "sf", "logsf")
#: Methods that have no rule: SciPy's on constants, and where a derivative is at stake refused with the call that does the same.
WITHOUT = {
    "skewnorm": "ppf isf entropy", "exponnorm": "ppf isf entropy", "invgauss": "ppf isf entropy", "moyal": "entropy",
    "nakagami": "entropy", "betaprime": "entropy", "genextreme": "mean var", "gompertz": "entropy mean var", "fisk": "mean var",
    "johnsonsu": "entropy mean var", "vonmises": "cdf logcdf sf logsf ppf isf mean var",
}  # fmt: skip


def parameters(name):
    return [np.array(s) for s in SHAPES.get(name, ())] + [np.array(0.3), np.array(1.7)]


@pytest.mark.parametrize("name", continuous.__all__)
def test_continuous_distribution(name):
    mine, theirs = getattr(stats, name), getattr(scipys, name)
    given = parameters(name)
    x = theirs.ppf(PROBABILITIES, *given)
    without = WITHOUT.get(name, "").split()
    for method in (*POINT_METHODS, "ppf", "isf", "entropy", "mean", "var"):
        first = [] if method in ("entropy", "mean", "var") else [PROBABILITIES if method in ("ppf", "isf") else x]
        if method in without:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                np.testing.assert_array_equal(plain(getattr(mine, method)(*first, *given)), getattr(theirs, method)(*first, *given))
            with pytest.raises(NotImplementedError, match=rf"{name}.{method} has no derivative .*(integrate|solve|Bessel)"):
                getattr(mine, method)(*first, *given[:-1], dnp.array(given[-1]).requires_grad_())
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            wanted = getattr(theirs, method)(*first, *given)
            if not np.isfinite(wanted).all():
                np.testing.assert_array_equal(plain(getattr(mine, method)(*first, *given)), wanted)
                continue
            quick = method in ("cdf", "pdf", "sf", "logcdf", "logsf")
            check(
                getattr(mine, method), getattr(theirs, method), *first, *given, tolerance=3e-6, step=2e-3, second=not quick, vmap=not quick
            )


@pytest.mark.parametrize("name", continuous.__all__)
def test_ends_of_the_support_and_beyond(name):
    mine, theirs = getattr(stats, name), getattr(scipys, name)
    given = parameters(name)
    low, high = theirs.support(*given)
    points = [np.nan, -np.inf, np.inf, 8.0, -8.0]
    points += [e + d for e in (low, high) if np.isfinite(e) for d in (-1.0, 0.0, 1.0)]
    x = dnp.array(points).requires_grad_()
    params = [dnp.array(p).requires_grad_() for p in given]
    for method in POINT_METHODS:
        if method in WITHOUT.get(name, "").split() or name in ("vonmises", "skewnorm"):
            continue
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            wanted = getattr(theirs, method)(np.array(points), *given)
            got = getattr(mine, method)(x, *params)
        known = ~np.isnan(wanted) | np.isnan(points)  # at infinity some of SciPy's formulas are NaN, and ours the limit
        np.testing.assert_allclose(plain(got)[known], wanted[known], rtol=1e-7, err_msg=method)
    # what lies outside has no part in the gradient, and spoils nothing
    with np.errstate(all="ignore"):
        if np.isfinite(low):
            (mine.pdf(dnp.array([low - 1.0, theirs.ppf(0.4, *given)]), *params) * 1.0).sum().backward()
            assert all(np.isfinite(p.grad.item()) for p in params)
    with np.errstate(all="ignore"):
        assert np.isnan(mine.pdf(1.0, *given[:-1], -1.0).item())


@pytest.mark.parametrize("name", ["norm", "expon", "gamma", "beta", "t", "lognorm", "weibull_min"])
def test_draws_are_scipys_and_differentiable(name):
    mine, theirs = getattr(stats, name), getattr(scipys, name)
    given = parameters(name)
    params = [dnp.array(p).requires_grad_() for p in given]
    drawn = mine.rvs(*params, size=(5,), random_state=7)
    wanted = theirs.rvs(*given, size=(5,), random_state=7)
    np.testing.assert_allclose(plain(drawn), wanted, rtol=1e-8)
    np.testing.assert_array_equal(plain(mine.rvs(*given, size=(5,), random_state=7)), wanted)
    drawn.sum().backward()
    probability = theirs.cdf(wanted, *given)
    for i, p in enumerate(params):
        moved = lambda h, i=i: theirs.ppf(probability, *(g + h * (i == j) for j, g in enumerate(given))).sum()
        np.testing.assert_allclose(p.grad.item(), (moved(1e-5) - moved(-1e-5)) / 2e-5, rtol=1e-5)


def test_frozen_distributions_and_other_calls():
    scale = dnp.array(2.0).requires_grad_()
    frozen = stats.gamma(2.5, scale=scale)
    reference = scipys.gamma(2.5, scale=2.0)
    for method in ("pdf", "logpdf", "cdf", "sf", "logsf"):
        np.testing.assert_allclose(plain(getattr(frozen, method)([0.5, 3.0])), getattr(reference, method)([0.5, 3.0]), rtol=1e-12)
    for method in ("mean", "var", "std", "median", "entropy"):
        np.testing.assert_allclose(plain(getattr(frozen, method)()), getattr(reference, method)(), rtol=1e-10)
    np.testing.assert_allclose([plain(m) for m in frozen.stats("mv")], reference.stats("mv"))
    np.testing.assert_allclose([plain(m) for m in frozen.interval(0.9)], reference.interval(0.9))
    frozen.rvs(3, random_state=0).sum().backward()
    assert scale.grad is not None
    np.testing.assert_allclose(
        plain(stats.norm.nnlf((0.2, 1.5), dnp.array([1.0, 2.0]))), scipys.norm.nnlf((0.2, 1.5), np.array([1.0, 2.0]))
    )
    with pytest.raises(TypeError, match="shape parameter 'a'"):
        stats.gamma.pdf(1.0)
    with pytest.raises(TypeError, match="unexpected"):
        stats.norm.pdf(1.0, scal=2.0)


DISCRETE = {
    "bernoulli": (0.3,), "binom": (7.0, 0.35), "poisson": (2.6,), "geom": (0.4,), "nbinom": (3.5, 0.45), "betabinom": (6.0, 1.4, 2.3),
    "randint": (1.0, 6.0),
}  # fmt: skip


@pytest.mark.parametrize("name", discrete.__all__)
def test_discrete_distribution(name):
    mine, theirs = getattr(stats, name), getattr(scipys, name)
    k = np.array([-1, 0, 1, 2, 5, 9])
    whole = {"binom": 1, "betabinom": 1, "randint": 2}.get(name, 0)
    shapes = DISCRETE[name]
    fixed, smooth = shapes[:whole], [np.array(s) for s in shapes[whole:]]
    for method in ("pmf", "logpmf", "cdf", "sf"):
        if name == "betabinom" and method in ("cdf", "sf"):
            np.testing.assert_allclose(plain(getattr(mine, method)(k, *shapes)), getattr(theirs, method)(k, *shapes))
            with pytest.raises(NotImplementedError, match=f"betabinom.{method} .* sum pmf"):
                getattr(mine, method)(k, *fixed, *(dnp.array(s).requires_grad_() for s in smooth))
            continue
        with np.errstate(all="ignore"):
            ours = lambda *p, method=method: (
                np.where(np.isinf(w := getattr(theirs, method)(k, *shapes)), 0.0, 1.0)
                * dnp.where(np.isinf(w), 0.0, getattr(mine, method)(k, *fixed, *p))
            )
            his = lambda *p, method=method: np.nan_to_num(getattr(theirs, method)(k, *fixed, *p), neginf=0.0)
            check(ours, his, *smooth)
            np.testing.assert_allclose(plain(getattr(mine, method)(k, *shapes)), getattr(theirs, method)(k, *shapes), rtol=1e-10)
    for method in ("mean", "var"):
        np.testing.assert_allclose(plain(getattr(mine, method)(*shapes)), getattr(theirs, method)(*shapes), rtol=1e-10)
    np.testing.assert_array_equal(plain(mine.ppf(PROBABILITIES, *shapes)), theirs.ppf(PROBABILITIES, *shapes))
    given = [int(s) if i < whole else s for i, s in enumerate(shapes)]
    np.testing.assert_array_equal(plain(mine.rvs(*given, size=4, random_state=1)), theirs.rvs(*given, size=4, random_state=1))
    if smooth:
        with pytest.raises(NotImplementedError, match="score function"):
            mine.rvs(*fixed, *(dnp.array(s).requires_grad_() for s in smooth))


def positive(x):
    return x @ x.swapaxes(-1, -2) + np.eye(x.shape[-1])


def test_multivariate_normal_and_t():
    mean, half, x = R.standard_normal(3), R.standard_normal((3, 3)), R.standard_normal((4, 3))
    for name, more in (("multivariate_normal", ()), ("multivariate_t", (np.array(3.5),))):
        run = lambda s, name=name: lambda x, m, h, *rest: getattr(s, name).logpdf(x, m, positive(h), *rest)
        check(run(stats), run(scipys), x, mean, half, *more)
    check(*(lambda h, s=s: s.multivariate_normal.entropy(mean, positive(h)) for s in (stats, scipys)), half)
    check(*(lambda x, v, s=s: s.multivariate_normal.pdf(x, np.zeros(3), v) for s in (stats, scipys)), x, np.array([0.5, 1.0, 2.0]))
    check(*(lambda x, v, s=s: s.multivariate_normal.logpdf(x, 0.5, v) for s in (stats, scipys)), x[:, 0], np.array(1.3))
    m, h = dnp.array(mean).requires_grad_(), dnp.array(half).requires_grad_()
    drawn = stats.multivariate_normal.rvs(m, positive(h), size=5, random_state=2)
    np.testing.assert_allclose(plain(drawn), scipys.multivariate_normal.rvs(mean, positive(half), size=5, random_state=2), atol=1e-9)
    drawn.sum().backward()
    np.testing.assert_allclose(m.grad.numpy(), [5.0, 5.0, 5.0])
    with pytest.raises(np.linalg.LinAlgError, match="positive definite"):
        stats.multivariate_normal.logpdf(mean, mean, np.zeros((3, 3)))
    with pytest.raises(NotImplementedError, match="logpdf"):
        stats.multivariate_normal.cdf(m, mean)
    np.testing.assert_allclose(stats.multivariate_normal.cdf(mean, mean), scipys.multivariate_normal.cdf(mean, mean))


def test_dirichlet_multinomial_and_matrices():
    alpha, free = np.array([1.4, 2.0, 3.3]), np.array([0.2, 0.3])
    check(*(lambda p, a, s=s: s.dirichlet.logpdf(p, a) for s in (stats, scipys)), free, alpha)
    for method in ("mean", "var", "entropy", "cov"):
        check(*(lambda a, s=s, method=method: getattr(s.dirichlet, method)(a) for s in (stats, scipys)), alpha)
    counts = np.array([[1, 2, 3], [0, 4, 2], [1, 1, 1]])
    p = np.array([0.2, 0.5, 0.3])
    np.testing.assert_allclose(plain(stats.multinomial.logpmf(counts, 6, p)), scipys.multinomial.logpmf(counts, 6, p))
    check(*(lambda q, s=s: s.multinomial.pmf(counts[:2], 6, q) for s in (stats, scipys)), p, tangents=lambda t: t - t.mean())
    half, other = R.standard_normal((3, 3)), R.standard_normal((3, 3))
    for name in ("wishart", "invwishart"):
        run = lambda s, name=name: lambda x, df, c: getattr(s, name).logpdf(positive(x), df, positive(c))
        check(
            lambda x, df, c, run=run: run(stats)(x, df, c),
            lambda x, df, c, run=run: run(scipys)(x, float(df), c),
            half,
            np.array(5.5),
            other,
        )
        stack = np.stack([positive(half), positive(other)], axis=-1)
        np.testing.assert_allclose(
            plain(getattr(stats, name).logpdf(stack, 5, np.eye(3))), getattr(scipys, name).logpdf(stack, 5, np.eye(3))
        )
    x = R.standard_normal((2, 3))
    run = lambda s: lambda x, m, u, v: s.matrix_normal.logpdf(x, m, positive(u), positive(v))
    check(run(stats), run(scipys), x, x[::-1].copy(), R.standard_normal((2, 2)), half)
    assert set(multivariate.__all__) >= {"wishart", "dirichlet", "multinomial"}


X = R.uniform(0.5, 3.0, (6, 3))
DESCRIPTIVE = {
    "gmean": {}, "hmean": {}, "skew": {}, "kurtosis": {}, "variation": {}, "sem": {}, "zscore": {}, "gzscore": {}, "iqr": {}, "gstd": {},
    "describe": {}, "circmean": {}, "circvar": {}, "circstd": {}, "entropy": {}, "tmean": {"limits": (0.8, 2.6)},
    "tvar": {"limits": (0.8, 2.6)}, "trim_mean": {"proportiontocut": 0.2}, "moment": {"order": 3}, "pmean": {"p": 1.5},
    "ttest_1samp": {"popmean": 1.0},
}  # fmt: skip


@pytest.mark.parametrize("name", DESCRIPTIVE)
def test_descriptive_statistics(name):
    settings = DESCRIPTIVE[name]
    check(*(lambda x, s=s: tuple_of(getattr(s, name)(x, **settings)) for s in (stats, scipys)), X)


def tuple_of(result):
    return tuple(result[:2]) if hasattr(result, "pvalue") else tuple(result) if isinstance(result, tuple) else result


@pytest.mark.parametrize(
    ("name", "settings"),
    [("skew", {"bias": False, "axis": 1}), ("kurtosis", {"bias": False, "fisher": False}), ("gmean", {"axis": None}), ("sem", {"ddof": 0})],
)
def test_settings_of_descriptive_statistics(name, settings):
    wide = R.uniform(0.5, 3.0, (6, 5))
    check(*(lambda x, s=s: getattr(s, name)(x, **settings) for s in (stats, scipys)), wide)


def test_statistics_of_two_samples():
    u, v = R.standard_normal(8), R.standard_normal(8) + 0.5
    for name in ("pearsonr", "ttest_rel", "ttest_ind", "f_oneway"):
        check(*(lambda a, b, s=s, name=name: tuple(getattr(s, name)(a, b)[:2]) for s in (stats, scipys)), u, v)
    check(*(lambda a, b, s=s: tuple(s.ttest_ind(a, b, equal_var=False, alternative="less")[:2]) for s in (stats, scipys)), u, v[:6])
    check(*(lambda a, b, s=s: tuple(s.pearsonr(a, b, alternative="greater")[:2]) for s in (stats, scipys)), u, v)
    wanted, got = scipys.linregress(u, v), stats.linregress(u, v)
    np.testing.assert_allclose([plain(g) for g in (*got, got.intercept_stderr)], [*wanted, wanted.intercept_stderr])
    statistic, pvalue = stats.ttest_1samp(u, 0.1)
    np.testing.assert_allclose([plain(statistic), plain(pvalue)], tuple(scipys.ttest_1samp(u, 0.1)))
    assert stats.ttest_1samp(u, 0.1).df == 7
    many = ndgrad.func.vmap(stats.linregress)(dnp.array(np.stack([u, v])), dnp.array(np.stack([v, u])))
    np.testing.assert_allclose(plain(many.intercept_stderr)[0], wanted.intercept_stderr)
    check(*(lambda a, b, s=s: tuple(s.linregress(a, b)[:5]) for s in (stats, scipys)), u, v)
    weights = R.uniform(0.5, 1.0, 8)
    for name in ("wasserstein_distance", "energy_distance"):
        check(
            *(lambda a, b, s=s, name=name: getattr(s, name)(a, b) for s in (stats, scipys)), u, v[:6], vmap=False, second=False, step=1e-5
        )
        run = lambda s, name=name: lambda a, w: getattr(s, name)(a, v, w)
        check(run(stats), run(scipys), u, weights, vmap=False, second=False, step=1e-5)
    check(*(lambda p, q, s=s: s.entropy(p, q, base=2) for s in (stats, scipys)), abs(u), abs(v))
    check(*(lambda lam, x, s=s: s.boxcox_llf(lam, x) for s in (stats, scipys)), np.array(0.4), X[:, 0])
    check(*(lambda lam, x, s=s: s.yeojohnson_llf(lam, x) for s in (stats, scipys)), np.array(0.4), u)


def test_kernel_densities():
    data, points = R.standard_normal((2, 9)), R.standard_normal((2, 4))
    weights = R.uniform(0.5, 1.0, 9)
    for method in ("scott", "silverman"):
        check(*(lambda d, x, s=s, m=method: s.gaussian_kde(d, m)(x) for s in (stats, scipys)), data, points, tolerance=3e-6)
    check(*(lambda d, w, s=s: s.gaussian_kde(d, weights=w).logpdf(points[:1]) for s in (stats, scipys)), data[0], weights, tolerance=3e-6)
    check(*(lambda b, s=s: s.gaussian_kde(data, b if s is stats else float(b))(points) for s in (stats, scipys)), np.array(0.7))
    check(*(lambda d, s=s: s.gaussian_kde(d).integrate_box_1d(-0.5, 1.0) for s in (stats, scipys)), data[0], tolerance=3e-6)
    check(*(lambda d, s=s: s.gaussian_kde(d).integrate_gaussian(0.2, 0.5) for s in (stats, scipys)), data[0], tolerance=3e-6)
    np.testing.assert_allclose(plain(stats.gaussian_kde(data).resample(3, 5)), scipys.gaussian_kde(data).resample(3, 5))


def test_derivatives_in_shapes_hold_far_out():
    """Against differences of SciPy's functions in the logarithm, where these have enough digits."""
    a, x = np.array([0.5, 3.0, 40.0, 900.0]), np.array([4.0, 12.0, 60.0, 1000.0])
    shape = dnp.array(a).requires_grad_()
    stats.gamma.logsf(x, shape).sum().backward()
    h = 1e-5 * a
    wanted = (scipys.gamma.logsf(x, a + h) - scipys.gamma.logsf(x, a - h)) / (2 * h)
    np.testing.assert_allclose(shape.grad.numpy(), wanted, rtol=1e-6)


def test_what_has_no_rule_says_so():
    x = dnp.array([1.0, 2.0]).requires_grad_()
    with pytest.raises(NotImplementedError, match="ranks are whole numbers"):
        stats.spearmanr(x, x)
    with pytest.raises(NotImplementedError, match="a distribution with rules"):
        stats.kappa4.pdf(x, 0.5, 0.5)
    np.testing.assert_allclose(stats.kappa4(0.5, 0.5).pdf(0.2), scipys.kappa4(0.5, 0.5).pdf(0.2))
    with ndgrad.no_grad():
        assert stats.spearmanr(x, x).statistic == pytest.approx(1.0)
    for name in scipys.__all__:
        assert getattr(stats, name) is not None
    with pytest.raises(NotImplementedError, match="nan_policy"):
        stats.skew(x, nan_policy="omit")


def test_what_scipys_distributions_have_besides_runs_on_constants():
    p = dnp.array(2.0).requires_grad_()
    np.testing.assert_allclose(plain(stats.gamma.moment(3, 2.0)), scipys.gamma.moment(3, 2.0))
    np.testing.assert_allclose(plain(stats.norm.expect(lambda x: x * x)), 1.0)
    np.testing.assert_allclose([plain(m) for m in stats.gamma.stats(2.0, moments="mvsk")], scipys.gamma.stats(2.0, moments="mvsk"))
    np.testing.assert_allclose(plain(stats.gamma(2.0).moment(2)), scipys.gamma(2.0).moment(2))
    np.testing.assert_allclose([plain(v) for v in stats.expon.fit([1.0, 2.0], floc=0)], [0.0, 1.5])
    for call in (
        lambda: stats.gamma.moment(3, p),
        lambda: stats.gamma(p).moment(2),
        lambda: stats.gamma.stats(p, moments="s"),
        lambda: stats.norm.expect(lambda x: x * p),  # the function closes over it
        lambda: stats.skewnorm.rvs(p, size=2),
        lambda: stats.genhyperbolic.pdf(0.3, p, 1.0, 0.2),
    ):
        with pytest.raises(NotImplementedError, match="no derivative here"):
            call()


def test_gradients_where_a_formula_has_none():
    """At loc, at the ends of the support, and at limits of the shapes."""
    at = lambda f, *xs: [float(plain(g)) for g in ndgrad.func.grad(f, tuple(range(len(xs))))(*map(dnp.array, xs))]
    np.testing.assert_allclose(at(stats.laplace.cdf, 0.0), [0.5])
    np.testing.assert_allclose(at(lambda loc: stats.laplace.sf(1.0, loc), 1.0), [0.5])
    np.testing.assert_allclose(plain(ndgrad.func.hessian(stats.logistic.logpdf)(dnp.array(0.0))), -0.5)
    np.testing.assert_allclose(at(lambda s: stats.chi2.logpdf(0.0, 2.0, scale=s), 2.0), [-0.5])
    np.testing.assert_allclose(at(lambda s: stats.weibull_min.logpdf(0.0, 1.0, scale=s), 2.0), [-0.5])
    np.testing.assert_allclose(at(lambda x: stats.beta.logpdf(x, 1.0, 3.0), 0.0), [-2.0])
    np.testing.assert_allclose(at(stats.gennorm.cdf, 0.0, 1.5), [scipys.gennorm.pdf(0.0, 1.5), 0.0])
    np.testing.assert_allclose(plain(ndgrad.func.hessian(lambda x: stats.gennorm.logpdf(x, 2.0))(dnp.array(0.0))), -2.0)
    np.testing.assert_allclose(at(stats.gennorm.ppf, 0.5, 1.5)[0], 1 / scipys.gennorm.pdf(0.0, 1.5))
    np.testing.assert_allclose(at(lambda a: stats.gamma.logcdf(-1.0, a), 500.0), [0.0])
    np.testing.assert_allclose(at(lambda p: stats.bernoulli.logpmf(0, p), 0.0), [-1.0])
    np.testing.assert_allclose(plain(stats.t.logpdf(0.7, np.inf)), scipys.norm.logpdf(0.7))
    np.testing.assert_allclose(at(stats.t.cdf, 0.7, np.inf), [scipys.norm.pdf(0.7), 0.0])
    # Fisher's expansion: the normal distribution less its density times (t + t^3) / 4 df
    np.testing.assert_allclose(at(lambda df: stats.t.cdf(0.7, df), 1e9), [scipys.norm.pdf(0.7) * (0.7 + 0.7**3) / 4e18], rtol=1e-8)
    x = np.array([0.5, -1.0])
    np.testing.assert_allclose(
        plain(stats.multivariate_t.logpdf(x, [0.0, 0.0], np.eye(2), np.inf)), scipys.multivariate_t.logpdf(x, [0.0, 0.0], np.eye(2), np.inf)
    )
    for c in (0.0, 1e-9, -1e-9):  # log(1 + c x) / c is a series there
        bent = ndgrad.func.hessian(lambda c: stats.genpareto.logpdf(1.3, c))(dnp.array(c))
        np.testing.assert_allclose(plain(bent), 1.3**2 - 2 * 1.3**3 / 3, rtol=1e-6)


def test_discrete_distributions_at_the_edges_of_their_parameters():
    """If a logarithm is infinite, probabilities are powers: d/dp of C(7, k) p^k (1 - p)^(7 - k), and so on."""
    slope = lambda f, x: float(plain(ndgrad.func.grad(f)(dnp.array(x))))
    edges = {
        ("binom", "pmf", 0, (7,), 0.0): -7.0, ("binom", "pmf", 1, (7,), 0.0): 7.0, ("binom", "pmf", 3, (7,), 0.0): 0.0,
        ("binom", "pmf", 6, (7,), 1.0): -7.0, ("binom", "pmf", 7, (7,), 1.0): 7.0, ("binom", "pmf", 900, (2000,), 0.0): 0.0,
        ("poisson", "pmf", 0, (), 0.0): -1.0, ("poisson", "pmf", 1, (), 0.0): 1.0, ("poisson", "pmf", 40, (), 0.0): 0.0,
        ("geom", "pmf", 1, (), 1.0): 1.0, ("geom", "pmf", 2, (), 1.0): -1.0, ("geom", "cdf", 1, (), 1.0): 1.0,
        ("geom", "sf", 1, (), 1.0): -1.0, ("nbinom", "pmf", 1, (3.5,), 1.0): -3.5, ("bernoulli", "logcdf", 1, (), 1.0): 0.0,
        ("bernoulli", "logsf", 0, (), 1e-12): 1e12,
    }  # fmt: skip
    for (name, method, k, more, p), want in edges.items():
        run = lambda v, name=name, method=method, k=k, more=more: getattr(getattr(stats, name), method)(k, *more, v)
        np.testing.assert_allclose(slope(run, p), want, rtol=1e-12, err_msg=f"{name}.{method}({k}, {more}, {p})")
        np.testing.assert_allclose(plain(run(p)), getattr(getattr(scipys, name), method)(k, *more, p), rtol=1e-12)
