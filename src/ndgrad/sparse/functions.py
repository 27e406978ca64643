"""What public functions do with sparse tensors: elementwise functions, reductions, parts, joins, and Python's
protocols.

Elementwise functions that keep zeros run on the values. Those that move entries run on coordinates, which are NumPy
arrays: the values follow by ordinary indexing, and with them the derivatives.
"""

from __future__ import annotations

import builtins
import math
from typing import Any, NoReturn

import numpy as np

import ndgrad
from ndgrad import devices, dtypes
from ndgrad._tensor import Tensor
from ndgrad.api.arguments import as_dim
from ndgrad.arrays.sparse import TRANSPOSED, Compressed, Coo
from ndgrad.autograd.variable import Variable, meta_of, np_dtype, requires_grad, wrap
from ndgrad.autograd.versions import storage_of
from ndgrad.ops.vocabulary import tensor_ops as ops
from ndgrad.sparse.tensor import (
    HANDLERS,
    add,
    adopt,
    at,
    build,
    carries,
    coalesced,
    compressed,
    constant,
    coo,
    data_of,
    dense,
    entries,
    flat,
    followed,
    handles,
    handles_op,
    is_sparse,
    layout_of,
    like,
    over,
    recording,
    refuse,
    values_of,
    with_sparse_dim,
    zeros,
)

_NUMBERS = (bool, int, float, complex, np.generic)

# ----- elementwise ----------------------------------------------------------------------------------------------------

#: Functions of one argument with f(0) = 0.
KEEPS_ZEROS = (
    "abs absolute angle arcsin arcsinh arctan arctanh asin asinh atan atanh ceil conj conj_physical deg2rad erf "
    "erfinv expm1 fix floor frac isinf isnan isneginf isposinf log1p nan_to_num neg negative positive rad2deg relu "
    "round sgn sign signbit sin sinh sqrt square tan tanh trunc imag real"
).split()
#: Of these, the linear ones: they need not know whether a place is named twice.
_LINEAR = frozenset("conj conj_physical deg2rad neg negative positive rad2deg imag real".split())


def _on_values(name: str) -> Any:
    def handler(input: Any, *args: Any, **options: Any) -> Any:
        if name not in _LINEAR:
            input = coalesced(input)
        structure, values = entries(input)
        if name in ("imag", "real"):
            return build(getattr(values, name), structure)
        function = getattr(ndgrad.nn.functional if name == "relu" else ndgrad, name)
        return build(function(values, *args, **options), structure)

    return handler


for _name in KEEPS_ZEROS:
    HANDLERS[_name] = _on_values(_name)


def _is_number(value: Any) -> bool:
    """Whether a factor is one number: a Python one, or a dense tensor without dimensions."""
    return isinstance(value, _NUMBERS) or (isinstance(value, Variable) and not is_sparse(value) and not value.shape)


def _needs_tensor(name: str, value: Any) -> None:
    if not isinstance(value, (*_NUMBERS, Variable)):
        raise TypeError(f"{name}(): an operand is {type(value).__name__}. Wrap arrays with ndgrad.as_tensor(...).")


@handles("mul", "multiply")
def mul(input: Any, other: Any, *, out: None = None) -> Any:
    for value in (input, other):
        _needs_tensor("mul", value)
    if not is_sparse(input):
        input, other = other, input
    if is_sparse(other):
        return _mul_sparse(input, other)
    structure, values = entries(input)
    if _is_number(other):
        return build(values * other, structure)
    if not _expands_to(tuple(other.shape), tuple(input.shape)):
        raise RuntimeError(
            f"mul(): a {layout_of(input)} tensor of shape {tuple(input.shape)} and a dense one of shape "
            f"{tuple(other.shape)}, which cannot be expanded to it. Convert the sparse one with to_dense() first."
        )
    if tuple(other.shape) != tuple(input.shape):
        other = ops.expand(other, shape=tuple(input.shape))
    return build(values * ops.reshape(at(other, structure), shape=tuple(values.shape)), structure)


def _expands_to(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    lead = len(target) - len(shape)
    return lead >= 0 and all(n in (1, m) for n, m in zip(shape, target[lead:], strict=True))


def _same_kind(name: str, x: Any, y: Any) -> None:
    if tuple(x.shape) != tuple(y.shape):
        raise RuntimeError(
            f"{name}(): expected sizes of 'self' and 'other' to match, but {list(x.shape)} != {list(y.shape)}. "
            "Sparse tensors are not broadcast against each other."
        )
    if layout_of(x) != layout_of(y):
        raise RuntimeError(
            f"{name}(): the layouts differ: {layout_of(x)} and {layout_of(y)}. Convert one of them, with "
            "to_sparse(layout=...)."
        )


def _mul_sparse(x: Any, y: Any) -> Any:
    """At the places that both have."""
    _same_kind("mul", x, y)
    x, y = coalesced(x), coalesced(y)
    if x.structure.same_places(y.structure):
        return build(values_of(x) * values_of(y), x.structure)
    template = x.structure
    x, y = coo(x), coo(y)
    finer = max(x.structure.sparse_dim, y.structure.sparse_dim)
    x, y = with_sparse_dim(x, finer), with_sparse_dim(y, finer)
    where, found = y.structure.positions_of(x.structure.keys)
    mine, theirs = np.flatnonzero(found), where[found]
    structure = Coo(x.structure.coordinates[:, mine], x.structure.shape, True)
    product = _taken(values_of(x), mine) * _taken(values_of(y), theirs)
    return like(build(product, structure), template)


def _taken(values: Any, numbers: Any) -> Any:
    return ops.index_select(values, constant(numbers), dim=0)


@handles_op("mul")
def _mul_op(x: Any, y: Any) -> Any:
    return mul(x, y)


@handles("div", "divide", "true_divide", "__truediv__")
def div(input: Any, other: Any, *, rounding_mode: str | None = None, out: None = None) -> Any:
    if not is_sparse(input) or not _is_number(other):
        raise RuntimeError(
            "Sparse division requires a scalar or zero-dim dense tensor divisor "
            f"(got {layout_of(input)} by {layout_of(other) if isinstance(other, Variable) else type(other).__name__}"
            f"{f' of shape {list(other.shape)}' if hasattr(other, 'shape') else ''}). Multiply by the reciprocal, or "
            "convert with to_dense() first."
        )
    structure, values = entries(coalesced(input) if rounding_mode else input)
    return build(ndgrad.div(values, other, rounding_mode=rounding_mode), structure)


@handles_op("div")
def _div_op(x: Any, y: Any) -> Any:
    return div(x, y)


@handles("floor_divide", "__floordiv__")
def floor_divide(input: Any, other: Any, *, out: None = None) -> Any:
    if not is_sparse(input) or not _is_number(other):
        refuse("floor_divide", (input, other), {})
    structure, values = entries(coalesced(input))
    return build(values // other, structure)


@handles("pow", "__pow__")
def pow(input: Any, exponent: Any, *, out: None = None) -> Any:
    if not is_sparse(input) or not isinstance(exponent, (int, float)) or exponent <= 0:
        raise NotImplementedError(
            f"pow(): only sparse tensors to positive numbers are sparse again, and the exponent is {exponent!r}. "
            "Convert with to_dense() first."
        )
    structure, values = entries(coalesced(input))
    return build(values**exponent, structure)


@handles("add")
def add_(input: Any, other: Any, *, alpha: Any = 1, out: None = None) -> Any:
    return _sum("add", input, other, alpha)


@handles("sub", "subtract")
def sub(input: Any, other: Any, *, alpha: Any = 1, out: None = None) -> Any:
    return _sum("sub", input, other, -alpha)


HANDLERS["__rsub__"] = lambda self, other: sub(other, self)


@handles_op("add")
def _add_op(x: Any, y: Any) -> Any:
    return _sum("add", x, y, 1)


@handles_op("sub")
def _sub_op(x: Any, y: Any) -> Any:
    return _sum("sub", x, y, -1)


def _sum(name: str, x: Any, y: Any, alpha: Any) -> Any:
    for value in (x, y):
        _needs_tensor(name, value)
    if is_sparse(x) and is_sparse(y):
        _same_kind(name, x, y)
        return add(x, y if isinstance(alpha, (int, float)) and alpha == 1 else mul(y, alpha))
    number, other = (x, y) if _is_number(x) else (y, x)
    if _is_number(number):
        raise RuntimeError(
            f"{name}(): a number and a {layout_of(other)} tensor of shape {tuple(other.shape)}: the result would be "
            "dense. Convert with to_dense() first."
        )
    if is_sparse(x):
        return _beside_dense(name, y if isinstance(alpha, (int, float)) and alpha == 1 else y * alpha, x, 1)
    return _beside_dense(name, x, y, alpha)


def _beside_dense(name: str, full: Any, x: Any, alpha: Any) -> Any:
    """A dense tensor plus the entries of a sparse one."""
    if tuple(full.shape) != tuple(x.shape):
        raise RuntimeError(
            f"{name}(): expected 'self' and 'other' to have same size, but self has size {list(full.shape)} while "
            f"other has size {list(x.shape)} (dense-sparse addition does not broadcast). Expand the dense tensor first."
        )
    structure, values = entries(x)
    if not isinstance(alpha, (int, float)) or alpha != 1:
        values = values * alpha
    dtype = dtypes.promote_types(full.dtype, values.dtype).numpy
    full, values = (ops.cast(t, dtype=dtype) if np_dtype(t) != dtype else t for t in (full, values))
    lines = ops.reshape(full, shape=(math.prod(structure.place_shape), *structure.dense_shape))
    return ops.reshape(ops.index_add(lines, constant(structure.keys), values, dim=0), shape=tuple(full.shape))


@handles("add_")
def add_in_place(self: Any, other: Any, *, alpha: Any = 1) -> Any:
    if is_sparse(self):
        return adopt("add_", self, add_(self, other, alpha=alpha))
    if recording(self, other) or carries(other):
        return self.copy_(add_(self, other, alpha=alpha))
    return _scattered("add_", self, other, alpha)


@handles("sub_", "subtract_")
def sub_in_place(self: Any, other: Any, *, alpha: Any = 1) -> Any:
    return add_in_place(self, other, alpha=-alpha)


@handles("mul_", "multiply_")
def mul_in_place(self: Any, other: Any) -> Any:
    if not is_sparse(self):
        refuse("mul_", (self, other), {})
    return adopt("mul_", self, mul(self, other))


def _scattered(name: str, full: Any, x: Any, alpha: Any) -> Any:
    """Add the entries of a sparse tensor to a dense one, touching no other element."""
    if tuple(full.shape) != tuple(x.shape):
        _beside_dense(name, full, x, alpha)  # which says so
    structure, values = x.structure, data_of(x).values
    places = tuple(constant(c) for c in structure.coordinates)
    added = wrap(Tensor, values.reshape(structure.flat_shape))
    full.index_put_(places, (added if alpha == 1 else added * alpha).to(full.dtype), accumulate=True)
    return full


@handles("addcmul_")
def addcmul_(self: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Any:
    return add_in_place(self, mul(tensor1, tensor2), alpha=value)


# ----- dtypes, copies -------------------------------------------------------------------------------------------------


@handles("clone")
def clone(input: Any, *, memory_format: Any = None) -> Any:
    if not followed(input):
        return over(data_of(input).copy())
    structure, values = entries(input)
    return build(ops.clone(values), structure)


@handles_op("clone", "clone_ordered")
def _clone_op(x: Any, **settings: Any) -> Any:
    return clone(x)


@handles("detach")
def detach(self: Any) -> Any:
    if carries(self):
        return build(values_of(self).detach(), self.structure)
    made = over(data_of(self))
    made._storage = storage_of(self)
    return made


@handles_op("detach")
def _detach_op(x: Any) -> Any:
    return detach(x)


@handles_op("alias")
def _alias_op(x: Any) -> Any:
    """Another tensor of the same values, in the graph."""
    if not followed(x):
        return detach(x)
    structure, values = entries(x)
    return build(values, structure)


def _cast(x: Any, dtype: Any) -> Any:
    if np_dtype(x) == dtype:
        return x
    structure, values = entries(x)
    return build(ops.cast(values, dtype=dtype), structure)


@handles_op("cast")
def _cast_op(x: Any, *, dtype: Any, **settings: Any) -> Any:
    return _cast(x, dtype)


for _name in ("conj", "real", "neg", "imag"):
    handles_op(_name)(HANDLERS[_name])


@handles("to")
def to(self: Any, *args: Any, **options: Any) -> Any:
    from ndgrad.api.convert import _read_to  # the many forms of `to`

    first: Any = args[0] if args else options.get("other")
    if not is_sparse(self):  # only the dtype of the other counts
        return self.to(dtype=first.dtype)
    if isinstance(first, Variable) and layout_of(first) != layout_of(self):
        raise RuntimeError(
            "to(options) doesn't support converting to a different layout, but got self.layout being "
            f"{layout_of(self)} and options.layout set as {layout_of(first)}. Use to_dense() or to_sparse()."
        )
    dtype, device, copy, _ = _read_to(args, options)
    if device is not None and devices.device(device).type != "cpu":
        refuse(f"to({device!s})", (self,), {})
    out = self if dtype is None else _cast(self, dtypes.as_numpy_dtype(dtype))
    return clone(out) if copy and out is self else out


def _casts_to(dtype: dtypes.dtype) -> Any:
    return lambda self: _cast(self, dtype.numpy)


for _name, _dtype in {
    "bfloat16": dtypes.bfloat16, "bool": dtypes.bool_, "byte": dtypes.uint8, "cdouble": dtypes.complex128,
    "cfloat": dtypes.complex64, "char": dtypes.int8, "double": dtypes.float64, "float": dtypes.float32,
    "half": dtypes.float16, "int": dtypes.int32, "long": dtypes.int64, "short": dtypes.int16,
}.items():  # fmt: skip
    HANDLERS[_name] = _casts_to(_dtype)


@handles("type_as")
def type_as(self: Any, other: Any) -> Any:
    return to(self, other)


@handles("cpu", "resolve_conj", "resolve_neg", "contiguous", "pin_memory")
def itself(self: Any, *args: Any, **options: Any) -> Any:
    return self


@handles("copy_")
def copy_(self: Any, src: Any, non_blocking: bool = False) -> Any:
    if is_sparse(self) != is_sparse(src):
        raise RuntimeError(
            f"copy_(): a {layout_of(src)} tensor cannot be copied into a {layout_of(self)} one. "
            "Use to_dense() or to_sparse() first."
        )
    return adopt("copy_", self, clone(src))


@handles("zero_")
def zero_(self: Any) -> Any:
    structure = self.structure
    none = zeros(structure.shape, structure.layout, np_dtype(self), getattr(structure, "sparse_dim", None))
    if self._node is None and requires_grad(self):
        return adopt("zero_", self, none)  # which refuses outside of no_grad
    self._array, self._node, self._storage = none._array, None, None
    return self


@handles("fill_")
def fill_(self: Any, value: Any) -> Any:
    if not isinstance(self.structure, Compressed):
        refuse("fill_", (self,), {})
    return adopt("fill_", self, build(ndgrad.full_like(values_of(self), value), self.structure))


@handles("zeros_like", "empty_like")
def zeros_like(
    input: Any, *, dtype: Any = None, layout: Any = None, requires_grad: bool = False, **options: Any
) -> Any:
    kind = np_dtype(input) if dtype is None else dtypes.as_numpy_dtype(dtype)
    if layout is devices.strided:
        return ndgrad.zeros(tuple(input.shape), dtype=dtypes.as_dtype(kind), requires_grad=requires_grad)
    structure = input.structure
    made = zeros(structure.shape, structure.layout, kind, getattr(structure, "sparse_dim", None))
    return made.requires_grad_() if requires_grad else made


@handles_op("zeros_like")
def _zeros_like_op(x: Any, **settings: Any) -> Any:
    return zeros_like(x)


@handles("ones_like")
def ones_like(input: Any, *, dtype: Any = None, **options: Any) -> Any:
    if not isinstance(input.structure, Compressed):
        refuse("ones_like", (input,), {})
    return build(ndgrad.ones_like(values_of(input.detach()), dtype=dtype), input.structure)


@handles("new_zeros", "new_empty")
def new_zeros(self: Any, *size: Any, dtype: Any = None, **options: Any) -> Any:
    shape = tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else size
    return zeros(shape, layout_of(self), np_dtype(self) if dtype is None else dtypes.as_numpy_dtype(dtype))


@handles("new_tensor")
def new_tensor(self: Any, data: Any, *, dtype: Any = None, **options: Any) -> Any:
    return ndgrad.tensor(data, dtype=self.dtype if dtype is None else dtype, **options)


# ----- reductions -----------------------------------------------------------------------------------------------------


@handles("sum")
def sum(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, out: None = None) -> Any:
    if dim is None or (isinstance(dim, (tuple, list)) and not dim):
        total = ndgrad.sum(entries(input)[1], dtype=dtype)
        return ops.reshape(total, shape=(1,) * input.ndim) if keepdim else total
    dims = sorted({as_dim(d, input.ndim) for d in ((dim,) if isinstance(dim, int) else dim)})
    return sum_dims(input, dims, keepdim, dtype)


def sum_dims(x: Any, dims: Any, keepdim: bool, dtype: Any) -> Any:
    """The sum over some dimensions: sparse as long as a sparse dimension is left."""
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
def _sum_op(x: Any, *, dim: Any = (), keepdim: bool = False, dtype: Any = None) -> Any:
    return sum(x, dim, keepdim, dtype=None if dtype is None else dtypes.as_dtype(dtype))


@handles("norm", "native_norm", "linalg_vector_norm", "linalg_norm", "vector_norm")
def norm(input: Any, p: Any = 2, dim: Any = None, keepdim: bool = False, dtype: Any = None, **options: Any) -> Any:
    p = options.get("ord", p)
    p = 2 if p is None or p == "fro" else p
    if dim is not None and tuple(range(input.ndim)) != tuple(sorted((dim,) if isinstance(dim, int) else dim)):
        refuse("norm", (input,), {})
    return ndgrad.linalg.vector_norm(flat(values_of(coalesced(input)), coalesced(input).structure), p, dtype=dtype)


@handles("any")
def any(input: Any, *args: Any, **options: Any) -> Any:
    if args or options:
        refuse("any", (input,), {})
    return ndgrad.any(values_of(coalesced(input.detach())))


# ----- the order of dimensions ----------------------------------------------------------------------------------------


def permuted(x: Any, dims: tuple[int, ...]) -> Any:
    """The dimensions in another order."""
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
            f"{count} sparse and {structure.dense_dim} dense dimensions. Convert with to_sparse(sparse_dim) first."
        )
    kept, values = entries(x)
    if inner != tuple(range(count, x.ndim)):
        values = ops.permute(values, dims=(0, *(d - count + 1 for d in inner)))
    return build(values, Coo(kept.coordinates[list(outer)], tuple(structure.shape[d] for d in dims), kept.count < 2))


@handles("t")
def t(input: Any) -> Any:
    if input.ndim > 2 or getattr(input.structure, "dense_dim", 0):
        raise RuntimeError(
            f"t() expects a tensor with <= 2 sparse and 0 dense dimensions, and got shape {tuple(input.shape)} with "
            f"{input.structure.sparse_dim} sparse and {input.structure.dense_dim} dense ones."
        )
    return permuted(input, tuple(range(input.ndim))[::-1])


@handles("transpose", "swapaxes", "swapdims")
def transpose(input: Any, dim0: int, dim1: int) -> Any:
    a, b = as_dim(dim0, input.ndim), as_dim(dim1, input.ndim)
    dims = list(range(input.ndim))
    dims[a], dims[b] = dims[b], dims[a]
    return permuted(input, tuple(dims))


@handles("permute")
def permute(input: Any, *dims: Any) -> Any:
    given = dims[0] if len(dims) == 1 and not isinstance(dims[0], int) else dims
    return permuted(input, tuple(as_dim(d, input.ndim) for d in given))


@handles_op("permute")
def _permute_op(x: Any, *, dims: tuple[int, ...]) -> Any:
    return permuted(x, dims)


# ----- parts ----------------------------------------------------------------------------------------------------------


def selected(x: Any, keep: Any, coordinates: Any, shape: tuple[int, ...], in_order: bool) -> Any:
    """The entries of these numbers, at other coordinates."""
    structure, values = entries(x)
    part = values if keep.size == structure.count and in_order else _taken(values, keep)
    return build(part, Coo(coordinates, shape, structure.coalesced and in_order))


@handles("select")
def select(input: Any, dim: int, index: int) -> Any:
    x, dim = coo(input), as_dim(dim, input.ndim)
    size = x.shape[dim]
    if not -size <= index < size:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size {list(input.shape)} at dimension {dim}."
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
        return ndgrad.sum(_taken(entries(x)[1], keep), dim=0)
    return selected(x, keep, rest, shape, True)


@handles("narrow", "narrow_copy")
def narrow(input: Any, dim: int, start: Any, length: int) -> Any:
    dim = as_dim(dim, input.ndim)
    start, size = int(start), input.shape[dim]
    start = start + size if start < 0 else start
    if not 0 <= start <= size or length < 0 or start + length > size:
        raise RuntimeError(
            f"narrow(): start ({start}) + length ({length}) exceeds dimension size ({size}) of dimension {dim} of a "
            f"tensor of shape {tuple(input.shape)}."
        )
    return _between(coo(input), dim, start, start + length)


def _between(x: Any, dim: int, start: int, stop: int) -> Any:
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
def index_select(input: Any, dim: int, index: Any) -> Any:
    x, dim = coo(input), as_dim(dim, input.ndim)
    numbers = np.asarray(index.detach()._array).reshape(-1)
    size = x.shape[dim]
    if numbers.size and (numbers.min() < -size or numbers.max() >= size):
        raise IndexError(
            f"index_select(): index out of range: the indices run from {numbers.min()} to {numbers.max()}, and "
            f"dimension {dim} of a tensor of shape {tuple(input.shape)} has {size}."
        )
    numbers = numbers % max(size, 1)
    x = coalesced(x)
    structure = x.structure
    shape = tuple(numbers.size if d == dim else n for d, n in enumerate(structure.shape))
    if dim >= structure.sparse_dim:
        values = ops.index_select(values_of(x), constant(numbers), dim=dim - structure.sparse_dim + 1)
        return build(values, Coo(structure.coordinates, shape, True))
    # for each of the numbers, the entries that have it
    order = np.argsort(structure.coordinates[dim], kind="stable")
    along = structure.coordinates[dim][order]
    first, last = np.searchsorted(along, numbers, "left"), np.searchsorted(along, numbers, "right")
    lengths = last - first
    target = np.repeat(np.arange(numbers.size), lengths)
    within = np.arange(target.size) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    keep = order[np.repeat(first, lengths) + within]
    moved = structure.coordinates[:, keep].copy()
    moved[dim] = target
    return coalesced(selected(x, keep, moved, shape, False))


@handles("__getitem__")
def getitem(self: Any, index: Any) -> Any:
    parts = index if isinstance(index, tuple) else (index,)
    if not is_sparse(self):
        refuse("indexing with a sparse tensor", (self, *parts), {})
    x, dim = coo(self) if not _is_whole(parts) else self, 0
    if Ellipsis in [p for p in parts if not isinstance(p, Variable)]:
        at_ = [p is Ellipsis for p in parts].index(True)
        given = len([p for p in parts if p is not None]) - 1
        parts = (*parts[:at_], *(slice(None),) * (self.ndim - given), *parts[at_ + 1 :])
    if len([p for p in parts if p is not None]) > self.ndim:
        raise IndexError(f"too many indices for a tensor of shape {tuple(self.shape)}: {len(parts)} were given.")
    for part in parts:
        if isinstance(part, (int, np.integer)) and not isinstance(part, bool):
            x = select(x, dim, int(part)) if is_sparse(x) else x.select(dim, int(part))
            continue
        if part is None:
            x = unsqueeze(x, dim)
        elif isinstance(part, slice):
            start, stop, step = part.indices(x.shape[dim])
            if step != 1:
                refuse("indexing with a step", (self,), {})
            if (start, stop) != (0, x.shape[dim]):
                x = _between(x, dim, start, max(stop, start))
        elif isinstance(part, Variable) and not is_sparse(part) and part.ndim == 1 and np_dtype(part).kind in "iu":
            if len(parts) > 1:
                refuse("indexing with tensors beside other indices", (self,), {})
            x = index_select(x, dim, part)
        else:
            refuse(f"indexing with {type(part).__name__}", (self,), {})
        dim += 1
    return x


def _is_whole(parts: Any) -> bool:
    return all(isinstance(p, slice) and p == slice(None) for p in parts)


@handles("__setitem__")
def setitem(self: Any, index: Any, value: Any) -> NoReturn:
    if is_sparse(self):
        raise TypeError(
            "Cannot assign to a sparse tensor: its places are fixed when it is made. "
            "Write to its values(), or make another with sparse_coo_tensor()."
        )
    raise TypeError(
        f"a {layout_of(value)} tensor of shape {tuple(value.shape)} cannot be assigned to a part of a dense one. "
        "Assign value.to_dense()."
    )


@handles("unbind")
def unbind(input: Any, dim: int = 0) -> Any:
    return tuple(select(input, dim, i) for i in range(input.shape[as_dim(dim, input.ndim)]))


@handles("__iter__")
def iterate(self: Any) -> Any:
    return iter(unbind(self))


@handles("unsqueeze")
def unsqueeze(input: Any, dim: int) -> Any:
    dim = as_dim(dim, input.ndim + 1)
    x = coo(input)
    structure, values = entries(x)
    shape = (*structure.shape[:dim], 1, *structure.shape[dim:])
    if dim > structure.sparse_dim:
        values = ops.unsqueeze(values, dim=dim - structure.sparse_dim + 1)
        return build(values, Coo(structure.coordinates, shape, structure.coalesced))
    return build(values, Coo(np.insert(structure.coordinates, dim, 0, axis=0), shape, structure.coalesced))


@handles("squeeze")
def squeeze(input: Any, dim: Any = None) -> Any:
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
def cat(tensors: Any, dim: int = 0, *, out: None = None) -> Any:
    kinds = {layout_of(x) for x in tensors}
    if kinds != {"sparse_coo"}:
        raise RuntimeError(
            f"cat(): sparse tensors are joined with sparse_coo ones alone, and the layouts are {sorted(kinds)}. "
            "Convert them with to_sparse() first."
        )
    dim = as_dim(dim, tensors[0].ndim)
    first = tensors[0]
    for x in tensors[1:]:
        if x.ndim != first.ndim or any_differs(x, first, dim) or x.structure.sparse_dim != first.structure.sparse_dim:
            raise RuntimeError(
                f"cat(): all sizes but that of dimension {dim} must agree, and the numbers of sparse dimensions, and "
                f"the shapes are {tuple(first.shape)} and {tuple(x.shape)}."
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
    for structure, values in pairs:  # each entry with zeros beside it
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


def any_differs(x: Any, y: Any, dim: int) -> bool:
    return [n for d, n in enumerate(x.shape) if d != dim] != [n for d, n in enumerate(y.shape) if d != dim]


@handles("stack")
def stack(tensors: Any, dim: int = 0, *, out: None = None) -> Any:
    for x in tensors:
        if tuple(x.shape) != tuple(tensors[0].shape):
            raise RuntimeError(
                f"stack(): each tensor must have the same shape, and these have {tuple(tensors[0].shape)} and "
                f"{tuple(x.shape)}."
            )
    return cat([unsqueeze(x, dim) if is_sparse(x) else x for x in tensors], dim)


# ----- values out, and Python's protocols -----------------------------------------------------------------------------


@handles("numpy", "__array__")
def numpy(self: Any, *args: Any, **options: Any) -> NoReturn:
    raise TypeError(f"can't convert {layout_of(self)} layout tensor to numpy. Use Tensor.to_dense() first.")


@handles("item", "__float__", "__int__", "__complex__", "__bool__", "__index__")
def item(self: Any) -> Any:
    if self.numel() != 1:
        raise RuntimeError(
            f"a Tensor with {self.numel()} elements cannot be converted to Scalar (shape {tuple(self.shape)}, "
            f"{layout_of(self)}): its truth is ambiguous, too. Reduce it first."
        )
    return dense(self).item()


HANDLERS["__float__"] = lambda self: float(item(self))
HANDLERS["__int__"] = lambda self: int(item(self))
HANDLERS["__complex__"] = lambda self: complex(item(self))
HANDLERS["__bool__"] = lambda self: bool(item(self))
HANDLERS["is_nonzero"] = HANDLERS["__bool__"]


@handles("data_ptr", "storage", "untyped_storage", "storage_offset", "tolist", "view")
def without_memory(self: Any, *args: Any, **options: Any) -> NoReturn:
    raise RuntimeError(
        f"a {layout_of(self)} tensor (shape {tuple(self.shape)}) has no memory of its own shape, and so no strides, "
        "address, storage or view of it. Ask its values(), or convert with to_dense()."
    )


@handles("stride")
def stride(self: Any, dim: int | None = None) -> Any:
    """Zeros, as torch says of coo tensors."""
    if layout_of(self) != "sparse_coo":
        without_memory(self)
    return (0,) * self.ndim if dim is None else 0


@handles("is_contiguous")
def is_contiguous(self: Any, memory_format: Any = None) -> bool:
    return False


@handles("size")
def size(self: Any, dim: int | None = None) -> Any:
    return self.shape if dim is None else self.shape[as_dim(dim, self.ndim)]


@handles("is_same_size")
def is_same_size(input: Any, other: Any) -> bool:
    return tuple(input.shape) == tuple(other.shape)


def _passed_on(name: str) -> Any:
    """A method that says the same of every layout."""
    function = getattr(Tensor, name)
    return getattr(function, "__wrapped__", function)


for _name in (
    "__len__ backward dim element_size get_device is_complex is_floating_point is_inference is_signed ndimension "
    "nelement numel register_hook register_post_accumulate_grad_hook requires_grad_ retain_grad detach_ is_tensor"
).split():
    if hasattr(Tensor, _name):
        HANDLERS[_name] = _passed_on(_name)
HANDLERS["is_tensor"] = lambda obj: True
HANDLERS["as_tensor"] = lambda data, dtype=None, device=None: to(data, dtype=dtype, device=device)


@handles("__deepcopy__")
def deepcopy(self: Any, memo: dict[int, Any]) -> Any:
    if id(self) in memo:
        return memo[id(self)]
    if self._node is not None:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment: "
            f"this one (shape {tuple(self.shape)}) was computed by {self._node}. Use clone(), or detach() it first."
        )
    memo[id(self)] = made = over(data_of(self).copy())
    if self._meta is not None:
        meta_of(made).requires_grad = self._meta.requires_grad
        if self._meta.grad is not None:
            meta_of(made).grad = self._meta.grad.clone()
    return made
