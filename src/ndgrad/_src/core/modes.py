"""Modes in force, per context, and the one flag that the eager path checks.

An eager op can spend only a few nanoseconds on the check for unusual states. So all of them (no_grad, inference mode,
function-transform levels, saved-tensor hooks, anomaly mode, ...) are visible in one process-wide set, `process.busy`.
While it is empty, no context is in any mode and the generated fast path runs. Otherwise ops take the general path,
which reads the modes of its own context.

Note [Modes of a context]
A context variable points at the scope in force, and the scope has the modes. So each thread and each asyncio task has
its own modes, and a task starts with the modes of its creator. Scopes and modes are immutable once they are visible to
other code. Entering a mode sets the variable to another scope; leaving it restores the previous scope. `thread.levels`
reads a field of the modes in force.

A scope with unusual modes holds a token, which it shares with the scopes made inside it. `process.busy` has weak
references to the tokens. Nothing is counted, so no count can be wrong: the token disappears with the last scope of a
chain, after the end of a block, the end of a task, or an exception.

Note [Sections]
If the package itself changes modes around a call, it writes

    outside = scope()
    try:
        restore(outside.recording(False))
        ...
    finally:
        restore(outside)
        del outside

An asynchronous exception (Ctrl-C, PyThreadState_SetAsyncExc) is raised at the entry of a function, after a call, or at
the end of a loop's body. `restore` is a C function, so it completes before the interpreter checks for exceptions. So
no exception can leave the modes changed, and mode changes left by the code inside are undone. A `with` statement is
less safe, because `__exit__` is itself a function that is entered. The `del` is needed because a stored traceback
would keep the scope alive, and with it the token.

Note [Blocks]
Blocks (`with no_grad():`) may be left in another order than they were entered, if generators are suspended inside
them. Then the scope of the block is unlinked from the chain, and the scopes of the open blocks inside it are rebuilt
without it.
"""

from __future__ import annotations

import functools
import os
import weakref
from _thread import get_ident
from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, TypeVar

from ndgrad._src.foundations.locks import make_lock

if TYPE_CHECKING:
    from ndgrad._typing import Level

F = TypeVar("F", bound=Callable[..., Any])


class Stacks(NamedTuple):
    """Stacks of transforms and dual levels inside a transform, and the thread that opened it."""

    levels: tuple[Level, ...]
    duals: tuple[int, ...]
    thread: int


class SavedHooks(NamedTuple):
    """A pair of hooks on saved tensors.

    With a level, they apply to the graphs of that transform and of the transforms around it, but not to transforms
    opened inside the hooks' block.
    """

    pack: Any
    unpack: Any
    level: int | None = None


class Process:
    """Process-wide state.

    `busy` is empty while no context is in any mode. `shared` counts the modes that belong to no context. `leaf_hooks`
    has a token for every hook on a leaf and every changed sequence number; with these, the engine must detect the
    moment a leaf is complete. Tokens need no lock, because adding to a set is atomic.
    """

    __slots__ = (
        "busy",
        "crossed",
        "dispatching",
        "leaf_hooks",
        "lock",
        "named",
        "open",
        "overriding",
        "reopened",
        "shared",
        "youngest",
    )

    def __init__(self) -> None:
        self.busy: set[object] = set()
        self.shared = 0
        #: True if a tensor class with its own dispatch has been defined
        self.dispatching = False
        #: True once a mode that sees every public call has been entered; before that, public wrappers check no modes
        self.overriding = False
        #: True once a tensor in a graph has been moved to another device; a backward pass may then mix array libraries
        self.crossed = False
        #: True once a tensor has been given dimension names
        self.named = False
        self.leaf_hooks: set[object] = set()
        #: open transforms and dual levels of all threads, by number
        self.open: dict[int, Stacks] = {}
        #: largest number of a level opened so far
        self.youngest = 0
        #: number of reruns (of checkpointed functions) inside each level that was closed and reopened
        self.reopened: dict[int, int] = {}
        self.lock = make_lock()


process = Process()


class _Token:
    """Token that lives as long as a scope with unusual modes."""

    __slots__ = ("__weakref__", "thread")

    thread: int


class Modes:
    """The modes in force in one place. `__init__` sets the values that mean no mode."""

    __slots__ = (
        "_alone", "_flipped", "_tokens_below", "_tracer", "autocast", "captures",
        "copy_on_write", "dual_levels", "dual_stack", "enforce_grad_layout", "entered", "forward_grad_enabled",
        "function_modes", "functions_disabled", "grad_asked", "grad_enabled", "in_custom_forward", "inference",
        "levels", "multithreading", "observers", "saved_hooks", "saved_hooks_disabled", "saving", "transforms",
        "view_replay",
    )  # fmt: skip

    def __init__(self) -> None:
        #: Number of entered modes that the fast path does not support.
        self.entered: int = 0
        #: Number of transforms among them. If all are transforms, nothing is unusual below them.
        self.transforms: int = 0
        self.grad_enabled: bool = True
        self.inference: bool = False
        #: Result of is_grad_enabled() in inference mode, which never records.
        self.grad_asked: bool = True
        self.forward_grad_enabled: bool = True
        self.multithreading: bool = True
        self.view_replay: bool = False
        #: True if a leaf's gradient gets the memory layout of the leaf.
        self.enforce_grad_layout: bool = True
        #: The number of open `forward_ad` dual levels.
        self.dual_levels: int = 0
        #: Their numbers, innermost last.
        self.dual_stack: tuple[int, ...] = ()
        #: The stack of function-transform levels, outermost first.
        self.levels: tuple[Level, ...] = ()
        #: The stack of saved-tensor hooks, innermost last.
        self.saved_hooks: tuple[SavedHooks, ...] = ()
        #: While a pack hook runs: the node that saves, and the name of the value in its rules.
        self.saving: tuple[Any, str] | None = None
        #: Reason why saved-tensor hooks are disabled, or None.
        self.saved_hooks_disabled: str | None = None
        #: Copy on write for saved tensors of torch's tensor class too.
        self.copy_on_write: bool = False
        #: Observers that see every op below autograd, innermost last (profilers, recorders, dispatch modes).
        self.observers: tuple[Any, ...] = ()
        #: Modes that see every public call first.
        self.function_modes: tuple[Any, ...] = ()
        #: Number of open blocks that disable the functions of tensor classes (see ndgrad._src.core.subclass).
        self.functions_disabled: int = 0
        #: Object that sees, and may replace, the tensors given to ops: a function whose closure is read or rewritten.
        self.captures: Any = None
        #: Choice of dtypes for each function (see ndgrad.amp); None without autocast.
        self.autocast: Any = None
        #: True while a custom function's forward runs.
        self.in_custom_forward: bool = False
        self._flipped: Modes | None = None
        #: Cached result of `only_autocast`; None before the first call of `is_alone_with_autocast`.
        self._alone: bool | None = None
        #: Cached result of `tracer`; False before the first call.
        self._tracer: Any = False
        #: Size of `process.busy` if only transforms are in force, and only in this context; -1 with other modes here.
        self._tokens_below: int = 0

    def copy(self) -> Modes:
        """Return a copy of the modes, to change before it is put in force."""
        made = _new_modes(Modes)
        made.entered, made.transforms, made.grad_enabled = self.entered, self.transforms, self.grad_enabled
        made.inference, made.grad_asked, made.forward_grad_enabled = (
            self.inference,
            self.grad_asked,
            self.forward_grad_enabled,
        )
        made.multithreading, made.view_replay = self.multithreading, self.view_replay
        made.enforce_grad_layout, made.dual_levels, made.dual_stack = (
            self.enforce_grad_layout,
            self.dual_levels,
            self.dual_stack,
        )
        made.levels, made.saved_hooks, made.saving = self.levels, self.saved_hooks, self.saving
        made.saved_hooks_disabled, made.copy_on_write, made.observers = (
            self.saved_hooks_disabled,
            self.copy_on_write,
            self.observers,
        )
        made.function_modes, made.functions_disabled = self.function_modes, self.functions_disabled
        made.autocast, made.captures, made.in_custom_forward = self.autocast, self.captures, self.in_custom_forward
        made._flipped = None
        made._alone = None
        made._tracer = False
        return made

    def tracer(self) -> Any:
        """Return the innermost observer if it is a tracer and only recording may also be switched here; else None."""
        found = self._tracer
        if found is False:
            others = (
                self.levels, self.dual_stack, self.dual_levels, self.captures, self.saved_hooks, self.function_modes,
                self.functions_disabled, self.inference, self.copy_on_write, self.view_replay, self.autocast,
            )  # fmt: skip
            alone = self.observers and not any(others) and getattr(self.observers[-1], "is_tracer", False)
            found = self._tracer = self.observers[-1] if alone else None
        return found

    def only_autocast(self) -> bool:
        """True if autocast is the only mode in force here, except for recording on or off."""
        return (
            self.autocast is not None
            and not any([
                self.levels, self.dual_stack, self.dual_levels, self.captures, self.saved_hooks, self.function_modes,
                self.functions_disabled, self.inference, self.copy_on_write, self.view_replay, self.observers,
                self.transforms, self.in_custom_forward, self.saved_hooks_disabled, self.saving,
            ])
            and self.forward_grad_enabled
            and self.multithreading
            and self.enforce_grad_layout
        )  # fmt: skip

    def is_alone_with_autocast(self) -> bool:
        """True if autocast is the only mode in force here, recording aside, and no other context is in any mode.

        Autocast chooses dtypes for public functions. The ops below run as without a mode.
        """
        if self.autocast is None or len(process.busy) != 1:
            return False
        if self._alone is None:
            self._alone = self.only_autocast()
        return self._alone

    def flip_recording(self) -> Modes:
        """Return the same modes with recording on and off exchanged."""
        made = self._flipped
        if made is None:
            made = self.copy()
            made.grad_enabled = not self.grad_enabled
            self._flipped = made
        return made

    def only_transforms(self) -> bool:
        """True if at most transforms are in force here, and no other context is in any mode."""
        return len(process.busy) == self._tokens_below

    def only_no_grad(self) -> bool:
        """True if only no_grad is in force here, and no other context is in any mode."""
        return not self.grad_enabled and not self.entered and len(process.busy) == 1


_new_modes = Modes.__new__


class Scope:
    """Value of the context variable: modes, and their token if any mode is unusual.

    Only contexts, open sections and open blocks hold a scope. Other code that needs the modes holds the modes.
    """

    __slots__ = ("_casting", "_observed", "_token", "_under", "closed", "inside", "modes", "outside", "quiet")

    def __init__(
        self,
        modes: Modes,
        token: _Token | None,
        inside: Callable[[Modes], Modes] | None = None,
        outside: Scope | None = None,
    ) -> None:
        self.modes = modes
        modes._tokens_below = (modes.entered != 0) if modes.grad_enabled and modes.entered == modes.transforms else -1
        if modes.grad_enabled and not modes.entered:
            token = None
        elif token is None:
            token = _Token()
            token.thread = get_ident()
            process.busy.add(weakref.ref(token, process.busy.discard))
        self._token = token
        #: True if no_grad is the only mode of this context, and the block is open (see Note [Calls without recording]).
        self.quiet = not modes.grad_enabled and not modes.entered
        #: For a block: function from the modes around it to the modes inside it.
        self.inside = inside
        #: Scope around a block's scope; None at the bottom, and inside a section, which ends before anything around it.
        self.outside = outside
        #: True if the block was left while blocks inside it were open.
        self.closed = False
        self._under: dict[Level, Scope] | None = None
        self._casting: dict[str, Scope] | None = None
        self._observed: Scope | None = None

    def with_changes(self, **fields: Any) -> Scope:
        """Return a scope with some of these modes changed, for a section."""
        made = self.modes.copy()
        for name, value in fields.items():
            setattr(made, name, value)
        return Scope(made, self._token)

    def with_observers(self, observers: tuple[Any, ...]) -> Scope:
        """Return a scope with other observers, for a section. Cached, because every observed op calls it."""
        made = self._observed
        if made is None or made.modes.observers != observers:
            made = self._observed = self.with_changes(observers=observers)
        return made

    def without_casts(self, device: str) -> Scope:
        """Return a scope in which autocast is off for a kind of device. Cached, because every cast function calls it.
        """
        cache = self._casting
        if cache is None:
            cache = self._casting = {}
        made = cache.get(device)
        if made is None:
            made = cache[device] = self.with_changes(autocast=self.modes.autocast.switch(device, False))
        return made

    def recording(self, value: bool) -> Scope:
        """Return a scope with recording on or off, for a section."""
        modes = self.modes
        return self if modes.grad_enabled is value else Scope(modes.flip_recording(), self._token)

    def scope_below(self, level: Level) -> Scope:
        """Return a scope with the modes below the open `level`. Cached, because every op of a transform calls it."""
        enabled = level.enabled_below(self.modes.grad_enabled)
        cache = self._under
        if cache is None:
            cache = self._under = {}
        made = cache.get(level)
        if made is None or made.modes.grad_enabled is not enabled:
            modes = self.modes.copy()
            modes.levels, modes.grad_enabled = level.outside, enabled
            made = cache[level] = Scope(modes, self._token)
        return made

    def move_into(self, outside: Scope) -> Scope:
        """Move the scope of an open block into another scope. The object stays the same: the block refers to it."""
        assert self.inside is not None
        self.__init__(self.inside(outside.modes), outside._token, self.inside, outside)  # type: ignore[misc]
        return self


NONE = Scope(Modes(), None)
_variable: ContextVar[Scope] = ContextVar("ndgrad_modes", default=NONE)
#: Getter of the scope set last, whose block may be closed.
current = _variable.get
#: Put a scope in force, in C (see Note [Sections]).
restore = _variable.set
_task: ContextVar[Any] = ContextVar("ndgrad_task", default=None)
#: Getter and setter of the running backward pass. It is not a mode, so the fast path ignores it.
running, set_running = _task.get, _task.set


def scope() -> Scope:
    """Return the scope in force."""
    found = current()
    return found if not found.closed else _settle()


def modes() -> Modes:
    """Return the modes in force."""
    found = current()
    return found.modes if not found.closed else _settle().modes


def _settle() -> Scope:
    """Return the innermost scope whose block is open, and put it in force."""
    found: Any = current()
    while found.closed:
        found = found.outside
    restore(found)
    return found  # the scope of no mode is never closed


def put_in_force(modes: Modes) -> None:
    """Put changed modes in force, until the surrounding block or section ends."""
    before = scope()
    outside = before if before.inside is not None or before is NONE else before.outside
    restore(Scope(modes, before._token, None, outside))


def section(function: F) -> F:
    """Decorate a function so that mode changes inside it end with it (see Note [Sections])."""

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        outside, youngest = scope(), process.youngest
        try:
            return function(*args, **kwargs)
        finally:
            restore(outside)
            del outside
            if process.open and process.youngest != youngest:
                _forget_since(youngest)

    return run  # type: ignore[return-value]  # a decorator returns its argument's type


def _forget_since(youngest: int) -> None:
    """Forget transforms and dual levels that this thread has opened since `youngest` and an interrupt left open."""
    here = get_ident()
    for number, stacks in process.open.copy().items():
        if number > youngest and stacks.thread == here and number not in process.reopened:
            process.open.pop(number, None)


# ----- blocks ---------------------------------------------------------------------------------------------------------


class Block:
    """A context manager that changes modes. It can be entered repeatedly and nested."""

    _stack: list[Any]
    #: True if `with block as name` binds the block; otherwise it binds None.
    names_itself = False

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        made = super().__new__(cls)
        made._stack = []  # not in __init__, which users' subclasses may skip
        return made

    def change(self, modes: Modes) -> None:
        """Change modes into those inside the block."""
        raise NotImplementedError

    def inside(self, modes: Modes) -> Modes:
        """Return the modes inside the block, from those around it."""
        made = modes.copy()
        self.change(made)
        return made

    #: Hooks before the block is entered (may refuse it) and after it has been left. Subclasses define these instead of
    #: overriding `__enter__`: an interrupt after a super().__enter__() call would leave the block open.
    begin: ClassVar[Callable[[Any], None] | None] = None
    end: ClassVar[Callable[[Any], None] | None] = None

    def __enter__(self) -> Any:
        if self.begin is not None:
            self.begin()
        before, block = scope(), None
        try:
            block = open_block(self.inside, before)
            self._stack.append(block)
        except BaseException:
            restore(before)
            self._stack[:] = [entered for entered in self._stack if entered is not block]
            if self.end is not None:
                self.end()
            raise
        return self if self.names_itself else None

    def __exit__(self, *exc: object) -> None:
        block = self._stack[-1]
        block.quiet = False
        block.closed = True  # not a call, so no interrupt can come between: the mode ends here
        try:
            self._stack.pop()
            close_block(block)
        finally:
            if self.end is not None:
                self.end()


def open_block(inside: Callable[[Modes], Modes], outside: Scope) -> Scope:
    """Enter a block with modes made from those of `outside`, the scope in force. Return the scope for `close_block`."""
    made = Scope(inside(outside.modes), outside._token, inside, outside)
    restore(made)
    return made


def close_block(block: Scope) -> None:
    """Leave a block whose scope has been marked as closed (see Note [Blocks])."""
    below = block.outside
    assert below is not None
    found = current()
    if found is block:
        restore(below)
        block.closed = False  # a task started inside the block is still in its modes
        block.quiet = not block.modes.grad_enabled and not block.modes.entered
        return
    opened = []
    while found is not block:
        if found.inside is not None and not found.closed:
            opened.append(found)
        if found.outside is None:
            return  # belongs to another context or lies outside a section, which skips it when it resumes
        found = found.outside
    while opened:
        below = opened.pop().move_into(below)
    restore(below)


class under_autocast(Block):
    """A block that restores a saved autocast state, for rerunning a function."""

    def __init__(self, state: Any) -> None:
        self.state = None if state is None else state._replace(casts={})  # cached casts live as long as a block

    def change(self, modes: Modes) -> None:
        modes.entered += 1
        modes.autocast = self.state


# ----- access to the modes in force -----------------------------------------------------------------------------------

if TYPE_CHECKING:
    _Fields = Modes
else:
    _Fields = object


class ThreadState(_Fields):
    """Attribute access to the modes in force: setting `thread.levels` puts a changed copy in force.

    The attributes below are the process's modes for debugging (see Note [What is remembered when]). They are set on
    this class.
    """

    anomaly: bool = False
    check_nan: bool = True
    check_inf: bool = False
    debug: bool = False
    guard: bool = False
    #: True if nodes remember the user's lines: any of debug, guard and anomaly.
    remembers: bool = False
    #: Watchers that see every call from outside (see ndgrad._src.core.call_watchers).
    watchers: tuple[Any, ...] = ()

    #: The running backward pass, or None.
    task: Any = property(lambda self: running())


def _field(name: str) -> property:
    def write(self: ThreadState, value: object) -> None:
        made = modes().copy()
        setattr(made, name, value)
        put_in_force(made)

    names = {"current": current, "settled": _settle}
    return property(
        eval(
            compile(
                f"lambda self: (found if not (found := current()).closed else settled()).modes.{name}",
                "<ndgrad generated mode>",
                "eval",
            ),
            names,
        ),
        write,
    )


for _name in [name for name in Modes.__slots__ if not name.startswith("_")]:
    setattr(ThreadState, _name, _field(_name))
thread = ThreadState()


# ----- modes of the process -------------------------------------------------------------------------------------------


def enter_process() -> None:
    """Count one more unusual mode of the process; pair with `leave_process`."""
    with process.lock:
        process.shared += 1
        process.busy.add("process")


def leave_process() -> None:
    with process.lock:
        process.shared -= 1
        if not process.shared:
            process.busy.discard("process")


def _drop_other_threads() -> None:
    """Remove the modes of other threads after a fork: the child has only the thread that forked."""
    here = get_ident()
    process.open = {number: stacks for number, stacks in process.open.items() if stacks.thread == here}
    for entry in list(process.busy):
        if isinstance(entry, weakref.ref) and ((token := entry()) is None or token.thread != here):
            process.busy.discard(entry)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_drop_other_threads)
