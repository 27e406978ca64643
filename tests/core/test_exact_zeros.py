"""Overwritten values have no gradient, even if their derivative is infinite or NaN."""

from __future__ import annotations

import numpy as np
import pytest

import ndgrad
import ndgrad.numpy as dnp
from ndgrad import func

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

X = np.array([0.0, 1.0, 2.0, 0.0])
MASK = X == 0


def by_mask(y):
    y[MASK] = 1.0


def by_mask_values(y):
    y[MASK] = y[1:3] * 0.0 + 1.0


def by_index(y):
    y[[0, 3]] = 1.0


def by_slices(y):
    y[:1] = 1.0
    y[3] = 1.0


def by_two_masks(y):
    y[MASK & (np.arange(4) < 2)] = 1.0
    y[MASK] = 1.0


def by_copyto(y):
    np.copyto(y, 1.0, where=MASK)


def by_putmask(y):
    np.putmask(y, MASK, np.ones(4))


WRITES = [by_mask, by_mask_values, by_index, by_slices, by_two_masks, by_copyto, by_putmask]

#: Elementwise functions of x that are NaN or have an infinite derivative at 0, with their derivative elsewhere.
FUNCTIONS = {
    "0/0": (lambda x: (x * x) / x, lambda x: np.ones_like(x)),
    "pow": (lambda x: (x / x - 1.0 / x) ** 2, lambda x: 2 * (1 - 1 / x) / x**2),
    "sqrt": (lambda x: x**0.5, lambda x: 0.5 / np.sqrt(x)),
    "log": (lambda x: dnp.log(x) * x, lambda x: np.log(x) + 1),
    "same operand": (lambda x: (u := 1.0 / x) * u, lambda x: -2 / x**3),
    "reciprocal": (lambda x: 1.0 / x, lambda x: -1 / x**2),
    "broadcast": (lambda x: x.sum() / x - x.sum() / x + dnp.log(x), lambda x: 1 / x),
}


def derivative_beside(name):
    with np.errstate(all="ignore"):
        return np.where(MASK, 0.0, FUNCTIONS[name][1](X))


def overwritten(name, write):
    def f(x):
        y = FUNCTIONS[name][0](x)
        write(y)
        return (y * np.arange(1.0, 5.0)).sum()

    return f


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_gradient_of_overwritten_values_is_zero(name, write):
    expected = derivative_beside(name) * np.arange(1.0, 5.0)
    if write is by_mask_values:
        expected = expected * 1.0
    x = dnp.array(X)
    x.requires_grad_()
    overwritten(name, write)(x).backward()
    np.testing.assert_allclose(x.grad, expected, rtol=1e-12)
    np.testing.assert_allclose(func.grad(overwritten(name, write))(dnp.array(X)), expected, rtol=1e-12)
    with_graph = dnp.array(X)
    with_graph.requires_grad_()
    (g,) = ndgrad.autograd.grad(overwritten(name, write)(with_graph), with_graph, create_graph=True)
    np.testing.assert_allclose(g.detach(), expected, rtol=1e-12)


def test_a_scaler_that_overwrites_the_quotient_of_zero_counts():
    """The update of a variance as in scikit-learn's StandardScaler: 0/0 for features without earlier samples."""
    data = np.random.default_rng(0).normal(size=(5, 3))

    def scale(x):
        seen, last_mean, last_variance = dnp.zeros(3), 0.0, 0.0
        count = dnp.zeros(3) + 5.0
        new_sum = x.sum(axis=0)
        centred = x - new_sum / count
        variance = (centred**2).sum(axis=0) - centred.sum(axis=0) ** 2 / count
        ratio = seen / count
        updated = last_variance * seen + variance + ratio / (seen + count) * (last_mean * seen / ratio - new_sum) ** 2
        none = seen == 0
        updated[none] = variance[none]
        return (((x - new_sum / count) / dnp.sqrt(updated / count)) ** 3).sum()

    x = dnp.array(data)
    x.requires_grad_()
    scale(x).backward()
    h = 1e-6
    for place in np.ndindex(data.shape):
        step = np.zeros_like(data)
        step[place] = h
        difference = (scale(dnp.array(data + step)) - scale(dnp.array(data - step))).item() / (2 * h)
        assert abs(x.grad[place] - difference) < 1e-6
    np.testing.assert_allclose(ndgrad.compile(func.grad(scale))(dnp.array(data)), x.grad, rtol=1e-12)


@pytest.mark.parametrize("write", WRITES)
def test_second_derivatives_of_overwritten_values_are_zero(write):
    expected = np.where(MASK, 0.0, 2 / np.where(MASK, 1.0, X) ** 3) * np.arange(1.0, 5.0)
    f = overwritten("reciprocal", write)
    np.testing.assert_allclose(func.grad(lambda x: func.grad(f)(x).sum())(dnp.array(X)), expected, rtol=1e-12)
    x = dnp.array(X)
    x.requires_grad_()
    (g,) = ndgrad.autograd.grad(f(x), x, create_graph=True)
    g.sum().backward()
    np.testing.assert_allclose(x.grad, expected, rtol=1e-12)
    np.testing.assert_allclose(np.diag(func.hessian(f)(dnp.array(X))), expected, rtol=1e-12)


def test_tensors_of_torchs_class_too():
    x = ndgrad.tensor(X, requires_grad=True)
    y = x.sqrt() * 1.0
    y.masked_fill_(x == 0, 5.0)
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.where(MASK, 0.0, 0.5 / np.sqrt(np.where(MASK, 1.0, X))))


def test_another_use_of_the_overwritten_values_counts():
    """The quotient is also used before the write: that gradient is infinite, as in torch."""
    x = ndgrad.tensor(X, requires_grad=True)
    y = x.sqrt()
    z = y.clone()
    z[x == 0] = 1.0
    (z + y * ndgrad.tensor([1.0, 1.0, 1.0, 2.0])).sum().backward()
    assert x.grad[0].item() == np.inf
    assert x.grad[3].item() == np.inf


def test_a_choice_obeys_arithmetic_as_in_torch():
    x = ndgrad.tensor(X, requires_grad=True)
    ndgrad.where(x == 0, 1.0, x.sqrt()).sum().backward()
    assert np.isnan(x.grad.numpy()).tolist() == MASK.tolist()


def test_hooks_may_give_overwritten_values_a_gradient():
    x = ndgrad.tensor(X, requires_grad=True)
    y = x * 3.0
    y.register_hook(lambda g: g + 1.0)
    z = y * 1.0
    z[x == 0] = 1.0
    z.sum().backward()
    assert x.grad.tolist() == [3.0, 6.0, 6.0, 3.0]


@pytest.mark.parametrize("write", [by_mask, by_slices, by_copyto])
def test_a_gradient_that_happens_to_be_zero_keeps_its_derivative(write):
    """The Hessian of sum(v**2) at v = 0: the first gradient is zero there, and only the overwritten rows are constant."""

    def f(x):
        v = x * 3.0
        write(v)
        return (v**2).sum()

    x = dnp.zeros(4)
    expected = np.diag(np.where(MASK, 0.0, 18.0))
    np.testing.assert_allclose(func.hessian(f)(x), expected)
    np.testing.assert_allclose(func.jacrev(func.grad(f))(x), expected)
    x.requires_grad_()
    (g,) = ndgrad.autograd.grad(f(x), x, create_graph=True)
    rows = [ndgrad.autograd.grad(g[i], x, retain_graph=True)[0] for i in range(4)]
    np.testing.assert_allclose(np.stack([np.asarray(r) for r in rows]), expected)


def test_the_linear_function_of_a_partly_overwritten_product():
    def f(x):
        y = x * 2.0
        y[1:2] += x[0:1]
        return y

    _, push = func.linearize(f, dnp.array([0.6, 0.2]))
    np.testing.assert_allclose(push(dnp.array([0.5, 1.0])), [1.0, 2.5])
