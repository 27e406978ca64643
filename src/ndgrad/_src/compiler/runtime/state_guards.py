"""Guards on the captured state that native code can check: the same as last time, or else Python compares.

An environment compares the contents of its slots with the previous ones (ndgrad._src.compiler.capture.environment).
Here each kind of slot becomes a guard on its memory: the content of a cell, the items of a list, the words of a
function that point to its code. A guard holds only if Python's comparison would find the same objects. Slots that
cannot be read as memory (sets, queues, dictionaries with an order of their own, objects with computed attributes) are
left to Python: `left_over`.
"""

from __future__ import annotations

import ctypes
import gc
import types
from collections import defaultdict
from typing import Any

import numpy as np

from ndgrad._src.arrays.library import is_on_device
from ndgrad._src.compiler.capture.captured_state import MISSING, CapturedSlots, is_same
from ndgrad._src.compiler.capture.environment import Environment
from ndgrad._src.compiler.native import entry_code, layout
from ndgrad._src.compiler.native.calls import MISS, Guard, NativeEntry, Specialisation
from ndgrad._src.compiler.native.guards import Is, Keys, Length, Place
from ndgrad._src.compiler.native.memory_guards import (
    Attributes,
    Bytes,
    Entries,
    Items,
    MemoryGuard,
    Names,
    Words,
    absent,
)
from ndgrad._src.compiler.native.tensor_guards import TensorAt
from ndgrad._src.core.modes import Process, process


class Snapshot:
    """The guards of an environment, as of its last comparison."""

    def __init__(self, environment: Environment, numbers_vary: bool = False) -> None:
        """Create the guards. With `numbers_vary`, slots whose numbers are inputs are compared elsewhere, before the
        guards.
        """
        self.generation = environment.generation
        self.guards: list[Guard] = []
        #: Slots that Python must compare.
        self.left_over: list[CapturedSlots] = []
        for slots in environment.captured:
            if slots.is_growing or (numbers_vary and slots.varying):
                continue
            found = _guards(slots)
            if found is None:
                self.left_over.append(slots)
            else:
                self.guards += found

    def rest_is_the_same(self) -> bool:
        """True if the slots that are left to Python hold the same values."""
        for slots in self.left_over:
            now, then = slots.read(), slots.then
            if len(now) != len(then) or any(a is not b and not is_same(a, b) for a, b in zip(now, then, strict=True)):
                return False
        return True


def compare_quickly(environment: Environment) -> None:
    """Prepare an environment for native comparison, except for slots that are left to Python and for tensors that calls
    replace.
    """
    guards: list[Guard] = [Is(Place(object=process).slot(Process, "named"), False)]
    places, tensors = [], []
    for slots in environment.captured:
        if slots.is_growing:
            continue
        # Slots whose numbers are inputs may hold other numbers.
        found = None if id(slots) in environment.moving or slots.varying else _guards(slots)
        if found is None:
            places.append(slots)
        else:
            guards += found
    for known in environment.tensors.values():
        if id(known) in environment.moving_tensors or is_on_device(known[0]._array):
            tensors.append(known)
        elif known[1] is not None:
            guards.append(tensor_guard(Place(object=known[0]), known[1], False))
    entry = NativeEntry(None, "unchanged")
    entry.add(Specialisation(0, tuple(guards), entry_code.code().address("nothing")))
    call = entry.call
    environment.slow, environment.quick = (places, tensors), lambda: call() is not MISS


def tensor_guard(place: Place, facts: tuple[Any, ...], gives_pointer: bool) -> TensorAt:
    """Return a guard for the facts about a tensor. `process.named` guards that it has no names."""
    cls, shape, dtype, strides, inference, requires_grad, _ = facts
    return TensorAt(place, cls, dtype, tuple(shape), tuple(strides), requires_grad, inference, gives_pointer)


def _guards(slots: CapturedSlots) -> list[Guard] | None:
    """Return the guards of some slots; None if they are not plain memory."""
    if slots.form is None:
        return None
    kind, whose = slots.form
    return _KINDS[kind](whose, [absent if v is MISSING else v for v in slots.then])


def _function(f: Any, then: list[Any]) -> list[MemoryGuard] | None:
    # In memory, missing defaults are a null pointer, not None.
    return [
        Words(f, id(f) + offset, (absent if value is None else value,))
        for offset, value in zip(layout.function_words(), then, strict=True)
    ]


def _cells(cells: Any, then: list[Any]) -> list[MemoryGuard] | None:
    return [Words(cell, id(cell) + layout.CELL, (value,)) for cell, value in zip(cells, then, strict=True)]


def _items(items: Any, then: list[Any]) -> list[MemoryGuard] | None:
    return [Items(items, tuple(then))] if type(items) is list else None


def _entries(entries: Any, then: list[Any]) -> list[MemoryGuard] | None:
    half = len(then) // 2
    # An OrderedDict keeps its order elsewhere. That does not matter while it is empty.
    if type(entries) not in (dict, defaultdict) and (then or not _is_plain_dict(entries)):
        return None
    return [Entries(entries, tuple(then[:half]), tuple(then[half:]))]


def _is_plain_dict(entries: Any) -> bool:
    cls = type(entries)
    return issubclass(cls, dict) and all(c.__module__ in ("builtins", "collections") for c in cls.__mro__)


def _set(items: Any, then: list[Any]) -> list[Guard] | None:
    # Only Python can compare sets. Empty ones are frequent (hooks) and need the length only.
    return [Length(Place(object=items), 0, set)] if type(items) is set and not then else None


def _names(whose: tuple[Any, list[str]], then: list[Any]) -> list[MemoryGuard] | None:
    space, names = whose
    if type(space) is types.MappingProxyType:  # namespace of a class
        inside = gc.get_referents(space)
        space = inside[0] if len(inside) == 1 else None
    if type(space) is not dict or not all(type(n) is str for n in names):
        return None
    return [Names(space, tuple(names), tuple(then))]


def _keys(space: Any, then: list[Any]) -> list[Guard] | None:
    inside = gc.get_referents(space)
    if len(inside) != 1 or type(inside[0]) is not dict:
        return None
    return [Keys(Place(object=inside[0]), tuple(then))]


def _bases(cls: Any, then: list[Any]) -> list[Guard] | None:
    offset = layout.bases_offset()
    return None if offset is None else [Words(cls, id(cls) + offset, tuple(then))]


def _factory(d: Any, then: list[Any]) -> list[Guard] | None:
    offset = layout.factory_offset()
    return None if offset is None or then[0] is None else [Words(d, id(d) + offset, tuple(then))]


def _is_plain(value: Any) -> bool:
    """True if attribute lookup on an object is Python's default."""
    cls: Any = type(value)
    return cls.__getattribute__ is object.__getattribute__


def _object(value: Any, then: list[Any]) -> list[MemoryGuard] | None:
    own = type(value).__dict__.get("__dict__")
    if not _is_plain(value) or isinstance(own, (property, types.FunctionType)):
        return None
    return [Attributes(value, then[0], then[1])]


def _class(value: Any, then: list[Any]) -> list[MemoryGuard] | None:
    return [Attributes(value, then[0], None)]


def _slots(whose: tuple[Any, list[str]], then: list[Any]) -> list[MemoryGuard] | None:
    value, names = whose
    if not _is_plain(value) or hasattr(type(value), "__getattr__"):
        return None
    try:
        cls: Any = type(value)
        offsets = [layout.slot_offset(cls, name) for name in names]
    except TypeError:  # a subclass has redefined the name
        return None
    return [Words(value, id(value) + offset, (expected,)) for offset, expected in zip(offsets, then, strict=True)]


def _array(array: Any, then: list[Any]) -> list[MemoryGuard] | None:
    if type(array) is not np.ndarray or not array.flags.c_contiguous:
        return None
    shape, dtype, content = then[0]
    # Addresses of its memory, dimensions and strides, its dtype, its flags.
    head = layout.DATA, layout.FLAGS + 4 - layout.DATA
    guards: list[MemoryGuard] = [Bytes(array, id(array) + head[0], _read_bytes(id(array) + head[0], head[1]))]
    if array.ndim:
        at = int.from_bytes(_read_bytes(id(array) + layout.DIMS, 8), "little")
        guards.append(Bytes(array, at, _read_bytes(at, 16 * array.ndim)))  # strides follow the dimensions
        strides = int.from_bytes(_read_bytes(id(array) + layout.STRIDES, 8), "little")
        if strides != at + 8 * array.ndim:
            return None
    guards.append(Bytes(array, array.__array_interface__["data"][0], content))
    # The header must belong to the array that was compared.
    return guards if (array.shape, array.dtype.str) == (shape, dtype) and array.nbytes == len(content) else None


def _read_bytes(address: int, count: int) -> bytes:
    return ctypes.string_at(address, count)


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
