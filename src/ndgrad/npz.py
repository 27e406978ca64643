"""Tensors in NumPy's own archives: `npz` files, without pickles in either direction.

`numpy.load` reads these files, and this module reads files of `numpy.savez`, unless they contain objects. Arrays that
are not compressed can be mapped into memory.
"""

from __future__ import annotations

import io
import os
import struct
import zipfile
from collections.abc import Mapping
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.arrays import dtypes
from ndgrad._src.arrays.placement import move_to
from ndgrad._src.core.sparse_gradients import is_sparse_data
from ndgrad._src.core.variable import Variable, wrap
from ndgrad._src.foundations.atomic_files import open_replacement
from ndgrad._src.foundations.devices import device as _device
from ndgrad._src.foundations.mapped_files import map_file, view_part
from ndgrad._src.tensor.storage import memory_of
from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad.serialization.archive import write_record

if TYPE_CHECKING:
    from mmap import mmap

    from numpy.typing import NDArray

    from ndgrad._typing import Device

__all__ = ["load_file", "save_file"]


def save_file(
    tensors: Mapping[str, Tensor | NDArray[Any]], filename: str | os.PathLike[str], *, compressed: bool = False
) -> None:
    """Write tensors to an npz file, by name. The path holds either the old file or the new one, never a part of it.

    Args:
        tensors: tensors or arrays by name. Sparse tensors and arrays of objects are refused.
        filename: path of the file. The suffix `.npz` is not added.
        compressed: whether the arrays are compressed. Compressed arrays cannot be mapped into memory.

    Raises:
        ValueError: if a name is not text, or if a value cannot be stored without pickles.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "weights.npz")
    >>> ndgrad.npz.save_file({"w": ndgrad.ones(2)}, path)
    >>> np.load(path)["w"]
    array([1., 1.], dtype=float32)
    """
    arrays = {name: _values(name, value) for name, value in tensors.items()}
    kind = zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED
    with open_replacement(filename) as file, zipfile.ZipFile(file, "w", kind) as archive:
        for name, array in arrays.items():
            write_record(archive, f"{name}.npy", *_npy(array), kind=kind)


def _values(name: object, value: object) -> NDArray[Any]:
    if type(name) is not str:
        raise ValueError(f"ndgrad.npz.save_file: names are text, and one is {name!r:.100}. [nd-file-content]")
    if isinstance(value, Tensor):
        if isinstance(value._array, Variable) or is_sparse_data(value._array) or value.is_meta:
            raise ValueError(
                f"ndgrad.npz.save_file: {name!r} of shape {tuple(value.shape)} is sparse, without data or inside a "
                "transform, so it has no array of values. Make it dense, or return it first. [nd-file-content]"
            )
        array = memory_of(value)
        value = array if isinstance(array, np.ndarray) else move_to(array, _device("cpu"))
    if not isinstance(value, (np.ndarray, np.generic, int, float, complex)):
        raise ValueError(
            f"ndgrad.npz.save_file: {name!r} is a {type(value).__name__}, and an npz file without pickles holds "
            "arrays and numbers only. Make it a tensor, or use ndgrad.save. [nd-file-content]"
        )
    array = np.asarray(value)
    if array.dtype.hasobject or array.dtype.kind == "V":
        raise ValueError(
            f"ndgrad.npz.save_file: {name!r} is of {array.dtype}, for which NumPy's files have no name. Use "
            "ndgrad.safetensors.save_file, or convert it. [nd-file-content]"
        )
    return array


def _npy(array: NDArray[Any]) -> tuple[bytes, memoryview]:
    """Return the header and the values of an `npy` file, one per array of an npz file. NumPy's headers end at a
    multiple of 64 bytes, so the values are aligned if the record is.
    """
    array = array if array.flags.c_contiguous or array.flags.f_contiguous else np.ascontiguousarray(array)
    head = io.BytesIO()
    np.lib.format.write_array_header_2_0(head, np.lib.format.header_data_from_array_1_0(array))
    values = (array if array.flags.c_contiguous else array.T).reshape(-1).view(np.uint8)
    return head.getvalue(), values.data


def load_file(filename: str | os.PathLike[str], device: Device = "cpu", *, mmap: bool = False) -> dict[str, Tensor]:
    """Return the tensors of an npz file, by name. With `mmap`, those that are not compressed stay in the file until
    they are used: a file of any size opens immediately, and writing into them does not change it.

    Args:
        filename: path of an npz file.
        device: device of the tensors.
        mmap: whether arrays that are not compressed are mapped into memory instead of read.

    Returns:
        tensors by name.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "weights.npz")
    >>> np.savez(path, w=np.ones(2))
    >>> ndgrad.npz.load_file(path, mmap=True)
    {'w': tensor([1., 1.], dtype=ndgrad.float64)}
    """
    called = os.fspath(filename)
    with open(filename, "rb") as file:
        try:
            archive = zipfile.ZipFile(file)
            names = archive.namelist()
        except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError) as error:
            raise ValueError(
                f"ndgrad.npz.load_file: {called} is no npz file, or was cut off: {error}. Copy it or save it again. "
                "[nd-file-damaged]"
            ) from error
        mapped = map_file(file, "private") if mmap else None
        found = {}
        for name in names:
            try:
                array = _array(archive, name, mapped)
                dtypes.as_dtype(array.dtype)
            except Exception as error:
                raise ValueError(
                    f"ndgrad.npz.load_file: {name!r:.100} in {called} is no array of numbers that can be read: "
                    f"{error}. The file is damaged, or holds objects or text, which numpy.load reads. [nd-file-damaged]"
                ) from error
            made = wrap(Tensor, array)
            found[name.removesuffix(".npy")] = made if str(device) == "cpu" else made.to(device)
        return found


class _Unfit(ValueError):
    """An error in a record. `load_file` adds the file's name and a remedy."""


def _array(archive: zipfile.ZipFile, name: str, mapped: mmap | None) -> NDArray[Any]:
    info = archive.getinfo(name)
    with archive.open(info) as record:
        shape, fortran, dtype = _header(record)
        skipped = record.tell()
        if dtype.hasobject:
            raise _Unfit("it holds objects, which are pickled")
        count = int(np.prod(shape, dtype=object))
        if skipped + count * dtype.itemsize != info.file_size:
            raise _Unfit(f"its shape {shape} of {dtype} does not fit its {info.file_size:,} bytes")
        raw: NDArray[Any]
        if mapped is not None and info.compress_type == zipfile.ZIP_STORED and count:
            name_length, extra_length = struct.unpack_from("<HH", mapped, info.header_offset + 26)
            begin = info.header_offset + 30 + name_length + extra_length + skipped
            raw = view_part(mapped, begin, count * dtype.itemsize)
            if not raw.view(dtype).flags.aligned:  # as in many of NumPy's own files
                raw = raw.copy()
        else:
            raw = np.frombuffer(bytearray(record.read()), np.uint8)
    values = raw.view(dtype.newbyteorder("=")) if dtype.isnative else raw.view(dtype).astype(dtype.newbyteorder("="))
    return values.reshape(shape[::-1]).T if fortran else values.reshape(shape)


def _header(record: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(record)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read(record)
    return shape, fortran, dtype
