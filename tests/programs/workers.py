"""Processes that work on one item after another, and may die or hang over one: that is told, and another takes its place."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

#: Items after which a process is replaced: machine code is never given back.
ITEMS = 400
#: Seconds for one item, on a machine that does other things, too.
PATIENCE = 300.0


@dataclass(frozen=True)
class Lost:
    """An item over which a process died or hung."""

    item: Any
    how: str


def _serve(work: Callable[[Any], Any], begin: Callable[[], None] | None, connection: Connection) -> None:
    if begin is not None:
        begin()
    for _ in range(ITEMS):
        try:
            item = connection.recv()
        except EOFError:
            return
        connection.send(work(item))
    connection.close()


class _Worker:
    def __init__(self, work: Callable[[Any], Any], begin: Callable[[], None] | None) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, other = context.Pipe()
        self.process = context.Process(target=_serve, args=(work, begin, other), daemon=True)
        self.process.start()
        other.close()
        self.left = ITEMS
        self.item: Any = None
        self.since = 0.0

    def give(self, item: Any) -> None:
        self.item, self.since = item, time.monotonic()
        self.left -= 1
        self.connection.send(item)

    def end(self) -> None:
        self.connection.close()
        self.process.kill()
        self.process.join()


def in_processes(
    work: Callable[[Any], Any], items: Iterable[Any], number: int, begin: Callable[[], None] | None = None
) -> Iterator[Any]:
    """work(item) for all items, in the order in which they are done; `Lost` for those that took their process along."""
    rest = iter(items)
    busy: dict[Any, _Worker] = {}

    def start(worker: _Worker | None) -> None:
        item = next(rest, None)
        if item is None:
            if worker is not None:
                worker.end()
            return
        if worker is not None and not worker.left:
            worker.end()
            worker = None
        worker = worker or _Worker(work, begin)
        worker.give(item)
        busy[worker.connection] = worker

    try:
        for _ in range(number):
            start(None)
        while busy:
            for connection in wait(list(busy), timeout=1.0):
                worker = busy.pop(connection)
                try:
                    found = worker.connection.recv()
                except EOFError:
                    worker.process.join()
                    yield Lost(worker.item, f"its process ended with {worker.process.exitcode}")
                    worker.end()
                    start(None)
                else:
                    yield found
                    start(worker)
            for worker in [w for w in busy.values() if time.monotonic() - w.since > PATIENCE]:
                del busy[worker.connection]
                worker.end()
                yield Lost(worker.item, f"not done after {PATIENCE:.0f} s")
                start(None)
    finally:
        for worker in busy.values():
            worker.end()
