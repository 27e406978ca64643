"""Transforms of compiled functions: `vjp`, `jvp`, `grad` and their compositions run as programs, with eager's values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ndgrad
from ndgrad import func
from ndgrad._src.compiler.runtime.function import CompiledFunction
from ndgrad._src.interpreters import forward_ad


def close(found: Any, expected: Any) -> None:
    found, expected = (ndgrad.pytree.tree_leaves(tree) for tree in (found, expected))
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a.detach(), b.detach(), rtol=1e-12, atol=1e-14)


def f(x: Any, y: Any) -> Any:
    return {"a": (x * y).sin(), "b": [x.sum() * y]}


def arrays(*seeds: int) -> list[Any]:
    return [ndgrad.tensor(np.random.default_rng(seed).normal(size=3)) for seed in seeds]


def test_vjp_is_that_of_the_function_and_runs_its_programs():
    compiled = CompiledFunction(f)
    for i in range(5):
        x, y, a, b = arrays(i, i + 10, i + 20, i + 30)
        value, pull = func.vjp(compiled, x, y)
        expected, expected_pull = func.vjp(f, x, y)
        close(value, expected)
        assert not value["a"].requires_grad
        for _ in range(2):
            close(pull({"a": a, "b": [b]}), expected_pull({"a": a, "b": [b]}))
    assert compiled.traces == 1
    assert not x.requires_grad
    assert x.grad is None


def test_a_pullback_that_is_batched_or_differentiated():
    compiled = CompiledFunction(lambda x: (x * x).sin() * x.sum())
    (x,) = arrays(1)
    for _ in range(3):
        _, pull = func.vjp(compiled, x)
        _, expected = func.vjp(compiled.function, x)
        close(func.vmap(pull)(ndgrad.eye(3, dtype=x.dtype)), func.vmap(expected)(ndgrad.eye(3, dtype=x.dtype)))
        c = ndgrad.ones(3, requires_grad=True)
        (g,) = pull(c * 2)
        (h,) = expected(c * 2)
        close(ndgrad.autograd.grad((g * g).sum(), c), ndgrad.autograd.grad((h * h).sum(), c))
        with pytest.raises(RuntimeError, match="shape"):
            pull(ndgrad.ones(4))


def test_a_vjp_in_which_something_else_requires_grad_is_recorded():
    w = ndgrad.tensor([1.0, 2.0, 3.0], requires_grad=True)
    compiled = CompiledFunction(lambda x: x * w * x)
    (x,) = arrays(2)
    for function in (compiled, compiled.function):
        value, pull = func.vjp(function, x)
        assert value.requires_grad
        (g,) = pull(ndgrad.ones(3))
        (found,) = ndgrad.autograd.grad(g.sum(), w)
        close(found, 2 * x)
    leaf = x.clone().requires_grad_()
    value, pull = func.vjp(compiled, leaf)
    (g,) = pull(ndgrad.ones(3))
    close(ndgrad.autograd.grad(g.sum(), leaf), (2 * w,))


def test_a_vjp_of_a_function_that_writes_writes_once():
    count = ndgrad.zeros(())

    def counting(x: Any) -> Any:
        count.add_(1)
        return x * x

    compiled = CompiledFunction(counting)
    (x,) = arrays(3)
    for i in range(1, 5):
        _, pull = func.vjp(compiled, x)
        close(pull(ndgrad.ones(3)), (2 * x,))
        assert count.item() == i


def test_jvp_is_that_of_the_function_and_runs_as_a_program():
    compiled = CompiledFunction(f)
    for i in range(4):
        x, y, a, b = arrays(i, i + 10, i + 20, i + 30)
        close(func.jvp(compiled, (x, y), (a, b)), func.jvp(f, (x, y), (a, b)))
    (made,) = compiled._transformed.values()
    assert made.traces == 1
    assert made.entries[0].specialisation is not None
    aux = CompiledFunction(lambda x: (x.exp(), x * 2))
    close(func.jvp(aux, (x,), (a,), has_aux=True), func.jvp(aux.function, (x,), (a,), has_aux=True))
    with pytest.raises(RuntimeError, match="strict"):
        func.jvp(CompiledFunction(lambda x: ndgrad.ones(3)), (x,), (a,), strict=True)
    with pytest.raises(RuntimeError, match="structure"):
        func.jvp(compiled, (x, y), (a,))


def test_compositions_are_traced_once():
    compiled = CompiledFunction(lambda x: (x**3).sum() * x[0])
    plain = compiled.function
    for i in range(3):
        x, v = arrays(i, i + 5)
        close(func.grad(compiled)(x), func.grad(plain)(x))
        close(func.hvp(compiled, (x,), (v,)), func.hvp(plain, (x,), (v,)))
        close(func.jvp(func.grad(compiled), (x,), (v,)), func.jvp(func.grad(plain), (x,), (v,)))
        close(func.vjp(func.grad(compiled), x)[1](v), func.vjp(func.grad(plain), x)[1](v))
        close(func.vmap(compiled)(ndgrad.stack([x, v])), func.vmap(plain)(ndgrad.stack([x, v])))
        close(func.hessian(compiled)(x), func.hessian(plain)(x))
    assert func.grad(compiled) is func.grad(compiled)
    assert func.grad(compiled).traces == 2  # with and without a leaf
    assert func.vmap(compiled, in_dims=0) is not func.vmap(compiled, in_dims=1)


def test_batched_and_dual_gradients_of_a_compiled_call():
    compiled = CompiledFunction(lambda x: (x * x).sin() * x.sum())
    x = ndgrad.tensor([1.0, 2.0, 3.0], requires_grad=True)
    expected = ndgrad.autograd.grad(compiled.function(x), x, ndgrad.eye(3), is_grads_batched=True)
    for _ in range(4):
        close(ndgrad.autograd.grad(compiled(x), x, ndgrad.eye(3), is_grads_batched=True), expected)
        y = compiled(x), compiled.function(x)
        with forward_ad.dual_level():
            g = forward_ad.make_dual(ndgrad.ones(3), ndgrad.tensor([1.0, 0.0, 2.0]))
            a, b = (forward_ad.unpack_dual(ndgrad.autograd.grad(out, x, g)[0]) for out in y)
            close(list(a), list(b))


def test_a_gradient_that_requires_grad_after_one_that_does_not():
    compiled = CompiledFunction(lambda x: x**3)
    x = ndgrad.tensor([1.0, 2.0], requires_grad=True)
    out = compiled(x)
    ndgrad.autograd.grad(out, x, ndgrad.ones(2), create_graph=True)
    v = ndgrad.ones(2, requires_grad=True)
    (g,) = ndgrad.autograd.grad(out, x, v, create_graph=True)
    close(ndgrad.autograd.grad(g.sum(), v), (3 * x**2,))


def test_batched_gradients_through_a_loop():
    def steps(x: Any) -> Any:
        for _ in range(40):
            x = x + 0.01 * x.sin()
        return x

    compiled = CompiledFunction(steps)
    x = ndgrad.tensor([1.0, 2.0, 3.0], requires_grad=True)
    expected = ndgrad.autograd.grad(steps(x), x, ndgrad.eye(3), is_grads_batched=True)
    close(ndgrad.autograd.grad(compiled(x), x, ndgrad.eye(3), is_grads_batched=True), expected)


def test_batched_gradients_that_are_to_be_differentiated_are_refused():
    compiled = CompiledFunction(lambda x: x * x * x)
    x = ndgrad.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="compiled call"):
        ndgrad.autograd.grad(compiled(x), x, ndgrad.eye(3), is_grads_batched=True, create_graph=True)
