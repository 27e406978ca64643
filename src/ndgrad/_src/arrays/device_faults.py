"""Errors that a device finds when the call that made them is over (ndgrad._src.compiler.cuda.index_faults).

Whoever hands a device's values to the user calls `settle` first. Nothing a user sees comes from a call that went wrong
without a word.
"""

from __future__ import annotations

from collections.abc import Callable

from ndgrad._src.arrays import graph_recording

#: What waits for a device and raises what it has found, while there are calls that it has not been asked about.
pending: list[Callable[[], None]] = []


def settle() -> None:
    """Wait for the devices that were given something to look at, and raise what they have found."""
    if pending:
        graph_recording.refuse("a question for values on the GPU", "nothing has been computed yet. Ask after replay().")
    while pending:
        pending.pop()()
