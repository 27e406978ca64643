"""Trees of containers, under the name that torch programs import them by. See ndgrad.pytree."""

from __future__ import annotations

from ndgrad.pytree import (
    TreeSpec,
    register_pytree_node,
    tree_all,
    tree_any,
    tree_flatten,
    tree_leaves,
    tree_map,
    tree_map_only,
    tree_structure,
    tree_unflatten,
)

__all__ = [
    "TreeSpec", "register_pytree_node", "tree_all", "tree_any", "tree_flatten", "tree_leaves", "tree_map",
    "tree_map_only", "tree_structure", "tree_unflatten",
]  # fmt: skip
