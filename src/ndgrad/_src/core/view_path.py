"""The path of view ops from a base to a view, and its short form.

Note [Short paths]
A path is replayed at each write of its memory: raw on the gradient of the base, and as recorded ops for the history of
the view. A chain of n nested views with a write at each would replay n^2 / 2 steps. So every `LONG`-th step of a path
is a `Milestone`, which holds an equal path of bounded length. A replay starts at the last milestone before its end.

The short form comes from two raw arrays: the base and its part at the end of the path. If each dimension of the part
steps along one dimension of the base, the part is one basic index and a new order of dimensions. If both arrays are
contiguous, the part is a slice of the flat base in another shape. Both forms use ordinary view ops, so they have all
rules, and they hold for every array with the base's order of memory. A path that has no such form (a diagonal, the real
part, a sliding window) is kept as it is, and later steps are merged from its end on.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.arrays.addresses import pointer
from ndgrad._src.ops.index import getitem
from ndgrad._src.ops.shape import permute, reshape

if TYPE_CHECKING:
    from ndgrad._src.core.variable import Variable
    from ndgrad._src.ops.table import Op
    from ndgrad._typing import Payload

#: A view path: (path of the parent or None, op, settings, output number).
Path = tuple[Any, Any, dict[str, Any], int]

#: Number of steps between two milestones.
LONG = 8


class Milestone(tuple[Any, Any, dict[str, Any], int]):
    """The last step of a path, together with an equal path: the steps of `prefix`, then those of `merged`."""

    prefix: tuple[Path, ...]
    merged: tuple[Path, ...]


def steps(path: Path | None) -> list[Path]:
    """Return the steps of a path, or of its short form, starting at the base."""
    found: list[Path] = []
    while path is not None:
        if path.__class__ is Milestone:
            return [*path.prefix, *path.merged, *reversed(found)]
        found.append(path)
        path = path[0]
    found.reverse()
    return found


def take_raw(array: Payload, way: Iterable[Path], library: Any) -> Any:
    """Return the part of a raw array at the end of some steps."""
    for _, op, settings, number in way:
        array = op.forward_for(library)(array, **settings)
        if op.outputs != 1:
            array = array[number]
    return array


def extend(info: Any, op: Op, settings: dict[str, Any], number: int) -> tuple[Path, int]:
    """Return the path of a view with one more step, and the number of its steps since the last milestone."""
    path = (info.path, op, settings, number)
    return (path, info.depth + 1) if info.depth + 1 < LONG else (_make_milestone(info.base, path), 0)


def _make_milestone(base: Variable, path: Path) -> Milestone:
    recent = []
    before: Any = path
    while before is not None and before.__class__ is not Milestone:
        recent.append((None, *before[1:]))
        before = before[0]
    recent.reverse()
    prefix, merged = ((), ()) if before is None else (before.prefix, before.merged)
    milestone = Milestone(path)
    short = merge(_probe(base), prefix, (*merged, *recent))
    if short is None:
        milestone.prefix, milestone.merged = (*prefix, *merged, *recent), ()
    else:
        milestone.prefix, milestone.merged = prefix, short
    return milestone


def _probe(base: Any) -> Any:
    """Return an array of the base's shape and layout, whose values are not read."""
    array, shape = base, tuple(base.shape)
    while hasattr(array, "_array"):  # payloads of transforms
        array = array._array
    if array.__class__ is not np.ndarray:
        return np.empty(shape, array.dtype)
    first: tuple[Any, ...] = (0,) * (array.ndim - len(shape))  # the first sample of vmap
    return array[(*first, ...)] if array.size else np.empty(shape, array.dtype)


def merge(array: Payload, prefix: tuple[Path, ...], rest: tuple[Path, ...]) -> tuple[Path, ...] | None:
    """Return steps equal to `rest` after the steps of `prefix`, but fewer; None if there are none.

    `array` has the base's shape and layout. Its values are not read.
    """
    # A step that is no view to the graph (detach inside functionalize) must stay visible, and so must the choice of
    # one of several results, which may not be written.
    if any(op.shares_storage or op.outputs != 1 for _, op, _, _ in rest):
        return None
    anchor = take_raw(array, prefix, np)
    part = take_raw(anchor, rest, np)
    if part.dtype != anchor.dtype or not part.size or not np.may_share_memory(part, array):
        return None
    short = _as_index(anchor, part) or _as_reshape(anchor, part)
    return short if short is not None and len(short) < len(rest) else None


def _as_index(anchor: Any, part: Any) -> tuple[Path, ...] | None:
    """Return steps that take `part` from `anchor` by a basic index and a new order of dimensions, or None."""
    dims = sorted((d for d in range(anchor.ndim) if anchor.shape[d] > 1), key=lambda d: -anchor.strides[d])
    reach = 0
    for d in reversed(dims):
        if anchor.strides[d] <= reach:  # an address may belong to several elements
            return None
        reach += anchor.strides[d] * (anchor.shape[d] - 1)
    # The address of an element determines its indices, from the longest stride to the shortest. So an index that
    # reaches the address of each element of the part, and stays in range, is the right one.
    offset = pointer(part) - pointer(anchor)
    index: list[Any] = [0] * anchor.ndim
    for d in dims:
        index[d], offset = divmod(offset, anchor.strides[d])
    if offset or any(not 0 <= index[d] < anchor.shape[d] for d in dims):
        return None
    shown_by: dict[int, int] = {}  # dimensions of the anchor -> dimensions of the part
    for j, (n, stride) in enumerate(zip(part.shape, part.strides, strict=True)):
        if n == 1:
            continue
        for d in dims:
            by, remainder = divmod(stride, anchor.strides[d])
            if not remainder and by and d not in shown_by and 0 <= index[d] + by * (n - 1) < anchor.shape[d]:
                end = index[d] + by * n
                index[d] = slice(index[d], end if end >= 0 else None, by)
                shown_by[d] = j
                break
        else:
            return None
    added = [j for j, n in enumerate(part.shape) if n == 1]
    order = [shown_by[d] for d in sorted(shown_by)] + added
    found: list[Path] = [(None, getitem, {"index": (*index, *(None,) * len(added))}, 0)]
    if order != list(range(part.ndim)):
        found.append((None, permute, {"dims": tuple(order.index(j) for j in range(part.ndim))}, 0))
    return tuple(found)


def _as_reshape(anchor: Any, part: Any) -> tuple[Path, ...] | None:
    """Return the steps reshape, slice, reshape from `anchor` to `part`; None if either is not contiguous."""
    if not anchor.flags.c_contiguous or not part.flags.c_contiguous:
        return None
    start = (pointer(part) - pointer(anchor)) // anchor.itemsize
    shape: Path = (None, reshape, {"shape": part.shape}, 0)
    if part.size == anchor.size:
        return (shape,)
    piece: Path = (None, getitem, {"index": (slice(start, start + part.size),)}, 0)
    return ((None, reshape, {"shape": (anchor.size,)}, 0), piece, shape)
