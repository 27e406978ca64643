"""Attention by tiles on tensor cores, beside attention of single precision; over the stand-in, on the processor."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import ndgrad
from ndgrad._src.arrays import device_kernels
from ndgrad._src.compiler.cuda import half_attention as tiled
from tests.compiler.cuda import emulator

cupy = pytest.importorskip("cupy")
ON_GPU = device_kernels.kernels() is not None
if not ON_GPU and shutil.which("g++") is None:
    pytest.skip("there is neither a GPU nor a C++ compiler", allow_module_level=True)


@pytest.fixture(autouse=True)
def kernels(monkeypatch):
    if not ON_GPU:
        monkeypatch.setattr(tiled.launch, "Kernel", emulator.Kernel)
        monkeypatch.setattr(tiled.launch, "capability", lambda device: 80)
        tiled._kernel.cache_clear()
    yield
    if not ON_GPU:
        tiled._kernel.cache_clear()


def draw(*shape, seed, dtype):
    array = np.random.default_rng(seed).standard_normal(shape)
    return ndgrad.tensor(array).to(dtype).to("cuda")._array


def single(array):
    return np.asarray(cupy.asnumpy(array)).astype(np.float64)


def expected(g, q, k, v, is_causal, scale):
    """Result and gradients in double precision."""
    g, q, k, v = map(single, (g, q, k, v))
    z = q @ k.swapaxes(-1, -2) * scale
    if is_causal:
        z = np.where(np.arange(z.shape[-1]) <= np.arange(z.shape[-2])[:, None], z, -np.inf)
    p = np.exp(z - z.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    h = g @ v.swapaxes(-1, -2)
    h = p * (h - (p * h).sum(-1, keepdims=True)) * scale
    return p @ v, h @ k, h.swapaxes(-1, -2) @ q, p.swapaxes(-1, -2) @ g


def check(g, q, k, v, is_causal):
    scale = 0.3
    assert tiled.takes(q, k, v, scale)
    out, logs = tiled.attention(q, k, v, is_causal, scale)
    found = out, *tiled.attention_gradients(g, q, k, v, is_causal, scale, out, logs)
    tolerance = 0.02 if q.dtype.char == "E" else 0.003
    for got, want in zip(found, expected(g, q, k, v, is_causal, scale), strict=True):
        np.testing.assert_allclose(single(got).reshape(want.shape), want, rtol=0, atol=tolerance * np.abs(want).max())


@pytest.mark.parametrize(
    ("dtype", "queries", "keys", "size", "is_causal"),
    [
        ("bfloat16", 64, 64, 64, True),
        ("bfloat16", 100, 130, 32, False),
        ("float16", 130, 130, 16, True),
        ("float16", 70, 40, 16, True),
        ("float16", 40, 70, 16, True),
        ("float16", 200, 70, 24, False),
        ("bfloat16", 130, 40, 72, True),
    ],
)
def test_results_and_gradients(dtype, queries, keys, size, is_causal):
    dtype = getattr(ndgrad, dtype)
    q, g = (draw(1, 2, queries, size, seed=s, dtype=dtype) for s in (1, 2))
    k, v = (draw(1, 2, keys, size, seed=s, dtype=dtype) for s in (3, 4))
    check(g, q, k, v, is_causal)


@pytest.mark.parametrize(
    ("dtype", "queries", "keys", "size", "is_causal"),
    [("bfloat16", 100, 70, 64, True), ("float16", 40, 130, 64, False), ("bfloat16", 70, 70, 128, True)],
)
def test_products_by_groups_of_warps(dtype, queries, keys, size, is_causal, monkeypatch):
    """The path of devices of compute capability 9.0. Other GPUs use the path by warps."""
    if not ON_GPU:
        monkeypatch.setattr(tiled.launch, "capability", lambda device: 90)
    dtype = getattr(ndgrad, dtype)
    q, g = (draw(1, 1, queries, size, seed=s, dtype=dtype) for s in (1, 2))
    k, v = (draw(1, 1, keys, size, seed=s, dtype=dtype) for s in (3, 4))
    check(g, q, k, v, is_causal)


def test_heads_that_lie_side_by_side():
    """Queries, keys and values as parts of one array, as models have them."""
    whole = draw(2, 70, 3, 2, 16, seed=5, dtype=ndgrad.float16)
    q, k, v = (whole[:, :, i].transpose(0, 2, 1, 3) for i in range(3))
    g = draw(2, 70, 2, 16, seed=6, dtype=ndgrad.float16).transpose(0, 2, 1, 3)
    check(g, q, k, v, True)


def test_what_is_not_taken():
    q = draw(1, 1, 8, 20, seed=1, dtype=ndgrad.float16)
    assert not tiled.takes(q, q, q, 1.0)
    assert not tiled.takes(*[a.astype(np.float32) for a in [draw(1, 1, 8, 16, seed=1, dtype=ndgrad.float16)] * 3], 1.0)
