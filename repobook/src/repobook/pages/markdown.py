"""Safe Markdown: text of a tree cannot break out of its place on a page."""

import re
from functools import lru_cache
from urllib.parse import quote

from repobook.naming import page_name

_SPECIAL = re.compile(r"([\\`*_\[\]<>|~#{}!&])")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_ENTITIES = {"<": "&lt;", ">": "&gt;", "&": "&amp;"}
_SLUG = re.compile(r"[^A-Za-z0-9_.~-]+")
_BAR = re.compile(r"(?<!\\)\|")
_PLAIN = re.compile(r"[A-Za-z0-9 ,.;:()/'\"=+$%@?_-]*\Z")


def escape(text: str) -> str:
    """Text as text: no markup, no HTML, no second line."""
    text = " ".join(_CONTROL.sub("\ufffd", text).split()) if not text.isprintable() or "  " in text else text
    if _PLAIN.match(text):
        return text.replace("_", "\\_")
    return _SPECIAL.sub(lambda match: _ENTITIES.get(match.group(1)) or "\\" + match.group(1), text)


def code(text: str) -> str:
    """Text as an inline code span, even if it holds backticks."""
    if not text.isprintable():
        text = " ".join(_CONTROL.sub("\ufffd", text).split())
    if "`" not in text:
        return f"`{text}`" if text and not text.isspace() else "` `"
    fence = "`" * (max(map(len, re.findall(r"`+", text))) + 1)
    return f"{fence} {text} {fence}"


def prose(text: str) -> str:
    """Text as text, and the parts between backticks as code."""
    if text.count("`") < 2 or "``" in text:
        return escape(text)
    pieces = text.split("`")
    if len(pieces) % 2 == 0:
        return escape(text)
    return "".join(code(piece) if at % 2 else _spaced(piece) for at, piece in enumerate(pieces))


def _spaced(text: str) -> str:
    """`escape`, which leaves a single space at either end as it is."""
    return (" " if text[:1].isspace() else "") + escape(text).strip() + (" " if text[1:][-1:].isspace() else "")


def cell(text: str) -> str:
    """Markup as a cell of a table; a bar that is not escaped would end it."""
    return _BAR.sub(r"\\|", text) if "|" in text else text


def fenced(text: str, language: str = "") -> str:
    """Text as a fenced block whose fence the text cannot close."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=0) if "```" in text else 0
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}\n"


@lru_cache(1 << 16)
def url(path: str) -> str:
    return (
        path
        if path.replace("/", "").replace(".", "").replace("_", "").replace("-", "").isalnum()
        else quote(path, safe="/._-~")
    )


@lru_cache(1 << 16)
def slug(qualified: str) -> str:
    """The anchor of a symbol on its file's page."""
    return "d-" + (_SLUG.sub(".", qualified) if not qualified.isidentifier() else qualified).strip(".")


class Links:
    """Relative links from one folder of the book. Pages mirror the tree, so a page's folder is its file's folder."""

    __slots__ = ("_cache", "_folders", "_sources", "folder", "source_url", "to_root")

    def __init__(self, folder: str, to_source: str, source_url: str = "") -> None:
        """`to_source`: from the top of the book to the root of the tree."""
        self.folder = folder
        depth = folder.count("/") + 1 if folder else 0
        self.to_root = "../" * depth + (to_source.rstrip("/") + "/" if to_source else "")
        self.source_url = source_url
        self._cache: dict[str, str] = {}
        self._folders: dict[str, str] = {}
        self._sources: dict[str, str] = {}

    def page(self, path: str, anchor: str = "") -> str:
        """The documentation page of a file."""
        found = self._cache.get(path)
        if found is None:
            found = self._cache[path] = self.locate(page_name(path))
        return found + "#" + anchor if anchor else found

    def keywords(self, path: str) -> str:
        """The keyword page of a file."""
        return self.locate(page_name(path, "_kw.md"))

    def folder_page(self, folder: str, name: str = "index.md") -> str:
        """A page of a folder; '' is the root."""
        return self.locate(f"{folder}/{name}" if folder else name)

    def locate(self, path: str) -> str:
        """Any page of the book by its path in the book."""
        folder, _, name = path.rpartition("/")
        if folder == self.folder:
            return "./" + url(name) if ":" in name else url(name)
        to_folder = self._folders.get(folder)
        if to_folder is None:
            to_folder = self._folders[folder] = url(_way(self.folder, folder)) + "/"
        return to_folder + url(name)

    def source(self, path: str, line: int = 0) -> str:
        if self.source_url:
            return self.source_url.replace("{path}", url(path)).replace("{line}", str(line or 1))
        found = self._sources.get(path)
        if found is None:
            found = self._sources[path] = self.to_root + url(path)
        return f"{found}#L{line}" if line else found


def _way(start: str, goal: str) -> str:
    """From one folder of the tree to another, which differs from it."""
    above, below = start.split("/") if start else [], goal.split("/") if goal else []
    shared = 0
    while shared < min(len(above), len(below)) and above[shared] == below[shared]:
        shared += 1
    return "/".join([".."] * (len(above) - shared) + below[shared:])


def link(text: str, target: str) -> str:
    return f"[{text}]({target})"
