"""Calls of a lifted function that involve no derivative: the original function runs on NumPy itself.

Note [Plain calls]
A lifted function computes what the original computes. If no derivative is involved, the original is therefore called
instead, on plain arrays and numbers, and its results become Arrays. A loop over a buffer then costs what it costs in
NumPy. The conditions are:

  * no mode is in force except `no_grad`: no transform, trace, hook or mode of debugging;
  * the arguments are numbers, texts, plain arrays, constant Arrays of the CPU whose memory no graph needs, and lists,
    tuples and dicts of these;
  * the program replaces no function (`replace=`) and names no solver (`implicit=`);
  * nothing that the function can reach is a tensor or belongs to ndgrad: see `Reach`;
  * no code that it can reach assigns names of its module or of an enclosing function, because lifted code keeps such
    names to itself.

All other calls run the lifted code. Reach follows names, not computed accesses (`vars(module)[text]`). A tensor that
the original meets in such a way takes part through NumPy's protocols, which record it or raise.
"""

from __future__ import annotations

import collections
import enum
import functools
import inspect
import operator
from collections.abc import Callable, Iterable, Iterator
from dis import get_instructions, opmap
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    ModuleType,
    SimpleNamespace,
    WrapperDescriptorType,
)
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.arrays.addresses import owner_of, pointer
from ndgrad._src.arrays.precision import is_number
from ndgrad._src.core.modes import modes, process
from ndgrad._src.core.variable import Variable, wrap
from ndgrad._src.lifting.numbers import PythonNumber, is_constant
from ndgrad._src.tensor.functions.split import as_strided
from ndgrad.numpy._array import Array
from ndgrad.numpy.coercion import as_array

if TYPE_CHECKING:
    from ndgrad._src.lifting.program import Program

#: Result of an attempt that was not made: the lifted code runs.
NOT_PLAIN = object()

_NUMBERS = frozenset(
    (int, float, complex, bool, str, bytes, type(None), type(...), type(NotImplemented), range, slice, np.dtype,
     *(np.dtype(c).type for c in "?bhilqBHILQefdgFDG"))
)  # fmt: skip
#: Objects without attributes or items that could be tensors.
_OPAQUE = (
    BuiltinFunctionType, WrapperDescriptorType, MethodDescriptorType, GetSetDescriptorType, MemberDescriptorType,
    CodeType, np.ufunc, np.random.Generator, np.random.RandomState, np.random.BitGenerator, type(np.sum), enum.Enum,
)  # fmt: skip
_SEQUENCES: tuple[Any, ...] = (list, tuple, set, frozenset, collections.deque)
_MAPPINGS = (dict, MappingProxyType)
#: Objects and slots that one function may reach. Each call compares the slots.
_LIMIT = 2000

_STORES = frozenset(opmap[name] for name in ("STORE_GLOBAL", "DELETE_GLOBAL"))
_CELL_STORES = frozenset(opmap[name] for name in ("STORE_DEREF", "DELETE_DEREF"))
_GLOBAL_READS = frozenset(("LOAD_GLOBAL", "LOAD_NAME"))
_MISSING = object()
#: Modules of the standard library whose objects hold no values of a program.
_OPAQUE_MODULES = frozenset(
    "logging re _thread threading datetime decimal fractions random typing types operator warnings string pathlib io "
    "_io time os uuid _abc abc inspect importlib importlib._bootstrap_external _frozen_importlib_external "
    "_frozen_importlib dataclasses scipy numba".split()
)


class _Unsuitable(Exception):
    """A function reaches something that plain code must not see."""


class PlainCalls:
    """Decides for the functions of one program whether a call is plain, and makes it."""

    def __init__(self, program: Program, *, is_faithful: bool) -> None:
        self._program = program
        #: True if the program replaces no function by another.
        self.is_faithful = is_faithful
        # id of a function -> the function, held so that its id stays unique, and its reach
        self._reached: dict[int, tuple[Any, Reach]] = {}

    def call(self, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the original on plain values. Return NOT_PLAIN, without a call, if a condition of Note [Plain calls]
        does not hold."""
        if not self.is_faithful or (process.busy and not modes().only_no_grad()):
            return NOT_PLAIN
        lent: list[tuple[np.ndarray[Any, Any], Array]] = []
        given = []
        for a in (*args, *kwargs.values()):
            plain = _plain_argument(a, lent)
            if plain is NOT_PLAIN and (not _is_code_or_object(a) or not Reach(self._program, a).is_free):
                return NOT_PLAIN
            given.append(a if plain is NOT_PLAIN else plain)
        if not self._is_free_of_tensors(original):
            return NOT_PLAIN
        options = dict(zip(kwargs, given[len(args) :], strict=True))
        del given[len(args) :]
        try:
            made = original(*given, **options)
        finally:
            for _, t in lent:
                if t._storage is not None:
                    t._storage.bump("lifted code")
        return self._convert_result(made, lent)

    def _is_free_of_tensors(self, original: Any) -> bool:
        known = self._reached.get(id(original))
        if known is not None and known[1].is_current():
            return known[1].is_free
        reach = Reach(self._program, original)
        self._reached[id(original)] = (original, reach)
        return reach.is_free

    def _convert_result(self, v: Any, lent: list[tuple[np.ndarray[Any, Any], Array]]) -> Any:
        """Return a result as lifted code would: arrays and NumPy's numbers are Arrays, functions are lifted."""
        kind = v.__class__
        if kind is np.float64 or kind is np.bool_ or kind in _SCALARS:
            return wrap(Array, v)
        if kind is np.ndarray:
            return _convert_array(v, lent)
        if kind in _NUMBERS:
            return v
        if kind in (list, tuple, dict) or (isinstance(v, tuple) and hasattr(v, "_fields")):
            items = list(v.values()) if kind is dict else v
            made = [self._convert_result(i, lent) for i in items]
            if all(map(operator.is_, made, items)):
                return v
            if kind is dict:
                return dict(zip(v, made, strict=True))
            return kind(made) if kind in (list, tuple) else kind(*made)
        if isinstance(v, Variable):
            return v
        self._program.enter()
        try:
            return self._program.value(v)
        finally:
            self._program.leave_call()


#: Classes of NumPy's numbers that lifted code returns as Arrays.
_SCALARS = frozenset(np.dtype(c).type for c in "?bhilqBHILQefdgFDG") - {np.longdouble, np.clongdouble}


def _is_code_or_object(v: Any) -> bool:
    """True if an argument is a function or an object of the program, whose reach decides."""
    return not isinstance(v, (Variable, np.ndarray, list, tuple, dict))


def _plain_argument(v: Any, lent: list[tuple[np.ndarray[Any, Any], Array]]) -> Any:
    """Return an argument for plain code; NOT_PLAIN if it may carry a derivative, or is neither a number nor an array.
    Arrays whose memory the call may write are added to `lent`."""
    kind = v.__class__
    if kind in _NUMBERS:
        return v
    if kind is np.ndarray:
        return v if v.dtype.kind in "biufcSU" else NOT_PLAIN
    if kind is Array or kind is PythonNumber:
        array = v._array
        if not is_constant(v) or not isinstance(array, (np.ndarray, np.generic)) or not is_number(array.dtype):
            return NOT_PLAIN
        if not array.ndim:
            return array.item() if kind is PythonNumber else np.asarray(array)[()]
        if array.__class__ is not np.ndarray or (v._storage is not None and v._storage.is_held()):
            return NOT_PLAIN
        plain = v.numpy()
        lent.append((plain, v))
        return plain
    if kind is list or kind is tuple:
        made = [_plain_argument(i, lent) for i in v]
        if any(i is NOT_PLAIN for i in made):
            return NOT_PLAIN
        if all(map(operator.is_, made, v)):
            return v
        # Changes of a copy would be lost.
        return tuple(made) if kind is tuple else NOT_PLAIN
    if kind is dict:
        return v if all(_plain_argument(i, lent) is i for i in v.values()) else NOT_PLAIN
    return NOT_PLAIN


def _convert_array(v: np.ndarray[Any, Any], lent: list[tuple[np.ndarray[Any, Any], Array]]) -> Any:
    """Return a plain array as an Array: an argument as itself, a part of an argument as a view of it."""
    if not is_number(v.dtype):
        return v
    for plain, t in lent:
        if v is plain:
            return t
        is_part = owner_of(v) is owner_of(plain) and np.may_share_memory(v, plain)
        if is_part and v.dtype == plain.dtype and all(s % v.itemsize == 0 for s in v.strides):
            turn = tuple(slice(None, None, -1 if s < 0 else None) for s in v.strides)
            forward = v[turn]
            offset = (pointer(forward) - pointer(owner_of(plain))) // v.itemsize
            return as_strided(t, v.shape, [s // v.itemsize for s in forward.strides], offset)[turn]
    return as_array(v)


# ----- reach ----------------------------------------------------------------------------------------------------------


class Reach:
    """All objects that a function can reach by names, cells, defaults and attributes, up to code that lifting leaves
    unchanged.

    It is free if none of them is a tensor or a part of ndgrad. The slots that were read are compared by identity at
    each call. If a slot of a free reach has got a number or a plain array, the reach is still free; any other change
    makes it outdated.
    """

    def __init__(self, program: Program, v: Any) -> None:
        self._program = program
        # reader of the slots of one object, and their contents
        self._slots: list[tuple[Callable[[], Iterable[Any]], list[Any]]] = []
        self._cells: list[tuple[CellType, Any]] = []
        # id of the names of a module -> the names and their values
        self._modules: dict[int, tuple[dict[str, Any], dict[str, Any]]] = {}
        self._seen: dict[int, Any] = {}
        self._count = 0
        try:
            self.is_free = not _returns_frame(v)
            self._follow(v)
        except _Unsuitable:
            self.is_free = False
        for space, known in self._modules.values():
            self._slots.append((functools.partial(map, space.get, [*known]), [*known.values()]))
        self._modules.clear()
        self._seen.clear()

    def is_current(self) -> bool:
        """True if `is_free` is still known: all slots hold what they held before, or numbers and plain arrays."""
        for read, before in self._slots:
            try:
                now = list(read())
            except (KeyError, RuntimeError):  # a name is gone, or another thread has changed the container
                return False
            if len(now) == len(before) and all(map(operator.is_, now, before)):
                continue
            old = before + [_MISSING] * (len(now) - len(before))
            if not self.is_free or not all(a is b or is_plain(a) for a, b in zip(now, old, strict=False)):
                return False
            before[:] = now
        for cell, content in self._cells:
            now_in = _content(cell)
            if now_in is not content and not (self.is_free and is_plain(now_in)):
                return False
        return True

    def _follow(self, v: Any) -> None:
        """Visit an object and all that it leads to."""
        pending = [v]
        while pending:
            v = pending.pop()
            if is_plain(v) or id(v) in self._seen:
                continue
            self._seen[id(v)] = v
            self._count += 1
            if self._count > _LIMIT:
                raise _Unsuitable
            pending.extend(self._visit(v))

    def _watch(self, read: Callable[[], Iterable[Any]]) -> list[Any]:
        found = list(read())
        self._count += len(found)
        if self._count > _LIMIT:
            raise _Unsuitable
        self._slots.append((read, found))
        return found

    def _watch_names(self, space: dict[str, Any], names: list[str]) -> list[Any]:
        """Watch names of a module, all in one list of slots."""
        known = self._modules.setdefault(id(space), (space, {}))[1]
        fresh = [name for name in names if name not in known]
        known.update((name, space.get(name)) for name in fresh)
        self._count += len(fresh)
        if self._count > _LIMIT:
            raise _Unsuitable
        return [known[name] for name in fresh]

    def _visit(self, v: Any) -> Iterable[Any]:
        kind = type(v)
        if isinstance(v, (Variable, np.ndarray)):
            raise _Unsuitable  # also arrays of objects, and subclasses of ndarray with attributes
        if isinstance(v, ModuleType):
            if v.__name__.partition(".")[0] == "ndgrad":
                raise _Unsuitable
            return ()  # names of modules are looked up together with the code that reads them
        if kind is FunctionType:
            return self._visit_function(v)
        if isinstance(v, type):
            return self._visit_class(v)
        if kind is MethodType:
            return (v.__self__, v.__func__)
        if kind in (staticmethod, classmethod):
            return (v.__func__,)
        if kind is property:
            return (v.fget, v.fset, v.fdel)
        if isinstance(v, _OPAQUE) or kind is CellType:
            return ()
        if isinstance(v, functools.partial):
            return (v.func, *v.args, *v.keywords.values(), v.__dict__)
        if kind.__module__.partition(".")[0] in ("ndgrad", "torch"):
            raise _Unsuitable
        if kind in _SEQUENCES:
            return self._watch(lambda: v)
        if kind in _MAPPINGS:
            return self._watch(v.values)
        return self._visit_instance(v)

    def _visit_function(self, f: FunctionType) -> Iterator[Any]:
        space = f.__globals__
        if hasattr(f, "__lifts__") or str(space.get("__name__")).partition(".")[0] == "ndgrad":
            raise _Unsuitable
        if f.__dict__:
            yield f.__dict__
        for cell in f.__closure__ or ():
            content = _content(cell)
            self._cells.append((cell, content))
            if content is not _MISSING:
                yield content
        if not self._program.owns_function(f):
            return  # Lifting calls it unchanged as well, unless a derivative is among its arguments.
        yield from f.__defaults__ or ()
        yield from (f.__kwdefaults__ or {}).values()
        for code in _codes(f.__code__):
            if _assigns_outside(code):
                raise _Unsuitable
        codes = _codes(f.__code__)
        attributes = {name for code in codes for name in code.co_names}
        names = sorted({name for code in codes for name in _global_names(code)})
        for v in self._watch_names(space, names):
            yield v
            if isinstance(v, ModuleType):
                yield from self._visit_module(v, attributes)

    def _visit_module(self, module: ModuleType, attributes: set[str]) -> Iterator[Any]:
        """Yield the values of a module's names that code with these attributes may read."""
        if not self._program.owns(module.__name__):
            return
        space = vars(module)
        names = sorted(attributes.intersection(space))
        for v in self._watch_names(space, names):
            yield v
            if isinstance(v, ModuleType) and v.__name__.startswith(f"{module.__name__}."):
                yield from self._visit_module(v, attributes)

    def _visit_class(self, c: type) -> Iterator[Any]:
        top = str(c.__module__).partition(".")[0]
        if top in ("ndgrad", "torch"):
            raise _Unsuitable
        if not self._program.owns_class(c):
            return
        yield from c.__bases__
        space = vars(c)
        yield from self._watch(space.values)

    def _visit_instance(self, v: Any) -> Iterator[Any]:
        kind = type(v)
        if _is_opaque_class(kind):
            return
        yield kind
        found = False
        if isinstance(v, dict):
            found = True
            yield from self._watch(lambda: dict.values(v))
        elif isinstance(v, _SEQUENCES):
            found = True
            base = next(c for c in _SEQUENCES if isinstance(v, c))
            yield from self._watch(functools.partial(base.__iter__, v))
        if kind.__dictoffset__ or isinstance(v, SimpleNamespace):
            found = True
            space = object.__getattribute__(v, "__dict__")
            yield from self._watch(space.values)
        for c in kind.__mro__:
            names = vars(c).get("__slots__", ())
            for name in (names,) if isinstance(names, str) else names:
                found = True
                member = vars(c).get(name)
                if isinstance(member, MemberDescriptorType):
                    yield from self._watch(functools.partial(_read_member, member, v))
        if hasattr(v, "__wrapped__"):
            found = True
            yield v.__wrapped__  # an lru_cache, whose entries belong to plain code
        if not found:
            raise _Unsuitable


def is_plain(v: Any) -> bool:
    """True if a value is a number, a text, or a plain array of these."""
    kind = v.__class__
    return kind in _NUMBERS or (kind is np.ndarray and v.dtype.kind in "biufcSUmM")


def _read_member(member: MemberDescriptorType, v: Any) -> tuple[Any, ...]:
    try:
        return (member.__get__(v),)
    except AttributeError:  # not assigned yet
        return (None,)


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return _MISSING


@functools.cache
def _codes(code: CodeType) -> tuple[CodeType, ...]:
    """Return the code of a function and of the functions inside it."""
    return (code, *(inner for c in code.co_consts if isinstance(c, CodeType) for inner in _codes(c)))


@functools.cache
def _global_names(code: CodeType) -> frozenset[str]:
    """Return the names that code reads in its module or in builtins."""
    return frozenset(i.argval for i in get_instructions(code) if i.opname in _GLOBAL_READS)


@functools.cache
def _assigns_outside(code: CodeType) -> bool:
    """True if code may assign a global name, or a name of an enclosing function."""
    used = set(code.co_code[::2])
    return bool(used & _STORES) or (bool(code.co_freevars) and bool(used & _CELL_STORES))


def _is_opaque_class(kind: type) -> bool:
    """True if instances of a class hold no values of a program: loggers, patterns, locks, dates; objects of SciPy and
    numba, which have no place for a tensor."""
    module = kind.__module__
    known = module in _OPAQUE_MODULES or module.partition(".")[0] in _OPAQUE_MODULES
    return known and kind is not SimpleNamespace and kind.__name__ not in ("_local", "Field")


def _returns_frame(original: Any) -> bool:
    """True if a call returns a suspended frame, which would run as plain code after the call."""
    suspends = (inspect.isgeneratorfunction, inspect.iscoroutinefunction, inspect.isasyncgenfunction)
    return any(is_kind(original) for is_kind in suspends)
