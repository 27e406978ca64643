"""Resampling along one dimension: every output is a weighted sum of a few inputs.

Interpolation of every kind, padding by reflection, repetition or wrapping, and adaptive average pooling are all this
one linear map, applied along one dimension after another. They differ only in the inputs that each output reads, and in
the weights. The map is a setting, a `Taps`, and the transpose of a `Taps` is a `Taps`. So the op is its own derivative
and closed under differentiation of any order.

Taps are processed one by one, not as a product with a (mostly zero) matrix. So an infinity stays in the outputs that
read it, and the cost is proportional to the taps.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy

from ndgrad._src.arrays.precision import is_inexact
from ndgrad._src.ops.table import op

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload


class Taps:
    """The inputs that each output reads (`index`, of shape (taps, outputs)) and their weights (None: all ones).

    Outputs that read nothing are listed in `empty`; their index is arbitrary.
    """

    def __init__(self, index: Any, weight: Any, inputs: int, empty: Any = None) -> None:
        self.index = numpy.asarray(index, dtype=numpy.intp)
        self.weight = None if weight is None else numpy.asarray(weight, dtype=numpy.float64)
        self.inputs = inputs
        self.empty = empty

    @property
    def outputs(self) -> int:
        return int(self.index.shape[1])

    @functools.cached_property
    def transpose(self) -> Taps:
        """Return the transposed map: for each input, the outputs that read it.

        The pairs (input, output) are sorted by input and written into rows of the length that the most-read input
        needs. Shorter rows are filled by a repetition with weight zero.
        """
        taps, outputs = self.index.shape
        read = self.index.ravel()
        reader = numpy.tile(numpy.arange(outputs), taps)
        weight = numpy.ones(read.size) if self.weight is None else self.weight.ravel()
        kept = weight != 0
        if self.empty is not None:
            kept &= ~numpy.isin(reader, self.empty)
        read, reader, weight = read[kept], reader[kept], weight[kept]
        order = numpy.argsort(read, kind="stable")
        read, reader, weight = read[order], reader[order], weight[order]
        counts = numpy.bincount(read, minlength=self.inputs)
        longest = max(1, int(counts.max(initial=0)))
        index = numpy.zeros((longest, self.inputs), numpy.intp)
        weights = numpy.zeros((longest, self.inputs))
        place = numpy.arange(read.size) - numpy.repeat(numpy.cumsum(counts) - counts, counts)
        index[place, read] = reader
        weights[place, read] = weight
        index = numpy.where(numpy.arange(longest)[:, None] < counts, index, index[0])
        unread = numpy.flatnonzero(counts == 0)
        empty = unread if unread.size else None
        plain = longest == 1 and bool(numpy.all((weights == 1) | (counts == 0)))
        transposed = Taps(index, None if plain else weights, outputs, empty)
        transposed.__dict__["transpose"] = self
        return transposed


def _resample(np: Library, x: Payload, *, dim: int, taps: Taps) -> Payload:
    index = np.asarray(taps.index)
    behind = (-1, *(1,) * (x.ndim - dim - 1))
    dtype = x.dtype if is_inexact(x.dtype) or taps.weight is None else np.result_type(x.dtype, np.float64)
    weight = (
        None
        if taps.weight is None
        else np.asarray(taps.weight.astype(dtype.type(0).real.dtype)).reshape(len(index), *behind)
    )
    if not x.size:
        return np.zeros((*x.shape[:dim], taps.outputs, *x.shape[dim + 1 :]), dtype)
    out = x.take(index[0], axis=dim)
    if weight is not None:
        out = out.astype(dtype, copy=False)
        out *= weight[0]
    for tap in range(1, len(index)):
        part = x.take(index[tap], axis=dim)
        if weight is not None:
            part = part.astype(dtype, copy=False)
            part *= weight[tap]
        out += part
    if taps.empty is not None:
        out[(*(slice(None),) * dim, np.asarray(taps.empty))] = 0
    return out


resample = op(
    "resample", "x",
    _resample,
    settings={"dim": 0, "taps": None},
    vjp={"x": lambda g, dim, taps, ops: ops.resample(g, dim=dim, taps=taps.transpose)},
    jvp="linear",
    batch="dims",
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
    return Taps(index[None], None, inputs)


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
def average_taps(inputs: int, outputs: int) -> Taps:
    """Average bins from floor(o n / m) to ceil((o + 1) n / m). Neighbouring bins may share an input."""
    o = numpy.arange(outputs)
    start = o * inputs // max(outputs, 1)
    stop = -(-(o + 1) * inputs // max(outputs, 1))
    length = stop - start
    steps = numpy.arange(max(1, int(length.max(initial=1))))[:, None]
    inside = steps < length
    index = numpy.where(inside, start + steps, start)
    return Taps(index, numpy.where(inside, 1.0 / numpy.maximum(length, 1), 0.0), inputs)


@functools.lru_cache(maxsize=256)
def border_taps(inputs: int, before: int, after: int, mode: str) -> Taps:
    """Extend the border of the input by its mirror image, its last value, or its other end."""
    at = numpy.arange(-before, inputs + after)
    if mode == "reflect":
        period = max(2 * (inputs - 1), 1)
        at = numpy.abs((at + inputs - 1) % period - (inputs - 1)) if inputs > 1 else at * 0
    elif mode == "replicate":
        at = numpy.clip(at, 0, inputs - 1)
    else:
        at = at % inputs
    return Taps(at[None], None, inputs)


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
