"""Functions on shapes: joining, splitting, repeating, rotating. Products of arrays are here too, since the standard
does not include them in the `linalg` extension.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad.array_api.naming import like, make_binary, make_unary
from ndgrad.numpy import joining, products, shapes
from ndgrad.numpy.coercion import as_array, one_axis
from ndgrad.numpy.ufunc_objects import FUNCTIONS
from ndgrad.numpy.ufuncs import call

if TYPE_CHECKING:
    from ndgrad._typing import Array, ArrayLike

__all__ = [
    "broadcast_arrays", "broadcast_to", "concat", "expand_dims", "flip", "matmul", "matrix_transpose", "moveaxis",
    "permute_dims", "repeat", "reshape", "roll", "squeeze", "stack", "tensordot", "tile", "unstack", "vecdot",
]  # fmt: skip

matrix_transpose = make_unary(shapes.matrix_transpose)
_MATRICES = "matrices of shapes (..., m, k) and (..., k, n), or lines."
matmul = make_binary(FUNCTIONS["matmul"], x1=_MATRICES, x2=_MATRICES)

# ----- shapes ---------------------------------------------------------------------------------------------------------


@like(shapes.reshape)
def reshape(x: ArrayLike, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Array:
    return as_array(x).reshape(shape, copy=copy)


@like(shapes.broadcast_to)
def broadcast_to(x: ArrayLike, /, shape: tuple[int, ...]) -> Array:
    return shapes.broadcast_to(x, shape)


def broadcast_arrays(*arrays: ArrayLike) -> list[Array]:
    """Views of all arrays in the one shape to which they broadcast.

    Args:
        *arrays: arrays.

    >>> import ndgrad.array_api as xp
    >>> [x.shape for x in xp.broadcast_arrays(xp.zeros((2, 1)), xp.zeros(3))]
    [(2, 3), (2, 3)]
    """
    return list(shapes.broadcast_arrays(*arrays))


@like(shapes.expand_dims)
def expand_dims(x: ArrayLike, /, axis: int) -> Array:
    return shapes.expand_dims(x, axis)


@like(shapes.squeeze)
def squeeze(x: ArrayLike, /, axis: int | tuple[int, ...]) -> Array:
    return shapes.squeeze(x, axis)


@like(shapes.permute_dims)
def permute_dims(x: ArrayLike, /, axes: tuple[int, ...]) -> Array:
    return as_array(x).transpose(tuple(axes))


@like(shapes.moveaxis)
def moveaxis(x: ArrayLike, source: int | tuple[int, ...], destination: int | tuple[int, ...], /) -> Array:
    return shapes.moveaxis(x, source, destination)


@like(shapes.flip)
def flip(x: ArrayLike, /, *, axis: int | tuple[int, ...] | None = None) -> Array:
    return shapes.flip(x, axis)


@like(shapes.roll)
def roll(x: ArrayLike, /, shift: int | tuple[int, ...], *, axis: int | tuple[int, ...] | None = None) -> Array:
    return shapes.roll(x, shift, axis)


@like(shapes.tile)
def tile(x: ArrayLike, repetitions: tuple[int, ...], /) -> Array:
    return shapes.tile(x, repetitions)


@like(shapes.repeat)
def repeat(x: ArrayLike, repeats: ArrayLike, /, *, axis: int | None = None) -> Array:
    return shapes.repeat(x, repeats, axis)


# ----- several arrays -------------------------------------------------------------------------------------------------


@like(joining.concatenate)
def concat(arrays: Sequence[ArrayLike], /, *, axis: int | None = 0) -> Array:
    return joining.concatenate(arrays, axis)


@like(joining.stack)
def stack(arrays: Sequence[ArrayLike], /, *, axis: int = 0) -> Array:
    return joining.stack(arrays, axis)


@like(shapes.unstack)
def unstack(x: ArrayLike, /, *, axis: int = 0) -> tuple[Array, ...]:
    return shapes.unstack(x, axis=axis)


# ----- products -------------------------------------------------------------------------------------------------------


@like(products.tensordot)
def tensordot(x1: ArrayLike, x2: ArrayLike, /, *, axes: int | Sequence[Any] = 2) -> Array:
    return products.tensordot(x1, x2, axes)


def vecdot(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1) -> Array:
    """The sum of products along an axis, the first factor conjugated. The axis is counted before broadcasting.

    Args:
        x1: first array, which is conjugated.
        x2: second array, which broadcasts with the first.
        axis: axis of the vectors.

    Raises:
        ValueError: if the vectors have different lengths.

    >>> import ndgrad.array_api as xp
    >>> xp.vecdot(xp.asarray([1.0, 2.0]), xp.asarray([3.0, 4.0]))
    array(11.)
    """
    x, y = as_array(x1), as_array(x2)
    if x.shape[one_axis(axis, x.ndim)] != y.shape[one_axis(axis, y.ndim)]:
        raise ValueError(
            f"vecdot(): axis {axis} has sizes {x.shape[axis]} and {y.shape[axis]} (shapes {x.shape} and {y.shape}). "
            "[nd-shape]"
        )
    return call(np.vecdot, x, y, axis=axis)
