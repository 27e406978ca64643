"""Facts of a whole tree that the pages of one build share: files, folders, tests, imports, most used names."""

import re
import sqlite3
from functools import cached_property
from heapq import nlargest
from operator import itemgetter

from repobook.languages import C_FAMILY
from repobook.model import store
from repobook.model.schema import CERTAIN, FILE_SHIFT
from repobook.pages.records import SPACES, TELLING, File, Keyword, Named
from repobook.pages.wording import opening_sentence
from repobook.reach import Callers
from repobook.reading.purpose import DERIVED

MOST_USED = 30
MOST_SORTED = 20 * MOST_USED
_FILE = (
    "id, path, folder, language, size, status, lines, code, comment, errors, test, purpose, exports, layer, cycle, "
    "origin"
)


def stem_of(path: str) -> str:
    """`a/b.test.js` -> `b`"""
    return path.rpartition("/")[2].partition(".")[0]


def _bare_stem(path: str) -> str:
    """`tests/test_b.py` -> `b`"""
    stem = stem_of(path).lower().removeprefix("test_")
    for ending in ("_test", "_tests", "-test", "_unittest", "_unittests"):
        stem = stem.removesuffix(ending)
    # `StreamTest.cpp`: without the capital it is a word, as in `latest`.
    return stem.removesuffix("test") if stem_of(path).endswith("Test") else stem


def _is_named_test(path: str) -> bool:
    """True if the name of a file, not only its folder, marks it as a test."""
    name = path.rpartition("/")[2].lower()
    return _bare_stem(path) != stem_of(path).lower() or ".test." in name or ".spec." in name


def _same_family(language: str, other: str) -> bool:
    return any(language in family and other in family for family in (C_FAMILY, _SCRIPTS)) or language == other


_SCRIPTS = frozenset({"javascript", "typescript", "tsx", "vue"})


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
    """Facts that all pages of one build share: paths and kinds of the files, settings."""

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
        """True if a file states its purpose in a sentence."""
        return file.origin != DERIVED and bool(opening_sentence(file.purpose))

    def cycle(self, file: File) -> list[int]:
        """The files that import each other in a circle with this one."""
        return self._cycles.get(file.cycle, []) if file.cycle else []

    def find_symbol(self, symbol: int) -> Named:
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
        return self.find_symbol(symbol).qualified if symbol & 0xFFFFF else self.path(symbol >> FILE_SHIFT)

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
        named = self.find_symbol(symbol)
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

    def find_subjects(self, test: File) -> list[int]:
        """The files that have the name of a test file."""
        return self._files_by_stem.get(_bare_stem(test.path), [])

    def find_named_tests(self, file: File) -> list[int]:
        """The test files that have the name of a file: `test_x.py`, `x_test.go`, `x.spec.ts`. A test of a name that
        several files have counts for those that it imports."""
        stem = stem_of(file.path).lower()
        if stem in ("__init__", "index", "mod", "lib", "main", ""):
            return []
        found = [
            test for test in self._tests_by_stem.get(stem, ()) if _same_family(self.files[test].language, file.language)
        ]
        related = {file.id, *self.siblings(file)}
        others = [other for other in self._files_by_stem.get(stem, ()) if other not in related]
        return [test for test in found if not others or not related.isdisjoint(self.imports_of(test))]

    @cached_property
    def _tests_by_stem(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for file in self.files.values():
            if file.test and self.has_page(file.id) and _is_named_test(file.path):
                found.setdefault(_bare_stem(file.path), []).append(file.id)
        return found

    @cached_property
    def _files_by_stem(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for file in self.files.values():
            if not file.test:
                found.setdefault(stem_of(file.path).lower(), []).append(file.id)
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
    def _used_names(self) -> dict[int, list[Keyword]]:
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

    def list_used(self, file: int) -> list[Keyword]:
        """The types and functions of a file that other files use, most used first."""
        return sorted([row for row in self._used_names.get(file, ()) if row.kind in TELLING], key=self.by_uses)

    @cached_property
    def uses_of_file(self) -> dict[int, int]:
        """Number of references from other files to each file."""
        return {file: sum(row.uses for row in rows) for file, rows in self._used_names.items()}

    @cached_property
    def mains(self) -> list[int]:
        """The functions called `main` at the top of a file, in order of place."""
        rows = self.db.execute("SELECT id FROM symbols WHERE name='main' AND kind='function' AND declaration=0")
        return sorted((row[0] for row in rows if self.find_symbol(row[0]).qualified.endswith("main")), key=self.place)

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
            files = self.list_below(folder)
            inside = {file.id for file in files}
            rows = [
                keyword
                for file in files
                for keyword in self._used_names.get(file.id, ())
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
        """Place of a symbol in the order of the tree."""
        return self.rank[symbol >> FILE_SHIFT], symbol & 0xFFFFF

    def list_below(self, folder: str) -> list[File]:
        """All files of a folder and of the folders below it."""
        found = list(self.in_folder(folder))
        for sub in self.subfolders.get(folder, []):
            found += self.list_below(sub)
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
