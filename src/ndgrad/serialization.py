"""`ndgrad.save` and `ndgrad.load`: tensors and what holds them, in files.

The format is torch's: a zip archive with a pickle, in which tensors name their memory, and one record of raw bytes per
memory. So each library reads what the other has written, tensors that share memory go on sharing it, and, since the
pickle need name only a handful of functions, a file can be loaded without running code from it: that is the default.
"""

from __future__ import annotations

import io
import os
import pickle
import struct
import sys
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import IO, TYPE_CHECKING, Any, NoReturn, TypeAlias

import numpy as np

from ndgrad import devices, dtypes
from ndgrad._tensor import Tensor
from ndgrad.arrays.addresses import contiguous_strides, flat_bytes, owner_of, pointer, window
from ndgrad.arrays.placement import device_of, moved
from ndgrad.autograd.sparse_gradients import is_sparse_data
from ndgrad.autograd.variable import Variable, meta_of, wrap
from ndgrad.plain_pickle import Callee, PlainUnpickler, UsersError, set_attributes
from ndgrad.sizes import Size
from ndgrad.storage import UntypedStorage, memory_of, shared_storage

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ndgrad._typing import Device, Dtype
    from ndgrad.nn.parameter import Parameter  # modules lie above files of tensors

__all__ = ["load", "save"]

#: Where loaded tensors go: a device, a dict from device to device, or a function of storage and device.
MapLocation: TypeAlias = "Device | dict[str, Device] | Callable[[UntypedStorage, str], object]"

_ALIGNMENT = 64
_STORAGE_OF = {
    "float64": "DoubleStorage", "float32": "FloatStorage", "float16": "HalfStorage", "bfloat16": "BFloat16Storage",
    "int64": "LongStorage", "int32": "IntStorage", "int16": "ShortStorage", "int8": "CharStorage",
    "uint8": "ByteStorage",
    "bool": "BoolStorage", "complex128": "ComplexDoubleStorage", "complex64": "ComplexFloatStorage",
}  # fmt: skip
_DTYPE_OF = {storage: name for name, storage in _STORAGE_OF.items()}


class _Name:
    """A name in another library, to be written into the pickle as it stands."""

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name

    def __call__(self, *args: object) -> NoReturn:
        raise TypeError(f"{self.module}.{self.name} is a name for a file, not a function")


_TENSOR = _Name("torch._utils", "_rebuild_tensor_v2")
_TENSOR_OF_DTYPE = _Name("torch._utils", "_rebuild_tensor_v3")
_PARAMETER = _Name("torch._utils", "_rebuild_parameter")
_PARAMETER_WITH_STATE = _Name("torch._utils", "_rebuild_parameter_with_state")
_FROM_TYPE, _TENSOR_TYPE = _Name("torch._tensor", "_rebuild_from_type_v2"), _Name("torch", "Tensor")
_SPARSE, _LAYOUT = _Name("torch._utils", "_rebuild_sparse_tensor"), _Name("torch.serialization", "_get_layout")
_SIZE, _DEVICE = _Name("torch", "Size"), _Name("torch", "device")
_UNTYPED = _Name("torch.storage", "UntypedStorage")
_NAMES: dict[str, _Name] = {}


def _torch(name: str) -> _Name:
    return _NAMES.setdefault(name, _Name("torch", name))


# ----- writing --------------------------------------------------------------------------------------------------------


class _Memory:
    """A run of bytes that tensors point into."""

    def __init__(self, key: str, kind: _Name, where: str, count: int) -> None:
        self.identity = ("storage", kind, key, where, count)


# The Python implementation, since only it lets names be written that need not exist here.
_PythonPickler: Any = vars(pickle)["_Pickler"]


class _Pickler(_PythonPickler):  # type: ignore[misc]  # not in the stubs
    def __init__(self, file: IO[bytes], protocol: int) -> None:
        super().__init__(file, protocol)
        self.records: list[Any] = []  # the bytes, by key
        self.known: dict[tuple[int, str], _Memory] = {}
        self.alive: list[Any] = []  # what identities in `known` and in the memo stand for

    def save(self, obj: object, save_persistent_id: bool = True) -> None:
        if isinstance(obj, dtypes.dtype):
            obj = _torch(obj.name)
        if not isinstance(obj, _Name):
            super().save(obj, save_persistent_id)
        elif id(obj) in self.memo:
            self.write(self.get(self.memo[id(obj)][0]))
        else:
            self.write(b"c" + obj.module.encode() + b"\n" + obj.name.encode() + b"\n")
            self.memoize(obj)

    def persistent_id(self, obj: object) -> tuple[Any, ...] | None:
        return obj.identity if isinstance(obj, _Memory) else None

    def reducer_override(self, obj: object) -> Any:
        if isinstance(obj, Tensor):
            return self._reduced(obj)
        if isinstance(obj, _Plain):
            return self._plain(obj.tensor)
        if isinstance(obj, Size):
            return _SIZE, (tuple(obj),)
        if isinstance(obj, devices.layout):
            return _LAYOUT, (f"torch.{obj.name}",)
        if isinstance(obj, devices.device):
            return _DEVICE, (obj.type,) if obj.index is None else (obj.type, obj.index)
        return NotImplemented

    def _reduced(self, t: Tensor) -> tuple[Any, ...]:
        from ndgrad.nn.parameter import Parameter, is_lazy  # modules lie above files of tensors

        if is_lazy(t) or (t._meta is not None and t._meta.names is not None):  # of these, the class says what is wrong
            return t.__reduce_ex__(2)
        if is_sparse_data(t._array):
            from ndgrad.api.sparse_parts import parts_of  # loaded where there are sparse tensors

            return _SPARSE, (t.layout, parts_of(t.detach()))
        kind, attributes = (
            type(t),
            {k: v for k, v in t.__dict__.items() if k not in ("_is_buffer", "persistent", "_is_param")},
        )
        if kind is Tensor or kind is _array_class():
            plain = self._plain(t)
            return (_FROM_TYPE, (plain[0], _TENSOR_TYPE, plain[1], attributes)) if attributes else plain
        inner = _Plain(t)
        self.alive.append(inner)
        if kind is Parameter:
            given: tuple[Any, ...] = (inner, bool(t.requires_grad), OrderedDict())
            return (_PARAMETER_WITH_STATE, (*given, attributes)) if attributes else (_PARAMETER, given)
        return _rebuild_as, (kind, inner, bool(t.requires_grad), attributes)

    def _plain(self, t: Tensor) -> tuple[Any, ...]:
        if isinstance(t._array, Variable):
            raise RuntimeError(
                "ndgrad.save: a tensor inside a function transform (grad, vmap) has no values of its own. "
                "Return it from the transformed function first."
            )
        array = memory_of(t)
        where = str(device_of(array))
        if where == "meta":
            raise RuntimeError(
                f"ndgrad.save: a tensor of shape {tuple(t.shape)} on the meta device has no values to save."
            )
        name = dtypes.as_dtype(array.dtype).name
        if not isinstance(array, np.ndarray):
            array = moved(array, devices.device("cpu"))
        memory, offset, steps = self._memory(array, name, where)
        args: tuple[Any, ...] = (
            memory,
            offset,
            tuple(array.shape),
            steps,
            bool(t.requires_grad) and t.is_leaf,
            OrderedDict(),
        )
        flags = ({_IS_ARRAY: True},) if type(t) is _array_class() else ()
        if name in _STORAGE_OF:
            return _TENSOR, (*args, *flags)
        return _TENSOR_OF_DTYPE, (*args, dtypes.as_dtype(array.dtype), *flags)

    def _memory(self, array: NDArray[Any], name: str, where: str) -> tuple[_Memory, int, tuple[int, ...]]:
        size = array.itemsize
        owner = owner_of(array)
        distance = pointer(array) - pointer(owner) if array.size else 0
        fits = (
            distance % size == 0 and owner.nbytes % size == 0 and all(s >= 0 and s % size == 0 for s in array.strides)
        )
        try:
            raw = flat_bytes(owner) if fits else None
        except RuntimeError:
            raw = None
        if raw is None:  # torch has no negative or uneven steps, and memory with gaps is not ours to save
            array = owner = np.ascontiguousarray(array).reshape(array.shape)
            raw, distance = flat_bytes(owner), 0
        self.alive.append(owner)
        key = (id(owner), name)
        if key not in self.known:
            kind = _torch(_STORAGE_OF[name]) if name in _STORAGE_OF else _UNTYPED
            count = raw.nbytes // size if name in _STORAGE_OF else raw.nbytes
            self.known[key] = _Memory(str(len(self.records)), kind, where, count)
            self.records.append(raw)
        steps = tuple(s // size for s in array.strides) if array.size else contiguous_strides(array.shape)
        return self.known[key], distance // size, steps


class _Plain:
    """Stands for the plain tensor inside a parameter or another class's tensor, without its class."""

    def __init__(self, t: Tensor) -> None:
        self.tensor = t


def save(obj: object, f: str | os.PathLike[str] | IO[bytes], pickle_protocol: int = 2) -> None:
    """Write an object (a tensor, a state dict, nested containers of them, a whole module) to a file.

    Files of tensors and containers can be read by `torch.load`, for which an `Array` is a tensor like any other; other
    objects are pickled and need `weights_only=False` to load.

    >>> import io, ndgrad
    >>> file = io.BytesIO()
    >>> ndgrad.save({"weight": ndgrad.ones(2)}, file)
    >>> _ = file.seek(0)
    >>> ndgrad.load(file)
    {'weight': tensor([1., 1.])}
    """
    pickled = io.BytesIO()
    pickler = _Pickler(pickled, pickle_protocol)
    pickler.dump(obj)
    # Only now that everything is known to be savable is the file touched.
    stem = os.path.splitext(os.path.basename(os.fspath(f)))[0] if isinstance(f, (str, os.PathLike)) else "archive"
    with zipfile.ZipFile(f, "w", zipfile.ZIP_STORED) as archive:
        _write(archive, f"{stem}/data.pkl", pickled.getvalue())
        _write(archive, f"{stem}/.format_version", b"1")
        _write(archive, f"{stem}/.storage_alignment", str(_ALIGNMENT).encode())
        _write(archive, f"{stem}/byteorder", sys.byteorder.encode())
        for key, raw in enumerate(pickler.records):
            _write(archive, f"{stem}/data/{key}", memoryview(raw))
        _write(archive, f"{stem}/version", b"3\n")


def _write(archive: zipfile.ZipFile, name: str, data: bytes | memoryview) -> None:
    """One record, padded so that its bytes begin at a multiple of the alignment: then a file can
    be mapped into memory."""
    info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
    info.file_size = len(data)
    assert archive.fp is not None
    begin = archive.fp.tell() + 30 + len(name.encode()) + 4
    padding = -begin % _ALIGNMENT
    info.extra = struct.pack("<HH", 0x4246, padding) + b"Z" * padding
    with archive.open(info, "w", force_zip64=len(data) >= 1 << 31) as record:
        record.write(data)


# ----- reading --------------------------------------------------------------------------------------------------------


class _Bytes:
    """The memory of tensors that are being loaded, and where they are to go."""

    def __init__(self, raw: NDArray[np.uint8], dtype: str | None, where: Device) -> None:
        self.raw, self.dtype, self.where = raw, dtype, where


class _Memories:
    """The memory in an archive, read when first a tensor names it."""

    def __init__(
        self, archive: _Archive, map_location: MapLocation, mapped_from: str | os.PathLike[str] | None
    ) -> None:
        self.archive, self.map_location, self.mapped_from = archive, map_location, mapped_from
        self.swapped = archive.has("byteorder") and archive.read("byteorder") != sys.byteorder.encode()
        self.read: dict[str, NDArray[np.uint8]] = {}
        # Memory in which a conjugation or a change of sign that torch had put off is carried out,
        # by what was read and how.
        self.resolved: dict[tuple[int, str, bool, bool], NDArray[np.uint8]] = {}

    def fetch(self, identity: object) -> _Bytes:
        if type(identity) is not tuple or len(identity) < 4 or identity[0] != "storage" or type(identity[2]) is not str:
            raise pickle.UnpicklingError(
                "something in the file stands where memory should be named. The file is damaged."
            )
        _, storage, key, where = identity[:4]
        name = storage if isinstance(storage, str) else None
        if (name is not None and name not in _STORAGE_OF) or type(where) is not str:
            raise pickle.UnpicklingError(
                f"memory in the file is of type {name!r} on {where!r}, which do not exist. The file is damaged."
            )
        if key not in self.read:
            raw = self._raw(key)
            if self.swapped and name is not None:
                raw = raw.view(dtypes.as_numpy_dtype(name)).byteswap().view(np.uint8)
            self.read[key] = raw
        return _Bytes(self.read[key], name, _place(self.map_location, where, self.read[key]))

    def _raw(self, key: str) -> NDArray[np.uint8]:
        record = f"data/{key}"
        if self.mapped_from is not None:
            return _mapped(self.mapped_from, self.archive, record)
        return np.frombuffer(bytearray(self.archive.read(record)), np.uint8)

    def tensor(
        self,
        memory: object,
        offset: Any,
        size: Any,
        stride: Any,
        requires_grad: object = False,
        hooks: object = None,
        *rest: Any,
    ) -> Tensor:
        """What torch's _rebuild_tensor does, in its second and third version: after the hooks, the third has a dtype,
        and either may have a dict of flags."""
        dims = (*size, *stride) if type(size) in _DIMS and type(stride) in _DIMS else (None,)
        if (
            not isinstance(memory, _Bytes)
            or not all(type(n) is int for n in (offset, *dims))
            or type(requires_grad) is not bool
        ):
            given = ", ".join(type(value).__name__ for value in (memory, offset, size, stride, requires_grad))
            raise pickle.UnpicklingError(
                f"a tensor in the file has {given} for its memory, offset, size, stride and requires_grad. "
                "The file is damaged."
            )
        name = rest[0].name if rest and isinstance(rest[0], dtypes.dtype) else memory.dtype
        flags = rest[-1] if rest and isinstance(rest[-1], dict) else {}
        if name is None:
            raise pickle.UnpicklingError("a tensor in the file has no dtype. The file is damaged.")
        raw = self._resolved(memory.raw, name, flags.get("conj") is True, flags.get("neg") is True)
        try:
            array = window(raw, dtypes.as_numpy_dtype(name), offset, tuple(size), tuple(stride))
        except (RuntimeError, ValueError) as error:
            raise pickle.UnpicklingError(
                f"a tensor in the file does not fit its memory: {error} The file is damaged."
            ) from None
        made = wrap(_array_class() if flags.get(_IS_ARRAY) is True else Tensor, array)
        made._storage = shared_storage(array)  # a write through one of several tensors is seen by all
        if memory.where is not None:
            made = made.to(memory.where)
        return _requiring(made, requires_grad)

    def _resolved(self, raw: NDArray[np.uint8], name: str, conj: bool, neg: bool) -> NDArray[np.uint8]:
        """Memory with what torch puts off carried out, all of it at once: so tensors that shared it still do,
        and a tensor that repeats its elements costs no more than they do. Tensors without the flag keep the
        memory as it was read."""
        if not (conj or neg):
            return raw
        dtype = dtypes.as_numpy_dtype(name)
        if (conj and dtype.kind != "c") or dtype.kind in "bu":
            what = "conjugated" if conj else "negated"
            raise pickle.UnpicklingError(f"a tensor of {name} in the file is to be {what}. The file is damaged.")
        key = (id(raw), name, conj, neg)
        if key not in self.resolved:
            values = raw[: raw.size // dtype.itemsize * dtype.itemsize].view(dtype)
            values = np.conjugate(values) if conj else values
            self.resolved[key] = (np.negative(values) if neg else values).view(np.uint8)
        return self.resolved[key]


_DIMS = (tuple, list, Size)
#: The flag of a tensor on NumPy's face. Torch passes over flags that it does not know, and reads a tensor.
_IS_ARRAY = "ndgrad.Array"


def _array_class() -> type[Tensor]:
    from ndgrad.numpy._array import Array  # a namespace over this layer

    return Array


def _requiring(made: Tensor, requires_grad: bool) -> Tensor:
    if requires_grad:
        if not (made.dtype.is_floating_point or made.dtype.is_complex):
            raise pickle.UnpicklingError(
                f"a tensor of {made.dtype} in the file requires a gradient. The file is damaged."
            )
        meta_of(made).requires_grad = True
    return made


# How an object from a file gets its attributes: `set_attributes`, or the same without its checks.
_Give: TypeAlias = Callable[[Any, Any], None]


def _rebuild_parameter(
    give: _Give, data: object, requires_grad: object = True, hooks: object = None, state: object = None
) -> Parameter:
    from ndgrad.nn.parameter import Parameter  # modules lie above files of tensors

    if not isinstance(data, Tensor) or type(requires_grad) is not bool:
        raise pickle.UnpicklingError(f"a parameter in the file holds a {type(data).__name__}. The file is damaged.")
    made = Parameter(_requiring(data, requires_grad), requires_grad)
    if state is not None:
        give(made, state)
    return made


def _rebuild_as(kind: object, data: object, requires_grad: object, attributes: object) -> Tensor:
    """A tensor of another class over the memory of a plain one."""
    return _rebuild_class(_give_all, kind, data, requires_grad, attributes)


def _rebuild_class(give: _Give, kind: object, data: object, requires_grad: object, attributes: object) -> Tensor:
    if not (
        isinstance(kind, type) and issubclass(kind, Tensor) and isinstance(data, Tensor) and type(requires_grad) is bool
    ):
        raise pickle.UnpicklingError(
            f"a tensor in the file is a {type(data).__name__} of a class that is none. The file is damaged."
        )
    made = wrap(kind, data._array)
    made._storage = data._storage
    give(_requiring(made, requires_grad), attributes)
    return made


def _rebuild_from_type(give: _Give, function: Any, kind: object, args: object, state: object) -> Tensor:
    call = function.call if type(function) is Callee else function if give is _give_all else None
    if call is None or type(args) is not tuple:
        raise pickle.UnpicklingError(
            f"a tensor in the file is made by a {type(function).__name__}. The file is damaged."
        )
    made = call(*args)
    give(made, state)
    return made


def _rebuild_uninitialized(kind: Any, requires_grad: object, device: Device, dtype: Dtype) -> Tensor:
    from ndgrad.nn import parameter  # modules lie above files of tensors

    if not any(kind is known for known in (parameter.UninitializedParameter, parameter.UninitializedBuffer)):
        raise pickle.UnpicklingError(
            "a parameter without a shape in the file is of a class that is none. The file is damaged."
        )
    return parameter._rebuild_uninitialized(kind, requires_grad is True, device, dtype)


def _give_all(made: Any, attributes: Any) -> None:
    made.__dict__.update(attributes)


def _layout_named(name: object) -> devices.layout:
    found = getattr(devices, str(name).removeprefix("torch."), None)
    if not isinstance(found, devices.layout):
        raise RuntimeError(f"ndgrad.load: the file names the layout {name!r}, which there is not.")
    return found


def _rebuild_sparse(layout: Any, parts: Any) -> Tensor:
    from ndgrad.api.sparse_parts import from_parts  # loaded where there are sparse tensors

    return from_parts(layout, parts)


def _names(memories: _Memories, give: _Give) -> dict[str, Any]:
    """What the names in a file of tensors stand for, containers apart."""
    # modules lie above files of tensors
    from ndgrad.nn.parameter import Parameter, UninitializedBuffer, UninitializedParameter

    functions: dict[str, Callable[..., Any]] = {
        "torch._utils._rebuild_tensor": memories.tensor,
        "torch._utils._rebuild_tensor_v2": memories.tensor,
        "torch._utils._rebuild_tensor_v3": memories.tensor,
        "torch._utils._rebuild_parameter": partial(_rebuild_parameter, give),
        "torch._utils._rebuild_parameter_with_state": partial(_rebuild_parameter, give),
        "torch._tensor._rebuild_from_type_v2": partial(_rebuild_from_type, give),
        "torch._utils._rebuild_sparse_tensor": _rebuild_sparse,
        "torch.serialization._get_layout": _layout_named,
        "torch.device": devices.device,
        "ndgrad.nn.parameter._rebuild_uninitialized": _rebuild_uninitialized,
        "ndgrad.serialization._rebuild_as": partial(_rebuild_class, give),
    }
    return {
        **{f"torch.{storage}": dtype for storage, dtype in _DTYPE_OF.items()},
        **{f"torch.{dtype}": value for dtype, value in dtypes._BY_NAME.items()},
        **{name: Callee(name, function) for name, function in functions.items()},
        "torch.storage.UntypedStorage": UntypedStorage,
        "torch.Tensor": Tensor,
        "torch._tensor.Tensor": Tensor,
        "torch.nn.parameter.Parameter": Parameter,
        "ndgrad.Tensor": Tensor,
        "ndgrad.numpy.Array": _array_class(),
        "ndgrad.nn.parameter.Parameter": Parameter,
        "ndgrad.nn.parameter.UninitializedBuffer": UninitializedBuffer,
        "ndgrad.nn.parameter.UninitializedParameter": UninitializedParameter,
    }


class _TrustingUnpickler(pickle.Unpickler):
    """Python's own, which runs what a file says, but for the names of torch's: torch need not be there."""

    def __init__(self, file: IO[bytes], names: dict[str, Any], fetch: Callable[[object], _Bytes]) -> None:
        super().__init__(file)
        self.names, self.fetch = names, fetch

    def find_class(self, module: str, name: str) -> Any:
        found = self.names.get(f"{module}.{name}") if module.partition(".")[0] == "torch" else None
        if (module, name) == ("torch", "Size"):
            found = Size
        if found is None:
            return super().find_class(module, name)
        return found.call if type(found) is Callee else found

    def persistent_load(self, identity: object) -> _Bytes:
        return self.fetch(identity)


def load(
    f: str | os.PathLike[str] | IO[bytes],
    map_location: MapLocation = None,
    weights_only: bool = True,
    mmap: bool = False,
) -> Any:
    """Read what `ndgrad.save` or `torch.save` has written.

    `map_location` says where tensors go: a device, a dict from device to device, or a function of storage and
    device. Unless `weights_only` is False, only tensors and plain containers are read, nothing in the file is run,
    and a small file cannot claim much memory. With `mmap`, tensors stay in the file until they are used; writing
    into them does not change it.

    A file that is not there is a FileNotFoundError, one that is no archive a RuntimeError, and one that is damaged or
    holds anything else a pickle.UnpicklingError.

    >>> import os, tempfile, ndgrad
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "weights.pt")
    ...     ndgrad.save(ndgrad.nn.Linear(2, 1).state_dict(), path)
    ...     state = ndgrad.load(path, map_location="cpu")
    >>> list(state)
    ['weight', 'bias']
    """
    if isinstance(f, (str, os.PathLike)):
        with open(f, "rb") as file:
            return _load(file, os.fspath(f), map_location, weights_only, f if mmap else None)
    if mmap:
        raise ValueError("ndgrad.load: mmap=True maps a file by its path, and was given an open file. Pass the path.")
    return _load(f, "the file", map_location, weights_only, None)


def _load(
    file: IO[bytes],
    called: str,
    map_location: MapLocation,
    weights_only: bool,
    mapped_from: str | os.PathLike[str] | None,
) -> Any:
    if not zipfile.is_zipfile(file):
        raise RuntimeError(
            f"ndgrad.load: {called} is not an archive that ndgrad.save or torch.save (1.6 or later) has written."
        )
    archive = _Archive(file, called, limited=weights_only)
    pickled = io.BytesIO(archive.read("data.pkl"))
    memories = _Memories(archive, map_location, mapped_from)
    names = _names(memories, set_attributes if weights_only else _give_all)
    try:
        if not weights_only:
            return _TrustingUnpickler(pickled, names, memories.fetch).load()
        return PlainUnpickler(pickled, lambda module, name: names.get(f"{module}.{name}"), memories.fetch).load()
    except UsersError as carried:
        raise carried.error from None


class _Archive:
    """The records of a zip archive: what is wrong with one is an UnpicklingError, and so is one that is
    much larger than the file.

    A zip archive can hold a thousand times its own size, and more where records overlap. Neither library compresses
    what it writes, so the limits leave room for those who do it afterwards.
    """

    def __init__(self, file: IO[bytes], called: str, limited: bool) -> None:
        self.called = called
        try:
            self.zip = zipfile.ZipFile(file)
            self.names = frozenset(self.zip.namelist())
            size = file.seek(0, os.SEEK_END)
        except Exception as error:
            raise self._damaged("its directory", error) from error
        pickled = next((n for n in self.zip.namelist() if n == "data.pkl" or n.endswith("/data.pkl")), None)
        if pickled is None:
            raise RuntimeError(
                f"ndgrad.load: {called} holds no data.pkl. It was not written by ndgrad.save or torch.save."
            )
        self.root = pickled[: -len("data.pkl")]
        # Reading the smallest opcode takes some two hundred bytes, hence the smaller limit for the pickle.
        self.left = {"data.pkl": (1 << 20) + 10 * size, "": (64 << 20) + 100 * size} if limited else {}

    def has(self, record: str) -> bool:
        return self.root + record in self.names

    def info(self, record: str) -> zipfile.ZipInfo:
        if not self.has(record):
            raise pickle.UnpicklingError(
                f"ndgrad.load: {self.called} has no record {record!r:.200}. The file is damaged."
            )
        return self.zip.getinfo(self.root + record)

    def read(self, record: str) -> bytes:
        size, kind = self.info(record).file_size, record if record in self.left else ""
        if self.left:
            self.left[kind] -= size
            if self.left[kind] < 0:
                raise pickle.UnpicklingError(
                    f"Weights only load failed: {self.called} holds much more than its own size, {size:,} bytes "
                    f"in {record!r} alone. If you trust where the file comes from, pass weights_only=False."
                )
        try:
            return self.zip.read(self.root + record)
        except Exception as error:
            raise self._damaged(f"its record {record!r}", error) from error

    def _damaged(self, what: str, error: Exception) -> pickle.UnpicklingError:
        return pickle.UnpicklingError(
            f"ndgrad.load: {what} in {self.called} cannot be read: {error}. The file is damaged."
        )


def _mapped(f: str | os.PathLike[str], archive: _Archive, record: str) -> NDArray[np.uint8]:
    info = archive.info(record)
    if info.compress_type != zipfile.ZIP_STORED:
        raise RuntimeError(f"ndgrad.load: {record} is compressed, and cannot be mapped. Pass mmap=False.")
    if info.file_size == 0:
        return np.empty(0, np.uint8)
    try:
        with open(f, "rb") as file:
            file.seek(info.header_offset + 26)
            name_length, extra_length = struct.unpack("<HH", file.read(4))
        begin = info.header_offset + 30 + name_length + extra_length
        return np.asarray(np.memmap(f, np.uint8, "c", begin, (info.file_size,)))
    except (OSError, ValueError, OverflowError, struct.error) as error:
        raise archive._damaged(f"its record {record!r}", error) from error


def _place(map_location: MapLocation, where: str, raw: NDArray[np.uint8]) -> Device:
    """The device that a tensor saved from `where` is to go to; None if it can stay on the CPU."""
    wanted: Device
    if callable(map_location) and not isinstance(map_location, devices.device):
        try:
            answer = map_location(UntypedStorage(raw), where)
        except Exception as error:
            raise UsersError(error) from error
        wanted = where if answer is None else "cpu"
    elif isinstance(map_location, dict):
        wanted = map_location.get(where, where)
    else:
        wanted = where if map_location is None else map_location
    return None if str(wanted) == "cpu" else wanted
