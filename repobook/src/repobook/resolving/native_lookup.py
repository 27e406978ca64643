"""The scopes of C-family code: namespaces, classes and their bases, `using`, aliases of namespaces.

Note [ Lookup in C++ ]
A plain name is looked for in the innermost scope first: the scope itself, the bases of a class, the namespaces and
names that the scope takes in with `using`, then the scope around it. A qualified name is looked for from the same
scopes; its qualifier can be a namespace, a class, a derived class or an alias of one. A member is looked for in the
class of its receiver and in the bases of that class. A name before `::` is a namespace or a type, whatever else has its
name. A scope counts if an include reaches what it holds. Names that no include reaches are the last choice.
"""

from collections.abc import Callable, Iterator
from functools import cache
from typing import NamedTuple

from repobook.languages import SOURCES
from repobook.reading.engine import CLASSES
from repobook.resolving.includes import Includes
from repobook.resolving.tables import Sym, Tables

TYPES = CLASSES | {"type", "concept"}
# Kinds that can stand before `::`; a macro can expand to one of the others.
_BEFORE_SCOPE = TYPES | {"namespace", "macro"}
_DEPTH = 6
# A namespace or the names it takes in from others: (namespaces, name -> its qualified name).
_Using = tuple[list[str], dict[str, str]]
_Hit = tuple[str, list[Sym]]
_NO_HIT: _Hit = ("", [])


class Place(NamedTuple):
    """The place of a name: its file and scope, and whether `::` follows it."""

    file: int
    scope: str
    before_scope: bool = False


class Lookup:
    """The symbols that a name leads to from a scope. A hit holds a key that answers can be kept under, and symbols."""

    def __init__(self, tables: Tables, includes: Includes, members: Callable[[Sym, str], list[Sym]]) -> None:
        self.tables = tables
        self.includes = includes
        self._members = members
        self._usings: dict[int, tuple[_Using, dict[str, str]]] = {}
        self._by_space: dict[str, _Using] | None = None
        self._derived: dict[str, list[Sym]] = {}

    # ----- plain names --------------------------------------------------------------------------------------

    def find_visible(self, place: Place, name: str) -> _Hit:
        """The symbols that a plain name means in a scope."""
        return self._choose_reached(place, self._walk_visible(place, name))

    def _choose_reached(self, place: Place, hits: Iterator[_Hit]) -> _Hit:
        """The innermost hit that an include reaches; else the innermost of all. A namespace that no include reaches
        does not hide an outer one: `namespace a::std` of another file leaves `std` as it is."""
        unreached = _NO_HIT
        for hit in hits:
            if self.includes.sees(place.file, hit[1]):
                return hit
            if not unreached[1] or unreached[1][0].kind == "namespace":
                unreached = hit
        return unreached

    def _walk_visible(self, place: Place, name: str) -> Iterator[_Hit]:
        """The symbols of a name, from the inside out."""
        file, scope, before_scope = place
        mark = ":" if before_scope else ""
        for prefix in scopes_around(scope):
            full = f"{prefix}::{name}" if prefix else name
            if full.endswith(f"::{name}::{name}") or full == f"{name}::{name}":
                continue  # inside a class its name means the class, not the constructor
            chosen = self.find_at(place, name, full)
            if chosen:
                yield full + mark, self._add_overloads(place, prefix, name, chosen)
            inherited = self._find_inherited(place, prefix, name) if prefix else []
            if inherited:
                yield f"{prefix}>{name}{mark}", inherited
            taken = self._find_taken_in(place, self._spaces.get(prefix), prefix, name)
            if taken:
                yield f"{prefix}<{name}{mark}", taken
        taken = self._find_taken_in(place, self._using(file)[0], scope, name)
        if taken:
            yield f"{file}<{name}{mark}", taken

    def _add_overloads(self, place: Place, prefix: str, name: str, chosen: list[Sym]) -> list[Sym]:
        """The functions of a scope, and the overloads that `using` adds from another namespace."""
        using = self._spaces.get(prefix)
        if using is None or name not in using[1] or chosen[0].kind != "function":
            return chosen
        return chosen + self._find_taken_in(place, ([], using[1]), prefix, name)

    def find_at(self, place: Place, name: str, full: str) -> list[Sym]:
        """The symbols of a qualified name that a file can see or link to, and that suit its place."""
        found = self.tables.native_by_qualified(name).get(full, [])
        private = self.tables.private(place.file)
        if private and full in private:
            found = private[full] + found
        return keep_suitable(found, place.before_scope)

    def _find_inherited(self, place: Place, class_name: str, name: str) -> list[Sym]:
        """A member that a class gets from its bases. The constructors of a base have its name, which alone means the
        class."""
        derived = self._derived.get(class_name)
        if derived is None:
            last = class_name.rpartition("::")[2]
            derived = self._derived[class_name] = [
                sym
                for sym in self.tables.native(last)
                if sym.bases and sym.qualified == class_name and sym.kind in CLASSES
            ]
        if not derived:
            return []
        if len(derived) > 1:
            derived = self.includes.nearest(place.file, derived)
        if not self.tables.seen_from(derived[0], place.file):
            return []
        found = [sym for sym in self._members(derived[0], name) if not sym.qualified.endswith(f"{name}::{name}")]
        return keep_suitable(found, place.before_scope)

    def _find_taken_in(self, place: Place, using: _Using | None, prefix: str, name: str, depth: int = 0) -> list[Sym]:
        """The symbols that `using` brings into a scope under a name."""
        if using is None or depth > _DEPTH:
            return []
        spaces, by_name = using
        full = by_name.get(name)
        if full is not None:
            for outer in scopes_around(prefix):
                found = self.find_at(place, name, f"{outer}::{full}" if outer else full)
                if found:
                    return found
            space, _, last = full.rpartition("::")
            if space and last == name:
                return self._find_taken_in(place, self._spaces.get(space), space, name, depth + 1)
        inner = [f"{outer}::{space}" if outer else space for space in spaces for outer in scopes_around(prefix)]
        for space in inner:
            found = self.find_at(place, name, f"{space}::{name}")
            if found:
                return found
        for space in inner:
            if space != prefix:
                found = self._find_taken_in(place, self._spaces.get(space), space, name, depth + 1)
                if found:
                    return found
        return []

    # ----- qualified names ----------------------------------------------------------------------------------

    def find_scoped(self, place: Place, name: str, qualifier: str) -> _Hit:
        """The symbols that `qualifier::name` means in a scope."""
        qualifier = qualifier.removeprefix("::")
        if not qualifier:
            return self.find_visible(place, name)
        return self._choose_reached(place, self._walk_scoped(place, name, qualifier))

    def _walk_scoped(self, place: Place, name: str, qualifier: str) -> Iterator[_Hit]:
        mark = ":" if place.before_scope else ""
        spaces = self._spaces
        for prefix in scopes_around(place.scope):
            space = f"{prefix}::{qualifier}" if prefix else qualifier
            found = self.find_at(place, name, f"{space}::{name}")
            if found:
                yield f"{space}::{name}{mark}", found
            taken = self._find_taken_in(place, spaces[space], space, name) if space in spaces else []
            if taken:
                yield f"{space}<{name}{mark}", taken
        first, _, rest = qualifier.partition("::")
        for space in self._spaces_of(place, first):
            full = f"{space}::{rest}::{name}" if rest else f"{space}::{name}"
            found = self.find_at(place, name, full)
            if found:
                yield full + mark, found

    def _spaces_of(self, place: Place, first: str) -> list[str]:
        """The namespaces that the first part of a qualifier can mean through `using`."""
        by_qualified = self.tables.native_by_qualified(first)
        found = []
        candidates = [(prefix, self._spaces.get(prefix)) for prefix in scopes_around(place.scope)]
        candidates.append((place.scope, self._using(place.file)[0]))
        for prefix, using in candidates:
            for space in using[0] if using is not None else ():
                for outer in scopes_around(prefix):
                    full = f"{outer}::{space}::{first}" if outer else f"{space}::{first}"
                    if any(sym.kind == "namespace" for sym in by_qualified.get(full, ())):
                        found.append(full)
        return found

    def expand_alias(self, file: int, qualifier: str) -> str:
        """A qualifier whose first part is no alias of a namespace."""
        first = qualifier.partition("::")[0]
        aliases = self._using(file)[1]
        return aliases[first] + qualifier[len(first) :] if first in aliases else qualifier

    # ----- using --------------------------------------------------------------------------------------------

    @property
    def _spaces(self) -> dict[str, _Using]:
        """The names that headers take into each namespace with `using`."""
        if self._by_space is None:
            self._by_space = {}
            rows = self.tables.db.execute(
                "SELECT file, local, kind, module FROM imports WHERE kind IN ('using namespace', 'using') ORDER BY file"
            )
            for file, local, kind, module in rows:
                if not self.tables.path[file].endswith(SOURCES):
                    self._add_using(self._by_space, self.tables.symbols(file)[local], kind, module.removeprefix("::"))
        return self._by_space

    def _add_using(self, by_space: dict[str, _Using], around: Sym, kind: str, module: str) -> None:
        if around.kind not in ("namespace", "file"):
            return
        prefix = around.qualified if around.kind == "namespace" else ""
        spaces, by_name = by_space.setdefault(prefix, ([], {}))
        if kind == "using":
            by_name.setdefault(module.rpartition("::")[2], module)
        elif module not in spaces and module != prefix:
            spaces.append(module)

    def _using(self, file: int) -> tuple[_Using, dict[str, str]]:
        """The names that a file takes in with `using` anywhere, and its aliases of namespaces."""
        known = self._usings.get(file)
        if known is None:
            spaces: list[str] = []
            by_name: dict[str, str] = {}
            aliases: dict[str, str] = {}
            for imported in self.tables.imports(file):
                module = imported.module.removeprefix("::")
                if imported.kind == "using namespace":
                    spaces.append(module)
                elif imported.kind == "using":
                    by_name[module.rpartition("::")[2]] = module
                elif imported.kind == "namespace alias":
                    aliases[imported.alias] = module
            known = self._usings[file] = ((spaces, by_name), aliases)
        return known


def keep_suitable(found: list[Sym], before_scope: bool) -> list[Sym]:
    """Of the symbols with a name, those that can stand before `::`, if the name does."""
    if not before_scope or not found:
        return found
    if found[0].kind == "namespace" and found[-1].kind == "namespace":
        return found  # a namespace is opened in thousands of files, and nothing else has its qualified name
    return [sym for sym in found if sym.kind in _BEFORE_SCOPE]


@cache
def scopes_around(scope: str) -> list[str]:
    """`a::b::c` -> [`a::b::c`, `a::b`, `a`, ``]"""
    found = [scope] if scope else []
    while "::" in scope:
        scope = scope.rpartition("::")[0]
        found.append(scope)
    found.append("")
    return found
