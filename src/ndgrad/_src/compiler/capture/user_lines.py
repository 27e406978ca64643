"""The current source line of the user during a trace, and the line that an error came from.

Every traced op asks for its line, so results are cached by file and by position. The search ends at the frame in which
the trace began. The line that calls a compiled function does not belong to that function, and gradients that are traced
after it has returned have no line.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import CodeType, FrameType

from ndgrad._src.debug.source_lines import is_users
from ndgrad._src.foundations.bounded_tables import make_room

#: File whose frames separate a traced function from its caller.
_BEGINS = str(Path(__file__).parents[1] / "runtime" / "tracing.py")
#: File of the engine, which runs backward passes.
_ENGINE = str(Path(__file__).parents[2] / "engine" / "engine.py")


class _Names(dict[str, str | None]):
    """Names of files: the name of a user's file; empty for the file in which traces begin; None for all others."""

    def __missing__(self, file: str) -> str | None:
        found = self[file] = "" if file == _BEGINS else Path(file).name if is_users(file) else None
        return found


_names = _Names()
#: Source lines by code and position: the code, which must stay alive, and its line.
_lines: dict[tuple[int, int], tuple[CodeType, str]] = {}


def where() -> str | None:
    """Return the current line of the traced function, or of a function that it calls; None if there is none."""
    frame: FrameType | None = sys._getframe(1)
    names = _names
    while frame is not None and (name := names[frame.f_code.co_filename]) is None:
        frame = frame.f_back
    if frame is None or not name:
        return None
    code, at = frame.f_code, frame.f_lasti
    known = _lines.get((id(code), at))
    if known is None:
        make_room(_lines, 20_000)
        known = _lines[id(code), at] = code, f"{name}:{frame.f_lineno}"
    return known[1]


def is_in_rule() -> bool:
    """True if code of a derivative rule runs, and no code of the user that a backward pass calls."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not _names[frame.f_code.co_filename]:
        if frame.f_code.co_filename == _ENGINE:
            return True
        frame = frame.f_back
    return False


def line_of(error: BaseException) -> str | None:
    """Return the innermost line of the user that an exception has passed."""
    step, found = error.__traceback__, None
    while step is not None:
        if name := _names[step.tb_frame.f_code.co_filename]:
            found = f"{name}:{step.tb_lineno}"
        step = step.tb_next
    return found
