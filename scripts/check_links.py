"""Whether every link of the built documentation leads somewhere: `python scripts/check_links.py docs/_build/html`.

Sphinx checks what is written in Markdown. The reference is HTML of our own, and the book of the source comes from
another program: both are read here as a browser would read them, pages and places on them. Inside the book repobook
answers for its links (`repobook check`), so of its pages those that leave it are looked at.
"""

from __future__ import annotations

import functools
import posixpath
import re
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

#: The folder of the book of the source.
BOOK = "book/"
_LINK = re.compile(r'\b(?:href|src)="([^"]*)"')
_ANCHOR = re.compile(r'\b(?:id|name)="([^"]*)"')


class Site:
    """The files of a built site, by their paths below its folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        found = (p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())
        self.files = frozenset(path for path in found if not path.startswith("."))
        self.anchors = functools.cache(self._anchors)

    def text(self, page: str) -> str:
        return (self.folder / page).read_text(encoding="utf-8", errors="replace")

    def _anchors(self, page: str) -> frozenset[str]:
        return frozenset(_ANCHOR.findall(self.text(page)))

    def wrong_links(self, page: str) -> list[str]:
        """The links of a page that lead nowhere; of a page of the book, those that lead out of it."""
        wrong = []
        for link in sorted(set(_LINK.findall(self.text(page)))):
            parts = urlsplit(link.replace("&amp;", "&"))
            if parts.scheme or parts.netloc:
                continue
            target = posixpath.normpath(posixpath.join(posixpath.dirname(page), unquote(parts.path)))
            target = target if parts.path else page
            if page.startswith(BOOK) and target.startswith(BOOK):
                continue
            if target not in self.files:
                wrong.append(f"{page}: {link}: no such page")
            elif parts.fragment and target.endswith(".html") and unquote(parts.fragment) not in self.anchors(target):
                wrong.append(f"{page}: {link}: no such place on the page")
        return wrong


def main() -> None:
    site = Site(Path(sys.argv[1]))
    pages = sorted(
        path for path in site.files if path.endswith("_docs.html" if path.startswith(BOOK) else ".html")
    )
    wrong = [line for page in pages for line in site.wrong_links(page)]
    if wrong:
        sys.exit("\n".join([*wrong[:100], f"{len(wrong)} links of {len(pages)} pages lead nowhere"]))
    print(f"==> the links of {len(pages)} pages lead where they say")


if __name__ == "__main__":
    main()
