"""ADBench's LSTM: two layers with diagonal weights over a thousand characters of 14 bits, that is, very many tiny ops.

A gate is a function of one state and one weight per element: forget and output of the input, write and candidate of
the hidden state. The scores of the next character are normalised by log(2 + sum exp), and the loss is the mean of
the scores of the actual next characters.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.differentiate import backward_step, functional_step, leaves
from benchmarks.libraries import Functional
from benchmarks.registry import Step, workload
from benchmarks.workloads.ode import UNROLLED

LAYERS, CHARACTERS, BITS = 2, 1024, 14


def arrays() -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """Return weights and biases of the gates (layer, gate, element) and around the layers; first states; characters."""
    random = np.random.default_rng(0)
    parameters = [
        random.standard_normal((LAYERS, 4, BITS)),
        0.1 * random.standard_normal((LAYERS, 4, BITS)),
        1.0 + 0.1 * random.standard_normal((3, BITS)),
    ]
    return (
        parameters,
        0.1 * random.standard_normal((2 * LAYERS, BITS)),
        random.integers(0, 2, (CHARACTERS, BITS)).astype(np.float64),
    )


@workload(
    "sequence", title=f"diagonal LSTM, {LAYERS} layers, {CHARACTERS} characters", compiled_goal=0.004, tolerance=1e-8,
    group="adbench", skip=UNROLLED,
)  # fmt: skip
def sequence(torch: Any) -> Step:
    """Run a Python loop over characters and layers."""
    weights, first, text = arrays()
    gates, biases, outer = parameters = leaves(torch, weights)
    states, characters = torch.tensor(first), torch.tensor(text)

    def loss() -> Any:
        hidden = [states[2 * k] for k in range(LAYERS)]
        cell = [states[2 * k + 1] for k in range(LAYERS)]
        total = torch.tensor(0.0, dtype=torch.float64)
        for t in range(CHARACTERS - 1):
            x = characters[t] * outer[0]
            for k in range(LAYERS):
                forget = torch.sigmoid(x * gates[k, 0] + biases[k, 0])
                enter = torch.sigmoid(hidden[k] * gates[k, 1] + biases[k, 1])
                show = torch.sigmoid(x * gates[k, 2] + biases[k, 2])
                candidate = torch.tanh(hidden[k] * gates[k, 3] + biases[k, 3])
                cell[k] = cell[k] * forget + enter * candidate
                hidden[k] = show * torch.tanh(cell[k])
                x = hidden[k]
            scores = x * outer[1] + outer[2]
            normalised = scores - torch.log(torch.exp(scores).sum() + 2.0)
            total = total + (characters[t + 1] * normalised).sum()
        return -total / ((CHARACTERS - 1) * BITS)

    return backward_step(loss, parameters)


@sequence.functional
def sequence_functional(dialect: Functional) -> Step:
    """Run the same loop; compiled jax runs it as a scan."""
    weights, first, text = arrays()
    np_, sigmoid = dialect.np, dialect.sigmoid

    def loss(parameters: list[Any], states: Any, pairs: Any) -> Any:
        gates, biases, outer = parameters

        def step(carried: Any, pair: Any) -> tuple[Any, Any]:
            hidden, cell = list(carried[0]), list(carried[1])
            x = pair[0] * outer[0]
            for k in range(LAYERS):
                forget = sigmoid(x * gates[k, 0] + biases[k, 0])
                enter = sigmoid(hidden[k] * gates[k, 1] + biases[k, 1])
                show = sigmoid(x * gates[k, 2] + biases[k, 2])
                candidate = np_.tanh(hidden[k] * gates[k, 3] + biases[k, 3])
                cell[k] = cell[k] * forget + enter * candidate
                hidden[k] = show * np_.tanh(cell[k])
                x = hidden[k]
            scores = x * outer[1] + outer[2]
            normalised = scores - np_.log(np_.sum(np_.exp(scores)) + 2.0)
            return (tuple(hidden), tuple(cell)), np_.sum(pair[1] * normalised)

        start = tuple(states[2 * k] for k in range(LAYERS)), tuple(states[2 * k + 1] for k in range(LAYERS))
        return -np_.sum(dialect.scan(step, start, pairs)) / ((CHARACTERS - 1) * BITS)

    return functional_step(dialect, loss, weights, first, np.stack([text[:-1], text[1:]], axis=1))
