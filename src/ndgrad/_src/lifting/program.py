"""A program written for NumPy, rebuilt so that its names refer to ndgrad.

The original stays unchanged. A function is its code, its globals, its cells and its defaults: a lifted function has
the same code (except for `%` formats, see `numbers.Text`) and lifted versions of the rest. Names are lifted when they
are read, so a large package costs nothing until it is used, and names rebound in the original are seen.

Note [Globals of lifted code]
The globals are a dict without the names. CPython looks up each global in a subclass of dict by `__getitem__`, hence by
`__missing__`, which looks the name up in the original's globals, and lifts the value. A name that lifted code assigns
(`global count`) is stored in the dict itself, and hides the original's. Bodies of classes are the exception: they read
the dict directly, so their names are put there beforehand.

Note [Lifted classes]
The lifted form of `class B(A)` is `class B'(B, A')`, where A' is that of A. Its method resolution order is B', B, A',
A, object. So lifted methods hide the original ones; `super()` inside them, whose cell holds B, continues with A'; and
instances are also instances of B. An instance made outside gets a twin of class B' over the same attributes.
"""

from __future__ import annotations

import abc
import builtins
import collections
import enum
import functools
import inspect
import operator
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    FunctionType,
    MappingProxyType,
    MethodType,
    ModuleType,
    SimpleNamespace,
    WrapperDescriptorType,
)
from typing import Any

import numpy as np

from ndgrad._src.arrays.precision import is_number
from ndgrad._src.core.borrowed_memory import mark_known
from ndgrad._src.core.detach_checks import first_at_stake
from ndgrad._src.core.subclass import as_class
from ndgrad._src.core.variable import Variable
from ndgrad._src.foundations.locks import make_lock
from ndgrad._src.lifting import namespaces, packages
from ndgrad._src.lifting.namespaces import PURE_PYTHON, UNKNOWN, Namespace, known_object
from ndgrad._src.lifting.numbers import (
    Complex,
    Float,
    LiftedType,
    PythonNumber,
    Text,
    is_constant,
    isinstance_,
    make_builtins,
    replace_formats,
)
from ndgrad._src.lifting.plain_calls import PlainCalls
from ndgrad._src.lifting.searches import guard_search
from ndgrad._src.lifting.solvers import BRACKETING, wrap_solver
from ndgrad._src.lifting.subclasses import SubclassedArray
from ndgrad.numpy._array import Array
from ndgrad.numpy.coercion import as_array
from ndgrad.numpy.functional import vectorize
from ndgrad.scipy._without_rules import active_in

_LruCache = type(functools.lru_cache(lambda: None))
_Dispatcher = type(np.sum)

#: Functions of SciPy that search for their result.
_SOLVERS = ("scipy.optimize.", "scipy.integrate.solve_bvp", "scipy.sparse.linalg.")
_CODE = (FunctionType, MethodType, functools.partial)

#: Classes of numbers whose operators programs keep as functions (`float.__mul__`), and their replacements.
_NUMBERS = {float: Float, complex: Complex}

_FACTORY = object()  # the key of a defaultdict's factory among its items

#: Names of the classes of functions that Cython, f2py and pybind11 make.
_COMPILED_KINDS = frozenset(("cython_function_or_method", "fused_cython_function", "fortran", "nb_func"))

#: Values that are the same in lifted and plain code.
PLAIN = frozenset(
    (int, float, complex, bool, str, bytes, type(None), type(...), type(NotImplemented), range, slice, Array,
        PythonNumber, Text, np.dtype,
     CodeType,
     *(np.dtype(c).type for c in "?bhilqBHILQefdgFDG"))
)  # fmt: skip
_CONTAINERS = (list, tuple, dict, set, frozenset)
#: Classes of the standard library that hold values: class -> its content, and a container with another content.
_WRAPPED_CONTAINERS: dict[type, tuple[Callable[[Any], Any], Callable[[Any, Any], Any]]] = {
    collections.OrderedDict: (dict, lambda v, items: collections.OrderedDict(items)),
    collections.defaultdict: (
        lambda v: {**v, _FACTORY: v.default_factory},
        lambda v, items: collections.defaultdict(items.pop(_FACTORY), items),
    ),
    collections.deque: (list, lambda v, items: collections.deque(items, v.maxlen)),
    collections.ChainMap: (lambda v: v.maps, lambda v, maps: collections.ChainMap(*maps)),
    MappingProxyType: (dict, lambda v, items: MappingProxyType(items)),
    SimpleNamespace: (lambda v: dict(vars(v)), lambda v, items: SimpleNamespace(**items)),
}
#: Modules of the standard library with another meaning in lifted code, except math.
_MODULES = {
    "copy": namespaces.copy_module, "dataclasses": namespaces.dataclasses_module, "pickle": namespaces.pickle_module,
    "statistics": namespaces.statistics_module,
}  # fmt: skip
_OF_CLASSES = frozenset(
    "__dict__ __weakref__ __module__ __doc__ __qualname__ __name__ __slots__ __init_subclass__ __abstractmethods__ "
    "_abc_impl __lifted_from__".split()
)


#: Members of metaclasses that make classes, or change them.
_MAKING = frozenset(
    "__new__ __init__ __prepare__ __init_subclass__ __setattr__ __delattr__ __getattribute__ __instancecheck__ "
    "__subclasscheck__ mro".split()
)
_METHODS = (FunctionType, property)
#: Operators of a right operand.
_REFLECTED = frozenset(
    f"__r{name}__" for name in "add sub mul truediv floordiv mod divmod pow matmul and or xor lshift rshift".split()
)


class LiftedGlobals(dict[str, Any]):
    """The globals of lifted code: see Note [Globals of lifted code]."""

    __slots__ = ("_builtins", "_original", "_program")

    def __init__(self, program: Program, original: dict[str, Any]) -> None:
        super().__init__(__builtins__=program.builtins)
        self._program, self._original, self._builtins = program, original, program.builtins
        # The import statement looks for these in the dict itself.
        self.update(
            {n: original[n] for n in ("__name__", "__package__", "__spec__", "__file__", "__path__") if n in original}
        )

    def __missing__(self, name: str) -> Any:
        try:
            value = self._original[name]
        except KeyError:
            return self._builtins[name]
        return value if value.__class__ in PLAIN else self._program.value(value)

    def __contains__(self, name: object) -> bool:  # `name in globals()`
        return super().__contains__(name) or name in self._original

    def get(self, name: str, default: Any = None) -> Any:
        try:
            return self[name]
        except KeyError:
            return default

    def hold(self, names: Iterator[str]) -> None:
        """Put names into the dict itself, for the bodies of classes."""
        for name in names:
            if not super().__contains__(name) and name in self._original:
                self[name] = self[name]


class MirroredDict(dict[Any, Any]):
    """A dict of lifted values in place of another dict; a change of one item is made in the other dict too."""

    __slots__ = ("_original", "_values")

    def __init__(self, original: dict[Any, Any], lifted: dict[Any, Any]) -> None:
        super().__init__(lifted)
        self._original, self._values = original, list(original.values())

    def is_current(self) -> bool:
        return all(map(operator.is_, self._values, self._original.values()))


def _mirror(name: str) -> Callable[..., Any]:
    change = getattr(dict, name)

    def method(self: MirroredDict, *args: Any, **kwargs: Any) -> Any:
        change(self._original, *args, **kwargs)
        made = change(self, *args, **kwargs)
        self._values = list(self._original.values())
        return self if name == "__ior__" else made

    method.__name__ = method.__qualname__ = name
    return method


for _change in "__setitem__ __delitem__ __ior__ update setdefault pop popitem clear".split():
    setattr(MirroredDict, _change, _mirror(_change))


class LiveNamespace(Namespace):
    """A module of the program itself: attributes are looked up in the original each time."""

    def __getattr__(self, name: str) -> Any:
        return self._find(name)


class Program:
    """All objects rebuilt by one call of `lift`."""

    def __init__(
        self,
        named: tuple[str, ...],
        root: dict[str, Any] | None = None,
        implicit: tuple[Any, ...] = (),
        replace: Mapping[Any, Any] | None = None,
    ) -> None:
        # packages whose code is lifted, besides those of Note [Followed packages]
        self.packages = tuple(p for p in (*named, *PURE_PYTHON) if p != "ndgrad")
        self.root = root
        self._owned: dict[str, bool] = {}
        self._metaclasses: dict[type, type] = {}
        self._owned_classes: dict[int, tuple[type, bool]] = {}
        self.builtins = make_builtins(self.import_) | {
            "super": super_, "isinstance": self.isinstance_, "issubclass": issubclass_, "vars": vars_,
        }  # fmt: skip
        #: Name -> reason, for objects that could not be lifted.
        self.left: dict[str, str] = {}
        # id -> the original, held so that its id stays unique, and the lifted object
        self._made: dict[int, tuple[Any, Any]] = {}
        self._globals: dict[int, LiftedGlobals] = {}
        self._containers: dict[int, tuple[Any, list[Any], Any]] = {}
        self._mirrored: dict[int, tuple[Any, int, Any]] = {}
        self._wrapped: dict[int, tuple[Any, list[Any], Any]] = {}
        self._arrays: dict[int, tuple[Any, Any]] = {}
        self._twins: dict[int, tuple[Any, Any]] = {}
        # id of an instance -> the instance, held while its twin lives, and its twin
        self._former_twins: dict[int, tuple[Any, weakref.ref[Any]]] = {}
        self._held: set[tuple[int, str]] = set()  # attributes of twins that were Arrays before
        # id of the function, its cell, our cell, content of its cell
        self._cells: list[tuple[int, CellType, CellType, Any]] = []
        self._class_cells: dict[int, CellType] = {}  # `__class__` of methods of lifted subclasses of ndarray
        self._copied: list[tuple[Any, Any, Any]] = []  # dict or list of a class of the program, its copy, items before
        self._caches: list[Any] = []
        self._classes_in_work = 0
        self._unfinished: list[tuple[type, type, frozenset[str]]] = []  # classes whose values are not lifted yet
        self._lock = make_lock()
        for f in implicit:
            self._made[id(f)] = (f, wrap_solver(f))
        # modules whose functions are replaced
        self._replaced_in = {str(getattr(f, "__module__", None)) for f in replace or ()}
        for f, other in (replace or {}).items():
            self._made[id(f)] = (f, self.value(other))
        self.plain_calls = PlainCalls(self, is_faithful=not replace and not implicit)
        self._active = 0  # calls from outside that have not returned
        self._lasting: set[int] = set()  # objects made before the first of them

    # ----- ownership of code ------------------------------------------------------------------------------------------

    def owns(self, module: object) -> bool:
        """True if the code of a module is lifted whenever the program reaches it."""
        if module.__class__ is not str:
            return False
        found = self._owned.get(module)
        if found is None:
            top = module.partition(".")[0]
            named = any(module == p or module.startswith(p + ".") for p in self.packages)
            everything = "*" in self.packages and packages.can_follow(top)
            found = self._owned[module] = named or everything or packages.is_written_for_numpy(top)
        return found

    def owns_function(self, f: FunctionType) -> bool:
        space = f.__globals__
        if space is self.root:
            return True
        # Code without a module is made by `exec`, such as the functions of sympy.lambdify.
        return self.owns(space["__name__"]) if "__name__" in space else packages.reads_numpy(f)

    def owns_class(self, c: type) -> bool:
        # NumPy's classes report module numpy, wherever they are defined.
        found = self._owned_classes.get(id(c))
        if found is None:
            own = self.owns(c.__module__) or any(
                isinstance(m, FunctionType) and self.owns_function(m) for m in vars(c).values()
            )
            found = self._owned_classes[id(c)] = (c, own)
        return found[1]

    def leave(self, value: Any, why: str) -> Any:
        """Use an object unchanged, and record that."""
        module = getattr(value, "__module__", None) or type(value).__module__
        name = getattr(value, "__qualname__", None) or type(value).__qualname__
        if str(module).split(".")[0] not in sys.stdlib_module_names and not str(module).startswith("ndgrad."):
            self.left[f"{module}.{name}"] = why
        return value

    # ----- any value --------------------------------------------------------------------------------------------------

    def value(self, v: Any) -> Any:
        """Return the replacement of `v` in lifted code."""
        kind = v.__class__
        if kind in PLAIN:
            return v
        if kind is np.ndarray:
            return self.array(v)
        if kind in _CONTAINERS:
            return self.container(v)
        if kind in _WRAPPED_CONTAINERS:
            return self.wrapped_container(v)
        known = self._made.get(id(v))
        if known is not None:
            return known[1]
        made = self._lift_value(v, kind)
        if kind.__name__ == "PatchedFunction":
            return made  # the compiler's, during a trace
        if made is not v and id(v) not in self._twins and kind is not MethodType and kind is not type:
            self._made[id(v)] = (v, made)
        return made

    def _lift_value(self, v: Any, kind: type) -> Any:
        if isinstance(v, Variable):
            return v
        if isinstance(v, tuple) and hasattr(kind, "_fields"):
            lifted = tuple(map(self.value, v))
            return v if all(map(operator.is_, lifted, v)) else tuple.__new__(kind, lifted)
        if kind is FunctionType:
            return self.function(v)
        if isinstance(v, type):
            return self.class_(v)
        if isinstance(v, ModuleType):
            return self.module(v)
        if kind is MethodType:
            return self.method(v)
        known = known_object(v)
        if known is not UNKNOWN:
            return known
        if kind is BuiltinFunctionType:
            return self._lift_builtin(v)
        made = self._lift_callable_of_library(v, kind)
        if made is not None:
            return made
        if isinstance(v, (np.random.Generator, np.random.RandomState)):
            import ndgrad.numpy.random as random  # rarely needed

            return random.Generator(v) if isinstance(v, np.random.Generator) else random.RandomState(v)
        if self.owns_class(kind):
            return self.array_instance(v) if isinstance(v, np.ndarray) else self.twin(v)
        if callable(v) and kind is not _Dispatcher and not isinstance(v, np.ufunc):
            original = _before_trace(v)
            return self.value(original) if original is not v else self._lift_compiled(v, kind)
        return v

    def _lift_builtin(self, v: Any) -> Any:
        """Return the replacement of a function written in C."""
        if (v.__module__ or "").startswith("scipy."):
            return namespaces.wrap_foreign(v, namespaces.public_name(v))
        found = namespaces.math_objects().get(id(v)) or namespaces.PICKLES.get(id(v))
        if found is not None:
            return found
        follows = packages.can_follow(packages.top_of(v)) and v.__self__.__class__ is ModuleType
        return namespaces.wrap_compiled(v) if follows else v

    def _lift_callable_of_library(self, v: Any, kind: type) -> Any:
        """Return the replacement of an object by which Python, NumPy or Numba wraps a function; None if it is none."""
        if kind is WrapperDescriptorType and v.__objclass__ in _NUMBERS:
            return getattr(_NUMBERS[v.__objclass__], v.__name__)
        if kind is functools.partial:
            return functools.partial(
                self.value(v.func), *map(self.value, v.args), **{k: self.value(a) for k, a in v.keywords.items()}
            )
        if kind is _LruCache:
            return self.lift_cached(v)
        if isinstance(v, np.vectorize):
            return self.lift_vectorized(v)
        if kind.__module__.startswith("numba."):
            inner = getattr(v, "py_func", None)
            if inner is not None:
                lifted = self.function(inner)
                lifted.py_func = lifted
                return lifted
            inner = getattr(getattr(v, "_dispatcher", None), "py_func", None)
            if inner is not None:  # a ufunc made of a Python function
                return vectorize(self.function(inner))
        return None

    def _lift_compiled(self, v: Any, kind: type) -> Any:
        """Return the replacement of a callable object that is not written in Python."""
        top = packages.top_of(v)
        if kind.__name__ in _COMPILED_KINDS and isinstance(getattr(v, "__name__", None), str):
            if top == "scipy":
                return namespaces.wrap_foreign(v, namespaces.public_name(v))
            if packages.can_follow(top):
                return namespaces.wrap_compiled(v)
        return self.leave(v, "not written in Python")

    # ----- arrays and containers --------------------------------------------------------------------------------------

    def array(self, v: np.ndarray[Any, Any]) -> Any:
        """Return an Array over a plain array's memory, the same one each time, so that values written through it
        stay known."""
        if not is_number(v.dtype):
            return v
        known = self._arrays.get(id(v))
        if known is None:
            with self._lock:
                known = self._arrays.setdefault(id(v), (v, mark_known(as_array(v))))
        return known[1]

    def container(self, v: Any) -> Any:
        """Return a list, tuple, dict or set unchanged, or a copy if it has something to lift; a new copy after the
        original has changed."""
        items = [*v, *v.values()] if isinstance(v, dict) else list(v)
        known = self._containers.get(id(v))
        if (
            known is not None
            and len(known[1]) == len(items)
            and all(a is b for a, b in zip(known[1], items, strict=True))
        ):
            return known[2]
        if all(i.__class__ in PLAIN for i in items):
            return v
        self._containers[id(v)] = (v, items, v)  # A container that holds itself ends here.
        lifted = [self.value(i) for i in items]
        made = v
        if any(a is not b for a, b in zip(lifted, items, strict=True)):
            made = dict(zip(v, lifted[len(v) :], strict=True)) if isinstance(v, dict) else type(v)(lifted)
            self._containers[id(v)] = (v, items, made)
        else:
            del self._containers[id(v)]
        return made

    def wrapped_container(self, v: Any) -> Any:
        """Return a container of the standard library: unchanged, or a copy if it holds functions, classes or objects of
        the program. A container of plain arrays is returned unchanged, so that both sides see items added to it."""
        content, make = _WRAPPED_CONTAINERS[v.__class__]
        known = self._wrapped.get(id(v))
        items = content(v)
        now = list(items.values()) if isinstance(items, dict) else list(items)
        if known is not None and len(known[1]) == len(now) and all(map(operator.is_, known[1], now)):
            return known[2]
        lifted = {k: self.value(i) for k, i in items.items()} if isinstance(items, dict) else [*map(self.value, items)]
        values = list(lifted.values()) if isinstance(lifted, dict) else lifted
        changed = any(a is not b and not isinstance(b, np.ndarray) for a, b in zip(values, now, strict=True))
        made = make(v, lifted) if changed else v
        self._wrapped[id(v)] = (v, now, made)
        return made

    def mirrored(self, v: dict[Any, Any]) -> dict[Any, Any]:
        """Return an attribute that is a dict: itself, or a copy with lifted functions and classes, whose changes are
        made in the original too."""
        known = self._mirrored.get(id(v))
        if known is not None and known[1] == len(v) and known[2] is not None and known[2].is_current():
            return known[2]
        made = v
        if any(
            i.__class__ not in PLAIN
            and (
                isinstance(i, (FunctionType, type, functools.partial))
                or (isinstance(i, _NESTED) and _leads_to_code(i))
                or self.owns(type(i).__module__)
            )
            for i in v.values()
        ):
            lifted = {k: self.value(i) for k, i in v.items()}
            if any(lifted[k] is not i for k, i in v.items()):
                made = MirroredDict(v, lifted)
        if made is not v:
            self._mirrored[id(v)] = (v, len(v), made)
        return made

    # ----- functions --------------------------------------------------------------------------------------------------

    def function(self, f: FunctionType) -> Any:
        known = self._made.get(id(f))
        if known is not None:
            return known[1]
        original = getattr(f, "__lifts__", None)
        if original is not None:  # already lifted by another call of lift
            return self.value(original)
        if not self.owns_function(f):
            return self._lift_foreign(f)
        if hasattr(f, "registry") and hasattr(f, "dispatch"):
            return self.single_dispatch(f)
        space = self.globals_of(f.__globals__)
        space.hold(_class_names(f.__code__))
        rebuilt: Any = self._rebuild(f, space)
        made = guard_search(f, rebuilt)
        if f.__name__ in BRACKETING and f.__code__.co_argcount >= 2:
            made = wrap_solver(f, made)
        if made is not rebuilt:
            self._made[id(f)] = (f, made)
        return made

    def _lift_foreign(self, f: FunctionType) -> Any:
        """Return the replacement of a function of another package: ours if there is one, rebuilt if it wraps an
        object of the program, otherwise itself."""
        known = known_object(f)
        if known is not UNKNOWN:
            return known
        copies = namespaces.COPIES.get(id(f))
        if copies is not None:
            return copies
        if hasattr(f, "registry") and hasattr(f, "dispatch"):
            return self.single_dispatch(f)
        top = packages.top_of(f)
        if top == "scipy":
            return self.follow_scipy(f)
        contents = [c for cell in f.__closure__ or () if (c := _content(cell)) is not UNKNOWN]
        if any(self.value(c) is not c for c in contents if c.__class__ is not np.ndarray):
            return self._rebuild(f, self.globals_of(f.__globals__) if packages.can_follow(top) else f.__globals__)
        if top == "numba" and f.__name__ in ("jit", "njit", "vectorize"):
            return _leave_uncompiled if f.__name__ != "vectorize" else _vectorize_uncompiled
        return self.follow(f) if packages.can_follow(top) else self.leave(f, "of another package")

    def follow(self, f: FunctionType) -> Callable[..., Any]:
        """Return a function of another package that runs lifted if a derivative is among its arguments, and unchanged
        otherwise: see Note [Followed packages]."""
        lifted: Callable[..., Any] | None = None

        @functools.wraps(f)
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal lifted
            if first_at_stake(args, kwargs) is None and not _has_code(args) and not _has_code(kwargs.values()):
                return f(*args, **kwargs)
            if lifted is None:
                space = self.globals_of(f.__globals__)
                space.hold(_class_names(f.__code__))
                lifted = guard_search(f, self._rebuild(f, space))
                self._made[id(f)] = (f, call)
            return lifted(*args, **kwargs)

        return call

    def follow_scipy(self, f: FunctionType) -> Callable[..., Any]:
        """Return a Python function of SciPy without a rule. SciPy's own code runs lifted if a derivative may be among
        its arguments. Solvers are never lifted: the derivative of their steps is not that of their result."""
        name = namespaces.public_name(f)
        unchanged = namespaces.wrap_foreign(f, name)
        if name.startswith(_SOLVERS):
            return unchanged
        lifted: FunctionType | None = None

        @functools.wraps(f)
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal lifted
            values = (*args, *kwargs.values())
            if active_in(values) is None and not _has_code(values):
                return unchanged(*args, **kwargs)
            if lifted is None:
                space = self.globals_of(f.__globals__)
                space.hold(_class_names(f.__code__))
                lifted = self._rebuild(f, space)
                self._made[id(f)] = (f, call)
            try:
                return lifted(*args, **kwargs)
            except Exception as error:
                return namespaces.call_without_slope(f, name, args, kwargs, error)

        return call

    def _rebuild(self, f: FunctionType, space: dict[str, Any]) -> FunctionType:
        fresh: list[tuple[CellType, CellType]] = []
        cells = []
        for name, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=True):
            content = _content(cell)
            # For `__class__`, see Note [Lifted classes]. Plain values stay in a shared cell, so that assignments of
            # both sides are seen.
            if name == "__class__" and isinstance(content, type) and issubclass(content, np.ndarray):
                if id(content) not in self._class_cells and self.class_(content) is not content and id(f) in self._made:
                    made: Any = self._made[id(f)][1]  # rebuilt with its class
                    return made
            if name == "__class__" and id(content) in self._class_cells:
                cells.append(self._class_cells[id(content)])
            elif name == "__class__" or content is UNKNOWN or content.__class__ in PLAIN:
                cells.append(cell)
            else:
                cells.append(CellType())
                fresh.append((cell, cells[-1]))
        made = FunctionType(
            replace_formats(f.__code__), space, f.__name__, None, tuple(cells) if f.__closure__ else None
        )
        self._made[id(f)] = (f, made)
        for old, new in fresh:
            new.cell_contents = self.value(old.cell_contents)
            self._cells.append((id(f), old, new, old.cell_contents))
        made.__defaults__ = f.__defaults__ and tuple(map(self.value, f.__defaults__))
        made.__kwdefaults__ = f.__kwdefaults__ and {k: self.value(v) for k, v in f.__kwdefaults__.items()}
        made.__dict__.update(f.__dict__)
        if "__wrapped__" in f.__dict__:
            made.__wrapped__ = self.value(f.__wrapped__)  # type: ignore[attr-defined]  # set by functools.wraps
        for name in ("__module__", "__qualname__", "__doc__", "__annotations__", "__type_params__"):
            if hasattr(f, name):
                setattr(made, name, getattr(f, name))
        return made

    def globals_of(self, original: dict[str, Any]) -> LiftedGlobals:
        if original.__class__ is LiftedGlobals:
            original = original._original
        found = self._globals.get(id(original))
        if found is None:
            found = self._globals[id(original)] = LiftedGlobals(self, original)
        return found

    def method(self, m: MethodType) -> Any:
        owner = self.value(m.__self__)
        if owner is not m.__self__ and isinstance(m.__func__, FunctionType):
            found = getattr(owner, m.__func__.__name__, None)
            if found is not None:
                return found
        function = self.value(m.__func__)
        return m if function is m.__func__ and owner is m.__self__ else MethodType(function, owner)

    def lift_cached(self, cache: Any) -> Callable[..., Any]:
        """Lift a function with a cache. Its entries hold graphs, so the cache is cleared at the end of each call from
        outside."""
        inner = self.value(cache.__wrapped__)
        if inner is cache.__wrapped__:
            return cache
        made = functools.lru_cache(**cache.cache_parameters())(inner)
        self._caches.append(made)
        return made

    def lift_vectorized(self, v: Any) -> Any:
        return vectorize(self.value(v.pyfunc), v.otypes, v.__doc__, v.excluded, False, v.signature)

    def single_dispatch(self, f: Any) -> Any:
        default, *others = f.registry.items()
        made: Any = functools.singledispatch(self.value(default[1]))
        self._made[id(f)] = (f, made)
        for kind, implementation in others:
            lifted = self.value(implementation)
            for accepted in {kind, self.value(kind), *((Array,) if kind is np.ndarray else ())}:
                made.register(accepted, lifted)
        return made

    # ----- classes and instances: see Note [Lifted classes] -----------------------------------------------------------

    def class_(self, c: type) -> Any:
        known = self._made.get(id(c))
        if known is not None:
            return known[1]
        original = c.__dict__.get("__lifted_from__")
        if original is not None:
            return c if self._made.get(id(original), (None, None))[1] is c else self.class_(original)
        if not self.owns_class(c):
            ours = known_object(c)
            return c if ours is UNKNOWN else ours
        self._classes_in_work += 1
        try:
            return self.array_class(c) if issubclass(c, np.ndarray) else self.plain_class(c)
        finally:
            self._classes_in_work -= 1
            while self._unfinished and not self._classes_in_work:
                self._finish_class(*self._unfinished.pop())

    def plain_class(self, c: type) -> Any:
        """Lift a class that does not extend ndarray."""
        why = _unliftable(c)
        if why:
            self._made[id(c)] = (c, c)
            return self.leave(c, why) if why != _PLAIN_DATA else c
        bases = [lifted for b in c.__bases__ if (lifted := self.class_(b)) is not b]
        if id(c) in self._made:
            return self._made[id(c)][1]
        self._made[id(c)] = (c, c)  # for members that lead back here
        # Values that are no code may be instances of the class itself, so they are lifted once it exists.
        code = {n: m for n, m in vars(c).items() if n not in _OF_CLASSES and (callable(m) or hasattr(m, "__get__"))}
        members = {name: self.member(m) for name, m in code.items() if not self.owns_class(type(m))}
        space = {n: m for n, m in members.items() if m is not vars(c)[n]}
        if "__hash__" in vars(c):
            space["__hash__"] = members.get("__hash__", c.__hash__)  # A class with only __eq__ would lose it.
        for name in _REFLECTED.intersection(space):
            space[name] = self._wrap_reflected(name, space[name])
        space["__getattribute__"] = self._wrap_getattribute(space.get("__getattribute__", c.__getattribute__))
        if not c.__dictoffset__:
            space["__slots__"] = ()
        space.update(__module__=c.__module__, __qualname__=c.__qualname__, __doc__=c.__doc__, __lifted_from__=c)
        try:
            made = _make_class(c, self.metaclass(type(c)), bases, space)
        except TypeError as error:
            return self.leave(c, f"its class cannot be extended: {error}")
        self._made[id(c)] = (c, made)
        self._unfinished.append((c, made, frozenset(members)))
        return made

    def _finish_class(self, c: type, made: type, known: frozenset[str]) -> None:
        """Lift the values in the dict of a class that are no code. They may be instances of the class, and registries
        of its subclasses, so all classes in work exist before."""
        for name, m in vars(c).items():
            if name not in _OF_CLASSES and name not in known and (lifted := self.member(m)) is not m:
                type.__setattr__(made, name, lifted)

    def metaclass(self, m: type) -> type:
        """Return the metaclass of a lifted class: the original, or an extension with its methods lifted (`__call__`,
        properties of classes). Those that make and register classes stay."""
        if m is type:
            return LiftedType
        known = self._metaclasses.get(m)
        if known is None:
            members = vars(m).items() if self.owns_class(m) else ()
            lifted = {n: self.member(f) for n, f in members if n not in _MAKING and isinstance(f, _METHODS)}
            bases = (m, *(self.metaclass(b) for b in m.__bases__ if issubclass(b, type)))
            space = {**lifted, "__module__": m.__module__, "__stands_for__": m}
            known = self._metaclasses[m] = type.__new__(type(m), m.__name__, bases, space)
        return known

    def array_class(self, c: type) -> Any:
        """Lift a subclass of ndarray: its methods over `SubclassedArray`."""
        if issubclass(c, (np.ma.MaskedArray, np.matrix, np.memmap)):
            self._made[id(c)] = (c, c)
            return self.leave(c, "a kind of array with rules of its own")
        for b in c.__bases__:
            self.class_(b)  # before the members, which may be methods of a base
        if id(c) in self._made:
            return self._made[id(c)][1]
        cell = self._class_cells[id(c)] = CellType()
        self._made[id(c)] = (c, c)  # for members that lead back here
        # Values that are no code may be instances of the class itself, so they are lifted once it exists.
        code = {n: m for n, m in vars(c).items() if n not in _OF_CLASSES and (callable(m) or hasattr(m, "__get__"))}
        space = {n: self.member(m) for n, m in code.items() if not self.owns_class(type(m))}
        space.update(__module__=c.__module__, __qualname__=c.__qualname__, __doc__=c.__doc__, __lifted_from__=c)
        bases = [SubclassedArray if b is np.ndarray else self.class_(b) for b in c.__bases__]
        space.setdefault("__getattribute__", SubclassedArray.__getattribute__)
        # The metaclass and `__init_subclass__` of the program may register classes, so they are not called.
        metaclass = self.metaclass(type(c))
        made: Any = type.__new__(metaclass, c.__name__, tuple(bases), space)
        cell.cell_contents = made
        self._made[id(c)] = (c, made)
        for name, m in vars(c).items():  # the lifted class does not extend the original
            if name not in _OF_CLASSES and name not in space:
                type.__setattr__(made, name, m)
        self._unfinished.append((c, made, frozenset(space)))
        return made

    def _wrap_getattribute(self, find: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
        """Wrap attribute access of lifted instances: attributes set outside are lifted on access."""

        def __getattribute__(instance: Any, name: str) -> Any:
            v = find(instance, name)
            kind = v.__class__
            if kind in PLAIN or (kind is MethodType and v.__self__ is instance) or kind is type:
                return v
            if kind is dict:
                return v if name == "__dict__" else self.mirrored(v)
            return v if name == "__class__" else self.value(v)

        return __getattribute__

    def _wrap_reflected(self, name: str, method: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        """Wrap a reflected operator of a lifted class. Python calls it first if the left operand is an instance of the
        original, because the lifted class extends that. The left operand's own operator comes first in the original.
        """

        def reflected(instance: Any, other: Any) -> Any:
            if vars(type(instance)).get("__lifted_from__") is type(other):
                made = getattr(self.value(other), f"__{name[3:]}", _no_operator)(instance)
                if made is not NotImplemented:
                    return made
            return method(instance, other)

        return reflected

    def member(self, m: Any) -> Any:
        """Lift an entry in the dict of a class."""
        kind = type(m)
        if kind in (staticmethod, classmethod):
            inner = self.member(m.__func__)
            return m if inner is m.__func__ else kind(inner)
        if kind is property:
            get, put, delete = (None if f is None else self.value(f) for f in (m.fget, m.fset, m.fdel))
            return property(get, put, delete, m.__doc__)
        if kind is functools.cached_property:
            made = functools.cached_property(self.value(m.func))
            made.__set_name__(object, m.attrname)
            return made
        if kind is functools.partialmethod:
            return functools.partialmethod(self.value(m.func), *map(self.value, m.args), **m.keywords)
        if kind is functools.singledispatchmethod:
            lifted = functools.singledispatchmethod(self.value(m.func))
            lifted.dispatcher = self.single_dispatch(m.dispatcher)
            return lifted
        return m if inspect.isdatadescriptor(m) and not self.owns(kind.__module__) else self.value(m)

    def twin(self, instance: Any) -> Any:
        """Return an instance of the lifted class over the attributes of an instance of the original."""
        known = self._twins.get(id(instance))
        if known is not None:
            return known[1]
        lifted = self.class_(getattr(type(instance), "__lifted_from__", type(instance)))
        if isinstance(instance, lifted) or _is_sentinel(instance):
            return instance
        made = self._former_twin(instance, lifted)
        if made is None:
            made = self._new_instance(lifted, instance)
            if made is None:
                return self.leave(instance, "an instance of a class that extends a builtin")
            if type(instance).__dictoffset__:
                object.__setattr__(made, "__dict__", object.__getattribute__(instance, "__dict__"))
            self._remember_twin(instance, made)
        _copy_slots(instance, made)
        self._twins[id(instance)] = (instance, made)
        self._held.update((id(instance), name) for name, v in _own_attributes(instance).items() if v.__class__ is Array)
        return made

    def _former_twin(self, instance: Any, lifted: Any) -> Any:
        """Return the twin of an earlier call that the program still holds, for example in a cache; None if there is
        none. Libraries compare such objects by identity."""
        known = self._former_twins.get(id(instance))
        made = None if known is None else known[1]()
        return made if type(made) is lifted else None

    def _remember_twin(self, instance: Any, made: Any) -> None:
        if isinstance(instance, (dict, list)) or not type(made).__weakrefoffset__:
            return  # items are copied in each call
        key, former = id(instance), self._former_twins

        def forget(reference: weakref.ref[Any]) -> None:
            if key in former and former[key][1] is reference:
                del former[key]

        former[key] = instance, weakref.ref(made, forget)

    def _new_instance(self, lifted: Any, instance: Any) -> Any:
        """Return an empty instance of a lifted class; a copy of its items if the class extends dict or list."""
        made: Any
        if isinstance(instance, dict):
            made = dict.__new__(lifted)
            dict.update(made, {k: self.value(v) for k, v in dict.items(instance)})
            self._copied.append((instance, made, dict(dict.items(made))))
            return made
        if isinstance(instance, list):
            made = list.__new__(lifted)
            list.extend(made, map(self.value, list.__iter__(instance)))
            self._copied.append((instance, made, [*list.__iter__(made)]))
            return made
        try:
            return object.__new__(lifted)
        except TypeError:
            return None

    def _return_items(self) -> None:
        """Copy items that lifted code changed back to the dicts and lists that were made outside."""
        for original, made, before in self._copied:
            now = list(dict.items(made)) if isinstance(made, dict) else list(list.__iter__(made))
            then = list(before.items()) if isinstance(made, dict) else before
            if len(now) != len(then) or any(a is not b for a, b in zip(_flat(now), _flat(then), strict=True)):
                if isinstance(made, dict):
                    old = dict(dict.items(original))
                    dict.clear(original)
                    for k, v in now:
                        kept = k in before and v is before[k] and k in old
                        dict.__setitem__(original, k, old[k] if kept else v)
                else:
                    unchanged = {id(b): o for b, o in zip(before, list.__iter__(original), strict=False)}
                    list.__setitem__(original, slice(None), [unchanged.get(id(v), v) for v in now])
        self._copied.clear()

    def array_instance(self, v: np.ndarray[Any, Any]) -> Any:
        """Return an instance of a lifted subclass of ndarray over the memory of one made outside."""
        lifted = self.class_(type(v))
        if lifted is type(v) or not is_number(v.dtype):
            return v
        made = as_class(mark_known(as_array(v.view(np.ndarray))), lifted)
        made.__dict__.update(vars(v))
        return made

    def isinstance_(self, x: object, kinds: Any) -> bool:
        """Implement `isinstance`: instances of a lifted class and of its original are treated alike."""
        return isinstance_(x, _originals(kinds))

    # ----- modules ----------------------------------------------------------------------------------------------------

    def module(self, m: ModuleType) -> Any:
        if isinstance(m, Namespace):
            return m
        name = m.__name__
        top = name.split(".")[0]
        if self.owns(name):
            made: Any = LiveNamespace(m, lambda attribute: self.value(getattr(m, attribute)))
        elif top == "numpy":
            made = namespaces.numpy_module(m, self.value)
        elif top == "scipy":
            made = namespaces.scipy_module(m, self.value)
        elif name in ("math", "cmath"):
            made = namespaces.math_module(m)
        elif name in _MODULES:
            made = _MODULES[name]()
        elif packages.can_follow(top) or name in self._replaced_in:
            made = LiveNamespace(m, lambda attribute: self.value(getattr(m, attribute)))
        else:
            return m
        self._made[id(m)] = (m, made)
        return made

    def import_(self, name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        """Implement the import statement of lifted code."""
        module = __import__(name, globals, locals, fromlist, level)
        return self.value(module)

    # ----- one call from outside --------------------------------------------------------------------------------------

    def enter(self) -> None:
        """Before a call from outside: read the current content of the original's cells."""
        with self._lock:
            self._active += 1
            if self._active > 1:
                return
            if self.builtins["getattr"] is not vars(builtins)["getattr"]:
                # A trace of the compiler watches these, and began or ended since the last call.
                watched = ("getattr", "setattr", "delattr", "print")
                self.builtins.update((name, vars(builtins)[name]) for name in watched)
            self._lasting = set(self._made)
            for number, (owner, old, new, content) in enumerate(self._cells):
                current = _content(old)
                if current is not content and current is not UNKNOWN:
                    new.cell_contents = self.value(current)
                    self._cells[number] = (owner, old, new, current)

    def leave_call(self) -> None:
        """After the last running call: drop the objects that belonged to the calls."""
        with self._lock:
            self._active -= 1
            if self._active:
                return
            for cache in self._caches:
                cache.cache_clear()
            self._return_items()
            for instance, made in self._twins.values():
                _copy_slots(made, instance)
                self._restore_constants(instance)
            self._twins.clear()
            self._mirrored.clear()
            self._wrapped.clear()
            self._held.clear()
            # Arrays written with history stay, since the program will read them again.
            self._arrays = {key: pair for key, pair in self._arrays.items() if not is_constant(pair[1])}
            passing = {key for key, (v, _) in self._made.items() if key not in self._lasting and not _lasts(v)}
            if passing:
                self._made = {key: pair for key, pair in self._made.items() if key not in passing}
                self._cells = [c for c in self._cells if c[0] not in passing]
                self._caches = [pair[1] for pair in self._made.values() if pair[1].__class__ is _LruCache]

    def _restore_constants(self, instance: object) -> None:
        """Turn attributes that became Arrays but are constants back into ndarrays, as the rest of the program expects.

        An Array with history stays, because the history would be lost.
        """
        attributes = _own_attributes(instance)
        for name, v in attributes.items():
            if v.__class__ is Array and is_constant(v) and (id(instance), name) not in self._held:
                attributes[name] = v.numpy()


#: Containers that may hold functions of a dispatch table.
_NESTED = (list, tuple)


def _leads_to_code(v: Any, depth: int = 3) -> bool:
    """True if a small container holds functions, directly or in its parts."""
    if isinstance(v, FunctionType):
        return True
    if not depth or not isinstance(v, (*_NESTED, dict)) or len(v) > _SMALL_TABLE:
        return False
    return any(_leads_to_code(i, depth - 1) for i in (v.values() if isinstance(v, dict) else v))


#: Length of the longest nested container that is searched for functions.
_SMALL_TABLE = 16


def _is_sentinel(instance: Any) -> bool:
    """True if an object of the program has a name at most, and no methods that compute. Programs compare such objects
    by identity, so it stays as it is."""
    attributes = _own_attributes(instance)
    if len(attributes) > 2 or any(v.__class__ not in (str, type(None)) for v in attributes.values()):
        return False
    for c in type(instance).__mro__[:-1]:
        if any(n not in _OF_SENTINELS and not isinstance(m, str) for n, m in vars(c).items()):
            return False
    return True


_OF_SENTINELS = frozenset(
    "__init__ __new__ __repr__ __str__ __doc__ __module__ __dict__ __weakref__ __qualname__ __firstlineno__ "
    "__static_attributes__ __reduce__ __copy__ __deepcopy__ __bool__".split()
)


def _no_operator(other: object) -> Any:
    return NotImplemented


def _has_code(values: Iterable[Any]) -> bool:
    """True if an argument is code or an object of the program, which may hold values with derivatives."""
    return any(isinstance(v, _CODE) or "__lifted_from__" in type(v).__dict__ for v in values)


def _before_trace(v: Any) -> Any:
    """Return the function that a trace of the compiler has replaced by `v`, or `v` itself."""
    effects = sys.modules.get("ndgrad._src.compiler.capture.side_effects")  # loaded by the first trace
    return v if effects is None else effects.original_function(v)


def _leave_uncompiled(*args: Any, **options: Any) -> Any:
    """Implement numba's decorators in lifted code: the function itself."""
    return args[0] if args and isinstance(args[0], FunctionType) else lambda f: f


def _vectorize_uncompiled(*args: Any, **options: Any) -> Any:
    """Implement numba.vectorize in lifted code."""
    return vectorize(args[0]) if args and isinstance(args[0], FunctionType) else vectorize


# ----- parts of functions and classes ---------------------------------------------------------------------------------


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return UNKNOWN


def _lasts(v: object) -> bool:
    """True if an object lives as long as its module, so that it may be cached beyond the current call."""
    return isinstance(v, (ModuleType, type)) or (v.__class__ is FunctionType and "<" not in v.__qualname__)


def _class_names(code: CodeType) -> Iterator[str]:
    """Yield the names read by bodies of classes inside a function."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            if not constant.co_flags & inspect.CO_OPTIMIZED:
                yield from constant.co_names
            yield from _class_names(constant)


_PLAIN_DATA = "plain data"


def _unliftable(c: type) -> str:
    """Return the reason why a class is used unchanged; empty if it can be lifted."""
    if issubclass(c, (enum.Enum, BaseException, tuple, type)):
        return _PLAIN_DATA
    if type(c).__flags__ & _HEAP_TYPE == 0 and type(c) is not type:
        return f"its metaclass {type(c).__qualname__} is compiled"
    return ""


#: Flag of classes that are made by a class statement.
_HEAP_TYPE = 1 << 9


def _make_quiet_base() -> type:
    """Return a base that hides a lifted class from classes that keep track of their subclasses. Classes that the
    program derives from the lifted one are announced."""

    class Quiet:
        __slots__ = ()

        def __init_subclass__(cls, **kwargs: Any) -> None:
            if "__lifted_from__" not in vars(cls):
                super().__init_subclass__(**kwargs)

    return Quiet


def _make_class(c: type, metaclass: type, bases: list[type], space: dict[str, Any]) -> type:
    """Return the lifted form of a class without running the program's own code for new classes, which may register
    them: neither the metaclass nor `__init_subclass__` is called."""
    first: tuple[type, ...] = ()
    if any("__init_subclass__" in vars(k) for k in c.__mro__ if k is not object):
        # Each class has its own base: a common one would make the method resolution order inconsistent.
        first = (_make_quiet_base(),)
    make = abc.ABCMeta.__new__ if isinstance(c, abc.ABCMeta) else type.__new__
    return make(metaclass, c.__name__, (*first, c, *bases), space)


def _flat(items: list[Any]) -> list[Any]:
    return [part for i in items for part in (i if i.__class__ is tuple else (i,))]


def _own_attributes(instance: object) -> dict[str, Any]:
    """Return the dictionary of an instance, which `__getattr__` of its class may replace by another object's."""
    return object.__getattribute__(instance, "__dict__") if type(instance).__dictoffset__ else {}


def _copy_slots(source: object, target: object) -> None:
    for c in type(source).__mro__:
        names = vars(c).get("__slots__", ())
        for name in (names,) if isinstance(names, str) else names:
            if name not in ("__dict__", "__weakref__"):
                mangled = (
                    f"_{c.__name__.lstrip('_')}{name}" if name.startswith("__") and not name.endswith("__") else name
                )
                try:
                    object.__setattr__(target, mangled, object.__getattribute__(source, mangled))
                except AttributeError:
                    continue


def _originals(kinds: Any) -> Any:
    if isinstance(kinds, tuple):
        return tuple(map(_originals, kinds))
    if isinstance(kinds, type) and not issubclass(kinds, SubclassedArray):
        return kinds.__dict__.get("__lifted_from__", kinds)
    return getattr(kinds, "stands_for_class", kinds)


def issubclass_(c: Any, kinds: Any) -> bool:
    """Implement `issubclass`: a lifted class and its original are treated alike."""
    return issubclass(_originals(c), _originals(kinds)) or issubclass(c, kinds)


def vars_(*args: Any) -> Any:
    """Implement `vars`: of a module, the names of the original with their values in lifted code."""
    if args and isinstance(args[0], Namespace):
        module: Any = args[0]
        return {name: getattr(module, name) for name in list(vars(module._theirs))}
    return vars(*args) if args else sys._getframe(1).f_locals


def super_(*args: Any) -> Any:
    """Implement `super` in lifted code: a lifted class counts as its original, and the resolution continues after
    it."""
    if args:
        return super(_originals(args[0]), *args[1:])
    caller = sys._getframe(1)
    return super(caller.f_locals["__class__"], caller.f_locals[caller.f_code.co_varnames[0]])
