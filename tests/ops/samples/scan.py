"""Samples of running sums, products and extrema."""

from __future__ import annotations

import numpy as np

from ndgrad.testing.op_checks import Sample
from tests.ops.samples.reduce import BOOL, CUBE, EMPTY, HALF, INT, ONLY_VALUES, SINGLE, ZEROS, A, V, Z, narrow

r = np.random.default_rng(3)
LONG = r.standard_normal((2, 37))


def running(function):
    """Wrap a NumPy scan to take the ops' settings."""

    def reference(x, *, dim, reverse=False, dtype=None):
        line = np.flip(x, dim) if reverse else x
        out = function(line, dim, dtype=dtype)
        return np.flip(out, dim) if reverse else out

    return reference


def scans(reference, *more):
    return [
        Sample((A,), {"dim": 0}, reference),
        Sample((A,), {"dim": 1}, reference),
        Sample((V,), {"dim": 0}, reference),
        Sample((CUBE,), {"dim": 1}, reference),
        Sample((LONG,), {"dim": 1}, reference),
        Sample((EMPTY,), {"dim": 0}, reference),
        Sample((EMPTY,), {"dim": 1}, reference),
        narrow(SINGLE, reference, dim=1),
        *more,
    ]


def shifted(x, *, dim, reverse=False, fill=0.0):
    out = np.roll(x, -1 if reverse else 1, dim)
    out[(slice(None),) * dim + (-1 if reverse else 0,)] = fill
    return out


def recurrence(a, b, *, dim, reverse=False):
    a, b = (np.moveaxis(np.flip(p, dim) if reverse else p, dim, 0) for p in (a, b))
    out = np.empty(b.shape, np.result_type(a, b))
    h = 0.0
    for k in range(len(b)):
        h = out[k] = a[k] * h + b[k]
    out = np.moveaxis(out, 0, dim)
    return np.flip(out, dim) if reverse else out


def logcumsumexp(x, *, dim):
    return np.log(np.cumsum(np.exp(x), dim))


def extremum(choose):
    def reference(x, *, dim):
        values = choose.accumulate(x, axis=dim)
        index = np.zeros(x.shape, int)
        for where in np.ndindex(*x.shape):
            line = [x[where[:dim] + (k, *where[dim + 1 :])] for k in range(where[dim] + 1)]
            same = [k for k, v in enumerate(line) if v == values[where] or v != v]
            index[where] = same[-1]
        return values, index

    return [
        Sample((A,), {"dim": 0}, reference),
        Sample((A,), {"dim": 1}, reference),
        Sample((CUBE,), {"dim": 1}, reference),
        Sample((V,), {"dim": 0}, reference),
        Sample((INT,), {"dim": 1}, reference),
        Sample((BOOL,), {"dim": 1}, reference),
        Sample((EMPTY,), {"dim": 0}, reference),
        Sample((np.array([1.0, 3.0, 3.0, np.nan, 2.0, np.nan]),), {"dim": 0}, reference, smooth=False, skip=ONLY_VALUES),
    ]


total, product = running(np.cumsum), running(np.cumprod)

SAMPLES = {
    "shift": [Sample((a,), {"dim": dim, "reverse": way}, shifted) for a, dim in [(A, 0), (A, 1), (Z, 0)] for way in (False, True)]
    + [Sample((A,), {"dim": 1, "fill": 1.0}, shifted), Sample((np.empty((3, 0)),), {"dim": 1}, lambda x, *, dim: x)],
    "linear_recurrence": [
        Sample((A, A + 1), {"dim": 0}, recurrence),
        Sample((A, A + 1), {"dim": 1, "reverse": True}, recurrence),
        Sample((LONG, LONG - 1), {"dim": 1}, recurrence),
        Sample((ZEROS, A), {"dim": 1}, recurrence),
        Sample((Z, Z * 1j), {"dim": 0, "reverse": True}, recurrence),
        Sample((A, Z), {"dim": 0}, recurrence),
        Sample((EMPTY, EMPTY), {"dim": 0}, lambda a, b, *, dim: b),
    ],
    "cumsum": scans(
        total,
        Sample((A,), {"dim": 0, "reverse": True}, total),
        Sample((Z,), {"dim": 1}, total),
        Sample((INT,), {"dim": 1}, total),
        Sample((BOOL,), {"dim": 1}, total),
        Sample((INT,), {"dim": 1, "dtype": np.dtype(float)}, total),
    ),
    "cumprod": scans(
        product,
        Sample((A,), {"dim": 0, "reverse": True}, product),
        Sample((Z,), {"dim": 1}, product),
        Sample((Z * (A > -0.5),), {"dim": 1}, product),
        Sample((ZEROS,), {"dim": 0}, product),
        Sample((ZEROS,), {"dim": 1}, product),
        Sample((ZEROS,), {"dim": 1, "reverse": True}, product),
        Sample((INT,), {"dim": 1}, product),
    ),
    "logcumsumexp": scans(
        logcumsumexp,
        Sample((Z,), {"dim": 1}, logcumsumexp),
        Sample((np.array([800.0, 801.0, 700.0]),), {"dim": 0}, lambda x, *, dim: np.logaddexp.accumulate(x)),
        narrow(HALF, logcumsumexp, dim=1),
    ),
    "cummax": extremum(np.maximum),
    "cummin": extremum(np.minimum),
}  # fmt: skip
