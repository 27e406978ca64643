"""Errors that a device detects after the call that caused them (ndgrad._src.compiler.cuda.index_faults).

Code that hands a device's values to the user calls `settle` first. So users never see values from a call that failed
unnoticed.
"""

from __future__ import annotations

from collections.abc import Callable

from ndgrad._src.arrays import graph_recording

#: Functions that wait for a device and raise the errors it has found, while checks are outstanding.
pending: list[Callable[[], None]] = []


def settle() -> None:
    """Wait for the devices with outstanding checks, and raise the errors they have found."""
    if pending:
        graph_recording.refuse("a question for values on the GPU", "nothing has been computed yet. Ask after replay().")
    while pending:
        pending.pop()()
