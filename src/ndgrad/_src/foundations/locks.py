"""Locks that stay usable in a forked child, whatever the parent's other threads were doing.

A fork copies only the calling thread. A lock that another thread held at that moment would stay locked in the child
forever, because its owner does not exist there. So all locks of the package are made here. A child replaces them,
except the locks that its own thread holds and will release.
"""

from __future__ import annotations

import functools
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

_all: weakref.WeakSet[Any] = weakref.WeakSet()


def make_lock() -> threading.RLock:
    """Return a re-entrant lock.

    Signal handlers and finalizers may run at any point and ask for a lock that their thread already holds.
    """
    lock = threading.RLock()
    _all.add(lock)
    return lock


_computing = make_lock()


def compute_once(function: F) -> F:
    """Cache a function of positional arguments so that each result is computed once, also by several threads.

    `functools.cache` lets two threads compute the same result and drops one of the two. Machine code that is dropped is
    freed, although the other thread may have its address.
    """
    found: dict[tuple[Any, ...], Any] = {}

    @functools.wraps(function)
    def look_up(*key: Any) -> Any:
        try:
            return found[key]
        except KeyError:
            pass
        with _computing:
            if key not in found:
                found[key] = function(*key)
            return found[key]

    look_up.cache_clear = found.clear  # type: ignore[attr-defined]  # as that of functools.cache
    return look_up  # type: ignore[return-value]


def holds_any() -> bool:
    """True if this thread holds a lock of the package.

    Such a thread must not wait for another thread, which may need the same lock.
    """
    while True:
        try:
            return any(lock._is_owned() for lock in list(_all))
        except RuntimeError:  # another thread has made a lock meanwhile
            continue


def _renew() -> None:
    lock: Any
    for lock in list(_all):
        if not lock._is_owned():
            lock._at_fork_reinit()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_renew)
