"""Source lines: the position in the user's code at which an op was called.

Recording must be cheap enough for every op. So the stack is walked outwards to the first frame outside the library,
and only the code object and the position of each frame are kept: no frame, so no local variable stays alive. Line
numbers and texts are looked up when they are read.

Note [What is remembered when]
    nothing      by default; the op and the version of every write are known anyway
    debug        the user's line of every op and of every write, and the origins of values without a graph
                 (ndgrad._src.debug.provenance)
    guard        the user's line of every op, and a checksum of its saved values (ndgrad._src.debug.checksum)
    anomaly      the user's whole stack at every op (ndgrad._src.debug.anomaly)
These modes belong to the process, as anomaly mode does in torch, not to a thread: debugging concerns all threads.
They are set on the class of the thread state, whose attributes are the defaults of every thread.
"""

from __future__ import annotations

import functools
import itertools
import linecache
import os
import sys
import weakref
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy

from ndgrad._src.core.modes import ThreadState, enter_process, leave_process, process, thread
from ndgrad._src.core.node import extra_of
from ndgrad._src.debug.nonfinite import first_nonfinite

if TYPE_CHECKING:
    from ndgrad._src.core.node import Node
    from ndgrad._typing import Payload

#: Frames with code here are not the user's: those of the library, generated ones, and NumPy's, which
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
    """True if code belongs to the user, judged by its file name; code typed into an interpreter does."""
    return not filename.startswith(_INSIDE)


@functools.lru_cache(maxsize=4096)
def _is_inside(filename: str) -> bool:
    return filename.startswith(_INSIDE)


def user_frames(limit: int = 1) -> Frames:
    """Return the innermost frames of user code that led here, at most `limit`."""
    frame: FrameType | None = sys._getframe(1)
    inside = _INSIDE
    while frame is not None and _is_inside(frame.f_code.co_filename):
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
    """A line of user code."""

    filename: str
    line: int
    function: str

    @property
    def text(self) -> str:
        """Return the line as in the file, without its indentation; empty if there is no file."""
        return linecache.getline(self.filename, self.line).strip()

    def __str__(self) -> str:
        text = self.text
        return f"{self.filename}:{self.line} in {self.function}" + (f": {text}" if text else "")


def places(frames: Frames) -> list[Place]:
    """Return the lines of a stack, innermost first."""
    codes: Any = frames[0::2]
    return [Place(c.co_filename, _line(c, at), c.co_qualname) for c, at in zip(codes, frames[1::2], strict=True)]


def _line(code: CodeType, position: Any) -> int:
    found = next(itertools.islice(code.co_positions(), position // 2, None), (None,))[0]
    return code.co_firstlineno if found is None else found


def innermost(frames: Frames | None) -> Place | None:
    """Return the innermost user line; None if it was not recorded."""
    return places(frames[:2])[0] if frames else None


def format_stack(frames: Frames) -> str:
    """Format a stack like a traceback, the innermost frame last."""
    lines = []
    for place in reversed(places(frames)):
        lines.append(f'  File "{place.filename}", line {place.line}, in {place.function}\n')
        if place.text:
            lines.append(f"    {place.text}\n")
    return "".join(lines)


# ----- records of a node ----------------------------------------------------------------------------------------------


class Trace:
    """A node's record of the forward call that made it."""

    __slots__ = ("frames", "name", "node", "nonfinite", "parent")

    def __init__(self, node: Node, frames: Frames, parent: Trace | None = None) -> None:
        self.name = node.name()
        self.node = weakref.ref(node)
        self.frames = frames
        #: Record of the node whose backward made this one, under create_graph. It holds no node, so there is no cycle.
        self.parent = parent
        #: The first value of the result that was not finite: (output, index, value);
        #: checked only in anomaly mode.
        self.nonfinite: tuple[int, tuple[int, ...], Any] | None = None

    def metadata(self) -> dict[str, Any]:
        """Return the record under torch's names: the stack as tracebacks print it, one string per frame, and the node
        whose backward made this one, while it is alive."""
        frames = zip(self.frames[-2::-2], self.frames[-1::-2], strict=True)
        found: dict[str, Any] = {"traceback_": [format_stack(frame) for frame in frames]}
        parent = None if self.parent is None else self.parent.node()
        if parent is not None:
            found["parent_"] = parent
        return found


def trace_of(node: Node) -> Trace | None:
    """Return the record of the call that made a node."""
    extra = node.extra
    return extra.forward_trace if extra is not None else None


def place_of(node: Node) -> Place | None:
    """Return the user's line that made a node; None unless debug, guard or anomaly mode was on then.

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


#: Number of user frames that anomaly mode keeps per node.
STACK_LIMIT = 40


def remember_call(node: Node, payloads: Payload = ()) -> None:
    """Store the records that the active modes need on a new node."""
    task = thread.task
    parent = None if task is None or task.node is None else trace_of(task.node)
    trace = Trace(node, user_frames(STACK_LIMIT if thread.anomaly else 1), parent)
    extra_of(node).forward_trace = trace
    if thread.anomaly:
        trace.nonfinite = first_nonfinite(payloads)


# ----- modes of the process -------------------------------------------------------------------------------------------


def switch(name: str, value: bool) -> bool:
    """Switch one of the process's modes on or off, and return its previous value."""
    with process.lock:
        was: bool = getattr(ThreadState, name)
        if was is not value:
            setattr(ThreadState, name, value)
            (enter_process if value else leave_process)()
            ThreadState.remembers = ThreadState.debug or ThreadState.guard or ThreadState.anomaly
    return was


