"""The functions that code with rewritten Python loops calls (see ndgrad._src.compiler.capture.loop_source)."""

from __future__ import annotations

import builtins
import types
from typing import Any

from ndgrad._src.compiler.capture import python_loops
from ndgrad._src.compiler.capture.branch_conditions import MOST as MOST_CONDITIONS
from ndgrad._src.compiler.capture.graph_break import current_tracer
from ndgrad._src.compiler.capture.loop_items import Items, count_items
from ndgrad._src.compiler.capture.loop_source import (
    UNBOUND,
    LoopLog,
    LoopNote,
    RewrittenCode,
    may_have_loops,
    rewrite_code,
)
from ndgrad._src.compiler.capture.python_loops import Loop
from ndgrad._src.compiler.capture.python_while_loops import WhileLoop
from ndgrad._src.compiler.capture.reachable_objects import ReachableObjects
from ndgrad._src.compiler.capture.replaced_code import code_of, original_code
from ndgrad._src.control_flow.loops import is_traced

#: Most loops that a function may refuse before all others are traced round by round.
_REFUSALS = 6


def rewrite_loops(reached: ReachableObjects) -> list[RewrittenCode]:
    """Return the code of reached functions that have loops, with its form for traces. Source files are read, so this
    comes before a trace.
    """
    caches = [code_of(c.__wrapped__) for c in reached.caches if isinstance(c.__wrapped__, types.FunctionType)]
    found = []
    for number, code in [*reached.codes.items()]:
        if original_code(code) is not code:  # rewritten for an earlier trace
            continue
        if number in reached.opaque.refused or any(code is c for c in caches) or not may_have_loops(code):
            continue
        made = rewrite_code(code, Loops)
        if made is not None:
            found.append(made)
    return found


class Loops:
    """The functions that rewritten code calls. It belongs to the code of one function."""

    unbound = UNBOUND
    name_error = NameError
    slice = builtins.slice

    def __init__(self, notes: list[LoopNote]) -> None:
        self._notes = notes

    def note(self, items: Any, number: int) -> Any:
        """Return the items of a loop whose source cannot be a body. Its reason is kept if the loop is long."""
        note = self._notes[number]
        log = _find_log()
        if log is not None and note.reason is not None and count_items(items) >= python_loops.LEAST:
            log.refused.setdefault(note.where, note.reason)
        return items

    def note_while(self, number: int) -> bool:
        """Return True. The reason of a `while` loop whose source cannot be a body is kept if it has many rounds."""
        note = self._notes[number]
        log = _find_log()
        if log is not None and note.reason is not None:
            log.rounds[note.where] = log.rounds.get(note.where, 0) + 1
            if log.rounds[note.where] > MOST_CONDITIONS:
                log.refused.setdefault(note.where, note.reason)
        return True

    def roll_while(self, number: int) -> WhileLoop | None:
        """Return a plan for a `while` loop; None if it runs as written."""
        log = _find_log()
        note = self._notes[number]
        if log is None or not self._may_roll(log, note):
            return None
        return WhileLoop(log, note)

    def roll(self, items: Any, number: int) -> Loop | None:
        """Return a plan for a loop; None if it runs as written."""
        log = _find_log()
        if log is None or count_items(items) < python_loops.LEAST:
            return None
        note = self._notes[number]
        if not self._may_roll(log, note):
            return None
        log.begun.append(note.where)
        return Loop(log, note, items)

    def _may_roll(self, log: LoopLog, note: LoopNote) -> bool:
        if note.where in log.refused or not is_traced() or not any(made.loops is self for made in log.codes):
            return False  # the trace of another thread may have rewritten a function that this one leaves as it is
        off = log.is_off or (
            "too many other loops of the function are not rolled up" if len(log.refused) >= _REFUSALS else None
        )
        if off is not None:
            log.refused.setdefault(note.where, off)
            return False
        return True

    def items(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the items of zip, enumerate or reversed, with the arguments if a trace may need them."""
        if function in (zip, enumerate, reversed) and _find_log() is not None:
            return Items(function, args, kwargs)
        return function(*args, **kwargs)


def _find_log() -> LoopLog | None:
    """Return the log of the current trace; None without a trace."""
    tracer = current_tracer.get()
    return None if tracer is None else getattr(tracer, "loops", None)
