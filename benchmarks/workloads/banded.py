"""The Jacobian of a banded function: dense by `func.jacfwd`, and by colouring if a library has it.

torch has no sparse Jacobians, so it computes the dense one in the second workload too. The ratio shows the gain of
colouring.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.differentiate import compile_step
from benchmarks.registry import Step, workload

UNKNOWNS = 1000


def _residual(x: Any) -> Any:
    """Return the residual of a steady flow with a speed and a resistance that depend on the state, and a source:
    differences of fluxes between neighbours."""
    flow = x.tanh() * x
    flux = (flow[1:] - flow[:-1]) / (x[1:] ** 2 + 2.0)
    return flux[1:] - flux[:-1] + (0.1 * x[1:-1]).exp() / (x[1:-1] ** 2 + 1.0)


def _start(torch: Any) -> Any:
    return torch.tensor(np.random.default_rng(0).standard_normal(UNKNOWNS))


@workload("jacobian-dense", title=f"Dense Jacobian of a banded function, n = {UNKNOWNS}")
def dense(torch: Any) -> Step:
    """Compute one jvp per unknown, all at once: a thousand times the work of the function."""
    x, jacobian = _start(torch), compile_step(torch.func.jacfwd(_residual))

    def step() -> Sequence[Any]:
        return [jacobian(x)]

    return step


@workload("jacobian-coloured", title=f"The same through colouring (dense in torch), n = {UNKNOWNS}", goal=0.02)
def coloured(torch: Any) -> Step:
    """Compute three products. The entries of the band, row by row, are compared."""
    x = _start(torch)
    if hasattr(torch.func, "sparse_jacobian"):
        prepared = torch.func.sparse_jacobian(_residual, x)

        def step() -> Sequence[Any]:
            return [torch.from_numpy(prepared(x).data)]
    else:
        jacobian = compile_step(torch.func.jacfwd(_residual))
        rows = torch.arange(UNKNOWNS - 2).repeat_interleave(3)
        columns = rows + torch.arange(3).repeat(UNKNOWNS - 2)

        def step() -> Sequence[Any]:
            return [jacobian(x)[rows, columns]]

    return step
