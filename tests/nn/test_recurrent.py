"""Layers of recurrent networks as one op on the CPU, compared with the same layers step by step."""

from __future__ import annotations

import numpy as np
import pytest

import ndgrad
from ndgrad import nn
from ndgrad.nn.modules import rnn

KINDS = [nn.LSTM, nn.GRU, nn.RNN, lambda *a, **k: nn.RNN(*a, nonlinearity="relu", **k)]


@pytest.fixture
def by_steps(monkeypatch):
    def run(function, *args):
        with monkeypatch.context() as patch:
            patch.setattr(rnn, "_runs_as_one_op", lambda *args: False)
            return function(*args)

    return run


def _gradients(model, x, packed, again):
    given = nn.utils.rnn.pack_padded_sequence(x, [5, 3, 3]) if packed else x
    out, last = model(given)
    out = out.data if packed else out
    weights = ndgrad.arange(out.numel(), dtype=out.dtype).reshape(out.shape).sin()
    last = last if isinstance(last, tuple) else (last,)
    loss = (out * weights).sum() + sum((part * part).sum() for part in last)
    leaves = [x, *model.parameters()]
    found = ndgrad.autograd.grad(loss, leaves, create_graph=again)
    if again:
        found = ndgrad.autograd.grad(sum((g * g).sum() for g in found), leaves)
    return [loss, *found]


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("options", [{"bidirectional": True, "num_layers": 2}, {"bias": False}], ids=str)
@pytest.mark.parametrize("kind", KINDS, ids=["LSTM", "GRU", "tanh", "relu"])
def test_layers_equal_steps(by_steps, kind, options, packed, again):
    ndgrad.manual_seed(0)
    model = kind(3, 4, **options).double()
    x = ndgrad.tensor(np.random.default_rng(0).standard_normal((5, 3, 3)), requires_grad=True)
    want = by_steps(_gradients, model, x, packed, again)
    for a, b in zip(_gradients(model, x, packed, again), want, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS, ids=["LSTM", "GRU", "tanh", "relu"])
def test_a_layer_is_one_node(kind):
    node, names = kind(3, 5)(ndgrad.ones(4, 2, 3))[0].grad_fn, []
    while node is not None:
        names.append(node.name())
        node = next((n for n, _ in node.next_functions if n is not None), None)
    assert names.count("CudnnRnnBackward0") == 1
    assert len(names) < 8


@pytest.mark.parametrize("kind", KINDS, ids=["LSTM", "GRU", "tanh", "relu"])
def test_transforms_of_layers(by_steps, kind):
    ndgrad.manual_seed(0)
    model, x = kind(2, 3).double(), ndgrad.randn(2, 4, 2, 2, dtype=ndgrad.float64)

    def loss(x):
        return (model(x)[0] ** 2).sum()

    def transforms(x):
        along = ndgrad.func.jvp(loss, (x[0],), (x[1],))[1]
        mixed = ndgrad.func.jvp(ndgrad.func.grad(loss), (x[0],), (x[1],))[1]
        return [ndgrad.func.vmap(ndgrad.func.grad(loss))(x), along, mixed]

    for a, b in zip(transforms(x), by_steps(transforms, x), strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-10, atol=1e-12)
