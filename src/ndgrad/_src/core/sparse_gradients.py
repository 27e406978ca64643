"""Payloads that are not arrays (sparse and jagged): the core's checks, and the class of tensors over them.

A payload is recognised by its attributes, so these checks do not load ndgrad.sparse or ndgrad.nested.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.core.variable import Variable, wrap

if TYPE_CHECKING:
    from ndgrad._typing import Payload


def is_sparse_data(array: Payload) -> bool:
    """True if a payload belongs to a sparse tensor (see ndgrad._src.arrays.sparse)."""
    return array.__class__ is not np.ndarray and getattr(array, "is_sparse", False) is True


def is_structured(array: Payload) -> bool:
    """True if a payload belongs to a sparse or nested tensor: values, and a structure that describes them."""
    return array.__class__ is not np.ndarray and getattr(array, "is_structured", False) is True


def refuse_sparse(t: Variable, what: str) -> None:
    """Raise if a sparse or nested tensor would become a tensor of a level, whose payloads are arrays."""
    if not isinstance(t, Variable) or t._array.__class__ is np.ndarray:
        return
    if getattr(t._array, "is_jagged", False) is True:
        raise RuntimeError(
            f"{what}: a nested tensor (shape {tuple(t.shape)}) cannot be differentiated or batched here as a whole. "
            "Pass its values, and build the nested tensor inside: "
            "lambda v: f(ndgrad.nested.nested_tensor_from_jagged(v, offsets)). [nd-nested]"
        )
    if getattr(t._array, "is_sparse", False) is True:
        raise RuntimeError(
            f"{what}: a sparse tensor (shape {tuple(t.shape)}) cannot be differentiated or batched by function "
            "transforms "
            "as a whole. Pass its values, and build the sparse tensor inside: "
            "lambda v: f(ndgrad.sparse_coo_tensor(indices, v, size)). [nd-sparse]"
        )


def wrap_gradient(tensor_type: type[Any], array: Payload) -> Variable:
    """Same as `wrap`, for a raw gradient, which may be sparse (from a lookup or a user's function) or nested."""
    if is_structured(array):
        tensor_type = array.tensor_class
    return wrap(tensor_type, array)
