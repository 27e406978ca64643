"""`grid_sample` by the kernels of a device, on the processor, beside native code."""

from __future__ import annotations

import shutil
from itertools import product

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native code needs llvmlite")

from ndgrad._src.compiler.cuda import launch, sampling
from ndgrad._src.compiler.kernels import sampling as native
from tests.compiler.cuda import emulator
from tests.compiler.cuda.test_sums import Held as Plain
from tests.examples import few

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="there is no C++ compiler")
r = np.random.default_rng(3)
KINDS = [*product(("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection"))]
#: Each kind with one alignment, then each with the other one, which only a long run takes: a case compiles four kernels.
WAYS = few(len(KINDS), [(*kind, (k % 2 == 0) is first) for first in (True, False) for k, kind in enumerate(KINDS)])


class Held(Plain):
    def fill(self, value):
        self.array.fill(value)


@pytest.mark.parametrize("how", WAYS, ids=str)
def test_values_and_gradients_equal_native_code(how, monkeypatch):
    monkeypatch.setattr(launch, "Kernel", emulator.Kernel)
    monkeypatch.setattr(launch, "new", lambda shape, dtype: Held(np.full(shape, np.nan, dtype)))
    sampling._kernel.cache_clear()
    for axes in (2, 3) if how[0] != "bicubic" else (2,):
        x, grid = r.standard_normal((2, 3, 4, 5, 3)[: axes + 2]), r.uniform(-1.7, 1.7, (2, *(9, 5, 2)[:axes], axes))
        grid.reshape(-1)[3] = 40.0
        g = r.standard_normal((2, 3, *grid.shape[1:-1]))
        for what, arrays in (("values", (x, grid)), ("gradient", (x, grid, g))):
            found = sampling.run_sampling(what, [Held(a) for a in arrays], how)
            for got, want in zip(found, native.run_sampling(what, arrays, how), strict=True):
                np.testing.assert_allclose(got.array, want, atol=1e-12)
    sampling._kernel.cache_clear()
