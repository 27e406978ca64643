"""Padding with a constant. Its transpose is cropping: padding by a negative amount.

`pads` holds (before, after) for every dimension.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ndgrad._src.ops.table import op

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload

Pads = tuple[tuple[int, int], ...]


def _pad(np: Library, x: Payload, *, pads: Pads, value: Any) -> Payload:
    shape = [n + before + after for n, (before, after) in zip(x.shape, pads, strict=True)]
    if getattr(x, "is_meta", False):
        return type(x)(tuple(shape), x.dtype)
    # If a dimension is cropped by more than its size, nothing of x is left.
    source = tuple(slice(max(0, -b), max(0, -b, n + min(0, a))) for n, (b, a) in zip(x.shape, pads, strict=True))
    target = tuple(slice(max(0, b), max(0, b) + s.stop - s.start) for (b, _), s in zip(pads, source, strict=True))
    if value == 0:
        out = np.zeros(shape, x.dtype)
    else:
        out = np.empty(shape, x.dtype)
        out[...] = value
    out[target] = x[source]
    return out


def _negate(pads: Pads) -> Pads:
    return tuple((-before, -after) for before, after in pads)


constant_pad_nd = op(
    "constant_pad_nd", "x",
    _pad,
    settings={"pads": (), "value": 0.0},
    vjp={"x": lambda g, pads, ops: ops.constant_pad_nd(g, pads=_negate(pads), value=0.0)},
    jvp={"x": lambda t, pads, ops: ops.constant_pad_nd(t, pads=pads, value=0.0)},
    batch=lambda x, pads, value, ops: ops.constant_pad_nd(x, pads=((0, 0), *pads), value=value),
    may_be_discrete=True,
    moves_values=True, movement="pad", memory_order="C",
)  # fmt: skip
