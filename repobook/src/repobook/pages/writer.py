"""Writing pages: only those whose content differs, each atomically; pages of files that are gone go too."""

import hashlib
import os
import sqlite3
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from repobook import workers
from repobook.build import Outcome, database, way_to_source
from repobook.code_digest import digest_code
from repobook.config import Config
from repobook.discover import MARK
from repobook.model import store
from repobook.naming import page_name
from repobook.pages import folder as folder_pages
from repobook.pages import tree as tree_pages
from repobook.pages.book_facts import Book
from repobook.pages.concepts import concept_names, concept_pages
from repobook.pages.context import Context
from repobook.pages.file_page import file_page
from repobook.pages.keywords import keyword_page
from repobook.pages.markdown import Links

Progress = Callable[[str, int, int], None]
Written = tuple[str, bytes, bool]  # page, digest, whether it was written


@dataclass(slots=True)
class _Desk:
    """State of a process that writes pages."""

    root: str
    output: str
    book: Book
    known: dict[str, bytes]  # digests of the pages on disk
    names: dict[str, list[str]] = field(default_factory=dict)  # keyword group -> names
    made: set[str] = field(default_factory=set)  # folders that exist
    links: dict[str, Links] = field(default_factory=dict)  # folder -> links, for the folders that were written last

    def links_of(self, folder: str) -> Links:
        found = self.links.get(folder)
        if found is None:
            if len(self.links) >= 32:
                self.links.clear()
            found = self.links[folder] = Links(folder, self.book.to_source, self.book.source_url)
        return found


_desk: _Desk


def open_book(db: sqlite3.Connection, root: Path, output: Path, config: Config) -> Book:
    embed = config.embed_limit if config.source == "embed" else 0
    return Book(db, way_to_source(root, output), config.source_url, embed, config.max_file_size)


def write_atomically(path: str, data: bytes, spare: str) -> None:
    """Write a file under another name first; `spare` is a folder of the same file system for it.

    The other name does not depend on the file's, which may be as long as the file system allows.
    """
    temporary = os.path.join(spare, f"{os.getpid()}.new")
    try:
        # Tens of thousands of pages: a file object for each costs as much as the writing.
        opened = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0), 0o666)
        try:
            written = os.write(opened, data)
            while written < len(data):
                written += os.write(opened, data[written:])
        finally:
            os.close(opened)
        os.replace(temporary, path)
    except BaseException:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise


def _write_page(page: str, text: str) -> Written:
    """Write one page if it differs from the page on disk."""
    data = text.encode("utf-8", "replace")
    digest = hashlib.blake2b(data, digest_size=16).digest()
    path = os.path.join(_desk.output, page)
    if _desk.known.get(page) == digest and os.path.exists(path):
        return page, digest, False
    folder = os.path.dirname(path)
    if folder not in _desk.made:
        os.makedirs(folder, exist_ok=True)
        _desk.made.add(folder)
    write_atomically(path, data, os.path.join(_desk.output, MARK))
    return page, digest, True


def _write_file(file_id: int) -> list[Written]:
    book = _desk.book
    file = book.files[file_id]
    context = Context(book, file)
    links = _desk.links_of(file.folder)
    source = None
    if file.size <= book.embed and file.status == "ok":
        try:
            with open(os.path.join(_desk.root, file.path), "rb") as opened:
                source = opened.read(book.embed + 1).decode("utf-8", "replace").replace("\r\n", "\n")
        except OSError:
            source = None
    return [
        _write_page(page_name(file.path), file_page(context, links, source)),
        _write_page(page_name(file.path, "_kw.md"), keyword_page(context, links)),
    ]


def _write_folder(folder: str) -> list[Written]:
    book = _desk.book
    links = _desk.links_of(folder)
    prefix = folder + "/" if folder else ""
    pages = [
        _write_page(prefix + "doc.md", folder_pages.doc_page(book, folder, links, _desk.root)),
        _write_page(prefix + "sub.md", folder_pages.keyword_index(book, folder, links)),
    ]
    if folder:
        pages.append(_write_page(prefix + "index.md", folder_pages.index_page(book, folder, links)))
    return pages


def _write_group(group: str) -> list[Written]:
    text = tree_pages.group_text(_desk.book, group, _desk.names[group], _desk.links_of(""))
    return [_write_page(tree_pages.group_page(group), text)]


def _write_task(task: str) -> list[Written]:
    kind, _, name = task.partition(":")
    if kind == "f":
        return _write_file(int(name))
    return _write_folder(name) if kind == "d" else _write_group(name)


def _describe(task: str) -> str:
    kind, _, name = task.partition(":")
    if kind == "f":
        return f"the page of {_desk.book.path(int(name))}"
    return f"the pages of folder {name or '.'}" if kind == "d" else f"the keywords of group {name}"


def write_pages(
    db: sqlite3.Connection, root: Path, output: Path, config: Config, jobs: int, outcome: Outcome, progress: Progress
) -> None:
    """Write the pages that the last change of the model touched, and those that an interrupted build left.

    The caller holds the lock of the book.
    """
    global _desk
    _remove_spare(output)
    book = open_book(db, root, output, config)
    maker = _maker()
    if not outcome.everything and (store.get_meta(db, "maker") != maker or _misses_pages(db, output)):
        outcome.everything = True
        outcome.changed = set(book.files)
    _mark_pending(db, book, outcome)
    db.commit()
    tasks = [row[0] for row in db.execute("SELECT page FROM pending ORDER BY page DESC")]
    if not tasks:
        return
    if outcome.everything:
        book.load_all()
    # Without a name that changed or a file that came or went, the lists of names and pages are as they were.
    listed = outcome.everything or outcome.deleted > 0 or any(task.startswith("k:") for task in tasks)
    names: dict[str, list[str]] = {}
    _desk = _Desk(str(root), str(output), book, dict(db.execute("SELECT path, digest FROM pages")), names)

    def meanwhile() -> None:
        if listed:
            names.update(tree_pages.names_by_group(book))

    try:
        groups = {task[2:] for task in tasks if task.startswith("k:")}
        tasks = [task for task in tasks if task[0] == "d" or (task[0] == "f" and book.has_page(int(task[2:])))]
        _write_all(db, tasks, jobs, outcome, progress, meanwhile)
        if ALL_GROUPS in groups:
            groups = set(names)
        _write_all(db, [f"k:{group}" for group in sorted(groups & set(names))], jobs, outcome, progress)
        title = config.title or root.resolve().name
        _write_tops(db, book, title, names, outcome)
        if outcome.everything or outcome.deleted:
            # A file that is gone leaves the list of its concepts; otherwise they are as the last full build had them.
            _write_here(db, concept_pages(book, _desk.links_of("")), outcome)
        if listed:
            outcome.removed += _remove_old(db, output, expected_pages(book, names))
        db.execute("DELETE FROM pending")
        store.set_meta(db, "unwritten", "")
        store.set_meta(db, "maker", maker)
        db.commit()
    except BaseException:
        db.rollback()  # the next build looks at the pending pages again
        raise


def _maker() -> str:
    """A stamp of the code that writes pages, so that a newer repobook writes them anew."""
    return digest_code("pages")


def _remove_spare(output: Path) -> None:
    """Remove the half-written pages of builds that were killed."""
    for left in (output / MARK).glob("*.new"):
        left.unlink(missing_ok=True)


def _misses_pages(db: sqlite3.Connection, output: Path) -> bool:
    """True if a page that the book had was removed from the disk."""
    top = str(output)
    return any(not os.path.exists(os.path.join(top, page)) for (page,) in db.execute("SELECT path FROM pages"))


def _write_all(
    db: sqlite3.Connection,
    tasks: list[str],
    jobs: int,
    outcome: Outcome,
    progress: Progress,
    meanwhile: Callable[[], None] | None = None,
) -> None:
    start = (str(database(Path(_desk.output))), os.getpid())
    found = workers.run(_write_task, tasks, jobs, _reopen, start, 8, meanwhile, _describe)
    for done, pages in enumerate(found, 1):
        outcome.written += sum(row[2] for row in pages)
        db.executemany("INSERT OR REPLACE INTO pages VALUES(?, NULL, ?)", [row[:2] for row in pages])
        if done % 50 == 0 or done == len(tasks):
            progress("writing", done, len(tasks))


def _write_tops(db: sqlite3.Connection, book: Book, title: str, names: dict[str, list[str]], outcome: Outcome) -> None:
    links = Links("", book.to_source, book.source_url)
    pages = {
        "index.md": tree_pages.top_index(book, title, links, _desk.root),
        "comprehensive_book.md": tree_pages.book_page(book, title, links, _desk.root),
    }
    if names or "keywords.md" not in _desk.known:
        counts = Counter({group: len(found) for group, found in names.items()})
        pages["keywords.md"] = tree_pages.keyword_page(counts, book, links)
    _write_here(db, pages, outcome)


def _write_here(db: sqlite3.Connection, pages: dict[str, str], outcome: Outcome) -> None:
    for page, text in pages.items():
        row = _write_page(page, text)
        outcome.written += row[2]
        db.execute("INSERT OR REPLACE INTO pages VALUES(?, NULL, ?)", row[:2])


# The pending page that stands for the pages of all groups of keywords.
ALL_GROUPS = ""


def _mark_pending(db: sqlite3.Connection, book: Book, outcome: Outcome) -> None:
    """List the pages that this build has to look at; committed with the model."""
    _add_neighbours(book, outcome)
    folders = set(outcome.folders)
    groups = set(outcome.groups)
    if outcome.everything:
        folders = set(book.folders())
        groups = {ALL_GROUPS}
    for folder in list(folders):
        while folder:
            folder = folder.rpartition("/")[0]
            folders.add(folder)
    tasks = [f"f:{file}" for file in outcome.changed]
    tasks += [f"d:{folder}" for folder in folders & set(book.folders())]
    tasks += [f"k:{group}" for group in groups]
    db.executemany("INSERT OR IGNORE INTO pending VALUES(?)", [(task,) for task in tasks])


def _add_neighbours(book: Book, outcome: Outcome) -> None:
    """Add the pages that speak of a changed file without a reference to it: a source file quotes its header, and a
    file names the tests that have its name."""
    if outcome.everything:
        return
    for file in [book.files[number] for number in outcome.changed if number in book.files]:
        outcome.changed.update(book.siblings(file))
        if file.test:
            outcome.changed.update(book.find_subjects(file))


def _reopen(path: str, parent: int) -> None:
    """A connection of its own for a forked worker; the process that built the model keeps the one it has."""
    if os.getpid() != parent:
        _desk.book.db = _desk.book.callers.db = store.connect(Path(path), readonly=True)


def expected_pages(book: Book, names: dict[str, list[str]]) -> set[str]:
    found = {"index.md", "keywords.md", "comprehensive_book.md"}
    for file in book.files.values():
        if book.has_page(file.id):
            found.add(page_name(file.path))
            found.add(page_name(file.path, "_kw.md"))
    for folder in book.folders():
        prefix = folder + "/" if folder else ""
        found.update((prefix + "index.md", prefix + "doc.md", prefix + "sub.md"))
    found.update(tree_pages.group_page(group) for group in names)
    found |= concept_names(book)
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
