"""Custom functions: the same programs on torch and on ndgrad, by results and classes of errors."""

from __future__ import annotations

from typing import Any

import pytest

from tests.torch_parity.custom import keep, make, slope
from tests.torch_parity.side_by_side import Programs, attempt, leaf, on_both, plain

PROGRAMS = Programs()
program = PROGRAMS.enter


def square(m):
    return make(m, keep, slope)


@program
def saves_an_input(m):
    x = leaf(m, 3)
    square(m).apply(x).sum().backward()
    return x.grad


@program
def saves_an_output(m):
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    f = make(m, forward, lambda ctx, g: ctx.saved_tensors[0] * g)
    x = leaf(m, 2)
    y = f.apply(x)
    (g,) = m.autograd.grad(y.sum(), x, create_graph=True)
    (h,) = m.autograd.grad(g.sum(), x)
    return [round(v, 9) for v in g.tolist()], [round(v, 9) for v in h.tolist()]


@program
def saves_an_intermediate(m):
    def forward(ctx, x):
        d = 2 * x
        ctx.save_for_backward(d)
        return x * x

    x = leaf(m, 3)
    make(m, forward, lambda ctx, g: ctx.saved_tensors[0] * g).apply(x).sum().backward()
    return x.grad


@program
def double_backward(m):
    x = leaf(m, 3)
    (g,) = m.autograd.grad(square(m).apply(x).sum(), x, create_graph=True)
    (h,) = m.autograd.grad((g * g).sum(), x)
    return g, h


@program
def separate_setup_context(m):
    class F(m.autograd.Function):
        @staticmethod
        def forward(x, n):
            return x**n

        @staticmethod
        def setup_context(ctx, inputs, output):
            x, ctx.n = inputs
            ctx.save_for_backward(x)

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return ctx.n * x ** (ctx.n - 1) * g, None

    x = leaf(m, 3)
    F.apply(x, 3).sum().backward()
    return x.grad


@program
def several_outputs(m):
    f = make(m, lambda ctx, x: (x * 2, x * 3), lambda ctx, a, b: 2 * a + 3 * b)
    x = leaf(m, 2)
    a, b = f.apply(x)
    a.sum().backward(retain_graph=True)
    first = x.grad.clone()
    (a * b).sum().backward()
    return first, x.grad, a.grad_fn is b.grad_fn, a.output_nr, b.output_nr


@program
def missing_gradients_are_zeros(m):
    seen = []

    def backward(ctx, a, b):
        seen.append((plain(a), plain(b)))
        return a + b

    x = leaf(m, 2)
    make(m, lambda ctx, x: (x * 2, x * 3), backward).apply(x)[1].sum().backward()
    return seen


@program
def missing_gradients_are_none_when_not_materialized(m):
    seen = []

    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x * 2, x * 3

    def backward(ctx, a, b):
        seen.append((a is None, b is None))
        return b

    x = leaf(m, 2)
    make(m, forward, backward).apply(x)[1].sum().backward()
    return seen, x.grad


@program
def needs_input_grad_tells(m):
    seen = []

    def forward(ctx, x, y, n):
        seen.append(ctx.needs_input_grad)
        return x * y

    def backward(ctx, g):
        seen.append(ctx.needs_input_grad)
        return g, None, None

    make(m, forward, backward).apply(leaf(m, 2), m.ones(2, dtype=m.float64), 3).sum().backward()
    return [list(s) for s in seen]


@program
def gradients_of_inputs_that_need_none_are_dropped(m):
    c = m.ones(2, dtype=m.float64)
    x = leaf(m, 2)
    make(m, lambda ctx, x, y: x * y, lambda ctx, g: (g, g)).apply(x, c).sum().backward()
    return x.grad, c.grad


@program
def too_few_gradients(m):
    make(m, lambda ctx, x, y: x * y, lambda ctx, g: g).apply(leaf(m, 2), leaf(m, 2)).sum().backward()


@program
def too_many_gradients(m):
    make(m, lambda ctx, x: x * 2, lambda ctx, g: (g, g)).apply(leaf(m, 2)).sum().backward()


@program
def too_many_gradients_that_are_none(m):
    x = leaf(m, 2)
    make(m, lambda ctx, x: x * 2, lambda ctx, g: (g, None)).apply(x).sum().backward()
    return x.grad


@program
def a_gradient_for_a_number(m):
    make(m, lambda ctx, x, n: x * n, lambda ctx, g: (g, g)).apply(leaf(m, 2), 2.0).sum().backward()


@program
def a_gradient_of_the_wrong_shape(m):
    make(m, lambda ctx, x: x * 2, lambda ctx, g: m.ones(3, dtype=m.float64)).apply(leaf(m, 2)).sum().backward()


@program
def a_gradient_that_broadcasting_made(m):
    x = leaf(m, 2)
    make(m, lambda ctx, x: x * 2, lambda ctx, g: m.ones(3, 2, dtype=m.float64)).apply(x).sum().backward()
    return x.grad


@program
def a_gradient_that_is_a_number(m):
    make(m, lambda ctx, x: x * 2, lambda ctx, g: 3.0).apply(leaf(m, 2)).sum().backward()


@program
def a_gradient_that_is_none(m):
    x, w = leaf(m, 2), leaf(m, 2)
    (make(m, lambda ctx, x: x * 2, lambda ctx, g: None).apply(x) * w).sum().backward()
    return x.grad, w.grad


@program
def mark_dirty(m):
    def forward(ctx, x):
        x.mul_(3)
        ctx.mark_dirty(x)
        return x

    x = leaf(m, 2)
    y = x * 1
    z = make(m, forward, lambda ctx, g: 3 * g).apply(y)
    z.sum().backward()
    return z is y, y._version, x.grad, y


@program
def mark_dirty_of_a_leaf(m):
    def forward(ctx, x):
        x.mul_(3)
        ctx.mark_dirty(x)
        return x

    make(m, forward, lambda ctx, g: 3 * g).apply(leaf(m, 2))


@program
def mark_dirty_of_what_is_not_returned(m):
    def forward(ctx, x):
        x.mul_(3)
        ctx.mark_dirty(x)
        return x * 1

    make(m, forward, lambda ctx, g: 3 * g).apply(leaf(m, 2) * 1)


@program
def mark_dirty_of_a_view(m):
    def forward(ctx, x):
        x.mul_(3)
        ctx.mark_dirty(x)
        return x

    x = leaf(m, 3)
    y = x * 1
    make(m, forward, lambda ctx, g: 3 * g).apply(y[:2])
    (y * y).sum().backward()
    return y, x.grad


@program
def mark_non_differentiable(m):
    def forward(ctx, x):
        order = x.argsort()
        rounded = x.round()
        ctx.mark_non_differentiable(order, rounded)
        return x * 2, order, rounded

    x = leaf(m, 2)
    y, order, rounded = make(m, forward, lambda ctx, g, *rest: 2 * g).apply(x)
    y.sum().backward()
    return y.requires_grad, order.requires_grad, rounded.requires_grad, x.grad


@program
def integer_outputs_are_not_differentiable(m):
    x = leaf(m, 2)
    y, order = make(m, lambda ctx, x: (x * 2, x.argsort()), lambda ctx, g, o: 2 * g).apply(x)
    return y.requires_grad, order.requires_grad


@program
def an_input_returned_as_it_is(m):
    x = leaf(m, 2)
    y = make(m, lambda ctx, x: x, lambda ctx, g: 5 * g).apply(x)
    y.sum().backward()
    return y is x, y.requires_grad, y.is_leaf, x.grad


@program
def a_view_of_an_input_cannot_be_written(m):
    x = leaf(m, 3)
    y = make(m, lambda ctx, x: x[:2], lambda ctx, g: m.ones(3, dtype=m.float64)).apply(x * 1)
    y.add_(1.0)


@program
def an_output_can_be_written(m):
    x = leaf(m, 2)
    y = make(m, lambda ctx, x: x * 2, lambda ctx, g: 2 * g).apply(x)
    y.mul_(5.0)
    y.sum().backward()
    return x.grad


@program
def a_saved_input_that_is_overwritten(m):
    y = leaf(m, 2) * 1
    z = square(m).apply(y)
    y.add_(1.0)
    z.sum().backward()


@program
def a_saved_output_that_is_overwritten(m):
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    y = make(m, forward, lambda ctx, g: ctx.saved_tensors[0] * g).apply(leaf(m, 2))
    y.add_(1.0)
    y.sum().backward()


@program
def backward_twice_through_saved_tensors(m):
    y = square(m).apply(leaf(m, 2)).sum()
    y.backward()
    y.backward()


@program
def saving_what_is_no_tensor(m):
    def forward(ctx, x):
        ctx.save_for_backward(3)
        return x

    make(m, forward, lambda ctx, g: g).apply(leaf(m, 2))


@program
def none_can_be_saved(m):
    def forward(ctx, x):
        ctx.save_for_backward(None, x)
        return x * x

    def backward(ctx, g):
        nothing, x = ctx.saved_tensors
        assert nothing is None
        return 2 * x * g

    x = leaf(m, 2)
    make(m, forward, backward).apply(x).sum().backward()
    return x.grad


@program
def once_differentiable(m):
    f = make(m, keep, m.autograd.function.once_differentiable(lambda ctx, g: 2 * ctx.saved_tensors[0] * g))
    x = leaf(m, 2)
    f.apply(x).sum().backward()
    (g,) = m.autograd.grad(f.apply(x).sum(), x, create_graph=True)
    return x.grad, attempt(lambda: m.autograd.grad(g.sum(), x))


@program
def once_differentiable_with_a_differentiable_gradient(m):
    f = make(m, keep, m.autograd.function.once_differentiable(lambda ctx, g: 2 * ctx.saved_tensors[0] * g))
    x = leaf(m, 2)
    (g,) = m.autograd.grad((f.apply(x) ** 2).sum(), x, create_graph=True)
    m.autograd.grad(g.sum(), x)


@program
def forward_and_backward_run_without_grad(m):
    seen = []

    def forward(ctx, x):
        seen.append(m.is_grad_enabled())
        return x * 2

    def backward(ctx, g):
        seen.append(m.is_grad_enabled())
        return 2 * g

    f = make(m, forward, backward)
    x = leaf(m, 2)
    f.apply(x).sum().backward()
    m.autograd.grad(f.apply(x).sum(), x, create_graph=True)
    return seen


@program
def an_error_in_forward_or_backward_is_passed_on(m):
    def fail(ctx, x):
        raise KeyError("mine")

    x = leaf(m, 2)
    return (
        attempt(lambda: make(m, fail, lambda ctx, g: g).apply(x)),
        attempt(lambda: make(m, lambda ctx, x: x * 2, fail).apply(x).sum().backward()),
        m.is_grad_enabled(),
    )


@program
def nothing_requires_grad(m):
    y = square(m).apply(m.ones(2, dtype=m.float64))
    return y.requires_grad, y.grad_fn is None


@program
def under_no_grad(m):
    with m.no_grad():
        y = square(m).apply(leaf(m, 2))
    return y.requires_grad


@program
def attributes_live_on_the_context(m):
    def forward(ctx, x, scale):
        ctx.scale = scale
        return x * scale

    x = leaf(m, 2)
    y = make(m, forward, lambda ctx, g: (g * ctx.scale, None)).apply(x, 4.0)
    kept = y.grad_fn.scale
    y.sum().backward()
    return kept, x.grad, y.grad_fn.name()


@program
def returning_something_that_is_no_tensor(m):
    make(m, lambda ctx, x: "text", lambda ctx, g: g).apply(leaf(m, 2))


@program
def the_same_tensor_twice(m):
    x = leaf(m, 2)
    make(m, lambda ctx, x, y: x * y, lambda ctx, g: (g * 1, g * 10)).apply(x, x).sum().backward()
    return x.grad


@program
def without_a_backward(m):
    class F(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

    F.apply(leaf(m, 2)).sum().backward()


@program
def calling_the_function_itself(m):
    square(m)()(leaf(m, 2))


@program
def hooks_on_the_node(m):
    x = leaf(m, 2)
    y = square(m).apply(x)
    seen = []
    y.grad_fn.register_hook(lambda i, o: seen.append((plain(i), plain(o))))
    y.register_hook(lambda g: seen.append(plain(g)))
    y.sum().backward()
    return seen


@program
def nested_functions(m):
    inner = square(m)

    def forward(ctx, x):
        ctx.save_for_backward(x)
        return inner.apply(x) * 3

    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        with m.enable_grad():
            y = x.detach().requires_grad_()
            (d,) = m.autograd.grad(inner.apply(y).sum() * 3, y)
        return d * g

    x = leaf(m, 2)
    make(m, forward, backward).apply(x).sum().backward()
    return x.grad


@program
def inside_transforms(m):
    class F(m.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x):
            return x * x

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)

        @staticmethod
        def backward(ctx, g):
            return 2 * ctx.saved_tensors[0] * g

        @staticmethod
        def jvp(ctx, t):
            return 2 * ctx.saved_tensors[0] * t

    x = leaf(m, 3).detach()
    func = m.func
    return (
        func.grad(lambda y: F.apply(y).sum())(x),
        func.jvp(F.apply, (x,), (x,))[1],
        func.vmap(func.grad(F.apply))(x),
        func.grad(lambda y: func.grad(lambda z: F.apply(z).sum())(y).sum())(x),
        func.jacrev(F.apply)(x),
        func.vmap(F.apply)(x),
    )


@program
def old_style_inside_a_transform(m):
    m.func.grad(lambda y: square(m).apply(y).sum())(leaf(m, 3).detach())


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_program(program: Any) -> None:
    """Both give the same, or raise the same class of error."""
    theirs, ours = on_both(program)
    assert ours == theirs
