"""Guards: the conditions on a call under which compiled code is valid.

A guard names a place and a condition on the object there. A place starts from an argument, a fixed object (a cell of a
closure, the globals of a module) or the value of a context variable, and follows slots or items from there:

    Place(argument=0).slot(Tensor, "_array")        # of the first argument, if it is exactly a Tensor
    Place(object=process).slot(Process, "busy")
    Place(context=modes).slot(Scope, "modes").slot(Modes, "grad_enabled")
    Place(object=function.__globals__).item("scale")
    Place(object=layer).attributes(Linear).item("_parameters").item("weight")

    ArrayAt(place, dtype, shape)    an ndarray of this class, dtype, shape and layout; its pointer goes to the kernel
    NumberAt(place, float)          a Python float (or int of 64 bits) of any value; a pointer to it goes to the kernel
    Is(place, value)                this very object, or with `wanted=False` any other
    Equal(place, value)             a number or string of the same class and value; floats by their bits, so that nan
                                    is nan and -0.0 is not 0.0
    Length(place, n, set)           a set (dict, list, tuple) of n items
    Apart(i, j, bytes, bytes)       the memory of the i-th and j-th array does not overlap

Each guard exists twice: `row` encodes it for native code (see ndgrad._src.compiler.native.calls), and `holds` checks it
in Python, for interpreters in which native code may not read objects. The tests compare the two.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sized
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, cast

import numpy as np

from ndgrad._src.compiler.native import layout

ARRAY, DOUBLE, INTEGER, IS, EQUAL, BITS, LENGTH, APART = range(8)
#: Kinds of guards in ndgrad._src.compiler.native.tensor_guards and memory_guards.
TENSOR, DISTINCT, OUTSIDE, WORDS_AT, BYTES, ITEMS, ENTRIES, NAMES, ATTRIBUTES, KEYS, WRITABLE = range(8, 19)
#: Words of a row: kind, root, object, number of steps, two words for each of three steps, and six operands.
WORDS, STEPS, OPERANDS = 16, 4, 10
ARGUMENT, OBJECT, CONTEXT = 0, 1, 2

_MISSING = object()
#: Result of a guard for the kernel: an address, and the object that owns the memory.
Found: TypeAlias = tuple[int, Any]


@dataclass(frozen=True, eq=False)
class Place:
    """The location that a guard checks."""

    argument: int | None = None
    object: Any = None
    context: ContextVar[Any] | None = None
    # Steps are (class, slot), (class, None) for attributes, (class, index) or (None, key).
    path: tuple[tuple[type | None, Any], ...] = ()

    def slot(self, cls: type, name: str) -> Place:
        """Return the slot `name` of the object at this place, which must be of exactly the class `cls`."""
        return self._step(cls, name)

    def item(self, key: Any) -> Place:
        """Return the item under a key of the dictionary at this place."""
        return self._step(None, key)

    def element(self, cls: type, index: int) -> Place:
        """Return an item, by its number, of the list or tuple at this place."""
        return self._step(cls, index)

    def attributes(self, cls: type) -> Place:
        """Return the dictionary of attributes of the object at this place, which must be of exactly the class `cls`.

        This differs from a place that begins with `object.__dict__`, because an object's dictionary can be replaced.
        """
        return self._step(cls, None)

    def _step(self, cls: type | None, name: Any) -> Place:
        if len(self.path) == 3:
            raise ValueError(
                f"a place is at most three steps away from its root, and .{name} is the fourth. [nd-compiler]"
            )
        return replace(self, path=(*self.path, (cls, name)))

    def find(self, arguments: tuple[Any, ...]) -> Any:
        """Return the object at this place in a call, or _MISSING."""
        value = self._root(arguments)
        for cls, name in self.path:
            if value is _MISSING or (cls is not None and type(value) is not cls):
                return _MISSING
            if cls is None:
                value = dict.get(value, name, _MISSING) if isinstance(value, dict) else _MISSING
            elif cls is list or cls is tuple:
                value = value[name] if name < len(value) else _MISSING
            else:
                try:
                    value = getattr(value, "__dict__" if name is None else name)
                except (AttributeError, ValueError):  # an empty slot, an empty cell
                    return _MISSING
        return value

    def _root(self, arguments: tuple[Any, ...]) -> Any:
        if self.argument is not None:
            return arguments[self.argument]
        if self.context is None:
            return self.object
        try:
            return self.context.get()
        except LookupError:
            return _MISSING

    def words(self) -> tuple[list[int], list[Any]]:
        """Return the place for native code, and the objects that must be kept alive for it."""
        root = self.object if self.context is None else self.context
        if self.argument is not None:
            row = [ARGUMENT, self.argument]
        else:
            row = [OBJECT if self.context is None else CONTEXT, id(root)]
        row.append(len(self.path))
        for cls, name in self.path:
            row += [0, id(name)] if cls is None else [id(cls), _step_word(cls, name)]
        keeps = [root, *(part for step in self.path for part in step)]
        return row + [0] * (OPERANDS - 1 - len(row)), keeps


@dataclass(frozen=True, eq=False)
class ArrayAt:
    """An ndarray of this dtype, shape and layout, C order unless `strides` are given. With `scalar`, a 0-d array may
    also be a NumPy scalar."""

    place: Place
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None = None
    writeable: bool = False
    scalar: bool = False

    gives_pointer = True

    def __post_init__(self) -> None:
        if self.scalar and (self.shape or self.writeable):
            raise ValueError(
                f"a NumPy scalar has no dimensions and cannot be written to, and this array has shape {self.shape}. "
                "[nd-compiler]"
            )

    def find(self, arguments: tuple[Any, ...]) -> Found | None:
        value = self.place.find(arguments)
        if self.scalar and type(value) is self.dtype.type:
            copy = np.array(value)
            return copy.__array_interface__["data"][0], copy
        if (
            type(value) is not np.ndarray
            or value.dtype is not self.dtype
            or value.shape != self.shape
            or not value.flags.aligned
        ):
            return None
        if (self.writeable and not value.flags.writeable) or not self._lies_right(value):
            return None
        return value.__array_interface__["data"][0], value

    def _lies_right(self, value: np.ndarray[Any, Any]) -> bool:
        return value.flags.c_contiguous if self.strides is None else value.strides == self.strides

    def row(self) -> tuple[list[int], list[Any]]:
        place, keeps = self.place.words()
        flags = (
            layout.ALIGNED
            | (layout.WRITEABLE if self.writeable else 0)
            | (layout.C_CONTIGUOUS if self.strides is None else 0)
        )
        dims = (ctypes.c_ssize_t * len(self.shape))(*self.shape)
        strides = None if self.strides is None else (ctypes.c_ssize_t * len(self.shape))(*self.strides)
        scalar = id(self.dtype.type) if self.scalar else 0
        operands = [
            id(self.dtype),
            len(self.shape),
            flags,
            ctypes.addressof(dims),
            ctypes.addressof(strides) if strides else 0,
            scalar,
        ]
        return [ARRAY, *place, *operands], [*keeps, self.dtype, self.dtype.type, dims, strides]

    @property
    def bytes(self) -> int:
        """Return the number of bytes from its pointer to the end of its memory."""
        if self.strides is not None and any(s < 0 for s in self.strides):
            raise ValueError(f"an array of strides {self.strides} has memory before its pointer. [nd-compiler]")
        if not all(self.shape):
            return 0
        if self.strides is None:
            return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize
        return sum((n - 1) * s for n, s in zip(self.shape, self.strides)) + self.dtype.itemsize


@dataclass(frozen=True, eq=False)
class NumberAt:
    """A Python float, or an int that fits into 64 bits, of any value."""

    place: Place
    cls: type

    gives_pointer = True

    def __post_init__(self) -> None:
        if self.cls is not float and self.cls is not int:
            raise TypeError(f"the number is to be a float or an int, and not a {self.cls.__name__}. [nd-compiler]")

    def find(self, arguments: tuple[Any, ...]) -> Found | None:
        value = self.place.find(arguments)
        memory: Any
        if isinstance(value, float) and type(value) is self.cls:
            memory = ctypes.c_double(value)
        elif isinstance(value, int) and type(value) is self.cls and -(1 << 63) <= value < 1 << 63:
            memory = ctypes.c_int64(value)
        else:
            return None
        return ctypes.addressof(memory), memory

    def row(self) -> tuple[list[int], list[Any]]:
        place, keeps = self.place.words()
        return [DOUBLE if self.cls is float else INTEGER, *place, id(self.cls)], [*keeps, self.cls]


@dataclass(frozen=True, eq=False)
class Is:
    """This very object; with `wanted=False`, any other."""

    place: Place
    value: Any
    wanted: bool = True

    gives_pointer = False

    def holds(self, arguments: tuple[Any, ...], found: list[Found]) -> bool:
        value = self.place.find(arguments)
        return value is not _MISSING and (value is self.value) is self.wanted

    def row(self) -> tuple[list[int], list[Any]]:
        place, keeps = self.place.words()
        return [IS, *place, id(self.value), int(self.wanted)], [*keeps, self.value]


@dataclass(frozen=True, eq=False)
class Equal:
    """A number or string of the same class and the same value."""

    place: Place
    value: float | str | bytes

    gives_pointer = False

    def __post_init__(self) -> None:
        if type(self.value) not in (bool, int, float, str, bytes):
            raise TypeError(
                f"a {type(self.value).__name__} is not compared by its value in a guard. "
                "Give a number or a string, or use Is. [nd-compiler]"
            )

    def holds(self, arguments: tuple[Any, ...], found: list[Found]) -> bool:
        value = self.place.find(arguments)
        if type(value) is not type(self.value):
            return False
        return _bits(value) == _bits(self.value) if isinstance(self.value, float) else bool(value == self.value)

    def row(self) -> tuple[list[int], list[Any]]:
        place, keeps = self.place.words()
        if isinstance(self.value, float):
            return [BITS, *place, id(float), _bits(self.value)], keeps
        return [EQUAL, *place, id(type(self.value)), id(self.value)], [*keeps, self.value]


@dataclass(frozen=True, eq=False)
class Length:
    """A container of exactly this class with this number of items: `process.busy` is empty."""

    place: Place
    length: int
    cls: type = set

    gives_pointer = False

    def __post_init__(self) -> None:
        if self.cls not in (set, frozenset, dict, list, tuple):
            raise TypeError(
                f"the length of a {self.cls.__name__} is not known without Python. Give one of Python's containers. "
                "[nd-compiler]"
            )

    def holds(self, arguments: tuple[Any, ...], found: list[Found]) -> bool:
        value: Any = self.place.find(arguments)
        return type(value) is self.cls and len(cast("Sized", value)) == self.length

    def row(self) -> tuple[list[int], list[Any]]:
        place, keeps = self.place.words()
        return [LENGTH, *place, self.length, id(self.cls)], keeps


@dataclass(frozen=True, eq=False)
class Keys:
    """A dictionary with exactly these keys, compared by identity, in this order."""

    place: Place
    keys: tuple[Any, ...]

    gives_pointer = False

    def holds(self, arguments: tuple[Any, ...], found: list[Found]) -> bool:
        value: Any = self.place.find(arguments)
        return type(value) is dict and len(value) == len(self.keys) and all(a is b for a, b in zip(value, self.keys))

    def row(self) -> tuple[list[int], list[Any]]:
        place, keeps = self.place.words()
        words = np.array([id(key) for key in self.keys], np.int64)
        address = int(words.__array_interface__["data"][0])
        return [KEYS, *place, id(dict), len(self.keys), address], [*keeps, words, self.keys]


@dataclass(frozen=True, eq=False)
class Apart:
    """Two arrays with disjoint memory, given by the numbers of their pointers and the bytes from each pointer on."""

    first: int
    second: int
    first_bytes: int
    second_bytes: int

    place: Place = field(default=Place(), repr=False)
    gives_pointer = False

    def holds(self, arguments: tuple[Any, ...], found: list[Found]) -> bool:
        first, second = found[self.first][0], found[self.second][0]
        return first + self.first_bytes <= second or second + self.second_bytes <= first

    def row(self) -> tuple[list[int], list[Any]]:
        place, _ = self.place.words()
        return [APART, *place, self.first, self.first_bytes, self.second, self.second_bytes], []


def _step_word(cls: type, name: Any) -> int:
    """Return the word of a step after its class: the offset of a slot, -1 for attributes, or -2 and less for items:
    even in tuples.
    """
    if cls is list or cls is tuple:
        return -2 - 2 * int(name) - (cls is list)
    return -1 if name is None else layout.slot_offset(cls, name)


def _bits(value: Any) -> int:
    return int(struct.unpack("<q", struct.pack("<d", value))[0])
