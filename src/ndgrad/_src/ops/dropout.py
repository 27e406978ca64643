"""Dropout with a given mask. Only the mask is saved, one byte per element."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ndgrad._src.ops.table import op

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload


def _apply_mask(np: Library, x: Payload, mask: Payload, *, scale: float) -> Payload:
    if mask.size < x.size and x.dtype.char in "fd":  # masks of whole channels: one pass over x
        return x * (mask * x.dtype.type(scale))
    return np.multiply(x, mask) * scale


# x scale where the mask is true, 0 elsewhere. The mask may have dimensions of size one.
native_dropout = op(
    "native_dropout", "x mask",
    _apply_mask,
    settings={"scale": 1.0},
    vjp={"x": lambda g, mask, scale, ops: ops.native_dropout(g, mask, scale=scale)},
    jvp={"x": lambda t, mask, scale, ops: ops.native_dropout(t, mask, scale=scale)},
    batch="elementwise",
    elementwise=True,
    inplace=True,
    saved_names={"mask": "result1"}, linear_in=["x"],
)  # fmt: skip
