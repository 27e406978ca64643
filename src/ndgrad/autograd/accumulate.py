"""Where gradients end: adding them to a leaf's `.grad`.

Note [Steal or copy]
The first gradient becomes `.grad` itself when nobody else can see its array: two leaves must never share one `.grad`
(`a + b` passes the same gradient to both), and `.grad` must not alias a buffer that the engine or the user still holds.
Whether somebody else does is read off the reference count, as torch does. Later gradients are added in place, except
under create_graph, where the sum is a new tensor.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from ndgrad.autograd.variable import meta_of, wrap
from ndgrad.autograd.versions import storage_of

# References to an array that only the engine holds when `is_exclusive` counts them: the engine's variable, the arguments of apply,
# accumulate_array, is_exclusive and getrefcount.
_ENGINE_REFERENCES = 5


def accumulate_array(node: Any, array: Any) -> None:
    """Add a raw gradient to the leaf's `.grad`."""
    variable = node.variable
    with node.lock():
        meta = meta_of(variable)
        if not meta.requires_grad:  # no longer: requires_grad_(False) or detach_() after the forward
            check_still_leaf(variable)
            return
        grad = meta.grad
        if grad is None:
            meta.grad = wrap(variable.face, array if is_exclusive(array) else array.copy())
            return
        if grad._node is not None or not isinstance(grad._array, np.ndarray) or grad._array.dtype != array.dtype:
            meta.grad = wrap(variable.face, grad._array + array)
            return
        storage_of(grad).bump("AccumulateGrad")
        grad._array += array


def check_still_leaf(variable: Any) -> None:
    if variable._node is not None:
        raise RuntimeError(
            f"a leaf of shape {tuple(variable.shape)} has been moved into the graph interior: after the forward it was detached "
            "in place and then overwritten, so its .grad would belong to another value. Use detach() or clone() instead of detach_()."
        )


def is_exclusive(array: Any) -> bool:
    """Whether nobody else can see the memory of a gradient, so that it may become `.grad` as it is."""
    if not isinstance(array, np.ndarray):
        return isinstance(array, np.generic)  # a scalar cannot be changed
    if sys.getrefcount(array) > _ENGINE_REFERENCES:
        return False
    base = array.base
    if base is None:
        return array.flags.writeable
    # a reshaped result: all of its base, which only this view holds (its reference, the variable's and getrefcount's)
    return (
        isinstance(base, np.ndarray)
        and base.base is None
        and base.size == array.size
        and sys.getrefcount(base) <= 3
        and array.flags.c_contiguous
        and array.flags.writeable
    )


def accumulate_tensor(node: Any, g: Any) -> None:
    """Add a gradient that is a tensor, which may have a history of its own."""
    variable = node.variable
    with node.lock():
        meta = meta_of(variable)
        if not meta.requires_grad:  # no longer: requires_grad_(False) or detach_() after the forward
            check_still_leaf(variable)
            return
        grad = meta.grad
        if grad is None:
            meta.grad = g.view_as(g) if g.requires_grad else wrap(variable.face, np.array(g._array))
        else:
            meta.grad = grad + g
