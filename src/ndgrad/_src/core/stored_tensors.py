"""The objects that a graph keeps for saved tensors, if not the tensors themselves.

For a view, this is a tensor without its base (`without_base`), which refers to the view only weakly. For a transform's
tensor, it is a tensor of the transform's level (`keep_in_level`). For memory that NumPy may write, it is a small copy,
or a checksum in addition (Note [Lent memory]). With saved-tensor hooks, it is a `Packed` with the result of the pack
hook. ndgrad._src.core.saved returns the values to the rules.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.core.borrowed_memory import SMALL, Lent, may_change, sample
from ndgrad._src.core.modes import modes, process, restore, scope, thread
from ndgrad._src.core.variable import Meta, Variable, edge, new, requires_grad, wrap
from ndgrad._src.core.versions import Storage, Version, kept_storage, storage_of
from ndgrad._src.core.view import tangents_of
from ndgrad._src.foundations import registry
from ndgrad._src.ops.vocabulary import tensor_ops

if TYPE_CHECKING:
    from ndgrad._typing import Payload


class Packed:
    """A saved value with a check or a hook: packed by hooks, watched (guard mode, Note [Lent memory]), or freed."""

    __slots__ = (
        "below", "checksum", "edge", "is_output", "level", "measure", "packed", "shape", "storage", "tangents",
        "unpack_hook", "version",
    )  # fmt: skip

    def __init__(
        self,
        packed: object,
        unpack_hook: Callable[..., Any] | None,
        is_output: bool = False,
        checksum: int | bytes | None = None,
        measure: Callable[..., Any] | None = None,
    ) -> None:
        self.packed: Any = packed
        self.unpack_hook: Any = unpack_hook
        self.is_output = is_output
        #: Checksum of the memory at saving, in guard mode and for lent memory (the bytes of small lent memory), and the
        #: function that computes it.
        #: `packed` is then the value itself.
        self.checksum = checksum
        self.measure: Any = measure
        #: The packed memory and its version: a hook that returns the tensor itself does not hide later writes.
        self.storage: Any = None
        self.version: Version | None = None
        self.shape: tuple[int, ...] | None = None
        #: Transform level of the tensor, if the hook returned the tensor itself: a write may move it to another level.
        self.level: int | None = None
        #: True if the tensor had a history or tangent outside its transform, which cannot be restored like its own.
        self.below = False
        #: History and tangents of a tensor from a level below the node's; the unpacked tensor gets them back.
        self.edge: Any = None
        self.tangents: dict[int, Any] | None = None

    def watch(self, value: Variable, level: int) -> None:
        """Remember facts about a saved tensor that its hook may hide, for a node of `level`.

        These are the version of its memory, which the hook's result may still share, and its history outside the node's
        graph.
        """
        self.storage = kept_storage(value) if value.keeps_saved or thread.copy_on_write else storage_of(value)
        self.version = self.storage.version
        self.shape = tuple(value.shape)
        self.level = registry.level_number(value) if self.packed is value and process.open else None
        self.below = isinstance(value._array, Variable) and has_history(value._array)
        if level and not is_of_level(value, level):
            self.edge, self.tangents = edge(value), tangents_now(value, copied=False)

    def unpack(self) -> Any:
        """Return the hook's tensor. The hook runs in the pass's grad mode, which the raw-array path does not set."""
        task = thread.task
        outside = scope()
        try:
            restore(outside.recording(thread.grad_enabled and (task is None or task.path != "arrays")))
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


def has_history(t: Variable) -> bool:
    """True if a payload has a tangent, or a history in the graph of any level."""
    while isinstance(t, Variable):
        if requires_grad(t) or tangents_of(t):
            return True
        t = t._array
    return False


FREED = Packed(None, None)
_reference = weakref.ref


class KeptMeta(Meta):
    """Metadata of the tensor that a graph keeps for another tensor. `original` is that other tensor, held weakly."""

    __slots__ = ("original",)
    original: weakref.ref[Any]

    # The other fields are class attributes with the values of a new tensor: one is made for every saved view.
    requires_grad = False
    accumulator = None
    output_nr = 0
    view = None
    tangents = None
    level = 0
    batch_level = 0


def without_base(t: Variable) -> Any:
    """Return the tensor that a graph keeps for `t`: for a view, a tensor with its value and history, without its base.

    After a write to the base, its new history may lead to this graph, and the two would keep each other alive. For lent
    memory, see Note [Lent memory].
    """
    if t._storage.__class__ is Lent:
        return keep_lent(t, strip_base(t))
    return t if t._meta is None else strip_base(t)


def strip_base(t: Variable) -> Variable:
    """Same as `without_base`, without the treatment of lent memory."""
    meta = t._meta
    if meta is None or meta.requires_grad or meta.level or meta.batch_level or t.__class__ is not t.tensor_type:
        return t
    view = meta.view
    if view is None:  # a write may move it to another level and change its payload, so keep the present one
        return _make_kept(t, meta) if meta.made_in and t.keeps_saved else t
    kept = view.kept
    if kept is None or kept._node is not t._node or kept._array is not t._array:
        kept = view.kept = _make_kept(t, meta)
    return kept


def keep_in_level(t: Variable, level: int) -> Any:
    """Return the tensor that the graph of a transform's level keeps for `t`.

    For a view, and for any tensor if writes after a save are allowed, it is another tensor with the present payload,
    history and tangents. A write may move a view to another level. Memory can be rebuilt after a write, but payload,
    history and tangents cannot.
    """
    if t._storage.__class__ is Lent:
        return keep_lent(t, _keep_in_level(t, level))
    meta = t._meta
    return t if meta is not None and meta.requires_grad else _keep_in_level(t, level)


def _keep_in_level(t: Any, level: int) -> Variable:
    meta, keeps = t._meta, t.keeps_saved or modes().copy_on_write
    if (meta is None and not keeps) or t.__class__ is not t.tensor_type:
        return t
    if meta is None:
        return _make_kept(t, meta)
    if meta.requires_grad or not (keeps or meta.view is not None):
        return t
    kept = _make_kept(t, meta)
    own: Any = kept._meta
    own.level, own.batch_level = level if is_of_level(t, level) else meta.level, meta.batch_level
    own.tangents = tangents_now(t, keeps)
    return kept


def keep_lent(t: Any, kept: Variable, hooked: bool = False) -> Variable | Packed:
    """Return the saved form of a tensor over lent memory, for which a graph keeps `kept`; `hooked`: for a pack hook."""
    array = t._array
    if thread.guard or not may_change(array):
        return kept
    meta = t._meta
    if t.keeps_saved and array.nbytes <= SMALL and t._node is None and (meta is None or not _has_more(meta)):
        copy = wrap(t.__class__, array.copy())
        copy._storage = storage = Storage()
        storage.version, storage.keeps = t._storage.version, True  # the version identifies the saved value for the node
        return copy
    return kept if hooked else Packed(kept, None, checksum=sample(array), measure=sample)


def _has_more(meta: Meta) -> bool:
    """True if a tensor with this metadata is more than its values. A view is judged by its base."""
    if meta.requires_grad or meta.level or meta.batch_level or meta.tangents or meta.path is not None:
        return True
    if meta.view is None:
        return False
    base = meta.view.base
    return base._node is not None or (base._meta is not None and _has_more(base._meta))


def keep_array(value: Payload) -> Payload:
    """Return the saved form of an argument that is not a tensor. For a user's array, see Note [Lent memory]."""
    if value.__class__ is not np.ndarray or thread.guard or not may_change(value):
        return value
    return value.copy() if value.nbytes <= SMALL else Packed(value, None, checksum=sample(value), measure=sample)


def tangents_now(t: Variable, copied: bool) -> dict[int, Any] | None:
    """Return the tangents of a tensor; copies, if a later write must not reach them."""
    tangents = tangents_of(t)
    return {n: copy_tangent(tangent) for n, tangent in tangents.items()} if tangents and copied else tangents


def copy_tangent(t: Variable) -> Variable:
    """Return a copy of a tangent, made at the level of the tangent, for a saved primal.

    Inside functionalize, results of ops would otherwise belong to its level.
    """
    number = registry.level_number(t) if thread.levels else 0
    for level in thread.levels:
        if level.kind == "functional" and level.number > number:
            outside = scope()
            try:
                restore(outside.scope_below(level))
                return tensor_ops.clone(t)
            finally:
                restore(outside)
                del outside
    return tensor_ops.clone(t)


def _make_kept(t: Variable, meta: Meta | None) -> Variable:
    kept = new(t.__class__)
    own = kept._meta = new(KeptMeta)
    if meta is not None:  # the path locates it in the base that a write in a transform has left
        own.path = meta.path if meta.view is None else meta.view.path
    kept._array, kept._node, kept._storage, own.original = t._array, t._node, t._storage, _reference(t)
    if meta is not None and (meta.output_nr or meta.names is not None):
        own.output_nr, own.names = meta.output_nr, meta.names
    return kept


def original(t: Variable) -> Variable:
    """Return the tensor from which `without_base` made `t`, if it still exists unchanged; otherwise `t`."""
    if t._meta.__class__ is not KeptMeta:
        return t
    view = t._meta.original()
    return view if view is not None and view._array is t._array and view._storage is t._storage else t


def is_of_level(t: Variable, level: int) -> bool:
    """True if a saved tensor belongs to a level. The level may be closed, so this must not make new history."""
    meta = t._meta
    if meta is not None and meta.batch_level:
        return bool(meta.batch_level == level)
    if t._node is not None:
        return bool(t._node.level == level)
    if meta is None or meta.level:
        return meta is not None and bool(meta.level == level)
    return meta.view is not None and is_of_level(meta.view.base, level)
