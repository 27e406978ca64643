"""Simulations written for NumPy alone, with loops and buffers. ndgrad lifts them; other libraries get the same
computation without buffers, and compiled jax its loop primitive.

The gradient is with respect to one coefficient.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.differentiate import backward_step, functional_step, leaves
from benchmarks.libraries import Functional
from benchmarks.registry import Step, workload
from benchmarks.workloads.ode import UNROLLED

STEPS, POINTS = 400, 64
COEFFICIENT = [np.array(0.1)]
START = np.exp(-((np.arange(POINTS) - 20.0) ** 2) / 30.0)


# ----- a stencil on one buffer ------------------------------------------------------------------------------


def diffuse(k: Any) -> Any:
    """Return the sum of squares after explicit steps of the heat equation. Plain NumPy."""
    u = START.copy()
    for _ in range(STEPS):
        u[1:-1] += k * (u[2:] - 2 * u[1:-1] + u[:-2])
    return (u**2).sum()


@workload("diffusion", title=f"heat equation in a NumPy buffer, {STEPS} steps", skip=UNROLLED)
def diffusion(torch: Any) -> Step:
    """Run the NumPy program lifted; torch, which has no lift, gets it without writes."""
    parameters = leaves(torch, COEFFICIENT)
    if hasattr(torch, "lift"):
        lifted = torch.lift(diffuse)
        return backward_step(lambda: lifted(*parameters), parameters)
    start, zero = torch.tensor(START), torch.zeros(1, dtype=torch.float64)

    def loss() -> Any:
        u = start
        for _ in range(STEPS):
            u = u + parameters[0] * torch.cat([zero, u[2:] - 2 * u[1:-1] + u[:-2], zero])
        return (u**2).sum()

    return backward_step(loss, parameters)


@diffusion.functional
def diffusion_functional(dialect: Functional) -> Step:
    """Run the same steps; compiled jax gets a scan."""
    np_ = dialect.np

    def loss(parameters: list[Any], start: Any, zero: Any) -> Any:
        (k,) = parameters

        def step(u: Any) -> Any:
            return u + k * np_.concatenate([zero, u[2:] - 2 * u[1:-1] + u[:-2], zero])

        return np_.sum(dialect.repeat(step, start, STEPS) ** 2)

    return functional_step(dialect, loss, COEFFICIENT, START, np.zeros(1))


# ----- a recurrence over the elements of a buffer ------------------------------------------------------------


def oscillate(k: Any) -> Any:
    """Return the mean square of a path, each element of which follows from the two before it. Plain NumPy."""
    x = np.empty(STEPS)
    x[:2] = 1.0
    for i in range(2, STEPS):
        x[i] = 2 * x[i - 1] - x[i - 2] - k * np.sin(x[i - 1])
    return (x**2).mean()


@workload("recurrence", title=f"pendulum in a NumPy buffer, {STEPS} steps", skip=UNROLLED)
def recurrence(torch: Any) -> Step:
    """Run the NumPy program lifted; torch keeps the elements in a list."""
    parameters = leaves(torch, COEFFICIENT)
    if hasattr(torch, "lift"):
        lifted = torch.lift(oscillate)
        return backward_step(lambda: lifted(*parameters), parameters)

    def loss() -> Any:
        x = [torch.ones((), dtype=torch.float64)] * 2
        for _ in range(2, STEPS):
            x.append(2 * x[-1] - x[-2] - parameters[0] * torch.sin(x[-1]))
        return (torch.stack(x) ** 2).mean()

    return backward_step(loss, parameters)


@recurrence.functional
def recurrence_functional(dialect: Functional) -> Step:
    """Run the same recurrence; compiled jax gets a scan."""
    np_ = dialect.np

    def loss(parameters: list[Any], ones: Any, rounds: Any) -> Any:
        (k,) = parameters

        def step(state: tuple[Any, Any], _: Any) -> tuple[tuple[Any, Any], Any]:
            before, now = state
            following = 2 * now - before - k * np_.sin(now)
            return (now, following), following

        path = dialect.scan(step, (ones[0], ones[1]), rounds)
        return (np_.sum(path**2) + 2.0) / STEPS

    return functional_step(dialect, loss, COEFFICIENT, np.ones(2), np.zeros(STEPS - 2))
