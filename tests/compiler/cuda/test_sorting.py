"""Sorting and selection by the kernels of a device, on the processor, compared with NumPy's stable sort."""

from __future__ import annotations

import shutil

import ml_dtypes
import numpy as np
import pytest

from ndgrad._src.compiler.cuda import launch, sorting
from tests.compiler.cuda import emulator
from tests.compiler.cuda.test_sums import Held

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="there is no C++ compiler")
r = np.random.default_rng(5)
DTYPES = [np.float32, np.float64, ml_dtypes.bfloat16, np.int64, np.bool_]


@pytest.fixture(autouse=True)
def on_the_processor(monkeypatch):
    sorting._kernel.cache_clear()
    monkeypatch.setattr(launch, "Kernel", emulator.Kernel)
    monkeypatch.setattr(launch, "new", lambda shape, dtype: Held(np.zeros(shape, dtype)))
    monkeypatch.setattr(launch, "shaped", lambda x, shape: Held(x.array.reshape(shape)))
    monkeypatch.setattr(sorting, "_TILE_BYTES", 32 * 8)  # Short lines need merging then.
    yield
    sorting._kernel.cache_clear()


def _draw(shape, dtype):
    """Numbers with ties, both zeros, infinities and NaN."""
    x = r.integers(-9, 9, shape).astype(np.float64)
    if np.dtype(dtype).kind in "fV":
        x[r.random(shape) < 0.1] = -0.0
        x[r.random(shape) < 0.05] = np.nan
        x[r.random(shape) < 0.05] = -np.inf
    return np.abs(x).astype(dtype) if np.dtype(dtype).kind == "u" else x.astype(dtype)


def _stable_order(x, dim, descending):
    wide = x.astype(np.float64)
    if not descending:
        return np.argsort(wide, axis=dim, kind="stable")
    nan_first = np.where(np.isnan(wide), -np.inf, -wide)
    keys = np.where(np.isnan(wide), 0, 1)
    return np.lexsort((np.broadcast_to(nan_first, x.shape), keys), axis=dim)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("shape", "dim"), [((3, 20), 1), ((2, 150), 1), ((45, 3), 0)])
@pytest.mark.parametrize("descending", [False, True])
def test_sort_is_stable_and_puts_nan_above_all(shape, dim, descending, dtype):
    x = _draw(shape, dtype)
    values, places = sorting.sort((Held(x),), {"dim": dim, "descending": descending, "kind": "stable"})
    want = _stable_order(x, dim, descending)
    np.testing.assert_array_equal(places.array, want)
    np.testing.assert_array_equal(values.array.astype(float), np.take_along_axis(x, want, dim).astype(float))
    only = sorting.argsort((Held(x),), {"dim": dim, "descending": descending, "kind": "stable"})
    np.testing.assert_array_equal(only.array, want)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64])
@pytest.mark.parametrize(("shape", "dim", "k"), [((1300, 2), 0, 3), ((2, 1100), 1, 1100), ((2, 70), 1, 1)])
@pytest.mark.parametrize("largest", [False, True])
def test_topk_takes_the_first_of_equals(shape, dim, k, largest, dtype):
    x = _draw(shape, dtype)
    x = np.where(r.random(shape) < 0.5, x, x.dtype.type(3)).astype(dtype)
    values, places = (a.array for a in sorting.topk((Held(x),), {"k": k, "dim": dim, "largest": largest}))
    want = np.take(_stable_order(x, dim, largest), range(k), dim)
    np.testing.assert_array_equal(places, want)
    np.testing.assert_array_equal(values.astype(float), np.take_along_axis(x, want, dim).astype(float))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize(("shape", "dim"), [((3, 200), 1), ((5, 1), 1)])
def test_ranks_and_medians(shape, dim, dtype):
    x = _draw(shape, dtype)
    order = _stable_order(x, dim, False)
    k = shape[dim] // 3 + 1
    for keep in (False, True):
        _, places = sorting.kthvalue((Held(x),), {"k": k, "dim": dim, "keepdim": keep})
        want = np.take(order, [k - 1], dim)
        np.testing.assert_array_equal(places.array, want if keep else want.squeeze(dim))
    wide = x.astype(float)
    nan = np.isnan(wide)
    places = sorting.median((Held(x),), {"dim": dim, "keepdim": True})[1].array
    middle = np.take(order, [(shape[dim] - 1) // 2], dim)
    np.testing.assert_array_equal(places, np.where(nan.any(dim, keepdims=True), nan.argmax(dim, keepdims=True), middle))
    places = sorting.nanmedian((Held(x),), {"dim": dim, "keepdim": True})[1].array
    valid = shape[dim] - nan.sum(dim, keepdims=True)
    np.testing.assert_array_equal(places, np.take_along_axis(order, np.maximum((valid - 1) // 2, 0), dim))
    flat = np.sort(wide[~nan])
    assert sorting.nanmedian_all((Held(x),), {}).array == flat[(flat.size - 1) // 2]
    whole = sorting.median_all((Held(x),), {}).array.item()
    assert np.isnan(whole) if nan.any() else whole == flat[(flat.size - 1) // 2]


def test_other_arrays_are_left_to_the_general_path():
    assert sorting.sort((Held(np.ones(3, np.complex64)),), {"dim": 0, "descending": False}) is None
    assert sorting.topk((Held(np.ones((3, 4), np.float32)),), {"k": 0, "dim": 1, "largest": True}) is None
