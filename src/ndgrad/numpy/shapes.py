"""Shapes: views and copies with other axes, NumPy's signatures. Views in NumPy are differentiable views here."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeAlias, overload

import numpy as np

from ndgrad._src.core.variable import np_dtype
from ndgrad._src.ops import rearrange as rearrange_ops
from ndgrad._src.ops import reduce as reduce_ops
from ndgrad._src.ops import shape as ops
from ndgrad._src.ops import split as split_ops
from ndgrad._src.ops import triangle as triangle_ops
from ndgrad._src.ops import window
from ndgrad._src.tensor.functions import rearrange as _rearrange
from ndgrad._src.tensor.functions import triangle as _triangle
from ndgrad._src.tensor.functions.split import as_strided as _as_strided
from ndgrad._src.tensor.storage import sample_of
from ndgrad.numpy._array import reshape_as_numpy
from ndgrad.numpy.coercion import (
    arrange,
    as_array,
    broadcast,
    constant,
    deliver,
    many_axes,
    move_axis,
    one_axis,
    part,
    permute,
    swept_line,
    values_of,
    with_dtype,
)

if TYPE_CHECKING:

    from ndgrad._typing import ArrayLike, Axes, Dtype, Out, Shape
    from ndgrad.numpy._array import Array

#: torch's functions. They return Arrays for Arrays, which their declarations cannot express.
rearrange: Any = _rearrange
triangle_api: Any = _triangle
as_strided_by_elements: Any = _as_strided

__all__ = [
    "array_split", "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_arrays", "broadcast_to", "copy", "diag",
    "diagflat", "diagonal", "dsplit", "expand_dims", "flip", "fliplr", "flipud", "hsplit", "matrix_transpose",
    "moveaxis", "permute_dims", "ravel", "repeat", "reshape", "resize", "roll", "rollaxis", "rot90", "split", "squeeze",
    "swapaxes", "tile", "trace", "transpose", "tril", "trim_zeros", "triu", "unstack", "vsplit",
]  # fmt: skip

#: Number of pieces, or indices of the cuts.
Sections: TypeAlias = "int | ArrayLike"

# ----- another shape -------------------------------------------------------------------------------------------------


def reshape(
    a: ArrayLike, /, shape: Shape | None = None, order: str = "C", *, newshape: Shape | None = None,
    copy: bool | None = None,
) -> Array:  # fmt: skip
    """The elements in another shape: a view if possible, else a copy.

    Args:
        a: array to reshape.
        shape: new shape, or a length. One size may be -1, which stands for the rest.
        order: order in which elements are read and written: `"C"`, `"F"` or `"A"` (`"F"` if the array is in Fortran
            order, else `"C"`).
        newshape: old name of `shape`.
        copy: True for a copy, None for a copy only if it is needed, False for an error if it is needed.

    >>> import ndgrad.numpy as np
    >>> np.reshape(np.arange(4), (2, -1))
    array([[0, 1],
           [2, 3]])
    """
    sizes = newshape if shape is None else shape
    if sizes is None:
        raise TypeError(
            "reshape() takes the new shape, and none was given. Pass an int or a tuple of ints. [nd-arguments]"
        )
    return as_array(a).reshape(sizes, order=order, copy=copy)


def ravel(a: ArrayLike, order: str = "C") -> Array:
    """The elements as one line: a view if they are contiguous in that order, else a copy.

    Args:
        a: array to flatten.
        order: order of the elements: `"C"`, `"F"`, `"A"` (`"F"` if the array is in Fortran order, else `"C"`) or `"K"`
            (as in memory).

    >>> import ndgrad.numpy as np
    >>> np.ravel(np.array([[1, 2], [3, 4]]), order="F")
    array([1, 3, 2, 4])
    """
    t = as_array(a)
    sample = sample_of(t)
    if order == "A":
        order = "F" if sample.flags.fnc else "C"
    if order == "K" and not sample.flags.c_contiguous:
        t = permute(t, _iteration_order(sample.strides))
    elif order == "F":
        t = permute(t, range(t.ndim)[::-1])
    elif order not in "CK":
        raise ValueError(f"order must be one of 'C', 'F', 'A', or 'K' (got {order!r}) [nd-option]")
    return reshape_as_numpy(arrange(t), (t.size,))


def _iteration_order(strides: tuple[int, ...]) -> tuple[int, ...]:
    """Return the dimensions, from the slowest to the fastest, in the order of NumPy's iterators: by their strides, but
    a stride of 0 (of a broadcast dimension) does not move.
    """
    order: list[int] = []  # from the fastest to the slowest
    for d in reversed(range(len(strides))):
        place = len(order)
        for i in reversed(range(len(order))):
            here, there = abs(strides[d]), abs(strides[order[i]])
            if here and there:
                if there <= here:
                    break
                place = i
        order.insert(place, d)
    return tuple(order[::-1])


def squeeze(a: ArrayLike, axis: Axes = None) -> Array:
    """A view without axes of length one: all of them, or the given ones.

    Args:
        a: array.
        axis: axis or axes to remove, which must have size 1. None removes all of size 1.

    >>> import ndgrad.numpy as np
    >>> np.squeeze(np.zeros((1, 3, 1)), 0).shape
    (3, 1)
    """
    t = as_array(a)
    dims = [d for d, n in enumerate(t.shape) if n == 1] if axis is None else list(many_axes(axis, t.ndim))
    for d in dims:
        if t.shape[d] != 1:
            raise ValueError(
                f"cannot select an axis to squeeze out which has size not equal to one (axis {d} of shape {t.shape}) "
                "[nd-dim]"
            )
    return ops.reshape(t, shape=tuple(n for d, n in enumerate(t.shape) if d not in dims))


def expand_dims(a: ArrayLike, axis: int | Sequence[int]) -> Array:
    """A view with axes of length one inserted at these positions of the result.

    Args:
        a: array.
        axis: position or positions of the new axes in the result.

    >>> import ndgrad.numpy as np
    >>> np.expand_dims(np.zeros(3), (0, 2)).shape
    (1, 3, 1)
    """
    t = as_array(a)
    given = axis if isinstance(axis, (tuple, list)) else (axis,)
    places = many_axes(tuple(given), t.ndim + len(given))
    sizes = iter(t.shape)
    return reshape_as_numpy(t, tuple(1 if d in places else next(sizes) for d in range(t.ndim + len(given))))


def resize(a: ArrayLike, new_shape: Shape) -> Array:
    """The elements in order, repeated until the new shape is full.

    Args:
        a: array.
        new_shape: shape of the result, or a length.

    >>> import ndgrad.numpy as np
    >>> np.resize(np.array([1, 2, 3]), (2, 2))
    array([[1, 2],
           [3, 1]])
    """
    t = as_array(a)
    shape = tuple(operator.index(n) for n in (new_shape if isinstance(new_shape, (tuple, list)) else (new_shape,)))
    if any(n < 0 for n in shape):
        raise ValueError(f"all elements of `new_shape` must be non-negative, but it is {shape} [nd-range]")
    count = math.prod(shape)
    if t.size == 0 or count == 0:
        return constant(np.zeros(shape, np_dtype(t)))
    line = ops.reshape(t, shape=(t.size,))
    return ops.reshape(line[np.arange(count) % t.size], shape=shape)


@overload
def atleast_1d(array: ArrayLike, /) -> Array: ...
@overload
def atleast_1d(first: ArrayLike, second: ArrayLike, /, *arys: ArrayLike) -> tuple[Array, ...]: ...
def atleast_1d(*arys: ArrayLike) -> Any:
    """Each array with at least one dimension: one array for one argument, a tuple for several.

    Args:
        *arys: arrays.

    >>> import ndgrad.numpy as np
    >>> np.atleast_1d(2.0)
    array([2.])
    """
    return _each(lambda t: t if t.ndim else reshape_as_numpy(t, (1,)), arys)


@overload
def atleast_2d(array: ArrayLike, /) -> Array: ...
@overload
def atleast_2d(first: ArrayLike, second: ArrayLike, /, *arys: ArrayLike) -> tuple[Array, ...]: ...
def atleast_2d(*arys: ArrayLike) -> Any:
    """Each array with at least two dimensions: one array for one argument, a tuple for several.

    Args:
        *arys: arrays.

    >>> import ndgrad.numpy as np
    >>> np.atleast_2d([1.0, 2.0])
    array([[1., 2.]])
    """
    return _each(lambda t: t if t.ndim > 1 else reshape_as_numpy(t, (1, t.size)), arys)


@overload
def atleast_3d(array: ArrayLike, /) -> Array: ...
@overload
def atleast_3d(first: ArrayLike, second: ArrayLike, /, *arys: ArrayLike) -> tuple[Array, ...]: ...
def atleast_3d(*arys: ArrayLike) -> Any:
    """Each array with at least three dimensions: one array for one argument, a tuple for several.

    Args:
        *arys: arrays.

    >>> import ndgrad.numpy as np
    >>> np.atleast_3d([1.0, 2.0]).shape
    (1, 2, 1)
    """
    return _each(_three, arys)


def _three(t: Array) -> Array:
    return t if t.ndim > 2 else reshape_as_numpy(t, (1, t.size, 1) if t.ndim < 2 else (*t.shape, 1))


def _each(function: Callable[[Array], Array], arys: tuple[ArrayLike, ...]) -> Any:
    made = tuple(function(as_array(a)) for a in arys)
    return made[0] if len(made) == 1 else made


def broadcast_to(array: ArrayLike, shape: Shape, subok: bool = False) -> Array:
    """A read-only view, broadcast to a shape; gradients are summed.

    Args:
        array: array to broadcast.
        shape: shape of the result, or a length.
        subok: accepted as in NumPy. It has no effect, because results are always Arrays.

    >>> import ndgrad.numpy as np
    >>> np.broadcast_to(np.array([1, 2]), (2, 2))
    array([[1, 2],
           [1, 2]])
    """
    t = as_array(array)
    wanted = tuple(operator.index(n) for n in shape) if isinstance(shape, Sequence) else (operator.index(shape),)
    if np.broadcast_shapes(t.shape, wanted) != wanted:
        raise ValueError(
            "operands could not be broadcast together with remapped shapes [original->remapped]: "
            f"{t.shape} and requested shape {wanted} [nd-broadcast]"
        )
    return broadcast(t, wanted)


def broadcast_arrays(*args: ArrayLike, subok: bool = False) -> tuple[Array, ...]:
    """Views of all arrays in the one shape to which they broadcast.

    Args:
        *args: arrays.
        subok: accepted as in NumPy. It has no effect, because results are always Arrays.

    >>> import ndgrad.numpy as np
    >>> [x.shape for x in np.broadcast_arrays(np.zeros((2, 1)), np.zeros(3))]
    [(2, 3), (2, 3)]
    """
    found = [as_array(a) for a in args]
    shape = np.broadcast_shapes(*(t.shape for t in found))
    return tuple(broadcast(t, shape) for t in found)


def copy(a: ArrayLike, order: str = "K", subok: bool = False) -> Array:
    """A copy, with its history.

    Args:
        a: array to copy.
        order: memory order of the result: `"C"`, `"F"`, `"A"` (Fortran order if the array is in it, else C order) or
            `"K"` (that of the array).
        subok: accepted as in NumPy. It has no effect, because results are always Arrays.

    >>> import ndgrad.numpy as np
    >>> np.copy(np.array([1.0, 2.0]))
    array([1., 2.])
    """
    return as_array(a).copy(order)


# ----- another order of axes ------------------------------------------------------------------------------------------


def transpose(a: ArrayLike, axes: Sequence[int] | None = None) -> Array:
    """A view with its axes permuted; reversed if none are given.

    Args:
        a: array.
        axes: axes in their new order. None reverses them.

    >>> import ndgrad.numpy as np
    >>> np.transpose(np.array([[1, 2], [3, 4]]), (1, 0))
    array([[1, 3],
           [2, 4]])
    """
    return as_array(a).transpose(axes)


permute_dims = transpose


def matrix_transpose(x: ArrayLike, /) -> Array:
    """A view with the last two axes swapped.

    Args:
        x: matrices of shape (..., m, n).

    >>> import ndgrad.numpy as np
    >>> np.matrix_transpose(np.zeros((4, 2, 3))).shape
    (4, 3, 2)
    """
    t = as_array(x)
    if t.ndim < 2:
        raise ValueError(f"Input array must be at least 2-dimensional, but it is {t.ndim} [nd-ndim]")
    return swapaxes(t, -1, -2)


def swapaxes(a: ArrayLike, axis1: int, axis2: int) -> Array:
    """A view with two axes swapped.

    Args:
        a: array.
        axis1, axis2: axes to swap.

    >>> import ndgrad.numpy as np
    >>> np.swapaxes(np.zeros((2, 3, 4)), 0, 2).shape
    (4, 3, 2)
    """
    t = as_array(a)
    order = list(range(t.ndim))
    first, second = one_axis(axis1, t.ndim), one_axis(axis2, t.ndim)
    order[first], order[second] = second, first
    return permute(t, order)


def moveaxis(a: ArrayLike, source: int | Sequence[int], destination: int | Sequence[int]) -> Array:
    """A view with axes moved to other positions; the others keep their order.

    Args:
        a: array.
        source: axis or axes to move.
        destination: their positions in the result.

    >>> import ndgrad.numpy as np
    >>> np.moveaxis(np.zeros((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    t = as_array(a)
    from_, to = (many_axes(x if isinstance(x, (tuple, list)) else (x,), t.ndim) for x in (source, destination))
    if len(from_) != len(to):
        raise ValueError("`source` and `destination` arguments must have the same number of elements [nd-shape]")
    order = [d for d in range(t.ndim) if d not in from_]
    for place, d in sorted(zip(to, from_, strict=True)):
        order.insert(place, d)
    return permute(t, order)


def rollaxis(a: ArrayLike, axis: int, start: int = 0) -> Array:
    """A view with one axis moved before another.

    Args:
        a: array.
        axis: axis to move.
        start: position before which the axis is moved.

    >>> import ndgrad.numpy as np
    >>> np.rollaxis(np.zeros((2, 3, 4)), 2).shape
    (4, 2, 3)
    """
    t = as_array(a)
    axis = one_axis(axis, t.ndim)
    if not -t.ndim <= start <= t.ndim:
        raise np.exceptions.AxisError(
            f"'start' arg requires {-t.ndim} <= start < {t.ndim + 1}, but {start} was passed in [nd-dim]"
        )
    start += t.ndim if start < 0 else 0
    return move_axis(t, axis, start - (axis < start)) if t.ndim else t


# ----- flips, rolls, repeats ------------------------------------------------------------------------------------------


def flip(m: ArrayLike, axis: Axes = None) -> Array:
    """A view with the order reversed along axes.

    Args:
        m: array.
        axis: axis or axes to reverse. None means all.

    >>> import ndgrad.numpy as np
    >>> np.flip(np.array([1, 2, 3]))
    array([3, 2, 1])
    """
    t = as_array(m)
    dims = many_axes(axis, t.ndim)
    return t[tuple(slice(None, None, -1) if d in dims else slice(None) for d in range(t.ndim))]


def flipud(m: ArrayLike) -> Array:
    """A view with the rows in reverse order.

    Args:
        m: array of at least one dimension.

    >>> import ndgrad.numpy as np
    >>> np.flipud(np.array([[1, 2], [3, 4]]))
    array([[3, 4],
           [1, 2]])
    """
    return flip(_check_rank("flipud", m, 1), 0)


def fliplr(m: ArrayLike) -> Array:
    """A view with the columns in reverse order.

    Args:
        m: array of at least two dimensions.

    >>> import ndgrad.numpy as np
    >>> np.fliplr(np.array([[1, 2], [3, 4]]))
    array([[2, 1],
           [4, 3]])
    """
    return flip(_check_rank("fliplr", m, 2), 1)


def _check_rank(name: str, m: ArrayLike, least: int) -> Array:
    t = as_array(m)
    if t.ndim < least:
        raise ValueError(f"{name}(): Input must be >= {least}-d, but its shape is {t.shape}. [nd-ndim]")
    return t


def rot90(m: ArrayLike, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Array:
    """A view turned by 90 degrees `k` times, from the first axis towards the second.

    Args:
        m: array of at least two dimensions.
        k: number of turns. A negative number turns the other way.
        axes: two axes that span the plane of the rotation.

    >>> import ndgrad.numpy as np
    >>> np.rot90(np.array([[1, 2], [3, 4]]))
    array([[2, 4],
           [1, 3]])
    """
    t = as_array(m)
    if len(axes) != 2:
        raise ValueError("len(axes) must be 2. [nd-dim]")
    first, second = many_axes(tuple(axes), t.ndim)
    k = operator.index(k) % 4
    if k % 2 == 0:
        return flip(t, (first, second)) if k else t[...]
    return swapaxes(flip(t, second), first, second) if k == 1 else flip(swapaxes(t, first, second), second)


def roll(a: ArrayLike, shift: int | Sequence[int], axis: Axes = None) -> Array:
    """The elements shifted cyclically along axes.

    Args:
        a: array.
        shift: number of places, or one for each axis.
        axis: axis or axes along which to shift. None shifts the flattened array and restores its shape.

    >>> import ndgrad.numpy as np
    >>> np.roll(np.array([1, 2, 3]), 1)
    array([3, 1, 2])
    """
    t = as_array(a)
    if axis is None:
        shifts: Any = tuple(shift) if isinstance(shift, (tuple, list)) else (shift,)
        line = ops.reshape(t, shape=(t.size,))
        return ops.reshape(rearrange.roll(line, int(np.sum(shifts)), 0), shape=t.shape)
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    dims = [one_axis(d, t.ndim) for d in axes]
    shifts = [
        int(s)
        for s in np.broadcast_to(
            np.asarray(plain_ints(shift)), (len(dims),) if np.ndim(shift) == 0 else np.shape(shift)
        )
    ]
    dims = dims * len(shifts) if len(dims) == 1 else dims
    if len(dims) != len(shifts):
        raise ValueError(
            f"roll(): {len(shifts)} shifts for {len(dims)} axes. Give one shift for all axes, or one for each. "
            "[nd-shape]"
        )
    for d, s in zip(dims, shifts, strict=True):
        t = rearrange.roll(t, s, d)
    return t


def plain_ints(x: ArrayLike) -> Any:
    return values_of(x) if not isinstance(x, (int, tuple, list)) else x


def tile(A: ArrayLike, reps: int | Sequence[int]) -> Array:
    """The array repeated as a whole along each axis.

    Args:
        A: array to repeat.
        reps: number of copies along the last axis, or along each of the last axes.

    >>> import ndgrad.numpy as np
    >>> np.tile(np.array([1, 2]), 2)
    array([1, 2, 1, 2])
    """
    t = as_array(A)
    counts = tuple(operator.index(r) for r in (reps if hasattr(reps, "__iter__") else (reps,)))
    counts = (1,) * (t.ndim - len(counts)) + counts
    t = ops.reshape(t, shape=(1,) * (len(counts) - t.ndim) + t.shape)
    return rearrange.repeat(t, *counts) if counts else t.copy("K")


def repeat(a: ArrayLike, repeats: ArrayLike, axis: int | None = None) -> Array:
    """Each element repeated along an axis, by one count or by individual counts.

    Args:
        a: array.
        repeats: number of copies of each element, or one number for each element along the axis.
        axis: axis along which to repeat. None flattens the array.

    >>> import ndgrad.numpy as np
    >>> np.repeat(np.array([1, 2]), [1, 3])
    array([1, 2, 2, 2])
    """
    t, axis = swept_line(as_array(a), axis)
    counts = np.asarray(values_of(repeats))
    if counts.dtype.kind not in "iub":
        raise TypeError(
            f"Cannot cast array data from {counts.dtype!r} to dtype('int64') according to the rule 'safe' [nd-cast]"
        )
    if (counts < 0).any():
        raise ValueError("repeats may not contain negative values. [nd-range]")
    if counts.ndim > 1 or counts.size not in (1, t.shape[axis]):
        raise ValueError(
            f"operands could not be broadcast together with shape ({t.shape[axis]},) {counts.shape} [nd-broadcast]"
        )
    repeats = tuple(int(n) for n in np.broadcast_to(counts, (t.shape[axis],)))
    return rearrange_ops.repeat_interleave(t, repeats=repeats, dim=axis)


# ----- pieces ---------------------------------------------------------------------------------------------------------


def array_split(ary: ArrayLike, indices_or_sections: Sections, axis: int = 0) -> list[Array]:
    """Views of pieces along an axis, whose lengths may differ by one.

    Args:
        ary: array to split.
        indices_or_sections: number of pieces, or indices at which to cut.
        axis: axis along which to split.

    >>> import ndgrad.numpy as np
    >>> np.array_split(np.arange(5), 2)
    [array([0, 1, 2]), array([3, 4])]
    """
    t = as_array(ary)
    axis = one_axis(axis, t.ndim)
    length = t.shape[axis]
    if isinstance(indices_or_sections, SupportsIndex) and not np.ndim(indices_or_sections):
        count = operator.index(indices_or_sections)
        if count <= 0:
            raise ValueError("number sections must be larger than 0. [nd-range]")
        short, extra = divmod(length, count)
        sizes = [short + 1] * extra + [short] * (count - extra)
        stops = [int(s) for s in np.cumsum([0, *sizes])]
    else:
        stops = [0, *(int(i) for i in values_of(indices_or_sections)), length]
    return [part(t, axis, slice(start, stop)) for start, stop in itertools.pairwise(stops)]


def split(ary: ArrayLike, indices_or_sections: Sections, axis: int = 0) -> list[Array]:
    """Views of equal pieces along an axis, or of the pieces between indices.

    Args:
        ary: array to split.
        indices_or_sections: number of equal pieces, or indices at which to cut.
        axis: axis along which to split.

    Raises:
        ValueError: if the axis does not split into equal pieces.

    >>> import ndgrad.numpy as np
    >>> np.split(np.arange(4), [1])
    [array([0]), array([1, 2, 3])]
    """
    t = as_array(ary)
    if (
        isinstance(indices_or_sections, SupportsIndex)
        and not np.ndim(indices_or_sections)
        and t.shape[one_axis(axis, t.ndim)] % operator.index(indices_or_sections)
    ):
        raise ValueError(
            f"array split does not result in an equal division (shape {t.shape}, axis {axis}, "
            f"{indices_or_sections} sections) [nd-divisible]"
        )
    return array_split(t, indices_or_sections, axis)


def hsplit(ary: ArrayLike, indices_or_sections: Sections) -> list[Array]:
    """Views of pieces along the second axis, for a line along its only one.

    Args:
        ary: array of at least one dimension.
        indices_or_sections: number of equal pieces, or indices at which to cut.

    >>> import ndgrad.numpy as np
    >>> np.hsplit(np.arange(4), 2)
    [array([0, 1]), array([2, 3])]
    """
    t = _check_rank("hsplit", ary, 1)
    return split(t, indices_or_sections, 1 if t.ndim > 1 else 0)


def vsplit(ary: ArrayLike, indices_or_sections: Sections) -> list[Array]:
    """Views of pieces along the first axis.

    Args:
        ary: array of at least two dimensions.
        indices_or_sections: number of equal pieces, or indices at which to cut.

    >>> import ndgrad.numpy as np
    >>> np.vsplit(np.eye(2), 2)
    [array([[1., 0.]]), array([[0., 1.]])]
    """
    return split(_check_rank("vsplit", ary, 2), indices_or_sections, 0)


def dsplit(ary: ArrayLike, indices_or_sections: Sections) -> list[Array]:
    """Views of pieces along the third axis.

    Args:
        ary: array of at least three dimensions.
        indices_or_sections: number of equal pieces, or indices at which to cut.

    >>> import ndgrad.numpy as np
    >>> [p.shape for p in np.dsplit(np.zeros((1, 2, 4)), 2)]
    [(1, 2, 2), (1, 2, 2)]
    """
    return split(_check_rank("dsplit", ary, 3), indices_or_sections, 2)


def unstack(x: ArrayLike, /, *, axis: int = 0) -> tuple[Array, ...]:
    """Views of the slices along an axis, without it.

    Args:
        x: array of at least one dimension.
        axis: axis along which to split.

    >>> import ndgrad.numpy as np
    >>> np.unstack(np.eye(2))
    (array([1., 0.]), array([0., 1.]))
    """
    t = _check_rank("unstack", x, 1)
    made: tuple[Any, ...] = split_ops.unbind(t, dim=one_axis(axis, t.ndim))
    return made


def trim_zeros(filt: ArrayLike, trim: str = "fb", axis: Axes = None) -> Array:
    """The array without the zeros at the ends of each axis.

    Args:
        filt: array.
        trim: ends that are trimmed: `"f"` for the front, `"b"` for the back, `"fb"` for both.
        axis: axis or axes to trim. None means all.

    >>> import ndgrad.numpy as np
    >>> np.trim_zeros(np.array([0, 1, 0, 2, 0]))
    array([1, 0, 2])
    """
    t = as_array(filt)
    nonzero = np.argwhere(values_of(t))
    dims = many_axes(axis, t.ndim)
    trim = trim.lower()
    if trim not in ("fb", "bf", "f", "b"):
        raise ValueError(f"unexpected character(s) in `trim`: {trim!r} [nd-option]")
    cut = [slice(None)] * t.ndim
    for d in dims:
        first, last = (
            (nonzero[:, d].min(), nonzero[:, d].max() + 1)
            if len(nonzero)
            else (t.shape[d], t.shape[d] if trim == "f" else 0)
        )
        if not len(nonzero) and trim != "f":
            first = 0
        cut[d] = slice(int(first) if "f" in trim else 0, int(last) if "b" in trim else t.shape[d])
    return t[tuple(cut)]


# ----- diagonals and triangles ----------------------------------------------------------------------------------------


def diagonal(a: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """A view of the diagonals of the matrices that two axes span.

    Args:
        a: array of at least two dimensions.
        offset: number of the diagonal: 0 for the main one, positive above it, negative below it.
        axis1, axis2: axes of the rows and of the columns.

    >>> import ndgrad.numpy as np
    >>> np.diagonal(np.array([[1, 2], [3, 4]]))
    array([1, 4])
    """
    t = _check_rank("diagonal", a, 2)
    return triangle_api.diagonal(t, offset, one_axis(axis1, t.ndim), one_axis(axis2, t.ndim))


def trace(a: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Dtype = None, out: Out = None) -> Array:
    """The sums of diagonals.

    Args:
        a: array of at least two dimensions.
        offset: number of the diagonal: 0 for the main one, positive above it, negative below it.
        axis1, axis2: axes of the rows and of the columns.
        dtype: dtype of the result. None means that of the sum.
        out: array that receives the result.

    >>> import ndgrad.numpy as np
    >>> np.trace(np.array([[1.0, 2.0], [3.0, 4.0]]))
    array(5.)
    """
    t = diagonal(a, offset, axis1, axis2)
    return deliver("trace", reduce_ops.sum(with_dtype(t, dtype), dim=(t.ndim - 1,)), out)


def diag(v: ArrayLike, k: int = 0) -> Array:
    """The matrix with this diagonal, or the diagonal of a matrix, which is a view.

    Args:
        v: line, or matrix.
        k: number of the diagonal: 0 for the main one, positive above it, negative below it.

    >>> import ndgrad.numpy as np
    >>> np.diag(np.array([1, 2]))
    array([[1, 0],
           [0, 2]])
    """
    t = as_array(v)
    if t.ndim not in (1, 2):
        raise ValueError(f"Input must be 1- or 2-d, but its shape is {t.shape}. [nd-ndim]")
    return triangle_api.diag(t, k) if t.ndim == 1 else diagonal(t, k)


def diagflat(v: ArrayLike, k: int = 0) -> Array:
    """The matrix whose diagonal is the flattened array.

    Args:
        v: array, which is flattened.
        k: number of the diagonal: 0 for the main one, positive above it, negative below it.

    >>> import ndgrad.numpy as np
    >>> np.diagflat(np.array([[1], [2]]))
    array([[1, 0],
           [0, 2]])
    """
    t = as_array(v)
    return triangle_api.diag(ops.reshape(t, shape=(t.size,)), k)


def tril(m: ArrayLike, k: int = 0) -> Array:
    """The lower triangle, zeros above the k-th diagonal.

    Args:
        m: matrices of shape (..., m, n). A line becomes a matrix of equal rows.
        k: last diagonal that is kept: 0 for the main one, positive above it, negative below it.

    >>> import ndgrad.numpy as np
    >>> np.tril(np.ones((2, 2)))
    array([[1., 0.],
           [1., 1.]])
    """
    return triangle_ops.tril(_square_part(m), diagonal=k)


def triu(m: ArrayLike, k: int = 0) -> Array:
    """The upper triangle, zeros below the k-th diagonal.

    Args:
        m: matrices of shape (..., m, n). A line becomes a matrix of equal rows.
        k: first diagonal that is kept: 0 for the main one, positive above it, negative below it.

    >>> import ndgrad.numpy as np
    >>> np.triu(np.ones((2, 2)))
    array([[1., 1.],
           [0., 1.]])
    """
    return triangle_ops.triu(_square_part(m), diagonal=k)


def _square_part(m: ArrayLike) -> Array:
    """Expand a vector to a square matrix with equal rows."""
    t = as_array(m)
    return broadcast(t, (t.size, t.size)) if t.ndim == 1 else t


# ----- windows --------------------------------------------------------------------------------------------------------


def sliding_window_view(
    x: ArrayLike, window_shape: Shape, axis: Axes = None, *, subok: bool = False, writeable: bool = False
) -> Array:
    """A view of every window of the given shape; the windows' dimensions come last.

    >>> import ndgrad.numpy as np
    >>> np.lib.stride_tricks.sliding_window_view(np.arange(4), 2)
    array([[0, 1],
           [1, 2],
           [2, 3]])
    """
    t = as_array(x)
    widths = tuple(window_shape) if hasattr(window_shape, "__iter__") else (window_shape,)
    if axis is None:
        dims: tuple[int, ...] = tuple(range(t.ndim))
        if len(widths) != t.ndim:
            raise ValueError(
                "Since axis is None, must provide window_shape for all dimensions of `x`; "
                f"got {len(widths)} and ndim {t.ndim}. [nd-shape]"
            )
    else:
        dims = tuple(one_axis(d, t.ndim) for d in (axis if isinstance(axis, (tuple, list)) else (axis,)))
        if len(widths) != len(dims):
            raise ValueError(
                f"Must provide matching length window_shape and axis; got {len(widths)} and {len(dims)} elements. "
                "[nd-shape]"
            )
    for d, width in zip(dims, widths, strict=True):
        if not 0 <= operator.index(width) <= t.shape[d]:
            raise ValueError(
                f"window shape cannot be larger than input array shape (width {width}, axis {d} of shape {t.shape}) "
                "[nd-range]"
            )
        t = window.unfold(t, dim=d, width=operator.index(width), step=1)
    return t


def as_strided(
    x: ArrayLike, shape: Shape | None = None, strides: Sequence[int] | None = None, subok: bool = False,
    writeable: bool = True, *, check_bounds: bool | None = None,
) -> Array:  # fmt: skip
    """A view with any shape and strides (in bytes) into the memory of the array; it must stay inside that memory.

    >>> import ndgrad.numpy as np
    >>> np.lib.stride_tricks.as_strided(np.arange(4), (2, 2), (8, 8))
    array([[0, 1],
           [1, 2]])
    """
    t = as_array(x)
    item = np_dtype(t).itemsize
    wanted = t.shape if shape is None else tuple(shape) if hasattr(shape, "__iter__") else (shape,)
    steps = t.strides if strides is None else tuple(strides)
    if any(s % item for s in steps):
        raise ValueError(
            f"strides {steps} are no multiples of the element's {item} bytes. Give strides that are. [nd-strides]"
        )
    return as_strided_by_elements(t, wanted, tuple(s // item for s in steps))
