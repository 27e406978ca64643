"""Writing pages: only those whose content differs, each atomically; pages of files that are gone go too."""

import hashlib
import os
import sqlite3
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from repobook import graph
from repobook.build import Outcome, _context, database
from repobook.config import Config
from repobook.model import store
from repobook.pages import folder as folder_pages
from repobook.pages import tree as tree_pages
from repobook.pages.context import Book, Context
from repobook.pages.file_page import file_page
from repobook.pages.keywords import keyword_page
from repobook.pages.markdown import Links

Progress = Callable[[str, int, int], None]


@dataclass(slots=True)
class _Shop:
    """What a worker holds while it writes."""

    root: str
    output: str
    book: Book
    known: dict[str, bytes]


_shop: _Shop


def open_book(db: sqlite3.Connection, root: Path, output: Path, config: Config) -> Book:
    embed = config.embed_limit if config.source == "embed" else 0
    book = Book(db, os.path.relpath(root, output), config.source_url, embed)
    book.layers = graph.layers(db)
    return book


def write_atomically(path: str, text: str) -> None:
    temporary = f"{path}.{os.getpid()}.new"
    try:
        with open(temporary, "w", encoding="utf-8", errors="replace", newline="\n") as file:
            file.write(text)
        os.replace(temporary, path)
    except BaseException:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise


def _put(page: str, text: str, folders: set[str]) -> tuple[str, bytes, bool]:
    """Write one page where it differs from what stands there."""
    digest = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).digest()
    path = os.path.join(_shop.output, page)
    if _shop.known.get(page) == digest and os.path.exists(path):
        return page, digest, False
    folder = os.path.dirname(path)
    if folder not in folders:
        os.makedirs(folder, exist_ok=True)
        folders.add(folder)
    write_atomically(path, text)
    return page, digest, True


_made: set[str] = set()


def _write_file(file_id: int) -> list[tuple[str, bytes, bool]]:
    book = _shop.book
    file = book.files[file_id]
    context = Context(book, file)
    links = Links(file.folder, book.to_source, book.source_url)
    source = None
    if file.size <= book.embed and file.status == "ok":
        try:
            with open(os.path.join(_shop.root, file.path), "rb") as opened:
                source = opened.read(book.embed + 1).decode("utf-8", "replace").replace("\r\n", "\n")
        except OSError:
            source = None
    return [
        _put(file.path + "_docs.md", file_page(context, links, source), _made),
        _put(file.path + "_kw.md", keyword_page(context, links), _made),
    ]


def _write_folder(folder: str) -> list[tuple[str, bytes, bool]]:
    book = _shop.book
    links = Links(folder, book.to_source, book.source_url)
    prefix = folder + "/" if folder else ""
    pages = [
        _put(prefix + "doc.md", folder_pages.doc_page(book, folder, links), _made),
        _put(prefix + "sub.md", folder_pages.keyword_index(book, folder, links), _made),
    ]
    if folder:
        pages.append(_put(prefix + "index.md", folder_pages.index_page(book, folder, links), _made))
    return pages


def _write_any(task: str) -> list[tuple[str, bytes, bool]]:
    return _write_file(int(task[2:])) if task.startswith("f:") else _write_folder(task[2:])


def write_pages(db: sqlite3.Connection, root: Path, output: Path, config: Config, jobs: int, outcome: Outcome, progress: Progress) -> None:
    """Write the pages that the last change of the model touched, and whatever an interrupted build left."""
    global _shop
    mark_pending(db, outcome)
    tasks = [row[0] for row in db.execute("SELECT page FROM pending ORDER BY page DESC")]
    if not tasks:
        return
    book = open_book(db, root, output, config)
    known = dict(db.execute("SELECT path, digest FROM pages"))
    _shop = _Shop(str(root), str(output), book, known)
    tasks = [task for task in tasks if not task.startswith("f:") or book.has_page(int(task[2:]))]
    done = 0
    for result in _in_workers(tasks, jobs):
        outcome.written += sum(row[2] for row in result)
        db.executemany("INSERT OR REPLACE INTO pages VALUES(?, NULL, ?)", [row[:2] for row in result])
        done += 1
        if done % 50 == 0 or done == len(tasks):
            progress("writing", done, len(tasks))
    links = Links("", book.to_source, book.source_url)
    title = config.title or root.resolve().name
    tops = {"index.md": tree_pages.top_index(book, title, links), "comprehensive_book.md": tree_pages.book_page(book, title, links)}
    tops.update(tree_pages.keyword_pages(book, links))
    for page, text in tops.items():
        row = _put(page, text, _made)
        outcome.written += row[2]
        db.execute("INSERT OR REPLACE INTO pages VALUES(?, NULL, ?)", row[:2])
    outcome.removed += _remove_old(db, output, expected_pages(book) | set(tops))
    db.execute("DELETE FROM pending")
    db.commit()


def mark_pending(db: sqlite3.Connection, outcome: Outcome) -> None:
    folders: set[str] = set()
    for file in outcome.changed:
        row = db.execute("SELECT folder FROM files WHERE id=?", (file,)).fetchone()
        if row is not None:
            folders.add(row[0])
    if outcome.changed or outcome.deleted:
        folders.add("")
    for folder in list(folders):
        while folder:
            folder = folder.rpartition("/")[0]
            folders.add(folder)
    db.executemany("INSERT OR IGNORE INTO pending VALUES(?)", [(f"f:{file}",) for file in outcome.changed])
    db.executemany("INSERT OR IGNORE INTO pending VALUES(?)", [(f"d:{folder}",) for folder in folders])
    db.commit()


def _in_workers(tasks: list[str], jobs: int) -> Iterable[list[tuple[str, bytes, bool]]]:
    if jobs <= 1 or len(tasks) < 64:
        yield from map(_write_any, tasks)
        return
    path = Path(_shop.output)
    with _context().Pool(jobs, _reopen, (str(database(path)),)) as pool:
        yield from pool.imap_unordered(_write_any, tasks, 8)


def _reopen(path: str) -> None:
    """A connection of its own for a forked worker."""
    _shop.book.db = store.connect(Path(path), readonly=True)


def expected_pages(book: Book) -> set[str]:
    found: set[str] = set()
    for file in book.files.values():
        if book.has_page(file.id):
            found.add(file.path + "_docs.md")
            found.add(file.path + "_kw.md")
    for folder in book.folders():
        prefix = folder + "/" if folder else ""
        found.update((prefix + "index.md", prefix + "doc.md", prefix + "sub.md"))
    return found


def _remove_old(db: sqlite3.Connection, output: Path, expected: set[str]) -> int:
    old = [row[0] for row in db.execute("SELECT path FROM pages") if row[0] not in expected]
    for page in old:
        (output / page).unlink(missing_ok=True)
        folder = (output / page).parent
        while folder != output and folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
            folder = folder.parent
    db.executemany("DELETE FROM pages WHERE path=?", [(page,) for page in old])
    return len(old)
