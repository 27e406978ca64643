"""A progress bar for the terminal that becomes a few plain lines when the output is a file or a pipe."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

WIDTH = 30
PLAIN_LINES = 10


class Progress:
    """Iterates over `range(total)`, or until the seconds are used up.

    `note` is shown behind the bar and may change at every step. `share` is the part of the nearer limit that is used.
    """

    def __init__(self, total: int, title: str, seconds: float) -> None:
        self.total = total
        self.title = title
        self.seconds = seconds
        self.share = 0.0
        self.note = ""
        self._start = time.perf_counter()
        self._last_drawn = 0.0
        self._terminal = sys.stdout.isatty()

    def __iter__(self) -> Iterator[int]:
        for step in range(self.total):
            yield step
            elapsed, before = time.perf_counter() - self._start, self.share
            self.share = min(1.0, max((step + 1) / self.total, elapsed / self.seconds))
            self._show(step + 1, elapsed, before)
            if self.share == 1.0:
                break
        if self._terminal:
            print()

    def _show(self, done: int, elapsed: float, before: float) -> None:
        left = elapsed / self.share * (1 - self.share)
        numbers = f"{done:>{len(str(self.total))}}/{self.total}  {self.note}  {elapsed:3.0f} s, {left:3.0f} s left"
        if not self._terminal:
            if int(self.share * PLAIN_LINES) > int(before * PLAIN_LINES):
                print(f"{self.title} {numbers}", flush=True)
        elif elapsed - self._last_drawn > 0.1 or self.share == 1.0:
            self._last_drawn = elapsed
            filled = int(WIDTH * self.share)
            print(f"\r{self.title} {'█' * filled}{'░' * (WIDTH - filled)} {numbers}", end="", flush=True)
