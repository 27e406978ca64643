"""Table lookups: embeddings, their sums over bags, and one-hot vectors."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np

from ndgrad._src.arrays.library import is_on_device
from ndgrad._src.arrays.placement import CPU
from ndgrad._src.arrays.precision import is_floating
from ndgrad._src.core.detach_checks import as_number
from ndgrad._src.core.grad_mode import no_grad
from ndgrad._src.core.inplace import write
from ndgrad._src.core.variable import np_dtype, wrap_like
from ndgrad._src.ops import slices
from ndgrad._src.ops.vocabulary import tensor_ops as ops
from ndgrad._src.tensor.storage import values_to_check

if TYPE_CHECKING:
    from ndgrad._typing import Payload, Tensor

__all__ = ["embedding", "embedding_bag", "one_hot"]


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Return the rows of a table at given indices.

    Args:
        input: integer tensor of indices, of any shape.
        weight: table of shape (num_embeddings, embedding_dim).
        padding_idx: row that gets no gradient.
        max_norm: largest norm of a row. Longer rows among those that are read are scaled down, in place.
        norm_type: p of the p-norm for `max_norm`.
        scale_grad_by_freq: whether the gradient of a row is divided by the number of times it is read.
        sparse: whether the gradient of `weight` is a sparse tensor, with an entry for each row that is read.

    Returns:
        A tensor of shape (*input.shape, embedding_dim).

    >>> import ndgrad
    >>> ndgrad.nn.functional.embedding(ndgrad.tensor([1, 0]), ndgrad.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([[3., 4.],
            [1., 2.]])
    """
    padding_idx = _padding("embedding", padding_idx, weight)
    _check_index("embedding", input)
    if max_norm is not None:
        _shorten(weight, input, max_norm, norm_type)
    return _rows("embedding", weight, input, padding_idx, scale_grad_by_freq, sparse)


def _rows(
    name: str, weight: Tensor, index: Tensor, padding_idx: int | None, scale_grad_by_freq: bool, sparse: bool
) -> Tensor:
    if not sparse:
        return slices.embedding.eager(weight, index, padding_idx=padding_idx, scale_grad_by_freq=scale_grad_by_freq)
    if scale_grad_by_freq:
        raise RuntimeError(
            f"{name}: scale_grad_by_freq not supported with sparse gradients. Leave out one of the two. "
            "[nd-sparse-grad]"
        )
    from ndgrad.sparse import lookups  # loaded with the first sparse gradient

    rows: Tensor = lookups.embedding(weight, index, padding_idx)
    return rows


def _padding(name: str, padding_idx: int | None, weight: Tensor) -> int | None:
    if padding_idx is None:
        return None
    rows = int(weight.shape[0])
    if not -rows <= padding_idx < rows:
        raise AssertionError(
            f"{name}: Padding_idx must be within num_embeddings: it is {padding_idx}, and the weight has {rows} rows. "
            "[nd-target]"
        )
    return padding_idx % rows


def _check_index(name: str, index: Tensor) -> None:
    if np_dtype(index).kind not in "iu":
        raise RuntimeError(
            f"{name}: Expected tensor for argument 'input' to have integer dtype, but got {np_dtype(index)}. "
            "Convert it with .long(). [nd-dtype]"
        )


def _shorten(weight: Tensor, index: Tensor, max_norm: float, norm_type: float) -> None:
    if weight.run_op is not None:  # a rank may have a part of a row, whose norm is another
        raise NotImplementedError(
            f"embedding(max_norm={max_norm}): the table is a {type(weight).__name__}, whose rows are not shortened in "
            "place. Leave max_norm out, and scale the table in the optimizer's step. [nd-unsupported]"
        )
    used = wrap_like(weight, np.unique(np.asarray(values_to_check(index))))
    with no_grad():
        rows = ops.index_select(weight, used, dim=0)
        norms = ops.vector_norm(rows, ord=float(as_number("embedding", "norm_type", norm_type)), dim=(1,), keepdim=True)
        shorter = ops.where(norms > max_norm, rows * (max_norm / (norms + 1e-7)), rows)
        write(slices.index_copy, weight, (used, shorter), {"dim": 0})


# ----- bags ----------------------------------------------------------------------------------------------------------


def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Return the sum, mean or maximum of the rows of each bag. An empty bag gives zeros.

    Args:
        input: indices. Bags are the rows of a matrix, or the parts of a vector that start at `offsets`.
        weight: table of shape (num_embeddings, embedding_dim).
        offsets: start of each bag in a vector `input`. The first is 0.
        max_norm: largest norm of a row. Longer rows among those that are read are scaled down, in place.
        norm_type: p of the p-norm for `max_norm`.
        scale_grad_by_freq: whether the gradient of a row is divided by the number of times it is read.
        mode: `"sum"`, `"mean"` or `"max"`.
        sparse: whether the gradient of `weight` is a sparse tensor. It excludes the mode `"max"`.
        per_sample_weights: factors of the rows, of the shape of `input`, for the mode `"sum"`.
        include_last_offset: whether `offsets` has one more entry, the end of the last bag.
        padding_idx: index that does not count in its bag and gets no gradient.

    Returns:
        A tensor of shape (bags, embedding_dim).

    >>> import ndgrad
    >>> table = ndgrad.tensor([[1.0], [10.0], [100.0]])
    >>> ndgrad.nn.functional.embedding_bag(ndgrad.tensor([0, 1, 2]), table, ndgrad.tensor([0, 2]), mode="sum")
    tensor([[ 11.],
            [100.]])
    """
    name = "embedding_bag"
    if np_dtype(weight).kind == "i" and is_floating(np_dtype(input)):
        warnings.warn(
            "Argument order of nn.functional.embedding_bag was changed. Usage `embedding_bag(weight, input, ...)` is "
            "deprecated, and should now be `embedding_bag(input, weight, ...)`.",
            UserWarning,
            stacklevel=2,
        )
        input, weight = weight, input
    if per_sample_weights is not None and tuple(per_sample_weights.shape) != tuple(input.shape):
        raise ValueError(
            f"{name}: per_sample_weights of shape {tuple(per_sample_weights.shape)} must have the shape "
            f"of the input, {tuple(input.shape)}. [nd-shape]"
        )
    if len(weight.shape) != 2:
        raise ValueError(
            f"{name}: weight has to be a 2D Tensor, but got Tensor of dimension {len(weight.shape)}. [nd-ndim]"
        )
    if mode not in ("sum", "mean", "max"):
        raise ValueError(f"{name}: mode has to be one of sum, mean or max, but is {mode!r}. [nd-option]")
    if mode == "max" and (scale_grad_by_freq or sparse):
        raise ValueError(
            f"{name}: max mode does not support "
            f"{'scaling the gradient by the frequency' if scale_grad_by_freq else 'sparse weights'}. [nd-exclusive]"
        )
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(
            f"{name}: per_sample_weights is only supported for mode='sum' (got mode='{mode}'). [nd-exclusive]"
        )
    _check_index(name, input)
    padding_idx = _padding(name, padding_idx, weight)
    parts = _bag_numbers(name, input, offsets, include_last_offset)
    count, numbers = weight.shape[0], values_to_check(input)
    # On a device the read of the rows checks the indices, without waiting.
    is_on_host = getattr(numbers, "place", CPU) is CPU and not is_on_device(numbers)
    if numbers is not None and is_on_host and numbers.size and (numbers.min() < 0 or numbers.max() >= count):
        raise RuntimeError(
            f"{name}: Expected idx >= 0 && idx < num_embeddings, {count}, but the indices run from "
            f"{numbers.min()} to {numbers.max()}. [nd-target]"
        )
    if max_norm is not None:
        _shorten(weight, input, max_norm, norm_type)
    rows = _rows(name, weight, input, padding_idx, scale_grad_by_freq, sparse)
    if per_sample_weights is not None:
        rows = rows * ops.unsqueeze(per_sample_weights, dim=len(input.shape))
    counted: Tensor | None = None if padding_idx is None else input != padding_idx
    return _reduce_rows(rows, counted, mode) if parts is None else _reduce_parts(rows, counted, *parts, mode)


def _bag_numbers(name: str, input: Tensor, offsets: Tensor | None, include_last: bool) -> tuple[Tensor, int] | None:
    """Return the number of the bag of each entry and the number of bags; None for a 2-D input."""
    ndim = len(input.shape)
    if ndim == 2:
        if offsets is not None:
            raise ValueError(
                f"{name}: if input is 2D, then offsets has to be None, as its rows are the bags; "
                f"it is a {type(offsets).__name__}. [nd-exclusive]"
            )
        return None
    if ndim != 1:
        raise ValueError(f"{name}: input has to be 1D or 2D Tensor, but got Tensor of dimension {ndim}. [nd-ndim]")
    if offsets is None or len(offsets.shape) != 1:
        raise ValueError(
            f"{name}: offsets has to be a 1D Tensor but got {None if offsets is None else tuple(offsets.shape)}. "
            "[nd-ndim]"
        )
    starts, length = ops.detach(offsets), input.shape[0]
    if include_last:  # the last offset is the end of the input, regardless of its value
        if not starts.shape[0]:
            raise RuntimeError(
                f"{name}: include_last_offset needs at least one offset, and offsets is empty. [nd-too-few]"
            )
        starts = starts[:-1]
    bags = starts.shape[0]
    if not bags:
        return wrap_like(input, np.zeros(length, np.int64)), 0
    is_outside = ops.logical_or(starts[:1] != 0, starts[-1:] > length)
    wrong = values_to_check(ops.logical_or(starts[1:] < starts[:-1], is_outside))
    if wrong is not None and wrong.any():
        numbers = values_to_check(starts)
        raise RuntimeError(
            f"{name}: offsets must start with 0, not fall, and not exceed the number of indices ({length}); "
            f"they run from {numbers.min()} to {numbers.max()}. [nd-values]"
        )
    places = wrap_like(input, np.arange(length))
    return ops.searchsorted(ops.cast(starts, dtype=np.dtype(np.int64)), places, right=True) - 1, bags


def _reduce_parts(rows: Tensor, counted: Tensor | None, numbers: Tensor, bags: int, mode: str) -> Tensor:
    """Reduce rows (entries, columns) over the entries of each bag. The memory does not depend on the longest bag."""
    count, columns = rows.shape
    if mode == "max" and count and bags:
        return _largest_of_parts(rows, counted, numbers, bags)
    if counted is not None:
        rows = ops.where(ops.unsqueeze(counted, dim=1), rows, 0.0)
    total = ops.index_add_zeros(rows, numbers, shape=(bags, columns))
    if mode != "mean":
        return total
    dtype = np_dtype(rows)
    ones = wrap_like(rows, np.ones(count, dtype)) if counted is None else ops.cast(counted, dtype=dtype)
    entries = ops.index_add_zeros(ones, numbers, shape=(bags,))
    return total / ops.unsqueeze(ops.clamp_min(entries, 1.0), dim=1)


def _largest_of_parts(rows: Tensor, counted: Tensor | None, numbers: Tensor, bags: int) -> Tensor:
    """Return the largest entry of each bag and column, 0 for a bag without entries. The first of equal ones gets the
    gradient, and a NaN is larger than any number.
    """
    count, columns = rows.shape
    index = ops.expand(ops.unsqueeze(numbers, dim=1), shape=(count, columns))
    values = ops.detach(rows)
    lowest = wrap_like(rows, np.full((bags, columns), -np.inf, np_dtype(rows)))
    among = values if counted is None else ops.where(ops.unsqueeze(counted, dim=1), values, -np.inf)
    largest = ops.scatter_extreme(lowest, index, among, dim=0, largest=True, include_self=True)
    is_largest = ops.logical_or(values == ops.gather(largest, index, dim=0), values != values)
    if counted is not None:
        is_largest = ops.logical_and(is_largest, ops.unsqueeze(counted, dim=1))
    places = ops.where(is_largest, wrap_like(numbers, np.arange(count)[:, None]), count)
    none = wrap_like(numbers, np.full((bags, columns), count))
    first = ops.scatter_extreme(none, index, places, dim=0, largest=False, include_self=True)
    return ops.where(first < count, ops.gather(rows, ops.clamp_max(first, count - 1), dim=0), 0.0)


def _reduce_rows(rows: Tensor, counted: Tensor | None, mode: str) -> Tensor:
    """Reduce rows (bags, entries, columns) over the entries."""
    if counted is None:
        if mode == "max":
            return ops.max(rows, dim=1, keepdim=False)[0] if rows.shape[1] else ops.sum(rows, dim=(1,), keepdim=False)
        total = ops.sum(rows, dim=(1,), keepdim=False)
        return total / max(rows.shape[1], 1) if mode == "mean" else total
    mask = ops.unsqueeze(counted, dim=2)
    if mode == "max":
        some = ops.any(mask, dim=(1,), keepdim=False)
        best = ops.max(ops.where(mask, rows, -np.inf), dim=1, keepdim=False)[0]
        return ops.where(some, best, 0.0)
    total = ops.sum(ops.where(mask, rows, 0.0), dim=(1,), keepdim=False)
    if mode == "sum":
        return total
    count = ops.sum(ops.cast(mask, dtype=np_dtype(rows)), dim=(1,), keepdim=False)
    return total / ops.clamp_min(count, 1.0)


# ----- one hot -------------------------------------------------------------------------------------------------------


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """Return vectors of zeros with a one at the given class.

    Args:
        tensor: integer tensor of classes, at least 0.
        num_classes: length of the vectors. The default, -1, is the largest class plus one.

    Returns:
        An integer tensor of shape (*tensor.shape, num_classes).

    >>> import ndgrad
    >>> ndgrad.nn.functional.one_hot(ndgrad.tensor([0, 2]))
    tensor([[1, 0, 0],
            [0, 0, 1]])
    """
    if np_dtype(tensor).kind not in "iu":
        raise RuntimeError(
            f"one_hot is only applicable to index tensors of integer dtype, but got {np_dtype(tensor)}. "
            "Convert it with .long(). [nd-dtype]"
        )
    numbers: Payload = values_to_check(tensor)
    size = 0 if numbers is None else int(numbers.size)
    if size and numbers.min() < 0:
        raise RuntimeError(f"one_hot: Class values must be non-negative, and the least is {numbers.min()}. [nd-target]")
    if num_classes == -1:
        if not size:
            raise RuntimeError(
                "one_hot: Can not infer total number of classes from empty tensor. Give num_classes. [nd-target]"
            )
        num_classes = int(numbers.max()) + 1
    elif num_classes < 1 and not size:
        raise RuntimeError(f"one_hot: num_classes should be positive, but is {num_classes}. [nd-range]")
    elif size and numbers.max() >= num_classes:
        raise RuntimeError(
            f"one_hot: Class values must be smaller than num_classes, {num_classes}, "
            f"and the largest is {numbers.max()}. [nd-target]"
        )
    classes = wrap_like(tensor, np.arange(num_classes))
    return ops.cast(ops.eq(ops.unsqueeze(tensor, dim=len(tensor.shape)), classes), dtype=np.dtype(np.int64))
