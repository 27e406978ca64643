"""Files of the book: the tree without ignored files, version-control folders and the book itself."""

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from repobook.config import Config
from repobook.ignore import Ignore, compile_pattern

_NEVER = frozenset(
    {
        ".git",
        ".hg",
        ".svn",
        "__pycache__",
        "node_modules",
        ".venv",
        ".tox",
        ".mypy_cache",
        ".ruff_cache",
        ".pytest_cache",
    }
)
# A folder with this file is a book: made by us, never read by us.
MARK = ".repobook"


@dataclass(slots=True)
class Entry:
    path: str  # relative, with slashes
    size: int
    mtime: int


@dataclass(slots=True)
class Listing:
    entries: list[Entry] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)  # one line each


def discover(root: Path, config: Config, output: Path | None) -> Listing:
    """All files of the tree in order of path. Symlinks are not followed: their targets have pages of their own."""
    listing = Listing()
    exclude = [compile_pattern(p) for p in config.exclude]
    include = [compile_pattern(p) for p in config.include]
    # No link is followed on the way down, so the book is where its path relative to the root says.
    above = os.path.realpath(root).rstrip(os.sep) + os.sep
    book = os.path.realpath(output) if output is not None else ""
    avoid = book.removeprefix(above).replace(os.sep, "/") if book.startswith(above) else ""
    _walk(str(root), "", _own_ignores(root), listing, exclude, avoid)
    if include:
        listing.entries = [entry for entry in listing.entries if any(p.match(entry.path) for p in include)]
    listing.entries.sort(key=lambda entry: entry.path)
    return listing


def _own_ignores(root: Path) -> list[Ignore]:
    """Patterns that one checkout ignores for itself, as git does."""
    try:
        return [Ignore((root / ".git" / "info" / "exclude").read_text(encoding="utf-8", errors="replace"))]
    except OSError:
        return []


def _walk(
    absolute: str,
    relative: str,
    ignores: list[Ignore],
    listing: Listing,
    exclude: list[re.Pattern[str]],
    avoid: str,
) -> None:
    try:
        with os.scandir(absolute) as scan:
            children = list(scan)
    except OSError as error:
        listing.problems.append(f"{relative or '.'}: folder not read: {error.strerror}")
        return
    names = {child.name for child in children}
    if MARK in names:
        return
    if ".gitignore" in names:
        try:
            with open(os.path.join(absolute, ".gitignore"), encoding="utf-8", errors="replace") as file:
                ignores = [*ignores, Ignore(file.read(), relative)]
        except OSError:
            pass
    for child in children:
        name = child.name
        path = relative + name
        try:
            name.encode("utf-8")
        except UnicodeEncodeError:
            listing.problems.append(f"{path.encode('utf-8', 'replace').decode()}: name is not UTF-8, left out")
            continue
        try:
            folder = child.is_dir(follow_symlinks=False)
            if not folder and not child.is_file(follow_symlinks=False):
                continue  # symlinks, sockets, devices
            if name == ".git" or (name in _NEVER and folder):  # `.git` is a file in a submodule
                continue
            if _is_ignored(path, folder, ignores) or any(p.match(path + "/" if folder else path) for p in exclude):
                continue
            if folder:
                if path != avoid:
                    _walk(child.path, path + "/", ignores, listing, exclude, avoid)
            else:
                status = child.stat(follow_symlinks=False)
                listing.entries.append(Entry(path, status.st_size, status.st_mtime_ns))
        except OSError as error:
            listing.problems.append(f"{path}: not read: {error.strerror}")


def _is_ignored(path: str, folder: bool, ignores: list[Ignore]) -> bool:
    for ignore in reversed(ignores):
        decided = ignore.decide(path, folder)
        if decided is not None:
            return decided
    return False
