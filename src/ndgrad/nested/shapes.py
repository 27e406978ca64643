"""Shapes, parts and joins of nested tensors: functions that move dimensions, take components and concatenate tensors.

Operations with a clear meaning for components (`nt[1:]`) work here even if torch refuses them. Both refuse results with
a second ragged dimension.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

import ndgrad
from ndgrad._src.arrays import dtypes
from ndgrad._src.arrays.integers import as_places
from ndgrad._src.arrays.jagged import Layout, RaggedSize, ragged_size
from ndgrad._src.ops.vocabulary import tensor_ops as ops
from ndgrad._src.tensor.arguments import as_dim
from ndgrad._src.tensor.structured import carries, constant
from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad.nested.kinds import apply_along
from ndgrad.nested.tensor import (
    build,
    data_of,
    described,
    handles,
    handles_op,
    is_nested,
    layout_of,
    on_values,
    pack,
    refuse,
    values_of,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ndgrad._typing import Index, MemoryFormat, TensorLike, Tensors
    from ndgrad.nested.tensor import NestedTensor

# ----- shapes ---------------------------------------------------------------------------------------------------------


def refuse_dim(name: str, x: NestedTensor, dim: int) -> NoReturn:
    where = "dim=0" if dim == 0 else "ragged dim"
    raise RuntimeError(
        f"{name}(): not supported for NestedTensor on {where} ({described(x)}). "
        "Use unbind(), or to_padded_tensor(0.0). [nd-nested]"
    )


@handles("transpose", "swapaxes", "swapdims")
def transpose(input: NestedTensor, dim0: int, dim1: int) -> NestedTensor:
    a, b = as_dim(dim0, input.ndim), as_dim(dim1, input.ndim)
    dims = list(range(input.ndim))
    dims[a], dims[b] = dims[b], dims[a]
    return _permuted("Transpose", input, dims)


@handles("permute")
def permute(input: NestedTensor, *dims: Any, **keyword: Any) -> NestedTensor:
    given = keyword.get("dims", dims)
    if len(given) == 1 and not isinstance(given[0], int):
        given = given[0]
    return _permuted("Permute", input, [as_dim(d, input.ndim) for d in given])


def _permuted(name: str, x: NestedTensor, dims: list[int]) -> NestedTensor:
    if sorted(dims) != list(range(x.ndim)):
        raise RuntimeError(
            f"{name.lower()}(): {tuple(dims)} are not the dimensions of {described(x)}, each once. [nd-dim]"
        )
    if dims[0] != 0:
        raise ValueError(
            f"{name} is not supported on the batch dimension for jagged NT ({described(x)}, dims {tuple(dims)}). Use "
            "unbind(), or to_padded_tensor(0.0). [nd-nested]"
        )
    if dims == list(range(x.ndim)):
        return build(values_of(x), layout_of(x))
    layout = layout_of(x)
    values = ops.permute(values_of(x), dims=tuple(d - 1 for d in dims[1:]))
    return build(values, layout.with_dim(dims.index(layout.dim)))


@handles_op("permute")
def _permute_op(x: NestedTensor, *, dims: Sequence[int]) -> NestedTensor:
    return _permuted("Permute", x, list(dims))


@handles_op("transpose")
def _transpose_op(x: NestedTensor, *, dim0: int, dim1: int) -> NestedTensor:
    return transpose(x, dim0, dim1)


def _sizes(given: tuple[Any, ...]) -> tuple[Any, ...]:
    if len(given) == 1 and isinstance(given[0], (tuple, list)):
        given = tuple(given[0])
    return given


@handles("view", "reshape")
def view(input: NestedTensor, *shape: Any, **keyword: Any) -> NestedTensor:
    """Reshape the dimensions before and after the ragged one, separately. The ragged size is given by its symbol or by
    -1.
    """
    sizes = _sizes(shape or tuple(keyword.values()))
    if len(sizes) == 1 and isinstance(sizes[0], dtypes.dtype):
        return on_values(lambda v: v.view(sizes[0]), input)
    layout, inner = layout_of(input), tuple(values_of(input).shape)
    at = layout.dim - 1
    before, after = math.prod(inner[:at]), math.prod(inner[at + 1 :])
    for place in range(1, len(sizes)):
        lead, rest = sizes[1:place], sizes[place + 1 :]
        if not (sizes[place] == -1 or sizes[place] == layout.size):
            continue
        if any(isinstance(s, RaggedSize) for s in (*lead, *rest)) or sizes[0] not in (layout.batch, -1):
            continue
        if not _fits(lead, before) or not _fits(rest, after):
            continue
        shape = (*_infer_sizes(lead, before), inner[at], *_infer_sizes(rest, after))
        values = ops.reshape(values_of(input), shape=shape)
        return build(values, layout.with_dim(place))
    raise RuntimeError(
        f"view(): cannot view shape {tuple(input.shape)} as {list(sizes)} ({described(input)}). The batch and the "
        "ragged size stay (as -1, or as size(dim)), and the sizes before and after it are divided among themselves. "
        "[nd-nested]"
    )


def _fits(sizes: tuple[Any, ...], count: int) -> bool:
    known = math.prod(s for s in sizes if s != -1)
    unknown = sum(s == -1 for s in sizes)
    return known == count if not unknown else unknown == 1 and known > 0 and count % known == 0


def _infer_sizes(sizes: tuple[Any, ...], count: int) -> tuple[int, ...]:
    known = math.prod(s for s in sizes if s != -1)
    return tuple(count // max(known, 1) if s == -1 else s for s in sizes)


@handles("view_as", "reshape_as")
def view_as(self: NestedTensor, other: NestedTensor) -> NestedTensor:
    return view(self, tuple(other.shape))


@handles("flatten")
def flatten(input: NestedTensor, start_dim: int = 0, end_dim: int = -1) -> NestedTensor:
    first, last = as_dim(start_dim, input.ndim), as_dim(end_dim, input.ndim)
    if first == 0:
        refuse_dim("flatten", input, 0)
    if first <= layout_of(input).dim <= last and first != last:
        refuse_dim("flatten", input, layout_of(input).dim)
    shape = tuple(input.shape)
    return view(input, (*shape[:first], math.prod(shape[first : last + 1]), *shape[last + 1 :]))


@handles("unflatten")
def unflatten(input: NestedTensor, dim: int, sizes: Sequence[int]) -> NestedTensor:
    at, shape = as_dim(dim, input.ndim), tuple(input.shape)
    if at == 0 or at == layout_of(input).dim:
        raise RuntimeError(
            f"unflatten: Provided sizes {list(sizes)} don't multiply up to the size of dim {at} ({shape[at]!r}) in the "
            f"input tensor ({described(input)}). Divide a dense dimension. [nd-nested]"
        )
    return view(input, (*shape[:at], *_infer_sizes(tuple(sizes), shape[at]), *shape[at + 1 :]))


@handles("expand", "broadcast_to")
def expand(self: Tensor, *size: Any, **keyword: Any) -> NestedTensor:
    sizes = _sizes(size or tuple(keyword.values()))
    layout, shape = layout_of(self), tuple(self.shape)
    if (
        not is_nested(self)
        or len(sizes) != self.ndim
        or any(s not in (-1, n) and (n != 1 or isinstance(s, RaggedSize)) for s, n in zip(sizes, shape, strict=True))
    ):
        raise RuntimeError(
            f"expand(): {described(self)} cannot be expanded to {list(sizes)}. The batch and the ragged size stay, and "
            "only dense sizes of 1 are repeated. [nd-nested]"
        )
    values = values_of(self)
    target = [n if s == -1 or isinstance(s, RaggedSize) else s for s, n in zip(sizes[1:], values.shape, strict=True)]
    return build(ops.expand(values, shape=tuple(target)), layout)


@handles("expand_as")
def expand_as(self: Tensor, other: NestedTensor) -> Tensor:
    if not is_nested(self):
        return ndgrad.add(self, ndgrad.zeros_like(other, dtype=self.dtype))
    return expand(self, tuple(other.shape))


@handles("squeeze")
def squeeze(input: NestedTensor, dim: int | tuple[int, ...] | None = None) -> NestedTensor:
    chosen = range(1, input.ndim) if dim is None else [dim] if isinstance(dim, int) else dim
    wanted = sorted(as_dim(d, input.ndim) for d in chosen)
    shape, layout = tuple(input.shape), layout_of(input)
    gone = [d for d in wanted if d not in (0, layout.dim) and shape[d] == 1]
    if 0 in wanted:
        refuse_dim("squeeze", input, 0)
    kept = tuple(n for d, n in enumerate(values_of(input).shape) if d + 1 not in gone)
    return build(
        ops.reshape(values_of(input), shape=kept), layout.with_dim(layout.dim - sum(d < layout.dim for d in gone))
    )


@handles("contiguous")
def contiguous(self: NestedTensor, memory_format: MemoryFormat = None) -> NestedTensor:
    if is_contiguous(self):
        return self
    layout, values = pack(self)
    return build(values.contiguous(), layout)


@handles("is_contiguous")
def is_contiguous(self: NestedTensor, memory_format: MemoryFormat = None) -> bool:
    layout, values = layout_of(self), data_of(self).values
    return (
        layout.packed
        and layout.dim == 1
        and bool(values.is_contiguous() if carries(self) else values.flags.c_contiguous)
    )


@handles("stride")
def stride(self: NestedTensor, dim: int | None = None) -> tuple[RaggedSize | int, ...] | RaggedSize | int:
    inner = values_of(self).stride()
    whole = layout_of(self).size * max(
        (n * s for n, s in zip(values_of(self).shape[1:], inner[1:], strict=True)), default=1
    )
    found: tuple[RaggedSize | int, ...] = (whole, *inner)
    return found if dim is None else found[as_dim(dim, self.ndim)]


@handles("size")
def size(self: NestedTensor, dim: int | None = None) -> Any:
    return self.shape if dim is None else tuple.__getitem__(self.shape, as_dim(dim, self.ndim))


@handles("is_same_size")
def is_same_size(input: Tensor, other: Tensor) -> bool:
    return tuple(input.shape) == tuple(other.shape)


# ----- parts ----------------------------------------------------------------------------------------------------------


def component(x: NestedTensor, number: int) -> Tensor:
    """Return one component, a view of the values."""
    layout = layout_of(x)
    count = layout.batch
    if not -count <= number < count:
        raise IndexError(
            f"index {number} is out of range for dimension 0 with size {count} ({described(x)}) [nd-index]"
        )
    start = int(layout.offsets[number % count])
    length = int(layout.size.lengths[number % count])
    return ops.slice(values_of(x), dim=layout.dim - 1, start=start, stop=start + length, step=1)


@handles("unbind")
def unbind(input: NestedTensor, dim: int = 0) -> tuple[Tensor, ...]:
    if as_dim(dim, input.ndim) != 0:
        raise RuntimeError(
            f"unbind(): only supported for NestedTensor on dim=0 ({described(input)}, dim={dim}). Unbind the values(), "
            "or use select(). [nd-nested]"
        )
    layout, values = layout_of(input), values_of(input)
    starts, lengths = layout.offsets[:-1].tolist(), layout.size.lengths.tolist()
    at = layout.dim - 1
    if layout.packed and lengths:
        return tuple(ops.split_with_sizes(values, sizes=tuple(lengths), dim=at))
    return tuple(
        ops.slice(values, dim=at, start=start, stop=start + n, step=1) for start, n in zip(starts, lengths, strict=True)
    )


def some(x: NestedTensor, numbers: NDArray[Any]) -> NestedTensor:
    """Return the components with these numbers, as a nested tensor."""
    layout = layout_of(x)
    starts, lengths = layout.offsets[:-1].astype(np.int64)[numbers], layout.size.lengths[numbers]
    size = ragged_size(lengths)
    rows = np.repeat(starts, as_places(lengths)) + size.positions
    return build(ops.index_select(values_of(x), constant(rows), dim=layout.dim - 1), Layout(size, layout.dim))


@handles("select")
def select(input: NestedTensor, dim: int, index: int) -> Tensor:
    at = as_dim(dim, input.ndim)
    if at == 0:
        return component(input, int(index))
    if at == layout_of(input).dim:
        refuse_dim("select", input, at)
    return apply_along(
        "select", lambda x, dims: ndgrad.select(x, dims, index), (input,), at, reduces=False
    )  # those of the values, one dimension further left


@handles("index_select")
def index_select(input: NestedTensor, dim: int, index: Tensor) -> NestedTensor:
    at = as_dim(dim, input.ndim)
    if at == 0:
        return some(input, np.asarray(index.detach()._array))
    if at == layout_of(input).dim:
        refuse_dim("index_select", input, at)
    return on_values_at(lambda v, d: ndgrad.index_select(v, d, index), input, at)


def on_values_at(function: Callable[[Any, int], Any], x: NestedTensor, dim: int) -> NestedTensor:
    """Apply a function to the values along a dense dimension of a nested tensor; it keeps the number of dimensions."""
    return build(function(values_of(x), dim - 1), layout_of(x))


@handles("narrow")
def narrow(input: NestedTensor, dim: int, start: int, length: int) -> NestedTensor:
    at = as_dim(dim, input.ndim)
    if at == 0:
        return some(input, np.arange(input.shape[0])[int(start) : int(start) + length])
    if at == layout_of(input).dim:
        refuse_dim("narrow", input, at)
    return on_values_at(lambda v, d: ndgrad.narrow(v, d, start, length), input, at)


def _split_values(
    name: str, function: Callable[..., Any], x: NestedTensor, given: int | Sequence[int], dim: int
) -> tuple[NestedTensor, ...]:
    at = as_dim(dim, x.ndim)
    if at == 0:
        parts = function(constant(np.arange(x.shape[0], dtype=np.int64)), given, 0)
        return tuple(some(x, p._array) for p in parts)
    if at == layout_of(x).dim:
        refuse_dim(name, x, at)
    return tuple(build(v, layout_of(x)) for v in function(values_of(x), given, at - 1))


@handles("chunk")
def chunk(input: NestedTensor, chunks: int, dim: int = 0) -> tuple[NestedTensor, ...]:
    return _split_values("chunk", ndgrad.chunk, input, chunks, dim)


@handles("split")
def split(
    tensor: NestedTensor, split_size_or_sections: int | Sequence[int] | None = None, dim: int = 0, **keyword: Any
) -> tuple[NestedTensor, ...]:
    given = next(iter(keyword.values())) if split_size_or_sections is None else split_size_or_sections
    return _split_values("split", ndgrad.split, tensor, given, dim)


@handles("split_with_sizes")
def split_with_sizes(input: NestedTensor, split_sizes: Sequence[int], dim: int = 0) -> tuple[NestedTensor, ...]:
    return _split_values("split_with_sizes", ndgrad.split_with_sizes, input, split_sizes, dim)


@handles("tensor_split")
def tensor_split(
    input: NestedTensor, indices_or_sections: int | Sequence[int], dim: int = 0
) -> tuple[NestedTensor, ...]:
    return _split_values("tensor_split", ndgrad.tensor_split, input, indices_or_sections, dim)


def _join(name: str, function: Callable[..., Any], tensors: Tensors, dim: int, adds: int) -> NestedTensor:
    first = next(t for t in tensors if is_nested(t))
    at = as_dim(dim, first.ndim + adds)

    def call(*parts: Any, dims: int) -> Tensor:
        return function(parts, dims)

    return apply_along(name, call, tuple(tensors), at, reduces=False, adds=bool(adds))


@handles("cat", "concat", "concatenate")
def cat(tensors: Tensors, dim: int = 0) -> NestedTensor:
    return _join("cat", ndgrad.cat, tensors, dim, 0)


@handles("stack")
def stack(tensors: Tensors, dim: int = 0) -> NestedTensor:
    return _join("stack", ndgrad.stack, tensors, dim, 1)


@handles("__getitem__")
def getitem(self: Tensor, index: Index) -> Tensor:
    """Index a nested tensor. `nt[i]` is a component, `nt[a:b]` and `nt[numbers]` are some of them. Indices after the
    batch apply to the values, and leave the ragged dimension whole.
    """
    if not is_nested(self):
        refuse("a nested tensor as an index", (self, index), {})
    parts: list[Any] = list(index) if isinstance(index, tuple) else [index]
    dots = [i for i, p in enumerate(parts) if p is Ellipsis]
    if dots:
        named = sum(p is not None and p is not Ellipsis for p in parts)
        parts[dots[0] : dots[0] + 1] = [slice(None)] * (self.ndim - named)
    first, rest = parts[0], tuple(parts[1:])
    if _is_number(first):
        inner = component(self, int(first))
        return inner[rest] if rest else inner
    x = _some_of(self, first)
    if not rest:
        return build(values_of(x), layout_of(x)) if x is self else x
    place = _ragged_place(self, rest)
    return build(values_of(x)[rest], layout_of(x).with_dim(place))


def _is_number(part: object) -> bool:
    return isinstance(part, (int, np.integer)) and not isinstance(part, bool)


def _is_whole(part: object) -> bool:
    return isinstance(part, slice) and part == slice(None)


def _some_of(x: NestedTensor, part: object) -> NestedTensor:
    """Return the components that an index of the batch selects."""
    if part is None:
        refuse_dim("unsqueeze", x, 0)
    if _is_whole(part):
        return x
    if isinstance(part, slice):
        return some(x, np.arange(layout_of(x).batch)[part])
    if isinstance(part, (list, np.ndarray, Tensor)) and not is_nested(part):
        return some(x, np.asarray(part.detach()._array if isinstance(part, Tensor) else part))
    refuse("indexing", (x, part), {})


def _ragged_place(x: NestedTensor, rest: tuple[Any, ...]) -> int:
    """Return the ragged dimension after an index of the dimensions after the batch: new ones may come before it, and
    numbers remove some.
    """
    dim = layout_of(x).dim
    place, seen = dim, 1
    for part in rest:
        if part is None:
            place += seen <= dim
            continue
        if seen == dim and not _is_whole(part):
            refuse_dim("slice" if isinstance(part, slice) else "select", x, dim)
        if not _is_number(part) and not isinstance(part, slice):
            refuse("indexing by a tensor beside the batch", (x,), {})
        place -= _is_number(part) and seen < dim
        seen += 1
    return place


@handles("__setitem__")
def setitem(self: NestedTensor, index: Index, value: TensorLike) -> NoReturn:
    refuse("writing by index", (self,), {})
