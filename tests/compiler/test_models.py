"""Whole models trained by a compiled step (forward, backward, AdamW): the same result as eager training, with no op
left to NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ndgrad
import ndgrad.nn.functional as F
from ndgrad import nn, optim

pytest.importorskip("llvmlite")

from ndgrad._src.compiler.lower import native_program
from ndgrad._src.compiler.lower.steps import Call

Loss = Callable[..., Any]


class Residual(nn.Module):
    def __init__(self, fan_in: int, fan_out: int, stride: int) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(fan_in, fan_out, 3, stride, 1, bias=False), nn.Conv2d(fan_out, fan_out, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(fan_out), nn.BatchNorm2d(fan_out)])
        self.skip = nn.Conv2d(fan_in, fan_out, 1, stride, bias=False) if stride > 1 else nn.Identity()

    def forward(self, x: Any) -> Any:
        hidden = F.relu(self.norms[0](self.first(x)))
        return F.relu(self.norms[1](self.second(hidden)) + self.skip(x))


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.norm, self.inner = heads, nn.LayerNorm(width), nn.LayerNorm(width)
        self.inputs, self.output = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: Any) -> Any:
        batch, length, width = x.shape
        q, k, v = self.inputs(self.norm(x)).reshape(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        looked = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(batch, length, width)
        x = x + self.output(looked)
        return x + self.wide(self.inner(x))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.cells, self.output = nn.Embedding(11, 6), nn.GRU(6, 8, batch_first=True), nn.Linear(8, 11)

    def forward(self, x: Any) -> Any:
        return self.output(self.cells(self.embedding(x))[0])


class Autoencoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inside, self.mean, self.spread = nn.Linear(20, 12), nn.Linear(12, 3), nn.Linear(12, 3)
        self.outside = nn.Sequential(nn.Linear(3, 12), nn.ReLU(), nn.Linear(12, 20))

    def forward(self, x: Any, noise: Any) -> Any:
        hidden = F.relu(self.inside(x))
        mean, spread = self.mean(hidden), self.spread(hidden)
        return self.outside(mean + noise * (spread * 0.5).exp()), mean, spread


def classifier(model: nn.Module, *shape: int) -> tuple[nn.Module, list[np.ndarray], Loss]:
    r = np.random.default_rng(1)
    return model, [r.standard_normal(shape), r.integers(0, 4, shape[0])], lambda x, y: F.cross_entropy(model(x), y)


def language(model: nn.Module) -> tuple[nn.Module, list[np.ndarray], Loss]:
    r = np.random.default_rng(2)
    data = [r.integers(0, 11, (3, 9)), r.integers(0, 11, (3, 9))]
    return model, data, lambda x, y: F.cross_entropy(model(x).reshape(-1, 11), y.reshape(-1))


def mlp() -> Any:
    return classifier(nn.Sequential(nn.Linear(13, 16), nn.ReLU(), nn.Linear(16, 9), nn.Tanh(), nn.Linear(9, 4)), 7, 13)


def lenet() -> Any:
    first = [nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.AvgPool2d(2), nn.Conv2d(6, 9, 3), nn.ReLU(), nn.MaxPool2d(2)]
    return classifier(nn.Sequential(*first, nn.Flatten(), nn.Linear(36, 12), nn.ReLU(), nn.Linear(12, 4)), 5, 1, 12, 12)


def resnet() -> Any:
    blocks = [Residual(8, 8, 1), Residual(8, 16, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 4)]
    return classifier(nn.Sequential(nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), *blocks), 4, 3, 8, 8)


def transformer() -> Any:
    return language(nn.Sequential(nn.Embedding(11, 16), Attention(16, 4), nn.LayerNorm(16), nn.Linear(16, 11)))


def gru() -> Any:
    return language(Recurrent())


def vae() -> Any:
    model, r = Autoencoder(), np.random.default_rng(3)

    def loss(x: Any, noise: Any) -> Any:
        out, mean, spread = model(x, noise)
        return F.binary_cross_entropy_with_logits(out, x, reduction="sum") - 0.5 * (1 + spread - mean * mean - spread.exp()).sum()

    return model, [r.random((6, 20)), r.standard_normal((6, 3))], loss


MODELS = {f.__name__: f for f in (mlp, lenet, resnet, transformer, gru, vae)}


def trained(name: str, compiles: bool) -> tuple[list[np.ndarray], list[float]]:
    ndgrad.manual_seed(0)
    model, data, loss_of = MODELS[name]()
    model.double()
    given = [ndgrad.tensor(a) for a in data]
    optimizer = optim.AdamW(model.parameters(), lr=0.01)

    def step(*given: Any) -> Any:
        optimizer.zero_grad()
        loss = loss_of(*given)
        loss.backward()
        optimizer.step()
        return loss

    run = ndgrad.compile(step) if compiles else step  # the first call creates the optimizer's state and runs eagerly
    losses = [run(*given).item() for _ in range(4)]
    return [a.detach().numpy().copy() for a in (*model.parameters(), *model.buffers())], losses


@pytest.mark.parametrize("name", MODELS)
def test_a_compiled_step_trains_a_model_as_eager_does(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NDGRAD_COMPILE_RAISE", "1")
    monkeypatch.delenv("NDGRAD_COMPILE_REPLAY", raising=False)
    left: list[str] = []
    sizes: list[int] = []
    group = native_program.group_instructions

    def note(program: Any) -> Any:
        groups = group(program)
        sizes.append(len(groups.steps))
        left.extend(step.instruction.op.name for step in groups.steps if isinstance(step, Call))
        return groups

    monkeypatch.setattr(native_program, "group_instructions", note)
    found, losses = trained(name, True)
    assert sizes
    assert not left
    expected, wanted = trained(name, False)
    np.testing.assert_allclose(losses, wanted, rtol=1e-9)
    for a, b in zip(found, expected, strict=True):
        # AdamW treats a gradient that is pure rounding error as a direction.
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)
