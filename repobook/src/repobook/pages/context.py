"""Everything that the pages of one file say, read from the model once."""

import math
import re
import sqlite3
from dataclasses import dataclass, field
from functools import cached_property
from heapq import nlargest
from operator import itemgetter
from typing import NamedTuple

from repobook.model import store
from repobook.model.schema import CANDIDATE, CERTAIN, FILE_SHIFT, INHERITS, OVERRIDES
from repobook.pages.wording import opening_sentence
from repobook.reach import Callers, Reach, tests_of
from repobook.reading.purpose import DERIVED


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
    """One edge, seen from the file at hand: `near` is its symbol, `far` the other end."""

    near: int
    far: int
    kind: int
    certainty: int
    line: int
    times: int
    file: int  # of the other end


class Named(NamedTuple):
    """What a page says of a symbol of another file."""

    id: int
    qualified: str
    kind: str
    line: int


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
    origin: str  # of the purpose: docstring, header, the name of a class, derived


MOST_USED = 30
# A term in more than this share of the files of a tree of some size says nothing about one of them.
COMMON = 0.2
FEW_FILES = 20
MOST_SORTED = 20 * MOST_USED
# Kinds that stand for what they hold, not for themselves: every `std::` would count as a use of one.
SPACES = ("file", "namespace", "module", "package")


# Kinds whose names tell a reader what a file is about; members and constants need their owner for that.
TELLING = frozenset({
    "class", "struct", "union", "interface", "trait", "enum", "object", "function", "macro", "type", "concept",
    "binding",
})  # fmt: skip


class Keyword(NamedTuple):
    id: int
    qualified: str
    kind: str
    uses: int
    definition: int  # of what is only declared here; 0 otherwise


_FILE = (
    "id, path, folder, language, size, status, lines, code, comment, errors, test, purpose, exports, layer, cycle, "
    "origin"
)
_IN = f"kind, certainty, line, count, src>>{FILE_SHIFT}"
_OUT = f"kind, certainty, line, count, dst>>{FILE_SHIFT}"


def stem_of(path: str) -> str:
    """`a/b.test.js` -> `b`"""
    return path.rpartition("/")[2].partition(".")[0]


def _bare_stem(path: str) -> str:
    """`tests/test_b.py` -> `b`"""
    stem = stem_of(path).lower()
    return stem.removeprefix("test_").removesuffix("_test").removesuffix("_tests").removesuffix("-test")


def _new(keyword: Keyword, seen: set[tuple[int, str, str]]) -> bool:
    """True if a name of a file is not yet listed. Overloads are one name, those of an operator too. So are the
    definitions of a type in several files, which every reference to the type counts for."""
    name = keyword.qualified.partition(".")[0] if keyword.kind == "operator" else keyword.qualified
    keys = {(keyword.id >> FILE_SHIFT, name, ""), (-keyword.uses, name, keyword.kind)}
    is_new = seen.isdisjoint(keys)
    seen |= keys
    return is_new


# A test by its name: `test_x` and `testX` in most languages, `TestX` and its like for functions of Go.
_TEST_PART = re.compile(r"_*test(?:_|[A-Z0-9]|$)")
_GO_TEST = re.compile(r"(?:Test|Example|Fuzz|Benchmark)(?:[A-Z0-9_]|$)")
_STEPS = re.compile(r"(::|\.)")
# In these languages tests are calls at the top of a file, or functions that only an attribute marks.
_ANONYMOUS = frozenset({"javascript", "typescript", "tsx", "bash", "rust"})
# In these languages tests are methods of classes in test files, marked by an annotation.
_ANNOTATED = frozenset({"java", "kotlin", "csharp", "swift"})


class Book:
    """What all pages of one build share: paths and kinds of the files, settings."""

    def __init__(self, db: sqlite3.Connection, to_source: str, source_url: str, embed: int, parsed: int) -> None:
        self.db = db
        self.to_source = to_source
        self.source_url = source_url
        self.embed = embed  # bytes of source that a page holds; 0 for links only
        self.parsed = parsed  # bytes of source above which a file is not parsed
        self.files: dict[int, File] = {
            file.id: file for file in store.records(File, db.execute(f"SELECT {_FILE} FROM files ORDER BY path"))
        }
        self.by_path = {file.path: file for file in self.files.values()}
        self.tests = {file.id for file in self.files.values() if file.test}
        self.benchmarks = {file.id for file in self.files.values() if "bench" in file.path.lower()}
        self.examples = {file.id for file in self.files.values() if "example" in file.path.lower()}
        self._cycles: dict[int, list[int]] = {}
        for file in self.files.values():
            if file.cycle:
                self._cycles.setdefault(file.cycle, []).append(file.id)
        self._most_used: dict[str, list[Keyword]] = {}
        self._named: dict[int, Named] = {}
        self._test_of: dict[int, str] = {}
        self.rank = {file: at for at, file in enumerate(self.files)}  # by path
        self.callers = Callers(db)
        self._folders: dict[str, list[File]] = {}
        for file in self.files.values():
            self._folders.setdefault(file.folder, []).append(file)

    def has_page(self, file: int) -> bool:
        found = self.files.get(file)
        return found is not None and found.status not in ("binary", "empty", "unreadable")

    def path(self, file: int) -> str:
        return self.files[file].path

    def states_purpose(self, file: File) -> bool:
        """True if a file says in a sentence what it is for."""
        return file.origin != DERIVED and bool(opening_sentence(file.purpose))

    def cycle(self, file: File) -> list[int]:
        """The files that import each other in a circle with this one."""
        return self._cycles.get(file.cycle, []) if file.cycle else []

    def named(self, symbol: int) -> Named:
        """A symbol by its id. Few pages name far fewer symbols than they count, so these are looked up one by one."""
        found = self._named.get(symbol)
        if found is None:
            row = self.db.execute("SELECT id, qualified, kind, line FROM symbols WHERE id=?", (symbol,)).fetchone()
            found = self._named[symbol] = Named(*(row or (symbol, "", "", 0)))
        return found

    def load_all(self) -> None:
        """Names and users of all symbols at once: where every page is written, they are asked for most of them."""
        rows = store.records(Named, self.db.execute("SELECT id, qualified, kind, line FROM symbols"))
        self._named = dict(zip(map(itemgetter(0), rows), rows, strict=True))
        self.callers.load_all()

    def qualified(self, symbol: int) -> str:
        """The qualified name of a symbol; the path for a file."""
        return self.named(symbol).qualified if symbol & 0xFFFFF else self.path(symbol >> FILE_SHIFT)

    def test_of(self, symbol: int) -> str:
        """The test that a symbol is or belongs to, by its qualified name; '' if it belongs to none.

        Fixtures and helper classes of a test file are no tests.
        """
        found = self._test_of.get(symbol)
        if found is None:
            found = self._test_of[symbol] = self._find_test(symbol)
        return found

    def _find_test(self, symbol: int) -> str:
        file = self.files[symbol >> FILE_SHIFT]
        if not file.test:
            return ""
        if not symbol & 0xFFFFF:
            return file.path if file.language in _ANONYMOUS else ""
        named = self.named(symbol)
        if named.kind == "test" or file.language in _ANONYMOUS:
            return named.qualified
        if file.language in _ANNOTATED:
            return named.qualified if named.kind == "method" else ""
        pattern = _GO_TEST if file.language == "go" else _TEST_PART
        pieces = _STEPS.split(named.qualified)
        for at in range(0, len(pieces), 2):
            if pattern.match(pieces[at]) and (at or named.kind not in SPACES):
                return "".join(pieces[: at + 1])
        return ""

    def is_test(self, symbol: int) -> bool:
        return symbol >> FILE_SHIFT in self.tests and bool(self.test_of(symbol))

    def named_like(self, test: File) -> list[int]:
        """The files that have the name of a test file."""
        bare = _bare_stem(test.path)
        return [file.id for file in self.files.values() if not file.test and stem_of(file.path).lower() == bare]

    def tests_named(self, file: File) -> list[int]:
        """The test files that have the name of a file: `test_x.py`, `x_test.go`, `x.spec.ts`."""
        stem = stem_of(file.path).lower()
        if stem in ("__init__", "index", "mod", "lib", "main", ""):
            return []
        return self._tests_by_stem.get(stem, [])

    @cached_property
    def _tests_by_stem(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for file in self.files.values():
            if file.test and self.has_page(file.id):
                found.setdefault(_bare_stem(file.path), []).append(file.id)
        return found

    def in_folder(self, folder: str) -> list[File]:
        return self._folders.get(folder, [])

    @cached_property
    def _stems(self) -> dict[tuple[str, str], list[int]]:
        found: dict[tuple[str, str], list[int]] = {}
        for file in self.files.values():
            found.setdefault((file.folder, stem_of(file.path)), []).append(file.id)
        return found

    def siblings(self, file: File) -> list[int]:
        """The other files of its folder that have its name, with other endings."""
        stem = stem_of(file.path)
        if stem in ("__init__", "index", ""):
            return []
        return [other for other in self._stems[file.folder, stem] if other != file.id]

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
        for target, source in self.db.execute("SELECT DISTINCT target, file FROM imports WHERE target IS NOT NULL"):
            if source != target:
                outward.setdefault(source, []).append(target)
                inward.setdefault(target, []).append(source)
        return outward, inward

    @cached_property
    def reference_pairs(self) -> dict[int, dict[int, int]]:
        """file -> file -> places where symbols of the one certainly refer to symbols of the other."""
        found: dict[int, dict[int, int]] = {}
        for source, target, count in self.db.execute(
            f"SELECT src>>{FILE_SHIFT} AS one, dst>>{FILE_SHIFT} AS two, SUM(count) FROM edges "
            f"WHERE certainty={CERTAIN} GROUP BY one, two"
        ):
            if source != target:
                found.setdefault(source, {})[target] = count
        return found

    def imports_of(self, file: int) -> list[int]:
        return self._import_pairs[0].get(file, [])

    def importers_of(self, file: int) -> list[int]:
        return self._import_pairs[1].get(file, [])

    def keywords_of(self, file: int) -> list[Keyword]:
        """The identifiers of a file with how often other files use them."""
        rows = self.db.execute(
            "SELECT s.id, s.qualified, s.kind, COALESCE(t.uses, s.uses), COALESCE(s.twin, 0) "
            "FROM symbols s LEFT JOIN symbols t ON t.id=s.twin "
            "WHERE s.id>? AND s.id<? ORDER BY s.id",
            (file << FILE_SHIFT, (file + 1) << FILE_SHIFT),
        )
        return store.records(Keyword, rows)

    @cached_property
    def _used(self) -> dict[int, list[Keyword]]:
        """The identifiers of each file that other files use, with the definition where it stands elsewhere."""
        found: dict[int, list[Keyword]] = {}
        rows = self.db.execute(
            f"SELECT id, qualified, kind, uses, 0 FROM symbols WHERE uses>0 AND twin IS NULL AND kind NOT IN {SPACES} "
            "UNION ALL SELECT s.id, s.qualified, s.kind, t.uses, t.id FROM symbols s JOIN symbols t ON t.id=s.twin "
            f"WHERE s.twin IS NOT NULL AND t.uses>0 AND s.kind NOT IN {SPACES}"
        )
        for row in store.records(Keyword, rows):
            file = row[0] >> FILE_SHIFT
            known = found.get(file)
            if known is None:
                found[file] = [row]
            else:
                known.append(row)
        return found

    def used_in(self, file: int) -> list[Keyword]:
        """The types and functions of a file that other files use, most used first."""
        return sorted([row for row in self._used.get(file, ()) if row.kind in TELLING], key=self.by_uses)

    @cached_property
    def uses_of_file(self) -> dict[int, int]:
        """How many references from other files lead to each file."""
        return {file: sum(row.uses for row in rows) for file, rows in self._used.items()}

    @cached_property
    def mains(self) -> list[int]:
        """The functions called `main` at the top of a file, in order of place."""
        rows = self.db.execute("SELECT id FROM symbols WHERE name='main' AND kind='function' AND declaration=0")
        return sorted((row[0] for row in rows if self.named(row[0]).qualified.endswith("main")), key=self.place)

    @cached_property
    def commands(self) -> list[tuple[int, str, int]]:
        """(file, name, line) of the commands that pyproject.toml and package.json declare."""
        found = []
        for file in self.files.values():
            name = file.path.rpartition("/")[2]
            prefix = {"pyproject.toml": "project.scripts.", "package.json": "bin."}.get(name)
            if prefix and not file.test:
                found += [
                    (file.id, qualified.removeprefix(prefix), line)
                    for qualified, line in self.db.execute(
                        "SELECT qualified, line FROM symbols WHERE id>? AND id<? ORDER BY id",
                        (file.id << FILE_SHIFT, (file.id + 1) << FILE_SHIFT),
                    )
                    if qualified.startswith(prefix)
                ]
        return found

    def most_used(self, folder: str) -> list[Keyword]:
        """The symbols of a folder and the folders below it that other files use most; a declaration where the
        definition is not among them."""
        found = self._most_used.get(folder)
        if found is None:
            files = self.below(folder)
            inside = {file.id for file in files}
            rows = [
                keyword
                for file in files
                for keyword in self._used.get(file.id, ())
                if keyword[4] >> FILE_SHIFT not in inside
            ]
            # Overloads are one name: of the names that come first, a few more than are shown suffice.
            least = nlargest(MOST_SORTED, [row.uses for row in rows])[-1] if len(rows) > MOST_SORTED else 0
            seen: set[tuple[int, str, str]] = set()
            rows = sorted([row for row in rows if row.uses >= least], key=self.by_uses)
            found = self._most_used[folder] = [row for row in rows if _new(row, seen)][:MOST_USED]
        return found

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
        self.symbols = store.records(Symbol, rows)

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
    def documented(self) -> list[tuple[str, Symbol]]:
        """The symbols that have documentation, with its text in lower case."""
        return [(symbol.doc.lower(), symbol) for symbol in self.symbols[1:] if symbol.doc]

    @cached_property
    def incoming(self) -> list[Use]:
        """Who uses the symbols of this file. What uses the definition of a name that is declared here counts too."""
        db = self.book.db
        found = db.execute(f"SELECT dst, src, {_IN} FROM edges WHERE dst>=? AND dst<?", self.range).fetchall()
        for symbol in self.symbols:
            if symbol.twin:
                found += db.execute(f"SELECT ?, src, {_IN} FROM edges WHERE dst=?", (symbol.id, symbol.twin))
        return store.records(Use, found)

    @cached_property
    def _outgoing(self) -> list[Use]:
        rows = self.book.db.execute(f"SELECT src, dst, {_OUT} FROM edges WHERE src>=? AND src<?", self.range)
        return store.records(Use, rows)

    @cached_property
    def outgoing(self) -> list[Use]:
        """What the symbols of this file use, certainly or likely."""
        return [use for use in self._outgoing if use[3] > CANDIDATE or use[2] == INHERITS]

    @property
    def all_outgoing(self) -> list[Use]:
        """What the symbols of this file use, candidates too."""
        return self._outgoing

    @cached_property
    def outgoing_overrides(self) -> list[Use]:
        """The methods of other classes that methods of this file override; a method can be declared elsewhere."""
        found = [use for use in self._outgoing if use.kind == OVERRIDES]
        rows = self.book.db.execute(
            f"SELECT s.twin, e.dst, e.kind, certainty, e.line, count, dst>>{FILE_SHIFT} FROM symbols s JOIN edges e "
            f"ON e.src=s.id WHERE s.twin>=? AND s.twin<? AND e.kind={OVERRIDES} ORDER BY s.twin, e.dst",
            self.range,
        )
        return found + store.records(Use, rows)

    @cached_property
    def references_to(self) -> dict[int, int]:
        """How many references of this file lead to each other file, candidates too."""
        named = self.book.named
        places: dict[tuple[int, int, str], int] = {}
        for near, far, _, _, _, times, file in self._outgoing:
            key = (file, near, named(far).qualified)
            if places.get(key, 0) < times:
                places[key] = times
        found: dict[int, int] = {}
        for (file, _, _), times in places.items():
            found[file] = found.get(file, 0) + times
        return found

    @cached_property
    def references_between(self) -> dict[tuple[int, int, str], int]:
        """References of this file and of others to each other, certain and likely ones: (other file, who refers, name)
        -> places. What refers to a name with overloads refers to it once."""
        named = self.book.named
        found: dict[tuple[int, int, str], int] = {}
        for near, far, _, certainty, _, times, file in self.outgoing:
            if certainty > CANDIDATE:
                key = (file, near, named(far).qualified)
                if found.get(key, 0) < times:
                    found[key] = times
        symbols = self.symbols
        for near, far, _, certainty, _, times, file in self.incoming:
            if certainty > CANDIDATE:
                key = (file, far, symbols[near & 0xFFFFF].qualified)
                if found.get(key, 0) < times:
                    found[key] = times
        return found

    def place(self, use: Use) -> int:
        """Uses by path, line, enclosing symbol: equal models give equal pages whatever the order of their rows."""
        near, far, _, _, line, _, file = use
        return self.book.rank[file] << 60 | line << 40 | (far & 0xFFFFF) << 20 | near & 0xFFFFF

    @cached_property
    def _ordered(self) -> tuple[list[Use], list[Use]]:
        """Uses from other files and from this one, in order of place."""
        own = self.file.id
        ordered = sorted(self.incoming, key=self.place)
        return [use for use in ordered if use[6] != own], [use for use in ordered if use[6] == own]

    @cached_property
    def outside_uses(self) -> dict[int, list[Use]]:
        """Uses from other files by symbol of this file."""
        found: dict[int, list[Use]] = {}
        for use in self._ordered[0]:
            known = found.get(use[0])
            if known is None:
                found[use[0]] = [use]
            else:
                known.append(use)
        return found

    @cached_property
    def sure_uses(self) -> dict[int, list[Use]]:
        """Of those, the certain and likely ones."""
        found: dict[int, list[Use]] = {}
        for near, uses in self.outside_uses.items():
            sure = [use for use in uses if use.certainty > 1]
            if sure:
                found[near] = sure
        return found

    @cached_property
    def most_used(self) -> list[tuple[Symbol, int, int]]:
        """(symbol, places, files) by uses from other files, most first. The file that defines what this one declares,
        or declares what it defines, is no other file here."""
        found = []
        known: set[str] = set()
        siblings = set(self.book.siblings(self.file))
        for symbol in self.symbols[1:]:
            uses = self.sure_uses.get(symbol.id) if symbol.kind not in SPACES else None
            if uses and siblings:
                uses = [use for use in uses if use.file not in siblings]
            if uses and symbol.qualified not in known:
                known.add(symbol.qualified)
                found.append((symbol, sum(use.times for use in uses), len({use.file for use in uses})))
        found.sort(key=lambda row: (-row[1], row[0].line))
        return found

    @cached_property
    def users(self) -> dict[int, dict[str, int]]:
        """The other files that certainly or likely use this one: file -> name -> places. A use of a name with overloads
        counts once; the name of the file itself is ''."""
        places: dict[tuple[int, str], int] = {}
        for near, uses in self.sure_uses.items():
            symbol = self.symbols[near & 0xFFFFF]
            name = self.short_name(symbol) if symbol.kind not in SPACES else ""
            for use in uses:
                key = (use.far, name)
                places[key] = max(places.get(key, 0), use.times)
        found: dict[int, dict[str, int]] = {}
        for (far, name), times in places.items():
            names = found.setdefault(far >> FILE_SHIFT, {})
            names[name] = names.get(name, 0) + times
        return found

    @cached_property
    def certain_users(self) -> dict[int, int]:
        """The other files that certainly use this one, with the number of places. A use by name alone is left out."""
        found: dict[int, int] = {}
        for uses in self.sure_uses.values():
            for use in uses:
                if use.certainty == CERTAIN:
                    found[use.file] = found.get(use.file, 0) + use.times
        return found

    def short_name(self, symbol: Symbol) -> str:
        """The qualified name of a symbol without the namespaces around it."""
        above = self.symbols[symbol.parent & 0xFFFFF]
        while above.kind not in SPACES:
            above = self.symbols[above.parent & 0xFFFFF]
        return symbol.qualified.removeprefix(above.qualified).lstrip(".:") or symbol.qualified

    @cached_property
    def reach(self) -> Reach:
        """The nearest tests that reach the definitions of this file through other code."""
        book = self.book
        minor = ("type", "namespace", "module", "package", "macro")
        own = [symbol.twin or symbol.id for symbol in self.symbols[1:] if symbol.kind not in minor]
        return tests_of(own, book.callers, book.is_test, book.place)

    @cached_property
    def own_tests(self) -> int:
        """The functions in the module `tests` of this file, as Rust has it."""
        if self.file.language != "rust" or self.file.test:
            return 0
        modules = {symbol.id for symbol in self.symbols if symbol.kind == "module" and symbol.name in ("test", "tests")}
        return sum(symbol.parent in modules and symbol.kind == "function" for symbol in self.symbols)

    @cached_property
    def by_near(self) -> dict[int, list[Use]]:
        """Incoming edges by symbol of this file, those from elsewhere first."""
        found = {near: list(uses) for near, uses in self.outside_uses.items()}
        for use in self._ordered[1]:
            found.setdefault(use[0], []).append(use)
        return found

    @cached_property
    def _from_near(self) -> dict[int, list[Use]]:
        found: dict[int, list[Use]] = {}
        for use in self.outgoing:
            known = found.get(use[0])
            if known is None:
                found[use[0]] = [use]
            else:
                known.append(use)
        return found

    def uses_of(self, symbol: int, kind: int) -> list[Use]:
        """The outgoing edges of one kind of a symbol of this file, in order of line."""
        rank = self.book.rank
        found = [use for use in self._from_near.get(symbol, ()) if use.kind == kind]
        if len(found) > 1:
            found.sort(key=lambda use: use.line << 60 | rank[use.file] << 20 | use.far & 0xFFFFF)
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
    def concepts(self) -> list[tuple[str, int, int, int]]:
        """(term, places, first line, files of the tree) of the terms that stand out in its comments against the rest of
        the tree; of a word and its plural, the one that stands out more."""
        total = max(len(self.book.files), 2)
        # A class that comments speak of stands under the identifiers.
        names = {symbol.name.lower() for symbol in self.symbols[1:]}
        ranked = []
        for term, count, line, files in self.book.db.execute(
            "SELECT w.term, w.count, w.line, COALESCE(t.files, 1) FROM words w LEFT JOIN terms t ON t.term=w.term "
            "WHERE w.file=?",
            (self.file.id,),
        ):
            share = files / total
            if (share > COMMON and total > FEW_FILES) or term in names:
                continue
            ranked.append((-count * math.log(1 / max(share, 1 / total)), term, count, line, files))
        ranked.sort()
        kept: dict[str, tuple[str, int, int, int]] = {}
        for _, term, count, line, files in ranked:
            kept.setdefault(term.removesuffix("s"), (term, count, line, files))
        return list(kept.values())[:15]

    @cached_property
    def history(self) -> tuple[int, int, int, str, str, str] | None:
        row: tuple[int, int, int, str, str, str] | None = self.book.db.execute(
            "SELECT commits, first, last, author, authors, companions FROM history WHERE file=?", (self.file.id,)
        ).fetchone()
        return row
