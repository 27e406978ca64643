"""Reductions of many short lines, the rows of a contiguous array.

NumPy's reductions along the last dimension start a loop of their own for every line, some 30 to 60 ns each, which for
lines of a hundred elements is most of the time. A product with a vector of ones does not, nor does `reduceat` over the
flat array start as much; and the extrema of very short lines are those of the few long columns of the transpose.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload

#: Lines longer than this are reduced by NumPy as quickly; and up to it, the two orders of
#: summation are equally accurate.
_SHORT = 1024
#: Arrays smaller than this are not worth the detour.
SMALL = 4096
#: Up to this length a line's extremum is found more quickly in a transposed copy.
_VERY_SHORT = 16


def is_lines(np: Library, x: Payload, dim: tuple[int, ...]) -> bool:
    """Whether reducing x over `dim` is a reduction of many short contiguous lines."""
    if x.size < SMALL or len(dim) != 1 or not isinstance(x, numpy.ndarray):
        return False
    last = len(x.shape) - 1
    return bool(dim[0] == last and 1 < x.shape[last] <= _SHORT and x.flags.c_contiguous)


def line_sum(np: Library, x: Payload, keepdim: bool) -> Payload:
    """The sums of lines of float32 or float64."""
    *lines, length = x.shape
    out = np.matmul(x.reshape(-1, length), np.ones(length, x.dtype))
    return _shaped(out, lines, keepdim)


def line_extremum(np: Library, choose: Any, x: Payload, keepdim: bool) -> Payload:
    """The extrema of lines; `choose` is the library's maximum or minimum."""
    *lines, length = x.shape
    if length <= _VERY_SHORT:
        out = choose.reduce(np.ascontiguousarray(x.reshape(-1, length).T), axis=0)
    else:
        flat = x.reshape(-1)
        out = choose.reduceat(flat, np.arange(0, flat.size, length))
    return _shaped(out, lines, keepdim)


def _shaped(out: Any, lines: list[int], keepdim: bool) -> Any:
    if keepdim:
        return out.reshape(*lines, 1)
    return out if len(lines) == 1 else out.reshape(lines)
