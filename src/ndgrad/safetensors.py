"""Files of tensors in the safetensors format, under the names of `safetensors.torch`.

A file consists of the length of a header, the header (JSON: name, dtype, shape and position of each tensor), and bytes.
So it contains no code, and a tensor can be read, or mapped into memory, without the others. The header is validated.
The package safetensors is not needed.
"""

from __future__ import annotations

import io
import json
import math
import os
from collections.abc import Iterator, Mapping
from typing import IO, TYPE_CHECKING, Any, Self

import numpy as np

from ndgrad._src.arrays import dtypes
from ndgrad._src.arrays.placement import device_of, move_to
from ndgrad._src.core.sparse_gradients import is_sparse_data
from ndgrad._src.core.variable import Variable, wrap
from ndgrad._src.foundations.atomic_files import open_replacement
from ndgrad._src.foundations.devices import device as _device
from ndgrad._src.foundations.mapped_files import map_file, view_part
from ndgrad._src.tensor.storage import memory_of
from ndgrad._src.tensor.tensor_class import Tensor

if TYPE_CHECKING:
    from mmap import mmap

    from numpy.typing import NDArray

    from ndgrad._typing import Device
    from ndgrad.nn import Module

__all__ = ["SafetensorError", "load", "load_file", "load_model", "safe_open", "save", "save_file", "save_model"]

_NAMES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64", "I32": "int32",
    "I16": "int16", "I8": "int8", "U64": "uint64", "U32": "uint32", "U16": "uint16", "U8": "uint8", "BOOL": "bool",
    "C64": "complex64", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "F8_E8M0": "float8_e8m0fnu",
}  # fmt: skip
_NAME_OF = {ours: theirs for theirs, ours in _NAMES.items()}
_LONGEST_HEADER = 100_000_000


class SafetensorError(Exception):
    """A file is damaged or no safetensors file, or tensors cannot be stored in one."""


# ----- writing --------------------------------------------------------------------------------------------------------


def save_file(
    tensors: Mapping[str, Tensor], filename: str | os.PathLike[str], metadata: Mapping[str, str] | None = None
) -> None:
    """Write tensors to a file, by name. The path holds either the old file or the new one, never a part of it.

    Tensors that share memory raise an error, since the file would hold it twice: `save_model` keeps one of them.

    Args:
        tensors: tensors by name.
        filename: path of the file.
        metadata: texts by name that the file holds too.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "weights.safetensors")
    >>> ndgrad.safetensors.save_file({"w": ndgrad.ones(2)}, path, {"made by": "me"})
    >>> ndgrad.safetensors.load_file(path)
    {'w': tensor([1., 1.])}
    """
    parts = _parts(tensors, metadata, "save_file")
    with open_replacement(filename) as file:
        file.writelines(parts)


def save(tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> bytes:
    """Return the bytes that `save_file` would write.

    Args:
        tensors: tensors by name.
        metadata: texts by name that the file holds too.

    >>> ndgrad.safetensors.load(ndgrad.safetensors.save({"w": ndgrad.ones(2)}))
    {'w': tensor([1., 1.])}
    """
    return b"".join(_parts(tensors, metadata, "save"))


def save_model(
    model: Module,
    filename: str | os.PathLike[str],
    metadata: Mapping[str, str] | None = None,
    force_contiguous: bool = True,
) -> None:
    """Write a module's parameters and buffers. Tied weights are written once; the file lists all their names.

    Args:
        model: module to write.
        filename: path of the file.
        metadata: texts by name that the file holds too.
        force_contiguous: accepted as in safetensors; has no effect, because tensors are always written contiguous.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "model.safetensors")
    >>> ndgrad.safetensors.save_model(ndgrad.nn.Linear(2, 1), path)
    >>> ndgrad.safetensors.load_model(ndgrad.nn.Linear(2, 1), path)
    (set(), [])
    """
    state = dict(model.state_dict())
    notes = dict(metadata or {})
    kept: dict[tuple[Any, ...], str] = {}
    for name in sorted(state):
        identity = _identity(state[name])
        if identity in kept:
            notes.setdefault(name, kept[identity])
            del state[name]
        else:
            kept[identity] = name
    save_file(state, filename, notes or None)


def _parts(tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None, called: str) -> list[Any]:
    """Return the bytes of a file, in parts. Nothing is written unless all of it can be."""
    where = f"ndgrad.safetensors.{called}"
    _check_names(tensors, metadata, where)
    arrays = {name: _values(name, t, where) for name, t in tensors.items()}
    _check_memory(tensors, where)
    # Larger elements first, so that each lies at a multiple of its size.
    order = sorted(arrays, key=lambda name: (-arrays[name].itemsize, name))
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    begin = 0
    for name in order:
        array = arrays[name]
        header[name] = {
            "dtype": _NAME_OF[dtypes.as_dtype(array.dtype).name],
            "shape": list(array.shape),
            "data_offsets": [begin, begin + array.nbytes],
        }
        begin += array.nbytes
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return [len(text).to_bytes(8, "little"), text, *(_bytes_of(arrays[name]).data for name in order)]


def _check_names(tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None, where: str) -> None:
    wrong = next((n for n, t in tensors.items() if type(n) is not str or not isinstance(t, Tensor)), None)
    if wrong is not None:
        raise ValueError(
            f"{where}: expected a dict from names to tensors, and {wrong!r} is a {type(tensors[wrong]).__name__}. "
            "Make it a tensor, or put what is none into `metadata`, as text. [nd-file-content]"
        )
    if "__metadata__" in tensors:
        raise ValueError(
            f"{where}: a tensor cannot be called '__metadata__' in this format. Give it another name. [nd-file-content]"
        )
    if not all(type(text) is str for pair in (metadata or {}).items() for text in pair):
        raise ValueError(f"{where}: metadata is a dict from text to text, but was {metadata!r:.200}. [nd-file-content]")


def _values(name: str, t: Tensor, where: str) -> NDArray[Any]:
    if isinstance(t._array, Variable):
        raise RuntimeError(
            f"{where}: {name!r} is inside a function transform, so it has no values. Return it first. [nd-in-transform]"
        )
    if is_sparse_data(t._array) or t.is_meta:
        kind = "sparse" if not t.is_meta else "on the meta device"
        raise ValueError(
            f"{where}: {name!r} of shape {tuple(t.shape)} is {kind}, and the format has dense tensors only. Use "
            f"{'to_dense(), or its indices and values' if not t.is_meta else 'a tensor with values'}. [nd-file-content]"
        )
    array = memory_of(t)
    if dtypes.as_dtype(array.dtype).name not in _NAME_OF:
        raise ValueError(
            f"{where}: {name!r} is of {t.dtype}, for which the format has no name. Save its real and imaginary "
            "parts, or use ndgrad.save. [nd-file-content]"
        )
    return np.asarray(array if str(device_of(array)) == "cpu" else move_to(array, _device("cpu")))


def _bytes_of(array: NDArray[Any]) -> NDArray[np.uint8]:
    flat = np.ascontiguousarray(array).reshape(-1)
    if array.dtype.byteorder == ">" or (array.dtype.byteorder == "=" and not _LITTLE):
        flat = flat.byteswap()
    return flat.view(np.uint8)


_LITTLE = np.dtype("<i8") == np.dtype("i8")


def _identity(t: Tensor) -> tuple[Any, ...]:
    """Return a key that is equal for two tensors with the same window on the same memory; unique for one without
    elements.
    """
    return (t.data_ptr() if t.numel() else id(t), tuple(t.shape), t.stride(), t.dtype, str(t.device))


def _check_memory(tensors: Mapping[str, Tensor], where: str) -> None:
    spans = []
    for name, t in tensors.items():
        array = memory_of(t)
        if array.size and isinstance(array, np.ndarray):
            low, high = np.lib.array_utils.byte_bounds(array)
            spans.append((low, high, name))
    spans.sort()
    end, holder = 0, ""
    for low, high, name in spans:
        if low < end:
            raise RuntimeError(
                f"{where}: some tensors share memory, {holder!r} and {name!r}: the file would hold it twice, and the "
                "tensors would be apart when they are loaded. Use ndgrad.safetensors.save_model for a module with "
                "tied weights, ndgrad.save, which keeps such tensors together, or clone() one of them. "
                "[nd-file-content]"
            )
        if high > end:
            end, holder = high, name


# ----- reading --------------------------------------------------------------------------------------------------------


class safe_open:  # the name in safetensors
    """File whose tensors are read one by one: opening it reads only the header, for any size.

    Args:
        filename: path of the file.
        framework: `"pt"` for tensors, `"np"` for NumPy's arrays.
        device: device of the tensors.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "weights.safetensors")
    >>> ndgrad.safetensors.save_file({"w": ndgrad.arange(6.0).reshape(2, 3), "b": ndgrad.ones(3)}, path)
    >>> with ndgrad.safetensors.safe_open(path) as file:
    ...     list(file.keys()), file.get_slice("w").get_shape()
    ...     file.get_slice("w")[:, 1]
    (['b', 'w'], [2, 3])
    tensor([1., 4.])
    """

    def __init__(self, filename: str | os.PathLike[str], framework: str = "pt", device: Device = "cpu") -> None:
        if framework not in ("pt", "torch", "np", "numpy"):
            raise ValueError(
                f"safe_open: framework is {framework!r}, and can be 'pt' (tensors) or 'np' (NumPy's arrays) here. "
                "[nd-option]"
            )
        self._plain, self._where = framework in ("np", "numpy"), device
        self._called = os.fspath(filename)
        with open(filename, "rb") as file:
            self._header, self._metadata, self._begin = _header_of(file, str(self._called))
            self._map: mmap | None = map_file(file, "refused")

    def keys(self) -> list[str]:
        """Return the names of the tensors, sorted."""
        return sorted(self._header)

    def offset_keys(self) -> list[str]:
        """Return the names in the order of their bytes in the file."""
        return sorted(self._header, key=lambda name: (self._header[name]["data_offsets"][0], name))

    def metadata(self) -> dict[str, str] | None:
        """Return the metadata given to `save_file`."""
        return self._metadata

    def get_tensor(self, name: str) -> Any:
        """Return a tensor, copied from the file.

        Args:
            name: name of the tensor.
        """
        return self._wrap(self._map_tensor(name).copy())

    def get_slice(self, name: str) -> SafeSlice:
        """Return a tensor that is still in the file: index it to read a part.

        Args:
            name: name of the tensor.
        """
        return SafeSlice(self, name)

    def _map_tensor(self, name: str) -> NDArray[Any]:
        if self._map is None:
            raise SafetensorError(f"{self._called} is closed. Read tensors inside the `with` block. [nd-call-order]")
        if name not in self._header:
            raise SafetensorError(
                f"File does not contain tensor {name}: {self._called} holds {self.keys()!r:.500}. [nd-key]"
            )
        return _window(self._map, self._begin, self._header[name])

    def _wrap(self, array: NDArray[Any]) -> Any:
        if self._plain:
            return array
        made = wrap(Tensor, array)
        return made if str(self._where) == "cpu" else made.to(self._where)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._map = None  # arrays over it may be alive: it is closed with the last

    def __len__(self) -> int:
        return len(self._header)

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())


class SafeSlice:
    """A tensor in a file, of which parts can be read."""

    def __init__(self, file: safe_open, name: str) -> None:
        self._file, self._name = file, name
        file._map_tensor(name)

    def get_shape(self) -> list[int]:
        """Return the shape."""
        return list(self._file._header[self._name]["shape"])

    def get_dtype(self) -> str:
        """Return the name of the dtype in the file."""
        return str(self._file._header[self._name]["dtype"])

    def __getitem__(self, index: Any) -> Any:
        return self._file._wrap(np.array(self._file._map_tensor(self._name)[index]))


def load_file(filename: str | os.PathLike[str], device: Device = "cpu", *, mmap: bool = False) -> dict[str, Tensor]:
    """Return the tensors of a file, by name. With `mmap`, they stay in the file until they are used: a file of any size
    opens immediately, and writing into them does not change it.

    Args:
        filename: path of the file.
        device: device of the tensors.
        mmap: whether tensors stay in the file until they are used.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "weights.safetensors")
    >>> ndgrad.safetensors.save_file({"w": ndgrad.ones(2)}, path)
    >>> ndgrad.safetensors.load_file(path, mmap=True)
    {'w': tensor([1., 1.])}
    """
    with safe_open(filename, "pt", device) as file:
        if mmap:  # in writable memory
            with open(filename, "rb") as opened:
                file._map = map_file(opened, "private")
        arrays = {name: file._map_tensor(name) for name in file.offset_keys()}
        # Other writers' files need not be aligned.
        return {name: file._wrap(a if mmap and a.flags.aligned else a.copy()) for name, a in arrays.items()}


def load(data: bytes) -> dict[str, Tensor]:
    """Return the tensors in the bytes of a file.

    Args:
        data: bytes of a file.

    >>> ndgrad.safetensors.load(ndgrad.safetensors.save({"w": ndgrad.ones(2)}))
    {'w': tensor([1., 1.])}
    """
    header, _, begin = _header_of(io.BytesIO(data), "the data")
    names = sorted(header, key=lambda name: header[name]["data_offsets"][0])
    return {name: wrap(Tensor, _window(data, begin, header[name]).copy()) for name in names}


def load_model(
    model: Module, filename: str | os.PathLike[str], strict: bool = True, device: Device = "cpu"
) -> tuple[set[str], list[str]]:
    """Fill a module from a file of `save_model`. Return the names that are missing in the file, and those that the
    module does not have. With `strict`, there may be none.

    Args:
        model: module to fill.
        filename: path of the file.
        strict: whether missing and unknown names raise RuntimeError.
        device: device of the tensors.

    Returns:
        Names that are missing in the file, and names that the module does not have.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "model.safetensors")
    >>> ndgrad.safetensors.save_model(ndgrad.nn.Linear(2, 1), path)
    >>> ndgrad.safetensors.load_model(ndgrad.nn.Linear(2, 1, bias=False), path, strict=False)
    (set(), ['bias'])
    """
    state = load_file(filename, device)
    own = model.state_dict()
    held: dict[tuple[Any, ...], set[str]] = {}
    for name, t in own.items():
        held.setdefault(_identity(t), set()).add(name)
    # If a tensor has several names, the file may hold it under another one.
    missing = {name for name in own if not held[_identity(own[name])] & state.keys()}
    unexpected = [name for name in state if name not in own]
    if strict and (missing or unexpected):
        raise RuntimeError(
            f"Error(s) in loading state_dict for {type(model).__name__} from {os.fspath(filename)}: missing keys "
            f"{sorted(missing)}, unexpected keys {unexpected}. The module is as it was; pass strict=False to fill "
            f"what fits. [nd-state-dict]"
        )
    model.load_state_dict(state, strict=False)
    return missing, unexpected


class _Repeated(ValueError):
    """An error in a header. `_header_of` adds the file's name and a remedy."""


def _header_of(file: IO[bytes], called: str) -> tuple[dict[str, dict[str, Any]], dict[str, str] | None, int]:
    """Return the validated header of a file, its metadata, and the start of the bytes."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    length = int.from_bytes(file.read(8), "little")
    if size < 8 or length > min(size - 8, _LONGEST_HEADER):
        raise SafetensorError(
            f"{called} of {size:,} bytes is no safetensors file, or was cut off: its header should have {length:,} "
            "bytes. Copy it or save it again. [nd-file-damaged]"
        )
    try:
        header = json.loads(file.read(length), object_pairs_hook=_without_repeats)
    except (ValueError, RecursionError) as error:
        raise SafetensorError(
            f"{called} has a header that cannot be read: {error}. The file is damaged. [nd-file-damaged]"
        ) from error
    if type(header) is not dict:
        raise SafetensorError(
            f"{called} has a {type(header).__name__} for a header. The file is damaged. [nd-file-damaged]"
        )
    metadata = header.pop("__metadata__", None)
    if metadata is not None and not (type(metadata) is dict and all(type(v) is str for v in metadata.values())):
        raise SafetensorError(f"{called} has metadata that are not text. The file is damaged. [nd-file-damaged]")
    for name, entry in header.items():
        _check_entry(name, entry, called)
    end = 0
    for name in sorted(header, key=lambda name: header[name]["data_offsets"]):
        begin, after = header[name]["data_offsets"]
        if begin != end:
            raise SafetensorError(
                f"{called}: the bytes of {name!r:.100} begin at {begin}, and those before end at {end}. The file "
                f"is damaged. [nd-file-damaged]"
            )
        end = after
    if end != size - 8 - length:
        raise SafetensorError(
            f"{called} has {size - 8 - length:,} bytes of tensors, and its header speaks of {end:,}. The file is "
            "damaged, or was cut off: copy it or save it again. [nd-file-damaged]"
        )
    return header, metadata, 8 + length


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _Repeated("a name stands in it twice")
    return found


def _check_entry(name: str, entry: Any, called: str) -> None:
    if type(entry) is dict and entry.keys() == {"dtype", "shape", "data_offsets"}:
        dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
        lists = type(shape) is list and type(offsets) is list and len(offsets) == 2 and type(dtype) is str
        if lists and all(type(n) is int and 0 <= n < 1 << 63 for n in (*shape, *offsets)):
            if dtype not in _NAMES:
                raise SafetensorError(
                    f"{called} holds {name!r:.100} of dtype {dtype!r:.20}, which there is not here. Convert it with "
                    "the library that wrote it. [nd-file-kind]"
                )
            if math.prod(shape) * dtypes.as_numpy_dtype(_NAMES[dtype]).itemsize == offsets[1] - offsets[0]:
                return
    raise SafetensorError(
        f"{called}: what its header says of {name!r:.100} ({entry!r:.200}) fits no tensor. The file is damaged. "
        "[nd-file-damaged]"
    )


def _window(memory: mmap | bytes, begin: int, entry: dict[str, Any]) -> NDArray[Any]:
    dtype = dtypes.as_numpy_dtype(_NAMES[entry["dtype"]])
    first, after = entry["data_offsets"]
    raw: NDArray[Any]
    if isinstance(memory, bytes):
        raw = np.frombuffer(memory, np.uint8, after - first, begin + first)
    else:
        raw = view_part(memory, begin + first, after - first)
    array = raw.view(dtype).reshape(entry["shape"])
    return array if _LITTLE else array.byteswap()
