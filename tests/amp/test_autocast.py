"""Autocast where it goes beyond torch's: casts that are kept and may no longer be used, tasks, compiled functions."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
import weakref

import numpy as np
import pytest

import ndgrad
from ndgrad.amp.policies import POLICIES

pytest.importorskip("ml_dtypes", reason="autocast on the CPU computes in bfloat16")


@pytest.fixture(autouse=True)
def float32():
    ndgrad.set_default_dtype(ndgrad.float32)


def test_a_cast_made_without_gradients_is_not_used_with_them():
    w = ndgrad.ones(2, 2, requires_grad=True)
    with ndgrad.autocast("cpu"):
        with ndgrad.no_grad():
            ndgrad.ones(1, 2) @ w
        loss = (ndgrad.ones(1, 2) @ w).sum()
    loss.backward()
    assert w.grad.tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_a_cast_is_made_anew_after_a_write():
    w = ndgrad.ones(2, 2, requires_grad=True)
    x = ndgrad.ones(1, 2)
    with ndgrad.autocast("cpu"):
        assert (x @ w).tolist() == [[2.0, 2.0]]
        with ndgrad.no_grad():
            w.mul_(3.0)
        assert (x @ w).tolist() == [[6.0, 6.0]]


def test_kept_casts_die_with_the_outermost_block():
    w = ndgrad.ones(2, 2, requires_grad=True)
    with ndgrad.autocast("cpu"):
        with ndgrad.autocast("cpu", dtype=ndgrad.float16):
            y = ndgrad.ones(1, 2) @ w
        cast = weakref.ref(y.grad_fn.next_functions[1][0])
        del y
        assert cast() is not None
    gc.collect()
    assert cast() is None


def test_a_thread_that_copies_the_context_is_in_the_block():
    a = ndgrad.ones(2, 2)
    found = []
    with ndgrad.autocast("cpu"):
        context = contextvars.copy_context()
    thread = threading.Thread(target=lambda: found.append(context.run(lambda: (a @ a).dtype)))
    thread.start()
    thread.join()
    assert found == [ndgrad.bfloat16]


def test_tasks_keep_their_blocks_apart():
    a = ndgrad.ones(2, 2)

    async def inside():
        with ndgrad.autocast("cpu"):
            await asyncio.sleep(0)
            return (a @ a).dtype

    async def multiply_outside():
        await asyncio.sleep(0)
        return (a @ a).dtype

    async def main():
        return await asyncio.gather(inside(), multiply_outside(), inside())

    assert asyncio.run(main()) == [ndgrad.bfloat16, ndgrad.float32, ndgrad.bfloat16]


def test_numpys_arrays_and_numbers_beside_tensors_are_not_cast():
    a = ndgrad.ones(2, 2)
    with ndgrad.autocast("cpu"):
        assert ndgrad.matmul(a, ndgrad.from_numpy(np.ones((2, 2))).float()).dtype is ndgrad.bfloat16
        assert (a * 2.0).dtype is ndgrad.float32


def test_a_compiled_function_computes_in_the_autocast_around_it():
    f = ndgrad.compile(lambda x: (x @ x).exp())
    a = ndgrad.full((2, 2), 0.3)
    assert f(a).dtype is ndgrad.float32
    with ndgrad.autocast("cpu"):
        assert f(a).dtype is ndgrad.bfloat16
    assert f(a).dtype is ndgrad.float32


def test_a_block_inside_a_compiled_function():
    def f(x, w):
        with ndgrad.autocast("cpu"):
            y = x @ w
        return y.float().square().sum()

    x, w = ndgrad.full((3, 3), 0.3), ndgrad.full((3, 3), 0.7, requires_grad=True)
    f(x, w).backward()
    eager, w.grad = w.grad, None
    for _ in range(3):
        w.grad = None
        ndgrad.compile(f)(x, w).backward()
        np.testing.assert_allclose(w.grad.numpy(), eager.numpy(), rtol=1e-2)


def test_generators_are_in_the_block_only_while_they_run():
    a = ndgrad.ones(2, 2)

    @ndgrad.autocast("cpu")
    def products():
        for _ in range(2):
            yield (a @ a).dtype

    for inside in products():
        assert inside is ndgrad.bfloat16
        assert (a @ a).dtype is ndgrad.float32


def test_every_function_of_the_lists_is_one_of_ours_or_being_built():
    known = {f.__name__ for functions in ndgrad.overrides.get_overridable_functions().values() for f in functions}
    coming = {
        "ctc_loss", "fractional_max_pool2d", "fractional_max_pool3d", "geqrf", "grid_sampler", "grid_sampler_2d",
        "grid_sampler_3d", "ormqr", "stft",
    }  # fmt: skip
    for device, names in POLICIES.items():
        assert {n for n in names if not n.startswith("__")} - known - coming == set(), device


def test_errors_of_a_function_leave_the_block_as_it_was():
    a = ndgrad.ones(2, 3)
    with ndgrad.autocast("cpu"):
        with pytest.raises(RuntimeError):
            a @ a
        assert ndgrad.is_autocast_enabled("cpu")
        assert (a @ a.t()).dtype is ndgrad.bfloat16
    assert not ndgrad.is_autocast_enabled("cpu")


def test_second_derivatives_with_respect_to_a_cast_input():
    x = ndgrad.tensor([[0.5]], requires_grad=True)
    with ndgrad.autocast("cpu"):
        y = (x @ x).float()
    (g,) = ndgrad.autograd.grad(y.sum(), x, create_graph=True)
    (h,) = ndgrad.autograd.grad(g.sum(), x)
    assert (g.item(), h.item()) == (1.0, 2.0)
