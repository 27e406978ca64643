"""Patches of an image as columns, and columns summed into an image: `unfold` and `fold`, transposes of each other.

x (N, C, *S) has columns (N, C * taps, positions). Settings are tuples with one entry per spatial axis.
"""

from __future__ import annotations

import functools
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

import numpy

from ndgrad._src.arrays.taps import Taps, takes, transposed, weighted_sum
from ndgrad._src.ops.table import op

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload, Vocabulary

Shape = tuple[int, ...]
SETTINGS = {"kernel": (), "dilation": (), "padding": (), "stride": ()}


def positions(sizes: Shape, kernel: Shape, dilation: Shape, padding: Shape, stride: Shape) -> Shape:
    """Return the number of patches along each axis."""
    return tuple(
        (s + 2 * p - d * (k - 1) - 1) // t + 1
        for s, k, d, p, t in zip(sizes, kernel, dilation, padding, stride, strict=True)
    )


def reads(kernel: Shape, dilation: Shape, stride: Shape, out: Shape) -> Any:
    """Yield, for each tap, its index and the slices of the padded image that it reads."""
    for tap in product(*map(range, kernel)):
        yield (
            tap,
            tuple(
                slice(k * d, k * d + (o - 1) * t + 1, t) for k, d, t, o in zip(tap, dilation, stride, out, strict=True)
            ),
        )


#: Up to so many elements, columns are made by one kernel over taps and a transposed copy. For larger arrays a copy for
#: each tap takes less time.
_FEW = 1 << 14


@functools.lru_cache(maxsize=256)
def _patch_taps(sizes: Shape, kernel: Shape, dilation: Shape, padding: Shape, stride: Shape) -> tuple[Taps, ...]:
    """Return maps along each axis that read, for each tap, one element of every patch."""
    found = []
    out = positions(sizes, kernel, dilation, padding, stride)
    for size, count, k, d, p, t in zip(sizes, out, kernel, dilation, padding, stride, strict=True):
        places = (numpy.arange(k)[:, None] * d + numpy.arange(count) * t - p).reshape(-1)
        found.append(Taps(numpy.where((places >= 0) & (places < size), places, -1), None, size))
    return tuple(found)


def _alternate(kernel: Shape, out: Shape) -> tuple[Shape, Shape, Shape]:
    """Return the shape (k, o, k, o, ...) of taps and positions in turn, and the orders to (k, k, ..., o, o, ...) and
    back, behind two dimensions.
    """
    n = len(kernel)
    apart = (0, 1, *range(2, 2 + 2 * n, 2), *range(3, 3 + 2 * n, 2))
    together = (0, 1, *[d for a in range(n) for d in (2 + a, 2 + n + a)])
    return tuple([size for pair in zip(kernel, out, strict=True) for size in pair]), apart, together


def _im2col(np: Library, x: Payload, *, kernel: Shape, dilation: Shape, padding: Shape, stride: Shape) -> Payload:
    n, channels, *sizes = x.shape
    out = positions(tuple(sizes), kernel, dilation, padding, stride)
    if getattr(x, "is_meta", False):
        return type(x)((n, channels * prod(kernel), prod(out)), x.dtype)
    total = n * channels * prod(kernel) * prod(out)
    if 0 < total <= _FEW and takes(x):
        shape, apart, _ = _alternate(kernel, out)
        taps = _patch_taps(tuple(sizes), kernel, dilation, padding, stride)
        found = weighted_sum(np, x, tuple(range(2, x.ndim)), taps).reshape(n, channels, *shape).transpose(apart)
        return found.reshape(n, channels * prod(kernel), prod(out))
    if any(padding):
        x = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in padding)])
    columns = np.empty((n, channels, *kernel, *out), x.dtype)
    everything = slice(None)
    for tap, inputs in reads(kernel, dilation, stride, out):
        columns[(everything, everything, *tap)] = x[(..., *inputs)]
    return columns.reshape(n, channels * prod(kernel), prod(out))


def _col2im(
    np: Library, x: Payload, *, sizes: Shape, kernel: Shape, dilation: Shape, padding: Shape, stride: Shape
) -> Payload:
    n, rows = x.shape[:2]
    channels = rows // prod(kernel)
    if getattr(x, "is_meta", False):
        return type(x)((n, channels, *sizes), x.dtype)
    out = positions(sizes, kernel, dilation, padding, stride)
    columns = x.reshape(n, channels, *kernel, *out)
    if 0 < x.size <= _FEW and prod(sizes) and takes(x):
        _, _, together = _alternate(kernel, out)
        joined = columns.transpose(together).reshape(n, channels, *[k * o for k, o in zip(kernel, out, strict=True)])
        taps = transposed(_patch_taps(tuple(sizes), kernel, dilation, padding, stride))
        return weighted_sum(np, joined, tuple(range(2, joined.ndim)), taps)
    image = np.zeros((n, channels, *(s + 2 * p for s, p in zip(sizes, padding, strict=True))), x.dtype)
    everything = slice(None)
    for tap, inputs in reads(kernel, dilation, stride, out):
        image[(..., *inputs)] += columns[(everything, everything, *tap)]
    if not any(padding):
        return image
    return np.ascontiguousarray(image[(..., *(slice(p, p + s) for p, s in zip(padding, sizes, strict=True)))])


def _batch(x: Payload, ops: Vocabulary, apply: Any, **settings: Any) -> Payload:
    """Treat a batch as more samples."""
    out = apply(ops.reshape(x, shape=(x.shape[0] * x.shape[1], *x.shape[2:])), **settings)
    return ops.reshape(out, shape=(x.shape[0], x.shape[1], *out.shape[1:]))


im2col = op(
    "im2col", "x",
    _im2col,
    settings=SETTINGS,
    vjp={
        "x": lambda g, x_shape, kernel, dilation, padding, stride, ops: ops.col2im(
            g, sizes=x_shape[2:], kernel=kernel, dilation=dilation, padding=padding, stride=stride
        )
    },
    jvp="linear",
    batch=lambda x, kernel, dilation, padding, stride, ops: _batch(
        x, ops, ops.im2col, kernel=kernel, dilation=dilation, padding=padding, stride=stride
    ),
    moves_values=True, movement="rearrange",
)  # fmt: skip

col2im = op(
    "col2im", "x",
    _col2im,
    settings={"sizes": (), **SETTINGS},
    vjp={
        "x": lambda g, kernel, dilation, padding, stride, ops: ops.im2col(
            g, kernel=kernel, dilation=dilation, padding=padding, stride=stride
        )
    },
    jvp="linear",
    batch=lambda x, sizes, kernel, dilation, padding, stride, ops: _batch(
        x, ops, ops.col2im, sizes=sizes, kernel=kernel, dilation=dilation, padding=padding, stride=stride
    ), movement="scatter",
)  # fmt: skip
