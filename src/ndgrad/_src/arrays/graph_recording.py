"""The current recording of a GPU's work (ndgrad.cuda.graphs), for Python code that must run again at each replay.

Recorded work runs again without Python: kernels, with their original arguments. Code that computes such an argument at
each step (the step number of an optimizer), or must check the result (an index out of bounds), registers a function
that is called before each replay. Operations that cannot be recorded raise an error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Recording:
    """State of a recorded graph in addition to the GPU's work."""

    def __init__(self) -> None:
        #: Functions called before each replay, in order.
        self.before_replay: list[Callable[[], None]] = []
        #: Objects that must live as long as the graph.
        self.kept: list[Any] = []


#: The current recording; a process has at most one.
active: Recording | None = None


def refuse(what: str, instead: str) -> None:
    """Raise if a graph is being recorded, because `what` cannot be part of it."""
    if active is not None:
        raise RuntimeError(f"{what} cannot be recorded in a CUDA graph: {instead} [nd-cuda-graph]")
