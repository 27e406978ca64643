"""Functions that check values: the check is part of the program, and a call that fails it is traced again or raises as
in eager code.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

import ndgrad
import ndgrad.nn.functional as F


@pytest.fixture(autouse=True)
def on_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NDGRAD_COMPILE_REPLAY", os.environ.get("NDGRAD_COMPILE_REPLAY", "1"))


def outcome(f: Any, *args: Any) -> Any:
    x = args[0].detach().clone().requires_grad_()
    try:
        out = f(x, *args[1:])
        out.sum().backward()
        return np.round(out.detach().numpy(), 12).tolist(), None if x.grad is None else np.round(x.grad.numpy(), 12).tolist()
    except Exception as error:
        return type(error), str(error)


SCORES = np.random.default_rng(0).standard_normal((4, 5))
TARGETS = ([0, 1, 2, 3], [0, 1, 2, -1], [0, 1, 2, -100], [4, 4, 4, 4], [0, 1, 2, 7], [0, -100, -100, 2], [0, 0, 0, 0])


@pytest.mark.parametrize(
    "f",
    [
        F.cross_entropy, F.nll_loss, F.multi_margin_loss,
        lambda x, t: F.cross_entropy(x, t, ignore_index=2), lambda x, t: F.cross_entropy(x, t, label_smoothing=0.1),
        lambda x, t: F.embedding(t, x), lambda x, t: x[t], lambda x, t: x.gather(0, t[:, None]), lambda x, t: x.index_select(0, t),
        lambda x, t: x * F.one_hot(t, 5).sum(), lambda x, t: F.embedding_bag(t[None], x),
    ],
)  # fmt: skip
def test_targets_and_indices_of_all_kinds(f: Any):
    compiled = ndgrad.compile(f)
    x = ndgrad.tensor(SCORES)
    for values in (*TARGETS, *TARGETS[::-1]):
        t = ndgrad.tensor(values)
        assert outcome(compiled, x, t) == outcome(f, x, t), values
    assert any(e.specialisation is not None for e in compiled.entries)


def test_probabilities_out_of_range_raise():
    f = lambda x: F.binary_cross_entropy(x, ndgrad.ones_like(x))
    compiled = ndgrad.compile(f)
    for values in ([0.25, 0.5], [0.25, 1.5], [0.75, 0.5], [-0.5, 0.5]):
        x = ndgrad.tensor(values)
        assert outcome(compiled, x) == outcome(f, x), values
    assert compiled.entries[0].specialisation is not None


def test_gradients_of_gradients_follow_the_conditions_of_their_call():
    f = lambda x, t: F.cross_entropy(x, t)
    compiled = ndgrad.compile(f)
    for values in ([0, 1, 2, 3], [0, 1, -100, 3]):
        t = ndgrad.tensor(values)
        found = []
        for g in (f, compiled):
            x = ndgrad.tensor(SCORES, requires_grad=True)
            (first,) = ndgrad.autograd.grad(g(x, t), x, create_graph=True)
            found.append(ndgrad.autograd.grad((first * first).sum(), x)[0].numpy())
        np.testing.assert_allclose(found[1], found[0], rtol=1e-13)
