"""Whole training steps of six models: forward, backward, AdamW.

The models consist of the library's own modules. Initial parameters are drawn here, so that all libraries begin alike.
The noise of the VAE is data.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks.differentiate import training_step
from benchmarks.registry import Step, workload

_logger = logging.getLogger("benchmarks.training")

#: A module, and a function without arguments that returns its loss.
Model = tuple[Any, Callable[[], Any]]


def fill_parameters(torch: Any, model: Any) -> None:
    """Set the parameters in float32: matrices of unit gain, norms of one, biases of zero."""
    random = np.random.default_rng(1)
    model.float()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            shape = tuple(parameter.shape)
            if len(shape) > 1:
                values = random.standard_normal(shape) / np.prod(shape[1:]) ** 0.5
            else:
                values = np.full(shape, 0.0 if "bias" in name else 1.0)
            parameter.copy_(torch.tensor(values.astype(np.float32)))


def draw_images(torch: Any, batch: int, channels: int, side: int) -> tuple[Any, Any]:
    random = np.random.default_rng(0)
    images = random.standard_normal((batch, channels, side, side)).astype(np.float32)
    return torch.tensor(images), torch.tensor(random.integers(0, 10, batch))


def classify(torch: Any, model: Any, x: Any, y: Any) -> Model:
    return model, lambda: torch.nn.functional.cross_entropy(model(x), y)


# ----- models --------------------------------------------------------------------------------------------


def mlp(torch: Any) -> Model:
    """784-512-512-10, batch 64."""
    nn = torch.nn
    model = nn.Sequential(
        nn.Flatten(), nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
    )
    return classify(torch, model, *draw_images(torch, 64, 1, 28))


def lenet(torch: Any) -> Model:
    """Two convolutions of 5 x 5 and three linear layers, batch 64."""
    nn = torch.nn
    model = nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
    )  # fmt: skip
    return classify(torch, model, *draw_images(torch, 64, 1, 28))


def resnet18(torch: Any) -> Model:
    """Residual blocks of two convolutions, for images of 32 x 32 (a stem of 3 x 3 and no pooling), batch 16."""
    nn = torch.nn

    class Block(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self, fan_in: int, fan_out: int, stride: int) -> None:
            super().__init__()
            self.first = nn.Sequential(
                nn.Conv2d(fan_in, fan_out, 3, stride, 1, bias=False), nn.BatchNorm2d(fan_out), nn.ReLU()
            )
            self.second = nn.Sequential(nn.Conv2d(fan_out, fan_out, 3, 1, 1, bias=False), nn.BatchNorm2d(fan_out))
            same = stride == 1 and fan_in == fan_out
            self.short = (
                nn.Identity()
                if same
                else nn.Sequential(nn.Conv2d(fan_in, fan_out, 1, stride, bias=False), nn.BatchNorm2d(fan_out))
            )

        def forward(self, x: Any) -> Any:
            return torch.relu(self.second(self.first(x)) + self.short(x))

    blocks, width = [], 64
    for level, fan_out in enumerate((64, 128, 256, 512)):
        blocks += [Block(width, fan_out, 1 if level == 0 else 2), Block(fan_out, fan_out, 1)]
        width = fan_out
    stem = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    model = nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))
    return classify(torch, model, *draw_images(torch, 16, 3, 32))


def char_transformer(torch: Any) -> Model:
    """Two pre-norm blocks of width 128 with four heads on 64 characters of 65, batch 16."""
    return predict_letters(torch, blocks=2, width=128, heads=4, length=64, batch=16, letters=65)


def predict_letters(torch: Any, *, blocks: int, width: int, heads: int, length: int, batch: int, letters: int) -> Model:
    """Return a transformer of pre-norm blocks that predicts the next letter."""
    nn, functional = torch.nn, torch.nn.functional

    class Attending(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            qkv = self.qkv(self.norm1(x)).reshape(batch, length, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
            mixed = functional.scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], is_causal=True)
            x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
            return x + self.down(functional.gelu(self.up(self.norm2(x))))

    class Language(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.letters, self.places = nn.Embedding(letters, width), nn.Embedding(length, width)
            self.blocks = nn.Sequential(*[Attending() for _ in range(blocks)], nn.LayerNorm(width))
            self.head = nn.Linear(width, letters)

        def forward(self, x: Any, where: Any) -> Any:
            return self.head(self.blocks(self.letters(x) + self.places(where)))

    random = np.random.default_rng(0)
    text = random.integers(0, letters, (batch, length + 1))
    x, y, where = (
        torch.tensor(text[:, :-1].copy()),
        torch.tensor(text[:, 1:].reshape(-1).copy()),
        torch.tensor(np.arange(length)),
    )
    model = Language()
    return model, lambda: functional.cross_entropy(model(x, where).reshape(-1, letters), y)


def gru_language_model(torch: Any) -> Model:
    """An embedding of 1000 words, a GRU of width 128 over 32 of them, batch 16."""
    nn, functional = torch.nn, torch.nn.functional
    words, width, length, batch = 1000, 128, 32, 16

    class Language(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.words, self.cells, self.head = (
                nn.Embedding(words, 64),
                nn.GRU(64, width, batch_first=True),
                nn.Linear(width, words),
            )

        def forward(self, x: Any) -> Any:
            return self.head(self.cells(self.words(x))[0])

    random = np.random.default_rng(0)
    text = random.integers(0, words, (batch, length + 1))
    x, y = torch.tensor(text[:, :-1].copy()), torch.tensor(text[:, 1:].reshape(-1).copy())
    model = Language()
    return model, lambda: functional.cross_entropy(model(x).reshape(-1, words), y)


def vae(torch: Any) -> Model:
    """784-400-20-400-784, batch 64; the noise is given."""
    nn, functional = torch.nn, torch.nn.functional
    batch, latent = 64, 20

    class Coder(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.mean, self.spread = nn.Linear(784, 400), nn.Linear(400, latent), nn.Linear(400, latent)
            self.outer, self.image = nn.Linear(latent, 400), nn.Linear(400, 784)

        def forward(self, x: Any, noise: Any) -> Any:
            hidden = torch.relu(self.inner(x))
            mean, spread = self.mean(hidden), self.spread(hidden)
            z = mean + noise * torch.exp(0.5 * spread)
            return self.image(torch.relu(self.outer(z))), mean, spread

    random = np.random.default_rng(0)
    x = torch.tensor(random.random((batch, 784)).astype(np.float32))
    noise = torch.tensor(random.standard_normal((batch, latent)).astype(np.float32))
    model = Coder()

    def loss() -> Any:
        image, mean, spread = model(x, noise)
        seen = functional.binary_cross_entropy_with_logits(image, x, reduction="sum")
        return (seen - 0.5 * (1 + spread - mean * mean - torch.exp(spread)).sum()) / batch

    return model, loss


def register_model(
    name: str,
    title: str,
    make: Callable[[Any], Model],
    tolerance: float = 1e-3,
    skip: Mapping[str, str] | None = None,
) -> None:
    """Register the training step of a model; `skip` gives the reason for leaving a library out."""

    @workload(
        f"model-{name}",
        title=f"{title}, with AdamW",
        goal=1.1,
        compiled_goal=0.8,
        tolerance=tolerance,
        group="model",
        skip=skip,
    )
    def model_step(torch: Any) -> Step:
        model, loss = make(torch)
        fill_parameters(torch, model)
        fused = {"fused": True} if torch.__name__ == "torch" else {}
        # The epsilon is above the rounding errors of gradients that are zero, whose sign is arbitrary.
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, eps=1e-4, **fused)
        return training_step(loss, optimizer, lambda: list(model.parameters()))


@workload(
    "model-mlp-schedule",
    title="the same with warm-up and cosine, clipping, averages and a log",
    goal=1.3,
    compiled_goal=1.0,
    tolerance=1e-3,
    group="model",
)
def scheduled_step(torch: Any) -> Step:
    """Return a training step in the style of users: numbers and lists of Python change in each call."""
    model, loss = mlp(torch)
    fill_parameters(torch, model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, eps=1e-4)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda n: (n + 1) / 10 if n < 10 else 0.5 * (1 + math.cos(math.pi * (n - 10) / 1e6))
    )
    averages = [p.detach().clone() for p in model.parameters()]
    mean = {"loss": 0.0, "count": 0}

    def note(value: Any) -> None:
        schedule.step()
        with torch.no_grad():
            for average, p in zip(averages, model.parameters(), strict=True):
                average.mul_(0.99).add_(p, alpha=0.01)
        mean["count"] += 1
        mean["loss"] += (value.item() - mean["loss"]) / mean["count"]
        _logger.debug("loss %.4f", value.item())

    clip = lambda: torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    return training_step(loss, optimizer, lambda: [*model.parameters(), *averages], clip, note)


register_model("mlp", "MLP 784-512-512-10, batch 64", mlp)
register_model("lenet", "LeNet, batch 64", lenet)
# torch's own gradients differ by 2e-3 from those in float64 here.
register_model("resnet18", "ResNet-18 on 32 x 32, batch 16", resnet18, tolerance=1e-2)
register_model("transformer", "character transformer, 2 x 128, batch 16", char_transformer)
register_model("gru", "GRU language model, batch 16", gru_language_model)
register_model("vae", "VAE 784-400-20, batch 64", vae)
