"""nn.functional under transforms: batching equals the loop, second derivatives equal differences of first ones."""

from __future__ import annotations

import numpy as np
import pytest

import ndgrad
import ndgrad.nn.functional as F
from ndgrad.func import grad, jvp, vjp, vmap

r = np.random.default_rng(31)


def real(*shape):
    return r.standard_normal(shape)


I5, MASK = r.integers(0, 5, 4), r.uniform(size=(4, 6)) < 0.7
SCORES = np.array([0, -100, 3, 1])

# name: (function of float tensors, their arrays)
FUNCTIONS = {
    "linear": (F.linear, [real(4, 3), real(5, 3), real(5)]),
    "bilinear": (F.bilinear, [real(4, 3), real(4, 2), real(5, 3, 2)]),
    "prelu": (F.prelu, [real(2, 3, 4), real(3)]),
    "glu": (F.glu, [real(3, 4)]),
    "softmin": (lambda x: F.softmin(x, dim=0), [real(3, 4)]),
    "cross_entropy": (lambda x: F.cross_entropy(x, ndgrad.tensor(I5)), [real(4, 5)]),
    "cross_entropy that ignores": (
        lambda x, w: F.cross_entropy(x, ndgrad.tensor(SCORES), w, label_smoothing=0.1), [real(4, 5), np.abs(real(5))]
    ),
    "cross_entropy of probabilities": (lambda x, y: F.cross_entropy(x, F.softmax(y, 1)), [real(4, 5), real(4, 5)]),
    "nll_loss": (lambda x: F.nll_loss(F.log_softmax(x, 1), ndgrad.tensor(I5)), [real(4, 5)]),
    "binary_cross_entropy": (lambda x, y: F.binary_cross_entropy(F.sigmoid(x), F.sigmoid(y)), [real(4, 5), real(4, 5)]),
    "binary_cross_entropy_with_logits": (
        lambda x, y, w: F.binary_cross_entropy_with_logits(x, F.sigmoid(y), pos_weight=w), [real(4, 5), real(4, 5), np.abs(real(5))]
    ),
    "kl_div": (lambda x, y: F.kl_div(F.log_softmax(x, 1), F.softmax(y, 1), reduction="batchmean"), [real(4, 5), real(4, 5)]),
    "mse_loss": (F.mse_loss, [real(4, 5), real(4, 5)]),
    "smooth_l1_loss": (lambda x, y: F.smooth_l1_loss(x, y, beta=0.5), [real(4, 5), real(4, 5)]),
    "gaussian_nll_loss": (lambda x, y, v: F.gaussian_nll_loss(x, y, F.softplus(v)), [real(4, 5), real(4, 5), real(4, 5)]),
    "multi_margin_loss": (lambda x: F.multi_margin_loss(x, ndgrad.tensor(I5), p=2), [real(4, 5)]),
    "cosine_similarity": (F.cosine_similarity, [real(4, 5), real(4, 5)]),
    "triplet_margin_loss": (lambda a, b, c: F.triplet_margin_loss(a, b, c, margin=3.0), [real(4, 5), real(4, 5), real(4, 5)]),
    "normalize": (F.normalize, [real(4, 5)]),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (5,), w, b), [real(4, 5), real(5), real(5)]),
    "rms_norm": (lambda x, w: F.rms_norm(x, (5,), w), [real(4, 5), real(5)]),
    "batch_norm": (lambda x, w, b: F.batch_norm(x, None, None, w, b, True), [real(4, 3, 5), real(3), real(3)]),
    "batch_norm in use": (
        lambda x, w, b: F.batch_norm(x, ndgrad.tensor([0.1, 0.2, 0.3]), ndgrad.tensor([1.0, 2.0, 3.0]), w, b),
        [real(4, 3, 5), real(3), real(3)],
    ),
    "group_norm": (lambda x, w, b: F.group_norm(x, 2, w, b), [real(2, 4, 5), real(4), real(4)]),
    "instance_norm": (lambda x, w: F.instance_norm(x, weight=w), [real(2, 3, 5), real(3)]),
    "local_response_norm": (lambda x: F.local_response_norm(x, 2, alpha=0.5), [real(2, 3, 4)]),
    "conv1d": (lambda x, w, b: F.conv1d(x, w, b, padding="same"), [real(2, 2, 5), real(3, 2, 2), real(3)]),
    "conv2d": (lambda x, w: F.conv2d(x, w, stride=2, padding=1, groups=2), [real(1, 2, 4, 4), real(2, 1, 3, 2)]),
    "conv of one sample": (F.conv2d, [real(2, 4, 4), real(3, 2, 2, 2), real(3)]),
    "conv_transpose1d": (lambda x, w, b: F.conv_transpose1d(x, w, b, stride=2, output_padding=1), [real(2, 2, 3), real(2, 3, 2), real(3)]),
    "unfold and fold": (lambda x: F.fold(F.unfold(x, 2) ** 2, (3, 4), 2), [real(1, 2, 3, 4)]),
    "pad": (lambda x: F.pad(x, (2, 1, 1, 0), mode="reflect"), [real(1, 2, 3, 4)]),
    "pad round": (lambda x: F.pad(x, (-1, 2), mode="circular"), [real(1, 2, 4)]),
    "max_pool2d": (lambda x: F.max_pool2d(x, 2, 1), [real(1, 2, 3, 4)]),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 2, padding=1, ceil_mode=True), [real(1, 2, 3, 4)]),
    "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, (2, 3)), [real(1, 2, 3, 4)]),
    "adaptive_max_pool1d": (lambda x: F.adaptive_max_pool1d(x, 3), [real(1, 2, 5)]),
    "lp_pool1d": (lambda x: F.lp_pool1d(x * x + 0.1, 3.0, 2), [real(1, 2, 5)]),
    "max_unpool1d": (lambda x: F.max_unpool1d(*F.max_pool1d(x, 2, return_indices=True), 2), [real(1, 2, 4)]),
    "interpolate": (lambda x: F.interpolate(x, (5, 3), mode="bilinear"), [real(1, 2, 3, 4)]),
    "interpolate nearest": (lambda x: F.interpolate(x, scale_factor=1.5), [real(1, 2, 3, 4)]),
    "grid_sample": (
        lambda x, g: F.grid_sample(x, F.tanh(g), padding_mode="border", align_corners=False), [real(1, 2, 3, 4), real(1, 2, 3, 2)]
    ),
    "affine_grid": (lambda t: F.affine_grid(t, (2, 1, 3, 2), align_corners=False), [real(2, 2, 3)]),
    "pixel_shuffle": (lambda x: F.pixel_shuffle(x, 2), [real(1, 4, 2, 3)]),
    "embedding": (lambda w: F.embedding(ndgrad.tensor(I5), w, padding_idx=1), [real(5, 3)]),
    "embedding_bag": (
        lambda w, p: F.embedding_bag(ndgrad.tensor(I5), w, ndgrad.tensor([0, 1]), mode="sum", per_sample_weights=p), [real(5, 3), real(4)]
    ),
    "attention": (F.scaled_dot_product_attention, [real(2, 4, 3), real(2, 6, 3), real(2, 6, 2)]),
    "attention with a mask": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, ndgrad.tensor(MASK)), [real(2, 4, 3), real(2, 6, 3), real(2, 6, 2)]
    ),
    "attention that looks back": (lambda q, k: F.scaled_dot_product_attention(q, k, k, is_causal=True), [real(2, 4, 3), real(2, 4, 3)]),
    "attention with shared heads": (lambda q, k: F.scaled_dot_product_attention(q, k, k, enable_gqa=True), [real(4, 3, 2), real(2, 5, 2)]),
}  # fmt: skip


def tensors(arrays):
    return [ndgrad.tensor(a) for a in arrays]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_vmap_equals_the_loop(name):
    f, arrays = FUNCTIONS[name]
    batches = [np.stack([a, a + 0.1, a * 0.9]) for a in arrays]
    got = vmap(f)(*tensors(batches))
    want = np.stack([f(*tensors([b[i] for b in batches])).numpy() for i in range(3)])
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_vmap_over_one_argument_equals_the_loop(name):
    f, arrays = FUNCTIONS[name]
    for which in range(len(arrays)):
        batch = np.stack([arrays[which], arrays[which] * 0.9])
        args = tensors([batch if i == which else a for i, a in enumerate(arrays)])
        got = vmap(f, in_dims=tuple(0 if i == which else None for i in range(len(arrays))))(*args)
        want = np.stack([f(*tensors([batch[n] if i == which else a for i, a in enumerate(arrays)])).numpy() for n in range(2)])
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-9, atol=1e-12)


def weighted(f, arrays):
    weights = ndgrad.tensor(np.random.default_rng(0).standard_normal(tuple(f(*tensors(arrays)).shape)))
    return lambda *args: (f(*args) * weights).sum()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_grad_of_grad_is_the_derivative_of_grad(name):
    f, arrays = FUNCTIONS[name]
    numbers = tuple(range(len(arrays)))
    first = grad(weighted(f, arrays), argnums=numbers)
    direction = [np.random.default_rng(1).standard_normal(a.shape) for a in arrays]
    _, forward = jvp(first, tuple(tensors(arrays)), tuple(tensors(direction)))
    step = 1e-5
    ahead = first(*tensors([a + step * d for a, d in zip(arrays, direction)]))
    behind = first(*tensors([a - step * d for a, d in zip(arrays, direction)]))
    for got, a, b in zip(forward, ahead, behind):
        np.testing.assert_allclose(got.numpy(), (a.numpy() - b.numpy()) / (2 * step), rtol=1e-4, atol=1e-6)
    # the Hessian is symmetric, so reverse over reverse gives the same product
    _, pull = vjp(first, *tensors(arrays))
    backward = pull(tuple(tensors(direction)))
    for got, want in zip(backward if isinstance(backward, tuple) else (backward,), forward):
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_vmap_of_grad_gives_the_gradient_of_each_sample(name):
    f, arrays = FUNCTIONS[name]
    loss = weighted(f, arrays)
    each = grad(loss, argnums=tuple(range(len(arrays))))
    batches = [np.stack([a, a * 0.9]) for a in arrays]
    got = vmap(each)(*tensors(batches))
    for n in range(2):
        want = each(*tensors([b[n] for b in batches]))
        for g, w in zip(got, want):
            np.testing.assert_allclose(g.numpy()[n], w.numpy(), rtol=1e-8, atol=1e-10)
