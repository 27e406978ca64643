"""Sums, means, products, truth and softmax: argument forms, results known without torch, and errors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import ndgrad
from ndgrad._src.core.save_plan import save_plan
from ndgrad._src.ops.table import table

A = np.arange(6.0).reshape(2, 3)
floats = hnp.arrays(np.float64, hnp.array_shapes(min_dims=1, max_dims=3, max_side=5), elements=st.floats(-5, 5))


def value(t):
    return np.asarray(t.detach().numpy())


# ----- argument forms ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "nansum", "nanmean", "amax", "amin", "var", "std", "all", "any"])
@pytest.mark.parametrize(
    ("torch_form", "numpy_form"),
    [({"dim": 0}, {"axis": 0}), ({"dim": -1, "keepdim": True}, {"axis": -1, "keepdims": True}), ({"dim": (0, 1)}, {"axis": (0, 1)})],
)
def test_torch_and_numpy_keywords_mean_the_same(name, torch_form, numpy_form):
    x = ndgrad.tensor(A + 1)
    reference = getattr(np, name)(A + 1, **numpy_form, **({"ddof": 1} if name in ("var", "std") else {}))
    np.testing.assert_allclose(value(getattr(x, name)(**torch_form)), reference)
    np.testing.assert_allclose(value(getattr(ndgrad, name)(x, **numpy_form)), reference)


def test_both_names_at_once_raise():
    with pytest.raises(TypeError, match="both 'axis' and 'dim'"):
        ndgrad.tensor(A).sum(dim=0, axis=0)


def test_dims_may_be_a_list_and_negative():
    x = ndgrad.tensor(np.arange(24.0).reshape(2, 3, 4))
    assert value(x.sum([0, -1])).tolist() == np.arange(24.0).reshape(2, 3, 4).sum((0, 2)).tolist()


def test_empty_dim_reduces_everything_in_sums_and_nothing_in_truth():
    x = ndgrad.tensor(A)
    assert x.sum(dim=()).shape == ()
    assert x.all(dim=()).shape == (2, 3)


def test_dtype_is_what_the_sum_is_taken_in():
    big = ndgrad.tensor(np.full(300, 2**24 + 1, np.int64))
    assert value(big.sum(dtype=ndgrad.float64)) == 300 * (2**24 + 1)
    half = ndgrad.tensor(np.full(4096, 100.0, np.float16), requires_grad=True)
    assert value(half.sum(dtype=ndgrad.float32)) == 409600
    half.sum(dtype=ndgrad.float32).backward()
    assert half.grad.dtype == ndgrad.float16


def test_mean_of_half_precision_does_not_overflow_on_the_way():
    assert value(ndgrad.tensor(np.full((2, 4096), 100.0, np.float16)).mean()) == 100


def test_out_is_written_and_returned():
    x, out = ndgrad.tensor(A), ndgrad.empty(0)
    assert ndgrad.sum(x, 0, out=out) is out
    assert value(out).tolist() == [3, 5, 7]


def test_out_refuses_tensors_that_require_grad_and_stays_as_it_was():
    out = ndgrad.tensor([7.0])
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        ndgrad.sum(ndgrad.tensor(A, requires_grad=True), 0, out=out)
    assert value(out).tolist() == [7.0]


def test_what_is_no_tensor_is_named():
    with pytest.raises(TypeError, match="must be Tensor, not list.*as_tensor"):
        ndgrad.sum([1.0, 2.0])


def test_softmax_of_integers_says_what_to_do():
    with pytest.raises(NotImplementedError, match="softmax.*int64.*dtype="):
        ndgrad.tensor([1, 2]).softmax(0)


# ----- values and gradients ------------------------------------------------------------------------------------------------


@given(floats)
def test_gradient_of_a_sum_is_ones(array):
    x = ndgrad.tensor(array, requires_grad=True)
    x.sum(0).sum().backward()
    assert (value(x.grad) == 1).all()


def test_sums_save_no_arrays_and_softmax_only_its_result():
    def keep_shape(name):
        plan = save_plan(table[name])
        return plan.arrays + plan.outs

    assert keep_shape("sum") == keep_shape("mean_all") == keep_shape("cumsum") == []
    assert keep_shape("softmax") == keep_shape("log_softmax") == ["out"]
    assert keep_shape("max_at") == ["index"]
    assert keep_shape("median") == ["out1"]
    assert keep_shape("var") == ["x"]


@given(floats)
def test_softmax_sums_to_one_and_ignores_a_shift(array):
    x = ndgrad.tensor(array)
    np.testing.assert_allclose(value(x.softmax(-1).sum(-1)), 1)
    np.testing.assert_allclose(value((x + 700.0).softmax(-1)), value(x.softmax(-1)), rtol=1e-9)
    np.testing.assert_allclose(value(x.log_softmax(-1).exp()), value(x.softmax(-1)), rtol=1e-9)
    np.testing.assert_allclose(value((x - x.logsumexp(-1, True)).exp()), value(x.softmax(-1)), rtol=1e-9)


@pytest.mark.parametrize("shift", [0.0, 59.0, 100.0, -9.0, -100.0])
def test_softmax_and_logsumexp_are_accurate_at_any_height(shift):
    """Large arrays of moderate numbers use unshifted exponentials; the result must not differ."""
    x = np.random.default_rng(0).standard_normal((100, 60)) + shift
    want = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(value(ndgrad.tensor(x).softmax(1)), want / want.sum(1, keepdims=True), rtol=1e-12)
    single = x.astype(np.float32)
    wide = single.astype(np.float64)
    np.testing.assert_allclose(value(ndgrad.tensor(single).logsumexp(1)), np.log(np.exp(wide).sum(1)), rtol=3e-7, atol=3e-7)


def test_masked_softmax_of_a_large_array():
    x = np.zeros((80, 64))
    x[np.triu_indices(80, 1, 64)] = -np.inf
    got = value(ndgrad.tensor(x).softmax(1))
    np.testing.assert_allclose(got, (x == 0) / (x == 0).sum(1, keepdims=True))


def test_third_derivative_of_a_product_with_zeros():
    """For a product of four, d^3/dx0 dx1 dx2 is the fourth factor, whichever factors are zero."""
    x = ndgrad.tensor([0.0, 0.0, 0.0, 5.0], requires_grad=True)
    (g,) = ndgrad.autograd.grad(x.prod(), x, create_graph=True)
    (h,) = ndgrad.autograd.grad(g[0], x, create_graph=True)
    (t,) = ndgrad.autograd.grad(h[1], x)
    assert value(t).tolist() == [0.0, 0.0, 5.0, 0.0]


def test_product_that_underflows_has_the_right_gradient():
    x = ndgrad.tensor([1e-200, 1e-200, 1e150], requires_grad=True)
    x.prod().backward()
    np.testing.assert_allclose(value(x.grad), [1e-50, 1e-50, 0.0], rtol=1e-12)


def test_nans_count_as_nothing():
    x = ndgrad.tensor([[1.0, np.nan], [3.0, 5.0]], requires_grad=True)
    y = x.nanmean(0)
    assert value(y).tolist() == [2.0, 5.0]
    y.sum().backward()
    assert value(x.grad).tolist() == [[0.5, 0.0], [0.5, 1.0]]


# ----- inside transforms -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x.sum(), lambda x: x.sum(0), lambda x: x.mean(-1, True), lambda x: x.prod(), lambda x: x.logsumexp((0, 1)),
        lambda x: x.softmax(1), lambda x: x.max(), lambda x: x.amin(0), lambda x: x.max(1).values, lambda x: x.median(),
        lambda x: x.var(), lambda x: x.std(0, keepdim=True), lambda x: x.norm(), lambda x: x.cumprod(1), lambda x: x.nanmedian(0)[0],
        lambda x: ndgrad.quantile(x, 0.3), lambda x: ndgrad.quantile(x, ndgrad.tensor([0.1, 0.6]), dim=1), lambda x: ndgrad.cov(x),
        lambda x: ndgrad.trapezoid(x, dim=0), lambda x: ndgrad.diff(x), lambda x: ndgrad.renorm(x, 2, 0, 1.0), lambda x: ndgrad.corrcoef(x),
        lambda x: x.argmax(), lambda x: x.all(1), lambda x: ndgrad.count_nonzero(x), lambda x: x[0, 0].sum(0), lambda x: x[0, 0].cumsum(0),
        lambda x: x.mode(1).indices, lambda x: ndgrad.aminmax(x).max, lambda x: ndgrad.histc(x, 3, -1, 1),
    ],
)  # fmt: skip
def test_vmap_equals_the_loop(f):
    batch = np.random.default_rng(1).standard_normal((4, 2, 3))
    got = ndgrad.func.vmap(f)(ndgrad.tensor(batch))
    np.testing.assert_allclose(value(got), np.stack([value(f(ndgrad.tensor(b))) for b in batch]), rtol=1e-12)


def test_hessian_of_logsumexp_is_the_covariance_of_softmax():
    v = np.array([0.3, -1.0, 2.0])
    h = ndgrad.func.hessian(lambda x: x.logsumexp(0))(ndgrad.tensor(v))
    p = np.exp(v) / np.exp(v).sum()
    np.testing.assert_allclose(value(h), np.diag(p) - np.outer(p, p), atol=1e-12)
