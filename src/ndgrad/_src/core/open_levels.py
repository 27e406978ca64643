"""Open transforms and dual levels: their numbers, and work inside the levels of another thread or of an earlier run."""

from __future__ import annotations

import itertools
from _thread import get_ident
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Self

from ndgrad._src.core.modes import Modes, Stacks, modes, process, restore, scope

if TYPE_CHECKING:
    from ndgrad._typing import Level

_stacks = tuple.__new__  # every transform makes one; the class's own constructor is three times slower
#: List of other threads' transforms in which this context has worked (see note_joins).
_joins: ContextVar[list[Any] | None] = ContextVar("ndgrad_joins", default=None)

#: Counter for transform levels and dual levels together: among open levels, an inner level has the larger number.
next_level_number = itertools.count(1).__next__


def birth_level() -> int:
    """Return `Meta.made_in` for a tensor that is made now: the number of this thread's innermost transform.

    A thread without open transforms returns the youngest level of all threads, because it may work for the thread that
    opened it (see Note [Threads inside transforms]).
    """
    levels = modes().levels
    return levels[-1].number if levels else process.youngest


def note_open(number: int, state: Modes) -> None:
    """Announce to all threads a transform or dual level that this thread has just pushed, with its modes."""
    process.open[number] = _stacks(Stacks, (state.levels, state.dual_stack, get_ident()))
    if number > process.youngest:
        process.youngest = number


def find_silenced(state: Modes, level: Level | None, dual: int = 0) -> Level | None:
    """Return the outermost grad transform that was opened under no_grad inside a level and a dual level; None if none.

    Such a transform records only for itself. An op on tensors of outer levels is computed as it would be around it.
    """
    if state.grad_enabled:
        number = dual if level is None or dual > level.number else level.number
        for inner in state.levels:
            if inner.number > number and inner.kind == "grad" and not inner.grad_enabled_before:
                return inner
    return None


class join_levels:
    """Context manager that puts this thread inside a transform of another thread.

    Note [Threads inside transforms]
    A transform belongs to the thread that opened it, but its tensors may be used anywhere: a pool maps a function over
    them. An op on a tensor of a level that is open in another thread runs inside that level, as it would there. Levels
    opened by this thread are inside that level if they are younger, as they would be in one thread. Modes (no_grad,
    hooks) stay this thread's own.
    """

    __slots__ = ("number", "outside")

    def __init__(self, number: int) -> None:
        self.number = number

    def __enter__(self) -> None:
        levels, duals = self._stacks()
        self.outside = scope()
        state = self.outside.modes
        both = tuple(sorted({*duals, *state.dual_stack}))
        stack = tuple(sorted({*levels, *state.levels}, key=lambda level: level.number))
        if (noted := _joins.get()) is not None:
            noted.append((levels, duals))
        restore(self.outside.with_changes(levels=stack, dual_stack=both, dual_levels=len(both)))

    def __exit__(self, *exc: object) -> None:
        restore(self.outside)
        del self.outside  # see Note [Sections]

    def _stacks(self) -> tuple[tuple[Level, ...], tuple[int, ...]]:
        """Return the current stacks of the transform's thread; values made inside its innermost level may be needed."""
        still_open = process.open.copy()
        if self.number in still_open:
            owner = still_open[self.number].thread
            for levels, duals, opener in reversed(still_open.values()):
                if opener == owner and (self.number in duals or any(level.number == self.number for level in levels)):
                    return levels, duals
        raise RuntimeError(
            "a function transform of another thread ended while this one worked inside it. Wait for threads before. "
            "[nd-escaped]"
        )


class note_joins:
    """Context manager that records the transforms and dual levels of this thread while its block runs.

    These are its own levels, and the levels of other threads inside which its ops had to run.
    """

    __slots__ = ("before", "found")

    def __enter__(self) -> Self:
        state = modes()
        self.before: list[Any] | None = _joins.get()
        self.found: list[Any] = [(state.levels, state.dual_stack)]
        _joins.set(self.found)
        return self

    def __exit__(self, *exc: object) -> None:
        _joins.set(self.before)
        if self.before is not None:
            self.before += self.found[1:]

    @property
    def stacks(self) -> tuple[tuple[Level, ...], tuple[int, ...]]:
        """Levels and dual levels recorded so far, outermost first."""
        levels = {level for levels, _ in self.found for level in levels}
        duals = {number for _, duals in self.found for number in duals}
        return tuple(sorted(levels, key=lambda level: level.number)), tuple(sorted(duals))


class reopen_levels:
    """Context manager that reopens the transforms and dual levels of an earlier run, to rerun it after they closed."""

    __slots__ = ("outside", "stacks")

    def __init__(self, levels: tuple[Level, ...], duals: tuple[int, ...]) -> None:
        self.stacks = levels, duals

    def __enter__(self) -> None:
        levels, duals = self.stacks
        self.outside = scope()
        with process.lock:
            for number in (*(level.number for level in levels), *duals):
                if number not in process.open or number in process.reopened:
                    process.reopened[number] = process.reopened.get(number, 0) + 1
                    process.open[number] = Stacks(levels, duals, get_ident())
        entered = self.outside.modes.entered + 1
        restore(self.outside.with_changes(entered=entered, levels=levels, dual_stack=duals, dual_levels=len(duals)))

    def __exit__(self, *exc: object) -> None:
        levels, duals = self.stacks
        restore(self.outside)
        del self.outside  # see Note [Sections]
        with process.lock:
            for number in (*(level.number for level in levels), *duals):
                count = process.reopened.get(number, 0)
                if count > 1:
                    process.reopened[number] = count - 1
                elif count:
                    del process.reopened[number], process.open[number]
