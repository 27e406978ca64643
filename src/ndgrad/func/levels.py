"""The stack of function transforms, and what each does to an op.

Note [Levels]
A transform opens a level on this thread's stack. Inside a grad level, tensors that depend on its input carry a graph of
that level: their payload is what the level below sees (a bare array when nothing below cares). Inside a vmap level, a
batched tensor's payload has one more dimension, in front. An op looks for the innermost level among its arguments,
deals with it, and calls itself on the payloads with the stack lowered, so transforms nest to any depth. Level
numbers are never reused: a tensor that outlives its level is found out.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ndgrad.autograd import forward_ad
from ndgrad.autograd.dispatch import dispatch, face_of, finish
from ndgrad.autograd.modes import enter, leave, next_level_number, thread
from ndgrad.autograd.node import edge_node
from ndgrad.autograd.saved import lift
from ndgrad.autograd.variable import ESCAPED, Variable, edge, meta_of, requires_grad, wrap
from ndgrad.autograd.view import tangents_of


class Level:
    """One open transform."""

    __slots__ = ("grad_enabled_outside", "kind", "number", "pure", "randomness", "size")

    def __init__(self, kind: str, size: int | None = None, randomness: str = "error") -> None:
        self.kind = kind  # "grad" or "vmap"
        self.number = next_level_number()
        self.size = size
        self.randomness = randomness
        self.pure = True  # a grad level all of whose payloads were bare arrays so far
        self.grad_enabled_outside = thread.grad_enabled


@contextmanager
def open_level(kind: str, size: int | None = None, randomness: str = "error") -> Iterator[Level]:
    """Push a level for the duration of a block; popped whatever happens."""
    level = Level(kind, size, randomness)
    stack, grad_enabled = thread.levels, thread.grad_enabled
    enter()
    thread.levels = (*stack, level)
    if kind == "grad":
        thread.grad_enabled = True
    try:
        yield level
    finally:
        thread.levels = stack
        thread.grad_enabled = grad_enabled
        leave()


@contextmanager
def below(level: Level) -> Iterator[None]:
    """The state as it is for the levels under `level`."""
    stack, grad_enabled = thread.levels, thread.grad_enabled
    thread.levels = stack[: stack.index(level)]
    if level.kind == "grad":
        thread.grad_enabled = level.grad_enabled_outside
    try:
        yield
    finally:
        thread.levels = stack
        thread.grad_enabled = grad_enabled


# ----- whose tensor is it --------------------------------------------------------------------------------------------


def level_number(t: Any) -> int:
    """The number of the innermost level a tensor belongs to, 0 for an ordinary one."""
    if not isinstance(t, Variable):
        return 0
    meta = t._meta
    if meta is not None:
        if meta.batch_level:
            return meta.batch_level
        if meta.view is not None:
            base = meta.view.base
            if base._meta is not None and base._meta.batch_level:
                from ndgrad.func.writes import follow_base

                follow_base(t)
                return int(meta.batch_level)
            meta.view.refresh(t)
            if isinstance(base._array, Variable) and not isinstance(t._array, Variable):
                from ndgrad.func.writes import follow_payload

                follow_payload(t)
        if meta.level and t._node is None:
            return meta.level
    node = t._node
    return 0 if node is None else node.level


def find_level(number: int) -> Level:
    for level in thread.levels:
        if level.number == number:
            return level
    raise RuntimeError(ESCAPED)


def top_level(args: tuple[Any, ...]) -> Level | None:
    number = max(map(level_number, args), default=0)
    return find_level(number) if number else None


def graph_level(tensors: list[Any]) -> Level | None:
    """The grad level whose graph backward is to run through, None for the ordinary graph."""
    number = 0
    for t in tensors:
        e = edge(t) if isinstance(t, Variable) else t
        if e is not None:
            number = max(number, edge_node(e).level if isinstance(t, Variable) else t.node.level)
    return find_level(number) if number else None


def lower(t: Any) -> Any:
    """The payload under which a level keeps a tensor of the levels below: its bare array, if that says all."""
    if not isinstance(t, Variable):
        return t
    meta = t._meta
    if meta is None:
        return t if t._node is not None else t._array
    if meta.batch_level or tangents_of(t) or meta.level or requires_grad(t):
        return t
    return t._array


# ----- ops ---------------------------------------------------------------------------------------------------------------


def level_op(level: Level, op: Any, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    if level.kind == "vmap":
        from ndgrad.func.batching import batch_op

        return batch_op(level, op, args, settings)
    return _grad_op(level, op, args, settings)


def _grad_op(level: Level, op: Any, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """An op inside a grad level: run it on the payloads, record it in the level's graph."""
    number = level.number
    payloads = tuple(a._array if level_number(a) == number else lower(a) for a in args)
    if any(isinstance(p, Variable) for p in payloads):
        level.pure = False
    with below(level):
        # at least the arguments of this level must arrive as tensors, or the op would not know its face
        lifted = tuple(lift(p) if isinstance(a, Variable) else p for a, p in zip(args, payloads, strict=True))
        result = dispatch(op, lifted, settings)
    out = tuple(lower(r) for r in result) if op.outputs != 1 else lower(result)
    face = face_of(op, args)
    assert face is not None
    wrapped = finish(op, args, settings, face, out, level=number)
    # What does not depend on the level's inputs needs no wrapping; but a view must stay with its base, to see its writes.
    if op.view and level_number(args[0]) == number:
        for w in wrapped if op.outputs != 1 else (wrapped,):
            meta_of(w).level = number
        return wrapped
    if op.outputs == 1:
        return wrapped if wrapped._node is not None else result
    return tuple(w if w._node is not None else r for w, r in zip(wrapped, result, strict=True))


def make_leaf(level: Level, t: Any) -> Any:
    """An input of a grad transform: a leaf of the level over the tensor outside."""
    payload = lower(t)
    if isinstance(payload, Variable):
        level.pure = False
    leaf = wrap(t.face, payload)
    leaf._storage = t._storage
    meta = meta_of(leaf)
    meta.requires_grad = True
    meta.level = level.number
    return leaf


def unwrap(level: Level, t: Any) -> Any:
    """A result of a transformed function as the levels below see it."""
    if isinstance(t, Variable) and level_number(t) == level.number:
        return forward_ad.hand_down(t, lift(t._array), lambda tangent: unwrap(level, tangent))
    return t
