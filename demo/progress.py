"""A progress bar for the terminal that becomes a few plain lines when the output is a file or a pipe."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

WIDTH = 30
PLAIN_LINES = 10


class Progress:
    """Iterates over `range(total)`. `note` is shown behind the bar and may change at every step."""

    def __init__(self, total: int, title: str) -> None:
        self.total = total
        self.title = title
        self.note = ""
        self._start = time.perf_counter()
        self._last_drawn = 0.0
        self._terminal = sys.stdout.isatty()

    def __iter__(self) -> Iterator[int]:
        for step in range(self.total):
            yield step
            self._show(step + 1)
        if self._terminal:
            print()

    def _show(self, done: int) -> None:
        elapsed = time.perf_counter() - self._start
        left = elapsed / done * (self.total - done)
        numbers = f"{done:>{len(str(self.total))}}/{self.total}  {self.note}  {elapsed:3.0f} s, {left:3.0f} s left"
        if not self._terminal:
            if done * PLAIN_LINES // self.total > (done - 1) * PLAIN_LINES // self.total:
                print(f"{self.title} {numbers}", flush=True)
        elif elapsed - self._last_drawn > 0.1 or done == self.total:
            self._last_drawn = elapsed
            filled = WIDTH * done // self.total
            print(f"\r{self.title} {'█' * filled}{'░' * (WIDTH - filled)} {numbers}", end="", flush=True)
