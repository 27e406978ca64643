"""Distribution of the blocks of one array computation over a few threads.

NumPy releases the interpreter lock inside its loops, so plain threads suffice. The constraint that shaped this file:
waking a sleeping thread costs some 45 microseconds, as much as a small kernel. So the calling thread starts on the
blocks at once, and other threads take blocks from the same queue when they arrive. A thread that has not arrived when
the queue is empty is not waited for. Futures would cost as much again, so a request for help is two locks and a queue.
"""

from __future__ import annotations

import os
from _thread import allocate_lock
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextvars import copy_context
from queue import SimpleQueue
from threading import Thread
from typing import TypeVar

Block = TypeVar("Block")


def _usable_cores() -> int:
    wish = os.environ.get("NDGRAD_NUM_THREADS", "")
    if wish:
        if not wish.isdecimal() or not int(wish):
            raise ValueError(
                f"NDGRAD_NUM_THREADS is {wish!r}, which is no number of threads. Unset it, or give a positive integer. "
                "[nd-environment]"
            )
        return int(wish)
    if hasattr(os, "sched_getaffinity"):  # a container or a batch system may grant fewer cores than exist
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


max_threads: int = _usable_cores()
"""The most threads one kernel may use; 1 keeps everything on the calling thread. Set it by `set_max_threads`."""

_listeners: list[Callable[[int], None]] = []


def set_max_threads(count: int) -> None:
    """Let one kernel use at most `count` threads."""
    global max_threads
    max_threads = count
    for listener in _listeners:
        listener(count)


def add_listener(listener: Callable[[int], None]) -> None:
    """Call `listener` whenever the number of threads changes, because native code cannot read a Python variable."""
    _listeners.append(listener)


# ----- helpers --------------------------------------------------------------------------------------------------------


class _Request:
    """Work that a helper may take, until its caller calls it off."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work: Callable[[], None] | None = work  # None when done, to release the arrays it refers to
        self._context = copy_context()  # passes the caller's np.errstate to the other thread
        self._claim, self._done = allocate_lock(), allocate_lock()
        self._error: BaseException | None = None
        self._done.acquire()

    def take_up(self) -> None:
        """Do the work, on a helper's thread."""
        if not self._claim.acquire(blocking=False):
            return
        try:
            if self._work is not None:
                self._context.run(self._work)
        except BaseException as error:  # raised by the caller
            self._error = error
        finally:
            self._work = None
            self._done.release()

    def end(self) -> BaseException | None:
        """Call the work off, or wait for its end if a helper has started it. Return its error, if any."""
        if self._claim.acquire(blocking=False):
            self._work = None
            return None
        self._done.acquire()
        return self._error


_requests: SimpleQueue[_Request] = SimpleQueue()
_helpers: list[Thread] = []
_growing = allocate_lock()


def _help_forever(requests: SimpleQueue[_Request]) -> None:
    while True:
        requests.get().take_up()


def _ensure_helpers(count: int) -> None:
    with _growing:
        while len(_helpers) < count:
            helper = Thread(target=_help_forever, args=(_requests,), name=f"ndgrad-kernel-{len(_helpers)}", daemon=True)
            try:
                helper.start()
            except RuntimeError:  # thread limit reached or interpreter closing: work with fewer
                return
            _helpers.append(helper)


def _forget_helpers() -> None:
    global _requests, _helpers, _growing
    _requests, _helpers, _growing = SimpleQueue(), [], allocate_lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_helpers)  # a forked child inherits the list but none of the threads


# ----- sharing --------------------------------------------------------------------------------------------------------


def share(blocks: Iterable[Block], worker: Callable[[Iterator[Block]], None], *, threads: int) -> None:
    """Call `worker` on this thread, and on up to `threads - 1` others, until `blocks` are used up.

    Every call of `worker` gets an iterator over the same queue, so each block is processed exactly once. A worker
    allocates its scratch memory before its loop and uses it for all its blocks.
    """
    queue = deque(blocks)

    def take() -> Iterator[Block]:
        while True:
            try:
                block = queue.popleft()
            except IndexError:
                return
            yield block

    others = min(threads, max_threads, len(queue)) - 1
    if others < 1:
        worker(take())
        return
    if len(_helpers) < others:
        _ensure_helpers(others)
    requests = [_Request(lambda: worker(take())) for _ in range(min(others, len(_helpers)))]
    for request in requests:
        _requests.put(request)
    errors: list[BaseException | None] = []
    try:
        worker(take())
    finally:
        queue.clear()
        # No helper may still write into the caller's arrays when this returns or raises.
        errors += [request.end() for request in requests]
    for error in errors:
        if error is not None:
            raise error
