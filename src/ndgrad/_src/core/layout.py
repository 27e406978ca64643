"""The order of a tensor's dimensions in memory, and copies of gradients in the same order.

A path of views may contain a reshape, which is a view or a copy, depending on the strides. Replayed on a gradient, it
must be a view if it was a view of the tensor; otherwise writes through it are lost. It is a view if the gradient is
dense and its dimensions have the same order in memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.core.variable import innermost_array
from ndgrad._src.ops.cast import clone_ordered
from ndgrad._src.ops.vocabulary import tensor_ops

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ndgrad._src.core.variable import Variable
    from ndgrad._typing import Library, Payload

#: Dimensions from the slowest to the fastest, None for C order.
Order = tuple[int, ...] | None


def _own_strides(t: Variable) -> tuple[int, ...]:
    """Return the strides of a tensor's own dimensions, without the leading dimensions of vmap."""
    array, ndim = innermost_array(t), len(t.shape)
    return tuple(array.strides[array.ndim - ndim :])


def order_of(t: Variable) -> Order:
    """Return the order of a tensor's own dimensions in memory."""
    if innermost_array(t).flags.c_contiguous:
        return None
    ndim = len(t.shape)
    if ndim < 2:
        return None
    strides = _own_strides(t)
    order = tuple(sorted(range(ndim), key=lambda d: -abs(strides[d])))
    return None if order == tuple(range(ndim)) else order


def in_order(np: Library, array: NDArray[Any], order: Order) -> NDArray[Any]:
    """Return `array` itself if it is dense in that order, otherwise a copy that is."""
    if order is None:
        return np.ascontiguousarray(array) if array.ndim else np.asarray(array)
    back = sorted(range(len(order)), key=order.__getitem__)
    return np.ascontiguousarray(array.transpose(order)).transpose(back)


def is_in_order(t: Variable, order: Order) -> bool:
    """True if a tensor is already dense in that order."""
    return is_dense_in(innermost_array(t), len(t.shape), order)


def is_dense_in(array: Payload, ndim: int, order: Order) -> bool:
    """True if an array is dense in that order of its last `ndim` dimensions, after those of vmap."""
    if order is not None:
        lead = array.ndim - ndim
        array = array.transpose((*range(lead), *(lead + d for d in order)))
    return bool(array.flags.c_contiguous)


def copy_in_order(t: Variable, order: Order) -> Variable:
    """Return a recorded copy of a tensor that is dense in that order."""
    return clone_ordered(t, order=tuple(range(len(t.shape))) if order is None else order)


def lay_out_like(primal: Variable, tangent: Variable | None) -> Variable | None:
    """Return the tangent with the primal's shape and memory order, so that views of one are views of the other."""
    if tangent is None:
        return None
    a, b = primal._array, tangent._array
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and a.shape == b.shape:  # the most common case
        if not a.ndim or a.strides == b.strides or (a.flags.c_contiguous and b.flags.c_contiguous):
            return tangent
        if a.itemsize == b.itemsize and all(
            s == t for n, s, t in zip(a.shape, a.strides, b.strides, strict=True) if n > 1
        ):
            return tangent
        return copy_in_order(tangent, order_of(primal))
    shape = tuple(primal.shape)
    if not shape:
        return tangent
    if tuple(tangent.shape) != shape:
        tangent = tensor_ops.expand(tangent, shape=shape)
    order = order_of(primal)
    repeats = any(s == 0 and n > 1 for n, s in zip(shape, _own_strides(tangent), strict=True))
    return copy_in_order(tangent, order) if repeats or order_of(tangent) != order else tangent


def is_view_of(t: Variable, source: Variable) -> bool:
    """True if a tensor is known to share the memory of another one."""
    return t is source or (t._storage is not None and t._storage is source._storage)
