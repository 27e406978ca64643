"""Versions of memory: the state at each save, and the writes since.

Note [Versions as a chain]
A storage points at its newest version. A save remembers the version it saw. A write makes a new version and links the
old one forward to it, so the holder of an old version can walk to the present. If the old version is held, the write
first stores there the values that it is about to overwrite. So
  * "was it overwritten?" is one identity test;
  * the error can name the write, because the chain remembers it;
  * torch's tensor class raises, while NumPy's rebuilds the old value by undoing the writes (see `Storage.restore`);
  * there is no registry: versions only point forward, so when the last save of a version is released, its undo data
    are freed by reference counting, and a loop of n writes costs O(n) in all.
"""

from __future__ import annotations

import ctypes
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ndgrad._src.arrays.library import library_of
from ndgrad._src.core.modes import process, thread
from ndgrad._src.core.references import ATTRIBUTE, LOCAL
from ndgrad._src.core.variable import Variable
from ndgrad._src.foundations import registry
from ndgrad._src.foundations.locks import make_lock

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ndgrad._typing import Payload


#: Writer of a version that an assignment to `.data` has made.
REASSIGNED = "an assignment to .data"


class Version:
    """One state of a storage's memory."""

    __slots__ = ("next", "number", "place", "undo", "values", "writer")

    def __init__(self, number: int, writer: str | None = None) -> None:
        self.number = number
        # Number of the version that wrote the values: older than this one if this one changed only a tensor's shape.
        self.values = number
        self.next: Version | None = None
        self.undo: tuple[Any, ...] | None = None  # data to get from `next` back to this version
        self.writer = writer  # the op that made this version
        self.place: Any = None  # the user's frames that called the op, in debug and anomaly mode

    def is_only_reassigned(self) -> bool:
        """True if all later versions are assignments to `.data`, which give a tensor other memory and write nothing."""
        following = self.next
        while following is not None:
            if following.writer is not REASSIGNED:
                return False
            following = following.next
        return True

    def __del__(self) -> None:
        # A chain of a million versions must not be freed by a million nested calls.
        following = self.next
        self.next = None
        while following is not None and sys.getrefcount(following) <= LOCAL:
            following.next, following = None, following.next


class Storage:
    """The memory that several tensors share: its newest version, and a cursor for rebuilding old contents."""

    __slots__ = ("__weakref__", "cursor", "keeps", "version")

    def __init__(self) -> None:
        #: True if old contents are kept for saves (NumPy's tensor class, or allow_mutation_on_saved_tensors).
        self.keeps = False
        self.version = Version(0)
        # Backward requests ever older versions. Continuing from the last `restore` makes a whole backward pass over n
        # writes O(n).
        self.cursor: Cursor | None = None

    def bump(self, writer: str | None = None) -> None:
        """Note that the memory has been written. An unreferenced version is reused as the next one."""
        if sys.getrefcount(self.version) <= ATTRIBUTE:
            new = self.version
            new.number = new.values = new.number + 1
            new.undo, new.writer, new.place = None, writer, None
        else:
            old = self.version
            old.next = self.version = new = Version(old.number + 1, writer)
        if process.busy and thread.remembers:
            new.place = registry.source_lines.user_frames()

    def is_held(self) -> bool:
        """True if a save, or an older version that a save holds, refers to the present version."""
        return sys.getrefcount(self.version) > ATTRIBUTE

    def store_before_write(self, array: NDArray[Any], index: Any = None) -> None:
        """Store the values that are about to be overwritten (`array`, or `array[index]`), if a save may need them."""
        if self.keeps and self.is_held():
            if index is None:
                self.version.undo = (array, None, array.copy())
            else:
                self.version.undo = (array, index, library_of(array).array(array[index]))

    def restore(self, array: NDArray[Any], version: Version) -> NDArray[Any]:
        """Return a copy of `array` (memory of this storage) as it was at `version`.

        A lock protects the cursor, which threads that run backward over one graph share and move.
        """
        if hasattr(array, "copy_at_version"):  # a traced array of the compiler, which knows its old values by version
            return array.copy_at_version(version)
        with restoring:
            return self._restore(array, version)

    def _restore(self, array: NDArray[Any], version: Version) -> NDArray[Any]:
        low, size = _extent(array)
        cursor = self.cursor
        if (
            cursor is not None
            and cursor.low == low
            and len(cursor.memory) == size
            and version.number <= cursor.version.number
        ):
            at, memory = cursor.version, cursor.memory
        else:
            at, memory = self.version, bytearray(ctypes.string_at(low, size))
        undos = []
        step = version
        while step is not at:
            if step.undo is None or step.next is None:
                raise Unrecorded(None if step.next is None else step.next.writer)
            if step.undo[0] is None:  # a write inside a transform has stored the whole old contents
                memory = _fill(array, low, size, step.undo[2])
                break
            undos.append(step.undo)
            step = step.next
        for region, index, old in reversed(undos):
            target = _part_of_copy(region, low, memory)
            if index is None:
                target[...] = old
            else:
                target[index] = old
        self.cursor = Cursor(version, low, memory)
        return _part_of_copy(array, low, memory).copy()


class ScalarStorage(Storage):
    """Memory of a 0-d tensor of NumPy's class that was a NumPy scalar before.

    Note [Saved scalars]
    Most values of a NumPy program with loops are scalars: elements of arrays and their arithmetic. A scalar cannot be
    written, so a graph saves the tensor without a storage and without a version, which takes a third of the time. A
    write to the tensor itself (`x[...] = 1`, `out=x`), which NumPy does not allow for its scalars, makes this storage
    first. It keeps the scalar, which is the saved value of all saves without a version.
    """

    __slots__ = ("scalar",)

    def __init__(self, scalar: np.generic) -> None:
        super().__init__()
        self.scalar = scalar


class InferenceStorage(Storage):
    """Memory of tensors made in inference mode, without versions: access to the version, as in every save, raises.

    So the eager path need not check for inference tensors.
    """

    __slots__ = ()

    def __init__(self) -> None:
        self.keeps = False
        self.cursor = None

    @property
    def version(self) -> Version:  # type: ignore[override]  # a property that raises, in place of the attribute
        raise RuntimeError(
            "Inference tensors cannot be saved for backward: writes to them are not tracked. Use a clone() of "
            "it, made outside inference mode, or make it under no_grad() instead of inference_mode(). [nd-inference]"
        )

    def bump(self, writer: str | None = None) -> None:
        """Do nothing: this memory cannot have been saved."""

    def is_held(self) -> bool:
        return False


class LazyStorage(Storage):
    """Memory of a conjugate ("conj") or a negative ("neg") that torch computes lazily.

    Here it is computed at once. Its tensors still report it (`is_conj`, `is_neg`), because programs query it.
    """

    __slots__ = ("kind",)

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind


class PayloadStorage(Storage):
    """Memory of a transform's tensor whose payload is a tensor of a lower level that other code may hold and write.

    Examples are the argument and the result of a vjp. A write to the payload is a write to this memory. The overwritten
    values are not kept, so an earlier save raises.
    """

    __slots__ = ("own", "payload", "seen")

    def __init__(self, payload: Storage) -> None:
        self.keeps = False
        self.own = Version(0)
        self.cursor = None
        self.payload = payload
        self.seen = payload.version

    @property
    # A property that checks the payload first, in place of the attribute.
    def version(self) -> Version:  # type: ignore[override]
        newest = self.payload.version
        if newest is not self.seen:
            self.seen = newest
            self._follow(newest.writer)
        return self.own

    def bump(self, writer: str | None = None) -> None:
        self.seen = self.payload.version  # a write to this tensor has written the payload
        self._follow(writer)

    def _follow(self, writer: str | None) -> None:
        self.own.next = new = Version(self.own.number + 1, writer)
        self.own = new

    def is_held(self) -> bool:
        return sys.getrefcount(self.own) > ATTRIBUTE


def is_inference(t: Variable) -> bool:
    """True if the memory of a tensor was made in inference mode."""
    return t._storage.__class__ is InferenceStorage


restoring = make_lock()


class Cursor(NamedTuple):
    """State after the last `restore`: a copy of the memory at address `low` as it was at `version`."""

    version: Version
    low: int
    memory: bytearray


class Unrecorded(Exception):
    """Raised for a write whose old contents were not kept."""

    def __init__(self, writer: str | None) -> None:
        super().__init__(writer)
        self.writer = writer


def _extent(array: NDArray[Any]) -> tuple[int, int]:
    """Return the start address and the size in bytes of the memory that `array` is a part of."""
    whole = exporter_of(array)
    if not isinstance(whole, np.ndarray):
        try:
            whole = np.frombuffer(whole, np.uint8)
        except (TypeError, ValueError, BufferError):  # the object does not export its size
            whole = array
            while isinstance(whole.base, np.ndarray):
                whole = whole.base
    low, high = np.lib.array_utils.byte_bounds(whole)
    return low, high - low


def exporter_of(array: NDArray[Any]) -> Any:
    """Return the owner of an array's memory: an array, or the object (a bytearray, a memory map) whose buffer it is."""
    while True:
        base = array.base
        if isinstance(base, memoryview):
            base = base.obj
        if base is None:
            return array
        if not isinstance(base, np.ndarray):
            # This base was made by as_strided.
            base = getattr(base, "base", None) if isinstance(getattr(base, "base", None), np.ndarray) else base
        if not isinstance(base, np.ndarray):
            return base
        array = base


def _fill(array: NDArray[Any], low: int, size: int, value: Payload) -> bytearray:
    """Return a copy of the memory that `array` is a part of, filled with the elements of a tensor."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    while not isinstance(value, np.ndarray):
        value = value._array
    memory = bytearray(size)
    if value.shape != array.shape:
        raise Unrecorded(None)
    _part_of_copy(array, low, memory)[...] = value
    return memory


def _part_of_copy(region: NDArray[Any], low: int, memory: bytearray) -> NDArray[Any]:
    """Return the part of a copy of the memory that corresponds to `region`."""
    offset = region.__array_interface__["data"][0] - low
    return np.ndarray(region.shape, region.dtype, buffer=memory, offset=offset, strides=region.strides)


def storage_of(t: Variable) -> Storage:
    """Return the storage of a tensor, made when its memory is first viewed, written or shared.

    If the node that made the tensor saved it as its output, the node is notified. It cannot hold the tensor itself
    (that would be a cycle), so this is the way to detect later writes.
    """
    storage: Storage | None = t._storage
    if storage is None:
        with _making:
            storage = t._storage
            if storage is None:
                storage = t._storage = _make_storage(t)
    return storage


#: Classes of NumPy scalars with derivatives.
SCALARS: frozenset[type] = frozenset((np.float64, np.float32, np.complex128, np.complex64))

# Threads that take views of one tensor must agree on its storage.
_making = make_lock()


def _make_storage(t: Variable) -> Storage:
    payload = t._array
    made = PayloadStorage(storage_of(payload)) if isinstance(payload, Variable) else Storage()
    if isinstance(payload, np.generic):
        t._array = np.asarray(payload)
        if t.keeps_saved:
            made = ScalarStorage(payload)
    node = t._node
    announce = None if node is None else getattr(node, "announce_storage", None)
    return announce(t, made) if announce is not None else made


def version_number(t: Variable) -> int:
    storage: Storage | None = t._storage
    if storage is None and t._node is not None:
        storage = storage_of(t)  # the node may know the storage of another tensor over the same memory
    return 0 if storage is None else storage.version.number


def kept_storage(t: Variable) -> Storage:
    """Return the storage of a tensor that is being saved and whose saved value must survive later writes."""
    storage: Storage | None = t._storage
    if storage is None:
        storage = storage_of(t)
    storage.keeps = True
    return storage
