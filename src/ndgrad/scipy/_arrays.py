"""Conversion of the unknowns of SciPy's solvers (numbers, lists, ndarrays, tensors, structures of these) to Arrays, on
which NumPy's functions have NumPy's meaning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.core.variable import Variable
from ndgrad._src.foundations.pytree import PyTree, tree_map
from ndgrad.implicit.rewrapping import with_tensor_type
from ndgrad.numpy._array import Array
from ndgrad.numpy.coercion import inexact
from ndgrad.scipy._without_rules import floating

if TYPE_CHECKING:
    from ndgrad._typing import ArrayLike


def as_array(value: ArrayLike) -> Array:
    """Return an Array of floating-point numbers; a list may contain tensors."""
    return inexact(with_tensor_type(value, Array)) if isinstance(value, Variable) else floating(value)


def as_arrays(tree: PyTree) -> PyTree:
    """Return a structure of Arrays. A list or tuple of numbers, some of which may be tensors, is one vector, as in
    SciPy.
    """
    return tree_map(as_array, tree, is_leaf=_is_vector)


def _is_vector(value: Any) -> bool:
    return type(value) in (list, tuple) and bool(value) and all(map(_is_number, value))


def _is_number(value: Any) -> bool:
    return value.ndim == 0 if isinstance(value, Variable) else not isinstance(value, str) and bool(np.isscalar(value))


__all__ = ["as_array", "as_arrays"]
