"""How functions over images and signals read their arguments: one number per spatial axis, and inputs without a batch.

A function for one, two and three axes is written once, with the number of axes as its first argument; `by_axes` makes three of it.
"""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec

from ndgrad.ops.vocabulary import tensor_ops as ops

Shape = tuple[int, ...]
P = ParamSpec("P")


def by_axes(name: str, function: Callable[Concatenate[int, P], Any]) -> tuple[Callable[P, Any], Callable[P, Any], Callable[P, Any]]:
    """`function` over one, two and three axes, under names like "conv{}d"; {shape} in its docstring is the shape of the input."""

    def over(axes: int, sizes: str) -> Callable[P, Any]:
        def call(*args: P.args, **kwargs: P.kwargs) -> Any:
            return function(axes, *args, **kwargs)

        functools.update_wrapper(call, function)
        call.__name__ = call.__qualname__ = name.format(axes)
        call.__doc__ = (function.__doc__ or "").format(shape=f"(N, C, {sizes}) or (C, {sizes})")
        call.__dict__["__signature__"] = inspect.signature(functools.partial(function, axes))
        return call

    return over(1, "L"), over(2, "H, W"), over(3, "D, H, W")


def per_axis(name: str, what: str, value: Any, axes: int) -> Shape:
    """A setting as one int per spatial axis; one int stands for all."""
    if type(value) is int:  # nearly always, and quick
        return (value,) * axes
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
        raise RuntimeError(f"{name}: {what} must be one int or {axes}, one per axis, and is {given}.")
    return given


def with_batch(name: str, input: Any, axes: int) -> tuple[Any, bool]:
    """The input as (N, C, *spatial), and whether it came with a batch dimension."""
    ndim = len(input.shape)
    if ndim == axes + 2:
        return input, True
    if ndim == axes + 1:
        return ops.unsqueeze(input, dim=0), False
    raise RuntimeError(
        f"{name}: the input must have {axes + 2} dimensions, or {axes + 1} without a batch; its shape is {tuple(input.shape)}."
    )


def without_batch(output: Any, batched: bool) -> Any:
    return output if batched else ops.squeeze_dim(output, dims=(0,))
