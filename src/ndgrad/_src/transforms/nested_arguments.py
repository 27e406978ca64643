"""Nested tensors among the arguments and results of function transforms: they go through by their values.

What a transform differentiates is a tensor of a level; of a nested tensor its values are, and a nested tensor over them
is what the function gets. Nothing is done in programs that have not loaded ndgrad.nested.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from ndgrad._src.foundations import registry
from ndgrad._src.foundations.pytree import register_pytree_node, tree_leaves, tree_map


class _Values:
    """A nested tensor taken apart: a node of trees whose child is its values."""

    __slots__ = ("layout", "values")

    def __init__(self, values: Any, layout: Any) -> None:
        self.values, self.layout = values, layout


class _SameLayout:
    """A layout as trees compare it: by its ragged size and dimension."""

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
    """True if a function may get nested tensors: their package is loaded, and the function does not take values."""
    return "ndgrad.nested.tensor" in sys.modules and not getattr(function, "by_values", False)


def taken_apart(tree: Any) -> Any:
    from ndgrad.nested.tensor import layout_of, values_of  # loaded: `may_be_nested` has asked

    kind = registry.nested.NestedTensor
    if not any(isinstance(t, kind) for t in tree_leaves(tree)):
        return tree
    return tree_map(lambda t: _Values(values_of(t), layout_of(t)) if isinstance(t, kind) else t, tree)


def put_together(tree: Any) -> Any:
    from ndgrad.nested.tensor import build  # loaded: `may_be_nested` has asked

    return tree_map(
        lambda t: build(t.values, t.layout) if isinstance(t, _Values) else t,
        tree,
        is_leaf=lambda t: isinstance(t, _Values),
    )


def of_values(function: Callable[..., Any], inputs: tuple[Any, ...]) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """A function of dense tensors that is the same as one of nested ones, with dense results; and its inputs."""
    kind = registry.nested.NestedTensor
    apart = [taken_apart(t) for t in inputs]

    def run(*args: Any) -> Any:
        given = [_Values(a, t.layout) if isinstance(t, _Values) else a for a, t in zip(args, apart, strict=True)]
        found = function(*put_together(given))
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


def by_values(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with nested arguments and results taken apart."""

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        return taken_apart(function(*put_together(args), **kwargs))

    run.by_values = True  # type: ignore[attr-defined]  # functions take attributes
    return run
