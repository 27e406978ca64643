"""`ndgrad.lift`: the entry point, and conversions at the border between plain code and lifted code."""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Iterable, Mapping
from types import FunctionType, MethodType, ModuleType
from typing import Any, TypeVar, overload

import numpy as np

from ndgrad._src.core.detach_checks import at_stake, stake_of
from ndgrad._src.core.variable import Variable
from ndgrad._src.foundations.public_path import set_module
from ndgrad._src.lifting import packages
from ndgrad._src.lifting.namespaces import UNKNOWN, known_object
from ndgrad._src.lifting.number_tape import close_tape
from ndgrad._src.lifting.numbers import PythonNumber
from ndgrad._src.lifting.plain_calls import NOT_PLAIN
from ndgrad._src.lifting.program import LiveNamespace, Program
from ndgrad._src.lifting.taped_numbers import TAPED, TapedScalar, become_array, tape_array
from ndgrad.numpy._array import Array, in_lifted_call, to_array

#: The lifted object: a function, class or module, whose signature or names the lifted one keeps.
F = TypeVar("F")


@overload
def lift(
    f: F, *, also: str | ModuleType | Iterable[str | ModuleType] = (),
    implicit: Callable[..., Any] | Iterable[Callable[..., Any]] = (), replace: Mapping[Any, Any] | None = None,
) -> F: ...  # fmt: skip
@overload
def lift(
    f: None = None, *, also: str | ModuleType | Iterable[str | ModuleType] = (),
    implicit: Callable[..., Any] | Iterable[Callable[..., Any]] = (), replace: Mapping[Any, Any] | None = None,
) -> Callable[[F], F]: ...  # fmt: skip
@set_module("ndgrad")
def lift(
    f: Any = None, *, also: str | ModuleType | Iterable[str | ModuleType] = (),
    implicit: Callable[..., Any] | Iterable[Callable[..., Any]] = (), replace: Mapping[Any, Any] | None = None,
) -> Any:  # fmt: skip
    """Return a function written for NumPy and SciPy with ndgrad in their place, so that it can be differentiated
    unchanged.

    `f` and everything that it calls in its own package run with `np`, `scipy` and `math` bound to ndgrad's, under
    whatever names they were imported, so that buffers (`u = np.zeros(n); u[1:-1] = g(t)`) hold differentiable
    values. The original function, its module and `sys.modules` stay unchanged. Arguments that are ndarrays become
    Arrays over the same memory.

    Packages of Python code over NumPy are lifted when the program reaches them. Code that cannot be lifted is called
    unchanged. If it would lose a gradient, it raises, and the error names it.

    Args:
        f: function, method, class, callable object or module. Without it, the result is a decorator.
        also: packages, by name or as modules, that are lifted beside the package of `f`; `"*"` stands for all.
        implicit: root finders `solver(f, ...)` of the program. Their result gets the derivative of the root, not of the
            steps.
        replace: functions that are called in place of others, by the function they replace.

    Raises:
        TypeError: if `f` is compiled code, which cannot be lifted.

    >>> import numpy
    >>> import ndgrad
    >>> def trajectory(v):
    ...     x = numpy.zeros(3)
    ...     for i in range(1, 3):
    ...         x[i] = x[i - 1] + 0.5 * v
    ...     return x
    >>> ndgrad.func.grad(lambda v: ndgrad.lift(trajectory)(v).sum())(ndgrad.numpy.array(2.0))
    array(1.5)
    """
    if f is None:
        return functools.partial(lift, also=also, implicit=implicit, replace=replace)
    solvers = (implicit,) if callable(implicit) else tuple(implicit)
    extra = tuple(
        m.__name__ if isinstance(m, ModuleType) else m
        for m in ([also] if isinstance(also, (str, ModuleType)) else list(also))
    )
    if isinstance(f, ModuleType):
        return lift_module(Program((f.__name__.split(".")[0], *extra), None, solvers, replace), f)
    original = getattr(f, "__lifts__", f)
    known = known_object(original)
    if known is not UNKNOWN:
        return known
    inner, root = _home(original)
    program = Program((_package(inner), *extra), root, solvers, replace)
    if isinstance(original, type):
        return lift_class(program, original)
    if program.value(original) is original and original.__class__ is not MethodType:
        raise TypeError(
            f"{_name(original)} cannot be lifted: {_reason(original)}. Lift the Python function that calls it, "
            "or give its derivative with ndgrad.autograd.Function. [nd-lift]"
        )
    return add_border(program, original)


def _home(f: Any) -> tuple[Any, dict[str, Any] | None]:
    """Return the function, class or object that determines the program's module, and the globals of its code, if
    any."""
    while True:
        if isinstance(f, FunctionType) and hasattr(f, "__wrapped__"):
            f = f.__wrapped__  # Decorators may come from anywhere.
        elif isinstance(f, functools.partial):
            f = f.func
        elif isinstance(f, MethodType):
            f = f.__func__
        elif hasattr(f, "cache_parameters"):
            f = f.__wrapped__
        elif hasattr(f, "py_func") or hasattr(f, "pyfunc"):  # numba's, numpy.vectorize's
            f = getattr(f, "py_func", None) or f.pyfunc
        else:
            return f, getattr(f, "__globals__", None)


def _package(f: object) -> str:
    space = getattr(f, "__globals__", None)
    module = space.get("__name__") if space is not None else f.__module__ if isinstance(f, type) else type(f).__module__
    return str(module or getattr(f, "__module__", None)).split(".")[0]


def _name(f: object) -> str:
    module = getattr(f, "__module__", None)
    return f"{module + '.' if module else ''}{getattr(f, '__qualname__', type(f).__qualname__)}"


def _reason(f: object) -> str:
    if not callable(f):
        return f"a {type(f).__qualname__} is no function"
    if inspect.isbuiltin(f) or isinstance(f, np.ufunc) or not hasattr(f, "__code__"):
        return "it is compiled: there is no Python code to rebuild"
    return "nothing in it is Python code of its own package"


# ----- the border -----------------------------------------------------------------------------------------------------


def add_border(program: Program, original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function for callers outside: arguments are lifted on entry, and nothing is lost on return."""

    def lifted(*args: Any, **kwargs: Any) -> Any:
        return _cross(program, original, args, kwargs)

    if callable(original) and hasattr(original, "__name__"):
        functools.update_wrapper(lifted, original)
    lifted.__lifts__ = original  # type: ignore[attr-defined]  # functions take attributes
    return lifted


def _cross(
    program: Program,
    original: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    is_lifted: bool = False,
) -> Any:
    """Make one call from outside, of a function to lift or of a lifted one."""
    if not is_lifted:
        made = program.plain_calls.call(original, args, kwargs)
        if made is not NOT_PLAIN:
            return made
    program.enter()
    outside = in_lifted_call.set(True)
    try:
        border = Border(program)
        function = original if is_lifted else program.value(original)
        result = function(
            *map(border.convert_argument, args), **{k: border.convert_argument(v) for k, v in kwargs.items()}
        )
        border.check(_name(original))
        return convert_result(result)
    except Exception as error:
        _explain(error, program, original)
        raise
    finally:
        in_lifted_call.reset(outside)
        close_tape()
        program.leave_call()


def _explain(error: Exception, program: Program, original: object) -> None:
    """Add a note that names the code that ran unchanged, and the line to write."""
    if any("ndgrad.lift:" in note for note in getattr(error, "__notes__", ())):
        return
    unlifted = packages.unlifted_in(error.__traceback__, program)
    helpers = {name: why for name, why in program.left.items() if name.partition(".")[0] in unlifted or not unlifted}
    if not unlifted and not helpers and "[nd-" not in str(error):
        return
    note = f"ndgrad.lift: {_name(original)} was lifted."
    if unlifted:
        named = unlifted[0] if len(unlifted) == 1 else list(unlifted)
        note += (
            f" Code of {' and '.join(unlifted)} ran unchanged. To lift it too, write ndgrad.lift({_short(original)}, "
            f"also={named!r})."
        )
    if helpers:
        left = "; ".join(f"{name} ({why})" for name, why in sorted(helpers.items())[:6])
        note += f" These were used unchanged: {left}."
    note += (
        f" To replace a compiled function by one of NumPy's or your own, write ndgrad.lift({_short(original)}, "
        "replace={compiled: other})."
    )
    error.add_note(note)


def _short(f: object) -> str:
    name = str(getattr(f, "__name__", "f"))
    return name if name.isidentifier() else "f"


def convert_result(v: Any) -> Any:
    """Return a result for callers outside: a stand-in for a Python number becomes an ordinary Array."""
    kind = v.__class__
    if kind in TAPED:
        become_array(v)
        kind = v.__class__
    if kind is PythonNumber:
        return to_array(v)
    if (kind is list or kind is tuple) and any(i.__class__ in _CONVERTED for i in v):
        made = list(map(convert_result, v))
        return v if all(map(operator.is_, made, v)) else kind(made)
    if kind is dict and any(i.__class__ in _CONVERTED for i in v.values()):
        made = list(map(convert_result, v.values()))
        return v if all(map(operator.is_, made, v.values())) else dict(zip(v, made, strict=True))
    return v


#: Classes of Arrays that stand for numbers inside lifted code, and containers of them.
_CONVERTED = frozenset((PythonNumber, *TAPED, list, tuple, dict))


class Border:
    """The arguments of one call."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._buffers: list[tuple[Any, Any]] = []
        self._copies: list[tuple[Any, Any, list[Any]]] = []

    def convert_argument(self, v: Any) -> Any:
        if isinstance(v, Variable):
            is_number = v.__class__ is Array and (v._node is not None or v._meta is not None) and not v._array.shape
            made = tape_array(v, TapedScalar, is_argument=True) if is_number else None
            return v if made is None else made
        if v.__class__ is np.ndarray:
            made = self.program.array(v)
            if made is not v and not at_stake(made):
                self._buffers.append((v, made))
            return made
        if v.__class__ in (list, dict):
            items = [*v.values()] if isinstance(v, dict) else v
            lifted = [self.convert_argument(i) for i in items]
            if all(a is b for a, b in zip(lifted, items, strict=True)):
                return v
            made = dict(zip(v, lifted, strict=True)) if isinstance(v, dict) else lifted
            self._copies.append((v, made, list(made.items()) if isinstance(made, dict) else list(made)))
            return made
        if v.__class__ is tuple:
            return tuple(map(self.convert_argument, v))
        return self.program.value(v)

    def check(self, name: str) -> None:
        """Copy changes of lists and dicts back; raise if a plain array was given a history, which it cannot keep."""
        for original, made, before in self._copies:
            now = list(made.items()) if isinstance(made, dict) else list(made)
            if len(now) != len(before) or any(a is not b for a, b in zip(_flatten(now), _flatten(before), strict=True)):
                original.clear()
                original.update(made) if isinstance(made, dict) else original.extend(made)
        for array, made in self._buffers:
            if (lost := stake_of(made)) is not None:
                raise RuntimeError(
                    f"{name} wrote into an argument, a plain numpy.ndarray of shape {array.shape}, "
                    f"and the written value {lost}. The caller would see the values without their derivatives. "
                    "Pass an Array (ndgrad.numpy.array(x)), or return the result instead. [nd-drops-gradient]"
                )


def _flatten(items: list[Any]) -> list[Any]:
    return [part for i in items for part in (i if isinstance(i, tuple) else (i,))]


# ----- classes and modules --------------------------------------------------------------------------------------------


def lift_class(program: Program, original: type) -> Any:
    """Return the lifted class, with a border around each of its methods."""
    inner = program.value(original)
    if inner is original:
        raise TypeError(
            f"{_name(original)} cannot be lifted: "
            f"{program.left.get(_name(original), 'there is nothing in it to lift')}. [nd-lift]"
        )
    space: dict[str, Any] = {
        "__module__": original.__module__,
        "__qualname__": original.__qualname__,
        "__lifted_from__": original,
    }
    for k in reversed(inner.__mro__):
        if "__lifted_from__" in vars(k):
            space.update(
                {
                    n: _add_method_border(program, m)
                    for n, m in vars(k).items()
                    if isinstance(m, FunctionType) and n != "__getattribute__"
                }
            )
    made: Any = type(inner)(original.__name__, (inner,), space)
    return made


def _add_method_border(program: Program, function: FunctionType) -> Callable[..., Any]:
    @functools.wraps(function)
    def method(*args: Any, **kwargs: Any) -> Any:
        return _cross(program, function, args, kwargs, is_lifted=True)

    return method


def lift_module(program: Program, original: ModuleType) -> ModuleType:
    """Return a module whose functions and classes are lifted on access."""

    def find(name: str) -> Any:
        value = getattr(original, name)
        inner = program.value(value)
        if isinstance(value, type) and inner is not value and program.owns(value.__module__):
            return lift_class(program, value)
        return (
            add_border(program, value)
            if callable(value) and inner is not value and not isinstance(value, ModuleType)
            else inner
        )

    return LiveNamespace(original, find)
