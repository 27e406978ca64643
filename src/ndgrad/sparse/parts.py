"""Reductions of sparse tensors, permutations, parts and joins.

Functions that move entries work on coordinates, which are NumPy arrays. Values, and with them derivatives, follow by
ordinary indexing.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

import ndgrad
from ndgrad._src.arrays import dtypes
from ndgrad._src.arrays.integers import as_places
from ndgrad._src.arrays.sparse import TRANSPOSED, Compressed, Coo
from ndgrad._src.core.variable import Variable, np_dtype, wrap
from ndgrad._src.ops.vocabulary import tensor_ops as ops
from ndgrad._src.tensor.arguments import as_dim
from ndgrad._src.tensor.structured import constant
from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad.sparse.functions import take_entries
from ndgrad.sparse.tensor import (
    build,
    coalesced,
    compressed,
    coo,
    entries,
    flat,
    followed,
    handles,
    handles_op,
    is_sparse,
    layout_of,
    refuse,
    values_of,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ndgrad._typing import Dims, Dtype, Index, Tensors
    from ndgrad.sparse.tensor import SparseTensor

# ----- reductions -----------------------------------------------------------------------------------------------------


@handles("sum")
def sum(
    input: SparseTensor, dim: Dims = None, keepdim: bool = False, *, dtype: Dtype = None, out: None = None
) -> Tensor:
    if dim is None or (isinstance(dim, (tuple, list)) and not dim):
        total = ndgrad.sum(entries(input)[1], dtype=dtype)
        return ops.reshape(total, shape=(1,) * input.ndim) if keepdim else total
    dims = sorted({as_dim(d, input.ndim) for d in ((dim,) if isinstance(dim, int) else dim)})
    return sum_dims(input, dims, keepdim, dtype)


def sum_dims(x: SparseTensor, dims: Sequence[int], keepdim: bool, dtype: Dtype) -> Tensor:
    """Return the sum over some dimensions: sparse as long as a sparse dimension is left."""
    template = x.structure
    x = coo(x)
    structure, values = entries(x)
    count = structure.sparse_dim
    if dtype is not None:
        values = values.to(dtype)
    inner = [d - count + 1 for d in dims if d >= count]
    if inner:
        values = ndgrad.sum(values, dim=tuple(inner), keepdim=keepdim)
    left = [d for d in range(count) if d not in dims]
    shape = tuple(1 if d in dims else n for d, n in enumerate(structure.shape) if keepdim or d not in dims)
    if not left:
        total = ndgrad.sum(values, dim=0)
        return ops.reshape(total, shape=shape) if keepdim else total
    if keepdim:
        indices = structure.coordinates.copy()
        indices[[d for d in dims if d < count]] = 0
    else:
        indices = structure.coordinates[left]
    made = Coo(indices, shape)
    target, entry = made.coalescing
    start = wrap(Tensor, np.zeros(target.flat_shape, np_dtype(values)))
    out = build(ops.index_add(start, constant(entry), values, dim=0), target)
    if isinstance(template, Compressed) and out.ndim == len(template.shape) and template.block == (1, 1):
        return compressed(out, template.layout, (1, 1), len(template.batch))
    return out


@handles_op("sum")
def _sum_op(x: SparseTensor, *, dim: Dims = (), keepdim: bool = False, dtype: Dtype = None) -> Tensor:
    return sum(x, dim, keepdim, dtype=None if dtype is None else dtypes.as_dtype(dtype))


@handles("norm", "native_norm", "linalg_vector_norm", "linalg_norm", "vector_norm")
def norm(
    input: SparseTensor,
    p: float | str | None = 2,
    dim: Dims = None,
    keepdim: bool = False,
    dtype: Dtype = None,
    **options: Any,
) -> Tensor:
    p = options.get("ord", p)
    p = 2 if p is None or p == "fro" else p
    if dim is not None and tuple(range(input.ndim)) != tuple(sorted((dim,) if isinstance(dim, int) else dim)):
        refuse("norm", (input,), {})
    return ndgrad.linalg.vector_norm(flat(values_of(coalesced(input)), coalesced(input).structure), p, dtype=dtype)


@handles("any")
def any(input: SparseTensor, *args: Any, **options: Any) -> Tensor:
    if args or options:
        refuse("any", (input,), {})
    return ndgrad.any(values_of(coalesced(input.detach())))


# ----- the order of dimensions ----------------------------------------------------------------------------------------


def permuted(x: SparseTensor, dims: tuple[int, ...]) -> SparseTensor:
    """Permute the dimensions."""
    structure = x.structure
    if dims == tuple(range(x.ndim)):
        return x
    if isinstance(structure, Compressed):
        lead = len(structure.batch)
        if dims != (*range(lead), lead + 1, lead, *range(lead + 2, x.ndim)):
            refuse("permute", (x,), {})
        values = values_of(x)
        if structure.block != (1, 1) or len(structure.values_shape) > lead + 1 + structure.dense_dim:
            values = ops.permute(values, dims=(*range(lead + 1), lead + 2, lead + 1, *range(lead + 3, values.ndim)))
        shape = tuple(structure.shape[d] for d in dims)
        layout = TRANSPOSED[structure.layout]
        made = Compressed(layout, structure.pointers, structure.others, shape, tuple(values.shape))
        return build(values, made)
    count = structure.sparse_dim
    outer, inner = dims[:count], dims[count:]
    if set(outer) != set(range(count)):
        raise RuntimeError(
            f"permute(): sparse and dense dimensions cannot change places: the order {dims} was asked of a tensor with "
            f"{count} sparse and {structure.dense_dim} dense dimensions. Convert with to_sparse(sparse_dim) first. "
            "[nd-sparse]"
        )
    kept, values = entries(x)
    if inner != tuple(range(count, x.ndim)):
        values = ops.permute(values, dims=(0, *(d - count + 1 for d in inner)))
    return build(values, Coo(kept.coordinates[list(outer)], tuple(structure.shape[d] for d in dims), kept.count < 2))


@handles("t")
def t(input: SparseTensor) -> SparseTensor:
    if input.ndim > 2 or input.structure.dense_dim:
        raise RuntimeError(
            f"t() expects a tensor with <= 2 sparse and 0 dense dimensions, but got shape {tuple(input.shape)} with "
            f"{input.structure.sparse_dim} sparse and {input.structure.dense_dim} dense ones. [nd-sparse]"
        )
    return permuted(input, tuple(range(input.ndim))[::-1])


@handles("transpose", "swapaxes", "swapdims")
def transpose(input: SparseTensor, dim0: int, dim1: int) -> SparseTensor:
    a, b = as_dim(dim0, input.ndim), as_dim(dim1, input.ndim)
    dims = list(range(input.ndim))
    dims[a], dims[b] = dims[b], dims[a]
    return permuted(input, tuple(dims))


@handles("permute")
def permute(input: SparseTensor, *dims: Any) -> SparseTensor:
    given = dims[0] if len(dims) == 1 and not isinstance(dims[0], int) else dims
    return permuted(input, tuple(as_dim(d, input.ndim) for d in given))


@handles_op("permute")
def _permute_op(x: SparseTensor, *, dims: tuple[int, ...]) -> SparseTensor:
    return permuted(x, dims)


# ----- parts ----------------------------------------------------------------------------------------------------------


def selected(
    x: SparseTensor, keep: NDArray[Any], coordinates: NDArray[Any], shape: tuple[int, ...], in_order: bool
) -> SparseTensor:
    """Return the entries with these numbers, at other coordinates."""
    structure, values = entries(x)
    part = values if keep.size == structure.count and in_order else take_entries(values, keep)
    return build(part, Coo(coordinates, shape, structure.coalesced and in_order))


@handles("select")
def select(input: SparseTensor, dim: int, index: int) -> Tensor:
    x, dim = coo(input), as_dim(dim, input.ndim)
    size = x.shape[dim]
    if not -size <= index < size:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size {list(input.shape)} at dimension {dim}. "
            "[nd-index]"
        )
    index %= size
    if followed(x):
        x = coalesced(x)
    structure = x.structure
    shape = tuple(n for d, n in enumerate(structure.shape) if d != dim)
    if dim >= structure.sparse_dim:
        values = ops.select(entries(x)[1], dim=dim - structure.sparse_dim + 1, index=index)
        return build(values, Coo(structure.coordinates, shape, structure.coalesced))
    keep = np.flatnonzero(structure.coordinates[dim] == index)
    rest = np.delete(structure.coordinates[:, keep], dim, axis=0)
    if not rest.shape[0]:  # no sparse dimension is left
        return ndgrad.sum(take_entries(entries(x)[1], keep), dim=0)
    return selected(x, keep, rest, shape, True)


@handles("narrow", "narrow_copy")
def narrow(input: SparseTensor, dim: int, start: int | Tensor, length: int) -> Tensor:
    dim = as_dim(dim, input.ndim)
    start, size = int(start), input.shape[dim]
    start = start + size if start < 0 else start
    if not 0 <= start <= size or length < 0 or start + length > size:
        raise RuntimeError(
            f"narrow(): start ({start}) + length ({length}) exceeds dimension size ({size}) of dimension {dim} of a "
            f"tensor of shape {tuple(input.shape)}. [nd-index]"
        )
    return _narrow(coo(input), dim, start, start + length)


def _narrow(x: SparseTensor, dim: int, start: int, stop: int) -> SparseTensor:
    if followed(x):
        x = coalesced(x)
    structure = x.structure
    shape = tuple(stop - start if d == dim else n for d, n in enumerate(structure.shape))
    if dim >= structure.sparse_dim:
        values = ndgrad.narrow(entries(x)[1], dim - structure.sparse_dim + 1, start, stop - start)
        return build(values, Coo(structure.coordinates, shape, structure.coalesced))
    along = structure.coordinates[dim]
    keep = np.flatnonzero((along >= start) & (along < stop))
    moved = structure.coordinates[:, keep].copy()
    moved[dim] -= start
    return selected(x, keep, moved, shape, True)


@handles("index_select")
def index_select(input: SparseTensor, dim: int, index: Tensor) -> SparseTensor:
    x, dim = coo(input), as_dim(dim, input.ndim)
    numbers = np.asarray(index.detach()._array).reshape(-1)
    size = x.shape[dim]
    if numbers.size and (numbers.min() < -size or numbers.max() >= size):
        raise IndexError(
            f"index_select(): index out of range: the indices run from {numbers.min()} to {numbers.max()}, and "
            f"dimension {dim} of a tensor of shape {tuple(input.shape)} has {size}. [nd-index]"
        )
    numbers = numbers % max(size, 1)
    x = coalesced(x)
    structure = x.structure
    shape = tuple(numbers.size if d == dim else n for d, n in enumerate(structure.shape))
    if dim >= structure.sparse_dim:
        values = ops.index_select(values_of(x), constant(numbers), dim=dim - structure.sparse_dim + 1)
        return build(values, Coo(structure.coordinates, shape, True))
    # For each of the numbers, find the entries that have it.
    order = np.argsort(structure.coordinates[dim], kind="stable")
    along = structure.coordinates[dim][order]
    first, last = np.searchsorted(along, numbers, "left"), np.searchsorted(along, numbers, "right")
    lengths = last - first
    lengths = as_places(lengths)
    target = np.repeat(np.arange(numbers.size, dtype=np.int64), lengths)
    within = np.arange(target.size, dtype=np.int64) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    keep = order[np.repeat(first, lengths) + within]
    moved = structure.coordinates[:, keep].copy()
    moved[dim] = target
    return coalesced(selected(x, keep, moved, shape, False))


@handles("__getitem__")
def getitem(self: Tensor, index: Index) -> Tensor:
    parts = index if isinstance(index, tuple) else (index,)
    if not is_sparse(self):
        refuse("indexing with a sparse tensor", (self, *parts), {})
    x: Any = coo(self) if not _is_whole(parts) else self
    dim = 0
    parts = _expand_ellipsis(parts, self.ndim)
    if len([p for p in parts if p is not None]) > self.ndim:
        raise IndexError(
            f"too many indices for a tensor of shape {tuple(self.shape)}: {len(parts)} were given. [nd-index]"
        )
    for part in parts:
        if isinstance(part, (int, np.integer)) and not isinstance(part, bool):
            x = select(x, dim, int(part)) if is_sparse(x) else x.select(dim, int(part))
            continue
        if part is None:
            x = unsqueeze(x, dim)
        elif isinstance(part, slice):
            x = _take_slice(self, x, dim, part)
        elif isinstance(part, Variable) and not is_sparse(part) and part.ndim == 1 and np_dtype(part).kind in "iu":
            if len(parts) > 1:
                refuse("indexing with tensors beside other indices", (self,), {})
            x = index_select(x, dim, part)
        else:
            refuse(f"indexing with {type(part).__name__}", (self,), {})
        dim += 1
    return x


def _expand_ellipsis(parts: tuple[Any, ...], ndim: int) -> tuple[Any, ...]:
    """Return the parts of an index with slices in place of an ellipsis."""
    places = [i for i, p in enumerate(parts) if p is Ellipsis]
    if not places:
        return parts
    given = len([p for p in parts if p is not None]) - 1
    return (*parts[: places[0]], *(slice(None),) * (ndim - given), *parts[places[0] + 1 :])


def _take_slice(self: Tensor, x: Any, dim: int, part: slice) -> Any:
    """Return a slice along a dimension of `x`, which is made from `self`."""
    start, stop, step = part.indices(x.shape[dim])
    if step != 1:
        refuse("indexing with a step", (self,), {})
    return x if (start, stop) == (0, x.shape[dim]) else _narrow(x, dim, start, max(stop, start))


def _is_whole(parts: tuple[Any, ...]) -> bool:
    return all(isinstance(p, slice) and p == slice(None) for p in parts)


@handles("__setitem__")
def setitem(self: Tensor, index: Index, value: Tensor) -> NoReturn:
    if is_sparse(self):
        raise TypeError(
            "Cannot assign to a sparse tensor: its places are fixed when it is made. "
            "Write to its values(), or make another with sparse_coo_tensor(). [nd-sparse]"
        )
    raise TypeError(
        f"a {layout_of(value)} tensor of shape {tuple(value.shape)} cannot be assigned to a part of a dense one. "
        "Assign value.to_dense(). [nd-sparse]"
    )


@handles("unbind")
def unbind(input: SparseTensor, dim: int = 0) -> tuple[Tensor, ...]:
    return tuple(select(input, dim, i) for i in range(input.shape[as_dim(dim, input.ndim)]))


@handles("__iter__")
def iterate(self: SparseTensor) -> Iterator[Tensor]:
    return iter(unbind(self))


@handles("unsqueeze")
def unsqueeze(input: SparseTensor, dim: int) -> SparseTensor:
    dim = as_dim(dim, input.ndim + 1)
    x = coo(input)
    structure, values = entries(x)
    shape = (*structure.shape[:dim], 1, *structure.shape[dim:])
    if dim > structure.sparse_dim:
        values = ops.unsqueeze(values, dim=dim - structure.sparse_dim + 1)
        return build(values, Coo(structure.coordinates, shape, structure.coalesced))
    return build(values, Coo(np.insert(structure.coordinates, dim, 0, axis=0), shape, structure.coalesced))


@handles("squeeze")
def squeeze(input: SparseTensor, dim: Dims = None) -> SparseTensor:
    x = coo(input)
    dims = range(x.ndim) if dim is None else [as_dim(d, x.ndim) for d in ((dim,) if isinstance(dim, int) else dim)]
    structure, values = entries(x)
    gone = [d for d in dims if structure.shape[d] == 1]
    inner = [d - structure.sparse_dim + 1 for d in gone if d >= structure.sparse_dim]
    if inner:
        values = ndgrad.squeeze(values, tuple(inner))
    outer = [d for d in gone if d < structure.sparse_dim]
    shape = tuple(n for d, n in enumerate(structure.shape) if d not in gone)
    return build(values, Coo(np.delete(structure.coordinates, outer, axis=0), shape, structure.coalesced))


# ----- joins ----------------------------------------------------------------------------------------------------------


@handles("cat", "concat", "concatenate")
def cat(tensors: Sequence[SparseTensor], dim: int = 0, *, out: None = None) -> SparseTensor:
    kinds = {layout_of(x) for x in tensors}
    if kinds != {"sparse_coo"}:
        raise RuntimeError(
            f"cat(): sparse tensors are joined with sparse_coo ones alone, and the layouts are {sorted(kinds)}. "
            "Convert them with to_sparse() first. [nd-sparse]"
        )
    dim = as_dim(dim, tensors[0].ndim)
    first = tensors[0]
    for x in tensors[1:]:
        if x.ndim != first.ndim or any_differs(x, first, dim) or x.structure.sparse_dim != first.structure.sparse_dim:
            raise RuntimeError(
                f"cat(): all sizes but that of dimension {dim} must agree, and the numbers of sparse dimensions, and "
                f"the shapes are {tuple(first.shape)} and {tuple(x.shape)}. [nd-shape]"
            )
    count = first.structure.sparse_dim
    pairs = [entries(x) for x in tensors]
    shape = tuple(builtins.sum(x.shape[d] for x in tensors) if d == dim else n for d, n in enumerate(first.shape))
    if dim < count:
        moved, start = [], 0
        for structure, _ in pairs:
            indices = structure.coordinates.copy()
            indices[dim] += start
            start += structure.shape[dim]
            moved.append(indices)
        in_order = dim == 0 and all(s.coalesced for s, _ in pairs)
        return build(ndgrad.cat([v for _, v in pairs]), Coo(np.concatenate(moved, axis=1), shape, in_order))
    wide, start = [], 0
    for structure, values in pairs:  # each entry is padded with zeros
        after = shape[dim] - start - structure.shape[dim]
        zero = [
            wrap(
                Tensor,
                np.zeros((*values.shape[: dim - count + 1], n, *values.shape[dim - count + 2 :]), np_dtype(values)),
            )
            for n in (start, after)
        ]
        wide.append(ndgrad.cat([zero[0], values, zero[1]], dim - count + 1))
        start += structure.shape[dim]
    return build(ndgrad.cat(wide), Coo(np.concatenate([s.coordinates for s, _ in pairs], axis=1), shape))


def any_differs(x: SparseTensor, y: SparseTensor, dim: int) -> bool:
    return [n for d, n in enumerate(x.shape) if d != dim] != [n for d, n in enumerate(y.shape) if d != dim]


@handles("stack")
def stack(tensors: Tensors, dim: int = 0, *, out: None = None) -> SparseTensor:
    for x in tensors:
        if tuple(x.shape) != tuple(tensors[0].shape):
            raise RuntimeError(
                f"stack(): each tensor must have the same shape, and these have {tuple(tensors[0].shape)} and "
                f"{tuple(x.shape)}. [nd-shape]"
            )
    # A dense tensor among them raises the error of cat.
    rows: list[Any] = [unsqueeze(x, dim) if is_sparse(x) else x for x in tensors]
    return cat(rows, dim)
