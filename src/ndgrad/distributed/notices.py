"""Notices between ranks after a failure: a rank failed, left, or timed out.

A notice is a small message to every other rank, on its own communicator, for which no rank waits. A rank checks for
notices after it has waited for something else for more than a moment. So the error of one rank ends the waits of all,
on any machine that MPI reaches, and a timeout can name the missing ranks.

A rank that ends with an exception sends a notice, gives the others a moment to send theirs, and ends the job.
"""

from __future__ import annotations

import atexit
import pickle
import sys
import time
import traceback
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.foundations.locks import make_lock
from ndgrad.distributed.errors import DistBackendError
from ndgrad.launch import dead_ranks

if TYPE_CHECKING:
    from ndgrad.distributed.agreement import Call
    from ndgrad.distributed.groups import ProcessGroup

_SIZE = 1024
#: Time for the other ranks to report their calls, in seconds.
_GRACE = 2.0


class Notices:
    """The notices of this process."""

    def __init__(self) -> None:
        self._comm: Any = None
        self._request: Any = None
        self._buffer = np.zeros(_SIZE, np.uint8)
        self._sent: list[Any] = []
        self._groups: list[Any] = []
        self._previous: Any = None
        self._failed: dict[int, str] = {}
        #: Ranks that left: their number of collectives, by group.
        self._left: dict[int, dict[str, int]] = {}
        #: Ranks whose waits took too long: the group, the number of the call, the call.
        self._waiting: dict[int, tuple[str, int, str]] = {}
        self._ending = False
        self._looked = 0.0
        self._lock = make_lock()

    def open(self, comm: Any) -> None:
        """Begin to listen, on a communicator without other users."""
        self.__init__()  # type: ignore[misc]  # a new world knows nothing of the one before
        self._comm = comm
        self._listen()
        self._previous = sys.excepthook
        sys.excepthook = self._on_exception
        atexit.register(self._on_exit)

    def close(self) -> None:
        """Stop listening: all ranks close together."""
        if self._comm is None:
            return
        sys.excepthook = self._previous
        atexit.unregister(self._on_exit)
        self._request.Cancel()
        self._request.Wait()
        for _, request in self._sent:
            request.Test()
        self._comm.Free()
        self._comm = None

    def know(self, group: ProcessGroup) -> None:
        """Register a group, whose calls are counted in a notice of leaving."""
        self._groups.append(group)

    # ----- sending -----

    def send(self, kind: str, told: Any) -> None:
        """Send a notice to all other ranks."""
        if self._comm is None:
            return
        message = np.zeros(_SIZE, np.uint8)
        packed = pickle.dumps((kind, told))
        message[: len(packed)] = np.frombuffer(packed, np.uint8)
        for rank in range(self._comm.size):
            if rank != self._comm.rank:
                self._sent.append((message, self._comm.Isend(message, dest=rank)))

    # ----- receiving -----

    def _listen(self) -> None:
        from mpi4py import MPI  # imported late, as in ndgrad.distributed.transport

        self._request = self._comm.Irecv(self._buffer, source=MPI.ANY_SOURCE)

    def _receive(self) -> None:
        from mpi4py import MPI  # imported late, as in ndgrad.distributed.transport

        status = MPI.Status()
        if not self._lock.acquire(blocking=False):
            return  # another thread is receiving
        try:
            while self._comm is not None and self._request.Test(status):
                kind, told = pickle.loads(self._buffer.tobytes())
                rank = status.Get_source()
                if kind == "failed":
                    self._failed[rank] = told
                elif kind == "left":
                    self._left[rank] = told
                else:
                    self._waiting[rank] = told
                self._listen()
        finally:
            self._lock.release()

    def _look_for_dead(self) -> None:
        now = time.monotonic()
        if now > self._looked + 0.1:  # reading a file takes time
            self._looked = now
            for rank in dead_ranks():
                self._failed.setdefault(rank, "the death of its process (it was killed, or crashed)")

    def gone(self, rank: int) -> str | None:
        """Return a description of a rank that failed or left; None for other ranks."""
        self._receive()
        self._look_for_dead()
        if rank in self._failed:
            return f"failed with {self._failed[rank]}"
        return "has exited" if rank in self._left else None

    def look(self, group: ProcessGroup, call: Call, sequence: int) -> None:
        """Raise if a rank that this call waits for is known to have failed or left."""
        self._receive()
        here = group.global_rank(group.rank())
        self._look_for_dead()
        for rank, told in list(self._failed.items()):
            raise DistBackendError(
                f"rank {rank} failed with {told}, while rank {here} was in {call} of {group.name} (number {sequence}). "
                f"See what rank {rank} said. [nd-peer]"
            )
        for rank, counts in list(self._left.items()):
            if rank in group.ranks and sequence > counts.get(group.name, 0):
                raise DistBackendError(
                    f"rank {rank} has exited, while rank {here} was in {call} of {group.name} (number {sequence}; rank "
                    f"{rank} had "
                    f"called {counts.get(group.name, 0)}). Let every rank make the same calls, and call "
                    "destroy_process_group() on all of them at the end. [nd-peer]"
                )

    def too_late(self, group: ProcessGroup, call: Call, sequence: int, waited: float) -> DistBackendError:
        """Return the error of a wait that took too long. Waiting ranks say so; the remaining ones are missing."""
        self.send("waiting", (group.name, sequence, str(call)))
        end = time.monotonic() + 1.0
        while time.monotonic() < end:
            self._receive()
            time.sleep(0.005)
        here = group.global_rank(group.rank())
        come = {r for r, (name, number, _) in self._waiting.items() if name == group.name and number >= sequence}
        missing = [r for r in group.ranks if r != here and r not in come]
        if not sequence:  # a point-to-point message
            partner = call.setting
            missing = [group.global_rank(partner)] if isinstance(partner, int) and partner >= 0 else []
        told = (
            f"rank{'s' if len(missing) > 1 else ''} {', '.join(map(str, missing))} did not come"
            if missing
            else "no rank is known to be missing"
        )
        return DistBackendError(
            f"{call} of {group.name} (number {sequence}) on rank {here} took more than {waited:.3g} s: {told}. Look at "
            "what "
            "these ranks do, or give init_process_group() or new_group() a longer timeout. [nd-peer]"
        )

    # ----- the end of a process -----

    def _on_exception(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        rank = self._comm.rank if self._comm is not None else 0
        text = "".join(traceback.format_exception(kind, error, trace))
        sys.stderr.write(f"rank {rank} failed:\n{text}")
        sys.stderr.flush()
        self.fail(f"{kind.__name__}: {str(error)[:400]}", because_of_others=isinstance(error, DistBackendError))

    def fail(self, told: str, because_of_others: bool = False) -> None:
        """Tell the other ranks that this rank has failed, and end the job after they have had time to report."""
        if self._comm is None or self._ending:
            return
        self._ending = True
        if not because_of_others:
            self.send("failed", told)
        end = time.monotonic() + _GRACE
        while time.monotonic() < end:
            self._receive()  # lets MPI deliver the notices
            time.sleep(0.01)
        sys.stdout.flush()
        from mpi4py import MPI  # imported late, as in ndgrad.distributed.transport

        MPI.COMM_WORLD.Abort(1)

    def _on_exit(self) -> None:
        if self._comm is None or self._ending:
            return
        self.send("left", {group.name: group.calls for group in self._groups})
        for _ in range(20):
            self._receive()
            time.sleep(0.0005)
        self._request.Cancel()


notices = Notices()
