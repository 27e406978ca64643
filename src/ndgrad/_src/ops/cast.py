"""Conversion of dtype, device and memory order, and copies. All have the identity as derivative."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy

from ndgrad._src.arrays.copies import copy_in_order
from ndgrad._src.arrays.placement import move_to
from ndgrad._src.arrays.precision import convert
from ndgrad._src.ops.table import op

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload

# The engine converts a gradient back to the dtype of its input, so the reverse rule is the identity.
cast = op(
    "cast", "x",
    lambda np, x, *, dtype: convert(x, dtype) if dtype.itemsize == 1 else x.astype(dtype),
    settings={"dtype": None},
    vjp={"x": lambda g: g},
    jvp="linear",
    batch="leading",
    may_be_discrete=True,
    backward_name="ToCopyBackward0",
    halves=True,
    known_as="to", aten_name="_to_copy", rounds_once=True, cost=1, movement="copy",
    linear_in=[], core_dims=[0], memory_order="kept",
)  # fmt: skip

# A copy in the memory order of the original. Expanded dimensions occupy no memory, so they have no order.
def _clone(np: Library, x: Payload) -> Payload:
    if not hasattr(x, "flags"):
        return x
    if x.__class__ is numpy.ndarray and (x.flags.c_contiguous or 0 in x.strides):
        return copy_in_order(x)
    return x.copy(order="C" if 0 in x.strides else "K")


clone = op(
    "clone", "x",
    _clone,
    vjp={"x": lambda g: g},
    jvp="linear",
    batch="leading",
    halves=True,
    moves_values=True, cost=1, movement="copy", core_dims=[0], memory_order="kept",
)  # fmt: skip


def _clone_ordered(np: Library, x: Payload, *, order: tuple[int, ...]) -> Payload:
    if order == (*range(len(order)),):
        return np.array(x, order="C")
    back = sorted(range(len(order)), key=order.__getitem__)
    moved = x.transpose(order)
    return (copy_in_order(moved) if np is numpy else np.array(moved, order="C")).transpose(back)


# A copy whose dimensions are in the given order in memory, outermost first.
clone_ordered = op(
    "clone_ordered", "x",
    _clone_ordered,
    settings={"order": ()},
    vjp={"x": lambda g: g},
    jvp="linear",
    batch=lambda x, order, ops: ops.clone_ordered(x, order=(0, *(d + 1 for d in order))),
    backward_name="CloneBackward0",
    halves=True,
    aten_name="clone",
    moves_values=True, core_dims=[0],
)  # fmt: skip

to_device = op(
    "to_device", "x",
    lambda np, x, *, device, source, non_blocking: move_to(x, device, non_blocking),
    settings={"device": None, "source": None, "non_blocking": False},
    vjp={"x": lambda g, device, source, ops: ops.to_device(g, device=source, source=device)},
    jvp="linear",
    batch="leading",
    backward_name="ToCopyBackward0",
    needs_values=True,
    halves=True,
    aten_name="_to_copy",
    moves_values=True, core_dims=[0],
)  # fmt: skip
