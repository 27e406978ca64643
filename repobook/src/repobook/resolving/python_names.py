"""Names in Python files: scopes, imports and their aliases, re-exports, `import *`, modules, stubs."""

from typing import TYPE_CHECKING

from repobook.model.schema import CANDIDATE, CERTAIN, FILE_SHIFT, LIKELY
from repobook.reading.engine import CLASSES
from repobook.reading.facts import OPAQUE, STEP, TYPED
from repobook.resolving.answer import DEPTH, NOTHING, Answer
from repobook.resolving.tables import Sym

if TYPE_CHECKING:
    from repobook.resolving.names import Names


class PythonNames:
    def __init__(self, names: "Names") -> None:
        self.names = names
        self.tables = names.tables
        self.modules = names.modules
        self._bound: dict[int, dict[str, list[tuple[str, int, str]]]] = {}
        self._stars: dict[int, list[int]] = {}
        self._modules: dict[tuple[str, str], str | None] = {}
        self._own: dict[int, dict[str, list[Sym]]] = {}

    def resolve(self, file: int, name: str, qualifier: str, local: int) -> Answer:
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
            owner = self.names.follow(self.class_of(file, kind), steps)
            if owner is not None:
                found = self.names.member(owner, name)
                if found:
                    return self._with_native(found, name)
                if not owner.bases:
                    return NOTHING
            return self.names.member_of_unknown(name, "python")
        if qualifier == OPAQUE:
            return self.names.member_of_unknown(name, "python")
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
                return self.names.member_of_unknown(parts[-1], "python")
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
            owner = next((sym for sym in found if sym.kind in CLASSES), None) or self.names.type_of(found[0])
            if owner is None:
                return self.names.member_of_unknown(parts[-1], "python")
            found = self.names.member(owner, part)
            if not found:
                return self.names.member_of_unknown(parts[-1], "python")
        return self._with_native(found, parts[-1]) if found else NOTHING

    def _with_native(self, found: list[Sym], name: str) -> Answer:
        """A stub (`.pyi`) only declares: what is registered under its name stands behind it."""
        if all(".pyi" in self.tables.path[sym.file] for sym in found):
            native = self.names.registered(name)
            if native:
                return native, CERTAIN if len({sym.qualified for sym in native}) == 1 else CANDIDATE
        return found, CERTAIN

    def _stub(self, name: str) -> Answer:
        found = list(self.names.registered(name))
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
        if depth > DEPTH:
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

    def _by_qualified(self, file: int) -> dict[str, list[Sym]]:
        """The symbols of a file by qualified name."""
        found = self._own.get(file)
        if found is None:
            found = self._own[file] = {}
            for sym in self.tables.symbols(file)[1:]:
                found.setdefault(sym.qualified, []).append(sym)
        return found

    def class_of(self, file: int, text: str) -> Sym | None:
        parts = text.split(".")
        if len(parts) == 1:
            found = self.exported(file, text)
        else:
            # A class inside another scope of this file is named by its qualified name.
            found = self._by_qualified(file).get(text, [])
            if not found:
                found = self._chain(file, parts)[0]
        if not found:
            found = self._by_qualified(file).get(text, [])
        return next((sym for sym in found if sym.kind in CLASSES), None)
