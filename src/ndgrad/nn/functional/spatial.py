"""How functions over images and signals read their arguments: one number per spatial axis, and inputs without a batch."""

from __future__ import annotations

import operator
from typing import Any

from ndgrad.ops.vocabulary import tensor_ops as ops

Shape = tuple[int, ...]


def per_axis(name: str, what: str, value: Any, axes: int) -> Shape:
    """A setting as one int per spatial axis; one int stands for all."""
    try:
        given: Shape = (operator.index(value),)
    except TypeError:
        try:
            given = tuple(operator.index(v) for v in value)
        except TypeError:
            raise TypeError(f"{name}(): {what} must be an int or a tuple of ints, and is {value!r} ({type(value).__name__}).") from None
    if len(given) == 1:
        return given * axes
    if len(given) != axes:
        raise RuntimeError(
            f"{name}: expected {what} to be a single integer value or a list of {axes} values to match the convolution dimensions, "
            f"but got {what}={list(given)}."
        )
    return given


def with_batch(name: str, input: Any, axes: int) -> tuple[Any, bool]:
    """The input as (N, C, *spatial), and whether it came with a batch dimension."""
    ndim = len(input.shape)
    if ndim == axes + 2:
        return input, True
    if ndim == axes + 1:
        return ops.unsqueeze(input, dim=0), False
    raise RuntimeError(
        f"{name}: Expected {axes + 1}D (unbatched) or {axes + 2}D (batched) input to {name}, but got input of size: {list(input.shape)}."
    )


def without_batch(output: Any, batched: bool) -> Any:
    return output if batched else ops.squeeze_dim(output, dims=(0,))
