"""Backward inside backward, to any depth: continue in a new thread, whose stack is empty.

A hook or a custom backward may call backward again, and so may the hooks of that one. Every level needs some Python
frames, of which a thread may have only so many (`sys.getrecursionlimit()`). Past a certain depth a level therefore runs
in a thread of its own, while the thread below waits. The new thread starts with the modes and context variables of the
old one. An exception goes up as if there were one stack, with its traceback.

Note [Interrupts of nested passes]
An interrupt (Ctrl-C, PyThreadState_SetAsyncExc) may arrive in any thread of the chain, between any two bytecodes. A
thread that left the chain while a worker runs would leave that worker behind, with its modes. Four rules prevent it.

- A worker's function is claimed once, by the worker itself or by its caller (`_Worker.claim`). A caller that is
  interrupted while the thread starts claims the function, which then never runs, and lets the interrupt pass.
- A caller whose worker has claimed the function passes the interrupt on to the innermost thread of the chain. There it
  is raised, and comes up as that worker's error. The caller waits for it.
- A thread that waits looks up every `_PATIENCE` seconds. An interrupt that reaches a waiting thread, because the chain
  has grown meanwhile, is passed on then.
- A worker says that it is done before it looks for a last interrupt. A sender says that it is sending before it looks
  whether the worker is done. So no interrupt arrives in a worker that has ended: its caller raises it instead.

One window is Python's own: `threading.Thread.start` may be interrupted before the thread exists. Then nothing runs, but
`threading.enumerate()` lists a thread that never starts.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from collections.abc import Callable
from contextvars import Context, copy_context

from ndgrad._src.foundations.locks import holds_any

#: A stack of this many frames, or of half as many as are allowed, is deep.
_DEEP = 500

#: The longest time in seconds after which a waiting thread notices an interrupt that was raised in itself.
_PATIENCE = 0.1


def needs_fresh_stack() -> bool:
    """True if the stack is deep and a nested pass can run in another thread.

    It cannot while this thread holds a lock. A signal handler or a finalizer has then come between, and the pass in the
    new thread would wait for a lock (of the leaf that was being accumulated into, say) that this thread does not
    release before the pass is over.
    """
    try:
        sys._getframe(min(_DEEP, sys.getrecursionlimit() // 2))
    except ValueError:
        return False
    return not holds_any()


class _Worker(threading.Thread):
    """A thread that runs one function in a copy of its caller's context, while the caller waits."""

    def __init__(self, function: Callable[[], None]) -> None:
        super().__init__(name="ndgrad-nested-backward", daemon=True)
        #: The function and the context that it runs in, until they are claimed.
        self.unclaimed = [(copy_context(), function)]
        self.error: BaseException | None = None
        #: The worker that this one waits for.
        self.inner: _Worker | None = None
        #: True from the moment at which `run` can take an interrupt.
        self.listens = False
        #: True when the function has run, and no further interrupt may be sent.
        self.done = False
        #: True while another thread sends an interrupt.
        self.is_addressed = False
        #: True when nothing else will happen in this thread.
        self.is_over = False
        #: The lock is held until the thread is over. `join` cannot replace it: an interrupted `join` takes the thread
        #: for ended.
        self.busy = threading.Lock()
        self.busy.acquire()

    def claim(self) -> tuple[Context, Callable[[], None]] | None:
        """Take the function with its context, or return None if another thread has taken it."""
        try:
            return self.unclaimed.pop()
        except IndexError:
            return None

    def run(self) -> None:
        try:
            self._run_to_the_end()
        finally:
            self.is_over = True
            self.busy.release()

    def _run_to_the_end(self) -> None:
        """Run the function and store its error. Each interrupt that arrives late costs one more round."""
        settled = False
        context: Context | None = None
        while not settled:
            try:
                self.listens = True
                work = self.claim()
                if work is not None:
                    context, function = work
                    context.run(function)
                self.done = True
                while self.is_addressed:
                    time.sleep(0)
                time.sleep(0)  # An interrupt that was sent is raised after this call at the latest.
                settled = True
            except BaseException as error:
                self.error = error
            work = context = None  # The error's traceback keeps this frame, and a context keeps its modes.

    def interrupt(self, kind: type[BaseException]) -> bool:
        """Raise an exception in the innermost thread that works for this one; False if none does."""
        chain = [self]
        while (inner := chain[-1].inner) is not None:
            chain.append(inner)
        return any(worker._send(kind) for worker in reversed(chain))

    def _send(self, kind: type[BaseException]) -> bool:
        """Raise an exception in this thread; False if it does not listen."""
        try:
            self.is_addressed = True
            if self.done or not self.listens:
                return False
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self.ident or 0), ctypes.py_object(kind))
            return True
        finally:
            self.is_addressed = False


def run_on_fresh_stack(function: Callable[[], None]) -> None:
    """Call `function` in a new thread and wait for it (see Note [Interrupts of nested passes])."""
    worker, caller = _Worker(function), threading.current_thread()
    outer = caller if isinstance(caller, _Worker) else None
    error: BaseException | None = None
    try:
        if outer is not None:
            outer.inner = worker
        error = _start_and_wait(worker)
        runs_here = error is None and worker.claim() is not None
    finally:
        if outer is not None:
            outer.inner = None
        del worker, caller, outer  # A traceback that is kept would keep them, and with them the context.
    if runs_here:
        function()  # No thread is left, or the interpreter is shutting down: the pass goes as deep as the stack allows.
    elif error is not None:
        try:
            raise error
        finally:
            del error


def _start_and_wait(worker: _Worker) -> BaseException | None:
    """Start a worker, and return its error or an interrupt of this thread when the worker is over.

    If the thread does not start, the function is left unclaimed, or an interrupt is returned.
    """
    pending: BaseException | None = None
    while not worker.is_over:
        try:
            if pending is not None:
                if worker.ident is None and isinstance(pending, RuntimeError):
                    return None
                if worker.claim() is not None:
                    return pending
                if worker.interrupt(type(pending)):
                    pending = None
            if worker.ident is None:
                worker.start()
            while not worker.is_over and (worker.busy.acquire(timeout=_PATIENCE) or worker.is_alive()):
                pass
            break  # The worker is over, or another library has ended its thread outside of `run`.
        except BaseException as interrupt:
            pending = interrupt  # Nothing is called here, so no second interrupt can leave the loop.
    return worker.error if pending is None else pending
