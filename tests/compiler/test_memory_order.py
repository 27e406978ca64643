"""Reshapes of results as views or copies, in a trace as in eager code: one of the two is written, and both are
returned.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest

import ndgrad
import ndgrad.numpy as ng
from ndgrad import func
from ndgrad._src.compiler.capture import memory_order

#: Ops whose functions or libraries decide the memory order of the results.
OPS: dict[str, Callable[[Any], Any]] = {
    "inv": np.linalg.inv,
    "solve": lambda x: np.linalg.solve(x, np.ones((4, 4))),
    "cholesky": lambda x: np.linalg.cholesky(x @ x.T + np.eye(4)),
    "sort": lambda x: np.sort(x, axis=0),
    "cumprod": lambda x: np.cumprod(x, axis=0),
    "var": lambda x: np.stack([x, 2 * x, x * x]).var(axis=0),
    "sum": lambda x: np.sum(np.stack([x, 2 * x, x * x]).T, axis=1),
    "median": lambda x: np.median(np.stack([x, 2 * x, x * x]), axis=1),
    "batched product": lambda x: np.stack([x, 2 * x]).transpose(2, 1, 0) @ np.ones((4, 2, 3)),
    "take": lambda x: np.take(x, np.array([2, 0, 1, 1]), axis=1),
    "chain": lambda x: np.sin(np.linalg.inv(x)) * np.cumprod(x, axis=1),
    "diff": lambda x: np.diff(x, axis=1),
}  # fmt: skip
FORMS = {
    "C": lambda x: x,
    "F": lambda x: x.T,
    "stepped": lambda x: np.repeat(x, 2, axis=0)[::2],
    "backwards": lambda x: x[::-1, ::-1],
}


def write_both(op: Callable[[Any], Any], form: Callable[[Any], Any], whole: bool) -> Callable[[Any], Any]:
    def f(x: Any) -> Any:
        y = op(form(x))
        z = y.reshape(-1)
        if whole:
            y *= 2.0
        else:
            z[1:] = 3.0
        return y + 0.0, z + 0.0

    return f


def matrix() -> Any:
    return ng.array(np.random.default_rng(3).standard_normal((4, 4)) + 4 * np.eye(4))


@pytest.mark.parametrize("whole", [True, False], ids=["the array is written", "the reshaped one is written"])
@pytest.mark.parametrize("form", list(FORMS))
@pytest.mark.parametrize("name", list(OPS))
def test_a_reshape_is_a_view_exactly_where_it_is_one_in_eager_code(name: str, form: str, whole: bool) -> None:
    f = write_both(OPS[name], FORMS[form], whole)
    g = ndgrad.compile(f, fullgraph=True, strict=True)  # on NumPy, because the test is about the trace
    for a, b in zip(g(matrix()), f(matrix()), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12)


@pytest.mark.parametrize("name", ["inv", "batched product", "chain"])
def test_writes_of_such_memory_have_the_gradients_of_eager_code(name: str) -> None:
    f = write_both(OPS[name], FORMS["F"], True)
    total = lambda x: (f(x)[0] ** 2).sum() + f(x)[1].sum()
    for transform in (func.grad, func.hessian):
        found = ndgrad.compile(transform(total), fullgraph=True, strict=True)(matrix())
        np.testing.assert_allclose(found.numpy(), transform(total)(matrix()).numpy(), rtol=1e-9, atol=1e-9)


def test_nothing_is_run_where_nothing_is_written() -> None:
    with mock.patch.object(memory_order, "_strides_of", side_effect=AssertionError("run")):
        f = lambda x: np.linalg.inv(x.T).reshape(-1)[1:].sum()
        assert ndgrad.compile(f, fullgraph=True)(matrix()).item() == pytest.approx(f(matrix()).item(), rel=1e-9)


def test_what_cannot_be_found_out_runs_eagerly_and_is_right() -> None:
    f = write_both(OPS["inv"], FORMS["F"], True)
    with mock.patch.object(memory_order, "_strides_of", return_value=None), mock.patch.dict(memory_order._found, clear=True):
        g = ndgrad.compile(f)
        assert "in which order it lies" in str(ndgrad.compiler.explain(g, matrix()).reason)
        for a, b in zip(g(matrix()), f(matrix()), strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12)
