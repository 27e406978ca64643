"""The engine for graphs that span ranks: a backward pass that pauses for gradients from other ranks.

A pass has two phases.

*Discovery.* The calling rank walks its graph from the roots. If the graph ends in tensors from other ranks, it asks
these ranks to walk on from the tensors that they sent, and so on. In the end every participating rank knows which of
its nodes will run and how many gradients each will get. A rank answers when all ranks that it asked have answered, so
the first rank knows when the discovery is complete, and which ranks participate.

*Execution.* Each rank runs its nodes like the engine (`_src.engine.engine`), youngest first among the complete ones.
Gradients of tensors from other ranks are sent back. If all remaining nodes wait for such a message, the pass pauses
until it arrives. A rank whose nodes have all run tells the first rank. When all have, every rank adds the gradients of
its leaves to the context. So a pass that fails anywhere changes no gradients. Every participating rank is told, and
reports the failure when the gradients of the context are requested.
"""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Any

import numpy as np

from ndgrad._src.arrays.library import library_of
from ndgrad._src.core.modes import restore, running, scope, set_running
from ndgrad._src.core.node import Node, edge_node
from ndgrad._src.core.sparse_gradients import wrap_gradient
from ndgrad._src.core.variable import AccumulateGrad, Variable
from ndgrad._src.engine.accumulate import copy_like, to_present_shape
from ndgrad._src.engine.engine import GraphTask, apply_rule, run_node, send
from ndgrad._src.engine.roots import choose_path, gradient_edges, root_gradients
from ndgrad._src.foundations.locks import make_lock
from ndgrad._src.ops.vocabulary import raw_ops
from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad.distributed.errors import DistBackendError
from ndgrad.distributed.remote.agent import Agent, current_agent
from ndgrad.distributed.remote.contexts import RANK_BITS, Context, RecvRpcBackward, SendRpcBackward, find_open
from ndgrad.distributed.remote.messages import packed_error, unpacked_error

_pass_numbers = itertools.count(1)
_passes: dict[int, Pass] = {}
_passes_lock = make_lock()
#: Seconds between checks for lost ranks during a pass.
_LOOK = 0.05


class Pass:
    """This rank's part of a backward pass."""

    def __init__(self, context: Context, number: int, keep: bool) -> None:
        self.context, self.number, self.keep = context, number, keep
        self.agent: Agent = current_agent()
        #: Number of gradients that each node found by this pass still expects.
        self.counts: dict[Node, int] = {}
        #: Number of nodes that have not run.
        self.left = 0
        self.task: GraphTask | None = None
        self.lock = make_lock()
        self._roots: list[Node] = []
        self._arrivals = itertools.count()
        self._ready: list[tuple[float, int, Node]] = []
        self._inbox: deque[tuple[SendRpcBackward, list[Any]]] = deque()
        self._running = self._over = False
        #: On the first rank: finished ranks with their errors.
        self.reports: dict[int, bytes | None] = {}

    @property
    def beginner(self) -> int:
        """The rank that started the pass."""
        return self.number >> RANK_BITS

    # ----- looking -----

    def look(self, nodes: Sequence[Node]) -> set[int]:
        """Find all nodes reachable from some nodes, here and on other ranks; return the participating ranks."""
        asked: dict[int, list[int]] = {}
        with self.lock:
            stack = []
            for node in nodes:
                if node not in self.counts:
                    self.counts[node] = 0
                    self._roots.append(node)
                    stack.append(node)
            while stack:
                node = stack.pop()
                if isinstance(node, RecvRpcBackward):
                    asked.setdefault(node.peer, []).append(node.message)
                for e in node.next:
                    if e is None:
                        continue
                    target = edge_node(e)
                    if target not in self.counts:
                        self.counts[target] = 0
                        stack.append(target)
                    self.counts[target] += 1
            self.left = len(self.counts)
        answers = [
            self.agent.call(
                peer, _look_from, (self.context.number, self.number, self.keep, messages), record=False, seconds=0
            )
            for peer, messages in asked.items()
        ]
        return {self.agent.rank}.union(*(a.wait() for a in answers))

    # ----- running -----

    def begin(self, edges: Sequence[Any], grads: Sequence[Any]) -> None:
        """Start from the roots."""
        task = self._make_task(edges, grads)
        with self.lock:
            for e, g in zip(edges, grads, strict=True):
                send(task, e, g._array if task.path == "arrays" else g)
            for node in dict.fromkeys(map(edge_node, edges)):
                if not self.counts[node]:
                    heappush(self._ready, (-node.seq, next(self._arrivals), node))
        self.advance()

    def _make_task(self, edges: Sequence[Any], grads: Sequence[Any]) -> GraphTask:
        if self.task is None:
            path = choose_path([*edges, *self._roots], list(grads), False)
            task = GraphTask(path, self.keep)
            task.accumulate = False  # leaves are captured: their gradients belong to the context
            task.roots = self._roots
            if path == "arrays":
                first = next((g for g in grads if g is not None), None)
                task.ops = raw_ops(np if first is None else library_of(first._array))
            self.task = task
        return self.task

    def deliver(self, message: int, grads: list[Any]) -> None:
        """Add the gradients of the tensors sent by a message."""
        node = self.context.sent[message]
        with self.lock:
            self._make_task([], [g for g in grads if g is not None])
            self._inbox.append((node, grads))
        self.advance()

    def advance(self) -> None:
        """Run all complete nodes, unless another thread does."""
        with self.lock:
            if self._running or self._over:
                return
            self._running = True
        try:
            self._run()
        except BaseException as error:
            with self.lock:
                self._over, self._running = True, False
            self._report(packed_error(error, self.agent.rank))
            return
        if self._over:
            self._report(None)

    def _run(self) -> None:
        task = self.task
        assert task is not None
        around, outside = running(), scope()
        try:
            set_running(task)
            if task.path == "tensors":
                restore(outside.with_changes(entered=outside.modes.entered + 1, grad_enabled=False))
            with np.errstate(all="ignore"):
                while True:
                    with self.lock:
                        self._take_messages(task)
                        if not self._ready:
                            self._running = False
                            self._over = not self.left
                            return
                        node = heappop(self._ready)[2]
                    self._run_one(task, node)
        finally:
            try:
                restore(outside)
                del outside
            finally:
                set_running(around)

    def _take_messages(self, task: GraphTask) -> None:
        while self._inbox:
            node, grads = self._inbox.popleft()
            arrays = task.path == "arrays"
            task.grads[node] = [None if g is None else g._array if arrays else g for g in grads]
            heappush(self._ready, (-node.seq, next(self._arrivals), node))

    def _run_one(self, task: GraphTask, node: Node) -> None:
        apply = self._hand_back if isinstance(node, RecvRpcBackward) else apply_rule
        outs, fresh = run_node(task, node, task.grads.pop(node, None), apply)
        for position, e in enumerate(node.next):
            if e is None:
                continue
            if outs is not None and outs[position] is not None:
                send(task, e, outs[position], fresh and position == 0)
            target = edge_node(e)
            self.counts[target] -= 1
            if not self.counts[target]:
                heappush(self._ready, (-target.seq, next(self._arrivals), target))
        self.left -= 1

    def _hand_back(self, task: GraphTask, node: Any, grads: Any, keep: bool) -> tuple[Any, ...]:
        """Send the gradients of tensors from another rank back to it."""
        given = [g if g is None or isinstance(g, Variable) else wrap_gradient(Tensor, g) for g in grads]
        self.agent.call(
            node.peer, _deliver, (self.context.number, self.number, node.message, given), record=False, seconds=0
        )
        return ()

    def _report(self, error: bytes | None) -> None:
        rank = self.agent.rank
        if self.beginner == rank:
            self.reports[rank] = error
        else:
            self.agent.call(self.beginner, _note_finished, (self.number, rank, error), record=False, seconds=0)

    def commit(self) -> None:
        """Add the gradients of leaves to the context."""
        with self.context.lock:
            gradients = self.context.gradients
            for (node, _), g in self.task.captures.items() if self.task is not None else ():
                if not isinstance(node, AccumulateGrad):
                    continue
                leaf = node.variable
                if leaf._meta.reshapes:
                    g = to_present_shape(node, g)
                array = g._array if isinstance(g, Variable) else g
                before = gradients.get(leaf)
                if before is None:  # the engine hands one array to all terms of a sum
                    gradients[leaf] = wrap_gradient(leaf.tensor_type, copy_like(array, leaf._array))
                else:
                    gradients[leaf] = wrap_gradient(leaf.tensor_type, before._array + array)
            self.context.failure = None


# ----- requests between ranks -----------------------------------------------------------------------------------------


def _part(context_id: int, number: int, keep: bool) -> Pass:
    with _passes_lock:
        known = _passes.get(number)
        if known is None:
            known = _passes[number] = Pass(find_open(context_id), number, keep)
        return known


def _look_from(context_id: int, number: int, keep: bool, messages: list[int]) -> set[int]:
    part = _part(context_id, number, keep)
    return part.look([part.context.sent[m] for m in messages])


def _deliver(context_id: int, number: int, message: int, grads: list[Any]) -> None:
    part = _passes.get(number)
    if part is not None:  # None after the pass was given up
        part.deliver(message, grads)


def _note_finished(number: int, rank: int, error: bytes | None) -> None:
    part = _passes.get(number)
    if part is not None:
        part.reports[rank] = error


def _commit(number: int) -> None:
    with _passes_lock:
        part = _passes.pop(number)
    part.commit()


def _give_up(context_id: int, number: int, told: str) -> None:
    with _passes_lock:
        part = _passes.pop(number, None)
    if part is not None:
        part._over = True
        part.context.failure = told


# ----- public functions -----------------------------------------------------------------------------------------------


def _checked_roots(roots: Any) -> list[Any]:
    if isinstance(roots, Variable) or not isinstance(roots, (list, tuple)):
        raise TypeError(
            "backward(context_id, roots): roots is a list of tensors, as in backward(context_id, [loss]). [nd-type]"
        )
    if not roots:
        raise RuntimeError("No tensors provided for gradient computation: roots is empty. [nd-too-few]")
    for i, t in enumerate(roots):
        if not isinstance(t, Variable):
            raise TypeError(
                f"backward(context_id, roots): roots[{i}] is a {type(t).__name__}, and must be a tensor. [nd-type]"
            )
        if t.numel() != 1:
            raise RuntimeError(
                f"roots[{i}] is of shape {tuple(t.shape)}, and all roots must be scalars. Reduce it: loss.sum(). "
                "[nd-not-scalar]"
            )
    return list(roots)


def backward(context_id: int, roots: list[Tensor], retain_graph: bool = False) -> None:
    """Run backward from scalars through all ranks that the graph of a context reaches. Gradients of leaves are kept in
    the context, on the rank of each leaf (`get_gradients`); `.grad` is unchanged. If a rank fails, no gradient changes,
    and every participating rank reports the failure.

    Args:
        context_id: number of the context.
        roots: scalars to start from.
        retain_graph: whether the graph stays for another backward pass.

    >>> import ndgrad
    >>> from ndgrad.distributed import autograd, rpc
    >>> rpc.init_rpc("worker")
    >>> x = ndgrad.tensor([1.0, 2.0], requires_grad=True)
    >>> with autograd.context() as context_id:
    ...     loss = rpc.rpc_sync("worker", ndgrad.mul, args=(x, x)).sum()
    ...     autograd.backward(context_id, [loss])
    ...     autograd.get_gradients(context_id)[x]
    tensor([2., 4.])
    >>> rpc.shutdown()
    """
    context, agent = find_open(context_id), current_agent()
    given = _checked_roots(roots)
    grads = root_gradients(given, [None] * len(given))
    edges = gradient_edges(given)
    number = (agent.rank << RANK_BITS) | next(_pass_numbers)
    part = _part(context_id, number, retain_graph)
    ranks = set(range(len(agent.workers)))
    try:
        ranks = part.look([edge_node(e) for e in edges])
        part.begin(edges, grads)
        _wait_for_all(part, ranks)
        for answer in [agent.call(rank, _commit, (number,), record=False, seconds=0) for rank in sorted(ranks)]:
            answer.wait()
    except BaseException as error:
        told = f"a backward pass of this context failed: {type(error).__name__}: {error}"
        context.failure = told
        _tell_given_up(agent, context_id, number, ranks, told)
        raise


def _wait_for_all(part: Pass, ranks: set[int]) -> None:
    doing = f"distributed.autograd.backward of context {part.context.number}"
    looked = [time.monotonic()]

    def is_over() -> bool:
        if len(part.reports) == len(ranks) or any(part.reports.values()):
            return True
        if time.monotonic() > looked[0] + _LOOK:
            looked[0] = time.monotonic()
            part.agent.check_alive(ranks - part.reports.keys(), doing)
        return False

    if not part.agent.wait_until(is_over, part.agent.group.timeout):
        missing = ", ".join(map(str, sorted(ranks - part.reports.keys())))
        raise DistBackendError(
            f"{doing} took more than {part.agent.group.timeout:g} s: rank {missing} has not finished. Look at what it "
            "does, or give init_process_group a longer timeout. [nd-peer]"
        )
    for error in part.reports.values():
        if error is not None:
            raise unpacked_error(error, doing)


def _tell_given_up(agent: Agent, context_id: int, number: int, ranks: set[int], told: str) -> None:
    with _passes_lock:
        _passes.pop(number, None)
    for rank in ranks - {agent.rank}:
        try:
            agent.call(rank, _give_up, (context_id, number, told), record=False)
        except Exception:  # rpc is shut down, and the ranks with it
            return


def get_gradients(context_id: int) -> dict[Tensor, Tensor]:
    """Return the gradients of leaves on this rank from the backward passes of a context.

    Args:
        context_id: number of the context.

    >>> import ndgrad
    >>> from ndgrad.distributed import autograd, rpc
    >>> rpc.init_rpc("worker")
    >>> x = ndgrad.ones(2, requires_grad=True)
    >>> with autograd.context() as context_id:
    ...     autograd.backward(context_id, [(x * 3).sum()])
    ...     print(autograd.get_gradients(context_id))
    {tensor([1., 1.], requires_grad=True): tensor([3., 3.])}
    >>> rpc.shutdown()
    """
    context = find_open(context_id)
    if context.failure is not None:
        raise RuntimeError(f"get_gradients({context_id}): {context.failure} [nd-peer]")
    with context.lock:
        return dict(context.gradients)
