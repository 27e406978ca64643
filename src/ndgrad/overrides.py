"""Overriding public functions: modes that see every call, and classes that handle a call themselves.

Every public function checks the classes of its arguments before it runs (see _src.tensor.public): an unknown class may
override functions. The order: the modes of this context, innermost first; then the classes of the arguments, subclasses
before their bases. The first result that is not NotImplemented counts. A function that runs because a mode or a class
passed the call on does not dispatch the functions that it calls itself.

    ndgrad.overrides        this is torch.overrides
    __ndgrad_function__     the method to define; torch's __torch_function__ is accepted
"""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Self, TypeVar

from ndgrad._src.core.modes import Block, Modes, process, restore, scope, thread
from ndgrad._src.core.subclass import DisableFunctionSubclass, ask, disabled, overriding_types
from ndgrad._src.core.variable import Variable
from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad._src.tensor.families import methods, namespace
from ndgrad._src.tensor.public import is_public
from ndgrad._src.tensor.tensor_class import Tensor

__all__ = [
    "BaseTorchFunctionMode", "DisableTorchFunctionSubclass", "FunctionMode", "TorchFunctionMode",
    "enable_reentrant_dispatch", "get_default_nowrap_functions", "get_ignored_functions", "get_overridable_functions",
    "get_testing_overrides", "handle_torch_function", "has_torch_function", "has_torch_function_unary",
    "has_torch_function_variadic", "is_tensor_like", "is_tensor_method_or_property", "redispatch_function",
    "resolve_name", "wrap_torch_function",
]  # fmt: skip

F = TypeVar("F", bound=Callable[..., Any])

DisableTorchFunctionSubclass = DisableFunctionSubclass
_disabled_torch_function_impl = disabled


# ----- arguments that override ----------------------------------------------------------------------------------------


def has_torch_function(relevant_args: Iterable[object]) -> bool:
    """True if a mode is active, or some argument's class overrides functions.

    Args:
        relevant_args: arguments whose classes are checked.

    >>> import ndgrad
    >>> ndgrad.overrides.has_torch_function((ndgrad.ones(2), 1.0))
    False
    """
    if thread.function_modes:
        return True
    return not thread.functions_disabled and bool(overriding_types(relevant_args))


def has_torch_function_unary(value: object) -> bool:
    """Same as `has_torch_function`, for one argument.

    Args:
        value: argument whose class is checked.

    >>> import ndgrad
    >>> ndgrad.overrides.has_torch_function_unary(ndgrad.ones(2))
    False
    """
    return has_torch_function((value,))


def has_torch_function_variadic(*values: object) -> bool:
    """Same as `has_torch_function`, with the arguments passed directly.

    Args:
        *values: arguments whose classes are checked.

    >>> import ndgrad
    >>> ndgrad.overrides.has_torch_function_variadic(ndgrad.ones(2), 1.0)
    False
    """
    return has_torch_function(values)


def is_tensor_like(value: object) -> bool:
    """True if a value is a tensor, or of a class that overrides functions.

    Args:
        value: any object.

    >>> import ndgrad
    >>> ndgrad.overrides.is_tensor_like(ndgrad.ones(2)), ndgrad.overrides.is_tensor_like([1.0])
    (True, False)
    """
    return (
        isinstance(value, Variable)
        or hasattr(type(value), "__torch_function__")
        or hasattr(type(value), "__ndgrad_function__")
    )


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[object], *args: Any, **kwargs: Any
) -> Any:
    """Dispatch a call of a user's function to modes and classes; raise TypeError if none handles it.

    Args:
        public_api: function that was called, which modes and classes get.
        relevant_args: arguments whose classes may handle the call.
        *args: arguments of the call.
        **kwargs: keyword arguments of the call.

    >>> import ndgrad
    >>> class Price:
    ...     @classmethod
    ...     def __ndgrad_function__(cls, func, types, args=(), kwargs=None):
    ...         return f"{func.__name__} of a price"
    >>> def total(x):
    ...     return ndgrad.overrides.handle_torch_function(total, (x,), x)
    >>> total(Price())
    'total of a price'
    """
    types = () if thread.functions_disabled else overriding_types(relevant_args)
    return ask(public_api, types, args, kwargs)


#: Namespaces with public functions that can be overridden, in addition to the package's own.
_NAMESPACES = ("ndgrad.nn.functional", "ndgrad.linalg", "ndgrad.fft", "ndgrad.special")


def get_overridable_functions() -> dict[Any, list[Callable[..., Any]]]:
    """Return namespace -> its functions that modes and classes may override.

    >>> import ndgrad
    >>> ndgrad.sum in ndgrad.overrides.get_overridable_functions()[ndgrad]
    True
    """
    import ndgrad  # the whole namespace is a layer above

    functions: dict[Any, list[Any]] = {ndgrad: [f for f in namespace().values() if is_public(f)]}
    for home in map(importlib.import_module, _NAMESPACES):
        functions[home] = [f for name, f in vars(home).items() if not name.startswith("_") and is_public(f)]
    own = [f for name, f in vars(Tensor).items() if is_public(f)]
    functions[Tensor] = list(dict.fromkeys((*methods().values(), *own)))
    return functions


def is_tensor_method_or_property(func: Callable[..., Any]) -> bool:
    """True if a function passed to a mode or a class is a method of tensors.

    Args:
        func: function as a mode or a class gets it.

    >>> import ndgrad
    >>> ndgrad.overrides.is_tensor_method_or_property(ndgrad.Tensor.view)
    True
    """
    return getattr(func, "__qualname__", "").startswith("Tensor.") or any(f is func for f in methods().values())


def resolve_name(func: Callable[..., Any]) -> str | None:
    """Return the public name of a function, or None if it is not one of ndgrad's.

    Args:
        func: function as a mode or a class gets it.

    >>> import ndgrad
    >>> ndgrad.overrides.resolve_name(ndgrad.sum)
    'ndgrad.sum'
    """
    return f"{func.__module__}.{func.__qualname__}" if is_public(func) else None


# ----- modes ----------------------------------------------------------------------------------------------------------


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

    def __ndgrad_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return self.__torch_function__(func, types, args, kwargs)

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        raise NotImplementedError(
            f"{type(self).__name__} overrides neither __ndgrad_function__ nor __torch_function__. [nd-dispatch]"
        )

    names_itself = True

    def change(self, modes: Modes) -> None:
        """Add the mode to those of a thread. Entering the block calls this method.

        Args:
            modes: modes of the thread, which are changed.
        """
        process.overriding = True
        modes.entered += 1
        modes.function_modes = (*modes.function_modes, self)

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Self:
        """Return a mode to be entered: torch's old spelling of the constructor.

        Args:
            *args, **kwargs: arguments of the constructor.

        >>> import ndgrad
        >>> with ndgrad.overrides.BaseTorchFunctionMode.push():
        ...     y = ndgrad.ones(2)
        """
        return cls(*args, **kwargs)


TorchFunctionMode = FunctionMode


class BaseTorchFunctionMode(FunctionMode):
    """A mode that passes every call on.

    >>> import ndgrad
    >>> with ndgrad.overrides.BaseTorchFunctionMode():
    ...     ndgrad.ones(2).sum()
    tensor(2.)
    """

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return func(*args, **(kwargs or {}))


def _get_current_function_mode_stack() -> list[Any]:
    """Return the function modes of this thread, innermost last."""
    return list(thread.function_modes)


def _get_current_function_mode() -> Any:
    return thread.function_modes[-1] if thread.function_modes else None


class DisableTorchFunction(DisableFunctionSubclass):
    """Same as DisableTorchFunctionSubclass, for modes too.

    >>> import ndgrad
    >>> with ndgrad.overrides.BaseTorchFunctionMode(), ndgrad.overrides.DisableTorchFunction():
    ...     ndgrad.overrides.has_torch_function(())
    False
    """

    def change(self, modes: Modes) -> None:
        """Switch the dispatch to subclasses and to function modes off in the given modes.

        Args:
            modes: modes of the current thread.
        """
        super().change(modes)
        modes.function_modes = ()


def wrap_torch_function(dispatcher: Callable[..., Iterable[object]]) -> Callable[[F], F]:
    """Make a function overridable: `dispatcher` gets its arguments and returns those whose classes may override it.

    Args:
        dispatcher: function of the arguments of the call that returns those whose classes may override it.

    Returns:
        A decorator.

    >>> import ndgrad
    >>> @ndgrad.overrides.wrap_torch_function(lambda x: (x,))
    ... def double(x):
    ...     return x * 2
    >>> double(ndgrad.ones(2))
    tensor([2., 2.])
    """
    def decorate(function: F) -> F:
        @functools.wraps(function)
        def dispatching(*args: Any, **kwargs: Any) -> Any:
            relevant = tuple(dispatcher(*args, **kwargs))
            if has_torch_function(relevant):
                return handle_torch_function(dispatching, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return dispatching  # type: ignore[return-value]  # the same signature

    return decorate


# ----- around functions that are overridden ---------------------------------------------------------------------------


def redispatch_function(func: Callable[..., Any], types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function from inside `__torch_function__` without dispatching to the classes of its arguments again.

    Args:
        func: function to call.
        types: classes that override functions, as `__torch_function__` gets them. They are not used.
        args: arguments of the call.
        kwargs: keyword arguments of the call.

    >>> import ndgrad
    >>> ndgrad.overrides.redispatch_function(ndgrad.add, (), (ndgrad.ones(2), 1), {})
    tensor([2., 2.])
    """
    with DisableTorchFunctionSubclass():
        return func(*args, **(kwargs or {}))


def get_ignored_functions() -> set[Callable[..., Any]]:
    """Return public functions that neither modes nor classes can override, such as queries, settings and seeds.

    >>> import ndgrad
    >>> ndgrad.is_tensor in ndgrad.overrides.get_ignored_functions()
    True
    """
    import ndgrad  # the whole namespace is a layer above

    found = {getattr(ndgrad, name) for name in dir(ndgrad)}
    return {f for f in found if inspect.isroutine(f) and not is_public(f)}


def get_testing_overrides() -> dict[Callable[..., Any], Callable[..., Any]]:
    """Return each overridable function -> a function with its signature that returns -1.

    >>> import ndgrad
    >>> ndgrad.overrides.get_testing_overrides()[ndgrad.sum](ndgrad.ones(2))
    -1
    """
    return {f: _dummy(f) for functions in get_overridable_functions().values() for f in functions}


def _dummy(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def dummy(*args: Any, **kwargs: Any) -> int:
        inspect.signature(function).bind(*args, **kwargs)
        return -1

    return dummy


def get_default_nowrap_functions() -> set[Callable[..., Any]]:
    """Return functions whose results do not become tensors of a subclass: none, since attributes are not dispatched.

    >>> import ndgrad
    >>> ndgrad.overrides.get_default_nowrap_functions()
    set()
    """
    return set()


@contextmanager
def enable_reentrant_dispatch() -> Iterator[None]:
    """Return a context inside `__torch_dispatch__` whose ops are dispatched as usual. Here they always are.

    >>> import ndgrad
    >>> with ndgrad.overrides.enable_reentrant_dispatch():
    ...     y = ndgrad.ones(2)
    """
    yield


@contextmanager
def _pop_mode_temporarily() -> Iterator[Any]:
    """Return a context without the innermost function mode."""
    outside = scope()
    before = outside.modes.function_modes
    if not before:
        raise RuntimeError("_pop_mode_temporarily(): no function mode is active in this thread. [nd-call-order]")
    try:
        restore(outside.with_changes(function_modes=before[:-1]))
        yield before[-1]
    finally:
        restore(outside)
        del outside
_refuse_absent(__name__)
