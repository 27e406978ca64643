"""Names that reached code looks up: in modules and classes of the user, in libraries, among the builtins."""

from __future__ import annotations

import builtins
import functools
import sys
import types
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ndgrad._src.compiler.capture.captured_state import MISSING, CapturedSlots, assign
from ndgrad._src.compiler.capture.code_origin import is_foreign
from ndgrad._src.compiler.capture.side_effects import original_function
from ndgrad._src.core.generate import TENSOR_TYPES

if TYPE_CHECKING:
    from ndgrad._src.compiler.capture.reachable_objects import ReachableObjects


class NamesInUse:
    """Names that code looks up, and the namespaces in which they are captured."""

    def __init__(self, computed: Iterable[str], imported: Iterable[str]) -> None:
        """Start with attributes that functions look up by computed names, and with modules that they import."""
        self.used: set[str] = {*computed}
        self._computed = frozenset(computed)
        self._imported = frozenset(imported)
        #: Attributes that some code sets or deletes.
        self.changed: set[str] = set()
        #: Classes and modules of the user: the holder, its captured names, its label.
        self.holders: list[tuple[Any, set[str], str]] = []
        #: Modules of libraries by identity: the module and its captured names; and the imported ones.
        self._libraries: dict[int, tuple[Any, set[str]]] = {}
        self.imported_libraries: list[Any] = []
        #: Names that code looks up in modules of the user, by the identity of the module.
        self.asked_of_modules: dict[int, set[str]] = {}
        self._builtins: set[str] = set()
        self._tensor_attributes: set[str] = set()

    # ----- capturing --------------------------------------------------------------------------------------------------

    def capture_new(self, walk: ReachableObjects) -> None:
        """Capture the names of classes and modules that code has begun to use."""
        for holder, done, what in self.holders:
            space = holder.__dict__
            # For a module, names that it does not have yet count as well.
            asked: Iterable[str] = ()
            if isinstance(holder, types.ModuleType):
                asked = self.asked_of_modules.get(id(holder), set()) | self._computed | self.changed
            new = (self.used & (space.keys() | asked)) - done
            if "__dict__" in self.used:  # code may look up any name
                new |= space.keys() - done
            done |= new
            new.discard("__builtins__")
            if new:
                walk.capture_names(what, holder, space, sorted(new))
        for module in self.imported_libraries:
            self.capture_library(walk, module, self.used & vars(module).keys())

    def capture_library(self, walk: ReachableObjects, module: Any, names: Iterable[str]) -> None:
        """Capture names of a library's module."""
        _, done = self._libraries.setdefault(id(module), (module, set()))
        done.add("__builtins__")  # A trace replaces some builtins, see ndgrad._src.compiler.capture.side_effects.
        new = [n for n in names if n not in done and n in vars(module)]  # ndgrad loads some names lazily
        if not new:
            return
        done.update(new)
        if module is sys and "modules" in new:
            new.remove("modules")
            walk.opaque.note_object("sys.modules", sys.modules, "modules", "the function looks into sys.modules")
        walk.capture_names(f"{module.__name__}.", module, vars(module), sorted(new))

    def capture_builtins(self, walk: ReachableObjects, names: list[str]) -> None:
        """Capture builtins that code names."""
        names = [n for n in names if hasattr(builtins, n) and n not in self._builtins]
        if names:
            self._builtins.update(names)
            slots = CapturedSlots("builtin ", names, lambda: [original_function(vars(builtins).get(n, MISSING)) for n in names],
                functools.partial(assign_others, vars(builtins), names), ("names", (vars(builtins), names)))
            walk.capture(slots, list(names))

    def capture_imports(self, walk: ReachableObjects) -> None:
        """Reach the modules that functions import, as found in sys.modules."""
        if self._imported:
            names = sorted(self._imported)
            modules = sys.modules
            walk.capture(CapturedSlots("sys.modules ", names, lambda: [modules.get(n, MISSING) for n in names], None), None)

    def capture_tensor_classes(self, walk: ReachableObjects) -> None:
        """Capture the attributes of tensor classes that code names, because methods can be replaced or added."""
        for cls in TENSOR_TYPES:
            if is_foreign(cls.__module__):
                space = vars(cls)
                names = (self.used & space.keys()) | self._computed
                names -= {"_array", "_node", "_storage", "_meta"}  # a trace replaces these temporarily
                names -= self._tensor_attributes
                self._tensor_attributes |= names
                walk.capture_names(f"{cls.__name__}.", cls, space, sorted(names))

    # ----- checking ---------------------------------------------------------------------------------------------------

    def captures_modules(self, names: frozenset[str]) -> bool:
        """True if the modules that a function imports are compared before each call."""
        return names <= self._imported

    def captures_tensor_attribute(self, name: str) -> bool:
        """True if an attribute of the tensor classes is compared before each call."""
        return name in self._computed

    def misses(self, name: str) -> bool:
        """True if a reached class or module has an attribute of this name that is not captured."""
        if name in self.used:
            return False
        return any(name in holder.__dict__ or isinstance(holder, types.ModuleType) for holder, _, _ in self.holders)


def assign_others(space: dict[str, Any], names: Sequence[str], values: Sequence[Any]) -> None:
    """Assign names of a library, except names for which the trace has installed a replacement of the same value."""
    others = [(n, v) for n, v in zip(names, values, strict=True) if original_function(space.get(n, MISSING)) is not v]
    assign(space, [n for n, _ in others], [v for _, v in others])
