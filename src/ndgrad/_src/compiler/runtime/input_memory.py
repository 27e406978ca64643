"""Memory of a program's inputs: whether it is shared, and whether a program may write it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ndgrad._src.arrays.addresses import bounds
from ndgrad._src.arrays.library import is_on_device
from ndgrad._src.core.modes import process
from ndgrad._src.core.variable import requires_grad
from ndgrad._src.core.versions import InferenceStorage
from ndgrad._src.core.view import DEFAULT


def array_of(t: Any) -> Any:
    """Return the array of a tensor: a device's, or NumPy's."""
    array = t._array
    return array if is_on_device(array) else np.asarray(array)


def may_be_written(t: Any, array: Any) -> bool:
    """True if a program may write the memory of a tensor directly: no observer is active, and the old values are not
    kept.
    """
    storage = t._storage
    return (
        array is t._array
        and not isinstance(array, np.generic)
        and bool(array.flags.c_contiguous if is_on_device(array) else array.flags.carray)
        and not process.busy
        and storage.__class__ is not InferenceStorage
        and (storage is None or not storage.keeps)
    )


def are_entangled(inputs: Sequence[Any], written: Sequence[int]) -> bool:
    """True if a write to an input also changes another input, or the history of its base."""
    return share_memory(list(map(array_of, inputs)), written) or any(_has_base(inputs[i]) for i in written)


def _has_base(t: Any) -> bool:
    """True if a tensor is a view whose writes autograd refuses or records in the history of the base."""
    info = None if t._meta is None else t._meta.view
    return info is not None and (info.creation != DEFAULT or requires_grad(t) or requires_grad(info.base))


def share_memory(arrays: Sequence[Any], written: Sequence[int]) -> bool:
    """True if a written array may share memory with another. Two arrays that own their memory do not."""
    own = [a.base is None and a.flags.owndata for a in arrays]
    if all(own):
        return len({*map(id, arrays)}) != len(arrays)
    pairs = [
        (i, j)
        for i in written
        for j in range(len(arrays))
        if i != j and not (own[i] and own[j] and arrays[i] is not arrays[j])
    ]
    return any(_may_overlap(arrays[i], arrays[j]) for i, j in pairs)


def _may_overlap(a: Any, b: Any) -> bool:
    if not is_on_device(a) and not is_on_device(b):
        return bool(np.may_share_memory(a, b))
    if a.__class__ is not b.__class__:
        return False
    (first, end), (other, other_end) = bounds(a), bounds(b)
    return first < other_end and other < end
