"""Measure the time of compiling by phase, and show a line on the terminal if it takes long.

    trace       the function runs on tensors without data, together with its gradients
    passes      the program is simplified, and split
    lowering    steps, memory, the text of a module
    LLVM        from text to machine code; not for objects in the cache on disk
    linking     code to addresses

`compiling` opens a record for one piece of work, and `phase` charges time to it: each second to the innermost phase. If
no record is open (kernels for eager code), `phase` does nothing.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ndgrad._src.core.call_watchers import FUNCTION, begin, end
from ndgrad._src.core.modes import ThreadState

#: Seconds before the first line on the terminal, and seconds between two lines.
PATIENCE = 2.0
_TURN = 0.5

#: The phases in order.
PHASES = ("trace", "passes", "lowering", "LLVM", "linking")


@dataclass
class Times:
    """The time to compile something: seconds by phase, and the number of objects from the cache."""

    seconds: dict[str, float] = field(default_factory=dict)
    #: number of required objects, and of those that existed already: in the cache on disk, or in this process
    objects: int = 0
    cached: int = 0

    @property
    def total(self) -> float:
        return sum(self.seconds.values())

    def __add__(self, other: Times) -> Times:
        names = [*self.seconds, *[name for name in other.seconds if name not in self.seconds]]
        seconds = {name: self.seconds.get(name, 0.0) + other.seconds.get(name, 0.0) for name in names}
        return Times(seconds, self.objects + other.objects, self.cached + other.cached)

    def __str__(self) -> str:
        """Return the times in milliseconds: trace 1.2, passes 0.3, lowering 4.0, LLVM 12 (1 of 2 objects from the
        cache).
        """
        ordered = [name for name in PHASES if name in self.seconds]
        text = ", ".join(f"{name} {_milliseconds(self.seconds[name])}" for name in ordered)
        return text + (f" ({self.cached} of {self.objects} objects from the cache)" if self.cached else "")


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.{1 if seconds < 0.01 else 0}f} ms"


class _Local(threading.local):
    """The record of the thread's work, and the open phases, the innermost last."""

    def __init__(self) -> None:
        self.times: Times | None = None
        self.open: list[str] = []
        self.since = 0.0


_local = _Local()


def _charge(now: float) -> None:
    """Charge the time since the last change of phase to the innermost one."""
    if _local.times is not None and _local.open:
        name = _local.open[-1]
        _local.times.seconds[name] = _local.times.seconds.get(name, 0.0) + now - _local.since
    _local.since = now


@contextmanager
def phase(name: str) -> Iterator[None]:
    """Charge the time of a block to a phase of the open record."""
    if _local.times is None:
        yield
        return
    _charge(time.perf_counter())
    opened = _local.open
    opened.append(name)
    try:
        yield
    finally:
        _charge(time.perf_counter())
        opened.pop()


@contextmanager
def compiling(times: Times, what: str, first: str) -> Iterator[None]:
    """Charge a block of work on `what` to a record, in the phase `first` if no other is open."""
    _charge(time.perf_counter())
    before, opened = _local.times, _local.open
    _local.times, _local.open = times, []
    line = _Line(what, _local.open) if before is None and _on_terminal() else None
    begun = begin(FUNCTION, f"compile {what}") if ThreadState.watchers else []
    try:
        with phase(first):
            yield
    finally:
        end(begun)
        _local.times, _local.open = before, opened
        if line is not None:
            line.end()


def note_object(cached: bool) -> None:
    """Count a required object, which was compiled or existed already."""
    if _local.times is not None:
        _local.times.objects += 1
        _local.times.cached += cached


# ----- the line -------------------------------------------------------------------------------------------------------


def _on_terminal() -> bool:
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError):  # no stream, or a closed one
        return False


class _Line(threading.Thread):
    """A line on the terminal that shows the current compilation once it has taken some time, and is erased at the end.

    LLVM runs without the interpreter lock, so a thread can print meanwhile.
    """

    def __init__(self, what: str, opened: list[str]) -> None:
        super().__init__(name="ndgrad compile progress", daemon=True)
        self._what = what
        self._opened = opened
        self._stream: Any = sys.stderr
        self._over = threading.Event()
        self._began = time.perf_counter()
        self.start()

    def run(self) -> None:
        longest = 0
        wait = PATIENCE
        while not self._over.wait(wait):
            wait = _TURN
            seconds = time.perf_counter() - self._began
            text = f"ndgrad.compile: {self._what}, {self._opened[-1] if self._opened else 'ending'}, {seconds:.0f} s"
            self._say("\r" + text.ljust(longest))
            longest = max(longest, len(text))
        if longest:
            self._say("\r" + " " * longest + "\r")

    def _say(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):  # the terminal is gone
            self._over.set()

    def end(self) -> None:
        self._over.set()
        self.join()
