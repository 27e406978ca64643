"""Seeing calls from outside: what the profiler and the trace of allocations are made of.

A watcher is told when a call begins and when it has ended, whatever it was: an op with all that belongs to it (its
recording, the levels it went through), a write, a custom function, a factory, a backward node, a range that the user
marked. It changes nothing, unlike an observer (ndgrad._src.core.op_observers), which stands below autograd and sees
arrays: backward runs in the same lane on the same arrays as without it.

Watchers are the process's: whoever measures wants to see all threads. While there is one, calls take the general lane,
which asks for watchers; while there is none, nobody asks.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from ndgrad._src.core.modes import ThreadState, enter_process, leave_process, process, thread
from ndgrad._src.core.variable import AccumulateGrad
from ndgrad._src.engine.accumulate import accumulate_array
from ndgrad._src.engine.engine import apply_lane, apply_leaf

#: What can be watched. The subject of each: the op; the op; the class; None; the node; the node; None; the
#: step of a compiled program.
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
        """A call begins; what is returned comes back in `end`."""

    def end(self, token: Any, results: Any) -> None:
        """The call has ended with these results, None if it raised."""


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
    """Let `watcher` see the calls of all threads for the duration of a block."""
    add_watcher(watcher)
    try:
        yield
    finally:
        remove_watcher(watcher)


Begun = list[tuple[Any, Any]]


def begin(kind: str, name: str, subject: Any = None, args: tuple[Any, ...] = ()) -> Begun:
    """Tell all watchers that a call begins."""
    begun: Begun = []
    try:
        for watcher in thread.watchers:
            begun.append((watcher, watcher.begin(kind, name, subject, args)))
    except BaseException:
        end(begun)
        raise
    return begun


def end(begun: Begun, results: Any = None) -> None:
    """Tell those who were told of its beginning that a call has ended, the last first; each is told,
    even if another fails."""
    while begun:
        watcher, token = begun.pop()
        try:
            watcher.end(token, results)
        except BaseException:
            end(begun, results)
            raise


def watched(kind: str, name: str, subject: Any, args: tuple[Any, ...], run: Callable[[], Any]) -> Any:
    """Run something under the eyes of all watchers."""
    begun = begin(kind, name, subject, args)
    results = None
    try:
        results = run()
    finally:
        end(begun, results)
    return results


# ----- where calls come by --------------------------------------------------------------------------------------------


def watched_op(op: Any, args: tuple[Any, ...], settings: dict[str, Any], dispatch: Callable[..., Any]) -> Any:
    return watched(OP, op.name, op, args, lambda: dispatch(op, args, settings, True))


def watched_write(op: Any, target: Any, args: tuple[Any, ...], write: Callable[[], Any]) -> Any:
    return watched(WRITE, op.name + "_", op, (target, *args), write)


def evaluation(run_node: Callable[..., Any]) -> Callable[..., Any]:
    """The engine's `run_node` under the eyes of watchers: with its hooks the evaluation, its rule alone the node."""
    run_watched = functools.partial(run_node, apply=_rule)

    def run(task: Any, node: Any, g: Any) -> Any:
        if not isinstance(node, AccumulateGrad):
            return watched(EVALUATION, node.name(), node, (), lambda: run_watched(task, node, g))
        at_once = node.extra is not None or node.variable._meta.hooks or node.variable._meta.post_accumulate_hooks
        box, g = [g], None  # nobody but the engine may hold a gradient that is to become a leaf's `.grad`
        if not task.accumulate:
            return watched(EVALUATION, node.name(), node, (), lambda: run_node(task, node, box.pop()))
        if not at_once:
            return run_node(task, node, box.pop())  # which leaves the rest to the end of the pass
        inner = functools.partial(watched, NODE, node.name(), node, (), lambda: run_node(task, node, box.pop()))
        return watched(EVALUATION, node.name(), node, (), inner)

    return run


def _rule(task: Any, node: Any, g: Any, keep: bool) -> Any:
    received = tuple(g) if isinstance(g, list) else (g,)
    return watched(NODE, node.name(), node, received, lambda: apply_lane(task, node, g, keep))


def accumulate_leaves(task: Any) -> None:
    """The end of a pass: the gradients of leaves that nobody waited for."""
    while task.leaves:
        node, g = task.leaves.pop()
        around = begin(EVALUATION, node.name(), node)
        begun: Begun = []
        try:
            begun = begin(NODE, node.name(), node)
            if task.lane == "arrays":
                accumulate_array(node, g)
            else:
                apply_leaf(task, node, g)
        finally:
            end(begun)
            end(around)


