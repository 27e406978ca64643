"""Single ops on a GPU, forward and backward, by the families of `benchmarks.workloads.op_families`."""

from __future__ import annotations

import gc
import importlib
import statistics
import time
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.gpu.rows import DEVICE, Step
from benchmarks.gpu.timing import LIBRARIES, find_wait
from benchmarks.workloads.op_families import FAMILIES, SHAPES, expressions, variables

#: Seconds of sampling per op and library, and of one sample.
BUDGET, SAMPLE = 0.06, 0.01


@dataclass
class Ratio:
    """Seconds of one op in both libraries, or the reason for their absence."""

    family: str
    expression: str
    torch: float = float("inf")
    ndgrad: float = float("inf")
    problem: str = ""

    @property
    def value(self) -> float:
        """Time in ndgrad over time in torch."""
        return self.ndgrad / self.torch


def move_to_device(names: dict[str, Any]) -> dict[str, Any]:
    """Return the variables of expressions on the device. Leaves stay leaves."""
    moved = {}
    for name, value in names.items():
        if name in ("torch", "F"):
            moved[name] = value
            continue
        there = value.detach().to(DEVICE.name)
        moved[name] = there.requires_grad_() if value.requires_grad else there
    return moved


def make_step(torch: Any, expression: str, names: dict[str, Any]) -> Step:
    """Return a step that computes an expression and the gradients of its leaves."""
    function = eval(f"lambda: {expression}", names)
    code = compile(expression, expression, "eval")
    leaves = [names[name] for name in code.co_names if name in SHAPES]
    value = function().detach()
    weights = np.random.default_rng(1).uniform(0.5, 1.5, tuple(value.shape))
    gradient = torch.tensor(weights).to(value.dtype).to(DEVICE.name)

    def step() -> Any:
        return torch.autograd.grad(function(), leaves, gradient)

    return step


def time_steps(steps: dict[str, Step]) -> dict[str, float]:
    """Return the seconds of the fastest sample of each library. Samples alternate."""
    waits = {name: find_wait(name) for name in steps}
    counts: dict[str, int] = {}
    for name, step in steps.items():
        for _ in range(3):
            step()
        waits[name]()
        start = time.perf_counter()
        step()
        waits[name]()
        counts[name] = max(1, min(50, int(SAMPLE / (time.perf_counter() - start))))
    best = dict.fromkeys(steps, float("inf"))
    end = time.perf_counter() + BUDGET * len(steps)
    rounds = 0
    while rounds < 2 or time.perf_counter() < end:
        rounds += 1
        for name, step in steps.items():
            start = time.perf_counter()
            for _ in range(counts[name]):
                step()
            waits[name]()
            best[name] = min(best[name], (time.perf_counter() - start) / counts[name])
    return best


def measure_all(end: float) -> list[Ratio]:
    """Measure every op until a moment of `time.monotonic()`."""
    found: list[Ratio] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        libraries = {name: importlib.import_module(name) for name in LIBRARIES}
        names = {name: move_to_device(variables(torch)) for name, torch in libraries.items()}
        for family in FAMILIES:
            for expression in expressions(family):
                if time.monotonic() > end:
                    return found
                found.append(Ratio(family, expression))
                try:
                    steps = {name: make_step(torch, expression, names[name]) for name, torch in libraries.items()}
                    times = time_steps(steps)
                    found[-1].torch, found[-1].ndgrad = times["torch"], times["ndgrad"]
                except Exception as error:  # the other ops still run
                    found[-1].problem = f"{type(error).__name__}: {str(error)[:120]}"
            gc.collect()
    return found


def _mean(ratios: Iterable[Ratio]) -> str:
    values = [r.value for r in ratios if not r.problem]
    return f"{statistics.geometric_mean(values):.2f}" if values else ""


def tabulate(found: list[Ratio]) -> str:
    """Return the means of families, the slowest ops and the problems, as Markdown."""
    lines = ["| family | ops | ndgrad / torch eager | slowest |", "|---|---:|---:|---|"]
    for family in dict.fromkeys(r.family for r in found):
        members = [r for r in found if r.family == family]
        slowest = sorted((r for r in members if not r.problem), key=lambda r: -r.value)[:4]
        named = ", ".join(f"`{r.expression}` {r.value:.1f}" for r in slowest)
        lines.append(f"| {family} | {len(members)} | {_mean(members)} | {named} |")
    lines.append(f"| all | {len(found)} | {_mean(found)} | |")
    lines += ["", *[f"* `{r.expression}`: {r.problem}" for r in found if r.problem]]
    return "\n".join(lines)
