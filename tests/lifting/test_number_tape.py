"""Numbers of lifted code: one node for a stretch of scalar operations, with the derivatives of the operations."""

from __future__ import annotations

import gc
import math
import weakref
from typing import Any

import numpy as np
import pytest

import ndgrad
import ndgrad.numpy as dnp
from ndgrad._src.core.modes import process
from ndgrad._src.lifting.number_tape import NumberNode


def _formula(x: float) -> Any:
    y = 2.0 / x + 1.5 * x - x**3 / 7 + (-x) ** 2 - abs(-x) + 2.0**x
    return y / (1.0 + x) - (3.0 - x) * y + x // 1.0


def _of_math(x: float) -> Any:
    y = math.sin(x) * math.cos(x) + math.exp(-x) + math.log(x) - math.sqrt(x) + math.atan2(x, 2.0)
    return y + math.hypot(x, 3.0) + math.asin(x / 2) + math.acos(x / 2) + math.tanh(x) + math.pow(x, 1.5) + math.fabs(-x)


def _of_numpy(x: Any) -> Any:
    y = np.sqrt(x) + np.log1p(x) * np.arctan(x) - np.expm1(x) + np.maximum(x, 0.2) - np.minimum(x, 0.2)
    return y + np.power(x, 2.5) + np.arctan2(1.0, x) + np.square(x) + np.tan(x) / np.cosh(x)


def _loop(x: float) -> Any:
    total, steps = 0.0, 0
    while total < 5.0:
        total += x * (1.0 + 0.1 * total)
        steps += 1
    return total * steps if total > 0 and total != 7 else total


def _buffer(x: Any) -> Any:
    u = np.zeros(6)
    u[0], u[1] = x, x * x
    for i in range(2, 6):
        u[i] = x * u[i - 1] - 0.3 * u[i - 2] ** 2
    return np.sum(u) * x + u[3]


PROGRAMS = [_formula, _of_math, _of_numpy, _loop, _buffer]


@pytest.mark.parametrize("f", PROGRAMS)
def test_derivatives_of_first_and_second_order_are_those_of_differences(f: Any) -> None:
    at, lifted = 0.7, ndgrad.lift(f)

    def slope(x: float) -> float:
        return (f(x - 2e-4) - 8 * f(x - 1e-4) + 8 * f(x + 1e-4) - f(x + 2e-4)) / 1.2e-3

    x = dnp.array(at).requires_grad_()
    y = lifted(x)
    assert float(y.detach()) == pytest.approx(f(at), rel=1e-15)
    (g,) = ndgrad.autograd.grad(y, x, create_graph=True)
    (h,) = ndgrad.autograd.grad(g, x)
    second = (slope(at + 1e-4) - slope(at - 1e-4)) / 2e-4
    grad = ndgrad.func.grad
    for first in (g.detach(), grad(lifted)(dnp.array(at)), ndgrad.func.jvp(lifted, (dnp.array(at),), (dnp.array(1.0),))[1]):
        assert float(first) == pytest.approx(slope(at), rel=1e-9)
    batched = [] if f is _loop else [ndgrad.func.vmap(grad(grad(lifted)))(dnp.array([at]))[0]]
    for found in (h, grad(grad(lifted))(dnp.array(at)), *batched):
        assert float(found) == pytest.approx(second, rel=1e-5)


def test_elements_results_and_parts_of_a_tape_have_their_own_gradients() -> None:
    def f(p: Any) -> Any:
        a = p[0] * p[1]
        b = np.array([a, a * p[2]])  # a leaves the tape before the last product
        c = a * 3.0 + p[1]
        return [b.sum(), {"c": c}, (c * p[2], a)]

    p = dnp.array([1.5, 2.0, 0.5]).requires_grad_()
    first, second, (third, fourth) = ndgrad.lift(f)(p)
    assert all(type(t) is dnp.Array for t in (first, second["c"], third, fourth))
    (first + 2.0 * second["c"] + third - fourth).backward()
    # a (1 + p2) + (2 + p2) (3 a + p1) - a
    np.testing.assert_allclose(p.grad.numpy(), [2.0 * (0.5 + 7.5), 1.5 * (0.5 + 7.5) + 2.5, 3.0 + 11.0])


def test_a_leaf_that_is_returned_or_solved_for_stays_the_leaf() -> None:
    x = dnp.array(2.0).requires_grad_()
    (ndgrad.lift(lambda v: v)(x) * 3.0).backward()
    assert float(x.grad) == 3.0


def test_singular_points_and_other_operands_are_those_of_arrays() -> None:
    def plain(f: Any, x: float) -> Any:
        t = dnp.array(x).requires_grad_()
        f(t).backward()
        return float(t.grad)

    def taped(f: Any, x: float) -> Any:
        t = dnp.array(x).requires_grad_()
        ndgrad.lift(f)(t).backward()
        return float(t.grad)

    functions: list[Any] = [
        lambda v: abs(v), lambda v: np.sqrt(v), lambda v: v**2, lambda v: v**0.5, lambda v: np.maximum(v, 0.0),
        lambda v: v * np.float64(2.0),
    ]  # fmt: skip
    for f in functions:
        np.testing.assert_equal(taped(f, 0.0), plain(f, 0.0))
    with pytest.raises(ValueError, match="math domain"):
        ndgrad.lift(lambda v: math.log(v - 1.0))(dnp.array(0.5).requires_grad_())
    with np.errstate(divide="ignore"):
        assert math.isinf(float(ndgrad.lift(lambda v: 1.0 / (v - 0.5))(dnp.array(0.5).requires_grad_()).detach()))


def test_a_second_backward_pass_needs_the_graph() -> None:
    x = dnp.array(2.0).requires_grad_()
    y, z = ndgrad.lift(lambda v: v * v + 1.0)(x), ndgrad.lift(lambda v: v + v - 1.0)(x)
    y.backward(retain_graph=True)
    y.backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()
    z.backward()
    z.backward()  # a linear tape has no values
    assert float(x.grad) == 12.0


def test_one_node_stands_for_a_stretch_of_operations() -> None:
    x = dnp.array(0.5).requires_grad_()
    y = ndgrad.lift(_loop)(x)
    assert isinstance(y.grad_fn, NumberNode)
    assert [n is not None for n, _ in y.grad_fn.next_functions] == [True]


def test_modes_end_with_their_transform_and_nothing_is_kept() -> None:
    ndgrad.func.grad(ndgrad.lift(_formula))(dnp.array(0.7))
    assert not process.busy
    x = dnp.array(0.7).requires_grad_()
    before = ndgrad.lift(_formula)(x)
    node = before.grad_fn
    del before
    gc.disable()
    try:
        alive = weakref.ref(node)
        del node
        assert alive() is None
    finally:
        gc.enable()


def test_no_grad_inside_lifted_code_and_hooks_see_ordinary_tensors() -> None:
    seen: list[float] = []

    def f(v: Any) -> Any:
        with ndgrad.no_grad():
            w = v * 3.0
        y = v * w
        y.register_hook(lambda g: seen.append(float(g)))
        return y * 2.0

    x = dnp.array(2.0).requires_grad_()
    ndgrad.lift(f)(x).backward()
    assert (float(x.grad), seen) == (12.0, [2.0])


def test_numbers_of_an_ended_transform_are_refused() -> None:
    kept: list[Any] = []

    def f(v: Any) -> Any:
        if not kept:
            kept.append(v * 3.0)
        return kept[0] * v

    gradient = ndgrad.func.grad(ndgrad.lift(f))
    assert float(gradient(dnp.array(2.0))) == 12.0
    for again in (gradient, ndgrad.func.grad(ndgrad.lift(lambda v: kept[0]))):
        with pytest.raises(RuntimeError, match="nd-escaped"):
            again(dnp.array(2.0))
