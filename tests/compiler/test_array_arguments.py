"""Compiled functions called with NumPy arrays: the arrays are inputs of any contents, and results are as without
compiling.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ndgrad
import ndgrad.numpy as dnp
from ndgrad.func import grad, grad_and_value

RNG = np.random.default_rng(5)


def test_one_program_serves_all_contents_and_results_are_numpys() -> None:
    f = lambda x: np.sin(x) * 2 + x.sum(0)
    g = ndgrad.compile(f, fullgraph=True)
    for _ in range(5):
        x = RNG.standard_normal((20, 500))  # more than is ever compared
        found = g(x)
        assert type(found) is np.ndarray
        np.testing.assert_allclose(found, f(x), rtol=1e-12, atol=1e-14)
    assert g.traces == 1


def test_numbers_of_numpys_and_structures_come_back_as_they_are() -> None:
    f = lambda x, n: {"sum": np.sum(x), "more": [x * n, (x > 0).any(), n]}
    g = ndgrad.compile(f, fullgraph=True)
    for _ in range(3):
        x = RNG.standard_normal(4)
        found, expected = g(x, 3), f(x, 3)
        assert [type(v) for v in (found["sum"], *found["more"])] == [type(v) for v in (expected["sum"], *expected["more"])]
        np.testing.assert_allclose(found["sum"], expected["sum"])
        np.testing.assert_array_equal(found["more"][0], expected["more"][0])
    assert g.traces == 1


def test_gradients_as_scipy_asks_for_them() -> None:
    loss = lambda w, x: dnp.sum((x @ w - 1) ** 2)
    for transform in (grad, grad_and_value):
        g = ndgrad.compile(transform(loss), fullgraph=True)
        for _ in range(4):
            w, x = RNG.standard_normal(3), RNG.standard_normal((5, 3))
            found, expected = g(w, x), transform(loss)(w, x)
            assert type(found) is type(expected)
            found, expected = (v[0] if isinstance(v, tuple) else v for v in (found, expected))
            assert type(found) is type(expected) is np.ndarray
            np.testing.assert_allclose(found, expected, rtol=1e-11)
        assert g.traces == 1


def test_arrays_beside_tensors_that_require_grad() -> None:
    w = dnp.array([1.0, 2.0]).requires_grad_()
    f = lambda w, x: ((x * w) ** 2).sum()
    g = ndgrad.compile(f, fullgraph=True)
    for _ in range(3):
        x = RNG.standard_normal((4, 2))
        (found,), (expected,) = ndgrad.autograd.grad(g(w, x), w), ndgrad.autograd.grad(f(w, x), w)
        np.testing.assert_allclose(found.numpy(), expected.numpy())
    assert g.traces == 1


def test_where_the_class_of_a_result_would_be_another_one_the_contents_count() -> None:
    f = lambda x: ndgrad.as_tensor(x) * 2
    g = ndgrad.compile(f)
    for values in ([1.0], [2.0], [1.0], [3.0]):
        found = g(np.array(values))
        assert type(found) is ndgrad.Tensor
        assert found.tolist() == [2 * values[0]]
    large = np.ones(100_000)
    assert [type(g(large)) for _ in range(3)] == [ndgrad.Tensor] * 3


def test_a_write_is_one_to_the_callers_memory() -> None:
    def step(u: Any, v: Any) -> Any:
        u[1:-1] += 0.5 * v[1:-1]
        return u

    g = ndgrad.compile(step, fullgraph=True)
    u, expected = RNG.standard_normal((2, 6))
    expected = u.copy()
    for _ in range(4):
        v = RNG.standard_normal(6)
        step(expected, v)
        assert g(u, v) is u
        np.testing.assert_allclose(u, expected)
    assert g.traces == 1


def test_an_array_that_stands_twice_and_other_shapes() -> None:
    f = lambda a, b: np.dot(a, b) + a.sum()
    g = ndgrad.compile(f, fullgraph=True)
    for n in (3, 3, 4, 4, 3):
        x = RNG.standard_normal(n)
        np.testing.assert_allclose(g(x, x), f(x, x))
        np.testing.assert_allclose(g(x, x + 1), f(x, x + 1))


def test_what_a_function_asks_of_an_array_is_asked_of_its_contents() -> None:
    f = lambda x, sizes: x.reshape(int(sizes[0]), -1) * 2
    g = ndgrad.compile(f)
    x = ndgrad.tensor(RNG.standard_normal(6))
    for sizes in ([2, 3], [3, 2], [2, 3], [3, 2]):
        assert g(x, np.array(sizes)).tolist() == f(x, np.array(sizes)).tolist()
    assert ndgrad.compiler.explain(f, x, np.array([2, 3])).compiled


def test_conditions_on_arrays() -> None:
    f = lambda x: x * 2 if x.max() > 0 else -x
    g = ndgrad.compile(f, fullgraph=True)
    for sign in (1, 1, -1, 1, -1):
        x = sign * np.array([1.0, 2.0])
        np.testing.assert_array_equal(g(x), f(x))


@pytest.mark.parametrize("x", [np.array(["a", "b"]), np.array([1.0, 2.0], ">f8"), np.array([None, 1])])
def test_arrays_without_numbers_of_this_machine_run_eagerly(x: Any) -> None:
    f = lambda x, t: (x[0], t * 2)
    g = ndgrad.compile(f)
    for _ in range(3):
        found = g(x, ndgrad.ones(2))
        assert found[0] == x[0]
        assert found[1].tolist() == [2.0, 2.0]
