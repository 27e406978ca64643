"""Operands of the tiled attention kernels of any precision: the supported arrays, their layout, and the words of the
structure that describes them.
"""

from __future__ import annotations

from math import prod
from typing import Any

from ndgrad._src.compiler.cuda import launch
from ndgrad._src.compiler.cuda.copies import in_order

#: The words of the structure: four operands of an address and three strides, six addresses, five numbers, the scale.
LAYOUT = "16q6q5qd"


def are_taken(q: Any, k: Any, v: Any, scale: float, largest: int) -> bool:
    """True if kernels for heads up to the `largest` support such arrays, apart from their dtype.

    All heads have one size. The scale is positive, so that the largest score is the largest product.
    """
    size = q.shape[-1]
    return (
        scale > 0
        and size == k.shape[-1] == v.shape[-1]
        and size % 8 == 0
        and size <= largest
        and max(q.shape[-2], k.shape[-2]) < 1 << 30
        and launch.capability(q.device.id) >= 80  # has the instructions
    )


def as_heads(a: Any) -> Any:
    """Return an array as (batch, heads, rows, columns), whose rows are aligned to 16 bytes."""
    lead = a.shape[:-2]
    if len(lead) != 2:
        a = a.reshape(prod(lead), 1, *a.shape[-2:])
    steps = [s for n, s in zip(a.shape[:3], a.strides[:3], strict=True) if n > 1]
    if a.strides[3] != a.dtype.itemsize or a.data.ptr % 16 or any(s % 16 or s <= 0 for s in steps):
        return in_order(a) if not a.flags.c_contiguous else a.copy()
    return a


def words_of(q: Any, k: Any, v: Any, g: Any, buffers: tuple[Any, ...], is_causal: bool, scale: float) -> list[Any]:
    """Return the structure of a launch, in the order of LAYOUT."""
    item = q.dtype.itemsize
    words = [w for a in (q, k, v, g) for w in (a.data.ptr, *[s // item for s in a.strides[:3]])]
    words += [b.data.ptr for b in buffers] + [0] * (6 - len(buffers))
    return [*words, q.shape[1], q.shape[2], k.shape[2], int(is_causal), q.shape[0] * q.shape[1], scale]
