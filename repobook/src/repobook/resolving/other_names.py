"""Names in languages that share one set of rules: Go, Rust, Java, JavaScript, TypeScript, shell, CMake.

A name is looked for in the class of its receiver, then in its own file, in the files that are imported, in its package.
"""

from typing import TYPE_CHECKING

from repobook.model.schema import CANDIDATE, CERTAIN, LIKELY
from repobook.reading.engine import CLASSES
from repobook.reading.facts import CALL, MEMBER, OPAQUE, SCOPE, SCOPED, STEP, TYPED
from repobook.resolving.answer import CANDIDATES, DEPTH, NOTHING, Answer
from repobook.resolving.tables import Imported, Sym

if TYPE_CHECKING:
    from repobook.resolving.names import Names

# Methods of the languages' own strings, containers, iterators and promises: that the tree has one class with such a
# method says little about a receiver.
_COMMON = frozenset(
    """
    add all and_then any append apply as_bytes as_ref as_str bind call catch chars clear clone close cmp collect concat
    contains count create default delete deref drop end ends_with entries enumerate eq err every exec expect extend
    filter find flush fmt for_each forEach from get has hash includes index indexOf insert into is_empty iter join keys
    len length lines map match max min new next ok open or_else parse pop print push put read remove replace resolve
    rev reverse run send set size skip slice sort splice split start starts_with stop sum take test then toString
    to_string trim unwrap update values write zip String Error Len Less Swap Read Write Close path arg args name kind
    """.split()  # noqa: SIM905
)
_SCRIPTS = ("javascript", "typescript", "tsx")
_FAMILIES = {"javascript": _SCRIPTS, "typescript": _SCRIPTS, "tsx": _SCRIPTS}
# Go has one namespace per folder, and so has Java.
_PACKAGED = ("go", "java")
_TYPES = CLASSES | {"type"}
_BEFORE_SCOPE = _TYPES | {"module", "namespace"}
_MEMBERS = ("method", "field", "function", "enumerator", "constant", "property")


class OtherNames:
    def __init__(self, names: "Names") -> None:
        self.names = names
        self.tables = names.tables
        self.modules = names.modules
        self._reached: dict[tuple[int, str], list[Sym]] = {}

    def resolve(self, file: int, name: str, qualifier: str, local: int, flags: int) -> Answer:
        language = self.tables.language[file]
        found = self._find_named(language, name)
        if flags & CALL and language in ("rust", "java"):
            found = [sym for sym in found if sym.kind != "field"]  # their calls never mean a field
        if flags & SCOPE:
            found = [sym for sym in found if sym.kind in _BEFORE_SCOPE]
        if not qualifier:
            return self._find_renamed(file, name) or self._find_plain(file, name, found)
        if not found:
            return NOTHING
        if qualifier.startswith(TYPED):
            return self._find_typed_member(file, name, qualifier, found)
        if qualifier == OPAQUE:
            return _weigh_unknown(file, name, found)
        return self._find_by_text(file, name, qualifier, local, found, flags)

    def _find_renamed(self, file: int, name: str) -> Answer | None:
        """The symbol behind `import { a as name }`; None where no import renames."""
        for row in self.tables.imports(file):
            if row.alias == name and row.target and row.name not in ("*", "default"):
                origin = row.name or row.module.rpartition("::")[2]
                reached = self._find_imported(
                    [row._replace(name="*")], self._find_named(self.tables.language[file], origin)
                )
                if reached:
                    return _one_name(reached)
        return None

    def _find_named(self, language: str, name: str) -> list[Sym]:
        family = _FAMILIES.get(language, (language,))
        language_of = self.tables.language
        return [sym for sym in self.tables.find_named(name) if language_of[sym.file] in family and sym.kind != "impl"]

    # ----- plain names --------------------------------------------------------------------------------------

    def _find_plain(self, file: int, name: str, found: list[Sym]) -> Answer:
        """A name without a receiver: of this file, of its imports, of its package."""
        language = self.tables.language[file]
        if language != "java":
            found = [sym for sym in found if sym.kind not in ("method", "field", "property")]  # they need a receiver
        if not found:
            return NOTHING
        same = [sym for sym in found if sym.file == file]
        if same:
            return same, CERTAIN
        imports = [row for row in self.tables.imports(file) if _binds(row, name, language)]
        if any(not row.target for row in imports):
            return NOTHING  # it comes from outside the tree
        reached = self._find_imported(imports, found) or self._find_imported(self._wildcards(file, language), found)
        if reached:
            return _one_name(reached)
        if language in _PACKAGED:
            folder = _folder(self.tables.path[file])
            near = [sym for sym in found if _folder(self.tables.path[sym.file]) == folder]
            if near:
                return _one_name(near)
        return NOTHING

    def _wildcards(self, file: int, language: str) -> list[Imported]:
        """Imports that bind names which they do not list."""
        return [
            row
            for row in self.tables.imports(file)
            if row.target
            and not row.alias
            and (row.name == "*" or (not row.name and language not in (*_SCRIPTS, "rust", "go")))
        ]

    def _find_imported(self, imports: list[Imported], found: list[Sym]) -> list[Sym]:
        """Of the symbols, those that imports reach, through files that export them again."""
        reached: list[Sym] = []
        for row in imports:
            if not row.target:
                continue
            wanted = row.name if row.name not in ("", "*", "default") else ""
            here = [sym for sym in found if not wanted or sym.name == wanted] or self._follow_rename(row, found)
            reached += self._find_exported(row.target, here)
        return list(dict.fromkeys(reached))

    def _follow_rename(self, row: Imported, found: list[Sym]) -> list[Sym]:
        """The symbols behind `import { a as b }`: those of the name a."""
        if not found or not row.name:
            return []
        return self._find_named(self.tables.language[found[0].file], row.name)

    def _find_exported(self, target: int, found: list[Sym], depth: int = 0) -> list[Sym]:
        """Of the symbols, those that a file defines or exports again from another."""
        own = [sym for sym in found if sym.file == target and sym.kind not in ("method", "field")]
        if own or depth > DEPTH or not found:
            return own
        if self.tables.language[target] in _PACKAGED:
            folder = _folder(self.tables.path[target])
            return [sym for sym in found if _folder(self.tables.path[sym.file]) == folder]
        names = {sym.name for sym in found}
        for row in self.tables.imports(target):
            if row.kind == "export" and row.target and (row.name in ("", "*") or row.name in names):
                own = self._find_exported(row.target, found, depth + 1)
                if own:
                    return own
        return []

    # ----- names with a receiver ----------------------------------------------------------------------------

    def _find_typed_member(self, file: int, name: str, qualifier: str, found: list[Sym]) -> Answer:
        """A member of a receiver of a known type, perhaps after some fields."""
        kind, *steps = qualifier[1:].split(STEP)
        owner, at = self._result(file, kind) if kind.endswith("()") else (kind, file)
        for step in steps:
            if not owner:
                break
            held = self._members(at, owner, step.removesuffix("()"), self._find_named(self.tables.language[file], step))
            if not held or not held[0].bases:
                return _weigh_unknown(file, name, found)
            owner, at = held[0].bases, held[0].file
        if not owner:
            return _weigh_unknown(file, name, found)
        exact = self._members(at, owner, name, found)
        if exact:
            return _one_name(exact)
        last = owner.replace("::", ".").rpartition(".")[2]
        if not steps and not any(sym.kind in _TYPES for sym in self._find_named(self.tables.language[file], last)):
            return NOTHING  # a type from outside the tree
        return _make_guess(_weigh_unknown(file, name, found))

    def _result(self, file: int, call: str) -> tuple[str, int]:
        """The type that a function of this file, its imports or its package returns, and the file that says so."""
        name = call[:-2].replace("::", ".").rpartition(".")[2]
        functions = [
            sym for sym in self._find_named(self.tables.language[file], name) if sym.kind in ("function", "method")
        ]
        found, certainty = self._find_plain(file, name, functions)
        if certainty != CERTAIN or len({sym.bases for sym in found}) != 1:
            return "", file
        return found[0].bases, found[0].file

    def _members(self, file: int, owner: str, name: str, found: list[Sym], depth: int = 0) -> list[Sym]:
        """Of the symbols, the members of a class or of the classes that it derives from or embeds."""
        separator = "::" if self.tables.language[file] == "rust" else "."
        last = owner.replace("::", ".").rpartition(".")[2]
        ending = f"{separator}{last}{separator}{name}"
        exact = [sym for sym in found if (separator + sym.qualified).endswith(ending)]
        nearest = [sym for sym in exact if sym.file == file]
        if not nearest and self.tables.language[file] in _PACKAGED:
            folder = _folder(self.tables.path[file])
            nearest = [sym for sym in exact if _folder(self.tables.path[sym.file]) == folder]
        if nearest or exact or depth > DEPTH:
            return nearest or exact
        known = self.class_of(file, last)
        for base in self.names.bases(known) if known is not None and known.bases else ():
            inherited = self._members(base.file, base.name, name, found, depth + 1)
            if inherited:
                return inherited
        return []

    def _find_by_text(self, file: int, name: str, qualifier: str, local: int, found: list[Sym], flags: int) -> Answer:
        """A name behind a module, a class or a variable."""
        language = self.tables.language[file]
        root = qualifier.partition(".")[0].partition("::")[0]
        imports = [row for row in self.tables.imports(file) if _binds(row, root, language)]
        if imports and all(not row.target for row in imports):
            return NOTHING
        if flags & SCOPED and language == "rust":
            path = self._outside_inline_modules(file, local, qualifier)
            target = self.modules.rust_module(path, self.tables.path[file])
            inside = [sym for sym in found if self.tables.path[sym.file] == target] if target else []
            inside = [sym for sym in inside if sym.kind not in ("method", "field")]
            if inside:
                return _one_name(inside)
        last = qualifier.replace("::", ".").rpartition(".")[2]
        exact = self._members(file, last, name, found)
        if exact:
            return _one_name(exact)
        if imports and "." not in qualifier and "::" not in qualifier:
            reached = self._find_imported([row._replace(name="*") for row in imports], found)
            if reached:
                return _one_name(reached)
            if language == "go" or any(row.name == "*" for row in imports):
                return NOTHING  # the module has no such name
        if flags & MEMBER:
            return _weigh_unknown(file, name, found)
        return (
            NOTHING if root in ("std", "core", "alloc", "fmt", "io") else _make_guess(_weigh_unknown(file, name, found))
        )

    def _outside_inline_modules(self, file: int, local: int, qualifier: str) -> str:
        """A path of Rust as the top of its file would write it: inside `mod tests {`, `super` is the file itself."""
        symbols = self.tables.symbols(file)
        at = symbols[local] if local < len(symbols) else symbols[0]
        while at.kind != "file" and qualifier.startswith("super"):
            if at.kind == "module":
                qualifier = "self" + qualifier.removeprefix("super")
                break
            at = symbols[at.parent & 0xFFFFF]
        return qualifier

    def class_of(self, file: int, text: str) -> Sym | None:
        """The class that a type names: of this file, its imports or its package; else the only one of the tree."""
        name = text.replace("::", ".").rpartition(".")[2].partition("<")[0].strip()
        language = self.tables.language[file]
        found = [sym for sym in self._find_named(language, name) if sym.kind in CLASSES]
        near = [sym for sym in found if sym.file == file]
        if not near and language in _PACKAGED:
            folder = _folder(self.tables.path[file])
            near = [sym for sym in found if _folder(self.tables.path[sym.file]) == folder]
        if not near:
            near = self._find_imported([row for row in self.tables.imports(file) if _binds(row, name, language)], found)
        chosen = near or (found if len(found) == 1 else [])
        return chosen[0] if chosen else None


def _one_name(found: list[Sym]) -> Answer:
    """Certain if all symbols are one name, candidates otherwise."""
    return found[:CANDIDATES], CERTAIN if len({sym.qualified for sym in found}) == 1 else CANDIDATE


def _weigh_unknown(file: int, name: str, found: list[Sym]) -> Answer:
    """A member of an unknown receiver; one that the language's own types have too is a guess."""
    # The definitions of a module of tests inside a file are private to that file.
    members = [sym for sym in found if sym.kind in _MEMBERS and (sym.file == file or "tests::" not in sym.qualified)]
    if not members or len(members) > CANDIDATES:
        return NOTHING
    sure = len({sym.qualified for sym in members}) == 1 and name not in _COMMON
    return members, LIKELY if sure else CANDIDATE


def _make_guess(answer: Answer) -> Answer:
    return answer[0], min(answer[1], CANDIDATE)


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _binds(row: Imported, name: str, language: str) -> bool:
    """True if an import binds a name."""
    if row.kind == "export":
        return False
    if row.alias:
        return row.alias == name
    if row.name not in ("", "*"):
        return row.name == name
    if language in _SCRIPTS:
        return False
    module = row.module.rstrip("/").replace("::", "/")
    last = module.rpartition("/")[2]
    if language == "go":
        return last == name or (last.startswith("v") and last[1:].isdigit() and module.split("/")[-2:][0] == name)
    return last.rpartition(".")[2] == name
