"""Handlers of public functions on nested tensors that do not follow from the kind of their op: products, layers,
copies, and Python's protocols.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

import ndgrad
from ndgrad._src.core.variable import Variable, meta_of, np_dtype, wrap
from ndgrad._src.foundations import devices
from ndgrad._src.ops.vocabulary import tensor_ops as ops
from ndgrad._src.tensor.arguments import as_dim
from ndgrad._src.tensor.structured import carries, constant
from ndgrad._src.tensor.tensor_class import Tensor
from ndgrad.nested.kinds import apply_along, detached, elementwise, mismatch
from ndgrad.nested.shapes import is_contiguous, refuse_dim
from ndgrad.nested.tensor import (
    HANDLERS,
    Batched,
    adopt,
    build,
    by_groups,
    data_of,
    described,
    handles,
    handles_op,
    is_nested,
    layout_of,
    move_dim,
    on_values,
    pack,
    refuse,
    values_of,
    wrap_payload,
)

if TYPE_CHECKING:
    from ndgrad import return_types
    from ndgrad._typing import MemoryFormat, Number, TensorLike
    from ndgrad.nested.tensor import NestedTensor

# ----- products -------------------------------------------------------------------------------------------------------


@handles("matmul", "__matmul__", "bmm")
def matmul(input: Tensor, other: Tensor, *, out: None = None) -> Tensor:
    if not isinstance(other, Variable) or not isinstance(input, Variable):
        raise TypeError(
            f"matmul(): an operand is {type(other).__name__}. Wrap arrays with ndgrad.as_tensor(...). [nd-type]"
        )
    left, right = _from_the_right(input), _from_the_right(other)
    batch = input.shape[0] if is_nested(input) else other.shape[0]
    if left is not None and right is not None:
        return _product_of_nested(input, other, left, right)
    nested, dense = (input, other) if left is not None else (other, input)
    place = left if left is not None else right
    if dense.ndim > nested.ndim or dense.ndim < 2 or place == (1 if left is not None else 2):
        _no_product(input, other)
    if dense.ndim == 2 and left is not None:
        layout, values = pack(nested)
        return build(values @ dense, layout)
    each: Any = dense
    if dense.ndim == nested.ndim and dense.shape[0] == batch and batch != 1:
        each = Batched(dense)
    elif dense.ndim == nested.ndim and dense.shape[0] != 1:
        _no_product(input, other)
    operands = [nested, each] if left is not None else [each, nested]
    return by_groups("matmul", ndgrad.matmul, operands, layout_of(nested).dim)


def _product_of_nested(x: Tensor, y: Tensor, left: int, right: int) -> Tensor:
    if layout_of(x).size != layout_of(y).size or x.ndim != y.ndim:
        _no_product(x, y)
    if left == right and left > 2:  # the ragged dimension is one of the batch
        return build(pack(x)[1] @ pack(y)[1], pack(x)[0])
    if left == 1 and right == 2:  # the ragged dimension is summed over
        return by_groups("matmul", ndgrad.matmul, [x, y], None)
    _no_product(x, y)


HANDLERS["__rmatmul__"] = lambda self, other: matmul(other, self)


@handles_op("matmul")
def _matmul_op(x: Tensor, y: Tensor) -> Tensor:
    return matmul(x, y)


def _from_the_right(t: Tensor) -> int | None:
    """Return the ragged dimension, counted from the last one, which is 1."""
    return t.ndim - layout_of(t).dim if is_nested(t) else None


def _no_product(x: Tensor, y: Tensor) -> NoReturn:
    raise RuntimeError(
        f"matmul(): not supported between inputs of shapes {tuple(x.shape)} and {tuple(y.shape)}: {described(x)} "
        f"beside {described(y)}. A product may have one ragged dimension, or sum over one that both have; else use "
        "to_padded_tensor(0.0), or scaled_dot_product_attention(). [nd-nested]"
    )


def dense_last(name: str, x: NestedTensor, count: int) -> None:
    """Raise unless the last `count` dimensions are dense."""
    if layout_of(x).dim >= x.ndim - count:
        raise RuntimeError(
            f"{name}(): the last {count} dimension{'s' if count > 1 else ''} of a nested tensor must be dense, and "
            f"this is {described(x)}. transpose() it first. [nd-nested]"
        )


@handles("linear")
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> NestedTensor:
    if not is_nested(input):
        refuse("linear", (input, weight), {})
    dense_last("linear", input, 1)
    layout, values = pack(input)
    return build(ndgrad.nn.functional.linear(values, weight, bias), layout)


@handles("layer_norm")
def layer_norm(
    input: NestedTensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> NestedTensor:
    dense_last("layer_norm", input, len(tuple(normalized_shape)))
    layout, values = pack(input)
    return build(ndgrad.nn.functional.layer_norm(values, normalized_shape, weight, bias, eps), layout)


@handles("rms_norm")
def rms_norm(
    input: NestedTensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> NestedTensor:
    dense_last("rms_norm", input, len(tuple(normalized_shape)))
    layout, values = pack(input)
    return build(ndgrad.nn.functional.rms_norm(values, normalized_shape, weight, eps), layout)


@handles("embedding")
def embedding(input: Tensor, weight: Tensor, *args: Any, **options: Any) -> NestedTensor:
    if not is_nested(input):
        refuse("embedding", (input, weight), {})
    layout, values = pack(input)
    return build(ndgrad.nn.functional.embedding(values, weight, *args, **options), layout)


@handles("one_hot")
def one_hot(input: NestedTensor, num_classes: int = -1) -> NestedTensor:
    layout, values = pack(input)
    return build(ndgrad.nn.functional.one_hot(values, num_classes), layout)


@handles("dropout", "alpha_dropout", "feature_alpha_dropout")
def dropout(input: NestedTensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> NestedTensor:
    made = on_values(lambda v: ndgrad.nn.functional.dropout(v, p, training), input)
    return adopt("dropout_", input, made) if inplace else made


# ----- sorting, and comparing as a whole ------------------------------------------------------------------------------


@handles("topk")
def topk(input: NestedTensor, k: int, dim: int = -1, *args: Any, **options: Any) -> return_types.topk:
    at = as_dim(dim, input.ndim)
    if at in (0, layout_of(input).dim):
        refuse_dim("topk", input, at)
    return apply_along("topk", lambda x, dims: ndgrad.topk(x, k, dims, *args, **options), (input,), at, reduces=False)


@handles("equal")
def equal(input: Tensor, other: Tensor) -> bool:
    if not (is_nested(input) and is_nested(other)) or tuple(input.shape) != tuple(other.shape):
        return False
    return bool(ndgrad.equal(pack(input)[1], pack(other)[1]))


@handles("allclose")
def allclose(input: Tensor, other: TensorLike, *args: Any, **options: Any) -> bool:
    if not isinstance(other, Variable):
        raise TypeError(f"allclose(): argument 'other' must be Tensor, not {type(other).__name__}. [nd-type]")
    if not (is_nested(input) and is_nested(other)) or tuple(input.shape) != tuple(other.shape):
        mismatch("allclose", input, other)
    return bool(ndgrad.allclose(pack(input)[1], pack(other)[1], *args, **options))


# ----- dtypes, copies, tensors like it --------------------------------------------------------------------------------


@handles("clone")
def clone(input: NestedTensor, *, memory_format: MemoryFormat = None) -> NestedTensor:
    if memory_format is devices.contiguous_format:
        layout, values = pack(input)
        return build(ops.clone(values), layout)
    return on_values(ops.clone, input)


HANDLERS["detach"] = detached


@handles("to")
def to(self: Tensor, *args: Any, **options: Any) -> Tensor:
    if not is_nested(self):  # for dense.to(nested)
        return self.to(dtype=(args[0] if args else options["other"]).dtype)
    if args and is_nested(args[0]):
        args = (args[0].dtype, *args[1:])
    values = values_of(self)
    made = values.to(*args, **options)
    return self if made is values else build(made, layout_of(self))


def _cast(name: str) -> Callable[[NestedTensor], NestedTensor]:
    method = getattr(Tensor, name)

    def handler(self: NestedTensor, *args: Any) -> NestedTensor:
        values = values_of(self)
        made = method(values, *args)
        return self if made is values else build(made, layout_of(self))

    return handler


for _name in "bfloat16 bool byte cdouble cfloat char double float half int long short cpu pin_memory".split():
    if hasattr(Tensor, _name):
        HANDLERS[_name] = _cast(_name)


@handles("type_as")
def type_as(self: Tensor, other: Tensor) -> Tensor:
    return to(self, other.dtype)


def _like(name: str) -> Callable[..., NestedTensor]:
    function = getattr(ndgrad, name)

    def handler(input: NestedTensor, *args: Any, **options: Any) -> NestedTensor:
        if options.pop("layout", None) not in (None, devices.jagged):
            refuse(f"{name} in another layout", (input,), {})
        leaf = options.pop("requires_grad", False)
        made = build(function(values_of(detached(input)), *args, **options), layout_of(input))
        return made.requires_grad_() if leaf else made

    return handler


for _name in "zeros_like ones_like full_like empty_like rand_like randn_like randint_like".split():
    HANDLERS[_name] = _like(_name)


@handles("copy_")
def copy_(self: Tensor, src: Tensor, non_blocking: bool = False) -> NestedTensor:
    if not is_nested(self) or not is_nested(src):
        raise RuntimeError(
            f"copy_(): {described(src)} cannot be copied into {described(self)}. Both must be nested: use "
            "as_nested_tensor() or to_padded_tensor() first. [nd-nested]"
        )
    return adopt("copy_", self, clone(src))


def _make_fill_method(name: str) -> Callable[..., NestedTensor]:
    """Return a method that fills the values anew."""
    method = getattr(Tensor, name)

    def handler(self: NestedTensor, *args: Any, **options: Any) -> NestedTensor:
        fresh = method(ndgrad.zeros_like(values_of(detached(self))), *args, **options)
        return adopt(name, self, build(fresh, layout_of(self)))

    return handler


for _name in "zero_ fill_ normal_ uniform_ bernoulli_ exponential_ random_".split():
    HANDLERS[_name] = _make_fill_method(_name)


@handles("masked_fill")
def masked_fill(input: NestedTensor, mask: NestedTensor, value: Number) -> NestedTensor | tuple[NestedTensor, ...]:
    return elementwise("masked_fill", ndgrad.masked_fill, (input, mask, value), {})


@handles("to_padded_tensor")
def to_padded_tensor(self: NestedTensor, padding: float, output_size: Sequence[int] | None = None) -> Tensor:
    """Return the components in a dense tensor, padded with `padding`."""
    layout, values = pack(self)
    size, dim = layout.size, layout.dim
    width = size.longest
    if output_size is not None:
        wanted = tuple(int(n) for n in output_size)
        shape = tuple(self.shape)
        if len(wanted) != self.ndim or any(d != dim and wanted[d] != shape[d] for d in range(self.ndim)):
            raise RuntimeError(
                f"to_padded_tensor(): {described(self)} cannot be padded to {wanted}: only the ragged dimension {dim} "
                "is. [nd-nested]"
            )
        width = wanted[dim]
    rows = move_dim(values, dim - 1, 0)
    tail = tuple(rows.shape[1:])
    filler = wrap(Tensor, np.full((1, *tail), padding, np_dtype(self)))
    places = np.full((layout.batch, width), size.total, np.int64)
    inside = size.positions < width
    places[size.components[inside], size.positions[inside]] = np.flatnonzero(inside)
    found = ops.index_select(ops.cat(rows, filler, dim=0), constant(places.reshape(-1)), dim=0)
    return move_dim(ops.reshape(found, shape=(layout.batch, width, *tail)), 1, dim)


def _refused(name: str) -> Callable[..., NoReturn]:
    """Return a handler that raises: the function is meaningless for nested tensors, or its body would compute something
    else.
    """
    return lambda *args, **options: refuse(name, args, options)


for _name in "new nuclear_norm from_dlpack __dlpack__ dense_dim sparse_dim set_ resize_ resize_as_ as_strided".split():
    HANDLERS[_name] = _refused(_name)


# ----- Python's protocols ---------------------------------------------------------------------------------------------


@handles("values")
def values(self: NestedTensor) -> Tensor:
    return values_of(self)


@handles("numpy", "__array__", "tolist")
def numpy(self: NestedTensor, *args: Any, **options: Any) -> NoReturn:
    raise RuntimeError(
        f".numpy() and .tolist() are not supported for nested tensors ({described(self)}). Use values(), "
        "[c.numpy() for c in nt.unbind()], or to_padded_tensor(0.0). [nd-nested]"
    )


@handles("item")
def item(self: NestedTensor) -> int | float | bool:
    if self.numel() != 1:
        raise RuntimeError(
            f"a Tensor with {self.numel()} elements cannot be converted to Scalar ({described(self)}). "
            "Reduce it first. [nd-one-value]"
        )
    return pack(self)[1].item()


@handles("__bool__", "is_nonzero")
def truth(self: NestedTensor) -> bool:
    if self.numel() != 1:
        raise RuntimeError(
            f"Boolean value of Tensor with more than one value is ambiguous ({described(self)}). Use any() or all(). "
            "[nd-one-value]"
        )
    return bool(item(self))


HANDLERS["__float__"] = lambda self: float(item(self))
HANDLERS["__int__"] = lambda self: int(item(self))
HANDLERS["__complex__"] = lambda self: complex(item(self))


@handles("numel", "nelement")
def numel(self: NestedTensor) -> int:
    return data_of(self).size


@handles("data_ptr", "storage", "untyped_storage", "storage_offset")
def without_memory(self: NestedTensor, *args: Any, **options: Any) -> NoReturn:
    raise RuntimeError(f"{described(self)} has no memory of its own shape. Ask its values(). [nd-nested]")


def _passed_on(name: str) -> Callable[..., Any]:
    """Return a method that is the same for every layout."""
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
def deepcopy(self: NestedTensor, memo: dict[int, Any]) -> NestedTensor:
    if id(self) in memo:
        return memo[id(self)]
    if self._node is not None or carries(self):
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment: "
            f"this one ({described(self)}) was computed by {self._node}. Use clone(), or detach() it first. "
            "[nd-not-leaf]"
        )
    memo[id(self)] = made = wrap_payload(data_of(self).copy())
    if self._meta is not None:
        meta_of(made).requires_grad = self._meta.requires_grad
        if self._meta.grad is not None:
            meta_of(made).grad = self._meta.grad.clone()
    return made


@handles("__repr__")
def text(self: NestedTensor) -> str:
    """Return the text that torch prints: the size, the offsets, and other attributes."""
    layout = layout_of(self)
    offsets = repr(constant(layout.offsets))
    suffix = ""
    if self._node is not None:
        suffix = f", grad_fn=<{self._node.name()}>"
    elif self.requires_grad:
        suffix = ", requires_grad=True"
    return f"NestedTensor(size={tuple(self.shape)}, offsets={offsets}{suffix}, contiguous={is_contiguous(self)})"
