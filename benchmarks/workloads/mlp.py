"""A multilayer perceptron, 784-256-256-10 on batches of 64 and 1024: mostly matrix products."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks.differentiate import backward_step, functional_step, leaves
from benchmarks.libraries import Functional
from benchmarks.registry import Step, workload

WIDTHS = (784, 256, 256, 10)


def arrays(batch: int) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """Return weights and biases in turn, then images, then labels."""
    random = np.random.default_rng(0)
    parameters = []
    for fan_in, fan_out in pairwise(WIDTHS):
        parameters.append((random.standard_normal((fan_in, fan_out)) / fan_in**0.5).astype(np.float32))
        parameters.append(np.zeros(fan_out, dtype=np.float32))
    images = random.standard_normal((batch, WIDTHS[0])).astype(np.float32)
    return parameters, images, random.integers(0, WIDTHS[-1], batch)


def mlp_step(torch: Any, batch: int) -> Step:
    """Return a step with two hidden layers with relu, and cross-entropy."""
    weights, images, labels = arrays(batch)
    parameters = leaves(torch, weights)
    w1, b1, w2, b2, w3, b3 = parameters
    x, y = torch.tensor(images), torch.tensor(labels)

    def loss() -> Any:
        hidden = torch.relu(x @ w1 + b1)
        hidden = torch.relu(hidden @ w2 + b2)
        return torch.nn.functional.cross_entropy(hidden @ w3 + b3, y)

    return backward_step(loss, parameters)


def functional_mlp_step(dialect: Functional, batch: int) -> Step:
    """Return a step of the same network in the functional dialect."""
    weights, images, labels = arrays(batch)

    def loss(parameters: list[Any], x: Any, one_hot: Any) -> Any:
        w1, b1, w2, b2, w3, b3 = parameters
        hidden = dialect.relu(dialect.np.matmul(x, w1) + b1)
        hidden = dialect.relu(dialect.np.matmul(hidden, w2) + b2)
        return dialect.cross_entropy(dialect.np.matmul(hidden, w3) + b3, one_hot)

    return functional_step(dialect, loss, weights, images, np.eye(10, dtype=np.float32)[labels])


def mlp_by_hand(batch: int) -> Step:
    """Return a step of the same network and its gradient, in the fewest passes over memory that NumPy allows."""
    (w1, b1, w2, b2, w3, b3), x, y = arrays(batch)
    rows = np.arange(batch)

    def step() -> Sequence[Any]:
        first = x @ w1
        first += b1
        np.maximum(first, 0, out=first)
        second = first @ w2
        second += b2
        np.maximum(second, 0, out=second)
        scores = second @ w3
        scores += b3
        scores -= scores.max(axis=1, keepdims=True)
        picked = scores[rows, y]
        np.exp(scores, out=scores)
        totals = scores.sum(axis=1, keepdims=True)
        loss = (np.log(totals[:, 0]) - picked).mean()
        scores /= totals
        scores[rows, y] -= 1
        scores *= np.float32(1 / batch)
        above = scores @ w3.T
        above *= second > 0
        below = above @ w2.T
        below *= first > 0
        return [
            loss, x.T @ below, below.sum(axis=0), first.T @ above, above.sum(axis=0), second.T @ scores,
            scores.sum(axis=0)
        ]  # fmt: skip

    return step


def _register(name: str, batch: int, goal: float | None, compiled_goal: float) -> None:
    title = f"MLP 784-256-256-10, batch {batch}"

    @workload(name, title=title, goal=goal, compiled_goal=compiled_goal, tolerance=1e-4)
    def mlp(torch: Any) -> Step:
        return mlp_step(torch, batch)

    @mlp.functional
    def mlp_functional(dialect: Functional) -> Step:
        return functional_mlp_step(dialect, batch)

    @mlp.by_hand
    def mlp_manual() -> Step:
        return mlp_by_hand(batch)


_register("mlp", 64, 0.8, 0.6)
_register("mlp-1024", 1024, None, 0.8)
