"""The symbols and imports of the tree, as the resolver asks for them.

A cold build loads everything at once; after a change of one file only what is asked for is loaded. Both go through
the same methods.
"""

import sqlite3
from functools import cached_property
from typing import NamedTuple

from repobook.languages import C_FAMILY, SOURCES
from repobook.model import store
from repobook.model.schema import FILE_SHIFT
from repobook.reading.facts import LINE_BITS, LOCAL_BITS, LOCAL_MASK


class Sym(NamedTuple):
    id: int
    name: str
    kind: str
    parent: int
    qualified: str
    declaration: int
    bases: str
    signature: str
    internal: int  # the linker shows it to no other file

    @property
    def file(self) -> int:
        return self.id >> FILE_SHIFT


class Imported(NamedTuple):
    kind: str
    module: str
    name: str
    alias: str
    target: int  # file, 0 where outside the tree
    rowid: int


class Exposed(NamedTuple):
    """A name that another language sees, as a file registers it."""

    file: int
    kind: str
    target: str
    owner: str
    local: int


# The signature names the type behind an alias. It marks scoped enumerations, and in Python the declarations of
# overloads and the setters of properties.
_COLUMNS = (
    "id, name, kind, parent, qualified, declaration, bases, CASE WHEN kind='type' THEN signature "
    "WHEN kind='enum' AND (signature LIKE 'enum class %' OR signature LIKE 'enum struct %') THEN 'scoped' "
    "WHEN substr(signature, 1, 1)<>'@' THEN '' WHEN signature LIKE '@%overload def %' THEN '@overload' "
    "WHEN signature LIKE '@%.setter def %' OR signature LIKE '@%.deleter def %' THEN '@setter' ELSE '' END, internal"
)
# Functions of these run on a device; no code of the host links to them.
_SHADERS = (".metal",)
_LINKED = frozenset({"function", "method", "variable", "test", "registration", "binding", "field", "namespace"})


class Tables:
    def __init__(self, db: sqlite3.Connection) -> None:
        self.db = db
        self.language: dict[int, str] = {}
        self.path: dict[int, str] = {}
        self.exports: dict[int, str] = {}
        self.tests: set[int] = set()
        for file, path, language, exports, test in db.execute("SELECT id, path, language, exports, test FROM files"):
            if test:
                self.tests.add(file)
            self.language[file] = language
            self.path[file] = path
            if exports:
                self.exports[file] = exports
        self.by_path = {path: file for file, path in self.path.items()}
        self._named: dict[str, list[Sym]] = {}
        self._by_parent: dict[int, dict[int, dict[str, list[Sym]]]] = {}
        self._imports: dict[int, list[Imported]] = {}
        self._symbols: dict[int, list[Sym]] = {}
        self._exposed: dict[str, list[Exposed]] = {}
        self._native: dict[str, list[Sym]] = {}
        self._spaces: dict[str, dict[str, list[Sym]]] = {}
        self._sources: dict[int, bool] = {}
        self._private: dict[int, dict[str, list[Sym]]] = {}
        self.loaded = False

    def load_all(self) -> None:
        named, symbols = self._named, self._symbols
        for sym in store.records(Sym, self.db.execute(f"SELECT {_COLUMNS} FROM symbols ORDER BY id")):
            if sym.kind == "file":
                symbols[sym.id >> FILE_SHIFT] = [sym]
                continue
            symbols[sym.id >> FILE_SHIFT].append(sym)
            found = named.get(sym.name)
            if found is None:
                named[sym.name] = [sym]
            else:
                found.append(sym)
        for file in symbols:
            self._imports[file] = []
        for file, *rest in self.db.execute(
            "SELECT file, kind, module, name, alias, COALESCE(target, 0), rowid FROM imports"
        ):
            self._imports[file].append(Imported(*rest))
        for exposed, *row in self.db.execute("SELECT exposed, file, kind, target, owner, local FROM bindings"):
            self._exposed.setdefault(exposed, []).append(Exposed(*row))
        self.loaded = True

    def find_named(self, name: str) -> list[Sym]:
        found = self._named.get(name)
        if found is None:
            if self.loaded:
                return []
            rows = self.db.execute(f"SELECT {_COLUMNS} FROM symbols WHERE name=? AND kind<>'file' ORDER BY id", (name,))
            found = self._named[name] = store.records(Sym, rows)
        return found

    def native(self, name: str) -> list[Sym]:
        """The symbols of C-family files with a name."""
        found = self._native.get(name)
        if found is None:
            language = self.language
            found = self._native[name] = [
                sym for sym in self.find_named(name) if language[sym.id >> FILE_SHIFT] in C_FAMILY
            ]
        return found

    def native_by_qualified(self, name: str) -> dict[str, list[Sym]]:
        """The symbols of C-family files with a name that other files can see or link to, by qualified name."""
        found = self._spaces.get(name)
        if found is None:
            found = self._spaces[name] = {}
            for sym in self.native(name):
                if self.seen_elsewhere(sym):
                    found.setdefault(sym.qualified, []).append(sym)
        return found

    def private(self, file: int) -> dict[str, list[Sym]]:
        """The symbols of a source file that no other file sees, by qualified name."""
        found = self._private.get(file)
        if found is None:
            found = self._private[file] = {}
            for sym in self.symbols(file)[1:] if self.is_source(file) else ():
                if not self.seen_elsewhere(sym):
                    found.setdefault(sym.qualified, []).append(sym)
        return found

    def seen_elsewhere(self, sym: Sym) -> bool:
        """True if C-family code in other files can mean a symbol.

        A source file that no file includes keeps its types and macros, the symbols of its anonymous namespaces, and its
        static and inline functions."""
        file = sym[0] >> FILE_SHIFT
        if sym.kind in _LINKED and not sym.internal and not self.path[file].endswith(_SHADERS):
            return True
        return not self.is_source(file)

    def seen_from(self, sym: Sym, file: int) -> bool:
        return sym[0] >> FILE_SHIFT == file or self.seen_elsewhere(sym)

    def is_source(self, file: int) -> bool:
        """True for a source file of the C family that no file includes."""
        known = self._sources.get(file)
        if known is None:
            known = self._sources[file] = self.path[file].endswith(SOURCES) and file not in self.included
        return known

    @cached_property
    def included(self) -> set[int]:
        """The files that some file includes."""
        return {row[0] for row in self.db.execute("SELECT DISTINCT target FROM imports WHERE target IS NOT NULL")}

    def symbols(self, file: int) -> list[Sym]:
        """All symbols of a file by local index; the first is the file."""
        found = self._symbols.get(file)
        if found is None:
            low, high = file << FILE_SHIFT, (file + 1) << FILE_SHIFT
            rows = self.db.execute(f"SELECT {_COLUMNS} FROM symbols WHERE id>=? AND id<? ORDER BY id", (low, high))
            found = self._symbols[file] = store.records(Sym, rows)
        return found

    def symbols_by_file(self) -> dict[int, list[Sym]]:
        """Every file that was read, after `load_all`."""
        return self._symbols

    def imports(self, file: int) -> list[Imported]:
        found = self._imports.get(file)
        if found is None:
            rows = self.db.execute(
                "SELECT kind, module, name, alias, COALESCE(target, 0), rowid FROM imports WHERE file=?", (file,)
            )
            found = self._imports[file] = store.records(Imported, rows)
        return found

    def exposed(self, name: str) -> list[Exposed]:
        """The bindings that register a name."""
        found = self._exposed.get(name)
        if found is None:
            if self.loaded:
                return []
            rows = self.db.execute("SELECT file, kind, target, owner, local FROM bindings WHERE exposed=?", (name,))
            found = self._exposed[name] = store.records(Exposed, rows)
        return found

    @cached_property
    def type_tables(self) -> set[str]:
        """Method tables of types: their names stand in the same definition as `tp_methods` or a `PyTypeObject`."""
        tables = {row[0] for row in self.db.execute("SELECT DISTINCT owner FROM bindings WHERE kind='method table'")}
        mentioned: set[int] = set()
        for name in ("tp_methods", "PyTypeObject"):
            for file, blob in self.db.execute("SELECT file, places FROM refs WHERE name=?", (name,)):
                mentioned.update(file << LOCAL_BITS | _local(place) for place in memoryview(blob).cast("Q"))
        found = set()
        for table in tables:
            for file, blob in self.db.execute("SELECT file, places FROM refs WHERE name=?", (table,)):
                if any(file << LOCAL_BITS | _local(place) in mentioned for place in memoryview(blob).cast("Q")):
                    found.add(table)
        return found

    def top(self, file: int) -> dict[str, list[Sym]]:
        """The names at the top level of a file."""
        return self._children(file, file << FILE_SHIFT)

    def members(self, symbol: Sym) -> dict[str, list[Sym]]:
        """The names directly inside a class, function or namespace, as its own file defines them."""
        return self._children(symbol.id >> FILE_SHIFT, symbol.id)

    def _children(self, file: int, parent: int) -> dict[str, list[Sym]]:
        by_parent = self._by_parent.get(file)
        if by_parent is None:
            by_parent = self._by_parent[file] = {}
            for sym in self.symbols(file)[1:]:
                by_parent.setdefault(sym.parent, {}).setdefault(sym.name, []).append(sym)
            for members in by_parent.values() if self.language[file] == "python" else ():
                for name, found in members.items():
                    if len(found) > 1 and found[0].signature == "@overload":
                        members[name] = [sym for sym in found if sym.signature != "@overload"] or found
        return by_parent.get(parent, {})

    def has_children(self, file: int) -> set[int]:
        """The symbols of a file that others are nested in."""
        self._children(file, 0)
        return set(self._by_parent[file])


def _local(place: int) -> int:
    """The symbol around an occurrence."""
    return place >> LINE_BITS & LOCAL_MASK
