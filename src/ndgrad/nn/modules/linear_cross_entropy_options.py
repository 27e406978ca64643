"""Options of torch's `linear_cross_entropy` for processing a batch in pieces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from ndgrad._src.arrays.dtypes import dtype

__all__ = ["LinearCrossEntropyOptions"]


@dataclass
class LinearCrossEntropyOptions:
    """torch's options for computing scores in pieces. They are accepted; ndgrad computes scores whole.

    Args:
        allow_retain_graph: has no effect, like all options.
        batch_chunk_size: has no effect.
        chunking_method: has no effect.
        acc_policy: has no effect.
        acc_dtype: has no effect.

    >>> import ndgrad
    >>> loss = ndgrad.nn.LinearCrossEntropyLoss(4, 3, options=ndgrad.nn.LinearCrossEntropyOptions())
    >>> loss(ndgrad.ones(2, 4), ndgrad.tensor([0, 2])).shape
    ndgrad.Size([])
    """

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: Literal["accurate", "balanced", "compact", "auto"] = "auto"
    acc_dtype: dtype | None = None
