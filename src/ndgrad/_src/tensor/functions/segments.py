"""Reductions of consecutive segments, under torch's name."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ndgrad._src.core.variable import innermost_array, np_dtype, wrap_like
from ndgrad._src.ops import cast, comparison, index, scan, selection, shape
from ndgrad._src.tensor.arguments import as_dim
from ndgrad._src.tensor.functions.gather import scatter_reduce
from ndgrad._src.tensor.functions.order import searchsorted

if TYPE_CHECKING:
    from ndgrad._typing import Number, Tensor

__all__ = ["segment_reduce"]

#: Initial value of a reduction, and its name in scatter_reduce.
_KINDS = {
    "sum": (0.0, "sum"),
    "mean": (0.0, "sum"),
    "prod": (1.0, "prod"),
    "max": (-math.inf, "amax"),
    "min": (math.inf, "amin"),
}


def segment_reduce(
    data: Tensor,
    reduce: str,
    *,
    lengths: Tensor | None = None,
    indices: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: Number | None = None,
) -> Tensor:
    """Reduce consecutive segments along one dimension.

    Args:
        data: tensor to reduce.
        reduce: `"sum"`, `"mean"`, `"max"`, `"min"` or `"prod"`.
        lengths: lengths of the segments, of shape `data.shape[:axis] + (number of segments,)`.
        indices: must be None. Only lengths and offsets are supported.
        offsets: starts of the segments and the end of the last one, instead of lengths.
        axis: dimension of the segments.
        unsafe: whether the sum of the lengths is not checked. Elements after the last segment are then ignored.
        initial: value with which each reduction starts, and the result of an empty segment.

    >>> import ndgrad
    >>> ndgrad.segment_reduce(ndgrad.tensor([1.0, 2.0, 3.0, 4.0]), "sum", lengths=ndgrad.tensor([1, 3]))
    tensor([1., 9.])
    """
    kind = {"amax": "max", "amin": "min"}.get(reduce, reduce)
    if kind not in _KINDS:
        raise RuntimeError(
            f"segment_reduce(): reduce argument must be either sum, prod, mean, amax or amin, got {reduce}. [nd-option]"
        )
    if indices is not None:
        raise RuntimeError(
            "segment_reduce(): indices based reduction is not supported yet. Give lengths or offsets. [nd-unsupported]"
        )
    if lengths is None:
        if offsets is None:
            raise RuntimeError(
                "segment_reduce(): Either lengths or offsets must be defined. Give one of them. [nd-exclusive]"
            )
        lengths = index.getitem(offsets, index=(Ellipsis, slice(1, None))) - index.getitem(
            offsets, index=(Ellipsis, slice(None, -1))
        )
    dim = as_dim(axis, data.ndim)
    if dim != lengths.ndim - 1 or tuple(lengths.shape[:-1]) != tuple(data.shape[:dim]):
        raise RuntimeError(
            f"segment_reduce(): Expected axis to be the last dimension of lengths but got {axis}: lengths have shape "
            f"{tuple(lengths.shape)} "
            f"and data {tuple(data.shape)}. Leading dimensions are a batch. [nd-dim]"
        )
    n, count = data.shape[dim], lengths.shape[-1]
    known = innermost_array(lengths)
    if not unsafe and not getattr(known, "is_meta", False) and ((known < 0).any() or (known.sum(-1) != n).any()):
        raise RuntimeError(
            f"segment_reduce(): Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1), {n}, "
            "when !unsafe, and to be "
            "non-negative. Pass unsafe=True to leave a rest. [nd-shape]"
        )
    ends = scan.cumsum(lengths, dim=dim)
    places = shape.expand(wrap_like(data, np.arange(n)), shape=(*tuple(data.shape[:dim]), n))
    # Elements beyond the last segment form one more, which is dropped at the end.
    segment = searchsorted(ends.contiguous(), places.contiguous(), right=True)
    segment = shape.expand(
        shape.reshape(segment, shape=(*tuple(segment.shape), *(1,) * (data.ndim - dim - 1))), shape=tuple(data.shape)
    )
    start, name = _KINDS[kind]
    sizes = (*tuple(data.shape[:dim]), count + 1, *tuple(data.shape[dim + 1 :]))
    target = wrap_like(data, np.full(sizes, start if initial is None else initial, np_dtype(data)))
    found = index.getitem(
        scatter_reduce(target, dim, segment, data, name), index=(*(slice(None),) * dim, slice(0, count))
    )
    if kind == "mean":
        width = shape.reshape(lengths, shape=(*tuple(lengths.shape), *(1,) * (data.ndim - dim - 1)))
        divided = found / cast.cast(selection.clamp_min(width, 1), dtype=np_dtype(data))
        found = selection.where(comparison.eq(width, 0), math.nan if initial is None else initial, divided)
    return found
