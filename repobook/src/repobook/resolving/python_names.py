"""Names in Python files: scopes, imports and their aliases, re-exports, `import *`, modules, stubs."""

import builtins
from typing import TYPE_CHECKING

from repobook.model.schema import CANDIDATE, CERTAIN, FILE_SHIFT
from repobook.reading.engine import CLASSES
from repobook.reading.facts import ASSIGNED, OPAQUE, STEP, TYPED
from repobook.resolving.answer import DEPTH, MODULE, NOTHING, OBJECT, Answer, choose_accessor, identity
from repobook.resolving.tables import Sym

if TYPE_CHECKING:
    from repobook.resolving.names import Names

_BUILTIN_TYPES = frozenset(name for name, value in vars(builtins).items() if isinstance(value, type))


class PythonNames:
    def __init__(self, names: "Names") -> None:
        self.names = names
        self.tables = names.tables
        self.modules = names.modules
        self._bound: dict[int, dict[str, list[tuple[str, int, str]]]] = {}
        self._stars: dict[int, list[int]] = {}
        self._modules: dict[tuple[str, str], str | None] = {}
        self._own: dict[int, dict[str, list[Sym]]] = {}

    def resolve(self, file: int, name: str, qualifier: str, local: int, flags: int = 0) -> Answer:
        assigned = bool(flags & ASSIGNED)
        if qualifier == "":
            return self._find_plain(file, name, local)
        if qualifier == OPAQUE:
            return self.names.member_of_unknown(file, name, assigned)
        if qualifier.startswith(TYPED):
            kind, *steps = qualifier[1:].split(STEP)
            owner = self._follow(self.class_of(file, kind), steps)
            if owner is None and self._is_outside(file, kind):
                return NOTHING
            if owner is None:
                return self.names.member_of_unknown(file, name, assigned)
            return self._member(file, owner, name, assigned)
        return self._chain(file, qualifier.split("."), name, assigned)

    def _find_plain(self, file: int, name: str, local: int) -> Answer:
        """A plain name: the functions around it from the inside out, then the top of the file and its imports."""
        tables = self.tables
        symbols = tables.symbols(file)
        at = symbols[local] if local < len(symbols) else symbols[0]
        while at.kind != "file":
            if at.kind not in CLASSES or at.id == (file << FILE_SHIFT | local):
                inner = tables.members(at).get(name)
                if inner:
                    return inner, CERTAIN
            at = symbols[at.parent & 0xFFFFF]
        found = self.find_exported(file, name)
        return self._add_native(found, name, False) if found else NOTHING

    def _is_outside(self, file: int, kind: str) -> bool:
        """True for a type of the language itself, or of a module that is not in the tree."""
        root = kind.partition(".")[0].removesuffix("()")
        bound = self.list_bound(file).get(root)
        if bound:
            return not any(target for _, target, _ in bound)
        return root in _BUILTIN_TYPES and root not in self.tables.top(file)

    def _member(self, file: int, owner: Sym, name: str, assigned: bool) -> Answer:
        """A member of a class that is known. One that neither it nor its bases have can belong to a class derived from
        it, or be made while the program runs."""
        found = choose_accessor(self.names.member(owner, name), assigned)
        if found:
            return self._add_native(found, name, assigned)
        answer, _ = self.names.member_of_unknown(file, name, assigned)
        related = [sym for sym in answer if self._derives(sym, owner)]
        return (related, CANDIDATE) if related else NOTHING

    def _derives(self, member: Sym, owner: Sym) -> bool:
        """True if the class of a member derives from a class."""
        if self.tables.language[member.file] != "python":
            return False
        level = [self.tables.symbols(member.file)[member.parent & 0xFFFFF]]
        for _ in range(DEPTH):
            level = [base for sym in level if sym.kind in CLASSES for base in self.names.bases(sym)]
            if any(sym.id == owner.id for sym in level):
                return True
        return False

    def _follow(self, owner: Sym | None, steps: list[str]) -> Sym | None:
        """The class that a chain of fields and calls leads to."""
        for step in steps:
            if owner is None:
                return None
            owner = self._holder(self.names.member(owner, step.removesuffix("()")), step.endswith("()"))
        return owner

    def _holder(self, found: list[Sym], called: bool) -> Sym | None:
        """The class whose members stand behind a name, or behind a call of it."""
        if not found:
            return None
        owner = next((sym for sym in found if sym.kind in CLASSES), None)
        if owner is not None:
            return owner
        if not called:
            return self.names.type_of(found[0])
        texts = {sym.bases for sym in found if sym.kind in ("function", "method")}
        return self.class_of(found[0].file, found[0].bases) if len(texts) == 1 and "" not in texts else None

    def _chain(self, file: int, steps: list[str], name: str, assigned: bool) -> Answer:
        """`a.b.name`: modules as far as they go, then members."""
        at_file, found, start = self._root(file, steps)
        if start < 0:
            return NOTHING
        if not at_file and not found:
            return self.names.member_of_unknown(file, name, assigned)
        called = steps[start - 1].endswith("()")
        for step in steps[start:]:
            bare = step.removesuffix("()")
            if at_file:
                at_file, found = self._in_module(at_file, bare)
                if not at_file and not found:
                    found = self.names.find_registered(bare, MODULE)
            else:
                owner = self._holder(found, called)
                found = self.names.member(owner, bare) if owner is not None else []
            if not at_file and not found:
                return _limit_certainty(self.names.member_of_unknown(file, name, assigned))
            called = step.endswith("()")
        if at_file:
            module = at_file
            at_file, found = self._in_module(module, name)
            if found:
                return self._add_native(found, name, assigned)
            return (self.tables.symbols(at_file)[:1], CERTAIN) if at_file else self._find_registered(module, name)
        owner = self._holder(found, called)
        if owner is not None:
            return self._member(file, owner, name, assigned)
        return _limit_certainty(self.names.member_of_unknown(file, name, assigned))

    def _root(self, file: int, steps: list[str]) -> tuple[int, list[Sym], int]:
        """(module, symbols, following step) of the first name of a chain; a step below 0 for one from outside the tree.

        `import a.b.c` binds a; the longest module that the chain names is the one meant."""
        root = steps[0].removesuffix("()")
        bound = self.list_bound(file).get(root)
        if not bound:
            return 0, self.tables.top(file).get(root, []), 1
        kind, target, text = bound[-1]
        if kind != "module":
            found = self.find_exported(file, root)
            if found and found[0].kind == "file":
                return found[0].file, [], 1
            return (0, found, 1) if found else (target, [], 1 if target else -1)
        module, at_file, start = [text or root], target, 1
        while start < len(steps):
            longer = self._module(".".join([*module, steps[start]]), self.tables.path[file])
            if longer is None:
                break
            module.append(steps[start])
            at_file = self.tables.by_path[longer]
            start += 1
        return at_file, [], start if at_file else -1

    def _in_module(self, file: int, name: str) -> tuple[int, list[Sym]]:
        """The submodule or the symbols that a module has under a name."""
        found = self.find_exported(file, name)
        if not found:
            return self._submodule(file, name), []
        return (found[0].file, []) if found[0].kind == "file" else (0, found)

    def _add_native(self, found: list[Sym], name: str, assigned: bool) -> Answer:
        """A stub (`.pyi`) only declares: the function that is registered under its name stands behind it."""
        if all(".pyi" in self.tables.path[sym.file] for sym in found):
            inside = self.tables.symbols(found[0].file)[found[0].parent & 0xFFFFF].kind in CLASSES
            native = self.names.find_registered(name, OBJECT if inside else MODULE, assigned)
            if native:
                return native, CERTAIN if len({identity(sym) for sym in native}) == 1 else CANDIDATE
        return found, CERTAIN

    def _find_registered(self, module: int, name: str) -> Answer:
        """A name of a module that another language fills. `float` of a module is most often no function of its own.

        Operators fill the modules that take in an extension (`from torch._C import *`)."""
        found = self.names.find_registered(name, MODULE)
        if not self._has_extension(module):
            found = [sym for sym in found if sym.kind != "operator"]
        answer = self.names.weigh(found)
        return _limit_certainty(answer) if hasattr(builtins, name) else answer

    def _has_extension(self, module: int) -> bool:
        """True for a module of an extension, or one that imports from it."""
        if "/_C" in self.tables.path[module]:
            return True
        return any("_C" in row.module.split(".") for row in self.tables.imports(module))

    def list_bound(self, file: int) -> dict[str, list[tuple[str, int, str]]]:
        """Names that imports bind in a Python file: name -> (module | symbol, file of the module, module or name)."""
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

    def find_exported(self, file: int, name: str, depth: int = 0) -> list[Sym]:
        """Symbols of a name at the top level of a Python file: its own definitions, or imported ones."""
        own = self.tables.top(file).get(name)
        if own:
            return own
        if depth > DEPTH:
            return []
        for kind, target, text in self.list_bound(file).get(name, ()):
            if not target:
                continue
            if kind == "module":
                return self.tables.symbols(target)[:1]
            if target != file:
                found = self.find_exported(target, text, depth + 1)
                if found:
                    return found
            submodule = self._submodule(target, text)
            if submodule:
                return self.tables.symbols(submodule)[:1]
        for target in self._stars.get(file, ()):
            if target != file and not name.startswith("_"):
                found = self.find_exported(target, name, depth + 1)
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
        """The class that a type names; `f()` means the result of f, or an object of the class f."""
        if text.endswith("()"):
            return self._holder(self._find_named(file, text[:-2]), True)
        return next((sym for sym in self._find_named(file, text) if sym.kind in CLASSES), None)

    def _find_named(self, file: int, text: str) -> list[Sym]:
        """The symbols that a name or a dotted name means at the top of a file."""
        parts = text.split(".")
        if len(parts) == 1:
            found = self.find_exported(file, text)
        else:
            # A class inside another scope of this file is named by its qualified name.
            found = self._by_qualified(file).get(text, [])
            if not found:
                answer, certainty = self._chain(file, parts[:-1], parts[-1], False)
                found = answer if certainty == CERTAIN else []
        return found or self._by_qualified(file).get(text, [])


def _limit_certainty(answer: Answer) -> Answer:
    """Candidates at most: the receiver is known, only its type is not."""
    return answer[0], min(answer[1], CANDIDATE)
