"""Names of the tensors of a graph: names that were given, and the variables of the code that requests a
picture."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from inspect import CO_OPTIMIZED
from types import FrameType
from typing import TYPE_CHECKING, Any

from ndgrad._src.core.node import Node
from ndgrad._src.core.variable import Variable

if TYPE_CHECKING:
    from ndgrad._typing import Payload

#: Names used by the interpreter or a notebook: `_`, `_12`, `__`, and private ones.
_HIDDEN = "_"
#: A container with more elements holds data and is not searched for names.
_MANY = 1000
#: References to a frame's dict of variables if only the frame and `_locals` hold it: these two, and
#: that of the counting call.
_HELD_BY_FRAME = 3


class Names:
    """Names of leaves by identity, and of results by their node.

    `params` are given names: a dict, pairs such as `model.named_parameters()`, or a module. Names of a frame's
    variables come second; a module among them provides its parameters' names.
    """

    def __init__(self, params: object = None, frame: FrameType | None = None) -> None:
        self._tensors: dict[int, list[str]] = {}
        self._results: dict[Node, list[tuple[int, str]]] = {}
        self._alive: list[Any] = []  # keeps identities unique
        for name, value in _pairs(params):
            if not isinstance(value, Variable):
                raise TypeError(
                    f"params gives the name {name!r} to {type(value).__name__}. Give names to tensors. [nd-type]"
                )
            self._add(name, value)
        if frame is not None:
            # A function's variable comes before one of its module, because the nearer one is what the reader sees.
            for variables in (_locals(frame), frame.f_globals):
                shown = {name: value for name, value in list(variables.items()) if not name.startswith(_HIDDEN)}
                for kind in (_tensors_in, _parameters_in, _elements_in):
                    for name, value in shown.items():
                        for path, tensor in kind(value):
                            self._add(name + path, tensor)

    def _add(self, name: str, value: Payload) -> None:
        known = self._tensors.get(id(value))
        if known is not None:
            return  # The first name is the best: given names, then the nearest variable's.
        self._tensors[id(value)] = [name]
        self._alive.append(value)
        node = value._node
        if node is not None:
            number = 0 if value._meta is None else value._meta.output_nr
            self._results.setdefault(node, []).append((number, name))

    def leaf_names(self, leaf: Variable) -> list[str]:
        return list(self._tensors.get(id(leaf), ()))

    def result_names(self, node: Node) -> list[str]:
        """Return the names of a node's results. One result may have two names (a tensor and its alias in history)."""
        return [name for _, name in sorted(self._results.get(node, ()), key=lambda pair: pair[0])]


def _locals(frame: FrameType) -> dict[str, Any]:
    """Return the variables of a frame. Before Python 3.13 a function's frame keeps the dict that it returns, with every
    value in it, until the function returns: a graph that was inspected once would live on. So the dict is emptied,
    unless it has other references."""
    variables = frame.f_locals
    found = dict(variables)
    if (
        isinstance(variables, dict)
        and frame.f_code.co_flags & CO_OPTIMIZED
        and sys.getrefcount(variables) <= _HELD_BY_FRAME
    ):
        variables.clear()
    return found


def _tensors_in(value: Payload) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Variable):
        yield "", value


def _parameters_in(value: Payload) -> Iterator[tuple[str, Any]]:
    if not isinstance(value, (type, Variable)) and callable(getattr(value, "named_parameters", None)):
        for path, tensor in value.named_parameters():
            yield f".{path}" if path else "", tensor


def _elements_in(value: Payload) -> Iterator[tuple[str, Any]]:
    if not isinstance(value, (dict, list, tuple)) or len(value) > _MANY:
        return
    for key, tensor in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(tensor, Variable) and isinstance(key, (str, int)):
            yield f"[{key!r}]", tensor


def _pairs(params: Any) -> Iterator[tuple[str, Any]]:
    if params is None:
        return
    if callable(getattr(params, "named_parameters", None)):
        params = params.named_parameters()
    elif isinstance(params, Mapping):
        params = params.items()
    try:
        for name, value in params:
            yield str(name), value
    except (TypeError, ValueError):
        raise TypeError(
            f"params takes a dict of names and tensors, pairs of them, or a module, but got {type(params).__name__}. "
            'Write params={"w": w}. [nd-type]'
        ) from None
