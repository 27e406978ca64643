"""Names in C-family files: namespaces, classes and their bases, `using`, aliases, overloads, macros."""

from typing import TYPE_CHECKING

from repobook.model.schema import CANDIDATE, CERTAIN, FILE_SHIFT
from repobook.reading.engine import CLASSES
from repobook.reading.facts import OPAQUE, STEP, TYPED
from repobook.resolving.answer import CANDIDATES, NOTHING, Answer
from repobook.resolving.tables import Sym

if TYPE_CHECKING:
    from repobook.resolving.names import Names


class NativeNames:
    def __init__(self, names: "Names") -> None:
        self.names = names
        self.tables = names.tables
        self._usings: dict[int, tuple[list[str], dict[str, str]]] = {}
        self._derived: dict[str, Sym | None] = {}
        self._free: dict[str, list[Sym]] = {}
        self._own_file = 0
        self._own: dict[str, list[Sym]] = {}
        self._endings: dict[str, list[Sym]] = {}
        self._decided: dict[str, tuple[Answer, dict[int, Answer]]] = {}

    def resolve(self, file: int, name: str, qualifier: str, local: int, member: bool = False) -> Answer:
        """`member`: reached through `.` or `->`, so that the qualifier is no scope."""
        tables = self.tables
        if qualifier.startswith(TYPED):
            symbols = tables.symbols(file)
            scope = symbols[local].qualified if local < len(symbols) else ""
            kind, *steps = qualifier[1:].split(STEP)
            declared = self.class_of(file, kind, scope)
            if declared is None and self._outside(kind):
                return NOTHING
            owner = self.names.follow(declared, steps)
            if owner is not None:
                found = self.names.member(owner, name)
                if found:
                    return self.names.definitions(found), CERTAIN
                if not owner.bases:
                    return NOTHING
            return self.names.member_of_unknown(name, "cpp")
        found = tables.native(name)
        if not found:
            return NOTHING
        symbols = tables.symbols(file)
        scope = symbols[local].qualified if local < len(symbols) else ""
        usings, aliases = self._using(file)
        if qualifier and qualifier != OPAQUE and not member and _is_scope(qualifier):
            first = qualifier.partition("::")[0]
            if first in aliases:
                qualifier = aliases[first] + qualifier[len(first) :]
            key, chosen = self._scoped(name, qualifier, scope)
            return self._decide(key, chosen, file) if chosen else NOTHING
        if qualifier:
            return self.names.member_of_unknown(name, "cpp")
        # A plain name: the innermost scope that has it wins.
        by_qualified = tables.native_by_qualified(name)
        for prefix in _scopes(scope):
            full = f"{prefix}::{name}" if prefix else name
            if full.endswith(f"::{name}::{name}") or full == f"{name}::{name}":
                continue  # inside a class its name means the class, not the constructor
            chosen_here = by_qualified.get(full)
            if chosen_here:
                return self._decide(full, chosen_here, file)
            if prefix:
                inherited = self._inherited(prefix, name)
                if inherited:
                    return self._decide(f"{prefix}>{name}", inherited, file)
        same = self._in_file(file).get(name)
        if same:
            return self.names.definitions(same), CERTAIN
        for space in usings:
            ending = f"::{space}::{name}"
            chosen_here = [s for full, syms in by_qualified.items() if ("::" + full).endswith(ending) for s in syms]
            if chosen_here:
                return self._decide(f"using{ending}", chosen_here, file)
        # Macros and enumerators do not stand in a scope that their use must name.
        free = self._free.get(name)
        if free is None:
            free = self._free[name] = [sym for sym in found if sym.kind in ("macro", "enumerator")]
        return self._decide(f"#{name}", free, file) if free else NOTHING

    def _outside(self, kind: str) -> bool:
        """Whether a type that is written with its namespace (`std::vector`) is none of the tree's."""
        space, _, last = kind.rpartition("::")
        return bool(space) and not any(sym.kind in CLASSES or sym.kind == "type" for sym in self.tables.native(last))

    def _in_file(self, file: int) -> dict[str, list[Sym]]:
        """The symbols of a file outside its classes, by name; files are resolved one after the other."""
        if self._own_file != file:
            symbols = self.tables.symbols(file)
            self._own_file, self._own = file, {}
            for sym in symbols[1:]:
                if symbols[sym.parent & 0xFFFFF].kind not in CLASSES:
                    self._own.setdefault(sym.name, []).append(sym)
        return self._own

    def _inherited(self, class_name: str, name: str) -> list[Sym]:
        """A member that the class gets from its bases."""
        if class_name not in self._derived:
            self._derived[class_name] = next(
                (
                    s
                    for s in self.tables.native(class_name.rpartition("::")[2])
                    if s.bases and s.qualified == class_name
                ),
                None,
            )
        sym = self._derived[class_name]
        return self.names.member(sym, name) if sym is not None else []

    def _decide(self, key: str, found: list[Sym], file: int) -> Answer:
        """What a file means by the symbols that `key` leads to; what does not hang on the file is worked out once."""
        known = self._decided.get(key)
        if known is None:
            known = self._decided[key] = self._decision(found)
        elsewhere, by_file = known
        return by_file.get(file, elsewhere)

    def _decision(self, found: list[Sym]) -> tuple[Answer, dict[int, Answer]]:
        """The answer for a file that defines none of the symbols, and for each file that does."""
        found = self.names.definitions(found)
        by_file: dict[int, list[Sym]] = {}
        for sym in found:
            by_file.setdefault(sym[0] >> FILE_SHIFT, []).append(sym)
        own: dict[int, Answer] = {file: (same, CERTAIN) for file, same in by_file.items()}
        found = [sym for sym in found if self.tables.seen_elsewhere(sym)]
        if not found:
            return NOTHING, own
        files = len({sym[0] >> FILE_SHIFT for sym in found})
        distinct = len({sym.qualified for sym in found})
        answer = NOTHING
        if distinct == 1 and files == 1:
            answer = found, CERTAIN
        elif distinct == 1 and files <= CANDIDATES:
            sure = all(sym.kind != "function" or sym.declaration for sym in found)
            answer = found, CERTAIN if sure else CANDIDATE
        elif distinct <= CANDIDATES and len(found) <= 2 * CANDIDATES:
            answer = found, CANDIDATE
        return answer, own

    def _scoped(self, name: str, qualifier: str, scope: str) -> tuple[str, list[Sym]]:
        """`qualifier::name` as seen from a scope; where no scope has it, every symbol whose qualified name ends so.

        What it is found by comes first."""
        by_qualified = self.tables.native_by_qualified(name)
        wanted = f"{qualifier}::{name}".removeprefix("::")
        for prefix in _scopes(scope):
            full = f"{prefix}::{wanted}" if prefix else wanted
            exact = by_qualified.get(full)
            if exact:
                return full, exact
        ending = "::" + wanted
        found = self._endings.get(ending)
        if found is None:
            found = [sym for full, syms in by_qualified.items() if full.endswith(ending) for sym in syms]
            self._endings[ending] = found
        return "*" + ending, found

    def _using(self, file: int) -> tuple[list[str], dict[str, str]]:
        known = self._usings.get(file)
        if known is None:
            spaces: list[str] = []
            aliases: dict[str, str] = {}
            for imported in self.tables.imports(file):
                if imported.kind == "using namespace":
                    spaces.append(imported.module)
                elif imported.kind == "using":
                    spaces.append(imported.module.rpartition("::")[0])
                elif imported.kind == "namespace alias":
                    aliases[imported.alias] = imported.module
            known = self._usings[file] = (spaces, aliases)
        return known

    def class_of(self, file: int, text: str, scope: str, depth: int = 0) -> Sym | None:
        """The class that a type names, through one chain of aliases (`using Variable = at::Tensor`)."""
        text = text.strip().removeprefix("const ").strip(" *&")
        bare = text.partition("<")[0].strip()
        space, _, last = bare.rpartition("::")
        _, named = self._scoped(last, space, scope)
        chosen = [s for s in named if s.kind in CLASSES and not s.declaration]
        if not chosen:
            found = [s for s in self.tables.native(last) if s.kind in CLASSES and not s.declaration]
            for using in self._using(file)[0]:
                chosen = [s for s in found if s.qualified.endswith(f"{using}::{bare}")]
                if chosen:
                    break
        if not chosen and depth < 3:
            for alias in [s for s in named if s.kind == "type"][:3]:
                target = alias.signature.partition("=")[2] if "=" in alias.signature else ""
                if target.strip():
                    resolved = self.class_of(alias.file, target, alias.qualified.rpartition("::")[0], depth + 1)
                    if resolved is not None:
                        return resolved
        if len({sym.qualified for sym in chosen}) > 1:
            near = [sym for sym in chosen if sym.file == file]
            return near[0] if near else None
        return chosen[0] if chosen else None


def _is_scope(text: str) -> bool:
    return text.replace("::", "").replace("_", "").isalnum()


def _scopes(scope: str) -> list[str]:
    """`a::b::c` -> [`a::b::c`, `a::b`, `a`, ``]"""
    found = [scope] if scope else []
    while "::" in scope:
        scope = scope.rpartition("::")[0]
        found.append(scope)
    found.append("")
    return found
