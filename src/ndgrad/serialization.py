"""`ndgrad.save` and `ndgrad.load`: tensors and what holds them, in files.

The format is torch's: a zip archive with a pickle, in which tensors name their memory, and one record of raw bytes per memory. So
each library reads what the other has written, tensors that share memory go on sharing it, and, since the pickle need name only
a handful of functions, a file can be loaded without running code from it: that is the default.
"""

from __future__ import annotations

import io
import os
import pickle
import struct
import sys
import zipfile
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np

from ndgrad import devices, dtypes
from ndgrad.arrays.placement import device_of, moved
from ndgrad.autograd.variable import Variable, meta_of, wrap
from ndgrad.sizes import Size
from ndgrad.storage import UntypedStorage, contiguous_strides, flat_bytes, memory_of, owner_of, pointer, shared_storage, window
from ndgrad.tensor import Tensor

__all__ = ["load", "save"]

_ALIGNMENT = 64
_STORAGE_OF = {
    "float64": "DoubleStorage", "float32": "FloatStorage", "float16": "HalfStorage", "bfloat16": "BFloat16Storage",
    "int64": "LongStorage", "int32": "IntStorage", "int16": "ShortStorage", "int8": "CharStorage", "uint8": "ByteStorage",
    "bool": "BoolStorage", "complex128": "ComplexDoubleStorage", "complex64": "ComplexFloatStorage",
}  # fmt: skip
_DTYPE_OF = {storage: name for name, storage in _STORAGE_OF.items()}


class _Name:
    """A name in another library, to be written into the pickle as it stands."""

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name

    def __call__(self, *args: Any) -> Any:
        raise TypeError(f"{self.module}.{self.name} is a name for a file, not a function")


_TENSOR = _Name("torch._utils", "_rebuild_tensor_v2")
_TENSOR_OF_DTYPE = _Name("torch._utils", "_rebuild_tensor_v3")
_PARAMETER = _Name("torch._utils", "_rebuild_parameter")
_SIZE, _DEVICE = _Name("torch", "Size"), _Name("torch", "device")
_UNTYPED = _Name("torch.storage", "UntypedStorage")
_NAMES: dict[str, _Name] = {}


def _torch(name: str) -> _Name:
    return _NAMES.setdefault(name, _Name("torch", name))


# ----- writing -----------------------------------------------------------------------------------------------------------


class _Memory:
    """A run of bytes that tensors point into."""

    def __init__(self, key: str, kind: _Name, where: str, count: int) -> None:
        self.identity = ("storage", kind, key, where, count)


# The Python implementation, since only it lets names be written that need not exist here.
_PythonPickler: Any = vars(pickle)["_Pickler"]


class _Pickler(_PythonPickler):  # type: ignore[misc]  # not in the stubs
    def __init__(self, file: Any, protocol: int) -> None:
        super().__init__(file, protocol)
        self.records: list[Any] = []  # the bytes, by key
        self.known: dict[tuple[int, str], _Memory] = {}
        self.alive: list[Any] = []  # what identities in `known` and in the memo stand for

    def save(self, obj: Any, save_persistent_id: bool = True) -> None:
        if isinstance(obj, dtypes.dtype):
            obj = _torch(obj.name)
        if not isinstance(obj, _Name):
            super().save(obj, save_persistent_id)
        elif id(obj) in self.memo:
            self.write(self.get(self.memo[id(obj)][0]))
        else:
            self.write(b"c" + obj.module.encode() + b"\n" + obj.name.encode() + b"\n")
            self.memoize(obj)

    def persistent_id(self, obj: Any) -> Any:
        return obj.identity if isinstance(obj, _Memory) else None

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, Tensor):
            return self._reduced(obj)
        if isinstance(obj, _Plain):
            return self._plain(obj.tensor)
        if isinstance(obj, Size):
            return _SIZE, (tuple(obj),)
        if isinstance(obj, devices.device):
            return _DEVICE, (obj.type,) if obj.index is None else (obj.type, obj.index)
        return NotImplemented

    def _reduced(self, t: Any) -> Any:
        from ndgrad.nn.parameter import Parameter, is_lazy

        if is_lazy(t):
            return t.__reduce_ex__(2)
        kind, attributes = type(t), {k: v for k, v in t.__dict__.items() if k not in ("_is_buffer", "persistent", "_is_param")}
        if kind is Tensor and not attributes:
            return self._plain(t)
        plain = _Plain(t)
        self.alive.append(plain)
        if kind is Parameter and not attributes:
            return _PARAMETER, (plain, t.requires_grad, OrderedDict())
        return _rebuild_as, (kind, plain, t.requires_grad, attributes)

    def _plain(self, t: Any) -> Any:
        """A tensor's memory, and the window on it that the tensor is."""
        if isinstance(t._array, Variable):
            raise RuntimeError(
                "ndgrad.save: a tensor inside a function transform (grad, vmap) has no values of its own. Return it from the transformed "
                "function first."
            )
        array = memory_of(t)
        where = str(device_of(array))
        if where == "meta":
            raise RuntimeError(f"ndgrad.save: a tensor of shape {tuple(t.shape)} on the meta device has no values to save.")
        name = dtypes.as_dtype(array.dtype).name
        if not isinstance(array, np.ndarray):
            array = moved(array, devices.device("cpu"))
        memory, offset, steps = self._memory(array, name, where)
        requires_grad = bool(t.requires_grad) and t.is_leaf
        if name in _STORAGE_OF:
            return _TENSOR, (memory, offset, tuple(array.shape), steps, requires_grad, OrderedDict())
        return _TENSOR_OF_DTYPE, (memory, offset, tuple(array.shape), steps, requires_grad, OrderedDict(), dtypes.as_dtype(array.dtype))

    def _memory(self, array: Any, name: str, where: str) -> tuple[_Memory, int, tuple[int, ...]]:
        size = array.itemsize
        owner = owner_of(array)
        distance = pointer(array) - pointer(owner) if array.size else 0
        fits = distance % size == 0 and owner.nbytes % size == 0 and all(s >= 0 and s % size == 0 for s in array.strides)
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

    def __init__(self, t: Any) -> None:
        self.tensor = t


def save(obj: Any, f: Any, pickle_protocol: int = 2) -> None:
    """Write an object (a tensor, a state dict, nested containers of them, a whole module) to a file.

    >>> import io, ndgrad
    >>> file = io.BytesIO()
    >>> ndgrad.save({"weight": ndgrad.ones(2)}, file)
    >>> _ = file.seek(0)
    >>> ndgrad.load(file)
    {'weight': tensor([1., 1.])}

    Files of tensors and containers can be read by `torch.load`; other objects are pickled and need `weights_only=False` to load.
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


def _write(archive: zipfile.ZipFile, name: str, data: Any) -> None:
    """One record, padded so that its bytes begin at a multiple of the alignment: then a file can be mapped into memory."""
    info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
    info.file_size = len(data)
    assert archive.fp is not None
    begin = archive.fp.tell() + 30 + len(name.encode()) + 4
    padding = -begin % _ALIGNMENT
    info.extra = struct.pack("<HH", 0x4246, padding) + b"Z" * padding
    with archive.open(info, "w", force_zip64=len(data) >= 1 << 31) as record:
        record.write(data)


# ----- reading -----------------------------------------------------------------------------------------------------------


class _Bytes:
    """The memory of tensors that are being loaded, and where they are to go."""

    def __init__(self, raw: Any, dtype: str | None, where: Any) -> None:
        self.raw, self.dtype, self.where = raw, dtype, where


def _rebuild_tensor(memory: Any, offset: int, size: Any, stride: Any, requires_grad: bool = False, hooks: Any = None, *rest: Any) -> Any:
    if not isinstance(memory, _Bytes):
        raise pickle.UnpicklingError(f"a tensor in the file has {type(memory).__name__} for its memory. The file is damaged.")
    name = rest[0].name if rest and isinstance(rest[0], dtypes.dtype) else memory.dtype
    if name is None:
        raise pickle.UnpicklingError("a tensor in the file has no dtype. The file is damaged.")
    array = window(memory.raw, dtypes.as_numpy_dtype(name), int(offset), tuple(size), tuple(stride))
    made = wrap(Tensor, array)
    made._storage = shared_storage(array)  # a write through one of several tensors is seen by all
    if memory.where is not None:
        made = made.to(memory.where)
    if requires_grad:
        meta_of(made).requires_grad = True
    return made


def _rebuild_parameter(data: Any, requires_grad: bool = True, hooks: Any = None, state: Any = None) -> Any:
    from ndgrad.nn.parameter import Parameter

    made = Parameter(data, requires_grad)
    if isinstance(state, dict):
        made.__dict__.update(state)
    return made


def _rebuild_as(kind: Any, data: Any, requires_grad: bool, attributes: dict[str, Any]) -> Any:
    """A tensor of another class over the memory of a plain one."""
    if not (isinstance(kind, type) and issubclass(kind, Tensor) and isinstance(data, Tensor)):
        raise pickle.UnpicklingError(f"{kind!r} in the file is no class of tensors. The file is damaged.")
    made = wrap(kind, data._array)
    made._storage = data._storage
    if requires_grad:
        meta_of(made).requires_grad = True
    made.__dict__.update(attributes)
    return made


def _rebuild_from_type(function: Any, kind: Any, args: Any, state: Any) -> Any:
    made = function(*args)
    if isinstance(state, dict):
        made.__dict__.update(state)
    return made


def _known(module: str, name: str) -> Any:
    """What a name in a file of tensors stands for; None if it is no such name."""
    if module == "torch" and name in _DTYPE_OF:
        return _DTYPE_OF[name]
    if module == "torch" and name in dtypes._BY_NAME:
        return dtypes._BY_NAME[name]
    return _known_functions().get(f"{module}.{name}")


def _known_functions() -> dict[str, Any]:
    from ndgrad.nn.parameter import Parameter, UninitializedBuffer, UninitializedParameter, _rebuild_uninitialized
    from ndgrad.numpy.array import Array

    return {
        "collections.OrderedDict": OrderedDict,
        "collections.Counter": Counter,
        "builtins.complex": complex,
        "builtins.set": set,
        "builtins.frozenset": frozenset,
        "builtins.bytearray": bytearray,
        "builtins.slice": slice,
        "builtins.range": range,
        "__builtin__.set": set,
        "__builtin__.complex": complex,
        "__builtin__.bytearray": bytearray,
        "_codecs.encode": _encode,
        "torch._utils._rebuild_tensor": _rebuild_tensor,
        "torch._utils._rebuild_tensor_v2": _rebuild_tensor,
        "torch._utils._rebuild_tensor_v3": _rebuild_tensor,
        "torch._utils._rebuild_parameter": _rebuild_parameter,
        "torch._utils._rebuild_parameter_with_state": _rebuild_parameter,
        "torch._tensor._rebuild_from_type_v2": _rebuild_from_type,
        "torch.storage.UntypedStorage": UntypedStorage,
        "torch.Size": Size,
        "torch.device": devices.device,
        "torch.Tensor": Tensor,
        "torch._tensor.Tensor": Tensor,
        "torch.nn.parameter.Parameter": Parameter,
        "ndgrad.tensor.Tensor": Tensor,
        "ndgrad.numpy.array.Array": Array,
        "ndgrad.nn.parameter.Parameter": Parameter,
        "ndgrad.nn.parameter.UninitializedBuffer": UninitializedBuffer,
        "ndgrad.nn.parameter.UninitializedParameter": UninitializedParameter,
        "ndgrad.nn.parameter._rebuild_uninitialized": _rebuild_uninitialized,
        "ndgrad.serialization._rebuild_as": _rebuild_as,
    }


def _encode(text: str, encoding: str) -> bytes:
    """How old pickles hold bytes."""
    if encoding not in ("latin1", "latin-1"):
        raise pickle.UnpicklingError(f"bytes in the file are encoded as {encoding!r}. The file is damaged.")
    return text.encode("latin-1")


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: Any, weights_only: bool, fetch: Callable[[Any], Any]) -> None:
        super().__init__(file)
        self.weights_only, self.fetch = weights_only, fetch

    def find_class(self, module: str, name: str) -> Any:
        found = _known(module, name)
        if found is not None:
            return found
        if self.weights_only:
            raise pickle.UnpicklingError(
                f"Weights only load failed: the file wants {module}.{name}, which could run code of the file's author. If you trust where "
                "the file comes from, pass weights_only=False."
            )
        return super().find_class(module, name)

    def persistent_load(self, identity: Any) -> Any:
        return self.fetch(identity)


def load(f: Any, map_location: Any = None, weights_only: bool = True, mmap: bool = False) -> Any:
    """Read what `ndgrad.save` or `torch.save` has written.

    `map_location` says where tensors go: a device, a dict from device to device, or a function of storage and device. Unless
    `weights_only` is False, only tensors and plain containers are read, and nothing in the file is run. With `mmap`, tensors stay
    in the file until they are used; writing into them does not change it.
    """
    if not zipfile.is_zipfile(f):
        raise RuntimeError(
            f"ndgrad.load: {f if isinstance(f, (str, os.PathLike)) else 'the file'} is not an archive that ndgrad.save or torch.save "
            "(1.6 or later) has written."
        )
    if mmap and not isinstance(f, (str, os.PathLike)):
        raise ValueError("ndgrad.load: mmap=True maps a file by its path, and was given an open file. Pass the path.")
    with zipfile.ZipFile(f) as archive:
        pickled = next((n for n in archive.namelist() if n == "data.pkl" or n.endswith("/data.pkl")), None)
        if pickled is None:
            raise RuntimeError("ndgrad.load: the archive holds no data.pkl. It was not written by ndgrad.save or torch.save.")
        root = pickled[: -len("data.pkl")]
        swapped = root + "byteorder" in archive.namelist() and archive.read(root + "byteorder").decode() != sys.byteorder
        read: dict[str, Any] = {}

        def fetch(identity: Any) -> Any:
            kind, storage, key, where = identity[:4]
            if kind != "storage":
                raise pickle.UnpicklingError(f"the file names {kind!r} where memory should be. The file is damaged.")
            name = storage if isinstance(storage, str) else None
            if key not in read:
                record = f"{root}data/{key}"
                read[key] = _mapped(f, archive, record) if mmap else np.frombuffer(bytearray(archive.read(record)), np.uint8)
                if swapped and name is not None:
                    read[key] = read[key].view(dtypes.as_numpy_dtype(name)).byteswap().view(np.uint8)
            return _Bytes(read[key], name, _place(map_location, where, read[key]))

        return _Unpickler(io.BytesIO(archive.read(pickled)), weights_only, fetch).load()


def _mapped(f: Any, archive: zipfile.ZipFile, record: str) -> Any:
    """The bytes of a record, left in the file until they are used."""
    info = archive.getinfo(record)
    if info.compress_type != zipfile.ZIP_STORED:
        raise RuntimeError(f"ndgrad.load: {record} is compressed, and cannot be mapped. Pass mmap=False.")
    if info.file_size == 0:
        return np.empty(0, np.uint8)
    with open(f, "rb") as file:
        file.seek(info.header_offset + 26)
        name_length, extra_length = struct.unpack("<HH", file.read(4))
    begin = info.header_offset + 30 + name_length + extra_length
    return np.asarray(np.memmap(f, np.uint8, "c", begin, (info.file_size,)))


def _place(map_location: Any, where: str, raw: Any) -> Any:
    """The device that a tensor saved from `where` is to go to; None if it can stay on the CPU."""
    if callable(map_location) and not isinstance(map_location, devices.device):
        answer = map_location(UntypedStorage(raw), where)
        wanted = where if answer is None else "cpu"
    elif isinstance(map_location, dict):
        wanted = map_location.get(where, where)
    else:
        wanted = where if map_location is None else map_location
    return None if str(wanted) == "cpu" else wanted
