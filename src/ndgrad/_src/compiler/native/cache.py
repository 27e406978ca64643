"""Cache of compiled code on disk: small files, named by a digest of everything that their bytes depend on.

    k = key("object", versions, cpu, features, level, text)    # a digest; other text is another key
    load(k)                                                     # the bytes, or None
    store(k, data)

An object is executable code, so write access to the folder means execution with the user's rights. The folder must
therefore belong to the user alone (owner, 0700), and so must each file (owner, 0600, no link). The header of a file
holds the digest of its key and its bytes:

    "ndgrad 1\\n"   sha256(key + bytes)   bytes

A file that breaks any of this (truncated, foreign, of another key, unreadable) is ignored. A file is written under
another name and renamed, so a reader sees all of it or nothing, and processes need no locks. No failure here is an
error of the program: with a read-only or missing home, a full disk, or a folder of another user, there is no cache.

The folder is `native` inside NDGRAD_CACHE_DIR, or inside `ndgrad` in the user's folder of caches (XDG_CACHE_HOME or
~/.cache, ~/Library/Caches, %LOCALAPPDATA%); an empty NDGRAD_CACHE_DIR turns the cache off. It holds at most LARGEST
bytes; the least recently used files are removed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path

#: Maximum bytes in the folder. An object has some kilobytes.
LARGEST = 128 << 20

_MAGIC = b"ndgrad 1\n"
_DIGEST = hashlib.sha256().digest_size
_DAY = 86400.0
_POSIX = os.name == "posix"

#: Bytes in each folder that this process has written to, counted at its first write and updated since.
_sizes: dict[str, int] = {}


def key(*parts: str) -> str:
    """Return the name of an entry: a digest of everything that it depends on, and of ndgrad's version."""
    from ndgrad import __version__  # avoids an import cycle

    digest = hashlib.sha256()
    for part in (__version__, *parts):
        data = part.encode()
        digest.update(b"%d:" % len(data) + data)  # lengths distinguish ("ab", "c") from ("a", "bc")
    return digest.hexdigest()


def folder() -> Path | None:
    """Return the folder of entries, or None if there is no cache."""
    chosen = os.environ.get("NDGRAD_CACHE_DIR")
    if chosen is not None:
        return Path(os.path.expanduser(chosen)) / "native" if chosen else None
    try:
        if sys.platform == "win32":
            base = Path(os.environ["LOCALAPPDATA"])
        elif sys.platform == "darwin":
            base = Path.home() / "Library" / "Caches"
        else:
            chosen = os.environ.get("XDG_CACHE_HOME", "")
            base = Path(chosen) if os.path.isabs(chosen) else Path.home() / ".cache"
    except (KeyError, RuntimeError):  # no home directory
        return None
    return base / "ndgrad" / "native" if base.is_absolute() else None


def load(name: str) -> bytes | None:
    """Return the bytes of an entry, if it exists, is complete and belongs to the user."""
    with contextlib.suppress(OSError), _opened(create=False) as place:
        if place is None:
            return None
        descriptor = os.open(place.path(name), os.O_RDONLY | _BINARY | _NOT_A_LINK, dir_fd=place.descriptor)
        with open(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or not _private(status):
                return None
            data = file.read()
        digest, body = data[len(_MAGIC) : len(_MAGIC) + _DIGEST], data[len(_MAGIC) + _DIGEST :]
        if not data.startswith(_MAGIC) or digest != _digest(name, body):
            return None
        if time.time() - status.st_mtime > _DAY:  # the file's time is that of its last use, to a day
            with contextlib.suppress(OSError):
                os.utime(place.path(name), dir_fd=place.descriptor)
        return body
    return None


def store(name: str, data: bytes) -> None:
    """Store the bytes of an entry, if there is a folder."""
    whole = _MAGIC + _digest(name, data) + data
    with contextlib.suppress(OSError), _opened(create=True) as place:
        if place is None:
            return
        _make_room(place, len(whole))
        scratch = place.path(f"{name}.{os.getpid()}.{secrets.token_hex(4)}.new")
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY | _NOT_A_LINK
            with open(os.open(scratch, flags, 0o600, dir_fd=place.descriptor), "wb") as file:
                file.write(whole)
            os.replace(scratch, place.path(name), src_dir_fd=place.descriptor, dst_dir_fd=place.descriptor)
        except BaseException:  # including Ctrl-C
            with contextlib.suppress(OSError):
                os.unlink(scratch, dir_fd=place.descriptor)
            raise


def clear() -> None:
    """Remove every entry."""
    with contextlib.suppress(OSError), _opened(create=False) as place:
        if place is not None:
            for found, _, _ in _entries(place):
                with contextlib.suppress(OSError):
                    os.unlink(place.path(found), dir_fd=place.descriptor)
            _sizes.pop(place.folder, None)


# ----- the folder -----------------------------------------------------------------------------------------------------

_BINARY = getattr(os, "O_BINARY", 0)
_NOT_A_LINK = getattr(os, "O_NOFOLLOW", 0)


class _Place:
    """The folder, held open if the system allows it, so that it cannot be replaced between a check and a use."""

    def __init__(self, folder: str, descriptor: int | None) -> None:
        self.folder = folder
        self.descriptor = descriptor

    def path(self, name: str) -> str:
        return name if self.descriptor is not None else os.path.join(self.folder, name)


@contextlib.contextmanager
def _opened(create: bool) -> Iterator[_Place | None]:
    """Return the folder if it exists (created if `create`) and belongs to the user alone."""
    where = folder()
    if where is None:
        yield None
        return
    if create:
        where.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            where.mkdir(mode=0o700)
    if not _POSIX:  # the system makes its parent private to the user
        yield _Place(str(where), None)
        return
    descriptor = os.open(where, os.O_RDONLY | os.O_DIRECTORY | _NOT_A_LINK)
    try:
        yield _Place(str(where), descriptor) if _private(os.fstat(descriptor)) else None
    finally:
        os.close(descriptor)


def _private(status: os.stat_result) -> bool:
    """True if only the user owns, reads and writes it."""
    return not _POSIX or (status.st_uid == os.geteuid() and not stat.S_IMODE(status.st_mode) & 0o077)


def _digest(name: str, data: bytes) -> bytes:
    return hashlib.sha256(name.encode() + data).digest()


def _entries(place: _Place) -> list[tuple[str, int, float]]:
    """Return name, size and time of last use of all files."""
    found = []
    with os.scandir(place.folder if place.descriptor is None else place.descriptor) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                status = entry.stat(follow_symlinks=False)
                found.append((entry.name, status.st_size, status.st_mtime))
    return found


def _make_room(place: _Place, coming: int) -> None:
    """Remove the least recently used files if the folder would grow too large, and leftovers of interrupted writers."""
    if place.folder in _sizes and _sizes[place.folder] + coming <= LARGEST:
        _sizes[place.folder] += coming
        return
    entries = sorted(_entries(place), key=lambda entry: entry[2])
    total = sum(size for _, size, _ in entries) + coming
    too_large = total > LARGEST
    for name, size, used in entries:
        abandoned = name.endswith(".new") and time.time() - used > 3600
        if abandoned or (too_large and total > LARGEST * 3 // 4):
            with contextlib.suppress(OSError):
                os.unlink(place.path(name), dir_fd=place.descriptor)
                total -= size
    _sizes[place.folder] = total
