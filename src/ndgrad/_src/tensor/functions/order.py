"""Sorting and searching under torch's names.

Sorting is always stable. Of several equal elements, topk and kthvalue may choose any, as in torch.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, overload

import numpy as np

from ndgrad._src.arrays.library import is_raw_array
from ndgrad._src.core.detach_checks import at_stake
from ndgrad._src.core.variable import Variable, np_dtype, wrap
from ndgrad._src.ops import cast, comparison, gather, shape, slices
from ndgrad._src.ops import order as ops
from ndgrad._src.tensor import return_types
from ndgrad._src.tensor.arguments import as_dim, both_worlds
from ndgrad._src.tensor.functions.gather import as_index
from ndgrad._src.tensor.functions.reduce import deliver, ndim_of, run_along

if TYPE_CHECKING:
    from ndgrad._typing import Tensor, TensorLike

__all__ = [
    "sort", "argsort", "msort", "topk", "kthvalue", "unique", "unique_consecutive", "searchsorted", "bucketize", "isin",
]  # fmt: skip
METHODS = ("sort", "argsort", "msort", "topk", "kthvalue", "unique", "unique_consecutive")


def _require_order(name: str, input: Tensor, kinds: str = "c") -> None:
    ndim_of(input, name)
    if np_dtype(input).kind in kinds:
        raise RuntimeError(
            f"{name}() does not support {np_dtype(input)} tensors: there is no order that ranks "
            "them. Convert them first. [nd-dtype]"
        )


# ----- sort -----------------------------------------------------------------------------------------------------------


@both_worlds
def sort(
    input: Tensor,
    dim: int = -1,
    descending: bool = False,
    stable: bool = False,
    *,
    out: tuple[Tensor, Tensor] | None = None,
) -> return_types.sort:
    """Sorted values along `dim`, and their former indices. NaN counts as the largest number; the sort is stable.

    Args:
        input: real tensor.
        dim: dimension to sort along.
        descending: whether the largest elements come first.
        stable: accepted as in torch; has no effect here, because the sort is always stable.
        out: tuple of tensors that receive the results.

    Returns:
        The values and their indices.

    >>> import ndgrad
    >>> ndgrad.tensor([3.0, 1.0, 2.0]).sort().values
    tensor([1., 2., 3.])
    """
    _require_order("sort", input)
    result = run_along(ops.sort, "sort", input, dim, descending=bool(descending))
    return deliver("sort", return_types.sort(*result), out, input)


@both_worlds
def argsort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> Tensor:
    """The indices that sort a tensor along `dim`.

    Args:
        input: real tensor.
        dim: dimension to sort along.
        descending: whether the largest elements come first.
        stable: accepted as in torch; has no effect here, because the sort is always stable.

    >>> import ndgrad
    >>> ndgrad.argsort(ndgrad.tensor([3.0, 1.0, 2.0]))
    tensor([1, 2, 0])
    """
    _require_order("argsort", input)
    return run_along(ops.argsort, "argsort", input, dim, descending=bool(descending))


def msort(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Values sorted along the first dimension.

    Args:
        input: real tensor.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.msort(ndgrad.tensor([[3.0, 1.0], [2.0, 4.0]]))
    tensor([[2., 1.],
            [3., 4.]])
    """
    _require_order("msort", input)
    return deliver("msort", run_along(ops.sort, "msort", input, 0, descending=False)[0], out, input)


@both_worlds
def topk(
    input: Tensor,
    k: int,
    dim: int = -1,
    largest: bool = True,
    sorted: bool = True,
    *,
    out: tuple[Tensor, Tensor] | None = None,
) -> return_types.topk:
    """The k largest (or smallest) elements along `dim`, and their indices. They are always sorted.

    Args:
        input: real tensor, not bool.
        k: number of elements.
        dim: dimension to select along.
        largest: whether the largest elements are selected instead of the smallest.
        sorted: accepted as in torch; has no effect here, because the elements are always sorted.
        out: tuple of tensors that receive the results.

    Returns:
        The values and their indices.

    >>> import ndgrad
    >>> ndgrad.topk(ndgrad.tensor([1.0, 4.0, 2.0]), 2).indices
    tensor([1, 2])
    """
    _require_order("topk", input, "cb")
    size = input.shape[as_dim(dim, input.ndim)] if input.ndim else 1
    if not 0 <= k <= size:
        raise RuntimeError(
            f"topk(): selected index k out of range: {k} of {size} elements along dim {dim}. "
            f"Give a k from 0 to {size}. [nd-range]"
        )
    if not input.ndim and k == 0:
        raise RuntimeError(
            "topk(): a 0-d tensor has one element, and k is 0. Reshape it to one dimension first. [nd-ndim]"
        )
    result = run_along(ops.topk, "topk", input, dim, k=int(k), largest=bool(largest))
    return deliver("topk", return_types.topk(*result), out, input)


@both_worlds
def kthvalue(
    input: Tensor, k: int, dim: int = -1, keepdim: bool = False, *, out: tuple[Tensor, Tensor] | None = None
) -> return_types.kthvalue:
    """The k-th smallest element along `dim` (k counts from 1), and its index.

    Args:
        input: real tensor.
        k: rank of the element, from 1 on.
        dim: dimension to select along.
        keepdim: whether reduced dimensions stay, with size 1.
        out: tuple of tensors that receive the results.

    Returns:
        The values and their indices.

    >>> import ndgrad
    >>> ndgrad.kthvalue(ndgrad.tensor([3.0, 1.0, 2.0]), 2).values
    tensor(2.)
    """
    _require_order("kthvalue", input)
    number = as_dim(dim, input.ndim)
    size = input.shape[number] if input.ndim else 1
    if not 1 <= k <= size:
        raise RuntimeError(
            f"kthvalue(): selected number k out of range for dimension {number}: "
            f"{k} of {size} elements. k counts from 1. [nd-range]"
        )
    result = run_along(ops.kthvalue, "kthvalue", input, dim, k=int(k), keepdim=bool(keepdim))
    return deliver("kthvalue", return_types.kthvalue(*result), out, input)


# ----- unique values --------------------------------------------------------------------------------------------------


@overload
def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: Literal[False] = False,
    return_counts: Literal[False] = False,
    dim: int | None = None,
) -> Tensor: ...


@overload
def unique(
    input: Tensor,
    sorted: bool = True,
    *,
    return_inverse: Literal[True],
    return_counts: Literal[False] = False,
    dim: int | None = None,
) -> tuple[Tensor, Tensor]: ...


@overload
def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: Literal[False] = False,
    *,
    return_counts: Literal[True],
    dim: int | None = None,
) -> tuple[Tensor, Tensor]: ...


@overload
def unique(
    input: Tensor,
    sorted: bool = True,
    *,
    return_inverse: Literal[True],
    return_counts: Literal[True],
    dim: int | None = None,
) -> tuple[Tensor, Tensor, Tensor]: ...


@overload
def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Tensor | tuple[Tensor, ...]: ...


@both_worlds
def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Tensor | tuple[Tensor, ...]:
    """The distinct elements, or distinct slices along `dim`, in order.

    Args:
        input: tensor of any dtype.
        sorted: accepted as in torch; has no effect here, because the result is always sorted.
        return_inverse: whether the index in the result is returned for every element.
        return_counts: whether the number of occurrences is returned.
        dim: dimension of the slices to compare. None compares elements.

    Returns:
        The distinct elements, then the inverse and the counts if wanted. Each element carries the gradient of its first
        occurrence.

    >>> import ndgrad
    >>> ndgrad.unique(ndgrad.tensor([3.0, 1.0, 3.0]), return_counts=True)
    (tensor([1., 3.]), tensor([1, 2]))
    """
    return _unique("unique", input, False, return_inverse, return_counts, dim)


@overload
def unique_consecutive(
    input: Tensor, return_inverse: Literal[False] = False, return_counts: Literal[False] = False, dim: int | None = None
) -> Tensor: ...


@overload
def unique_consecutive(
    input: Tensor, return_inverse: Literal[True], return_counts: Literal[False] = False, dim: int | None = None
) -> tuple[Tensor, Tensor]: ...


@overload
def unique_consecutive(
    input: Tensor, return_inverse: Literal[False] = False, *, return_counts: Literal[True], dim: int | None = None
) -> tuple[Tensor, Tensor]: ...


@overload
def unique_consecutive(
    input: Tensor, return_inverse: Literal[True], return_counts: Literal[True], dim: int | None = None
) -> tuple[Tensor, Tensor, Tensor]: ...


@overload
def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Tensor | tuple[Tensor, ...]: ...


@both_worlds
def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Tensor | tuple[Tensor, ...]:
    """Drop elements equal to their predecessor. Otherwise as `unique`.

    Args:
        input: tensor of any dtype.
        return_inverse: whether the index in the result is returned for every element.
        return_counts: whether the length of each run is returned.
        dim: dimension of the slices to compare. None compares elements of the flattened tensor.

    Returns:
        The remaining elements, then the inverse and the counts if wanted.

    >>> import ndgrad
    >>> ndgrad.unique_consecutive(ndgrad.tensor([1.0, 1.0, 2.0, 1.0]))
    tensor([1., 2., 1.])
    """
    return _unique("unique_consecutive", input, True, return_inverse, return_counts, dim)


def _unique(
    name: str, input: Tensor, consecutive: bool, return_inverse: bool, return_counts: bool, dim: int | None
) -> Tensor | tuple[Tensor, ...]:
    ndim = ndim_of(input, name)
    if dim is None and not (consecutive or return_inverse or return_counts or at_stake(input)):
        return ops.unique_values(input)
    run_along = None if dim is None else as_dim(dim, ndim)
    first, inverse, counts = ops.unique(input, dim=run_along, consecutive=consecutive)
    source = shape.reshape(input, shape=(math.prod(input.shape),)) if run_along is None else input
    values = slices.index_select(source, first, dim=run_along or 0)
    if not return_inverse and not return_counts:
        return values
    return (values, *((inverse,) if return_inverse else ()), *((counts,) if return_counts else ()))


# ----- searching ------------------------------------------------------------------------------------------------------


def _operand(name: str, value: TensorLike, like: Tensor) -> Tensor:
    """Return a tensor, or a number as a 0-d tensor of the class of `like`."""
    if isinstance(value, Variable):
        return value
    if is_raw_array(value) or isinstance(value, (bool, int, float)):
        return wrap(like.tensor_type, np.asarray(value) if not is_raw_array(value) else value)
    raise TypeError(
        f"{name}(): arguments must be Tensor or Number, not {type(value).__name__}. Wrap it in ndgrad.tensor(...). "
        "[nd-type]"
    )


def searchsorted(
    sorted_sequence: Tensor,
    input: TensorLike,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """The indices at which values would be inserted to keep a sequence sorted.

    A 1-d sequence serves all values. A sequence of higher rank needs the values' leading dimensions.

    Args:
        sorted_sequence: tensor that is sorted along its last dimension.
        input: values to insert, a tensor or a number.
        out_int32: whether the indices are int32 instead of int64.
        right: whether values go after equal elements instead of before them.
        side: `"left"` or `"right"`, another form of `right`.
        sorter: indices that sort an unsorted sequence, as `argsort` returns them.
        out: tensor that receives the result.

    Returns:
        Indices in the shape of `input`.

    >>> import ndgrad
    >>> ndgrad.searchsorted(ndgrad.tensor([1.0, 3.0, 5.0]), ndgrad.tensor([3.0, 4.0]))
    tensor([1, 2])
    """
    ndim_of(sorted_sequence, "searchsorted")
    if side not in (None, "left", "right"):
        raise RuntimeError(
            f"searchsorted(): side can only be 'left' or 'right' but got {side!r}. Give one of these. [nd-option]"
        )
    if side == "left" and right:
        raise RuntimeError(
            "searchsorted(): side and right can't be set to opposites, got side of left while right was True. "
            "Give one. [nd-exclusive]"
        )
    sequence, values = sorted_sequence, _operand("searchsorted", input, sorted_sequence)
    have, want = tuple(sequence.shape), tuple(values.shape)
    if not have:
        raise RuntimeError(
            "searchsorted(): boundaries tensor should have positive dimension, but got 0 dimension. Reshape it to one. "
            "[nd-ndim]"
        )
    if len(have) > 1 and have[:-1] != want[:-1]:
        raise RuntimeError(
            "searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries tensor "
            f"and input value tensor must match, but we got boundaries tensor {list(have)} and input value tensor "
            f"{list(want)}. Expand one of them. [nd-ndim]"
        )
    if sorter is not None:
        sorter = as_index("searchsorted", sequence, sorter, argument="sorter")
        if tuple(sorter.shape) != have:
            raise RuntimeError(
                f"searchsorted(): boundary and sorter must have the same size, but got boundary tensor {list(have)} "
                f"and got sorter tensor {list(sorter.shape)}. argsort() of the sequence gives one. [nd-shape]"
            )
        sequence = gather.gather(sequence, sorter, dim=len(have) - 1)
    return _search("searchsorted", sequence, values, right or side == "right", out_int32, out)


def bucketize(
    input: TensorLike, boundaries: Tensor, *, out_int32: bool = False, right: bool = False, out: Tensor | None = None
) -> Tensor:
    """The index of the bucket, between sorted boundaries, of each value.

    Args:
        input: values, a tensor or a number.
        boundaries: sorted vector.
        out_int32: whether the indices are int32 instead of int64.
        right: whether a value equal to a boundary belongs to the bucket after it.
        out: tensor that receives the result.

    Returns:
        Indices from 0 to the number of boundaries, in the shape of `input`.

    >>> import ndgrad
    >>> ndgrad.bucketize(ndgrad.tensor([0.5, 1.5, 9.0]), ndgrad.tensor([1.0, 2.0]))
    tensor([0, 1, 2])
    """
    ndim = ndim_of(boundaries, "bucketize")
    if ndim != 1:
        raise RuntimeError(
            f"bucketize(): boundaries tensor must be 1 dimension, but got dim({ndim}). Flatten it. [nd-ndim]"
        )
    return _search("bucketize", boundaries, _operand("bucketize", input, boundaries), right, out_int32, out)


def _search(name: str, sequence: Tensor, values: Tensor, right: bool, out_int32: bool, out: Tensor | None) -> Tensor:
    result = ops.searchsorted(sequence, values, right=bool(right))
    if out_int32:
        result = cast.cast(result, dtype=np.dtype(np.int32))
    return deliver(name, result, out)


def isin(
    elements: TensorLike,
    test_elements: TensorLike,
    *,
    assume_unique: bool = False,
    invert: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """True for each element that occurs among the test elements. NaN equals nothing.

    Args:
        elements: tensor or number to look up.
        test_elements: tensor or number to look in.
        assume_unique: accepted as in torch; has no effect here.
        invert: whether the result is True for elements that do not occur.
        out: tensor that receives the result.

    Returns:
        A bool tensor of the shape of `elements`.

    >>> import ndgrad
    >>> ndgrad.isin(ndgrad.tensor([1, 2, 3]), ndgrad.tensor([2, 5]))
    tensor([False,  True, False])
    """
    tensors = [t for t in (elements, test_elements) if isinstance(t, Variable)]
    if not tensors:
        kinds = f"{type(elements).__name__} and {type(test_elements).__name__}"
        raise TypeError(f"isin() takes at least one Tensor, but got {kinds}. Wrap one in ndgrad.tensor(...). [nd-type]")
    x, y = (_operand("isin", t, tensors[0]) for t in (elements, test_elements))
    result = ops.isin(x, y)
    return deliver("isin", comparison.logical_not(result) if invert else result, out)
