"""torch's `jit`: the parts that apply to ndgrad.

There is no second language into which programs are translated. `script` and `trace` return functions that are compiled
when they are called (`ndgrad.compile`). They compute the same as the function, including branches and loops, so a trace
is never out of date. Decorators that exclude code from torch's compiler return the function. Files of compiled programs
raise an error: see docs/absent.md.
"""

from __future__ import annotations

import builtins
import inspect
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from contextvars import ContextVar
from typing import Any, Final, TypeVar

from ndgrad._src.compiler.runtime.entry import compile
from ndgrad._src.compiler.runtime.function import CompiledFunction
from ndgrad._src.core.variable import Variable
from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad._src.foundations.pytree import tree_flatten
from ndgrad.futures import Future
from ndgrad.nn import Module
from ndgrad.testing import assert_close

__all__ = [
    "Attribute", "Error", "Final", "Future", "ScriptFunction", "ScriptModule", "TracerWarning", "TracingCheckError",
    "annotate", "enable_onednn_fusion", "export", "fork", "freeze", "ignore", "interface", "is_scripting", "is_tracing",
    "isinstance", "onednn_fusion_enabled", "optimize_for_inference", "script",
    "script_if_tracing", "script_method", "set_fusion_strategy", "strict_fusion", "trace", "trace_module", "unused",
    "wait",
]  # fmt: skip

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = list  # torch's annotations of a number or a list

ScriptFunction = CompiledFunction


class ScriptModule(Module):
    """Base class of modules that torch has compiled. `script` returns modules unchanged, so only explicit subclasses
    are instances.
    """


class Error(RuntimeError):
    """An error inside a compiled function. Here functions raise their own errors."""


class TracerWarning(Warning):
    """torch's warning about wrong traces; never issued here."""


class TracingCheckError(Exception):
    """A traced function does not return the same as without tracing."""

    def __init__(self, graph_diff_error: Any, tensor_compare_error: Any, extra_msg: str | None = None) -> None:
        told = [str(part) for part in (extra_msg, graph_diff_error, tensor_compare_error) if part is not None]
        self.message = "\n".join(["Tracing failed sanity checks!", *told])
        super().__init__(self.message)


# ----- compiling ------------------------------------------------------------------------------------------------------


def script(obj: Any, optimize: Any = None, _frames_up: int = 0, _rcb: Any = None, example_inputs: Any = None) -> Any:
    """Return a function that is compiled when it is called. Modules and classes are returned unchanged.

    >>> import ndgrad
    >>> @ndgrad.jit.script
    ... def f(x, n: int):
    ...     for i in range(n):
    ...         x = x * 2
    ...     return x
    >>> f(ndgrad.ones(1), 3)
    tensor([8.])
    """
    if builtins.isinstance(obj, (Module, dict, list)) or inspect.isclass(obj):
        return obj
    if not callable(obj):
        raise TypeError(f"jit.script() takes a function, a module or a class, but got {type(obj).__name__}. [nd-type]")
    return compile(obj)


_tracing: ContextVar[bool] = ContextVar("ndgrad_jit_tracing", default=False)


def trace(
    func: Any, example_inputs: Any = None, optimize: Any = None, check_trace: bool = True, check_inputs: Any = None,
    check_tolerance: float = 1e-5, strict: bool = True, example_kwarg_inputs: dict[str, Any] | None = None, **_: Any,
) -> Any:  # fmt: skip
    """Compile a function or module for a kind of arguments, and check it against its uncompiled result.

    It accepts all other arguments too: the trace is one of several that `ndgrad.compile` may keep.

    >>> import ndgrad
    >>> f = ndgrad.jit.trace(lambda x: x.sin() + 1, ndgrad.zeros(2))
    >>> f(ndgrad.zeros(2))
    tensor([1., 1.])
    """
    args = example_inputs if builtins.isinstance(example_inputs, (tuple, list)) else (example_inputs,)
    args = () if example_inputs is None else tuple(args)
    kwargs = example_kwarg_inputs or {}
    made = compile(func)
    token = _tracing.set(True)
    try:
        made(*args, **kwargs)
        if check_trace:
            for inputs in [args, *(check_inputs or ())]:
                _check(func, made, tuple(inputs), kwargs if inputs is args else {}, check_tolerance)
    finally:
        _tracing.reset(token)
    return made


def _check(func: Any, made: Any, args: tuple[Any, ...], kwargs: dict[str, Any], tolerance: float) -> None:
    from ndgrad.random import fork_rng  # functions that draw random numbers must draw the same

    with fork_rng():
        expected = tree_flatten(func(*args, **kwargs))[0]
    with fork_rng():
        found = tree_flatten(made(*args, **kwargs))[0]
    for want, got in zip(expected, found, strict=True):
        if builtins.isinstance(want, Variable):
            try:
                assert_close(got.detach(), want.detach(), rtol=tolerance, atol=tolerance, equal_nan=True)
            except AssertionError as error:
                raise TracingCheckError(None, error) from error


def trace_module(
    mod: Module, inputs: dict[str, Any], optimize: Any = None, check_trace: bool = True, check_inputs: Any = None,
    check_tolerance: float = 1e-5, **_: Any,
) -> Module:  # fmt: skip
    """Try the methods of a module with the given inputs, and return the module itself.

    >>> import ndgrad
    >>> m = ndgrad.nn.Linear(2, 1)
    >>> ndgrad.jit.trace_module(m, {"forward": ndgrad.ones(1, 2)}) is m
    True
    """
    for name, example in inputs.items():
        method = mod if name == "forward" else getattr(mod, name)
        trace(method, example, check_trace=check_trace, check_tolerance=check_tolerance)
    return mod


def is_scripting() -> bool:
    """Return False: torch's compiler never reads the code.

    >>> import ndgrad
    >>> ndgrad.jit.is_scripting(), ndgrad.jit.is_tracing()
    (False, False)
    """
    return False


def is_tracing() -> bool:
    """True if `trace` is running a function."""
    return _tracing.get()


# ----- what torch's compiler is told, and needs not be told here ------------------------------------------------------


def ignore(drop: Any = False, **_: Any) -> Any:
    """Return the function: torch's decorator of functions that are not compiled."""
    return drop if callable(drop) else (lambda function: function)


def unused(fn: F) -> F:
    """Return the method: torch's decorator of methods that are unused in compiled code."""
    return fn


def export(fn: F) -> F:
    """Return the method: torch's decorator of methods to compile although forward does not call them."""
    return fn


def interface(obj: T) -> T:
    """Return the class: torch's decorator of interfaces."""
    return obj


script_method = unused
script_if_tracing = unused


def annotate(the_type: Any, the_value: T) -> T:
    """Return the value: torch's annotation of its type."""
    return the_value


def isinstance(obj: Any, target_type: Any) -> bool:
    """Same as Python's `isinstance`, which also accepts `List[int]` and similar types: parameters in brackets are
    ignored.
    """
    targets = target_type if builtins.isinstance(target_type, tuple) else (target_type,)
    return builtins.isinstance(obj, tuple(getattr(t, "__origin__", t) or t for t in targets))


def _overload(func: F) -> F:
    """Return the function: torch's mark of one signature of several. The last definition, without the mark, runs."""
    return func


_overload_method = _overload


class Attribute:
    """A value with its type, for torch's compiler."""

    def __init__(self, value: Any, type: Any) -> None:
        self.value, self.type = value, type


# ----- inference ------------------------------------------------------------------------------------------------------


def freeze(
    mod: Module, preserved_attrs: Sequence[str] | None = None, optimize_numerics: bool = True, **_: Any
) -> Module:
    """Return the module itself, which must be in eval mode, for inference."""
    if mod.training:
        raise RuntimeError(
            "Freezing is currently only implemented for modules in eval mode. Call eval() first. [nd-call-order]"
        )
    return mod


def optimize_for_inference(mod: Module, other_methods: Sequence[str] | None = None) -> Module:
    """Return the module itself, for inference."""
    return mod


def set_fusion_strategy(strategy: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Return the fusion strategy of torch's compiler, without effect."""
    return strategy


_onednn = False


def enable_onednn_fusion(enabled: bool) -> None:
    """Allow or forbid kernels of oneDNN, which is not used."""
    global _onednn
    _onednn = bool(enabled)


def onednn_fusion_enabled() -> bool:
    """Return the value set by `enable_onednn_fusion`."""
    return _onednn


class strict_fusion(nullcontext[None]):
    """A block in which torch's compiler raises if it cannot fuse all ops; no effect here."""


# ----- tasks ----------------------------------------------------------------------------------------------------------


def fork(func: Callable[..., T], *args: Any, **kwargs: Any) -> Future[T]:
    """Run a call immediately, and return its future.

    >>> import ndgrad
    >>> ndgrad.jit.wait(ndgrad.jit.fork(ndgrad.exp, ndgrad.zeros(1)))
    tensor([1.])
    """
    future: Future[T] = Future()
    future.set_result(func(*args, **kwargs))
    return future


def wait(future: Future[T]) -> T:
    """Return the value of a future."""
    return future.wait()


# torch's names in `torch._jit_internal`.
_Final = Final


def boolean_dispatch(
    arg_name: str, arg_index: int, default: bool, if_true: Callable[..., Any], if_false: Callable[..., Any],
    module_name: str | None, func_name: str | None,
) -> Callable[..., Any]:  # fmt: skip
    """Return a function that calls one of two functions, chosen by a bool among its arguments."""

    def dispatch(*args: Any, **kwargs: Any) -> Any:
        flag = kwargs.get(arg_name, args[arg_index] if arg_index < len(args) else default)
        return (if_true if flag else if_false)(*args, **kwargs)

    dispatch.__doc__ = if_true.__doc__ or if_false.__doc__
    if module_name is not None:
        dispatch.__module__ = module_name
    if func_name is not None:
        dispatch.__name__ = func_name
    return dispatch


_refuse_absent(__name__)
