"""Elementwise chains, small networks and a language model, as rows of the GPU benchmark."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.gpu.rows import DEVICE, Step, backward_step, draw_normal, fill_parameters, on_device, row

# ----- elementwise ----------------------------------------------------------------------------------------------------


def _chain(torch: Any, size: int) -> Step:
    x = on_device(torch, draw_normal(size) * 0.1, leaf=True)

    def loss() -> Any:
        y = x
        for _ in range(10):
            y = torch.sin(y) * 0.9
            y = torch.tanh(y + 0.1)
            y = y * y + x
        return y.sum()

    return backward_step(loss, [x])


@row("chain-100", "chain of 50 ops, size 100")
def chain_small(torch: Any) -> Step:
    return _chain(torch, 100)


@row("chain-1M", "chain of 50 ops, size 1M")
def chain_large(torch: Any) -> Step:
    return _chain(torch, 1 << 20)


@row("gelu-64M", "tanh-GELU of 64M float32, forward and backward")
def gelu(torch: Any) -> Step:
    x = on_device(torch, np.resize(draw_normal(1 << 20), 1 << 26), leaf=True)
    g = torch.ones_like(x.detach())

    def step() -> Any:
        x.grad = None
        y = torch.nn.functional.gelu(x, approximate="tanh")
        y.backward(g)
        return y[:8].sum()

    return step


@row("gelu-64M-forward", "tanh-GELU of 64M float32, forward alone")
def gelu_forward(torch: Any) -> Step:
    x = on_device(torch, np.resize(draw_normal(1 << 20), 1 << 26))
    return lambda: torch.nn.functional.gelu(x, approximate="tanh")


# ----- networks -------------------------------------------------------------------------------------------------------


def _mlp(torch: Any, batch: int) -> Step:
    nn = torch.nn
    model = fill_parameters(
        torch, nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))
    )
    x = on_device(torch, draw_normal(batch, 784))
    y = on_device(torch, np.random.default_rng(2).integers(0, 10, batch))
    return backward_step(lambda: nn.functional.cross_entropy(model(x), y), list(model.parameters()))


@row("mlp-64", "MLP 784-256-256-10, batch 64")
def mlp_small(torch: Any) -> Step:
    return _mlp(torch, 64)


@row("mlp-4096", "MLP 784-256-256-10, batch 4096")
def mlp_large(torch: Any) -> Step:
    return _mlp(torch, 4096)


def block(torch: Any, width: int, heads: int) -> Any:
    """Return a pre-norm transformer layer with causal attention."""
    nn, functional = torch.nn, torch.nn.functional

    class Layer(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            batch, length, _ = x.shape
            qkv = self.qkv(self.norm1(x)).reshape(batch, length, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
            mixed = functional.scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], is_causal=True)
            x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
            return x + self.down(functional.gelu(self.up(self.norm2(x)), approximate="tanh"))

    return Layer()


def _layer(torch: Any, dtype: Any) -> Step:
    model = fill_parameters(torch, block(torch, 512, 8), dtype)
    x = on_device(torch, draw_normal(16, 512, 512), dtype)
    return backward_step(lambda: model(x).float().square().mean(), list(model.parameters()))


@row("layer-f32", "transformer layer, d 512, 8 heads, seq 512, batch 16, float32")
def layer_single(torch: Any) -> Step:
    return _layer(torch, torch.float32)


@row("layer-bf16", "the same in bfloat16", tolerance=0.05)
def layer_half(torch: Any) -> Step:
    return _layer(torch, torch.bfloat16)


@row("convnet", "convnet 3-32-64 on 64 x 64, batch 64", tolerance=1e-2)
def convnet(torch: Any) -> Step:
    nn = torch.nn
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64 * 16 * 16, 10),
    )  # fmt: skip
    model = fill_parameters(torch, model)
    x = on_device(torch, draw_normal(64, 3, 64, 64))
    y = on_device(torch, np.random.default_rng(2).integers(0, 10, 64))
    return backward_step(lambda: nn.functional.cross_entropy(model(x), y), list(model.parameters()))


def record_graph(torch: Any, step: Step) -> Step:
    """Record a step as a CUDA graph."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()

    def replay(parts: Any = step) -> Any:  # the default keeps `step` alive; a graph does not
        graph.replay()
        return loss

    return replay


@row("mlp-64-graph", "MLP 784-256-256-10, batch 64, as a CUDA graph")
def mlp_recorded(torch: Any) -> Step:
    return record_graph(torch, _mlp(torch, 64))


@row("convnet-graph", "convnet 3-32-64, as a CUDA graph", tolerance=1e-2)
def convnet_recorded(torch: Any) -> Step:
    return record_graph(torch, convnet(torch))


@row("gpt-bf16-graph", "12 layers, d 768, bfloat16, AdamW, as a CUDA graph", tolerance=0.05)
def language_recorded(torch: Any) -> Step:
    return record_graph(torch, language(torch, capturable=True))


@row("gpt-bf16", "12 layers, d 768, 12 heads, seq 512, batch 16, bfloat16, AdamW", tolerance=0.05)
def language(torch: Any, capturable: bool = False) -> Step:
    nn, functional = torch.nn, torch.nn.functional
    width, length, batch, words = 768, 512, 16, 8192

    class Language(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
            self.layers = nn.Sequential(*[block(torch, width, 12) for _ in range(12)])
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

        def forward(self, ids: Any) -> Any:
            x = self.words(ids) + self.places(torch.arange(length, device=DEVICE.name))
            return self.head(self.norm(self.layers(x)))

    model = fill_parameters(torch, Language(), torch.bfloat16)
    ids = on_device(torch, np.random.default_rng(3).integers(0, words, (batch, length)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, capturable=capturable)

    def step() -> Any:
        optimizer.zero_grad()
        logits = model(ids)
        loss = functional.cross_entropy(logits.reshape(-1, words).float(), ids.reshape(-1))
        loss.backward()
        optimizer.step()
        return loss

    return step
