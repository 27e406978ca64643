"""Arguments of functions on images and signals: one number per spatial axis, and inputs without a batch."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

from ndgrad._src.core.generate import TENSOR_TYPES
from ndgrad._src.core.variable import shape_of
from ndgrad._src.ops.vocabulary import tensor_ops as ops

if TYPE_CHECKING:
    from ndgrad._typing import Shape, Sizes, Tensor


_INTS = {int}


def sizes_of(t: Tensor) -> Sizes:
    """Return the shape of a tensor as a plain tuple."""
    return shape_of(t) if t.__class__ in TENSOR_TYPES else tuple(t.shape)


def per_axis(name: str, what: str, value: Shape, axes: int) -> Sizes:
    """Return a setting as one int per spatial axis; one int stands for all."""
    if type(value) is int:  # common case, fast
        return (value,) * axes
    if type(value) is tuple and len(value) == axes and {*map(type, value)} == _INTS:  # the form that modules use
        return value
    try:
        given: Sizes = (operator.index(value),)  # type: ignore[arg-type]  # a sequence raises
    except TypeError:
        try:
            given = tuple(operator.index(v) for v in value)  # type: ignore[union-attr]  # an int has an index
        except TypeError:
            raise TypeError(
                f"{name}(): {what} must be an int or a tuple of ints, but is {value!r} ({type(value).__name__}). "
                "[nd-type]"
            ) from None
    if len(given) == 1:
        return given * axes
    if len(given) != axes:
        raise RuntimeError(f"{name}: {what} must be one int or {axes}, one per axis, but is {given}. [nd-shape]")
    return given


def with_batch(name: str, input: Tensor, axes: int) -> tuple[Tensor, bool]:
    """Return the input as (N, C, *spatial), and True if it came with a batch dimension."""
    ndim = len(sizes_of(input))
    if ndim == axes + 2:
        return input, True
    if ndim == axes + 1:
        return ops.unsqueeze(input, dim=0), False
    raise RuntimeError(
        f"{name}: the input must have {axes + 2} dimensions, or {axes + 1} without a batch; "
        f"its shape is {tuple(input.shape)}. [nd-ndim]"
    )


def without_batch(output: Tensor, batched: bool) -> Tensor:
    return output if batched else ops.squeeze_dim(output, dims=(0,))
