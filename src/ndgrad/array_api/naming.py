"""Names, docstrings and signatures of functions that only call one of ndgrad.numpy."""

from __future__ import annotations

from collections.abc import Callable
from inspect import cleandoc
from typing import TYPE_CHECKING, Any, TypeVar

from ndgrad._src.foundations import docstrings

if TYPE_CHECKING:
    from ndgrad._typing import ArrayLike

F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R")


#: Descriptions of the parameters of functions of one and of two arrays.
UNARY = {"x": "array of numbers."}
BINARY = dict.fromkeys(("x1", "x2"), "arrays or Python numbers, which broadcast.")


def rename_function(function: F, module: str, name: str, ours: Any, **descriptions: str) -> F:
    """Rename a function to the name that its users see, with the docstring of the function of ndgrad.numpy that it
    calls. See `like`.
    """
    function.__name__ = function.__qualname__ = name
    function.__module__ = module
    return like(ours, **descriptions)(function)


def like(ours: Any, purpose: str = "", **descriptions: str) -> Callable[[F], F]:
    """Return a decorator that adds the docstring of a function of ndgrad.numpy, with this namespace and this function's
    name in its example.

    Parameters of one name share a description. The others correspond in their order. Sections about parameters that
    this function does not have are left out.

    Args:
        ours: function of ndgrad.numpy.
        purpose: first paragraph in place of that of `ours`.
        **descriptions: descriptions of parameters, in place of those of `ours`.
    """

    def with_docstring(function: F) -> F:
        if ours.__doc__ is None:  # python -OO
            return function
        first, sections, example = docstrings.split(cleandoc(ours.__doc__))
        theirs = docstrings.described(sections.pop("Args", ""))
        here = _parameters_of(function)
        other_names = [name for name in theirs if name not in here]
        new_names = [name for name in here if name not in theirs and name not in descriptions]
        names = dict(zip(other_names, new_names, strict=False))
        texts = {names.get(name, name): text for name, text in theirs.items()} | descriptions
        gone = [f"`{name}`" for name in other_names if name not in names]
        rest = [section for section in sections.values() if not any(name in section for name in gone)]
        text = docstrings.compose(
            purpose or first, _group({name: texts[name] for name in here if name in texts}), sections=rest
        )
        for old, new in names.items():
            text = text.replace(f"`{old}`", f"`{new}`")
        example = example.replace(f"np.{ours.__name__}(", f"xp.{function.__name__}(")
        for there, here_name in {
            "ndgrad.numpy as np": "ndgrad.array_api as xp",
            "np.array(": "xp.asarray(",
            "np.": "xp.",
        }.items():
            example = example.replace(there, here_name)
        function.__doc__ = f"{text}\n{example}\n"
        return function

    return with_docstring


def _parameters_of(function: Callable[..., Any]) -> tuple[str, ...]:
    code = function.__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def _group(descriptions: dict[str, str]) -> dict[str, str]:
    """Return descriptions in which neighbours with one text share an entry."""
    grouped: dict[str, str] = {}
    for name, text in descriptions.items():
        last = next(reversed(grouped), "")
        if grouped and grouped[last] == text:
            del grouped[last]
            name = f"{last}, {name}"
        grouped[name] = text
    return grouped


def make_unary(
    ours: Callable[..., R], module: str = "ndgrad.array_api", name: str | None = None
) -> Callable[[ArrayLike], R]:
    """Return a function of ndgrad.numpy with the signature `x, /`."""

    def function(x: ArrayLike, /) -> R:
        return ours(x)

    return rename_function(function, module, name or ours.__name__, ours)


def make_binary(
    ours: Callable[..., R], module: str = "ndgrad.array_api", name: str | None = None, **descriptions: str
) -> Callable[[ArrayLike, ArrayLike], R]:
    """Return a function of ndgrad.numpy with the signature `x1, x2, /`."""

    def function(x1: ArrayLike, x2: ArrayLike, /) -> R:
        return ours(x1, x2)

    return rename_function(function, module, name or ours.__name__, ours, **descriptions)
