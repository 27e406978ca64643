"""`ndgrad.compile`: a function that is traced for each kind of arguments and then runs as a program."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ndgrad.autograd.modes import modes, process, thread
from ndgrad.autograd.variable import Variable, requires_grad
from ndgrad.compiler.graph_break import GraphBreak
from ndgrad.compiler.specialise import Specialisation
from ndgrad.dtypes import get_default_dtype
from ndgrad.pytree import tree_flatten


class CompiledFunction:
    """A function with its specialisations: one for each kind of arguments that it has met."""

    def __init__(self, function: Callable[..., Any], fullgraph: bool = False) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.fullgraph = fullgraph
        self.entries: dict[Any, Specialisation | GraphBreak] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if process.busy and not modes().only_no_grad():
            return self.function(*args, **kwargs)
        flat, spec = tree_flatten((args, kwargs))
        try:
            key = (spec, thread.grad_enabled, get_default_dtype(), *[_kind(leaf, i, flat) for i, leaf in enumerate(flat)])
            entry = self.entries.get(key)
        except TypeError as error:
            if self.fullgraph:
                raise
            del error
            return self.function(*args, **kwargs)
        if entry is None:
            try:
                entry = Specialisation(self.function, flat, spec, getattr(self.function, "__name__", "program"))
            except GraphBreak as reason:
                entry = reason
            self.entries[key] = entry
        if isinstance(entry, GraphBreak):
            if self.fullgraph:
                raise entry
            return self.function(*args, **kwargs)
        return entry(flat)


def _kind(leaf: Any, position: int, flat: list[Any]) -> Any:
    """What a specialisation depends on in one argument."""
    if isinstance(leaf, Variable):
        array = leaf._array
        first = next(i for i, other in enumerate(flat) if other is leaf)
        return leaf.__class__, array.shape, array.dtype, requires_grad(leaf), array.flags.c_contiguous, first - position
    return leaf.__class__, leaf
