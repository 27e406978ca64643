"""`repobook check`: a book that is stale, has dead links or leaves public names undocumented fails.

Links are checked in the pages as they stand on disk, so whatever wrote them is checked too.
"""

import os
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

from repobook.build import changes
from repobook.config import Config
from repobook.discover import discover
from repobook.pages import tree as tree_pages
from repobook.pages.writer import expected_pages, open_book

_FENCE = re.compile(r"^(`{3,})[^\n]*\n.*?^\1`*\s*$", re.S | re.M)
_CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)")
_LINK = re.compile(r"(?<!\\)\]\(([^()\s]*)\)")
_HEADING = re.compile(r"^#{1,6}\s+(.*)$", re.M)
_ANCHOR = re.compile(r'<a id="([^"]+)"></a>')
_MARKUP = re.compile(r"<[^>]*>|\[([^\]]*)\]\([^)]*\)")
_NOT_SLUG = re.compile(r"[^\w\- ]")


def strip_code(text: str) -> str:
    """A page without its code, where nothing is a link."""
    return _CODE.sub("", _FENCE.sub("", text))


def heading_slug(title: str) -> str:
    """The anchor that GitHub gives a heading."""
    title = _MARKUP.sub(lambda match: match.group(1) or "", title).replace("`", "").replace("\\", "")
    title = title.replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">")
    return _NOT_SLUG.sub("", title.strip().lower()).replace(" ", "-")


class Pages:
    """Anchors of pages and lengths of files, each read once."""

    def __init__(self, output: Path) -> None:
        self.output = output
        self._anchors: dict[str, set[str]] = {}
        self._lines: dict[str, int] = {}

    def anchors(self, path: str) -> set[str]:
        found = self._anchors.get(path)
        if found is None:
            with open(path, encoding="utf-8") as file:
                text = _FENCE.sub("", file.read())
            found = self._anchors[path] = set(_ANCHOR.findall(text)) | {
                heading_slug(title) for title in _HEADING.findall(text)
            }
        return found

    def lines(self, path: str) -> int:
        found = self._lines.get(path)
        if found is None:
            with open(path, "rb") as file:
                data = file.read()
            found = self._lines[path] = data.count(b"\n") + (not data.endswith(b"\n"))
        return found


def dead_links(output: Path) -> Iterator[str]:
    """One line per link of the book that leads nowhere."""
    pages = Pages(output)
    for folder, folders, files in os.walk(output):
        folders[:] = [name for name in folders if not name.startswith(".repobook")]
        for name in files:
            if not name.endswith(".md"):
                continue
            path = os.path.join(folder, name)
            with open(path, encoding="utf-8") as file:
                text = strip_code(file.read())
            for target in set(_LINK.findall(text)):
                problem = _find_problem(target, path, folder, pages)
                if problem:
                    yield f"{os.path.relpath(path, output)}: {target}: {problem}"


def _find_problem(target: str, path: str, folder: str, pages: Pages) -> str:
    if target.startswith(("http://", "https://")):
        return ""
    place, _, anchor = target.partition("#")
    goal = os.path.normpath(os.path.join(folder, unquote(place))) if place else path
    if not os.path.exists(goal):
        return "no such file"
    if not anchor:
        return ""
    if re.fullmatch(r"L\d+", anchor) and not goal.endswith("_docs.md"):
        return "" if int(anchor[1:]) <= pages.lines(goal) else "the file has fewer lines"
    if goal.endswith(".md") and unquote(anchor) not in pages.anchors(goal):
        return "no such anchor"
    return ""


def find_stale(db: sqlite3.Connection, root: Path, output: Path, config: Config) -> Iterator[str]:
    """One line per file that the book does not know as it is, and per page that is missing or was changed."""
    listing = discover(root, config, output)
    tasks, deleted = changes(db, listing.entries, root)
    paths = dict(db.execute("SELECT id, path FROM files"))
    for task in tasks:
        yield f"{task.path}: {'changed' if task.file in paths else 'new'} since the book was built"
    for file in deleted:
        yield f"{paths[file]}: gone since the book was built"
    for (page,) in db.execute("SELECT page FROM pending"):
        yield f"{page}: page not yet written"
    book = open_book(db, root, output, config)
    for page in sorted(expected_pages(book, tree_pages.names_by_group(book))):
        if not (output / page).exists():
            yield f"{page}: page is missing"


def find_undocumented(db: sqlite3.Connection, prefix: str = "") -> Iterator[str]:
    """Public names without a doc comment: those of `__all__`, or those without a leading underscore."""
    rows = db.execute(
        "SELECT f.path, s.line, s.kind, s.qualified, s.name, f.exports FROM symbols s JOIN files f ON f.id=s.id>>20 "
        "WHERE s.kind IN ('class', 'function', 'method', 'struct', 'interface', 'trait') AND s.doc='' AND f.test=0 "
        "AND s.declaration=0 AND f.path LIKE ? ESCAPE '\\' ORDER BY f.path, s.line",
        (prefix.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%",),
    )
    for path, line, kind, qualified, _name, exports in rows:
        parts = re.split(r"::|\.", qualified)
        if any(part.startswith("_") for part in parts):
            continue
        if exports is not None and parts[0] not in exports:
            continue
        yield f"{path}:{line}: {kind} {qualified} has no documentation"
