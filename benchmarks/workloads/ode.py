"""A thousand steps of the Van der Pol oscillator in 0-d tensors: scalar code, which measures the cost per op.

The explicit midpoint rule keeps the loop long without making it stiff. Gradients are with respect to the
damping and the initial state.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.differentiate import backward_step, functional_step, leaves
from benchmarks.libraries import Functional
from benchmarks.registry import Step, workload

STEPS = 1000
TIME_STEP = 0.005
PARAMETERS = [np.array(1.5), np.array(1.0), np.array(0.5)]  # damping, position, velocity

State = tuple[Any, Any]

#: Reason for leaving a library out of long loops.
UNROLLED = {"torch-compiled": "it unrolls the loop, and takes longer to compile that than anybody waits"}


def _slope(damping: Any, x: Any, v: Any) -> State:
    return v, damping * (1.0 - x * x) * v - x


def _midpoint(damping: Any, state: State) -> State:
    x, v = state
    dx, dv = _slope(damping, x, v)
    dx, dv = _slope(damping, x + 0.5 * TIME_STEP * dx, v + 0.5 * TIME_STEP * dv)
    return x + TIME_STEP * dx, v + TIME_STEP * dv


@workload("ode", title=f"Van der Pol, {STEPS} midpoint steps on scalars", goal=0.5, compiled_goal=0.001, skip=UNROLLED)
def ode(torch: Any) -> Step:
    """Run a plain Python loop over 0-d tensors."""
    damping, x, v = parameters = leaves(torch, PARAMETERS)

    def loss() -> Any:
        state = x, v
        for _ in range(STEPS):
            state = _midpoint(damping, state)
        return state[0] * state[0] + state[1] * state[1]

    return backward_step(loss, parameters)


@ode.functional
def ode_functional(dialect: Functional) -> Step:
    """Run the same loop; compiled jax gets its own loop primitive, because unrolling would take minutes."""

    def loss(parameters: list[Any]) -> Any:
        damping, x, v = parameters
        x, v = dialect.repeat(lambda state: _midpoint(damping, state), (x, v), STEPS)
        return x * x + v * v

    return functional_step(dialect, loss, PARAMETERS)
