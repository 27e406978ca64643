"""Choosing between values: where, minimum and maximum, clamp.

The constraint that shaped this file: values that were not chosen must get an *exact* zero. Multiplying a gradient by a
mask would turn an infinite gradient into NaN (sqrt(relu(x)) at a negative x), so rules select with `keep` instead.
numpy.where branches at every element, which on a random mask costs ten times as much as moving the data. For large
arrays the bits are masked instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy

from ndgrad._src.arrays import copies
from ndgrad._src.arrays.meta import zeros_on_same_device
from ndgrad._src.arrays.precision import FLOATING
from ndgrad._src.arrays.scalar_operands import as_operands
from ndgrad._src.ops.table import elementwise, op

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload, Vocabulary

# From this many elements on, masking bits is faster than branching.
_LARGE = 2048
_BITS = {2: "i2", 4: "i4", 8: "i8"}
_BOOL = numpy.dtype(bool)

# ----- keep -----------------------------------------------------------------------------------------------------------


def _keep(np: Library, x: Payload, mask: Payload) -> Payload:
    if x.__class__ is numpy.ndarray and x.size < _LARGE and x.shape == mask.shape and mask.dtype is _BOOL:
        out = numpy.zeros(x.shape, x.dtype)
        numpy.copyto(out, x, where=mask)
        return out
    if isinstance(x, numpy.generic) and not mask.shape:
        return x if mask else x.dtype.type(0)
    if x.shape == mask.shape and mask.shape:
        if mask.dtype.kind != "b":
            mask = mask != 0
        if x.__class__ is numpy.ndarray:
            found = copies.choose(mask, x, numpy.zeros((), x.dtype))
            if found is not None:
                return found
        if x.size < _LARGE or x.dtype.kind not in FLOATING or x.dtype.itemsize not in _BITS:
            out = zeros_on_same_device(np, x, x.shape, x.dtype)
            np.copyto(out, x, where=mask)
            return out
        bits = mask.astype(_BITS[x.dtype.itemsize])
        bits *= x.view(bits.dtype)  # an integer product by 0 or 1 never makes NaN
        return bits.view(x.dtype)
    return np.where(mask, x, 0.0)


# x where the mask is true (nonzero), and exactly 0 elsewhere, whatever x is there.
keep = op(
    "keep", "x mask", _keep,
    vjp={"x": lambda g, mask, ops: ops.keep(g, mask)},
    jvp={"x": lambda t, mask, ops: ops.keep(t, mask)},
    batch="elementwise",
    kind="choice",
    moves_values=True, cost=1, linear_in=["x"], core_dims=[0],
)  # fmt: skip

# ----- where ----------------------------------------------------------------------------------------------------------


def _where(np: Library, condition: Any, x: Payload, y: Payload) -> Payload:
    if condition.__class__ is np.ndarray and condition.size >= _LARGE and condition.dtype.kind == "b":
        dtype = np.result_type(x, y)
        if np is numpy:
            found = copies.choose(condition, numpy.asarray(x, dtype), numpy.asarray(y, dtype))
            if found is not None:
                return found
        if dtype.kind in FLOATING and dtype.itemsize in _BITS:
            return _blend(np, condition, np.asarray(x, dtype), np.asarray(y, dtype))
    return np.where(condition, x, y)


def _blend(np: Library, condition: Any, x: Payload, y: Payload) -> Payload:
    """Return y ^ ((x ^ y) & mask) on the bits: x if the mask is all ones, y if it is 0."""
    x_bits, y_bits = x.view(_BITS[x.dtype.itemsize]), y.view(_BITS[x.dtype.itemsize])
    out = np.bitwise_and(np.bitwise_xor(x_bits, y_bits), np.negative(condition.view("i1")))
    out ^= y_bits
    return out.view(x.dtype)


where = op(
    "where", "condition x y", _where,
    vjp={
        "x": lambda g, condition, ops: ops.keep(g, condition),
        "y": lambda g, condition, ops: ops.keep(g, ops.logical_not(condition)),
    },
    jvp={
        "x": lambda t, condition, ops: ops.where(condition, t, 0.0),
        "y": lambda t, condition, ops: ops.where(condition, 0.0, t),
    },
    batch="elementwise",
    elementwise=True,
    kind="choice",
    moves_values=True, cost=1, linear_in=["x y"],
)  # fmt: skip

# ----- minimum and maximum --------------------------------------------------------------------------------------------


def _split_ties(t: Payload, x: Payload, y: Payload, ops: Vocabulary) -> Payload:
    """Return half of t where x and y are equal, t elsewhere."""
    tie = x == y
    if ops.raw and ops.np is numpy and not numpy.count_nonzero(tie):
        return t
    return ops.where(tie, t * 0.5, t)


# The winner gets the whole gradient; equal values get half each. NaN is neither smaller nor equal, so both get all.
maximum = elementwise(
    "maximum", "maximum", args="x y",
    shared=_split_ties,
    x=lambda x, y, shared, ops: ops.keep(shared, ops.logical_not(x < y)),
    y=lambda x, y, shared, ops: ops.keep(shared, ops.logical_not(y < x)),
    kind="clamp", piecewise_linear=True,
    moves_values=True, cost=1,
    rises_in="x y", extreme_of="max",
)  # fmt: skip

minimum = elementwise(
    "minimum", "minimum", args="x y",
    shared=_split_ties,
    x=lambda x, y, shared, ops: ops.keep(shared, ops.logical_not(y < x)),
    y=lambda x, y, shared, ops: ops.keep(shared, ops.logical_not(x < y)),
    kind="clamp", piecewise_linear=True,
    moves_values=True, cost=1,
    rises_in="x y", extreme_of="min",
)  # fmt: skip

# In fmax and fmin a NaN loses, and the first of two equal values wins.
fmax = elementwise(
    "fmax", "fmax", args="x y",
    x=lambda t, x, y, ops: ops.keep(t, (x >= y) | (y != y)),
    y=lambda t, x, y, ops: ops.keep(t, ~((x >= y) | (y != y))),
    kind="clamp", piecewise_linear=True,
    moves_values=True,
)  # fmt: skip

fmin = elementwise(
    "fmin", "fmin", args="x y",
    x=lambda t, x, y, ops: ops.keep(t, (x <= y) | (y != y)),
    y=lambda t, x, y, ops: ops.keep(t, ~((x <= y) | (y != y))),
    kind="clamp", piecewise_linear=True,
    moves_values=True,
)  # fmt: skip

# ----- clamp ----------------------------------------------------------------------------------------------------------

# A value on the edge counts as inside and keeps its gradient. If the bounds cross, the result is `max`.


def _clamp(np: Library, x: Payload, min: Any, max: Any) -> Payload:
    if isinstance(min, (int, float)) and isinstance(max, (int, float)):
        return x.clip(min, max)
    x, min, max = as_operands(np, x, min, max)
    return np.minimum(np.maximum(x, min), max)


clamp = elementwise(
    "clamp", _clamp, args="x min max",
    x=lambda t, x, min, max, ops: ops.keep(t, (x >= min) & (x <= max)),
    min=lambda t, x, min, max, ops: ops.keep(t, (min < max) & (x < min)),
    max=lambda t, x, min, max, ops: ops.keep(t, (x > max) | (max < min)),
    backward_name="ClampBackward1",
    kind="clamp", piecewise_linear=True,
    moves_values=True,
)  # fmt: skip

clamp_min = elementwise(
    "clamp_min", "maximum", args="x min",
    x=lambda t, x, min, ops: ops.keep(t, x >= min),
    min=lambda t, x, min, ops: ops.keep(t, x < min),
    kind="clamp", piecewise_linear=True,
    moves_values=True,
)  # fmt: skip

clamp_max = elementwise(
    "clamp_max", "minimum", args="x max",
    x=lambda t, x, max, ops: ops.keep(t, x <= max),
    max=lambda t, x, max, ops: ops.keep(t, x > max),
    kind="clamp", piecewise_linear=True,
    moves_values=True,
)  # fmt: skip
