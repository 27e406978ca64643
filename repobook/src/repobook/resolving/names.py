"""References to definitions. Each language has its rules of scope; where they do not decide, all candidates are given.

Note [ Certainty ]
certain: the scopes, imports and declared types lead to one qualified name (overloads count as one).
likely: the receiver's type is unknown, but the tree has only one definition with that name.
candidate: several definitions could be meant; all are listed, up to `CANDIDATES`. Above that the reference stays a
plain occurrence of the name, which `repobook uses` lists as unresolved.
"""

from repobook.languages import C_FAMILY
from repobook.model.schema import CANDIDATE, CERTAIN, FILE_SHIFT, LIKELY
from repobook.reading.engine import CLASSES
from repobook.reading.facts import OPAQUE, STEP, TYPED
from repobook.resolving.modules import Modules
from repobook.resolving.tables import Sym, Tables

Answer = tuple[list[Sym], int]
NOTHING: Answer = ([], 0)
CANDIDATES = 6
_DEPTH = 12

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


class Names:
    def __init__(self, tables: Tables, modules: Modules) -> None:
        self.tables = tables
        self.modules = modules
        self._bound: dict[int, dict[str, list[tuple[str, int, str]]]] = {}
        self._stars: dict[int, list[int]] = {}
        self._usings: dict[int, tuple[list[str], dict[str, str]]] = {}
        self._opaque: dict[tuple[str, bool], Answer] = {}
        self._derived: dict[str, Sym | None] = {}
        self._types: dict[int, Sym | None] = {}
        self._bases: dict[int, list[Sym]] = {}
        self._modules: dict[tuple[str, str], str | None] = {}

    def resolve(self, file: int, name: str, qualifier: str, local: int) -> Answer:
        """The definitions that an occurrence of `qualifier.name` inside the symbol `local` of a file can mean."""
        language = self.tables.language[file]
        if language == "python" or language == "starlark":
            return self._python(file, name, qualifier, local)
        if language in C_FAMILY:
            return self._cpp(file, name, qualifier, local)
        return self._plain(file, name, qualifier, local)

    # ----- Python -------------------------------------------------------------------------------------------

    def _python(self, file: int, name: str, qualifier: str, local: int) -> Answer:
        tables = self.tables
        if qualifier == "":
            symbols = tables.symbols(file)
            at = symbols[local] if local < len(symbols) else symbols[0]
            while at.kind != "file":
                if at.kind not in CLASSES or at.id == (file << FILE_SHIFT | local):
                    inner = tables.members(at).get(name)
                    if inner:
                        return inner, CERTAIN
                at = symbols[at.parent & 0xFFFFF]
            found = self.exported(file, name)
            return self._with_native(found, name) if found else NOTHING
        if qualifier.startswith(TYPED):
            kind, *steps = qualifier[1:].split(STEP)
            owner = self._steps(self._python_class(file, kind), steps)
            if owner is not None:
                found = self.member(owner, name)
                if found:
                    return self._with_native(found, name)
                if not owner.bases:
                    return NOTHING
            return self._opaque_member(name, "python")
        if qualifier == OPAQUE:
            return self._opaque_member(name, "python")
        return self._chain(file, [*qualifier.split("."), name])

    def _chain(self, file: int, parts: list[str]) -> Answer:
        """`a.b.c`: modules as far as they go, then members."""
        root = parts[0]
        bound = self.bound(file).get(root)
        at_file = 0
        found: list[Sym] = []
        start = 1
        if bound:
            kind, target, text = bound[-1]
            if kind == "module":
                # `import a.b.c` binds a; the longest module that the text names is the one meant.
                module = [text] if text else [root]
                at_file = target
                while start < len(parts) - 1:
                    longer = self._module(".".join([*module, parts[start]]), self.tables.path[file])
                    if longer is None:
                        break
                    module.append(parts[start])
                    at_file = self.tables.by_path[longer]
                    start += 1
                if not at_file:
                    return NOTHING  # outside the tree
            else:
                found = self.exported(file, root)
                if not found:
                    if target == 0:
                        return NOTHING
                    at_file = target
        else:
            found = self.tables.top(file).get(root, [])
            if not found:
                return self._opaque_member(parts[-1], "python")
        for part in parts[start:]:
            if at_file:
                found = self.exported(at_file, part)
                if not found:
                    submodule = self._submodule(at_file, part)
                    if not submodule:
                        return self._stub(parts[-1])
                    at_file = submodule
                    continue
                at_file = 0
                if found[0].kind == "file":
                    at_file = found[0].file
                continue
            owner = next((sym for sym in found if sym.kind in CLASSES), None) or self._type_of(found[0])
            if owner is None:
                return self._opaque_member(parts[-1], "python")
            found = self.member(owner, part)
            if not found:
                return self._opaque_member(parts[-1], "python")
        return self._with_native(found, parts[-1]) if found else NOTHING

    def _type_of(self, sym: Sym) -> Sym | None:
        """The class of a field or variable, where its definition states it."""
        if sym.kind not in ("field", "variable", "property") or not sym.bases:
            return None
        if sym.id not in self._types:
            self._types[sym.id] = None  # a type that is stated through itself is not known
            if self.tables.language[sym.file] in C_FAMILY:
                found = self._cpp_class(sym.file, sym.bases, sym.qualified.rpartition("::")[0])
            else:
                found = self._python_class(sym.file, sym.bases)
            self._types[sym.id] = found
        return self._types[sym.id]

    def _steps(self, owner: Sym | None, steps: list[str]) -> Sym | None:
        """The class that a chain of members leads to: `x`, `y` of `self.x.y.f`."""
        for step in steps:
            if owner is None:
                return None
            found = self.member(owner, step)
            owner = self._type_of(found[0]) if found else None
        return owner

    def _with_native(self, found: list[Sym], name: str) -> Answer:
        """A stub (`.pyi`) only declares: what is registered under its name stands behind it."""
        if all(".pyi" in self.tables.path[sym.file] for sym in found):
            native = self._bindings(name)
            if native:
                return native, CERTAIN if len({sym.qualified for sym in native}) == 1 else CANDIDATE
        return found, CERTAIN

    def _stub(self, name: str) -> Answer:
        found = list(self._bindings(name))
        return (found, LIKELY if len({s.qualified for s in found}) == 1 else CANDIDATE) if found else NOTHING

    def bound(self, file: int) -> dict[str, list[tuple[str, int, str]]]:
        """What the imports of a Python file bind: name -> (module | symbol, file of the module, module or name)."""
        found = self._bound.get(file)
        if found is not None:
            return found
        found = self._bound[file] = {}
        stars = self._stars[file] = []
        path = self.tables.path[file]
        for imported in self.tables.imports(file):
            if imported.kind == "import":
                if imported.alias:
                    found.setdefault(imported.alias, []).append(("module", imported.target, imported.module))
                else:
                    first = imported.module.partition(".")[0]
                    target = self._module(first, path) if "." in imported.module else None
                    file_of = (
                        self.tables.by_path[target] if target else (imported.target if first == imported.module else 0)
                    )
                    # A package without a file of its own still leads to its modules.
                    found.setdefault(first, []).append(("module", file_of, first))
            elif imported.kind == "from":
                if imported.name == "*":
                    if imported.target:
                        stars.append(imported.target)
                else:
                    owner = self._module(imported.module, path)
                    file_of = self.tables.by_path[owner] if owner else 0
                    found.setdefault(imported.alias or imported.name, []).append(
                        ("symbol", file_of or imported.target, imported.name)
                    )
        return found

    def exported(self, file: int, name: str, depth: int = 0) -> list[Sym]:
        """What a name means at the top level of a Python file: its own definition, or what it imports."""
        own = self.tables.top(file).get(name)
        if own:
            return own
        if depth > _DEPTH:
            return []
        for kind, target, text in self.bound(file).get(name, ()):
            if not target:
                continue
            if kind == "module":
                return self.tables.symbols(target)[:1]
            if target != file:
                found = self.exported(target, text, depth + 1)
                if found:
                    return found
            submodule = self._submodule(target, text)
            if submodule:
                return self.tables.symbols(submodule)[:1]
        for target in self._stars.get(file, ()):
            if target != file and not name.startswith("_"):
                found = self.exported(target, name, depth + 1)
                if found:
                    return found
        return []

    def _module(self, module: str, importer: str) -> str | None:
        key = (module, importer if module.startswith(".") else importer.rpartition("/")[0])
        if key not in self._modules:
            self._modules[key] = self.modules.python(module, importer)
        return self._modules[key]

    def _submodule(self, file: int, name: str) -> int:
        path = self.tables.path[file]
        if not path.endswith(("__init__.py", "__init__.pyi", "__init__.pyi.in")):
            return 0
        found = self._module("." + name, path)
        return self.tables.by_path[found] if found else 0

    def _python_class(self, file: int, text: str) -> Sym | None:
        parts = text.split(".")
        if len(parts) == 1:
            found = self.exported(file, text)
        else:
            # A class inside another scope of this file is named by its qualified name.
            found = [s for s in self.tables.named(parts[-1]) if s.file == file and s.qualified == text]
            if not found:
                found = self._chain(file, parts)[0]
        if not found:
            found = [s for s in self.tables.named(parts[-1]) if s.file == file and s.qualified == text]
        return next((sym for sym in found if sym.kind in CLASSES), None)

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
                sym = self._cpp_class(owner.file, bare, owner.qualified)
            else:
                sym = self._python_class(owner.file, bare)
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
        if depth > _DEPTH or not owner.bases:
            return []
        for base in self.bases(owner):
            found = self.member(base, name, depth + 1)
            if found:
                return found
        return []

    def _opaque_member(self, name: str, language: str) -> Answer:
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
                found = [s for s in found if ".pyi" not in self.tables.path[s.file]] + self._bindings(name)
            answer = self._weigh(found)
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

    def _bindings(self, name: str) -> list[Sym]:
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
        found, _ = self._cpp(file, last, scope, 0)
        if not found:
            wanted = "::" + target
            found = [s for s in self.tables.named(last) if ("::" + s.qualified).endswith(wanted)]
            same = [s for s in found if s.file == file]
            found = same or found
        return self.definitions(found)[:CANDIDATES]

    def definitions(self, found: list[Sym]) -> list[Sym]:
        """Definitions instead of the declarations that they complete."""
        defined = {sym.qualified for sym in found if not sym.declaration}
        return [sym for sym in found if not (sym.declaration and sym.qualified in defined)]

    # ----- C family -----------------------------------------------------------------------------------------

    def _cpp(self, file: int, name: str, qualifier: str, local: int) -> Answer:
        tables = self.tables
        if qualifier.startswith(TYPED):
            symbols = tables.symbols(file)
            scope = symbols[local].qualified if local < len(symbols) else ""
            kind, *steps = qualifier[1:].split(STEP)
            owner = self._steps(self._cpp_class(file, kind, scope), steps)
            if owner is not None:
                found = self.member(owner, name)
                if found:
                    return self.definitions(found), CERTAIN
                if not owner.bases:
                    return NOTHING
            return self._opaque_member(name, "cpp")
        found = tables.native(name)
        if not found:
            return NOTHING
        symbols = tables.symbols(file)
        scope = symbols[local].qualified if local < len(symbols) else ""
        usings, aliases = self._using(file)
        if (
            qualifier
            and qualifier != OPAQUE
            and "." not in qualifier
            and "->" not in qualifier
            and _is_scope(qualifier)
        ):
            first = qualifier.partition("::")[0]
            if first in aliases:
                qualifier = aliases[first] + qualifier[len(first) :]
            chosen = self._scoped(name, qualifier, scope)
            if chosen:
                return self._decide(chosen, file)
            if "::" not in qualifier and not any(
                s.kind in CLASSES or s.kind in ("namespace", "type") for s in tables.named(qualifier)
            ):
                return self._opaque_member(name, "cpp") if qualifier[:1].islower() and qualifier != "std" else NOTHING
            return NOTHING
        if qualifier:
            return self._opaque_member(name, "cpp")
        # A plain name: the innermost scope that has it wins.
        by_qualified = tables.native_by_qualified(name)
        for prefix in _scopes(scope):
            chosen_here = by_qualified.get(f"{prefix}::{name}" if prefix else name)
            if chosen_here:
                return self._decide(chosen_here, file)
            if prefix:
                inherited = self._inherited(prefix, name)
                if inherited:
                    return self._decide(inherited, file)
        same = [
            sym for sym in found if sym.id >> FILE_SHIFT == file and symbols[sym.parent & 0xFFFFF].kind not in CLASSES
        ]
        if same:
            return self._decide(same, file)
        for space in usings:
            ending = f"::{space}::{name}"
            chosen_here = [s for s in found if ("::" + s.qualified).endswith(ending)]
            if chosen_here:
                return self._decide(chosen_here, file)
        # Macros and enumerators do not stand in a scope that their use must name.
        free = [sym for sym in found if sym.kind in ("macro", "enumerator")]
        if free:
            return self._decide(free, file)
        return NOTHING

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
        return self.member(sym, name) if sym is not None else []

    def _decide(self, found: list[Sym], file: int) -> Answer:
        found = self.definitions(found)
        same = [sym for sym in found if sym.file == file]
        if same and len({s.qualified for s in found}) > 1:
            found = same
        distinct = len({sym.qualified for sym in found})
        files = len({sym.file for sym in found})
        if distinct == 1 and files == 1:
            return found, CERTAIN
        if same:
            return same, CERTAIN
        if distinct == 1 and files <= CANDIDATES:
            return found, CERTAIN if files == 1 or all(
                s.kind != "function" or s.declaration for s in found
            ) else CANDIDATE
        if distinct <= CANDIDATES and len(found) <= 2 * CANDIDATES:
            return found, CANDIDATE
        return NOTHING

    def _scoped(self, name: str, qualifier: str, scope: str) -> list[Sym]:
        """`qualifier::name` as seen from a scope; where no scope has it, every symbol whose qualified name ends so."""
        by_qualified = self.tables.native_by_qualified(name)
        wanted = f"{qualifier}::{name}".removeprefix("::")
        for prefix in _scopes(scope):
            exact = by_qualified.get(f"{prefix}::{wanted}" if prefix else wanted)
            if exact:
                return exact
        ending = "::" + wanted
        return [sym for full, found in by_qualified.items() if full.endswith(ending) for sym in found]

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

    def _cpp_class(self, file: int, text: str, scope: str, depth: int = 0) -> Sym | None:
        """The class that a type names, through one chain of aliases (`using Variable = at::Tensor`)."""
        text = text.strip().removeprefix("const ").strip(" *&")
        bare = text.partition("<")[0].strip()
        space, _, last = bare.rpartition("::")
        named = self._scoped(last, space, scope)
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
                    resolved = self._cpp_class(alias.file, target, alias.qualified.rpartition("::")[0], depth + 1)
                    if resolved is not None:
                        return resolved
        if len({sym.qualified for sym in chosen}) > 1:
            near = [sym for sym in chosen if sym.file == file]
            return near[0] if near else None
        return chosen[0] if chosen else None

    # ----- other languages ----------------------------------------------------------------------------------

    def _plain(self, file: int, name: str, qualifier: str, local: int) -> Answer:
        """Languages without rules of their own here: this file, then what it imports, then the tree."""
        language = self.tables.language[file]
        family = _FAMILIES.get(language, (language,))
        found = [sym for sym in self.tables.named(name) if self.tables.language[sym.file] in family]
        if not found:
            return NOTHING
        same = [sym for sym in found if sym.file == file]
        if same and (not qualifier or qualifier.startswith(TYPED) or len(found) == len(same)):
            return same, CERTAIN if not qualifier or qualifier.startswith(TYPED) else LIKELY
        reached = {imported.target for imported in self.tables.imports(file) if imported.target}
        near = [sym for sym in found if sym.file in reached]
        if near:
            return (near, CERTAIN) if len({s.qualified for s in near}) == 1 else (near[:CANDIDATES], CANDIDATE)
        if language in ("go", "java"):
            folder = self.tables.path[file].rpartition("/")[0]
            near = [sym for sym in found if self.tables.path[sym.file].rpartition("/")[0] == folder]
            if near and not qualifier:
                return near[:CANDIDATES], CERTAIN if len(near) == 1 else CANDIDATE
        if qualifier and len(found) <= CANDIDATES:
            members = [sym for sym in found if sym.kind in ("method", "field", "function")]
            if members:
                return members, LIKELY if len(members) == 1 else CANDIDATE
        return NOTHING


_FAMILIES = {
    "javascript": ("javascript", "typescript", "tsx"),
    "typescript": ("javascript", "typescript", "tsx"),
    "tsx": ("javascript", "typescript", "tsx"),
}


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


def split_arguments(text: str) -> list[str]:
    """`A, B[int, str], metaclass=M` at its top-level commas."""
    parts: list[str] = []
    depth = 0
    start = 0
    for at, char in enumerate(text):
        if char in "([{<":
            depth += 1
        elif char in ")]}>":
            depth -= 1
        elif char == "," and depth <= 0:
            parts.append(text[start:at].strip())
            start = at + 1
    if text[start:].strip():
        parts.append(text[start:].strip())
    return parts
