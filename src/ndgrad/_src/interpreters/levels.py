"""The stack of function transforms, and what each does to an op.

Note [Levels]
A transform opens a level on this thread's stack. Inside a grad level, tensors that depend on its input carry a graph
of that level: their payload is the tensor of the level below, or a bare array if no level below is concerned. Inside
a vmap level, a batched tensor's payload has one more dimension, in front. An op looks for the innermost level among
its arguments, handles it, and calls itself on the payloads with the stack lowered, so transforms nest to any depth.
Level numbers are never reused, so a tensor that outlives its level is detected.
"""

from __future__ import annotations

from threading import get_ident
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy

from ndgrad._src.core.batched_parts import follow_pick
from ndgrad._src.core.dispatch import dispatch
from ndgrad._src.core.generate import TENSOR_TYPES
from ndgrad._src.core.modes import (
    Modes,
    Scope,
    close_block,
    modes,
    open_block,
    process,
    restore,
    scope,
)
from ndgrad._src.core.open_levels import next_level_number, note_open
from ndgrad._src.core.record import finish
from ndgrad._src.core.sparse_gradients import refuse_sparse
from ndgrad._src.core.variable import ESCAPED, Variable, meta_of, own_level, requires_grad, wrap
from ndgrad._src.core.versions import InferenceStorage, storage_of
from ndgrad._src.core.view import tangents_of
from ndgrad._src.foundations.registry import register
from ndgrad._src.interpreters import forward_ad
from ndgrad._src.ops.table import RANDOM

if TYPE_CHECKING:
    from ndgrad._src.ops.table import Op
    from ndgrad._typing import Payload

_NUMBERS = frozenset((bool, int, float, complex))


class Level:
    """One transform. As a context, it is open during a block and always closed at its end."""

    __slots__ = ("_block", "grad_enabled_before", "number", "outside")

    kind: ClassVar[str]
    #: Number of samples of a vmap; None for other transforms.
    size: int | None = None

    def __init__(self) -> None:
        self.number = next_level_number()

    def __enter__(self) -> Self:
        before = scope()
        self.outside, self.grad_enabled_before = before.modes.levels, before.modes.grad_enabled
        self._block: Scope | None = open_block(self.inside, before)
        note_open(self.number, self._block.modes)
        return self

    def inside(self, modes: Modes) -> Modes:
        """Return the modes inside the transform, given those around it."""
        made = modes.copy()
        made.entered += 1
        made.transforms += 1
        made.levels = (*made.levels, self)
        return made

    def __exit__(self, *exc: object) -> None:
        block = self._block
        assert block is not None
        block.closed, self._block = True, None
        process.open.pop(self.number, None)
        close_block(block)
        block.closed = True  # Unlike other modes, a level is also closed for tasks that were started in it.

    def find_level_in_charge(self, op: Op, args: tuple[Any, ...], number: int) -> Level | None:
        """Return the open level that handles an op next; None if no level is concerned. This level is the innermost
        open one, and `number` is that of the innermost level among the arguments."""
        levels = modes().levels
        if op.batch is RANDOM:
            return next((level for level in reversed(levels) if level.number == number or level.kind != "grad"), None)
        for level in reversed(levels):
            # It sees all ops inside it, because its tensors are values.
            if level.number == number or level.kind == "functional":
                return level
        if number:
            raise RuntimeError(ESCAPED)
        return None

    def enabled_below(self, enabled: bool) -> bool:
        """True if the levels below record operations of this level."""
        return enabled

    def run(
        self,
        op: Op,
        args: tuple[Any, ...],
        settings: dict[str, Any],
        tensor_type: type[Any],
        state: Modes,
        plain: bool,
    ) -> Payload:
        """Run an op whose innermost arguments are of this level. `tensor_type` is the class of its results, and `state`
        holds the active modes; `plain` is True if only transforms are active.
        """
        raise NotImplementedError

    def run_alone(self, op: Op, args: tuple[Any, ...], settings: dict[str, Any]) -> Payload:
        """Fast path of `run` while this is the only open transform; NotImplemented if the general path is needed."""
        return NotImplemented

    def run_function(self, cls: type[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Apply a custom function whose innermost arguments are of this level, unless
        ndgrad._src.transforms.custom_functions does so."""
        raise NotImplementedError

    def value(self, t: Variable) -> Payload:
        """Return the value of a tensor in the levels below, if it differs from its payload."""
        raise NotImplementedError

    def write(self, target: Variable, value: Payload, is_new: bool) -> None:
        """Give a tensor of this level another value, which broadcasts to it, unless
        ndgrad._src.interpreters.transform_writes does so. `is_new`: the value is not shared."""
        raise NotImplementedError


class GradLevel(Level):
    """A level with a graph of its own."""

    __slots__ = ("paused", "pure")

    kind = "grad"

    def __init__(self) -> None:
        super().__init__()
        self.pure = True  # True while all payloads have been bare arrays.
        self.paused: int | None = None  # Thread for which grad is disabled at this level only.

    def inside(self, modes: Modes) -> Modes:
        made = super().inside(modes)
        made.grad_enabled = True
        return made

    def enabled_below(self, enabled: bool) -> bool:
        # A no_grad inside or around the level also holds for all levels below.
        return self.grad_enabled_before and (enabled or (self.paused is not None and self.paused == get_ident()))

    def run(
        self,
        op: Op,
        args: tuple[Any, ...],
        settings: dict[str, Any],
        tensor_type: type[Any],
        state: Modes,
        plain: bool,
    ) -> Payload:
        """Run an op on the payloads, and record it in the level's graph."""
        number = self.number
        if (op.view or op.shares_storage) and isinstance(args[0]._array, numpy.generic):
            storage_of(args[0])  # A NumPy scalar has no memory to view; this allocates some.
        payloads = tuple([a._array if level_number(a) == number else lower(a) for a in args])
        pure = True
        for p in payloads:
            if isinstance(p, Variable):
                pure = self.pure = False
        # The recorder outside of all modes can record the op, apart from the number of the graph.
        recordable = plain and op.has_one_result
        plain = recordable and not op.view
        if recordable and pure and state.levels[0] is self:
            made = op.in_level(*args, level=number, **settings)
            if made is not NotImplemented:
                if (made._node is None or state.levels[-1] is not self) and not is_view(made):
                    meta_of(made).made_in = state.levels[-1].number
                return made
        result = self._run_below(op, args, payloads, settings)
        if plain and op.differentiable and state.grad_enabled:
            made = op.in_level(*args, level=number, made=lower(result), **settings)
            if made is not NotImplemented:
                made = result if made._node is None else made
                meta_of(made).made_in = state.levels[-1].number
                return made
        return self._record(op, args, settings, tensor_type, result, state)

    def run_alone(self, op: Op, args: tuple[Any, ...], settings: dict[str, Any]) -> Payload:
        if not self.pure or not op.has_one_result or op.batch is RANDOM:
            return NotImplemented
        number, concerned = self.number, False
        for a in args:
            kind = a.__class__
            if kind not in TENSOR_TYPES:
                if kind in _NUMBERS:
                    continue
                return NotImplemented
            # Dtypes of torch-style tensors are promoted before the op runs. A view needs memory, which a scalar lacks.
            if not kind.is_numpy_type or not isinstance(a._array, numpy.ndarray):
                if op.view or not kind.is_numpy_type or not isinstance(a._array, numpy.generic):
                    return NotImplemented
            meta = a._meta
            if meta is None:
                node = a._node
                if node is None:
                    continue
                own = node.level
            else:
                if meta.batch_level or meta.tangents:
                    return NotImplemented
                own = level_number(a)
            if own == number:
                concerned = True
            elif own or requires_grad(a):
                return NotImplemented
        if not concerned or not self.grad_enabled_before:
            return NotImplemented
        made = op.in_level(*args, level=number, **settings)
        if made is not NotImplemented and made._node is None and not is_view(made):
            meta_of(made).made_in = number
        return made

    def _run_below(self, op: Op, args: tuple[Any, ...], payloads: tuple[Any, ...], settings: dict[str, Any]) -> Payload:
        """Return the result(s) of an op on the levels below."""
        outside = scope()
        try:
            restore(outside.scope_below(self))
            lifted = [
                as_tensor_below(a, p, self.number) if isinstance(a, Variable) else p
                for a, p in zip(args, payloads, strict=True)
            ]
            return dispatch(op, tuple(lifted), settings, settled=True)
        finally:
            restore(outside)
            del outside

    def _record(
        self,
        op: Op,
        args: tuple[Any, ...],
        settings: dict[str, Any],
        tensor_type: type[Any],
        result: Payload,
        state: Modes,
    ) -> Payload:
        """Record results of the levels below as results of this level."""
        several = op.outputs != 1
        results = result if several else (result,)
        out = finish(
            op,
            args,
            settings,
            tensor_type,
            tuple([lower(r) for r in results]) if several else lower(result),
            level=self.number,
        )
        wrapped = out if several else (out,)
        # Results that do not depend on the level's inputs need no wrapping. A view must stay with its base, to see
        # writes to it.
        if op.view and level_number(args[0]) == self.number:
            for w in wrapped:
                meta_of(w).level = self.number
            return out
        if not op.shares_storage:  # Shared memory may be older than the level.
            for r in results:
                meta_of(r).made_in = state.levels[-1].number
        made = tuple([w if w._node is not None else r for w, r in zip(wrapped, results, strict=True)])
        return made if several else made[0]


def is_view(t: Variable) -> bool:
    return t._meta is not None and t._meta.view is not None


class below:
    """Context that sets the state of the levels under `level`. It is a class, because a generator would double
    the cost."""

    __slots__ = ("level", "outside")

    def __init__(self, level: Level) -> None:
        self.level = level

    def __enter__(self) -> None:
        self.outside = scope()
        restore(self.outside.scope_below(self.level))

    def __exit__(self, *exc: object) -> None:
        restore(self.outside)
        del self.outside  # see Note [Sections]


# ----- level of a tensor ---------------------------------------------------------------------------------------------


def level_number(t: object) -> int:
    """Return the number of the innermost level of a tensor; 0 for an ordinary one."""
    if not isinstance(t, Variable):
        return 0
    meta = t._meta
    if meta is None:
        return 0 if t._node is None else t._node.level
    if meta.picked is not None:
        follow_pick(t)
        meta = meta_of(t)
    if meta.view is not None:
        _follow(t)
    return own_level(t)


def _follow(t: Any) -> None:
    """Bring a view to the current level of its base."""
    view = t._meta.view
    base = view.base
    if base._meta is None:
        number = 0 if base._node is None else base._node.level
    else:
        if base._meta.picked is not None:
            follow_pick(t)
            view = t._meta.view
            base = view.base
        number = level_number(base)
    if number != view.base_level:
        from ndgrad._src.interpreters.transform_writes import follow_base  # imports this module

        follow_base(t)
        return
    if t._meta.batch_level:
        return  # The graph is that of the levels below.
    if view.version != t._storage.version.number:
        view.refresh(t)
    if isinstance(base._array, Variable) and not isinstance(t._array, Variable):
        from ndgrad._src.interpreters.transform_writes import follow_payload  # imports this module

        follow_payload(t)


def find_level(number: int) -> Level:
    """Return the open transform of that number, which may belong to another thread (see Note
    [Threads inside transforms])."""
    elsewhere = process.open.get(number)
    for level in (*modes().levels, *(() if elsewhere is None else elsewhere.levels)):
        if level.number == number:
            return level
    raise RuntimeError(ESCAPED)


def top_level(args: tuple[Any, ...]) -> Level | None:
    number = 0
    for a in args:
        if isinstance(a, Variable) and (a._meta is not None or a._node is not None):
            number = max(number, level_number(a))
    return find_level(number) if number else None


def lower(t: object) -> Payload:
    """Return the payload for a tensor of the levels below: its bare array if it carries nothing else. A tensor of a
    class with its own dispatch is returned unchanged."""
    if not isinstance(t, Variable):
        return t
    meta = t._meta
    if meta is None:
        return t if t._node is not None or t.own_dispatch else t._array
    if meta.batch_level or tangents_of(t) or meta.level or requires_grad(t) or t.own_dispatch:
        return t
    return t._array


# ----- entering and leaving a level -----------------------------------------------------------------------------------


def settle(tensors: list[Any]) -> None:
    """Update the results of a level to their bases while it is still open. A view follows its base lazily, and later
    would be too late."""
    for t in tensors:
        if isinstance(t, Variable) and t._meta is not None and (t._meta.view is not None or t._meta.picked is not None):
            level_number(t)


def make_leaf(level: GradLevel, t: Variable) -> Payload:
    """Return an input of a grad transform: a leaf of the level over the tensor outside."""
    refuse_sparse(t, "grad, vjp, jacrev")
    settle([t])
    payload = lower(t)
    if isinstance(payload, Variable):
        level.pure = False
    leaf = wrap(t.tensor_type, payload)
    _share_memory(leaf, t)
    meta = meta_of(leaf)
    meta.requires_grad = True
    meta.level = level.number
    return leaf


def _share_memory(t: Variable, source: Variable) -> None:
    """Make a tensor over another's memory share its version, because its level may have saved it.

    An inference tensor has no versions and needs none: the level has its own graph. NumPy's scalars are never
    written.
    """
    payload = t._array
    if isinstance(payload, Variable):
        storage_of(t)
    elif not isinstance(payload, numpy.generic) and source._storage.__class__ is not InferenceStorage:
        t._storage = storage_of(source)


def as_tensor_below(t: Variable, payload: Payload, number: int) -> Payload:
    """Return a tensor as an op on the levels below receives it. The op may save it, so it shares the versions of
    its memory."""
    if isinstance(payload, Variable):
        return payload
    if level_number(t) != number:
        return t
    bare, meta = wrap(t.tensor_type, payload), t._meta
    if not isinstance(payload, numpy.generic):  # NumPy's scalars are never written.
        bare._storage = storage_of(t)
        path = None if meta is None else meta.path if meta.view is None else meta.view.path
        if path is not None:
            meta_of(bare).path = path
    return bare


def _payload(t: Variable) -> Payload:
    """Return the payload of a level's tensor, as a tensor of the levels below."""
    if isinstance(t._array, Variable):
        storage_of(t)
        return t._array
    out = wrap(t.tensor_type, t._array)
    _share_memory(out, t)
    return out


def unwrap(level: Level, t: object) -> Payload:
    """Return a result of a transformed function as a tensor of the levels below."""
    if isinstance(t, Variable) and level_number(t) == level.number:
        return forward_ad.hand_down(t, _payload(t), lambda tangent: unwrap(level, tangent))
    return t


register(level_number=level_number)
