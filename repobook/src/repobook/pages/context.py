"""Everything that the pages of one file say, read from the model once."""

import math
import sqlite3
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from repobook.model.schema import FILE_SHIFT


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
    count: int
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


class Keyword(NamedTuple):
    qualified: str
    kind: str
    uses: int


_FILE = "id, path, folder, language, size, status, lines, code, comment, errors, test, purpose, exports"
_USE = "e.kind, e.certainty, e.line, e.count, s.name, s.qualified, s.kind, s.line"


class Book:
    """What all pages of one build share: paths and kinds of the files, settings."""

    def __init__(self, db: sqlite3.Connection, to_source: str, source_url: str, embed: int) -> None:
        self.db = db
        self.to_source = to_source
        self.source_url = source_url
        self.embed = embed  # bytes of source that a page holds; 0 for links only
        self.files: dict[int, File] = {row[0]: File._make(row) for row in db.execute(f"SELECT {_FILE} FROM files ORDER BY path")}
        self.by_path = {file.path: file for file in self.files.values()}
        self.tests = {file.id for file in self.files.values() if file.test}
        # file -> (longest chain of imports below it, the files of its import cycle)
        self.layers: dict[int, tuple[int, list[int]]] = {}
        self._folders: dict[str, list[File]] = {}
        for file in self.files.values():
            self._folders.setdefault(file.folder, []).append(file)

    def has_page(self, file: int) -> bool:
        found = self.files.get(file)
        return found is not None and found.status not in ("binary", "empty", "unreadable")

    def path(self, file: int) -> str:
        return self.files[file].path

    @cached_property
    def _documents(self) -> dict[str, int]:
        return dict(self.db.execute("SELECT term, COUNT(*) FROM words GROUP BY term"))

    def documents(self, term: str) -> int:
        """How many files repeat a term."""
        return self._documents.get(term, 1)

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

    @cached_property
    def _outside(self) -> dict[int, list[tuple[int, int, list[int]]]]:
        """Per file: (symbol, references from other files, those files), certain or likely ones."""
        gathered: dict[int, tuple[int, set[int]]] = {}
        for dst, source, count in self.db.execute(
            f"SELECT dst, src>>{FILE_SHIFT}, SUM(count) FROM edges WHERE certainty>1 AND src>>{FILE_SHIFT}<>dst>>{FILE_SHIFT} GROUP BY 1, 2"
        ):
            known = gathered.get(dst)
            if known is None:
                gathered[dst] = (count, {source})
            else:
                known[1].add(source)
                gathered[dst] = (known[0] + count, known[1])
        found: dict[int, list[tuple[int, int, list[int]]]] = {}
        for dst, (count, sources) in gathered.items():
            found.setdefault(dst >> FILE_SHIFT, []).append((dst, count, list(sources)))
        return found

    def outside(self, file: int) -> list[tuple[int, int, list[int]]]:
        return self._outside.get(file, [])

    @cached_property
    def _uses(self) -> dict[int, int]:
        return dict(self.db.execute("SELECT dst, SUM(count) FROM edges WHERE certainty>1 GROUP BY dst"))

    @cached_property
    def _keywords(self) -> dict[int, list[Keyword]]:
        found: dict[int, list[Keyword]] = {}
        uses = self._uses
        rows = self.db.execute("SELECT id, qualified, kind, COALESCE(twin, id) FROM symbols WHERE kind<>'file' ORDER BY id")
        for symbol, qualified, kind, defined in rows:
            found.setdefault(symbol >> FILE_SHIFT, []).append(Keyword(qualified, kind, uses.get(defined, 0)))
        return found

    def keywords_of(self, file: int) -> list[Keyword]:
        """The identifiers of a file with how often they are used anywhere."""
        return self._keywords.get(file, [])

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
            "SELECT file, line FROM remarks WHERE title=? COLLATE NOCASE AND kind=? AND kind IN ('note', 'note-reference')", (title, kind)
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
            f"SELECT e.dst, e.src, {_USE} FROM edges e JOIN symbols s ON s.id=e.src WHERE e.dst>=? AND e.dst<?", (low, high)
        )
        found = [Use._make(row) for row in rows]
        for symbol in self.symbols:
            if symbol.twin:
                rows = self.book.db.execute(
                    f"SELECT ?, e.src, {_USE} FROM edges e JOIN symbols s ON s.id=e.src WHERE e.dst=?", (symbol.id, symbol.twin)
                )
                found += [Use._make(row) for row in rows]
        return found

    @cached_property
    def outgoing(self) -> list[Use]:
        low, high = self.range
        rows = self.book.db.execute(
            f"SELECT e.src, e.dst, {_USE} FROM edges e JOIN symbols s ON s.id=e.dst WHERE e.src>=? AND e.src<?", (low, high)
        )
        return [Use._make(row) for row in rows]

    @cached_property
    def by_near(self) -> dict[int, list[Use]]:
        """Incoming edges by symbol of this file, those from elsewhere first."""
        found: dict[int, list[Use]] = {}
        for use in self.incoming:
            found.setdefault(use.near, []).append(use)
        own = self.file.id
        for uses in found.values():
            uses.sort(key=lambda use: (use.far >> FILE_SHIFT == own, self.book.path(use.far >> FILE_SHIFT), use.line))
        return found

    @cached_property
    def from_near(self) -> dict[int, list[Use]]:
        found: dict[int, list[Use]] = {}
        for use in self.outgoing:
            found.setdefault(use.near, []).append(use)
        for uses in found.values():
            uses.sort(key=lambda use: use.line)
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
            "SELECT line, kind, module, name, alias, COALESCE(target, 0) FROM imports WHERE file=? ORDER BY line", (self.file.id,)
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
            "SELECT line, section, rule, detail, local FROM findings WHERE file=? ORDER BY line", (self.file.id,)
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
        """(term, places, first line) of the terms that stand out in this file's comments against the rest of the tree."""
        total = max(len(self.book.files), 2)
        ranked = []
        for term, count, line in self.book.db.execute("SELECT term, count, line FROM words WHERE file=?", (self.file.id,)):
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
