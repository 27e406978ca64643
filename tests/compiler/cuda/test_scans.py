"""Scans by the kernels of a device, on the processor, compared with loops over the elements."""

from __future__ import annotations

import shutil

import ml_dtypes
import numpy as np
import pytest

from ndgrad._src.compiler.cuda import launch, scans
from tests.compiler.cuda import emulator
from tests.compiler.cuda.test_sums import Held

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="there is no C++ compiler")
r = np.random.default_rng(5)
#: (shape, dim): a last dimension shorter and longer than a tile, and others of few and of many lines.
LAYOUTS = [((3, 70), 1), ((2, 2100), 1), ((2, 150, 5), 1), ((300, 3), 0), ((1,), 0)]
TOLERANCES = {"float64": 1e-12, "float32": 1e-6, "float16": 2e-3, "bfloat16": 2e-2}


@pytest.fixture(autouse=True)
def on_the_processor(monkeypatch):
    scans._kernel.cache_clear()
    monkeypatch.setattr(launch, "Kernel", emulator.Kernel)
    monkeypatch.setattr(launch, "new", lambda shape, dtype: Held(np.full(shape, -7, dtype)))
    yield
    scans._kernel.cache_clear()


def _compare(got, want, dtype):
    tolerance = TOLERANCES[np.dtype(dtype).name]
    np.testing.assert_allclose(got.array.astype(np.float64), want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize(("shape", "dim"), LAYOUTS)
def test_sums_and_products_equal_numpy_in_both_directions(shape, dim, dtype):
    x = (1 + r.standard_normal(shape) / 100).astype(dtype)
    wide = x.astype(np.float64)
    for run, ufunc in ((scans.cumsum, np.add), (scans.cumprod, np.multiply)):
        _compare(run((Held(x),), {"dim": dim, "reverse": False}), ufunc.accumulate(wide, dim), dtype)
        want = np.flip(ufunc.accumulate(np.flip(wide, dim), dim), dim)
        _compare(run((Held(x),), {"dim": dim, "reverse": True}), want, dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("shape", "dim"), LAYOUTS)
def test_recurrences_and_logarithms_equal_sequences(shape, dim, dtype):
    a, b = r.standard_normal(shape).astype(dtype), r.standard_normal(shape).astype(dtype)
    want, factors = np.moveaxis(b.astype(np.float64), dim, 0).copy(), np.moveaxis(a.astype(np.float64), dim, 0)
    for k in range(1, len(want)):
        want[k] += factors[k] * want[k - 1]
    _compare(scans.linear_recurrence((Held(a), Held(b)), {"dim": dim, "reverse": False}), np.moveaxis(want, 0, dim), dtype)
    b.flat[0] = -np.inf
    want = np.logaddexp.accumulate(b.astype(np.float64), dim)
    _compare(scans.logcumsumexp((Held(b),), {"dim": dim}), want, dtype)


@pytest.mark.parametrize("run", [scans.cummax, scans.cummin])
@pytest.mark.parametrize(("shape", "dim"), LAYOUTS)
def test_extrema_take_the_last_of_equals_and_of_nan(shape, dim, run):
    x = r.integers(0, 5, shape).astype(np.float32)
    x[r.random(shape) < 0.01] = np.nan
    values, places = run((Held(x),), {"dim": dim})
    lines = np.moveaxis(x, dim, -1).reshape(-1, shape[dim])
    for line, got, place in zip(lines, *[np.moveaxis(v.array, dim, -1).reshape(lines.shape) for v in (values, places)], strict=True):
        best = 0
        for k, v in enumerate(line):
            wins = v >= line[best] if run is scans.cummax else v <= line[best]
            best = k if v != v or wins else best
            assert place[k] == best
            assert got[k] == line[best] or (line[best] != line[best] and got[k] != got[k])


def test_a_zero_absorbs_later_factors_that_overflow_together():
    x = np.full((2, 300), 1e200)
    x[0, 0] = 0.0
    with np.errstate(over="ignore"):
        want = np.multiply.accumulate(x, 1)
    np.testing.assert_array_equal(scans.cumprod((Held(x),), {"dim": 1}).array, want)
    b = np.zeros((2, 300))
    b[1, 0] = 1.0
    x[:, 0] = np.inf
    h = scans.linear_recurrence((Held(x), Held(b)), {"dim": 1}).array
    assert (h[0] == 0).all()
    assert h[1, 1] == 1e200
    assert np.isinf(h[1, 5:]).all()


def test_other_arrays_are_left_to_the_general_path():
    assert scans.cumsum((Held(np.arange(6)),), {"dim": 0, "dtype": None}) is None
    assert scans.cumsum((Held(np.ones(6, np.float32)),), {"dim": 0, "dtype": np.float64}) is None
    assert scans.cumsum((Held(np.ones(1 << 15, np.float32)),), {"dim": 0, "dtype": None}) is None
