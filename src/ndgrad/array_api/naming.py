"""Names, docstrings and signatures of functions that only call one of ndgrad.numpy."""

from __future__ import annotations

from collections.abc import Callable
from inspect import cleandoc
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from ndgrad._typing import ArrayLike

F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R")


def rename_function(function: F, module: str, name: str, ours: Any) -> F:
    """Rename a function to the name that its users see, with the docstring of the function of ndgrad.numpy that it
    calls.
    """
    function.__name__ = function.__qualname__ = name
    function.__module__ = module
    return like(ours)(function)


def like(ours: Any) -> Callable[[F], F]:
    """Return a decorator that adds the docstring of a function of ndgrad.numpy, with this namespace and this function's
    name in its example.
    """

    def with_docstring(function: F) -> F:
        text = cleandoc(ours.__doc__).replace(f"np.{ours.__name__}(", f"xp.{function.__name__}(")
        for theirs, here in {
            "ndgrad.numpy as np": "ndgrad.array_api as xp",
            "np.array(": "xp.asarray(",
            "np.": "xp.",
        }.items():
            text = text.replace(theirs, here)
        function.__doc__ = text
        return function

    return with_docstring


def make_unary(
    ours: Callable[..., R], module: str = "ndgrad.array_api", name: str | None = None
) -> Callable[[ArrayLike], R]:
    """Return a function of ndgrad.numpy with the signature `x, /`."""

    def function(x: ArrayLike, /) -> R:
        return ours(x)

    return rename_function(function, module, name or ours.__name__, ours)


def make_binary(
    ours: Callable[..., R], module: str = "ndgrad.array_api", name: str | None = None
) -> Callable[[ArrayLike, ArrayLike], R]:
    """Return a function of ndgrad.numpy with the signature `x1, x2, /`."""

    def function(x1: ArrayLike, x2: ArrayLike, /) -> R:
        return ours(x1, x2)

    return rename_function(function, module, name or ours.__name__, ours)
