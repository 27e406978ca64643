"""Variance and its forms, medians, quantiles, histograms, covariance."""

from __future__ import annotations

import numpy as np
import pytest

import ndgrad

A = np.random.default_rng(4).standard_normal((3, 4))


def value(t):
    return np.asarray(t.detach().numpy())


@pytest.mark.parametrize(
    ("arguments", "keywords", "ddof", "axis", "keepdims"),
    [
        ((), {}, 1, None, False),
        ((False,), {}, 0, None, False),
        ((0,), {}, 1, 0, False),
        ((0, False), {}, 0, 0, False),
        ((1, True, True), {}, 1, 1, True),
        ((), {"unbiased": False}, 0, None, False),
        ((), {"correction": 2}, 2, None, False),
        (((0, 1),), {"correction": 0, "keepdim": True}, 0, (0, 1), True),
        ((), {"axis": 1, "keepdims": True, "correction": 0}, 0, 1, True),
    ],
)
@pytest.mark.parametrize("name", ["var", "std"])
def test_every_form_of_the_correction(name, arguments, keywords, ddof, axis, keepdims):
    want = getattr(np, name)(A, ddof=ddof, axis=axis, keepdims=keepdims)
    np.testing.assert_allclose(value(getattr(ndgrad.tensor(A), name)(*arguments, **keywords)), want)
    spread, mean = getattr(ndgrad, name + "_mean")(ndgrad.tensor(A), *arguments, **keywords)
    np.testing.assert_allclose(value(spread), want)
    np.testing.assert_allclose(value(mean), A.mean(axis, keepdims=keepdims))


def test_variance_of_large_offsets_keeps_its_digits():
    x = 1e8 + np.array([1.0, 2.0, 3.0, 4.0])
    assert value(ndgrad.tensor(x).var()) == pytest.approx(5 / 3, rel=1e-12)


def test_no_degrees_of_freedom_warns_and_is_not_finite():
    with np.errstate(all="ignore"), pytest.warns(UserWarning, match="degrees of freedom is <= 0.*correction=0"):
        assert np.isnan(value(ndgrad.tensor([1.0]).var()))


def test_std_without_spread_has_gradient_zero_to_second_order():
    x = ndgrad.tensor([2.0, 2.0, 2.0], requires_grad=True)
    (g,) = ndgrad.autograd.grad(x.std(), x, create_graph=True)
    (h,) = ndgrad.autograd.grad(g.sum(), x)
    assert value(g).tolist() == [0, 0, 0]
    assert np.isfinite(value(h)).all()


def test_both_unbiased_and_correction_raise():
    with pytest.raises(TypeError, match="both unbiased.*correction"):
        ndgrad.tensor(A).var(0, unbiased=True, correction=1)


def test_integers_raise_and_say_how_to_convert():
    with pytest.raises(RuntimeError, match="int64.*to.ndgrad.float64"):
        ndgrad.tensor([1, 2]).std()


# ----- order ---------------------------------------------------------------------------------------------------------------


def test_median_is_the_lower_one_and_shares_among_equals():
    x = ndgrad.tensor([3.0, 1.0, 2.0, 2.0], requires_grad=True)
    y = x.median()
    assert value(y) == 2
    y.backward()
    assert value(x.grad).tolist() == [0, 0, 0.5, 0.5]


def test_median_along_a_dimension_finds_the_place():
    values, indices = ndgrad.tensor(A).median(1)
    assert (value(values) == np.sort(A, 1)[:, 1]).all()
    assert (np.take_along_axis(A, value(indices)[:, None], 1)[:, 0] == value(values)).all()


def test_nan_wins_in_median_and_is_skipped_in_nanmedian():
    x = ndgrad.tensor([[1.0, np.nan, 3.0, 2.0], [4.0, 5.0, 6.0, 7.0]])
    assert value(x.median(1).indices).tolist() == [1, 1]
    assert value(x.nanmedian(1).values).tolist() == [2, 5]
    assert value(x.nanmedian()) == 4


def test_mode_is_the_smallest_of_the_most_frequent_at_its_last_place():
    values, indices = ndgrad.tensor([[3, 1, 3, 1, 2], [7, 7, 7, 0, 0]]).mode()
    assert value(values).tolist() == [1, 7]
    assert value(indices).tolist() == [3, 2]


@pytest.mark.parametrize("interpolation", ["linear", "lower", "higher", "midpoint", "nearest"])
@pytest.mark.parametrize("q", [0.0, 0.25, 0.4, 0.5, 0.99, 1.0])
@pytest.mark.parametrize("dim", [None, 0, 1])
def test_quantiles_agree_with_numpy(interpolation, q, dim):
    got = ndgrad.quantile(ndgrad.tensor(A), q, dim, interpolation=interpolation)
    np.testing.assert_allclose(value(got), np.quantile(A, q, axis=dim, method=interpolation))


def test_several_quantiles_come_first():
    q = [0.1, 0.5, 0.8]
    x = np.random.default_rng(0).standard_normal((2, 5, 3))
    got = ndgrad.quantile(ndgrad.tensor(x), ndgrad.tensor(q), dim=1, keepdim=True)
    np.testing.assert_allclose(value(got), np.quantile(x, q, axis=1, keepdims=True))
    holes = np.where(x > 1, np.nan, x)
    np.testing.assert_allclose(value(ndgrad.nanquantile(ndgrad.tensor(holes), ndgrad.tensor(q), dim=1)), np.nanquantile(holes, q, axis=1))


def test_quantile_has_a_gradient_for_q_too():
    q = ndgrad.tensor(0.4, requires_grad=True)
    ndgrad.quantile(ndgrad.tensor([1.0, 2.0, 4.0, 8.0]), q).backward()
    assert value(q.grad) == pytest.approx(3 * (4 - 2))  # rank 1.2 of 3, between 2 and 4


# ----- counts and covariance ---------------------------------------------------------------------------------------------------


def test_histogram_agrees_with_numpy_and_ignores_what_is_outside():
    x = np.random.default_rng(0).standard_normal(1000)
    np.testing.assert_array_equal(value(ndgrad.histc(ndgrad.tensor(x), 17, -1.5, 2.0)), np.histogram(x, 17, (-1.5, 2.0))[0])
    np.testing.assert_array_equal(value(ndgrad.histc(ndgrad.tensor(x), 17)), np.histogram(x, 17)[0])


def test_bincount_with_weights():
    assert value(ndgrad.bincount(ndgrad.tensor([1, 3, 3]), ndgrad.tensor([0.5, 1.0, 2.0]), minlength=5)).tolist() == [0, 0.5, 0, 3, 0]


def test_covariance_and_correlation_agree_with_numpy():
    f, a = np.array([1, 2, 1, 3]), np.array([0.5, 1.0, 2.0, 1.5])
    x = ndgrad.tensor(A)
    np.testing.assert_allclose(value(ndgrad.cov(x)), np.cov(A))
    np.testing.assert_allclose(
        value(ndgrad.cov(x, correction=0, fweights=ndgrad.tensor(f), aweights=ndgrad.tensor(a))), np.cov(A, ddof=0, fweights=f, aweights=a)
    )
    np.testing.assert_allclose(value(ndgrad.corrcoef(x)), np.corrcoef(A))
    z = A + 1j * A[::-1]
    np.testing.assert_allclose(value(ndgrad.cov(ndgrad.tensor(z))), np.cov(z))


@pytest.mark.parametrize(
    ("f", "error", "text"),
    [
        (lambda x: ndgrad.quantile(x, 50), RuntimeError, "range .0, 1.*percentage"),
        (lambda x: ndgrad.quantile(x, 0.5, interpolation="cubic"), RuntimeError, "one of linear"),
        (lambda x: ndgrad.quantile(x[:0], 0.5), RuntimeError, "non-empty"),
        (lambda x: ndgrad.histc(x, 0), RuntimeError, "bins must be > 0"),
        (lambda x: ndgrad.histc(x / 0, 3), RuntimeError, "not finite.*min and max"),
        (lambda x: ndgrad.bincount(x), NotImplementedError, "integers"),
        (lambda x: ndgrad.bincount(ndgrad.tensor([-1])), RuntimeError, "non-negative"),
        (lambda x: ndgrad.cov(x[None]), RuntimeError, "two or fewer dimensions"),
        (lambda x: ndgrad.cov(x, fweights=x[0]), RuntimeError, "fweights.*integers"),
    ],
)
def test_errors_say_what_and_what_to_do(f, error, text):
    with np.errstate(all="ignore"), pytest.raises(error, match=text):
        f(ndgrad.tensor(A))
