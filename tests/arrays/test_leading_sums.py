"""Sums over leading dimensions: the same numbers as NumPy's, for any dtype, memory order and shape."""

from __future__ import annotations

import numpy as np
import pytest

from ndgrad._src.arrays.leading_sums import sum_leading

SHAPES = ((3,), (3, 4), (1, 4), (4, 1), (0, 4), (4, 0), (2, 3, 4), (2, 3, 1), (2, 0, 4), (2, 1, 1, 5), (4097, 2), (2, 2500, 3), (3, 2, 0))
LAYOUTS = {
    "rows": lambda a: a,
    "columns": np.asfortranarray,
    "reversed": lambda a: a[::-1],
    "strided": lambda a: np.repeat(a, 2, axis=-1)[..., ::2],
    "read-only": lambda a: np.frombuffer(a.tobytes(), a.dtype).reshape(a.shape) if a.size else a,
    "broadcast": lambda a: np.broadcast_to(a[:1], a.shape) if len(a) else a,
}


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ">f8", "c8", "c16", "i4", "u1", "?", "g"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_sum_leading_is_numpys_sum(dtype, layout):
    for shape in SHAPES:
        x = LAYOUTS[layout](np.random.default_rng(0).integers(-3, 4, shape).astype(dtype))  # exact in every dtype
        for count in range(1, len(shape) + 1):
            wide = np.float32 if dtype == "f2" else None  # halves are added in single precision
            found, expected = sum_leading(x, count), x.sum(axis=tuple(range(count)), dtype=wide)
            expected = expected.astype(dtype) if wide else expected
            assert found.dtype == expected.dtype
            np.testing.assert_array_equal(found, expected, strict=True)


def test_the_sum_is_memory_of_its_own():
    x = np.ones((1, 3))
    found = sum_leading(x, 1)
    found += 1.0
    np.testing.assert_array_equal(x, 1.0)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_what_is_not_finite_stays_in_its_column(value):
    x = np.ones((4, 3))
    x[1, 1] = value
    np.testing.assert_array_equal(sum_leading(x, 1), [4.0, value, 4.0])
