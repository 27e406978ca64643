"""The backward engine: a graph task, a ready queue, and the order of events.

Among the nodes that have received all their gradients, the youngest (largest sequence number) runs first. Accumulators
of leaves run as soon as they are complete. This is torch's order, and hooks depend on it. Nothing recurses: a chain of
a million nodes needs a list, not a stack.

Note [Two ways to the same order]
Consumers are younger than producers. So among all nodes that have received a gradient, the youngest has received all
of its gradients, and `run_by_age` needs no counting. It cannot know that a leaf is complete before the pass ends, so it
accumulates all leaves at the end; only hooks on leaves can observe this. `run_by_count` first counts, over the whole
graph, the gradients that each node will receive, as torch does. It runs if a leaf has hooks, if the gradient of a
non-leaf is requested, if sequence numbers were changed, or if the graph may span several devices. If only some inputs
are requested, both first find the nodes that lead to them, and run no others.

Three paths run the rules:
    arrays     an ordinary backward: rules on raw arrays, no wrappers, no graph
    payloads   the backward of a function transform: rules on the tensors of the levels below
    tensors    create_graph, or gradients that are themselves batched, dual or watched: rules on tensors

Note [Undefined gradients]
A custom backward may return None, and an output of a multi-output op may receive no gradient. An undefined gradient is
not a zero: no rule runs for it, no tensor hook sees it, and a leaf that receives nothing else keeps its `.grad`. It is
still propagated through the graph, because another custom function may follow, whose backward gets zeros (or None,
after set_materialize_grads(False)), or a node with its own hooks.

Note [Owned gradients]
A gradient is owned if the engine made it and nothing else refers to it (its node is in `task.owned`). An owned gradient
may be changed in place: further gradients are added into it, and the gradient of a part that was read is added to that
part only. A node that `consumes` its gradient changes only the part that was written (see core/part_gradients). So a
loop that writes and reads a buffer of n elements n times costs O(n), not O(n^2).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from heapq import heapify, heappop, heappush, heapreplace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ndgrad._src.arrays.device_kernels import add_into
from ndgrad._src.arrays.library import is_on_device, library_of
from ndgrad._src.arrays.precision import is_half
from ndgrad._src.arrays.streams import streams
from ndgrad._src.core.dispatch import open_elsewhere
from ndgrad._src.core.exact_zeros import is_exact, keep_zeros, remains_exact, step_exactly
from ndgrad._src.core.gradient_shapes import validate
from ndgrad._src.core.hooks import call, run_node_prehooks, run_post_accumulate_hooks, run_post_hooks, run_pre_hooks
from ndgrad._src.core.modes import process, restore, running, scope, set_running, thread
from ndgrad._src.core.node import (
    FIRST,
    GENERAL,
    RULE,
    UNARY,
    Edge,
    Node,
    edge_node,
    edge_number,
    extra_of,
    output_count,
)
from ndgrad._src.core.open_levels import join_levels
from ndgrad._src.core.part_gradients import SMALL, add_to_part, may_write, sum_of
from ndgrad._src.core.references import calibrate
from ndgrad._src.core.traversal import count_gradients, nodes_towards, oldest_of
from ndgrad._src.core.variable import ESCAPED, AccumulateGrad, Variable, accumulator, innermost_array, meta_of, wrap
from ndgrad._src.engine.accumulate import (
    accumulate_array,
    convert_types,
    counts,
    former_accumulators,
    lay_out_as_inputs,
    to_present_shape,
)
from ndgrad._src.engine.roots import choose_path, gradient_edge, gradient_edges
from ndgrad._src.engine.streams import Crossing
from ndgrad._src.engine.threads import needs_fresh_stack, run_on_fresh_stack
from ndgrad._src.foundations import registry
from ndgrad._src.ops.vocabulary import owning_raw_ops, raw_ops, tensor_ops

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload

_task_numbers = itertools.count().__next__
_numpy_ops = raw_ops(np)


class GraphTask:
    """One backward pass: its settings, its buffers, and its position."""

    __slots__ = (
        "__weakref__", "accumulate", "callbacks", "captures", "create_graph", "exact", "grads", "keep", "leaf_grads",
        "leaves", "needed", "node", "notes", "number", "ops", "owned", "owns", "passed", "path", "roots", "wanted",
    )  # fmt: skip

    def __init__(self, path: str, keep: bool, create_graph: bool = False) -> None:
        self.path = path
        self.keep = keep
        self.create_graph = create_graph
        #: node -> sum of the gradients received so far (a list of sums for an op with several outputs)
        self.grads: dict[Node, Any] = {}
        #: node -> its sum, if the zeros in the sum are exact (see ndgrad._src.core.exact_zeros)
        self.exact: dict[Node, Any] = {}
        #: edges with owned sums
        self.owned: set[Node | Edge] = set()
        #: True if the gradient of the running node is owned
        self.owns = False
        #: nodes that have propagated an undefined gradient (see `send_undefined`)
        self.passed: set[Node] = set()
        #: gradient sums of leaves, used by `run_by_age`
        self.leaf_grads: dict[Node, Any] = {}
        self.roots: list[Node] = []
        #: leaves without hooks, with their gradients, to accumulate at the end
        self.leaves: list[tuple[Any, Any]] = []
        self.callbacks: list[Any] = []
        #: nodes whose gradients the caller requests
        self.wanted: set[Node] | None = None
        #: gradients found so far: (node, number) -> gradient
        self.captures: dict[tuple[Node, int], Any] = {}
        #: nodes on a path to a requested node; None means all nodes
        self.needed: set[Node] | None = None
        #: True if leaves get their `.grad`
        self.accumulate = True
        #: node whose hooks or user code are running, as far as user code can ask
        self.node: Node | None = None
        self.ops: Any = None
        #: larger for younger passes
        self.number = _task_numbers()
        #: values that hooks keep during the pass, by hook
        self.notes: dict[Any, Any] = {}

    def received(self, e: Any) -> Any:
        """Return the sum of the gradients that have arrived on an edge, None if there are none."""
        if e.__class__ is Edge:
            parts = self.grads.get(e.node)
            return None if parts is None else parts[e.input_nr]
        g = self.grads.get(e)
        return self.leaf_grads.get(e) if g is None else g


def run(task: GraphTask, roots: list[tuple[Any, Any]]) -> None:
    """Run a task from (edge, gradient) roots. Gradients are raw arrays on the path "arrays", tensors on the others.

    Callbacks run after all gradients are accumulated, and may queue further callbacks. A pass that fails runs none.
    """
    for e, _ in roots:
        task.roots.append(e.node if e.__class__ is Edge else e)
    around, outside = running(), scope()
    try:
        set_running(task)
        # The path on raw arrays needs no modes: its rules cannot be recorded.
        if task.path == "tensors":
            restore(outside.recording(task.create_graph))
        elif task.path == "payloads":
            restore(outside.with_changes(entered=outside.modes.entered + 1, transforms=outside.modes.transforms + 1))
        with np.errstate(all="ignore"):
            if roots:
                run_graph(task, roots)
            task.node = None
            for callback in task.callbacks:
                call(task, callback)
    finally:
        try:
            restore(outside)  # undo mode changes of this pass, and those left by hooks and reruns
            del outside
        finally:  # an interrupt may come between two calls
            set_running(around)


def run_graph(task: GraphTask, roots: list[tuple[Any, Any]]) -> None:
    """Run the nodes behind the roots, in the cheaper of the two ways that the pass permits."""
    if task.path == "arrays":
        first = roots[0][1]
        task.ops = _numpy_ops if first.__class__ is np.ndarray else raw_ops(library_of(first))
    wanted = task.wanted
    if wanted is not None:
        task.needed = nodes_towards(task.roots, wanted)
    several_streams = streams.current is not None and streams.may_cross()
    unusual = process.crossed or several_streams or (bool(process.busy) and (thread.anomaly or thread.watchers))
    by_age = task.path == "arrays" and not process.leaf_hooks and not unusual
    if by_age and (wanted is None or all(node.seq is FIRST for node in wanted)):
        run_by_age(task, roots)
        finish_leaves(task)
    else:
        run_by_count(task, roots)


def run_by_age(task: GraphTask, roots: list[tuple[Any, Any]]) -> None:
    """Run a pass by age: the youngest node with a gradient is always complete.

    This loop is the hot path of backward. Along a chain, the only node that a node sends to runs next, so its gradient
    stays in a local variable (`ng`, for node `nxt`) and skips the dictionary. The step of an elementwise op of one
    argument is even shorter. All cases beyond one array along one edge are left to `run_apart` and `send_apart`.
    """
    grads, keep, ops, needed = task.grads, task.keep, task.ops, task.needed
    waiting: list[tuple[float, int, Any]] = []  # a heap, the youngest node first
    for e, g in roots:
        wait_for(task, e, g, waiting)
    while waiting:
        node = heappop(waiting)[2]
        g = grads.pop(node)
        while node is not None:
            route = node.route
            if route is UNARY:
                g = node.apply_one(g, ops, keep)
                e = node.next[0]
                if e.seq is not FIRST and g.dtype is e.dtype and not (waiting and -waiting[0][0] >= e.seq):
                    node = e
                    continue
                outs: Any = (g,)
            elif route is RULE:
                outs = node.apply(g, ops, keep)
            else:
                run_apart(task, node, g, waiting)
                break
            nxt = ng = None
            for e, g in zip(node.next, outs):
                if e is None:
                    continue
                if g is None or e.seq is FIRST or (needed is not None and e not in needed):
                    if e is not nxt:
                        send_apart(task, e, g, waiting)
                    continue
                if g.shape != e.shape or g.dtype is not e.dtype:
                    g = validate(g, e, 0)
                if e is nxt:
                    ng = ng + g
                elif waiting and e in grads:
                    add(task, e, g)
                else:
                    if nxt is not None:
                        grads[nxt] = ng
                        heappush(waiting, (-nxt.seq, id(nxt), nxt))
                    nxt, ng = e, g
            if nxt is not None and waiting and -waiting[0][0] > nxt.seq:
                grads[nxt] = ng
                nxt = heapreplace(waiting, (-nxt.seq, id(nxt), nxt))[2]
                ng = grads.pop(nxt)
            node, g = nxt, ng


def run_apart(task: GraphTask, node: Node, g: Payload, waiting: list[Any]) -> None:
    """Run a node that needs more than its rule, then the nodes with exact zeros that follow from it."""
    if node.seq is FIRST:  # backward was called on a leaf
        send_apart(task, node, g, waiting)
        return
    step_exactly(task, node, g, waiting, run_node, send_apart)
    while task.exact and waiting:
        node = heappop(waiting)[2]
        step_exactly(task, node, task.grads.pop(node), waiting, run_node, send_apart)


def send_apart(task: GraphTask, e: Any, g: Any, waiting: list[Any], fresh: bool = False) -> None:
    """Send a gradient or None along any edge. A leaf's sum is updated in place if it is owned and large enough."""
    node = e.node if e.__class__ is Edge else e
    if task.needed is not None and node not in task.needed:
        return
    if g is None:
        send_undefined(task, node, waiting)
        return
    if node.seq is not FIRST:
        wait_for(task, e, g, waiting, fresh)
        return
    if g.shape != node.shape or g.dtype is not node.dtype:
        g = validate(g, node, 0)
    leaves = task.leaf_grads
    before = leaves.get(node)
    if before is None:
        leaves[node] = g
        if fresh:
            task.owned.add(node)
    elif g.size < SMALL:
        leaves[node] = before + g
    elif node in task.owned:
        before += g
    else:
        leaves[node] = before + g
        task.owned.add(node)


def send_undefined(task: GraphTask, node: Node, waiting: list[Any]) -> None:
    """Queue the nodes that must run even if no gradient reaches them (see Note [Undefined gradients]).

    A rule is linear: without an incoming gradient it has no result. So the search passes through nodes that run by
    their rules, and stops at the others.
    """
    reached = [node]
    while reached:
        node = reached.pop()
        if (
            node in task.grads
            or node in task.passed
            or node.seq is FIRST
            or (task.needed is not None and node not in task.needed)
        ):
            continue
        if node.route is GENERAL:
            task.grads[node] = None if node.outputs == 1 else [None] * output_count(node)
            heappush(waiting, (-node.seq, id(node), node))
        else:
            task.passed.add(node)
            reached += [edge_node(e) for e in node.next if e is not None]


def wait_for(task: GraphTask, e: Any, g: Any, waiting: list[Any], fresh: bool = False) -> None:
    """Send a gradient to a needed node, and queue the node if this is its first."""
    node = e.node if e.__class__ is Edge else e
    if (task.needed is None or node in task.needed) and send(task, e, g, fresh):
        heappush(waiting, (-node.seq, id(node), node))


def finish_leaves(task: GraphTask) -> None:
    """Finish a pass by age: separate, so that only `leaves` holds the gradients, which then become `.grad` uncopied."""
    leaves = task.leaf_grads
    if not task.accumulate:
        for node, g in leaves.items():
            task.captures[node, 0] = g
        return
    while leaves:
        node, g = leaves.popitem()
        if node.level:
            raise RuntimeError(ESCAPED)
        accumulate_array(node, g)


def run_alone(node: Any, keep: bool) -> bool:
    """Run a whole pass from a scalar whose node stands alone, without a task. Return False if that is not possible.

    The node has no hooks, and all its edges lead to leaves without hooks. The result equals that of `run_by_age`, in
    which nothing would wait. No user code runs that could ask for the task.
    """
    unusual = process.busy or process.leaf_hooks or node.extra is not None
    if unusual or any(e is not None and e.__class__ is not AccumulateGrad for e in node.next):
        return False
    outs = node.gradients_of_one(keep)
    if outs is None:
        return False
    for e in reversed(node.next):
        g = outs.pop()  # the only reference: see finish_leaves
        if g is not None and e is not None:
            if g.dtype is not e.dtype or g.shape != e.shape:
                g = validate(g, e, 0)
            accumulate_array(e, g)
    return True


def run_by_count(task: GraphTask, roots: list[tuple[Any, Any]]) -> None:
    """Run a pass by counting: a node runs after it has received all its gradients."""
    needed = task.needed
    if needed is not None:
        roots[:] = [(e, g) for e, g in roots if edge_node(e) in needed]
    root_nodes = list(dict.fromkeys(edge_node(e) for e, _ in roots))
    counts = count_gradients(root_nodes)
    crossing = Crossing() if streams.may_cross() else None
    send_one: Any = send if crossing is None else crossing.wrap_send(send)
    while roots:
        send_one(task, *roots.pop(0))  # popped, so that the receiver's reference count shows whether it is shared
    # Leaves all have the same age; the first complete leaf runs first.
    arrivals = itertools.count().__next__
    ready = [(-node.seq, arrivals(), node) for node in root_nodes if not counts[node]]
    heapify(ready)
    grads = task.grads
    run_one, accumulate_watched = _choose_run(crossing)
    try:
        while ready:
            node = heappop(ready)[2]
            received = grads[node] if is_exact(task, node, grads.get(node)) else None
            outs, fresh = run_one(task, node, grads.pop(node, None))
            outs, exact, received = keep_zeros(received, outs), received is not None, None
            for position, e in node.sent_edges or enumerate(node.next):
                if e is None or (needed is not None and edge_node(e) not in needed):
                    continue
                if outs is not None and outs[position] is not None:
                    stays_exact = remains_exact(task, node, position, exact)
                    send_one(task, e, outs[position], fresh and position == 0)
                    if stays_exact:
                        task.exact[e] = grads[e]
                target = edge_node(e)
                counts[target] -= 1
                if counts[target] == 0:
                    heappush(ready, (-target.seq, arrivals(), target))
            outs = None
    finally:
        if crossing is not None:
            crossing.join()
    if accumulate_watched is not None:
        accumulate_watched(task)
    accumulate_at_end(task)


def _choose_run(crossing: Crossing | None) -> tuple[Callable[..., Any], Callable[[GraphTask], None] | None]:
    """Return the function that runs a node, and for call watchers the one that accumulates into the leaves.

    Watchers that are added while a pass runs do not see it.
    """
    run_one: Callable[..., Any] = run_node
    accumulate = None
    if process.busy and thread.watchers:
        from ndgrad._src.engine.watched_nodes import accumulate_leaves, watch_evaluation  # it imports this module

        run_one, accumulate = watch_evaluation(run_node), accumulate_leaves
    if thread.anomaly:
        run_one = registry.anomaly.watch_run(run_one)
    return (run_one if crossing is None else crossing.wrap_run(run_one)), accumulate


def accumulate_at_end(task: GraphTask) -> None:
    """Accumulate into the leaves without hooks, which need no notification when they are complete."""
    while task.leaves:
        node, g = task.leaves.pop()
        if task.path == "arrays":
            accumulate_array(node, g)
        else:
            apply_leaf(task, node, g)


def apply_rule(task: GraphTask, node: Any, g: Any, keep: bool) -> Any:
    """Run the rule of a node on the task's path."""
    if task.path == "arrays":
        ops = task.ops
        if process.crossed and not is_undefined(g):
            ops = raw_ops(library_of_gradient(g))
        return node.apply(g, owning_raw_ops(ops.np) if task.owns else ops, keep)
    apply = node.apply_payloads if task.path == "payloads" else node.apply_tensors
    outs = apply(g, True) if task.owns else apply(g)
    if not keep:
        node.release()
    return outs


def run_node(task: GraphTask, node: Node, g: Payload, apply: Any = apply_rule) -> tuple[Any, bool]:
    """Run one node on any path, with hooks, captures, several outputs and owned gradients; `apply` runs its rule.

    Return the gradients of its inputs (None if it did not run), and True if the first of them is owned. The gradient
    `g` is None if none has arrived (see Note [Undefined gradients]).
    """
    task.node = node
    if isinstance(node, AccumulateGrad):
        box, g = [g], None  # only run_leaf holds the gradient, so it can become a leaf's `.grad` without a copy
        run_leaf(task, node, box)
        return None, False
    if g is None and node.outputs != 1:
        g = [None] * output_count(node)
    post_hooks = False
    if node.extra is not None:
        g, post_hooks = run_pre_hooks(task, node, g), bool(node.extra.post_hooks)
    if task.wanted is not None and not _goes_on(task, node, g):
        return None, False
    if node.extra is not None and node.extra.pre_hooks:
        g = run_node_prehooks(task, node, g)
    if post_hooks:
        return _run_before_hooks(task, node, g, apply), False
    if is_undefined(g) and not node.runs_undefined:
        return (None,) * len(node.next), False
    if node.materialize_grads:
        g = materialize(task, node, g)
    if node.reads and add_to_part(task, node, g):
        if not task.keep:
            node.release()
        return (None,), False
    task.owns = node.consumes and node in task.owned and _may_consume(task, node, g)
    outs = apply(task, node, g, task.keep)
    if len(outs) != len(node.next):
        raise RuntimeError(f"{node.name()} returned {len(outs)} gradients for {len(node.next)} inputs [nd-op-block]")
    if node.extra is not None and node.extra.post_hooks:  # registered meanwhile, by a hook that unpacks a saved value
        unknown = None if node.outputs == 1 else [None] * output_count(node)
        return run_post_hooks(task, node, _round_gradients(node, outs), unknown), False
    return outs, node.reads or (node.consumes and (task.owns or outs[0] is not g))


def _run_before_hooks(task: GraphTask, node: Node, received: Any, apply: Any) -> tuple[Any, ...]:
    """Run the rule of a node with post-hooks, then these hooks. They see every gradient, so none is owned.

    Saved values are released last: if a hook raises, the node is unchanged.
    """
    if is_undefined(received) and not node.runs_undefined:
        return run_post_hooks(task, node, (None,) * len(node.next), received)
    g = materialize(task, node, received) if node.materialize_grads else received
    task.owns = False
    outs = run_post_hooks(task, node, _round_gradients(node, apply(task, node, g, True)), received)
    if not task.keep:
        node.release()
    return outs


def _goes_on(task: GraphTask, node: Node, g: Payload) -> bool:
    """If only some gradients are requested: capture the requested one. Return True if the node has more to do."""
    assert task.wanted is not None
    assert task.needed is not None
    if task.accumulate:
        return True
    if node in task.wanted:
        capture(task, node, g)
    if node.has_inner_pass and oldest_of(task.wanted) < node.seq:
        return True
    return any(e is not None and edge_node(e) in task.needed for e in node.next)


def _may_consume(task: GraphTask, node: Node, g: Payload) -> bool:
    """True if a node may change the owned gradient that it received: hooks and callers may hold a gradient they saw."""
    if node.extra is not None or (task.wanted is not None and node in task.wanted):
        return False
    return task.path == "arrays" or may_write(g, g)


def _round_gradients(node: Node, outs: Payload) -> Any:
    """Return gradients as hooks see them: half-precision rules compute in float32, and edges expect the half dtype."""
    if not hasattr(node, "dtype") or node.dtype is None or not is_half(node.dtype):
        return outs
    wanted = [None if e is None else edge_node(e).output_metadata(edge_number(e))[1] for e in node.next]
    return tuple(
        out if out is None or dtype is None or not is_half(dtype) or out.dtype == dtype
        else tensor_ops.cast(out, dtype=dtype) if isinstance(out, Variable) else out.astype(dtype)
        for out, dtype in zip(outs, wanted, strict=True)
    )  # fmt: skip


def run_leaf(task: GraphTask, node: Any, box: list[Any]) -> None:
    """Run a leaf: accumulate its gradient with hooks, or postpone the accumulation to the end of the pass."""
    if node.extra is None and node.variable._meta.hooks:
        extra_of(node)  # the accumulator was made after the hook was registered
    extra = node.extra
    g = box.pop()
    if extra is not None:
        g = run_pre_hooks(task, node, g)
    if task.wanted is not None and node not in task.wanted:
        return
    if not task.accumulate:
        capture(task, node, g)
        return
    if node.level:
        raise RuntimeError(ESCAPED)
    after = node.variable._meta.post_accumulate_hooks
    if extra is None and not after:
        if g is not None:
            task.leaves.append((node, g))  # without hooks, no notification is needed when it is complete
        return
    if extra is not None and extra.pre_hooks:
        g = run_node_prehooks(task, node, g)
    has_post_hooks = extra is not None and bool(extra.post_hooks)
    becomes_grad = g is not None and has_post_hooks and node.variable._meta.grad is None
    received = g if has_post_hooks and not becomes_grad else None
    if g is not None:
        if task.path == "arrays":
            accumulate_array(node, g)
        else:
            apply_leaf(task, node, g)
        g = None
        if after:
            run_post_accumulate_hooks(task, node)
    if has_post_hooks:
        if becomes_grad:  # Hooks of the node see the first gradient where it lies now: in `.grad`.
            received = node.variable._meta.grad
        run_post_hooks(task, node, (), received)


def apply_leaf(task: GraphTask, node: Node, g: Payload) -> None:
    """Accumulate a tensor gradient into a leaf, recorded if the task creates a graph."""
    outside = scope()
    try:
        restore(outside.recording(task.create_graph))
        node.apply_tensors(g)
    finally:
        restore(outside)
        del outside


def is_undefined(g: Payload) -> bool:
    """True if no gradient has arrived at a node."""
    return g is None or (g.__class__ is list and all(part is None for part in g))


def send(task: GraphTask, e: Any, g: Any, fresh: bool = False) -> bool:
    """Check a gradient against its edge and add it to the sum there. Return True if it is the first to arrive."""
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
        if fresh or before is not None:
            task.owned.add(Edge(node, number))
    elif first:
        grads[node] = g
        if fresh:
            task.owned.add(node)
    else:
        add(task, node, g)
    return first


def add(task: GraphTask, node: Node, g: Payload) -> None:
    """Add a gradient to a node's sum, in place if the sum is owned and large enough to benefit."""
    before = task.grads[node]
    if before is None:
        task.grads[node] = g
    elif before.__class__ is not np.ndarray and is_on_device(before):
        if node in task.owned:
            add_into(before, g)
        else:
            task.grads[node] = sum_of(before, g)
            task.owned.add(node)
    elif task.path == "arrays" and node in task.owned and before.size >= SMALL:
        before += g
    else:
        task.grads[node] = before + g
        task.owned.add(node)


def capture(task: GraphTask, node: Node, g: Payload) -> None:
    """Store a gradient that the caller requested."""
    if g is None:
        return
    if node.outputs != 1:
        for number, part in enumerate(g):
            if part is not None:
                task.captures[node, number] = part
    else:
        task.captures[node, 0] = g


def materialize(task: GraphTask, node: Any, grads: Any) -> Any:
    """Replace undefined gradients by zeros."""
    if node.outputs == 1:
        return grads if grads is not None else _zeros(task, grads, node.output_metadata(0))
    known = node.metadata_of_outputs
    return [g if g is not None or k is None else _zeros(task, grads, k) for g, k in zip(grads, known, strict=True)]


def _zeros(task: GraphTask, beside: Payload, known: tuple[Any, Any]) -> Payload:
    if is_undefined(beside):
        zeros = np.zeros(*known) if task.ops is None else task.ops.np.zeros(*known)
    else:
        zeros = library_of_gradient(beside).zeros(*known)
    return zeros if task.path == "arrays" else _wrap_array(task, zeros)


def library_of_gradient(g: Payload) -> Library:
    """Return the array library of a gradient, or of the gradients in a list."""
    one = next(part for part in g if part is not None) if g.__class__ is list else g
    return library_of(innermost_array(one) if isinstance(one, Variable) else one)


def _wrap_array(task: GraphTask, array: Payload) -> Payload:
    from ndgrad._src.foundations.registry import Tensor  # the class lies above the core

    return wrap(Tensor, array)


# ----- entry points ---------------------------------------------------------------------------------------------------


def backward_from(
    tensors: list[Any],
    grads: list[Any],
    *,
    retain_graph: bool,
    create_graph: bool,
    inputs: list[Any] | None = None,
    accumulate: bool = True,
    path: str | None = None,
) -> list[Any] | None:
    """Run backward from tensors with checked gradients (tensors). With `inputs`, return their gradients."""
    elsewhere = open_elsewhere((*tensors, *grads)) if process.open and path is None else 0
    if elsewhere:
        with join_levels(elsewhere):
            return backward_from(
                tensors,
                grads,
                retain_graph=retain_graph,
                create_graph=create_graph,
                inputs=inputs,
                accumulate=accumulate,
                path=path,
            )
    starts = gradient_edges(tensors)
    if path is None:
        path = choose_path(starts, grads, create_graph)
    task = GraphTask(path, retain_graph, create_graph)
    roots: list[tuple[Any, Any]] = []
    for e, g in zip(starts, grads, strict=True):
        roots.append((e, g._array if path == "arrays" else g))
    edges = None
    if inputs is not None:
        edges = [gradient_edge(t) for t in inputs]
        former = [former_accumulators(t) for t in inputs]
        task.wanted = {edge_node(e) for e in edges if e is not None}.union(*former)
        task.accumulate = accumulate
    if running() is not None and needs_fresh_stack():
        run_on_fresh_stack(lambda: run(task, roots))
    else:
        run(task, roots)
    if edges is None or inputs is None:
        return None
    found = [None if e is None else task.captures.get((edge_node(e), edge_number(e))) for e in edges]
    found = [_add_former(task, g, nodes) if nodes else g for g, nodes in zip(found, former, strict=True)]
    if path != "arrays":
        found = convert_types(found, inputs)
    return found if create_graph else lay_out_as_inputs(found, inputs)


def _add_former(task: GraphTask, g: Payload, nodes: list[Any]) -> Payload:
    """Add to the gradient of a leaf the gradients that arrived at its former shapes."""
    for node in nodes:
        part = task.captures.get((node, 0))
        if part is not None:
            part = to_present_shape(node, part)
            g = part if g is None else g + part
    return g


# ----- reference counts of gradients ----------------------------------------------------------------------------------


def _count_array(shared: bool) -> int:
    """Return the reference count of an array that arrives at a leaf, unshared or (`shared`) with one more reference."""
    node = _some_leaf()
    task = GraphTask("arrays", True)
    task.leaf_grads[node] = np.zeros(1)
    other = task.leaf_grads[node] if shared else None
    finish_leaves(task)
    del other
    return counts.seen


def _count_tensor(shared: bool) -> int:
    """Same as `_count_array`, for a tensor."""
    node = _some_leaf()
    task = GraphTask("tensors", True)
    task.leaves.append((node, wrap(Variable, np.zeros(1))))
    other = task.leaves[0][1] if shared else None
    accumulate_at_end(task)
    del other
    return counts.seen


def _some_leaf() -> Node:
    leaf = wrap(_Leaf, np.zeros(1))
    meta_of(leaf).requires_grad = True
    return accumulator(leaf)


class _Leaf(Variable):
    __slots__ = ()
    tensor_type: ClassVar[type[Variable]] = Variable  # class of its gradient


counts.array = calibrate(lambda: _count_array(False), lambda: _count_array(True))
counts.tensor = calibrate(lambda: _count_tensor(False), lambda: _count_tensor(True))
