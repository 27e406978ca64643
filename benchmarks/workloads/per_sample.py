"""Gradients of an MLP for each sample of a batch, through vmap of grad: batching rules on top of reverse mode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.differentiate import compile_step
from benchmarks.registry import Step, workload

WIDTHS = (784, 128, 10)
BATCH = 64


@workload("per-sample", title="per-sample gradients, MLP 784-128-10, batch 64", goal=1.2, tolerance=1e-4)
def per_sample(torch: Any) -> Step:
    """Run one hidden layer with relu and cross-entropy; the result is a batch of weight-sized gradients, 26 MB."""
    random = np.random.default_rng(0)
    inputs, hidden, outputs = WIDTHS
    parameters = {
        "w1": torch.tensor((random.standard_normal((inputs, hidden)) / inputs**0.5).astype(np.float32)),
        "b1": torch.tensor(np.zeros(hidden, np.float32)),
        "w2": torch.tensor((random.standard_normal((hidden, outputs)) / hidden**0.5).astype(np.float32)),
        "b2": torch.tensor(np.zeros(outputs, np.float32)),
    }
    images = torch.tensor(random.standard_normal((BATCH, inputs)).astype(np.float32))
    labels = torch.tensor(random.integers(0, outputs, BATCH))

    def loss(p: dict[str, Any], x: Any, y: Any) -> Any:
        h = torch.relu(x @ p["w1"] + p["b1"])
        return torch.nn.functional.cross_entropy((h @ p["w2"] + p["b2"])[None], y[None])

    gradients = compile_step(torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0)))

    def step() -> Sequence[Any]:
        found = gradients(parameters, images, labels)
        return [found[name] for name in parameters]

    return step
