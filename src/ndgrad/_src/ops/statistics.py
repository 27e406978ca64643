"""Spread and order: variance, standard deviation, median, mode.

`correction`, any real number, is subtracted from the number of elements in the variance's divisor. If the divisor is
not positive, the variance is infinite, or NaN if there is no spread either, as in torch.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy

from ndgrad._src.arrays.blocked_sums import reduce_sum
from ndgrad._src.arrays.integers import as_int64, as_places
from ndgrad._src.arrays.precision import finfo, is_inexact
from ndgrad._src.foundations import registry
from ndgrad._src.ops.composite import composite, fused_rule
from ndgrad._src.ops.extremum import largest, pick_tangent, place_back, share_all, share_all_t
from ndgrad._src.ops.reduce import count, drop_dims, keep
from ndgrad._src.ops.scan import accumulate_extremum
from ndgrad._src.ops.table import NOT_DIFFERENTIABLE, op

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload, Vocabulary

# ----- variance and standard deviation --------------------------------------------------------------------------------

#: Up to this many elements a dot product is as accurate as NumPy's pairwise sum, and faster.
_SHORT = 4096


def _moments(np: Library, x: Payload, dim: tuple[int, ...], keepdim: bool, correction: float) -> tuple[Any, Any]:
    """Return variance and mean in two passes: deviations first, so that nothing cancels.

    The mean of equal numbers may be rounded. All of them then deviate from it equally, which gives a spurious spread
    with a gradient that is not small. If the deviations are no larger than that, they are taken from the first number
    instead.
    """
    n = count(x.shape, dim)
    mean = reduce_sum(np, x, dim, True) / n
    squares = _squares(np, x - mean, dim)
    if x.size and not getattr(x, "is_meta", False):
        rounding = np.abs(mean) * (n * float(finfo(x.dtype).eps) if is_inexact(x.dtype) else 0.0)
        if (squares <= n * rounding * rounding).any():
            first = x[tuple([slice(0, 1) if d in dim else slice(None) for d in range(x.ndim)])]
            away = x - first
            shift = reduce_sum(np, away, dim, True) / n
            near = squares <= n * rounding * rounding
            squares = np.where(near, _squares(np, away - shift, dim), squares)
            mean = np.where(near, first + shift, mean)
    left = n - correction
    variance = squares / (left if left > 0 else 0.0)
    if keepdim or not dim:
        return variance, mean
    rest = [size for d, size in enumerate(x.shape) if d not in dim]
    return variance.reshape(rest), mean.reshape(rest)


def _squares(np: Library, deviation: Any, dim: tuple[int, ...]) -> Payload:
    """Return the sum of squares over `dim`, which is kept. The array is overwritten."""
    deviation = np.asarray(deviation)
    if deviation.dtype.kind == "c":
        return reduce_sum(np, deviation.real**2 + deviation.imag**2, dim, True)
    if np is numpy and dim == (deviation.ndim - 1,) and deviation.shape[-1] <= _SHORT:
        return np.asarray(np.vecdot(deviation, deviation))[..., None]
    np.multiply(deviation, deviation, out=deviation)
    return reduce_sum(np, deviation, dim, True)


def _deviation(
    x: Payload, mean: Payload, dim: tuple[int, ...], correction: float, whole: bool, ops: Vocabulary
) -> Payload:
    """Return 2 (x - mean) / (n - correction), the variance's derivative.

    The mean's own derivative drops out, because it is multiplied by the sum of the deviations, which is 0. If the
    divisor is zero the slope is infinite, with the signs of the deviations. If it is negative the slope has the
    opposite sign, although the variance is infinite. Both follow torch, and so does the case without a dimension
    (`whole`): infinity without a sign, and NaN at the mean.
    """
    left = count(tuple(x.shape), dim) - correction
    if whole and left <= 0:
        return ops.where(x == mean, float("nan"), x * 0.0 + float("inf"))
    return (x - mean) * (2 / left if left else math.inf)


@fused_rule("g x")
def _var_x(
    g: Payload, x: Payload, dim: tuple[int, ...], keepdim: bool, correction: float, whole: bool, ops: Vocabulary
) -> Payload:
    shape = tuple(x.shape)
    mean = ops.mean(x, dim=dim, keepdim=True)
    left = count(shape, dim) - correction
    g = keep(g, shape, dim, keepdim, ops)
    return (x - mean) * (g * (2 / left)) if left > 0 else g * _deviation(x, mean, dim, correction, whole, ops)


def _var_t(
    t: Payload, x: Payload, dim: tuple[int, ...], keepdim: bool, correction: float, whole: bool, ops: Vocabulary
) -> Payload:
    slope = _deviation(x, ops.mean(x, dim=dim, keepdim=True), dim, correction, whole, ops)
    return ops.sum(ops.real(ops.conj(slope) * t), dim=dim, keepdim=keepdim)


@fused_rule("out", only_on_device=True)
def _half_inverse(out: Payload, ops: Vocabulary) -> Payload:
    """Return d sqrt(v) / dv at out = sqrt(v), and 0 if there is no spread."""
    return ops.where(out == 0, 0.0, 0.5 / ops.where(out == 0, 1.0, out))


def _moments_body(
    x: Payload, dim: tuple[int, ...], keepdim: bool, correction: float, ops: Vocabulary
) -> tuple[Payload, Payload]:
    """Return variance and mean, as `_moments` does, without a decision by values."""
    n = count(tuple(x.shape), dim)
    mean = ops.sum(x, dim=dim, keepdim=True) / n
    squares = _squares_body(x - mean, dim, ops)
    rounding = ops.abs(mean) * (n * float(finfo(x.dtype).eps))
    near = squares <= rounding * rounding * n
    first = x[tuple([slice(0, 1, 1) if d in dim else slice(0, size, 1) for d, size in enumerate(x.shape)])]
    away = x - first
    shift = ops.sum(away, dim=dim, keepdim=True) / n
    squares = ops.where(near, _squares_body(away - shift, dim, ops), squares)
    left = n - correction
    found = squares / (left if left > 0 else 0.0), ops.where(near, first + shift, mean)
    return found if keepdim else (drop_dims(found[0], dim, ops), drop_dims(found[1], dim, ops))


def _squares_body(deviation: Payload, dim: tuple[int, ...], ops: Vocabulary) -> Payload:
    return ops.sum(deviation * deviation, dim=dim, keepdim=True)


var = composite(
    "var", "x",
    lambda x, dim, keepdim, correction, ops: _moments_body(x, dim, keepdim, correction, ops)[0],
    fused=True,
    kernel=lambda np, x, *, dim, keepdim, correction, whole=False: _moments(np, x, dim, keepdim, correction)[0],
    settings={"dim": (), "keepdim": False, "correction": 1, "whole": False},
    vjp={"x": _var_x},
    jvp={"x": _var_t},
    batch="dims",
)  # fmt: skip

def _std_mean_body(
    x: Payload, dim: tuple[int, ...], keepdim: bool, correction: float, ops: Vocabulary
) -> tuple[Payload, Payload]:
    """Return deviation and mean. If squares of the numbers, or of their last digits, would leave the range of the
    dtype, the numbers are first divided by the largest of them.
    """
    limits, n = finfo(x.dtype), count(tuple(x.shape), dim)
    most = math.sqrt(float(limits.max) / (8 * n))
    least = math.sqrt(float(limits.tiny) / float(limits.eps)) / float(limits.eps)
    top = ops.amax(ops.abs(x), dim=dim, keepdim=True)
    is_large, is_small = (top > most) & (top < math.inf), (top < least) & (top > 0.0)
    unit = ops.where(is_large | is_small, top, 1.0)
    variance, mean = _moments_body(x / unit, dim, True, correction, ops)
    found = ops.sqrt(variance) * unit, mean * unit
    return found if keepdim else (drop_dims(found[0], dim, ops), drop_dims(found[1], dim, ops))


std = composite(
    "std", "x",
    lambda x, dim, keepdim, correction, ops: _std_mean_body(x, dim, keepdim, correction, ops)[0],
    fused=True,
    kernel=lambda np, x, *, dim, keepdim, correction, whole=False: _std_mean(np, x, dim=dim, keepdim=keepdim,
            correction=correction)[0],
    settings={"dim": (), "keepdim": False, "correction": 1, "whole": False},
    vjp={"x": lambda g, x, out, dim, keepdim, correction, whole, ops: _var_x(g * _half_inverse(out, ops), x, dim,
            keepdim, correction, whole, ops)},
    jvp={"x": lambda t, x, out, dim, keepdim, correction, whole, ops: _half_inverse(out, ops) * _var_t(t, x, dim,
            keepdim, correction, whole, ops)},
    batch="dims",
)  # fmt: skip


def _var_mean_x(
    g0: Payload,
    g1: Payload,
    x: Payload,
    out1: Payload,
    dim: tuple[int, ...],
    keepdim: bool,
    correction: float,
    whole: bool,
    ops: Vocabulary,
) -> tuple[Any]:
    shape = tuple(x.shape)
    slope = _deviation(x, keep(out1, shape, dim, keepdim, ops), dim, correction, whole, ops)
    return (keep(g0, shape, dim, keepdim, ops) * slope + keep(g1, shape, dim, keepdim, ops) / count(shape, dim),)


def _var_mean_t(
    x_t: Payload,
    x: Payload,
    out1: Payload,
    dim: tuple[int, ...],
    keepdim: bool,
    correction: float,
    whole: bool,
    ops: Vocabulary,
) -> tuple[Any, Any]:
    slope = _deviation(x, keep(out1, tuple(x.shape), dim, keepdim, ops), dim, correction, whole, ops)
    return ops.sum(ops.real(ops.conj(slope) * x_t), dim=dim, keepdim=keepdim), ops.mean(x_t, dim=dim, keepdim=keepdim)


var_mean = composite(
    "var_mean", "x",
    _moments_body,
    fused=True,
    kernel=lambda np, x, *, dim, keepdim, correction, whole=False: _moments(np, x, dim, keepdim, correction),
    settings={"dim": (), "keepdim": False, "correction": 1, "whole": False},
    vjp=_var_mean_x,
    jvp=_var_mean_t,
    batch="dims",
    outputs=2,
)  # fmt: skip


def _std_mean(
    np: Library, x: Payload, *, dim: tuple[int, ...], keepdim: bool, correction: float, whole: bool = False
) -> tuple[Any, Any]:
    """Return the root of the variance. If squares leave the range of the dtype, numbers are first divided by the
    largest.
    """
    with numpy.errstate(over="ignore"):
        variance, mean = _moments(np, x, dim, keepdim, correction)
    if np is numpy and x.size and is_inexact(x.dtype) and not getattr(x, "is_meta", False):
        limits = finfo(x.dtype)
        if not (variance.min() >= limits.tiny / limits.eps and variance.max() < math.inf):
            top = largest(np, np.abs(x), dim, True)
            top = np.where((top > 0) & (top < math.inf), top, np.ones((), top.dtype))
            scaled, centre = _moments(np, x / top, dim, True, correction)
            shape = variance.shape
            return (np.sqrt(scaled) * top).reshape(shape), (centre * top).reshape(shape)
    return np.sqrt(variance), mean


def _std_mean_x(
    g0: Payload,
    g1: Payload,
    x: Payload,
    out0: Payload,
    out1: Payload,
    dim: tuple[int, ...],
    keepdim: bool,
    correction: float,
    whole: bool,
    ops: Vocabulary,
) -> tuple[Any]:
    return _var_mean_x(g0 * _half_inverse(out0, ops), g1, x, out1, dim, keepdim, correction, whole, ops)


def _std_mean_t(
    x_t: Payload,
    x: Payload,
    out0: Payload,
    out1: Payload,
    dim: tuple[int, ...],
    keepdim: bool,
    correction: float,
    whole: bool,
    ops: Vocabulary,
) -> tuple[Any, Any]:
    variance_t, mean_t = _var_mean_t(x_t, x, out1, dim, keepdim, correction, whole, ops)
    return _half_inverse(out0, ops) * variance_t, mean_t


std_mean = composite(
    "std_mean", "x",
    _std_mean_body,
    fused=True,
    kernel=_std_mean,
    settings={"dim": (), "keepdim": False, "correction": 1, "whole": False},
    vjp=_std_mean_x,
    jvp=_std_mean_t,
    batch="dims",
    outputs=2,
)  # fmt: skip


# ----- median: for an even number of elements, the lower of the middle two --------------------------------------------


def _take_chosen(np: Library, x: Payload, index: Payload, dim: int, keepdim: bool) -> tuple[Any, Any]:
    """Return the values at `index` (with `dim` kept), and the index, contiguous and as int64."""
    index = np.ascontiguousarray(as_int64(index))
    values = np.take_along_axis(x, index, dim)
    return (values, index) if keepdim else (values.squeeze(dim), index.squeeze(dim))


def _median(np: Library, x: Payload, *, dim: int, keepdim: bool, ignore_nan: bool = False) -> tuple[Any, Any]:
    n = x.shape[dim]
    nan = x != x
    any_nan = nan.any()
    if any_nan and ignore_nan:
        valid = n - nan.sum(axis=dim, keepdims=True)
        index = np.take_along_axis(np.argsort(x, axis=dim, kind="stable"), np.maximum((valid - 1) // 2, 0), dim)
    else:
        middle = (*(slice(None),) * dim, slice((n - 1) // 2, (n - 1) // 2 + 1))
        index = np.argpartition(x, (n - 1) // 2, axis=dim)[middle]
        if any_nan:
            index = np.where(nan.any(axis=dim, keepdims=True), nan.argmax(axis=dim, keepdims=True), index)
    return _take_chosen(np, x, index, dim, keepdim)


def _median_all(np: Library, x: Payload, *, ignore_nan: bool = False) -> Payload:
    flat = x.reshape(-1)
    nan = flat != flat
    if nan.any():
        flat = flat[~nan] if ignore_nan else flat[nan]
    if flat.size == 0:
        return np.full((), np.nan, x.dtype)
    return np.partition(flat, (flat.size - 1) // 2)[(flat.size - 1) // 2]


def _nanmedian(np: Library, x: Payload, *, dim: int, keepdim: bool) -> tuple[Any, Any]:
    return _median(np, x, dim=dim, keepdim=keepdim, ignore_nan=True)


def _nanmedian_all(np: Library, x: Payload) -> Payload:
    return _median_all(np, x, ignore_nan=True)


def _flatten_samples(x: Payload, ops: Vocabulary) -> Payload:
    """Reshape a batch of arrays to a batch of rows."""
    size = x.shape[0]
    return ops.reshape(x, shape=(size, count(tuple(x.shape), tuple(range(1, len(x.shape))))))


median = op(
    "median", "x",
    lambda np, x, *, dim, keepdim: _median(np, x, dim=dim, keepdim=keepdim),
    settings={"dim": 0, "keepdim": False},
    vjp=place_back,
    jvp=pick_tangent,
    batch="dims",
    outputs=2,
    discrete_outputs=(1,),
    backward_name="MedianBackward1",
    saved_names={"out1": "indices"},
    moves_values=True,
)  # fmt: skip

median_all = op(
    "median_all", "x",
    lambda np, x: _median_all(np, x),
    vjp={"x": share_all},
    jvp={"x": share_all_t},
    batch=lambda x, ops: ops.median(_flatten_samples(x, ops), dim=1)[0],
    backward_name="MedianBackward0",
    may_be_discrete=True,
    piecewise_linear=True,
    moves_values=True,
)  # fmt: skip

nanmedian = op(
    "nanmedian", "x",
    _nanmedian,
    settings={"dim": 0, "keepdim": False},
    vjp=place_back,
    jvp=pick_tangent,
    batch="dims",
    outputs=2,
    discrete_outputs=(1,),
    backward_name="NanmedianBackward1",
    saved_names={"out1": "indices"},
)  # fmt: skip

nanmedian_all = op(
    "nanmedian_all", "x",
    _nanmedian_all,
    vjp={"x": share_all},
    jvp={"x": share_all_t},
    batch=lambda x, ops: ops.nanmedian(_flatten_samples(x, ops), dim=1)[0],
    backward_name="NanmedianBackward0",
    may_be_discrete=True,
    piecewise_linear=True,
)  # fmt: skip


# ----- mode: the most frequent value (the smallest of several) and its last position ----------------------------------


def _mode(np: Library, x: Payload, *, dim: int, keepdim: bool) -> tuple[Any, Any]:
    """Find, in sorted rows, the position of each element in its run of equals. The maximum ends the first longest
    run.
    """
    order = np.argsort(x, axis=dim, kind="stable")
    ranked = np.take_along_axis(x, order, dim)
    n = x.shape[dim]
    first, rest = (*(slice(None),) * dim, slice(0, 1)), (*(slice(None),) * dim, slice(1, None))
    earlier = (*(slice(None),) * dim, slice(0, -1))
    places = np.arange(n).reshape((n, *(1,) * (len(x.shape) - dim - 1)))
    starts = np.zeros(x.shape, places.dtype)
    starts[rest] = np.where(ranked[rest] != ranked[earlier], places[1:], 0)
    starts[first] = 0
    length = places - accumulate_extremum(np, np.maximum, starts, dim)
    index = np.take_along_axis(order, length.argmax(axis=dim, keepdims=True), dim)
    return _take_chosen(np, x, index, dim, keepdim)


mode = op(
    "mode", "x",
    _mode,
    settings={"dim": 0, "keepdim": False},
    vjp=place_back,
    jvp=pick_tangent,
    batch="dims",
    outputs=2,
    discrete_outputs=(1,),
    saved_names={"out1": "indices"},
    moves_values=True,
)  # fmt: skip


# ----- ranks ----------------------------------------------------------------------------------------------------------

# The position of the k-th smallest element, for every k; NaNs are last. Quantiles find their neighbours here.
ranking = op(
    "ranking", "x",
    lambda np, x, *, dim: as_int64(np.argsort(x, axis=dim, kind="stable")),
    settings={"dim": 0},
    vjp=NOT_DIFFERENTIABLE,
    batch="dims",
)  # fmt: skip


# ----- counts ---------------------------------------------------------------------------------------------------------


def _histogram(np: Library, x: Payload, *, bins: int, low: float, high: float) -> Payload:
    """Return the counts of each row in `bins` equal bins between low and high. The last bin is closed.

    Values outside and NaN are not counted.
    """
    lines = x.reshape((count(x.shape, range(len(x.shape) - 1)), x.shape[-1]))
    inside = (lines >= low) & (lines <= high)
    place = np.minimum(((np.where(inside, lines, low) - low) * (bins / (high - low))).astype(np.int64), bins - 1)
    place += np.arange(lines.shape[0])[:, None] * bins
    counts = np.bincount(as_places(place[inside]), minlength=lines.shape[0] * bins)
    return counts.reshape((*x.shape[:-1], bins)).astype(x.dtype)


histogram = op(
    "histogram", "x",
    _histogram,
    settings={"bins": 100, "low": 0.0, "high": 1.0},
    vjp=NOT_DIFFERENTIABLE,
    batch="leading",
)  # fmt: skip

def _bincount(np: Library, x: Payload, weights: Payload | None, *, minlength: int) -> Payload:
    counts = np.bincount(as_places(x), weights, minlength)
    return as_int64(counts) if weights is None else counts


def _bincount_samples(x: Any, weights: Any, minlength: int, ops: Vocabulary) -> Any:
    """Count each sample in a separate range. The ranges must have one length, because the results are stacked."""
    values = registry.recorder.innermost_array(x) if hasattr(x, "_array") else x  # includes the samples of outer vmaps
    largest = values.max(-1) if values.size else numpy.full(1, -1)
    shortest, length = (max(int(n) + 1, minlength) for n in (largest.min(), largest.max()))
    if shortest != length:
        raise RuntimeError(
            "bincount: stack expects each tensor to be equal size, but under vmap the counts of samples have lengths "
            f"from {shortest} to {length}. Pass minlength={length}. [nd-vmap-value]"
        )
    rows = x.shape[0]
    x = ops.cast(x, dtype=numpy.dtype(numpy.int64))
    row = ops.cumsum(ops.zeros_like(x) + 1, dim=0) - 1
    places = ops.reshape(x + row * length, shape=(rows * x.shape[1],))
    flat = None if weights is None else ops.reshape(weights, shape=(rows * x.shape[1],))
    return ops.reshape(ops.bincount(places, flat, minlength=rows * length), shape=(rows, length))


bincount = op(
    "bincount", "x weights",
    _bincount,
    settings={"minlength": 0},
    vjp={"weights": lambda g, x, ops: ops.take(g, x)},
    jvp={"weights": lambda t, x, minlength, ops: ops.bincount(x, t, minlength=minlength)},
    batch=_bincount_samples,
    optional="weights",
    needs_values=True,
    may_raise=True,
)  # fmt: skip
