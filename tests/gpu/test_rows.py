"""Softmax, losses, normalisation, products and attention on a GPU beside the CPU, in every floating dtype."""

from __future__ import annotations

import numpy as np
import pytest

import ndgrad
import ndgrad.nn.functional as F
from tests.gpu.comparison import DTYPES, compare, draw

cupy = pytest.importorskip("cupy")

@DTYPES
@pytest.mark.parametrize("length", [7, 64, 513, 3000])
@pytest.mark.parametrize("name", ["softmax", "log_softmax", "layer_norm", "bare layer_norm", "rms_norm", "cross_entropy"])
def test_along_rows(name, length, dtype):
    x, w, b = draw(19, length), draw(length), draw(length)
    target = np.random.default_rng(0).integers(0, length, 19)
    function, arrays = {
        "softmax": (lambda x: F.softmax(x, -1), [x]),
        "log_softmax": (lambda x: F.log_softmax(x, -1), [x]),
        "layer_norm": (lambda x, w, b: F.layer_norm(x, (length,), w, b), [x, w, b]),
        "bare layer_norm": (lambda x: F.layer_norm(x, (length,)), [x]),
        "rms_norm": (lambda x, w: F.rms_norm(x, (length,), w), [x, w]),
        "cross_entropy": (F.cross_entropy, [x, target]),
    }[name]
    compare(function, arrays, dtype)


@DTYPES
def test_along_another_dimension(dtype):
    compare(lambda x: F.softmax(x, 0) * F.log_softmax(x, 0), [draw(40, 6)], dtype)


@DTYPES
def test_products(dtype):
    compare(F.linear, [draw(3, 33, 64), draw(48, 64), draw(48)], dtype)
    compare(lambda x, y: x @ y, [draw(3, 33, 64), draw(3, 64, 20)], dtype)
    compare(lambda x, y: x @ y, [draw(33, 64), draw(64, 20)], dtype)


@DTYPES
@pytest.mark.parametrize("is_causal", [False, True])
def test_attention(is_causal, dtype):
    q, k, v = draw(2, 4, 50, 16), draw(2, 4, 50, 16)[..., ::-1].copy(), draw(2, 4, 50, 8)
    compare(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=is_causal), [q, k, v], dtype)


@DTYPES
def test_attention_over_views_in_parts_and_with_a_mask(dtype, monkeypatch):
    attention = pytest.importorskip("ndgrad._src.compiler.cuda.attention")
    monkeypatch.setattr(attention, "_WORKSPACE", 1 << 12)
    qkv, mask = draw(2, 20, 3, 4, 8), draw(20, 20) > -1

    def parts(x):
        q, k, v = x.permute(2, 0, 3, 1, 4)
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.7)

    compare(parts, [qkv], dtype)
    q = draw(2, 20, 8)
    compare(lambda q, m: F.scaled_dot_product_attention(q, q * 0.5, q, attn_mask=m), [q, mask], dtype)
    compare(lambda q: F.scaled_dot_product_attention(q[:, :5], q, q[..., :3], is_causal=True), [q], dtype)


def test_rows_of_special_values():
    x = np.array([[np.nan, 1.0, 2.0], [np.inf, 1.0, 2.0], [-np.inf, -np.inf, -np.inf], [-np.inf, 0.0, 1.0], [800.0, 0.0, -800.0]])
    for function in (F.softmax, F.log_softmax):
        got, want = (function(ndgrad.tensor(x, device=device), -1).cpu().numpy() for device in ("cuda", "cpu"))
        np.testing.assert_allclose(got, want, rtol=1e-12)
