"""Payloads that are no arrays, sparse and jagged ones: what the core asks of them, and the class of tensors over them.

A payload is told by its attributes, so nothing of ndgrad.sparse or ndgrad.nested is loaded for the question.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ndgrad._src.core.variable import Variable, wrap


def is_sparse_data(array: Any) -> bool:
    """Whether a payload is a sparse tensor's (see ndgrad._src.arrays.sparse)."""
    return array.__class__ is not np.ndarray and getattr(array, "is_sparse", False) is True


def is_structured(array: Any) -> bool:
    """Whether a payload is a sparse or a nested tensor's: values, and a structure that says what they are."""
    return array.__class__ is not np.ndarray and getattr(array, "is_structured", False) is True


def refuse_sparse(t: Any, what: str) -> None:
    """Raise if a sparse tensor is to become a tensor of a level, whose payloads are arrays."""
    if isinstance(t, Variable) and getattr(t._array, "is_jagged", False) is True:
        raise RuntimeError(
            f"{what}: a nested tensor (shape {tuple(t.shape)}) cannot be differentiated or batched here as a whole. "
            "Pass its values, and build the nested tensor inside: "
            "lambda v: f(ndgrad.nested.nested_tensor_from_jagged(v, offsets)). [nd-nested]"
        )
    if isinstance(t, Variable) and is_sparse_data(t._array):
        raise RuntimeError(
            f"{what}: a sparse tensor (shape {tuple(t.shape)}) cannot be differentiated or batched by function "
            "transforms "
            "as a whole. Pass its values, and build the sparse tensor inside: "
            "lambda v: f(ndgrad.sparse_coo_tensor(indices, v, size)). [nd-sparse]"
        )


def wrap_gradient(face: type[Any], array: Any) -> Any:
    """As `wrap`, of a raw gradient, which may be sparse: that of a lookup, or what a user's function returned; or that
    of a nested tensor."""
    if is_structured(array):
        face = array.tensor_class
    return wrap(face, array)
