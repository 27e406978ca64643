"""Nested arguments of traced functions: flatten them by a structure that was recorded when the function was traced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ndgrad._src.foundations import pytree
from ndgrad._src.foundations.pytree import TreeSpec, flatten_up_to

__all__ = ["register_pytree_flatten_spec", "tree_flatten_spec"]

#: Class -> a function that returns the children of an instance for a structure.
SUPPORTED_NODES: dict[type[Any], Callable[[Any, TreeSpec], list[Any]]] = {}


def register_pytree_flatten_spec(
    cls: type[Any],
    flatten_fn_spec: Callable[[Any, TreeSpec], list[Any]],
    flatten_fn_exact_match_spec: Callable[[Any, TreeSpec], bool] | None = None,
) -> None:
    """Register a function that returns the children of instances of a class. A registered pytree node needs none."""
    SUPPORTED_NODES[cls] = flatten_fn_spec


def tree_flatten_spec(tree: Any, spec: TreeSpec) -> list[Any]:
    """Return the leaves of a tree that has a recorded structure. A subtree where the structure has a leaf is one leaf.

    >>> from ndgrad.fx._pytree import tree_flatten_spec
    >>> from ndgrad.pytree import tree_structure
    >>> tree_flatten_spec([{"a": 1, "b": [2, 3]}], tree_structure([{"a": 0, "b": 0}]))
    [1, [2, 3]]
    """
    if isinstance(tree, tuple) and not hasattr(tree, "_fields"):
        tree = list(tree) if spec.type is list else tree
    return flatten_up_to(spec, tree)


_tree_flatten = pytree.tree_flatten
