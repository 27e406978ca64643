"""Spread, order statistics, histograms and covariance under torch's names.

Torch's variance takes `unbiased` (a bool, positional in old programs: `x.std(False)`, `x.std(0, False, True)`) or
`correction` (a number); both forms come down to the correction.
"""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from ndgrad._src.arrays.dtypes import as_dtype, get_default_dtype
from ndgrad._src.arrays.precision import is_floating, is_inexact, real_dtype, result_dtype
from ndgrad._src.core.detach_checks import BATCHED, stake_of
from ndgrad._src.core.variable import Variable, innermost_array, np_dtype, wrap_like
from ndgrad._src.ops import arithmetic, cast, extremum, product, rounding, selection, shape
from ndgrad._src.ops import reduce as reductions
from ndgrad._src.ops import statistics as ops
from ndgrad._src.tensor import return_types
from ndgrad._src.tensor.arguments import as_dim, both_worlds
from ndgrad._src.tensor.functions.extremum import require_elements, require_order
from ndgrad._src.tensor.functions.reduce import deliver, dims_of, ndim_of, run_along

if TYPE_CHECKING:
    from ndgrad._src.ops.table import Op
    from ndgrad._typing import Dims, Tensor

__all__ = [
    "bincount",
    "corrcoef",
    "cov",
    "histc",
    "median",
    "mode",
    "nanmedian",
    "nanquantile",
    "quantile",
    "std",
    "std_mean",
    "var",
    "var_mean",
]  # fmt: skip
METHODS = (
    "var", "std", "median", "nanmedian", "mode", "quantile", "nanquantile", "histc", "bincount", "cov", "corrcoef",
)  # fmt: skip


# ----- spread ---------------------------------------------------------------------------------------------------------


def _compute_spread(
    op: Op, input: Tensor, dim: Dims, unbiased: bool | None, keepdim: bool, correction: float | None
) -> Any:
    name = op.name
    if dim is True or dim is False:
        if unbiased is not None:
            raise TypeError(
                f"{name}(): argument 'dim' (position 2) must be an int or a tuple of ints, not bool. [nd-type]"
            )
        dim, unbiased = None, dim
    if unbiased is not None:
        if correction is not None:
            raise TypeError(
                f"{name}(): got both unbiased={unbiased} and correction={correction}, which mean the same. Give one. "
                "[nd-exclusive]"
            )
        correction = 1 if unbiased else 0
    ndim = ndim_of(input, name)
    if not is_inexact(np_dtype(input)) and not input.is_numpy_type:
        raise RuntimeError(
            f"{name}(): std and var only support floating point and complex dtypes, but the input "
            f"is {as_dtype(np_dtype(input))!r}. Convert it first: input.to(ndgrad.float64). [nd-dtype]"
        )
    dims = dims_of(dim, ndim)
    correction = 1 if correction is None else correction
    if reductions.count(input.shape, dims) <= correction:
        warnings.warn(
            (
                f"{name}(): degrees of freedom is <= 0: the correction {correction} leaves nothing of the shape "
                f"{tuple(input.shape)} over dims {dims}, and the result is not finite. Pass correction=0."
            ),
            stacklevel=4,
        )
        return op.eager(input, dim=dims, keepdim=keepdim, correction=correction, whole=dim is None)
    return op.eager(input, dim=dims, keepdim=keepdim, correction=correction)


@both_worlds
def var(
    input: Tensor,
    dim: Dims = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """The variance over `dim`: the sum of squared distances from the mean, divided by n - correction.

    Args:
        input: floating or complex tensor.
        dim: dimension or dimensions to reduce. None means all.
        unbiased: old form of `correction`: True is 1 and False is 0.
        keepdim: whether reduced dimensions stay, with size 1.
        correction: number that is subtracted from the number of elements n. None means 1.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> x = ndgrad.tensor([1.0, 2.0, 3.0, 4.0])
    >>> x.var(), x.var(correction=0)
    (tensor(1.6667), tensor(1.2500))
    """
    return deliver("var", _compute_spread(ops.var, input, dim, unbiased, keepdim, correction), out, input)


@both_worlds
def std(
    input: Tensor,
    dim: Dims = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """The standard deviation over `dim`: the root of `var`. Its gradient is 0 if there is no spread.

    Args:
        input: floating or complex tensor.
        dim: dimension or dimensions to reduce. None means all.
        unbiased: old form of `correction`: True is 1 and False is 0.
        keepdim: whether reduced dimensions stay, with size 1.
        correction: number that is subtracted from the number of elements. None means 1.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> x = ndgrad.tensor([[1.0, 3.0], [2.0, 2.0]], requires_grad=True)
    >>> s = ndgrad.std(x, dim=1, correction=0)
    >>> ndgrad.autograd.grad(s.sum(), x)[0]
    tensor([[-0.5000,  0.5000],
            [ 0.0000,  0.0000]])
    """
    return deliver("std", _compute_spread(ops.std, input, dim, unbiased, keepdim, correction), out, input)


@both_worlds
def var_mean(
    input: Tensor,
    dim: Dims = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
    out: tuple[Tensor, Tensor] | None = None,
) -> tuple[Tensor, Tensor]:
    """Variance and mean over `dim`.

    Args:
        input: floating or complex tensor.
        dim: dimension or dimensions to reduce. None means all.
        unbiased: old form of `correction`: True is 1 and False is 0.
        keepdim: whether reduced dimensions stay, with size 1.
        correction: number that is subtracted from the number of elements. None means 1.
        out: tuple of tensors that receive the results.

    >>> import ndgrad
    >>> ndgrad.var_mean(ndgrad.tensor([1.0, 2.0, 3.0]))
    (tensor(1.), tensor(2.))
    """
    return deliver("var_mean", _compute_spread(ops.var_mean, input, dim, unbiased, keepdim, correction), out, input)


@both_worlds
def std_mean(
    input: Tensor,
    dim: Dims = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
    out: tuple[Tensor, Tensor] | None = None,
) -> tuple[Tensor, Tensor]:
    """Standard deviation and mean over `dim`.

    Args:
        input: floating or complex tensor.
        dim: dimension or dimensions to reduce. None means all.
        unbiased: old form of `correction`: True is 1 and False is 0.
        keepdim: whether reduced dimensions stay, with size 1.
        correction: number that is subtracted from the number of elements. None means 1.
        out: tuple of tensors that receive the results.

    >>> import ndgrad
    >>> ndgrad.std_mean(ndgrad.tensor([1.0, 5.0]), correction=0)
    (tensor(2.), tensor(3.))
    """
    return deliver("std_mean", _compute_spread(ops.std_mean, input, dim, unbiased, keepdim, correction), out, input)


# ----- order ----------------------------------------------------------------------------------------------------------


def _select_along(
    lines: Op, name: str, input: Tensor, dim: int, keepdim: bool, out: tuple[Tensor, Tensor] | Tensor | None
) -> Any:
    ndim = ndim_of(input, name)
    require_order(name, input)
    require_elements(name, input, (as_dim(dim, ndim),) if ndim else ())
    result = getattr(return_types, name)(*run_along(lines, name, input, dim, keepdim=keepdim and ndim > 0))
    return deliver(name, result, out, input)


@overload
def median(input: Tensor, dim: None = None, keepdim: bool = False, *, out: Tensor | None = None) -> Tensor: ...


@overload
def median(
    input: Tensor, dim: int, keepdim: bool = False, *, out: tuple[Tensor, Tensor] | None = None
) -> return_types.median: ...


@both_worlds
def median(
    input: Tensor, dim: int | None = None, keepdim: bool = False, *, out: Tensor | tuple[Tensor, Tensor] | None = None
) -> Tensor | return_types.median:
    """The median, the lower of the middle two for an even number of elements; with `dim`, also its index.

    Without `dim`, elements equal to the median share its gradient; with it, the indexed element gets it.

    Args:
        input: real tensor.
        dim: dimension to reduce. None means all.
        keepdim: whether the reduced dimension stays, with size 1. It counts only with `dim`.
        out: tensor that receives the result, or with `dim` a tuple of two.

    Returns:
        One tensor, or with `dim` the values and their indices.

    >>> import ndgrad
    >>> ndgrad.median(ndgrad.tensor([4.0, 1.0, 3.0, 2.0]))
    tensor(2.)
    """
    ndim_of(input, "median")
    require_order("median", input)
    if dim is None:
        return deliver("median", ops.median_all(input), out, input)
    return _select_along(ops.median, "median", input, dim, keepdim, out)


@overload
def nanmedian(input: Tensor, dim: None = None, keepdim: bool = False, *, out: Tensor | None = None) -> Tensor: ...


@overload
def nanmedian(
    input: Tensor, dim: int, keepdim: bool = False, *, out: tuple[Tensor, Tensor] | None = None
) -> return_types.nanmedian: ...


@both_worlds
def nanmedian(
    input: Tensor, dim: int | None = None, keepdim: bool = False, *, out: Tensor | tuple[Tensor, Tensor] | None = None
) -> Tensor | return_types.nanmedian:
    """The median, ignoring NaNs; with `dim`, also its index.

    Args:
        input: real tensor.
        dim: dimension to reduce. None means all.
        keepdim: whether the reduced dimension stays, with size 1. It counts only with `dim`.
        out: tensor that receives the result, or with `dim` a tuple of two.

    Returns:
        One tensor, or with `dim` the values and their indices.

    >>> import ndgrad
    >>> ndgrad.nanmedian(ndgrad.tensor([[4.0, float("nan"), 1.0]]), dim=1).values
    tensor([1.])
    """
    ndim_of(input, "nanmedian")
    require_order("nanmedian", input)
    if dim is None:
        return deliver("nanmedian", ops.nanmedian_all(input), out, input)
    return _select_along(ops.nanmedian, "nanmedian", input, dim, keepdim, out)


@both_worlds
def mode(
    input: Tensor, dim: int = -1, keepdim: bool = False, *, out: tuple[Tensor, Tensor] | None = None
) -> return_types.mode:
    """The most frequent value along `dim`, the smallest of several, and the index of its last occurrence.

    Args:
        input: real tensor.
        dim: dimension to reduce.
        keepdim: whether reduced dimensions stay, with size 1.
        out: tuple of tensors that receive the results.

    Returns:
        The values and their indices.

    >>> import ndgrad
    >>> ndgrad.mode(ndgrad.tensor([3.0, 1.0, 3.0])).values
    tensor(3.)
    """
    return _select_along(ops.mode, "mode", input, dim, keepdim, out)


# ----- quantiles ------------------------------------------------------------------------------------------------------

_ROUNDED = {"lower": rounding.floor, "higher": rounding.ceil, "nearest": rounding.round}


def _fractions(name: str, input: Tensor, q: float | Tensor) -> Tensor:
    """Return q as a tensor in [0, 1] with the input's dtype."""
    if not isinstance(q, Variable):
        if not 0 <= q <= 1:
            raise RuntimeError(
                f"{name}() q must be in the range [0, 1] but got {q}. Divide a percentage by 100. [nd-range]"
            )
        return wrap_like(input, np.asarray(q, np_dtype(input)))
    if len(q.shape) > 1:
        raise RuntimeError(
            f"{name}() q must be a scalar or 1D tensor, but has shape {tuple(q.shape)}. Flatten it. [nd-ndim]"
        )
    if np_dtype(q) != np_dtype(input):
        raise RuntimeError(
            f"{name}() q tensor must be same dtype as the input tensor, but they are {as_dtype(np_dtype(q))!r} and "
            f"{as_dtype(np_dtype(input))!r}. Convert one with .to(). [nd-dtype-mismatch]"
        )
    return q


def _quantile(
    name: str, input: Tensor, q: float | Tensor, dim: int | None, keepdim: bool, interpolation: str, ignore_nan: bool
) -> Tensor:
    """Interpolate between the order statistics around q (n - 1), where n is the number of elements that count.

    The order statistics are picked from the input by index, so gradients go straight to those elements. The weights
    depend on q, so q has a gradient too.
    """
    _check_quantile(name, input, interpolation)
    q = _fractions(name, input, q)
    lines, kept = _as_lines(input, dim)
    last, n = len(lines.shape) - 1, lines.shape[-1]
    several = len(q.shape) == 1
    # Ranks of the quantiles (along the last dimension) in each line.
    nan = lines != lines
    top: float | Tensor = float(n - 1)
    if ignore_nan:
        top = selection.clamp_min(top - reductions.sum(nan, dim=(last,), keepdim=True, dtype=np_dtype(input)), 0.0)
    row = q.shape[0] if several else 1
    ranks = shape.expand(shape.reshape(q, shape=(1,) * last + (row,)) * top, shape=(*tuple(lines.shape)[:-1], row))
    if not ignore_nan:
        ranks = selection.where(reductions.any(nan, dim=(last,), keepdim=True), top, ranks)  # NaNs are last
    if interpolation in _ROUNDED:
        ranks = _ROUNDED[interpolation](ranks)
    order = ops.ranking(lines, dim=last)
    below = rounding.floor(shape.detach(ranks))
    result = _take_ranks(lines, order, below, last)
    if interpolation not in _ROUNDED:
        above = _take_ranks(lines, order, rounding.ceil(shape.detach(ranks)), last)
        result = arithmetic.lerp(result, above, 0.5 if interpolation == "midpoint" else ranks - below)
    # The quantiles are the first dimension of the result.
    result = shape.permute(result, dims=(last, *range(last)))
    if keepdim:
        result = shape.reshape(result, shape=(row, *kept))
    return result if several else shape.reshape(result, shape=tuple(result.shape)[1:])


def _check_quantile(name: str, input: Tensor, interpolation: str) -> None:
    ndim_of(input, name)
    if not is_floating(np_dtype(input)):
        raise RuntimeError(
            f"{name}() input tensor must be either float or double dtype, but is {as_dtype(np_dtype(input))!r}. "
            "Convert it with .to(). [nd-dtype]"
        )
    if interpolation not in ("linear", "midpoint", *_ROUNDED):
        raise RuntimeError(
            f"{name}() interpolation must be one of linear, midpoint, {', '.join(_ROUNDED)}, but got "
            f"{interpolation!r}. [nd-option]"
        )
    if math.prod(input.shape) == 0:
        raise RuntimeError(
            f"{name}() input tensor must be non-empty, but its shape is {tuple(input.shape)}. Look at numel() first. "
            "[nd-too-few]"
        )


def _as_lines(input: Tensor, dim: int | None) -> tuple[Tensor, tuple[int, ...]]:
    """Return the input with `dim` last, or flat for None, and its shape with the reduced dimensions kept."""
    sizes = tuple(input.shape)
    ndim = len(sizes)
    number = 0 if dim is None else as_dim(dim, ndim)
    if dim is None or not ndim:
        return shape.reshape(input, shape=(math.prod(sizes),)), (1,) * ndim
    lines = shape.permute(input, dims=(*(i for i in range(ndim) if i != number), number))
    return lines, (*sizes[:number], 1, *sizes[number + 1 :])


def _take_ranks(lines: Tensor, order: Tensor, ranks: Tensor, dim: int) -> Tensor:
    """Return the elements of these ranks."""
    ranks = cast.cast(ranks, dtype=np.dtype(np.int64))
    return extremum.pick_along(lines, extremum.pick_along(order, ranks, dim=dim), dim=dim)


@both_worlds
def quantile(
    input: Tensor,
    q: float | Tensor,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
    out: Tensor | None = None,
) -> Tensor:
    """The quantiles along `dim`, or of all elements. The result is NaN if an element is NaN.

    Args:
        input: floating-point tensor.
        q: fraction from 0 to 1, a number or a tensor of at most one dimension with the dtype of `input`.
        dim: dimension to reduce. None means the flattened tensor.
        keepdim: whether reduced dimensions stay, with size 1.
        interpolation: choice between two elements: `"linear"`, `"lower"`, `"higher"`, `"nearest"` or `"midpoint"`.
        out: tensor that receives the result.

    Returns:
        A tensor without `dim`. If q is a vector, its quantiles form a new first dimension.

    >>> import ndgrad
    >>> ndgrad.quantile(ndgrad.tensor([0.0, 1.0, 2.0, 3.0]), ndgrad.tensor([0.5, 0.9]))
    tensor([1.5000, 2.7000])
    """
    return deliver("quantile", _quantile("quantile", input, q, dim, keepdim, interpolation, False), out, input)


@both_worlds
def nanquantile(
    input: Tensor,
    q: float | Tensor,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
    out: Tensor | None = None,
) -> Tensor:
    """The quantiles as in `quantile`, ignoring NaNs.

    Args:
        input: floating-point tensor.
        q: fraction from 0 to 1, a number or a tensor of at most one dimension with the dtype of `input`.
        dim: dimension to reduce. None means the flattened tensor.
        keepdim: whether reduced dimensions stay, with size 1.
        interpolation: choice between two elements: `"linear"`, `"lower"`, `"higher"`, `"nearest"` or `"midpoint"`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.nanquantile(ndgrad.tensor([1.0, float("nan"), 2.0]), 0.5)
    tensor(1.5000)
    """
    return deliver("nanquantile", _quantile("nanquantile", input, q, dim, keepdim, interpolation, True), out, input)


# ----- counts ---------------------------------------------------------------------------------------------------------


def histc(input: Tensor, bins: int = 100, min: float = 0, max: float = 0, *, out: Tensor | None = None) -> Tensor:
    """Counts in equal bins between `min` and `max`, or, if those are equal, between the extremes of the input.

    Args:
        input: floating-point tensor.
        bins: number of bins.
        min: lower end of the range.
        max: upper end of the range, which belongs to the last bin.
        out: tensor that receives the result.

    Returns:
        A vector of `bins` counts in the dtype of `input`.

    >>> import ndgrad
    >>> ndgrad.histc(ndgrad.tensor([1.0, 2.0, 2.0, 5.0]), bins=4)
    tensor([1., 2., 0., 1.])
    """
    ndim_of(input, "histc")
    if not is_floating(np_dtype(input)):
        raise NotImplementedError(
            f"histc(): not implemented for {as_dtype(np_dtype(input))!r}. Convert the input to floating point first. "
            "[nd-dtype]"
        )
    if bins <= 0:
        raise RuntimeError(f"histc(): bins must be > 0, but got {bins}. [nd-range]")
    low, high = float(min), float(max)
    size = math.prod(input.shape)
    if low == high and size:
        low, high = (float(e.detach().item()) for e in (extremum.min_all(input), extremum.max_all(input)))
    if low == high:
        low, high = low - 1, high + 1
    if not (math.isfinite(low) and math.isfinite(high)):
        raise RuntimeError(f"histc(): range of [{low}, {high}] is not finite. Give min and max. [nd-range]")
    if low > high:
        raise RuntimeError(f"histc(): max must be larger than min, but they are {high} and {low}. [nd-range]")
    flat = shape.reshape(shape.detach(input), shape=(size,))
    return deliver("histc", ops.histogram(flat, bins=bins, low=low, high=high), out, input)


def _smallest(t: Tensor) -> int:
    """Return the smallest element; inside vmap, of all samples."""
    if stake_of(t) is BATCHED:
        return int(innermost_array(t).min())
    return int(extremum.min_all(t).item())


def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """The number of occurrences of each integer in a vector (or the sum of their weights), from 0 to the largest.

    Args:
        input: vector of integers, not negative.
        weights: weight of each element, added instead of 1.
        minlength: least length of the result.

    >>> import ndgrad
    >>> ndgrad.bincount(ndgrad.tensor([1, 3, 3]))
    tensor([0, 1, 0, 2])
    """
    ndim = ndim_of(input, "bincount")
    if np_dtype(input).kind not in "iu":
        raise NotImplementedError(
            f"bincount(): not implemented for {as_dtype(np_dtype(input))!r}. Convert the input to integers first. "
            "[nd-dtype]"
        )
    if ndim != 1 or (np_dtype(input).kind == "i" and input.shape[0] and _smallest(input) < 0):
        raise RuntimeError(
            f"bincount only supports 1-d non-negative integral inputs, but got shape {tuple(input.shape)}. "
            "Flatten it, or shift its values. [nd-ndim]"
        )
    if minlength < 0:
        raise RuntimeError(f"bincount: minlength should be >= 0, but is {minlength}. [nd-range]")
    if weights is not None and tuple(weights.shape) != tuple(input.shape):
        raise RuntimeError(
            "bincount: weights should be 1-d and have the same length as input, but the shapes are "
            f"{tuple(weights.shape)} and {tuple(input.shape)}. Give one weight for each element. [nd-shape]"
        )
    result = ops.bincount(input, weights, minlength=minlength)
    if weights is not None and np_dtype(weights) == np.float32:
        return cast.cast(result, dtype=np.dtype(np.float32))
    return result


# ----- covariance -----------------------------------------------------------------------------------------------------


def _weights(input: Tensor, fweights: Tensor | None, aweights: Tensor | None) -> Tensor | None:
    """Return the product of the observation weights; None if there are none."""
    observations = input.shape[1]
    for name, w in (("fweights", fweights), ("aweights", aweights)):
        if w is None:
            continue
        if len(w.shape) > 1 or math.prod(w.shape) != observations:
            raise RuntimeError(
                f"cov(): expected {name} to have one entry for each of the {observations} observations, "
                f"but got shape {tuple(w.shape)}. Give a vector of that length. [nd-shape]"
            )
        if (np_dtype(w).kind in "iu") != (name == "fweights"):
            raise RuntimeError(
                f"cov(): {name} are {as_dtype(np_dtype(w))!r}. fweights, how often each was observed, are integers, "
                "and aweights, how much each counts, floats. [nd-dtype]"
            )
    if fweights is None:
        return aweights
    fweights = cast.cast(fweights, dtype=np_dtype(input) if is_floating(np_dtype(input)) else np.dtype(float))
    return fweights if aweights is None else fweights * aweights


def cov(
    input: Tensor, *, correction: float = 1, fweights: Tensor | None = None, aweights: Tensor | None = None
) -> Tensor:
    """The covariance of variables (rows) over observations (columns), divided by n - correction.

    Args:
        input: matrix with a variable in each row, or a vector of one variable.
        correction: number that is subtracted from the number of observations.
        fweights: integers that tell how often each observation counts.
        aweights: importance of each observation, floats.

    >>> import ndgrad
    >>> ndgrad.cov(ndgrad.tensor([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]))
    tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    ndim = ndim_of(input, "cov")
    if ndim > 2:
        raise RuntimeError(
            f"cov(): expected input to have two or fewer dimensions but got an input with {ndim} dimensions. "
            "Flatten some. [nd-ndim]"
        )
    x = shape.reshape(input, shape=(1, math.prod(input.shape))) if ndim < 2 else input
    if not is_inexact(np_dtype(x)):
        x = cast.cast(x, dtype=np.dtype(float) if x.is_numpy_type else get_default_dtype().numpy)
    if aweights is not None and is_floating(np_dtype(aweights)):
        both = result_dtype(np_dtype(x), np_dtype(aweights))
        x, aweights = cast.cast(x, dtype=both), cast.cast(aweights, dtype=real_dtype(both))
    weights = _weights(x, fweights, aweights)
    if weights is None:
        mean = reductions.mean(x, dim=(1,), keepdim=True)
        left: float | Tensor = max(x.shape[1] - correction, 0)
        centred = x - mean
        weighted = centred
    else:
        total = reductions.sum_all(weights)
        mean = reductions.sum(x * weights, dim=(1,), keepdim=True) / total
        taken = correction if aweights is None else correction * reductions.sum_all(weights * aweights) / total
        left = selection.clamp_min(total - taken, 0.0)
        centred = x - mean
        weighted = centred * weights
    transposed = shape.permute(weighted, dims=(1, 0))
    if np_dtype(x).kind == "c":
        transposed = transposed.conj()
    result = product.matmul(centred, transposed) / left
    return result if ndim == 2 and x.shape[0] != 1 else shape.reshape(result, shape=())


def corrcoef(input: Tensor) -> Tensor:
    """The correlation of variables (rows) over observations (columns).

    Args:
        input: matrix with a variable in each row, or a vector of one variable.

    >>> import ndgrad
    >>> ndgrad.corrcoef(ndgrad.tensor([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]))
    tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    if ndim_of(input, "corrcoef") > 2:
        raise RuntimeError(
            f"corrcoef(): expected input to have two or fewer dimensions, but got shape {tuple(input.shape)}. "
            "Flatten some. [nd-ndim]"
        )
    c = cov(input)
    if not len(c.shape):
        return c / c
    complex_ = np_dtype(c).kind == "c"
    variance = c.diagonal()
    deviation = arithmetic.sqrt(variance.real if complex_ else variance)
    n = deviation.shape[0]
    c = c / shape.reshape(deviation, shape=(n, 1)) / shape.reshape(deviation, shape=(1, n))
    return c if complex_ else selection.clamp(c, -1.0, 1.0)
