"""Public paths of classes and functions that are defined in `ndgrad._src`.

Texts, error messages and pickles show `__module__`. A public name has the module that users import it from, as
NumPy's and JAX's names do. `set_module` sets it, and `tests/test_public_paths.py` checks all public names.

Python's `inspect` finds the source of functions by their code. It looks for the source of a class in the file of its
`__module__`; `defining_module` gives tools the right one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T", bound=Callable[..., Any])

#: Modules that define public classes.
_defined_in: dict[type[Any], str] = {}


def set_module(home: str) -> Callable[[T], T]:
    """Decorate a public class or function: show `home` as its module."""

    def decorate(thing: T) -> T:
        if isinstance(thing, type):
            _defined_in[thing] = thing.__module__
        thing.__module__ = home
        return thing

    return decorate


def defining_module(cls: type[Any]) -> str:
    """Return the name of the module that defines a class."""
    return _defined_in.get(cls, cls.__module__)
