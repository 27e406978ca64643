"""Descriptive statistics and tests of SciPy, as differentiable formulas.

nan_policy is always "propagate" (the default): remove NaN from samples beforehand.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy

import ndgrad.numpy as np
from ndgrad._src.foundations.pytree import register_pytree_node
from ndgrad._src.ops import distribution as ops
from ndgrad.numpy.coercion import many_axes, values_of
from ndgrad.scipy.special import boxcox, boxcox1p
from ndgrad.scipy.stats.distribution import S, real

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ndgrad._typing import Array, ArrayLike, Axes, Axis, Dtype

__all__ = [
    "boxcox_llf", "circmean", "circstd", "circvar", "describe", "energy_distance", "entropy", "f_oneway", "gmean",
    "gstd", "gzscore", "hmean", "iqr", "kurtosis", "linregress", "moment", "pearsonr", "pmean", "sem", "skew", "tmean",
    "trim_mean", "ttest_1samp", "ttest_ind", "ttest_rel", "tvar", "variation", "wasserstein_distance", "yeojohnson_llf",
    "zmap", "zscore",
]  # fmt: skip


def _flat(a: ArrayLike, axis: Any) -> tuple[Array, Any]:
    t = real(a)
    return (t.ravel(), 0) if axis is None else (t, axis)


def _propagates(nan_policy: str) -> None:
    if nan_policy != "propagate":
        raise NotImplementedError(
            f"nan_policy={nan_policy!r} has no rule here: take the NaN out first (x[~np.isnan(x)]). [nd-no-derivative]"
        )


def _cast(a: ArrayLike, dtype: Dtype) -> ArrayLike:
    return a if dtype is None else real(a).astype(dtype)


def _refuse_options(name: str, options: dict[str, Any]) -> None:
    """Raise for SciPy's options that have no derivative here, and for misspelt ones."""
    if options:
        raise TypeError(
            f"{name}(): {', '.join(sorted(options))} is not supported. Leave it out, or use SciPy's {name} for results "
            "without a derivative. [nd-unsupported]"
        )


def _count(t: Array, axis: Axes) -> int:
    return math.prod(t.shape[d] for d in many_axes(axis, t.ndim))


# ----- means and spreads ----------------------------------------------------------------------------------------------


def _average(t: Array, weights: ArrayLike | None, axis: Axes, keepdims: bool = False) -> Array:
    if weights is None:
        return t.mean(axis=axis, keepdims=keepdims)
    w = np.broadcast_to(real(weights), t.shape)
    return (t * w).sum(axis=axis, keepdims=keepdims) / w.sum(axis=axis, keepdims=keepdims)


def gmean(
    a: ArrayLike, axis: Axes = 0, dtype: Dtype = None, weights: ArrayLike | None = None, *,
    nan_policy: str = "propagate", keepdims: bool = False,
) -> Array:  # fmt: skip
    """The geometric mean.

    Args:
        a: sample.
        axis: axis or axes along which numbers are combined. None means all.
        dtype: dtype of the computation. The default is that of the sample, as a floating-point one.
        weights: weights of the numbers.
        nan_policy: must be `"propagate"`. Other policies raise NotImplementedError.
        keepdims: whether reduced axes stay, with size 1.

    >>> from ndgrad.scipy import stats
    >>> stats.gmean([1.0, 4.0]).round(6)
    array(2.)
    """
    _propagates(nan_policy)
    t, axis = _flat(_cast(a, dtype), axis)
    return np.exp(_average(np.log(t), weights, axis, keepdims))


def hmean(
    a: ArrayLike, axis: Axes = 0, dtype: Dtype = None, *, weights: ArrayLike | None = None,
    nan_policy: str = "propagate", keepdims: bool = False,
) -> Array:  # fmt: skip
    """The harmonic mean.

    Args:
        a: sample.
        axis: axis or axes along which numbers are combined. None means all.
        dtype: dtype of the computation. The default is that of the sample, as a floating-point one.
        weights: weights of the numbers.
        nan_policy: must be `"propagate"`. Other policies raise NotImplementedError.
        keepdims: whether reduced axes stay, with size 1.

    >>> from ndgrad.scipy import stats
    >>> stats.hmean([1.0, 3.0])
    array(1.5)
    """
    _propagates(nan_policy)
    t, axis = _flat(_cast(a, dtype), axis)
    return 1.0 / _average(1.0 / t, weights, axis, keepdims)


def pmean(
    a: ArrayLike, p: float | Array, *, axis: Axes = 0, dtype: Dtype = None, weights: ArrayLike | None = None,
    nan_policy: str = "propagate", keepdims: bool = False,
) -> Array:  # fmt: skip
    """The power mean of order p, differentiable in p.

    Args:
        a: sample.
        p: exponent. 0 gives the geometric mean.
        axis: axis or axes along which numbers are combined. None means all.
        dtype: dtype of the computation. The default is that of the sample, as a floating-point one.
        weights: weights of the numbers.
        nan_policy: must be `"propagate"`. Other policies raise NotImplementedError.
        keepdims: whether reduced axes stay, with size 1.

    >>> from ndgrad.scipy import stats
    >>> stats.pmean([1.0, 7.0], 2)
    array(5.)
    """
    _propagates(nan_policy)
    if isinstance(p, (int, float)) and p == 0:
        return gmean(a, axis, dtype, weights, keepdims=keepdims)
    t, axis = _flat(_cast(a, dtype), axis)
    return _average(t**p, weights, axis, keepdims) ** (1.0 / p)


def _central(t: Array, order: int, axis: Axes, center: ArrayLike | None = None) -> Array:
    middle = t.mean(axis=axis, keepdims=True) if center is None else center
    return ((t - middle) ** order).mean(axis=axis)


def moment(
    a: ArrayLike, order: int | Sequence[int] = 1, axis: Axes = 0, nan_policy: str = "propagate", *,
    center: ArrayLike | None = None, keepdims: bool = False,
) -> Array:  # fmt: skip
    """Central moments; about `center`, if it is given.

    Args:
        a: sample.
        order: order of the moment, or several orders, along a new first axis.
        axis: axis or axes along which numbers are combined. None means all.
        nan_policy: must be `"propagate"`. Other policies raise NotImplementedError.
        center: point about which moments are taken. The default is the mean.
        keepdims: whether reduced axes stay, with size 1.

    >>> from ndgrad.scipy import stats
    >>> stats.moment([1.0, 2.0, 6.0], order=2)
    array(4.66666667)
    """
    _propagates(nan_policy)
    t, axis = _flat(a, axis)
    if not isinstance(order, (int, float)):
        return np.stack([moment(t, int(k), axis, center=center) for k in order])
    made = np.zeros_like(t).mean(axis=axis) if order == 1 and center is None else _central(t, int(order), axis, center)
    return np.expand_dims(made, axis) if keepdims else made


def skew(
    a: ArrayLike, axis: Axes = 0, bias: bool = True, nan_policy: str = "propagate", *, keepdims: bool = False,
) -> Array:  # fmt: skip
    """The skewness: the third central moment divided by the cube of the standard deviation; bias=False corrects it.

    Args:
        a: sample.
        axis: axis or axes along which numbers are combined. None means all.
        bias: whether the biased estimate is returned, instead of the corrected one.
        nan_policy: must be `"propagate"`. Other policies raise NotImplementedError.
        keepdims: whether reduced axes stay, with size 1.

    >>> from ndgrad.scipy import stats
    >>> stats.skew([1.0, 2.0, 6.0]).round(6)
    array(0.59517)
    """
    _propagates(nan_policy)
    t, axis = _flat(a, axis)
    made = _central(t, 3, axis) / _central(t, 2, axis) ** 1.5
    n = _count(t, axis)
    if not bias and n > 2:
        made = made * (math.sqrt((n - 1.0) * n) / (n - 2.0))
    return np.expand_dims(made, axis) if keepdims else made


def kurtosis(
    a: ArrayLike, axis: Axes = 0, fisher: bool = True, bias: bool = True, nan_policy: str = "propagate", *,
    keepdims: bool = False,
) -> Array:  # fmt: skip
    """The fourth central moment divided by the square of the variance, minus 3 (Fisher's); bias=False corrects it.

    Args:
        a: sample.
        axis: axis or axes along which numbers are combined. None means all.
        fisher: whether 3 is subtracted, so that a normal distribution has 0.
        bias: whether the biased estimate is returned, instead of the corrected one.
        nan_policy: must be `"propagate"`. Other policies raise NotImplementedError.
        keepdims: whether reduced axes stay, with size 1.

    >>> from ndgrad.scipy import stats
    >>> stats.kurtosis([1.0, 2.0, 6.0]).round(6)
    array(-1.5)
    """
    _propagates(nan_policy)
    t, axis = _flat(a, axis)
    made = _central(t, 4, axis) / _central(t, 2, axis) ** 2
    n = _count(t, axis)
    if not bias and n > 3:
        made = ((n * n - 1.0) * made - 3 * (n - 1.0) ** 2) / ((n - 2.0) * (n - 3.0)) + 3.0
    made = made - 3.0 if fisher else made
    return np.expand_dims(made, axis) if keepdims else made


def variation(
    a: ArrayLike, axis: Axes = 0, nan_policy: str = "propagate", ddof: int = 0, *, keepdims: bool = False,
) -> Array:  # fmt: skip
    """The standard deviation divided by the mean.

    Args:
        a: sample.
        axis: axis or axes along which numbers are combined. None means all.
        nan_policy: must be `"propagate"`. Other policies raise NotImplementedError.
        ddof: number subtracted from the count in the divisor of a variance.
        keepdims: whether reduced axes stay, with size 1.

    >>> from ndgrad.scipy import stats
    >>> stats.variation([1.0, 3.0])
    array(0.5)
    """
    _propagates(nan_policy)
    t, axis = _flat(a, axis)
    return t.std(axis=axis, ddof=ddof, keepdims=keepdims) / t.mean(axis=axis, keepdims=keepdims)


def sem(a: ArrayLike, axis: Axes = 0, ddof: int = 1, nan_policy: str = "propagate", *, keepdims: bool = False) -> Array:
    """The standard error of the mean.

    Args:
        a: sample.
        axis: axis or axes along which numbers are combined. None means all.
        ddof: number subtracted from the count in the divisor of a variance.
        nan_policy: must be `"propagate"`. Other policies raise NotImplementedError.
        keepdims: whether reduced axes stay, with size 1.

    >>> from ndgrad.scipy import stats
    >>> stats.sem([1.0, 3.0])
    array(1.)
    """
    _propagates(nan_policy)
    t, axis = _flat(a, axis)
    return t.std(axis=axis, ddof=ddof, keepdims=keepdims) / math.sqrt(_count(t, axis))


def gstd(
    a: ArrayLike, axis: Axes = 0, ddof: int = 1, *, keepdims: bool = False, nan_policy: str = "propagate",
) -> Array:  # fmt: skip
    """The geometric standard deviation.

    Args:
        a: sample.
        axis: axis or axes along which numbers are combined. None means all.
        ddof: number subtracted from the count in the divisor of a variance.
        keepdims: whether reduced axes stay, with size 1.
        nan_policy: must be `"propagate"`. Other policies raise NotImplementedError.

    >>> from ndgrad.scipy import stats
    >>> stats.gstd([1.0, 4.0]).round(6)
    array(2.665144)
    """
    _propagates(nan_policy)
    t, axis = _flat(a, axis)
    return np.exp(np.log(t).std(axis=axis, ddof=ddof, keepdims=keepdims))


def zmap(scores: ArrayLike, compare: ArrayLike, axis: Axes = 0, ddof: int = 0, nan_policy: str = "propagate") -> Array:
    """Scores in standard deviations from the mean of other data.

    Args:
        scores: numbers to express in standard deviations.
        compare: sample of the mean and the standard deviation.
        axis: axis or axes of the mean. None means all.
        ddof: number subtracted from the count in the divisor of a variance.
        nan_policy: must be `"propagate"`. Other policies raise NotImplementedError.

    >>> from ndgrad.scipy import stats
    >>> stats.zmap([4.0], [1.0, 3.0])
    array([2.])
    """
    _propagates(nan_policy)
    s, t = real(scores), real(compare)
    return (s - t.mean(axis=axis, keepdims=True)) / t.std(axis=axis, ddof=ddof, keepdims=True)


def zscore(a: ArrayLike, axis: Axes = 0, ddof: int = 0, nan_policy: str = "propagate") -> Array:
    """Each number in standard deviations from the mean.

    Args:
        a: sample.
        axis: axis or axes along which numbers are combined. None means all.
        ddof: number subtracted from the count in the divisor of a variance.
        nan_policy: must be `"propagate"`. Other policies raise NotImplementedError.

    >>> from ndgrad.scipy import stats
    >>> stats.zscore([1.0, 3.0])
    array([-1.,  1.])
    """
    return zmap(a, a, axis, ddof, nan_policy)


def gzscore(a: ArrayLike, *, axis: Axes = 0, ddof: int = 0, nan_policy: str = "propagate") -> Array:
    """The zscore of the logarithms.

    Args:
        a: sample.
        axis: axis or axes along which numbers are combined. None means all.
        ddof: number subtracted from the count in the divisor of a variance.
        nan_policy: must be `"propagate"`. Other policies raise NotImplementedError.

    >>> from ndgrad.scipy import stats
    >>> stats.gzscore([1.0, 4.0])
    array([-1.,  1.])
    """
    return zscore(np.log(real(a)), axis, ddof, nan_policy)


def iqr(
    x: ArrayLike, axis: Axes = None, rng: Sequence[float] = (25, 75), scale: float | str = 1.0,
    nan_policy: str = "propagate", interpolation: str = "linear", keepdims: bool = False,
) -> Array:  # fmt: skip
    """The range between two percentiles, by default the quartiles.

    Args:
        x: sample.
        axis: axis or axes along which numbers are combined. None means all.
        rng: two percentiles.
        scale: divisor of the range, or `"normal"` for the one that estimates a normal distribution's standard
            deviation.
        nan_policy: must be `"propagate"`. Other policies raise NotImplementedError.
        interpolation: method of `ndgrad.numpy.percentile`.
        keepdims: whether reduced axes stay, with size 1.

    >>> from ndgrad.scipy import stats
    >>> stats.iqr([1.0, 2.0, 3.0, 4.0, 5.0])
    array(2.)
    """
    _propagates(nan_policy)
    low, high = (np.percentile(real(x), q, axis=axis, method=interpolation, keepdims=keepdims) for q in sorted(rng))
    factor = 2 * math.sqrt(2) * 0.47693627620446987 if scale == "normal" else float(scale)
    return (high - low) / factor


def tmean(
    a: ArrayLike, limits: Sequence[float | None] | None = None, inclusive: tuple[bool, bool] = (True, True),
    axis: Axes = None,
) -> Array:  # fmt: skip
    """The mean of the numbers between two limits.

    Args:
        a: sample.
        limits: lower and upper limit. None means no limit.
        inclusive: whether numbers equal to the lower and the upper limit are kept.
        axis: axis or axes along which numbers are combined. None means all.

    >>> from ndgrad.scipy import stats
    >>> stats.tmean([1.0, 2.0, 9.0], limits=(0.0, 5.0))
    array(1.5)
    """
    t, axis = _flat(a, axis)
    inside = _mask_limits(t, limits, inclusive)
    return np.where(inside, t, 0.0).sum(axis=axis) / inside.sum(axis=axis)


def tvar(
    a: ArrayLike, limits: Sequence[float | None] | None = None, inclusive: tuple[bool, bool] = (True, True),
    axis: Axes = 0, ddof: int = 1,
) -> Array:  # fmt: skip
    """The variance of the numbers between two limits.

    Args:
        a: sample.
        limits: lower and upper limit. None means no limit.
        inclusive: whether numbers equal to the lower and the upper limit are kept.
        axis: axis or axes along which numbers are combined. None means all.
        ddof: number subtracted from the count in the divisor of a variance.

    >>> from ndgrad.scipy import stats
    >>> stats.tvar([1.0, 3.0, 9.0], limits=(0.0, 5.0))
    array(2.)
    """
    t, axis = _flat(a, axis)
    inside = _mask_limits(t, limits, inclusive)
    count = inside.sum(axis=axis, keepdims=True)
    mean = np.where(inside, t, 0.0).sum(axis=axis, keepdims=True) / count
    return (np.where(inside, t - mean, 0.0) ** 2).sum(axis=axis) / (count.sum(axis=axis) - ddof)


def _mask_limits(t: Array, limits: Sequence[float | None] | None, inclusive: tuple[bool, bool]) -> Array:
    low, high = (None, None) if limits is None else limits
    inside = np.ones(t.shape, bool)
    if low is not None:
        inside = inside & ((t >= low) if inclusive[0] else (t > low))
    if high is not None:
        inside = inside & ((t <= high) if inclusive[1] else (t < high))
    return inside


def trim_mean(
    a: ArrayLike, proportiontocut: float, axis: Axis = 0, *, nan_policy: str = "propagate", keepdims: bool = False,
) -> Array:  # fmt: skip
    """The mean without the given share of numbers at each end.

    Args:
        a: sample.
        proportiontocut: share of the numbers to leave out at each end.
        axis: axis or axes along which numbers are combined. None means all.
        nan_policy: must be `"propagate"`. Other policies raise NotImplementedError.
        keepdims: whether reduced axes stay, with size 1.

    >>> from ndgrad.scipy import stats
    >>> stats.trim_mean([1.0, 2.0, 3.0, 90.0], 0.25)
    array(2.5)
    """
    _propagates(nan_policy)
    t, axis = _flat(a, axis)
    n = t.shape[axis]
    cut = int(proportiontocut * n)
    if 2 * cut >= n:
        raise ValueError("Proportion too big. [nd-range]")
    kept = np.take(np.sort(t, axis=axis), numpy.arange(cut, n - cut), axis=axis)
    return kept.mean(axis=axis, keepdims=keepdims)


class DescribeResult(NamedTuple):
    """The result of `describe`."""

    nobs: int
    minmax: tuple[Array, Array]
    mean: Array
    variance: Array
    skewness: Array
    kurtosis: Array


def describe(
    a: ArrayLike, axis: Axis = 0, ddof: int = 1, bias: bool = True, nan_policy: str = "propagate",
) -> DescribeResult:  # fmt: skip
    """Count, extremes, mean, variance, skewness and kurtosis, as a named tuple.

    Args:
        a: sample.
        axis: axis or axes along which numbers are combined. None means all.
        ddof: number subtracted from the count in the divisor of a variance.
        bias: whether the biased estimate is returned, instead of the corrected one.
        nan_policy: must be `"propagate"`. Other policies raise NotImplementedError.

    >>> from ndgrad.scipy import stats
    >>> found = stats.describe([1.0, 2.0, 6.0])
    >>> found.nobs, found.mean
    (3, array(3.))
    """
    _propagates(nan_policy)
    t, axis = _flat(a, axis)
    spread = (t.min(axis=axis), t.max(axis=axis))
    return DescribeResult(
        t.shape[axis],
        spread,
        t.mean(axis=axis),
        t.var(axis=axis, ddof=ddof),
        skew(t, axis, bias),
        kurtosis(t, axis, True, bias),
    )


# ----- angles ---------------------------------------------------------------------------------------------------------


def _resultant(samples: ArrayLike, high: float | Array, low: float | Array, axis: Axes) -> tuple[Array, Array]:
    t, axis = _flat(samples, axis)
    angle = (t - low) * (2.0 * math.pi / (high - low))
    return np.sin(angle).mean(axis=axis), np.cos(angle).mean(axis=axis)


def circmean(
    samples: ArrayLike, high: float | Array = 2 * math.pi, low: float | Array = 0, axis: Axes = None,
    nan_policy: str = "propagate",
) -> Array:  # fmt: skip
    """The mean of angles, or of numbers in a period from `low` to `high`.

    Args:
        samples: angles, or numbers in a period.
        high: end of the period.
        low: start of the period.
        axis: axis or axes along which numbers are combined. None means all.
        nan_policy: must be `"propagate"`. Other policies raise NotImplementedError.

    >>> from ndgrad.scipy import stats
    >>> stats.circmean([350.0, 20.0], high=360.0).round(6)
    array(5.)
    """
    _propagates(nan_policy)
    sine, cosine = _resultant(samples, high, low, axis)
    angle = np.arctan2(sine, cosine)
    angle = np.where(angle < 0, angle + 2 * math.pi, angle)
    return angle * ((high - low) / (2.0 * math.pi)) + low


def circvar(
    samples: ArrayLike, high: float | Array = 2 * math.pi, low: float | Array = 0, axis: Axes = None,
    nan_policy: str = "propagate",
) -> Array:  # fmt: skip
    """The variance of angles, 1 minus the length of their mean direction.

    Args:
        samples: angles, or numbers in a period.
        high: end of the period.
        low: start of the period.
        axis: axis or axes along which numbers are combined. None means all.
        nan_policy: must be `"propagate"`. Other policies raise NotImplementedError.

    >>> from ndgrad.scipy import stats
    >>> stats.circvar([0.0, 1.0]).round(6)
    array(0.122417)
    """
    _propagates(nan_policy)
    return 1.0 - np.hypot(*_resultant(samples, high, low, axis))


def circstd(
    samples: ArrayLike, high: float | Array = 2 * math.pi, low: float | Array = 0, axis: Axes = None,
    nan_policy: str = "propagate", *, normalize: bool = False,
) -> Array:  # fmt: skip
    """The standard deviation of angles, sqrt(-2 log of the length of their mean direction).

    Args:
        samples: angles, or numbers in a period.
        high: end of the period.
        low: start of the period.
        axis: axis or axes along which numbers are combined. None means all.
        nan_policy: must be `"propagate"`. Other policies raise NotImplementedError.
        normalize: whether the result is in radians, instead of the unit of the samples.

    >>> from ndgrad.scipy import stats
    >>> stats.circstd([0.0, 1.0]).round(6)
    array(0.511046)
    """
    _propagates(nan_policy)
    made = np.sqrt(-2.0 * np.log(np.hypot(*_resultant(samples, high, low, axis))))
    return made if normalize else made * ((high - low) / (2.0 * math.pi))


# ----- entropy, distances, likelihoods --------------------------------------------------------------------------------


def entropy(
    pk: ArrayLike, qk: ArrayLike | None = None, base: ArrayLike | None = None, axis: Axes = 0, *,
    nan_policy: str = "propagate", keepdims: bool = False,
) -> Array:  # fmt: skip
    """Shannon's entropy of weights, or with `qk` their relative entropy.

    Args:
        pk: weights, which are divided by their sum.
        qk: weights of the reference distribution, for the relative entropy.
        base: base of the logarithm. The default is e.
        axis: axis or axes along which numbers are combined. None means all.
        nan_policy: must be `"propagate"`. Other policies raise NotImplementedError.
        keepdims: whether reduced axes stay, with size 1.

    >>> from ndgrad.scipy import stats
    >>> stats.entropy([0.5, 0.5], base=2)
    array(1.)
    """
    _propagates(nan_policy)
    p = real(pk)
    p = p / p.sum(axis=axis, keepdims=True)
    if qk is None:
        made = S.entr(p).sum(axis=axis, keepdims=keepdims)
    else:
        q = real(qk)
        q = np.broadcast_to(q / q.sum(axis=axis, keepdims=True), p.shape)
        # p log(p/q) is 0 if p is, and infinite if only q is.
        terms = np.where(p == 0, 0.0, p * (np.log(np.where(p == 0, 1.0, p)) - np.log(np.where(p == 0, 1.0, q))))
        made = terms.sum(axis=axis, keepdims=keepdims)
    return made if base is None else made / np.log(real(base))


def _cdf_distance(
    p: int, u: ArrayLike, v: ArrayLike, u_weights: ArrayLike | None, v_weights: ArrayLike | None
) -> Array:
    x, y = real(u).ravel(), real(v).ravel()
    both = np.sort(np.concatenate([x, y]))
    steps = np.diff(both)
    values = values_of(both.detach())[:-1]

    def share(t: Array, weights: ArrayLike | None) -> Any:
        order = numpy.argsort(values_of(t.detach()), kind="stable")
        places = numpy.searchsorted(values_of(t.detach())[order], values, "right")
        if weights is None:
            return places / len(order)
        total = np.concatenate([np.zeros(1), np.cumsum(real(weights)[order])])
        return total[places] / total[-1]

    gap = abs(share(x, u_weights) - share(y, v_weights))
    return (gap * steps).sum() if p == 1 else np.sqrt((gap * gap * steps).sum())


def wasserstein_distance(
    u_values: ArrayLike, v_values: ArrayLike, u_weights: ArrayLike | None = None, v_weights: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """The first Wasserstein distance of two samples, differentiable in their values and weights.

    Args:
        u_values: values of the first sample.
        v_values: values of the second sample.
        u_weights: weights of the first sample. The default is equal weights.
        v_weights: weights of the second sample. The default is equal weights.

    >>> from ndgrad.scipy import stats
    >>> stats.wasserstein_distance([0.0, 1.0], [2.0, 3.0])
    array(2.)
    """
    return _cdf_distance(1, u_values, v_values, u_weights, v_weights)


def energy_distance(
    u_values: ArrayLike, v_values: ArrayLike, u_weights: ArrayLike | None = None, v_weights: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """The energy distance of two samples, differentiable in their values and weights.

    Args:
        u_values: values of the first sample.
        v_values: values of the second sample.
        u_weights: weights of the first sample. The default is equal weights.
        v_weights: weights of the second sample. The default is equal weights.

    >>> from ndgrad.scipy import stats
    >>> stats.energy_distance([0.0], [2.0])
    array(2.)
    """
    return math.sqrt(2) * _cdf_distance(2, u_values, v_values, u_weights, v_weights)


def boxcox_llf(
    lmb: ArrayLike, data: ArrayLike, *, axis: int = 0, keepdims: bool = False, nan_policy: str = "propagate",
) -> Array:  # fmt: skip
    """The log-likelihood of Box and Cox's parameter.

    Args:
        lmb: parameter of the transformation.
        data: sample.
        axis: axis or axes along which numbers are combined. None means all.
        keepdims: whether reduced axes stay, with size 1.
        nan_policy: must be `"propagate"`. Other policies raise NotImplementedError.

    >>> from ndgrad.scipy import stats
    >>> stats.boxcox_llf(1.0, [1.0, 2.0, 4.0]).round(6)
    array(-0.662749)
    """
    _propagates(nan_policy)
    t, lam = real(data), real(lmb)
    n = t.shape[axis]
    return (lam - 1.0) * np.log(t).sum(axis=axis, keepdims=keepdims) - 0.5 * n * np.log(
        boxcox(t, lam).var(axis=axis, keepdims=keepdims)
    )


def yeojohnson_llf(
    lmb: ArrayLike, data: ArrayLike, *, axis: int = 0, nan_policy: str = "propagate", keepdims: bool = False,
) -> Array:  # fmt: skip
    """The log-likelihood of Yeo and Johnson's parameter.

    Args:
        lmb: parameter of the transformation.
        data: sample.
        axis: axis or axes along which numbers are combined. None means all.
        nan_policy: must be `"propagate"`. Other policies raise NotImplementedError.
        keepdims: whether reduced axes stay, with size 1.

    >>> from ndgrad.scipy import stats
    >>> stats.yeojohnson_llf(1.0, [1.0, -2.0, 4.0]).round(6)
    array(-2.687639)
    """
    _propagates(nan_policy)
    t, lam = real(data), real(lmb)
    up = t >= 0
    moved = np.where(up, boxcox1p(np.where(up, t, 0.0), lam), -boxcox1p(np.where(up, 0.0, -t), 2.0 - lam))
    slope = (np.sign(t) * np.log1p(abs(t))).sum(axis=axis, keepdims=keepdims)
    return (lam - 1.0) * slope - 0.5 * t.shape[axis] * np.log(moved.var(axis=axis, keepdims=keepdims))


# ----- correlation and tests ---------------------------------------------------------------------------------------



class SignificanceResult(NamedTuple):
    """A statistic and its p-value."""

    statistic: Array
    pvalue: Array


class TtestResult(SignificanceResult):
    """A statistic, its p-value, and the degrees of freedom."""

    df: Array | float


class _Line(NamedTuple):
    slope: Array
    intercept: Array
    rvalue: Array
    pvalue: Array
    stderr: Array


class LinregressResult(_Line):
    """The result of `linregress`: it unpacks to five numbers, and has the intercept's standard error as an
    attribute.
    """

    intercept_stderr: Array


R = TypeVar("R", bound="SignificanceResult | _Line")


def _with_more(kind: type[R], more: str) -> Callable[..., R]:
    """Return a constructor of a named tuple that unpacks to its fields and has one more attribute, as SciPy's results
    do.
    """

    def build(*values: Any) -> R:
        result = kind(*values[:-1])
        setattr(result, more, values[-1])
        return result

    register_pytree_node(
        kind, lambda result: ((*result, getattr(result, more)), None), lambda children, _: build(*children)
    )
    return build


_ttest_result = _with_more(TtestResult, "df")
_linregress_result = _with_more(LinregressResult, "intercept_stderr")


def _p_value(statistic: Array, df: ArrayLike, alternative: str) -> Array:
    """Return the p-value of Student's t."""
    df = np.broadcast_to(real(df), statistic.shape)
    if alternative == "less":
        return ops.stdtr(df, statistic)
    if alternative == "greater":
        return ops.stdtr(df, -statistic)
    if alternative != "two-sided":
        raise ValueError("alternative must be one of 'two-sided', 'less', 'greater'. [nd-option]")
    return 2.0 * ops.stdtr(df, -abs(statistic))


def pearsonr(
    x: ArrayLike, y: ArrayLike, *, alternative: str = "two-sided", method: str | None = None, axis: int = 0,
) -> SignificanceResult:  # fmt: skip
    """The correlation of two samples, and its p-value.

    Args:
        x: first sample.
        y: second sample.
        alternative: alternative hypothesis: `"two-sided"`, `"less"` or `"greater"`.
        method: must be None: resampling has no derivative.
        axis: axis of the samples.

    >>> from ndgrad.scipy import stats
    >>> stats.pearsonr([1.0, 2.0, 3.0], [1.0, 2.0, 2.0]).statistic.round(6)
    array(0.866025)
    """
    if method is not None:
        raise NotImplementedError(
            f"pearsonr(): method={method!r} resamples, which has no derivative. Leave it out. [nd-no-derivative]"
        )
    u, v = real(x), real(y)
    n = u.shape[axis]
    du, dv = u - u.mean(axis=axis, keepdims=True), v - v.mean(axis=axis, keepdims=True)
    r = (du * dv).sum(axis=axis) / np.sqrt((du * du).sum(axis=axis) * (dv * dv).sum(axis=axis))
    half = np.full(r.shape, n / 2.0 - 1.0)
    low, high = ops.betainc(half, half, (1.0 + r) / 2.0), ops.betainc(half, half, (1.0 - r) / 2.0)
    if alternative not in ("two-sided", "less", "greater"):
        raise ValueError("alternative must be one of 'two-sided', 'less', 'greater'. [nd-option]")
    p = (
        low
        if alternative == "less"
        else high
        if alternative == "greater"
        else 2.0 * ops.betainc(half, half, (1.0 - abs(r)) / 2.0)
    )
    return SignificanceResult(r, p)


def linregress(x: ArrayLike, y: ArrayLike, alternative: str = "two-sided") -> LinregressResult:
    """A straight line through points: slope, intercept, correlation, p-value and standard errors.

    Args:
        x: first coordinates.
        y: second coordinates.
        alternative: alternative hypothesis: `"two-sided"`, `"less"` or `"greater"`.

    >>> from ndgrad.scipy import stats
    >>> line = stats.linregress([0.0, 1.0, 2.0], [1.0, 3.0, 6.0])
    >>> line.slope, line.intercept.round(6)
    (array(2.5), array(0.833333))
    """
    u, v = real(x), real(y)
    n = u.shape[0]
    du, dv = u - u.mean(), v - v.mean()
    sxx, syy, sxy = (du * du).mean(), (dv * dv).mean(), (du * dv).mean()
    slope = sxy / sxx
    r = sxy / np.sqrt(sxx * syy)
    t = r * np.sqrt((n - 2.0) / ((1.0 - r) * (1.0 + r)))
    error = np.sqrt((1.0 - r * r) * syy / sxx / (n - 2.0))
    intercept = v.mean() - slope * u.mean()
    return _linregress_result(
        slope, intercept, r, _p_value(t, n - 2.0, alternative), error, error * np.sqrt(sxx + u.mean() ** 2)
    )


def ttest_1samp(
    a: ArrayLike, popmean: ArrayLike, axis: Axis = 0, nan_policy: str = "propagate", alternative: str = "two-sided",
    **options: Any,
) -> TtestResult:  # fmt: skip
    """Student's t-test of whether a sample has a given mean.

    Args:
        a: sample.
        popmean: mean under the null hypothesis.
        axis: axis or axes along which numbers are combined. None means all.
        nan_policy: must be `"propagate"`. Other policies raise NotImplementedError.
        alternative: alternative hypothesis: `"two-sided"`, `"less"` or `"greater"`.
        options: must be empty: other options of SciPy raise an error.

    >>> from ndgrad.scipy import stats
    >>> stats.ttest_1samp([1.0, 2.0, 3.0], 1.0).statistic.round(6)
    array(1.732051)
    """
    _propagates(nan_policy)
    _refuse_options("ttest_1samp", options)
    t, axis = _flat(a, axis)
    n = t.shape[axis]
    statistic = (t.mean(axis=axis) - real(popmean)) / (t.std(axis=axis, ddof=1) / math.sqrt(n))
    return _ttest_result(statistic, _p_value(statistic, n - 1.0, alternative), n - 1)


def ttest_rel(
    a: ArrayLike, b: ArrayLike, axis: Axis = 0, nan_policy: str = "propagate", alternative: str = "two-sided",
    **options: Any,
) -> TtestResult:  # fmt: skip
    """Student's t-test of whether paired samples have one mean.

    Args:
        a: sample.
        b: second sample, of the same shape.
        axis: axis or axes along which numbers are combined. None means all.
        nan_policy: must be `"propagate"`. Other policies raise NotImplementedError.
        alternative: alternative hypothesis: `"two-sided"`, `"less"` or `"greater"`.
        options: must be empty: other options of SciPy raise an error.

    >>> from ndgrad.scipy import stats
    >>> stats.ttest_rel([1.0, 2.0, 4.0], [1.0, 1.0, 2.0]).statistic.round(6)
    array(1.732051)
    """
    _refuse_options("ttest_rel", options)
    return ttest_1samp(real(a) - real(b), 0.0, axis, nan_policy, alternative)


def ttest_ind(
    a: ArrayLike, b: ArrayLike, *, axis: Axis = 0, equal_var: bool = True, nan_policy: str = "propagate",
    alternative: str = "two-sided", **options: Any,
) -> TtestResult:  # fmt: skip
    """Student's t-test of whether two samples have one mean; Welch's with equal_var=False.

    Args:
        a: sample.
        b: second sample.
        axis: axis or axes along which numbers are combined. None means all.
        equal_var: whether the variances are equal. False gives Welch's test.
        nan_policy: must be `"propagate"`. Other policies raise NotImplementedError.
        alternative: alternative hypothesis: `"two-sided"`, `"less"` or `"greater"`.
        options: must be empty: other options of SciPy raise an error.

    >>> from ndgrad.scipy import stats
    >>> stats.ttest_ind([1.0, 2.0, 4.0], [1.0, 1.0, 2.0]).pvalue.round(6)
    array(0.348641)
    """
    _propagates(nan_policy)
    _refuse_options("ttest_ind", options)
    (u, axis), (v, _axis) = _flat(a, axis), _flat(b, axis)
    n, m = u.shape[axis], v.shape[axis]
    su, sv = u.var(axis=axis, ddof=1), v.var(axis=axis, ddof=1)
    if equal_var:
        df: Any = n + m - 2.0
        error = np.sqrt(((n - 1) * su + (m - 1) * sv) / df * (1.0 / n + 1.0 / m))
    else:
        pu, pv = su / n, sv / m
        df = (pu + pv) ** 2 / (pu**2 / (n - 1.0) + pv**2 / (m - 1.0))
        error = np.sqrt(pu + pv)
    statistic = (u.mean(axis=axis) - v.mean(axis=axis)) / error
    return _ttest_result(statistic, _p_value(statistic, df, alternative), df)


def f_oneway(*samples: Any, axis: int = 0, **options: Any) -> SignificanceResult:
    """The analysis of variance of several samples.

    Args:
        *samples: samples.
        axis: axis of the samples.
        options: must be empty: other options of SciPy raise an error.

    >>> from ndgrad.scipy import stats
    >>> stats.f_oneway([1.0, 2.0, 3.0], [2.0, 3.0, 5.0]).statistic.round(6)
    array(1.6)
    """
    _refuse_options("f_oneway", options)
    groups = [real(s) for s in samples]
    whole = np.concatenate(groups, axis=axis)
    k, n = len(groups), whole.shape[axis]
    grand = whole.mean(axis=axis, keepdims=True)
    between: Any = sum((g.shape[axis] * (g.mean(axis=axis, keepdims=True) - grand) ** 2).sum(axis=axis) for g in groups)
    within: Any = sum(((g - g.mean(axis=axis, keepdims=True)) ** 2).sum(axis=axis) for g in groups)
    f = between / (k - 1.0) / (within / (n - k))
    dfn, dfd = np.full(f.shape, k - 1.0), np.full(f.shape, float(n - k))
    return SignificanceResult(f, ops.betainc(dfd / 2.0, dfn / 2.0, dfd / (dfd + dfn * f)))
