"""Backward passes inside backward passes, and passes of several threads, on torch and on ndgrad alike."""

from __future__ import annotations

from typing import Any

import pytest

from tests.threads import in_threads
from tests.torch_parity.side_by_side import Programs, attempt, leaf, on_both, plain

PROGRAMS = Programs()
program = PROGRAMS.enter


@program
def a_pass_inside_a_custom_backward(m):
    class Inner(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            with m.enable_grad():
                t = x.detach().requires_grad_()
                (t**3).sum().backward()
            return g * t.grad

    x = leaf(m, 2)
    Inner.apply(x).sum().backward()
    return x.grad


@program
def a_nested_pass_over_the_same_leaf(m):
    x = leaf(m, 2)

    def hook(g):
        with m.enable_grad():
            (x * 10).sum().backward()

    h = x * 2
    h.register_hook(hook)
    h.sum().backward()
    return x.grad


@program
def a_nested_pass_over_the_same_graph(m):
    x = leaf(m, 2)
    h = x * x
    depth = [0]

    def hook(g):
        if depth[0] < 3:
            depth[0] += 1
            h.sum().backward(retain_graph=True)

    h.register_hook(hook)
    h.sum().backward()
    return x.grad, depth


@program
def nested_passes_a_hundred_deep(m):
    seen = []

    def level(depth):
        x = leaf(m, 1)
        y = x * 2

        def hook(g):
            seen.append(depth)
            if depth:
                with m.enable_grad():
                    level(depth - 1)

        y.register_hook(hook)
        y.sum().backward()
        return x.grad

    return level(100), seen == list(range(100, -1, -1))


@program
def an_error_in_a_nested_pass(m):
    x, w = leaf(m, 2), leaf(m, 2)

    def fail(g):
        raise LookupError

    def hook(g):
        with m.enable_grad():
            inner = w * 2
            inner.register_hook(fail)
            inner.sum().backward()

    h = x * 2
    handle = h.register_hook(hook)
    y = h.sum()
    first = attempt(lambda: y.backward(retain_graph=True))
    handle.remove()
    y.backward()
    return first, x.grad, w.grad, m._C._current_graph_task_id()


@program
def threads_with_graphs_of_their_own_and_a_shared_leaf(m):
    x = leaf(m, 3)

    def work(i):
        for k in range(10):
            (x * float(i + k)).sum().backward()

    in_threads(4, work)
    return x.grad


@program
def threads_on_one_graph(m):
    x = leaf(m, 3)
    y = (x * x * 0.5).sum()
    in_threads(4, lambda i: [y.backward(retain_graph=True) for _ in range(10)])
    return x.grad


@program
def threads_that_ask_for_gradients_of_one_graph(m):
    x = leaf(m, 3)
    h = x * x
    y = (h * h).sum()
    found: dict[int, Any] = {}

    def work(i):
        found[i] = plain(m.autograd.grad(y, [x, h], retain_graph=True))

    in_threads(4, work)
    return [found[i] for i in range(4)], x.grad


@program
def an_error_in_a_thread_is_its_own(m):
    x = leaf(m, 3)
    errors: dict[int, str] = {}

    def work(i):
        h = x * 2
        if i % 2:

            def fail(g):
                raise LookupError

            h.register_hook(fail)
        errors[i] = attempt(lambda: h.sum().backward())

    in_threads(4, work)
    return sorted(errors.items()), x.grad


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_program(program: Any) -> None:
    """Both give the same, or raise the same class of error."""
    theirs, ours = on_both(program)
    assert ours == theirs
