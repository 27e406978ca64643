"""The lock of a book: one process at a time changes its model and its pages.

The operating system releases the lock when its process ends, however that happens, so a lock is never left behind.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from repobook.config import ConfigError
from repobook.discover import MARK

_PAUSE = 0.1  # seconds between two attempts


class BookLocked(ConfigError):
    """Another process is writing the book, and the caller does not want to wait."""


@contextmanager
def lock_book(output: Path, wait: bool = True, tell: Callable[[str], None] | None = None) -> Iterator[None]:
    """Hold the lock of the book in `output`.

    If another process holds it, wait until that process ends (`tell` gets one line about it), or raise `BookLocked`.
    """
    folder = output / MARK
    try:
        folder.mkdir(parents=True, exist_ok=True)
        opened = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise ConfigError(f"repobook: cannot write to {output}: {error.strerror}") from None
    try:
        _acquire(opened, output, wait, tell)
        os.lseek(opened, 0, os.SEEK_SET)
        os.write(opened, f"{os.getpid():<20}".encode())
        try:
            yield
        finally:
            _unlock(opened)
    finally:
        os.close(opened)


def _acquire(opened: int, output: Path, wait: bool, tell: Callable[[str], None] | None) -> None:
    told = False
    while not _try_lock(opened):
        if not wait:
            raise BookLocked(f"repobook: {_holder(opened)} is writing the book in {output}; try again after its end")
        if tell is not None and not told:
            tell(f"repobook: {_holder(opened)} is writing the book in {output}; waiting for its end")
            told = True
        time.sleep(_PAUSE)


def _holder(opened: int) -> str:
    os.lseek(opened, 0, os.SEEK_SET)
    try:
        number = os.read(opened, 20).decode("ascii", "replace").strip()
    except OSError:  # Windows does not let another process read a locked byte.
        number = ""
    return f"process {number}" if number.isdigit() else "another process"


try:
    import fcntl
except ImportError:  # Windows
    import msvcrt

    def _try_lock(opened: int) -> bool:
        os.lseek(opened, 0, os.SEEK_SET)
        try:
            msvcrt.locking(opened, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        except OSError:
            return False
        return True

    def _unlock(opened: int) -> None:
        os.lseek(opened, 0, os.SEEK_SET)
        msvcrt.locking(opened, msvcrt.LK_UNLCK, 1)  # type: ignore[attr-defined]

else:

    def _try_lock(opened: int) -> bool:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def _unlock(opened: int) -> None:
        fcntl.flock(opened, fcntl.LOCK_UN)
