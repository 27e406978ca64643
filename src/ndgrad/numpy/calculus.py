"""Differences, derivatives and integrals on grids, and convolution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from ndgrad._src.core.variable import np_dtype
from ndgrad._src.ops import complex as complex_ops
from ndgrad._src.ops import join, padding, window
from ndgrad._src.ops import product as product_ops
from ndgrad._src.ops import reduce as reduce_ops
from ndgrad._src.ops import shape as shape_ops
from ndgrad._src.tensor.functions.scan import grid_derivative
from ndgrad.numpy.coercion import (
    arrange,
    arrange_like,
    as_array,
    broadcast,
    flat,
    inexact,
    many_axes,
    one_axis,
    operands,
    part,
    with_dtype,
)
from ndgrad.numpy.ufuncs import call

if TYPE_CHECKING:
    from ndgrad._typing import ArrayLike, Axes
    from ndgrad.numpy._array import Array

__all__ = ["convolve", "correlate", "diff", "ediff1d", "gradient", "trapezoid", "trapz"]

# ----- differences ----------------------------------------------------------------------------------------------------


def diff(
    a: ArrayLike, n: int = 1, axis: int = -1, prepend: ArrayLike | None = None, append: ArrayLike | None = None
) -> Array:
    """The n-th differences of neighbours along an axis.

    Args:
        a: array of at least one dimension.
        n: number of times the differences are taken. 0 returns the array.
        axis: axis along which neighbours are subtracted.
        prepend, append: values before and after the array along the axis: a number, or an array with the other axes of
            `a`.

    Returns:
        An Array whose axis is shorter by `n`. For bool it is the mask of unequal neighbours.

    >>> import ndgrad.numpy as np
    >>> np.diff(np.array([1.0, 3.0, 6.0]))
    array([2., 3.])
    """
    t = as_array(a)
    if t.ndim == 0:
        raise ValueError("diff requires input that is at least one dimensional [nd-ndim]")
    if n < 0:
        raise ValueError(f"order must be non-negative but got {n} [nd-range]")
    axis = one_axis(axis, t.ndim)
    if n == 0:
        return t
    ends = [_end(e, t, axis) for e in (prepend, append)]
    pieces = [e for e in (ends[0], t, ends[1]) if e is not None]
    if len(pieces) > 1:
        t = join.cat(*operands(*pieces), dim=axis)
    for _ in range(n):
        length = t.shape[axis]
        later, earlier = part(t, axis, slice(1, length)), part(t, axis, slice(0, max(length - 1, 0)))
        t = call(np.not_equal if np_dtype(t).kind == "b" else np.subtract, later, earlier)
    return t


def _end(value: Any, t: Array, axis: int) -> Array | None:
    if value is None or type(value).__name__ == "_NoValueType":
        return None
    v = as_array(value)
    return broadcast(v, (*t.shape[:axis], 1, *t.shape[axis + 1 :])) if v.ndim == 0 else v


def ediff1d(ary: ArrayLike, to_end: ArrayLike | None = None, to_begin: ArrayLike | None = None) -> Array:
    """Differences of neighbours of the flattened array, with optional numbers before and after.

    Args:
        ary: array, which is flattened.
        to_end: numbers appended to the differences.
        to_begin: numbers in front of the differences.

    >>> import ndgrad.numpy as np
    >>> np.ediff1d(np.array([1, 3, 6]), to_begin=0)
    array([0, 2, 3])
    """
    line = flat(as_array(ary))
    made = line[1:] - line[:-1]
    pieces = [
        None if to_begin is None else flat(as_array(to_begin)),
        made,
        None if to_end is None else flat(as_array(to_end)),
    ]
    for p in (pieces[0], pieces[2]):
        if p is not None and not np.can_cast(np_dtype(p), np_dtype(line), "same_kind"):
            raise TypeError(
                "dtype of `to_begin` and `to_end` must be compatible with input `ary`: "
                f"{np_dtype(p)} is not, with {np_dtype(line)} [nd-dtype-mismatch]"
            )
    return join.cat(*(with_dtype(p, np_dtype(line)) for p in pieces if p is not None), dim=0)


# ----- derivatives on a grid ------------------------------------------------------------------------------------------


@overload
def gradient(f: ArrayLike, *varargs: ArrayLike, axis: int, edge_order: int = 1) -> Array: ...
@overload
def gradient(f: ArrayLike, *varargs: ArrayLike, axis: Sequence[int] | None = None, edge_order: int = 1) -> Any: ...
def gradient(f: ArrayLike, *varargs: ArrayLike, axis: Axes = None, edge_order: int = 1) -> Any:
    """Return the derivative on a grid: central differences inside, one-sided ones at the ends. It is differentiable in
    the values and in the grid.

    Args:
        f: values of a function on a grid.
        *varargs: nothing for a spacing of 1, one spacing for all axes, or for each axis a spacing or the coordinates of
            its points.
        axis: axis or axes along which to differentiate. None means all.
        edge_order: order of accuracy at the ends, 1 or 2.

    Returns:
        An Array for one axis, a tuple of Arrays for several.

    >>> import ndgrad.numpy as np
    >>> np.gradient(np.array([0.0, 1.0, 4.0]))
    array([1., 2., 3.])
    """
    t = inexact(as_array(f))
    axes = many_axes(axis, t.ndim)
    if edge_order not in (1, 2):
        raise ValueError("'edge_order' greater than 2 not supported [nd-range]")
    spacings = _spacings(t, varargs, axes)
    made = tuple(_derivative(t, h, d, edge_order) for d, h in zip(axes, spacings, strict=True))
    return made[0] if len(axes) == 1 else made


def _spacings(t: Array, given: tuple[Any, ...], axes: tuple[int, ...]) -> list[Any]:
    """Return, for each axis, the uniform spacing or all spacings."""
    if len(given) not in (0, 1, len(axes)):
        raise TypeError(f"invalid number of arguments: {len(given)} spacings for {len(axes)} axes [nd-arguments]")
    if len(given) == 1 and np.ndim(given[0]) == 0:
        given = given * len(axes)
    elif len(given) == 1 and len(axes) != 1:
        raise TypeError(f"invalid number of arguments: one grid for {len(axes)} axes [nd-arguments]")
    found: list[Any] = []
    for h, d in zip(given or (1.0,) * len(axes), axes, strict=True):
        if np.ndim(h) == 0:
            found.append(h)
            continue
        grid = as_array(h)
        if grid.ndim != 1 or grid.shape[0] != t.shape[d]:
            raise ValueError(
                "when 1d, distances must match the length of the corresponding dimension: "
                f"{grid.shape} and {t.shape[d]} [nd-shape]"
            )
        grid = inexact(grid)
        found.append(grid[1:] - grid[:-1])
    return found


def _derivative(t: Array, h: Any, d: int, edge_order: int) -> Array:
    n = t.shape[d]
    if n < edge_order + 1:
        raise ValueError(
            f"Shape of array too small to calculate a numerical gradient: axis {d} has {n} elements, "
            f"and needs {edge_order + 1}. [nd-too-few]"
        )

    return arrange_like(grid_derivative(t, h, d, edge_order), t)


# ----- integrals ------------------------------------------------------------------------------------------------------


def trapezoid(y: ArrayLike, x: ArrayLike | None = None, dx: ArrayLike = 1.0, axis: int = -1) -> Array:
    """The integral by the trapezoidal rule; differentiable in the values and in the grid.

    Args:
        y: values of the integrand.
        x: coordinates of the values: a line, or an array like `y`. None means equal spacing.
        dx: spacing of the values if `x` is None.
        axis: axis along which to integrate.

    >>> import ndgrad.numpy as np
    >>> np.trapezoid(np.array([0.0, 1.0, 2.0]))
    array(2.)
    """
    t = as_array(y)
    axis = one_axis(axis, t.ndim)
    n = t.shape[axis]
    means = (part(t, axis, slice(1, n)) + part(t, axis, slice(0, max(n - 1, 0)))) * 0.5
    if x is None:
        return reduce_ops.sum(means * dx, dim=(axis,))
    grid = as_array(x)
    if grid.ndim == 1:
        width = shape_ops.reshape(grid[1:] - grid[:-1], shape=(max(grid.shape[0] - 1, 0), *(1,) * (t.ndim - axis - 1)))
    else:
        width = diff(grid, axis=axis)
    return reduce_ops.sum(means * width, dim=(axis,))


trapz = trapezoid  # the name before NumPy 2


# ----- convolution ----------------------------------------------------------------------------------------------------


def convolve(a: ArrayLike, v: ArrayLike, mode: str = "full") -> Array:
    """The discrete convolution of two lines.

    Args:
        a, v: lines, of which neither is empty.
        mode: `"full"` for every overlap, `"same"` for the length of the longer line, `"valid"` for complete overlaps
            only.

    >>> import ndgrad.numpy as np
    >>> np.convolve(np.array([1.0, 2.0]), np.array([1.0, 1.0]))
    array([1., 3., 2.])
    """
    x, y = _lines("convolve", a, v)
    if x.shape[0] < y.shape[0]:
        x, y = y, x
    return _slide(x, y[::-1], mode)


def correlate(a: ArrayLike, v: ArrayLike, mode: str = "valid") -> Array:
    """The cross-correlation of two lines: sums of a times the conjugate of v, shifted.

    Args:
        a, v: lines, of which neither is empty.
        mode: `"full"` for every overlap, `"same"` for the length of the longer line, `"valid"` for complete overlaps
            only.

    >>> import ndgrad.numpy as np
    >>> np.correlate(np.array([1.0, 2.0, 3.0]), np.array([1.0, 1.0]))
    array([3., 5.])
    """
    x, y = _lines("correlate", a, v)
    turned = x.shape[0] < y.shape[0]
    y = complex_ops.conj(y) if np_dtype(y).kind == "c" else y
    # The longer one keeps its role: swapping the two reverses the result.
    made = _slide(y, x, mode) if turned else _slide(x, y, mode)
    return arrange(made[::-1]) if turned else made


def _lines(name: str, a: ArrayLike, v: ArrayLike) -> list[Array]:
    x, y = operands(*(flat(as_array(t)) if np.ndim(t) == 0 else t for t in (a, v)))
    for which, t in (("a", x), ("v", y)):
        if t.ndim != 1:
            raise ValueError(
                f"{name}(): object too deep for desired array: {which} has shape {t.shape}, "
                "and must have one dimension. [nd-ndim]"
            )
        if not t.shape[0]:
            raise ValueError(f"{name}(): {which} cannot be empty [nd-too-few]")
    return [x, y]


def _slide(x: Array, y: Array, mode: str) -> Array:
    """Return inner products of y with every window of x (which is no shorter), after adding the margins of the mode."""
    n = y.shape[0]
    mode = {0: "valid", 1: "same", 2: "full"}.get(mode, mode) if isinstance(mode, int) else mode
    if mode not in ("valid", "same", "full"):
        raise ValueError(f"mode must be one of 'valid', 'same', or 'full' (got {mode!r}) [nd-option]")
    margins = {"valid": (0, 0), "same": (n // 2, n - 1 - n // 2), "full": (n - 1, n - 1)}[mode]
    if margins != (0, 0):
        x = padding.constant_pad_nd(x, pads=(margins,), value=0)
    return product_ops.matmul(window.unfold(x, dim=0, width=n, step=1), y)
