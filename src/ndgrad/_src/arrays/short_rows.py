"""Reductions of many short rows of a contiguous array.

NumPy's reductions along the last dimension start a separate loop for every row, some 30 to 60 ns each. For rows of a
hundred elements this is most of the time. A product with a vector of ones avoids it, and `reduceat` over the flat array
starts less per row. The extrema of very short rows are those of the few long columns of the transpose.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload

#: NumPy reduces longer rows as fast. Up to this length, the two orders of summation are equally accurate.
_SHORT = 1024
#: Smaller arrays are left to NumPy.
SMALL = 4096
#: Up to this length a transposed copy gives a row's extremum faster.
_VERY_SHORT = 16


def is_lines(np: Library, x: Payload, dim: tuple[int, ...]) -> bool:
    """True if reducing x over `dim` is a reduction of many short contiguous rows."""
    if x.size < SMALL or len(dim) != 1 or not isinstance(x, numpy.ndarray):
        return False
    last = len(x.shape) - 1
    return bool(dim[0] == last and 1 < x.shape[last] <= _SHORT and x.flags.c_contiguous)


def line_sum(np: Library, x: Payload, keepdim: bool) -> Payload:
    """Return the sums of rows of float32 or float64."""
    *lines, length = x.shape
    out = np.matmul(x.reshape(-1, length), np.ones(length, x.dtype))
    return _reshape(out, lines, keepdim)


def line_extremum(np: Library, choose: Any, x: Payload, keepdim: bool) -> Payload:
    """Return the extrema of rows; `choose` is the library's maximum or minimum."""
    *lines, length = x.shape
    if length <= _VERY_SHORT:
        out = choose.reduce(np.ascontiguousarray(x.reshape(-1, length).T), axis=0)
    else:
        flat = x.reshape(-1)
        out = choose.reduceat(flat, np.arange(0, flat.size, length))
    return _reshape(out, lines, keepdim)


def _reshape(out: Payload, lines: list[int], keepdim: bool) -> Payload:
    if keepdim:
        return out.reshape(*lines, 1)
    return out if len(lines) == 1 else out.reshape(lines)
