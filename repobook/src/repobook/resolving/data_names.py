"""Names in data and build files: operators and the functions that formulas call, targets of CMake and their sources."""

from typing import TYPE_CHECKING

from repobook.model.schema import CANDIDATE, CERTAIN, LIKELY
from repobook.reading.facts import OPERATOR, SOURCE, TARGET
from repobook.resolving.answer import CANDIDATES, NOTHING, Answer
from repobook.resolving.tables import Sym

if TYPE_CHECKING:
    from repobook.resolving.names import Names

# Namespaces of the functions that formulas of gradients call without a qualifier, nearest first.
_FORMULA_SPACES = ("torch::autograd::generated::details", "torch::autograd", "at", "c10")
MARKS = frozenset({OPERATOR, TARGET, SOURCE})


class DataNames:
    def __init__(self, names: "Names") -> None:
        self.names = names
        self.tables = names.tables

    def resolve(self, file: int, name: str, qualifier: str) -> Answer:
        """Definitions that a name of a data file means. Its qualifier is a mark for the kind of the name."""
        if qualifier == OPERATOR:
            return self._operator(file, name)
        if qualifier == TARGET:
            # A build file knows the targets of its own build system only.
            language = self.tables.language
            found = [
                sym
                for sym in self.tables.find_named(name.rpartition("::")[2])
                if sym.kind == "target" and language[sym.file] == language[file]
            ]
            if not found:
                return NOTHING
            return found[:CANDIDATES], CERTAIN if len(found) == 1 else CANDIDATE
        if qualifier == SOURCE:
            target = self.names.modules.find_beside(name, self.tables.path[file])
            return (self.tables.symbols(self.tables.by_path[target])[:1], CERTAIN) if target else NOTHING
        return self._function(name, qualifier)

    def _operator(self, file: int, name: str) -> Answer:
        """The operator of a schema name, or all its overloads if the name has none."""
        base = name.partition(".")[0].rpartition("::")[2]
        rows = [row for row in self.tables.exposed(base) if row.kind == "operator"]
        found = [self.tables.symbols(row.file)[row.local] for row in rows]
        exact = [sym for sym in found if sym.name == name]
        if exact:
            return exact, CERTAIN
        return (found, CERTAIN) if found and "." not in name and self.tables.language[file] != "yaml" else NOTHING

    def _function(self, name: str, space: str) -> Answer:
        """A function that a formula calls."""
        by_qualified = self.tables.native_by_qualified(name)
        for outer in (*_FORMULA_SPACES, ""):
            inner = "::".join(part for part in (outer, space) if part)
            found = [sym for sym in by_qualified.get(f"{inner}::{name}" if inner else name, ()) if _is_function(sym)]
            if found:
                return self.names.definitions(found)[:CANDIDATES], CERTAIN
        generated = self.names.find_generated(name, space or "at")
        if generated:
            return generated, CERTAIN
        found = [sym for sym in self.tables.native(name) if sym.kind == "function"]
        return (self.names.definitions(found), LIKELY) if len({s.qualified for s in found}) == 1 else NOTHING


def _is_function(sym: Sym) -> bool:
    return sym.kind in ("function", "macro")
