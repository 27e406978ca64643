"""Recording a step: its collectives with their bytes, the computing between them, and what its ops do.

While a step is recorded, functions that note the times of their calls replace those of `transport` and the waiting of
`Pending`. Other code has no overhead. A step of one process is enough: its calls determine the messages, even without a
receiver.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

from ndgrad.distributed import transport
from ndgrad.distributed.agreement import Pending
from ndgrad.distributed.groups import is_initialized, world_group
from ndgrad.distributed.planning.simulation import Event, Job, Work

#: Functions of `transport`: their kind, and the argument whose bytes count (see `costs`).
_WATCHED = {
    "all_reduce": ("all_reduce", 1), "broadcast": ("broadcast", 1), "reduce": ("reduce", 1),
    "all_gather": ("all_gather", 1), "all_gather_uneven": ("all_gather", 1), "reduce_scatter": ("reduce_scatter", 2),
    "reduce_scatter_uneven": ("reduce_scatter", 2), "all_to_all": ("all_to_all", 2), "gather": ("gather", 2),
    "scatter": ("scatter", 1), "send": ("send", 1), "barrier": ("barrier", 0),
}  # fmt: skip


class _Notes:
    """The events recorded so far."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.numbers: dict[int, int] = {}
        self.count = 0
        self.inside = 0
        self.since = time.perf_counter()
        self.kept: list[Any] = []  # keeps ids unique

    def note_compute(self) -> None:
        """Note that the time since the last event was spent computing."""
        seconds = time.perf_counter() - self.since
        if seconds > 0:
            self.events.append(Event("compute", seconds))

    def note_start(self, kind: str, nbytes: int, ranks: int) -> int:
        self.count += 1
        self.events.append(Event("start", 0.0, self.count, kind, nbytes, ranks))
        return self.count


def _watch(notes: _Notes, name: str, run: Any) -> Any:
    kind, at = _WATCHED["all_reduce" if name == "all_reduce_now" else name]

    def call(group: Any, *args: Any, **kwargs: Any) -> Any:
        if notes.inside:
            return run(group, *args, **kwargs)
        notes.note_compute()
        array = args[at - 1] if at else None
        nbytes = 0 if array is None else int(array.nbytes)
        if kind in ("gather", "scatter"):
            nbytes *= group.size()
        number = notes.note_start(kind, nbytes, group.size() if group.size() < world_group().size() else 0)
        notes.inside += 1
        try:
            found = run(group, *args, **kwargs)
        finally:
            notes.inside -= 1
            notes.since = time.perf_counter()
        if found is None:
            notes.events.append(Event("wait", number=number))
        else:
            notes.numbers[id(found)] = number
            notes.kept.append(found)
        return found

    return call


def _watch_wait(notes: _Notes, run: Any) -> Any:
    def wait(self: Pending, timeout: float | None = None) -> bool:
        if notes.inside or id(self) not in notes.numbers:
            found: bool = run(self, timeout)
            return found
        notes.note_compute()
        notes.inside += 1
        try:
            done: bool = run(self, timeout)
        finally:
            notes.inside -= 1
            notes.since = time.perf_counter()
        notes.events.append(Event("wait", number=notes.numbers[id(self)]))
        return done

    return wait


def record(step: Callable[[], Any], *, warm_up: int = 2, repeats: int = 9, ops: bool = False) -> Job:
    """Run a step several times; keep the median run and the variation between runs. With `ops`, one more run counts the
    operations of its ops, for `Job.computed_by`. In a world of several ranks, all of them call it.

    Args:
        step: function that runs one step.
        warm_up: number of runs before the recording.
        repeats: number of recorded runs.
        ops: whether one more run counts the operations of ops.

    >>> import ndgrad
    >>> import ndgrad.distributed as dist
    >>> from ndgrad.distributed import planning
    >>> dist.init_process_group()
    >>> net = ndgrad.nn.parallel.DistributedDataParallel(ndgrad.nn.Linear(100, 10))
    >>> job = planning.record(lambda: net(ndgrad.ones(8, 100)).sum().backward())
    >>> job.sent  # 1010 parameters of 4 bytes
    {'all_reduce': 4040}
    >>> dist.destroy_process_group()
    """
    for _ in range(warm_up):
        step()
    jobs = sorted((_record_once(step) for _ in range(max(1, repeats))), key=lambda job: job.compute)
    middle, quarter = jobs[len(jobs) // 2], len(jobs) // 4
    # The quartiles of a normal distribution are 1.35 standard deviations apart
    spread = (jobs[-1 - quarter].compute - jobs[quarter].compute) / 1.35 / middle.compute
    return middle._replace(jitter=spread, work=_work(step) if ops else None)


def _record_once(step: Callable[[], Any]) -> Job:
    notes = _Notes()
    names = [*_WATCHED, "all_reduce_now"]
    before = {name: getattr(transport, name) for name in names}
    waiting = Pending.wait
    try:
        for name, run in before.items():
            setattr(transport, name, _watch(notes, name, run))
        Pending.wait = _watch_wait(notes, waiting)  # type: ignore[method-assign]
        notes.since = time.perf_counter()
        step()
        notes.note_compute()
    finally:
        Pending.wait = waiting  # type: ignore[method-assign]
        for name, run in before.items():
            setattr(transport, name, run)
    return Job(tuple(notes.events), world_group().size() if is_initialized() else 1)


def _work(step: Callable[[], Any]) -> Work:
    """Count the operations of a step's ops. Backward does twice those of forward, once for each factor."""
    from ndgrad.profiler import profile  # only needed here

    with profile(with_flops=True, record_shapes=True) as watched:
        step()
    count, flops, elements, backward = 0, 0.0, 0.0, False
    for e in watched.events():
        if e.name.startswith("autograd::engine"):
            backward = True
            continue
        count += 1
        flops += e.flops or 0
        elements += sum(math.prod(s) for s in e.input_shapes or () if s)
    return Work(count, flops * (3 if backward else 1), elements * 4 * 2)
