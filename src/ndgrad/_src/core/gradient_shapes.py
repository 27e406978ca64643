"""Conversion of gradients to the shape and dtype of their values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ndgrad._src.arrays.device_kernels import cast_array
from ndgrad._src.arrays.leading_sums import sum_leading, sum_over
from ndgrad._src.core.node import can_sum_to
from ndgrad._src.core.variable import Variable, np_dtype
from ndgrad._src.ops.vocabulary import tensor_ops

if TYPE_CHECKING:
    from ndgrad._src.core.node import Node
    from ndgrad._typing import Payload


def validate(g: Payload, node: Node, number: int) -> Payload:
    """Convert a gradient to the shape and dtype of its value; raise if that is impossible."""
    shape, dtype = node.output_metadata(number)
    if tuple(g.shape) != shape:
        lead = len(g.shape) - len(shape)
        if g.dtype is dtype and lead > 0 and g.shape[lead:] == shape:  # the most common case: a bias
            return sum_leading(g, lead)
        if not can_sum_to(tuple(g.shape), shape):
            raise RuntimeError(
                f"{node.name()} got a gradient of shape {tuple(g.shape)} for a value of shape {shape}. A rule or a "
                "hook returned the wrong shape: return the value's, or one that broadcasting made of it. [nd-function]"
            )
        g = sum_to(g, shape)
    if dtype is None:  # a leaf whose grad_dtype is None
        return g
    if isinstance(g, Variable):
        have = np_dtype(g)
        if have != dtype:
            if have.kind == "c" and dtype.kind != "c":
                g = tensor_ops.real(g)
            g = tensor_ops.cast(g, dtype=dtype) if np_dtype(g) != dtype else g
    elif g.dtype != dtype:
        if g.dtype.kind == "c" and dtype.kind != "c":
            g = g.real
        g = cast_array(g, dtype)
    return g


def sum_to(g: Payload, shape: tuple[int, ...]) -> Payload:
    """Undo broadcasting: sum over the dimensions that broadcasting added or expanded."""
    lead = len(g.shape) - len(shape)
    axes = tuple(range(lead)) + tuple(
        lead + i for i, (h, w) in enumerate(zip(g.shape[lead:], shape, strict=True)) if w == 1 and h != 1
    )
    if isinstance(g, Variable):
        g = tensor_ops.sum(g, dim=axes, keepdim=True) if axes else g
        return tensor_ops.reshape(g, shape=shape)
    if len(axes) == lead and lead:
        return sum_leading(g, lead)
    return sum_over(g, axes).reshape(shape) if axes else g.reshape(shape)
