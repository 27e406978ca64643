"""Checkpointing that keeps the graph: the same programs on torch and on ndgrad, by results, events and classes of errors.

Sequences, the reentrant kind and selective checkpointing are in test_checkpoint_kinds.
"""

from __future__ import annotations

import contextlib
import warnings
from typing import Any

import numpy as np
import pytest
import torch

import ndgrad
from tests.torch_parity.checkpoints import again, counting, old, rounded, tools
from tests.torch_parity.differences import deliberate
from tests.torch_parity.side_by_side import Programs, attempt, leaf, on_both, plain

PROGRAMS = Programs()
program = PROGRAMS.enter


def alternately(*functions):
    """A function that is another one each time it is called: what a checkpointed function must not be."""
    state = [0]

    def f(x):
        state[0] += 1
        return functions[min(state[0], len(functions)) - 1](x)

    return f


# ----- values and counts ------------------------------------------------------------------------------------------------


@program
def gradients_are_those_of_the_function(m):
    x = leaf(m, 3)
    f, calls = counting(lambda x: (x.sin() * x).exp())
    y = again(m, f, x)
    before = len(calls)
    y.sum().backward()
    return rounded(y, x.grad), before, len(calls)


@program
def autograd_grad(m):
    x = leaf(m, 3)
    return rounded(*m.autograd.grad(again(m, lambda x: x.sin().exp(), x).sum(), x))


@program
def inputs_of_backward(m):
    x, w = leaf(m, 3), leaf(m, 3)
    again(m, lambda x, w: (x * w).sin(), x, w).sum().backward(inputs=[w])
    return rounded(x.grad, w.grad)


@program
def the_node_is_that_of_the_last_op(m):
    y = again(m, lambda x: x.sin().exp(), leaf(m, 3))
    return y.grad_fn.name(), y.grad_fn.next_functions[0][0].name()


@program
def double_backward(m):
    x = leaf(m, 3)
    (g,) = m.autograd.grad(again(m, lambda x: (x * x).sin().exp(), x).sum(), x, create_graph=True)
    (h,) = m.autograd.grad((g * g).sum(), x)
    return rounded(g, h)


@program
def triple_backward(m):
    x = leaf(m, 2)
    g = again(m, lambda x: (x / 4).exp() * x, x).sum()
    for _ in range(3):
        (g,) = m.autograd.grad(g.sum(), x, create_graph=True)
    return rounded(g)


@program
def keyword_arguments(m):
    x, w = leaf(m, 3), leaf(m, 3)
    again(m, lambda x, *, w, scale: (x * w).sin() * scale, x, w=w, scale=2.0).sum().backward()
    return rounded(x.grad, w.grad)


@program
def arguments_that_are_no_tensors(m):
    x = leaf(m, 3)
    again(m, lambda x, n, names: x**n * len(names), x, 3, ["a", "b"]).sum().backward()
    return rounded(x.grad)


@program
def tensors_in_lists_and_closures(m):
    x, w, c = leaf(m, 3), leaf(m, 3), leaf(m, 3)
    again(m, lambda parts: (parts[0] * parts[1] * c).sin(), [x, w]).sum().backward()
    return rounded(x.grad, w.grad, c.grad)


@program
def several_outputs_of_any_structure(m):
    x = leaf(m, 3)
    out = again(m, lambda x: {"a": x.sin(), "b": [x.cos(), 7]}, x)
    (out["a"] * out["b"][0]).sum().backward()
    return out["b"][1], rounded(x.grad)


@program
def one_call_serves_all_saved_values_of_a_pass(m):
    x = leaf(m, 3)
    f, calls = counting(lambda x: (x.sin(), x.cos(), x.exp()))
    a, b, c = again(m, f, x)
    (a.sum() + b.sum() * 2 + (c * c).sum()).backward()
    return len(calls), rounded(x.grad)


@program
def each_pass_recomputes(m):
    x = leaf(m, 3)
    f, calls = counting(lambda x: (x.sin(), x.cos()))
    a, b = again(m, f, x)
    a.sum().backward()
    b.sum().backward()
    return len(calls), rounded(x.grad)


@program
def a_retained_graph_is_recomputed_for_each_pass(m):
    x = leaf(m, 3)
    f, calls = counting(lambda x: x.sin().exp())
    y = again(m, f, x).sum()
    y.backward(retain_graph=True)
    y.backward(retain_graph=True)
    y.backward()
    return len(calls), rounded(x.grad)


@program
def backward_twice_without_retaining(m):
    y = again(m, lambda x: x.sin().exp(), leaf(m, 3)).sum()
    y.backward()
    y.backward()


@program
def a_group_of_passes_recomputes_once(m):
    x = leaf(m, 3)
    f, calls = counting(lambda x: (x.sin(), x.cos()))
    a, b = again(m, f, x)
    with tools(m).GraphExecGroup():
        a.sum().backward()
        b.sum().backward()
    return len(calls), rounded(x.grad)


@program
def groups_do_not_nest(m):
    group = tools(m).GraphExecGroup
    with group(), group():
        pass


@program
def under_no_grad_nothing_is_special(m):
    x = leaf(m, 3)
    f, calls = counting(lambda x: x.sin())
    with m.no_grad():
        y = again(m, f, x)
    return y.requires_grad, len(calls)


@program
def no_input_requires_grad(m):
    w = leaf(m, 3)
    again(m, lambda x: (x * w).sin(), m.ones(3, dtype=m.float64)).sum().backward()
    return rounded(w.grad)


@program
def a_part_of_the_function_is_detached(m):
    x = leaf(m, 3)
    again(m, lambda x: x.sin().detach() * x.cos(), x).sum().backward()
    return rounded(x.grad)


@program
def no_grad_inside_the_function(m):
    def f(x):
        with m.no_grad():
            scale = x.exp()
        return x.sin() * scale

    x = leaf(m, 3)
    again(m, f, x).sum().backward()
    return rounded(x.grad)


@program
def writes_inside_the_function(m):
    def f(x):
        h = x * 2
        h.add_(1.0)
        k = h.sin()
        k[0] = 5.0
        return k.mul_(h)

    x = leaf(m, 3)
    again(m, f, x).sum().backward()
    return rounded(x.grad)


@program
def an_argument_overwritten_since(m):
    h = leaf(m, 3) * 1
    y = again(m, lambda h: h.sin(), h)
    h.add_(1.0)
    y.sum().backward()


@program
def saved_values_can_be_read(m):
    x = leaf(m, 3)
    y = again(m, lambda x: x.sin(), x)
    saved = y.grad_fn._saved_self
    return plain(saved), saved.requires_grad


@program
def backward_inside_the_function(m):
    def f(x):
        y = x.sin()
        (g,) = m.autograd.grad(y.sum(), x, create_graph=True)
        return y * g

    x = leaf(m, 3)
    return rounded(*m.autograd.grad(again(m, f, x).sum(), x))


@program
def forward_mode_through_it(m):
    forward = m.autograd.forward_ad
    with forward.dual_level():
        dual = forward.make_dual(m.tensor([1.0, 2.0], dtype=m.float64), m.ones(2, dtype=m.float64))
        return rounded(forward.unpack_dual(again(m, lambda x: x.sin().exp(), dual)).tangent)


@program
def reverse_over_forward_mode(m):
    forward = m.autograd.forward_ad
    x = leaf(m, 3)
    with forward.dual_level():
        dual = forward.make_dual(x, m.ones(3, dtype=m.float64))
        out = forward.unpack_dual(again(m, lambda x: x.sin().exp(), dual))
        return rounded(*m.autograd.grad(out.tangent.sum(), x))


@program
def hooks_on_tensors_inside(m):
    seen = []

    def f(x):
        h = x.sin()
        if not seen:
            h.register_hook(lambda g: seen.append(plain(g)) or g * 2)
        return h.exp()

    x = leaf(m, 2)
    again(m, f, x).sum().backward()
    return [rounded(s) for s in seen], rounded(x.grad)


@program
def a_custom_function_inside(m):
    class Square(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            ctx.save_for_backward(x, y)
            return x * y

        @staticmethod
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            return g * (y + x * y)

    x = leaf(m, 3)
    (g,) = m.autograd.grad(again(m, lambda x: Square.apply(x.sin()), x).sum(), x)
    return rounded(g)


@program
def random_numbers_are_drawn_again(m):
    drawn = []

    def f(x):
        mask = (m.rand(3, dtype=m.float64) > 0.5).to(m.float64)
        drawn.append(plain(mask))
        return (x * mask).sin()

    m.manual_seed(3)
    x = leaf(m, 3)
    again(m, f, x).sum().backward()
    after = m.rand(1).item()
    m.manual_seed(3)
    m.rand(3, dtype=m.float64)
    return drawn[0] == drawn[1], after == m.rand(1).item()


@program
def random_numbers_are_not_kept_when_told_so(m):
    drawn = []

    def f(x):
        drawn.append(m.rand(5, dtype=m.float64).tolist())
        return x.sin().exp()

    x = leaf(m, 3)
    again(m, f, x, preserve_rng_state=False).sum().backward()
    return drawn[0] == drawn[1]


# ----- nesting and early stop -------------------------------------------------------------------------------------------


@program
def nested(m):
    x = leaf(m, 3)
    inner, calls = counting(lambda x: x.cos().exp())
    again(m, lambda x: again(m, inner, x.sin()).sin(), x).sum().backward()
    return len(calls), rounded(x.grad)


@program
def nested_three_deep_twice(m):
    x = leaf(m, 2)

    def level(n, h):
        return (h / 3).sin() if n == 0 else again(m, lambda h: level(n - 1, h.exp() / 4) * h, h)

    (g,) = m.autograd.grad(level(3, x).sum(), x, create_graph=True)
    (h,) = m.autograd.grad(g.sum(), x)
    return rounded(g, h)


@program
def early_stop_leaves_out_the_end(m):
    events = []

    def f(x):
        y = x.sin()
        events.append("middle")
        z = y + 1  # saves nothing
        events.append("end")
        return z

    again(m, f, leaf(m, 3)).sum().backward()
    return events


@program
def early_stop_can_be_turned_off(m):
    events = []

    def f(x):
        y = x.sin()
        events.append("middle")
        return y + 1

    again(m, f, leaf(m, 3), early_stop=False).sum().backward()
    with tools(m).set_checkpoint_early_stop(False):
        y = again(m, f, leaf(m, 3)).sum()
    y.backward()
    return events


@program
def the_contexts_around_both_runs(m):
    events = []

    @contextlib.contextmanager
    def note_block(name):
        events.append("enter " + name)
        try:
            yield
        finally:
            events.append("leave " + name)

    x = leaf(m, 3)
    again(m, lambda x: x.sin().exp(), x, context_fn=lambda: (note_block("forward"), note_block("again"))).sum().backward()
    return events


@program
def contexts_are_not_entered_under_no_grad(m):
    events = []

    class Around(contextlib.AbstractContextManager):
        def __enter__(self):
            events.append("enter")

        def __exit__(self, *exc):
            events.append("leave")

    with m.no_grad():
        again(m, lambda x: x.sin(), leaf(m, 3), context_fn=lambda: (Around(), Around()))
    return events


# ----- equal runs -------------------------------------------------------------------------------------------------------


@program
def fewer_values_saved(m):
    again(m, alternately(lambda x: x.sin().cos(), lambda x: x.sin()), leaf(m, 3)).sum().backward()


@program
def more_values_saved_without_early_stop(m):
    again(m, alternately(lambda x: x.sin(), lambda x: x.sin().cos()), leaf(m, 3), early_stop=False).sum().backward()


@program
def more_values_saved_are_not_noticed_with_early_stop(m):
    x = leaf(m, 3)
    again(m, alternately(lambda x: x.sin(), lambda x: x.sin().cos()), x).sum().backward()
    return rounded(x.grad)


@program
def values_of_another_shape(m):
    again(m, alternately(lambda x: x.sin(), lambda x: x[:2].sin()), leaf(m, 3)).sum().backward()


@program
def values_of_another_dtype(m):
    again(m, alternately(lambda x: x.sin(), lambda x: x.to(m.float32).sin()), leaf(m, 3)).sum().backward()


@program
def an_error_of_checkpoint_has_its_class(m):
    try:
        again(m, alternately(lambda x: x.sin(), lambda x: x[:2].sin()), leaf(m, 3), debug=True).sum().backward()
    except tools(m).CheckpointError as error:
        return isinstance(error, RuntimeError)


@program
def an_unknown_determinism_check(m):
    again(m, lambda x: x.sin(), leaf(m, 3), determinism_check="strict")


@program
def an_error_in_the_recomputation(m):
    def fail(x):
        raise KeyError("mine")

    x = leaf(m, 3)
    f = alternately(lambda x: x.sin(), fail, lambda x: x.sin())
    y = again(m, f, x).sum()
    first = attempt(lambda: y.backward(retain_graph=True))
    y.backward()
    return first, m.is_grad_enabled(), rounded(x.grad)


@program
def an_error_in_the_forward(m):
    def fail(x):
        x.sin()
        raise KeyError("mine")

    x = leaf(m, 3)
    first = attempt(lambda: again(m, fail, x))
    x.sin().sum().backward()
    return first, rounded(x.grad)


@program
def hooks_may_be_forbidden(m):
    with m.autograd.graph.disable_saved_tensors_hooks("not here"):
        again(m, lambda x: x.sin(), leaf(m, 3))


@program
def an_unknown_argument_reaches_the_function(m):
    again(m, lambda x: x.sin(), leaf(m, 3), colour="red")


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_program(program: Any) -> None:
    """Both give the same, or raise the same class of error."""
    theirs, ours = on_both(program)
    assert ours == theirs


# ----- on purpose -------------------------------------------------------------------------------------------------------


def test_the_kind_that_keeps_the_graph_is_the_default():
    deliberate("checkpoint-default")
    with pytest.warns(UserWarning, match="use_reentrant"):
        assert tools(torch).checkpoint(torch.sin, leaf(torch, 3)).grad_fn.name() == "CheckpointFunctionBackward"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert tools(ndgrad).checkpoint(ndgrad.sin, leaf(ndgrad, 3)).grad_fn.name() == "SinBackward0"


def test_what_the_recomputation_did_otherwise_is_noticed():
    deliberate("checkpoint-strict")

    def overwrites(x):
        h = x * 1
        y = h.sin()
        h.add_(1.0)
        return y.exp()

    for f in (alternately(lambda x: x.sin(), lambda x: x.exp()), overwrites):
        x = leaf(torch, 3)
        again(torch, f, x, early_stop=False).sum().backward()
        f = alternately(lambda x: x.sin(), lambda x: x.exp()) if f is not overwrites else f
        with pytest.raises(tools(ndgrad).CheckpointError):
            again(ndgrad, f, leaf(ndgrad, 3), early_stop=False).sum().backward()
    x = leaf(torch, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        old(torch, torch.sin, x).sum().backward(create_graph=True)
        assert not x.grad.requires_grad
        x = leaf(ndgrad, 3)
        old(ndgrad, ndgrad.sin, x).sum().backward(create_graph=True)
    with pytest.raises(RuntimeError, match="twice"):
        x.grad.sum().backward()
    x.grad = None


def test_saved_tensors_can_be_read_twice_and_transforms_go_through():
    deliberate("checkpoint-beyond")

    def twice(m):
        class Sine(m.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x.sin()

            @staticmethod
            def backward(ctx, g):
                return g * (ctx.saved_tensors[0].cos() + 0 * ctx.saved_tensors[0])

        x = leaf(m, 3)
        again(m, Sine.apply, x).sum().backward()
        return x.grad

    def transformed(m):
        return m.func.grad(lambda x: again(m, m.sin, x).sum())(m.tensor([1.0, 2.0]))

    for f in (twice, transformed):
        with pytest.raises(RuntimeError):
            f(torch)
        f(ndgrad)
    assert np.allclose(twice(ndgrad).numpy(), np.cos([1.0, 2.0, 3.0]))
    assert np.allclose(transformed(ndgrad).numpy(), np.cos([1.0, 2.0]))
