"""Memory layout of CPython and NumPy objects: offsets in objects, and the addresses of C functions.

A compiled function reads its arguments without Python: the class of an object, the slot of a tensor, the data pointer
of an array. These offsets are no public contract, though they have been the same for years. So nothing here is assumed:
`problem()` compares every offset with Python's view of live objects, once per process. If it returns a sentence instead
of None, calls are checked in Python, which is slower and means the same.

An object begins with its reference count and its class. Then come an array's data pointer, number of dimensions,
dimensions, strides, base, dtype and flags; a float's value; a NumPy scalar's value; a cell's content.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import struct
import sys
import sysconfig
import types
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

#: Offsets in bytes. A list has its length, and then the address of its items.
CLASS = 8
LENGTH, ITEMS = 16, 24
FLOAT = SCALAR = CELL = 16
DATA, NDIM, DIMS, STRIDES, BASE, DTYPE, FLAGS = 16, 24, 32, 40, 48, 56, 64
#: Bits of an array's flags.
C_CONTIGUOUS, OWNDATA, ALIGNED, WRITEABLE = 0x1, 0x4, 0x100, 0x400

_ABI = 0x02000000  # the ABI of NumPy 2
_NEW_ARRAY = 94  # index of PyArray_NewFromDescr in NumPy's table of functions
_SLOT = 16  # the kind of member that __slots__ makes: T_OBJECT_EX

#: Functions of Python's C interface that native code calls.
PYTHON = (
    "Py_IncRef", "Py_DecRef", "PyObject_RichCompareBool", "PyObject_Size", "PyObject_Vectorcall",
    "PyDict_GetItemWithError", "PyContextVar_Get", "PyLong_AsLongLongAndOverflow", "PyEval_SaveThread",
    "PyEval_RestoreThread", "PyTuple_New", "PyTuple_SetItem",
    "PyErr_Occurred", "PyErr_Clear", "PyErr_NoMemory", "PyErr_Format", "PyMem_RawMalloc", "PyMem_RawFree",
    "PyObject_GenericGetDict", "PyType_GenericAlloc", "PyDict_Next", "PyDict_Size",
)  # fmt: skip


def symbols() -> dict[str, int]:
    """Return the addresses of the functions that native code calls: Python's, and NumPy's constructor of arrays."""
    return {**{name: function(name) for name in PYTHON}, "ndgrad_new_array": _numpy_table(_NEW_ARRAY)}


def plain_allocation(cls: type) -> bool:
    """True if the objects of a class are allocated by Python's default function."""
    get_slot = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_int)(function("PyType_GetSlot"))
    return bool(get_slot(cls, 47) == function("PyType_GenericAlloc"))  # Py_tp_alloc


@functools.cache
def slot_offset(cls: type, name: str) -> int:
    """Return the offset of a slot in the objects of a class, from its member descriptor:
        {count, class, owner, name, qualified name, member -> {name, int kind, offset, flags}}.
    """
    if cls is types.CellType and name == "cell_contents":
        return CELL
    descriptor = next((k.__dict__[name] for k in cls.__mro__ if name in k.__dict__), None)
    if not isinstance(descriptor, types.MemberDescriptorType):
        raise TypeError(
            f"{cls.__name__}.{name} is no slot of the class, so native code cannot read it. Give it one by __slots__. "
            "[nd-compiler]"
        )
    member = _word(id(descriptor) + 40)
    kind = ctypes.c_int.from_address(member + 8).value
    if ctypes.string_at(_word(member)) != name.encode() or kind != _SLOT:
        raise TypeError(
            f"{cls.__name__}.{name} is a member of another kind than __slots__ makes, so native code cannot read it. "
            "[nd-compiler]"
        )
    return _word(member + 16)


@functools.cache
def bases_offset() -> int | None:
    """Return the offset of `__mro__` in a class, found by searching classes made for this; None if they do not agree.
    """
    classes: list[type] = [type("A", (), {}), type("B", (dict,), {}), type("C", (float,), {"__slots__": ()})]
    return _common_offset([(c, c.__mro__) for c in classes])


@functools.cache
def factory_offset() -> int | None:
    """Return the offset of a defaultdict's factory function; None if it is not found."""
    makers = [lambda: 1, lambda: 2]
    return _common_offset([(defaultdict(f), f) for f in makers])


def _common_offset(held: Sequence[tuple[Any, Any]]) -> int | None:
    """Return the offset at which each of these objects has a pointer to another; None if there is not exactly one."""
    found = [
        {k for k in range(0, type(owner).__basicsize__, 8) if _word(id(owner) + k) == id(value)}
        for owner, value in held
    ]
    common = set.intersection(*found)
    return common.pop() if len(common) == 1 else None


@functools.cache
def tuple_items() -> int:
    """Return the offset of a tuple's items."""
    return _only_place([(("a", "b", "c"), "a"), (([], []), None)])


@functools.cache
def function_words() -> tuple[int, int, int]:
    """Return the offsets of a function's code, defaults and keyword defaults."""
    first, second = _functions()
    return (
        _only_place([(first, first.__code__), (second, second.__code__)]),
        _only_place([(first, first.__defaults__), (second, second.__defaults__)]),
        _only_place([(first, first.__kwdefaults__), (second, second.__kwdefaults__)]),
    )


def _functions() -> tuple[Any, Any]:
    # The defaults must be distinct new objects.
    def first(a: Any = object(), *, b: Any = object()) -> None: ...  # noqa: B008
    def second(c: Any = object(), *, d: Any = object()) -> None: ...  # noqa: B008

    return first, second


class _NoPlace(ValueError):
    """The message that `problem` returns."""


def _only_place(probes: list[tuple[Any, Any]]) -> int:
    """Return the only offset at which each of these objects has a word with the address of its content (None: of its
    first item).
    """
    found: set[int] | None = None
    for holder, held in probes:
        size = type(holder).__basicsize__ + 8 * (len(holder) if isinstance(holder, tuple) else 0)
        wanted = id(holder[0] if held is None else held)
        here = {at for at in range(CLASS + 8, size, 8) if _word(id(holder) + at) == wanted}
        found = here if found is None else found & here
    if found is None or len(found) != 1:
        raise _NoPlace("no single place")
    return found.pop()


@functools.cache
def problem() -> str | None:
    """Return the reason why native code may not read objects in this process, or None if it may."""
    if sys.implementation.name != "cpython":
        return f"the interpreter is {sys.implementation.name} and not CPython"
    if struct.calcsize("P") != 8:
        return "pointers do not have 64 bits"
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return "this Python has no interpreter lock, so slots may change while they are read"
    if object.__basicsize__ != CLASS + 8 or sysconfig.get_config_var("Py_TRACE_REFS"):
        return "objects have a longer head than they should"
    if np.ndarray.__basicsize__ < FLAGS + 4:
        return f"arrays have only {np.ndarray.__basicsize__} bytes"
    try:
        return next((f"{what} is not where it should be" for what, good in _probes() if not good), None)
    except (AttributeError, TypeError, ValueError, OSError) as error:
        return f"Python or NumPy has no such function: {error}"


def _probes() -> list[tuple[str, bool]]:
    """Yield a description of each probe, and True if native code sees the same as Python."""
    found: list[tuple[str, bool]] = []
    unaligned = np.zeros(17, np.int8)[1:].view(np.float64)
    for array in (
        np.zeros((3, 4, 5), np.float32)[:, 1:3], np.array(2.5), np.arange(7)[::-2], np.zeros((0, 2), bool), unaligned,
        np.zeros((2, 3)),
    ):  # fmt: skip
        at, n = id(array), array.ndim
        flags = ctypes.c_int.from_address(at + FLAGS).value
        found += [
            ("the class of an object", _word(at + CLASS) == id(np.ndarray)),
            ("the data of an array", _word(at + DATA) == array.__array_interface__["data"][0]),
            ("the number of an array's dimensions", ctypes.c_int.from_address(at + NDIM).value == n),
            ("the dtype of an array", _word(at + DTYPE) == id(array.dtype)),
        ]
        found += [
            (
                "the shape of an array",
                n == 0 or tuple((ctypes.c_ssize_t * n).from_address(_word(at + DIMS))) == array.shape,
            ),
            (
                "the strides of an array",
                n == 0 or tuple((ctypes.c_ssize_t * n).from_address(_word(at + STRIDES))) == array.strides,
            ),
            ("the layout of an array", bool(flags & C_CONTIGUOUS) == array.flags.c_contiguous),
            ("the alignment of an array", bool(flags & ALIGNED) == array.flags.aligned),
            ("the permission to write to an array", bool(flags & WRITEABLE) == array.flags.writeable),
            ("whether an array owns its memory", bool(flags & OWNDATA) == array.flags.owndata),
            ("the base of an array", _word(at + BASE) == (0 if array.base is None else id(array.base))),
        ]
    frozen = np.zeros(3)
    frozen.flags.writeable = False
    found.append(("the permission to write", not ctypes.c_int.from_address(id(frozen) + FLAGS).value & WRITEABLE))
    found += [("the value of a float", ctypes.c_double.from_address(id(x) + FLOAT).value == x) for x in (2.75, -1e300)]
    for name in ("f8", "f4", "f2", "i8", "i4", "i2", "u1", "?"):
        scalar = np.dtype(name).type(1)
        found.append(
            (f"the value of a NumPy {name}", ctypes.string_at(id(scalar) + SCALAR, scalar.nbytes) == scalar.tobytes())
        )
    cell = types.CellType(found)
    found.append(("the content of a cell", _word(id(cell) + CELL) == id(cell.cell_contents)))
    items = [object(), object(), object()]
    kept = tuple(items)
    found += [
        ("the length of a list", _word(id(items) + LENGTH) == 3),
        ("the items of a list", _has_items(_word(id(items) + ITEMS), items)),
        ("the length of a tuple", _word(id(kept) + LENGTH) == 3),
        ("the items of a tuple", _has_items(id(kept) + tuple_items(), items)),
        ("the parts of a function", len({*function_words()}) == 3),
    ]
    return [*found, ("the slot of a class", _slots_are_found()), ("NumPy's table of functions", _arrays_are_made())]


def _has_items(address: int, items: list[Any]) -> bool:
    """True if objects are at an address. Small or odd numbers are not addresses."""
    return address > 1 << 16 and address % 8 == 0 and all(_word(address + 8 * i) == id(x) for i, x in enumerate(items))


class _Probe:
    __slots__ = ("first", "second")


def _slots_are_found() -> bool:
    probe = _Probe()
    probe.first, probe.second = object(), object()  # type: ignore[attr-defined]
    return plain_allocation(_Probe) and all(
        _word(id(probe) + slot_offset(_Probe, name)) == id(getattr(probe, name)) for name in _Probe.__slots__
    )


def _arrays_are_made() -> bool:
    """True if NumPy's function makes an array when called as native code does, with a reference to the dtype passed to
    it.
    """
    version = ctypes.CFUNCTYPE(ctypes.c_uint)(_numpy_table(0))()
    if version != _ABI:
        return False
    dtype, dims = (
        np.dtype([("a", "f4"), ("b", "f4")]),
        (ctypes.c_ssize_t * 2)(3, 4),
    )  # a new dtype, whose references can be counted
    make = ctypes.PYFUNCTYPE(
        ctypes.py_object, ctypes.py_object, ctypes.py_object, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p,
        ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p,
    )(_numpy_table(_NEW_ARRAY))  # fmt: skip
    before = sys.getrefcount(dtype)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(dtype))
    array: Any = make(np.ndarray, dtype, 2, ctypes.addressof(dims), None, None, 0, None)
    made = (
        type(array) is np.ndarray
        and array.shape == (3, 4)
        and array.dtype is dtype
        and array.flags.c_contiguous
        and array.flags.owndata
    )
    held = sys.getrefcount(dtype) == before + 1
    del array
    return made and held and sys.getrefcount(dtype) == before


def _numpy_table(index: int) -> int:
    """Return an entry of NumPy's table of C functions."""
    core = importlib.import_module("numpy._core._multiarray_umath")  # NumPy has no public name for it
    table = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(function("PyCapsule_GetPointer"))
    return _word(table(core._ARRAY_API, None) + 8 * index)


def function(name: str) -> int:
    """Return the address of a function of Python's C interface."""
    return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0


def _word(address: int) -> int:
    return ctypes.c_ssize_t.from_address(address).value
