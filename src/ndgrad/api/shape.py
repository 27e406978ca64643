"""Shape functions under torch's names: the same elements under other dimensions.

All are views where the memory allows. `view` insists on it and raises where it does not; `reshape` copies there.
"""

from __future__ import annotations

import math
import operator
import warnings
from typing import Any

import numpy as np

from ndgrad import devices, dtypes
from ndgrad.api.arguments import as_dim, as_dims, as_shape, both_worlds, infer_shape
from ndgrad.api.convert import clone
from ndgrad.arrays.precision import is_floating
from ndgrad.autograd.inplace_shape import change_shape
from ndgrad.autograd.stake import stake_of
from ndgrad.autograd.variable import Variable, np_dtype, shape_of
from ndgrad.ops import complex as complex_ops
from ndgrad.ops import shape as ops
from ndgrad.ops.window import geometry_of
from ndgrad.sizes import Size
from ndgrad.storage import locked

__all__ = [
    "reshape", "permute", "transpose", "swapaxes", "swapdims", "t", "movedim", "moveaxis", "adjoint",
    "broadcast_to", "broadcast_tensors", "broadcast_shapes", "squeeze", "unsqueeze", "flatten", "unflatten", "ravel",
    "view_as_real", "view_as_complex", "atleast_1d", "atleast_2d", "atleast_3d",
]  # fmt: skip
METHODS = (
    "reshape", "reshape_as", "view", "view_as", "permute", "transpose", "swapaxes", "swapdims", "t", "movedim", "moveaxis",
    "adjoint", "expand", "expand_as", "broadcast_to", "squeeze", "unsqueeze", "flatten", "unflatten", "ravel", "contiguous",
    "transpose_", "swapaxes_", "swapdims_", "t_", "squeeze_", "unsqueeze_",
)  # fmt: skip


def _memory(t: Any) -> Any:
    """The array at the bottom of a tensor of any level."""
    while isinstance(t, Variable):
        t = t._array
    return t


def _sizes(name: str, given: tuple[Any, ...]) -> tuple[int, ...]:
    """Sizes given one by one or as one sequence, of which there must be something."""
    if not given:
        raise TypeError(f"{name}() missing its argument: sizes. Give them one by one or as a tuple, () for a 0-d tensor.")
    return as_shape(given)


# ----- new sizes -------------------------------------------------------------------------------------------------------


def _fits_as_view(t: Any, shape: tuple[int, ...]) -> bool:
    memory = _memory(t)
    if isinstance(memory, np.generic) or getattr(memory.flags, "c_contiguous", False):
        return True
    return ops.viewable(tuple(t.shape), geometry_of(t).strides, shape)


def reshape(input: Any, *shape: Any, **keyword: Any) -> Any:
    """The elements in another shape, of which one size may be -1: a view if the strides allow it, else a copy.

    >>> import ndgrad
    >>> ndgrad.reshape(ndgrad.tensor([1.0, 2.0, 3.0, 4.0]), (2, -1)).shape
    ndgrad.Size([2, 2])
    """
    old = shape_of(input)
    wanted = infer_shape(_sizes("reshape", _keyword("reshape", "shape", shape, keyword)), math.prod(old), old)
    return ops.reshape.eager(input, shape=wanted) if _fits_as_view(input, wanted) else ops.unsafe_view(input, shape=wanted)


def _keyword(name: str, known: str, given: tuple[Any, ...], keyword: dict[str, Any]) -> tuple[Any, ...]:
    """Arguments that torch takes one by one, as one sequence, or under a keyword."""
    if not keyword:
        return given
    if given or set(keyword) != {known}:
        raise TypeError(f"{name}() got {', '.join(map(repr, keyword))}; it takes {known}, once. Give it by position or by keyword.")
    return (keyword[known],)


def reshape_as(self: Any, other: Any) -> Any:
    """`self` in the shape of `other`."""
    return reshape(self, tuple(other.shape))


def view(self: Any, *size: Any, **keyword: Any) -> Any:
    """The same memory in another shape, or, given a dtype, as another type; raises where that needs a copy."""
    if "dtype" in keyword:
        size = _keyword("view", "dtype", size, keyword)
    elif keyword:
        size = _keyword("view", "size", size, keyword)
    if len(size) == 1 and size[0].__class__ not in (int, tuple) and _is_dtype(size[0]):
        return _view_as_dtype(self, size[0])
    old = shape_of(self)
    wanted = infer_shape(_sizes("view", size), math.prod(old), old)
    if not _fits_as_view(self, wanted):
        raise RuntimeError(
            f"view size {list(wanted)} is not compatible with input tensor's size {list(self.shape)} and stride "
            f"{list(geometry_of(self).strides)}: a dimension spans memory that does not hang together. Use reshape(), "
            "which copies then, or contiguous().view()."
        )
    return ops.reshape.eager(self, shape=wanted)


def _is_dtype(value: Any) -> bool:
    return isinstance(value, (type, str)) or not (hasattr(value, "__index__") or hasattr(value, "__iter__"))


def _view_as_dtype(self: Any, dtype: Any) -> Any:
    """The memory read as another dtype. That has a derivative where real and imaginary parts are read as numbers, or the other way."""
    old, new = np_dtype(self), dtypes.as_numpy_dtype(dtype)
    if old == new:
        return ops.alias(self)
    lost = stake_of(self)
    if lost is not None and {old.kind, new.kind} != {"f", "c"}:
        raise RuntimeError(
            f"view: a tensor of {old} and shape {tuple(self.shape)} that {lost} was asked for as {new}. The bits of its elements have no "
            "derivative in that reading. Use .to(dtype) to convert the numbers, or detach() first."
        )
    if old.itemsize != new.itemsize:
        to = f"to view {old} as {new} (different element sizes)"
        if not self.ndim:
            raise RuntimeError(f"view: self.dim() cannot be 0 {to}. Use view(1) first.")
        if geometry_of(self).strides[-1] != 1:
            raise RuntimeError(f"view: self.stride(-1) must be 1 {to}, but got {geometry_of(self).strides[-1]}. Use contiguous() first.")
        if self.shape[-1] * old.itemsize % new.itemsize:
            raise RuntimeError(
                f"view: self.size(-1) must be divisible by {new.itemsize // old.itemsize} {to}, but got {self.shape[-1]}. "
                "Narrow or pad it first."
            )
    if lost is None:
        return ops.view_dtype(self, dtype=new)
    if old.itemsize != (2 * new.itemsize if old.kind == "c" else new.itemsize / 2):
        raise RuntimeError(
            f"view: a tensor of {old} that {lost} was asked for as {new}, which is of another precision: its bits have no derivative in "
            "that reading. Use .to(dtype) to convert the numbers, or detach() first."
        )
    if old.kind == "c":
        parts = ops.view_as_real(self)
        return ops.reshape(parts, shape=(*parts.shape[:-2], parts.shape[-2] * 2))
    return ops.view_as_complex(ops.reshape(self, shape=(*self.shape[:-1], self.shape[-1] // 2, 2)))


def view_as(self: Any, other: Any) -> Any:
    """A view of `self` in the shape of `other`."""
    return view(self, tuple(other.shape))


@both_worlds
def flatten(input: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    """Dimensions start_dim to end_dim as one."""
    shape = shape_of(input)
    first, last = as_dim(start_dim, len(shape), "start_dim"), as_dim(end_dim, len(shape), "end_dim")
    if first > last:
        raise RuntimeError(
            f"flatten() has invalid args: start_dim cannot come after end_dim, and they are {start_dim} and {end_dim} of "
            f"{len(shape)} dimensions. Swap them."
        )
    if first == last and shape:
        return input
    return reshape(input, (*shape[:first], math.prod(shape[first : last + 1]), *shape[last + 1 :]))


@both_worlds
def unflatten(input: Any, dim: int, sizes: Any) -> Any:
    """Dimension `dim` as several, of which one size may be -1."""
    number = as_dim(dim, input.ndim)
    shape = tuple(input.shape)
    wanted = as_shape((sizes,))
    if not wanted:
        raise RuntimeError("unflatten: sizes must be non-empty, and are (). To drop a dimension of size 1 use squeeze(dim).")
    if not shape:
        raise IndexError("unflatten: a 0-d tensor has no dimension to unflatten. Use reshape().")
    try:
        wanted = infer_shape(wanted, shape[number], shape)
    except RuntimeError:
        raise RuntimeError(
            f"unflatten: Provided sizes {list(wanted)} don't multiply up to the size of dim {dim} ({shape[number]}) in the "
            f"input tensor of shape {list(shape)}. Give sizes whose product it is."
        ) from None
    return view(input, (*shape[:number], *wanted, *shape[number + 1 :]))


def ravel(input: Any) -> Any:
    """All elements in one dimension: a view of contiguous memory, else a copy."""
    return view(contiguous(input), -1)


def contiguous(self: Any, memory_format: Any = devices.contiguous_format) -> Any:
    """`self` if its memory is in the order that the format names (C order by default), else a copy that is."""
    return self if self.is_contiguous(memory_format) else clone(self, memory_format=memory_format)


# ----- broadcasting ----------------------------------------------------------------------------------------------------


def expand(self: Any, *size: Any, **keyword: Any) -> Any:
    """A view in which dimensions of size 1 are repeated, and new leading ones added; -1 keeps a size."""
    return _expand("expand", self, _sizes("expand", _keyword("expand", "size", size, keyword)))


def _expand(name: str, t: Any, sizes: tuple[int, ...]) -> Any:
    shape = tuple(t.shape)
    lead = len(sizes) - len(shape)
    if lead < 0:
        raise RuntimeError(
            f"{name}: the number of sizes provided ({len(sizes)}) must be greater or equal to the number of dimensions in "
            f"the tensor ({len(shape)}): sizes {list(sizes)}, tensor {list(shape)}. Give one size per dimension; -1 keeps "
            "a size."
        )
    wanted = []
    for dim, n in enumerate(sizes):
        have = 1 if dim < lead else shape[dim - lead]
        if n == -1:
            if dim < lead:
                raise RuntimeError(
                    f"{name}: the expanded size of the tensor (-1) isn't allowed in a leading, non-existing dimension "
                    f"{dim} of {list(sizes)}, since the tensor {list(shape)} has no size to keep there. Give a size."
                )
            n = have
        if n < 0 or have not in (1, n):
            raise RuntimeError(
                f"{name}: the expanded size of the tensor ({n}) must match the existing size ({have}) at non-singleton "
                f"dimension {dim}. Target sizes: {list(sizes)}. Tensor sizes: {list(shape)}. Only dimensions of size 1 can "
                "be expanded."
            )
        wanted.append(n)
    return ops.expand(t, shape=tuple(wanted))


def expand_as(self: Any, other: Any) -> Any:
    """`self` expanded to the shape of `other`."""
    return expand(self, tuple(other.shape))


def broadcast_to(input: Any, size: Any) -> Any:
    """A view of `input` broadcast to `size`."""
    return _expand("broadcast_to", input, as_shape((size,)))


def broadcast_shapes(*shapes: Any) -> Size:
    """The shape that shapes broadcast to."""
    try:
        return Size(np.broadcast_shapes(*shapes))
    except ValueError:
        raise RuntimeError(
            f"shapes {', '.join(str(tuple(s)) if hasattr(s, '__iter__') else str(s) for s in shapes)} cannot be broadcast "
            "together: aligned at the right, sizes must be equal or 1."
        ) from None


def broadcast_tensors(*tensors: Any) -> tuple[Any, ...]:
    """The tensors, broadcast to one shape."""
    given = _tensors(tensors)
    shape = tuple(broadcast_shapes(*(tuple(x.shape) for x in given)))
    return tuple(x if tuple(x.shape) == shape else ops.expand(x, shape=shape) for x in given)


def _tensors(tensors: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)) else tensors


# ----- dimensions of size one ------------------------------------------------------------------------------------------


def _squeezed(input: Any, dim: Any) -> tuple[Any, dict[str, Any]]:
    """The op for a form of squeeze, with its settings."""
    shape = tuple(input.shape)
    op = ops.squeeze if dim is None else ops.squeeze_dims if isinstance(dim, (tuple, list)) else ops.squeeze_dim
    return op, {"dims": tuple(d for d in as_dims(dim, len(shape)) if shape[d] == 1)}


@both_worlds
def squeeze(input: Any, dim: Any = None) -> Any:
    """A view without the dimensions of size 1, or those of them that are named."""
    op, settings = _squeezed(input, dim)
    return op(input, **settings)


@both_worlds
def unsqueeze(input: Any, dim: int) -> Any:
    """A view with a new dimension of size 1 at `dim`."""
    return ops.unsqueeze.eager(input, dim=as_dim(dim, input.ndim + 1))


def _atleast(ndim: int, tensors: tuple[Any, ...]) -> Any:
    if len(tensors) == 1 and not isinstance(tensors[0], (tuple, list)):
        return _raised(tensors[0], ndim)
    return tuple(_raised(x, ndim) for x in _tensors(tensors))


def _raised(t: Any, ndim: int) -> Any:
    """With more dimensions; the third goes behind the others, as NumPy has it."""
    if not t.ndim:
        return ops.reshape(t, shape=(1,) * ndim)
    if t.ndim < min(ndim, 2):
        t = ops.unsqueeze(t, dim=0)
    return ops.unsqueeze(t, dim=2) if t.ndim < ndim else t


def atleast_1d(*tensors: Any) -> Any:
    """Each tensor with at least one dimension."""
    return _atleast(1, tensors)


def atleast_2d(*tensors: Any) -> Any:
    """Each tensor with at least two dimensions."""
    return _atleast(2, tensors)


def atleast_3d(*tensors: Any) -> Any:
    """Each tensor with at least three dimensions."""
    return _atleast(3, tensors)


# ----- new order of dimensions -----------------------------------------------------------------------------------------


def permute(input: Any, *dims: Any, **keyword: Any) -> Any:
    """A view with the dimensions in another order.

    >>> import ndgrad
    >>> ndgrad.permute(ndgrad.tensor([[1.0, 2.0]]), (1, 0)).shape
    ndgrad.Size([2, 1])
    """
    known = "axes" if "axes" in keyword else "dims"
    given = _sizes("permute", _keyword("permute", known, dims, keyword))
    ndim = input.ndim
    order = tuple([as_dim(d, ndim) for d in given])
    if len(order) != ndim:
        raise RuntimeError(
            "permute: number of dimensions in the tensor input does not match the length of the desired ordering of "
            f"dimensions: input.dim() = {ndim}, and dims is {given}. Name every dimension once."
        )
    if len(set(order)) != len(order):
        raise RuntimeError(f"permute(): duplicate dims are not allowed, and dims is {given}. Name every dimension once.")
    return ops.permute.eager(input, dims=order)


def transpose(input: Any, dim0: Any = None, dim1: Any = None, *, axes: Any = None) -> Any:
    """A view with two dimensions swapped; given all dimensions in one tuple, in that order."""
    if axes is not None or isinstance(dim0, (tuple, list)):
        if dim1 is not None or (axes is not None and dim0 is not None):
            raise TypeError("transpose() takes two dims, or one tuple with all of them. Give one or the other.")
        return permute(input, tuple(dim0 if axes is None else axes))
    if dim0 is None or dim1 is None:
        raise TypeError("transpose() takes two dims to swap. Give both, or use t() for a matrix.")
    ndim = input.ndim
    return ops.transpose.eager(input, dim0=as_dim(dim0, ndim), dim1=as_dim(dim1, ndim))


def swapaxes(input: Any, axis0: int, axis1: int) -> Any:
    """transpose() under NumPy's name."""
    return transpose(input, axis0, axis1)


def swapdims(input: Any, dim0: int, dim1: int) -> Any:
    """transpose() under another name."""
    return transpose(input, dim0, dim1)


def _check_matrix(name: str, t: Any) -> None:
    if t.ndim > 2:
        raise RuntimeError(f"{name} expects a tensor with <= 2 dimensions, but self is {t.ndim}D. Use transpose(dim0, dim1) or mT.")


def t(input: Any) -> Any:
    """The transpose of a matrix; fewer dimensions stay as they are."""
    _check_matrix("t()", input)
    return ops.t(input)


def movedim(input: Any, source: Any, destination: Any) -> Any:
    """A view with dimensions `source` moved to the positions `destination`; the others keep their order."""
    both = (source, destination)
    if any(isinstance(s, (tuple, list)) for s in both) and not all(isinstance(s, (tuple, list)) for s in both):
        raise TypeError(f"movedim: source {source!r} and destination {destination!r} must be two ints or two tuples. Make both alike.")
    froms, tos = (tuple(s) if isinstance(s, (tuple, list)) else (s,) for s in both)
    if len(froms) != len(tos):
        raise RuntimeError(
            f"movedim: Invalid source or destination dims: source ({list(froms)} dims) should contain the same number of "
            f"dims as destination ({list(tos)} dims). Give one destination per source."
        )
    n = input.ndim
    old, new = [as_dim(d, n, "source") for d in froms], [as_dim(d, n, "destination") for d in tos]
    for name, given, dims in (("source", froms, old), ("destination", tos, new)):
        if len(set(dims)) != len(dims):
            raise RuntimeError(f"movedim: repeated dim in `{name}` ({list(given)}). Name each once.")
    if not n:
        return ops.alias(input)
    order = [d for d in range(n) if d not in old]
    for position, dim in sorted(zip(new, old, strict=True)):
        order.insert(position, dim)
    return ops.permute(input, dims=tuple(order))


def moveaxis(input: Any, source: Any, destination: Any) -> Any:
    """movedim() under NumPy's name."""
    return movedim(input, source, destination)


def adjoint(input: Any) -> Any:
    """The conjugate transpose of the last two dimensions."""
    n = input.ndim
    if n == 1:
        raise RuntimeError(
            "adjoint() is only supported on matrices or batches of matrices. Got 1-D tensor. Use unsqueeze() to make it a matrix."
        )
    if n:
        turned = ops.transpose(input, dim0=n - 2, dim1=n - 1)
    else:
        warnings.warn("adjoint() is deprecated on 0-D tensors, where it moves nothing. Use conj().", UserWarning, stacklevel=2)
        turned = input
    return locked(complex_ops.conj(turned)) if np_dtype(input).kind == "c" else turned


# ----- complex numbers as pairs ----------------------------------------------------------------------------------------


def view_as_real(input: Any) -> Any:
    """A view of a complex tensor with a last dimension of size 2: real and imaginary part."""
    if np_dtype(input).kind != "c":
        raise RuntimeError(f"view_as_real is only supported for complex tensors, and this one is {np_dtype(input)}. Use it as it is.")
    return ops.view_as_real(input)


def view_as_complex(input: Any) -> Any:
    """A view of a tensor whose last dimension holds pairs (real part, imaginary part) as complex numbers."""
    dtype = np_dtype(input)
    if not is_floating(dtype) or dtype.itemsize < 4:
        raise RuntimeError(f"view_as_complex is only supported for float and double tensors, but got {dtype}. Convert it with .to() first.")
    if not input.ndim:
        raise RuntimeError("view_as_complex: Input tensor must have one or more dimensions, the last of size 2. Got a 0-d tensor.")
    if input.shape[-1] != 2:
        raise RuntimeError(
            f"view_as_complex: Tensor must have a last dimension of size 2, and has shape {tuple(input.shape)}. Stack the parts along it."
        )
    if geometry_of(input).strides[-1] != 1:
        raise RuntimeError(
            "view_as_complex: Tensor must have a last dimension with stride 1, and its strides are "
            f"{geometry_of(input).strides}. Use contiguous() first."
        )
    return ops.view_as_complex(input)


# ----- in place: the tensor's own dimensions change ----------------------------------------------------------------------


def transpose_(self: Any, dim0: int, dim1: int) -> Any:
    """transpose() in place."""
    dims = {"dim0": as_dim(dim0, self.ndim), "dim1": as_dim(dim1, self.ndim)}
    return change_shape(ops.transpose, self, dims, "TransposeBackward1")


def swapaxes_(self: Any, axis0: int, axis1: int) -> Any:
    """swapaxes() in place."""
    return transpose_(self, axis0, axis1)


def swapdims_(self: Any, dim0: int, dim1: int) -> Any:
    """swapdims() in place."""
    return transpose_(self, dim0, dim1)


def t_(self: Any) -> Any:
    """t() in place."""
    _check_matrix("t_()", self)
    return change_shape(ops.t, self, {}, "TBackward1")


@both_worlds
def squeeze_(self: Any, dim: Any = None) -> Any:
    """squeeze() in place."""
    op, settings = _squeezed(self, dim)
    return change_shape(op, self, settings, f"SqueezeBackward{3 + int(op.backward_name[-1])}")


@both_worlds
def unsqueeze_(self: Any, dim: int) -> Any:
    """unsqueeze() in place."""
    return change_shape(ops.unsqueeze, self, {"dim": as_dim(operator.index(dim), self.ndim + 1)}, "UnsqueezeBackward1")
