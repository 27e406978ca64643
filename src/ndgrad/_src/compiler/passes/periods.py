"""Find repetitions in a list of numbers: runs of one block after another.

    0 7 1 2 3 1 2 3 1 2 3 9    ->   from 2 on, the block 1 2 3 comes 3 times: (2, 3, 3)

Candidate periods are the distances from a window of numbers to the previous equal window, found by sorting the windows'
hashes. A block of length p that repeats gives that distance again and again. For each frequent period, the runs are
read off a comparison of the list with itself shifted by p. All in NumPy; O(n log n) for the windows and O(n) for each
period tried.
"""

from __future__ import annotations

from typing import Any

import numpy as np

#: Lengths of windows. Short windows detect small blocks; long windows are not misled by numbers that occur everywhere
#: in a block.
_WINDOWS = (1, 3, 9, 27, 81)
#: Number of periods to try for each length.
_TRIED = 6


def periods(ids: Any, least: int) -> list[int]:
    """Return distances at which the list repeats itself, short ones first, as candidate periods of blocks that come
    `least` times.
    """
    found: set[int] = set()
    n = len(ids)
    for window in _WINDOWS:
        if window * 2 > n:
            break
        hashes = _hashes(ids, window)
        order = np.argsort(hashes, kind="stable")
        alike = hashes[order[1:]] == hashes[order[:-1]]
        distances = (order[1:] - order[:-1])[alike]
        counts = np.bincount(distances[distances <= n // least], minlength=1)
        best = np.argsort(-counts, kind="stable")[:_TRIED]
        found.update(int(p) for p in best if p > 0 and counts[p] >= least - 1)
    return sorted(found)


def runs(ids: Any, period: int, least: int) -> list[tuple[int, int]]:
    """Return (start, count) of the blocks of one length that come at least `least` times in a row."""
    if period >= len(ids):
        return []
    alike = ids[:-period] == ids[period:]
    edges = np.flatnonzero(np.diff(np.concatenate(([False], alike, [False])).astype(np.int8)))
    starts, ends = edges[::2], edges[1::2]
    counts = (ends - starts) // period + 1
    return [(int(s), int(c)) for s, c in zip(starts, counts, strict=True) if c >= least]


def _hashes(ids: Any, window: int) -> Any:
    """Return a number for each window, equal for equal windows."""
    scattered = (ids.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    scattered ^= scattered >> np.uint64(29)
    found = np.zeros(len(ids) - window + 1, np.uint64)
    with np.errstate(over="ignore"):
        for k in range(window):
            found = found * np.uint64(0xBF58476D1CE4E5B9) + scattered[k : k + len(found)]
    return found
