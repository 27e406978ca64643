"""Rows of arrays that the rounds of a Python loop read and write: their indices, and the ops that gather and scatter them.

See ndgrad._src.compiler.capture.python_loops.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.compiler.capture.loop_numbers import LoopNumber
from ndgrad._src.compiler.capture.traced_arrays import TracedArray
from ndgrad._src.core.variable import Variable, wrap
from ndgrad._src.ops.vocabulary import tensor_ops

if TYPE_CHECKING:
    from ndgrad._src.compiler.capture.python_loops import Loop


def innermost_payload(t: Any) -> Any:
    """Return the innermost payload of a tensor."""
    while isinstance(t, Variable):
        t = t._array
    return t


def may_share(a: Any, b: Any) -> bool:
    """True if two payloads may share memory."""
    if isinstance(a, TracedArray) and isinstance(b, TracedArray):
        return a.memory is b.memory
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return bool(np.may_share_memory(a, b))
    return not isinstance(a, (TracedArray, np.ndarray)) or not isinstance(b, (TracedArray, np.ndarray))


class RowRead:
    """Rows of an array that rounds read, one in each."""

    def __init__(self, array: Any, index: tuple[Any, ...], position: int, numbers: list[LoopNumber]) -> None:
        self.array = array
        #: Index with None at the positions of loop numbers, and the first such position.
        self.index = index
        self.position = position
        self.numbers = numbers
        #: Rows of all rounds, and the shape of one.
        self.rows: Any = None
        self.shape: tuple[int, ...] = ()
        #: Write whose values it reads, and the number of rounds between them.
        self.write: RowWrite | None = None
        self.distance = 0
        self.first: list[Any] = []


class RowWrite:
    """Rows of an array that rounds write, one in each."""

    def __init__(self, array: Any, position: int, number: LoopNumber) -> None:
        self.array = array
        self.position = position
        self.number = number
        #: Rows that rounds write, as positions in the array.
        self.places: Any = None
        #: True if rounds change a row in parts. The row is then a copy that the body owns.
        self.is_opened = False
        #: True if a loop inside the round writes it.
        self.is_inner = False


def as_class_of(t: Any, like: Any) -> Any:
    return t if isinstance(t, Variable) else wrap(like.tensor_type, np.asarray(t))


def has_loop_number(item: Any) -> bool:
    parts = (item.start, item.stop, item.step) if isinstance(item, slice) else (item,)
    return any(isinstance(p, LoopNumber) for p in parts)


def full_index(loop: Loop, index: Any, ndim: int) -> tuple[Any, ...]:
    """Return an index with an item for each dimension."""
    items = index if isinstance(index, tuple) else (index,)
    if any(
        item is None or not isinstance(item, (int, slice, LoopNumber, type(...))) or isinstance(item, bool)
        for item in items
    ):
        loop.refuse("an index that differs from round to round is combined with an array or a new dimension")
    if any(item is ... for item in items):
        at = [i for i, item in enumerate(items) if item is ...]
        if len(at) > 1:
            loop.refuse("an index has two ellipses")
        items = (*items[: at[0]], *(slice(None),) * (ndim - len(items) + 1), *items[at[0] + 1 :])
    if len(items) > ndim:
        loop.refuse("an index has too many items")
    return (*items, *(slice(None),) * (ndim - len(items)))


def row_shape(array: Any, index: tuple[Any, ...]) -> tuple[int, ...]:
    """Return the shape of a row. None stands for an index of the loop."""
    shape: list[int] = []
    for n, item in zip(array.shape, index, strict=True):
        if isinstance(item, slice):
            shape.append(len(range(*item.indices(n))))
    return tuple(shape)


def row_index(read: RowRead, place: int) -> tuple[Any, ...]:
    return tuple([place if item is None else item for item in read.index])


def _arithmetic(places: Any) -> tuple[int, int] | None:
    """Return the first number and the step of an arithmetic sequence."""
    first = int(places[0])
    step = int(places[1]) - first if len(places) > 1 else 1
    return (first, step) if step and (places == first + step * np.arange(len(places))).all() else None


def gather_rows(read: RowRead, places: list[Any]) -> Any:
    """Return the rows of all rounds, the first dimension counting rounds."""
    found = _arithmetic(places[0]) if len(places) == 1 else None
    array = read.array
    rounds = len(places[0])
    before = sum(isinstance(item, slice) for item in read.index[: read.position])
    if found is not None:
        first, step = found
        low, high = (first, first + step * (rounds - 1)) if step > 0 else (first + step * (rounds - 1), first)
        rows = array[tuple([slice(low, high + 1, abs(step)) if item is None else item for item in read.index])]
        if step < 0:
            rows = tensor_ops.flip(rows, dims=(before,))
    else:
        whole = array[tuple([slice(None) if item is None else item for item in read.index])]
        here = iter(places)
        index = tuple(
            [next(here) if before <= d < before + len(places) else slice(None) for d in range(len(whole.shape))]
        )
        rows = whole[index]
    if before:
        rows = tensor_ops.permute(rows, dims=(before, *[d for d in range(len(rows.shape)) if d != before]))
    return rows


def scatter_rows(write: RowWrite, stack: Any) -> None:
    """Write the rows of all rounds to an array."""
    array, p = write.array, write.position
    found = _arithmetic(write.places)
    if p:
        dims = [*range(1, p + 1), 0, *range(p + 1, len(stack.shape))]
        stack = tensor_ops.permute(stack, dims=tuple(dims))
    head = (slice(None),) * p
    if found is None:
        array[(*head, write.places)] = stack
        return
    first, step = found
    rounds = len(write.places)
    if step < 0:
        stack = tensor_ops.flip(stack, dims=(p,))
        first, step = first + step * (rounds - 1), -step
    array[(*head, slice(first, first + step * (rounds - 1) + 1, step))] = stack
