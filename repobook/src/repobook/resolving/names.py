"""References to definitions: the entry to the rules of each language, and their common parts.

If the rules of scope do not decide, an answer holds all candidates; see `answer`, Note [ Certainty ].
"""

from repobook.languages import C_FAMILY
from repobook.model.schema import CANDIDATE, FILE_SHIFT, LIKELY
from repobook.reading.facts import OUT
from repobook.resolving.answer import (
    CANDIDATES,
    DEPTH,
    MODULE,
    NOTHING,
    OBJECT,
    Answer,
    choose_accessor,
    identity,
    split_arguments,
)
from repobook.resolving.data_names import MARKS, DataNames
from repobook.resolving.modules import Modules
from repobook.resolving.native_names import NativeNames
from repobook.resolving.other_names import OtherNames
from repobook.resolving.python_names import PythonNames
from repobook.resolving.tables import Exposed, Sym, Tables

# Names that PyTorch's build generates from its table of operators (`native_functions.yaml`): C++ functions and methods.
GENERATED = {"at": MODULE, "torch": MODULE, "at::Tensor": OBJECT}

# Methods of the languages' own containers: an unknown receiver is more likely one of those than the tree's class.
_BUILTIN = frozenset(
    name
    for kind in (str, bytes, list, dict, set, frozenset, tuple, int, float, type, object, BaseException)
    for name in dir(kind)
) | frozenset({"close", "read", "write", "readline", "flush", "group", "match", "search", "start", "end"})
# Methods of the containers, pointers and threads of the standard library of C++.
_STD = frozenset(
    """
    size begin end cbegin cend rbegin rend push_back emplace_back emplace insert erase find at front back data
    empty clear resize reserve get reset release lock unlock load store first second value has_value c_str str
    substr count swap append pop_back length what wait notify_one notify_all join detach use_count assign push pop
    top value_or contains emplace_front push_front pop_front merge extract good fail message code lower_bound
    upper_bound time_since_epoch
    """.split()  # noqa: SIM905
)
# Methods of NumPy's arrays and their like: that the tree has one class with such a method says little about a receiver.
_ARRAYS = frozenset(
    """
    all any argmax argmin argsort astype clip clone conj copy cumprod cumsum diagonal dot dtype execute fill flatten
    imag item itemsize matmul max mean min ndim nonzero norm numpy prod ptp ravel real repeat reshape resize round save
    shape size sort split squeeze std strides sum swapaxes take tobytes tolist trace transpose unsqueeze var view
    """.split()  # noqa: SIM905
)


class Names:
    def __init__(self, tables: Tables, modules: Modules) -> None:
        self.tables = tables
        self.modules = modules
        self.python = PythonNames(self)
        self.native = NativeNames(self)
        self.others = OtherNames(self)
        self.data = DataNames(self)
        self._opaque: dict[tuple[str, bool, bool], Answer] = {}
        self._types: dict[tuple[int, bool], Sym | None] = {}
        self._bases: dict[int, list[Sym]] = {}

    def resolve(self, file: int, name: str, qualifier: str, local: int, flags: int = 0) -> Answer:
        """The definitions that an occurrence of `qualifier.name` inside the symbol `local` of a file can mean.

        `flags` say how it is reached (`facts`): through an object or a scope, as a call."""
        language = self.tables.language[file]
        if qualifier in MARKS or language == "yaml":
            return self.data.resolve(file, name, qualifier)
        if language == "python" or language == "starlark":
            return self.python.resolve(file, name, qualifier, local, flags)
        if language in C_FAMILY:
            return self.native.resolve(file, name, qualifier, local, flags)
        return self.others.resolve(file, name, qualifier, local, flags)

    def type_of(self, sym: Sym, held: bool = True) -> Sym | None:
        """The class that a field or variable states; `held`: the class that a pointer points to."""
        if sym.kind not in ("field", "variable", "property") or not sym.bases:
            return None
        key = (sym.id, held)
        if key not in self._types:
            self._types[key] = None  # a type that is stated through itself is not known
            if self.tables.language[sym.file] in C_FAMILY:
                found = self.native.class_of(sym.file, sym.bases, sym.qualified.rpartition("::")[0], held=held)
            else:
                found = self.python.class_of(sym.file, sym.bases)
            self._types[key] = found
        return self._types[key]

    def follow(self, owner: Sym | None, steps: list[str], arrow: bool = True) -> Sym | None:
        """The class that a chain of members leads to: `x`, `f()` of `self.x.f().g`; `arrow`: g is reached by `->`."""
        for at, step in enumerate(steps):
            if owner is None:
                return None
            held = arrow or at < len(steps) - 1
            name = step.removesuffix("()")
            found = (
                self.own_member(owner, name) or self.find_generated(name, owner.qualified) or self.member(owner, name)
            )
            if not found:
                return None
            if not step.endswith("()"):
                owner = self.type_of(found[0], held)
            elif self.tables.language[owner.file] in C_FAMILY:
                owner = self.native.result_of(found, held=held)
            else:
                return None
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
                sym = self.native.class_of(owner.file, bare, owner.qualified.rpartition("::")[0])
            elif language == "python":
                sym = self.python.class_of(owner.file, bare)
            else:
                sym = self.others.class_of(owner.file, bare)
            if sym is not None and sym.id != owner.id:
                found.append(sym)
        return found

    def member(self, owner: Sym, name: str, depth: int = 0) -> list[Sym]:
        """A member of a class or of its bases, nearest first."""
        found = self.own_member(owner, name)
        if found:
            return found
        if depth > DEPTH or not owner.bases:
            return []
        for base in self.bases(owner):
            found = self.member(base, name, depth + 1)
            if found:
                return found
        return []

    def own_member(self, owner: Sym, name: str) -> list[Sym]:
        """A member that a class has itself; one of C++ can be defined outside of it."""
        found = self.tables.members(owner).get(name)
        if not found and self.tables.language[owner.id >> FILE_SHIFT] in C_FAMILY:
            found = self.tables.native_by_qualified(name).get(f"{owner.qualified}::{name}")
        return found or []

    def list_overridden(self, owner: Sym) -> list[tuple[Sym, Sym]]:
        """(method as its class declares it, definition of the method of a base that it overrides) of a class."""
        found = []
        for name, members in self.tables.members(owner).items():
            if name == owner.name or name.startswith("~") or name in ("__init__", "__new__"):
                continue
            methods = [sym for sym in members if sym.kind == "method"]
            for base in self.bases(owner) if methods else ():
                above = [sym for sym in self.member(base, name) if sym.kind == "method"]
                if above:
                    found.append((methods[0], self._find_definition(above)))
                    break
        return found

    def _find_definition(self, methods: list[Sym]) -> Sym:
        """The definition of a method, which can stand outside its class."""
        everywhere = methods
        if methods[0].declaration and self.tables.language[methods[0].file] in C_FAMILY:
            everywhere = self.tables.native_by_qualified(methods[0].name).get(methods[0].qualified, methods)
        return self.definitions(everywhere)[0]

    def is_common(self, name: str) -> bool:
        """True if the standard library of C++ has a member with a name, so that an unknown receiver says nothing."""
        return name in _STD or name.startswith("__")

    def member_of_unknown(self, file: int, name: str, assigned: bool = False) -> Answer:
        """A member of an unknown receiver in Python: the members of that name of all classes. The classes of tests are
        unknown outside of tests."""
        in_test = file in self.tables.tests
        key = (name, assigned, in_test)
        known = self._opaque.get(key)
        if known is not None:
            return known
        answer = NOTHING
        if name not in _BUILTIN and not name.startswith("__"):
            language, path = self.tables.language, self.tables.path
            found = [
                sym
                for sym in self.tables.find_named(name)
                if sym.kind in ("method", "field", "property")
                and language[sym.file] == "python"
                and ".pyi" not in path[sym.file]
                and (in_test or sym.file not in self.tables.tests)
            ]
            found = choose_accessor(found, assigned)
            # A receiver without a type can be a module too.
            found += self.find_registered(name, OBJECT, assigned) or self.find_registered(name, MODULE)
            answer = self.weigh(found)
            # Classes of one name in several modules are several classes.
            if len({sym.file for sym in found if language[sym.file] == "python"}) > 1:
                answer = answer[0], min(answer[1], CANDIDATE)
            if answer[1] == LIKELY and (name in _ARRAYS or self._has_other_owners(name, found)):
                answer = answer[0], CANDIDATE
        self._opaque[key] = answer
        return answer

    def _has_other_owners(self, name: str, found: list[Sym]) -> bool:
        """True if an unknown receiver may be a module with such a function, or a class that only a stub describes.

        A stub may describe definitions in another language, so it counts only beside Python's.
        """
        if any(self.tables.language[sym.file] != "python" for sym in found):
            return False
        classes = {sym.qualified.rpartition(".")[0].rpartition(".")[2] for sym in found}
        for sym in self.tables.find_named(name):
            if sym.file in self.tables.tests or self.tables.language[sym.file] != "python":
                continue
            if sym.kind == "function" and sym.qualified == name:
                return True
            owner = sym.qualified.rpartition(".")[0].rpartition(".")[2]
            is_member = sym.kind in ("method", "property", "field")
            if is_member and ".pyi" in self.tables.path[sym.file] and owner not in classes:
                return True
        return False

    def weigh(self, found: list[Sym]) -> Answer:
        """Likely if all symbols are one name, candidates if they are few."""
        if not found:
            return NOTHING
        distinct = len({identity(sym) for sym in found})
        if distinct == 1:
            return self.definitions(found), LIKELY
        if distinct <= CANDIDATES and len(found) <= 2 * CANDIDATES:
            return self.definitions(found), CANDIDATE
        return NOTHING

    def find_registered(self, name: str, place: str = "", assigned: bool = False) -> list[Sym]:
        """The functions that are registered under a name for another language: for a module, for objects, or for both.

        `assigned`: the setter of a property instead of its getter."""
        found: list[Sym] = []
        rows = [row for row in self.tables.exposed(name) if self._suits(row, place, assigned)]
        for row in _first_overload(rows):
            if row.target:
                found += self.bound_target(row.file, row.target)
            else:
                symbols = self.tables.symbols(row.file)
                if row.local < len(symbols):
                    found.append(symbols[row.local])
        return list(dict.fromkeys(found))

    def _suits(self, row: Exposed, place: str, assigned: bool) -> bool:
        """True if a registered name can be meant in a place. The dispatcher calls the kernel of a dispatch key; no
        caller names it."""
        if row.kind in ("dispatch key", "kernel"):
            return False
        if row.kind.startswith("getset table"):
            return place != MODULE and assigned == row.kind.endswith("setter")
        if row.kind == "operator":
            return not place or place in row.owner
        if row.kind in ("pybind11", "pyo3"):
            return not place or (place == OBJECT) == bool(row.owner)
        if row.kind == "member table":
            return place != MODULE
        return place != MODULE or row.owner not in self.tables.type_tables

    def find_generated(self, name: str, owner: str) -> list[Sym]:
        """The operators behind a function or method that the build generates from a table of operators."""
        variant = GENERATED.get(owner)
        if variant is None:
            return []
        # In C++ an overload that writes its result into an argument has an ending of its own.
        rows = [row for row in self._operators(name, variant) if OUT not in row.owner]
        for ending in ("_symint", "_outf", "_out"):
            if not rows and name.endswith(ending):
                overloads = self._operators(name.removesuffix(ending), variant)
                writes = ending != "_symint"
                # The build generates some of these overloads from the operator itself.
                rows = [row for row in overloads if (OUT in row.owner) == writes] or overloads
        return [self.tables.symbols(row.file)[row.local] for row in rows]

    def _operators(self, name: str, variant: str) -> list[Exposed]:
        """The operators of a name that have a form; the build generates no C++ for one that is bound by hand."""
        rows = [row for row in self.tables.exposed(name) if row.kind == "operator" and variant in row.owner]
        return [row for row in rows if "manual" not in row.owner]

    def bound_target(self, file: int, target: str) -> list[Sym]:
        """The function that a row of a method table or a `.def` names."""
        scope, _, last = target.rpartition("::")
        found, _ = self.native.resolve(file, last, scope, 0)
        if not found:
            wanted = "::" + target
            found = [
                sym
                for sym in self.tables.native(last)
                if ("::" + sym.qualified).endswith(wanted) and sym.kind in ("function", "method", "field", "macro")
            ]
            same = [sym for sym in found if sym.file == file]
            found = same or found
        # Of the functions of other files, a table can only mean those that have a linkage.
        linked = [sym for sym in found if sym.file == file or not sym.internal]
        return self.definitions(linked or found)[:CANDIDATES]

    def definitions(self, found: list[Sym]) -> list[Sym]:
        """Definitions instead of the declarations that they complete."""
        if len(found) < 2:
            return found
        defined = {sym.qualified for sym in found if not sym.declaration}
        return [sym for sym in found if not (sym.declaration and sym.qualified in defined)]


def _first_overload(rows: list[Exposed]) -> list[Exposed]:
    """The rows with one overload of each operator: a call from another language does not say which it means. Overloads
    that write into an argument come last."""
    operators = [row for row in rows if row.kind == "operator"]
    if len(operators) < 2:
        return rows
    first = min(operators, key=lambda row: (OUT in row.owner, row.local))
    return [row for row in rows if row.kind != "operator" or row is first]
