"""Whether nobody else holds an object, read off its reference count.

What `sys.getrefcount` answers for an object that one variable holds is the interpreter's affair: a call may or may not
count its arguments (Python 3.14 borrows them), and without the interpreter lock a count is a guess. So the answers are
found out by trying, when this file is imported, on an object that one variable or attribute holds and on one that a
second variable holds too. Where the two do not differ by one, the numbers below are 0, no count is as small, and
nothing is taken to be held by nobody else: slower, and right.
"""

from __future__ import annotations

import sys
from collections.abc import Callable


class _Held:
    __slots__ = ("thing",)


def _local_alone() -> int:
    thing = _Held()
    return sys.getrefcount(thing)


def _local_shared() -> int:
    thing = _Held()
    other = [thing]
    return sys.getrefcount(thing) if other else 0


class _Holder:
    __slots__ = ("thing",)

    def __init__(self) -> None:
        self.thing = _Held()

    def count(self) -> int:
        return sys.getrefcount(self.thing)


def _attribute_alone() -> int:
    return _Holder().count()


def _attribute_shared() -> int:
    holder = _Holder()
    other = [holder.thing]
    return holder.count() if other else 0


#: Whether a count says anything: not without the interpreter lock.
COUNTS: bool = getattr(sys, "_is_gil_enabled", lambda: True)()


def calibrated(alone: Callable[[], int], shared: Callable[[], int]) -> int:
    """The count of an object that nobody else holds, as `alone` counts it; 0 if `shared`, where one more holds it,
    does not count one more."""
    count = alone()
    return count if COUNTS and 0 < count == shared() - 1 else 0


#: The count of what a local variable alone holds, and of what an attribute alone holds, where
#: `sys.getrefcount` is called on either.
LOCAL = calibrated(_local_alone, _local_shared)
ATTRIBUTE = calibrated(_attribute_alone, _attribute_shared)
