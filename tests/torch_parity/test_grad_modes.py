"""no_grad, enable_grad, set_grad_enabled and inference mode: the same programs on torch and on ndgrad."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
import torch

import ndgrad
from tests.torch_parity.differences import deliberate
from tests.torch_parity.side_by_side import MODULES, Programs, attempt, leaf, on_both

PROGRAMS = Programs()
program = PROGRAMS.enter


@program
def modes_as_contexts(m):
    seen = [m.is_grad_enabled()]
    with m.no_grad():
        seen.append(m.is_grad_enabled())
        with m.enable_grad():
            seen.append(m.is_grad_enabled())
        with m.set_grad_enabled(True):
            seen.append(m.is_grad_enabled())
        seen.append(m.is_grad_enabled())
    m.set_grad_enabled(False)
    seen.append(m.is_grad_enabled())
    m.set_grad_enabled(True)
    with m.inference_mode():
        seen.append((m.is_grad_enabled(), m.is_inference_mode_enabled()))
        with m.inference_mode(False):
            seen.append((m.is_grad_enabled(), m.is_inference_mode_enabled()))
    return seen, m.is_grad_enabled()


@program
def modes_are_left_after_an_exception(m):
    def fail():
        with m.no_grad(), m.inference_mode():
            raise KeyError

    return attempt(fail), m.is_grad_enabled(), m.is_inference_mode_enabled()


@program
def modes_as_decorators(m):
    @m.no_grad()
    def double(x):
        """Its text."""
        return (x * 2).requires_grad

    @m.no_grad
    def bare(x):
        return (x * 2).requires_grad

    @m.set_grad_enabled(False)
    def switched(x):
        return (x * 2).requires_grad

    @m.inference_mode()
    def inferred(x):
        return (x * 2).is_inference()

    x = leaf(m, 2)
    return double(x), bare(x), switched(x), inferred(x), double.__name__, double.__doc__, m.is_grad_enabled()


@program
def a_decorated_function_can_recurse(m):
    @m.no_grad()
    def count(n):
        return [m.is_grad_enabled()] + (count(n - 1) if n else [])

    return count(3), m.is_grad_enabled()


@program
def generators_run_in_the_mode_and_their_callers_do_not(m):
    @m.no_grad()
    def generator():
        received = yield m.is_grad_enabled()
        try:
            yield received, m.is_grad_enabled()
        except KeyError:
            yield "caught", m.is_grad_enabled()
        return m.is_grad_enabled()

    g = generator()
    seen = [next(g), m.is_grad_enabled(), g.send(5), m.is_grad_enabled(), g.throw(KeyError()), m.is_grad_enabled()]
    try:
        next(g)
    except StopIteration as stop:
        seen.append(stop.value)
    return seen, m.is_grad_enabled()


@program
def a_closed_generator_leaves_the_mode(m):
    seen = []

    @m.no_grad()
    def generator():
        try:
            yield 1
        finally:
            seen.append(m.is_grad_enabled())

    g = generator()
    next(g)
    g.close()
    return seen, m.is_grad_enabled()


@program
def a_new_thread_starts_with_grad(m):
    seen = []
    with m.no_grad():
        t = threading.Thread(target=lambda: seen.append(m.is_grad_enabled()))
        t.start()
        t.join()
    return seen


@program
def backward_in_threads_adds_up(m):
    x = leaf(m, 3)

    def work():
        for _ in range(20):
            (x * 2.0).sum().backward()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return x.grad


@program
def requires_grad_of_integers(m):
    m.tensor([1, 2], requires_grad=True)


@program
def integer_results_do_not_require_grad(m):
    x = leaf(m, 3)
    return x.argmax().requires_grad, (x > 1).requires_grad, x.long().requires_grad, x.sort()[1].requires_grad, x.max(0)[0].requires_grad


@program
def detach_cuts(m):
    x = leaf(m, 3)
    (x.detach() * x).sum().backward()
    return x.grad


@program
def gradient_edges_as_roots_and_inputs(m):
    x = leaf(m, 3)
    h = x * x
    edge = m.autograd.graph.get_gradient_edge(h)
    y = (h * 3).sum()
    found = m.autograd.grad(y, [edge])
    m.autograd.backward([m.autograd.graph.get_gradient_edge(x * 2)], [m.ones(3, dtype=m.float64)])
    return found, x.grad


@program
def the_shape_of_the_graph(m):
    x = leaf(m, 3)
    y = (x * 2).exp().sum()
    names = []
    node = y.grad_fn
    while node is not None:
        names.append(type(node).__name__)
        node = node.next_functions[0][0] if node.next_functions else None
    return names


@program
def a_version_that_an_inference_tensor_does_not_have_can_be_counted(m):
    with m.inference_mode():
        t = m.ones(2)
    m.autograd.graph.increment_version(t)
    return t.is_inference()


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_program(program: Any) -> None:
    """Both give the same, or raise the same class of error."""
    theirs, ours = on_both(program)
    assert ours == theirs


def test_coroutines_run_in_the_mode_and_their_callers_do_not() -> None:
    """torch's decorator does not know coroutines: their bodies run outside the mode there."""
    seen = []

    @ndgrad.no_grad()
    async def work() -> str:
        seen.append(ndgrad.is_grad_enabled())
        await asyncio.sleep(0)
        seen.append(ndgrad.is_grad_enabled())
        return "done"

    async def other() -> None:
        for _ in range(3):
            seen.append(("other", ndgrad.is_grad_enabled()))
            await asyncio.sleep(0)

    async def main() -> Any:
        return await asyncio.gather(work(), other())

    assert asyncio.run(main())[0] == "done"
    assert [s for s in seen if isinstance(s, bool)] == [False, False]
    assert [s for s in seen if not isinstance(s, bool)] == [("other", True)] * 3


def test_a_mode_object_entered_twice_is_left_twice() -> None:
    assert deliberate("reentered-modes")
    left = {}
    for m in MODULES:
        mode = m.no_grad()
        with mode, mode:
            assert not m.is_grad_enabled()
        left[m] = m.is_grad_enabled()
        m.set_grad_enabled(True)
    assert left == {torch: False, ndgrad: True}


def test_modes_follow_tasks_and_leave_nothing_behind() -> None:
    assert deliberate("task-modes")

    async def inside(m, turns):
        with m.no_grad():
            for _ in range(turns):
                await asyncio.sleep(0)

    async def read_mode(m):
        return m.is_grad_enabled()

    async def main(m):
        return (await asyncio.gather(inside(m, 1), read_mode(m), inside(m, 3)))[1]

    try:
        assert [asyncio.run(main(m)) for m in (torch, ndgrad)] == [False, True]
        assert [m.is_grad_enabled() for m in (torch, ndgrad)] == [False, True]  # torch's is off for good
    finally:
        torch.set_grad_enabled(True)
