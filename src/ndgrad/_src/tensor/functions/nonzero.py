"""Positions of nonzero elements, and conversion of flat positions to indices, under torch's names."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from ndgrad._src.arrays.dtypes import as_dtype
from ndgrad._src.core.variable import Variable, np_dtype, wrap_like
from ndgrad._src.ops import arithmetic, cast, comparison, index, join, selection, shape, statistics
from ndgrad._src.ops import reduce as reductions
from ndgrad._src.tensor.arguments import as_integer
from ndgrad._src.tensor.functions.gather import as_line
from ndgrad._src.tensor.functions.reduce import deliver, ndim_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ndgrad._typing import Tensor

__all__ = ["argwhere", "nonzero", "nonzero_static", "unravel_index"]
METHODS = ("argwhere", "nonzero", "nonzero_static")


@overload
def nonzero(input: Tensor, *, as_tuple: Literal[False] = False, out: Tensor | None = None) -> Tensor: ...


@overload
def nonzero(input: Tensor, *, as_tuple: Literal[True]) -> tuple[Tensor, ...]: ...


def nonzero(input: Tensor, *, as_tuple: bool = False, out: Tensor | None = None) -> Tensor | tuple[Tensor, ...]:
    """The indices of the nonzero elements.

    Args:
        input: tensor of any dtype.
        as_tuple: whether one index tensor per dimension is returned, which can index `input`, instead of one row per
            element.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.nonzero(ndgrad.tensor([[0.0, 2.0], [3.0, 0.0]]))
    tensor([[0, 1],
            [1, 0]])
    """
    if not as_tuple:
        return deliver("nonzero", index.nonzero(input), out, input)
    places = index.nonzero(as_line(input))
    return tuple(index.getitem(places, index=(slice(None), d)) for d in range(max(input.ndim, 1)))


def argwhere(input: Tensor) -> Tensor:
    """The indices of the nonzero elements, one row per element.

    Args:
        input: tensor of any dtype.

    Returns:
        A tensor of shape (number of nonzero elements, `input.ndim`).

    >>> import ndgrad
    >>> ndgrad.argwhere(ndgrad.tensor([0.0, 2.0, 3.0]))
    tensor([[1],
            [2]])
    """
    return index.nonzero(input)


def nonzero_static(input: Tensor, *, size: int, fill_value: int = -1, out: Tensor | None = None) -> Tensor:
    """The first `size` rows of `nonzero`, followed by rows of `fill_value` if there are fewer. Its shape is known
    beforehand, so it works under vmap.

    Args:
        input: tensor of any dtype.
        size: number of rows of the result.
        fill_value: entry of rows that are left over.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.nonzero_static(ndgrad.tensor([0.0, 2.0, 3.0]), size=3)
    tensor([[ 1],
            [ 2],
            [-1]])
    """
    ndim = ndim_of(input, "nonzero_static")
    count = as_integer("nonzero_static", "size", size)
    if count < 0:
        raise RuntimeError(
            f"nonzero_static: 'size' must be an non-negative integer, but is {count}. Give the number of rows. "
            "[nd-range]"
        )
    shape_ = tuple(input.shape)
    elements = math.prod(shape_)
    true = shape.reshape(comparison.ne(input, 0), shape=(elements,))
    # Rank true elements before false ones, in a stable order.
    order = statistics.ranking(cast.cast(comparison.logical_not(true), dtype=np.dtype(np.int8)), dim=0)
    taken = min(count, elements)
    rows = index.getitem(order, index=(slice(None, taken),))
    columns = _unravel(shape.reshape(rows, shape=(taken, 1)), shape_)
    found = wrap_like(input, np.empty((taken, 0), np.int64)) if not ndim else join.cat(*columns, dim=1)
    known = comparison.lt(wrap_like(input, np.arange(taken)[:, None]), reductions.count_nonzero(true, dim=(0,)))
    found = selection.where(known, found, fill_value)
    if taken < count:
        rest = wrap_like(input, np.full((count - taken, ndim), fill_value, np.int64))
        found = join.cat(found, rest, dim=0)
    return deliver("nonzero_static", found, out, input)


# ----- flat positions -------------------------------------------------------------------------------------------------


def _unravel(places: Tensor, sizes: tuple[int, ...]) -> list[Tensor]:
    found = []
    for d, size in enumerate(sizes):
        step = math.prod(sizes[d + 1 :])
        found.append(arithmetic.remainder(arithmetic.floor_divide(places, max(step, 1)), max(size, 1)))
    return found


def unravel_index(indices: Tensor, shape: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Convert flat positions in a tensor of the given shape (row by row) to indices: one tensor per dimension.

    Args:
        indices: flat positions, integers.
        shape: shape of the tensor in which they count.

    >>> import ndgrad
    >>> ndgrad.unravel_index(ndgrad.tensor([3, 5]), (2, 3))
    (tensor([1, 1]), tensor([0, 2]))
    """
    ndim_of(indices, "unravel_index")
    if np_dtype(indices).kind not in "iu":
        raise TypeError(
            f"unravel_index(): expected 'indices' to be integer dtype, but got {as_dtype(np_dtype(indices))!r}. "
            "Convert it with .long(). [nd-dtype]"
        )
    given: Any = shape
    if isinstance(given, Variable) or not (isinstance(given, int) or all(hasattr(n, "__index__") for n in given)):
        raise TypeError(
            f"unravel_index(): expected 'shape' to be int or sequence of ints, but got {type(shape).__name__}. Use "
            "tolist(). [nd-type]"
        )
    sizes = (given,) if isinstance(given, int) else tuple(int(n) for n in given)
    if any(n < 0 for n in sizes):
        raise ValueError(f"unravel_index(): 'shape' cannot have negative values, but got {sizes}. [nd-range]")
    return tuple(_unravel(indices, sizes))
