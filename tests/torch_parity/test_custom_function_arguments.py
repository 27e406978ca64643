"""Arguments and results of custom functions: keywords, structures, numbers, None, inputs as they are, views; torch and ndgrad alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import ndgrad
from tests.torch_parity.custom import keep, make, slope, with_setup
from tests.torch_parity.differences import deliberate
from tests.torch_parity.side_by_side import Programs, attempt, leaf, on_both, plain

PROGRAMS = Programs()
program = PROGRAMS.enter


def rounded(t):
    return None if t is None else np.round(np.asarray(plain(t)), 9).tolist()


# ----- arguments --------------------------------------------------------------------------------------------------------


@program
def keywords_find_their_places(m):
    x, w = leaf(m, 2), leaf(m, 2)
    f = make(m, lambda ctx, x, n, w: x * n + w, lambda ctx, g: (g * 2, None, g * 3))
    f.apply(x, w=w, n=5).sum().backward()
    return x.grad, w.grad


@program
def every_argument_by_keyword(m):
    x = leaf(m, 2)
    y = make(m, keep, slope).apply(x=x)
    y.sum().backward()
    return y.requires_grad, x.grad


@program
def a_keyword_behind_one_that_was_left_out(m):
    make(m, lambda ctx, x, n=2, w=None: x * n, lambda ctx, g: g).apply(leaf(m, 2), w=leaf(m, 2))


@program
def an_unknown_keyword(m):
    make(m, keep, slope).apply(leaf(m, 2), colour="red")


@program
def an_argument_by_keyword_only(m):
    def forward(ctx, x, *, n):
        return x * n

    make(m, forward, lambda ctx, g: g).apply(leaf(m, 2), n=3)


@program
def defaults_are_not_filled_in_without_setup_context(m):
    seen = []

    def forward(ctx, x, n=2):
        seen.append(len(ctx.needs_input_grad))
        return x * n

    x = leaf(m, 2)
    make(m, forward, lambda ctx, g: g * 2).apply(x).sum().backward()
    return seen, x.grad


@program
def defaults_are_filled_in_for_setup_context(m):
    seen = []

    def setup(ctx, inputs, output):
        seen.append((len(inputs), inputs[1], ctx.needs_input_grad))

    x = leaf(m, 2)
    f = with_setup(m, lambda x, n=3: x * n, setup, lambda ctx, g: (g * 3, None))
    f.apply(x).sum().backward()
    f.apply(x, n=4)
    return plain([list(s) for s in seen]), x.grad


@program
def setup_context_gets_tensors_by_keyword(m):
    def setup(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g * w, g * x

    x, w = leaf(m, 2), leaf(m, 2)
    with_setup(m, lambda x, w: x * w, setup, backward).apply(w=w, x=x).sum().backward()
    return x.grad, w.grad


@program
def nested_arguments_are_opaque(m):
    seen, x = [], leaf(m, 2)

    def forward(ctx, parts):
        seen.append(ctx.needs_input_grad)
        return parts[0] * 2

    y = make(m, forward, lambda ctx, g: None).apply([x])
    return y.requires_grad, [list(s) for s in seen]


@program
def any_object_is_an_argument(m):
    class Settings:
        scale = 4.0

    x = leaf(m, 2)
    f = make(m, lambda ctx, x, settings, f, s: f(x) * settings.scale, lambda ctx, g: (g * 4, None, None, None))
    f.apply(x, Settings(), lambda v: v + 1, "text").sum().backward()
    return x.grad


@program
def integer_tensors_are_arguments(m):
    x, i = leaf(m, 3), m.tensor([0, 2])

    def forward(ctx, x, i):
        ctx.save_for_backward(i)
        ctx.n = len(x)
        return x[i]

    def backward(ctx, g):
        (i,) = ctx.saved_tensors
        out = m.zeros(ctx.n, dtype=m.float64)
        out[i] = g
        return out, None

    make(m, forward, backward).apply(x, i).sum().backward()
    return x.grad


@program
def the_same_tensor_for_two_arguments(m):
    x = leaf(m, 2)
    make(m, lambda ctx, a, b: a * b, lambda ctx, g: (g * 2, g * 3)).apply(x, x).sum().backward()
    return x.grad


@program
def a_tuple_of_one_gradient(m):
    x = leaf(m, 2)
    make(m, lambda ctx, x: x * 2, lambda ctx, g: (g * 2,)).apply(x).sum().backward()
    return x.grad


@program
def a_list_of_gradients(m):
    make(m, lambda ctx, x: x * 2, lambda ctx, g: [g * 2]).apply(leaf(m, 2)).sum().backward()


@program
def gradients_of_another_dtype_are_converted(m):
    x = leaf(m, 2)
    make(m, lambda ctx, x: x * 2, lambda ctx, g: g.to(m.float32) * 2).apply(x).sum().backward()
    return x.grad, str(x.grad.dtype).split(".")[-1]


@program
def a_complex_gradient_of_a_real_input(m):
    make(m, lambda ctx, x: x * 2, lambda ctx, g: g + 1j).apply(leaf(m, 2)).sum().backward()


@program
def a_real_gradient_of_a_complex_input(m):
    x = m.tensor(np.array([1 + 1j, 2.0]), requires_grad=True)
    make(m, lambda ctx, x: x.abs(), lambda ctx, g: g).apply(x).sum().backward()
    return [complex(v) for v in x.grad.tolist()]


# ----- results ----------------------------------------------------------------------------------------------------------


@program
def results_of_many_kinds(m):
    x = leaf(m, 2)
    y, nothing, n, text = make(m, lambda ctx, x: (x * 2, None, 3, "a"), lambda ctx, g, *rest: 2 * g).apply(x)
    y.sum().backward()
    return nothing, n, text, x.grad


@program
def gradients_of_results_that_are_no_tensors_are_none(m):
    seen = []

    def backward(ctx, *grads):
        seen.extend(g is None for g in grads)
        return grads[0]

    make(m, lambda ctx, x: (x * 2, None, 3), backward).apply(leaf(m, 2))[0].sum().backward()
    return seen


@program
def no_result(m):
    return make(m, lambda ctx, x: None, lambda ctx, g: g).apply(leaf(m, 2))


@program
def the_same_result_twice(m):
    def forward(ctx, x):
        y = x * 2
        return y, y

    x = leaf(m, 2)
    a, b = make(m, forward, lambda ctx, a, b: 2 * (a + b)).apply(x)
    (a + 3 * b).sum().backward()
    return x.grad


@program
def an_input_among_the_results(m):
    x = leaf(m, 2)
    a, _ = make(m, lambda ctx, x: (x, x * 2), lambda ctx, a, b: a * 10 + b).apply(x)
    a.sum().backward()
    return a is x, a.requires_grad, x.grad


@program
def a_constant_input_returned_as_it_is(m):
    c = m.ones(2, dtype=m.float64)
    a, b = make(m, lambda ctx, c, x: (c, x * 2), lambda ctx, a, b: (None, b * 2)).apply(c, leaf(m, 2))
    return a is c, a.requires_grad, b.requires_grad


@program
def zero_results_of_an_op_are_zeros(m):
    x = leaf(m, 2)
    f = make(m, lambda ctx, x: (x * 2, x * 3), lambda ctx, a, b: a + b)
    a, _ = f.apply(x)
    (a * 0).sum().backward()
    return x.grad


@program
def a_view_inside(m):
    x = leaf(m, 4)
    y = make(m, lambda ctx, x: (x * 2).view(2, 2), lambda ctx, g: g.reshape(4) * 2).apply(x)
    y.mul_(3.0)
    y.sum().backward()
    return y._is_view(), x.grad


@program
def writes_inside(m):
    def forward(ctx, x):
        y = x.clone()
        y.mul_(2)
        y[0] = 7.0
        return y

    x = leaf(m, 3)
    make(m, forward, lambda ctx, g: g * 2).apply(x).sum().backward()
    return x.grad, x._version


@program
def a_write_to_an_input_that_is_not_marked(m):
    def forward(ctx, x):
        x.mul_(2)
        return x.clone()

    h = leaf(m, 2) * 1
    y = make(m, forward, lambda ctx, g: g).apply(h)
    return h, h._version, y.requires_grad


@program
def dirty_and_another_result(m):
    def forward(ctx, x):
        x.mul_(3)
        ctx.mark_dirty(x)
        return x, x * 2

    x = leaf(m, 2)
    h = x * 1
    a, b = make(m, forward, lambda ctx, a, b: 3 * a + 6 * b).apply(h)
    (a + b).sum().backward()
    return a is h, x.grad


@program
def a_dirty_input_that_was_saved_before(m):
    def forward(ctx, x):
        x.mul_(3)
        ctx.mark_dirty(x)
        return x

    x = leaf(m, 2)
    h = x * 1
    y = h * h
    make(m, forward, lambda ctx, g: 3 * g).apply(h)
    y.sum().backward()


@program
def a_dirty_result_can_be_saved(m):
    def forward(ctx, x):
        x.exp_()
        ctx.mark_dirty(x)
        ctx.save_for_backward(x)
        return x

    x = leaf(m, 2)
    h = x * 1
    make(m, forward, lambda ctx, g: g * ctx.saved_tensors[0]).apply(h).sum().backward()
    return rounded(x.grad)


@program
def marking_what_is_no_tensor(m):
    def dirty(ctx, x):
        ctx.mark_dirty(3)
        return x * 2

    def constant(ctx, x):
        ctx.mark_non_differentiable(3)
        return x * 2

    return [attempt(lambda f=f: make(m, f, lambda ctx, g: g).apply(leaf(m, 2))) for f in (dirty, constant)]


@program
def the_last_marking_counts(m):
    def forward(ctx, x):
        a, b = x * 1, x * 2
        ctx.mark_non_differentiable(a)
        ctx.mark_non_differentiable(b)
        return a, b

    return [t.requires_grad for t in make(m, forward, lambda ctx, a, b: a).apply(leaf(m, 2))]


@program
def an_input_returned_as_it_is_and_not_differentiable(m):
    def forward(ctx, x):
        ctx.mark_non_differentiable(x)
        return x

    y = make(m, forward, lambda ctx, g: g).apply(leaf(m, 2))
    return y.requires_grad, y.grad_fn is None


@program
def a_number_saved_for_forward(m):
    def forward(ctx, x):
        ctx.save_for_forward(3)
        return x * 2

    make(m, forward, lambda ctx, g: g).apply(leaf(m, 2))


@program
def backward_by_hand(m):
    f = make(m, lambda ctx, x: (x * 2, x * 3), lambda ctx, g, h: g * 2 + h * 3)
    a, _ = f.apply(leaf(m, 2))
    g = m.ones(2, dtype=m.float64)
    one = make(m, keep, lambda ctx, g: (g * 5, "more")).apply(leaf(m, 2)).grad_fn.apply(g)
    return a.grad_fn.apply(g, g * 10), one[0], one[1]


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_program(program: Any) -> None:
    """Both give the same, or raise the same class of error."""
    theirs, ours = on_both(program)
    assert ours == theirs


def test_nested_structures_work():
    deliberate("nested-functions")

    def attempt_with(m):
        class Sum(m.autograd.function.NestedIOFunction):
            @staticmethod
            def forward_extended(ctx, parts):
                return {"sum": parts["a"] + parts["b"][0]}

            @staticmethod
            def backward_extended(ctx, grads):
                return {"a": grads["sum"], "b": [2 * grads["sum"]]}

        a, b = leaf(m, 2), leaf(m, 2)
        Sum.apply({"a": a, "b": [b]})["sum"].sum().backward()
        return plain([a.grad, b.grad])

    with pytest.raises((RuntimeError, AttributeError, TypeError)):
        attempt_with(torch)
    assert attempt_with(ndgrad) == [[1.0, 1.0], [2.0, 2.0]]


def test_a_list_of_results_has_a_graph():
    deliberate("nested-functions")
    results = lambda m: make(m, lambda ctx, x: [x * 2, x * 3], lambda ctx, a, b: 2 * a + 3 * b).apply(leaf(m, 2))
    assert [t.requires_grad for t in results(torch)] == [False, False]
    assert type(results(ndgrad)) is list
    assert [t.requires_grad for t in results(ndgrad)] == [True, True]
