"""The geometry of convolutions as tables of integers, which the kernels of convolution.py read.

A forward convolution and the gradient of its input are both lists of correlations ("entries") over an input with
zeros around it:

    out[place + out_step * m] = sum over taps t of   W[tap_first + tap_step * t] . in[in_step * m + low + spread * t]

along each axis, for positions m. The forward pass is one entry: place 0, out_step 1, in_step the stride, spread the
dilation, low minus the padding.

The gradient of the input reads g at o with o * s + k * d - p = q for an input position q and a tap k. Positions q = r +
s m of one residue r modulo the stride s see the taps with k d = r + p (mod s): k = k0 + (s / e) j with e = gcd(s, d),
and then o = m + (r + p - k0 d) / s - (d / e) j. So each residue is an entry with place r, out_step s, in_step 1 and
spread d / e, its taps in descending order, since o falls as j grows. Nothing is multiplied by zeros between the
elements of g, and each output is written once.

There are always three axes, (z, y, x); missing ones have length one. The work is cut along z.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import gcd, prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Axis(NamedTuple):
    """One spatial axis: output o and tap k read the input at o * stride + k * dilation - before."""

    size: int
    taps: int
    stride: int
    dilation: int
    before: int
    out: int


UNIT = Axis(1, 1, 1, 1, 0, 1)


def three(axes: Sequence[Axis]) -> list[Axis]:
    """Return one to three axes as (z, y, x). If there are two, the first is z, along which work is cut."""
    *rest, x = axes
    return [UNIT] * (2 - len(rest)) + [x] if not rest else [rest[0], *(rest[1:] or [UNIT]), x]


class Taps(NamedTuple):
    """One entry along one axis."""

    positions: int
    place: int
    taps: int
    spread: int
    low: int
    tap_first: int
    tap_step: int


@dataclass(frozen=True)
class Correlation:
    """A list of entries over three axes, with the sizes of everything.

    `channels` and `columns` are the input and output channels of a group. `weight` holds the strides of the weight's
    elements: of a column, a channel, a group.
    """

    images: int
    groups: int
    channels: int
    columns: int
    in_sizes: tuple[int, ...]
    out_sizes: tuple[int, ...]
    in_steps: tuple[int, ...]
    out_steps: tuple[int, ...]
    entries: tuple[tuple[Taps, ...], ...]
    weight: tuple[int, int, int]
    kernel: tuple[int, ...]

    @property
    def lows(self) -> list[int]:
        """Return the first input position that is read, along each axis."""
        return [min(e[a].low for e in self.entries) for a in range(3)]

    @property
    def spans(self) -> list[int]:
        """Return the number of input positions between the first and the last tap of one output position (of any
        entry).
        """
        return [
            max(e[a].low + max(e[a].taps - 1, 0) * e[a].spread for e in self.entries) - low + 1
            for a, low in enumerate(self.lows)
        ]

    def extents(self, block: int) -> list[int]:
        """Return the size of the padded input that `block` outputs along z read."""
        counts = [-(-block // self.out_steps[0]), *(max(e[a].positions for e in self.entries) for a in (1, 2))]
        return [(max(n, 1) - 1) * step + span for n, step, span in zip(counts, self.in_steps, self.spans)]

    @property
    def padded(self) -> bool:
        """True if anything is read beyond the input."""
        last = [
            (max(e[a].positions for e in self.entries) - 1) * self.in_steps[a] + span + low
            for a, (span, low) in enumerate(zip(self.spans, self.lows))
        ]
        return any(low < 0 for low in self.lows) or any(end > n for end, n in zip(last, self.in_sizes))

    @property
    def depthwise(self) -> bool:
        """True if each channel has its own filter."""
        return self.channels == self.columns == 1 and self.groups > 1

    def depth(self, entry: Sequence[Taps]) -> int:
        """Return the number of k of an entry."""
        return prod(t.taps for t in entry) * self.channels


def forward(images: int, groups: int, channels: int, columns: int, axes: Sequence[Axis]) -> Correlation:
    """Return the convolution itself: `channels` and `columns` of a group in and out."""
    z = three(axes)
    taps = prod(a.taps for a in z)
    entry = tuple(Taps(a.out, 0, a.taps, a.dilation, -a.before, 0, 1) for a in z)
    return Correlation(
        images, groups, channels, columns, tuple(a.size for a in z), tuple(a.out for a in z),
        tuple(a.stride for a in z), (1, 1, 1),
        (entry,), (channels * taps, taps, columns * channels * taps), tuple(a.taps for a in z),
    )  # fmt: skip


def input_gradient(images: int, groups: int, channels: int, columns: int, axes: Sequence[Axis]) -> Correlation:
    """Return the gradient of the input of `forward(...)` with the same arguments, as correlations of the output's
    gradient.
    """
    z = three(axes)
    taps = prod(a.taps for a in z)
    entries = tuple(product(*([_residue(a, r) for r in range(min(a.stride, a.size))] for a in z)))
    return Correlation(
        images, groups, columns, channels, tuple(a.out for a in z), tuple(a.size for a in z), (1, 1, 1),
        tuple(a.stride for a in z),
        entries, (taps, channels * taps, columns * channels * taps), tuple(a.taps for a in z),
    )  # fmt: skip


def _residue(a: Axis, r: int) -> Taps:
    """Return the taps that touch input positions r, r + stride, ..."""
    count, common = -(-(a.size - r) // a.stride), gcd(a.stride, a.dilation)
    step = a.stride // common
    k0 = next((k for k in range(min(step, a.taps)) if (r + a.before - k * a.dilation) % a.stride == 0), None)
    if k0 is None:
        return Taps(count, r, 0, 1, 0, 0, 0)
    taps, spread = -(-(a.taps - k0) // step), a.dilation // common
    first = (r + a.before - k0 * a.dilation) // a.stride
    return Taps(count, r, taps, spread, first - (taps - 1) * spread, k0 + (taps - 1) * step, -step)


# ----- tables -----

_AXES = "zyx"
HEADER = [
    "images", "groups", "channels", "columns",
    *(f"{what}_{a}" for what in ("in", "out", "in_step", "out_step", "low", "extent") for a in _AXES),
    "block", "blocks", "together", "parts", "slices", "entries",
    "weight_column", "weight_channel", "weight_group", "channel_block", "strip", "depthwise", "padded", "in_last",
    "out_last", "planes",
]  # fmt: skip
ENTRY = [
    *(f"{what}_{a}" for what in ("count", "place", "taps", "spread", "offset", "tap_first", "tap_step") for a in _AXES),
    "depth",
    "packed",
]


@dataclass(frozen=True)
class Table:
    """A correlation in the form that kernels read, and the sizes that a caller has to provide."""

    words: NDArray[np.int64]
    chunks: int
    packed: int  # elements of the packed weight; for a gradient of the weight, of all parts
    scratch: int  # elements of a thread's buffer
    strips: int  # pieces of packing the weight


def table(
    c: Correlation,
    lanes: int,
    tile_columns: int,
    size: int,
    in_last: bool = False,
    out_last: bool = False,
    of_weight: int = 0,
    epilogue: bool = False,
) -> Table:
    """Return the table of a correlation for tiles of `tile_columns` columns and vectors of `lanes` elements of `size`
    bytes.

    With `of_weight`, the rows of a tile, it is that of the gradient of the weight of the forward convolution `c`;
    `out_last` is then the layout of the output's gradient. An `epilogue` expects pixels as the rows of a tile.
    """
    planes = not (of_weight or in_last or out_last or epilogue) and _by_planes(c, lanes, tile_columns)
    block = _weight_block(c) if of_weight else _block(c, size)
    extents, lows = c.extents(block), c.lows
    padded = c.padded
    deepest = max(c.depth(e) for e in c.entries)
    # A strip of the packed weight should stay in the caches, so deeper ones are cut by channels.
    pieces = -(-deepest * tile_columns * size // 2**17) if c.channels >= 16 else 1
    channel_block = -(-c.channels // max(pieces, 1))
    blocks = -(-c.out_sizes[0] // block)
    pixels, channels = block * prod(c.out_sizes[1:]), c.groups * c.channels
    # The gradient of the weight reads channels in strips as high as a tile, pixel after pixel.
    strip = of_weight if 0 < of_weight < c.channels and c.groups == 1 else channels
    held = prod(extents) * -(-channels // strip) * strip
    staged = pixels * c.groups * (-(-c.columns // lanes) * lanes if of_weight else c.columns)
    if planes or blocks > 1:
        together = 1
    elif of_weight:
        # The sum over pixels is longer, and added to memory less often. A strip of channels stays in the nearest cache.
        together = min(-(-_PIXELS // pixels), -(-c.images // _most_parts(c, size)))
        together = max(1, min(together, 2**15 // (prod(extents) * strip * size)))
    else:
        together = _together(c, pixels, held * size)
    groups_of_images = -(-c.images // together)
    parts, slices, chunks = 1, 1, groups_of_images * blocks
    weight_elements = c.weight[2] * c.groups
    if of_weight:
        parts, slices = _weight_parts(c, chunks, tile_columns, size)
        chunks = parts * slices
    header = dict(
        images=c.images, groups=c.groups, channels=c.channels, columns=c.columns, block=block, blocks=blocks,
        together=together,
        parts=parts, slices=slices, entries=len(c.entries),
        weight_column=c.weight[0], weight_channel=c.weight[1], weight_group=c.weight[2], channel_block=channel_block,
        strip=strip, depthwise=int(c.depthwise), padded=int(padded),
        in_last=int(in_last), out_last=int(out_last), planes=int(planes),
    )  # fmt: skip
    for a, letter in enumerate(_AXES):
        header |= {f"in_{letter}": c.in_sizes[a], f"out_{letter}": c.out_sizes[a], f"in_step_{letter}": c.in_steps[a]}
        header |= {f"out_step_{letter}": c.out_steps[a], f"low_{letter}": lows[a], f"extent_{letter}": extents[a]}
    words = [header[name] for name in HEADER]
    entries, packed = _entries(c, lows, lanes)
    words += entries
    scratch = together * (held + (staged if of_weight or c.depthwise or not out_last else 0)) + 4 * lanes
    if planes:
        return Table(np.array(words, np.int64), chunks, weight_elements, held if padded else 0, 1)
    return Table(
        np.array(words, np.int64),
        chunks,
        parts * weight_elements if of_weight else packed,
        scratch,
        -(-c.columns // tile_columns),
    )


def _together(c: Correlation, pixels: int, held: int) -> int:
    """Return the number of small images, each of so many pixels and bytes, that are processed together.

    A strip of the weight is then read for more pixels, but the images have to stay in the second-level cache.
    """
    most = max(1, min(-(-256 // pixels), -(-c.images // 4), 3 * 2**17 // held))
    groups = 1 << (-(-c.images // most) - 1).bit_length()  # threads share them evenly
    return -(-c.images // min(c.images, groups))


#: Approximate number of pixels over which the gradient of a weight sums before the sums are added to memory.
_PIXELS = 512


def _most_parts(c: Correlation, size: int) -> int:
    """Return the maximum number of parts of the images for the gradient of a weight, a power of two.

    Adding more parts of a large weight would take longer than computing them.
    """
    return 1 << (max(1, min(16, 2**22 // (c.weight[2] * c.groups * size))).bit_length() - 1)


def _weight_parts(c: Correlation, chunks: int, tile_columns: int, size: int) -> tuple[int, int]:
    """Return the number of parts of the images for the gradient of a weight, and the number of slices of its columns,
    which are cut if there are few parts.
    """
    parts = min(_most_parts(c, size), 1 << (chunks.bit_length() - 1))
    return parts, 1 if c.groups > 1 else min(-(-8 // parts), -(-c.columns // tile_columns))


def _entries(c: Correlation, lows: list[int], lanes: int) -> tuple[list[int], int]:
    """Return the words of all entries, and the elements of the packed weight."""
    words, packed = [], 0
    for entry in c.entries:
        fields = {"depth": c.depth(entry), "packed": packed}
        for a, (letter, taps) in enumerate(zip(_AXES, entry)):
            stride = prod(c.kernel[a + 1 :])
            fields |= {
                f"count_{letter}": taps.positions,
                f"place_{letter}": taps.place,
                f"taps_{letter}": taps.taps,
                f"spread_{letter}": taps.spread,
                f"offset_{letter}": taps.low - lows[a],
                f"tap_first_{letter}": taps.tap_first * stride,
                f"tap_step_{letter}": taps.tap_step * stride,
            }
        packed += c.groups * fields["depth"] * -(-c.columns // lanes) * lanes
        words += [fields[name] for name in ENTRY]
    return words, packed


def _by_planes(c: Correlation, lanes: int, tile_columns: int) -> bool:
    """True if output channels should be the rows of tiles instead of their columns (plane_convolution.py).

    The criterion is the share of useful lanes, in tiles large enough to hide the latency of a multiply-add, eight sums
    at once.
    """
    if len(c.entries) > 1 or c.in_steps[2] != 1 or any(step != 1 for step in c.out_steps) or c.depthwise:
        return False
    vectors = tile_columns // lanes
    pixels, rows = c.out_sizes[2], min(c.columns, 6)

    def used(count: int) -> float:
        return count / (-(-count // lanes) * lanes)

    turned = used(pixels) * min(1.0, rows * min(vectors, -(-pixels // lanes)) / 8)
    return turned > 1.1 * used(c.columns) * min(1.0, 6 * min(vectors, -(-c.columns // lanes)) / 8)


def _weight_block(c: Correlation) -> int:
    """Return the number of outputs along z whose pixels are summed before the sums are added to memory."""
    positions = prod(c.out_sizes[1:])
    pieces = -(-c.out_sizes[0] * positions // _PIXELS)
    return -(-c.out_sizes[0] // min(pieces, c.out_sizes[0]))


def _block(c: Correlation, size: int) -> int:
    """Return the number of outputs along z of one chunk: as many as fit a part of the second-level cache with their
    input, but with enough chunks for threads.
    """
    step, length = c.out_steps[0], c.out_sizes[0]
    best = step
    for n in range(1, -(-length // step) + 1):
        held = (
            prod(c.extents(n * step)) * c.groups * c.channels + n * step * prod(c.out_sizes[1:]) * c.groups * c.columns
        )
        if held * size > 2**18 and n > 1:
            break
        work = n * step * prod(c.out_sizes[1:]) * c.groups * c.columns * max(c.depth(e) for e in c.entries)
        best = n * step
        if work >= 2**20 and c.images * -(-length // best) <= 16:
            break
    return best
