"""Resampling: every output is a weighted sum of a few inputs along one or several adjacent dimensions.

Interpolation of every kind, padding by reflection, repetition or wrapping, and average pooling are all this one linear
map. They differ only in the inputs that each output reads, and in the weights. The map is a setting, a `Taps` for each
dimension (ndgrad._src.arrays.taps), and the transpose of a `Taps` is a `Taps`. So the op is its own derivative and
closed under differentiation of any order.

Taps are processed one by one, not as a product with a (mostly zero) matrix. So an infinity stays in the outputs that
read it, and the cost is proportional to the taps.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy

from ndgrad._src.arrays.taps import Taps, transposed, weighted_sum
from ndgrad._src.ops.table import op

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload


def _resample(np: Library, x: Payload, *, dim: tuple[int, ...], taps: tuple[Taps, ...]) -> Payload:
    return weighted_sum(np, x, dim, taps)


# x, resampled along each dimension of `dim`, in ascending order, by the map of the same place in `taps`.
resample = op(
    "resample", "x",
    _resample,
    settings={"dim": (), "taps": ()},
    vjp={"x": lambda g, dim, taps, ops: ops.resample(g, dim=dim, taps=transposed(taps))},
    jvp="linear",
    batch="dims",
    halves_on_device=True,
)  # fmt: skip


# ----- the inputs of each output, and their weights -----------------------------------------------------------------
# Positions are pixel centres: output o is at (o + 1/2) * ratio - 1/2 of the input, unless the corners are aligned.


def _positions(inputs: int, outputs: int, ratio: float, align_corners: bool) -> Any:
    o = numpy.arange(outputs, dtype=numpy.float64)
    if align_corners:
        return o * ((inputs - 1) / (outputs - 1) if outputs > 1 else 0.0)
    return (o + 0.5) * ratio - 0.5


@functools.lru_cache(maxsize=256)
def nearest_taps(inputs: int, outputs: int, ratio: float, exact: bool) -> Taps:
    """Read one input per output: the input that contains the output's left edge, or (exact) its centre.

    Positions are in single precision, as in torch, so that rounding puts them on the same side of an edge.
    """
    o = numpy.arange(outputs, dtype=numpy.float32) + numpy.float32(0.5 if exact else 0.0)
    index = numpy.minimum(numpy.floor(o * numpy.float32(ratio)), inputs - 1)
    return Taps(index, None, inputs)


@functools.lru_cache(maxsize=256)
def linear_taps(inputs: int, outputs: int, ratio: float, align_corners: bool) -> Taps:
    """Read two neighbours, weighted by distance. Positions left of the first centre count as on it."""
    at = numpy.maximum(_positions(inputs, outputs, ratio, align_corners), 0.0)
    left = numpy.minimum(numpy.floor(at), inputs - 1)
    right = numpy.minimum(left + 1, inputs - 1)
    share = numpy.clip(at - left, 0.0, 1.0)
    return Taps([left, right], [1.0 - share, share], inputs)


@functools.lru_cache(maxsize=256)
def cubic_taps(inputs: int, outputs: int, ratio: float, align_corners: bool, a: float = -0.75) -> Taps:
    """Apply Keys' cubic convolution over four neighbours, with a repeated border (Keys 1981, with parameter a)."""
    at = _positions(inputs, outputs, ratio, align_corners)
    left = numpy.floor(at)
    share = at - left

    def near(d: Any) -> Any:  # |d| <= 1
        return ((a + 2) * d - (a + 3)) * d * d + 1

    def far(d: Any) -> Any:  # 1 < |d| < 2
        return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a

    index = [numpy.clip(left + k, 0, inputs - 1) for k in (-1, 0, 1, 2)]
    return Taps(index, [far(share + 1), near(share), near(1 - share), far(2 - share)], inputs)


@functools.lru_cache(maxsize=256)
def border_taps(inputs: int, before: int, after: int, mode: str) -> Taps:
    """Extend the border of the input by its mirror image, its last value, or its other end."""
    at = numpy.arange(-before, inputs + after)
    if mode == "reflect":
        period = max(2 * (inputs - 1), 1)
        at = numpy.abs((at + inputs - 1) % period - (inputs - 1)) if inputs > 1 else at * 0
    elif mode == "replicate":
        at = numpy.clip(at, 0, inputs - 1)
    else:  # the part that cropping leaves is wrapped around
        first, size = max(-before, 0), inputs + min(before, 0) + min(after, 0)
        at = (at - first) % size + first
    return Taps(at, None, inputs)


@functools.lru_cache(maxsize=256)
def filtered_taps(inputs: int, outputs: int, ratio: float, cubic: bool) -> Taps:
    """Interpolate with averaging when shrinking: the kernel is stretched by the ratio, and its weights sum to one."""
    stretch = max(ratio, 1.0)
    reach = (2.0 if cubic else 1.0) * stretch
    centre = ratio * (numpy.arange(outputs) + 0.5)
    start = numpy.maximum(numpy.floor(centre - reach + 0.5), 0).astype(int)
    stop = numpy.minimum(numpy.floor(centre + reach + 0.5), inputs).astype(int)
    steps = numpy.arange(max(1, int((stop - start).max(initial=1))))[:, None]
    distance = numpy.abs((start + steps - centre + 0.5) / stretch)
    if cubic:  # Keys' kernel with a = -1/2
        near, far = (1.5 * distance - 2.5) * distance**2 + 1, ((-0.5 * distance + 2.5) * distance - 4) * distance + 2
        weight = numpy.where(distance < 1, near, numpy.where(distance < 2, far, 0.0))
    else:
        weight = numpy.maximum(1 - distance, 0.0)
    weight = numpy.where(steps < stop - start, weight, 0.0)
    return Taps(numpy.minimum(start + steps, inputs - 1), weight / weight.sum(axis=0), inputs)
