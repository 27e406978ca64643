"""Running sums and products, differences and integrals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import ndgrad

A = np.array([[1.0, -2.0, 0.5], [3.0, 0.0, 2.0]])
floats = hnp.arrays(np.float64, hnp.array_shapes(min_dims=1, max_dims=3, max_side=6), elements=st.floats(-3, 3))


def value(t):
    return np.asarray(t.detach().numpy())


@given(floats)
def test_diff_undoes_cumsum(array):
    x = ndgrad.tensor(array)
    np.testing.assert_allclose(value(x.cumsum(0).diff(dim=0, prepend=x[:1] * 0)), array, atol=1e-12)


@given(floats)
def test_gradient_of_cumprod_is_that_of_its_factors_whatever_is_zero(array):
    """Compare with the product rule written out: no division, one product per pair."""
    array = np.round(array)  # many zeros
    line = array.reshape(-1)[:7]
    x = ndgrad.tensor(line, requires_grad=True)
    x.cumprod(0).sum().backward()
    n = len(line)
    want = [sum(np.prod(np.delete(line[: m + 1], k)) for m in range(k, n)) for k in range(n)]
    np.testing.assert_allclose(value(x.grad), want, rtol=1e-9, atol=1e-9)


def test_logcumsumexp_neither_over_nor_underflows():
    x = ndgrad.tensor([-800.0, 800.0, 799.0], requires_grad=True)
    y = x.logcumsumexp(0)
    np.testing.assert_allclose(value(y), [-800.0, 800.0, 800 + np.log1p(np.exp(-1.0))])
    y.sum().backward()
    np.testing.assert_allclose(value(x.grad), [1.0, 1 + 1 / (1 + np.exp(-1.0)), np.exp(-1.0) / (1 + np.exp(-1.0))])


def test_other_names():
    x = ndgrad.tensor(A)
    assert (value(ndgrad.cumlogsumexp(x, 1)) == value(ndgrad.logcumsumexp(x, 1))).all()
    assert (value(ndgrad.trapz(x)) == value(ndgrad.trapezoid(x))).all()


def test_cumulative_extrema_name_the_latest_place():
    values, indices = ndgrad.tensor([2.0, 1.0, 2.0, 0.0]).cummax(0)
    assert value(values).tolist() == [2, 2, 2, 2]
    assert value(indices).tolist() == [0, 0, 2, 2]


def test_gradient_of_cummax_gathers_at_the_places():
    x = ndgrad.tensor([2.0, 1.0, 2.0, 0.0], requires_grad=True)
    x.cummax(0).values.sum().backward()
    assert value(x.grad).tolist() == [2, 0, 2, 0]


@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
def test_in_place_equals_out_of_place(name):
    x = ndgrad.tensor(A, requires_grad=True)
    y = x * 1.0
    assert getattr(y, name + "_")(1) is y
    (y * y).sum().backward()
    x2 = ndgrad.tensor(A, requires_grad=True)
    z = getattr(x2 * 1.0, name)(1)
    (z * z).sum().backward()
    np.testing.assert_allclose(value(y), value(z))
    np.testing.assert_allclose(value(x.grad), value(x2.grad))


def test_in_place_keeps_its_dtype_or_refuses():
    x = ndgrad.tensor(np.array([1, 2], np.int32))
    assert value(x.cumsum_(0)).dtype == np.int32
    with pytest.raises(RuntimeError, match="must match the dtype of self"):
        x.cumsum_(0, dtype=ndgrad.float64)
    assert value(x).tolist() == [1, 3]


def test_diff_of_bools_is_exclusive_or():
    assert value(ndgrad.tensor([True, False, False]).diff()).tolist() == [True, False]


@pytest.mark.parametrize("dim", [0, 1])
def test_trapezoids_agree_with_scipy(dim):
    integrate = pytest.importorskip("scipy.integrate")
    points = np.sort(np.random.default_rng(0).random(A.shape[dim]))
    y, x = ndgrad.tensor(A), ndgrad.tensor(points)
    np.testing.assert_allclose(value(ndgrad.trapezoid(y, x, dim=dim)), integrate.trapezoid(A, points, axis=dim))
    np.testing.assert_allclose(value(ndgrad.cumulative_trapezoid(y, x, dim=dim)), integrate.cumulative_trapezoid(A, points, axis=dim))
    np.testing.assert_allclose(value(ndgrad.trapezoid(y, dx=0.1, dim=dim)), integrate.trapezoid(A, dx=0.1, axis=dim))


def test_sample_points_have_a_gradient():
    y, x = ndgrad.tensor([1.0, 2.0, 4.0]), ndgrad.tensor([0.0, 1.0, 3.0], requires_grad=True)
    ndgrad.trapezoid(y, x).backward()
    np.testing.assert_allclose(value(x.grad), [-1.5, -1.5, 3.0])


@pytest.mark.parametrize(
    ("f", "error", "text"),
    [
        (lambda x: x.cumsum(2), IndexError, "out of range"),
        (lambda x: x.cumsum((0, 1)), TypeError, "must be an int"),
        (lambda x: ndgrad.diff(x, -1), RuntimeError, "non-negative"),
        (lambda x: ndgrad.diff(x, prepend=x[:1]), RuntimeError, "prepend or append.*shape|shape.*prepend"),
        (lambda x: ndgrad.trapezoid(x, x[0, :2]), RuntimeError, "one `x` value"),
        (lambda x: ndgrad.trapezoid(x, x, dx=1.0), TypeError, "both x"),
    ],
)
def test_errors_say_what_and_what_to_do(f, error, text):
    with pytest.raises(error, match=text):
        f(ndgrad.tensor(A))
