"""Progress of a long check: one line on stderr.

Nothing is written unless stderr is a terminal, and nothing in the first second, so quick checks and logs stay clean.
"""

from __future__ import annotations

import sys
import time
from typing import Self

_PATIENCE = 1.0
_WIDTH = 30


class Progress:
    """A counter of steps towards a known total; a context that always clears the line."""

    def __init__(self, what: str, total: int) -> None:
        self.what, self.total, self.done = what, total, 0
        self.visible = total > 0 and sys.stderr is not None and sys.stderr.isatty()
        self.next_time = time.monotonic() + _PATIENCE if self.visible else 0.0
        self.drawn = False

    def step(self) -> None:
        self.done += 1
        if not self.visible:
            return
        now = time.monotonic()
        if now < self.next_time:
            return
        self.next_time = now + 0.1
        full = _WIDTH * self.done // self.total
        sys.stderr.write(f"\r{self.what} [{'#' * full}{'.' * (_WIDTH - full)}] {self.done}/{self.total}\x1b[K")
        sys.stderr.flush()
        self.drawn = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        if self.drawn:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
