"""Backward inside backward, to any depth: going on in a new thread, whose stack is empty.

A hook or a custom backward may call backward again, and so may the hooks of that one. Every level needs some Python
frames, of which a thread may have only so many (`sys.getrecursionlimit()`), so past a certain depth a level runs in a
thread of its own while the one below waits. Nobody should notice. The new thread starts with the modes and context
variables of the old one and hands its modes back; an exception goes up as if there were one stack, with its traceback;
an interrupt goes to the thread that is at work.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable
from contextvars import Context, copy_context

from ndgrad._src.core.modes import Scope, restore, scope
from ndgrad._src.foundations.locks import holds_any

#: A stack of this many frames, or of half as many as are allowed, is deep.
_DEEP = 500


def needs_fresh_stack() -> bool:
    """Whether so many frames are in use that a nested pass should not be started on top of them, and it
    can be started elsewhere.

    It cannot while this thread holds a lock: a signal handler or a finalizer has come between, and the pass in the
    new thread would wait for a lock (of the leaf that was being accumulated into, say) that this one does not give
    back before the pass is over.
    """
    try:
        sys._getframe(min(_DEEP, sys.getrecursionlimit() // 2))
    except ValueError:
        return False
    return not holds_any()


class _Worker(threading.Thread):
    """Runs one function with the modes of the thread that waits for it."""

    def __init__(self, function: Callable[[], None]) -> None:
        super().__init__(name="ndgrad-nested-backward", daemon=True)
        self.function: Callable[[], None] | None = function
        #: what is in force when the function is done
        self.scope: Scope | None = None
        self.context: Context | None = copy_context()
        self.error: BaseException | None = None
        #: held until the function is done; `join` is of no use for waiting, since one that was interrupted
        #: takes the thread for ended
        self.busy = threading.Lock()
        self.busy.acquire()
        #: the worker that this one waits for
        self.inner: _Worker | None = None

    def run(self) -> None:
        try:
            self.context.run(self.function)  # type: ignore[arg-type, union-attr]  # both there until it has run
        except BaseException as error:
            self.error = error
        finally:
            self.function = None
            self.scope = self.context.run(scope)  # type: ignore[union-attr]
            self.context = None  # which would keep the modes in it, if a traceback keeps this object
            self.busy.release()


def on_a_fresh_stack(function: Callable[[], None]) -> None:
    """Call `function` in a new thread and wait for it."""
    worker = _Worker(function)
    try:
        worker.start()
    except RuntimeError:  # no threads any more (the interpreter is shutting down) or none left: then as deep as it goes
        function()
        return
    caller = threading.current_thread()
    if isinstance(caller, _Worker):
        caller.inner = worker
    _wait(worker)
    if isinstance(caller, _Worker):
        caller.inner = None
    if worker.scope is not None:
        restore(worker.scope)
        worker.scope = None
    if worker.error is not None:
        try:
            raise worker.error
        finally:
            del worker  # the traceback holds this frame


def _wait(worker: _Worker) -> None:
    while True:
        try:
            worker.busy.acquire()
            return
        except BaseException as interrupt:  # only a signal can raise here, in the main thread
            _raise_at_work(worker, type(interrupt))


def _raise_at_work(worker: _Worker, kind: type[BaseException]) -> None:
    """Raise in the thread at work, of a chain of threads that wait for one another; from there
    it comes up by itself."""
    while (inner := worker.inner) is not None:
        worker = inner
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(worker.ident or 0), ctypes.py_object(kind))
