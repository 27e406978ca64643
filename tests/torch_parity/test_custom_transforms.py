"""Custom functions inside function transforms: the same programs on torch and on ndgrad."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import ndgrad
from tests.torch_parity.differences import deliberate
from tests.torch_parity.outcomes import compare, outcome
from tests.torch_parity.side_by_side import Programs

X = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
Y = np.array([[1.0, -1.0], [2.0, -2.0], [3.0, -3.0]])

PROGRAMS = Programs()


def program(f: Any) -> Any:
    """A program of the module, its func, two batches and two samples."""

    def run(m: Any) -> Any:
        x, y = m.tensor(X), m.tensor(Y)
        return f(m, m.func, x, y, x[0], y[0])

    run.__name__ = f.__name__
    return PROGRAMS.enter(run)


def function(m: Any, generate: bool = False, **members: Any) -> Any:
    made = {name: staticmethod(f) for name, f in members.items()}
    return type("F", (m.autograd.Function,), {**made, "generate_vmap_rule": generate}).apply


def nothing(ctx, inputs, output):
    pass


def save_inputs(ctx, inputs, output):
    ctx.save_for_backward(*inputs)
    ctx.save_for_forward(*inputs)


def product(m):
    """x y^2, with a generated vmap rule."""

    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return g * y * y, g * 2 * x * y

    def jvp(ctx, a, b):
        x, y = ctx.saved_tensors
        return a * y * y + 2 * x * y * b

    return function(m, True, forward=lambda x, y: x * y * y, setup_context=save_inputs, backward=backward, jvp=jvp)


def cube(m, seen=None):
    """x^3, with a vmap rule of its own."""

    def vmap(info, in_dims, x):
        if seen is not None:
            seen.append([info.batch_size, info.randomness])
        return apply(x), in_dims[0]

    apply = function(
        m, forward=lambda x: x**3, setup_context=save_inputs, backward=lambda ctx, g: g * 3 * ctx.saved_tensors[0] ** 2,
        jvp=lambda ctx, t: 3 * ctx.saved_tensors[0] ** 2 * t, vmap=vmap,
    )  # fmt: skip
    return apply


# ----- generated rules ---------------------------------------------------------------------------------------------------


@program
def vmap(m, f, X, Y, x, y):
    return f.vmap(product(m))(X, Y)


@program
def vmap_of_one_argument(m, f, X, Y, x, y):
    return f.vmap(product(m), in_dims=(0, None))(X, y), f.vmap(product(m), in_dims=(None, 0))(x, Y)


@program
def vmap_over_another_dimension(m, f, X, Y, x, y):
    return f.vmap(product(m), in_dims=(1, None), out_dims=1)(X, m.tensor(2.0))


@program
def vmap_in_chunks(m, f, X, Y, x, y):
    return f.vmap(product(m), chunk_size=2)(X, Y)


@program
def vmap_of_vmap(m, f, X, Y, x, y):
    return f.vmap(f.vmap(product(m), in_dims=(0, None)), in_dims=(0, 0))(X, X[:, 0])


@program
def vmap_of_grad(m, f, X, Y, x, y):
    return f.vmap(f.grad(lambda x, y: product(m)(x, y).sum(), argnums=(0, 1)))(X, Y)


@program
def grad_of_vmap(m, f, X, Y, x, y):
    return f.grad(lambda X, Y: f.vmap(product(m))(X, Y).sum(), argnums=(0, 1))(X, Y)


@program
def grad_of_vmap_with_a_shared_argument(m, f, X, Y, x, y):
    return f.grad(lambda X, y: f.vmap(product(m), in_dims=(0, None))(X, y).sum(), argnums=(0, 1))(X, y)


@program
def jvp_of_vmap(m, f, X, Y, x, y):
    return f.jvp(lambda X, Y: f.vmap(product(m))(X, Y), (X, Y), (Y, X))


@program
def jvp_of_vmap_with_a_shared_argument(m, f, X, Y, x, y):
    return f.jvp(lambda y: f.vmap(product(m), in_dims=(0, None))(X, y), (y,), (x,))


@program
def jvp_of_vmap_along_one_argument(m, f, X, Y, x, y):
    return f.jvp(lambda X: f.vmap(product(m))(X, Y), (X,), (Y,))


@program
def vmap_of_jvp(m, f, X, Y, x, y):
    return f.vmap(lambda x, y: f.jvp(product(m), (x, y), (y, x)))(X, Y)


@program
def hessian(m, f, X, Y, x, y):
    return f.hessian(lambda x, y: product(m)(x, y).sum(), argnums=(0, 1))(x, y)


@program
def jacrev_of_jacrev(m, f, X, Y, x, y):
    return f.jacrev(f.jacrev(lambda y: product(m)(x, y).sum()))(y)


@program
def jacrev_of_jacfwd(m, f, X, Y, x, y):
    return f.jacrev(f.jacfwd(lambda y: product(m)(x, y).sum()))(y)


@program
def vmap_of_hessian(m, f, X, Y, x, y):
    return f.vmap(f.hessian(lambda x, y: product(m)(x, y).sum(), argnums=1))(X, Y)


@program
def jvp_of_grad(m, f, X, Y, x, y):
    return f.jvp(f.grad(lambda y: product(m)(x, y).sum()), (y,), (x,))


@program
def vmap_of_grad_of_jvp(m, f, X, Y, x, y):
    return f.vmap(f.grad(lambda y: f.jvp(lambda z: product(m)(x, z), (y,), (x,))[1].sum()))(Y)


@program
def grad_of_vmap_of_jvp(m, f, X, Y, x, y):
    return f.grad(lambda Y: f.vmap(lambda y: f.jvp(lambda z: product(m)(x, z), (y,), (x,))[1].sum())(Y).sum())(Y)


@program
def backward_through_vmap(m, f, X, Y, x, y):
    X.requires_grad_()
    f.vmap(product(m))(X, Y).sum().backward()
    return X.grad


@program
def batched_cotangents(m, f, X, Y, x, y):
    X.requires_grad_()
    return m.autograd.grad(product(m)(X, Y), X, m.eye(6).reshape(6, 3, 2), is_grads_batched=True)


@program
def batched_cotangents_with_an_unused_input(m, f, X, Y, x, y):
    X.requires_grad_()
    other = m.ones(2, requires_grad=True)
    found = m.autograd.grad(product(m)(X, Y), (X, other), m.ones(4, 3, 2), is_grads_batched=True, allow_unused=True)
    return found[0], found[1] is None


@program
def several_batched_cotangents_with_a_graph(m, f, X, Y, x, y):
    X.requires_grad_()
    outs = product(m)(X, Y), X**3
    (g,) = m.autograd.grad(outs, X, (m.ones(4, 3, 2), m.ones(4, 3, 2)), is_grads_batched=True, create_graph=True)
    return g, m.autograd.grad(g.sum(), X)


@program
def linearize(m, f, X, Y, x, y):
    out, pushed = f.linearize(lambda x: product(m)(x, y), x)
    return out, pushed(y), pushed(x)


@program
def vjp(m, f, X, Y, x, y):
    out, pull = f.vjp(product(m), x, y)
    return out, pull(x)


@program
def jacobians(m, f, X, Y, x, y):
    return f.jacrev(product(m), argnums=(0, 1))(x, y), f.jacfwd(product(m), argnums=(0, 1))(x, y)


@program
def two_outputs(m, f, X, Y, x, y):
    g = function(m, True, forward=lambda x: (x * 2, x.sum()), setup_context=nothing, backward=lambda ctx, a, b: a * 2 + b)
    total = lambda x: sum(o.sum() for o in g(x))
    return f.vmap(g)(X), f.vmap(f.grad(total))(X), f.grad(lambda X: sum(o.sum() for o in f.vmap(g)(X)))(X)


@program
def a_discrete_output(m, f, X, Y, x, y):
    def setup(ctx, inputs, output):
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(inputs[0])

    g = function(
        m, True, forward=lambda x: (x * x, x.argmax()), setup_context=setup, backward=lambda ctx, a, b: a * 2 * ctx.saved_tensors[0]
    )
    return f.vmap(g)(X), f.grad(lambda X: f.vmap(g)(X)[0].sum())(X)


@program
def attributes_of_the_context(m, f, X, Y, x, y):
    seen = []

    def setup(ctx, inputs, output):
        ctx.k, ctx.shape = inputs[1], inputs[0].shape

    def backward(ctx, g):
        seen.append([ctx.k, list(ctx.shape)])
        return g * ctx.k, None

    g = function(m, True, forward=lambda x, k: x * k, setup_context=setup, backward=backward)
    return f.vmap(f.grad(lambda x: g(x, 3.0).sum()))(X), f.grad(lambda X: f.vmap(lambda x: g(x, 3.0))(X).sum())(X), seen


@program
def a_saved_output(m, f, X, Y, x, y):
    def setup(ctx, inputs, output):
        ctx.save_for_backward(output)
        ctx.save_for_forward(output)

    g = function(
        m, True, forward=lambda x: x.exp(), setup_context=setup, backward=lambda ctx, g: g * ctx.saved_tensors[0],
        jvp=lambda ctx, t: t * ctx.saved_tensors[0],
    )  # fmt: skip
    return (
        f.grad(lambda X: f.vmap(g)(X).sum())(X),
        f.jacrev(f.jacrev(lambda x: g(x).sum()))(x),
        f.vmap(f.hessian(lambda x: g(x).sum()))(X),
        f.jvp(f.vmap(g), (X,), (Y,)),
    )


@program
def needed_gradients(m, f, X, Y, x, y):
    seen = []

    def backward(ctx, g):
        seen.append(list(ctx.needs_input_grad))
        return g, g

    g = function(m, True, forward=lambda x, y: x + y, setup_context=nothing, backward=backward)
    return f.grad(lambda X: f.vmap(g)(X, Y).sum())(X), seen


@program
def gradients_that_are_not_materialized(m, f, X, Y, x, y):
    seen = []

    def backward(ctx, a, b):
        seen.append([a is None, b is None])
        return a

    g = function(
        m, True, forward=lambda x: (x * 1, x * 2), setup_context=lambda ctx, i, o: ctx.set_materialize_grads(False), backward=backward
    )
    return f.grad(lambda X: f.vmap(g)(X)[0].sum())(X), seen


@program
def a_backward_that_returns_none(m, f, X, Y, x, y):
    g = function(m, True, forward=lambda x, y: x * 2 + 0 * y, setup_context=nothing, backward=lambda ctx, g: (g * 2, None))
    return f.grad(lambda X, Y: f.vmap(g)(X, Y).sum(), argnums=(0, 1))(X, Y)


@program
def a_reduction(m, f, X, Y, x, y):
    def setup(ctx, inputs, output):
        ctx.shape = inputs[0].shape

    g = function(m, True, forward=lambda x: x.sum(), setup_context=setup, backward=lambda ctx, g: g.expand(ctx.shape))
    return f.grad(lambda X: f.vmap(g)(X).sum())(X), f.vmap(f.grad(g))(X)


@program
def a_missing_jvp(m, f, X, Y, x, y):
    g = function(m, True, forward=lambda x: x * 2, setup_context=nothing, backward=lambda ctx, g: g * 2)
    return f.jvp(f.vmap(g), (X,), (Y,))


@program
def a_random_forward(m, f, X, Y, x, y):
    return f.vmap(function(m, True, forward=lambda x: x * m.rand_like(x), setup_context=nothing))(X)


# ----- rules of one's own ----------------------------------------------------------------------------------------------------


@program
def own_rule(m, f, X, Y, x, y):
    seen = []
    return f.vmap(cube(m, seen))(X), seen


@program
def own_rule_over_another_dimension(m, f, X, Y, x, y):
    return f.vmap(cube(m), in_dims=1)(X)


@program
def own_rule_with_randomness(m, f, X, Y, x, y):
    seen = []
    return f.vmap(cube(m, seen), randomness="same")(X), seen


@program
def own_rule_twice(m, f, X, Y, x, y):
    seen = []
    return f.vmap(f.vmap(cube(m, seen)))(X), seen


@program
def own_rule_with_grad(m, f, X, Y, x, y):
    return f.vmap(f.grad(lambda x: cube(m)(x).sum()))(X), f.grad(lambda X: f.vmap(cube(m))(X).sum())(X)


@program
def own_rule_with_jvp(m, f, X, Y, x, y):
    return f.jvp(f.vmap(cube(m)), (X,), (Y,)), f.vmap(lambda x, v: f.jvp(cube(m), (x,), (v,)))(X, Y)


@program
def own_rule_second_order(m, f, X, Y, x, y):
    total = lambda x: cube(m)(x).sum()
    return f.hessian(total)(x), f.vmap(f.hessian(total))(X), f.jacrev(f.jacrev(total))(x), f.jacrev(f.jacfwd(total))(x)


@program
def own_rule_with_two_outputs(m, f, X, Y, x, y):
    rule = lambda info, dims, x: ((x, x * 2), (0, 1))
    return f.vmap(function(m, forward=lambda x: (x, x), setup_context=nothing, vmap=rule))(X)


@program
def own_rule_with_one_dimension_for_all(m, f, X, Y, x, y):
    return f.vmap(function(m, forward=lambda x: (x, x), setup_context=nothing, vmap=lambda info, dims, x: ((x, x * 2), 0)))(X)


@program
def own_rule_with_an_unbatched_result(m, f, X, Y, x, y):
    return f.vmap(function(m, forward=lambda x: x, setup_context=nothing, vmap=lambda info, dims, x: (x[0], None)))(X)


@program
def own_rule_that_is_not_needed(m, f, X, Y, x, y):
    g = function(m, forward=lambda x: x * 10, setup_context=nothing, vmap=lambda info, dims, x: 1 / 0)
    return f.vmap(lambda z: z + g(x))(X)


@program
def own_rule_that_raises(m, f, X, Y, x, y):
    return f.vmap(function(m, forward=lambda x: x, setup_context=nothing, vmap=lambda info, dims, x: 1 / 0))(X)


@program
def own_rule_without_dimensions(m, f, X, Y, x, y):
    return f.vmap(function(m, forward=lambda x: x, setup_context=nothing, vmap=lambda info, dims, x: x))(X)


@program
def own_rule_with_the_wrong_number_of_dimensions(m, f, X, Y, x, y):
    return f.vmap(function(m, forward=lambda x: x, setup_context=nothing, vmap=lambda info, dims, x: (x, (0, 0))))(X)


# ----- refused -----------------------------------------------------------------------------------------------------------------


@program
def no_rule(m, f, X, Y, x, y):
    return f.vmap(function(m, forward=lambda x: x, setup_context=nothing))(X)


@program
def two_rules(m, f, X, Y, x, y):
    return f.vmap(function(m, True, forward=lambda x: x, setup_context=nothing, vmap=lambda info, dims, x: (x, 0)))(X)


@program
def no_setup_context_in_vmap(m, f, X, Y, x, y):
    return f.vmap(function(m, True, forward=lambda ctx, x: x))(X)


@program
def no_setup_context_in_grad(m, f, X, Y, x, y):
    return f.grad(lambda x: function(m, forward=lambda ctx, x: x * 1, backward=lambda ctx, g: g)(x).sum())(x)


@program
def too_few_gradients(m, f, X, Y, x, y):
    return f.grad(lambda x: function(m, forward=lambda x, y: x * y, setup_context=nothing, backward=lambda ctx, g: g)(x, y).sum())(x)


@program
def a_backward_that_raises(m, f, X, Y, x, y):
    return f.grad(lambda x: function(m, forward=lambda x: x, setup_context=nothing, backward=lambda ctx, g: 1 / 0)(x).sum())(x)


# ----- writes, views, inputs ------------------------------------------------------------------------------------------------------


def doubling(m):
    def forward(x):
        x.mul_(2.0)
        return x

    return function(
        m, True, forward=forward, setup_context=lambda ctx, inputs, output: ctx.mark_dirty(inputs[0]), backward=lambda ctx, g: g * 2
    )


@program
def in_place_in_grad(m, f, X, Y, x, y):
    return f.grad(lambda x: (doubling(m)(x.clone()) ** 2).sum())(x)


@program
def in_place_result_is_the_argument(m, f, X, Y, x, y):
    def g(x):
        z = x.clone()
        return (doubling(m)(z) is z) * z.sum()

    return f.grad(g)(x)


@program
def a_view_in_grad(m, f, X, Y, x, y):
    g = function(m, True, forward=lambda x: x.view(-1), setup_context=nothing, backward=lambda ctx, g: g)
    return f.grad(lambda x: g(x.clone()).sum())(x), f.vmap(g)(X)


@program
def an_input_returned_in_grad(m, f, X, Y, x, y):
    return f.grad(lambda x: function(m, forward=lambda x: x, setup_context=nothing, backward=lambda ctx, g: g * 3)(x).sum())(x)


# ----- looking under the wrappers ---------------------------------------------------------------------------------------------------


@program
def debug_unwrap(m, f, X, Y, x, y):
    seen = []

    def look(t, **options):
        seen.append(list(f.debug_unwrap(t, **options).shape))
        return t

    f.vmap(look)(X)
    f.vmap(f.vmap(look))(X)
    f.vmap(f.vmap(lambda t: look(t, recurse=False)))(X)
    f.grad(lambda x: look(x).sum())(x)
    return seen, f.debug_unwrap(x) is x


@program
def debug_unwrap_of_a_number(m, f, X, Y, x, y):
    return f.debug_unwrap(3)


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name):
    compare(PROGRAMS[name])


# ----- programs that only ndgrad runs -------------------------------------------------------------------------------------------------


def test_forward_over_forward_is_the_derivative():
    deliberate("custom-in-transforms")

    def second(m):
        return m.func.jacfwd(m.func.jacfwd(lambda x: cube(m)(x).sum()))(m.tensor([1.0, 2.0]))

    assert outcome(second, torch)[1].tolist() == [[0.0, 0.0], [0.0, 0.0]]
    assert outcome(second, ndgrad)[1].tolist() == [[6.0, 0.0], [0.0, 12.0]]


def test_functions_without_setup_context_in_jvp_and_beside_vmap():
    deliberate("custom-in-transforms")
    old = {"forward": lambda ctx, x: x * 2, "jvp": lambda ctx, t: t * 2}

    def pushed(m):
        return m.func.jvp(function(m, **old), (m.ones(2),), (m.ones(2),))

    def call_beside_vmap(m):
        return m.func.vmap(lambda z: z + function(m, **old)(m.ones(2)))(m.tensor(X))

    assert outcome(pushed, torch)[1] == outcome(call_beside_vmap, torch)[1] == "RuntimeError"
    assert [a.tolist() for a in outcome(pushed, ndgrad)[1]] == [[2.0, 2.0], [2.0, 2.0]]
    assert outcome(call_beside_vmap, ndgrad)[1].tolist() == (X + 2).tolist()


def test_generated_rules_of_functions_that_write_in_place():
    deliberate("custom-in-transforms")

    def batched(m):
        total = lambda x: (doubling(m)(x.clone()) ** 2).sum()
        return m.func.vmap(m.func.grad(total))(m.tensor(X)), m.func.grad(lambda X: m.func.vmap(total)(X).sum())(m.tensor(X))

    assert outcome(batched, torch)[1] == "RuntimeError"
    assert [a.tolist() for a in outcome(batched, ndgrad)[1]] == [(8 * X).tolist()] * 2


def test_what_setup_context_computes_is_differentiated():
    """torch takes it for a constant."""

    def setup(ctx, inputs, output):
        ctx.save_for_forward(inputs[0] ** 2)

    g = function(ndgrad, True, forward=lambda x: x**3, setup_context=setup, jvp=lambda ctx, t: 3 * ctx.saved_tensors[0] * t)
    x = ndgrad.tensor([1.0, 2.0])
    second = ndgrad.func.jacfwd(ndgrad.func.jacfwd(lambda x: g(x).sum()))(x)
    assert second.tolist() == [[6.0, 0.0], [0.0, 12.0]]


def test_a_generated_rule_makes_as_many_calls_for_every_batch():
    from ndgrad.testing.op_checks import count_calls

    f = ndgrad.func.vmap(ndgrad.func.grad(lambda x, y: product(ndgrad)(x, y).sum()))
    counts = [count_calls(f, ndgrad.ones(n, 3), ndgrad.ones(n, 3)) for n in (2, 2, 64)]
    assert counts[1] == counts[2]
