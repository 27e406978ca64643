"""Backward nodes with watchers (ndgrad._src.core.call_watchers): each evaluation, and each rule alone."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ndgrad._src.core.call_watchers import EVALUATION, NODE, Begun, begin, call_watched, end
from ndgrad._src.core.variable import AccumulateGrad
from ndgrad._src.engine.accumulate import accumulate_array
from ndgrad._src.engine.engine import apply_leaf, apply_rule

if TYPE_CHECKING:
    from ndgrad._src.core.node import Node
    from ndgrad._src.engine.engine import GraphTask
    from ndgrad._typing import Payload


def watch_evaluation(run_node: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the engine's `run_node` for watchers: with its hooks it is the evaluation, its rule alone is the node."""
    run_watched = functools.partial(run_node, apply=_rule)

    def run(task: GraphTask, node: Node, g: Payload) -> Any:
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


def _rule(task: GraphTask, node: Node, g: Payload, keep: bool) -> Any:
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
