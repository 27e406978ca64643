"""Watching of calls from outside, for the profiler and the trace of allocations.

A watcher is notified of the begin and the end of every call: an op with its recording and levels, a write, a custom
function, a factory, a backward node, a range marked by the user. A watcher changes nothing, unlike an observer
(ndgrad._src.core.op_observers), which is below autograd and sees arrays: backward runs on the same path on the same
arrays as without it.

Watchers belong to the process, because measurements cover all threads. While there is a watcher, calls take the general
path, which checks for watchers; otherwise there is no check.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from ndgrad._src.core.modes import ThreadState, enter_process, leave_process, process, thread
from ndgrad._src.core.variable import AccumulateGrad
from ndgrad._src.engine.accumulate import accumulate_array
from ndgrad._src.engine.engine import apply_leaf, apply_rule

if TYPE_CHECKING:
    from ndgrad._src.core.node import Node
    from ndgrad._src.engine.engine import GraphTask
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


def watched_write(op: Op, target: Any, args: tuple[Any, ...], write: Callable[[], Any]) -> Any:
    return call_watched(WRITE, op.name + "_", op, (target, *args), write)


def watch_evaluation(run_node: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the engine's `run_node` for watchers: with its hooks it is the evaluation, its rule alone is the node."""
    run_watched = functools.partial(run_node, apply=_rule)

    def run(task: GraphTask, node: Node, g: Any) -> Any:
        if not isinstance(node, AccumulateGrad):
            return call_watched(EVALUATION, node.name(), node, (), lambda: run_watched(task, node, g))
        at_once = node.extra is not None or node.variable._meta.hooks or node.variable._meta.post_accumulate_hooks
        box, g = [g], None  # only the engine may hold a gradient that is to become a leaf's `.grad`
        if not task.accumulate:
            return call_watched(EVALUATION, node.name(), node, (), lambda: run_node(task, node, box.pop()))
        if not at_once:
            return run_node(task, node, box.pop())  # leaves the accumulation to the end of the pass
        inner = functools.partial(call_watched, NODE, node.name(), node, (), lambda: run_node(task, node, box.pop()))
        return call_watched(EVALUATION, node.name(), node, (), inner)

    return run


def _rule(task: GraphTask, node: Node, g: Any, keep: bool) -> Any:
    received = tuple(g) if isinstance(g, list) else (g,)
    return call_watched(NODE, node.name(), node, received, lambda: apply_rule(task, node, g, keep))


def accumulate_leaves(task: GraphTask) -> None:
    """Accumulate the gradients of leaves without hooks at the end of a pass, with watchers."""
    while task.leaves:
        node, g = task.leaves.pop()
        around = begin(EVALUATION, node.name(), node)
        begun: Begun = []
        try:
            begun = begin(NODE, node.name(), node)
            if task.path == "arrays":
                accumulate_array(node, g)
            else:
                apply_leaf(task, node, g)
        finally:
            end(begun)
            end(around)


