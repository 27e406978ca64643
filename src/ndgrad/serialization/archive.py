"""The zip archive of a file of tensors: its records, read whole or mapped, and written so that they can be mapped.

A record that cannot be read, or that is much larger than the file, raises an UnpicklingError. A zip archive can expand
to a thousand times its own size, and more if records overlap. Neither library compresses its files; the limits allow
files that were compressed afterwards.
"""

from __future__ import annotations

import os
import pickle
import struct
import zipfile
from typing import IO, TYPE_CHECKING

import numpy as np

from ndgrad._src.foundations.mapped_files import map_file, view_part
from ndgrad.serialization.options import MAP_SHARED, get_default_mmap_options, skipping

if TYPE_CHECKING:
    from numpy.typing import NDArray

ALIGNMENT = 64
_ZEROS = bytes(1 << 20)


class Archive:
    """The records of an archive. With `mapped`, those of tensors stay in the file."""

    def __init__(self, file: IO[bytes], called: str, limited: bool, mapped: bool) -> None:
        self.called = called
        try:
            self.zip = zipfile.ZipFile(file)
            self.names = frozenset(self.zip.namelist())
            size = file.seek(0, os.SEEK_END)
            shared = get_default_mmap_options() == MAP_SHARED
            self.map = map_file(file, "shared" if shared else "private") if mapped else None
        except Exception as error:
            raise self.damage_error("its directory", error) from error
        pickled = next((n for n in self.zip.namelist() if n == "data.pkl" or n.endswith("/data.pkl")), None)
        if pickled is None:
            raise RuntimeError(
                f"ndgrad.load: {called} holds no data.pkl. It was not written by ndgrad.save or torch.save."
                + (" It is an npz file: ndgrad.npz.load_file reads it." if _is_npz(self.names) else "")
                + " [nd-file-kind]"
            )
        self.root = pickled[: -len("data.pkl")]
        if self.has("constants.pkl") and any(name.startswith(f"{self.root}code/") for name in self.names):
            raise RuntimeError(
                f"ndgrad.load: {called} holds a TorchScript program (torch.jit.save), which only torch can run. There, "
                "save the state dict: torch.save(program.state_dict(), path). [nd-file-kind]"
            )
        # Reading the smallest opcode takes some two hundred bytes, hence the smaller limit for the pickle.
        self.left = {"data.pkl": (1 << 20) + 10 * size, "": (64 << 20) + 100 * size} if limited else {}

    def has(self, record: str) -> bool:
        return self.root + record in self.names

    def read_record(self, record: str) -> bytes:
        info = self._info(record)
        self._count(record, info.file_size)
        try:
            return self.zip.read(info)
        except zipfile.BadZipFile as error:
            raise pickle.UnpicklingError(
                f"ndgrad.load: the record {record!r} in {self.called} is not what its checksum says ({error}). The "
                "file is damaged; if it was changed through a shared map, load it with mmap=True. [nd-file-damaged]"
            ) from error
        except Exception as error:
            raise self.damage_error(f"its record {record!r}", error) from error

    def memory(self, key: str) -> NDArray[np.uint8]:
        """Return the bytes of the memory `key`, which may be written."""
        record = f"data/{key}"
        if skipping.get():
            self._count(record, self._info(record).file_size)
            return np.zeros(self._info(record).file_size, np.uint8)
        if self.map is not None:
            return self._map_record(record)
        return np.frombuffer(bytearray(self.read_record(record)), np.uint8)

    def _map_record(self, record: str) -> NDArray[np.uint8]:
        info = self._info(record)
        if info.compress_type != zipfile.ZIP_STORED:
            raise RuntimeError(
                f"ndgrad.load: {record} is compressed, and cannot be mapped. Pass mmap=False. [nd-file-kind]"
            )
        assert self.map is not None
        try:
            name_length, extra_length = struct.unpack_from("<HH", self.map, info.header_offset + 26)
            begin = info.header_offset + 30 + name_length + extra_length
            return view_part(self.map, begin, info.file_size)
        except (ValueError, OverflowError, struct.error) as error:
            raise self.damage_error(f"its record {record!r}", error) from error

    def _info(self, record: str) -> zipfile.ZipInfo:
        if not self.has(record):
            raise pickle.UnpicklingError(
                f"ndgrad.load: {self.called} has no record {record!r:.200}. The file is damaged. [nd-file-damaged]"
            )
        return self.zip.getinfo(self.root + record)

    def _count(self, record: str, size: int) -> None:
        if not self.left:
            return
        kind = record if record in self.left else ""
        self.left[kind] -= size
        if self.left[kind] < 0:
            raise pickle.UnpicklingError(
                f"Weights only load failed: {self.called} holds much more than its own size, {size:,} bytes "
                f"in {record!r} alone. If you trust where the file comes from, pass weights_only=False. "
                "[nd-file-unsafe]"
            )

    def damage_error(self, what: str, error: Exception) -> pickle.UnpicklingError:
        return pickle.UnpicklingError(
            f"ndgrad.load: {what} in {self.called} cannot be read: {error}. The file is damaged. [nd-file-damaged]"
        )


def _is_npz(names: frozenset[str]) -> bool:
    return bool(names) and all(name.endswith(".npy") for name in names)


def write_record(
    archive: zipfile.ZipFile, name: str, *parts: bytes | memoryview, kind: int = zipfile.ZIP_STORED, zeros: bool = False
) -> None:
    """Write one record, padded so that its bytes begin at a multiple of the alignment: then a file can be mapped into
    memory. With `zeros`, write as many zeros.
    """
    info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
    info.compress_type = kind
    info.file_size = size = sum(map(len, parts))
    assert archive.fp is not None
    large = size >= 1 << 31  # zipfile then adds a field of twenty bytes
    begin = archive.fp.tell() + 30 + len(name.encode()) + 4 + (20 if large else 0)
    padding = -begin % ALIGNMENT
    info.extra = struct.pack("<HH", 0x4246, padding) + b"Z" * padding
    with archive.open(info, "w", force_zip64=large) as record:
        for part in (_ZEROS[: size - start] for start in range(0, size, len(_ZEROS))) if zeros else parts:
            record.write(part)
