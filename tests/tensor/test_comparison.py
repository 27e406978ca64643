"""Comparisons, tests and logic: results, in-place forms and errors."""

from __future__ import annotations

import numpy as np
import pytest

import ndgrad
from ndgrad._src.transforms.transforms import vmap

COMPARISONS = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}
A, B = np.array([1.0, 2.0, 3.0]), np.array([3.0, 2.0, 1.0])


@pytest.mark.parametrize("name", COMPARISONS)
def test_comparisons_are_booleans_without_a_graph(name):
    x, y = ndgrad.tensor(A, requires_grad=True), ndgrad.tensor(B)
    for out in (getattr(ndgrad, name)(x, y), getattr(x, name)(y)):
        assert not out.requires_grad
        np.testing.assert_array_equal(out.numpy(), COMPARISONS[name](A, B))
    into = ndgrad.tensor(np.zeros(3, bool))
    assert getattr(ndgrad, name)(x.detach(), 2.0, out=into) is into
    np.testing.assert_array_equal(into.numpy(), COMPARISONS[name](A, 2.0))


@pytest.mark.parametrize("name", [*COMPARISONS, "logical_and", "logical_or", "logical_xor"])
def test_in_place_answer_replaces_value_and_history(name):
    x = ndgrad.tensor(A, requires_grad=True)
    y = x * 2.0
    z = y * 1.0
    want = getattr(y, name)(ndgrad.tensor(B)).numpy().astype(float)
    assert getattr(z, name + "_")(ndgrad.tensor(B)) is z
    assert z.dtype == np.float64
    np.testing.assert_array_equal(z.detach().numpy(), want)
    (z * 5.0 + x).sum().backward()
    assert x.grad.tolist() == [1.0, 1.0, 1.0]


def test_logical_not_in_place():
    x = ndgrad.tensor(np.array([0, 3, 0]))
    assert x.logical_not_().tolist() == [1, 0, 1]


def test_other_names():
    x, y = ndgrad.tensor(A), ndgrad.tensor(B)
    for other, name in {"greater": "gt", "less_equal": "le", "not_equal": "ne"}.items():
        np.testing.assert_array_equal(getattr(ndgrad, other)(x, y).numpy(), getattr(ndgrad, name)(x, y).numpy())
        np.testing.assert_array_equal(getattr(x, other)(y).numpy(), getattr(ndgrad, name)(x, y).numpy())
        assert getattr(x.clone(), other + "_")(y).tolist() == getattr(ndgrad, name)(x, y).numpy().astype(float).tolist()


def test_closeness_and_equality():
    x = ndgrad.tensor(A)
    assert ndgrad.isclose(x, x + 1e-9).tolist() == [True] * 3
    assert ndgrad.allclose(x, x + 1e-9) is True
    assert x.allclose(x + 1e-4) is False
    assert ndgrad.allclose(x * np.nan, x * np.nan) is False
    assert ndgrad.allclose(x * np.nan, x * np.nan, equal_nan=True) is True
    assert ndgrad.equal(x, ndgrad.tensor(A.astype(np.float32))) is True
    assert ndgrad.equal(x, ndgrad.tensor(A[:, None])) is False
    assert ndgrad.equal(ndgrad.tensor(np.zeros(0)), ndgrad.tensor(np.zeros(0))) is True


def test_infinities():
    x = ndgrad.tensor(np.array([np.inf, -np.inf, np.nan, 0.0]))
    assert ndgrad.isposinf(x).tolist() == [True, False, False, False]
    assert x.isneginf().tolist() == [False, True, False, False]
    into = ndgrad.tensor(np.zeros(4, bool))
    assert ndgrad.isposinf(x, out=into).tolist() == [True, False, False, False]


@pytest.mark.parametrize(
    ("call", "error", "hint"),
    [
        (lambda x: ndgrad.isclose(x, x, rtol=-1.0), RuntimeError, "tolerance"),
        (lambda x: ndgrad.allclose(x, x, atol=-1.0), RuntimeError, "tolerance"),
        (lambda x: ndgrad.allclose(x, x.to(np.float32)), RuntimeError, "Convert"),
        (lambda x: ndgrad.equal(x, 1.0), TypeError, "as_tensor"),
        (lambda x: ndgrad.isposinf(x * 1j), RuntimeError, "real or imaginary"),
        (lambda x: vmap(lambda row: row * float(ndgrad.equal(row, row)))(x), RuntimeError, "outside vmap"),
    ],
)
def test_errors_say_what_to_do(call, error, hint):
    with pytest.raises(error) as raised:
        call(ndgrad.tensor(A))
    assert hint in str(raised.value)
