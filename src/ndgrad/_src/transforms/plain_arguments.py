"""Transforms of functions that are called with NumPy arrays and numbers.

`scipy.optimize.minimize(f, x0, jac=grad(f))` passes an ndarray to `grad(f)` and expects one back. The function receives
an Array instead, and the result becomes NumPy's again, unless it has a history outside this
transform.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ndgrad._src.core.detach_checks import at_stake
from ndgrad._src.core.variable import Variable, wrap
from ndgrad._src.foundations import registry
from ndgrad._src.foundations.pytree import tree_flatten, tree_map, tree_unflatten
from ndgrad._src.tensor.tensor_class import Tensor

_PLAIN = (np.ndarray, np.generic, float, complex)


def accept_plain_arrays(argnums: int | tuple[int, ...], wrapper: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a transform's function so that it also accepts plain arrays for the differentiated arguments."""
    numbers = (argnums,) if isinstance(argnums, int) else argnums  # the transform reports invalid ones

    @functools.wraps(wrapper)
    def call(*args: Any, **kwargs: Any) -> Any:
        if numbers == (0,) and args and isinstance(args[0], Variable):
            return wrapper(*args, **kwargs)  # the common case
        try:
            chosen = {n % len(args): args[n] for n in numbers}
        except (TypeError, IndexError, ZeroDivisionError):
            return wrapper(*args, **kwargs)
        is_plain, made = convert_to_arrays(*chosen.values())
        if not is_plain:
            return wrapper(*args, **kwargs)
        given = dict(zip(chosen, made, strict=True))
        return convert_to_numpy(wrapper(*(given.get(i, a) for i, a in enumerate(args)), **kwargs))

    return call


def convert_to_arrays(*trees: Any, numbers: bool = True) -> tuple[bool, tuple[Any, ...]]:
    """Return True and trees of Arrays if all leaves are plain arrays and numbers; else False and the same trees.
    Without `numbers`, there must be an array among them."""
    first = trees[0] if trees else None
    if isinstance(first[0] if isinstance(first, tuple) and first else first, Variable):
        return False, trees  # the common case
    leaves, spec = tree_flatten(trees)
    if not leaves or not all(isinstance(leaf, _PLAIN) for leaf in leaves):
        return False, trees
    if not numbers and not any(isinstance(leaf, (np.ndarray, np.generic)) for leaf in leaves):
        return False, trees
    return True, tuple(tree_unflatten([_as_array(leaf) for leaf in leaves], spec))


def convert_mapped(args: tuple[Any, ...]) -> tuple[bool, tuple[Any, ...]]:
    """Return True and the arguments with Arrays for ndarrays, if there are ndarrays and no tensors; else False and the
    same arguments. Numbers stay numbers, because all samples share them."""
    for a in args:
        if not isinstance(a, Variable):
            break
    else:
        return False, args  # the common case: all arguments are tensors
    leaves, spec = tree_flatten(args)
    if not any(isinstance(leaf, np.ndarray) for leaf in leaves) or any(isinstance(leaf, Variable) for leaf in leaves):
        return False, args
    return True, tuple(tree_unflatten([_as_array(x) if isinstance(x, np.ndarray) else x for x in leaves], spec))


def convert_to_numpy(tree: object) -> Any:
    """Convert tensors without derivatives to NumPy's arrays and numbers."""
    return tree_map(_as_plain, tree)


def _as_array(value: object) -> Any:
    # A copy, since the caller may write to the original.
    return registry.numpy_array.to_array(wrap(Tensor, np.array(value)))


def _as_plain(value: object) -> Any:
    if not isinstance(value, Variable) or isinstance(value._array, Variable) or at_stake(value):
        return value
    found = np.asarray(value._array)
    return found[()] if found.ndim == 0 else found
