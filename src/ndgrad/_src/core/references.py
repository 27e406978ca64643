"""Detection of objects without other references, from reference counts.

The result of `sys.getrefcount` for an object in a single variable depends on the interpreter: a call may or may not
count its arguments (Python 3.14 borrows them), and without the interpreter lock a count is a guess. So the counts are
measured at import, on an object in one variable or attribute, and on an object in a second variable too. If the two do
not differ by one, the numbers below are 0. No count is as small as 0, so every object is then taken to be shared:
slower, but correct.
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


#: True if reference counts are reliable: not without the interpreter lock.
COUNTS: bool = getattr(sys, "_is_gil_enabled", lambda: True)()


def calibrated(alone: Callable[[], int], shared: Callable[[], int]) -> int:
    """Return the count of an unshared object, as measured by `alone`.

    The result is 0 if `shared`, which measures with one more reference, does not count one more.
    """
    count = alone()
    return count if COUNTS and 0 < count == shared() - 1 else 0


#: Result of `sys.getrefcount` for an object held only by a local variable, and only by an attribute.
LOCAL = calibrated(_local_alone, _local_shared)
ATTRIBUTE = calibrated(_attribute_alone, _attribute_shared)
