"""Reductions and normalisations over the elements selected by a mask, as in torch.masked.

Masked-out elements are replaced by a neutral value (0 in a sum, -inf in a maximum), and the plain function does the
rest; so they get no gradient. Without a mask the result is that of the plain function. A mask is broadcast to the
input.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.arrays.dtypes import as_dtype, as_numpy_dtype, get_default_dtype
from ndgrad._src.arrays.precision import is_floating, is_inexact
from ndgrad._src.core.variable import innermost_array, np_dtype
from ndgrad._src.ops import arithmetic, cast, comparison, exponential, selection
from ndgrad._src.ops import complex as complex_ops
from ndgrad._src.ops import reduce as reduce_ops
from ndgrad._src.ops import statistics as statistics_ops
from ndgrad._src.tensor.arguments import as_dim
from ndgrad._src.tensor.functions import extremum, reduce, scan, statistics
from ndgrad._src.tensor.functions import norm as norms
from ndgrad._src.tensor.functions.elementwise import where
from ndgrad._src.tensor.functions.reduce import dims_of, ndim_of, run_along
from ndgrad._src.tensor.functions.shape import broadcast_to

if TYPE_CHECKING:
    from ndgrad._typing import Dims, Dtype, Tensor

__all__ = [
    "amax", "amin", "argmax", "argmin", "cumprod", "cumsum", "log_softmax", "logaddexp", "logsumexp", "mean", "median",
    "norm", "normalize", "prod", "softmax", "softmin", "std", "sum", "var",
]  # fmt: skip


def _prepare(name: str, input: Tensor, dtype: Dtype, mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Return the input in its dtype, and the mask expanded to its shape."""
    ndim = ndim_of(input, f"masked.{name}")
    if dtype is not None and as_numpy_dtype(dtype) != np_dtype(input):
        input = cast.cast(input, dtype=as_numpy_dtype(dtype))
    if mask is None:
        return input, None
    if ndim_of(mask, f"masked.{name}") > ndim:
        raise IndexError(
            f"masked.{name}: expected a mask that can be broadcast to the input (got mask dimensionality higher than "
            "of the input: shapes "
            f"{tuple(mask.shape)} and {tuple(input.shape)}). Leave out leading dimensions. [nd-index]"
        )
    if np_dtype(mask).kind != "b":
        mask = comparison.ne(mask, 0)
    return input, broadcast_to(mask, tuple(input.shape)) if tuple(mask.shape) != tuple(input.shape) else mask


def _fill_masked(input: Tensor, mask: Tensor | None, value: Any) -> Tensor:
    return input if mask is None else where(mask, input, value)


def _lowest(input: Tensor) -> Any:
    dtype = np_dtype(input)
    return -math.inf if is_inexact(dtype) else False if dtype.kind == "b" else int(np.iinfo(dtype).min)


def _highest(input: Tensor) -> Any:
    dtype = np_dtype(input)
    return math.inf if is_inexact(dtype) else True if dtype.kind == "b" else int(np.iinfo(dtype).max)


def _require_inexact(name: str, input: Tensor) -> None:
    if not is_inexact(np_dtype(input)):
        raise ValueError(
            f"{name}(): Could not infer output dtype. Input dtype must be either a floating point or complex dtype. "
            "Got: "
            f"{as_dtype(np_dtype(input))!r}. Pass dtype=. [nd-dtype]"
        )


def _as_floating(input: Tensor) -> Tensor:
    return input if is_inexact(np_dtype(input)) else cast.cast(input, dtype=get_default_dtype().numpy)


def _count(input: Tensor, mask: Tensor | None, dims: tuple[int, ...], keepdim: bool) -> Any:
    """Return the number of elements in each result."""
    if mask is None:
        return reduce_ops.count(tuple(input.shape), dims)
    dtype = np_dtype(input)
    real = np.empty(0, dtype).real.dtype if dtype.kind == "c" else dtype
    return reduce_ops.sum(cast.cast(mask, dtype=real), dim=dims, keepdim=keepdim)


def _like_input(result: Tensor, input: Tensor) -> Tensor:
    """Return a result in the dtype of the input, as torch's functions do."""
    wanted = np_dtype(input)
    return result if np_dtype(result) == wanted else cast.cast(result, dtype=wanted)


# ----- reductions -----------------------------------------------------------------------------------------------------


def sum(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: Dtype = None, mask: Tensor | None = None
) -> Tensor:
    """The sum over `dim` of the unmasked elements.

    Args:
        input: input tensor.
        dim: dimension or dimensions to reduce. The default is all of them.
        keepdim: whether reduced dimensions stay, with size 1.
        dtype: dtype to which `input` is converted first.
        mask: condition that broadcasts to `input`. False leaves an element out. None keeps all.

    >>> import ndgrad
    >>> ndgrad.masked.sum(ndgrad.tensor([1.0, 2.0, 3.0]), 0, mask=ndgrad.tensor([True, False, True]))
    tensor(4.)
    """
    input, mask = _prepare("sum", input, dtype, mask)
    return reduce.sum(_fill_masked(input, mask, 0), dim, keepdim, dtype=dtype)


def prod(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: Dtype = None, mask: Tensor | None = None
) -> Tensor:
    """The product over `dim` of the unmasked elements.

    Args:
        input: input tensor.
        dim: dimension or dimensions to reduce. The default is all of them.
        keepdim: whether reduced dimensions stay, with size 1.
        dtype: dtype to which `input` is converted first.
        mask: condition that broadcasts to `input`. False leaves an element out. None keeps all.

    >>> import ndgrad
    >>> ndgrad.masked.prod(ndgrad.tensor([2.0, 5.0, 3.0]), 0, mask=ndgrad.tensor([True, False, True]))
    tensor(6.)
    """
    input, mask = _prepare("prod", input, dtype, mask)
    result = _fill_masked(input, mask, 1)
    for d in sorted(dims_of(dim, result.ndim), reverse=True):
        result = reduce.prod(result, d, keepdim, dtype=dtype)
    return result if input.ndim else reduce.prod(result, dtype=dtype)


def amax(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: Dtype = None, mask: Tensor | None = None
) -> Tensor:
    """The largest unmasked element over `dim`; the lowest number of the dtype if there is none.

    Args:
        input: input tensor.
        dim: dimension or dimensions to reduce. The default is all of them.
        keepdim: whether reduced dimensions stay, with size 1.
        dtype: dtype to which `input` is converted first.
        mask: condition that broadcasts to `input`. False leaves an element out. None keeps all.

    >>> import ndgrad
    >>> ndgrad.masked.amax(ndgrad.tensor([2.0, 5.0, 3.0]), 0, mask=ndgrad.tensor([True, False, True]))
    tensor(3.)
    """
    input, mask = _prepare("amax", input, dtype, mask)
    return extremum.amax(_fill_masked(input, mask, _lowest(input)), () if dim is None else dim, keepdim)


def amin(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: Dtype = None, mask: Tensor | None = None
) -> Tensor:
    """The smallest unmasked element over `dim`; the largest number of the dtype if there is none.

    Args:
        input: input tensor.
        dim: dimension or dimensions to reduce. The default is all of them.
        keepdim: whether reduced dimensions stay, with size 1.
        dtype: dtype to which `input` is converted first.
        mask: condition that broadcasts to `input`. False leaves an element out. None keeps all.

    >>> import ndgrad
    >>> ndgrad.masked.amin(ndgrad.tensor([2.0, 1.0, 3.0]), 0, mask=ndgrad.tensor([True, False, True]))
    tensor(2.)
    """
    input, mask = _prepare("amin", input, dtype, mask)
    return extremum.amin(_fill_masked(input, mask, _highest(input)), () if dim is None else dim, keepdim)


def argmax(
    input: Tensor, dim: int | None = None, *, keepdim: bool = False, dtype: Dtype = None, mask: Tensor | None = None
) -> Tensor:
    """The index of the largest unmasked element, in the dtype of the input, as in torch.

    Args:
        input: input tensor.
        dim: dimension to reduce. The default is all of them, and the index counts the elements in order.
        keepdim: whether reduced dimensions stay, with size 1.
        dtype: dtype to which `input` is converted first.
        mask: condition that broadcasts to `input`. False leaves an element out. None keeps all.

    >>> import ndgrad
    >>> ndgrad.masked.argmax(ndgrad.tensor([2.0, 5.0, 3.0]), 0, mask=ndgrad.tensor([True, False, True]))
    tensor(2.)
    """
    input, mask = _prepare("argmax", input, dtype, mask)
    return _like_input(extremum.argmax(_fill_masked(input, mask, _lowest(input)), dim, keepdim), input)


def argmin(
    input: Tensor, dim: int | None = None, *, keepdim: bool = False, dtype: Dtype = None, mask: Tensor | None = None
) -> Tensor:
    """The index of the smallest unmasked element, in the dtype of the input, as in torch.

    Args:
        input: input tensor.
        dim: dimension to reduce. The default is all of them, and the index counts the elements in order.
        keepdim: whether reduced dimensions stay, with size 1.
        dtype: dtype to which `input` is converted first.
        mask: condition that broadcasts to `input`. False leaves an element out. None keeps all.

    >>> import ndgrad
    >>> ndgrad.masked.argmin(ndgrad.tensor([2.0, 1.0, 3.0]), 0, mask=ndgrad.tensor([True, False, True]))
    tensor(0.)
    """
    input, mask = _prepare("argmin", input, dtype, mask)
    return _like_input(extremum.argmin(_fill_masked(input, mask, _highest(input)), dim, keepdim), input)


def mean(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: Dtype = None, mask: Tensor | None = None
) -> Tensor:
    """The mean over `dim` of the unmasked elements; NaN if there are none.

    Args:
        input: floating or complex tensor, unless `dtype` is one.
        dim: dimension or dimensions to reduce. The default is all of them.
        keepdim: whether reduced dimensions stay, with size 1.
        dtype: dtype to which `input` is converted first.
        mask: condition that broadcasts to `input`. False leaves an element out. None keeps all.

    >>> import ndgrad
    >>> ndgrad.masked.mean(ndgrad.tensor([1.0, 5.0, 3.0]), 0, mask=ndgrad.tensor([True, False, True]))
    tensor(2.)
    """
    input, mask = _prepare("mean", input, dtype, mask)
    _require_inexact("mean", input)
    if mask is None:
        return reduce.mean(input, dim, keepdim)
    dims = dims_of(dim, input.ndim)
    return reduce_ops.sum(_fill_masked(input, mask, 0), dim=dims, keepdim=keepdim) / _count(input, mask, dims, keepdim)


def median(
    input: Tensor, dim: int = -1, *, keepdim: bool = False, dtype: Dtype = None, mask: Tensor | None = None
) -> Tensor:
    """The median along `dim` of the unmasked elements: the lower of the middle two for an even number.

    Args:
        input: input tensor.
        dim: dimension to reduce.
        keepdim: whether reduced dimensions stay, with size 1.
        dtype: dtype to which `input` is converted first.
        mask: condition that broadcasts to `input`. False leaves an element out. None keeps all.

    >>> import ndgrad
    >>> ndgrad.masked.median(ndgrad.tensor([1.0, 9.0, 3.0, 5.0]), 0, mask=ndgrad.tensor([True, False, True, True]))
    tensor(3.)
    """
    input, mask = _prepare("median", input, dtype, mask)
    if mask is None:
        return statistics.median(input, dim, keepdim).values
    own = np_dtype(input)
    if not is_floating(own):
        kept = innermost_array(reduce.any(mask, as_dim(dim, input.ndim)))
        if not kept.all():
            raise ValueError(
                f"masked.median: a line of integers ({as_dtype(own)!r}) without unmasked elements has no median, "
                "and integers have no NaN. "
                "Convert the input to floating point. [nd-values]"
            )
        input = cast.cast(input, dtype=np.dtype(np.float64))
    lines = where(mask, input, math.nan)
    keep = keepdim and input.ndim > 0
    values = run_along(statistics_ops.nanmedian, "median", lines, dim, keepdim=keep)[0]
    return values if np_dtype(values) == own else cast.cast(values, dtype=own)


def norm(
    input: Tensor,
    ord: float | None = 2.0,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: Dtype = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The vector norm over `dim` of the unmasked elements.

    Args:
        input: floating or complex tensor.
        ord: order of the norm, as in `linalg.vector_norm`.
        dim: dimension or dimensions to reduce. The default is all of them.
        keepdim: whether reduced dimensions stay, with size 1.
        dtype: dtype to which `input` is converted first.
        mask: condition that broadcasts to `input`. False leaves an element out. None keeps all.

    >>> import ndgrad
    >>> ndgrad.masked.norm(ndgrad.tensor([3.0, 7.0, 4.0]), 2.0, 0, mask=ndgrad.tensor([True, False, True]))
    tensor(5.)
    """
    input, mask = _prepare("norm", input, dtype, mask)
    if not isinstance(ord, (int, float)):
        raise TypeError(f"masked.norm: ord must be a number, but is {ord!r}. Give the power. [nd-type]")
    filled = _fill_masked(input, mask, math.inf if ord < 0 else 0)
    return norms.vector_norm(filled, ord, None if dim == () else dim, keepdim)


def _variance(
    name: str, input: Tensor, dim: Dims, unbiased: bool | None, correction: float | None, keepdim: bool, mask: Any
) -> Tensor:
    if unbiased is not None and correction is not None:
        raise ValueError(
            f"masked.{name}: got both unbiased={unbiased} and correction={correction}, which mean the same. Give one. "
            "[nd-exclusive]"
        )
    taken = correction if correction is not None else 1 if unbiased is None or unbiased else 0
    dims = dims_of(dim, input.ndim)
    if mask is None:
        return (
            statistics.var(input, dims, correction=taken, keepdim=keepdim)
            if dims
            else statistics.var(input, correction=taken)
        )
    count = _count(input, mask, dims, True)
    centre = reduce_ops.sum(_fill_masked(input, mask, 0), dim=dims, keepdim=True) / count
    apart = where(mask, input - centre, 0)
    squares = arithmetic.square(complex_ops.abs(apart)) if np_dtype(apart).kind == "c" else apart * apart
    left = selection.clamp_min(count - taken, 0)
    total = reduce_ops.sum(squares, dim=dims, keepdim=True) / left
    return total if keepdim else reduce_ops.sum(total, dim=dims)


def var(
    input: Tensor,
    dim: Dims = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    dtype: Dtype = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The variance over `dim` of the unmasked elements, divided by their number minus the correction (1 by
    default).

    Args:
        input: input tensor.
        dim: dimension or dimensions to reduce. The default is all of them.
        unbiased: old form of `correction`: True is 1 and False is 0.
        correction: number that is subtracted from the number of elements before the division. None means 1.
        keepdim: whether reduced dimensions stay, with size 1.
        dtype: dtype to which `input` is converted first.
        mask: condition that broadcasts to `input`. False leaves an element out. None keeps all.

    >>> import ndgrad
    >>> ndgrad.masked.var(ndgrad.tensor([1.0, 9.0, 3.0]), 0, mask=ndgrad.tensor([True, False, True]))
    tensor(2.)
    """
    input, mask = _prepare("var", input, dtype, mask)
    input = _as_floating(input)
    return _like_input(_variance("var", input, dim, unbiased, correction, keepdim, mask), input)


def std(
    input: Tensor,
    dim: Dims = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    dtype: Dtype = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The standard deviation over `dim` of the unmasked elements.

    Args:
        input: input tensor.
        dim: dimension or dimensions to reduce. The default is all of them.
        unbiased: old form of `correction`: True is 1 and False is 0.
        correction: number that is subtracted from the number of elements before the division. None means 1.
        keepdim: whether reduced dimensions stay, with size 1.
        dtype: dtype to which `input` is converted first.
        mask: condition that broadcasts to `input`. False leaves an element out. None keeps all.

    >>> import ndgrad
    >>> ndgrad.masked.std(ndgrad.tensor([1.0, 9.0, 5.0]), 0, False, mask=ndgrad.tensor([True, False, True]))
    tensor(2.)
    """
    input, mask = _prepare("std", input, dtype, mask)
    input = _as_floating(input)
    return _like_input(arithmetic.sqrt(_variance("std", input, dim, unbiased, correction, keepdim, mask)), input)


def logsumexp(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: Dtype = None, mask: Tensor | None = None
) -> Tensor:
    """Return log(sum(exp(input))) over `dim` of the unmasked elements; -inf if there are none.

    Args:
        input: input tensor.
        dim: dimension or dimensions to reduce. The default is all of them.
        keepdim: whether reduced dimensions stay, with size 1.
        dtype: dtype to which `input` is converted first.
        mask: condition that broadcasts to `input`. False leaves an element out. None keeps all.

    >>> import ndgrad
    >>> ndgrad.masked.logsumexp(ndgrad.tensor([0.0, 9.0, 0.0]), 0, mask=ndgrad.tensor([True, False, True]))
    tensor(0.6931)
    """
    input, mask = _prepare("logsumexp", input, dtype, mask)
    result = reduce.logsumexp(_fill_masked(input, mask, _lowest(input)), dims_of(dim, input.ndim), keepdim)
    return _like_input(result, input)


# ----- results of the same shape --------------------------------------------------------------------------------------


def softmax(input: Tensor, dim: int, *, dtype: Dtype = None, mask: Tensor | None = None) -> Tensor:
    """Return `softmax` along `dim` of the unmasked elements; 0 for masked-out ones, NaN if all are masked out.

    Args:
        input: input tensor.
        dim: dimension of the sum.
        dtype: dtype to which `input` is converted first.
        mask: condition that broadcasts to `input`. False leaves an element out. None keeps all.

    >>> import ndgrad
    >>> ndgrad.masked.softmax(ndgrad.tensor([1.0, 9.0, 1.0]), 0, mask=ndgrad.tensor([True, False, True]))
    tensor([0.5000, 0.0000, 0.5000])
    """
    input, mask = _prepare("softmax", input, dtype, mask)
    return reduce.softmax(_fill_masked(input, mask, _lowest(input)), dim)


def log_softmax(input: Tensor, dim: int, *, dtype: Dtype = None, mask: Tensor | None = None) -> Tensor:
    """The logarithm of `softmax`.

    Args:
        input: input tensor.
        dim: dimension of the sum.
        dtype: dtype to which `input` is converted first.
        mask: condition that broadcasts to `input`. False leaves an element out. None keeps all.

    >>> import ndgrad
    >>> ndgrad.masked.log_softmax(ndgrad.tensor([1.0, 9.0, 1.0]), 0, mask=ndgrad.tensor([True, False, True]))
    tensor([-0.6931,    -inf, -0.6931])
    """
    input, mask = _prepare("log_softmax", input, dtype, mask)
    return reduce.log_softmax(_fill_masked(input, mask, _lowest(input)), dim)


def softmin(input: Tensor, dim: int, *, dtype: Dtype = None, mask: Tensor | None = None) -> Tensor:
    """`softmax` of the negative input.

    Args:
        input: input tensor.
        dim: dimension of the sum.
        dtype: dtype to which `input` is converted first.
        mask: condition that broadcasts to `input`. False leaves an element out. None keeps all.

    >>> import ndgrad
    >>> ndgrad.masked.softmin(ndgrad.tensor([1.0, 0.0, 1.0]), 0, mask=ndgrad.tensor([True, False, True]))
    tensor([0.5000, 0.0000, 0.5000])
    """
    input, mask = _prepare("softmin", input, dtype, mask)
    return reduce.softmax(-_fill_masked(input, mask, _highest(input)), dim)


def normalize(
    input: Tensor, ord: float, dim: int, *, eps: float = 1e-12, dtype: Dtype = None, mask: Tensor | None = None
) -> Tensor:
    """Divide the unmasked elements by their norm along `dim` (at least eps); 0 for masked-out ones.

    Args:
        input: floating or complex tensor.
        ord: order of the norm, as in `linalg.vector_norm`.
        dim: dimension of the vectors.
        eps: smallest divisor.
        dtype: dtype to which `input` is converted first.
        mask: condition that broadcasts to `input`. False leaves an element out. None keeps all.

    >>> import ndgrad
    >>> ndgrad.masked.normalize(ndgrad.tensor([3.0, 9.0, 4.0]), 2.0, 0, mask=ndgrad.tensor([True, False, True]))
    tensor([0.6000, 0.0000, 0.8000])
    """
    input, mask = _prepare("normalize", input, dtype, mask)
    size = norm(input, ord, dim, keepdim=True, mask=mask)
    return _fill_masked(input, mask, 0) / selection.clamp_min(size, eps)


def cumsum(input: Tensor, dim: int, *, dtype: Dtype = None, mask: Tensor | None = None) -> Tensor:
    """The running sum along `dim` of the unmasked elements.

    Args:
        input: input tensor.
        dim: dimension along which elements are added.
        dtype: dtype to which `input` is converted first.
        mask: condition that broadcasts to `input`. False leaves an element out. None keeps all.

    >>> import ndgrad
    >>> ndgrad.masked.cumsum(ndgrad.tensor([1.0, 9.0, 3.0]), 0, mask=ndgrad.tensor([True, False, True]))
    tensor([1., 1., 4.])
    """
    input, mask = _prepare("cumsum", input, dtype, mask)
    return scan.cumsum(_fill_masked(input, mask, 0), dim, dtype=dtype)


def cumprod(input: Tensor, dim: int, *, dtype: Dtype = None, mask: Tensor | None = None) -> Tensor:
    """The running product along `dim` of the unmasked elements.

    Args:
        input: input tensor.
        dim: dimension along which elements are multiplied.
        dtype: dtype to which `input` is converted first.
        mask: condition that broadcasts to `input`. False leaves an element out. None keeps all.

    >>> import ndgrad
    >>> ndgrad.masked.cumprod(ndgrad.tensor([2.0, 9.0, 3.0]), 0, mask=ndgrad.tensor([True, False, True]))
    tensor([2., 2., 6.])
    """
    input, mask = _prepare("cumprod", input, dtype, mask)
    return scan.cumprod(_fill_masked(input, mask, 1), dim, dtype=dtype)


def logaddexp(
    input: Tensor,
    other: Tensor,
    *,
    dtype: Dtype = None,
    input_mask: Tensor | None = None,
    other_mask: Tensor | None = None,
) -> Tensor:
    """Return log(exp(input) + exp(other)), where masked-out elements count as -inf.

    Args:
        input: first terms.
        other: second terms, of the same shape as `input`.
        dtype: dtype to which both are converted first.
        input_mask: condition that broadcasts to `input`. False leaves an element out. None keeps all.
        other_mask: the same for `other`.

    >>> import ndgrad
    >>> ndgrad.masked.logaddexp(ndgrad.zeros(1), ndgrad.zeros(1), other_mask=ndgrad.tensor([False]))
    tensor([0.])
    """
    if tuple(input.shape) != tuple(other.shape):
        raise ValueError(
            f"masked.logaddexp: the shapes must agree, but are {tuple(input.shape)} and {tuple(other.shape)}. "
            "[nd-shape]"
        )
    input, input_mask = _prepare("logaddexp", input, dtype, input_mask)
    other, other_mask = _prepare("logaddexp", other, dtype, other_mask)
    left, right = _fill_masked(input, input_mask, -math.inf), _fill_masked(other, other_mask, -math.inf)
    return exponential.logaddexp(left, right)
