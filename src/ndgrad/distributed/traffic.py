"""Network traffic: collectives counted by name and bytes, and shown in profiles.

MPI does not report the bytes that its algorithms send. The count assumes the algorithms with the fewest bytes (rings)
for the bytes that a rank puts into a call: `wire_bytes`, averaged over the ranks of the group. Formulas for parallel
strategies use the same count. The small reductions by which ranks agree (`agreement`, and answers of value checks) are
not counted.

In a profile, a collective is an interval on its own line, from its start to the moment its end was noticed. So
collectives that overlap with a backward pass are visible next to it.
"""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.core.modes import ThreadState

if TYPE_CHECKING:
    from ndgrad.distributed.agreement import Pending


def wire_bytes(name: str, nbytes: int, count: int) -> Fraction:
    """Return the bytes that a rank sends, on average over `count` ranks, in a collective with `nbytes` of input.

    >>> from ndgrad.distributed.traffic import wire_bytes
    >>> wire_bytes("all_reduce", 1000, 4)
    Fraction(1500, 1)
    """
    if count < 2 or name in ("barrier", "recv"):
        return Fraction(0)
    others = Fraction(count - 1, count)
    if name == "all_reduce":  # a reduce_scatter and an all_gather of its pieces
        return 2 * others * nbytes
    if name == "all_gather":
        return Fraction((count - 1) * nbytes)
    if name == "send":
        return Fraction(nbytes)
    return others * nbytes  # each element crosses once, except those that stay


class Traffic:
    """The collectives of this rank while the object is in `counters`."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.sent: dict[str, Fraction] = {}

    def count(self, pending: Pending, nbytes: int) -> None:
        """Count a collective."""
        name = pending.call.name
        self.calls[name] += 1
        self.sent[name] = self.sent.get(name, Fraction(0)) + wire_bytes(name, nbytes, pending.group.size())

    def total(self) -> int | float:
        """The bytes that this rank has sent (see `wire_bytes`)."""
        found = sum(self.sent.values(), Fraction(0))
        return int(found) if found.denominator == 1 else float(found)


#: Active counters.
counters: list[Traffic] = []


class _Pause(threading.local):
    """True in this thread while collectives are not counted."""

    on = False


_pause = _Pause()


@contextmanager
def uncounted() -> Iterator[None]:
    """Count no collectives of this thread in this block: they carry decisions of the library, not data."""
    before, _pause.on = _pause.on, True
    try:
        yield
    finally:
        _pause.on = before


def is_watched() -> bool:
    """True if collectives are counted or profiled."""
    return bool((counters and not _pause.on) or ThreadState.watchers)


def begun(pending: Pending, buffers: tuple[Any, ...]) -> int:
    """Note the start of a collective; return the time in nanoseconds."""
    call = pending.call
    if call.name != "scatter" and buffers:
        nbytes = buffers[0].nbytes
    else:  # in a scatter not every rank has input: a piece counts
        itemsize = 2 if call.dtype == "E" else np.dtype(call.dtype).itemsize if call.dtype else 0
        nbytes = math.prod(call.shape) * itemsize
    for counter in () if _pause.on else counters:
        counter.count(pending, nbytes)
    return time.perf_counter_ns()


def note_end(pending: Pending) -> None:
    """Note the end of a collective: profilers get its whole time."""
    for watcher in ThreadState.watchers:
        tell = getattr(watcher, "interval", None)
        if tell is not None:
            tell("MPI", f"mpi:{pending.call.name}", pending.begun, time.perf_counter_ns(), pending.call.shape)
