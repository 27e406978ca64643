"""Modes follow the context: interleaved tasks and generators each have their own, and no mode is left behind."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import itertools

import numpy as np
import pytest

import ndgrad
from ndgrad import autograd, func
from ndgrad._src.core.modes import modes, process, thread
from ndgrad._src.engine.graph import allow_mutation_on_saved_tensors, disable_saved_tensors_hooks, saved_tensors_hooks
from ndgrad._src.interpreters import forward_ad
from ndgrad.overrides import TorchFunctionMode
from ndgrad.utils._python_dispatch import TorchDispatchMode


def leaf(*values):
    return ndgrad.tensor(np.array(values), requires_grad=True)


class Seen(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.calls = [*getattr(self, "calls", []), func.name]
        return func(*args, **(kwargs or {}))


class Passing(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def state():
    return {name: getattr(modes(), name) for name in type(modes()).__slots__[2:]}


@pytest.fixture(autouse=True)
def nothing_is_left():
    before = state()
    yield
    assert state() == before
    gc.collect()
    assert not process.busy
    x = leaf(3.0)
    (x * x).sum().backward()
    assert x.grad.tolist() == [6.0]


BLOCKS = {
    "no_grad": (ndgrad.no_grad, lambda: not ndgrad.is_grad_enabled()),
    "inference_mode": (ndgrad.inference_mode, ndgrad.is_inference_mode_enabled),
    "set_grad_enabled": (lambda: ndgrad.set_grad_enabled(False), lambda: not ndgrad.is_grad_enabled()),
    "dual_level": (forward_ad.dual_level, lambda: len(thread.dual_stack) == 1),
    "saved_tensors_hooks": (lambda: saved_tensors_hooks(lambda t: t, lambda t: t), lambda: len(thread.saved_hooks) == 1),
    "disable_saved_tensors_hooks": (lambda: disable_saved_tensors_hooks("no"), lambda: thread.saved_hooks_disabled == "no"),
    "allow_mutation_on_saved_tensors": (allow_mutation_on_saved_tensors, lambda: thread.copy_on_write),
    "dispatch mode": (Seen, lambda: len(thread.observers) == 1),
    "function mode": (Passing, lambda: len(thread.function_modes) == 1),
    "set_multithreading_enabled": (
        lambda: autograd.set_multithreading_enabled(False), lambda: not autograd.is_multithreading_enabled(),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("make", "inside"), BLOCKS.values(), ids=BLOCKS)
def test_tasks_that_take_turns_are_each_in_their_own_modes(make, inside):
    async def run_inside(turns):
        for _ in range(3):
            with make():
                for _ in range(turns):
                    await asyncio.sleep(0)
                    assert inside()
            await asyncio.sleep(0)
            assert not inside()

    async def run_outside():
        for _ in range(12):
            x = leaf(1.0, 2.0)
            y = (x * x).sum()
            await asyncio.sleep(0)
            assert not inside()
            y.backward()
            assert x.grad.tolist() == [2.0, 4.0]

    async def main():
        await asyncio.gather(run_inside(1), run_outside(), run_inside(3), run_inside(2), run_outside())
        assert not inside()

    asyncio.run(main())


def test_transforms_in_tasks_that_take_turns():
    async def gradients(n):
        x = ndgrad.ones(2) * n
        for _ in range(5):
            assert func.grad(lambda v: (v**3).sum())(x).tolist() == [3.0 * n * n] * 2
            await asyncio.sleep(0)
            with ndgrad.no_grad():
                await asyncio.sleep(0)
                assert func.grad(lambda v: (v**2).sum())(x).tolist() == [2.0 * n] * 2
                assert func.hessian(lambda v: (v**2).sum())(x).tolist() == [[2.0, 0.0], [0.0, 2.0]]
                await asyncio.sleep(0)

    async def main():
        await asyncio.gather(*(gradients(n) for n in range(1, 5)))

    asyncio.run(main())


def test_a_task_starts_with_the_modes_of_its_creator_and_keeps_them():
    async def recorded():
        await asyncio.sleep(0)
        return (leaf(1.0) * 2).requires_grad

    async def main():
        with ndgrad.no_grad():
            inner = asyncio.create_task(recorded())
        outer = asyncio.create_task(recorded())
        assert (leaf(1.0) * 2).requires_grad
        return await inner, await outer

    assert asyncio.run(main()) == (False, True)


def test_a_task_keeps_its_modes_to_itself():
    async def switch_off():
        ndgrad.set_grad_enabled(False)
        await asyncio.sleep(0)
        return ndgrad.is_grad_enabled()

    async def main():
        off = await asyncio.create_task(switch_off())
        return off, ndgrad.is_grad_enabled()

    assert asyncio.run(main()) == (False, True)


def test_a_task_that_was_started_inside_a_transform_is_not_in_it_when_that_is_over():
    seen = []

    async def later():
        seen.append(thread.levels)
        x = leaf(1.0, 2.0)
        (x * x).sum().backward()
        seen.append(x.grad.tolist())

    async def main():
        tasks = []

        def f(x):
            tasks.append(asyncio.create_task(later()))
            return (x * x).sum()

        func.grad(f)(ndgrad.ones(2))
        await tasks[0]

    asyncio.run(main())
    assert seen == [(), [2.0, 4.0]]


def test_work_in_another_thread_of_a_task_has_its_modes():
    def recorded():
        return (leaf(1.0) * 2).requires_grad

    async def main():
        with ndgrad.no_grad():
            return await asyncio.to_thread(recorded)

    assert asyncio.run(main()) is False


def test_a_cancelled_task_leaves_nothing():
    async def wait():
        with ndgrad.no_grad(), saved_tensors_hooks(lambda t: t, lambda t: t):
            await asyncio.sleep(3600)

    async def main():
        task = asyncio.create_task(wait())
        await asyncio.sleep(0)
        assert process.busy
        assert ndgrad.is_grad_enabled()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(main())


# ----- generators share the context of their caller ----------------------------------------------------------------------------


def holding(make):
    with make():
        yield
        yield


@pytest.mark.parametrize(("first", "second"), list(itertools.product(BLOCKS, repeat=2)))
def test_blocks_that_are_left_in_another_order_than_entered(first, second):
    if first == second == "allow_mutation_on_saved_tensors":
        return  # does not nest
    (make_a, in_a), (make_b, in_b) = BLOCKS[first], BLOCKS[second]
    if {first, second} == {"saved_tensors_hooks", "disable_saved_tensors_hooks"}:
        return  # the two exclude each other
    a, b = holding(make_a), holding(make_b)
    next(a)
    next(b)
    a.close()
    assert in_b()
    if first != second and {first, second} != {"no_grad", "set_grad_enabled"} and "inference_mode" not in (first, second):
        assert not in_a()
    b.close()
    assert not in_b()


def test_a_generator_that_leaves_its_block_inside_a_transform():
    a = holding(ndgrad.no_grad)
    next(a)

    def f(x):
        a.close()
        return (x * x).sum()

    func.grad(f)(ndgrad.ones(2))
    assert ndgrad.is_grad_enabled()


def test_a_generator_that_enters_its_block_inside_a_transform():
    a = holding(ndgrad.no_grad)

    def f(x):
        y = (x * x).sum()
        next(a)
        return y

    assert func.grad(f)(ndgrad.ones(2)).tolist() == [2.0, 2.0]
    assert ndgrad.is_grad_enabled()
    a.close()
    assert ndgrad.is_grad_enabled()


def test_a_generator_that_is_closed_in_another_context():
    a = holding(ndgrad.no_grad)
    context = contextvars.copy_context()
    context.run(next, a)
    assert ndgrad.is_grad_enabled()
    a.close()
    assert ndgrad.is_grad_enabled()
    assert context.run(ndgrad.is_grad_enabled)


def test_enable_grad_in_generators_that_take_turns():
    def ask():
        with ndgrad.enable_grad():
            while True:
                yield ndgrad.is_grad_enabled()

    with ndgrad.no_grad():
        a, b = ask(), ask()
        assert [next(a), next(b), next(a), next(b)] == [True] * 4
        a.close()
        assert next(b)
        b.close()
        assert not ndgrad.is_grad_enabled()


def test_an_exception_that_somebody_keeps_keeps_no_mode():
    kept = []

    def fails(x):
        with ndgrad.no_grad():
            x * 2
        func.vmap(lambda v: v.nonzero())(x)

    for run in (func.grad(fails), func.vmap(fails), lambda x: func.jvp(fails, (x,), (x,)), func.functionalize(fails)):
        try:
            run(ndgrad.ones(2, 2))
        except RuntimeError as error:
            kept.append(error)
    x = leaf(1.0, 2.0)
    y = x * x
    y.register_hook(lambda g: g.no_such_thing)
    try:
        y.sum().backward()
    except AttributeError as error:
        kept.append(error)
    assert len(kept) == 5
    assert not process.busy
