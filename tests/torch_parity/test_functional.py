"""autograd.functional: values, shapes, graphs and classes of errors as torch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ndgrad
import ndgrad.autograd.functional
from tests.torch_parity.outcomes import compare

A, B = [1.0, 2.0], [3.0, 4.0]


def pair(m: Any) -> tuple[Any, Any]:
    return m.tensor(A), m.tensor(B)


def square(x):
    return x**2


def cube_sum(x):
    return (x**3).sum()


def mixed(x, y):
    return (x**2 * y).sum()


def ones(m):
    return lambda *_: m.ones(2)


def one(m):
    return lambda *_: m.ones(())


def graph(value):
    """A result and whether it can be differentiated further."""
    if isinstance(value, (tuple, list)):
        return [graph(v) for v in value]
    return value, value.requires_grad


def leaf(m):
    return m.tensor(A, requires_grad=True)


#: name -> program of (module, its autograd.functional, x, y)
PROGRAMS: dict[str, Any] = {
    # ----- vjp
    "vjp": lambda m, F, x, y: F.vjp(square, x, y),
    "vjp of a scalar": lambda m, F, x, y: F.vjp(cube_sum, x),
    "vjp of one element": lambda m, F, x, y: F.vjp(lambda x: x[:1] * 2, x),
    "vjp of several inputs": lambda m, F, x, y: F.vjp(mixed, (x, y)),
    "vjp of several outputs": lambda m, F, x, y: F.vjp(lambda x, y: (x * y, x), (x, y), (x, y)),
    "vjp of a tuple of one": lambda m, F, x, y: F.vjp(lambda x: (x * 2,), (x,), (y,)),
    "vjp without a vector": lambda m, F, x, y: F.vjp(square, x),
    "vjp with a vector of the wrong size": lambda m, F, x, y: F.vjp(square, x, x[:1]),
    "vjp with too many vectors": lambda m, F, x, y: F.vjp(square, x, (x, x)),
    "vjp with an integer vector": lambda m, F, x, y: F.vjp(square, x, m.tensor([1, 2])),
    "vjp of a constant": lambda m, F, x, y: F.vjp(ones(m), x, y),
    "vjp of a constant, strict": lambda m, F, x, y: F.vjp(ones(m), x, y, strict=True),
    "vjp with an unused input": lambda m, F, x, y: F.vjp(lambda x, y: x * 2, (x, y), x),
    "vjp with an unused input, strict": lambda m, F, x, y: F.vjp(lambda x, y: x * 2, (x, y), x, strict=True),
    "vjp with a graph": lambda m, F, x, y: graph(F.vjp(square, leaf(m), y, create_graph=True)),
    "vjp with a graph of no leaf": lambda m, F, x, y: graph(F.vjp(square, x, y, create_graph=True)),
    "vjp without a graph": lambda m, F, x, y: graph(F.vjp(square, leaf(m), y)),
    "vjp with a graph to the vector": lambda m, F, x, y: graph(F.vjp(square, x, leaf(m), create_graph=True)),
    "vjp of a linear function, strict, with a graph": lambda m, F, x, y: F.vjp(lambda x: x * 2, leaf(m), y, create_graph=True, strict=True),
    "vjp of a list": lambda m, F, x, y: F.vjp(mixed, [x, y]),
    "vjp of a number": lambda m, F, x, y: F.vjp(square, 3.0),
    "vjp of a number in a tuple": lambda m, F, x, y: F.vjp(mixed, (x, 3.0)),
    "vjp of a function that returns a number": lambda m, F, x, y: F.vjp(lambda x: 3.0, x),
    "vjp of a function that returns a list": lambda m, F, x, y: F.vjp(lambda x: [x, x], x, (x, x)),
    "vjp of a function that returns a dict": lambda m, F, x, y: F.vjp(lambda x: {"a": x}, x),
    "vjp of integers": lambda m, F, x, y: F.vjp(square, m.tensor([1, 2]), m.tensor([1, 2])),
    "vjp under no_grad": lambda m, F, x, y: m.no_grad()(lambda: F.vjp(square, x, y))(),
    "vjp leaves no gradient behind": lambda m, F, x, y: (lambda t: (F.vjp(square, t, y), t.grad is None))(leaf(m)),
    # ----- jvp
    "jvp": lambda m, F, x, y: F.jvp(square, x, y),
    "jvp of several": lambda m, F, x, y: F.jvp(lambda x, y: (x * y, x), (x, y), (x, y)),
    "jvp of one element": lambda m, F, x, y: F.jvp(square, x[1:]),
    "jvp without a vector": lambda m, F, x, y: F.jvp(square, x),
    "jvp of two scalars without a vector": lambda m, F, x, y: F.jvp(mixed, (x[0], y[0])),
    "jvp with a vector of the wrong size": lambda m, F, x, y: F.jvp(square, x, x[:1]),
    "jvp of a constant": lambda m, F, x, y: F.jvp(ones(m), x, y),
    "jvp of a constant, strict": lambda m, F, x, y: F.jvp(ones(m), x, y, strict=True),
    "jvp with an unused input, strict": lambda m, F, x, y: F.jvp(lambda x, y: x * 2, (x, y), (x, y), strict=True),
    "jvp with a graph": lambda m, F, x, y: graph(F.jvp(square, leaf(m), y, create_graph=True)),
    "jvp without a graph": lambda m, F, x, y: graph(F.jvp(square, leaf(m), y)),
    "jvp of a linear function, strict, with a graph": lambda m, F, x, y: F.jvp(lambda x: x * 2, leaf(m), y, create_graph=True, strict=True),
    "jvp of a matrix product": lambda m, F, x, y: F.jvp(lambda a, b: a @ b, (x[:, None] * y, y), (y[:, None] * x, x)),
    # ----- vhp and hvp
    "vhp": lambda m, F, x, y: F.vhp(cube_sum, x, y),
    "vhp of several": lambda m, F, x, y: F.vhp(mixed, (x, y), (y, x)),
    "vhp of one element": lambda m, F, x, y: F.vhp(cube_sum, x[1:]),
    "vhp without a vector": lambda m, F, x, y: F.vhp(cube_sum, x),
    "vhp of a vector function": lambda m, F, x, y: F.vhp(square, x, y),
    "vhp of an output of one element": lambda m, F, x, y: F.vhp(lambda x: cube_sum(x)[None], x, y),
    "vhp of two outputs": lambda m, F, x, y: F.vhp(lambda x: (cube_sum(x), cube_sum(x)), x, y),
    "vhp of a linear function": lambda m, F, x, y: F.vhp(lambda x: x.sum(), x, y),
    "vhp of a linear function, strict": lambda m, F, x, y: F.vhp(lambda x: x.sum(), x, y, strict=True),
    "vhp of a constant": lambda m, F, x, y: F.vhp(one(m), x, y),
    "vhp of a constant, strict": lambda m, F, x, y: F.vhp(one(m), x, y, strict=True),
    "vhp with a graph": lambda m, F, x, y: graph(F.vhp(cube_sum, leaf(m), y, create_graph=True)),
    "hvp": lambda m, F, x, y: F.hvp(cube_sum, x, y),
    "hvp of several": lambda m, F, x, y: F.hvp(mixed, (x, y), (y, x)),
    "hvp with an integer vector": lambda m, F, x, y: F.hvp(cube_sum, x, m.tensor([1, 2])),
    "hvp of a vector function": lambda m, F, x, y: F.hvp(square, x, y),
    "hvp of a linear function": lambda m, F, x, y: F.hvp(lambda x: x.sum(), x, y),
    "hvp of a linear function, strict": lambda m, F, x, y: F.hvp(lambda x: x.sum(), x, y, strict=True),
    "hvp with a graph": lambda m, F, x, y: graph(F.hvp(cube_sum, leaf(m), y, create_graph=True)),
    # ----- jacobian
    "jacobian": lambda m, F, x, y: F.jacobian(square, x),
    "jacobian of several": lambda m, F, x, y: F.jacobian(lambda x, y: (x * y, x.sum()), (x, y)),
    "jacobian of a tuple of one": lambda m, F, x, y: F.jacobian(lambda x: (x * 2,), (x,)),
    "jacobian of matrices": lambda m, F, x, y: F.jacobian(lambda a: a @ a, x[:, None] * y),
    "jacobian at a scalar": lambda m, F, x, y: F.jacobian(square, x[1]),
    "jacobian of a constant": lambda m, F, x, y: F.jacobian(ones(m), x),
    "jacobian of a constant, strict": lambda m, F, x, y: F.jacobian(ones(m), x, strict=True),
    "jacobian of integers": lambda m, F, x, y: F.jacobian(lambda x: x > 1, x),
    "jacobian with an unused input": lambda m, F, x, y: F.jacobian(lambda x, y: x * 2, (x, y)),
    "jacobian with an unused input, strict": lambda m, F, x, y: F.jacobian(lambda x, y: x * 2, (x, y), strict=True),
    "jacobian with a graph": lambda m, F, x, y: graph(F.jacobian(square, leaf(m), create_graph=True)),
    "jacobian without a graph": lambda m, F, x, y: graph(F.jacobian(square, leaf(m))),
    "jacobian of a line, strict, with a graph": lambda m, F, x, y: F.jacobian(lambda x: x * 2, leaf(m), create_graph=True, strict=True),
    "jacobian at once": lambda m, F, x, y: F.jacobian(lambda x, y: (x * y, x.sum()), (x, y), vectorize=True),
    "jacobian at once with an unused input": lambda m, F, x, y: F.jacobian(lambda x, y: x * 2, (x, y), vectorize=True),
    "jacobian at once with a graph": lambda m, F, x, y: graph(F.jacobian(square, leaf(m), vectorize=True, create_graph=True)),
    "jacobian at once of a constant": lambda m, F, x, y: F.jacobian(ones(m), x, vectorize=True),
    "jacobian at once, strict": lambda m, F, x, y: F.jacobian(square, x, vectorize=True, strict=True),
    "jacobian forward": lambda m, F, x, y: F.jacobian(lambda x, y: (x * y, x.sum()), (x, y), vectorize=True, strategy="forward-mode"),
    "jacobian forward of a constant": lambda m, F, x, y: F.jacobian(ones(m), x, vectorize=True, strategy="forward-mode"),
    "jacobian forward row by row": lambda m, F, x, y: F.jacobian(square, x, strategy="forward-mode"),
    "jacobian forward with a graph": lambda m, F, x, y: F.jacobian(square, x, vectorize=True, strategy="forward-mode", create_graph=True),
    "jacobian forward, strict": lambda m, F, x, y: F.jacobian(square, x, vectorize=True, strategy="forward-mode", strict=True),
    "jacobian by an unknown strategy": lambda m, F, x, y: F.jacobian(square, x, strategy="sideways"),
    "jacobian of complex row by row": lambda m, F, x, y: F.jacobian(square, x + 1j * y),
    "jacobian of complex at once": lambda m, F, x, y: F.jacobian(square, x + 1j * y, vectorize=True),
    "jacobian of complex forward": lambda m, F, x, y: F.jacobian(square, x + 1j * y, vectorize=True, strategy="forward-mode"),
    # ----- hessian
    "hessian": lambda m, F, x, y: F.hessian(cube_sum, x),
    "hessian of several": lambda m, F, x, y: F.hessian(mixed, (x, y)),
    "hessian at once": lambda m, F, x, y: F.hessian(mixed, (x, y), vectorize=True),
    "hessian forward over reverse": lambda m, F, x, y: F.hessian(mixed, (x, y), vectorize=True, outer_jacobian_strategy="forward-mode"),
    "hessian forward over reverse row by row": lambda m, F, x, y: F.hessian(mixed, (x, y), outer_jacobian_strategy="forward-mode"),
    "hessian by an unknown strategy": lambda m, F, x, y: F.hessian(mixed, (x, y), outer_jacobian_strategy="sideways"),
    "hessian of a vector function": lambda m, F, x, y: F.hessian(square, x),
    "hessian of a tuple": lambda m, F, x, y: F.hessian(lambda x: (cube_sum(x),), x),
    "hessian of an output of one element": lambda m, F, x, y: F.hessian(lambda x: cube_sum(x)[None], x),
    "hessian with a graph": lambda m, F, x, y: graph(F.hessian(cube_sum, leaf(m), create_graph=True)),
    "hessian of a linear function": lambda m, F, x, y: F.hessian(lambda x: x.sum(), x),
    "hessian of a linear function at once": lambda m, F, x, y: F.hessian(lambda x: x.sum(), x, vectorize=True),
    "hessian of a linear function, strict": lambda m, F, x, y: F.hessian(lambda x: x.sum(), x, strict=True),
    "hessian of a constant": lambda m, F, x, y: F.hessian(one(m), x),
    "hessian of a constant, strict": lambda m, F, x, y: F.hessian(one(m), x, strict=True),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name):
    def program(m: Any) -> Any:
        return PROGRAMS[name](m, m.autograd.functional, *pair(m))

    compare(program)


def test_jacobian_of_nothing_is_empty():
    x = ndgrad.tensor(np.empty((0, 2)))
    for vectorize in (False, True):
        assert ndgrad.autograd.functional.jacobian(square, x, vectorize=vectorize).shape == (0, 2, 0, 2)


def test_products_agree_with_the_matrices():
    r = np.random.default_rng(0)
    x, v, w = (ndgrad.tensor(r.standard_normal(4)) for _ in range(3))
    f = ndgrad.autograd.functional

    def g(x):
        return (x[:, None] * x).sin().sum(1) * x

    jacobian, hessian = f.jacobian(g, x), f.hessian(lambda x: g(x).sum(), x)
    np.testing.assert_allclose(f.jvp(g, x, v)[1]._array, (jacobian @ v)._array, atol=1e-12)
    np.testing.assert_allclose(f.vjp(g, x, w)[1]._array, (w @ jacobian)._array, atol=1e-12)
    np.testing.assert_allclose(f.hvp(lambda x: g(x).sum(), x, v)[1]._array, (hessian @ v)._array, atol=1e-12)
    np.testing.assert_allclose(f.vhp(lambda x: g(x).sum(), x, v)[1]._array, (v @ hessian)._array, atol=1e-12)
