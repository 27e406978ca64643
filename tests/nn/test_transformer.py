"""Layers of transformers."""

from __future__ import annotations

import math

import numpy as np
import pytest

import ndgrad
from ndgrad import nn


@pytest.mark.parametrize("kind", ["bool", "float", "in the middle", "scores"])
def test_padding_is_left_out_alike_however_an_encoder_is_run(kind):
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0)
    encoder = nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(8)).eval()
    x = ndgrad.randn(2, 5, 8)
    mask = ndgrad.tensor([[False] * 5, [False, False, False, True, True]])
    if kind == "in the middle":
        mask = mask.flip(1)
    if kind in ("float", "scores"):
        mask = ndgrad.zeros(2, 5).masked_fill(mask, -math.inf if kind == "float" else -1.0)
    with ndgrad.no_grad():
        want = encoder(x, src_key_padding_mask=mask)
        compiled = ndgrad.compile(encoder)
        for _ in range(2):
            np.testing.assert_allclose(compiled(x, src_key_padding_mask=mask), want, atol=1e-5)
        batched = ndgrad.vmap(lambda x: encoder(x, src_key_padding_mask=mask))(x[None])
        np.testing.assert_allclose(batched[0], want, atol=1e-5)
