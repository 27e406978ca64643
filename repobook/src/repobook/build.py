"""Building the model: read and resolve the files that changed; the rest stays as it is.

An update is one transaction, and it lists the pages to write. A model that begins from nothing is built beside the old
one and replaces it when it is whole. So an interrupted build leaves a whole book, and the next build writes the rest.
"""

import os
import re
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from repobook import history, workers
from repobook.code_digest import digest_code
from repobook.config import Config, ConfigError
from repobook.discover import MARK, Entry, discover
from repobook.languages import C_FAMILY, language_of
from repobook.model import store
from repobook.model.schema import VERSION
from repobook.naming import group_of
from repobook.reading.macros import DEFINERS, Macros, attribute_macros, derive_definers, find_named_arguments
from repobook.reading.worker import Setting, Task, content_digest, macros_task, read_task, start
from repobook.resolving.update import UNFINISHED, Before, resolve_all, resolve_changes

# Files whose presence decides how tests are run, as patterns of GLOB.
RUNNERS = ("Cargo.toml", "package.json", "vitest.*", "jest.config*", "pom.xml", "build.gradle*")

Progress = Callable[[str, int, int], None]


@dataclass(slots=True)
class Outcome:
    """Result of a build."""

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


def open_model(output: Path) -> sqlite3.Connection:
    """The model of a book for reading; a book that is missing or not whole is bad input."""
    if not database(output).exists():
        raise ConfigError(f"repobook: no book at {output}; run `repobook build` first, or name its folder with -o")
    db = store.connect(database(output), readonly=True)
    if store.get_meta(db, "stamp") in ("", UNFINISHED):
        db.close()
        raise ConfigError(
            f"repobook: the book at {output} is not whole: a build is running or was interrupted; "
            "`repobook build` completes it"
        )
    return db


def silent(stage: str, done: int, total: int) -> None:
    """No progress report."""


def check_places(root: Path, output: Path) -> None:
    """Refuse a folder for the book where building it would damage other files."""
    if output.exists() and not output.is_dir():
        raise ConfigError(f"repobook: {output} is a file; -o names the folder of the book")
    book, tree = os.path.realpath(output), os.path.realpath(root)
    if (tree + os.sep).startswith(book.rstrip(os.sep) + os.sep):
        raise ConfigError(
            f"repobook: {output} holds the repository; name a folder of its own for the book, such as {root / 'book'}"
        )
    if output.is_dir() and not (output / MARK).is_dir() and any(output.iterdir()):
        raise ConfigError(
            f"repobook: {output} is not empty and is no book of repobook; name a new folder with -o, "
            "so that no file is overwritten"
        )


def build_model(
    root: Path, output: Path, config: Config, jobs: int = 1, progress: Progress = silent
) -> tuple[sqlite3.Connection, Outcome]:
    """Bring the model up to date with the tree; `repobook.pages.writer` writes the pages.

    The caller holds the lock of the book.
    """
    check_places(root, output)
    outcome = Outcome()
    stamp = VERSION + digest_code("reading", "model", "resolving") + repr(config)
    db = _open_current(output, stamp)
    listing = discover(root, config, output)
    outcome.problems += listing.problems
    outcome.files = len(listing.entries)
    tasks, deleted = changes(db, listing.entries, root) if db is not None else ([], [])
    if db is not None and len(tasks) > outcome.files // 2:
        # Starting from nothing is quicker after so many changes.
        db.close()
        db = None
    to_source = way_to_source(root, output)
    if db is None:
        db = _open_new(output)
        tasks, _ = changes(db, listing.entries, root)
        _read_anew(db, tasks, Setting(str(root), config, Macros()), jobs, outcome, progress)
        outcome.changed |= history.update(db, root, config.history)
        _set_facts(db, stamp=stamp, root=str(root.resolve()), to_source=to_source, unwritten="all")
        store.set_meta(db, "runners", _test_runners(db))
        return _publish(db, output), outcome
    if tasks or deleted:
        _read_changes(db, tasks, deleted, Setting(str(root), config, Macros()), jobs, outcome, progress)
    outcome.changed |= history.update(db, root, config.history)
    runners = _test_runners(db)
    if (
        store.get_meta(db, "unwritten")
        or store.get_meta(db, "to_source") != to_source
        or store.get_meta(db, "runners") != runners
    ):
        # The pages of the last full build were not all written, the book was moved, or tests are run otherwise.
        outcome.everything = True
        outcome.changed = {row[0] for row in db.execute("SELECT id FROM files")}
    _set_facts(db, stamp=stamp, root=str(root.resolve()), to_source=to_source, runners=runners)
    return db, outcome


def _test_runners(db: sqlite3.Connection) -> str:
    """The build files that decide how tests are run; the pages of all files name the command."""
    names = " OR ".join(f"path GLOB '*{name}'" for name in RUNNERS)
    return "\n".join(row[0] for row in db.execute(f"SELECT path FROM files WHERE {names} ORDER BY path"))


def way_to_source(root: Path, output: Path) -> str:
    """The relative path from the book to the tree, through no symbolic link."""
    return os.path.relpath(os.path.realpath(root), os.path.realpath(output))


def _set_facts(db: sqlite3.Connection, **facts: str) -> None:
    for key, value in facts.items():
        if store.get_meta(db, key) != value:
            store.set_meta(db, key, value)


def _read_anew(
    db: sqlite3.Connection, tasks: list[Task], setting: Setting, jobs: int, outcome: Outcome, progress: Progress
) -> None:
    """Read and resolve the whole tree into an empty model."""
    tasks = _find_all_macros(db, tasks, setting, jobs)
    store.drop_indexes(db)
    store.journal(db, False)
    _read_files(db, tasks, setting, jobs, True, outcome, progress)
    outcome.read = len(tasks)
    progress("indexing", 0, 1)
    store.journal(db, True)
    outcome.changed = resolve_all(db, jobs, progress)
    outcome.everything = True


def _read_changes(
    db: sqlite3.Connection,
    tasks: list[Task],
    deleted: list[int],
    setting: Setting,
    jobs: int,
    outcome: Outcome,
    progress: Progress,
) -> None:
    """Read the files that changed, and resolve the references that the change can touch."""
    tasks = _find_all_macros(db, tasks, setting, jobs)
    known = {row[0] for row in db.execute("SELECT id FROM files")}
    new_files = [task for task in tasks if task.file not in known]
    outcome.folders = {"", *(task.path.rpartition("/")[0] for task in new_files)}
    for file in deleted:
        outcome.folders.add(str(db.execute("SELECT folder FROM files WHERE id=?", (file,)).fetchone()[0]))
    before = Before.load(db, [task.file for task in tasks], deleted)
    for file in deleted:
        store.remove(db, file, with_file=True)
    read = _read_files(db, tasks, setting, jobs, False, outcome, progress)
    outcome.read, outcome.deleted = len(tasks), len(deleted)
    touched = resolve_changes(db, read, before, bool(deleted or new_files), jobs, progress)
    outcome.changed = touched.files
    outcome.groups = {group_of(name) for name in touched.names}
    for file in touched.folders:
        row = db.execute("SELECT folder FROM files WHERE id=?", (file,)).fetchone()
        outcome.folders.update(row or ())


# Files that SQLite keeps beside a database.
_SIDES = ("-wal", "-shm", "-journal")


def _open_current(output: Path, stamp: str) -> sqlite3.Connection | None:
    """The model of a book, or None if this build cannot go on from it."""
    if not database(output).exists():
        return None
    try:
        db = store.connect(database(output))
        if store.get_meta(db, "stamp") == stamp:
            return db
        db.close()
    except sqlite3.DatabaseError:
        pass
    return None


def _open_new(output: Path) -> sqlite3.Connection:
    """An empty model beside the one of the book, which stays as it is until the new one is whole."""
    path = _new_database(output)
    remove_model(path)
    db = store.connect(path)
    # The pages of the old book are still known, so that those of deleted files can be removed.
    _insert_written(db, *_load_written(database(output)))
    return db


_Rows = list[tuple[object, ...]]


def _load_written(path: Path) -> tuple[_Rows, _Rows]:
    """The pages of the book and the files of its site that an earlier model knows, so that old ones are removed."""
    if not path.exists():
        return [], []
    try:
        db = store.connect(path)
        try:
            pages = db.execute("SELECT path, file, digest FROM pages").fetchall()
            return pages, db.execute("SELECT name, stamp FROM site").fetchall()
        finally:
            db.close()
    except sqlite3.DatabaseError:
        return [], []


def _insert_written(db: sqlite3.Connection, pages: _Rows, site: _Rows) -> None:
    db.executemany("INSERT INTO pages VALUES(?,?,?)", pages)
    db.executemany("INSERT INTO site VALUES(?,?)", site)


def _new_database(output: Path) -> Path:
    return database(output).with_name("model.new.sqlite")


def remove_model(path: Path) -> None:
    for ending in ("", *_SIDES):
        Path(str(path) + ending).unlink(missing_ok=True)


def forget_model(output: Path) -> None:
    """Remove a model that is damaged; keep the list of pages if it can still be read."""
    written = _load_written(database(output))
    remove_model(database(output))
    db = store.connect(database(output))
    with db:
        _insert_written(db, *written)
    db.close()


def _publish(db: sqlite3.Connection, output: Path) -> sqlite3.Connection:
    """Put a new model in the place of the old one, in one step for its readers."""
    db.commit()
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    path = database(output)
    try:
        old = store.connect(path)
        old.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        old.close()
    except sqlite3.DatabaseError:
        pass
    # A log of the old model must not be taken for one of the new.
    for ending in _SIDES:
        Path(str(path) + ending).unlink(missing_ok=True)
    os.replace(_new_database(output), path)
    return store.connect(path)


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


def _read_files(
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


def _find_all_macros(db: sqlite3.Connection, tasks: list[Task], setting: Setting, jobs: int) -> list[Task]:
    """Find the macros of the tree that matter to the parse. If they changed, the files that use them are read again."""
    sources = [task for task in tasks if language_of(task.path) in C_FAMILY]
    before = store.get_meta(db, "macros")
    differs = not before
    for file, found in workers.run(macros_task, sources, jobs, start, (setting,), 64) if sources else ():
        rows = [(file, *row) for row in found]
        if before and db.execute("SELECT * FROM macros WHERE file=? ORDER BY rowid", (file,)).fetchall() == rows:
            continue
        differs = True
        db.execute("DELETE FROM macros WHERE file=?", (file,))
        db.executemany("INSERT INTO macros VALUES(?,?,?,?)", rows)
    if not differs:
        setting.macros = Macros.from_text(before)
        return tasks
    setting.macros = _find_macros(db, setting)
    after = setting.macros.to_text()
    store.set_meta(db, "macros", after)
    if before:
        known = {task.file for task in tasks}
        changed = {re.split("[=#]", row)[0] for row in set(before.split("\n")) ^ set(after.split("\n"))}
        for name in sorted(changed):
            for row in db.execute(
                "SELECT DISTINCT f.id, f.path, f.size, f.mtime FROM refs r JOIN files f ON f.id=r.file WHERE r.name=?",
                (name,),
            ):
                if row[0] not in known:
                    known.add(row[0])
                    tasks.append(Task(*row))
    return tasks


def _find_macros(db: sqlite3.Connection, setting: Setting) -> Macros:
    """The macros of the whole tree, as the parse needs them."""
    defined = db.execute("SELECT name, parameters, body FROM macros ORDER BY name, parameters, body").fetchall()
    blanked = attribute_macros(
        ((name.encode(), None if parameters is None else b"()", body.encode()) for name, parameters, body in defined),
        setting.config.blank_macros,
    )
    definers = DEFINERS | dict(row.split("=", 1) for row in setting.config.definers)
    return Macros(blanked, derive_definers(defined, definers), find_named_arguments(defined))
