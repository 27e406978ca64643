"""Nested containers of tensors (pytrees): flatten, rebuild, map, register."""

from __future__ import annotations

from ndgrad._src.foundations.pytree import (
    LEAF as LEAF,
)
from ndgrad._src.foundations.pytree import (
    PyTree as PyTree,
)
from ndgrad._src.foundations.pytree import (
    TreeSpec as TreeSpec,
)
from ndgrad._src.foundations.pytree import (
    broadcast_prefix as broadcast_prefix,
)
from ndgrad._src.foundations.pytree import (
    leaf_paths as leaf_paths,
)
from ndgrad._src.foundations.pytree import (
    register_pytree_node as register_pytree_node,
)
from ndgrad._src.foundations.pytree import (
    tree_all as tree_all,
)
from ndgrad._src.foundations.pytree import (
    tree_any as tree_any,
)
from ndgrad._src.foundations.pytree import (
    tree_flatten as tree_flatten,
)
from ndgrad._src.foundations.pytree import (
    tree_leaves as tree_leaves,
)
from ndgrad._src.foundations.pytree import (
    tree_map as tree_map,
)
from ndgrad._src.foundations.pytree import (
    tree_map_only as tree_map_only,
)
from ndgrad._src.foundations.pytree import (
    tree_structure as tree_structure,
)
from ndgrad._src.foundations.pytree import (
    tree_unflatten as tree_unflatten,
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
