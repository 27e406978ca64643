"""What a graph keeps of a tensor, where that is not the tensor itself.

Of a view, it is a tensor without its base (`without_base`), which knows the view only weakly; of a transform's tensor,
one of its level (`kept_in_level`); of memory that NumPy may write, a small copy, or a checksum beside it (Note [Lent
memory]); with saved-tensor hooks, a `Packed` that holds what the pack hook returned. How rules get the value back is
the subject of ndgrad._src.core.saved.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from ndgrad._src.core.borrowed_memory import SMALL, Lent, may_change, sample
from ndgrad._src.core.modes import modes, process, restore, scope, thread
from ndgrad._src.core.variable import Meta, Variable, edge, new, requires_grad, wrap
from ndgrad._src.core.versions import Storage, Version, kept_storage, storage_of
from ndgrad._src.core.view import tangents_of
from ndgrad._src.foundations import registry
from ndgrad._src.ops.vocabulary import tensor_ops


class Packed:
    """A saved value that is not simply there: packed by hooks, watched (guard mode, Note [Lent memory]), or freed."""

    __slots__ = (
        "below", "checksum", "edge", "is_output", "level", "measure", "packed", "shape", "storage", "tangents",
        "unpack_hook", "version",
    )  # fmt: skip

    def __init__(
        self, packed: Any, unpack_hook: Any, is_output: bool = False, checksum: int | None = None, measure: Any = None
    ) -> None:
        self.packed = packed
        self.unpack_hook = unpack_hook
        self.is_output = is_output
        #: Of the memory when it was saved, in guard mode and of lent memory, with the function that gives it; `packed`
        #: is then the value itself.
        self.checksum = checksum
        self.measure = measure
        #: The memory that was packed and its version then: a hook that only passes the tensor on
        #: does not hide later writes.
        self.storage: Any = None
        self.version: Version | None = None
        self.shape: tuple[int, ...] | None = None
        #: The transform that the tensor belonged to, if the hook passed it on: a write may bring it to another.
        self.level: int | None = None
        #: Whether it had a history, or a tangent, outside its transform, which cannot be given back as
        #: that of its own graph is.
        self.below = False
        #: Of a tensor of a level below the node's: its history and its tangents, which the unpacked one gets back.
        self.edge: Any = None
        self.tangents: dict[int, Any] | None = None

    def watch(self, value: Any, level: int) -> None:
        """Remember what the hook may hide of the tensor that a node of `level` saves: the version of its memory, which
        may still be what the hook returned, and the history that it has outside the node's graph."""
        self.storage = kept_storage(value) if value.keeps_saved or thread.copy_on_write else storage_of(value)
        self.version = self.storage.version
        self.shape = tuple(value.shape)
        self.level = registry.level_number(value) if self.packed is value and process.open else None
        self.below = isinstance(value._array, Variable) and has_history(value._array)
        if level and not is_of_level(value, level):
            self.edge, self.tangents = edge(value), tangents_now(value, copied=False)

    def unpack(self) -> Any:
        """What the hook makes of it, in the pass's grad mode, which the lane on raw arrays does not
        set for the whole pass."""
        task = thread.task
        outside = scope()
        try:
            restore(outside.recording(thread.grad_enabled and (task is None or task.lane != "arrays")))
            value = self.unpack_hook(self.packed)
        finally:
            restore(outside)
            del outside
        if not isinstance(value, Variable):
            raise TypeError(
                "Output of saved tensor unpack_hook expected to be a Tensor but got result of type "
                f"{type(value).__name__}. Return the tensor that was packed, or one equal to it. [nd-saved-hook]"
            )
        if self.shape is not None and tuple(value.shape) != self.shape:
            raise RuntimeError(
                f"the unpack hook of saved_tensors_hooks returned a tensor of shape {tuple(value.shape)} for a saved "
                f"one of shape {self.shape}. Return the tensor that was packed, or one equal to it. [nd-saved-hook]"
            )
        return value


def has_history(t: Any) -> bool:
    """Whether a payload has a history in the graph of any level, or a tangent."""
    while isinstance(t, Variable):
        if requires_grad(t) or tangents_of(t):
            return True
        t = t._array
    return False


FREED = Packed(None, None)
_reference = weakref.ref


class KeptMeta(Meta):
    """The metadata of what a graph keeps of a tensor. `original` is that, for as long as somebody else holds it."""

    __slots__ = ("original",)
    original: weakref.ref[Any]

    # Of all else it has what a fresh tensor has, in the class: these are made wherever a view is saved.
    requires_grad = False
    accumulator = None
    output_nr = 0
    view = None
    tangents = None
    level = 0
    batch_level = 0


def without_base(t: Any) -> Any:
    """What a graph keeps of a tensor: of a view, a tensor with its value and history that does not know its base. When
    that is written, its new history may lead to this graph, and the two would keep each other alive. Of lent memory,
    see Note [Lent memory]."""
    if t._storage.__class__ is Lent:
        return kept_of_lent(t, unbased(t))
    return t if t._meta is None else unbased(t)


def unbased(t: Any) -> Any:
    """The same, whoever else may write the memory."""
    meta = t._meta
    if meta is None or meta.requires_grad or meta.level or meta.batch_level or t.__class__ is not t.face:
        return t
    view = meta.view
    if view is None:  # one that a write may bring to another level, whose payloads it then has, is kept as it is now
        return _kept(t, meta) if meta.made_in and t.keeps_saved else t
    kept = view.kept
    if kept is None or kept._node is not t._node or kept._array is not t._array:
        kept = view.kept = _kept(t, meta)
    return kept


def kept_in_level(t: Any, level: int) -> Any:
    """What the graph of a transform's level keeps of a tensor. Of a view, and of any tensor where writes after a save
    are allowed, it is another one with the payload, the history and the tangents that it has now: a write leaves the
    memory to be rebuilt, and not these, and may bring a view to another level."""
    if t._storage.__class__ is Lent:
        return kept_of_lent(t, _kept_in_level(t, level))
    meta = t._meta
    return t if meta is not None and meta.requires_grad else _kept_in_level(t, level)


def _kept_in_level(t: Any, level: int) -> Any:
    meta, keeps = t._meta, t.keeps_saved or modes().copy_on_write
    if (meta is None and not keeps) or t.__class__ is not t.face:
        return t
    if meta is None:
        return _kept(t, meta)
    if meta.requires_grad or not (keeps or meta.view is not None):
        return t
    kept = _kept(t, meta)
    own = kept._meta
    own.level, own.batch_level = level if is_of_level(t, level) else meta.level, meta.batch_level
    own.tangents = tangents_now(t, keeps)
    return kept


def kept_of_lent(t: Any, kept: Any, hooked: bool = False) -> Any:
    """What is saved of a tensor over lent memory, of which a graph keeps `kept`; `hooked`:
    what a pack hook is given."""
    array = t._array
    if thread.guard or not may_change(array):
        return kept
    meta = t._meta
    if t.keeps_saved and array.nbytes <= SMALL and t._node is None and (meta is None or not _has_more(meta)):
        copy = wrap(t.__class__, array.copy())
        copy._storage = storage = Storage()
        storage.version, storage.keeps = t._storage.version, True  # by which the node knows what it has saved
        return copy
    return kept if hooked else Packed(kept, None, checksum=sample(array), measure=sample)


def _has_more(meta: Meta) -> bool:
    """Whether a tensor with this metadata is more than its values. A view is what its base is."""
    if meta.requires_grad or meta.level or meta.batch_level or meta.tangents or meta.path is not None:
        return True
    if meta.view is None:
        return False
    base = meta.view.base
    return base._node is not None or (base._meta is not None and _has_more(base._meta))


def kept_of_array(value: Any) -> Any:
    """What is saved of an argument that is no tensor: of an array of the user's, see Note [Lent memory]."""
    if value.__class__ is not np.ndarray or thread.guard or not may_change(value):
        return value
    return value.copy() if value.nbytes <= SMALL else Packed(value, None, checksum=sample(value), measure=sample)


def tangents_now(t: Any, copied: bool) -> dict[int, Any] | None:
    """The tangents of a tensor; copies, if a later write to it must not reach them."""
    tangents = tangents_of(t)
    return {n: copied_tangent(tangent) for n, tangent in tangents.items()} if tangents and copied else tangents


def copied_tangent(t: Any) -> Any:
    """A copy of a tangent for who saves its primal, of the level of the tangent: inside functionalize, what is
    computed belongs to that."""
    number = registry.level_number(t) if thread.levels else 0
    for level in thread.levels:
        if level.kind == "functional" and level.number > number:
            outside = scope()
            try:
                restore(outside.under(level))
                return tensor_ops.clone(t)
            finally:
                restore(outside)
                del outside
    return tensor_ops.clone(t)


def _kept(t: Any, meta: Meta | None) -> Any:
    kept = new(t.__class__)
    own = kept._meta = new(KeptMeta)
    if meta is not None:  # by the path it is found in what a write in a transform leaves of the base
        own.path = meta.path if meta.view is None else meta.view.path
    kept._array, kept._node, kept._storage, own.original = t._array, t._node, t._storage, _reference(t)
    if meta is not None and (meta.output_nr or meta.names is not None):
        own.output_nr, own.names = meta.output_nr, meta.names
    return kept


def original(t: Any) -> Any:
    """The tensor that was saved, if `t` is what `without_base` made of it and it is still there as it was."""
    if t._meta.__class__ is not KeptMeta:
        return t
    view = t._meta.original()
    return view if view is not None and view._array is t._array and view._storage is t._storage else t


def is_of_level(t: Any, level: int) -> bool:
    """Whether a saved tensor belongs to a level, which may have been closed since, so that no
    history can be made any more."""
    meta = t._meta
    if meta is not None and meta.batch_level:
        return bool(meta.batch_level == level)
    if t._node is not None:
        return bool(t._node.level == level)
    if meta is None or meta.level:
        return meta is not None and bool(meta.level == level)
    return meta.view is not None and is_of_level(meta.view.base, level)
