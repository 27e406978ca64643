"""Whether the work of a GPU is being recorded (ndgrad.cuda.graphs), for those whose part in it Python must repeat.

What is recorded runs again without Python: kernels, with the arguments that they were started with. Who computes such
an argument anew at each step (the step number of an optimizer), or must be asked about the result (an index out of
bounds), leaves a function that is called before each replay. What cannot be recorded says so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Recording:
    """What a recorded graph needs besides the GPU's work."""

    def __init__(self) -> None:
        #: called before each replay, in order
        self.before_replay: list[Callable[[], None]] = []
        #: what must live as long as the graph
        self.kept: list[Any] = []


#: The recording that is under way; there is one at a time in a process.
active: Recording | None = None


def refuse(what: str, instead: str) -> None:
    """Raise if a graph is being recorded, of which `what` cannot be a part."""
    if active is not None:
        raise RuntimeError(f"{what} cannot be recorded in a CUDA graph: {instead} [nd-cuda-graph]")
