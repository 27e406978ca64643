"""Worker processes: one way to run a task over many items, in forked workers where that pays."""

import gc
import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from typing import Any

# Below this many items starting processes costs more than it saves.
FEW = 48


def fork_available() -> bool:
    return "fork" in multiprocessing.get_all_start_methods()


def _begin(start: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    # Nodes, rows and pages form no cycles, but there are millions of them, and a worker shares the memory of the
    # process that it was forked from: collections would only walk over them, and copy what they touch.
    gc.disable()
    start(*arguments)


def run(
    function: Callable[[Any], Any],
    items: Sequence[Any],
    jobs: int,
    start: Callable[..., None],
    arguments: tuple[Any, ...],
    chunk: int = 16,
    meanwhile: Callable[[], object] | None = None,
) -> Iterator[Any]:
    """`function` of every item, in any order. `start(*arguments)` prepares each worker, or this process.

    `meanwhile` is done by this process while the workers begin; what they find by then waits.
    """
    if jobs <= 1 or len(items) < FEW:
        if meanwhile is not None:
            meanwhile()
        start(*arguments)
        yield from map(function, items)
        return
    context = multiprocessing.get_context("fork" if fork_available() else None)
    with context.Pool(jobs, _begin, (start, arguments)) as pool:
        found = pool.imap_unordered(function, items, chunk)
        if meanwhile is not None:
            meanwhile()
        yield from found
