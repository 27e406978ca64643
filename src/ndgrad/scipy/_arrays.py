"""What SciPy's callers pass (numbers, lists, ndarrays, tensors) as Arrays, the face on which NumPy's functions mean what NumPy means."""

from __future__ import annotations

from typing import Any

import numpy as np

from ndgrad.autograd.variable import Variable, wrap
from ndgrad.implicit.faces import faced
from ndgrad.numpy.array import Array
from ndgrad.ops.vocabulary import tensor_ops
from ndgrad.pytree import tree_flatten, tree_map


def as_array(value: Any, dtype: Any = None) -> Any:
    """An Array of floating numbers; a list may hold tensors."""
    if isinstance(value, Variable):
        return faced(value, Array)
    if isinstance(value, (list, tuple)) and any(isinstance(leaf, Variable) for leaf in tree_flatten(value)[0]):
        return tensor_ops.stack(*(as_array(v, dtype) for v in value), dim=0)
    array = np.asarray(value, dtype)
    return wrap(Array, array if array.dtype.kind in "fc" else array.astype(np.float64))


def as_arrays(tree: Any) -> Any:
    """A structure of Arrays. A list or tuple of numbers is one vector, as it is for SciPy."""
    return tree_map(as_array, tree, is_leaf=_is_vector)


def _is_vector(value: Any) -> bool:
    return type(value) in (list, tuple) and bool(value) and all(map(_is_number, value))


def _is_number(value: Any) -> bool:
    return not isinstance(value, (Variable, str)) and bool(np.isscalar(value))


__all__ = ["as_array", "as_arrays"]
