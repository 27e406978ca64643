"""Samples of grid_sample. The reference goes through points and taps one by one."""

from __future__ import annotations

from itertools import product

import numpy as np

from ndgrad.testing.op_checks import Sample

r = np.random.default_rng(31)


def keys(d, a=-0.75):
    d = abs(d)
    return ((a + 2) * d - (a + 3)) * d * d + 1 if d <= 1 else ((a * d - 5 * a) * d + 8 * a) * d - 4 * a


def fold(at, n, align_corners):
    """Mirror a position at the edges of the image until it is inside."""
    low, high = (0, n - 1) if align_corners else (-0.5, n - 0.5)
    while high > low and not low <= at <= high:
        at = 2 * low - at if at < low else 2 * high - at
    return at if high > low else 0.0


def move(at, n, padding_mode, align_corners):
    if padding_mode == "reflection":
        at = fold(at, n, align_corners)
    return at if padding_mode == "zeros" else min(max(at, 0), n - 1)


def taps(position, n, mode, padding_mode, align_corners):
    at = (position + 1) * (n - 1) / 2 if align_corners else (position + 1) * n / 2 - 0.5
    if mode == "bicubic":
        left = int(np.floor(at))
        return [(int(move(k, n, padding_mode, align_corners)), keys(at - k)) for k in range(left - 1, left + 3)]
    at = move(at, n, padding_mode, align_corners)
    if mode == "nearest":
        return [(int(np.rint(at)), 1.0)]
    return [(k, 1 - abs(at - k)) for k in (int(np.floor(at)), int(np.floor(at)) + 1)]


def grid_sample(x, grid, mode, padding_mode, align_corners):
    sizes = x.shape[2:]
    out = np.zeros((*x.shape[:2], *grid.shape[1:-1]))
    for n, *place in product(*map(range, (x.shape[0], *grid.shape[1:-1]))):
        position = grid[(n, *place)][::-1]
        for some in product(*(taps(p, s, mode, padding_mode, align_corners) for p, s in zip(position, sizes))):
            if all(0 <= k < s for (k, _), s in zip(some, sizes)):
                index, weight = tuple(k for k, _ in some), np.prod([w for _, w in some])
                out[(n, slice(None), *place)] += weight * x[(n, slice(None), *index)]
    return out


def sample(mode, padding_mode, align_corners, axes=2, **how):
    x = r.standard_normal((2, 3, 4, 5, 3)[: axes + 2])
    grid = r.uniform(-1.7, 1.7, (2, *(3, 2, 2)[:axes], axes))
    settings = {"mode": mode, "padding_mode": padding_mode, "align_corners": align_corners}
    return Sample((x, grid), settings, grid_sample, **how)


SAMPLES = {
    "grid_sample": [
        *(sample(m, p, a) for m in ("bilinear", "bicubic") for p in ("zeros", "border", "reflection") for a in (True, False)),
        *(sample("nearest", p, a) for p in ("zeros", "border", "reflection") for a in (True, False)),
        sample("bilinear", "zeros", False, 3),
        sample("bilinear", "reflection", True, 3),
        sample("nearest", "border", False, 3),
    ],
}
