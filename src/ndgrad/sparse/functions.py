"""Handlers of public functions on sparse tensors, entry by entry: elementwise functions, sums, casts, copies; and
Python's protocols.

Elementwise functions that keep zeros run on the values.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

import ndgrad
from ndgrad._src.arrays import dtypes
from ndgrad._src.arrays.sparse import Compressed, Coo
from ndgrad._src.core.variable import Variable, meta_of, np_dtype, requires_grad, wrap
from ndgrad._src.core.versions import storage_of
from ndgrad._src.foundations import devices
from ndgrad._src.ops.vocabulary import tensor_ops as ops
from ndgrad._src.tensor.arguments import as_dim
from ndgrad._src.tensor.structured import carries, constant, recording
from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad.sparse.tensor import (
    HANDLERS,
    add,
    adopt,
    build,
    coalesced,
    coo,
    data_of,
    dense,
    entries,
    followed,
    handles,
    handles_op,
    is_sparse,
    layout_of,
    like,
    refuse,
    sample_at,
    values_of,
    with_sparse_dim,
    wrap_payload,
    zeros,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ndgrad._src.foundations.sizes import Size
    from ndgrad._typing import ArrayLike, Dtype, Layout, MemoryFormat, Number, TensorLike
    from ndgrad.sparse.tensor import SparseTensor

_NUMBERS = (bool, int, float, complex, np.generic)

# ----- elementwise ----------------------------------------------------------------------------------------------------

#: Functions of one argument with f(0) = 0.
KEEPS_ZEROS = (
    "abs absolute angle arcsin arcsinh arctan arctanh asin asinh atan atanh ceil conj conj_physical deg2rad erf "
    "erfinv expm1 fix floor frac isinf isnan isneginf isposinf log1p nan_to_num neg negative positive rad2deg relu "
    "round sgn sign signbit sin sinh sqrt square tan tanh trunc imag real"
).split()
#: The linear ones among them: they allow duplicate entries.
_LINEAR = frozenset("conj conj_physical deg2rad neg negative positive rad2deg imag real".split())


def _on_values(name: str) -> Callable[..., SparseTensor]:
    def handler(input: SparseTensor, *args: Any, **options: Any) -> SparseTensor:
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


def _is_number(value: object) -> bool:
    """True if a factor is one number: a Python number, or a dense tensor without dimensions."""
    return isinstance(value, _NUMBERS) or (isinstance(value, Variable) and not is_sparse(value) and not value.shape)


def _needs_tensor(name: str, value: object) -> None:
    if not isinstance(value, (*_NUMBERS, Variable)):
        raise TypeError(
            f"{name}(): an operand is {type(value).__name__}. Wrap arrays with ndgrad.as_tensor(...). [nd-type]"
        )


@handles("mul", "multiply")
def mul(input: TensorLike, other: TensorLike, *, out: None = None) -> SparseTensor:
    for value in (input, other):
        _needs_tensor("mul", value)
    if not is_sparse(input):
        input, other = other, input
    if not is_sparse(input):
        refuse("mul", (input, other), {})
    if is_sparse(other):
        return _mul_sparse(input, other)
    structure, values = entries(input)
    if not isinstance(other, Variable) or _is_number(other):
        return build(values * other, structure)
    if not _expands_to(tuple(other.shape), tuple(input.shape)):
        raise RuntimeError(
            f"mul(): a {layout_of(input)} tensor of shape {tuple(input.shape)} and a dense one of shape "
            f"{tuple(other.shape)}, which cannot be expanded to it. Convert the sparse one with to_dense() first. "
            "[nd-sparse]"
        )
    factor = other if tuple(other.shape) == tuple(input.shape) else ops.expand(other, shape=tuple(input.shape))
    return build(values * ops.reshape(sample_at(factor, structure), shape=tuple(values.shape)), structure)


def _expands_to(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    lead = len(target) - len(shape)
    return lead >= 0 and all(n in (1, m) for n, m in zip(shape, target[lead:], strict=True))


def _same_kind(name: str, x: SparseTensor, y: SparseTensor) -> None:
    if tuple(x.shape) != tuple(y.shape):
        raise RuntimeError(
            f"{name}(): expected sizes of 'self' and 'other' to match, but {list(x.shape)} != {list(y.shape)}. "
            "Sparse tensors are not broadcast against each other. [nd-sparse]"
        )
    if layout_of(x) != layout_of(y):
        raise RuntimeError(
            f"{name}(): the layouts differ: {layout_of(x)} and {layout_of(y)}. Convert one of them, with "
            "to_sparse(layout=...). [nd-sparse]"
        )


def _mul_sparse(x: SparseTensor, y: SparseTensor) -> SparseTensor:
    """Multiply at the entries that both have."""
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
    product = take_entries(values_of(x), mine) * take_entries(values_of(y), theirs)
    return like(build(product, structure), template)


def take_entries(values: Tensor, numbers: NDArray[Any]) -> Tensor:
    return ops.index_select(values, constant(numbers), dim=0)


@handles_op("mul")
def _mul_op(x: Tensor, y: Tensor) -> SparseTensor:
    return mul(x, y)


@handles("div", "divide", "true_divide", "__truediv__")
def div(input: Tensor, other: TensorLike, *, rounding_mode: str | None = None, out: None = None) -> SparseTensor:
    if not is_sparse(input) or not _is_number(other):
        raise RuntimeError(
            "Sparse division requires a scalar or zero-dim dense tensor divisor "
            f"(got {layout_of(input)} by {layout_of(other) if isinstance(other, Variable) else type(other).__name__}"
            f"{f' of shape {list(other.shape)}' if hasattr(other, 'shape') else ''}). Multiply by the reciprocal, or "
            "convert with to_dense() first. [nd-sparse]"
        )
    structure, values = entries(coalesced(input) if rounding_mode else input)
    return build(ndgrad.div(values, other, rounding_mode=rounding_mode), structure)


@handles_op("div")
def _div_op(x: Tensor, y: Tensor) -> Tensor:
    return div(x, y)


@handles("floor_divide", "__floordiv__")
def floor_divide(input: Tensor, other: TensorLike, *, out: None = None) -> SparseTensor:
    if not is_sparse(input) or not _is_number(other):
        refuse("floor_divide", (input, other), {})
    structure, values = entries(coalesced(input))
    return build(values // other, structure)


@handles("pow", "__pow__")
def pow(input: Tensor, exponent: float, *, out: None = None) -> SparseTensor:
    if not is_sparse(input) or not isinstance(exponent, (int, float)) or exponent <= 0:
        raise NotImplementedError(
            f"pow(): only sparse tensors to positive numbers are sparse again, and the exponent is {exponent!r}. "
            "Convert with to_dense() first. [nd-sparse]"
        )
    structure, values = entries(coalesced(input))
    return build(values**exponent, structure)


@handles("add")
def add_(input: TensorLike, other: TensorLike, *, alpha: Number = 1, out: None = None) -> Tensor:
    return _sum("add", input, other, alpha)


@handles("sub", "subtract")
def sub(input: TensorLike, other: TensorLike, *, alpha: Number = 1, out: None = None) -> Tensor:
    return _sum("sub", input, other, -alpha)


HANDLERS["__rsub__"] = lambda self, other: sub(other, self)


@handles_op("add")
def _add_op(x: Tensor, y: Tensor) -> Tensor:
    return _sum("add", x, y, 1)


@handles_op("sub")
def _sub_op(x: Tensor, y: Tensor) -> Tensor:
    return _sum("sub", x, y, -1)


def _sum(name: str, x: TensorLike, y: TensorLike, alpha: Number) -> Tensor:
    for value in (x, y):
        _needs_tensor(name, value)
    if is_sparse(x) and is_sparse(y):
        _same_kind(name, x, y)
        return add(x, y if isinstance(alpha, (int, float)) and alpha == 1 else mul(y, alpha))
    if not isinstance(x, Variable) or not isinstance(y, Variable) or _is_number(x) or _is_number(y):
        other: Any = y if _is_number(x) else x
        raise RuntimeError(
            f"{name}(): a number and a {layout_of(other)} tensor of shape {tuple(other.shape)}: the result would be "
            "dense. Convert with to_dense() first. [nd-sparse]"
        )
    if is_sparse(x):
        return _beside_dense(name, y if isinstance(alpha, (int, float)) and alpha == 1 else y * alpha, x, 1)
    if not is_sparse(y):
        refuse(name, (x, y), {})
    return _beside_dense(name, x, y, alpha)


def _beside_dense(name: str, full: Tensor, x: SparseTensor, alpha: Number) -> Tensor:
    """Return a dense tensor plus the entries of a sparse one."""
    if tuple(full.shape) != tuple(x.shape):
        raise RuntimeError(
            f"{name}(): expected 'self' and 'other' to have same size, but self has size {list(full.shape)} while "
            f"other has size {list(x.shape)} (dense-sparse addition does not broadcast). "
            "Expand the dense tensor first. [nd-sparse]"
        )
    structure, values = entries(x)
    if not isinstance(alpha, (int, float)) or alpha != 1:
        values = values * alpha
    dtype = dtypes.promote_types(full.dtype, values.dtype).numpy
    full, values = (ops.cast(t, dtype=dtype) if np_dtype(t) != dtype else t for t in (full, values))
    lines = ops.reshape(full, shape=(math.prod(structure.place_shape), *structure.dense_shape))
    return ops.reshape(ops.index_add(lines, constant(structure.keys), values, dim=0), shape=tuple(full.shape))


@handles("add_")
def add_in_place(self: Tensor, other: SparseTensor, *, alpha: Number = 1) -> Tensor:
    if is_sparse(self):
        return adopt("add_", self, add_(self, other, alpha=alpha))
    if recording(self, other) or carries(other):
        return self.copy_(add_(self, other, alpha=alpha))
    return _scattered("add_", self, other, alpha)


@handles("sub_", "subtract_")
def sub_in_place(self: Tensor, other: SparseTensor, *, alpha: Number = 1) -> Tensor:
    return add_in_place(self, other, alpha=-alpha)


@handles("mul_", "multiply_")
def mul_in_place(self: Tensor, other: TensorLike) -> SparseTensor:
    if not is_sparse(self):
        refuse("mul_", (self, other), {})
    return adopt("mul_", self, mul(self, other))


def _scattered(name: str, full: Tensor, x: SparseTensor, alpha: Number) -> Tensor:
    """Add the entries of a sparse tensor to a dense one, without touching other elements."""
    if tuple(full.shape) != tuple(x.shape):
        _beside_dense(name, full, x, alpha)  # raises the error
    structure, values = x.structure, data_of(x).values
    places = tuple(constant(c) for c in structure.coordinates)
    added = wrap(Tensor, values.reshape(structure.flat_shape))
    full.index_put_(places, (added if alpha == 1 else added * alpha).to(full.dtype), accumulate=True)
    return full


@handles("addcmul_")
def addcmul_(self: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Number = 1) -> Tensor:
    return add_in_place(self, mul(tensor1, tensor2), alpha=value)


# ----- dtypes, copies -------------------------------------------------------------------------------------------------


@handles("clone")
def clone(input: SparseTensor, *, memory_format: MemoryFormat = None) -> SparseTensor:
    if not followed(input):
        return wrap_payload(data_of(input).copy())
    structure, values = entries(input)
    return build(ops.clone(values), structure)


@handles_op("clone", "clone_ordered")
def _clone_op(x: SparseTensor, **settings: Any) -> SparseTensor:
    return clone(x)


@handles("detach")
def detach(self: SparseTensor) -> SparseTensor:
    if carries(self):
        return build(values_of(self).detach(), self.structure)
    made = wrap_payload(data_of(self))
    made._storage = storage_of(self)
    return made


@handles_op("detach")
def _detach_op(x: SparseTensor) -> SparseTensor:
    return detach(x)


@handles_op("alias")
def _alias_op(x: SparseTensor) -> SparseTensor:
    """Return another tensor of the same values, in the graph."""
    if not followed(x):
        return detach(x)
    structure, values = entries(x)
    return build(values, structure)


def _cast(x: SparseTensor, dtype: np.dtype[Any]) -> SparseTensor:
    if np_dtype(x) == dtype:
        return x
    structure, values = entries(x)
    return build(ops.cast(values, dtype=dtype), structure)


@handles_op("cast")
def _cast_op(x: SparseTensor, *, dtype: np.dtype[Any], **settings: Any) -> SparseTensor:
    return _cast(x, dtype)


for _name in ("conj", "real", "neg", "imag"):
    handles_op(_name)(HANDLERS[_name])


@handles("to")
def to(self: Tensor, *args: Any, **options: Any) -> Tensor:
    from ndgrad._src.tensor.functions.convert import _read_to  # parses the many forms of `to`

    first: Any = args[0] if args else options.get("other")
    if not is_sparse(self):  # only the dtype of the other counts
        return self.to(dtype=first.dtype)
    if isinstance(first, Variable) and layout_of(first) != layout_of(self):
        raise RuntimeError(
            "to(options) doesn't support converting to a different layout, but got self.layout being "
            f"{layout_of(self)} and options.layout set as {layout_of(first)}. Use to_dense() or to_sparse(). "
            "[nd-sparse]"
        )
    dtype, device, copy, _, _ = _read_to(args, options)
    if device is not None and devices.device(device).type != "cpu":
        refuse(f"to({device!s})", (self,), {})
    out = self if dtype is None else _cast(self, dtypes.as_numpy_dtype(dtype))
    return clone(out) if copy and out is self else out


def _casts_to(dtype: dtypes.dtype) -> Callable[[SparseTensor], SparseTensor]:
    return lambda self: _cast(self, dtype.numpy)


for _name, _dtype in {
    "bfloat16": dtypes.bfloat16, "bool": dtypes.bool_, "byte": dtypes.uint8, "cdouble": dtypes.complex128,
    "cfloat": dtypes.complex64, "char": dtypes.int8, "double": dtypes.float64, "float": dtypes.float32,
    "half": dtypes.float16, "int": dtypes.int32, "long": dtypes.int64, "short": dtypes.int16,
}.items():  # fmt: skip
    HANDLERS[_name] = _casts_to(_dtype)


@handles("type_as")
def type_as(self: Tensor, other: Tensor) -> Tensor:
    return to(self, other)


@handles("cpu", "resolve_conj", "resolve_neg", "contiguous", "pin_memory")
def itself(self: SparseTensor, *args: Any, **options: Any) -> SparseTensor:
    return self


@handles("copy_")
def copy_(self: Tensor, src: Tensor, non_blocking: bool = False) -> SparseTensor:
    if not is_sparse(self) or not is_sparse(src):
        raise RuntimeError(
            f"copy_(): a {layout_of(src)} tensor cannot be copied into a {layout_of(self)} one. "
            "Use to_dense() or to_sparse() first. [nd-sparse]"
        )
    return adopt("copy_", self, clone(src))


@handles("zero_")
def zero_(self: SparseTensor) -> SparseTensor:
    structure = self.structure
    none = zeros(structure.shape, structure.layout, np_dtype(self), getattr(structure, "sparse_dim", None))
    if self._node is None and requires_grad(self):
        return adopt("zero_", self, none)  # raises outside of no_grad
    self._array, self._node, self._storage = none._array, None, None
    return self


@handles("fill_")
def fill_(self: SparseTensor, value: Number) -> SparseTensor:
    if not isinstance(self.structure, Compressed):
        refuse("fill_", (self,), {})
    return adopt("fill_", self, build(ndgrad.full_like(values_of(self), value), self.structure))


@handles("zeros_like", "empty_like")
def zeros_like(
    input: SparseTensor, *, dtype: Dtype = None, layout: Layout = None, requires_grad: bool = False, **options: Any
) -> Tensor:
    kind = np_dtype(input) if dtype is None else dtypes.as_numpy_dtype(dtype)
    if layout is devices.strided:
        return ndgrad.zeros(tuple(input.shape), dtype=dtypes.as_dtype(kind), requires_grad=requires_grad)
    structure = input.structure
    made = zeros(structure.shape, structure.layout, kind, getattr(structure, "sparse_dim", None))
    return made.requires_grad_() if requires_grad else made


@handles_op("zeros_like")
def _zeros_like_op(x: SparseTensor, **settings: Any) -> Tensor:
    return zeros_like(x)


@handles("ones_like")
def ones_like(input: SparseTensor, *, dtype: Dtype = None, **options: Any) -> SparseTensor:
    if not isinstance(input.structure, Compressed):
        refuse("ones_like", (input,), {})
    return build(ndgrad.ones_like(values_of(input.detach()), dtype=dtype), input.structure)


@handles("new_zeros", "new_empty")
def new_zeros(self: SparseTensor, *size: Any, dtype: Dtype = None, **options: Any) -> SparseTensor:
    shape = tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else size
    return zeros(shape, layout_of(self), np_dtype(self) if dtype is None else dtypes.as_numpy_dtype(dtype))


@handles("new_tensor")
def new_tensor(self: SparseTensor, data: ArrayLike, *, dtype: Dtype = None, **options: Any) -> Tensor:
    return ndgrad.tensor(data, dtype=self.dtype if dtype is None else dtype, **options)


# ----- values out, and Python's protocols -----------------------------------------------------------------------------


@handles("numpy", "__array__")
def numpy(self: SparseTensor, *args: Any, **options: Any) -> NoReturn:
    raise TypeError(f"can't convert {layout_of(self)} layout tensor to numpy. Use Tensor.to_dense() first. [nd-sparse]")


@handles("item", "__float__", "__int__", "__complex__", "__bool__", "__index__")
def item(self: SparseTensor) -> int | float | bool:
    if self.numel() != 1:
        raise RuntimeError(
            f"a Tensor with {self.numel()} elements cannot be converted to Scalar (shape {tuple(self.shape)}, "
            f"{layout_of(self)}): its truth is ambiguous, too. Reduce it first. [nd-one-value]"
        )
    return dense(self).item()


HANDLERS["__float__"] = lambda self: float(item(self))
HANDLERS["__int__"] = lambda self: int(item(self))
HANDLERS["__complex__"] = lambda self: complex(item(self))
HANDLERS["__bool__"] = lambda self: bool(item(self))
HANDLERS["is_nonzero"] = HANDLERS["__bool__"]


@handles("data_ptr", "storage", "untyped_storage", "storage_offset", "tolist", "view")
def without_memory(self: SparseTensor, *args: Any, **options: Any) -> NoReturn:
    raise RuntimeError(
        f"a {layout_of(self)} tensor (shape {tuple(self.shape)}) has no memory of its own shape, and so no strides, "
        "address, storage or view of it. Ask its values(), or convert with to_dense(). [nd-sparse]"
    )


@handles("stride")
def stride(self: SparseTensor, dim: int | None = None) -> tuple[int, ...] | int:
    """Return zeros, as torch does for coo tensors."""
    if layout_of(self) != "sparse_coo":
        without_memory(self)
    return (0,) * self.ndim if dim is None else 0


@handles("is_contiguous")
def is_contiguous(self: SparseTensor, memory_format: MemoryFormat = None) -> bool:
    return False


@handles("size")
def size(self: SparseTensor, dim: int | None = None) -> Size | int:
    return self.shape if dim is None else self.shape[as_dim(dim, self.ndim)]


@handles("is_same_size")
def is_same_size(input: Tensor, other: Tensor) -> bool:
    return tuple(input.shape) == tuple(other.shape)


def _passed_on(name: str) -> Callable[..., Any]:
    """Return a method that is the same for every layout."""
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
def deepcopy(self: SparseTensor, memo: dict[int, Any]) -> SparseTensor:
    if id(self) in memo:
        return memo[id(self)]
    if self._node is not None:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment: "
            f"this one (shape {tuple(self.shape)}) was computed by {self._node}. Use clone(), or detach() it first. "
            "[nd-not-leaf]"
        )
    memo[id(self)] = made = wrap_payload(data_of(self).copy())
    if self._meta is not None:
        meta_of(made).requires_grad = self._meta.requires_grad
        if self._meta.grad is not None:
            meta_of(made).grad = self._meta.grad.clone()
    return made
