"""Parts of an array that are not views: picked by an index per vmap sample, or by an index known only at call time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ndgrad._src.core.variable import meta_of
from ndgrad._src.core.versions import storage_of

if TYPE_CHECKING:
    from ndgrad._src.core.variable import Variable


class Picked:
    """Link from a part to its array, for a part that an index picks per vmap sample: `a[i]` with a batched `i`.

    NumPy's `a[i]` is a view of the sample. The parts of several samples do not lie in memory at regular distances, so
    here the part is a copy that behaves like the view. After a write to the array, the part is picked again on its next
    use. A write to the part is copied back into the array. A trace also copies writes back, but it cannot use the part
    after a write to the array (`TracedArray.note_pick`).
    """

    __slots__ = ("base", "put", "storage", "take", "version")

    def __init__(self, source: Variable, take: Callable[[], Any], put: Callable[[Any], None]) -> None:
        self.take, self.put = take, put
        info = None if source._meta is None else source._meta.view
        self.base = source if info is None else info.base
        self.renew()

    def renew(self) -> None:
        """Mark the part as equal to the current content of the array."""
        self.storage = storage_of(self.base)
        self.version = self.storage.version

    @property
    def is_stale(self) -> bool:
        return self.base._storage is not self.storage or self.storage.version is not self.version


def note_pick(part: Variable, picked: Picked) -> None:
    """Mark a tensor as a part that was picked just now."""
    meta_of(part).picked = picked
    array = part._array
    if hasattr(array, "note_pick"):  # a traced array of the compiler
        array.note_pick(picked.base._array)


def is_picked(t: Variable) -> bool:
    """True if a tensor was picked from an array, or is a view of such a tensor."""
    meta = t._meta
    if meta is None:
        return False
    part = t if meta.view is None else meta.view.base
    return part._meta is not None and part._meta.picked is not None


def follow_pick(t: Variable) -> Picked | None:
    """Update a tensor that was picked from an array, or a view of one, after writes to the array.

    Return the link to the array; None for other tensors.
    """
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
        from ndgrad._src.interpreters.transform_writes import follow_base  # avoids an import cycle

        follow_base(t)
    return picked
