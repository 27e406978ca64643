"""A progress bar on a terminal for work of more than two seconds; nothing elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

WIDTH = 30


def progress(count: int, title: str) -> Iterator[int]:
    """Iterate over `range(count)`, with a bar on standard error after two seconds, if that is a terminal."""
    began = shown = time.monotonic()
    visible = False
    for i in range(count):
        now = time.monotonic()
        if sys.stderr.isatty() and now - began > 2 and now - shown > 0.1:
            done = i * WIDTH // count
            left = (now - began) / max(i, 1) * (count - i)
            sys.stderr.write(f"\r{title} [{'#' * done}{' ' * (WIDTH - done)}] {i}/{count}, {left:.0f} s left ")
            sys.stderr.flush()
            shown, visible = now, True
        yield i
    if visible:
        sys.stderr.write("\r" + " " * (WIDTH + len(title) + 40) + "\r")
        sys.stderr.flush()
