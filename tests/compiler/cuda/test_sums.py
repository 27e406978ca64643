"""Sums over rows and gradients of normalisation by the kernels of a device, on the processor: in one piece and in many."""

from __future__ import annotations

import shutil
import types

import numpy as np
import pytest

from ndgrad._src.compiler.cuda import columns, launch, rows
from tests.compiler.cuda import emulator

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="there is no C++ compiler")
r = np.random.default_rng(7)


class Held:
    """An array as kernels are given it."""

    def __init__(self, array):
        self.array = np.ascontiguousarray(array)
        self.data = types.SimpleNamespace(ptr=self.array.ctypes.data, device_id=0)
        self.shape, self.size, self.ndim, self.dtype = array.shape, array.size, array.ndim, array.dtype
        self._c_contiguous = True

    def reshape(self, shape):
        return Held(self.array.reshape(shape))


class Memory:
    def __init__(self, size):
        self.array = np.full(size, 255, np.uint8)  # reads of unwritten memory give NaN
        self.ptr = self.array.ctypes.data


@pytest.fixture(autouse=True)
def on_the_processor(monkeypatch):
    caches = [columns._kernel, rows._kernel]
    for cache in caches:
        cache.cache_clear()
    monkeypatch.setattr(launch, "Kernel", emulator.Kernel)
    monkeypatch.setattr(launch, "new", lambda shape, dtype: Held(np.full(shape, np.nan, dtype)))
    monkeypatch.setattr(launch, "allocate", Memory)
    monkeypatch.setattr(launch, "shaped", lambda x, shape: x.reshape(shape))
    yield
    for cache in caches:
        cache.cache_clear()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(5, 7), (1030, 33)])
def test_sums_over_rows(shape, dtype):
    g = r.standard_normal(shape).astype(dtype)
    np.testing.assert_allclose(columns.column_sum(Held(g)).array, g.sum(0, dtype=float), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("shape", [(1, 9, 64), (37, 3, 50)])
def test_sums_over_samples_and_places(shape):
    g = r.standard_normal(shape).astype(np.float32)
    np.testing.assert_allclose(columns.channel_sum(Held(g)).array, g.sum((0, 2), dtype=float), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("count", [6, 1030])
def test_gradients_of_layer_norm(count):
    g, x, w = r.standard_normal((count, 24)), r.standard_normal((count, 24)) + 1, r.standard_normal(24)
    eps = 1e-5
    scale = 1 / np.sqrt(x.var(1, keepdims=True) + eps)
    y, d = (x - x.mean(1, keepdims=True)) * scale, g * w
    grad = (d - d.mean(1, keepdims=True) - y * (d * y).mean(1, keepdims=True)) * scale
    found = rows.layer_norm_gradient(*[Held(a) for a in (g, x, w)], eps)
    for got, want in zip(found, (grad, (g * y).sum(0), g.sum(0)), strict=True):
        np.testing.assert_allclose(got.array, want, atol=1e-10)
