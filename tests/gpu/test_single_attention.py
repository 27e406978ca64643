"""Attention of single precision by tiles, beside double precision; over the stand-in, on the processor."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import ndgrad
from ndgrad._src.arrays import device_kernels
from ndgrad._src.compiler.cuda import float32_attention
from tests.compiler.cuda import emulator
from tests.gpu.test_tiled_attention import draw, expected, single

cupy = pytest.importorskip("cupy")
ON_GPU = device_kernels.kernels() is not None
if not ON_GPU and shutil.which("g++") is None:
    pytest.skip("there is neither a GPU nor a C++ compiler", allow_module_level=True)


@pytest.fixture(autouse=True)
def kernels(monkeypatch):
    if not ON_GPU:
        monkeypatch.setattr(float32_attention.launch, "Kernel", emulator.Kernel)
        monkeypatch.setattr(float32_attention.launch, "new", lambda shape, dtype: cupy.empty(shape, dtype))
        monkeypatch.setattr(float32_attention.launch, "capability", lambda device: 80)
        float32_attention._kernel.cache_clear()
    yield
    if not ON_GPU:
        float32_attention._kernel.cache_clear()


def check(g, q, k, v, is_causal, scale=0.3, tolerance=4e-6):
    assert float32_attention.takes(q, k, v, scale)
    out, logs = float32_attention.attention(q, k, v, is_causal, scale)
    found = out, *float32_attention.attention_gradients(g, q, k, v, is_causal, scale, out, logs)
    for got, want in zip(found, expected(g, q, k, v, is_causal, scale), strict=True):
        np.testing.assert_allclose(single(got).reshape(want.shape), want, rtol=0, atol=tolerance * np.abs(want).max())


@pytest.mark.parametrize(
    ("queries", "keys", "size", "is_causal"), [(64, 64, 64, True), (100, 130, 24, False), (130, 130, 8, True), (70, 40, 16, True)]
)
def test_results_and_gradients(queries, keys, size, is_causal):
    q, g = (draw(1, 2, queries, size, seed=s, dtype=ndgrad.float32) for s in (1, 2))
    k, v = (draw(1, 2, keys, size, seed=s, dtype=ndgrad.float32) for s in (3, 4))
    check(g, q, k, v, is_causal)


def test_heads_that_lie_side_by_side():
    """Queries, keys and values as parts of one array, as models have them."""
    whole = draw(2, 70, 3, 2, 16, seed=5, dtype=ndgrad.float32)
    q, k, v = (whole[:, :, i].transpose(0, 2, 1, 3) for i in range(3))
    g = draw(2, 70, 2, 16, seed=6, dtype=ndgrad.float32).transpose(0, 2, 1, 3)
    check(g, q, k, v, True)


def test_large_scores_and_scores_that_are_not_numbers():
    q, k, v = (draw(1, 1, 8, 8, seed=s, dtype=ndgrad.float32) for s in (1, 2, 3))
    # the largest weight of a row is nearly all, and a score of a hundred has as many fewer digits behind the point
    check(v, q * 30, k, v, False, tolerance=3e-5)
    out, _ = float32_attention.attention(q * -np.float32(3e37), k * 0 + 1, v, False, 1.0)
    assert np.isfinite(single(out)).all()  # each query has one score for all keys, however low
    spoilt = q.copy()
    spoilt[0, 0, 3, 2] = np.nan
    out, _ = float32_attention.attention(spoilt, k, v, False, 1.0)
    assert np.isnan(single(out)[0, 0]).any(axis=1).tolist() == [i == 3 for i in range(8)]


def test_what_is_not_taken():
    for size, dtype in ((12, ndgrad.float32), (128, ndgrad.float32), (16, ndgrad.float64), (16, ndgrad.float16)):
        q = draw(1, 1, 8, size, seed=1, dtype=dtype)
        assert not float32_attention.takes(q, q, q, 1.0)
    q = draw(1, 1, 8, 16, seed=1, dtype=ndgrad.float32)
    assert not float32_attention.takes(q, q, q, -1.0)
