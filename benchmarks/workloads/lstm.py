"""An LSTM of 100 steps written by hand: long chains of small products, gates and views."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.differentiate import backward_step, functional_step, leaves
from benchmarks.libraries import Functional
from benchmarks.registry import Step, workload

STEPS, BATCH, HIDDEN = 100, 16, 64


def arrays() -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """Return input weights, recurrent weights and bias of the four gates; then the inputs, then the target."""
    random = np.random.default_rng(0)

    def normal(*shape: int, scale: float = 1.0) -> np.ndarray:
        return (scale * random.standard_normal(shape)).astype(np.float32)

    scale = HIDDEN**-0.5
    parameters = [
        normal(HIDDEN, 4 * HIDDEN, scale=scale),
        normal(HIDDEN, 4 * HIDDEN, scale=scale),
        normal(4 * HIDDEN, scale=0.1),
    ]
    return parameters, normal(STEPS, BATCH, HIDDEN), normal(STEPS, BATCH, HIDDEN, scale=0.5)


@workload("lstm", title="LSTM by hand, 100 steps, hidden 64, batch 16", goal=0.8, compiled_goal=0.35, tolerance=1e-4)
def lstm(torch: Any) -> Step:
    """Compute the mean square distance of all hidden states from a target sequence."""
    weights, inputs, targets = arrays()
    parameters = leaves(torch, weights)
    w_input, w_hidden, bias = parameters
    x, target = torch.tensor(inputs), torch.tensor(targets)
    zeros = torch.tensor(np.zeros((BATCH, HIDDEN), dtype=np.float32))

    def loss() -> Any:
        hidden = cell = zeros
        outputs = []
        for t in range(STEPS):
            gates = x[t] @ w_input + hidden @ w_hidden + bias
            keep, write, show, candidate = gates.chunk(4, dim=1)
            cell = torch.sigmoid(keep) * cell + torch.sigmoid(write) * torch.tanh(candidate)
            hidden = torch.sigmoid(show) * torch.tanh(cell)
            outputs.append(hidden)
        return ((torch.stack(outputs) - target) ** 2).mean()

    return backward_step(loss, parameters)


@lstm.functional
def lstm_functional(dialect: Functional) -> Step:
    """Compute the same recurrence; compiled jax runs it as a scan."""
    weights, inputs, targets = arrays()
    np_, sigmoid = dialect.np, dialect.sigmoid

    def loss(parameters: list[Any], x: Any, target: Any, zeros: Any) -> Any:
        w_input, w_hidden, bias = parameters

        def step(state: tuple[Any, Any], x_t: Any) -> tuple[tuple[Any, Any], Any]:
            hidden, cell = state
            gates = np_.matmul(x_t, w_input) + np_.matmul(hidden, w_hidden) + bias
            keep, write, show, candidate = (gates[:, i * HIDDEN : (i + 1) * HIDDEN] for i in range(4))
            cell = sigmoid(keep) * cell + sigmoid(write) * np_.tanh(candidate)
            hidden = sigmoid(show) * np_.tanh(cell)
            return (hidden, cell), hidden

        return np_.mean((dialect.scan(step, (zeros, zeros), x) - target) ** 2)

    zeros = np.zeros((BATCH, HIDDEN), dtype=np.float32)
    return functional_step(dialect, loss, weights, inputs, targets, zeros)
