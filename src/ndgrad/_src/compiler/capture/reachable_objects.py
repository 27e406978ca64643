"""Objects that a function reaches apart from its arguments.

    of a Python function    its cells, defaults, attributes, the globals that its code names, and the functions it calls
    of an object            its attributes and slots; of its class, the attributes that some code names
    of a container          its items
    of a module             the attributes that some code names

`ReachableObjects` walks over them and records each place that holds one (`CapturedSlots`). The visitors of the classes
are in `visit_functions`, `visit_containers` and `visit_objects`. Names that code looks up are in `names_in_use`.
"""

from __future__ import annotations

import collections
import functools
import operator
import sys
import types
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ndgrad._src.arrays.generator import Generator
from ndgrad._src.compiler.capture.captured_state import MISSING, CapturedSlots, assign, is_plain, refill, set_attributes
from ndgrad._src.compiler.capture.code_origin import is_foreign
from ndgrad._src.compiler.capture.graph_break import GraphBreak
from ndgrad._src.compiler.capture.names_in_use import NamesInUse, assign_others
from ndgrad._src.compiler.capture.opaque_names import OpaqueNames
from ndgrad._src.compiler.capture.side_effects import original_function
from ndgrad._src.compiler.capture.slot_effects import is_placeholder
from ndgrad._src.compiler.capture.tensor_facts import get_facts, has_facts
from ndgrad._src.compiler.capture.tensor_metadata import attributes_of
from ndgrad._src.compiler.capture.visit_containers import CONTAINERS, visit_proxy
from ndgrad._src.compiler.capture.visit_functions import FUNCTIONS, follow_chains
from ndgrad._src.compiler.capture.visit_objects import (
    OBJECTS,
    Visitor,
    visit_class,
    visit_object,
    visit_standard_object,
)
from ndgrad._src.core.variable import Variable

#: Largest number of objects that a function may reach.
MOST = 20_000
#: Label of guards on hooks that are registered for all modules or optimizers.
GLOBAL_HOOKS = "a hook on all modules or optimizers"


class ReachableObjects:
    """Everything that functions and objects reach."""

    def __init__(self, roots: Iterable[tuple[str, Any]], names: Iterable[str], modules: Iterable[str]) -> None:
        """Reach the objects of `roots`. `names` are attributes that functions look up by computed names, and `modules`
        are modules that they import; their code does not show either.
        """
        self.captured: list[CapturedSlots] = []
        #: Reached tensors by identity: the tensor, its facts, the number of slots that hold it, its label.
        self.tensors: dict[int, list[Any]] = {}
        #: All other reached objects by identity, and the number of paths that reach each.
        self.seen: dict[int, Any] = {}
        self.arrivals: collections.Counter[int] = collections.Counter()
        #: Generators of random numbers and their states.
        self.generators: list[tuple[Any, Any]] = []
        #: Functions that cache their results (functools.cache).
        self.caches: list[Any] = []
        #: Python functions of the user, and all code by identity.
        self.functions: list[Any] = []
        self.codes: dict[int, types.CodeType] = {}
        #: True if the environment variables of the process are compared.
        self.reaches_environment_variables = False
        self.opaque = OpaqueNames()
        self.names = NamesInUse(names, modules)
        #: Objects to visit: label, object, and the name by which code reaches it.
        self.pending: list[tuple[str, Any, str | None]] = [(what, value, None) for what, value in roots]
        self.pending += [(GLOBAL_HOOKS, hooks, None) for hooks in _global_hooks()]
        self.names.capture_imports(self)
        self._walk()

    def _walk(self) -> None:
        while True:
            while self.pending:
                self._reach(*self.pending.pop())
                if len(self.seen) > MOST:
                    raise GraphBreak(f"the function reaches more than {MOST} objects")
            self.names.capture_new(self)
            if not self.pending:
                return

    def _reach(self, what: str, value: Any, name: str | None) -> None:
        if isinstance(value, Variable):
            self.count_tensor(what, value)
            return
        self.arrivals[id(value)] += 1
        if is_plain(value):
            return
        if id(value) in self.seen:
            self.opaque.add_alias(value, name)
            return
        self.seen[id(value)] = value
        self.opaque.note_first(value, name)
        reach = _BY_CLASS.get(type(value))
        if reach is not None:
            reach(self, what, value, name)
            return
        reach = next((found for cls in type(value).__mro__ if (found := _BY_BASE.get(cls)) is not None), None)
        if reach is None:
            visit_object(self, what, value, name)
            return
        reach(self, what, value, name)
        if type(value) not in _EXACT and not isinstance(value, (type, types.ModuleType)):
            self._visit_subclass(what, value)

    def _visit_subclass(self, what: str, value: Any) -> None:
        """Reach the class and the attributes of an object whose class derives from a container, an array or a number.
        """
        visit_class(self, type(value))
        own = getattr(value, "__dict__", None)
        if isinstance(own, dict) and id(own) not in self.seen:
            self.seen[id(own)] = own
            self.capture_attributes(what, own)

    # ----- capturing --------------------------------------------------------------------------------------------------

    def capture(self, slots: CapturedSlots, names: Sequence[str | None] | str | None) -> None:
        """Capture some slots and reach the objects in them. `names` has the name by which code reaches each slot, or
        one name for all of them.
        """
        self.captured.append(slots)
        each = isinstance(names, list)
        for place, value in enumerate(slots.then):
            if is_placeholder(value):
                broken = GraphBreak(f"{slots.label(place)} is used by a function that another thread traces")
                broken.is_passing = True
                raise broken
            if isinstance(value, Variable):
                self.count_tensor(slots.label(place), value)
            elif not is_plain(value) and value is not MISSING:
                self.pending.append((slots.label(place), value, names[place] if each else names))  # type: ignore[index, arg-type]

    def count_tensor(self, label: str, t: Any) -> None:
        """Count a slot that holds a tensor. On first use, reach its attributes."""
        known = self.tensors.get(id(t))
        if known is None:
            self.tensors[id(t)] = [t, get_facts(t) if has_facts(t._array) else None, 1, label]
            own = attributes_of(t)
            if own:
                self.capture_attributes(label, own)
        else:
            known[2] += 1

    def capture_names(self, what: str, holder: Any, space: Any, names: list[str]) -> None:
        """Capture names of a namespace: globals, or attributes of a module or class."""

        def read_values() -> list[Any]:
            return [space.get(n, MISSING) for n in names]

        def read_library() -> list[Any]:
            return [original_function(space.get(n, MISSING)) for n in names]

        is_library = isinstance(holder, types.ModuleType) and is_foreign(holder.__name__)

        write = (
            functools.partial(assign_others if is_library else assign, space, names)
            if isinstance(space, dict)
            else functools.partial(set_attributes, holder, names)
        )
        slots = CapturedSlots(what, names, read_library if is_library else read_values, write, ("names", (space, names)))
        self.capture(slots, list(names))

    def capture_entries(
        self, what: str, d: Any, names: Sequence[str | None] | str | None, labels: Sequence[str] | None = None
    ) -> None:
        """Capture the entries of a dictionary."""
        if labels is None:
            labels = [f"[{k!r}]" if isinstance(k, (str, int)) else "[...]" for k in d]
        self.capture(
            CapturedSlots(
                what,
                [*[""] * len(labels), *labels],
                lambda: [*d.keys(), *d.values()],
                functools.partial(refill, d),
                ("entries", d),
            ),
            names,
        )

    def capture_attributes(self, what: str, d: Any) -> None:
        """Capture the attribute dictionary of an object. Code reaches each attribute by its name."""
        names = [k if isinstance(k, str) else None for k in d]
        self.capture_entries(what, d, [*names, *names], [f".{k}" for k in d])

    # ----- later additions --------------------------------------------------------------------------------------------

    def capture_late_names(self, names: Iterable[tuple[Any, str]]) -> None:
        """Capture names of libraries that were loaded, or looked up by a computed name, during the trace."""
        self.pending.clear()
        for f in self.functions:
            follow_chains(self, f)
        for module, name in names:
            self.names.capture_library(self, module, {name})
        self.names.capture_tensor_classes(self)
        self._walk()

    def capture_tensor_attributes(self, t: Any, own: dict[str, Any]) -> bool:
        """Compare the attributes of a tensor, in `own`, from now on; False if the tensor is not reached."""
        known = self.tensors.get(id(t))
        if known is not None and not any(slots.form is not None and slots.form[1] is own for slots in self.captured):
            self.pending.clear()
            self.capture_attributes(known[3], own)
            self._walk()
        return known is not None

    # ----- questions --------------------------------------------------------------------------------------------------

    def has_code(self, code: types.CodeType) -> bool:
        """True if code belongs to a function that was reached."""
        return id(code) in self.codes

    @property
    def may_ask_for_types(self) -> bool:
        """True if code of the user may call `type`, by that name or another one."""
        return "type" in self.names.used or id(type) in self.seen

    def find_slots(self, value: Any) -> list[tuple[CapturedSlots, int]] | None:
        """Return the slots that hold an object; None if the object is also reached in other ways."""
        found = [(slots, i) for slots in self.captured for i, v in enumerate(slots.then) if v is value]
        return found if len(found) == self.arrivals[id(value)] else None

    def find_contents(self, container: Any) -> CapturedSlots | None:
        """Return the slots inside a list or dictionary."""
        for slots in self.captured:
            if slots.form is not None and slots.form[0] in ("items", "entries") and slots.form[1] is container:
                return slots
        return None

    def generator_state(self, generator: Generator) -> bytes | None:
        """Return the state of a generator when it was reached; None if the generator is not reached."""
        return next((state for source, state in self.generators if source is generator), None)


def _global_hooks() -> list[Any]:
    """Return the global hooks of modules and of optimizer steps."""
    modules, optimizers = sys.modules.get("ndgrad.nn.modules.hooks"), sys.modules.get("ndgrad.optim.optimizer")
    return [*([modules.of_all] if modules else []), *([optimizers._STEP_HOOKS] if optimizers else [])]


def _visit_nothing(walk: ReachableObjects, what: str, value: Any, name: str | None) -> None:
    """Reach nothing: the object is constant."""


#: Classes of constant objects.
_CONSTANT = (
    types.WrapperDescriptorType,
    types.MethodDescriptorType,
    types.ClassMethodDescriptorType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    types.CodeType,
    operator.itemgetter,
    object,
    slice,
    np.ufunc,
    type(np.sum),
    type(vars(collections.namedtuple("_Pair", "a b"))["a"]),  # noqa: PYI024  # reader of a named field
)

#: Visitors by exact class.
_BY_CLASS: dict[type, Visitor] = {
    **FUNCTIONS,
    types.MappingProxyType: visit_proxy,
    types.SimpleNamespace: visit_standard_object,
    **dict.fromkeys(_CONSTANT, _visit_nothing),
}

#: Visitors for classes and their subclasses.
_BY_BASE: dict[type, Visitor] = {
    **CONTAINERS,
    **OBJECTS,
    **dict.fromkeys((bool, int, float, complex, str, bytes), _visit_nothing),
}

#: Subclasses of these whose objects have no attributes of their own.
_EXACT = frozenset([*_BY_BASE, collections.OrderedDict, collections.defaultdict])
