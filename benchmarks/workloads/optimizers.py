"""Optimizer steps on a hundred parameters of ten thousand elements: memory traffic, and the overhead per parameter.

torch runs its fused step if it has one for this optimizer on the CPU, else its foreach step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.differentiate import Compiler, compile_step
from benchmarks.registry import Step, workload

PARAMETERS, SIZE = 100, 10_000
SKIP = {"torch-compiled": "its fused step is the reference"}

#: By name: the class, its settings, and True if torch has a fused step.
OPTIMIZERS: dict[str, tuple[str, dict[str, Any], bool]] = {
    "sgd": ("SGD", {"lr": 1e-3}, True),
    "momentum": ("SGD", {"lr": 1e-3, "momentum": 0.9, "weight_decay": 1e-4}, True),
    "adam": ("Adam", {"lr": 1e-4}, True),
    "adamw": ("AdamW", {"lr": 1e-4}, True),
    "adagrad": ("Adagrad", {"lr": 1e-4}, True),
    "rmsprop": ("RMSprop", {"lr": 1e-4}, False),
    "adadelta": ("Adadelta", {"lr": 1e-4}, False),
    "adamax": ("Adamax", {"lr": 1e-4}, False),
    "nadam": ("NAdam", {"lr": 1e-4}, False),
    "radam": ("RAdam", {"lr": 1e-4}, False),
    "asgd": ("ASGD", {"lr": 1e-4}, False),
    "rprop": ("Rprop", {"lr": 1e-4}, False),
}


def _register(name: str, kind: str, settings: dict[str, Any], has_fused: bool) -> None:
    title = f"{name} step, {PARAMETERS} x {SIZE:,}"

    @workload(f"step-{name}", title=title, compiled_goal=1.0, tolerance=1e-5, group="optimizer", skip=SKIP)
    def update(torch: Any) -> Step:
        random = np.random.default_rng(0)
        parameters = []
        for _ in range(PARAMETERS):
            parameter = torch.nn.Parameter(torch.tensor(random.standard_normal(SIZE).astype(np.float32)))
            parameter.grad = torch.tensor(random.standard_normal(SIZE).astype(np.float32))
            parameters.append(parameter)
        quickest = {"fused": True} if has_fused else {"foreach": True}
        fused = quickest if torch.__name__ == "torch" and Compiler.compile is None else {}
        optimizer = getattr(torch.optim, kind)(parameters, **settings, **fused)

        def run() -> None:
            optimizer.step()

        run = compile_step(run)

        def step() -> Sequence[Any]:
            run()
            return parameters

        return step


for _name, (_kind, _settings, _fused) in OPTIMIZERS.items():
    _register(_name, _kind, _settings, _fused)
