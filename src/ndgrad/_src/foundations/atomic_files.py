"""Files that are written whole or not at all: what stood under the name is there until everything has been written."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A file to write to, which takes the name `path` when the block ends, and is removed if it ends by an error.

    >>> import os, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> with replacing(os.path.join(folder, "x")) as file:
    ...     _ = file.write(b"all of it")
    >>> os.listdir(folder)
    ['x']
    """
    target = os.path.realpath(path)  # a link goes on pointing at what is written
    mode = _mode_of(target)
    if mode is not None and not stat.S_ISREG(mode):  # a pipe, /dev/null: they cannot be replaced, or are a folder
        with open(target, "wb") as file:
            yield file
        return
    folder, name = os.path.split(target)
    handle, temporary = tempfile.mkstemp(prefix=f".{name[:100]}.", suffix=".part", dir=folder)
    try:
        with open(handle, "wb") as file:
            yield file
        os.chmod(temporary, stat.S_IMODE(mode) if mode is not None else 0o666 & ~_umask())
        os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def _mode_of(path: str) -> int | None:
    try:
        return os.stat(path).st_mode
    except FileNotFoundError:
        return None


def _umask() -> int:
    """The permissions that new files of this process do not get; to read them is to set them."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
