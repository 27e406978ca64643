"""Speed of a machine: operations and bytes per second of a rank, and the cost of messages between ranks, as
measured.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ndgrad.distributed import transport
from ndgrad.distributed.groups import is_initialized, world_group
from ndgrad.distributed.planning.costs import Link
from ndgrad.distributed.reductions import ReduceOp

#: Assumed link of a single rank, which cannot measure messages: ranks that share memory.
ASSUMED = Link(2e-6, 4e9)


class Machine(NamedTuple):
    """Speed of the ranks. Use `_replace` to ask about another machine: another link between nodes, more cores.

    Args:
        flops: floating-point operations per second of one rank.
        memory: bytes per second that one rank reads and writes.
        call: seconds of overhead of an op.
        inside: link between ranks of a node.
        cores: processors of a node.
        between: link between nodes. None means the same as `inside`.
        overlap: share of computing time in which messages make progress, from 0 to 1.
        ranks: number of ranks of a node in the measurement. 0 means that messages are assumed.
        crowding: slowdown of computing when all these ranks compute at once.

    >>> from ndgrad.distributed.planning import Link, Machine
    >>> Machine(flops=5e10, memory=1e10, call=1e-6, inside=Link(2e-6, 4e9), cores=8).per_node
    8
    """

    #: Floating-point operations per second of one rank, in float32 products.
    flops: float
    #: Bytes per second that one rank reads and writes.
    memory: float
    #: Overhead of calling an op, in seconds.
    call: float
    #: Messages between ranks of one node.
    inside: Link
    #: Processors of a node: with more ranks than these, each computes more slowly.
    cores: int
    #: Messages between nodes; None: same as `inside`.
    between: Link | None = None
    #: Share of computing time in which messages make progress: 1 always, 0 only while waiting.
    overlap: float = 0.0
    #: Number of ranks of one node in the measurement; 0: messages are assumed, not measured.
    ranks: int = 0
    #: Slowdown of computing when all these ranks compute at once.
    crowding: float = 1.0

    def slowdown(self, on_node: int) -> float:
        """Return the slowdown of computing with some ranks on a node: as measured, or from the number of processors.

        Args:
            on_node: number of ranks of a node.
        """
        return self.crowding if on_node == self.ranks > 0 else max(1.0, on_node / self.cores)

    @property
    def per_node(self) -> int:
        """The number of ranks on a node."""
        return self.cores


def _fastest(run: Callable[[], Any], seconds: float) -> float:
    """Return the least time of a call, over as many calls as fit into some seconds, at least three."""
    best, end, count = float("inf"), time.perf_counter() + seconds, 0
    while count < 3 or time.perf_counter() < end:
        begun = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - begun)
        count += 1
    return best


def _repeat(run: Callable[[], Any], count: int) -> float:
    """Return the least time of a collective, which all ranks must call equally often."""
    best = float("inf")
    for _ in range(count):
        begun = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - begun)
    return best


def measure(seconds: float = 0.3) -> Machine:
    """Measure this machine; all ranks call it. Measuring the computing speed takes about `seconds` seconds.

    Args:
        seconds: time of the measurement of the computing speed.

    >>> from ndgrad.distributed import planning
    >>> machine = planning.measure(seconds=0.02)
    >>> machine.flops > 1e6 and machine.memory > 1e6
    True
    """
    from ndgrad._src.tensor.functions.creation import ones  # measures the overhead of an op

    n = 256
    a = np.ones((n, n), np.float32)
    out = np.empty_like(a)
    flops = 2 * n**3 / _fastest(lambda: np.matmul(a, a, out=out), seconds / 3)
    big = np.ones(1 << 21, np.float32)
    target = np.empty_like(big)
    memory = 2 * big.nbytes / _fastest(lambda: np.copyto(target, big), seconds / 3)
    x = ones(1)
    call = _fastest(lambda: x + x, seconds / 3)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    made = Machine(flops, memory, call, ASSUMED, cores)
    if not is_initialized() or world_group().size() == 1:
        return made
    crowding = _crowding(lambda: np.matmul(a, a, out=out))
    return made._replace(inside=_link(), overlap=_overlap(), ranks=world_group().size(), crowding=crowding)


def _crowding(compute: Callable[[], Any]) -> float:
    """Return the slowdown when all ranks compute at once, compared with the first alone. It is the median of several
    runs, because other programs may run on the machine.
    """
    group = world_group()

    def middle() -> float:
        times = []
        for _ in range(40):
            begun = time.perf_counter()
            compute()
            times.append(time.perf_counter() - begun)
        return float(np.median(times))

    transport.barrier(group).wait()
    alone = middle() if group.rank() == 0 else 1.0
    transport.barrier(group).wait()
    found = np.array([max(1.0, middle() / alone)])
    transport.broadcast(group, found, 0).wait()
    return float(found[0])


def _link() -> Link:
    """Return latency and bandwidth, from reductions of few and of many bytes."""
    group = world_group()
    p = group.size()
    few, many = np.ones(2), np.zeros(1 << 19)
    depth = (p - 1).bit_length()
    latency = _repeat(lambda: transport.all_reduce_now(group, few, ReduceOp.MAX), 200) / depth
    long = _repeat(lambda: transport.all_reduce_now(group, many, ReduceOp.SUM), 12)
    steps, sent = 2 * depth, 2 * (p - 1) / p * many.nbytes
    found = np.array([latency, sent / max(long - steps * latency, 1e-9)])
    transport.broadcast(group, found, 0).wait()  # all ranks plan with the same numbers
    return Link(float(found[0]), float(found[1]))


def _overlap() -> float:
    """Return the share of a reduction that is done while its rank computes."""
    group = world_group()
    many, a = np.zeros(1 << 19), np.ones((256, 256), np.float32)
    out = np.empty_like(a)
    alone = _repeat(lambda: transport.all_reduce_now(group, many, ReduceOp.SUM), 8)
    one = _fastest(lambda: np.matmul(a, a, out=out), 0.01)
    count = max(1, round(alone / one))

    def both() -> None:
        pending = transport.all_reduce(group, many, ReduceOp.SUM)
        for _ in range(count):
            np.matmul(a, a, out=out)
        pending.wait()

    together = _repeat(both, 8)
    computing = count * one
    saved = np.array([min(1.0, max(0.0, (alone + computing - together) / min(alone, computing)))])
    transport.broadcast(group, saved, 0).wait()
    return float(saved[0])
