"""Products of matrices by kernels, compared with NumPy's in double precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ndgrad._src.arrays import native_kernels
from ndgrad._src.foundations import registry
from ndgrad._src.ops.product import multiply_matrices


def draw(rows: int, columns: int, layout: str, dtype: Any) -> np.ndarray:
    values = np.random.default_rng(rows + columns).standard_normal((rows, columns)).astype(dtype)
    if layout == "columns":
        return np.asfortranarray(values)
    if layout == "spread":
        wide = np.zeros((2 * rows, columns + 5), dtype)
        wide[::2, 5:] = values
        return wide[::2, 5:]
    return values


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("left", ["rows", "columns", "spread"])
@pytest.mark.parametrize("right", ["rows", "columns", "spread"])
def test_product_equals_that_of_numpy(left: str, right: str, dtype: Any) -> None:
    if native_kernels.kernels() is None:
        pytest.skip("without native kernels")
    a, b = draw(70, 200, left, dtype), draw(200, 130, right, dtype)
    found = registry.eager_kernels.multiply(a, b)
    assert found.dtype == dtype
    assert found.flags.c_contiguous
    wide = a.astype(np.float64) @ b.astype(np.float64)
    bound = 4 * np.finfo(dtype).eps * (np.abs(a.astype(np.float64)) @ np.abs(b.astype(np.float64)))
    assert (np.abs(found - wide) <= bound).all()
    np.testing.assert_allclose(multiply_matrices(a, b), found, rtol=1e-3 if dtype == np.float32 else 1e-12, atol=1e-4)


def test_infinite_and_missing_values_spread_as_in_numpy() -> None:
    a, b = draw(70, 200, "rows", np.float64), draw(200, 130, "columns", np.float64)
    a[3, 5], a[4, 6], b[7, 8] = np.inf, np.nan, -np.inf
    expected = np.where(np.isfinite(wanted := a.dot(b)), 0.0, wanted)
    found = multiply_matrices(a, b)
    np.testing.assert_array_equal(np.where(np.isfinite(found), 0.0, found), expected)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (np.ones((64, 128)), np.ones((128, 128), np.float32)),
        (np.ones((64, 128), np.int64), np.ones((128, 128), np.int64)),
        (np.ones((64, 128), np.complex128), np.ones((128, 128), np.complex128)),
        (np.ones((64, 256))[:, ::2], np.ones((128, 128))),
        (np.broadcast_to(np.ones(128), (64, 128)), np.ones((128, 128))),
        (np.ones((0, 128)), np.ones((128, 128))),
        (np.ones((64, 0)), np.ones((0, 128))),
        (np.ones((128, 128))[::-1, ::-1], np.ones((128, 128))),
    ],
)
def test_other_matrices_are_left_to_numpy(a: np.ndarray, b: np.ndarray) -> None:
    found = multiply_matrices(a, b)
    np.testing.assert_array_equal(found, a @ b)
    assert found.dtype == (a @ b).dtype


def test_a_mismatch_raises_the_error_of_numpy() -> None:
    with pytest.raises(ValueError, match="not aligned"):
        multiply_matrices(np.ones((128, 128)), np.ones((64, 128)))
