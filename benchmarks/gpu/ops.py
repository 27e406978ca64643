"""The ops of `benchmarks.gpu.op_list` on a GPU, forward and backward, in both libraries."""

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

from benchmarks.gpu.notebook import Notebook
from benchmarks.gpu.op_list import OPS, Call
from benchmarks.gpu.rows import DEVICE, Step
from benchmarks.gpu.timing import LIBRARIES, find_wait, is_lost, release

#: Seconds of sampling per op and library, and of one sample.
BUDGET, SAMPLE = 0.06, 0.01


@dataclass
class Ratio:
    """Seconds of one op in both libraries, or the reason for their absence."""

    family: str
    name: str
    torch: float = float("inf")
    ndgrad: float = float("inf")
    problem: str = ""

    @property
    def value(self) -> float:
        """Time in ndgrad over time in torch."""
        return self.ndgrad / self.torch


def make_step(torch: Any, call: Call, size: int) -> Step:
    """Return a step that runs an op and computes the gradients of its arguments."""
    arguments = []
    for place, array in enumerate(call.arrays(np.random.default_rng(0), size)):
        t = torch.tensor(array).to(DEVICE.name)
        is_leaf = array.dtype.kind == "f" and (call.differentiable is None or place < call.differentiable)
        arguments.append(t.detach().requires_grad_() if is_leaf else t)
    leaves = [t for t in arguments if t.requires_grad]
    functional = torch.nn.functional

    def step() -> Any:
        found = call.function(torch, functional, *arguments)
        results = [r for r in (found if isinstance(found, (tuple, list)) else [found]) if r.requires_grad]
        if not results:
            return found
        return torch.autograd.grad(results, leaves, [torch.ones_like(r) for r in results], allow_unused=True)

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


def measure_all(end: float, size: int, notebook: Notebook) -> list[Ratio]:
    """Measure every op at one of three sizes until a moment of `time.monotonic()`, or until the device is lost."""
    found: list[Ratio] = []
    libraries = {name: importlib.import_module(name) for name in LIBRARIES}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number, (name, call) in enumerate(OPS.items()):
            known = notebook.result_of(name)
            if known is not None:
                found.append(Ratio(call.family, name, problem=known) if isinstance(known, str) else Ratio(**known))
                continue
            if time.monotonic() > end:
                return found
            notebook.begin(name)
            found.append(_measure_op(libraries, call, name, size))
            notebook.end(name, vars(found[-1]))
            if is_lost(found[-1].problem):
                return found
            if number % 32 == 0:
                release()
    gc.collect()
    return found


def _measure_op(libraries: dict[str, Any], call: Call, name: str, size: int) -> Ratio:
    made = Ratio(call.family, name)
    try:
        times = time_steps({library: make_step(torch, call, size) for library, torch in libraries.items()})
        made.torch, made.ndgrad = times["torch"], times["ndgrad"]
    except Exception as error:  # the other ops still run
        made.problem = f"{type(error).__name__}: {str(error)[:120]}"
    return made


def _mean(ratios: Iterable[Ratio]) -> str:
    values = [r.value for r in ratios if not r.problem]
    return f"{statistics.geometric_mean(values):.2f}" if values else ""


def tabulate(found: list[Ratio]) -> str:
    """Return the means of families, the slowest ops and the problems, as Markdown."""
    lines = ["| family | ops | ndgrad / torch eager | slowest |", "|---|---:|---:|---|"]
    for family in dict.fromkeys(r.family for r in found):
        members = [r for r in found if r.family == family]
        slowest = sorted((r for r in members if not r.problem), key=lambda r: -r.value)[:4]
        named = ", ".join(f"`{r.name}` {r.value:.1f}" for r in slowest)
        lines.append(f"| {family} | {len(members)} | {_mean(members)} | {named} |")
    lines.append(f"| all | {len(found)} | {_mean(found)} | |")
    right = [r for r in found if not r.problem]
    counts = [f"{sum(r.value > bound for r in right)} above {bound}" for bound in (1.1, 2, 5)]
    lines += ["", f"Of {len(right)} ops measured, {', '.join(counts)}."]
    slow = sorted((r for r in right if r.value > 2), key=lambda r: -r.value)
    if slow:
        lines += ["", "| above 2 | torch, us | ndgrad, us | ratio |", "|---|---:|---:|---:|"]
        lines += [f"| `{r.name}` | {r.torch * 1e6:.0f} | {r.ndgrad * 1e6:.0f} | {r.value:.1f} |" for r in slow]
    lines += ["", *[f"* `{r.name}`: {r.problem}" for r in found if r.problem]]
    return "\n".join(lines)
