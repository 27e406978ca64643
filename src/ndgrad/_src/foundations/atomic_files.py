"""Atomic file writes: the previous file stays in place until the new one is complete."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO

#: The end of a temporary file's name. A process that is killed may leave such a file.
PART = ".part"


@contextmanager
def open_replacement(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Yield a temporary file that replaces `path` when the block ends. After an error it is removed instead.

    >>> import os, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> with open_replacement(os.path.join(folder, "x")) as file:
    ...     _ = file.write(b"all of it")
    >>> os.listdir(folder)
    ['x']
    """
    target = os.path.realpath(path)  # symbolic links stay links
    mode = _mode_of(target)
    if mode is not None and not stat.S_ISREG(mode):  # pipes and /dev/null cannot be replaced; folders raise
        with open(target, "wb") as file:
            yield file
        return
    folder, name = os.path.split(target)
    handle, temporary = tempfile.mkstemp(prefix=f".{name[:100]}.", suffix=PART, dir=folder)
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
    """Return the process's umask. The system can only report it while setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
