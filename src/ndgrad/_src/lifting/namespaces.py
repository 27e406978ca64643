"""Replacements of NumPy, SciPy, math and copy in lifted code.

NumPy becomes ndgrad.numpy. SciPy becomes ndgrad.scipy for names that it has. Any other function of SciPy is called
unchanged, its results become Arrays, and if a derivative cannot pass through it, the error names it. Objects are
recognised by identity, so the names under which a program imported them do not matter.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import importlib
import io
import math
import pickle
import statistics
import sys
from collections.abc import Callable, Iterator
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

import ndgrad.numpy as dnp
from ndgrad._src.core.detach_checks import first_at_stake, stake_of
from ndgrad._src.core.variable import Variable
from ndgrad._src.foundations.pytree import tree_map
from ndgrad._src.lifting.numbers import MATH_ORIGINALS, SCALARS, NDArray, functions_of
from ndgrad._src.lifting.solvers import plain
from ndgrad._src.lifting.statistics import STATISTICS
from ndgrad._src.lifting.subclasses import keep_class
from ndgrad._src.tensor.copies import KEEPS_HISTORY
from ndgrad.numpy.coercion import as_array, as_arrays
from ndgrad.numpy.dispatch import MODULES as NUMPY_MODULES
from ndgrad.scipy._without_rules import active_in, strip_tensors

if TYPE_CHECKING:
    from ndgrad._typing import Array, ArrayLike

#: Parts of NumPy that are Python code over the rest of it; they are lifted like user code.
PURE_PYTHON = ("numpy.polynomial", "numpy.lib._polynomial_impl")

#: Marker for "no replacement", because None may be a value of the program.
UNKNOWN = object()


class Namespace(ModuleType):
    """A module in lifted code: the results of `find`, cached after the first access."""

    def __init__(self, theirs: ModuleType, find: Callable[[str], Any]) -> None:
        super().__init__(theirs.__name__, theirs.__doc__)
        self.__dict__["_theirs"], self.__dict__["_find"] = theirs, find

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__version__":
            return getattr(self._theirs, name)
        value = self._find(name)
        self.__dict__[name] = value
        return value

    def __dir__(self) -> list[str]:
        return dir(self._theirs)

    def __repr__(self) -> str:
        return f"<{self._theirs.__name__}, lifted by ndgrad>"


def isscalar(element: object) -> bool:
    """numpy.isscalar, which treats a 0-d Array as NumPy's scalar."""
    return element.ndim == 0 if isinstance(element, Variable) else bool(np.isscalar(element))


def ndenumerate(arr: ArrayLike) -> Iterator[tuple[tuple[int, ...], Array]]:
    """numpy.ndenumerate: indices and elements, which keep their history."""
    array = as_array(arr)
    for place in np.ndindex(*array.shape):
        yield place, array[place]


def _refuse_tensors(name: str) -> Callable[..., Any]:
    """Wrap a NumPy function that writes a file; it refuses tensors with derivatives, which a file cannot hold."""
    theirs = getattr(dnp, name)

    @functools.wraps(theirs)
    def call(*args: Any, **kwargs: Any) -> Any:
        refuse_export(f"numpy.{name}", args, kwargs)
        return theirs(*args, **kwargs)

    return call


def _keep_class_if(name: str, subok: bool) -> Callable[..., Any]:
    """Wrap a NumPy function whose results have the class of its argument if `subok`, the default of which is given."""
    theirs = getattr(dnp, name)
    kept = keep_class(theirs)

    @functools.wraps(theirs)
    def call(*args: Any, **kwargs: Any) -> Any:
        return (kept if kwargs.get("subok", subok) else theirs)(*args, **kwargs)

    return call


def refuse_export(name: str, *values: object) -> None:
    """Raise if lifted code is about to write a tensor to bytes or a file, which would drop its derivative."""
    lost = first_at_stake(*values)
    if lost is not None:
        raise TypeError(
            f"{name} was called by lifted code with an Array of shape {tuple(lost.shape)} that {stake_of(lost)}: "
            "values read back from bytes or a file have no derivative. Keep the Array itself, or write x.detach() "
            "if its values alone are meant. [nd-drops-gradient]"
        )


#: NumPy names with another meaning in lifted code than in ndgrad.numpy.
_NUMPY = {
    "isscalar": isscalar, "ndarray": NDArray, "ndenumerate": ndenumerate,
    **{
        name: SCALARS[getattr(np, name)]
        for name in "float64 double float32 single complex128 cdouble complex64 csingle".split()
    },
    **{name: _refuse_tensors(name) for name in ("save", "savetxt", "savez", "savez_compressed")},
    # functions that keep subclasses of ndarray
    **{name: _keep_class_if(name, False) for name in ("array", "copy", "broadcast_to")},
    **{name: _keep_class_if(name, True) for name in "zeros_like ones_like empty_like full_like".split()},
    **{
        name: keep_class(getattr(dnp, name))
        for name in (
            "asanyarray atleast_1d atleast_2d atleast_3d ravel squeeze expand_dims swapaxes moveaxis take diff cumsum "
            "cumprod sort round around flip fliplr flipud rot90 roll repeat diagonal nan_to_num"
        ).split()
    },
}  # fmt: skip

def _read_triangle(name: str) -> Callable[..., Any]:
    """Wrap a function of numpy.linalg that reads one triangle of its argument. Its derivative assumes a symmetric
    matrix. Programs may fill that triangle alone, so the other one is made of it."""
    theirs = getattr(dnp.linalg, name)
    is_cholesky = name == "cholesky"

    @functools.wraps(theirs)
    def call(a: Any, *args: Any, **kwargs: Any) -> Any:
        if first_at_stake(a) is None:
            return theirs(a, *args, **kwargs)
        upper = kwargs.get("upper", False) if is_cholesky else str(args[0] if args else kwargs.get("UPLO", "L")) in "uU"
        a = as_array(a)
        keep, rest = (dnp.triu(a), dnp.triu(a, 1)) if upper else (dnp.tril(a), dnp.tril(a, -1))
        return theirs(keep + dnp.conj(dnp.swapaxes(rest, -1, -2)), *args, **kwargs)

    return call


#: Functions of numpy.linalg with another derivative in lifted code.
_LINALG = {name: _read_triangle(name) for name in ("eigh", "eigvalsh", "cholesky")}

#: NumPy names that would have another meaning in lifted code, and advice.
_REFUSED = dict.fromkeys(
    ("True_", "False_"),
    (
        "a comparison is a 0-d Array there, which is not that object, so `(v > 0) is numpy.True_` would take the other "
        "branch. Write `if v > 0`, or bool(v > 0) is True; as a value write True or False"
    ),
)


# ----- objects of NumPy -----------------------------------------------------------------------------------------------


@functools.cache
def _numpy_objects() -> dict[int, Any]:
    """id of NumPy's function or ufunc -> ours. NumPy's objects live as long as the process."""
    found: dict[int, Any] = {}
    modules = {**NUMPY_MODULES, "numpy.random": "ndgrad.numpy.random"}
    for theirs_name, ours_name in modules.items():
        theirs, ours = _module(theirs_name), importlib.import_module(ours_name)
        for name in ours.__all__:
            original = vars(theirs).get(name)  # its __getattr__ warns about moved names
            if callable(original):
                mine = getattr(ours, name)
                if mine is not original:
                    found.setdefault(id(original), mine)
    found.update((id(getattr(np, name)), function) for name, function in _NUMPY.items())
    found.update((id(getattr(np.linalg, name)), function) for name, function in _LINALG.items())
    return found


def _module(name: str) -> ModuleType:
    return functools.reduce(getattr, name.split(".")[1:], np)


def numpy_module(theirs: ModuleType, lift: Callable[[Any], Any]) -> ModuleType:
    """Return a NumPy module for lifted code; `lift` is applied to Python code over the rest of NumPy."""
    path = theirs.__name__
    ours_name = {**NUMPY_MODULES, "numpy.random": "ndgrad.numpy.random", "numpy.lib.scimath": "ndgrad.numpy.emath"}.get(
        path
    )
    ours = dnp if path == "numpy" else importlib.import_module(ours_name) if ours_name else theirs

    def find(name: str) -> Any:
        if path == "numpy":
            if name in _REFUSED:
                raise TypeError(f"numpy.{name} cannot be used in lifted code: {_REFUSED[name]}. [nd-lift]")
            if name in _NUMPY:
                return _NUMPY[name]
            value = getattr(theirs, name, UNKNOWN)
            if name == "poly1d" or (isinstance(value, ModuleType) and value.__name__.startswith("numpy")):
                return lift(value)
        if path == "numpy.linalg" and name in _LINALG:
            return _LINALG[name]
        # Names missing in ndgrad.numpy are NumPy's own: useful for `isinstance(x, np.matrix)`, but not for tensors.
        return lift(getattr(ours, name) if hasattr(ours, name) else getattr(theirs, name))

    return Namespace(theirs, find)


# ----- objects of SciPy -----------------------------------------------------------------------------------------------


@functools.cache
def _scipy_objects(submodule: str) -> dict[int, Any]:
    """id of an object of a SciPy submodule -> ours."""
    ours = _our_scipy(submodule)
    theirs = sys.modules.get(f"scipy.{submodule}")
    if ours is None or theirs is None:
        return {}
    found = {}
    for name in dir(ours):
        original = vars(theirs).get(name)  # its __getattr__ warns about moved names
        if (
            not name.startswith("_")
            and original is not None
            and not isinstance(original, (ModuleType, int, float, str))
        ):
            mine = getattr(ours, name)
            if mine is not original:
                found[id(original)] = mine
    return found


@functools.cache
def _our_scipy(submodule: str) -> ModuleType | None:
    if submodule.startswith("_") or "._" in submodule:
        return None
    try:
        return importlib.import_module(f"ndgrad.scipy.{submodule}")
    except ModuleNotFoundError as error:
        if f"ndgrad.scipy.{submodule}.".startswith(f"{error.name}."):
            return None
        raise


def scipy_object(value: object) -> Any:
    """Return our object for one of SciPy's; UNKNOWN if there is none."""
    for name in list(sys.modules):
        if name.startswith("scipy.") and "._" not in name and _our_scipy(name.removeprefix("scipy.")) is not None:
            found = _scipy_objects(name.removeprefix("scipy.")).get(id(value), UNKNOWN)
            if found is not UNKNOWN:
                return found
    return UNKNOWN


def scipy_module(theirs: ModuleType, lift: Callable[[Any], Any]) -> ModuleType:
    """Return a SciPy module for lifted code."""
    ours = _our_scipy(theirs.__name__.removeprefix("scipy."))

    def find(name: str) -> Any:
        if ours is None or (name not in vars(ours) and isinstance(getattr(theirs, name, None), FunctionType)):
            return lift(getattr(theirs, name))  # Python code without a rule, which may be lifted itself
        mine = getattr(ours, name, UNKNOWN)
        return lift(getattr(theirs, name)) if mine is UNKNOWN else mine

    return Namespace(theirs, find)


def public_name(function: Any) -> str:
    """Return the name under which users call a function of SciPy, which is defined in a private module."""
    parts = [p for p in str(function.__module__).split(".") if not p.startswith("_")]
    return ".".join((*parts, str(getattr(function, "__qualname__", function.__name__))))


def wrap_foreign(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Wrap a function without a rule: convert its results to Arrays. If a tensor with a derivative gets stuck in it,
    return its results for plain values if they are integers, which have no slope; otherwise the error names it."""

    @functools.wraps(function, updated=())
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return as_arrays(function(*args, **kwargs))
        except Exception as error:
            return call_without_slope(function, name, args, kwargs, error)

    return call


def call_without_slope(
    function: Callable[..., Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any], error: Exception
) -> Any:
    """Call a function that no derivative passes through on plain values. Return its results if they are integers,
    booleans or texts, whose slope is zero. Otherwise raise an error with the line to write.

    Args:
        function: function to call.
        name: its name in the error.
        args: arguments with derivatives.
        kwargs: named arguments.
        error: error of the call with derivatives.
    """
    lost = active_in((args, kwargs))
    if lost is None:
        raise error
    given, options = strip_tensors(args), strip_tensors(kwargs)
    before = copy.deepcopy((given, options)) if _can_copy((given, options)) else None
    made = function(*given, **options)  # raises its own error for wrong arguments
    if before is not None and has_no_slope(made) and _is_same((given, options), before):
        return as_arrays(made)
    raise TypeError(
        f"{name} was called by lifted code with a tensor of shape {tuple(getattr(lost, 'shape', ()))} that "
        f"{stake_of(lost)}, and no derivative passes through it.{_hint(name)} To name a function of NumPy or of your "
        f"own in its place, write ndgrad.lift(f, replace={{{name}: other}}). If only its values are meant, pass "
        "x.detach(). [nd-lift]"
    ) from error


def _hint(name: str) -> str:
    """Return a sentence that names the nearest function of SciPy with a derivative; empty if none is known."""
    module, _, function = name.rpartition(".")
    ours = _our_scipy(module.removeprefix("scipy.")) if module.startswith("scipy.") else None
    nearest = getattr(getattr(ours, "__getattr__", None), "instead", {}).get(function)
    return f" Instead: {nearest}." if nearest else ""


def has_no_slope(made: Any) -> bool:
    """True if a result consists of integers, booleans and texts alone, and of at least one of them."""
    if isinstance(made, (list, tuple)):
        return bool(made) and all(map(has_no_slope, made))
    if isinstance(made, dict):
        return bool(made) and all(map(has_no_slope, made.values()))
    if isinstance(made, (np.ndarray, np.generic)):
        return made.dtype.kind in "biuUS"
    return isinstance(made, (int, str))


def _can_copy(value: Any) -> bool:
    """True if arguments are numbers, arrays, texts and containers of these: a call can be seen to leave them alone."""
    if isinstance(value, (list, tuple)):
        return all(map(_can_copy, value))
    if isinstance(value, dict):
        return all(map(_can_copy, value.values()))
    is_sparse = type(value).__module__.startswith("scipy.sparse")
    return value is None or is_sparse or isinstance(value, (np.ndarray, np.generic, int, float, complex, str, type))


def _is_same(a: Any, b: Any) -> bool:
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(_is_same, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_is_same(a[k], b[k]) for k in a)
    if hasattr(a, "tocoo"):
        return _is_same(a.tocoo().data, b.tocoo().data)
    if isinstance(a, np.ndarray):
        return bool(np.array_equal(a, b, equal_nan=a.dtype.kind in "fc"))
    return a is b or bool(a == b) or a != a


def wrap_compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a compiled function of another package. If a derivative is among its arguments and NumPy has a function of
    that name, ours runs, provided that NumPy's gives the same values; otherwise the call raises and names a way out."""
    name, module = function.__name__, str(function.__module__)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if active_in((args, kwargs)) is None:
            return as_arrays(function(*strip_tensors(args), **strip_tensors(kwargs)))
        theirs = getattr(np, name, None)
        if callable(theirs) and getattr(dnp, name, theirs) is not theirs and kwargs.get("out") is None:
            given, options = plain(args), plain({k: v for k, v in kwargs.items() if k != "out"})
            try:
                same = np.array_equal(function(*given, **options), theirs(*given, **options), equal_nan=True)
                close = same or np.allclose(
                    function(*given, **options), theirs(*given, **options), rtol=1e-9, atol=1e-12, equal_nan=True
                )
            except (TypeError, ValueError):
                close = False
            if close:
                return getattr(dnp, name)(*args, **{k: v for k, v in kwargs.items() if k != "out"})
        compiled = TypeError(f"{module}.{name} is compiled: there is no Python code to lift. [nd-lift]")
        return call_without_slope(function, f"{module.partition('.')[0]}.{name}", args, kwargs, compiled)

    return call


def known_object(value: object) -> Any:
    """Return our object for one of NumPy's or SciPy's; UNKNOWN if there is none."""
    found = _numpy_objects().get(id(value), UNKNOWN)
    if found is not UNKNOWN:
        return found
    origin = getattr(value, "__module__", None) or type(value).__module__
    return scipy_object(value) if isinstance(origin, str) and origin.split(".")[0] == "scipy" else UNKNOWN


# ----- other modules --------------------------------------------------------------------------------------------------


class _Pickler(pickle.Pickler):
    """Pickles values without derivatives."""

    def reducer_override(self, obj: object) -> Any:
        refuse_export("pickle", obj)
        return NotImplemented


def _dump(obj: object, file: Any, *args: Any, **kwargs: Any) -> None:
    _Pickler(file, *args, **kwargs).dump(obj)


def _dumps(obj: object, *args: Any, **kwargs: Any) -> bytes:
    file = io.BytesIO()
    _dump(obj, file, *args, **kwargs)
    return file.getvalue()


PICKLES: dict[int, Any] = {id(pickle.dump): _dump, id(pickle.dumps): _dumps}


def pickle_module() -> ModuleType:
    own = {"dump": _dump, "dumps": _dumps, "Pickler": _Pickler}
    return Namespace(pickle, lambda name: own[name] if name in own else getattr(pickle, name))


def math_module(theirs: ModuleType) -> ModuleType:
    """Return the module math or cmath for lifted code."""
    known = functions_of(theirs)

    def find(name: str) -> Any:
        return known[name] if name in known else getattr(theirs, name)

    return Namespace(theirs, find)


@functools.cache
def math_objects() -> dict[int, Any]:
    """id of a function of math or cmath -> ours."""
    import cmath

    return {
        id(MATH_ORIGINALS[module][name]): function
        for module in (math, cmath)
        for name, function in functions_of(module).items()
        if callable(function) and function is not MATH_ORIGINALS[module][name]
    }


def _copy_value(x: Any) -> Any:
    """Implement copy.copy and copy.deepcopy: a copy of an Array keeps its history, as NumPy's copy keeps its values."""
    if isinstance(x, Variable):
        return x.copy() if hasattr(x, "copy") else x.clone()
    if isinstance(x, (list, tuple, dict)) and type(x) in (list, tuple, dict):
        return tree_map(_copy_value, x)
    memo: dict[Any, Any] = {KEEPS_HISTORY: True}
    return copy.deepcopy(x, memo)


def _copy_shallow(x: Any) -> Any:
    return _copy_value(x) if isinstance(x, Variable) else copy.copy(x)


def _fields(obj: Any, make: Callable[[Any], Any]) -> Any:
    """Implement dataclasses.asdict and astuple for a value; copies of Arrays keep their history."""
    if dataclasses.is_dataclass(obj) and not isinstance(obj, type):
        return make([(f.name, _fields(getattr(obj, f.name), make)) for f in dataclasses.fields(obj)])
    if isinstance(obj, tuple) and hasattr(obj, "_fields"):
        return type(obj)(*[_fields(v, make) for v in obj])
    if isinstance(obj, (list, tuple)):
        return type(obj)(_fields(v, make) for v in obj)
    if isinstance(obj, dict):
        return type(obj)((_fields(k, make), _fields(v, make)) for k, v in obj.items())
    return _copy_value(obj)


def _record(theirs: Callable[..., Any], obj: Any, make: Callable[[Any], Any]) -> Any:
    if not dataclasses.is_dataclass(obj) or isinstance(obj, type):
        return theirs(obj)  # raises its error
    return _fields(obj, make)


def asdict(obj: Any, *, dict_factory: Callable[[Any], Any] = dict) -> Any:
    """Implement dataclasses.asdict."""
    return _record(dataclasses.asdict, obj, dict_factory)


def astuple(obj: Any, *, tuple_factory: Callable[[Any], Any] = tuple) -> Any:
    """Implement dataclasses.astuple."""
    return _record(dataclasses.astuple, obj, lambda pairs: tuple_factory([v for _, v in pairs]))


COPIES: dict[int, Any] = {
    id(copy.deepcopy): lambda x, memo=None: _copy_value(x), id(copy.copy): _copy_shallow,
    id(dataclasses.asdict): asdict, id(dataclasses.astuple): astuple,
    **{id(getattr(statistics, name)): function for name, function in STATISTICS.items()},
}  # fmt: skip


def dataclasses_module() -> ModuleType:
    own: dict[str, Any] = {"asdict": asdict, "astuple": astuple}
    return Namespace(dataclasses, lambda name: own[name] if name in own else getattr(dataclasses, name))


def statistics_module() -> ModuleType:
    return Namespace(statistics, lambda name: STATISTICS[name] if name in STATISTICS else getattr(statistics, name))


def copy_module() -> ModuleType:
    own = {"deepcopy": COPIES[id(copy.deepcopy)], "copy": COPIES[id(copy.copy)]}
    return Namespace(copy, lambda name: own[name] if name in own else getattr(copy, name))
