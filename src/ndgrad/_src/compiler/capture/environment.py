"""Environment of a traced function: everything it reaches apart from its arguments, with guards for changes.

A traced function has read closures, globals, defaults, attributes and containers. The numbers it found are constants of
its program, branches have been taken, tensors are inputs. So everything that its code can reach is recorded before the
trace (`Environment`), compared after it (the differences are the function's side effects), and compared again before
each call of the program. Most comparisons are by identity, which costs some ten nanoseconds per entry.

Reachable objects are:
    of a Python function    its cells, defaults, attributes, the globals that its code names, and the functions it calls
    of an object            its attributes and slots; of its class, the attributes that some code names
    of a container          its items
    of a module             the attributes that some code names

Note [Opaque objects]
Some objects cannot be compared: open files, locks, iterators, weak references, objects of C extensions. Such an object
is harmless until code uses it. Code uses it through a name, or through a container that has a name. `opaque` records
these names, and a trace ends before it runs code that has one of them (see ndgrad._src.compiler.capture.trace_watch).
An opaque argument has no name, so it ends the trace at once.

The code of Python, NumPy, SciPy and ndgrad is assumed not to change. The names that a function looks up in their
modules are compared like others, because they can be replaced. A tensor may be replaced by another of the same kind (an
optimizer's state, a gradient). The new tensor is then the input of the program.
"""

from __future__ import annotations

import abc
import array
import builtins
import collections
import contextvars
import functools
import operator
import random
import sys
import threading
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from operator import is_
from typing import Any

import numpy as np

from ndgrad._src.arrays.dtypes import dtype
from ndgrad._src.arrays.generator import Generator
from ndgrad._src.arrays.library import is_on_device
from ndgrad._src.compiler.capture.captured_state import (
    MISSING,
    NUMBERS,
    CapturedSlots,
    Contents,
    assign,
    drop_keys,
    fill,
    fits,
    get_state,
    is_plain,
    is_same,
    is_same_state,
    read_cell,
    refill,
    refill_list,
    refill_set,
    restore_state,
    set_attributes,
    set_function,
    set_identity,
    set_item,
    set_slots,
    slots_of,
)
from ndgrad._src.compiler.capture.code_origin import is_foreign
from ndgrad._src.compiler.capture.graph_break import GraphBreak, Unreached
from ndgrad._src.compiler.capture.known_calls import is_pure_source, refuse_c_function
from ndgrad._src.compiler.capture.looked_up_names import (
    attribute_chains,
    changed_attributes,
    codes_in,
    names_of,
    own_names,
)
from ndgrad._src.compiler.capture.side_effects import original_function
from ndgrad._src.compiler.capture.slot_effects import is_placeholder
from ndgrad._src.compiler.capture.tensor_metadata import attributes_of
from ndgrad._src.core.generate import FACES
from ndgrad._src.core.variable import Variable, requires_grad
from ndgrad._src.core.versions import InferenceStorage
from ndgrad._src.foundations.devices import device, layout, memory_format
from ndgrad._src.foundations.public_path import defining_module

#: Largest number of objects that a function may reach. Arrays of up to SMALL bytes are compared at each call with a
#: copy of their bytes; arrays of more than LARGE bytes are not compared at all.
MOST = 20_000
SMALL = 65_536
LARGE = 1 << 28

#: Modules whose objects are constant, or change only internally (functions whose code is generated on first call).
_CONSTANT_MODULES = (
    "ndgrad.ops.",
    "ndgrad.autograd.",
    "ndgrad.library.",
    "ndgrad.numpy.",
    "ndgrad._src.arrays.",
    "ndgrad._src.ops.",
    "ndgrad._src.core.",
    "ndgrad._src.interpreters.",
    "ndgrad._src.engine.",
    "ndgrad._src.custom_functions.",
    "ndgrad._src.tensor.functions.",
    "ndgrad._src.lifting.",
)
#: Marks a slot without a placeholder. None would not do, because it may be a value of the function.
_NONE_INSTALLED = object()
#: Classes of constants.
_CONSTANT_CLASSES = frozenset([device, dtype, layout, memory_format])


def _assign_others(space: dict[str, Any], names: Sequence[str], values: Sequence[Any]) -> None:
    """Assign names of a library, except names for which the trace has installed a replacement of the same value."""
    others = [(n, v) for n, v in zip(names, values, strict=True) if original_function(space.get(n, MISSING)) is not v]
    assign(space, [n for n, _ in others], [v for _, v in others])


def get_facts(t: Any) -> tuple[Any, ...]:
    """Return the facts about a tensor that a program depends on."""
    array = t._array
    meta = t._meta
    names = None if meta is None else meta.names
    return (
        t.__class__,
        array.shape,
        array.dtype,
        array.strides,
        t._storage.__class__ is InferenceStorage,
        requires_grad(t),
        names if array.__class__ is np.ndarray or not is_on_device(array) else (names, array.device.id),
    )


def _has_facts(array: Any) -> bool:
    """True if programs accept tensors over an array of this class."""
    return isinstance(array, (np.ndarray, np.generic)) or is_on_device(array)


def _is_public(f: Any) -> bool:
    """True if a function is found under its name in its module, or in a class there."""
    found: Any = sys.modules.get(f.__module__)
    for name in f.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is f


class Environment:
    """Everything that functions and objects reach, as it was when the environment was created."""

    def __init__(
        self, roots: Iterable[tuple[str, Any]], names: Iterable[str] = (), modules: Iterable[str] = ()
    ) -> None:
        """Record the environment of `roots`. `names` are attributes that functions look up by computed names, and
        `modules` are modules that they import; their code does not show either.
        """
        self.captured: list[CapturedSlots] = []
        #: Reached tensors by identity: the tensor, its facts, the number of slots that hold it, its label.
        self.tensors: dict[int, list[Any]] = {}
        #: Names that lead to opaque objects, with the reason for a break (see Note [Opaque objects]).
        self.opaque: dict[str, str] = {}
        #: Names that lead to unsafe C functions, with the names of these functions.
        self._unsafe_functions: dict[str, str] = {}
        #: True if the environment variables of the process are compared.
        self.reaches_environment_variables = False
        #: Generators of random numbers and their states.
        self._sources: list[tuple[Any, Any]] = []
        #: Functions that cache their results (functools.cache), and the counts of their caches before a trace.
        self.caches: list[Any] = []
        self._counts: list[Any] = []
        #: Identities of the code of these functions.
        self._remembered: set[int] = set()
        #: Number of times that compared slots got other objects: replaced tensors, equal values.
        self.generation = 0
        #: Placeholders installed during a trace, by the identity of the slots and the number of the slot.
        self._installed: dict[tuple[int, int], Any] = {}
        #: Identities of the slots in which tensors are replaced, and of the entries of these tensors.
        self.moving: set[int] = set()
        self.moving_tensors: set[int] = set()
        #: Native guard for everything that does not move (see ndgrad._src.compiler.runtime.state_guards), and the slots
        #: and tensors that it leaves to Python.
        self.quick: Callable[[], bool] | None = None
        self.slow: tuple[list[CapturedSlots], list[list[Any]]] = ([], [])
        self._seen: dict[int, Any] = {}
        self._codes: dict[int, types.CodeType] = {}
        #: Number of paths that reach an object, by its identity.
        self._arrivals: collections.Counter[int] = collections.Counter()
        self._names: set[str] = {*names}
        self._computed_names = frozenset(names)
        self._imported = frozenset(modules)
        #: Classes and modules of the user: the holder, its captured names, its label.
        self._named: list[tuple[Any, set[str], str]] = []
        #: Modules of libraries by identity: the module and its captured names.
        self._libraries: dict[int, tuple[Any, set[str]]] = {}
        self._named_libraries: list[Any] = []
        #: Names that code looks up in modules of the user, by the identity of the module.
        self._asked_of_modules: dict[int, set[str]] = {}
        #: Attributes that some code sets or deletes. `_refused` has the code that must not run in a trace, with the
        #: reason.
        self._changed_names: set[str] = set()
        self._refused: dict[int, str] = {}
        self._builtins: set[str] = set()
        self._tensor_attributes: set[str] = set()
        #: Python functions of the user.
        self._functions: list[Any] = []
        #: First name that led to an object, by identity; and for names, other names that lead to the same container.
        self._first_names: dict[int, str | None] = {}
        self._aliases: dict[str, set[str]] = {}
        #: Objects to visit: label, object, and the name by which code reaches it.
        self._pending: list[tuple[str, Any, str | None]] = [(what, value, None) for what, value in roots]
        self._pending += [("a hook on all modules or optimizers", hooks, None) for hooks in _global_hooks()]
        self._capture_imports()
        self._walk()
        del self._pending

    # ----- visiting objects -------------------------------------------------------------------------------------------

    def _walk(self) -> None:
        while True:
            while self._pending:
                self._reach(*self._pending.pop())
                if len(self._seen) > MOST:
                    raise GraphBreak(f"the function reaches more than {MOST} objects")
            for holder, done, what in self._named:
                space = holder.__dict__
                # For a module, names that it does not have yet count as well.
                asked: Iterable[str] = ()
                if isinstance(holder, types.ModuleType):
                    asked = self._asked_of_modules.get(id(holder), set()) | self._computed_names | self._changed_names
                new = (self._names & (space.keys() | asked)) - done
                if "__dict__" in self._names:  # code may look up any name
                    new |= space.keys() - done
                done |= new
                new.discard("__builtins__")
                if new:
                    self._capture_names(what, holder, space, sorted(new))
            for module in self._named_libraries:
                self._capture_library_names(module, self._names & vars(module).keys())
            if not self._pending:
                return

    def _capture(self, slots: CapturedSlots, names: Sequence[str | None] | str | None) -> None:
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
                self._count_tensor(slots.label(place), value)
            elif not is_plain(value) and value is not MISSING:
                self._pending.append((slots.label(place), value, names[place] if each else names))  # type: ignore[index, arg-type]

    def _count_tensor(self, label: str, t: Any) -> None:
        known = self.tensors.get(id(t))
        if known is None:
            self.tensors[id(t)] = [t, get_facts(t) if _has_facts(t._array) else None, 1, label]
            own = attributes_of(t)
            if own:
                self._capture_attributes(label, own)
        else:
            known[2] += 1

    def _reach(self, what: str, value: Any, name: str | None) -> None:
        if isinstance(value, Variable):
            self._count_tensor(what, value)
            return
        self._arrivals[id(value)] += 1
        if is_plain(value):
            return
        if id(value) in self._seen:
            self._add_alias(value, name)
            return
        self._seen[id(value)] = value
        self._first_names[id(value)] = name
        reach = _REACH.get(type(value))
        if reach is not None:
            reach(self, what, value, name)
            return
        reach = next((found for cls in type(value).__mro__ if (found := _REACH_SUBCLASSES.get(cls)) is not None), None)
        if reach is None:
            self._visit_object(what, value, name)
            return
        reach(self, what, value, name)
        if type(value) not in _EXACT and not isinstance(value, (type, types.ModuleType)):
            self._visit_subclass(what, value)

    def _add_alias(self, value: Any, name: str | None) -> None:
        """Record that an object is reached under a second name."""
        first = self._first_names.get(id(value))
        if first == name:
            return
        if id(value) in self._opaque_objects:
            self._note_opaque_name(name, self._opaque_objects[id(value)])
        elif first is not None and name is not None and isinstance(value, _ALIASED):
            self._aliases.setdefault(name, set()).add(first)

    def _visit_subclass(self, what: str, value: Any) -> None:
        """Reach the class and the attributes of an object whose class derives from a container, an array or a number.
        """
        self._visit_class(type(value))
        own = getattr(value, "__dict__", None)
        if isinstance(own, dict) and id(own) not in self._seen:
            self._seen[id(own)] = own
            self._capture_attributes(what, own)

    @functools.cached_property
    def _opaque_objects(self) -> dict[int, str]:
        return {}

    def _note_opaque_object(self, what: str, value: Any, name: str | None, reason: str | None = None) -> None:
        """Record an object that cannot be compared (see Note [Opaque objects])."""
        if reason is None:
            cls = type(value)
            reason = f"{what} is an object of class {cls.__module__}.{cls.__qualname__}, which cannot be compared before each call"
        self._opaque_objects[id(value)] = reason
        self._note_opaque_name(name, reason)

    def _note_opaque_name(self, name: str | None, reason: str) -> None:
        if name is None:
            raise GraphBreak(reason)
        self.opaque.setdefault(name, reason)

    def _reach_items(self, what: str, items: Iterable[Any], name: str | None) -> None:
        for i, item in enumerate(items):
            if isinstance(item, Variable):
                self._count_tensor(f"{what}[{i}]", item)
            elif not is_plain(item):
                self._pending.append((f"{what}[{i}]", item, name))

    # ----- functions --------------------------------------------------------------------------------------------------

    def _visit_function(self, what: str, f: Any, name: str | None) -> None:
        for code in codes_in(f.__code__):
            self._codes[id(code)] = code
        home = f.__globals__.get("__name__") or f.__module__ or ""  # generated code has no name there
        if is_foreign(home) and is_foreign(f.__module__) and _is_public(f):
            if home == "os" and f.__name__ == "getenv":
                self._pending.append(("os.environ", sys.modules["os"].environ, name))
            return  # function or method of a library
        label = f"{getattr(f, '__qualname__', what)}: "
        parts = ["__code__", "__defaults__", "__kwdefaults__"]
        self._capture(
            CapturedSlots(
                label,
                parts,
                lambda: [f.__code__, f.__defaults__, f.__kwdefaults__],
                functools.partial(set_function, f),
                ("function", f),
            ),
            _parameters_of(f.__code__),
        )
        if f.__closure__:
            self._capture_cells(label, f.__code__.co_freevars, f.__closure__)
        if is_foreign(home):
            if f.__dict__:
                self._capture_attributes(label, f.__dict__)
            return
        self._capture_attributes(label, f.__dict__)
        names = names_of(f.__code__)
        self._names |= names
        space = f.__globals__
        if names & {"attrgetter", "methodcaller"}:
            self._names.add("__dict__")  # any attribute may be looked up
        self._capture_names("global ", None, space, sorted(names))
        self._capture_builtins([n for n in sorted(names) if n not in space])
        self._functions.append(f)
        self._follow_chains(f)

    def _follow_chains(self, f: Any) -> None:
        """Capture the names that a function reads from modules of libraries: `np.linalg.norm` reads `linalg` of one
        module and `norm` of another.
        """
        cells = dict(zip(f.__code__.co_freevars, f.__closure__ or (), strict=True))
        for name, chains in attribute_chains(f.__code__).items():
            module = read_cell(cells[name]) if name in cells else f.__globals__.get(name)
            if not isinstance(module, types.ModuleType):
                continue
            if not is_foreign(module.__name__):
                asked = names_of(f.__code__) if chains is None else {chain[0] for chain in chains if chain}
                self._asked_of_modules.setdefault(id(module), set()).update(asked)
                continue
            if chains is None:
                self._capture_library_names(module, self._names & vars(module).keys())
            for chain in chains or ():
                holder: Any = module
                for part in chain:
                    if not isinstance(holder, types.ModuleType) or not is_foreign(holder.__name__):
                        break
                    self._capture_library_names(holder, {part})
                    holder = vars(holder).get(part)
        self._follow_changes(f, cells)

    def _follow_changes(self, f: Any, cells: dict[str, Any]) -> None:
        """Capture the attributes of modules that a function sets, and refuse its code if it changes a class of a
        library.
        """
        for code in codes_in(f.__code__):
            for name, path, change in changed_attributes(code):
                self._changed_names.add(change)
                holder: Any = read_cell(cells[name]) if name in cells else f.__globals__.get(name)
                for part in path:
                    holder = None if holder is None else getattr(holder, "__dict__", {}).get(part)
                if isinstance(holder, types.ModuleType) and is_foreign(holder.__name__):
                    self._capture_names(f"{holder.__name__}.", holder, vars(holder), [change])
                elif isinstance(holder, type) and is_foreign(holder.__module__):
                    self._refused[id(code)] = f"{code.co_qualname} changes {holder.__qualname__}.{change}"

    def _capture_library_names(self, module: Any, names: Iterable[str]) -> None:
        _, done = self._libraries.setdefault(id(module), (module, set()))
        done.add("__builtins__")  # A trace replaces some builtins, see ndgrad._src.compiler.capture.side_effects.
        new = [n for n in names if n not in done and n in vars(module)]  # ndgrad loads some names lazily
        if not new:
            return
        done.update(new)
        if module is sys and "modules" in new:
            new.remove("modules")
            self._note_opaque_object("sys.modules", sys.modules, "modules", "the function looks into sys.modules")
        self._capture_names(f"{module.__name__}.", module, vars(module), sorted(new))

    def _capture_builtins(self, names: list[str]) -> None:
        names = [n for n in names if hasattr(builtins, n) and n not in self._builtins]
        if names:
            self._builtins.update(names)
            slots = CapturedSlots("builtin ", names, lambda: [original_function(vars(builtins).get(n, MISSING)) for n in names],
                functools.partial(_assign_others, vars(builtins), names), ("names", (vars(builtins), names)))
            self._capture(slots, list(names))

    def _capture_imports(self) -> None:
        """Reach the modules that functions import, as found in sys.modules."""
        if self._imported:
            names = sorted(self._imported)
            modules = sys.modules
            self._capture(CapturedSlots("sys.modules ", names, lambda: [modules.get(n, MISSING) for n in names], None), None)

    def captures_modules(self, names: frozenset[str]) -> bool:
        """True if the modules that a function imports are compared before each call."""
        return names <= self._imported

    def capture_late_names(self, names: Iterable[tuple[Any, str]]) -> None:
        """Capture names of libraries that were loaded, or looked up by a computed name, during the trace."""
        self._pending = []
        for f in self._functions:
            self._follow_chains(f)
        for module, name in names:
            self._capture_library_names(module, {name})
        self._capture_tensor_classes()
        self._walk()
        del self._pending

    def note_caches(self) -> None:
        """Record the counts of all caches at the start of a trace."""
        self._counts = [cache.cache_info() for cache in self.caches]

    def check_caches(self) -> None:
        """Raise if a trace has used a cache without a stand-in."""
        for cache, known in zip(self.caches, self._counts, strict=True):
            if cache.cache_info() != known:
                raise GraphBreak(_describe_cache(cache))

    def refuse_cache(self, cache: Any) -> None:
        """Treat a cache as an opaque object, because no stand-in can replace it."""
        self._note_opaque_object("", cache, self._first_names.get(id(cache)), _describe_cache(cache))

    def reach_cached(self, what: str, value: Any, read: Callable[[], Any]) -> None:
        """Compare a cached result before each call; `read` returns the current one. An object that has not been reached
        is reached by another environment.
        """
        if not (is_plain(value) or id(value) in self._seen or id(value) in self.tensors):
            raise Unreached(f"{what} is an object that was not found by its name", [(what, value)])
        self.watch(what, read)

    def captures_tensor_attribute(self, name: str) -> bool:
        """True if an attribute of the tensor classes is compared before each call."""
        return name in self._computed_names

    def _capture_tensor_classes(self) -> None:
        """Capture the attributes of tensor classes that code names, because methods can be replaced or added."""
        for cls in FACES:
            if is_foreign(cls.__module__):
                space = vars(cls)
                names = (self._names & space.keys()) | self._computed_names
                names -= {"_array", "_node", "_storage", "_meta"}  # a trace replaces these temporarily
                names -= self._tensor_attributes
                self._tensor_attributes |= names
                self._capture_names(f"{cls.__name__}.", cls, space, sorted(names))

    def _capture_cells(self, what: str, labels: Sequence[str], cells: tuple[Any, ...]) -> None:
        self._capture(
            CapturedSlots(what, labels, lambda: [read_cell(c) for c in cells], functools.partial(fill, cells), ("cells", cells)),
            list(labels),
        )

    def _visit_cell(self, what: str, cell: Any, name: str | None) -> None:
        slots = CapturedSlots(what, ("",), lambda: [read_cell(cell)], functools.partial(fill, (cell,)), ("cells", (cell,)))
        self._capture(slots, name)

    def _visit_method(self, what: str, method: Any, name: str | None) -> None:
        self._pending += [(what, method.__self__, name), (what, method.__func__, name)]

    def _visit_builtin(self, what: str, function: Any, name: str | None) -> None:
        """Reach the object that a builtin method belongs to. An unsafe C function is refused when it is called. For C
        functions that other C functions may call, `refuse_code` uses the names recorded here.
        """
        owner = getattr(function, "__self__", None)
        if owner is not None and not isinstance(owner, (types.ModuleType, type)):
            self._pending.append((what, owner, name))
        if isinstance(function, types.BuiltinFunctionType) and name is not None:
            refused = refuse_c_function(function)
            if refused is not None:
                self._unsafe_functions.setdefault(name, refused)

    def _visit_partial(self, what: str, value: Any, name: str | None) -> None:
        self._capture(
            CapturedSlots(f"{what}.", ["func", "args", "keywords"], lambda: [value.func, value.args, value.keywords], None), name
        )
        refused = refuse_c_function(value.func) if isinstance(value.func, types.BuiltinFunctionType) else None
        if refused is not None:
            self._note_opaque_object(what, value, name, f"the function may call {refused}, which may depend on or change something outside of it")
        if value.__dict__:
            self._capture_attributes(what, value.__dict__)

    def _visit_property(self, what: str, value: Any, name: str | None) -> None:
        self._pending += [(what, f, name) for f in (value.fget, value.fset, value.fdel) if f is not None]

    def _visit_cached_property(self, what: str, value: Any, name: str | None) -> None:
        self._pending.append((what, value.func, name))

    def _visit_cache(self, what: str, value: Any, name: str | None) -> None:
        """Reach a function that caches its results. A trace may use cached results. It ends before it computes new
        ones, see `refuse_code`.
        """
        self.caches.append(value)
        if isinstance(value.__wrapped__, types.FunctionType):
            self._remembered.add(id(value.__wrapped__.__code__))
        self._pending.append((what, value.__wrapped__, name))
        if value.__dict__:
            self._capture_attributes(what, value.__dict__)

    def _visit_wrapper(self, what: str, value: Any, name: str | None) -> None:
        self._pending.append((what, value.__func__ if hasattr(value, "__func__") else value.__wrapped__, name))

    def _visit_getter(self, what: str, value: Any, name: str | None) -> None:
        """Record the names that operator.attrgetter and operator.methodcaller look up."""
        self._names |= {part for text in value.__reduce__()[1] if isinstance(text, str) for part in text.split(".")}

    # ----- namespaces and containers ----------------------------------------------------------------------------------

    def _capture_names(self, what: str, holder: Any, space: Any, names: list[str]) -> None:
        def read_values() -> list[Any]:
            return [space.get(n, MISSING) for n in names]

        def read_library() -> list[Any]:
            return [original_function(space.get(n, MISSING)) for n in names]

        is_library = isinstance(holder, types.ModuleType) and is_foreign(holder.__name__)

        write = (
            functools.partial(_assign_others if is_library else assign, space, names)
            if isinstance(space, dict)
            else functools.partial(set_attributes, holder, names)
        )
        slots = CapturedSlots(what, names, read_library if is_library else read_values, write, ("names", (space, names)))
        self._capture(slots, list(names))

    def _capture_entries(self, what: str, d: Any, names: Sequence[str | None] | str | None) -> None:
        labels = [f"[{k!r}]" if isinstance(k, (str, int)) else "[...]" for k in d]
        self._capture(
            CapturedSlots(
                what,
                [*[""] * len(labels), *labels],
                lambda: [*d.keys(), *d.values()],
                functools.partial(refill, d),
                ("entries", d),
            ),
            names,
        )

    def _capture_attributes(self, what: str, d: Any) -> None:
        """Capture the attribute dictionary of an object. Code reaches each attribute by its name."""
        names = [k if isinstance(k, str) else None for k in d]
        self._capture_entries(what, d, [*names, *names])

    def _visit_dict(self, what: str, d: Any, name: str | None) -> None:
        self._capture_entries(what, d, name)
        if isinstance(d, collections.defaultdict):
            write = lambda saved: setattr(d, "default_factory", saved[0])
            slots = CapturedSlots(f"{what}.", ["default_factory"], lambda: [d.default_factory], write, ("factory", d))
            self._capture(slots, name)

    def _visit_list(self, what: str, items: Any, name: str | None) -> None:
        labels = [f"[{i}]" for i in range(len(items))]
        self._capture(CapturedSlots(what, labels, lambda: list(items), functools.partial(refill_list, items), ("items", items)), name)

    def _visit_tuple(self, what: str, items: Any, name: str | None) -> None:
        self._reach_items(what, items, name)  # the tuple is constant, but its items may change

    def _visit_set(self, what: str, items: Any, name: str | None) -> None:
        write = functools.partial(refill_set, items) if isinstance(items, set) else None
        self._capture(CapturedSlots(what, (), lambda: sorted(items, key=id), write, ("set", items)), name)

    def _visit_proxy(self, what: str, proxy: Any, name: str | None) -> None:
        self._capture(CapturedSlots(what, (), lambda: [*proxy.keys(), *proxy.values()], None), name)

    def _visit_bytes(self, what: str, value: Any, name: str | None) -> None:
        def write(saved: list[Any]) -> None:
            value[:] = saved[0] if isinstance(value, bytearray) else array.array(value.typecode, saved[0])

        self._capture(CapturedSlots(what, (), lambda: [value.tobytes() if isinstance(value, array.array) else bytes(value)], write), name)

    def _visit_context_variable(self, what: str, variable: Any, name: str | None) -> None:
        def read_value() -> list[Any]:
            try:
                return [variable.get()]  # its own default counts, too
            except LookupError:
                return [MISSING]

        self._capture(CapturedSlots(f"{what}, a context variable", (), read_value, None), name)

    def _visit_thread_local(self, what: str, value: Any, name: str | None) -> None:
        self._visit_class(type(value))

        def read_values() -> list[Any]:
            own = value.__dict__  # attributes of this thread
            return [*own.keys(), *own.values()]

        self._capture(CapturedSlots(what, (), read_values, lambda saved: refill(value.__dict__, saved)), name)

    def _visit_array(self, what: str, array: Any, name: str | None) -> None:
        if array.nbytes > LARGE or array.dtype.hasobject:
            reason = f"{what} is a NumPy array of {array.nbytes} bytes, too many to be compared before each call: make it a tensor"
            if array.dtype.hasobject:
                reason = f"{what} is a NumPy array of Python objects, which cannot be compared before each call"
            self._note_opaque_object(what, array, name, reason)
            return
        if array.nbytes > SMALL:
            known = Contents(array)
            put = (lambda saved: saved[0].write(array)) if array.flags.writeable else None
            label = f" ({array.nbytes} bytes, compared before each call; those of a tensor are not)"
            self._capture(CapturedSlots(what, [label], lambda: [known if known.are_in(array) else Contents(array)], put), name)
            return

        def write(saved: list[Any]) -> None:
            array[...] = np.frombuffer(saved[0][2], array.dtype).reshape(array.shape)

        write_back = write if array.flags.writeable else None
        self._capture(
            CapturedSlots(what, (), lambda: [(array.shape, array.dtype.str, array.tobytes())], write_back, ("array", array)), name
        )

    # ----- modules, classes, objects ----------------------------------------------------------------------------------

    def _visit_module(self, what: str, module: Any, name: str | None) -> None:
        if not is_foreign(module.__name__):
            self._names.add("__getattr__")
            self._named.append((module, set(), f"{module.__name__}."))
            if name is None:  # imported by the function
                self._asked_of_modules.setdefault(id(module), set()).update(self._names)
        elif name is None:  # imported by the function
            self._named_libraries.append(module)

    def _visit_type(self, what: str, cls: Any, name: str | None) -> None:
        if cls.__module__ in _HIDDEN_MODULES:
            self._note_opaque_object(what, cls, name, f"{cls.__module__}.{cls.__qualname__} may depend on or change something else")
        self._visit_class(cls)
        if isinstance(cls, abc.ABCMeta):
            self._capture_virtual_subclasses()

    def _visit_class(self, cls: type) -> None:
        if type(cls) is not type and not is_foreign(type(cls).__module__):
            self._visit_class(type(cls))
        if is_foreign(cls.__module__):
            return
        for c in cls.__mro__:
            if not is_foreign(c.__module__) and not any(holder is c for holder, _, _ in self._named):
                # Python calls special methods by itself. A base class of ndgrad or another library may call any method.
                derived = any(is_foreign(b.__module__) and b is not object for b in c.__mro__)
                functions = (types.FunctionType, staticmethod, classmethod, property)
                self._names |= {
                    n for n, v in vars(c).items() if (derived or n.startswith("__")) and isinstance(v, functions)
                }
                self._named.append((c, set(), f"{c.__qualname__}."))
                self._capture_keys(c)

    def _capture_keys(self, cls: type) -> None:
        """Compare the bases of a class and its attribute names: an added attribute may hide one of a base."""
        self._capture(CapturedSlots(f"the bases of {cls.__qualname__}", (), lambda: [cls.__mro__], None, ("bases", cls)), None)
        space = vars(cls)
        write = functools.partial(drop_keys, cls)
        self._capture(CapturedSlots(f"the attributes of {cls.__qualname__}", (), lambda: [*space], write, ("keys", space)), None)

    def _capture_virtual_subclasses(self) -> None:
        """Compare the registrations with abstract classes."""
        if id(abc.get_cache_token) not in self._seen:
            self._seen[id(abc.get_cache_token)] = abc.get_cache_token
            self._capture(CapturedSlots("the classes registered with abstract ones", (), lambda: [abc.get_cache_token()], None), None)

    def _visit_object(self, what: str, value: Any, name: str | None) -> None:
        cls = type(value)
        if cls.__module__ == "ndgrad.numpy.random":  # draws from NumPy's generator
            value = getattr(value, "_numpy", value)
        if isinstance(value, (random.Random, np.random.Generator, np.random.RandomState, Generator)):
            self._sources.append((value, get_state(value)))
        elif defining_module(cls).startswith(_CONSTANT_MODULES) or cls in _CONSTANT_CLASSES or (cls.__name__ in _COMPILED_FUNCTIONS and is_foreign(getattr(value, "__module__", None))):
            pass
        elif hasattr(cls, "__next__"):
            self._note_opaque_object(what, value, name, f"{what} is an iterator, which the function would advance")
        elif is_foreign(cls.__module__) and cls.__module__.partition(".")[0] in sys.stdlib_module_names:
            self._visit_standard_object(what, value, name)
        else:
            self._visit_own_object(what, value, name)

    def _visit_standard_object(self, what: str, value: Any, name: str | None) -> None:
        """Reach an object of the standard library. Unsafe code of the library never runs in a trace, so the function
        can only read named attributes of the object without a call.
        """
        cls = type(value)
        own = getattr(value, "__dict__", None)
        is_transparent = is_pure_source(cls.__module__) or any(
            f"{c.__module__}.{c.__qualname__}" in _TRANSPARENT for c in cls.__mro__
        )
        if cls.__module__ in ("weakref", "_weakrefset") or (_has_hidden_state(cls) and not is_transparent):
            self._note_opaque_object(what, value, name)
        elif is_transparent and isinstance(own, dict):
            self.reaches_environment_variables |= cls.__qualname__ == "_Environ"
            self._capture_identity(what, value)
            self._capture_attributes(what, own)
        elif cls.__module__ in _IMMUTABLE_MODULES:
            pass
        elif isinstance(own, dict) and cls.__flags__ & _IS_HEAP_TYPE and not hasattr(cls, "__getitem__"):
            self._named.append((value, set(), f"{what}."))
        else:
            self._note_opaque_object(what, value, name)

    def _visit_own_object(self, what: str, value: Any, name: str | None) -> None:
        cls = type(value)
        self._visit_class(cls)
        own = getattr(value, "__dict__", None)
        slots = [n for c in cls.__mro__ for n in slots_of(c)]
        if isinstance(value, BaseException):
            self._capture(CapturedSlots(f"{what}.", ["args"], lambda: [value.args], lambda saved: setattr(value, "args", saved[0])), name)
        elif not is_foreign(cls.__module__) and _has_hidden_state(cls):
            self._note_opaque_object(what, value, name)
        if hasattr(cls, "__environment__"):
            self._pending += [(what, v, name) for v in value.__environment__()]
        elif isinstance(own, dict):
            if value.__dict__ is own:
                self._capture_identity(what, value)
            self._capture_attributes(what, own)
        if slots and not is_foreign(cls.__module__):
            if not isinstance(own, dict):
                self._capture(CapturedSlots(f"{what}.", ["__class__"], lambda: [type(value)], None, ("class", value)), name)
            write = functools.partial(set_slots, value, slots)
            self._capture(
                CapturedSlots(
                    f"{what}.",
                    slots,
                    lambda: [getattr(value, n, MISSING) for n in slots],
                    write,
                    ("slots", (value, slots)),
                ),
                list(slots),
            )

    def _capture_identity(self, what: str, value: Any) -> None:
        """Capture the class of an object and the identity of its attribute dictionary."""
        self._seen[id(value.__dict__)] = value.__dict__
        self._capture(
            CapturedSlots(
                f"{what}.",
                ["__class__", "__dict__"],
                lambda: [type(value), value.__dict__],
                functools.partial(set_identity, value),
                ("object", value),
            ),
            None,
        )

    # ----- checking code before it runs -------------------------------------------------------------------------------

    def has_code(self, code: types.CodeType) -> bool:
        """True if code belongs to a function that was reached."""
        return id(code) in self._codes

    def refuse_code(self, code: types.CodeType) -> str | None:
        """Return the reason why code must not run in a trace; None if it may run."""
        names = own_names(code)
        if id(code) in self._refused:
            return self._refused[id(code)]
        if id(code) in self._remembered:
            return f"{code.co_qualname} caches its results and has none for these arguments yet"
        if not self.opaque and not self._unsafe_functions:
            return None
        if self.opaque:
            if names & {"__dict__", "vars"}:  # any attribute may be looked up
                return next(iter(self.opaque.values()))
            for name in (*self._with_aliases(names), _parameters_of(code)):
                if name in self.opaque:
                    return self.opaque[name]
        if names & _CALLING:
            unsafe = next((self._unsafe_functions[n] for n in names if n in self._unsafe_functions), None)
            if unsafe is not None:
                return f"the function may call {unsafe}, which may depend on or change something outside of it"
        return None

    def refuse_name(self, name: str) -> str | None:
        """Return the reason why an attribute must not be looked up by a computed name."""
        return next((self.opaque[n] for n in self._with_aliases([name]) if n in self.opaque), None)

    def _with_aliases(self, names: Iterable[str]) -> set[str]:
        """Return names together with other names that lead to the same containers."""
        found, new = set(names), set(names)
        while new:
            new = {first for n in new for first in self._aliases.get(n, ())} - found
            found |= new
        return found

    def misses_name(self, name: str) -> bool:
        """True if a reached class or module has an attribute of this name that is not captured."""
        if name in self._names:
            return False
        return any(name in holder.__dict__ or isinstance(holder, types.ModuleType) for holder, _, _ in self._named)

    # ----- comparing --------------------------------------------------------------------------------------------------

    def install(self, placeholders: dict[tuple[int, int], tuple[CapturedSlots, Any]]) -> None:
        """Write placeholders for numbers into slots. A slot is given by the identity of its `CapturedSlots` and its number."""
        self._installed = {where: made for where, (_, made) in placeholders.items()}
        for slots in {id(slots): slots for slots, _ in placeholders.values()}.values():
            values = slots.read()
            for (whose, place), made in self._installed.items():
                if whose == id(slots):
                    values[place] = made
            assert slots.write is not None
            slots.write(values)

    def watch(self, what: str, read: Callable[[], Any]) -> None:
        """Compare the result of `read` before each call, too."""
        self.captured.append(CapturedSlots(what, (), lambda: [read()], None))

    def find_placeholder(self, slots: CapturedSlots, place: int) -> Any:
        """Return the placeholder installed in a slot, or an object that no slot holds."""
        return self._installed.get((id(slots), place), _NONE_INSTALLED)

    def find_slots(self, value: Any) -> list[tuple[CapturedSlots, int]] | None:
        """Return the slots that hold an object; None if the object is also reached in other ways."""
        found = [(slots, i) for slots in self.captured for i, v in enumerate(slots.then) if v is value]
        return found if len(found) == self._arrivals[id(value)] else None

    def find_contents(self, container: Any) -> CapturedSlots | None:
        """Return the slots inside a list or dictionary."""
        for slots in self.captured:
            if slots.form is not None and slots.form[0] in ("items", "entries") and slots.form[1] is container:
                return slots
        return None

    def adopt(self, slots: CapturedSlots, place: int, new: Any) -> bool:
        """Accept a new list or dictionary of numbers in a slot as the successor of the old one; False if it is not.

        The old container must be reached through this slot only. The numbers must be equal to the old ones, or fit
        slots whose numbers are inputs.
        """
        old = slots.then[place]
        if type(new) not in (list, dict) or type(old) is not type(new) or id(new) in self._seen:
            return False
        inside = self.find_contents(old)
        if inside is None or inside.is_growing or self._arrivals[id(old)] != 1:
            return False
        values = [*new.keys(), *new.values()] if type(new) is dict else list(new)
        if len(values) != len(inside.then):
            return False
        templates = inside.varying or {}
        for i, (a, b) in enumerate(zip(values, inside.then, strict=True)):
            if type(a) not in NUMBERS or not (a is b or is_same(a, b) or (i in templates and fits(a, templates[i]))):
                return False
        if type(new) is dict:
            inside.read, inside.write = (lambda: [*new.keys(), *new.values()]), functools.partial(refill, new)
            inside.form = "entries", new
        else:
            inside.read, inside.write = (lambda: list(new)), functools.partial(refill_list, new)
            inside.form = "items", new
        inside.then, slots.then[place] = values, new
        del self._seen[id(old)]
        self._seen[id(new)], self._arrivals[id(new)] = new, 1
        self.generation += 1
        if not self.moving >= {id(slots), id(inside)}:
            self.moving |= {id(slots), id(inside)}
            self.quick = None
        return True

    def find_changes(self) -> list[tuple[CapturedSlots, int, Any]]:
        """Return the slots that have changed as (slots, number, current value). The number is -1 if the count of items
        has changed, and -2 for a generator of random numbers. An installed placeholder is no change.
        """
        found: list[tuple[CapturedSlots, int, Any]] = []
        for slots in self.captured:
            now, then = slots.read(), slots.then
            if len(now) != len(then):
                found.append((slots, -1, now))
            elif not all(map(is_, now, then)):
                for i, (a, b) in enumerate(zip(now, then, strict=True)):
                    if a is not b and a is not self._installed.get((id(slots), i), _NONE_INSTALLED) and not is_same(a, b):
                        found.append((slots, i, a))
            for (whose, place), made in self._installed.items():
                if whose == id(slots) and len(now) == len(then) and now[place] is not made and is_same(now[place], then[place]):
                    found.append((slots, place, now[place]))  # overwritten by a number equal to that of this call
        for source, state in self._sources:
            if not is_same_state(get_state(source), state):
                found.append((CapturedSlots("", (), list, functools.partial(restore_state, source, state)), -2, source))
        return found

    def restore(self) -> None:
        """Restore every slot, even if others raise. Raise a graph break at the end for the slots that could not be
        restored.
        """
        self._installed = {}
        failed: list[str] = []
        unwritten: list[CapturedSlots] = []
        for slots in self.captured:
            try:
                now, then = slots.read(), slots.then
                if len(now) == len(then) and all(a is b or is_same(a, b) for a, b in zip(now, then, strict=True)):
                    continue
                if slots.write is None:
                    unwritten.append(slots)  # view of another object, such as a mapping proxy
                else:
                    slots.write(then)
            except Exception:
                failed.append(slots.what)
        for source, state in self._sources:
            if not is_same_state(get_state(source), state):
                restore_state(source, state, [])
        for slots in unwritten:
            now, then = slots.read(), slots.then
            if len(now) != len(then) or not all(a is b or is_same(a, b) for a, b in zip(now, then, strict=True)):
                failed.append(slots.what)
        if failed:
            raise GraphBreak(f"{failed[0]} has changed and cannot be put back")

    @contextmanager
    def rewind(self, places: Iterable[CapturedSlots]) -> Iterator[None]:
        """Context in which slots hold the values of the last comparison, before a call changed them."""
        before = [(slots, slots.read()) for slots in places if slots.write is not None and not slots.is_growing]
        try:
            for slots, _ in before:
                slots.write(slots.then)  # type: ignore[misc]  # not None, see above
            yield
        finally:
            for slots, values in before:
                slots.write(values)  # type: ignore[misc]

    @contextmanager
    def as_traced(self) -> Iterator[None]:
        """Context in which everything that can be restored is as it was when the function was traced."""
        now = [(slots, slots.read()) for slots in self.captured]
        changed = [
            (slots, values)
            for slots, values in now
            if slots.write is not None and not slots.is_growing and not _are_same(values, slots.then)
        ]
        try:
            for slots, _ in changed:
                assert slots.write is not None
                slots.write(slots.then)
            yield
        finally:
            for slots, values in changed:
                assert slots.write is not None
                slots.write(values)

    def check(self) -> str | None:
        """Return the reason why a trace made in this environment is no longer valid; None if it is valid. Replaced
        tensors of the same kind become the new inputs.
        """
        moved: dict[int, list[Any]] = {}
        places, tensors = self.slow if self.quick is not None and self.quick() else (self.captured, self.tensors.values())
        for slots in places:
            now, then = slots.read(), slots.then
            if (len(now) == len(then) and all(map(is_, now, then))) or slots.is_growing:
                continue
            reason = self._compare(slots, now, moved)
            if reason is not None:
                return reason
        for t, known, _, label in tensors:
            if id(t) not in moved and known is not None and get_facts(t) != known:
                return f"{label}: a tensor has another shape, dtype, layout or requires_grad than before"
        return self._accept_moved(moved) if moved else None

    def _compare(self, slots: CapturedSlots, now: list[Any], moved: dict[int, list[Any]]) -> str | None:
        """Return the reason why changed slots need another trace; None if they do not. Record replaced tensors in
        `moved`.
        """
        then = slots.then
        if slots.form is not None and slots.form[0] == "keys":
            return f"{slots.what} are others" if self._has_other_keys(slots, now) else None
        if len(now) != len(then):
            return f"{slots.what} has other items"
        for i, (a, b) in enumerate(zip(now, then, strict=True)):
            if a is b:
                continue
            if slots.varying is not None and i in slots.varying and fits(a, slots.varying[i]):
                then[i] = a
            elif is_same(a, b):
                if b.__class__ is not tuple:  # items of a tuple may have been reached
                    then[i] = a  # the next comparison is by identity again
                    self.generation += 1
            elif not (isinstance(a, Variable) and isinstance(b, Variable)):
                if not self.adopt(slots, i, a):
                    return f"{slots.label(i)} has changed"
            else:
                entry = moved.setdefault(id(b), [a, 0])
                if entry[0] is not a:
                    return f"{slots.label(i)} is another tensor"
                entry[1] += 1
        return None

    def _has_other_keys(self, slots: CapturedSlots, now: list[Any]) -> bool:
        """True if a class has gained or lost an attribute that some code names. Accept other attributes."""
        if self._names & {*now}.symmetric_difference(slots.then):
            return True
        slots.then = now
        self.generation += 1
        return False

    def has_new_values(self) -> bool:
        """True if slots with numbers as inputs hold anything new that is not such a number."""
        for slots in self.captured:
            templates = slots.varying
            if templates is None:
                continue
            now, then = slots.read(), slots.then
            if len(now) != len(then):
                return True
            for i, (a, b) in enumerate(zip(now, then, strict=True)):
                if a is not b:
                    if i not in templates or not fits(a, templates[i]):
                        return True
                    then[i] = a
        return False

    def _accept_moved(self, moved: dict[int, list[Any]]) -> str | None:
        """Accept tensors as replacements of others. Each must replace one tensor, in all slots of that tensor."""
        for before, (now, count) in moved.items():
            _, known, places, label = self.tensors[before]
            if count != places or (id(now) in self.tensors and id(now) not in moved):
                return f"{label} is another tensor"
            if known is None or not _has_facts(now._array) or get_facts(now) != known:
                return f"{label} is a tensor of another kind"
        if len({id(now) for now, _ in moved.values()}) != len(moved):
            return "two tensors have become one"
        entries = {before: self.tensors.pop(before) for before in moved}
        for before, (now, _) in moved.items():
            entries[before][0] = now
            self.tensors[id(now)] = entries[before]
        for slots in self.captured:
            if slots.is_growing:
                continue
            then, slots.then = slots.then, slots.read()
            for a, b in zip(then, slots.then, strict=True):
                if a is not b and isinstance(b, Variable):
                    self._note_move(slots, b)
        self.generation += 1
        return None

    def write_slot(self, slots: CapturedSlots, number: int, value: Any) -> None:
        """Write an object into a slot. The environment accepts a tensor of the same kind as a replacement, and likewise
        numbers that are inputs and containers of such numbers.
        """
        half = len(slots.then) // 2
        if slots.form is not None and slots.form[0] == "entries" and number >= half:
            set_item(slots.form[1], slots.then[number - half], value)
        else:
            values = slots.read()
            values[number] = value
            assert slots.write is not None
            slots.write(values)
        before = slots.then[number]
        if not isinstance(value, Variable):
            if slots.varying is not None and number in slots.varying and fits(value, slots.varying[number]):
                slots.then[number] = value
            else:
                self.adopt(slots, number, value)
            return
        known = self.tensors.get(id(before))
        if (
            known is not None
            and known[0] is before
            and known[2] == 1
            and id(value) not in self.tensors
            and get_facts(value) == known[1]
        ):
            del self.tensors[id(before)]
            known[0] = value
            self.tensors[id(value)] = known
            slots.then[number] = value
            self.generation += 1
            self._note_move(slots, value)

    def _note_move(self, slots: CapturedSlots, t: Any) -> None:
        """Record a slot in which tensors are replaced, and the entry of its tensor. Python compares these."""
        known = id(self.tensors[id(t)])
        if id(slots) not in self.moving or known not in self.moving_tensors:
            self.moving.add(id(slots))
            self.moving_tensors.add(known)
            self.quick = None  # the native guard knows the previous tensor

    @property
    def may_ask_for_types(self) -> bool:
        """True if code of the user may call `type`, by that name or another one."""
        return "type" in self._names or id(type) in self._seen

    @property
    def reached_ids(self) -> Iterable[int]:
        """Identities of all reached objects."""
        return self._seen.keys()

    def generator_state(self, generator: Generator) -> bytes | None:
        """Return the state of a generator when the environment was created; None if the generator is not reached."""
        return next((state for source, state in self._sources if source is generator), None)

    def capture_attributes(self, t: Any, own: dict[str, Any]) -> bool:
        """Compare the attributes of a tensor, in `own`, from now on; False if the tensor is not reached."""
        known = self.tensors.get(id(t))
        if known is not None and not any(slots.form is not None and slots.form[1] is own for slots in self.captured):
            self._pending = []
            self._capture_attributes(known[3], own)
            self._walk()
            del self._pending
        return known is not None

    def find_entry(self, t: Any) -> list[Any] | None:
        """Return the entry of a reached tensor: a list whose first item is the tensor currently in its slots."""
        return self.tensors.get(id(t))


def _are_same(a: list[Any], b: list[Any]) -> bool:
    """True if two lists hold the same objects in the same order."""
    return len(a) == len(b) and all(map(is_, a, b))


def _global_hooks() -> list[Any]:
    """Return the global hooks of modules and of optimizer steps."""
    modules, optimizers = sys.modules.get("ndgrad.nn.modules.hooks"), sys.modules.get("ndgrad.optim.optimizer")
    return [*([modules.of_all] if modules else []), *([optimizers._STEP_HOOKS] if optimizers else [])]


def _has_hidden_state(cls: type) -> bool:
    """True if objects of a class have memory apart from attributes and slots, because they are implemented in C."""
    slots = sum(isinstance(v, types.MemberDescriptorType) for c in cls.__mro__ for v in vars(c).values())
    pointers = 2 + slots  # plus the attribute dictionary and weak references
    return cls.__itemsize__ != 0 or cls.__basicsize__ > object.__basicsize__ + pointers * object.__basicsize__ // 2


def _describe_cache(cache: Any) -> str:
    name = getattr(cache, "__qualname__", repr(cache))
    return f"{name} caches its results; a compiled call cannot repeat the way it is called"


def _parameters_of(code: types.CodeType) -> str:
    """Return the name that stands for the default values of a function's parameters."""
    return f"the parameters of {code.co_qualname} at {id(code):#x}"


def _visit_nothing(environment: Environment, what: str, value: Any, name: str | None) -> None:
    """Reach nothing: the object is constant."""


#: Classes of objects that may be opaque, or have opaque items: all names that lead to them are recorded.
_ALIASED = (list, tuple, dict, set, collections.deque, functools._lru_cache_wrapper)

#: Flag of classes made by a class statement.
_IS_HEAP_TYPE = 1 << 9

#: Functions that call their arguments without an event of the interpreter's monitoring.
_CALLING = frozenset(
    "map filter sorted sort min max reduce iter partial starmap accumulate takewhile dropwhile groupby defaultdict vectorize"
    " frompyfunc tree_map register_hook".split()
)

#: Classes of functions written in Cython or Fortran.
_COMPILED_FUNCTIONS = frozenset(["cython_function_or_method", "fused_cython_function", "fortran"])

#: Modules of the standard library whose objects are immutable.
_IMMUTABLE_MODULES = frozenset(
    "re _sre datetime fractions pathlib pathlib._local uuid typing types _struct numbers abc _abc zoneinfo".split()
)

#: Modules with C classes that use memory or settings outside of the comparison.
_HIDDEN_MODULES = frozenset("decimal _decimal ctypes _ctypes mmap _socket socket select _csv _queue sqlite3 _sqlite3 _io".split())

#: Classes of the standard library whose state is in their attributes.
_TRANSPARENT = frozenset(
    "argparse.Namespace types.SimpleNamespace os._Environ".split()
)

#: Visitors by exact class.
_REACH: dict[type, Callable[[Environment, str, Any, str | None], None]] = {
    types.FunctionType: Environment._visit_function,
    types.MethodType: Environment._visit_method,
    functools.partial: Environment._visit_partial,
    functools._lru_cache_wrapper: Environment._visit_cache,
    property: Environment._visit_property,
    functools.cached_property: Environment._visit_cached_property,
    staticmethod: Environment._visit_wrapper,
    classmethod: Environment._visit_wrapper,
    types.BuiltinFunctionType: Environment._visit_builtin,
    types.MethodWrapperType: Environment._visit_builtin,
    types.WrapperDescriptorType: _visit_nothing,
    types.MethodDescriptorType: _visit_nothing,
    types.ClassMethodDescriptorType: _visit_nothing,
    types.GetSetDescriptorType: _visit_nothing,
    types.MemberDescriptorType: _visit_nothing,
    types.CodeType: _visit_nothing,
    types.MappingProxyType: Environment._visit_proxy,
    types.CellType: Environment._visit_cell,
    types.SimpleNamespace: Environment._visit_standard_object,
    operator.attrgetter: Environment._visit_getter,
    operator.methodcaller: Environment._visit_getter,
    operator.itemgetter: _visit_nothing,
    object: _visit_nothing,
    slice: _visit_nothing,
    np.ufunc: _visit_nothing,
    type(np.sum): _visit_nothing,
    type(vars(collections.namedtuple("_Pair", "a b"))["a"]): _visit_nothing,  # noqa: PYI024  # reader of a named field
}

#: Visitors for classes and their subclasses.
_REACH_SUBCLASSES: dict[type, Callable[[Environment, str, Any, str | None], None]] = {
    np.ndarray: Environment._visit_array,
    list: Environment._visit_list,
    collections.deque: Environment._visit_list,
    dict: Environment._visit_dict,
    set: Environment._visit_set,
    frozenset: Environment._visit_set,
    tuple: Environment._visit_tuple,
    bytearray: Environment._visit_bytes,
    array.array: Environment._visit_bytes,
    threading.local: Environment._visit_thread_local,
    contextvars.ContextVar: Environment._visit_context_variable,
    types.ModuleType: Environment._visit_module,
    type: Environment._visit_type,
    **dict.fromkeys((bool, int, float, complex, str, bytes), _visit_nothing),
}

#: Subclasses of these whose objects have no attributes of their own.
_EXACT = frozenset([*_REACH_SUBCLASSES, collections.OrderedDict, collections.defaultdict])
