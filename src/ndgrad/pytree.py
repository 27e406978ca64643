"""Nested containers of tensors (pytrees): flatten, rebuild, map, register."""

from __future__ import annotations

from ndgrad._src.foundations.pytree import (
    LEAF,
    PyTree,
    TreeSpec,
    broadcast_prefix,
    leaf_paths,
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
    "LEAF",
    "PyTree",
    "TreeSpec",
    "broadcast_prefix",
    "leaf_paths",
    "register_pytree_node",
    "tree_all",
    "tree_any",
    "tree_flatten",
    "tree_leaves",
    "tree_map",
    "tree_map_only",
    "tree_structure",
    "tree_unflatten",
]
