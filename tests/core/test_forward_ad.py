"""Dual levels against closed forms and finite differences; the comparison with torch is in torch_parity."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ndgrad
import ndgrad.autograd.forward_ad as fw
import ndgrad.numpy as dnp

R = np.random.default_rng(5)
X, V = R.uniform(0.5, 1.5, (3, 3)), R.standard_normal((3, 3))

#: Scalar functions whose backward saves arguments, results, both, several, or whose forward writes in place.
FUNCTIONS = {
    "power": lambda x: (x**3).sum(),
    "exp and tanh": lambda x: (x.exp().tanh() * x).sum(),
    "softmax": lambda x: (ndgrad.softmax(x, 1) ** 2 * x).sum(),
    "matrix product": lambda x: (x @ x.t() @ x).sum(),
    "inverse": lambda x: (ndgrad.linalg.inv(x + 3 * ndgrad.eye(3)) * x).sum(),
    "determinant": lambda x: ndgrad.linalg.det(x + 3 * ndgrad.eye(3)),
    "eigenvalues": lambda x: (ndgrad.linalg.eigvalsh(x + x.t()) ** 3).sum(),
    "sort and cumulate": lambda x: (x.sort(1).values.cumsum(1) ** 3).sum(),
    "join": lambda x: (ndgrad.cat([x, x * x]) ** 2).prod(0).sum(),
    "where": lambda x: ndgrad.where(x > 1, x**3, x.sin()).sum(),
    "norm": lambda x: x.norm() * x.std(),
    "division": lambda x: (x / (1 + x.t() ** 2)).sum(),
}


def buffer_program(x):
    u = ndgrad.zeros(3, 3)
    u[0] = x[0] * x[1]
    u[1] = u[0].clone().exp() + x[2]
    u[2] = u[1].clone() * u[0].clone()
    u[:, 0].mul_(x[:, 1])
    return (u**2).sum()


FUNCTIONS["buffer"] = buffer_program


def finite_difference_of_gradient(f):
    def gradient(values):
        x = ndgrad.tensor(values, requires_grad=True)
        return ndgrad.autograd.grad(f(x), x)[0]._array

    h = 1e-5
    return (gradient(X + h * V) - gradient(X - h * V)) / (2 * h)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("create_graph", [False, True])
def test_forward_over_reverse_is_the_derivative_of_the_gradient(name, create_graph):
    f = FUNCTIONS[name]
    x = ndgrad.tensor(X, requires_grad=True)
    with fw.dual_level():
        y = f(fw.make_dual(x, ndgrad.tensor(V)))
        (g,) = ndgrad.autograd.grad(y, x, create_graph=create_graph)
        tangent = fw.unpack_dual(g).tangent
    np.testing.assert_allclose(tangent._array, finite_difference_of_gradient(f), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_reverse_over_forward_is_the_derivative_of_the_gradient(name):
    f = FUNCTIONS[name]
    x = ndgrad.tensor(X, requires_grad=True)
    with fw.dual_level():
        tangent = fw.unpack_dual(f(fw.make_dual(x, ndgrad.tensor(V)))).tangent
    (g,) = ndgrad.autograd.grad(tangent, x)
    np.testing.assert_allclose(g._array, finite_difference_of_gradient(f), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_third_order_by_three_modes(name):
    """Forward over reverse over reverse equals forward over forward over reverse."""
    f = FUNCTIONS[name]
    x, v, w = ndgrad.tensor(X, requires_grad=True), ndgrad.tensor(V), ndgrad.tensor(V.T.copy())
    with fw.dual_level():
        (g,) = ndgrad.autograd.grad(f(fw.make_dual(x, v)), x, create_graph=True)
        (h,) = ndgrad.autograd.grad((g * w).sum(), x)
        first = fw.unpack_dual(h).tangent
    with fw.dual_level() as outer, fw.dual_level() as inner:
        d = fw.make_dual(fw.make_dual(x, v, level=outer), w, level=inner)
        (g,) = ndgrad.autograd.grad(f(d), x)
        second = fw.unpack_dual(fw.unpack_dual(g, level=inner).tangent, level=outer).tangent
    np.testing.assert_allclose(first._array, second._array, rtol=1e-9, atol=1e-9)


def test_second_derivatives_of_nested_levels():
    x, one = ndgrad.tensor([0.3, 0.7]), ndgrad.ones(2)
    with fw.dual_level() as a, fw.dual_level() as b, fw.dual_level() as c:
        d = fw.make_dual(fw.make_dual(fw.make_dual(x, one, level=a), one, level=b), one, level=c)
        y = d.sin()
        for level in (c, b, a):
            y = fw.unpack_dual(y, level=level).tangent
    np.testing.assert_allclose(y._array, -np.cos(x._array))


def test_error_inside_a_level_leaves_nothing_behind():
    x = ndgrad.ones(2, requires_grad=True)
    with pytest.raises(ZeroDivisionError), fw.dual_level():
        fw.make_dual(x, x.detach()).exp().register_hook(1 / 0)
    assert fw.current_level() == -1
    y = (x * 2).sum()
    y.backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_tangent_keeps_the_dtype_of_its_primal():
    x = ndgrad.ones(2).float()
    with fw.dual_level():
        d = fw.make_dual(x, x)
        for y in (2.0**d, d**2, d / 3, d * 1.5, ndgrad.where(d > 0, d, 1.0)):
            assert fw.unpack_dual(y).tangent.dtype == y.dtype == ndgrad.float32


def test_jvp_of_a_discrete_setting_is_not_silent():
    with fw.dual_level(), pytest.raises(ValueError, match="floating point or complex"):
        fw.make_dual(ndgrad.arange(3), ndgrad.ones(3))


def test_a_view_of_a_dual_keeps_the_history_of_a_write_whoever_asks_first():
    w = ndgrad.tensor([0.3, 0.4], requires_grad=True)
    with fw.dual_level():
        d = fw.make_dual(ndgrad.tensor([0.5, 0.9]), ndgrad.tensor([1.0, 2.0]))
        v = d.view(-1)
        d.mul_(w)  # so v is 0.5 w0, 0.9 w1
        doubled = v * 2.0
        (g,) = ndgrad.autograd.grad((doubled + v * v).sum(), w)
    np.testing.assert_allclose(g.numpy(), [0.5 * 2 + 2 * 0.25 * 0.3, 0.9 * 2 + 2 * 0.81 * 0.4])


def test_a_complex_sum_with_a_real_tangent_can_be_written() -> None:
    def f(x: Any) -> Any:
        z = dnp.zeros(3, complex) + x
        z += 1j * x
        z[0] = z[0] * 2j
        return z.imag.sum()

    value, tangent = ndgrad.func.jvp(f, (dnp.ones(3),), (dnp.ones(3),))
    assert (float(value), float(tangent)) == (4.0, 4.0)
