"""Sparse payloads in the core: what is asked of them, and the class of tensors over them.

A payload is told by its attribute `is_sparse`, so nothing of ndgrad.sparse is loaded for the question.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ndgrad.autograd.variable import Variable, wrap


def is_sparse_data(array: Any) -> bool:
    """Whether a payload is a sparse tensor's (see ndgrad.arrays.sparse)."""
    return array.__class__ is not np.ndarray and getattr(array, "is_sparse", False) is True


def refuse_sparse(t: Any, what: str) -> None:
    """Raise if a sparse tensor is to become a tensor of a level, whose payloads are arrays."""
    if isinstance(t, Variable) and is_sparse_data(t._array):
        raise RuntimeError(
            f"{what}: a sparse tensor (shape {tuple(t.shape)}) cannot be differentiated or batched by function "
            "transforms "
            "as a whole. Pass its values, and build the sparse tensor inside: "
            "lambda v: f(ndgrad.sparse_coo_tensor(indices, v, size))."
        )


def wrap_gradient(face: type[Any], array: Any) -> Any:
    """As `wrap`, of a raw gradient, which may be sparse: that of a lookup, or what a user's function returned."""
    if is_sparse_data(array):
        from ndgrad._registry import SparseTensor as face  # by ndgrad.sparse, where such a payload was made
    return wrap(face, array)
