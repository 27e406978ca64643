"""The agent: one per process, it sends calls to other ranks and runs received calls.

Any waiting thread receives MPI's messages, and a thread of the agent does when none waits. A received call runs in its
own thread, since it may call other ranks in turn. There are as many threads as calls in progress, and they are reused.
So a waiting call never blocks others, and nested calls of any depth cannot deadlock.

Note [Order of messages] Messages from one rank to another are received in the order in which they were sent, each whole
before the next, under one lock. Messages that must stay in order (reference counts) are processed right there. User
code runs elsewhere.
"""

from __future__ import annotations

import atexit
import itertools
import pickle
import queue
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from ndgrad._src.core.grad_mode import is_grad_enabled, set_grad_enabled
from ndgrad._src.foundations.locks import make_lock
from ndgrad.distributed.errors import DistBackendError
from ndgrad.distributed.groups import ProcessGroup
from ndgrad.distributed.notices import notices
from ndgrad.distributed.remote import contexts
from ndgrad.distributed.remote.messages import Packed, pack, packed_error, unpack, unpacked_error
from ndgrad.futures import Future

#: Buffers of up to this many bytes in total travel inside the message that announces them.
_INLINE = 16384
#: Number of polls without a pause in a waiting thread, and the length of later pauses in seconds.
_SPINS = 50
_PAUSE = 5e-5
#: Seconds of frequent polling by the agent's thread after a message, and its pause when none comes.
_LIVELY = 0.02
_IDLE = 1e-3
#: Seconds between checks for lost ranks and late calls.
_SWEEP = 0.05

_FRAME, _BUFFER = 0, 1


class WorkerInfo(NamedTuple):
    """Rank that can be called.

    Args:
        name: name that it has given to `init_rpc`.
        id: its number in the world.
    """

    name: str
    id: int


class Call(NamedTuple):
    """A call in progress."""

    future: Future[Any]
    peer: int
    doing: str
    deadline: float | None
    seconds: float


class RemoteFuture(Future[Any]):
    """The result of a call on another rank."""

    def __init__(self, agent: Agent) -> None:
        super().__init__()
        self._agent = agent

    def done(self) -> bool:  # torch's name  # prose: ok
        """True if the result, or an error, has arrived."""
        if not super().done():
            self._agent.progress()
        return super().done()

    def wait(self) -> Any:
        """Return the result; raise the exception of the call."""
        self._agent.wait_until(super().done)
        return super().wait()


class Agent:
    """Calls between the ranks of a group."""

    def __init__(self, group: ProcessGroup, names: list[str], seconds: float) -> None:
        self.group, self.rank = group, group.rank()
        self.workers = [WorkerInfo(name, i) for i, name in enumerate(names)]
        #: Time limit of a call, in seconds.
        self.seconds = seconds
        #: Handlers of messages other than calls and replies: kind -> function of the sender's rank and the message.
        self.on_notice: dict[str, Callable[[int, Any], None]] = {"end": self.end_context}
        self._comm = None if group.comm is None else group.comm.Dup()
        self._numbers = itertools.count(1)
        self._calls: dict[int, Call] = {}
        self._taking, self._sending = make_lock(), make_lock()
        self._leaving: list[tuple[Any, Any]] = []
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._free = 0
        self._threads: list[threading.Thread] = []
        self._swept = 0.0
        self._closed = False
        self._service = threading.Thread(target=self._serve, name="ndgrad-rpc", daemon=True)

    def start(self) -> None:
        """Begin to run received calls, once everything that a call may need exists."""
        if self._comm is not None:
            atexit.register(self.close)
            self._service.start()

    def worker(self, to: Any) -> WorkerInfo:
        """Return the worker with a name or rank, or a given WorkerInfo."""
        for w in self.workers:
            if to in (w.name, w.id, w) and not isinstance(to, bool):
                return w
        raise ValueError(
            f"there is no worker {to!r}. The workers are "
            f"{', '.join(f'{w.name!r} (rank {w.id})' for w in self.workers)}. [nd-rank]"
        )

    # ----- calls -----

    def call(
        self, peer: int, function: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None, *,
        seconds: float | None = None, record: bool = True, copy: bool = True, keep_as: Any = None,
    ) -> Future[Any]:  # fmt: skip
        """Start `function(*args, **kwargs)` on a rank; with `keep_as`, its result stays there under that id."""
        doing = f"{getattr(function, '__qualname__', function)} called by rank {self.rank} on rank {peer}"
        if self._closed:
            raise RuntimeError(
                f"{doing}: rpc has been shut down on this rank. Call init_rpc() first. [nd-process-group]"
            )
        seconds = self.seconds if seconds is None else seconds
        packed = pack((function, args, kwargs or {}), self.rank, peer, record=record, copy=copy)
        future = RemoteFuture(self)
        number = next(self._numbers)
        deadline = time.monotonic() + seconds if seconds > 0 else None
        self._calls[number] = Call(future, peer, doing, deadline, seconds)
        try:
            self._send(peer, "call", number, (is_grad_enabled(), keep_as), packed)
        except BaseException:
            del self._calls[number]
            raise
        return future

    def tell(self, peer: int, kind: str, said: Any) -> None:
        """Send a message that gets no reply."""
        if not self._closed:
            self._send(peer, kind, 0, said, Packed(b"", ()))

    def end_context(self, source: int, number: int) -> None:
        """Forget an autograd context, and tell the ranks to which it was sent from here."""
        ended = contexts.close_context(number)
        for peer in () if ended is None else ended.peers - {source, self.rank}:
            self.tell(peer, "end", number)

    def wait_until(self, happened: Callable[[], bool], seconds: float | None = None) -> bool:
        """Wait for a condition while receiving messages; return False if it is not met in time."""
        for _ in range(_SPINS):
            if happened():
                return True
            self.progress()
        end = None if seconds is None else time.monotonic() + seconds
        while not happened():
            if end is not None and time.monotonic() > end:
                return False
            if not self.progress():
                time.sleep(_PAUSE)
        return True

    def check_alive(self, ranks: Iterable[int], doing: str) -> None:
        """Raise if any of the ranks is known to be gone."""
        for rank in ranks:
            told = notices.gone(rank) if rank != self.rank else None
            if told is not None:
                raise DistBackendError(
                    f"rank {rank} {told}, while rank {self.rank} waited for it in {doing}. [nd-peer]"
                )

    # ----- sending -----

    def _send(self, peer: int, kind: str, number: int, said: Any, packed: Packed) -> None:
        sizes = [b.size for b in packed.buffers]
        inside = sum(sizes) <= _INLINE
        held = [b.tobytes() for b in packed.buffers] if inside else sizes
        head = (kind, number, said, packed.text, packed.recorded, packed.tensors, inside, held)
        if peer == self.rank:
            after: list[Callable[[], None]] = []
            with self._taking:
                self._handle(peer, head, packed.buffers, after)
            for act in after:
                act()
            return
        frame = np.frombuffer(pickle.dumps(head, 5), np.uint8)
        with self._sending:  # see Note [Order of messages]
            assert self._comm is not None
            self._leaving.append((frame, self._comm.Isend(frame, dest=peer, tag=_FRAME)))
            for b in () if inside else packed.buffers:
                self._leaving.append((b, self._comm.Isend(b, dest=peer, tag=_BUFFER)))

    # ----- taking in -----

    def progress(self) -> bool:
        """Receive messages; True if there were any."""
        if self._comm is None or not self._taking.acquire(blocking=False):
            return False
        after: list[Callable[[], None]] = []
        try:
            if self._closed:
                return False
            came = 0
            while (frame := self._next_frame()) is not None:
                came += 1
                self._handle(*frame, after)
            now = time.monotonic()
            if now > self._swept + _SWEEP:
                self._swept = now
                self._sweep(now, after)
            if self._leaving:
                with self._sending:
                    leaving, self._leaving = self._leaving, []
                    self._leaving += [(b, r) for b, r in leaving if not r.Test()]
        finally:
            self._taking.release()
        for act in after:
            act()
        return came > 0

    def _next_frame(self) -> tuple[int, Any, tuple[Any, ...]] | None:
        from mpi4py import MPI  # imported late, as in ndgrad.distributed.transport

        assert self._comm is not None
        status = MPI.Status()
        message = self._comm.Improbe(source=MPI.ANY_SOURCE, tag=_FRAME, status=status)
        if message is None:
            return None
        frame = np.empty(status.Get_count(MPI.BYTE), np.uint8)
        message.Recv(frame)
        head = pickle.loads(frame.data)
        source, inside, held = status.Get_source(), head[6], head[7]
        if inside:
            return source, head, tuple(np.frombuffer(bytearray(b), np.uint8) for b in held)
        buffers = tuple(np.empty(n, np.uint8) for n in held)
        for b in buffers:
            request = self._comm.Irecv(b, source=source, tag=_BUFFER)
            while not request.Test():  # already on its way: the sender has handed it to MPI
                if notices.gone(source) is not None:
                    return None
                time.sleep(0)
        return source, head, buffers

    def _handle(self, source: int, head: Any, buffers: tuple[Any, ...], after: list[Callable[[], None]]) -> None:
        kind, number, said, text, recorded, tensors, _, _ = head
        packed = Packed(text, buffers, recorded, tensors)
        if kind == "call":
            self._submit(lambda: self._run(source, number, said, packed))
        elif kind in ("result", "error"):
            call = self._calls.pop(number, None)
            if call is not None:  # late calls have been given up
                after.append(lambda: self._finish(call, kind, packed))
        else:
            self.on_notice[kind](source, said)

    def _finish(self, call: Call, kind: str, packed: Packed) -> None:
        try:
            if kind == "error":
                raise unpacked_error(packed.text, call.doing)
            value = unpack(packed, call.peer)
        except BaseException as error:
            call.future.set_exception(error)
        else:
            call.future.set_result(value)

    def _sweep(self, now: float, after: list[Callable[[], None]]) -> None:
        """Give up calls whose rank is gone, or that took too long."""
        gone = {rank: notices.gone(rank) for rank in {c.peer for c in self._calls.values()} if rank != self.rank}
        for number, call in list(self._calls.items()):
            told = gone.get(call.peer)
            if told is not None:
                error: DistBackendError | TimeoutError = DistBackendError(
                    f"rank {call.peer} {told}, in {call.doing}. [nd-peer]"
                )
            elif call.deadline is not None and now > call.deadline:
                error = TimeoutError(
                    f"{call.doing} took more than {call.seconds:g} s. Look at what rank {call.peer} does, or give the "
                    "call, or init_rpc, a longer timeout. [nd-peer]"
                )
            else:
                continue
            if self._calls.pop(number, None) is not None:
                after.append(lambda future=call.future, error=error: future.set_exception(error))  # type: ignore[misc]

    def _serve(self) -> None:
        lively = 0.0
        while not self._closed:
            now = time.monotonic()
            if self.progress():
                lively = now
            time.sleep(_PAUSE if now - lively < _LIVELY else _IDLE)

    # ----- running what comes -----

    def _submit(self, work: Callable[[], None]) -> None:
        if self._free:
            self._free -= 1
        else:
            thread = threading.Thread(target=self._labour, name="ndgrad-rpc-call", daemon=True)
            self._threads.append(thread)
            thread.start()
        self._work.put(work)

    def _labour(self) -> None:
        while (work := self._work.get()) is not None:
            work()
            del work  # frees the objects it holds
            with self._taking:
                self._free += 1

    def _run(self, source: int, number: int, said: Any, packed: Packed) -> None:
        grad_enabled, keep_as = said
        token = contexts.current.set(0 if packed.recorded is None else packed.recorded.context)
        try:
            with set_grad_enabled(grad_enabled):
                function, args, kwargs = unpack(packed, source)
                value = function(*args, **kwargs)
                if isinstance(value, Future) and getattr(function, "runs_asynchronously", False):
                    context = contexts.current.get()
                    value.add_done_callback(lambda f: self._answer_later(source, number, keep_as, f, context))
                    return
                self._answer(source, number, keep_as, value, packed.recorded is not None)
        except BaseException as error:
            self._refuse(source, number, keep_as, error)
        finally:
            contexts.current.reset(token)

    def _answer_later(self, source: int, number: int, keep_as: Any, future: Future[Any], context: int) -> None:
        token = contexts.current.set(context)
        try:
            self._answer(source, number, keep_as, future.wait(), bool(context))
        except BaseException as error:
            self._refuse(source, number, keep_as, error)
        finally:
            contexts.current.reset(token)

    def _answer(self, source: int, number: int, keep_as: Any, value: Any, record: bool) -> None:
        if keep_as is not None:
            self.on_notice["value"](source, (keep_as, value, None))
            value = None
        self._send(source, "result", number, None, pack(value, self.rank, source, record=record))

    def _refuse(self, source: int, number: int, keep_as: Any, error: BaseException) -> None:
        if keep_as is not None:
            self.on_notice["value"](source, (keep_as, None, error))
        self._send(source, "error", number, None, Packed(packed_error(error, self.rank), ()))

    # ----- the end -----

    def settle(self, timeout: float = 0.0) -> None:
        """Wait until no rank has unanswered calls; all ranks settle together."""
        longest = timeout or self.group.timeout
        self.wait_until(lambda: not self._calls)
        if self._comm is None:
            return
        together = self._comm.Ibarrier()
        doing = f"rpc.shutdown() on rank {self.rank}"
        looked = [time.monotonic()]

        def come() -> bool:
            if together.Test():
                return True
            if time.monotonic() > looked[0] + _SWEEP:
                looked[0] = time.monotonic()
                self.check_alive(range(len(self.workers)), doing)
            return False

        if not self.wait_until(come, longest):
            raise DistBackendError(
                f"{doing} took more than {longest:g} s: not all ranks have called it. [nd-peer]"
            )

    def close(self) -> None:
        """Stop without waiting."""
        with self._taking:
            if self._closed:
                return
            self._closed = True
        for _ in self._threads:
            self._work.put(None)
        if self._comm is not None:
            atexit.unregister(self.close)
            self._service.join(5.0)
            for _, request in self._leaving:
                request.Test()
        for call in list(self._calls.values()):
            call.future.set_exception(RuntimeError(
                f"{call.doing}: rpc was shut down before it was answered. [nd-call-order]"
            ))
        self._calls.clear()


class _Current:
    agent: Agent | None = None


_current = _Current()


def current_agent() -> Agent:
    """Return this process's agent."""
    if _current.agent is None:
        raise RuntimeError(
            "rpc has not been initialized. Call ndgrad.distributed.rpc.init_rpc(name) on every rank. [nd-process-group]"
        )
    return _current.agent


def set_agent(agent: Agent | None) -> None:
    """Set this process's agent."""
    _current.agent = agent
