"""Building the book: what changed is read, resolved and written; the rest is left alone.

The model is one transaction, and the pages to write are listed in it: a build that is interrupted leaves the old
pages whole, and the next build writes what was left.
"""

import os
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from repobook import history, workers
from repobook.config import Config
from repobook.discover import MARK, Entry, discover
from repobook.languages import C_FAMILY, language_of
from repobook.model import store
from repobook.model.schema import VERSION
from repobook.naming import group_of
from repobook.reading.macros import DEFINERS, Macros, attribute_macros
from repobook.reading.worker import Setting, Task, content_digest, macros_task, read_task, start
from repobook.resolving.update import Before, resolve_all, resolve_changes

Progress = Callable[[str, int, int], None]


@dataclass(slots=True)
class Outcome:
    """What a build did."""

    files: int = 0
    read: int = 0
    deleted: int = 0
    written: int = 0
    removed: int = 0
    problems: list[str] = field(default_factory=list)
    changed: set[int] = field(default_factory=set)  # files whose pages can differ
    folders: set[str] = field(default_factory=set)  # folders whose pages can differ
    groups: set[str] = field(default_factory=set)  # groups of keywords whose pages can differ
    everything: bool = False  # every page is to be looked at


def database(output: Path) -> Path:
    return output / MARK / "model.sqlite"


def silent(stage: str, done: int, total: int) -> None:
    """A progress that nobody watches."""


def build_model(
    root: Path, output: Path, config: Config, jobs: int = 1, progress: Progress = silent
) -> tuple[sqlite3.Connection, Outcome]:
    """Bring the model up to date with the tree; pages are written by `repobook.pages.writer`."""
    outcome = Outcome()
    stamp = VERSION + repr(config)
    db, fresh = _open(output, stamp)
    listing = discover(root, config, output)
    outcome.problems += listing.problems
    outcome.files = len(listing.entries)
    tasks, deleted = changes(db, listing.entries, root)
    if not tasks and not deleted and not fresh:
        outcome.changed = history.update(db, root, config.history)
        return db, outcome
    cold = fresh or len(tasks) > outcome.files // 2
    if cold and not fresh:
        # So much changed that starting from nothing is quicker.
        db.close()
        db, _ = _open(output, "")
        tasks, deleted = changes(db, listing.entries, root)
    setting = Setting(str(root), config, Macros())
    tasks = _with_macros(db, tasks, setting, jobs)
    known = {row[0] for row in db.execute("SELECT id FROM files")}
    new_files = [task for task in tasks if task.file not in known]
    outcome.folders = {"", *(task.path.rpartition("/")[0] for task in new_files)}
    for file in deleted:
        outcome.folders.add(str(db.execute("SELECT folder FROM files WHERE id=?", (file,)).fetchone()[0]))
    before = Before() if cold else Before.of(db, [task.file for task in tasks], deleted)
    for file in deleted:
        store.remove(db, file, with_file=True)
    if cold:
        store.drop_indexes(db)
        store.journal(db, False)
    read = _read(db, tasks, setting, jobs, cold, outcome, progress)
    outcome.read, outcome.deleted = len(tasks), len(deleted)
    if cold:
        progress("indexing", 0, 1)
        store.journal(db, True)
        outcome.changed = resolve_all(db, jobs, progress)
        outcome.everything = True
    else:
        touched = resolve_changes(db, read, before, bool(deleted or new_files), jobs, progress)
        outcome.changed = touched.files
        outcome.groups = {group_of(name) for name in touched.names}
        for file in touched.folders:
            row = db.execute("SELECT folder FROM files WHERE id=?", (file,)).fetchone()
            outcome.folders.update(row or ())
    outcome.changed |= history.update(db, root, config.history)
    store.set_meta(db, "stamp", stamp)
    store.set_meta(db, "root", str(root.resolve()))
    return db, outcome


def _open(output: Path, stamp: str) -> tuple[sqlite3.Connection, bool]:
    """The model of a book, and whether it starts from nothing."""
    (output / MARK).mkdir(parents=True, exist_ok=True)
    path = database(output)
    try:
        db = store.connect(path)
        if store.get_meta(db, "stamp") == stamp:
            return db, False
        # What the old book wrote is still known, so that pages of files that are gone can go.
        pages = db.execute("SELECT path, file, digest FROM pages").fetchall()
        db.close()
    except sqlite3.DatabaseError:
        pages = []
    for ending in ("", "-wal", "-shm"):
        Path(str(path) + ending).unlink(missing_ok=True)
    db = store.connect(path)
    db.executemany("INSERT INTO pages VALUES(?,?,?)", pages)
    return db, True


def changes(db: sqlite3.Connection, entries: list[Entry], root: Path) -> tuple[list[Task], list[int]]:
    """Files to read and files that are gone. A file that was touched but not changed is neither."""
    known = {row[1]: row for row in db.execute("SELECT id, path, size, mtime, digest FROM files")}
    tasks: list[Task] = []
    following = max((row[0] for row in known.values()), default=0) + 1
    for entry in entries:
        old = known.pop(entry.path, None)
        if old is None:
            tasks.append(Task(following, entry.path, entry.size, entry.mtime))
            following += 1
        elif old[2] != entry.size or (old[3] != entry.mtime and _digest(root, entry) != old[4]):
            tasks.append(Task(old[0], entry.path, entry.size, entry.mtime))
        elif old[3] != entry.mtime:
            db.execute("UPDATE files SET mtime=? WHERE id=?", (entry.mtime, old[0]))
    return tasks, [row[0] for row in known.values()]


def _digest(root: Path, entry: Entry) -> bytes:
    try:
        with open(os.path.join(root, entry.path), "rb") as file:
            return content_digest(file.read())
    except OSError:
        return b""


def _read(
    db: sqlite3.Connection,
    tasks: list[Task],
    setting: Setting,
    jobs: int,
    cold: bool,
    outcome: Outcome,
    progress: Progress,
) -> set[int]:
    tasks = sorted(tasks, key=lambda task: (-task.size, task.path))
    read: set[int] = set()
    for done, (row, rows, problem) in enumerate(workers.run(read_task, tasks, jobs, start, (setting,)), 1):
        if problem:
            outcome.problems.append(problem)
        file = int(str(row[0]))
        if not cold:
            store.remove(db, file, with_file=False)
        store.insert_file(db, row)
        store.insert(db, rows)
        if not cold:
            store.index_words(db, file)
        read.add(file)
        if done % 50 == 0 or done == len(tasks):
            progress("reading", done, len(tasks))
    return read


def _with_macros(db: sqlite3.Connection, tasks: list[Task], setting: Setting, jobs: int) -> list[Task]:
    """Find the attribute macros of the tree; where the set changed, the files that use them are read again too."""
    sources = [task for task in tasks if language_of(task.path) in C_FAMILY]
    before = store.get_meta(db, "macros")
    definers = DEFINERS | dict(row.split("=", 1) for row in setting.config.definers)
    if not sources and before:
        setting.macros = Macros(frozenset(before.split()), definers)
        return tasks
    differs = not before
    for file, found in workers.run(macros_task, sources, jobs, start, (setting,), 64):
        rows = [(file, *row) for row in found]
        if before and db.execute("SELECT * FROM macros WHERE file=? ORDER BY rowid", (file,)).fetchall() == rows:
            continue
        differs = True
        db.execute("DELETE FROM macros WHERE file=?", (file,))
        db.executemany("INSERT INTO macros VALUES(?,?,?,?)", rows)
    if not differs:
        setting.macros = Macros(frozenset(before.split()), definers)
        return tasks
    defined = db.execute("SELECT name, parameters, body FROM macros")
    chosen = attribute_macros(
        ((name.encode(), None if parameters is None else b"()", body.encode()) for name, parameters, body in defined),
        setting.config.blank_macros,
    )
    setting.macros = Macros(chosen, definers)
    store.set_meta(db, "macros", " ".join(sorted(chosen)))
    if before:
        known = {task.file for task in tasks}
        for name in set(before.split()) ^ chosen:
            for row in db.execute(
                "SELECT DISTINCT f.id, f.path, f.size, f.mtime FROM refs r JOIN files f ON f.id=r.file WHERE r.name=?",
                (name,),
            ):
                if row[0] not in known:
                    known.add(row[0])
                    tasks.append(Task(*row))
    return tasks
