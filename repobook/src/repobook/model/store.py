"""Writing facts to the database and taking those of changed or deleted files out again."""

import json
import sqlite3
from array import array
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from repobook.model.schema import FILE_SHIFT, INDEXES, TABLES
from repobook.naming import parts_of
from repobook.reading.facts import Facts

Row = tuple[object, ...]
# Result of a worker for one file: rows per table, ready to insert.
Rows = dict[str, list[Row]]
_Record = TypeVar("_Record", bound=tuple[Any, ...])

_PER_FILE = ("refs", "imports", "findings", "remarks", "bindings", "words")
_INSERT = {
    "symbols": "INSERT INTO symbols VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,NULL,0,?,?)",
    "refs": "INSERT INTO refs VALUES(?,?,?,?)",
    "imports": "INSERT INTO imports VALUES(?,?,?,?,?,?,?,NULL,NULL)",
    "findings": "INSERT INTO findings VALUES(?,?,?,?,?,?)",
    "remarks": "INSERT INTO remarks VALUES(?,?,?,?,?,?)",
    "bindings": "INSERT INTO bindings VALUES(?,?,?,?,?,?,?)",
    "words": "INSERT INTO words VALUES(?,?,?,?)",
    "macros": "INSERT INTO macros VALUES(?,?,?,?)",
}


def connect(path: Path, readonly: bool = False) -> sqlite3.Connection:
    if readonly:
        db = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        db.execute("PRAGMA query_only=1")
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        db = sqlite3.connect(path)
        journal(db, True)
        db.executescript(TABLES)
    db.execute("PRAGMA cache_size=-65536")
    db.execute("PRAGMA mmap_size=1073741824")
    db.execute("PRAGMA temp_store=MEMORY")
    db.execute("PRAGMA threads=2")
    return db


def journal(db: sqlite3.Connection, kept: bool) -> None:
    """Keep a journal, or none: while a model is read that begins from nothing there is nothing to go back to, and a
    build that ends early leaves it without a stamp. Commits the open transaction."""
    db.commit()
    db.execute(f"PRAGMA journal_mode={'WAL' if kept else 'OFF'}")
    db.execute(f"PRAGMA synchronous={'NORMAL' if kept else 'OFF'}")


def rows_of(file: int, facts: Facts) -> Rows:
    """The facts of one file as rows of the tables."""
    base = file << FILE_SHIFT
    return {
        "symbols": [
            (
                base | local, s.name, s.kind, s.line, s.end_line, base | s.parent, s.qualified, s.signature, s.doc,
                int(s.declaration), s.bases, s.complexity, s.nesting, parts_of(s.name),
                int(s.internal),
            )
            for local, s in enumerate(facts.symbols)
        ],
        "refs": [(file, name, text, array("Q", places).tobytes()) for (name, text), places in facts.references.items()],
        "imports": [(file, i.line, i.kind, i.module, i.name, i.alias, i.local) for i in facts.imports],
        "findings": [(file, f.line, f.section, f.rule, f.detail, f.local) for f in facts.findings],
        "remarks": [(file, r.line, r.kind, r.title, r.text, r.local) for r in facts.remarks],
        "bindings": [(file, b.line, b.kind, b.exposed, b.target, b.owner, b.local) for b in facts.bindings],
        "words": [(file, term, count, line) for term, (count, line) in facts.words.items()],
    }  # fmt: skip


def file_row(
    file: int,
    path: str,
    language: str,
    size: int,
    mtime: int,
    digest: bytes,
    status: str,
    test: bool,
    facts: Facts | None,
) -> Row:
    folder = path.rpartition("/")[0]
    if facts is None:
        return (file, path, folder, language, size, mtime, digest, status, 0, 0, 0, 0, int(test), "", None, "", "")
    exports = json.dumps(list(facts.exports)) if facts.exports is not None else None
    return (
        file, path, folder, language, size, mtime, digest, status, facts.lines, facts.code, facts.comment, facts.errors,
        int(test), facts.purpose, exports, facts.purpose_origin, " ".join(facts.locals),
    )  # fmt: skip


def insert(db: sqlite3.Connection, rows: Rows) -> None:
    for table, found in rows.items():
        if found:
            db.executemany(_INSERT[table], found)


def index_words(db: sqlite3.Connection, file: int | None = None) -> None:
    """Make the symbols of a file, or of all files, searchable."""
    if file is None:
        db.execute("INSERT INTO search(search) VALUES('rebuild')")
        return
    db.execute(
        "INSERT INTO search(rowid, name, parts, doc) SELECT id, name, parts, doc FROM symbols WHERE id>=? AND id<?",
        (file << FILE_SHIFT, (file + 1) << FILE_SHIFT),
    )


def insert_file(db: sqlite3.Connection, row: Row) -> None:
    # Layer and cycle come from the graph of imports, not from reading: a file that is read again keeps them.
    db.execute(
        "INSERT INTO files VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,0,0,?,?) ON CONFLICT(id) DO UPDATE SET "
        "language=excluded.language, size=excluded.size, mtime=excluded.mtime, digest=excluded.digest, "
        "status=excluded.status, lines=excluded.lines, "
        "code=excluded.code, comment=excluded.comment, errors=excluded.errors, test=excluded.test, "
        "purpose=excluded.purpose, exports=excluded.exports, origin=excluded.origin, locals=excluded.locals",
        row,
    )


def remove(db: sqlite3.Connection, file: int, with_file: bool) -> None:
    """Take out everything that was read from a file. Its edges stay until it is resolved anew."""
    for table in _PER_FILE:
        db.execute(f"DELETE FROM {table} WHERE file=?", (file,))
    low, high = file << FILE_SHIFT, (file + 1) << FILE_SHIFT
    db.execute(
        "INSERT INTO search(search, rowid, name, parts, doc) SELECT 'delete', id, name, parts, doc FROM symbols "
        "WHERE id>=? AND id<?",
        (low, high),
    )
    db.execute("DELETE FROM symbols WHERE id>=? AND id<?", (low, high))
    if with_file:
        db.execute("DELETE FROM edges WHERE src>=? AND src<?", (low, high))
        db.execute("DELETE FROM files WHERE id=?", (file,))
        db.execute("DELETE FROM history WHERE file=?", (file,))
        db.execute("DELETE FROM macros WHERE file=?", (file,))


def _indexes(table: str) -> list[str]:
    return [line for line in INDEXES.splitlines() if line.startswith("CREATE INDEX") and f" ON {table}" in line]


def make_indexes(db: sqlite3.Connection, table: str = "") -> None:
    """The indexes of one table, or of all; `refs(name)` is one index of a table."""
    for line in _indexes(table):
        db.execute(line)


def drop_indexes(db: sqlite3.Connection, table: str = "") -> None:
    for line in _indexes(table):
        db.execute("DROP INDEX IF EXISTS " + line.split()[5])


def records(kind: type[_Record], rows: Iterable[tuple[Any, ...]]) -> list[_Record]:
    """Rows as named tuples; millions of them, and `_make` would be a call of Python code for each."""
    return list(map(partial(tuple.__new__, kind), rows))


def get_meta(db: sqlite3.Connection, key: str, default: str = "") -> str:
    row = db.execute("SELECT value FROM meta WHERE key=?", (key,)).fetchone()
    return str(row[0]) if row else default


def set_meta(db: sqlite3.Connection, key: str, value: str) -> None:
    db.execute("INSERT OR REPLACE INTO meta VALUES(?,?)", (key, value))


def places_of(blob: bytes) -> "array[int]":
    found = array("Q")
    found.frombytes(blob)
    return found
