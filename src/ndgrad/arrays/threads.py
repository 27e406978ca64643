"""Blocks of one array computation shared among a few threads.

NumPy lets go of the interpreter lock inside its loops, so plain threads are enough. What shaped this file is that waking
a sleeping thread costs some 45 microseconds, as much as a small kernel: the calling thread therefore starts on the
blocks at once, the others take blocks from the same queue when they arrive, and whoever has not arrived by the time
the queue is empty is not waited for.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextvars import copy_context
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

Block = TypeVar("Block")


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):  # a container or a batch system may grant fewer cores than exist
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


max_threads: int = _usable_cores()
"""The most threads one kernel may use; 1 keeps everything on the calling thread."""

_pool: ThreadPoolExecutor | None = None


def _forget_pool() -> None:
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)  # a forked child inherits the pool but none of its threads


def _executor() -> ThreadPoolExecutor:
    global _pool
    if _pool is None:
        from concurrent.futures import ThreadPoolExecutor  # 5 ms that an import of ndgrad should not pay

        _pool = ThreadPoolExecutor(max(1, _usable_cores() - 1), thread_name_prefix="ndgrad-kernel")
    return _pool


def share(blocks: Iterable[Block], worker: Callable[[Iterator[Block]], None], *, threads: int) -> None:
    """Call `worker` on this thread, and on up to `threads - 1` others, until `blocks` are used up.

    Every call of `worker` gets an iterator over the same queue, so each block is seen by exactly one of them; a worker
    allocates its scratch memory before its loop and keeps it for all the blocks it happens to get.
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
    # A copy of the context carries the caller's np.errstate over to the other threads.
    helpers = [_executor().submit(copy_context().run, worker, take()) for _ in range(others)]
    try:
        worker(take())
    finally:
        queue.clear()
        arrived = [helper for helper in helpers if not helper.cancel()]
        from concurrent.futures import wait

        wait(arrived)  # they write into the caller's arrays: nobody may still be at it when this returns or raises
    for helper in arrived:
        helper.result()
