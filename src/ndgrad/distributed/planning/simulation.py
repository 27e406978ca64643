"""Simulation of a recorded step on any number of ranks.

All ranks do the same, so one represents all. It computes. It starts collectives, which use its link one after the
other, in part while it computes (`Machine.overlap`). If it waits for one, all earlier ones must be done too. In
addition, the slowest of many ranks counts: with a standard deviation s of computing, the largest of p is about s sqrt(2
ln p) above the mean.
"""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from ndgrad._src.foundations.atomic_files import open_replacement
from ndgrad.distributed.planning.costs import NOTHING, Cost, cost
from ndgrad.distributed.planning.machine import Machine


class Event(NamedTuple):
    """An event of a step: "compute" for some seconds, "start" a collective with a number, or "wait" for one."""

    what: str
    seconds: float = 0.0
    number: int = 0
    kind: str = ""
    nbytes: int = 0
    #: Number of participating ranks; 0: all.
    ranks: int = 0


class Work(NamedTuple):
    """Work of a step's ops: their number, their floating-point operations, and the bytes they touch."""

    ops: int
    flops: float
    nbytes: float


class Prediction(NamedTuple):
    """Predicted time of a step at some number of ranks, in seconds.

    Args:
        ranks: number of ranks.
        seconds: time of the step.
        compute: part of the time for computing.
        waiting: part of the time for waiting for messages.
        slowest: part of the time for waiting for the slowest rank.
        messages: total time of messages, including messages for which no rank waits.
        efficiency: time of one rank divided by that of the step.
    """

    ranks: int
    seconds: float
    #: Parts of the total: computing, waiting for messages, and waiting for the slowest rank.
    compute: float
    waiting: float
    slowest: float
    #: Total time of messages, including messages for which no rank waits.
    messages: Cost
    #: Seconds of one rank divided by these: the utilisation of each rank.
    efficiency: float

    @property
    def bound(self) -> str:
        """The largest part of the time: computing, latency, bandwidth or the slowest rank."""
        share = self.waiting / self.messages.seconds if self.messages.seconds else 0.0
        parts = {
            "computing": self.compute, "latency": share * self.messages.latency,
            "bandwidth": share * self.messages.transfer, "the slowest rank": self.slowest,
        }  # fmt: skip
        return max(parts, key=lambda name: parts[name])


class Job(NamedTuple):
    """Recorded step. Created by `record`, or by hand; `save` and `load` keep it in a file.

    Args:
        events: stretches of computing, and starts and waits of messages.
        ranks: number of ranks in the recording.
        work: operations and bytes of the ops, if they were counted.
        jitter: standard deviation of computing from step to step, relative to its time.

    >>> from ndgrad.distributed.planning import Job, Link, Machine
    >>> from ndgrad.distributed.planning.simulation import Event
    >>> events = [Event("compute", 0.01), Event("start", 0, 1, "all_reduce", 4_000_000), Event("wait", number=1)]
    >>> job = Job(tuple(events), ranks=1)
    >>> machine = Machine(flops=1e11, memory=1e10, call=1e-6, inside=Link(1e-6, 1e10), cores=64)
    >>> [round(1000 * job.predict(machine, ranks).seconds, 2) for ranks in (1, 8, 64)]
    [10.0, 10.71, 10.8]
    """

    events: tuple[Event, ...]
    #: Number of ranks in the recording.
    ranks: int = 1
    work: Work | None = None
    #: Standard deviation of computing from step to step, relative to its time.
    jitter: float = 0.0

    @property
    def compute(self) -> float:
        """Seconds of computing, as recorded."""
        return sum(e.seconds for e in self.events if e.what == "compute")

    @property
    def sent(self) -> dict[str, int]:
        """Return the bytes given to each kind of collective."""
        found: dict[str, int] = {}
        for e in self.events:
            if e.what == "start":
                found[e.kind] = found.get(e.kind, 0) + e.nbytes
        return found

    def computed_by(self, machine: Machine) -> float:
        """Return the seconds of computing on another machine, from the operations and bytes of the ops alone.

        Args:
            machine: other machine.
        """
        if self.work is None:
            raise ValueError("the job was recorded without its ops: record(step, ops=True). [nd-call-order]")
        slowest = max(self.work.flops / machine.flops, self.work.nbytes / machine.memory)
        return self.work.ops * machine.call + slowest

    def predict(self, machine: Machine, ranks: int, *, strong: bool = False, per_node: int | None = None) -> Prediction:
        """Predict the time of the step on another number of ranks.

        Args:
            machine: machine of the prediction.
            ranks: number of ranks.
            strong: whether the ranks divide the work of the recorded step. Each has as much as was recorded otherwise.
            per_node: number of ranks of a node. The default is its number of processors.
        """
        if ranks < 1:
            raise ValueError(f"predict(ranks={ranks}): a job has at least one rank. [nd-range]")
        on_node = min(ranks, machine.per_node if per_node is None else per_node)
        scale = machine.slowdown(on_node) * (self.ranks / ranks if strong else 1.0)
        between = machine.between or machine.inside
        clock, waiting, messages = 0.0, 0.0, NOTHING
        under_way: deque[list[float]] = deque()  # number, seconds left

        def spend(seconds: float, until: int | None) -> float:
            """Let messages make progress for some seconds, or until one is done; return the time this took."""
            spent = 0.0
            while under_way and (until is not None or spent < seconds):
                taken = under_way[0][1] if until is not None else min(under_way[0][1], seconds - spent)
                under_way[0][1] -= taken
                spent += taken
                if under_way[0][1] <= 1e-15:
                    done = under_way.popleft()[0]
                    if done == until:
                        break
            return spent

        for e in self.events:
            if e.what == "compute":
                clock += e.seconds * scale
                spend(e.seconds * scale * machine.overlap, None)
            elif e.what == "start":
                everybody = e.ranks in (0, self.ranks) or self.ranks == 1
                price = cost(e.kind, e.nbytes, ranks if everybody else e.ranks, machine.inside, between, on_node)
                messages += price
                under_way.append([e.number, price.seconds])
            elif any(number == e.number for number, _ in under_way):
                took = spend(0.0, e.number)
                clock, waiting = clock + took, waiting + took
        compute = self.compute * scale
        slowest = compute * self.jitter * math.sqrt(2 * math.log(ranks)) if ranks > 1 and messages.seconds else 0.0
        total = clock + slowest
        alone = self.compute * (self.ranks / ranks if strong else 1.0)
        return Prediction(ranks, total, compute, waiting, slowest, messages, alone / total if total else 1.0)

    def save(self, path: str) -> None:
        """Write the job to a file, as text (JSON).

        Args:
            path: path of the file.
        """
        text = json.dumps({"ranks": self.ranks, "work": self.work, "jitter": self.jitter, "events": self.events})
        with open_replacement(path) as file:
            file.write(text.encode())

    @staticmethod
    def load(path: str) -> Job:
        """Read a job from a file.

        Args:
            path: path of the file.
        """
        with open(path, encoding="utf-8") as file:
            found: dict[str, Any] = json.load(file)
        work = None if found["work"] is None else Work(*found["work"])
        return Job(tuple(Event(*e) for e in found["events"]), found["ranks"], work, found["jitter"])


def table(job: Job, machine: Machine, ranks: Sequence[int] = (1, 8, 64, 512, 4096, 10000), **options: Any) -> str:
    """Return predictions as lines of text.

    Args:
        job: recorded step.
        machine: machine of the predictions.
        ranks: numbers of ranks, one per line.
        options: further arguments of `Job.predict`.

    >>> from ndgrad.distributed.planning import Job, Link, Machine, table
    >>> from ndgrad.distributed.planning.simulation import Event
    >>> job = Job((Event("compute", 0.01), Event("start", 0, 1, "all_reduce", 40_000_000), Event("wait", number=1)))
    >>> machine = Machine(flops=1e11, memory=1e10, call=1e-6, inside=Link(1e-6, 1e10), cores=64)
    >>> print(table(job, machine, (1, 64)))
     ranks        step   computing    messages     slowest  used  bound by
         1       10 ms       10 ms         0 s         0 s  100%  computing
        64     17.9 ms       10 ms     7.89 ms         0 s   56%  computing
    """
    lines = [f"{'ranks':>6}  {'step':>10}  {'computing':>10}  {'messages':>10}  {'slowest':>10}  used  bound by"]
    for count in ranks:
        p = job.predict(machine, count, **options)
        parts = "".join(f"{_seconds(t):>10}  " for t in (p.seconds, p.compute, p.waiting, p.slowest))
        lines.append(f"{count:>6}  {parts}{p.efficiency:>4.0%}  {p.bound}")
    return "\n".join(lines)


def _seconds(t: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if t >= scale:
            return f"{t / scale:.3g} {unit}"
    return "0 s" if t < 1e-9 else f"{t / 1e-9:.3g} ns"
