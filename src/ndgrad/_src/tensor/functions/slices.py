"""Slices selected by a 1-d index, parts selected by a basic index, and embedding, under torch's names.

Arguments are parsed as in `gather`. Shapes must agree exactly, as in torch: nothing broadcasts, because a source that
is too small is usually a mistake.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ndgrad._src.arrays.library import is_raw_array, library_of
from ndgrad._src.arrays.scatter import check_range, no_such_index
from ndgrad._src.core.variable import Variable, np_dtype, wrap_like
from ndgrad._src.ops import arithmetic, cast, shape, triangle
from ndgrad._src.ops import index as index_ops
from ndgrad._src.ops import slices as ops
from ndgrad._src.tensor.arguments import as_dim, as_shape, both_worlds
from ndgrad._src.tensor.functions.convert import clone
from ndgrad._src.tensor.functions.fill import copy_
from ndgrad._src.tensor.functions.gather import (
    as_index,
    as_line,
    as_number,
    as_tensor,
    fill_value,
    reduce_along,
    require_same_dtype,
    restore_shape,
    run,
)
from ndgrad._src.tensor.functions.index import put_at, put_into_copy
from ndgrad._src.tensor.functions.reduce import deliver
from ndgrad._src.tensor.functions.split import as_strided
from ndgrad._src.tensor.storage import values_to_check

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ndgrad._typing import Number, Shape, Tensor, TensorLike

__all__ = [
    "index_select", "index_add", "index_copy", "index_fill", "index_put", "index_put_", "index_reduce",
    "select_scatter", "slice_scatter", "as_strided_scatter", "diagonal_scatter", "embedding",
]  # fmt: skip
METHODS = (
    "index_select", "index_add", "index_copy", "index_fill", "index_put", "index_reduce",
    "index_add_", "index_copy_", "index_fill_", "index_put_", "index_reduce_",
    "select_scatter", "slice_scatter", "as_strided_scatter", "diagonal_scatter",
)  # fmt: skip


# ----- slices along a dimension ---------------------------------------------------------------------------------------


def _as_vector(name: str, like: Tensor, index: Tensor, error: type[Exception] = RuntimeError) -> Tensor:
    """Return an index of at most one dimension as a vector."""
    index = as_index(name, like, index, error)
    if index.ndim > 1:
        raise IndexError(
            f"{name}(): Index is supposed to be a vector, but has shape {tuple(index.shape)}. "
            "Flatten it, or use gather(). [nd-index]"
        )
    return as_line(index)


@both_worlds
def index_select(input: Tensor, dim: int, index: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The slices along `dim` selected by a 1-d index.

    Args:
        input: tensor to select from.
        dim: dimension of the index.
        index: vector of integers.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.index_select(ndgrad.tensor([[1.0, 2.0], [3.0, 4.0]]), 0, ndgrad.tensor([1, 1]))
    tensor([[3., 4.],
            [3., 4.]])
    """
    dim = as_dim(dim, input.ndim)
    index = _as_vector("index_select", input, index)
    if not input.ndim and index.shape[0] != 1:
        raise IndexError(
            f"index_select(): a 0-d tensor can be indexed once, but the index has {index.shape[0]} entries. "
            "Use expand(). [nd-index]"
        )
    result = ops.index_select(as_line(input), index, dim=dim)
    return deliver("index_select", result if input.ndim else shape.reshape(result, shape=()), out, input)


def _slice_arguments(
    name: str, input: Tensor, dim: int, index: Tensor, source: Tensor, count_error: type[Exception]
) -> tuple[Tensor, int, Tensor, Tensor]:
    """Return target, dim, index and source of index_add, index_copy and index_reduce."""
    dim = as_dim(dim, input.ndim)
    index = _as_vector(name, input, index)
    source = as_tensor(name, "source", input, source)
    require_same_dtype(name, input, source)
    if source.ndim != input.ndim and source.ndim and input.ndim:
        raise RuntimeError(_shape_message(name, input, source))
    target, source = as_line(input), as_line(source)
    if source.shape[dim] != index.shape[0]:
        raise count_error(
            f"{name}(): Number of indices ({index.shape[0]}) should be equal to source.size(dim): "
            f"({source.shape[dim]}), for dim: {dim}. Give one slice of the source per index. [nd-shape]"
        )
    rest = [d for d in range(target.ndim) if d != dim]
    if source.ndim != target.ndim or any(source.shape[d] != target.shape[d] for d in rest):
        raise RuntimeError(_shape_message(name, input, source))
    return target, dim, index, source


def _shape_message(name: str, input: Tensor, source: Tensor) -> str:
    return (
        f"{name}(): source tensor shape must match self tensor shape, excluding the specified dimension. "
        f"Got self.shape = {list(input.shape)} source.shape = {list(source.shape)}. Expand the source first. "
        "[nd-shape]"
    )


def _index_add(
    name: str, input: Tensor, dim: int, index: Tensor, source: Tensor, alpha: Number, in_place: bool
) -> Tensor:
    target, dim, index, source = _slice_arguments(name, input, dim, index, source, RuntimeError)
    if alpha != 1:
        source = arithmetic.mul(source, as_number(name, source, alpha))
    return restore_shape(input, run(ops.index_add, in_place, target, index, source, dim=dim), in_place)


@both_worlds
def index_add(
    input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Number = 1, out: Tensor | None = None
) -> Tensor:
    """Return `input` with slices of `source` added at a 1-d index. Repeated indices add up.

    Args:
        input: tensor to which slices are added.
        dim: dimension of the index.
        index: vector of integers, one for each slice of `source`.
        source: tensor of the dtype of `input`, and of its shape apart from `dim`.
        alpha: factor of `source`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.index_add(ndgrad.zeros(3), 0, ndgrad.tensor([0, 2, 2]), ndgrad.ones(3))
    tensor([1., 0., 2.])
    """
    return deliver("index_add", _index_add("index_add", input, dim, index, source, alpha, False), out, input, source)


@both_worlds
def index_add_(self: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Number = 1) -> Tensor:
    """In-place version of `index_add`.

    Args:
        self: tensor to change.
        dim: dimension of the index.
        index: vector of integers, one for each slice of `source`.
        source: tensor of the dtype of `self`, and of its shape apart from `dim`.
        alpha: factor of `source`.

    >>> import ndgrad
    >>> ndgrad.zeros(2).index_add_(0, ndgrad.tensor([1, 1]), ndgrad.ones(2), alpha=3)
    tensor([0., 6.])
    """
    return _index_add("index_add_", self, dim, index, source, alpha, True)


def _index_copy(name: str, input: Tensor, dim: int, index: Tensor, source: Tensor, in_place: bool) -> Tensor:
    target, dim, index, source = _slice_arguments(name, input, dim, index, source, IndexError)
    return restore_shape(input, run(ops.index_copy, in_place, target, index, source, dim=dim), in_place)


@both_worlds
def index_copy(input: Tensor, dim: int, index: Tensor, source: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return `input` with the slices at a 1-d index replaced by those of `source`.

    Args:
        input: tensor whose other slices are kept.
        dim: dimension of the index.
        index: vector of integers, one for each slice of `source`.
        source: tensor of the dtype of `input`, and of its shape apart from `dim`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.index_copy(ndgrad.zeros(3), 0, ndgrad.tensor([2, 0]), ndgrad.tensor([1.0, 5.0]))
    tensor([5., 0., 1.])
    """
    return deliver("index_copy", _index_copy("index_copy", input, dim, index, source, False), out, input, source)


@both_worlds
def index_copy_(self: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """In-place version of `index_copy`.

    Args:
        self: tensor to change.
        dim: dimension of the index.
        index: vector of integers, one for each slice of `source`.
        source: tensor of the dtype of `self`, and of its shape apart from `dim`.

    >>> import ndgrad
    >>> ndgrad.zeros(2).index_copy_(0, ndgrad.tensor([1]), ndgrad.tensor([4.0]))
    tensor([0., 4.])
    """
    return _index_copy("index_copy_", self, dim, index, source, True)


def _index_fill(name: str, input: Tensor, dim: int, index: Tensor, value: TensorLike, in_place: bool) -> Tensor:
    dim = as_dim(dim, input.ndim)
    index = as_index(name, input, index, IndexError)
    if index.ndim > 1:
        raise RuntimeError(
            f"{name}(): Index has to be a vector/scalar, but has shape {tuple(index.shape)}. Flatten it. [nd-ndim]"
        )
    value = fill_value("index_fill", input, value)
    return restore_shape(input, run(ops.index_fill, in_place, as_line(input), as_line(index), value, dim=dim), in_place)


@both_worlds
def index_fill(input: Tensor, dim: int, index: Tensor, value: TensorLike) -> Tensor:
    """Return `input` with one value in the slices at a 1-d index.

    Args:
        input: tensor whose other slices are kept.
        dim: dimension of the index.
        index: vector of integers.
        value: number or 0-d tensor.

    >>> import ndgrad
    >>> ndgrad.index_fill(ndgrad.zeros(2, 2), 1, ndgrad.tensor([0]), 7.0)
    tensor([[7., 0.],
            [7., 0.]])
    """
    return _index_fill("index_fill", input, dim, index, value, False)


@both_worlds
def index_fill_(self: Tensor, dim: int, index: Tensor, value: TensorLike) -> Tensor:
    """In-place version of `index_fill`.

    Args:
        self: tensor to change.
        dim: dimension of the index.
        index: vector of integers.
        value: number or 0-d tensor.

    >>> import ndgrad
    >>> ndgrad.zeros(2).index_fill_(0, ndgrad.tensor([1]), 7.0)
    tensor([0., 7.])
    """
    return _index_fill("index_fill_", self, dim, index, value, True)


def _index_reduce(
    name: str, input: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, include_self: bool, in_place: bool
) -> Tensor:
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(
            f"{name}(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}. index_add() sums. "
            "[nd-option]"
        )
    target, dim, index, source = _slice_arguments(name, input, dim, index, source, IndexError)
    if index.run_op is not None:
        values = values_to_check(index)
        if values.size and ((values < 0) | (values >= target.shape[dim])).any():
            raise no_such_index(name, target.shape[dim], dim)(int(values.max()))
    elif not isinstance(index._array, Variable):
        check_range(library_of(index._array), name, index._array, target.shape[dim], dim)
    lined = shape.reshape(index, shape=(index.shape[0], *(1,) * (target.ndim - dim - 1)))
    full = shape.expand(lined, shape=tuple(source.shape))
    result = reduce_along(name, target, dim, full, source, reduce, include_self, in_place)
    return restore_shape(input, result, in_place)


@both_worlds
def index_reduce(
    input: Tensor,
    dim: int,
    index: Tensor,
    source: Tensor,
    reduce: str,
    *,
    include_self: bool = True,
    out: Tensor | None = None,
) -> Tensor:
    """Return `input` with slices of `source` combined into those at a 1-d index.

    Args:
        input: tensor with whose slices those of `source` are combined.
        dim: dimension of the index.
        index: vector of integers, one for each slice of `source`.
        source: tensor of the dtype of `input`, and of its shape apart from `dim`.
        reduce: `"prod"`, `"mean"`, `"amax"` or `"amin"`.
        include_self: whether the old slice takes part.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.index_reduce(ndgrad.ones(2), 0, ndgrad.tensor([0, 0]), ndgrad.tensor([2.0, 3.0]), "prod")
    tensor([6., 1.])
    """
    result = _index_reduce("index_reduce", input, dim, index, source, reduce, include_self, False)
    return deliver("index_reduce", result, out, input, source)


@both_worlds
def index_reduce_(
    self: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """In-place version of `index_reduce`.

    Args:
        self: tensor to change.
        dim: dimension of the index.
        index: vector of integers, one for each slice of `source`.
        source: tensor of the dtype of `self`, and of its shape apart from `dim`.
        reduce: `"prod"`, `"mean"`, `"amax"` or `"amin"`.
        include_self: whether the old slice takes part.

    >>> import ndgrad
    >>> ndgrad.ones(2).index_reduce_(0, ndgrad.tensor([1, 1]), ndgrad.tensor([2.0, 5.0]), "amax")
    tensor([1., 5.])
    """
    return _index_reduce("index_reduce_", self, dim, index, source, reduce, include_self, True)


# ----- index_put ------------------------------------------------------------------------------------------------------


def index_put_(self: Tensor, indices: Sequence[Tensor], values: Tensor, accumulate: bool = False) -> Tensor:
    """Put values at indexed positions in place: `self[indices] = values`.

    Args:
        self: tensor to change.
        indices: sequence of index tensors, one for each of the first dimensions, which broadcast together.
        values: tensor of the dtype of `self` that broadcasts to the indexed part.
        accumulate: whether values are added to the old ones. Repeated indices add up.

    >>> import ndgrad
    >>> ndgrad.zeros(3).index_put_((ndgrad.tensor([0, 0]),), ndgrad.ones(2), accumulate=True)
    tensor([2., 0., 0.])
    """
    items, values = _index_put_arguments("index_put_", self, indices, values)
    put_at(self, items, values, accumulate=bool(accumulate))
    return self


def index_put(input: Tensor, indices: Sequence[Tensor], values: Tensor, accumulate: bool = False) -> Tensor:
    """A copy of `input` with values put (or added) at the indexed positions.

    Args:
        input: tensor whose other elements are kept.
        indices: sequence of index tensors, one for each of the first dimensions, which broadcast together.
        values: tensor of the dtype of `input` that broadcasts to the indexed part.
        accumulate: whether values are added to the old ones. Repeated indices add up.

    >>> import ndgrad
    >>> ndgrad.index_put(ndgrad.zeros(3), (ndgrad.tensor([2]),), ndgrad.tensor(4.0))
    tensor([0., 0., 4.])
    """
    items, values = _index_put_arguments("index_put", input, indices, values)
    return put_into_copy(input, items, values, accumulate=bool(accumulate))


def _index_put_arguments(
    name: str, input: Tensor, indices: Sequence[Tensor], values: Tensor
) -> tuple[tuple[Tensor, ...], Tensor]:
    if not isinstance(indices, (tuple, list)):
        raise TypeError(
            f"{name}(): argument 'indices' (position 1) must be tuple of Tensors, not {type(indices).__name__}. "
            "[nd-type]"
        )
    for place, item in enumerate(indices):
        if not isinstance(item, Variable) and not is_raw_array(item):
            raise TypeError(
                f"{name}(): expected Tensor as element {place} in argument 0, but got {type(item).__name__}. "
                "Use x[...] = for slices and lists. [nd-type]"
            )
    values = as_tensor(name, "values", input, values)
    if np_dtype(values) != np_dtype(input):
        raise RuntimeError(
            f"{name}(): Index put requires the source and destination dtypes match, got {np_dtype(input)} for "
            f"the destination and {np_dtype(values)} for the source. Convert the values with .to(). [nd-dtype-mismatch]"
        )
    return tuple(indices), values


# ----- replacement of a part ------------------------------------------------------------------------------------------


def _replace_part(name: str, input: Tensor, src: Tensor, index: tuple[int | slice, ...]) -> Tensor:
    src = as_tensor(name, "src", input, src)
    part = tuple(index_ops.getitem(input, index=index).shape)
    if tuple(src.shape) != part:
        raise RuntimeError(
            f"{name}(): expected src to have a size equal to the slice of self. src size = {list(src.shape)}, "
            f"slice size = {list(part)}. Expand the source. [nd-shape]"
        )
    if np_dtype(src) != np_dtype(input):
        src = cast.cast(src, dtype=np_dtype(input))
    return ops.slice_scatter(input, src, index=index)


@both_worlds
def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """A copy of `input` with `src` in place of select(dim, index).

    Args:
        input: input tensor.
        src: tensor of the shape of the replaced part.
        dim: dimension of the index.
        index: index of the replaced part. A negative one counts from the end.

    >>> import ndgrad
    >>> ndgrad.select_scatter(ndgrad.zeros(2, 2), ndgrad.ones(2), 0, 1)
    tensor([[0., 0.],
            [1., 1.]])
    """
    dim = as_dim(dim, input.ndim)
    size = input.shape[dim] if input.ndim else 0
    if not -size <= index < size:
        raise IndexError(
            f"select_scatter(): index {index} out of range for tensor of size {list(input.shape)} at dimension {dim}. "
            f"Give one from {-size} to {size - 1}. [nd-index]"
        )
    return _replace_part("select_scatter", input, src, (*(slice(None),) * dim, int(index)))


@both_worlds
def slice_scatter(
    input: Tensor,
    src: Tensor,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """A copy of `input` with `src` in place of the slice start:end:step along `dim`.

    Args:
        input: input tensor.
        src: tensor of the shape of the replaced part.
        dim: dimension of the slice.
        start: first index. The default is 0.
        end: end of the slice, which is not part of it. The default is the size of `dim`.
        step: positive distance of indices.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.slice_scatter(ndgrad.zeros(4), ndgrad.ones(2), start=1, end=3)
    tensor([0., 1., 1., 0.])
    """
    dim = as_dim(dim, input.ndim)
    if step <= 0:
        raise RuntimeError(
            f"slice_scatter(): slice step must be positive, but is {step}. Flip the tensors instead. [nd-range]"
        )
    result = _replace_part("slice_scatter", input, src, (*(slice(None),) * dim, slice(start, end, step)))
    return deliver("slice_scatter", result, out, input, src)


def diagonal_scatter(input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """A copy of `input` with `src` in place of diagonal(offset, dim1, dim2).

    Args:
        input: tensor of at least two dimensions.
        src: tensor of the shape of the diagonal.
        offset: number of the diagonal: 0 for the main one, positive above it, negative below it.
        dim1: dimension of the rows.
        dim2: dimension of the columns.

    >>> import ndgrad
    >>> ndgrad.diagonal_scatter(ndgrad.zeros(2, 2), ndgrad.tensor([1.0, 2.0]))
    tensor([[1., 0.],
            [0., 2.]])
    """
    src = as_tensor("diagonal_scatter", "src", input, src)
    first, second = as_dim(dim1, input.ndim, "dim1"), as_dim(dim2, input.ndim, "dim2")
    part = triangle.diagonal(input, offset=offset, dim0=first, dim1=second)
    if tuple(src.shape) != tuple(part.shape):
        raise RuntimeError(
            "diagonal_scatter(): expected src to have a size equal to the slice of self. "
            f"src size = {list(src.shape)}, slice size = {list(part.shape)}. Expand the source. [nd-shape]"
        )
    along = np.arange(part.shape[-1])
    rows, columns = wrap_like(input, along + max(-offset, 0)), wrap_like(input, along + max(offset, 0))
    order = (first, second, *(d for d in range(input.ndim) if d not in (first, second)))
    values = shape.permute(src, dims=(src.ndim - 1, *range(src.ndim - 1)))
    out = index_ops.index_put(shape.permute(input, dims=order), values, rows, columns, accumulate=False)
    return shape.permute(out, dims=shape.inverse_permutation(order))


# ----- embedding ------------------------------------------------------------------------------------------------------


def embedding(
    weight: Tensor, indices: Tensor, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False
) -> Tensor:
    """Look up rows of a matrix.

    Args:
        weight: matrix of shape (number of rows, size of a row).
        indices: integers of any shape.
        padding_idx: row that gets no gradient. A negative number means none.
        scale_grad_by_freq: whether the gradient of a row is divided by its number of lookups.
        sparse: whether the gradient is a sparse tensor, with an entry per row that was read.

    Returns:
        A tensor of the shape `indices.shape + (size of a row,)`.

    >>> import ndgrad
    >>> ndgrad.embedding(ndgrad.tensor([[1.0, 2.0], [3.0, 4.0]]), ndgrad.tensor([1, 0]))
    tensor([[3., 4.],
            [1., 2.]])
    """
    indices = as_index("embedding", weight, indices, argument="indices")
    if weight.ndim != 2:
        raise RuntimeError(
            f"embedding(): 'weight' must be 2-D, but has shape {tuple(weight.shape)}. Reshape it to rows of vectors. "
            "[nd-ndim]"
        )
    if padding_idx >= weight.shape[0]:
        raise RuntimeError(
            f"embedding(): padding_idx {padding_idx} is not among the {weight.shape[0]} rows. Give one of them. "
            "[nd-target]"
        )
    if sparse:
        if scale_grad_by_freq:
            raise RuntimeError(
                "embedding(): scale_grad_by_freq not supported with sparse gradients. Leave out one of the two. "
                "[nd-sparse-grad]"
            )
        from ndgrad.sparse import lookups  # loaded with the first sparse gradient

        rows: Tensor = lookups.embedding(weight, indices, None if padding_idx < 0 else int(padding_idx))
        return rows
    return ops.embedding(
        weight,
        indices,
        padding_idx=None if padding_idx < 0 else int(padding_idx),
        scale_grad_by_freq=bool(scale_grad_by_freq),
    )


def as_strided_scatter(
    input: Tensor, src: Tensor, size: Shape, stride: Shape, storage_offset: int | None = None, *, out: Tensor | None =
    None
) -> Tensor:
    """A copy of `input` with `src` in place of the view of `as_strided()`.

    Args:
        input: input tensor.
        src: tensor of shape `size` and the dtype of `input`.
        size: shape of the view.
        stride: distance of neighbours in each dimension of the view, counted in elements.
        storage_offset: index of the first element of the view in the memory. The default is that of `input`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.as_strided_scatter(ndgrad.zeros(2, 2), ndgrad.ones(2), (2,), (3,))
    tensor([[1., 0.],
            [0., 1.]])
    """
    sizes = as_shape((size,))
    if tuple(src.shape) != sizes:
        raise RuntimeError(
            f"as_strided_scatter: expected src to have a size equal to the slice of self, {list(sizes)}, but it has "
            f"{list(src.shape)}. [nd-shape]"
        )
    require_same_dtype("as_strided_scatter", input, src)
    own = input.storage_offset()
    made = clone(input)
    if made.stride() != input.stride():
        raise RuntimeError(
            f"as_strided_scatter: the strides {input.stride()} of an input of shape {tuple(input.shape)} leave gaps or "
            "overlap, but a copy "
            "has others. Use contiguous() first, and strides for that. [nd-strides]"
        )
    copy_(as_strided(made, sizes, stride, None if storage_offset is None else storage_offset - own), src)
    return deliver("as_strided_scatter", made, out, input, src)
