"""Elementwise functions that are no ufuncs: clipping, rounding, complex parts, repairs, sinc, i0, interpolation, tests."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ndgrad.arrays.precision import finfo, is_inexact
from ndgrad.autograd.inplace import write
from ndgrad.autograd.variable import Variable, np_dtype
from ndgrad.numpy.coercion import arranged_like, as_array, deliver, inexact, one_axis, operands, part, values_of, with_dtype
from ndgrad.numpy.ufuncs import call
from ndgrad.ops import bessel, comparison, join, rounding, scan, selection, trigonometric
from ndgrad.ops import cast as cast_ops
from ndgrad.ops import complex as complex_ops
from ndgrad.ops import fill as fill_ops
from ndgrad.ops import order as order_ops
from ndgrad.ops import shape as shape_ops

__all__ = [
    "angle", "around", "astype", "clip", "fix", "i0", "imag", "interp", "isclose", "iscomplex", "isneginf", "isposinf", "isreal",
    "nan_to_num", "real", "real_if_close", "round", "sinc", "unwrap",
]  # fmt: skip

# ----- clipping and rounding -------------------------------------------------------------------------------------------


def clip(a: Any, a_min: Any = None, a_max: Any = None, out: Any = None, *, min: Any = None, max: Any = None, **options: Any) -> Any:
    """Elements kept between two bounds; an element on a bound keeps its gradient."""
    low, high = (a_min if min is None else min), (a_max if max is None else max)
    t = as_array(a)
    if low is None and high is None:
        return deliver("clip", cast_ops.clone(t), out)
    if options:
        made = t if low is None else call(np.maximum, t, low, **options)
        return deliver("clip", made if high is None else call(np.minimum, made, high, **options), out)
    bounds = [b for b in (low, high) if b is not None]
    t, *bounds = operands(t, *bounds)
    if low is None or high is None:
        made = (selection.clamp_max if low is None else selection.clamp_min)(t, bounds[0])
    else:
        made = selection.clamp(t, *bounds)
    return deliver("clip", made, out)


def round(a: Any, decimals: int = 0, out: Any = None) -> Any:
    t = as_array(a)
    made = rounding.round(t, decimals=decimals)
    return deliver("round", arranged_like(made, t, "A") if decimals else made, out)


around = round


def fix(x: Any, out: Any = None) -> Any:
    return deliver("fix", rounding.trunc(as_array(x)), out)


def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Any:
    return as_array(x).astype(dtype, copy=copy)


# ----- complex numbers ---------------------------------------------------------------------------------------------------


def real(val: Any) -> Any:
    return as_array(val).real


def imag(val: Any) -> Any:
    return as_array(val).imag


def angle(z: Any, deg: bool = False) -> Any:
    """The argument of complex numbers; of real ones 0 or pi."""
    t = inexact(as_array(z))
    made = complex_ops.angle(t) if np_dtype(t).kind == "c" else trigonometric.atan2(0.0, t)
    return trigonometric.rad2deg(made) if deg else made


def real_if_close(a: Any, tol: float = 100) -> Any:
    t = as_array(a)
    if np_dtype(t).kind != "c":
        return t
    bound = tol * finfo(np_dtype(t)).eps if tol > 1 else tol
    return t.real if (np.abs(values_of(t).imag) < bound).all() else t


def iscomplex(x: Any) -> Any:
    return comparison.logical_not(isreal(x))


def isreal(x: Any) -> Any:
    t = as_array(x)
    made = comparison.isreal(t)
    return made if np_dtype(t).kind == "c" else arranged_like(made, t, "A")


# ----- repairs and tests ---------------------------------------------------------------------------------------------------


def nan_to_num(x: Any, copy: bool = True, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Any:
    """NaN and infinities replaced by numbers, which get no gradient; with copy=False in place."""
    t = as_array(x)
    if not is_inexact(np_dtype(t)):
        return t.copy("K") if copy else t
    made = rounding.nan_to_num(t, nan=nan, posinf=posinf, neginf=neginf)
    return write(fill_ops.copy, x, (made,), {}) if not copy and isinstance(x, Variable) else made


def isposinf(x: Any, out: Any = None) -> Any:
    return deliver("isposinf", comparison.isposinf(as_array(x)), out)


def isneginf(x: Any, out: Any = None) -> Any:
    return deliver("isneginf", comparison.isneginf(as_array(x)), out)


def isclose(a: Any, b: Any, rtol: Any = 1.0e-5, atol: Any = 1.0e-8, equal_nan: bool = False) -> Any:
    x, y = as_array(a), as_array(b)
    tolerances = [values_of(v) if isinstance(v, Variable) else v for v in (rtol, atol)]
    return comparison.isclose(x, y, rtol=tolerances[0], atol=tolerances[1], equal_nan=equal_nan)


# ----- special functions -----------------------------------------------------------------------------------------------------


def sinc(x: Any) -> Any:
    return trigonometric.sinc(inexact(as_array(x)))


def i0(x: Any) -> Any:
    t = as_array(x)
    if np_dtype(t).kind == "c":
        raise TypeError(f"i0 not supported for complex values (shape {t.shape}). Take the real part.")
    return bessel.i0(inexact(t))


# ----- interpolation and phases ------------------------------------------------------------------------------------------------


def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Any:
    """Piecewise linear interpolation; differentiable in the points, in the knots and in their values."""
    at, knots, values = inexact(as_array(x)), inexact(as_array(xp)), inexact(as_array(fp))
    if knots.ndim != 1 or values.shape != knots.shape:
        raise ValueError(f"fp and xp are not of the same length, or not 1-D: their shapes are {values.shape} and {knots.shape}")
    if not knots.shape[0]:
        raise ValueError("array of sample points is empty")
    if period is not None:
        if period == 0:
            raise ValueError("period must be a non-zero value")
        span = abs(period)
        at, knots = at % span, knots % span
        order = order_ops.argsort(knots, dim=0, descending=False)
        knots, values = knots[order], values[order]
        knots = join.cat(knots[-1:] - span, knots, knots[:1] + span, dim=0)
        values = join.cat(values[-1:], values, values[:1], dim=0)
        left = right = None
    n = knots.shape[0]
    below = selection.clamp(order_ops.searchsorted(shape_ops.detach(knots), shape_ops.detach(at), right=True) - 1, 0, max(n - 2, 0))
    above = selection.clamp_max(below + 1, n - 1)
    x0, x1, y0, y1 = knots[below], knots[above], values[below], values[above]
    width = x1 - x0
    slope = (y1 - y0) / selection.where(comparison.eq(width, 0), 1.0, width)
    made = selection.where(comparison.eq(at, knots[-1]), values[-1], y0 + slope * (at - x0))
    first, last = (
        e if given is None else with_dtype(as_array(given), np_dtype(values)) for e, given in ((values[0], left), (values[-1], right))
    )
    made = selection.where(comparison.lt(at, knots[0]), first, made)
    return selection.where(comparison.gt(at, knots[-1]), last, made)


def unwrap(p: Any, discont: Any = None, axis: int = -1, *, period: Any = 2 * math.pi) -> Any:
    """Jumps of more than half a period taken out; the whole periods that are added are constant, so gradients pass unchanged."""
    t = as_array(p)
    axis = one_axis(axis, t.ndim)
    n = t.shape[axis]
    fixed = shape_ops.detach(t)
    steps = part(fixed, axis, slice(1, n)) - part(fixed, axis, slice(0, max(n - 1, 0)))
    whole = np_dtype(steps).kind in "iu" and isinstance(period, int)
    half = period // 2 if whole else period / 2
    wrapped = call(np.remainder, steps + half, period) - half
    if not whole or period % 2 == 0:
        # a jump of exactly half a period keeps its direction
        up = comparison.logical_and(comparison.eq(wrapped, -half), comparison.gt(steps, 0))
        wrapped = selection.where(up, half, wrapped)
    small = comparison.lt(complex_ops.abs(steps), half if discont is None else discont)
    turns = scan.cumsum(selection.keep(wrapped - steps, comparison.logical_not(small)), dim=axis)
    t = with_dtype(t, np_dtype(turns))
    return arranged_like(join.cat(part(t, axis, slice(0, 1)), part(t, axis, slice(1, n)) + turns, dim=axis), t)
