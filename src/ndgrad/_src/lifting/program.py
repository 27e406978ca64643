"""A program written for NumPy, rebuilt so that its names mean ours.

Nothing of the original is changed. A function is its code, its globals, its cells and its defaults: a lifted
function has the same code (but for its `%` formats, see `numbers.Text`) and lifted versions of the rest. What it
reaches is lifted when it is reached, so a large package costs nothing until it is used, and a name that is bound
anew in the original is seen.

Note [Globals of lifted code]
The globals are a dict without the names. CPython asks a subclass of dict for each global by `__getitem__`, hence by
`__missing__`, which looks the name up in the original's globals, and lifts the value. A name that lifted code assigns
(`global count`) is stored in the dict itself, and hides the original's. Bodies of classes are the exception: they read
the dict directly, so their names are put there beforehand.

Note [Lifted classes]
The lifted form of `class B(A)` is `class B'(B, A')`, where A' is that of A. Its order of resolution is B', B, A', A,
object: lifted methods hide the original ones; `super()` inside them, whose cell holds B, goes on to A'; and instances
are instances of B for everybody. An instance that was made outside gets a twin of class B' over the same attributes.
"""

from __future__ import annotations

import abc
import enum
import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from ndgrad._src.arrays.precision import is_number
from ndgrad._src.core.borrowed_memory import know
from ndgrad._src.core.variable import Variable
from ndgrad._src.foundations.locks import make_lock
from ndgrad._src.lifting import namespaces
from ndgrad._src.lifting.namespaces import PURE_PYTHON, UNKNOWN, Namespace, known_object
from ndgrad._src.lifting.numbers import PythonNumber, Text, changed_builtins, is_constant, isinstance_, with_texts
from ndgrad.numpy._array import Array
from ndgrad.numpy.coercion import as_array
from ndgrad.numpy.functional import vectorize

_LruCache = type(functools.lru_cache(lambda: None))
_Dispatcher = type(np.sum)

#: Values that are the same for everybody.
PLAIN = frozenset(
    (int, float, complex, bool, str, bytes, type(None), type(...), type(NotImplemented), range, slice, Array,
        PythonNumber, Text, np.dtype,
     CodeType,
     *(np.dtype(c).type for c in "?bhilqBHILQefdgFDG"))
)  # fmt: skip
_CONTAINERS = (list, tuple, dict, set, frozenset)
#: Modules of Python's that lifted code sees otherwise, math apart.
_MODULES = {
    "copy": namespaces.copy_module, "dataclasses": namespaces.dataclasses_module, "pickle": namespaces.pickle_module,
    "statistics": namespaces.statistics_module,
}  # fmt: skip
_OF_CLASSES = frozenset(
    "__dict__ __weakref__ __module__ __doc__ __qualname__ __name__ __slots__ __init_subclass__ __abstractmethods__ "
    "_abc_impl __lifted_from__".split()
)


class LiftedGlobals(dict[str, Any]):
    """The globals of lifted code: see Note [Globals of lifted code]."""

    __slots__ = ("_builtins", "_original", "_program")

    def __init__(self, program: Program, original: dict[str, Any]) -> None:
        super().__init__(__builtins__=program.builtins)
        self._program, self._original, self._builtins = program, original, program.builtins
        # the import statement looks for these in the dict itself
        self.update(
            {n: original[n] for n in ("__name__", "__package__", "__spec__", "__file__", "__path__") if n in original}
        )

    def __missing__(self, name: str) -> Any:
        try:
            value = self._original[name]
        except KeyError:
            return self._builtins[name]
        return value if value.__class__ in PLAIN else self._program.value(value)

    def hold(self, names: Iterator[str]) -> None:
        """Put names into the dict itself, for the bodies of classes."""
        for name in names:
            if name not in self and name in self._original:
                self[name] = self[name]


class LiveNamespace(Namespace):
    """A module of the program itself: attributes are looked up in the original each time."""

    def __getattr__(self, name: str) -> Any:
        return self._find(name)


class Program:
    """What one call of `lift` has rebuilt."""

    def __init__(self, packages: tuple[str, ...], root: dict[str, Any] | None = None) -> None:
        # whose code is on our side of the border
        self.packages = tuple(p for p in (*packages, *PURE_PYTHON) if p != "ndgrad")
        self.root = root
        self.builtins = changed_builtins(self.import_) | {"super": super_, "isinstance": self.isinstance_}
        #: Name -> why it was left as it is, of what could not be lifted.
        self.left: dict[str, str] = {}
        # id -> the original, held so that the id stays its own, and the lifted
        self._made: dict[int, tuple[Any, Any]] = {}
        self._globals: dict[int, LiftedGlobals] = {}
        self._containers: dict[int, tuple[Any, list[Any], Any]] = {}
        self._arrays: dict[int, tuple[Any, Any]] = {}
        self._twins: dict[int, tuple[Any, Any]] = {}
        self._held: set[tuple[int, str]] = set()  # attributes of twins that were Arrays before
        # id of the function, its cell, ours, what was in its cell
        self._cells: list[tuple[int, CellType, CellType, Any]] = []
        self._caches: list[Any] = []
        self._lock = make_lock()
        self._active = 0  # calls from outside that have not returned
        self._lasting: set[int] = set()  # what was made before the first of them

    # ----- whose code it is -------------------------------------------------------------------------------------------

    def owns(self, module: object) -> bool:
        return isinstance(module, str) and any(module == p or module.startswith(p + ".") for p in self.packages)

    def owns_function(self, f: FunctionType) -> bool:
        return f.__globals__ is self.root or self.owns(f.__globals__.get("__name__", f.__module__))

    def owns_class(self, c: type) -> bool:
        # NumPy's classes say that they are of module numpy, wherever they are written
        return self.owns(c.__module__) or any(
            isinstance(m, FunctionType) and self.owns_function(m) for m in vars(c).values()
        )

    def leave(self, value: Any, why: str) -> Any:
        """Use something as it is, and remember that."""
        module = getattr(value, "__module__", None) or type(value).__module__
        name = getattr(value, "__qualname__", None) or type(value).__qualname__
        if str(module).split(".")[0] not in sys.stdlib_module_names and not str(module).startswith("ndgrad."):
            self.left[f"{module}.{name}"] = why
        return value

    # ----- any value --------------------------------------------------------------------------------------------------

    def value(self, v: Any) -> Any:
        """What lifted code sees where the original would see `v`."""
        kind = v.__class__
        if kind in PLAIN:
            return v
        if kind is np.ndarray:
            return self.array(v)
        if kind in _CONTAINERS:
            return self.container(v)
        known = self._made.get(id(v))
        if known is not None:
            return known[1]
        made = self._lifted(v, kind)
        if made is not v and id(v) not in self._twins and kind is not MethodType and kind is not type:
            self._made[id(v)] = (v, made)
        return made

    def _lifted(self, v: Any, kind: type) -> Any:
        if isinstance(v, Variable):
            return v
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
            if (v.__module__ or "").startswith("scipy."):
                return namespaces.passing(v, f"{v.__module__}.{v.__qualname__}")
            return namespaces.math_objects().get(id(v)) or namespaces.PICKLES.get(id(v), v)
        if kind is functools.partial:
            return functools.partial(
                self.value(v.func), *map(self.value, v.args), **{k: self.value(a) for k, a in v.keywords.items()}
            )
        if kind is _LruCache:
            return self.cached(v)
        if isinstance(v, np.vectorize):
            return self.vectorized(v)
        if isinstance(v, (np.random.Generator, np.random.RandomState)):
            import ndgrad.numpy.random as random  # few lifted programs draw

            return random.Generator(v) if isinstance(v, np.random.Generator) else random.RandomState(v)
        if kind.__module__.startswith("numba.") and hasattr(v, "py_func"):
            return self.function(v.py_func)
        if self.owns_class(kind):
            return self.twin(v)
        if callable(v) and kind is not _Dispatcher and not isinstance(v, np.ufunc):
            return self.leave(v, "not written in Python, or of another package")
        return v

    # ----- arrays and containers --------------------------------------------------------------------------------------

    def array(self, v: np.ndarray[Any, Any]) -> Any:
        """A plain array as an Array over its memory, the same one each time, so that what is written
        through it stays known."""
        if not is_number(v.dtype):
            return v
        known = self._arrays.get(id(v))
        if known is None:
            with self._lock:
                known = self._arrays.setdefault(id(v), (v, know(as_array(v))))
        return known[1]

    def container(self, v: Any) -> Any:
        """A list, tuple, dict or set: itself, or a copy if something in it is to be lifted; a new copy once
        the original has changed."""
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
        self._containers[id(v)] = (v, items, v)  # a container that holds itself ends here
        lifted = [self.value(i) for i in items]
        made = v
        if any(a is not b for a, b in zip(lifted, items, strict=True)):
            made = dict(zip(v, lifted[len(v) :], strict=True)) if isinstance(v, dict) else type(v)(lifted)
            self._containers[id(v)] = (v, items, made)
        else:
            del self._containers[id(v)]
        return made

    # ----- functions --------------------------------------------------------------------------------------------------

    def function(self, f: FunctionType) -> Any:
        known = self._made.get(id(f))
        if known is not None:
            return known[1]
        original = getattr(f, "__lifts__", None)
        if original is not None:  # lifted already, by another call of lift
            return self.value(original)
        if not self.owns_function(f):
            return self._foreign(f)
        if hasattr(f, "registry") and hasattr(f, "dispatch"):
            return self.single_dispatch(f)
        space = self.globals_of(f.__globals__)
        space.hold(_class_names(f.__code__))
        return self._rebuilt(f, space)

    def _foreign(self, f: FunctionType) -> Any:
        """A function of another package: ours if we have one, rebuilt if it wraps something of the
        program's, else itself."""
        known = known_object(f)
        if known is not UNKNOWN:
            return known
        copies = namespaces.COPIES.get(id(f))
        if copies is not None:
            return copies
        if hasattr(f, "registry") and hasattr(f, "dispatch"):
            return self.single_dispatch(f)
        contents = [c for cell in f.__closure__ or () if (c := _content(cell)) is not UNKNOWN]
        if any(self.value(c) is not c for c in contents if c.__class__ is not np.ndarray):
            return self._rebuilt(f, f.__globals__)
        if f.__module__ and f.__module__.split(".")[0] == "scipy":
            return namespaces.passing(f, f"{f.__module__}.{f.__qualname__}")
        return self.leave(f, "of another package")

    def _rebuilt(self, f: FunctionType, space: dict[str, Any]) -> FunctionType:
        fresh: list[tuple[CellType, CellType]] = []
        cells = []
        for name, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=True):
            content = _content(cell)
            # of `__class__`, see Note [Lifted classes]; plain values stay in a shared cell, where
            # assignments of both sides meet
            if name == "__class__" or content is UNKNOWN or content.__class__ in PLAIN:
                cells.append(cell)
            else:
                cells.append(CellType())
                fresh.append((cell, cells[-1]))
        made = FunctionType(with_texts(f.__code__), space, f.__name__, None, tuple(cells) if f.__closure__ else None)
        self._made[id(f)] = (f, made)
        for old, new in fresh:
            new.cell_contents = self.value(old.cell_contents)
            self._cells.append((id(f), old, new, old.cell_contents))
        made.__defaults__ = f.__defaults__ and tuple(map(self.value, f.__defaults__))
        made.__kwdefaults__ = f.__kwdefaults__ and {k: self.value(v) for k, v in f.__kwdefaults__.items()}
        made.__dict__.update(f.__dict__)
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

    def cached(self, cache: Any) -> Callable[..., Any]:
        """A function with a cache. What it remembers holds graphs, so it is forgotten at the end of
        each call from outside."""
        inner = self.value(cache.__wrapped__)
        if inner is cache.__wrapped__:
            return cache
        made = functools.lru_cache(**cache.cache_parameters())(inner)
        self._caches.append(made)
        return made

    def vectorized(self, v: Any) -> Any:
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
        why = _unliftable(c)
        if why:
            self._made[id(c)] = (c, c)
            return self.leave(c, why) if why != _PLAIN_DATA else c
        self._made[id(c)] = (c, c)  # for members that lead back here
        members = {name: self.member(m) for name, m in vars(c).items() if name not in _OF_CLASSES}
        space = {n: m for n, m in members.items() if m is not vars(c)[n]}
        if "__hash__" in vars(c):
            space["__hash__"] = members["__hash__"]  # a class with __eq__ alone would lose it
        space["__getattribute__"] = self._reading(space.get("__getattribute__", c.__getattribute__))
        if not c.__dictoffset__:
            space["__slots__"] = ()
        space.update(__module__=c.__module__, __qualname__=c.__qualname__, __doc__=c.__doc__, __lifted_from__=c)
        bases = [lifted for b in c.__bases__ if (lifted := self.class_(b)) is not b]
        try:
            made = type(c)(c.__name__, (c, *bases), space)
        except TypeError as error:
            return self.leave(c, f"its class cannot be extended: {error}")
        self._made[id(c)] = (c, made)
        return made

    def _reading(self, find: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
        """How attributes of lifted instances are read: those that were set outside are lifted on the way."""

        def __getattribute__(instance: Any, name: str) -> Any:
            v = find(instance, name)
            kind = v.__class__
            if kind in PLAIN or kind is dict or (kind is MethodType and v.__self__ is instance) or kind is type:
                return v
            return v if name == "__class__" else self.value(v)

        return __getattribute__

    def member(self, m: Any) -> Any:
        """What stands in the dict of a class."""
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
        """An instance of the lifted class over the attributes of an instance of the original."""
        known = self._twins.get(id(instance))
        if known is not None:
            return known[1]
        lifted = self.class_(getattr(type(instance), "__lifted_from__", type(instance)))
        if isinstance(instance, lifted):
            return instance
        try:
            made = object.__new__(lifted)
        except TypeError:
            return self.leave(instance, "an instance of a class that extends a builtin")
        if hasattr(instance, "__dict__"):
            object.__setattr__(made, "__dict__", instance.__dict__)
        _copy_slots(instance, made)
        self._twins[id(instance)] = (instance, made)
        self._held.update(
            (id(instance), name) for name, v in getattr(instance, "__dict__", {}).items() if v.__class__ is Array
        )
        return made

    def isinstance_(self, x: object, kinds: Any) -> bool:
        """`isinstance`, for which instances of a lifted class and of its original are alike."""
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
        else:
            return m
        self._made[id(m)] = (m, made)
        return made

    def import_(self, name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        """The import statement of lifted code."""
        module = __import__(name, globals, locals, fromlist, level)
        return self.value(module)

    # ----- one call from outside --------------------------------------------------------------------------------------

    def enter(self) -> None:
        """Before a call from outside: see what the original's cells hold by now."""
        with self._lock:
            self._active += 1
            if self._active > 1:
                return
            self._lasting = set(self._made)
            for number, (owner, old, new, content) in enumerate(self._cells):
                current = _content(old)
                if current is not content and current is not UNKNOWN:
                    new.cell_contents = self.value(current)
                    self._cells[number] = (owner, old, new, current)

    def leave_call(self) -> None:
        """After the last of those that run: forget what belonged to them."""
        with self._lock:
            self._active -= 1
            if self._active:
                return
            for cache in self._caches:
                cache.cache_clear()
            for instance, made in self._twins.values():
                _copy_slots(made, instance)
                self._constants_back(instance)
            self._twins.clear()
            self._held.clear()
            # what has been written with history stays, since the program will read it again
            self._arrays = {key: pair for key, pair in self._arrays.items() if not is_constant(pair[1])}
            passing = {key for key, (v, _) in self._made.items() if key not in self._lasting and not _lasts(v)}
            if passing:
                self._made = {key: pair for key, pair in self._made.items() if key not in passing}
                self._cells = [c for c in self._cells if c[0] not in passing]
                self._caches = [pair[1] for pair in self._made.values() if pair[1].__class__ is _LruCache]

    def _constants_back(self, instance: object) -> None:
        """Attributes that have become Arrays and are constants: ndarrays again, as the program's other code expects.

        What has a history stays an Array, or it would be lost.
        """
        for name, v in getattr(instance, "__dict__", {}).items():
            if v.__class__ is Array and is_constant(v) and (id(instance), name) not in self._held:
                instance.__dict__[name] = v.numpy()


# ----- parts of functions and classes ---------------------------------------------------------------------------------


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return UNKNOWN


def _lasts(v: object) -> bool:
    """True if something lives as long as its module, and may be remembered beyond the call that met it."""
    return isinstance(v, (ModuleType, type)) or (v.__class__ is FunctionType and "<" not in v.__qualname__)


def _class_names(code: CodeType) -> Iterator[str]:
    """The names that bodies of classes inside a function read."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            if not constant.co_flags & inspect.CO_OPTIMIZED:
                yield from constant.co_names
            yield from _class_names(constant)


_PLAIN_DATA = "plain data"


def _unliftable(c: type) -> str:
    """Why a class is used as it is; the empty string where nothing forbids to lift it."""
    if issubclass(c, (enum.Enum, BaseException, tuple, type)):
        return _PLAIN_DATA
    if type(c) not in (type, abc.ABCMeta):
        return f"its metaclass {type(c).__qualname__} may do more than make a class"
    for k in c.__mro__:
        if "__init_subclass__" in vars(k) and k is not object and k.__module__ != "typing":
            return f"{k.__qualname__} keeps track of its subclasses"
    return ""


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
    return kinds.__dict__.get("__lifted_from__", kinds) if isinstance(kinds, type) else kinds


def super_(*args: Any) -> Any:
    """`super` in lifted code: a lifted class counts as its original, after which the order of resolution goes on."""
    if args:
        return super(_originals(args[0]), *args[1:])
    caller = sys._getframe(1)
    return super(caller.f_locals["__class__"], caller.f_locals[caller.f_code.co_varnames[0]])
