"""Basic indices in one form: for each dimension a number, or (start, count, step).

    x[1:, -1]   of a float64[5, 3]    ->   ((1, 4, 1), 2)

A program states them for every dimension, with nonnegative numbers and complete slices: `index=(slice(1, 5, 1), 2)`.
New dimensions (None) are not part of an index: a reshape follows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

#: One dimension: a number, or (start, count, step).
Range = tuple[int, int, int]
Place = int | Range


def places(index: tuple[Any, ...], shape: tuple[int, ...]) -> tuple[Place, ...] | None:
    """Return a basic index on an array of some shape, without its new dimensions; None if it is no basic index."""
    given = [item for item in index if item is not None]
    if any(item is not Ellipsis and (isinstance(item, bool) or not isinstance(item, (int, slice))) for item in given):
        return None
    if Ellipsis in given:
        at = given.index(Ellipsis)
        given[at : at + 1] = [slice(None)] * (len(shape) - len(given) + 1)
    given += [slice(None)] * (len(shape) - len(given))
    found: list[Place] = []
    for item, n in zip(given, shape, strict=True):
        if isinstance(item, slice):
            numbers = range(*item.indices(n))
            found.append((numbers.start, len(numbers), numbers.step) if numbers else (0, 0, 1))
        else:
            found.append(int(item) + n if item < 0 else int(item))
    return tuple(found)


def written(index: tuple[Place, ...]) -> tuple[int | slice, ...]:
    """Return the index as a setting of an op."""
    return tuple([item if isinstance(item, int) else _slice(item) for item in index])


def _slice(item: Range) -> slice:
    start, count, step = item
    stop = start + count * step
    return slice(start, None if stop < 0 else stop, step)


def is_written(index: tuple[Any, ...], shape: tuple[int, ...]) -> bool:
    """True if a setting has the form that `to_setting` returns."""
    found = places(index, shape) if None not in index and len(index) == len(shape) else None
    return found is not None and written(found) == index


def shape_of(index: tuple[Place, ...]) -> tuple[int, ...]:
    """Return the shape of the indexed part."""
    return tuple([item[1] for item in index if not isinstance(item, int)])


def is_whole(index: tuple[Place, ...], shape: tuple[int, ...]) -> bool:
    """True if an index shows the whole array unchanged."""
    return all(item == (0, n, 1) for item, n in zip(index, shape, strict=True))


def after(first: tuple[Place, ...], second: tuple[Place, ...]) -> tuple[Place, ...]:
    """Return the index equivalent to applying `first` and then `second`."""
    rest = iter(second)
    found: list[Place] = []
    for item in first:
        if isinstance(item, int):
            found.append(item)
            continue
        start, _, step = item
        inner = next(rest)
        if isinstance(inner, int):
            found.append(start + inner * step)
        else:
            found.append((start + inner[0] * step, inner[1], step * inner[2]))
    return tuple(found)


def disjoint(a: tuple[Place, ...], b: tuple[Place, ...]) -> bool:
    """True if two indices into one array show no common element: in some dimension they are disjoint."""
    return any(not _meet(positions(i), positions(j)) for i, j in zip(a, b, strict=True))


def within(inner: tuple[Place, ...], outer: tuple[Place, ...]) -> tuple[Place, ...] | None:
    """Return the index of `inner`'s elements in the part that `outer` shows; None if some are missing.

    It satisfies `compose(outer, relative_to(inner, outer)) == inner`.
    """
    found: list[Place] = []
    for i, o in zip(inner, outer, strict=True):
        if isinstance(o, int):
            if i != o:
                return None
        elif isinstance(i, int):
            at, rest = divmod(i - o[0], o[2])
            if rest or not 0 <= at < o[1]:
                return None
            found.append(at)
        else:
            at, rest = divmod(i[0] - o[0], o[2])
            step, uneven = divmod(i[2], o[2])
            if i[1] == 0:
                return None
            if i[1] == 1:
                step, uneven = 1, 0
            last = at + (i[1] - 1) * step
            if rest or uneven or not (0 <= at < o[1] and 0 <= last < o[1]):
                return None
            found.append((at, i[1], step))
    return tuple(found)


def positions(item: Place) -> range:
    """Return the positions along one dimension that an index shows."""
    return range(item, item + 1) if isinstance(item, int) else range(item[0], item[0] + item[1] * item[2], item[2])


def _meet(a: range, b: range) -> bool:
    """True if two ranges have a number in common."""
    if not a or not b:
        return False
    low, high = max(min(a[0], a[-1]), min(b[0], b[-1])), min(max(a[0], a[-1]), max(b[0], b[-1]))
    if low > high:
        return False
    few, many = (a, b) if len(a) <= len(b) else (b, a)
    if abs(a.step) == 1 and abs(b.step) == 1:
        return True
    return any(k in many for k in few)


def common(indices: Sequence[tuple[Place, ...]]) -> tuple[Place, ...] | None:
    """Return the index of the elements that all indices show; None if there are none, or no index shows them."""
    found: list[Place] = []
    for items in zip(*indices, strict=True):
        low = max(min(positions(item), default=0) for item in items)
        high = min(max(positions(item), default=-1) for item in items)
        if low > high:
            return None
        inside = (
            [k for k in range(low, high + 1) if all(k in positions(item) for item in items)] if _uneven(items) else None
        )
        if inside is None:
            found.append((low, high - low + 1, 1))
        elif not inside:
            return None
        else:
            step = inside[1] - inside[0] if len(inside) > 1 else 1  # the intersection of two ranges is a range
            found.append((inside[0], len(inside), step))
    return tuple(found)


def _uneven(items: Sequence[Place]) -> bool:
    return any(not isinstance(item, int) and abs(item[2]) != 1 for item in items)
