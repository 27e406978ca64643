"""What public functions do with nested tensors where their kind does not say it: shapes, parts, products, copies, and
Python's protocols.

Where torch refuses what has a plain meaning for components (`nt[1:]`, a sum over the ragged and a dense dimension), it is
computed here; what would need a second ragged dimension is refused by both.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

import ndgrad
from ndgrad import devices, dtypes
from ndgrad._tensor import Tensor
from ndgrad.api.arguments import as_dim
from ndgrad.arrays.jagged import Layout, RaggedSize, ragged_size
from ndgrad.autograd.variable import Variable, meta_of, np_dtype, wrap
from ndgrad.nested.kinds import along, detached, elementwise, mismatch
from ndgrad.nested.tensor import (
    HANDLERS,
    Batched,
    adopt,
    build,
    by_groups,
    carries,
    constant,
    data_of,
    described,
    handles,
    handles_op,
    is_nested,
    layout_of,
    moved,
    on_values,
    over,
    packed,
    refuse,
    values_of,
)
from ndgrad.ops.vocabulary import tensor_ops as ops

# ----- shapes ---------------------------------------------------------------------------------------------------------


def _refuse_dim(name: str, x: Any, dim: int) -> NoReturn:
    where = "dim=0" if dim == 0 else "ragged dim"
    raise RuntimeError(
        f"{name}(): not supported for NestedTensor on {where} ({described(x)}). Use unbind(), or to_padded_tensor(0.0)."
    )


@handles("transpose", "swapaxes", "swapdims")
def transpose(input: Any, dim0: int, dim1: int) -> Any:
    a, b = as_dim(dim0, input.ndim), as_dim(dim1, input.ndim)
    dims = list(range(input.ndim))
    dims[a], dims[b] = dims[b], dims[a]
    return _permuted("Transpose", input, dims)


@handles("permute")
def permute(input: Any, *dims: Any, **keyword: Any) -> Any:
    given = keyword.get("dims", dims)
    if len(given) == 1 and not isinstance(given[0], int):
        given = given[0]
    return _permuted("Permute", input, [as_dim(d, input.ndim) for d in given])


def _permuted(name: str, x: Any, dims: list[int]) -> Any:
    if sorted(dims) != list(range(x.ndim)):
        raise RuntimeError(f"{name.lower()}(): {tuple(dims)} are not the dimensions of {described(x)}, each once.")
    if dims[0] != 0:
        raise ValueError(
            f"{name} is not supported on the batch dimension for jagged NT ({described(x)}, dims {tuple(dims)}). Use "
            "unbind(), or to_padded_tensor(0.0)."
        )
    if dims == list(range(x.ndim)):
        return build(values_of(x), layout_of(x))
    layout = layout_of(x)
    values = ops.permute(values_of(x), dims=tuple(d - 1 for d in dims[1:]))
    return build(values, layout.at(dims.index(layout.dim)))


@handles_op("permute")
def _permute_op(x: Any, *, dims: Any) -> Any:
    return _permuted("Permute", x, list(dims))


@handles_op("transpose")
def _transpose_op(x: Any, *, dim0: int, dim1: int) -> Any:
    return transpose(x, dim0, dim1)


def _sizes(given: tuple[Any, ...]) -> tuple[Any, ...]:
    if len(given) == 1 and isinstance(given[0], (tuple, list)):
        given = tuple(given[0])
    return given


@handles("view", "reshape")
def view(input: Any, *shape: Any, **keyword: Any) -> Any:
    """The sizes before the ragged one and those after it, each among themselves, in another way. The ragged one is
    named by its symbol or by -1."""
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
        values = ops.reshape(values_of(input), shape=(*_filled(lead, before), inner[at], *_filled(rest, after)))
        return build(values, layout.at(place))
    raise RuntimeError(
        f"view(): cannot view shape {tuple(input.shape)} as {list(sizes)} ({described(input)}). The batch and the ragged "
        "size stay (as -1, or as size(dim)), and the sizes before and after it are divided among themselves."
    )


def _fits(sizes: tuple[Any, ...], count: int) -> bool:
    known = math.prod(s for s in sizes if s != -1)
    unknown = sum(s == -1 for s in sizes)
    return known == count if not unknown else unknown == 1 and known > 0 and count % known == 0


def _filled(sizes: tuple[Any, ...], count: int) -> tuple[int, ...]:
    known = math.prod(s for s in sizes if s != -1)
    return tuple(count // max(known, 1) if s == -1 else s for s in sizes)


@handles("view_as", "reshape_as")
def view_as(self: Any, other: Any) -> Any:
    return view(self, tuple(other.shape))


@handles("flatten")
def flatten(input: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    first, last = as_dim(start_dim, input.ndim), as_dim(end_dim, input.ndim)
    if first == 0:
        _refuse_dim("flatten", input, 0)
    if first <= layout_of(input).dim <= last and first != last:
        _refuse_dim("flatten", input, layout_of(input).dim)
    shape = tuple(input.shape)
    return view(input, (*shape[:first], math.prod(shape[first : last + 1]), *shape[last + 1 :]))


@handles("unflatten")
def unflatten(input: Any, dim: int, sizes: Any) -> Any:
    at, shape = as_dim(dim, input.ndim), tuple(input.shape)
    if at == 0 or at == layout_of(input).dim:
        raise RuntimeError(
            f"unflatten: Provided sizes {list(sizes)} don't multiply up to the size of dim {at} ({shape[at]!r}) in the "
            f"input tensor ({described(input)}). Divide a dense dimension."
        )
    return view(input, (*shape[:at], *_filled(tuple(sizes), shape[at]), *shape[at + 1 :]))


@handles("expand", "broadcast_to")
def expand(self: Any, *size: Any, **keyword: Any) -> Any:
    sizes = _sizes(size or tuple(keyword.values()))
    layout, shape = layout_of(self), tuple(self.shape)
    if not is_nested(self) or len(sizes) != self.ndim or any(
        s not in (-1, n) and (n != 1 or isinstance(s, RaggedSize)) for s, n in zip(sizes, shape, strict=True)
    ):
        raise RuntimeError(
            f"expand(): {described(self)} cannot be expanded to {list(sizes)}. The batch and the ragged size stay, and "
            "only dense sizes of 1 are repeated."
        )
    values = values_of(self)
    target = [n if s == -1 or isinstance(s, RaggedSize) else s for s, n in zip(sizes[1:], values.shape, strict=True)]
    return build(ops.expand(values, shape=tuple(target)), layout)


@handles("expand_as")
def expand_as(self: Any, other: Any) -> Any:
    if not is_nested(self):
        return ndgrad.add(self, ndgrad.zeros_like(other, dtype=self.dtype))
    return expand(self, tuple(other.shape))


@handles("squeeze")
def squeeze(input: Any, dim: Any = None) -> Any:
    chosen = range(1, input.ndim) if dim is None else [dim] if isinstance(dim, int) else dim
    wanted = sorted(as_dim(d, input.ndim) for d in chosen)
    shape, layout = tuple(input.shape), layout_of(input)
    gone = [d for d in wanted if d not in (0, layout.dim) and shape[d] == 1]
    if 0 in wanted:
        _refuse_dim("squeeze", input, 0)
    kept = tuple(n for d, n in enumerate(values_of(input).shape) if d + 1 not in gone)
    return build(ops.reshape(values_of(input), shape=kept), layout.at(layout.dim - sum(d < layout.dim for d in gone)))


@handles("contiguous")
def contiguous(self: Any, memory_format: Any = None) -> Any:
    if is_contiguous(self):
        return self
    layout, values = packed(self)
    return build(values.contiguous(), layout)


@handles("is_contiguous")
def is_contiguous(self: Any, memory_format: Any = None) -> bool:
    layout, values = layout_of(self), data_of(self).values
    return layout.packed and layout.dim == 1 and bool(values.is_contiguous() if carries(self) else values.flags.c_contiguous)


@handles("stride")
def stride(self: Any, dim: int | None = None) -> Any:
    inner = values_of(self).stride()
    whole = layout_of(self).size * max((n * s for n, s in zip(values_of(self).shape[1:], inner[1:], strict=True)), default=1)
    found = (whole, *inner)
    return found if dim is None else found[as_dim(dim, self.ndim)]


@handles("size")
def size(self: Any, dim: int | None = None) -> Any:
    return self.shape if dim is None else tuple.__getitem__(self.shape, as_dim(dim, self.ndim))


@handles("is_same_size")
def is_same_size(input: Any, other: Any) -> bool:
    return tuple(input.shape) == tuple(other.shape)


# ----- parts ----------------------------------------------------------------------------------------------------------


def component(x: Any, number: int) -> Any:
    """One component, a view of the values."""
    layout = layout_of(x)
    count = layout.batch
    if not -count <= number < count:
        raise IndexError(f"index {number} is out of range for dimension 0 with size {count} ({described(x)})")
    start = int(layout.offsets[number % count])
    length = int(layout.size.lengths[number % count])
    return ops.slice(values_of(x), dim=layout.dim - 1, start=start, stop=start + length, step=1)


@handles("unbind")
def unbind(input: Any, dim: int = 0) -> Any:
    if as_dim(dim, input.ndim) != 0:
        raise RuntimeError(
            f"unbind(): only supported for NestedTensor on dim=0 ({described(input)}, dim={dim}). Unbind the values(), "
            "or use select()."
        )
    layout, values = layout_of(input), values_of(input)
    starts, lengths = layout.offsets[:-1].tolist(), layout.size.lengths.tolist()
    at = layout.dim - 1
    if layout.packed and lengths:
        return tuple(ops.split_with_sizes(values, sizes=tuple(lengths), dim=at))
    return tuple(
        ops.slice(values, dim=at, start=start, stop=start + n, step=1) for start, n in zip(starts, lengths, strict=True)
    )


def some(x: Any, numbers: Any) -> Any:
    """The components with these numbers, as a nested tensor."""
    layout = layout_of(x)
    starts, lengths = layout.offsets[:-1].astype(np.int64)[numbers], layout.size.lengths[numbers]
    size = ragged_size(lengths)
    rows = np.repeat(starts, lengths) + size.positions
    return build(ops.index_select(values_of(x), constant(rows), dim=layout.dim - 1), Layout(size, layout.dim))


@handles("select")
def select(input: Any, dim: int, index: int) -> Any:
    at = as_dim(dim, input.ndim)
    if at == 0:
        return component(input, int(index))
    if at == layout_of(input).dim:
        _refuse_dim("select", input, at)
    return along(
        "select", lambda x, dims: ndgrad.select(x, dims, index), (input,), at, reduces=False
    )  # the values', one dimension further left


@handles("index_select")
def index_select(input: Any, dim: int, index: Any) -> Any:
    at = as_dim(dim, input.ndim)
    if at == 0:
        return some(input, np.asarray(index.detach()._array))
    if at == layout_of(input).dim:
        _refuse_dim("index_select", input, at)
    return on_values_at(lambda v, d: ndgrad.index_select(v, d, index), input, at)


def on_values_at(function: Callable[[Any, int], Any], x: Any, dim: int) -> Any:
    """A function of the values along a dense dimension of a nested tensor, which keeps the number of dimensions."""
    return build(function(values_of(x), dim - 1), layout_of(x))


@handles("narrow")
def narrow(input: Any, dim: int, start: Any, length: int) -> Any:
    at = as_dim(dim, input.ndim)
    if at == 0:
        return some(input, np.arange(input.shape[0])[int(start) : int(start) + length])
    if at == layout_of(input).dim:
        _refuse_dim("narrow", input, at)
    return on_values_at(lambda v, d: ndgrad.narrow(v, d, start, length), input, at)


def _cut(name: str, function: Callable[..., Any], x: Any, given: Any, dim: int) -> Any:
    at = as_dim(dim, x.ndim)
    if at == 0:
        parts = function(constant(np.arange(x.shape[0])), given, 0)
        return tuple(some(x, p._array) for p in parts)
    if at == layout_of(x).dim:
        _refuse_dim(name, x, at)
    return tuple(build(v, layout_of(x)) for v in function(values_of(x), given, at - 1))


@handles("chunk")
def chunk(input: Any, chunks: int, dim: int = 0) -> Any:
    return _cut("chunk", ndgrad.chunk, input, chunks, dim)


@handles("split")
def split(tensor: Any, split_size_or_sections: Any = None, dim: int = 0, **keyword: Any) -> Any:
    given = next(iter(keyword.values())) if split_size_or_sections is None else split_size_or_sections
    return _cut("split", ndgrad.split, tensor, given, dim)


@handles("split_with_sizes")
def split_with_sizes(input: Any, split_sizes: Any, dim: int = 0) -> Any:
    return _cut("split_with_sizes", ndgrad.split_with_sizes, input, split_sizes, dim)


@handles("tensor_split")
def tensor_split(input: Any, indices_or_sections: Any, dim: int = 0) -> Any:
    return _cut("tensor_split", ndgrad.tensor_split, input, indices_or_sections, dim)


def _joined(name: str, function: Callable[..., Any], tensors: Any, dim: int, adds: int) -> Any:
    first = next(t for t in tensors if is_nested(t))
    at = as_dim(dim, first.ndim + adds)
    call = lambda *parts, dims: function(parts, dims)  # noqa: E731  # as `along` calls it
    return along(name, call, tuple(tensors), at, reduces=False, adds=bool(adds))


@handles("cat", "concat", "concatenate")
def cat(tensors: Any, dim: int = 0) -> Any:
    return _joined("cat", ndgrad.cat, tensors, dim, 0)


@handles("stack")
def stack(tensors: Any, dim: int = 0) -> Any:
    return _joined("stack", ndgrad.stack, tensors, dim, 1)


@handles("__getitem__")
def getitem(self: Any, index: Any) -> Any:
    """`nt[i]` is a component, `nt[a:b]` and `nt[numbers]` are some of them; what comes after the ragged dimension is an
    index of the values."""
    if not is_nested(self):
        refuse("a nested tensor as an index", (self, index), {})
    parts = list(index) if isinstance(index, tuple) else [index]
    taken = sum(p is not None and p is not Ellipsis for p in parts)
    if Ellipsis in [p if p is Ellipsis else None for p in parts]:
        at = next(i for i, p in enumerate(parts) if p is Ellipsis)
        parts[at : at + 1] = [slice(None)] * (self.ndim - taken)
    first = parts[0]
    layout = layout_of(self)
    if isinstance(first, (int, np.integer)) and not isinstance(first, bool):
        inner = component(self, int(first))
        return inner[tuple(parts[1:])] if parts[1:] else inner
    if first is None:
        _refuse_dim("unsqueeze", self, 0)
    if isinstance(first, slice) and first == slice(None):
        x = self
    elif isinstance(first, slice):
        x = some(self, np.arange(layout.batch)[first])
    elif isinstance(first, (list, np.ndarray, Tensor)) and not is_nested(first):
        x = some(self, np.asarray(first.detach()._array if isinstance(first, Tensor) else first))
    else:
        refuse("indexing", (self, first), {})
    rest, place, seen = parts[1:], 0, 1
    for position, part in enumerate(rest):
        if part is None:
            place += seen <= layout.dim
            continue
        if seen == layout.dim:
            if not (isinstance(part, slice) and part == slice(None)):
                _refuse_dim("slice" if isinstance(part, slice) else "select", self, layout.dim)
            place += 1
            rest[position] = slice(None)
        elif isinstance(part, (int, np.integer, slice)):
            place += isinstance(part, slice) and seen < layout.dim
        else:
            refuse("indexing by a tensor beside the batch", (self,), {})
        seen += 1
    if seen <= layout.dim:
        place = layout.dim + sum(p is None for p in rest) - sum(isinstance(p, (int, np.integer)) for p in rest)
    if not rest:
        return build(values_of(x), layout_of(x)) if x is self else x
    return build(values_of(x)[tuple(rest)], layout_of(x).at(place))


@handles("__setitem__")
def setitem(self: Any, index: Any, value: Any) -> NoReturn:
    refuse("writing by index", (self,), {})


# ----- products -------------------------------------------------------------------------------------------------------


@handles("matmul", "__matmul__", "bmm")
def matmul(input: Any, other: Any, *, out: None = None) -> Any:
    if not isinstance(other, Variable) or not isinstance(input, Variable):
        raise TypeError(f"matmul(): an operand is {type(other).__name__}. Wrap arrays with ndgrad.as_tensor(...).")
    left, right = _from_the_right(input), _from_the_right(other)
    batch = input.shape[0] if is_nested(input) else other.shape[0]
    if left is not None and right is not None:
        if layout_of(input).size != layout_of(other).size or input.ndim != other.ndim:
            _no_product(input, other)
        if left == right and left > 2:  # the ragged dimension is one of the batch
            return build(packed(input)[1] @ packed(other)[1], packed(input)[0])
        if left == 1 and right == 2:  # it is summed over
            return by_groups("matmul", ndgrad.matmul, [input, other], None)
        _no_product(input, other)
    nested, dense = (input, other) if left is not None else (other, input)
    place = left if left is not None else right
    if dense.ndim > nested.ndim or dense.ndim < 2 or place == (1 if left is not None else 2):
        _no_product(input, other)
    if dense.ndim == 2 and left is not None:
        layout, values = packed(nested)
        return build(values @ dense, layout)
    if dense.ndim == nested.ndim and dense.shape[0] == batch and batch != 1:
        dense = Batched(dense)
    elif dense.ndim == nested.ndim and dense.shape[0] != 1:
        _no_product(input, other)
    operands = [nested, dense] if left is not None else [dense, nested]
    return by_groups("matmul", ndgrad.matmul, operands, layout_of(nested).dim)


HANDLERS["__rmatmul__"] = lambda self, other: matmul(other, self)


@handles_op("matmul")
def _matmul_op(x: Any, y: Any) -> Any:
    return matmul(x, y)


def _from_the_right(t: Any) -> int | None:
    """Which dimension is ragged, counted from the last one, which is 1."""
    return t.ndim - layout_of(t).dim if is_nested(t) else None


def _no_product(x: Any, y: Any) -> NoReturn:
    raise RuntimeError(
        f"matmul(): not supported between inputs of shapes {tuple(x.shape)} and {tuple(y.shape)}: {described(x)} beside "
        f"{described(y)}. A product may have one ragged dimension, or sum over one that both have; else use "
        "to_padded_tensor(0.0), or scaled_dot_product_attention()."
    )


def dense_last(name: str, x: Any, count: int) -> None:
    """Raise unless the last `count` dimensions are dense."""
    if layout_of(x).dim >= x.ndim - count:
        raise RuntimeError(
            f"{name}(): the last {count} dimension{'s' if count > 1 else ''} of a nested tensor must be dense, and this is "
            f"{described(x)}. transpose() it first."
        )


@handles("linear")
def linear(input: Any, weight: Any, bias: Any = None) -> Any:
    if not is_nested(input):
        refuse("linear", (input, weight), {})
    dense_last("linear", input, 1)
    layout, values = packed(input)
    return build(ndgrad.nn.functional.linear(values, weight, bias), layout)


@handles("layer_norm")
def layer_norm(
    input: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    dense_last("layer_norm", input, len(tuple(normalized_shape)))
    layout, values = packed(input)
    return build(ndgrad.nn.functional.layer_norm(values, normalized_shape, weight, bias, eps), layout)


@handles("rms_norm")
def rms_norm(input: Any, normalized_shape: Any, weight: Any = None, eps: float | None = None) -> Any:
    dense_last("rms_norm", input, len(tuple(normalized_shape)))
    layout, values = packed(input)
    return build(ndgrad.nn.functional.rms_norm(values, normalized_shape, weight, eps), layout)


@handles("embedding")
def embedding(input: Any, weight: Any, *args: Any, **options: Any) -> Any:
    if not is_nested(input):
        refuse("embedding", (input, weight), {})
    layout, values = packed(input)
    return build(ndgrad.nn.functional.embedding(values, weight, *args, **options), layout)


@handles("one_hot")
def one_hot(input: Any, num_classes: int = -1) -> Any:
    layout, values = packed(input)
    return build(ndgrad.nn.functional.one_hot(values, num_classes), layout)


@handles("dropout", "alpha_dropout", "feature_alpha_dropout")
def dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    made = on_values(lambda v: ndgrad.nn.functional.dropout(v, p, training), input)
    return adopt("dropout_", input, made) if inplace else made


# ----- sorting, and comparing as a whole --------------------------------------------------------------------------------


@handles("topk")
def topk(input: Any, k: int, dim: int = -1, *args: Any, **options: Any) -> Any:
    at = as_dim(dim, input.ndim)
    if at in (0, layout_of(input).dim):
        _refuse_dim("topk", input, at)
    return along("topk", lambda x, dims: ndgrad.topk(x, k, dims, *args, **options), (input,), at, reduces=False)


@handles("equal")
def equal(input: Any, other: Any) -> bool:
    if not (is_nested(input) and is_nested(other)) or tuple(input.shape) != tuple(other.shape):
        return False
    return bool(ndgrad.equal(packed(input)[1], packed(other)[1]))


@handles("allclose")
def allclose(input: Any, other: Any, *args: Any, **options: Any) -> bool:
    if not isinstance(other, Variable):
        raise TypeError(f"allclose(): argument 'other' must be Tensor, not {type(other).__name__}.")
    if not (is_nested(input) and is_nested(other)) or tuple(input.shape) != tuple(other.shape):
        mismatch("allclose", input, other)
    return bool(ndgrad.allclose(packed(input)[1], packed(other)[1], *args, **options))


# ----- dtypes, copies, tensors like it --------------------------------------------------------------------------------


@handles("clone")
def clone(input: Any, *, memory_format: Any = None) -> Any:
    if memory_format is devices.contiguous_format:
        layout, values = packed(input)
        return build(ops.clone(values), layout)
    return on_values(ops.clone, input)


HANDLERS["detach"] = detached


@handles("to")
def to(self: Any, *args: Any, **options: Any) -> Any:
    if not is_nested(self):  # dense.to(nested)
        return self.to(dtype=(args[0] if args else options["other"]).dtype)
    if args and is_nested(args[0]):
        args = (args[0].dtype, *args[1:])
    values = values_of(self)
    made = values.to(*args, **options)
    return self if made is values else build(made, layout_of(self))


def _cast(name: str) -> Any:
    method = getattr(Tensor, name)

    def handler(self: Any, *args: Any) -> Any:
        values = values_of(self)
        made = method(values, *args)
        return self if made is values else build(made, layout_of(self))

    return handler


for _name in "bfloat16 bool byte cdouble cfloat char double float half int long short cpu pin_memory".split():
    if hasattr(Tensor, _name):
        HANDLERS[_name] = _cast(_name)


@handles("type_as")
def type_as(self: Any, other: Any) -> Any:
    return to(self, other.dtype)


def _like(name: str) -> Any:
    function = getattr(ndgrad, name)

    def handler(input: Any, *args: Any, **options: Any) -> Any:
        if options.pop("layout", None) not in (None, devices.jagged):
            refuse(f"{name} in another layout", (input,), {})
        leaf = options.pop("requires_grad", False)
        made = build(function(values_of(detached(input)), *args, **options), layout_of(input))
        return made.requires_grad_() if leaf else made

    return handler


for _name in "zeros_like ones_like full_like empty_like rand_like randn_like randint_like".split():
    HANDLERS[_name] = _like(_name)


@handles("copy_")
def copy_(self: Any, src: Any, non_blocking: bool = False) -> Any:
    if not is_nested(self) or not is_nested(src):
        raise RuntimeError(
            f"copy_(): {described(src)} cannot be copied into {described(self)}. Both must be nested: use "
            "as_nested_tensor() or to_padded_tensor() first."
        )
    return adopt("copy_", self, clone(src))


def _written(name: str) -> Any:
    """A method that fills the values anew."""
    method = getattr(Tensor, name)

    def handler(self: Any, *args: Any, **options: Any) -> Any:
        fresh = method(ndgrad.zeros_like(values_of(detached(self))), *args, **options)
        return adopt(name, self, build(fresh, layout_of(self)))

    return handler


for _name in "zero_ fill_ normal_ uniform_ bernoulli_ exponential_ random_".split():
    HANDLERS[_name] = _written(_name)


@handles("masked_fill")
def masked_fill(input: Any, mask: Any, value: Any) -> Any:
    return elementwise("masked_fill", ndgrad.masked_fill, (input, mask, value), {})


@handles("to_padded_tensor")
def to_padded_tensor(self: Any, padding: float, output_size: Any = None) -> Any:
    """The components side by side in a dense tensor, with `padding` where they are shorter."""
    layout, values = packed(self)
    size, dim = layout.size, layout.dim
    width = size.longest
    if output_size is not None:
        wanted = tuple(int(n) for n in output_size)
        shape = tuple(self.shape)
        if len(wanted) != self.ndim or any(d != dim and wanted[d] != shape[d] for d in range(self.ndim)):
            raise RuntimeError(
                f"to_padded_tensor(): {described(self)} cannot be padded to {wanted}: only the ragged dimension {dim} is."
            )
        width = wanted[dim]
    rows = moved(values, dim - 1, 0)
    tail = tuple(rows.shape[1:])
    filler = wrap(Tensor, np.full((1, *tail), padding, np_dtype(self)))
    places = np.full((layout.batch, width), size.total, np.int64)
    inside = size.positions < width
    places[size.components[inside], size.positions[inside]] = np.flatnonzero(inside)
    found = ops.index_select(ops.cat(rows, filler, dim=0), constant(places.reshape(-1)), dim=0)
    return moved(ops.reshape(found, shape=(layout.batch, width, *tail)), 1, dim)


def _refused(name: str) -> Any:
    """What has no meaning, or another one than its body would come to."""
    return lambda *args, **options: refuse(name, args, options)


for _name in "new nuclear_norm from_dlpack __dlpack__ dense_dim sparse_dim set_ resize_ resize_as_ as_strided".split():
    HANDLERS[_name] = _refused(_name)


# ----- Python's protocols ---------------------------------------------------------------------------------------------


@handles("values")
def values(self: Any) -> Any:
    return values_of(self)


@handles("numpy", "__array__", "tolist")
def numpy(self: Any, *args: Any, **options: Any) -> NoReturn:
    raise RuntimeError(
        f".numpy() and .tolist() are not supported for nested tensors ({described(self)}). Use values(), "
        "[c.numpy() for c in nt.unbind()], or to_padded_tensor(0.0)."
    )


@handles("item")
def item(self: Any) -> Any:
    if self.numel() != 1:
        raise RuntimeError(
            f"a Tensor with {self.numel()} elements cannot be converted to Scalar ({described(self)}). Reduce it first."
        )
    return packed(self)[1].item()


@handles("__bool__", "is_nonzero")
def truth(self: Any) -> bool:
    if self.numel() != 1:
        raise RuntimeError(
            f"Boolean value of Tensor with more than one value is ambiguous ({described(self)}). Use any() or all()."
        )
    return bool(item(self))


HANDLERS["__float__"] = lambda self: float(item(self))
HANDLERS["__int__"] = lambda self: int(item(self))
HANDLERS["__complex__"] = lambda self: complex(item(self))


@handles("numel", "nelement")
def numel(self: Any) -> int:
    return data_of(self).size


@handles("data_ptr", "storage", "untyped_storage", "storage_offset")
def without_memory(self: Any, *args: Any, **options: Any) -> NoReturn:
    raise RuntimeError(f"{described(self)} has no memory of its own shape. Ask its values().")


def _passed_on(name: str) -> Any:
    """A method that says the same of every layout."""
    function = getattr(Tensor, name)
    return getattr(function, "__wrapped__", function)


for _name in (
    "__len__ backward dim element_size get_device is_complex is_floating_point is_inference is_signed ndimension "
    "register_hook register_post_accumulate_grad_hook requires_grad_ retain_grad detach_"
).split():
    if hasattr(Tensor, _name):
        HANDLERS[_name] = _passed_on(_name)
HANDLERS["is_tensor"] = lambda obj: True
HANDLERS["as_tensor"] = lambda data, dtype=None, device=None: to(data, dtype=dtype, device=device)


@handles("__deepcopy__")
def deepcopy(self: Any, memo: dict[int, Any]) -> Any:
    if id(self) in memo:
        return memo[id(self)]
    if self._node is not None or carries(self):
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment: "
            f"this one ({described(self)}) was computed by {self._node}. Use clone(), or detach() it first."
        )
    memo[id(self)] = made = over(data_of(self).copy())
    if self._meta is not None:
        meta_of(made).requires_grad = self._meta.requires_grad
        if self._meta.grad is not None:
            meta_of(made).grad = self._meta.grad.clone()
    return made


@handles("__repr__")
def text(self: Any) -> str:
    """As torch prints it: the size, the offsets, and what else is to be said."""
    layout = layout_of(self)
    offsets = repr(constant(layout.offsets))
    suffix = ""
    if self._node is not None:
        suffix = f", grad_fn=<{self._node.name()}>"
    elif self.requires_grad:
        suffix = ", requires_grad=True"
    return f"NestedTensor(size={tuple(self.shape)}, offsets={offsets}{suffix}, contiguous={is_contiguous(self)})"

