"""Nested tensors among the arguments and results of function transforms, which pass through by their values.

A transform differentiates tensors of a level. For a nested tensor these are its values, and the function receives a
nested tensor over them. Programs that have not loaded ndgrad.nested are unaffected.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from ndgrad._src.foundations import registry
from ndgrad._src.foundations.pytree import register_pytree_node, tree_leaves, tree_map


class _Values:
    """A nested tensor in parts: a tree node whose child is its values."""

    __slots__ = ("layout", "values")

    def __init__(self, values: Any, layout: Any) -> None:
        self.values, self.layout = values, layout


class _SameLayout:
    """A layout compared by its ragged size and dimension."""

    def __init__(self, layout: Any) -> None:
        self.layout = layout

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _SameLayout)
            and self.layout.dim == other.layout.dim
            and self.layout.same_rows(other.layout)
        )

    def __hash__(self) -> int:
        return hash((self.layout.size, self.layout.dim))

    def __repr__(self) -> str:
        return f"NestedTensor with {self.layout.size!r} = {self.layout.size.describe()} as dimension {self.layout.dim}"


register_pytree_node(
    _Values, lambda v: ([v.values], _SameLayout(v.layout)), lambda children, same: _Values(children[0], same.layout)
)


def may_be_nested(function: Any) -> bool:
    """True if a function may receive nested tensors: their package is loaded, and they are not split already."""
    return "ndgrad.nested.tensor" in sys.modules and not getattr(function, "by_values", False)


def split_nested(tree: Any) -> Any:
    from ndgrad.nested.tensor import layout_of, values_of  # `may_be_nested` has checked that it is loaded

    kind = registry.nested.NestedTensor
    if not any(isinstance(t, kind) for t in tree_leaves(tree)):
        return tree
    return tree_map(lambda t: _Values(values_of(t), layout_of(t)) if isinstance(t, kind) else t, tree)


def rebuild_nested(tree: Any) -> Any:
    from ndgrad.nested.tensor import build  # `may_be_nested` has checked that it is loaded

    return tree_map(
        lambda t: build(t.values, t.layout) if isinstance(t, _Values) else t,
        tree,
        is_leaf=lambda t: isinstance(t, _Values),
    )


def convert_to_values(
    function: Callable[..., Any], inputs: tuple[Any, ...]
) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return a function of dense tensors equivalent to one of nested tensors, with dense results, and its inputs."""
    kind = registry.nested.NestedTensor
    apart = [split_nested(t) for t in inputs]

    def run(*args: Any) -> Any:
        given = [_Values(a, t.layout) if isinstance(t, _Values) else a for a, t in zip(args, apart, strict=True)]
        found = function(*rebuild_nested(given))
        every = found if isinstance(found, (tuple, list)) else (found,)
        dense = tuple(t.values() if isinstance(t, kind) else t for t in every)
        return dense if isinstance(found, (tuple, list)) else dense[0]

    run.by_values = True  # type: ignore[attr-defined]  # functions take attributes
    run.__wrapped__ = function  # type: ignore[attr-defined]  # whose name and parameters messages tell
    leaves = [
        t.values.detach().clone().requires_grad_(x.requires_grad) if isinstance(t, _Values) else t
        for t, x in zip(apart, inputs, strict=True)
    ]
    return run, tuple(leaves)


def call_by_values(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the function to split nested arguments and results."""

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        return split_nested(function(*rebuild_nested(args), **kwargs))

    run.by_values = True  # type: ignore[attr-defined]  # functions take attributes
    return run
