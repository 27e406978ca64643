"""Hooks on nodes, accumulators and several tensors: the same programs on torch and on ndgrad, by gradients, order of events and errors."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch

from tests.torch_parity.differences import deliberate
from tests.torch_parity.side_by_side import MODULES, Programs, attempt, leaf, on_both, ones, plain

PROGRAMS = Programs()
program = PROGRAMS.enter


# ----- after accumulation -----------------------------------------------------------------------------------------------


@program
def post_accumulate_hooks_run_in_order_and_see_grad(m):
    x = leaf(m, 2)
    events = []
    x.register_post_accumulate_grad_hook(lambda t: events.append(("first", t is x, plain(t.grad))))
    x.register_post_accumulate_grad_hook(lambda t: events.append(("second", plain(t.grad))))
    x.register_hook(lambda g: events.append(("tensor", plain(x.grad) if x.grad is not None else None)))
    (x * x).sum().backward()
    (x * x).sum().backward()
    return events


@program
def a_post_accumulate_hook_that_changes_grad(m):
    x = leaf(m, 2)

    def double(t):
        t.grad.mul_(2)

    x.register_post_accumulate_grad_hook(double)
    x.sum().backward()
    x.sum().backward()
    return x.grad


@program
def a_post_accumulate_hook_does_not_run_for_grad(m):
    x = leaf(m, 2)
    seen = []
    x.register_post_accumulate_grad_hook(lambda t: seen.append(1))
    m.autograd.grad((x * x).sum(), x)
    (x * x).sum().backward(inputs=[x])
    return seen


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
def an_optimizer_in_backward(m):
    layers = [leaf(m, 3) for _ in range(4)]
    steps: list[Any] = []

    def step(number):
        def hook(p):
            steps.append((number, sum(layer.grad is not None for layer in layers)))
            with m.no_grad():
                p.sub_(0.01 * p.grad)
            p.grad = None

        return hook

    for number, layer in enumerate(layers):
        layer.register_post_accumulate_grad_hook(step(number))
    for _ in range(3):
        y = ones(m, 3)
        for layer in layers:
            y = m.tanh(y * layer)
        y.sum().backward()
    return steps, [[round(v, 10) for v in layer.tolist()] for layer in layers]


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
def a_node_hook_sees_gradients_of_inputs_and_outputs(m):
    x, w = leaf(m, 2), leaf(m, 2)
    y = x * w
    seen = []
    y.grad_fn.register_hook(lambda i, o: seen.append((plain(list(i)), plain(list(o)))))
    (y * 3).sum().backward()
    return seen


@program
def a_node_hook_sees_none_for_inputs_without_gradient(m):
    x = leaf(m, 2)
    y = x * ones(m, 2)
    seen = []
    y.grad_fn.register_hook(lambda i, o: seen.append([g is None for g in i]))
    y.sum().backward()
    return seen


@program
def node_hooks_in_order(m):
    x = leaf(m, 2)
    y = x * 2
    events = []
    for k in range(2):
        y.grad_fn.register_hook(lambda i, o, k=k: events.append(("post", k)))
        y.grad_fn.register_prehook(lambda o, k=k: events.append(("pre", k)))
    y.sum().backward()
    return events


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
def node_hooks_with_the_wrong_number_of_values(m):
    def tried(register):
        x = leaf(m, 2)
        y = x * leaf(m, 2)
        register(y.grad_fn)
        return attempt(lambda: y.sum().backward())

    return [
        tried(lambda n: n.register_hook(lambda i, o: (i[0],))),
        tried(lambda n: n.register_hook(lambda i, o: (*i, i[0]))),
        tried(lambda n: n.register_prehook(lambda o: (o[0], o[0]))),
    ]


@program
def a_node_hook_that_raises(m):
    def tried(register):
        x = leaf(m, 2)
        y = x * 2

        def fail(*args):
            raise LookupError

        handle = register(y.grad_fn)(fail)
        first = attempt(lambda: y.sum().backward())
        handle.remove()
        y.sum().backward()
        return first, x.grad

    return [plain(tried(lambda n: n.register_hook)), plain(tried(lambda n: n.register_prehook))]


@program
def removed_node_hooks_do_not_run(m):
    x = leaf(m, 2)
    y = x * 2
    seen = []
    with y.grad_fn.register_hook(lambda i, o: seen.append("post")), y.grad_fn.register_prehook(lambda o: seen.append("pre")):
        y.sum().backward(retain_graph=True)
    y.sum().backward()
    return seen


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


@program
def a_hook_on_an_accumulator_that_is_kept(m):
    x = leaf(m, 2)
    events = []
    node = x.view_as(x).grad_fn.next_functions[0][0]
    node.register_prehook(lambda o: events.append(("pre", plain(o[0]), x.grad is None)))
    node.register_hook(lambda i, o: events.append(("post", plain(list(i)), plain(o[0]), x.grad is None)))
    x.register_hook(lambda g: events.append(("tensor", plain(g))))
    x.register_post_accumulate_grad_hook(lambda t: events.append("accumulated"))
    (x * 3 + x).sum().backward()
    return events


@program
def a_prehook_on_an_accumulator_changes_what_is_added(m):
    x = leaf(m, 2)
    node = x.view_as(x).grad_fn.next_functions[0][0]
    node.register_prehook(lambda o: (o[0] * 10,))
    x.sum().backward()
    return x.grad


@program
def an_accumulators_hooks_go_with_it(m):
    x = leaf(m, 2)
    seen = []
    x.view_as(x).grad_fn.next_functions[0][0].register_hook(lambda i, o: seen.append(1))
    gc.collect()
    x.sum().backward()
    return seen


# ----- with inputs= -----------------------------------------------------------------------------------------------------


@program
def hooks_with_inputs_run_on_the_paths_to_them(m):
    x, w = leaf(m, 2), leaf(m, 2)
    a, b = x * 2, w * 3
    events = []
    for name, t in (("x", x), ("w", w), ("a", a), ("b", b)):
        t.register_hook(lambda g, name=name: events.append(name))
    y = (a * b).sum()
    m.autograd.grad(y, [x], retain_graph=True)
    events.append("|")
    y.backward(inputs=[w])
    return events


@program
def hooks_of_a_captured_result(m):
    x = leaf(m, 2)
    h = x * 2
    events = []
    h.register_hook(lambda g: events.append("tensor"))
    h.grad_fn.register_prehook(lambda o: events.append("pre"))
    h.grad_fn.register_hook(lambda i, o: events.append("post"))
    x.register_hook(lambda g: events.append("leaf"))
    y = (h * h).sum()
    found = m.autograd.grad(y, [h], retain_graph=True)
    events.append("|")
    m.autograd.grad(y, [x])
    return events, found


@program
def a_captured_leaf_gradient_comes_after_its_hooks(m):
    x = leaf(m, 2)
    x.register_hook(lambda g: g * 10)
    return m.autograd.grad(x.sum(), x), x.grad


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
def multi_grad_hooks_for_all(m):
    a, b, c = leaf(m, 2), leaf(m, 2), leaf(m, 2)
    d = a * b
    seen = []
    handle = m.autograd.graph.register_multi_grad_hook(
        [a, b, c, d], lambda gs: seen.append([plain(g) if g is not None else None for g in gs])
    )
    (d * 2).sum().backward(retain_graph=True)
    (d * c).sum().backward(retain_graph=True)
    handle.remove()
    (d * c).sum().backward()
    return seen


@program
def multi_grad_hooks_for_any(m):
    a, b = leaf(m, 2), leaf(m, 2)
    h = a * b
    seen = []
    handle = m.autograd.graph.register_multi_grad_hook([a, b, h], lambda g: seen.append(plain(g)), mode="any")
    (h * 2).sum().backward()
    (a * 3).sum().backward()
    handle.remove()
    (a * 3).sum().backward()
    return seen


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


@program
def multi_grad_hooks_of_an_unknown_mode(m):
    a = leaf(m, 2)
    m.autograd.graph.register_multi_grad_hook([a], lambda g: None, mode="some")


@program
def a_multi_grad_hook_that_raises(m):
    a, b = leaf(m, 2), leaf(m, 2)
    fail = [True]

    def hook(gs):
        if fail[0]:
            raise LookupError

    m.autograd.graph.register_multi_grad_hook([a, b], hook)
    first = attempt(lambda: (a * b).sum().backward())
    fail[0] = False
    a.grad = b.grad = None
    (a * b).sum().backward()
    return first, a.grad, b.grad


# ----- handles ----------------------------------------------------------------------------------------------------------


@program
def handles_are_contexts_and_may_be_removed_twice(m):
    x = leaf(m, 2)
    seen = []
    with x.register_hook(lambda g: seen.append("tensor")) as handle:
        with x.register_post_accumulate_grad_hook(lambda t: seen.append("accumulated")):
            x.sum().backward()
        x.sum().backward()
    handle.remove()
    x.sum().backward()
    return seen, type(handle).__name__


@program
def a_handle_does_not_keep_the_hook_alive(m):
    class Hook:
        def __call__(self, g):
            return None

    x = leaf(m, 2)
    hook = Hook()
    ref = weakref.ref(hook)
    handle = x.register_hook(hook)
    del x, hook
    gc.collect()
    gone = ref() is None
    handle.remove()
    return gone


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
