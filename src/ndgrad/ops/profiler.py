"""`ndgrad.ops.profiler`: the two functions with which old programs mark a range explicitly. New ones use
`record_function`.
"""

from __future__ import annotations

from typing import Any

from ndgrad._src.core.call_watchers import RANGE, Begun, begin, end


class _Handle:
    """An open range."""

    def __init__(self, begun: Begun) -> None:
        self.begun = begun


def _record_function_enter(name: str, args: str | None = None) -> Any:
    """Begin a range; return a handle for `_record_function_exit`."""
    if not isinstance(name, str):
        raise RuntimeError(f"_record_function_enter() takes a name, a str, but got {type(name).__name__}. [nd-type]")
    return _Handle(begin(RANGE, name, None, () if args is None else (args,)))


def _record_function_exit(handle: Any) -> None:
    """End a range; ending it again does nothing."""
    if not isinstance(handle, _Handle):
        raise RuntimeError(
            f"_record_function_exit() takes what _record_function_enter() returned, but got {type(handle).__name__}. "
            "[nd-type]"
        )
    end(handle.begun)


_record_function_enter_new = _record_function_enter
