"""Memory-mapped files: one map per file, because each map keeps the file open, and a separate array per part."""

from __future__ import annotations

import mmap
from typing import IO, TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def map_file(file: IO[bytes], changes: Literal["refused", "private", "shared"]) -> mmap.mmap:
    """Map an open file into memory.

    Writes to the map are refused, stay in memory (copy on write), or go to the file.
    """
    if changes != "shared":
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ if changes == "refused" else mmap.ACCESS_COPY)
    with open(file.name, "r+b") as writable:
        return mmap.mmap(writable.fileno(), 0, access=mmap.ACCESS_WRITE)


class _RangeError(ValueError):
    """Error for a byte range beyond the end of the file. The caller adds the meaning of the range and the cure."""


def view_part(mapped: mmap.mmap, begin: int, size: int) -> NDArray[np.uint8]:
    """Return bytes of a map as memory of its own, so that writes to other parts are not writes to this one."""
    if begin < 0 or size < 0 or begin + size > len(mapped):
        raise _RangeError(f"bytes {begin:,} to {begin + size:,} of a file of {len(mapped):,} bytes")
    return np.asarray(_Part(mapped, begin, size)) if size else np.empty(0, np.uint8)


class _Part:
    """Exposes a part of a map to NumPy, and keeps the map alive as long as the array exists."""

    def __init__(self, mapped: mmap.mmap, begin: int, size: int) -> None:
        self._held = np.frombuffer(mapped, np.uint8)
        address, locked = self._held.__array_interface__["data"]
        self.__array_interface__: dict[str, Any] = {
            "data": (address + begin, locked), "shape": (size,), "typestr": "|u1", "version": 3,
        }  # fmt: skip
