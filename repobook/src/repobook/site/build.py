"""Writing the site: each page of the book as HTML, each source file as a page with lines, the search, the assets.

Only what differs is written: a page of the site carries a stamp of what it was made from.
"""

import hashlib
import os
import posixpath
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from repobook import workers
from repobook.discover import MARK
from repobook.model import store
from repobook.naming import page_base, page_name
from repobook.pages.writer import write_atomically
from repobook.site import html, search, source
from repobook.site.frame import FILE_PAGES, Tab, document, relative

Progress = Callable[[str, int, int], None]
FOLDER = "html"  # in the book
ASSETS = ("app.js", "search.js", "theme.js", "style.css")
# A line of nothing but links, as the pages have below their titles.
_NAVIGATION = re.compile(r"^\[[^\]]*\]\([^()\s]*\)(?: · \[[^\]]*\]\([^()\s]*\))*\n", re.M)
_READ = 5_000_000  # bytes of a file that its source page shows
# The text of a file on its page, up to the fence that the text cannot hold. In the site it has a page of its own, with
# an anchor for each line.
_SOURCE = re.compile(
    r"^<details><summary>([\d,]+ lines?)</summary>\n\n(`{3,})[^\n]*\n.*?^\2\n\n</details>\n\n"
    r"(\[[^\]]*\]\([^()\s]*\))[^\n]*",
    re.M | re.S,
)


class Documentation(NamedTuple):
    """The documentation that a site is part of; addresses are relative to the site's folder."""

    home: str  # its first page
    places: Mapping[str, tuple[tuple[str, str], ...]]  # path of a file -> (name, address) of its documentation

    def find_pages(self, path: str) -> tuple[tuple[str, str], ...]:
        return self.places.get(path, ())


_NO_DOCUMENTATION = Documentation("", {})


class _Desk(NamedTuple):
    """State of a process that writes the site."""

    root: str
    output: str
    title: str
    shown: frozenset[str]  # files whose source has a page, as pages name them
    paged: frozenset[str]  # files that have pages of the book, as pages name them
    around: Documentation  # by the files as pages name them


_desk = _Desk("", "", "", frozenset(), frozenset(), _NO_DOCUMENTATION)


def _start(desk: _Desk) -> None:
    global _desk
    _desk = desk
    _goal.cache_clear()


def href_of(target: str, folder: str) -> str:
    """A link of a Markdown page in `folder` of the book, as the site has it."""
    place, mark, anchor = target.partition("#")
    if target.startswith(("http://", "https://")) or not place:
        return target
    found = _goal(place, folder)
    return found + mark + anchor if found else ""


@lru_cache(1 << 15)  # a page links to many lines of few files
def _goal(place: str, folder: str) -> str:
    absolute = os.path.normpath(os.path.join(_desk.output, folder, unquote(place)))
    if absolute.startswith(_desk.output + os.sep) and place.endswith(".md"):
        return place.removesuffix(".md") + ".html"
    path = os.path.relpath(absolute, _desk.root).replace(os.sep, "/")
    # A file that the site does not show, such as a binary one, has no address.
    return relative(page_name(path, "_source.html"), folder) if page_base(path) in _desk.shown else ""


def _tabs(page: str) -> tuple[Tab, ...]:
    """The pages about the same file, folder or tree as a page of the site."""
    folder, name = posixpath.split(page)
    for ending in FILE_PAGES.values():
        if name.endswith(ending):
            path = page.removesuffix(ending)
            return tuple(Tab(label, path + other) for label, other in FILE_PAGES.items() if _has(path, other))
    pages = {"Contents": "index.html", "About": "doc.html", "Keywords": "sub.html"}
    if not folder:
        pages |= {"A to Z": "keywords.html", "The book": "comprehensive_book.html"}
    return tuple(Tab(label, posixpath.join(folder, other)) for label, other in pages.items())


def _has(path: str, ending: str) -> bool:
    return path in (_desk.shown if ending == "_source.html" else _desk.paged)


def page_document(page: str, text: str) -> tuple[str, str]:
    """(path in the site, document) of a Markdown page of the book."""
    folder = posixpath.dirname(page)
    path = page.removesuffix(".md") + ".html"
    beside = ""
    if page.endswith("_docs.md"):
        name = page.removesuffix("_docs.md")
        beside = name + "_source.html" if name in _desk.shown else ""
        text = _SOURCE.sub(r"\1, highlighted: \3. The key `s` shows them beside this page.", text, count=1)
    head, mark, rest = text.partition("\n## ")
    text = _NAVIGATION.sub("", head) + mark + rest  # the tabs say it
    heading = html.plain(text.partition("\n")[0].lstrip("# "))
    body = html.blocks(text, lambda target: href_of(target, folder))
    if page.endswith("_docs.md"):
        body = body.replace("</h1>", "</h1>" + _documented(page.removesuffix("_docs.md"), folder), 1)
    return path, document(path, heading, body, _desk.title, _tabs(path), beside, _desk.around.home)


def _documented(path: str, folder: str) -> str:
    """Pages of the documentation about the definitions of a file."""
    links = ", ".join(
        f'<a href="{escape(relative(place, folder) + mark + anchor)}"><code>{escape(name)}</code></a>'
        for name, address in _desk.around.find_pages(path)
        for place, mark, anchor in [address.partition("#")]
    )
    return f'\n<p class="documented">In the documentation: {links}</p>' if links else ""


def source_document(path: str, language: str) -> tuple[str, str]:
    """(path in the site, document) of the source of a file."""
    try:
        with open(os.path.join(_desk.root, path), "rb") as file:
            text = file.read(_READ).decode("utf-8", "replace").replace("\r\n", "\n")
    except OSError:
        text = ""
    page = page_name(path, "_source.html")
    body = f"<h1><code>{escape(path)}</code></h1>\n{source.listing(text, language)}"
    return page, document(page, path, body, _desk.title, _tabs(page), home=_desk.around.home)


def _one(task: tuple[str, str, str]) -> tuple[str, str]:
    """Write one page; returns its name among those known, and its stamp."""
    kind, name, stamp = task
    if kind == "page":
        path, text = page_document(name, (Path(_desk.output) / name).read_text(encoding="utf-8"))
    else:
        path, text = source_document(name, kind)
    target = os.path.join(_desk.output, FOLDER, path)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    write_atomically(target, text.encode("utf-8", "replace"), os.path.join(_desk.output, MARK))
    return ("page:" if kind == "page" else "source:") + name, stamp


def _file(name: str) -> str:
    """The file of the site for `page:` and a page of the book, or for `source:` and a file of the tree."""
    kind, _, path = name.partition(":")
    return path.removesuffix(".md") + ".html" if kind == "page" else page_name(path, "_source.html")


def _maker() -> str:
    """A stamp of the code that writes pages, so that a newer repobook writes them anew."""
    digest = hashlib.blake2b(digest_size=8)
    for name in ("frame.py", "html.py", "diagram.py", "source.py", "scan.py", "build.py"):
        digest.update(files("repobook.site").joinpath(name).read_bytes())
    return digest.hexdigest()


def write_site(
    db: sqlite3.Connection,
    root: Path,
    output: Path,
    title: str,
    jobs: int,
    progress: Progress,
    around: Documentation = _NO_DOCUMENTATION,
) -> int:
    """Bring the site up to date with the book; returns how many files were written."""
    known = dict(db.execute("SELECT name, stamp FROM site"))
    around = Documentation(around.home, {page_base(path): told for path, told in around.places.items()})
    maker = f"{_maker()}{title}:{around.home}:"
    wanted: dict[str, tuple[str, str, str]] = {}
    for page, digest in db.execute("SELECT path, digest FROM pages"):
        told = around.find_pages(page.removesuffix("_docs.md"))
        stamp = bytes(digest).hex() + (hashlib.blake2b(repr(told).encode(), digest_size=8).hexdigest() if told else "")
        wanted["page:" + page] = ("page", page, maker + stamp)
    sources: set[str] = set()
    for path, language, digest in db.execute(
        "SELECT path, language, digest FROM files WHERE status NOT IN ('binary', 'unreadable')"
    ):
        sources.add(page_base(path))
        wanted["source:" + path] = (language, path, maker + bytes(digest).hex())
    site = output / FOLDER
    tasks = [task for name, task in wanted.items() if known.get(name) != task[2] or not (site / _file(name)).exists()]
    gone = [name for name in known if name.startswith(("page:", "source:")) and name not in wanted]
    paged = frozenset(name[5:-8] for name in wanted if name.startswith("page:") and name.endswith("_docs.md"))
    desk = _Desk(str(root.resolve()), str(output.resolve()), title, frozenset(sources), paged, around)
    _start(desk)
    written = 0
    for done, row in enumerate(workers.run(_one, tasks, jobs, _start, (desk,), 8), 1):
        db.execute("INSERT OR REPLACE INTO site VALUES(?,?)", row)
        written += 1
        if done % 50 == 0 or done == len(tasks):
            progress("site", done, len(tasks))
    for name in gone:
        _remove(output / FOLDER, _file(name))
        db.execute("DELETE FROM site WHERE name=?", (name,))
    written += _write_files(db, output, known, "asset:", _assets())
    stamp = search.stamp(db) if tasks or gone or "search" not in known else known["search"]
    if known.get("search") != stamp:
        progress("search", 0, 1)
        scripts = {f"search/{name}.js": text for name, text in search.index(db).items()}
        written += _write_files(db, output, known, "search:", scripts.items())
        for name in known:
            if name.startswith("search:") and name[7:] not in scripts:
                _remove(output / FOLDER, name[7:])
                db.execute("DELETE FROM site WHERE name=?", (name,))
        db.execute("INSERT OR REPLACE INTO site VALUES('search', ?)", (stamp,))
    db.commit()
    return written


def _assets() -> Iterator[tuple[str, str]]:
    for name in ASSETS:
        yield f"assets/{name}", files("repobook.site").joinpath("assets", name).read_text(encoding="utf-8")


def _write_files(
    db: sqlite3.Connection, output: Path, known: dict[str, str], kind: str, texts: Iterable[tuple[str, str]]
) -> int:
    written = 0
    for name, text in texts:
        data = text.encode("utf-8", "replace")
        stamp = hashlib.blake2b(data, digest_size=16).hexdigest()
        target = output / FOLDER / name
        if known.get(kind + name) == stamp and target.exists():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(str(target), data, str(output / MARK))
        db.execute("INSERT OR REPLACE INTO site VALUES(?,?)", (kind + name, stamp))
        written += 1
    return written


def _remove(site: Path, page: str) -> None:
    """Take a page out of the site, and the folders that are empty then."""
    (site / page).unlink(missing_ok=True)
    folder = (site / page).parent
    while folder != site and folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
        folder = folder.parent


def site_of(output: Path) -> Path:
    return output / FOLDER / "index.html"


def open_database(output: Path) -> sqlite3.Connection:
    from repobook.build import database

    return store.connect(database(output))
