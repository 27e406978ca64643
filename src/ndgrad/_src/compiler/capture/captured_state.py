"""Captured slots (places that hold objects): read, compare and restore them."""

from __future__ import annotations

import collections
import random
import types
from collections.abc import Callable, Iterable
from operator import is_
from typing import Any, NamedTuple

import numpy as np

from ndgrad._src.compiler.capture.replaced_code import code_of

MISSING: Any = type("Missing", (), {"__repr__": lambda self: "nothing"})()

#: Classes that are compared by value.
NUMBERS = (
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    type(None),
    type(Ellipsis),
    np.generic,
    np.dtype,
    range,
    type(NotImplemented),
)


_PLAIN = frozenset([c for c in NUMBERS if c not in (np.generic, np.dtype)])


def is_plain(value: Any) -> bool:
    """True if an object is compared by its value and has no attributes."""
    return type(value) in _PLAIN or isinstance(value, (np.generic, np.dtype))


class CapturedSlots:
    """Some captured slots of one object: functions that read and write them, and the values they held.

    `form` gives the kind of slots and their owner for native guards (see ndgrad._src.compiler.runtime.state_guards).
    `varying` has the slots that may hold other numbers, each with a template (see
    ndgrad._src.compiler.capture.number_slots). `is_growing` is True for a list that only grows (see
    ndgrad._src.compiler.capture.slot_effects); its items are not compared.
    """

    __slots__ = ("form", "is_growing", "labels", "read", "then", "varying", "what", "write")

    def __init__(
        self,
        what: str,
        labels: Iterable[Any],
        read: Callable[[], list[Any]],
        write: Callable[[list[Any]], None] | None,
        form: tuple[str, Any] | None = None,
    ) -> None:
        self.what = what
        self.labels = list(labels)
        self.read = read
        self.then = read()
        self.write = write
        self.form = form
        self.varying: dict[int, Any] | None = None
        self.is_growing = False

    def label(self, place: int) -> str:
        """Return the name of one of the slots."""
        return f"{self.what}{self.labels[place]}" if place < len(self.labels) else self.what


#: Number of words compared at a time, so that temporary results stay in the cache.
_BLOCK = 1 << 15


def same_bits(a: Any, b: Any) -> bool:
    """True if two arrays of one shape and dtype hold the same bits: -0. differs from 0., and a NaN equals itself."""
    if a.flags.forc and a.strides == b.strides:
        first, second = (x.ravel(order="K").view(np.uint8) for x in (a, b))
        end = a.nbytes // 8 * 8
        words, others = first[:end].view(np.uint64), second[:end].view(np.uint64)
        return np.array_equal(first[end:], second[end:]) and all(
            np.array_equal(words[i : i + _BLOCK], others[i : i + _BLOCK]) for i in range(0, len(words), _BLOCK)
        )
    if a.dtype.kind in "biu" or (a.dtype.kind == "f" and a.dtype.itemsize in (2, 4, 8)):
        whole = f"u{a.dtype.itemsize}"
        return bool(np.array_equal(a.view(whole), b.view(whole)))
    return bool(a.tobytes() == b.tobytes())


class Contents:
    """Copy of a large NumPy array. NumPy's own computations on the array are constants of a trace, so every bit is
    compared.
    """

    def __init__(self, array: Any) -> None:
        self._strides = array.strides
        self._copy = array.copy(order="K")

    def __environment__(self) -> list[Any]:
        """Return no objects: the copy is constant."""
        return []

    def are_in(self, array: Any) -> bool:
        """True if an array has these contents."""
        copy = self._copy
        if array.shape != copy.shape or array.dtype != copy.dtype or array.strides != self._strides:
            return False
        return same_bits(array, copy)

    def write(self, array: Any) -> None:
        """Write the contents back into an array."""
        array[...] = self._copy


def read_cell(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


def fill(cells: Any, values: list[Any]) -> None:
    for cell, value in zip(cells, values, strict=True):
        if value is not MISSING:
            cell.cell_contents = value
        elif read_cell(cell) is not MISSING:
            del cell.cell_contents


def assign(space: dict[str, Any], names: list[str], values: list[Any]) -> None:
    for name, value in zip(names, values, strict=True):
        if value is MISSING:
            space.pop(name, None)
        else:
            space[name] = value


def refill(d: Any, items: list[Any]) -> None:
    """Restore the keys and values of a dictionary. Overridden methods of a subclass are not called."""
    cls: Any = collections.OrderedDict if isinstance(d, collections.OrderedDict) else dict
    half = len(items) // 2
    if len(d) == half and all(map(is_, cls.keys(d), items[:half])):
        for key, value in zip(items[:half], items[half:], strict=True):
            if cls.get(d, key) is not value:
                cls.__setitem__(d, key, value)
        return
    cls.clear(d)
    for key, value in zip(items[:half], items[half:], strict=True):
        cls.__setitem__(d, key, value)


def set_item(d: Any, key: Any, value: Any) -> None:
    """Set an entry of a dictionary by the method of the builtin class. The effects of an overridden method were traced.
    """
    (collections.OrderedDict if isinstance(d, collections.OrderedDict) else dict).__setitem__(d, key, value)


def extend(items: Any, values: Iterable[Any]) -> None:
    """Append items to a list or deque by the method of the builtin class."""
    (collections.deque if isinstance(items, collections.deque) else list).extend(items, values)


def refill_list(items: Any, values: list[Any]) -> None:
    if isinstance(items, list):
        list.__setitem__(items, slice(None), values)
    else:
        collections.deque.clear(items)
        collections.deque.extend(items, values)


def refill_set(items: set[Any], values: list[Any]) -> None:
    set.clear(items)
    set.update(items, values)


def set_function(f: Any, parts: list[Any]) -> None:
    """Restore the code and defaults of a function."""
    code, f.__defaults__, f.__kwdefaults__ = parts
    if code_of(f) is not code:  # the trace of another thread may have replaced it for now
        f.__code__ = code


def set_identity(value: Any, parts: list[Any]) -> None:
    """Restore the class of an object and its attribute dictionary."""
    if type(value) is not parts[0]:
        object.__setattr__(value, "__class__", parts[0])
    if len(parts) > 1 and value.__dict__ is not parts[1]:
        object.__setattr__(value, "__dict__", parts[1])


def set_slots(value: Any, slots: list[str], values: list[Any]) -> None:
    for name, v in zip(slots, values, strict=True):
        if v is not MISSING:
            object.__setattr__(value, name, v)


def set_attributes(holder: Any, names: list[str], values: list[Any]) -> None:
    """Restore attributes of a class. The namespace of a class can only be written by setattr."""
    for name, value in zip(names, values, strict=True):
        if value is not MISSING:
            if holder.__dict__.get(name, MISSING) is not value:
                setattr(holder, name, value)
        elif name in holder.__dict__:
            delattr(holder, name)


def drop_keys(cls: type, keys: list[str]) -> None:
    """Remove all attributes of a class except these."""
    for name in {*vars(cls)}.difference(keys):
        delattr(cls, name)


def slots_of(cls: type) -> list[str]:
    names = cls.__dict__.get("__slots__", ())
    names = (names,) if isinstance(names, str) else names
    return [n for n in names if n not in ("__dict__", "__weakref__") and not n.startswith("__")]


def get_state(source: Any) -> Any:
    if isinstance(source, random.Random):
        return source.getstate()
    if isinstance(source, np.random.Generator):
        return source.bit_generator.state
    if isinstance(source, np.random.RandomState):
        return source.get_state(legacy=False)
    return source._packed_state()


def is_same_state(a: Any, b: Any) -> bool:
    if isinstance(a, bytes):
        return bool(a == b)
    return repr(a) == repr(b) if not isinstance(a, dict) else _text(a) == _text(b)


def _text(state: Any) -> Any:
    if isinstance(state, dict):
        return [(k, _text(v)) for k, v in state.items()]
    return state.tobytes() if isinstance(state, np.ndarray) else state


def set_state(source: Any, state: Any) -> None:
    if isinstance(source, random.Random):
        source.setstate(state)
    elif isinstance(source, np.random.Generator):
        source.bit_generator.state = state
    elif isinstance(source, np.random.RandomState):
        source.set_state(state)
    else:
        source._resume_from(state)


def restore_state(source: Any, state: Any, _: list[Any]) -> None:
    set_state(source, state)


def is_same(a: Any, b: Any) -> bool:
    """True if two different objects are equal in every bit. Classes are compared by `type`, because a placeholder
    pretends to be a number.
    """
    cls = type(a)
    if cls is not type(b):
        return False
    if is_plain(a):
        is_bits = issubclass(cls, (float, complex, np.generic))
        return bool(np.asarray(a).tobytes() == np.asarray(b).tobytes() if is_bits else a == b)
    if cls is tuple:
        return len(a) == len(b) and all(x is y or is_same(x, y) for x, y in zip(a, b, strict=True))
    # A bound method is a new object at each lookup.
    return issubclass(cls, types.MethodType) and a.__self__ is b.__self__ and a.__func__ is b.__func__


class Varying(NamedTuple):
    """Part of a template: any number of a class."""

    kind: type


def fits(value: Any, template: Any) -> bool:
    """True if a slot may hold a value: a number of the right class, a tuple of such values, or the same value as
    before.
    """
    if template.__class__ is Varying:
        return type(value) is template.kind
    if template.__class__ is tuple:
        return type(value) is tuple and len(value) == len(template) and all(map(fits, value, template))
    return value is template or is_same(value, template)
