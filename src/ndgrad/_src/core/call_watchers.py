"""Watching of calls from outside, for the profiler and the trace of allocations.

A watcher is notified of the begin and the end of every call: an op with its recording and levels, a write, a custom
function, a factory, a backward node, a range marked by the user. A watcher changes nothing, unlike an observer
(ndgrad._src.core.op_observers), which is below autograd and sees arrays: backward runs on the same path on the same
arrays as without it.

Watchers belong to the process, because measurements cover all threads. While there is a watcher, calls take the general
path, which checks for watchers; otherwise there is no check.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from ndgrad._src.core.modes import ThreadState, enter_process, leave_process, process, thread

if TYPE_CHECKING:
    from ndgrad._src.core.variable import Variable
    from ndgrad._src.ops.table import Op

# Kinds of watched calls. Their subjects are: the op; the op; the class; None; the node; the node; None; and for KERNEL
# the step of a compiled program.
OP, WRITE, FUNCTION, FACTORY, EVALUATION, NODE, RANGE = (
    "op",
    "write",
    "function",
    "factory",
    "evaluation",
    "node",
    "range",
)
KERNEL = "kernel"


class Watcher(Protocol):
    def begin(self, kind: str, name: str, subject: Any, args: tuple[Any, ...]) -> Any:
        """Begin a call; the result is passed to `end`."""

    def end(self, token: Any, results: Any) -> None:
        """End the call with these results, None if it raised."""


def add_watcher(watcher: Watcher) -> None:
    with process.lock:
        ThreadState.watchers = (*ThreadState.watchers, watcher)
        enter_process()


def remove_watcher(watcher: Watcher) -> None:
    with process.lock:
        ThreadState.watchers = tuple(w for w in ThreadState.watchers if w is not watcher)
        leave_process()


@contextmanager
def watching(watcher: Watcher) -> Iterator[None]:
    """Run a block in which `watcher` sees the calls of all threads."""
    add_watcher(watcher)
    try:
        yield
    finally:
        remove_watcher(watcher)


Begun = list[tuple[Any, Any]]


def begin(kind: str, name: str, subject: Any = None, args: tuple[Any, ...] = ()) -> Begun:
    """Notify all watchers that a call begins."""
    begun: Begun = []
    try:
        for watcher in thread.watchers:
            begun.append((watcher, watcher.begin(kind, name, subject, args)))
    except BaseException:
        end(begun)
        raise
    return begun


def end(begun: Begun, results: Any = None) -> None:
    """Notify the watchers of a begun call that it has ended, the last first. All are notified, even if one fails."""
    while begun:
        watcher, token = begun.pop()
        try:
            watcher.end(token, results)
        except BaseException:
            end(begun, results)
            raise


def call_watched(kind: str, name: str, subject: Any, args: tuple[Any, ...], run: Callable[[], Any]) -> Any:
    """Call a function and notify all watchers of its begin and end."""
    begun = begin(kind, name, subject, args)
    results = None
    try:
        results = run()
    finally:
        end(begun, results)
    return results


# ----- watched calls --------------------------------------------------------------------------------------------------


def watched_op(op: Op, args: tuple[Any, ...], settings: dict[str, Any], dispatch: Callable[..., Any]) -> Any:
    return call_watched(OP, op.name, op, args, lambda: dispatch(op, args, settings, True))


def watched_write(op: Op, target: Variable, args: tuple[Any, ...], write: Callable[[], Any]) -> Any:
    return call_watched(WRITE, op.name + "_", op, (target, *args), write)
