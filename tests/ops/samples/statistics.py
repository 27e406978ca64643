"""Samples of variances, medians, modes and counts."""

from __future__ import annotations

import numpy as np

from ndgrad.testing.op_checks import Sample
from tests.ops.samples.reduce import CUBE, HALF, INT, LINES, NAN, ONLY_VALUES, SINGLE, A, V, narrow, reductions, with_complex

# ----- spread --------------------------------------------------------------------------------------------------------------


def variance(x, *, dim=(), keepdim=False, correction=1):
    with np.errstate(all="ignore"):
        n = int(np.prod([x.shape[d] for d in dim]))
        spread = np.abs(x - x.sum(dim, keepdims=True) / n) ** 2
        return spread.sum(dim, keepdims=keepdim) / max(n - correction, 0)


def deviation(x, **settings):
    return np.sqrt(variance(x, **settings))


def and_mean(function):
    return lambda x, *, dim=(), keepdim=False, correction=1: (
        function(x, dim=dim, keepdim=keepdim, correction=correction),
        x.sum(dim, keepdims=keepdim) / np.prod([x.shape[d] for d in dim]),
    )


def spreads(reference):
    return [
        *reductions(reference)[:-1],
        *with_complex(reference),
        Sample((A,), {"dim": (1,), "correction": 0}, reference),
        Sample((A,), {"dim": (0, 1), "correction": 0.5, "keepdim": True}, reference),
        Sample((LINES,), {"dim": (1,), "keepdim": True}, reference),
        Sample((LINES,), {"dim": (0,)}, reference),
        Sample((np.float64(1.5),), {"dim": ()}, reference, smooth=False, skip=ONLY_VALUES),
        Sample((V,), {"dim": (0,), "correction": 7}, reference, smooth=False, skip=ONLY_VALUES),
        Sample((np.empty((2, 0)),), {"dim": (1,)}, reference, smooth=False, skip=ONLY_VALUES),
        Sample((np.empty((0, 3)),), {"dim": (1,)}, reference),
    ]


# ----- order ----------------------------------------------------------------------------------------------------------------


def lower_median(x, *, dim, keepdim=False):
    x = np.asarray(x)
    index = np.argsort(x, axis=dim, kind="stable").take([(x.shape[dim] - 1) // 2], axis=dim)
    if np.isnan(x).any():
        index = np.where(np.isnan(x).any(dim, keepdims=True), np.isnan(x).argmax(dim, keepdims=True), index)
    values = np.take_along_axis(x, index, dim)
    return (values, index) if keepdim else (values.squeeze(dim), index.squeeze(dim))


def lower_median_of_numbers(x, *, dim, keepdim=False):
    moved = np.moveaxis(x, dim, 0)
    index = np.empty(moved.shape[1:], int)
    for where in np.ndindex(*index.shape):
        line = moved[(slice(None), *where)]
        order = np.argsort(line, kind="stable")
        index[where] = order[max((np.sum(~np.isnan(line)) - 1) // 2, 0)]
    index = np.expand_dims(index, dim)
    values = np.take_along_axis(x, index, dim)
    return (values, index) if keepdim else (values.squeeze(dim), index.squeeze(dim))


def median_of_all(x):
    return np.asarray(lower_median(np.asarray(x).reshape(-1), dim=0)[0])


def median_of_all_numbers(x):
    return np.asarray(lower_median_of_numbers(np.asarray(x).reshape(-1), dim=0)[0])


def most_frequent(x, *, dim, keepdim=False):
    moved = np.moveaxis(x, dim, 0)
    index = np.empty(moved.shape[1:], int)
    for where in np.ndindex(*index.shape):
        line = moved[(slice(None), *where)]
        values, counts = np.unique(line, return_counts=True)
        index[where] = np.flatnonzero(line == values[counts.argmax()])[-1]
    index = np.expand_dims(index, dim)
    values = np.take_along_axis(x, index, dim)
    return (values, index) if keepdim else (values.squeeze(dim), index.squeeze(dim))


def wrap_settings(reference, *arrays):
    return [
        Sample((A,), {"dim": 0}, reference),
        Sample((A,), {"dim": 1, "keepdim": True}, reference),
        Sample((V,), {"dim": 0}, reference),
        Sample((CUBE,), {"dim": 1}, reference),
        Sample((np.empty((3, 0)),), {"dim": 0}, reference),
        *(Sample((a,), {"dim": 1}, reference, smooth=False, skip=ONLY_VALUES) for a in arrays),
    ]


ALL_NAN = np.where(np.arange(3)[:, None] == 1, np.nan, NAN)
TIES = np.array([[3.0, 2.0, 2.0, 3.0, 1.0], [1.0, 1.0, 1.0, 5.0, 5.0], [4.0, 3.0, 2.0, 1.0, 0.0]])


def counts(x, *, bins, low, high):
    return np.stack([np.histogram(line, bins, (low, high))[0] for line in x.reshape(-1, x.shape[-1])]).reshape(*x.shape[:-1], bins) * 1.0


SAMPLES = {
    "var": [*spreads(variance), narrow(SINGLE, variance, dim=(1,)), narrow(HALF, variance, dim=(0,))],
    "std": [*spreads(deviation), narrow(SINGLE, deviation, dim=(1,))],
    "var_mean": spreads(and_mean(variance)),
    "std_mean": spreads(and_mean(deviation)),
    "median": wrap_settings(lower_median, NAN, ALL_NAN),
    "nanmedian": wrap_settings(lower_median_of_numbers, NAN, ALL_NAN),
    "median_all": [Sample((a,), {}, median_of_all) for a in (A, CUBE, np.float64(2.0), np.array([3, 1, 4, 2]))],
    "nanmedian_all": [Sample((a,), {}, median_of_all_numbers) for a in (A, CUBE, np.float64(2.0))]
    + [Sample((NAN,), {}, median_of_all_numbers, smooth=False, skip=ONLY_VALUES)],
    "mode": [*wrap_settings(most_frequent, TIES), Sample((INT,), {"dim": 1}, most_frequent), Sample((INT,), {"dim": 0}, most_frequent)],
    "ranking": [Sample((a,), {"dim": dim}, lambda x, *, dim: np.argsort(x, dim, kind="stable")) for a in (A, TIES, NAN) for dim in (0, 1)],
    "histogram": [Sample((a,), {"bins": 5, "low": -1.0, "high": 2.0}, counts) for a in (A, V, LINES, CUBE)],
    "bincount": [
        Sample((np.array([1, 3, 3]), None), {"minlength": 6}, lambda x, weights, *, minlength: np.bincount(x, weights, minlength)),
        Sample((np.array([1, 3, 3]), V[:3]), {}, lambda x, weights: np.bincount(x, weights)),
    ],
}  # fmt: skip
