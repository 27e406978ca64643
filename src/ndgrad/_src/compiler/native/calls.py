"""Call compiled code from Python: a builtin checks its arguments, makes its outputs and runs a kernel in some 50 ns.

    spec = Specialisation(
        arguments=2,
        guards=(ArrayAt(Place(argument=0).slot(Tensor, "_array"), f32, (64, 10)), Equal(Place(argument=1), 0.5)),
        kernel=code.address("kernel"),
        outputs=(Fresh(f32, (64, 10), Wrapping(Tensor, "_array", ("_node", "_storage", "_meta"))),),
        keeps=(code,),
    )
    entry = make_entry([spec], fallback=trace_and_compile)
    entry.call(x, 0.5)

The kernel is `i64 kernel(ptr pointers)`: pointers to the data of inputs in the order of the guards that yield some,
then of outputs (those that are `Returned` have none), then the `fixed` addresses, then scratch memory if the
specialisation requests it. It returns 0, or another number on failure. A failed kernel that holds the interpreter lock
has set a Python error; otherwise a RuntimeError shows the number.

`entry.call` is a builtin made in memory (PyCFunction_NewEx). It tries the specialisations in order. If none fits, it
calls `fallback` with the same arguments; without one it returns `MISS`, so that the caller decides. If native code may
not read objects (ndgrad._src.compiler.native.layout), `entry.call` is a slower Python function with the same meaning.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from ndgrad._src.compiler.native import entry_code, layout, tables
from ndgrad._src.compiler.native.guards import Apart, ArrayAt, Equal, Found, Is, Keys, Length, NumberAt
from ndgrad._src.compiler.native.memory_guards import MemoryGuard
from ndgrad._src.compiler.native.tensor_guards import Distinct, Outside, TensorAt, Writable

Guard: TypeAlias = (
    ArrayAt | NumberAt | Is | Equal | Length | Keys | Apart | TensorAt | Distinct | Writable | Outside | MemoryGuard
)

_FASTCALL, _KEYWORDS = 0x80, 0x02
_FAILED = "compiled code failed with code %lld. [nd-compiler]"


class _Miss:
    """Result of a call that matches no specialisation."""

    def __repr__(self) -> str:
        return "MISS"


MISS = _Miss()


# ----- description of a call ------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Wrapping:
    """Recipe for a tensor around an array: a bare object of a class (`object.__new__`), with the array in one slot and
    None in others.
    """

    cls: type
    payload: str
    empty: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__new__(self.cls)  # raises for classes with more than slots
        if layout.problem() is None and not layout.plain_allocation(self.cls):
            raise TypeError(
                f"{self.cls.__name__} allocates its objects in a way of its own, so native code cannot make them. "
                "[nd-compiler]"
            )

    def make(self, array: np.ndarray[Any, Any]) -> Any:
        made: Any = object.__new__(self.cls)
        setattr(made, self.payload, array)
        for name in self.empty:
            setattr(made, name, None)
        return made


@dataclass(frozen=True, eq=False)
class Fresh:
    """An output in a new array, in C order, by itself or inside a tensor."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    wrapping: Wrapping | None = None


@dataclass(frozen=True, eq=False)
class Same:
    """An output that is the same object in every call, with the address that the kernel writes to, if any."""

    value: Any
    address: int = 0


@dataclass(frozen=True, eq=False)
class Returned:
    """An argument that is returned unchanged: the kernel has written to it by its pointer among the inputs."""

    argument: int


@dataclass(frozen=True, eq=False)
class Guarded:
    """The object found by the guard that yielded this pointer: a tensor among the arguments, or inside them."""

    pointer: int


Output: TypeAlias = Fresh | Same | Returned | Guarded


class Scratch:
    """Private memory of a call, aligned to 64 bytes.

    It is kept from call to call, and several specialisations may share it. A call that finds it in use allocates
    temporary memory.
    """

    def __init__(self, bytes: int) -> None:
        self.bytes = bytes
        self.memory = np.empty(bytes + 63, np.uint8)
        self.busy = np.zeros(1, np.int64)

    @property
    def address(self) -> int:
        return -(-_address(self.memory) // 64) * 64


@dataclass(frozen=True, eq=False)
class Specialisation:
    """Compiled code for calls of one kind. Keyword values count as further arguments, in the order of `keywords`."""

    arguments: int
    guards: tuple[Guard, ...]
    kernel: int
    outputs: tuple[Output, ...] = ()
    keywords: tuple[str, ...] = ()
    fixed: tuple[int, ...] = ()
    scratch: Scratch | None = None
    release: bool = True  # release the interpreter lock while the kernel runs
    as_tuple: bool = False  # otherwise None or the only output
    keeps: tuple[Any, ...] = ()  # owners of the kernel and the fixed addresses

    def __post_init__(self) -> None:
        given, total = 0, self.arguments + len(self.keywords)
        for guard in self.guards:
            named = guard.place.argument
            if named is not None and not 0 <= named < total:
                raise ValueError(f"{guard} is about argument {named} of a call that has {total}. [nd-compiler]")
            if isinstance(guard, Apart) and max(guard.first, guard.second) >= given:
                raise ValueError(f"{guard} is about arrays of which only {given} come before it. [nd-compiler]")
            given += guard.gives_pointer
        if not self.as_tuple and len(self.outputs) > 1:
            raise ValueError(f"{len(self.outputs)} outputs need as_tuple=True. [nd-compiler]")
        for output in self.outputs:
            if isinstance(output, Returned) and not 0 <= output.argument < total:
                raise ValueError(f"{output} is no argument of a call that has {total}. [nd-compiler]")

    @property
    def pointing(self) -> list[Guard]:
        """Return the guards that yield pointers."""
        return [guard for guard in self.guards if guard.gives_pointer]

    @property
    def inputs(self) -> int:
        """Return the number of pointers that the guards yield."""
        return len(self.pointing)

    @property
    def pointers(self) -> int:
        """Return the number of pointers that the kernel takes."""
        written = sum(
            isinstance(output, Fresh) or bool(isinstance(output, Same) and output.address) for output in self.outputs
        )
        return self.inputs + written + len(self.fixed) + bool(self.scratch)


def make_entry(
    specialisations: Iterable[Specialisation] = (), fallback: Callable[..., Any] | None = None, name: str = "compiled"
) -> NativeEntry | PythonEntry:
    """Return an object with `call` for these specialisations, native if possible, and `add` for more."""
    entry = NativeEntry(fallback, name) if layout.problem() is None else PythonEntry(fallback, name)
    for specialisation in specialisations:
        entry.add(specialisation)
    return entry


# ----- native ---------------------------------------------------------------------------------------------------------


class _Table(np.ndarray[Any, Any]):
    """The words behind a builtin's `self`, which native code finds at the array's data pointer, with everything that
    they reference.

    Active rows stay alive. Retired rows stay alive while a call may be inside them.
    """

    keeps: tuple[Any, ...]
    rows: list[_Row]
    addresses: np.ndarray[Any, Any]  # addresses of the rows' words
    retired: list[Any]


class _Row:
    """A specialisation, its words and the objects that they reference."""

    def __init__(self, specialisation: Specialisation) -> None:
        self.specialisation = specialisation
        self.keeps: list[Any] = []
        self.words = _encode(specialisation, self.keeps)


class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


def made_builtin(name: str, address: int, table: Any) -> tuple[Callable[..., Any], Any]:
    """Return a builtin (METH_FASTCALL | METH_KEYWORDS) whose `self` is a table, and the objects that the table must
    keep alive for it.
    """
    method = _MethodDef(name.encode(), address, _FASTCALL | _KEYWORDS, None)
    new = layout.function("PyCFunction_NewEx")
    make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)(new)
    return make(ctypes.addressof(method), table, None), method


class NativeEntry:
    """A builtin over tables. It stays alive as long as `call` is referenced."""

    def __init__(self, fallback: Callable[..., Any] | None = None, name: str = "compiled") -> None:
        code = entry_code.code()
        table = np.zeros(tables.TABLE, np.int64).view(_Table)
        table[tables.FALLBACK] = 0 if fallback is None else id(fallback)
        table[tables.SENTINEL] = id(MISS)
        self.call, method = made_builtin(name, code.address("call"), table)
        table.keeps, table.rows, table.retired = (code, method, fallback), [], []
        self._table = table
        table.addresses = np.zeros(0, np.int64)

    def add(self, specialisation: Specialisation, first: bool = False) -> None:
        """Add a specialisation after the existing ones, or before them."""
        row = _Row(specialisation)
        self._put([row, *self._table.rows] if first else [*self._table.rows, row])

    def remove(self, specialisation: Specialisation) -> None:
        """Stop trying a specialisation. Its objects are released at the latest with the next change after the last call
        inside.
        """
        gone = [row for row in self._table.rows if row.specialisation is specialisation]
        self._put([row for row in self._table.rows if row.specialisation is not specialisation])
        self._table.retired += gone
        del gone
        self._free()

    @property
    def hits(self) -> list[int]:
        """Return how often each specialisation has matched, in the order in which they are tried."""
        return [int(row.words[tables.HITS]) for row in self._table.rows]

    def _put(self, rows: list[_Row]) -> None:
        table, addresses = self._table, np.array([_address(row.words) for row in rows], np.int64)
        table.retired.append(table.addresses)
        # A call in another thread between two of these lines finds fewer rows than there are, never more.
        table[tables.COUNT] = min(len(rows), len(table.rows))
        table[tables.SPECIALISATIONS] = _address(addresses)
        table[tables.COUNT] = len(rows)
        table.rows, table.addresses = rows, addresses
        self._free()

    def _free(self) -> None:
        if not self._table[tables.INSIDE]:  # calls release the interpreter lock while they are inside a row
            self._table.retired = []


def _encode(spec: Specialisation, keeps: list[Any]) -> np.ndarray[Any, Any]:
    """Return the words of a specialisation, and append the objects that they reference to `keeps`."""
    guards = np.zeros((len(spec.guards), 16), np.int64)
    for words, guard in zip(guards, spec.guards):
        encoded, held = guard.row()
        words[: len(encoded)] = encoded
        keeps.extend(held)
    outputs = np.zeros((len(spec.outputs), tables.OUTPUT), np.int64)
    for words, output in zip(outputs, spec.outputs):
        _encode_output(words, output, keeps)
    fixed = np.array(spec.fixed, np.int64)
    keywords, message = spec.keywords or None, ctypes.create_string_buffer(_FAILED.encode())
    keeps += [guards, outputs, fixed, spec.scratch, keywords, message]
    row = np.zeros(tables.SPECIALISATION, np.int64)
    for word, value in {
        tables.POSITIONAL: spec.arguments, tables.KEYWORDS: id(keywords) if keywords else 0,
        tables.GUARDS: len(guards), tables.GUARD_ROWS: _address(guards), tables.POINTERS: spec.pointers,
        tables.INPUTS: spec.inputs, tables.OUTPUTS: len(outputs), tables.OUTPUT_ROWS: _address(outputs),
        tables.FIXED: len(fixed), tables.FIXED_ROWS: _address(fixed), tables.KERNEL: spec.kernel,
        tables.SCRATCH: spec.scratch.address if spec.scratch else 0,
        tables.SCRATCH_BYTES: spec.scratch.bytes if spec.scratch else 0,
        tables.SCRATCH_BUSY: _address(spec.scratch.busy) if spec.scratch else 0,
        tables.RELEASE: spec.release, tables.AS_TUPLE: spec.as_tuple, tables.NDARRAY: id(np.ndarray),
        tables.NONE: id(None), tables.ERROR: id(RuntimeError),
        tables.MESSAGE: ctypes.addressof(message),
    }.items():  # fmt: skip
        row[word] = value
    return row


def _encode_output(words: np.ndarray[Any, Any], output: Output, keeps: list[Any]) -> None:
    if isinstance(output, Same):
        words[tables.KIND], words[tables.OBJECT], words[tables.ADDRESS] = (
            tables.SAME,
            id(output.value),
            output.address,
        )
        keeps.append(output.value)
    elif isinstance(output, Returned):
        words[tables.KIND], words[tables.OBJECT] = tables.ARGUMENT, output.argument
    elif isinstance(output, Guarded):
        words[tables.KIND], words[tables.OBJECT] = tables.GUARDED, output.pointer
    else:
        dims = np.array(output.shape, np.int64)
        words[tables.KIND], words[tables.DTYPE] = tables.FRESH, id(output.dtype)
        words[tables.NDIM], words[tables.DIMS] = len(output.shape), _address(dims)
        keeps += [dims, output]
        wrapping = output.wrapping
        if wrapping is not None:
            offsets = [layout.slot_offset(wrapping.cls, name) for name in wrapping.empty]
            empty = np.array([len(offsets), *offsets], np.int64)
            words[tables.CLASS], words[tables.EMPTY_SLOTS] = id(wrapping.cls), _address(empty)
            words[tables.PAYLOAD] = layout.slot_offset(wrapping.cls, wrapping.payload)
            keeps.append(empty)


def _address(array: np.ndarray[Any, Any]) -> int:
    return int(array.__array_interface__["data"][0])


# ----- in Python ------------------------------------------------------------------------------------------------------


_FreeKernel = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)
_LockedKernel = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)


class PythonEntry:
    """The fallback in Python, if native code may not read objects."""

    def __init__(self, fallback: Callable[..., Any] | None = None, name: str = "compiled") -> None:
        self.__name__ = name
        self._fallback = fallback
        self._rows: tuple[_Tried, ...] = ()  # replaced as a whole, since a call may be iterating over it

    def add(self, specialisation: Specialisation, first: bool = False) -> None:
        row = _Tried(specialisation)
        self._rows = (row, *self._rows) if first else (*self._rows, row)

    def remove(self, specialisation: Specialisation) -> None:
        self._rows = tuple(row for row in self._rows if row.specialisation is not specialisation)

    @property
    def hits(self) -> list[int]:
        return [row.hits for row in self._rows]

    def call(self, *arguments: Any, **keywords: Any) -> Any:
        whole = (*arguments, *keywords.values())
        for row in self._rows:
            spec = row.specialisation
            if len(arguments) == spec.arguments and tuple(keywords) == spec.keywords:
                found = _check(spec, whole)
                if found is not None:
                    row.hits += 1
                    return _run(spec, whole, found)
        return MISS if self._fallback is None else self._fallback(*arguments, **keywords)


@dataclass(eq=False, slots=True)
class _Tried:
    specialisation: Specialisation
    hits: int = 0


def _check(spec: Specialisation, arguments: tuple[Any, ...]) -> list[Found] | None:
    """Return the arguments that the guards yield for the kernel, or None if one does not hold."""
    given: list[Found] = []
    for guard in spec.guards:
        if isinstance(guard, (ArrayAt, NumberAt)) or (isinstance(guard, TensorAt) and guard.gives_pointer):
            found = guard.find(arguments)
            if found is None:
                return None
            given.append(found)
        elif not guard.holds(arguments, given):
            return None
    return given


def _run(spec: Specialisation, arguments: tuple[Any, ...], found: list[Found]) -> Any:
    results: list[Any] = []
    pointers = [address for address, _ in found]
    for output in spec.outputs:
        if isinstance(output, Returned):
            results.append(arguments[output.argument])
        elif isinstance(output, Same):
            results.append(output.value)
            pointers += [output.address] if output.address else []
        elif isinstance(output, Guarded):
            results.append(spec.pointing[output.pointer].place.find(arguments))
        else:
            array = np.empty(output.shape, output.dtype)
            results.append(array if output.wrapping is None else output.wrapping.make(array))
            pointers.append(_address(array))
    pointers += spec.fixed
    scratch = Scratch(spec.scratch.bytes) if spec.scratch else None
    if scratch is not None:
        pointers.append(scratch.address)
    kernel = (_FreeKernel if spec.release else _LockedKernel)(spec.kernel)
    code = kernel((ctypes.c_void_p * len(pointers))(*pointers))
    if code:
        raise RuntimeError(_FAILED.replace("%lld", str(code)))
    if spec.as_tuple:
        return tuple(results)
    return results[0] if results else None
