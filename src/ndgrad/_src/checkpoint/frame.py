"""Non-reentrant checkpointing: saved values are left out of the graph, and computed again when backward needs them.

Note [Frames, holders and reruns]
A checkpointed call has a frame. While its function runs, each value that a node would save is replaced by a holder: a
number and the frame. Otherwise the graph is ordinary, so everything that works on graphs works. When backward unpacks
the first holder, the frame runs the function again under hooks that count the same way, and keeps each value whose
holder is still alive. The other holders of the frame then find their values. Recomputed values belong to the backward
pass that needed them (or to a GraphExecGroup) and die with it, even if it fails.

A rerun stops when it has seen the last value that is needed (early stop). It is left by an exception that derives
from BaseException, so that an `except Exception` in the user's function does not catch it.

The arguments are kept as a backward node keeps its inputs: with their versions, and through the hooks active outside.
So a checkpoint inside a checkpoint holds nothing itself: its arguments are holders of the outer frame.

Note [Transforms inside a frame]
A transform that the function opens ends inside it, and so does its backward. The values saved by its graph need not
be left out. They could not be recomputed either: a rerun opens another level, whose tensors have no history in the
graph of the first run. So a frame leaves out only values saved by graphs around the call: those of the transforms that
were open, and the one outside of transforms.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, Self

from ndgrad._src.checkpoint.randomness import RandomState
from ndgrad._src.checkpoint.trace import (
    CheckpointError,
    Description,
    OpTrace,
    add_traces,
    count_error,
    describe,
    difference_error,
    overwritten_error,
)
from ndgrad._src.core.borrowed_memory import SMALL, Lent, may_change, sample
from ndgrad._src.core.grad_mode import enable_grad
from ndgrad._src.core.modes import SavedHooks, restore, scope, section, thread, under_autocast
from ndgrad._src.core.node import make_node
from ndgrad._src.core.op_observers import observing
from ndgrad._src.core.open_levels import note_joins, reopen_levels
from ndgrad._src.core.saved import old_payload
from ndgrad._src.core.saved_hooks import saved_tensors_hooks
from ndgrad._src.core.stored_tensors import tangents_now
from ndgrad._src.core.subclass import copy_attributes
from ndgrad._src.core.variable import Variable, edge, meta_of, twin
from ndgrad._src.core.versions import kept_storage, storage_of
from ndgrad._src.custom_functions.function import FunctionNode
from ndgrad._src.foundations.locks import make_lock
from ndgrad._src.foundations.public_path import set_module
from ndgrad._src.interpreters.forward_ad import forget_closed, set_tangent, tangent_of
from ndgrad._src.interpreters.levels import level_number
from ndgrad._src.ops.vocabulary import tensor_ops

Contexts = Callable[[], tuple[AbstractContextManager[Any], AbstractContextManager[Any]]]


class Arguments(FunctionNode):
    """The arguments of a checkpointed call; its tensors are saved as a node saves its inputs."""

    function = None  # type: ignore[assignment]  # no gradient passes this node
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    tangents: tuple[dict[int, Any] | None, ...]

    @classmethod
    def save(cls, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
        tensors = tuple(v for v in (*args, *kwargs.values()) if isinstance(v, Variable))
        level = max(
            map(level_number, tensors), default=0
        )  # Hooks around an inner transform do not apply to its tensors.
        made = make_node(cls, tuple(edge(t) for t in tensors), level=level)
        made.args = tuple(_HERE if isinstance(a, Variable) else a for a in args)
        made.kwargs = {k: _HERE if isinstance(v, Variable) else v for k, v in kwargs.items()}
        made._to_save = tensors
        made._keep(tensors, [])
        made.tangents = tuple(tangents_now(t, copied=t.keeps_saved or thread.copy_on_write) for t in tensors)
        return made

    def call(self, function: Callable[..., Any]) -> Any:
        tensors = iter([_restore_tangents(t, held) for t, held in zip(self.saved_tensors, self.tangents, strict=True)])
        args = [next(tensors) if a is _HERE else a for a in self.args]
        kwargs = {k: next(tensors) if v is _HERE else v for k, v in self.kwargs.items()}
        return function(*args, **kwargs)


def _restore_tangents(t: Any, held: dict[int, Any] | None) -> Any:
    """Return an unpacked argument with the tangents that it had."""
    for number, tangent in (held or {}).items():
        if tangent_of(t, number) is None:
            t = set_tangent(tensor_ops.alias(t), tangent, number)
    return t


_HERE = object()


class Holder:
    """Placeholder of a saved value in the graph."""

    __slots__ = ("__weakref__", "frame", "number")

    def __init__(self, frame: Frame, number: int) -> None:
        self.frame = frame
        self.number = number


class Kept:
    """A recomputed value, with the version of its memory at the time it was saved."""

    __slots__ = ("sample", "storage", "tensor", "version")

    def __init__(self, t: Any) -> None:
        self.storage = kept_storage(t) if t.keeps_saved else storage_of(t)
        self.tensor = twin(t)
        self.tensor._storage = self.storage
        if t._meta is not None:
            meta_of(self.tensor).path = t._meta.path if t._meta.view is None else t._meta.view.path
        # An argument of an inner checkpoint keeps its attributes.
        copy_attributes(t, self.tensor)
        self.version = self.storage.version
        # See Note [Lent memory]: the rest of the rerun may write to it.
        array = self.tensor._array
        self.sample: int | bytes | None = None
        if t._storage.__class__ is Lent and may_change(array):
            if array.nbytes <= SMALL:
                self.tensor._array = array.copy()
            else:
                self.sample = sample(array)

    def value(self, what: Description) -> Any:
        if self.storage.version is self.version:
            if self.sample is not None and sample(self.tensor._array) != self.sample:
                raise overwritten_error(what, "a write of NumPy's")
            return self.tensor
        undo = self.version.undo
        if (
            self.storage.keeps
            and undo is not None
            and (undo[0] is None or not isinstance(self.tensor._array, Variable))
        ):
            old = twin(self.tensor)  # In a transform, the write has left the old payload.
            old._array = (
                self.storage.restore(old._array, self.version)
                if undo[0] is not None
                else old_payload(self.tensor, undo[2])
            )
            return old
        raise overwritten_error(what, self.storage.version.writer)


class Stop(BaseException):
    """Leaves a function whose rerun has seen all needed values."""

    def __init__(self, rerun: Rerun) -> None:
        super().__init__()
        self.rerun = rerun


class Frame:
    """One checkpointed call: the function to run it again, and descriptions of its saved values."""

    def __init__(
        self, again: Callable[[], Any], level: int, *, early_stop: bool, check: bool, trace: OpTrace | None
    ) -> None:
        self.again = again
        self.level = level  # innermost transform around the call
        self.early_stop = early_stop
        self.check = check
        self.trace = trace
        self.complete = False
        self.holders: list[weakref.ref[Holder]] = []
        self.saved: list[Description] = []
        #: backward pass -> recomputed values that have not been used yet
        self.values: weakref.WeakKeyDictionary[Any, dict[int, Kept]] = weakref.WeakKeyDictionary()
        self.lock = make_lock()  # The threads of one backward pass share recomputed values.

    def pack(self, value: Any) -> Holder:
        holder = Holder(self, len(self.holders))
        self.saved.append(describe(value))
        self.holders.append(weakref.ref(holder))
        return holder

    def unpack(self, holder: Holder) -> Any:
        number = holder.number
        with self.lock:
            owner = GraphExecGroup.current() or thread.task or _SingleUse()
            values = self.values.get(owner)
            if values is None:
                values = self.values[owner] = {}
                wanted = {i for i, ref in enumerate(self.holders) if ref() is not None}
            else:
                if number not in values and GraphExecGroup.current() is owner:
                    raise RuntimeError(
                        "Performing two backward calls that overlap (i.e. require the same saved activation in order "
                        "to compute gradients) is not allowed while under the GraphExecGroup context: "
                        f"{self.saved[number]}. Leave the context between the two calls. [nd-checkpoint]"
                    )
                wanted = {number}  # A second request: the other values have been used.
            if number not in values:
                try:
                    Rerun(self, wanted, values).run()
                except BaseException:
                    del self.values[owner]
                    raise
            return values.pop(number).value(self.saved[number])


class Rerun:
    """Another run of a frame's function, for the values that it saves."""

    def __init__(self, frame: Frame, wanted: set[int], values: dict[int, Kept]) -> None:
        self.frame = frame
        self.wanted = wanted
        self.values = values
        self.count = 0
        #: Before the function has ended, backward and the rerun only need the values saved so far.
        self.total = len(frame.holders)
        self.stops = frame.early_stop or not frame.complete
        self.error: CheckpointError | None = None
        self.trace = None if frame.trace is None else OpTrace()

    def run(self) -> None:
        frame = self.frame
        try:
            with ExitStack() as stack:
                if self.trace is not None:
                    stack.enter_context(observing(self.trace))
                stack.enter_context(_hooks(self.pack, _identity, frame.level))
                frame.again()
        except Stop as stop:
            if stop.rerun is not self:
                raise
        except CheckpointError as raised:
            if raised is not self.error:
                raise  # belongs to another frame
        if self.error is None and self.count != self.total:
            self.error = count_error(frame.saved[: self.total], self.count)
        if self.error is not None:
            if frame.trace is not None and self.trace is not None:
                raise add_traces(self.error, frame.trace, self.trace)
            raise self.error

    def pack(self, value: Any) -> Any:
        number, self.count = self.count, self.count + 1
        kept = Kept(value)
        if number < self.total:
            frame = self.frame
            if frame.check:
                again = describe(value)
                if again != frame.saved[number] and self.error is None:
                    self.error = difference_error(number, frame.saved[number], again)
                    raise self.error
            if number in self.wanted:
                self.values[number] = kept
            if self.stops and self.count == self.total:
                raise Stop(self)
        return kept.tensor


class _SingleUse:
    """Owner of values recomputed outside any backward pass, for a single use."""


def _identity(value: Any) -> Any:
    return value


class _FrameHooks(saved_tensors_hooks):
    """Hooks that leave saved values out (see Note [Transforms inside a frame])."""

    def __init__(self, frame: Frame) -> None:
        super().__init__(frame.pack, _unpack_holder)
        self.level = frame.level


@contextmanager
def _hooks(pack: Callable[[Any], Any], unpack: Callable[[Any], Any], level: int) -> Iterator[None]:
    """Set saved-tensor hooks for a rerun, even if users may not set any."""
    outside = scope()
    try:
        hooks = (*outside.modes.saved_hooks, SavedHooks(pack, unpack, level))
        restore(outside.with_changes(entered=outside.modes.entered + 1, saved_hooks=hooks))
        yield
    finally:
        restore(outside)
        del outside


@section
def run_checkpointed(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    preserve_rng_state: bool,
    context_fn: Contexts,
    check: bool,
    debug: bool,
    early_stop: bool,
) -> Any:
    """Call `function` without keeping its saved values."""
    forward_context, recompute_context = context_fn()
    if not thread.grad_enabled:
        return function(*args, **kwargs)
    arguments = Arguments.save(args, kwargs)
    random = RandomState((*args, *kwargs.values())) if preserve_rng_state else None
    joins, autocast = note_joins(), thread.autocast

    def again() -> Any:
        levels, duals = joins.stacks
        with ExitStack() as stack:
            if thread.autocast is not autocast:
                stack.enter_context(under_autocast(autocast))
            if levels != thread.levels or duals != thread.dual_stack:  # Backward runs outside of these transforms.
                stack.callback(forget_closed)
                stack.enter_context(reopen_levels(levels, duals))
            if random is not None:
                stack.enter_context(random.restore())
            stack.enter_context(enable_grad())
            stack.enter_context(recompute_context)
            return arguments.call(function)

    innermost = thread.levels[-1].number if thread.levels else 0
    frame = Frame(again, innermost, early_stop=early_stop, check=check, trace=OpTrace() if debug else None)
    with ExitStack() as stack:
        if frame.trace is not None:
            stack.enter_context(observing(frame.trace))
        stack.enter_context(joins)
        stack.enter_context(_FrameHooks(frame))
        stack.enter_context(forward_context)
        out = function(*args, **kwargs)
    frame.complete = True
    return out


def _unpack_holder(holder: Holder) -> Any:
    return holder.frame.unpack(holder)


@set_module("ndgrad.utils.checkpoint")
class GraphExecGroup:
    """Context in which several backward calls share recomputations.

    Each checkpointed function runs again at most once for all backward passes in the block, provided that no two of
    them need the same saved value.

    >>> import ndgrad
    >>> from ndgrad.utils.checkpoint import GraphExecGroup, checkpoint
    >>> calls = []
    >>> def two(x):
    ...     calls.append(1)
    ...     return x.sin(), x.cos()
    >>> x = ndgrad.ones(2, requires_grad=True)
    >>> a, b = checkpoint(two, x, use_reentrant=False)
    >>> with GraphExecGroup():
    ...     a.sum().backward()
    ...     b.sum().backward()
    >>> len(calls)
    2
    """

    _state = threading.local()

    def __enter__(self) -> Self:
        if self.current() is not None:
            raise RuntimeError(
                "GraphExecGroup contexts cannot be nested: one is open in this thread. Use that one. [nd-call-order]"
            )
        self._state.group = self
        return self

    def __exit__(self, *exc: object) -> None:
        self._state.group = None

    @classmethod
    def current(cls) -> GraphExecGroup | None:
        found: GraphExecGroup | None = getattr(cls._state, "group", None)
        return found
