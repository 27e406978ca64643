"""`torch.utils._contextlib`: context managers that are also decorators."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any, Self, TypeVar

from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent

F = TypeVar("F", bound=Callable[..., Any])


def context_decorator(ctx: Any, func: F) -> F:
    """Return a function that runs inside a context manager, which `ctx` is, or makes.

    A generator function is inside while it runs, and outside while it is suspended.
    """
    if hasattr(ctx, "__enter__") and callable(ctx):
        raise RuntimeError(f"{ctx!r} is both a context manager and a function. Pass one of them. [nd-type]")
    enter: Callable[[], Any] = (lambda: ctx) if hasattr(ctx, "__enter__") else ctx
    if inspect.isclass(func):
        raise RuntimeError(f"cannot decorate the class {func.__name__}. Decorate its methods. [nd-type]")
    if inspect.isgeneratorfunction(func):

        @functools.wraps(func)
        def generate(*args: Any, **kwargs: Any) -> Iterator[Any]:
            with enter():
                inner = func(*args, **kwargs)
            step, given = inner.send, None
            while True:
                try:
                    with enter():
                        value = step(given)
                except StopIteration as end:
                    return end.value
                try:
                    given, step = (yield value), inner.send
                except GeneratorExit:
                    with enter():
                        inner.close()
                    raise
                except BaseException as error:
                    given, step = error, inner.throw

        return generate  # type: ignore[return-value]  # the same signature

    @functools.wraps(func)
    def run(*args: Any, **kwargs: Any) -> Any:
        with enter():
            return func(*args, **kwargs)

    return run  # type: ignore[return-value]  # the same signature


class _DecoratorContextManager:
    """Base class of context managers that can decorate a function. Each call of it enters a clone."""

    def __call__(self, orig_func: F) -> F:
        return context_decorator(self.clone, orig_func)

    def __enter__(self) -> Any:
        raise NotImplementedError

    def __exit__(self, *error: object) -> Any:
        raise NotImplementedError

    def clone(self) -> Self:
        """Return another context manager of this kind, without arguments."""
        return self.__class__()


class _NoParamDecoratorContextManager(_DecoratorContextManager):
    """The same for classes that decorate without parentheses."""

    def __new__(cls, orig_func: Any = None) -> Any:
        made = super().__new__(cls)
        if orig_func is None:
            return made
        made.__init__()  # type: ignore[misc]  # as type.__call__ does for other objects
        return made(orig_func)


_refuse_absent(__name__)
