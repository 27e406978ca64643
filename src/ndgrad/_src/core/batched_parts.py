"""Parts of an array that are no views, since an index picks them for each sample of a vmap by itself, or, in a function
that is traced, an index that only a call will know."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ndgrad._src.core.variable import meta_of
from ndgrad._src.core.versions import storage_of


class Picked:
    """What makes a tensor a part that an index picks for each sample of a vmap by itself: `a[i]` with a batched `i`.

    NumPy's `a[i]` is a view of the sample. The parts of several samples do not lie in memory at regular distances, so
    here it is a copy that behaves as the view would: it is picked again when next someone looks after the array was
    written, and a write to it is put back into the array. In a trace it is put back, too; to look at it after the array
    was written is beyond a trace (`TracedArray.note_pick`).
    """

    __slots__ = ("base", "put", "storage", "take", "version")

    def __init__(self, source: Any, take: Callable[[], Any], put: Callable[[Any], None]) -> None:
        self.take, self.put = take, put
        info = None if source._meta is None else source._meta.view
        self.base = source if info is None else info.base
        self.renew()

    def renew(self) -> None:
        """The part is now what lies in the array."""
        self.storage = storage_of(self.base)
        self.version = self.storage.version

    @property
    def is_stale(self) -> bool:
        return self.base._storage is not self.storage or self.storage.version is not self.version


def note_pick(part: Any, picked: Picked) -> None:
    """Let a tensor be a part that was picked just now."""
    meta_of(part).picked = picked
    array = part._array
    if hasattr(array, "note_pick"):  # the compiler's
        array.note_pick(picked.base._array)


def is_picked(t: Any) -> bool:
    """Whether a tensor was picked from an array, or is a view of one that was."""
    meta = t._meta
    if meta is None:
        return False
    part = t if meta.view is None else meta.view.base
    return part._meta is not None and part._meta.picked is not None


def follow_pick(t: Any) -> Picked | None:
    """Bring a tensor that was picked from an array, or is a view of one that was, up to date with the
    array; None for all others."""
    meta = t._meta
    if meta is None:
        return None
    info = meta.view
    part = t if info is None else info.base
    picked: Picked | None = None if part._meta is None else part._meta.picked
    if picked is None:
        return None
    if picked.is_stale:
        fresh = picked.take()
        part._array, part._node, part._storage, part._meta = fresh._array, fresh._node, fresh._storage, fresh._meta
        picked = fresh._meta.picked
    if info is not None and t._storage is not part._storage:
        from ndgrad._src.interpreters.transform_writes import follow_base  # which calls this file

        follow_base(t)
    return picked
