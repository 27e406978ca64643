"""Loop carries: structures of tensors that keep their shapes and dtypes from one round to the next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ndgrad._src.arrays.dtypes import dtype as as_dtype
from ndgrad._src.core.captures import as_captured
from ndgrad._src.core.variable import Variable, np_dtype
from ndgrad._src.foundations import registry
from ndgrad._src.foundations.pytree import TreeSpec, leaf_paths, tree_flatten, tree_leaves, tree_unflatten
from ndgrad._src.tensor.functions.data import as_tensor


class Leaves:
    """The tensors of a structure as a list, and a way to build the structure from others. None stays None; numbers and
    arrays become tensors."""

    def __init__(self, name: str, what: str, tree: object, like: Any = None) -> None:
        """`name` is the function named in errors, `what` the structure in them; `like` is a structure whose tensor
        class new tensors get."""
        self.name = name
        self.what = what
        leaves, self.spec = tree_flatten(tree)
        self.places = [i for i, leaf in enumerate(leaves) if leaf is not None]
        on_numpy = any(isinstance(t, Variable) and t.tensor_type.is_numpy_type for t in (*leaves, *tree_leaves(like)))
        self.tensors = [self._tensor(i, leaves[i], on_numpy) for i in self.places]

    def _tensor(self, place: int, leaf: Any, on_numpy: bool) -> Any:
        if isinstance(leaf, Variable):
            return as_captured(leaf)
        if not isinstance(leaf, (bool, int, float, complex, np.ndarray, np.generic)):
            raise TypeError(
                f"{self.name}: {self.what}{leaf_paths(self.spec)[place]} is {type(leaf).__name__}, but a loop or "
                "branch computes with tensors. Make it a tensor, or let the function close over it. [nd-carry]"
            )
        return registry.numpy_arguments.as_array(leaf) if on_numpy else as_tensor(leaf)

    def fill(self, tensors: Sequence[Any]) -> Any:
        """Return the structure with these tensors."""
        leaves: list[Any] = [None] * self.spec.num_leaves
        for place, t in zip(self.places, tensors, strict=True):
            leaves[place] = t
        return tree_unflatten(leaves, self.spec)

    def path(self, k: int) -> str:
        """Return the name of one of the tensors in messages."""
        return f"{self.what}{leaf_paths(self.spec)[self.places[k]]}"

    def check_like(self, tree: object, before: str, advice: str) -> list[Any]:
        """Check that a structure is like this one, and return its tensors; `before` tells a message when this one was
        valid."""
        leaves, spec = tree_flatten(tree)
        if spec != self.spec or any((leaf is None) is (i in self._set) for i, leaf in enumerate(leaves)):
            raise TypeError(
                f"{self.name}: {self.what} {before} has the structure {_describe(self.spec, self._set)}, but the "
                f"function returned {_describe(spec, {i for i, leaf in enumerate(leaves) if leaf is not None})}. "
                f"{advice} [nd-carry]"
            )
        found = [self._like(k, leaves[place]) for k, place in enumerate(self.places)]
        for k, (then, now) in enumerate(zip(self.tensors, found, strict=True)):
            if tuple(then.shape) != tuple(now.shape) or np_dtype(then) != np_dtype(now):
                raise TypeError(
                    f"{self.name}: {self.path(k)} {before} has shape {tuple(then.shape)} and dtype {np_dtype(then)}, "
                    f"but the function returned it with shape {tuple(now.shape)} and dtype {np_dtype(now)}. "
                    f"{advice} [nd-carry]"
                )
        return found

    @property
    def _set(self) -> set[int]:
        return set(self.places)

    def _like(self, k: int, leaf: Any) -> Any:
        if isinstance(leaf, (bool, int, float, complex)):  # A number takes the dtype of the tensor, as in arithmetic.
            leaf = as_tensor(leaf, dtype=as_dtype(np_dtype(self.tensors[k])))
        return self._tensor(self.places[k], leaf, self.tensors[k].tensor_type.is_numpy_type)


def _describe(spec: TreeSpec, tensors: set[int]) -> str:
    if spec.type is None:
        return "of one tensor" if tensors else "None"
    places = [path for i, path in enumerate(leaf_paths(spec)) if i in tensors]
    return f"{spec!r}, with tensors at {', '.join(places) or 'no place'}"
