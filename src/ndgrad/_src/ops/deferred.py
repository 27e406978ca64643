"""Functions whose code is written when they are first called.

Making the code of every op when the package is imported would take longer than the rest of the import. A
deferred function is the real one from the start: the object that is in namespaces, tables and pickles stays, and
its first call gives it its code. Code that depends on what there is in the process can be written anew.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from types import FunctionType
from typing import Any


def _first_call(*args: Any, **kwargs: Any) -> Any:
    fill()  # type: ignore[name-defined]  # noqa: F821  # in the globals of the function whose code this is
    return itself(*args, **kwargs)  # type: ignore[name-defined]  # noqa: F821


#: What gave functions their code, and would give them other code when it is called again.
_writers: list[Callable[[], None]] = []


def renew() -> None:
    """Write the code of all functions anew: what it depends on has changed (arrays on a device have appeared)."""
    writers = list(_writers)
    _writers.clear()
    for write in writers:
        write()


def renewable(make: Callable[[], Callable[..., Any]]) -> Callable[..., Any]:
    """The function that `make` gives, whose code can be written anew."""
    function: Any = make()

    def write() -> None:
        made: Any = make()
        function.__globals__.update(made.__globals__)
        function.__dict__.update(made.__dict__)
        function.__code__ = made.__code__

    _writers.append(write)
    return function


def deferred(name: str, make: Callable[[], Callable[..., Any]]) -> FunctionType:
    """A function called `name` that takes over the code of `make()` at its first call."""
    scope: dict[str, Any] = {"__builtins__": builtins}
    function = FunctionType(_first_call.__code__, scope, name)

    def fill() -> None:
        _writers.append(fill)
        made: Any = make()
        scope.update(made.__globals__)
        function.__dict__.update(made.__dict__)
        function.__defaults__, function.__kwdefaults__ = made.__defaults__, made.__kwdefaults__
        function.__code__ = made.__code__  # last: another thread may be calling

    scope["fill"], scope["itself"] = fill, function
    return function
