"""Worker processes: one way to run a task over many items, in forked workers if that pays.

A task that fails ends the run: the first failure is raised, with the item it belongs to. A worker that is killed ends
the run too, because its items are lost.
"""

import gc
import multiprocessing
import os
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from typing import Any

# Starting processes for fewer items than this costs more than it saves.
FEW = 48
# Chunks per worker that are under way at a time. Results wait in memory until they are consumed.
_AHEAD = 16

_refusal: Exception | None = None  # why this worker could not start


class WorkerError(RuntimeError):
    """A worker could not do its task. The message is one line for the user."""


def fork_available() -> bool:
    return "fork" in multiprocessing.get_all_start_methods()


def _begin(start: Callable[..., None], arguments: tuple[Any, ...], parent: int) -> None:
    # Nodes, rows and pages form no cycles, but there are millions of them, and a worker shares the memory of the
    # process that it was forked from: collections would only walk over them, and copy the memory that they touch.
    gc.disable()
    # Ctrl-C reaches every process of the terminal. The first process ends its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    global _refusal
    try:
        start(*arguments)
    except Exception as error:
        # A worker that fails to start would be an error without a cause; its first task tells the cause.
        _refusal = error


def _end_with(parent: int) -> None:
    """End this worker when the first process is gone: a process that was killed cannot end its workers."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def _do(function: Callable[[Any], Any], items: Sequence[Any], describe: Callable[[Any], str]) -> list[Any]:
    if _refusal is not None:
        raise WorkerError(f"repobook: a worker could not start: {type(_refusal).__name__}: {_refusal}")
    return [_do_one(function, item, describe) for item in items]


def _do_one(function: Callable[[Any], Any], item: Any, describe: Callable[[Any], str]) -> Any:
    try:
        return function(item)
    except (OSError, sqlite3.Error, WorkerError):
        raise
    except Exception as error:
        raise WorkerError(f"repobook: internal error at {describe(item)}: {type(error).__name__}: {error}") from error


def _describe(item: Any) -> str:
    return str(getattr(item, "path", item))


def run(
    function: Callable[[Any], Any],
    items: Sequence[Any],
    jobs: int,
    start: Callable[..., None],
    arguments: tuple[Any, ...],
    chunk: int = 16,
    meanwhile: Callable[[], object] | None = None,
    describe: Callable[[Any], str] = _describe,
) -> Iterator[Any]:
    """`function` of every item, in any order. `start(*arguments)` prepares each worker, or this process.

    This process calls `meanwhile` while the workers begin. Their first results wait for its end. `describe` names an
    item in an error.
    """
    if jobs <= 1 or len(items) < FEW:
        if meanwhile is not None:
            meanwhile()
        start(*arguments)
        for item in items:
            yield _do_one(function, item, describe)
        return
    chunks = iter([items[at : at + chunk] for at in range(0, len(items), chunk)])
    jobs = min(jobs, -(-len(items) // chunk))
    context = multiprocessing.get_context("fork" if fork_available() else None)
    pool = ProcessPoolExecutor(jobs, context, _begin, (start, arguments, os.getpid()))
    ended = False
    try:
        running = {pool.submit(_do, function, some, describe) for some in islice(chunks, jobs * _AHEAD)}
        if meanwhile is not None:
            meanwhile()
        while running:
            done, running = wait(running, return_when=FIRST_COMPLETED)
            running |= {pool.submit(_do, function, some, describe) for some in islice(chunks, len(done))}
            for future in done:
                yield from _result(future)
        ended = True
    finally:
        _shut(pool, ended)


def _result(future: "Future[list[Any]]") -> list[Any]:
    try:
        return future.result()
    except BrokenProcessPool:
        raise WorkerError(
            "repobook: a worker process ended before its work did, perhaps for lack of memory; "
            "fewer workers need less (-j 1)"
        ) from None


def _shut(pool: ProcessPoolExecutor, ended: bool) -> None:
    """End the workers: they are idle at the end of a run, and their work is of no use after a failure."""
    workers = list((getattr(pool, "_processes", None) or {}).values())
    manager = getattr(pool, "_executor_manager_thread", None)
    pool.shutdown(wait=ended, cancel_futures=True)
    if not ended:
        for worker in workers:
            worker.kill()
        for worker in workers:
            worker.join()
        if manager is not None:  # it closes its pipe now, to which the interpreter would write at its exit
            manager.join(5)
