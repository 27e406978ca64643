"""Reductions under torch's names, and parsing of their arguments.

Sums and means end almost every program that is differentiated, so the path from `x.sum()` to the op is short: a test
or two, and no wrapper if no keyword is given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ndgrad._src.arrays.dtypes import as_dtype, as_numpy_dtype, get_default_dtype
from ndgrad._src.arrays.precision import is_floating, is_inexact
from ndgrad._src.core.out_argument import copy_into, refuse_out
from ndgrad._src.core.variable import np_dtype
from ndgrad._src.ops import cast, shape
from ndgrad._src.ops import reduce as ops
from ndgrad._src.ops import softmax as softmax_ops
from ndgrad._src.tensor.arguments import as_dim, as_dims, both_worlds

if TYPE_CHECKING:
    from ndgrad._src.ops.table import Op
    from ndgrad._typing import Dims, Dtype, Tensor, TensorLike, Tensors

Result = TypeVar("Result")

__all__ = [
    "sum", "mean", "prod", "nansum", "nanmean", "all", "any", "count_nonzero", "logsumexp", "softmax", "log_softmax",
]  # fmt: skip
METHODS = (
    "sum", "mean", "prod", "nansum", "nanmean", "all", "any", "count_nonzero", "logsumexp", "softmax", "log_softmax",
)  # fmt: skip

# ----- arguments ------------------------------------------------------------------------------------------------------

#: Tuples of all dimensions by their number, and tuples of one dimension.
_EVERY = tuple(tuple(range(n)) for n in range(65))
_ONE = tuple((n,) for n in range(64))

_INT64 = np.dtype(np.int64)


def ndim_of(input: Tensor, name: str) -> int:
    """Return the number of dimensions of a tensor; raise for other objects."""
    try:
        meta = input._meta
    except AttributeError:
        raise TypeError(
            f"{name}(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}. "
            "Wrap it in ndgrad.as_tensor(...). [nd-type]"
        ) from None
    if meta is None or not meta.batch_level:
        n: int = input._array.ndim
        return n
    return len(input.shape)


def dims_of(dim: Dims, ndim: int) -> tuple[int, ...]:
    """Return the dimensions to reduce: all of them for None and, as in torch, for an empty tuple."""
    if dim.__class__ is int and -ndim <= dim < ndim:
        return _ONE[dim % ndim]
    if dim is None or dim == ():
        return _EVERY[ndim]
    return as_dims(dim, ndim) or _EVERY[ndim]


def sum_dtype(input: Tensor, dtype: Dtype) -> np.dtype[Any] | None:
    """Return the dtype of a sum or product: as in NumPy, except that torch sums unsigned integers as int64."""
    if dtype is not None:
        return as_numpy_dtype(dtype)
    return _INT64 if np_dtype(input).kind == "u" and not input.is_numpy_type else None


def deliver(name: str, result: Result, out: Tensor | Tensors | None, *inputs: TensorLike | None) -> Result:
    """Return the result, or write it into `out` and return that."""
    if out is None:
        return result
    outs = out if isinstance(out, (tuple, list)) else (out,)
    refuse_out(name, *inputs, *outs)
    if not isinstance(result, tuple):
        return copy_into(name, out, result)  # type: ignore[return-value,arg-type]  # one result, one out
    if len(outs) != len(result):
        raise TypeError(
            f"{name}(): out= must be {len(result)} tensors, one for each result, but is {len(outs)}. "
            "Pass a tuple of them. [nd-out]"
        )
    copied = [copy_into(name, o, r) for o, r in zip(outs, result)]
    made: Any = type(result)(*copied) if hasattr(result, "_fields") else tuple(copied)
    return made


def run_along(op: Op, name: str, input: Tensor, dim: int, **settings: Any) -> Any:
    """Run an op that works along one dimension. A 0-d tensor is treated as a vector of one element."""
    ndim = ndim_of(input, name)
    if dim.__class__ is int and -ndim <= dim < ndim:
        return op.eager(input, dim=dim % ndim, **settings)
    number = as_dim(dim, ndim)
    if ndim:
        return op(input, dim=number, **settings)
    result = op(shape.reshape(input, shape=(1,)), dim=0, **settings)
    if op.outputs == 1:
        return shape.reshape(result, shape=())
    return tuple(shape.reshape(r, shape=()) for r in result)


def require_inexact(name: str, input: Tensor, error: type[Exception] = RuntimeError) -> None:
    """Raise, as torch does, for an integer tensor if the result is fractional; for an `Array`, NumPy
    computes in float64."""
    if not is_inexact(np_dtype(input)) and not input.is_numpy_type:
        raise error(
            f"{name}(): input must be of a floating point or complex dtype, but is {as_dtype(np_dtype(input))!r}. "
            "Convert it first: input.to(ndgrad.float64). [nd-dtype]"
        )


# ----- sums and products ----------------------------------------------------------------------------------------------


@both_worlds
def sum(
    input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: Dtype = None, out: Tensor | None = None
) -> Tensor:
    """The sum of all elements, or over `dim` (an int or several).

    Args:
        input: tensor of any dtype.
        dim: dimension or dimensions to add over. None and an empty tuple mean all.
        keepdim: whether reduced dimensions stay, with size 1.
        dtype: dtype of the sum and of the result. The default is that of `input`, and int64 for integers and bool.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> x = ndgrad.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> x.sum(), x.sum(dim=0), x.sum(dim=1, keepdim=True).shape
    (tensor(10.), tensor([4., 6.]), ndgrad.Size([2, 1]))
    """
    ndim = ndim_of(input, "sum")
    dtype = sum_dtype(input, dtype)
    if dim is None and not keepdim:
        result = ops.sum_all.eager(input, dtype=dtype)
    else:
        result = ops.sum.eager(input, dim=dims_of(dim, ndim), keepdim=keepdim, dtype=dtype)
    return result if out is None else deliver("sum", result, out, input)


@both_worlds
def mean(
    input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: Dtype = None, out: Tensor | None = None
) -> Tensor:
    """The mean of all elements, or over `dim`.

    Args:
        input: floating or complex tensor, unless `dtype` is one.
        dim: dimension or dimensions to average over. None and an empty tuple mean all.
        keepdim: whether reduced dimensions stay, with size 1.
        dtype: dtype of the computation and of the result.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.mean(ndgrad.tensor([[1.0, 2.0], [3.0, 6.0]]), dim=1)
    tensor([1.5000, 4.5000])
    """
    ndim = ndim_of(input, "mean")
    if dtype is None:
        require_inexact("mean", input)
    else:
        dtype = as_numpy_dtype(dtype)
    if dim is None and not keepdim:
        result = ops.mean_all.eager(input, dtype=dtype)
    else:
        result = ops.mean.eager(input, dim=dims_of(dim, ndim), keepdim=keepdim, dtype=dtype)
    return result if out is None else deliver("mean", result, out, input)


@both_worlds
def prod(
    input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: Dtype = None, out: Tensor | None = None
) -> Tensor:
    """The product of all elements, or over `dim`; its gradient is exact where factors are zero.

    Args:
        input: tensor of any dtype.
        dim: dimension or dimensions to multiply over. None and an empty tuple mean all.
        keepdim: whether reduced dimensions stay, with size 1.
        dtype: dtype of the product and of the result. The default is that of `input`, and int64 for integers and bool.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> x = ndgrad.tensor([0.0, 2.0, 3.0], requires_grad=True)
    >>> x.prod().backward()
    >>> x.grad
    tensor([6., 0., 0.])
    """
    ndim = ndim_of(input, "prod")
    dtype = sum_dtype(input, dtype)
    if dim is None and not keepdim:
        result = ops.prod_all.eager(input, dtype=dtype)
    else:
        result = ops.prod.eager(input, dim=dims_of(dim, ndim), keepdim=keepdim, dtype=dtype)
    return deliver("prod", result, out, input)


@both_worlds
def nansum(
    input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: Dtype = None, out: Tensor | None = None
) -> Tensor:
    """The sum over `dim`, where NaNs count as 0 and get no gradient.

    Args:
        input: tensor of any dtype.
        dim: dimension or dimensions to add over. None and an empty tuple mean all.
        keepdim: whether reduced dimensions stay, with size 1.
        dtype: dtype of the sum and of the result. The default is that of `input`, and int64 for integers and bool.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.nansum(ndgrad.tensor([1.0, float("nan"), 2.0]))
    tensor(3.)
    """
    ndim = ndim_of(input, "nansum")
    if not is_inexact(np_dtype(input)):
        return sum(input, dim, keepdim, dtype=dtype, out=out)
    return deliver(
        "nansum", ops.nansum(input, dim=dims_of(dim, ndim), keepdim=keepdim, dtype=sum_dtype(input, dtype)), out, input
    )


@both_worlds
def nanmean(
    input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: Dtype = None, out: Tensor | None = None
) -> Tensor:
    """The mean over `dim`, ignoring NaNs.

    Args:
        input: floating or complex tensor.
        dim: dimension or dimensions to average over. None and an empty tuple mean all.
        keepdim: whether reduced dimensions stay, with size 1.
        dtype: dtype of the computation and of the result.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.nanmean(ndgrad.tensor([1.0, float("nan"), 2.0]))
    tensor(1.5000)
    """
    dims = dims_of(dim, ndim_of(input, "nanmean"))
    require_inexact("nanmean", input)
    total = ops.nansum(input, dim=dims, keepdim=keepdim, dtype=None if dtype is None else as_numpy_dtype(dtype))
    numbers = ops.sum(input == input, dim=dims, keepdim=keepdim, dtype=np_dtype(total))
    return deliver("nanmean", total / numbers, out, input)


# ----- truth and counts -----------------------------------------------------------------------------------------------


def _reduce_truth(op: Op, input: Tensor, dim: Dims, keepdim: bool, out: Tensor | None) -> Tensor:
    ndim = ndim_of(input, op.name)
    result = op(input, dim=_EVERY[ndim] if dim is None else as_dims(dim, ndim), keepdim=keepdim)
    # As in torch, whose masks were uint8 before they were bool.
    if np_dtype(input) == np.uint8 and not input.is_numpy_type:
        result = cast.cast(result, dtype=np.dtype(np.uint8))
    return deliver(op.name, result, out)


@both_worlds
def all(input: Tensor, dim: Dims = None, keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    """True if all elements (along `dim`) are nonzero. With dim=(), each element is tested.

    Args:
        input: tensor of any dtype.
        dim: dimension or dimensions to reduce. None means all.
        keepdim: whether reduced dimensions stay, with size 1.
        out: tensor that receives the result.

    Returns:
        A bool tensor, or uint8 for a uint8 input.

    >>> import ndgrad
    >>> ndgrad.all(ndgrad.tensor([[True, False], [True, True]]), dim=1)
    tensor([False,  True])
    """
    return _reduce_truth(ops.all, input, dim, keepdim, out)


@both_worlds
def any(input: Tensor, dim: Dims = None, keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    """True if some element (along `dim`) is nonzero. With dim=(), each element is tested.

    Args:
        input: tensor of any dtype.
        dim: dimension or dimensions to reduce. None means all.
        keepdim: whether reduced dimensions stay, with size 1.
        out: tensor that receives the result.

    Returns:
        A bool tensor, or uint8 for a uint8 input.

    >>> import ndgrad
    >>> ndgrad.any(ndgrad.tensor([[0.0, 0.0], [0.0, 2.0]]), dim=1)
    tensor([False,  True])
    """
    return _reduce_truth(ops.any, input, dim, keepdim, out)


@both_worlds
def count_nonzero(input: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
    """The number of nonzero elements (along `dim`).

    Args:
        input: tensor of any dtype.
        dim: dimension or dimensions to count over. None means all.
        keepdim: whether reduced dimensions stay, with size 1.

    >>> import ndgrad
    >>> ndgrad.count_nonzero(ndgrad.tensor([[1, 0, 2], [0, 0, 3]]), dim=1)
    tensor([2, 1])
    """
    return ops.count_nonzero(input, dim=dims_of(dim, ndim_of(input, "count_nonzero")), keepdim=keepdim)


# ----- exponentials ---------------------------------------------------------------------------------------------------


@both_worlds
def logsumexp(input: Tensor, dim: Dims, keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    """Return log(sum(exp(input))) over `dim`, without overflow.

    Args:
        input: input tensor. Integers are converted to the default dtype.
        dim: dimension or dimensions of the sum. None means all.
        keepdim: whether reduced dimensions stay, with size 1.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.logsumexp(ndgrad.tensor([1000.0, 1000.0]), dim=0)
    tensor(1000.6932)
    """
    dims = dims_of(dim, ndim_of(input, "logsumexp"))
    if not is_inexact(np_dtype(input)):
        input = cast.cast(input, dtype=as_numpy_dtype(get_default_dtype()))
    result = softmax_ops.logsumexp.eager(input, dim=dims, keepdim=keepdim)
    return deliver("logsumexp", result, out, input)


def _normalise(op: Op, input: Tensor, dim: int, dtype: Dtype, out: Tensor | None) -> Tensor:
    ndim_of(input, op.name)
    if dtype is not None and np_dtype(input) != as_numpy_dtype(dtype):
        input = cast.cast(input, dtype=as_numpy_dtype(dtype))
    if not is_floating(np_dtype(input)):
        raise NotImplementedError(
            f"{op.name}(): not implemented for {as_dtype(np_dtype(input))!r}. Give dtype=, "
            "a floating point dtype, or convert the input. [nd-dtype]"
        )
    return deliver(op.name, run_along(op, op.name, input, dim), out, input)


@both_worlds
def softmax(input: Tensor, dim: int, dtype: Dtype = None, *, out: Tensor | None = None) -> Tensor:
    """Return exp(input) scaled to the sum 1 along `dim`.

    Args:
        input: floating-point tensor, unless `dtype` is one.
        dim: dimension of the sum.
        dtype: dtype to which `input` is converted first.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.softmax(ndgrad.tensor([0.0, 0.0, 0.0, 0.0]), dim=0)
    tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """
    return _normalise(softmax_ops.softmax, input, dim, dtype, out)


@both_worlds
def log_softmax(input: Tensor, dim: int, dtype: Dtype = None, *, out: Tensor | None = None) -> Tensor:
    """Return log(softmax(input)), exact even if softmax underflows to zero.

    Args:
        input: floating-point tensor, unless `dtype` is one.
        dim: dimension of the sum.
        dtype: dtype to which `input` is converted first.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.log_softmax(ndgrad.tensor([0.0, 1000.0]), dim=0)
    tensor([-1000.,     0.])
    """
    return _normalise(softmax_ops.log_softmax, input, dim, dtype, out)
