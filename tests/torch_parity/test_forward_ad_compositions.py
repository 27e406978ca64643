"""Forward mode with reverse mode and with custom functions: the same programs on torch and on ndgrad, by results and classes of errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ndgrad
from tests.torch_parity.dual import forward_ad, in_level, settle, values
from tests.torch_parity.outcomes import compare
from tests.torch_parity.side_by_side import Programs

PROGRAMS = Programs()
program = PROGRAMS.enter


def function(m: Any, **members: Any) -> Any:
    return type("F", (m.autograd.Function,), {name: staticmethod(f) for name, f in members.items()}).apply


# ----- with reverse mode ------------------------------------------------------------------------------------------------


@program
@in_level
def reverse_over_forward(m, fw, x, v):
    x.requires_grad_()
    d = fw.make_dual(x, v)
    p, t = fw.unpack_dual(d**3)
    return d.requires_grad, p.requires_grad, t.requires_grad, m.autograd.grad(t.sum(), x)


@program
@in_level
def reverse_to_the_tangent(m, fw, x, v):
    v.requires_grad_()
    d = fw.make_dual(x, v)
    return m.autograd.grad(fw.unpack_dual(d * d).tangent.sum(), v), d.requires_grad


@program
@in_level
def forward_over_reverse(m, fw, x, v):
    x.requires_grad_()
    y = (fw.make_dual(x, v) ** 3).sum()
    (g,) = m.autograd.grad(y, x, create_graph=True)
    return fw.unpack_dual(g), m.autograd.grad(fw.unpack_dual(g).tangent.sum(), x)


@program
@in_level
def forward_over_reverse_without_a_graph(m, fw, x, v):
    x.requires_grad_()
    d = fw.make_dual(x, v)
    (g,) = m.autograd.grad((d**3).sum(), d)
    return fw.unpack_dual(g), g.requires_grad


@program
@in_level
def forward_over_reverse_through_saved_results(m, fw, x, v):
    x.requires_grad_()
    d = fw.make_dual(x, v)
    found = []
    for f in (m.exp, m.tanh, m.sqrt, m.sigmoid, lambda t: m.softmax(t, 0), lambda t: m.logsumexp(t, 0), lambda t: t / t.norm()):
        (g,) = m.autograd.grad((f(d) ** 2).sum(), x, create_graph=True)
        found.append(fw.unpack_dual(g))
    return found


@program
@in_level
def forward_over_reverse_of_products_and_writes(m, fw, x, v):
    x.requires_grad_()
    d = fw.make_dual(x, v)
    b = m.zeros(2, 2)
    b[0] = d * d
    b[1] = b[0].exp() * d
    (g,) = m.autograd.grad((b @ d).sum() + m.cat([d, b[1]]).prod(), x)
    return fw.unpack_dual(g)


@program
@in_level
def backward_leaves_plain_gradients(m, fw, x, v):
    x.requires_grad_()
    (fw.make_dual(x, v) ** 3).sum().backward()
    return fw.unpack_dual(x.grad)


@program
@in_level
def a_dual_that_is_a_leaf(m, fw, x, v):
    d = fw.make_dual(x, v).requires_grad_()
    (d**3).sum().backward()
    return d.is_leaf, fw.unpack_dual(d.grad)


@program
@in_level
def hooks_see_tangents(m, fw, x, v):
    seen = []
    d = fw.make_dual(x.requires_grad_(), v)
    d.register_hook(lambda g: seen.append(settle(fw.unpack_dual(g))))
    (d**3).sum().backward()
    return seen


@program
@in_level
def hooks_on_saved_tensors(m, fw, x, v):
    x.requires_grad_()
    with m.autograd.graph.saved_tensors_hooks(lambda t: t * 1, lambda t: t):
        y = (fw.make_dual(x, v) ** 3).exp().sum()
        (g,) = m.autograd.grad(y, x, create_graph=True)
    return fw.unpack_dual(g)


@program
@in_level
def a_dual_cotangent(m, fw, x, v):
    x.requires_grad_()
    (g,) = m.autograd.grad(x**3, x, fw.make_dual(v, v * 2))
    return fw.unpack_dual(g)


@program
@in_level
def transforms_of_duals(m, fw, x, v):
    d = fw.make_dual(x, v)
    return (
        fw.unpack_dual(m.func.grad(lambda z: (z**3).sum())(d)),
        fw.unpack_dual(m.func.vmap(lambda z: z**3)(d)),
        fw.unpack_dual(m.func.vmap(m.func.grad(lambda z: z**3))(d)),
    )


@program
def a_dual_level_inside_grad(m):
    fw = forward_ad(m)
    x, v = values(m)

    def f(z):
        with fw.dual_level():
            return fw.unpack_dual(fw.make_dual(z, v) ** 3).tangent.sum()

    return m.func.grad(f)(x)


# ----- custom functions -------------------------------------------------------------------------------------------------


def square(m):
    def forward(ctx, x):
        ctx.save_for_forward(x)
        ctx.save_for_backward(x)
        return x**2

    return function(
        m, forward=forward, backward=lambda ctx, g: 2 * g * ctx.saved_tensors[0], jvp=lambda ctx, t: 2 * t * ctx.saved_tensors[0]
    )


@program
@in_level
def a_custom_function(m, fw, x, v):
    return fw.unpack_dual(square(m)(fw.make_dual(x, v)))


@program
@in_level
def a_custom_function_reverse_over_forward(m, fw, x, v):
    t = fw.unpack_dual(square(m)(fw.make_dual(x.requires_grad_(), v))).tangent
    return m.autograd.grad(t.sum(), x)


@program
@in_level
def a_custom_function_forward_over_reverse(m, fw, x, v):
    d = fw.make_dual(x.requires_grad_(), v)
    return fw.unpack_dual(m.autograd.grad(square(m)(d).sum(), d, create_graph=True)[0])


@program
@in_level
def a_custom_function_with_setup_context(m, fw, x, v):
    def setup(ctx, inputs, output):
        ctx.save_for_forward(*inputs, output)
        ctx.k = 3

    f = function(m, forward=lambda x: x**3, setup_context=setup, jvp=lambda ctx, t: ctx.k * ctx.saved_tensors[0] ** 2 * t)
    return fw.unpack_dual(f(fw.make_dual(x, v)))


@program
@in_level
def a_custom_function_without_jvp(m, fw, x, v):
    return function(m, forward=lambda ctx, x: x * 2, backward=lambda ctx, g: g * 2)(fw.make_dual(x, v))


@program
@in_level
def a_jvp_that_returns_none(m, fw, x, v):
    return function(m, forward=lambda ctx, x: x * 2, jvp=lambda ctx, t: None)(fw.make_dual(x, v))


@program
@in_level
def a_jvp_with_too_many_answers(m, fw, x, v):
    return function(m, forward=lambda ctx, x: x * 2, jvp=lambda ctx, t: (t, t))(fw.make_dual(x, v))


@program
@in_level
def a_jvp_with_too_few_answers(m, fw, x, v):
    return function(m, forward=lambda ctx, x: (x * 2, x * 3), jvp=lambda ctx, t: t)(fw.make_dual(x, v))


@program
@in_level
def a_jvp_of_the_wrong_shape(m, fw, x, v):
    return function(m, forward=lambda ctx, x: x * 2, jvp=lambda ctx, t: t[:1])(fw.make_dual(x, v))


@program
@in_level
def a_jvp_that_returns_a_number(m, fw, x, v):
    return function(m, forward=lambda ctx, x: x * 2, jvp=lambda ctx, t: 1.0)(fw.make_dual(x, v))


@program
@in_level
def a_jvp_that_raises(m, fw, x, v):
    return function(m, forward=lambda ctx, x: x * 2, jvp=lambda ctx, t: 1 / 0)(fw.make_dual(x, v))


@program
@in_level
def a_jvp_gets_zeros_for_missing_tangents(m, fw, x, v):
    seen = []

    def jvp(ctx, a, b, k):
        seen.append([a, b, k])
        return a

    y = function(m, forward=lambda ctx, x, y, k: x * y * k, jvp=jvp)(fw.make_dual(x, v), x, 2.0)
    return fw.unpack_dual(y), seen


@program
@in_level
def a_jvp_gets_none_if_it_asks_for_it(m, fw, x, v):
    seen = []

    def forward(ctx, x, y):
        ctx.set_materialize_grads(False)
        return x * y

    def jvp(ctx, a, b):
        seen.append([a, b])
        return a

    return fw.unpack_dual(function(m, forward=forward, jvp=jvp)(fw.make_dual(x, v), x)), seen


def marking(m, jvp):
    def forward(ctx, x):
        y, z = x * 2, x * 3
        ctx.mark_non_differentiable(z)
        return y, z

    return function(m, forward=forward, jvp=jvp)


@program
@in_level
def a_jvp_with_a_discrete_output(m, fw, x, v):
    return [fw.unpack_dual(o) for o in marking(m, lambda ctx, t: (t * 2, None))(fw.make_dual(x, v))]


@program
@in_level
def a_jvp_with_a_tangent_for_a_discrete_output(m, fw, x, v):
    return marking(m, lambda ctx, t: (t * 2, t))(fw.make_dual(x, v))


def doubling(m, jvp):
    def forward(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    return function(m, forward=forward, backward=lambda ctx, g: g * 2, jvp=jvp)


@program
@in_level
def a_custom_function_in_place(m, fw, x, v):
    d = fw.make_dual(x, v)
    r = doubling(m, lambda ctx, t: t.mul_(2))(d)
    return fw.unpack_dual(r), fw.unpack_dual(d), r is d


@program
@in_level
def a_custom_function_in_place_with_a_jvp_that_is_not(m, fw, x, v):
    return doubling(m, lambda ctx, t: t * 2)(fw.make_dual(x, v))


@program
@in_level
def a_custom_function_that_returns_a_view(m, fw, x, v):
    f = function(m, forward=lambda ctx, x: x.view_as(x), backward=lambda ctx, g: g, jvp=lambda ctx, t: t.view_as(t))
    return fw.unpack_dual(f(fw.make_dual(x, v)))


@program
@in_level
def a_custom_function_that_returns_a_view_with_a_jvp_that_does_not(m, fw, x, v):
    return function(m, forward=lambda ctx, x: x.view_as(x), backward=lambda ctx, g: g, jvp=lambda ctx, t: t * 1)(fw.make_dual(x, v))


@program
@in_level
def a_custom_function_while_switched_off(m, fw, x, v):
    d = fw.make_dual(x, v)
    with fw._set_fwd_grad_enabled(False):
        return fw.unpack_dual(square(m)(d))


@program
@in_level
def a_custom_function_under_no_grad(m, fw, x, v):
    with m.no_grad():
        return fw.unpack_dual(square(m)(fw.make_dual(x, v)))


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str) -> None:
    compare(PROGRAMS[name])
    assert forward_ad(ndgrad)._current_level == -1


# ----- programs that only ndgrad runs -----------------------------------------------------------------------------------


def test_tangents_of_saved_results_make_no_cycle():
    import gc
    import weakref

    fw = forward_ad(ndgrad)
    gc.disable()
    try:
        x = ndgrad.tensor([1.0, 2.0], requires_grad=True)
        with fw.dual_level():
            y = fw.make_dual(x, ndgrad.ones(2)).exp()
            node = weakref.ref(y.grad_fn)
            del y
        assert node() is None
    finally:
        gc.enable()


def test_an_intermediate_saved_by_a_custom_function_raises_in_forward_over_reverse():
    fw = forward_ad(ndgrad)

    class Cube(ndgrad.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x * x)
            return x**3

        @staticmethod
        def backward(ctx, g):
            return 3 * ctx.saved_tensors[0] * g

        @staticmethod
        def jvp(ctx, t):
            return t

    x = ndgrad.tensor([1.0, 2.0], requires_grad=True)
    with fw.dual_level():
        y = Cube.apply(fw.make_dual(x, ndgrad.ones(2)))
        with pytest.raises(RuntimeError, match="no tangent"):
            ndgrad.autograd.grad(y.sum(), x)


def test_forward_over_reverse_inside_an_outer_graph_level():
    """A dual level inside `grad`, and autograd.grad on the level's own graph inside that."""
    fw = forward_ad(ndgrad)
    x, v = ndgrad.tensor([1.0, 2.0]), ndgrad.tensor([3.0, 4.0])

    def f(z):
        with fw.dual_level():
            d = fw.make_dual(z, v)
            (g,) = ndgrad.autograd.grad((d**4).sum(), d, create_graph=True)
            return fw.unpack_dual(g).tangent.sum()  # 12 z^2 v

    np.testing.assert_allclose(ndgrad.func.grad(f)(x)._array, [72.0, 192.0])
