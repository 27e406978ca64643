"""Whole training steps of sixteen programs as users write them: networks, physics, meta-learning, filters.

They vary in what they ask of a library: loops in Python, derivatives of derivatives, transforms, indices, small
matrices. All of them are written for torch's dialect, without a thought of any compiler.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from benchmarks.workloads.models import Model, classify, draw_images, predict_letters, register_model

_TWICE = {"torch-compiled": "it does not support a backward pass inside of a backward pass"}


def _normal(torch: Any, *shape: int, seed: int = 0) -> Any:
    return torch.tensor(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def _layers(torch: Any, *widths: int, between: Any = None) -> Any:
    """Return linear layers with an activation between them."""
    nn = torch.nn
    modules: list[Any] = []
    for fan_in, fan_out in itertools.pairwise(widths):
        modules += [nn.Linear(fan_in, fan_out), (between or nn.ReLU)()]
    return nn.Sequential(*modules[:-1])


# ----- networks on images and text ------------------------------------------------------------------------------------


def gpt(torch: Any) -> Model:
    """Four blocks of width 192 with six heads on 64 of 256 letters, batch 8."""
    return predict_letters(torch, blocks=4, width=192, heads=6, length=64, batch=8, letters=256)


def vision_transformer(torch: Any) -> Model:
    """Four encoder layers of width 128 on 64 patches of 4 x 4, batch 16."""
    nn = torch.nn

    class Patches(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.patch = nn.Conv2d(3, 128, 4, 4)
            self.place = nn.Parameter(torch.zeros(64, 128))
            self.layers = nn.Sequential(
                *[
                    nn.TransformerEncoderLayer(
                        128, 4, 256, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
                    )
                    for _ in range(4)
                ]
            )
            self.norm, self.head = nn.LayerNorm(128), nn.Linear(128, 10)

        def forward(self, x: Any) -> Any:
            x = self.patch(x).flatten(2).transpose(1, 2) + self.place
            return self.head(self.norm(self.layers(x)).mean(1))

    return classify(torch, Patches(), *draw_images(torch, 16, 3, 32))


def lstm_classifier(torch: Any) -> Model:
    """Two layers of nn.LSTM of width 128 over 32 steps of 64 numbers, batch 16."""
    nn = torch.nn

    class Reader(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.cells, self.head = nn.LSTM(64, 128, 2, batch_first=True), nn.Linear(128, 10)

        def forward(self, x: Any) -> Any:
            return self.head(self.cells(x)[0][:, -1])

    y = torch.tensor(np.random.default_rng(1).integers(0, 10, 16))
    return classify(torch, Reader(), _normal(torch, 16, 32, 64), y)


def u_net(torch: Any) -> Model:
    """Three levels of 16, 32 and 64 channels on images of 32 x 32, batch 8: a mask per pixel."""
    nn, functional = torch.nn, torch.nn.functional

    def block(fan_in: int, fan_out: int) -> Any:
        return nn.Sequential(
            nn.Conv2d(fan_in, fan_out, 3, padding=1, bias=False), nn.BatchNorm2d(fan_out), nn.ReLU(),
            nn.Conv2d(fan_out, fan_out, 3, padding=1), nn.ReLU(),
        )  # fmt: skip

    class Net(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.down1, self.down2, self.bottom = block(3, 16), block(16, 32), block(32, 64)
            self.up2, self.up1 = nn.ConvTranspose2d(64, 32, 2, 2), nn.ConvTranspose2d(32, 16, 2, 2)
            self.join2, self.join1, self.head = block(64, 32), block(32, 16), nn.Conv2d(16, 1, 1)

        def forward(self, x: Any) -> Any:
            fine = self.down1(x)
            middle = self.down2(functional.max_pool2d(fine, 2))
            coarse = self.bottom(functional.max_pool2d(middle, 2))
            middle = self.join2(torch.cat([self.up2(coarse), middle], 1))
            return self.head(self.join1(torch.cat([self.up1(middle), fine], 1)))

    x = _normal(torch, 8, 3, 32, 32)
    mask = (_normal(torch, 8, 1, 32, 32, seed=1) > 0).float()
    model = Net()
    return model, lambda: functional.binary_cross_entropy_with_logits(model(x), mask)


def small_resnet(torch: Any) -> Model:
    """Three residual blocks of 16 to 64 channels on images of 32 x 32, batch 16."""
    nn = torch.nn

    class Block(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self, fan_in: int, fan_out: int) -> None:
            super().__init__()
            self.first = nn.Conv2d(fan_in, fan_out, 3, 2, 1, bias=False)
            self.second = nn.Conv2d(fan_out, fan_out, 3, 1, 1, bias=False)
            self.short = nn.Conv2d(fan_in, fan_out, 1, 2)
            self.norm1, self.norm2 = nn.BatchNorm2d(fan_out), nn.BatchNorm2d(fan_out)

        def forward(self, x: Any) -> Any:
            inner = torch.relu(self.norm1(self.first(x)))
            return torch.relu(self.norm2(self.second(inner)) + self.short(x))

    model = nn.Sequential(
        Block(3, 16), Block(16, 32), Block(32, 64), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)
    )
    return classify(torch, model, *draw_images(torch, 16, 3, 32))


def mixer(torch: Any) -> Model:
    """Four blocks that mix 64 patches, then 96 channels, batch 16."""
    nn = torch.nn

    class Mixing(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(96), nn.LayerNorm(96)
            self.patches = _layers(torch, 64, 32, 64, between=nn.GELU)
            self.channels = _layers(torch, 96, 192, 96, between=nn.GELU)

        def forward(self, x: Any) -> Any:
            x = x + self.patches(self.norm1(x).transpose(1, 2)).transpose(1, 2)
            return x + self.channels(self.norm2(x))

    class Net(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.patch, self.head = nn.Conv2d(3, 96, 4, 4), nn.Linear(96, 10)
            self.blocks = nn.Sequential(*[Mixing() for _ in range(4)])

        def forward(self, x: Any) -> Any:
            return self.head(self.blocks(self.patch(x).flatten(2).transpose(1, 2)).mean(1))

    return classify(torch, Net(), *draw_images(torch, 16, 3, 32))


def convolutional_vae(torch: Any) -> Model:
    """Two convolutions, 16 latent numbers, two transposed convolutions, images of 28 x 28, batch 32."""
    nn, functional = torch.nn, torch.nn.functional

    class Coder(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Sequential(
                nn.Conv2d(1, 16, 4, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 4, 2, 1), nn.ReLU(), nn.Flatten()
            )
            self.mean, self.spread, self.outer = nn.Linear(1568, 16), nn.Linear(1568, 16), nn.Linear(16, 1568)
            self.image = nn.Sequential(
                nn.ConvTranspose2d(32, 16, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(16, 1, 4, 2, 1)
            )

        def forward(self, x: Any, noise: Any) -> Any:
            hidden = self.inner(x)
            mean, spread = self.mean(hidden), self.spread(hidden)
            z = mean + noise * torch.exp(0.5 * spread)
            return self.image(torch.relu(self.outer(z)).reshape(-1, 32, 7, 7)), mean, spread

    x, noise = torch.sigmoid(_normal(torch, 32, 1, 28, 28)), _normal(torch, 32, 16, seed=1)
    model = Coder()

    def loss() -> Any:
        image, mean, spread = model(x, noise)
        seen = functional.binary_cross_entropy_with_logits(image, x, reduction="sum")
        return (seen - 0.5 * (1 + spread - mean * mean - torch.exp(spread)).sum()) / 32

    return model, loss


def translator(torch: Any) -> Model:
    """An encoder of nn.GRU, and a loop of nn.GRUCell that attends to its 16 states for 12 words, batch 16."""
    nn, functional = torch.nn, torch.nn.functional
    words, width = 200, 64

    class Net(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.source, self.target = nn.Embedding(words, width), nn.Embedding(words, width)
            self.encoder = nn.GRU(width, width, batch_first=True)
            self.cell, self.head = nn.GRUCell(2 * width, width), nn.Linear(2 * width, words)

        def forward(self, x: Any, y: Any) -> Any:
            states, last = self.encoder(self.source(x))
            hidden, out = last[0], []
            for word in self.target(y).unbind(1):
                weights = torch.softmax((states @ hidden.unsqueeze(2)).squeeze(2) / width**0.5, 1)
                context = (weights.unsqueeze(1) @ states).squeeze(1)
                hidden = self.cell(torch.cat([word, context], 1), hidden)
                out.append(self.head(torch.cat([hidden, context], 1)))
            return torch.stack(out, 1)

    random = np.random.default_rng(0)
    x = torch.tensor(random.integers(0, words, (16, 16)))
    text = random.integers(0, words, (16, 13))
    given, wanted = torch.tensor(text[:, :-1].copy()), torch.tensor(text[:, 1:].reshape(-1).copy())
    model = Net()
    return model, lambda: functional.cross_entropy(model(x, given).reshape(-1, words), wanted)


# ----- sets, graphs, agents -------------------------------------------------------------------------------------------


def deep_sets(torch: Any) -> Model:
    """A network on 50 points of each of 32 sets, their sum, and a second network."""
    nn = torch.nn

    class Net(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.points, self.sets = _layers(torch, 3, 64, 64, 64), _layers(torch, 64, 64, 10)

        def forward(self, x: Any) -> Any:
            return self.sets(self.points(x).sum(1))

    y = torch.tensor(np.random.default_rng(1).integers(0, 10, 32))
    return classify(torch, Net(), _normal(torch, 32, 50, 3), y)


def graph_network(torch: Any) -> Model:
    """Two rounds of messages over 3000 edges of 500 nodes, width 32."""
    nn = torch.nn

    class Round(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.message, self.update = _layers(torch, 64, 32, 32), _layers(torch, 64, 32, 32)

        def forward(self, x: Any, sender: Any, receiver: Any) -> Any:
            messages = self.message(torch.cat([x[sender], x[receiver]], 1))
            gathered = torch.zeros_like(x).index_add(0, receiver, messages)
            return x + self.update(torch.cat([x, gathered], 1))

    class Net(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second, self.head = Round(), Round(), nn.Linear(32, 10)

        def forward(self, x: Any, sender: Any, receiver: Any) -> Any:
            return self.head(self.second(self.first(x, sender, receiver), sender, receiver))

    random = np.random.default_rng(0)
    sender, receiver = (torch.tensor(random.integers(0, 500, 3000)) for _ in range(2))
    x, y = _normal(torch, 500, 32), torch.tensor(random.integers(0, 10, 500))
    model = Net()
    return model, lambda: torch.nn.functional.cross_entropy(model(x, sender, receiver), y)


def value_learning(torch: Any) -> Model:
    """The loss of deep Q-learning on 128 transitions, with a second network for the targets."""
    random = np.random.default_rng(0)
    before, after = _normal(torch, 128, 8), _normal(torch, 128, 8, seed=1)
    action = torch.tensor(random.integers(0, 4, (128, 1)))
    reward, done = _normal(torch, 128, seed=2), torch.tensor((random.random(128) < 0.1).astype(np.float32))
    model, other = _layers(torch, 8, 128, 128, 4), _layers(torch, 8, 128, 128, 4).float()
    with torch.no_grad():
        for k, parameter in enumerate(other.parameters()):
            parameter.copy_(_normal(torch, *parameter.shape, seed=k) * 0.1)

    def loss() -> Any:
        with torch.no_grad():
            target = reward + 0.99 * (1 - done) * other(after).max(1).values
        return torch.nn.functional.smooth_l1_loss(model(before).gather(1, action).squeeze(1), target)

    return model, loss


# ----- derivatives of derivatives, loops, transforms ------------------------------------------------------------------


def gradient_penalty(torch: Any) -> Model:
    """A critic 64-128-128-1 whose slope between two sets of 64 points is held at 1."""
    model = _layers(torch, 64, 128, 128, 1, between=torch.nn.Tanh)
    real, fake = _normal(torch, 64, 64), _normal(torch, 64, 64, seed=1) + 0.5
    share = torch.sigmoid(_normal(torch, 64, 1, seed=2))

    def loss() -> Any:
        between = (share * real + (1 - share) * fake).requires_grad_()
        (slope,) = torch.autograd.grad(model(between).sum(), between, create_graph=True)
        penalty = ((slope.norm(dim=1) - 1) ** 2).mean()
        return model(fake).mean() - model(real).mean() + 10 * penalty

    return model, loss


def burgers_equation(torch: Any) -> Model:
    """A network u(t, x) 2-32-32-1 and the residual of u_t + u u_x = 0.01 u_xx at 256 points."""
    model = _layers(torch, 2, 32, 32, 1, between=torch.nn.Tanh)
    points = torch.sigmoid(_normal(torch, 2, 256))

    def loss() -> Any:
        t, x = (p.clone().requires_grad_() for p in points)
        u = model(torch.stack([t, x], 1)).squeeze(1)
        u_t, u_x = torch.autograd.grad(u.sum(), (t, x), create_graph=True)
        (u_xx,) = torch.autograd.grad(u_x.sum(), x, create_graph=True)
        return ((u_t + u * u_x - 0.01 * u_xx) ** 2).mean()

    return model, loss


def neural_ode(torch: Any) -> Model:
    """A slope 2-32-2 integrated by 20 steps of Runge and Kutta from 128 points."""
    model = _layers(torch, 2, 32, 2, between=torch.nn.Tanh)
    start, end, h = _normal(torch, 128, 2), _normal(torch, 128, 2, seed=1), 0.05

    def loss() -> Any:
        y = start
        for _ in range(20):
            k1 = model(y)
            k2 = model(y + h / 2 * k1)
            k3 = model(y + h / 2 * k2)
            k4 = model(y + h * k3)
            y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return ((y - end) ** 2).mean()

    return model, loss


def meta_learning(torch: Any) -> Model:
    """One step of gradient descent on each of 16 tasks, then the loss of the result: vmap of grad."""
    model = _layers(torch, 1, 40, 40, 1, between=torch.nn.Tanh)
    x, other = _normal(torch, 16, 10, 1), _normal(torch, 16, 10, 1, seed=1)
    phase = _normal(torch, 16, 1, 1, seed=2)
    y, other_y = torch.sin(x + phase), torch.sin(other + phase)

    def error(weights: dict[str, Any], x: Any, y: Any) -> Any:
        return ((torch.func.functional_call(model, weights, (x,)) - y) ** 2).mean()

    def adapt(weights: dict[str, Any], x: Any, y: Any, other: Any, other_y: Any) -> Any:
        slopes = torch.func.grad(error)(weights, x, y)
        better = {name: w - 0.05 * slopes[name] for name, w in weights.items()}
        return error(better, other, other_y)

    def loss() -> Any:
        weights = dict(model.named_parameters())
        return torch.func.vmap(adapt, (None, 0, 0, 0, 0))(weights, x, y, other, other_y).mean()

    return model, loss


def kalman_filter(torch: Any) -> Model:
    """The likelihood of 50 observations of 2 numbers under a linear system of 4, by prediction and correction."""

    class System(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.move, self.see = torch.nn.Parameter(torch.zeros(4, 4)), torch.nn.Parameter(torch.zeros(2, 4))
            self.noise, self.error = torch.nn.Parameter(torch.zeros(4)), torch.nn.Parameter(torch.zeros(2))

        def forward(self, seen: Any) -> Any:
            move, see = 0.5 * self.move, self.see
            noise, error = torch.diag(torch.exp(self.noise)), torch.diag(torch.exp(self.error))
            mean, spread, total = torch.zeros(4), torch.eye(4), 0.0
            for y in seen:
                mean, spread = move @ mean, move @ spread @ move.T + noise
                miss, inner = y - see @ mean, see @ spread @ see.T + error
                gain = torch.linalg.solve(inner, see @ spread).T
                total = total + torch.logdet(inner) + miss @ torch.linalg.solve(inner, miss)
                mean, spread = mean + gain @ miss, spread - gain @ see @ spread
            return total / len(seen)

    seen, model = _normal(torch, 50, 2), System()
    return model, lambda: model(seen)


register_model("gpt", "GPT 4 x 192, batch 8", gpt)
register_model("vit", "vision transformer 4 x 128, batch 16", vision_transformer)
register_model("lstm", "nn.LSTM of two layers, batch 16", lstm_classifier)
register_model("u-net", "U-Net on 32 x 32, batch 8", u_net, tolerance=1e-2)
register_model("gradient-penalty", "critic with gradient penalty, batch 64", gradient_penalty, skip=_TWICE)
register_model("pinn", "Burgers' equation at 256 points", burgers_equation, skip=_TWICE)
register_model("neural-ode", "neural ODE, 20 steps of Runge and Kutta", neural_ode)
register_model("translator", "sequence to sequence with attention, batch 16", translator)
register_model("graph", "graph network, 500 nodes", graph_network)
register_model("small-resnet", "three residual blocks on 32 x 32, batch 16", small_resnet, tolerance=1e-2)
register_model("mixer", "MLP-mixer 4 x 96, batch 16", mixer)
register_model("conv-vae", "convolutional VAE, batch 32", convolutional_vae)
register_model("deep-sets", "deep sets, 32 of 50 points", deep_sets)
register_model("dqn", "deep Q-learning, batch 128", value_learning)
register_model("maml", "meta-learning by vmap(grad), 16 tasks", meta_learning)
register_model("kalman", "Kalman filter, 50 steps", kalman_filter, tolerance=1e-2)
