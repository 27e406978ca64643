"""torch's `jit`: the parts that apply to ndgrad.

There is no second language into which programs are translated. `script` and `trace` return functions that are compiled
when they are called (`ndgrad.compile`). They compute the same as the function, including branches and loops, so a trace
is never out of date. Decorators that exclude code from torch's compiler return the function. `script` and `trace` of a
module return a module of the class `ScriptModule` over the same parameters. `save` writes traced functions and modules
as programs of ops (`ndgrad.export`), and `load` reads them.
"""

from __future__ import annotations

import builtins
import functools
import inspect
import os
import weakref
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from contextvars import ContextVar
from typing import IO, Any, Final, TypeVar

from ndgrad._src.compiler.runtime.entry import compile
from ndgrad._src.compiler.runtime.function import CompiledFunction
from ndgrad._src.compiler.runtime.script_errors import Error, as_script_error
from ndgrad._src.compiler.runtime.warm_up import ScriptFunction, Strategy
from ndgrad._src.core.variable import Variable
from ndgrad._src.foundations import type_annotations as _type_annotations
from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad._src.foundations.pytree import tree_flatten, tree_map
from ndgrad.futures import Future
from ndgrad.nn import Module
from ndgrad.testing import assert_close

__all__ = [
    "Attribute", "Error", "Final", "Future", "RecursiveScriptModule", "ScriptFunction", "ScriptModule",
    "TracerWarning", "TracingCheckError",
    "annotate", "enable_onednn_fusion", "export", "fork", "freeze", "ignore", "interface", "is_scripting", "is_tracing",
    "isinstance", "load", "onednn_fusion_enabled", "optimize_for_inference", "save", "script",
    "script_if_tracing", "script_method", "set_fusion_strategy", "strict_fusion", "trace", "trace_module", "unused",
    "wait",
]  # fmt: skip

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = list  # torch's annotations of a number or a list


class ScriptModule(Module):
    """A module made by `script`, `trace` or `load`. It has the parameters, buffers and methods of the original.

    >>> import ndgrad
    >>> scripted = ndgrad.jit.script(ndgrad.nn.Linear(2, 1))
    >>> isinstance(scripted, ndgrad.jit.ScriptModule), scripted.original_name
    (True, 'Linear')
    """

    @property
    def original_name(self) -> str:
        """The name of the original class."""
        return type(self).__name__.removeprefix("Script")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().__call__(*args, **kwargs)
        except Exception as error:
            if (found := as_script_error(error)) is error:
                raise
            raise found from found.__cause__

    def save(self, f: str | os.PathLike[str], _extra_files: dict[str, Any] | None = None) -> None:
        """Write the module to a file: see `ndgrad.jit.save`.

        Args:
            f: path of the file.
        """
        save(self, f, _extra_files)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _restore_script, (type(self).__bases__[1], dict(self.__dict__))


RecursiveScriptModule = ScriptModule


@functools.cache
def _script_class(cls: type[Module]) -> type[ScriptModule]:
    return type(f"Script{cls.__name__}", (ScriptModule, cls), {"__module__": cls.__module__, "__doc__": cls.__doc__})


def _restore_script(cls: type[Module], values: dict[str, Any]) -> ScriptModule:
    known: Any = cls
    made = _script_class(known).__new__(_script_class(known))
    made.__dict__.update(values)
    return made


def _as_script(module: Module, seen: dict[int, ScriptModule] | None = None) -> ScriptModule:
    """Return a module with the parameters and buffers of another; its parts are scripted as well."""
    if builtins.isinstance(module, ScriptModule):
        return module
    seen = {} if seen is None else seen
    if id(module) in seen:
        return seen[id(module)]
    own = {name: value.copy() if builtins.isinstance(value, dict) else value for name, value in vars(module).items()}
    made = seen[id(module)] = _restore_script(type(module), own)
    for name, part in own["_modules"].items():
        if part is not None:
            own["_modules"][name] = _as_script(part, seen)
    return made


class TracerWarning(Warning):
    """torch's warning about wrong traces; never issued here."""


class TracingCheckError(Exception):
    """Error of a traced function that does not return the same as without tracing.

    Args:
        graph_diff_error: difference of graphs.
        tensor_compare_error: difference of tensors.
        extra_msg: text before them.
    """

    def __init__(self, graph_diff_error: Any, tensor_compare_error: Any, extra_msg: str | None = None) -> None:
        told = [str(part) for part in (extra_msg, graph_diff_error, tensor_compare_error) if part is not None]
        self.message = "\n".join(["Tracing failed sanity checks!", *told])
        super().__init__(self.message)


# ----- compiling ------------------------------------------------------------------------------------------------------


def script(obj: Any, optimize: Any = None, _frames_up: int = 0, _rcb: Any = None, example_inputs: Any = None) -> Any:
    """Return a function that is compiled for arguments that repeat.

    A module is returned as a `ScriptModule` over the same parameters, and a class unchanged.

    The first 20 calls with one kind of arguments (shapes and dtypes) run eagerly, and at most two kinds are compiled
    (see `set_fusion_strategy`). `ndgrad.compile` compiles at the first call, for every kind.

    Args:
        obj: function, module or class.
        optimize: accepted as in torch; has no effect.
        example_inputs: accepted as in torch; has no effect, because no types are inferred.

    >>> import ndgrad
    >>> @ndgrad.jit.script
    ... def f(x, n: int):
    ...     for i in range(n):
    ...         x = x * 2
    ...     return x
    >>> f(ndgrad.ones(1), 3)
    tensor([8.])
    """
    if builtins.isinstance(obj, Module):
        return _as_script(obj)
    if builtins.isinstance(obj, (dict, list)) or inspect.isclass(obj):
        return obj
    if not callable(obj):
        raise TypeError(f"jit.script() takes a function, a module or a class, but got {type(obj).__name__}. [nd-type]")
    return obj if builtins.isinstance(obj, CompiledFunction) else ScriptFunction(obj)


_tracing: ContextVar[bool] = ContextVar("ndgrad_jit_tracing", default=False)


def trace(
    func: Any, example_inputs: Any = None, optimize: Any = None, check_trace: bool = True, check_inputs: Any = None,
    check_tolerance: float = 1e-5, strict: bool = True, example_kwarg_inputs: dict[str, Any] | None = None, **_: Any,
) -> Any:  # fmt: skip
    """Compile a function or module for a kind of arguments, and check it against its uncompiled result.

    It accepts all other arguments too: the trace is one of several that `ndgrad.compile` may keep.

    Args:
        func: function or module.
        example_inputs: arguments of a call. A single value stands for a tuple of one.
        optimize: accepted as in torch; has no effect.
        check_trace: whether the result is compared with the uncompiled one.
        check_inputs: further arguments to compare with.
        check_tolerance: largest relative and absolute difference.
        strict: accepted as in torch; has no effect.
        example_kwarg_inputs: keyword arguments of the call.

    >>> import ndgrad
    >>> f = ndgrad.jit.trace(lambda x: x.sin() + 1, ndgrad.zeros(2))
    >>> f(ndgrad.zeros(2))
    tensor([1., 1.])
    """
    args = example_inputs if builtins.isinstance(example_inputs, (tuple, list)) else (example_inputs,)
    args = () if example_inputs is None else tuple(args)
    kwargs = example_kwarg_inputs or {}
    made: Any = _as_script(func) if builtins.isinstance(func, Module) else compile(func)
    token = _tracing.set(True)
    try:
        made(*args, **kwargs)
        if check_trace:
            for inputs in [args, *(check_inputs or ())]:
                _check(func, made, tuple(inputs), kwargs if inputs is args else {}, check_tolerance)
    finally:
        _tracing.reset(token)
    _examples[made] = args, kwargs
    return made


#: Example arguments of traced functions and modules, with which `save` makes their programs.
_examples: weakref.WeakKeyDictionary[Any, tuple[tuple[Any, ...], dict[str, Any]]] = weakref.WeakKeyDictionary()


def save(m: Any, f: str | os.PathLike[str] | IO[bytes], _extra_files: dict[str, Any] | None = None) -> None:
    """Write a traced function or module to a file, as a program of ops (`ndgrad.export`). Sizes stay open where the
    program allows it. A scripted module has no example arguments, and is refused.

    Args:
        m: traced function or module.
        f: path, or file that is open for bytes.

    >>> import io, ndgrad
    >>> traced = ndgrad.jit.trace(lambda x: x.sin().sum(), ndgrad.zeros(2))
    >>> file = io.BytesIO()
    >>> ndgrad.jit.save(traced, file)
    >>> ndgrad.jit.load(file)(ndgrad.zeros(5))
    tensor(0.)
    """
    from ndgrad import export as programs  # needed for files only

    program = m.__dict__.get("_program") if builtins.isinstance(m, ScriptModule) else None
    if program is None:
        if m not in _examples:
            raise RuntimeError(
                f"jit.save: {type(m).__name__} has no program: nothing says with which arguments it is called. Use "
                "ndgrad.jit.trace(m, example_inputs) or ndgrad.export.export. [nd-export]"
            )
        args, kwargs = _examples[m]
        open_sizes = tree_map(
            lambda t: dict.fromkeys(range(t.dim()), programs.Dim.AUTO) if builtins.isinstance(t, Variable) else None,
            (*args, *kwargs.values()),
        )
        function = m if builtins.isinstance(m, Module) else m.function
        program = programs.export(function, args, kwargs, dynamic_shapes=open_sizes)
    programs.save(program, f, extra_files=_extra_files)


def load(
    f: str | os.PathLike[str] | IO[bytes],
    map_location: Any = None,
    _extra_files: dict[str, Any] | None = None,
    _restore_shapes: bool = False,
) -> ScriptModule:
    """Return a traced function or module that `save` wrote, as a module. No code of the file runs.

    Args:
        f: path, or file that is open for bytes.
        map_location: device of the module.
    """
    from ndgrad.export import load as load_program  # programs are needed for files only

    program = load_program(f, extra_files=_extra_files)
    made = _as_script(program.module())
    made.__dict__["_program"] = program
    return made if map_location is None else made.to(map_location)


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
    """Try the methods of a module with the given inputs, and return it as a `ScriptModule`.

    Args:
        mod: module.
        inputs: arguments of each method, by name.
        optimize: accepted as in torch; has no effect.
        check_trace: whether the result is compared with the uncompiled one.
        check_inputs: accepted as in torch; has no effect: `inputs` are compared.
        check_tolerance: largest relative and absolute difference.

    >>> import ndgrad
    >>> m = ndgrad.nn.Linear(2, 1)
    >>> isinstance(ndgrad.jit.trace_module(m, {"forward": ndgrad.ones(1, 2)}), ndgrad.jit.ScriptModule)
    True
    """
    made = _as_script(mod)
    for name, example in inputs.items():
        traced = trace(
            mod if name == "forward" else getattr(mod, name),
            example,
            check_trace=check_trace,
            check_tolerance=check_tolerance,
        )
        if name == "forward":
            made = traced
    return made


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


# ----- hints for torch's compiler, without effect here ----------------------------------------------------------------


def ignore(drop: Any = False, **_: Any) -> Any:
    """Return the function: torch's decorator of functions that are not compiled.

    Args:
        drop: function, or torch's option of the decorator, which has no effect.
    """
    return drop if callable(drop) else (lambda function: function)


def unused(fn: F) -> F:
    """Return the method: torch's decorator of methods that are unused in compiled code.

    Args:
        fn: function or method.
    """
    return fn


def export(fn: F) -> F:
    """Return the method: torch's decorator of methods to compile although forward does not call them.

    Args:
        fn: function or method.
    """
    return fn


def interface(obj: T) -> T:
    """Return the class: torch's decorator of interfaces.

    Args:
        obj: class.
    """
    return obj


script_method = unused
script_if_tracing = _script_if_tracing = unused


def annotate(the_type: Any, the_value: T) -> T:
    """Return the value: torch's annotation of its type.

    Args:
        the_type: type of the value.
        the_value: value.
    """
    return the_value


def isinstance(obj: Any, target_type: Any) -> bool:
    """Same as Python's `isinstance`, which also accepts `List[int]` and similar types: parameters in brackets are
    ignored.

    Args:
        obj: any object.
        target_type: type, or tuple of types.
    """
    targets = target_type if builtins.isinstance(target_type, tuple) else (target_type,)
    return builtins.isinstance(obj, tuple(getattr(t, "__origin__", t) or t for t in targets))


def _overload(func: F) -> F:
    """Return the function: torch's mark of one signature of several. The last definition, without the mark, runs."""
    return func


_overload_method = _overload


class Attribute:
    """Value with its type, for torch's compiler.

    Args:
        value: value.
        type: its type.
    """

    def __init__(self, value: Any, type: Any) -> None:
        self.value, self.type = value, type


# ----- inference ------------------------------------------------------------------------------------------------------


def freeze(
    mod: Module, preserved_attrs: Sequence[str] | None = None, optimize_numerics: bool = True, **_: Any
) -> Module:
    """Return the module itself, which must be in eval mode, for inference.

    Args:
        mod: module.
        preserved_attrs: accepted as in torch; has no effect, because nothing is removed.
        optimize_numerics: accepted as in torch; has no effect.
    """
    if mod.training:
        raise RuntimeError(
            "Freezing is currently only implemented for modules in eval mode. Call eval() first. [nd-call-order]"
        )
    return mod


def optimize_for_inference(mod: Module, other_methods: Sequence[str] | None = None) -> Module:
    """Return the module itself, for inference.

    Args:
        mod: module.
        other_methods: accepted as in torch; has no effect.
    """
    return mod


def set_fusion_strategy(strategy: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Set how many kinds of arguments each function of `script` is compiled for, and return the setting before.

    Shapes are always those of the compiled kind, so "STATIC" and "DYNAMIC" entries add up.

    Args:
        strategy: pairs of `"STATIC"` or `"DYNAMIC"` and a number of kinds.

    >>> import ndgrad
    >>> before = ndgrad.jit.set_fusion_strategy([("STATIC", 4)])
    >>> ndgrad.jit.set_fusion_strategy(before)
    [('STATIC', 4)]
    """
    for kind, count in strategy:
        if kind not in ("STATIC", "DYNAMIC") or count < 0:
            raise ValueError(
                f"set_fusion_strategy: {(kind, count)!r} is not a pair of STATIC or DYNAMIC and a count. [nd-option]"
            )
    before, Strategy.steps = Strategy.steps, list(strategy)
    return before


_onednn = False


def enable_onednn_fusion(enabled: bool) -> None:
    """Allow or forbid kernels of oneDNN, which is not used.

    Args:
        enabled: new value of the switch.
    """
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

    Args:
        func: function to call.
        args, kwargs: its arguments.

    >>> import ndgrad
    >>> ndgrad.jit.wait(ndgrad.jit.fork(ndgrad.exp, ndgrad.zeros(1)))
    tensor([1.])
    """
    future: Future[T] = Future()
    future.set_result(func(*args, **kwargs))
    return future


def wait(future: Future[T]) -> T:
    """Return the value of a future.

    Args:
        future: future of `fork`.
    """
    return future.wait()


_fork, _wait = fork, wait  # torch's names inside scripted functions

# torch's names in `torch._jit_internal`.
_Final = Final


def _copy_to_script_wrapper(fn: F) -> F:
    """Return a method unchanged: a scripted module keeps all methods of its class.

    Args:
        fn: method.
    """
    return fn


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


# torch's module of this name. The import from `__future__` above uses the same name.
globals()["annotations"] = _type_annotations

_refuse_absent(__name__)
