"""Weighted sums and maxima over taps by the kernels of a device, on the processor."""

from __future__ import annotations

import shutil
import types

import numpy as np
import pytest

from ndgrad._src.arrays import library, native_kernels, pooling
from ndgrad._src.arrays import taps as arrays
from ndgrad._src.compiler.cuda import launch, taps
from ndgrad._src.ops import resample
from tests.compiler.cuda import emulator
from tests.compiler.cuda.test_sums import Held

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="there is no C++ compiler")
r = np.random.default_rng(3)


@pytest.fixture(autouse=True)
def on_the_processor(monkeypatch):
    caches = [taps._kernel, taps._lists]
    for cache in caches:
        cache.cache_clear()
    monkeypatch.setattr(launch, "Kernel", emulator.Kernel)
    monkeypatch.setattr(launch, "new", lambda shape, dtype: Held(np.full(shape, -7, dtype)))
    monkeypatch.setattr(library, "device_library", types.SimpleNamespace(asarray=Held, ndarray=Held))
    with native_kernels.kernels_in_use(False):
        yield
    for cache in caches:
        cache.cache_clear()


MAPS = {
    "linear": (resample.linear_taps(6, 11, 6 / 11, False), resample.linear_taps(9, 5, 9 / 5, True)),
    "reflection": (resample.border_taps(6, 2, 1, "reflect"), resample.border_taps(9, 3, 0, "reflect")),
    "means": pooling.adaptive_taps((1, 1, 6, 9), (4, 2)),
    "few large windows": pooling.adaptive_taps((1, 1, 20, 31), (2, 3)),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("is_transposed", [False, True], ids=["forward", "transposed"])
def test_sums_equal_numpy(name, dtype, is_transposed):
    maps = arrays.transposed(MAPS[name]) if is_transposed else MAPS[name]
    sizes = [t.inputs for t in maps]
    for shape, dim in (((2, 3, *sizes), (2, 3)), ((2, *sizes, 3), (1, 2))):
        x = r.standard_normal(shape).astype(dtype)
        found = taps.weighted_sum(Held(x), dim, maps).array
        np.testing.assert_allclose(found, arrays.weighted_sum(np, x, dim, maps), rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["means", "few large windows"])
def test_maxima_equal_numpy_with_ties_and_nan(name):
    maps = MAPS[name]
    x = r.integers(0, 4, (2, 3, *[t.inputs for t in maps])).astype(np.float32)
    x[0, 1, 2, 3:6] = np.nan
    x[1, 0] = -np.inf
    found = taps.maxima(Held(x), (2, 3), maps)
    for got, want in zip(found, arrays.maxima(np, x, maps), strict=True):
        np.testing.assert_array_equal(got.array, want)
