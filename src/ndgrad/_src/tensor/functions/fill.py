"""In-place writes to a whole tensor (copy_, fill_, zero_, fill_diagonal_, apply_), and replacement of its memory
(resize_, set_, share_memory_)."""

from __future__ import annotations

import math
import mmap
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.arrays.addresses import contiguous_strides, flat_bytes, owner_of, window
from ndgrad._src.core.detach_checks import TANGENT, stake_of
from ndgrad._src.core.inplace import check_writable, write
from ndgrad._src.core.variable import Variable, innermost_array, meta_of, np_dtype, wrap
from ndgrad._src.core.versions import is_inference, storage_of
from ndgrad._src.foundations import devices
from ndgrad._src.ops import fill as ops
from ndgrad._src.ops.window import geometry_of
from ndgrad._src.tensor.arguments import as_shape
from ndgrad._src.tensor.functions import split
from ndgrad._src.tensor.functions.data import to_array
from ndgrad._src.tensor.storage import TypedStorage, UntypedStorage, batch_dims, memory_of, storage_offset

if TYPE_CHECKING:
    from ndgrad._typing import MemoryFormat, Payload, Shape, Tensor, TensorLike

__all__ = ["fill", "fill_", "resize_as_", "zero_"]
METHODS = (
    "apply_", "copy_", "fill", "fill_", "fill_diagonal_", "is_shared", "map2_", "map_", "resize_", "resize_as_", "set_",
    "share_memory_", "zero_",
)  # fmt: skip


# ----- values --------------------------------------------------------------------------------------------------------


def copy_(self: Tensor, src: TensorLike, non_blocking: bool = False) -> Tensor:
    """Overwrite with the values of `src`, broadcast and converted if necessary; the gradient flows to `src`.

    Args:
        self: tensor to change.
        src: tensor, array or number that broadcasts to `self`.
        non_blocking: accepted as in torch; has no effect here.

    >>> import ndgrad
    >>> ndgrad.zeros(2, 2).copy_(ndgrad.tensor([1, 2]))
    tensor([[1., 2.],
            [1., 2.]])
    """
    source: Tensor = src if isinstance(src, Variable) else wrap(self.tensor_type, to_array(src, None, copy=False))
    have, want = tuple(source.shape), tuple(self.shape)
    if len(have) > len(want) or not all(h in (1, w) for h, w in zip(have[::-1], want[::-1])):
        raise RuntimeError(
            f"copy_: a source of shape {list(have)} does not broadcast to the tensor's shape {list(want)}. "
            "Give one that does. [nd-write-fit]"
        )
    return write(ops.copy, self, (source,), {})


def fill_(self: Tensor, value: TensorLike) -> Tensor:
    """Set every element to one number, or to the value of a 0-d tensor, which receives the gradient.

    Args:
        self: tensor to change.
        value: number or 0-d tensor.

    >>> import ndgrad
    >>> ndgrad.zeros(3).fill_(2.5)
    tensor([2.5000, 2.5000, 2.5000])
    """
    if isinstance(value, Variable):
        if len(value.shape):
            raise RuntimeError(
                f"fill_ only supports 0-dimension value tensor but got tensor with {len(value.shape)} dimensions. Use "
                "copy_(). [nd-ndim]"
            )
        return write(ops.fill_with, self, (value,), {})
    value = _fit_number(value, np_dtype(self))
    return write(ops.fill, self, (), {"value": value})


def fill(input: Tensor, value: TensorLike) -> Tensor:
    """Return a tensor like `input` with every element set to `value`.

    Args:
        input: tensor whose shape and dtype are taken.
        value: number or 0-d tensor.

    >>> import ndgrad
    >>> ndgrad.fill(ndgrad.zeros(3), 7.0)
    tensor([7., 7., 7.])
    """
    if isinstance(value, Variable):
        return ops.fill_with(input, value)
    return ops.fill(input, value=_fit_number(value, np_dtype(input)))


def _fit_number(value: object, dtype: np.dtype[Any]) -> Any:
    """Return the number as stored in `dtype`; only a fractional part may be dropped."""
    if isinstance(value, complex) and dtype.kind != "c":
        if value.imag:
            raise RuntimeError(
                f"value cannot be converted to type {dtype} without overflow: {value} has an imaginary part. "
                "[nd-complex]"
            )
        value = value.real
    return np.asarray(value).astype(dtype)[()] if dtype.kind in "biu" else value


def zero_(self: Tensor) -> Tensor:
    """Set every element to zero.

    Args:
        self: tensor to change.

    >>> import ndgrad
    >>> ndgrad.ones(3).zero_()
    tensor([0., 0., 0.])
    """
    return write(ops.zero, self, (), {})


def fill_diagonal_(self: Tensor, fill_value: TensorLike, wrap: bool = False) -> Tensor:
    """Set the main diagonal to one number.

    Args:
        self: tensor to change, of two dimensions, or more of equal size.
        fill_value: number or 0-d tensor.
        wrap: whether the diagonal of a tall matrix starts again after each block, with a row between.

    >>> import ndgrad
    >>> ndgrad.zeros(2, 2).fill_diagonal_(5.0)
    tensor([[5., 0.],
            [0., 5.]])
    """
    sizes = tuple(self.shape)
    if len(sizes) < 2:
        raise RuntimeError(
            f"fill_diagonal_: dimensions must larger than 1, but the shape is {list(sizes)}. Use fill_(). [nd-ndim]"
        )
    if len(sizes) > 2 and len(set(sizes)) > 1:
        raise RuntimeError(
            f"fill_diagonal_: all dimensions of input must be of equal length, but the shape is {list(sizes)}. "
            "[nd-shape]"
        )
    steps = geometry_of(self).strides
    length = min(sizes)
    fill_(split.as_strided(self, (length,), (sum(steps),)) if 0 not in sizes else self, fill_value)
    if wrap and len(sizes) == 2:
        own = self.storage_offset()
        for row in range(sizes[1] + 1, sizes[0], sizes[1] + 1):
            part = min(sizes[1], sizes[0] - row)
            fill_(split.as_strided(self, (part,), (sum(steps),), own + row * steps[0]), fill_value)
    return self


def _map_elements(name: str, self: Tensor, others: tuple[Tensor, ...], function: Callable[..., Any]) -> Tensor:
    """Overwrite each element with a Python function of it and of the corresponding elements of others."""
    for t in (self, *others):
        if stake_of(t) is not None:
            raise RuntimeError(
                f"Can't call {name}() on Variable that requires grad: a Python function of numbers has no derivative. "
                "Use "
                f"var.detach().{name}(), or compute with tensors. [nd-no-derivative]"
            )
        _check_plain(t, name)
        if tuple(t.shape) != tuple(self.shape):
            raise RuntimeError(
                f"{name}: the shapes must agree, but are {tuple(self.shape)} and {tuple(t.shape)}. Use expand_as(). "
                "[nd-shape]"
            )
    made = [function(*values) for values in zip(*(memory_of(t).ravel().tolist() for t in (self, *others)), strict=True)]
    return copy_(self, np.array(made, np_dtype(self)).reshape(tuple(self.shape)))


def apply_(self: Tensor, callable: Callable[[Any], Any]) -> Tensor:
    """Overwrite each element with a Python function of it: slow, and without a derivative.

    Args:
        self: tensor to change.
        callable: function from the old element to the new one, both Python numbers.

    >>> import ndgrad
    >>> ndgrad.tensor([1.0, 2.0]).apply_(lambda v: v + 1.0)
    tensor([2., 3.])
    """
    return _map_elements("apply_", self, (), callable)


def map_(self: Tensor, tensor: Tensor, callable: Callable[[Any, Any], Any]) -> Tensor:
    """Overwrite each element with a Python function of it and of the corresponding element of another tensor.

    Args:
        self: tensor to change.
        tensor: tensor of the same shape.
        callable: function from an element of `self` and one of `tensor` to the new element.

    >>> import ndgrad
    >>> ndgrad.tensor([1.0, 2.0]).map_(ndgrad.tensor([3.0, 4.0]), lambda a, b: a * b)
    tensor([3., 8.])
    """
    return _map_elements("map_", self, (tensor,), callable)


def map2_(self: Tensor, x: Tensor, y: Tensor, callable: Callable[[Any, Any, Any], Any]) -> Tensor:
    """Overwrite each element with a Python function of it and of the corresponding elements of two other tensors.

    Args:
        self: tensor to change.
        x: tensor of the same shape.
        y: tensor of the same shape.
        callable: function from an element of `self`, one of `x` and one of `y` to the new element.

    >>> import ndgrad
    >>> ndgrad.tensor([1.0]).map2_(ndgrad.tensor([2.0]), ndgrad.tensor([3.0]), lambda a, b, c: a + b * c)
    tensor([7.])
    """
    return _map_elements("map2_", self, (x, y), callable)


# ----- memory ---------------------------------------------------------------------------------------------------------


def _replace(t: Tensor, name: str, array: Payload) -> Tensor:
    """Give a tensor another array. It is no longer a view, and views taken before keep the old memory."""
    storage, meta = storage_of(t), meta_of(t)
    t._array = array
    meta.view = None
    meta.geometry += 1
    meta.accumulator = None
    storage.bump(name)
    return t


def resize_(self: Tensor, *sizes: Shape, memory_format: MemoryFormat = None) -> Tensor:
    """Change the shape in place: elements in memory stay, in order; additional ones are uninitialised.

    Args:
        self: tensor to change. It must not require a gradient.
        *sizes: new sizes, one by one or in one tuple.
        memory_format: None or `ndgrad.contiguous_format`.

    >>> import ndgrad
    >>> ndgrad.arange(6).resize_(2, 2)
    tensor([[0, 1],
            [2, 3]])
    """
    _check_plain(self, "resize_")
    if (self.requires_grad and not is_inference(self)) or stake_of(self) == TANGENT:
        raise RuntimeError(
            f"cannot resize variables that require grad or carry a tangent (shape {tuple(self.shape)}). "
            "Use reshape(), or resize a detach()ed clone(). [nd-shared-memory]"
        )
    if memory_format not in (None, devices.contiguous_format):
        raise RuntimeError(
            f"resize_: memory_format is {memory_format!r}, and elements are kept in the order of their memory. "
            "Leave it out, and call contiguous(memory_format=...) afterwards. [nd-option]"
        )
    shape = as_shape(sizes)
    if any(n < 0 for n in shape):
        raise RuntimeError(f"resize_: sizes must be non-negative, but are {list(shape)}. [nd-range]")
    if shape == tuple(self.shape):
        return self
    check_writable(self, "resize_")
    array = memory_of(self)
    offset, count = storage_offset(array), math.prod(shape)
    memory = flat_bytes(owner_of(array)) if array.size else np.empty(0, np.uint8)
    if (offset + count) * array.itemsize > memory.nbytes:
        larger = np.empty((offset + count) * array.itemsize, np.uint8)
        larger[: memory.nbytes] = memory
        memory = larger
    return _replace(self, "resize_", window(memory, array.dtype, offset, shape, contiguous_strides(shape)))


def resize_as_(self: Tensor, other: Tensor, memory_format: MemoryFormat = None) -> Tensor:
    """Change the shape in place to that of another tensor.

    Args:
        self: tensor to change. It must not require a gradient.
        other: tensor whose shape is taken.
        memory_format: None or `ndgrad.contiguous_format`.

    >>> import ndgrad
    >>> ndgrad.arange(6).resize_as_(ndgrad.zeros(3))
    tensor([0, 1, 2])
    """
    return resize_(self, tuple(other.shape), memory_format=memory_format)


def set_(
    self: Tensor,
    source: Tensor | UntypedStorage | TypedStorage | None = None,
    storage_offset: int = 0,
    size: Shape | None = None,
    stride: Shape | None = None,
) -> Tensor:
    """Make this tensor refer to other memory: another tensor's, a storage's, or none.

    Args:
        self: tensor to change, a leaf.
        source: tensor of the same dtype, or storage. None leaves an empty tensor.
        storage_offset: index of the first element in the memory. It counts only if a size or a storage is given.
        size: new shape. The default is that of `source`.
        stride: distance of neighbours in each dimension, counted in elements. The default is contiguous.

    >>> import ndgrad
    >>> x, y = ndgrad.zeros(0), ndgrad.arange(4.0)
    >>> x.set_(y).mul_(10), y
    (tensor([ 0., 10., 20., 30.]), tensor([ 0., 10., 20., 30.]))
    """
    _check_plain(self, "set_")
    check_writable(self, "set_")
    tangents = TANGENT in (stake_of(self), stake_of(source))
    if not self.is_leaf or tangents or (isinstance(source, Variable) and source.requires_grad):
        raise RuntimeError(
            "set_: changing the memory of a tensor that is part of a graph, or using such a tensor's memory, cannot be "
            "differentiated. Use copy_(), or detach() them first. [nd-shared-memory]"
        )
    dtype = np_dtype(self)
    if source is None:
        return _replace(self, "set_", np.empty(0, dtype))
    if isinstance(source, Variable):
        _check_plain(source, "set_")
        array = memory_of(source)
        if array.dtype != dtype:
            raise RuntimeError(
                f"Could not set tensor of type {array.dtype} to a tensor of type {dtype}. "
                "Convert the source with .to() first. [nd-write-fit]"
            )
        if size is None:
            return _replace(self, "set_", array)
        memory = flat_bytes(owner_of(array))
    elif isinstance(source, (UntypedStorage, TypedStorage)):
        memory = (source.untyped() if isinstance(source, TypedStorage) else source)._bytes
        if size is None:
            size = (memory.nbytes // dtype.itemsize,)
    else:
        raise TypeError(f"set_: the source must be a tensor or a storage, but is {type(source).__name__}. [nd-type]")
    size = as_shape((size,))
    stride = contiguous_strides(size) if stride is None else as_shape((stride,))
    return _replace(self, "set_", window(memory, dtype, storage_offset, size, stride))


def share_memory_(self: Tensor) -> Tensor:
    """Move the values into memory shared with processes forked later: all of them see each write.

    Views taken before stay in the old memory, as after `set_()`.

    >>> import ndgrad
    >>> ndgrad.ones(2).share_memory_().is_shared()
    True
    """
    if is_shared(self):
        return self
    _check_plain(self, "share_memory_")
    if not self.is_leaf or stake_of(self) == TANGENT or (self._meta is not None and self._meta.view is not None):
        raise RuntimeError(
            f"share_memory_: a tensor that was computed, or a view of another (shape {tuple(self.shape)}), cannot move "
            "to other memory: "
            "its graph or its base would stay behind. Share the base, or a detach()ed clone(). [nd-shared-memory]"
        )
    array = memory_of(self)
    memory = np.frombuffer(mmap.mmap(-1, max(array.nbytes, 1)), np.uint8)
    made = window(memory, array.dtype, 0, array.shape, contiguous_strides(array.shape))
    made[...] = array
    return _replace(self, "share_memory_", made)


def is_shared(self: Tensor) -> bool:
    """True if the memory is shared between processes.

    >>> import ndgrad
    >>> ndgrad.ones(2).is_shared()
    False
    """
    array = innermost_array(self)
    while isinstance(array, np.ndarray) and array.base is not None:
        array = array.base
    return isinstance(array.obj if isinstance(array, memoryview) else array, mmap.mmap)


def _check_plain(t: Tensor, name: str) -> None:
    if batch_dims(t) or isinstance(t._array, Variable):
        raise RuntimeError(
            f"{name}: the memory of a tensor inside a function transform cannot be exchanged. "
            "Use out-of-place ops there. [nd-in-transform]"
        )
