"""Transforms keep NumPy's face: what is given as Arrays comes back as Arrays, and so do values inside."""

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

    def watched(x: Any) -> Any:
        seen.update(detach=x.detach(), greater=x > 0, argmax=np.argmax(x), sign=np.sign(x), zeros=np.zeros_like(x), argsort=np.argsort(x))
        return loss(x)

    TRANSFORMS[name](watched)
    assert {n: type(v) for n, v in seen.items()} == dict.fromkeys(seen, Array)


# ----- buffers: writes after saves, which this face allows --------------------------------------------------------------------------


def buffered(x: Any) -> Any:
    u = np.zeros(4)
    u[:2] = x[:2] * x[1:]
    part = u[:2]
    squares = part * part
    u[1:3] = squares * x[0]
    again = part * x[1]  # of the new values
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
                part + 1.0  # brings its history up to date
            return y

        return func.grad(inner)(x).sum()  # the sum of x * x

    numpy.testing.assert_allclose(numpy.asarray(func.grad(outer)(X)), 2 * numpy.asarray(X))


class Product(autograd.Function):
    """Remembers the classes of all that its methods see."""

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
