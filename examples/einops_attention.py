"""Attention written with einops, with both of its interfaces.

`einops.array_api` works through the array API standard and takes tensors directly. The functions of einops itself
need a backend, which `import ndgrad.compat.einops` provides.
"""

from __future__ import annotations

from typing import Any

import einops
import einops.array_api
import numpy as np

import ndgrad.compat.einops  # noqa: F401
import ndgrad.numpy as dnp

HEADS = 2


def attention(x: Any, weights: Any) -> Any:
    """Multi-head self-attention over (batch, time, channels)."""
    q, k, v = einops.rearrange(x @ weights, "b t (three h c) -> three b h t c", three=3, h=HEADS)
    scores = einops.einsum(q, k, "b h i c, b h j c -> b h i j") / np.sqrt(q.shape[-1])
    scores = scores - einops.reduce(scores, "b h i j -> b h i 1", "max")
    share = np.exp(scores) / einops.reduce(np.exp(scores), "b h i j -> b h i 1", "sum")
    mixed = einops.einsum(share, v, "b h i j, b h j c -> b h i c")
    return einops.rearrange(mixed, "b h t c -> b t (h c)")


def pool(x: Any) -> Any:
    """Pool pairs of time steps through the array API standard."""
    return einops.array_api.reduce(
        einops.array_api.rearrange(x, "b (t two) c -> b t two c", two=2), "b t two c -> b c", "mean"
    )


def main() -> float:
    """Return the largest deviation from central differences."""
    rng = np.random.default_rng(0)
    x, w, target = rng.standard_normal((2, 4, 6)), 0.3 * rng.standard_normal((6, 18)), rng.standard_normal((2, 6))

    def loss(weights: Any) -> Any:
        return np.sum((pool(attention(dnp.array(x), weights)) - target) ** 2)

    weights = dnp.array(w).requires_grad_()
    loss(weights).backward()
    direction, h = rng.standard_normal(w.shape), 1e-6
    expected = float(loss(dnp.array(w + h * direction)) - loss(dnp.array(w - h * direction))) / (2 * h)
    error = abs(expected - float((weights.grad * direction).sum()))
    print(f"the gradient of {w.size} weights differs from differences by {error:.1e}")
    return error


if __name__ == "__main__":
    main()
