"""The memory under tensors: storage objects, strided windows on them, and shared versions.

NumPy has no storage object: an array either owns its memory or points, through `base`, at its owner. A storage here
is the owner, seen as a flat run of bytes. Its size is fixed at creation, because NumPy arrays over it may exist that
cannot be found. A larger tensor gets new memory.
"""

from __future__ import annotations

import math
import mmap
import os
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np

from ndgrad._src.arrays import device_faults
from ndgrad._src.arrays.addresses import flat_bytes, owner_of, pointer
from ndgrad._src.arrays.dtypes import as_dtype
from ndgrad._src.arrays.library import is_on_device
from ndgrad._src.arrays.placement import device_of
from ndgrad._src.core.variable import Variable, innermost_array
from ndgrad._src.core.versions import LazyStorage, Storage, exporter_of, is_inference, storage_of
from ndgrad._src.foundations.public_path import set_module
from ndgrad._src.ops.complex import conj

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ndgrad._src.arrays.dtypes import DTypeLike
    from ndgrad._src.foundations import devices
    from ndgrad._typing import Payload

T = TypeVar("T", bound=Variable)

# ----- from a tensor to its memory -----------------------------------------------------------------------------------


def memory_of(t: Variable) -> Payload:
    """Return the array under all transforms of a tensor. A NumPy scalar is first turned into an array."""
    while isinstance(t._array, Variable):
        t = t._array
    if isinstance(t._array, np.generic):
        storage_of(t)
    if device_faults.pending and is_on_device(t._array):
        device_faults.settle()
    return t._array


def values_to_check(t: Any) -> Any:
    """Return the values of a tensor under all transforms, for checks; None for a tensor without data. The result
    supports comparison with numbers, all, any, size and extremes."""
    while isinstance(t, Variable):
        if t.run_op is not None:
            return t.checked_values()  # The values of this class live elsewhere.
        t = t._array
    if getattr(t, "is_traced", False):
        return t.make_checked()  # from ndgrad.compiler
    return None if getattr(t, "is_meta", False) else t


def batch_dims(t: object) -> int:
    """Return the number of dimensions of `memory_of(t)` that belong to vmap, not to the tensor."""
    count = 0
    while isinstance(t, Variable):
        count += bool(t._meta is not None and t._meta.batch_level)
        t = t._array
    return count


def sample_of(t: Variable) -> Payload:
    """Return an array with the memory layout of one sample; outside of vmap, the memory itself.

    Its flags and strides are those of the tensor. Interleaved samples, such as results
    of a batch along the last dimension, count as dense.
    """
    memory, lead = memory_of(t), batch_dims(t)
    if not lead:
        return memory
    shape, strides, item = memory.shape[lead:], memory.strides[lead:], memory.itemsize
    apart = min((abs(s) for s, n in zip(strides, shape) if n > 1), default=item) // item
    if apart > 1 and apart == math.prod(
        n for n, s in zip(memory.shape[:lead], memory.strides[:lead]) if abs(s) < apart * item
    ):
        strides = tuple(s // apart for s in strides)
    if getattr(memory, "is_traced", False):
        memory = memory.stand_in()
    return np.lib.stride_tricks.as_strided(memory, shape, strides)


def layout_sample(t: Variable) -> Any:
    """As `sample_of`, but readable by NumPy: for a traced tensor, an array without values."""
    sample: Any = sample_of(t)
    return sample.stand_in() if getattr(sample, "is_traced", False) else sample


def is_open(t: object) -> bool:
    """True if the values of a tensor are not available: vmap has batched it, or they are known only when the traced
    program runs. Results whose shape follows from other shapes are then computed by ops."""
    if not isinstance(t, Variable):
        return False
    memory = memory_of(t)
    return bool(batch_dims(t)) or (getattr(memory, "is_traced", False) and memory.constant_array is None)


def mark_lazy(t: T, kind: str) -> T:
    """Make the memory of a new conjugate ("conj") or negative ("neg") read-only, and return the tensor.

    torch's `conj()` is a lazy view, and a write to it reaches the tensor. NumPy's memory has no lazy
    conjugate: the write would be lost. The storage records the kind for `is_lazy`.
    """
    array = innermost_array(t)
    if not t.is_numpy_type and isinstance(array, (np.ndarray, np.generic)):
        memory_of(t).flags.writeable = False
        for made in (t, *(() if t._meta is None else (t._meta.tangents or {}).values())):
            if kind and not isinstance(made._array, Variable) and not is_inference(made):
                made._storage = LazyStorage(kind)
    return t


def conjugate_view(t: T) -> T:
    """Return `conj()` of a complex tensor. The conjugate of a conjugate is not lazy."""
    return mark_lazy(conj(t), "" if is_lazy(t, "conj") else "conj")


def is_lazy(t: Any, kind: str) -> bool:
    """True if torch would hold the tensor as a view with a pending conjugation ("conj") or negation ("neg"). The
    imaginary part of a conjugate is a pending negative."""
    storage = t._storage
    if storage.__class__ is not LazyStorage:
        return False
    array = innermost_array(t)
    if storage.kind == "conj" and array.dtype.kind != "c":
        offset = pointer(array) - pointer(owner_of(array)) if array.size else 0
        return kind == "neg" and offset % (2 * array.itemsize) != 0  # Every second number is an imaginary part.
    return bool(storage.kind == kind)


# ----- one version for one memory ------------------------------------------------------------------------------------

# Owner of the memory -> storage of the tensors over it. Keys are identities, because arrays do not hash. A weak
# reference to the owner shows that an identity was reused. An owner without weak references (a bytearray) is kept
# alive as long as the storage.
_shared: dict[int, tuple[Callable[[], Any], weakref.ref[Storage]]] = {}


def shared_storage(array: Payload, kind: type[Storage] = Storage) -> Storage:
    """Return the storage of tensors made over `array` from outside: one per owner, so all tensors see a write
    through any of them."""
    owner = exporter_of(owner_of(array))
    entry = _shared.get(id(owner))
    if entry is not None and entry[0]() is owner:
        storage = entry[1]()
        if storage is not None:
            return storage
    storage = kind()
    _announce(owner, storage)
    return storage


def announce(array: Payload, storage: Storage) -> None:
    """Make future tensors over this memory share its version."""
    _announce(exporter_of(owner_of(array)), storage)


def _announce(owner: object, storage: Storage) -> None:
    key = id(owner)
    try:
        held: Callable[[], Any] = weakref.ref(owner)
    except TypeError:
        held = partial(_itself, owner)
    _shared[key] = (held, weakref.ref(storage, lambda dead: _forget(key, dead)))


def _itself(owner: object) -> object:
    return owner


def _forget(key: int, dead: weakref.ref[Storage]) -> None:
    entry = _shared.get(key)
    if entry is not None and entry[1] is dead:
        del _shared[key]


# ----- storage objects -----------------------------------------------------------------------------------------------


class UntypedStorage:
    """The bytes of a tensor's memory; tensors that are views of each other have equal storages.

    >>> import ndgrad
    >>> x = ndgrad.zeros(4)
    >>> x[1:].untyped_storage() == x.untyped_storage(), x.untyped_storage().nbytes()
    (True, 16)
    """

    __module__ = "ndgrad.storage"  # path shown in texts and written into pickles

    __slots__ = ("_bytes", "_owner")

    def __init__(self, source: int | NDArray[Any] = 0) -> None:
        """Allocate `source` bytes, or use the memory of an array."""
        self._owner = owner_of(source) if isinstance(source, np.ndarray) else np.empty(source, np.uint8)
        self._bytes = flat_bytes(self._owner)

    @classmethod
    def from_file(cls, filename: str | os.PathLike[str], shared: bool = False, nbytes: int = 0) -> UntypedStorage:
        """Map the first bytes of a file into memory.

        Args:
            filename: path of the file.
            shared: whether changes go to the file, which is created and extended if necessary. Otherwise they stay in
                memory.
            nbytes: number of bytes.

        >>> import os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "x")
        >>> ndgrad.UntypedStorage.from_file(path, shared=True, nbytes=4).fill_(7)
        [ndgrad.UntypedStorage of 4 bytes at ...]
        >>> ndgrad.UntypedStorage.from_file(path, nbytes=2).tolist()
        [7, 7]
        """
        if nbytes < 0:
            raise ValueError(f"UntypedStorage.from_file: nbytes must not be negative, but is {nbytes}. [nd-range]")
        with open(filename, ("r+b" if os.path.exists(filename) else "w+b") if shared else "rb") as file:
            size = file.seek(0, os.SEEK_END)
            if nbytes > size and not shared:
                raise RuntimeError(
                    f"unable to mmap {nbytes} bytes from file <{os.fspath(filename)}>: it has {size}. Ask for fewer, "
                    "or pass shared=True to lengthen it. [nd-file-kind]"
                )
            if nbytes > size:
                file.truncate(nbytes)
            if nbytes == 0:
                return cls(0)
            mapped = mmap.mmap(file.fileno(), nbytes, access=mmap.ACCESS_WRITE if shared else mmap.ACCESS_COPY)
        return cls(np.frombuffer(mapped, np.uint8))

    def untyped(self) -> UntypedStorage:
        """Return the storage itself; for a typed storage, this method returns its bytes.

        >>> storage = ndgrad.ones(2).untyped_storage()
        >>> storage.untyped() is storage
        True
        """
        return self

    def data_ptr(self) -> int:
        """The address of the first byte.

        >>> import ndgrad
        >>> x = ndgrad.zeros(4)
        >>> x.untyped_storage().data_ptr() == x.data_ptr()
        True
        """
        return pointer(self._owner)

    def nbytes(self) -> int:
        """The number of bytes.

        >>> import ndgrad
        >>> ndgrad.zeros(4).untyped_storage().nbytes()
        16
        """
        return int(self._bytes.nbytes)

    def size(self) -> int:
        """Return the number of bytes, like `len()`.

        >>> import ndgrad
        >>> ndgrad.zeros(4).untyped_storage().size()
        16
        """
        return self.nbytes()

    def element_size(self) -> int:
        """Return the size of an element in bytes: 1.

        >>> import ndgrad
        >>> ndgrad.zeros(4).untyped_storage().element_size()
        1
        """
        return 1

    @property
    def _cdata(self) -> int:
        return id(self._owner)

    @property
    def device(self) -> devices.device:
        """The device of the memory.

        >>> import ndgrad
        >>> ndgrad.zeros(4).untyped_storage().device
        device(type='cpu')
        """
        return device_of(self._owner)

    @property
    def is_cuda(self) -> bool:
        """True if the memory is on a GPU.

        >>> import ndgrad
        >>> ndgrad.zeros(4).untyped_storage().is_cuda
        False
        """
        return bool(self.device.type == "cuda")

    def resize_(self, size: int) -> UntypedStorage:
        """Accept only the current size: NumPy cannot enlarge or free memory that arrays refer to.

        Args:
            size: number of bytes, which must be the current one.

        >>> import ndgrad
        >>> ndgrad.UntypedStorage(8).resize_(8).nbytes()
        8
        """
        if size != self.nbytes():
            raise RuntimeError(
                f"a storage of {self.nbytes()} bytes cannot be resized to {size}: NumPy fixes the size of memory when "
                "it is made. Use tensor.resize_(), which takes new memory when it must. [nd-strides]"
            )
        return self

    def copy_(self, source: UntypedStorage, non_blocking: bool = False) -> UntypedStorage:
        """Overwrite with the bytes of another storage.

        Args:
            source: storage of the same size.
            non_blocking: accepted as in torch; has no effect here.

        >>> import ndgrad
        >>> ndgrad.UntypedStorage(2).copy_(ndgrad.UntypedStorage(2).fill_(7)).tolist()
        [7, 7]
        """
        self._bytes[...] = source._bytes
        return self

    def fill_(self, value: int) -> UntypedStorage:
        """Set every byte to `value`.

        Args:
            value: number from 0 to 255.

        >>> import ndgrad
        >>> ndgrad.UntypedStorage(2).fill_(7).tolist()
        [7, 7]
        """
        self._bytes[...] = value
        return self

    def clone(self) -> UntypedStorage:
        """Return a copy.

        >>> import ndgrad
        >>> s = ndgrad.UntypedStorage(2).fill_(7)
        >>> s.clone().fill_(0).tolist(), s.tolist()
        ([0, 0], [7, 7])
        """
        return UntypedStorage(self._bytes.copy())

    def tolist(self) -> list[int]:
        """The bytes as Python ints.

        >>> import ndgrad
        >>> ndgrad.tensor([1, 2], dtype=ndgrad.uint8).untyped_storage().tolist()
        [1, 2]
        """
        out: list[int] = self._bytes.tolist()
        return out

    def __len__(self) -> int:
        return self.nbytes()

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> UntypedStorage: ...
    def __getitem__(self, index: int | slice) -> int | UntypedStorage:
        found = self._bytes[index]
        return UntypedStorage(found.copy()) if isinstance(index, slice) else int(found)

    def __setitem__(self, index: int | slice, value: int | UntypedStorage) -> None:
        self._bytes[index] = value

    def __eq__(self, other: object) -> bool:
        return self._owner is other._owner if isinstance(other, UntypedStorage) else NotImplemented

    def __hash__(self) -> int:
        return id(self._owner)

    def __repr__(self) -> str:
        return f"[ndgrad.UntypedStorage of {self.nbytes()} bytes at {self.data_ptr():#x}]"


class TypedStorage:
    """A storage seen as elements of one dtype.

    >>> import ndgrad
    >>> ndgrad.tensor([[1, 2], [3, 4]])[1].storage().tolist()
    [1, 2, 3, 4]
    """

    __module__ = "ndgrad.storage"  # path shown in texts and written into pickles

    __slots__ = ("_elements", "_untyped", "dtype")

    def __init__(self, untyped: UntypedStorage, dtype: DTypeLike) -> None:
        self.dtype = as_dtype(dtype)
        self._untyped = untyped
        whole = untyped.nbytes() // self.dtype.itemsize * self.dtype.itemsize
        self._elements = untyped._bytes[:whole].view(self.dtype.numpy)

    def untyped(self) -> UntypedStorage:
        """The same memory as bytes.

        >>> import ndgrad
        >>> ndgrad.tensor([1, 2]).storage().untyped().nbytes()
        16
        """
        return self._untyped

    def data_ptr(self) -> int:
        """The address of the first element.

        >>> import ndgrad
        >>> x = ndgrad.zeros(4)
        >>> x.storage().data_ptr() == x.data_ptr()
        True
        """
        return self._untyped.data_ptr()

    def nbytes(self) -> int:
        """The number of bytes.

        >>> import ndgrad
        >>> ndgrad.tensor([1, 2]).storage().nbytes()
        16
        """
        return self._untyped.nbytes()

    def size(self) -> int:
        """Return the number of elements, like `len()`.

        >>> import ndgrad
        >>> ndgrad.tensor([1, 2]).storage().size()
        2
        """
        return len(self)

    def element_size(self) -> int:
        """The number of bytes of one element.

        >>> import ndgrad
        >>> ndgrad.tensor([1, 2]).storage().element_size()
        8
        """
        return int(self.dtype.itemsize)

    @property
    def device(self) -> devices.device:
        """The device of the memory.

        >>> import ndgrad
        >>> ndgrad.tensor([1, 2]).storage().device
        device(type='cpu')
        """
        return self._untyped.device

    def resize_(self, size: int) -> TypedStorage:
        """Accept only the current size, in elements: see `UntypedStorage.resize_`.

        Args:
            size: number of elements, which must be the current one.

        >>> import ndgrad
        >>> ndgrad.tensor([1, 2]).storage().resize_(2).tolist()
        [1, 2]
        """
        self._untyped.resize_(size * self.dtype.itemsize)
        return self

    def tolist(self) -> list[Any]:
        """The elements as Python numbers.

        >>> import ndgrad
        >>> ndgrad.tensor([1.5, 2.0]).storage().tolist()
        [1.5, 2.0]
        """
        out: list[Any] = self._elements.tolist()
        return out

    def __len__(self) -> int:
        return int(self._elements.size)

    def __getitem__(self, index: int | slice) -> Any:
        found = self._elements[index]
        if isinstance(index, slice):
            return TypedStorage(UntypedStorage(found.copy().view(np.uint8)), self.dtype)
        return found.item()

    def __setitem__(self, index: int | slice, value: Any) -> None:
        self._elements[index] = value

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TypedStorage):
            return NotImplemented
        return self._untyped == other._untyped and bool(self.dtype == other.dtype)

    def __hash__(self) -> int:
        return hash((self._untyped, self.dtype))

    def __repr__(self) -> str:
        lines = "".join(f" {value}\n" for value in self.tolist())
        return f"{lines}[ndgrad.TypedStorage(dtype={self.dtype!r}, device={self.device}) of size {len(self)}]"


def storage_offset(array: Payload) -> int:
    """Return the offset of an array in its owner, in elements."""
    if array.size == 0 or not isinstance(array, np.ndarray):
        return 0
    return (pointer(array) - pointer(owner_of(array))) // array.itemsize


@set_module("ndgrad")
def is_storage(obj: object) -> bool:
    """True if `obj` is a storage object.

    Args:
        obj: any object.

    >>> import ndgrad
    >>> ndgrad.is_storage(ndgrad.zeros(4).storage())
    True
    """
    return isinstance(obj, (UntypedStorage, TypedStorage))


__all__ = ["TypedStorage", "UntypedStorage", "is_storage"]
