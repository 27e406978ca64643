"""Names that code must not use in a trace, and code that must not run.

Note [Opaque objects]
Some objects cannot be compared: open files, locks, iterators, weak references, objects of C extensions. Such an object
is harmless until code uses it. Code uses it through a name, or through a container that has a name. `OpaqueNames`
records these names, and a trace ends before it runs code that has one of them (see
ndgrad._src.compiler.capture.trace_watch). An opaque argument has no name, so it ends the trace at once.
"""

from __future__ import annotations

import collections
import functools
import types
from collections.abc import Iterable
from typing import Any

from ndgrad._src.compiler.capture.graph_break import GraphBreak
from ndgrad._src.compiler.capture.looked_up_names import own_names

#: Classes of objects that may be opaque, or have opaque items: all names that lead to them are recorded.
_ALIASED = (list, tuple, dict, set, collections.deque, functools._lru_cache_wrapper)

#: Functions that call their arguments without an event of the interpreter's monitoring.
_CALLING = frozenset(
    "map filter sorted sort min max reduce iter partial starmap accumulate takewhile dropwhile groupby defaultdict vectorize"
    " frompyfunc tree_map register_hook".split()
)


class OpaqueNames:
    """Names that lead to opaque objects and unsafe functions, and code that must not run."""

    def __init__(self) -> None:
        #: Names that lead to opaque objects, with the reason for a break; and these objects, by identity.
        self._names: dict[str, str] = {}
        self._objects: dict[int, str] = {}
        #: Names that lead to unsafe C functions, with the names of these functions.
        self._unsafe_functions: dict[str, str] = {}
        #: First name that led to an object, by identity; and for names, other names that lead to the same container.
        self._first_names: dict[int, str | None] = {}
        self._aliases: dict[str, set[str]] = {}
        #: Code that must not run in a trace, with the reason; and identities of code whose results are cached.
        self.refused: dict[int, str] = {}
        self._remembered: set[int] = set()

    # ----- recording --------------------------------------------------------------------------------------------------

    def note_object(self, what: str, value: Any, name: str | None, reason: str | None = None) -> None:
        """Record an object that cannot be compared (see Note [Opaque objects])."""
        if reason is None:
            cls = type(value)
            reason = f"{what} is an object of class {cls.__module__}.{cls.__qualname__}, which cannot be compared before each call"
        self._objects[id(value)] = reason
        self._note_name(name, reason)

    def _note_name(self, name: str | None, reason: str) -> None:
        if name is None:
            raise GraphBreak(reason)
        self._names.setdefault(name, reason)

    def note_unsafe(self, name: str, function: str) -> None:
        """Record that a name leads to an unsafe C function."""
        self._unsafe_functions.setdefault(name, function)

    def note_first(self, value: Any, name: str | None) -> None:
        """Record the first name of an object."""
        self._first_names[id(value)] = name

    def add_alias(self, value: Any, name: str | None) -> None:
        """Record that an object is reached under a second name."""
        first = self._first_names.get(id(value))
        if first == name:
            return
        if id(value) in self._objects:
            self._note_name(name, self._objects[id(value)])
        elif first is not None and name is not None and isinstance(value, _ALIASED):
            self._aliases.setdefault(name, set()).add(first)

    def remember(self, code: types.CodeType) -> None:
        """Record the code of a function that caches its results."""
        self._remembered.add(id(code))

    def refuse_cache(self, cache: Any) -> None:
        """Treat a cache as an opaque object, because no stand-in can replace it."""
        self.note_object("", cache, self._first_names.get(id(cache)), describe_cache(cache))

    # ----- checking ---------------------------------------------------------------------------------------------------

    def refuse_code(self, code: types.CodeType) -> str | None:
        """Return the reason why code must not run in a trace; None if it may run."""
        names = own_names(code)
        if id(code) in self.refused:
            return self.refused[id(code)]
        if id(code) in self._remembered:
            return f"{code.co_qualname} caches its results and has none for these arguments yet"
        if not self._names and not self._unsafe_functions:
            return None
        if self._names:
            if names & {"__dict__", "vars"}:  # any attribute may be looked up
                return next(iter(self._names.values()))
            for name in (*self._with_aliases(names), parameters_of(code)):
                if name in self._names:
                    return self._names[name]
        if names & _CALLING:
            unsafe = next((self._unsafe_functions[n] for n in names if n in self._unsafe_functions), None)
            if unsafe is not None:
                return f"the function may call {unsafe}, which may depend on or change something outside of it"
        return None

    def refuse_name(self, name: str) -> str | None:
        """Return the reason why an attribute must not be looked up by a computed name."""
        return next((self._names[n] for n in self._with_aliases([name]) if n in self._names), None)

    def _with_aliases(self, names: Iterable[str]) -> set[str]:
        """Return names together with other names that lead to the same containers."""
        found, new = set(names), set(names)
        while new:
            new = {first for n in new for first in self._aliases.get(n, ())} - found
            found |= new
        return found


def describe_cache(cache: Any) -> str:
    """Return the reason why a function that caches its results cannot be traced."""
    name = getattr(cache, "__qualname__", repr(cache))
    return f"{name} caches its results; a compiled call cannot repeat the way it is called"


def parameters_of(code: types.CodeType) -> str:
    """Return the name that stands for the default values of a function's parameters."""
    return f"the parameters of {code.co_qualname} at {id(code):#x}"
