"""Training steps of common models and scientific programs, as rows of the GPU benchmark."""

from __future__ import annotations

import contextlib
import itertools
from typing import Any

import numpy as np

from benchmarks.gpu.rows import DEVICE, Step, backward_step, draw_normal, fill_parameters, on_device, row


def _class_numbers(torch: Any, count: int, classes: int) -> Any:
    return on_device(torch, np.random.default_rng(2).integers(0, classes, count))


def _training_step(torch: Any, model: Any, loss: Any, use_autocast: bool) -> Step:
    """Return a step of AdamW, under autocast to bfloat16 if asked for."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step() -> Any:
        optimizer.zero_grad()
        scope = torch.autocast(DEVICE.name, dtype=torch.bfloat16) if use_autocast else contextlib.nullcontext()
        with scope:
            value = loss()
        value.backward()
        optimizer.step()
        return value

    return step


# ----- images ---------------------------------------------------------------------------------------------------------


def _make_residual_network(torch: Any) -> Any:
    nn, functional = torch.nn, torch.nn.functional

    class Block(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self, inputs: int, outputs: int, stride: int) -> None:
            super().__init__()
            self.first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
            self.second = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
            self.norm1, self.norm2 = nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs)
            self.short = (
                nn.Sequential()
                if stride == 1 and inputs == outputs
                else nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))
            )

        def forward(self, x: Any) -> Any:
            y = functional.relu(self.norm1(self.first(x)))
            return functional.relu(self.norm2(self.second(y)) + self.short(x))

    blocks = [
        Block(a, b, stride)
        for a, b, stride in (
            (64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1),
            (128, 256, 2), (256, 256, 1), (256, 512, 2), (512, 512, 1),
        )
    ]  # fmt: skip
    stem = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


def _residual_step(torch: Any, use_autocast: bool) -> Step:
    model = fill_parameters(torch, _make_residual_network(torch))
    x, y = on_device(torch, draw_normal(64, 3, 32, 32)), _class_numbers(torch, 64, 10)
    return _training_step(torch, model, lambda: torch.nn.functional.cross_entropy(model(x), y), use_autocast)


@row("resnet18", "ResNet-18, batch 64, 32 x 32, AdamW", tolerance=1e-2)
def resnet(torch: Any) -> Step:
    return _residual_step(torch, False)


@row("resnet18-autocast", "the same under autocast to bfloat16", tolerance=0.1)
def resnet_half(torch: Any) -> Step:
    return _residual_step(torch, True)


@row("unet", "U-Net with GroupNorm and ConvTranspose, 64 x 64, batch 8, AdamW", tolerance=1e-2)
def unet(torch: Any) -> Step:
    nn = torch.nn

    def make_convolution(inputs: int, outputs: int) -> Any:
        return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1), nn.GroupNorm(8, outputs), nn.SiLU())

    class Net(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.down1, self.down2, self.middle = (
                make_convolution(3, 32), make_convolution(32, 64), make_convolution(64, 128),
            )  # fmt: skip
            self.pool = nn.MaxPool2d(2)
            self.up1, self.up2 = nn.ConvTranspose2d(128, 64, 2, 2), nn.ConvTranspose2d(64, 32, 2, 2)
            self.join1, self.join2 = make_convolution(128, 64), make_convolution(64, 32)
            self.out = nn.Conv2d(32, 3, 1)

        def forward(self, x: Any) -> Any:
            a = self.down1(x)
            b = self.down2(self.pool(a))
            c = self.middle(self.pool(b))
            d = self.join1(torch.cat([self.up1(c), b], 1))
            return self.out(self.join2(torch.cat([self.up2(d), a], 1)))

    model = fill_parameters(torch, Net())
    x = on_device(torch, draw_normal(8, 3, 64, 64))
    return _training_step(torch, model, lambda: (model(x) - x).square().mean(), False)


# ----- sequences ------------------------------------------------------------------------------------------------------


@row("lstm", "nn.LSTM, 2 layers of 256, 100 steps, batch 32, AdamW", tolerance=1e-2)
def lstm(torch: Any) -> Step:
    nn = torch.nn
    model = fill_parameters(torch, nn.LSTM(64, 256, 2))
    x = on_device(torch, draw_normal(100, 32, 64))
    return _training_step(torch, model, lambda: model(x)[0].square().mean(), False)


def _encoder_step(torch: Any, use_autocast: bool) -> Step:
    nn = torch.nn
    layer = nn.TransformerEncoderLayer(384, 6, 1536, 0.1, batch_first=True)
    model = fill_parameters(torch, nn.TransformerEncoder(layer, 4, enable_nested_tensor=False))
    x = on_device(torch, draw_normal(16, 128, 384))
    return _training_step(torch, model, lambda: model(x).float().square().mean(), use_autocast)


@row("encoder", "nn.TransformerEncoder, 4 x 384 with dropout, AdamW", tolerance=0.1)
def encoder(torch: Any) -> Step:
    return _encoder_step(torch, False)


@row("encoder-autocast", "the same under autocast to bfloat16", tolerance=0.1)
def encoder_half(torch: Any) -> Step:
    return _encoder_step(torch, True)


@row("embedding-bag", "EmbeddingBag of 100,000 x 64 and a linear layer, AdamW", tolerance=1e-2)
def embedding_bag(torch: Any) -> Step:
    nn = torch.nn
    model = fill_parameters(torch, nn.Sequential(nn.EmbeddingBag(100_000, 64), nn.Linear(64, 10)))
    ids = on_device(torch, np.random.default_rng(3).integers(0, 100_000, (512, 20)))
    y = _class_numbers(torch, 512, 10)
    return _training_step(torch, model, lambda: nn.functional.cross_entropy(model(ids), y), False)


# ----- science --------------------------------------------------------------------------------------------------------


@row("gaussian-process", "Gaussian process, Cholesky of 2,000, float64", tolerance=1e-6)
def gaussian_process(torch: Any) -> Step:
    x = on_device(torch, draw_normal(2000, 4).astype(np.float64))
    y = on_device(torch, draw_normal(2000, 1, seed=1).astype(np.float64))
    scale = on_device(torch, np.zeros(4), leaf=True)
    noise = on_device(torch, np.array(-1.0), leaf=True)

    def loss() -> Any:
        z = x * torch.exp(scale)
        squares = (z * z).sum(1)
        distances = squares[:, None] + squares[None] - 2.0 * (z @ z.T)
        kernel = torch.exp(-0.5 * distances) + torch.exp(noise) * torch.eye(2000, dtype=z.dtype, device=DEVICE.name)
        factor = torch.linalg.cholesky(kernel)
        solved = torch.linalg.solve_triangular(factor, y, upper=False)
        return 0.5 * (solved * solved).sum() + torch.log(torch.diagonal(factor)).sum()

    return backward_step(loss, [scale, noise])


@row("graph-network", "graph network, index_add and scatter_add, 200,000 edges", tolerance=1e-2)
def graph_network(torch: Any) -> Step:
    random = np.random.default_rng(4)
    source, target = (on_device(torch, random.integers(0, 20_000, 200_000)) for _ in range(2))
    x = on_device(torch, draw_normal(20_000, 64))
    first = on_device(torch, draw_normal(64, 64, seed=1) / 8, leaf=True)
    second = on_device(torch, draw_normal(64, 64, seed=2) / 8, leaf=True)
    degrees = torch.zeros(20_000, device=DEVICE.name)
    degrees = degrees.scatter_add(0, target, torch.ones(200_000, device=DEVICE.name)).clamp(min=1.0)[:, None]

    def loss() -> Any:
        h = x
        for weight in (first, second):
            messages = (h @ weight)[source]
            h = torch.relu(torch.zeros_like(h).index_add(0, target, messages) / degrees)
        return h.square().mean()

    return backward_step(loss, [first, second])


@row("sorting", "topk, sort and cumsum of 4,096 x 4,096", tolerance=1e-3)
def sorting(torch: Any) -> Step:
    x = on_device(torch, draw_normal(4096, 4096), leaf=True)

    def loss() -> Any:
        return torch.topk(x, 10, 1)[0].mean() + torch.sort(x, 1)[0][:, ::7].mean() + torch.cumsum(x, 1).mean()

    return backward_step(loss, [x])


@row("per-sample", "per-sample gradients of an MLP by vmap(grad), batch 256", tolerance=1e-3)
def per_sample(torch: Any) -> Step:
    shapes = [(64, 128), (128,), (128, 10), (10,)]
    weights = [on_device(torch, draw_normal(*s, seed=i) / 8) for i, s in enumerate(shapes)]
    x, y = on_device(torch, draw_normal(256, 64)), _class_numbers(torch, 256, 10)

    def loss(ws: Any, x: Any, y: Any) -> Any:
        out = torch.tanh(x @ ws[0] + ws[1]) @ ws[2] + ws[3]
        return torch.nn.functional.cross_entropy(out, y)

    gradients = torch.func.vmap(torch.func.grad(loss), (None, 0, 0))
    return lambda: sum(g.square().sum() for g in gradients(weights, x, y))


@row("hessian", "Hessian of a network with 60 parameters", tolerance=1e-3)
def hessian(torch: Any) -> Step:
    x, y = on_device(torch, draw_normal(100, 4)), on_device(torch, draw_normal(100, seed=1))
    w = on_device(torch, draw_normal(60, seed=2) / 4)

    def loss(w: Any) -> Any:
        hidden = torch.tanh(x @ w[:40].reshape(4, 10) + w[40:50])
        return (hidden @ w[50:60] - y).square().mean()

    return lambda: torch.func.hessian(loss)(w).sum()


@row("fft-convolution", "convolution by FFT, 64 signals of 16,384", tolerance=1e-3)
def fft_convolution(torch: Any) -> Step:
    x = on_device(torch, draw_normal(64, 16_384))
    kernel = on_device(torch, draw_normal(16_384, seed=1) / 128, leaf=True)

    def loss() -> Any:
        product = torch.fft.rfft(x, 32_768) * torch.fft.rfft(kernel, 32_768)
        return torch.fft.irfft(product, 32_768)[:, :16_384].square().mean()

    return backward_step(loss, [kernel])


def _plain_step(torch: Any, batch: int) -> Step:
    sizes = (784, 256, 256, 10)
    weights = [on_device(torch, draw_normal(a, b, seed=a) / a**0.5, leaf=True) for a, b in itertools.pairwise(sizes)]
    biases = [on_device(torch, np.zeros(b, np.float32), leaf=True) for b in sizes[1:]]
    x, y = on_device(torch, draw_normal(batch, 784)), _class_numbers(torch, batch, 10)

    def loss() -> Any:
        h = x
        for w, b in zip(weights[:-1], biases[:-1], strict=True):
            h = torch.relu(h @ w + b)
        return torch.nn.functional.cross_entropy(h @ weights[-1] + biases[-1], y)

    return backward_step(loss, [*weights, *biases])


@row("plain-mlp-64", "MLP written as relu(x @ W + b), batch 64")
def plain_small(torch: Any) -> Step:
    return _plain_step(torch, 64)


@row("plain-mlp-4096", "the same, batch 4,096")
def plain_large(torch: Any) -> Step:
    return _plain_step(torch, 4096)
