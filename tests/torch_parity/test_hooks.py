"""Hooks beyond the rules that tests/core/test_hooks.py tests: the same programs on torch and on ndgrad, and deliberate differences."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import pytest
import torch

from tests.torch_parity.differences import deliberate
from tests.torch_parity.side_by_side import MODULES, Programs, attempt, leaf, on_both, ones, plain

PROGRAMS = Programs()
program = PROGRAMS.enter


# ----- on tensors -------------------------------------------------------------------------------------------------------


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
def retain_grad_and_a_view_whose_base_is_written(m):
    y = leaf(m, 3).clone()
    v = y[:2]
    v.retain_grad()
    y.mul_(10)
    (v * 2).sum().backward()
    return plain(v.grad)


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
def a_replacement_becomes_grad_without_being_shared(m):
    x = leaf(m, 2)
    mine = ones(m, 2) * 7
    x.register_hook(lambda g: mine)
    x.sum().backward()
    x.grad.mul_(10)
    return mine, x.grad


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
def a_hook_on_the_root(m):
    x = leaf(m, 2)
    y = (x * 2).sum()
    y.register_hook(lambda g: g * 5)
    y.backward()
    return x.grad


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


# ----- after accumulation -----------------------------------------------------------------------------------------------


@program
def a_post_accumulate_hook_that_raises(m):
    x = leaf(m, 2)

    def fail(t):
        raise LookupError

    handle = x.register_post_accumulate_grad_hook(fail)
    first = attempt(lambda: x.sum().backward())
    handle.remove()
    kept = plain(x.grad)
    x.sum().backward()
    return first, kept, x.grad


@program
def the_shared_leaf_is_accumulated_once(m):
    x = leaf(m, 2)
    seen = []
    x.register_post_accumulate_grad_hook(lambda t: seen.append(plain(t.grad)))
    h = x * 2
    (h * x + x.exp() * 0 + h.sin() * 0).sum().backward()
    return seen


# ----- on nodes ---------------------------------------------------------------------------------------------------------


@program
def node_hooks_chain_their_replacements(m):
    x = leaf(m, 2)
    y = x * 2
    seen = []
    y.grad_fn.register_prehook(lambda o: (o[0] * 10,))
    y.grad_fn.register_prehook(lambda o: (o[0] + 1,))
    y.grad_fn.register_hook(lambda i, o: (i[0] * 100, *i[1:]))
    y.grad_fn.register_hook(lambda i, o: seen.append((plain(i[0]), plain(o[0]))))
    y.sum().backward()
    return seen, x.grad


@program
def node_hooks_of_an_op_with_several_outputs(m):
    x = leaf(m, 2, 2)
    a, b = x.unbind()
    seen = []
    a.grad_fn.register_prehook(lambda o: seen.append(("pre", [plain(g) if g is not None else None for g in o])))
    a.grad_fn.register_hook(lambda i, o: seen.append(("post", len(i), len(o))))
    (a * 2 + b * 3).sum().backward()
    return seen


@program
def hooks_registered_on_a_node_live_with_the_node(m):
    x = leaf(m, 2)
    seen = []
    (x * 2).grad_fn.register_hook(lambda i, o: seen.append(1))
    (x * 2).sum().backward()
    return seen


# ----- with inputs= -----------------------------------------------------------------------------------------------------


@program
def a_captured_leaf_gradient_and_hooks_on_its_accumulator(m):
    x = leaf(m, 2)
    node = x.view_as(x).grad_fn.next_functions[0][0]
    events = []
    node.register_prehook(lambda o: events.append("pre"))
    node.register_hook(lambda i, o: events.append("post"))
    m.autograd.grad(x.sum(), x)
    return events


@program
def retain_grad_with_inputs(m):
    x, w = leaf(m, 2), leaf(m, 2)
    a, b = x * 2, w * 2
    a.retain_grad()
    b.retain_grad()
    (a * b).sum().backward(inputs=[x])
    return a.grad, b.grad, x.grad, w.grad


# ----- over several tensors ---------------------------------------------------------------------------------------------


@program
def multi_grad_hooks_with_inputs(m):
    a, b = leaf(m, 2), leaf(m, 2)
    seen = []
    m.autograd.graph.register_multi_grad_hook([a, b], lambda gs: seen.append([plain(g) if g is not None else None for g in gs]))
    y = (a * b).sum()
    y.backward(inputs=[a], retain_graph=True)
    y.backward(inputs=[b])
    return seen


@program
def multi_grad_hooks_of_results_under_grad(m):
    a, b = leaf(m, 2), leaf(m, 2)
    h, k = a * 2, b * 2
    seen = []
    m.autograd.graph.register_multi_grad_hook([h, k], lambda gs: seen.append([plain(g) if g is not None else None for g in gs]))
    y = (h * k).sum()
    m.autograd.grad(y, [a], retain_graph=True)
    m.autograd.grad(y, [a, b])
    return seen


# ----- handles ----------------------------------------------------------------------------------------------------------


@program
def a_context_that_raises_removes_the_hook(m):
    x = leaf(m, 2)
    seen = []

    def work():
        with x.register_hook(lambda g: seen.append(1)):
            raise LookupError

    first = attempt(work)
    x.sum().backward()
    return first, seen


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_program(program: Any) -> None:
    """Both give the same, or raise the same class of error."""
    theirs, ours = on_both(program)
    assert ours == theirs


def test_hooks_over_leaves_under_grad() -> None:
    assert deliberate("hooks-of-leaves-in-grad")
    for m in MODULES:
        a, b = leaf(m, 2), leaf(m, 2)
        seen: list[Any] = []
        m.autograd.graph.register_multi_grad_hook([a, b], lambda gs, seen=seen: seen.append(plain(list(gs))))
        found = attempt(lambda m=m, a=a, b=b: m.autograd.grad((a * b).sum(), [a]))
        assert (found, seen) == ("RuntimeError", []) if m is torch else seen == [[[1.0, 2.0], None]]


def test_order_of_leaves_that_one_op_completes() -> None:
    assert deliberate("leaf-order")
    for m in MODULES:
        for count in (3, 5):
            leaves = [leaf(m, 1) for _ in range(count)]
            seen: list[int] = []
            for i, t in enumerate(leaves):
                t.register_hook(lambda g, i=i, seen=seen: seen.append(i))
            m.cat(leaves).sum().backward()
            assert seen == ([0, 2, 4, 1, 3] if m is torch and count == 5 else list(range(count)))


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
