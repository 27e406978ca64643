"""Attention whose scores and pairs functions choose: against the plain formula, with gradients, in transforms."""

from __future__ import annotations

import numpy as np
import pytest

import ndgrad
from ndgrad.nn.attention.flex_attention import create_block_mask, flex_attention


def draw(*shape):
    return ndgrad.tensor(np.random.default_rng(len(shape)).standard_normal(shape))


def plain(q, k, v, bias):
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]) + bias
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True) @ v


def test_scores_are_changed_pair_by_pair():
    q, k, v = draw(2, 3, 4, 5), draw(2, 3, 6, 5), draw(2, 3, 6, 2)
    distance = -np.abs(np.arange(4)[:, None] - np.arange(6)) * (1.0 + np.arange(3))[:, None, None]
    out = flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s - (i - j).abs() * (h + 1))
    np.testing.assert_allclose(out.numpy(), plain(q.numpy(), k.numpy(), v.numpy(), distance), rtol=1e-10)


def test_gradients_pass_through_scores_and_what_the_function_closes_over():
    q, k, v, slopes = (t.requires_grad_() for t in (draw(1, 2, 3, 2), draw(1, 2, 3, 2), draw(1, 2, 3, 2), draw(2)))
    causal = create_block_mask(lambda b, h, i, j: i >= j, None, None, 3, 3)

    def f(q, k, v, slopes):
        return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s + slopes[h] * (i - j), block_mask=causal)

    assert ndgrad.autograd.gradcheck(f, (q, k, v, slopes))


def test_queries_that_look_at_nothing_get_zeros_and_no_gradient():
    q, k, v = (draw(1, 1, 3, 2).requires_grad_() for _ in range(3))
    mask = create_block_mask(lambda b, h, i, j: i > j, None, None, 3, 3)
    out = flex_attention(q, k, v, block_mask=mask)
    out.sum().backward()
    assert (out[0, 0, 0] == 0).all()
    assert (q.grad[0, 0, 0] == 0).all()
    assert not any(t.grad.isnan().any() for t in (q, k, v))


def test_a_mask_for_other_lengths_is_refused():
    mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, 3, 3)
    with pytest.raises(ValueError, match="made for"):
        flex_attention(*(draw(1, 1, 4, 2) for _ in range(3)), block_mask=mask)


def test_block_size_of_masks_has_the_name_that_libraries_import() -> None:
    from ndgrad.nn.attention.flex_attention import _DEFAULT_SPARSE_BLOCK_SIZE, create_block_mask

    assert _DEFAULT_SPARSE_BLOCK_SIZE == 128
    mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, 200, 200)
    assert mask.BLOCK_SIZE == (128, 128)
    assert mask.kv_num_blocks.shape == (1, 1, 2)
