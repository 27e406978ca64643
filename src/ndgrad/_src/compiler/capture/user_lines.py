"""The user's line that is at work while a function is traced, and the one that an error came from.

Asked for every op that is written down, so a file is looked at once, and a place in it once. Lines are looked for down to
where the trace began: the line that calls a compiled function is none of that function's, and the gradients that are
traced after it has returned have none.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import CodeType, FrameType

from ndgrad._src.debug.source_lines import is_users

#: The file whose frames lie between a function that is traced and whoever calls it.
_BEGINS = str(Path(__file__).parents[1] / "runtime" / "specialization.py")


class _Names(dict[str, str | None]):
    """By file: its name, if it is one of the user's; empty for the one where traces begin; None for all others."""

    def __missing__(self, file: str) -> str | None:
        found = self[file] = "" if file == _BEGINS else Path(file).name if is_users(file) else None
        return found


_names = _Names()
#: By code and position in it: the code, which must stay, and its line.
_lines: dict[tuple[int, int], tuple[CodeType, str]] = {}


def where() -> str | None:
    """The line of the function that is traced, or of one that it calls; None if none of theirs is at work."""
    frame: FrameType | None = sys._getframe(1)
    names = _names
    while frame is not None and (name := names[frame.f_code.co_filename]) is None:
        frame = frame.f_back
    if frame is None or not name:
        return None
    code, at = frame.f_code, frame.f_lasti
    known = _lines.get((id(code), at))
    if known is None:
        if len(_lines) > 20_000:
            _lines.clear()
        known = _lines[id(code), at] = code, f"{name}:{frame.f_lineno}"
    return known[1]


def line_of(error: BaseException) -> str | None:
    """The innermost of the user's lines that an exception has passed."""
    step, found = error.__traceback__, None
    while step is not None:
        if name := _names[step.tb_frame.f_code.co_filename]:
            found = f"{name}:{step.tb_lineno}"
        step = step.tb_next
    return found
