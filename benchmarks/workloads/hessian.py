"""Whole Hessians by `func.hessian`: many small ops under three transforms at once, and one
large product."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.differentiate import compile_step
from benchmarks.registry import Step, workload

UNKNOWNS = 50
SAMPLES, FEATURES = 500, 100


@workload(
    "hessian-rosenbrock", title=f"Hessian of Rosenbrock's function, n = {UNKNOWNS}", goal=0.5, compiled_goal=0.006
)
def rosenbrock(torch: Any) -> Step:
    """Compute the Hessian of slices and elementwise ops alone: the cost of a transform per op."""
    x = torch.tensor(np.random.default_rng(0).standard_normal(UNKNOWNS))

    def f(x: Any) -> Any:
        return (100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2).sum()

    hessian = compile_step(torch.func.hessian(f))

    def step() -> Sequence[Any]:
        return [hessian(x)]

    return step


@workload(
    "hessian-logistic", title=f"Hessian of logistic regression, {FEATURES} parameters", goal=0.6, compiled_goal=0.07
)
def logistic(torch: Any) -> Step:
    """Compute the Hessian of the negative log-likelihood with a ridge, a product of matrices."""
    random = np.random.default_rng(0)
    inputs = torch.tensor(random.standard_normal((SAMPLES, FEATURES)))
    labels = torch.tensor((random.random(SAMPLES) > 0.5).astype(np.float64))
    weights = torch.tensor(random.standard_normal(FEATURES) / 10)

    def f(w: Any) -> Any:
        z = inputs @ w
        return (torch.nn.functional.softplus(z) - labels * z).sum() + 0.5 * (w * w).sum()

    hessian = compile_step(torch.func.hessian(f))

    def step() -> Sequence[Any]:
        return [hessian(weights)]

    return step
