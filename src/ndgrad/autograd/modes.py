"""Which modes are in force, per thread, and the one flag that the eager path looks at.

An eager op may spend a few nanoseconds on asking whether anything unusual is going on. So all unusual states
(no_grad, inference mode, function-transform levels, saved-tensor hooks, anomaly mode, ...) are counted in one
process-wide integer, `process.busy`. While it is zero, every thread is in the default mode and the generated
fast lane runs. While it is not, ops take the general lane, which reads this thread's own state.
"""

from __future__ import annotations

import itertools
import os
import threading
from threading import get_ident
from typing import TYPE_CHECKING, Any, NamedTuple

from ndgrad.arrays.library import on_second_library

if TYPE_CHECKING:
    from ndgrad.func.levels import Level


class Stacks(NamedTuple):
    """The stacks of transforms and of dual levels inside one of them, and the thread that opened it."""

    levels: tuple[Level, ...]
    duals: tuple[int, ...]
    thread: int


class Process:
    """Process-wide state: `busy` counts modes entered by any thread and not yet left, `shared` those among them that belong to no
    thread; `leaf_hooks` has a token for every hook on a leaf (and changed sequence number), for which the engine must know the moment a
    leaf is complete.

    The lock is one that its holder may take again: a signal handler, or a finalizer that the collector runs, may enter and leave a
    mode at any point, also in the middle of `enter`. Tokens need no lock: adding to a set is one step.
    """

    __slots__ = ("busy", "crossed", "dispatching", "leaf_hooks", "lock", "open", "reopened", "shared", "youngest")

    def __init__(self) -> None:
        self.busy = 0
        self.shared = 0
        #: whether a tensor class with a dispatch of its own has been defined
        self.dispatching = False
        #: whether a tensor in a graph has been moved to another device: one backward pass may meet arrays of several libraries
        self.crossed = False
        self.leaf_hooks: set[object] = set()
        #: the open transforms and dual levels of all threads, by number
        self.open: dict[int, Stacks] = {}
        #: the last of them
        self.youngest = 0
        #: how many reruns (of checkpointed functions) are inside each of those among them that had been closed
        self.reopened: dict[int, int] = {}
        self.lock = threading.RLock()


class SavedHooks(NamedTuple):
    """A pair of hooks on saved tensors. With a level, they are for the graphs of that transform and of those around it, and not for
    those of transforms that are opened inside the hooks' block."""

    pack: Any
    unpack: Any
    level: int | None = None


class ThreadState(threading.local):
    """The modes of one thread; the class attributes are the defaults that a new thread starts with."""

    #: How many of the modes that `process.busy` counts this thread has entered, no_grad apart, whose state is `grad_enabled`.
    entered: int = 0
    grad_enabled: bool = True
    inference: bool = False
    #: What is_grad_enabled() answers in inference mode, where nothing is recorded whatever the answer.
    grad_asked: bool = True
    forward_grad_enabled: bool = True
    multithreading: bool = True
    view_replay: bool = False
    #: Whether a leaf's gradient is made to lie in memory as the leaf does.
    enforce_grad_layout: bool = True
    #: How many of the modes that `process.busy` counts are this thread's own transforms: if all are, nothing is unusual below them.
    transforms: int = 0
    #: The number of open `forward_ad` dual levels.
    dual_levels: int = 0
    #: Their numbers, innermost last.
    dual_stack: tuple[int, ...] = ()
    #: The stack of function-transform levels, outermost first.
    levels: tuple[Level, ...] = ()
    #: The stack of saved-tensor hooks, innermost last.
    saved_hooks: tuple[SavedHooks, ...] = ()
    #: While a pack hook runs: the node that saves, and the name under which its rules know the value.
    saving: tuple[Any, str] | None = None
    #: Why saved-tensor hooks may not be used now, or None.
    saved_hooks_disabled: str | None = None
    #: Copy on write for saved tensors of torch's face too.
    copy_on_write: bool = False
    #: The process's modes for debugging (see Note [What is remembered when]); they are set on this class, for all threads.
    anomaly: bool = False
    check_nan: bool = True
    check_inf: bool = False
    debug: bool = False
    guard: bool = False
    #: Whether nodes remember the user's lines: any of debug, guard and anomaly.
    remembers: bool = False
    #: Observers that see every op below autograd, innermost last (profilers, recorders, dispatch modes).
    observers: tuple[Any, ...] = ()
    #: What sees every call from outside (see ndgrad.autograd.watch); the process's, so set on this class.
    watchers: tuple[Any, ...] = ()
    #: Modes that see every public call before anything else does.
    function_modes: tuple[Any, ...] = ()
    #: Blocks in which classes' own functions are not asked (see ndgrad.autograd.subclass).
    functions_disabled: int = 0
    #: The backward pass that the thread is running, if any.
    task: Any = None
    #: What looks at the tensors that ops are given and may replace them: a function whose closure is being read or rewritten.
    captures: Any = None
    #: True while the thread runs a custom function's forward.
    in_custom_forward: bool = False


process = Process()
thread = ThreadState()


#: Numbers of transform levels and dual levels together: of two open ones, the inner has the larger.
next_level_number = itertools.count(1).__next__


def birth() -> int:
    """What `Meta.born` is of a tensor that is made now: the innermost transform of this thread; in one that has opened none, the youngest
    of all, since it may be at work for the thread that did (see Note [Threads inside transforms])."""
    levels = thread.levels
    return levels[-1].number if levels else process.youngest


def note_open(number: int) -> None:
    """Let all threads know of a transform or dual level that this one has just pushed."""
    process.open[number] = Stacks(thread.levels, thread.dual_stack, get_ident())
    process.youngest = max(process.youngest, number)


class joined:
    """This thread inside a transform that another one has opened.

    Note [Threads inside transforms]
    A transform belongs to the thread that opened it, and its tensors may go anywhere: a pool maps a function over them. An op that
    meets a tensor of a level that is open elsewhere runs inside that level, as it would there. Levels this thread has opened itself
    are inside of it if they are younger, as they would be in one thread. Modes (no_grad, hooks) stay this thread's own.
    """

    __slots__ = ("number", "was")

    def __init__(self, number: int) -> None:
        self.number = number

    def __enter__(self) -> None:
        levels, duals = self._stacks()
        self.was = thread.levels, thread.dual_stack, thread.dual_levels
        thread.levels = tuple(sorted({*levels, *thread.levels}, key=lambda level: level.number))
        thread.dual_stack = tuple(sorted({*duals, *thread.dual_stack}))
        thread.dual_levels = len(thread.dual_stack)

    def __exit__(self, *exc: object) -> None:
        thread.levels, thread.dual_stack, thread.dual_levels = self.was

    def _stacks(self) -> tuple[tuple[Level, ...], tuple[int, ...]]:
        """Those of the thread that opened it, as they are now: what is made inside the innermost may take its values."""
        still_open = process.open.copy()
        if self.number in still_open:
            owner = still_open[self.number].thread
            for levels, duals, opener in reversed(still_open.values()):
                if opener == owner and (self.number in duals or any(level.number == self.number for level in levels)):
                    return levels, duals
        raise RuntimeError("a function transform of another thread ended while this one worked inside it. Wait for threads before.")


def stacks_around() -> tuple[tuple[Level, ...], tuple[int, ...]]:
    """The transforms and dual levels that this thread is in; if it has opened none, those of the thread that it may be at work for, which
    is taken to be the one that has opened the youngest."""
    if thread.levels or thread.dual_stack or not process.open:
        return thread.levels, thread.dual_stack
    last = next(reversed(process.open.copy().values()), None)
    return ((), ()) if last is None else (last.levels, last.duals)


class reopened:
    """The transforms and dual levels that were open when something ran, for running it again when they may have been closed."""

    __slots__ = ("stacks", "was")

    def __init__(self, levels: tuple[Level, ...], duals: tuple[int, ...]) -> None:
        self.stacks = levels, duals

    def __enter__(self) -> None:
        levels, duals = self.stacks
        self.was = thread.levels, thread.dual_stack, thread.dual_levels
        enter()
        with process.lock:
            for number in (*(level.number for level in levels), *duals):
                if number not in process.open or number in process.reopened:
                    process.reopened[number] = process.reopened.get(number, 0) + 1
                    process.open[number] = Stacks(levels, duals, get_ident())
        thread.levels, thread.dual_stack, thread.dual_levels = levels, duals, len(duals)

    def __exit__(self, *exc: object) -> None:
        levels, duals = self.stacks
        thread.levels, thread.dual_stack, thread.dual_levels = self.was
        with process.lock:
            for number in (*(level.number for level in levels), *duals):
                count = process.reopened.get(number, 0)
                if count > 1:
                    process.reopened[number] = count - 1
                elif count:
                    del process.reopened[number], process.open[number]
        leave()


def enter() -> None:
    """Count one more unusual mode of this thread; pair with `leave` in a `finally`."""
    with process.lock:
        process.busy += 1
    thread.entered += 1


def leave() -> None:
    with process.lock:
        process.busy -= 1
    thread.entered -= 1


def enter_process() -> None:
    """Count one more unusual mode of the process; pair with `leave_process`."""
    with process.lock:
        process.busy += 1
        process.shared += 1


def leave_process() -> None:
    with process.lock:
        process.busy -= 1
        process.shared -= 1


def switch_grad(value: bool) -> bool:
    """Let this thread record or not, and say what it did before, which goes into a second call in a `finally`.

    Whatever the code in between does to the mode (`set_grad_enabled(True)` as a statement, say), the count comes out right, since
    every change is counted where it is made.
    """
    was = thread.grad_enabled
    if was is not value:
        thread.grad_enabled = value
        with process.lock:
            process.busy += -1 if value else 1
    return was


def _after_fork() -> None:
    """A child has only the thread that forked: nobody is left to give a lock back, or to leave the other threads' modes."""
    process.lock = threading.RLock()
    process.open = {number: stacks for number, stacks in process.open.items() if stacks.thread == get_ident()}
    process.busy = process.shared + thread.entered + (not thread.grad_enabled)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


# With arrays of a second library about, every call takes the general lane, which looks at each array's library.
on_second_library.append(enter_process)
