"""Public functions that ask before they run: modes that see every call, and classes that answer in a function's place.

The constraint that shaped this file: asking costs time, and almost nobody overrides anything. So functions are plain functions until
the first mode is entered or the first class with an override is defined. Then an `Overridable` takes the place of every public function
and method, and when the last mode is left, and the last such class is gone, the plain ones come back.

Who is asked, in this order: the modes of this thread, innermost first; then the classes of the arguments, subclasses before their
bases. The first answer that is not NotImplemented counts. Functions that run because nobody had an answer, or because somebody
passed the call on, do not ask about the functions that they call themselves.

    ndgrad.overrides        this is torch.overrides
    __ndgrad_function__     the method to define; torch's __torch_function__ is accepted
"""

from __future__ import annotations

import importlib
import os
import weakref
from collections.abc import Callable, Iterable
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, Self

from ndgrad.autograd.locks import make_lock
from ndgrad.autograd.modes import Block, Modes, restore, scope, thread
from ndgrad.autograd.subclass import DisableFunctionSubclass, ask_classes, disabled, overriding_types
from ndgrad.autograd.variable import Variable

__all__ = [
    "BaseTorchFunctionMode", "DisableTorchFunctionSubclass", "FunctionMode", "TorchFunctionMode", "get_overridable_functions",
    "handle_torch_function", "has_torch_function", "has_torch_function_unary", "has_torch_function_variadic", "is_tensor_like",
    "is_tensor_method_or_property", "resolve_name",
]  # fmt: skip

DisableTorchFunctionSubclass = DisableFunctionSubclass
_disabled_torch_function_impl = disabled


# ----- who wants to be asked ---------------------------------------------------------------------------------------------


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether a mode is active, or some argument's class overrides functions."""
    if thread.function_modes:
        return True
    return not thread.functions_disabled and bool(overriding_types(relevant_args))


def has_torch_function_unary(value: Any) -> bool:
    return has_torch_function((value,))


def has_torch_function_variadic(*values: Any) -> bool:
    return has_torch_function(values)


def is_tensor_like(value: Any) -> bool:
    """Whether a value is a tensor, or of a class that overrides functions."""
    return isinstance(value, Variable) or hasattr(type(value), "__torch_function__") or hasattr(type(value), "__ndgrad_function__")


def handle_torch_function(public_api: Any, relevant_args: Iterable[Any], *args: Any, **kwargs: Any) -> Any:
    """Ask modes and classes about a call of a function of one's own; TypeError if nobody has an answer."""
    types = () if thread.functions_disabled else overriding_types(relevant_args)
    return _ask(public_api, types, args, kwargs)


def _ask(func: Any, types: tuple[type[Any], ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    stack = thread.function_modes
    if stack:
        outside = scope()
        try:
            restore(outside.changed(function_modes=stack[:-1]))
            result = stack[-1].__ndgrad_function__(func, types, args, kwargs)
        finally:
            restore(outside)
            del outside
        if result is not NotImplemented:
            return result
    result = ask_classes(func, types, args, kwargs)
    if result is not NotImplemented:
        return result
    asked = [type(m).__name__ for m in stack[-1:]] + [c.__name__ for c in types]
    raise TypeError(
        f"no answer to {resolve_name(func) or func!r}: all of {', '.join(asked)} returned NotImplemented. Handle the function in one "
        "of them, or pass it on with super().__torch_function__(func, types, args, kwargs)."
    )


# ----- functions that ask ------------------------------------------------------------------------------------------------


class Overridable:
    """A public function that asks. It equals, and hashes as, the plain one, which someone may have put in a table before."""

    def __init__(self, function: Any, name: str, home: str) -> None:
        self.function = function
        self.__name__ = _PREFIXES.get(home, "") + name
        self.__qualname__ = f"{home}.{name}" if home == "Tensor" else name
        self.__module__ = home if home != "Tensor" else "ndgrad"
        self.__doc__ = getattr(function, "__doc__", None)
        self.__wrapped__ = function
        #: what modes and classes are shown: for an operator, the method that it stands for
        self.shown: Overridable = self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        types = overriding_types((*args, *kwargs.values()) if kwargs else args)
        if types and thread.functions_disabled:
            types = ()
        if types or (_modes and thread.function_modes):
            return _ask(self.shown, types, args, kwargs)
        return self.function(*args, **kwargs)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __eq__(self, other: object) -> bool:
        mine = self.function
        return self is other or mine is other or (isinstance(other, Overridable) and other.function is mine)

    def __hash__(self) -> int:
        return hash(self.function)

    def __repr__(self) -> str:
        return f"<function {self.__module__}.{self.__qualname__}>"

    def __reduce__(self) -> Any:
        return _find, (self.__module__, self.__qualname__)


def _find(module: str, qualname: str) -> Any:
    found: Any = importlib.import_module(module)
    for part in qualname.split("."):
        found = getattr(found, part)
    return found


#: What torch shows for Python's operators: the method that does the work, where there is one.
_SHOWN = {
    "__add__": "add", "__radd__": "add", "__sub__": "sub", "__mul__": "mul", "__rmul__": "mul", "__truediv__": "div",
    "__mod__": "remainder", "__pow__": "pow", "__matmul__": "matmul", "__rand__": "bitwise_and", "__ror__": "bitwise_or",
    "__rxor__": "bitwise_xor",
    "__ne__": "ne", "__lt__": "lt", "__le__": "le", "__gt__": "gt", "__ge__": "ge", "__neg__": "neg", "__pos__": "positive",
    "__abs__": "abs", "__iadd__": "add_", "__isub__": "sub_", "__imul__": "mul_", "__itruediv__": "div_", "__imod__": "remainder_",
    "__ifloordiv__": "floor_divide_", "__ipow__": "pow_",
}  # fmt: skip
_SPECIAL = frozenset(_SHOWN) | frozenset(
    "__rsub__ __rtruediv__ __floordiv__ __rfloordiv__ __rmod__ __rpow__ __rmatmul__ __and__ __or__ __xor__ __lshift__ __rshift__ "
    "__rlshift__ __rrshift__ __eq__ __iand__ __ior__ __ixor__ __ilshift__ __irshift__ __invert__ __len__ __getitem__ __setitem__ "
    "__bool__ __int__ __float__ __complex__ __contains__ __repr__ __deepcopy__ __array__".split()
)
#: Namespaces whose public functions can be overridden, besides the package's own.
_NAMESPACES = ("ndgrad.nn.functional", "ndgrad.linalg", "ndgrad.fft", "ndgrad.special")
#: These say their namespace in their names, as torch's do.
_PREFIXES = {"ndgrad.linalg": "linalg_", "ndgrad.fft": "fft_", "ndgrad.special": "special_"}
#: Public functions that are about the library, not about tensors.
_NOT_ASKING = frozenset(
    "manual_seed seed initial_seed get_rng_state set_rng_state is_tensor is_storage set_printoptions set_default_dtype get_default_dtype "
    "finfo iinfo promote_types result_type can_cast".split()
)
_METHODS_NOT_ASKING = frozenset(("array", "tensor"))


def _public_functions() -> dict[str, dict[str, Any]]:
    """Module -> name -> function, for everything that can be overridden."""
    import ndgrad
    from ndgrad.api.lazy import FAMILIES

    found: dict[str, dict[str, Any]] = {"ndgrad": {}}
    names: set[str] = set()
    for file in (*ndgrad._API, *FAMILIES):
        module = importlib.import_module(f"ndgrad.api.{file}")
        names |= {*getattr(module, "__all__", ()), *getattr(module, "ELEMENTWISE", ()), *getattr(module, "ALIASES", {})}
    for name in sorted(names - _NOT_ASKING):
        function = vars(ndgrad).get(name)
        if isinstance(function, (FunctionType, Overridable)):
            found["ndgrad"][name] = function
    for home in _NAMESPACES:
        module = importlib.import_module(home)
        public = getattr(module, "__all__", None) or [n for n in vars(module) if not n.startswith("_")]
        chosen = {n: getattr(module, n) for n in public}
        found[home] = {n: f for n, f in chosen.items() if isinstance(f, (FunctionType, BuiltinFunctionType, Overridable))}
    return found


def _methods() -> dict[str, Any]:
    """Name -> method, for those of Tensor that can be overridden."""
    from ndgrad._tensor import Tensor

    found = {}
    for name in dir(Tensor):
        if (name.startswith("_") and name not in _SPECIAL) or name in _METHODS_NOT_ASKING:
            continue
        holder = next((c for c in Tensor.__mro__ if name in vars(c)), object)
        method = vars(holder)[name]
        if holder is not object and isinstance(method, (FunctionType, Overridable)):
            found[name] = method
    return found


def get_overridable_functions() -> dict[Any, list[Any]]:
    """Namespace -> its functions that modes and classes are asked about."""
    from ndgrad._tensor import Tensor

    functions: dict[Any, list[Any]] = {importlib.import_module(home): list(names.values()) for home, names in _public_functions().items()}
    functions[Tensor] = list(_methods().values())
    return functions


def is_tensor_method_or_property(func: Any) -> bool:
    """Whether a function that was asked about is a method of tensors."""
    from ndgrad._tensor import Tensor

    if isinstance(func, Overridable):
        return func.__qualname__.startswith("Tensor.")
    return any(f is func for f in vars(Tensor).values())


def resolve_name(func: Any) -> str | None:
    """The name under which users know a function ("ndgrad.sum", "ndgrad.Tensor.add"), None if it is not one of ours."""
    if isinstance(func, Overridable):
        return f"{func.__module__}.{func.__qualname__}"
    for home, names in _public_functions().items():
        for name, f in names.items():
            if f is func or (isinstance(f, Overridable) and f == func):
                return f"{home}.{name}"
    return next((f"ndgrad.Tensor.{n}" for n, f in _methods().items() if f is func or f == func), None)


# ----- putting them in place ---------------------------------------------------------------------------------------------

_lock = make_lock()
_changing = False
_modes = 0
_classes: dict[int, weakref.ref[Any]] = {}
#: (namespace or class, name, what stood there before or _ABSENT)
_replaced: list[tuple[Any, str, Any]] = []
_ABSENT = object()


def _install() -> None:
    import ndgrad
    from ndgrad._tensor import Tensor
    from ndgrad.api.install import install
    from ndgrad.api.lazy import FAMILIES

    for family in FAMILIES:  # what loads when first used would put plain functions in place again
        install(importlib.import_module(f"ndgrad.api.{family}"), vars(ndgrad), Tensor)
    for home, names in _public_functions().items():
        module = importlib.import_module(home)
        for name, function in names.items():
            _replaced.append((module, name, vars(module).get(name, _ABSENT)))
            setattr(module, name, Overridable(function, name, home))
    made = {name: Overridable(method, name, "Tensor") for name, method in _methods().items()}
    for name, wrapper in made.items():
        shown = made.get(_SHOWN.get(name, name))
        wrapper.shown = wrapper if shown is None else shown
        _replaced.append((Tensor, name, vars(Tensor).get(name, _ABSENT)))
        setattr(Tensor, name, wrapper)


def _uninstall() -> None:
    while _replaced:
        home, name, before = _replaced.pop()
        here = vars(home).get(name)
        if not isinstance(here, Overridable):
            continue  # somebody has put something of his own there since
        if before is _ABSENT:
            delattr(home, name)
        else:
            setattr(home, name, before)


def _update() -> None:
    """Put functions that ask in place, or take them away, as it is now needed; the caller holds the lock.

    The lock may be the caller's twice: the collector, or a signal, can bring a class's end or a mode's beginning in the middle of this.
    """
    global _changing
    if _changing:
        return  # whoever is at it looks again when done
    _changing = True
    try:
        while bool(_replaced) != bool(_modes or _classes):
            if _replaced:
                _uninstall()
            else:
                _install()
    except BaseException:
        _uninstall()
        raise
    finally:
        _changing = False


def count_class(cls: type[Any]) -> None:
    """A class that overrides functions has been defined: functions ask for as long as it lives."""

    def gone(_: Any, key: int = id(cls)) -> None:
        with _lock:
            _classes.pop(key, None)
            _update()

    with _lock:
        _classes[id(cls)] = weakref.ref(cls, gone)
        _update()


def _after_fork() -> None:
    global _changing
    _changing = False  # nobody is left in the child who could finish it


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


# ----- modes -------------------------------------------------------------------------------------------------------------


class FunctionMode(Block):
    """A context that sees, and may replace, every call of a public function or method in this thread.

    Override `__ndgrad_function__(func, types, args, kwargs)`, or torch's `__torch_function__`.

    >>> import ndgrad
    >>> from ndgrad.overrides import FunctionMode
    >>> class Log(FunctionMode):
    ...     def __ndgrad_function__(self, func, types, args=(), kwargs=None):
    ...         print(func.__name__)
    ...         return func(*args, **(kwargs or {}))
    >>> with Log():
    ...     y = ndgrad.ones(2).mean() + 1
    ones
    mean
    add
    """

    def __init__(self) -> None:
        pass

    def __ndgrad_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        return self.__torch_function__(func, types, args, kwargs)

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        raise NotImplementedError(f"{type(self).__name__} overrides neither __ndgrad_function__ nor __torch_function__.")

    names_itself = True

    def begin(self) -> None:
        global _modes
        with _lock:
            _modes += 1
            try:
                _update()
            except BaseException:
                _modes -= 1
                raise

    def change(self, modes: Modes) -> None:
        modes.entered += 1
        modes.function_modes = (*modes.function_modes, self)

    def end(self) -> None:
        global _modes
        with _lock:
            _modes -= 1
            _update()

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Self:
        """A mode to be entered: torch's old spelling of the constructor."""
        return cls(*args, **kwargs)


TorchFunctionMode = FunctionMode


class BaseTorchFunctionMode(FunctionMode):
    """A mode that passes every call on."""

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        return func(*args, **(kwargs or {}))


def _get_current_function_mode_stack() -> list[Any]:
    """The function modes of this thread, innermost last."""
    return list(thread.function_modes)


def _get_current_function_mode() -> Any:
    return thread.function_modes[-1] if thread.function_modes else None


class DisableTorchFunction(DisableFunctionSubclass):
    """As DisableTorchFunctionSubclass, for modes too."""

    def change(self, modes: Modes) -> None:
        super().change(modes)
        modes.function_modes = ()


def wrap_torch_function(dispatcher: Callable[..., Iterable[Any]]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Let a function of one's own ask: `dispatcher` gets its arguments and returns those whose classes may override it."""
    import functools

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def asking(*args: Any, **kwargs: Any) -> Any:
            relevant = tuple(dispatcher(*args, **kwargs))
            if has_torch_function(relevant):
                return handle_torch_function(asking, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return asking

    return decorate
