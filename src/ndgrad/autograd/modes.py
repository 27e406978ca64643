"""Which modes are in force, per thread, and the one flag that the eager path looks at.

An eager op may spend a few nanoseconds on asking whether anything unusual is going on. So all unusual states
(no_grad, inference mode, function-transform levels, saved-tensor hooks, anomaly mode, ...) are counted in one
process-wide integer, `process.busy`. While it is zero, every thread is in the default mode and the generated
fast lane runs. While it is not, ops take the general lane, which reads this thread's own state.
"""

from __future__ import annotations

import itertools
import threading
from typing import TYPE_CHECKING, Any

from ndgrad.arrays.library import on_second_library

if TYPE_CHECKING:
    from ndgrad.func.levels import Level


class Process:
    """Process-wide state: `busy` counts modes entered by any thread and not yet left, `leaf_hooks` the hooks on leaves
    (and changed sequence numbers), for which the engine must know the moment a leaf is complete."""

    __slots__ = ("busy", "leaf_hooks", "lock")

    def __init__(self) -> None:
        self.busy = 0
        self.leaf_hooks = 0
        self.lock = threading.Lock()


class ThreadState(threading.local):
    """The modes of one thread; the class attributes are the defaults that a new thread starts with."""

    grad_enabled: bool = True
    inference: bool = False
    #: What is_grad_enabled() answers in inference mode, where nothing is recorded whatever the answer.
    grad_asked: bool = True
    forward_grad_enabled: bool = True
    multithreading: bool = True
    view_replay: bool = False
    #: The number of open `forward_ad` dual levels.
    dual_levels: int = 0
    #: The stack of function-transform levels, outermost first.
    levels: tuple[Level, ...] = ()
    #: The stack of (pack, unpack) pairs of saved-tensor hooks, innermost last.
    saved_hooks: tuple[tuple[Any, Any], ...] = ()
    #: Why saved-tensor hooks may not be used now, or None.
    saved_hooks_disabled: str | None = None
    #: Copy on write for saved tensors of torch's face too.
    copy_on_write: bool = False
    anomaly: bool = False
    check_nan: bool = True
    #: Observers that see every op below autograd, innermost last (profilers, recorders, dispatch modes).
    observers: tuple[Any, ...] = ()
    #: Modes that see every public call before anything else does.
    function_modes: tuple[Any, ...] = ()
    #: The backward pass that the thread is running, if any.
    task: Any = None
    #: True while the thread runs a custom function's forward.
    in_custom_forward: bool = False


process = Process()
thread = ThreadState()


#: Numbers of transform levels and dual levels together: of two open ones, the inner has the larger.
next_level_number = itertools.count(1).__next__


def enter() -> None:
    """Count one more unusual mode; pair with `leave` in a `finally`."""
    with process.lock:
        process.busy += 1


def leave() -> None:
    with process.lock:
        process.busy -= 1


# With arrays of a second library about, every call takes the general lane, which looks at each array's library.
on_second_library.append(enter)
