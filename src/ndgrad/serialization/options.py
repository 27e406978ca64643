"""Options of `ndgrad.save` and `ndgrad.load`, under torch's names."""

from __future__ import annotations

import mmap
import sys
from contextvars import ContextVar
from enum import Enum
from typing import Any

__all__ = [
    "LoadEndianness", "get_crc32_options", "get_default_load_endianness", "get_default_mmap_options",
    "set_crc32_options", "set_default_load_endianness", "set_default_mmap_options", "skip_data",
]  # fmt: skip

#: Changes of mapped memory stay in the process, or go to the file. Windows has neither name; the numbers are POSIX's.
MAP_PRIVATE: int = getattr(mmap, "MAP_PRIVATE", 2)
MAP_SHARED: int = getattr(mmap, "MAP_SHARED", 1)


class LoadEndianness(Enum):
    """Byte order of a file that does not state it.

    >>> from ndgrad.serialization import LoadEndianness
    >>> [order.name for order in LoadEndianness]
    ['NATIVE', 'LITTLE', 'BIG']
    """

    NATIVE = 1
    LITTLE = 2
    BIG = 3

    def name_of_order(self) -> str:
        """Return Python's name of the byte order."""
        return sys.byteorder if self is LoadEndianness.NATIVE else self.name.lower()


_crc32 = True
_endianness: LoadEndianness | None = None
_mmap_flags = MAP_PRIVATE
#: True if the bytes of tensors are skipped.
skipping: ContextVar[bool] = ContextVar("skipping", default=False)


def get_crc32_options() -> bool:
    """Return the value set by `set_crc32_options`.

    >>> ndgrad.serialization.get_crc32_options()
    True
    """
    return _crc32


def set_crc32_options(compute_crc32: bool) -> None:
    """Accept torch's option without effect: every record has a checksum, which other readers of archives need.

    Args:
        compute_crc32: accepted as in torch; has no effect on files.

    >>> ndgrad.serialization.set_crc32_options(True)
    """
    global _crc32
    _crc32 = compute_crc32


def get_default_load_endianness() -> LoadEndianness | None:
    """Return the value set by `set_default_load_endianness`.

    >>> ndgrad.serialization.get_default_load_endianness()
    """
    return _endianness


def set_default_load_endianness(endianness: LoadEndianness | None) -> None:
    """Set the byte order of files that do not state it. By default they are little-endian, as written by torch.

    Args:
        endianness: byte order. None means little-endian.

    >>> ndgrad.serialization.set_default_load_endianness(None)
    """
    global _endianness
    if not isinstance(endianness, LoadEndianness) and endianness is not None:
        raise TypeError(
            "Invalid argument type in function set_default_load_endianness: expected a LoadEndianness or None, but got "
            f"{type(endianness).__name__}. Pass one of ndgrad.serialization.LoadEndianness. [nd-type]"
        )
    _endianness = endianness


def get_default_mmap_options() -> int:
    """Return the option for changes to mapped tensors: `mmap.MAP_PRIVATE` or `mmap.MAP_SHARED`.

    >>> import mmap
    >>> ndgrad.serialization.get_default_mmap_options() == mmap.MAP_PRIVATE
    True
    """
    return _mmap_flags


class set_default_mmap_options:  # torch's name
    """Set whether changes to tensors of `load(..., mmap=True)` stay in memory or go to the file. In a `with` statement,
    this holds until the block ends.

    Args:
        flags: `mmap.MAP_PRIVATE`, the default, or `mmap.MAP_SHARED`.

    >>> import mmap
    >>> with ndgrad.serialization.set_default_mmap_options(mmap.MAP_SHARED):
    ...     ndgrad.serialization.get_default_mmap_options() == mmap.MAP_SHARED
    True
    """

    def __init__(self, flags: int) -> None:
        global _mmap_flags
        if flags not in (MAP_PRIVATE, MAP_SHARED):
            raise ValueError(
                "Invalid argument in function set_default_mmap_options, expected mmap.MAP_PRIVATE or mmap.MAP_SHARED, "
                f"but got {flags}. Pass one of the two. [nd-option]"
            )
        self.prev, _mmap_flags = _mmap_flags, flags

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        global _mmap_flags
        _mmap_flags = self.prev


class skip_data:  # torch's name
    """Block in which `save` writes zeros in place of the bytes of tensors, and `load` reads no bytes and returns zeros.

    Args:
        materialize_fake_tensors: accepted as in torch; has no effect.

    >>> import io
    >>> file = io.BytesIO()
    >>> with ndgrad.serialization.skip_data():
    ...     ndgrad.save(ndgrad.ones(2), file)
    >>> _ = file.seek(0)
    >>> ndgrad.load(file)
    tensor([0., 0.])
    """

    def __init__(self, materialize_fake_tensors: bool = False) -> None:
        self.materialize_fake_tensors = materialize_fake_tensors
        self._tokens: list[Any] = []

    def __enter__(self) -> None:
        self._tokens.append(skipping.set(True))

    def __exit__(self, *error: object) -> None:
        skipping.reset(self._tokens.pop())
