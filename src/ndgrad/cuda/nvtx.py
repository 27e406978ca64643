"""Ranges for NVIDIA's profilers, under torch's names: calls between a push and a pop have a name in their timelines.
Without a GPU these functions do nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ndgrad._src.arrays.gpus import devices_or_none
from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent

__all__ = ["mark", "range", "range_pop", "range_push"]

#: Number of open ranges.
_depth = 0


def _library() -> Any:
    cupy, count = devices_or_none()
    return getattr(cupy.cuda, "nvtx", None) if count else None


def range_push(msg: str) -> int:
    """Open a range; return the number of ranges open before.

    Args:
        msg: name of the range.

    >>> import ndgrad
    >>> before = ndgrad.cuda.nvtx.range_push("forward")
    >>> ndgrad.cuda.nvtx.range_pop() == before
    True
    """
    global _depth
    found = _library()
    if found is not None:
        found.RangePush(str(msg))
    _depth += 1
    return _depth - 1


def range_pop() -> int:
    """Close the innermost range; return the number of ranges still open."""
    global _depth
    if not _depth:
        raise RuntimeError("nvtx.range_pop() without range_push(). [nd-call-order]")
    found = _library()
    if found is not None:
        found.RangePop()
    _depth -= 1
    return _depth


@contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """Return a context with a name; further arguments are formatted into it by `str.format`.

    Args:
        msg: name of the range, or its format.
        args, kwargs: values for the format.

    >>> import ndgrad
    >>> with ndgrad.cuda.nvtx.range("step {}", 3):
    ...     y = ndgrad.ones(2) * 2
    """
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()


def mark(msg: str) -> None:
    """Mark a moment with a name.

    Args:
        msg: name of the moment.
    """
    found = _library()
    if found is not None:
        found.Mark(str(msg))


_refuse_absent(__name__)
