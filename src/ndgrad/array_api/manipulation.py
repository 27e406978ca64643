"""Shapes: joined, split, repeated, turned. Products of arrays stand here too, since the standard keeps them out of `linalg`'s extension."""

from __future__ import annotations

from typing import Any

import numpy as np

from ndgrad.numpy import joining, products, shapes
from ndgrad.numpy.coercion import as_array, one_axis
from ndgrad.numpy.ufuncs import call

__all__ = [
    "broadcast_arrays", "broadcast_to", "concat", "expand_dims", "flip", "matmul", "matrix_transpose", "moveaxis", "permute_dims", "repeat",
    "reshape", "roll", "squeeze", "stack", "tensordot", "tile", "unstack", "vecdot",
]  # fmt: skip

# ----- shapes --------------------------------------------------------------------------------------------------------------


def reshape(x: Any, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Any:
    """The elements in another shape: a view where possible, unless `copy` says otherwise."""
    return as_array(x).reshape(shape, copy=copy)


def broadcast_to(x: Any, /, shape: tuple[int, ...]) -> Any:
    return shapes.broadcast_to(x, shape)


def broadcast_arrays(*arrays: Any) -> list[Any]:
    return list(shapes.broadcast_arrays(*arrays))


def expand_dims(x: Any, /, axis: int) -> Any:
    return shapes.expand_dims(x, axis)


def squeeze(x: Any, /, axis: int | tuple[int, ...]) -> Any:
    return shapes.squeeze(x, axis)


def permute_dims(x: Any, /, axes: tuple[int, ...]) -> Any:
    return as_array(x).transpose(tuple(axes))


def matrix_transpose(x: Any, /) -> Any:
    return shapes.matrix_transpose(x)


def moveaxis(x: Any, source: int | tuple[int, ...], destination: int | tuple[int, ...], /) -> Any:
    return shapes.moveaxis(x, source, destination)


def flip(x: Any, /, *, axis: int | tuple[int, ...] | None = None) -> Any:
    return shapes.flip(x, axis)


def roll(x: Any, /, shift: int | tuple[int, ...], *, axis: int | tuple[int, ...] | None = None) -> Any:
    return shapes.roll(x, shift, axis)


def tile(x: Any, repetitions: tuple[int, ...], /) -> Any:
    return shapes.tile(x, repetitions)


def repeat(x: Any, repeats: Any, /, *, axis: int | None = None) -> Any:
    return shapes.repeat(x, repeats, axis)


# ----- several arrays --------------------------------------------------------------------------------------------------------


def concat(arrays: Any, /, *, axis: int | None = 0) -> Any:
    return joining.concatenate(arrays, axis)


def stack(arrays: Any, /, *, axis: int = 0) -> Any:
    return joining.stack(arrays, axis)


def unstack(x: Any, /, *, axis: int = 0) -> tuple[Any, ...]:
    return shapes.unstack(x, axis=axis)


# ----- products ----------------------------------------------------------------------------------------------------------------


def matmul(x1: Any, x2: Any, /) -> Any:
    return call(np.matmul, x1, x2)


def tensordot(x1: Any, x2: Any, /, *, axes: Any = 2) -> Any:
    return products.tensordot(x1, x2, axes)


def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """The sum of products along an axis, the first factor conjugated. The axis is counted before broadcasting."""
    x, y = as_array(x1), as_array(x2)
    if x.shape[one_axis(axis, x.ndim)] != y.shape[one_axis(axis, y.ndim)]:
        raise ValueError(f"vecdot(): axis {axis} has sizes {x.shape[axis]} and {y.shape[axis]} (shapes {x.shape} and {y.shape}).")
    return call(np.vecdot, x, y, axis=axis)
