"""Guards on the captured state that a builtin can check: the same as last time, or else Python compares.

An environment compares the contents of its slots with the previous ones (ndgrad._src.compiler.capture.environment).
Here each kind of slot becomes checks (ndgrad._src.compiler.native.calls): the content of a cell, the items of a list,
the code of a function. The checks hold only if Python's comparison would find the same objects. Slots that cannot be
read without Python code (sets, queues, dictionaries with an order of their own, objects with computed attributes) are
left to Python: `left_over`.
"""

from __future__ import annotations

import gc
import types
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from ndgrad._src.arrays.library import is_on_device
from ndgrad._src.compiler.capture.captured_state import MISSING, CapturedSlots, is_same
from ndgrad._src.compiler.capture.environment import Environment
from ndgrad._src.compiler.capture.tensor_facts import get_facts
from ndgrad._src.compiler.native.calls import Check, Input, absent, code, make_call, make_comparison
from ndgrad._src.compiler.runtime.guard_source import GuardSource
from ndgrad._src.core.modes import process


class Snapshot:
    """The checks of an environment, as of its last comparison."""

    def __init__(self, environment: Environment, numbers_vary: bool = False) -> None:
        """Create the checks. With `numbers_vary`, slots whose numbers are inputs are compared elsewhere, before the
        guards.
        """
        self.generation = environment.generation
        self.checks: list[Check] = []
        #: Slots that Python must compare, and their contents. The environment may accept others later, but these guards
        #: are for these.
        self.left_over: list[tuple[CapturedSlots, list[Any]]] = []
        for slots in environment.captured:
            if slots.is_growing or (numbers_vary and slots.varying):
                continue
            found = _checks(slots)
            if found is None:
                self.left_over.append((slots, [*slots.then]))
            else:
                self.checks += found

    def rest_is_the_same(self) -> bool:
        """True if the slots that are left to Python hold the same values."""
        for slots, then in self.left_over:
            now = slots.read()
            if len(now) != len(then) or any(a is not b and not is_same(a, b) for a, b in zip(now, then, strict=True)):
                return False
        return True


def compare_quickly(environment: Environment) -> None:
    """Prepare an environment for quick comparison, except for slots that are left to Python and for tensors that calls
    replace.
    """
    checks: list[Check] = []
    places, tensors, facts = [], [], []
    source = GuardSource()
    for slots in environment.captured:
        if slots.is_growing:
            continue
        # Slots whose numbers are inputs may hold other numbers.
        found = None if id(slots) in environment.moving or slots.varying else _checks(slots)
        if found is None:
            places.append(slots)
        else:
            checks += found
    for known in environment.tensors.values():
        if id(known) in environment.moving_tensors or is_on_device(known[0]._array):
            tensors.append(known)
        elif known[1] is not None:
            facts.append((source.name(known[0]), known[1]))
    source.require(f"not {source.name(process)}.named and {source.name(make_comparison(checks))}()")
    require_facts(source, facts)
    environment.slow, environment.quick = (places, tensors), source.function("True", "found")


def require_facts(source: GuardSource, tensors: Sequence[tuple[str, tuple[Any, ...]]]) -> None:
    """Require facts about tensors, each given by the name of a variable. `process.named` guards that they have no names
    for dimensions.
    """
    arrays, kinds = [], []
    for t, facts in tensors:
        if is_contiguous(facts):
            source.require_tensor(t, facts)
            arrays.append(f"{t}._array")
            kinds.append(Input(facts[2], tuple(facts[1]), tuple(facts[3])))
        else:
            source.require(f"{source.name(get_facts)}({t}) == {source.name(facts)}")
    if arrays:
        fit = make_call("fit", kinds, [], code().address("nothing"), release=False)
        source.require(f"{source.name(fit)}({', '.join(arrays)}) is not None")


def is_contiguous(facts: tuple[Any, ...]) -> bool:
    """True if a tensor with these facts is in C order."""
    _, shape, dtype, strides, *_ = facts
    return bool(np.lib.stride_tricks.as_strided(np.empty((), dtype), shape, strides).flags.c_contiguous)


def _checks(slots: CapturedSlots) -> list[Check] | None:
    """Return the checks of some slots; None if only Python can read them."""
    if slots.form is None:
        return None
    kind, whose = slots.form
    found: list[Check] | None = _KINDS[kind](whose, [absent if v is MISSING else v for v in slots.then])
    return found


def _function(f: Any, then: list[Any]) -> list[Check]:
    # Missing defaults are a null pointer in C, not None.
    getters = "PyFunction_GetCode", "PyFunction_GetDefaults", "PyFunction_GetKwDefaults"
    parts = [absent if value is None else value for value in then]
    return [Check.borrowed_result(getter, f, value) for getter, value in zip(getters, parts, strict=True)]


def _cells(cells: Any, then: list[Any]) -> list[Check]:
    return [Check.new_result("PyCell_Get", cell, value) for cell, value in zip(cells, then, strict=True)]


def _items(items: Any, then: list[Any]) -> list[Check] | None:
    return [Check.items(items, then)] if type(items) is list else None


def _entries(entries: Any, then: list[Any]) -> list[Check] | None:
    half = len(then) // 2
    # An OrderedDict keeps its order elsewhere. That does not matter while it is empty.
    if type(entries) not in (dict, defaultdict) and (then or not _is_plain_dict(entries)):
        return None
    return [Check.entries(entries, then[:half], then[half:])]


def _is_plain_dict(entries: Any) -> bool:
    cls = type(entries)
    return issubclass(cls, dict) and all(c.__module__ in ("builtins", "collections") for c in cls.__mro__)


def _set(items: Any, then: list[Any]) -> list[Check] | None:
    # Only Python can compare sets. Empty ones are frequent (hooks) and need the length only.
    return [Check.length(items, 0)] if type(items) is set and not then else None


def _names(whose: tuple[Any, list[str]], then: list[Any]) -> list[Check] | None:
    space, names = whose
    if type(space) is types.MappingProxyType:
        space = _namespace(space)
    if type(space) is not dict or not all(type(n) is str for n in names):
        return None
    return [Check.entry(space, name, value) for name, value in zip(names, then, strict=True)]


def _keys(space: Any, then: list[Any]) -> list[Check] | None:
    inside = _namespace(space)
    return [Check.keys(inside, then)] if type(inside) is dict else None


def _namespace(proxy: Any) -> Any:
    """Return the dictionary of a class behind its proxy, or None."""
    inside = gc.get_referents(proxy)
    return inside[0] if len(inside) == 1 else None


def _bases(cls: Any, then: list[Any]) -> list[Check] | None:
    kind: Any = type(cls)
    is_plain = kind.__getattribute__ is type.__getattribute__ and not any("__mro__" in vars(k) for k in kind.__mro__[:-2])
    return [Check.attribute(cls, "__mro__", then[0])] if is_plain else None


def _factory(d: Any, then: list[Any]) -> list[Check] | None:
    return [Check.attribute(d, "default_factory", then[0])] if type(d) is defaultdict else None


def _is_plain(value: Any) -> bool:
    """True if attribute lookup on an object is Python's default."""
    cls: Any = type(value)
    return cls.__getattribute__ is object.__getattribute__


def _object(value: Any, then: list[Any]) -> list[Check] | None:
    own = type(value).__dict__.get("__dict__")
    if not _is_plain(value) or isinstance(own, (property, types.FunctionType)):
        return None
    return [*_class(value, then), Check.namespace(value, then[1])]


def _class(value: Any, then: list[Any]) -> list[Check]:
    return [Check.new_result("PyObject_Type", value, then[0])]


def _slots(whose: tuple[Any, list[str]], then: list[Any]) -> list[Check] | None:
    value, names = whose
    cls: Any = type(value)
    if not _is_plain(value) or hasattr(cls, "__getattr__"):
        return None
    found = [next((vars(k)[name] for k in cls.__mro__ if name in vars(k)), None) for name in names]
    if not all(isinstance(descriptor, types.MemberDescriptorType) for descriptor in found):
        return None  # a subclass has redefined the name
    return [Check.attribute(value, name, expected) for name, expected in zip(names, then, strict=True)]


def _array(array: Any, then: list[Any]) -> list[Check] | None:
    if type(array) is not np.ndarray or not array.flags.c_contiguous or not array.flags.aligned:
        return None
    shape, dtype, content = then[0]
    # The present array must be the one that was compared.
    is_known = (array.shape, array.dtype.str) == (shape, dtype) and array.nbytes == len(content)
    return [Check.content(array, content)] if is_known else None


_KINDS: dict[str, Any] = {
    "function": _function,
    "cells": _cells,
    "items": _items,
    "entries": _entries,
    "names": _names,
    "keys": _keys,
    "bases": _bases,
    "factory": _factory,
    "set": _set,
    "object": _object,
    "class": _class,
    "slots": _slots,
    "array": _array,
}
