"""Pooling: maxima and means over windows, and what carries their derivatives.

A maximum is linear once it is known which element wins, so max pooling returns the winners' places, and its derivatives read
(`take_pooled`) and write (`max_unpool`) there. Averages are linear as they stand. Either way the derivative is a pair of
ops that are transposes of each other, and a batch is more samples.

x (N, C, *S); places are numbers within a plane, in row-major order. Settings are tuples with one entry per spatial axis.
"""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

from ndgrad.arrays import pooling as blocked
from ndgrad.ops.resample import average_taps, resample
from ndgrad.ops.table import op

Shape = tuple[int, ...]
WINDOW = {"kernel": (), "stride": (), "padding": (), "dilation": (), "ceil_mode": False}
AVERAGE = {"kernel": (), "stride": (), "padding": (), "ceil_mode": False, "count_include_pad": True, "divisor_override": None}


def _fold(x: Any, ops: Any) -> Any:
    return ops.reshape(x, shape=(x.shape[0] * x.shape[1], *x.shape[2:]))


def _unfold(x: Any, size: int, ops: Any) -> Any:
    return ops.reshape(x, shape=(size, x.shape[0] // size, *x.shape[1:]))


def positions(sizes: Shape, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape, ceil_mode: bool) -> Shape:
    """How many windows there are along each axis. In ceil mode the last may stick out, but must begin before the padding's end."""
    out = []
    for n, k, s, p, d in zip(sizes, kernel, stride, padding, dilation, strict=True):
        room = n + 2 * p - d * (k - 1) - 1
        count = (room + (s - 1 if ceil_mode else 0)) // s + 1
        out.append(count - 1 if ceil_mode and (count - 1) * s >= n + p else count)
    return tuple(out)


# ----- other libraries than NumPy: one tap after another over the whole array -------------------------------------------------------


def _padded_taps(np: Any, x: Any, fill: Any, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape, ceil_mode: bool) -> Any:
    """For each tap, its index and the array of what it reads."""
    out = positions(x.shape[2:], kernel, stride, padding, dilation, ceil_mode)
    ends = [max(0, (o - 1) * s + d * (k - 1) + 1 - n - p) for o, s, d, k, n, p in zip(out, stride, dilation, kernel, x.shape[2:], padding, strict=True)]
    padded = np.pad(x, [(0, 0), (0, 0), *zip(padding, ends, strict=True)], constant_values=fill)
    for tap in product(*map(range, kernel)):
        yield tap, padded[(..., *(slice(t * d, t * d + (o - 1) * s + 1, s) for t, d, o, s in zip(tap, dilation, out, stride, strict=True)))]


def _max_by_taps(np: Any, x: Any, **how: Any) -> tuple[Any, Any]:
    best = place = None
    sizes = x.shape[2:]
    lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    for tap, candidate in _padded_taps(np, x, lowest, **how):
        here = 0
        for axis, n in enumerate(sizes):
            at = np.arange(candidate.shape[2 + axis]) * how["stride"][axis] - how["padding"][axis] + tap[axis] * how["dilation"][axis]
            here = here * n + at.reshape(-1, *(1,) * (len(sizes) - 1 - axis))
        if best is None:
            best, place = candidate.copy(), np.broadcast_to(here, candidate.shape).copy()
            continue
        better = (candidate > best) | (candidate != candidate)
        # a window that has seen nothing but padding takes the first element inside, whatever it is
        inside = _inside(np, tap, sizes, candidate.shape[2:], **how)
        better |= inside & ~_inside_any(np, place, tap, sizes, candidate.shape[2:], **how)
        best, place = np.where(better, candidate, best), np.where(better, here, place)
    return best, place
