"""Everything that the pages of one file say, read from the model once."""

import math
from dataclasses import dataclass, field
from functools import cached_property

from repobook.languages import SOURCES
from repobook.model import store
from repobook.model.schema import CANDIDATE, CERTAIN, FILE_SHIFT, INHERITS, LIKELY, OVERRIDES
from repobook.pages.book_facts import Book
from repobook.pages.records import SPACES, File, Symbol, Use
from repobook.reach import Reach, tests_of

# A term in more than this share of the files of a tree of some size says nothing about one of them.
COMMON = 0.2
FEW_FILES = 20
_SYMBOL = ", ".join(Symbol._fields)
_IN = f"kind, certainty, line, count, src>>{FILE_SHIFT}"
_OUT = f"kind, certainty, line, count, dst>>{FILE_SHIFT}"


@dataclass
class Context:
    book: Book
    file: File
    symbols: list[Symbol] = field(default_factory=list)
    test_uses: list[Use] | None = None  # kept by `testing` for several sections

    def __post_init__(self) -> None:
        low, high = self.range
        rows = self.book.db.execute(f"SELECT {_SYMBOL} FROM symbols WHERE id>=? AND id<? ORDER BY id", (low, high))
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
        """Uses of the symbols of this file. Uses of the definition count for its declaration here too, unless a source
        file declares it for itself: no other file sees that declaration."""
        db = self.book.db
        found = db.execute(f"SELECT dst, src, {_IN} FROM edges WHERE dst>=? AND dst<?", self.range).fetchall()
        is_source = self.file.path.endswith(SOURCES)
        for symbol in self.symbols:
            if symbol.twin and not (is_source and symbol.twin >> FILE_SHIFT != self.file.id):
                found += db.execute(f"SELECT ?, src, {_IN} FROM edges WHERE dst=?", (symbol.id, symbol.twin))
        return store.records(Use, found)

    @cached_property
    def _outgoing(self) -> list[Use]:
        rows = self.book.db.execute(f"SELECT src, dst, {_OUT} FROM edges WHERE src>=? AND src<?", self.range)
        return store.records(Use, rows)

    @cached_property
    def outgoing(self) -> list[Use]:
        """Symbols that this file uses, certainly or likely."""
        return [use for use in self._outgoing if use[3] > CANDIDATE or use[2] == INHERITS]

    @property
    def all_outgoing(self) -> list[Use]:
        """Symbols that this file uses, candidates too."""
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

    def is_space(self, symbol: int) -> bool:
        """True for a namespace or package: many files open it, and a use of its name is no use of one of them."""
        return self.book.find_symbol(symbol).kind in ("namespace", "package")

    @cached_property
    def references_to(self) -> dict[int, int]:
        """Number of certain and likely references of this file to each other file."""
        named = self.book.find_symbol
        places: dict[tuple[int, int, str], int] = {}
        for near, far, _, _, _, times, file in self.outgoing:
            key = (file, near, named(far).qualified)
            if places.get(key, 0) < times and not self.is_space(far):
                places[key] = times
        found: dict[int, int] = {}
        for (file, _, _), times in places.items():
            found[file] = found.get(file, 0) + times
        return found

    @cached_property
    def references_between(self) -> dict[tuple[int, int, str], int]:
        """References of this file and of others to each other: (other file, referring symbol, name) -> places. A
        reference to a name with overloads counts once. A likely one counts if one file imports the other."""
        named = self.book.find_symbol
        found: dict[tuple[int, int, str], int] = {}
        imported = {target for *_, target in self.imports} | {file for file, _ in self.importers}
        for near, far, _, certainty, _, times, file in self.outgoing:
            least = LIKELY if file in imported else CERTAIN
            if certainty >= least and not self.is_space(far):
                key = (file, near, named(far).qualified)
                if found.get(key, 0) < times:
                    found[key] = times
        symbols = self.symbols
        for near, far, _, certainty, _, times, file in self.incoming:
            least = LIKELY if file in imported else CERTAIN
            if certainty >= least and symbols[near & 0xFFFFF].kind not in ("namespace", "package"):
                key = (file, far, symbols[near & 0xFFFFF].qualified)
                if found.get(key, 0) < times:
                    found[key] = times
        return found

    def place(self, use: Use) -> int:
        """Uses by path, line, enclosing symbol: equal models give equal pages for any order of their rows."""
        near, far, _, _, line, _, file = use
        return self.book.rank[file] << 60 | line << 40 | (far & 0xFFFFF) << 20 | near & 0xFFFFF

    @cached_property
    def _ordered_uses(self) -> tuple[list[Use], list[Use]]:
        """Uses from other files and from this one, in order of place."""
        own = self.file.id
        ordered = sorted(self.incoming, key=self.place)
        return [use for use in ordered if use[6] != own], [use for use in ordered if use[6] == own]

    @cached_property
    def outside_uses(self) -> dict[int, list[Use]]:
        """Uses from other files by symbol of this file."""
        found: dict[int, list[Use]] = {}
        for use in self._ordered_uses[0]:
            known = found.get(use[0])
            if known is None:
                found[use[0]] = [use]
            else:
                known.append(use)
        return found

    @cached_property
    def sure_uses(self) -> dict[int, list[Use]]:
        """Of those, the certain and likely ones, but for uses of namespaces, which are no uses of this file."""
        found: dict[int, list[Use]] = {}
        for near, uses in self.outside_uses.items():
            if self.symbols[near & 0xFFFFF].kind in ("namespace", "package"):
                continue
            sure = [use for use in uses if use.certainty > 1]
            if sure:
                found[near] = sure
        return found

    @cached_property
    def most_used(self) -> list[tuple[Symbol, int, int]]:
        """(symbol, places, files) by uses from other files, most first. A header and the file with its definitions are
        no other files here."""
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
        for use in self._ordered_uses[1]:
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
