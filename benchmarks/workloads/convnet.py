"""A small convolutional network on 32 images of 28 x 28. torch uses oneDNN here; NumPy has no convolution."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.differentiate import backward_step, functional_step, leaves
from benchmarks.libraries import Functional
from benchmarks.registry import Step, workload

BATCH, SIDE, CLASSES = 32, 28, 10
CHANNELS = (1, 16, 32)
FEATURES = CHANNELS[2] * (SIDE // 4) ** 2


def arrays() -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """Return two 3 x 3 convolutions and a linear layer; then images, then labels."""
    random = np.random.default_rng(0)

    def normal(*shape: int, scale: float) -> np.ndarray:
        return (scale * random.standard_normal(shape)).astype(np.float32)

    parameters = [
        normal(CHANNELS[1], CHANNELS[0], 3, 3, scale=0.3),
        normal(CHANNELS[1], scale=0.1),
        normal(CHANNELS[2], CHANNELS[1], 3, 3, scale=0.1),
        normal(CHANNELS[2], scale=0.1),
        normal(FEATURES, CLASSES, scale=FEATURES**-0.5),
        normal(CLASSES, scale=0.1),
    ]
    return parameters, normal(BATCH, 1, SIDE, SIDE, scale=1.0), random.integers(0, CLASSES, BATCH)


@workload("convnet", title="convnet 1-16-32 on 28 x 28, batch 32", goal=1.6, compiled_goal=0.55, tolerance=1e-4)
def convnet(torch: Any) -> Step:
    """Run convolution, relu and pooling twice; then a linear layer and cross-entropy."""
    functional = torch.nn.functional
    weights, images, labels = arrays()
    parameters = leaves(torch, weights)
    w1, b1, w2, b2, w3, b3 = parameters
    x, y = torch.tensor(images), torch.tensor(labels)

    def loss() -> Any:
        hidden = functional.max_pool2d(torch.relu(functional.conv2d(x, w1, b1, padding=1)), 2)
        hidden = functional.max_pool2d(torch.relu(functional.conv2d(hidden, w2, b2, padding=1)), 2)
        return functional.cross_entropy(hidden.flatten(1) @ w3 + b3, y)

    return backward_step(loss, parameters)


@convnet.functional
def convnet_functional(dialect: Functional) -> Step:
    """Run the same network; pooling by reshaping is the fast way in both libraries."""
    weights, images, labels = arrays()
    np_ = dialect.np

    def layer(x: Any, weight: Any, bias: Any) -> Any:
        return dialect.max_pool2(dialect.relu(dialect.conv3x3(x, weight) + np_.reshape(bias, (1, -1, 1, 1))))

    def loss(parameters: list[Any], x: Any, one_hot: Any) -> Any:
        w1, b1, w2, b2, w3, b3 = parameters
        hidden = layer(layer(x, w1, b1), w2, b2)
        return dialect.cross_entropy(np_.matmul(np_.reshape(hidden, (BATCH, FEATURES)), w3) + b3, one_hot)

    return functional_step(dialect, loss, weights, images, np.eye(CLASSES, dtype=np.float32)[labels])
