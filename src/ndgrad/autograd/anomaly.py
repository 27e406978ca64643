"""Anomaly mode: where in the forward the failing part of backward comes from.

While the mode is on, every node remembers the user's stack at the time it was made. When a node fails in backward, or returns a gradient
that is not finite, the error says which op it belongs to and where that op was called.
"""

from __future__ import annotations

import sys
import traceback
from types import FrameType
from typing import Any

import numpy as np

from ndgrad.autograd.modes import enter, leave, thread
from ndgrad.autograd.node import Extra, extra_of

_INSIDE = ("ndgrad",)


def remember_forward(node: Any) -> None:
    """Keep the user's stack on a node that is being made."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and str(frame.f_globals.get("__name__", "")).split(".")[0] in _INSIDE:
        frame = frame.f_back
    summary = traceback.StackSummary.extract(traceback.walk_stack(frame), limit=30, lookup_lines=False)
    summary.reverse()
    extra_of(node).forward_trace = summary


def forward_trace(node: Any) -> str:
    """The user's lines that made a node, as a traceback prints them; empty if they were not kept."""
    extra = node.extra
    if not isinstance(extra, Extra) or extra.forward_trace is None:
        return ""
    return "".join(extra.forward_trace.format())


def check_finite(node: Any, outs: Any) -> None:
    """Raise if a node returned a gradient with NaN in it."""
    for position, out in enumerate(outs):
        if out is None:
            continue
        array = np.asarray(out._array if hasattr(out, "_array") else out)
        if array.dtype.kind in "fc" and np.isnan(array).any():
            place = tuple(int(i) for i in np.argwhere(np.isnan(array))[0])
            where = forward_trace(node)
            raise RuntimeError(
                f"Function '{node.name()}' returned nan values in its {position}th output: the first at index {place} of shape "
                f"{array.shape}."
                + (f"\nThe forward call that made it:\n{where}" if where else " Run the forward inside detect_anomaly() too, to "
                    "see its line.")
            )


class detect_anomaly:
    """A context in which backward explains failures with the lines of the forward, and raises on NaN."""

    def __init__(self, check_nan: bool = True) -> None:
        self.mode = True
        self.check_nan = check_nan
        self._stack: list[tuple[bool, bool]] = []

    def __enter__(self) -> None:
        enter()
        self._stack.append((thread.anomaly, thread.check_nan))
        thread.anomaly, thread.check_nan = self.mode, self.check_nan

    def __exit__(self, *exc: object) -> None:
        thread.anomaly, thread.check_nan = self._stack.pop()
        leave()


class set_detect_anomaly(detect_anomaly):
    """Switch anomaly mode on or off, at once; as a context, until the block ends."""

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        super().__init__(check_nan)
        self.mode = mode
        self.before = (thread.anomaly, thread.check_nan)
        _switch(mode, check_nan)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        _switch(*self.before)


def _switch(mode: bool, check_nan: bool) -> None:
    if mode and not thread.anomaly:
        enter()
    elif not mode and thread.anomaly:
        leave()
    thread.anomaly, thread.check_nan = mode, check_nan


def is_anomaly_enabled() -> bool:
    return thread.anomaly
