"""A multilayer perceptron, 784-256-256-10 on a batch of 64: small matrix products, little around them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks.differentiate import backward_step, functional_step, leaves
from benchmarks.libraries import Functional
from benchmarks.registry import Step, workload

WIDTHS = (784, 256, 256, 10)
BATCH = 64


def arrays() -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """Weights and biases in turn, then images, then labels."""
    random = np.random.default_rng(0)
    parameters = []
    for fan_in, fan_out in pairwise(WIDTHS):
        parameters.append((random.standard_normal((fan_in, fan_out)) / fan_in**0.5).astype(np.float32))
        parameters.append(np.zeros(fan_out, dtype=np.float32))
    images = random.standard_normal((BATCH, WIDTHS[0])).astype(np.float32)
    return parameters, images, random.integers(0, WIDTHS[-1], BATCH)


@workload("mlp", title="MLP 784-256-256-10, batch 64", goal=0.8, tolerance=1e-4)
def mlp(torch: Any) -> Step:
    """Two hidden layers with relu, cross-entropy."""
    weights, images, labels = arrays()
    parameters = leaves(torch, weights)
    w1, b1, w2, b2, w3, b3 = parameters
    x, y = torch.tensor(images), torch.tensor(labels)

    def loss() -> Any:
        hidden = torch.relu(x @ w1 + b1)
        hidden = torch.relu(hidden @ w2 + b2)
        return torch.nn.functional.cross_entropy(hidden @ w3 + b3, y)

    return backward_step(loss, parameters)


@mlp.functional
def mlp_functional(dialect: Functional) -> Step:
    """The same network."""
    weights, images, labels = arrays()

    def loss(parameters: list[Any], x: Any, one_hot: Any) -> Any:
        w1, b1, w2, b2, w3, b3 = parameters
        hidden = dialect.relu(dialect.np.matmul(x, w1) + b1)
        hidden = dialect.relu(dialect.np.matmul(hidden, w2) + b2)
        return dialect.cross_entropy(dialect.np.matmul(hidden, w3) + b3, one_hot)

    return functional_step(dialect, loss, weights, images, np.eye(10, dtype=np.float32)[labels])
