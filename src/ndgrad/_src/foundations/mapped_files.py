"""Files in memory: one map per file, since each holds the file open, and one memory per part of it."""

from __future__ import annotations

import mmap
from typing import IO, TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def map_of(file: IO[bytes], changes: Literal["refused", "private", "shared"]) -> mmap.mmap:
    """An open file as memory. Changes of it are refused, stay in memory (which must have room for them), or go to the
    file."""
    if changes != "shared":
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ if changes == "refused" else mmap.ACCESS_COPY)
    with open(file.name, "r+b") as writable:
        return mmap.mmap(writable.fileno(), 0, access=mmap.ACCESS_WRITE)


class _Outside(ValueError):
    """A part that the file does not have. Who reads the file says what it was to be, and what to do."""


def part_of(mapped: mmap.mmap, begin: int, size: int) -> NDArray[np.uint8]:
    """Bytes of a map, as memory of their own: who writes into another part has not written into this one."""
    if begin < 0 or size < 0 or begin + size > len(mapped):
        raise _Outside(f"bytes {begin:,} to {begin + size:,} of a file of {len(mapped):,} bytes")
    return np.asarray(_Part(mapped, begin, size)) if size else np.empty(0, np.uint8)


class _Part:
    """Lends NumPy a part of a map, and holds the map as long as it is lent."""

    def __init__(self, mapped: mmap.mmap, begin: int, size: int) -> None:
        self._held = np.frombuffer(mapped, np.uint8)
        address, locked = self._held.__array_interface__["data"]
        self.__array_interface__: dict[str, Any] = {
            "data": (address + begin, locked), "shape": (size,), "typestr": "|u1", "version": 3,
        }  # fmt: skip
