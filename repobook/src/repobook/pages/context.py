"""Everything that the pages of one file say, read from the model once."""

import math
import sqlite3
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from repobook.model.schema import FILE_SHIFT
from repobook.reach import Callers


class Symbol(NamedTuple):
    id: int
    name: str
    kind: str
    line: int
    end_line: int
    parent: int
    qualified: str
    signature: str
    doc: str
    declaration: int
    bases: str
    complexity: int
    nesting: int
    twin: int | None
    uses: int
    parts: str

    @property
    def local(self) -> int:
        return self.id & 0xFFFFF


class Use(NamedTuple):
    """One edge, seen from the file at hand: `near` is its symbol, the rest describes the other end."""

    near: int
    far: int
    kind: int
    certainty: int
    line: int
    times: int
    name: str
    qualified: str
    far_kind: str
    far_line: int


class File(NamedTuple):
    id: int
    path: str
    folder: str
    language: str
    size: int
    status: str
    lines: int
    code: int
    comment: int
    errors: int
    test: int
    purpose: str
    exports: str | None
    layer: int
    cycle: int


MOST_USED = 30


class Keyword(NamedTuple):
    id: int
    qualified: str
    kind: str
    uses: int


_FILE = "id, path, folder, language, size, status, lines, code, comment, errors, test, purpose, exports, layer, cycle"
_USE = "e.kind, e.certainty, e.line, e.count, s.name, s.qualified, s.kind, s.line"


class Book:
    """What all pages of one build share: paths and kinds of the files, settings."""

    def __init__(self, db: sqlite3.Connection, to_source: str, source_url: str, embed: int) -> None:
        self.db = db
        self.to_source = to_source
        self.source_url = source_url
        self.embed = embed  # bytes of source that a page holds; 0 for links only
        self.files: dict[int, File] = {
            row[0]: File._make(row) for row in db.execute(f"SELECT {_FILE} FROM files ORDER BY path")
        }
        self.by_path = {file.path: file for file in self.files.values()}
        self.tests = {file.id for file in self.files.values() if file.test}
        self._cycles: dict[int, list[int]] = {}
        for file in self.files.values():
            if file.cycle:
                self._cycles.setdefault(file.cycle, []).append(file.id)
        self._complete: set[str] = set()
        self.rank = {file: at for at, file in enumerate(self.files)}  # by path
        self.callers = Callers(db, preload=False)
        self._folders: dict[str, list[File]] = {}
        for file in self.files.values():
            self._folders.setdefault(file.folder, []).append(file)

    def has_page(self, file: int) -> bool:
        found = self.files.get(file)
        return found is not None and found.status not in ("binary", "empty", "unreadable")

    def path(self, file: int) -> str:
        return self.files[file].path

    def cycle(self, file: File) -> list[int]:
        """The files that import each other in a circle with this one."""
        return self._cycles.get(file.cycle, []) if file.cycle else []

    def documents(self, term: str) -> int:
        """How many files repeat a term, as of the last full build."""
        row = self.db.execute("SELECT files FROM terms WHERE term=?", (term,)).fetchone()
        return int(row[0]) if row else 1

    def qualified(self, symbol: int) -> str:
        """The qualified name of a symbol; the path for a file."""
        row = self.db.execute(
            "SELECT CASE WHEN kind='file' THEN name ELSE qualified END FROM symbols WHERE id=?", (symbol,)
        ).fetchone()
        return str(row[0]) if row else ""

    def in_folder(self, folder: str) -> list[File]:
        return self._folders.get(folder, [])

    @cached_property
    def subfolders(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for folder in self.folders():
            if folder:
                found.setdefault(folder.rpartition("/")[0], []).append(folder)
        return found

    @cached_property
    def _import_pairs(self) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
        outward: dict[int, list[int]] = {}
        inward: dict[int, list[int]] = {}
        for source, target in self.db.execute("SELECT DISTINCT file, target FROM imports WHERE target IS NOT NULL"):
            if source != target:
                outward.setdefault(source, []).append(target)
                inward.setdefault(target, []).append(source)
        return outward, inward

    def imports_of(self, file: int) -> list[int]:
        return self._import_pairs[0].get(file, [])

    def importers_of(self, file: int) -> list[int]:
        return self._import_pairs[1].get(file, [])

    def keywords_of(self, file: int) -> list[Keyword]:
        """The identifiers of a file with how often other files use them."""
        rows = self.db.execute(
            "SELECT s.id, s.qualified, s.kind, COALESCE(t.uses, s.uses) FROM symbols s LEFT JOIN symbols t ON "
            "t.id=s.twin "
            "WHERE s.id>? AND s.id<? ORDER BY s.id",
            (file << FILE_SHIFT, (file + 1) << FILE_SHIFT),
        )
        return [Keyword._make(row) for row in rows]

    @cached_property
    def _most_used(self) -> dict[str, list[Keyword]]:
        """Per folder, the symbols at or below it that other files use most, from the most used of the tree."""
        found: dict[str, list[Keyword]] = {}
        rows = self.db.execute(
            "SELECT id, qualified, kind, uses FROM symbols WHERE uses>0 AND kind<>'file' ORDER BY uses DESC, "
            "qualified LIMIT 20000"
        )
        for keyword in sorted(map(Keyword._make, rows), key=self.by_uses):
            folder = self.files[keyword.id >> FILE_SHIFT].folder
            while True:
                known = found.setdefault(folder, [])
                if len(known) < MOST_USED:
                    known.append(keyword)
                if not folder:
                    break
                folder = folder.rpartition("/")[0]
        return found

    def most_used(self, folder: str) -> list[Keyword]:
        """The symbols of a folder and the folders below it that other files use most."""
        known = self._most_used.get(folder, [])
        if len(known) >= MOST_USED or folder in self._complete:
            return known
        rows = [row for file in self.below(folder) for row in self.keywords_of(file.id) if row.uses]
        rows.sort(key=self.by_uses)
        self._complete.add(folder)
        self._most_used[folder] = rows[:MOST_USED]
        return self._most_used[folder]

    def by_uses(self, row: Keyword) -> tuple[int, str, int, int]:
        """Most used first; ids differ between builds of the same tree, so places decide between equals."""
        return -row.uses, row.qualified, *self.place(row.id)

    def place(self, symbol: int) -> tuple[int, int]:
        """Where a symbol stands in the order of the tree."""
        return self.rank[symbol >> FILE_SHIFT], symbol & 0xFFFFF

    def below(self, folder: str) -> list[File]:
        """All files of a folder and of the folders below it."""
        found = list(self.in_folder(folder))
        for sub in self.subfolders.get(folder, []):
            found += self.below(sub)
        return found

    def folders(self) -> list[str]:
        """All folders that hold files, and the folders above them."""
        found = {""}
        for folder in self._folders:
            while folder and folder not in found:
                found.add(folder)
                folder = folder.rpartition("/")[0]
        return sorted(found)

    def note_homes(self, title: str) -> list[tuple[str, int]]:
        """(path, line) of the titled notes with this title."""
        return self._notes(title, "note")

    def note_references(self, title: str) -> list[tuple[str, int]]:
        return self._notes(title, "note-reference")

    def _notes(self, title: str, kind: str) -> list[tuple[str, int]]:
        rows = self.db.execute(
            "SELECT file, line FROM remarks WHERE title=? COLLATE NOCASE AND kind=? AND kind IN ('note', "
            "'note-reference')",
            (title, kind),
        )
        return sorted((self.path(file), line) for file, line in rows)


@dataclass
class Context:
    book: Book
    file: File
    symbols: list[Symbol] = field(default_factory=list)

    def __post_init__(self) -> None:
        low, high = self.range
        rows = self.book.db.execute("SELECT * FROM symbols WHERE id>=? AND id<? ORDER BY id", (low, high))
        self.symbols = [Symbol._make(row) for row in rows]

    @property
    def range(self) -> tuple[int, int]:
        return self.file.id << FILE_SHIFT, (self.file.id + 1) << FILE_SHIFT

    @cached_property
    def children(self) -> dict[int, list[Symbol]]:
        """Symbols by parent, in order of line."""
        found: dict[int, list[Symbol]] = {}
        for symbol in self.symbols[1:]:
            found.setdefault(symbol.parent, []).append(symbol)
        for members in found.values():
            members.sort(key=lambda s: (s.line, s.id))
        return found

    @cached_property
    def incoming(self) -> list[Use]:
        """Who uses the symbols of this file. What uses the definition of a name that is declared here counts too."""
        low, high = self.range
        rows = self.book.db.execute(
            f"SELECT e.dst, e.src, {_USE} FROM edges e JOIN symbols s ON s.id=e.src WHERE e.dst>=? AND e.dst<?",
            (low, high),
        )
        found = [Use._make(row) for row in rows]
        for symbol in self.symbols:
            if symbol.twin:
                rows = self.book.db.execute(
                    f"SELECT ?, e.src, {_USE} FROM edges e JOIN symbols s ON s.id=e.src WHERE e.dst=?",
                    (symbol.id, symbol.twin),
                )
                found += [Use._make(row) for row in rows]
        return self._ordered(found)

    @cached_property
    def outgoing(self) -> list[Use]:
        low, high = self.range
        rows = self.book.db.execute(
            f"SELECT e.src, e.dst, {_USE} FROM edges e JOIN symbols s ON s.id=e.dst WHERE e.src>=? AND e.src<?",
            (low, high),
        )
        return self._ordered([Use._make(row) for row in rows])

    def _ordered(self, uses: list[Use]) -> list[Use]:
        """By place, so that equal models give equal pages whatever the order of their rows."""
        files = self.book.files
        uses.sort(key=lambda use: (files[use.far >> FILE_SHIFT].path, use.line, use.far & 0xFFFFF, use.near))
        return uses

    @cached_property
    def by_near(self) -> dict[int, list[Use]]:
        """Incoming edges by symbol of this file, those from elsewhere first."""
        found: dict[int, list[Use]] = {}
        for use in self.incoming:
            found.setdefault(use.near, []).append(use)
        own = self.file.id
        for uses in found.values():
            uses.sort(key=lambda use: use.far >> FILE_SHIFT == own)
        return found

    @cached_property
    def from_near(self) -> dict[int, list[Use]]:
        found: dict[int, list[Use]] = {}
        for use in self.outgoing:
            found.setdefault(use.near, []).append(use)
        for uses in found.values():
            uses.sort(key=lambda use: (use.line, use.far))
        return found

    @cached_property
    def outside_uses(self) -> dict[int, list[Use]]:
        """Uses from other files by symbol of this file."""
        found: dict[int, list[Use]] = {}
        own = self.file.id
        for use in self.incoming:
            if use.far >> FILE_SHIFT != own:
                found.setdefault(use.near, []).append(use)
        return found

    @cached_property
    def imports(self) -> list[tuple[int, str, str, str, str, int]]:
        return self.book.db.execute(
            "SELECT line, kind, module, name, alias, COALESCE(target, 0) FROM imports WHERE file=? ORDER BY line, "
            "module, name",
            (self.file.id,),
        ).fetchall()

    @cached_property
    def importers(self) -> list[tuple[int, int]]:
        """(file, line) of the imports that reach this file."""
        return self.book.db.execute(
            "SELECT file, MIN(line) FROM imports WHERE target=? GROUP BY file", (self.file.id,)
        ).fetchall()

    @cached_property
    def findings(self) -> list[tuple[int, str, str, str, int]]:
        return self.book.db.execute(
            "SELECT line, section, rule, detail, local FROM findings WHERE file=? ORDER BY line, section, rule, detail",
            (self.file.id,),
        ).fetchall()

    @cached_property
    def remarks(self) -> list[tuple[int, str, str, str, int]]:
        return self.book.db.execute(
            "SELECT line, kind, title, text, local FROM remarks WHERE file=? ORDER BY line", (self.file.id,)
        ).fetchall()

    @cached_property
    def bindings(self) -> list[tuple[int, str, str, str, str, int]]:
        return self.book.db.execute(
            "SELECT line, kind, exposed, target, owner, local FROM bindings WHERE file=? ORDER BY line", (self.file.id,)
        ).fetchall()

    @cached_property
    def concepts(self) -> list[tuple[str, int, int]]:
        """(term, places, first line) of the terms that stand out in this file's comments against the rest of the "
        "tree."""
        total = max(len(self.book.files), 2)
        ranked = []
        for term, count, line in self.book.db.execute(
            "SELECT term, count, line FROM words WHERE file=?", (self.file.id,)
        ):
            share = self.book.documents(term) / total
            if share > 0.2 and total > 20:
                continue
            ranked.append((-count * math.log(1 / max(share, 1 / total)), term, count, line))
        ranked.sort()
        return [(term, count, line) for _, term, count, line in ranked[:15]]

    @cached_property
    def history(self) -> tuple[int, int, int, str, str, str] | None:
        row: tuple[int, int, int, str, str, str] | None = self.book.db.execute(
            "SELECT commits, first, last, author, authors, companions FROM history WHERE file=?", (self.file.id,)
        ).fetchone()
        return row
