"""Nested structures of numbers as one vector, and back, inside derivatives too."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ndgrad._src.foundations.pytree import tree_flatten, tree_unflatten


def flatten(value: Any) -> tuple[Any, Callable[[Any], Any]]:
    """Return the numbers in nested lists, tuples and dicts (by sorted keys) as a vector, and the inverse function.

    Args:
        value: number, array, or nested lists, tuples and dicts of them.

    >>> import numpy as np
    >>> from ndgrad.compat.autograd.misc import flatten
    >>> vector, unflatten = flatten({"w": np.ones((1, 2)), "b": 3.0})
    >>> vector
    array([3., 1., 1.])
    >>> unflatten(2 * vector)["w"]
    array([[2., 2.]])
    """
    leaves, spec = tree_flatten(_sort_keys(value))
    shapes = [np.shape(leaf) for leaf in leaves]
    ends = np.cumsum([math.prod(s) for s in shapes]).tolist()
    vector = np.concatenate([np.reshape(leaf, (-1,)) for leaf in leaves]) if leaves else np.zeros(0)

    def unflatten(flat: Any) -> Any:
        starts = [0, *ends[:-1]]
        parts = [np.reshape(flat[a:b], s) for a, b, s in zip(starts, ends, shapes, strict=True)] if leaves else []
        return _reorder_like(value, tree_unflatten(parts, spec))

    return vector, unflatten


def _reorder_like(value: Any, tree: Any) -> Any:
    """Return the tree with the keys of its dicts in the original order."""
    if type(value) is dict:
        return {key: _reorder_like(v, tree[key]) for key, v in value.items()}
    return type(value)(map(_reorder_like, value, tree)) if type(value) in (list, tuple) else tree


def _sort_keys(value: Any) -> Any:
    if type(value) is dict:
        return {key: _sort_keys(value[key]) for key in sorted(value)}
    return type(value)(map(_sort_keys, value)) if type(value) in (list, tuple) else value
