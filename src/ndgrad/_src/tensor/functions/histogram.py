"""Histograms with edges, in one and in several dimensions, under torch's names.

Counts are constant between the edges, so their derivative with respect to the sample is 0. Gradients flow from counts
to weights, and from edges computed from the sample's extremes to these extremes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.arrays.dtypes import as_dtype
from ndgrad._src.arrays.precision import is_floating
from ndgrad._src.core.variable import Variable, np_dtype, wrap_like
from ndgrad._src.ops import cast, comparison, extremum, index, order, selection, shape
from ndgrad._src.ops import reduce as reductions
from ndgrad._src.tensor import return_types
from ndgrad._src.tensor.arguments import as_integer
from ndgrad._src.tensor.functions.reduce import deliver, ndim_of

if TYPE_CHECKING:
    from ndgrad._typing import Tensor

__all__ = ["histogram", "histogramdd"]
METHODS = ("histogram",)


def _edges(name: str, column: Tensor, bins: int | Tensor, ends: tuple[float, float] | None, dimension: int) -> Tensor:
    """Return the bin edges of one dimension: those given, or even ones between the ends or the sample's
    extremes."""
    if isinstance(bins, Variable):
        if bins.ndim != 1 or bins.shape[0] < 1:
            raise RuntimeError(
                f"{name}: bins tensor should have one dimension and at least one edge, but has shape "
                f"{tuple(bins.shape)}. "
                "Give the edges in rising order. [nd-ndim]"
            )
        if np_dtype(bins) != np_dtype(column):
            raise RuntimeError(
                f"{name}: input tensor and bins tensors should have the same dtype, but have "
                f"{as_dtype(np_dtype(column))!r} and "
                f"{as_dtype(np_dtype(bins))!r}. Convert one of them. [nd-dtype-mismatch]"
            )
        return bins
    count = as_integer(name, "bins", bins)
    if count <= 0:
        raise RuntimeError(f"{name}: bins must be > 0, but got {count} for dimension {dimension}. [nd-range]")
    low: Any
    high: Any
    if ends is not None:
        low, high = ends
        if low > high:
            raise RuntimeError(
                f"{name}: min should not exceed max, but got min {low} max {high} for dimension {dimension}. Exchange "
                "them. [nd-range]"
            )
        values = (low, high)
    elif not column.shape[0]:
        low, high = values = (0.0, 1.0)
    else:
        low, high = extremum.min_all(column), extremum.max_all(column)
        values = (float(low.detach().item()), float(high.detach().item()))
    if not all(map(math.isfinite, values)):
        raise RuntimeError(
            f"{name}: dimension {dimension}'s range [{values[0]}, {values[1]}] is not finite. Give a range. [nd-range]"
        )
    if values[0] == values[1]:
        low, high = low - 0.5, high + 0.5
    dtype = np_dtype(column)
    steps = wrap_like(column, np.linspace(0.0, 1.0, count + 1).astype(dtype))
    if not isinstance(low, Variable):
        return wrap_like(column, np.linspace(low, high, count + 1).astype(dtype))
    last = wrap_like(column, np.arange(count + 1) == count)
    return selection.where(last, high, low + (high - low) * steps)


def _counts(columns: Sequence[Tensor], edges: Sequence[Tensor], weight: Tensor | None, density: bool) -> Tensor:
    """Return the number of points, or their weight, in each box. Boxes are closed on the left; the last one
    also on the right."""
    sizes = tuple(e.shape[0] - 1 for e in edges)
    first = columns[0]
    place: Any = 0
    inside: Any = None
    for column, edge, size in zip(columns, edges, sizes, strict=True):
        column, edge = shape.detach(column), shape.detach(edge)
        low, high = index.getitem(edge, index=(0,)), index.getitem(edge, index=(-1,))
        within = comparison.logical_and(comparison.ge(column, low), comparison.le(column, high))
        inside = within if inside is None else comparison.logical_and(inside, within)
        found = order.searchsorted(edge, column, right=True) - 1
        place = place * size + selection.clamp(found, 0, max(size - 1, 0))
    dtype = np_dtype(first)
    amount: Any = cast.cast(inside, dtype=dtype)
    if weight is not None:
        amount = selection.where(
            inside,
            shape.reshape(weight, shape=tuple(first.shape)),
            cast.cast(wrap_like(first, np.zeros(())), dtype=dtype),
        )
    counts = shape.reshape(index.index_add_zeros(amount, place, shape=(math.prod(sizes),)), shape=sizes)
    if density:
        counts = counts / reductions.sum_all(counts)
        for d, edge in enumerate(edges):
            widths = index.getitem(edge, index=(slice(1, None),)) - index.getitem(edge, index=(slice(None, -1),))
            counts = counts / shape.reshape(widths, shape=tuple(-1 if i == d else 1 for i in range(len(edges))))
    return counts


def _check_arguments(name: str, input: Tensor, points: tuple[int, ...], weight: Tensor | None) -> None:
    if not is_floating(np_dtype(input)):
        raise NotImplementedError(
            f"{name}(): not implemented for {as_dtype(np_dtype(input))!r}. Convert the input to floating point first. "
            "[nd-dtype]"
        )
    if weight is not None and (tuple(weight.shape) != points or np_dtype(weight) != np_dtype(input)):
        raise RuntimeError(
            f"{name}: if weight tensor is provided it should have one weight for each point, shape {list(points)}, and "
            "the dtype of "
            f"input, {as_dtype(np_dtype(input))!r}, but it has shape {list(weight.shape)} and dtype "
            f"{as_dtype(np_dtype(weight))!r}. [nd-shape]"
        )


def histogram(
    input: Tensor,
    bins: int | Tensor = 100,
    *,
    range: tuple[float, float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
    out: tuple[Tensor, Tensor] | None = None,
) -> return_types.histogram:
    """Return counts (or sums of weights) in bins, and the bin edges. With `density`, counts are divided by their sum
    and by the widths.

    Args:
        input: floating-point tensor of any shape.
        bins: number of even bins, or a vector of edges.
        range: ends of even bins. The default is the extremes of the input.
        weight: weight of each element, added instead of 1.
        density: whether counts are divided by their sum and by the widths of the bins.
        out: tuple of tensors that receive the results.

    Returns:
        The counts `hist` and the edges `bin_edges`.

    >>> import ndgrad
    >>> ndgrad.histogram(ndgrad.tensor([1.0, 2.0, 1.0]), bins=2, range=(0.0, 4.0)).hist
    tensor([2., 1.])
    """
    ndim_of(input, "histogram")
    _check_arguments("histogram", input, tuple(input.shape), weight)
    if isinstance(bins, Variable) and range is not None:
        raise TypeError(
            "histogram(): got both edges, as bins, and a range. Give a number of bins with a range. [nd-exclusive]"
        )
    column = shape.reshape(input, shape=(math.prod(input.shape),))
    edges = _edges("histogram", column, bins, None if range is None else (float(range[0]), float(range[1])), 0)
    counts = _counts([column], [edges], weight, density)
    return deliver("histogram", return_types.histogram(counts, edges), out, input, weight)


def histogramdd(
    input: Tensor,
    bins: int | Sequence[int] | Sequence[Tensor],
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> return_types.histogramdd:
    """Return counts (or sums of weights) in boxes, and the edges along each dimension. The last dimension of the input
    holds the coordinates of a point.

    Args:
        input: floating-point points of shape (..., n).
        bins: number of even bins, the same or one for each coordinate, or a vector of edges for each.
        range: lower and upper end of each coordinate, 2 n numbers one after another. The default is the extremes of the
            input.
        weight: weight of each point, added instead of 1.
        density: whether counts are divided by their sum and by the volumes of the boxes.

    Returns:
        The counts `hist` of n dimensions, and the edges `bin_edges` as a tuple of n vectors.

    >>> import ndgrad
    >>> ndgrad.histogramdd(ndgrad.tensor([[0.0, 1.0], [1.0, 0.0]]), bins=2).hist
    tensor([[0., 1.],
            [1., 0.]])
    """
    if ndim_of(input, "histogramdd") < 2:
        raise RuntimeError(
            f"histogramdd: input tensor should have at least 2 dimensions, but has shape {tuple(input.shape)}. Its "
            "last one is the "
            "coordinates of a point. [nd-ndim]"
        )
    count = input.shape[-1]
    _check_arguments("histogramdd", input, tuple(input.shape[:-1]), weight)
    sides: tuple[Any, ...] = tuple(bins) if isinstance(bins, (list, tuple)) else (bins,) * count
    if len(sides) != count:
        raise RuntimeError(
            f"histogramdd: expected {count} sequences of bin edges or numbers of bins, one for each coordinate, but "
            f"got {len(sides)}. [nd-shape]"
        )
    if range is not None and len(range) != 2 * count:
        raise RuntimeError(
            f"histogramdd: for a {count}-dimensional histogram, range should have {2 * count} elements, but got "
            f"{len(range)}. [nd-shape]"
        )
    points = shape.reshape(input, shape=(math.prod(input.shape[:-1]), count))
    columns = [index.getitem(points, index=(slice(None), d)) for d in np.arange(count).tolist()]
    ends = [
        None if range is None else (float(range[2 * d]), float(range[2 * d + 1])) for d in np.arange(count).tolist()
    ]
    edges = [_edges("histogramdd", c, b, e, d) for d, (c, b, e) in enumerate(zip(columns, sides, ends, strict=True))]
    return return_types.histogramdd(_counts(columns, edges, weight, density), tuple(edges))
