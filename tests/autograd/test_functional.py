"""autograd.functional against closed forms; the comparison with torch stands elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

import ndgrad
from ndgrad.autograd import functional

R = np.random.default_rng(3)
A, B = R.standard_normal((3, 3)), R.standard_normal((3, 3))


def quadratic(x, y):
    """x' A y + y' B y"""
    return x @ ndgrad.tensor(A) @ y + y @ ndgrad.tensor(B) @ y


X, Y = ndgrad.tensor(R.standard_normal(3)), ndgrad.tensor(R.standard_normal(3))
HESSIAN = [[np.zeros((3, 3)), A], [A.T, B + B.T]]


@pytest.mark.parametrize("options", [{}, {"vectorize": True}, {"vectorize": True, "outer_jacobian_strategy": "forward-mode"}])
def test_hessian_of_a_quadratic_form(options):
    found = functional.hessian(quadratic, (X, Y), **options)
    for row, wanted in zip(found, HESSIAN, strict=True):
        for block, want in zip(row, wanted, strict=True):
            np.testing.assert_allclose(block._array, want, atol=1e-12)


@pytest.mark.parametrize("product", [functional.hvp, functional.vhp])
def test_products_with_the_hessian_of_a_quadratic_form(product):
    v, w = R.standard_normal(3), R.standard_normal(3)
    value, (a, b) = product(quadratic, (X, Y), (ndgrad.tensor(v), ndgrad.tensor(w)))
    np.testing.assert_allclose(value._array, quadratic(X, Y)._array)
    np.testing.assert_allclose(a._array, A @ w, atol=1e-12)
    np.testing.assert_allclose(b._array, A.T @ v + (B + B.T) @ w, atol=1e-12)


@pytest.mark.parametrize("options", [{}, {"vectorize": True}, {"vectorize": True, "strategy": "forward-mode"}])
def test_jacobian_of_a_linear_map(options):
    found = functional.jacobian(lambda x: ndgrad.tensor(A) @ x, X, **options)
    np.testing.assert_allclose(found._array, A)


def test_graph_of_a_jacobian_reaches_the_inputs_and_nothing_else():
    x, other = X.clone().requires_grad_(), Y.clone().requires_grad_()
    found = functional.jacobian(lambda x: x**2 * other, x, create_graph=True)
    a, b = ndgrad.autograd.grad(found.sum(), (x, other))
    np.testing.assert_allclose(a._array, 2 * Y._array)
    np.testing.assert_allclose(b._array, 2 * X._array)
    assert not functional.jacobian(lambda x: x**2 * other, x).requires_grad


def test_strict_errors_leave_the_inputs_alone():
    x = X.clone().requires_grad_()
    with pytest.raises(RuntimeError, match="independent of input 1"):
        functional.vjp(lambda x, y: x * 2, (x, Y), X, strict=True)
    assert x.grad is None
    assert ndgrad.is_grad_enabled()
