"""Locks that a forked child can use, whatever the parent's other threads were doing.

A fork copies only the thread that calls it. A lock that another thread held at that moment stays locked in the child,
and nobody is there to give it back: the first who asks for it waits forever. So every lock of the package is made here,
and a child renews all of them, except those that its own thread holds and will give back.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any

_all: weakref.WeakSet[Any] = weakref.WeakSet()


def make_lock() -> threading.RLock:
    """A lock that its holder may take again: a signal handler, or a finalizer that the collector runs, may ask for it
    at any point, also while its thread holds it."""
    lock = threading.RLock()
    _all.add(lock)
    return lock


def holds_any() -> bool:
    """Whether this thread holds a lock of the package. Then it must not wait for another thread, which may
    ask for the same lock."""
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


if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(after_in_child=_renew)
