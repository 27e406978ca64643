"""Nine elementwise ops on four million numbers: measures only the number of passes over memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.differentiate import backward_step, functional_step, leaves
from benchmarks.libraries import Functional
from benchmarks.registry import Step, workload

SIZE = 4_000_000


def arrays() -> list[np.ndarray]:
    """Return two leaves."""
    random = np.random.default_rng(0)
    return [random.standard_normal(SIZE).astype(np.float32) for _ in range(2)]


@workload("elementwise-4m", title="9 elementwise ops, 4M float32", compiled_goal=0.15, tolerance=1e-3)
def elementwise(torch: Any) -> Step:
    """Compute a gated sum of squares."""
    x, y = parameters = leaves(torch, arrays())

    def loss() -> Any:
        gate = torch.sigmoid(x * y + x)
        mixed = gate * torch.tanh(y) + (1.0 - gate) * x
        return (mixed * mixed).mean()

    return backward_step(loss, parameters)


@elementwise.functional
def elementwise_functional(dialect: Functional) -> Step:
    """Compute the same in the functional dialect."""

    def loss(parameters: list[Any]) -> Any:
        x, y = parameters
        gate = dialect.sigmoid(x * y + x)
        mixed = gate * dialect.np.tanh(y) + (1.0 - gate) * x
        return dialect.np.mean(mixed * mixed)

    return functional_step(dialect, loss, arrays())
