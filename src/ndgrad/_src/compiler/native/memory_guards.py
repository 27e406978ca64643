"""Guards on captured objects, which must be the same objects in the same places as during the trace.

Each names objects that stay in place (the guard keeps them alive) and their contents:

    Words(address, words)          so many words of memory: the content of a cell, the code of a function, a slot
    Bytes(address, bytes)          so many bytes: the values of a small array
    Items(list, values)            the items of a list
    Entries(dict, keys, values)    the keys and values of a dictionary, in order
    Names(dict, names, values)     the values of a dictionary under some names, and `absent` under others
    Attributes(object, dict)       the class of an object, and the dictionary of its attributes

Only identities are compared, and no Python code runs. An equal but different object is a miss, and then Python
compares.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from ndgrad._src.compiler.native.guards import ATTRIBUTES, BYTES, ENTRIES, ITEMS, NAMES, WORDS_AT, Place

Row: TypeAlias = tuple[list[int], list[Any]]

#: Marker for a missing entry.
absent: Any = type("Absent", (), {"__repr__": lambda self: "absent"})()


def _row(kind: int, operands: Sequence[int], keeps: Sequence[Any]) -> Row:
    place, _ = Place().words()
    return [kind, *place, *operands], list(keeps)


def _addresses(values: Sequence[Any]) -> tuple[int, Any]:
    """Return the address of an array of objects' identities, and the objects to keep alive."""
    words = np.array([0 if v is absent else id(v) for v in values], np.int64)
    return int(words.__array_interface__["data"][0]), [words, list(values)]


@dataclass(frozen=True, eq=False)
class _Memory:
    place: Place = field(default=Place(), init=False, repr=False)
    gives_pointer = False


@dataclass(frozen=True, eq=False)
class Words(_Memory):
    """Words at an address in memory of `owner`: the addresses of objects, or 0 for `absent`."""

    owner: Any
    address: int
    values: tuple[Any, ...]

    def holds(self, arguments: tuple[Any, ...], found: Any) -> bool:
        there = (ctypes.c_ssize_t * len(self.values)).from_address(self.address)
        return list(there) == [0 if v is absent else id(v) for v in self.values]

    def row(self) -> Row:
        expected, kept = _addresses(self.values)
        return _row(WORDS_AT, [self.address, len(self.values), expected], [self.owner, kept])


@dataclass(frozen=True, eq=False)
class Bytes(_Memory):
    """Bytes at an address in memory of `owner`."""

    owner: Any
    address: int
    content: bytes

    def holds(self, arguments: tuple[Any, ...], found: Any) -> bool:
        return ctypes.string_at(self.address, len(self.content)) == self.content

    def row(self) -> Row:
        copy = np.frombuffer(self.content, np.uint8).copy()
        return _row(BYTES, [self.address, len(copy), int(copy.__array_interface__["data"][0])], [self.owner, copy])


@dataclass(frozen=True, eq=False)
class Items(_Memory):
    """The items of a list."""

    items: list[Any]
    values: tuple[Any, ...]

    def holds(self, arguments: tuple[Any, ...], found: Any) -> bool:
        return len(self.items) == len(self.values) and all(a is b for a, b in zip(self.items, self.values))

    def row(self) -> Row:
        expected, kept = _addresses(self.values)
        return _row(ITEMS, [id(self.items), len(self.values), expected], [self.items, kept])


@dataclass(frozen=True, eq=False)
class Entries(_Memory):
    """The keys and values of a dictionary, in their order."""

    entries: dict[Any, Any]
    keys: tuple[Any, ...]
    values: tuple[Any, ...]

    def holds(self, arguments: tuple[Any, ...], found: Any) -> bool:
        now, then = [*self.entries, *self.entries.values()], [*self.keys, *self.values]
        return len(now) == len(then) and all(a is b for a, b in zip(now, then))

    def row(self) -> Row:
        expected, kept = _addresses([part for pair in zip(self.keys, self.values) for part in pair])
        return _row(ENTRIES, [id(self.entries), len(self.keys), expected], [self.entries, kept])


@dataclass(frozen=True, eq=False)
class Names(_Memory):
    """The values of a dictionary under some names, which are plain strings."""

    entries: dict[str, Any]
    names: tuple[str, ...]
    values: tuple[Any, ...]

    def __post_init__(self) -> None:
        if not all(type(name) is str for name in self.names):
            raise TypeError(
                "names are looked up without Python, so they are to be strings and no subclass of it. [nd-compiler]"
            )

    def holds(self, arguments: tuple[Any, ...], found: Any) -> bool:
        return all(self.entries.get(n, absent) is v for n, v in zip(self.names, self.values))

    def row(self) -> Row:
        (names, kept_names), (expected, kept) = _addresses(self.names), _addresses(self.values)
        return _row(NAMES, [id(self.entries), len(self.names), names, expected], [self.entries, kept_names, kept])


@dataclass(frozen=True, eq=False)
class Attributes(_Memory):
    """The class of an object, and the dictionary of its attributes. Without a dictionary, only the class."""

    object: Any
    cls: type
    attributes: dict[str, Any] | None

    def holds(self, arguments: tuple[Any, ...], found: Any) -> bool:
        same = type(self.object) is self.cls
        return same and (self.attributes is None or self.object.__dict__ is self.attributes)

    def row(self) -> Row:
        wanted = 0 if self.attributes is None else id(self.attributes)
        return _row(ATTRIBUTES, [id(self.object), id(self.cls), wanted], [self.object, self.cls, self.attributes])


MemoryGuard: TypeAlias = Words | Bytes | Items | Entries | Names | Attributes
