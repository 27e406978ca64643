"""Writing the site: each page of the book as HTML, each source file as a page with lines, the search, the assets."""

import hashlib
import os
import posixpath
import sqlite3
from collections.abc import Callable
from html import escape
from importlib.resources import files
from pathlib import Path
from urllib.parse import quote, unquote

from repobook import workers
from repobook.model import store
from repobook.pages.writer import write_atomically
from repobook.site import html, search, source

Progress = Callable[[str, int, int], None]
FOLDER = "html"  # in the book

_root = _output = _title = ""


def _start(root: str, output: str, title: str) -> None:
    global _root, _output, _title
    _root, _output, _title = root, output, title


def frame(page: str, heading: str, body: str, source_page: str = "") -> str:
    """A whole document; `page` is its path in the site."""
    depth = page.count("/")
    base = "../" * depth
    attribute = f' data-source="{escape(source_page)}"' if source_page else ""
    return (
        f'<!doctype html>\n<html lang="en" data-base="{base}">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'self'; style-src 'self'; script-src "
        "'self'; "
        "img-src 'self'; frame-src 'self'; object-src 'none'; base-uri 'none'\">\n"
        f"<title>{escape(heading)} · {escape(_title)}</title>\n"
        f'<link rel="stylesheet" href="{base}assets/style.css">\n<script src="{base}assets/app.js" '
        f"defer></script>\n</head>\n"
        f'<body{attribute}>\n<header><a href="{base}index.html">{escape(_title)}</a>\n'
        '<input id="q" type="search" placeholder="Search symbols ( / )" aria-label="Search symbols" '
        'autocomplete="off">\n'
        '<button id="split" title="source beside the page (s)" aria-label="source beside the page">◫</button>'
        '<button id="theme" title="light or dark (d)" aria-label="light or dark">◐</button></header>\n'
        f'<ul id="found" role="listbox" aria-live="polite" hidden></ul>\n<main>\n{body}\n</main>\n</body>\n</html>\n'
    )


def href_of(target: str, folder: str) -> str:
    """A link of a Markdown page in `folder` of the book, as the site has it."""
    place, mark, anchor = target.partition("#")
    if target.startswith(("http://", "https://")) or not place:
        return target
    absolute = os.path.normpath(os.path.join(_output, folder, unquote(place)))
    if absolute.startswith(_output + os.sep) and place.endswith(".md"):
        return place.removesuffix(".md") + ".html" + mark + anchor
    relative = os.path.relpath(absolute, _root).replace(os.sep, "/")
    if relative.startswith(".."):
        return "#"
    return quote(posixpath.relpath("src/" + relative + ".html", folder or "."), safe="/._-~") + mark + anchor


def convert(page: str) -> tuple[str, bytes]:
    """A Markdown page as an HTML page of the site."""
    text = (Path(_output) / page).read_text(encoding="utf-8")
    folder = posixpath.dirname(page)
    if page.endswith("_docs.md"):
        # The source has a page of its own, with a line for each anchor.
        head, mark, rest = text.partition("<details><summary>")
        text = head + rest.partition("\n</details>\n")[2] if mark else text
    path = page.removesuffix(".md") + ".html"
    heading = html.plain(text.partition("\n")[0].lstrip("# "))
    beside = ""
    if page.endswith("_docs.md"):
        name = page.removesuffix("_docs.md")
        beside = quote(posixpath.relpath("src/" + name + ".html", folder or "."), safe="/._-~")
    body = html.blocks(text, lambda target: href_of(target, folder))
    return path, frame(path, heading, body, beside).encode("utf-8", "replace")


def convert_source(task: tuple[str, str]) -> tuple[str, bytes]:
    path, language = task
    try:
        with open(os.path.join(_root, path), "rb") as file:
            text = file.read(5_000_000).decode("utf-8", "replace").replace("\r\n", "\n")
    except OSError:
        text = ""
    page = f"src/{path}.html"
    back = quote(posixpath.relpath(path + "_docs.html", posixpath.dirname(page)), safe="/._-~")
    body = (
        f'<h1><code>{escape(path)}</code></h1>\n<p><a href="{back}">Page of this '
        f"file</a></p>\n{source.listing(text, language)}"
    )
    return page, frame(page, path, body).encode("utf-8", "replace")


def _one(task: tuple[str, str, str]) -> tuple[str, str]:
    """Write one page; returns (page of the book or source, what it was made from)."""
    kind, name, stamp = task
    path, data = convert(name) if kind == "page" else convert_source((name, kind))
    target = os.path.join(_output, FOLDER, path)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    write_atomically(target, data)
    return ("page:" if kind == "page" else "source:") + name, stamp


def write_site(db: sqlite3.Connection, root: Path, output: Path, title: str, jobs: int, progress: Progress) -> int:
    """Bring the site up to date with the book; returns how many files were written."""
    db.execute("CREATE TABLE IF NOT EXISTS site(name TEXT PRIMARY KEY, stamp TEXT) WITHOUT ROWID")
    known = dict(db.execute("SELECT name, stamp FROM site"))
    wanted: dict[str, tuple[str, str, str]] = {}
    for page, digest in db.execute("SELECT path, digest FROM pages"):
        wanted["page:" + page] = ("page", page, bytes(digest).hex())
    for path, language, digest in db.execute(
        "SELECT path, language, digest FROM files WHERE status NOT IN ('binary', 'unreadable')"
    ):
        wanted["source:" + path] = (language, path, bytes(digest).hex())
    tasks = [task for name, task in wanted.items() if known.get(name) != task[2]]
    arguments = (str(root.resolve()), str(output.resolve()), title)
    _start(*arguments)
    written = 0
    for done, (name, stamp) in enumerate(workers.run(_one, tasks, jobs, _start, arguments, 8), 1):
        db.execute("INSERT OR REPLACE INTO site VALUES(?,?)", (name, stamp))
        written += 1
        if done % 50 == 0 or done == len(tasks):
            progress("site", done, len(tasks))
    written += _write_extras(db, output, known)
    for name in known.keys() - wanted.keys():
        kind, _, path = name.partition(":")
        if kind in ("page", "source"):
            gone = path.removesuffix(".md") + ".html" if kind == "page" else f"src/{path}.html"
            (output / FOLDER / gone).unlink(missing_ok=True)
            db.execute("DELETE FROM site WHERE name=?", (name,))
    db.commit()
    return written


def _write_extras(db: sqlite3.Connection, output: Path, known: dict[str, str]) -> int:
    extras = {
        f"assets/{name}": files("repobook.site").joinpath("assets", name).read_text(encoding="utf-8")
        for name in ("app.js", "style.css")
    }
    extras.update(search.shards(db))
    written = 0
    for name, text in extras.items():
        data = text.encode("utf-8", "replace")
        stamp = hashlib.blake2b(data, digest_size=16).hexdigest()
        target = output / FOLDER / name
        if known.get("extra:" + name) == stamp and target.exists():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(str(target), data)
        db.execute("INSERT OR REPLACE INTO site VALUES(?,?)", ("extra:" + name, stamp))
        written += 1
    return written


def site_of(output: Path) -> Path:
    return output / FOLDER / "index.html"


def open_database(output: Path) -> sqlite3.Connection:
    from repobook.build import database

    return store.connect(database(output))
