"""Samples of unfold and fold. The references copy one element at a time."""

from __future__ import annotations

from itertools import product

import numpy as np

from ndgrad._src.ops.patches import positions
from ndgrad.testing.op_checks import Sample

r = np.random.default_rng(14)


def entries(shape, kernel, dilation, padding, stride):
    """Yield (index in the columns, index in the image) of every copied element."""
    n, channels, *sizes = shape
    out = positions(tuple(sizes), kernel, dilation, padding, stride)
    for i, c in product(range(n), range(channels)):
        for k, tap in enumerate(product(*map(range, kernel))):
            for p, position in enumerate(product(*map(range, out))):
                at = tuple(o * t + kk * d - b for o, t, kk, d, b in zip(position, stride, tap, dilation, padding))
                if all(0 <= a < s for a, s in zip(at, sizes)):
                    yield (i, c * int(np.prod(kernel)) + k, p), (i, c, *at)


def im2col(x, kernel, dilation, padding, stride):
    out = np.zeros((x.shape[0], x.shape[1] * np.prod(kernel), np.prod(positions(x.shape[2:], kernel, dilation, padding, stride))), x.dtype)
    for column, image in entries(x.shape, kernel, dilation, padding, stride):
        out[column] = x[image]
    return out


def col2im(x, sizes, kernel, dilation, padding, stride):
    out = np.zeros((x.shape[0], x.shape[1] // np.prod(kernel), *sizes), x.dtype)
    for column, image in entries(out.shape, kernel, dilation, padding, stride):
        out[image] += x[column]
    return out


CASES = [
    ((2, 2, 3, 4), {"kernel": (2, 2), "dilation": (1, 1), "padding": (0, 0), "stride": (1, 1)}),
    ((1, 2, 4, 3), {"kernel": (2, 3), "dilation": (2, 1), "padding": (1, 0), "stride": (2, 1)}),
    ((2, 1, 5), {"kernel": (2,), "dilation": (1,), "padding": (1,), "stride": (3,)}),
    ((0, 1, 5), {"kernel": (2,), "dilation": (1,), "padding": (1,), "stride": (1,)}),
]


def image(shape, kind):
    x = r.standard_normal(shape)
    return x + 1j * r.standard_normal(shape) if kind == "complex" else x.round(1).astype(np.float32) if kind == "single" else x


SINGLE = {"smooth": False, "skip": dict.fromkeys(("jvp", "vjp", "vmap"), "of dtype and values only")}
MADE = [(image(shape, "real"), how, {}) for shape, how in CASES]
MADE += [(image(CASES[1][0], "complex"), CASES[1][1], {}), (image(CASES[0][0], "single"), CASES[0][1], SINGLE)]

SAMPLES = {
    "im2col": [Sample((x,), how, reference=im2col, **more) for x, how, more in MADE],
    "col2im": [Sample((im2col(x, **how),), {"sizes": x.shape[2:], **how}, reference=col2im, **more) for x, how, more in MADE],
}
