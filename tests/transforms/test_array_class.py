"""Transforms keep the class `Array`: Arrays as arguments give Arrays as results and as values inside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy
import pytest

import ndgrad.numpy as np
from ndgrad import autograd, func
from ndgrad.numpy import Array

X = np.array([1.0, 2.0, 3.0])


def loss(x: Any) -> Any:
    return (x * x).sum()


RESULTS: dict[str, Callable[[], Any]] = {
    "vjp value": lambda: func.vjp(loss, X)[0],
    "vjp": lambda: func.vjp(loss, X)[1](np.array(1.0))[0],
    "jvp value": lambda: func.jvp(loss, (X,), (X,))[0],
    "jvp": lambda: func.jvp(loss, (X,), (X,))[1],
    "grad": lambda: func.grad(loss)(X),
    "value": lambda: func.grad_and_value(loss)(X)[1],
    "aux": lambda: func.grad(lambda x: (loss(x), x * 2), has_aux=True)(X)[1],
    "hessian": lambda: func.hessian(loss)(X),
    "jacrev": lambda: func.jacrev(lambda x: x * x)(X),
    "jacfwd": lambda: func.jacfwd(lambda x: x * x)(X),
    "vmap": lambda: func.vmap(lambda x: x * 2)(X),
}


@pytest.mark.parametrize("name", RESULTS)
def test_result_is_an_array(name: str) -> None:
    assert type(RESULTS[name]()) is Array


TRANSFORMS: dict[str, Callable[[Any], Any]] = {
    "grad": lambda f: func.grad(f)(X),
    "grad of grad": lambda f: func.grad(lambda x: func.grad(f)(x).sum())(X),
    "vmap of grad": lambda f: func.vmap(func.grad(f))(np.stack([X, X])),
    "jvp of grad": lambda f: func.jvp(func.grad(f), (X,), (X,)),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_values_inside_are_arrays(name: str) -> None:
    seen: dict[str, Any] = {}

    def check_class(x: Any) -> Any:
        seen.update(detach=x.detach(), greater=x > 0, argmax=np.argmax(x), sign=np.sign(x), zeros=np.zeros_like(x), argsort=np.argsort(x))
        return loss(x)

    TRANSFORMS[name](check_class)
    assert {n: type(v) for n, v in seen.items()} == dict.fromkeys(seen, Array)


# ----- buffers: writes after saves, which `Array` allows ----------------------------------------------------------------------------


def buffered(x: Any) -> Any:
    u = np.zeros(4)
    u[:2] = x[:2] * x[1:]
    part = u[:2]
    squares = part * part
    u[1:3] = squares * x[0]
    again = part * x[1]  # product of the new values
    u *= x[2]
    return (u * u).sum() + squares.sum() + (again * part).sum()


def unbuffered(x: Any) -> Any:
    first = x[:2] * x[1:]
    squares = first * first
    written = np.concatenate([first[:1], squares * x[0], np.zeros(1)])
    again, u = written[:2] * x[1], written * x[2]
    return (u * u).sum() + squares.sum() + (again * u[:2]).sum()


SECOND = {
    "hessian": func.hessian,
    "jacrev of jacrev": lambda f: func.jacrev(func.jacrev(f)),
    "jacfwd of jacfwd": lambda f: func.jacfwd(func.jacfwd(f)),
    "jacrev of jacfwd": lambda f: func.jacrev(func.jacfwd(f)),
    "vmap of hessian": lambda f: lambda x: func.vmap(func.hessian(f))(np.stack([X, x]))[1],
    "jacrev of vmap of grad": lambda f: lambda x: func.jacrev(lambda y: func.vmap(func.grad(f))(np.stack([y, y]))[1])(x),
}


@pytest.mark.parametrize("name", SECOND)
def test_second_derivatives_through_a_buffer(name: str) -> None:
    x = np.array([0.5, 0.7, -0.3])
    found = SECOND[name](buffered)(x)
    assert type(found) is Array
    numpy.testing.assert_allclose(numpy.asarray(found), numpy.asarray(func.hessian(unbuffered)(x)), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("asked", [False, True])
def test_a_saved_view_of_an_outer_level_has_the_history_it_had(asked: bool) -> None:
    def outer(x: Any) -> Any:
        def inner(q: Any) -> Any:
            u = np.zeros(4)
            u[:3] = x * x
            part = u[:3]
            y = (part * q).sum()
            u[:3] = x * 5.0
            if asked:
                part + 1.0  # updates its history
            return y

        return func.grad(inner)(x).sum()  # the sum of x * x

    numpy.testing.assert_allclose(numpy.asarray(func.grad(outer)(X)), 2 * numpy.asarray(X))


class Product(autograd.Function):
    """Records the classes of all values that its methods receive."""

    generate_vmap_rule = True
    seen: ClassVar[set[type]] = set()

    @staticmethod
    def forward(x, y):
        Product.seen |= {type(x), type(y)}
        return x * y

    @staticmethod
    def setup_context(ctx, inputs, output):
        Product.seen |= {type(output), *map(type, inputs)}
        ctx.save_for_backward(*inputs, output)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, g):
        x, y, out = ctx.saved_tensors
        Product.seen |= {type(x), type(y), type(out), type(g)}
        return g * y, g * x

    @staticmethod
    def jvp(ctx, tx, ty):
        x, y = ctx.saved_tensors
        Product.seen |= {type(x), type(y), type(tx), type(ty)}
        return tx * y + x * ty


@pytest.mark.parametrize("name", TRANSFORMS)
def test_a_custom_function_sees_arrays(name: str) -> None:
    Product.seen.clear()
    TRANSFORMS[name](lambda x: Product.apply(x, x * 2).sum())
    assert Product.seen == {Array}


# ----- plain arrays and numbers instead of Arrays --------------------------------------------------------------------------


def test_gradients_of_plain_arrays_and_numbers_are_plain():
    x = numpy.array([1.0, 2.0])
    f = lambda v: numpy.sum(v**3)
    for made, want in (
        (func.grad(f)(x), 3 * x**2),
        (func.grad_and_value(f)(x)[0], 3 * x**2),
        (func.jacrev(lambda v: v * v)(x), numpy.diag(2 * x)),
        (func.jacfwd(lambda v: v * v)(x), numpy.diag(2 * x)),
        (func.hessian(f)(x), numpy.diag(6 * x)),
        (func.hvp(f, (x,), (x,)), 6 * x * x),
    ):
        assert type(made) is numpy.ndarray
        numpy.testing.assert_allclose(made, want, rtol=1e-14)
    gradient, value = func.grad_and_value(lambda v: v**3)(2.0)
    assert (gradient, value) == (12.0, 8.0)
    assert isinstance(gradient, float)
    assert isinstance(value, float)
    assert func.grad(lambda p: p["a"] * p["b"].sum())({"a": 2.0, "b": x})["b"].tolist() == [2.0, 2.0]
    assert func.grad(lambda a, b: (a * b).sum(), argnums=(0, 1))(x, x)[1].tolist() == [1.0, 2.0]
    assert func.grad(func.grad(lambda v: v**3))(2.0) == 12.0


def test_a_derivative_of_something_else_is_kept():
    t = np.array(3.0).requires_grad_()
    found = func.grad(lambda v: t * numpy.sum(v**2))(numpy.ones(2))
    found.sum().backward()
    assert t.grad.item() == 4.0
    with pytest.raises(RuntimeError, match="floating"):
        func.grad(lambda v: v.sum())(numpy.arange(3))
    with pytest.raises(ValueError, match="expected tensors"):
        func.grad(lambda v: v[0] + v[1])([np.array(1.0), 2.0])


def test_optimizers_of_scipy_take_gradients_as_they_are():
    optimize = pytest.importorskip("scipy.optimize")
    f = lambda v: (1 - v[0]) ** 2 + 100 * (v[1] - v[0] ** 2) ** 2
    start = numpy.array([-1.2, 1.0])
    for options in ({"method": "BFGS"}, {"method": "trust-exact", "hess": func.hessian(f)}):
        found = optimize.minimize(f, start, jac=func.grad(f), **options)
        numpy.testing.assert_allclose(found.x, [1.0, 1.0], atol=1e-5)
    residuals = lambda v: numpy.stack([1 - v[0], 10 * (v[1] - v[0] ** 2)])
    found = optimize.least_squares(lambda v: numpy.array(residuals(v)), start, jac=func.jacrev(residuals))
    numpy.testing.assert_allclose(found.x, [1.0, 1.0], atol=1e-8)
    found = optimize.root_scalar(lambda v: v**3 - 2, x0=1.0, fprime=func.grad(lambda v: v**3 - 2), method="newton")
    numpy.testing.assert_allclose(found.root, 2 ** (1 / 3), rtol=1e-12)


def test_transforms_take_and_give_ndarrays():
    def f(x):
        return np.sum(x**3)

    x, v = numpy.array([1.0, 2.0]), numpy.array([0.5, -1.0])
    value, gradient = func.value_and_grad(f)(x)
    assert (float(value), gradient.tolist()) == (9.0, [3.0, 12.0])
    (value, aux), gradient = func.value_and_grad(lambda x: (f(x), "aux"), has_aux=True)(x)
    assert (float(value), aux, gradient.tolist()) == (9.0, "aux", [3.0, 12.0])
    out, tangent = func.jvp(f, (x,), (v,))
    assert (float(out), float(tangent)) == (9.0, -10.5)
    out, pull = func.vjp(lambda x: x**3, x)
    (back,) = pull(v)
    value, push = func.linearize(lambda x: x**3, x)
    rows = func.vmap(f)(numpy.ones((3, 2)))
    scaled = func.vmap(lambda x, s: x * s, in_dims=(0, None))(x, 2.0)
    for found, expected in [
        (out, x**3), (back, 3 * x**2 * v), (value, x**3), (push(v), 3 * x**2 * v), (rows, [2.0] * 3), (scaled, 2 * x)
    ]:  # fmt: skip
        assert type(found) is numpy.ndarray
        numpy.testing.assert_allclose(found, expected)


def test_scipy_minimizes_with_value_and_grad_and_hessp():
    optimize = pytest.importorskip("scipy.optimize")

    def rosenbrock(x):
        return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)

    start = numpy.full(5, -1.0)
    found = optimize.minimize(
        func.value_and_grad(rosenbrock), start, jac=True, method="trust-ncg",
        hessp=lambda x, p: func.jvp(func.grad(rosenbrock), (x,), (p,))[1],
    )  # fmt: skip
    numpy.testing.assert_allclose(found.x, 1.0, rtol=1e-6)
