"""`ndgrad bench`: the time of a few typical workloads, next to the same arithmetic in NumPy alone.

`make bench` in a checkout compares with other libraries; this command needs only the package.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import ndgrad


def workloads() -> dict[str, tuple[Callable[[], Any], Callable[[], Any] | None]]:
    """Return the workload in ndgrad and the forward arithmetic in NumPy, by name."""
    small, large = np.linspace(0, 1, 8), np.linspace(0, 1, 1_000_000)
    s, big = (ndgrad.tensor(v, requires_grad=True) for v in (small, large))
    matrix = np.random.default_rng(0).normal(size=(256, 256))
    m = ndgrad.tensor(matrix, requires_grad=True)
    model = ndgrad.nn.Sequential(ndgrad.nn.Linear(64, 128), ndgrad.nn.ReLU(), ndgrad.nn.Linear(128, 10))
    optimizer = ndgrad.optim.SGD(model.parameters(), lr=1e-3)
    batch, labels = ndgrad.randn(32, 64), ndgrad.randint(0, 10, (32,))

    def step() -> None:
        optimizer.zero_grad()
        ndgrad.nn.functional.cross_entropy(model(batch), labels).backward()
        optimizer.step()

    def chain() -> None:
        y = s
        for _ in range(100):
            y = y * 1.01
        y.sum().backward()

    return {
        "one op on 8 numbers, recorded": (lambda: s * s, lambda: small * small),
        "100 ops on 8 numbers, and backward": (chain, None),
        "tanh of a million numbers, and backward": (
            lambda: ndgrad.tanh(big).sum().backward(),
            lambda: np.tanh(large).sum(),
        ),
        "256 x 256 matrix product, and backward": (lambda: (m @ m).sum().backward(), lambda: (matrix @ matrix).sum()),
        "a training step of a small network": (step, None),
    }


def seconds(run: Callable[[], Any], budget: float) -> float:
    """Return the shortest time of one call."""
    run()
    best, until = float("inf"), time.perf_counter() + budget
    while time.perf_counter() < until:
        began = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - began)
    return best


def run(options: argparse.Namespace) -> int:
    print(f"  {'':42} {'ndgrad':>12}   {'NumPy, forward alone':>20}")
    for name, (ours, plain) in workloads().items():
        _say(f"  {name} ...")
        mine = seconds(ours, options.seconds)
        theirs = "" if plain is None else _time(seconds(plain, options.seconds))
        _say("")
        print(f"  {name:42} {_time(mine):>12}   {theirs:>20}", flush=True)
    return 0


def _say(text: str) -> None:
    """Show the current measurement on a terminal, until its row is printed."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()


def _time(value: float) -> str:
    return f"{value * 1e6:.1f} µs" if value < 1e-3 else f"{value * 1e3:.2f} ms"
