"""Functions whose code is written when they are first called.

Making the code of every op when the package is imported would take longer than the rest of the import. A
deferred function is the real one from the start: the object that is in namespaces, tables and pickles stays, and
its first call gives it its code.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from types import FunctionType
from typing import Any


def _first_call(*args: Any, **kwargs: Any) -> Any:
    fill()  # type: ignore[name-defined]  # noqa: F821  # in the globals of the function whose code this is
    return itself(*args, **kwargs)  # type: ignore[name-defined]  # noqa: F821


def deferred(name: str, make: Callable[[], Callable[..., Any]]) -> FunctionType:
    """A function called `name` that takes over the code of `make()` at its first call."""
    scope: dict[str, Any] = {"__builtins__": builtins}
    function = FunctionType(_first_call.__code__, scope, name)

    def fill() -> None:
        made: Any = make()
        scope.update(made.__globals__)
        function.__dict__.update(made.__dict__)
        function.__defaults__, function.__kwdefaults__ = made.__defaults__, made.__kwdefaults__
        function.__code__ = made.__code__  # last: another thread may be calling

    scope["fill"], scope["itself"] = fill, function
    return function
