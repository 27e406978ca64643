"""Contexts of distributed autograd: what each rank knows of a graph that spans several.

Where a message carries tensors that require grad, the graph goes on on another rank. The rank that sends keeps a node
whose edges lead to the tensors, the rank that receives a node whose outputs they are, and both know it by the number
of the message. A context has these nodes, and the gradients of leaves, which are kept apart for each context: several
may be under way at once. Its id says which rank opened it, so that no two ranks choose the same.
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

#: Of ids, the bits behind the rank that gave them.
RANK_BITS = 48


class SendRpcBackward(MultiNode):
    """Where tensors left this rank. Its gradients come by messages, and go on to the tensors."""

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
    """Where tensors came to this rank. What it does with its gradients is the pass's part: they go to `peer`."""

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
    """What this rank knows of a context."""

    def __init__(self, number: int) -> None:
        self.number = number
        #: by the number of the message: what was sent from here, and what was received
        self.sent: dict[int, SendRpcBackward] = {}
        self.received: dict[int, RecvRpcBackward] = {}
        #: leaf -> the gradient that the passes of this context have accumulated
        self.gradients: dict[Any, Any] = {}
        #: the ranks that it was sent to or came from
        self.peers: set[int] = set()
        #: what a pass of it has failed with, on whichever rank
        self.failure: str | None = None
        self.lock = make_lock()


class Recorded(NamedTuple):
    """What a message says of the graph: the context, and if some of its tensors require grad, its number and which."""

    context: int
    message: int
    which: tuple[int, ...]


_contexts: dict[int, Context] = {}
#: The last that have ended: a message of one that comes late must not open it again.
_ended: deque[int] = deque(maxlen=4096)
_lock = make_lock()
_numbers = itertools.count(1)
_messages = itertools.count(1)
#: The context in which this thread computes, 0 for none.
current: ContextVar[int] = ContextVar("ndgrad_distributed_context", default=0)


def opened(rank: int) -> Context:
    """A new context of this rank."""
    return known((rank << RANK_BITS) | next(_numbers))


def known(number: int) -> Context:
    """The context of this id, made where this rank has not heard of it."""
    with _lock:
        found = _contexts.get(number)
        if found is None:
            found = _contexts[number] = Context(number)
        return found


def found(number: int) -> Context:
    """The context of this id, which must be open."""
    context = _contexts.get(number)
    if context is None:
        raise RuntimeError(
            f"Could not find autograd context with id: {number}. It has ended, or no message of it has come to this "
            "rank. Use the id inside `with ndgrad.distributed.autograd.context() as context_id:`. [nd-call-order]"
        )
    return context


def closed(number: int) -> Context | None:
    """Forget a context; what it was, if it was known."""
    with _lock:
        _ended.append(number)
        return _contexts.pop(number, None)


def count() -> int:
    """How many contexts this rank knows."""
    return len(_contexts)


def forget_all() -> None:
    """The end of the ranks' talk."""
    with _lock:
        _contexts.clear()
        _ended.clear()


def record_sending(rank: int, peer: int, tensors: Sequence[Any]) -> Recorded | None:
    """Record that tensors leave for a rank, if this thread is inside a context."""
    number = current.get()
    if not number:
        return None
    context = known(number)
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
    """Make the tensors of a message that require grad the results of a node."""
    if recorded.context in _ended:
        return
    context = known(recorded.context)
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
