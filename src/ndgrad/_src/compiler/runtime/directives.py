"""Functions of `torch.compiler` that direct torch's compiler, with their meaning here."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar

from ndgrad._src.compiler.runtime.entry import is_compiling
from ndgrad._src.compiler.runtime.function import CompiledFunction
from ndgrad._src.compiler.runtime.options import NATIVE, ON_NUMPY
from ndgrad._src.foundations.public_path import set_module

__all__ = [
    "allow_in_graph", "assume_constant_result", "cudagraph_mark_step_begin", "is_dynamo_compiling", "is_exporting",
    "list_backends", "nested_compile_region", "set_stance",
]

F = TypeVar("F", bound=Callable[..., Any])

is_dynamo_compiling = is_compiling


@set_module("ndgrad.compiler")
def allow_in_graph(fn: F) -> F:
    """Return the function itself. Torch's compiler does not look inside such a function; here its ops are traced like
    others.

    Args:
        fn: function.

    >>> import ndgrad
    >>> ndgrad.compiler.allow_in_graph(ndgrad.sin) is ndgrad.sin
    True
    """
    return fn


@set_module("ndgrad.compiler")
def assume_constant_result(fn: F) -> F:
    """Return the function itself. Torch assumes a constant result; here the function runs in each trace, and its
    results are guarded like others.

    Args:
        fn: function.
    """
    return fn


@set_module("ndgrad.compiler")
def nested_compile_region(fn: Any = None, **_: Any) -> Any:
    """Return the function itself. Torch shares its code among calls in one program; here repeated blocks are found.

    Args:
        fn: function. Without it, the result is a decorator.
    """
    return (lambda function: function) if fn is None else fn


@set_module("ndgrad.compiler")
def cudagraph_mark_step_begin() -> None:
    """Do nothing. Torch marks the start of a step with CUDA graphs here.

    >>> import ndgrad
    >>> ndgrad.compiler.cudagraph_mark_step_begin()
    """


@set_module("ndgrad.compiler")
def is_exporting() -> bool:
    """True if `torch.export` reads the code: never."""
    return False


@set_module("ndgrad.compiler")
def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list[str]:
    """Return the backends that `compile` takes.

    Args:
        exclude_tags: accepted as in torch; has no effect, because no backend has tags.

    >>> import ndgrad
    >>> "inductor" in ndgrad.compiler.list_backends()
    True
    """
    return sorted({*NATIVE, *ON_NUMPY})


@set_module("ndgrad.compiler")
class set_stance:
    """Set the behaviour of compiled functions from here on, or in a block.

    Args:
        stance: `"default"`, or `"force_eager"` to run compiled functions uncompiled.
        skip_guard_eval_unsafe: must be False: guards are always checked.
        force_backend: must be None: `compile(backend=...)` chooses backends.

    >>> import ndgrad
    >>> f = ndgrad.compile(lambda x: x * 2)
    >>> with ndgrad.compiler.set_stance("force_eager"):
    ...     f(ndgrad.ones(1))
    tensor([2.])
    """

    def __init__(self, stance: str = "default", *, skip_guard_eval_unsafe: bool = False, force_backend: Any = None) -> None:
        if stance not in ("default", "force_eager"):
            raise RuntimeError(
                f"compiler.set_stance({stance!r}): there are 'default' and 'force_eager' here. Functions that cannot be "
                "compiled run eagerly; compile(fullgraph=True) makes that an error. [nd-option]"
            )
        if skip_guard_eval_unsafe or force_backend is not None:
            raise RuntimeError(
                "compiler.set_stance: guards are always checked, and backends are chosen by compile(backend=...). "
                "[nd-unsupported]"
            )
        self._token: Any = CompiledFunction.disabled.set(stance == "force_eager")

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: TracebackType | None) -> None:
        CompiledFunction.disabled.reset(self._token)

    def __call__(self, fn: F) -> F:
        """Decorate a function so that it runs in this stance."""
        import functools  # rarely needed

        forced = CompiledFunction.disabled.get()
        CompiledFunction.disabled.reset(self._token)

        @functools.wraps(fn)
        def run(*args: Any, **kwargs: Any) -> Any:
            with set_stance("force_eager" if forced else "default"):
                return fn(*args, **kwargs)

        return run  # type: ignore[return-value]  # same signature
