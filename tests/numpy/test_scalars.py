"""Single elements and 0-d results behave like NumPy's scalars: what is done to them does not reach the array, and the other way round."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as onp
import pytest

import ndgrad.numpy as dnp
from ndgrad import func
from ndgrad.numpy import Array

START = onp.array([3.0, 1.0, 2.0])


def swapped(np: Any, x: Any) -> Any:
    a = np.zeros(3)
    a[:] = x
    kept = a[0]
    a[0] = a[2]
    a[2] = kept
    return a * np.array([1.0, 10.0, 100.0])


def selection_sorted(np: Any, x: Any) -> Any:
    a = x.copy()
    for i in range(len(a)):
        for j in range(i + 1, len(a)):
            if a[j] < a[i]:
                a[i], a[j] = a[j], a[i]
    return a * np.array([1.0, 10.0, 100.0])


def running_total(np: Any, x: Any) -> Any:
    y = x * 2.0
    total = y[0]
    for v in y[1:]:
        total += v
    return y * total


def remembered_best(np: Any, x: Any) -> Any:
    level = x.sum()
    first = level
    level *= x[1]
    level -= 1.0
    level **= 2
    level /= 3.0
    return np.stack([first, level])


def element_of_matrix(np: Any, x: Any) -> Any:
    m = np.outer(x, x)
    corner = m[0, np.int64(2)]
    m[0, 2] = 100.0 * x[1]
    m[1, -1] += corner
    corner += 5.0
    return m * corner


def changed_in_a_loop(np: Any, x: Any) -> Any:
    out = np.empty(3)
    for i, v in enumerate(x * 1.0):
        v *= x[0]
        out[i] = v
    return out


PROGRAMS = [swapped, selection_sorted, running_total, remembered_best, element_of_matrix, changed_in_a_loop]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_programs_give_what_numpy_gives_with_right_gradients(program: Callable[..., Any]) -> None:
    expected = program(onp, START.copy())
    weights = onp.arange(1.0, 1.0 + expected.size).reshape(expected.shape)
    x = dnp.array(START).requires_grad_()
    made = program(dnp, x)
    onp.testing.assert_allclose(made.detach().numpy(), expected)
    (made * weights).sum().backward()
    step = 1e-6
    numeric = [((program(onp, START + step * e) - program(onp, START - step * e)) * weights).sum() / (2 * step) for e in onp.eye(3)]
    onp.testing.assert_allclose(x.grad.numpy(), numeric, rtol=1e-6)
    onp.testing.assert_allclose(func.grad(lambda x: (program(dnp, x) * weights).sum())(dnp.array(START)).numpy(), numeric, rtol=1e-6)


OPERATORS = ["iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow"]


@pytest.mark.parametrize("name", OPERATORS)
def test_augmented_assignment_to_a_scalar_leaves_its_other_names_alone(name: str) -> None:
    s = dnp.array([7.0, 2.0]).sum()
    changed = getattr(operator, name)(s, 2.0)
    assert s.item() == 9.0
    assert changed.item() == getattr(operator, name)(onp.float64(9.0), 2.0)
    integer = dnp.array([7, 2]).sum()
    assert getattr(operator, name)(integer, 2.0).dtype == onp.float64


def test_augmented_assignment_to_an_array_writes_into_it() -> None:
    u = dnp.zeros(2)
    other = u
    u += 1.0
    assert other is u
    assert other.tolist() == [1.0, 1.0]


def test_elements_share_no_memory_and_parts_do() -> None:
    a = dnp.array([[1.0, 2.0], [3.0, 4.0]])
    element, row, zero_d = a[0, 1], a[0], a[0, 1, ...]
    a[0, 1] = 20.0
    assert element.item() == 2.0
    assert row.tolist() == [1.0, 20.0]
    assert zero_d.item() == 20.0
    assert type(element) is Array


def test_zero_dimensional_buffers_can_be_written() -> None:
    total = dnp.zeros(())
    alias = total
    total[...] = 3.0
    dnp.add(total, 1.0, out=total)
    assert alias.item() == 4.0


@pytest.mark.parametrize("index", [3, -4, (0, 5), (0, 0, 0)])
def test_an_index_that_does_not_fit_names_the_shape(index: Any) -> None:
    with pytest.raises(IndexError, match=r"shape \("):
        (dnp.array(START) if isinstance(index, int) else dnp.ones((2, 2)))[index]


def test_element_batches_under_vmap() -> None:
    x = dnp.arange(6.0).reshape(2, 3)

    def late(v: Any) -> Any:
        first = v[0]
        v = v * 1.0
        v[0] = 50.0
        first += 1.0
        return first + v[2]

    assert func.vmap(late)(x).tolist() == [3.0, 9.0]


def test_a_recurrence_over_elements_costs_one_gradient_buffer() -> None:
    """Gradients of elements are added where they belong in the array's gradient, instead of making one array each."""
    x = dnp.ones(2000).requires_grad_()
    u = x * 1.0
    total = 0.0
    for i in range(len(u)):
        total = total + u[i] * float(i)
    total.backward()
    onp.testing.assert_allclose(x.grad.numpy(), onp.arange(2000.0))


@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize(
    "run",
    [
        lambda np, a, axis: np.take(a, [0, -1], axis=axis),
        lambda np, a, axis: np.take(a, 0, axis=axis),
        lambda np, a, axis: np.repeat(a, 2, axis=axis),
        lambda np, a, axis: np.compress([True], a, axis=axis),
        lambda np, a, axis: np.cumsum(a, axis=axis),
        lambda np, a, axis: np.cumprod(a, axis=axis),
        lambda np, a, axis: np.argmax(a, axis=axis) + a,
        lambda np, a, axis: np.argmin(a, axis=axis) + a,
    ],
    ids="take-list take-int repeat compress cumsum cumprod argmax argmin".split(),
)
def test_a_number_is_a_line_of_one_where_numpy_takes_it_for_one(run: Any, axis: int) -> None:
    expected = run(onp, onp.array(2.5), axis)
    x = dnp.array(2.5).requires_grad_()
    found = run(dnp, x, axis)
    assert found.shape == onp.shape(expected)
    onp.testing.assert_array_equal(found.detach().numpy(), expected)
    found.sum().backward()
    assert x.grad.item() == onp.size(expected)  # each element is the number
    with pytest.raises(onp.exceptions.AxisError):
        run(dnp, dnp.array(2.5), 1)
