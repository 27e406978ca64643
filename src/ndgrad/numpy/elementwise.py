"""Elementwise functions that are not ufuncs: clipping, rounding, complex parts, repairs, sinc,
i0, interpolation, tests."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.arrays.precision import finfo, is_inexact
from ndgrad._src.core.inplace import write
from ndgrad._src.core.variable import Variable, np_dtype
from ndgrad._src.ops import bessel, comparison, join, rounding, scan, selection, trigonometric
from ndgrad._src.ops import cast as cast_ops
from ndgrad._src.ops import complex as complex_ops
from ndgrad._src.ops import fill as fill_ops
from ndgrad._src.ops import order as order_ops
from ndgrad._src.ops import shape as shape_ops
from ndgrad.numpy.coercion import (
    arrange_like,
    as_array,
    deliver,
    inexact,
    on_device,
    one_axis,
    operands,
    part,
    values_of,
    with_dtype,
)
from ndgrad.numpy.ufuncs import call

if TYPE_CHECKING:
    from ndgrad._typing import ArrayLike, Device, Dtype, Out
    from ndgrad.numpy._array import Array

__all__ = [
    "angle", "around", "astype", "clip", "fix", "i0", "imag", "interp", "isclose", "iscomplex", "isneginf", "isposinf",
    "isreal", "nan_to_num", "real", "real_if_close", "round", "sinc", "unwrap",
]  # fmt: skip

# ----- clipping and rounding ------------------------------------------------------------------------------------------


def clip(
    a: ArrayLike, a_min: ArrayLike | None = None, a_max: ArrayLike | None = None, out: Out = None, *,
    min: ArrayLike | None = None, max: ArrayLike | None = None, **options: Any,
) -> Array:  # fmt: skip
    """The elements clamped to two bounds; an element on a bound keeps its gradient.

    Args:
        a: array to clamp.
        a_min: lower bound, which broadcasts with the array. None means no bound.
        a_max: upper bound, which broadcasts with the array. None means no bound.
        out: array that receives the result.
        min, max: the bounds under their newer names, which take precedence.
        **options: options of ufuncs, such as `where`, `dtype` and `casting`.

    >>> import ndgrad.numpy as np
    >>> np.clip(np.array([-1.0, 0.5, 2.0]), 0.0, 1.0)
    array([0. , 0.5, 1. ])
    """
    low, high = (a_min if min is None else min), (a_max if max is None else max)
    t = as_array(a)
    if low is None and high is None:
        return deliver("clip", cast_ops.clone(t), out, broadcasts=True)
    if options:
        made = t if low is None else call(np.maximum, t, low, **options)
        return deliver("clip", made if high is None else call(np.minimum, made, high, **options), out, broadcasts=True)
    t, *bounds = operands(t, *(b for b in (low, high) if b is not None))
    if low is None or high is None:
        made = (selection.clamp_max if low is None else selection.clamp_min)(t, bounds[0])
    else:
        made = selection.clamp(t, *bounds)
    return deliver("clip", made, out, broadcasts=True)


def round(a: ArrayLike, decimals: int = 0, out: Out = None) -> Array:
    """The elements rounded to a number of decimals, halves to even; the slope is zero.

    Args:
        a: array to round.
        decimals: number of decimals. A negative number rounds to tens, hundreds and so on.
        out: array that receives the result.

    >>> import ndgrad.numpy as np
    >>> np.round(np.array([1.2, 2.5]))
    array([1., 2.])
    """
    t = as_array(a)
    made = rounding.round(t, decimals=decimals)
    return deliver("round", arrange_like(made, t, "A") if decimals else made, out, broadcasts=True)


around = round


def fix(x: ArrayLike, out: Out = None) -> Array:
    """The elements rounded towards zero.

    Args:
        x: array to round.
        out: array that receives the result.

    >>> import ndgrad.numpy as np
    >>> np.fix(np.array([-1.7, 1.7]))
    array([-1.,  1.])
    """
    return deliver("fix", rounding.trunc(as_array(x)), out, broadcasts=True)


def astype(x: ArrayLike, dtype: Dtype, /, *, copy: bool = True, device: Device = None) -> Array:
    """The elements in another dtype.

    Args:
        x: array to convert.
        dtype: dtype of the result.
        copy: whether the result is a copy even if the dtype is already right.
        device: device of the result.

    >>> import ndgrad.numpy as np
    >>> np.astype(np.array([1.5, 2.5]), int)
    array([1, 2])
    """
    return on_device(as_array(x).astype(dtype, copy=copy), device)


# ----- complex numbers ------------------------------------------------------------------------------------------------


def real(val: ArrayLike) -> Array:
    """The real part, a view; for real numbers the array itself.

    Args:
        val: array of real or complex numbers.

    >>> import ndgrad.numpy as np
    >>> np.real(np.array([1.0 + 2.0j]))
    array([1.])
    """
    return as_array(val).real


def imag(val: ArrayLike) -> Array:
    """The imaginary part, a view; zeros for real numbers.

    Args:
        val: array of real or complex numbers.

    >>> import ndgrad.numpy as np
    >>> np.imag(np.array([1.0 + 2.0j]))
    array([2.])
    """
    return as_array(val).imag


def angle(z: ArrayLike, deg: bool = False) -> Array:
    """The argument of complex numbers, in radians or degrees; for real ones 0 or pi.

    Args:
        z: array of real or complex numbers.
        deg: whether the result is in degrees.

    >>> import ndgrad.numpy as np
    >>> np.angle(np.array([1.0, 1.0j]), deg=True)
    array([ 0., 90.])
    """
    t = inexact(as_array(z))
    made = complex_ops.angle(t) if np_dtype(t).kind == "c" else trigonometric.atan2(0.0, t)
    return trigonometric.rad2deg(made) if deg else made


def real_if_close(a: ArrayLike, tol: float = 100) -> Array:
    """The real part if all imaginary parts are close to zero, else the array.

    Args:
        a: array of real or complex numbers.
        tol: largest imaginary part, in units of the machine precision if it exceeds 1, else as a number.

    >>> import ndgrad.numpy as np
    >>> np.real_if_close(np.array([1.0 + 1e-17j]))
    array([1.])
    """
    t = as_array(a)
    if np_dtype(t).kind != "c":
        return t
    bound = tol * finfo(np_dtype(t)).eps if tol > 1 else tol
    return t.real if (np.abs(values_of(t).imag) < bound).all() else t


def iscomplex(x: ArrayLike) -> Array:
    """A mask of elements whose imaginary part is not zero.

    Args:
        x: array of real or complex numbers.

    >>> import ndgrad.numpy as np
    >>> np.iscomplex(np.array([1.0 + 0.0j, 2.0j]))
    array([False,  True])
    """
    return comparison.logical_not(isreal(x))


def isreal(x: ArrayLike) -> Array:
    """A mask of elements whose imaginary part is zero.

    Args:
        x: array of real or complex numbers.

    >>> import ndgrad.numpy as np
    >>> np.isreal(np.array([1.0 + 0.0j, 2.0j]))
    array([ True, False])
    """
    t = as_array(x)
    made = comparison.isreal(t)
    return made if np_dtype(t).kind == "c" else arrange_like(made, t, "A")


# ----- repairs and tests ----------------------------------------------------------------------------------------------


def nan_to_num(
    x: ArrayLike, copy: bool = True, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Array:
    """Replace NaN and infinities by numbers, which get no gradient.

    Args:
        x: array to repair.
        copy: whether the result is a new array. False writes into `x` if it is a tensor.
        nan: number in place of NaN.
        posinf: number in place of positive infinity. None means the largest number of the dtype.
        neginf: number in place of negative infinity. None means the smallest number of the dtype.

    >>> import ndgrad.numpy as np
    >>> np.nan_to_num(np.array([1.0, np.nan]))
    array([1., 0.])
    """
    t = as_array(x)
    if not is_inexact(np_dtype(t)):
        return t.copy("K") if copy else t
    made: Any = rounding.nan_to_num(t, nan=nan, posinf=posinf, neginf=neginf)
    return write(fill_ops.copy, x, (made,), {}) if not copy and isinstance(x, Variable) else made


def isposinf(x: ArrayLike, out: Out = None) -> Array:
    """A mask of positive infinities.

    Args:
        x: array of real numbers.
        out: array that receives the result.

    >>> import ndgrad.numpy as np
    >>> np.isposinf(np.array([1.0, np.inf]))
    array([False,  True])
    """
    return deliver("isposinf", comparison.isposinf(as_array(x)), out, broadcasts=True)


def isneginf(x: ArrayLike, out: Out = None) -> Array:
    """A mask of negative infinities.

    Args:
        x: array of real numbers.
        out: array that receives the result.

    >>> import ndgrad.numpy as np
    >>> np.isneginf(np.array([1.0, -np.inf]))
    array([False,  True])
    """
    return deliver("isneginf", comparison.isneginf(as_array(x)), out, broadcasts=True)


def isclose(
    a: ArrayLike, b: ArrayLike, rtol: ArrayLike = 1.0e-5, atol: ArrayLike = 1.0e-8, equal_nan: bool = False
) -> Array:
    """A mask of elements that are equal within `atol + rtol * abs(b)`.

    Args:
        a: first array.
        b: second array, to which the relative tolerance refers.
        rtol: relative tolerance.
        atol: absolute tolerance.
        equal_nan: whether NaN equals NaN.

    >>> import ndgrad.numpy as np
    >>> np.isclose(np.array([1.0, 2.0]), [1.0 + 1e-9, 2.1])
    array([ True, False])
    """
    x, y = as_array(a), as_array(b)
    tolerances = [values_of(v) if isinstance(v, Variable) else v for v in (rtol, atol)]
    return comparison.isclose(x, y, rtol=tolerances[0], atol=tolerances[1], equal_nan=equal_nan)


# ----- special functions ----------------------------------------------------------------------------------------------


def sinc(x: ArrayLike) -> Array:
    """The function sin(pi x) / (pi x), with value 1 and slope 0 at 0.

    Args:
        x: array of numbers.

    >>> import ndgrad.numpy as np
    >>> np.sinc(np.array([0.0, 0.5]))
    array([1.        , 0.63661977])
    """
    return trigonometric.sinc(inexact(as_array(x)))


def i0(x: ArrayLike) -> Array:
    """The modified Bessel function of the first kind and order 0.

    Args:
        x: array of real numbers.

    Raises:
        TypeError: if the numbers are complex.

    >>> import ndgrad.numpy as np
    >>> np.i0(np.array([0.0, 1.0]))
    array([1.        , 1.26606588])
    """
    t = as_array(x)
    if np_dtype(t).kind == "c":
        raise TypeError(f"i0 not supported for complex values (shape {t.shape}). Take the real part. [nd-complex]")
    return bessel.i0(inexact(t))


# ----- interpolation and phases ---------------------------------------------------------------------------------------


def interp(
    x: ArrayLike, xp: ArrayLike, fp: ArrayLike, left: ArrayLike | None = None, right: ArrayLike | None = None,
    period: float | None = None,
) -> Array:  # fmt: skip
    """Piecewise linear interpolation; differentiable in the points, in the knots and in their values.

    Args:
        x: coordinates at which to interpolate.
        xp: line of coordinates of the knots, in increasing order unless `period` is given.
        fp: line of values at the knots.
        left: value below the first knot. None means the first value.
        right: value above the last knot. None means the last value.
        period: period of the coordinates. With one, `left` and `right` have no effect. None means no period.

    Raises:
        ValueError: if `xp` and `fp` are not two lines of one length, or are empty, or `period` is 0.

    >>> import ndgrad.numpy as np
    >>> x = np.array(1.5).requires_grad_()
    >>> np.interp(x, [0.0, 1.0, 2.0], [0.0, 1.0, 4.0]).backward()
    >>> x.grad
    array(3.)
    """
    at, knots, values = inexact(as_array(x)), inexact(as_array(xp)), inexact(as_array(fp))
    if knots.ndim != 1 or values.shape != knots.shape:
        raise ValueError(
            "fp and xp are not of the same length, or not 1-D: "
            f"their shapes are {values.shape} and {knots.shape} [nd-shape]"
        )
    if not knots.shape[0]:
        raise ValueError("array of sample points is empty [nd-too-few]")
    if period is not None:
        if period == 0:
            raise ValueError("period must be a non-zero value [nd-range]")
        span = abs(period)
        at, knots = at % span, knots % span
        order = order_ops.argsort(knots, dim=0, descending=False)
        knots, values = knots[order], values[order]
        knots = join.cat(knots[-1:] - span, knots, knots[:1] + span, dim=0)
        values = join.cat(values[-1:], values, values[:1], dim=0)
        left = right = None
    n = knots.shape[0]
    below = selection.clamp(
        order_ops.searchsorted(shape_ops.detach(knots), shape_ops.detach(at), right=True) - 1, 0, max(n - 2, 0)
    )
    above = selection.clamp_max(below + 1, n - 1)
    x0, x1, y0, y1 = knots[below], knots[above], values[below], values[above]
    width = x1 - x0
    slope = (y1 - y0) / selection.where(comparison.eq(width, 0), 1.0, width)
    made = selection.where(comparison.eq(at, knots[-1]), values[-1], y0 + slope * (at - x0))
    first, last = (
        e if given is None else with_dtype(as_array(given), np_dtype(values))
        for e, given in ((values[0], left), (values[-1], right))
    )
    made = selection.where(comparison.lt(at, knots[0]), first, made)
    return selection.where(comparison.gt(at, knots[-1]), last, made)


def unwrap(p: ArrayLike, discont: float | None = None, axis: int = -1, *, period: float = 2 * math.pi) -> Array:
    """Remove jumps of more than half a period. The added whole periods are constant, so gradients pass unchanged.

    Args:
        p: array of phases.
        discont: smallest jump that is removed. None means half a period.
        axis: axis along which jumps are removed.
        period: length of a period.

    >>> import ndgrad.numpy as np
    >>> np.unwrap(np.array([0.0, 3.0, 6.5]), period=4.0)
    array([ 0. , -1. , -1.5])
    """
    t = as_array(p)
    axis = one_axis(axis, t.ndim)
    n = t.shape[axis]
    fixed = shape_ops.detach(t)
    steps = part(fixed, axis, slice(1, n)) - part(fixed, axis, slice(0, max(n - 1, 0)))
    whole = np_dtype(steps).kind in "iu" and isinstance(period, int)
    half = period // 2 if whole else period / 2
    wrapped = call(np.remainder, steps + half, period) - half
    if not whole or period % 2 == 0:
        # A jump of exactly half a period keeps its direction.
        up = comparison.logical_and(comparison.eq(wrapped, -half), comparison.gt(steps, 0))
        wrapped = selection.where(up, half, wrapped)
    small = comparison.lt(complex_ops.abs(steps), half if discont is None else discont)
    turns = scan.cumsum(selection.keep(wrapped - steps, comparison.logical_not(small)), dim=axis)
    t = with_dtype(t, np_dtype(turns))
    return arrange_like(join.cat(part(t, axis, slice(0, 1)), part(t, axis, slice(1, n)) + turns, dim=axis), t)
