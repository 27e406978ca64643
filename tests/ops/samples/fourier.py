"""Samples of Fourier transforms, compared with sums written as matrices."""

from __future__ import annotations

import math

import numpy as np

from ndgrad.testing.op_checks import Sample

r = np.random.default_rng(7)


def real(*shape):
    return r.standard_normal(shape)


def cplx(*shape):
    return r.standard_normal(shape) + 1j * r.standard_normal(shape)


def transform(x, dims, scale, sign):
    """Return sum_j x[j] exp(sign 2 pi i jk / n) along each of the dims, divided according to `scale`."""
    for d in dims:
        n = x.shape[d]
        turn = np.arange(n)[:, None] * np.arange(n)
        matrix = np.exp(sign * 2j * math.pi * turn / n) / {"none": 1, "root": n**0.5, "full": n}[scale]
        x = np.moveaxis(np.tensordot(matrix, x, axes=(1, d)), 0, d)
    return x


def c2c(x, dims=(), scale="none", inverse=False):
    out = transform(np.asarray(x), dims, scale, 1 if inverse else -1)
    return out.astype(np.result_type(x.dtype, np.complex64))


def r2c(x, dims, scale="none", onesided=True):
    out = c2c(x, dims, scale)
    return np.take(out, range(x.shape[dims[-1]] // 2 + 1), axis=dims[-1]) if onesided else out


def c2r(x, dims, scale="none", size=1):
    """Use conjugates of the given bins for the missing ones, and the real part of bins that are their own partner."""
    x = transform(np.asarray(x) + 0j, dims[:-1], scale, 1)
    last = dims[-1]
    whole = np.zeros((*x.shape[:last], size, *x.shape[last + 1 :]), np.complex128)
    front = (slice(None),) * last
    for k in range(size // 2 + 1):
        bin_k = x[(*front, k)]
        if 2 * k % size == 0:
            whole[(*front, k)] = bin_k.real
        else:
            whole[(*front, k)], whole[(*front, size - k)] = bin_k, bin_k.conj()
    return transform(whole, (last,), scale, 1).real


def scale_bins(x, dim, size, factor):
    weights = np.where((np.arange(x.shape[dim]) * 2 % size != 0), factor, 1.0)
    return x * weights.reshape([-1 if d == dim else 1 for d in range(x.ndim)])


SAMPLES = {
    "fft_c2c": [
        *(
            Sample((cplx(3, n),), {"dims": (1,), "scale": scale, "inverse": inverse}, c2c)
            for n in (1, 2, 5, 6)
            for scale in ("none", "root", "full")
            for inverse in (True, False)
        ),
        Sample((cplx(3, 4),), {"dims": (0,)}, c2c),
        Sample((cplx(3, 4, 2),), {"dims": (0, 2), "scale": "full", "inverse": True}, c2c),
        Sample((cplx(3, 4, 2),), {"dims": (2, 0, 1), "scale": "root"}, c2c),
        Sample((cplx(2, 3),), {"dims": ()}, c2c),
        Sample((cplx(3)[1],), {"dims": ()}, c2c),
        Sample((real(2, 5),), {"dims": (1,)}, c2c),
        Sample((real(2, 5),), {"dims": (1, 0), "inverse": True}, c2c),
        Sample((real(2, 3),), {"dims": ()}, c2c),
        Sample((cplx(0, 4),), {"dims": (1,)}, c2c),
    ],
    "fft_r2c": [
        *(
            Sample((real(3, n),), {"dims": (1,), "scale": scale, "onesided": onesided}, r2c)
            for n in (1, 2, 5, 6)
            for scale in ("none", "root", "full")
            for onesided in (True, False)
        ),
        Sample((real(5, 4),), {"dims": (0,)}, r2c),
        Sample((real(5, 4),), {"dims": (0,), "onesided": False}, r2c),
        Sample((real(4, 5, 3),), {"dims": (2, 0), "scale": "root"}, r2c),
        Sample((real(4, 5, 3),), {"dims": (2, 0), "scale": "full", "onesided": False}, r2c),
        Sample((real(4, 5, 2),), {"dims": (1, 0, 2), "scale": "none"}, r2c),
        Sample((real(0, 4),), {"dims": (1,)}, r2c),
        Sample((real(0, 4),), {"dims": (1,), "onesided": False}, r2c),
    ],
    "fft_c2r": [
        *(
            Sample((cplx(3, n // 2 + 1),), {"dims": (1,), "scale": scale, "size": n}, c2r)
            for n in (1, 2, 3, 5, 6)
            for scale in ("none", "root", "full")
        ),
        Sample((cplx(3, 4),), {"dims": (0,), "size": 5}, c2r),
        Sample((cplx(3, 4, 2),), {"dims": (1, 0), "size": 4, "scale": "full"}, c2r),
        Sample((cplx(3, 4, 3),), {"dims": (1, 0, 2), "size": 5}, c2r),
        Sample((real(3, 4),), {"dims": (1,), "size": 6}, c2r),
        Sample((cplx(0, 4),), {"dims": (1,), "size": 7}, c2r),
    ],
    "scale_bins": [
        *(Sample((cplx(3, n // 2 + 1),), {"dim": 1, "size": n, "factor": 0.5}, scale_bins) for n in (1, 2, 5, 6)),
        Sample((real(4, 3),), {"dim": 0, "size": 7, "factor": 2.0}, scale_bins),
        Sample((cplx(0, 3),), {"dim": 1, "size": 4, "factor": 2.0}, scale_bins),
    ],
}
