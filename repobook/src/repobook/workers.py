"""Worker processes: one way to run a task over many items, in forked workers where that pays."""

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from typing import Any

# Below this many items starting processes costs more than it saves.
FEW = 48


def fork_available() -> bool:
    return "fork" in multiprocessing.get_all_start_methods()


def run(
    function: Callable[[Any], Any],
    items: Sequence[Any],
    jobs: int,
    start: Callable[..., None],
    arguments: tuple[Any, ...],
    chunk: int = 16,
) -> Iterator[Any]:
    """`function` of every item, in any order. `start(*arguments)` prepares each worker, or this process."""
    if jobs <= 1 or len(items) < FEW:
        start(*arguments)
        yield from map(function, items)
        return
    context = multiprocessing.get_context("fork" if fork_available() else None)
    with context.Pool(jobs, start, arguments) as pool:
        yield from pool.imap_unordered(function, items, chunk)
