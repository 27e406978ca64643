"""Gradients whose zeros stay zeros in backward: those of overwritten values.

Note [Exact zeros]
A program may compute 0/0 for some elements and overwrite them afterwards: `y = a / b; y[b == 0] = 1`. The overwritten
elements are no part of the result, and the write passes a gradient of exactly zero for them. The rule of the division
multiplies this zero by a derivative that is infinite or NaN, and the product would be NaN. So the engine keeps the
zeros. A gradient that leaves a write (`y[mask] = v`, `y[i] = v`, `masked_fill_`, `copyto(..., where=mask)`) is exact.
A node of an elementwise op that has received nothing but exact gradients returns zeros wherever its gradient is zero,
and these gradients are exact in turn. Every other gradient, from `where` for example, obeys IEEE arithmetic as in torch
and JAX: zero times infinity is NaN.

Exactness is a property of an array: `task.exact` maps a node to the sum that it has received. A further gradient that
is not exact makes another sum, and the entry no longer applies. The gradient of a read (`y[mask] = y[other]`) is zero
outside of the part that was read, so a sum that was exact stays exact.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ndgrad._src.arrays.library import library_of
from ndgrad._src.core.node import FIRST, OVERWRITE, Edge
from ndgrad._src.core.variable import Variable
from ndgrad._src.ops.selection import keep
from ndgrad._src.ops.table import Op
from ndgrad._src.ops.vocabulary import raw_ops, tensor_ops

if TYPE_CHECKING:
    from ndgrad._src.core.node import Node
    from ndgrad._typing import GraphTask, Payload


def leaves_exact_zeros(node: Node) -> bool:
    """True for the node of a write, whose first gradient has exact zeros."""
    return node.consumes or node.route == OVERWRITE


def takes_exact_zeros(e: Any) -> bool:
    """True if an edge leads to an elementwise op without hooks (hooks may change a gradient)."""
    if e is None or e.__class__ is Edge or e.seq is FIRST or e.extra is not None:
        return False
    op = getattr(e, "op", None)
    return op is not None and op.elementwise and e.outputs == 1


def mark_overwrite(op: Op, result: Variable) -> None:
    """Mark the nodes of an op that has just run, at every level, as nodes of a write."""
    while isinstance(result, Variable):
        node: Any = result._node
        if node is not None and getattr(node, "op", None) is op:
            node.route = OVERWRITE
        result = result._array


def is_exact(task: GraphTask, node: Node, g: Payload) -> bool:
    """True if the gradient that a node has received is exact. The entry in `task.exact` is removed."""
    return bool(task.exact) and task.exact.pop(node, None) is g is not None and node.extra is None


def remains_exact(task: GraphTask, node: Node, position: int, exact: bool) -> bool:
    """True if the sum at an input of a node will be exact after the node has sent its gradient there. Call it before.

    `exact`: True if the gradient that the node itself has received is exact.
    """
    if not (exact or (position == 0 and (leaves_exact_zeros(node) or (node.reads and task.exact)))):
        return False
    e = node.next[position]
    if not takes_exact_zeros(e):
        return False
    before = task.grads.get(e)
    return not node.reads if before is None else task.exact.get(e) is before


def step_exactly(
    task: GraphTask,
    node: Node,
    g: Payload,
    waiting: list[Any],
    run_node: Callable[..., tuple[Payload, ...]],
    send: Callable[..., None],
) -> None:
    """Run a node and send its gradients, with the engine's functions `run_node` and `send`."""
    exact = is_exact(task, node, g)
    outs, fresh = run_node(task, node, g)
    if exact:
        outs = keep_zeros(g, outs)
    for position, (e, out) in enumerate(zip(node.next, outs, strict=True)):
        if e is not None:
            stays_exact = out is not None and remains_exact(task, node, position, exact)
            send(task, e, out, waiting, fresh)
            if stays_exact and e in task.grads:
                task.exact[e] = task.grads[e]
        fresh = False


def keep_zeros(g: Payload, outs: tuple[Payload, ...] | None) -> tuple[Payload, ...] | None:
    """Return the input gradients of an elementwise op, set to zero where its result's exact gradient `g` is zero."""
    if g is None or outs is None:
        return outs
    return tuple(out if out is None or out.shape != g.shape else _keep(out, g) for out in outs)


def _keep(out: Payload, g: Payload) -> Payload:
    if isinstance(out, Variable):
        # The result must stay a linear function of `g` for derivatives of higher order, also where `g` happens to be
        # zero. So only products of zero with an infinite slope are replaced.
        kept = tensor_ops.keep(out, (g != 0) | tensor_ops.isfinite(out))
        mark_overwrite(keep, kept)  # for derivatives of higher order
        return kept
    ops = raw_ops(library_of(out))
    return ops.keep(out, ops.ne(g, 0))
