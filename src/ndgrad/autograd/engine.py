"""The backward engine: a graph task, a ready queue, and the order of events.

Nodes run youngest first (largest sequence number) among those that have received all their gradients, and accumulators
of leaves as soon as they are complete. This is torch's order, and hooks depend on it. Nothing recurses: a chain of a
million nodes needs a list, not a stack.

Note [Two ways to the same order]
Consumers are younger than producers, so of all nodes that have received something, the youngest has received everything:
`run_by_age` needs no counting. What it cannot know is when a leaf is complete before the pass ends, so it accumulates all
leaves at the end; that shows only to hooks on leaves. `run_by_count` first counts, over the whole graph, how many gradients
each node will get, as torch does. It runs whenever a leaf has hooks, when only some inputs are wanted (it must know which
paths lead there), or when someone changed sequence numbers.

Three lanes run the rules:
    arrays     an ordinary backward: rules on raw arrays, no wrappers, no graph
    payloads   the backward of a function transform: rules on the tensors of the levels below
    tensors    create_graph, or gradients that are themselves batched, dual or watched: rules on tensors

Note [Owned gradients]
A gradient that the engine made itself and nobody else can see is owned (its node is in `task.owned`), and may be changed
in place: further gradients are added into it, a view's gradient is added to just its part of it (`Node.part`), and a
CopySlices, which `consumes` its gradient, changes just its part. So a loop that writes and reads a buffer of n elements
n times costs O(n), not O(n^2).
"""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np

from ndgrad.arrays.library import library_of
from ndgrad.autograd.hooks import run_node_prehooks, run_post_accumulate_hooks, run_post_hooks, run_pre_hooks
from ndgrad.autograd.modes import enter, leave, process, thread
from ndgrad.autograd.node import Edge, Extra, MultiNode, Node, edge_node, edge_number, extra_of
from ndgrad.autograd.roots import choose_lane, gradient_edge
from ndgrad.autograd.variable import ESCAPED, AccumulateGrad, Variable, np_dtype, wrap
from ndgrad.ops.vocabulary import raw_ops, tensor_ops

#: Below this many elements adding in place is slower than making a new array.
_SMALL = 4096


class GraphTask:
    """One backward pass: its settings, its buffers, and where it is."""

    __slots__ = (
        "accumulate", "callbacks", "captures", "create_graph", "grads", "keep", "lane", "leaves", "needed", "node", "ops", "owned", "roots",
        "wanted",
    )  # fmt: skip

    def __init__(self, lane: str, keep: bool, create_graph: bool = False) -> None:
        self.lane = lane
        self.keep = keep
        self.create_graph = create_graph
        #: node -> the sum of the gradients it has received so far (a list of sums for an op of several outputs)
        self.grads: dict[Node, Any] = {}
        self.owned: set[Node] = set()
        self.roots: list[Node] = []
        #: leaves without hooks, with their gradients, to be accumulated at the end
        self.leaves: list[tuple[Any, Any]] = []
        self.callbacks: list[Any] = []
        #: edges whose gradients the caller wants, and what has been found: (node, number) -> gradient
        self.wanted: set[Node] | None = None
        self.captures: dict[tuple[Node, int], Any] = {}
        #: nodes that lie on a path to a wanted one; None when all do
        self.needed: set[Node] | None = None
        #: whether leaves get their `.grad`
        self.accumulate = True
        self.node: Node | None = None
        self.ops: Any = None


def count_gradients(roots: list[Node]) -> dict[Node, int]:
    """How many gradients each node reachable from the roots will receive."""
    counts: dict[Node, int] = dict.fromkeys(roots, 0)
    stack = list(counts)
    while stack:
        for e in stack.pop().next:
            if e is None:
                continue
            if e.__class__ is Edge:
                e = e.node
            count = counts.get(e)
            if count is None:
                counts[e] = 1
                stack.append(e)
            else:
                counts[e] = count + 1
    return counts


def nodes_towards(roots: list[Node], wanted: set[Node]) -> set[Node]:
    """The nodes from which some wanted node can be reached, the wanted ones included."""
    consumers: dict[Node, list[Node]] = {}
    seen = set(roots)
    stack = list(roots)
    while stack:
        node = stack.pop()
        for e in node.next:
            if e is None:
                continue
            target = e.node if e.__class__ is Edge else e
            consumers.setdefault(target, []).append(node)
            if target not in seen:
                seen.add(target)
                stack.append(target)
    needed = {node for node in wanted if node in seen}
    stack = list(needed)
    while stack:
        for consumer in consumers.get(stack.pop(), ()):
            if consumer not in needed:
                needed.add(consumer)
                stack.append(consumer)
    return needed


def current_task() -> Any:
    """The pass that this thread is running, for hooks and callbacks; None outside backward."""
    return thread.task


def gradients_expected(task: Any, tensors: Any) -> int:
    """How many of `tensors` will receive a gradient in a pass."""
    reachable = set(count_gradients(task.roots))
    if task.needed is not None:
        reachable &= task.needed
    return sum(1 for t in tensors if edge_node(gradient_edge(t)) in reachable)


def run(task: GraphTask, roots: list[tuple[Any, Any]]) -> None:
    """Run a task from (edge, gradient) roots; gradients are raw arrays in lane "arrays", tensors in the others."""
    task.roots = [edge_node(e) for e, _ in roots]
    outside, thread.task = thread.task, task
    try:
        _run(task, roots)
    finally:
        thread.task = outside


def _run(task: GraphTask, roots: list[tuple[Any, Any]]) -> None:
    if task.lane == "arrays":
        task.ops = raw_ops(library_of(roots[0][1]))
    if task.lane == "arrays" and task.wanted is None and not process.leaf_hooks:
        run_by_age(task, roots)
    else:
        run_by_count(task, roots)


def run_by_age(task: GraphTask, roots: list[tuple[Any, Any]]) -> None:
    """The short way: the youngest node that has a gradient is always complete.

    This loop is the hot path of backward. Along a chain, the one node that a node sends to is the next to run, so its gradient
    stays in a local variable (`ng`, for node `nxt`) and never sees the dictionary. Nodes of elementwise ops of one argument
    (`extra is True`) have the gradient's shape on both sides and one edge, so their step is shorter still.
    """
    grads, owned, keep, ops = task.grads, task.owned, task.keep, task.ops
    push, pop = heapq.heappush, heapq.heappop
    waiting: list[tuple[float, int, Any]] = []
    leaves: dict[Any, Any] = {}
    for e, g in roots:
        if send(task, e, g):
            push(waiting, (-edge_node(e).seq, id(edge_node(e)), edge_node(e)))
    while waiting:
        node = pop(waiting)[2]
        g = grads.pop(node)
        while node is not None:
            extra = node.extra
            if extra is True:
                out = node.apply_one(g, ops, keep)
                e = node.next[0]
                cls = e.__class__
                if (
                    cls is not Edge
                    and cls is not AccumulateGrad
                    and out.dtype is e.dtype
                    and not (grads and e in grads)
                    and not (waiting and -waiting[0][0] > e.seq)
                ):
                    node, g = e, out
                    continue
                outs: Any = (out,)
            elif extra is None:
                outs = node.apply(g, ops, keep)
            nxt: Any = None
            ng: Any = None
            if extra is not None and extra is not True:
                if node.__class__ is AccumulateGrad:  # backward was called on a leaf
                    leaves[node] = g
                    break
                outs, fresh = run_node(task, node, g)
                for e, out in zip(node.next, outs, strict=True):
                    if e is not None and out is not None:
                        target = edge_node(e)
                        if target.__class__ is AccumulateGrad:
                            out = validate(out, target, 0)
                            leaves[target] = leaves[target] + out if target in leaves else out
                        elif send(task, e, out, fresh):
                            push(waiting, (-target.seq, id(target), target))
                    fresh = False
                break
            for e, out in zip(node.next, outs):
                if e is None or out is None:
                    continue
                cls = e.__class__
                if cls is Edge:
                    target, number = e
                    parts = grads.get(target)
                    if parts is None or target.outputs == 1:
                        if send(task, e, out):
                            push(waiting, (-target.seq, id(target), target))
                        continue
                    if (out.shape, out.dtype) != target.metadata_of_outputs[number]:
                        out = validate(out, target, number)
                    before = parts[number]
                    parts[number] = out if before is None else before + out
                    continue
                if out.shape != e.shape or out.dtype is not e.dtype:
                    out = validate(out, e, 0)
                if e is nxt:
                    ng = ng + out
                elif cls is AccumulateGrad:
                    before = leaves.get(e)
                    if before is None:
                        leaves[e] = out
                    elif out.size < _SMALL:
                        leaves[e] = before + out
                    elif e in owned:
                        before += out
                    else:
                        leaves[e] = before + out
                        owned.add(e)
                elif grads and e in grads:
                    add(task, e, out)
                elif nxt is None:
                    nxt, ng = e, out
                elif e.seq > nxt.seq:
                    grads[nxt] = ng
                    push(waiting, (-nxt.seq, id(nxt), nxt))
                    nxt, ng = e, out
                else:
                    grads[e] = out
                    push(waiting, (-e.seq, id(e), e))
            if nxt is not None and waiting and -waiting[0][0] > nxt.seq:
                grads[nxt] = ng
                nxt = heapq.heapreplace(waiting, (-nxt.seq, id(nxt), nxt))[2]
                ng = grads.pop(nxt)
            node, g = nxt, ng
    g = ng = out = outs = before = None  # a gradient that only `leaves` holds can become a leaf's `.grad` as it is
    if task.accumulate:
        while leaves:
            node, g = leaves.popitem()
            node.apply(g, ops)


def run_by_count(task: GraphTask, roots: list[tuple[Any, Any]]) -> None:
    """The general way: run what has received all the gradients it will get."""
    root_nodes = list(dict.fromkeys(edge_node(e) for e, _ in roots))
    counts = count_gradients(root_nodes)
    if task.wanted is not None:
        task.needed = nodes_towards(root_nodes, task.wanted)
    for e, g in roots:
        send(task, e, g)
    ready = [(-node.seq, id(node), node) for node in root_nodes if not counts[node]]
    heapq.heapify(ready)
    needed = task.needed
    while ready:
        node = heapq.heappop(ready)[2]
        g = task.grads.pop(node, None)
        outs, fresh = (None, False) if g is None else run_node(task, node, g)
        for position, e in enumerate(node.next):
            if e is None or (needed is not None and edge_node(e) not in needed):
                continue
            if outs is not None and outs[position] is not None:
                send(task, e, outs[position], fresh and position == 0)
            target = edge_node(e)
            counts[target] -= 1
            if counts[target] == 0:
                heapq.heappush(ready, (-target.seq, id(target), target))
    while task.leaves:
        node, g = task.leaves.pop()
        apply_lane(task, node, g)


def run_node(task: GraphTask, node: Any, g: Any) -> tuple[Any, bool]:
    """Run one node in any lane, with hooks, captures, several outputs and owned gradients.

    Returns the gradients of its inputs (None when it did not run) and whether the first of them is owned.
    """
    task.node = node
    extra = node.extra if isinstance(node.extra, Extra) else None
    if extra is not None:
        g = run_pre_hooks(task, node, g)
    leaf = isinstance(node, AccumulateGrad)
    if leaf and extra is None and node.variable._meta.hooks:
        # the accumulator was made after the hook was registered
        extra_of(node)
        extra = node.extra
        g = run_pre_hooks(task, node, g)
    if task.wanted is not None:
        if node in task.wanted:
            capture(task, node, g)
        elif leaf:
            return None, False
        assert task.needed is not None
        if not leaf and not any(e is not None and edge_node(e) in task.needed for e in node.next):
            return None, False
    if leaf:
        if task.accumulate and node.level:
            raise RuntimeError(ESCAPED)
        if task.accumulate and extra is None and not node.variable._meta.post_accumulate_hooks:
            task.leaves.append((node, g))  # accumulated when the pass has succeeded: nobody is told the moment it is complete
            return None, False
        if not task.accumulate:
            return None, False
    arrays = task.lane == "arrays"
    shown = extra is not None or task.wanted is not None  # someone else may hold the gradient
    if node.outputs != 1 and node.materialize_grads:
        g = materialize(task, node, g)
    if extra is not None and extra.pre_hooks:
        g = run_node_prehooks(task, node, g)
    if arrays and node.part is not None:
        target = edge_node(node.next[0])
        # a 0-d gradient may be one of NumPy's scalars, whose parts are copies
        if target in task.owned and target in task.grads and task.grads[target].ndim:
            part = node.part(task.grads[target], task.ops)
            part += g
            return (None,), False
    if arrays and node.consumes and (shown or node not in task.owned):
        g = g.copy()
    outs = apply_lane(task, node, g)
    if leaf and node.variable._meta.post_accumulate_hooks:
        run_post_accumulate_hooks(task, node)
    if extra is not None and extra.post_hooks:
        outs = run_post_hooks(task, node, outs, g)
        return outs, False
    if len(outs) != len(node.next):
        raise RuntimeError(f"{node.name()} returned {len(outs)} gradients for {len(node.next)} inputs")
    return outs, arrays and (node.consumes or node.part is not None)


def apply_lane(task: GraphTask, node: Any, g: Any) -> Any:
    if task.lane == "arrays":
        return node.apply(g, task.ops, task.keep)
    outs = node.apply_payloads(g) if task.lane == "payloads" else node.apply_tensors(g)
    if not task.keep:
        node.release()
    return outs


def send(task: GraphTask, e: Any, g: Any, fresh: bool = False) -> bool:
    """Check a gradient against what the edge expects and add it to the sum there; whether it is the first to arrive."""
    grads = task.grads
    if e.__class__ is Edge:
        node: Any = e.node
        number = e.input_nr
        shape, dtype = node.output_metadata(number)
    else:
        node, number, shape, dtype = e, 0, e.shape, e.dtype
    if g.dtype is not dtype or tuple(g.shape) != shape:
        g = validate(g, node, number)
    first = node not in grads
    if node.outputs != 1:
        if first:
            grads[node] = [None] * len(node.metadata_of_outputs)
        before = grads[node][number]
        grads[node][number] = g if before is None else before + g
    elif first:
        grads[node] = g
        if fresh:
            task.owned.add(node)
    else:
        add(task, node, g)
    return first


def add(task: GraphTask, node: Node, g: Any) -> None:
    """Add one more gradient to what a node has received, in place if the sum is owned and large enough to gain by it."""
    before = task.grads[node]
    if node in task.owned and before.size >= _SMALL:
        before += g
    else:
        task.grads[node] = before + g
        if task.lane == "arrays":
            task.owned.add(node)


def capture(task: GraphTask, node: Any, g: Any) -> None:
    if isinstance(node, MultiNode):
        for number, part in enumerate(g):
            if part is not None:
                task.captures[node, number] = part
    else:
        task.captures[node, 0] = g


def materialize(task: GraphTask, node: Any, grads: list[Any]) -> Any:
    """Zeros for the outputs of a multi-output op that received no gradient."""
    library = np if task.ops is None else task.ops.np
    if task.lane == "arrays":
        return node.with_zeros(grads, library.zeros)
    return node.with_zeros(grads, lambda *known: _like_lane(task, library.zeros(*known)))


def _like_lane(task: GraphTask, array: Any) -> Any:
    from ndgrad.tensor import Tensor

    return wrap(Tensor, array)


# ----- what a gradient must look like ---------------------------------------------------------------------------------


def validate(g: Any, node: Any, number: int) -> Any:
    """Bring a gradient to the shape and dtype of the value it belongs to, or say why that cannot be."""
    shape, dtype = node.output_metadata(number)
    if tuple(g.shape) != shape:
        if not _can_sum_to(tuple(g.shape), shape):
            raise RuntimeError(
                f"{node.name()} got a gradient of shape {tuple(g.shape)} for a value of shape {shape}. A rule or a hook returned "
                "the wrong shape: return one that equals the value's, or that broadcasting made of it."
            )
        g = sum_to(g, shape)
    if dtype is None:  # a leaf whose grad_dtype is None
        return g
    if isinstance(g, Variable):
        have = np_dtype(g)
        if have != dtype:
            if have.kind == "c" and dtype.kind != "c":
                g = tensor_ops.real(g)
            g = tensor_ops.cast(g, dtype=dtype) if np_dtype(g) != dtype else g
    elif g.dtype != dtype:
        if g.dtype.kind == "c" and dtype.kind != "c":
            g = g.real
        g = g.astype(dtype)
    return g


def _can_sum_to(have: tuple[int, ...], want: tuple[int, ...]) -> bool:
    lead = len(have) - len(want)
    return lead >= 0 and all(w in (1, h) for h, w in zip(have[lead:], want, strict=True))


def sum_to(g: Any, shape: tuple[int, ...]) -> Any:
    """Undo broadcasting: sum over the dimensions that it made."""
    lead = len(g.shape) - len(shape)
    axes = tuple(range(lead)) + tuple(
        lead + i for i, (h, w) in enumerate(zip(g.shape[lead:], shape, strict=True)) if w == 1 and h != 1
    )
    if isinstance(g, Variable):
        g = tensor_ops.sum(g, dim=axes, keepdim=True) if axes else g
        return tensor_ops.reshape(g, shape=shape)
    if len(axes) == lead and lead:
        return g.sum(axis=axes)
    return g.sum(axis=axes, keepdims=True).reshape(shape) if axes else g.reshape(shape)


# ----- entry points -----------------------------------------------------------------------------------------------------


def backward_from(
    tensors: list[Any],
    grads: list[Any],
    *,
    retain_graph: bool,
    create_graph: bool,
    inputs: list[Any] | None = None,
    accumulate: bool = True,
    lane: str | None = None,
) -> list[Any] | None:
    """Run backward from tensors with gradients (tensors, already checked); with `inputs`, return their gradients."""
    if lane is None:
        lane = choose_lane(tensors, grads, create_graph)
    task = GraphTask(lane, retain_graph, create_graph)
    arrays = lane == "arrays"
    roots = [(gradient_edge(t), g._array if arrays else g) for t, g in zip(tensors, grads, strict=True)]
    edges = None
    if inputs is not None:
        edges = [gradient_edge(t, allow_missing=True) for t in inputs]
        task.wanted = {edge_node(e) for e in edges if e is not None}
        task.accumulate = accumulate
    if arrays:
        with np.errstate(all="ignore"):
            run(task, roots)
    else:
        was = thread.grad_enabled
        thread.grad_enabled = create_graph if lane == "tensors" else was
        enter()
        try:
            with np.errstate(all="ignore"):
                run(task, roots)
        finally:
            leave()
            thread.grad_enabled = was
    for callback in task.callbacks:
        callback()
    if edges is None:
        return None
    return [None if e is None else task.captures.get((edge_node(e), edge_number(e))) for e in edges]
