"""torch's helper for masks that are written with indices and run under vmap."""

from __future__ import annotations

from contextlib import nullcontext

__all__ = ["TransformGetItemToIndex"]


class TransformGetItemToIndex(nullcontext[None]):
    """A block in which `x[i]` with batched indices is one op under vmap. Here it always is.

    >>> import ndgrad
    >>> from ndgrad._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex
    >>> table = ndgrad.tensor([5.0, 6.0, 7.0])
    >>> with TransformGetItemToIndex():
    ...     ndgrad.vmap(lambda i: table[i])(ndgrad.tensor([2, 0]))
    tensor([7., 5.])
    """
