"""`torch._dynamo._trace_wrapped_higher_order_op`: a mode for indices inside vmap."""

from __future__ import annotations

from contextlib import nullcontext

from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent

__all__ = ["TransformGetItemToIndex"]


class TransformGetItemToIndex(nullcontext[None]):
    """A block in which `x[i]` accepts a tensor of one element of an open vmap as `i`. Indexing always does here."""


_refuse_absent(__name__)
