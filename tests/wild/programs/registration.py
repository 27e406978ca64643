"""Image registration: affine warp with bilinear interpolation, negative normalised correlation."""

import numpy as np


def warp(image, params):
    rows, cols = image.shape
    a, b, c, d, tx, ty = params
    yy, xx = np.meshgrid(np.arange(rows), np.arange(cols), indexing="ij")
    cy, cx = (rows - 1) / 2, (cols - 1) / 2
    x = (1 + a) * (xx - cx) + b * (yy - cy) + cx + tx
    y = c * (xx - cx) + (1 + d) * (yy - cy) + cy + ty
    x0 = np.clip(np.floor(x).astype(int), 0, cols - 2)
    y0 = np.clip(np.floor(y).astype(int), 0, rows - 2)
    wx = x - x0
    wy = y - y0
    out = (1 - wy) * ((1 - wx) * image[y0, x0] + wx * image[y0, x0 + 1])
    out += wy * ((1 - wx) * image[y0 + 1, x0] + wx * image[y0 + 1, x0 + 1])
    return out


def score(params, moving, fixed):
    w = warp(moving, params)
    w = w - w.mean()
    f = fixed - fixed.mean()
    return -(w * f).sum() / np.sqrt((w**2).sum() * (f**2).sum())
