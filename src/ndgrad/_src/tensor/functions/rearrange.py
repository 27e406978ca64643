"""Copies of a tensor with elements reordered or repeated, under torch's names."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from ndgrad._src.core.variable import Variable, wrap_like
from ndgrad._src.ops import cast
from ndgrad._src.ops import rearrange as ops
from ndgrad._src.ops import shape as shape_ops
from ndgrad._src.tensor.arguments import as_dim, as_dims, as_shape, both_worlds
from ndgrad._src.tensor.functions.shape import _read_keyword, _sizes, flatten, unsqueeze

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ndgrad._typing import Dims, Tensor

__all__ = ["flip", "fliplr", "flipud", "repeat_interleave", "roll", "rot90", "tile"]
METHODS = (*__all__, "repeat")

# ----- another order --------------------------------------------------------------------------------------------------


@overload
def flip(input: Tensor, dims: Sequence[int]) -> Tensor: ...


@overload
def flip(input: Tensor, *dims: int) -> Tensor: ...


def flip(input: Tensor, *dims: int | Sequence[int], **keyword: Sequence[int]) -> Tensor:
    """A copy with the order along each of `dims` reversed.

    Args:
        input: input tensor.
        *dims: dimensions to reverse, one by one or in one tuple.
        **keyword: the dimensions as `dims=` or `axis=`.

    >>> import ndgrad
    >>> ndgrad.flip(ndgrad.tensor([1.0, 2.0]), (0,))
    tensor([2., 1.])
    """
    known = "axis" if "axis" in keyword else "dims"
    given = _sizes("flip", _read_keyword("flip", known, dims, keyword))
    return ops.flip(input, dims=as_dims(given, input.ndim))


def fliplr(input: Tensor) -> Tensor:
    """A copy with the columns in reverse order.

    Args:
        input: tensor of at least two dimensions.

    >>> import ndgrad
    >>> ndgrad.fliplr(ndgrad.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([[2., 1.],
            [4., 3.]])
    """
    if input.ndim < 2:
        raise RuntimeError(
            f"fliplr: Input must be >= 2-d, but has {input.ndim} dimensions. Use flip(), which takes any dims. "
            "[nd-ndim]"
        )
    return ops.flip(input, dims=(1,))


def flipud(input: Tensor) -> Tensor:
    """A copy with the rows in reverse order.

    Args:
        input: tensor of at least one dimension.

    >>> import ndgrad
    >>> ndgrad.flipud(ndgrad.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([[3., 4.],
            [1., 2.]])
    """
    if input.ndim < 1:
        raise RuntimeError("flipud: Input must be >= 1-d, but is 0-d, which has no order. [nd-ndim]")
    return ops.flip(input, dims=(0,))


@both_worlds
def rot90(input: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """A copy rotated by k right angles in the plane of two dims, from the first towards the second.

    Args:
        input: tensor of at least two dimensions.
        k: number of right angles. A negative number rotates the other way.
        dims: two dimensions that span the plane.

    >>> import ndgrad
    >>> ndgrad.rot90(ndgrad.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([[2., 4.],
            [1., 3.]])
    """
    given = as_shape((dims,))
    if len(given) != 2:
        raise RuntimeError(
            f"rot90: expected total rotation dims == 2, but got dims = {len(given)}. "
            "Name the two dimensions of a plane. [nd-dim]"
        )
    if input.ndim < 2:
        raise RuntimeError(
            f"rot90: expected total dims >= 2, but got total dims = {input.ndim}. Only planes can be turned. [nd-ndim]"
        )
    first, second = (as_dim(d, input.ndim) for d in given)
    if first == second:
        raise RuntimeError(
            f"rot90: expected rotation dims to be different, but got dim0 = {given[0]} and dim1 = {given[1]}. "
            "Name two dimensions. [nd-dim]"
        )
    return ops.rot90(input, k=operator.index(k), dims=(first, second))


@both_worlds
def roll(input: Tensor, shifts: int | Sequence[int], dims: Dims = None) -> Tensor:
    """Shift a tensor: elements that leave at one end enter at the other.

    Args:
        input: input tensor.
        shifts: number of places, or one for each of `dims`.
        dims: dimension or dimensions to shift along. The default shifts the flattened tensor.

    >>> import ndgrad
    >>> ndgrad.roll(ndgrad.tensor([1.0, 2.0, 3.0]), 1)
    tensor([3., 1., 2.])
    """
    moves = as_shape((shifts,))
    where = () if dims is None else as_shape((dims,))
    if not moves:
        raise RuntimeError("roll: `shifts` required, but is (). Give a number of places. [nd-arguments]")
    if len(moves) != (len(where) or 1):
        raise RuntimeError(
            f"roll: shifts and dimensions must align. shifts: {len(moves)}, dims: {len(where)}. "
            "Give one shift per dim. [nd-dim]"
        )
    numbers = tuple(as_dim(d, input.ndim) for d in where)
    if not input.ndim:
        if where:
            raise IndexError(
                f"roll: dims is {where}, and a 0-d tensor has no dimension to roll along. Leave dims out. [nd-dim]"
            )
        return cast.clone(input)
    return ops.roll(input, shifts=moves, dims=numbers or None)


# ----- repetition -----------------------------------------------------------------------------------------------------


@overload
def repeat(self: Tensor, repeats: Sequence[int]) -> Tensor: ...


@overload
def repeat(self: Tensor, *repeats: int) -> Tensor: ...


def repeat(self: Tensor, *repeats: int | Sequence[int], **keyword: Sequence[int]) -> Tensor:
    """A copy with the whole tensor repeated along each dimension; additional numbers at the left add dimensions.

    Args:
        self: tensor of any shape.
        *repeats: how often the tensor is repeated along each dimension, one by one or in one tuple.
        **keyword: the numbers as `repeats=`.

    >>> import ndgrad
    >>> ndgrad.tensor([1.0, 2.0]).repeat(2, 2)
    tensor([[1., 2., 1., 2.],
            [1., 2., 1., 2.]])
    """
    times = _sizes("repeat", _read_keyword("repeat", "repeats", repeats, keyword))
    if len(times) < self.ndim:
        raise RuntimeError(
            "repeat: Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor: "
            f"{list(times)} for shape {list(self.shape)}. Give one number per dimension, or use tile(). [nd-ndim]"
        )
    if any(n < 0 for n in times):
        raise RuntimeError(
            f"repeat: Trying to create tensor with negative dimension: repeats {list(times)} of shape "
            f"{list(self.shape)}. Repeat 0 times or more. [nd-range]"
        )
    return ops.repeat(self, repeats=times)


@overload
def tile(input: Tensor, dims: Sequence[int]) -> Tensor: ...


@overload
def tile(input: Tensor, *dims: int) -> Tensor: ...


def tile(input: Tensor, *dims: int | Sequence[int], **keyword: Sequence[int]) -> Tensor:
    """A copy repeated along each dimension like `repeat`; missing numbers at the left are 1.

    Args:
        input: input tensor.
        *dims: how often the tensor is repeated along each dimension, one by one or in one tuple.
        **keyword: the numbers as `dims=`.

    >>> import ndgrad
    >>> ndgrad.tile(ndgrad.tensor([[1.0], [2.0]]), (2,))
    tensor([[1., 1.],
            [2., 2.]])
    """
    times = _sizes("tile", _read_keyword("tile", "dims", dims, keyword))
    return repeat(input, (1,) * (input.ndim - len(times)) + times)


@both_worlds
def repeat_interleave(
    input: Tensor, repeats: int | Tensor | None = None, dim: int | None = None, *, output_size: int | None = None
) -> Tensor:
    """Repeat each element, or each slice along `dim`, next to itself.

    Without `repeats`, the input holds the numbers, and each index is repeated.

    Args:
        input: input tensor.
        repeats: how often each is repeated: one number, or a vector with a number for each.
        dim: dimension of the slices. None means the flattened tensor.
        output_size: expected size of the result, which is only checked.

    >>> import ndgrad
    >>> ndgrad.repeat_interleave(ndgrad.tensor([1.0, 2.0]), 2)
    tensor([1., 1., 2., 2.])
    """
    if repeats is None:
        return _positions(input, output_size)
    if dim is None:
        input, dim = flatten(input), 0
    number = as_dim(dim, input.ndim)
    if not input.ndim:
        raise IndexError(
            "repeat_interleave: a 0-d tensor has no dimension to repeat along. Leave dim out, or use reshape(1) first. "
            "[nd-dim]"
        )
    size = input.shape[number]
    if isinstance(repeats, (Variable, np.ndarray)):
        counts = _counts(repeats)
        if len(counts) == 1:
            counts = counts * size
        if len(counts) != size:
            raise RuntimeError(
                "repeat_interleave: repeats must have the same size as input along dim, but got repeats.size(0) = "
                f"{len(counts)} and input.size({number}) = {size}. Give one number per slice, or one for all. "
                "[nd-shape]"
            )
        _check_output_size(output_size, sum(counts))
        return ops.repeat_interleave(input, repeats=counts, dim=number)
    if isinstance(repeats, (list, tuple)):
        raise TypeError(
            f"repeat_interleave(): repeats must be an int or a tensor of ints, but is a {type(repeats).__name__}. "
            "Wrap it in ndgrad.tensor(...). [nd-type]"
        )
    times = operator.index(repeats)
    if times < 0:
        raise RuntimeError(
            f"repeat_interleave: Repeats must be non-negative, but is {times}. Repeat 0 times or more. [nd-range]"
        )
    _check_output_size(output_size, times * size)
    shape = tuple(input.shape)
    apart = shape_ops.expand(unsqueeze(input, number + 1), shape=(*shape[: number + 1], times, *shape[number + 1 :]))
    return flatten(cast.clone_ordered(apart, order=tuple(range(len(shape) + 1))), number, number + 1)


def _positions(repeats: Tensor, output_size: int | None) -> Tensor:
    """Repeat each index as often as its element's value."""
    counts = _counts(repeats)
    if repeats.ndim != 1:
        raise RuntimeError(
            f"repeat_interleave only accept 1D vector as repeat, but got {repeats.ndim} dimensions. Flatten it first. "
            "[nd-ndim]"
        )
    _check_output_size(output_size, sum(counts))
    return wrap_like(repeats, np.repeat(np.arange(len(counts), dtype=np.int64), counts))


def _counts(repeats: Tensor | NDArray[Any]) -> tuple[int, ...]:
    """Return repeats given as a tensor as ints: the shape of the result depends on them."""
    array = repeats._array if isinstance(repeats, Variable) else repeats
    if isinstance(array, Variable):
        raise RuntimeError(
            "repeat_interleave: the shape of the result depends on the values of repeats, which here belong "
            "to a transform (vmap, grad). Give an int, or a tensor from outside the transform. [nd-vmap-value]"
        )
    if array.dtype.kind not in "iu":
        raise NotImplementedError(
            f"repeat_interleave: repeats must be integers, but is {array.dtype}. Convert it with .long(). [nd-dtype]"
        )
    if array.ndim > 1:
        raise RuntimeError(
            f"repeat_interleave: repeats must be 0-dim or 1-dim tensor, but has shape {array.shape}. Flatten it first. "
            "[nd-ndim]"
        )
    if (array < 0).any():
        raise RuntimeError(
            f"repeat_interleave: repeats can not be negative, but is {array.tolist()}. Repeat 0 times or more. "
            "[nd-range]"
        )
    return tuple(int(n) for n in np.atleast_1d(array).tolist())


def _check_output_size(given: int | None, actual: int) -> None:
    if given is not None and given != actual:
        raise RuntimeError(
            f"repeat_interleave: Invalid output_size, expected {actual} but got {given}. "
            "Give the right size or leave it out. [nd-shape]"
        )
