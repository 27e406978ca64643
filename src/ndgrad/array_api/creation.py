"""Arrays from numbers, sizes and other arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ndgrad._src.core.variable import Variable, np_dtype
from ndgrad.array_api.device_placement import place_on_device
from ndgrad.array_api.naming import like
from ndgrad.numpy import creation as ours
from ndgrad.numpy import grids, shapes
from ndgrad.numpy.coercion import as_array, on_device

if TYPE_CHECKING:
    from ndgrad._typing import Array, ArrayLike, Device, Dtype, Shape

__all__ = [
    "arange", "asarray", "empty", "empty_like", "eye", "from_dlpack", "full", "full_like", "linspace", "meshgrid",
    "ones", "ones_like", "tril", "triu", "zeros", "zeros_like",
]  # fmt: skip

# ----- from data ------------------------------------------------------------------------------------------------------


def asarray(obj: ArrayLike, /, *, dtype: Dtype = None, device: Device = None, copy: bool | None = None) -> Array:
    """Create an array from numbers, nested sequences or another array; sequences that contain Arrays keep their graph.

    Args:
        obj: number, array, tensor, or nested sequences of them.
        dtype: dtype of the result. None keeps that of the data.
        device: device of the result.
        copy: True for a copy, None for a copy only if it is needed, False for an error if it is needed.

    Raises:
        TypeError: if the data are neither numbers nor bool.

    >>> import ndgrad.array_api as xp
    >>> xp.asarray([1.0, 2.0])
    array([1., 2.])
    """
    made = ours.array(obj, dtype, copy=copy)
    if isinstance(obj, Variable):
        return _move(made, device, copy)
    if not isinstance(made, Variable):
        raise TypeError(
            f"asarray(): {type(obj).__name__} gives an array of {made.dtype}, and the standard knows "
            "numbers and booleans only. [nd-dtype]"
        )
    return place_on_device(made, device)


def _move(made: Array, device: Device, copy: bool | None) -> Array:
    elsewhere = on_device(made, device)
    if copy is False and elsewhere.device != made.device:
        raise ValueError(
            f"asarray(): a move from {made.device} to {elsewhere.device} needs a copy, and copy=False forbids one. "
            "[nd-copy]"
        )
    return elsewhere


def from_dlpack(x: object, /, *, device: Device = None, copy: bool | None = None) -> Array:
    """Create an array over the memory of another library's array. Gradients do not pass: see `ndgrad.from_dlpack`.

    Args:
        x: array of any library with `__dlpack__`.
        device: device of the result.
        copy: True for a copy, None for a copy only if it is needed, False for an error if it is needed.

    >>> import ndgrad.array_api as xp
    >>> xp.from_dlpack(xp.asarray([1.0, 2.0]))
    array([1., 2.])
    """
    return ours.from_dlpack(x, device=device, copy=copy)


# ----- constants ------------------------------------------------------------------------------------------------------


@like(ours.zeros)
def zeros(shape: Shape, *, dtype: Dtype = None, device: Device = None) -> Array:
    return place_on_device(ours.zeros(shape, dtype), device)


@like(ours.ones)
def ones(shape: Shape, *, dtype: Dtype = None, device: Device = None) -> Array:
    return place_on_device(ours.ones(shape, dtype), device)


@like(ours.empty)
def empty(shape: Shape, *, dtype: Dtype = None, device: Device = None) -> Array:
    return place_on_device(ours.empty(shape, dtype), device)


@like(ours.full)
def full(shape: Shape, fill_value: ArrayLike, *, dtype: Dtype = None, device: Device = None) -> Array:
    return place_on_device(ours.full(shape, fill_value, dtype), device)


def _as(x: ArrayLike, dtype: Dtype, device: Device) -> tuple[tuple[int, ...], Dtype, Device]:
    t = as_array(x)
    return tuple(t.shape), np_dtype(t) if dtype is None else dtype, t.device if device is None else device


@like(ours.zeros_like)
def zeros_like(x: ArrayLike, /, *, dtype: Dtype = None, device: Device = None) -> Array:
    shape, dtype, device = _as(x, dtype, device)
    return zeros(shape, dtype=dtype, device=device)


@like(ours.ones_like)
def ones_like(x: ArrayLike, /, *, dtype: Dtype = None, device: Device = None) -> Array:
    shape, dtype, device = _as(x, dtype, device)
    return ones(shape, dtype=dtype, device=device)


@like(ours.empty_like)
def empty_like(x: ArrayLike, /, *, dtype: Dtype = None, device: Device = None) -> Array:
    shape, dtype, device = _as(x, dtype, device)
    return empty(shape, dtype=dtype, device=device)


@like(ours.full_like)
def full_like(x: ArrayLike, /, fill_value: ArrayLike, *, dtype: Dtype = None, device: Device = None) -> Array:
    shape, dtype, device = _as(x, dtype, device)
    return full(shape, fill_value, dtype=dtype, device=device)


@like(ours.eye)
def eye(n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Dtype = None, device: Device = None) -> Array:
    return place_on_device(ours.eye(n_rows, n_cols, k, dtype), device)


# ----- ranges and grids -----------------------------------------------------------------------------------------------


def arange(
    start: ArrayLike,
    /,
    stop: ArrayLike | None = None,
    step: ArrayLike = 1,
    *,
    dtype: Dtype = None,
    device: Device = None,
) -> Array:
    """Evenly spaced numbers; differentiable in the start and in the step.

    Args:
        start: first number. Alone it is the end of a range from 0.
        stop: end of the range, which is left out.
        step: distance of neighbours.
        dtype: dtype of the result. None takes the common one of the arguments.
        device: device of the result.

    >>> import ndgrad.array_api as xp
    >>> xp.arange(1, 7, 2)
    array([1, 3, 5])
    """
    first, last = (0, start) if stop is None else (start, stop)
    return place_on_device(ours.arange(first, last, step, dtype=dtype), device)


@like(ours.linspace)
def linspace(
    start: ArrayLike, stop: ArrayLike, /, num: int, *, dtype: Dtype = None, device: Device = None, endpoint: bool = True
) -> Array:
    return place_on_device(ours.linspace(start, stop, num, endpoint, dtype=dtype), device)


def meshgrid(*arrays: ArrayLike, indexing: str = "xy") -> list[Array]:
    """Coordinate arrays of the grid that lines span.

    Args:
        *arrays: coordinates along each axis.
        indexing: `"xy"` puts the first coordinate on the second axis, `"ij"` on the first.

    Returns:
        One Array for each argument.

    >>> import ndgrad.array_api as xp
    >>> xp.meshgrid(xp.asarray([1, 2]), xp.asarray([3, 4]))[1]
    array([[3, 3],
           [4, 4]])
    """
    return list(grids.meshgrid(*arrays, indexing=indexing))


# ----- triangles ------------------------------------------------------------------------------------------------------


@like(shapes.tril)
def tril(x: ArrayLike, /, *, k: int = 0) -> Array:
    return shapes.tril(x, k)


@like(shapes.triu)
def triu(x: ArrayLike, /, *, k: int = 0) -> Array:
    return shapes.triu(x, k)
