"""Memory allocations with their origin and lifetime: a ledger of arrays, and the trace for users.

An array is entered when a call returns it and its memory is new: results of ops, factories, gradients of a backward
pass. A weak reference removes it when it is freed. Temporary memory inside a kernel is not visible, nor are NumPy's
scalars, which have no memory of note. Entries and deletions are appended to one list, an atomic step, so threads and
finalizers need no lock; sums and peaks are computed by reading the list.
"""

from __future__ import annotations

import itertools
import os
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Self

from ndgrad._src.core.call_watchers import EVALUATION, NODE, RANGE, WRITE, add_watcher, remove_watcher
from ndgrad._src.core.modes import thread
from ndgrad._src.core.variable import AccumulateGrad, Variable, innermost_array
from ndgrad._src.debug.drawing.contents import format_bytes
from ndgrad._src.debug.saved_memory import owner
from ndgrad._src.debug.source_lines import Frames, Place, innermost, places, user_frames


class Allocation:
    """An allocation: its size, the call and line that made it, and whether it is alive.

    `backward` is True for gradients. `freed_at` and `made_at` are seconds since the trace began; `freed_at` is
    None while the memory is alive.
    """

    __slots__ = ("_dtype", "backward", "frames", "freed_at", "made_at", "nbytes", "number", "op", "shape")

    def __init__(self, number: int, op: str, array: Any, backward: bool, frames: Frames, now: float) -> None:
        self.number = number
        self.op = op
        self.shape = tuple(array.shape)
        self._dtype = array.dtype  # finding its name costs more than everything else
        self.nbytes = int(array.nbytes)
        self.backward = backward
        self.frames = frames
        self.made_at = now
        self.freed_at: float | None = None

    @property
    def dtype(self) -> str:
        return str(self._dtype)

    @property
    def is_alive(self) -> bool:
        return self.freed_at is None

    @property
    def place(self) -> Place | None:
        """The user's line that made it."""
        return innermost(self.frames)

    @property
    def stack(self) -> list[Place]:
        """Return the user's lines that led to it, innermost first, as many as the trace keeps."""
        return places(self.frames)

    def __repr__(self) -> str:
        state = "alive" if self.is_alive else "freed"
        return f"<Allocation {self.number}: {self.nbytes} bytes of {self.op}, {self.shape} {self.dtype}, {state}>"


class Ledger:
    """Allocations by memory, and the list of their beginnings and ends."""

    def __init__(self, freed: Callable[[Allocation], None] | None = None) -> None:
        self.log: list[tuple[float, int, Allocation]] = []
        self.known: dict[int, tuple[weakref.ref[Any], Allocation | None]] = {}
        self.began = time.perf_counter()
        self._freed = freed
        self._numbers = itertools.count().__next__
        self._open = True

    def close(self) -> None:
        """Ignore memory that is freed from now on."""
        self._open = False
        self.known.clear()

    def enter(self, array: Any, op: str, backward: bool, frames: Frames) -> Allocation | None:
        """Note an array that a call returned; return None if its memory is already known, or if it has none."""
        base = owner(array)
        if not getattr(base, "nbytes", 0) or id(base) in self.known:
            return None
        now = time.perf_counter() - self.began
        made = Allocation(self._numbers(), op, base, backward, frames, now)
        if made.shape != tuple(array.shape):
            made.shape = tuple(array.shape)  # shape of the result, which may be a part or reshaped
        if not self._remember(base, made):
            return None
        self.log.append((now, made.nbytes, made))
        return made

    def ignore(self, array: Any) -> None:
        """Note memory that existed before."""
        base = owner(array)
        if id(base) not in self.known:
            self._remember(base, None)

    def _remember(self, base: Any, made: Allocation | None) -> bool:
        key, ledger = id(base), weakref.ref(self)

        def gone(_: Any) -> None:
            held = ledger()
            if held is not None:
                held._forget(key)

        try:
            self.known[key] = (weakref.ref(base, gone), made)
        except TypeError:  # a scalar
            return False
        return True

    def _forget(self, key: int) -> None:
        _, made = self.known.pop(key, (None, None))
        if made is None or not self._open:
            return
        made.freed_at = time.perf_counter() - self.began
        self.log.append((made.freed_at, -made.nbytes, made))
        if self._freed is not None:
            self._freed(made)

    def timeline(self) -> Iterator[tuple[float, int, Allocation]]:
        """Return (seconds, bytes alive after it, allocation) for every beginning and end."""
        alive = 0
        for now, change, allocation in list(self.log):
            alive += change
            yield now, alive, allocation


def arrays_in(values: Any) -> Iterator[Any]:
    """Return the arrays among the results of a call, on any path and level."""
    if isinstance(values, Variable):
        yield innermost_array(values)
    elif isinstance(values, (tuple, list)):
        for value in values:
            yield from arrays_in(value)
    elif hasattr(values, "nbytes") and hasattr(values, "shape"):
        yield values


def note_results(
    ledger: Ledger, call: tuple[str, str, Any, Any], results: Any, frames: Callable[[], Frames]
) -> list[Allocation]:
    """Enter the new memory of a call (its kind, name, subject and arguments); returned arguments are not new."""
    kind, name, subject, args = call
    if kind in (EVALUATION, RANGE, WRITE):
        return []
    backward = kind == NODE
    if isinstance(subject, AccumulateGrad):
        results = subject.variable._meta.grad
        name = ".grad"
    made = []
    for array in arrays_in(results):
        if id(owner(array)) in ledger.known:
            continue
        for given in arrays_in(args):
            ledger.ignore(given)
        entry = ledger.enter(array, name, backward, frames())
        if entry is not None:
            made.append(entry)
    return made


def note_received(ledger: Ledger, node: Any, args: tuple[Any, ...], frames: Callable[[], Frames]) -> list[Allocation]:
    """Enter the gradients that the engine has created for a node, as sums over several consumers.

    Gradients at the roots of the pass belong to its caller.
    """
    made = []
    for array in arrays_in(args):
        if id(owner(array)) in ledger.known:
            continue
        if thread.task is None or node in thread.task.roots:
            ledger.ignore(array)
            continue
        entry = ledger.enter(array, "sum of gradients", True, frames())
        if entry is not None:
            made.append(entry)
    return made


class trace_allocations:
    """A context that notes all memory that calls allocate, in all threads, and when it is freed.

    `callback(allocation)` is called for each, right after its call. `frames` is the number of the user's lines to keep.
    `str(trace)` lists the holders of memory at the peak. A trace that has ended no longer notices freed memory.

    Args:
        callback: function of each allocation.
        frames: number of the user's lines to keep for each allocation.

    >>> import ndgrad
    >>> x = ndgrad.ones(1000, requires_grad=True)
    >>> with ndgrad.autograd.graph.trace_allocations() as trace:
    ...     y = (x * 2).exp().sum()
    >>> [(a.op, a.nbytes, a.is_alive) for a in trace.allocations]
    [('mul', 4000, False), ('exp', 4000, True)]
    >>> trace.peak_bytes, trace.alive_bytes
    (8000, 4000)
    """

    def __init__(self, callback: Callable[[Allocation], Any] | None = None, *, frames: int = 1) -> None:
        if callback is not None and not callable(callback):
            raise TypeError(
                f"trace_allocations() takes a function to call, but got {type(callback).__name__}. [nd-type]"
            )
        self._callback = callback
        self._frames = frames
        self._ledger = Ledger()
        self._running = False

    def __enter__(self) -> Self:
        if self._running or self._ledger.log:
            raise RuntimeError(
                "a trace of allocations can be entered once. Make another trace_allocations(). [nd-call-order]"
            )
        self._running = True
        add_watcher(self)
        return self

    def __exit__(self, *exc: object) -> None:
        remove_watcher(self)
        self._running = False
        self._ledger.close()

    def begin(self, kind: str, name: str, subject: Any, args: tuple[Any, ...]) -> Any:
        """Note the beginning of a call. The dispatcher calls this method.

        Args:
            kind: kind of the call: op, node or range.
            name: name of the call.
            subject: op or node.
            args: arguments of the call.

        Returns:
            A token for `end`.
        """
        if kind is NODE:
            self._tell(note_received(self._ledger, subject, args, self._place))
        return kind, name, subject, args

    def _place(self) -> Frames:
        return user_frames(self._frames)

    def _tell(self, found: list[Allocation]) -> None:
        if self._callback is not None:
            for made in found:
                self._callback(made)

    def end(self, token: Any, results: Any) -> None:
        """Note the results of a call. The dispatcher calls this method.

        Args:
            token: result of `begin`.
            results: results of the call.
        """
        self._tell(note_results(self._ledger, token, results, self._place))

    # ----- findings ---------------------------------------------------------------------------------------------------

    @property
    def allocations(self) -> list[Allocation]:
        """All allocations, in order."""
        return [made for _, change, made in list(self._ledger.log) if change > 0]

    @property
    def alive(self) -> list[Allocation]:
        """Allocations that are alive, or were when the trace ended, the largest first."""
        return _largest_first([made for made in self.allocations if made.is_alive])

    @property
    def alive_bytes(self) -> int:
        return sum(made.nbytes for made in self.alive)

    @property
    def total_bytes(self) -> int:
        """The total size of all allocations."""
        return sum(made.nbytes for made in self.allocations)

    @property
    def peak_bytes(self) -> int:
        """The largest number of bytes alive at once."""
        return max((alive for _, alive, _ in self._ledger.timeline()), default=0)

    @property
    def at_peak(self) -> list[Allocation]:
        """Allocations that were alive at the peak, the largest first."""
        best, at = -1, -1
        for position, (_, alive, _) in enumerate(self._ledger.timeline()):
            if alive > best:
                best, at = alive, position
        living: dict[int, Allocation] = {}
        for _, change, made in self._ledger.log[: at + 1]:
            if change > 0:
                living[made.number] = made
            else:
                living.pop(made.number, None)
        return _largest_first(list(living.values()))

    def timeline(self) -> list[tuple[float, int]]:
        """Return (seconds since the beginning, bytes alive) after every allocation and every deallocation."""
        return [(now, alive) for now, alive, _ in self._ledger.timeline()]

    def summary(self, row_limit: int = 10) -> str:
        """Return the holders of memory at the peak: a row per call and line, the largest first.

        Args:
            row_limit: largest number of rows.
        """
        groups: dict[tuple[str, bool, Place | None], list[Allocation]] = {}
        for made in self.at_peak:
            groups.setdefault((made.op, made.backward, made.place), []).append(made)

        rows = sorted(groups.items(), key=lambda group: -sum(made.nbytes for made in group[1]))
        lines = [
            (
                f"{len(self.allocations):,} allocations, {format_bytes(self.total_bytes)} in all, "
                f"{format_bytes(self.peak_bytes)} at the peak, {format_bytes(self.alive_bytes)} alive now"
            ),
        ]
        if rows:
            lines.append("at the peak:")
        for (op, backward, place), held in rows[:row_limit]:
            shapes = dict.fromkeys(f"{made.shape} {made.dtype}" for made in held)
            what = next(iter(shapes)) + (", ..." if len(shapes) > 1 else "")
            where = "" if place is None else f"  {os.path.basename(place.filename)}:{place.line} {place.text}"
            size = format_bytes(sum(made.nbytes for made in held))
            phase = "backward" if backward else ""
            lines.append(f"{size:>10} {len(held):>5} x {op:<20} {phase:<8} {what}{where}".rstrip())
        if len(rows) > row_limit:
            rest = sum(made.nbytes for _, held in rows[row_limit:] for made in held)
            lines.append(f"{format_bytes(rest):>10} in {len(rows) - row_limit} more rows")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.summary()


def _largest_first(found: list[Allocation]) -> list[Allocation]:
    return sorted(found, key=lambda made: (-made.nbytes, made.number))
