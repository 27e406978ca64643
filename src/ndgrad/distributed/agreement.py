"""That all ranks call the same thing, and that nobody waits for ever.

With MPI alone, ranks that call different collectives, or the same on other shapes, hang or compute nonsense. So every
collective is accompanied by one small reduction: a number made of its name, shape, dtype and settings, as the pair (n,
-n), of which the ranks take the maximum. If that is (n, -n) on each of them, all have called the same. If not, every
rank finds out, and they exchange in words what each has called, which is the error that every rank raises.

Waiting is asking again and again, first without a pause, later with short ones. After two milliseconds it also looks
for notices (`notices`): a rank that failed or left tells the others, and a wait for it ends with an error that says so.
After the group's timeout it ends too, and names the ranks that did not come.
"""

from __future__ import annotations

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

#: Questions without a look at the clock. One takes some 0.2 us.
_SPINS = 200
_MOST_SPINS = 20000
#: How long it is asked without a pause, in seconds, and how much longer for each byte of the message: MPI goes on with
#: it when it is asked, so a pause costs more than most messages take.
_EAGER = 0.002
_EAGER_PER_BYTE = 2e-9
#: How many calls are remembered with their numbers.
_MOST_PAIRS = 4096
#: Bytes of a call in words, in the exchange after a disagreement.
_WORDS = 240


class Call(NamedTuple):
    """What a rank has called: what the others must have called too."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    setting: Any = None
    other: Any = None

    def described(self) -> str:
        """The dtype and shape in words: float32[2, 3]."""
        if not self.dtype:
            return ""
        return f"{'bfloat16' if self.dtype == 'E' else np.dtype(self.dtype).name}{list(self.shape)}"

    def __str__(self) -> str:
        settings = [self.described(), *(str(s) for s in (self.setting, self.other) if s is not None)]
        return f"{self.name}({', '.join(s for s in settings if s)})"


#: A call's pair (n, -n), and its bytes, by which it is compared.
_pairs: dict[Call, tuple[Any, bytes]] = {}


def _pair_of(call: Call) -> tuple[Any, bytes]:
    found = _pairs.get(call)
    if found is None:
        if len(_pairs) > _MOST_PAIRS:  # calls that differ every time
            _pairs.clear()
        number = zlib.crc32(repr(tuple(call)).encode()) + 1
        pair = np.array((number, -number))
        found = _pairs[call] = pair, pair.tobytes()
    return found


class Kind:
    """What is known of calls that are alike, so that the next one need not find it out: the call, its pair, and what
    MPI is given for it."""

    __slots__ = ("call", "expected", "operation", "pair")

    def __init__(self, call: Call, operation: Any = None) -> None:
        self.call, self.operation = call, operation
        self.pair, self.expected = _pair_of(call)


def settle(group: ProcessGroup, kind: Kind, request: Any, buffer: Any) -> None:
    """Wait for a collective that has been started, together with the agreement on it. What `Pending` does, of which one
    is made only if the ranks are not all there at once, or somebody counts."""
    if traffic.is_watched():
        Pending(group, kind.call, (request,), None, (buffer,)).wait()
        return
    pair = kind.pair.copy()
    control = group.control.Iallreduce(group.in_place, pair, op=group.maximum)
    group.calls += 1
    test, agreed = control.Test, False
    for _ in range(_SPINS + min(buffer.nbytes >> 7, _MOST_SPINS)):
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
    """A collective, or a message between two ranks, that was started: what torch calls a Work."""

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
        self._buffers = buffers  # alive until MPI has done with them
        self._check, self._alone = check, alone
        self.done, self.source = False, -1
        #: when it began, if somebody watches
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
        """Go on with what `settle` has begun: the first request is the agreement."""
        self._alone, self.sequence, self._pair, self._expected = False, sequence, pair, expected

    @classmethod
    def finished(cls, group: ProcessGroup, call: Call) -> Pending:
        """What a group of one rank waits for: nothing."""
        made = cls(group, call, (), None, (), alone=True)
        made.done = True
        return made

    @classmethod
    def of_any_source(
        cls, group: ProcessGroup, call: Call, header: Any, start: Callable[..., Pending], tag: int
    ) -> Pending:
        """A message from whoever sends one first: it is received when it is known who that is."""
        made = cls(group, call, (), None, (), alone=True)

        def look() -> Pending | None:
            from mpi4py import MPI  # as in ndgrad.distributed.transport

            status = MPI.Status()
            if not group.comm.Iprobe(source=MPI.ANY_SOURCE, tag=2 * tag, status=status):
                return None
            return start(header, status.Get_source(), tag)

        made._late = look
        return made

    # ----- waiting -----

    def is_completed(self) -> bool:
        """Whether it is done; asking also lets MPI go on with it."""
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
        """Wait until it is done; at most `timeout` seconds, or what the group allows."""
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
            self._poll(lambda: self._late is None or bool(self._found()), timeout)
        first = 0
        if not self._alone:
            # the agreement first: what follows may never be done if there is none
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
            raise self._failed(error) from error
        self._complete()

    def _found(self) -> bool:
        started = self._late() if self._late is not None else None
        if started is None:
            return False
        self._late = None
        self._take_over(started)
        return True

    def _poll(self, test: Callable[[], bool], timeout: float) -> None:
        for _ in range(_SPINS):
            if test():
                return
        begun = time.monotonic()
        waited = 0.0
        eager = _EAGER + _EAGER_PER_BYTE * sum(getattr(b, "nbytes", 0) for b in self._buffers)
        while not test():
            waited = time.monotonic() - begun
            if waited < eager:
                continue
            notices.look(self.group, self.call, self.sequence)
            if waited > timeout:
                raise notices.too_late(self.group, self.call, self.sequence, waited)
            time.sleep(min(waited / 20, 0.001))  # a twentieth more than needed, at most; others may have the core

    def _complete(self) -> None:
        if not self._alone and self._pair.tobytes() != self._expected:
            self._disagree()
        if self._check is not None:
            self._check()
        if self._finish is not None:
            self._finish()
        self.done = True
        if self.begun:
            traffic.ended(self)
        self._requests, self._buffers, self._finish, self._check = (), (), None, None

    # ----- what went wrong -----

    def _disagree(self) -> None:
        """Exchange in words what every rank has called, and raise that."""
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

    def _failed(self, error: Exception) -> DistBackendError:
        group = self.group
        return DistBackendError(
            f"{self.call} on rank {group.global_rank(group.rank())} of {group.name} failed: "
            f"{str(error).splitlines()[0]} [nd-peer]"
        )
