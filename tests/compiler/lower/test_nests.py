"""Sums over leading dimensions of compiled kernels: as exact as sums over rows, however many terms there are."""

from __future__ import annotations

import numpy as np
import pytest

import ndgrad

#: A bound on the relative error of a sum in single precision that does not grow with the number of terms: a block of
#: terms that are added up one after the other, and a few roundings more.
BOUND = 4e-7


def around_ten_thousand(*shape):
    return (np.random.default_rng(0).standard_normal(shape) + 1e4).astype(np.float32)


CASES = {
    "columns": ((200_000, 8), lambda x: x.sum(0)),
    "three columns": ((200_000, 3), lambda x: x.sum(0)),
    "columns that are several vectors": ((60_000, 37), lambda x: x.sum(0)),
    "one column": ((200_000, 1), lambda x: x.sum(0)),
    "mean": ((200_000, 8), lambda x: x.mean(0)),
    "squares": ((200_000, 8), lambda x: (x * x).sum(0)),
    "norm": ((200_000, 5), lambda x: (x * x).sum(0).sqrt()),
    "middle": ((2, 100_000, 6), lambda x: x.sum(1)),
    "both": ((2, 100_000, 6), lambda x: x.sum((0, 1))),
    "inner loops": ((50_000, 4, 6), lambda x: x[:, :3].sum((0, 1))),
    "long inner loops": ((3, 70_000, 6), lambda x: x[:, 1:].sum((0, 1))),
    "permuted": ((50_000, 4, 6), lambda x: x.permute(1, 0, 2).sum((0, 1))),
    "everything but a column": ((200_000, 6), lambda x: x[:, :5].sum()),
    "two sums of one kernel": ((100_000, 4), lambda x: x.sum(0) + (x * x).sum(0) * 1e-4),
    "strided": ((100_000, 16), lambda x: x[::2, ::2].sum(0)),
}


@pytest.mark.parametrize("name", CASES)
def test_sums_of_many_rows_are_exact(name):
    shape, f = CASES[name]
    array = around_ten_thousand(*shape)
    expected = f(ndgrad.tensor(array.astype(np.float64))).numpy()
    found = ndgrad.compile(f)(ndgrad.tensor(array)).numpy()
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=BOUND)


def test_variances_of_columns_are_exact():
    array = around_ten_thousand(200_000, 8)
    found = ndgrad.compile(lambda x: x.var(0))(ndgrad.tensor(array)).numpy()
    np.testing.assert_allclose(found, array.astype(np.float64).var(0, ddof=1), rtol=1e-6)


@pytest.mark.parametrize("rows", [1, 63, 64, 65, 127, 128, 129, 1000, 1025])
@pytest.mark.parametrize("columns", [1, 2, 3, 7, 8, 9, 16, 33])
def test_any_number_of_rows_and_columns(rows, columns):
    array = np.random.default_rng(1).integers(-50, 50, (rows, columns)).astype(np.float32)
    x = ndgrad.tensor(array, requires_grad=True)
    found = ndgrad.compile(lambda x: (x * 2).sum(0))(x)
    assert found.tolist() == (array * 2).sum(0).tolist()  # integers: every order gives the same
    found.sum().backward()
    assert (x.grad.numpy() == 2).all()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_infinite_and_undefined_columns_are_those_of_numpy():
    array = np.ones((1000, 6), np.float32)
    array[500, 0], array[7, 1], array[9, 1], array[3, 2] = np.inf, np.inf, -np.inf, np.nan
    array[:, 3], array[100, 4] = 3e38, -np.inf
    with np.errstate(all="ignore"):
        expected = array.sum(0)
    found = ndgrad.compile(lambda x: x.sum(0))(ndgrad.tensor(array)).numpy()
    np.testing.assert_array_equal(found, expected)
