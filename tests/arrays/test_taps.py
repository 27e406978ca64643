"""Kernels over tables of taps beside products with matrices, and beside NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ndgrad._src.arrays import native_kernels, pooling
from ndgrad._src.arrays.taps import Taps, add_at_positions, maxima, tables_of, transposed, weighted_sum
from ndgrad._src.ops import resample

r = np.random.default_rng(5)
DTYPES = pytest.mark.parametrize("dtype", [np.float32, np.float64])
MAPS = {
    "linear": (resample.linear_taps(13, 21, 13 / 21, False), resample.linear_taps(37, 50, 37 / 50, True)),
    "cubic": (resample.cubic_taps(13, 5, 13 / 5, False), resample.cubic_taps(37, 41, 37 / 41, False)),
    "nearest": (resample.nearest_taps(13, 7, 13 / 7, False), resample.nearest_taps(37, 80, 37 / 80, True)),
    "filtered": (resample.filtered_taps(13, 6, 13 / 6, True), resample.filtered_taps(37, 9, 37 / 9, False)),
    "reflection": (resample.border_taps(13, 2, 12, "reflect"), resample.border_taps(37, 0, 3, "reflect")),
    "cropped ring": (resample.border_taps(13, -2, 3, "circular"), resample.border_taps(37, 5, -1, "circular")),
    "adaptive": pooling.adaptive_taps((1, 1, 13, 37), (4, 5)),
    "padded means": pooling.average_taps((1, 1, 13, 37), (3, 4), (2, 3), (1, 2), True, False, None),
    "divisor": pooling.average_taps((1, 1, 13, 37), (3, 4), (1, 5), (0, 0), False, True, 7),
}


def multiply(x: Any, dim: tuple[int, ...], taps: tuple[Taps, ...]) -> Any:
    for d, t in zip(dim, taps, strict=True):
        x = np.moveaxis(np.tensordot(x.astype(np.float64), t.matrix, ((d,), (0,))), -1, d)
    return x


@DTYPES
@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("is_transposed", [False, True], ids=["forward", "transposed"])
@pytest.mark.parametrize("kernels", [False, True], ids=["numpy", "kernel"])
def test_weighted_sums_are_products_with_matrices(name: str, dtype: type, is_transposed: bool, kernels: bool) -> None:
    taps = transposed(MAPS[name]) if is_transposed else MAPS[name]
    sizes = tuple([t.inputs for t in taps])
    with native_kernels.kernels_in_use(kernels):
        # The last dimensions, inner dimensions, dimensions with a gap, and several threads.
        for shape, dim in (
            ((2, 3, *sizes), (2, 3)),
            ((2, *sizes, 5), (1, 2)),
            ((sizes[0], 2, sizes[1]), (0, 2)),
            ((40, 5, *sizes), (2, 3)),
        ):
            x = r.standard_normal(shape).astype(dtype)
            found = weighted_sum(np, x, dim, taps)
            assert found.dtype == dtype
            np.testing.assert_allclose(found, multiply(x, dim, taps), atol=1e-5 if dtype is np.float32 else 1e-13)


@pytest.mark.parametrize("kernels", [False, True], ids=["numpy", "kernel"])
def test_an_infinity_stays_in_the_outputs_that_read_it(kernels: bool) -> None:
    x = np.zeros((1, 1, 5, 40))
    x[0, 0, 2, 7] = np.inf
    taps = pooling.adaptive_taps(x.shape, (3, 9))
    reads = multiply(np.where(np.isinf(x), 1.0, 0.0), (2, 3), taps) != 0
    with native_kernels.kernels_in_use(kernels):
        assert np.array_equal(weighted_sum(np, x, (2, 3), taps), np.where(reads, np.inf, 0.0))
        back = weighted_sum(np, np.where(reads, np.inf, 0.0), (2, 3), transposed(taps))
    assert not np.isnan(back).any()


def test_means_of_equal_numbers_are_exact() -> None:
    x = np.full((2, 2, 7, 11), np.float32(0.1))
    for taps in (pooling.adaptive_taps(x.shape, (3, 3)), pooling.average_taps(x.shape, (1, 3), (1, 1), (0, 0), False, True, None)):
        three = np.float32(0.1) + np.float32(0.1) + np.float32(0.1)
        assert np.allclose(weighted_sum(np, x, (2, 3), taps), three / np.float32(3), rtol=1e-7)


@DTYPES
@pytest.mark.parametrize("sizes", [(4, 5), (13, 20), (1, 1)])
def test_maxima_of_kernel_and_numpy_are_equal(sizes: tuple[int, int], dtype: type) -> None:
    x = r.integers(0, 5, (3, 2, 13, 37)).astype(dtype)
    x[0, 1, 4, 10:14], x[2, 0, 5:9, 3], x[1, 1] = np.nan, np.nan, -np.inf
    for taps in (
        tuple([w.taps for w in pooling._adaptive_windows(x.shape, sizes)]),
        tuple([w.taps for w in pooling._regular_windows(x.shape, (3, 2), (1, 3), (1, 1), (2, 1), True)]),
    ):
        found = maxima(np, x, taps)
        with native_kernels.kernels_in_use(False):
            wanted = maxima(np, x, taps)
        for f, w in zip(found, wanted, strict=True):
            assert f.dtype == w.dtype
            np.testing.assert_array_equal(f, w)
        read = np.take_along_axis(x.reshape(3, 2, -1), found[1].reshape(3, 2, -1), 2)
        np.testing.assert_array_equal(read, found[0].reshape(3, 2, -1))


def test_positions_outside_are_left_to_numpy() -> None:
    x, index = np.ones((1, 2, 3)), np.array([[[0, 0, 3], [1, 2, 1]]])
    assert add_at_positions(x, index, (1, 2, 3)) is None
    if native_kernels.kernels() is not None:
        assert add_at_positions(x, index, (1, 2, 4)).tolist() == [[[2.0, 0.0, 0.0, 1.0], [0.0, 2.0, 1.0, 0.0]]]


def test_tables_flatten_leading_dimensions() -> None:
    taps = (Taps([[0, 1]], None, 2), Taps([[1, 0]], None, 3), Taps([[2]], None, 4))
    tables = tables_of((5, 2, 3, 4), (1, 2, 3), taps)
    assert (tables.planes, tables.plane, tables.rows, tables.width, tables.wide) == (5, 24, 4, 4, 1)
    assert tables.offset.tolist() == [4, 0, 16, 12]
