"""Samples of pooling. The references go through the windows one by one."""

from __future__ import annotations

from itertools import product

import numpy as np

from ndgrad.testing.op_checks import Sample

r = np.random.default_rng(20)
SINGLE = {"smooth": False, "skip": dict.fromkeys(("jvp", "vjp", "vmap"), "of dtype and values only")}


def separated(shape):
    """Return numbers at least 0.1 apart, so that finite differences never reach a second maximum in a window."""
    return r.permutation(int(np.prod(shape))).reshape(shape) * 0.1


def windows(sizes, kernel, stride, padding, dilation, ceil_mode):
    """Return, per axis, the list of windows. Each window is a list of positions, including padding."""
    out = []
    for n, k, s, p, d in zip(sizes, kernel, stride, padding, dilation):
        starts = []
        start = -p
        while start + d * (k - 1) < n + p or (ceil_mode and start < n and start + d * (k - 1) < n + p + s):
            starts.append(start)
            start += s
        out.append([[start + t * d for t in range(k)] for start in starts])
    return out


def adaptive(sizes, out):
    return [[list(range(i * n // o, -(-(i + 1) * n // o))) for i in range(o)] for n, o in zip(sizes, out)]


def pool(x, axes, reduce):
    """Apply `reduce` to (values of a plane by position, positions of a window) for every window of every plane."""
    out = np.array([[[reduce(plane, list(product(*w))) for w in product(*axes)] for plane in sample] for sample in x], x.dtype)
    return out.reshape(*x.shape[:2], *map(len, axes))


def inside(plane, window):
    return [p for p in window if all(0 <= a < n for a, n in zip(p, plane.shape))]


def largest(x, axes):
    def place(plane, window):
        best = max(inside(plane, window), key=lambda p: plane[p])
        return np.ravel_multi_index(best, plane.shape)

    values = pool(x, axes, lambda plane, window: max(plane[p] for p in inside(plane, window)))
    return values, pool(x, axes, place).astype(np.int64)


def max_pool(x, kernel, stride, padding, dilation, ceil_mode):
    return largest(x, windows(x.shape[2:], kernel, stride, padding, dilation, ceil_mode))


def avg_pool(x, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override):
    axes = windows(x.shape[2:], kernel, stride, padding, (1,) * len(kernel), ceil_mode)

    def mean(plane, window):
        seen = inside(plane, window)
        padded = [p for p in window if all(a < n + b for a, n, b in zip(p, plane.shape, padding))]
        count = divisor_override or (len(padded) if count_include_pad else len(seen))
        return sum(plane[p] for p in seen) / count

    return pool(x, axes, mean)


def adaptive_avg_pool(x, sizes):
    return pool(x, adaptive(x.shape[2:], sizes), lambda plane, window: sum(plane[p] for p in window) / len(window))


def transpose(forward):
    """Return the transpose of a linear function of (N, C, *S), column by column."""

    def backward(x, sizes, **settings):
        out = np.zeros((*x.shape[:2], *sizes), x.dtype)
        if "kernel" not in settings:
            settings["sizes"] = x.shape[2:]
        for place in product(*map(range, sizes)):
            unit = np.zeros((1, 1, *sizes), np.result_type(x.dtype, np.float32))
            unit[(0, 0, *place)] = 1
            out[(..., *place)] = (forward(unit, **settings) * x).sum(axis=tuple(range(2, x.ndim)))
        return out

    return backward


def take(x, index):
    flat = x.reshape(*x.shape[:2], int(np.prod(x.shape[2:])))
    return np.take_along_axis(flat, index.reshape(*index.shape[:2], int(np.prod(index.shape[2:]))), 2).reshape(index.shape)


def unpool(x, index, sizes, distinct):
    out = np.zeros((*x.shape[:2], int(np.prod(sizes))), x.dtype)
    for n, c in product(range(x.shape[0]), range(x.shape[1])):
        np.add.at(out[n, c], index[n, c].ravel(), x[n, c].ravel())
    return out.reshape(*x.shape[:2], *sizes)


def how(kernel, stride=None, padding=0, dilation=1, ceil_mode=False):
    return {
        "kernel": kernel,
        "stride": stride or kernel,
        "padding": (padding,) * len(kernel),
        "dilation": (dilation,) * len(kernel),
        "ceil_mode": ceil_mode,
    }


def mean(kernel, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None):
    return {
        "kernel": kernel, "stride": stride or kernel, "padding": (padding,) * len(kernel), "ceil_mode": ceil_mode,
        "count_include_pad": count_include_pad, "divisor_override": divisor_override,
    }  # fmt: skip


MAX = [
    ((2, 2, 5), how((2,))),
    ((1, 2, 5), how((3,), (2,), padding=1, ceil_mode=True)),
    ((2, 1, 4, 5), how((2, 3), (1, 2), padding=1)),
    ((1, 2, 5, 4), how((2, 2), (2, 1), dilation=2)),
    ((1, 1, 3, 2, 3), how((2, 1, 2), (1, 1, 1))),
    ((0, 2, 4), how((2,))),
]
MEAN = [
    ((2, 2, 5), mean((2,))),
    ((1, 2, 5), mean((3,), (2,), padding=1, ceil_mode=True)),
    ((1, 2, 5), mean((3,), (2,), padding=1, ceil_mode=True, count_include_pad=False)),
    ((2, 1, 4, 3), mean((2, 2), (1, 2), divisor_override=3)),
    ((1, 1, 3, 2, 3), mean((2, 1, 2), (1, 1, 1))),
]
ADAPTIVE = [
    ((2, 2, 5), (2,)), ((1, 2, 5, 4), (3, 2)), ((1, 1, 2, 3), (4, 3)), ((1, 1, 2, 2, 3), (1, 2, 2)), ((2, 2, 4, 6), (2, 3)),
    ((1, 2, 3, 4), (1, 1)),
]  # fmt: skip
X, INDEX = r.standard_normal((2, 2, 3, 2)), r.permuted(np.tile(np.arange(8), (2, 2, 1)), axis=2)[..., :6].reshape(2, 2, 3, 2)


def complex_of(shape):
    return r.standard_normal(shape) + 1j * r.standard_normal(shape)


def backward_sample(forward, shape, sizes, settings, make):
    out = forward(np.zeros(shape), **settings).shape
    return Sample((make(out),), {"sizes": shape[2:], **({} if "sizes" in settings else settings)}, reference=transpose(forward))


FRACTIONAL = [((2, 2, 7), (2,), (4,)), ((1, 2, 6, 5), (2, 3), (3, 2)), ((2, 1, 4, 3), (2, 1), (1, 2)), ((0, 2, 5), (2,), (3,))]


def fractional_max_pool(x, samples, kernel, sizes):
    values, places = np.zeros((*x.shape[:2], *sizes)), np.zeros((*x.shape[:2], *sizes), np.int64)
    for n, c in np.ndindex(*x.shape[:2]):
        axes = []
        for size, k, count, u in zip(x.shape[2:], kernel, sizes, samples[n, c]):
            step = (size - k) / (count - 1) if count > 1 else 0.0
            starts = [int((i + u) * step) - int(u * step) for i in range(count - 1)] + [size - k]
            axes.append([list(range(start, start + k)) for start in starts])
        values[n, c], places[n, c] = (found[0, 0] for found in largest(x[n : n + 1, c : c + 1], axes))
    return values, places


SAMPLES = {
    "max_pool": [Sample((separated(shape),), settings, reference=max_pool) for shape, settings in MAX]
    + [Sample((separated((1, 1, 4)).astype(np.float32),), how((2,)), reference=max_pool, **SINGLE)],
    "adaptive_max_pool": [
        Sample((separated(shape),), {"sizes": sizes}, reference=lambda x, sizes: largest(x, adaptive(x.shape[2:], sizes)))
        for shape, sizes in ADAPTIVE
    ],
    "fractional_max_pool": [
        Sample((separated(shape), r.random((*shape[:2], len(kernel)))), {"kernel": kernel, "sizes": sizes}, reference=fractional_max_pool)
        for shape, kernel, sizes in FRACTIONAL
    ],
    "avg_pool": [Sample((r.standard_normal(shape),), settings, reference=avg_pool) for shape, settings in MEAN]
    + [
        Sample((complex_of((1, 1, 4)),), mean((2,)), reference=avg_pool),
        Sample((np.arange(4, dtype=np.float32).reshape(1, 1, 4),), mean((2,)), reference=avg_pool, **SINGLE),
    ],
    "avg_pool_backward": [backward_sample(avg_pool, shape, shape[2:], settings, r.standard_normal) for shape, settings in MEAN]
    + [backward_sample(avg_pool, (1, 1, 4), (4,), mean((2,)), complex_of)],
    "adaptive_avg_pool": [Sample((r.standard_normal(shape),), {"sizes": sizes}, reference=adaptive_avg_pool) for shape, sizes in ADAPTIVE]
    + [Sample((complex_of((1, 1, 5)),), {"sizes": (2,)}, reference=adaptive_avg_pool)],
    "take_pooled": [
        Sample((X, INDEX % 6), reference=take),
        Sample((X + 1j * X[::-1], INDEX % 6), reference=take),
        Sample((X[:0], INDEX[:0]), reference=take),
    ],
    "max_unpool": [
        Sample((X, INDEX % 4), {"sizes": (2, 2), "distinct": False}, reference=unpool),
        Sample((X, INDEX), {"sizes": (2, 4), "distinct": True}, reference=unpool),
        Sample((X + 1j * X[::-1], INDEX), {"sizes": (8,), "distinct": True}, reference=unpool),
    ],
}
