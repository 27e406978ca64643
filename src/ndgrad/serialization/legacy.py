"""The file format of torch before version 1.6: five pickles in a row, then the memory of tensors.

The pickles are a magic number, the version of the format, information about the machine, the object, and the keys of
its memory. Then follow, for each key, the number of elements as eight bytes, and the bytes of the elements. The object
comes before its memory, so its tensors are created over memory that is filled afterwards.
"""

from __future__ import annotations

import os
import pickle
import struct
import sys
from collections.abc import Callable, Iterator
from typing import IO, TYPE_CHECKING, Any, NoReturn

import numpy as np

from ndgrad._src.arrays import dtypes
from ndgrad.serialization.plain_pickle import PlainUnpickler
from ndgrad.serialization.storages import Memories, swap_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MAGIC = 0x1950A86A20F9469CFC6C
_VERSION = 1001
_SIZES = {"short": 2, "int": 4, "long": 4}
#: Beginning of every such file: the magic number as a pickle of protocol 2.
BEGINNING = pickle.dumps(_MAGIC, 2)


def chunks(pickled: bytes, records: list[tuple[int, Any]], protocol: int) -> Iterator[bytes | memoryview]:
    """Yield a file of this kind, part by part."""
    system = {"protocol_version": _VERSION, "little_endian": sys.byteorder == "little", "type_sizes": _SIZES}
    for value in (_MAGIC, _VERSION, system):
        yield pickle.dumps(value, protocol)
    yield pickled
    yield pickle.dumps([str(key) for key in range(len(records))], protocol)
    for count, raw in records:
        yield struct.pack("<q", count)
        yield memoryview(raw)


class LegacyFile:
    """The memory of such a file, allocated when a tensor first refers to it, and filled at the end."""

    def __init__(self, file: IO[bytes], called: str) -> None:
        self.file, self.called = file, called
        start = file.tell()
        self.left = file.seek(0, os.SEEK_END) - start  # memory that does not fit into the file is not in it
        file.seek(start)
        self.made: dict[str, tuple[NDArray[np.uint8], str | None]] = {}
        magic, version, system = (self._plain() for _ in range(3))
        if magic != _MAGIC or version != _VERSION or type(system) is not dict:
            raise self._damage_error(f"its format is of version {version!r:.50}")
        self.byteorder = "little" if system.get("little_endian", True) else "big"

    def memory(self, key: str, name: str | None, count: object) -> NDArray[np.uint8]:
        if type(count) is not int or count < 0:
            raise self._damage_error(f"its memory {key!r:.50} has {count!r:.50} elements")
        size = count * (1 if name is None else dtypes.as_numpy_dtype(name).itemsize)
        self.left -= size
        if self.left < 0:
            raise self._damage_error(f"its memory {key!r:.50} of {size:,} bytes is larger than the file")
        raw = np.zeros(size, np.uint8)
        self.made[key] = raw, name
        return raw

    def fill(self, memories: Memories) -> None:
        """Read the bytes of all memory, to which tensors refer by now."""
        keys = self._plain()
        if type(keys) is not list or not all(type(key) is str for key in keys):
            raise self._damage_error("it has no list of its memory")
        for key in keys:
            if key not in self.made:
                raise self._damage_error(f"nothing in it names its memory {key!r:.50}")
            raw, name = self.made[key]
            count = struct.unpack("<q", self._exactly(8))[0]
            if count * (1 if name is None else dtypes.as_numpy_dtype(name).itemsize) != raw.size:
                raise self._damage_error(
                    f"its memory {key!r:.50} has {count} elements, but was named with another number"
                )
            raw[:] = np.frombuffer(self._exactly(raw.size), np.uint8)
            if memories.swapped and name is not None:
                raw[:] = swap_bytes(raw, name)
        missing = self.made.keys() - set(keys)
        if missing:
            raise self._damage_error(f"it lacks the memory {min(missing)!r:.50}")

    def _exactly(self, size: int) -> bytes:
        data = self.file.read(size)
        if len(data) < size:
            raise self._damage_error("it ends too early")
        return data

    def _plain(self) -> Any:
        return PlainUnpickler(self.file, _no_name, _no_memory).load()

    def _damage_error(self, what: str) -> pickle.UnpicklingError:
        return pickle.UnpicklingError(
            f"ndgrad.load: {self.called} cannot be read: {what}. The file is damaged. [nd-file-damaged]"
        )


def _no_name(module: str, name: str) -> None:
    return None


def _no_memory(identity: object) -> NoReturn:
    raise pickle.UnpicklingError(
        "ndgrad.load: memory is named where there is none. The file is damaged. [nd-file-damaged]"
    )


def check_location(memories: Memories, load: Callable[[], Any]) -> Any:
    """Return the result of `load`, if none of its tensors had to be copied before its memory was read."""
    made = load()
    if memories.resolved or any(d is not None and str(d) != "meta" for d in memories.device_of.values()):
        raise RuntimeError(
            "ndgrad.load: in a file of the format that torch wrote before version 1.6, tensors can be placed on the "
            "CPU alone. Pass map_location='cpu', and move what was loaded. [nd-load-place]"
        )
    return made
