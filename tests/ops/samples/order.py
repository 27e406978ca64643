"""Samples of sorting and searching."""

from __future__ import annotations

import numpy as np

from ndgrad.testing.op_checks import Sample

r = np.random.default_rng(4)
A = r.permutation(60).reshape(3, 4, 5) / 7.0
LONG = r.permutation(2200).reshape(2, 1100) / 7.0
TIED = r.integers(0, 3, (40, 40)).astype(float)
NANS = np.array([[2.0, np.nan, 0.0, np.nan, 2.0, 1.0]])
V32 = np.array([3.0, 1.0, 2.0], np.float32)
DERIVATIVES = ("jvp", "vjp", "jvp of vjp", "vjp of vjp", "vjp of jvp")
SINGLE = {"skip": dict.fromkeys(DERIVATIVES, "finite differences need double precision")}
TIES = {"skip": {"jvp": "equal elements", "jvp of vjp": "equal elements", "vmap": "equal elements"}}


def order_of(x, dim, descending):
    """Return the stable order with NaN last: the definition, element by element."""
    def key(i, line):
        nan = np.isnan(line[i]) if line.dtype.kind == "f" else False
        value = (1, 0) if nan else (0, line[i])
        return (-value[0], -value[1]) if descending else value

    return np.apply_along_axis(lambda line: np.array(sorted(range(len(line)), key=lambda i: key(i, line)), dtype=int), dim, x)


def sort(x, dim, descending=False):
    order = order_of(x, dim, descending)
    return np.take_along_axis(x, order, dim), order


def topk(x, k, dim, largest=True):
    values, order = sort(x, dim, descending=largest)
    return np.take(values, range(k), axis=dim), np.take(order, range(k), axis=dim)


def only_values(values, indices=None):
    """Drop the indices, because the choice among equal elements is not defined."""
    return values


def kthvalue(x, k, dim, keepdim=False):
    place = [k - 1] if keepdim else k - 1
    return tuple(np.asarray(np.take(found, place, axis=dim)) for found in sort(x, dim))


def unique(x, dim=None, consecutive=False):
    _, first, inverse, counts = np.unique(x, return_index=True, return_inverse=True, return_counts=True, axis=dim)
    return first, inverse.reshape(x.shape if dim is None else -1), counts  # NumPy 2.0.0 keeps the other axes


def runs(x, consecutive):
    first, inverse, counts = [], [], []
    for place, e in enumerate(x):
        if not first or x[first[-1]] != e:
            first.append(place)
            counts.append(0)
        counts[-1] += 1
        inverse.append(len(first) - 1)
    return np.array(first, int), np.array(inverse, int), np.array(counts, int)


def search(x, y, right=False):
    if x.ndim == 1:
        return np.asarray(np.searchsorted(x, y, side="right" if right else "left"))
    return np.stack([search(row, values, right) for row, values in zip(x, y, strict=True)])


WITH_NAN = np.array([[0.0, 1.0, 1.0, 3.0, np.nan, np.nan]])
ROWS = np.sort(r.integers(0, 9, (3, 2, 6)).astype(float), axis=-1)
WANTED = r.integers(-1, 11, (3, 2, 4)).astype(float)

SAMPLES = {
    "sort": [
        Sample((A,), {"dim": 1}, sort),
        Sample((A,), {"dim": 2, "descending": True}, sort),
        Sample((LONG,), {"dim": 1}, sort),
        Sample((LONG,), {"dim": 1, "descending": True}, sort),
        Sample((TIED,), {"dim": 1}, sort, smooth=False, **TIES),
        Sample((TIED,), {"dim": 0, "descending": True}, sort, smooth=False, **TIES),
        Sample((NANS,), {"dim": 1}, sort, smooth=False, **TIES),
        Sample((NANS,), {"dim": 1, "descending": True}, sort, smooth=False, **TIES),
        Sample((r.integers(0, 4, (3, 9)),), {"dim": 1}, sort),
        Sample((A[:, :0],), {"dim": 1}, lambda x, dim: (x, x.astype(int))),
        Sample((V32,), {"dim": 0}, sort, **SINGLE),
    ],
    "argsort": [
        Sample((A,), {"dim": 1}, lambda x, dim: order_of(x, dim, False)),
        Sample((TIED,), {"dim": 0, "descending": True}, order_of, skip={"vmap": "equal elements"}),
        Sample((r.integers(0, 4, (3, 9)),), {"dim": 1, "descending": True}, order_of),
    ],
    "topk": [
        Sample((A,), {"k": 3, "dim": 1}, topk),
        Sample((A,), {"k": 2, "dim": 2, "largest": False}, topk),
        Sample((A,), {"k": 4, "dim": 1}, topk),
        Sample((A,), {"k": 0, "dim": 1}, topk),
        Sample((LONG,), {"k": 5, "dim": 1}, topk),
        Sample((LONG,), {"k": 5, "dim": 1, "largest": False}, topk),
        Sample((LONG,), {"k": 100, "dim": 1}, topk),
        Sample((np.tile(NANS, 4),), {"k": 3, "dim": 1}, topk, smooth=False, **TIES),
        Sample((np.array([[np.nan, 4.0, 1.0, 2.0, 3.0]]),), {"k": 1, "dim": 1, "largest": False}, topk, smooth=False, **TIES),
        Sample((np.append(np.full(9, -np.inf), 1.0),), {"k": 2, "dim": 0}, topk, invariant=only_values, smooth=False, **TIES),
        Sample((np.arange(40) % 23,), {"k": 3, "dim": 0}, topk),
        Sample((V32,), {"k": 2, "dim": 0}, topk, **SINGLE),
    ],
    "kthvalue": [
        Sample((A,), {"k": 3, "dim": 1}, kthvalue),
        Sample((A,), {"k": 5, "dim": 2, "keepdim": True}, kthvalue),
        Sample((NANS,), {"k": 4, "dim": 1}, kthvalue, invariant=only_values, smooth=False, **TIES),
        Sample((V32,), {"k": 1, "dim": 0}, kthvalue, **SINGLE),
    ],
    "unique": [
        Sample((TIED,), reference=unique),
        Sample((TIED[:, :2],), {"dim": 0}, unique),
        Sample((TIED[:2],), {"dim": 1}, unique),
        Sample((np.float64(2.0),), reference=unique),
        Sample((np.empty((0, 2)),), reference=unique),
        Sample((r.integers(0, 2, 30),), {"consecutive": True}, runs),
    ],
    "unique_values": [
        Sample((TIED,), reference=np.unique),
        Sample((np.array([3, 1, 3]),), reference=np.unique),
        Sample((np.float64(2.0),), reference=np.unique),
        Sample((np.array([np.nan, 1.0, np.nan]),), reference=lambda x: np.array([1.0, np.nan, np.nan])),
        Sample((np.empty((0, 2)),), reference=np.unique),
    ],
    "searchsorted": [
        Sample((ROWS[0, 0], WANTED), reference=search),
        Sample((ROWS[0, 0], WANTED), {"right": True}, search),
        Sample((ROWS[0, 0], np.float64(3.0)), reference=search),
        Sample((ROWS, WANTED), reference=search),
        Sample((ROWS, WANTED), {"right": True}, search),
        Sample((ROWS[..., :0], WANTED), reference=search),
        Sample((WITH_NAN, WITH_NAN + 0.0), {"right": True}, search),
        Sample((WITH_NAN, WITH_NAN + 0.0), reference=search),
        Sample((ROWS, WANTED[..., :0]), reference=search),
    ],
    "isin": [
        Sample((A, A[0] + 1 / 7), reference=np.isin),
        Sample((np.arange(6).reshape(2, 3), np.array([5, 1, 7])), reference=np.isin),
        Sample((np.arange(6), np.array([], int)), reference=np.isin),
        Sample((np.int64(3), np.array([3])), reference=lambda x, y: np.asarray(np.isin(x, y))),
    ],
}  # fmt: skip
