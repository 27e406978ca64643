"""Names in C-family files: namespaces, classes and their bases, `using`, aliases, overloads, macros.

Note [ Lookup in C++ ]
A plain name is looked for in the innermost scope first: the scope itself, the bases of a class, the namespaces and
names that the scope takes in with `using`, then the scope around it. A qualified name is looked for from the same
scopes; its qualifier can be a namespace, a class, a derived class or an alias of one. A member is looked for in the
class of its receiver and in the bases of that class. A name before `::` is a namespace or a type, whatever else has its
name.
"""

from functools import cache
from typing import TYPE_CHECKING

from repobook.model.schema import CANDIDATE, CERTAIN, FILE_SHIFT, LIKELY
from repobook.reading.engine import CLASSES
from repobook.reading.facts import ARROW, HOLDS, MEMBER, OPAQUE, SCOPE, STEP, TYPED
from repobook.resolving.answer import CANDIDATES, NOTHING, Answer
from repobook.resolving.tables import SOURCES, Sym

if TYPE_CHECKING:
    from repobook.resolving.names import Names

TYPES = CLASSES | {"type", "concept"}
# Kinds that can stand before `::`; a macro can expand to one of the others.
_BEFORE_SCOPE = TYPES | {"namespace", "macro"}
_CALLABLE = frozenset({"function", "method", "operator"})
_DEPTH = 6
# Namespaces that trees use and never are: what they hold is outside unless the tree says so itself.
_OUTSIDE = frozenset({"std", "pybind11", "py", "boost", "fmt", "nlohmann", "testing", "thrust", "cub", "absl", "folly"})
# A namespace or the names it takes in from others: (namespaces, name -> its qualified name).
_Using = tuple[list[str], dict[str, str]]


class NativeNames:
    def __init__(self, names: "Names") -> None:
        self.names = names
        self.tables = names.tables
        self._usings: dict[int, tuple[_Using, dict[str, str]]] = {}
        self._by_space: dict[str, _Using] | None = None
        self._derived: dict[str, Sym | None] = {}
        self._free: dict[str, list[Sym]] = {}
        self._classes: dict[tuple[int, str, str, bool], Sym | None] = {}
        self._own_file = 0
        self._own: dict[str, list[Sym]] = {}
        self._endings: dict[str, list[Sym]] = {}
        self._decided: dict[str, tuple[Answer, dict[int, Answer]]] = {}

    def resolve(self, file: int, name: str, qualifier: str, local: int, flags: int = 0) -> Answer:
        """The definitions that a name means; `flags` say how it is reached (`facts`)."""
        symbols = self.tables.symbols(file)
        scope = symbols[local].qualified if local < len(symbols) else ""
        if qualifier.startswith(TYPED):
            return self._member_of_type(file, name, qualifier, scope, bool(flags & ARROW))
        if flags & MEMBER:
            return self._member_of_text(file, name, qualifier, scope, bool(flags & ARROW))
        if qualifier and qualifier != OPAQUE and _is_scope(qualifier):
            return self._qualified(file, name, qualifier, scope, bool(flags & SCOPE))
        if qualifier:
            return self.names.member_of_unknown(name, "cpp")
        return self._plain(file, name, scope, bool(flags & SCOPE))

    # ----- plain names --------------------------------------------------------------------------------------

    def _plain(self, file: int, name: str, scope: str, before_scope: bool) -> Answer:
        found = self.tables.native(name)
        if not found:
            return NOTHING
        key, chosen = self._visible(file, name, scope, before_scope)
        if chosen:
            return self._decide(key, chosen, file)
        same = _suitable(self._in_file(file).get(name, []), before_scope)
        if same:
            # Another scope of this file has it: through `using` of a kind that is not followed, most often.
            return self.names.definitions(same), LIKELY
        # Macros stand in no scope, and enumerators in that of their enumeration.
        free = self._free.get(name)
        if free is None:
            free = self._free[name] = [sym for sym in found if sym.kind in ("macro", "enumerator")]
        around = _scopes(scope)
        free = [sym for sym in _suitable(free, before_scope) if sym.kind == "macro" or _enumerated_in(sym) in around]
        key = "#" + " ".join(sorted({sym.qualified for sym in free}))
        return self._decide(key, free, file) if free else NOTHING

    def _visible(self, file: int, name: str, scope: str, before_scope: bool = False) -> tuple[str, list[Sym]]:
        """What a plain name means in a scope, and the key that the answer can be kept under."""
        by_qualified = self.tables.native_by_qualified(name)
        spaces = self._spaces
        for prefix in _scopes(scope):
            full = f"{prefix}::{name}" if prefix else name
            if full.endswith(f"::{name}::{name}") or full == f"{name}::{name}":
                continue  # inside a class its name means the class, not the constructor
            chosen = _suitable(by_qualified.get(full, []), before_scope)
            if chosen:
                # `using` can add overloads from another namespace to a function.
                using = self._spaces.get(prefix)
                if using is not None and name in using[1] and chosen[0].kind == "function":
                    chosen = chosen + self._taken_in(([], using[1]), prefix, name, before_scope)
                return f"{full}:" if before_scope else full, chosen
            if prefix:
                # The constructors of a base have its name; the name alone means the class.
                members = [
                    sym for sym in self._inherited(prefix, name) if not sym.qualified.endswith(f"{name}::{name}")
                ]
                inherited = _suitable(members, before_scope)
                if inherited:
                    return f"{prefix}>{name}", inherited
            if prefix in spaces:
                taken = self._taken_in(spaces[prefix], prefix, name, before_scope)
                if taken:
                    return f"{prefix}<{name}{':' if before_scope else ''}", taken
        taken = self._taken_in(self._using(file)[0], scope, name, before_scope)
        return f"{file}<{name}{':' if before_scope else ''}", taken

    def _taken_in(self, using: _Using | None, prefix: str, name: str, before_scope: bool, depth: int = 0) -> list[Sym]:
        """What `using` brings a name into a scope from."""
        if using is None or depth > _DEPTH:
            return []
        spaces, by_name = using
        by_qualified = self.tables.native_by_qualified(name)
        full = by_name.get(name)
        if full is not None:
            for outer in _scopes(prefix):
                found = _suitable(by_qualified.get(f"{outer}::{full}" if outer else full, []), before_scope)
                if found:
                    return found
            space, _, last = full.rpartition("::")
            if space and last == name:
                return self._taken_in(self._spaces.get(space), space, name, before_scope, depth + 1)
        inner = [f"{outer}::{space}" if outer else space for space in spaces for outer in _scopes(prefix)]
        for space in inner:
            found = _suitable(by_qualified.get(f"{space}::{name}", []), before_scope)
            if found:
                return found
        for space in inner:
            if space != prefix:
                found = self._taken_in(self._spaces.get(space), space, name, before_scope, depth + 1)
                if found:
                    return found
        return []

    def _in_file(self, file: int) -> dict[str, list[Sym]]:
        """The symbols of a file outside its classes, by name; files are resolved one after the other."""
        if self._own_file != file:
            symbols = self.tables.symbols(file)
            self._own_file, self._own = file, {}
            for sym in symbols[1:]:
                if symbols[sym.parent & 0xFFFFF].kind not in CLASSES and sym.kind != "method":
                    self._own.setdefault(sym.name, []).append(sym)
        return self._own

    def _inherited(self, class_name: str, name: str) -> list[Sym]:
        """A member that the class gets from its bases."""
        if class_name not in self._derived:
            self._derived[class_name] = next(
                (
                    sym
                    for sym in self.tables.native(class_name.rpartition("::")[2])
                    if sym.bases and sym.qualified == class_name and sym.kind in CLASSES
                ),
                None,
            )
        sym = self._derived[class_name]
        return self.names.member(sym, name) if sym is not None else []

    # ----- qualified names ----------------------------------------------------------------------------------

    def _qualified(self, file: int, name: str, qualifier: str, scope: str, before_scope: bool) -> Answer:
        first = qualifier.partition("::")[0]
        aliases = self._using(file)[1]
        if first in aliases:
            qualifier = aliases[first] + qualifier[len(first) :]
        key, chosen = self._scoped(file, name, qualifier, scope, before_scope)
        if chosen:
            return self._decide(key, chosen, file)
        owner = self.class_of(file, qualifier, scope)
        if owner is not None:
            found = _suitable(self.names.member(owner, name), before_scope)
            return (self.names.definitions(found), CERTAIN) if found else NOTHING
        generated = self.names.generated(name, qualifier.removeprefix("::"))
        if generated:
            return generated, CERTAIN
        if first in _OUTSIDE:
            return NOTHING
        # The qualifier can be a namespace that is opened in a scope which `using` takes in from elsewhere.
        ending = f"::{qualifier}::{name}"
        if ending not in self._endings:
            by_qualified = self.tables.native_by_qualified(name)
            self._endings[ending] = [
                sym for full, syms in by_qualified.items() if full.endswith(ending) for sym in syms
            ]
        ends_so = self._endings[ending]
        answer, certainty = self._decide("*" + ending, ends_so, file) if ends_so else NOTHING
        answer = _suitable(answer, before_scope)
        return (answer, min(certainty, LIKELY)) if answer else NOTHING

    def _scoped(
        self, file: int, name: str, qualifier: str, scope: str, before_scope: bool = False
    ) -> tuple[str, list[Sym]]:
        """`qualifier::name` as seen from a scope, and the key that the answer can be kept under."""
        by_qualified = self.tables.native_by_qualified(name)
        qualifier = qualifier.removeprefix("::")
        if not qualifier:
            return self._visible(file, name, scope, before_scope)
        spaces = self._spaces
        for prefix in _scopes(scope):
            space = f"{prefix}::{qualifier}" if prefix else qualifier
            found = _suitable(by_qualified.get(f"{space}::{name}", []), before_scope)
            if found:
                return f"{space}::{name}{':' if before_scope else ''}", found
            taken = self._taken_in(spaces[space], space, name, before_scope) if space in spaces else []
            if taken:
                return f"{space}<{name}{':' if before_scope else ''}", taken
        first, _, rest = qualifier.partition("::")
        for space in self._spaces_of(file, first, scope):
            full = f"{space}::{rest}::{name}" if rest else f"{space}::{name}"
            found = _suitable(by_qualified.get(full, []), before_scope)
            if found:
                return f"{full}{':' if before_scope else ''}", found
        return "", []

    def _spaces_of(self, file: int, first: str, scope: str) -> list[str]:
        """The namespaces that the first part of a qualifier can mean through `using`."""
        by_qualified = self.tables.native_by_qualified(first)
        found = []
        candidates = [(prefix, self._spaces.get(prefix)) for prefix in _scopes(scope)] + [(scope, self._using(file)[0])]
        for prefix, using in candidates:
            for space in using[0] if using is not None else ():
                for outer in _scopes(prefix):
                    full = f"{outer}::{space}::{first}" if outer else f"{space}::{first}"
                    if any(sym.kind == "namespace" for sym in by_qualified.get(full, ())):
                        found.append(full)
        return found

    @property
    def _spaces(self) -> dict[str, _Using]:
        """By namespace, what headers take into it with `using`."""
        if self._by_space is None:
            self._by_space = {}
            rows = self.tables.db.execute(
                "SELECT file, local, kind, module FROM imports WHERE kind IN ('using namespace', 'using') ORDER BY file"
            )
            for file, local, kind, module in rows:
                if self.tables.path[file].endswith(SOURCES):
                    continue
                around = self.tables.symbols(file)[local]
                if around.kind not in ("namespace", "file"):
                    continue
                prefix = around.qualified if around.kind == "namespace" else ""
                spaces, by_name = self._by_space.setdefault(prefix, ([], {}))
                module = module.removeprefix("::")
                if kind == "using":
                    by_name.setdefault(module.rpartition("::")[2], module)
                elif module not in spaces and module != prefix:
                    spaces.append(module)
        return self._by_space

    def _using(self, file: int) -> tuple[_Using, dict[str, str]]:
        """What a file takes in with `using` anywhere, and its aliases of namespaces."""
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

    # ----- members ------------------------------------------------------------------------------------------

    def _member_of_type(self, file: int, name: str, qualifier: str, scope: str, arrow: bool) -> Answer:
        """A member of a receiver of a known type, perhaps after some steps: `x.a.f().name`."""
        kind, *steps = qualifier[1:].split(STEP)
        held = bool(steps) or arrow
        declared = self.class_of(file, kind, scope, held=held)
        if declared is None:
            pointer, _, inner = kind.partition(HOLDS)
            if self._is_outside(inner if held and inner else pointer):
                return NOTHING
            return self.names.member_of_unknown(name, "cpp")
        return self._member_of_class(self.names.follow(declared, steps, arrow), name)

    def _member_of_class(self, owner: Sym | None, name: str) -> Answer:
        if owner is None:
            return self.names.member_of_unknown(name, "cpp")
        found = self.names.own_member(owner, name) or self.names.generated(name, owner.qualified)
        found = found or self.names.member(owner, name)
        if found:
            return self.names.definitions(found), CERTAIN
        if not owner.bases:
            return NOTHING
        answer, _ = self.names.member_of_unknown(name, "cpp")
        return (answer, CANDIDATE) if answer else NOTHING

    def _member_of_text(self, file: int, name: str, qualifier: str, scope: str, arrow: bool) -> Answer:
        """A member of a receiver that is no local: a field of the class around it, or a global variable."""
        if qualifier and qualifier != OPAQUE:
            root, *steps = qualifier.split(".")
            _, found = self._visible(file, root, scope)
            holders = [sym for sym in found if sym.kind in ("field", "variable")]
            if holders and "[" not in qualifier:
                if not steps:
                    owner = self.names.type_of(holders[0], held=arrow)
                else:
                    owner = self.names.follow(self.names.type_of(holders[0]), steps, arrow)
                if owner is not None:
                    return self._member_of_class(owner, name)
        return self.names.member_of_unknown(name, "cpp")

    def _is_outside(self, kind: str) -> bool:
        """True if a type that is written with its namespace (`std::vector`) is none of the tree's."""
        space, _, last = kind.rpartition("::")
        return bool(space) and not last.endswith(")") and not any(sym.kind in TYPES for sym in self.tables.native(last))

    # ----- types --------------------------------------------------------------------------------------------

    def class_of(self, file: int, text: str, scope: str, depth: int = 0, held: bool = True) -> Sym | None:
        """The class that a type names, through aliases; `held`: of a smart pointer, what it points to."""
        key = (file, text, scope, held)
        if key not in self._classes:
            found = self._class_of(file, text, scope, depth, held)
            if depth:
                return found  # it can be cut short by the depth
            self._classes[key] = found
        return self._classes[key]

    def _class_of(self, file: int, text: str, scope: str, depth: int, held: bool) -> Sym | None:
        pointer, mark, inner = text.partition(HOLDS)
        text = inner if mark and held and inner else pointer
        text = text.strip().removeprefix("const ").strip(" &*").partition("<")[0].strip()
        if text.endswith("()"):
            return self._returned(file, text[:-2], scope, depth)
        if not text or depth > _DEPTH:
            return None
        space, _, last = text.rpartition("::")
        _, named = self._scoped(file, last, space, scope, before_scope=True)
        chosen = [sym for sym in named if sym.kind in CLASSES and not sym.declaration]
        if not chosen:
            return self._aliased(named, depth)
        if len({sym.qualified for sym in chosen}) > 1 or len({sym.file for sym in chosen}) > 1:
            near = [sym for sym in chosen if sym.file == file]
            return near[0] if near else _only(chosen)
        return chosen[0]

    def _aliased(self, named: list[Sym], depth: int) -> Sym | None:
        """The class behind `using Variable = at::Tensor`."""
        for alias in [sym for sym in named if sym.kind == "type"][:3]:
            target = alias.signature.partition("=")[2].strip(" ;") if "=" in alias.signature else ""
            if target and "(" not in target:
                found = self.class_of(alias.file, target, alias.qualified.rpartition("::")[0], depth + 1)
                if found is not None:
                    return found
        return None

    def _returned(self, file: int, text: str, scope: str, depth: int) -> Sym | None:
        """The class that a call of a function gives; a call of a class makes one of it."""
        if depth > _DEPTH:
            return None
        made = self.class_of(file, text, scope, depth + 1)
        if made is not None:
            return made
        space, _, last = text.rpartition("::")
        _, found = self._scoped(file, last, space, scope)
        if not found and space:
            owner = self.class_of(file, space, scope, depth + 1)
            found = self.names.member(owner, last) if owner is not None else self.names.generated(last, space)
        return self.result_of(found, depth)

    def result_of(self, found: list[Sym], depth: int = 0, held: bool = True) -> Sym | None:
        """The class that all overloads of a function return."""
        callable_ones = [sym for sym in found if sym.kind in _CALLABLE]
        texts = {sym.bases for sym in callable_ones}
        if len(texts) != 1 or "" in texts:
            return None
        sym = callable_ones[0]
        return self.class_of(sym.file, sym.bases, sym.qualified.rpartition("::")[0], depth + 1, held)

    # ----- decisions ----------------------------------------------------------------------------------------

    def _decide(self, key: str, found: list[Sym], file: int) -> Answer:
        """What a file means by the symbols that `key` leads to; what does not hang on the file is worked out once."""
        known = self._decided.get(key)
        if known is None:
            known = self._decided[key] = self._decision(found)
        elsewhere, by_file = known
        return by_file.get(file, elsewhere)

    def _decision(self, found: list[Sym]) -> tuple[Answer, dict[int, Answer]]:
        """The answer for a file that defines none of the symbols, and for each file that does."""
        declared = {sym.qualified for sym in found if sym.declaration}
        found = self.names.definitions(found)
        by_file: dict[int, list[Sym]] = {}
        for sym in found:
            by_file.setdefault(sym[0] >> FILE_SHIFT, []).append(sym)
        own: dict[int, Answer] = {file: (same, CERTAIN) for file, same in by_file.items()}
        # Another file sees a variable of a source file only if something declares it.
        found = [
            sym
            for sym in found
            if self.tables.seen_elsewhere(sym)
            and (sym.kind != "variable" or sym.qualified in declared or not self.tables.is_source(sym.file))
        ]
        if not found:
            return NOTHING, own
        files = len({sym[0] >> FILE_SHIFT for sym in found})
        distinct = len({sym.qualified for sym in found})
        answer = NOTHING
        if distinct == 1 and files == 1:
            answer = found, CERTAIN
        elif distinct == 1 and files <= CANDIDATES:
            # Functions of two source files are two functions, and each file sees the macro of the headers it includes.
            sure = all(sym.kind != "macro" and (sym.kind != "function" or sym.declaration) for sym in found)
            answer = found, CERTAIN if sure else CANDIDATE
        elif distinct <= CANDIDATES and len(found) <= 2 * CANDIDATES:
            answer = found, CANDIDATE
        return answer, own


def _suitable(found: list[Sym], before_scope: bool) -> list[Sym]:
    """Of the symbols with a name, those that can stand before `::`, where the name does."""
    if not before_scope or not found:
        return found
    if found[0].kind == "namespace" and found[-1].kind == "namespace":
        return found  # a namespace is opened in thousands of files, and nothing else has its qualified name
    return [sym for sym in found if sym.kind in _BEFORE_SCOPE]


def _enumerated_in(sym: Sym) -> str:
    """The scope that holds the enumeration of an enumerator."""
    return sym.qualified.rpartition("::")[0].rpartition("::")[0]


def _only(found: list[Sym]) -> Sym | None:
    """One of several definitions of the same class, in branches of an #if or in templates; None where they differ."""
    return found[0] if len({sym.qualified for sym in found}) == 1 else None


def _is_scope(text: str) -> bool:
    return text.replace("::", "").replace("_", "").isalnum()


@cache
def _scopes(scope: str) -> list[str]:
    """`a::b::c` -> [`a::b::c`, `a::b`, `a`, ``]"""
    found = [scope] if scope else []
    while "::" in scope:
        scope = scope.rpartition("::")[0]
        found.append(scope)
    found.append("")
    return found
