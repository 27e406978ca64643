"""`ndgrad.save`: write tensors and their containers to a file."""

from __future__ import annotations

import io
import os
import pickle
import sys
import zipfile
from collections import OrderedDict
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.arrays import dtypes
from ndgrad._src.arrays.addresses import contiguous_strides, flat_bytes, owner_of, pointer
from ndgrad._src.arrays.placement import device_of, move_to
from ndgrad._src.core.sparse_gradients import is_sparse_data
from ndgrad._src.core.variable import Variable
from ndgrad._src.foundations import devices
from ndgrad._src.foundations.atomic_files import open_replacement
from ndgrad._src.foundations.sizes import Size
from ndgrad._src.tensor.storage import TypedStorage, UntypedStorage, memory_of
from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad.serialization import legacy
from ndgrad.serialization.archive import ALIGNMENT, write_record
from ndgrad.serialization.locations import location_tag
from ndgrad.serialization.names import (
    DEVICE,
    FROM_TYPE,
    IS_ARRAY,
    LAYOUT,
    META_TENSOR,
    NESTED,
    PARAMETER,
    PARAMETER_WITH_STATE,
    SIZE,
    SPARSE,
    STORAGE_OF,
    TENSOR,
    TENSOR_OF_DTYPE,
    TENSOR_TYPE,
    UNTYPED,
    Name,
    torch_name,
)  # fmt: skip
from ndgrad.serialization.options import skipping
from ndgrad.serialization.rebuilding import _rebuild_as
from ndgrad.serialization.storages import array_class

if TYPE_CHECKING:
    from numpy.typing import NDArray


class _Memory:
    """A run of bytes to which tensors refer."""

    def __init__(self, key: str, kind: Name, where: str, count: int, legacy: bool) -> None:
        self.identity = ("storage", kind, key, where, count, *((None,) if legacy else ()))


# Use the Python implementation, since only it can write names that do not exist here.
_PythonPickler: Any = vars(pickle)["_Pickler"]


class _Pickler(_PythonPickler):  # type: ignore[misc]  # not in the stubs
    def __init__(self, file: IO[bytes], protocol: int, legacy: bool) -> None:
        super().__init__(file, protocol)
        self.legacy = legacy
        self.records: list[tuple[int, Any]] = []  # by key: number of elements, and the bytes
        self.known: dict[tuple[int, str], _Memory] = {}
        self.alive: list[Any] = []  # objects whose identities are in `known` and in the memo

    def save(self, obj: object, save_persistent_id: bool = True) -> None:
        if isinstance(obj, dtypes.dtype):
            obj = torch_name(obj.name)
        if not isinstance(obj, Name):
            super().save(obj, save_persistent_id)
        elif id(obj) in self.memo:
            self.write(self.get(self.memo[id(obj)][0]))
        else:
            self.write(b"c" + obj.module.encode() + b"\n" + obj.name.encode() + b"\n")
            self.memoize(obj)

    def persistent_id(self, obj: object) -> tuple[Any, ...] | None:
        if isinstance(obj, UntypedStorage):
            obj = self._memory(obj._bytes, "", None)[0]
        elif isinstance(obj, TypedStorage):
            obj = self._memory(obj._elements, obj.dtype.name, None)[0]
        return obj.identity if isinstance(obj, _Memory) else None

    def reducer_override(self, obj: object) -> Any:
        if isinstance(obj, Tensor):
            return self._reduce_tensor(obj)
        if isinstance(obj, _Plain):
            return self._plain(obj.tensor)
        if isinstance(obj, Size):
            return SIZE, (tuple(obj),)
        if isinstance(obj, devices.layout):
            return LAYOUT, (f"torch.{obj.name}",)
        if isinstance(obj, devices.device):
            return DEVICE, (obj.type,) if obj.index is None else (obj.type, obj.index)
        return NotImplemented

    def _reduce_tensor(self, t: Tensor) -> tuple[Any, ...]:
        from ndgrad.nn.parameter import Parameter, is_lazy  # avoids an import cycle

        # Their class raises the right error, or keeps the values in other tensors.
        if is_lazy(t) or t.run_op is not None or (t._meta is not None and t._meta.names is not None):
            return t.__reduce_ex__(2)
        if is_sparse_data(t._array):
            from ndgrad._src.tensor.functions.sparse_parts import parts_of  # loaded only for sparse tensors

            return SPARSE, (t.layout, parts_of(t.detach()))
        if t.is_nested:
            from ndgrad.nested.files import parts_of as parts_of_nested  # loaded only for nested tensors

            return NESTED, (parts_of_nested(t),)
        kind, attributes = (
            type(t),
            {k: v for k, v in t.__dict__.items() if k not in ("_is_buffer", "persistent", "_is_param")},
        )
        if kind is Tensor or kind is array_class():
            plain = self._plain(t)
            return (FROM_TYPE, (plain[0], TENSOR_TYPE, plain[1], attributes)) if attributes else plain
        inner = _Plain(t)
        self.alive.append(inner)
        if kind is Parameter:
            given: tuple[Any, ...] = (inner, bool(t.requires_grad), OrderedDict())
            return (PARAMETER_WITH_STATE, (*given, attributes)) if attributes else (PARAMETER, given)
        return _rebuild_as, (kind, inner, bool(t.requires_grad), attributes)

    def _plain(self, t: Tensor) -> tuple[Any, ...]:
        if isinstance(t._array, Variable):
            raise RuntimeError(
                "ndgrad.save: a tensor inside a function transform (grad, vmap) has no values of its own. "
                "Return it from the transformed function first. [nd-in-transform]"
            )
        array = memory_of(t)
        where = str(device_of(array))
        if where == "meta":
            return META_TENSOR, (t.dtype, tuple(t.shape), t.stride(), bool(t.requires_grad))
        name = dtypes.as_dtype(array.dtype).name
        if not isinstance(array, np.ndarray):
            array = move_to(array, devices.device("cpu"))
        memory, offset, steps = self._memory(array, name, None if where == "cpu" else where)
        args: tuple[Any, ...] = (memory, offset, tuple(array.shape), steps, bool(t.requires_grad), OrderedDict())
        flags = ({IS_ARRAY: True},) if type(t) is array_class() else ()
        if name in STORAGE_OF:
            return TENSOR, (*args, *flags)
        return TENSOR_OF_DTYPE, (*args, dtypes.as_dtype(array.dtype), *flags)

    def _memory(self, array: NDArray[Any], name: str, where: str | None) -> tuple[_Memory, int, tuple[int, ...]]:
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
        if raw is None:  # torch has no negative or uneven strides, and gaps may belong to other data
            array = owner = np.ascontiguousarray(array).reshape(array.shape)
            raw, distance = flat_bytes(owner), 0
        self.alive.append(owner)
        key = (id(owner), name)
        if key not in self.known:
            kind = torch_name(STORAGE_OF[name]) if name in STORAGE_OF else UNTYPED
            count = raw.nbytes // size if name in STORAGE_OF else raw.nbytes
            place = location_tag(UntypedStorage(owner)) if where is None else where
            self.known[key] = _Memory(str(len(self.records)), kind, place, count, self.legacy)
            self.records.append((count, raw))
        steps = tuple(s // size for s in array.strides) if array.size else contiguous_strides(array.shape)
        return self.known[key], distance // size, steps


class _Plain:
    """Stands for the plain tensor inside a parameter or another class's tensor, without its class."""

    def __init__(self, t: Tensor) -> None:
        self.tensor = t


def save(
    obj: object,
    f: str | os.PathLike[str] | IO[bytes],
    pickle_module: Any = pickle,
    pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
) -> None:
    """Write an object (a tensor, a state dict, nested containers of them, a whole module) to a file.

    Files of tensors and containers can be read by `torch.load`, for which an `Array` is a tensor like any other; other
    objects are pickled and need `weights_only=False` to load. A path holds either the old file or the new one, never a
    part of it.

    Args:
        obj: tensor, state dict, nested containers of them, or any object that pickle can write.
        f: path, or file that is open for writing bytes.
        pickle_module: Python's `pickle`. Other modules are refused.
        pickle_protocol: protocol of pickle.

    >>> import io, ndgrad
    >>> file = io.BytesIO()
    >>> ndgrad.save({"weight": ndgrad.ones(2)}, file)
    >>> _ = file.seek(0)
    >>> ndgrad.load(file)
    {'weight': tensor([1., 1.])}
    """
    if pickle_module is not pickle:
        raise NotImplementedError(
            f"ndgrad.save: pickle_module is {getattr(pickle_module, '__name__', pickle_module)!r}, and files are "
            "written by Python's pickle alone, since only it can be told the names that tensors have in torch's "
            "files. Leave pickle_module out, and save what only another module can pickle with that module. "
            "[nd-unsupported]"
        )
    path = f if isinstance(f, (str, os.PathLike)) else None
    if path is None and not hasattr(f, "write"):
        raise AttributeError(
            "expected 'f' to be string, path, or a file-like object with a 'write' attribute, but got "
            f"{type(f).__name__}. Pass a path, or a file that is open for writing in binary mode. [nd-path]"
        )
    if path is not None and not os.path.isdir(os.path.dirname(os.path.abspath(path))):
        raise RuntimeError(
            f"Parent directory {os.path.dirname(os.fspath(path))} does not exist. Make it first. [nd-path]"
        )
    pickled = io.BytesIO()
    pickler = _Pickler(pickled, pickle_protocol, legacy=not _use_new_zipfile_serialization)
    pickler.dump(obj)
    # Write the file only now that everything is known to be savable.
    if not _use_new_zipfile_serialization:
        chunks = legacy.chunks(pickled.getvalue(), pickler.records, pickle_protocol)
        if path is None:
            for chunk in chunks:
                f.write(chunk)  # type: ignore[union-attr]  # a file, since it is no path
        else:
            with open_replacement(path) as file:
                file.writelines(chunks)
        return
    stem = "archive" if path is None else os.path.splitext(os.path.basename(os.fspath(path)))[0]
    order = None if _disable_byteorder_record else sys.byteorder
    if path is None:
        _write_archive(f, stem, pickled.getvalue(), pickler.records, order)  # type: ignore[arg-type]  # no path
    else:
        with open_replacement(path) as file:
            _write_archive(file, stem, pickled.getvalue(), pickler.records, order)


def _write_archive(
    file: IO[bytes], stem: str, pickled: bytes, records: list[tuple[int, Any]], order: str | None
) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        write_record(archive, f"{stem}/data.pkl", pickled)
        write_record(archive, f"{stem}/.format_version", b"1")
        write_record(archive, f"{stem}/.storage_alignment", str(ALIGNMENT).encode())
        if order is not None:
            write_record(archive, f"{stem}/byteorder", order.encode())
        for key, (_, raw) in enumerate(records):
            write_record(archive, f"{stem}/data/{key}", memoryview(raw), zeros=skipping.get())
        write_record(archive, f"{stem}/version", b"3\n")
