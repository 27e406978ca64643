"""Objects that modules, classes and other objects reach: their attributes and slots, and the methods of their class."""

from __future__ import annotations

import abc
import functools
import io
import random
import sys
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.arrays.dtypes import dtype
from ndgrad._src.arrays.generator import Generator
from ndgrad._src.compiler.capture.captured_state import (
    MISSING,
    CapturedSlots,
    drop_keys,
    get_state,
    set_identity,
    set_slots,
    slots_of,
)
from ndgrad._src.compiler.capture.code_origin import is_foreign
from ndgrad._src.compiler.capture.known_calls import is_pure_source
from ndgrad._src.foundations.devices import device, layout, memory_format
from ndgrad._src.foundations.public_path import defining_module

if TYPE_CHECKING:
    from ndgrad._src.compiler.capture.reachable_objects import ReachableObjects

#: Function that reaches the objects inside another: the walk, a label, the object, the name by which code reaches it.
Visitor = Callable[["ReachableObjects", str, Any, "str | None"], None]

#: Modules whose objects are constant, or change only internally (functions whose code is generated on first call).
_CONSTANT_MODULES = (
    "ndgrad.ops.",
    "ndgrad.autograd.",
    "ndgrad.library.",
    "ndgrad.numpy.",
    "ndgrad._src.arrays.",
    "ndgrad._src.ops.",
    "ndgrad._src.core.",
    "ndgrad._src.interpreters.",
    "ndgrad._src.engine.",
    "ndgrad._src.custom_functions.",
    "ndgrad._src.tensor.functions.",
    "ndgrad._src.lifting.",
)
#: Classes of constants.
_CONSTANT_CLASSES = frozenset([device, dtype, layout, memory_format])

#: Flag of classes made by a class statement.
_IS_HEAP_TYPE = 1 << 9

#: Classes of functions written in Cython or Fortran.
_COMPILED_FUNCTIONS = frozenset(["cython_function_or_method", "fused_cython_function", "fortran"])

#: Modules of the standard library whose objects are immutable.
_IMMUTABLE_MODULES = frozenset(
    "re _sre datetime fractions pathlib pathlib._local uuid typing types _struct numbers abc _abc zoneinfo".split()
)

#: Modules with C classes that use memory or settings outside of the comparison.
_HIDDEN_MODULES = frozenset("decimal _decimal ctypes _ctypes mmap _socket socket select _csv _queue sqlite3 _sqlite3 _io".split())

#: Abstract classes of streams. They hold no file, and programs name them in `isinstance` tests alone.
_ABSTRACT_STREAMS = frozenset(base for c in (io.RawIOBase, io.BufferedIOBase, io.TextIOBase) for base in c.__mro__[1:-1])

#: Classes of the standard library whose state is in their attributes.
_TRANSPARENT = frozenset(
    "argparse.Namespace types.SimpleNamespace os._Environ".split()
)


def visit_module(walk: ReachableObjects, what: str, module: Any, name: str | None) -> None:
    if not is_foreign(module.__name__):
        walk.names.used.add("__getattr__")
        walk.names.holders.append((module, set(), f"{module.__name__}."))
        if name is None:  # imported by the function
            walk.names.asked_of_modules.setdefault(id(module), set()).update(walk.names.used)
    elif name is None:  # imported by the function
        walk.names.imported_libraries.append(module)


def visit_type(walk: ReachableObjects, what: str, cls: Any, name: str | None) -> None:
    if cls.__module__ in _HIDDEN_MODULES and cls not in _ABSTRACT_STREAMS:
        walk.opaque.note_object(what, cls, name, f"{cls.__module__}.{cls.__qualname__} may depend on or change something else")
    visit_class(walk, cls)
    if isinstance(cls, abc.ABCMeta):
        _capture_virtual_subclasses(walk)


def visit_class(walk: ReachableObjects, cls: type) -> None:
    if type(cls) is not type and not is_foreign(type(cls).__module__):
        visit_class(walk, type(cls))
    if is_foreign(cls.__module__):
        return
    for c in cls.__mro__:
        if not is_foreign(c.__module__) and not any(holder is c for holder, _, _ in walk.names.holders):
            # Python calls special methods by itself. A base class of ndgrad or another library may call any method.
            derived = any(is_foreign(b.__module__) and b is not object for b in c.__mro__)
            functions = (types.FunctionType, staticmethod, classmethod, property)
            walk.names.used |= {
                n for n, v in vars(c).items() if (derived or n.startswith("__")) and isinstance(v, functions)
            }
            walk.names.holders.append((c, set(), f"{c.__qualname__}."))
            _capture_keys(walk, c)


def _capture_keys(walk: ReachableObjects, cls: type) -> None:
    """Compare the bases of a class and its attribute names: an added attribute may hide one of a base."""
    walk.capture(CapturedSlots(f"the bases of {cls.__qualname__}", (), lambda: [cls.__mro__], None, ("bases", cls)), None)
    space = vars(cls)
    write = functools.partial(drop_keys, cls)
    walk.capture(CapturedSlots(f"the attributes of {cls.__qualname__}", (), lambda: [*space], write, ("keys", space)), None)


def _capture_virtual_subclasses(walk: ReachableObjects) -> None:
    """Compare the registrations with abstract classes."""
    if id(abc.get_cache_token) not in walk.seen:
        walk.seen[id(abc.get_cache_token)] = abc.get_cache_token
        walk.capture(CapturedSlots("the classes registered with abstract ones", (), lambda: [abc.get_cache_token()], None), None)


def visit_object(walk: ReachableObjects, what: str, value: Any, name: str | None) -> None:
    cls = type(value)
    if cls.__module__ == "ndgrad.numpy.random":  # draws from NumPy's generator
        value = getattr(value, "_numpy", value)
    if isinstance(value, (random.Random, np.random.Generator, np.random.RandomState, Generator)):
        walk.generators.append((value, get_state(value)))
    elif defining_module(cls).startswith(_CONSTANT_MODULES) or cls in _CONSTANT_CLASSES or (cls.__name__ in _COMPILED_FUNCTIONS and is_foreign(getattr(value, "__module__", None))):
        pass
    elif hasattr(cls, "__next__"):
        walk.opaque.note_object(what, value, name, f"{what} is an iterator, which the function would advance")
    elif is_foreign(cls.__module__) and cls.__module__.partition(".")[0] in sys.stdlib_module_names:
        visit_standard_object(walk, what, value, name)
    else:
        _visit_own_object(walk, what, value, name)


def visit_standard_object(walk: ReachableObjects, what: str, value: Any, name: str | None) -> None:
    """Reach an object of the standard library. Unsafe code of the library never runs in a trace, so the function
    can only read named attributes of the object without a call.
    """
    cls = type(value)
    own = getattr(value, "__dict__", None)
    is_transparent = is_pure_source(cls.__module__) or any(
        f"{c.__module__}.{c.__qualname__}" in _TRANSPARENT for c in cls.__mro__
    )
    if cls.__module__ in ("weakref", "_weakrefset") or (_has_hidden_state(cls) and not is_transparent):
        walk.opaque.note_object(what, value, name)
    elif is_transparent and isinstance(own, dict):
        walk.reaches_environment_variables |= cls.__qualname__ == "_Environ"
        _capture_identity(walk, what, value)
        walk.capture_attributes(what, own)
    elif cls.__module__ in _IMMUTABLE_MODULES:
        pass
    elif isinstance(own, dict) and cls.__flags__ & _IS_HEAP_TYPE and not hasattr(cls, "__getitem__"):
        walk.names.holders.append((value, set(), f"{what}."))
    else:
        walk.opaque.note_object(what, value, name)


def _visit_own_object(walk: ReachableObjects, what: str, value: Any, name: str | None) -> None:
    cls = type(value)
    visit_class(walk, cls)
    own = getattr(value, "__dict__", None)
    slots = [n for c in cls.__mro__ for n in slots_of(c)]
    if isinstance(value, BaseException):
        walk.capture(CapturedSlots(f"{what}.", ["args"], lambda: [value.args], lambda saved: setattr(value, "args", saved[0])), name)
    elif not is_foreign(cls.__module__) and _has_hidden_state(cls):
        walk.opaque.note_object(what, value, name)
    if hasattr(cls, "__environment__"):
        walk.pending += [(what, v, name) for v in value.__environment__()]
    elif isinstance(own, dict):
        if value.__dict__ is own:
            _capture_identity(walk, what, value)
        walk.capture_attributes(what, own)
    if slots and not is_foreign(cls.__module__):
        if not isinstance(own, dict):
            walk.capture(CapturedSlots(f"{what}.", ["__class__"], lambda: [type(value)], None, ("class", value)), name)
        write = functools.partial(set_slots, value, slots)
        walk.capture(
            CapturedSlots(
                f"{what}.",
                slots,
                lambda: [getattr(value, n, MISSING) for n in slots],
                write,
                ("slots", (value, slots)),
            ),
            list(slots),
        )


def _capture_identity(walk: ReachableObjects, what: str, value: Any) -> None:
    """Capture the class of an object and the identity of its attribute dictionary."""
    walk.seen[id(value.__dict__)] = value.__dict__
    walk.capture(
        CapturedSlots(
            f"{what}.",
            ["__class__", "__dict__"],
            lambda: [type(value), value.__dict__],
            functools.partial(set_identity, value),
            ("object", value),
        ),
        None,
    )


def _has_hidden_state(cls: type) -> bool:
    """True if objects of a class have memory apart from attributes and slots, because they are implemented in C."""
    slots = sum(isinstance(v, types.MemberDescriptorType) for c in cls.__mro__ for v in vars(c).values())
    pointers = 2 + slots  # plus the attribute dictionary and weak references
    return cls.__itemsize__ != 0 or cls.__basicsize__ > object.__basicsize__ + pointers * object.__basicsize__ // 2


#: Visitors for classes and their subclasses.
OBJECTS: dict[type, Visitor] = {types.ModuleType: visit_module, type: visit_type}
