"""rearrange against NumPy's reshape and transpose."""

from __future__ import annotations

import numpy as np
import pytest

import ndgrad
from ndgrad.func import grad, rearrange, vmap

A = np.arange(24.0).reshape(2, 3, 4)


@pytest.mark.parametrize(
    ("pattern", "lengths", "expected"),
    [
        ("a b c -> c a b", {}, A.transpose(2, 0, 1)),
        ("a b c -> (a b c)", {}, A.reshape(-1)),
        ("a b c -> a (c b)", {}, A.transpose(0, 2, 1).reshape(2, 12)),
        ("a b (c d) -> d a b c", {"c": 2}, A.reshape(2, 3, 2, 2).transpose(3, 0, 1, 2)),
        ("a b (c d) -> (a d) 1 (b c)", {"d": 4}, A.reshape(2, 3, 1, 4).transpose(0, 3, 1, 2).reshape(8, 1, 3)),
        ("... c -> c ...", {}, np.moveaxis(A, -1, 0)),
        ("a ... -> ... a", {}, np.moveaxis(A, 0, -1)),
        ("a ... -> (... a)", {}, np.moveaxis(A, 0, -1).reshape(-1)),
        ("a b c ... -> a (b c) ...", {}, A.reshape(2, 12)),
        ("a   b_1 c->c b_1 a", {}, A.T),
    ],
)
def test_patterns(pattern, lengths, expected):
    x = ndgrad.tensor(A)
    np.testing.assert_array_equal(rearrange(x, pattern, **lengths).numpy(), expected)
    batched = vmap(lambda x: rearrange(x, pattern, **lengths))(ndgrad.stack([x, x * 2]))
    np.testing.assert_array_equal(batched.numpy(), np.stack([expected, 2 * expected]))
    g = grad(lambda x: (rearrange(x, pattern, **lengths) * ndgrad.tensor(expected)).sum())(x)
    np.testing.assert_array_equal(g.numpy(), A)


def test_lists_and_dimensions_of_length_one():
    rows = [ndgrad.tensor(a) for a in A]
    np.testing.assert_array_equal(rearrange(rows, "a b c -> b c a").numpy(), A.transpose(1, 2, 0))
    assert rearrange(ndgrad.ones(1, 3), "1 a -> a 1 1").shape == (3, 1, 1)
    assert rearrange(ndgrad.ones(()), " -> 1").shape == (1,)


@pytest.mark.parametrize(
    ("pattern", "lengths"),
    [
        ("a b -> b a", {}),
        ("a b c", {}),
        ("a b c -> a b", {}),
        ("a b c -> a b c d", {}),
        ("a a b -> a b a", {}),
        ("a b (c d) -> a b c d", {}),
        ("a b (c d) -> a b c d", {"c": 3}),
        ("a b c -> a b c", {"a": 5}),
        ("a b c -> a b c", {"e": 5}),
        ("a (b c -> a b c", {}),
        ("a b c) -> a b c", {}),
        ("((a) b) c -> a b c", {}),
        ("a b 2 -> a b 2", {}),
        ("a b 1 -> a b", {}),
        ("a b c? -> a b c?", {}),
        ("(a ...) -> a ...", {}),
        ("... a ... -> a ...", {}),
    ],
)
def test_patterns_that_do_not_fit(pattern, lengths):
    with pytest.raises(ValueError, match="rearrange"):
        rearrange(ndgrad.tensor(A), pattern, **lengths)


def test_something_else_than_a_tensor():
    with pytest.raises(TypeError, match="float"):
        rearrange(1.0, "a -> a")
