"""Reductions of many short lines, the rows of a contiguous array.

NumPy's reductions along the last dimension start a loop of their own for every line, some 40 to 200 ns each, which for
lines of a hundred elements is most of the time. A dot product with ones, and `reduceat` over the flat array, do not.
"""

from __future__ import annotations

from typing import Any

import numpy

#: Lines longer than this are reduced by NumPy as quickly; and up to it, the two orders of summation are equally accurate.
_SHORT = 1024
#: Arrays smaller than this are not worth the detour.
SMALL = 4096


def is_lines(np: Any, x: Any, dim: tuple[int, ...]) -> bool:
    """Whether reducing x over `dim` is a reduction of many short contiguous lines."""
    if x.size < SMALL or len(dim) != 1 or np is not numpy:
        return False
    last = len(x.shape) - 1
    return bool(dim[0] == last and 1 < x.shape[last] <= _SHORT and x.flags.c_contiguous)


def line_sum(np: Any, x: Any, keepdim: bool) -> Any:
    """The sums of lines of float32 or float64."""
    out = np.vecdot(x, np.ones(x.shape[-1], x.dtype))
    return out[..., None] if keepdim else out


def line_extremum(np: Any, choose: Any, x: Any, keepdim: bool) -> Any:
    """The extrema of lines; `choose` is the library's maximum or minimum."""
    flat = x.reshape(-1)
    out = choose.reduceat(flat, np.arange(0, flat.size, x.shape[-1]))
    return out.reshape((*x.shape[:-1], 1) if keepdim else x.shape[:-1])
