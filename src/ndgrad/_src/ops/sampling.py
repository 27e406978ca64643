"""Values of images at given positions: `grid_sample`.

Each output is a weighted sum of a few inputs (taps) along each axis. The positions are values, so index and weight of a
tap are a formula, `axis_taps`. It is written once over the vocabulary: arrays, tensors, and registers of the native and
the CUDA kernel run it.

Derivation. out = sum_k W_k x[index_k], with W_k the product of the weights w_a of the axes. So the gradient in x adds
g W_k at index_k. The gradient in the position p_a is sum_k (sum_c g x[index_k]) w_a'(p_a) prod_{b != a} w_b, for which
`axis_taps` returns the slopes w_a'. Both are differentiable again, since indices are constant almost everywhere.
"""

from __future__ import annotations

import math
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy

from ndgrad._src.arrays import native_kernels
from ndgrad._src.ops.composite import composite
from ndgrad._src.ops.vocabulary import body_ops

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload, Vocabulary

Shape = tuple[int, ...]


class Tap(NamedTuple):
    """A tap of one axis: its index as a float, its weight, and the derivative of the weight in the position."""

    index: Any
    weight: Any
    slope: Any


def poison_of(taps: list[Tap], axes: int) -> Any:
    """Return NaN for positions along an axis that are NaN or infinite, and 0 for others.

    None of the taps of such a position is inside. As in torch, the value of an image (not of a volume) is NaN. The
    gradient of the position along the other axis (with four taps: both) is NaN too, but not the image's gradient.
    """
    return taps[0].weight - taps[0].weight if axes == 2 else 0.0


def gradient_poison(poison: list[Any], axis: int, mode: str) -> Any:
    """Return NaN for positions whose gradient along an axis is NaN, from the poison of all axes."""
    return poison[0] + poison[1] if mode == "bicubic" else poison[axis - 1]


def to_pixels(x: Any, size: Any, align_corners: bool) -> Any:
    """Convert [-1, 1] to pixels: the ends are the centres of the outer pixels, or their edges."""
    return (x + 1.0) * ((size - 1.0) * 0.5) if align_corners else (x + 1.0) * (size * 0.5) - 0.5


def axis_taps(x: Any, size: Any, mode: str, padding_mode: str, align_corners: bool, ops: Any) -> list[Tap]:
    """Return the taps of pixel positions along an axis. A tap outside of 0 ... size - 1 reads zero."""
    if mode == "bicubic":
        return _cubic_taps(x, size, padding_mode, align_corners, ops)
    inside, slope = _bring_in(x, size, padding_mode, align_corners, ops)
    one = _ones_like(x, ops)
    if mode == "nearest":
        at = ops.round(inside, decimals=0)
        # As in torch, a NaN position reads the first pixel, or nothing with padding by zeros.
        return [Tap(at if padding_mode == "zeros" else ops.where(ops.eq(at, at), at, 0.0), one, one * 0.0)]
    left = ops.floor(inside)
    share = inside - left
    return [Tap(left, 1.0 - share, -slope), Tap(left + 1.0, share, slope)]


def _ones_like(x: Any, ops: Any) -> Any:
    return ops.where(ops.abs(x) < math.inf, x, 0.0) * 0.0 + 1.0


def _bring_in(x: Any, size: Any, padding_mode: str, align_corners: bool, ops: Any) -> tuple[Any, Any]:
    """Return the position inside the image that replaces x, and its derivative."""
    slope = _ones_like(x, ops)
    if padding_mode == "zeros":
        return x, slope
    if padding_mode == "reflection":
        x, slope = _reflect(x, size, align_corners, ops)
    last = size - 1.0
    within = (x > 0.0) & (x < last)
    return ops.maximum(ops.minimum(x, last), 0.0), ops.where(within, slope, 0.0)


def _reflect(x: Any, size: Any, align_corners: bool, ops: Any) -> tuple[Any, Any]:
    """Fold x into the image: every second period runs backwards."""
    low, span = (0.0, size - 1.0) if align_corners else (-0.5, size * 1.0)
    if span == 0:
        return x * 0.0, x * 0.0
    is_left = x < low
    distance = ops.where(is_left, low - x, x - low)
    periods = ops.floor(distance / span)
    rest = distance - periods * span
    is_backwards = ops.eq(periods - ops.floor(periods * 0.5) * 2.0, 1.0)
    slope = ops.where(is_left, -1.0, _ones_like(x, ops))
    return ops.where(is_backwards, span - rest, rest) + low, ops.where(is_backwards, -slope, slope)


def _cubic_taps(x: Any, size: Any, padding_mode: str, align_corners: bool, ops: Any) -> list[Tap]:
    """Return the taps of Keys' cubic over four neighbours. Each neighbour is moved inside, not the position."""
    a = -0.75
    left = ops.floor(x)
    share = x - left

    def near(d: Any) -> tuple[Any, Any]:
        return (d * (a + 2) - (a + 3)) * d * d + 1.0, (d * (3 * a + 6) - (2 * a + 6)) * d

    def far(d: Any) -> tuple[Any, Any]:
        return ((d * a - 5 * a) * d + 8 * a) * d - 4 * a, (d * (3 * a) - 10 * a) * d + 8 * a

    weights = (far(share + 1.0), near(share), near(1.0 - share), far(2.0 - share))
    signs = (1.0, 1.0, -1.0, -1.0)
    return [
        Tap(_bring_in(left + float(k), size, padding_mode, align_corners, ops)[0], weight, slope * sign)
        for k, (weight, slope), sign in zip((-1, 0, 1, 2), weights, signs, strict=True)
    ]


class _Taps(NamedTuple):
    """The taps of all axes together: index (n, taps * points), weight, and a slope for each axis, (n, taps, points).

    `poison`, (n, points) for each axis, is NaN if a position along it is NaN or infinite, and 0 otherwise (see
    `poison_of`).
    """

    index: Any
    weight: Any
    slopes: list[Any]
    poison: list[Any]


def _read_grid(
    grid: Payload, sizes: Shape, mode: str, padding_mode: str, align_corners: bool, ops: Vocabulary
) -> _Taps:
    n, axes, points = grid.shape[0], len(sizes), math.prod(grid.shape[1:-1])
    flat = ops.reshape(grid, shape=(n, points, axes))
    along = [
        axis_taps(
            to_pixels(ops.select(flat, dim=2, index=axes - 1 - a), size, align_corners),
            size, mode, padding_mode, align_corners, ops,
        )
        for a, size in enumerate(sizes)
    ]  # fmt: skip
    indices, weights = [], []
    slopes: list[list[Any]] = [[] for _ in sizes]
    for taps in product(*along):
        inside = index = None
        for tap, size in zip(taps, sizes, strict=True):
            here = (tap.index >= 0.0) & (tap.index <= size - 1.0)
            inside = here if inside is None else inside & here
            # Use integers from here on: half or single precision cannot represent every position in a plane.
            at = ops.cast(ops.where(here, ops.detach(tap.index), 0.0), dtype=numpy.dtype(numpy.int64))
            index = at if index is None else index * size + at
        indices.append(index)
        weights.append(ops.where(inside, _multiply([t.weight for t in taps]), 0.0))
        for a in range(axes):
            slope = _multiply([t.slope if a == b else t.weight for b, t in enumerate(taps)])
            slopes[a].append(ops.where(inside, slope, 0.0))
    poison = [ops.detach(poison_of(taps, axes)) if axes == 2 else 0.0 for taps in along]
    stacked = [ops.stack(*some, dim=1) for some in (weights, *slopes)]
    index = ops.reshape(ops.stack(*indices, dim=1), shape=(n, 1, len(indices) * points))
    return _Taps(index, stacked[0], stacked[1:], poison)


def _multiply(factors: list[Any]) -> Any:
    total = factors[0]
    for factor in factors[1:]:
        total = total * factor
    return total


def _check_grid(x: Payload, grid: Payload) -> None:
    """Kernels read at the positions of the grid without further checks."""
    if x.ndim != grid.ndim or x.shape[0] != grid.shape[0] or grid.shape[-1] != x.ndim - 2:
        raise ValueError(
            f"grid_sample reads an array (N, C, *S) at a grid (N, *O, number of sizes S), but their shapes are "
            f"{tuple(x.shape)} and {tuple(grid.shape)}. [nd-shape]"
        )


def _gather(x: Payload, taps: _Taps, ops: Vocabulary) -> Payload:
    """Return the elements that the taps read: (n, channels, taps, points)."""
    n, channels = x.shape[:2]
    flat = ops.reshape(x, shape=(n, channels, math.prod(x.shape[2:])))
    found = ops.gather(flat, ops.expand(taps.index, shape=(n, channels, taps.index.shape[2])), dim=2)
    return ops.reshape(found, shape=(n, channels, *taps.weight.shape[1:]))


def _each_channel(x: Payload, ops: Vocabulary) -> Payload:
    return ops.reshape(x, shape=(x.shape[0], 1, *x.shape[1:]))


def _sample(
    x: Payload, grid: Payload, mode: str, padding_mode: str, align_corners: bool, ops: Vocabulary
) -> Payload:
    taps = _read_grid(grid, tuple(x.shape[2:]), mode, padding_mode, align_corners, ops)
    total = ops.sum(_gather(x, taps, ops) * _each_channel(taps.weight, ops), dim=(2,), keepdim=False)
    if len(x.shape) == 4:
        total = total + _each_channel(taps.poison[0] + taps.poison[1], ops)
    return ops.reshape(total, shape=(*x.shape[:2], *grid.shape[1:-1]))


def _factor(size: int, align_corners: bool) -> float:
    """Return the pixels of a unit of the grid."""
    return (size - 1) / 2 if align_corners else size / 2


def _sample_vjp(
    g: Payload, x: Payload, grid: Payload, mode: str, padding_mode: str, align_corners: bool, ops: Vocabulary
) -> tuple[Payload, Payload]:
    if ops.raw:
        found = native_kernels.run_sampling("gradient", (x, grid, g), mode, padding_mode, align_corners)
        if found is not None:
            gx, grad_grid = found
            return gx, grad_grid
    sizes, (n, channels) = tuple(x.shape[2:]), x.shape[:2]
    taps = _read_grid(grid, sizes, mode, padding_mode, align_corners, ops)
    count, points = taps.weight.shape[1:]
    lines = ops.reshape(g, shape=(n, channels, 1, points))
    spread = ops.reshape(lines * _each_channel(taps.weight, ops), shape=(n, channels, count * points))
    index = ops.expand(taps.index, shape=(n, channels, count * points))
    gx = ops.gather_backward(spread, index, dim=2, shape=(n, channels, math.prod(sizes)), distinct=False)
    per_tap = ops.sum(lines * _gather(x, taps, ops), dim=(1,), keepdim=False)
    moved = [
        ops.sum(per_tap * slope, dim=(1,), keepdim=False) * _factor(size, align_corners)
        + gradient_poison(taps.poison, a, mode)
        for a, (slope, size) in enumerate(zip(taps.slopes, sizes, strict=True))
    ]
    grad_grid = ops.stack(*moved[::-1], dim=2)
    return ops.reshape(gx, shape=tuple(x.shape)), ops.reshape(grad_grid, shape=tuple(grid.shape))


def _sample_jvp(
    x: Payload, grid: Payload, x_t: Payload, grid_t: Payload, mode: str, padding_mode: str, align_corners: bool,
    ops: Vocabulary,
) -> Payload:  # fmt: skip
    total = None
    if x_t is not None:
        total = _sample(x_t, grid, mode, padding_mode, align_corners, ops)
    if grid_t is None:
        return total
    sizes = tuple(x.shape[2:])
    taps = _read_grid(grid, sizes, mode, padding_mode, align_corners, ops)
    n, axes, points = grid.shape[0], len(sizes), taps.weight.shape[2]
    flat, change = ops.reshape(grid_t, shape=(n, points, axes)), None
    for a, size in enumerate(sizes):
        t = ops.select(flat, dim=2, index=axes - 1 - a) * _factor(size, align_corners)
        part = taps.slopes[a] * ops.reshape(t, shape=(n, 1, points))
        change = part if change is None else change + part
    moved = ops.sum(_gather(x, taps, ops) * _each_channel(change, ops), dim=(2,), keepdim=False)
    if axes == 2:
        moved = moved + _each_channel(taps.poison[0] + taps.poison[1], ops)
    moved = ops.reshape(moved, shape=(*x.shape[:2], *grid.shape[1:-1]))
    return moved if total is None else total + moved


def _sample_batch(
    x: Payload, grid: Payload, mode: str, padding_mode: str, align_corners: bool, batched: tuple[bool, bool],
    ops: Vocabulary, size: int,
) -> Payload:  # fmt: skip
    x, grid = (
        y if is_batched else ops.expand(ops.reshape(y, shape=(1, *y.shape)), shape=(size, *y.shape))
        for y, is_batched in zip((x, grid), batched, strict=True)
    )
    folded = [ops.reshape(y, shape=(y.shape[0] * y.shape[1], *y.shape[2:])) for y in (x, grid)]
    out = ops.grid_sample(*folded, mode=mode, padding_mode=padding_mode, align_corners=align_corners)
    return ops.reshape(out, shape=(*x.shape[:2], *out.shape[1:]))


def _forward(np: Library, x: Payload, grid: Payload, *, mode: str, padding_mode: str, align_corners: bool) -> Payload:
    _check_grid(x, grid)
    if getattr(x, "is_meta", False):
        return type(x)((*x.shape[:2], *grid.shape[1:-1]), x.dtype)
    found = native_kernels.run_sampling("values", (x, grid), mode, padding_mode, align_corners)
    if found is not None:
        return found[0]
    with numpy.errstate(invalid="ignore"):
        return _sample(x, grid, mode, padding_mode, align_corners, body_ops(np))


# x (N, C, *S) at the positions of grid (N, *O, axes).
grid_sample = composite(
    "grid_sample", "x grid",
    _sample,
    kernel=_forward,
    settings={"mode": "bilinear", "padding_mode": "zeros", "align_corners": False},
    vjp=_sample_vjp,
    jvp=_sample_jvp,
    batch=_sample_batch,
    backward_name="GridSampler2DBackward0",
    saved_names={"x": "input"},
)  # fmt: skip
