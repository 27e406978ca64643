"""Sums over any dimensions whose rounding errors do not grow with the number of terms.

NumPy adds pairwise along the dimension that is innermost in memory. Along every other dimension it adds one row after
the other, so a sum over a million rows loses four digits of float32. Here these rows are added in blocks, and then the
sums of blocks in blocks, and so on: each partial sum has at most `2 * _BLOCK` terms, as in torch's cascade sums.

A block takes rows that are far apart in memory (rows 0, q, 2q, ...), so that NumPy's inner loop runs over q rows at
once. That is as quick as a sum of a few long rows, and much quicker than NumPy where rows are short: a million rows of
8 take 2 ms instead of 40. Wide rows are added by BLAS, as products with ones.
"""

from __future__ import annotations

from math import inf, prod
from typing import TYPE_CHECKING, Any

import numpy

from ndgrad._src.arrays.precision import INEXACT, refuse_float8

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload

#: The number of terms in a partial sum, up to a factor of two. NumPy computes sums with fewer terms.
_BLOCK = 32
#: BLAS adds rows of at least this many elements, if it supports the dtype.
_WIDE = 256
#: Larger arrays are summed in pieces of this many bytes, so that partial sums stay in the processor's cache.
_PIECE = 16 << 20
#: BLAS adds up to this many rows at once. Its kernels add four of them at a time, so its chains of sums are shorter.
_FEW_ROWS = 512
#: The length of the pieces of dot products.
_LINE = 2048
_ONES = {numpy.dtype(code): numpy.ones(_FEW_ROWS, code) for code in "fd"}
#: For arrays below this size, up to this many terms are left to NumPy: blocks would take three times as long.
_SMALL, _FEW_TERMS = 4096, 256


def reduce_sum(
    np: Library, x: Payload, axes: tuple[int, ...] | None, keepdims: bool = False, dtype: numpy.dtype[Any] | None = None
) -> Payload:
    """Return `np.add.reduce`, accurate along every dimension. None stands for all axes; axes are not negative."""
    total: Any
    if x.__class__ is not numpy.ndarray or x.dtype.kind not in INEXACT:
        return np.add.reduce(x, axis=axes, dtype=dtype, keepdims=keepdims)
    if x.itemsize == 1:
        refuse_float8(x.dtype)
    if axes is None and x.flags.c_contiguous:
        return np.add.reduce(x, axis=None, dtype=dtype, keepdims=keepdims)  # NumPy adds pairwise
    shape = x.shape
    ndim = len(shape)
    axes = tuple(range(ndim)) if axes is None else axes if len(axes) < 2 else tuple(sorted(axes))
    terms = prod([shape[axis] for axis in axes])
    if terms <= 2 * _BLOCK or _is_accurate_in_numpy(x, axes, terms):
        return np.add.reduce(x, axis=axes, dtype=dtype, keepdims=keepdims)
    count = len(axes)
    if terms <= _FEW_ROWS and dtype is None and x.flags.c_contiguous and x.dtype in _ONES and axes[-1] == count - 1:
        total = numpy.dot(_ONES[x.dtype][:terms], x if ndim == 2 else x.reshape(terms, -1))
        return total.reshape((1,) * count + shape[count:] if keepdims else shape[count:])
    merged, is_summed, kept = _merge_dimensions(x, axes)
    total = _sum_in_blocks(merged, is_summed, dtype)
    if len(kept) > 1:
        total = total.reshape([shape[d] for d in kept]).transpose(sorted(range(len(kept)), key=kept.__getitem__))
    if keepdims:
        return total.reshape([1 if d in axes else n for d, n in enumerate(shape)])
    return total.reshape([n for d, n in enumerate(shape) if d not in axes]) if count < ndim else total


def _is_accurate_in_numpy(x: numpy.ndarray[Any, Any], axes: tuple[int, ...], terms: int) -> bool:
    """True if NumPy adds pairwise, or if the array is so small that blocks are not worth their time."""
    if terms <= _FEW_TERMS and x.size < _SMALL:
        return not (x.flags.c_contiguous and x.dtype in _ONES and axes[-1] == len(axes) - 1 < x.ndim - 1)
    return x.flags.c_contiguous and axes[0] == x.ndim - len(axes)


def _merge_dimensions(x: numpy.ndarray[Any, Any], axes: tuple[int, ...]) -> tuple[Any, list[bool], list[int]]:
    """Merge neighbouring dimensions of the array in memory order.

    Returns the array, a bool per dimension (True if summed), and the kept dimensions in memory order. NumPy adds
    pairwise along the last dimension only.
    """
    shape, strides = x.shape, x.strides
    order = sorted([d for d, n in enumerate(shape) if n != 1], key=lambda d: -abs(strides[d] or inf))
    sizes: list[int] = []
    is_summed: list[bool] = []
    for place, d in enumerate(order):
        summed = d in axes
        if place and summed == is_summed[-1] and strides[order[place - 1]] == strides[d] * shape[d]:
            sizes[-1] *= shape[d]
        else:
            sizes.append(shape[d])
            is_summed.append(summed)
    merged = x.transpose(order + [d for d, n in enumerate(shape) if n == 1]).reshape(sizes)
    return merged, is_summed, [d for d in order if d not in axes]


def reduce_dot(x: Payload, y: Payload) -> Payload:
    """Return the sum of x y along the last dimension of NumPy arrays, without an array of the products.

    BLAS adds the products one after the other in a few lanes, so long rows are cut into pieces. x is conjugated.
    """
    length = x.shape[-1]
    if length <= _LINE or x.shape != y.shape or x.__class__ is not numpy.ndarray:
        return numpy.vecdot(x, y)
    pieces = length // _LINE
    whole = pieces * _LINE
    cut = (*x.shape[:-1], pieces, _LINE)
    total = numpy.add.reduce(numpy.vecdot(x[..., :whole].reshape(cut), y[..., :whole].reshape(cut)), axis=-1)
    return total + numpy.vecdot(x[..., whole:], y[..., whole:]) if whole < length else total


def _sum_in_blocks(x: numpy.ndarray[Any, Any], is_summed: list[bool], dtype: numpy.dtype[Any] | None) -> Payload:
    """Return the sum over some dimensions of an array whose last dimension is the innermost one in memory."""
    while True:
        # NumPy adds pairwise along the last dimension, so only the others need blocks.
        slow = [d for d, summed in enumerate(is_summed[:-1]) if summed]
        if prod([x.shape[d] for d in slow]) <= 2 * _BLOCK:
            return numpy.add.reduce(x, axis=tuple([d for d, s in enumerate(is_summed) if s]), dtype=dtype)
        axis = max(slow, key=x.shape.__getitem__)
        if x.shape[axis] <= 2 * _BLOCK:
            x = numpy.add.reduce(x, axis=axis, dtype=dtype)
            is_summed = is_summed[:axis] + is_summed[axis + 1 :]
        else:
            x = _add_blocks(x, axis, dtype)
        dtype = None  # partial sums already have this dtype


def _add_blocks(x: numpy.ndarray[Any, Any], axis: int, dtype: numpy.dtype[Any] | None) -> Payload:
    """Return partial sums along `axis`, one per block."""
    lead, length, rest = x.shape[:axis], x.shape[axis], x.shape[axis + 1 :]
    width = prod(rest)
    before = (slice(None),) * axis
    rows = _PIECE // max(width * x.itemsize, 1)
    if 2 * _BLOCK < rows < length:
        is_summed = [d == axis for d in range(x.ndim)]
        pieces = [
            _sum_in_blocks(x[(*before, slice(start, start + rows))], is_summed, dtype)
            for start in range(0, length, rows)
        ]
        return numpy.stack(pieces, axis)
    blocks = length // _BLOCK
    terms = length // blocks
    whole = x[(*before, slice(terms * blocks))]
    if width >= _WIDE and dtype is None and x.dtype in _ONES and whole[before and (0,) * axis].flags.c_contiguous:
        rows_of_blocks = whole.reshape(*lead, blocks, terms, width)
        partial = numpy.matmul(_ONES[x.dtype][:terms], rows_of_blocks).reshape(*lead, blocks, *rest)
    else:
        partial = numpy.add.reduce(whole.reshape(*lead, terms, blocks, *rest), axis=axis, dtype=dtype)
    left = length - terms * blocks  # fewer than there are blocks
    if left:
        partial[(*before, slice(left))] += x[(*before, slice(terms * blocks, None))]
    return partial
