"""Transforms of functions, called with NumPy's arrays and with numbers: as NumPy's own callers call them.

`scipy.optimize.minimize(f, x0, jac=grad(f))` hands `grad(f)` an ndarray and wants one back. The function sees an Array
in its place, and what comes back is NumPy's again, unless it carries a derivative of something else.
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


def takes_plain(argnums: Any, wrapper: Callable[..., Any]) -> Callable[..., Any]:
    """The wrapper of a transform, which also takes plain arrays for what it differentiates."""
    numbers = (argnums,) if isinstance(argnums, int) else argnums  # what is wrong with them, the transform says

    @functools.wraps(wrapper)
    def call(*args: Any, **kwargs: Any) -> Any:
        if numbers == (0,) and args and isinstance(args[0], Variable):
            return wrapper(*args, **kwargs)  # as most calls are
        try:
            chosen = {n % len(args): args[n] for n in numbers}
        except (TypeError, IndexError, ZeroDivisionError):
            return wrapper(*args, **kwargs)
        is_plain, made = as_arrays(*chosen.values())
        if not is_plain:
            return wrapper(*args, **kwargs)
        given = dict(zip(chosen, made, strict=True))
        return as_plain(wrapper(*(given.get(i, a) for i, a in enumerate(args)), **kwargs))

    return call


def as_arrays(*trees: Any) -> tuple[bool, tuple[Any, ...]]:
    """Whether all leaves are plain arrays and numbers, and the same trees, of Arrays if they are."""
    leaves, spec = tree_flatten(trees)
    if not leaves or not all(isinstance(leaf, _PLAIN) for leaf in leaves):
        return False, trees
    return True, tuple(tree_unflatten([_as_array(leaf) for leaf in leaves], spec))


def as_plain(tree: Any) -> Any:
    """What NumPy's callers want: arrays and numbers of NumPy's, where no derivative is at stake."""
    return tree_map(_as_plain, tree)


def _as_array(value: Any) -> Any:
    return registry.numpy_array.to_array(wrap(Tensor, np.array(value)))  # a copy: the caller may write into his own


def _as_plain(value: Any) -> Any:
    if not isinstance(value, Variable) or isinstance(value._array, Variable) or at_stake(value):
        return value
    found = np.asarray(value._array)
    return found[()] if found.ndim == 0 else found
