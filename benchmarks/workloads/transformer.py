"""One pre-norm transformer block (d 256, 8 heads, sequence 128, batch 8): arithmetic and memory traffic."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.differentiate import backward_step, functional_step, leaves
from benchmarks.libraries import Functional
from benchmarks.registry import Step, workload

WIDTH, HEADS, SEQUENCE, BATCH = 256, 8, 128, 8
HEAD_WIDTH = WIDTH // HEADS
EPSILON = 1e-5


def arrays() -> tuple[list[np.ndarray], np.ndarray]:
    """Return first norm, query-key-value, output; second norm, up, down (weight and bias each); then the input."""
    random = np.random.default_rng(0)

    def norm() -> list[np.ndarray]:
        return [np.ones(WIDTH, dtype=np.float32), np.zeros(WIDTH, dtype=np.float32)]

    def linear(fan_in: int, fan_out: int) -> list[np.ndarray]:
        weight = random.standard_normal((fan_in, fan_out)) / fan_in**0.5
        return [weight.astype(np.float32), np.zeros(fan_out, dtype=np.float32)]

    parameters = [
        *norm(),
        *linear(WIDTH, 3 * WIDTH),
        *linear(WIDTH, WIDTH),
        *norm(),
        *linear(WIDTH, 4 * WIDTH),
        *linear(4 * WIDTH, WIDTH),
    ]
    return parameters, random.standard_normal((BATCH, SEQUENCE, WIDTH)).astype(np.float32)


@workload(
    "transformer", title="transformer block, d 256, seq 128, batch 8", goal=1.2, compiled_goal=0.85, tolerance=1e-4
)
def transformer(torch: Any) -> Step:
    """Run attention by matmul and softmax, then a gelu layer of four times the width; mean square as loss."""
    functional = torch.nn.functional
    weights, inputs = arrays()
    parameters = leaves(torch, weights)
    g1, c1, w_qkv, b_qkv, w_out, b_out, g2, c2, w_up, b_up, w_down, b_down = parameters
    x = torch.tensor(inputs)

    def loss() -> Any:
        normed = functional.layer_norm(x, (WIDTH,), g1, c1, EPSILON)
        qkv = (normed @ w_qkv + b_qkv).reshape(BATCH, SEQUENCE, 3, HEADS, HEAD_WIDTH).permute(2, 0, 3, 1, 4)
        query, key, value = qkv[0], qkv[1], qkv[2]
        attention = torch.softmax(query @ key.transpose(-2, -1) * HEAD_WIDTH**-0.5, dim=-1)
        mixed = (attention @ value).transpose(1, 2).reshape(BATCH, SEQUENCE, WIDTH)
        residual = x + mixed @ w_out + b_out
        normed = functional.layer_norm(residual, (WIDTH,), g2, c2, EPSILON)
        output = residual + functional.gelu(normed @ w_up + b_up) @ w_down + b_down
        return (output * output).mean()

    return backward_step(loss, parameters)


@transformer.functional
def transformer_functional(dialect: Functional) -> Step:
    """Run the same block, with normalisation and softmax written out if the dialect has no such function."""
    weights, inputs = arrays()
    np_ = dialect.np

    def layer_norm(x: Any, gain: Any, bias: Any) -> Any:
        centred = x - np_.mean(x, axis=-1, keepdims=True)
        return centred / np_.sqrt(np_.mean(centred * centred, axis=-1, keepdims=True) + EPSILON) * gain + bias

    def softmax(x: Any) -> Any:
        exponentials = np_.exp(x - np_.max(x, axis=-1, keepdims=True))
        return exponentials / np_.sum(exponentials, axis=-1, keepdims=True)

    def loss(parameters: list[Any], x: Any) -> Any:
        g1, c1, w_qkv, b_qkv, w_out, b_out, g2, c2, w_up, b_up, w_down, b_down = parameters
        qkv = np_.matmul(layer_norm(x, g1, c1), w_qkv) + b_qkv
        qkv = np_.transpose(np_.reshape(qkv, (BATCH, SEQUENCE, 3, HEADS, HEAD_WIDTH)), (2, 0, 3, 1, 4))
        query, key, value = qkv[0], qkv[1], qkv[2]
        attention = softmax(np_.matmul(query, np_.swapaxes(key, -2, -1)) * HEAD_WIDTH**-0.5)
        mixed = np_.reshape(np_.swapaxes(np_.matmul(attention, value), 1, 2), (BATCH, SEQUENCE, WIDTH))
        residual = x + np_.matmul(mixed, w_out) + b_out
        hidden = dialect.gelu(np_.matmul(layer_norm(residual, g2, c2), w_up) + b_up)
        output = residual + np_.matmul(hidden, w_down) + b_down
        return np_.mean(output * output)

    return functional_step(dialect, loss, weights, inputs)
