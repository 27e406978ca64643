"""Conversion of a custom function's arguments to positions.

Backward returns gradients by position, so keyword arguments need a position too: a tensor left as a keyword would
silently get no gradient.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

from ndgrad._src.core.variable import Variable, requires_grad


class _Parameters(NamedTuple):
    """The positional parameters of a forward without ctx, their defaults, and True if it takes any keyword."""

    names: tuple[str, ...]
    defaults: tuple[Any, ...]
    any_keyword: bool


_known: weakref.WeakKeyDictionary[Any, _Parameters] = weakref.WeakKeyDictionary()


def _parameters(forward: Any, skip: int) -> _Parameters:
    known = _known.get(forward)
    if known is None:
        kinds = inspect.Parameter
        found = list(inspect.signature(forward).parameters.values())
        plain = [p for p in found if p.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)][skip:]
        known = _known[forward] = _Parameters(
            tuple(p.name for p in plain),
            tuple(p.default for p in plain),
            any(p.kind is kinds.VAR_KEYWORD for p in found),
        )
    return known


def place_keywords(
    owner: str, forward: Callable[..., Any], separate: bool, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return arguments with keywords moved to their positions, and the keywords without a position.

    `separate`: forward takes no ctx; defaults are filled in too, because setup_context receives all inputs.
    """
    parameters = _parameters(forward, 0 if separate else 1)
    placed, rest = list(args), dict(kwargs)
    for name, default in list(zip(parameters.names, parameters.defaults))[len(args) :]:
        if name in rest:
            placed.append(rest.pop(name))
        elif separate and default is not inspect.Parameter.empty:
            placed.append(default)
        elif any(n in rest for n in parameters.names[len(placed) :]):
            raise TypeError(
                f"{owner}.apply() got a keyword argument behind {name!r}, which was left out. "
                f"Gradients are returned by position: give {name!r} too. [nd-function]"
            )
        else:
            break
    for name, value in rest.items():
        if not parameters.any_keyword or name in parameters.names:
            raise TypeError(
                f"{owner}.apply() got an unexpected keyword argument {name!r}, or one twice. An argument that forward "
                "takes by keyword only has no position for its gradient. Make it a positional parameter. [nd-function]"
            )
        if isinstance(value, Variable) and requires_grad(value):
            raise TypeError(
                f"{owner}.apply() got {name!r}, a tensor that requires grad, among forward's **keywords, "
                "for which backward returns no gradients. Give forward a parameter of that name. [nd-function]"
            )
    return tuple(placed), rest
