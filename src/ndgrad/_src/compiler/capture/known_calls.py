"""Calls that a trace may make: C functions and standard library code that are known to be safe.

A trace runs a function once, and its program is used for all later calls. A call inside the function is safe if it
returns the same result for the same arguments, and changes only objects that are compared before and after the trace
(see ndgrad._src.compiler.capture.environment). Everything else ends the trace: files, clocks, the system, threads, and
every C function that is not listed here, because its effects are unknown.
"""

from __future__ import annotations

import _random
import array
import builtins
import collections
import contextvars
import datetime
import functools
import io
import itertools
import operator
import re
import types
from typing import Any

import numpy as np

#: Modules whose C functions depend on their arguments alone.
_PURE_MODULES = frozenset(
    "math cmath operator _operator itertools functools _functools collections _collections _collections_abc _abc abc _struct"
    " _sre _string _statistics _json _typing _weakref binascii unicodedata zlib copyreg".split()
)
#: Libraries whose C functions are safe, apart from `_DENIED`.
_PURE_PACKAGES = ("numpy", "scipy", "ndgrad", "cupy", "cupyx", "cupy_backends", "cudnn")
#: Names of C functions in the modules above that read or write something else.
_DENIED = frozenset("fromfile tofile load dump _load_from_filelike _abc_register _reset_registry _reset_caches".split())
#: Builtins that read or change something apart from their arguments. During a trace `side_effects` replaces those that
#: look up names (getattr and others), so the originals do not appear in the user's code.
_DENIED_BUILTINS = frozenset(
    "open input exec eval compile breakpoint globals dir getattr hasattr setattr delattr vars __import__".split()
)
#: Types with safe methods: immutable types, and types whose objects are compared or belong to the trace.
_TYPES = frozenset(
    [
        object, type, int, float, complex, bool, str, bytes, bytearray, list, tuple, dict, set, frozenset, range, slice,
        type(None), type(Ellipsis), type(NotImplemented), memoryview, property, staticmethod, classmethod, super,
        type({}.keys()), type({}.values()), type({}.items()), type(iter([])), type(iter({})), type(iter("")),
        map, filter, zip, enumerate, reversed, BaseException, Exception,
        types.GeneratorType, types.FunctionType, types.MethodType, types.MappingProxyType, types.CellType,
        types.GenericAlias, types.SimpleNamespace, types.BuiltinFunctionType, types.MethodDescriptorType,
        types.WrapperDescriptorType, types.MethodWrapperType, types.GetSetDescriptorType, types.MemberDescriptorType,
        collections.deque, collections.OrderedDict, collections.defaultdict, functools.partial, array.array,
        io.StringIO, io.BytesIO, re.Pattern, re.Match, operator.itemgetter, _random.Random, contextvars.ContextVar,
        datetime.date, datetime.datetime, datetime.time, datetime.timedelta, datetime.timezone, datetime.tzinfo,
        np.ndarray, np.generic, np.dtype, np.ufunc, np.nditer, np.flatiter, np.broadcast,
        np.random.Generator, np.random.RandomState, np.random.BitGenerator,
        itertools.count, itertools.chain, itertools.cycle, itertools.islice, itertools.repeat, itertools.tee,
    ]
)  # fmt: skip
#: Unsafe methods of these types.
_DENIED_METHODS = frozenset(
    [
        (datetime.datetime, "now"), (datetime.datetime, "utcnow"), (datetime.date, "today"), (type, "__subclasses__"),
        (np.ndarray, "tofile"), (np.ndarray, "dump"), (array.array, "tofile"), (array.array, "fromfile"),
        (contextvars.ContextVar, "set"), (contextvars.ContextVar, "reset"),
    ]
)  # fmt: skip
#: Modules of the standard library with safe Python code: it computes, or calls back the user's code.
_PURE_SOURCES = frozenset(
    "abc _abc_data _collections_abc _py_abc bisect cmath collections collections.abc configparser contextlib copy copyreg"
    " dataclasses enum fractions functools graphlib heapq inspect itertools json json.decoder json.encoder json.scanner"
    " keyword numbers operator random re re._compiler re._parser re._casefix re._constants reprlib sre_compile sre_parse"
    " statistics string textwrap types typing weakref _weakrefset annotationlib".split()
)
#: Safe functions of other modules of the standard library, by module and the start of their qualified names.
_PURE_FUNCTIONS = {
    "os": ("_Environ.__getitem__", "_Environ.__iter__", "_Environ.__len__", "_createenviron.<locals>", "fspath"),
    "argparse": ("Namespace.", "_AttributeHolder."),
    "importlib._bootstrap": ("_handle_fromlist", "parent", "_find_spec_legacy", "ModuleSpec.parent"),
    "warnings": ("catch_warnings.",),
    "threading": ("RLock", "Lock"),
}
#: NumPy's Python functions that read or change settings of the process, or inspect files before they open them.
_DENIED_NUMPY = frozenset(
    "set_printoptions get_printoptions seterr geterr seterrcall geterrcall setbufsize getbufsize load save memmap open_memmap"
    " info show_config".split()
)
#: Functions of ndgrad that change settings of the process.
_SETTERS = frozenset(
    "set_default_dtype set_default_device set_default_tensor_type set_printoptions set_num_threads set_num_interop_threads"
    " use_deterministic_algorithms set_deterministic_debug_mode set_float32_matmul_precision set_flush_denormal"
    " set_warn_always set_anomaly_enabled set_detect_anomaly".split()
)


def refuse_c_function(function: Any) -> str | None:
    """Return the name of a C function that must not be called in a trace; None if it is known to be safe."""
    owner = function.__self__
    name = function.__name__
    if owner is None or isinstance(owner, types.ModuleType):
        module = function.__module__ or getattr(owner, "__name__", "")
        return None if _is_pure_function(module, name) else f"{module}.{name}"
    cls = owner if isinstance(owner, type) else type(owner)
    if isinstance(owner, type) and name not in _names_along(owner):  # method of the metaclass
        cls = type(owner)
    defined = next((c for c in cls.__mro__ if name in vars(c)), cls)
    if (defined, name) in _DENIED_METHODS:
        return f"{defined.__name__}.{name}"
    if defined in _TYPES or defined.__module__.partition(".")[0] in _PURE_PACKAGES:
        return None
    if name == "__new__" or issubclass(defined, (BaseException, *_CONTAINERS)):
        return None
    return f"{defined.__module__}.{defined.__qualname__}.{name}"


_CONTAINERS = (int, float, complex, str, bytes, list, tuple, dict, set, frozenset, collections.deque)


def _names_along(cls: type) -> set[str]:
    return {name for c in cls.__mro__ for name in vars(c)}


def _is_pure_function(module: str, name: str) -> bool:
    if module == "builtins":
        return name not in _DENIED_BUILTINS and hasattr(builtins, name)
    if name in _DENIED:
        return False
    if module in ("_thread", "threading"):
        return name in ("allocate_lock", "RLock")
    return module in _PURE_MODULES or module.partition(".")[0] in _PURE_PACKAGES


def refuse_python_code(module: str, code: types.CodeType) -> str | None:
    """Return the name of a library's Python function that must not run in a trace; None if it is known to be safe.
    `module` belongs to Python or to a library that counts as constant.
    """
    root = module.partition(".")[0]
    if root in _PURE_PACKAGES:
        denied = root == "numpy" and code.co_name in _DENIED_NUMPY
        return f"numpy.{code.co_name}" if denied else None
    if module in _PURE_SOURCES or code.co_qualname.startswith(_PURE_FUNCTIONS.get(module, ("<",))):
        return None
    return f"{module}.{code.co_qualname}"


def is_setter(code: types.CodeType) -> bool:
    """True if a function of ndgrad changes a setting of the process."""
    return code.co_name in _SETTERS


def is_pure_source(module: str) -> bool:
    """True if the Python code of a module of the standard library is safe."""
    return module in _PURE_SOURCES
