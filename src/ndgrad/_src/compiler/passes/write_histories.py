"""Histories of arrays that are written part by part, so that a part is found without a walk through all writes.

    %1 = slice_scatter(%0, a, i)      a part is replaced
    %2 = add(%1, embed(b, j))         a part is added to; each read of a part does so in the backward pass
    %3 = slice_scatter(%2, c, k)      ...
    getitem(%3, p)                    the last instruction that touches p decides

A loop over a buffer makes such a history of one link per round, and its backward pass makes another. Following a
history link by link would take the square of its length, and one recursion per link. A `History` therefore stores, for
each row along one dimension, the links that touch it. Reading a part jumps from link to link of that part. Exact: the
same numbers are added in the same order.

Note [Signed zeros in sums of parts] An addition that does not touch a part adds 0. to it, which turns -0. into 0. and
changes nothing else. So 0. is added wherever additions are skipped. One addition of 0. is enough for several skipped
ones in a row.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any, NamedTuple

from ndgrad._src.compiler.passes.basic_index import (
    Place,
    are_disjoint,
    is_setting,
    places,
    positions,
    relative_to,
    shape_of,
    to_setting,
)
from ndgrad._src.compiler.program.program import Argument, Instruction, Value

if TYPE_CHECKING:
    from ndgrad._src.compiler.passes.rewrite import Walk

#: Maximum number of rows of a place that is indexed by its rows. A longer place is compared with each read.
_ROWS = 32
#: Maximum number of unrelated links that one read inspects, and of histories that it passes through.
_TRIES = 64
#: Maximum number of parts of a sum that count as one link of the history that they are added to.
_FEW = 8

Index = tuple[Place, ...]


class Link(NamedTuple):
    """One change of an array: the array afterwards, and the changed parts."""

    value: Value
    #: the replacement, or the added array of zeros and parts
    part: Argument
    places: tuple[Index, ...]
    adds: bool


class History:
    """The changes of an array, starting from `base`: a value, a number for an array of it, or None for an array of
    zeros.
    """

    def __init__(self, base: Argument) -> None:
        self.base = base
        self.links: list[Link] = []
        #: number of additions among the first n links
        self.additions = [0]
        self._dim = 0
        self._by_row: dict[int, list[int]] = {}
        self._wide: list[int] = []

    def append(self, link: Link) -> None:
        """Add the newest change."""
        if not self.links:
            shape = link.value.shape
            self._dim = next((d for d, item in enumerate(link.places[0]) if item != (0, shape[d], 1)), 0)
        self.links.append(link)
        self.additions.append(self.additions[-1] + link.adds)
        number = len(self.links)
        rows = [positions(place[self._dim]) if place else range(1) for place in link.places]
        if sum(map(len, rows)) > _ROWS:
            self._wide.append(number)
            return
        for row in {row for several in rows for row in several}:
            self._by_row.setdefault(row, []).append(number)

    def last_touch(self, index: Index, count: int) -> int:
        """Return the number of the last of the first `count` links that may change a part; 0 if there is none.

        All later links leave the part unchanged.
        """
        rows = positions(index[self._dim]) if index else range(1)
        for _ in range(_TRIES):
            number = self._candidate(rows, count)
            if not number or not all(are_disjoint(index, place) for place in self.links[number - 1].places):
                return number
            count = number - 1
        return count

    def _candidate(self, rows: range, count: int) -> int:
        if len(rows) > _ROWS:
            return count
        lists = [self._wide, *[self._by_row[row] for row in rows if row in self._by_row]]
        return max([numbers[at - 1] if (at := bisect_right(numbers, count)) else 0 for numbers in lists])


class Histories:
    """The histories of the arrays of one walk through a program."""

    def __init__(self, walk: Walk) -> None:
        self._walk = walk
        #: number of instructions of the walk that have been inspected
        self._seen = 0
        #: value -> its history, and the number of links up to the value
        self._known: dict[Value, tuple[History, int]] = {}
        #: parts found so far
        self._found: dict[tuple[Value, Index], Value] = {}

    def find_part(self, value: Value, index: Index) -> Value | None:
        """Return the part of a value that an index shows, computed from the writes; None if there is no shorter form.
        """
        additions: list[Link | None] = []  # newest first; None for skipped additions
        at: Argument = value
        found: Value | None = None
        for _ in range(_TRIES):
            known = self._history_of(at) if at.__class__ is Value and at.shape == value.shape else None
            if known is None:
                if at is value:
                    return None
                found = self._base_part(at, index, value)
                break
            history, count = known
            number = history.last_touch(index, count)
            is_jump = history.additions[count] > history.additions[number] and value.dtype.kind not in "iu"
            if is_jump and additions[-1:] != [None]:
                additions.append(None)
            if not number:
                at = history.base
                continue
            link = history.links[number - 1]
            at = link.value
            found = self._found.get((at, index))
            if found is None and not link.adds:
                found = self._replaced_part(link, index, value.dtype)
            if found is not None or not link.adds or not _is_apart(index, link.places):
                break
            additions.append(link)
            at = history.links[number - 2].value if number > 1 else history.base
        if found is None:
            is_shorter = not additions and at is not value and at.__class__ is Value and at.shape == value.shape
            return self._get(at, index) if is_shorter else None
        return self._sum(found, additions, index) if found.dtype == value.dtype else None

    def _sum(self, found: Value, additions: list[Link | None], index: Index) -> Value | None:
        """Return a part with all terms that are added to it, the oldest first."""
        walk = self._walk
        for link in reversed(additions):
            if link is None:
                found = walk.emit("add", found, 0.0)
                continue
            part = self.find_part(link.part, index)
            if part is None:
                return None
            found = self._found[link.value, index] = walk.emit("add", found, part)
        return found

    def _replaced_part(self, link: Link, index: Index, dtype: Any) -> Value | None:
        inside = relative_to(index, link.places[0])
        if inside is None:
            return None
        walk, part = self._walk, link.part
        if part.__class__ is not Value:
            number = walk.constant(part, dtype) if isinstance(part, (bool, int, float)) else None
            return None if number is None else self._expand(number, shape_of(index))
        found = self._get(part, inside)
        return found if found.dtype == dtype else walk.emit("cast", found, dtype=dtype)

    def _base_part(self, base: Argument, index: Index, like: Value) -> Value | None:
        """Return the part of a history's base."""
        if base is None:
            return self._expand(self._walk.constant(0, like.dtype), shape_of(index))
        if base.__class__ is not Value:
            return self._expand(self._walk.constant(base, like.dtype), shape_of(index))
        return self._get(base, index) if base.shape == like.shape else self._expand(base, shape_of(index))

    def _get(self, value: Value, index: Index) -> Value:
        whole = all(item == (0, n, 1) for item, n in zip(index, value.shape, strict=True))
        return value if whole else self._walk.emit("getitem", value, index=to_setting(index))

    def _expand(self, value: Value, shape: tuple[int, ...]) -> Value:
        return self._walk.emit("expand", value, shape=shape) if shape else value

    # ----- building histories -----------------------------------------------------------------------------------------

    def _history_of(self, value: Value) -> tuple[History, int] | None:
        """Return the history of a value, and the number of links up to it; None if it has no history."""
        instructions = self._walk.instructions
        for instruction in instructions[self._seen :]:  # in program order, so that links come after their predecessors
            if instruction.op.name in ("add", "embed", "slice_scatter"):
                self._note(instruction)
        self._seen = len(instructions)
        return self._known.get(value)

    def _note(self, made: Instruction) -> None:
        """Make a link of an instruction that changes a part of an array, or of an array of zeros."""
        change = self._addition(made) if made.op.name == "add" else _replacement(made)
        if change is None:
            return
        base, part, where = change
        known = self._known.get(base) if base.__class__ is Value else None
        if known is not None and known[1] == len(known[0].links):
            history = known[0]
        else:  # the first change of an array, or a second change of the same array
            history = History(base)
        value = made.result
        history.append(Link(value, part, where, made.op.name == "add"))
        self._known[value] = history, len(history.links)

    def _addition(self, made: Instruction) -> _Change | None:
        x, y = made.arguments
        result = made.result
        if made.settings or (result.dtype.kind not in "fiu" and result.dtype.char not in "eE"):
            return None
        for base, part in ((x, y), (y, x)):
            where = self._few_places(part, result)
            if where is None:
                continue
            if base.__class__ is Value:
                fits = base.dtype == result.dtype and base.shape in (result.shape, ())
            else:
                fits = base.__class__ in (int, float)
            return (base, part, where) if fits else None
        return None

    def _few_places(self, part: Argument, result: Value) -> tuple[Index, ...] | None:
        """Return the places of the parts of an array that is zero elsewhere; None for others, and for one of many
        parts.
        """
        if part.__class__ is not Value or part.shape != result.shape or part.dtype != result.dtype:
            return None
        known = self._known.get(part)
        if known is None or known[0].base is not None or known[1] > _FEW:
            return None
        found = [place for link in known[0].links[: known[1]] for place in link.places]
        return tuple(found) if len(found) <= _FEW else None


#: (array before a change, part that is written or array that is added, places that change)
_Change = tuple[Argument, Argument, tuple[Index, ...]]


def _replacement(made: Instruction) -> _Change | None:
    *base, part = made.arguments
    index, shape = made.settings["index"], made.result.shape
    if not is_setting(index, shape):
        return None
    place = places(index, shape)
    assert place is not None
    if part.__class__ is Value and part.shape != shape_of(place):
        return None
    if base and (base[0].shape != shape or base[0].dtype != made.result.dtype):
        return None
    return base[0] if base else None, part, (place,)


def _is_apart(index: Index, parts: tuple[Index, ...]) -> bool:
    """True if an index lies within some of the parts, and does not overlap the others."""
    inside = [relative_to(index, place) is not None for place in parts]
    return any(inside) and all(i or are_disjoint(index, place) for i, place in zip(inside, parts, strict=True))
