"""A backward pass for inspection: the gradients that every node on the path from y to x passes on.

It runs no hooks, releases nothing and does not touch `.grad`. So it does not use the engine, whose
purpose is to do these things.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.arrays.library import library_of
from ndgrad._src.core.node import edge_node, edge_number
from ndgrad._src.core.stored_tensors import FREED
from ndgrad._src.core.variable import np_dtype
from ndgrad._src.core.view import CopySlices
from ndgrad._src.debug.anomaly import saved_values
from ndgrad._src.debug.nonfinite import raw_values
from ndgrad._src.engine.engine import GraphTask, materialize, send
from ndgrad._src.ops.table import KINDS
from ndgrad._src.ops.vocabulary import raw_ops

if TYPE_CHECKING:
    from ndgrad._src.core.node import Node
    from ndgrad._typing import Payload


class Unreadable(Exception):
    """A node on the path cannot run."""

    def __init__(self, node: Node, freed: bool, error: Exception) -> None:
        super().__init__(str(error).split("\n")[0])
        self.node = node
        self.freed = freed


class Flow:
    """The gradients that each node received and passed on."""

    def __init__(self, target: object) -> None:
        self.target = target
        self.gradient: Any = None
        #: (node, received, passed on to nodes on the path), in the order of execution
        self.steps: list[tuple[Any, Any, list[Any]]] = []
        #: A node that passed on nothing.
        self.silent: Any = None

    def op_name(self, node: Node) -> str:
        op = getattr(node, "op", None) or getattr(getattr(node, "inner", None), "op", None)
        return str(op.name) if op is not None else node.name().removesuffix("Backward")

    def why_zero(self) -> tuple[Any, str]:
        """Return the node at which the gradient becomes zero, and the reason."""
        for node, received, passed in self.steps:
            if _nonzero(received) and passed and not any(_nonzero(p) for p in passed):
                name = self.op_name(node)
                return node, f"{name} ({node.name()}) passes on zeros alone: {_reason(node, name)}"
        return None, "contributions that reach x on several ways cancel each other"


def _nonzero(g: Payload) -> bool:
    parts = g if isinstance(g, list) else [g]
    return any(p is not None and bool(np.any(raw_values(p))) for p in parts)


def flow(y: Any, start: Any, target: Any, needed: set[Any]) -> Flow:
    """Send ones from y through the nodes on the path to x."""
    task = GraphTask("arrays", True)
    array = y._array
    task.ops = raw_ops(library_of(array))
    seen = Flow(target)
    end = edge_node(target)
    with np.errstate(all="ignore"):
        send(task, start, task.ops.np.ones(tuple(y.shape), np_dtype(y)))
        waiting = [(-edge_node(start).seq, id(edge_node(start)), edge_node(start))]
        while waiting:
            node = heapq.heappop(waiting)[2]
            received = task.grads.pop(node, None)
            if node is end:
                found = received[edge_number(target)] if isinstance(received, list) else received
                seen.gradient = raw_values(found)
                continue
            if received is None:
                continue
            outs = _run(task, node, received)
            passed = []
            for e, out in zip(node.next, outs, strict=True):
                if e is None or edge_node(e) not in needed:
                    continue
                passed.append(out)
                if out is not None and send(task, e, out):
                    heapq.heappush(waiting, (-_age(edge_node(e)), id(edge_node(e)), edge_node(e)))
            if all(p is None for p in passed):
                seen.silent = node
            seen.steps.append((node, received, passed))
    return seen


def _age(node: Node) -> float:
    return -1.0 if not node.next else float(node.seq)  # Accumulators run last, when everything has arrived.


def _run(task: GraphTask, node: Node, received: Any) -> Any:
    try:
        if node.outputs != 1 and node.materialize_grads:
            received = materialize(task, node, received)
        return node.apply(received, task.ops, True)
    except Exception as error:
        raise Unreadable(node, _is_freed(node), error) from error


def _is_freed(node: Node) -> bool:
    if isinstance(node, CopySlices):
        return node.inner is None or _is_freed(node.inner)
    plan = getattr(node, "plan", None)
    held = (
        [getattr(node, n, None) for n in (plan.arrays + plan.outs)]
        if plan is not None
        else [node.__dict__.get("_saved")]
    )
    return any(value is FREED for value in held)


def _reason(node: Node, name: str) -> str:
    """Return the reason why an op's derivative is zero at these values."""
    saved = dict(saved_values(node))
    if isinstance(node, CopySlices):
        return "the part that y depends on was overwritten in place"
    if not hasattr(node, "op"):
        return "the backward of this custom Function returned zeros"
    if node.op.kind is not None:
        return KINDS[node.op.kind]
    if name in ("pow", "square"):
        return "the exponent is zero, or the base is zero" if name == "pow" else "its argument is zero"
    if any(v is not None and v.size and not np.any(v) for v in saved.values()):
        return "its derivative is zero where its argument is zero"
    return "its derivative is zero at these values"
