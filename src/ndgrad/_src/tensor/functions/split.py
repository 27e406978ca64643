"""Parts of a tensor under torch's names: single parts, all parts at once, windows, and views by strides.

`split`, `chunk` and `unbind` return views that may not be written while gradients are recorded (torch's rule for
several views of one op). `tensor_split` and its variants return ordinary slices, which may be written.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.arrays.addresses import owner_of
from ndgrad._src.arrays.library import is_raw_array
from ndgrad._src.core.modes import thread
from ndgrad._src.core.variable import Variable, np_dtype
from ndgrad._src.core.view import tangents_of
from ndgrad._src.ops import shape as shape_ops
from ndgrad._src.ops import split as ops
from ndgrad._src.ops import window
from ndgrad._src.ops.window import Geometry
from ndgrad._src.tensor.arguments import as_dim, as_shape, both_worlds
from ndgrad._src.tensor.storage import batch_dims, memory_of, storage_offset

if TYPE_CHECKING:
    from ndgrad._typing import Shape, Tensor

__all__ = [
    "narrow", "select", "split", "split_with_sizes", "chunk", "tensor_split", "hsplit", "vsplit", "dsplit", "unbind",
    "as_strided",
]  # fmt: skip
METHODS = (*__all__, "unfold")


def _require_dimension(name: str, t: Tensor, error: type[Exception] = RuntimeError) -> None:
    if not t.ndim:
        raise error(
            f"{name}() cannot be applied to a 0-dim tensor, which has no parts. Use reshape(1) first. [nd-ndim]"
        )


# ----- one part -------------------------------------------------------------------------------------------------------


def _slice(t: Tensor, dim: int, start: int, stop: int) -> Tensor:
    return ops.slice_(t, dim=dim, start=start, stop=stop, step=1)


@both_worlds
def narrow(input: Tensor, dim: int, start: int | Tensor, length: int) -> Tensor:
    """A view of `length` indices along `dim`, from `start` on.

    Args:
        input: tensor of at least one dimension.
        dim: dimension to cut.
        start: first index. A negative one counts from the end.
        length: number of indices.

    >>> import ndgrad
    >>> ndgrad.narrow(ndgrad.tensor([1.0, 2.0, 3.0]), 0, 1, 2)
    tensor([2., 3.])
    """
    _require_dimension("narrow", input)
    number, length = as_dim(dim, input.ndim), operator.index(length)
    size = input.shape[number]
    first = int(start._array) if isinstance(start, Variable) else operator.index(start)
    if length < 0:
        raise RuntimeError(
            f"narrow(): length must be non-negative, but is {length}. Give the number of indices to keep. [nd-range]"
        )
    if not -size <= first <= size:
        raise IndexError(
            f"narrow(): start out of range (expected to be in range of [{-size}, {size}], but got {first}). "
            f"Shape: {tuple(input.shape)}. [nd-index]"
        )
    first += size if first < 0 else 0
    if first + length > size:
        raise RuntimeError(
            f"narrow(): start ({first}) + length ({length}) exceeds dimension size ({size}) of dimension {number} "
            f"in shape {tuple(input.shape)}. Shorten it. [nd-index]"
        )
    return _slice(input, number, first, first + length)


@both_worlds
def select(input: Tensor, dim: int, index: int | Tensor) -> Tensor:
    """A view of one index along `dim`, without that dimension.

    Args:
        input: tensor of at least one dimension.
        dim: dimension to index.
        index: index along `dim`. A negative one counts from the end.

    >>> import ndgrad
    >>> ndgrad.select(ndgrad.tensor([[1, 2], [3, 4]]), 1, 0)
    tensor([1, 3])
    """
    _require_dimension("select", input, IndexError)
    number = as_dim(dim, input.ndim)
    size = input.shape[number]
    place = int(index._array) if isinstance(index, Variable) else operator.index(index)
    if not -size <= place < size:
        raise IndexError(
            f"select(): index {place} out of range for tensor of size {list(input.shape)} at dimension {number}. "
            f"It must lie in [{-size}, {size - 1}]. [nd-index]"
        )
    return ops.select(input, dim=number, index=place % size)


# ----- all parts ------------------------------------------------------------------------------------------------------


@both_worlds
def split(
    tensor: Tensor,
    split_size_or_sections: int | Sequence[int] | None = None,
    dim: int = 0,
    *,
    split_size: int | Sequence[int] | None = None,
) -> tuple[Tensor, ...]:
    """Views of consecutive parts along `dim`: of one size (the last may be smaller), or of the listed sizes.

    Args:
        tensor: tensor of at least one dimension.
        split_size_or_sections: size of each part, or list of sizes.
        dim: dimension to cut.
        split_size: another name of `split_size_or_sections`, that of torch's method.

    >>> import ndgrad
    >>> ndgrad.split(ndgrad.arange(5), 2)
    (tensor([0, 1]), tensor([2, 3]), tensor([4]))
    """
    given: Any = split_size_or_sections if split_size is None else split_size  # name in torch's method
    if given is None:
        raise TypeError("split() missing its argument: the size of a part, or a list of sizes. [nd-arguments]")
    if not hasattr(given, "__index__"):
        return split_with_sizes(tensor, given, dim)
    if not tensor.ndim:
        raise RuntimeError(
            "split expects at least a 1-dimensional tensor, but got a 0-d one. Use reshape(1) first. [nd-ndim]"
        )
    number, part = as_dim(dim, tensor.ndim), operator.index(given)
    size = tensor.shape[number]
    if part < 0:
        raise RuntimeError(
            f"split expects split_size be non-negative, but got split_size={part}. Give the size of a part. [nd-range]"
        )
    if part == 0 and size:
        raise RuntimeError(
            f"split_size can only be 0 if dimension size is 0, but got dimension size of {size}. "
            "Give the size of a part. [nd-range]"
        )
    return ops.split.eager(tensor, split_size=part, dim=number)


@both_worlds
def split_with_sizes(input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Views of consecutive parts along `dim`, of the listed sizes.

    Args:
        input: tensor of at least one dimension.
        split_sizes: sizes of the parts, whose sum is the size of `dim`.
        dim: dimension to cut.

    >>> import ndgrad
    >>> ndgrad.split_with_sizes(ndgrad.arange(5), [1, 4])
    (tensor([0]), tensor([1, 2, 3, 4]))
    """
    if not input.ndim:
        raise RuntimeError(
            "split expects at least a 1-dimensional tensor, but got a 0-d one. Use reshape(1) first. [nd-ndim]"
        )
    number, sizes = as_dim(dim, input.ndim), as_shape((split_sizes,))
    size = input.shape[number]
    if any(n < 0 for n in sizes):
        raise RuntimeError(
            f"split_with_sizes expects split_sizes have only non-negative entries, but got split_sizes={list(sizes)}. "
            "Give sizes of parts. [nd-range]"
        )
    if sum(sizes) != size:
        raise RuntimeError(
            f"split_with_sizes expects split_sizes to sum exactly to {size} (input tensor's size at dimension "
            f"{number}), but got split_sizes={list(sizes)}. Narrow the tensor first, or list every part. [nd-shape]"
        )
    return ops.split_with_sizes(input, sizes=sizes, dim=number) if sizes else ()


@both_worlds
def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of at most `chunks` consecutive parts along `dim`, all of one size but the last.

    Args:
        input: tensor of at least one dimension.
        chunks: largest number of parts.
        dim: dimension to cut.

    >>> import ndgrad
    >>> ndgrad.chunk(ndgrad.arange(5), 2)
    (tensor([0, 1, 2]), tensor([3, 4]))
    """
    shape = input.shape
    if not shape:
        raise RuntimeError(
            "chunk expects at least a 1-dimensional tensor, but got a 0-d one. Use reshape(1) first. [nd-ndim]"
        )
    if chunks <= 0:
        raise RuntimeError(
            f"chunk expects `chunks` to be greater than 0, got: {chunks}. Give the number of parts. [nd-range]"
        )
    number = as_dim(dim, len(shape))
    size = shape[number]
    if not size:
        return split_with_sizes(input, (0,) * chunks, number)
    return ops.split.eager(input, split_size=-(-size // chunks), dim=number)


def _name_split(rename: Callable[[dict[str, Any]], dict[str, Any]]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return a renaming that also knows the names of the argument in torch's overloads of `tensor_split`."""

    def rename_all(given: dict[str, Any]) -> dict[str, Any]:
        names = _SPLIT_NAMES & given.keys()
        if len(names) == 1 and "indices_or_sections" not in given:
            given = {("indices_or_sections" if name in names else name): value for name, value in given.items()}
        return rename(given)

    return rename_all


_SPLIT_NAMES = frozenset(("indices", "sections", "tensor_indices_or_sections"))


@both_worlds
def tensor_split(input: Tensor, indices_or_sections: int | Sequence[int] | Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of consecutive parts along `dim`: a number of nearly equal parts, or parts cut at the listed indices.

    Args:
        input: tensor of at least one dimension.
        indices_or_sections: number of parts, or indices at which parts begin.
        dim: dimension to cut.

    >>> import ndgrad
    >>> ndgrad.tensor_split(ndgrad.arange(5), (1, 3))
    (tensor([0]), tensor([1, 2]), tensor([3, 4]))
    """
    if not input.ndim:
        raise RuntimeError(
            "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims. "
            "Use reshape(1) first. [nd-ndim]"
        )
    number = as_dim(dim, input.ndim)
    size = input.shape[number]
    given = _as_ints(indices_or_sections)
    if hasattr(given, "__index__"):
        sections = operator.index(given)
        if sections <= 0:
            raise RuntimeError(
                f"tensor_split: number of sections must be larger than 0, got {sections}. Give the number of parts. "
                "[nd-range]"
            )
        least, larger = divmod(size, sections)
        stops = [(i + 1) * least + min(i + 1, larger) for i in range(sections)]
        return tuple(_slice(input, number, a, b) for a, b in zip([0, *stops], stops, strict=False))
    cuts = [min(max(i + size if i < 0 else i, 0), size) for i in as_shape((given,))]
    return tuple(_slice(input, number, a, max(a, b)) for a, b in zip([0, *cuts], [*cuts, size], strict=True))


tensor_split.renames = _name_split(tensor_split.renames)  # type: ignore[attr-defined]  # set by both_worlds


def _as_ints(value: int | Sequence[int] | Tensor) -> Any:
    """Return indices given as a tensor as ints."""
    if not isinstance(value, Variable):
        return value
    array = value._array
    if not is_raw_array(array) or array.dtype.kind not in "iu" or array.ndim > 1:
        raise RuntimeError(
            "tensor_split expected tensor_indices_or_sections to be a zero- or one-dimensional int64 tensor from "
            f"outside any transform, but got {np_dtype(value)} with {array.ndim} dimensions. Give ints. [nd-vmap-value]"
        )
    return array.tolist()


def _split_along(name: str, t: Tensor, given: Any, dim: int, least: int) -> tuple[Tensor, ...]:
    if t.ndim < least:
        raise RuntimeError(
            f"{name} requires a tensor with at least {least} dimension, but got a tensor with {t.ndim} dimensions. Use "
            "split(), which takes any dim. [nd-ndim]"
        )
    if hasattr(given, "__index__") and (given <= 0 or t.shape[dim] % operator.index(given)):
        raise RuntimeError(
            f"{name} attempted to split along dimension {dim}, but the size of the dimension {t.shape[dim]} is not "
            f"divisible by the split_size {given}. Use tensor_split(), which allows that. [nd-divisible]"
        )
    return tensor_split(t, given, dim)


def hsplit(input: Tensor, indices_or_sections: int | Sequence[int] | Tensor) -> tuple[Tensor, ...]:
    """Split along the columns, or along the one dimension of a vector, as `tensor_split` does.

    Args:
        input: tensor of at least one dimension.
        indices_or_sections: number of equal parts, or indices at which parts begin.

    >>> import ndgrad
    >>> ndgrad.hsplit(ndgrad.tensor([[1, 2], [3, 4]]), 2)[0]
    tensor([[1],
            [3]])
    """
    return _split_along("hsplit", input, indices_or_sections, min(input.ndim - 1, 1), 1)


def vsplit(input: Tensor, indices_or_sections: int | Sequence[int] | Tensor) -> tuple[Tensor, ...]:
    """Split along the rows, as `tensor_split` does.

    Args:
        input: tensor of at least two dimensions.
        indices_or_sections: number of equal parts, or indices at which parts begin.

    >>> import ndgrad
    >>> ndgrad.vsplit(ndgrad.tensor([[1, 2], [3, 4]]), 2)[0]
    tensor([[1, 2]])
    """
    return _split_along("vsplit", input, indices_or_sections, 0, 2)


def dsplit(input: Tensor, indices_or_sections: int | Sequence[int] | Tensor) -> tuple[Tensor, ...]:
    """Split along the third dimension, as `tensor_split` does.

    Args:
        input: tensor of at least three dimensions.
        indices_or_sections: number of equal parts, or indices at which parts begin.

    >>> import ndgrad
    >>> [x.shape for x in ndgrad.dsplit(ndgrad.zeros(2, 3, 4), (1,))]
    [ndgrad.Size([2, 3, 1]), ndgrad.Size([2, 3, 3])]
    """
    return _split_along("dsplit", input, indices_or_sections, 2, 3)


@both_worlds
def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of all indices along `dim`, each without that dimension.

    Args:
        input: tensor of at least one dimension.
        dim: dimension to remove.

    >>> import ndgrad
    >>> ndgrad.unbind(ndgrad.tensor([[1, 2], [3, 4]]), 1)
    (tensor([1, 3]), tensor([2, 4]))
    """
    if not input.ndim:
        raise IndexError(
            f"Dimension specified as {dim} but tensor has no dimensions: a 0-d tensor cannot be unbound. "
            "Use reshape(1) first. [nd-dim]"
        )
    number = as_dim(dim, input.ndim)
    return ops.unbind(input, dim=number) if input.shape[number] else ()


# ----- by strides -----------------------------------------------------------------------------------------------------


def unfold(self: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """A view of all windows of `size` along a dimension, `step` apart. The last dimension runs within a window.

    Args:
        self: tensor of any shape.
        dimension: dimension along which the windows move.
        size: size of a window.
        step: distance of neighbouring windows.

    >>> import ndgrad
    >>> ndgrad.arange(5).unfold(0, 3, 2)
    tensor([[0, 1, 2],
            [2, 3, 4]])
    """
    dim = as_dim(dimension, self.ndim, "dimension")
    length = self.shape[dim] if self.ndim else 1
    if size < 0:
        raise RuntimeError(f"unfold: size is {size} but must be >= 0. Give the size of a window. [nd-window]")
    if size > length:
        raise RuntimeError(
            f"unfold: maximum size for tensor at dimension {dim} is {length} but size is {size}. "
            "Give a smaller window. [nd-window]"
        )
    if step <= 0:
        raise RuntimeError(f"unfold: step is {step} but must be > 0. Give the distance between windows. [nd-window]")
    if not self.ndim:
        return _slice(shape_ops.reshape(self, shape=(1,)), 0, 0, size)
    return window.unfold(self, dim=dim, width=operator.index(size), step=operator.index(step))


def as_strided(input: Tensor, size: Shape, stride: Shape, storage_offset: int | None = None) -> Tensor:
    """A view of the memory of `input` in any geometry: sizes, strides and first element, counted in elements.

    Args:
        input: tensor whose memory is used.
        size: shape of the view.
        stride: distance of neighbours in each dimension.
        storage_offset: index of the first element in the memory. The default is that of `input`.

    >>> import ndgrad
    >>> ndgrad.as_strided(ndgrad.tensor([1.0, 2.0, 3.0]), (2, 2), (1, 1))
    tensor([[1., 2.],
            [2., 3.]])
    """
    sizes, strides = as_shape((size,)), as_shape((stride,))
    if len(sizes) != len(strides):
        raise RuntimeError(
            f"as_strided: mismatch in length of strides and shape: size {list(sizes)}, stride {list(strides)}. "
            "Give one stride per size. [nd-strides]"
        )
    if any(s < 0 for s in strides):
        raise RuntimeError(
            f"as_strided: Negative strides are not supported at the moment, got strides: {list(strides)}. Use flip(). "
            "[nd-strides]"
        )
    if any(n < 0 for n in sizes):
        raise RuntimeError(f"as_strided: size {list(sizes)} has a negative entry. Sizes are non-negative. [nd-range]")
    own, available = _extent(input)
    first = own if storage_offset is None else operator.index(storage_offset)
    if first < 0:
        raise RuntimeError(
            f"as_strided: invalid storage offset {first}. Count from the first element of the memory. [nd-strides]"
        )
    last = first + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True)) if 0 not in sizes else -1
    if last >= available:
        raise RuntimeError(
            f"as_strided: sizes {list(sizes)}, strides {list(strides)}, storage offset {first} requiring {last + 1} "
            f"elements are out of bounds for storage of {available} elements. Stay within the tensor's memory. "
            "[nd-strides]"
        )
    source, target = input, Geometry(sizes, strides, first - own)
    if not _covers(input, target):
        # Some elements lie outside this tensor. If they belong to its base, their gradients go there.
        info = None if input._meta is None else input._meta.view
        if info is not None:
            source, target = info.base, target._replace(offset=first - _extent(info.base)[0])
        if (batch_dims(source) or thread.dual_levels or tangents_of(source)) and not _covers(source, target):
            raise RuntimeError(
                f"as_strided: sizes {list(sizes)}, strides {list(strides)}, storage offset {first} reach memory that "
                f"is not part of the tensor (shape {list(input.shape)}), which vmap and forward mode cannot follow. "
                "Stay within the tensor. [nd-vmap-refused]"
            )
    return window.as_strided(source, source=window.geometry_of(source), target=target)


def _extent(t: Tensor) -> tuple[int, int]:
    """Return the position of a tensor's first element in its memory, and the number of elements of that memory."""
    memory = memory_of(t)
    return storage_offset(memory), owner_of(memory).nbytes // memory.itemsize


def _covers(t: Tensor, target: Geometry) -> bool:
    """True if every element of a geometry is an element of `t`."""
    if 0 in target.sizes:
        return True
    own = window.geometry_of(t)
    numel = math.prod(own.sizes)
    if shape_ops.can_view(own.sizes, own.strides, (numel,)) and (not own.sizes or own.strides[-1] == 1):
        last = target.offset + sum((n - 1) * s for n, s in zip(target.sizes, target.strides, strict=True))
        return target.offset >= 0 and last < numel
    return bool(np.isin(target.places(np), own.places(np)).all())
