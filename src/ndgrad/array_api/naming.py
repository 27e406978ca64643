"""Names and signatures of functions that one factory makes many of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def named(function: Callable[..., Any], module: str, name: str, doc: str | None = None) -> Callable[..., Any]:
    """The function under the name and with the docstring that its users see."""
    function.__name__ = function.__qualname__ = name
    function.__module__ = module
    function.__doc__ = doc
    return function
