"""Stable orders of elements of 32 bits by keys, against NumPy's stable order."""

from __future__ import annotations

import numpy as np
import pytest

import ndgrad as nd
from ndgrad._src.ops.order import _fits_keys, _order_by_keys

r = np.random.default_rng(0)
SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 3.4e38, -3.4e38, 1.0, -1.0], np.float32)
NEGATIVE_NAN = np.array([0xFFC00001, 0x7FC00002, 0xFF800001, 0x7F800001], np.uint32).view(np.float32)
ARRAYS = {
    "normal": r.standard_normal((5, 70)).astype(np.float32),
    "equal": r.integers(-3, 3, (4, 60)).astype(np.float32),
    "special": r.choice(np.concatenate([SPECIAL, NEGATIVE_NAN]), (6, 90)),
    "zeros": np.where(r.random((3, 50)) < 0.5, 0.0, -0.0).astype(np.float32),
    "int32": r.integers(-(2**31), 2**31, (3, 64)).astype(np.int32),
    "uint32": r.integers(0, 2**32, (3, 64)).astype(np.uint32),
    "bounds": np.array([[2**31 - 1, -(2**31), 0, -1] * 10], np.int32),
    "three dimensions": r.integers(0, 4, (3, 40, 5)).astype(np.float32),
    "reversed": r.standard_normal((40, 41)).astype(np.float32)[::-1, ::-1].T,
    "one line": r.integers(0, 9, 200).astype(np.float32),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_order_by_keys_is_the_stable_order(name):
    x = ARRAYS[name]
    for dim in range(x.ndim):
        assert _fits_keys(x, dim)
        found = _order_by_keys(x, dim)
        assert found.dtype == np.int64
        assert found.flags.c_contiguous
        np.testing.assert_array_equal(found, np.argsort(x, axis=dim, kind="stable"))


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("descending", [False, True])
def test_sort_of_long_lines_gives_values_and_stable_positions(name, descending):
    x = ARRAYS[name]
    if x.dtype == np.uint32:
        x = x.astype(np.int64)
    values, places = nd.sort(nd.tensor(x), dim=-1, descending=descending)
    places = places.numpy()
    np.testing.assert_array_equal(values.numpy(), np.take_along_axis(x, places, -1))
    turned = x[..., ::-1] if descending else x
    expected = np.argsort(turned, axis=-1, kind="stable")
    if descending:
        expected = x.shape[-1] - 1 - expected[..., ::-1]
    np.testing.assert_array_equal(places, expected)


def test_arrays_without_keys():
    for x in (np.zeros(40), np.zeros(40, np.float16), np.zeros(40, np.complex64), np.zeros((0, 40), np.float32)):
        assert not _fits_keys(x, x.ndim - 1)
    assert not _fits_keys(np.zeros(40, ">f4"), 0)
