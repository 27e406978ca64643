"""Make builtins of generated code: for the call of a kernel, for the comparison of captured state, for missing entries.

    call = make_call("scale", [Input(f64, (64, 10))], [Output(f64, (64, 10))], code.address("kernel"), keeps=(code,))
    arrays = call(x)        # a tuple of new arrays, or None if x is no array of this kind

    unchanged = make_comparison([Check.by_key("PyDict_GetItemWithError", vars(module), "scale", 0.5)])
    unchanged()             # True while module.scale is the same object

The kernel is `i64 kernel(ptr pointers)`. The pointers lead to the memory of inputs and outputs, to the `fixed`
addresses, and to scratch memory. It returns 0, or another number on failure. A failed kernel that holds the interpreter
lock has set a Python error; otherwise a RuntimeError shows the number.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np

from ndgrad._src.compiler.native import c_interface
from ndgrad._src.compiler.native import call_code as words
from ndgrad._src.compiler.native.c_interface import python_function
from ndgrad._src.compiler.native.float_status import FLAGGED
from ndgrad._src.compiler.native.target import Code, available
from ndgrad._src.foundations.locks import compute_once

_FASTCALL = 0x80  # METH_FASTCALL
_FAILED = ctypes.create_string_buffer(b"compiled code failed with code %lld. [nd-compiler]")

#: Marker for an empty slot or a missing entry.
absent: Any = type("Absent", (), {"__repr__": lambda self: "absent"})()


def is_available() -> bool:
    """True if there is native code, and it can call the C interfaces of Python and NumPy here."""
    return available() and c_interface.problem() is None


@compute_once
def code() -> Code:
    """Return the code of the builtins. It is never freed, because they point into it."""
    return Code(words.source(FLAGGED), level=2, symbols=c_interface.symbols())


@dataclass(frozen=True, eq=False)
class Input:
    """An array of this dtype and shape in C order and aligned. A NumPy scalar may take the place of a 0-d array.

    `strides` are compared exactly, if given, also in dimensions with one element. `is_written`: the array must be
    writeable.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None = None
    is_written: bool = False


@dataclass(frozen=True, eq=False)
class Output:
    """A new array in C order."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]


class Scratch:
    """Private memory of a call, aligned to 64 bytes.

    It is kept from call to call, and several builtins may share it. A call that finds it in use allocates temporary
    memory.
    """

    def __init__(self, bytes: int) -> None:
        self.bytes = bytes
        self.memory = np.empty(bytes + 63, np.uint8)
        self.busy = np.zeros(1, np.int64)

    @property
    def address(self) -> int:
        return -(-_address(self.memory) // 64) * 64


class _Table(int):
    """The address of a table, as the `self` of a builtin. It keeps the table alive, and everything that it names."""

    keeps: list[Any]


def make_call(
    name: str,
    inputs: Sequence[Input],
    outputs: Sequence[Output],
    kernel: int,
    fixed: Sequence[int] = (),
    scratch: Scratch | None = None,
    release: bool = True,
    are_apart: bool = False,
    keeps: Sequence[Any] = (),
) -> Callable[..., tuple[Any, ...] | None]:
    """Return a builtin that takes the inputs and returns a tuple of the outputs, or None if an input does not fit.

    `release`: the interpreter lock is released while the kernel runs. `are_apart`: no two inputs share memory, or they
    do not fit. `keeps` are the owners of the kernel and of the fixed addresses.
    """
    scratch = Scratch(0) if scratch is None else scratch
    held: list[Any] = [scratch, *inputs, *outputs, *keeps]
    rows = [_input_row(given, held) for given in inputs]
    made = [[id(given.dtype), len(given.shape), _store(given.shape, held), 0] for given in outputs]
    order = _store([0, *range(len(inputs))], held) if are_apart else 0
    table = {
        words.OBJECTS: _address(_OBJECTS), words.INPUTS: len(rows), words.INPUT_ROWS: _store(rows, held),
        words.OUTPUTS: len(made), words.OUTPUT_ROWS: _store(made, held), words.FIXED: len(fixed),
        words.FIXED_ROWS: _store(fixed, held), words.POINTERS: len(rows) + len(made) + len(fixed) + 1,
        words.KERNEL: kernel, words.RELEASE: release, words.SCRATCH: scratch.address,
        words.SCRATCH_BYTES: scratch.bytes, words.SCRATCH_BUSY: _address(scratch.busy), words.ORDER: order,
    }  # fmt: skip
    return _make_builtin(name, "call", [table[word] for word in range(len(table))], held)


@dataclass(frozen=True, eq=False)
class Check:
    """A comparison of captured state. No check runs Python code, and objects are compared by identity."""

    kind: int
    owner: Any
    function: str = ""
    key: Any = None
    expected: Any = None

    @classmethod
    def new_result(cls, function: str, owner: Any, expected: Any) -> Check:
        """Expect this result of a C function of one object. It returns a new reference."""
        return cls(words.GET, owner, function, None, expected)

    @classmethod
    def borrowed_result(cls, function: str, owner: Any, expected: Any) -> Check:
        """Expect this result of a C function of one object. It returns a borrowed reference."""
        return cls(words.PEEK, owner, function, None, expected)

    @classmethod
    def variable(cls, owner: ContextVar[Any], expected: Any) -> Check:
        """Expect this value of a context variable."""
        return cls(words.VARIABLE, owner, expected=expected)

    @classmethod
    def attribute(cls, owner: Any, name: str, expected: Any) -> Check:
        """Expect this attribute of an object that has no Python code for attributes."""
        return cls(words.GET_BY_KEY, owner, "PyObject_GetAttr", name, expected)

    @classmethod
    def entry(cls, owner: dict[Any, Any], name: str, expected: Any) -> Check:
        """Expect this value of a dictionary under a name, which is a plain string."""
        if type(name) is not str:
            raise TypeError(f"a name is to be a plain string, and not a {type(name).__name__}. [nd-compiler]")
        return cls(words.PEEK_BY_KEY, owner, "PyDict_GetItemWithError", name, expected)

    @classmethod
    def namespace(cls, owner: Any, expected: dict[str, Any]) -> Check:
        """Expect this dictionary as the one that holds the attributes of an object."""
        return cls(words.GET_BY_KEY, owner, "PyObject_GenericGetDict", absent, expected)

    @classmethod
    def length(cls, owner: Any, expected: int) -> Check:
        """Expect this number of items in one of Python's own containers."""
        return cls(words.LENGTH, owner, expected=expected)

    @classmethod
    def items(cls, owner: list[Any], expected: Sequence[Any]) -> Check:
        """Expect these items of a list."""
        return cls(words.ITEMS, owner, expected=tuple(expected))

    @classmethod
    def entries(cls, owner: dict[Any, Any], keys: Sequence[Any], values: Sequence[Any]) -> Check:
        """Expect these keys and values of a dictionary, in this order."""
        return cls(words.ENTRIES, owner, expected=tuple([part for pair in zip(keys, values, strict=True) for part in pair]))

    @classmethod
    def keys(cls, owner: dict[Any, Any], keys: Sequence[Any]) -> Check:
        """Expect these keys of a dictionary, in this order."""
        return cls(words.KEYS, owner, expected=tuple(keys))

    @classmethod
    def content(cls, owner: np.ndarray[Any, Any], expected: bytes) -> Check:
        """Expect these bytes in a contiguous array, and no change of its dtype, shape and strides."""
        return cls(words.CONTENT, owner, key=Input(owner.dtype, owner.shape, owner.strides), expected=expected)

    def row(self, held: list[Any]) -> list[int]:
        """Return the words of the check. The objects that they name are appended to `held`."""
        held += [self.owner, self.key, self.expected]
        function = python_function(self.function) if self.function else 0
        key, expected, count = _identity(self.key), _identity(self.expected), 0
        if self.kind == words.LENGTH:
            count = self.expected
        elif self.kind == words.CONTENT:
            key, count = _store(_input_row(self.key, held), held), len(self.expected)
            expected = _store(np.frombuffer(self.expected, np.uint8), held)
        elif self.kind in (words.ITEMS, words.ENTRIES, words.KEYS):
            count = len(self.expected) // (2 if self.kind == words.ENTRIES else 1)
            expected = _store([id(value) for value in self.expected], held)
        return [self.kind, function, id(self.owner), key, expected, count, 0, 0]


def make_comparison(checks: Sequence[Check], name: str = "unchanged") -> Callable[[], bool]:
    """Return a builtin without arguments: True if all checks hold."""
    held: list[Any] = []
    rows = [check.row(held) for check in checks]
    return _make_builtin(name, "unchanged", [_address(_OBJECTS), len(rows), _store(rows, held)], held)


def make_fill(name: str) -> Callable[..., bool]:
    """Return a builtin that takes dictionaries and values in turn. It sets the entry `name` of each dictionary, and
    returns True. If one of these entries is not None, it sets nothing and returns False.
    """
    return _make_builtin(f"fill_{name}", "fill", [_address(_OBJECTS), id(name)], [name])


@compute_once
def address_reader() -> Callable[..., tuple[int, ...]]:
    """Return a builtin that takes arrays and returns the addresses of their first elements.

    `array.ctypes` and `array.__array_interface__` take 1 µs for each array.
    """
    return _make_builtin("addresses", "addresses", [], [])


# ----- tables ---------------------------------------------------------------------------------------------------------


class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


def _make_builtin(name: str, function: str, table: Sequence[int], held: list[Any]) -> Callable[..., Any]:
    """Return a builtin over a table. The builtin keeps everything in `held` alive."""
    address = code().address(function)
    method = _MethodDef(name.encode(), address, _FASTCALL, None)
    owner = _Table(_store(table, held))
    owner.keeps = [*held, method]
    new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    made: Callable[..., Any] = new(python_function("PyCFunction_NewEx"))(ctypes.addressof(method), owner, None)
    return made


def _input_row(given: Input, held: list[Any]) -> list[int]:
    strides = given.strides
    if strides is not None and all(n > 1 for n in given.shape):
        strides = None  # C order leaves no choice
    scalar = given.dtype.type if not given.shape and not given.is_written else None
    held += [strides, scalar, given.dtype]
    sizes = _store([*given.shape, *_strides_in_c_order(given)], held)
    alignment = given.dtype.alignment - 1 if all(given.shape) else 0
    return [
        id(given.dtype), 0 if scalar is None else id(scalar), len(given.shape), sizes,
        0 if strides is None else id(strides), alignment, -given.is_written, 0,
    ]  # fmt: skip


def _strides_in_c_order(given: Input) -> list[int]:
    """Return the strides that the buffer protocol shows for a contiguous array."""
    strides, step = [], given.dtype.itemsize
    for size in reversed(given.shape):
        strides.append(step)
        step *= size
    return strides[::-1]


def _identity(value: Any) -> int:
    return 0 if value is absent else id(value)


def _store(numbers: Any, held: list[Any]) -> int:
    """Store numbers in memory that `held` keeps, and return its address."""
    array = np.array(numbers, np.uint8 if isinstance(numbers, np.ndarray) else np.int64)
    held.append(array)
    return _address(array)


def _address(array: np.ndarray[Any, Any]) -> int:
    return int(array.__array_interface__["data"][0])


_NAMES = "dtype", "strides"
_OBJECTS = np.array(
    [id(np.ndarray), *map(id, _NAMES), id(None), id(True), id(False), id(RuntimeError), ctypes.addressof(_FAILED)],
    np.int64,
)
