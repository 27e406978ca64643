"""Contexts of distributed autograd: each rank's knowledge of a graph that spans several.

A message with tensors that require grad continues the graph on another rank. The sender keeps a node whose edges lead
to the tensors. The receiver keeps a node with the tensors as outputs. Both find their node by the number of the
message. A context holds these nodes, and the gradients of leaves. Gradients are separate for each context, since
several may be in progress. An id contains the rank that opened the context, so ids are unique.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple

from ndgrad._src.core.node import MultiNode, make_node
from ndgrad._src.core.variable import edge, meta_of, np_dtype
from ndgrad._src.foundations.locks import make_lock

#: Bits of an id after those of the rank.
RANK_BITS = 48


class SendRpcBackward(MultiNode):
    """Node of tensors that left this rank. Its gradients arrive as messages, and go on to the tensors."""

    __slots__ = ("message", "peer")
    outputs = 0
    runs_undefined = True
    materialize_grads = False
    message: int
    peer: int

    def apply(self, grads: Any, ops: Any, keep: bool = True) -> tuple[Any, ...]:
        return tuple(grads)

    def apply_tensors(self, grads: Any) -> tuple[Any, ...]:
        return tuple(grads)


class RecvRpcBackward(MultiNode):
    """Node of tensors received by this rank. The pass sends its gradients to `peer`."""

    __slots__ = ("message", "peer")
    outputs = 0
    runs_undefined = True
    materialize_grads = False
    message: int
    peer: int

    def apply(self, grads: Any, ops: Any, keep: bool = True) -> tuple[Any, ...]:
        return self.apply_tensors(grads)

    def apply_tensors(self, grads: Any) -> tuple[Any, ...]:
        raise RuntimeError(
            f"backward reached a tensor that came from rank {self.peer}: its graph goes on there. Call "
            "ndgrad.distributed.autograd.backward(context_id, [loss]), which runs on all ranks that take part. "
            "[nd-call-order]"
        )


class Context:
    """This rank's part of a context."""

    def __init__(self, number: int) -> None:
        self.number = number
        #: Nodes of sent and received tensors, by the number of the message.
        self.sent: dict[int, SendRpcBackward] = {}
        self.received: dict[int, RecvRpcBackward] = {}
        #: leaf -> gradient accumulated by the passes of this context
        self.gradients: dict[Any, Any] = {}
        #: Ranks with which the context was exchanged.
        self.peers: set[int] = set()
        #: Error of a failed pass, on any rank.
        self.failure: str | None = None
        self.lock = make_lock()


class Recorded(NamedTuple):
    """Graph information in a message: the context, and if some tensors require grad, the message's number and their
    indices.
    """

    context: int
    message: int
    which: tuple[int, ...]


_contexts: dict[int, Context] = {}
#: The last contexts that have ended: a late message must not open them again.
_ended: deque[int] = deque(maxlen=4096)
_lock = make_lock()
_numbers = itertools.count(1)
_messages = itertools.count(1)
#: The context in which this thread computes; 0 for none.
current: ContextVar[int] = ContextVar("ndgrad_distributed_context", default=0)


def open_context(rank: int) -> Context:
    """Open a new context of this rank."""
    return find_or_create((rank << RANK_BITS) | next(_numbers))


def find_or_create(number: int) -> Context:
    """Return the context with this id; create it if it is new to this rank."""
    with _lock:
        found = _contexts.get(number)
        if found is None:
            found = _contexts[number] = Context(number)
        return found


def find_open(number: int) -> Context:
    """Return the context with this id, which must be open."""
    context = _contexts.get(number)
    if context is None:
        raise RuntimeError(
            f"Could not find autograd context with id: {number}. It has ended, or no message of it has come to this "
            "rank. Use the id inside `with ndgrad.distributed.autograd.context() as context_id:`. [nd-call-order]"
        )
    return context


def close_context(number: int) -> Context | None:
    """Close a context, and return it if it was known."""
    with _lock:
        _ended.append(number)
        return _contexts.pop(number, None)


def count() -> int:
    """Return the number of contexts known to this rank."""
    return len(_contexts)


def forget_all() -> None:
    """Forget all contexts when rpc ends."""
    with _lock:
        _contexts.clear()
        _ended.clear()


def record_sending(rank: int, peer: int, tensors: Sequence[Any]) -> Recorded | None:
    """Record that tensors leave for a rank, if this thread is inside a context."""
    number = current.get()
    if not number:
        return None
    context = find_or_create(number)
    edges = [edge(t) for t in tensors]
    which = tuple(i for i, e in enumerate(edges) if e is not None)
    with context.lock:
        context.peers.add(peer)
        if not which:
            return Recorded(number, 0, ())
        message = (rank << RANK_BITS) | next(_messages)
        node = make_node(SendRpcBackward, tuple(edges[i] for i in which))
        node.metadata_of_outputs = [(tuple(tensors[i].shape), np_dtype(tensors[i])) for i in which]
        node.message, node.peer = message, peer
        context.sent[message] = node
    return Recorded(number, message, which)


def record_receiving(recorded: Recorded, peer: int, tensors: Sequence[Any]) -> None:
    """Make the message's tensors that require grad outputs of a node."""
    if recorded.context in _ended:
        return
    context = find_or_create(recorded.context)
    with context.lock:
        context.peers.add(peer)
        if not recorded.which:
            return
        node = make_node(RecvRpcBackward, ())
        came = [tensors[i] for i in recorded.which]
        node.metadata_of_outputs = [(tuple(t.shape), np_dtype(t)) for t in came]
        node.message, node.peer = recorded.message, peer
        for i, t in enumerate(came):
            t._node = node
            meta_of(t).output_nr = i
        context.received[recorded.message] = node
