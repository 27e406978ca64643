"""Points at which formulas lose their digits, each compared with a closed form."""

from __future__ import annotations

import math

import numpy as np
import pytest

import ndgrad

SIZES = (3, 7, 10, 1000)


def gradient(f, values, dtype=np.float64):
    x = ndgrad.tensor(np.asarray(values, dtype), requires_grad=True)
    y = f(x)
    return y.detach().numpy(), ndgrad.autograd.grad(y.sum(), x)[0].numpy()


@pytest.mark.parametrize("dtype", ["f4", "f8", "c16"])
@pytest.mark.parametrize("value", [0.1, 0.7, 1e30 / 3])
@pytest.mark.parametrize("n", SIZES)
def test_equal_numbers_have_no_spread_and_no_gradient_of_it(n, value, dtype):
    for dim in (None, 0, 1):
        values = np.full((n, n) if dim == 1 else (n, 2), value).astype(dtype)
        for f in (lambda x, dim=dim: x.std(dim), lambda x, dim=dim: ndgrad.std_mean(x, dim)[0]):
            spread, g = gradient(f, values, dtype)
            assert (spread == 0).all()
            assert (g == 0).all()


def test_variance_of_numbers_that_are_nearly_equal():
    values = 1e9 + np.array([0.0, 1.0, 2.0])
    variance, g = gradient(lambda x: x.var(), values)
    assert variance == 1.0
    np.testing.assert_allclose(g, [-1.0, 0.0, 1.0])


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("scale", [0.625, -0.625])
def test_standard_deviation_whose_variance_leaves_the_range(scale, dtype):
    unit = float(np.finfo(dtype).max) ** scale
    spread, g = gradient(lambda x: x.std(), np.array([1.0, 2.0, 3.0]) * unit, dtype)
    np.testing.assert_allclose(spread / unit, 1.0, rtol=1e-6)
    np.testing.assert_allclose(g, [-0.5, 0.0, 0.5], atol=1e-6)


@pytest.mark.parametrize("dtype", ["f4", "f8", "c16"])
@pytest.mark.parametrize("ord", [2, 3, 7.5, -1, -3])
@pytest.mark.parametrize("scale", [0.6, -0.6])
@pytest.mark.parametrize("dim", [None, 0])
def test_norm_whose_powers_leave_the_range(dim, scale, ord, dtype):
    unit = float(np.finfo(dtype).max) ** scale
    values = np.array([3.0, 4.0])
    norm, g = gradient(lambda x: ndgrad.linalg.vector_norm(x, ord, dim), (values * unit).astype(dtype), dtype)
    expected = (values**ord).sum() ** (1 / ord)
    np.testing.assert_allclose(norm / unit, expected, rtol=1e-5)
    np.testing.assert_allclose(g, (values / expected) ** (ord - 1), rtol=1e-5)


@pytest.mark.parametrize("ord", [1.5, 2, 3, 4])
def test_norm_has_derivatives_of_second_order_at_zero_that_are_zero(ord):
    x = ndgrad.zeros(3, requires_grad=True)
    (g,) = ndgrad.autograd.grad(ndgrad.linalg.vector_norm(x, ord), x, create_graph=True)
    (h,) = ndgrad.autograd.grad(g.sum(), x)
    assert g.tolist() == h.tolist() == [0.0] * 3


def test_a_power_of_zero_is_constant_in_numbers_without_a_reciprocal():
    x = ndgrad.tensor([5e-324, -1e-310, 0.0, math.inf, math.nan, 2.0], requires_grad=True)
    y = ndgrad.zeros(6, requires_grad=True)
    (g,) = ndgrad.autograd.grad((x**y).sum(), x)
    assert g.tolist() == [0.0] * 6
    x, y = ndgrad.tensor([2.0], requires_grad=True), ndgrad.zeros(1, requires_grad=True)
    (g,) = ndgrad.autograd.grad((x**y).sum(), x, create_graph=True)
    assert ndgrad.autograd.grad(g.sum(), y)[0].tolist() == [0.5]  # d/dy of y x^(y-1)


@pytest.mark.parametrize("name", ["i1", "i1e"])
def test_bessel_functions_of_order_one_at_subnormal_numbers(name):
    for values in ([5e-324, 1e-310, -5e-324, 0.0], np.float32([1e-45, -1e-40])):
        _, g = gradient(getattr(ndgrad.special, name), values, np.asarray(values).dtype)
        np.testing.assert_allclose(g, 0.5)


def test_scaled_bessel_functions_far_out():
    mp = pytest.importorskip("mpmath")
    x = [1.5, 30.0, 999.0, 1001.0, 1e6]
    for name, slope in (
        ("i0e", lambda v: (mp.besseli(1, v) - mp.besseli(0, v)) * mp.exp(-v)),
        ("i1e", lambda v: (mp.besseli(0, v) - mp.besseli(1, v) / v - mp.besseli(1, v)) * mp.exp(-v)),
        ("scaled_modified_bessel_k0", lambda v: (mp.besselk(0, v) - mp.besselk(1, v)) * mp.exp(v)),
        ("scaled_modified_bessel_k1", lambda v: (mp.besselk(1, v) - mp.besselk(0, v) - mp.besselk(1, v) / v) * mp.exp(v)),
    ):
        with mp.workdps(50):
            expected = [float(slope(mp.mpf(v))) for v in x]
        np.testing.assert_allclose(gradient(getattr(ndgrad.special, name), x)[1], expected, rtol=2e-12)


@pytest.mark.parametrize("name", ["hardtanh", "relu6", "softshrink", "hardshrink"])
def test_clipped_activations_have_no_slope_at_nan(name):
    for n in (1, 40):
        value, g = gradient(getattr(ndgrad.nn.functional, name), [math.nan] * n)
        assert np.isnan(value).all()
        assert (g == 0).all()


def test_hardswish_at_nan_is_nan():
    assert np.isnan(gradient(ndgrad.nn.functional.hardswish, [math.nan])[1]).all()


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_weights_of_equal_numbers_that_are_large(dtype):
    large = np.full(3, 4 / np.finfo(dtype).eps)
    np.testing.assert_allclose(gradient(lambda x: ndgrad.logsumexp(x, 0), large, dtype)[1], [1 / 3] * 3, rtol=1e-6)
    expected = [1 + 1 / 2 + 1 / 3, 1 / 2 + 1 / 3, 1 / 3]
    np.testing.assert_allclose(gradient(lambda x: ndgrad.logcumsumexp(x, 0), large, dtype)[1], expected, rtol=1e-6)
    x, first = ndgrad.tensor(large.astype(dtype)), ndgrad.tensor(np.eye(3, dtype=dtype)[0])
    t = ndgrad.func.jvp(lambda x: ndgrad.logcumsumexp(x, 0), (x,), (first,))[1]
    np.testing.assert_allclose(t.numpy(), [1, 1 / 2, 1 / 3], rtol=1e-6)
    target = ndgrad.tensor([0])
    np.testing.assert_allclose(
        gradient(lambda x: ndgrad.nn.functional.cross_entropy(x[None], target), large, dtype)[1], [-2 / 3, 1 / 3, 1 / 3], rtol=1e-6
    )


def test_cross_entropy_of_an_impossible_class():
    loss, g = gradient(lambda x: ndgrad.nn.functional.cross_entropy(x[None], ndgrad.tensor([0])), [-math.inf, 0.0, 0.0])
    assert loss == math.inf
    np.testing.assert_allclose(g, [-1.0, 0.5, 0.5])


@pytest.mark.parametrize("logits", [math.inf, -math.inf])
def test_binary_cross_entropy_of_infinite_logits(logits):
    loss, g = gradient(lambda x: ndgrad.nn.functional.binary_cross_entropy_with_logits(x, ndgrad.tensor([0.5])), [logits])
    assert loss == math.inf
    assert g.tolist() == [math.copysign(0.5, logits)]


@pytest.mark.parametrize("dtype", ["f2", "f4"])
@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
def test_running_sums_and_products_round_once(name, dtype):
    random = np.random.default_rng(0)
    x = (random.random(2000) if name == "cumsum" else 1 + random.uniform(-0.01, 0.01, 2000)).astype(dtype)
    expected = getattr(np, name)(x.astype(np.float64))
    found = getattr(ndgrad, name)(ndgrad.tensor(x), 0).numpy()
    assert found.dtype == x.dtype
    np.testing.assert_allclose(found, expected, rtol=float(np.finfo(dtype).eps) * (1 if dtype == "f4" else 2))


@pytest.mark.parametrize("f", [ndgrad.asinh, ndgrad.acosh])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_inverse_hyperbolic_functions_beyond_the_squares(f, dtype):
    x = float(np.finfo(dtype).max) ** 0.75
    np.testing.assert_allclose(gradient(f, [x], dtype)[1], [1 / x], rtol=1e-6)


def test_statistics_that_overflow_are_nan_and_not_zero():
    x = np.array([[1e200, 2e200, -1e200]])
    for f in (lambda t: ndgrad.nn.functional.layer_norm(t, (3,)), lambda t: ndgrad.nn.functional.rms_norm(t, (3,))):
        with np.errstate(all="ignore"):
            value, g = gradient(f, x)
        assert np.isnan(value).all()
        assert np.isnan(g).all()


@pytest.mark.parametrize("make", [ndgrad.nn.BatchNorm1d, ndgrad.nn.BatchNorm2d])
def test_an_empty_batch_leaves_running_statistics(make):
    norm = make(2)
    shape = (0, 2) if make is ndgrad.nn.BatchNorm1d else (0, 2, 3, 3)
    norm(ndgrad.zeros(shape))
    assert norm.running_mean.tolist() == [0.0, 0.0]
    assert norm.running_var.tolist() == [1.0, 1.0]


def test_empty_residuals_of_complex_least_squares_are_real():
    found = ndgrad.linalg.lstsq(ndgrad.ones(2, 3, dtype=ndgrad.complex128), ndgrad.ones(2, 1, dtype=ndgrad.complex128))
    assert found.residuals.dtype == np.float64
    assert found.residuals.shape == (0,)


def test_largest_numbers_of_half_precision_replace_infinities():
    for half in (ndgrad.float16, ndgrad.bfloat16):
        x = ndgrad.tensor([math.inf, -math.inf, math.nan, 1.5]).to(half)
        assert ndgrad.nan_to_num(x).float().tolist() == [ndgrad.finfo(half).max, ndgrad.finfo(half).min, 0.0, 1.5]


def test_lgamma_of_subnormal_numbers():
    np.testing.assert_allclose(ndgrad.lgamma(ndgrad.tensor([5e-324, -5e-324, 1e-310])).numpy(), -np.log([5e-324, 5e-324, 1e-310]))


@pytest.mark.parametrize("name", ["abs", "angle", "sgn", "logit"])
def test_where_a_rule_keeps_nothing_of_a_quotient_higher_derivatives_are_numbers(name):
    """Higher derivatives of a masked quotient must be numbers: 0 times the derivative of a quotient by 0 is NaN.

    This holds for every order of differentiation.
    """

    def f(x):
        z = ndgrad.complex(x, 2 * x)
        return {"abs": z.abs, "angle": z.angle, "sgn": lambda: z.sgn().real, "logit": lambda: x.logit(eps=0.1)}[name]().sum()

    x, v = ndgrad.tensor([0.0, 1.0], dtype=ndgrad.float64), ndgrad.tensor([1.0, 0.5], dtype=ndgrad.float64)
    leaf = x.clone().requires_grad_()
    (first,) = ndgrad.autograd.grad(f(leaf), leaf, create_graph=True)
    found = [
        ndgrad.autograd.functional.hvp(f, x, v)[1],
        ndgrad.autograd.functional.vhp(f, x, v)[1],
        ndgrad.autograd.grad((first * v).sum(), leaf)[0],
        ndgrad.func.jvp(ndgrad.func.grad(f), (x,), (v,))[1],
        ndgrad.func.grad(lambda x: ndgrad.func.jvp(f, (x,), (v,))[1])(x),
    ]
    for second in found:
        np.testing.assert_allclose(second.detach().numpy(), [0.0, 0.0], atol=1e-14)
