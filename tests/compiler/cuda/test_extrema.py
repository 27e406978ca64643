"""Extreme elements and their positions by the kernel of a device, on the processor, compared with NumPy."""

from __future__ import annotations

import shutil

import ml_dtypes
import numpy as np
import pytest

from ndgrad._src.compiler.cuda import extrema, launch
from tests.compiler.cuda import emulator
from tests.compiler.cuda.test_sums import Held

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="there is no C++ compiler")
r = np.random.default_rng(5)


@pytest.fixture(autouse=True)
def on_the_processor(monkeypatch):
    extrema._kernel.cache_clear()
    monkeypatch.setattr(launch, "Kernel", emulator.Kernel)
    monkeypatch.setattr(launch, "new", lambda shape, dtype: Held(np.zeros(shape, dtype)))
    yield
    extrema._kernel.cache_clear()


@pytest.mark.parametrize("dtype", [np.float32, np.float64, ml_dtypes.bfloat16, np.int64])
@pytest.mark.parametrize(("shape", "dim"), [((5, 70), 1), ((2, 1100), 1), ((37, 45), 0), ((2, 9, 33), 1)])
def test_the_first_of_equals_and_the_first_nan(shape, dim, dtype):
    x = r.integers(-4, 4, shape).astype(dtype)
    if np.dtype(dtype).kind == "f":
        x[r.random(shape) < 0.01] = np.nan
        x[r.random(shape) < 0.05] = -np.inf
    wide = x.astype(np.float64)
    for name, by in (("max", "argmax"), ("min", "argmin")):
        want = getattr(wide, by)(axis=dim, keepdims=True)  # NumPy finds the first NaN, too
        values, places = extrema.OPS[name]((Held(x),), {"dim": dim, "keepdim": True})
        np.testing.assert_array_equal(places.array, want)
        np.testing.assert_array_equal(values.array.astype(float), np.take_along_axis(wide, want, dim))
        np.testing.assert_array_equal(extrema.OPS[by]((Held(x),), {"dim": dim}).array, want.squeeze(dim))
        alone = extrema.OPS[f"a{name}"]((Held(x),), {"dim": (dim,), "keepdim": False})
        np.testing.assert_array_equal(alone.array.astype(float), np.take_along_axis(wide, want, dim).squeeze(dim))


def test_other_arrays_are_left_to_the_general_path():
    x = Held(np.ones((3, 4), np.float32))
    assert extrema.OPS["amax"]((x,), {"dim": (0, 1)}) is None
    assert extrema.OPS["max"]((Held(np.ones((3, 4), np.complex64)),), {"dim": 0}) is None
    assert extrema.OPS["argmax"]((Held(np.ones(1 << 15, np.float32)),), {"dim": 0}) is None
