"""One library in one process, driven by lines of JSON: `python -m benchmarks.worker torch`.

A worker sleeps in a read between samples, so that the timed process has the machine to itself. Replies
go to a private copy of standard output, because libraries may print to the real one.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
import traceback
from collections.abc import Sequence
from typing import Any, TextIO

import numpy as np

import benchmarks.workloads  # noqa: F401  (fills the registry)
from benchmarks.differentiate import Compiler
from benchmarks.libraries import LIBRARIES, ByHand, Functional
from benchmarks.registry import WORKLOADS, Step

#: Number of steps after which a workload creates no new state.
_FIRST_STEPS = 4


class Worker:
    """Handles `prepare`, `sample` and `release` for one library."""

    def __init__(self, library: str) -> None:
        self.namespace = LIBRARIES[library].load()
        self.step: Step | None = None

    def prepare(self, workload: str, sample_seconds: float) -> dict[str, Any]:
        """Build the step, digest its results, and find the number of steps that fill a sample."""
        Compiler.made.clear()
        self.step = WORKLOADS[workload].build(self.namespace)
        start = time.perf_counter()
        results = self.step()
        first = time.perf_counter() - start
        digest = [_digest(_as_numpy(self.namespace, value)) for value in results]
        del results
        # Use the fastest of a few: the first steps create state once (an optimizer's state and its program), which must
        # not determine the number of steps in a sample.
        iterations, seconds = 1, min(self._time(1) for _ in range(_FIRST_STEPS))
        while seconds < sample_seconds:
            growth = 1.2 * sample_seconds / max(seconds, 1e-9)
            iterations = max(iterations + 1, int(iterations * min(growth, 20.0)))
            seconds = self._time(iterations)
        return {
            "digest": digest,
            "iterations": iterations,
            "seconds": seconds,
            "first": first,
            **_compiled_by_ndgrad(Compiler.made),
        }

    def sample(self, iterations: int) -> dict[str, Any]:
        """Return seconds per step. The garbage collector stays on, as in users' programs."""
        gc.collect()
        if iterations > 1:
            self._time(1)
        return {"seconds": self._time(iterations) / iterations}

    def release(self) -> dict[str, Any]:
        """Drop the step and all objects that it holds."""
        self.step = None
        gc.collect()
        return {}

    def _time(self, iterations: int) -> float:
        step = self.step
        if step is None:
            raise RuntimeError("sample before prepare: send a prepare command first")
        start = time.perf_counter()
        for _ in range(iterations):
            step()
        return time.perf_counter() - start


def _as_numpy(namespace: Any, value: Any) -> np.ndarray:
    return np.asarray(value if isinstance(namespace, (ByHand, Functional)) else value.detach().numpy())


def _digest(array: np.ndarray) -> Sequence[float]:
    """Return the norm, and the projection on a fixed direction, which detects permutations."""
    flat = np.asarray(array, dtype=np.float64).ravel()
    direction = np.random.default_rng(0).standard_normal(flat.size)
    return [float(np.linalg.norm(flat)), float(flat @ direction)]


def _compiled_by_ndgrad(made: Sequence[Any]) -> dict[str, Any]:
    """Return, for functions that ndgrad has compiled, the least time that this machine needs for their programs, or the
    reason for an eager run."""
    functions = [f for f in (getattr(f, "compiled_forward", f) for f in made) if hasattr(f, "entries")]
    if not functions:
        return {}
    from ndgrad._src.compiler.lower.accounting import least_work  # loaded only by the workers of ndgrad
    from ndgrad._src.compiler.report.roofline import machine

    limit, reasons = 0.0, []
    for function in functions:
        programs = [entry.specialisation.plan.program for entry in function.entries if entry.specialisation is not None]
        if programs:
            limit += machine().least_seconds(least_work(programs[-1]))
        else:
            reasons += [entry.broken.reason for entry in function.entries if entry.broken is not None]
    return {"eagerly": reasons[0]} if reasons else {"limit": limit}


def _problem(error: Exception) -> dict[str, Any]:
    traceback.print_exc(file=sys.stderr)
    return {"error": f"{type(error).__name__}: {error}".splitlines()[0]}


def _serve(worker: Worker, commands: TextIO, replies: TextIO) -> None:
    for line in commands:
        command = json.loads(line)
        try:
            reply = getattr(worker, command.pop("do"))(**command)
        except Exception as error:
            reply = _problem(error)
        print(json.dumps(reply), file=replies, flush=True)


def main() -> None:
    """Load the library named on the command line and serve commands from standard input."""
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        worker = Worker(sys.argv[1])
    except Exception as error:
        print(json.dumps(_problem(error)), file=replies, flush=True)
        return
    print(json.dumps({"ready": True}), file=replies, flush=True)
    _serve(worker, sys.stdin, replies)


if __name__ == "__main__":
    main()
