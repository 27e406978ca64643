"""Resolving after a change: the affected files are resolved anew, and the pages that can differ are named.

Note [ What a change touches ]
A file that was read again has new edges. If its skeleton (the names, kinds and nesting of its symbols) is as before,
its symbols keep their ids and no other file needs resolving. Otherwise every file that refers to a name it defined or
defines is resolved too. If its includes changed, so are the files that see other files through it. A page can differ
when its file was read, when an edge that leads into it differs, when an import of it, a note it titles or cites, its
layer or its cycle changed.
"""

import sqlite3
from array import array
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path

from repobook import graph, workers
from repobook.languages import C_FAMILY, SOURCES
from repobook.model import store
from repobook.model.schema import FILE_SHIFT
from repobook.resolving.edges import Edge, edges_of, resolve_imports, twins_of
from repobook.resolving.modules import Modules
from repobook.resolving.names import Names
from repobook.resolving.tables import Tables

Progress = Callable[[str, int, int], None]
UNFINISHED = "unfinished"  # the stamp of a model while workers resolve a large change
# Edges travel between processes as one flat array.
_Result = tuple[int, "array[int]", list[tuple[int, int]]]


def _range(file: int) -> tuple[int, int]:
    return file << FILE_SHIFT, (file + 1) << FILE_SHIFT


@dataclass(slots=True)
class Before:
    """State of the model for the files that are about to be read again or deleted."""

    skeletons: dict[int, list[tuple[object, ...]]] = field(default_factory=dict)
    names: dict[int, set[str]] = field(default_factory=dict)
    uses: dict[int, int] = field(default_factory=dict)  # symbol -> uses, for the symbols that others use
    titles: set[str] = field(default_factory=set)
    imported: set[tuple[int, int, int]] = field(default_factory=set)  # (file, target, line)
    deleted: set[int] = field(default_factory=set)
    pointed: set[int] = field(default_factory=set)  # symbols that the deleted files refer to

    @classmethod
    def load(cls, db: sqlite3.Connection, files: Iterable[int], deleted: Iterable[int]) -> "Before":
        before = cls(deleted=set(deleted))
        for file in [*files, *before.deleted]:
            before.skeletons[file] = _skeleton(db, file)
            before.names[file] = _names(db, file)
            before.uses.update(db.execute("SELECT id, uses FROM symbols WHERE id>=? AND id<? AND uses>0", _range(file)))
            before.titles |= _titles(db, file)
            before.imported |= _list_imports(db, file)
        for file in before.deleted:
            before.pointed.update(
                row[0] for row in db.execute("SELECT dst FROM edges WHERE src>=? AND src<?", _range(file))
            )
        return before


def _skeleton(db: sqlite3.Connection, file: int) -> list[tuple[object, ...]]:
    return db.execute(
        "SELECT id, name, kind, parent, qualified, declaration, bases, internal, "
        "CASE kind WHEN 'type' THEN signature END FROM symbols WHERE id>=? AND id<? ORDER BY id",
        _range(file),
    ).fetchall()


def _names(db: sqlite3.Connection, file: int) -> set[str]:
    """Names that a file defines or registers."""
    found = {
        row[0] for row in db.execute("SELECT name FROM symbols WHERE id>=? AND id<? AND kind<>'file'", _range(file))
    }
    found.update(row[0] for row in db.execute("SELECT exposed FROM bindings WHERE file=?", (file,)))
    return found


def _titles(db: sqlite3.Connection, file: int) -> set[str]:
    return {
        row[0]
        for row in db.execute("SELECT title FROM remarks WHERE file=? AND kind IN ('note', 'note-reference')", (file,))
    }


def _list_imports(db: sqlite3.Connection, file: int) -> set[tuple[int, int, int]]:
    """(file, target, first line) of the imports of a file."""
    rows = db.execute(
        "SELECT file, target, MIN(line) FROM imports WHERE file=? AND target IS NOT NULL GROUP BY target", (file,)
    )
    return set(rows)


# ----- in workers -------------------------------------------------------------------------------------------

_resolver: Names


def _resolve_one(file: int) -> _Result:
    edges = array("q", chain.from_iterable(edges_of(_resolver.tables.db, _resolver, file)))
    return file, edges, twins_of(_resolver.tables, file)


def _describe(file: int) -> str:
    return f"the references of {_resolver.tables.path[file]}"


def _rows(flat: "array[int]") -> Iterator[Edge]:
    numbers = iter(flat)
    return zip(numbers, numbers, numbers, numbers, numbers, numbers, strict=True)


def _reopen(path: str) -> None:
    """A connection of its own for a forked worker; this process keeps the one it has."""
    if path:
        _resolver.tables.db = store.connect(Path(path), readonly=True)


def _resolve_files(
    files: list[int], jobs: int, db: sqlite3.Connection, meanwhile: Callable[[], object] | None = None
) -> Iterator[_Result]:
    if jobs <= 1 or len(files) < 200 or not workers.fork_available():
        if meanwhile is not None:
            meanwhile()
        yield from map(_resolve_one, files)
        return
    # Workers read through connections of their own; until the end the model counts as unfinished.
    store.set_meta(db, "stamp", UNFINISHED)
    db.commit()
    yield from workers.run(_resolve_one, files, jobs, _reopen, (_path(db),), meanwhile=meanwhile, describe=_describe)


@dataclass(slots=True)
class Touched:
    """Files, names and folders with pages that can differ after a change."""

    files: set[int] = field(default_factory=set)
    names: set[str] = field(default_factory=set)  # names with entries in keyword pages that can differ
    folders: set[int] = field(default_factory=set)  # files whose folders' pages can differ


# The indexes that resolving a whole tree asks, and those that it does not. `symbols` is read once from end to end, and
# `edges` and its columns are written: their indexes come last.
_ASKED = ("refs(file)", "bindings")
_NOT_ASKED = ("refs(name)", "imports", "findings", "remarks", "words", "macros")


def _index(path: str) -> None:
    """Build the indexes that resolving a whole tree does not need; a thread does this."""
    db = store.connect(Path(path))
    try:
        with db:
            for table in _NOT_ASKED:
                store.make_indexes(db, table)
            store.index_words(db)
            db.execute("DELETE FROM terms")
            db.execute("INSERT INTO terms SELECT term, COUNT(*) FROM words GROUP BY term")
    finally:
        db.close()


def _root_package(db: sqlite3.Connection) -> str:
    """The Go package at the top of the tree, which an import names by the last part of its path."""
    row = db.execute(
        "SELECT s.name FROM files f JOIN symbols s ON s.id=(f.id<<20|1) WHERE f.folder='' AND f.language='go' "
        "AND s.kind='package' AND s.name NOT LIKE '%\\_test' ESCAPE '\\' AND s.name<>'main' ORDER BY f.path LIMIT 1"
    ).fetchone()
    return str(row[0]) if row else ""


def _path(db: sqlite3.Connection) -> str:
    return str(db.execute("PRAGMA database_list").fetchone()[2])


# ----- the whole tree, or what changed ----------------------------------------------------------------------


def resolve_all(db: sqlite3.Connection, jobs: int, progress: Progress) -> set[int]:
    global _resolver
    for table in _ASKED:
        store.make_indexes(db, table)
    tables = Tables(db)
    modules = Modules(tables.by_path, _root_package(db))
    resolve_imports(db, tables, modules)
    db.execute("DELETE FROM edges")
    store.drop_indexes(db, "edges")
    db.commit()
    # SQLite works without Python's lock, so the two go on side by side; the thread is gone before workers are forked.
    with ThreadPoolExecutor(1) as thread:
        indexed = thread.submit(_index, _path(db))
        tables.load_all()
        indexed.result()
    _resolver = Names(tables, modules)
    files = sorted(tables.symbols_by_file())

    layers = partial(_update_layers, db)
    for done, (_, edges, twins) in enumerate(_resolve_files(files, jobs, db, layers), 1):
        db.executemany("INSERT INTO edges VALUES(?,?,?,?,?,?)", _rows(edges))
        db.executemany("UPDATE symbols SET twin=? WHERE id=?", twins)
        if done % 50 == 0 or done == len(files):
            progress("resolving", done, len(files))
    vars(_resolver).clear()  # its parts know each other; the pages need the memory more
    del _resolver
    progress("weighing", 0, 1)
    store.make_indexes(db, "edges")
    store.make_indexes(db, "symbols")
    db.execute(
        f"UPDATE symbols SET uses=e.total FROM (SELECT dst, SUM(count) AS total FROM edges WHERE certainty>1 "
        f"AND src>>{FILE_SHIFT}<>dst>>{FILE_SHIFT} GROUP BY dst) e WHERE symbols.id=e.dst"
    )
    return set(tables.path)


def resolve_changes(
    db: sqlite3.Connection, read: set[int], before: Before, paths_changed: bool, jobs: int, progress: Progress
) -> Touched:
    """Resolve the references that a change can have touched."""
    global _resolver
    tables = Tables(db)
    modules = Modules(tables.by_path, _root_package(db))
    touched = Touched(set(read), folders=set(read))
    moved = resolve_imports(db, tables, modules, None if paths_changed else sorted(read))
    affected = set(read)
    if paths_changed:
        touched.files |= moved
        touched.folders |= moved
        affected |= {file for file in moved if file in tables.path}
    after = set().union(*(_list_imports(db, file) for file in read)) if read else set()
    affected |= _affected(db, tables, read, before, before.imported ^ after, touched)
    rewired = {row[:2] for row in before.imported} ^ {row[:2] for row in after}
    if paths_changed:
        # The includes of any file can lead elsewhere. Those of a file that was read anew had no target before.
        rewired |= {(file, 0) for file in moved}
    affected |= _find_rewired(db, tables, rewired)
    affected -= before.deleted
    _resolver = Names(tables, modules)
    counted: set[int] = set(before.pointed)
    touched.files.update(symbol >> FILE_SHIFT for symbol in before.pointed)
    _resolve_affected(db, sorted(affected), read, touched, counted, jobs, progress)
    for file in read:
        counted.update(row[0] for row in db.execute("SELECT id FROM symbols WHERE id>=? AND id<?", _range(file)))
    _recount(db, counted, before, touched)
    for _, target, _ in before.imported ^ after:
        touched.files.add(target)
        touched.folders.add(target)
    for title in before.titles.union(*(_titles(db, file) for file in read)):
        rows = db.execute(
            "SELECT DISTINCT file FROM remarks WHERE title=? COLLATE NOCASE AND kind IN ('note', 'note-reference')",
            (title,),
        )
        touched.files.update(row[0] for row in rows)
    if paths_changed or {row[:2] for row in before.imported} != {row[:2] for row in after}:
        touched.files |= _update_layers(db)
    touched.files -= before.deleted
    touched.folders -= before.deleted
    return touched


def _affected(
    db: sqlite3.Connection,
    tables: Tables,
    read: set[int],
    before: Before,
    imports: set[tuple[int, int, int]],
    touched: Touched,
) -> set[int]:
    """The files whose references can mean something else, because definitions or includes changed."""
    affected: set[int] = set()
    for file in read | before.deleted:
        if file in read and before.skeletons.get(file) == _skeleton(db, file):
            continue
        rows = db.execute("SELECT DISTINCT src FROM edges WHERE dst>=? AND dst<?", _range(file))
        affected.update(row[0] >> FILE_SHIFT for row in rows)
        names = before.names.get(file, set()) | _names(db, file)
        touched.names |= names
        for name in names:
            affected.update(row[0] for row in db.execute("SELECT DISTINCT file FROM refs WHERE name=?", (name,)))
            # A declaration refers to its definition without a reference.
            rows = db.execute("SELECT id FROM symbols WHERE name=? AND declaration=1", (name,))
            affected.update(row[0] >> FILE_SHIFT for row in rows)
    # A source file that is included for the first time, or no more, shows other symbols to other files.
    for target in {row[1] for row in imports}:
        if target in tables.path and tables.path[target].endswith(SOURCES):
            for name in _names(db, target):
                affected.update(row[0] for row in db.execute("SELECT DISTINCT file FROM refs WHERE name=?", (name,)))
    return affected


def _find_rewired(db: sqlite3.Connection, tables: Tables, rewired: set[tuple[int, int]]) -> set[int]:
    """The C-family files that see other files than before, because includes changed: pairs of includer and target."""
    rewired = {pair for pair in rewired if tables.language.get(pair[0]) in C_FAMILY}
    if not rewired:
        return set()
    includers: dict[int, set[int]] = {}
    for source, target in db.execute("SELECT file, target FROM imports WHERE kind='include' AND target IS NOT NULL"):
        includers.setdefault(target, set()).add(source)
    found = {file for file, _ in rewired}
    level = found
    while level:
        level = set().union(*(includers.get(file, set()) for file in level)) - found
        found |= level
    # A file that a single other file includes sees what that file sees.
    found |= {target for _, target in rewired}
    size = 0
    while size != len(found):
        size = len(found)
        found |= {target for target, sources in includers.items() if len(sources) == 1 and sources <= found}
    return {file for file in found if file in tables.path}


def _resolve_affected(
    db: sqlite3.Connection,
    files: list[int],
    read: set[int],
    touched: Touched,
    counted: set[int],
    jobs: int,
    progress: Progress,
) -> None:
    """Write new edges and twins of the files, and note the differences."""
    for done, (file, edges, twins) in enumerate(_resolve_files(files, jobs, db), 1):
        old = set(
            db.execute("SELECT src, dst, kind, certainty, line, count FROM edges WHERE src>=? AND src<?", _range(file))
        )
        new = set(_rows(edges))
        if old != new:
            touched.files.add(file)
            for edge in old ^ new:
                touched.files.add(edge[1] >> FILE_SHIFT)
                counted.add(edge[1])
            db.executemany("DELETE FROM edges WHERE src=? AND dst=?", [edge[:2] for edge in old - new])
            db.executemany("INSERT INTO edges VALUES(?,?,?,?,?,?)", new - old)
        query = "SELECT twin, id FROM symbols WHERE id>=? AND id<? AND twin IS NOT NULL ORDER BY id"
        if file in read or twins != db.execute(query, _range(file)).fetchall():
            db.execute("UPDATE symbols SET twin=NULL WHERE id>=? AND id<?", _range(file))
            db.executemany("UPDATE symbols SET twin=? WHERE id=?", twins)
            touched.files.add(file)
        if done % 50 == 0 or done == len(files):
            progress("resolving", done, len(files))


def _recount(db: sqlite3.Connection, counted: set[int], before: Before, touched: Touched) -> None:
    """Count the uses of symbols by other files. A count that changed shows on keyword and folder pages."""
    for symbol in counted:
        row = db.execute("SELECT uses, name FROM symbols WHERE id=?", (symbol,)).fetchone()
        if row is None:
            continue
        uses = db.execute(
            f"SELECT COALESCE(SUM(count), 0) FROM edges WHERE dst=? AND certainty>1 AND src>>{FILE_SHIFT}<>?",
            (symbol, symbol >> FILE_SHIFT),
        ).fetchone()[0]
        if uses != row[0]:
            db.execute("UPDATE symbols SET uses=? WHERE id=?", (uses, symbol))
        # A file that was read again starts from nothing, so its former count is compared.
        if uses == before.uses.get(symbol, 0 if symbol >> FILE_SHIFT in before.skeletons else row[0]):
            continue
        touched.names.add(row[1])
        touched.folders.add(symbol >> FILE_SHIFT)
        # Declarations show the uses of their definition.
        for (declared,) in db.execute("SELECT id FROM symbols WHERE twin=?", (symbol,)):
            touched.files.add(declared >> FILE_SHIFT)
            touched.folders.add(declared >> FILE_SHIFT)


def _update_layers(db: sqlite3.Connection) -> set[int]:
    """Store layer and cycle of each file; returns those for which they changed."""
    old = {file: (layer, cycle) for file, layer, cycle in db.execute("SELECT id, layer, cycle FROM files")}
    new = graph.layers(db)
    changed = {file for file, row in new.items() if old.get(file) != row}
    db.executemany("UPDATE files SET layer=?, cycle=? WHERE id=?", [(*new[file], file) for file in changed])
    # The pages of a cycle name its members.
    cycles = {row[1] for file in changed for row in (old.get(file, (0, 0)), new[file])} - {0}
    changed.update(file for file, (_, cycle) in new.items() if cycle in cycles)
    return changed
