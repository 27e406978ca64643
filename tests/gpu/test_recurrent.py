"""Recurrent networks on a GPU beside the CPU, where each step is an op of its own: values, gradients and second ones."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import ndgrad
from ndgrad import nn

cupy = pytest.importorskip("cupy")
KINDS = [nn.LSTM, nn.GRU, nn.RNN, lambda *a, **k: nn.RNN(*a, nonlinearity="relu", **k)]


def _run(model, x, packed, again):
    given = nn.utils.rnn.pack_padded_sequence(x, [7, 5, 5, 2]) if packed else x
    out, last = model(given)
    out = out.data if packed else out
    weights = ndgrad.arange(out.numel(), device=out.device, dtype=out.dtype).reshape(out.shape).sin()
    last = last if isinstance(last, tuple) else (last,)
    loss = (out * weights).sum() + sum((part * part).sum() for part in last)
    leaves = [x, *model.parameters()]
    found = ndgrad.autograd.grad(loss, leaves, create_graph=again)
    if again:
        found = ndgrad.autograd.grad(sum((g * g).sum() for g in found), leaves)
    return [loss, *found]


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("options", [{}, {"bidirectional": True, "num_layers": 2}, {"bias": False}], ids=str)
@pytest.mark.parametrize("kind", KINDS, ids=["LSTM", "GRU", "tanh", "relu"])
def test_layers_equal_steps(kind, options, packed, again):
    ndgrad.manual_seed(0)
    model = kind(3, 5, **options).double()
    x = ndgrad.tensor(np.random.default_rng(0).standard_normal((7, 4, 3)), requires_grad=True)
    want = _run(model, x, packed, again)
    there = copy.deepcopy(model).to("cuda")
    got = _run(there, x.detach().to("cuda").requires_grad_(), packed, again)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a.detach().cpu().numpy(), b.detach().numpy(), rtol=1e-9, atol=1e-9)


def test_a_layer_is_one_node():
    model = nn.LSTM(3, 5).to("cuda")
    node, names = model(ndgrad.ones(4, 2, 3, device="cuda"))[0].grad_fn, []
    while node is not None:
        names.append(node.name())
        node = next((n for n, _ in node.next_functions if n is not None), None)
    assert "CudnnRnnBackward0" in names


@pytest.mark.parametrize("dtype", [ndgrad.float32, ndgrad.bfloat16, ndgrad.float16])
def test_other_dtypes(dtype):
    ndgrad.manual_seed(0)
    model, x = nn.LSTM(3, 5).to(dtype), ndgrad.randn(6, 2, 3).to(dtype)
    got = copy.deepcopy(model).to("cuda")(x.to("cuda"))[0]
    assert got.dtype == dtype
    tolerance = 1e-5 if dtype == ndgrad.float32 else 3e-2
    got, want = (t.detach().cpu().float().numpy() for t in (got, model(x)[0]))
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


def test_transforms_and_compiled_functions_give_the_same():
    ndgrad.manual_seed(0)
    model, x = nn.GRU(3, 4).to("cuda"), ndgrad.randn(2, 5, 3, 3).to("cuda")
    rows = ndgrad.vmap(lambda x: model(x)[0].sum())(x)
    for row, one in zip(rows, x, strict=True):
        np.testing.assert_allclose(row.detach().cpu().numpy(), model(one)[0].sum().detach().cpu().numpy(), rtol=1e-4)
    compiled = ndgrad.compile(lambda x: model(x)[0] * 2)
    for _ in range(4):
        got = compiled(x[0])
    np.testing.assert_allclose(got.detach().cpu().numpy(), (model(x[0])[0] * 2).detach().cpu().numpy(), rtol=1e-4, atol=1e-5)
