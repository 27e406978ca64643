"""Derivatives of a Tensor are Tensors, and those of an Array are Arrays, whichever of the two the function computes with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ndgrad
import ndgrad.numpy as ndp
from ndgrad import func


def cube_by_arrays(t: Any) -> Any:
    return ndp.sum(ndp.array([1.0, 2.0, 3.0]) * t * t * t)


def cube_by_tensors(t: Any) -> Any:
    return (ndgrad.tensor([1.0, 2.0, 3.0], dtype=ndgrad.float64) * (t.tensor() if isinstance(t, ndp.ndarray) else t) ** 3).sum()


def backward_twice(f: Callable[[Any], Any], t: Any) -> Any:
    leaf = t.detach().requires_grad_()
    for _ in range(2):
        ndgrad.autograd.backward([f(leaf)], create_graph=True)
    return leaf.grad.detach() / 2


DERIVATIVES: dict[str, Callable[[Callable[[Any], Any], Any], Any]] = {
    "backward": lambda f, t: [leaf := t.detach().requires_grad_(), f(leaf).backward(), leaf.grad][-1],
    "autograd.grad": lambda f, t: ndgrad.autograd.grad(f(leaf := t.detach().requires_grad_()), leaf)[0],
    "create_graph": lambda f, t: ndgrad.autograd.grad(f(leaf := t.detach().requires_grad_()), leaf, create_graph=True)[0],
    "grad": lambda f, t: func.grad(f)(t),
    "grad inside grad": lambda f, t: func.grad(lambda u: func.grad(f)(u) * u)(t) - func.grad(func.grad(f))(t) * t,
    "grad inside vmap": lambda f, t: func.vmap(func.grad(f))(t.expand(2))[0],
    "vjp": lambda f, t: func.vjp(f, t)[1](ndgrad.ones_like(f(t)))[0],
    "jacrev": lambda f, t: func.jacrev(f)(t),
    "jvp of grad": lambda f, t: func.jvp(func.grad(f), (t,), (t,))[1] / 2,
    "jacfwd of grad": lambda f, t: func.jacfwd(func.grad(f))(t) * t / 2,
}


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", DERIVATIVES)
@pytest.mark.parametrize("function", [cube_by_arrays, cube_by_tensors])
def test_derivative_has_the_class_of_the_variable(function: Any, name: str, compiled: bool) -> None:
    derive: Callable[[Any], Any] = lambda t: DERIVATIVES[name](function, t)
    if compiled:
        derive = ndgrad.compile(derive)
    for variable in (ndgrad.tensor(0.5, dtype=ndgrad.float64), ndp.array(0.5)):
        found = derive(variable)
        assert type(found) is type(variable)
        np.testing.assert_allclose(found.detach().numpy(), 18 * 0.25, rtol=1e-12)


@pytest.mark.filterwarnings("ignore:Using backward")
def test_accumulated_gradients_with_a_graph_keep_the_class() -> None:
    for variable in (ndgrad.tensor(0.5, dtype=ndgrad.float64), ndp.array(0.5)):
        found = backward_twice(cube_by_arrays, variable)
        assert type(found) is type(variable)
        np.testing.assert_allclose(found.numpy(), 18 * 0.25)


def test_conversion_inside_vmap_leaves_the_transform() -> None:
    t = ndgrad.tensor([1.0, 2.0], dtype=ndgrad.float64)
    assert type(func.vmap(ndp.asarray)(t)) is ndp.ndarray
    assert type(func.vmap(lambda u: (ndp.asarray(u) * 2).tensor())(t)) is ndgrad.Tensor
    assert type(t) is ndgrad.Tensor


def test_gradient_of_a_converted_value_passes_through_the_view() -> None:
    a = ndp.array([1.0, 2.0])
    found = func.grad(lambda x: x.tensor().sin().sum())(a)
    np.testing.assert_allclose(found.numpy(), np.cos([1.0, 2.0]))
