"""`torch._C.PyTorchFileReader`: the records of a file in torch's format, which is a zip archive."""

from __future__ import annotations

import os
import zipfile
from typing import IO

__all__ = ["PyTorchFileReader"]


class PyTorchFileReader:
    """The records of a file, by their names without the archive's folder.

    Args:
        file: path, or file that is open for reading bytes.
    """

    def __init__(self, file: str | os.PathLike[str] | IO[bytes]) -> None:
        try:
            self._archive = zipfile.ZipFile(file)
        except zipfile.BadZipFile as error:
            raise RuntimeError(f"PytorchStreamReader failed reading zip archive: {error}. [nd-file-damaged]") from None
        names = self._archive.namelist()
        self._folder = names[0].split("/", 1)[0] + "/" if names else ""

    def get_all_records(self) -> list[str]:
        """Return the names of the records."""
        return [name.removeprefix(self._folder) for name in self._archive.namelist()]

    def has_record(self, name: str) -> bool:
        """True if there is a record of this name.

        Args:
            name: name of the record, without the archive's folder.
        """
        return self._folder + name in self._archive.NameToInfo

    def get_record(self, name: str) -> bytes:
        """Return the bytes of a record.

        Args:
            name: name of the record, without the archive's folder.

        Raises:
            RuntimeError: if there is no such record.
        """
        if not self.has_record(name):
            raise RuntimeError(f"PytorchStreamReader failed locating file {name}: file not found. [nd-file-kind]")
        return self._archive.read(self._folder + name)

    def version(self) -> int:
        """Return the version of the format."""
        return int(self.get_record("version")) if self.has_record("version") else 0
