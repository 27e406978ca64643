"""Hooks on tensors: the same programs on torch and on ndgrad, by the gradients hooks see, the order of events and errors.

Hooks on nodes, accumulators and several tensors are in test_hooks.
"""

from __future__ import annotations

import gc
from collections import OrderedDict
from typing import Any

import pytest
import torch

from tests.torch_parity.differences import deliberate
from tests.torch_parity.side_by_side import MODULES, Programs, attempt, leaf, on_both, ones, plain

PROGRAMS = Programs()
program = PROGRAMS.enter


# ----- one or several, and what they return -----------------------------------------------------------------------------


@program
def order_of_every_kind_of_hook(m):
    events: list[Any] = []
    x = leaf(m, 2)
    h = x * 2
    y = h * h
    h.register_hook(lambda g: events.append("tensor 1"))
    h.retain_grad()
    h.register_hook(lambda g: events.append("tensor 2"))
    h.grad_fn.register_prehook(lambda g: events.append("pre"))
    h.grad_fn.register_hook(lambda i, o: events.append("post"))
    x.register_hook(lambda g: events.append("leaf"))
    x.register_post_accumulate_grad_hook(lambda t: events.append(("accumulated", t.grad.tolist())))
    y.register_hook(lambda g: events.append("y"))
    y.sum().backward()
    return events, h.grad


@program
def hooks_replace_gradients_in_turn(m):
    x = leaf(m, 2)
    h = x * 2
    h.register_hook(lambda g: g * 10)
    h.register_hook(lambda g: g + 1)
    h.retain_grad()
    h.sum().backward()
    return h.grad, x.grad


@program
def a_leaf_hook_sees_the_whole_gradient_once(m):
    x = leaf(m, 2)
    seen = []
    x.register_hook(lambda g: seen.append(g.tolist()))
    (x * x + x * 3).sum().backward()
    return seen, x.grad


@program
def a_leaf_hook_changes_what_is_accumulated(m):
    x = leaf(m, 2)
    x.register_hook(lambda g: g * 100)
    x.sum().backward()
    x.sum().backward()
    return x.grad, m.autograd.grad(x.sum(), x)


@program
def removed_hooks_do_not_run(m):
    x = leaf(m, 2)
    seen = []
    handle = x.register_hook(lambda g: seen.append(1))
    x.sum().backward()
    handle.remove()
    x.sum().backward()
    return seen


@program
def a_handle_is_a_context(m):
    x = leaf(m, 2)
    seen = []
    with x.register_hook(lambda g: seen.append(1)):
        x.sum().backward()
    x.sum().backward()
    return seen


@program
def a_hook_of_another_shape(m):
    x = leaf(m, 2)
    x.register_hook(lambda g: g.sum())
    x.sum().backward()


@program
def a_hook_that_returns_a_number(m):
    x = leaf(m, 2)
    x.register_hook(lambda g: 3.0)
    x.sum().backward()


@program
def a_hook_that_raises(m):
    x = leaf(m, 2)

    def fail(g):
        raise KeyError("mine")

    (x * 2).register_hook(fail)
    h = x * 2
    h.register_hook(fail)
    h.sum().backward()


@program
def a_hook_on_a_constant(m):
    m.ones(2).register_hook(lambda g: g)


@program
def post_accumulate_hooks_belong_to_leaves(m):
    (leaf(m, 2) * 2).register_post_accumulate_grad_hook(lambda t: None)


@program
def retain_grad_of_a_leaf_and_of_a_constant(m):
    x = leaf(m, 2)
    x.retain_grad()
    return x.retains_grad, attempt(m.ones(2).retain_grad)


@program
def retain_grad_accumulates(m):
    x = leaf(m, 2)
    h = x * 2
    h.retain_grad()
    h.sum().backward(retain_graph=True)
    h.sum().backward()
    return h.grad, h.retains_grad


@program
def node_hooks_replace_gradients(m):
    x = leaf(m, 2)
    h = x * 2
    h.grad_fn.register_prehook(lambda g: (g[0] * 10,))
    h.grad_fn.register_hook(lambda i, o: (i[0] + o[0], *i[1:]))
    h.sum().backward()
    return x.grad


@program
def node_hooks_on_the_accumulator(m):
    x = leaf(m, 2)
    seen = []
    node = (x * 1).grad_fn.next_functions[0][0]
    node.register_prehook(lambda g: seen.append(("pre", plain(g))))
    node.register_hook(lambda i, o: seen.append(("post", len(i), plain(o), x.grad.tolist())))
    (x * 3).sum().backward()
    return seen


@program
def a_post_accumulate_hook_can_clear_the_gradient(m):
    x = leaf(m, 2)

    def step(t):
        with m.no_grad():
            t -= 0.1 * t.grad
        t.grad = None

    x.register_post_accumulate_grad_hook(step)
    (x * x).sum().backward()
    return x.grad, [round(v, 6) for v in x.tolist()]


@program
def hooks_see_a_graph_under_create_graph(m):
    x = leaf(m, 2)
    h = x * x
    seen = []
    h.register_hook(lambda g: seen.append((g.requires_grad, m.is_grad_enabled())))
    (h * h).sum().backward(retain_graph=True)
    m.autograd.grad((h * h).sum(), x, create_graph=True)
    return seen


@program
def multi_grad_hooks(m):
    x, w, u = leaf(m, 2), leaf(m, 2), leaf(m, 2)
    seen = []
    m.autograd.graph.register_multi_grad_hook([x, w, u], lambda gs: seen.append(plain(list(gs))))
    (x * w).sum().backward()
    (x * w * u).sum().backward()
    any_seen = []
    m.autograd.graph.register_multi_grad_hook([x, w], lambda g: any_seen.append(1), mode="any")
    (x * w).sum().backward()
    return seen, any_seen


@program
def backward_inside_a_hook(m):
    x, w = leaf(m, 2), leaf(m, 2)

    def inner(g):
        (w * w).sum().backward()

    h = x * 2
    h.register_hook(inner)
    h.sum().backward()
    return x.grad, w.grad


# ----- order, writes and lifetimes --------------------------------------------------------------------------------------


@program
def hooks_of_several_tensors_of_one_graph_run_from_the_output_inwards(m):
    events: list[Any] = []
    x = leaf(m, 2)
    a = x * 2
    b = a.exp()
    c = b + a
    for name, t in (("x", x), ("a", a), ("b", b), ("c", c)):
        t.register_hook(lambda g, name=name: events.append((name, plain(g))))
    c.sum().backward()
    return events


@program
def a_hook_registered_twice_runs_twice(m):
    x = leaf(m, 2)
    seen = []

    def hook(g):
        seen.append(plain(g))
        return g * 2

    x.register_hook(hook)
    x.register_hook(hook)
    x.sum().backward()
    return seen, x.grad


@program
def a_hook_before_an_in_place_write_sees_the_old_value_and_one_after_it_the_new(m):
    x = leaf(m, 2)
    y = x.clone()
    events = []
    y.register_hook(lambda g: events.append(("before", plain(g))))
    y.mul_(3)
    y.register_hook(lambda g: events.append(("after", plain(g))))
    (y * 5).sum().backward()
    return events, x.grad


@program
def hooks_around_several_in_place_writes(m):
    x = leaf(m, 2)
    y = x.clone()
    events = []
    for i in range(3):
        y.register_hook(lambda g, i=i: events.append((i, plain(g))))
        y.mul_(i + 2)
    y.sum().backward()
    return events


@program
def the_dict_of_hooks_after_an_in_place_write(m):
    y = leaf(m, 2).clone()
    before = y._backward_hooks
    y.register_hook(lambda g: None)
    during = len(y._backward_hooks)
    y.mul_(2)
    after = y._backward_hooks
    y.register_hook(lambda g: None)
    y.register_hook(lambda g: None)
    return before, during, after is None or len(after), len(y._backward_hooks)


@program
def the_dict_of_hooks_of_a_leaf(m):
    x = leaf(m, 2)
    first = x._backward_hooks
    handles = [x.register_hook(lambda g: None) for _ in range(3)]
    kind = isinstance(x._backward_hooks, OrderedDict)
    count = len(x._backward_hooks)
    ids = [h.id for h in handles] == list(x._backward_hooks)
    handles[1].remove()
    return first, kind, count, ids, len(x._backward_hooks)


@program
def a_hook_before_a_write_through_a_view(m):
    x = leaf(m, 3)
    y = x.clone()
    events = []
    y.register_hook(lambda g: events.append(("before", plain(g))))
    y[0].mul_(10)
    y.register_hook(lambda g: events.append(("after", plain(g))))
    y.sum().backward()
    return events, x.grad


@program
def retained_gradients_follow_in_place_writes(m):
    x = leaf(m, 2)
    y = x * 1
    y.retain_grad()
    y.register_hook(lambda g: g * 100)
    y.mul_(3)
    y.register_hook(lambda g: g * 10)
    y.sum().backward()
    return y.grad, x.grad


@program
def retain_grad_comes_last_however_early_it_was_called(m):
    x = leaf(m, 2)
    y = x * 1
    y.retain_grad()
    y.register_hook(lambda g: g * 10)
    y.retain_grad()
    y.register_hook(lambda g: g + 1)
    y.sum().backward()
    return y.grad, x.grad


@program
def retain_grad_and_a_view_whose_base_is_written(m):
    y = leaf(m, 3).clone()
    v = y[:2]
    v.retain_grad()
    y.mul_(10)
    (v * 2).sum().backward()
    return plain(v.grad)


@program
def retained_gradients_are_copies(m):
    x = leaf(m, 2)
    h = x * 1
    h.retain_grad()
    h.sum().backward()
    h.grad.mul_(100)
    return h.grad, x.grad


@program
def retained_gradients_add_up_in_place(m):
    x = leaf(m, 2)
    h = x * 1
    h.retain_grad()
    h.sum().backward(retain_graph=True)
    first = h.grad
    h.sum().backward()
    return h.grad is first, first, first._version


@program
def retain_grad_under_create_graph(m):
    x = leaf(m, 2)
    h = x * x
    h.retain_grad()
    (h * h).sum().backward(create_graph=True)
    return h.grad, h.grad.requires_grad, h.grad.grad_fn is not None


@program
def hooks_that_remove_and_add_hooks_while_they_run(m):
    x = leaf(m, 2)
    y = x * 2
    events: list[str] = []
    handles = {}

    def first(g):
        events.append("first")
        handles["second"].remove()
        handles["first"].remove()
        y.register_hook(lambda g: events.append("new"))

    handles["first"] = y.register_hook(first)
    handles["second"] = y.register_hook(lambda g: events.append("second"))
    y.sum().backward(retain_graph=True)
    events.append("|")
    y.sum().backward()
    return events


@program
def a_hook_sees_what_earlier_hooks_made_of_the_gradient(m):
    x = leaf(m, 2)
    seen = []
    x.register_hook(lambda g: seen.append(plain(g)))
    x.register_hook(lambda g: g * 2)
    x.register_hook(lambda g: seen.append(plain(g)))
    x.register_hook(lambda g: None)
    x.register_hook(lambda g: seen.append(plain(g)))
    x.sum().backward()
    return seen


@program
def a_replacement_of_another_dtype(m):
    x = leaf(m, 2)
    h = x * 1
    h.register_hook(lambda g: g.to(m.float32))
    h.sum().backward()
    return x.grad


@program
def a_replacement_on_a_leaf_of_another_dtype(m):
    x = leaf(m, 2)
    x.register_hook(lambda g: g.to(m.float32))
    x.sum().backward()
    return x.grad, str(x.grad.dtype).split(".")[-1]


@program
def a_replacement_of_another_shape(m):
    x = leaf(m, 2)
    h = x * 1
    h.register_hook(lambda g: g[:1])
    return attempt(lambda: h.sum().backward())


@program
def a_replacement_that_is_no_tensor(m):
    x = leaf(m, 2)
    h = x * 1
    h.register_hook(lambda g: 3.0)
    return attempt(lambda: h.sum().backward())


@program
def a_replacement_becomes_grad_without_being_shared(m):
    x = leaf(m, 2)
    mine = ones(m, 2) * 7
    x.register_hook(lambda g: mine)
    x.sum().backward()
    x.grad.mul_(10)
    return mine, x.grad


@program
def hooks_of_outputs_of_one_op(m):
    x = leaf(m, 2, 2)
    a, b = x.unbind()
    events = []
    b.register_hook(lambda g: events.append(("b", plain(g))))
    a.register_hook(lambda g: events.append(("a", plain(g))))
    (a * 2 + b * 3).sum().backward()
    return events


@program
def hooks_are_registered_on_what_requires_grad_only(m):
    c = ones(m, 2)
    return [
        attempt(lambda: c.register_hook(lambda g: g)),
        attempt(lambda: c.register_post_accumulate_grad_hook(lambda t: None)),
        attempt(lambda: (leaf(m, 2) * 1).register_post_accumulate_grad_hook(lambda t: None)),
        attempt(c.retain_grad),
    ]


@program
def a_hook_on_a_leaf_that_stops_requiring_grad(m):
    x, w = leaf(m, 2), leaf(m, 2)
    seen = []
    x.register_hook(lambda g: seen.append(plain(g)))
    y = (x * w).sum()
    x.requires_grad_(False)
    y.backward()
    return seen, x.grad, w.grad


@program
def hooks_of_a_leaf_outlive_its_graphs(m):
    x = leaf(m, 2)
    seen = []
    x.register_hook(lambda g: seen.append(plain(g)))
    for k in range(3):
        (x * k).sum().backward()
        gc.collect()
    return seen


@program
def hooks_of_a_leaf_registered_after_the_forward(m):
    x = leaf(m, 2)
    y = (x * 2).sum()
    seen = []
    x.register_hook(lambda g: seen.append(plain(g)))
    y.backward()
    return seen


@program
def a_hook_on_the_root(m):
    x = leaf(m, 2)
    y = (x * 2).sum()
    y.register_hook(lambda g: g * 5)
    y.backward()
    return x.grad


@program
def a_hook_that_raises_and_then_does_not(m):
    x = leaf(m, 2)
    state = {"fail": True, "runs": 0}
    h = x * x

    def hook(g):
        state["runs"] += 1
        if state["fail"]:
            raise LookupError("mine")

    h.register_hook(hook)
    y = h.sum()
    first = attempt(lambda: y.backward(retain_graph=True))
    state["fail"] = False
    grad_after_failure = x.grad
    y.backward()
    return first, grad_after_failure, x.grad, state["runs"], m.is_grad_enabled()


@program
def hooks_compute_without_recording(m):
    x = leaf(m, 2)
    h = x * x
    seen = []

    def hook(g):
        made = x * 2
        seen.append((made.requires_grad, m.is_grad_enabled()))

    h.register_hook(hook)
    x.register_hook(hook)
    x.register_post_accumulate_grad_hook(lambda t: seen.append(m.is_grad_enabled()))
    h.grad_fn.register_hook(lambda i, o: seen.append(m.is_grad_enabled()))
    h.grad_fn.register_prehook(lambda o: seen.append(m.is_grad_enabled()))
    h.sum().backward()
    return seen


@program
def under_create_graph_what_hooks_compute_is_differentiated(m):
    x = leaf(m, 2)
    h = x * x
    h.register_hook(lambda g: g * x)
    (g,) = m.autograd.grad(h.sum(), x, create_graph=True)
    (gg,) = m.autograd.grad(g.sum(), x)
    return g, gg


@program
def leaf_hooks_under_create_graph(m):
    x = leaf(m, 2)
    x.register_hook(lambda g: g * x)
    (g,) = m.autograd.grad((x**3).sum(), x, create_graph=True)
    return g, m.autograd.grad(g.sum(), x)


@program
def node_hooks_under_create_graph(m):
    x = leaf(m, 2)
    h = x * x
    h.grad_fn.register_prehook(lambda o: (o[0] * x,))
    h.grad_fn.register_hook(lambda i, o: tuple(None if g is None else g * 2 for g in i))
    (g,) = m.autograd.grad(h.sum(), x, create_graph=True)
    return g, m.autograd.grad(g.sum(), x)


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_program(program: Any) -> None:
    """Both give the same, or raise the same class of error."""
    theirs, ours = on_both(program)
    assert ours == theirs


def test_hooks_of_outputs_without_a_gradient() -> None:
    assert deliberate("hooks-without-gradient")
    for m in MODULES:
        x = leaf(m, 2, 2)
        a, b = x.unbind()
        seen = []
        a.register_hook(lambda g, seen=seen: seen.append(("a", plain(g))))
        b.register_hook(lambda g, seen=seen: seen.append(("b", plain(g))))
        (a * 2 + b * 3).sum().backward()
        a.sum().backward()
        missing = [("b", None)] if m is torch else []
        assert seen == [("a", [2.0, 2.0]), ("b", [3.0, 3.0]), ("a", [1.0, 1.0]), *missing]
        assert x.grad.tolist() == [[3.0, 3.0], [3.0, 3.0]]


def test_hooks_of_a_view_whose_base_is_written() -> None:
    assert deliberate("hooks-after-base-writes")
    for m in MODULES:
        x = leaf(m, 3)
        y = x.clone()
        v = y[:2]
        seen: list[Any] = []
        v.register_hook(lambda g, seen=seen: seen.append("before"))
        y.mul_(10)
        v.register_hook(lambda g, seen=seen: seen.append(plain(g)))
        (v * 2).sum().backward()
        assert seen == ([] if m is torch else [[2.0, 2.0]])


def test_hooks_of_a_root_that_leads_to_no_input() -> None:
    assert deliberate("hooks-of-unneeded-roots")
    for m in MODULES:
        x, w = leaf(m, 2), leaf(m, 2)
        seen: list[str] = []
        y, z = x * 2, w * 2
        y.register_hook(lambda g, seen=seen: seen.append("y"))
        m.autograd.grad(y, w, ones(m, 2), allow_unused=True)
        assert seen == (["y"] if m is torch else [])
        m.autograd.grad([y, z], w, [ones(m, 2)] * 2)
        assert seen == (["y"] if m is torch else [])


def test_hooks_behind_a_backward_that_returns_none() -> None:
    assert deliberate("hooks-without-gradient")
    for m in MODULES:
        x, w = leaf(m, 2), leaf(m, 2)
        seen: list[Any] = []

        class Stop(m.autograd.Function):
            @staticmethod
            def forward(ctx: Any, t: Any) -> Any:
                return t * 2

            @staticmethod
            def backward(ctx: Any, g: Any) -> Any:
                return None

        h = x * 3
        h.register_hook(lambda g, seen=seen: seen.append("tensor"))
        x.register_post_accumulate_grad_hook(lambda t, seen=seen: seen.append("accumulated"))
        h.grad_fn.register_prehook(lambda o, seen=seen: seen.append(("pre", o)))
        h.grad_fn.register_hook(lambda i, o, seen=seen: seen.append(("post", i, o)))
        (Stop.apply(h) + w).sum().backward()
        nodes = [("pre", (None,)), ("post", (None, None), (None,))]
        assert seen == (["tensor", *nodes, "accumulated"] if m is torch else nodes)
        assert x.grad is None
        assert plain(w.grad) == [1.0, 1.0]
