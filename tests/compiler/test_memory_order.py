"""Reshapes of results as views or copies, in a trace as in eager code: one of the two is written, and both are
returned.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest

import ndgrad
import ndgrad.numpy as ng
from ndgrad import func
from ndgrad._src.compiler.capture import memory_order

#: Ops whose functions or libraries decide the memory order of the results.
OPS: dict[str, Callable[[Any], Any]] = {
    "inv": np.linalg.inv,
    "solve": lambda x: np.linalg.solve(x, np.ones((4, 4))),
    "cholesky": lambda x: np.linalg.cholesky(x @ x.T + np.eye(4)),
    "sort": lambda x: np.sort(x, axis=0),
    "cumprod": lambda x: np.cumprod(x, axis=0),
    "var": lambda x: np.stack([x, 2 * x, x * x]).var(axis=0),
    "sum": lambda x: np.sum(np.stack([x, 2 * x, x * x]).T, axis=1),
    "median": lambda x: np.median(np.stack([x, 2 * x, x * x]), axis=1),
    "batched product": lambda x: np.stack([x, 2 * x]).transpose(2, 1, 0) @ np.ones((4, 2, 3)),
    "take": lambda x: np.take(x, np.array([2, 0, 1, 1]), axis=1),
    "chain": lambda x: np.sin(np.linalg.inv(x)) * np.cumprod(x, axis=1),
    "diff": lambda x: np.diff(x, axis=1),
}  # fmt: skip
FORMS = {
    "C": lambda x: x,
    "F": lambda x: x.T,
    "stepped": lambda x: np.repeat(x, 2, axis=0)[::2],
    "backwards": lambda x: x[::-1, ::-1],
}


def write_both(op: Callable[[Any], Any], form: Callable[[Any], Any], whole: bool) -> Callable[[Any], Any]:
    def f(x: Any) -> Any:
        y = op(form(x))
        z = y.reshape(-1)
        if whole:
            y *= 2.0
        else:
            z[1:] = 3.0
        return y + 0.0, z + 0.0

    return f


def matrix() -> Any:
    return ng.array(np.random.default_rng(3).standard_normal((4, 4)) + 4 * np.eye(4))


@pytest.mark.parametrize("whole", [True, False], ids=["the array is written", "the reshaped one is written"])
@pytest.mark.parametrize("form", list(FORMS))
@pytest.mark.parametrize("name", list(OPS))
def test_a_reshape_is_a_view_exactly_where_it_is_one_in_eager_code(name: str, form: str, whole: bool) -> None:
    f = write_both(OPS[name], FORMS[form], whole)
    g = ndgrad.compile(f, fullgraph=True, strict=True)  # on NumPy, because the test is about the trace
    for a, b in zip(g(matrix()), f(matrix()), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12)


@pytest.mark.parametrize("name", ["inv", "batched product", "chain"])
def test_writes_of_such_memory_have_the_gradients_of_eager_code(name: str) -> None:
    f = write_both(OPS[name], FORMS["F"], True)
    total = lambda x: (f(x)[0] ** 2).sum() + f(x)[1].sum()
    for transform in (func.grad, func.hessian):
        found = ndgrad.compile(transform(total), fullgraph=True, strict=True)(matrix())
        np.testing.assert_allclose(found.numpy(), transform(total)(matrix()).numpy(), rtol=1e-9, atol=1e-9)


def test_nothing_is_run_where_nothing_is_written() -> None:
    with mock.patch.object(memory_order, "_strides_of", side_effect=AssertionError("run")):
        f = lambda x: np.linalg.inv(x.T).reshape(-1)[1:].sum()
        assert ndgrad.compile(f, fullgraph=True)(matrix()).item() == pytest.approx(f(matrix()).item(), rel=1e-9)


def test_what_cannot_be_found_out_runs_eagerly_and_is_right() -> None:
    f = write_both(OPS["inv"], FORMS["F"], True)
    with mock.patch.object(memory_order, "_strides_of", return_value=None), mock.patch.dict(memory_order._found, clear=True):
        g = ndgrad.compile(f)
        assert "in which order it lies" in str(ndgrad.compiler.explain(g, matrix()).reason)
        for a, b in zip(g(matrix()), f(matrix()), strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12)


# ----- gradients ------------------------------------------------------------------------------------------------------


def loss(x: Any, w: Any) -> Any:
    return ((x.T @ w).sin() * w).sum()


def gradients(x: Any, w: Any, **options: Any) -> Any:
    x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
    return ndgrad.autograd.grad(loss(x, w) + w[::2].sum() + x.mean(), [x, w], **options)


def write_through_reshape(x: Any, w: Any) -> Any:
    g = gradients(x, w)[0]
    flat = g.reshape(-1)
    flat += 1
    return g, flat


def keep_forward_results(x: Any, w: Any) -> Any:
    x = x.detach().requires_grad_()
    y = x.T @ w
    y.sin().sum().backward()
    return y.detach().T, x.detach().T * 2, (y.T * 2).detach(), x.grad


GRADIENTS: dict[str, Callable[[Any, Any], Any]] = {
    "autograd.grad": gradients,
    "create_graph": lambda x, w: [g.detach() for g in gradients(x, w, create_graph=True)],
    "func.grad": func.grad(loss, (0, 1)),
    "func.grad of sums": func.grad(lambda x, w: x.sum() + w.T.sum(), (0, 1)),
    "func.vjp of func.grad": lambda x, w: func.vjp(func.grad(loss), x, w)[1](x),
    "func.jvp of func.grad": lambda x, w: func.jvp(func.grad(loss), (x, w), (x, w)),
    "func.jacrev": lambda x, w: func.jacrev(lambda x: x.T @ w)(x),
    "func.hessian": lambda x, w: func.hessian(lambda x: loss(x, w))(x),
    "func.vmap of func.grad": lambda x, w: func.vmap(func.grad(lambda w, r: (w.T @ r).sin().sum()), (None, 0))(w, x),
    "computed from gradients": lambda x, w: (lambda g: (g * 2.0, g.T, g[0], g + x.T, g.reshape(-1)))(gradients(x, w)[0]),
    "written through a reshape": write_through_reshape,
    "forward results": keep_forward_results,
    "no NumPy order is kept": lambda x, w: (x.T.contiguous() * 2.0, w.T.contiguous().sin()),
}


@pytest.mark.parametrize("form", ["C", "F"])
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_lie_in_memory_as_those_of_eager_code(name: str, form: str) -> None:
    f = GRADIENTS[name]
    x, w = (ndgrad.tensor(np.random.default_rng(i).standard_normal((3, n)), dtype=ndgrad.float64) for i, n in ((0, 3), (1, 4)))
    if form == "F":
        x, w = x.T.contiguous().T, w.T.contiguous().T
    compiled = ndgrad.compile(f)
    expected = ndgrad.pytree.tree_leaves(f(x, w))
    for _ in range(3):
        for found, t in zip(ndgrad.pytree.tree_leaves(compiled(x, w)), expected, strict=True):
            np.testing.assert_allclose(found.detach().numpy(), t.detach().numpy(), rtol=1e-12)
            assert found.stride() == t.stride()
    # `.grad` in another order than C is set eagerly.
    assert compiled.entries[0].specialisation is not None or (name, form) == ("forward results", "F")


def test_a_gradient_that_a_hook_keeps_is_that_of_eager_code() -> None:
    """A trace does not know how it lies, so the function runs eagerly."""
    kept: list[Any] = []

    def f(x: Any) -> Any:
        kept.clear()
        y = x.detach().requires_grad_().T * 1.0
        y.register_hook(lambda g: kept.append(g.T * 2))
        y.sin().sum().backward()
        return kept[0]

    x = matrix().detach()
    assert ndgrad.compile(f)(x).stride() == f(x).stride()


class Reshaping(ndgrad.autograd.Function):
    """A function whose backward writes through a reshape, which is a view or a copy, depending on the gradient."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        g = g * 2
        flat = g.reshape(-1)
        flat += 1
        return g


@pytest.mark.parametrize("is_transposed", [False, True])
def test_writes_in_a_backward_of_the_user_are_those_of_eager_code(is_transposed: bool) -> None:
    def f(x: Any) -> Any:
        x = x.detach().requires_grad_()
        y = Reshaping.apply(x)
        return ndgrad.autograd.grad(((y.T if is_transposed else y) @ ndgrad.ones(4, 3, dtype=y.dtype)).sin().sum(), x)[0]

    x = ndgrad.tensor(np.random.default_rng(0).standard_normal((4, 4)))
    np.testing.assert_allclose(ndgrad.compile(f)(x).numpy(), f(x).numpy())


def test_gradients_of_numbers_that_are_broadcast_compile() -> None:
    """The rule makes such a gradient by a reshape, whose order is unknown but does not matter."""
    x = ndgrad.linspace(0.5, 1.5, 6).reshape(2, 3)
    for f in (lambda s: (x * s).exp().sum(), lambda s: (x / s).tanh().sum(), lambda s: s.expand(3).exp().sum() * s):
        compiled = ndgrad.compile(ndgrad.func.grad(f), fullgraph=True)
        for s in (0.5, 0.7, 0.9):
            made = compiled(ndgrad.tensor(s))
            np.testing.assert_allclose(made, ndgrad.func.grad(f)(ndgrad.tensor(s)), rtol=1e-6)
            assert made.shape == ()
