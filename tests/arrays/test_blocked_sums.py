"""Sums over any dimensions: as accurate as pairwise sums, in every direction and memory order."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import ndgrad
from ndgrad._src.arrays.blocked_sums import reduce_dot, reduce_sum

LAYOUTS = {
    "rows": lambda a: a,
    "columns": np.asfortranarray,
    "reversed": lambda a: a[::-1],
    "strided": lambda a: np.repeat(a, 2, axis=-1)[..., ::2],
    "swapped": lambda a: np.ascontiguousarray(a.swapaxes(0, 1)).swapaxes(0, 1),
    "broadcast": lambda a: np.broadcast_to(a[:1], a.shape),
}
SHAPES = [(5000, 3), (700, 300), (70, 80, 3), (1, 900, 5), (90, 2, 100), (513, 2), (3, 65, 1, 65), (0, 4), (4, 0)]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "f2"])
def test_sums_are_accurate_along_every_choice_of_dimensions(layout, dtype):
    rng = np.random.default_rng(0)
    for shape in SHAPES:
        x = LAYOUTS[layout]((rng.normal(size=shape) + 10).astype(dtype))
        wide = np.float32 if dtype == "f2" else None
        for count in range(1, x.ndim + 1):
            for axes, keepdims in itertools.product(itertools.combinations(range(x.ndim), count), (False, True)):
                found = reduce_sum(np, x, axes, keepdims, wide)
                like = np.add.reduce(x, axis=axes, keepdims=keepdims, dtype=wide)
                exact = np.add.reduce(x, axis=axes, keepdims=keepdims, dtype=np.clongdouble)
                assert found.shape == like.shape
                assert found.dtype == like.dtype
                np.testing.assert_allclose(found, exact, rtol=10 * np.finfo(found.dtype).eps)


def test_integers_and_all_dimensions_are_numpys():
    x = np.arange(600).reshape(300, 2)
    assert reduce_sum(np, x, (0,)).tolist() == x.sum(0).tolist()
    assert reduce_sum(np, x.astype(float), None) == x.sum()


def test_the_order_in_which_dimensions_are_named_does_not_matter():
    x = np.random.default_rng(0).normal(size=(5, 6, 7, 8))
    for axes in itertools.permutations((0, 2, 3)):
        np.testing.assert_allclose(reduce_sum(np, x, axes), x.sum((0, 2, 3)), rtol=1e-12)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_values_that_are_not_finite_stay_in_their_column(value):
    x = np.ones((700, 3), np.float32)
    x[650, 1] = value
    np.testing.assert_array_equal(reduce_sum(np, x, (0,)), [700.0, value, 700.0])


def test_dot_products_of_long_lines_are_accurate():
    x, y = np.random.default_rng(0).normal(10, 1, (2, 3, 10_007)).astype(np.float32)
    exact = (x.astype(float) * y).sum(-1)
    np.testing.assert_allclose(reduce_dot(x, y), exact, rtol=1e-6)
    np.testing.assert_allclose(reduce_dot(x[:, ::-1], y[:, ::-1]), exact, rtol=1e-6)


REDUCTIONS = {
    "sum": (lambda x, dim: x.sum(dim), lambda x, axis: x.sum(axis)),
    "mean": (lambda x, dim: x.mean(dim), lambda x, axis: x.mean(axis)),
    "nansum": (lambda x, dim: x.nansum(dim), lambda x, axis: x.sum(axis)),
    "var": (lambda x, dim: x.var(dim), lambda x, axis: x.var(axis, ddof=1)),
    "std": (lambda x, dim: x.std(dim), lambda x, axis: x.std(axis, ddof=1)),
    "norm": (lambda x, dim: x.norm(dim=dim), lambda x, axis: np.sqrt((x * x).sum(axis))),
    "norm of order 1": (lambda x, dim: x.norm(1, dim), lambda x, axis: np.abs(x).sum(axis)),
    "norm of order 3": (lambda x, dim: x.norm(3, dim), lambda x, axis: np.cbrt((np.abs(x) ** 3).sum(axis))),
    "logsumexp": (lambda x, dim: (x / 100).logsumexp(dim), lambda x, axis: np.log(np.exp(x / 100).sum(axis))),
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_over_many_rows_are_accurate_in_single_precision(name):
    function, exact = REDUCTIONS[name]
    x = np.random.default_rng(0).normal(1000.0, 300.0, (60_000, 3)).astype(np.float32)
    np.testing.assert_allclose(function(ndgrad.tensor(x), 0), exact(x.astype(float), 0), rtol=2e-6)


def test_gradients_of_broadcast_arguments_are_accurate_in_single_precision():
    g = np.random.default_rng(0).normal(1000.0, 300.0, (60_000, 3)).astype(np.float32)
    b = ndgrad.zeros(3, requires_grad=True)
    (ndgrad.tensor(g) + b).backward(ndgrad.tensor(g))
    np.testing.assert_allclose(b.grad, g.astype(float).sum(0), rtol=1e-6)
