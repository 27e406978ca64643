"""Every link of the site on disk: its target, a page or a place on one, must exist."""

import os
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from urllib.parse import unquote

_TAG = re.compile(r"<[a-z][a-z0-9]*\s[^>]*>")
_ATTRIBUTE = re.compile(r'\s(id|href|src|data-source)="([^"]*)"')
_ELSEWHERE = ("http://", "https://", "data:", "mailto:")


class _Page:
    """The anchors and links of a page. Text is escaped on our pages, so any text that looks like a tag is one."""

    __slots__ = ("anchors", "links")

    def __init__(self, text: str) -> None:
        self.anchors: set[str] = set()
        self.links: set[str] = set()
        for tag in _TAG.findall(text):
            for name, value in _ATTRIBUTE.findall(tag):
                if name == "id":
                    self.anchors.add(unescape(value))
                elif not value.startswith(_ELSEWHERE):
                    self.links.add(unescape(value))


def dead_links(site: Path) -> Iterator[str]:
    """One line per link that leads nowhere."""
    pages: dict[str, _Page] = {}
    for folder, _, names in os.walk(site):
        for name in names:
            if name.endswith(".html"):
                path = os.path.join(folder, name)
                with open(path, encoding="utf-8") as file:
                    pages[path] = _Page(file.read())
    for path, page in sorted(pages.items()):
        for target in sorted(page.links):
            place, _, anchor = target.partition("#")
            goal = os.path.normpath(os.path.join(os.path.dirname(path), unquote(place))) if place else path
            where = f"{os.path.relpath(path, site)}: {target}"
            if not os.path.exists(goal):
                yield f"{where}: no such file"
            elif anchor and goal in pages and unquote(anchor) not in pages[goal].anchors:
                yield f"{where}: no such anchor"
