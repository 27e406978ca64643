"""Check that all ranks call the same collective, and end waits that would never finish.

With MPI alone, ranks that call different collectives, or the same one on other shapes, hang or compute nonsense. So
every collective is accompanied by one small reduction: a number n made of its name, shape, dtype and settings, sent as
the pair (n, -n). The ranks take the maximum. If the result is (n, -n) on each rank, all have called the same. If not,
every rank notices, the ranks exchange descriptions of their calls, and every rank raises these as its error.

A wait polls the request, first without a pause, later with short ones. After two milliseconds it also checks for
notices (`notices`): a rank that failed or left tells the others, and a wait for it ends with an error that says so. The
group's timeout ends a wait too; its error names the missing ranks.
"""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ndgrad.distributed import traffic
from ndgrad.distributed.errors import DistBackendError
from ndgrad.distributed.notices import notices

if TYPE_CHECKING:
    from ndgrad.distributed.groups import ProcessGroup

#: Polls without reading the clock. One takes about 0.2 us.
_SPINS = 200
#: Seconds of polling without a pause, and additional seconds per byte of the message. MPI makes progress only when it
#: is polled, so a pause costs more than most messages take. Each poll yields the core: the rank that this one waits for
#: may need it. A poll that does not yield keeps it for the rest of its time slice, some milliseconds.
_EAGER = 0.002
_EAGER_PER_BYTE = 2e-9
#: The number of calls remembered with their numbers.
_MOST_PAIRS = 4096
#: The number of bytes that describe a call in the exchange after a disagreement.
_WORDS = 240
_yield_core: Callable[[], None] = getattr(os, "sched_yield", None) or (lambda: time.sleep(0))
#: A yield that takes longer, in seconds, has let other programs run: the cores are shared.
_SLOW_YIELD = 2e-4
#: Seconds for which waits then sleep between polls. The scheduler lets a process that sleeps run as soon as it wakes
#: up. One that polls uses up its share of the core, and then waits some milliseconds for those of the others.
_SLEEPING = 0.1


class _Cores:
    """Notes on other programs on the cores of this process."""

    #: Time until which waits sleep between polls.
    shared_until = 0.0

    def spins(self) -> int:
        """Return the number of polls before a wait yields or sleeps."""
        return 2 if time.monotonic() < self.shared_until else _SPINS

    def give_way(self, now: float) -> None:
        """Yield the core, or sleep if it is shared. The kernel makes about 60 microseconds of the shortest sleep."""
        if now < self.shared_until:
            time.sleep(1e-6)
            return
        _yield_core()
        if time.monotonic() - now > _SLOW_YIELD:
            self.shared_until = now + _SLEEPING


_cores = _Cores()


class Call(NamedTuple):
    """The call of a rank, which must be the same on all ranks."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    setting: Any = None
    other: Any = None

    def describe_value(self) -> str:
        """Return the dtype and shape as text: float32[2, 3]."""
        if not self.dtype:
            return ""
        return f"{'bfloat16' if self.dtype == 'E' else np.dtype(self.dtype).name}{list(self.shape)}"

    def __str__(self) -> str:
        settings = [self.describe_value(), *(str(s) for s in (self.setting, self.other) if s is not None)]
        return f"{self.name}({', '.join(s for s in settings if s)})"


#: A call's pair (n, -n), and the bytes of the pair for comparison.
_pairs: dict[Call, tuple[Any, bytes]] = {}


def _pair_of(call: Call) -> tuple[Any, bytes]:
    found = _pairs.get(call)
    if found is None:
        if len(_pairs) > _MOST_PAIRS:  # calls differ every time
            _pairs.clear()
        number = zlib.crc32(repr(tuple(call)).encode()) + 1
        pair = np.array((number, -number))
        found = _pairs[call] = pair, pair.tobytes()
    return found


class Kind:
    """The cached facts of a kind of call: the call, its pair, and the arguments for MPI."""

    __slots__ = ("call", "expected", "operation", "pair")

    def __init__(self, call: Call, operation: Any = None) -> None:
        self.call, self.operation = call, operation
        self.pair, self.expected = _pair_of(call)


def settle(group: ProcessGroup, kind: Kind, request: Any, buffer: Any) -> None:
    """Wait for a collective that has been started, together with the agreement on it.

    Same as `Pending`, which is created only if not all ranks are ready at once or traffic is counted.
    """
    if traffic.is_watched():
        Pending(group, kind.call, (request,), None, (buffer,)).wait()
        return
    pair = kind.pair.copy()
    control = group.control.Iallreduce(group.in_place, pair, op=group.maximum)
    group.calls += 1
    test, agreed = control.Test, False
    for _ in range(_cores.spins()):
        if test():
            if agreed:
                return
            if pair.tobytes() != kind.expected:
                break
            test, agreed = request.Test, True
    waiting = Pending(group, kind.call, (control, request), None, (buffer,), alone=True)
    waiting.resume(group.calls, pair, kind.expected)
    waiting.wait()


class Pending:
    """A started collective or point-to-point message: torch's Work."""

    __slots__ = (
        "_alone", "_buffers", "_check", "_finish", "_late", "_expected", "_pair", "_requests", "begun", "call", "done",
        "error", "group", "sequence", "source",
    )  # fmt: skip

    def __init__(
        self,
        group: ProcessGroup,
        call: Call,
        requests: tuple[Any, ...],
        finish: Callable[[], None] | None,
        buffers: tuple[Any, ...],
        alone: bool = False,
        check: Callable[[], None] | None = None,
    ) -> None:
        self.group, self.call, self._requests, self._finish = group, call, requests, finish
        self._buffers = buffers  # must stay alive until MPI has finished
        self._check, self._alone = check, alone
        self.done, self.source = False, -1
        #: Start time, if traffic is watched.
        self.begun = traffic.begun(self, buffers) if traffic.is_watched() else 0
        self.error: BaseException | None = None
        self._late: Callable[[], Pending | None] | None = None
        self.sequence = 0
        if not alone:
            self.sequence = group.calls = group.calls + 1
            own, self._expected = _pair_of(call)
            pair = self._pair = own.copy()
            self._requests = (group.control.Iallreduce(group.in_place, pair, op=group.maximum), *requests)

    def resume(self, sequence: int, pair: Any, expected: bytes) -> None:
        """Continue the wait that `settle` has begun: the first request is the agreement."""
        self._alone, self.sequence, self._pair, self._expected = False, sequence, pair, expected

    @classmethod
    def make_finished(cls, group: ProcessGroup, call: Call) -> Pending:
        """Return a completed `Pending`, for a group of one rank."""
        made = cls(group, call, (), None, (), alone=True)
        made.done = True
        return made

    @classmethod
    def receive_any(
        cls, group: ProcessGroup, call: Call, header: Any, start: Callable[..., Pending], tag: int
    ) -> Pending:
        """Return a receive from any source. The message is received when its sender is known."""
        made = cls(group, call, (), None, (), alone=True)

        def look() -> Pending | None:
            from mpi4py import MPI  # imported late, as in ndgrad.distributed.transport

            status = MPI.Status()
            if not group.comm.Iprobe(source=MPI.ANY_SOURCE, tag=2 * tag, status=status):
                return None
            return start(header, status.Get_source(), tag)

        made._late = look
        return made

    # ----- waiting -----

    def is_completed(self) -> bool:
        """True if it is done; asking also lets MPI make progress."""
        if self.done:
            return True
        if self._late is not None:
            started = self._late()
            if started is None:
                return False
            self._late = None
            self._take_over(started)
        for request in self._requests:
            if not request.Test():
                return False
        self._complete()
        return True

    def _take_over(self, started: Pending) -> None:
        self._requests, self._finish, self._check = started._requests, started._finish, started._check
        self._buffers, self.source = started._buffers, started.source

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is done, for at most `timeout` seconds or the group's timeout."""
        if self.error is not None:
            raise self.error
        if not self.done:
            try:
                self._wait(self.group.timeout if timeout is None else timeout)
            except BaseException as error:
                self.error = error
                raise
        return True

    def _wait(self, timeout: float) -> None:
        if self._late is not None:
            self._poll(lambda: self._late is None or bool(self._find_late()), timeout)
        first = 0
        if not self._alone:
            # Wait for the agreement first: without it the collective may never complete.
            self._poll(self._requests[0].Test, timeout)
            first = 1
            if self._pair.tobytes() != self._expected:
                self._disagree()
        try:
            for request in self._requests[first:]:
                self._poll(request.Test, timeout)
        except DistBackendError:
            raise
        except Exception as error:
            if self._check is not None:
                self._check()
            raise self._failure_error(error) from error
        self._complete()

    def _find_late(self) -> bool:
        started = self._late() if self._late is not None else None
        if started is None:
            return False
        self._late = None
        self._take_over(started)
        return True

    def _poll(self, test: Callable[[], bool], timeout: float) -> None:
        for _ in range(_cores.spins()):
            if test():
                return
        begun = time.monotonic()
        waited = 0.0
        eager = _EAGER + _EAGER_PER_BYTE * sum(getattr(b, "nbytes", 0) for b in self._buffers)
        while not test():
            now = time.monotonic()
            waited = now - begun
            if waited < eager:
                _cores.give_way(now)
                continue
            notices.look(self.group, self.call, self.sequence)
            if waited > timeout:
                raise notices.too_late(self.group, self.call, self.sequence, waited)
            time.sleep(min(waited / 20, 0.001))  # at most 5% longer than needed; frees the core for others

    def _complete(self) -> None:
        if not self._alone and self._pair.tobytes() != self._expected:
            self._disagree()
        if self._check is not None:
            self._check()
        if self._finish is not None:
            self._finish()
        self.done = True
        if self.begun:
            traffic.note_end(self)
        self._requests, self._buffers, self._finish, self._check = (), (), None, None

    # ----- errors --------------

    def _disagree(self) -> None:
        """Exchange descriptions of all ranks' calls, and raise them as an error."""
        group = self.group
        words = np.zeros((group.size(), _WORDS), np.uint8)
        mine = str(self.call).encode()[:_WORDS]
        words[group.rank(), : len(mine)] = np.frombuffer(mine, np.uint8)
        request = group.report.Iallgather(group.in_place, words)
        end = time.monotonic() + min(self.group.timeout, 10.0)
        while not request.Test() and time.monotonic() < end:
            time.sleep(0.0005)
        said = [bytes(w).rstrip(b"\0").decode(errors="replace") for w in words]
        told = "; ".join(f"rank {group.global_rank(i)}: {s or 'not known'}" for i, s in enumerate(said))
        raise DistBackendError(
            f"the ranks of {group.name} called different collectives as number {self.sequence}: {told}. All ranks of a "
            "group "
            "must make the same calls in the same order, on the same shapes and dtypes. [nd-peer]"
        )

    def _failure_error(self, error: Exception) -> DistBackendError:
        group = self.group
        return DistBackendError(
            f"{self.call} on rank {group.global_rank(group.rank())} of {group.name} failed: "
            f"{str(error).splitlines()[0]} [nd-peer]"
        )
