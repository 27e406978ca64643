"""Reductions along axes, with NumPy's signatures: sums, products, means, deviations, extremes, and their kin that skip NaN.

Sums, products and extremes are the `reduce` of their ufuncs, as in NumPy, so `initial=` and `where=` mean the same in both. Skipping
NaN means replacing it by what changes nothing; the replaced elements get a gradient of exactly zero.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from ndgrad.api import extremum as extremum_api
from ndgrad.api import statistics as statistics_api
from ndgrad.arrays.precision import is_floating, is_inexact, result_dtype
from ndgrad.autograd.variable import np_dtype
from ndgrad.numpy.coercion import (
    arranged_like,
    as_array,
    broadcast,
    constant,
    deliver,
    flat,
    inexact,
    many_axes,
    one_axis,
    surely,
    swept,
    with_dtype,
)
from ndgrad.numpy.ufunc_methods import NO_VALUE, accumulate, reduce_along
from ndgrad.ops import arithmetic, comparison, join, selection
from ndgrad.ops import reduce as ops
from ndgrad.ops import shape as shape_ops
from ndgrad.storage import sample_of

__all__ = [
    "all", "amax", "amin", "any", "argmax", "argmin", "average", "count_nonzero", "cumprod", "cumsum", "cumulative_prod",
    "cumulative_sum", "max", "mean", "min", "nanargmax", "nanargmin", "nancumprod", "nancumsum", "nanmax", "nanmean", "nanmin",
    "nanprod", "nanstd", "nansum", "nanvar", "prod", "ptp", "std", "sum", "var",
]  # fmt: skip


def _kept(keepdims: Any) -> bool:
    return keepdims is not NO_VALUE and bool(keepdims)


# ----- sums, products, extremes --------------------------------------------------------------------------------------


def sum(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = NO_VALUE, initial: Any = NO_VALUE, where: Any = True
) -> Any:
    """The sum of elements along axes."""
    return reduce_along(np.add, a, axis, dtype, out, _kept(keepdims), initial, where)


def prod(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = NO_VALUE, initial: Any = NO_VALUE, where: Any = True
) -> Any:
    """The product of elements along axes."""
    return reduce_along(np.multiply, a, axis, dtype, out, _kept(keepdims), initial, where)


def max(a: Any, axis: Any = None, out: Any = None, keepdims: Any = NO_VALUE, initial: Any = NO_VALUE, where: Any = True) -> Any:
    """The largest elements along axes; equal ones share the gradient."""
    return reduce_along(np.maximum, a, axis, None, out, _kept(keepdims), initial, where)


def min(a: Any, axis: Any = None, out: Any = None, keepdims: Any = NO_VALUE, initial: Any = NO_VALUE, where: Any = True) -> Any:
    """The smallest elements along axes; equal ones share the gradient."""
    return reduce_along(np.minimum, a, axis, None, out, _kept(keepdims), initial, where)


amax, amin = max, min


def ptp(a: Any, axis: Any = None, out: Any = None, keepdims: Any = NO_VALUE) -> Any:
    """The difference between the largest and the smallest element along axes."""
    return deliver("ptp", max(a, axis, keepdims=keepdims) - min(a, axis, keepdims=keepdims), out)


def all(a: Any, axis: Any = None, out: Any = None, keepdims: Any = NO_VALUE, *, where: Any = True) -> Any:
    return reduce_along(np.logical_and, a, axis, None, out, _kept(keepdims), NO_VALUE, where)


def any(a: Any, axis: Any = None, out: Any = None, keepdims: Any = NO_VALUE, *, where: Any = True) -> Any:
    return reduce_along(np.logical_or, a, axis, None, out, _kept(keepdims), NO_VALUE, where)


def count_nonzero(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    t = as_array(a)
    return ops.count_nonzero(t, dim=many_axes(axis, t.ndim), keepdim=keepdims)


# ----- places ----------------------------------------------------------------------------------------------------------


def argmax(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = NO_VALUE) -> Any:
    return _place("argmax", a, axis, out, keepdims)


def argmin(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = NO_VALUE) -> Any:
    return _place("argmin", a, axis, out, keepdims)


def _place(name: str, a: Any, axis: Any, out: Any, keepdims: Any) -> Any:
    t = as_array(a)
    found = getattr(extremum_api, name)(t, None if axis is None else one_axis(axis, t.ndim), _kept(keepdims))
    return deliver(name, found, out)


def nanargmax(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = NO_VALUE) -> Any:
    return argmax(_without_nan("nanargmax", a, axis, -math.inf), axis, out, keepdims=keepdims)


def nanargmin(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = NO_VALUE) -> Any:
    return argmin(_without_nan("nanargmin", a, axis, math.inf), axis, out, keepdims=keepdims)


def _without_nan(name: str, a: Any, axis: Any, instead: float) -> Any:
    t = as_array(a)
    if not is_inexact(np_dtype(t)):
        return t
    if surely(all(comparison.isnan(t), axis)):
        raise ValueError(f"{name}(): All-NaN slice encountered (shape {t.shape}). Leave such slices out.")
    return selection.where(comparison.isnan(t), instead, t)


# ----- means and deviations ----------------------------------------------------------------------------------------------


def mean(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = NO_VALUE, *, where: Any = True) -> Any:
    """The arithmetic mean along axes; of integers in float64."""
    t = inexact(as_array(a), dtype)
    dims = many_axes(axis, t.ndim)
    if where is not True:
        return deliver("mean", sum(t, dims, keepdims=keepdims, where=where) / _count(t, dims, _kept(keepdims), where), out)
    whole = len(dims) == t.ndim and not _kept(keepdims)
    return deliver("mean", ops.mean_all(t) if whole else ops.mean(t, dim=dims, keepdim=_kept(keepdims)), out)


def _count(t: Any, dims: tuple[int, ...], keepdims: bool, where: Any) -> Any:
    """How many elements a mask leaves along the axes, in the dtype of the result."""
    mask = broadcast(as_array(where), t.shape)
    return ops.sum(mask, dim=dims, keepdim=keepdims, dtype=real_dtype(t))


def real_dtype(t: Any) -> Any:
    """The dtype of the parts of complex numbers, and of real numbers their own."""
    dtype = np_dtype(t)
    return np.empty(0, dtype).real.dtype if dtype.kind == "c" else dtype


def var(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = NO_VALUE, *, where: Any = True,
    mean: Any = NO_VALUE, correction: Any = NO_VALUE,
) -> Any:  # fmt: skip
    """The variance along axes, by default of the population (ddof=0)."""
    return deliver("var", _variance("var", a, axis, dtype, ddof, keepdims, where, mean, correction), out)


def std(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = NO_VALUE, *, where: Any = True,
    mean: Any = NO_VALUE, correction: Any = NO_VALUE,
) -> Any:  # fmt: skip
    """The standard deviation along axes, by default of the population (ddof=0)."""
    return deliver("std", _variance("std", a, axis, dtype, ddof, keepdims, where, mean, correction), out)


def _variance(name: str, a: Any, axis: Any, dtype: Any, ddof: Any, keepdims: Any, where: Any, centre: Any, correction: Any) -> Any:
    if correction is not NO_VALUE:
        if ddof != 0:
            raise ValueError(f"{name}(): ddof and correction can't be provided simultaneously.")
        ddof = correction
    t = inexact(as_array(a), dtype)
    dims = many_axes(axis, t.ndim)
    keep = _kept(keepdims)
    if where is True and centre is NO_VALUE and is_floating(np_dtype(t)) and t.size and dims:
        # torch's functions take a correction too, and warn where it leaves nothing to divide by
        return getattr(statistics_api, name)(t, dims, correction=ddof, keepdim=keep)
    mid = mean(t, dims, keepdims=True, where=where) if centre is NO_VALUE else as_array(centre)
    away = t - mid
    squares = (away.real**2 + away.imag**2) if np_dtype(away).kind == "c" else away**2
    count = _count(squares, dims, keep, where) if where is not True else float(math.prod(t.shape[d] for d in dims))
    left = selection.clamp_min(count - ddof, 0.0) if where is not True else count - ddof if count > ddof else 0.0
    if where is True and not left:
        warnings.warn("Degrees of freedom <= 0 for slice", RuntimeWarning, stacklevel=4)
    result = sum(squares, dims, keepdims=keep, where=where) / left
    return _root(result) if name == "std" else result


def _root(variance: Any) -> Any:
    """The square root, with slope 0 where there is no spread: of a single number, too, the deviation is 0 wherever it lies."""
    flat = variance == 0
    return selection.where(flat, 0.0, arithmetic.sqrt(selection.where(flat, 1.0, variance)))


def average(a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: Any = NO_VALUE) -> Any:
    """The weighted mean along axes; differentiable in the weights too."""
    t = as_array(a)
    dims = many_axes(axis, t.ndim)
    keep = _kept(keepdims)
    if weights is None:
        result = mean(t, dims, keepdims=keep)
        total = constant(np.full(result.shape, math.prod(t.shape[d] for d in dims), np_dtype(result)))
        return (result, total) if returned else result
    w = as_array(weights)
    if w.shape != t.shape:
        if axis is None:
            raise TypeError("Axis must be specified when shapes of a and weights differ.")
        if w.shape != tuple(t.shape[d] for d in dims):
            raise ValueError(f"Shape of weights {w.shape} must be consistent with shape of a {t.shape} along specified axis {axis}.")
        order = np.argsort(dims)
        placed = [1] * t.ndim
        for d in dims:
            placed[d] = t.shape[d]
        w = shape_ops.reshape(shape_ops.permute(w, dims=tuple(int(o) for o in order)), shape=tuple(placed))
    dtype = result_dtype(np_dtype(t), np_dtype(w), *((np.float64,) if np_dtype(t).kind in "iub" else ()))
    t, w = with_dtype(t, dtype), with_dtype(broadcast(w, t.shape), dtype)
    total = ops.sum(w, dim=dims, keepdim=keep)
    if surely(comparison.eq(total, 0)):
        raise ZeroDivisionError("Weights sum to zero, can't be normalized")
    result = ops.sum(t * w, dim=dims, keepdim=keep) / total
    return (result, broadcast(total, result.shape)) if returned else result


# ----- running sums and products ---------------------------------------------------------------------------------------------


def cumsum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    return accumulate(np.add, *swept(as_array(a), axis), dtype, out)


def cumprod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    return accumulate(np.multiply, *swept(as_array(a), axis), dtype, out)


def cumulative_sum(x: Any, /, *, axis: Any = None, dtype: Any = None, out: Any = None, include_initial: bool = False) -> Any:
    return _cumulative("cumulative_sum", np.add, x, axis, dtype, out, include_initial)


def cumulative_prod(x: Any, /, *, axis: Any = None, dtype: Any = None, out: Any = None, include_initial: bool = False) -> Any:
    return _cumulative("cumulative_prod", np.multiply, x, axis, dtype, out, include_initial)


def _cumulative(name: str, ufunc: Any, x: Any, axis: Any, dtype: Any, out: Any, include_initial: bool) -> Any:
    t = as_array(x)
    if axis is None:
        if t.ndim > 1:
            raise ValueError(
                f"For arrays which have more than one dimension ``axis`` argument is required, and {name}() got shape {t.shape}."
            )
        axis = 0
    t = flat(t) if t.ndim == 0 else t
    axis = one_axis(axis, t.ndim)
    made = accumulate(ufunc, t, axis, dtype)
    if include_initial:
        ends = (*t.shape[:axis], 1, *t.shape[axis + 1 :])
        first = np.full_like(sample_of(made), ufunc.identity, shape=ends)  # in its memory order, which is then that of both
        made = join.cat(constant(first), made, dim=axis)
    return deliver(name, made, out)


# ----- without NaN -------------------------------------------------------------------------------------------------------------


def _filled(a: Any, instead: float) -> tuple[Any, Any]:
    """The array with NaN replaced, and where there was none; the mask is None where there can be no NaN."""
    t = as_array(a)
    if not is_inexact(np_dtype(t)):
        return t, None
    nan = comparison.isnan(t)
    return selection.where(nan, instead, t), comparison.logical_not(nan)


def _both(mask: Any, where: Any) -> Any:
    """One mask of two."""
    if mask is None:
        return where
    return mask if where is True else comparison.logical_and(mask, as_array(where))


def nansum(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = NO_VALUE, initial: Any = NO_VALUE, where: Any = True
) -> Any:
    return sum(_filled(a, 0.0)[0], axis, dtype, out, keepdims, initial, where)


def nanprod(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = NO_VALUE, initial: Any = NO_VALUE, where: Any = True
) -> Any:
    return prod(_filled(a, 1.0)[0], axis, dtype, out, keepdims, initial, where)


def _copied_and_filled(a: Any, instead: float) -> Any:
    """The array with NaN replaced, in the memory order of a copy of it."""
    t = as_array(a)
    return arranged_like(_filled(t, instead)[0], t)


def nancumsum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    return cumsum(_copied_and_filled(a, 0.0), axis, dtype, out)


def nancumprod(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
    return cumprod(_copied_and_filled(a, 1.0), axis, dtype, out)


def nanmax(a: Any, axis: Any = None, out: Any = None, keepdims: Any = NO_VALUE, initial: Any = NO_VALUE, where: Any = True) -> Any:
    return _nan_extremum("nanmax", max, -math.inf, a, axis, out, keepdims, initial, where)


def nanmin(a: Any, axis: Any = None, out: Any = None, keepdims: Any = NO_VALUE, initial: Any = NO_VALUE, where: Any = True) -> Any:
    return _nan_extremum("nanmin", min, math.inf, a, axis, out, keepdims, initial, where)


def _nan_extremum(name: str, function: Any, worst: float, a: Any, axis: Any, out: Any, keepdims: Any, initial: Any, where: Any) -> Any:
    t, mask = _filled(a, worst)
    result = function(t, axis, None, keepdims, initial, where)
    if mask is not None:
        empty = comparison.logical_not(any(mask, axis, keepdims=keepdims))
        if surely(empty):
            warnings.warn(f"{name}: All-NaN slice encountered", RuntimeWarning, stacklevel=3)
        result = selection.where(empty, math.nan, result) if initial is NO_VALUE else result
    return deliver(name, result, out)


def nanmean(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = NO_VALUE, *, where: Any = True) -> Any:
    t, mask = _filled(a, 0.0)
    return mean(t, axis, dtype, out, keepdims, where=_both(mask, where))


def nanvar(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = NO_VALUE, *, where: Any = True,
    mean: Any = NO_VALUE, correction: Any = NO_VALUE,
) -> Any:  # fmt: skip
    t, mask = _filled(a, 0.0)
    return var(t, axis, dtype, out, ddof, keepdims, where=_both(mask, where), mean=mean, correction=correction)


def nanstd(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = NO_VALUE, *, where: Any = True,
    mean: Any = NO_VALUE, correction: Any = NO_VALUE,
) -> Any:  # fmt: skip
    t, mask = _filled(a, 0.0)
    return std(t, axis, dtype, out, ddof, keepdims, where=_both(mask, where), mean=mean, correction=correction)
