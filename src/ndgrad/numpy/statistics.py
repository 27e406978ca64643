"""Order statistics, covariances and histograms.

A quantile lies between two neighbours of the sorted sample. NumPy itself gives the position for each of its methods:
the quantile of 0, 1, ..., n-1 is the fractional rank. So every method is supported, and gradients go to the two
neighbours.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.arrays.precision import is_floating, result_dtype
from ndgrad._src.core.detach_checks import at_stake
from ndgrad._src.core.variable import np_dtype
from ndgrad._src.ops import arithmetic, comparison, extremum, index, join, order, selection
from ndgrad._src.ops import reduce as reduce_ops
from ndgrad._src.ops import shape as shape_ops
from ndgrad._src.tensor.functions import statistics as _statistics
from ndgrad._src.tensor.storage import is_open, sample_of, values_to_check
from ndgrad.numpy.coercion import (
    arrange,
    as_array,
    broadcast,
    constant,
    deliver,
    flat,
    inexact,
    many_axes,
    order_like,
    part,
    plain,
    values_of,
    with_dtype,
)
from ndgrad.numpy.ufunc_methods import NO_VALUE, merge_axes, reduced_shape

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ndgrad._typing import ArrayLike, Axes, Dtype, Out
    from ndgrad.numpy._array import Array

#: torch's functions. They return Arrays for Arrays, which their declarations cannot express.
statistics_api: Any = _statistics

__all__ = [
    "bincount", "corrcoef", "cov", "histogram", "histogram2d", "histogram_bin_edges", "histogramdd", "median",
    "nanmedian", "nanpercentile", "nanquantile", "percentile", "quantile",
]  # fmt: skip

# ----- quantiles ------------------------------------------------------------------------------------------------------

#: Derivative of the rank with respect to q, from the number of elements; other methods are step functions.
_RANK_SLOPES: dict[str, Callable[[float], float]] = {
    "linear": lambda n: n - 1.0,
    "interpolated_inverted_cdf": lambda n: n,
    "hazen": lambda n: n,
    "weibull": lambda n: n + 1.0,
    "median_unbiased": lambda n: n + 1.0 / 3.0,
    "normal_unbiased": lambda n: n + 0.25,
}
_STEPS = frozenset(("inverted_cdf", "closest_observation", "lower", "higher", "nearest"))


def quantile(
    a: ArrayLike, q: ArrayLike, axis: Axes = None, out: Out = None, overwrite_input: bool = False,
    method: str = "linear", keepdims: bool = False, *, weights: ArrayLike | None = None,
    interpolation: str | None = None,
) -> Array:  # fmt: skip
    """The q-th quantiles along axes, by any of NumPy's methods; differentiable in the sample, and in q if the method is
    continuous.

    Args:
        a: array of real numbers.
        q: probability or probabilities, from 0 to 1. Their axes come first in the result.
        axis: axis or axes along which to reduce. None means all.
        out: array that receives the result.
        overwrite_input: accepted as in NumPy. It has no effect: the array is never changed.
        method: rule between two elements, as in NumPy: `"linear"`, `"lower"`, `"higher"`, `"nearest"`, `"midpoint"`,
            `"hazen"`, `"weibull"`, `"median_unbiased"`, `"normal_unbiased"`, `"inverted_cdf"`,
            `"averaged_inverted_cdf"`, `"closest_observation"` or `"interpolated_inverted_cdf"`.
        keepdims: whether reduced axes stay, with size 1.
        weights: weight of each element, or of each one along a single axis. They need the method `"inverted_cdf"` and
            get no gradient.
        interpolation: old name of `method`.

    Raises:
        ValueError: if `q` is outside its range, or requires grad and the method is a step function.

    >>> import ndgrad.numpy as np
    >>> x = np.array([1.0, 2.0, 4.0]).requires_grad_()
    >>> np.quantile(x, 0.75).backward()
    >>> x.grad
    array([0. , 0.5, 0.5])
    """
    return deliver(
        "quantile", _quantile("quantile", a, as_array(q), axis, interpolation or method, keepdims, weights, False), out
    )


def percentile(
    a: ArrayLike, q: ArrayLike, axis: Axes = None, out: Out = None, overwrite_input: bool = False,
    method: str = "linear", keepdims: bool = False, *, weights: ArrayLike | None = None,
    interpolation: str | None = None,
) -> Array:  # fmt: skip
    """The q-th percentiles along axes: quantiles with q from 0 to 100.

    Args:
        a: array of real numbers.
        q: percentage or percentages, from 0 to 100. Their axes come first in the result.
        axis: axis or axes along which to reduce. None means all.
        out: array that receives the result.
        overwrite_input: accepted as in NumPy. It has no effect: the array is never changed.
        method: rule between two elements, as in NumPy: `"linear"`, `"lower"`, `"higher"`, `"nearest"`, `"midpoint"`,
            `"hazen"`, `"weibull"`, `"median_unbiased"`, `"normal_unbiased"`, `"inverted_cdf"`,
            `"averaged_inverted_cdf"`, `"closest_observation"` or `"interpolated_inverted_cdf"`.
        keepdims: whether reduced axes stay, with size 1.
        weights: weight of each element, or of each one along a single axis. They need the method `"inverted_cdf"` and
            get no gradient.
        interpolation: old name of `method`.

    Raises:
        ValueError: if `q` is outside its range, or requires grad and the method is a step function.

    >>> import ndgrad.numpy as np
    >>> np.percentile(np.array([1.0, 2.0, 4.0]), 50)
    array(2.)
    """
    return deliver(
        "percentile",
        _quantile("percentile", a, as_array(q) / 100, axis, interpolation or method, keepdims, weights, False),
        out,
    )


def nanquantile(
    a: ArrayLike, q: ArrayLike, axis: Axes = None, out: Out = None, overwrite_input: bool = False,
    method: str = "linear", keepdims: bool = NO_VALUE, *, weights: ArrayLike | None = None,
    interpolation: str | None = None,
) -> Array:  # fmt: skip
    """Quantiles along axes of the elements that are not NaN.

    Args:
        a: array of real numbers.
        q: probability or probabilities, from 0 to 1. Their axes come first in the result.
        axis: axis or axes along which to reduce. None means all.
        out: array that receives the result.
        overwrite_input: accepted as in NumPy. It has no effect: the array is never changed.
        method: rule between two elements, as in NumPy: `"linear"`, `"lower"`, `"higher"`, `"nearest"`, `"midpoint"`,
            `"hazen"`, `"weibull"`, `"median_unbiased"`, `"normal_unbiased"`, `"inverted_cdf"`,
            `"averaged_inverted_cdf"`, `"closest_observation"` or `"interpolated_inverted_cdf"`.
        keepdims: whether reduced axes stay, with size 1.
        weights: weight of each element, or of each one along a single axis. They need the method `"inverted_cdf"` and
            get no gradient.
        interpolation: old name of `method`.

    >>> import ndgrad.numpy as np
    >>> np.nanquantile(np.array([1.0, np.nan, 4.0]), 0.5)
    array(2.5)
    """
    keep = keepdims is not NO_VALUE and bool(keepdims)
    return deliver(
        "nanquantile", _quantile("nanquantile", a, as_array(q), axis, interpolation or method, keep, weights, True), out
    )


def nanpercentile(
    a: ArrayLike, q: ArrayLike, axis: Axes = None, out: Out = None, overwrite_input: bool = False,
    method: str = "linear", keepdims: bool = NO_VALUE, *, weights: ArrayLike | None = None,
    interpolation: str | None = None,
) -> Array:  # fmt: skip
    """Percentiles along axes of the elements that are not NaN.

    Args:
        a: array of real numbers.
        q: percentage or percentages, from 0 to 100. Their axes come first in the result.
        axis: axis or axes along which to reduce. None means all.
        out: array that receives the result.
        overwrite_input: accepted as in NumPy. It has no effect: the array is never changed.
        method: rule between two elements, as in NumPy: `"linear"`, `"lower"`, `"higher"`, `"nearest"`, `"midpoint"`,
            `"hazen"`, `"weibull"`, `"median_unbiased"`, `"normal_unbiased"`, `"inverted_cdf"`,
            `"averaged_inverted_cdf"`, `"closest_observation"` or `"interpolated_inverted_cdf"`.
        keepdims: whether reduced axes stay, with size 1.
        weights: weight of each element, or of each one along a single axis. They need the method `"inverted_cdf"` and
            get no gradient.
        interpolation: old name of `method`.

    >>> import ndgrad.numpy as np
    >>> np.nanpercentile(np.array([1.0, np.nan, 4.0]), 50)
    array(2.5)
    """
    keep = keepdims is not NO_VALUE and bool(keepdims)
    return deliver(
        "nanpercentile",
        _quantile("nanpercentile", a, as_array(q) / 100, axis, interpolation or method, keep, weights, True),
        out,
    )


def _quantile(
    name: str, a: ArrayLike, q: Array, axis: Axes, method: str, keepdims: bool, weights: ArrayLike | None,
    skip_nan: bool,
) -> Array:  # fmt: skip
    t = as_array(a)
    if np_dtype(t).kind == "c":
        raise TypeError(f"{name}(): a must be an array of real numbers, but is {np_dtype(t)}. [nd-complex]")
    t = t if method in _STEPS and np_dtype(t).kind in "iu" else inexact(t)
    chosen = np.asarray(values_of(q), float)
    if ((chosen < 0) | (chosen > 1)).any():
        allowed = "Percentiles must be in the range [0, 100]"
        if "percent" not in name:
            allowed = "Quantiles must be in the range [0, 1]"
        raise ValueError(f"{name}(): {allowed} [nd-range]")
    dims = many_axes(axis, t.ndim)
    lines = merge_axes(t, dims)
    if weights is not None:
        ranked, ranks, valid = _weighted_ranks(t, lines, dims, chosen.ravel(), method, weights, skip_nan)
    else:
        ranked = order.sort(lines, dim=lines.ndim - 1, descending=False)[0]
        ranks, valid = (_ranks_without_nan if skip_nan else _ranks)(ranked, chosen.ravel(), method)
    made = _interpolate_ranks(ranked, ranks, valid, q, method)
    if skip_nan and np.isnan(valid).any():
        warnings.warn(f"{name}: All-NaN slice encountered", RuntimeWarning, stacklevel=4)
    if is_floating(np_dtype(made)):
        # NaN comes last in a sorted line.
        missing = constant(np.isnan(valid)[..., None]) if skip_nan else comparison.isnan(ranked[..., -1:])
        made = selection.where(missing, math.nan, made)
    # The quantiles come first in the result.
    made = shape_ops.permute(made, dims=(made.ndim - 1, *range(made.ndim - 1)))
    return shape_ops.reshape(made, shape=(*chosen.shape, *reduced_shape(t, dims, keepdims)))


def _ranks(ranked: Array, q: NDArray[Any], method: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the fractional ranks of the quantiles, which all lines have in common, and the number of elements in a
    line.
    """
    n = ranked.shape[-1]
    if n == 0:
        raise IndexError(
            f"quantiles of nothing: a line of the array has no elements (shape {ranked.shape}). "
            "Look at its size first. [nd-too-few]"
        )
    # The stubs require a literal method.
    ranks = np.quantile(np.arange(n, dtype=float), q, method=method)  # type: ignore[call-overload]
    return ranks, np.asarray(float(n))


def _ranks_without_nan(ranked: Array, q: NDArray[Any], method: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """Same as `_ranks`, for every line, without the elements that are NaN; the number is NaN if there are none."""
    values = values_of(ranked)
    counts = values.shape[-1] - (
        np.isnan(values).sum(axis=-1) if is_floating(values.dtype) else np.zeros(values.shape[:-1], int)
    )
    ranks = np.zeros((*counts.shape, len(q)))
    for count in np.unique(counts[counts > 0]):
        # The stubs require a literal method.
        ranks[counts == count] = np.quantile(np.arange(count, dtype=float), q, method=method)  # type: ignore[call-overload]
    return ranks, np.where(counts == 0, np.nan, counts.astype(float))


def _weighted_ranks(
    t: Array, lines: Array, dims: tuple[int, ...], q: NDArray[Any], method: str, weights: ArrayLike, skip_nan: bool
) -> tuple[Array, NDArray[Any], NDArray[Any]]:
    """Same as `_ranks`, with a weight for each element; such quantiles are step functions, so the weights have no
    derivative.
    """
    w = as_array(weights)
    if w.shape != t.shape:
        if len(dims) != 1 or w.shape != (t.shape[dims[0]],):
            raise ValueError(
                f"weights of shape {w.shape} do not fit an array of shape {t.shape} along axes {dims}. "
                "Give one for each element. [nd-shape]"
            )
        w = shape_ops.reshape(w, shape=tuple(n if d == dims[0] else 1 for d, n in enumerate(t.shape)))
    sorted_, places = order.sort(lines, dim=lines.ndim - 1, descending=False)
    heavy = np.take_along_axis(
        np.broadcast_to(values_of(merge_axes(broadcast(w, t.shape), dims)), lines.shape), values_of(places), -1
    )
    values = values_of(sorted_)
    nan = np.isnan(values) if is_floating(values.dtype) else np.zeros(values.shape, bool)
    ranks, valid = np.zeros((*values.shape[:-1], len(q))), np.ones(values.shape[:-1])
    for line in np.ndindex(*values.shape[:-1]):
        count = int((~nan[line]).sum()) if skip_nan else values.shape[-1]
        if count == 0 or (not skip_nan and nan[line].any()):
            valid[line] = np.nan
            continue
        # The stubs require a literal method.
        ranks[line] = np.quantile(np.arange(count, dtype=float), q, weights=heavy[line][:count], method=method)  # type: ignore[call-overload]
    return sorted_, ranks, valid


def _interpolate_ranks(ranked: Array, ranks: NDArray[Any], valid: NDArray[Any], q: Array, method: str) -> Array:
    """Interpolate between the elements around the ranks; the position between them depends on q."""
    below, above = np.floor(ranks).astype(np.intp), np.ceil(ranks).astype(np.intp)
    lower = _pick_ranks(ranked, below)
    if method in _STEPS:
        return lower
    way: Any = constant((ranks - below).astype(np_dtype(ranked)))
    if method in _RANK_SLOPES and at_stake(q):
        slopes = np.asarray(_RANK_SLOPES[method](np.nan_to_num(valid)))[..., None] * (
            (ranks > 0) & (ranks < np.nan_to_num(valid)[..., None] - 1)
        )
        line = flat(q)
        way = way + (line - shape_ops.detach(line)) * constant(np.asarray(slopes))
        above = np.minimum(below + 1, ranked.shape[-1] - 1)
    elif at_stake(q):
        raise ValueError(
            f"quantiles by method {method!r} jump with q, so they have no gradient there. "
            "Detach q, or choose 'linear'. [nd-no-derivative]"
        )
    return arithmetic.lerp(lower, _pick_ranks(ranked, above), way)


def _pick_ranks(ranked: Array, ranks: NDArray[Any]) -> Array:
    """Return the elements of these ranks in every line; the ranks may be the same for all lines."""
    last = ranked.ndim - 1
    return part(ranked, last, ranks) if ranks.ndim == 1 else extremum.pick_along(ranked, constant(ranks), dim=last)


def median(
    a: ArrayLike, axis: Axes = None, out: Out = None, overwrite_input: bool = False, keepdims: bool = False
) -> Array:
    """The median along axes; for an even number the mean of the middle two, which share the gradient.

    Args:
        a: array of real numbers.
        axis: axis or axes along which to reduce. None means all.
        out: array that receives the result.
        overwrite_input: accepted as in NumPy. It has no effect: the array is never changed.
        keepdims: whether reduced axes stay, with size 1.

    >>> import ndgrad.numpy as np
    >>> np.median(np.array([1.0, 5.0, 2.0, 4.0]))
    array(3.)
    """
    return deliver("median", _median("median", a, axis, keepdims, False), out)


def nanmedian(
    a: ArrayLike, axis: Axes = None, out: Out = None, overwrite_input: bool = False, keepdims: bool = NO_VALUE
) -> Array:
    """The median along axes of the elements that are not NaN.

    Args:
        a: array of real numbers.
        axis: axis or axes along which to reduce. None means all.
        out: array that receives the result.
        overwrite_input: accepted as in NumPy. It has no effect: the array is never changed.
        keepdims: whether reduced axes stay, with size 1.

    >>> import ndgrad.numpy as np
    >>> np.nanmedian(np.array([1.0, np.nan, 4.0]))
    array(2.5)
    """
    return deliver("nanmedian", _median("nanmedian", a, axis, keepdims is not NO_VALUE and bool(keepdims), True), out)


def _median(name: str, a: ArrayLike, axis: Axes, keepdims: bool, skip_nan: bool) -> Array:
    t = inexact(as_array(a))
    if not math.prod(t.shape[d] for d in many_axes(axis, t.ndim)):
        warnings.warn("Mean of empty slice", RuntimeWarning, stacklevel=3)
        return constant(np.full(reduced_shape(t, many_axes(axis, t.ndim), keepdims), math.nan))
    made = _quantile(name, t, constant(np.asarray(0.5)), axis, "linear", keepdims, None, skip_nan)
    dims = many_axes(axis, t.ndim)
    if len(dims) != 1 or keepdims:
        return made
    # NumPy sorts a copy, and takes the mean along the axis.
    return arrange(made, tuple(d - (d > dims[0]) for d in order_like(sample_of(t)) if d != dims[0]))


# ----- covariance -----------------------------------------------------------------------------------------------------


def _variables(m: ArrayLike, y: ArrayLike | None, rowvar: bool, dtype: Dtype) -> Array:
    """Return the observations as a matrix with one variable in each row."""
    t = as_array(m)
    if t.ndim > 2:
        raise ValueError("m has more than 2 dimensions [nd-ndim]")
    parts = [t] if y is None else [t, as_array(y)]
    if len(parts) == 2 and parts[1].ndim > 2:
        raise ValueError("y has more than 2 dimensions [nd-ndim]")
    rows = []
    for p in parts:
        turned = not rowvar and p.ndim == 2
        p = shape_ops.reshape(p, shape=(1, p.size)) if p.ndim < 2 else p
        rows.append(shape_ops.permute(p, dims=(1, 0)) if turned else p)
    wanted = result_dtype(*(np_dtype(p) for p in rows), np.float64) if dtype is None else dtype
    rows = [with_dtype(p, wanted) for p in rows]
    return rows[0] if len(rows) == 1 else join.cat(*rows, dim=0)


def cov(
    m: ArrayLike, y: ArrayLike | None = None, rowvar: bool = True, bias: bool = False, ddof: int | None = None,
    fweights: ArrayLike | None = None, aweights: ArrayLike | None = None, *, dtype: Dtype = None,
) -> Array:  # fmt: skip
    """The covariances of variables (rows), with observation weights; differentiable in the `aweights` too.

    Args:
        m: observations: a matrix with a variable in each row, or a line for one variable.
        y: more variables, as in `m`.
        rowvar: whether variables are rows. False means columns.
        bias: whether the sum is divided by the number of observations n. False divides by n - 1. `ddof` takes
            precedence.
        ddof: number subtracted from the count of observations in the divisor.
        fweights: number of times each observation counts, as integers. They get no gradient.
        aweights: weight of each observation.
        dtype: dtype of the result. None means at least float64.

    >>> import ndgrad.numpy as np
    >>> np.cov(np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0]]))
    array([[1., 2.],
           [2., 4.]])
    """
    if ddof is not None and ddof != int(ddof):
        raise ValueError("ddof must be integer [nd-dtype]")
    x = _variables(m, y, rowvar, dtype)
    if fweights is not None:
        counts = values_of(fweights)
        if (counts != np.around(counts)).any():
            raise TypeError("fweights must be integer [nd-dtype]")
        if counts.ndim > 1 or len(counts) != x.shape[1]:
            raise ValueError("incompatible numbers of samples and fweights [nd-shape]")
        fweights = constant(counts.astype(np.int64))
    if aweights is not None:
        aweights = inexact(as_array(aweights))
        if aweights.ndim > 1 or aweights.shape[0] != x.shape[1]:
            raise ValueError("incompatible numbers of samples and aweights [nd-shape]")
    correction = (0 if bias else 1) if ddof is None else ddof
    return statistics_api.cov(x, correction=correction, fweights=fweights, aweights=aweights)


def corrcoef(
    x: ArrayLike, y: ArrayLike | None = None, rowvar: bool = True, *, bias: object = None, ddof: object = None,
    dtype: Dtype = None,
) -> Array:  # fmt: skip
    """The correlations of variables.

    Args:
        x: observations: a matrix with a variable in each row, or a line for one variable.
        y: more variables, as in `x`.
        rowvar: whether variables are rows. False means columns.
        bias, ddof: accepted as in older versions of NumPy. They have no effect, because they cancel out.
        dtype: dtype of the result. None means at least float64.

    >>> import ndgrad.numpy as np
    >>> np.corrcoef(np.array([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]])).round(6)
    array([[ 1., -1.],
           [-1.,  1.]])
    """
    return statistics_api.corrcoef(_variables(x, y, rowvar, dtype))


# ----- counts ---------------------------------------------------------------------------------------------------------


def bincount(x: ArrayLike, /, weights: ArrayLike | None = None, minlength: int = 0) -> Array:
    """The count of each integer, or the sum of its weights, which are differentiable.

    Args:
        x: line of integers that are not negative. They have no derivative.
        weights: weight of each integer.
        minlength: smallest length of the result.

    >>> import ndgrad.numpy as np
    >>> np.bincount(np.array([1, 3, 3]))
    array([0, 1, 0, 2])
    """
    if is_open(x) and minlength > 0 and np_dtype(as_array(x)).kind in "iu":
        seen = values_to_check(x)
        if seen is not None and not ((seen < 0) | (seen >= minlength)).any():  # the length is known
            t = as_array(x)
            given = t * 0 + 1 if weights is None else as_array(weights)
            if t.ndim == 1 and tuple(given.shape) == tuple(t.shape):
                given = with_dtype(given, np.intp if weights is None else np.float64)
                return index.index_add_zeros(given, with_dtype(t, np.intp), shape=(minlength,))
    numbers = values_of(x)
    counted = np.bincount(numbers, None, minlength)
    if weights is None:
        return constant(counted)
    return _sum_weights(numbers, with_dtype(as_array(weights), np.float64), len(counted))


def _sum_weights(places: NDArray[Any], weights: Array, count: int) -> Array:
    """Return sums of the weights for each index; indices outside [0, count) are left out."""
    if weights.shape != places.shape:
        raise ValueError(
            f"The weights and list don't have the same length: {weights.shape} and {places.shape} [nd-shape]"
        )
    inside = np.flatnonzero((places >= 0) & (places < count))
    return index.index_add_zeros(weights[inside], constant(places[inside]), shape=(count,))


def histogram_bin_edges(
    a: ArrayLike, bins: ArrayLike | str = 10, range: Sequence[Any] | None = None, weights: ArrayLike | None = None
) -> Array:
    """The edges of bins; without a range they follow the smallest and the largest element, gradients included.

    Args:
        a: sample, which is flattened.
        bins: number of bins, line of edges, or name of a rule of NumPy such as `"auto"`.
        range: lowest and highest edge. None takes them from the sample.
        weights: weights of the sample, which NumPy's rules for `bins` do not take.

    >>> import ndgrad.numpy as np
    >>> np.histogram_bin_edges(np.array([0.0, 1.0, 4.0]), bins=2)
    array([0., 2., 4.])
    """
    if np.ndim(bins) == 1:
        return as_array(bins)
    t = flat(as_array(a))
    return _edges(t, np.histogram_bin_edges(values_of(t), plain(bins), plain(range), plain(weights)), range)


def _edges(t: Array, edges: NDArray[Any], range: Sequence[Any] | None) -> Array:
    """Return even edges: between the ends of the range, or between the extremes of the sample, or around these if they
    coincide.
    """
    ends = () if range is None else tuple(range)
    if not (at_stake(ends) if ends else t.size and at_stake(t)):
        return constant(edges)
    low, high = (inexact(as_array(e)) for e in ends) if ends else (extremum.min_all(t), extremum.max_all(t))
    if values_of(low) == values_of(high):
        low, high = low - 0.5, high + 0.5
    steps = constant(np.linspace(0.0, 1.0, len(edges)))
    return selection.where(constant(np.arange(len(edges)) == len(edges) - 1), high, low + (high - low) * steps)


def _bins_of(values: NDArray[Any], edges: NDArray[Any]) -> NDArray[Any]:
    """Return the bin of each value: bins contain their left edge, and the last one its right edge too."""
    places = np.searchsorted(edges, values, "right") - 1
    return np.where(values == edges[-1], len(edges) - 2, places)


def histogram(
    a: ArrayLike, bins: ArrayLike | str = 10, range: Sequence[Any] | None = None, density: bool | None = None,
    weights: ArrayLike | None = None,
) -> tuple[Array, Array]:  # fmt: skip
    """Counts in bins, or sums of weights, and the edges; differentiable in the weights, and the edges in the sample.

    Args:
        a: sample, which is flattened. The counts have no derivative in it.
        bins: number of bins, line of edges, or name of a rule of NumPy such as `"auto"`.
        range: lowest and highest edge. None takes them from the sample.
        density: whether counts are divided by their sum and by the widths of the bins.
        weights: weight of each element of the sample.

    Returns:
        The counts and the edges.

    >>> import ndgrad.numpy as np
    >>> np.histogram(np.array([0.0, 1.0, 4.0]), bins=2)
    (array([2, 1]), array([0., 2., 4.]))
    """
    t = flat(as_array(a))
    edges = histogram_bin_edges(t, bins, range, weights)
    plain_edges = values_of(edges)
    if (plain_edges[:-1] > plain_edges[1:]).any():
        raise ValueError("`bins` must increase monotonically, when an array [nd-values]")
    if weights is None:
        counts = constant(np.histogram(values_of(t), plain_edges)[0])
    else:
        w = flat(as_array(weights))
        places = _bins_of(values_of(t), plain_edges)
        counts = _sum_weights(np.where(values_of(t) > plain_edges[-1], -1, places), w, len(plain_edges) - 1)
    if density:
        counts = counts / (edges[1:] - edges[:-1]) / reduce_ops.sum_all(counts)
    return counts, edges


def histogramdd(
    sample: ArrayLike | Sequence[ArrayLike], bins: Any = 10, range: Sequence[Any] | None = None,
    density: bool | None = None, weights: ArrayLike | None = None,
) -> tuple[Array, list[Array]]:  # fmt: skip
    """Counts in boxes, or sums of weights, and the edges of each dimension; differentiable in the weights, and the
    edges in the sample.

    Args:
        sample: matrix with a point in each row, or a list with the coordinates along each dimension.
        bins: number of bins, or for each dimension a number or a line of edges.
        range: lowest and highest edge of each dimension. None takes them from the sample.
        density: whether counts are divided by their sum and by the volumes of the boxes.
        weights: weight of each point.

    Returns:
        The counts and a list of edges.

    >>> import ndgrad.numpy as np
    >>> np.histogramdd(np.array([[0.0, 0.0], [1.0, 1.0]]), bins=2)[0]
    array([[1., 0.],
           [0., 1.]])
    """
    columns = _columns(sample)
    points = np.stack([values_of(c) for c in columns], 1) if columns else np.empty((0, 0))
    counts, edges = np.histogramdd(points, plain(bins), plain(range))
    sides = bins if isinstance(bins, (list, tuple)) else [bins] * len(edges)
    ends = range if range is not None else [None] * len(edges)
    borders = [
        as_array(b) if np.ndim(b) == 1 else _edges(c, e, r)
        for b, c, e, r in zip(sides, columns, edges, ends, strict=True)
    ]
    if weights is not None:
        w = flat(as_array(weights))
        inside = np.ones(len(points), bool)
        places = []
        for d, edge in enumerate(edges):
            inside &= (points[:, d] >= edge[0]) & (points[:, d] <= edge[-1])
            places.append(np.clip(_bins_of(points[:, d], edge), 0, len(edge) - 2))
        flat_places = np.where(inside, np.ravel_multi_index(tuple(places), counts.shape), -1)
        result = shape_ops.reshape(_sum_weights(flat_places, w, counts.size), shape=counts.shape)
    else:
        result = constant(counts)
    if density:
        total = reduce_ops.sum_all(result)
        for d, border in enumerate(borders):
            result = result / shape_ops.reshape(
                border[1:] - border[:-1], shape=[-1 if i == d else 1 for i in np.arange(len(borders))]
            )
        result = result / total
    return result, borders


def _columns(sample: Any) -> list[Array]:
    if isinstance(sample, (list, tuple)):
        return [flat(as_array(s)) for s in sample]
    t = as_array(sample)
    t = shape_ops.reshape(t, shape=(t.size, 1)) if t.ndim < 2 else t
    return [t[:, d] for d in np.arange(t.shape[1])]


def histogram2d(
    x: ArrayLike, y: ArrayLike, bins: Any = 10, range: Sequence[Any] | None = None, density: bool | None = None,
    weights: ArrayLike | None = None,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """Counts in rectangles, or sums of weights, and the edges of both axes.

    Args:
        x, y: coordinates of the points.
        bins: number of bins or line of edges, or a pair of these.
        range: lowest and highest edge along both axes. None takes them from the sample.
        density: whether counts are divided by their sum and by the areas of the rectangles.
        weights: weight of each point.

    Returns:
        The counts, the edges along x and the edges along y.

    >>> import ndgrad.numpy as np
    >>> np.histogram2d([0.0, 1.0], [0.0, 1.0], bins=2)[0]
    array([[1., 0.],
           [0., 1.]])
    """
    if np.ndim(x) != 1 or np.shape(x) != np.shape(y):
        raise ValueError("x and y must have the same length. [nd-shape]")
    if not isinstance(bins, (list, tuple)) and np.ndim(bins) == 1:
        bins = [bins, bins]
    elif isinstance(bins, (list, tuple)) and len(bins) not in (1, 2):
        bins = [np.asarray(plain(bins))] * 2
    counts, edges = histogramdd([x, y], bins, range, density, weights)
    return counts, edges[0], edges[1]
