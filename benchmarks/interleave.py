"""Round-robin timing: one process per library, one sample of each per round, ratios formed within the round.

A disturbance longer than a round affects all libraries of that round and leaves their ratio unchanged. The median over
rounds removes shorter ones. The order rotates from round to round.
"""

from __future__ import annotations

import contextlib
import json
import select
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TextIO

import numpy as np

from benchmarks.libraries import LIBRARIES, REFERENCE, ByHand, Library, child_environment
from benchmarks.quiet import QUIET_SHARE, wait_for_quiet
from benchmarks.registry import Workload
from ndgrad._src.command_line.progress import progress


@dataclass(frozen=True)
class Plan:
    """The measuring time. A library that is too slow for its budget is left out of the later rounds."""

    rounds: int = 15
    sample_seconds: float = 0.1
    budget_seconds: float = 30.0
    patience_seconds: float = 2.0
    #: Pause after a sample: thread pools spin for some milliseconds after their last task before they sleep.
    settle_seconds: float = 0.05
    #: Largest time of a library to prepare a workload, compiling included; slower ones are left out of that workload.
    prepare_seconds: float = 120.0


@dataclass
class Timing:
    """The result of one library on one workload: seconds per step by round, or the reason for their absence."""

    seconds: dict[int, float] = field(default_factory=dict)
    iterations: int = 0
    problem: str | None = None
    #: Seconds of the first step, in which a compiled function is compiled.
    first: float = 0.0
    #: Reason for the eager run of a compiled function.
    eagerly: str | None = None

    def fastest(self) -> float:
        """Return the least seconds per step."""
        return min(self.seconds.values())

    def median(self) -> float:
        """Return the median seconds per step."""
        return float(np.median(list(self.seconds.values())))


@dataclass
class Comparison:
    """All timings of one workload."""

    workload: Workload
    timings: dict[str, Timing]
    shares_of_cores: list[float]
    #: Least seconds that this machine needs: the larger of bytes over bandwidth and arithmetic over its peak.
    limit: float | None = None

    @property
    def busy(self) -> bool:
        """True if most rounds ran together with other work on the machine."""
        return bool(self.shares_of_cores) and float(np.median(self.shares_of_cores)) < QUIET_SHARE

    def fastest_ratio(self, library: str) -> float | None:
        """Return the ratio of the fastest samples."""
        own, reference = self.timings[library], self.timings.get(REFERENCE, Timing())
        return own.fastest() / reference.fastest() if own.seconds and reference.seconds else None

    def ratio(self, library: str) -> tuple[float, float, float] | None:
        """Return the median and quartiles of the ratio to the reference, over rounds that sampled both.

        Rounds that began on a busy machine are left out if enough others remain.
        """
        reference = self.timings.get(REFERENCE, Timing()).seconds
        own = self.timings[library].seconds
        shared = [index for index in own if index in reference]
        quiet = [index for index in shared if self.shares_of_cores[index] >= QUIET_SHARE]
        ratios = [own[index] / reference[index] for index in (quiet if len(quiet) >= 3 else shared)]
        if not ratios:
            return None
        low, middle, high = np.percentile(ratios, [25, 50, 75])
        return float(middle), float(low), float(high)


class WorkerProcess:
    """The coordinator's end of one worker."""

    def __init__(self, library: Library, log: TextIO) -> None:
        self.library = library
        self._log = log
        self.problem: str | None = None
        self._start()

    def _start(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.worker", self.library.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env=child_environment(),
        )
        self.problem = self._read_reply().get("error")

    def ask(self, command: str, patience: float | None = None, **arguments: Any) -> dict[str, Any]:
        """Send one command and wait for its reply. A dead worker gives an error. A worker that takes longer than
        `patience` seconds is ended and started again."""
        if self.problem is not None:
            return {"error": self.problem}
        stdin = self._process.stdin
        assert stdin is not None
        try:
            print(json.dumps({"do": command, **arguments}), file=stdin, flush=True)
        except BrokenPipeError:
            return {"error": "the worker process has ended"}
        if patience is not None and not select.select([self._process.stdout], [], [], patience)[0]:
            self._process.kill()
            self._process.wait()
            self._start()
            return {"error": f"not ready after {patience:.0f} s"}
        return self._read_reply()

    def close(self) -> None:
        """End the process by closing its input."""
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _read_reply(self) -> dict[str, Any]:
        stdout = self._process.stdout
        assert stdout is not None
        line = stdout.readline()
        reply: dict[str, Any] = json.loads(line) if line else {"error": "the worker process has ended"}
        return reply


def compare(workload: Workload, workers: Sequence[WorkerProcess], plan: Plan) -> Comparison:
    """Prepare the workload in all workers, check that results agree with the reference, then sample in rounds."""
    timings: dict[str, Timing] = {}
    reference: list[list[float]] | None = None
    limit: float | None = None
    for worker in sorted(workers, key=lambda worker: worker.library.name != REFERENCE):
        timing = timings[worker.library.name] = Timing(problem=worker.problem)
        if worker.library.load is ByHand and workload.manual_program is None:
            timing.problem = ""  # this library has no program for the workload
        timing.problem = workload.skip.get(worker.library.name, timing.problem)
        if timing.problem is None:
            reply = worker.ask(
                "prepare", plan.prepare_seconds, workload=workload.name, sample_seconds=plan.sample_seconds
            )
            timing.problem = reply.get("error")
        if timing.problem is None:
            timing.iterations, timing.first, timing.eagerly = reply["iterations"], reply["first"], reply.get("eagerly")
            limit = reply.get("limit", limit)
            if worker.library.name == REFERENCE:
                reference = reply["digest"]
            elif reference is not None:
                timing.problem = disagreement(reference, reply["digest"], workload.tolerance)
    running = [worker for worker in workers if timings[worker.library.name].problem is None]
    shares = _sample_in_rounds(running, timings, plan)
    for worker in workers:
        worker.ask("release")
    return Comparison(workload, timings, shares, limit)


def _sample_in_rounds(workers: list[WorkerProcess], timings: dict[str, Timing], plan: Plan) -> list[float]:
    shares = []
    spent = {worker.library.name: 0.0 for worker in workers}
    for index in range(plan.rounds):
        shares.append(wait_for_quiet(plan.patience_seconds))
        turn = index % max(len(workers), 1)
        for worker in workers[turn:] + workers[:turn]:
            name = worker.library.name
            timing = timings[name]
            if timing.problem is not None or spent[name] > plan.budget_seconds:
                continue
            time.sleep(plan.settle_seconds)
            start = time.perf_counter()
            reply = worker.ask("sample", iterations=timing.iterations)
            spent[name] += time.perf_counter() - start
            timing.problem = reply.get("error")
            if timing.problem is None:
                timing.seconds[index] = reply["seconds"]
    return shares


def disagreement(expected: list[list[float]], actual: list[list[float]], tolerance: float) -> str | None:
    """Describe the difference of two digests (norm and projection of loss and of each gradient), or return None."""
    if len(expected) != len(actual):
        return f"returned {len(actual)} arrays where {REFERENCE} returned {len(expected)}"
    for position, (one, other) in enumerate(zip(expected, actual, strict=True)):
        what = "loss" if position == 0 else f"gradient {position}"
        allowed = tolerance * max(one[0], 1e-300)
        if not all(abs(a - b) <= allowed * 10 for a, b in zip(one, other, strict=True)):
            return f"{what} differs from {REFERENCE}: norm {other[0]:.9g}, expected {one[0]:.9g}"
    return None


def compare_all(workloads: Iterable[Workload], names: Sequence[str], plan: Plan, log: TextIO) -> list[Comparison]:
    """Start the workers, run every workload through `compare`, and end the workers."""
    workers: list[WorkerProcess] = []
    comparisons = []
    try:
        for name in names:
            workers.append(WorkerProcess(LIBRARIES[name], log))
            if workers[-1].problem is not None:
                print(f"{name}: {workers[-1].problem}", file=sys.stderr)
        chosen = list(workloads)
        for number in progress(len(chosen), "timing"):
            comparisons.append(compare(chosen[number], workers, plan))
    finally:
        for worker in workers:
            worker.close()
    return comparisons
