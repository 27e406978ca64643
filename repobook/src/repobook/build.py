"""Building the book: what changed is read, resolved and written; the rest is left alone.

The model is one transaction, and the pages to write are listed in it: a build that is interrupted leaves the old
pages whole, and the next build writes what was left.
"""

import gc
import hashlib
import multiprocessing
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from repobook import history
from repobook.config import Config
from repobook.discover import MARK, Entry, discover
from repobook.languages import C_FAMILY, language_of
from repobook.model import store
from repobook.model.schema import VERSION
from repobook.reading import macros as macro_reader
from repobook.reading.facts import Facts
from repobook.reading.macros import Macros
from repobook.reading.reader import is_binary, read
from repobook.resolving.edges import Edge, edges_of, resolve_imports, twins_of
from repobook.resolving.modules import Modules
from repobook.resolving.names import Names
from repobook.resolving.tables import Tables

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
    changed: set[int] = field(default_factory=set)


def database(output: Path) -> Path:
    return output / MARK / "model.sqlite"


@dataclass(slots=True)
class _Task:
    file: int
    path: str
    size: int
    mtime: int


@dataclass(slots=True)
class _Setting:
    root: str
    config: Config
    macros: Macros


_setting: _Setting


def _start_worker(setting: _Setting) -> None:
    global _setting
    _setting = setting


def _read_task(task: _Task) -> tuple[store.Row, store.Rows, str]:
    """Read one file in a worker: its row, the rows of its facts, and a problem in one line ('' where none)."""
    setting = _setting
    path = os.path.join(setting.root, task.path)
    try:
        with open(path, "rb") as file:
            source = file.read(setting.config.max_file_size + 1)
    except OSError as error:
        row = store.file_row(task.file, task.path, language_of(task.path), task.size, task.mtime, b"", "unreadable", False, None)
        return row, {}, f"{task.path}: not read: {error.strerror}"
    language = language_of(task.path, source[:200])
    digest = hashlib.blake2b(source, digest_size=16).digest()
    test = is_test(task.path, setting.config)
    problem = ""
    facts: Facts | None = None
    status = "ok"
    if not source:
        status = "empty"
    elif is_binary(source):
        status = "binary"
    elif len(source) > setting.config.max_file_size:
        status = "large"
        problem = f"{task.path}: {task.size:,} bytes, larger than max_file_size: described, not parsed"
    else:
        try:
            source.decode("utf-8")
        except UnicodeDecodeError as error:
            problem = f"{task.path}: not UTF-8 (byte {error.start}): read with replacement characters"
        try:
            facts = read(source, task.path, language, setting.macros)
        except RecursionError:
            problem = f"{task.path}: nested too deep to read: described, not parsed"
            status = "unparsed"
    row = store.file_row(task.file, task.path, language, task.size, task.mtime, digest, status, test, facts)
    return row, store.rows_of(task.file, facts) if facts is not None else {}, problem


def _macros_task(task: _Task) -> tuple[int, list[tuple[bytes, bytes | None, bytes]]]:
    try:
        with open(os.path.join(_setting.root, task.path), "rb") as file:
            return task.file, macro_reader.definitions(file.read(_setting.config.max_file_size))
    except OSError:
        return task.file, []


def is_test(path: str, config: Config) -> bool:
    *folders, name = path.split("/")
    stem = name.partition(".")[0]
    return (
        stem.startswith("test_") or stem.endswith(("_test", "_tests", "-test")) or ".test." in name or ".spec." in name
        or any(folder in config.test_patterns for folder in folders)
    )  # fmt: skip


class Pool:
    """Worker processes, or this process where one is enough."""

    def __init__(self, jobs: int, setting: _Setting) -> None:
        self.jobs = jobs
        self.setting = setting

    def map(self, function: Callable[[Any], Any], tasks: list[Any], chunk: int = 16) -> Iterator[Any]:
        if self.jobs <= 1 or len(tasks) < 24:
            _start_worker(self.setting)
            yield from map(function, tasks)
            return
        with _context().Pool(self.jobs, _start_worker, (self.setting,)) as pool:
            yield from pool.imap_unordered(function, tasks, chunk)


def _context() -> Any:
    methods = multiprocessing.get_all_start_methods()
    return multiprocessing.get_context("fork" if "fork" in methods else None)


def build_model(root: Path, output: Path, config: Config, jobs: int, progress: Progress) -> tuple[sqlite3.Connection, Outcome]:
    """Bring the model up to date with the tree; pages are written by `repobook.pages.writer`."""
    outcome = Outcome()
    (output / MARK).mkdir(parents=True, exist_ok=True)
    db = store.connect(database(output))
    stamp = VERSION + repr(config)
    fresh = store.get_meta(db, "stamp") != stamp
    if fresh:
        # What the old book wrote is still known, so that pages of files that are gone can go.
        pages = db.execute("SELECT path, file, digest FROM pages").fetchall()
        db.close()
        for ending in ("", "-wal", "-shm"):
            Path(str(database(output)) + ending).unlink(missing_ok=True)
        db = store.connect(database(output))
        db.executemany("INSERT INTO pages VALUES(?,?,?)", pages)
    listing = discover(root, config, output)
    outcome.problems += listing.problems
    outcome.files = len(listing.entries)
    tasks, deleted = _changes(db, listing.entries)
    if not tasks and not deleted:
        outcome.changed = history.update(db, root, config.history)
        return db, outcome
    cold = fresh or len(tasks) > outcome.files // 2
    if not cold:
        store.make_indexes(db)
    names_before = _names_of(db, [*deleted, *(task.file for task in tasks)]) if not cold else set()
    paths_changed = bool(deleted) or _has_new(db, tasks)
    for file in deleted:
        store.remove(db, file, with_file=True)
    setting = _Setting(str(root), config, Macros())
    pool = Pool(jobs, setting)
    tasks = _with_macros(db, tasks, setting, pool)
    if cold:
        store.drop_indexes(db)
    tasks.sort(key=lambda task: -task.size)
    read_files: set[int] = set()
    for done, (row, rows, problem) in enumerate(pool.map(_read_task, tasks), 1):
        if problem:
            outcome.problems.append(problem)
        if not cold or not fresh:
            store.remove(db, int(row[0]), with_file=False)
        store.insert_file(db, row)
        store.insert(db, rows)
        read_files.add(int(row[0]))
        if done % 50 == 0 or done == len(tasks):
            progress("reading", done, len(tasks))
    outcome.read, outcome.deleted = len(tasks), len(deleted)
    if cold:
        progress("indexing", 0, 1)
        store.make_indexes(db)
    outcome.changed = _resolve(db, read_files, set(deleted), names_before, paths_changed, cold, pool, progress)
    outcome.changed |= history.update(db, root, config.history)
    store.set_meta(db, "stamp", stamp)
    store.set_meta(db, "root", str(root))
    db.commit()
    return db, outcome


def _changes(db: sqlite3.Connection, entries: list[Entry]) -> tuple[list[_Task], list[int]]:
    known = {path: (file, size, mtime) for file, path, size, mtime in db.execute("SELECT id, path, size, mtime FROM files")}
    tasks: list[_Task] = []
    following = max((row[0] for row in known.values()), default=0) + 1
    for entry in entries:
        old = known.pop(entry.path, None)
        if old is None:
            tasks.append(_Task(following, entry.path, entry.size, entry.mtime))
            following += 1
        elif (old[1], old[2]) != (entry.size, entry.mtime):
            tasks.append(_Task(old[0], entry.path, entry.size, entry.mtime))
    return tasks, [row[0] for row in known.values()]


def _has_new(db: sqlite3.Connection, tasks: list[_Task]) -> bool:
    return any(db.execute("SELECT 1 FROM files WHERE id=?", (task.file,)).fetchone() is None for task in tasks)


def _names_of(db: sqlite3.Connection, files: Iterable[int]) -> set[str]:
    """Names that the given files define or expose."""
    found: set[str] = set()
    for file in files:
        low, high = file << 20, (file + 1) << 20
        found.update(row[0] for row in db.execute("SELECT name FROM symbols WHERE id>? AND id<?", (low, high)))
        found.update(row[0] for row in db.execute("SELECT exposed FROM bindings WHERE file=?", (file,)))
    return found


def _with_macros(db: sqlite3.Connection, tasks: list[_Task], setting: _Setting, pool: Pool) -> list[_Task]:
    """Find the attribute macros of the tree; where the set changed, the files that use them are read again too."""
    sources = [task for task in tasks if language_of(task.path) in C_FAMILY]
    before = store.get_meta(db, "macros")
    if sources:
        db.executemany("DELETE FROM macros WHERE file=?", [(task.file,) for task in sources])
        for file, found in pool.map(_macros_task, sources, 64):
            db.executemany(
                "INSERT INTO macros VALUES(?,?,?,?)",
                [
                    (file, name.decode("utf-8", "replace"), None if parameters is None else "", body.decode("utf-8", "replace")[:200])
                    for name, parameters, body in found
                ],
            )
    rows = db.execute("SELECT name, parameters, body FROM macros")
    chosen = macro_reader.attribute_macros(
        ((name.encode(), None if parameters is None else b"", body.encode()) for name, parameters, body in rows),
        setting.config.blank_macros,
    )
    setting.macros = Macros(chosen)
    after = " ".join(sorted(chosen))
    store.set_meta(db, "macros", after)
    if before and before != after:
        known = {task.file for task in tasks}
        for name in set(before.split()) ^ chosen:
            for file, path, size, mtime in db.execute(
                "SELECT DISTINCT f.id, f.path, f.size, f.mtime FROM refs r JOIN files f ON f.id=r.file WHERE r.name=?", (name,)
            ):
                if file not in known:
                    known.add(file)
                    tasks.append(_Task(file, path, size, mtime))
    return tasks


# ----- resolving --------------------------------------------------------------------------------------------

_names: Names


def _resolve_task(file: int) -> tuple[list[Edge], list[tuple[int, int]]]:
    return edges_of(_names.tables.db, _names, file), twins_of(_names.tables, file)


def _reopen(path: str) -> None:
    _names.tables.db = store.connect(Path(path), readonly=True)


def _resolve_in_workers(files: list[int], jobs: int, db: sqlite3.Connection) -> Iterator[tuple[list[Edge], list[tuple[int, int]]]]:
    """Forked workers share the tables of this process; where there is no fork, this process does the work."""
    context = _context()
    if len(files) <= 200 or jobs <= 1 or context.get_start_method() != "fork":
        yield from map(_resolve_task, files)
        return
    path = str(db.execute("PRAGMA database_list").fetchone()[2])
    gc.collect()
    gc.freeze()  # a collection in a worker would copy the shared pages
    with context.Pool(jobs, _reopen, (path,)) as workers:
        yield from workers.imap_unordered(_resolve_task, files, 16)
    gc.unfreeze()


def _resolve(
    db: sqlite3.Connection, read_files: set[int], deleted: set[int], names_before: set[str], paths_changed: bool, cold: bool,
    pool: Pool, progress: Progress,
) -> set[int]:  # fmt: skip
    """Resolve what a change can have touched; returns the files whose pages may differ."""
    global _names
    tables = Tables(db)
    modules = Modules(tables.by_path)
    if cold:
        resolve_imports(db, tables, modules)
        tables.load_all()
        affected = set(tables.path)
    else:
        resolve_imports(db, tables, modules, None if paths_changed else sorted(read_files))
        affected = set(read_files)
        changed_names = names_before ^ _names_of(db, read_files) if not paths_changed else names_before | _names_of(db, read_files)
        # Symbols of a file that was read again have new ids: whoever pointed at them is resolved anew.
        for file in read_files | deleted:
            low, high = file << 20, (file + 1) << 20
            affected.update(row[0] >> 20 for row in db.execute("SELECT DISTINCT src FROM edges WHERE dst>=? AND dst<?", (low, high)))
        for name in changed_names:
            affected.update(row[0] for row in db.execute("SELECT DISTINCT file FROM refs WHERE name=?", (name,)))
        affected -= deleted
    _names = Names(tables, modules)
    touched = set(affected)
    if not cold:
        for file in affected:
            low, high = file << 20, (file + 1) << 20
            touched.update(row[0] >> 20 for row in db.execute("SELECT DISTINCT dst FROM edges WHERE src>=? AND src<?", (low, high)))
            db.execute("DELETE FROM edges WHERE src>=? AND src<?", (low, high))
    files = sorted(affected)
    if len(files) > 200 and pool.jobs > 1:
        # The workers read through connections of their own; until the end the model counts as unfinished.
        store.set_meta(db, "stamp", "unfinished")
        db.commit()
    for done, (edges, twins) in enumerate(_resolve_in_workers(files, pool.jobs, db), 1):
        db.executemany("INSERT INTO edges VALUES(?,?,?,?,?,?)", edges)
        db.executemany("UPDATE symbols SET twin=? WHERE id=?", twins)
        touched.update(edge[1] >> 20 for edge in edges)
        if done % 50 == 0 or done == len(files):
            progress("resolving", done, len(files))
    return touched - deleted
