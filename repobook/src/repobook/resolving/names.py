"""References to definitions: the door to the rules of each language, and what they share.

Where the rules of scope do not decide, all candidates are given; see `answer`, Note [ Certainty ].
"""

from repobook.languages import C_FAMILY
from repobook.model.schema import CANDIDATE, CERTAIN, FILE_SHIFT, LIKELY
from repobook.reading.facts import CALL, MEMBER, OPAQUE, STEP, TYPED
from repobook.resolving.answer import CANDIDATES, DEPTH, NOTHING, Answer, split_arguments
from repobook.resolving.modules import Modules
from repobook.resolving.native_names import NativeNames
from repobook.resolving.python_names import PythonNames
from repobook.resolving.tables import Imported, Sym, Tables

# Methods of the languages' own containers: an unknown receiver is more likely one of those than the tree's class.
_BUILTIN = frozenset(
    name
    for kind in (str, bytes, list, dict, set, frozenset, tuple, int, float, type, object, BaseException)
    for name in dir(kind)
) | frozenset({"close", "read", "write", "readline", "flush", "group", "match", "search", "start", "end"})
_STD = frozenset(
    [
        "size",
        "begin",
        "end",
        "cbegin",
        "cend",
        "rbegin",
        "rend",
        "push_back",
        "emplace_back",
        "emplace",
        "insert",
        "erase",
        "find",
        "at",
        "front",
        "back",
        "data",
        "empty",
        "clear",
        "resize",
        "reserve",
        "get",
        "reset",
        "release",
        "lock",
        "unlock",
        "load",
        "store",
        "first",
        "second",
        "value",
        "has_value",
        "c_str",
        "str",
        "substr",
        "count",
        "swap",
        "append",
        "pop_back",
        "length",
        "what",
        "wait",
        "notify_one",
        "notify_all",
        "join",
        "detach",
        "use_count",
        "assign",
    ]
)
# Methods of NumPy's arrays and their like: that the tree has one class with such a method says little about a receiver.
_ARRAYS = frozenset(
    """
    all any argmax argmin argsort astype clip clone conj copy cumprod cumsum diagonal dot dtype execute fill flatten
    imag item itemsize matmul max mean min ndim nonzero norm numpy prod ptp ravel real repeat reshape resize round save
    shape size sort split squeeze std strides sum swapaxes take tobytes tolist trace transpose unsqueeze var view
    """.split()  # noqa: SIM905
)
# The same for the languages without rules of their own: methods of their strings, containers, iterators, promises.
_COMMON = frozenset(
    """
    add all and_then any append apply as_bytes as_ref as_str bind call catch chars clear clone close cmp collect concat
    contains count create default delete deref drop end ends_with entries enumerate eq err every exec expect extend
    filter find flush fmt for_each forEach from get has hash includes index indexOf insert into is_empty iter join keys
    len length lines map match max min new next ok open or_else parse pop print push put read remove replace resolve
    rev reverse run send set size skip slice sort splice split start starts_with stop sum take test then toString
    to_string trim unwrap update values write zip
    """.split()  # noqa: SIM905
)
_FAMILIES = {
    "javascript": ("javascript", "typescript", "tsx"),
    "typescript": ("javascript", "typescript", "tsx"),
    "tsx": ("javascript", "typescript", "tsx"),
}


class Names:
    def __init__(self, tables: Tables, modules: Modules) -> None:
        self.tables = tables
        self.modules = modules
        self.python = PythonNames(self)
        self.native = NativeNames(self)
        self._opaque: dict[tuple[str, bool], Answer] = {}
        self._types: dict[int, Sym | None] = {}
        self._bases: dict[int, list[Sym]] = {}

    def resolve(self, file: int, name: str, qualifier: str, local: int, flags: int = 0) -> Answer:
        """The definitions that an occurrence of `qualifier.name` inside the symbol `local` of a file can mean.

        `flags` say how it is reached (`facts`): through an object or a scope, as a call."""
        language = self.tables.language[file]
        if language == "python" or language == "starlark":
            return self.python.resolve(file, name, qualifier, local)
        if language in C_FAMILY:
            return self.native.resolve(file, name, qualifier, local, bool(flags & MEMBER))
        return self._plain(file, name, qualifier, bool(flags & CALL))

    def type_of(self, sym: Sym) -> Sym | None:
        """The class of a field or variable, where its definition states it."""
        if sym.kind not in ("field", "variable", "property") or not sym.bases:
            return None
        if sym.id not in self._types:
            self._types[sym.id] = None  # a type that is stated through itself is not known
            if self.tables.language[sym.file] in C_FAMILY:
                found = self.native.class_of(sym.file, sym.bases, sym.qualified.rpartition("::")[0])
            else:
                found = self.python.class_of(sym.file, sym.bases)
            self._types[sym.id] = found
        return self._types[sym.id]

    def follow(self, owner: Sym | None, steps: list[str]) -> Sym | None:
        """The class that a chain of members leads to: `x`, `y` of `self.x.y.f`."""
        for step in steps:
            if owner is None:
                return None
            found = self.member(owner, step)
            owner = self.type_of(found[0]) if found else None
        return owner

    def bases(self, owner: Sym) -> list[Sym]:
        """The classes of the tree that a class derives from."""
        known = self._bases.get(owner.id)
        if known is not None:
            return known
        language = self.tables.language[owner.file]
        found: list[Sym] = []
        self._bases[owner.id] = found
        for text in split_arguments(owner.bases):
            if "=" in text or not text:
                continue
            bare = text.partition("[")[0].partition("<")[0].strip()
            if language in C_FAMILY:
                sym = self.native.class_of(owner.file, bare, owner.qualified)
            else:
                sym = self.python.class_of(owner.file, bare)
            if sym is not None and sym.id != owner.id:
                found.append(sym)
        return found

    def member(self, owner: Sym, name: str, depth: int = 0) -> list[Sym]:
        """A member of a class or of its bases, nearest first."""
        found = self.tables.members(owner).get(name)
        if found:
            return found
        if self.tables.language[owner.id >> FILE_SHIFT] in C_FAMILY:
            found = self.tables.native_by_qualified(name).get(f"{owner.qualified}::{name}")
            if found:
                return found
        if depth > DEPTH or not owner.bases:
            return []
        for base in self.bases(owner):
            found = self.member(base, name, depth + 1)
            if found:
                return found
        return []

    def member_of_unknown(self, name: str, language: str) -> Answer:
        """A member of an unknown receiver: whatever classes of the tree have it."""
        python = language == "python"
        key = (name, python)
        known = self._opaque.get(key)
        if known is not None:
            return known
        answer = NOTHING
        if name not in (_BUILTIN if python else _STD) and not name.startswith("__"):
            found = [
                sym
                for sym in self.tables.named(name)
                if sym.kind in ("method", "field", "property")
                and (
                    self.tables.language[sym.file] == "python" if python else self.tables.language[sym.file] in C_FAMILY
                )
            ]
            if python:
                found = [s for s in found if ".pyi" not in self.tables.path[s.file]] + self.registered(name)
            answer = self._weigh(found)
            if python and name in _ARRAYS and answer[1] == LIKELY:
                answer = answer[0], CANDIDATE
        self._opaque[key] = answer
        return answer

    def _weigh(self, found: list[Sym]) -> Answer:
        if not found:
            return NOTHING
        distinct = len({sym.qualified for sym in found})
        if distinct == 1:
            return self.definitions(found), LIKELY
        if distinct <= CANDIDATES:
            return self.definitions(found), CANDIDATE
        return NOTHING

    def registered(self, name: str) -> list[Sym]:
        """The functions that are registered under a name for another language."""
        found: list[Sym] = []
        for file, target, local in self.tables.exposed(name):
            if target:
                found += self.bound_target(file, target)
            else:
                symbols = self.tables.symbols(file)
                if local < len(symbols):
                    found.append(symbols[local])
        return list(dict.fromkeys(found))

    def bound_target(self, file: int, target: str) -> list[Sym]:
        """The function that a row of a method table or a `.def` names."""
        scope, _, last = target.rpartition("::")
        found, _ = self.native.resolve(file, last, scope, 0)
        if not found:
            wanted = "::" + target
            found = [s for s in self.tables.named(last) if ("::" + s.qualified).endswith(wanted)]
            same = [s for s in found if s.file == file]
            found = same or found
        return self.definitions(found)[:CANDIDATES]

    def definitions(self, found: list[Sym]) -> list[Sym]:
        """Definitions instead of the declarations that they complete."""
        if len(found) < 2:
            return found
        defined = {sym.qualified for sym in found if not sym.declaration}
        return [sym for sym in found if not (sym.declaration and sym.qualified in defined)]

    def _plain(self, file: int, name: str, qualifier: str, call: bool) -> Answer:
        """Languages without rules of their own here: this file, then what it imports, then the tree."""
        tables = self.tables
        language = tables.language[file]
        family = _FAMILIES.get(language, (language,))
        found = [sym for sym in tables.named(name) if tables.language[sym.file] in family]
        if call and language in ("rust", "java"):
            found = [sym for sym in found if sym.kind != "field"]  # their calls never mean a field
        if not found:
            return NOTHING
        owner, *steps = qualifier.removeprefix(TYPED).split(STEP)
        imports = tables.imports(file)
        if owner and not qualifier.startswith(TYPED) and _of_outside(owner, imports):
            return NOTHING
        if owner and owner != OPAQUE and not steps:
            separator = "::" if language == "rust" else "."
            ending = separator + owner + separator + name
            exact = [sym for sym in found if (separator + sym.qualified).endswith(ending)]
            exact = [sym for sym in exact if sym.file == file] or exact
            if exact:
                return exact[:CANDIDATES], CERTAIN if len({s.qualified for s in exact}) == 1 else CANDIDATE
        same = [sym for sym in found if sym.file == file]
        if same and not qualifier:
            return same, CERTAIN
        reached = {imported.target for imported in imports if imported.target}
        near = [sym for sym in found if sym.file in reached]
        if near and (not qualifier or _names_import(owner, imports)):
            return (near, CERTAIN) if len({s.qualified for s in near}) == 1 else (near[:CANDIDATES], CANDIDATE)
        if language in ("go", "java"):
            folder = tables.path[file].rpartition("/")[0]
            near = [sym for sym in found if tables.path[sym.file].rpartition("/")[0] == folder]
            if near and not qualifier:
                return near[:CANDIDATES], CERTAIN if len(near) == 1 else CANDIDATE
        members = [sym for sym in found if sym.kind in ("method", "field", "function")] if qualifier else []
        if members and len(members) <= CANDIDATES:
            # What the language's own types have too is more than a guess only where the receiver is known.
            sure = len({sym.qualified for sym in members}) == 1 and name not in _COMMON
            return members, LIKELY if sure else CANDIDATE
        return NOTHING


def _of_outside(qualifier: str, imports: list[Imported]) -> bool:
    """Whether the first part of a qualifier is what an import from outside the tree binds under a name of its own."""
    root = qualifier.partition(".")[0].partition("::")[0]
    return any(one.alias == root and not one.target for one in imports if one.alias)


def _names_import(qualifier: str, imports: list[Imported]) -> bool:
    """Whether the first part of a qualifier is what an import binds."""
    root = qualifier.partition(".")[0].partition("::")[0]
    for one in imports:
        bound = one.alias or one.name or one.module.rstrip("/").replace("::", "/").rpartition("/")[2].partition(".")[0]
        if bound == root:
            return True
    return False
