"""Attention over nested tensors, and the modules that use it, against the same of each sequence alone."""

from __future__ import annotations

import numpy as np
import pytest

import ndgrad
from ndgrad.nn import functional as F
from tests.nested.components import arrays, check, nested

LENGTHS = (3, 5, 1, 3)


def heads(x):
    return x.unflatten(-1, (2, 4)).transpose(1, 2)


@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"scale": 0.3}], ids=["plain", "causal", "scale"])
def test_each_sequence_attends_to_itself(options):
    def attend(x, y, z):
        return F.scaled_dot_product_attention(heads(x), heads(y), heads(z), **options).transpose(1, 2).flatten(-2)

    check(attend, *(arrays(8, lengths=LENGTHS, low=-low) for low in (1.0, 2.0, 3.0)), tolerance=1e-9)


def test_queries_and_keys_of_different_lengths():
    def attend(x, y):
        return F.scaled_dot_product_attention(heads(x), heads(y), heads(y * 2)).transpose(1, 2)

    check(attend, arrays(8, lengths=LENGTHS, low=-1.0), arrays(8, lengths=(2, 5, 4, 2), low=-2.0), tolerance=1e-9)


def test_dense_keys_and_values_for_all():
    parts, k = arrays(8, lengths=LENGTHS, low=-1.0), np.random.default_rng(0).normal(size=(4, 6, 8))
    x, y = nested(parts, True), ndgrad.tensor(k, requires_grad=True)
    found = F.scaled_dot_product_attention(heads(x), heads(y), heads(y))
    alone = [
        F.scaled_dot_product_attention(heads(ndgrad.tensor(p[None])), heads(y[i : i + 1]), heads(y[i : i + 1]))[0]
        for i, p in enumerate(parts)
    ]
    for a, b in zip(found.unbind(), alone, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-10)
    (g,) = ndgrad.autograd.grad(found.sin().sum(), y)
    (h,) = ndgrad.autograd.grad(sum(b.sin().sum() for b in alone), y)
    np.testing.assert_allclose(g.numpy(), h.numpy(), rtol=1e-9)


def test_dense_queries_beside_nested_keys():
    parts, q = arrays(8, lengths=LENGTHS, low=-1.0), ndgrad.tensor(np.random.default_rng(0).normal(size=(4, 2, 8)))
    x = nested(parts)
    found = F.scaled_dot_product_attention(heads(q), heads(x), heads(x))
    assert not found.is_nested
    for i, p in enumerate(parts):
        k = heads(ndgrad.tensor(p[None]))
        np.testing.assert_allclose(found[i].numpy(), F.scaled_dot_product_attention(heads(q[i : i + 1]), k, k)[0].numpy(), rtol=1e-10)


def test_second_derivatives_of_attention():
    x = nested(arrays(8, lengths=(2, 3), low=-1.0), True)

    def total(x):
        q = heads(x)
        return F.scaled_dot_product_attention(q, q, q).sin().sum()

    (g,) = ndgrad.autograd.grad(total(x), x, create_graph=True)
    (h,) = ndgrad.autograd.grad((g * g).sum(), x)
    for i, p in enumerate(x.unbind()):
        c = p.detach().clone()[None].requires_grad_()
        (cg,) = ndgrad.autograd.grad(total(c), c, create_graph=True)
        (ch,) = ndgrad.autograd.grad((cg * cg).sum(), c)
        np.testing.assert_allclose(h[i].numpy(), ch[0].numpy(), rtol=1e-8, atol=1e-10)


def test_what_does_not_fit_names_all_structures():
    x, y = nested(arrays(8, lengths=(2, 3))), nested(arrays(8, lengths=(1, 3)))
    with pytest.raises(RuntimeError, match=r"\(2, 3\).*\(1, 3\)"):
        F.scaled_dot_product_attention(heads(x), heads(x), heads(y))
    with pytest.raises(RuntimeError, match="mask"):
        F.scaled_dot_product_attention(heads(x), heads(x), heads(x), attn_mask=ndgrad.ones(3, 3))
    with pytest.raises(RuntimeError, match="do not fit"):
        F.scaled_dot_product_attention(heads(x), heads(x), heads(nested(arrays(8, lengths=(2, 3, 4)))))


MODULES = {
    "attention": lambda: ndgrad.nn.MultiheadAttention(8, 2, batch_first=True, dtype=ndgrad.float64),
    "without bias": lambda: ndgrad.nn.MultiheadAttention(8, 2, bias=False, batch_first=True, dtype=ndgrad.float64),
    "encoder layer": lambda: ndgrad.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True, dtype=ndgrad.float64),
    "norm first": lambda: ndgrad.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True, norm_first=True, dtype=ndgrad.float64),
    "encoder": lambda: ndgrad.nn.TransformerEncoder(
        ndgrad.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True, dtype=ndgrad.float64),
        2,
        ndgrad.nn.LayerNorm(8, dtype=ndgrad.float64),
    ),
    "decoder layer": lambda: ndgrad.nn.TransformerDecoderLayer(8, 2, 16, dropout=0.0, batch_first=True, dtype=ndgrad.float64),
}


@pytest.mark.parametrize("name", MODULES)
def test_a_module_trains_on_sequences_as_on_each_alone(name):
    ndgrad.manual_seed(0)
    model = MODULES[name]()
    for p in model.parameters():  # zeros of biases would hide them
        p.data.copy_(ndgrad.randn(p.shape, dtype=ndgrad.float64) * 0.4)

    def run(x):
        if isinstance(model, ndgrad.nn.MultiheadAttention):
            return model(x, x, x, need_weights=False)[0]
        return model(x, x * 0.5) if name == "decoder layer" else model(x)

    gradients = []
    parts = arrays(8, lengths=LENGTHS, low=-1.0)
    for together in (True, False):
        model.zero_grad()
        if together:
            run(nested(parts)).sin().sum().backward()
        else:
            sum(run(ndgrad.tensor(p[None])).sin().sum() for p in parts).backward()
        gradients.append([p.grad.clone().numpy() for p in model.parameters()])
    for a, b in zip(*gradients, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10)
    check(run, parts, tolerance=1e-8)


def test_causal_attention_of_modules():
    ndgrad.manual_seed(0)
    model = MODULES["encoder"]()
    parts = arrays(8, lengths=LENGTHS, low=-1.0)
    found = model(nested(parts), is_causal=True)
    for p, out in zip(parts, found.unbind(), strict=True):
        mask = ndgrad.nn.Transformer.generate_square_subsequent_mask(len(p), dtype=ndgrad.float64)
        np.testing.assert_allclose(out.detach().numpy(), model(ndgrad.tensor(p[None]), mask=mask)[0].detach().numpy(), rtol=1e-10)


def test_attention_modules_refuse_what_needs_padding():
    x = nested(arrays(8))
    model = MODULES["attention"]()
    with pytest.raises(AssertionError, match="need_weights"):
        model(x, x, x)
    with pytest.raises(AssertionError, match="key_padding_mask"):
        model(x, x, x, need_weights=False, key_padding_mask=ndgrad.zeros(4, 4))
    with pytest.raises(AssertionError, match="batch_first"):
        ndgrad.nn.MultiheadAttention(8, 2, dtype=ndgrad.float64)(x, x, x, need_weights=False)
    with pytest.raises(AssertionError, match="dense keys"):
        model(x, ndgrad.ones(4, 2, 8, dtype=ndgrad.float64), ndgrad.ones(4, 2, 8, dtype=ndgrad.float64), need_weights=False)


def test_an_encoder_for_inference_leaves_padding_out():
    ndgrad.manual_seed(0)
    model = MODULES["encoder"]().eval()
    parts = arrays(8, lengths=(3, 5, 1), low=-1.0)
    padded = nested(parts).to_padded_tensor(0.0)
    mask = ndgrad.arange(5) >= ndgrad.tensor([3, 5, 1])[:, None]
    recorded = model(padded, src_key_padding_mask=mask)
    with ndgrad.no_grad():
        found = model(padded, src_key_padding_mask=mask)
        other = model(padded, src_key_padding_mask=ndgrad.zeros(3, 5, dtype=ndgrad.float64).masked_fill(mask, -np.inf))
        late = model(padded, src_key_padding_mask=mask.flip(1))
        model.enable_nested_tensor = False
        with_padding = model(padded, src_key_padding_mask=mask)
    np.testing.assert_allclose(found[~mask].numpy(), recorded[~mask].detach().numpy(), rtol=1e-10)
    np.testing.assert_array_equal(found.numpy(), other.numpy())
    assert (found[mask] == model.norm.bias.detach()).all()
    assert not (with_padding[mask] == model.norm.bias.detach()).all()
    assert late.shape == found.shape
