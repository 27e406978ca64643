"""Sets of column numbers, handled by thousands: the dependences of traced values.

Every element of a traced array names a set by a number, its id. Sets never change, so elements that depend on the
same columns share one set, and moving elements (views, gathers, writes) moves ids. New sets are made only if elements
are combined: all those of an op together, in a few array operations. No array is as large as the dense matrix unless
the pattern itself is.

Two ids are special. `CONSTANT` marks values that do not depend on the inputs at all: they may be used. `DISCRETE`
marks values that depend on the inputs but have no derivative (a comparison, an index, a detached value): the set is
empty, but the value must not be used.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ndgrad._src.arrays.integers import as_int64, as_places, count_places

Ids = np.ndarray[Any, np.dtype[np.int64]]

CONSTANT = 0
DISCRETE = 1

#: Members that one step of a union gathers at a time; larger unions take several steps, so that memory stays bounded.
_STEP = 1 << 24


class _Growing:
    """An array that grows by appending, in amortised linear time."""

    def __init__(self) -> None:
        self._buffer: Ids = np.zeros(1024, np.int64)
        self.size = 0

    def append(self, values: Ids) -> None:
        end = self.size + len(values)
        if end > len(self._buffer):
            larger = np.zeros(max(end, 2 * len(self._buffer)), np.int64)
            larger[: self.size] = self._buffer[: self.size]
            self._buffer = larger
        self._buffer[self.size : end] = values
        self.size = end

    @property
    def array(self) -> Ids:
        return self._buffer[: self.size]


class IndexSets:
    """All sets of one trace, over the numbers below `columns`."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self._starts, self._lengths, self._members = _Growing(), _Growing(), _Growing()
        self._full: int | None = None
        self._append(np.zeros(2, np.int64), np.zeros(0, np.int64))  # CONSTANT and DISCRETE

    def __len__(self) -> int:
        return self._starts.size

    def singletons(self) -> Ids:
        """Return the ids of {0}, {1}, ..., one per column."""
        return self._append(np.ones(self.columns, np.int64), np.arange(self.columns, dtype=np.int64))

    def _append(self, lengths: Ids, members: Ids) -> Ids:
        first = len(self)
        self._starts.append(self._members.size + np.cumsum(lengths, dtype=np.int64) - lengths)
        self._lengths.append(lengths)
        self._members.append(members)
        return np.arange(first, first + len(lengths), dtype=np.int64)

    # ----- unions -----------------------------------------------------------------------------------------------------

    def union(self, a: Ids, b: Ids) -> Ids:
        """Return the union of two sets per element, with broadcasting."""
        low, high = np.asarray(np.minimum(a, b)), np.asarray(np.maximum(a, b))
        # The larger id is the result if the smaller one is an empty set, or the same.
        both = (low > DISCRETE) & (low != high)
        if not both.any():
            return high
        keys, where = np.unique(low[both] * len(self) + high[both], return_inverse=True)
        pairs = np.stack([keys // len(self), keys % len(self)], axis=1)
        out = high.copy()
        out[both] = self._join(np.repeat(np.arange(len(keys), dtype=np.int64), 2), pairs.ravel(), len(keys))[where]
        return out

    def union_along(self, ids: Ids, dims: tuple[int, ...], *, keepdim: bool = False) -> Ids:
        """Return the union over dimensions."""
        rest = tuple(d for d in range(ids.ndim) if d not in dims)
        kept, line = tuple(ids.shape[d] for d in rest), math.prod(ids.shape[d] for d in dims)
        places = np.repeat(np.arange(math.prod(kept), dtype=np.int64), line)
        out = self.union_at(places, ids.transpose((*rest, *dims)).ravel(), math.prod(kept))
        return out.reshape(tuple(1 if d in dims else n for d, n in enumerate(ids.shape)) if keepdim else kept)

    def union_at(self, places: Ids, ids: Ids, count: int) -> Ids:
        """Return, for each of `count` positions, the union of the sets sent there."""
        keys = distinct(places * len(self) + ids)
        places, ids = keys // len(self), keys % len(self)
        out = np.zeros(count, np.int64)
        out[places[ids == DISCRETE]] = DISCRETE
        there = ids > DISCRETE
        places, ids = places[there], ids[there]
        number = count_places(places, count)
        alone = number[places] == 1
        out[places[alone]] = ids[alone]
        several = np.flatnonzero(number > 1)
        if several.size:
            new = np.zeros(count, np.int64)
            new[several] = np.arange(several.size, dtype=np.int64)
            out[several] = self._join(new[places[~alone]], ids[~alone], several.size)
        return out

    def _join(self, rows: Ids, ids: Ids, count: int) -> Ids:
        """Return the unions of `count` rows of distinct non-empty sets; `rows` is sorted, and equal rows get equal
        ids."""
        representative, chosen = _distinct_rows(rows, ids, count)
        rows, ids, count = rows[chosen], ids[chosen], int(representative.max()) + 1
        rows = np.cumsum(np.concatenate([[False], rows[1:] != rows[:-1]]), dtype=np.int64)
        out = np.zeros(count, np.int64)
        if self._full is not None:
            out[rows[ids == self._full]] = self._full
        sizes = np.bincount(as_places(rows), weights=self._lengths.array[ids], minlength=count)
        steps = np.cumsum(sizes) // _STEP
        for step in np.unique(steps):
            wanted = np.flatnonzero((steps == step) & (out == 0))
            if wanted.size:
                self._join_step(rows, ids, wanted, out)
        return out[representative]

    def _join_step(self, rows: Ids, ids: Ids, wanted: Ids, out: Ids) -> None:
        chosen = np.isin(rows, wanted)
        rows, ids = rows[chosen], ids[chosen]
        members, owners = self.members(ids)
        keys = distinct(rows[owners] * self.columns + members)
        lengths = count_places(keys // self.columns, len(out))[wanted]
        members = keys % self.columns
        full = lengths == self.columns
        if full.any():
            if self._full is None:
                everything = np.arange(self.columns, dtype=np.int64)
                self._full = int(self._append(np.array([self.columns], np.int64), everything)[0])
            out[wanted[full]] = self._full
            members = members[np.repeat(~full, lengths)]
        out[wanted[~full]] = self._append(lengths[~full], members)

    # ----- reading ----------------------------------------------------------------------------------------------------

    def members(self, ids: Ids) -> tuple[Ids, Ids]:
        """Return the members of the sets, concatenated in rising order, and the position in `ids` of each member's
        set."""
        lengths = self._lengths.array[ids]
        owners = np.repeat(np.arange(len(ids), dtype=np.int64), lengths)
        before = np.cumsum(lengths, dtype=np.int64) - lengths
        offsets = np.arange(len(owners), dtype=np.int64) - np.repeat(before, lengths)
        return self._members.array[np.repeat(self._starts.array[ids], lengths) + offsets], owners


def distinct(keys: Ids) -> Ids:
    """Return the distinct numbers among `keys` in rising order; `keys` is overwritten. Unlike numpy.unique, it
    does not hash."""
    keys.sort()
    return keys[np.concatenate([[True], keys[1:] != keys[:-1]])] if len(keys) else keys


def _distinct_rows(rows: Ids, ids: Ids, count: int) -> tuple[Ids, Any]:
    """Merge equal rows: return the number of each row's representative, and a mask of the representatives' entries.

    Rows are compared by sums of scrambled ids, which can collide. Collisions are checked; after one, every row counts
    as distinct.
    """
    mixed = ids.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(32)
    starts = as_int64(np.searchsorted(rows, np.arange(count, dtype=np.int64)))
    sums = np.add.reduceat(mixed, as_places(starts))
    _, first, representative = np.unique(sums, return_index=True, return_inverse=True)
    lengths = np.diff(starts, append=len(rows))
    like = first[representative]  # the first row with the same sum
    same = bool(np.array_equal(lengths, lengths[like]))
    if same:
        offsets = np.arange(len(rows), dtype=np.int64) - starts[rows]
        same = bool(np.array_equal(ids, ids[starts[like[rows]] + offsets]))
    if not same:
        return np.arange(count, dtype=np.int64), slice(None)
    is_first = like == np.arange(count, dtype=np.int64)
    return (np.cumsum(is_first, dtype=np.int64) - 1)[like], is_first[rows]
