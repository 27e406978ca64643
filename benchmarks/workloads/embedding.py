"""The gradient of an embedding: rows of a large table read by index, with gradients added at repeated indices."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.differentiate import backward_step, functional_step, leaves
from benchmarks.libraries import Functional
from benchmarks.registry import Step, workload

WORDS, WIDTH, SENTENCES, LENGTH = 10_000, 64, 64, 32


def arrays() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the table, the indices (small ones are frequent, as in a language), and weights of the result."""
    random = np.random.default_rng(0)
    table = random.standard_normal((WORDS, WIDTH)).astype(np.float32)
    frequent = (WORDS * random.random((SENTENCES, LENGTH)) ** 3).astype(np.int64)
    return table, frequent, random.standard_normal((SENTENCES, LENGTH, WIDTH)).astype(np.float32)


@workload("embedding", title="embedding 10,000 x 64, 2048 indices", compiled_goal=0.5, tolerance=1e-4)
def embedding(torch: Any) -> Step:
    """Compute a weighted mean of the rows, squared."""
    table, indices, weights = arrays()
    (parameter,) = leaves(torch, [table])
    places, scale = torch.tensor(indices), torch.tensor(weights)

    def loss() -> Any:
        rows = torch.nn.functional.embedding(places, parameter)
        return ((rows * scale).mean(1) ** 2).sum()

    return backward_step(loss, [parameter])


@embedding.functional
def embedding_functional(dialect: Functional) -> Step:
    """Compute the same by indexing."""
    table, indices, weights = arrays()

    def loss(parameters: list[Any], scale: Any) -> Any:
        rows = parameters[0][indices]
        return dialect.np.sum(dialect.np.mean(rows * scale, axis=1) ** 2)

    return functional_step(dialect, loss, [table], weights)
