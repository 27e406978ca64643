"""Layers of recurrent networks by the kernels of a device, on the processor, compared with the op's function for NumPy."""

from __future__ import annotations

import ctypes
import shutil

import numpy as np
import pytest

from ndgrad._src.compiler.cuda import launch, recurrent
from ndgrad._src.ops import recurrent_layer
from tests.compiler.cuda import emulator
from tests.compiler.cuda.test_sums import Held

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="there is no C++ compiler")
r = np.random.default_rng(3)


class Product:
    """In the place of cuBLAS: the product of rows at an address with a matrix."""

    def __init__(self, w, transposed, adds):
        self.w, self.adds = w.array.T if transposed else w.array, adds

    def _view(self, address, rows, columns):
        kind = ctypes.c_float if self.w.dtype == np.float32 else ctypes.c_double
        return np.ctypeslib.as_array((kind * (rows * columns)).from_address(address)).reshape(rows, columns)

    def __call__(self, rows, given, to):
        product = self._view(given, rows, self.w.shape[0]) @ self.w
        target = self._view(to, rows, self.w.shape[1])
        target[...] = target + product if self.adds else product


@pytest.fixture(autouse=True)
def on_the_processor(monkeypatch):
    recurrent._kernel.cache_clear()
    monkeypatch.setattr(launch, "Kernel", emulator.Kernel)
    monkeypatch.setattr(launch, "new", lambda shape, dtype: Held(np.full(shape, np.nan, dtype)))
    monkeypatch.setattr(recurrent, "_copy", lambda x: Held(x.array.copy()))
    monkeypatch.setattr(recurrent, "_Product", Product)
    yield
    recurrent._kernel.cache_clear()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("mode", ["LSTM", "GRU", "RNN_TANH", "RNN_RELU"])
def test_steps_with_fewer_and_fewer_rows(mode, reverse, bias, dtype):
    sizes, size = (4, 4, 3, 1), 5
    width, total = recurrent_layer.GATES[mode] * size, sum(sizes)
    x, first, w, b = (r.standard_normal(s).astype(dtype) for s in ((total, width), (4, size), (width, size), (width,)))
    cell = r.standard_normal((4, size)).astype(dtype) if mode == "LSTM" else None
    settings = {"mode": mode, "sizes": sizes, "reverse": reverse}
    want = recurrent_layer._layer(np, x, first, cell, w, b if bias else None, **settings)
    held = [None if a is None else Held(a) for a in (x, first, cell, w, b if bias else None)]
    got = recurrent.layer(mode, *held, tuple(recurrent_layer.each_step(sizes, reverse)))
    tolerance = 1e-12 if dtype == np.float64 else 1e-5
    for a, b_ in zip((*got[:3], *got[4:]), (*want[:3], *want[4:]), strict=True):  # the fourth: kept by the kernel only
        np.testing.assert_allclose(a.array, b_, rtol=tolerance, atol=tolerance)
    g0, g1 = r.standard_normal((total, size)).astype(dtype), r.standard_normal((4, size)).astype(dtype)
    g2 = r.standard_normal((4, size) if mode == "LSTM" else (0,)).astype(dtype)
    given = (g0, g1, g2, want[0], got[3].array, *want[4:], w)
    want = recurrent_layer._gradients(np, *given, x, b if bias else None, **settings)
    steps = tuple(recurrent_layer.each_step(sizes, not reverse))
    got = recurrent.gradients(mode, *[Held(a) for a in given], steps)
    for a, b_ in zip(got, want, strict=True):
        np.testing.assert_allclose(a.array, b_, rtol=tolerance, atol=tolerance)
