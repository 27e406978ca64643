"""Tables of results by key that forget their oldest entries when they are full."""

from __future__ import annotations

from typing import Any


def make_room(table: dict[Any, Any], most: int) -> None:
    """Forget the oldest quarter of a table that has reached `most` entries.

    The entries of the last calls stay, so that a loop over a few of them never computes them again.

    >>> table = {n: n for n in range(8)}
    >>> make_room(table, 8)
    >>> list(table)
    [2, 3, 4, 5, 6, 7]
    """
    if len(table) >= most:
        for key in list(table)[: most // 4 + len(table) - most]:  # `list` is one step for other threads
            table.pop(key, None)
