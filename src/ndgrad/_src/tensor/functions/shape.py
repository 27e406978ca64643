"""Shape functions under torch's names: the same elements under other dimensions.

All are views if the memory allows it. Otherwise `view` raises and `reshape` copies.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from ndgrad._src.arrays import dtypes
from ndgrad._src.arrays.library import is_on_device
from ndgrad._src.arrays.precision import is_floating
from ndgrad._src.core.detach_checks import stake_of
from ndgrad._src.core.inplace_shape import change_shape
from ndgrad._src.core.variable import Variable, np_dtype, shape_of
from ndgrad._src.foundations import devices
from ndgrad._src.foundations.sizes import Size
from ndgrad._src.ops import reduce as reduce_ops
from ndgrad._src.ops import shape as ops
from ndgrad._src.ops.window import geometry_of
from ndgrad._src.tensor.arguments import as_dim, as_dims, as_shape, both_worlds, infer_shape, warn_user
from ndgrad._src.tensor.functions.convert import clone
from ndgrad._src.tensor.storage import conjugate_view

if TYPE_CHECKING:
    from ndgrad._src.ops.table import Op
    from ndgrad._typing import Dims, Payload, Shape, Tensor, Tensors

__all__ = [
    "reshape", "permute", "transpose", "swapaxes", "swapdims", "t", "movedim", "moveaxis", "adjoint",
    "broadcast_to", "broadcast_tensors", "broadcast_shapes", "squeeze", "unsqueeze", "flatten", "unflatten", "ravel",
    "view_as_real", "view_as_complex", "atleast_1d", "atleast_2d", "atleast_3d",
]  # fmt: skip
METHODS = (
    "reshape", "reshape_as", "view", "view_as", "permute", "transpose", "swapaxes", "swapdims", "t", "movedim",
    "moveaxis", "adjoint", "expand", "expand_as", "broadcast_to", "squeeze", "unsqueeze", "flatten", "unflatten",
    "ravel", "contiguous", "transpose_", "swapaxes_", "swapdims_", "t_", "squeeze_", "sum_to_size", "unsqueeze_",
)  # fmt: skip


def _memory(t: Payload) -> Payload:
    """Return the array at the bottom of a tensor of any level."""
    while isinstance(t, Variable):
        t = t._array
    return t


def _sizes(name: str, given: tuple[Any, ...]) -> tuple[int, ...]:
    """Return sizes given one by one or as one sequence; raise if there are none."""
    if not given:
        raise TypeError(
            f"{name}() missing its argument: sizes. Give them one by one or as a tuple, () for a 0-d tensor. "
            "[nd-arguments]"
        )
    return as_shape(given)


# ----- new sizes ------------------------------------------------------------------------------------------------------


def _fits_as_view(t: Tensor, shape: tuple[int, ...]) -> bool:
    memory = _memory(t)
    if isinstance(memory, np.generic) or getattr(memory.flags, "c_contiguous", False):
        return True
    return ops.can_view(tuple(t.shape), geometry_of(t).strides, shape)


def reshape(input: Tensor, *shape: Shape, **keyword: Shape) -> Tensor:
    """The elements in another shape; one size may be -1. A view if the strides allow it, else a copy.

    Args:
        input: tensor of any shape.
        *shape: new sizes, one by one or in one tuple. One of them may be -1, which is computed from the others.
        **keyword: the sizes as `shape=`.

    >>> import ndgrad
    >>> ndgrad.reshape(ndgrad.tensor([1.0, 2.0, 3.0, 4.0]), (2, -1)).shape
    ndgrad.Size([2, 2])
    """
    old = shape_of(input)
    wanted = infer_shape(_sizes("reshape", _read_keyword("reshape", "shape", shape, keyword)), math.prod(old), old)
    return (
        ops.reshape.eager(input, shape=wanted) if _fits_as_view(input, wanted) else ops.unsafe_view(input, shape=wanted)
    )


def _read_keyword(name: str, known: str, given: tuple[Any, ...], keyword: dict[str, Any]) -> tuple[Any, ...]:
    """Return arguments that torch takes one by one, as one sequence, or by a keyword."""
    if not keyword:
        return given
    if given or set(keyword) != {known}:
        raise TypeError(
            f"{name}() got {', '.join(map(repr, keyword))}; it takes {known}, once. Give it by position or by keyword. "
            "[nd-arguments]"
        )
    return (keyword[known],)


def reshape_as(self: Tensor, other: Tensor) -> Tensor:
    """Return the elements in the shape of another tensor, as `reshape` does.

    Args:
        self: tensor of any shape.
        other: tensor whose shape is taken, with as many elements.

    >>> import ndgrad
    >>> ndgrad.arange(4).reshape_as(ndgrad.zeros(2, 2))
    tensor([[0, 1],
            [2, 3]])
    """
    return reshape(self, tuple(other.shape))


@overload
def view(self: Tensor, *size: Shape) -> Tensor: ...
@overload
def view(self: Tensor, *, size: Shape) -> Tensor: ...
@overload
def view(self: Tensor, dtype: dtypes.DTypeLike) -> Tensor: ...
def view(self: Tensor, *size: Any, **keyword: Any) -> Tensor:
    """The same memory in another shape or, given a dtype, as another type; raises if that needs a copy.

    Args:
        self: tensor of any shape.
        *size: new sizes, one by one or in one tuple, of which one may be -1; or a dtype.
        **keyword: the sizes as `size=`, or the dtype as `dtype=`.

    Raises:
        RuntimeError: if the strides do not allow a view.

    >>> import ndgrad
    >>> x = ndgrad.zeros(2, 2)
    >>> x.view(-1)[3] = 1.0
    >>> x
    tensor([[0., 0.],
            [0., 1.]])
    """
    if "dtype" in keyword:
        size = _read_keyword("view", "dtype", size, keyword)
    elif keyword:
        size = _read_keyword("view", "size", size, keyword)
    if len(size) == 1 and size[0].__class__ not in (int, tuple) and _is_dtype(size[0]):
        return _view_as_dtype(self, size[0])
    old = shape_of(self)
    wanted = infer_shape(_sizes("view", size), math.prod(old), old)
    if not _fits_as_view(self, wanted):
        raise RuntimeError(
            "view size is not compatible with input tensor's size and stride (at least one dimension spans across two "
            f"contiguous subspaces): view({list(wanted)}) of {list(self.shape)}, whose strides are "
            f"{list(geometry_of(self).strides)}. Use reshape(), which copies then, or contiguous().view(). [nd-reshape]"
        )
    return ops.reshape.eager(self, shape=wanted)


def _is_dtype(value: object) -> bool:
    return isinstance(value, (type, str)) or not (hasattr(value, "__index__") or hasattr(value, "__iter__"))


def _view_as_dtype(self: Tensor, dtype: dtypes.DTypeLike) -> Tensor:
    """Return the memory as another dtype. Differentiable if real and imaginary parts are read as numbers, or
    numbers as such parts."""
    old, new = np_dtype(self), dtypes.as_numpy_dtype(dtype)
    if old == new:
        return ops.alias(self)
    lost = stake_of(self)
    if lost is not None and {old.kind, new.kind} != {"f", "c"}:
        raise RuntimeError(
            f"view: a tensor of {old} and shape {tuple(self.shape)} that {lost} cannot be read as {new}: the bits of "
            "its elements have no derivative in that reading. "
            "Use .to(dtype) to convert the numbers, or detach() first. [nd-no-derivative]"
        )
    if old.itemsize != new.itemsize:
        to = f"to view {old} as {new} (different element sizes)"
        if not self.ndim:
            raise RuntimeError(f"view: self.dim() cannot be 0 {to}. Use view(1) first. [nd-ndim]")
        if geometry_of(self).strides[-1] != 1 and 0 not in self.shape:  # an empty tensor has no memory to read
            raise RuntimeError(
                f"view: self.stride(-1) must be 1 {to}, but got {geometry_of(self).strides[-1]}. "
                "Use contiguous() first. [nd-strides]"
            )
        if self.shape[-1] * old.itemsize % new.itemsize:
            raise RuntimeError(
                f"view: self.size(-1) must be divisible by {new.itemsize // old.itemsize} {to}, "
                f"but got {self.shape[-1]}. Narrow or pad it first. [nd-divisible]"
            )
    if lost is None:
        return ops.view_dtype(self, dtype=new)
    if old.itemsize != (2 * new.itemsize if old.kind == "c" else new.itemsize / 2):
        raise RuntimeError(
            f"view: a tensor of {old} that {lost} cannot be read as {new}, which is of another precision: "
            "its bits have no derivative in that reading. Use .to(dtype) to convert the numbers, or detach() first. "
            "[nd-no-derivative]"
        )
    if old.kind == "c":
        parts = ops.view_as_real(self)
        return ops.reshape(parts, shape=(*parts.shape[:-2], parts.shape[-2] * 2))
    return ops.view_as_complex(ops.reshape(self, shape=(*self.shape[:-1], self.shape[-1] // 2, 2)))


def view_as(self: Tensor, other: Tensor) -> Tensor:
    """A view of `self` in the shape of `other`.

    Args:
        self: tensor of any shape.
        other: tensor whose shape is taken, with as many elements.

    >>> import ndgrad
    >>> ndgrad.arange(4).view_as(ndgrad.zeros(2, 2)).shape
    ndgrad.Size([2, 2])
    """
    return view(self, tuple(other.shape))


@both_worlds
def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Merge the dimensions start_dim to end_dim into one.

    Args:
        input: tensor of any shape.
        start_dim: first dimension to merge.
        end_dim: last dimension to merge.

    >>> import ndgrad
    >>> ndgrad.flatten(ndgrad.zeros(5, 2, 3), start_dim=1).shape
    ndgrad.Size([5, 6])
    """
    shape = shape_of(input)
    first, last = as_dim(start_dim, len(shape), "start_dim"), as_dim(end_dim, len(shape), "end_dim")
    if first > last:
        raise RuntimeError(
            f"flatten() has invalid args: start_dim cannot come after end_dim, but they are {start_dim} and {end_dim} "
            f"of {len(shape)} dimensions. Swap them. [nd-dim]"
        )
    if first == last and shape:
        return input
    return reshape(input, (*shape[:first], math.prod(shape[first : last + 1]), *shape[last + 1 :]))


@both_worlds
def unflatten(input: Tensor, dim: int, sizes: Shape) -> Tensor:
    """Split the dimension `dim` into several; one size may be -1.

    Args:
        input: tensor of at least one dimension.
        dim: dimension to split.
        sizes: sizes whose product is that of `dim`. One of them may be -1.

    >>> import ndgrad
    >>> ndgrad.unflatten(ndgrad.zeros(5, 6), 1, (2, -1)).shape
    ndgrad.Size([5, 2, 3])
    """
    number = as_dim(dim, input.ndim)
    shape = tuple(input.shape)
    wanted = as_shape((sizes,))
    if not wanted:
        raise RuntimeError(
            "unflatten: sizes must be non-empty, but are (). To drop a dimension of size 1 use squeeze(dim). "
            "[nd-too-few]"
        )
    if not shape:
        raise IndexError("unflatten: a 0-d tensor has no dimension to unflatten. Use reshape(). [nd-dim]")
    try:
        wanted = infer_shape(wanted, shape[number], shape)
    except RuntimeError:
        raise RuntimeError(
            f"unflatten: Provided sizes {list(wanted)} don't multiply up to the size of dim {dim} ({shape[number]}) "
            f"in the input tensor of shape {list(shape)}. Give sizes whose product it is. [nd-reshape]"
        ) from None
    return view(input, (*shape[:number], *wanted, *shape[number + 1 :]))


def ravel(input: Tensor) -> Tensor:
    """All elements in one dimension: a view of contiguous memory, else a copy.

    Args:
        input: tensor of any shape.

    >>> import ndgrad
    >>> ndgrad.ravel(ndgrad.tensor([[1, 2], [3, 4]]).T)
    tensor([1, 3, 2, 4])
    """
    return view(contiguous(input), -1)


def contiguous(self: Tensor, memory_format: devices.memory_format = devices.contiguous_format) -> Tensor:
    """Return the tensor itself if its memory has the order of a format, else a copy in that order.

    Args:
        self: tensor of any shape.
        memory_format: memory layout of the result.

    >>> import ndgrad
    >>> x = ndgrad.zeros(2, 3)
    >>> x.contiguous() is x, x.T.contiguous().stride()
    (True, (2, 1))
    """
    return self if self.is_contiguous(memory_format) else clone(self, memory_format=memory_format)


# ----- broadcasting ---------------------------------------------------------------------------------------------------


def expand(self: Tensor, *size: Shape, **keyword: Shape) -> Tensor:
    """A view with dimensions of size 1 repeated and new leading ones added; -1 keeps a size.

    Args:
        self: tensor to expand.
        *size: new sizes, one by one or in one tuple. -1 keeps a size.
        **keyword: the sizes as `size=`.

    >>> import ndgrad
    >>> ndgrad.tensor([[1], [2]]).expand(-1, 3)
    tensor([[1, 1, 1],
            [2, 2, 2]])
    """
    return _expand("expand", self, _sizes("expand", _read_keyword("expand", "size", size, keyword)))


def _expand(name: str, t: Tensor, sizes: tuple[int, ...]) -> Tensor:
    shape = tuple(t.shape)
    lead = len(sizes) - len(shape)
    if lead < 0:
        raise RuntimeError(
            f"{name}: the number of sizes provided ({len(sizes)}) must be greater or equal to the number "
            f"of dimensions in the tensor ({len(shape)}): sizes {list(sizes)}, tensor {list(shape)}. "
            "Give one size per dimension; -1 keeps a size. [nd-reshape]"
        )
    wanted = []
    for dim, n in enumerate(sizes):
        have = 1 if dim < lead else shape[dim - lead]
        if n == -1:
            if dim < lead:
                raise RuntimeError(
                    f"{name}: the expanded size of the tensor (-1) isn't allowed in a leading, non-existing dimension "
                    f"{dim} of {list(sizes)}, since the tensor {list(shape)} has no size to keep there. Give a size. "
                    "[nd-reshape]"
                )
            n = have
        if n < 0 or have not in (1, n):
            raise RuntimeError(
                f"{name}: the expanded size of the tensor ({n}) must match the existing size ({have}) "
                f"at non-singleton dimension {dim}. Target sizes: {list(sizes)}. Tensor sizes: {list(shape)}. "
                "Only dimensions of size 1 can be expanded. [nd-reshape]"
            )
        wanted.append(n)
    return ops.expand(t, shape=tuple(wanted))


def expand_as(self: Tensor, other: Tensor) -> Tensor:
    """Return a view of this tensor, expanded to the shape of another.

    Args:
        self: tensor to expand.
        other: tensor whose shape is taken.

    >>> import ndgrad
    >>> ndgrad.tensor([1, 2]).expand_as(ndgrad.zeros(2, 2))
    tensor([[1, 2],
            [1, 2]])
    """
    return expand(self, tuple(other.shape))


def broadcast_to(input: Tensor, size: Shape) -> Tensor:
    """A view of `input` broadcast to `size`.

    Args:
        input: tensor to expand.
        size: new shape. -1 keeps a size.

    >>> import ndgrad
    >>> ndgrad.broadcast_to(ndgrad.tensor([1, 2]), (2, 2))
    tensor([[1, 2],
            [1, 2]])
    """
    return _expand("broadcast_to", input, as_shape((size,)))


def sum_to_size(self: Tensor, *size: Shape) -> Tensor:
    """The sum over the dimensions that broadcasting from the given size would expand.

    Args:
        self: tensor of any shape.
        *size: shape of the result, which broadcasts to that of `self`.

    >>> import ndgrad
    >>> ndgrad.ones(2, 3).sum_to_size(1, 3)
    tensor([[2., 2., 2.]])
    """
    if not size:
        raise TypeError(
            'sum_to_size() missing 1 required positional arguments: "size". Give sizes, or () for the sum of all. '
            "[nd-arguments]"
        )
    have, want = tuple(self.shape), as_shape(size)
    extra = len(have) - len(want)
    if extra < 0 or not all(w in (1, h) for h, w in zip(have[extra:], want)):
        raise RuntimeError(
            f"sum_to_size: size {list(want)} is not expandable to size {list(have)}, the tensor's. Sizes must agree or "
            "be 1. [nd-broadcast]"
        )
    dims = (*range(extra), *(d + extra for d, w in enumerate(want) if w == 1 and have[d + extra] != 1))
    return ops.reshape(reduce_ops.sum(self, dim=dims), shape=want) if dims or not have else self


def broadcast_shapes(*shapes: Shape) -> Size:
    """Return the common broadcast shape of several shapes.

    Args:
        *shapes: shapes, each a tuple or an int.

    Raises:
        RuntimeError: if the shapes do not broadcast.

    >>> import ndgrad
    >>> ndgrad.broadcast_shapes((3, 1), (2,))
    ndgrad.Size([3, 2])
    """
    try:
        return Size(np.broadcast_shapes(*shapes))
    except ValueError:
        raise RuntimeError(
            f"shapes {', '.join(str(tuple(s)) if hasattr(s, '__iter__') else str(s) for s in shapes)} cannot be "
            "broadcast together: aligned at the right, sizes must be equal or 1. [nd-broadcast]"
        ) from None


def broadcast_tensors(*tensors: Tensor | Tensors) -> tuple[Tensor, ...]:
    """The tensors, broadcast to one shape.

    Args:
        *tensors: tensors, one by one or in one sequence.

    Returns:
        A tuple of views.

    >>> import ndgrad
    >>> [x.shape for x in ndgrad.broadcast_tensors(ndgrad.zeros(3, 1), ndgrad.zeros(2))]
    [ndgrad.Size([3, 2]), ndgrad.Size([3, 2])]
    """
    given = _tensors(tensors)
    shape = tuple(broadcast_shapes(*(tuple(x.shape) for x in given)))
    return tuple(x if tuple(x.shape) == shape else ops.expand(x, shape=shape) for x in given)


def _tensors(tensors: tuple[Any, ...]) -> tuple[Tensor, ...]:
    """Return tensors given one by one or as one sequence."""
    return tuple(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)) else tensors


# ----- dimensions of size one -----------------------------------------------------------------------------------------


def _choose_squeeze(input: Tensor, dim: Dims) -> tuple[Op, dict[str, tuple[int, ...]]]:
    """Return the op for a form of squeeze, with its settings."""
    shape = tuple(input.shape)
    op = ops.squeeze if dim is None else ops.squeeze_dims if isinstance(dim, (tuple, list)) else ops.squeeze_dim
    return op, {"dims": tuple(d for d in as_dims(dim, len(shape)) if shape[d] == 1)}


@both_worlds
def squeeze(input: Tensor, dim: Dims = None) -> Tensor:
    """A view without the dimensions of size 1, or without those among `dim`.

    Args:
        input: tensor of any shape.
        dim: dimension or dimensions to remove if their size is 1. None means all.

    >>> import ndgrad
    >>> x = ndgrad.zeros(1, 3, 1)
    >>> ndgrad.squeeze(x).shape, ndgrad.squeeze(x, 0).shape
    (ndgrad.Size([3]), ndgrad.Size([3, 1]))
    """
    op, settings = _choose_squeeze(input, dim)
    return op(input, **settings)


@both_worlds
def unsqueeze(input: Tensor, dim: int) -> Tensor:
    """A view with a new dimension of size 1 at `dim`.

    Args:
        input: tensor of any shape.
        dim: position of the new dimension in the result.

    >>> import ndgrad
    >>> ndgrad.unsqueeze(ndgrad.zeros(2, 3), 1).shape
    ndgrad.Size([2, 1, 3])
    """
    return ops.unsqueeze.eager(input, dim=as_dim(dim, input.ndim + 1))


def _atleast(ndim: int, tensors: tuple[Any, ...]) -> Any:
    if len(tensors) == 1 and not isinstance(tensors[0], (tuple, list)):
        return _add_dims(tensors[0], ndim)
    return tuple(_add_dims(x, ndim) for x in _tensors(tensors))


def _add_dims(t: Tensor, ndim: int) -> Tensor:
    """Add dimensions; the third one goes last, as in NumPy."""
    if not t.ndim:
        return ops.reshape(t, shape=(1,) * ndim)
    if t.ndim < min(ndim, 2):
        t = ops.unsqueeze(t, dim=0)
    return ops.unsqueeze(t, dim=2) if t.ndim < ndim else t


@overload
def atleast_1d(tensor: Tensor, /) -> Tensor: ...
@overload
def atleast_1d(tensors: Tensors, /) -> tuple[Tensor, ...]: ...
@overload
def atleast_1d(first: Tensor, second: Tensor, /, *more: Tensor) -> tuple[Tensor, ...]: ...
def atleast_1d(*tensors: Tensor | Tensors) -> Tensor | tuple[Tensor, ...]:
    """Each tensor with at least one dimension.

    Args:
        *tensors: tensors, one by one or in one sequence.

    Returns:
        A tensor for a single tensor, else a tuple.

    >>> import ndgrad
    >>> ndgrad.atleast_1d(ndgrad.tensor(2.0))
    tensor([2.])
    """
    return _atleast(1, tensors)


@overload
def atleast_2d(tensor: Tensor, /) -> Tensor: ...
@overload
def atleast_2d(tensors: Tensors, /) -> tuple[Tensor, ...]: ...
@overload
def atleast_2d(first: Tensor, second: Tensor, /, *more: Tensor) -> tuple[Tensor, ...]: ...
def atleast_2d(*tensors: Tensor | Tensors) -> Tensor | tuple[Tensor, ...]:
    """Each tensor with at least two dimensions.

    Args:
        *tensors: tensors, one by one or in one sequence. A vector becomes a row.

    Returns:
        A tensor for a single tensor, else a tuple.

    >>> import ndgrad
    >>> ndgrad.atleast_2d(ndgrad.zeros(3)).shape
    ndgrad.Size([1, 3])
    """
    return _atleast(2, tensors)


@overload
def atleast_3d(tensor: Tensor, /) -> Tensor: ...
@overload
def atleast_3d(tensors: Tensors, /) -> tuple[Tensor, ...]: ...
@overload
def atleast_3d(first: Tensor, second: Tensor, /, *more: Tensor) -> tuple[Tensor, ...]: ...
def atleast_3d(*tensors: Tensor | Tensors) -> Tensor | tuple[Tensor, ...]:
    """Each tensor with at least three dimensions.

    Args:
        *tensors: tensors, one by one or in one sequence. A vector of n entries gets the shape (1, n, 1), and a matrix a
            last dimension of size 1.

    Returns:
        A tensor for a single tensor, else a tuple.

    >>> import ndgrad
    >>> ndgrad.atleast_3d(ndgrad.zeros(3)).shape
    ndgrad.Size([1, 3, 1])
    """
    return _atleast(3, tensors)


# ----- new order of dimensions ----------------------------------------------------------------------------------------


def permute(input: Tensor, *dims: Shape, **keyword: Shape) -> Tensor:
    """A view with the dimensions in another order.

    Args:
        input: tensor of any shape.
        *dims: numbers of all dimensions in the new order, one by one or in one tuple.
        **keyword: the order as `dims=` or `axes=`.

    >>> import ndgrad
    >>> ndgrad.permute(ndgrad.tensor([[1.0, 2.0]]), (1, 0)).shape
    ndgrad.Size([2, 1])
    """
    known = "axes" if "axes" in keyword else "dims"
    given = _sizes("permute", _read_keyword("permute", known, dims, keyword))
    ndim = input.ndim
    order = tuple([as_dim(d, ndim) for d in given])
    if len(order) != ndim:
        raise RuntimeError(
            "permute: number of dimensions in the tensor input does not match the length of the desired ordering of "
            f"dimensions: input.dim() = {ndim}, and dims is {given}. Name every dimension once. [nd-dim]"
        )
    if len(set(order)) != len(order):
        raise RuntimeError(
            f"permute(): duplicate dims are not allowed, but dims is {given}. Name every dimension once. [nd-dim]"
        )
    return ops.permute.eager(input, dims=order)


def transpose(
    input: Tensor,
    dim0: int | Sequence[int] | None = None,
    dim1: int | None = None,
    *,
    axes: Sequence[int] | None = None,
) -> Tensor:
    """A view with two dimensions swapped; or, given one tuple of all dimensions, in that order.

    Args:
        input: tensor of any shape.
        dim0: first dimension to swap, or a tuple of all dimensions in the new order.
        dim1: second dimension to swap.
        axes: all dimensions in the new order, as in NumPy.

    >>> import ndgrad
    >>> ndgrad.transpose(ndgrad.zeros(2, 3, 4), 0, 2).shape
    ndgrad.Size([4, 3, 2])
    """
    if axes is not None or isinstance(dim0, (tuple, list)):
        if dim1 is not None or (axes is not None and dim0 is not None):
            raise TypeError(
                "transpose() takes two dims, or one tuple with all of them. Give one or the other. [nd-arguments]"
            )
        order: Any = dim0 if axes is None else axes
        return permute(input, tuple(order))
    if dim0 is None or dim1 is None:
        raise TypeError("transpose() takes two dims to swap. Give both, or use t() for a matrix. [nd-arguments]")
    ndim, first = input.ndim, operator.index(dim0)  # type: ignore[arg-type]  # a number, after the test above
    return ops.transpose.eager(input, dim0=as_dim(first, ndim), dim1=as_dim(dim1, ndim))


def swapaxes(input: Tensor, axis0: int, axis1: int) -> Tensor:
    """Return a view with two dimensions swapped: `transpose` under NumPy's name.

    Args:
        input: tensor of any shape.
        axis0: first dimension to swap.
        axis1: second dimension to swap.

    >>> import ndgrad
    >>> ndgrad.swapaxes(ndgrad.zeros(2, 3, 4), 0, 2).shape
    ndgrad.Size([4, 3, 2])
    """
    return transpose(input, axis0, axis1)


def swapdims(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """Return a view with two dimensions swapped: `transpose` under another name.

    Args:
        input: tensor of any shape.
        dim0: first dimension to swap.
        dim1: second dimension to swap.

    >>> import ndgrad
    >>> ndgrad.swapdims(ndgrad.zeros(2, 3, 4), 0, 2).shape
    ndgrad.Size([4, 3, 2])
    """
    return transpose(input, dim0, dim1)


def _check_matrix(name: str, t: Tensor) -> None:
    if t.ndim > 2:
        raise RuntimeError(
            f"{name} expects a tensor with <= 2 dimensions, but self is {t.ndim}D. Use transpose(dim0, dim1) or mT. "
            "[nd-ndim]"
        )


def t(input: Tensor) -> Tensor:
    """The transpose of a matrix; tensors of lower rank are returned unchanged.

    Args:
        input: tensor of at most two dimensions.

    >>> import ndgrad
    >>> ndgrad.t(ndgrad.tensor([[1, 2], [3, 4]]))
    tensor([[1, 3],
            [2, 4]])
    """
    _check_matrix("t()", input)
    return ops.t(input)


def movedim(input: Tensor, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
    """A view with dimensions `source` moved to the positions `destination`; the others keep their order.

    Args:
        input: tensor of any shape.
        source: dimension or dimensions to move.
        destination: new position of each.

    >>> import ndgrad
    >>> ndgrad.movedim(ndgrad.zeros(2, 3, 4), 0, -1).shape
    ndgrad.Size([3, 4, 2])
    """
    both = (source, destination)
    if any(isinstance(s, (tuple, list)) for s in both) and not all(isinstance(s, (tuple, list)) for s in both):
        raise TypeError(
            f"movedim: source {source!r} and destination {destination!r} must be two ints or two "
            "tuples. Make both alike. [nd-type]"
        )
    froms, tos = (tuple(s) if isinstance(s, (tuple, list)) else (s,) for s in both)
    if len(froms) != len(tos):
        raise RuntimeError(
            f"movedim: Invalid source or destination dims: source ({list(froms)} dims) should contain the same number "
            f"of dims as destination ({list(tos)} dims). Give one destination per source. [nd-shape]"
        )
    n = input.ndim
    old, new = [as_dim(d, n, "source") for d in froms], [as_dim(d, n, "destination") for d in tos]
    for name, given, dims in (("source", froms, old), ("destination", tos, new)):
        if len(set(dims)) != len(dims):
            raise RuntimeError(f"movedim: repeated dim in `{name}` ({list(given)}). Name each once. [nd-dim]")
    if not n:
        return ops.alias(input)
    order = [d for d in range(n) if d not in old]
    for position, dim in sorted(zip(new, old, strict=True)):
        order.insert(position, dim)
    return ops.permute(input, dims=tuple(order))


def moveaxis(input: Tensor, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
    """Return a view with dimensions moved to other positions: `movedim` under NumPy's name.

    Args:
        input: tensor of any shape.
        source: dimension or dimensions to move.
        destination: new position of each.

    >>> import ndgrad
    >>> ndgrad.moveaxis(ndgrad.zeros(2, 3, 4), 0, -1).shape
    ndgrad.Size([3, 4, 2])
    """
    return movedim(input, source, destination)


def adjoint(input: Tensor) -> Tensor:
    """The conjugate transpose of the last two dimensions.

    Args:
        input: matrices of shape (..., m, n).

    >>> import ndgrad
    >>> ndgrad.adjoint(ndgrad.tensor([[1j, 2.0]]))
    tensor([[0.-1.j],
            [2.-0.j]])
    """
    n = input.ndim
    if n == 1:
        raise RuntimeError(
            "adjoint() is only supported on matrices or batches of matrices. Got 1-D tensor. "
            "Use unsqueeze() to make it a matrix. [nd-matrix]"
        )
    if n:
        turned = ops.transpose(input, dim0=n - 2, dim1=n - 1)
    else:
        warn_user("adjoint() is deprecated on 0-D tensors, where it moves nothing. Use conj().")
        turned = input
    return conjugate_view(turned) if np_dtype(input).kind == "c" else turned


# ----- complex numbers as pairs ---------------------------------------------------------------------------------------


def view_as_real(input: Tensor) -> Tensor:
    """A view of a complex tensor with a last dimension of size 2: real and imaginary part.

    Args:
        input: complex tensor.

    >>> import ndgrad
    >>> ndgrad.view_as_real(ndgrad.tensor([1 + 2j]))
    tensor([[1., 2.]])
    """
    if np_dtype(input).kind != "c":
        raise RuntimeError(
            f"view_as_real is only supported for complex tensors, but this one is {np_dtype(input)}. Use it as it is. "
            "[nd-complex]"
        )
    return ops.view_as_real(input)


def view_as_complex(input: Tensor) -> Tensor:
    """A view of pairs (real part, imaginary part) along the last dimension as complex numbers.

    Args:
        input: floating-point tensor of shape (..., 2), whose last dimension is contiguous.

    >>> import ndgrad
    >>> ndgrad.view_as_complex(ndgrad.tensor([[1.0, 2.0]]))
    tensor([1.+2.j])
    """
    dtype = np_dtype(input)
    if not is_floating(dtype) or dtype.itemsize < 4:
        raise RuntimeError(
            f"view_as_complex is only supported for float and double tensors, but got {dtype}. "
            "Convert it with .to() first. [nd-dtype]"
        )
    if not input.ndim:
        raise RuntimeError(
            "view_as_complex: Input tensor must have one or more dimensions, the last of size 2. Got a 0-d tensor. "
            "[nd-ndim]"
        )
    if input.shape[-1] != 2:
        raise RuntimeError(
            f"view_as_complex: Tensor must have a last dimension of size 2, but has shape {tuple(input.shape)}. "
            "Stack the parts along it. [nd-shape]"
        )
    if geometry_of(input).strides[-1] != 1:
        raise RuntimeError(
            "view_as_complex: Tensor must have a last dimension with stride 1, but its strides are "
            f"{geometry_of(input).strides}. Use contiguous() first. [nd-strides]"
        )
    if is_on_device(input._array) and input.numel() and not ops.has_aligned_pairs(input._array):
        raise RuntimeError(
            "view_as_complex: Tensor must have a storage_offset and strides divisible by 2, because a GPU reads "
            f"complex numbers at multiples of their size only. The strides are {geometry_of(input).strides}. Use "
            "clone() first. [nd-strides]"
        )
    return ops.view_as_complex(input)


# ----- in place -------------------------------------------------------------------------------------------------------


def transpose_(self: Tensor, dim0: int, dim1: int) -> Tensor:
    """In-place version of `transpose`.

    Args:
        self: tensor to change.
        dim0: first dimension to swap.
        dim1: second dimension to swap.

    >>> import ndgrad
    >>> ndgrad.zeros(2, 3, 4).transpose_(0, 2).shape
    ndgrad.Size([4, 3, 2])
    """
    dims = {"dim0": as_dim(dim0, self.ndim), "dim1": as_dim(dim1, self.ndim)}
    return change_shape(ops.transpose, self, dims, "TransposeBackward1")


def swapaxes_(self: Tensor, axis0: int, axis1: int) -> Tensor:
    """In-place version of `swapaxes`.

    Args:
        self: tensor to change.
        axis0: first dimension to swap.
        axis1: second dimension to swap.

    >>> import ndgrad
    >>> ndgrad.zeros(2, 3).swapaxes_(0, 1).shape
    ndgrad.Size([3, 2])
    """
    return transpose_(self, axis0, axis1)


def swapdims_(self: Tensor, dim0: int, dim1: int) -> Tensor:
    """In-place version of `swapdims`.

    Args:
        self: tensor to change.
        dim0: first dimension to swap.
        dim1: second dimension to swap.

    >>> import ndgrad
    >>> ndgrad.zeros(2, 3).swapdims_(0, 1).shape
    ndgrad.Size([3, 2])
    """
    return transpose_(self, dim0, dim1)


def t_(self: Tensor) -> Tensor:
    """In-place version of `t`.

    Args:
        self: tensor to change, of at most two dimensions.

    >>> import ndgrad
    >>> ndgrad.zeros(2, 3).t_().shape
    ndgrad.Size([3, 2])
    """
    _check_matrix("t_()", self)
    return change_shape(ops.t, self, {}, "TBackward1")


@both_worlds
def squeeze_(self: Tensor, dim: Dims = None) -> Tensor:
    """In-place version of `squeeze`.

    Args:
        self: tensor to change.
        dim: dimension or dimensions to remove if their size is 1. None means all.

    >>> import ndgrad
    >>> ndgrad.zeros(1, 3).squeeze_().shape
    ndgrad.Size([3])
    """
    op, settings = _choose_squeeze(self, dim)
    return change_shape(op, self, settings, f"SqueezeBackward{3 + int(op.backward_name[-1])}")


@both_worlds
def unsqueeze_(self: Tensor, dim: int) -> Tensor:
    """In-place version of `unsqueeze`.

    Args:
        self: tensor to change.
        dim: position of the new dimension in the result.

    >>> import ndgrad
    >>> ndgrad.zeros(3).unsqueeze_(0).shape
    ndgrad.Size([1, 3])
    """
    return change_shape(ops.unsqueeze, self, {"dim": as_dim(operator.index(dim), self.ndim + 1)}, "UnsqueezeBackward1")
