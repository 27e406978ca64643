"""The order of a tensor's dimensions in memory, and how to give a gradient the same.

A path of views may hold a reshape, which is a view or a copy as the strides allow. Replayed on a gradient, it has to be a view
where it was one of the tensor, or what is written through it is lost. It is, if the gradient is dense and its
dimensions lie in memory in the same order.
"""

from __future__ import annotations

from typing import Any

from ndgrad.autograd.variable import Variable

#: Dimensions from the slowest to the fastest, None for C order.
Order = tuple[int, ...] | None


def order_of(t: Any) -> Order:
    """The order of a tensor's own dimensions; those of vmap stand in front of them."""
    ndim = len(t.shape)
    while isinstance(t, Variable):
        t = t._array
    if ndim < 2 or t.flags.c_contiguous:
        return None
    strides = t.strides[t.ndim - ndim :]
    order = tuple(sorted(range(ndim), key=lambda d: -abs(strides[d])))
    return None if order == tuple(range(ndim)) else order


def in_order(np: Any, array: Any, order: Order) -> Any:
    """`array` itself if it is dense in that order, else a copy that is."""
    if order is None:
        return np.ascontiguousarray(array) if array.ndim else np.asarray(array)
    back = sorted(range(len(order)), key=order.__getitem__)
    return np.ascontiguousarray(array.transpose(order)).transpose(back)


def is_in_order(t: Any, order: Order) -> bool:
    """Whether a tensor is dense in that order already."""
    ndim = len(t.shape)
    while isinstance(t, Variable):
        t = t._array
    if order is not None:
        lead = t.ndim - ndim
        t = t.transpose((*range(lead), *(lead + d for d in order)))
    return bool(t.flags.c_contiguous)


def copy_in_order(t: Any, order: Order) -> Any:
    """A recorded copy of a tensor that is dense in that order."""
    from ndgrad.ops.cast import clone_ordered

    return clone_ordered(t, order=tuple(range(len(t.shape))) if order is None else order)
