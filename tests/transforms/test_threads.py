"""Threads inside transformed functions: an op works on the level of its tensors in every thread, as in a single thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import ndgrad
import ndgrad.numpy as dnp
from ndgrad._src.checkpoint import checkpoint
from ndgrad._src.core.modes import process, thread
from ndgrad.func import functionalize, grad, hessian, jacfwd, jacrev, jvp, vjp, vmap
from tests.core.functions import Cube
from tests.threads import in_threads

X = np.array([0.6, -0.3, 0.9])
TENSOR_TYPES: dict[str, Callable[[Any], Any]] = {"torch": ndgrad.tensor, "numpy": dnp.array}


def write_cube(v: Any) -> Any:
    y = v * 0.0
    y[...] = v * v * v - 1.0
    y += 1.0
    return y


def fill_cube(y: Any, v: Any) -> Any:
    y[...] = v * v * v
    return y


#: v³ in one thread each, by code paths that use levels differently.
CUBES: dict[str, Callable[[Any], Any]] = {
    "ops": lambda v: v * v * v,
    "write": write_cube,
    "custom": Cube.apply,
    "grad inside": lambda v: grad(lambda u: (u * v * v * v).sum())(v * 1.0),
    "jvp inside": lambda v: jvp(lambda u: u * v * v, (v,), (v,))[1],
    "vmap inside": lambda v: vmap(lambda u: u * u * v)(v.reshape(1))[0],
    "functionalize inside": lambda v: functionalize(write_cube)(v),
    "checkpoint inside": lambda v: checkpoint(lambda u: u * u * v, v, use_reentrant=False),
    "view of a result": lambda v: (v * v * v).reshape(1, 1)[0, 0],
    "buffer like it": lambda v: fill_cube(ndgrad.zeros_like(v), v),
    "custom in functionalize in jvp": lambda v: jvp(
        lambda w: functionalize(lambda a: Cube.apply(v) * a)(w), (v * 0.0 + 1.0,), (v * 0.0 + 1.0,)
    )[1],
}


def in_pool(cube: Callable[[Any], Any], pool: ThreadPoolExecutor | None = None) -> Callable[[Any], Any]:
    """Return the sum of cubes with weights 1, 2, 3, each cube in a thread of its own."""

    def f(x: Any) -> Any:
        with ThreadPoolExecutor(3) if pool is None else ThreadPoolExecutor(1) as own:
            a, b, c = (pool or own).map(cube, [x[0:1], x[1:2], x[2:3]])
        return (a + 2 * b + 3 * c).sum()

    return f


SLOPE, CURVE = 3 * X**2 * [1, 2, 3], np.diag(6 * X * [1, 2, 3])


@pytest.mark.one_in(2)
@pytest.mark.parametrize("tensor_type", TENSOR_TYPES)
@pytest.mark.parametrize("way", CUBES)
def test_transforms_of_functions_that_use_threads(way: str, tensor_type: str) -> None:
    f, x = in_pool(CUBES[way]), TENSOR_TYPES[tensor_type](X)
    pulled = lambda x: vjp(f, x)[1](TENSOR_TYPES[tensor_type](1.0))[0]
    for first in (grad(f), jacrev(f), jacfwd(f), pulled, functionalize(grad(f)), grad(functionalize(f))):
        np.testing.assert_allclose(first(x).numpy(), SLOPE)
    np.testing.assert_allclose(jvp(f, (x,), (x,))[1].numpy(), SLOPE @ X)
    rows, value = TENSOR_TYPES[tensor_type](np.stack([X, 2 * X])), X**3 @ [1, 2, 3]
    np.testing.assert_allclose(vmap(f)(rows).numpy(), [value, 8 * value])
    for second in (hessian(f), jacrev(grad(f)), jacfwd(jacfwd(f)), jacrev(jacfwd(f))):
        np.testing.assert_allclose(second(x).numpy(), CURVE, atol=1e-12)
    np.testing.assert_allclose(vmap(grad(f))(rows).numpy(), [SLOPE, 4 * SLOPE])


def test_threads_that_are_older_than_the_transform() -> None:
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda v: v * 2, [ndgrad.ones(1)] * 2))
        f = in_pool(CUBES["ops"], pool)
        np.testing.assert_allclose(hessian(f)(ndgrad.tensor(X)).numpy(), CURVE, atol=1e-12)


def test_transforms_in_several_threads_at_once_that_use_threads() -> None:
    def work(i: int) -> None:
        for _ in range(5):
            np.testing.assert_allclose(hessian(in_pool(CUBES["write"]))(ndgrad.tensor(X)).numpy(), CURVE, atol=1e-12)

    in_threads(4, work)
    assert not process.open


def test_a_gradient_that_a_thread_takes_inside_forward_mode_has_its_tangent() -> None:
    def f(x: Any) -> Any:
        def slope(v: Any) -> Any:
            leaf = v.requires_grad_() if not v.requires_grad else v
            return ndgrad.autograd.grad((leaf**4).sum(), leaf, create_graph=True)[0]

        with ThreadPoolExecutor(1) as pool:
            return pool.submit(slope, x * 1.0).result()

    np.testing.assert_allclose(jvp(f, (ndgrad.tensor(X),), (ndgrad.ones(3, dtype=ndgrad.float64),))[1].detach().numpy(), 12 * X**2)


def test_unpack_dual_in_another_thread() -> None:
    found = []
    with ndgrad.autograd.forward_ad.dual_level():
        dual = ndgrad.autograd.forward_ad.make_dual(ndgrad.tensor(X), ndgrad.ones(3, dtype=ndgrad.float64))
        worker = threading.Thread(target=lambda: found.append(ndgrad.autograd.forward_ad.unpack_dual(dual * dual).tangent))
        worker.start()
        worker.join()
    np.testing.assert_allclose(found[0].numpy(), 2 * X)


def test_a_thread_leaves_the_levels_that_it_worked_in() -> None:
    found = []

    def elsewhere(y: Any) -> Any:
        def work() -> None:
            found.append((y * 2).sum())
            found.append((thread.levels, thread.dual_stack))

        worker = threading.Thread(target=work)
        worker.start()
        worker.join()
        return found[0] + y.sum()

    assert vmap(elsewhere)(ndgrad.ones(2, 3)).tolist() == [9.0, 9.0]
    assert found[1] == ((), ())


def test_modes_of_a_thread_count_inside_the_transform_of_another() -> None:
    def f(x: Any) -> Any:
        def work(v: Any) -> Any:
            with ndgrad.no_grad():
                return v * v

        with ThreadPoolExecutor(1) as pool:
            return (x * pool.submit(work, x).result()).sum()

    np.testing.assert_allclose(grad(f)(ndgrad.tensor(X)).numpy(), X**2)


def test_a_tensor_of_a_closed_level_is_refused_in_every_thread() -> None:
    kept: list[Any] = []
    vmap(lambda y: (kept.append(y * 2), y)[1])(ndgrad.ones(2, 3))

    def f(x: Any) -> Any:
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(lambda: (kept[0] * x).sum()).result()

    with pytest.raises(RuntimeError, match="after the transform had ended"):
        grad(f)(ndgrad.ones(3))
