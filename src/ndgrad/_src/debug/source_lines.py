"""The user's lines: where in the user's own code an op was called.

Asking must be cheap enough to do for every op. So the stack is walked outwards to the first frame that is not the
library's, and of each frame only the code object and the position in it are kept: no frame, so no local variable stays
alive. Line numbers and texts are looked up when somebody reads them.

Note [What is remembered when]
    nothing      by default; the op and the version of every write are known all the same
    debug        the user's line of every op and of every write, and where values without a graph came from
                 (ndgrad._src.debug.provenance)
    guard        the user's line of every op, and a checksum of what it saved (ndgrad._src.debug.checksum)
    anomaly      the user's whole stack at every op (ndgrad._src.debug.anomaly)
These modes are the process's, as anomaly mode is in torch, and not a thread's: whoever hunts a bug wants to see all
threads. They are set on the class of the thread state, whose attributes are the defaults of every thread.
"""

from __future__ import annotations

import itertools
import linecache
import os
import sys
import weakref
from types import CodeType, FrameType
from typing import Any, NamedTuple

import numpy

from ndgrad._src.core.modes import ThreadState, enter_process, leave_process, process, thread
from ndgrad._src.core.node import extra_of
from ndgrad._src.debug.nonfinite import first_nonfinite

#: Frames whose code lies here are not the user's: the library's own, generated ones, and NumPy's, which
#: calls back into the library.
_INSIDE = (
    os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep,
    "<ndgrad generated",
    os.path.dirname(os.path.abspath(numpy.__file__)) + os.sep,
    "<__array_function__",
)

#: The frames of a stack, innermost first: code, position, code, position, ...
Frames = tuple[CodeType | int, ...]


def is_users(filename: str) -> bool:
    """Whether code is the user's, by the name of its file; what is typed into an interpreter is."""
    return not filename.startswith(_INSIDE)


def user_frames(limit: int = 1) -> Frames:
    """The innermost frames of the user's code that led here, at most `limit`."""
    frame: FrameType | None = sys._getframe(1)
    inside = _INSIDE
    while frame is not None and frame.f_code.co_filename.startswith(inside):
        frame = frame.f_back
    if frame is None:
        return ()
    if limit == 1:
        return (frame.f_code, frame.f_lasti)
    found: list[CodeType | int] = []
    while frame is not None and limit:
        code = frame.f_code
        if not code.co_filename.startswith(inside):
            found += (code, frame.f_lasti)
            limit -= 1
        frame = frame.f_back
    return tuple(found)


class Place(NamedTuple):
    """A line of the user's code."""

    filename: str
    line: int
    function: str

    @property
    def text(self) -> str:
        """The line as it stands in the file, without its indentation; empty where there is no file."""
        return linecache.getline(self.filename, self.line).strip()

    def __str__(self) -> str:
        text = self.text
        return f"{self.filename}:{self.line} in {self.function}" + (f": {text}" if text else "")


def places(frames: Frames) -> list[Place]:
    """The lines of a stack, innermost first."""
    codes: Any = frames[0::2]
    return [Place(c.co_filename, _line(c, at), c.co_qualname) for c, at in zip(codes, frames[1::2], strict=True)]


def _line(code: CodeType, position: Any) -> int:
    found = next(itertools.islice(code.co_positions(), position // 2, None), (None,))[0]
    return code.co_firstlineno if found is None else found


def innermost(frames: Frames | None) -> Place | None:
    """The user's line itself, None if it was not remembered."""
    return places(frames[:2])[0] if frames else None


def format_stack(frames: Frames) -> str:
    """A stack as tracebacks print it, the innermost frame last."""
    lines = []
    for place in reversed(places(frames)):
        lines.append(f'  File "{place.filename}", line {place.line}, in {place.function}\n')
        if place.text:
            lines.append(f"    {place.text}\n")
    return "".join(lines)


# ----- what a node remembers ------------------------------------------------------------------------------------------


class Trace:
    """What a node remembers of the forward call that made it."""

    __slots__ = ("frames", "name", "node", "nonfinite", "parent")

    def __init__(self, node: Any, frames: Frames, parent: Trace | None = None) -> None:
        self.name = node.name()
        self.node = weakref.ref(node)
        self.frames = frames
        #: Of the node whose backward made this one, under create_graph. No node is held, so there is no cycle.
        self.parent = parent
        #: Where the first value of the result that was not finite lies: (output, index, value);
        #: checked in anomaly mode alone.
        self.nonfinite: tuple[int, tuple[int, ...], Any] | None = None

    def metadata(self) -> dict[str, Any]:
        """What is remembered, under torch's names: the stack as tracebacks print it, one string per frame, and the node
        whose backward made this one, while it lives."""
        frames = zip(self.frames[-2::-2], self.frames[-1::-2], strict=True)
        found: dict[str, Any] = {"traceback_": [format_stack(frame) for frame in frames]}
        parent = None if self.parent is None else self.parent.node()
        if parent is not None:
            found["parent_"] = parent
        return found


def trace_of(node: Any) -> Trace | None:
    """What was remembered of the call that made a node."""
    extra = node.extra
    return extra.forward_trace if extra is not None else None


def place_of(node: Any) -> Place | None:
    """The user's line that made a node; None unless debug, guard or anomaly mode was on then.

    >>> import ndgrad
    >>> from ndgrad._src.debug.source_lines import place_of
    >>> x = ndgrad.ones(2, requires_grad=True)
    >>> with ndgrad.autograd.debug():
    ...     y = x * x
    >>> place_of(y.grad_fn).line
    2
    """
    trace = trace_of(node)
    return None if trace is None else innermost(trace.frames)


#: How many of the user's frames anomaly mode keeps per node.
STACK_LIMIT = 40


def remember_call(node: Any, payloads: Any = ()) -> None:
    """Keep on a node that is being made what the modes in force ask for."""
    task = thread.task
    parent = None if task is None or task.node is None else trace_of(task.node)
    trace = Trace(node, user_frames(STACK_LIMIT if thread.anomaly else 1), parent)
    extra_of(node).forward_trace = trace
    if thread.anomaly:
        trace.nonfinite = first_nonfinite(payloads)


# ----- modes of the process -------------------------------------------------------------------------------------------


def switch(name: str, value: bool) -> bool:
    """Turn one of the process's modes on or off, and say what it was."""
    with process.lock:
        was: bool = getattr(ThreadState, name)
        if was is not value:
            setattr(ThreadState, name, value)
            (enter_process if value else leave_process)()
            ThreadState.remembers = ThreadState.debug or ThreadState.guard or ThreadState.anomaly
    return was


