"""Facts about a tensor that a compiled program depends on: class, shape, dtype, strides, requires_grad."""

from __future__ import annotations

from typing import Any

import numpy as np

from ndgrad._src.arrays.library import is_on_device
from ndgrad._src.core.variable import requires_grad
from ndgrad._src.core.versions import InferenceStorage


def get_facts(t: Any) -> tuple[Any, ...]:
    """Return the facts about a tensor that a program depends on."""
    array = t._array
    meta = t._meta
    names = None if meta is None else meta.names
    return (
        t.__class__,
        array.shape,
        array.dtype,
        array.strides,
        t._storage.__class__ is InferenceStorage,
        requires_grad(t),
        names if array.__class__ is np.ndarray or not is_on_device(array) else (names, array.device.id),
    )


def has_facts(array: Any) -> bool:
    """True if programs accept tensors over an array of this class."""
    return isinstance(array, (np.ndarray, np.generic)) or is_on_device(array)
