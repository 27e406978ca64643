"""Functions whose code is generated at the first call.

Generating the code of every op at import would take longer than the rest of the import. A deferred function is the
final object from the start: namespaces, tables and pickles refer to it, and its first call gives it its code. Code that
depends on the state of the process can be generated again.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from types import FunctionType
from typing import Any


def _first_call(*args: Any, **kwargs: Any) -> Any:
    fill()  # type: ignore[name-defined]  # noqa: F821  # defined in the globals of the deferred function
    return itself(*args, **kwargs)  # type: ignore[name-defined]  # noqa: F821


#: Functions that generated code, and generate it again when called.
_writers: list[Callable[[], None]] = []


def renew() -> None:
    """Generate the code of all functions again, because its conditions have changed (the first device array exists)."""
    writers = list(_writers)
    _writers.clear()
    for write in writers:
        write()


def make_renewable(make: Callable[[], Callable[..., Any]]) -> Callable[..., Any]:
    """Return the function made by `make`, whose code `renew` can generate again."""
    function: Any = make()

    def write() -> None:
        made: Any = make()
        function.__globals__.update(made.__globals__)
        function.__dict__.update(made.__dict__)
        function.__code__ = made.__code__

    _writers.append(write)
    return function


def make_deferred(name: str, make: Callable[[], Callable[..., Any]]) -> FunctionType:
    """Return a function called `name` that takes over the code of `make()` at its first call."""
    scope: dict[str, Any] = {"__builtins__": builtins}
    function = FunctionType(_first_call.__code__, scope, name)

    def fill() -> None:
        _writers.append(fill)
        made: Any = make()
        scope.update(made.__globals__)
        function.__dict__.update(made.__dict__)
        function.__defaults__, function.__kwdefaults__ = made.__defaults__, made.__kwdefaults__
        function.__code__ = made.__code__  # last, because another thread may be calling

    scope["fill"], scope["itself"] = fill, function
    return function
