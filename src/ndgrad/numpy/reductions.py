"""Reductions along axes, with NumPy's signatures: sums, products, means, deviations, extremes,
and their variants that skip NaN.

Sums, products and extremes are the `reduce` of their ufuncs, as in NumPy, so `initial=` and `where=` mean the same in
both. Skipping NaN means replacing it by a neutral element; the replaced elements get a gradient of exactly zero.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from ndgrad._src.arrays.precision import is_floating, is_inexact, result_dtype
from ndgrad._src.core.variable import np_dtype
from ndgrad._src.ops import arithmetic, comparison, join, selection
from ndgrad._src.ops import reduce as ops
from ndgrad._src.ops import shape as shape_ops
from ndgrad._src.tensor.functions import extremum as extremum_api
from ndgrad._src.tensor.functions import statistics as statistics_api
from ndgrad._src.tensor.storage import sample_of
from ndgrad.numpy.coercion import (
    arrange_like,
    as_array,
    broadcast,
    constant,
    deliver,
    flat,
    inexact,
    many_axes,
    one_axis,
    surely,
    swept_line,
    with_dtype,
)
from ndgrad.numpy.ufunc_methods import NO_VALUE, accumulate, reduce_along

if TYPE_CHECKING:
    from ndgrad._typing import ArrayLike, Axes, Axis, Dtype, Out
    from ndgrad.numpy._array import Array

__all__ = [
    "all", "amax", "amin", "any", "argmax", "argmin", "average", "count_nonzero", "cumprod", "cumsum",
    "cumulative_prod", "cumulative_sum", "max", "mean", "min", "nanargmax", "nanargmin", "nancumprod", "nancumsum",
    "nanmax", "nanmean", "nanmin", "nanprod", "nanstd", "nansum", "nanvar", "prod", "ptp", "std", "sum", "var",
]  # fmt: skip


def _keeps_dims(keepdims: Any) -> bool:
    return keepdims is not NO_VALUE and bool(keepdims)


# ----- sums, products, extremes --------------------------------------------------------------------------------------


def sum(
    a: ArrayLike, axis: Axes = None, dtype: Dtype = None, out: Out = None, keepdims: bool = NO_VALUE,
    initial: ArrayLike = NO_VALUE, where: ArrayLike = True,
) -> Array:  # fmt: skip
    """The sum of the elements along axes.

    Args:
        a: array of numbers.
        axis: axis or axes along which to reduce. None means all.
        dtype: dtype of the result. None means that of the array, and for bool and small integers the default integer.
        out: array that receives the result.
        keepdims: whether reduced axes stay, with size 1.
        initial: value with which the reduction starts. It is the result for no elements.
        where: mask of the elements that count, which broadcasts with the array.

    >>> import ndgrad.numpy as np
    >>> np.sum(np.array([[1.0, 2.0], [3.0, 4.0]]), axis=0)
    array([4., 6.])
    """
    return reduce_along(np.add, a, axis, dtype, out, _keeps_dims(keepdims), initial, where)


def prod(
    a: ArrayLike, axis: Axes = None, dtype: Dtype = None, out: Out = None, keepdims: bool = NO_VALUE,
    initial: ArrayLike = NO_VALUE, where: ArrayLike = True,
) -> Array:  # fmt: skip
    """The product of the elements along axes; zeros among them have the right gradients.

    Args:
        a: array of numbers.
        axis: axis or axes along which to reduce. None means all.
        dtype: dtype of the result. None means that of the array, and for bool and small integers the default integer.
        out: array that receives the result.
        keepdims: whether reduced axes stay, with size 1.
        initial: value with which the reduction starts. It is the result for no elements.
        where: mask of the elements that count, which broadcasts with the array.

    >>> import ndgrad.numpy as np
    >>> x = np.array([0.0, 2.0, 3.0]).requires_grad_()
    >>> np.prod(x).backward()
    >>> x.grad
    array([6., 0., 0.])
    """
    return reduce_along(np.multiply, a, axis, dtype, out, _keeps_dims(keepdims), initial, where)


def max(
    a: ArrayLike, axis: Axes = None, out: Out = None, keepdims: bool = NO_VALUE, initial: ArrayLike = NO_VALUE,
    where: ArrayLike = True,
) -> Array:  # fmt: skip
    """The largest elements along axes; equal ones share the gradient.

    Args:
        a: array of numbers.
        axis: axis or axes along which to reduce. None means all.
        out: array that receives the result.
        keepdims: whether reduced axes stay, with size 1.
        initial: value with which the reduction starts. It is the result for no elements.
        where: mask of the elements that count, which broadcasts with the array. It needs `initial`.

    >>> import ndgrad.numpy as np
    >>> x = np.array([1.0, 3.0, 3.0]).requires_grad_()
    >>> np.max(x).backward()
    >>> x.grad
    array([0. , 0.5, 0.5])
    """
    return reduce_along(np.maximum, a, axis, None, out, _keeps_dims(keepdims), initial, where)


def min(
    a: ArrayLike, axis: Axes = None, out: Out = None, keepdims: bool = NO_VALUE, initial: ArrayLike = NO_VALUE,
    where: ArrayLike = True,
) -> Array:  # fmt: skip
    """The smallest elements along axes; equal ones share the gradient.

    Args:
        a: array of numbers.
        axis: axis or axes along which to reduce. None means all.
        out: array that receives the result.
        keepdims: whether reduced axes stay, with size 1.
        initial: value with which the reduction starts. It is the result for no elements.
        where: mask of the elements that count, which broadcasts with the array. It needs `initial`.

    >>> import ndgrad.numpy as np
    >>> np.min(np.array([[4.0, 2.0], [1.0, 3.0]]), axis=1)
    array([2., 1.])
    """
    return reduce_along(np.minimum, a, axis, None, out, _keeps_dims(keepdims), initial, where)


amax, amin = max, min


def ptp(a: ArrayLike, axis: Axes = None, out: Out = None, keepdims: bool = NO_VALUE) -> Array:
    """The difference between the largest and the smallest element along axes.

    Args:
        a: array of numbers.
        axis: axis or axes along which to reduce. None means all.
        out: array that receives the result.
        keepdims: whether reduced axes stay, with size 1.

    >>> import ndgrad.numpy as np
    >>> np.ptp(np.array([1.0, 5.0, 3.0]))
    array(4.)
    """
    return deliver("ptp", max(a, axis, keepdims=keepdims) - min(a, axis, keepdims=keepdims), out)


def all(
    a: ArrayLike, axis: Axes = None, out: Out = None, keepdims: bool = NO_VALUE, *, where: ArrayLike = True
) -> Array:
    """True if all elements along axes are true.

    Args:
        a: array. Numbers other than 0 count as true.
        axis: axis or axes along which to reduce. None means all.
        out: array that receives the result.
        keepdims: whether reduced axes stay, with size 1.
        where: mask of the elements that count, which broadcasts with the array.

    >>> import ndgrad.numpy as np
    >>> np.all(np.array([[True, False], [True, True]]), axis=1)
    array([False,  True])
    """
    return reduce_along(np.logical_and, a, axis, None, out, _keeps_dims(keepdims), NO_VALUE, where)


def any(
    a: ArrayLike, axis: Axes = None, out: Out = None, keepdims: bool = NO_VALUE, *, where: ArrayLike = True
) -> Array:
    """True if any element along axes is true.

    Args:
        a: array. Numbers other than 0 count as true.
        axis: axis or axes along which to reduce. None means all.
        out: array that receives the result.
        keepdims: whether reduced axes stay, with size 1.
        where: mask of the elements that count, which broadcasts with the array.

    >>> import ndgrad.numpy as np
    >>> np.any(np.array([0.0, 2.0]))
    array(True)
    """
    return reduce_along(np.logical_or, a, axis, None, out, _keeps_dims(keepdims), NO_VALUE, where)


def count_nonzero(a: ArrayLike, axis: Axes = None, *, keepdims: bool = False) -> Array:
    """The number of elements along axes that are not zero.

    Args:
        a: array of numbers.
        axis: axis or axes along which to count. None means all.
        keepdims: whether reduced axes stay, with size 1.

    >>> import ndgrad.numpy as np
    >>> np.count_nonzero(np.array([1.0, 0.0, 2.0]))
    array(2)
    """
    t = as_array(a)
    return ops.count_nonzero(t, dim=many_axes(axis, t.ndim), keepdim=keepdims)


# ----- places ---------------------------------------------------------------------------------------------------------


def argmax(a: ArrayLike, axis: Axis = None, out: Out = None, *, keepdims: bool = NO_VALUE) -> Array:
    """The index of the largest element, the first of equal ones; of the flattened array if no axis is given.

    Args:
        a: array of numbers.
        axis: axis along which to search. None searches the flattened array.
        out: array that receives the result.
        keepdims: whether reduced axes stay, with size 1.

    >>> import ndgrad.numpy as np
    >>> np.argmax(np.array([1.0, 4.0, 2.0]))
    array(1)
    """
    return _place("argmax", a, axis, out, keepdims)


def argmin(a: ArrayLike, axis: Axis = None, out: Out = None, *, keepdims: bool = NO_VALUE) -> Array:
    """The index of the smallest element, the first of equal ones; of the flattened array if no axis is given.

    Args:
        a: array of numbers.
        axis: axis along which to search. None searches the flattened array.
        out: array that receives the result.
        keepdims: whether reduced axes stay, with size 1.

    >>> import ndgrad.numpy as np
    >>> np.argmin(np.array([[3.0, 1.0], [0.0, 2.0]]), axis=0)
    array([1, 0])
    """
    return _place("argmin", a, axis, out, keepdims)


def _place(name: str, a: ArrayLike, axis: Axis, out: Out, keepdims: bool) -> Array:
    t = as_array(a)
    axis = None if axis is None or (t.ndim == 0 and axis in (0, -1)) else one_axis(axis, t.ndim)
    found = getattr(extremum_api, name)(t, axis, _keeps_dims(keepdims))
    return deliver(name, found, out)


def nanargmax(a: ArrayLike, axis: Axis = None, out: Out = None, *, keepdims: bool = NO_VALUE) -> Array:
    """The index of the largest element that is not NaN.

    Args:
        a: array of numbers.
        axis: axis along which to search. None searches the flattened array.
        out: array that receives the result.
        keepdims: whether reduced axes stay, with size 1.

    Raises:
        ValueError: if all elements along the axis are NaN.

    >>> import ndgrad.numpy as np
    >>> np.nanargmax(np.array([np.nan, 4.0, 2.0]))
    array(1)
    """
    return argmax(_remove_nan("nanargmax", a, axis, -math.inf), axis, out, keepdims=keepdims)


def nanargmin(a: ArrayLike, axis: Axis = None, out: Out = None, *, keepdims: bool = NO_VALUE) -> Array:
    """The index of the smallest element that is not NaN.

    Args:
        a: array of numbers.
        axis: axis along which to search. None searches the flattened array.
        out: array that receives the result.
        keepdims: whether reduced axes stay, with size 1.

    Raises:
        ValueError: if all elements along the axis are NaN.

    >>> import ndgrad.numpy as np
    >>> np.nanargmin(np.array([np.nan, 4.0, 2.0]))
    array(2)
    """
    return argmin(_remove_nan("nanargmin", a, axis, math.inf), axis, out, keepdims=keepdims)


def _remove_nan(name: str, a: ArrayLike, axis: Axes, instead: float) -> Array:
    t = as_array(a)
    if not is_inexact(np_dtype(t)):
        return t
    if surely(all(comparison.isnan(t), axis)):
        raise ValueError(f"{name}(): All-NaN slice encountered (shape {t.shape}). Leave such slices out. [nd-values]")
    return selection.where(comparison.isnan(t), instead, t)


# ----- means and deviations -------------------------------------------------------------------------------------------


def mean(
    a: ArrayLike, axis: Axes = None, dtype: Dtype = None, out: Out = None, keepdims: bool = NO_VALUE, *,
    where: ArrayLike = True,
) -> Array:  # fmt: skip
    """The arithmetic mean along axes; for integers in float64.

    Args:
        a: array of numbers.
        axis: axis or axes along which to reduce. None means all.
        dtype: dtype of the computation and of the result. None means that of the array, and float64 for integers.
        out: array that receives the result.
        keepdims: whether reduced axes stay, with size 1.
        where: mask of the elements that count, which broadcasts with the array.

    >>> import ndgrad.numpy as np
    >>> np.mean(np.array([[1.0, 2.0], [3.0, 4.0]]), axis=0)
    array([2., 3.])
    """
    t = inexact(as_array(a), dtype)
    dims = many_axes(axis, t.ndim)
    if where is not True:
        return deliver(
            "mean", sum(t, dims, keepdims=keepdims, where=where) / _count(t, dims, _keeps_dims(keepdims), where), out
        )
    whole = len(dims) == t.ndim and not _keeps_dims(keepdims)
    return deliver("mean", ops.mean_all(t) if whole else ops.mean(t, dim=dims, keepdim=_keeps_dims(keepdims)), out)


def _count(t: Array, dims: tuple[int, ...], keepdims: bool, where: ArrayLike) -> Array:
    """Return the number of elements that a mask selects along the axes, in the dtype of the result."""
    mask = broadcast(as_array(where), t.shape)
    return ops.sum(mask, dim=dims, keepdim=keepdims, dtype=real_dtype(t))


def real_dtype(t: Array) -> np.dtype[Any]:
    """Return the dtype of the parts of complex numbers; for real numbers their own."""
    dtype = np_dtype(t)
    return np.empty(0, dtype).real.dtype if dtype.kind == "c" else dtype


def var(
    a: ArrayLike, axis: Axes = None, dtype: Dtype = None, out: Out = None, ddof: float = 0, keepdims: bool = NO_VALUE,
    *, where: ArrayLike = True, mean: ArrayLike = NO_VALUE, correction: float = NO_VALUE,
) -> Array:  # fmt: skip
    """The variance along axes, by default of the population (ddof=0).

    Args:
        a: array of numbers.
        axis: axis or axes along which to reduce. None means all.
        dtype: dtype of the computation and of the result. None means that of the array, and float64 for integers.
        out: array that receives the result.
        ddof: number subtracted from the count of elements in the divisor.
        keepdims: whether reduced axes stay, with size 1.
        where: mask of the elements that count, which broadcasts with the array.
        mean: mean to measure deviations from, with reduced axes of size 1. It is computed if it is not given.
        correction: another name of `ddof`.

    >>> import ndgrad.numpy as np
    >>> np.var(np.array([1.0, 3.0]))
    array(1.)
    """
    return deliver("var", _variance("var", a, axis, dtype, ddof, keepdims, where, mean, correction), out)


def std(
    a: ArrayLike, axis: Axes = None, dtype: Dtype = None, out: Out = None, ddof: float = 0, keepdims: bool = NO_VALUE,
    *, where: ArrayLike = True, mean: ArrayLike = NO_VALUE, correction: float = NO_VALUE,
) -> Array:  # fmt: skip
    """The standard deviation along axes, by default of the population (ddof=0); its gradient is 0 if all elements are
    equal.

    Args:
        a: array of numbers.
        axis: axis or axes along which to reduce. None means all.
        dtype: dtype of the computation and of the result. None means that of the array, and float64 for integers.
        out: array that receives the result.
        ddof: number subtracted from the count of elements in the divisor.
        keepdims: whether reduced axes stay, with size 1.
        where: mask of the elements that count, which broadcasts with the array.
        mean: mean to measure deviations from, with reduced axes of size 1. It is computed if it is not given.
        correction: another name of `ddof`.

    >>> import ndgrad.numpy as np
    >>> x = np.array([1.0, 3.0]).requires_grad_()
    >>> np.std(x).backward()
    >>> x.grad
    array([-0.5,  0.5])
    """
    return deliver("std", _variance("std", a, axis, dtype, ddof, keepdims, where, mean, correction), out)


def _variance(
    name: str, a: ArrayLike, axis: Axes, dtype: Dtype, ddof: float, keepdims: bool, where: ArrayLike, centre: ArrayLike,
    correction: float,
) -> Array:  # fmt: skip
    if correction is not NO_VALUE:
        if ddof != 0:
            raise ValueError(f"{name}(): ddof and correction can't be provided simultaneously. [nd-exclusive]")
        ddof = correction
    t = inexact(as_array(a), dtype)
    dims = many_axes(axis, t.ndim)
    keep = _keeps_dims(keepdims)
    if where is True and centre is NO_VALUE and is_floating(np_dtype(t)) and t.size and dims:
        # torch's functions take a correction too, and warn if the divisor is not positive.
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


def _root(variance: Array) -> Array:
    """Return the square root, with slope 0 at zero spread: the deviation of a single number is 0 everywhere."""
    flat = variance == 0
    return selection.where(flat, 0.0, arithmetic.sqrt(selection.where(flat, 1.0, variance)))


@overload
def average(
    a: ArrayLike, axis: Axes = None, weights: ArrayLike | None = None, returned: Literal[False] = False, *,
    keepdims: bool = NO_VALUE,
) -> Array: ...  # fmt: skip
@overload
def average(
    a: ArrayLike, axis: Axes = None, weights: ArrayLike | None = None, *, returned: Literal[True],
    keepdims: bool = NO_VALUE,
) -> tuple[Array, Array]: ...  # fmt: skip
def average(
    a: ArrayLike, axis: Axes = None, weights: ArrayLike | None = None, returned: bool = False, *,
    keepdims: bool = NO_VALUE,
) -> Any:  # fmt: skip
    """The weighted mean along axes, differentiable in the weights, too.

    Args:
        a: array of numbers.
        axis: axis or axes along which to reduce. None means all.
        weights: weights of the shape of the array, or of the shape of its reduced axes. None means equal weights.
        returned: whether the sum of the weights is returned, too.
        keepdims: whether reduced axes stay, with size 1.

    Raises:
        ZeroDivisionError: if the weights sum to zero.

    >>> import ndgrad.numpy as np
    >>> np.average(np.array([1.0, 5.0]), weights=[3.0, 1.0])
    array(2.)
    """
    t = as_array(a)
    dims = many_axes(axis, t.ndim)
    keep = _keeps_dims(keepdims)
    if weights is None:
        result = mean(t, dims, keepdims=keep)
        total = constant(np.full(result.shape, math.prod(t.shape[d] for d in dims), np_dtype(result)))
        return (result, total) if returned else result
    w = as_array(weights)
    if w.shape != t.shape:
        if axis is None:
            raise TypeError("Axis must be specified when shapes of a and weights differ. [nd-dim]")
        if w.shape != tuple(t.shape[d] for d in dims):
            raise ValueError(
                f"Shape of weights {w.shape} must be consistent with shape of a {t.shape} along specified axis {axis}. "
                "[nd-shape]"
            )
        order = np.argsort(dims)
        placed = [1] * t.ndim
        for d in dims:
            placed[d] = t.shape[d]
        w = shape_ops.reshape(shape_ops.permute(w, dims=tuple(int(o) for o in order)), shape=tuple(placed))
    dtype = result_dtype(np_dtype(t), np_dtype(w), *((np.float64,) if np_dtype(t).kind in "iub" else ()))
    t, w = with_dtype(t, dtype), with_dtype(broadcast(w, t.shape), dtype)
    total = ops.sum(w, dim=dims, keepdim=keep)
    if surely(comparison.eq(total, 0)):
        raise ZeroDivisionError("Weights sum to zero, can't be normalized [nd-values]")
    result = ops.sum(t * w, dim=dims, keepdim=keep) / total
    return (result, broadcast(total, result.shape)) if returned else result


# ----- running sums and products --------------------------------------------------------------------------------------


def cumsum(a: ArrayLike, axis: Axis = None, dtype: Dtype = None, out: Out = None) -> Array:
    """Running sums along an axis, or of the flattened array.

    Args:
        a: array of numbers.
        axis: axis along which to accumulate. None flattens the array.
        dtype: dtype of the result. None means that of the array, and for bool and small integers the default integer.
        out: array that receives the result.

    >>> import ndgrad.numpy as np
    >>> np.cumsum(np.array([1.0, 2.0, 3.0]))
    array([1., 3., 6.])
    """
    return accumulate(np.add, *swept_line(as_array(a), axis), dtype, out)


def cumprod(a: ArrayLike, axis: Axis = None, dtype: Dtype = None, out: Out = None) -> Array:
    """Running products along an axis, or of the flattened array.

    Args:
        a: array of numbers.
        axis: axis along which to accumulate. None flattens the array.
        dtype: dtype of the result. None means that of the array, and for bool and small integers the default integer.
        out: array that receives the result.

    >>> import ndgrad.numpy as np
    >>> np.cumprod(np.array([1.0, 2.0, 3.0]))
    array([1., 2., 6.])
    """
    return accumulate(np.multiply, *swept_line(as_array(a), axis), dtype, out)


def cumulative_sum(
    x: ArrayLike, /, *, axis: Axis = None, dtype: Dtype = None, out: Out = None, include_initial: bool = False
) -> Array:
    """Running sums along an axis.

    Args:
        x: array of numbers.
        axis: axis along which to accumulate. None is only possible for a line.
        dtype: dtype of the result. None means that of the array, and for bool and small integers the default integer.
        out: array that receives the result.
        include_initial: whether the result starts with a zero, and so is longer by one.

    >>> import ndgrad.numpy as np
    >>> np.cumulative_sum(np.array([1.0, 2.0]), include_initial=True)
    array([0., 1., 3.])
    """
    return _cumulative("cumulative_sum", np.add, x, axis, dtype, out, include_initial)


def cumulative_prod(
    x: ArrayLike, /, *, axis: Axis = None, dtype: Dtype = None, out: Out = None, include_initial: bool = False
) -> Array:
    """Running products along an axis.

    Args:
        x: array of numbers.
        axis: axis along which to accumulate. None is only possible for a line.
        dtype: dtype of the result. None means that of the array, and for bool and small integers the default integer.
        out: array that receives the result.
        include_initial: whether the result starts with a one, and so is longer by one.

    >>> import ndgrad.numpy as np
    >>> np.cumulative_prod(np.array([2.0, 3.0]), include_initial=True)
    array([1., 2., 6.])
    """
    return _cumulative("cumulative_prod", np.multiply, x, axis, dtype, out, include_initial)


def _cumulative(
    name: str, ufunc: np.ufunc, x: ArrayLike, axis: Axis, dtype: Dtype, out: Out, include_initial: bool
) -> Array:
    t = as_array(x)
    if axis is None:
        if t.ndim > 1:
            raise ValueError(
                "For arrays which have more than one dimension ``axis`` argument is required, "
                f"and {name}() got shape {t.shape}. [nd-dim]"
            )
        axis = 0
    t = flat(t) if t.ndim == 0 else t
    axis = one_axis(axis, t.ndim)
    made = accumulate(ufunc, t, axis, dtype)
    if include_initial:
        ends = (*t.shape[:axis], 1, *t.shape[axis + 1 :])
        # Both use the memory order of the result.
        first = np.full_like(sample_of(made), ufunc.identity, shape=ends)
        made = join.cat(constant(first), made, dim=axis)
    return deliver(name, made, out)


# ----- without NaN ----------------------------------------------------------------------------------------------------


def _replace_nan(a: ArrayLike, instead: float) -> tuple[Array, Array | None]:
    """Return the array with NaN replaced, and a mask of other elements; the mask is None if there can be no NaN."""
    t = as_array(a)
    if not is_inexact(np_dtype(t)):
        return t, None
    nan = comparison.isnan(t)
    return selection.where(nan, instead, t), comparison.logical_not(nan)


def _both(mask: Array | None, where: ArrayLike) -> Any:
    """Combine two masks."""
    if mask is None:
        return where
    return mask if where is True else comparison.logical_and(mask, as_array(where))


def nansum(
    a: ArrayLike, axis: Axes = None, dtype: Dtype = None, out: Out = None, keepdims: bool = NO_VALUE,
    initial: ArrayLike = NO_VALUE, where: ArrayLike = True,
) -> Array:  # fmt: skip
    """The sum along axes, where NaN counts as zero and gets no gradient.

    Args:
        a: array of numbers.
        axis: axis or axes along which to reduce. None means all.
        dtype: dtype of the result. None means that of the array, and for bool and small integers the default integer.
        out: array that receives the result.
        keepdims: whether reduced axes stay, with size 1.
        initial: value with which the reduction starts. It is the result for no elements.
        where: mask of the elements that count, which broadcasts with the array.

    >>> import ndgrad.numpy as np
    >>> np.nansum(np.array([1.0, np.nan, 2.0]))
    array(3.)
    """
    return sum(_replace_nan(a, 0.0)[0], axis, dtype, out, keepdims, initial, where)


def nanprod(
    a: ArrayLike, axis: Axes = None, dtype: Dtype = None, out: Out = None, keepdims: bool = NO_VALUE,
    initial: ArrayLike = NO_VALUE, where: ArrayLike = True,
) -> Array:  # fmt: skip
    """The product along axes, where NaN counts as one and gets no gradient.

    Args:
        a: array of numbers.
        axis: axis or axes along which to reduce. None means all.
        dtype: dtype of the result. None means that of the array, and for bool and small integers the default integer.
        out: array that receives the result.
        keepdims: whether reduced axes stay, with size 1.
        initial: value with which the reduction starts. It is the result for no elements.
        where: mask of the elements that count, which broadcasts with the array.

    >>> import ndgrad.numpy as np
    >>> np.nanprod(np.array([2.0, np.nan, 3.0]))
    array(6.)
    """
    return prod(_replace_nan(a, 1.0)[0], axis, dtype, out, keepdims, initial, where)


def _copy_replacing_nan(a: ArrayLike, instead: float) -> Array:
    """Return the array with NaN replaced, in the memory order of its copy."""
    t = as_array(a)
    return arrange_like(_replace_nan(t, instead)[0], t)


def nancumsum(a: ArrayLike, axis: Axis = None, dtype: Dtype = None, out: Out = None) -> Array:
    """Running sums; NaN counts as zero.

    Args:
        a: array of numbers.
        axis: axis along which to accumulate. None flattens the array.
        dtype: dtype of the result. None means that of the array, and for bool and small integers the default integer.
        out: array that receives the result.

    >>> import ndgrad.numpy as np
    >>> np.nancumsum(np.array([1.0, np.nan, 2.0]))
    array([1., 1., 3.])
    """
    return cumsum(_copy_replacing_nan(a, 0.0), axis, dtype, out)


def nancumprod(a: ArrayLike, axis: Axis = None, dtype: Dtype = None, out: Out = None) -> Array:
    """Running products; NaN counts as one.

    Args:
        a: array of numbers.
        axis: axis along which to accumulate. None flattens the array.
        dtype: dtype of the result. None means that of the array, and for bool and small integers the default integer.
        out: array that receives the result.

    >>> import ndgrad.numpy as np
    >>> np.nancumprod(np.array([2.0, np.nan, 3.0]))
    array([2., 2., 6.])
    """
    return cumprod(_copy_replacing_nan(a, 1.0), axis, dtype, out)


def nanmax(
    a: ArrayLike, axis: Axes = None, out: Out = None, keepdims: bool = NO_VALUE, initial: ArrayLike = NO_VALUE,
    where: ArrayLike = True,
) -> Array:  # fmt: skip
    """The largest elements along axes that are not NaN. A line of NaN alone gives NaN and a warning.

    Args:
        a: array of numbers.
        axis: axis or axes along which to reduce. None means all.
        out: array that receives the result.
        keepdims: whether reduced axes stay, with size 1.
        initial: value with which the reduction starts. It is the result for no elements.
        where: mask of the elements that count, which broadcasts with the array. It needs `initial`.

    >>> import ndgrad.numpy as np
    >>> np.nanmax(np.array([1.0, np.nan, 2.0]))
    array(2.)
    """
    return _nan_extremum("nanmax", max, -math.inf, a, axis, out, keepdims, initial, where)


def nanmin(
    a: ArrayLike, axis: Axes = None, out: Out = None, keepdims: bool = NO_VALUE, initial: ArrayLike = NO_VALUE,
    where: ArrayLike = True,
) -> Array:  # fmt: skip
    """The smallest elements along axes that are not NaN. A line of NaN alone gives NaN and a warning.

    Args:
        a: array of numbers.
        axis: axis or axes along which to reduce. None means all.
        out: array that receives the result.
        keepdims: whether reduced axes stay, with size 1.
        initial: value with which the reduction starts. It is the result for no elements.
        where: mask of the elements that count, which broadcasts with the array. It needs `initial`.

    >>> import ndgrad.numpy as np
    >>> np.nanmin(np.array([1.0, np.nan, 2.0]))
    array(1.)
    """
    return _nan_extremum("nanmin", min, math.inf, a, axis, out, keepdims, initial, where)


def _nan_extremum(
    name: str, function: Callable[..., Array], worst: float, a: ArrayLike, axis: Axes, out: Out, keepdims: bool,
    initial: ArrayLike, where: ArrayLike,
) -> Array:  # fmt: skip
    t, mask = _replace_nan(a, worst)
    result = function(t, axis, None, keepdims, initial, where)
    if mask is not None:
        empty = comparison.logical_not(any(mask, axis, keepdims=keepdims))
        if surely(empty):
            warnings.warn(f"{name}: All-NaN slice encountered", RuntimeWarning, stacklevel=3)
        result = selection.where(empty, math.nan, result) if initial is NO_VALUE else result
    return deliver(name, result, out)


def nanmean(
    a: ArrayLike, axis: Axes = None, dtype: Dtype = None, out: Out = None, keepdims: bool = NO_VALUE, *,
    where: ArrayLike = True,
) -> Array:  # fmt: skip
    """The mean along axes of the elements that are not NaN.

    Args:
        a: array of numbers.
        axis: axis or axes along which to reduce. None means all.
        dtype: dtype of the computation and of the result. None means that of the array, and float64 for integers.
        out: array that receives the result.
        keepdims: whether reduced axes stay, with size 1.
        where: mask of the elements that count, which broadcasts with the array.

    >>> import ndgrad.numpy as np
    >>> np.nanmean(np.array([1.0, np.nan, 2.0]))
    array(1.5)
    """
    t, mask = _replace_nan(a, 0.0)
    return mean(t, axis, dtype, out, keepdims, where=_both(mask, where))


def nanvar(
    a: ArrayLike, axis: Axes = None, dtype: Dtype = None, out: Out = None, ddof: float = 0, keepdims: bool = NO_VALUE,
    *, where: ArrayLike = True, mean: ArrayLike = NO_VALUE, correction: float = NO_VALUE,
) -> Array:  # fmt: skip
    """The variance along axes of the elements that are not NaN.

    Args:
        a: array of numbers.
        axis: axis or axes along which to reduce. None means all.
        dtype: dtype of the computation and of the result. None means that of the array, and float64 for integers.
        out: array that receives the result.
        ddof: number subtracted from the count of elements in the divisor.
        keepdims: whether reduced axes stay, with size 1.
        where: mask of the elements that count, which broadcasts with the array.
        mean: mean to measure deviations from, with reduced axes of size 1. It is computed if it is not given.
        correction: another name of `ddof`.

    >>> import ndgrad.numpy as np
    >>> np.nanvar(np.array([1.0, np.nan, 3.0]))
    array(1.)
    """
    t, mask = _replace_nan(a, 0.0)
    return var(t, axis, dtype, out, ddof, keepdims, where=_both(mask, where), mean=mean, correction=correction)


def nanstd(
    a: ArrayLike, axis: Axes = None, dtype: Dtype = None, out: Out = None, ddof: float = 0, keepdims: bool = NO_VALUE,
    *, where: ArrayLike = True, mean: ArrayLike = NO_VALUE, correction: float = NO_VALUE,
) -> Array:  # fmt: skip
    """The standard deviation along axes of the elements that are not NaN.

    Args:
        a: array of numbers.
        axis: axis or axes along which to reduce. None means all.
        dtype: dtype of the computation and of the result. None means that of the array, and float64 for integers.
        out: array that receives the result.
        ddof: number subtracted from the count of elements in the divisor.
        keepdims: whether reduced axes stay, with size 1.
        where: mask of the elements that count, which broadcasts with the array.
        mean: mean to measure deviations from, with reduced axes of size 1. It is computed if it is not given.
        correction: another name of `ddof`.

    >>> import ndgrad.numpy as np
    >>> np.nanstd(np.array([1.0, np.nan, 3.0]))
    array(1.)
    """
    t, mask = _replace_nan(a, 0.0)
    return std(t, axis, dtype, out, ddof, keepdims, where=_both(mask, where), mean=mean, correction=correction)
