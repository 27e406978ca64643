"""The index of the search: a script with the sections of all pages, so that the search works from files, too.

A browser refuses to fetch other files for a page that it opened from a disk, but it runs scripts from there. The index
is read from the written pages. A section is the text between two headings; in the reference an entry is a section. The
search itself is `_static/search.js`.
"""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path

#: Characters of a section that the index keeps: all of an explanation, the beginning of an entry of the reference.
MOST_TEXT = 4000
MOST_OF_ENTRY = 400

_ARTICLE = re.compile(r'<article[^>]*role="main"[^>]*>(.*?)</article>', re.DOTALL)
_START = re.compile(r'<section\b[^>]*?\bid="([^"]+)">|<dt class="sig[^"]*" id="([^"]+)">')
_HEADING = re.compile(r"<h[1-6][^>]*>(.*?)</h[1-6]>", re.DOTALL)
_DROPPED = re.compile(r"<(script|style|svg|figure|math)\b.*?</\1>|<a class=\"headerlink\".*?</a>", re.DOTALL)


def sections(page: str) -> list[tuple[str, str, str]]:
    """Return (anchor, title, text) of the sections of a page's HTML."""
    article = _ARTICLE.search(page)
    if article is None:
        return []
    text = _DROPPED.sub(" ", article[1])
    starts = list(_START.finditer(text))
    made = []
    for start, following in zip(starts, [*starts[1:], None]):
        body = text[start.end() : following.start() if following else len(text)]
        anchor = start[1] or start[2]
        heading = _HEADING.search(body)
        if start[1] and heading is not None:
            title, body = _plain(heading[1]), body[: heading.start()] + body[heading.end() :]
        else:
            title = anchor
        most = MOST_TEXT if start[1] else MOST_OF_ENTRY
        made.append((anchor, title, _plain(body)[:most]))
    return made


def _plain(html: str) -> str:
    apart = re.sub(r"<(/?(p|div|li|tr|td|dd|dt|br|pre|h\d))\b", r" <\1", html)  # blocks are separate words
    return " ".join(unescape(re.sub(r"<[^>]+>", "", apart)).split())


def write(site: Path, pages: list[str]) -> int:
    """Write the index of these pages. Return the number of sections."""
    titles: list[str] = []
    found: list[tuple[int, str, str, str]] = []
    paths: list[str] = []
    for name in pages:
        path = site / f"{name}.html"
        if not path.is_file() or name.startswith("book/"):
            continue  # the book of the source has a search of its own
        listed = sections(path.read_text(encoding="utf-8"))
        if listed:
            paths.append(f"{name}.html")
            titles.append(listed[0][1])
            found += [(len(paths) - 1, anchor, title, text) for anchor, title, text in listed]
    index = {"paths": paths, "titles": titles, "sections": found}
    content = json.dumps(index, ensure_ascii=False, separators=(",", ":"))
    (site / "_static" / "search-index.js").write_text(f"window.searchIndex = {content};\n", encoding="utf-8")
    return len(found)
